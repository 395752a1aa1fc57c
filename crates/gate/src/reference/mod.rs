//! Expected outputs: built-in operators in f64, with the error that a correct kernel may have.
//!
//! # Where the limits come from
//!
//! Each operator gives, for every element, how its roundings add up: a variance V of the random part, a bound W that
//! is never exceeded, and a systematic part B. Inputs are taken as the kernel reads them, so their own format
//! contributes no error. Then
//!
//! - the output is stored in its type, which moves it by at most half a step w (variance w²/3);
//! - an element may be off by min(6 √V, W) + B + w: six deviations, as in [`warpproof_tolerance`], where the chance
//!   e^-18 is derived and from where the limits of the root mean square and of the bias are taken too;
//! - errors within a row of softmax and layer norm share a cause (its sum, its mean), so a row counts once for both, and rows
//!   that are the same count as one.
//!
//! Where inputs and sums are integers nothing is rounded: outputs are compared exactly (`integer`).
//!
//! A sum of n terms of magnitudes A = Σ|t| in a format with unit u makes n roundings, each of at most u times a partial sum, and
//! a partial sum is at most A: V = n (uA)²/3, W = n u A. Every order of summation is covered, blocked ones are better. On tensor
//! cores terms are cut instead of rounded; their V and B are those derived in the attention family for N = n/8 steps on f16
//! (V = N · 13/12 · 2^-46 A², B = 2.75 · 2^-23 (N + 1)/2 A) and N = n/16 on FP8 (V = N · 6 · 2^-26 A², B = 9 · 2^-13 (N + 1)/2 A).

pub mod files;
mod integer;
mod null;
mod operators;
pub mod python;

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

use warpproof_tolerance::error::{Errors, NonFinite as Policy};
use warpproof_tolerance::{CONFIDENCE, Judgement, RowMoments, Tolerance};

pub use null::Null;

use warpproof_evidence::counterexample::{Mismatch, Output};
use warpproof_task::dtype::Dtype;
use warpproof_task::{Accumulate, NonFinite, Operator};

/// Elements of the largest tensor a reference computes.
pub const MAX_ELEMENTS: usize = 1 << 28;
/// Multiplications of the largest product.
pub const MAX_PRODUCTS: usize = 1 << 36;

/// A tensor's exact values, the last axis running fastest.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tensor {
    /// Extents.
    pub dims: Vec<usize>,
    /// Values.
    pub values: Vec<f64>,
}

impl Tensor {
    /// A tensor, where values and extents agree.
    pub fn new(dims: Vec<usize>, values: Vec<f64>) -> Result<Tensor, Unfit> {
        let elements = dims.iter().try_fold(1usize, |all, extent| all.checked_mul(*extent));
        if elements != Some(values.len()) || values.len() > MAX_ELEMENTS {
            return Err(Unfit(format!("{} values do not match the extents {dims:?}", values.len())));
        }
        Ok(Tensor { dims, values })
    }

    /// The extent of the last axis.
    fn row(&self) -> usize {
        self.dims.last().copied().unwrap_or(1).max(1)
    }
}

/// Inputs that an operator cannot take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfit(pub String);

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unfit {}

/// A computation of a built-in operator.
#[derive(Clone, Copy, Debug)]
pub struct Problem<'a> {
    /// The operator.
    pub operator: &'a Operator,
    /// Inputs by name, as the kernel reads them.
    pub inputs: &'a BTreeMap<String, Tensor>,
    /// Extents, for elementwise expressions that use them.
    pub axes: &'a BTreeMap<String, u64>,
    /// The type of the output.
    pub output: Dtype,
    /// How sums are kept.
    pub accumulate: Accumulate,
}

/// An expected output.
#[derive(Clone, Debug)]
pub struct Expected {
    /// The exact output.
    pub tensor: Tensor,
    /// How far a kernel's output may be from it.
    pub tolerance: Tolerance,
    /// The type of the output.
    pub dtype: Dtype,
    /// Elements whose errors may share a cause.
    pub row: usize,
    /// For integers: the exact code of each element, because f64 does not hold all 64 bits.
    pub codes: Option<Vec<u64>>,
}

/// One element: its exact value, and how roundings on the way to it add up.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Element {
    pub(crate) value: f64,
    pub(crate) variance: f64,
    pub(crate) worst: f64,
    pub(crate) systematic: f64,
}

/// How a sum is rounded, per magnitude of its terms.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Summing {
    pub(crate) variance: f64,
    pub(crate) worst: f64,
    pub(crate) systematic: f64,
}

impl Summing {
    /// The sum of n terms.
    pub(crate) fn of(accumulate: Accumulate, terms: usize) -> Summing {
        let count = real(terms);
        let u = accumulate.dtype().unit().relative;
        let (variance, systematic) = match accumulate {
            Accumulate::TensorF16 => {
                let steps = (count / 8.0).ceil();
                (steps * 13.0 / 12.0 * 2f64.powi(-46), 2.75 * 2f64.powi(-23) * (steps + 1.0) / 2.0)
            }
            Accumulate::TensorFp8 => {
                let steps = (count / 16.0).ceil();
                (steps * 6.0 * 2f64.powi(-26), 9.0 * 2f64.powi(-13) * (steps + 1.0) / 2.0)
            }
            _ => return Summing { variance: count * u * u / 3.0, worst: count * u, systematic: 0.0 },
        };
        // Blocks of tensor-core sums may be added in f32.
        let variance = variance + count * u * u / 3.0;
        Summing { variance, worst: f64::INFINITY, systematic }
    }
}

/// A count as a number.
#[expect(clippy::as_conversions, clippy::cast_precision_loss, reason = "counts are far below 2^53")]
pub(crate) fn real(count: usize) -> f64 {
    count as f64
}

/// The output of a built-in operator for these inputs. Attention has its own functions, in [`family::attention`](crate::family::attention).
pub fn expected(problem: &Problem<'_>) -> Result<Expected, Unfit> {
    if problem.accumulate.is_integer() {
        let exact = integer::evaluate(problem, None)?;
        let expected = limits(exact.dims.clone(), &integer::elements(&exact), 1, problem.output);
        let codes = exact.values.iter().map(|value| problem.output.of_integer(*value)).collect();
        return Ok(Expected { codes: problem.output.is_integer().then_some(codes), ..expected });
    }
    let (dims, elements) = operators::evaluate(problem, None)?;
    // Rows of these operators share a sum or a mean; elements of the others have their own sums.
    let shared = matches!(problem.operator, Operator::Softmax { .. } | Operator::LayerNorm { .. });
    let row = if shared { dims.last().copied().unwrap_or(1).max(1) } else { 1 };
    Ok(limits(dims, &elements, row, problem.output))
}

/// Values with a part of the reduction left out, as a kernel that skips a tile would compute them.
fn without(problem: &Problem<'_>, skip: fn(usize) -> Range<usize>) -> Result<Vec<f64>, Unfit> {
    let (_, elements) = operators::evaluate(problem, Some(skip))?;
    Ok(elements.iter().map(|element| element.value).collect())
}

/// Adds the rounding of the output, and finds the limits.
pub(crate) fn limits(dims: Vec<usize>, elements: &[Element], row: usize, dtype: Dtype) -> Expected {
    let deviations = (2.0 * CONFIDENCE).sqrt();
    let repeats = repeats(elements, row);
    let mut limits = Vec::with_capacity(elements.len());
    let mut rows = Vec::with_capacity(elements.len() / row + 1);
    for (elements, repeats) in elements.chunks(row).zip(repeats) {
        let count = real(elements.len());
        let mut moments = RowMoments::default();
        let mut deviation = 0.0;
        for element in elements {
            let step = if element.value.is_finite() { dtype.half_step(element.value) } else { 0.0 };
            let variance = element.variance + step * step / 3.0;
            let limit = (deviations * element.variance.sqrt()).min(element.worst) + element.systematic + step;
            limits.push(upward(limit));
            let rounding = dtype.round(element.value) - element.value;
            moments.variance += variance / count;
            moments.systematic += element.systematic / count;
            moments.systematic_squared += element.systematic * element.systematic / count;
            moments.rounding += if rounding.is_finite() { rounding / count } else { 0.0 };
            deviation += variance.sqrt() / count;
        }
        moments.mean_variance = deviation * deviation * repeats;
        // Identical rows have identical errors, which do not average out but stay within six standard
        // deviations.
        moments.variance *= repeats.min(2.0 * CONFIDENCE);
        // Without knowledge of which errors a row's elements share, assume that they share all of them.
        moments.spread = moments.variance;
        rows.push(moments);
    }
    let tolerance = Tolerance::new(limits, Vec::new(), &rows);
    let values = elements.iter().map(|element| element.value).collect();
    Expected { tensor: Tensor { dims, values }, tolerance, dtype, row, codes: None }
}

/// For each row, the number of identical rows.
fn repeats(elements: &[Element], row: usize) -> Vec<f64> {
    let key = |elements: &[Element]| match elements {
        [one] => one.value.to_bits(),
        many => {
            let mut hasher = blake3::Hasher::new();
            for element in many {
                hasher.update(&element.value.to_bits().to_le_bytes());
            }
            hasher.finalize().as_bytes().iter().take(8).fold(0, |key, byte| key << 8 | u64::from(*byte))
        }
    };
    let keys: Vec<u64> = elements.chunks(row).map(key).collect();
    let mut sorted = keys.clone();
    sorted.sort_unstable();
    let count = |key: &u64| {
        sorted.partition_point(|other| other <= key) - sorted.partition_point(|other| other < key)
    };
    keys.iter().map(|key| real(count(key))).collect()
}

/// Limits that the task states.
pub fn stated(tensor: Tensor, dtype: Dtype, absolute: f64, relative: f64, rmse: f64, bias: f64) -> Expected {
    let limits = tensor.values.iter().map(|value| upward(absolute + relative * value.abs())).collect();
    // The random part is unknown here: one sixth of the stated bias stands for its deviation.
    let standard_error = bias / (2.0 * CONFIDENCE).sqrt();
    let tolerance = Tolerance { limits, rmse, spread: rmse, bias, standard_error, lse: Vec::new() };
    let row = tensor.row();
    Expected { tensor, tolerance, dtype, row, codes: None }
}

/// The next f32 that is not smaller; finite, so that no limit accepts infinity.
#[expect(clippy::as_conversions, clippy::cast_possible_truncation, reason = "rounded upward by hand")]
fn upward(limit: f64) -> f32 {
    let near = limit as f32;
    let up = if f64::from(near) < limit { near.next_up() } else { near };
    // Any kernel may miss the value of an unbounded element; NaN stays NaN and accepts nothing.
    if up.is_nan() { up } else { up.min(f32::MAX) }
}

/// How an output that is not finite counts, as in the family's errors.
fn policy(non_finite: NonFinite) -> Policy {
    match non_finite {
        NonFinite::Refuse => Policy::Refuse,
        NonFinite::Match => Policy::Match,
    }
}

impl Expected {
    /// The values of an output, given as its bytes. Unequal integers count as different even where f64 cannot
    /// represent the difference.
    fn values(&self, output: &[u8]) -> Vec<f64> {
        let mut got = self.dtype.values(output);
        if let Some(codes) = &self.codes {
            let both = self.dtype.codes(output).zip(codes).zip(&self.tensor.values);
            for (got, ((code, right), value)) in got.iter_mut().zip(both) {
                if code != *right && got.total_cmp(value).is_eq() {
                    *got = value.next_up();
                }
            }
        }
        got
    }

    /// The exact values that an output is compared with: a value outside the type's range is infinite, where the
    /// policy counts that.
    fn compared(&self, policy: Policy) -> Vec<f64> {
        let held = |value: &f64| {
            let rounded = self.dtype.round(*value);
            if policy == Policy::Match && rounded.is_infinite() { rounded } else { *value }
        };
        self.tensor.values.iter().map(held).collect()
    }

    /// The errors of an output, given as its bytes.
    pub fn errors(&self, output: &[u8], non_finite: NonFinite) -> Errors {
        let got = self.values(output);
        let policy = policy(non_finite);
        Errors::measure(|at| got.get(at).copied(), &self.compared(policy), self.row, &self.tolerance, policy)
    }

    /// Where an output, given as its bytes, is wrong. The axes are those of the task.
    pub fn mismatch(&self, name: &str, axes: &[String], output: &[u8], non_finite: NonFinite) -> Mismatch {
        let policy = policy(non_finite);
        Mismatch::of(&Output {
            name,
            axes,
            dims: &self.tensor.dims,
            got: &self.values(output),
            expected: &self.compared(policy),
            limits: &self.tolerance.limits,
            non_finite: policy,
        })
    }

    /// The first element that cannot be compared: it is not finite in the output's type, and the task refuses that.
    pub fn incomparable(&self, non_finite: NonFinite) -> Option<(Vec<usize>, f64)> {
        if non_finite == NonFinite::Match {
            return None;
        }
        let held = |value: &f64| self.dtype.round(*value);
        let at =
            self.tensor.values.iter().position(|value| !held(value).is_finite() || !value.is_finite())?;
        let mut rest = at;
        let mut index: Vec<usize> = Vec::new();
        for extent in self.tensor.dims.iter().rev() {
            index.push(rest % (*extent).max(1));
            rest /= (*extent).max(1);
        }
        index.reverse();
        Some((index, self.tensor.values.get(at).copied().unwrap_or(f64::NAN)))
    }

    /// Whether an output is correct.
    pub fn judge(&self, output: &[u8], non_finite: NonFinite) -> (Errors, Judgement) {
        let errors = self.errors(output, non_finite);
        let judgement = self.tolerance.judge(&errors);
        (errors, judgement)
    }
}

#[cfg(test)]
mod tests;
