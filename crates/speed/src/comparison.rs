//! Evaluates the times: the ratio with its interval, the spread of each side, and instabilities.

#![expect(clippy::as_conversions, clippy::cast_precision_loss, reason = "times are far below 2^53 ps")]

use serde::{Deserialize, Serialize};

use super::{
    clock::{Origin, Side},
    interval::{Interval, bootstrap, deviation, mean, quantile},
    plan::{Block, Measurement, Plan},
    reading::Reading,
    stability::Stability,
    timer::{Evidence, Resolution},
};

/// If the quartiles of a side's batches are fewer ticks apart than this, ticks do not average out.
const DITHERED: f64 = 2.0;

/// Latency of one side, nanoseconds for one launch.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Minimum.
    pub min_ns: f64,
    /// Median.
    pub p50_ns: f64,
    /// 90th percentile.
    pub p90_ns: f64,
    /// 99th percentile.
    pub p99_ns: f64,
    /// Mean.
    pub mean_ns: f64,
    /// Standard deviation over mean.
    pub cv: f64,
    /// Distance of the quartiles of a batch in ticks of the timer.
    pub quartiles_in_ticks: f64,
}

/// The evaluation of a measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// The origin of the times.
    pub origin: Origin,
    /// The timer's resolution.
    pub resolution: Resolution,
    /// Launches in a batch.
    pub launches: u32,
    /// Why a batch is shorter than the plan requests.
    pub capped: Option<String>,
    /// Blocks measured.
    pub blocks: usize,
    /// Those blocks in which a batch took no tick.
    pub without_tick: usize,
    /// Level of the interval.
    pub confidence: f64,
    /// Candidate over baseline, with only the statistical interval; `None` with too few blocks.
    pub ratio: Option<Interval>,
    /// How far ticks that do not average out can shift the ratio, relative.
    pub tick_error: f64,
    /// Latency reduction, with an interval that includes both errors; `None` with too few blocks.
    pub reduction: Option<Interval>,
    /// Difference of the medians of a batch, in ticks.
    pub difference_in_ticks: f64,
    /// The baseline's latency.
    pub baseline: Spread,
    /// The candidate's latency.
    pub candidate: Spread,
    /// Instabilities.
    pub stability: Stability,
    /// The device before the first block, if known.
    pub before: Reading,
    /// The device after the last block, if known.
    pub after: Reading,
}

impl Comparison {
    /// Evaluates a measurement; the plan gives the level, the resamples and the seed.
    pub fn of(measured: &Measurement, plan: &Plan) -> Self {
        let ratios: Vec<f64> = measured.blocks.iter().filter_map(Block::log_ratio).collect();
        let baseline = spread(measured, Side::Baseline);
        let candidate = spread(measured, Side::Candidate);
        let batch = f64::from(measured.launches) * 1e3;
        let (baseline_ps, candidate_ps) = (baseline.p50_ns * batch, candidate.p50_ns * batch);
        let tick_error =
            tick_error(measured.resolution, (&baseline, baseline_ps), (&candidate, candidate_ps));
        let log = bootstrap(&ratios, plan.confidence, plan.resamples, plan.seed);
        let difference = (baseline_ps - candidate_ps).abs();
        Self {
            origin: measured.origin.clone(),
            resolution: measured.resolution,
            launches: measured.launches,
            capped: measured.capped.clone(),
            blocks: measured.blocks.len(),
            without_tick: measured.blocks.len() - ratios.len(),
            confidence: plan.confidence,
            ratio: log.map(|log| log.map(f64::exp)),
            tick_error,
            reduction: log.map(|log| log.widened(tick_error).map(|log| -log.exp_m1())),
            difference_in_ticks: difference / measured.resolution.tick_ps.max(1) as f64,
            baseline,
            candidate,
            stability: Stability::of(&measured.blocks),
            before: measured.blocks.first().map_or_else(Reading::default, |block| block.samples[0].before),
            after: measured.blocks.last().map_or_else(Reading::default, |block| block.samples[3].after),
        }
    }

    /// Whether the two sides differ by at most one tick of a timer that ticks.
    pub fn within_one_tick(&self) -> bool {
        // Medians of a lattice are on the lattice; floating-point error is not part of the difference.
        self.resolution.evidence != Evidence::Fine && self.difference_in_ticks <= 1.0 + 1e-6
    }
}

fn spread(measured: &Measurement, side: Side) -> Spread {
    let per_launch = f64::from(measured.launches.max(1)) * 1e3;
    let mut times: Vec<f64> = measured
        .blocks
        .iter()
        .flat_map(|block| block.of(side))
        .map(|sample| sample.elapsed_ps as f64 / per_launch)
        .collect();
    times.sort_by(f64::total_cmp);
    let mean = mean(&times);
    let quartiles = (quantile(&times, 0.75) - quantile(&times, 0.25)) * per_launch;
    Spread {
        min_ns: quantile(&times, 0.0),
        p50_ns: quantile(&times, 0.5),
        p90_ns: quantile(&times, 0.9),
        p99_ns: quantile(&times, 0.99),
        mean_ns: mean,
        cv: if mean > 0.0 { deviation(&times) / mean } else { 0.0 },
        quartiles_in_ticks: quartiles / measured.resolution.tick_ps.max(1) as f64,
    }
}

/// How far ticks can shift the logarithm of the ratio.
///
/// Noise wider than a tick or two averages ticks out, except for a common half tick that a truncating timer removes
/// from both sides. Without such noise every batch gives the same wrong number, and each side may be off by a whole
/// tick.
fn tick_error(resolution: Resolution, baseline: (&Spread, f64), candidate: (&Spread, f64)) -> f64 {
    if resolution.evidence == Evidence::Fine {
        return 0.0;
    }
    let fixed = |(spread, batch): (&Spread, f64)| {
        if spread.quartiles_in_ticks < DITHERED { resolution.share_of(batch) } else { 0.0 }
    };
    let cut = (resolution.share_of(candidate.1) - resolution.share_of(baseline.1)).abs() / 2.0;
    cut + fixed(baseline) + fixed(candidate)
}
