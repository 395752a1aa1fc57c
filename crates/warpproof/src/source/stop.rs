//! A stop of the software GPU, as a report.

use warpproof_sim::{Blame, Stop};
use warpproof_toolchain::Source;

use super::{Ptx, shown};
use crate::report::{Kind, Report};
use warpproof_toolchain::symbol::readable;

/// The CUDA line comes first, the PTX line is a note; the thread and the block are named.
pub(crate) fn of_stop(stop: &Stop, ptx: &Ptx, source: &Source) -> Report {
    let kind = match stop.blame {
        Blame::Kernel => Kind::Kernel,
        Blame::Input => Kind::Usage,
        Blame::Limit => Kind::Limit,
        Blame::Gap => Kind::Unsupported,
        Blame::Bug => Kind::Bug,
    };
    let mut report = Report::error(kind, readable(&stop.sentence));
    if let (Some([x, y, z]), Some([i, j, k])) = (stop.thread, stop.block) {
        report = report.note(format!("in thread ({x},{y},{z}) of block ({i},{j},{k})"), None);
    }
    for note in &stop.notes {
        report = report.note(readable(note), None);
    }
    match stop.blame {
        Blame::Gap => report = report.note("this is a gap in warpproof, not a bug in the kernel", None),
        Blame::Bug => report = report.note("this is a bug in warpproof, not in the kernel", None),
        Blame::Kernel | Blame::Input | Blame::Limit => {}
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
