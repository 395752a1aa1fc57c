//! A cache of request shapes. The cost of a request depends only on the distances between its lanes' addresses and on the
//! first address's offset in a line. Most instructions repeat the same shape, so it is enough to compare the shape and
//! count it.

use super::counters::Traffic;
use super::heat::BlockHeat;
use super::reuse::{Touch, Touched};
use warpproof_sim::machine::{AccessKind, LANES, Row, at};
use warpproof_sim::simd::{Half, Level, Simd, at_level};

/// Request shapes cached per instruction: a swizzle in a loop uses a few.
const WAYS: usize = 4;

/// The part of a request's shape besides the distances between lanes, as one number: lanes, bytes per lane, kind, and the
/// first address's offset in a word or line, as far as that matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key(u64);

impl Key {
    #[inline]
    pub(super) fn new(lanes: u32, bytes: u32, kind: AccessKind, phase: u32) -> Key {
        let kind = match kind {
            AccessKind::Read => 0u64,
            AccessKind::Write => 1,
            AccessKind::Atomic => 2,
        };
        // A lane moves 16 bytes at most, and a line has 128.
        Key(u64::from(lanes) << 32 | u64::from(bytes & 0xffff) << 16 | kind << 8 | u64::from(phase & 0xff))
    }

    #[inline]
    fn lanes(self) -> u32 {
        u32::try_from(self.0 >> 32).unwrap_or(0)
    }
}

/// Whether the lanes of a row have the same distances from the first lane as in another request: the row, its first
/// address, the distances, and the mask of active lanes, if not all are active.
pub(super) type Same<T> = fn(&Row<T>, T, &Row<T>, Option<&Row<T>>) -> bool;

/// Addresses of one width.
pub(super) trait Address: Copy + Default + 'static {
    /// All bits set.
    const ALL: Self;
    /// The distance from another address.
    fn distance(self, first: Self) -> Self;
    /// The comparison for the vector instructions available on this host.
    fn same(level: Level) -> Same<Self>;
}

macro_rules! address {
    ($type:ty, $same:ident) => {
        fn $same<I: Simd>(
            row: &Row<$type>,
            first: $type,
            distances: &Row<$type>,
            mask: Option<&Row<$type>>,
        ) -> bool {
            I::vectorize(
                #[inline(always)]
                || {
                    let mut differences = 0;
                    match mask {
                        None => {
                            for lane in 0..LANES {
                                differences |= row.0[lane].wrapping_sub(first) ^ distances.0[lane];
                            }
                        }
                        Some(mask) => {
                            for lane in 0..LANES {
                                let distance = row.0[lane].wrapping_sub(first);
                                differences |= (distance ^ distances.0[lane]) & mask.0[lane];
                            }
                        }
                    }
                    differences == 0
                },
            )
        }

        impl Address for $type {
            const ALL: Self = <$type>::MAX;

            fn distance(self, first: Self) -> Self {
                self.wrapping_sub(first)
            }

            fn same(level: Level) -> Same<Self> {
                at_level!(level, $same)
            }
        }
    };
}

address!(u32, same_narrow);
address!(u64, same_wide);

/// How the addresses of all lanes of a warp lie, if those of each half are regular.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Regular {
    /// The distance between the halves.
    distance: u64,
    halves: [Half; 2],
}

impl Regular {
    #[inline]
    pub(super) fn of([first, second]: [u64; 2], halves: [Half; 2]) -> Option<Regular> {
        let regular = !halves.contains(&Half::Mixed);
        regular.then_some(Regular { distance: second.wrapping_sub(first), halves })
    }
}

/// A regular request, how often it occurred since its costs were added up, and those costs. To compare with it takes one line of the
/// host's cache; any other request is compared lane by lane.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(super) struct Latest {
    like: Option<(Key, Regular)>,
    pub hits: u64,
    /// Sectors that were accessed for the first time.
    pub first_sectors: u64,
    pub touch: Touch,
    cost: Traffic,
}

impl Default for Latest {
    fn default() -> Latest {
        Latest { like: None, hits: 0, first_sectors: 0, touch: Touch::Load, cost: Traffic::default() }
    }
}

impl Latest {
    /// Whether a request is like it.
    #[inline]
    pub(super) fn is_like(&self, key: Key, regular: Regular) -> bool {
        self.like == Some((key, regular))
    }

    /// Replaces it by a request that is counted already. Returns the costs of the one before.
    pub(super) fn replace(&mut self, like: (Key, Regular), cost: Traffic, touch: Touch) -> Traffic {
        let before = self.settle();
        *self = Latest { like: Some(like), hits: 0, first_sectors: 0, touch, cost };
        before
    }

    /// Returns the costs that are not added up yet. It stays, for another block.
    pub(super) fn settle(&mut self) -> Traffic {
        let (hits, first_sectors) = (std::mem::take(&mut self.hits), std::mem::take(&mut self.first_sectors));
        let mut costs = self.cost.times(hits);
        costs.first_sectors = costs.first_sectors.saturating_add(first_sectors);
        costs
    }
}

/// Positions relative to the first lane of a request, each with its value.
type Parts = Vec<(u64, u32)>;

/// A request shape, and how often it occurred since its costs were added up. The fields compared each time come first and
/// the rest is boxed: a kernel has many shapes, and those fields should stay in the CPU cache.
#[derive(Clone, Debug)]
#[repr(C)]
pub(super) struct Memo<T> {
    key: Key,
    hits: u64,
    distances: Row<T>,
    rest: Box<Rest<T>>,
}

/// The fields that are needed when a request moves or is evicted, or has inactive lanes.
#[derive(Clone, Debug)]
struct Rest<T> {
    mask: Row<T>,
    cost: Traffic,
    /// Lines of global memory relative to the line of the first address, each with its sectors.
    lines: Parts,
    /// Words of global memory with atomic operations, relative to the first address, each with the number of operations.
    words: Parts,
    /// Where it occurred last.
    last: T,
}

/// The cached request shapes of one instruction and one space.
#[derive(Clone, Debug)]
pub(super) struct Memos<T> {
    ways: Vec<Memo<T>>,
    /// The shape used last, and the one to evict next.
    recent: usize,
    oldest: usize,
}

impl<T> Default for Memos<T> {
    fn default() -> Self {
        Memos { ways: Vec::new(), recent: 0, oldest: 0 }
    }
}

impl<T: Address> Memos<T> {
    /// Counts a request if its shape is cached, and returns whether it is.
    #[inline]
    pub(super) fn again(&mut self, same: Same<T>, key: Key, first: T, row: &Row<T>) -> bool {
        let all = key.lanes() == u32::MAX;
        let like = |memo: &Memo<T>| {
            memo.key == key
                && same(row, first, &memo.distances, if all { None } else { Some(&memo.rest.mask) })
        };
        if let Some(memo) = self.ways.get_mut(self.recent)
            && like(memo)
        {
            memo.hits += 1;
            return true;
        }
        match self.ways.iter_mut().enumerate().find(|(_, memo)| like(memo)) {
            Some((way, memo)) => {
                memo.hits += 1;
                self.recent = way;
                true
            }
            None => false,
        }
    }

    /// Caches and counts a new shape. Returns the costs of the shape evicted for it.
    pub(super) fn put(
        &mut self,
        key: Key,
        first: T,
        row: &Row<T>,
        cost: Traffic,
        (lines, words): (Parts, Parts),
    ) -> Traffic {
        let mut distances = Row([T::default(); LANES]);
        let mut mask = Row([T::default(); LANES]);
        for lane in warpproof_sim::machine::lanes_of(key.lanes()) {
            distances.0[lane] = row.0[lane].distance(first);
            mask.0[lane] = T::ALL;
        }
        let rest = Box::new(Rest { mask, cost, lines, words, last: first });
        let memo = Memo { key, hits: 1, distances, rest };
        if self.ways.len() < WAYS {
            self.recent = self.ways.len();
            self.ways.push(memo);
            return Traffic::default();
        }
        self.recent = self.oldest;
        self.oldest = (self.oldest + 1) % WAYS;
        std::mem::replace(&mut self.ways[self.recent], memo).settled()
    }

    /// Adds the costs that are not added up yet. The shapes stay, for another block.
    pub(super) fn settle(&mut self, sum: &mut Traffic) {
        for memo in self.ways.iter_mut().filter(|memo| memo.hits != 0) {
            sum.add(&memo.settled());
            memo.hits = 0;
            // No address: the next block has not touched anything.
            memo.rest.last = T::ALL;
        }
    }

    /// The cost of a request of the shape used last.
    pub(super) fn latest(&self) -> Option<Traffic> {
        Some(self.ways.get(self.recent)?.rest.cost)
    }

    /// The number of cached shapes.
    pub(super) fn len(&self) -> usize {
        self.ways.len()
    }
}

impl Memos<u64> {
    /// Touches the lines of the latest request at its current address; returns the number of new sectors. `fresh` if the
    /// shape is new.
    #[inline]
    pub(super) fn touch(&mut self, touched: &mut Touched, first: u64, touch: Touch, fresh: bool) -> u64 {
        let Some(memo) = self.ways.get_mut(self.recent).map(|memo| &mut *memo.rest) else { return 0 };
        if memo.last == first && !fresh {
            return 0;
        }
        memo.last = first;
        let line = first / super::pattern::LINE;
        memo.lines
            .iter()
            .map(|(distance, sectors)| touched.touch(line.wrapping_add(*distance), *sectors, touch))
            .sum()
    }

    /// Counts the atomic operations of the latest request at its current address.
    pub(super) fn heat(&self, heat: &mut BlockHeat, first: u64) {
        if let Some(memo) = self.ways.get(self.recent) {
            heat.add(first, &memo.rest.words);
        }
    }
}

impl<T> Memo<T> {
    fn settled(&self) -> Traffic {
        self.rest.cost.times(self.hits)
    }
}

/// The first active lane.
#[inline]
pub(super) fn first<T: Copy>(row: &Row<T>, lanes: u32) -> T {
    row.0[at(lanes.trailing_zeros() & 31)]
}
