//! What is remembered of memory: who wrote and who read each byte last.
//!
//! A cell stands for four bytes that have one history; the first access to a part of them splits it into one cell per
//! byte. A cell holds the last write and the reads since. Reads of several threads are kept exactly (as a list) where
//! threads can be ordered by more than barriers of the block; where they cannot, it is enough to know the first and
//! one more: a reader of another warp if there is one, else another lane. So a write always finds a reader that it races
//! with, whoever writes. An atomic stands among the reads as long as an ordinary write before it still
//! counts: both must be remembered.

use super::clock::Who;
use crate::machine::lanes_of;

const THREAD_BITS: u32 = 10;
const SITE_BITS: u32 = 16;
const STRONG: u32 = 1 << 26;
const NARROW: u32 = 1 << 27;
/// Of a write: made by a copy that is not complete.
const PENDING: u32 = 1 << 28;
/// Of a write: the cell is split, and the time is the number of its parts.
const SPLIT: u32 = 1 << 29;
/// Of a read: other lanes of the same warp have read too.
const MANY_LANES: u32 = 1 << 28;
/// Of a read: other warps have read too.
const MANY_WARPS: u32 = 1 << 29;
/// Of a read: the time is the number of a list.
const LISTED: u32 = 1 << 30;
/// Of a read: an atomic is among them, which also wrote.
const MODIFIED: u32 = 1 << 31;

/// The number of an instruction that is too far away to be kept in a cell.
pub(crate) const UNKNOWN_SITE: u32 = (1 << SITE_BITS) - 1;

/// One access, as a cell keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub time: u32,
    pub who: Who,
    /// The instruction; [`UNKNOWN_SITE`] if its number is too large.
    pub pc: u32,
    /// Whether it was a strong access.
    pub strong: bool,
    /// Whether that holds within the block only.
    pub narrow: bool,
    /// Of a read: whether it also wrote, as atomics do.
    pub modified: bool,
}

impl Stamp {
    pub(crate) fn bits(self) -> u32 {
        u32::from(self.who.0) & ((1 << THREAD_BITS) - 1)
            | self.pc.min(UNKNOWN_SITE) << THREAD_BITS
            | if self.strong { STRONG } else { 0 }
            | if self.narrow { NARROW } else { 0 }
            | if self.modified { MODIFIED } else { 0 }
    }

    pub(crate) fn of(time: u32, bits: u32) -> Stamp {
        Stamp {
            time,
            who: Who(u16::try_from(bits & ((1 << THREAD_BITS) - 1)).unwrap_or(0)),
            pc: bits >> THREAD_BITS & UNKNOWN_SITE,
            strong: bits & STRONG != 0,
            narrow: bits & NARROW != 0,
            modified: bits & MODIFIED != 0,
        }
    }

    /// Whether it is neither strong nor an atomic.
    pub(crate) fn plain(self) -> bool {
        !self.strong && !self.modified
    }

    /// Whether whatever conflicts with an earlier read that is ordered before this one conflicts with this one, too.
    pub(crate) fn replaces(self, earlier: Stamp) -> bool {
        let weaker = !self.strong || (earlier.strong && (self.narrow || !earlier.narrow));
        weaker && (self.modified || !earlier.modified)
    }
}

/// How many read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Many {
    /// One thread.
    One,
    /// Lanes of one warp.
    Lanes,
    /// Threads of several warps.
    Warps,
}

/// The history of four bytes, or of one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cell {
    write_time: u32,
    write: u32,
    read_time: u32,
    read: u32,
}

const _: () = assert!(size_of::<Cell>() == 16, "at most 16 bytes for 4 bytes of shared memory");

impl Cell {
    /// The last write, and whether it is a copy that is not complete.
    pub(crate) fn writer(&self) -> Option<(Stamp, bool)> {
        (self.write_time != 0 && self.write & SPLIT == 0)
            .then(|| (Stamp::of(self.write_time, self.write), self.write & PENDING != 0))
    }

    /// A read since the last write, and whether there were more; not where they are listed.
    pub(crate) fn reader(&self) -> Option<(Stamp, Many)> {
        if self.read_time == 0 || self.read & LISTED != 0 {
            return None;
        }
        let many = match (self.read & MANY_WARPS != 0, self.read & MANY_LANES != 0) {
            (true, _) => Many::Warps,
            (_, true) => Many::Lanes,
            _ => Many::One,
        };
        Some((Stamp::of(self.read_time, self.read), many))
    }

    /// Several blocks have read.
    pub(crate) fn many_blocks(&mut self) {
        self.read |= MANY_WARPS;
    }

    /// The number of the list of reads.
    pub(crate) fn list(&self) -> Option<u32> {
        (self.read & LISTED != 0).then_some(self.read_time)
    }

    /// Whether nothing has been written there since `floor`, no part of it is special, and so only the read counts.
    #[inline]
    pub(crate) fn quiet(&self, floor: u32) -> bool {
        self.write_time <= floor && self.write & (SPLIT | PENDING) == 0
    }

    /// A read where only barriers of the block order anything: remembers it if nothing was written since `floor`, and says
    /// whether it did. `warp_floor` is that of the reader's warp, `stamp` is [`Stamp::bits`] of a weak read, `second` is
    /// [`Owner::second`] of the cell.
    #[inline(always)]
    pub(crate) fn read_quietly(
        &mut self,
        second: &mut u32,
        (floor, warp_floor, now): (u32, u32, u32),
        stamp: u32,
    ) -> bool {
        if self.write_time > floor || self.write & (SPLIT | PENDING) != 0 {
            return false;
        }
        if self.read_time <= floor && self.read & LISTED == 0 {
            self.read_time = now;
            self.read = stamp;
            return true;
        }
        if self.read & (LISTED | MODIFIED | STRONG) != 0 {
            return false;
        }
        let differs = (self.read ^ stamp) & ((1 << THREAD_BITS) - 1);
        if differs >> 5 == 0 && self.read & MANY_WARPS == 0 && self.read_time <= warp_floor {
            // Lanes of this warp have read, and all have met since.
            self.read_time = now;
            self.read = stamp;
            return true;
        }
        let many = if differs >> 5 != 0 { MANY_WARPS } else { u32::from(differs != 0) * MANY_LANES };
        if many & !self.read != 0 && self.read & MANY_WARPS == 0 {
            *second = stamp;
        }
        self.read |= many;
        self.read_time = now;
        true
    }

    /// A write where nobody has touched the bytes since `floor`: remembers it and says so.
    #[inline(always)]
    pub(crate) fn write_quietly(&mut self, floor: u32, now: u32, stamp: u32) -> bool {
        let quiet = self.write_time <= floor
            && self.read_time <= floor
            && self.write & (SPLIT | PENDING) == 0
            && self.read & LISTED == 0;
        if quiet {
            *self = Cell { write_time: now, write: stamp, read_time: 0, read: 0 };
        }
        quiet
    }

    /// Whether no read since `floor` is known.
    #[inline]
    pub(crate) fn unread(&self, floor: u32) -> bool {
        self.read_time <= floor && self.read & LISTED == 0
    }

    /// Whether anything was ever written.
    pub(crate) fn written(&self) -> bool {
        self.write_time != 0
    }

    /// A write that leaves the reads before it in place: between blocks nothing orders the two.
    pub(crate) fn add_write(&mut self, stamp: Stamp) {
        self.write_time = stamp.time;
        self.write = Stamp { modified: false, ..stamp }.bits();
    }

    pub(crate) fn set_write(&mut self, stamp: Stamp, pending: bool) {
        self.write_time = stamp.time;
        self.write = Stamp { modified: false, ..stamp }.bits() | if pending { PENDING } else { 0 };
        self.read_time = 0;
        self.read = 0;
    }

    #[inline]
    pub(crate) fn set_read(&mut self, stamp: Stamp) {
        self.read_time = stamp.time;
        self.read = stamp.bits();
    }

    /// One more weak read beside weak ones, whose order to those before does not matter: only barriers of the block order
    /// anything.
    pub(crate) fn add_read(&mut self, second: &mut u32, stamp: Stamp) {
        let before = Stamp::of(self.read_time, self.read);
        if before.who != stamp.who {
            let many = if before.who.warp() == stamp.who.warp() { MANY_LANES } else { MANY_WARPS };
            if many & !self.read != 0 && self.read & MANY_WARPS == 0 {
                *second = stamp.bits();
            }
            self.read |= many;
        }
        self.read_time = stamp.time;
    }

    pub(crate) fn set_list(&mut self, list: u32) {
        self.read_time = list;
        self.read = LISTED;
    }

    pub(crate) fn parts(&self) -> Option<usize> {
        (self.write & SPLIT != 0).then(|| usize::try_from(self.write_time).unwrap_or(usize::MAX))
    }
}

/// Lanes of a warp that read at one time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Readers {
    pub block: u32,
    pub warp: u32,
    pub lanes: u32,
    /// Of the lanes, all alike.
    pub stamp: Stamp,
}

impl Readers {
    /// The threads, as stamps.
    pub(crate) fn stamps(self) -> impl Iterator<Item = Stamp> {
        lanes_of(self.lanes).map(move |lane| Stamp { who: Who::new(self.warp, lane), ..self.stamp })
    }
}

/// The blocks that made the accesses a cell remembers; in shared memory always one's own.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Owner {
    pub write: u32,
    pub read: u32,
    /// Where several threads have read and no list names them: [`Stamp::bits`] of one that is not the first, of another
    /// warp if there is one.
    pub second: u32,
    /// The first read before the first write, as time and [`Stamp::bits`]; time 0 if there was none. A write removes
    /// the reads that it is ordered after from the cell, but those reads still race with writes of other blocks.
    exposed: (u32, u32),
}

impl Owner {
    /// Of accesses by one block.
    pub(crate) fn of(block: u32) -> Owner {
        Owner { write: block, read: block, second: 0, exposed: (0, 0) }
    }

    /// Remembers a read of bytes that were not written before.
    #[inline]
    pub(crate) fn expose(&mut self, time: u32, bits: u32) {
        if self.exposed.0 == 0 {
            self.exposed = (time, bits);
        }
    }

    /// The first read of the bytes as they were before the block wrote them.
    pub(crate) fn exposed(&self) -> Option<Stamp> {
        (self.exposed.0 != 0).then(|| Stamp::of(self.exposed.0, self.exposed.1))
    }
}

/// The parts of split cells, and the lists of readers.
#[derive(Debug, Default)]
pub(crate) struct Spill {
    parts: Vec<[(Cell, Owner); 4]>,
    lists: Vec<Vec<Readers>>,
    /// Lists that nobody has any more.
    free: Vec<u32>,
    /// Readers in all lists.
    listed: usize,
}

impl Spill {
    /// The cells of single bytes; the cell is split if it is not.
    pub(crate) fn split(&mut self, cell: &mut Cell, owner: Owner) -> usize {
        if let Some(parts) = cell.parts() {
            return parts;
        }
        let number = self.parts.len();
        let whole = *cell;
        // A list belongs to one cell; the parts get copies.
        let mut parts = [(whole, owner); 4];
        if let Some(list) = whole.list() {
            let readers = self.list(list).to_vec();
            for part in &mut parts[1..] {
                let copy = self.new_list(readers.clone());
                part.0.set_list(copy);
            }
        }
        self.parts.push(parts);
        *cell = Cell { write_time: u32::try_from(number).unwrap_or(0), write: SPLIT, read_time: 0, read: 0 };
        number
    }

    /// One byte's cell, and whose accesses it remembers.
    pub(crate) fn part(&self, parts: usize, byte: usize) -> (Cell, Owner) {
        self.parts.get(parts).map_or_else(Default::default, |parts| parts[byte & 3])
    }

    pub(crate) fn set_part(&mut self, parts: usize, byte: usize, cell: Cell, owner: Owner) {
        if let Some(parts) = self.parts.get_mut(parts) {
            parts[byte & 3] = (cell, owner);
        }
    }

    pub(crate) fn list(&self, number: u32) -> &[Readers] {
        self.lists.get(crate::machine::at(number)).map_or(&[], Vec::as_slice)
    }

    /// A list has grown by so many.
    pub(crate) fn grown(&mut self, readers: usize) {
        self.listed += readers;
    }

    pub(crate) fn list_mut(&mut self, number: u32) -> Option<&mut Vec<Readers>> {
        self.lists.get_mut(crate::machine::at(number))
    }

    /// A cell gives its list back.
    pub(crate) fn drop_list(&mut self, cell: &Cell) {
        if let Some(number) = cell.list() {
            self.listed = self.listed.saturating_sub(self.list(number).len());
            self.free.push(number);
        }
    }

    pub(crate) fn new_list(&mut self, readers: Vec<Readers>) -> u32 {
        if let Some(number) = self.free.pop()
            && let Some(list) = self.list_mut(number)
        {
            *list = readers;
            return number;
        }
        self.lists.push(readers);
        u32::try_from(self.lists.len() - 1).unwrap_or(0)
    }

    /// Bytes that are kept beside the cells.
    pub(crate) fn bytes(&self) -> usize {
        self.parts.len() * size_of::<[(Cell, Owner); 4]>()
            + self.lists.len() * 2 * size_of::<Vec<Readers>>()
            + self.listed * size_of::<Readers>()
    }
}
