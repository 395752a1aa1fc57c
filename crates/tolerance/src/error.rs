//! Errors of an output compared with an oracle.

#![expect(clippy::as_conversions, clippy::cast_precision_loss, reason = "counts of elements as f64")]

use crate::Tolerance;
use warpproof_num::convert::cvt_f32_f16;

/// Errors of an output over all elements.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Errors {
    /// The largest magnitude; infinite if an output is not finite or missing.
    pub max: f64,
    /// The mean magnitude.
    pub mean: f64,
    /// The mean, signed.
    pub bias: f64,
    /// The bias in standard errors of the model of [`crate`].
    pub z: f64,
    /// The sum of magnitudes over that of the exact outputs.
    pub relative_l1: f64,
    /// The root mean square.
    pub rmse: f64,
    /// The root mean square of errors minus their row's mean.
    pub spread: f64,
    /// The cosine of the angle between output and exact output.
    pub cosine: f64,
    /// The fraction of elements outside their own limit.
    pub outside: f64,
    /// The largest error of an element relative to its limit.
    pub worst: f64,
}

/// How an output that is not finite counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NonFinite {
    /// It is outside every limit.
    #[default]
    Refuse,
    /// It is correct if the oracle is the same infinity, or also NaN.
    Match,
}

impl Errors {
    /// Errors of an output, given as the bits of its f16 elements, in the layout of the oracle; `dim` elements make a row. A
    /// missing element counts as not finite.
    pub fn of(output: &[u16], oracle: &[f64], dim: usize, tolerance: &Tolerance) -> Errors {
        let got = |at: usize| output.get(at).map(|bits| decode(*bits));
        Errors::measure(got, oracle, dim, tolerance, NonFinite::Refuse)
    }

    /// Errors of an output of any type, given element by element.
    pub fn measure(
        output: impl Fn(usize) -> Option<f64>,
        oracle: &[f64],
        dim: usize,
        tolerance: &Tolerance,
        non_finite: NonFinite,
    ) -> Errors {
        let count = (oracle.len() as f64).max(1.0);
        let mut errors = Errors::default();
        let (mut squares, mut spread, mut outside) = (0.0, 0.0, 0usize);
        let (mut magnitudes, mut dot, mut got_squares, mut exact_squares) = (0.0, 0.0, 0.0, 0.0);
        let dim = dim.max(1);
        for (row, exact) in oracle.chunks(dim).enumerate() {
            let (mut row_sum, mut row_squares) = (0.0, 0.0);
            for (d, exact) in exact.iter().enumerate() {
                let at = row * dim + d;
                let Some(error) = deviation(output(at), *exact, non_finite) else { continue };
                let got = output(at).unwrap_or(f64::NAN);
                let limit = tolerance.limits.get(at).map_or(0.0, |limit| f64::from(*limit));
                // An oracle that is NaN accepts nothing.
                let within = error.abs() <= limit;
                outside += usize::from(!within);
                if error.abs() > 0.0 {
                    errors.worst = errors.worst.max(error.abs() / limit);
                }
                errors.max = errors.max.max(error.abs());
                row_sum += error;
                row_squares += error * error;
                errors.mean += error.abs();
                magnitudes += exact.abs();
                dot += got * exact;
                got_squares += got * got;
                exact_squares += exact * exact;
            }
            errors.bias += row_sum;
            squares += row_squares;
            spread += row_squares - row_sum * row_sum / (exact.len() as f64);
        }
        errors.mean /= count;
        errors.bias /= count;
        errors.z = ratio(errors.bias, tolerance.standard_error);
        errors.relative_l1 = ratio(errors.mean * count, magnitudes);
        errors.rmse = (squares / count).sqrt();
        // The difference of two sums may fall below zero by rounding; the difference of infinities is NaN, and stays
        // NaN.
        errors.spread = if spread < 0.0 { 0.0 } else { (spread / count).sqrt() };
        errors.cosine = if exact_squares == 0.0 && got_squares == 0.0 {
            1.0
        } else {
            ratio(dot, (got_squares * exact_squares).sqrt())
        };
        errors.outside = outside as f64 / count;
        errors
    }
}

/// How far one element is from the oracle: infinite if it is missing or not finite, NaN if the oracle is NaN, zero if
/// both are the same infinity or NaN and the policy accepts that.
pub fn deviation(got: Option<f64>, exact: f64, non_finite: NonFinite) -> Option<f64> {
    let value = got.unwrap_or(f64::NAN);
    let same =
        if exact.is_nan() { value.is_nan() } else { exact.is_infinite() && value.total_cmp(&exact).is_eq() };
    if non_finite == NonFinite::Match && same && got.is_some() {
        return None;
    }
    Some(if value.is_finite() { value - exact } else { f64::INFINITY })
}

/// The value of f16 bits.
pub fn decode(bits: u16) -> f64 {
    f64::from(f32::from_bits(cvt_f32_f16(bits)))
}

/// A quotient; 0 / 0 gives 0.
fn ratio(a: f64, b: f64) -> f64 {
    if a == 0.0 { 0.0 } else { a / b }
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "values are exact")]
mod tests {
    use super::*;

    #[test]
    fn infinities_match_where_they_are_asked_to() {
        let oracle = [f64::INFINITY, f64::NAN, 1.0];
        let got = [f64::INFINITY, f64::NAN, 1.0];
        let measure =
            |policy| Errors::measure(|at| got.get(at).copied(), &oracle, 3, &tolerance(vec![0.0; 3]), policy);
        assert_eq!(measure(NonFinite::Match).outside, 0.0);
        assert!(measure(NonFinite::Refuse).outside > 0.5);
        let other = [f64::NEG_INFINITY, 0.0, 1.0];
        let errors = Errors::measure(
            |at| other.get(at).copied(),
            &oracle,
            3,
            &tolerance(vec![1e30; 3]),
            NonFinite::Match,
        );
        assert!(errors.outside > 0.5);
    }

    fn tolerance(limits: Vec<f32>) -> Tolerance {
        Tolerance { limits, rmse: 1.0, spread: 1.0, bias: 1.0, standard_error: 0.25, lse: vec![] }
    }

    #[test]
    fn figures_are_those_of_the_definitions() {
        // f16: 1, 2, -1, 0.5
        let output = [0x3c00, 0x4000, 0xbc00, 0x3800];
        let oracle = [1.0, 1.0, -1.0, 1.0];
        let errors = Errors::of(&output, &oracle, 2, &tolerance(vec![0.5; 4]));
        assert_eq!(errors.max, 1.0);
        assert_eq!(errors.mean, 1.5 / 4.0);
        assert_eq!(errors.bias, 0.5 / 4.0);
        assert_eq!(errors.z, 0.5);
        assert_eq!(errors.relative_l1, 1.5 / 4.0);
        assert_eq!(errors.rmse, (1.25f64 / 4.0).sqrt());
        assert_eq!(errors.spread, (0.625f64 / 4.0).sqrt());
        assert_eq!(errors.outside, 0.25);
        assert_eq!(errors.worst, 2.0);
        assert!((errors.cosine - 4.5 / (6.25f64 * 4.0).sqrt()).abs() < 1e-15);
    }

    #[test]
    fn outputs_that_are_not_numbers_or_missing_fail() {
        for output in [vec![0x7e00], vec![0x7c00], vec![]] {
            let tolerance = tolerance(vec![1e30]);
            let errors = Errors::of(&output, &[0.0], 1, &tolerance);
            assert_eq!(errors.outside, 1.0);
            assert!(!tolerance.judge(&errors).passed);
        }
        let errors = Errors::of(&[0], &[0.0], 1, &tolerance(vec![0.0]));
        assert!(tolerance(vec![0.0]).judge(&errors).passed);
    }
}
