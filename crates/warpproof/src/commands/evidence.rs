//! Errors of a ledger or of a view of it, as reports.

use warpproof_evidence::ledger::{LedgerError, MIN_PREFIX};
use warpproof_report::ViewError;

use crate::report::{Kind, Report};

/// An error of the ledger, with its kind and a fix.
pub(crate) fn of_ledger(error: &LedgerError) -> Report {
    let kind = match error.exit_code() {
        1 => Kind::Evidence,
        3 => Kind::Unsupported,
        4 => Kind::Limit,
        _ => Kind::Missing,
    };
    let help = match error {
        LedgerError::Absent(_) => {
            "run `warpproof gate TASK` to create one, or select another directory with `--ledger DIR`"
        }
        LedgerError::Foreign(_) => {
            "select another directory with `--ledger DIR`; this directory is not changed"
        }
        LedgerError::Version(..) => "use the newer warpproof that wrote it",
        LedgerError::Damaged(_) | LedgerError::DamagedObject(_) => {
            "run `warpproof verify` to list all problems, and restore the file from a commit or a backup"
        }
        LedgerError::NoSuchRecord(_) => "`warpproof log` lists the records",
        LedgerError::Ambiguous(..) => "give more digits",
        LedgerError::NotAPrefix(_) => {
            let sentence = error.to_string();
            let help = format!(
                "run `warpproof log` to list the records; {MIN_PREFIX} or more digits of a name are enough"
            );
            return Report::error(Kind::Usage, sentence).help(help);
        }
        LedgerError::NoSuchObject(_) => "copy the whole ledger: `objects/` as well as `segments/`",
        LedgerError::Io(..)
        | LedgerError::Invalid(_)
        | LedgerError::TooLarge { .. }
        | LedgerError::Export(_) => {
            return Report::error(kind, error.to_string());
        }
    };
    Report::error(kind, error.to_string()).help(help)
}

/// Reports why a view failed.
pub(crate) fn of_view(error: &ViewError) -> Report {
    let (kind, help) = match error {
        ViewError::NoRun(_) => (Kind::Usage, Some("`warpproof log --kind run` lists the runs")),
        ViewError::NoCandidate(..) => {
            (Kind::Usage, Some("run `warpproof log --kind verdict` to list the evaluated candidates"))
        }
        ViewError::Several(..) => (Kind::Usage, Some("name one as RUN:CANDIDATE")),
        ViewError::Refused(_) => (Kind::Usage, None),
        ViewError::NotMerged(..) => {
            (Kind::Usage, Some("run `warpproof report next` to show what is missing"))
        }
        ViewError::NoRecord(_)
        | ViewError::NotThere(..)
        | ViewError::Unresolved(_)
        | ViewError::Unsupported(..)
        | ViewError::Circle(_) => {
            (Kind::Evidence, Some("run `warpproof verify` to verify the ledger's integrity"))
        }
    };
    let report = Report::error(kind, error.to_string());
    match help {
        Some(help) => report.help(help),
        None => report,
    }
}
