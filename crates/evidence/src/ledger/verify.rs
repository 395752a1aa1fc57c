//! Verifies a ledger's integrity.

use super::error::Problem;
use super::line::Fault;
use super::object::TEMPORARY;
use super::segment::{self, file_name};
use super::verdicts::Tasks;
use super::{ATTRIBUTES, FORMAT, Ledger, LedgerError, Parents, Record};
use crate::hash::Hash;
use crate::record::{Body, Raw};
use std::collections::HashSet;
use std::fmt;
use std::fs::{self, File, FileType};
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Maximum number of problems, and of notices, that are listed; the rest are counted.
const MAX_LISTED: usize = 1000;

/// The result of `verify`.
#[derive(Clone, Debug, Default)]
pub struct Verification {
    /// Every problem, in the order it was found.
    pub problems: Vec<Problem>,
    /// The number of problems not listed.
    pub more_problems: u64,
    /// Notices that are not problems: records truncated before they were acknowledged, unknown kinds.
    pub notices: Vec<String>,
    /// The number of notices not listed.
    pub more_notices: u64,
    /// What was checked.
    pub tally: Tally,
}

/// What was checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Segments.
    pub segments: u64,
    /// Whole records.
    pub records: u64,
    /// Objects.
    pub objects: u64,
    /// Bytes of whole records and of objects.
    pub bytes: u64,
}

impl Verification {
    /// Whether no problem was found.
    pub fn is_sound(&self) -> bool {
        self.problems.is_empty()
    }

    /// The exit code of a command that ends with it: a ledger of a later Warpproof is not supported, any other
    /// problem is a failure.
    pub fn exit_code(&self) -> u8 {
        let later = |problem: &Problem| matches!(problem.fault, Fault::Version(_));
        match (self.is_sound(), self.problems.iter().all(later)) {
            (true, _) => 0,
            (false, true) => 3,
            (false, false) => 1,
        }
    }

    fn problem(&mut self, problem: Problem) {
        if self.problems.len() < MAX_LISTED {
            self.problems.push(problem);
        } else {
            self.more_problems += 1;
        }
    }

    fn notice(&mut self, notice: String) {
        if self.notices.len() < MAX_LISTED {
            self.notices.push(notice);
        } else {
            self.more_notices += 1;
        }
    }
}

impl fmt::Display for Verification {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.problems.iter().try_for_each(|problem| writeln!(f, "{problem}"))?;
        if self.more_problems > 0 {
            writeln!(f, "and {} more", self.more_problems)?;
        }
        self.notices.iter().try_for_each(|notice| writeln!(f, "note: {notice}"))?;
        if self.more_notices > 0 {
            writeln!(f, "note: and {} more notes", self.more_notices)?;
        }
        let Tally { segments, records, objects, bytes } = self.tally;
        let count = |n: u64, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
        let (records, segments) = (count(records, "record"), count(segments, "segment"));
        let (objects, bytes) = (count(objects, "object"), count(bytes, "byte"));
        write!(f, "{records} in {segments}, {objects}, {bytes}: ")?;
        match u64::try_from(self.problems.len()).unwrap_or(u64::MAX).saturating_add(self.more_problems) {
            0 => f.write_str("sound"),
            1 => f.write_str("1 problem"),
            n => write!(f, "{n} problems"),
        }
    }
}

/// A reference in a record that must be found once everything is read.
struct Named {
    role: &'static str,
    hash: Hash,
    segment: Arc<str>,
    line: u64,
}

struct Verifier<'a> {
    ledger: &'a Ledger,
    report: Verification,
    /// The records found so far.
    hashes: HashSet<Hash>,
    /// The objects that were named and exist.
    present: HashSet<Hash>,
    /// The records that were named before they were found.
    named: Vec<Named>,
    tasks: Tasks,
    verdicts: Vec<Record>,
}

pub(super) fn verify(ledger: &Ledger) -> Result<Verification, LedgerError> {
    let mut verifier = Verifier {
        ledger,
        report: Verification::default(),
        hashes: HashSet::new(),
        present: HashSet::new(),
        named: Vec::new(),
        tasks: Tasks::default(),
        verdicts: Vec::new(),
    };
    verifier.root()?;
    verifier.records()?;
    verifier.verdicts()?;
    verifier.objects()?;
    Ok(verifier.report)
}

impl Verifier<'_> {
    /// Files next to the segments and the objects.
    fn root(&mut self) -> Result<(), LedgerError> {
        // The file was valid when the ledger was opened; its current content counts.
        if let Err(error) = Ledger::open(self.ledger.root()) {
            let fault = Fault::NotARecord(error.to_string());
            self.report.problem(Problem { file: FORMAT.to_owned(), line: None, fault });
        }
        for (name, _) in entries(self.ledger.root())? {
            if name.starts_with(TEMPORARY) {
                self.report
                    .notice(format!("{name}: temporary file of a process that was stopped while writing"));
            } else if ![FORMAT, ATTRIBUTES, "segments", "objects"].contains(&name.as_str()) {
                self.report.notice(format!("{name}: {}", Fault::Stray));
            }
        }
        for stray in segment::list(&self.ledger.segments())?.1 {
            let file = format!("segments/{stray}");
            self.report.problem(Problem { file, line: None, fault: Fault::Stray });
        }
        Ok(())
    }

    fn records(&mut self) -> Result<(), LedgerError> {
        let ledger = self.ledger;
        let mut records = ledger.records()?;
        self.take(&mut records)?;
        let hashes = &self.hashes;
        self.named.retain(|named| !hashes.contains(&named.hash));
        if !self.named.is_empty() {
            // A record's references were written before it, perhaps during this scan: looking again finds them.
            let asked = std::mem::take(&mut self.named);
            records.look_again()?;
            self.take(&mut records)?;
            for Named { role, hash, segment, line } in asked {
                if !self.hashes.contains(&hash) {
                    let fault = Fault::MissingRecord(role, hash);
                    self.report.problem(Problem { file: file_name(&segment), line: Some(line), fault });
                }
            }
        }
        for segment in records.segments() {
            self.report.tally.segments += 1;
            let tail = segment.tail();
            if tail.changed {
                self.report.problem(segment.problem(Some(tail.line), Fault::ChangedEnd));
            } else if tail.bytes > 0 {
                let (file, line, bytes) = (file_name(&segment.id), tail.line, tail.bytes);
                let what = "of a truncated record that was never acknowledged";
                self.report.notice(format!("{file}:{line}: {bytes} bytes {what}"));
            } else if tail.line == 0 {
                self.report.notice(format!("{}: empty", file_name(&segment.id)));
            }
        }
        Ok(())
    }

    fn take(&mut self, records: &mut super::Records<'_>) -> Result<(), LedgerError> {
        for record in records {
            let record = match record {
                Ok(record) => record,
                Err(LedgerError::Damaged(problem)) => {
                    self.report.problem(problem);
                    continue;
                }
                Err(error) => return Err(error),
            };
            self.report.tally.records += 1;
            self.tasks.see(&record);
            if matches!(record.body, Body::Verdict(_)) {
                self.verdicts.push(record.clone());
            }
            self.report.tally.bytes += u64::try_from(record.place.bytes).unwrap_or(0) + 1;
            self.hashes.insert(record.hash);
            let (segment, line) = (&record.place.segment, record.place.line);
            if let Parents::Heads(heads) = &record.parents
                && !heads.is_sorted_by(|a, b| a < b)
            {
                let fault = Fault::NotARecord("its heads are not sorted".to_owned());
                self.report.problem(Problem { file: record.file(), line: Some(line), fault });
            }
            for (role, hash) in record.body.references() {
                if !self.hashes.contains(&hash) {
                    self.named.push(Named { role, hash, segment: Arc::clone(segment), line });
                }
            }
            for (name, hash) in record.body.objects() {
                // An object is written before the record that names it, so there is nothing to wait for.
                if !self.present.contains(&hash) && !self.ledger.has_object(&hash) {
                    let fault = Fault::MissingObject(name.to_owned(), hash);
                    self.report.problem(Problem { file: record.file(), line: Some(line), fault });
                } else {
                    self.present.insert(hash);
                }
            }
            if let Body::Raw(Raw { kind, .. }) = &record.body {
                self.report.notice(format!("{}:{line}: kind `{kind}` {}", record.file(), record.body));
            }
        }
        Ok(())
    }

    /// Every verdict follows from its steps by the gate's own rules.
    fn verdicts(&mut self) -> Result<(), LedgerError> {
        let verdicts = std::mem::take(&mut self.verdicts);
        for problem in self.tasks.problems(self.ledger, &verdicts)? {
            self.report.problem(problem);
        }
        Ok(())
    }

    /// Every object's bytes match its name, whether a record names it or not.
    fn objects(&mut self) -> Result<(), LedgerError> {
        let root = self.ledger.objects();
        for (directory, kind) in entries(&root)? {
            let digits = |name: &str| name.bytes().all(|c| matches!(c, b'0'..=b'9' | b'a'..=b'f'));
            if !kind.is_dir() || directory.len() != 2 || !digits(&directory) {
                self.stray(format!("objects/{directory}"));
                continue;
            }
            for (name, kind) in entries(&root.join(&directory))? {
                let file = format!("objects/{directory}/{name}");
                match format!("{directory}{name}").parse::<Hash>() {
                    Ok(hash) if kind.is_file() => self.object(file, hash),
                    _ => self.stray(file),
                }
            }
        }
        Ok(())
    }

    fn object(&mut self, file: String, hash: Hash) {
        let path = self.ledger.object_path(&hash);
        let fault =
            match File::open(&path).and_then(|file| Ok((file.metadata()?.len(), Hash::of_reader(file)?))) {
                Ok((bytes, found)) => {
                    self.report.tally.objects += 1;
                    self.report.tally.bytes += bytes;
                    (found != hash).then_some(Fault::ChangedObject)
                }
                Err(error) => Some(Fault::Unreadable(error.to_string())),
            };
        if let Some(fault) = fault {
            self.report.problem(Problem { file, line: None, fault });
        }
    }

    fn stray(&mut self, file: String) {
        if file.rsplit('/').next().is_some_and(|name| name.starts_with(TEMPORARY)) {
            self.report.notice(format!("{file}: temporary file of a process that was stopped while writing"));
        } else {
            self.report.problem(Problem { file, line: None, fault: Fault::Stray });
        }
    }
}

/// The names in a directory, in order, and what each is; links are not followed.
fn entries(directory: &Path) -> Result<Vec<(String, FileType)>, LedgerError> {
    let mut names = Vec::new();
    let listed = match fs::read_dir(directory) {
        Ok(listed) => listed,
        // Git does not store empty directories.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(names),
        Err(error) => return Err(LedgerError::Io(directory.to_owned(), error)),
    };
    for entry in listed {
        let entry = entry.map_err(LedgerError::io(directory))?;
        let kind = entry.file_type().map_err(LedgerError::io(directory))?;
        names.push((entry.file_name().to_string_lossy().into_owned(), kind));
    }
    names.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
    Ok(names)
}
