//! The bytes of global memory that a launch reads and writes, for callers that compare launches with each other.
//!
//! Can miss: what a launch accesses beyond [`MOST_PAGES`] and [`MOST_RANGES`]; it is then marked as incomplete.

use super::site::Sites;
use std::collections::BTreeMap;
use std::ops::Range;
use warpproof_sim::machine::{Access, AccessKind, lanes_of};
use warpproof_sim::memory::Space;
use warpproof_sim::observe::{AsyncCopy, BulkCopy};

/// Bytes per page.
const PAGE: u64 = 512;
/// Words of 64 bits that have one bit per byte of a page.
const WORDS: usize = 8;
/// Maximum number of pages that are recorded for a launch.
const MOST_PAGES: usize = 1 << 18;
/// Maximum number of ranges per kind of access.
const MOST_RANGES: usize = 1 << 17;

/// The bytes that a launch accesses: sorted ranges that do not overlap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Touched {
    /// Bytes that ordinary loads read.
    pub read: Vec<Range<u64>>,
    /// Bytes that ordinary stores write.
    pub written: Vec<Range<u64>>,
    /// Bytes accessed by atomics and other strong accesses, which may run at the same time as each other.
    pub strong: Vec<Range<u64>>,
    /// Whether accesses are missing because there were too many.
    pub incomplete: bool,
    /// Instructions with bytes that they access, if they are recorded: not all of them.
    pub places: Vec<(Kind, Range<u64>, u32)>,
}

impl Touched {
    /// An instruction that accesses one of these bytes in this way, and is known.
    pub fn place(&self, kind: Kind, bytes: &Range<u64>) -> Option<u32> {
        let mut places = self.places.iter();
        let found = places
            .find(|(other, range, _)| *other == kind && range.start < bytes.end && bytes.start < range.end);
        found.map(|(.., pc)| *pc)
    }
}

/// How bytes are accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// By ordinary loads.
    Read,
    /// By ordinary stores.
    Written,
    /// By atomics and other strong accesses.
    Strong,
}

/// One bit per byte.
type Bits = [u64; WORDS];

/// The accesses to a page: by kind, and by the first few instructions.
#[derive(Debug, Default)]
struct Page {
    bits: [Bits; 3],
    places: Vec<(Kind, u32, Bits)>,
}

/// Instructions that are recorded for a page.
const MOST_PLACES: usize = 4;

/// The accesses of a block, or of all blocks so far.
#[derive(Debug, Default)]
pub(crate) struct Pages {
    by_number: BTreeMap<u64, Box<Page>>,
    incomplete: bool,
    /// Whether instructions are recorded.
    places: bool,
}

impl Pages {
    /// Records instructions too, if asked for.
    pub(crate) fn with_places(places: bool) -> Pages {
        Pages { places, ..Pages::default() }
    }

    /// Records an access of some lanes to global memory.
    pub(crate) fn access(&mut self, sites: &Sites, access: &Access<'_>, lanes: u32) {
        let kind = kind_of(sites, access);
        for lane in lanes_of(lanes) {
            self.mark(kind, access.addresses.0[lane & 31], u64::from(access.bytes), access.pc);
        }
    }

    /// Records the source of an asynchronous copy.
    pub(crate) fn copy(&mut self, copy: &AsyncCopy) {
        self.mark(Kind::Read, copy.from, u64::from(copy.read), copy.pc);
    }

    /// Records the global memory of a bulk copy. A reduction is atomic.
    pub(crate) fn bulk(&mut self, copy: &BulkCopy) {
        if let (Space::Global, address) = copy.from {
            self.mark(Kind::Read, address, u64::from(copy.bytes), copy.pc);
        }
        if let (Space::Global, address) = copy.to {
            let kind = if copy.reduces { Kind::Strong } else { Kind::Written };
            self.mark(kind, address, u64::from(copy.bytes), copy.pc);
        }
    }

    fn mark(&mut self, kind: Kind, address: u64, bytes: u64, pc: u32) {
        let (mut from, end) = (address, address.saturating_add(bytes));
        while from < end {
            let key = from / PAGE;
            let stop = end.min((key + 1).saturating_mul(PAGE));
            if stop <= from {
                return;
            }
            if self.by_number.len() >= MOST_PAGES && !self.by_number.contains_key(&key) {
                self.incomplete = true;
                return;
            }
            let page = self.by_number.entry(key).or_default();
            let mut place = self.places.then(|| page.place(kind, pc)).flatten();
            for byte in from % PAGE..=(stop - 1) % PAGE {
                let word = usize::try_from(byte / 64).unwrap_or(0);
                page.bits[number(kind)][word] |= 1 << (byte % 64);
                if let Some((.., bits)) = place.as_mut().and_then(|place| page.places.get_mut(*place)) {
                    bits[word] |= 1 << (byte % 64);
                }
            }
            from = stop;
        }
    }

    /// Adds the accesses of another block.
    pub(crate) fn merge(&mut self, other: Pages) {
        self.incomplete |= other.incomplete;
        for (key, page) in other.by_number {
            if self.by_number.len() >= MOST_PAGES && !self.by_number.contains_key(&key) {
                self.incomplete = true;
                continue;
            }
            let mine = self.by_number.entry(key).or_default();
            for (mine, other) in mine.bits.as_flattened_mut().iter_mut().zip(page.bits.as_flattened()) {
                *mine |= other;
            }
            for (kind, pc, bits) in page.places {
                let place = mine.place(kind, pc).and_then(|place| mine.places.get_mut(place));
                if let Some((.., mine)) = place {
                    mine.iter_mut().zip(bits).for_each(|(mine, other)| *mine |= other);
                }
            }
        }
    }

    /// All accesses as ranges.
    pub(crate) fn touched(&self) -> Touched {
        let mut touched = Touched { incomplete: self.incomplete, ..Touched::default() };
        for (kind, ranges) in
            [&mut touched.read, &mut touched.written, &mut touched.strong].into_iter().enumerate()
        {
            for (key, page) in &self.by_number {
                for (word, bits) in (0u64..).zip(page.bits[kind]) {
                    add(ranges, key * PAGE + word * 64, bits);
                }
                if ranges.len() > MOST_RANGES {
                    ranges.truncate(MOST_RANGES);
                    touched.incomplete = true;
                    break;
                }
            }
        }
        for (key, page) in &self.by_number {
            for (kind, pc, bits) in &page.places {
                let mut ranges = Vec::new();
                for (word, bits) in (0u64..).zip(*bits) {
                    add(&mut ranges, key * PAGE + word * 64, bits);
                }
                touched.places.extend(ranges.into_iter().map(|range| (*kind, range, *pc)));
            }
            if touched.places.len() > MOST_RANGES {
                break;
            }
        }
        touched
    }
}

impl Page {
    /// The place of an instruction, unless too many others are recorded.
    fn place(&mut self, kind: Kind, pc: u32) -> Option<usize> {
        let known = self.places.iter().position(|(other, at, _)| (*other, *at) == (kind, pc));
        if known.is_none() && self.places.len() < MOST_PLACES {
            self.places.push((kind, pc, Bits::default()));
            return Some(self.places.len() - 1);
        }
        known
    }
}

fn number(kind: Kind) -> usize {
    match kind {
        Kind::Read => 0,
        Kind::Written => 1,
        Kind::Strong => 2,
    }
}

/// How an instruction accesses memory.
pub(crate) fn kind_of(sites: &Sites, access: &Access<'_>) -> Kind {
    match access.kind {
        AccessKind::Atomic => Kind::Strong,
        _ if sites.get(access.pc).ordering.strong.is_some() => Kind::Strong,
        AccessKind::Write => Kind::Written,
        AccessKind::Read => Kind::Read,
    }
}

/// Adds the bytes whose bits are set, counted from `base`.
fn add(ranges: &mut Vec<Range<u64>>, base: u64, mut bits: u64) {
    while bits != 0 {
        let start = bits.trailing_zeros();
        let length = (bits >> start).trailing_ones();
        let range = base + u64::from(start)..base + u64::from(start + length);
        match ranges.last_mut().filter(|last| last.end == range.start) {
            Some(last) => last.end = range.end,
            None => ranges.push(range),
        }
        bits = if start + length >= 64 { 0 } else { bits & (u64::MAX << (start + length)) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_join_across_words_and_pages() {
        let mut pages = Pages::with_places(true);
        pages.mark(Kind::Written, 1000, 100, 7);
        pages.mark(Kind::Written, 1100, 4, 8);
        pages.mark(Kind::Written, 1105, 1, 8);
        let mut other = Pages::with_places(true);
        other.mark(Kind::Read, 0, 1, 9);
        pages.merge(other);
        let touched = pages.touched();
        assert_eq!(touched.written, [1000..1104, 1105..1106]);
        assert_eq!((touched.read.first(), touched.read.len()), (Some(&(0..1)), 1));
        assert!(!touched.incomplete);
        assert_eq!(touched.place(Kind::Written, &(1090..1102)), Some(7));
        assert_eq!(touched.place(Kind::Written, &(1101..1102)), Some(8));
        assert_eq!(
            (touched.place(Kind::Read, &(0..4)), touched.place(Kind::Strong, &(0..4))),
            (Some(9), None)
        );
    }
}
