//! The initial contents of arrays, identical on every machine: the generator is SplitMix64 started with the
//! seed, and numbers are computed from its output with integer arithmetic and the four operations that IEEE
//! 754 defines bit-exactly.

use warpproof_num::Rounding;
use warpproof_num::convert::cvt_f64_u64;
use warpproof_num::random::SplitMix;
use warpproof_task::dtype::Dtype;

use super::spec::Fill;

const TWO_TO_32: f64 = 4_294_967_296.0;
const TWO_TO_53: f64 = 9_007_199_254_740_992.0;

fn real(value: u64) -> f64 {
    f64::from_bits(cvt_f64_u64(value, Rounding::Rn))
}

/// A number from [0, 1): the upper 53 bits of one output.
fn unit(random: &mut SplitMix) -> f64 {
    real(random.next() >> 11) / TWO_TO_53
}

/// A normally distributed number: the sum of twelve uniform numbers minus six, so that mean and variance
/// are exactly 0 and 1. Each output gives two of them, 32 bits each, taken at the middle of their 2^-32
/// wide cells. The sum is exact, and no number lies beyond ±6.
fn normal(random: &mut SplitMix) -> f64 {
    let mut sum = 0;
    for _ in 0..6 {
        let bits = random.next();
        sum += (bits >> 32) + (bits & 0xffff_ffff);
    }
    real(sum + 6) / TWO_TO_32 - 6.0
}

/// An integer from `low` to `high`: the multiply-and-shift of one output, whose bias is below the range over 2^64.
fn between(random: &mut SplitMix, low: i128, high: i128) -> i128 {
    let count = (high - low).unsigned_abs() + 1;
    let Ok(count) = u64::try_from(count) else {
        // All 2^64 numbers.
        return low + i128::from(random.next());
    };
    let scaled = (u128::from(random.next()) * u128::from(count)) >> 64;
    low + i128::try_from(scaled).unwrap_or(0)
}

/// The codes of an array, as an endless sequence; `None` for contents of a list or a file, and for zeros.
pub(crate) fn codes(fill: &Fill, element: Dtype) -> Option<Box<dyn FnMut() -> u64>> {
    Some(match *fill {
        Fill::Nothing | Fill::Constant(0) | Fill::List(_) | Fill::File { .. } => return None,
        Fill::Constant(code) => Box::new(move || code),
        Fill::Iota { start, step } => {
            let mut next = start;
            Box::new(move || {
                let code = element.of_integer(next);
                next = next.wrapping_add(step);
                code
            })
        }
        Fill::Normal { seed, mean, std } => {
            let mut random = SplitMix(seed);
            Box::new(move || element.encode(normal(&mut random) * std + mean))
        }
        Fill::Uniform { seed, low, high } => {
            let mut random = SplitMix(seed);
            Box::new(move || element.encode(low + (high - low) * unit(&mut random)))
        }
        Fill::Integers { seed, low, high } => {
            let mut random = SplitMix(seed);
            Box::new(move || element.of_integer(between(&mut random, low, high)))
        }
        Fill::Bits { seed } => {
            let mut random = SplitMix(seed);
            let unused = 64 - 8 * u32::try_from(element.size()).unwrap_or(8);
            Box::new(move || random.next() >> unused)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(fill: &Fill, element: Dtype, count: usize) -> Vec<u64> {
        let mut next = codes(fill, element).unwrap();
        (0..count).map(|_| next()).collect()
    }

    fn reals(fill: &Fill, count: usize) -> Vec<f64> {
        take(fill, Dtype::F64, count).into_iter().map(f64::from_bits).collect()
    }

    #[test]
    fn random_numbers_are_the_same_everywhere() {
        // Recorded values: a change of any of them changes every recorded result.
        let normal = take(&Fill::Normal { seed: 0, mean: 0.0, std: 1.0 }, Dtype::F32, 3);
        let uniform = take(&Fill::Uniform { seed: 0, low: -1.0, high: 1.0 }, Dtype::F32, 3);
        let integers = take(&Fill::Integers { seed: 0, low: -99, high: 99 }, Dtype::I32, 3);
        let bits = take(&Fill::Bits { seed: 0 }, Dtype::U64, 2);
        insta::assert_snapshot!(format!("{normal:x?}\n{uniform:x?}\n{integers:x?}\n{bits:x?}"));
    }

    #[test]
    fn normal_numbers_have_mean_zero_and_variance_one() {
        let values = reals(&Fill::Normal { seed: 1, mean: 0.0, std: 1.0 }, 100_000);
        let mean = values.iter().sum::<f64>() / 1e5;
        let variance = values.iter().map(|x| x * x).sum::<f64>() / 1e5;
        let within_one =
            f64::from(u32::try_from(values.iter().filter(|x| x.abs() < 1.0).count()).unwrap()) / 1e5;
        assert!(mean.abs() < 0.01 && (variance - 1.0).abs() < 0.02, "{mean} {variance}");
        assert!((within_one - 0.6827).abs() < 0.01, "{within_one}");
        let moved = reals(&Fill::Normal { seed: 1, mean: 10.0, std: 0.5 }, 1);
        assert!((moved[0] - (values[0] * 0.5 + 10.0)).abs() < 1e-12);
    }

    #[test]
    fn ends_are_kept() {
        let fill = Fill::Integers { seed: 5, low: -2, high: 2 };
        let mut seen: Vec<i128> =
            take(&fill, Dtype::I64, 1000).into_iter().map(|code| i128::from(code.cast_signed())).collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen, [-2, -1, 0, 1, 2]);
        let values = reals(&Fill::Uniform { seed: 5, low: 2.0, high: 3.0 }, 1000);
        assert!(values.iter().all(|x| (2.0..3.0).contains(x)));
        let all = Fill::Integers { seed: 5, low: i128::from(i64::MIN), high: i128::from(i64::MAX) };
        assert_eq!(take(&all, Dtype::I64, 3).len(), 3);
        assert_eq!(take(&Fill::Iota { start: 254, step: 1 }, Dtype::U8, 4), [254, 255, 0, 1]);
        assert!(take(&Fill::Bits { seed: 3 }, Dtype::U8, 100).iter().all(|code| *code < 256));
    }
}
