//! `warpproof tune`: searches the macros of a candidate and evaluates every variant with the gate.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde_json::json;
#[cfg(feature = "fleet")]
use warpproof_fleet_client::search::FleetJudges;
use warpproof_gate::session::Session;
use warpproof_gate::stage::Clocks;
use warpproof_gate::tune::search::Strategy;
use warpproof_gate::tune::{Event, Judges, SCHEMA, Settings, Study, TuneError, text, tune};
use warpproof_task::Task;
use warpproof_toolchain::{Part, Toolchain};

use super::flags::{GpuFlags, JsonFlag, LedgerFlags, ToolchainFlags, missing, note_unconfined};
use super::fleet::FleetFlags;
#[cfg(feature = "fleet")]
use super::fleet::client::of_submission;
use super::gate::{directory, of_session, read_task, stop_on_interrupt};
use super::limits::LimitFlags;
use crate::report::{Kind, Outcome, Report};
use crate::terminal::Terminal;

/// Search the macros of a candidate for the fastest variant
///
/// The task declares the search space: [[space]] with a candidate, macros, their values, and
/// constraints between them. Every variant runs the gate's stages build, budget and model. The
/// current best must pass every stage to stay the best. Without a GPU, times are predicted.
///
/// Results are stored in the ledger. To continue a stopped search, run the same command again.
/// The same seed gives the same search, also on a fleet; with a fleet, no local compiler is
/// needed.
///
/// Exit codes: 0 the best variant passed all stages · 1 no variant passed · 2 wrong usage or invalid
/// task · 4 time limit reached · 5 stopped, or no variant could be evaluated.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Tune {
    /// The task file
    #[arg(value_name = "TASK.toml")]
    task: PathBuf,
    /// Vary this candidate [default: the only candidate with a space]
    #[arg(value_name = "CANDIDATE")]
    candidate: Option<String>,
    /// Set the search strategy
    #[arg(long, value_enum, value_name = "HOW", default_value = "evolution")]
    search: Search,
    /// Evaluate at most N variants [default: a quarter, at least 32; all with grid]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=262_144))]
    budget: Option<u32>,
    /// Set the seed of the search
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Run all stages for every variant, not only for the best
    #[arg(long)]
    full: bool,
    #[command(flatten)]
    gpu: GpuFlags,
    #[command(flatten)]
    elsewhere: FleetFlags,
    /// Start no new generation after this many seconds
    #[arg(long, value_name = "SECONDS")]
    time_limit: Option<u32>,
    /// Run at most N stages in parallel [default: the number of cores]
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
    #[command(flatten)]
    json: JsonFlag,
    #[command(flatten)]
    ledger: LedgerFlags,
    #[command(flatten)]
    limits: LimitFlags,
    #[command(flatten)]
    toolchain: ToolchainFlags,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Search {
    /// All variants, in order
    Grid,
    /// Random variants
    Random,
    /// Mutations of the best variants
    Evolution,
}

impl Tune {
    pub(crate) fn run(&self, terminal: &mut Terminal) -> Outcome {
        match self.search(terminal) {
            Ok(outcome) => outcome,
            Err(reports) => {
                let kind = reports.first().map_or(Kind::Usage, |report| report.kind);
                if self.json.wanted {
                    terminal.json(&json!({ "schema": SCHEMA, "errors": reports }));
                }
                for report in &reports {
                    terminal.report(report);
                }
                Outcome::Stopped(kind)
            }
        }
    }

    fn search(&self, terminal: &mut Terminal) -> Result<Outcome, Vec<Report>> {
        let (task, source) = read_task(&self.task)?;
        let candidate = self.candidate(&task).map_err(|report| vec![*report])?;
        let elsewhere = self.elsewhere.is_wanted();
        let toolchain = Toolchain::partial(&self.toolchain.options());
        if !elsewhere {
            toolchain.require(&[Part::Nvrtc, Part::Ptxas]).map_err(|error| vec![missing(&error)])?;
            note_unconfined(terminal);
        }
        let (ledger, _) = self.ledger.create().map_err(|report| vec![*report])?;
        let stop = stop_on_interrupt();
        // A fleet measures on its own devices.
        let runner =
            if elsewhere { None } else { self.gpu.start(terminal).map_err(|report| vec![*report])? };
        let session = Session {
            task: &task,
            text: &source,
            directory: directory(&self.task),
            toolchain: &toolchain,
            ledger: &ledger,
            clocks: runner.as_ref().map(|runner| -> &dyn Clocks { runner }),
            stop: &stop,
        };
        let settings = Settings {
            strategy: match self.search {
                Search::Grid => Strategy::Grid,
                Search::Random => Strategy::Random,
                Search::Evolution => Strategy::Evolution,
            },
            seed: self.seed,
            budget: self.budget.and_then(|budget| usize::try_from(budget).ok()),
            full: self.full,
            time_limit: self.time_limit.map(|seconds| Duration::from_secs(u64::from(seconds))),
            // A measurement needs the device for itself.
            jobs: self.jobs.map_or(usize::from(self.gpu.is_wanted()), usize::from),
            arguments: std::env::args().skip(1).collect(),
            allowance: self.limits.allowance(),
        };
        let study = if elsewhere {
            self.elsewhere(&session, &candidate, &settings, terminal)
        } else {
            follow(&session, &candidate, &settings, terminal)
                .map_err(|error| Box::new(of_tuning(&error, of_session)))
        };
        let study = study.map_err(|report| vec![*report])?;
        if self.json.wanted {
            let value = serde_json::to_value(&study);
            let value = value.map_err(|error| {
                vec![Report::error(Kind::Bug, format!("cannot write the study as JSON: {error}"))]
            })?;
            terminal.json(&value);
        } else {
            terminal.print(text::text(&study, &self.task.display().to_string()));
            let known = study.evaluations.len().saturating_sub(study.fresh);
            let done = format!("{} evaluated now, {known} cached", study.fresh);
            terminal.say(format_args!("{done}; in {}", ledger.root().display()));
        }
        Ok(match study.exit_code() {
            0 => Outcome::Green,
            1 => Outcome::Stopped(Kind::Kernel),
            4 => Outcome::Stopped(Kind::Limit),
            _ => Outcome::Stopped(Kind::Inconclusive),
        })
    }

    /// The search, with variants that a fleet evaluates.
    #[cfg(feature = "fleet")]
    fn elsewhere(
        &self,
        session: &Session<'_>,
        candidate: &str,
        settings: &Settings,
        terminal: &Terminal,
    ) -> Result<Study, Box<Report>> {
        let fleet = self.elsewhere.fleet()?;
        let capability = self.elsewhere.capability(&self.gpu)?;
        let judges = FleetJudges::new(session, &fleet, super::gate::file_name(&self.task), &capability);
        let judges = judges.map_err(|error| Box::new(of_submission(&error)))?;
        follow(&judges, candidate, settings, terminal)
            .map_err(|error| Box::new(of_tuning(&error, of_submission)))
    }

    /// Reports that this build has no client.
    #[cfg(not(feature = "fleet"))]
    #[expect(clippy::unused_self, reason = "with the client it reads the flags")]
    fn elsewhere(&self, _: &Session<'_>, _: &str, _: &Settings, _: &Terminal) -> Result<Study, Box<Report>> {
        Err(super::fleet::absent())
    }

    /// The candidate to vary.
    fn candidate(&self, task: &Task) -> Result<String, Box<Report>> {
        let spaces: Vec<&str> = task.spaces.iter().map(|space| space.candidate.as_str()).collect();
        let help =
            "add a [[space]] with candidate, values and require; see the chapter on tuning in the book";
        let (sentence, help) = match (&self.candidate, spaces.as_slice()) {
            (Some(name), _) if spaces.contains(&name.as_str()) => return Ok(name.clone()),
            (None, [one]) => return Ok((*one).to_owned()),
            (None, []) => ("the task declares no [[space]]".to_owned(), help.to_owned()),
            (None, _) => (
                "the task has several spaces; select a candidate".to_owned(),
                format!("candidates with a space: {}", spaces.join(", ")),
            ),
            (Some(name), _) => (format!("the task declares no [[space]] for `{name}`"), help.to_owned()),
        };
        Err(Box::new(Report::error(Kind::Usage, sentence).help(help)))
    }
}

/// Runs the search and shows progress.
fn follow<J: Judges>(
    judges: &J,
    candidate: &str,
    settings: &Settings,
    terminal: &Terminal,
) -> Result<Study, TuneError<J::Error>> {
    let progress = terminal.progress();
    let study = tune(judges, candidate, settings, &|event| match event {
        Event::Generation { done, of, best } => {
            let best = best.map(|best| format!(", best {:.3} us", best.us)).unwrap_or_default();
            progress.set_message(format!("{done} of {of}{best}"));
            progress.println(format!("{done} of {of} evaluated{best}"));
        }
        Event::Ended(step) => progress.set_message(format!("{}: {}", step.candidate, step.stage)),
        Event::Leads(candidate) => {
            progress.set_message(format!("{candidate} is the best: running all stages"));
        }
    });
    progress.finish_and_clear();
    study
}

fn of_tuning<E: fmt::Display>(error: &TuneError<E>, of_judges: impl Fn(&E) -> Report) -> Report {
    match error {
        TuneError::Judges(error) => of_judges(error),
        TuneError::Points(_) => Report::error(Kind::Usage, error.to_string())
            .help("relax `require`, or remove values, in the task's [[space]]"),
        TuneError::NoSpace(_) | TuneError::NoTimes => Report::error(Kind::Usage, error.to_string()),
    }
}
