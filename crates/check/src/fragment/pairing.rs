//! Which k of A meets which k of B, over all matrix instructions that add to one accumulator.
//!
//! An accumulator is a sum of products of one line of A and one line of B, so the index of k in A and the index of k in
//! B differ by a constant: 0 for a plain product, any constant for parts of matrices. The instructions that add to one
//! accumulator, starting from zero, are a *chain*. A chain is wrong
//!
//! - if that difference changes: the tiles of A and B do not match (different pipeline stages, a stage that was not
//!   refilled), or scores of some keys with the values of others;
//! - if some k is added twice as often as the rest, or if as many products are added as the buffers have k, but not of all of
//!   them: a stage that was not refilled, in A and in B.
//!
//! Exchanged rows of P are reported too: scores are added to the sums of other rows, but the set of rows is the same.
//! Neither of the two errors above is reported in a block that has races or unfinished copies, which cause stale tiles.
//!
//! A chain is dropped without a report when an instruction adds elements whose k is unknown (for example zeros at the
//! tail) or that belong to another line: a convolution uses other rows for each tap, so it is never compared. Within
//! one instruction the difference must be the same for all k; only scores, whose register layout is that of
//! accumulators and not chosen by the user, are compared if it is the same for half of them. Products that are repeated
//! equally for all k (operands split into high and low parts, benchmarks) are not wrong.

use super::layout::Judged;
use super::origin::{Cell, Tag, is_sum, lines_of};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of chains recorded per warp.
const CHAINS: usize = 1 << 10;
/// Maximum number of runs of k recorded per chain; a longer chain is dropped.
const RUNS: usize = 1 << 11;

/// The axis of k: the buffer, and which index of its positions.
type Axis = (usize, usize);

/// The instructions that have added to an accumulator.
#[derive(Clone, Debug)]
struct Chain {
    a: Axis,
    b: Axis,
    base: (Cell, Cell),
    /// The extent of k, if it is the same in both buffers.
    extent: Option<u32>,
    /// The first pair of k in A and k in B; it defines the difference.
    pair: (u32, u32),
    /// Runs of k of A that were added: the first k, the count, and the instruction.
    runs: Vec<(u32, u32, u32)>,
    touched: u32,
}

/// Pairs of k that contradict each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Apart {
    pub a: Axis,
    pub b: Axis,
    /// The k of A and of B that were paired before, and those that are paired now.
    pub before: (u32, u32),
    pub now: (u32, u32),
}

/// A run of k that was added more often than the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Again {
    pub a: Axis,
    pub first: u32,
    pub last: u32,
    pub pc: u32,
    pub more: More,
}

/// How often a run of k was added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum More {
    /// The count of this run, and the count of the rest.
    Than(u32, u32),
    /// In place of other k: the number of products added equals the extent of k.
    InPlace(u32),
}

/// What the C operand of an instruction holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Before {
    /// Zero: a sum begins.
    Zero,
    /// The sum so far of the same lines.
    Chain(u32),
    /// Anything else.
    Other,
}

/// The chains of a warp.
#[derive(Debug, Default)]
pub(super) struct Chains {
    open: BTreeMap<u32, Chain>,
    last: u32,
    clock: u32,
    /// Whether a difference was taken for a complex product, which depends on the positions of the tiles.
    pub excused: bool,
}

impl Chains {
    /// An instruction adds to an accumulator. Returns the chain that the result belongs to (0: none), and the
    /// contradiction, if there is one.
    pub(super) fn add(
        &mut self,
        before: Before,
        (a, b): (&Judged, &Judged),
        pc: u32,
        extent: impl Fn(Axis) -> Option<u32>,
        mut again: impl FnMut(Again),
    ) -> (u32, Option<Apart>) {
        self.clock = self.clock.wrapping_add(1);
        let known = match before {
            Before::Chain(0) | Before::Other => return (0, None),
            Before::Chain(chain) => Some(chain),
            Before::Zero => None,
        };
        let (Some(along_a), Some(along_b)) = (&a.along, &b.along) else {
            self.give_up(known);
            return (0, None);
        };
        let (axis_a, axis_b) = ((along_a.0, along_a.1), (along_b.0, along_b.1));
        let Some((pair, odd)) = pairs(&along_a.2, &along_b.2, a.of_sums || b.of_sums) else {
            self.give_up(known);
            return (0, None);
        };
        let apart = |before, now| Some(Apart { a: axis_a, b: axis_b, before, now });
        if let Some(odd) = odd {
            self.give_up(known);
            return (0, apart(pair, odd));
        }
        let number = if let Some(number) = known {
            number
        } else {
            self.make_room(&mut again);
            self.last = self.last.wrapping_add(1).max(1);
            let extent = extent(axis_a).filter(|count| extent(axis_b) == Some(*count));
            let (base, runs) = ((a.base, b.base), Vec::new());
            let chain = Chain { a: axis_a, b: axis_b, base, extent, pair, runs, touched: 0 };
            self.open.insert(self.last, chain);
            self.last
        };
        let Some(chain) = self.open.get_mut(&number) else { return (0, None) };
        if (chain.a, chain.b, chain.base) != (axis_a, axis_b, (a.base, b.base)) || chain.runs.len() >= RUNS {
            self.open.remove(&number);
            return (0, None);
        }
        if offset(chain.pair) != offset(pair) {
            let (before, of) = (chain.pair, chain.extent);
            self.open.remove(&number);
            if is_complex(offset(before), offset(pair), of) {
                self.excused = true;
                return (0, None);
            }
            return (0, apart(before, pair));
        }
        chain.touched = self.clock;
        add_runs(&mut chain.runs, &along_a.2, pc);
        (number, None)
    }

    fn give_up(&mut self, chain: Option<u32>) {
        if let Some(chain) = chain {
            self.open.remove(&chain);
        }
    }

    /// Drops the least recently extended chains.
    fn make_room(&mut self, again: &mut impl FnMut(Again)) {
        if self.open.len() < CHAINS {
            return;
        }
        let clock = self.clock;
        let mut ages: Vec<u32> = self.open.values().map(|chain| clock.wrapping_sub(chain.touched)).collect();
        ages.sort_unstable();
        let limit = ages.get(CHAINS / 2).copied().unwrap_or(0);
        self.open.retain(|_, chain| {
            let keep = clock.wrapping_sub(chain.touched) < limit;
            if !keep {
                chain.repeated().into_iter().for_each(&mut *again);
            }
            keep
        });
    }

    /// Returns the errors of the chains as a whole.
    pub(super) fn finish(&self) -> impl Iterator<Item = Again> {
        self.open.values().filter_map(Chain::repeated)
    }
}

/// A sum to which a product of another row is added, if rows are only exchanged: the sums and the products are of the
/// same set of rows and columns, and all are known. `added` contains the pairs whose row or column differs.
pub(super) fn rows_exchanged(added: &[(Tag, Tag)]) -> Option<(Tag, Tag)> {
    let known = added
        .iter()
        .all(|(before, now)| is_sum(*before) && is_sum(*now) && lines_of(*before).1 == lines_of(*now).1);
    let all = |part: fn(&(Tag, Tag)) -> Tag| added.iter().map(part).collect::<BTreeSet<Tag>>();
    let exchanged = known && all(|(before, _)| *before) == all(|(_, now)| *now);
    added.first().copied().filter(|_| exchanged)
}

/// The difference between k of B and k of A.
fn offset((a, b): (u32, u32)) -> i64 {
    i64::from(b) - i64::from(a)
}

/// Whether k is exchanged as in the imaginary part of a complex product, `re·im + im·re`: with the neighbor where parts are
/// interleaved, with the other half of k where they stand side by side.
fn is_complex(before: i64, now: i64, extent: Option<u32>) -> bool {
    let halves = extent.is_some_and(|extent| before.abs() * 2 == i64::from(extent));
    before == -now && (before.abs() == 1 || halves)
}

/// A k of A and the k of B that it is paired with.
type Pair = (u32, u32);

/// Returns the pair with the lowest k of A among those with the common difference, and the first pair with another
/// difference. All pairs must have the common difference, or, for scores (`half`), half of them. `None` if there is no
/// such difference.
fn pairs(a: &[u32], b: &[u32], half: bool) -> Option<(Pair, Option<Pair>)> {
    if a.len() != b.len() {
        return None;
    }
    let all: Vec<(u32, u32)> = a.iter().copied().zip(b.iter().copied()).collect();
    let first = *all.first()?;
    if all.iter().all(|pair| offset(*pair) == offset(first)) {
        return Some((all.into_iter().min()?, None));
    }
    let mut counts: BTreeMap<i64, usize> = BTreeMap::new();
    for pair in &all {
        *counts.entry(offset(*pair)).or_default() += 1;
    }
    let most = counts.values().copied().max()?;
    if !half || 2 * most < all.len() {
        return None;
    }
    let (common, _) =
        counts.into_iter().filter(|(_, count)| *count == most).min_by_key(|(by, _)| by.abs())?;
    let like = all.iter().copied().filter(|pair| offset(*pair) == common).min()?;
    let unlike = all.into_iter().find(|pair| offset(*pair) != common)?;
    Some((like, Some(unlike)))
}

/// Adds values as runs of consecutive k.
fn add_runs(runs: &mut Vec<(u32, u32, u32)>, values: &[u32], pc: u32) {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let mut open: Option<(u32, u32)> = None;
    for value in sorted {
        match &mut open {
            Some((first, count)) if first.checked_add(*count) == Some(value) => *count += 1,
            _ => {
                runs.extend(open.map(|(first, count)| (first, count, pc)));
                open = Some((value, 1));
            }
        }
    }
    runs.extend(open.map(|(first, count)| (first, count, pc)));
}

impl Chain {
    /// The first run of k that was added more often than the rest.
    fn repeated(&self) -> Option<Again> {
        // The k at which the number of overlapping runs changes, and by how much.
        let mut steps: BTreeMap<u32, i64> = BTreeMap::new();
        for (first, count, _) in &self.runs {
            *steps.entry(*first).or_default() += 1;
            *steps.entry(first.saturating_add(*count)).or_default() -= 1;
        }
        let mut pieces: Vec<(u32, u32, i64)> = Vec::new();
        let (mut times, mut from) = (0, 0);
        for (at, step) in steps.into_iter().filter(|(_, step)| *step != 0) {
            if times > 0 {
                pieces.push((from, at, times));
            }
            from = at;
            times += step;
        }
        let narrow = |n: i64| u32::try_from(n).unwrap_or(0);
        let length = |(from, to, _): &(u32, u32, i64)| i64::from(to - from);
        let least = pieces.iter().map(|(_, _, times)| *times).min()?;
        let distinct: i64 = pieces.iter().map(length).sum();
        let products: i64 = pieces.iter().map(|piece| length(piece) * piece.2).sum();
        let often: Vec<_> = pieces.iter().filter(|(_, _, times)| *times != least).collect();
        let twice = often.iter().all(|(_, _, times)| *times == 2 * least);
        let more: i64 = often.iter().map(|piece| length(piece)).sum();
        let in_place =
            distinct < products && self.extent.map(i64::from) == Some(products) && self.alternates();
        let (first, to, more) = match often.first() {
            Some((first, to, times)) if twice && 2 * more < distinct => {
                (*first, *to, More::Than(narrow(*times), narrow(least)))
            }
            _ if in_place => {
                let (first, to, _) = pieces.iter().find(|(_, _, times)| *times > 1)?;
                (*first, *to, More::InPlace(narrow(products)))
            }
            _ => return None,
        };
        let covers =
            |(start, count, _): &&(u32, u32, u32)| (*start..start.saturating_add(*count)).contains(&first);
        let (_, _, pc) = self.runs.iter().rev().find(covers)?;
        Some(Again { a: self.a, first, last: to - 1, pc: *pc, more })
    }

    /// Whether no run is added twice in succession, which happens if elements are split into parts.
    fn alternates(&self) -> bool {
        self.runs.windows(2).all(|pair| pair[0].0 != pair[1].0)
    }
}

#[cfg(test)]
mod tests {
    use super::super::origin::sum as sum_of;
    use super::*;

    fn tile(buffer: usize, ks: &[u32], of_sums: bool) -> Judged {
        Judged { along: Some((buffer, 2, ks.to_vec())), of_sums, ..Judged::default() }
    }

    fn run(first: u32) -> Vec<u32> {
        (first..first + 16).collect()
    }

    /// Adds tiles of A and B that begin at these k to one accumulator; returns how many pairs contradict, and the
    /// repeated runs.
    fn sum(tiles: &[(u32, u32)]) -> (usize, Vec<(u32, u32)>) {
        let (mut chains, mut before, mut apart) = (Chains::default(), Before::Zero, 0);
        for (a, b) in tiles {
            let (a, b) = (tile(0, &run(*a), false), tile(1, &run(*b), false));
            let (chain, found) = chains.add(before, (&a, &b), 7, |_| Some(96), |_| {});
            apart += usize::from(found.is_some());
            before = Before::Chain(chain);
        }
        (apart, chains.finish().map(|again| (again.first, again.last)).collect())
    }

    #[test]
    fn one_difference_throughout_is_right() {
        assert_eq!(sum(&[(0, 0), (16, 16), (32, 32)]), (0, vec![]));
        assert_eq!(sum(&[(64, 0), (80, 16)]), (0, vec![]), "a part of a");
        assert_eq!(sum(&[(32, 32), (0, 0), (16, 16)]), (0, vec![]), "in another order");
    }

    #[test]
    fn another_tile_of_b_is_not() {
        assert_eq!(sum(&[(0, 0), (16, 32), (32, 32)]).0, 1);
        assert_eq!(sum(&[(0, 16), (16, 32), (32, 0)]).0, 1);
    }

    #[test]
    fn a_tile_that_is_added_twice() {
        assert_eq!(sum(&[(0, 0), (16, 16), (32, 32), (0, 0)]), (0, vec![(0, 15)]));
        assert_eq!(sum(&[(0, 0), (16, 16), (0, 0), (16, 16)]), (0, vec![]), "all of them twice");
        let parts = [(0, 0), (0, 0), (0, 0), (16, 16), (16, 16), (16, 16)];
        assert_eq!(sum(&parts), (0, vec![]), "in three parts, of a third of k");
        let round = [(0, 0), (16, 16), (32, 32), (0, 0), (16, 16), (32, 32)];
        assert_eq!(sum(&round), (0, vec![(0, 47)]), "as many products as k, but only half of the k");
        assert_eq!(sum(&[(0, 0), (16, 16), (32, 32), (48, 48), (0, 0), (16, 16), (0, 0)]).1, vec![]);
    }

    #[test]
    fn rows_that_are_exchanged() {
        let (a, b, c) = (sum_of(1, 9), sum_of(2, 9), sum_of(3, 9));
        assert_eq!(rows_exchanged(&[(a, b), (b, a)]), Some((a, b)));
        assert_eq!(rows_exchanged(&[(a, b), (b, c)]), None, "a convolution continues with the next row");
        assert_eq!(rows_exchanged(&[(a, b), (b, a), (0, c)]), None);
        assert_eq!(rows_exchanged(&[]), None);
    }

    #[test]
    fn within_an_instruction() {
        let compact = run(0);
        let apart: Vec<u32> = (0..8).chain(16..24).collect();
        let found = |of_sums: bool| {
            let (a, b) = (tile(0, &apart, of_sums), tile(1, &compact, false));
            Chains::default().add(Before::Zero, (&a, &b), 7, |_| None, |_| {}).1
        };
        assert_eq!(found(true).map(|apart| (apart.before, apart.now)), Some(((0, 0), (16, 8))));
        assert_eq!(found(false), None, "weights may be stored in any order");
        let strided: Vec<u32> = (0..16).map(|k| 2 * k).collect();
        let (a, b) = (tile(0, &strided, true), tile(1, &compact, false));
        assert_eq!(Chains::default().add(Before::Zero, (&a, &b), 7, |_| None, |_| {}), (0, None));
    }
}
