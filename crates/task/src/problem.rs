//! Problems of a task file, with their places.

use std::fmt;
use std::ops::{Deref, Range};

use strsim::osa_distance;

use serde::{Serialize, Serializer};

use crate::expr::ExprError;

/// One problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Bytes of the file.
    pub span: Range<usize>,
    /// The problem, in one sentence.
    pub sentence: String,
    /// The fix.
    pub help: Option<String>,
}

impl Problem {
    /// A problem without help.
    pub fn new(span: Range<usize>, sentence: impl Into<String>) -> Problem {
        Problem { span, sentence: sentence.into(), help: None }
    }

    /// Adds help.
    #[must_use]
    pub fn help(self, help: impl Into<String>) -> Problem {
        Problem { help: Some(help.into()), ..self }
    }

    /// Line and column of its start, from 1; columns count characters.
    pub fn place(&self, text: &str) -> (usize, usize) {
        let mut start = self.span.start.min(text.len());
        while !text.is_char_boundary(start) {
            start -= 1;
        }
        let before = text.get(..start).unwrap_or("");
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().map_or(0, |last| last.chars().count()) + 1;
        (line, column)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)
    }
}

impl std::error::Error for Problem {}

/// A value and its place in the file. Equality and serialization are those of the value.
#[derive(Clone, Debug, Default)]
pub struct At<T> {
    /// The value.
    pub value: T,
    /// Bytes of the file.
    pub span: Range<usize>,
}

impl<T> At<T> {
    /// A value and its place.
    pub fn new(value: T, span: Range<usize>) -> At<T> {
        At { value, span }
    }

    /// A value that is not in the file.
    pub fn unsaid(value: T) -> At<T> {
        At { value, span: 0..0 }
    }
}

impl<T> Deref for At<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T: PartialEq> PartialEq for At<T> {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

impl<T: Serialize> Serialize for At<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.value.serialize(serializer)
    }
}

/// The name that a misspelled one most likely means: at most a third of its letters differ.
pub fn nearest<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    // Longer than any known name; the cost grows with the square of the length.
    const LONGEST: usize = 128;
    if name.len() > LONGEST {
        return None;
    }
    let plain = |text: &str| text.to_ascii_lowercase().replace(['-', '_'], "");
    let wanted = plain(name);
    names
        .filter(|known| known.len() <= LONGEST)
        .map(|known| (osa_distance(&wanted, &plain(known)), known))
        .filter(|(distance, known)| {
            *distance <= (name.len().max(known.len()) / 3).max(1) && *distance < known.len()
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, known)| known)
}

/// Moves a problem of an expression to the place of its text in the file.
pub(crate) fn in_file(error: ExprError, text: &str, string: &Range<usize>) -> Problem {
    let raw = text.get(string.clone()).unwrap_or("");
    // Without escapes, the content is exactly between the quotation marks.
    let quoted = raw.starts_with(['"', '\'']) && !raw.starts_with("\"\"\"") && !raw.starts_with("'''");
    let span = if quoted && !raw.contains('\\') {
        let start = string.start + 1;
        // The end of the text is the closing quotation mark, which a message can point at.
        start + error.span.start..start + error.span.end.max(error.span.start + 1)
    } else {
        string.clone()
    };
    Problem { span, sentence: error.sentence, help: error.help }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_guessed() {
        let names = || ["version", "derivation", "shape", "seeds", "s"].into_iter();
        assert_eq!(nearest("verison", names()), Some("version"));
        assert_eq!(nearest("shapes", names()), Some("shape"));
        assert_eq!(nearest("Seeds", names()), Some("seeds"));
        assert_eq!(nearest("blorp", names()), None);
        assert_eq!(nearest("n", names()), None);
        assert_eq!(nearest(&"x".repeat(1000), names()), None);
    }

    #[test]
    fn places_count_characters() {
        let text = "a = 1\nß = 2\nc";
        assert_eq!(Problem::new(0..1, "").place(text), (1, 1));
        assert_eq!(Problem::new(9..10, "").place(text), (2, 3));
        assert_eq!(Problem::new(7..8, "").place(text), (2, 1));
        assert_eq!(Problem::new(900..901, "").place(text), (3, 2));
    }
}
