//! Appends records.

use super::line::{self, MAX_LINE, Parents};
use super::segment::{self, EXTENSION};
use super::{Ledger, LedgerError, clock};
use crate::hash::Hash;
use crate::record::{Body, Invalid};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::slice;
use std::time::SystemTime;

/// How often another name is tried if a segment with the chosen name exists.
const ATTEMPTS: u32 = 8;

/// Appends to its own segment, which is created with the first record. Threads may share one through a lock, or each
/// have their own.
#[derive(Debug)]
pub struct Writer {
    ledger: Ledger,
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    file: File,
    id: String,
    last: Hash,
}

impl Writer {
    pub(super) fn new(ledger: Ledger) -> Self {
        Self { ledger, open: None }
    }

    /// The ledger it writes to.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Stores these bytes; see [`Ledger::put_object`]. Store objects before the record that names them.
    pub fn put_object(&self, bytes: &[u8]) -> Result<Hash, LedgerError> {
        self.ledger.put_object(bytes)
    }

    /// Appends one record. When this returns its name, the record is on the disk.
    pub fn append(&mut self, body: &Body) -> Result<Hash, LedgerError> {
        let hashes = self.append_all(slice::from_ref(body))?;
        hashes.first().copied().ok_or_else(|| LedgerError::Invalid(Invalid("no record was written".into())))
    }

    /// Appends several records and waits for the disk once. On failure none is acknowledged, though some may have
    /// been written.
    ///
    /// After a failure, the state of the last lines on the disk is unknown, so the segment stays as it is and the
    /// next record starts another.
    pub fn append_all(&mut self, bodies: &[Body]) -> Result<Vec<Hash>, LedgerError> {
        for body in bodies {
            body.check().map_err(LedgerError::Invalid)?;
            let missing = body.objects().into_iter().find(|(_, hash)| !self.ledger.has_object(hash));
            if let Some((_, hash)) = missing {
                return Err(LedgerError::NoSuchObject(hash));
            }
        }
        if bodies.is_empty() {
            return Ok(Vec::new());
        }
        match self.open.take() {
            Some(Open { mut file, id, last }) => {
                let encoded = encode(&id, Parents::Prev(last), bodies);
                let (lines, hashes) = match encoded {
                    Ok(encoded) => encoded,
                    Err(error) => {
                        // Nothing was written: the segment is unchanged.
                        self.open = Some(Open { file, id, last });
                        return Err(error);
                    }
                };
                let path = self.ledger.root.join(segment::file_name(&id));
                self.ledger.write(&mut file, &lines).map_err(LedgerError::io(&path))?;
                self.open = Some(Open { file, id, last: hashes.last().copied().unwrap_or(last) });
                Ok(hashes)
            }
            None => self.start_segment(bodies),
        }
    }

    fn start_segment(&mut self, bodies: &[Body]) -> Result<Vec<Hash>, LedgerError> {
        let directory = self.ledger.segments();
        self.ledger.make_directory(&directory)?;
        let tips = self.ledger.tips()?;
        for (_, id) in &tips {
            // A head must not be lost while the record that names it survives, and its own writer may still be
            // waiting for the disk.
            self.ledger.sync_segment(&directory.join(format!("{id}{EXTENSION}")))?;
        }
        let heads: Vec<Hash> = tips.into_iter().map(|(hash, _)| hash).collect();
        let mut attempt = 0;
        loop {
            let time = SystemTime::now();
            let id =
                format!("{}-{:016x}", clock::compact(time), random().map_err(LedgerError::io(&directory))?);
            let (lines, hashes) = encode(&id, Parents::Heads(heads.clone()), bodies)?;
            let path = directory.join(format!("{id}{EXTENSION}"));
            let mut file = match OpenOptions::new().append(true).create_new(true).open(&path) {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && attempt < ATTEMPTS => {
                    attempt += 1;
                    continue;
                }
                Err(error) => return Err(LedgerError::Io(path, error)),
            };
            self.ledger.write(&mut file, &lines).map_err(LedgerError::io(&path))?;
            self.ledger.sync_directory(&directory).map_err(LedgerError::io(&directory))?;
            self.open = hashes.last().map(|last| Open { file, id, last: *last });
            return Ok(hashes);
        }
    }
}

fn encode(id: &str, mut parents: Parents, bodies: &[Body]) -> Result<(Vec<u8>, Vec<Hash>), LedgerError> {
    let (mut lines, mut hashes) = (Vec::new(), Vec::new());
    for body in bodies {
        let start = lines.len();
        let hash = line::encode(&mut lines, id, &parents, body)
            .map_err(|error| LedgerError::Invalid(Invalid(error.to_string().into())))?;
        let bytes = lines.len() - start - 1;
        if bytes > MAX_LINE {
            let (bytes, limit) = (u64::try_from(bytes), u64::try_from(MAX_LINE));
            let (bytes, limit) = (bytes.unwrap_or(u64::MAX), limit.unwrap_or(u64::MAX));
            return Err(LedgerError::TooLarge { what: "a record", bytes, limit });
        }
        hashes.push(hash);
        parents = Parents::Prev(hash);
    }
    Ok((lines, hashes))
}

impl Ledger {
    fn write(&self, file: &mut File, lines: &[u8]) -> io::Result<()> {
        file.write_all(lines)?;
        if self.lasting { file.sync_data() } else { Ok(()) }
    }

    /// Waits until other writers' data in this segment is on the disk.
    fn sync_segment(&self, path: &Path) -> Result<(), LedgerError> {
        // On other systems a file that is open for reading cannot be synchronized.
        if cfg!(unix) && self.lasting {
            File::open(path).and_then(|file| file.sync_data()).map_err(LedgerError::io(path))?;
        }
        Ok(())
    }
}

/// 64 bits that no other writer is likely to choose.
fn random() -> io::Result<u64> {
    getrandom::u64()
        .map_err(|error| io::Error::other(format!("cannot read random bytes from the system: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::NoteRecord;

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

    /// A failed write, as on a full disk, loses only the record in progress.
    #[test]
    fn after_a_failed_write_another_segment_is_begun() {
        let directory = tempfile::tempdir().expect("a directory");
        let ledger = Ledger::create(directory.path()).expect("a ledger");
        let mut writer = ledger.writer();
        let first = writer.append(&note("first")).expect("written");
        let open = writer.open.as_mut().expect("open");
        // A file that is open for reading only refuses every write.
        let path = ledger.root.join(segment::file_name(&open.id));
        open.file = File::open(&path).expect("the file exists");
        assert!(matches!(writer.append(&note("lost")), Err(LedgerError::Io(..))));
        // Half a line, as a full disk leaves it.
        OpenOptions::new()
            .append(true)
            .open(&path)
            .and_then(|mut file| file.write_all(br#"{"v":1,"prev":"#))
            .expect("written");
        let second = writer.append(&note("second")).expect("written");
        let report = ledger.verify().expect("the ledger can be read");
        assert!(report.is_sound(), "{report}");
        assert_eq!(report.notices.len(), 1, "{report}");
        let hashes: Vec<Hash> = ledger.records().expect("ok").map(|r| r.expect("whole").hash).collect();
        assert_eq!(hashes, [first, second]);
        assert_eq!(ledger.heads().expect("ok"), [second]);
    }

    #[test]
    fn a_record_that_is_too_large_is_refused_and_leaves_nothing() {
        let directory = tempfile::tempdir().expect("a directory");
        let ledger = Ledger::create(directory.path()).expect("a ledger");
        let mut writer = ledger.writer();
        let large = note(&"x".repeat(MAX_LINE));
        assert!(matches!(writer.append(&large), Err(LedgerError::TooLarge { .. })));
        assert_eq!(segment::list(&ledger.segments()).expect("ok").0.len(), 0);
        writer.append(&note("small")).expect("written");
        assert!(matches!(writer.append(&large), Err(LedgerError::TooLarge { .. })));
        writer.append(&note("small")).expect("written");
        let report = ledger.verify().expect("the ledger can be read");
        assert_eq!(
            (report.problems.len(), report.tally.segments, report.tally.records),
            (0, 1, 2),
            "{report}"
        );
        let longest = note(&"x".repeat(MAX_LINE - 400));
        let hash = writer.append(&longest).expect("written");
        assert_eq!(ledger.get(&hash).expect("there").body, longest);
    }
}
