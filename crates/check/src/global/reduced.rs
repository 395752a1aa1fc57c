//! The reductions of a block, which is not ordered with other blocks: atomics whose results are unused.
//!
//! In the history of a word, an atomic replaces what happened before it in its block. Other blocks are not ordered after that,
//! so the replaced accesses are kept here, next to the last atomic. Two atomics of different blocks race only if the scope of
//! one of them is the block.

use super::super::history::Conflict;
use super::super::shadow::{Cell, Owner, Stamp};
use super::between::Done;
use super::{PAGE, PAGE_BYTES, Pages};
use std::collections::HashMap;

/// All bytes of a word, one bit each.
pub(super) const WORD: u8 = 0b1111;

/// The atomics on a word.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reduced {
    /// The first one and the last one with its block; those whose scope is the block before others.
    first: Option<Stamp>,
    last: Option<(Stamp, u32)>,
    /// The bytes that atomics have changed, one bit each.
    bytes: u8,
    /// Ordinary accesses of the same block before an atomic, and the bytes that they read and wrote.
    before: Option<Done>,
    read: u8,
    written: u8,
}

/// The words of a page.
pub(super) type ReducedPage = Box<[Reduced; PAGE]>;

impl Reduced {
    pub(super) fn is_empty(&self) -> bool {
        self.last.is_none()
    }

    /// The last atomic on some of these bytes.
    pub(super) fn last(&self, bytes: u8) -> Option<Stamp> {
        self.last.filter(|_| self.bytes & bytes != 0).map(|(stamp, _)| stamp)
    }

    /// The first atomic.
    pub(super) fn first(&self) -> Option<Stamp> {
        self.first
    }

    /// The last atomic on some of these bytes, as what a block races with.
    pub(super) fn conflict(&self, bytes: u8) -> Option<Conflict> {
        let (other, block) = self.last.filter(|_| self.bytes & bytes != 0)?;
        Some(Conflict { other, block, wrote: true, pending: false, thread_known: true })
    }

    /// The atomic of a block and that of an earlier one, if they race.
    pub(super) fn meet(&self, earlier: &Reduced) -> Option<(Stamp, Conflict)> {
        let mine = self.first?;
        let conflict = earlier.conflict(self.bytes)?;
        (mine.in_block() || conflict.other.in_block()).then_some((mine, conflict))
    }

    /// Adds the atomics of a later block, or later ones of the same block.
    pub(super) fn add(&mut self, later: &Reduced) {
        let narrow = |stamp: Option<Stamp>| stamp.is_some_and(Stamp::in_block);
        let stamp = |last: Option<(Stamp, u32)>| last.map(|(stamp, _)| stamp);
        if self.first.is_none() || !narrow(self.first) && narrow(later.first) {
            self.first = later.first;
        }
        if later.last.is_some() && (!narrow(stamp(self.last)) || narrow(stamp(later.last))) {
            self.last = later.last;
        }
        self.bytes |= later.bytes;
    }

    /// What a block did to some bytes, including what its atomics have replaced in their history.
    pub(super) fn complete(&self, done: Done, bytes: u8) -> Done {
        let Some(before) = self.before else { return done };
        let read = before.read.filter(|_| self.read & bytes != 0);
        let write = before.write.filter(|_| self.written & bytes != 0);
        Done { read: done.read.or(read), write: done.write.or(write) }
    }
}

impl Pages {
    /// Records an atomic of a block, before its history is changed.
    pub(super) fn reduce(&mut self, block: u32, stamp: Stamp, address: u64, bytes: u32) {
        let end = address.saturating_add(u64::from(bytes));
        let mut word = address & !3;
        while word < end {
            let number = word / PAGE_BYTES;
            let Some(page) = self.page(number) else { return };
            let slot = usize::try_from(word / 4).unwrap_or(0) % PAGE;
            let cell = self.list.get(page).map(|(_, page)| page.cells[slot]).unwrap_or_default();
            let done = |cell: &Cell, owner: &Owner| Done::of(cell, owner, &self.spill);
            let before: [(Done, u8); 4] = match cell.cell.parts() {
                None => {
                    let nothing = (Done::NOTHING, 0);
                    [(done(&cell.cell, &cell.owner), WORD), nothing, nothing, nothing]
                }
                Some(parts) => std::array::from_fn(|byte| {
                    let (cell, owner) = self.spill.part(parts, byte);
                    (done(&cell, &owner), 1 << byte)
                }),
            };
            if !self.reduced.contains_key(&number) && !self.has_room() {
                return;
            }
            let touched = (0..4u64).filter(|byte| (address..end).contains(&(word + byte)));
            let touched = touched.fold(0, |mask: u8, byte| mask | 1 << byte);
            let page = self.reduced.entry(number).or_insert_with(|| Box::new([Reduced::default(); PAGE]));
            let all = &mut page[slot];
            let stamp = Stamp { modified: true, ..stamp };
            let (first, last) = (Some(stamp), Some((stamp, block)));
            all.add(&Reduced { first, last, bytes: touched, ..Reduced::default() });
            for (before, bytes) in before.into_iter().filter(|(before, _)| !before.is_empty()) {
                let known = all.before.unwrap_or(Done::NOTHING);
                all.before =
                    Some(Done { read: known.read.or(before.read), write: known.write.or(before.write) });
                all.read |= if before.read.is_some() { bytes } else { 0 };
                all.written |= if before.write.is_some() { bytes } else { 0 };
            }
            word += 4;
        }
    }
}

/// The words of pages by page.
pub(super) type ReducedPages = HashMap<u64, ReducedPage>;
