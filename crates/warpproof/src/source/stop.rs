//! A stop of the software GPU, as a report.

use warpproof_sim::{Blame, Stop};
use warpproof_toolchain::Source;

use super::Ptx;
use super::diagnostics::{as_given, line};
use crate::report::{Kind, Place, Report};

/// The CUDA line comes first, the PTX line is a note; the thread and the block are named. Of inlined calls the innermost
/// line in the user's own file is shown first, since a header of the toolkit is seldom to blame.
pub(crate) fn of_stop(stop: &Stop, ptx: &Ptx, source: &Source) -> Report {
    let kind = match stop.blame {
        Blame::Kernel => Kind::Kernel,
        Blame::Input => Kind::Usage,
        Blame::Limit => Kind::Limit,
        Blame::Gap => Kind::Unsupported,
        Blame::Bug => Kind::Bug,
    };
    let mut report = Report::error(kind, stop.sentence.clone());
    if let (Some([x, y, z]), Some([i, j, k])) = (stop.thread, stop.block) {
        report = report.note(format!("in thread ({x},{y},{z}) of block ({i},{j},{k})"), None);
    }
    for note in &stop.notes {
        report = report.note(note.clone(), None);
    }
    match stop.blame {
        Blame::Gap => report = report.note("this is a gap in warpproof, not a bug in the kernel", None),
        Blame::Bug => report = report.note("this is a bug of warpproof, not of the kernel", None),
        Blame::Kernel | Blame::Input | Blame::Limit => {}
    }
    if let Some(place) = &stop.place {
        let mut lines: Vec<Place> = place
            .source
            .iter()
            .map(|at| {
                let file = as_given(&at.file, source);
                let text = (file == source.name).then(|| line(&source.text, at.line)).flatten();
                let column = Some(at.column).filter(|column| *column > 0);
                Place { file, line: at.line, column, length: None, text }
            })
            .collect();
        let in_ptx = Place {
            file: ptx.name.clone(),
            line: place.ptx_line,
            column: None,
            length: None,
            text: line(&ptx.text, place.ptx_line),
        };
        if lines.is_empty() {
            report = report.at(Some(in_ptx));
        } else {
            let own = lines.iter().position(|at| at.file == source.name).unwrap_or(0);
            report = report.at(Some(lines.remove(own)));
            for (i, at) in lines.into_iter().enumerate() {
                let sentence =
                    if i < own { "in code that is inlined there" } else { "which is inlined here" };
                report = report.note(sentence, Some(at));
            }
            report = report.note(format!("in the PTX of `{}`", place.function), Some(in_ptx));
        }
    }
    report.help.clone_from(&stop.help);
    report
}
