//! Exports and imports whole segments: how ledgers travel between machines that do not share a disk.
//!
//! A segment from another machine is checked with the same rules as one on disk: every line has the hash it ends with
//! and follows the previous line, and the first line names the segment.

use super::line::Fault;
use super::segment::{self, Before, EXTENSION};
use super::{Ledger, LedgerError, Parents, Problem, Record, RecordPlace};
use std::fs::{self, File};
use std::io::Read;
use std::sync::Arc;

/// Maximum size of a segment that travels.
pub const MAX_SEGMENT: u64 = 256 << 20;
/// The longest name of a segment.
const MAX_NAME: usize = 64;

/// Whether this is a valid name of a segment: letters, digits and dashes, so that it is not a path.
pub fn is_segment_name(id: &str) -> bool {
    !id.is_empty() && id.len() <= MAX_NAME && id.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'-')
}

/// The records of a segment in memory, or its first problem. The caller must check that the records and objects they
/// name exist.
pub fn read_segment(id: &str, text: &[u8]) -> Result<Vec<Record>, Problem> {
    let problem = |line, fault| Problem { file: segment::file_name(id), line, fault };
    if !is_segment_name(id) {
        return Err(problem(None, Fault::Stray));
    }
    let Some(lines) = text.strip_suffix(b"\n") else {
        return Err(problem(None, Fault::NotARecord("the last line is incomplete".to_owned())));
    };
    let (name, mut before) = (Arc::<str>::from(id), Before::Nothing);
    let (mut records, mut offset, mut number) = (Vec::new(), 0_u64, 0_u64);
    for line in lines.split(|byte| *byte == b'\n') {
        number += 1;
        let wrong = |fault| problem(Some(number), fault);
        if line.len() > super::MAX_LINE {
            return Err(wrong(Fault::TooLong));
        }
        let place = RecordPlace { segment: Arc::clone(&name), line: number, offset, bytes: line.len() };
        let (record, own) = Record::read(line, place).map_err(wrong)?;
        if let Some(fault) = segment::misplaced(&before, &record.parents, own, id) {
            return Err(wrong(fault));
        }
        if let Parents::Heads(heads) = &record.parents
            && !heads.is_sorted_by(|a, b| a < b)
        {
            return Err(wrong(Fault::NotARecord("its heads are not sorted".to_owned())));
        }
        offset = offset.saturating_add(u64::try_from(line.len()).unwrap_or(u64::MAX)).saturating_add(1);
        before = Before::Record(record.hash);
        records.push(record);
    }
    Ok(records)
}

impl Ledger {
    /// The names of all segments, in order.
    pub fn segment_names(&self) -> Result<Vec<String>, LedgerError> {
        Ok(segment::list(&self.segments())?.0)
    }

    /// The complete lines of a segment, byte for byte. Bytes after the last complete line were never acknowledged.
    pub fn segment_text(&self, id: &str) -> Result<Vec<u8>, LedgerError> {
        let path = self.segments().join(format!("{id}{EXTENSION}"));
        let mut text = Vec::new();
        let file = File::open(&path).map_err(LedgerError::io(&path))?;
        file.take(MAX_SEGMENT + 1).read_to_end(&mut text).map_err(LedgerError::io(&path))?;
        let bytes = u64::try_from(text.len()).unwrap_or(u64::MAX);
        if bytes > MAX_SEGMENT {
            return Err(LedgerError::TooLarge { what: "a segment", bytes, limit: MAX_SEGMENT });
        }
        text.truncate(memchr::memrchr(b'\n', &text).map_or(0, |end| end + 1));
        Ok(text)
    }

    /// Imports a segment from another machine atomically, and returns whether it is new. Its objects must be imported
    /// first. An existing segment stays unchanged and must be equal to this one or a continuation of it.
    pub fn put_segment(&self, id: &str, text: &[u8]) -> Result<bool, LedgerError> {
        let records = read_segment(id, text).map_err(LedgerError::Damaged)?;
        for record in &records {
            let missing = record.body.objects().into_iter().find(|(_, hash)| !self.has_object(hash));
            if let Some((_, hash)) = missing {
                return Err(LedgerError::NoSuchObject(hash));
            }
        }
        let directory = self.segments();
        self.make_directory(&directory)?;
        let path = directory.join(format!("{id}{EXTENSION}"));
        if path.is_file() {
            let there = self.segment_text(id)?;
            return if there.starts_with(text) {
                Ok(false)
            } else {
                let (file, line, fault) = (segment::file_name(id), None, Fault::BrokenChain);
                Err(LedgerError::Damaged(Problem { file, line, fault }))
            };
        }
        // Written next to the segments: a reader must never see half a segment.
        let beside = self.root.join(format!("{}{id}", super::object::TEMPORARY));
        self.replace(&beside, text)?;
        fs::rename(&beside, &path).map_err(LedgerError::io(&path))?;
        self.sync_directory(&directory).map_err(LedgerError::io(&directory))?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Body, NoteRecord};

    fn note(text: &str) -> Body {
        let (topic, text) = ("test".to_owned(), text.to_owned());
        Body::Note(NoteRecord {
            topic,
            text,
            run: None,
            candidate: None,
            about: Vec::new(),
            ..NoteRecord::default()
        })
    }

    fn written() -> (tempfile::TempDir, Ledger, String, Vec<u8>) {
        let directory = tempfile::tempdir().expect("a directory");
        let ledger = Ledger::create(directory.path()).expect("a ledger");
        ledger.writer().append_all(&[note("one"), note("two"), note("three")]).expect("written");
        let id = ledger.segment_names().expect("listed").remove(0);
        let text = ledger.segment_text(&id).expect("read");
        (directory, ledger, id, text)
    }

    #[test]
    fn a_segment_travels_byte_for_byte() {
        let (_kept, from, id, text) = written();
        let directory = tempfile::tempdir().expect("a directory");
        let into = Ledger::create(directory.path()).expect("a ledger");
        assert!(into.put_segment(&id, &text).expect("taken"));
        assert!(!into.put_segment(&id, &text).expect("known"));
        assert_eq!(into.segment_text(&id).expect("read"), text);
        assert_eq!(into.heads().expect("heads"), from.heads().expect("heads"));
        let report = into.verify().expect("verified");
        assert!(report.is_sound() && report.notices.is_empty(), "{report}");
    }

    #[test]
    fn every_changed_byte_is_found() {
        let (_kept, _, id, text) = written();
        assert_eq!(read_segment(&id, &text).expect("sound").len(), 3);
        for at in 0..text.len() {
            let mut changed = text.clone();
            changed[at] ^= 1;
            assert!(read_segment(&id, &changed).is_err(), "byte {at}");
        }
        assert!(read_segment(&id, &text[..text.len() - 1]).is_err(), "cut off");
        assert!(read_segment("other", &text).is_err(), "renamed");
        for name in ["", "../x", "a/b", "a.b", "x\0", &"x".repeat(65)] {
            assert!(read_segment(name, &text).is_err(), "{name:?}");
        }
    }

    #[test]
    fn another_segment_of_the_same_name_is_refused() {
        let (_kept, ledger, id, text) = written();
        let lines: Vec<&[u8]> = text.split_inclusive(|byte| *byte == b'\n').collect();
        // A prefix of an existing segment counts as present.
        assert!(!ledger.put_segment(&id, &lines[..2].concat()).expect("known"));
        fs::write(ledger.segments().join(format!("{id}{EXTENSION}")), b"{}\n").expect("written");
        assert!(ledger.put_segment(&id, &text).is_err());
    }
}
