//! A finding of a check, as a report.

use warpproof_check::{Finding, Severity as Grade};
use warpproof_toolchain::Source;

use super::{Ptx, shown};
use crate::report::{Kind, Report, Severity};

/// All places of the finding with their labels; the thread, if the sentence does not name it; inlined calls
/// and PTX lines as notes; and the number of occurrences.
pub(crate) fn of_finding(finding: &Finding, ptx: &Ptx, source: &Source) -> Report {
    let mut report = Report::error(Kind::Kernel, finding.sentence.clone());
    report.severity = match finding.severity {
        Grade::Note => Severity::Note,
        _ => Severity::Error,
    };
    report.code = Some(finding.class.name().to_owned());
    let alone = finding.places.len() == 1;
    let mut about_places = Vec::new();
    for (i, label) in finding.places.iter().enumerate() {
        let shown = shown(&label.place, ptx, source);
        let unnamed = label.thread.filter(|who| {
            let [x, y, z] = who.thread;
            !finding.sentence.contains(&format!("thread ({x},{y},{z})"))
        });
        let name = Some(label.text.as_str()).filter(|_| !alone);
        about_places.extend(shown.notes(name));
        // A single place needs no label, but its thread gets a line.
        let text = match unnamed {
            Some(who) if !alone => Some(format!("{}, {who}", label.text)),
            _ if alone && label.text == "here" => None,
            _ => Some(label.text.clone()),
        };
        if let Some(who) = unnamed.filter(|_| alone) {
            report = report.note(format!("in {who}"), None);
        }
        let place = shown.place.label(text);
        if i == 0 {
            report.place = Some(place);
        } else {
            report.context.push(place);
        }
    }
    for note in finding.notes.iter().cloned().chain(about_places) {
        report = report.note(note, None);
    }
    if finding.count > 1 {
        report = report.note(format!("seen {} times", warpproof_model::grouped(finding.count)), None);
    }
    report.help.clone_from(&finding.help);
    report
}
