//! Detects instabilities of a run: slow drift, a step of the frequency, a ratio that changed, and clock readings that
//! moved.
//!
//! Blocks cancel effects that act on both sides equally, so drift alone does no harm and is reported only as a
//! figure. A step of the frequency is different: memory-bound and compute-bound programs respond to it differently,
//! and then "the ratio" is two ratios. So a level that stepped, a ratio that changed and clocks that moved each make
//! the outcome inconclusive.
//!
//! The tests use ranks, so that heavy tails do not mislead them: Mann and Kendall's for a trend with the slope of
//! Theil and Sen, and Pettitt's for a change at an unknown place. Each must be both significant and large, so that
//! negligible changes are not reported, however long the run.

#![expect(clippy::as_conversions, clippy::cast_precision_loss, reason = "counts of blocks are below 2^31")]

use serde::{Deserialize, Serialize};

use super::{
    interval::{mean, median, normal_quantile, quantile},
    plan::Block,
    reading::Reading,
};

/// A step of the level by more than this is a change of frequency.
const LEVEL: f64 = 0.03;
/// A drift over the run by more than this does not count as slow.
const DRIFT: f64 = 0.25;
/// A change of the ratio by more than this is two ratios.
const RATIO: f64 = 0.01;
/// Clock readings whose medians over quarters of the run differ by more than this have moved.
const READING: f64 = 0.03;
/// Clock readings that spread by more than this around their median were not stable.
const SPREAD: f64 = 0.10;
/// Level of each test; low, because every comparison runs all of them.
const ALARM: f64 = 0.001;
/// A step must fit better than a line by this factor.
const BETTER: f64 = 0.85;
/// More points than this do not improve a test.
const POINTS: usize = 500;

/// A slow change of the level.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trend {
    /// Relative change from the first block to the last.
    pub change: f64,
    /// Whether it exceeds what chance gives once in a thousand runs.
    pub significant: bool,
}

/// A change at one place.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Shift {
    /// Relative change of the median from before to after.
    pub change: f64,
    /// The last block before it.
    pub after_block: usize,
    /// Whether it exceeds what chance gives once in a thousand runs.
    pub significant: bool,
}

/// Readings of a clock, MHz.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Readings {
    /// Lowest reading.
    pub lowest: f64,
    /// Median reading.
    pub median: f64,
    /// Highest reading.
    pub highest: f64,
    /// Medians over the quarters of the run.
    pub quarters: [f64; 4],
    /// Whether it moved by more than is allowed.
    pub moved: bool,
}

/// Instabilities of a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stability {
    /// Drift of the level of both sides.
    pub drift: Trend,
    /// The level stepped, and a step explains it better than drift.
    pub level: Option<Shift>,
    /// The ratio changed.
    pub ratio: Option<Shift>,
    /// Clock of the multiprocessors, if read.
    pub sm_mhz: Option<Readings>,
    /// Clock of the memory, if read.
    pub memory_mhz: Option<Readings>,
}

impl Stability {
    /// Of the blocks of a run, in time order.
    pub fn of(blocks: &[Block]) -> Self {
        let levels: Vec<f64> = blocks.iter().filter_map(Block::log_level).collect();
        let ratios: Vec<f64> = blocks.iter().filter_map(Block::log_ratio).collect();
        let drift = trend(&levels);
        let stepped =
            |shift: &Shift| shift.significant && shift.change.abs() > LEVEL && steps(&levels, shift, &drift);
        Self {
            drift,
            level: shift(&levels).filter(stepped),
            ratio: shift(&ratios).filter(|shift| shift.significant && shift.change.abs() > RATIO),
            sm_mhz: readings(blocks, |reading| reading.sm_mhz),
            memory_mhz: readings(blocks, |reading| reading.memory_mhz),
        }
    }

    /// Whether the level drifted by more than blocks can reliably cancel.
    pub fn drifted_far(&self) -> bool {
        self.drift.significant && self.drift.change.abs() > DRIFT
    }
}

/// At most [`POINTS`] of the values: medians of neighbors.
fn thinned(values: &[f64]) -> Vec<f64> {
    let group = values.len().div_ceil(POINTS).max(1);
    values.chunks(group).map(median).collect()
}

fn trend(levels: &[f64]) -> Trend {
    let points = thinned(levels);
    let count = points.len() as f64;
    let mut balance = 0.0_f64;
    let mut slopes = Vec::with_capacity(points.len() * points.len() / 2);
    for (i, a) in points.iter().enumerate() {
        for (j, b) in points.iter().enumerate().skip(i + 1) {
            balance += match b.total_cmp(a) {
                std::cmp::Ordering::Less => -1.0,
                std::cmp::Ordering::Equal => 0.0,
                std::cmp::Ordering::Greater => 1.0,
            };
            slopes.push((b - a) / (j - i) as f64);
        }
    }
    slopes.sort_by(f64::total_cmp);
    let spread = (count * (count - 1.0).max(0.0) * (2.0 * count + 5.0) / 18.0).sqrt();
    Trend {
        change: (quantile(&slopes, 0.5) * (count - 1.0).max(0.0)).exp_m1(),
        significant: balance.abs() > normal_quantile(ALARM / 2.0) * spread && spread > 0.0,
    }
}

/// The most likely place of a change, by Pettitt's test.
fn shift(values: &[f64]) -> Option<Shift> {
    let count = values.len();
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
    // Equal values share the mean of their ranks.
    let mut ranks = vec![0.0; count];
    let mut start = 0;
    while start < count {
        let end = (start..count).find(|&i| values[order[i]] > values[order[start]]).unwrap_or(count);
        for &index in &order[start..end] {
            ranks[index] = (start + end + 1) as f64 / 2.0;
        }
        start = end.max(start + 1);
    }
    let n = count as f64;
    let (mut sum, mut largest, mut place) = (0.0, 0.0_f64, 0);
    for (index, rank) in ranks.iter().enumerate().take(count.saturating_sub(1)) {
        sum += 2.0 * rank - (n + 1.0);
        if sum.abs() > largest {
            (largest, place) = (sum.abs(), index);
        }
    }
    if largest <= 0.0 {
        return None;
    }
    let chance = 2.0 * (-6.0 * largest * largest / (n.powi(3) + n.powi(2))).exp();
    let (before, after) = values.split_at(place + 1);
    Some(Shift {
        change: (median(after) - median(before)).exp_m1(),
        after_block: place,
        significant: chance < ALARM,
    })
}

/// Whether a step at the place fits clearly better than the trend's line. Both are fitted by medians, and the quarter
/// of the blocks that fits worst is ignored: a burst of contention is neither a step nor a trend.
fn steps(values: &[f64], shift: &Shift, trend: &Trend) -> bool {
    let misfit = |mut residuals: Vec<f64>| {
        for residual in &mut residuals {
            *residual = residual.abs();
        }
        residuals.sort_by(f64::total_cmp);
        mean(&residuals[..residuals.len() * 3 / 4])
    };
    let (before, after) = values.split_at((shift.after_block + 1).min(values.len()));
    let around = |part: &[f64]| {
        let center = median(part);
        part.iter().map(|value| value - center).collect::<Vec<f64>>()
    };
    let step = misfit([around(before), around(after)].concat());
    let slope = trend.change.ln_1p() / (values.len() as f64 - 1.0).max(1.0);
    let sloped: Vec<f64> = values.iter().enumerate().map(|(i, value)| value - slope * i as f64).collect();
    step < BETTER * misfit(around(&sloped))
}

fn readings(blocks: &[Block], read: impl Fn(Reading) -> Option<u32>) -> Option<Readings> {
    let values: Vec<f64> = blocks
        .iter()
        .flat_map(|block| block.samples)
        .flat_map(|sample| [sample.before, sample.after])
        .filter_map(|reading| read(reading).map(f64::from))
        .collect();
    if values.len() < 4 {
        return None;
    }
    let quarter = values.len().div_ceil(4);
    let mut quarters = [0.0; 4];
    for (index, part) in values.chunks(quarter).enumerate().take(4) {
        quarters[index] = median(part);
    }
    // With few readings the last quarter may be empty.
    for index in 1..4 {
        if quarters[index] <= 0.0 {
            quarters[index] = quarters[index - 1];
        }
    }
    let mut sorted = values;
    sorted.sort_by(f64::total_cmp);
    let middle = quantile(&sorted, 0.5).max(f64::MIN_POSITIVE);
    let (least, most) =
        quarters.iter().fold((f64::INFINITY, 0.0_f64), |(least, most), &q| (least.min(q), most.max(q)));
    let spread = quantile(&sorted, 0.95) - quantile(&sorted, 0.05);
    Some(Readings {
        lowest: quantile(&sorted, 0.0),
        median: middle,
        highest: quantile(&sorted, 1.0),
        quarters,
        moved: (most - least) / middle > READING || spread / middle > SPREAD,
    })
}

#[cfg(test)]
mod tests {
    use super::{super::random::Random, *};

    fn levels(count: usize, sd: f64, of: impl Fn(f64) -> f64) -> Vec<f64> {
        let mut random = Random::new(7);
        (0..count).map(|i| of(i as f64 / count as f64) + sd * random.normal()).collect()
    }

    #[test]
    fn noise_alone_is_neither_trend_nor_shift() {
        let flat = levels(60, 0.03, |_| 0.0);
        assert!(!trend(&flat).significant);
        assert!(!shift(&flat).unwrap().significant);
    }

    #[test]
    fn a_drift_is_a_trend_and_no_step() {
        let drifting = levels(60, 0.01, |at| 0.2 * at);
        let found = trend(&drifting);
        assert!(found.significant && (found.change - 0.2).abs() < 0.05, "{found:?}");
        assert!(!steps(&drifting, &shift(&drifting).unwrap(), &found));
    }

    #[test]
    fn a_step_is_found_where_it_is() {
        let stepped = levels(60, 0.02, |at| if at < 0.5 { 0.0 } else { 0.2 });
        let found = shift(&stepped).unwrap();
        assert!(found.significant && steps(&stepped, &found, &trend(&stepped)));
        assert!(found.after_block.abs_diff(29) <= 1 && (found.change - 0.22).abs() < 0.03, "{found:?}");
    }

    #[test]
    fn nothing_and_equal_values_do_not_panic() {
        assert_eq!(shift(&[]), None);
        assert_eq!(shift(&[1.0; 30]), None);
        assert!(!trend(&[]).significant && !trend(&[1.0; 30]).significant);
        assert!(!trend(&levels(3000, 0.01, |_| 0.0)).significant);
    }
}
