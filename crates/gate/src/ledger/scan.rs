//! All records of a ledger in one order, without holding them.
//!
//! A segment is a chain, and its first record comes after its heads. So an order needs only one record of each segment
//! at a time: of the segments whose heads were given, the one whose next record has the lowest hash is next. The order
//! depends on the records alone, not on names of files or on who reads.

use super::error::Problem;
use super::line::{Fault, Parents};
use super::segment::{self, Segment};
use super::{Ledger, LedgerError, Record};
use crate::hash::Hash;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};

/// How often heads are looked for that others may just have written.
const MAX_LOOKS: u8 = 8;

struct Slot {
    segment: Segment,
    /// The record that was read and not yet given.
    next: Option<Record>,
    /// The heads of `next` that were not yet given.
    waits: BTreeSet<Hash>,
}

/// An iterator over all records: each after those it comes after, ties by hash. What is damaged is an error in its place,
/// and the rest follows.
///
/// Other processes may append meanwhile: what they write may or may not be seen, and is never taken for damage.
pub struct Records<'a> {
    ledger: &'a Ledger,
    slots: Vec<Slot>,
    known: BTreeSet<String>,
    ready: BinaryHeap<Reverse<(Hash, usize)>>,
    waiting: BTreeMap<Hash, Vec<usize>>,
    /// What is wrong and was not yet told, and the segments where it was met: they are read on after it was told, so
    /// that a file of nothing but damage does not fill memory.
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

    /// Takes in the segments that are not yet known. Gives whether there were any.
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

    /// Takes from the waits of segments that came late what was given already. Which hashes were given is not kept, so
    /// they are read again; that happens only where others write while this reads.
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

    /// Looks for what was written since: segments that have grown and segments that are new.
    pub(super) fn look_again(&mut self) -> Result<bool, LedgerError> {
        let mut found = self.add_segments()?;
        let ended = self.slots.iter().enumerate().filter(|(_, slot)| slot.next.is_none());
        for index in ended.map(|(index, _)| index).collect::<Vec<_>>() {
            // A segment that was empty may have its first record only now. It is not made to wait: what it comes after
            // was written before it, and its place is settled when the ledger is read again.
            found |= self.read_on(index);
            self.make_ready(index);
        }
        Ok(found)
    }

    /// Reads the next record of a segment. Gives whether there was anything.
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

    /// Heads that are nowhere are a problem, and are no longer waited for.
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
        // A head in a damaged line is somewhere and will never be given.
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

    /// Nothing waits for this record any longer. Gives which segments did.
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
            // A head is written before the record that names it, so whoever looks again finds it.
            self.looks = self.looks.saturating_add(1);
            match self.look_again() {
                Err(error) => return Some(Err(error)),
                Ok(true) if self.looks < MAX_LOOKS => {}
                Ok(_) => self.give_up(),
            }
        }
    }
}
