//! Errors that prevent a run.

use std::fmt;

use warpproof_sandbox::Outside;

use warpproof_evidence::ledger::LedgerError;
use warpproof_task::Incompatible;

/// Why a run failed.
#[derive(Debug)]
pub enum SessionError {
    /// The ledger.
    Ledger(LedgerError),
    /// The task changed but its version did not; the run that used the earlier text.
    Task(Incompatible, String),
    /// No candidate has this name; the names that exist.
    NoCandidate(String, Vec<String>),
    /// The task has no candidate.
    NoCandidates,
    /// A run cannot be continued because something changed; the run, and what changed.
    Changed(String, String),
    /// A run's record does not contain its secret.
    NoSecret(String),
    /// A file that the task names is outside its directory.
    Outside(Outside),
    /// A file that the task names cannot be read.
    File(String, std::io::Error),
    /// The system has no random bytes to draw a secret from.
    NoRandom(String),
}

impl fmt::Display for SessionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ledger(error) => error.fmt(f),
            Self::Task(error, run) => write!(f, "{error} (run {run} used the earlier text)"),
            Self::NoCandidate(name, known) => {
                write!(f, "the task has no candidate `{name}`; its candidates are {}", known.join(", "))
            }
            Self::NoRandom(why) => write!(f, "cannot read random bytes from the system: {why}"),
            Self::NoCandidates => f.write_str("the task has no candidates"),
            Self::Changed(run, what) => {
                write!(f, "run {run} cannot be continued: {what} has changed since it began")
            }
            Self::NoSecret(run) => write!(f, "run {run} cannot be continued: its record contains no secret"),
            Self::Outside(outside) => write!(f, "a file named in the task: {outside}"),
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
