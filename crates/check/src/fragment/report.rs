//! Messages of the findings about fragments and accumulators.

use super::super::context::Context;
use super::super::raw::{Raw, RawFindings, Spot};
use super::super::{Class, Severity};
use super::Operand;
use super::layout::{Judged, Mixed, Wrong};
use super::origin::{Cell, Lines, Sources, Tag, lines_of};
use super::pairing::{Again, Apart, More};
use super::pitch::{Overlap, Skip};
use super::plan::Shape;
use super::state::{Stored, place, registers_of};
use std::collections::{BTreeMap, BTreeSet};
use warpproof_sim::machine::{LANES, at};

/// Rows and columns of the accumulator tiles that are checked.
const TILE: (usize, usize) = (16, 8);
const CONVENTION: &str = "row and column indices refer to the buffer extents given for the launch";

const LEADING: &str = "pass the leading dimension as the last argument of load_matrix_sync: the distance between two rows in \
     memory, in elements, not in bytes";

/// The matrix instruction at which an error was found.
pub(super) struct Seen<'s> {
    pub context: &'s Context,
    pub sources: &'s Sources,
    pub block: u32,
    pub warp: u32,
    pub pc: u32,
    pub shape: Shape,
}

impl Seen<'_> {
    /// Reports misplaced elements of an operand.
    pub(super) fn misplaced(
        &self,
        raw_findings: &mut RawFindings,
        operand: Operand,
        wrong: &Wrong,
        origin: Option<u32>,
    ) {
        let variant = u32::from(operand == Operand::B);
        let pc = self.pc;
        raw_findings.add((Class::Provenance, pc, pc, variant), Severity::Error, || {
            self.describe(operand, wrong, origin)
        });
    }

    fn describe(&self, operand: Operand, wrong: &Wrong, origin: Option<u32>) -> Raw {
        let name = if operand == Operand::A { "A" } else { "B" };
        let element = |place: Cell| self.sources.name(wrong.buffer, place);
        let index = |line: usize, k: usize| {
            let (row, column) = if operand == Operand::A { (line, k) } else { (k, line) };
            format!("({row},{column})")
        };
        let lane = |line: usize, k: usize| self.lane(operand, line, k);
        let mut spots = Vec::new();
        let mut sentence = String::new();
        if let Some(&(line, k, is, belongs)) = wrong.places.first() {
            let thread = self.warp * 32 + lane(line, k);
            sentence = format!(
                "{} holds {} as element {} of {name}, expected {}",
                self.context.thread(self.block, thread),
                element(is),
                index(line, k),
                element(belongs)
            );
            spots.push(Spot {
                label: format!("operand {name} is not a tile of {}", self.sources.buffer(wrong.buffer)),
                pc: self.pc,
                thread: Some((self.block, thread)),
            });
        }
        let mut notes: Vec<String> = wrong
            .places
            .iter()
            .skip(1)
            .take(3)
            .map(|&(line, k, is, belongs)| {
                format!("lane {}: expected {}, found {}", lane(line, k), element(belongs), element(is))
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
                "check the order of the fragment's registers, the row addresses and `.trans` of its ldmatrix, and \
                 that the store of the tile to shared memory and its load use the same swizzle"
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

    /// Reports accumulators of several rows in one row of an operand, or of several columns in one column.
    pub(super) fn mixed(
        &self,
        raw_findings: &mut RawFindings,
        lines: &Lines,
        operand: Operand,
        mixed: &Mixed,
    ) {
        let pc = self.pc;
        let variant = 4 + u32::from(operand == Operand::B);
        raw_findings.add((Class::Provenance, pc, pc, variant), Severity::Error, || {
            let name = if operand == Operand::A { "A" } else { "B" };
            let index = |(line, k, _): (usize, usize, Tag)| {
                let (row, column) = if operand == Operand::A { (line, k) } else { (k, line) };
                format!("({row},{column})")
            };
            let (line, k, _) = mixed.second;
            let thread = self.warp * 32 + self.lane(operand, line, k);
            let shared = if mixed.in_line == (operand == Operand::A) { "row" } else { "column" };
            let label = format!("one {shared} of {name} holds accumulators of several {shared}s");
            Raw {
                class: Class::Provenance,
                severity: Severity::Error,
                sentence: format!(
                    "{} holds the accumulator of {} as element {} of {name}, but element {} in the same {shared} is the \
                     accumulator of {}",
                    self.context.thread(self.block, thread),
                    accumulator(self.sources, lines, mixed.second.2),
                    index(mixed.second),
                    index(mixed.first),
                    accumulator(self.sources, lines, mixed.first.2),
                ),
                spots: vec![Spot { label, pc, thread: Some((self.block, thread)) }],
                notes: vec![CONVENTION.to_owned()],
                help: Some(
                    "check that accumulators are packed into the operand in the order of its layout: in a 16x16 A \
                     operand of 16-bit elements, registers 0 and 1 hold the 16 rows of the first 8 columns, registers 2 \
                     and 3 those of the last 8"
                        .to_owned(),
                ),
                count: 1,
            }
        });
    }

    /// Reports products of scores that are added to the sum of another row.
    pub(super) fn exchanged(&self, raw_findings: &mut RawFindings, lines: &Lines, before: Tag, now: Tag) {
        let pc = self.pc;
        raw_findings.add((Class::Provenance, pc, pc, 11), Severity::Error, || Raw {
            class: Class::Provenance,
            severity: Severity::Error,
            sentence: format!(
                "the accumulator of {} receives a product of {}",
                accumulator(self.sources, lines, before),
                accumulator(self.sources, lines, now)
            ),
            spots: vec![Spot { label: "the product".to_owned(), pc, thread: None }],
            notes: vec![CONVENTION.to_owned()],
            help: Some("pack the rows of the scores into the operand in their original order".to_owned()),
            count: 1,
        });
    }

    /// Reports k of A and k of B that are paired in a sum but do not match.
    pub(super) fn apart(&self, raw_findings: &mut RawFindings, apart: &Apart, of_sums: bool) {
        let pc = self.pc;
        if old_tiles(raw_findings) {
            return;
        }
        raw_findings.add((Class::Provenance, pc, pc, 6), Severity::Error, || {
            let a = |k: u32| along(self.sources, apart.a, k);
            let b = |k: u32| along(self.sources, apart.b, k);
            let scores = if of_sums { "the scores of " } else { "" };
            let help = if of_sums {
                "multiply the scores of a tile of keys with the values of the same keys, in the same order"
            } else {
                "read A and B from the same pipeline stage, and refill a stage before reading it again"
            };
            Raw {
                class: Class::Provenance,
                severity: Severity::Error,
                sentence: format!(
                    "one accumulator pairs {scores}{} with {}, but {} with {}",
                    a(apart.before.0),
                    b(apart.before.1),
                    a(apart.now.0),
                    b(apart.now.1)
                ),
                spots: vec![Spot { label: "the product".to_owned(), pc, thread: None }],
                notes: vec![
                    format!(
                        "the indices of k in A and in B differ by {} for the first pair, and by {} for the second",
                        by(apart.before),
                        by(apart.now)
                    ),
                    CONVENTION.to_owned(),
                ],
                help: Some(help.to_owned()),
                count: 1,
            }
        });
    }

    /// Reports rows of an operand that overlap those of the previous k.
    pub(super) fn overlap(
        &self,
        raw_findings: &mut RawFindings,
        operand: Operand,
        overlap: &Overlap,
        other: &Judged,
    ) {
        let pc = self.pc;
        let Some((buffer, place)) = self.sources.place(overlap.tag) else { return };
        let Some((along, index, _)) = other.along else { return };
        let Some(columns) = self.sources.extent(buffer, 2) else { return };
        if self.sources.extent(along, index) != Some(columns) {
            return;
        }
        let variant = 8 + u32::from(operand == Operand::B);
        raw_findings.add((Class::Provenance, pc, pc, variant), Severity::Error, || {
            let (name, what) = if operand == Operand::A { ("A", "row") } else { ("B", "column") };
            Raw {
                class: Class::Provenance,
                severity: Severity::Error,
                sentence: format!(
                    "{} is in {what} {} of {name} in one product of an accumulator, and in {what} {} in the next",
                    self.sources.name(buffer, place),
                    overlap.before.0,
                    overlap.now.0
                ),
                spots: vec![Spot { label: format!("the {what}s of {name} overlap"), pc, thread: None }],
                notes: vec![
                    format!(
                        "{} has {columns} elements in a row, which is the extent of k",
                        self.sources.buffer(buffer)
                    ),
                    CONVENTION.to_owned(),
                ],
                help: Some(LEADING.to_owned()),
                count: 1,
            }
        });
    }

    /// Reports that A and B use different orders of k.
    pub(super) fn other_order(
        &self,
        raw_findings: &mut RawFindings,
        a: &(usize, usize, Vec<u32>),
        b: &(usize, usize, Vec<u32>),
        k: usize,
    ) {
        let pc = self.pc;
        let index = |&(buffer, index, ref values): &(usize, usize, Vec<u32>), k: usize| {
            let what = ["matrix", "row", "column"].get(index).copied().unwrap_or("index");
            format!("{what} {} of {}", values.get(k).copied().unwrap_or(0), self.sources.buffer(buffer))
        };
        let list = |values: &[u32]| values.iter().map(u32::to_string).collect::<Vec<_>>().join(" ");
        let k = k.max(1);
        raw_findings.add((Class::Provenance, pc, pc, 2), Severity::Error, || Raw {
            class: Class::Provenance,
            severity: Severity::Error,
            sentence: format!(
                "A and B use different orders of k: k = 0 pairs {} with {}, but k = {k} pairs {} with {}",
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
            help: Some(
                "use the same order of k in both operands; any permutation is fine if both use it".to_owned(),
            ),
            count: 1,
        });
    }
}

/// Reports a load that skips rows that no other load reads.
pub(super) fn skipped(sources: &Sources, block: u32, raw_findings: &mut RawFindings, skip: &Skip) {
    raw_findings.add((Class::Provenance, skip.pc, skip.pc, 10), Severity::Error, || {
        let name = |tag: Tag| {
            sources.place(tag).map_or(String::new(), |(buffer, place)| sources.name(buffer, place))
        };
        let next = match sources.place(skip.next) {
            Some(_) => name(skip.next),
            None => "something else".to_owned(),
        };
        Raw {
            class: Class::Provenance,
            severity: Severity::Error,
            sentence: format!(
                "a fragment has {next} in the row after {}, and skips {}, which no fragment loads",
                name(skip.here),
                name(skip.between)
            ),
            spots: vec![Spot {
                label: format!("rows are loaded {} bytes apart", skip.pitch),
                pc: skip.pc,
                thread: Some((block, 32 * skip.warp)),
            }],
            notes: vec![CONVENTION.to_owned()],
            help: Some(LEADING.to_owned()),
            count: 1,
        }
    });
}

fn by((a, b): (u32, u32)) -> i64 {
    i64::from(b) - i64::from(a)
}

/// A row or column of a buffer.
fn along(sources: &Sources, (buffer, index): (usize, usize), value: u32) -> String {
    let what = ["matrix", "row", "column"].get(index).copied().unwrap_or("index");
    format!("{what} {value} of {}", sources.buffer(buffer))
}

/// The two lines whose product an accumulator is.
fn accumulator(sources: &Sources, lines: &Lines, tag: Tag) -> String {
    let (a, b) = lines_of(tag);
    let line = |line: u32| {
        let (buffer, place) = lines.start(line).and_then(|start| sources.place(start))?;
        let index = lines.across(line)?;
        Some(along(sources, (buffer, index), place[index]))
    };
    match (line(a), line(b)) {
        (Some(a), Some(b)) => format!("{a} and {b}"),
        _ => "an unknown row and column".to_owned(),
    }
}

/// Whether the block has read data before it was written or copied, which explains stale tiles.
pub(super) fn old_tiles(raw_findings: &RawFindings) -> bool {
    [Class::AsyncCopy, Class::SharedRace, Class::Mbarrier].into_iter().any(|class| raw_findings.has(class))
}

/// Reports a run of k that a sum contains more often than the rest.
pub(super) fn again(sources: &Sources, raw_findings: &mut RawFindings, again: &Again) {
    if old_tiles(raw_findings) {
        return;
    }
    raw_findings.add((Class::Provenance, again.pc, again.pc, 7), Severity::Error, || {
        let what = ["matrices", "rows", "columns"].get(again.a.1).copied().unwrap_or("indices");
        let array = sources.buffer(again.a.0);
        let run = format!("{what} {} to {} of {array}", again.first, again.last);
        let often = |times: u32| match times {
            1 => "once".to_owned(),
            2 => "twice".to_owned(),
            _ => format!("{times} times"),
        };
        Raw {
            class: Class::Provenance,
            severity: Severity::Error,
            sentence: match again.more {
                More::Than(times, rest) => {
                    format!("one accumulator adds {run} {}, and its other {what} {}", often(times), often(rest))
                }
                More::InPlace(count) => {
                    format!(
                        "one accumulator adds {count} {what}, as many as {array} has, but {run} more than once and \
                         others never"
                    )
                }
            },
            spots: vec![Spot { label: "the product that adds them again".to_owned(), pc: again.pc, thread: None }],
            notes: vec![CONVENTION.to_owned()],
            help: Some(
                "copy the last tiles too, or stop before multiplying them: a pipeline stage that is not refilled \
                 still holds an older tile"
                    .to_owned(),
            ),
            count: 1,
        }
    });
}

/// Draws a matrix with some elements marked; identical consecutive rows are drawn once.
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
        Some(line) => {
            format!("the fragment was loaded at {}:{} (`{}`)", line.file, line.line, place.instruction)
        }
        None => format!("the fragment was loaded at PTX line {} (`{}`)", place.ptx_line, place.instruction),
    })
}

/// The stored accumulators of a tile: row, column, and the store.
type Tile = Vec<(usize, usize, Stored)>;

/// One side of a tile: the buffer, the matrix, which index distinguishes its lines, and the number of the tile.
type Side = (usize, u32, usize, u32);

/// Reports accumulators that were stored to the wrong element of an output.
pub(super) fn stores(
    context: &Context,
    sources: &Sources,
    lines: &Lines,
    block: u32,
    mut stored: Vec<Stored>,
    raw_findings: &mut RawFindings,
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
            let line_name = |(buffer, matrix, across, tile): Side, size: usize, line: usize| {
                let mut place = [matrix, 0, 0];
                place[across] = tile * u32::try_from(size).unwrap_or(1) + u32::try_from(line).unwrap_or(0);
                let what = if across == 1 { "row" } else { "column" };
                format!("{what} {} of {}", place[across], sources.buffer(buffer))
            };
            let (from_a, from_b) = (line_name(a, TILE.0, i), line_name(b, TILE.1, j));
            let Some((_, is)) = sources.place(stored.to) else { continue };
            raw_findings.add((Class::Provenance, stored.pc, stored.pc, 3), Severity::Error, || Raw {
                class: Class::Provenance,
                severity: Severity::Error,
                sentence: format!(
                    "{} stores the accumulator of {from_a} and {from_b} to {}, expected {}",
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
                    "the tile fills a rectangle of the output, but its rows and columns are not in order"
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

/// The first misplaced accumulator of a tile, and the position where it belongs: if the tile is complete, fills a
/// rectangle, and its rows and columns do not match those of the rectangle.
fn misplaced(sources: &Sources, tile: &[(usize, usize, Stored)]) -> Option<(usize, usize, Stored, Cell)> {
    let (rows, columns) = TILE;
    let mut cells: Vec<Option<(Stored, Cell)>> = vec![None; rows * columns];
    for (i, j, stored) in tile {
        let cell = cells.get_mut(i * columns + j)?;
        if cell.is_some() {
            return None;
        }
        *cell = Some((*stored, sources.place(stored.to)?.1));
    }
    let cells: Vec<(Stored, Cell)> = cells.into_iter().collect::<Option<_>>()?;
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

/// Whether the tile was stored in lane order, as lanes hold it.
fn raw(cells: &[(Stored, Cell)]) -> bool {
    let least = cells.iter().map(|(stored, _)| stored.to).min().unwrap_or(0);
    let each = u32::try_from(cells.len() / LANES).unwrap_or(1).max(1);
    let lane = |stored: &Stored| stored.thread % 32;
    cells.iter().all(|(stored, _)| (stored.to - least) / each == lane(stored))
        || cells.iter().all(|(stored, _)| (stored.to - least) % 32 == lane(stored))
}
