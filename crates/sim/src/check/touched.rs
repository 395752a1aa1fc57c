//! The bytes of global memory that a launch reads and writes, for callers that compare launches with each other.
//!
//! Can miss: what a launch accesses beyond [`MOST_PAGES`] and [`MOST_RANGES`]; it is then marked as incomplete.

use super::site::Sites;
use crate::machine::{Access, AccessKind, lanes_of};
use crate::observe::AsyncCopy;
use std::collections::BTreeMap;
use std::ops::Range;

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
}

/// One bit per byte: read, written, strong.
type Page = [[u64; WORDS]; 3];

/// The accesses of a block, or of all blocks so far.
#[derive(Debug, Default)]
pub(crate) struct Pages {
    pages: BTreeMap<u64, Box<Page>>,
    incomplete: bool,
}

impl Pages {
    /// Records an access to global memory.
    pub(crate) fn access(&mut self, sites: &Sites, access: &Access<'_>) {
        let kind = match access.kind {
            AccessKind::Atomic => 2,
            _ if sites.get(access.pc).ordering.strong.is_some() => 2,
            AccessKind::Write => 1,
            AccessKind::Read => 0,
        };
        for lane in lanes_of(access.lanes) {
            self.mark(kind, access.addresses.0[lane & 31], u64::from(access.bytes));
        }
    }

    /// Records the source of an asynchronous copy.
    pub(crate) fn copy(&mut self, copy: &AsyncCopy) {
        self.mark(0, copy.from, u64::from(copy.read));
    }

    fn mark(&mut self, kind: usize, address: u64, bytes: u64) {
        let (mut from, end) = (address, address.saturating_add(bytes));
        while from < end {
            let key = from / PAGE;
            let stop = end.min((key + 1).saturating_mul(PAGE));
            if stop <= from {
                return;
            }
            if self.pages.len() >= MOST_PAGES && !self.pages.contains_key(&key) {
                self.incomplete = true;
                return;
            }
            let page = self.pages.entry(key).or_default();
            for byte in from % PAGE..=(stop - 1) % PAGE {
                let word = usize::try_from(byte / 64).unwrap_or(0);
                page[kind][word] |= 1 << (byte % 64);
            }
            from = stop;
        }
    }

    /// Adds the accesses of another block.
    pub(crate) fn merge(&mut self, other: Pages) {
        self.incomplete |= other.incomplete;
        for (key, page) in other.pages {
            if self.pages.len() >= MOST_PAGES && !self.pages.contains_key(&key) {
                self.incomplete = true;
                continue;
            }
            let mine = self.pages.entry(key).or_default();
            for (mine, other) in mine.as_flattened_mut().iter_mut().zip(page.as_flattened()) {
                *mine |= other;
            }
        }
    }

    /// All accesses as ranges.
    pub(crate) fn touched(&self) -> Touched {
        let mut touched = Touched { incomplete: self.incomplete, ..Touched::default() };
        for (kind, ranges) in
            [&mut touched.read, &mut touched.written, &mut touched.strong].into_iter().enumerate()
        {
            for (key, page) in &self.pages {
                for (word, bits) in (0u64..).zip(page[kind]) {
                    add(ranges, key * PAGE + word * 64, bits);
                }
                if ranges.len() > MOST_RANGES {
                    ranges.truncate(MOST_RANGES);
                    touched.incomplete = true;
                    break;
                }
            }
        }
        touched
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
        let mut pages = Pages::default();
        pages.mark(1, 1000, 100);
        pages.mark(1, 1100, 4);
        pages.mark(1, 1105, 1);
        let mut other = Pages::default();
        other.mark(0, 0, 1);
        pages.merge(other);
        let touched = pages.touched();
        assert_eq!(touched.written, [1000..1104, 1105..1106]);
        assert_eq!((touched.read.first(), touched.read.len()), (Some(&(0..1)), 1));
        assert!(!touched.incomplete);
    }
}
