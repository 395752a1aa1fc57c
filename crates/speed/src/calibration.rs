//! Calibration: runs the same program on both sides through the same procedure, and counts false positives of this
//! machine.

use serde::{Deserialize, Serialize};

use super::{
    clock::{Clock, ClockError, Origin, Sample, Side},
    comparison::Comparison,
    interval::{deviation, mean, median, normal_quantile},
    judgement::{LatencyReduction, Outcome},
    plan::{Plan, SpeedError, measure},
    random::Random,
};

/// Maximum runs of one calibration.
const RUNS_LIMIT: u32 = 10_000;

/// The probability with which a detectable gain is found.
const POWER: f64 = 0.95;

const PURPOSE: u64 = 3;

/// The result of comparing a program with itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// The origin of the times.
    pub origin: Origin,
    /// Runs made.
    pub runs: u32,
    /// Level of each run's interval.
    pub confidence: f64,
    /// Runs whose interval excluded "no difference", in either direction.
    pub told_apart: u32,
    /// Those runs whose outcome was `improved`, with a threshold of zero.
    pub improved: u32,
    /// Runs that could not give an answer: clocks moved, or ticks were too coarse.
    pub unfit: u32,
    /// The interval of the rate of `told_apart`, at the level of the runs (Wilson's).
    pub rate: (f64, f64),
    /// Mean of the reductions found; a mean that is not noise is bias.
    pub bias: f64,
    /// The smallest reduction beyond a threshold that one run finds with a probability of 95 %; `None` if no run gave
    /// an interval.
    pub detectable: Option<f64>,
}

impl Calibration {
    /// Whether this machine has more false positives than the level allows, beyond chance.
    pub fn alarming(&self) -> bool {
        self.rate.0 > 1.0 - self.confidence
    }
}

/// Runs the baseline against itself `runs` times under the plan.
pub fn calibrate(clock: &mut dyn Clock, plan: &Plan, runs: u32) -> Result<Calibration, SpeedError> {
    if !(1..=RUNS_LIMIT).contains(&runs) {
        return Err(SpeedError::Plan("must calibrate with 1 to 10,000 runs".to_owned()));
    }
    let mut clock = BaselineTwice(clock);
    let mut seeds = Random::for_purpose(plan.seed, PURPOSE);
    let (mut told_apart, mut improved, mut unfit) = (0, 0, 0);
    let (mut found, mut half_widths) = (Vec::new(), Vec::new());
    for _ in 0..runs {
        let plan = plan.with_seed(seeds.bits());
        let comparison = Comparison::of(&measure(&mut clock, &plan)?, &plan);
        let judgement = comparison.judge(LatencyReduction(0.0), None);
        improved += u32::from(judgement.outcome == Outcome::Improved);
        told_apart += u32::from(judgement.outcome != Outcome::Inconclusive);
        if let Some(reduction) = comparison.reduction {
            found.push(reduction.estimate);
            half_widths.push((reduction.high - reduction.low) / 2.0);
            unfit += u32::from(judgement.outcome == Outcome::Inconclusive && !reduction.contains(0.0));
        } else {
            unfit += 1;
        }
    }
    let two_sided = normal_quantile((1.0 - plan.confidence) / 2.0);
    // With few runs the spread of the results is itself uncertain; the width of the intervals gives the same
    // information.
    let error = deviation(&found).max(median(&half_widths) / two_sided);
    Ok(Calibration {
        origin: clock.origin(),
        runs,
        confidence: plan.confidence,
        told_apart,
        improved,
        unfit,
        rate: wilson(told_apart, runs, two_sided),
        bias: mean(&found),
        detectable: (!found.is_empty()).then(|| (two_sided + normal_quantile(1.0 - POWER)) * error),
    })
}

/// Wilson's interval of a rate.
fn wilson(hits: u32, runs: u32, z: f64) -> (f64, f64) {
    let n = f64::from(runs);
    let rate = f64::from(hits) / n;
    let square = z * z;
    let center = (rate + square / (2.0 * n)) / (1.0 + square / n);
    let half = z / (1.0 + square / n) * (rate * (1.0 - rate) / n + square / (4.0 * n * n)).sqrt();
    ((center - half).max(0.0), (center + half).min(1.0))
}

/// Launches the baseline for either side.
struct BaselineTwice<'a>(&'a mut dyn Clock);

impl Clock for BaselineTwice<'_> {
    fn origin(&self) -> Origin {
        self.0.origin()
    }

    fn resolution_hint_ps(&self) -> Option<u64> {
        self.0.resolution_hint_ps()
    }

    fn launch_limit(&self) -> u32 {
        self.0.launch_limit()
    }

    fn refresh(&mut self, _: Side, batch: u64) -> Result<(), ClockError> {
        self.0.refresh(Side::Baseline, batch)
    }

    fn time(&mut self, _: Side, launches: u32) -> Result<Sample, ClockError> {
        self.0.time(Side::Baseline, launches)
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::synthetic::{Noise, Synthetic, Truth},
        *,
    };

    #[test]
    fn a_quiet_machine_is_not_alarming_and_sees_small_gains() {
        let truth = Truth { noise: Noise::Gaussian { sd: 0.02 }, ..Truth::new(80_000.0, 1.0) };
        let found = calibrate(&mut Synthetic::new(truth, 1), &Plan::default(), 40).unwrap();
        assert!(!found.alarming(), "{found:?}");
        assert!(found.detectable.is_some_and(|gain| gain > 0.002 && gain < 0.02), "{found:?}");
        assert!(found.bias.abs() < 0.003, "{found:?}");
    }

    #[test]
    fn a_machine_that_tells_a_program_from_itself_decides_nothing() {
        let truth = Truth { noise: Noise::Gaussian { sd: 0.02 }, ..Truth::new(80_000.0, 40_000.0) };
        let mut clock = Synthetic::new(truth, 1);
        let comparison = Comparison::of(&measure(&mut clock, &Plan::default()).unwrap(), &Plan::default());
        let mut calibration = calibrate(&mut clock, &Plan::default(), 20).unwrap();
        let judge = |calibration: &Calibration| comparison.judge(LatencyReduction(0.05), Some(calibration));
        assert_eq!(judge(&calibration).outcome, Outcome::Improved);
        calibration.told_apart = 6;
        calibration.rate = wilson(6, 20, 1.96);
        assert_eq!(judge(&calibration).outcome, Outcome::Inconclusive);
        let said = judge(&calibration).to_string();
        assert!(
            said.contains(
                "found a difference between a program and itself in 6 of 20 runs, more than the allowed 5 %"
            ),
            "{said}"
        );
        // Two of twenty can happen by chance.
        calibration.told_apart = 2;
        calibration.rate = wilson(2, 20, 1.96);
        assert_eq!(judge(&calibration).outcome, Outcome::Improved);
    }

    #[test]
    fn runs_are_bounded() {
        let mut clock = Synthetic::new(Truth::new(1e5, 1e5), 1);
        assert!(calibrate(&mut clock, &Plan::default(), 0).is_err());
        assert!(calibrate(&mut clock, &Plan::default(), RUNS_LIMIT + 1).is_err());
    }

    #[test]
    fn wilson_is_sane_at_the_ends() {
        let (low, high) = wilson(0, 20, 1.96);
        assert!(low.abs() < 1e-12 && (0.1..0.2).contains(&high));
        let (low, high) = wilson(20, 20, 1.96);
        assert!((0.8..0.9).contains(&low) && (high - 1.0).abs() < 1e-12);
    }
}
