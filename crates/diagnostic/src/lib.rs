//! Diagnostics: the error, its place, its cause and its fix, rendered as text, JSON and SARIF.
//!
//! The command line, the driver and the gate's reports render findings only here.
#![forbid(unsafe_code)]

pub mod host;
pub mod sarif;

use std::fs;
use std::ops::Range;

use annotate_snippets::{Annotation, AnnotationKind, Group, Level, Origin, Renderer, Snippet};
use serde::Serialize;

/// The cause, which determines the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// The kernel failed a check, or does not compile.
    Kernel,
    /// The command line is wrong.
    Usage,
    /// A file, a program or a library is missing.
    Missing,
    /// A feature that warpproof does not support, not a bug in the kernel.
    Unsupported,
    /// A limit was reached.
    Limit,
    /// A ledger differs from what was written, or a text contradicts it.
    Evidence,
    /// No verdict was reached.
    Inconclusive,
    /// A bug in warpproof.
    Bug,
}

impl Kind {
    /// The documented exit code.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Kernel | Self::Evidence => 1,
            Self::Usage | Self::Missing => 2,
            Self::Unsupported => 3,
            Self::Limit => 4,
            Self::Inconclusive => 5,
            Self::Bug => 101,
        }
    }
}

/// Its severity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The command stops.
    Error,
    /// The command continues.
    Warning,
    /// Nothing is wrong, but a reader should know.
    Note,
}

/// A place in a text. Line and column count from 1, the column in bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Place {
    /// The file.
    pub file: String,
    /// The line.
    pub line: u32,
    /// The column, if known.
    pub column: Option<u32>,
    /// The number of bytes from the column on, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub length: Option<u32>,
    /// The text of the line, if known. Otherwise it is read from the file.
    #[serde(skip)]
    pub text: Option<String>,
    /// A short label of what happens there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
}

impl Place {
    /// A whole line.
    pub fn new(file: impl Into<String>, line: u32) -> Self {
        Self { file: file.into(), line, column: None, length: None, text: None, label: None }
    }

    /// Sets the column; 0 is an unknown one.
    #[must_use]
    pub fn column(mut self, column: Option<u32>) -> Self {
        self.column = column.filter(|column| *column > 0);
        self
    }

    /// Sets the line's text.
    #[must_use]
    pub fn text(mut self, text: Option<String>) -> Self {
        self.text = text;
        self
    }

    /// Sets the label.
    #[must_use]
    pub fn label(mut self, label: Option<String>) -> Self {
        self.label = label;
        self
    }

    /// The line's text: the stored one, or else from the file.
    pub fn line_text(&self) -> Option<String> {
        let line = usize::try_from(self.line).ok()?;
        self.text.clone().or_else(|| lines_of(&self.file)?.get(line.checked_sub(1)?).cloned())
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.file, self.line)?;
        self.column.map_or(Ok(()), |column| write!(f, ":{column}"))
    }
}

/// A further sentence, optionally about another place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Note {
    /// The sentence.
    pub sentence: String,
    /// The place.
    pub place: Option<Place>,
}

/// A diagnostic.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Its severity.
    pub severity: Severity,
    /// Its cause.
    pub kind: Kind,
    /// The class of a finding.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// One lowercase sentence.
    pub sentence: String,
    /// Its place.
    pub place: Option<Place>,
    /// Further places that belong to it; places of one file are shown in one excerpt.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub context: Vec<Place>,
    /// Evidence.
    pub notes: Vec<Note>,
    /// The fix; at most one.
    pub help: Option<String>,
}

impl Report {
    /// An error.
    pub fn error(kind: Kind, sentence: impl Into<String>) -> Self {
        Self {
            severity: Severity::Error,
            kind,
            code: None,
            sentence: sentence.into(),
            place: None,
            context: Vec::new(),
            notes: Vec::new(),
            help: None,
        }
    }

    /// A warning about a kernel.
    pub fn warning(sentence: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(Kind::Kernel, sentence) }
    }

    /// Sets the place.
    #[must_use]
    pub fn at(mut self, place: Option<Place>) -> Self {
        self.place = place;
        self
    }

    /// Adds a note.
    #[must_use]
    pub fn note(mut self, sentence: impl Into<String>, place: Option<Place>) -> Self {
        self.notes.push(Note { sentence: sentence.into(), place });
        self
    }

    /// Sets the help.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// As text, with colors that the terminal strips if unsupported.
    pub fn text(&self) -> String {
        self.render(&Renderer::styled())
    }

    /// As text without colors.
    pub fn plain(&self) -> String {
        self.render(&Renderer::plain())
    }

    fn render(&self, renderer: &Renderer) -> String {
        let level = match self.severity {
            Severity::Error => Level::ERROR,
            Severity::Warning => Level::WARNING,
            Severity::Note => Level::NOTE,
        };
        let mut title = level.primary_title(self.sentence.as_str());
        if let Some(code) = &self.code {
            title = title.id(code.as_str());
        }
        let mut first = show(Group::with_title(title), self.place.as_ref(), &self.context);
        let mut groups = Vec::new();
        for note in &self.notes {
            match &note.place {
                Some(place) => {
                    let title = Level::NOTE.secondary_title(note.sentence.as_str());
                    groups.push(show(Group::with_title(title), Some(place), &[]));
                }
                None => first = first.element(Level::NOTE.message(note.sentence.as_str())),
            }
        }
        if let Some(help) = &self.help {
            first = first.element(Level::HELP.message(help.as_str()));
        }
        groups.insert(0, first);
        renderer.render(&groups)
    }
}

/// The kind of the first error, which determines the exit code.
pub fn first_error(reports: &[Report]) -> Option<Kind> {
    reports.iter().find(|report| report.severity == Severity::Error).map(|report| report.kind)
}

/// Adds places: an excerpt for each file with its marked ranges, or only the line's number if the text is unknown.
fn show<'a>(mut group: Group<'a>, primary: Option<&'a Place>, context: &'a [Place]) -> Group<'a> {
    let marks: Vec<(AnnotationKind, &Place)> = primary
        .map(|place| (AnnotationKind::Primary, place))
        .into_iter()
        .chain(context.iter().map(|place| (AnnotationKind::Context, place)))
        .collect();
    let mut shown: Vec<&str> = Vec::new();
    for (_, place) in &marks {
        if shown.contains(&place.file.as_str()) {
            continue;
        }
        shown.push(&place.file);
        let here: Vec<(AnnotationKind, &Place)> =
            marks.iter().filter(|(_, other)| other.file == place.file).copied().collect();
        let text = lines_of(&place.file);
        match excerpt(&place.file, text.as_deref(), &here) {
            Some(snippet) => group = group.element(snippet),
            // Without the lines between them, each is shown separately.
            None => {
                for (kind, place) in here {
                    group = match excerpt(&place.file, text.as_deref(), &[(kind, place)]) {
                        Some(snippet) => group.element(snippet),
                        None => group.element(origin(place)),
                    };
                }
            }
        }
    }
    group
}

/// The lines from the first place to the last, each place with its label; those between are folded.
fn excerpt<'a>(
    file: &'a str,
    lines: Option<&[String]>,
    marks: &[(AnnotationKind, &'a Place)],
) -> Option<Snippet<'a, Annotation<'a>>> {
    let first = marks.iter().map(|(_, place)| place.line).min()?;
    let last = marks.iter().map(|(_, place)| place.line).max()?;
    let mut text = String::new();
    let mut starts = Vec::new();
    for number in first..=last {
        let known = marks.iter().find(|(_, place)| place.line == number && place.text.is_some());
        let line = match known {
            Some((_, place)) => place.text.as_deref()?,
            None => lines?.get(usize::try_from(number).ok()?.checked_sub(1)?)?,
        };
        starts.push(text.len());
        text.push_str(line);
        text.push('\n');
    }
    text.pop();
    let mut snippet = Vec::new();
    for (kind, place) in marks {
        let start = *starts.get(usize::try_from(place.line - first).ok()?)?;
        let line = text[start..].lines().next().unwrap_or_default();
        let span = meant(line, place);
        snippet.push(kind.span(start + span.start..start + span.end).label(place.label.as_deref()));
    }
    let first = usize::try_from(first).ok()?;
    Some(Snippet::source(text).line_start(first).path(file).annotations(snippet))
}

fn origin(place: &Place) -> Origin<'_> {
    let origin = Origin::path(place.file.as_str()).line(usize::try_from(place.line).unwrap_or(usize::MAX));
    match place.column.and_then(|column| usize::try_from(column).ok()) {
        Some(column) => origin.char_column(column),
        None => origin,
    }
}

/// Extensions of source files. A kernel may name any file, by `#line` or in a line table: others are not shown.
const SOURCES: [&str; 11] = ["cu", "cuh", "h", "hh", "hpp", "hxx", "inl", "c", "cc", "cpp", "ptx"];
/// Maximum size of a file whose lines are shown.
const MAX_SHOWN: u64 = 64 << 20;

fn lines_of(file: &str) -> Option<Vec<String>> {
    let path = fs::canonicalize(file).ok()?;
    let ending = path.extension()?.to_str()?;
    let found = fs::metadata(&path).ok()?;
    if !SOURCES.contains(&ending) || !found.is_file() || found.len() > MAX_SHOWN {
        return None;
    }
    let text = fs::read(path).ok()?;
    Some(String::from_utf8_lossy(&text).lines().map(str::to_owned).collect())
}

/// The marked bytes of a line: from the column for the stated length, or else the word there; without a column, the
/// whole line except its indentation.
fn meant(text: &str, place: &Place) -> Range<usize> {
    let from_start = text.len() - text.trim_start().len();
    let column = place.column.and_then(|column| usize::try_from(column).ok()?.checked_sub(1));
    let Some(start) = column else {
        return from_start..text.trim_end().len().max(from_start);
    };
    let mut start = start.min(text.len());
    while !text.is_char_boundary(start) {
        start -= 1;
    }
    let rest = &text[start..];
    let stated = place.length.and_then(|length| usize::try_from(length).ok());
    let mut length = stated.unwrap_or_else(|| {
        let word = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        word.max(rest.chars().next().map_or(0, char::len_utf8))
    });
    length = length.min(rest.len());
    while !rest.is_char_boundary(length) {
        length += 1;
    }
    start..start + length
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(line: u32, column: Option<u32>, text: Option<&str>) -> Place {
        Place { column, ..Place::new("k.cu", line).text(text.map(str::to_owned)) }
    }

    fn plain(report: &Report) -> String {
        report.plain()
    }

    #[test]
    fn exit_codes_are_as_documented() {
        let codes = [
            (Kind::Kernel, 1),
            (Kind::Usage, 2),
            (Kind::Missing, 2),
            (Kind::Unsupported, 3),
            (Kind::Limit, 4),
            (Kind::Inconclusive, 5),
            (Kind::Bug, 101),
        ];
        for (kind, code) in codes {
            assert_eq!(kind.exit_code(), code);
        }
    }

    #[test]
    fn a_report_shows_the_line_its_notes_and_its_help() {
        let report = Report::error(Kind::Kernel, "identifier \"foo\" is undefined")
            .at(Some(place(7, Some(5), Some("\tint foo_1(3);"))))
            .note("candidates are: none", None)
            .note("made from here", Some(place(2, None, Some("  f<int>();  "))))
            .help("declare it");
        insta::assert_snapshot!(plain(&report));
    }

    #[test]
    fn a_place_without_text_still_names_its_line() {
        let report =
            Report::warning("doubtful").at(Some(Place { file: "gone.cu".into(), ..place(3, Some(4), None) }));
        insta::assert_snapshot!(plain(&report));
    }

    /// Places of one file, in it and in another.
    #[test]
    fn places_of_one_file_are_shown_in_one_excerpt() {
        let dir = tempfile::tempdir().unwrap();
        let name = |file: &str| dir.path().join(file).display().to_string();
        let (kernel, header) = (name("k.cu"), name("tile.cuh"));
        fs::write(&kernel, "a = 0;\n  row_max[warp] = m;\nb;\nc;\nd;\n  float m = row_max[0];\n").unwrap();
        fs::write(&header, "\nload(tile);\n").unwrap();
        let at = |file: &str, line, column, label: &str| {
            Place::new(file, line).column(Some(column)).label(Some(label.to_owned()))
        };
        let mut report = Report::error(Kind::Kernel, "data race on shared memory")
            .at(Some(at(&kernel, 6, 13, "the read")))
            .note("PTX line 12 (the read): ld.shared.f32 %f1, [%r1]", None)
            .help("put a __syncthreads() between the two");
        report.code = Some("shared-race".into());
        report.context = vec![at(&kernel, 2, 3, "the write"), at(&header, 2, 1, "the copy")];
        let text = plain(&report).replace(&dir.path().display().to_string(), "src");
        insta::assert_snapshot!(text);
        // The same line twice, and lines of a missing file.
        report.context = vec![at(&kernel, 6, 13, "the write")];
        insta::assert_snapshot!(plain(&report).replace(&dir.path().display().to_string(), "src"));
        let gone = |line, label: &str| at("gone.ptx", line, 1, label).text(Some("ld.u32;".into()));
        report.place = Some(gone(9, "the read"));
        report.context = vec![gone(4, "the write")];
        insta::assert_snapshot!(plain(&report));
    }

    #[test]
    fn no_column_goes_out_of_its_line() {
        for text in ["", "é", "aé", "\t", "日本"] {
            for column in [None, Some(0), Some(1), Some(2), Some(3), Some(99)] {
                for length in [None, Some(0), Some(1), Some(99)] {
                    let place = Place { length, ..place(1, column, Some(text)) };
                    let range = meant(text, &place);
                    assert!(text.get(range.clone()).is_some(), "{text:?} {column:?} {length:?} {range:?}");
                    assert!(plain(&Report::warning("x").at(Some(place))).contains("k.cu:1"));
                }
            }
        }
    }
}
