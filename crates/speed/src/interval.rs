//! The ratio of the latencies and its interval.
//!
//! **Estimate.** The mean of the middle 60 % of the blocks' log-ratios (20 % trimmed at each end). Noise that affects
//! both sides equally makes a block's log-ratio symmetric about the truth whatever its own shape, so every such
//! center is unbiased; this one is as robust to disturbed blocks as the median and, unlike the median, it is smooth:
//! it does not snap to the lattice of a ticking timer, and its bootstrap distribution is not a handful of points.
//!
//! **Interval.** Percentile bootstrap over whole blocks, because batches within a block share the state of the
//! device. With n blocks the bootstrap underestimates the spread by the factor √((n−1)/n), and the percentiles are
//! moved outward by exactly that. Student's t in addition (Hesterberg's expanded percentile) would be right for a
//! mean, but overshoots for a trimmed mean, whose bootstrap is already wider. Bias-corrected intervals correct skew,
//! which symmetry excludes here, and add noise of their own; studentized ones fail if a resample has no spread, which
//! ticks make likely. The book has the numbers.

#![expect(
    clippy::as_conversions,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "counts of blocks and resamples are below 2^31"
)]

use serde::{Deserialize, Serialize};

use super::random::Random;

/// With fewer blocks than this, no interval is reliable.
pub const MINIMUM_BLOCKS: usize = 10;

/// Fraction that is trimmed at each end.
const TRIM: f64 = 0.2;

/// An estimate and the interval around it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// The estimate.
    pub estimate: f64,
    /// Upper end.
    pub high: f64,
}

impl Interval {
    /// Whether a value lies in it.
    pub fn contains(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }

    /// The interval widened equally at both ends.
    #[must_use]
    pub fn widened(self, by: f64) -> Self {
        Self { low: self.low - by, high: self.high + by, ..self }
    }

    /// Applies a monotonic function.
    #[must_use]
    pub fn map(self, function: impl Fn(f64) -> f64) -> Self {
        let (a, b) = (function(self.low), function(self.high));
        Self { low: a.min(b), estimate: function(self.estimate), high: a.max(b) }
    }
}

/// The number of values trimmed at each end of `count`.
fn cut(count: usize) -> usize {
    (TRIM * count as f64).floor() as usize
}

/// Trimmed mean of sorted values; 0 for none.
fn center(sorted: &[f64]) -> f64 {
    let cut = cut(sorted.len());
    let middle = &sorted[cut..sorted.len() - cut];
    if middle.is_empty() { 0.0 } else { middle.iter().sum::<f64>() / middle.len() as f64 }
}

/// Trimmed mean of the values and its bootstrap interval; `None` if there are fewer than [`MINIMUM_BLOCKS`] or one is
/// not finite. The interval is a point if all values are equal.
pub fn bootstrap(values: &[f64], confidence: f64, resamples: u32, seed: u64) -> Option<Interval> {
    let count = values.len();
    if count < MINIMUM_BLOCKS || values.iter().any(|value| !value.is_finite()) {
        return None;
    }
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let estimate = center(&sorted);
    let mut random = Random::for_purpose(seed, PURPOSE);
    let (cut, kept) = (cut(count), count - 2 * cut(count));
    let mut drawn = vec![0_u32; count];
    let mut centers: Vec<f64> = (0..resamples.max(1))
        .map(|_| {
            drawn.fill(0);
            for _ in 0..count {
                drawn[random.below(count)] += 1;
            }
            // The sorted resample is each value repeated as often as it was drawn, so no sorting is needed.
            let (mut sum, mut left, mut skip) = (0.0, kept, cut);
            for (value, &times) in sorted.iter().zip(&drawn) {
                let times = times as usize;
                let skipped = times.min(skip);
                skip -= skipped;
                let taken = (times - skipped).min(left);
                left -= taken;
                sum += value * taken as f64;
            }
            sum / kept as f64
        })
        .collect();
    centers.sort_by(f64::total_cmp);
    let tail = expanded_tail(confidence, count);
    Some(Interval { low: quantile(&centers, tail), estimate, high: quantile(&centers, 1.0 - tail) })
}

const PURPOSE: u64 = 2;

/// An estimate of half the interval's width without resampling: Tukey and McLaughlin's standard error of a trimmed
/// mean. Infinite for too few values.
pub(super) fn approximate_half_width(values: &[f64], confidence: f64) -> f64 {
    let count = values.len();
    if count < MINIMUM_BLOCKS {
        return f64::INFINITY;
    }
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let cut = cut(count);
    let (low, high) = (sorted[cut], sorted[count - 1 - cut]);
    for value in &mut sorted {
        *value = value.clamp(low, high);
    }
    let error = deviation(&sorted) / ((1.0 - 2.0 * TRIM) * (count as f64).sqrt());
    error * student(confidence, count - 2 * cut)
}

/// Mean; 0 for none.
pub(super) fn mean(values: &[f64]) -> f64 {
    if values.is_empty() { 0.0 } else { values.iter().sum::<f64>() / values.len() as f64 }
}

/// Standard deviation of a sample; 0 for fewer than two.
pub(super) fn deviation(values: &[f64]) -> f64 {
    if values.len() < 2 {
        return 0.0;
    }
    let mean = mean(values);
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (squares / (values.len() - 1) as f64).sqrt()
}

/// Quantile of sorted values, interpolated between neighbors; 0 for none.
pub(super) fn quantile(sorted: &[f64], share: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else { return 0.0 };
    let place = share.clamp(0.0, 1.0) * last as f64;
    let below = (place.floor() as usize).min(last);
    let above = (below + 1).min(last);
    let part = place - place.floor();
    sorted[below] + (sorted[above] - sorted[below]) * part
}

/// Median of any values; 0 for none.
pub(super) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    quantile(&sorted, 0.5)
}

/// The percentile at which the interval ends, moved outward for the small sample.
fn expanded_tail(confidence: f64, count: usize) -> f64 {
    let count = count as f64;
    normal_tail((count / (count - 1.0)).sqrt() * normal_quantile((1.0 - confidence) / 2.0))
}

/// Upper tail of the normal distribution beyond `z` ≥ 0, to 8 digits: the complementary error function by Abramowitz and
/// Stegun, 7.1.26.
fn normal_tail(z: f64) -> f64 {
    let x = z / std::f64::consts::SQRT_2;
    let t = 1.0 / (1.0 + 0.327_591_1 * x);
    let polynomial =
        t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))));
    0.5 * polynomial * (-x * x).exp()
}

/// The `z` beyond which the normal distribution has a tail of `tail` in (0, 0.5], by bisection.
pub(super) fn normal_quantile(tail: f64) -> f64 {
    let (mut low, mut high) = (0.0, 9.0);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if normal_tail(middle) > tail {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}

/// Two-sided quantile of Student's t from `count` values, by the expansion of Cornish and Fisher; good to a part in a
/// thousand from 6 values on.
fn student(confidence: f64, count: usize) -> f64 {
    let z = normal_quantile((1.0 - confidence) / 2.0);
    let freedom = (count.max(2) - 1) as f64;
    z + (z.powi(3) + z) / (4.0 * freedom)
        + (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / (96.0 * freedom.powi(2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_known_distributions() {
        assert!((normal_quantile(0.025) - 1.959_964).abs() < 1e-4);
        assert!((normal_quantile(0.5)).abs() < 1e-4);
        assert!((student(0.95, 11) - 2.228).abs() < 3e-3);
        assert!((student(0.95, 31) - 2.042).abs() < 1e-3);
        assert!((quantile(&[1.0, 2.0, 4.0], 0.75) - 3.0).abs() < 1e-12);
        assert!(quantile(&[], 0.5).abs() < 1e-12);
    }

    #[test]
    fn equal_values_give_a_point() {
        let interval = bootstrap(&[0.25; 12], 0.95, 200, 1).unwrap();
        assert!((interval.low - 0.25).abs() < 1e-12 && (interval.high - 0.25).abs() < 1e-12);
    }

    #[test]
    fn too_few_or_infinite_values_give_nothing() {
        assert_eq!(bootstrap(&[1.0; 9], 0.95, 200, 1), None);
        assert_eq!(bootstrap(&[f64::NAN; 12], 0.95, 200, 1), None);
    }

    #[test]
    fn the_trimmed_mean_ignores_a_fifth_at_each_end() {
        let mut values = vec![1.0; 6];
        values.extend([1e9, 1e9, -1e9, -1e9]);
        assert!((bootstrap(&values, 0.95, 100, 1).unwrap().estimate - 1.0).abs() < 1e-12);
    }

    #[test]
    fn the_seed_makes_the_interval_and_the_order_of_values_does_not() {
        let mut random = Random::new(2);
        let mut values: Vec<f64> = (0..30).map(|_| random.normal()).collect();
        let first = bootstrap(&values, 0.95, 500, 3);
        values.reverse();
        assert_eq!(first, bootstrap(&values, 0.95, 500, 3));
        assert_ne!(first, bootstrap(&values, 0.95, 500, 4));
    }

    #[test]
    fn the_approximate_width_is_about_that_of_the_bootstrap() {
        let mut random = Random::new(2);
        let values: Vec<f64> = (0..60).map(|_| random.normal()).collect();
        let interval = bootstrap(&values, 0.95, 4000, 1).unwrap();
        let half = (interval.high - interval.low) / 2.0;
        assert!((approximate_half_width(&values, 0.95) / half - 1.0).abs() < 0.15);
    }
}
