//! Findings about fragments and accumulators, in words.

use super::super::context::Context;
use super::super::finding::{Class, Severity};
use super::super::ledger::{Ledger, Raw, Spot};
use super::layout::Wrong;
use super::origin::{Lines, Place, Sources, lines_of};
use super::plan::Shape;
use super::{Operand, Stored, place, registers_of};
use crate::machine::{LANES, at};
use crate::observe::Issue;
use std::collections::{BTreeMap, BTreeSet};

/// Rows and columns of the tile of accumulators that is looked at.
const TILE: (usize, usize) = (16, 8);
const CONVENTION: &str = "rows and columns are those of the extents that the launch gives for the buffer";

/// The matrix instruction that found something.
pub(super) struct Seen<'s, 'i> {
    pub context: &'s Context,
    pub sources: &'s Sources,
    pub block: u32,
    pub issue: &'s Issue<'i>,
    pub shape: Shape,
}

impl Seen<'_, '_> {
    /// Elements of an operand that stand where others belong.
    pub(super) fn misplaced(
        &self,
        ledger: &mut Ledger,
        operand: Operand,
        wrong: &Wrong,
        origin: Option<u32>,
    ) {
        let variant = u32::from(operand == Operand::B);
        let pc = self.issue.pc;
        ledger.add((Class::Provenance, pc, pc, variant), Severity::Error, || {
            self.describe(operand, wrong, origin)
        });
    }

    fn describe(&self, operand: Operand, wrong: &Wrong, origin: Option<u32>) -> Raw {
        let name = if operand == Operand::A { "A" } else { "B" };
        let say = |place: Place| self.sources.name(wrong.buffer, place);
        let index = |line: usize, k: usize| {
            let (row, column) = if operand == Operand::A { (line, k) } else { (k, line) };
            format!("({row},{column})")
        };
        let lane = |line: usize, k: usize| self.lane(operand, line, k);
        let mut spots = Vec::new();
        let mut sentence = String::new();
        if let Some(&(line, k, is, belongs)) = wrong.places.first() {
            let thread = self.issue.warp * 32 + lane(line, k);
            sentence = format!(
                "{} holds {} as element {} of {name}, where the tile has {}",
                self.context.thread(self.block, thread),
                say(is),
                index(line, k),
                say(belongs)
            );
            spots.push(Spot {
                label: format!("{name} is not a tile of {}", self.sources.buffer(wrong.buffer)),
                pc: self.issue.pc,
                thread: Some((self.block, thread)),
            });
        }
        let mut notes: Vec<String> = wrong
            .places
            .iter()
            .skip(1)
            .take(3)
            .map(|&(line, k, is, belongs)| {
                format!("lane {}: {} where {} belongs", lane(line, k), say(is), say(belongs))
            })
            .collect();
        let (rows, columns) =
            if operand == Operand::A { (self.shape.m, self.shape.k) } else { (self.shape.k, self.shape.n) };
        notes.push(format!(
            "{} of {} elements of {name} are misplaced, marked x by row and column of {name}:",
            wrong.places.len(),
            rows * columns
        ));
        let marked: BTreeSet<(usize, usize)> = wrong
            .places
            .iter()
            .map(|&(line, k, _, _)| if operand == Operand::A { (line, k) } else { (k, line) })
            .collect();
        notes.extend(picture(rows, columns, &marked));
        notes.extend(origin.and_then(|pc| loaded(self.context, pc)));
        notes.push(CONVENTION.to_owned());
        Raw {
            class: Class::Provenance,
            severity: Severity::Error,
            sentence,
            spots,
            notes,
            help: Some(
                "compare the order of the fragment's registers, the row addresses and `.trans` of its ldmatrix, and \
                 the swizzle of what stores the tile in shared memory with that of what loads it"
                    .to_owned(),
            ),
            count: 1,
        }
    }

    fn lane(&self, operand: Operand, line: usize, k: usize) -> u32 {
        let holds = |lane: usize| {
            (0..registers_of(self.shape, operand)).any(|register| {
                let (own, first) = place(self.shape, operand, register, lane);
                own == line && (first..first + self.shape.per).contains(&k)
            })
        };
        (0..LANES).find(|lane| holds(*lane)).and_then(|lane| u32::try_from(lane).ok()).unwrap_or(0)
    }

    /// A and B that do not agree on the order of k.
    pub(super) fn other_order(
        &self,
        ledger: &mut Ledger,
        a: &(usize, usize, Vec<u32>),
        b: &(usize, usize, Vec<u32>),
        k: usize,
    ) {
        let pc = self.issue.pc;
        let index = |&(buffer, index, ref values): &(usize, usize, Vec<u32>), k: usize| {
            let what = ["matrix", "row", "column"].get(index).copied().unwrap_or("index");
            format!("{what} {} of {}", values.get(k).copied().unwrap_or(0), self.sources.buffer(buffer))
        };
        let list = |values: &[u32]| values.iter().map(u32::to_string).collect::<Vec<_>>().join(" ");
        ledger.add((Class::Provenance, pc, pc, 2), Severity::Error, || Raw {
            class: Class::Provenance,
            severity: Severity::Error,
            sentence: format!(
                "A and B take k in different orders: k = 0 pairs {} with {}, but k = {k} pairs {} with {}",
                index(a, 0),
                index(b, 0),
                index(a, k),
                index(b, k)
            ),
            spots: vec![Spot { label: "the product".to_owned(), pc, thread: None }],
            notes: vec![
                format!("order of k in A: {}", list(&a.2)),
                format!("order of k in B: {}", list(&b.2)),
                CONVENTION.to_owned(),
            ],
            help: Some("an order of k of one's own is fine if both operands use it".to_owned()),
            count: 1,
        });
    }
}

/// The rows of a matrix with some places marked; rows that look alike are drawn once.
fn picture(rows: usize, columns: usize, marked: &BTreeSet<(usize, usize)>) -> Vec<String> {
    let mut drawn: Vec<(usize, usize, String)> = Vec::new();
    for row in 0..rows {
        let line: String =
            (0..columns).map(|column| if marked.contains(&(row, column)) { 'x' } else { '.' }).collect();
        match drawn.last_mut() {
            Some((_, last, above)) if *above == line => *last = row,
            _ => drawn.push((row, row, line)),
        }
    }
    drawn
        .into_iter()
        .map(|(first, last, line)| match last - first {
            0 => format!("{first:<8}{line}"),
            _ => format!("{:<8}{line}", format!("{first}-{last}")),
        })
        .collect()
}

/// Where a fragment was loaded.
fn loaded(context: &Context, pc: u32) -> Option<String> {
    let place = context.program.place(pc)?;
    Some(match place.source.first() {
        Some(line) => format!("it was loaded at {}:{} (`{}`)", line.file, line.line, place.instruction),
        None => format!("it was loaded at PTX line {} (`{}`)", place.ptx_line, place.instruction),
    })
}

/// The accumulators of a tile that were stored: row, column, and where to.
type Tile = Vec<(usize, usize, Stored)>;

/// One side of a tile: the buffer, the matrix, which index tells its lines apart, and the number of the tile.
type Side = (usize, u32, usize, u32);

/// Accumulators that went to the wrong place of an output.
pub(super) fn stores(
    context: &Context,
    sources: &Sources,
    lines: &Lines,
    block: u32,
    mut stored: Vec<Stored>,
    ledger: &mut Ledger,
) {
    stored.sort_unstable();
    stored.dedup_by_key(|stored| (stored.tag, stored.to));
    let side = |line: u32, size: usize| -> Option<(Side, usize)> {
        let across = lines.across(line)?;
        let (buffer, place) = sources.place(lines.start(line)?)?;
        let own = at(place[across]);
        Some(((buffer, place[0], across, u32::try_from(own / size).ok()?), own % size))
    };
    let mut tiles: BTreeMap<(Side, Side, usize), Tile> = BTreeMap::new();
    for stored in stored {
        let (a, b) = lines_of(stored.tag);
        if let (Some((a, i)), Some((b, j)), Some((out, _))) =
            (side(a, TILE.0), side(b, TILE.1), sources.place(stored.to))
        {
            tiles.entry((a, b, out)).or_default().push((i, j, stored));
        }
    }
    for ((a, b, out), tile) in tiles {
        if let Some((i, j, stored, belongs)) = misplaced(sources, &tile) {
            let say = |(buffer, matrix, across, tile): Side, size: usize, line: usize| {
                let mut place = [matrix, 0, 0];
                place[across] = tile * u32::try_from(size).unwrap_or(1) + u32::try_from(line).unwrap_or(0);
                let what = if across == 1 { "row" } else { "column" };
                format!("{what} {} of {}", place[across], sources.buffer(buffer))
            };
            let (from_a, from_b) = (say(a, TILE.0, i), say(b, TILE.1, j));
            let Some((_, is)) = sources.place(stored.to) else { continue };
            ledger.add((Class::Provenance, stored.pc, stored.pc, 3), Severity::Error, || Raw {
                class: Class::Provenance,
                severity: Severity::Error,
                sentence: format!(
                    "{} stores the accumulator of {from_a} and {from_b} to {}, which belongs to {}",
                    context.thread(block, stored.thread),
                    sources.name(out, is),
                    sources.name(out, belongs)
                ),
                spots: vec![Spot {
                    label: "the store of an accumulator".to_owned(),
                    pc: stored.pc,
                    thread: Some((block, stored.thread)),
                }],
                notes: vec![
                    "the tile fills a rectangle of the output, but not in the order of its rows and columns"
                        .to_owned(),
                    CONVENTION.to_owned(),
                ],
                help: Some(
                    "lane 4g+t of a 16x8 accumulator holds columns 2t and 2t+1 of row g, then of row g+8"
                        .to_owned(),
                ),
                count: 1,
            });
        }
    }
}

/// The first accumulator of a tile that stands where another belongs, and where it belongs: if the tile is whole, fills a
/// rectangle, and its rows and columns do not run with those of the rectangle.
fn misplaced(sources: &Sources, tile: &[(usize, usize, Stored)]) -> Option<(usize, usize, Stored, Place)> {
    let (rows, columns) = TILE;
    let mut cells: Vec<Option<(Stored, Place)>> = vec![None; rows * columns];
    for (i, j, stored) in tile {
        let cell = cells.get_mut(i * columns + j)?;
        if cell.is_some() {
            return None;
        }
        *cell = Some((*stored, sources.place(stored.to)?.1));
    }
    let cells: Vec<(Stored, Place)> = cells.into_iter().collect::<Option<_>>()?;
    let values = |index: usize| -> Vec<u32> {
        cells.iter().map(|(_, place)| place[index]).collect::<BTreeSet<_>>().into_iter().collect()
    };
    let (matrices, down, across) = (values(0), values(1), values(2));
    let distinct: BTreeSet<u32> = cells.iter().map(|(stored, _)| stored.to).collect();
    let upright = (down.len(), across.len()) == (rows, columns);
    let lying = (down.len(), across.len()) == (columns, rows);
    if matrices.len() != 1 || distinct.len() != cells.len() || !(upright || lying) || raw(&cells) {
        return None;
    }
    let turn = |n: usize, i: usize, back: bool| if back { n - 1 - i } else { i };
    let wrong = [(false, false), (false, true), (true, false), (true, true)].map(|(flip_i, flip_j)| {
        let belongs = |i: usize, j: usize| {
            let (i, j) = (turn(rows, i, flip_i), turn(columns, j, flip_j));
            let (row, column) = if upright { (i, j) } else { (j, i) };
            [matrices[0], down[row], across[column]]
        };
        let misfits: Vec<_> = (0..rows * columns)
            .map(|n| (n / columns, n % columns))
            .filter(|(i, j)| cells[i * columns + j].1 != belongs(*i, *j))
            .collect();
        misfits.first().map(|(i, j)| (misfits.len(), *i, *j, belongs(*i, *j)))
    });
    if wrong.iter().any(Option::is_none) {
        return None;
    }
    let (_, i, j, belongs) = (*wrong.first()?)?;
    Some((i, j, cells[i * columns + j].0, belongs))
}

/// Whether the tile was dumped as lanes hold it.
fn raw(cells: &[(Stored, Place)]) -> bool {
    let least = cells.iter().map(|(stored, _)| stored.to).min().unwrap_or(0);
    let each = u32::try_from(cells.len() / LANES).unwrap_or(1).max(1);
    let lane = |stored: &Stored| stored.thread % 32;
    cells.iter().all(|(stored, _)| (stored.to - least) / each == lane(stored))
        || cells.iter().all(|(stored, _)| (stored.to - least) % 32 == lane(stored))
}
