//! Messages of the compilers and of the PTX parser, as reports.

use std::fs;

use warpproof_ptx::{LineIndex, LineTable};
use warpproof_toolchain::{Diagnostic, Severity as Grade, Source};

use crate::report::{Kind, Place, Report};

/// NVRTC's messages. Remarks are skipped: they are not about the kernel.
pub(crate) fn of_nvrtc(diagnostics: &[Diagnostic], source: &Source) -> Vec<Report> {
    diagnostics
        .iter()
        .filter_map(|diagnostic| {
            let mut report = with_grade(diagnostic)?;
            report.place = diagnostic.place.as_ref().map(|place| {
                let own = || (place.file == source.name).then(|| line(&source.text, place.line)).flatten();
                let text = diagnostic.excerpt.clone().or_else(own);
                Place { column: place.column, ..Place::new(place.file.as_str(), place.line).text(text) }
            });
            if let Some(name) = diagnostic.message.strip_prefix("cannot open source file") {
                report = report.help(header_advice(name.trim().trim_matches('"')));
            }
            for note in &diagnostic.notes {
                report = report.note(note.clone(), None);
            }
            Some(report)
        })
        .collect()
}

/// The fix for a header that NVRTC does not find. Headers of the host are provided, so this one belongs to
/// the user or to a library.
fn header_advice(name: &str) -> String {
    match name {
        "" => "add its directory with -I".to_owned(),
        _ => format!("add the directory of {name} with -I"),
    }
}

/// The messages of ptxas. For PTX that came from CUDA C++, the CUDA line comes first and the PTX line is a note.
pub(crate) fn of_ptxas(diagnostics: &[Diagnostic], ptx: &str, name: &str, source: &Source) -> Vec<Report> {
    if diagnostics.is_empty() {
        return Vec::new();
    }
    let (module, _) = warpproof_ptx::parse(ptx);
    let table = LineTable::new(&module);
    let mut reports: Vec<Report> = Vec::new();
    for diagnostic in diagnostics {
        let Some(mut report) = with_grade(diagnostic) else { continue };
        if let Some(place) = &diagnostic.place {
            let in_ptx = Place::new(name, place.line).text(line(ptx, place.line));
            let location = offset_of_line(ptx, place.line).and_then(|offset| table.location(offset));
            report = match location.filter(|_| name != source.name) {
                Some(location) => {
                    let file = as_given(location.file, source);
                    let cuda = Place::new(file, location.line).column(Some(location.column));
                    report.at(Some(cuda)).note("in the PTX that NVRTC generated", Some(in_ptx))
                }
                None => report.at(Some(in_ptx)),
            };
        }
        if !reports.contains(&report) {
            reports.push(report);
        }
    }
    reports
}

/// The errors of our own parser.
pub(crate) fn of_ptx(errors: &[warpproof_ptx::Error], source: &Source) -> Vec<Report> {
    let index = LineIndex::new(&source.text);
    errors
        .iter()
        .map(|error| {
            let position = index.position(error.span.start);
            let text = index.line(position.line).map(str::to_owned);
            // The parser counts columns in characters, a report in bytes.
            let characters = usize::try_from(position.column.saturating_sub(1)).unwrap_or(0);
            let bytes =
                text.iter().flat_map(|text| text.chars().take(characters)).map(char::len_utf8).sum::<usize>();
            let place = Place {
                column: u32::try_from(bytes + 1).ok(),
                length: Some(error.span.end.saturating_sub(error.span.start).max(1)),
                ..Place::new(source.name.as_str(), position.line).text(text)
            };
            let report = Report::error(Kind::Kernel, error.message.clone()).at(Some(place));
            match &error.help {
                Some(help) => report.help(help.clone()),
                None => report,
            }
        })
        .collect()
}

/// The line table names files by their whole path; the user's own file is shown as the user named it.
pub(crate) fn as_given(file: &str, source: &Source) -> String {
    let same = match (fs::canonicalize(file), fs::canonicalize(&source.name)) {
        (Ok(file), Ok(own)) => file == own,
        _ => false,
    };
    if same { source.name.clone() } else { file.to_owned() }
}

fn with_grade(diagnostic: &Diagnostic) -> Option<Report> {
    let sentence = match &diagnostic.code {
        Some(code) => format!("{} [{code}]", diagnostic.message),
        None => diagnostic.message.clone(),
    };
    match diagnostic.severity {
        Grade::Error => Some(Report::error(Kind::Kernel, sentence)),
        Grade::Warning => Some(Report::warning(sentence)),
        Grade::Note => None,
    }
}

pub(crate) fn line(text: &str, number: u32) -> Option<String> {
    text.lines().nth(usize::try_from(number).ok()?.checked_sub(1)?).map(str::to_owned)
}

/// The column where the text of a line begins, after its indentation.
fn offset_of_line(text: &str, number: u32) -> Option<u32> {
    let line = text.lines().nth(usize::try_from(number).ok()?.checked_sub(1)?)?;
    let start = line.trim_start().as_ptr().addr().checked_sub(text.as_ptr().addr())?;
    u32::try_from(start).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_header_is_named() {
        assert_eq!(header_advice("cute/tensor.hpp"), "add the directory of cute/tensor.hpp with -I");
        assert_eq!(header_advice(""), "add its directory with -I");
    }
}
