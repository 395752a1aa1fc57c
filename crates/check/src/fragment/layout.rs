//! Checks whether the elements of a fragment form a matrix tile.
//!
//! A fragment is viewed as a table: one line for each row of A (or column of B), one column for each k. It is in order
//! if every index of its elements (which matrix, row, column of the buffer they came from) depends on the line alone or on
//! k alone. That holds for any tile, transposed or not, strided, gathered, or with k permuted; it fails when registers,
//! quarters or chunks are exchanged, and when a tile of several 8 × 8 quarters is transposed quarter by quarter.
//!
//! A table that is not in order is reported only if nothing else explains it: all of its elements are known, distinct
//! and of one matrix, and either they are exactly the elements of one rectangle of the fragment's size, or one index is
//! in order and the other is not a sum of a part that depends on the line and a part that depends on k.
//!
//! A fragment of accumulators (P of attention) is in order in the same sense: the line of A in the first product that
//! each one stands for depends on the line alone, and the line of B on k alone. Elements that a mask has replaced are
//! ignored, if at least half remain. It is wrong if it is not in order, no accumulator occurs twice, and they come from
//! no more lines of A and of B than the fragment has lines and k.

use super::origin::{Cell, LOST, Lines, Sources, Tag, is_element, is_sum, lines_of};
use super::pitch::Window;
use std::collections::BTreeSet;

/// The result of checking the tags of a fragment.
#[derive(Clone, Debug, Default)]
pub(super) struct Judged {
    /// The line (of [`Lines`]) of each line of the table; 0 where it is not known.
    pub lines: Vec<u32>,
    /// The index that varies with k: the buffer, which index, and its values. `None` if there is no such index.
    pub along: Option<(usize, usize, Vec<u32>)>,
    /// Whether none of its elements comes from memory.
    pub constant: bool,
    /// What is wrong.
    pub wrong: Option<Wrong>,
    /// Whether it is made of accumulators.
    pub of_sums: bool,
    /// For accumulators: the position that the lines along k have in common, with 0 for the index that varies.
    pub base: Cell,
    /// A table that is not in order, but may be a tile of a matrix of another width.
    pub window: Option<Window>,
    /// Two places of a fragment of accumulators that contradict each other.
    pub mixed: Option<Mixed>,
}

/// Two accumulators in one row (or one column) of a fragment that belong to different rows (or columns).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mixed {
    /// Line and k of the first one, and its tag: the two lines whose product it is.
    pub first: (usize, usize, Tag),
    pub second: (usize, usize, Tag),
    /// Whether both are in one line of the fragment, rather than at one k.
    pub in_line: bool,
}

/// A table that is not in order.
#[derive(Clone, Debug)]
pub(super) struct Wrong {
    pub buffer: usize,
    /// The misplaced elements: line, k, the element found, the element expected.
    pub places: Vec<(usize, usize, Cell, Cell)>,
}

/// A table of `lines` × `ks` tags.
pub(super) struct Table<'t> {
    pub tags: &'t [Tag],
    pub lines: usize,
    pub ks: usize,
}

impl Table<'_> {
    fn get(&self, line: usize, k: usize) -> Tag {
        self.tags.get(line * self.ks + k).copied().unwrap_or(LOST)
    }

    fn cells(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        (0..self.lines).flat_map(|line| (0..self.ks).map(move |k| (line, k)))
    }

    /// Whether each tag is the sum of a part that depends on its line and a part that depends on its column.
    fn additive(&self) -> bool {
        let base = self.get(0, 0);
        let (first, rest) = self.tags.split_at(self.ks.min(self.tags.len()));
        rest.chunks_exact(self.ks).all(|line| {
            let step = line[0].wrapping_sub(base);
            line.iter().zip(first).all(|(tag, above)| *tag == above.wrapping_add(step))
        })
    }

    /// Whether each tag is at a fixed stride from its neighbors: the tile of a matrix of whatever width.
    fn strided(&self) -> bool {
        let down = self.get(1, 0).wrapping_sub(self.get(0, 0));
        let across = self.get(0, 1).wrapping_sub(self.get(0, 0));
        let times = |step: u32, n: usize| step.wrapping_mul(u32::try_from(n).unwrap_or(0));
        self.cells().all(|(line, k)| {
            let tag = self.get(0, 0).wrapping_add(times(down, line)).wrapping_add(times(across, k));
            self.get(line, k) == tag
        })
    }

    /// Checks the table. `packed` returns whether its elements were stored in the order in which lanes hold them.
    pub(super) fn judge(&self, sources: &Sources, lines: &mut Lines, packed: impl Fn() -> bool) -> Judged {
        let nothing = Judged { constant: false, ..Judged::default() };
        if self.tags.len() != self.lines * self.ks || self.lines == 0 || self.ks == 0 {
            return nothing;
        }
        let (mut any, mut elements, mut sums) = (0, true, true);
        for tag in self.tags {
            any |= *tag;
            elements &= is_element(*tag);
            sums &= !is_element(*tag);
        }
        if any <= LOST {
            return Judged { constant: any == 0, ..nothing };
        }
        if sums {
            return self.judge_sums(sources, lines);
        }
        if elements
            && self.additive()
            && let Some(judged) = self.judge_edges(sources, lines)
        {
            return judged;
        }
        self.judge_cells(sources, lines, elements, packed)
    }

    /// An additive table whose first line and column have no index in common is in order.
    fn judge_edges(&self, sources: &Sources, lines: &mut Lines) -> Option<Judged> {
        let (buffer, corner) = sources.place(self.get(0, 0))?;
        let places = |count: usize, tag: &dyn Fn(usize) -> Tag| -> Option<(u8, Vec<Cell>)> {
            let mut varies = 0;
            let mut places = Vec::with_capacity(count);
            for i in 0..count {
                let (found, place) = sources.place(tag(i))?;
                if found != buffer {
                    return None;
                }
                varies |= difference(place, corner);
                places.push(place);
            }
            Some((varies, places))
        };
        let (by_k, ks) = places(self.ks, &|k| self.get(0, k))?;
        let (by_line, starts) = places(self.lines, &|line| self.get(line, 0))?;
        if by_k & by_line != 0 {
            return None;
        }
        Some(Judged {
            lines: starts.iter().map(|place| lines.line(sources, buffer, *place, by_k)).collect(),
            along: running(buffer, by_k, &ks),
            ..Judged::default()
        })
    }

    fn judge_cells(
        &self,
        sources: &Sources,
        lines: &mut Lines,
        complete: bool,
        packed: impl Fn() -> bool,
    ) -> Judged {
        let mut judged = Judged { constant: false, ..Judged::default() };
        let cells: Vec<Option<(usize, Cell)>> = self.tags.iter().map(|tag| sources.place(*tag)).collect();
        let Some(buffer) = cells.iter().flatten().next().map(|(buffer, _)| *buffer) else { return judged };
        if cells.iter().flatten().any(|(other, _)| *other != buffer) {
            return judged;
        }
        let place =
            |line: usize, k: usize| cells.get(line * self.ks + k).copied().flatten().map(|(_, place)| place);
        // The indices that change within a line, and within a column.
        let (mut by_k, mut by_line) = (0, 0);
        let mut starts: Vec<Option<Cell>> = vec![None; self.lines];
        let mut heads: Vec<Option<Cell>> = vec![None; self.ks];
        for (line, k) in self.cells() {
            let Some(here) = place(line, k) else { continue };
            by_k |= difference(here, *starts[line].get_or_insert(here));
            by_line |= difference(here, *heads[k].get_or_insert(here));
        }
        let both = by_k & by_line;
        if both == 0 {
            // If elements are missing, an index may seem constant although it is not.
            if complete || by_k != 0 {
                judged.lines = starts
                    .iter()
                    .map(|start| start.map_or(0, |place| lines.line(sources, buffer, place, by_k)))
                    .collect();
            }
            let heads: Vec<Cell> = heads.into_iter().flatten().collect();
            if heads.len() == self.ks {
                judged.along = running(buffer, by_k, &heads);
            }
            return judged;
        }
        if complete && self.additive() && self.distinct() {
            judged.window = Some(Window { buffer, ks: self.ks, tags: self.tags.into() });
        }
        if complete && both & 1 == 0 && by_k & 1 == 0 && by_line & 1 == 0 && !self.strided() && !packed() {
            let all: Vec<Cell> = cells.iter().flatten().map(|(_, place)| *place).collect();
            judged.wrong = self.explain(buffer, both, by_k, &all);
        }
        judged
    }

    /// Whether no element occurs twice.
    fn distinct(&self) -> bool {
        self.tags.iter().collect::<BTreeSet<_>>().len() == self.tags.len()
    }

    /// The misplaced elements of a complete table of one matrix that is not in order, if the error is certain.
    fn explain(&self, buffer: usize, both: u8, by_k: u8, all: &[Cell]) -> Option<Wrong> {
        if !self.distinct() {
            return None;
        }
        let values = |index: usize| -> Vec<u32> {
            all.iter().map(|place| place[index]).collect::<BTreeSet<_>>().into_iter().collect()
        };
        let (rows, columns) = (values(1), values(2));
        let matrix = all.first()?[0];
        let mut wanted: Vec<Vec<Cell>> = Vec::new();
        let build = |f: &dyn Fn(usize, usize) -> (u32, u32)| -> Vec<Cell> {
            self.cells().map(|(line, k)| f(line, k)).map(|(row, column)| [matrix, row, column]).collect()
        };
        if rows.len() == self.lines && columns.len() == self.ks {
            wanted.push(build(&|line, k| (rows[line], columns[k])));
        }
        if rows.len() == self.ks && columns.len() == self.lines {
            wanted.push(build(&|line, k| (rows[k], columns[line])));
        }
        if wanted.is_empty() {
            // One index is in order, the other is not.
            let (good, bad) = match both {
                0b100 => (1, 2),
                0b010 => (2, 1),
                _ => return None,
            };
            if self.additive() {
                return None;
            }
            let with_k = by_k >> good & 1 != 0;
            let count = if with_k { self.ks } else { self.lines };
            if values(good).len() != count {
                return None;
            }
            wanted.push(
                self.cells()
                    .map(|(line, k)| {
                        let mut place = all[line * self.ks + k];
                        place[bad] = if with_k { all[line * self.ks][bad] } else { all[k][bad] };
                        place
                    })
                    .collect(),
            );
        }
        let misplaced = |wanted: &Vec<Cell>| all.iter().zip(wanted).filter(|(a, b)| a != b).count();
        let wanted = wanted.into_iter().min_by_key(misplaced)?;
        let places: Vec<_> = self
            .cells()
            .zip(all.iter().zip(&wanted))
            .filter(|(_, (is, belongs))| is != belongs)
            .map(|((line, k), (is, belongs))| (line, k, *is, *belongs))
            .collect();
        (!places.is_empty()).then_some(Wrong { buffer, places })
    }

    /// A fragment made of accumulators, of which some may be masked.
    fn judge_sums(&self, sources: &Sources, lines: &Lines) -> Judged {
        let mut judged = Judged { of_sums: true, ..Judged::default() };
        let known: Vec<(usize, usize, Tag)> = self
            .cells()
            .map(|(line, k)| (line, k, self.get(line, k)))
            .filter(|(_, _, tag)| is_sum(*tag))
            .collect();
        if 2 * known.len() < self.tags.len() {
            return judged;
        }
        let straight = self.clash(&known, lines_of);
        let across = straight.and_then(|_| {
            self.clash(&known, |tag| {
                let (a, b) = lines_of(tag);
                (b, a)
            })
        });
        if let (Some(mixed), Some(_)) = (straight, across) {
            let distinct = |part: &dyn Fn(Tag) -> u32| {
                known.iter().map(|(_, _, tag)| part(*tag)).collect::<BTreeSet<_>>().len()
            };
            let whole = distinct(&|tag| tag) == known.len()
                && distinct(&|tag| lines_of(tag).0) <= self.lines
                && distinct(&|tag| lines_of(tag).1) <= self.ks;
            judged.mixed = whole.then_some(mixed);
            return judged;
        }
        let turned = straight.is_some();
        let (mut own, mut other) = (vec![0; self.lines], vec![0; self.ks]);
        for (line, k, tag) in known {
            let (a, b) = lines_of(tag);
            (own[line], other[k]) = if turned { (b, a) } else { (a, b) };
        }
        judged.lines = own;
        let heads: Vec<(usize, Cell)> = other
            .into_iter()
            .filter_map(|line| lines.start(line).and_then(|tag| sources.place(tag)))
            .collect();
        if let Some((buffer, first)) = heads.first().copied()
            && heads.len() == self.ks
            && heads.iter().all(|(other, _)| *other == buffer)
        {
            let varies = heads.iter().fold(0, |bits, (_, place)| bits | difference(*place, first));
            let places: Vec<Cell> = heads.iter().map(|(_, place)| *place).collect();
            judged.along = running(buffer, varies, &places);
            judged.base = std::array::from_fn(|i| if varies >> i & 1 != 0 { 0 } else { first[i] });
        }
        judged
    }

    /// Two accumulators in one line whose lines of A differ, or at one k whose lines of B differ.
    fn clash(&self, known: &[(usize, usize, Tag)], parts: impl Fn(Tag) -> (u32, u32)) -> Option<Mixed> {
        let mut by_line: Vec<Option<(usize, usize, Tag)>> = vec![None; self.lines];
        let mut by_k: Vec<Option<(usize, usize, Tag)>> = vec![None; self.ks];
        known.iter().find_map(|&second| {
            let (line, k, tag) = second;
            let first = *by_line.get_mut(line)?.get_or_insert(second);
            if parts(first.2).0 != parts(tag).0 {
                return Some(Mixed { first, second, in_line: true });
            }
            let first = *by_k.get_mut(k)?.get_or_insert(second);
            (parts(first.2).1 != parts(tag).1).then_some(Mixed { first, second, in_line: false })
        })
    }
}

/// Which indices of two positions differ, one bit each.
fn difference(a: Cell, b: Cell) -> u8 {
    u8::from(a[0] != b[0]) | u8::from(a[1] != b[1]) << 1 | u8::from(a[2] != b[2]) << 2
}

/// The single index that varies, if there is exactly one.
fn running(buffer: usize, varies: u8, places: &[Cell]) -> Option<(usize, usize, Vec<u32>)> {
    let index = match varies {
        0b001 => 0,
        0b010 => 1,
        0b100 => 2,
        _ => return None,
    };
    Some((buffer, index, places.iter().map(|place| place[index]).collect()))
}

/// Whether two orders of k contradict each other: both are permutations of consecutive indices, and they are neither
/// equal nor reversed. Returns the first k at which they differ.
pub(super) fn contradict(a: &[u32], b: &[u32]) -> Option<usize> {
    let start = |values: &[u32]| -> Option<u32> {
        let set: BTreeSet<u32> = values.iter().copied().collect();
        let (first, last) = (*set.first()?, *set.last()?);
        let run = set.len() == values.len() && usize::try_from(last - first).ok()? + 1 == values.len();
        run.then_some(first)
    };
    let (from_a, from_b) = (start(a)?, start(b)?);
    let last = u32::try_from(a.len()).ok()?.checked_sub(1)?;
    if a.len() != b.len() {
        return None;
    }
    let reversed = a.iter().zip(b).all(|(a, b)| a - from_a == last - (b - from_b));
    if reversed {
        return None;
    }
    a.iter().zip(b).position(|(a, b)| a - from_a != b - from_b)
}

#[cfg(test)]
mod tests {
    use super::super::super::settings::{BufferRole, Role};
    use super::*;

    /// A matrix of 64 × 128 elements, and a line of 4096.
    fn sources() -> Sources {
        let buffer = |name: &str, extents: &[u64]| BufferRole {
            name: name.to_owned(),
            address: 0x1000,
            element: 2,
            extents: extents.to_vec(),
            role: Role::In,
            initialized: true,
        };
        Sources::of(&[buffer("a", &[64, 128]), buffer("x", &[4096])])
    }

    fn judge(lines: usize, ks: usize, place: impl Fn(u32, u32) -> (u32, u32)) -> Judged {
        let sources = sources();
        let count = |n: usize| 0..u32::try_from(n).unwrap();
        let tags: Vec<Tag> = count(lines)
            .flat_map(|line| count(ks).map(move |k| (line, k)))
            .map(|(line, k)| place(line, k))
            .map(|(row, column)| sources.at(0, [0, row, column]).unwrap())
            .collect();
        Table { tags: &tags, lines, ks }.judge(&sources, &mut Lines::default(), || false)
    }

    fn right(place: impl Fn(u32, u32) -> (u32, u32)) -> bool {
        let judged = judge(16, 16, place);
        judged.wrong.is_none() && judged.lines.iter().all(|line| *line != 0) && judged.lines.len() == 16
    }

    #[test]
    fn tiles_are_in_order() {
        assert!(right(|i, k| (8 + i, 32 + k)));
        assert!(right(|i, k| (8 + k, 32 + i)), "transposed");
        assert!(right(|i, k| (3 * i, 2 * k)), "strided");
        assert!(right(|i, k| (15 - i, k)), "mirrored");
        assert!(right(|i, k| (i, k % 8 * 2 + k / 8)), "k permuted");
        assert!(right(|i, k| (i * 7 % 16, k)), "rows gathered");
        assert!(right(|_, k| (5, k)), "one row for all");
    }

    #[test]
    fn exchanged_pieces_are_not() {
        let wrong = |place: fn(u32, u32) -> (u32, u32)| judge(16, 16, place).wrong.map(|w| w.places.len());
        // Registers 1 and 2 of A.
        assert_eq!(wrong(|i, k| (i % 8 + k / 8 * 8, k % 8 + i / 8 * 8)), Some(128));
        // Each quarter transposed.
        assert_eq!(wrong(|i, k| (i / 8 * 8 + k % 8, k / 8 * 8 + i % 8)), Some(128));
        // A swizzle that is not undone.
        assert_eq!(wrong(|i, k| (i, ((k / 8) ^ (i % 8)) * 8 + k % 8)), Some(224));
        // Two elements of one row.
        assert_eq!(wrong(|i, k| (i, if i == 3 && k < 2 { 1 - k } else { k })), Some(2));
    }

    #[test]
    fn what_may_be_meant_is_let_be() {
        let silent = |place: fn(u32, u32) -> (u32, u32)| judge(16, 16, place).wrong.is_none();
        assert!(silent(|i, k| (0, i + k)), "a Toeplitz matrix repeats elements");
        assert!(silent(|i, k| (i, i + k)), "a band of a matrix");
        assert!(silent(|i, k| (i / 4, i % 4 * 16 + k)), "a matrix of another width");
        assert!(silent(|i, k| ((i * 5 + k * 3) % 4, (i + k) % 8)), "a table of values");
    }

    #[test]
    fn elements_that_are_not_known_excuse_a_table() {
        let sources = sources();
        let tag = |i: u32, k: u32| sources.at(0, [0, i % 8 + k / 8 * 8, k % 8 + i / 8 * 8]).unwrap();
        let mut tags: Vec<Tag> =
            (0..16).flat_map(|i| (0..16).map(move |k| (i, k))).map(|(i, k)| tag(i, k)).collect();
        let look = |tags: &[Tag]| {
            Table { tags, lines: 16, ks: 16 }.judge(&sources, &mut Lines::default(), || false).wrong.is_some()
        };
        assert!(look(&tags));
        tags[37] = 0;
        assert!(!look(&tags));
        tags[37] = LOST;
        assert!(!look(&tags));
        assert!(
            Table { tags: &[0; 256], lines: 16, ks: 16 }
                .judge(&sources, &mut Lines::default(), || false)
                .constant
        );
    }

    #[test]
    fn orders_of_k_agree_or_contradict() {
        let order = [0, 2, 4, 6, 1, 3, 5, 7];
        let natural = [8, 9, 10, 11, 12, 13, 14, 15];
        assert_eq!(contradict(&order, &order.map(|k| k + 64)), None);
        assert_eq!(contradict(&order, &natural), Some(1));
        assert_eq!(contradict(&natural, &[7, 6, 5, 4, 3, 2, 1, 0]), None, "reversed, as convolutions do");
        assert_eq!(contradict(&natural, &[0, 4, 8, 12, 16, 20, 24, 28]), None, "a stride");
    }
}
