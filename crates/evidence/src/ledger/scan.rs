//! Iterates over all records of a ledger in one order, without holding them in memory.
//!
//! A segment is a chain, and its first record follows its heads. So an order needs only one record of each segment at
//! a time: among the segments whose heads were returned, the one whose next record has the lowest hash is next. The
//! order depends only on the records, not on names of files or on the reader.

use super::error::Problem;
use super::line::{Fault, Parents};
use super::segment::{self, Segment};
use super::{Ledger, LedgerError, Record};
use crate::hash::Hash;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};

/// How often the scan looks again for heads that other processes may just have written.
const MAX_LOOKS: u8 = 8;

struct Slot {
    segment: Segment,
    /// The record that was read and not yet returned.
    next: Option<Record>,
    /// The heads of `next` that were not yet returned.
    waits: BTreeSet<Hash>,
}

/// An iterator over all records: each after those it follows, ties by hash. A damaged line is an error in its place,
/// and the rest follows.
///
/// Other processes may append meanwhile: their records may or may not be seen, and are never reported as damage.
pub struct Records<'a> {
    ledger: &'a Ledger,
    slots: Vec<Slot>,
    known: BTreeSet<String>,
    ready: BinaryHeap<Reverse<(Hash, usize)>>,
    waiting: BTreeMap<Hash, Vec<usize>>,
    /// Problems that were not reported yet, and the segments with them: reading continues after the report, so that a
    /// file that consists only of damage does not fill memory.
    problems: VecDeque<Problem>,
    halted: Vec<usize>,
    looks: u8,
}

impl<'a> Records<'a> {
    pub(super) fn new(ledger: &'a Ledger) -> Result<Self, LedgerError> {
        let mut records = Self {
            ledger,
            slots: Vec::new(),
            known: BTreeSet::new(),
            ready: BinaryHeap::new(),
            waiting: BTreeMap::new(),
            problems: VecDeque::new(),
            halted: Vec::new(),
            looks: 0,
        };
        records.add_segments()?;
        Ok(records)
    }

    /// Adds segments that are not yet known. Returns whether there were any.
    fn add_segments(&mut self) -> Result<bool, LedgerError> {
        let directory = self.ledger.segments();
        let first = self.slots.len();
        for id in segment::list(&directory)?.0 {
            if self.known.insert(id.clone()) {
                let index = self.slots.len();
                self.slots.push(Slot {
                    segment: Segment::new(&directory, &id),
                    next: None,
                    waits: BTreeSet::new(),
                });
                self.read_on(index);
                let slot = self.slots.last_mut();
                if let Some(Slot { next: Some(record), waits, .. }) = slot
                    && let Parents::Heads(heads) = &record.parents
                {
                    waits.extend(heads);
                }
            }
        }
        if first > 0 {
            self.forget_given_heads(first);
        }
        for (index, slot) in self.slots.iter_mut().enumerate().skip(first) {
            for head in &slot.waits {
                self.waiting.entry(*head).or_default().push(index);
            }
            match &slot.next {
                Some(record) if slot.waits.is_empty() => self.ready.push(Reverse((record.hash, index))),
                _ => slot.segment.release(),
            }
        }
        Ok(self.slots.len() > first)
    }

    /// Removes heads that were already returned from the waits of late segments. The returned hashes are not stored,
    /// so they are read again; that happens only if another process writes during the scan.
    fn forget_given_heads(&mut self, first: usize) {
        let (old, late) = self.slots.split_at_mut(first);
        let wanted: BTreeSet<Hash> = late.iter().flat_map(|slot| &slot.waits).copied().collect();
        let mut given = BTreeSet::new();
        for slot in old.iter().filter(|_| !wanted.is_empty()) {
            let end = slot.next.as_ref().map_or(slot.segment.position(), |record| record.place.offset);
            slot.segment.claimed(end, |hash, _| {
                if wanted.contains(&hash) {
                    given.insert(hash);
                }
            });
        }
        for slot in late {
            slot.waits.retain(|head| !given.contains(head));
        }
    }

    /// Looks for new data: segments that have grown and new segments.
    pub(super) fn look_again(&mut self) -> Result<bool, LedgerError> {
        let mut found = self.add_segments()?;
        let ended = self.slots.iter().enumerate().filter(|(_, slot)| slot.next.is_none());
        for index in ended.map(|(index, _)| index).collect::<Vec<_>>() {
            // A segment that was empty may have its first record only now. It does not wait: the records it follows
            // were written before it, and its position is settled when the ledger is read again.
            found |= self.read_on(index);
            self.make_ready(index);
        }
        Ok(found)
    }

    /// Reads the next record of a segment. Returns whether there was one.
    fn read_on(&mut self, index: usize) -> bool {
        let Some(slot) = self.slots.get_mut(index) else { return false };
        match slot.segment.next() {
            Some(Ok(record)) => slot.next = Some(record),
            Some(Err(problem)) => {
                self.problems.push_back(problem);
                self.halted.push(index);
            }
            None => return false,
        }
        true
    }

    fn make_ready(&mut self, index: usize) {
        if let Some(record) = self.slots.get(index).and_then(|slot| slot.next.as_ref()) {
            self.ready.push(Reverse((record.hash, index)));
        }
    }

    /// Reports heads that do not exist, and stops waiting for them.
    fn give_up(&mut self) {
        let mut somewhere = BTreeSet::new();
        for slot in self.slots.iter().filter(|slot| !slot.waits.is_empty()) {
            slot.segment.claimed(u64::MAX, |hash, _| {
                if self.waiting.contains_key(&hash) {
                    somewhere.insert(hash);
                }
            });
        }
        let missing: Vec<Hash> =
            self.waiting.keys().filter(|head| !somewhere.contains(head)).copied().collect();
        // A head in a damaged line exists but will never be returned.
        let missing = if missing.is_empty() { self.waiting.keys().copied().collect() } else { missing };
        for head in missing {
            for index in self.given(head) {
                if let Some(slot) = self.slots.get(index) {
                    let line = slot.next.as_ref().map(|record| record.place.line);
                    self.problems.push_back(slot.segment.problem(line, Fault::MissingRecord("head", head)));
                }
            }
        }
    }

    /// Nothing waits for this record any longer. Returns the segments that did.
    fn given(&mut self, hash: Hash) -> Vec<usize> {
        let indices = self.waiting.remove(&hash).unwrap_or_default();
        for index in &indices {
            let Some(slot) = self.slots.get_mut(*index) else { continue };
            slot.waits.remove(&hash);
            if let (true, Some(record)) = (slot.waits.is_empty(), &slot.next) {
                self.ready.push(Reverse((record.hash, *index)));
            }
        }
        indices
    }

    pub(super) fn segments(&self) -> impl Iterator<Item = &Segment> {
        self.slots.iter().map(|slot| &slot.segment)
    }
}

impl Iterator for Records<'_> {
    type Item = Result<Record, LedgerError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(problem) = self.problems.pop_front() {
                return Some(Err(LedgerError::Damaged(problem)));
            }
            if let Some(index) = self.halted.pop() {
                self.read_on(index);
                self.make_ready(index);
                continue;
            }
            if let Some(Reverse((hash, index))) = self.ready.pop() {
                let record = self.slots.get_mut(index).and_then(|slot| slot.next.take());
                self.read_on(index);
                self.make_ready(index);
                self.given(hash);
                match record {
                    Some(record) => return Some(Ok(record)),
                    None => continue,
                }
            }
            if self.waiting.is_empty() {
                return None;
            }
            // A head is written before the record that names it, so looking again finds it.
            self.looks = self.looks.saturating_add(1);
            match self.look_again() {
                Err(error) => return Some(Err(error)),
                Ok(true) if self.looks < MAX_LOOKS => {}
                Ok(_) => self.give_up(),
            }
        }
    }
}
