//! An index of all records, built in one pass.

use super::{Ledger, LedgerError, MAX_AMBIGUOUS, MIN_PREFIX, Record, RecordPlace};
use crate::hash::Hash;
use crate::record::{Body, NoteRecord, Outcome};
use std::collections::{BTreeMap, BTreeSet};

/// The names and places of all records. Bodies are not held; [`Ledger::read`] fetches one.
#[derive(Clone, Debug, Default)]
pub struct Index {
    records: BTreeMap<Hash, RecordPlace>,
    /// For each key its newest step; a failed step stays, whatever follows it.
    steps: BTreeMap<Hash, (Hash, bool)>,
    verdicts: BTreeMap<String, Vec<Hash>>,
    runs: BTreeMap<String, Vec<Hash>>,
    notes: BTreeSet<Hash>,
}

impl Index {
    /// Reads the whole ledger. A damaged ledger is refused: incomplete evidence proves nothing.
    pub fn new(ledger: &Ledger) -> Result<Self, LedgerError> {
        let mut index = Self::default();
        for record in ledger.records()? {
            index.add(&record?);
        }
        Ok(index)
    }

    /// Adds one record, such as one that was just appended.
    pub fn add(&mut self, record: &Record) {
        let hash = record.hash;
        match &record.body {
            Body::Step(step) => {
                let failed = step.outcome == Outcome::Fail;
                let known = self.steps.entry(step.key).or_insert((hash, failed));
                if failed || !known.1 {
                    *known = (hash, failed);
                }
            }
            Body::Verdict(verdict) => {
                self.verdicts.entry(verdict.candidate.clone()).or_default().push(hash);
            }
            Body::Note(note) => {
                self.notes.insert(said(note));
            }
            _ => {}
        }
        if let Some(run) = record.body.run() {
            self.runs.entry(run.to_owned()).or_default().push(hash);
        }
        self.records.insert(hash, record.place.clone());
    }

    /// The newest step of this key; among steps with different secrets, a failed one.
    pub fn step(&self, key: &Hash) -> Option<Hash> {
        self.steps.get(key).map(|(hash, _)| *hash)
    }

    /// The verdicts about a candidate, oldest first.
    pub fn verdicts(&self, candidate: &str) -> &[Hash] {
        self.verdicts.get(candidate).map_or(&[], Vec::as_slice)
    }

    /// The records of a run, oldest first.
    pub fn run(&self, run: &str) -> &[Hash] {
        self.runs.get(run).map_or(&[], Vec::as_slice)
    }

    /// Whether this candidate already has a note with this text.
    pub fn has_note(&self, note: &NoteRecord) -> bool {
        self.notes.contains(&said(note))
    }

    /// The runs, by name.
    pub fn runs(&self) -> impl Iterator<Item = &str> {
        self.runs.keys().map(String::as_str)
    }

    /// The candidates that have a verdict, by name.
    pub fn candidates(&self) -> impl Iterator<Item = &str> {
        self.verdicts.keys().map(String::as_str)
    }

    /// Where a record is.
    pub fn place(&self, hash: &Hash) -> Option<&RecordPlace> {
        self.records.get(hash)
    }

    /// The only record whose name has this prefix.
    pub fn find(&self, prefix: &str) -> Result<Hash, LedgerError> {
        let (low, high) = Hash::range_of(prefix)
            .filter(|_| prefix.len() >= MIN_PREFIX)
            .ok_or_else(|| LedgerError::NotAPrefix(prefix.to_owned()))?;
        let found: Vec<Hash> =
            self.records.range(low..=high).map(|(hash, _)| *hash).take(MAX_AMBIGUOUS).collect();
        match *found {
            [] => Err(LedgerError::NoSuchRecord(prefix.to_owned())),
            [hash] => Ok(hash),
            _ => Err(LedgerError::Ambiguous(prefix.to_owned(), found)),
        }
    }

    /// Fetches a record.
    pub fn get(&self, ledger: &Ledger, hash: &Hash) -> Result<Record, LedgerError> {
        let place = self.place(hash).ok_or_else(|| LedgerError::NoSuchRecord(hash.to_string()))?;
        ledger.read(place)
    }

    /// The number of records.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether the ledger has no records.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }
}

/// The hash of a note's text and subject.
fn said(note: &NoteRecord) -> Hash {
    let candidate = note.candidate.as_deref().unwrap_or_default();
    Hash::of_pieces([candidate, &note.topic, &note.text].map(str::as_bytes))
}
