//! Submits a run to a fleet and shows it as if it had run here.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use warpproof_fleet_client::submit::{Wish, judge};
use warpproof_fleet_client::wire::{RunView, State};
use warpproof_gate::session::Session;
use warpproof_task::Task;
use warpproof_toolchain::Toolchain;

use super::super::{Gate, Progress, directory, file_name, of_session, stop_on_interrupt};
use crate::commands::fleet::client::of_submission;
use crate::report::{Outcome, Report};
use crate::terminal::Terminal;

impl Gate {
    /// Evaluates on a fleet, with the same result as a local run.
    pub(in super::super) fn elsewhere(
        &self,
        task: &Task,
        text: &str,
        terminal: &mut Terminal,
    ) -> Result<Outcome, Vec<Report>> {
        let stop = stop_on_interrupt();
        let fleet = self.elsewhere.fleet().map_err(|report| vec![*report])?.with_stop(stop.clone());
        let capability = self.elsewhere.capability(&self.gpu).map_err(|report| vec![*report])?;
        let (ledger, _) = self.ledger.create().map_err(|report| vec![*report])?;
        let toolchain = Toolchain::partial(&self.toolchain.options());
        let here = Session {
            task,
            text,
            directory: directory(&self.task),
            toolchain: &toolchain,
            ledger: &ledger,
            clocks: None,
            stop: &stop,
        };
        here.check_task().map_err(|error| vec![of_session(&error)])?;
        let arguments: Vec<String> = std::env::args().skip(1).collect();
        let wish = Wish {
            task,
            text,
            file: file_name(&self.task),
            directory: directory(&self.task),
            candidates: &self.candidates,
            secret: self.secret,
            fresh: self.fresh,
            capability: &capability,
            arguments: &arguments,
        };
        let progress = Progress::new(terminal);
        let returned = judge(&fleet, &ledger, &wish, &stop, &|run| progress.look(run));
        progress.bar.finish_and_clear();
        let returned = returned.map_err(|error| vec![of_submission(&error)])?;
        let outcome = self.render(&returned.report, &ledger, terminal);
        for (candidate, why) in &returned.given_up {
            terminal.say(format_args!("{candidate}: failed on the fleet: {}", why.escape_debug()));
        }
        Ok(outcome)
    }
}

impl Progress {
    /// A run of a fleet: progress counts its candidates.
    fn look(&self, run: &RunView) {
        let count = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
        let ended = run.jobs.iter().filter(|job| job.state.is_settled()).count();
        self.bar.set_length(count(run.jobs.len()));
        self.bar.set_position(count(ended));
        let before = self.ended.swap(ended, Ordering::Relaxed);
        let held = run.jobs.iter().find(|job| job.state == State::Leased);
        self.bar
            .set_message(held.map_or_else(|| "waiting for a worker".to_owned(), |job| job.candidate.clone()));
        if ended > before {
            let verdicts = run.jobs.iter().filter_map(|job| job.verdict.as_ref());
            let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
            verdicts.for_each(|verdict| *counts.entry(verdict).or_default() += 1);
            let counts: Vec<String> = counts.iter().map(|(verdict, n)| format!("{n} {verdict}")).collect();
            self.bar.println(counts.join(", "));
        }
    }
}
