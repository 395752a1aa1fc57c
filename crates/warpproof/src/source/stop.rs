//! A stop of the software GPU, as a report.

use warpproof_sim::{Blame, Stop};
use warpproof_toolchain::Source;

use super::{Ptx, shown};
use crate::report::{Kind, Report};
use warpproof_toolchain::symbol::readable;

/// The kind of report for a blame; they have the same exit code.
fn kind(blame: Blame) -> Kind {
    match blame {
        Blame::Kernel => Kind::Kernel,
        Blame::Input => Kind::Usage,
        Blame::Limit => Kind::Limit,
        Blame::Gap => Kind::Unsupported,
        _ => Kind::Bug,
    }
}

/// The CUDA line comes first, the PTX line is a note; the thread and the block are named.
pub(crate) fn of_stop(stop: &Stop, ptx: &Ptx, source: &Source) -> Report {
    let mut report = Report::error(kind(stop.blame), readable(&stop.sentence));
    if let (Some([x, y, z]), Some([i, j, k])) = (stop.thread, stop.block) {
        report = report.note(format!("in thread ({x},{y},{z}) of block ({i},{j},{k})"), None);
    }
    for note in &stop.notes {
        report = report.note(readable(note), None);
    }
    match stop.blame {
        Blame::Gap => report = report.note("this is a gap in warpproof, not a bug in the kernel", None),
        Blame::Bug => report = report.note("this is a bug in warpproof, not in the kernel", None),
        _ => {}
    }
    if let Some(place) = &stop.place {
        let shown = shown(place, ptx, source);
        for note in shown.notes(None) {
            report = report.note(note, None);
        }
        report = report.at(Some(shown.place));
    }
    report.help.clone_from(&stop.help);
    report
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_has_the_exit_code_of_its_stop() {
        for blame in Blame::ALL {
            assert_eq!(kind(blame).exit_code(), blame.exit_code(), "{blame:?}");
        }
    }
}
