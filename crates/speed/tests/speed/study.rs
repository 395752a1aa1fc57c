//! Scenarios with a known truth, and the results of the procedure over many trials.

use std::{fs, path::Path};

use warpproof_speed::{
    Budget, Comparison, FrequencyStep, LatencyReduction, Noise, Outcome, Plan, Quantized, Random, Reason,
    Synthetic, Ticks, Truth, measure,
};

/// The true gain.
const GAIN: f64 = 0.10;
/// The threshold that a task would state.
const THRESHOLD: f64 = 0.05;

/// Trials of a scenario in the full study, both without a gain and with one.
pub(crate) const FULL: u32 = 2000;

/// The required result of a scenario.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Must {
    /// Coverage within 2 points of nominal, and the gain is found.
    Hold,
    /// Coverage within 2 points of nominal; the noise is too large to find the gain every time.
    Cover,
    /// Coverage of at least nominal minus 2 points: the tick error is added, so more is correct.
    Exceed,
    /// Wrong no more often than the level allows; it may be inconclusive.
    NotWrong,
    /// There are two ratios: no decision is allowed.
    Refuse,
}

/// Conditions under which programs are compared.
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) must: Must,
    truth: Truth,
    /// Factors of a change of frequency at a random batch of the run, on baseline and candidate.
    step: Option<(f64, f64)>,
    plan: Plan,
}

impl Scenario {
    fn new(name: &'static str, must: Must, noise: Noise) -> Self {
        let truth = Truth { noise, ..Truth::new(60_000.0, 60_000.0) };
        Self { name, must, truth, step: None, plan: Plan::default() }
    }

    fn drift(mut self) -> Self {
        // 10 % over the run, which must not end earlier.
        self.truth.drift_per_batch = 0.10 / 400.0;
        self.blocks(100)
    }

    fn ticks(mut self, quantized: Quantized) -> Self {
        self.truth.ticks = Some(Ticks::event(quantized));
        self
    }

    fn single(mut self) -> Self {
        self.truth.launch_limit = 1;
        self
    }

    fn step(mut self, baseline: f64, candidate: f64) -> Self {
        self.step = Some((baseline, candidate));
        self.blocks(100)
    }

    fn read(mut self) -> Self {
        self.truth.sm_mhz = Some(2040);
        self
    }

    fn blocks(mut self, blocks: u32) -> Self {
        self.plan.budget = Budget::fixed(blocks);
        self
    }

    /// The same with another number of resamples.
    pub(crate) fn resamples(mut self, resamples: u32) -> Self {
        self.plan.resamples = resamples;
        self
    }

    /// One comparison of a true gain.
    fn trial(&self, gain: f64, seed: u64) -> Comparison {
        let mut truth = self.truth.clone();
        truth.candidate_ns = truth.baseline_ns * (1.0 - gain);
        let mut random = Random::for_purpose(seed, 77);
        if let Some((baseline, candidate)) = self.step {
            // Probing and warm-up take the first 40 to 60 batches, 100 blocks take 400: choose from the
            // middle half of these.
            let at = 150 + u32::try_from(random.below(200)).unwrap();
            truth.steps.push(FrequencyStep { at, baseline, candidate });
        }
        let plan = self.plan.with_seed(random.bits());
        let mut clock = Synthetic::new(truth, random.bits());
        Comparison::of(&measure(&mut clock, &plan).unwrap(), &plan)
    }
}

/// All scenarios, in the order of the book's table.
pub(crate) fn scenarios() -> Vec<Scenario> {
    let gaussian = Noise::Gaussian { sd: 0.05 };
    let tail = Noise::LogNormal { sd: 0.05, shape: 1.0 };
    let contention = Noise::Contention { sd: 0.01, share: 0.15, slowdown: 0.14, burst: 1.0 };
    let bursts = Noise::Contention { sd: 0.01, share: 0.15, slowdown: 0.14, burst: 12.0 };
    let quiet = Noise::Gaussian { sd: 0.005 };
    let still = Noise::Gaussian { sd: 0.0005 };
    vec![
        Scenario::new("Gaussian", Must::Hold, gaussian),
        Scenario::new("log-normal tail", Must::Hold, tail),
        Scenario::new("contention", Must::Hold, contention),
        Scenario::new("contention in bursts", Must::Hold, bursts),
        Scenario::new("Gaussian, 0.5 %", Must::Hold, quiet),
        Scenario::new("Gaussian, 20 blocks", Must::Hold, gaussian).blocks(20),
        Scenario::new("log-normal tail, 20 blocks", Must::Hold, tail).blocks(20),
        Scenario::new("contention, 20 blocks", Must::Hold, contention).blocks(20),
        Scenario::new("Gaussian, 10 blocks", Must::Cover, gaussian).blocks(10),
        Scenario::new("Gaussian, drift", Must::Hold, gaussian).drift(),
        Scenario::new("log-normal tail, drift", Must::Hold, tail).drift(),
        Scenario::new("contention in bursts, drift", Must::Hold, bursts).drift(),
        Scenario::new("Gaussian, ticks truncated", Must::Hold, gaussian).ticks(Quantized::Floor),
        Scenario::new("Gaussian, ticks rounded", Must::Hold, gaussian).ticks(Quantized::Round),
        Scenario::new("log-normal tail, ticks at both ends", Must::Hold, tail).ticks(Quantized::Edges),
        Scenario::new("contention, ticks truncated", Must::Hold, contention).ticks(Quantized::Floor),
        Scenario::new("Gaussian, 0.5 %, ticks truncated", Must::Hold, quiet).ticks(Quantized::Floor),
        Scenario::new("Gaussian, ticks truncated, no batches", Must::Hold, gaussian)
            .ticks(Quantized::Floor)
            .single(),
        Scenario::new("Gaussian, 0.5 %, ticks truncated, no batches", Must::Exceed, quiet)
            .ticks(Quantized::Floor)
            .single(),
        Scenario::new("Gaussian, 0.05 %, ticks rounded", Must::Exceed, still).ticks(Quantized::Round),
        Scenario::new("Gaussian, +25 % step", Must::NotWrong, gaussian).step(1.25, 1.25),
        Scenario::new("Gaussian, +25 % step, clocks read", Must::NotWrong, gaussian).step(1.25, 1.25).read(),
        Scenario::new("log-normal tail, +8 % step", Must::NotWrong, tail).step(1.08, 1.08),
        Scenario::new("bursts, drift, ticks truncated, −20 % step", Must::NotWrong, bursts)
            .drift()
            .ticks(Quantized::Floor)
            .step(0.8, 0.8),
        Scenario::new("Gaussian, +25 % step of the baseline alone", Must::Refuse, gaussian).step(1.25, 1.0),
    ]
}

/// The results of a scenario.
pub(crate) struct Row {
    name: &'static str,
    /// Trials of a program against itself.
    same: u32,
    /// Of these, the fractions that reported an improvement, that found a difference in either direction, and
    /// that were rejected for a reason other than an interval that contains the threshold.
    pub(crate) improved: f64,
    told_apart: f64,
    unfit: f64,
    /// Trials of a gain.
    gain: u32,
    /// Of these, the fractions whose interval contained the truth, that were found with a threshold of 0 and
    /// of 5 %, that were reported as no gain of 5 %, and that were rejected.
    pub(crate) covered: f64,
    found: f64,
    found_threshold: f64,
    denied: f64,
    refused: f64,
}

fn unfit(reasons: &[Reason]) -> bool {
    let weighed = |reason: &Reason| {
        matches!(
            reason,
            Reason::Straddles { .. } | Reason::WithinOneTick { .. } | Reason::TimerTooCoarse { .. }
        )
    };
    reasons.iter().any(|reason| !weighed(reason))
}

impl Row {
    /// Runs the trials.
    pub(crate) fn of(scenario: &Scenario, same: u32, gain: u32) -> Self {
        let share = |hits: u32, of: u32| f64::from(hits) / f64::from(of);
        let mut seeds = Random::new(
            scenario
                .name
                .bytes()
                .fold(0, |seed: u64, byte| seed.wrapping_mul(31).wrapping_add(u64::from(byte))),
        );
        let (mut improved, mut told_apart, mut alone) = (0, 0, 0);
        for _ in 0..same {
            let judgement = scenario.trial(0.0, seeds.bits()).judge(LatencyReduction(0.0), None);
            improved += u32::from(judgement.outcome == Outcome::Improved);
            told_apart += u32::from(judgement.outcome != Outcome::Inconclusive);
            alone += u32::from(unfit(&judgement.reasons));
        }
        let (mut covered, mut found, mut found_threshold, mut denied, mut refused) = (0, 0, 0, 0, 0);
        for _ in 0..gain {
            let comparison = scenario.trial(GAIN, seeds.bits());
            covered += u32::from(comparison.reduction.unwrap().contains(GAIN));
            found += u32::from(comparison.judge(LatencyReduction(0.0), None).outcome == Outcome::Improved);
            let judgement = comparison.judge(LatencyReduction(THRESHOLD), None);
            found_threshold += u32::from(judgement.outcome == Outcome::Improved);
            denied += u32::from(judgement.outcome == Outcome::NotImproved);
            refused += u32::from(unfit(&judgement.reasons));
        }
        Self {
            name: scenario.name,
            same,
            improved: share(improved, same),
            told_apart: share(told_apart, same),
            unfit: share(alone, same),
            gain,
            covered: share(covered, gain),
            found: share(found, gain),
            found_threshold: share(found_threshold, gain),
            denied: share(denied, gain),
            refused: share(refused, gain),
        }
    }

    /// Asserts the required result of the scenario, with an allowance of `sigmas` standard errors.
    pub(crate) fn hold(&self, scenario: &Scenario, sigmas: f64) {
        let slack = |rate: f64, trials: u32| sigmas * (rate * (1.0 - rate) / f64::from(trials)).sqrt();
        let line = self.line();
        assert!(self.improved <= 0.05 + slack(0.05, self.same), "false alarms: {line}");
        assert!(self.denied <= 0.05 + slack(0.05, self.gain), "gains denied: {line}");
        let coverage = slack(0.95, self.gain);
        let found = 0.95 - slack(0.95, self.gain);
        match scenario.must {
            Must::Hold | Must::Cover => {
                assert!((self.covered - 0.95).abs() <= 0.02 + coverage, "coverage: {line}");
            }
            Must::Exceed => assert!(self.covered >= 0.93 - coverage, "coverage: {line}"),
            Must::NotWrong | Must::Refuse => {}
        }
        if scenario.must == Must::Hold {
            assert!(self.found >= found && self.found_threshold >= found, "power: {line}");
        }
        if scenario.must == Must::Refuse {
            assert!(self.unfit >= found && self.refused >= found, "decided: {line}");
        }
    }

    /// A row of the book's table.
    pub(crate) fn line(&self) -> String {
        let percent = |share: f64| format!("{:.1}", share * 100.0);
        format!(
            "| {} | {} | {} | {} | {} | {} | {} | {} |",
            self.name,
            percent(self.improved),
            percent(self.told_apart),
            percent(self.covered),
            percent(self.found),
            percent(self.found_threshold),
            percent(self.denied),
            percent(f64::midpoint(self.unfit, self.refused)),
        )
    }
}

/// Replaces a table in the book.
pub(crate) fn bless(name: &str, head: &str, lines: &[String]) {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../book/src/gate/statistics.md");
    let text = fs::read_to_string(&page).unwrap();
    let (open, close) = (format!("<!-- {name} -->\n"), format!("<!-- end of {name} -->"));
    let (before, rest) = text.split_once(&open).unwrap();
    let (_, after) = rest.split_once(&close).unwrap();
    fs::write(&page, format!("{before}{open}\n{head}\n{}\n\n{close}{after}", lines.join("\n"))).unwrap();
}

/// The head of the table of rows.
pub(crate) const HEAD: &str = "| conditions | A/A: improved | A/A: different | coverage | gain found, \
                               threshold 0 | gain found, threshold −5 % | gain denied | refused |\n\
                               |---|--:|--:|--:|--:|--:|--:|--:|";
