//! Measures speed against the baseline, with the clock of the run.

use warpproof_gpu::Identity;
use warpproof_gpu::ncu::Profile;

use super::{Bench, Built, Ending, Trouble, unfit};
use warpproof_evidence::record::{Comparison as Op, Figure, FigureKind, Outcome};
use warpproof_evidence::vocabulary as name;
use warpproof_speed::{
    self as speed, Budget, Clock, ClockError, Comparison, Judgement, LatencyReduction, Origin, Plan,
    Recorder, Sample, SpeedError, Spread, calibrate, measure,
};
use warpproof_task::{Candidate, L2, Size, Timing};

/// Runs of the baseline against itself, which give this machine's false positive rate.
const CALIBRATION: u32 = 10;

/// A program to be timed.
pub type Side<'a> = (&'a Candidate, &'a Built);

/// Makes clocks that time two programs on one device.
pub trait Clocks: Sync {
    /// The device, with what distinguishes it from others of its model: results of another device do not count for
    /// it.
    fn device(&self) -> String;

    /// The device's identity for other programs, if they can use it.
    fn identity(&self) -> Option<&Identity>;

    /// The chosen timing conditions: results under other conditions do not count either.
    fn conditions(&self) -> String;

    /// Whether its times are predictions.
    fn predicted(&self) -> bool;

    /// Whether other programs that use the device get their own process group.
    fn apart(&self) -> bool {
        true
    }

    /// A clock for a baseline and a candidate on one size, with the L2 cache in a stated condition.
    fn clock<'c>(
        &'c self,
        bench: &Bench<'_>,
        baseline: Side<'c>,
        candidate: Side<'c>,
        size: &Size,
        l2: L2,
    ) -> Result<Box<dyn Clock + 'c>, ClockError>;

    /// The device's own counters of one run of a program, if it has any.
    fn profile(&self, bench: &Bench<'_>, side: Side<'_>, size: &Size) -> Profiled;
}

/// The result of profiling.
#[derive(Clone, Debug)]
pub enum Profiled {
    /// What each launch did.
    Counted(Vec<Profile>),
    /// No profiler is available; the reason.
    Skipped(String),
    /// Profiling failed; the error.
    Failed(String),
}

/// A clock that stops once a stop was requested: measuring takes minutes, and an interrupt of the run does not reach
/// the device.
struct Stoppable<'b, 'c> {
    clock: Box<dyn Clock + 'c>,
    bench: &'b Bench<'b>,
}

impl Clock for Stoppable<'_, '_> {
    fn origin(&self) -> Origin {
        self.clock.origin()
    }

    fn resolution_hint_ps(&self) -> Option<u64> {
        self.clock.resolution_hint_ps()
    }

    fn launch_limit(&self) -> u32 {
        self.clock.launch_limit()
    }

    fn refresh(&mut self, side: speed::Side, batch: u64) -> Result<(), ClockError> {
        self.clock.refresh(side, batch)
    }

    fn time(&mut self, side: speed::Side, launches: u32) -> Result<Sample, ClockError> {
        let stopped = |_| ClockError::Device("stopped by the user".to_owned());
        self.bench.check_stop().map_err(stopped)?;
        self.clock.time(side, launches)
    }
}

pub(super) fn judge(
    bench: &Bench<'_>,
    candidate: &Candidate,
    built: &Built,
    baseline: Option<Side<'_>>,
) -> Result<Ending, Trouble> {
    let Some(clocks) = bench.clocks else {
        return Ok(Ending::skipped("no GPU found"));
    };
    let Some(timing) = &bench.task.timing else {
        return Ok(Ending::skipped("the task has no [timing] section"));
    };
    let Some(baseline) = baseline else {
        return Ok(Ending::skipped(
            "the task names no baseline for this candidate; it is the baseline of others",
        ));
    };
    let plan = Plan {
        confidence: timing.confidence,
        budget: Budget::fixed(timing.pairs.div_ceil(2)),
        ..Plan::default()
    };
    let sizes = declared(bench, candidate);
    let mut ending = Ending::pass(Vec::new());
    let mut decided: Vec<Judgement> = Vec::new();
    for (index, size) in sizes.iter().enumerate() {
        for l2 in &timing.l2 {
            bench.check_stop()?;
            let case = format!("{}, {} cache", size.name, state(*l2));
            // An error after an interrupt is the interrupt's effect, not a failure of the device or the kernel.
            let ends = |error: &SpeedError| bench.check_stop().err().unwrap_or_else(|| failed(&case, error));
            let clock = clocks.clock(bench, baseline, (candidate, built), size, *l2);
            let clock = clock.map_err(|error| ends(&error.into()))?;
            let mut clock = Recorder::new(Stoppable { clock, bench });
            let measured = measure(&mut clock, &plan).map_err(|error| ends(&error))?;
            let found = Comparison::of(&measured, &plan);
            // The first shape decides; calibrate this machine against itself there.
            let calibration = if index == 0 {
                let twice = clocks.clock(bench, baseline, baseline, size, *l2);
                let clock = twice.map_err(|error| ends(&error.into()))?;
                let mut twice = Stoppable { clock, bench };
                Some(calibrate(&mut twice, &plan, CALIBRATION).map_err(|error| ends(&error))?)
            } else {
                None
            };
            let judged = found.judge(LatencyReduction(timing.reduction.value), calibration.as_ref());
            figures(&mut ending.figures, &found, &judged, timing, (&case, index == 0));
            if let Some(calibration) = &calibration {
                let kind = kind_of(&found.origin);
                let alarms = f64::from(calibration.told_apart) / f64::from(calibration.runs.max(1));
                ending
                    .figures
                    .extend(Figure::new("false alarms", alarms, "", kind).map(|figure| figure.at(&case)));
            }
            let trace = clock.into_trace().to_json().map_err(|error| unfit(error.to_string()))?;
            ending = ending.with_object(&format!("trace {case}"), trace);
            if index == 0 {
                decided.push(judged);
            }
        }
    }
    let worst = |wanted: speed::Outcome| decided.iter().find(|one| one.outcome == wanted);
    let (outcome, decides) = if let Some(one) = worst(speed::Outcome::NotImproved) {
        (Outcome::Fail, Some(one))
    } else if let Some(one) = worst(speed::Outcome::Inconclusive) {
        (Outcome::Inconclusive, Some(one))
    } else {
        (Outcome::Pass, decided.first())
    };
    let Some(decides) = decides else { return Err(unfit("the task has no shape to measure")) };
    ending.outcome = outcome;
    ending.reason = decides.to_string();
    Ok(ending)
}

/// The timed shapes: declared ones only, not tails or drawn sizes.
pub(super) fn declared(bench: &Bench<'_>, candidate: &Candidate) -> Vec<Size> {
    let mut sizes = bench.sizes(candidate, None);
    sizes.retain(|size| !size.hidden && !size.name.contains(':'));
    sizes
}

fn state(l2: L2) -> &'static str {
    match l2 {
        L2::Warm => "warm",
        L2::Cold => "cold",
    }
}

/// The kind of the times; a clock of known truth does not give measurements.
fn kind_of(origin: &Origin) -> FigureKind {
    match origin {
        Origin::Measured { .. } => FigureKind::Measured,
        Origin::Predicted { .. } | Origin::Synthetic => FigureKind::Predicted,
    }
}

fn figures(
    all: &mut Vec<Figure>,
    found: &Comparison,
    judged: &Judgement,
    timing: &Timing,
    (case, decides): (&str, bool),
) {
    let kind = kind_of(&found.origin);
    let mut add = |name: &str, value: f64, unit: &str| {
        all.extend(Figure::new(name, value, unit, kind).map(|figure| figure.at(case)));
    };
    let of = |spread: &Spread| {
        [
            ("", spread.p50_ns),
            (", p90", spread.p90_ns),
            (", p99", spread.p99_ns),
            (", least", spread.min_ns),
            (", mean", spread.mean_ns),
        ]
    };
    for (what, spread) in [(name::BASELINE_LATENCY, &found.baseline), (name::LATENCY, &found.candidate)] {
        for (suffix, ns) in of(spread) {
            add(&format!("{what}{suffix}"), ns / 1e3, "us");
        }
        add(&format!("{what}, variation"), spread.cv, "");
    }
    add("timer tick", to_us(found.resolution.tick_ps), "us");
    add("launches in a batch", f64::from(found.launches), "");
    if let Some(reduction) = judged.reduction {
        add(name::REDUCTION_LOW, reduction.low, "");
        add(name::REDUCTION_HIGH, reduction.high, "");
        let figure = Figure::new(name::REDUCTION, reduction.estimate, "", kind).map(|figure| figure.at(case));
        let source = timing.reduction.source.as_str();
        all.extend(figure.and_then(|figure| {
            if decides { figure.held_to(Op::AtLeast, timing.reduction.value, source) } else { Ok(figure) }
        }));
    }
    let readings = [(", before", found.before), (", after", found.after)];
    for (when, reading) in readings {
        let mut add = |what: &str, value: Option<f64>, unit: &str| {
            if let Some(value) = value {
                let figure = Figure::new(&format!("{what}{when}"), value, unit, kind);
                all.extend(figure.map(|figure| figure.at(case)));
            }
        };
        add("SM clock", reading.sm_mhz.map(f64::from), "MHz");
        add("memory clock", reading.memory_mhz.map(f64::from), "MHz");
        add("temperature", reading.temperature_c.map(f64::from), "°C");
        add("power", reading.power_mw.map(|mw| f64::from(mw) / 1e3), "W");
    }
}

#[expect(clippy::as_conversions, clippy::cast_precision_loss, reason = "ticks are far below 2^53 ps")]
fn to_us(ps: u64) -> f64 {
    ps as f64 / 1e6
}

/// A wrong output of a timed launch is the kernel's fault; a lost device is not.
fn failed(case: &str, error: &SpeedError) -> Trouble {
    let reason = format!("{case}: {error}");
    match error {
        SpeedError::Clock(ClockError::Output(_)) => Ending::fail(reason, Vec::new()).into(),
        SpeedError::Clock(_) => Ending::inconclusive(reason, None).into(),
        SpeedError::Plan(_) => unfit(reason),
    }
}
