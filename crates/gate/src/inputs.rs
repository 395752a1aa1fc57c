//! Inputs of a task: the same bits from the same seed on every machine.
//!
//! Random bits are SplitMix64, started from the seed and the input's name, so that neither the order of inputs nor a further one
//! changes them. A normal number is the sum of twelve even ones less six: integers and one exact division.

use std::collections::BTreeMap;

use warpproof_sim::schedule::SplitMix;

use crate::dtype::Dtype;
use crate::reference::{MAX_ELEMENTS, Tensor, real};
use crate::task::{Axes, Distribution, Problem, Task, Values, dims};

/// The period of structured inputs: prime, so that no tile or row repeats it.
const PERIOD: usize = 1009;

/// An input as a kernel reads it.
#[derive(Clone, Debug, PartialEq)]
pub struct Input {
    /// Its name.
    pub name: String,
    /// Its type.
    pub dtype: Dtype,
    /// Its extents and values, after they were stored in its type.
    pub tensor: Tensor,
}

impl Input {
    /// Its bytes.
    pub fn bytes(&self) -> Vec<u8> {
        self.dtype.bytes(&self.tensor.values)
    }
}

/// The inputs of a task for some extents, one of its dtypes, a distribution and a seed.
pub fn generate(
    task: &Task,
    axes: &Axes,
    each: Dtype,
    distribution: &Distribution,
    seed: u64,
) -> Result<Vec<Input>, Problem> {
    let mut inputs = Vec::with_capacity(task.data.inputs.len());
    for input in &task.data.inputs {
        let dims = dims(&input.dims, axes)?;
        let elements: usize = dims.iter().product();
        if elements > MAX_ELEMENTS {
            let sentence =
                format!("input `{}` has {elements} elements; at most {MAX_ELEMENTS}", input.name.value);
            return Err(Problem::new(input.name.span.clone(), sentence));
        }
        let dtype = input.dtype.with(each);
        let mut random = SplitMix(seed ^ start(&input.name));
        let row = dims.last().copied().unwrap_or(1).max(1);
        let values: Vec<f64> = if let Some((low, high)) = &input.range {
            let ends = crate::task::values_of(&[low, high], axes)?;
            (0..elements).map(|_| real_of(between(&mut random, ends[0], ends[1].max(ends[0])))).collect()
        } else {
            let chosen = distribution.inputs.is_empty() || distribution.inputs.contains(&input.name);
            let values = if chosen { distribution.values } else { Values::Normal { mean: 0.0, std: 1.0 } };
            fill(values, dtype, elements, row, &mut random)
        };
        let values = values.into_iter().map(|value| dtype.round(value)).collect();
        inputs.push(Input { name: input.name.value.clone(), dtype, tensor: Tensor { dims, values } });
    }
    Ok(inputs)
}

/// Inputs by name, as references take them.
pub fn tensors(inputs: &[Input]) -> BTreeMap<String, Tensor> {
    inputs.iter().map(|input| (input.name.clone(), input.tensor.clone())).collect()
}

fn start(name: &str) -> u64 {
    let hash = blake3::hash(name.as_bytes());
    hash.as_bytes().iter().take(8).fold(0, |bits, byte| bits << 8 | u64::from(*byte))
}

/// From [0, 1), 53 bits.
fn even(random: &mut SplitMix) -> f64 {
    real(usize::try_from(random.next() >> 11).unwrap_or(0)) / 9_007_199_254_740_992.0
}

/// Mean 0 and variance 1.
fn normal(random: &mut SplitMix) -> f64 {
    let mut sum = 0usize;
    for _ in 0..3 {
        let bits = random.next();
        for shift in [0, 16, 32, 48] {
            sum += usize::try_from((bits >> shift) & 0xffff).unwrap_or(0);
        }
    }
    (real(sum) - 393_210.0) / 65536.0
}

fn between(random: &mut SplitMix, low: i64, high: i64) -> i64 {
    let count = i128::from(high) - i128::from(low) + 1;
    let wide = u128::from(random.next()) * count.unsigned_abs();
    let value = i128::from(low) + i128::try_from(wide >> 64).unwrap_or(0);
    i64::try_from(value).unwrap_or(high)
}

#[expect(clippy::as_conversions, clippy::cast_precision_loss, reason = "indices of tensors are below 2^53")]
fn real_of(value: i64) -> f64 {
    value as f64
}

fn fill(values: Values, dtype: Dtype, elements: usize, row: usize, random: &mut SplitMix) -> Vec<f64> {
    let each = |value: &mut dyn FnMut(usize) -> f64| (0..elements).map(value).collect();
    match values {
        Values::Normal { mean, std } => each(&mut |_| mean + std * normal(random)),
        Values::Uniform { low, high } => each(&mut |_| low + (high - low) * even(random)),
        Values::Wide { octaves } => each(&mut |_| {
            let octaves = f64::from(octaves);
            let exponent = (2.0 * even(random) - 1.0) * octaves;
            // A power of two and an even mantissa: exact, where 2^x would differ in its last bits between machines.
            let magnitude = power_of_two(exponent.floor()) * (1.0 + even(random));
            let limited = magnitude.min(dtype.largest() / 2.0);
            if random.next() & 1 == 0 { limited } else { -limited }
        }),
        Values::Constant { value } => each(&mut |_| value),
        Values::OneHot { value, background } => {
            let mut place = 0;
            each(&mut |at| {
                if at % row == 0 {
                    place = usize::try_from(random.next() % u64::try_from(row).unwrap_or(1)).unwrap_or(0);
                }
                if at % row == place { value } else { background }
            })
        }
        Values::Large { fraction } => {
            // Six deviations are the most that a normal number here has.
            let scale = dtype.largest() * fraction / 6.0;
            each(&mut |_| scale * normal(random))
        }
        Values::Structured => each(&mut |at| real(at % PERIOD) / real(PERIOD) - 0.5),
        // The family makes its own.
        Values::Attention { .. } => each(&mut |_| normal(random)),
    }
}

fn power_of_two(exponent: f64) -> f64 {
    let mut value = 1.0;
    let mut left = exponent.abs().min(64.0);
    while left >= 1.0 {
        value *= 2.0;
        left -= 1.0;
    }
    if exponent < 0.0 { 1.0 / value } else { value }
}
