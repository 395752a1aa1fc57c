//! Deterministic inputs: the same bits from the same seed on every machine.
//!
//! An element's value depends on the seed, the tensor, and its batch, head, row and column, never on the
//! layout or on the other generated elements. Its random bits are SplitMix64 of a counter that starts at a
//! hash of those numbers. A normal deviate is the sum of twelve 16-bit uniforms minus its mean (variance 12 ·
//! 1/12 = 1, range ±6): this needs only integers and one exact division, while the usual logarithm and cosine
//! would differ in their last bits between platforms.

use crate::format::Format;
use crate::oracle;
use crate::plan::{Request, Scales};
use crate::problem::{Granularity, Layout, Rows, Shape, ShapeError};
use crate::quantize::{Element, Quantize};
use crate::tensor::{Quantized, Unquantizable, each_row};
use std::fmt;
use warpproof_num::random::SplitMix;

/// Distribution of the values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Distribution {
    /// Q, K and V are normal with mean 0 and deviation 1. Many keys share the weight, and their values
    /// cancel.
    #[default]
    Normal,
    /// V has mean 1 and deviation 1/4, which reveals a sum that shrinks.
    VMeanOne,
    /// Q is four times larger: the softmax is nearly one-hot.
    Peaked,
    /// As in language models: two channels of K and two others of Q are ten times larger, and one row of V in
    /// 64 is eight to sixteen times larger.
    Outliers,
}

impl Distribution {
    /// All distributions.
    pub const ALL: [Distribution; 4] =
        [Distribution::Normal, Distribution::VMeanOne, Distribution::Peaked, Distribution::Outliers];
}

impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Distribution::Normal => "normal",
            Distribution::VMeanOne => "v-mean-one",
            Distribution::Peaked => "peaked",
            Distribution::Outliers => "outliers",
        })
    }
}

/// How the inputs are stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spec {
    /// The format of the codes.
    pub format: Format,
    /// Which elements of Q share a scale.
    pub q: Granularity,
    /// Which elements of K share a scale.
    pub k: Granularity,
    /// Which elements of V share a scale.
    pub v: Granularity,
    /// The order of Q's axes.
    pub query_layout: Layout,
    /// The order of K's and V's axes.
    pub key_layout: Layout,
    /// Whether heads have sinks.
    pub sinks: bool,
    /// Whether heads have slopes.
    pub slopes: bool,
}

/// Q, K and V, and values of the heads.
#[derive(Clone, Debug)]
pub struct Inputs {
    /// Sizes.
    pub shape: Shape,
    /// Queries.
    pub q: Quantized,
    /// Keys.
    pub k: Quantized,
    /// Values.
    pub v: Quantized,
    /// For each query head, a logit that joins the sum of the softmax, if the request has sinks.
    pub sinks: Option<Vec<f32>>,
    /// For each query head, the slope of ALiBi, if the request has it.
    pub slopes: Option<Vec<f32>>,
}

/// Why inputs are inconsistent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inconsistent {
    /// The shape is invalid.
    Shape(ShapeError),
    /// The rows, codes or scales of the tensor of this name do not match the shape.
    Tensor(char),
    /// These values of the heads are missing, not finite, not one for each head, or not part of the request.
    Heads(&'static str),
}

impl fmt::Display for Inconsistent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Inconsistent::Shape(error) => error.fmt(f),
            Inconsistent::Tensor(name) => write!(f, "{name}: rows, codes or scales do not match the shape"),
            Inconsistent::Heads(name) => {
                write!(
                    f,
                    "{name}: expected one finite number per query head if the request has them, else none"
                )
            }
        }
    }
}

impl std::error::Error for Inconsistent {}

impl Inputs {
    /// Checks that the tensors have every row of the shape.
    pub fn check(&self) -> Result<(), Inconsistent> {
        consistent(&self.shape, [&self.q, &self.k, &self.v])?;
        for_heads("sinks", &self.shape, self.sinks.as_deref())?;
        for_heads("slopes", &self.shape, self.slopes.as_deref())
    }

    /// Checks that there are values of heads if the request has them.
    pub(crate) fn has_heads_of(&self, request: &Request) -> Result<(), Inconsistent> {
        heads_of(request, [self.sinks.as_deref(), self.slopes.as_deref()])
    }
}

/// Checks that sinks and slopes are those of a request.
pub(crate) fn heads_of(request: &Request, [sinks, slopes]: [Option<&[f32]>; 2]) -> Result<(), Inconsistent> {
    for (name, wanted, values) in [("sinks", request.sinks, sinks), ("slopes", request.alibi, slopes)] {
        for_heads(name, &request.shape, values)?;
        if wanted != values.is_some() {
            return Err(Inconsistent::Heads(name));
        }
    }
    Ok(())
}

/// Checks that values are finite, one for each query head.
pub(crate) fn for_heads(
    name: &'static str,
    shape: &Shape,
    values: Option<&[f32]>,
) -> Result<(), Inconsistent> {
    match values {
        Some(values) if values.len() != shape.heads || values.iter().any(|value| !value.is_finite()) => {
            Err(Inconsistent::Heads(name))
        }
        _ => Ok(()),
    }
}

/// Checks that Q, K and V have every row of the shape, in any layout, format and granularity.
pub(crate) fn consistent(shape: &Shape, [q, k, v]: [&Quantized; 3]) -> Result<(), Inconsistent> {
    shape.check().map_err(Inconsistent::Shape)?;
    let rows =
        [shape.query_rows(q.rows.layout), shape.key_rows(k.rows.layout), shape.key_rows(v.rows.layout)];
    for ((name, tensor), rows) in [('Q', q), ('K', k), ('V', v)].into_iter().zip(&rows) {
        if !tensor.fits(rows, tensor.format, tensor.granularity) {
            return Err(Inconsistent::Tensor(name));
        }
    }
    Ok(())
}

/// Generates inputs of a distribution. For a shape that [`Shape::check`] rejects, the tensors are empty and
/// [`Inputs::check`] rejects them.
pub fn generate(shape: &Shape, distribution: Distribution, seed: u64, spec: Spec) -> Inputs {
    let make = |tensor, granularity, rows: Rows| {
        if shape.check().is_err() {
            let rows = Shape::equal(0, 0, 0, 0).query_rows(rows.layout);
            return Quantized::of_all(&[], rows, spec.format, granularity);
        }
        let values = values(tensor, distribution, seed, &rows);
        Quantized::of_all(&values, rows, spec.format, granularity)
    };
    Inputs {
        shape: shape.clone(),
        q: make(TensorName::Q, spec.q, shape.query_rows(spec.query_layout)),
        k: make(TensorName::K, spec.k, shape.key_rows(spec.key_layout)),
        v: make(TensorName::V, spec.v, shape.key_rows(spec.key_layout)),
        sinks: (spec.sinks && shape.check().is_ok()).then(|| sinks(shape.heads, seed)),
        slopes: (spec.slopes && shape.check().is_ok()).then(|| alibi_slopes(shape.heads)),
    }
}

/// The slopes of the ALiBi paper for a power of two of heads: 2^(-8/heads), and its powers; for other numbers
/// of heads the same formula.
#[expect(
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "few heads, rounded to f32"
)]
pub fn alibi_slopes(heads: usize) -> Vec<f32> {
    (1..=heads).map(|head| (-8.0 * head as f64 / heads as f64).exp2() as f32).collect()
}

/// Logits of mean 4: about as heavy as fifty average keys, so that their absence is visible.
fn sinks(heads: usize, seed: u64) -> Vec<f32> {
    let sink = |head: usize| {
        let start = mix(mix(mix(seed).wrapping_add(SINKS)).wrapping_add(wide(head)));
        4.0 + Counter(SplitMix(start)).normal()
    };
    (0..heads).map(sink).collect()
}

/// Distinguishes the random numbers of sinks from those of tensors.
const SINKS: u64 = 4;

/// Q, K and V before quantization, in one layout.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the names of the operands")]
pub struct Tensors {
    pub shape: Shape,
    pub layout: Layout,
    pub q: Vec<f32>,
    pub k: Vec<f32>,
    pub v: Vec<f32>,
}

impl Tensors {
    /// Values of a distribution, which [`generate`] quantizes. Empty for a shape that [`Shape::check`] rejects.
    pub fn generate(shape: &Shape, distribution: Distribution, seed: u64, layout: Layout) -> Tensors {
        Tensors::of(shape, layout, |tensor, rows| values(tensor, distribution, seed, rows))
    }

    /// Values like the activations of a language model. One channel in 16 of K has a mean of 8 to 16 and a deviation
    /// of 2, one in 16 of Q a mean of 2 to 4; all other channels have means of deviation 1/2 and deviation 1. The
    /// channels of a head are the same in every sequence. Tails are heavy: one element in 16 is twice as large, one
    /// in 128 four times.
    pub fn activations(shape: &Shape, seed: u64, layout: Layout) -> Tensors {
        Tensors::of(shape, layout, |tensor, rows| activations(tensor, seed, rows))
    }

    fn of(shape: &Shape, layout: Layout, make: impl Fn(TensorName, &Rows) -> Vec<f32>) -> Tensors {
        let make = |tensor, rows: Rows| if shape.check().is_ok() { make(tensor, &rows) } else { Vec::new() };
        Tensors {
            q: make(TensorName::Q, shape.query_rows(layout)),
            k: make(TensorName::K, shape.key_rows(layout)),
            v: make(TensorName::V, shape.key_rows(layout)),
            shape: shape.clone(),
            layout,
        }
    }

    /// Quantizes all three, as [`crate::Quantizer`] does for f32; `smooth` subtracts the mean of K.
    pub fn quantize(&self, format: Format, scales: Scales, smooth: bool) -> Result<Inputs, Unquantizable> {
        let one = |values: &[f32], rows: Rows, granularity, smooth| {
            let request =
                Quantize { element: Element::F32, format, granularity, smooth, ..Quantize::new(rows) };
            Ok(oracle::quantize::quantize(values, &request)?.tensor)
        };
        let keys = || self.shape.key_rows(self.layout);
        Ok(Inputs {
            q: one(&self.q, self.shape.query_rows(self.layout), scales.q, false)?,
            k: one(&self.k, keys(), scales.k, smooth)?,
            v: one(&self.v, keys(), scales.v, false)?,
            shape: self.shape.clone(),
            sinks: None,
            slopes: None,
        })
    }
}

/// An operand of attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names of the operands")]
pub enum TensorName {
    Q,
    K,
    V,
}

impl Request {
    /// How an operand is quantized from elements of a type; `smooth` is for K.
    pub fn quantize(&self, tensor: TensorName, element: Element, smooth: bool) -> Quantize {
        let (rows, granularity) = match tensor {
            TensorName::Q => (self.shape.query_rows(self.layout), self.scales.q),
            TensorName::K => (self.shape.key_rows(self.layout), self.scales.k),
            TensorName::V => (self.shape.key_rows(self.layout), self.scales.v),
        };
        Quantize {
            element,
            format: self.format,
            granularity,
            smooth,
            lengths_on_device: self.lengths_on_device,
            ..Quantize::new(rows)
        }
    }
}

/// Inputs of a request whose keys are smoothed before quantization, and the mean that was subtracted.
pub fn generate_smoothed(
    request: &Request,
    distribution: Distribution,
    seed: u64,
) -> Result<(Inputs, Vec<f32>), Unquantizable> {
    let plain = generate(&request.shape, distribution, seed, request.spec());
    let values = Tensors::generate(&request.shape, distribution, seed, request.layout).k;
    let smooth = oracle::quantize::quantize(&values, &request.quantize(TensorName::K, Element::F32, true))?;
    Ok((Inputs { k: smooth.tensor, ..plain }, smooth.mean.unwrap_or_default()))
}

fn values(tensor: TensorName, distribution: Distribution, seed: u64, rows: &Rows) -> Vec<f32> {
    let mut values = vec![0.0; rows.elements()];
    for (batch, head, row) in each_row(rows) {
        let at = rows.offset(batch, head, row);
        let start = [index(tensor), wide(batch), wide(head), wide(row)]
            .into_iter()
            .fold(mix(seed), |state, number| mix(state.wrapping_add(number)));
        let mut counter = Counter(SplitMix(start));
        // The outlier channels of a head are the same in every sequence and row.
        let channels = outlier_channels(mix(mix(seed) ^ wide(head)), rows.dim);
        let row_factor = outlier_factor(mix(start));
        for (d, value) in values[at..at + rows.dim].iter_mut().enumerate() {
            let normal = counter.normal();
            *value = match (distribution, tensor) {
                (Distribution::VMeanOne, TensorName::V) => 1.0 + 0.25 * normal,
                (Distribution::Peaked, TensorName::Q) => 4.0 * normal,
                (Distribution::Outliers, TensorName::Q) if channels.0.contains(&d) => 10.0 * normal,
                (Distribution::Outliers, TensorName::K) if channels.1.contains(&d) => 10.0 * normal,
                (Distribution::Outliers, TensorName::V) => row_factor * normal,
                _ => normal,
            };
        }
    }
    values
}

fn activations(tensor: TensorName, seed: u64, rows: &Rows) -> Vec<f32> {
    let hash =
        |numbers: &[u64]| numbers.iter().fold(mix(!seed), |state, number| mix(state.wrapping_add(*number)));
    // For each head and channel, its mean and deviation.
    let channels: Vec<(f32, f32)> = (0..rows.heads)
        .flat_map(|head| {
            let mut counter = Counter(SplitMix(hash(&[index(tensor), wide(head)])));
            let [outlier, ..] = counter.next().to_le_bytes();
            (0..rows.dim).map(move |d| {
                let small = 0.5 * counter.normal();
                let [size, sign, ..] = counter.next().to_le_bytes();
                let large = (8.0 + f32::from(size) / 32.0) * if sign % 2 == 0 { 1.0 } else { -1.0 };
                match tensor {
                    TensorName::K if d % 16 == usize::from(outlier) % 16 => (large, 2.0),
                    TensorName::Q if d % 16 == usize::from(outlier) % 16 => (0.25 * large, 1.0),
                    _ => (small, 1.0),
                }
            })
        })
        .collect();
    let mut values = vec![0.0; rows.elements()];
    for (batch, head, row) in each_row(rows) {
        let at = rows.offset(batch, head, row);
        let mut counter =
            Counter(SplitMix(hash(&[index(tensor), wide(head), wide(batch), wide(row).wrapping_add(1)])));
        let own = channels[head * rows.dim..].iter();
        for (value, (mean, deviation)) in values[at..at + rows.dim].iter_mut().zip(own) {
            let normal = counter.normal();
            let [tail, ..] = counter.next().to_le_bytes();
            let tail = match tail % 128 {
                0 => 4.0,
                1..=8 => 2.0,
                _ => 1.0,
            };
            *value = mean + deviation * tail * normal;
        }
    }
    values
}

fn index(tensor: TensorName) -> u64 {
    match tensor {
        TensorName::Q => 1,
        TensorName::K => 2,
        TensorName::V => 3,
    }
}

fn wide(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

/// Two channels of Q and two of K. They differ: otherwise the few products of two large elements would
/// dominate every score.
fn outlier_channels(bits: u64, dim: usize) -> ([usize; 2], [usize; 2]) {
    let quarter = (dim / 4).max(1);
    let within = |shift: u32| usize::from(bits.to_le_bytes()[usize::try_from(shift).unwrap_or(0)]) % quarter;
    ([within(0), 2 * quarter + within(1)], [quarter + within(2), 3 * quarter + within(3)])
}

/// 8 to 16 for one row in 64, else 1.
fn outlier_factor(bits: u64) -> f32 {
    let [choice, size, ..] = bits.to_le_bytes();
    if choice.is_multiple_of(64) { 8.0 + f32::from(size) / 32.0 } else { 1.0 }
}

/// SplitMix64's hash of a number.
fn mix(state: u64) -> u64 {
    SplitMix(state).next()
}

/// SplitMix64: hashes of a counter.
struct Counter(SplitMix);

impl Counter {
    fn next(&mut self) -> u64 {
        self.0.next()
    }

    /// Mean 0, deviation 1. Twelve numbers below 2^16 sum to at most 12 · 65535, whose midpoint is 393210;
    /// the sum is an exact f32, and so is its quotient by 2^16.
    fn normal(&mut self) -> f32 {
        let mut sum = 0i32;
        for _ in 0..3 {
            let bits = self.next();
            for shift in [0, 16, 32, 48] {
                sum += i32::try_from((bits >> shift) & 0xffff).unwrap_or(0);
            }
        }
        exact(sum - 393_210) / 65536.0
    }
}

#[expect(clippy::as_conversions, clippy::cast_precision_loss, reason = "numbers below 2^24 are exact in f32")]
fn exact(number: i32) -> f32 {
    number as f32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::Lengths;

    fn spec(layout: Layout) -> Spec {
        Spec { query_layout: layout, key_layout: layout, ..Spec::default() }
    }

    fn moments(values: &[f64]) -> (f64, f64) {
        let count = f64::from(u32::try_from(values.len()).unwrap());
        let mean = values.iter().sum::<f64>() / count;
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count;
        (mean, variance.sqrt())
    }

    #[test]
    fn seeds_give_the_same_bits_forever() {
        // SplitMix64's published sequence for the seed 1234567.
        let mut counter = Counter(SplitMix(1_234_567));
        assert_eq!(counter.next(), 6_457_827_717_110_365_317);
        assert_eq!(counter.next(), 3_203_168_211_198_807_973);
        let inputs = generate(&Shape::equal(1, 1, 2, 64), Distribution::Normal, 7, Spec::default());
        let again = generate(&Shape::equal(1, 1, 2, 64), Distribution::Normal, 7, Spec::default());
        assert_eq!(inputs.q.codes, again.q.codes);
        assert_ne!(inputs.q.codes, inputs.k.codes);
        let other = generate(&Shape::equal(1, 1, 2, 64), Distribution::Normal, 8, Spec::default());
        assert_ne!(inputs.q.codes, other.q.codes);
    }

    #[test]
    fn a_shape_that_cannot_be_has_no_inputs() {
        let shape = Shape { heads: usize::MAX, kv_heads: usize::MAX, ..Shape::equal(1, 1, 2, 64) };
        let inputs = generate(&shape, Distribution::Normal, 0, Spec::default());
        assert_eq!(inputs.check(), Err(Inconsistent::Shape(ShapeError::Rows)));
        assert!(inputs.q.codes.is_empty());
    }

    #[test]
    fn distributions_are_as_described() {
        let shape = Shape::equal(1, 2, 256, 64);
        let of = |distribution| generate(&shape, distribution, 1, Spec::default());
        let near = |got: (f64, f64), mean: f64, deviation: f64| {
            assert!((got.0 - mean).abs() < 0.03 * deviation.max(1.0), "{got:?}");
            assert!((got.1 / deviation - 1.0).abs() < 0.03, "{got:?}");
        };
        let normal = of(Distribution::Normal);
        near(moments(&normal.q.dequantize()), 0.0, 1.0);
        near(moments(&normal.k.dequantize()), 0.0, 1.0);
        near(moments(&normal.v.dequantize()), 0.0, 1.0);
        near(moments(&of(Distribution::VMeanOne).v.dequantize()), 1.0, 0.25);
        near(moments(&of(Distribution::Peaked).q.dequantize()), 0.0, 4.0);
        let outliers = of(Distribution::Outliers);
        let large = |values: &[f64]| values.iter().filter(|value| value.abs() > 7.0).count();
        assert!(large(&outliers.q.dequantize()) > 512 / 2);
        assert!(large(&outliers.k.dequantize()) > 512 / 2);
        assert!(large(&outliers.v.dequantize()) > 64);
        assert_eq!(large(&normal.v.dequantize()), 0);
    }

    #[test]
    fn activations_have_channels_with_a_large_mean() {
        let shape = Shape::equal(1, 2, 256, 64);
        let tensors = Tensors::activations(&shape, 1, Layout::Bshd);
        let large = |values: &[f32]| {
            let mean = |channel: usize| {
                let own = values.iter().skip(channel).step_by(128).map(|value| f64::from(*value));
                moments(&own.collect::<Vec<f64>>()).0
            };
            (0..128).filter(|channel| mean(*channel).abs() > 7.0).count()
        };
        assert_eq!([&tensors.q, &tensors.k, &tensors.v].map(|values| large(values)), [0, 8, 0]);
        let again = Tensors::activations(&shape, 1, Layout::Bhsd);
        let (rows, other) = (shape.key_rows(Layout::Bshd), shape.key_rows(Layout::Bhsd));
        let at = |rows: &Rows| rows.offset(0, 1, 77);
        assert_eq!(tensors.k[at(&rows)..][..64], again.k[at(&other)..][..64]);
        assert_ne!(tensors.k, Tensors::activations(&shape, 2, Layout::Bshd).k);
    }

    #[test]
    fn values_do_not_depend_on_layout_or_neighbors() {
        let lengths = |rows| Lengths { queries: rows, keys: rows };
        let two = Shape { heads: 2, kv_heads: 2, dim: 8, sequences: vec![lengths(5), lengths(3)] };
        let one = Shape { sequences: vec![lengths(5)], ..two.clone() };
        let spec = |layout| Spec { q: Granularity::Row, ..spec(layout) };
        let first = generate(&two, Distribution::Normal, 3, spec(Layout::Bhsd));
        let second = generate(&one, Distribution::Normal, 3, spec(Layout::Bshd));
        for (batch, head, row) in each_row(&second.q.rows) {
            assert_eq!(first.q.row(batch, head, row), second.q.row(batch, head, row));
        }
    }
}
