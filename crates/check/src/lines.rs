//! Reads of shared memory by line: recorded as a whole, and applied to the cells of the words only if something depends on them.
//!
//! If only barriers of the block order threads, most reads never matter: they follow a barrier, and the next write to the words
//! follows another one. So a read of words that nothing was written to since the last barrier is put into the log of its line,
//! and the log is forgotten at the next barrier. A write, or any other access that looks at the cells, first applies the log, in the order
//! in which the reads were made: the cells then are what they would be without logs. A read of words that several
//! warps have read since the barrier only changes the time of the last read.
//!
//! The loads of a bundle are kept one level further up: as the addresses that the bundle starts from. They get into the logs only if
//! anything else looks at any line before the next barrier.

use super::clock::{Order, Who};
use super::history::stamp;
use super::race::SharedRace;
use super::shadow::Cell;
use super::shape::Shape;
use std::sync::Arc;
use warpproof_sim::machine::{Access, AccessKind, LANES, Row, at, lanes_of};
use warpproof_sim::observe::BundleReads;
use warpproof_sim::program::Bundle;

/// Words of a line.
const WORDS: usize = 32;
/// Bytes of a line.
const LINE: u32 = 128;
/// Reads in the log of a line; one more applies them.
const LOGGED: usize = 16;
/// Sets of words that several warps have read whose time is known.
const REPEATED: usize = 4;

/// A read of some lanes of a warp in one line.
#[derive(Clone, Copy, Debug)]
struct Logged {
    /// The address of each lane, and the number of words from there.
    offsets: Row<u32>,
    count: u8,
    lanes: u32,
    /// [`Stamp::bits`] of the warp's first lane.
    bits: u32,
    now: u32,
    warp_floor: u32,
}

/// The log of 32 words.
#[derive(Clone, Debug)]
struct Line {
    /// No cell was written after this time.
    written: u32,
    /// Whether a cell may have more than ordinary reads and writes.
    special: bool,
    /// The barrier after which the cells were looked at last, to find that out.
    scanned: u32,
    /// The barrier after which the reads were made.
    floor: u32,
    /// The barrier after which reads were made that were applied to the cells last.
    applied: u32,
    /// The warp that has read first, with the words that it has read, and the words that others have read.
    warp: u32,
    first: u32,
    others: u32,
    /// Words that several warps had read before, with the last time.
    repeated: [(u32, u32); REPEATED],
    log: Vec<Logged>,
}

impl Default for Line {
    fn default() -> Line {
        Line {
            written: 0,
            special: false,
            scanned: u32::MAX,
            floor: u32::MAX,
            applied: u32::MAX,
            warp: 0,
            first: 0,
            others: 0,
            repeated: [(0, 0); REPEATED],
            log: Vec::new(),
        }
    }
}

/// The lines of a block's shared memory.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    lines: Vec<Line>,
    bundled: Bundled,
}

/// The loads of bundles since a barrier that are not in the logs of their lines yet. They were made after those that are.
#[derive(Debug, Default)]
struct Bundled {
    floor: u32,
    reads: Vec<BundleRead>,
    /// The bundles of these loads and of earlier ones.
    bundles: Vec<Arc<Bundle>>,
    /// The addresses in the registers that the loads start from, for all of the bundles.
    rows: Vec<Row<u32>>,
}

/// Bundles that stay known.
const BUNDLES: usize = 16;
/// Bundles whose loads are kept; one more puts all into the logs.
const BUNDLED: usize = 256;

/// The loads of a bundle by a warp.
#[derive(Debug)]
struct BundleRead {
    /// Which of the bundles it is.
    bundle: usize,
    warp: u32,
    when: When,
    /// Where its rows start.
    rows: usize,
}

/// When an access is made.
#[derive(Clone, Copy, Debug)]
struct When {
    floor: u32,
    now: u32,
    warp_floor: u32,
}

impl When {
    fn of(order: &Order, warp: u32) -> When {
        When { floor: order.floor(), now: order.now(), warp_floor: order.warp_floor(at(warp)) }
    }
}

/// A read of words: those of one line, by some lanes of a warp.
#[derive(Clone, Copy)]
struct LineRead {
    line: usize,
    /// All words that are read.
    words: u32,
    warp: u32,
    lanes: u32,
    /// [`Stamp::bits`] of the warp's first lane.
    bits: u32,
    /// Words of each lane.
    count: u8,
    when: When,
}

impl LineRead {
    /// A read that has no lanes yet.
    fn of(warp: u32, bits: u32, when: When, words: u32) -> LineRead {
        let count = u8::try_from(words).unwrap_or(u8::MAX);
        LineRead { line: usize::MAX, words: 0, warp, lanes: 0, bits, count, when }
    }
}

impl Lines {
    /// For this many cells.
    pub(crate) fn new(cells: usize) -> Lines {
        Lines { lines: vec![Line::default(); cells.div_ceil(WORDS)], bundled: Bundled::default() }
    }

    /// Bytes of the logs.
    pub(crate) fn bytes(&self) -> usize {
        let of_line = |line: &Line| size_of::<Line>() + line.log.capacity() * size_of::<Logged>();
        let bundled = self.bundled.reads.capacity() * size_of::<BundleRead>()
            + self.bundled.rows.capacity() * size_of::<Row<u32>>();
        self.lines.iter().map(of_line).sum::<usize>() + bundled
    }

    /// A weak read: records it if nothing was written since the last barrier and no cell has special state, and returns whether
    /// it did. `offsets` gives the address of each lane.
    #[inline]
    fn read(&mut self, cells: &mut [Cell], read: &LineRead, offsets: &Row<u32>) -> bool {
        let When { floor, now, warp_floor } = read.when;
        let Some(line) = self.lines.get_mut(read.line) else { return false };
        if (line.special || line.written > floor) && !line.look(cells_of(cells, read.line), floor) {
            return false;
        }
        if line.floor != floor {
            line.forget();
            (line.floor, line.warp) = (floor, read.warp);
        }
        if read.words & !(line.first & line.others) == 0 {
            let known = |slot: &&mut (u32, u32)| slot.0 == read.words || slot.0 == 0;
            if let Some(slot) = line.repeated.iter_mut().find(known) {
                *slot = (read.words, now);
                return true;
            }
        }
        if line.log.len() == LOGGED {
            line.apply(cells_of(cells, read.line));
        }
        line.log.push(Logged {
            offsets: *offsets,
            count: read.count,
            lanes: read.lanes,
            bits: read.bits,
            now,
            warp_floor,
        });
        let seen = if read.warp == line.warp { &mut line.first } else { &mut line.others };
        *seen |= read.words;
        true
    }

    /// The cells of some words are about to be written at this time.
    fn write(&mut self, cells: &mut [Cell], order: &Order, number: usize) {
        if let Some(line) = self.lines.get_mut(number) {
            line.settle(cells_of(cells, number), order.floor());
            line.written = order.now();
        }
    }

    /// The cells from a word to another one are about to be used in another way.
    pub(crate) fn open(&mut self, cells: &mut [Cell], order: &Order, words: std::ops::Range<usize>) {
        self.unbundle(cells, order);
        for number in words.start / WORDS..words.end.div_ceil(WORDS) {
            if let Some(line) = self.lines.get_mut(number) {
                line.settle(cells_of(cells, number), order.floor());
                line.special = true;
            }
        }
    }

    /// The cells of a line are about to be read one by one.
    fn settle(&mut self, cells: &mut [Cell], floor: u32, number: usize) {
        if let Some(line) = self.lines.get_mut(number) {
            line.settle(cells_of(cells, number), floor);
        }
    }

    /// Whether every line of these bytes can record a read.
    fn are_quiet(&self, floor: u32, bytes: std::ops::Range<u32>) -> bool {
        let lines = self.lines.get(at(bytes.start / LINE)..at(bytes.end.div_ceil(LINE)));
        lines.is_some_and(|lines| lines.iter().all(|line| !line.special && line.written <= floor))
    }

    /// Records the loads of a bundle, if all of them can be recorded by line, and returns whether it did.
    fn read_bundle(&mut self, cells: &mut [Cell], order: &Order, reads: &BundleReads<'_>) -> bool {
        let when = When::of(order, reads.warp);
        if !(0..reads.places.len()).all(|base| self.are_quiet(when.floor, reads.extent(base))) {
            return false;
        }
        if reads.places.is_empty() {
            return true;
        }
        if self.bundled.floor != when.floor || self.bundled.reads.len() == BUNDLED {
            self.unbundle(cells, order);
            self.bundled.floor = when.floor;
        }
        let Bundled { reads: all, rows, bundles, .. } = &mut self.bundled;
        // A program has few of them, and an [`Arc`] that all cores count is slow.
        let known = bundles.iter().position(|bundle| Arc::ptr_eq(bundle, reads.bundle));
        let bundle = known.unwrap_or_else(|| {
            bundles.push(reads.bundle.clone());
            bundles.len() - 1
        });
        all.push(BundleRead { bundle, warp: reads.warp, when, rows: rows.len() });
        rows.extend(reads.places.iter().map(|place| place.offsets));
        true
    }

    /// Puts the loads of bundles into the logs, or forgets them if there was a barrier since.
    #[inline]
    fn unbundle(&mut self, cells: &mut [Cell], order: &Order) {
        if !self.bundled.reads.is_empty() {
            let mut bundled = std::mem::take(&mut self.bundled);
            if bundled.floor == order.floor() {
                self.log(cells, order, &bundled);
            }
            bundled.reads.clear();
            bundled.rows.clear();
            if bundled.bundles.len() > BUNDLES {
                bundled.bundles.clear();
            }
            self.bundled = bundled;
        }
    }

    #[cold]
    fn log(&mut self, cells: &mut [Cell], order: &Order, bundled: &Bundled) {
        for read in &bundled.reads {
            for (pc, load) in bundled.bundles.get(read.bundle).iter().flat_map(|bundle| bundle.loads()) {
                let Some(row) = bundled.rows.get(read.rows + load.base) else { continue };
                let bits = stamp(order, Who::new(read.warp, 0), pc, None).bits();
                let first = LineRead::of(read.warp, bits, read.when, load.words);
                let address = |lane: usize| u64::from(row.0[lane]).wrapping_add_signed(load.offset);
                self.read_lanes(cells, first, u32::MAX, address);
            }
        }
    }

    /// Records reads by lines. Returns the lanes whose reads are not recorded.
    fn read_lanes(
        &mut self,
        cells: &mut [Cell],
        mut run: LineRead,
        lanes: u32,
        address: impl Fn(usize) -> u64,
    ) -> u32 {
        let count = u32::from(run.count);
        let all = u32::MAX >> 32u32.saturating_sub(count).min(31);
        let mut rest = 0;
        let mut offsets = Row([0; LANES]);
        for lane in lanes_of(lanes) {
            let offset = u32::try_from(address(lane)).unwrap_or(u32::MAX);
            let (line, place) = (at(offset / LINE), offset / 4 % 32);
            if !offset.is_multiple_of(4) || place + count > 32 {
                rest |= 1 << lane;
                continue;
            }
            if line != run.line {
                if run.lanes != 0 && !self.read(cells, &run, &offsets) {
                    rest |= run.lanes;
                }
                run = LineRead { line, words: 0, lanes: 0, ..run };
            }
            run.words |= all << place;
            run.lanes |= 1 << lane;
            offsets.0[lane] = offset;
        }
        if run.lanes != 0 && !self.read(cells, &run, &offsets) {
            rest |= run.lanes;
        }
        rest
    }
}

impl SharedRace {
    /// The fast path for the common case: ordinary accesses to whole words that no other thread has accessed since the
    /// last barrier, or that were only read. Returns the lanes that need the slow path, starting with the first such
    /// word.
    pub(super) fn quietly(&mut self, barriers_only: bool, order: &Order, access: &Access<'_>) -> u32 {
        if !access.bytes.is_multiple_of(4) || access.kind == AccessKind::Atomic {
            return access.lanes;
        }
        let reads = access.kind == AccessKind::Read;
        if reads && !barriers_only {
            return access.lanes;
        }
        self.lines.unbundle(&mut self.cells, order);
        let first = stamp(order, Who::new(access.warp, 0), access.pc, None).bits();
        let words = at(access.bytes / 4);
        if reads {
            let read = LineRead::of(access.warp, first, When::of(order, access.warp), access.bytes / 4);
            let address = |lane: usize| access.addresses.0[lane];
            let rest = self.lines.read_lanes(&mut self.cells, read, access.lanes, address);
            return if rest == 0 {
                0
            } else {
                self.by_cell(order, &Access { lanes: rest, ..*access }, first, words)
            };
        }
        self.by_cell(order, access, first, words)
    }

    /// Reads of all lanes of a warp, one word each, in one line. Returns whether they are recorded.
    #[inline]
    pub(crate) fn read_line(
        &mut self,
        order: &Order,
        (warp, pc): (u32, u32),
        offsets: &Row<u32>,
        shape: &Shape,
    ) -> bool {
        let Some(words) = shape.words.filter(|_| self.owners.is_empty()) else { return false };
        self.lines.unbundle(&mut self.cells, order);
        let bits = stamp(order, Who::new(warp, 0), pc, None).bits();
        let when = When::of(order, warp);
        let line = at(shape.lowest / LINE);
        let read = LineRead { line, words, warp, lanes: u32::MAX, bits, count: 1, when };
        self.lines.read(&mut self.cells, &read, offsets)
    }

    /// The loads of a bundle, of all lanes of a warp. Returns whether they are recorded.
    pub(crate) fn read_bundle(&mut self, order: &Order, reads: &BundleReads<'_>) -> bool {
        self.owners.is_empty() && self.lines.read_bundle(&mut self.cells, order, reads)
    }

    /// Records a write of all lanes to consecutive words of lines that were not accessed since the last barrier. Returns whether it
    /// is one.
    fn fill(&mut self, order: &Order, access: &Access<'_>, first: u32) -> bool {
        let start = access.addresses.0[0];
        let mut gaps = start & 3;
        for (lane, address) in (0u64..).zip(access.addresses.0) {
            gaps |= address.wrapping_sub(start) ^ (4 * lane);
        }
        let word = usize::try_from(start / 4).unwrap_or(usize::MAX);
        let Some(end) = word.checked_add(LANES).filter(|_| gaps == 0) else { return false };
        let (Some(cells), Some(lines)) =
            (self.cells.get_mut(word..end), self.lines.lines.get_mut(word / WORDS..end.div_ceil(WORDS)))
        else {
            return false;
        };
        let (floor, now) = (order.floor(), order.now());
        if !lines.iter().all(|line| line.is_untouched(floor)) {
            return false;
        }
        for line in lines {
            line.written = now;
        }
        for (lane, cell) in (0u32..).zip(cells) {
            *cell = Cell::of_write(now, first | lane);
        }
        true
    }

    /// Records accesses cell by cell. Returns the lanes that need the slow path.
    fn by_cell(&mut self, order: &Order, access: &Access<'_>, first: u32, words: usize) -> u32 {
        let (floor, now) = (order.floor(), order.now());
        let times = (floor, order.warp_floor(at(access.warp)), now);
        let reads = access.kind == AccessKind::Read;
        if (words, access.lanes, reads) == (1, u32::MAX, false) && self.fill(order, access, first) {
            return 0;
        }
        let mut line = usize::MAX;
        for lane in lanes_of(access.lanes) {
            let number = usize::try_from(access.addresses.0[lane] / 128).unwrap_or(usize::MAX);
            if number != line {
                line = number;
                if reads {
                    self.lines.settle(&mut self.cells, floor, line);
                } else {
                    self.lines.write(&mut self.cells, order, line);
                }
            }
        }
        let mut rest = 0;
        if let (1, u32::MAX, false) = (words, access.lanes, reads) {
            for (lane, address) in (0u32..).zip(access.addresses.0) {
                let word = usize::try_from(address / 4).unwrap_or(usize::MAX);
                let cell = self.cells.get_mut(word).filter(|_| address.is_multiple_of(4));
                let quiet = cell.is_some_and(|cell| cell.write_quietly(floor, now, first | lane));
                rest |= u32::from(!quiet) << lane;
            }
            return rest;
        }
        // If consecutive lanes of a warp read the same words, the third and later ones add no information.
        let (mut same, mut last) = (0, u64::MAX);
        for lane in lanes_of(access.lanes) {
            let address = access.addresses.0[lane];
            same = if address == last { same + 1 } else { 0 };
            last = address;
            if reads && same > 1 && rest == 0 {
                continue;
            }
            let bits = first | u32::try_from(lane).unwrap_or(0);
            let start = usize::try_from(address / 4).unwrap_or(usize::MAX);
            let cells = self.cells.get_mut(start..).and_then(|cells| cells.get_mut(..words));
            let quiet = address.is_multiple_of(4)
                && cells.is_some_and(|cells| {
                    cells.iter_mut().all(|cell| {
                        if reads {
                            cell.read_in_place(times, bits)
                        } else {
                            cell.write_quietly(floor, now, bits)
                        }
                    })
                });
            rest |= u32::from(!quiet) << lane;
        }
        rest
    }
}

/// The cells of a line.
fn cells_of(cells: &mut [Cell], line: usize) -> &mut [Cell] {
    let rest = cells.get_mut(line * WORDS..).unwrap_or_default();
    let count = rest.len().min(WORDS);
    rest.get_mut(..count).unwrap_or_default()
}

impl Line {
    fn forget(&mut self) {
        self.log.clear();
        (self.first, self.others) = (0, 0);
        self.repeated = [(0, 0); REPEATED];
    }

    /// Whether no cell was accessed since the last barrier or has special state.
    fn is_untouched(&self, floor: u32) -> bool {
        !self.special && self.written <= floor && self.floor != floor && self.applied != floor
    }

    /// Whether every cell has only ordinary accesses, and no write since the last barrier. Looks once after each barrier.
    #[cold]
    fn look(&mut self, cells: &[Cell], floor: u32) -> bool {
        if !self.special || self.scanned == floor {
            return false;
        }
        self.scanned = floor;
        let ordinary = cells.iter().all(|cell| cell.is_ordinary(floor));
        if ordinary {
            (self.special, self.written) = (false, floor);
        }
        ordinary
    }

    /// Applies the reads since the last barrier and forgets all.
    #[inline]
    fn settle(&mut self, cells: &mut [Cell], floor: u32) {
        if self.floor == floor {
            self.apply(cells);
            self.floor = u32::MAX;
        }
    }

    /// Applies the reads to the cells; what several warps have read stays known.
    fn apply(&mut self, cells: &mut [Cell]) {
        self.applied = self.floor;
        for read in self.log.drain(..) {
            let times = (self.floor, read.warp_floor, read.now);
            // Of consecutive lanes that read the same words, the third and later ones add no information.
            let (mut same, mut last) = (0, u32::MAX);
            for lane in lanes_of(read.lanes) {
                let offset = read.offsets.0[lane];
                same = if offset == last { same + 1 } else { 0 };
                last = offset;
                if same > 1 {
                    continue;
                }
                let bits = read.bits | u32::try_from(lane).unwrap_or(0);
                let place = at(offset / 4) % WORDS;
                let words = place..place + usize::from(read.count);
                for cell in cells.get_mut(words).unwrap_or_default() {
                    cell.read_in_place(times, bits);
                }
            }
        }
        for (words, time) in std::mem::take(&mut self.repeated) {
            for word in lanes_of(words) {
                if let Some(cell) = cells.get_mut(word) {
                    cell.read_until(time);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::Touch;
    use warpproof_sim::memory::Space;

    const BYTES: u32 = 1024;
    const WARPS: u32 = 4;

    /// Pseudorandom numbers.
    struct Random(u64);

    impl Random {
        fn below(&mut self, limit: u32) -> u32 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            u32::try_from(self.0 >> 33).unwrap_or(0) % limit
        }
    }

    /// The addresses of a warp: consecutive, one for all or for each half, with gaps, or at random.
    fn addresses(random: &mut Random, bytes: u32) -> Row<u64> {
        let places = BYTES / bytes;
        let base = random.below(places);
        let shape = random.below(5);
        let mut row = Row([0; LANES]);
        for (lane, address) in (0u32..).zip(&mut row.0) {
            let place = match shape {
                0 => base + lane,
                1 => base,
                2 => base + lane / 16,
                3 => base + 3 * (lane % 8),
                _ => random.below(places),
            };
            *address = u64::from(place % places * bytes);
        }
        row
    }

    /// One access in one of the two ways: the lanes that need the slow path, and the conflicts that it finds.
    fn access(race: &mut SharedRace, order: &Order, access: &Access<'_>) -> (u32, String) {
        let rest = race.quietly(true, order, access);
        let mut conflicts = Vec::new();
        for lane in lanes_of(rest) {
            let stamp = stamp(order, Who::new(access.warp, lane), access.pc, None);
            let touch = Touch {
                order,
                block: 0,
                stamp,
                barriers_only: true,
                exact: false,
                doubtful: None,
                unchanged: false,
            };
            let address = u32::try_from(access.addresses.0[lane]).unwrap_or(0);
            race.touch(&touch, address, access.bytes, access.kind, false, &mut conflicts);
        }
        (rest, format!("{conflicts:?}"))
    }

    #[test]
    fn accesses_by_line_find_what_accesses_by_cell_find() {
        let (mut slow, mut conflicts) = (0, 0);
        for seed in 0..400 {
            let mut random = Random(seed);
            let mut order = Order::new(0, 32 * WARPS);
            let mut by_line = SharedRace::new(BYTES, false);
            let mut by_cell = SharedRace::new(BYTES, false);
            by_cell.lines = Lines::default();
            for pc in 0..60 {
                let warp = random.below(WARPS);
                match random.below(12) {
                    0 | 1 => {
                        (0..WARPS).for_each(|warp| order.arrive(warp, u32::MAX, 0, true, false, false));
                        order.complete(0);
                        continue;
                    }
                    2 => {
                        order.converge(warp, u32::MAX);
                        continue;
                    }
                    _ => {}
                }
                let bytes = [4, 4, 4, 8, 16, 2][at(random.below(6))];
                let kind = if random.below(4) == 0 { AccessKind::Write } else { AccessKind::Read };
                let lanes = if random.below(3) == 0 { random.below(u32::MAX) } else { u32::MAX };
                let made = Access {
                    block: 0,
                    warp,
                    pc,
                    space: Space::Shared,
                    kind,
                    addresses: &addresses(&mut random, bytes),
                    bytes,
                    lanes,
                    unchanged: 0,
                    words: &[],
                    deferred: false,
                    used: u32::MAX,
                };
                let found = access(&mut by_line, &order, &made);
                let expected = access(&mut by_cell, &order, &made);
                slow += u32::from(found.0 != 0);
                conflicts += u32::from(found.1 != "[]");
                assert_eq!(found.1, expected.1, "seed {seed}, access {pc}: {made:?}");
            }
        }
        assert!(slow > 1000 && conflicts > 500, "{slow} slow accesses, {conflicts} with conflicts");
    }
}
