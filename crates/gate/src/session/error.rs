//! Why there is no run.

use std::fmt;

use warpproof_sandbox::Outside;

use crate::ledger::LedgerError;
use crate::task::Incompatible;

/// Why there is no run.
#[derive(Debug)]
pub enum SessionError {
    /// The ledger.
    Ledger(LedgerError),
    /// The task was changed and its version was not; the run that knew it otherwise.
    Task(Incompatible, String),
    /// There is no candidate of this name; those that there are.
    NoCandidate(String, Vec<String>),
    /// The task has no candidate.
    NoCandidates,
    /// A run cannot be continued, because something is another now; the run, and what.
    Changed(String, String),
    /// A run's record does not say what it was drawn from.
    NoSecret(String),
    /// A file that the task names is outside of its directory.
    Outside(Outside),
    /// A file that the task names cannot be read.
    File(String, std::io::Error),
}

impl fmt::Display for SessionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ledger(error) => error.fmt(f),
            Self::Task(error, run) => write!(f, "{error} (run {run} was judged by the earlier one)"),
            Self::NoCandidate(name, known) => {
                write!(f, "there is no candidate `{name}`; there are {}", known.join(", "))
            }
            Self::NoCandidates => f.write_str("the task has no candidate: there is nothing to judge"),
            Self::Changed(run, what) => {
                write!(f, "run {run} cannot be continued: {what} has changed since it began")
            }
            Self::NoSecret(run) => write!(f, "run {run} cannot be continued: its record holds no secret"),
            Self::Outside(outside) => write!(f, "a file that the task names: {outside}"),
            Self::File(file, error) => write!(f, "cannot read {file}: {error}"),
        }
    }
}

impl std::error::Error for SessionError {}

impl From<LedgerError> for SessionError {
    fn from(error: LedgerError) -> Self {
        Self::Ledger(error)
    }
}
