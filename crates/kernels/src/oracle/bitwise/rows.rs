//! Computes sixteen query rows over the tiles of their keys.

use super::keys::{Keys, TileScales};
use super::product::{Core, ROWS, Row, SIDE, Tall};
use super::{Arithmetic, Combine, Division, Exponent, Lanes, Sum, Values};
use crate::format::OutputFormat;
use std::ops::Range;
use warpproof_num::approx::{ex2_approx_f32, lg2_approx_f32, rcp_approx_f32};
use warpproof_num::float::NAN_F32;
use warpproof_sim::simd::{Level, Vectorized};

/// Rows that share keys and values, but may see different numbers of them.
pub(super) struct RowTile<'a, S: Core, V: Core> {
    pub arithmetic: &'a Arithmetic,
    pub cores: (S, V),
    pub keys: &'a Keys<S::Code, V::Code>,
    /// Elements, 32 per block.
    pub queries: Vec<Tall<S::Code>>,
    /// The factor of a row's scores, without the key's scale.
    pub factors: Row<f32>,
    /// The first key that a row sees.
    pub from: Row<usize>,
    /// Where the keys end that a row sees.
    pub visible: Row<usize>,
    /// How scores change before the softmax, if they do.
    pub shaping: Option<Shaping>,
    /// The sink of a row's head in powers of two; it joins the first part.
    pub sinks: Option<Row<f32>>,
}

/// How scores change before the softmax.
pub(super) struct Shaping {
    /// The soft cap in powers of two.
    pub cap: Option<f32>,
    /// The slope of a row's head in powers of two.
    pub slopes: Option<Row<f32>>,
    /// The key at a row's own place.
    pub places: Row<i64>,
}

/// The state of the rows after some tiles.
pub(super) struct State {
    /// The largest score.
    pub largest: Row<f32>,
    /// The sum of weights, in lanes until [`State::combine`].
    pub sum: [Row<f32>; MAX_LANES],
    /// The weighted sum of values, `[element][row]`.
    pub accumulator: Vec<Tall<f32>>,
}

/// The maximum number of lanes that share a row.
const MAX_LANES: usize = 32;

/// Scales of keys whose scores contain them.
const ONES: [f32; Arithmetic::MAX_TILE] = [1.0; Arithmetic::MAX_TILE];

#[inline(always)]
fn ex2(x: f32, flush: bool) -> f32 {
    f32::from_bits(ex2_approx_f32(x.to_bits(), flush))
}

/// The score that is subtracted from all scores: the largest, or 0 if the row sees no key.
#[inline(always)]
fn reference(largest: f32) -> f32 {
    if largest == f32::NEG_INFINITY { 0.0 } else { largest }
}

impl<S: Core, V: Core> RowTile<'_, S, V> {
    /// Computes the rows over all their keys; if these are divided, each part separately, merged at the end.
    pub(super) fn run(&self, division: Division) -> State {
        let seen = self.visible.iter().copied().max().unwrap_or(0);
        let tiles = seen.div_ceil(self.arithmetic.tile);
        let starts: Vec<usize> = match division {
            Division::Whole => {
                let first = self.from.iter().copied().min().unwrap_or(0) / self.arithmetic.tile;
                return self.tiles(first..tiles, true);
            }
            Division::Each { first, each } => (first..tiles).step_by(each.max(1)).collect(),
            Division::At(second) => vec![0, second.min(tiles)],
        };
        // A sink needs a part, also without keys.
        let starts = if starts.is_empty() { vec![tiles] } else { starts };
        let ends = starts.iter().skip(1).copied().chain([tiles]);
        let parts = starts.iter().zip(ends).enumerate();
        let parts: Vec<State> =
            parts.map(|(index, (start, end))| self.tiles(*start..end, index == 0)).collect();
        State::merged(&parts, self.queries.len(), self.arithmetic.exponent == Exponent::Folded)
    }

    fn tiles(&self, tiles: Range<usize>, first: bool) -> State {
        let mut state = State::new(self.queries.len());
        if let Some(sinks) = self.sinks.filter(|_| first) {
            state.largest = sinks;
            state.sum[0] = [self.arithmetic.shift.exp2(); ROWS];
        }
        let mut scores = vec![[[0.0; ROWS]; SIDE]; self.arithmetic.tile / SIDE];
        for tile in tiles {
            self.scores(tile, &mut scores);
            let first = tile * self.arithmetic.tile;
            if let Some(shaping) = &self.shaping {
                self.shape(shaping, (tile, first), scores.as_flattened_mut());
            }
            let alpha = Level::detect().run(Softmax {
                scores: scores.as_flattened_mut(),
                factors: if self.shaping.is_some() { &[1.0; ROWS] } else { &self.factors },
                scales: if self.shaping.is_some() {
                    &ONES[..self.arithmetic.tile]
                } else {
                    self.keys.k_scales(tile)
                },
                exponent: self.arithmetic.exponent,
                own_scales: self.keys.own_scales,
                from: self.from.map(|key| within(key, first)),
                visible: self.visible.map(|key| within(key, first)),
                shift: self.arithmetic.shift,
                order: self.arithmetic.sum,
                largest: &mut state.largest,
                sum: &mut state.sum,
            });
            self.accumulate(tile, &scores, &alpha, &mut state.accumulator);
        }
        state.combine(self.arithmetic.sum);
        state
    }

    /// Multiplies scores by their scales, and changes them as asked.
    fn shape(&self, shaping: &Shaping, (tile, first): (usize, usize), scores: &mut [Row<f32>]) {
        for ((key, scores), scale) in (first..).zip(scores.iter_mut()).zip(self.keys.k_scales(tile)) {
            let (own, shared) = if self.keys.own_scales { (*scale, 1.0) } else { (1.0, *scale) };
            for (row, score) in scores.iter_mut().enumerate() {
                *score = shaping.of(*score * own * (self.factors[row] * shared), row, key);
            }
        }
    }

    fn scores(&self, tile: usize, scores: &mut [Tall<f32>]) {
        let first = tile * scores.len();
        for (group, scores) in scores.iter_mut().enumerate() {
            *scores = [[0.0; ROWS]; SIDE];
            for (q, k) in self.queries.iter().zip(self.keys.keys(first + group)) {
                self.cores.0.multiply(q, k, scores);
            }
        }
    }

    fn accumulate(
        &self,
        tile: usize,
        weights: &[Tall<f32>],
        alpha: &Row<f32>,
        accumulator: &mut [Tall<f32>],
    ) {
        let scales = self.keys.v_scales(tile);
        let weights = weights.iter().enumerate().map(|(group, weights)| {
            let ratios = scales.and_then(|scales| scales.ratios.get(group * SIDE..));
            Level::detect().run(Weigh { core: self.cores.1, weights, ratios })
        });
        let weights: Vec<Tall<V::Code>> = weights.collect();
        let first = tile * weights.len();
        let two_level = self.arithmetic.values == Values::Fp8 { two_level: true };
        for (block, accumulator) in accumulator.iter_mut().enumerate() {
            let multiply = |to: &mut Tall<f32>| {
                for (group, weights) in weights.iter().enumerate() {
                    if let Some(values) = self.keys.values(first + group).get(block) {
                        self.cores.1.multiply(weights, values, to);
                    }
                }
            };
            if two_level {
                let mut part = [[0.0; ROWS]; SIDE];
                multiply(&mut part);
                let whole = scales.map(|TileScales { whole, .. }| *whole);
                Level::detect().run(Add { accumulator, alpha, part: &part, whole });
            } else {
                for column in accumulator.iter_mut() {
                    for (value, alpha) in column.iter_mut().zip(alpha) {
                        *value *= alpha;
                    }
                }
                multiply(accumulator);
            }
        }
    }
}

impl Shaping {
    fn of(&self, x: f32, row: usize, key: usize) -> f32 {
        let x = self.cap.map_or(x, |cap| {
            let sum = ex2(x, true) + 1.0;
            f32::from_bits(rcp_approx_f32(sum.to_bits(), true)).mul_add(-2.0 * cap, cap)
        });
        self.slopes.map_or(x, |slopes| {
            let apart = i64::try_from(key).unwrap_or(i64::MAX).abs_diff(self.places[row]);
            distance(apart).mul_add(-slopes[row], x)
        })
    }
}

/// A distance below 2^24, exactly.
#[expect(clippy::as_conversions, clippy::cast_precision_loss, reason = "plans limit distances to 2^24")]
fn distance(keys: u64) -> f32 {
    keys as f32
}

/// A key's place in the tile that starts at `first`; 0 for earlier keys.
fn within(key: usize, first: usize) -> u32 {
    u32::try_from(key.saturating_sub(first)).unwrap_or(u32::MAX)
}

/// Turns the scores of a tile into weights and updates the state. Returns the factor for the previous state.
struct Softmax<'a> {
    /// Scores of codes, replaced by weights: `[key][row]`.
    scores: &'a mut [Row<f32>],
    factors: &'a Row<f32>,
    scales: &'a [f32],
    exponent: Exponent,
    /// Whether keys have their own scales; a folded scale then consists of the rows' factor only.
    own_scales: bool,
    from: Row<u32>,
    visible: Row<u32>,
    shift: f32,
    order: Sum,
    largest: &'a mut Row<f32>,
    sum: &'a mut [Row<f32>; MAX_LANES],
}

impl Vectorized for Softmax<'_> {
    type Output = Row<f32>;

    #[inline(always)]
    fn run(self) -> Row<f32> {
        let folded = self.exponent == Exponent::Folded;
        let factor = |row: usize, scale: f32| {
            if folded && self.own_scales { self.factors[row] } else { self.factors[row] * scale }
        };
        let (from, visible) = (self.from, self.visible);
        let seen = |row: usize, key: u32| from[row] <= key && key < visible[row];
        let mut largest = *self.largest;
        for ((key, scores), scale) in (0u32..).zip(self.scores.iter_mut()).zip(self.scales) {
            let own = if folded && self.own_scales { *scale } else { 1.0 };
            for row in 0..ROWS {
                // Multiplying by one is exact, so keys without their own scales need no branch.
                let score = scores[row] * own;
                let scaled = score * factor(row, *scale);
                let scaled = if seen(row, key) { scaled } else { f32::NEG_INFINITY };
                scores[row] = if folded { score } else { scaled };
                largest[row] = if scaled > largest[row] { scaled } else { largest[row] };
            }
        }
        let mut alpha = [0.0; ROWS];
        let mut base = [0.0; ROWS];
        for row in 0..ROWS {
            let reference = reference(largest[row]);
            alpha[row] = ex2(self.largest[row] - reference, folded);
            base[row] = reference - self.shift;
        }
        *self.largest = largest;
        for ((key, scores), scale) in (0u32..).zip(self.scores.iter_mut()).zip(self.scales) {
            for row in 0..ROWS {
                let exponent = if folded {
                    let exponent = scores[row].mul_add(factor(row, *scale), -base[row]);
                    if seen(row, key) { exponent } else { f32::NEG_INFINITY }
                } else {
                    scores[row] - base[row]
                };
                scores[row] = ex2(exponent, folded);
            }
        }

        let lanes = self.order.lanes;
        let mut part = [[0.0; ROWS]; MAX_LANES];
        for (key, weights) in self.scores.iter().enumerate() {
            // Adding to the lane's initial zero gives its first weight exactly: weights are never −0.
            let part = &mut part[lanes.of(key) % MAX_LANES];
            for row in 0..ROWS {
                part[row] += weights[row];
            }
        }
        let lanes = match self.order.combine {
            Combine::EachTile => {
                butterfly(&mut part[..lanes.count()]);
                1
            }
            Combine::AtEnd => lanes.count(),
        };
        for (sum, part) in self.sum.iter_mut().zip(&part).take(lanes) {
            for row in 0..ROWS {
                sum[row] = sum[row].mul_add(alpha[row], part[row]);
            }
        }
        alpha
    }
}

/// The lanes' sum by butterfly exchanges with the lane 1, 2, 4 … away, in the first lane.
#[inline(always)]
fn butterfly(lanes: &mut [Row<f32>]) {
    let mut left = lanes.len();
    while left > 1 {
        left /= 2;
        for lane in 0..left {
            let (x, y) = (lanes[2 * lane], lanes[2 * lane + 1]);
            for row in 0..ROWS {
                lanes[lane][row] = x[row] + y[row];
            }
        }
    }
}

/// Weights as a core reads them.
struct Weigh<'a, V: Core> {
    weights: &'a Tall<f32>,
    ratios: Option<&'a [f32]>,
    core: V,
}

impl<V: Core> Vectorized for Weigh<'_, V> {
    type Output = Tall<V::Code>;

    #[inline(always)]
    fn run(self) -> Tall<V::Code> {
        let mut all = [[V::Code::default(); ROWS]; SIDE];
        for (key, (codes, weights)) in all.iter_mut().zip(self.weights).enumerate() {
            let ratio = self.ratios.and_then(|ratios| ratios.get(key)).copied().unwrap_or(1.0);
            for row in 0..ROWS {
                codes[row] = self.core.weight(weights[row] * ratio);
            }
        }
        all
    }
}

/// Adds a tile's products to the accumulator.
struct Add<'a> {
    accumulator: &'a mut Tall<f32>,
    alpha: &'a Row<f32>,
    part: &'a Tall<f32>,
    whole: Option<f32>,
}

impl Vectorized for Add<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let alpha = *self.alpha;
        for (to, part) in self.accumulator.iter_mut().zip(self.part) {
            match self.whole {
                None => {
                    for row in 0..ROWS {
                        to[row] = to[row].mul_add(alpha[row], part[row]);
                    }
                }
                Some(whole) => {
                    for row in 0..ROWS {
                        to[row] = part[row].mul_add(whole, to[row] * alpha[row]);
                    }
                }
            }
        }
    }
}

impl State {
    fn new(blocks: usize) -> State {
        State {
            largest: [f32::NEG_INFINITY; ROWS],
            sum: [[0.0; ROWS]; MAX_LANES],
            accumulator: vec![[[0.0; ROWS]; SIDE]; blocks],
        }
    }

    /// Reduces the lanes' sums to one sum per row.
    fn combine(&mut self, order: Sum) {
        if order.combine == Combine::AtEnd {
            butterfly(&mut self.sum[..order.lanes.count()]);
        }
    }

    fn merged(parts: &[State], blocks: usize, flush: bool) -> State {
        let mut all = State::new(blocks);
        for part in parts {
            for (largest, score) in all.largest.iter_mut().zip(part.largest) {
                *largest = if score > *largest { score } else { *largest };
            }
        }
        for part in parts {
            let weights: Row<f32> =
                std::array::from_fn(|row| ex2(part.largest[row] - reference(all.largest[row]), flush));
            for row in 0..ROWS {
                all.sum[0][row] = part.sum[0][row].mul_add(weights[row], all.sum[0][row]);
            }
            let columns = all.accumulator.as_flattened_mut().iter_mut().zip(part.accumulator.as_flattened());
            for (to, from) in columns {
                for row in 0..ROWS {
                    to[row] = from[row].mul_add(weights[row], to[row]);
                }
            }
        }
        all
    }

    /// The output of a row, one code per element.
    pub(super) fn output(
        &self,
        row: usize,
        v_scale: f32,
        exponent: Exponent,
        format: OutputFormat,
    ) -> impl Iterator<Item = u16> {
        let sum = self.sum[0].get(row).copied().unwrap_or(0.0);
        let reciprocal = match exponent {
            Exponent::Difference => 1.0 / sum,
            Exponent::Folded => f32::from_bits(rcp_approx_f32(sum.to_bits(), true)),
        };
        let factor = reciprocal * v_scale;
        self.accumulator.as_flattened().iter().map(move |column| {
            let value = column.get(row).copied().unwrap_or(0.0) * factor;
            if sum == 0.0 { 0 } else { format.encode_f32(value) }
        })
    }

    /// The natural logarithm of the sum of a row's exponentials.
    pub(super) fn lse(&self, row: usize, shift: f32) -> u32 {
        let sum = self.sum[0].get(row).copied().unwrap_or(0.0);
        if sum == 0.0 {
            return f32::NEG_INFINITY.to_bits();
        }
        let largest = self.largest.get(row).copied().unwrap_or(f32::NEG_INFINITY);
        let log = f32::from_bits(lg2_approx_f32(sum.to_bits(), false));
        let lse = (reference(largest) + log - shift) * std::f32::consts::LN_2;
        if lse.is_nan() { NAN_F32 } else { lse.to_bits() }
    }
}

impl Lanes {
    /// The number of lanes.
    #[inline(always)]
    fn count(self) -> usize {
        match self {
            Lanes::Interleaved4 | Lanes::Pairs4 => 4,
            Lanes::Interleaved32 => 32,
        }
    }

    /// The lane of a key of a tile.
    #[inline(always)]
    fn of(self, key: usize) -> usize {
        match self {
            Lanes::Interleaved4 => key % 4,
            Lanes::Interleaved32 => key % 32,
            Lanes::Pairs4 => key % 8 / 2,
        }
    }
}
