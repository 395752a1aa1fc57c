//! What a command has to say: one type, rendered as text and as JSON here and nowhere else.

use std::fs;
use std::ops::Range;
use std::process::ExitCode;

use annotate_snippets::{AnnotationKind, Group, Level, Origin, Renderer, Snippet};
use serde::Serialize;

/// Whose fault it is, and with that the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// The kernel failed a check, or does not compile.
    Kernel,
    /// The command line is wrong.
    Usage,
    /// A file, a program or a library is missing.
    Missing,
    /// A gap in warpproof, not a bug in the kernel.
    Unsupported,
    /// A limit was reached.
    Limit,
    /// There is no verdict.
    Inconclusive,
    /// A bug of warpproof.
    Bug,
}

impl Kind {
    /// The documented exit code.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Kernel => 1,
            Self::Usage | Self::Missing => 2,
            Self::Unsupported => 3,
            Self::Limit => 4,
            Self::Inconclusive => 5,
            Self::Bug => 101,
        }
    }
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All is well.
    Green,
    /// It is not, and a report said why.
    Stopped(Kind),
}

impl From<Outcome> for ExitCode {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Green => Self::SUCCESS,
            Outcome::Stopped(kind) => Self::from(kind.exit_code()),
        }
    }
}

/// How grave it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// It stops.
    Error,
    /// It goes on.
    Warning,
}

/// A place in a text. Line and column count from 1, the column in bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Place {
    /// The file.
    pub file: String,
    /// The line.
    pub line: u32,
    /// The column, where it is known.
    pub column: Option<u32>,
    /// How many bytes are meant from the column on, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub length: Option<u32>,
    /// The text of the line, where it is known. If not, it is read from the file.
    #[serde(skip)]
    pub text: Option<String>,
}

/// A further sentence, perhaps about another place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Note {
    /// The sentence.
    pub sentence: String,
    /// The place.
    pub place: Option<Place>,
}

/// Something to say.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// How grave.
    pub severity: Severity,
    /// Whose fault.
    pub kind: Kind,
    /// One lowercase sentence.
    pub sentence: String,
    /// Where.
    pub place: Option<Place>,
    /// What explains it.
    pub notes: Vec<Note>,
    /// What to do; at most one thing.
    pub help: Option<String>,
}

impl Report {
    /// An error.
    pub fn error(kind: Kind, sentence: impl Into<String>) -> Self {
        let sentence = sentence.into();
        Self { severity: Severity::Error, kind, sentence, place: None, notes: Vec::new(), help: None }
    }

    /// A warning about a kernel.
    pub fn warning(sentence: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(Kind::Kernel, sentence) }
    }

    /// With a place.
    #[must_use]
    pub fn at(mut self, place: Option<Place>) -> Self {
        self.place = place;
        self
    }

    /// With a further sentence.
    #[must_use]
    pub fn note(mut self, sentence: impl Into<String>, place: Option<Place>) -> Self {
        self.notes.push(Note { sentence: sentence.into(), place });
        self
    }

    /// With advice.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// As text, with colours that the terminal strips where they do not belong.
    pub fn text(&self) -> String {
        self.render(&Renderer::styled())
    }

    fn render(&self, renderer: &Renderer) -> String {
        let level = match self.severity {
            Severity::Error => Level::ERROR,
            Severity::Warning => Level::WARNING,
        };
        let mut first = Group::with_title(level.primary_title(self.sentence.as_str()));
        if let Some(place) = &self.place {
            first = show(first, place);
        }
        let mut groups = Vec::new();
        for note in &self.notes {
            match &note.place {
                Some(place) => {
                    let title = Level::NOTE.secondary_title(note.sentence.as_str());
                    groups.push(show(Group::with_title(title), place));
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

/// Adds a place: the source line with the part that is meant, or only the line's number if the text is not known.
fn show<'a>(group: Group<'a>, place: &'a Place) -> Group<'a> {
    let line = usize::try_from(place.line).unwrap_or(usize::MAX);
    let text = place.text.clone().or_else(|| line_of_file(&place.file, line));
    if let Some(text) = text {
        let span = meant(&text, place);
        let snippet = Snippet::source(text).line_start(line).path(place.file.as_str());
        return group.element(snippet.annotation(AnnotationKind::Primary.span(span)));
    }
    let origin = Origin::path(place.file.as_str()).line(line);
    let column = place.column.and_then(|column| usize::try_from(column).ok());
    group.element(match column {
        Some(column) => origin.char_column(column),
        None => origin,
    })
}

fn line_of_file(file: &str, line: usize) -> Option<String> {
    let text = fs::read(file).ok()?;
    let text = String::from_utf8_lossy(&text);
    text.lines().nth(line.checked_sub(1)?).map(str::to_owned)
}

/// The bytes of a line that are meant: from the column as long as stated, or else the word there; without a column,
/// the whole line but its indentation.
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

/// Says of a panic that it is our fault; the exit code is 101, as for every Rust program.
pub(crate) fn explain_panics() {
    let default = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        default(info);
        let report = Report::error(
            Kind::Bug,
            "warpproof itself failed: this is a bug of warpproof, not of the kernel",
        )
        .help("please report it with the lines above and the input");
        crate::terminal::Terminal::new().report(&report);
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(line: u32, column: Option<u32>, text: Option<&str>) -> Place {
        Place { file: "k.cu".into(), line, column, length: None, text: text.map(str::to_owned) }
    }

    fn plain(report: &Report) -> String {
        report.render(&Renderer::plain())
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
