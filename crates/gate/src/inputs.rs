//! Inputs of a task: the same bits from the same seed on every machine.
//!
//! Random bits come from SplitMix64, seeded with the seed and the input's name, so that the order of inputs or an
//! additional input does not change them. A normal number is the sum of twelve uniform ones minus six: integers and
//! one exact division, identical on every machine.

use std::collections::BTreeMap;

use warpproof_num::random::SplitMix;

use crate::family::attention;
use crate::reference::{MAX_ELEMENTS, Tensor, real};
use warpproof_task::dtype::Dtype;
use warpproof_task::{Axes, Distribution, Problem, Task, Values, dims};

/// The period of structured inputs: prime, so that no tile or row repeats it.
const PERIOD: usize = 1009;

/// An input as a kernel reads it.
#[derive(Clone, Debug, PartialEq)]
pub struct Input {
    /// Its name.
    pub name: String,
    /// Its type.
    pub dtype: Dtype,
    /// Its extents and values, after rounding to its type.
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
    if task.data.is_implied() {
        return attention::own::inputs(task, axes, distribution, seed);
    }
    let mut inputs = Vec::with_capacity(task.data.inputs.len());
    for input in &task.data.inputs {
        let dims = dims(&input.dims, axes)?;
        let elements: usize = dims.iter().product();
        if elements > MAX_ELEMENTS {
            let sentence = format!(
                "input `{}` has {elements} elements; the maximum is {MAX_ELEMENTS}",
                input.name.value
            );
            return Err(Problem::new(input.name.span.clone(), sentence));
        }
        let dtype = input.dtype.with(each);
        let mut random = SplitMix(seed ^ start(&input.name));
        let row = dims.last().copied().unwrap_or(1).max(1);
        let values: Vec<f64> = if let Some((low, high)) = &input.range {
            let ends = warpproof_task::values_of(&[low, high], axes)?;
            let (low, high) = (ends[0], ends[1].max(ends[0]));
            // Integer kernels fail most often at the ends of the range.
            let share = match distribution.values {
                Values::Extreme { fraction } if is_for(distribution, input) => fraction,
                _ => 0.0,
            };
            let value = |random: &mut SplitMix| {
                if share > 0.0 && even(random) < share {
                    return if random.next() & 1 == 0 { low } else { high };
                }
                between(random, low, high)
            };
            (0..elements).map(|_| real_of(value(&mut random))).collect()
        } else {
            let values = if is_for(distribution, input) {
                distribution.values
            } else {
                Values::Normal { mean: 0.0, std: 1.0 }
            };
            fill(values, dtype, elements, row, &mut random)
        };
        let values = values.into_iter().map(|value| dtype.round(value)).collect();
        inputs.push(Input { name: input.name.value.clone(), dtype, tensor: Tensor { dims, values } });
    }
    Ok(inputs)
}

/// Whether a distribution applies to an input; inputs to which it does not apply are normally distributed.
fn is_for(distribution: &Distribution, input: &warpproof_task::Input) -> bool {
    distribution.inputs.is_empty() || distribution.inputs.contains(&input.name)
}

/// Inputs by name, as references take them.
pub fn tensors(inputs: &[Input]) -> BTreeMap<String, Tensor> {
    inputs.iter().map(|input| (input.name.clone(), input.tensor.clone())).collect()
}

fn start(name: &str) -> u64 {
    let hash = blake3::hash(name.as_bytes());
    hash.as_bytes().iter().take(8).fold(0, |bits, byte| bits << 8 | u64::from(*byte))
}

/// Uniform in [0, 1), 53 bits.
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
            // A power of two and a uniform mantissa: exact, whereas 2^x would differ in its last bits between
            // machines.
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
            // A normal number from this generator is at most six standard deviations.
            let scale = dtype.largest() * fraction / 6.0;
            each(&mut |_| scale * normal(random))
        }
        Values::Structured => each(&mut |at| real(at % PERIOD) / real(PERIOD) - 0.5),
        Values::Masked { fraction } => {
            let mut values: Vec<f64> = each(&mut |_| normal(random));
            for row in values.chunks_mut(row) {
                let spared = usize::try_from(random.next() % wide(row.len())).unwrap_or(0);
                for (at, value) in row.iter_mut().enumerate() {
                    if even(random) < fraction && at != spared {
                        *value = f64::NEG_INFINITY;
                    }
                }
            }
            values
        }
        Values::Nan { fraction } => {
            each(&mut |_| if even(random) < fraction { f64::NAN } else { normal(random) })
        }
        Values::Denormal => {
            let smallest = dtype.unit().smallest;
            each(&mut |_| signed(smallest * even(random), random))
        }
        Values::SignedZero => {
            each(&mut |_| if random.next() & 1 == 0 { signed(0.0, random) } else { normal(random) })
        }
        Values::Extreme { fraction } => {
            let ends = if dtype.is_integer() {
                let (low, high) = dtype.integer_range();
                [real_end(low), real_end(high)]
            } else {
                [-dtype.largest(), dtype.largest()]
            };
            each(&mut |_| {
                if even(random) < fraction {
                    return ends[usize::from(random.next() & 1 == 0)];
                }
                normal(random)
            })
        }
        Values::Magnitudes => {
            let (low, high) = dtype.exponents();
            let below = |top: i32, random: &mut SplitMix| {
                let octaves = f64::from(top - low + 1);
                f64::from(low) + (octaves * even(random)).floor()
            };
            let mut top = high;
            each(&mut |at| {
                if at % row == 0 {
                    let drawn = warpproof_task::dtype::to_integer(below(high, random));
                    top = i32::try_from(drawn).unwrap_or(high);
                }
                let exponent = below(top, random);
                signed((power_of_two(exponent) * (1.0 + even(random))).min(dtype.largest()), random)
            })
        }
        // The family generates its own inputs.
        Values::Attention { .. } => each(&mut |_| normal(random)),
    }
}

/// A number with a random sign.
fn signed(value: f64, random: &mut SplitMix) -> f64 {
    if random.next() & 1 == 0 { value } else { -value }
}

fn wide(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX).max(1)
}

/// The f64 nearest to the end of an integer type's range, and not beyond it.
#[expect(
    clippy::as_conversions,
    clippy::cast_precision_loss,
    reason = "a value rounded past the end is clamped"
)]
fn real_end(end: i128) -> f64 {
    let near = end as f64;
    if warpproof_task::dtype::to_integer(near) > end { near.next_down() } else { near }
}

/// 2 to the power of an integer exponent, clamped to normal numbers and built from its bits.
fn power_of_two(exponent: f64) -> f64 {
    let biased = warpproof_task::dtype::to_integer(exponent).clamp(-1022, 1023) + 1023;
    f64::from_bits(u64::try_from(biased).unwrap_or(1023) << 52)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(values: Values, dtype: Dtype) -> Vec<f64> {
        let values = fill(values, dtype, 4096, 64, &mut SplitMix(7));
        values.into_iter().map(|value| dtype.round(value)).collect()
    }

    #[test]
    fn special_values_are_what_they_are_called() {
        let masked = filled(Values::Masked { fraction: 1.0 }, Dtype::F32);
        assert!(masked.chunks(64).all(|row| row.iter().filter(|value| value.is_finite()).count() == 1));
        let masked = filled(Values::Masked { fraction: 0.5 }, Dtype::F32);
        let share = masked.iter().filter(|value| **value == f64::NEG_INFINITY).count();
        assert!((1800..2300).contains(&share), "{share}");
        let denormal = filled(Values::Denormal, Dtype::F32);
        assert!(denormal.iter().all(|value| value.abs() < f64::from(f32::MIN_POSITIVE)));
        assert!(denormal.iter().any(|value| *value != 0.0));
        let zeros = filled(Values::SignedZero, Dtype::F16);
        let bits = |bits: u64| zeros.iter().any(|value| value.to_bits() == bits);
        assert!(bits(0.0f64.to_bits()) && bits((-0.0f64).to_bits()));
        assert!(filled(Values::Nan { fraction: 0.1 }, Dtype::Bf16).iter().any(|value| value.is_nan()));
        let extreme = filled(Values::Extreme { fraction: 0.5 }, Dtype::F32);
        assert!([-1.0, 1.0].iter().all(|sign| extreme.contains(&(sign * f64::from(f32::MAX)))));
        let extreme = filled(Values::Extreme { fraction: 0.5 }, Dtype::I8);
        assert!(extreme.contains(&-128.0) && extreme.contains(&127.0));
        for dtype in [Dtype::F32, Dtype::F16, Dtype::E4m3, Dtype::F64] {
            let all = filled(Values::Magnitudes, dtype);
            assert!(all.iter().all(|value| value.is_finite() && value.abs() <= dtype.largest()), "{dtype}");
            let share = |low: f64, high: f64| all.iter().any(|value| (low..high).contains(&value.abs()));
            assert!(share(dtype.unit().smallest, 1.0) && share(1.0, dtype.largest()), "{dtype}");
        }
        // Between `wide`, up to 2^8, and `large`, from 1/64 of the largest value.
        let between =
            filled(Values::Magnitudes, Dtype::F32).iter().filter(|v| (1e4..1e20).contains(&v.abs())).count();
        assert!(between > 200, "{between}");
    }
}
