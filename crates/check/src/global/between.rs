//! Races between blocks that cannot order their accesses: those of a block are compared with those of the blocks before it.

use super::super::context::Context;
use super::super::history::Conflict;
use super::super::race::Race;
use super::super::raw::RawFindings;
use super::super::shadow::{Cell, Many, Owner, Spill, Stamp};
use super::reduced::{Reduced, WORD};
use super::{GlobalCell, PAGE, PAGE_BYTES, Pages, report};
use warpproof_sim::machine::{AccessKind, at};

/// The accesses of all blocks, which cannot order them.
pub(crate) struct Between {
    pages: Pages,
}

impl Between {
    pub(crate) fn new(bytes: u64) -> Between {
        Between { pages: Pages::new(bytes) }
    }

    /// The instruction that wrote a byte last.
    pub(crate) fn writer(&mut self, address: u64) -> Option<u32> {
        let slot = usize::try_from(address / 4).unwrap_or(0) % PAGE;
        let reduced = self.pages.reduced.get(&(address / PAGE_BYTES)).map(|page| page[slot]);
        let reduced = reduced.and_then(|reduced| reduced.last(1 << (address % 4)));
        self.pages.writer(address).map(|(stamp, _)| stamp).or(reduced).map(|stamp| stamp.pc)
    }

    pub(crate) fn full(&self) -> bool {
        self.pages.full
    }

    /// Compares the accesses of a block with those of the blocks before it.
    pub(crate) fn add(
        &mut self,
        context: &Context,
        raw_findings: &mut RawFindings,
        block: u32,
        own: &mut Pages,
    ) {
        self.pages.full |= own.full;
        own.list.sort_unstable_by_key(|(number, _)| *number);
        for (number, page) in std::mem::take(&mut own.list) {
            let reduced = own.reduced.remove(&number);
            let page = if context.plain || reduced.is_some() || self.pages.reduced.contains_key(&number) {
                page
            } else if let Some(page) = self.pages.adopt(number, page, block, &own.spill) {
                page
            } else {
                continue;
            };
            for slot in slots(page.touched) {
                let word = page.cells[slot];
                let whole = word.cell.parts().is_none();
                let mine = reduced.as_ref().map(|page| page[slot]).unwrap_or_default();
                let theirs = self.pages.reduced.get(&number).map(|page| page[slot]).unwrap_or_default();
                let ordinary = !context.plain && mine.is_empty() && theirs.is_empty();
                if ordinary
                    && whole
                    && self.pages.adopt_word(number, slot, || word.of_block(block, &own.spill))
                {
                    continue;
                }
                let address = number * PAGE_BYTES + 4 * offset(slot);
                let mut race = |access: Stamp, wrote: bool, conflict: &Conflict, unchanged: bool| {
                    let race = Race { block, access, wrote, unchanged };
                    report(context, raw_findings, &race, conflict, (true, 1));
                };
                if let Some((access, conflict)) = self.reduce((number, slot), &mine) {
                    race(access, true, &conflict, false);
                }
                let GlobalCell { cell, owner, value, varied } = word;
                let parts = cell.parts();
                for byte in 0..if parts.is_some() { 4 } else { 1 } {
                    let (done, bytes) = match parts {
                        None => (Done::of(&cell, &owner, &own.spill), Bytes::Word(value.filter(|_| !varied))),
                        Some(parts) => {
                            let (cell, owner) = own.spill.part(parts, byte);
                            (Done::of(&cell, &owner, &own.spill), Bytes::One)
                        }
                    };
                    let mask = if parts.is_some() { 1 << byte } else { WORD };
                    let done = mine.complete(done, mask);
                    if done.is_empty() {
                        continue;
                    }
                    if let Some(conflict) = theirs.conflict(mask) {
                        done.read.iter().for_each(|read| race(*read, false, &conflict, false));
                        done.write.iter().for_each(|write| race(*write, true, &conflict, false));
                    }
                    let address = address + offset(byte);
                    for (access, kind, conflict, unchanged) in
                        self.compare(block, done, address, bytes).into_iter().flatten()
                    {
                        race(access, kind == AccessKind::Write, &conflict, unchanged);
                    }
                }
            }
        }
    }

    /// Compares a block's atomics on a word with the accesses of earlier blocks, and adds them.
    fn reduce(&mut self, (number, slot): (u64, usize), mine: &Reduced) -> Option<(Stamp, Conflict)> {
        let access = mine.first()?;
        let page = self.pages.page(number)?;
        if !self.pages.reduced.contains_key(&number) && !self.pages.has_room() {
            return None;
        }
        let Pages { list, spill, reduced, .. } = &mut self.pages;
        let GlobalCell { cell, owner, .. } = list.get(page).map(|(_, page)| page.cells[slot])?;
        let theirs = &mut reduced.entry(number).or_insert_with(|| Box::new([Reduced::default(); PAGE]))[slot];
        let with = |cell: &Cell, owner: &Owner| {
            let conflict = |other: Stamp, block: u32, wrote: bool| Conflict {
                other,
                block,
                wrote,
                pending: false,
                thread_known: true,
            };
            let writer = cell.writer().map(|(write, _)| conflict(write, owner.write, true));
            writer.or_else(|| cell.reader().map(|(read, _)| conflict(read, owner.read, false)))
        };
        let ordinary = match cell.parts() {
            None => with(&cell, &owner),
            Some(parts) => (0..4).filter(|byte| mine.last(1 << byte).is_some()).find_map(|byte| {
                let (cell, owner) = spill.part(parts, byte);
                with(&cell, &owner)
            }),
        };
        let found = ordinary.map(|conflict| (access, conflict)).or_else(|| mine.meet(theirs));
        theirs.add(mine);
        found
    }

    /// Compares one cell: of a word or of a byte.
    fn compare(&mut self, block: u32, own: Done, address: u64, bytes: Bytes) -> [Option<Met>; 3] {
        let Some(page) = self.pages.page(address / PAGE_BYTES) else { return [None; 3] };
        let slot = usize::try_from(address / 4).unwrap_or(0) % PAGE;
        let Pages { list, spill, .. } = &mut self.pages;
        let GlobalCell { cell: all, owner, value: last, .. } = &mut list[page].1.cells[slot];
        if let (Bytes::Word(value), None) = (bytes, all.parts()) {
            let same = value.is_some() && value == *last;
            if own.write.is_some() {
                *last = value;
            }
            return meet(block, own, all, owner, same);
        }
        let parts = spill.split(all, *owner);
        let first = usize::try_from(address % 4).unwrap_or(0);
        let range = if bytes == Bytes::One { first..first + 1 } else { 0..4 };
        let mut found = [None; 3];
        for byte in range {
            let (mut part, mut owner) = spill.part(parts, byte);
            let met = meet(block, own, &mut part, &mut owner, false);
            spill.set_part(parts, byte, part, owner);
            found = std::array::from_fn(|i| found[i].or(met[i]));
        }
        found
    }
}

/// The words of a page whose bits are set.
pub(super) fn slots(mut touched: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let slot = (touched != 0).then(|| at(touched.trailing_zeros()));
        touched &= touched.wrapping_sub(1);
        slot
    })
}

fn offset(index: usize) -> u64 {
    u64::try_from(index).unwrap_or(u64::MAX)
}

/// Which bytes a block accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bytes {
    /// A whole word, with the value written to it, if known.
    Word(Option<u32>),
    /// One byte.
    One,
}

/// A block's accesses to some bytes: a read that races with other blocks' writes, and its last write.
#[derive(Clone, Copy, Debug)]
pub(super) struct Done {
    pub(super) read: Option<Stamp>,
    pub(super) write: Option<Stamp>,
}

impl Done {
    pub(super) const NOTHING: Done = Done { read: None, write: None };

    pub(super) fn is_empty(&self) -> bool {
        self.read.is_none() && self.write.is_none()
    }

    /// The ordinary accesses of a history. Prefers a read before the block's own first write, which can see what other blocks wrote. Later reads count only
    /// if the block wrote nothing.
    pub(super) fn of(cell: &Cell, owner: &Owner, spill: &Spill) -> Done {
        let listed = || {
            let ordinary = spill.list(cell.list()?).iter().find(|readers| readers.stamp.weak())?;
            ordinary.stamps().next()
        };
        let weak = |stamp: &Stamp| stamp.weak();
        let write = cell.writer().map(|(stamp, _)| stamp).filter(weak);
        let read = || cell.reader().map(|(stamp, _)| stamp).filter(weak).or_else(listed);
        let read = || read().filter(|_| write.is_none());
        Done { read: owner.exposed().or_else(read), write }
    }
}

/// An access of a block, a conflicting access of an earlier block, and whether both wrote the same value.
type Met = (Stamp, AccessKind, Conflict, bool);

/// Compares a block's accesses to some bytes with those of earlier blocks: its read with their write, its write with
/// their write, and its write with their read. A read races with a write even if all writes store the same value.
fn meet(block: u32, own: Done, all: &mut Cell, owner: &mut Owner, same: bool) -> [Option<Met>; 3] {
    let against = |other: Stamp, from: u32, wrote: bool, thread_known: bool| Conflict {
        other,
        block: from,
        wrote,
        pending: false,
        thread_known,
    };
    let written = all.writer().filter(|_| owner.write != block).map(|(write, _)| write);
    let mut found = [None; 3];
    if let Some(read) = own.read {
        found[0] =
            written.map(|write| (read, AccessKind::Read, against(write, owner.write, true, true), false));
        match all.reader() {
            Some(_) if owner.read != block => all.many_blocks(),
            Some(_) => {}
            None => {
                all.set_read(read);
                owner.read = block;
            }
        }
    }
    if let Some(write) = own.write {
        let read = all.reader().filter(|(_, many)| owner.read != block || *many == Many::Warps);
        found[1] = written.map(|other| {
            let conflict = against(other, owner.write, true, true);
            (write, AccessKind::Write, conflict, same)
        });
        // If the writes store different values, the write-write race is enough.
        found[2] = read.filter(|_| written.is_none() || same).map(|(other, _)| {
            let conflict = against(other, owner.read, false, owner.read != block);
            (write, AccessKind::Write, conflict, false)
        });
        all.add_write(write);
        owner.write = block;
    }
    found
}
