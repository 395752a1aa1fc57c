//! Races between blocks that cannot communicate: the accesses of a block are compared with those of the blocks before it.

use super::super::context::Context;
use super::super::history::Conflict;
use super::super::race::Race;
use super::super::raw::RawFindings;
use super::super::shadow::{Cell, Many, Owner, Spill, Stamp};
use super::{GlobalCell, PAGE, PAGE_BYTES, Pages, report};
use crate::machine::{AccessKind, at};

/// The accesses of all blocks that cannot communicate.
pub(crate) struct Between {
    pages: Pages,
}

impl Between {
    pub(crate) fn new(bytes: u64) -> Between {
        Between { pages: Pages::new(bytes) }
    }

    /// The instruction that wrote a byte last.
    pub(crate) fn writer(&mut self, address: u64) -> Option<u32> {
        self.pages.writer(address).map(|(stamp, _)| stamp.pc)
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
            let Some(page) = self.pages.adopt(number, page, block, &own.spill) else { continue };
            for slot in slots(page.touched) {
                let word = page.cells[slot];
                let whole = word.cell.parts().is_none();
                if whole && self.pages.adopt_word(number, slot, || word.of_block(block, &own.spill)) {
                    continue;
                }
                let address = number * PAGE_BYTES + 4 * offset(slot);
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
                    let address = address + offset(byte);
                    for (access, kind, conflict, unchanged) in
                        self.compare(block, done, address, bytes).into_iter().flatten()
                    {
                        let race = Race { block, access, wrote: kind == AccessKind::Write, unchanged };
                        report(context, raw_findings, &race, &conflict, (true, 1));
                    }
                }
            }
        }
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
    /// Prefers a read before the block's own first write, which can see what other blocks wrote. Later reads count only
    /// if the block wrote nothing.
    pub(super) fn of(cell: &Cell, owner: &Owner, spill: &Spill) -> Done {
        let listed = || spill.list(cell.list()?).first()?.stamps().next();
        let write = cell.writer().map(|(stamp, _)| stamp);
        let read = || cell.reader().map(|(stamp, _)| stamp).or_else(listed).filter(|_| write.is_none());
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
