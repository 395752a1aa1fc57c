//! Attention in f64 on the dequantized inputs: the mathematically exact result of a kernel; or on inputs that were not
//! quantized, which shows the cost of quantization.
//!
//! Heads run on all cores, query rows in blocks: scores, softmax, and the product with V, each a matrix
//! product. With a [`Precision`], the same pass computes the sums over keys that [`warpproof_tolerance`]
//! needs. The bits do not depend on the number of cores, and except for soft caps, sinks and logarithms, which are the
//! platform's, not on the machine.

#![expect(
    clippy::as_conversions,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "counts as f64, and limits as f32"
)]
#![expect(
    clippy::inline_always,
    reason = "only inlined functions are compiled for the detected instruction set"
)]

use super::parallel;
use super::product::{Matrix, Panels, multiply};
use super::softmax;
use crate::format::Format;
use crate::inputs::{Inconsistent, Inputs, Tensors};
use crate::problem::{BLOCK_ROWS, Granularity, Layout, Lengths, Mask, Rows, Shape, Window};
use crate::tensor::Quantized;
use crate::tolerance::{PFormat, Precision, RowModel, ScoreSizes, Sums, lse_limit};
use std::f64::consts::LOG2_E;
use std::ops::Range;
use warpproof_sim::simd::{Level, Vectorized};
use warpproof_tolerance::{RowMoments, Tolerance};

/// The format of the weights when they are multiplied with V; the sum in the denominator uses the uncast
/// weights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PCast {
    /// No cast.
    #[default]
    None,
    /// E4M3 at the scale 2^8, relative to the largest weight of the row: shows the cost of the format.
    E4m3,
}

/// What to compute.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// The order of the output's axes.
    pub layout: Layout,
    /// The format that weights are cast to.
    pub cast: PCast,
    /// The factor on scores; 1/√D by default.
    pub scale: Option<f64>,
    /// How far around its own place a query sees keys.
    pub window: Window,
    /// Scores become `cap · tanh(score / cap)`.
    pub softcap: Option<f64>,
    /// Where the kernel under test rounds; enables [`Exact::tolerance`].
    pub precision: Option<Precision>,
    /// For a sequence with this number of keys, the keys that no query sees: for deliberately wrong outputs.
    pub skip: Option<fn(usize) -> Range<usize>>,
}

/// Attention in f64.
#[derive(Clone, Debug)]
pub struct Exact {
    /// The location of each row of the output.
    pub rows: Rows,
    /// The output.
    pub output: Vec<f64>,
    /// The logarithm of the sum of exponentials `[batch][head][longest]`; -∞ for queries that see no key.
    pub lse: Vec<f64>,
    /// How far an output may deviate, if a precision was given.
    pub tolerance: Option<Tolerance>,
}

/// Attention in f64 on the dequantized inputs.
pub fn attention(inputs: &Inputs, mask: Mask, options: &Options) -> Result<Exact, Inconsistent> {
    inputs.check()?;
    let values = [&inputs.q, &inputs.k, &inputs.v].map(Quantized::dequantize);
    let rows = [&inputs.q.rows, &inputs.k.rows, &inputs.v.rows];
    let (sinks, slopes) = (inputs.sinks.as_deref(), inputs.slopes.as_deref());
    let values = Operands { shape: &inputs.shape, rows, values, v: Some(&inputs.v), sinks, slopes };
    Ok(compute(&values, mask, options))
}

/// Attention in f64 on inputs that were not quantized; a tolerance assumes scales per head or coarser.
pub fn of_tensors(tensors: &Tensors, mask: Mask, options: &Options) -> Result<Exact, Inconsistent> {
    let (shape, layout) = (&tensors.shape, tensors.layout);
    shape.check().map_err(Inconsistent::Shape)?;
    let (queries, keys) = (shape.query_rows(layout), shape.key_rows(layout));
    let rows = [&queries, &keys, &keys];
    let all = [&tensors.q, &tensors.k, &tensors.v];
    for ((name, values), rows) in ['Q', 'K', 'V'].into_iter().zip(all).zip(rows) {
        if values.len() != rows.elements() {
            return Err(Inconsistent::Tensor(name));
        }
    }
    let values = all.map(|values| values.iter().copied().map(f64::from).collect());
    Ok(compute(&Operands { shape, rows, values, v: None, sinks: None, slopes: None }, mask, options))
}

/// Q, K and V in f64.
struct Operands<'a> {
    shape: &'a Shape,
    rows: [&'a Rows; 3],
    values: [Vec<f64>; 3],
    /// V with its scales, if it was quantized.
    v: Option<&'a Quantized>,
    /// As in [`Inputs`].
    sinks: Option<&'a [f32]>,
    slopes: Option<&'a [f32]>,
}

fn compute(inputs: &Operands<'_>, mask: Mask, options: &Options) -> Exact {
    let shape = inputs.shape;
    let rows = shape.query_rows(options.layout);
    let tasks: Vec<(usize, usize)> =
        (0..shape.batch()).flat_map(|batch| (0..shape.heads).map(move |head| (batch, head))).collect();
    // In the order of the heads, so that sums over rows have a fixed order.
    let heads = parallel::each(
        &tasks,
        || (),
        |(), &(batch, head)| Head::new(inputs, mask, options, batch, head).run(),
    );

    let longest = rows.longest();
    let mut output = vec![0.0; rows.elements()];
    let mut lse = vec![f64::NEG_INFINITY; shape.batch() * shape.heads * longest];
    let measured = options.precision.is_some();
    let mut limits = vec![0.0; if measured { output.len() } else { 0 }];
    let mut lse_limits = vec![f32::NAN; if measured { lse.len() } else { 0 }];
    let mut moments = Vec::new();
    for ((batch, head), result) in tasks.into_iter().zip(heads) {
        for row in 0..rows.length(batch) {
            let (from, to) = (row * rows.dim, rows.offset(batch, head, row));
            output[to..to + rows.dim].copy_from_slice(&result.output[from..from + rows.dim]);
            if measured {
                limits[to..to + rows.dim].copy_from_slice(&result.limits[from..from + rows.dim]);
            }
        }
        let at = (batch * shape.heads + head) * longest;
        lse[at..at + result.lse.len()].copy_from_slice(&result.lse);
        if measured {
            lse_limits[at..at + result.lse.len()].copy_from_slice(&result.lse_limits);
        }
        moments.extend(result.moments);
    }
    let tolerance = measured.then(|| Tolerance::new(limits, lse_limits, &moments));
    Exact { rows, output, lse, tolerance }
}

/// Keys of one step of the tensor core.
const STEP_KEYS: usize = 16;

/// Query rows that are computed at a time: their scores for a few thousand keys fit in the L2 cache.
const QUERY_BLOCK: usize = 32;

/// One head of one sequence.
struct Head<'a> {
    mask: Mask,
    options: &'a Options,
    lengths: Lengths,
    dim: usize,
    /// Q `[query][dim]`, multiplied by the factor on scores.
    q: Vec<f64>,
    /// K transposed `[dim][key]`.
    k: Panels,
    /// V `[key][dim]`.
    v: Panels,
    skipped: Range<usize>,
    /// The largest magnitude in K.
    largest_key: f64,
    model: Option<KeySums>,
    /// A logit without a value.
    sink: Option<f64>,
    /// Subtracted from a score for each key between it and the query's own place.
    slope: Option<f64>,
}

/// Data of V for the tolerance.
struct KeySums {
    precision: Precision,
    /// `[key]`: the scale of the tile divided by the row's own; 1 unless rows have their own scales.
    ratios: Vec<f64>,
    /// |V| `[key][dim]`.
    magnitudes: Panels,
    /// `[key][v² | v̄²]`
    squares: Panels,
    /// `[key][v² | v̄² | v | v̄ | 1]`
    powers: Panels,
}

#[derive(Default)]
struct HeadResult {
    output: Vec<f64>,
    lse: Vec<f64>,
    limits: Vec<f32>,
    lse_limits: Vec<f32>,
    moments: Vec<RowMoments>,
}

fn rows_of(rows: &Rows, values: &[f64], batch: usize, head: usize) -> Vec<f64> {
    let row = |row| {
        let at = rows.offset(batch, head, row);
        values[at..at + rows.dim].iter().copied()
    };
    (0..rows.length(batch)).flat_map(row).collect()
}

impl<'a> Head<'a> {
    fn new(inputs: &Operands<'_>, mask: Mask, options: &'a Options, batch: usize, head: usize) -> Head<'a> {
        let shape = inputs.shape;
        let [q, k, v] = &inputs.values;
        let dim = shape.dim;
        let lengths = shape.sequences[batch];
        let kv_head = head / shape.group().max(1);
        let scale = options.scale.unwrap_or(1.0 / (dim as f64).sqrt());
        let mut q = rows_of(inputs.rows[0], q, batch, head);
        for q in &mut q {
            *q *= scale;
        }
        let straight = rows_of(inputs.rows[1], k, batch, kv_head);
        let mut k = vec![0.0; straight.len()];
        for key in 0..lengths.keys {
            for d in 0..dim {
                k[d * lengths.keys + key] = straight[key * dim + d];
            }
        }
        let v = rows_of(inputs.rows[2], v, batch, kv_head);
        let model = options.precision.map(|precision| {
            KeySums::new(precision, &v, dim, tile_ratios(inputs.v, batch, kv_head, lengths.keys))
        });
        let skipped = options.skip.map_or(0..0, |skip| skip(lengths.keys));
        let largest_key = straight.iter().fold(0.0, |largest: f64, value| largest.max(value.abs()));
        let of_head = |values: Option<&[f32]>| values?.get(head).map(|value| f64::from(*value));
        let (sink, slope) = (of_head(inputs.sinks), of_head(inputs.slopes));
        let (k, v) = (Panels::of(&k, lengths.keys), Panels::of(&v, dim));
        Head { mask, options, lengths, dim, q, k, v, skipped, largest_key, model, sink, slope }
    }

    fn visible(&self, row: usize) -> Range<usize> {
        self.options.window.visible(self.mask, self.lengths, row)
    }

    fn run(&self) -> HeadResult {
        let mut result = HeadResult::default();
        let mut block = Block::default();
        for first in (0..self.lengths.queries).step_by(QUERY_BLOCK) {
            let rows = first..(first + QUERY_BLOCK).min(self.lengths.queries);
            self.block(rows, &mut block, &mut result);
        }
        result
    }

    fn block(&self, rows: Range<usize>, block: &mut Block, result: &mut HeadResult) {
        let count = rows.len();
        // For later rows, the keys that they see do not end earlier.
        let keys = self.visible(rows.end - 1).end;
        let dim = self.dim;
        block.p.resize(count * keys, 0.0);
        let q = Matrix { values: &self.q[rows.start * dim..], width: dim };
        multiply(q, &self.k, count, dim, &mut block.p, keys);

        block.sums.clear();
        for (row, weights) in rows.clone().zip(lines(&mut block.p, count, keys)) {
            let visible = self.visible(row);
            weights[visible.end..].fill(f64::NEG_INFINITY);
            weights[..visible.start].fill(f64::NEG_INFINITY);
            weights[self.skipped.start.min(keys)..self.skipped.end.min(keys)].fill(f64::NEG_INFINITY);
            let magnitude = softmax::magnitude(weights);
            if let Some(cap) = self.options.softcap {
                weights.iter_mut().filter(|s| s.is_finite()).for_each(|s| *s = cap * (*s / cap).tanh());
            }
            let mut reach = magnitude.max(self.sink.map_or(0.0, f64::abs));
            if let Some(slope) = self.slope {
                let place = row as f64 + self.lengths.keys as f64 - self.lengths.queries as f64;
                for (key, score) in weights.iter_mut().enumerate().filter(|(_, score)| score.is_finite()) {
                    let bias = slope * (key as f64 - place).abs();
                    *score -= bias;
                    reach = reach.max(bias.abs()).max(score.abs());
                }
            }
            let largest = softmax::largest(weights, self.sink.unwrap_or(f64::NEG_INFINITY));
            let base = if largest == f64::NEG_INFINITY { 0.0 } else { largest };
            let sink = self.sink.map_or(0.0, |sink| (sink - base).exp());
            softmax::exponentials(weights, base);
            let sum = weights.iter().fold(sink, |sum, weight| sum + weight);
            result.lse.push(if sum > 0.0 { base + sum.ln() } else { f64::NEG_INFINITY });
            // The tensor core's steps are of 16 keys: a window may begin inside one.
            let visible = visible.len() + visible.start % STEP_KEYS;
            block.sums.push(RowSum { sum, sink, magnitude, reach, visible });
        }
        let cast: &[f64] =
            if self.options.cast == PCast::E4m3 {
                block.cast.clear();
                block.cast.extend(block.p.iter().map(|p| {
                    f64::from(Format::E4m3.decode(Format::E4m3.encode((p * 256.0) as f32))) / 256.0
                }));
                &block.cast
            } else {
                &block.p
            };
        block.output.resize(count * dim, 0.0);
        let cast = Matrix { values: cast, width: keys };
        multiply(cast, &self.v, count, keys, &mut block.output, dim);
        for (row, output) in block.sums.iter().zip(lines(&mut block.output, count, dim)) {
            for o in output {
                *o = if row.sum > 0.0 { *o / row.sum } else { 0.0 };
            }
        }
        result.output.extend_from_slice(&block.output[..count * dim]);
        if let Some(model) = &self.model {
            self.limits(model, rows, keys, block, result);
        }
    }

    /// The limits of a block whose weights and outputs are computed.
    fn limits(
        &self,
        keys_model: &KeySums,
        rows: Range<usize>,
        keys: usize,
        block: &mut Block,
        result: &mut HeadResult,
    ) {
        let (count, dim) = (rows.len(), self.dim);
        let size = count * keys;
        let precision = keys_model.precision;
        for buffer in [&mut block.steps, &mut block.steps_squared, &mut block.squares, &mut block.lost] {
            buffer.resize(size, 0.0);
        }
        let ratios = keys_model.ratios.get(..keys).unwrap_or_default();
        let any_lost = Level::detect().run(Steps { format: precision.p, ratios, block: &mut *block });
        let widths = [dim, dim + 1, 2 * dim + 3];
        let product = |weights: &[f64], values: &Panels, width: usize, out: &mut Vec<f64>| {
            out.resize(count * width, 0.0);
            multiply(Matrix { values: weights, width: keys }, values, count, keys, out, width);
        };
        product(&block.steps, &keys_model.magnitudes, widths[0], &mut block.by_steps);
        product(&block.steps_squared, &keys_model.squares, widths[1], &mut block.by_steps_squared);
        product(&block.squares, &keys_model.powers, widths[2], &mut block.by_squares);
        if any_lost {
            product(&block.lost, &keys_model.magnitudes, widths[0], &mut block.by_lost);
        }
        let whole = precision.inputs == crate::tolerance::InputPrecision::F16;
        if whole {
            product(&block.p, &keys_model.magnitudes, widths[0], &mut block.by_weights);
        }
        for (index, row) in rows.enumerate() {
            let RowSum { sum, sink, magnitude, reach, visible } = block.sums[index];
            let sizes = self.sizes(row, magnitude, reach);
            let model = precision.row(sizes, dim, visible);
            if sum <= 0.0 {
                result.limits.resize(result.limits.len() + dim, 0.0);
                result.lse_limits.push(0.0);
                result.moments.push(RowMoments::default());
                continue;
            }
            let line = |values: &'_ Vec<f64>, width: usize, there: bool| {
                if there { values[index * width..(index + 1) * width].to_vec() } else { vec![0.0; width] }
            };
            let over = RowProducts {
                output: line(&block.output, dim, true),
                steps: line(&block.by_steps, dim, true),
                steps_squared: line(&block.by_steps_squared, dim + 1, true),
                squares: line(&block.by_squares, 2 * dim + 3, true),
                lost: line(&block.by_lost, dim, any_lost),
                weights: line(&block.by_weights, dim, whole),
                sum,
                sink,
            };
            result.moments.push(over.moments(&model, &mut result.limits));
            let lse = result.lse[result.lse_limits.len()];
            result.lse_limits.push(lse_limit(&model, sizes, lse, visible));
        }
    }

    /// Magnitudes of a row's scores, in units of log₂.
    fn sizes(&self, row: usize, magnitude: f64, largest: f64) -> ScoreSizes {
        let q = &self.q[row * self.dim..(row + 1) * self.dim];
        let largest_query = q.iter().fold(0.0, |largest: f64, q| largest.max(q.abs()));
        let norm = q.iter().map(|q| q * q).sum::<f64>().sqrt();
        ScoreSizes {
            reach: (largest_query * self.largest_key).max(magnitude) * LOG2_E,
            norm: norm * self.largest_key * LOG2_E,
            largest: largest * LOG2_E,
            cap: self.options.softcap.unwrap_or(0.0) * LOG2_E,
            roundings: if self.slope.is_some() { 7.0 } else { 4.0 },
        }
    }
}

/// `count` lines of `width`, also where the width is 0.
fn lines(values: &mut [f64], count: usize, width: usize) -> impl Iterator<Item = &mut [f64]> {
    let mut rest = values;
    (0..count).map(move |_| {
        let (line, after) = std::mem::take(&mut rest).split_at_mut(width);
        rest = after;
        line
    })
}

/// Half a step of the format at each weight of a block, and the weights that are cast to zero. Returns whether there are any.
struct Steps<'b> {
    format: PFormat,
    /// By key.
    ratios: &'b [f64],
    block: &'b mut Block,
}

impl Vectorized for Steps<'_> {
    type Output = bool;

    #[inline(always)]
    fn run(self) -> bool {
        let Steps { format, ratios, block } = self;
        let (floor, relative) = (format.floor(), format.relative());
        let Block { p, steps, steps_squared, squares, lost, .. } = block;
        let mut largest_lost: f64 = 0.0;
        let keys = ratios.len().max(1);
        let lines = p.chunks(keys).zip(steps.chunks_mut(keys)).zip(steps_squared.chunks_mut(keys));
        for ((((p, steps), steps_squared), squares), lost) in
            lines.zip(squares.chunks_mut(keys)).zip(lost.chunks_mut(keys))
        {
            let keys = ratios.iter().zip(p).zip(steps).zip(steps_squared).zip(squares).zip(lost);
            for (((((&ratio, &p), step), step_squared), square), lost) in keys {
                let floor = floor * ratio;
                #[expect(clippy::float_cmp, reason = "the largest weight is e^0, exactly")]
                let exact = p == 1.0 && ratio == 1.0;
                let half = (relative * p.min(0.5 * ratio)).max(floor);
                let half = if (p <= floor) | exact { 0.0 } else { half };
                *step = half;
                *step_squared = half * half;
                *square = p * p;
                *lost = if p <= floor { p } else { 0.0 };
                largest_lost = largest_lost.max(*lost);
            }
        }
        largest_lost > 0.0
    }
}

/// For each key, the largest scale among the rows of its tile divided by its own.
fn tile_ratios(v: Option<&Quantized>, batch: usize, head: usize, keys: usize) -> Vec<f64> {
    let Some(v) = v.filter(|v| v.granularity == Granularity::Row) else { return vec![1.0; keys] };
    let scales: Vec<f64> = (0..keys).map(|key| f64::from(v.scale_of(batch, head, key))).collect();
    let ratios = |tile: &[f64]| {
        let largest = tile.iter().copied().fold(0.0, f64::max);
        tile.iter().map(|scale| largest / scale).collect::<Vec<_>>()
    };
    scales.chunks(BLOCK_ROWS).flat_map(ratios).collect()
}

impl KeySums {
    fn new(precision: Precision, v: &[f64], dim: usize, ratios: Vec<f64>) -> KeySums {
        let magnitudes: Vec<f64> = v.iter().map(|v| v.abs()).collect();
        let (mut squares, mut powers) = (Vec::new(), Vec::new());
        for row in v.chunks(dim.max(1)) {
            let mean = row.iter().sum::<f64>() / (dim as f64);
            squares.extend(row.iter().map(|v| v * v).chain([mean * mean]));
            powers.extend(row.iter().map(|v| v * v).chain([mean * mean]));
            powers.extend(row.iter().copied().chain([mean, 1.0]));
        }
        let magnitudes = Panels::of(&magnitudes, dim);
        let (squares, powers) = (Panels::of(&squares, dim + 1), Panels::of(&powers, 2 * dim + 3));
        KeySums { precision, ratios, magnitudes, squares, powers }
    }
}

#[derive(Clone, Copy)]
struct RowSum {
    /// l
    sum: f64,
    /// The sink's part of it.
    sink: f64,
    /// The largest magnitude of a score, before a soft cap.
    magnitude: f64,
    /// The largest magnitude that an exponent is computed from.
    reach: f64,
    /// The keys that it sees, from the first step of the tensor core on.
    visible: usize,
}

/// Buffers of a block of query rows, reused for the next block. The first are `[query][key]`, the rest
/// `[query][…]`.
#[derive(Default)]
struct Block {
    p: Vec<f64>,
    cast: Vec<f64>,
    steps: Vec<f64>,
    steps_squared: Vec<f64>,
    squares: Vec<f64>,
    lost: Vec<f64>,
    sums: Vec<RowSum>,
    output: Vec<f64>,
    by_steps: Vec<f64>,
    by_steps_squared: Vec<f64>,
    by_squares: Vec<f64>,
    by_lost: Vec<f64>,
    by_weights: Vec<f64>,
}

/// The products of a row's weights with the data of [`KeySums`].
struct RowProducts {
    output: Vec<f64>,
    steps: Vec<f64>,
    steps_squared: Vec<f64>,
    squares: Vec<f64>,
    lost: Vec<f64>,
    weights: Vec<f64>,
    sum: f64,
    sink: f64,
}

impl RowProducts {
    /// Adds the limits of the row, and returns its moments.
    fn moments(&self, model: &RowModel, limits: &mut Vec<f32>) -> RowMoments {
        let dim = self.output.len();
        let (l, l2) = (self.sum, self.sum * self.sum);
        // The sink is a key whose value is 0.
        let total = self.squares[2 * dim + 2] + self.sink * self.sink;
        // Σ p² (v − o)²; the last column contains the means over the row.
        let scatter = |d: usize, output: f64| {
            let sum = self.squares[d] - 2.0 * output * self.squares[dim + 1 + d] + output * output * total;
            sum.max(0.0) / l2
        };
        let count = (dim as f64).max(1.0);
        let mut moments = RowMoments::default();
        let mut own = 0.0;
        for (d, &output) in self.output.iter().enumerate() {
            let element = model.element(&Sums {
                output,
                magnitude: self.weights[d] / l,
                squares: self.squares[d] / l2,
                scatter: scatter(d, output),
                steps_squared: self.steps_squared[d] / l2,
                steps: self.steps[d] / l,
                lost: self.lost[d] / l,
            });
            limits.push(upward(element.limit));
            moments.variance += element.variance / count;
            moments.systematic += element.systematic / count;
            moments.systematic_squared += element.systematic.powi(2) / count;
            let rounded = model.format.decode(model.format.encode(output));
            moments.rounding += (rounded - output) / count;
            own += element.own / count;
        }
        let mean = self.output.iter().sum::<f64>() / count;
        let shared = self.steps_squared[dim] / (3.0 * l2) + model.score.powi(2) * scatter(dim, mean);
        moments.mean_variance = shared + own;
        moments.spread = (moments.variance - shared).max(0.0);
        moments
    }
}

/// A limit as f32, rounded up.
fn upward(limit: f64) -> f32 {
    (limit as f32).next_up()
}
