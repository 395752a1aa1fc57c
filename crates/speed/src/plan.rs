//! The measurement plan: resolution, batch size, warm-up, and blocks of four batches.
//!
//! **Why blocks.** Within A B B A each side's two batches have the same mean time, so a drift that is linear over a
//! block cancels, and so does a frequency that is constant over a block. A seeded coin decides which side comes
//! first, so that effects of the order also cancel.
//!
//! **When it ends.** After a fixed number of blocks, or when the interval is as narrow as requested. Never when the
//! difference looks significant: that would eventually find a difference in anything.

#![expect(
    clippy::as_conversions,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "times are far below 2^53 ps, and launches are clamped to their limit"
)]

use std::{error, fmt};

use serde::{Deserialize, Serialize};

use super::{
    clock::{Clock, ClockError, Origin, Sample, Side},
    interval::{MINIMUM_BLOCKS, approximate_half_width},
    random::Random,
    timer::{Evidence, Resolution, resolution},
};

/// Limits of a plan, which bound memory and time.
const BLOCKS_LIMIT: u32 = 20_000;
const LAUNCHES_LIMIT: u32 = 1_000_000;
const RESAMPLES_LIMIT: u32 = 100_000;

/// Batches of growing length that probe the timer, for each side.
const PROBES: u32 = 12;

/// Batch sizes that are tried; implausible times must not extend the search forever.
const SIZES: u32 = 20;

/// Blocks between two checks of the interval's width.
const LOOK: u32 = 10;

/// Purposes of random numbers.
const ORDER: u64 = 1;

/// The number of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Budget {
    /// Minimum.
    pub least_blocks: u32,
    /// Maximum.
    pub most_blocks: u32,
    /// Between the two, until half the interval's width is below this fraction of the baseline's latency.
    pub half_width: f64,
    /// Maximum timed work, picoseconds; the block in progress is completed.
    pub most_ps: u64,
}

impl Budget {
    /// A fixed number of blocks.
    #[must_use]
    pub const fn fixed(blocks: u32) -> Self {
        Self { least_blocks: blocks, most_blocks: blocks, half_width: 0.0, most_ps: u64::MAX }
    }
}

/// What is timed, and with what confidence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Determines the order of blocks and the bootstrap.
    pub seed: u64,
    /// Level of the interval.
    pub confidence: f64,
    /// A batch is so long that one tick is at most this fraction of it, if the clock allows.
    pub tick_share: f64,
    /// Maximum launches of a batch.
    pub most_launches: u32,
    /// Maximum duration of a batch, picoseconds.
    pub most_batch_ps: u64,
    /// Untimed batches of each side before the first block.
    pub warm_up: u32,
    /// The number of blocks.
    pub budget: Budget,
    /// Resamples of the bootstrap.
    pub resamples: u32,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            seed: 0,
            confidence: 0.95,
            tick_share: 0.001,
            most_launches: 1000,
            most_batch_ps: 50_000_000_000,
            warm_up: 5,
            budget: Budget {
                least_blocks: 20,
                most_blocks: 100,
                half_width: 0.005,
                most_ps: 60_000_000_000_000,
            },
            resamples: 2000,
        }
    }
}

/// Why a measurement failed.
#[derive(Clone, Debug, PartialEq)]
pub enum SpeedError {
    /// The plan is not valid; which part of it.
    Plan(String),
    /// The clock failed.
    Clock(ClockError),
}

impl fmt::Display for SpeedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plan(wrong) => write!(f, "the timing policy {wrong}"),
            Self::Clock(error) => error.fmt(f),
        }
    }
}

impl error::Error for SpeedError {}

impl From<ClockError> for SpeedError {
    fn from(error: ClockError) -> Self {
        Self::Clock(error)
    }
}

impl Plan {
    /// Rejects an invalid plan; the error lists every wrong part.
    pub fn validate(&self) -> Result<(), SpeedError> {
        let Budget { least_blocks, most_blocks, half_width, .. } = self.budget;
        let checks = [
            (
                (0.5..0.9999).contains(&self.confidence),
                "must have a confidence of at least 0.5 and below 0.9999",
            ),
            (
                self.tick_share > 0.0 && self.tick_share <= 1.0,
                "must have a tick share above 0 and of at most 1",
            ),
            (
                (1..=LAUNCHES_LIMIT).contains(&self.most_launches),
                "must allow 1 to 1,000,000 launches in a batch",
            ),
            (self.warm_up <= 10_000, "must warm up with at most 10,000 batches"),
            ((1..=BLOCKS_LIMIT).contains(&least_blocks), "must take 1 to 20,000 blocks"),
            (
                most_blocks >= least_blocks && most_blocks <= BLOCKS_LIMIT,
                "must allow at least as many blocks as it requires, and at most 20,000",
            ),
            (half_width.is_finite() && half_width >= 0.0, "must have a half-width of at least 0"),
            ((100..=RESAMPLES_LIMIT).contains(&self.resamples), "must take 100 to 100,000 resamples"),
        ];
        let wrong: Vec<&str> =
            checks.into_iter().filter(|(holds, _)| !holds).map(|(_, wrong)| wrong).collect();
        if wrong.is_empty() { Ok(()) } else { Err(SpeedError::Plan(wrong.join("; "))) }
    }

    /// The same plan with another seed.
    #[must_use]
    pub fn with_seed(&self, seed: u64) -> Self {
        Self { seed, ..self.clone() }
    }
}

/// Four batches in time order: A B B A, where A is `first`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// The side of the first and the last batch.
    pub first: Side,
    /// The batches.
    pub samples: [Sample; 4],
}

impl Block {
    /// The two batches of a side.
    pub fn of(&self, side: Side) -> [Sample; 2] {
        let [a, b, c, d] = self.samples;
        if side == self.first { [a, d] } else { [b, c] }
    }

    /// Logarithm of candidate over baseline, each the geometric mean of its two batches; `None` if a batch took no
    /// tick.
    pub fn log_ratio(&self) -> Option<f64> {
        Some(self.log_of(Side::Candidate)? - self.log_of(Side::Baseline)?)
    }

    /// Logarithm of the geometric mean of all four batches, the level at which the device ran.
    pub fn log_level(&self) -> Option<f64> {
        Some(f64::midpoint(self.log_of(Side::Candidate)?, self.log_of(Side::Baseline)?))
    }

    fn log_of(&self, side: Side) -> Option<f64> {
        let [a, b] = self.of(side);
        (a.elapsed_ps > 0 && b.elapsed_ps > 0)
            .then(|| f64::midpoint((a.elapsed_ps as f64).ln(), (b.elapsed_ps as f64).ln()))
    }
}

/// The timed blocks.
#[derive(Clone, Debug, PartialEq)]
pub struct Measurement {
    /// The origin of the times.
    pub origin: Origin,
    /// The timer's resolution, from all batches.
    pub resolution: Resolution,
    /// Launches in a batch.
    pub launches: u32,
    /// Why the batch is shorter than the plan requests; `None` if it is not.
    pub capped: Option<String>,
    /// The blocks, in time order.
    pub blocks: Vec<Block>,
}

/// Times both sides according to the plan.
pub fn measure(clock: &mut dyn Clock, plan: &Plan) -> Result<Measurement, SpeedError> {
    plan.validate()?;
    let mut run = Run { clock, plan, batch: 0, times: Vec::new(), timed_ps: 0 };
    let (launches, capped) = run.batch_size()?;
    for _ in 0..plan.warm_up {
        run.time(Side::Baseline, launches)?;
        run.time(Side::Candidate, launches)?;
    }
    run.timed_ps = 0;
    let blocks = run.blocks(launches)?;
    let resolution = run.resolution();
    Ok(Measurement { origin: run.clock.origin(), resolution, launches, capped, blocks })
}

/// A measurement in progress.
struct Run<'a> {
    clock: &'a mut dyn Clock,
    plan: &'a Plan,
    batch: u64,
    times: Vec<u64>,
    timed_ps: u64,
}

impl Run<'_> {
    fn time(&mut self, side: Side, launches: u32) -> Result<Sample, ClockError> {
        self.clock.refresh(side, self.batch)?;
        self.batch += 1;
        let sample = self.clock.time(side, launches)?;
        self.times.push(sample.elapsed_ps);
        self.timed_ps = self.timed_ps.saturating_add(sample.elapsed_ps);
        Ok(sample)
    }

    /// The timer's resolution so far. A model has no timer: two predictions lie on a grid as wide as their
    /// difference, which is meaningless, so the model's stated resolution is used.
    fn resolution(&self) -> Resolution {
        let stated = self.clock.resolution_hint_ps();
        match (self.clock.origin(), stated) {
            (Origin::Predicted { .. }, Some(tick_ps)) => Resolution { tick_ps, evidence: Evidence::Stated },
            _ => resolution(&self.times, stated),
        }
    }

    /// Launches in a batch such that a tick is a sufficiently small fraction of it, and what prevented it.
    fn batch_size(&mut self) -> Result<(u32, Option<String>), ClockError> {
        let limit = self.clock.launch_limit().max(1);
        let most = self.plan.most_launches.min(limit);
        // Batches of different lengths give different times even without noise.
        for probe in 0..PROBES {
            self.time(Side::Baseline, (1 + probe % 4).min(most))?;
            self.time(Side::Candidate, (1 + probe % 4).min(most))?;
        }
        let mut launches = 1;
        for _ in 0..SIZES {
            // The shorter side decides; the median of three ignores one disturbed batch.
            let mut shorter = u64::MAX;
            for side in [Side::Baseline, Side::Candidate] {
                let mut three = [0; 3];
                for time in &mut three {
                    *time = self.time(side, launches)?.elapsed_ps;
                }
                three.sort_unstable();
                shorter = shorter.min(three[1]);
            }
            let timer = self.resolution();
            // A timer without a grid does not need longer batches: no tick can be mistaken for a gain.
            let share = if timer.evidence == Evidence::Fine { 0.0 } else { timer.share_of(shorter as f64) };
            if share <= self.plan.tick_share {
                return Ok((launches, None));
            }
            let needed = (f64::from(launches) * share / self.plan.tick_share * 1.05).ceil();
            let by_time = self.plan.most_batch_ps as f64 / (shorter.max(1) as f64 / f64::from(launches));
            let (cap, why) = if by_time < f64::from(most) {
                (by_time.floor().max(1.0), "the longest batch the policy allows")
            } else if limit <= self.plan.most_launches {
                (f64::from(most), "the most launches this clock can time at once")
            } else {
                (f64::from(most), "the most launches the policy allows in a batch")
            };
            let next = needed.min(cap).min(f64::from(launches) * 64.0) as u32;
            if next <= launches {
                let why = format!(
                    "{why} is reached at {launches}, and one tick is {:.2} % of a batch",
                    share * 100.0
                );
                return Ok((launches, Some(why)));
            }
            launches = next;
        }
        Ok((
            launches,
            Some(format!("no batch size reached the requested tick share; {launches} launches are used")),
        ))
    }

    fn blocks(&mut self, launches: u32) -> Result<Vec<Block>, ClockError> {
        let budget = self.plan.budget;
        let mut order = Random::for_purpose(self.plan.seed, ORDER);
        let mut blocks: Vec<Block> = Vec::new();
        for taken in 1..=budget.most_blocks {
            let first = if order.chance(0.5) { Side::Baseline } else { Side::Candidate };
            let second = first.other();
            blocks.push(Block {
                first,
                samples: [
                    self.time(first, launches)?,
                    self.time(second, launches)?,
                    self.time(second, launches)?,
                    self.time(first, launches)?,
                ],
            });
            let look = taken >= budget.least_blocks && (taken - budget.least_blocks).is_multiple_of(LOOK);
            if look && taken as usize >= MINIMUM_BLOCKS && self.narrow(&blocks) {
                break;
            }
            if self.timed_ps >= budget.most_ps {
                break;
            }
        }
        Ok(blocks)
    }

    fn narrow(&self, blocks: &[Block]) -> bool {
        let ratios: Vec<f64> = blocks.iter().filter_map(Block::log_ratio).collect();
        approximate_half_width(&ratios, self.plan.confidence) <= self.plan.budget.half_width
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::Reading,
        super::synthetic::{Noise, Quantized, Synthetic, Ticks, Truth},
        *,
    };

    fn noisy(ns: f64) -> Truth {
        Truth { noise: Noise::Gaussian { sd: 0.02 }, ..Truth::new(ns, ns * 0.9) }
    }

    #[test]
    fn a_batch_is_as_long_as_the_tick_asks() {
        for (quantized, ns) in
            [(Quantized::Floor, 300.0), (Quantized::Round, 5_000.0), (Quantized::Edges, 60_000.0)]
        {
            let truth = Truth { ticks: Some(Ticks::event(quantized)), ..noisy(ns) };
            let plan = Plan { most_launches: 100_000, budget: Budget::fixed(10), ..Plan::default() };
            let measured = measure(&mut Synthetic::new(truth, 1), &plan).unwrap();
            assert_eq!(measured.resolution.tick_ps, 1_024_000);
            assert_eq!(measured.capped, None);
            let needed = 1_024.0 / plan.tick_share / (ns * 0.9);
            let taken = f64::from(measured.launches);
            assert!(taken > 0.9 * needed && taken < 2.0 * needed, "{taken} of {needed}");
        }
    }

    /// A model: every launch of a side takes the same time.
    struct Model(Origin);

    impl Clock for Model {
        fn origin(&self) -> Origin {
            self.0.clone()
        }

        fn resolution_hint_ps(&self) -> Option<u64> {
            Some(1_000)
        }

        fn launch_limit(&self) -> u32 {
            1
        }

        fn time(&mut self, side: Side, _: u32) -> Result<Sample, ClockError> {
            let elapsed_ps = if side == Side::Baseline { 6_200_000 } else { 2_040_000 };
            Ok(Sample { elapsed_ps, before: Reading::default(), after: Reading::default() })
        }
    }

    #[test]
    fn two_predictions_are_no_grid() {
        let device = "a device".to_owned();
        let predicted = measure(&mut Model(Origin::Predicted { device }), &Plan::default()).unwrap();
        assert_eq!(predicted.resolution, Resolution { tick_ps: 1_000, evidence: Evidence::Stated });
        assert_eq!(predicted.capped, None);
        // For a timer, the observed grid would count.
        let device = "a device".to_owned();
        let measured = measure(&mut Model(Origin::Measured { device }), &Plan::default()).unwrap();
        assert_eq!(measured.resolution.tick_ps, 4_160_000);
    }

    #[test]
    fn a_clock_that_cannot_batch_says_so() {
        let truth = Truth { ticks: Some(Ticks::event(Quantized::Round)), launch_limit: 1, ..noisy(5_000.0) };
        let measured = measure(&mut Synthetic::new(truth, 1), &Plan::default()).unwrap();
        assert_eq!(measured.launches, 1);
        assert!(measured.capped.unwrap().starts_with("the most launches this clock can time at once"));
    }

    #[test]
    fn a_fine_timer_needs_no_batch() {
        let measured = measure(&mut Synthetic::new(noisy(5_000.0), 1), &Plan::default()).unwrap();
        assert_eq!((measured.launches, measured.capped), (1, None));
        assert_eq!(measured.resolution.evidence, Evidence::Fine);
    }

    #[test]
    fn blocks_follow_the_budget() {
        let quiet = Truth { noise: Noise::Gaussian { sd: 0.002 }, ..noisy(5_000.0) };
        let loud = Truth { noise: Noise::Gaussian { sd: 0.2 }, ..noisy(5_000.0) };
        let blocks = |truth, plan: &Plan| measure(&mut Synthetic::new(truth, 1), plan).unwrap().blocks.len();
        assert_eq!(blocks(quiet.clone(), &Plan::default()), 20);
        assert_eq!(blocks(loud, &Plan::default()), 100);
        assert_eq!(blocks(quiet.clone(), &Plan { budget: Budget::fixed(33), ..Plan::default() }), 33);
        // 20 blocks of 4 batches of about 5 µs.
        let short = Budget { most_ps: 200_000_000, ..Budget::fixed(33) };
        assert_eq!(blocks(quiet, &Plan { budget: short, ..Plan::default() }), 11);
    }

    #[test]
    fn both_orders_occur_and_the_seed_makes_them() {
        let firsts = |seed| -> Vec<Side> {
            let measured =
                measure(&mut Synthetic::new(noisy(9e5), 1), &Plan::default().with_seed(seed)).unwrap();
            measured.blocks.iter().map(|block| block.first).take(20).collect()
        };
        assert!(firsts(1).contains(&Side::Baseline) && firsts(1).contains(&Side::Candidate));
        assert_eq!(firsts(1), firsts(1));
        assert_ne!(firsts(1), firsts(2));
    }

    #[test]
    fn a_plan_that_cannot_be_done_is_refused_with_every_fault() {
        let plan = Plan { confidence: 1.0, most_launches: 0, budget: Budget::fixed(0), ..Plan::default() };
        let error = measure(&mut Synthetic::new(noisy(1.0), 1), &plan).unwrap_err().to_string();
        assert!(
            error.contains("confidence") && error.contains("launches") && error.contains("blocks"),
            "{error}"
        );
    }

    /// Counts calls of the hook.
    struct Fresh(Synthetic, Vec<u64>);

    impl Clock for Fresh {
        fn origin(&self) -> Origin {
            self.0.origin()
        }

        fn refresh(&mut self, _: Side, batch: u64) -> Result<(), ClockError> {
            self.1.push(batch);
            Ok(())
        }

        fn time(&mut self, side: Side, launches: u32) -> Result<Sample, ClockError> {
            self.0.time(side, launches)
        }
    }

    #[test]
    fn inputs_are_made_fresh_before_every_batch() {
        let mut clock = Fresh(Synthetic::new(noisy(5_000.0), 1), Vec::new());
        let plan = Plan { budget: Budget::fixed(10), ..Plan::default() };
        measure(&mut clock, &plan).unwrap();
        let batches: Vec<u64> = (0..(24 + 6 + 10 + 40)).collect();
        assert_eq!(clock.1, batches);
    }
}
