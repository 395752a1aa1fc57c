//! Segments: files of lines, each written by one process and read by any.

use super::Record;
use super::error::{LedgerError, Problem};
use super::line::{self, Fault, MAX_LINE, Parents};
use crate::hash::Hash;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Extension of a segment's file name.
pub(super) const EXTENSION: &str = ".jsonl";
/// Bytes read at a time: few at first, because most segments of a large ledger are read only in part.
const FIRST_CHUNK: usize = 4 << 10;
const MAX_CHUNK: usize = 64 << 10;

/// Where a record is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordPlace {
    /// The segment's name.
    pub segment: Arc<str>,
    /// The line, from 1.
    pub line: u64,
    /// Where the line starts in its file.
    pub offset: u64,
    /// How many bytes the line has, its newline not counted.
    pub bytes: usize,
}

/// The file of a segment, relative to the ledger.
pub(super) fn file_name(id: &str) -> String {
    format!("segments/{id}{EXTENSION}")
}

/// The next line of a file.
enum Next {
    /// A complete line, at this range of the buffer.
    Line(std::ops::Range<usize>),
    TooLong,
    End,
}

/// The lines of a file that may still grow. The file is opened for each chunk and then closed, so that a ledger may
/// have more segments than a process may have open files.
struct Lines {
    path: PathBuf,
    buffer: Vec<u8>,
    /// The offset of the buffer in the file.
    offset: u64,
    /// The offset of the next line in the buffer, and how far was searched for a newline.
    start: usize,
    scanned: usize,
    chunk: usize,
    /// The line was reported as too long; the rest of it is skipped.
    skipping: bool,
    /// The number of lines returned.
    number: u64,
}

fn length(bytes: usize) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

impl Lines {
    fn new(path: PathBuf) -> Self {
        let chunk = FIRST_CHUNK;
        Self { path, buffer: Vec::new(), offset: 0, start: 0, scanned: 0, chunk, skipping: false, number: 0 }
    }

    /// The offset of the next line in the file.
    fn position(&self) -> u64 {
        self.offset.saturating_add(length(self.start))
    }

    /// The bytes after the last complete line.
    fn tail(&self) -> &[u8] {
        self.buffer.get(self.start..).unwrap_or_default()
    }

    /// Frees the buffer; its content is read again on demand.
    fn release(&mut self) {
        self.offset = self.position();
        (self.buffer, self.start, self.scanned) = (Vec::new(), 0, 0);
    }

    /// Reads more. `false` at the end of the file.
    fn refill(&mut self) -> io::Result<bool> {
        self.buffer.drain(..self.start);
        self.offset = self.offset.saturating_add(length(self.start));
        self.scanned = self.scanned.saturating_sub(self.start);
        self.start = 0;
        let mut file = File::open(&self.path)?;
        file.seek(SeekFrom::Start(self.offset.saturating_add(length(self.buffer.len()))))?;
        let read = file.take(length(self.chunk)).read_to_end(&mut self.buffer)?;
        self.chunk = (self.chunk * 2).min(MAX_CHUNK);
        Ok(read > 0)
    }

    fn next(&mut self) -> io::Result<Next> {
        loop {
            let unread = self.buffer.get(self.scanned..).unwrap_or_default();
            if let Some(found) = memchr::memchr(b'\n', unread) {
                let line = self.start..self.scanned + found;
                self.start = line.end + 1;
                self.scanned = self.start;
                if std::mem::take(&mut self.skipping) {
                    continue;
                }
                self.number += 1;
                return Ok(if line.len() > MAX_LINE { Next::TooLong } else { Next::Line(line) });
            }
            self.scanned = self.buffer.len();
            if self.skipping {
                self.start = self.buffer.len();
            } else if self.tail().len() > MAX_LINE {
                self.skipping = true;
                self.start = self.buffer.len();
                self.number += 1;
                return Ok(Next::TooLong);
            }
            if !self.refill()? {
                return Ok(Next::End);
            }
        }
    }
}

/// What the next record must follow.
pub(super) enum Before {
    Nothing,
    Record(Hash),
    /// A line that could not be read; any record may follow.
    Damage,
}

/// A segment that is read from its start.
pub(super) struct Segment {
    pub(super) id: Arc<str>,
    lines: Lines,
    before: Before,
    unreadable: bool,
}

/// The problem with a record's position, given the preceding line and the segment's name.
pub(super) fn misplaced(
    before: &Before,
    parents: &Parents,
    segment: Option<String>,
    id: &str,
) -> Option<Fault> {
    match (before, parents) {
        (Before::Nothing, Parents::Heads(_)) => match segment {
            Some(own) if own == id => None,
            Some(own) => Some(Fault::Renamed(own)),
            None => Some(Fault::Misplaced),
        },
        (Before::Nothing, Parents::Prev(_)) | (_, Parents::Heads(_)) => Some(Fault::Misplaced),
        (Before::Record(hash), Parents::Prev(prev)) if hash != prev => Some(Fault::BrokenChain),
        (_, Parents::Prev(_)) => None,
    }
}

impl Segment {
    pub(super) fn new(directory: &Path, id: &str) -> Self {
        let path = directory.join(format!("{id}{EXTENSION}"));
        Self { id: id.into(), lines: Lines::new(path), before: Before::Nothing, unreadable: false }
    }

    pub(super) fn problem(&self, line: Option<u64>, fault: Fault) -> Problem {
        Problem { file: file_name(&self.id), line, fault }
    }

    /// The next record, or the problem of the next line. It may be called again after the end: the file may have
    /// grown.
    pub(super) fn next(&mut self) -> Option<Result<Record, Problem>> {
        if self.unreadable {
            return None;
        }
        let range = match self.lines.next() {
            Ok(Next::Line(range)) => range,
            Ok(Next::End) => return None,
            Ok(Next::TooLong) => {
                self.before = Before::Damage;
                return Some(Err(self.problem(Some(self.lines.number), Fault::TooLong)));
            }
            Err(error) => {
                self.unreadable = true;
                return Some(Err(self.problem(None, Fault::Unreadable(error.to_string()))));
            }
        };
        let offset = self.lines.offset.saturating_add(length(range.start));
        let text = self.lines.buffer.get(range).unwrap_or_default();
        let place =
            RecordPlace { segment: Arc::clone(&self.id), line: self.lines.number, offset, bytes: text.len() };
        let record = Record::read(text, place).and_then(|(record, segment)| {
            let fault = misplaced(&self.before, &record.parents, segment, &self.id);
            fault.map_or(Ok(record), Err)
        });
        match record {
            Ok(record) => {
                self.before = Before::Record(record.hash);
                Some(Ok(record))
            }
            Err(fault) => {
                self.before = Before::Damage;
                Some(Err(self.problem(Some(self.lines.number), fault)))
            }
        }
    }

    /// The hash at the end of each line up to `position`, unchecked, with its place; damaged lines have none.
    pub(super) fn claimed(&self, position: u64, mut each: impl FnMut(Hash, RecordPlace)) {
        let mut lines = Lines::new(self.lines.path.clone());
        while lines.position() < position {
            match lines.next() {
                Ok(Next::Line(range)) => {
                    let offset = lines.offset.saturating_add(length(range.start));
                    let text = lines.buffer.get(range).unwrap_or_default();
                    if let Some((hash, _)) = line::claimed(text) {
                        let (segment, line) = (Arc::clone(&self.id), lines.number);
                        each(hash, RecordPlace { segment, line, offset, bytes: text.len() });
                    }
                }
                Ok(Next::TooLong) => {}
                Ok(Next::End) | Err(_) => break,
            }
        }
    }

    /// The offset up to which it was read.
    pub(super) fn position(&self) -> u64 {
        self.lines.position()
    }

    /// Frees its buffer.
    pub(super) fn release(&mut self) {
        self.lines.release();
    }

    /// The bytes after the last complete line, once the end was reached.
    pub(super) fn tail(&self) -> Tail {
        let tail = self.lines.tail();
        if self.lines.skipping || self.unreadable || tail.is_empty() {
            Tail { line: self.lines.number, bytes: 0, changed: false }
        } else {
            let changed = line::starts_with_record(tail);
            Tail { line: self.lines.number + 1, bytes: tail.len(), changed }
        }
    }
}

/// The bytes after the last complete line of a segment.
pub(super) struct Tail {
    pub(super) line: u64,
    /// The number of bytes of a record that was never acknowledged.
    pub(super) bytes: usize,
    /// It was a complete line before.
    pub(super) changed: bool,
}

/// The last complete line of a segment, without its newline; `None` if there is none.
pub(super) fn last_line(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let mut file = File::open(path)?;
    let mut start = file.seek(SeekFrom::End(0))?;
    let (mut bytes, mut chunk) = (Vec::new(), length(FIRST_CHUNK));
    loop {
        let end = memchr::memrchr(b'\n', &bytes);
        let before = end.and_then(|end| memchr::memrchr(b'\n', bytes.get(..end)?));
        match (end, before) {
            (Some(end), Some(before)) => return Ok(bytes.get(before + 1..end).map(<[u8]>::to_vec)),
            (Some(end), None) if start == 0 => return Ok(bytes.get(..end).map(<[u8]>::to_vec)),
            (None, _) if start == 0 => return Ok(None),
            _ if bytes.len() > 2 * MAX_LINE + 2 => return Err(io::Error::other("its last line is too long")),
            _ => {}
        }
        let size = chunk.min(start);
        start -= size;
        file.seek(SeekFrom::Start(start))?;
        let mut earlier = Vec::new();
        Read::by_ref(&mut file).take(size).read_to_end(&mut earlier)?;
        earlier.append(&mut bytes);
        bytes = earlier;
        chunk *= 2;
    }
}

/// The names of the segments in a directory, in order, and the files that are not segments.
pub(super) fn list(directory: &Path) -> Result<(Vec<String>, Vec<String>), LedgerError> {
    let (mut segments, mut strays) = (Vec::new(), Vec::new());
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        // Git does not store empty directories.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((segments, strays)),
        Err(error) => return Err(LedgerError::Io(directory.to_owned(), error)),
    };
    for entry in entries {
        let entry = entry.map_err(LedgerError::io(directory))?;
        let name = entry.file_name();
        // Only regular files are opened: a pipe would block the reader forever.
        let regular = entry.file_type().is_ok_and(|kind| kind.is_file());
        match name.to_str().and_then(|name| name.strip_suffix(EXTENSION)) {
            Some(id) if regular => segments.push(id.to_owned()),
            _ => strays.push(name.to_string_lossy().into_owned()),
        }
    }
    segments.sort_unstable();
    strays.sort_unstable();
    Ok((segments, strays))
}
