//! Which sectors of device memory were accessed at least once: the traffic that no cache can avoid.
//!
//! Memory is tracked in pages of 64 KiB with a bit for each sector: for loads, for loads through L1, and for stores. That
//! takes about 1/80 of the memory that a kernel touches. At the memory limit, no further page is tracked and a flag is set.

use super::pattern::{LINE, SECTOR};
use std::collections::{BTreeMap, HashMap};
use std::hash::BuildHasherDefault;
use warpproof_sim::machine::{AccessKind, at};
use warpproof_sim::memory::PageHasher;

/// Lines of a page.
const PAGE_LINES: u64 = 512;
/// Words of a page's bitmap: four sectors to a line.
const PAGE_WORDS: usize = 32;
/// Bytes that tracking a page takes, including its index entry.
const PAGE_BYTES: u64 = 3 * 8 * 32 + 64;
/// Pages that are found without the index, in a direct-mapped cache.
const RECENT: usize = 64;

/// How a request accesses its sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Touch {
    /// A load through L1.
    Load,
    /// A load past L1.
    Uncached,
    Store,
    Both,
}

impl Touch {
    /// Of a request; loads may be past L1.
    pub(crate) fn of(kind: AccessKind, uncached: bool) -> Touch {
        match kind {
            AccessKind::Read if uncached => Touch::Uncached,
            AccessKind::Read => Touch::Load,
            AccessKind::Write => Touch::Store,
            AccessKind::Atomic => Touch::Both,
        }
    }
}

struct Page {
    number: u64,
    marks: [Marks; PAGE_WORDS],
}

/// The sectors of 16 lines, one bit each.
#[derive(Clone, Copy, Default)]
struct Marks {
    loaded: u64,
    cached: u64,
    stored: u64,
}

/// The sectors that were accessed.
pub(crate) struct Touched {
    pages: Vec<Page>,
    index: HashMap<u64, u32, BuildHasherDefault<PageHasher>>,
    /// Where a page may be, by the last digits of its number.
    recent: [u32; RECENT],
    limit: usize,
    /// Distinct sectors loaded, loaded through L1, stored, and loaded or stored.
    pub loaded: u64,
    pub cached: u64,
    pub stored: u64,
    pub either: u64,
    /// Whether some accesses were not tracked.
    pub incomplete: bool,
}

/// How many of the four sectors of a line are in a set; `shift` is the place of the line. Processors without an instruction that counts
/// bits are what the crate is compiled for.
#[inline]
fn count(sectors: u64, shift: u64) -> u64 {
    const COUNTS: u64 = 0x4332_3221_3221_2110;
    COUNTS >> (4 * (sectors >> shift & 0xf)) & 0xf
}

impl Touched {
    /// An empty tracker with a memory budget in bytes.
    pub(crate) fn new(memory: u64) -> Touched {
        Touched {
            pages: Vec::new(),
            index: HashMap::default(),
            recent: [0; RECENT],
            limit: usize::try_from(memory / PAGE_BYTES).unwrap_or(usize::MAX).min(at(u32::MAX)),
            loaded: 0,
            cached: 0,
            stored: 0,
            either: 0,
            incomplete: false,
        }
    }

    #[inline]
    fn page(&mut self, number: u64) -> Option<&mut Page> {
        let slot = usize::try_from(number % 64).unwrap_or(0) % RECENT;
        let place = at(self.recent[slot]);
        if self.pages.get(place).is_none_or(|page| page.number != number) {
            self.recent[slot] = self.find(number)?;
        }
        self.pages.get_mut(at(self.recent[slot]))
    }

    /// Where a page is that was not the latest in its slot.
    #[cold]
    fn find(&mut self, number: u64) -> Option<u32> {
        if let Some(place) = self.index.get(&number) {
            return Some(*place);
        }
        if self.pages.len() >= self.limit {
            self.incomplete = true;
            return None;
        }
        let place = u32::try_from(self.pages.len()).ok()?;
        self.pages.push(Page { number, marks: [Marks::default(); PAGE_WORDS] });
        self.index.insert(number, place);
        Some(place)
    }

    /// Marks sectors of a line, and returns how many of them were not yet marked for this kind of access.
    #[inline]
    pub(crate) fn touch(&mut self, line: u64, sectors: u32, touch: Touch) -> u64 {
        let Some(page) = self.page(line / PAGE_LINES) else { return 0 };
        let bit = line % PAGE_LINES * 4;
        let word = usize::try_from(bit / 64).unwrap_or(0) % PAGE_WORDS;
        let bits = u64::from(sectors & 0xf) << (bit % 64);
        let marks = &mut page.marks[word];
        if touch == Touch::Load && marks.cached & bits == bits {
            return 0;
        }
        if touch == Touch::Load && (marks.loaded | marks.stored) & bits == 0 {
            // Most often all are new, to every kind of access.
            marks.loaded |= bits;
            marks.cached |= bits;
            let all = count(bits, bit % 64);
            self.loaded += all;
            self.cached += all;
            self.either += all;
            return all;
        }
        let new = |known: u64| count(bits & !known, bit % 64);
        let either = new(marks.loaded | marks.stored);
        let (mut loaded, mut cached, mut stored) = (0, 0, 0);
        if touch == Touch::Load {
            cached = new(marks.cached);
            marks.cached |= bits;
        }
        if touch != Touch::Store {
            loaded = new(marks.loaded);
            marks.loaded |= bits;
        }
        if matches!(touch, Touch::Store | Touch::Both) {
            stored = new(marks.stored);
            marks.stored |= bits;
        }
        self.loaded += loaded;
        self.cached += cached;
        self.stored += stored;
        self.either += either;
        match touch {
            Touch::Load => cached,
            Touch::Store => stored,
            Touch::Uncached | Touch::Both => loaded,
        }
    }

    /// As [`touch`](Self::touch), for contiguous bytes: the first address, and how many.
    #[inline]
    pub(crate) fn touch_bytes(&mut self, (first, bytes): (u64, u64), touch: Touch) -> u64 {
        let (mut first, last) = (first, first.saturating_add(bytes.max(1) - 1));
        let mut new = 0;
        while first / LINE < last / LINE {
            let end = first | (LINE - 1);
            new += self.touch_in_line(first, end, touch);
            first = end + 1;
        }
        new + self.touch_in_line(first, last, touch)
    }

    /// As [`touch`](Self::touch), for the bytes from one to another in the same line.
    #[inline]
    fn touch_in_line(&mut self, first: u64, last: u64, touch: Touch) -> u64 {
        let (from, to) = (first % LINE / SECTOR, last % LINE / SECTOR);
        self.touch(first / LINE, (0xf << from) & (0xf >> (3 - to)), touch)
    }

    /// Adds the sectors of another tracker.
    pub(crate) fn merge(&mut self, other: &Touched) {
        self.incomplete |= other.incomplete;
        for theirs in &other.pages {
            let Some(mine) = self.page(theirs.number) else { continue };
            let (mut loaded, mut stored, mut either) = (0, 0, 0);
            for (mine, theirs) in mine.marks.iter_mut().zip(&theirs.marks) {
                let all = theirs.loaded | theirs.stored;
                if all == 0 {
                    continue;
                }
                either += u64::from((all & !(mine.loaded | mine.stored)).count_ones());
                loaded += u64::from((theirs.loaded & !mine.loaded).count_ones());
                stored += u64::from((theirs.stored & !mine.stored).count_ones());
                mine.loaded |= theirs.loaded;
                mine.stored |= theirs.stored;
            }
            self.loaded += loaded;
            self.stored += stored;
            self.either += either;
        }
    }

    /// Sectors loaded, stored, and loaded or stored, of each buffer by its index. Buffers are given by their first address
    /// and the address after them, in ascending order.
    pub(crate) fn by_buffer(&self, buffers: &[(u64, u64)]) -> BTreeMap<usize, [u64; 3]> {
        let mut found: BTreeMap<usize, [u64; 3]> = BTreeMap::new();
        for page in &self.pages {
            for (word, Marks { loaded, stored, .. }) in (0u64..).zip(&page.marks) {
                let start = page.number * PAGE_LINES * LINE + word * 64 * SECTOR;
                let mut left = loaded | stored;
                while left != 0 {
                    let sector = start + u64::from(left.trailing_zeros()) * SECTOR;
                    // The buffer that ends after the start of the sector; the sector may begin before it.
                    let index = buffers.partition_point(|(_, end)| *end <= sector);
                    let end = buffers.get(index).map_or(u64::MAX, |(_, end)| *end);
                    let sectors = (end - start).div_ceil(SECTOR);
                    let own =
                        left & !u32::try_from(sectors).map_or(0, |n| u64::MAX.checked_shl(n).unwrap_or(0));
                    let counts = found.entry(index).or_default();
                    for (count, bits) in counts.iter_mut().zip([*loaded, *stored, u64::MAX]) {
                        *count += u64::from((own & bits).count_ones());
                    }
                    left &= !own;
                }
            }
        }
        found
    }

    /// Clears the tracker but keeps its memory.
    pub(crate) fn clear(&mut self) {
        self.pages.clear();
        self.index.clear();
        (self.loaded, self.cached, self.stored) = (0, 0, 0);
        (self.either, self.incomplete) = (0, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sector_is_new_once() {
        let mut touched = Touched::new(1 << 20);
        assert_eq!(touched.touch(5, 0b0011, Touch::Load), 2);
        assert_eq!(touched.touch(5, 0b0110, Touch::Load), 1);
        assert_eq!(touched.touch(5, 0b1111, Touch::Store), 4);
        // Another page in the same slot of the cache.
        assert_eq!(touched.touch(5 + 64 * PAGE_LINES, 0b1000, Touch::Both), 1);
        assert_eq!(touched.touch(5, 0b0001, Touch::Load), 0);
        assert_eq!((touched.loaded, touched.stored, touched.either), (4, 5, 5));
        let mut other = Touched::new(1 << 20);
        other.touch(5, 0b1000, Touch::Load);
        touched.merge(&other);
        assert_eq!((touched.loaded, touched.stored, touched.either), (5, 5, 5));
        assert_eq!(touched.cached, 3);
        // Sectors loaded past L1 are not in L1.
        assert_eq!(touched.touch(9, 0b0011, Touch::Uncached), 2);
        assert_eq!((touched.touch(9, 0b0111, Touch::Load), touched.cached, touched.loaded), (3, 6, 8));
        touched.clear();
        assert_eq!(touched.touch(5, 0b0011, Touch::Load), 2);
    }

    #[test]
    fn contiguous_bytes_touch_their_sectors() {
        for first in [0, 4, 31, 96, 100, 127, 5 * LINE - 4] {
            for bytes in [1, 4, 32, 64, 129, 3 * LINE] {
                let (mut together, mut apart) = (Touched::new(1 << 20), Touched::new(1 << 20));
                let mut sum = 0;
                for byte in first..first + bytes {
                    sum += apart.touch(byte / LINE, 1 << (byte % LINE / SECTOR), Touch::Load);
                }
                assert_eq!(
                    together.touch_bytes((first, bytes), Touch::Load),
                    sum,
                    "{bytes} bytes from {first}"
                );
                assert_eq!(together.touch_bytes((first, bytes), Touch::Load), 0);
            }
        }
    }

    #[test]
    fn sectors_belong_to_buffers() {
        let mut touched = Touched::new(1 << 20);
        touched.touch(5, 0b1111, Touch::Load);
        touched.touch(6, 0b1111, Touch::Both);
        touched.touch(600, 0b0001, Touch::Store);
        // The first buffer ends within a sector, and the next one begins in another page.
        let buffers = [(5 * LINE, 6 * LINE + 33), (6 * LINE + 64, 7 * LINE), (590 * LINE, 700 * LINE)];
        let found: Vec<_> = touched.by_buffer(&buffers).into_iter().collect();
        assert_eq!(found, [(0, [6, 2, 6]), (1, [2, 2, 2]), (2, [0, 1, 1])]);
        // What is in no buffer has an index of its own.
        assert_eq!(touched.by_buffer(&[]).into_iter().collect::<Vec<_>>(), [(0, [8, 5, 9])]);
    }

    #[test]
    fn a_full_memory_says_so() {
        let mut touched = Touched::new(PAGE_BYTES);
        assert_eq!(touched.touch(0, 1, Touch::Load), 1);
        assert!(!touched.incomplete);
        assert_eq!(touched.touch(PAGE_LINES, 1, Touch::Load), 0);
        assert!(touched.incomplete);
        assert_eq!(touched.touch(1, 1, Touch::Load), 1);
    }
}
