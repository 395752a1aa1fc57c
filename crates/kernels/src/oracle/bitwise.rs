//! The exact bits that a rung of the ladder computes.
//!
//! This is attention that is blocked, accumulated and rounded exactly as the rung does it: which keys form a
//! tile, which unit multiplies, what format a softmax weight is rounded to, and in which order weights are
//! added. [`Arithmetic`] lists the differences between rungs.
//!
//! A kernel may process tiles of which a row sees no key. They change no bit of the row, so this oracle skips
//! them. The one exception would be an accumulator of −0, which such a tile turns into +0; it needs a
//! negative sum that underflows, followed only by values of zero.
#![expect(
    clippy::inline_always,
    clippy::needless_range_loop,
    reason = "loops over rows are vectorized: everything in them is inlined, and several arrays share an index"
)]

mod keys;
mod product;
mod rows;
#[cfg(test)]
mod tests;

use super::parallel;
use crate::format::{Format, OutputFormat};
use crate::inputs::{Inconsistent, consistent, for_heads};
use crate::plan;
use crate::problem::{BLOCK_ROWS, Granularity, Layout, Mask, Shape, Window};
use crate::stream_k::StreamK;
use crate::tensor::Quantized;
use keys::{Keys, queries};
use product::{Chain, Core, Eight, Half, ROWS, SIDE};
use rows::{RowTile, Shaping};
use std::fmt;
use warpproof_num::fp8::Fp8;

/// The problem to compute.
#[derive(Clone, Copy, Debug)]
pub struct Problem<'a> {
    /// Sizes.
    pub shape: &'a Shape,
    /// Which keys a query sees.
    pub mask: Mask,
    /// How far around its own place a query sees keys.
    pub window: Window,
    /// The factor of the scores before the softmax; usually 1/√dim.
    pub softmax_scale: f64,
    /// Scores become `cap · tanh(score / cap)`.
    pub softcap: Option<f64>,
    /// For each query head, a logit that joins the sum of the softmax.
    pub sinks: Option<&'a [f32]>,
    /// For each query head, the slope of ALiBi.
    pub slopes: Option<&'a [f32]>,
    /// Queries.
    pub q: &'a Quantized,
    /// Keys.
    pub k: &'a Quantized,
    /// Values.
    pub v: &'a Quantized,
    /// The memory layout of the output.
    pub o_layout: Layout,
    /// How the keys of a row are divided.
    pub parts: Parts,
    /// The format of the output.
    pub output: OutputFormat,
}

/// How the keys of a row are divided. Parts are computed separately and merged in the order of the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parts {
    /// Not divided.
    Whole,
    /// Into parts of this number of key tiles, from the first that any row of a sequence sees.
    Tiles(usize),
    /// At the boundaries between blocks; a step is a tile of keys.
    StreamK(StreamK),
}

/// How the keys of one row are divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Division {
    Whole,
    /// Into parts of `each` tiles, from tile `first` on.
    Each {
        first: usize,
        each: usize,
    },
    /// Into two parts; the second starts at this tile.
    At(usize),
}

impl Parts {
    /// The division of a row, if the sequence's first visible key is in tile `first`.
    fn of_row(&self, first: usize, (batch, head, row): (usize, usize, usize)) -> Division {
        match self {
            Parts::Whole => Division::Whole,
            Parts::Tiles(each) => Division::Each { first, each: *each },
            Parts::StreamK(stream_k) => {
                stream_k.cut(stream_k.tile(batch, head, row)).map_or(Division::Whole, Division::At)
            }
        }
    }
}

/// The unit that multiplies queries and keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scores {
    /// f32 multiply-adds in the order of the elements.
    Chain,
    /// The tensor core on f16.
    F16,
    /// The tensor core on the 8-bit codes.
    Fp8,
}

/// The unit that multiplies weights and values; it also decides the format of the weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values {
    /// f32 multiply-adds in the order of the keys; weights stay f32.
    Chain,
    /// The tensor core on f16.
    F16,
    /// The tensor core on 8 bits; weights are e4m3.
    Fp8 {
        /// Each tile is summed from zero and added in f32, instead of one accumulator that stays in the
        /// tensor core.
        two_level: bool,
    },
}

/// How a score becomes an exponent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exponent {
    /// The score is scaled, then the largest is subtracted.
    Difference,
    /// Both in one multiply-add; a per-key scale is multiplied before. Approximations flush denormals.
    Folded,
}

/// Which keys of a tile a lane of the warp adds up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lanes {
    /// Four lanes, every fourth key.
    Interleaved4,
    /// 32 lanes, every 32nd key.
    Interleaved32,
    /// Four lanes, two neighboring keys of each eight, as in the tensor core's accumulator layout.
    Pairs4,
}

/// When the lanes' sums are added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Combine {
    /// For each tile.
    EachTile,
    /// After the last tile.
    AtEnd,
}

/// The order in which weights are added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sum {
    /// Which lane adds which keys.
    pub lanes: Lanes,
    /// When the lanes' sums are added.
    pub combine: Combine,
}

/// Everything that decides the bits of a rung.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Arithmetic {
    /// Keys per tile: a multiple of 32, at most [`Arithmetic::MAX_TILE`].
    pub tile: usize,
    /// Queries times keys.
    pub scores: Scores,
    /// Weights times values.
    pub values: Values,
    /// From scores to exponents.
    pub exponent: Exponent,
    /// Weights are multiplied by 2 to this power, to be large enough for e4m3.
    pub shift: f32,
    /// The sum of the weights.
    pub sum: Sum,
}

impl Arithmetic {
    /// The maximum number of keys per tile.
    pub const MAX_TILE: usize = 256;

    /// Multiply-adds throughout, on values that were dequantized to f16.
    pub const H0: Arithmetic = Arithmetic {
        tile: 32,
        scores: Scores::Chain,
        values: Values::Chain,
        exponent: Exponent::Difference,
        shift: 0.0,
        sum: Sum { lanes: Lanes::Interleaved4, combine: Combine::EachTile },
    };
    /// As [`Arithmetic::H0`].
    pub const H1: Arithmetic = Arithmetic::H0;
    /// Values on the f16 tensor core.
    pub const H2: Arithmetic = Arithmetic { values: Values::F16, ..Arithmetic::H0 };
    /// As [`Arithmetic::H2`].
    pub const H3A: Arithmetic = Arithmetic::H2;
    /// A warp shares a row.
    pub const H3B: Arithmetic =
        Arithmetic { sum: Sum { lanes: Lanes::Interleaved32, combine: Combine::EachTile }, ..Arithmetic::H2 };
    /// As [`Arithmetic::H2`].
    pub const H4: Arithmetic = Arithmetic::H2;
    /// Multiply-adds throughout, on FP8 codes.
    pub const N1: Arithmetic =
        Arithmetic { sum: Sum { lanes: Lanes::Interleaved32, combine: Combine::EachTile }, ..Arithmetic::H0 };
    /// Both products on the f16 tensor core.
    pub const N2: Arithmetic = Arithmetic {
        tile: 64,
        scores: Scores::F16,
        values: Values::F16,
        exponent: Exponent::Difference,
        shift: 0.0,
        sum: Sum { lanes: Lanes::Pairs4, combine: Combine::AtEnd },
    };
    /// As [`Arithmetic::N2`].
    pub const N3: Arithmetic = Arithmetic::N2;
    /// Both products on the FP8 tensor core, with an additional f32 accumulator.
    pub const N4: Arithmetic = Arithmetic {
        scores: Scores::Fp8,
        values: Values::Fp8 { two_level: true },
        shift: 8.0,
        ..Arithmetic::N2
    };
    /// [`Arithmetic::N4`] with the tensor core's accumulator alone.
    pub const N4_ONE_LEVEL: Arithmetic =
        Arithmetic { values: Values::Fp8 { two_level: false }, ..Arithmetic::N4 };
    /// [`Arithmetic::N4`] with the scale folded into the exponent.
    pub const N5: Arithmetic = Arithmetic { exponent: Exponent::Folded, ..Arithmetic::N4 };
    /// As [`Arithmetic::N5`].
    pub const N6: Arithmetic = Arithmetic::N5;
    /// As [`Arithmetic::N5`]; the plan decides which tiles are summed separately.
    pub const N7: Arithmetic = Arithmetic::N5;
    /// As [`Arithmetic::N7`]; the plan decides the keys per tile.
    pub const N8: Arithmetic = Arithmetic::N7;
    /// As [`Arithmetic::N8`]; the plan decides where a row's keys are cut.
    pub const N9: Arithmetic = Arithmetic::N8;
}

/// The bits of the results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bits {
    /// The format of the output.
    pub format: OutputFormat,
    /// The output's codes, with rows at the offsets of [`Shape::query_rows`].
    pub output: Vec<u16>,
    /// The log-sum-exp of the scores as f32, `[batch][head][row]`, shorter sequences padded with +0.
    pub lse: Vec<u32>,
}

/// Why the bits cannot be computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// The shape and the tensors are inconsistent.
    Inputs(Inconsistent),
    /// Rows are not a multiple of 32 elements.
    Dim,
    /// The FP8 tensor core does not support the format of this tensor.
    Format(char),
    /// The tile is not a multiple of 32, is too large, or contains values with different block scales.
    Tile,
    /// Scales of values differ inside a head, which only the FP8 tensor core with an additional f32
    /// accumulator can apply.
    ValueScales,
    /// Scores are changed before the softmax, or joined by a sink, which only rungs that fold the scale into the exponent support.
    Shaping,
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unfit::Inputs(error) => error.fmt(f),
            Unfit::Dim => write!(f, "expected rows with a multiple of {SIDE} elements"),
            Unfit::Format(name) => write!(f, "{name} has a format that the FP8 tensor core does not support"),
            Unfit::Tile => {
                write!(
                    f,
                    "expected tiles of a multiple of {SIDE} keys, at most {}, that share a scale",
                    Arithmetic::MAX_TILE
                )
            }
            Unfit::ValueScales => {
                f.write_str("this rung does not support scales of V that differ inside a head")
            }
            Unfit::Shaping => f.write_str("this rung supports neither soft caps nor sinks nor ALiBi"),
        }
    }
}

impl std::error::Error for Unfit {}

/// The bits that a rung computes.
pub fn attention(problem: &Problem<'_>, arithmetic: &Arithmetic) -> Result<Bits, Unfit> {
    problem.check(arithmetic)?;
    match arithmetic.scores {
        Scores::Chain => with_scores(problem, arithmetic, Chain),
        Scores::F16 => with_scores(problem, arithmetic, Half),
        Scores::Fp8 => {
            let left = problem.q.format.fp8().ok_or(Unfit::Format('Q'))?;
            let right = problem.k.format.fp8().ok_or(Unfit::Format('K'))?;
            with_scores(problem, arithmetic, Eight { left, right })
        }
    }
}

fn with_scores<S: Core>(problem: &Problem<'_>, arithmetic: &Arithmetic, scores: S) -> Result<Bits, Unfit> {
    Ok(match arithmetic.values {
        Values::Chain => compute(problem, arithmetic, (scores, Chain)),
        Values::F16 => compute(problem, arithmetic, (scores, Half)),
        Values::Fp8 { .. } => {
            let right = problem.v.format.fp8().ok_or(Unfit::Format('V'))?;
            compute(problem, arithmetic, (scores, Eight { left: Fp8::E4m3, right }))
        }
    })
}

impl Problem<'_> {
    fn check(&self, arithmetic: &Arithmetic) -> Result<(), Unfit> {
        consistent(self.shape, [self.q, self.k, self.v]).map_err(Unfit::Inputs)?;
        if !self.shape.dim.is_multiple_of(SIDE) {
            return Err(Unfit::Dim);
        }
        for_heads("sinks", self.shape, self.sinks).map_err(Unfit::Inputs)?;
        for_heads("slopes", self.shape, self.slopes).map_err(Unfit::Inputs)?;
        let changed = self.softcap.is_some() || self.sinks.is_some() || self.slopes.is_some();
        if changed && arithmetic.exponent != Exponent::Folded {
            return Err(Unfit::Shaping);
        }
        let tile = arithmetic.tile;
        if tile == 0 || tile > Arithmetic::MAX_TILE || !tile.is_multiple_of(SIDE) {
            return Err(Unfit::Tile);
        }
        if !self.v.format.folds_scale() {
            let granularity = self.v.granularity;
            if granularity == Granularity::Block && !BLOCK_ROWS.is_multiple_of(tile) {
                return Err(Unfit::Tile);
            }
            let inside = matches!(granularity, Granularity::Block | Granularity::Row);
            if inside && arithmetic.values != (Values::Fp8 { two_level: true }) {
                return Err(Unfit::ValueScales);
            }
        }
        Ok(())
    }

    /// The factor of the scores without the operands' scales, for powers of two instead of e.
    fn exponent_scale(&self) -> f32 {
        plan::exponent_scale(self.softmax_scale, self.softcap)
    }
}

/// Rows that are computed together: those of the query heads that share a key head, one head after another,
/// in groups of sixteen.
struct Item {
    batch: usize,
    kv_head: usize,
    first: usize,
}

/// A finished row.
struct Finished {
    batch: usize,
    head: usize,
    row: usize,
    output: Vec<u16>,
    lse: u32,
}

fn compute<S: Core, V: Core>(problem: &Problem<'_>, arithmetic: &Arithmetic, cores: (S, V)) -> Bits {
    let shape = problem.shape;
    let mut items = Vec::new();
    for (batch, lengths) in shape.sequences.iter().enumerate() {
        for kv_head in 0..shape.kv_heads {
            let rows = lengths.queries * shape.group();
            items.extend((0..rows).step_by(ROWS).map(|first| Item { batch, kv_head, first }));
        }
    }

    // A worker keeps the keys of a head between items.
    let finished = parallel::each(
        &items,
        || None::<Keys<S::Code, V::Code>>,
        |held, item| {
            let place = (item.batch, item.kv_head);
            let keys = match held.take().filter(|keys| keys.place == place) {
                Some(keys) => held.insert(keys),
                None => held.insert(Keys::new(problem, arithmetic.tile, cores, place)),
            };
            finish(problem, arithmetic, cores, keys, item)
        },
    );

    let rows = shape.query_rows(problem.o_layout);
    let longest = shape.max_queries();
    let mut output = vec![0; rows.elements()];
    let mut lse = vec![0; shape.batch() * shape.heads * longest];
    for row in finished.into_iter().flatten() {
        let first = rows.offset(row.batch, row.head, row.row);
        output[first..first + shape.dim].copy_from_slice(&row.output);
        lse[(row.batch * shape.heads + row.head) * longest + row.row] = row.lse;
    }
    Bits { format: problem.output, output, lse }
}

/// Computes the rows of an item.
fn finish<S: Core, V: Core>(
    problem: &Problem<'_>,
    arithmetic: &Arithmetic,
    cores: (S, V),
    keys: &Keys<S::Code, V::Code>,
    item: &Item,
) -> Vec<Finished> {
    let shape = problem.shape;
    let Some(&lengths) = shape.sequences.get(item.batch) else { return Vec::new() };
    let group = shape.group();
    let last = (item.first + ROWS).min(lengths.queries * group);
    let places: Vec<(usize, usize)> = (item.first..last)
        .map(|at| (item.kv_head * group + at / lengths.queries, at % lengths.queries))
        .collect();

    let mut factors = [0.0; ROWS];
    let (mut from, mut visible) = ([usize::MAX; ROWS], [0; ROWS]);
    for (lane, &(head, row)) in places.iter().enumerate() {
        factors[lane] = problem.exponent_scale() * problem.q.factor(item.batch, head, row);
        let seen = problem.window.visible(problem.mask, lengths, row);
        (from[lane], visible[lane]) = (seen.start, seen.end);
    }
    let queries = queries(cores.0, problem.q, item.batch, places.iter().copied());
    let of_heads = |values: &[f32]| -> [f32; ROWS] {
        let of_lane = |lane: usize| places.get(lane).and_then(|(head, _)| values.get(*head));
        std::array::from_fn(|lane| of_lane(lane).map_or(0.0, |value| value * std::f32::consts::LOG2_E))
    };
    let wide = |rows: usize| i64::try_from(rows).unwrap_or(i64::MAX);
    let place = |lane: usize| places.get(lane).map_or(0, |(_, row)| wide(*row));
    let shaping = Shaping {
        cap: problem.softcap.map(plan::exponent_cap),
        slopes: problem.slopes.map(of_heads),
        places: std::array::from_fn(|lane| place(lane) + wide(lengths.keys) - wide(lengths.queries)),
    };
    let shaping = (problem.softcap.is_some() || problem.slopes.is_some()).then_some(shaping);
    let sinks = problem.sinks.map(of_heads);
    let tile = RowTile { arithmetic, cores, keys, queries, factors, from, visible, shaping, sinks };
    // Nearly all rows have the same division; each division is computed with the rows that have it.
    let first = problem.window.visible(problem.mask, lengths, 0).start / arithmetic.tile;
    let division = |&(head, row): &(usize, usize)| problem.parts.of_row(first, (item.batch, head, row));
    let mut ways: Vec<Division> = Vec::new();
    for way in places.iter().map(division) {
        if !ways.contains(&way) {
            ways.push(way);
        }
    }
    let mut finished = Vec::with_capacity(places.len());
    for way in ways {
        let state = tile.run(way);
        let alike = places.iter().enumerate().filter(|(_, place)| division(place) == way);
        finished.extend(alike.map(|(lane, &(head, row))| Finished {
            batch: item.batch,
            head,
            row,
            output: state.output(lane, keys.v_scale, arithmetic.exponent, problem.output).collect(),
            lse: state.lse(lane, arithmetic.shift),
        }));
    }
    finished
}
