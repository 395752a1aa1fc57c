//! Evaluators, which take variants through the stages: this machine, or others.

use std::sync::atomic::Ordering;

use super::Event;
use crate::session::{Judged, Options, Screened, Screening, Session, SessionError};
use warpproof_task::Task;

/// Takes variants of a task's candidates through its stages. A search needs nothing else from its evaluator, so the
/// search is the same wherever variants are evaluated.
pub trait Judges {
    /// Why it failed.
    type Error;

    /// The task, as it is written.
    fn task(&self) -> &Task;

    /// Whether it times on a device.
    fn times(&self) -> bool;

    /// Whether a stop was requested.
    fn is_stopped(&self) -> bool;

    /// Whether the results in the ledger are for this text of the task.
    fn check_task(&self) -> Result<(), Self::Error>;

    /// Takes variants through stages. They are candidates of `task`, which is the task extended with them. Returns
    /// one result for each, in their order.
    fn screen(
        &self,
        task: &Task,
        screening: &Screening<'_>,
        options: &Options,
        tell: &(dyn Fn(Event<'_>) + Sync),
    ) -> Result<Vec<Screened>, Self::Error>;

    /// Takes one variant through all stages, as the newest run of the ledger.
    fn decide(&self, task: &Task, candidate: &str, options: &Options) -> Result<Option<Judged>, Self::Error>;
}

/// This session with another task.
fn with<'s>(session: &Session<'s>, task: &'s Task) -> Session<'s> {
    let Session { text, directory, toolchain, ledger, clocks, stop, .. } = *session;
    Session { task, text, directory, toolchain, ledger, clocks, stop }
}

impl Judges for Session<'_> {
    type Error = SessionError;

    fn task(&self) -> &Task {
        self.task
    }

    fn times(&self) -> bool {
        self.clocks.is_some()
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn check_task(&self) -> Result<(), SessionError> {
        Session::check_task(self)
    }

    fn screen(
        &self,
        task: &Task,
        screening: &Screening<'_>,
        options: &Options,
        tell: &(dyn Fn(Event<'_>) + Sync),
    ) -> Result<Vec<Screened>, SessionError> {
        let told = |event: crate::session::Event<'_>| {
            if let crate::session::Event::Ended { step, .. } = event {
                tell(Event::Ended(step));
            }
        };
        Session::screen(&with(self, task), screening, options, &told)
    }

    fn decide(
        &self,
        task: &Task,
        candidate: &str,
        options: &Options,
    ) -> Result<Option<Judged>, SessionError> {
        let options = Options { candidates: vec![candidate.to_owned()], ..options.clone() };
        let report = with(self, task).run(&options, &|_| {})?;
        Ok(report.judged.into_iter().find(|one| one.decision.is_some()))
    }
}
