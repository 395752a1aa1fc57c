//! The ledger: an append-only directory of records that many processes write and no process rewrites.
//!
//! ```text
//! FORMAT                      `warpproof ledger 1`
//! .gitattributes              keeps git from changing ends of lines
//! segments/<id>.jsonl         records, one a line; one writer appends to its own segment only
//! objects/ab/<rest of hash>   bytes by their BLAKE3 hash: samples, PTX, logs
//! ```
//!
//! Each record names the previous one in its segment, and the first of a segment names the newest records of all
//! others: the records form one graph, like commits. Two writers never touch the same file, so directories merge as
//! sets of files. `line.rs` defines the format of a line.
//!
//! **Guarantees.** [`Writer::append`] returns when the whole line is on the disk. A line without its newline was
//! never acknowledged, and readers skip it. [`Ledger::verify`] finds every changed byte of a segment or an object,
//! records removed from the middle, and every record or object that is named but missing. **Not guaranteed:** a user
//! who can write the directory can add records, and can remove the newest ones that no other record names yet. To
//! detect that, commit the directory and compare it with the commit.

mod clock;
mod error;
mod exchange;
mod export;
mod index;
mod line;
mod object;
mod scan;
mod segment;
mod verdicts;
mod verify;
mod view;
mod writer;

pub use clock::utc;
pub use error::{LedgerError, Problem};
pub use exchange::{MAX_SEGMENT, is_segment_name, read_segment};
pub use export::{FigureRow, export_csv, figures};
pub use index::Index;
pub use line::{Fault, MAX_LINE, Parents};
pub use object::MAX_OBJECT;
pub use scan::Records;
pub use segment::RecordPlace;
pub use verdicts::Tasks;
pub use verify::{Tally, Verification};
pub use view::{Filter, Reference, Shown, log, newest_run, runs_of, show};
pub use writer::Writer;

use crate::hash::Hash;
use crate::record::Body;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// The version of the format that this Warpproof reads and writes.
pub const VERSION: u64 = 1;
/// The minimum digits of an abbreviated hash.
pub const MIN_PREFIX: usize = 4;
/// The number of records that an ambiguous prefix lists.
const MAX_AMBIGUOUS: usize = 8;
const FORMAT: &str = "FORMAT";
const FORMAT_START: &str = "warpproof ledger ";
const ATTRIBUTES: &str = ".gitattributes";

/// A ledger on disk. Cheap to clone; holds no file open.
#[derive(Clone, Debug)]
pub struct Ledger {
    root: PathBuf,
    /// Whether writes wait until the data is on the disk.
    lasting: bool,
}

/// One entry of the ledger.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// Its name.
    pub hash: Hash,
    /// The records it follows.
    pub parents: Parents,
    /// Its content.
    pub body: Body,
    /// Where it is.
    pub place: RecordPlace,
    text: String,
}

impl Record {
    /// Reads a line, and the name of its segment if the line contains it.
    fn read(line: &[u8], place: RecordPlace) -> Result<(Self, Option<String>), Fault> {
        let line::Decoded { hash, parents, segment, body } = line::decode(line)?;
        let text = str::from_utf8(line).map_err(|error| Fault::NotARecord(error.to_string()))?.to_owned();
        Ok((Self { hash, parents, body, place, text }, segment))
    }

    /// The exact line without its newline, including fields that this Warpproof does not know.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Its file, relative to the ledger.
    pub fn file(&self) -> String {
        segment::file_name(&self.place.segment)
    }
}

impl Ledger {
    /// Opens a ledger that exists.
    pub fn open(root: impl Into<PathBuf>) -> Result<Self, LedgerError> {
        let root = root.into();
        let path = root.join(FORMAT);
        let mut text = Vec::new();
        match File::open(&path) {
            Ok(file) => file.take(256).read_to_end(&mut text).map_err(LedgerError::io(&path))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(LedgerError::Absent(root)),
            Err(error) => return Err(LedgerError::Io(path, error)),
        };
        let text =
            str::from_utf8(&text).ok().and_then(|text| text.strip_prefix(FORMAT_START)?.strip_suffix('\n'));
        match text {
            Some(version) if version == VERSION.to_string() => Ok(Self { root, lasting: true }),
            Some(version) if !version.is_empty() && version.bytes().all(|digit| digit.is_ascii_digit()) => {
                Err(LedgerError::Version(root, version.to_owned()))
            }
            _ => Err(LedgerError::Foreign(root)),
        }
    }

    /// Opens a ledger, and creates it first if it does not exist. Several processes may do so at once.
    pub fn create(root: impl Into<PathBuf>) -> Result<Self, LedgerError> {
        Self::open_or_make(root.into(), true)
    }

    /// A ledger that the parent process reads and then deletes: nothing waits for the disk.
    pub fn passing(root: impl Into<PathBuf>) -> Result<Self, LedgerError> {
        Self::open_or_make(root.into(), false)
    }

    fn open_or_make(root: PathBuf, lasting: bool) -> Result<Self, LedgerError> {
        match Self::open(&root) {
            Err(LedgerError::Absent(_)) => {}
            opened => return opened.map(|ledger| Self { lasting, ..ledger }),
        }
        fs::create_dir_all(&root).map_err(LedgerError::io(&root))?;
        let ledger = Self { root, lasting };
        if let Some(parent) = ledger.root.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            ledger.sync_directory(parent).map_err(LedgerError::io(parent))?;
        }
        ledger.replace(&ledger.root.join(ATTRIBUTES), b"* -text\n")?;
        // Last: a directory without FORMAT is not yet a ledger.
        ledger.replace(&ledger.root.join(FORMAT), format!("{FORMAT_START}{VERSION}\n").as_bytes())?;
        Ok(ledger)
    }

    /// The directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// A writer with its own segment.
    pub fn writer(&self) -> Writer {
        Writer::new(self.clone())
    }

    /// All records, each after those it follows; ties by hash.
    pub fn records(&self) -> Result<Records<'_>, LedgerError> {
        Records::new(self)
    }

    /// The newest records: those that no other record follows.
    pub fn heads(&self) -> Result<Vec<Hash>, LedgerError> {
        Ok(self.tips()?.into_iter().map(|(hash, _)| hash).collect())
    }

    /// The newest records in order, each with its segment. Only the two ends of each segment are read.
    fn tips(&self) -> Result<Vec<(Hash, String)>, LedgerError> {
        let directory = self.segments();
        let (mut tips, mut named) = (Vec::new(), BTreeSet::new());
        for id in segment::list(&directory)?.0 {
            let mut segment = segment::Segment::new(&directory, &id);
            match segment.next() {
                Some(Ok(first)) => {
                    if let Parents::Heads(heads) = first.parents {
                        named.extend(heads);
                    }
                }
                Some(Err(problem)) => return Err(LedgerError::Damaged(problem)),
                None => continue,
            }
            let path = directory.join(format!("{id}{}", segment::EXTENSION));
            let Some(line) = segment::last_line(&path).map_err(LedgerError::io(&path))? else { continue };
            let last =
                line::decode(&line).map_err(|fault| LedgerError::Damaged(segment.problem(None, fault)))?;
            tips.push((last.hash, id));
        }
        tips.retain(|(hash, _)| !named.contains(hash));
        tips.sort_unstable();
        Ok(tips)
    }

    /// The record with this name. Reads the whole ledger; for repeated queries, build an [`Index`].
    pub fn get(&self, hash: &Hash) -> Result<Record, LedgerError> {
        self.find(&hash.to_string())
    }

    /// The only record whose name has this prefix.
    pub fn find(&self, prefix: &str) -> Result<Record, LedgerError> {
        let (low, high) = Hash::range_of(prefix)
            .filter(|_| prefix.len() >= MIN_PREFIX)
            .ok_or_else(|| LedgerError::NotAPrefix(prefix.to_owned()))?;
        let mut found = BTreeMap::new();
        let directory = self.segments();
        for id in segment::list(&directory)?.0 {
            segment::Segment::new(&directory, &id).claimed(u64::MAX, |hash, place| {
                if low <= hash && hash <= high && found.len() < MAX_AMBIGUOUS {
                    found.entry(hash).or_insert(place);
                }
            });
        }
        let mut places = found.values();
        match (places.next(), places.next()) {
            (Some(place), None) => self.read(place),
            (None, _) => Err(LedgerError::NoSuchRecord(prefix.to_owned())),
            _ => Err(LedgerError::Ambiguous(prefix.to_owned(), found.into_keys().collect())),
        }
    }

    /// Those of these records that exist, in the order of their names.
    pub fn fetch(&self, wanted: &BTreeSet<Hash>) -> Result<Vec<Record>, LedgerError> {
        self.places(wanted)?.values().map(|place| self.read(place)).collect()
    }

    /// The places of these records; missing ones are left out.
    fn places(&self, wanted: &BTreeSet<Hash>) -> Result<BTreeMap<Hash, RecordPlace>, LedgerError> {
        let (directory, mut found) = (self.segments(), BTreeMap::new());
        for id in segment::list(&directory)?.0 {
            segment::Segment::new(&directory, &id).claimed(u64::MAX, |hash, place| {
                if wanted.contains(&hash) {
                    found.entry(hash).or_insert(place);
                }
            });
        }
        Ok(found)
    }

    /// The record at a place that an [`Index`] or another record gave.
    pub fn read(&self, place: &RecordPlace) -> Result<Record, LedgerError> {
        let path = self.root.join(segment::file_name(&place.segment));
        let mut line = Vec::new();
        let mut file = File::open(&path).map_err(LedgerError::io(&path))?;
        file.seek(SeekFrom::Start(place.offset)).map_err(LedgerError::io(&path))?;
        let bytes = u64::try_from(place.bytes.min(MAX_LINE)).unwrap_or(u64::MAX);
        file.take(bytes).read_to_end(&mut line).map_err(LedgerError::io(&path))?;
        let problem = |fault| {
            let file = segment::file_name(&place.segment);
            LedgerError::Damaged(Problem { file, line: Some(place.line), fault })
        };
        Record::read(&line, place.clone()).map(|(record, _)| record).map_err(problem)
    }

    /// Finds every problem.
    pub fn verify(&self) -> Result<Verification, LedgerError> {
        verify::verify(self)
    }

    fn segments(&self) -> PathBuf {
        self.root.join("segments")
    }

    /// Writes a file atomically.
    fn replace(&self, path: &Path, bytes: &[u8]) -> Result<(), LedgerError> {
        use std::io::Write;
        let directory = path.parent().unwrap_or(&self.root);
        let write = || {
            let mut builder = tempfile::Builder::new();
            builder.prefix(object::TEMPORARY);
            // Evidence is readable by every user with access to the directory, not only by its writer.
            #[cfg(unix)]
            builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
            let mut file = builder.tempfile_in(directory)?;
            file.write_all(bytes)?;
            if self.lasting {
                file.as_file().sync_all()?;
            }
            file.persist(path).map_err(|error| error.error)?;
            self.sync_directory(directory)
        };
        write().map_err(LedgerError::io(path))
    }

    /// Makes names in a directory durable. Only Unix has, and needs, a call for this.
    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        if cfg!(unix) && self.lasting { File::open(directory)?.sync_all() } else { Ok(()) }
    }
}
