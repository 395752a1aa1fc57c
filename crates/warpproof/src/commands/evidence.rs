//! What went wrong with a ledger or a view of it, as a report.

use warpproof_gate::ledger::{LedgerError, MIN_PREFIX};
use warpproof_gate::view::ViewError;

use crate::report::{Kind, Report};

/// An error of the ledger: whose fault it is, and what to do.
pub(crate) fn of_ledger(error: &LedgerError) -> Report {
    let kind = match error.exit_code() {
        1 => Kind::Evidence,
        3 => Kind::Unsupported,
        4 => Kind::Limit,
        _ => Kind::Missing,
    };
    let help = match error {
        LedgerError::Absent(_) => {
            "`warpproof gate TASK` makes one where it is run; `--ledger DIR` names another place"
        }
        LedgerError::Foreign(_) => "`--ledger DIR` names another place; this directory is left as it is",
        LedgerError::Version(..) => "a later warpproof wrote it: use that one",
        LedgerError::Damaged(_) | LedgerError::DamagedObject(_) => {
            "`warpproof verify` lists everything that is wrong; take the file from a commit that holds the ledger"
        }
        LedgerError::NoSuchRecord(_) => "`warpproof log` lists the records",
        LedgerError::Ambiguous(..) => "give more digits",
        LedgerError::NotAPrefix(_) => {
            let sentence = error.to_string();
            let help = format!(
                "`warpproof log` lists the records; {MIN_PREFIX} digits or more of a name are enough"
            );
            return Report::error(Kind::Usage, sentence).help(help);
        }
        LedgerError::NoSuchObject(_) => "a ledger is copied whole: take `objects/` along with `segments/`",
        LedgerError::Io(..)
        | LedgerError::Invalid(_)
        | LedgerError::TooLarge { .. }
        | LedgerError::Export(_) => {
            return Report::error(kind, error.to_string());
        }
    };
    Report::error(kind, error.to_string()).help(help)
}

/// Why there is no report.
pub(crate) fn of_view(error: &ViewError) -> Report {
    let (kind, help) = match error {
        ViewError::NoRun(_) => (Kind::Usage, Some("`warpproof log --kind run` lists the runs")),
        ViewError::NoCandidate(..) => {
            (Kind::Usage, Some("`warpproof log --kind verdict` lists what was judged"))
        }
        ViewError::Several(..) => (Kind::Usage, Some("name one as RUN:CANDIDATE")),
        ViewError::Refused(_) => (Kind::Usage, None),
        ViewError::NotMerged(..) => {
            (Kind::Usage, Some("`warpproof report next` says what would bring it there"))
        }
        ViewError::NoRecord(_)
        | ViewError::NotThere(..)
        | ViewError::Unresolved(_)
        | ViewError::Unsupported(..)
        | ViewError::Circle(_) => {
            (Kind::Evidence, Some("`warpproof verify` says whether the ledger is whole"))
        }
    };
    let report = Report::error(kind, error.to_string());
    match help {
        Some(help) => report.help(help),
        None => report,
    }
}
