//! Tests the public API of the speed statistics, on clocks whose truth is known.
//!
//! `study` contains the scenarios, `methods` the intervals that were compared; the quick tests run some
//! trials of each, and the full tests all of them:
//!
//! ```text
//! cargo test --release -p warpproof-speed --test speed -- --ignored
//! ```
//!
//! With `WARPPROOF_BLESS=1` the full tests also write their numbers into `book/src/gate/statistics.md`.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod methods;
mod study;

use study::{FULL, Must, Row, scenarios};
use warpproof_speed::{
    Budget, Clock, ClockError, Comparison, Evidence, FrequencyStep, LatencyReduction, Noise, Origin, Outcome,
    Plan, Quantized, Random, Reading, Reason, Recorded, Recorder, Sample, Side, SpeedError, Synthetic, Ticks,
    Trace, TraceError, Truth, measure,
};

fn compare(clock: &mut dyn Clock, plan: &Plan) -> Comparison {
    Comparison::of(&measure(clock, plan).unwrap(), plan)
}

/// A gain of exactly one tick of the event timer: 656 µs on a timer with ticks of 1.024 µs is 641 ticks; the candidate takes 640.
fn one_tick(noise: Noise, quantized: Quantized, launch_limit: u32) -> Truth {
    let ticks = Some(Ticks::event(quantized));
    Truth { noise, ticks, launch_limit, ..Truth::new(656_384.0 + 300.0, 655_360.0 + 300.0) }
}

#[test]
fn one_tick_is_never_sold_as_a_gain() {
    for quantized in [Quantized::Floor, Quantized::Round] {
        for sd in [0.0, 1e-5, 1e-4] {
            for seed in 0..20 {
                let truth = one_tick(Noise::Gaussian { sd }, quantized, 1);
                let plan = Plan::default().with_seed(seed);
                let comparison = compare(&mut Synthetic::new(truth, seed), &plan);
                assert_eq!(comparison.resolution.tick_ps, 1_024_000);
                let judgement = comparison.judge(LatencyReduction(0.0), None);
                assert_eq!(judgement.outcome, Outcome::Inconclusive, "{sd}: {judgement}");
                let tick = |reason: &Reason| matches!(reason, Reason::WithinOneTick { .. });
                assert!(judgement.reasons.iter().any(tick), "{judgement}");
            }
        }
    }
}

#[test]
fn the_sentence_about_one_tick() {
    let mut clock = Synthetic::new(one_tick(Noise::None, Quantized::Floor, 1), 1);
    let judgement = compare(&mut clock, &Plan::default()).judge(LatencyReduction(0.0), None);
    assert_eq!(
        judgement.to_string(),
        "inconclusive: −0.2 % latency (1.00×), 95 % interval +0.2 % to −0.5 %, threshold 0.0 %; the interval from +0.2 % \
         to −0.5 % contains the threshold of 0.0 %: more blocks or less noise would decide; the timer is too coarse: its tick \
         of 1.024 µs leaves the ratio uncertain by 0.31 %; the most launches this clock can time at once is reached at 1, \
         and one tick is 0.16 % of a batch; the two differ by no more than one tick of the timer (1.024 µs, 0.16 % of a \
         batch)"
    );
}

#[test]
fn a_gain_of_one_tick_is_excluded_from_being_five_percent() {
    let mut clock = Synthetic::new(one_tick(Noise::None, Quantized::Floor, 1), 1);
    let judgement = compare(&mut clock, &Plan::default()).judge(LatencyReduction(0.05), None);
    assert_eq!(judgement.outcome, Outcome::NotImproved);
    assert!(judgement.to_string().ends_with("a gain beyond −0.5 % is excluded"), "{judgement}");
}

#[test]
fn where_the_clock_can_batch_the_same_gain_is_real() {
    let truth = one_tick(Noise::Gaussian { sd: 1e-4 }, Quantized::Floor, 1000);
    let plan = Plan { tick_share: 1e-4, ..Plan::default() };
    let comparison = compare(&mut Synthetic::new(truth, 1), &plan);
    assert!(comparison.launches >= 15);
    assert_eq!(comparison.judge(LatencyReduction(0.0), None).outcome, Outcome::Improved);
}

#[test]
fn a_kernel_of_five_microseconds_is_batched_and_judged() {
    for quantized in [Quantized::Floor, Quantized::Round, Quantized::Edges] {
        let truth = Truth {
            noise: Noise::Gaussian { sd: 0.01 },
            ticks: Some(Ticks::event(quantized)),
            ..Truth::new(5_000.0, 4_500.0)
        };
        let comparison = compare(&mut Synthetic::new(truth, 3), &Plan::default());
        assert!(comparison.launches >= 200, "{}", comparison.launches);
        assert_eq!(comparison.resolution.evidence, Evidence::Grid);
        let judgement = comparison.judge(LatencyReduction(0.05), None);
        assert_eq!(judgement.outcome, Outcome::Improved, "{judgement}");
        assert!((comparison.reduction.unwrap().estimate - 0.1).abs() < 0.01);
    }
}

#[test]
fn a_frequency_that_is_read_to_move_is_told_in_words() {
    let step = FrequencyStep { at: 140, baseline: 1.28, candidate: 1.28 };
    let truth = Truth {
        noise: Noise::Gaussian { sd: 0.01 },
        steps: vec![step],
        sm_mhz: Some(2040),
        ..Truth::new(80_000.0, 40_000.0)
    };
    let plan = Plan { budget: Budget::fixed(50), ..Plan::default() };
    let judgement = compare(&mut Synthetic::new(truth, 1), &plan).judge(LatencyReduction(0.05), None);
    assert_eq!(judgement.outcome, Outcome::Inconclusive);
    let said = judgement.to_string();
    assert!(said.contains("the SM clock moved between 1594 and 2040 MHz"), "{said}");
    assert!(said.contains("the latencies of both sides stepped by +28"), "{said}");
}

#[test]
fn too_few_blocks_decide_nothing() {
    let plan = Plan { budget: Budget::fixed(9), ..Plan::default() };
    let judgement =
        compare(&mut Synthetic::new(Truth::new(9e4, 3e4), 1), &plan).judge(LatencyReduction(0.0), None);
    assert_eq!(judgement.outcome, Outcome::Inconclusive);
    assert_eq!(judgement.reasons, [Reason::TooFewBlocks { blocks: 9 }]);
}

#[test]
fn batches_of_no_tick_decide_nothing() {
    let truth =
        Truth { ticks: Some(Ticks::event(Quantized::Floor)), launch_limit: 1, ..Truth::new(900.0, 300.0) };
    let judgement =
        compare(&mut Synthetic::new(truth, 1), &Plan::default()).judge(LatencyReduction(0.0), None);
    assert_eq!(judgement.outcome, Outcome::Inconclusive, "{judgement}");
    assert!(matches!(judgement.reasons[0], Reason::NoTick { blocks: 20.. }), "{judgement}");
}

#[test]
fn a_recorded_run_replays_to_the_bit() {
    let truth = Truth {
        noise: Noise::LogNormal { sd: 0.05, shape: 1.0 },
        ticks: Some(Ticks::event(Quantized::Edges)),
        sm_mhz: Some(2040),
        ..Truth::new(60_000.0, 50_000.0)
    };
    let plan = Plan::default().with_seed(11);
    let mut recorder = Recorder::new(Synthetic::new(truth, 5));
    let live = compare(&mut recorder, &plan);
    let json = recorder.into_trace().to_json().unwrap();
    let trace = Trace::from_json(&json).unwrap();
    assert_eq!(trace.to_json().unwrap(), json);
    let mut replay = Recorded::new(trace.clone());
    assert_eq!(compare(&mut replay, &plan), live);
    assert_eq!(replay.left(), 0);

    let other = measure(&mut Recorded::new(trace.clone()), &plan.with_seed(12));
    assert!(matches!(other, Err(SpeedError::Clock(ClockError::Mismatch { .. }))));
    let longer = Plan { budget: Budget::fixed(2000), ..plan };
    let longer = measure(&mut Recorded::new(trace), &longer);
    assert!(matches!(longer, Err(SpeedError::Clock(ClockError::Exhausted { .. }))));
}

#[test]
fn what_is_no_trace_is_refused() {
    assert!(matches!(Trace::from_json("{"), Err(TraceError::Json(_))));
    let head = r#""origin":{"kind":"measured","device":"L4"},"launch_limit":9"#;
    let other = format!(r#"{{"format":"warpproof trace 2",{head},"samples":[]}}"#);
    assert_eq!(Trace::from_json(&other), Err(TraceError::Format("warpproof trace 2".to_owned())));
    let none = format!(
        r#"{{"format":"warpproof trace 1",{head},"samples":[{{"side":"baseline","launches":0,"elapsed_ps":5}}]}}"#
    );
    assert_eq!(Trace::from_json(&none), Err(TraceError::NoLaunches(0)));
}

#[test]
fn the_outcome_survives_json() {
    let truth = Truth { noise: Noise::Gaussian { sd: 0.03 }, ..Truth::new(9e4, 8e4) };
    let comparison = compare(&mut Synthetic::new(truth, 1), &Plan::default());
    let json = serde_json::to_string(&comparison.judge(LatencyReduction(0.05), None)).unwrap();
    assert!(
        json.starts_with(r#"{"outcome":"improved","threshold":0.05,"confidence":0.95,"reduction":{"#),
        "{json}"
    );
}

/// A clock that returns arbitrary numbers.
struct Nonsense(Random);

impl Clock for Nonsense {
    fn origin(&self) -> Origin {
        Origin::Measured { device: "nonsense".to_owned() }
    }

    fn resolution_hint_ps(&self) -> Option<u64> {
        Some(self.0.clone().bits() >> self.0.clone().below(64))
    }

    fn time(&mut self, _: Side, _: u32) -> Result<Sample, ClockError> {
        let mut any = || match self.0.below(4) {
            0 => 0,
            1 => u64::MAX,
            _ => self.0.bits() >> self.0.below(64),
        };
        let elapsed_ps = any();
        let reading = Reading {
            sm_mhz: u32::try_from(any() >> 32).ok(),
            temperature_c: i32::try_from(any() >> 33).ok(),
            ..Reading::default()
        };
        Ok(Sample { elapsed_ps, before: reading, after: Reading::default() })
    }
}

#[test]
fn no_times_make_it_panic_or_go_on_for_ever() {
    for seed in 0..200 {
        let plan = Plan { resamples: 100, most_launches: 1_000_000, ..Plan::default().with_seed(seed) };
        let mut clock = Recorder::new(Nonsense(Random::new(seed)));
        let judgement = compare(&mut clock, &plan).judge(LatencyReduction(0.05), None);
        assert!(!judgement.to_string().is_empty());
        assert!(clock.trace().samples.len() < 1000);
        let trace = clock.into_trace();
        assert_eq!(Trace::from_json(&trace.to_json().unwrap()), Ok(trace));
    }
}

/// Few trials of each scenario, with the same limits plus an allowance for chance, and all of them together.
#[test]
fn the_procedure_holds_what_it_states() {
    let (mut improved, mut covered, mut count) = (0.0, 0.0, 0.0);
    for scenario in scenarios() {
        let scenario = scenario.resamples(500);
        let row = Row::of(&scenario, 40, 60);
        row.hold(&scenario, 4.0);
        if scenario.must == Must::Hold {
            improved += row.improved;
            covered += row.covered;
            count += 1.0;
        }
    }
    // About 700 and 1000 trials.
    assert!(improved / count < 0.05, "{}", improved / count);
    assert!((covered / count - 0.95).abs() < 0.02, "{}", covered / count);
}

/// 2,000 trials for each scenario without a gain, 2,000 for coverage, 1,000 for power.
#[test]
#[ignore = "takes a minute in a release build; generates the numbers in the book"]
fn the_procedure_holds_what_it_states_in_full() {
    let rows: Vec<Row> = std::thread::scope(|scope| {
        let all = scenarios();
        let (odd, even): (Vec<_>, Vec<_>) =
            all.into_iter().enumerate().partition(|(index, _)| index % 2 == 1);
        let workers: Vec<_> = [even, odd]
            .into_iter()
            .map(|part| {
                scope.spawn(move || {
                    let full = |(index, scenario)| (index, Row::of(&scenario, FULL, FULL), scenario);
                    part.into_iter().map(full).collect::<Vec<_>>()
                })
            })
            .collect();
        let mut rows: Vec<_> = workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect();
        rows.sort_by_key(|(index, ..)| *index);
        rows.into_iter()
            .map(|(_, row, scenario)| {
                println!("{}", row.line());
                row.hold(&scenario, 0.0);
                row
            })
            .collect()
    });
    if std::env::var_os("WARPPROOF_BLESS").is_some() {
        let lines: Vec<String> = rows.iter().map(Row::line).collect();
        study::bless("figures", study::HEAD, &lines);
    }
}

#[test]
fn the_interval_in_use_holds_what_it_states() {
    let [.., used] = methods::coverage(methods::Shape::Contention, 20, 300, 300);
    assert!((used.covered - 0.95).abs() < 0.02 + 0.04, "{}", used.covered);
}

#[test]
#[ignore = "takes a minute in a release build; generates the numbers in the book"]
fn the_intervals_that_were_weighed() {
    let lines = methods::lines(2000, 1000);
    for line in &lines {
        println!("{line}");
    }
    if std::env::var_os("WARPPROOF_BLESS").is_some() {
        study::bless("intervals", methods::HEAD, &lines);
    }
}
