//! Wrong leading dimension of a `wmma.load`: given in bytes instead of elements, or taken from another array.
//!
//! Two bugs are distinguished from what may be intended (every second row, a matrix viewed with another width):
//!
//! - *Skipped rows.* The distance between two rows of a fragment is the row distance in shared memory times the element
//!   size in bytes, so the rows between are skipped, and no fragment of the block loads any of them. A kernel that
//!   handles even and odd rows separately loads both.
//! - *Overlapping rows.* The fragment's row distance differs from the buffer's, the fragment for the next k of the same
//!   sum repeats elements of other rows of the previous fragment, and the row length of the buffer equals the extent of
//!   k of the other operand. A convolution has overlapping rows too, but its filter is shorter than a row of the image.

use super::origin::{Sources, Tag};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Maximum number of recorded loads that skip rows.
const SKIPS: usize = 256;
/// Maximum number of sums whose tiles are recorded.
const SUMS: usize = 1 << 8;

/// A fragment that is not in order although its element addresses are strided: each is a sum of a part of its line and
/// a part of its k.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Window {
    pub buffer: usize,
    pub ks: usize,
    /// The elements, line by line.
    pub tags: Arc<[Tag]>,
}

/// An element that was in another line of the fragment at the previous k.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Overlap {
    pub tag: Tag,
    /// Line and k.
    pub before: (usize, usize),
    pub now: (usize, usize),
}

impl Window {
    /// The first element that `next` has in another line, if no element is in the same line in both.
    fn overlap(&self, next: &Window) -> Option<Overlap> {
        if (self.buffer, self.ks) != (next.buffer, next.ks) || self.ks == 0 {
            return None;
        }
        let place = |i: usize| (i / self.ks, i % self.ks);
        let before: BTreeMap<Tag, usize> = self.tags.iter().copied().zip(0..).collect();
        let mut first = None;
        for (i, tag) in next.tags.iter().enumerate() {
            let Some(at) = before.get(tag) else { continue };
            if place(*at).0 == place(i).0 {
                return None;
            }
            first.get_or_insert(Overlap { tag: *tag, before: place(*at), now: place(i) });
        }
        first
    }
}

/// The last tiles that were added to the sums of a warp.
#[derive(Debug, Default)]
pub(super) struct Windows {
    sums: BTreeMap<u32, [Option<Window>; 2]>,
    last: u32,
}

impl Windows {
    /// The next product of a sum; 0 is an unknown sum. Returns the number of the sum, and the operand that overlaps.
    pub(super) fn add(
        &mut self,
        sum: u32,
        fresh: bool,
        now: [Option<Window>; 2],
    ) -> (u32, Option<(usize, Overlap)>) {
        if fresh {
            if self.sums.len() >= SUMS {
                self.sums.clear();
            }
            // The high bit separates these numbers from the chains of `pairing.rs`.
            self.last = self.last.wrapping_add(1) | 1 << 31;
            self.sums.insert(self.last, now);
            return (self.last, None);
        }
        let Some(before) = self.sums.get_mut(&sum) else { return (0, None) };
        let found =
            before.iter().zip(&now).enumerate().find_map(|(operand, (before, now))| {
                Some((operand, before.as_ref()?.overlap(now.as_ref()?)?))
            });
        *before = now;
        (sum, found)
    }
}

/// A load that skips rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Skip {
    pub pc: u32,
    /// An element, the one after it in the fragment, and the first skipped element between them.
    pub here: Tag,
    pub next: Tag,
    pub between: Tag,
    /// The distance in bytes.
    pub pitch: u32,
    pub warp: u32,
}

/// What the `wmma.load`s of a block have loaded from shared memory, and what they skipped.
#[derive(Debug, Default)]
pub(super) struct Loads {
    /// A bit for each 2 bytes of shared memory.
    loaded: Vec<u64>,
    skips: BTreeMap<u32, Vec<(Skip, u64)>>,
}

/// The word and the bit of an address.
fn bit(address: u64) -> (usize, u64) {
    (usize::try_from(address / 128).unwrap_or(usize::MAX), 1 << (address / 2 % 64))
}

impl Loads {
    /// Records a load of `bytes` bytes.
    pub(super) fn load(&mut self, address: u64, bytes: u32, shared_bytes: u32) {
        if self.loaded.is_empty() {
            self.loaded = vec![0; bit(u64::from(shared_bytes)).0 + 1];
        }
        for offset in (0..u64::from(bytes.max(1))).step_by(2) {
            let (word, bit) = bit(address + offset);
            if let Some(word) = self.loaded.get_mut(word) {
                *word |= bit;
            }
        }
    }

    /// Records the stride of a load. `skip` holds an element and the element one fragment row further; `between` is the
    /// address that row would have if the distance had been given in bytes.
    pub(super) fn stride(&mut self, sources: &Sources, skip: Skip, between: u64) {
        let follows = |a: Tag, b: Tag| {
            let (Some((first, x)), Some((second, y))) = (sources.place(a), sources.place(b)) else {
                return false;
            };
            first == second && (y == [x[0], x[1] + 1, x[2]] || y == [x[0], x[1], x[2] + 1])
        };
        if follows(skip.here, skip.between) && !follows(skip.here, skip.next) {
            let skips = self.skips.entry(skip.pc).or_default();
            if skips.len() < SKIPS {
                skips.push((skip, between));
            }
        }
    }

    /// Loads that skip rows that no other load reads.
    pub(super) fn finish(&self) -> impl Iterator<Item = Skip> {
        let Loads { loaded, skips } = self;
        skips.values().filter_map(move |skips| {
            let read = |address: u64| {
                let (word, bit) = bit(address);
                loaded.get(word).is_some_and(|word| word & bit != 0)
            };
            let unread = skips.iter().all(|(_, address)| !read(*address));
            skips.first().map(|(skip, _)| *skip).filter(|_| unread)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(base: Tag, down: u32) -> Window {
        let tags = (0..16).flat_map(|line| (0..16).map(move |k| base + down * line + k)).collect();
        Window { buffer: 0, ks: 16, tags }
    }

    #[test]
    fn tiles_side_by_side_do_not_overlap() {
        let overlap = |a: Window, b: Window| a.overlap(&b).map(|overlap| (overlap.before, overlap.now));
        assert_eq!(overlap(window(2, 32), window(18, 32)), None);
        assert_eq!(overlap(window(2, 32), window(2 + 16 * 32, 32)), None, "below");
        assert_eq!(overlap(window(2, 32), window(2, 32)), None, "the same");
        assert_eq!(overlap(window(2, 16), window(18, 16)), Some(((1, 0), (0, 0))), "one row further on");
        assert_eq!(overlap(window(2, 24), window(18, 24)), Some(((1, 0), (0, 8))), "partly");
    }
}
