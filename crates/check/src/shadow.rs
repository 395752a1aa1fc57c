//! Shadow memory: the last write and the last reads of each byte.
//!
//! A cell covers four bytes that have the same history; the first access to a part of them splits it into one cell per
//! byte. A cell holds the last write, and the reads that not every thread is ordered after. If threads can be ordered
//! by more than barriers of the block, all readers are kept (as a list); otherwise two are enough: the first, and one
//! of another warp if there is one, or else another lane. So a write by any thread finds a reader that it races with,
//! if there is one. The second reader takes the place of the write once every thread is ordered after it. An atomic is
//! recorded among the reads while an earlier ordinary write is still recorded, because both are needed.

use super::clock::Who;
use warpproof_sim::machine::lanes_of;

const THREAD_BITS: u32 = 10;
const SITE_BITS: u32 = 16;
const STRONG: u32 = 1 << 26;
const NARROW: u32 = 1 << 27;
/// Flag of a write: made by an asynchronous copy in flight.
const PENDING: u32 = 1 << 28;
/// Flag of a write: the cell is split, and the time field holds the number of its parts.
const SPLIT: u32 = 1 << 29;
/// Flag of a write: every thread is ordered after it, and the second reader is recorded in its place.
const REPLACED: u32 = 1 << 30;
/// Flag of a read: other lanes of the same warp have read too.
const MANY_LANES: u32 = 1 << 28;
/// Flag of a read: other warps have read too.
const MANY_WARPS: u32 = 1 << 29;
/// Flag of a read: the time field holds the number of a list.
const LISTED: u32 = 1 << 30;
/// Flag of a read: the readers include an atomic, which also wrote. Flag of a write: it is an atomic.
const MODIFIED: u32 = 1 << 31;

/// Stands for an instruction whose number is too large for a cell.
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
    /// Whether its scope is only the block. Of an access that is not strong: whether it is volatile (see
    /// [`Stamp::is_volatile`]), so that both fit into the same bits.
    pub narrow: bool,
    /// Whether it is an atomic: it read and wrote.
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
    pub(crate) fn weak(self) -> bool {
        !self.strong && !self.modified
    }

    /// Whether it is neither strong nor an atomic nor volatile.
    pub(crate) fn plain(self) -> bool {
        self.weak() && !self.narrow
    }

    /// The same access as a volatile load that does not poll.
    pub(crate) fn volatile(self) -> Stamp {
        Stamp { strong: false, narrow: true, ..self }
    }

    /// Whether it is a volatile load that does not poll: it may be concurrent with atomics, but not with stores.
    pub(crate) fn is_volatile(self) -> bool {
        !self.strong && self.narrow
    }

    /// Whether its scope is the block.
    pub(crate) fn in_block(self) -> bool {
        self.strong && self.narrow
    }

    /// Whether this read can replace `earlier`, a read ordered before it: every access that conflicts with `earlier`
    /// also conflicts with this one.
    pub(crate) fn replaces(self, earlier: Stamp) -> bool {
        let weaker = if self.is_volatile() {
            earlier.is_volatile() || (earlier.strong && !earlier.narrow)
        } else {
            !self.strong || (earlier.strong && (self.narrow || !earlier.narrow))
        };
        weaker && (self.modified || !earlier.modified)
    }
}

/// Whether a read could be recorded without comparing it with a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Quiet {
    No,
    Yes,
    /// It could, and it must be recorded as the second reader.
    Second,
}

/// How many threads have read.
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
    /// The last write, and whether it is an asynchronous copy in flight; `None` if a second reader took its place.
    pub(crate) fn writer(&self) -> Option<(Stamp, bool)> {
        (self.write_time != 0 && self.write & (SPLIT | REPLACED) == 0)
            .then(|| (Stamp::of(self.write_time, self.write), self.write & PENDING != 0))
    }

    /// A read, and whether there were more; `None` if the readers are in a list.
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

    /// Whether nothing was written since `floor` and the cell has no special state, so that only the read matters.
    #[inline]
    pub(crate) fn quiet(&self, floor: u32) -> bool {
        self.write_time <= floor && self.write & (SPLIT | PENDING) == 0
    }

    /// Whether [`read_quietly`](Self::read_quietly) would record a read.
    pub(crate) fn is_ordinary(&self, floor: u32) -> bool {
        self.quiet(floor) && (self.unread(floor) || self.read & (LISTED | MODIFIED | STRONG | NARROW) == 0)
    }

    /// The last read of several was at this time, or later.
    pub(crate) fn read_until(&mut self, time: u32) {
        self.read_time = self.read_time.max(time);
    }

    /// A read, if only barriers order threads: records it if nothing was written since `floor`, and returns whether it
    /// did. `warp_floor` is that of the reader's warp, `stamp` is [`Stamp::bits`] of a weak read.
    #[inline(always)]
    pub(crate) fn read_quietly(&mut self, (floor, warp_floor, now): (u32, u32, u32), stamp: u32) -> Quiet {
        if self.write_time > floor || self.write & (SPLIT | PENDING) != 0 {
            return Quiet::No;
        }
        if self.read_time <= floor && self.read & LISTED == 0 {
            self.read_time = now;
            self.read = stamp;
            return Quiet::Yes;
        }
        if self.read & (LISTED | MODIFIED | STRONG | NARROW) != 0 {
            return Quiet::No;
        }
        let differs = (self.read ^ stamp) & ((1 << THREAD_BITS) - 1);
        if differs >> 5 == 0 && self.read & MANY_WARPS == 0 && self.read_time <= warp_floor {
            // Lanes of this warp have read, and all have synchronized since.
            self.read_time = now;
            self.read = stamp;
            return Quiet::Yes;
        }
        let many = if differs >> 5 != 0 { MANY_WARPS } else { u32::from(differs != 0) * MANY_LANES };
        let second = many & !self.read != 0 && self.read & MANY_WARPS == 0;
        self.read |= many;
        self.read_time = now;
        if second { Quiet::Second } else { Quiet::Yes }
    }

    /// As [`read_quietly`](Self::read_quietly), with the second reader in the place of the write.
    #[inline(always)]
    pub(crate) fn read_in_place(&mut self, times: (u32, u32, u32), stamp: u32) -> bool {
        let quiet = self.read_quietly(times, stamp);
        if quiet == Quiet::Second {
            self.write = stamp | REPLACED;
        }
        quiet != Quiet::No
    }

    /// The second reader in the place of the write, as [`Stamp::bits`]; 0 if there is none.
    pub(crate) fn second(&self) -> u32 {
        if self.write & REPLACED == 0 { 0 } else { self.write & !REPLACED }
    }

    /// Records a second reader, if there is one, in the place of a write that every thread is ordered after.
    pub(crate) fn set_second(&mut self, second: u32) {
        if self.read & LISTED == 0 && self.read & (MANY_LANES | MANY_WARPS) != 0 {
            self.write = second | REPLACED;
        }
    }

    /// Forgets that there is more than one reader.
    pub(crate) fn only_first(&mut self) {
        self.read &= !(MANY_LANES | MANY_WARPS);
    }

    /// The history after a write, [`Stamp::bits`] of which are `stamp`.
    #[inline(always)]
    pub(crate) fn of_write(time: u32, stamp: u32) -> Cell {
        Cell { write_time: time, write: stamp, read_time: 0, read: 0 }
    }

    /// A write: records it if no thread has accessed the bytes since `floor`, and returns whether it did.
    #[inline(always)]
    pub(crate) fn write_quietly(&mut self, floor: u32, now: u32, stamp: u32) -> bool {
        let quiet = self.write_time <= floor
            && self.read_time <= floor
            && self.write & (SPLIT | PENDING) == 0
            && self.read & LISTED == 0;
        if quiet {
            *self = Cell::of_write(now, stamp);
        }
        quiet
    }

    /// Whether no read since `floor` is known.
    #[inline]
    pub(crate) fn unread(&self, floor: u32) -> bool {
        self.read_time <= floor && self.read & LISTED == 0
    }

    /// Whether nothing was recorded.
    pub(crate) fn is_empty(&self) -> bool {
        self.write_time | self.write | self.read_time | self.read == 0
    }

    /// Whether anything was ever written.
    pub(crate) fn written(&self) -> bool {
        self.write_time != 0
    }

    /// A write that keeps the earlier reads.
    pub(crate) fn add_write(&mut self, stamp: Stamp) {
        self.write_time = stamp.time;
        self.write = stamp.bits();
    }

    pub(crate) fn set_write(&mut self, stamp: Stamp, pending: bool) {
        self.write_time = stamp.time;
        self.write = stamp.bits() | if pending { PENDING } else { 0 };
        self.read_time = 0;
        self.read = 0;
    }

    #[inline]
    pub(crate) fn set_read(&mut self, stamp: Stamp) {
        self.read_time = stamp.time;
        self.read = stamp.bits();
    }

    /// Adds a weak read to other weak reads, of which it may be of the same thread. Their order does not matter, since only barriers of the block order
    /// threads.
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

/// Threads of a block that read at one time: these lanes of each of these warps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Readers {
    pub block: u32,
    pub warps: u32,
    pub lanes: u32,
    /// Valid for all of the threads, except for the thread itself.
    pub stamp: Stamp,
}

impl Readers {
    /// One thread.
    pub(crate) fn one(block: u32, stamp: Stamp) -> Readers {
        Readers { block, warps: 1 << (stamp.who.warp() & 31), lanes: 1 << stamp.who.lane(), stamp }
    }

    /// One stamp per reader.
    pub(crate) fn stamps(self) -> impl Iterator<Item = Stamp> {
        let who = move |warp: usize, lane: usize| Who::new(u32::try_from(warp).unwrap_or(0), lane);
        lanes_of(self.warps).flat_map(move |warp| {
            lanes_of(self.lanes).map(move |lane| Stamp { who: who(warp, lane), ..self.stamp })
        })
    }

    /// Whether all threads of `other` are among these.
    pub(crate) fn include(&self, other: &Readers) -> bool {
        self.block == other.block && other.warps & !self.warps == 0 && other.lanes & !self.lanes == 0
    }

    /// Whether the reads of `other` differ from these in the threads alone.
    pub(crate) fn alike(&self, other: &Readers) -> bool {
        self.block == other.block && Stamp { who: other.stamp.who, ..self.stamp } == other.stamp
    }
}

/// The blocks that made the accesses in a cell; for shared memory always the block itself.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Owner {
    pub write: u32,
    pub read: u32,
    /// If several threads have read and there is no list: [`Stamp::bits`] of one that is not the first, of another warp
    /// if there is one.
    pub second: u32,
    /// The first read before the first write, as time and [`Stamp::bits`]; time 0 if there was none. A write removes
    /// the reads that it is ordered after from the cell, but those reads still race with writes of other blocks.
    exposed: (u32, u32),
}

impl Owner {
    /// The owner of accesses by one block.
    pub(crate) fn of(block: u32) -> Owner {
        Owner { write: block, read: block, second: 0, exposed: (0, 0) }
    }

    /// Records a read of bytes that the block has not written before.
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
    /// Unused lists.
    free: Vec<u32>,
    /// Number of readers in all lists.
    listed: usize,
}

impl Spill {
    /// The cells of single bytes; splits the cell if necessary.
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

    /// The cell of one byte, and its owner.
    pub(crate) fn part(&self, parts: usize, byte: usize) -> (Cell, Owner) {
        self.parts.get(parts).map_or_else(Default::default, |parts| parts[byte & 3])
    }

    pub(crate) fn set_part(&mut self, parts: usize, byte: usize, cell: Cell, owner: Owner) {
        if let Some(parts) = self.parts.get_mut(parts) {
            parts[byte & 3] = (cell, owner);
        }
    }

    pub(crate) fn list(&self, number: u32) -> &[Readers] {
        self.lists.get(warpproof_sim::machine::at(number)).map_or(&[], Vec::as_slice)
    }

    /// Changes a list.
    pub(crate) fn change(&mut self, number: u32, change: impl FnOnce(&mut Vec<Readers>)) {
        if let Some(list) = self.lists.get_mut(warpproof_sim::machine::at(number)) {
            self.listed = self.listed.saturating_sub(list.len());
            change(list);
            self.listed += list.len();
        }
    }

    /// Releases the list of a cell.
    pub(crate) fn drop_list(&mut self, cell: &Cell) {
        if let Some(number) = cell.list() {
            self.listed = self.listed.saturating_sub(self.list(number).len());
            self.free.push(number);
        }
    }

    pub(crate) fn new_list(&mut self, readers: Vec<Readers>) -> u32 {
        self.listed += readers.len();
        if let Some(number) = self.free.pop()
            && let Some(list) = self.lists.get_mut(warpproof_sim::machine::at(number))
        {
            *list = readers;
            return number;
        }
        self.lists.push(readers);
        u32::try_from(self.lists.len() - 1).unwrap_or(0)
    }

    /// Bytes used in addition to the cells.
    pub(crate) fn bytes(&self) -> usize {
        self.parts.len() * size_of::<[(Cell, Owner); 4]>()
            + self.lists.len() * 2 * size_of::<Vec<Readers>>()
            + self.listed * size_of::<Readers>()
    }
}
