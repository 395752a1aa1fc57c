//! What softmax computes of a row of scores. Written so that the compiler vectorizes it: the bits are the same on every machine.
#![expect(
    clippy::inline_always,
    reason = "only inlined functions are compiled for the detected instruction set"
)]

use std::f64::consts::LOG2_E;
use warpproof_sim::simd::{Level, Vectorized};

/// Values that are computed side by side.
const LANES: usize = 16;

/// The largest magnitude of the finite values; 0 if there are none.
pub(super) fn magnitude(values: &[f64]) -> f64 {
    Level::detect().run(Fold {
        values,
        first: 0.0,
        key: |value: f64| if value.is_finite() { value.abs() } else { 0.0 },
    })
}

/// The largest value, at least `first`.
pub(super) fn largest(values: &[f64], first: f64) -> f64 {
    Level::detect().run(Fold { values, first, key: |value: f64| value })
}

struct Fold<'v, K> {
    values: &'v [f64],
    first: f64,
    key: K,
}

impl<K: Fn(f64) -> f64> Vectorized for Fold<'_, K> {
    type Output = f64;

    #[inline(always)]
    fn run(self) -> f64 {
        let Fold { values, first, key } = self;
        let (chunks, rest) = values.as_chunks::<LANES>();
        let mut largest = [first; LANES];
        for chunk in chunks {
            for (largest, value) in largest.iter_mut().zip(chunk) {
                *largest = largest.max(key(*value));
            }
        }
        largest.into_iter().chain(rest.iter().map(|value| key(*value))).fold(first, f64::max)
    }
}

/// Replaces each value by e^(value − base), which is at most 1; e^0 is exactly 1.
pub(super) fn exponentials(values: &mut [f64], base: f64) {
    Level::detect().run(Exponentials { values, base });
}

struct Exponentials<'v> {
    values: &'v mut [f64],
    base: f64,
}

impl Vectorized for Exponentials<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Exponentials { values, base } = self;
        for value in values {
            *value = exp(*value - base);
        }
    }
}

/// ln 2 in two parts: the product of the first with an exponent is exact.
const LN_2: [f64; 2] = [6.931_471_803_691_238e-1, 1.908_214_929_270_587_7e-10];
/// Below this, e^x is smaller than all normal numbers.
const LOWEST: f64 = -708.0;
/// Adding it rounds to an integer, which is in the low bits of the sum.
const ROUND: f64 = 6_755_399_441_055_744.0;

/// e^x for x ≤ 0, to about one unit of the last place; 0 where it is not a normal number.
#[inline(always)]
fn exp(x: f64) -> f64 {
    let value = if x < LOWEST { LOWEST } else { x };
    let shifted = value.mul_add(LOG2_E, ROUND);
    let exponent = shifted - ROUND;
    let rest = exponent.mul_add(-LN_2[1], exponent.mul_add(-LN_2[0], value));
    // The rest is at most ln 2 / 2, so the first term that is left out is below 2^-57 of the result.
    let mut sum = SERIES[0];
    for factor in &SERIES[1..] {
        sum = sum.mul_add(rest, *factor);
    }
    let power = f64::from_bits((shifted.to_bits() << 52).wrapping_add(1f64.to_bits()));
    if x < LOWEST { 0.0 } else { sum * power }
}

/// The factors of the series of e^x, from that of x¹³ to that of x⁰.
const SERIES: [f64; 14] = [
    1.0 / 6_227_020_800.0,
    1.0 / 479_001_600.0,
    1.0 / 39_916_800.0,
    1.0 / 3_628_800.0,
    1.0 / 362_880.0,
    1.0 / 40_320.0,
    1.0 / 5_040.0,
    1.0 / 720.0,
    1.0 / 120.0,
    1.0 / 24.0,
    1.0 / 6.0,
    1.0 / 2.0,
    1.0,
    1.0,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponentials_are_those_of_the_platform_within_their_last_bits() {
        let values: Vec<f64> = (0..20_000).map(|i| -f64::from(i) * 0.037_1).collect();
        let mut powers = values.clone();
        exponentials(&mut powers, 0.0);
        assert_eq!(powers[0].to_bits(), 1f64.to_bits());
        for (value, power) in values.iter().zip(powers) {
            let expected = if *value < LOWEST { 0.0 } else { value.exp() };
            let off = power.to_bits().abs_diff(expected.to_bits());
            assert!(off <= 2, "e^{value}: {power} instead of {expected}");
        }
        let mut special = [f64::NEG_INFINITY, 2.5, f64::NAN, 1.5];
        exponentials(&mut special, 2.5);
        assert_eq!(special[..2], [0.0, 1.0]);
        assert!(special[2].is_nan());
        assert_eq!(special[3].to_bits(), (-1f64).exp().to_bits());
    }

    #[test]
    fn the_largest_value_is_found_wherever_it_is() {
        for length in [0, 1, 15, 16, 17, 50] {
            for place in 0..length {
                let mut values = vec![f64::NEG_INFINITY; length];
                values[place] = -3.0;
                let found = [largest(&values, f64::NEG_INFINITY), largest(&values, -2.0), magnitude(&values)];
                assert_eq!(found.map(f64::to_bits), [-3.0, -2.0, 3.0].map(f64::to_bits));
            }
            assert_eq!(magnitude(&vec![f64::NEG_INFINITY; length]).to_bits(), 0);
        }
    }
}
