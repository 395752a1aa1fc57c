//! Locations in the source text, and the errors that refer to them.

use std::fmt;

/// A range of bytes of the source, `start` inclusive, `end` exclusive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Span {
    /// Offset of the first byte.
    pub start: u32,
    /// Offset just past the last byte.
    pub end: u32,
}

impl Span {
    /// The span from the start of `self` to the end of `other`.
    #[must_use]
    pub fn to(self, other: Span) -> Span {
        Span { start: self.start, end: other.end.max(self.start) }
    }
}

/// One error in the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// The location; empty if something is missing there.
    pub span: Span,
    /// The message, as a lowercase sentence.
    pub message: String,
    /// How to fix it, if known.
    pub help: Option<String>,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match &self.help {
            Some(help) => write!(f, " (help: {help})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Error {}

/// A line and a column, both counted from 1; the column counts characters, not bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Position {
    /// The line, from 1.
    pub line: u32,
    /// The column in characters, from 1.
    pub column: u32,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// Turns byte offsets of one source text into lines and columns.
#[derive(Clone, Debug)]
pub struct LineIndex<'s> {
    source: &'s str,
    /// Offset of the first byte of every line.
    starts: Vec<usize>,
}

impl<'s> LineIndex<'s> {
    /// Finds the line ends of `source` once.
    pub fn new(source: &'s str) -> Self {
        let mut starts = vec![0];
        starts.extend(memchr::memchr_iter(b'\n', source.as_bytes()).map(|at| at + 1));
        Self { source, starts }
    }

    /// The line and column of a byte offset; an offset past the end means the end.
    pub fn position(&self, offset: u32) -> Position {
        let mut offset = usize::try_from(offset).unwrap_or(usize::MAX).min(self.source.len());
        while !self.source.is_char_boundary(offset) {
            offset -= 1;
        }
        let line = self.starts.partition_point(|&start| start <= offset);
        let start = self.starts.get(line.wrapping_sub(1)).copied().unwrap_or(0);
        let column = self.source.get(start..offset).unwrap_or("").chars().count() + 1;
        Position {
            line: u32::try_from(line).unwrap_or(u32::MAX),
            column: u32::try_from(column).unwrap_or(u32::MAX),
        }
    }

    /// The text of a line (counted from 1) without its line end.
    pub fn line(&self, line: u32) -> Option<&'s str> {
        let index = usize::try_from(line).ok()?.checked_sub(1)?;
        let start = *self.starts.get(index)?;
        let end = self.starts.get(index + 1).copied().unwrap_or(self.source.len());
        Some(self.source.get(start..end)?.trim_end_matches(['\n', '\r']))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_count_characters() {
        let index = LineIndex::new("a\nüb\r\nc");
        assert_eq!(index.position(0), Position { line: 1, column: 1 });
        assert_eq!(index.position(2), Position { line: 2, column: 1 });
        assert_eq!(index.position(4), Position { line: 2, column: 2 });
        assert_eq!(index.position(3), Position { line: 2, column: 1 });
        assert_eq!(index.position(99), Position { line: 3, column: 2 });
        assert_eq!(index.line(2), Some("üb"));
        assert_eq!(index.line(4), None);
    }
}
