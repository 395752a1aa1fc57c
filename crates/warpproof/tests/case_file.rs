//! Mistakes from the time before the gate, reproduced: each is rejected, or left undecided, by the
//! mechanism that its comment names.
#![expect(clippy::unwrap_used, clippy::float_cmp, reason = "a test fails by panicking; counts are exact")]

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use tempfile::TempDir;
use warpproof_evidence::hash::Hash;
use warpproof_evidence::ledger::Ledger;
use warpproof_evidence::record::{Body, Figure, FigureKind, Grade, Outcome, Stage, StepRecord, Verdict};
use warpproof_evidence::vocabulary as name;
use warpproof_gate::gpu::Identity;
use warpproof_gate::session::{Event, Judged, Options, RunSummary, Session};
use warpproof_gate::stage::{Bench, Clocks, Profiled, Side as Program};
use warpproof_report::{self, Evidence, Refusal, Subject, ViewError};
use warpproof_speed::{Clock, ClockError, Noise, Origin, Quantized, Sample, Side, Synthetic, Ticks, Truth};
use warpproof_task::{L2, Size, Task};
use warpproof_toolchain::{Options as Parts, Toolchain, WITHOUT_TOOLCHAIN};

/// y = 2 x + 1, and two candidates for it.
const SCALED_ADD: &str = r#"
name = "scaled-add"
version = 1
operator = "elementwise"
dtypes = ["f32"]
seeds = [1]
distributions = ["normal"]
input = [{ name = "x", dtype = "each", dims = ["m"] }]
output = [{ name = "y", dtype = "each", dims = ["m"] }]
shape = [{ name = "main", axes = { m = 128 } }, { name = "other", axes = { m = 96 } }]
reference = { expression = "2 * x + 1", output = "y" }
target = { architectures = ["sm_89"], devices = ["l4"] }
gate = [{ stage = "build" }, { stage = "correct" }, { stage = "checks" }, { stage = "speed" }]
baseline = [{ candidate = "before", role = "speed" }]

[tolerance]
policy = "derived"
accumulate = "f32"
non_finite = "refuse"
derivation = "one multiplication and one addition in f32"

[timing]
l2 = ["warm"]
pairs = 200
confidence = 0.95
reduction = { at_least = 0.05, source = "below 5 % a change is not worth its review" }
grades = { good = 0.05, excellent = 0.15, outstanding = 0.4, source = "chosen for this test" }

[[candidate]]
name = "before"
source = "before.cu"
launch = [{ kernel = "f", grid = 1, block = 128, arguments = ["x", "y", { value = "m", dtype = "u32" }] }]

[[candidate]]
name = "after"
source = "after.cu"
parent = "before"
hypothesis = "an addition is cheaper"
launch = [{ kernel = "f", grid = 1, block = 128, arguments = ["x", "y", { value = "m", dtype = "u32" }] }]
"#;

fn kernel(expression: &str) -> String {
    format!(
        "extern \"C\" __global__ void f(const float* x, float* y, unsigned m) {{\n\
         if (threadIdx.x < m) y[threadIdx.x] = {expression};\n}}\n"
    )
}

/// A folder with sources and a ledger.
struct Desk {
    folder: TempDir,
    toolchain: Toolchain,
    ledger: Ledger,
}

impl Desk {
    fn new() -> Desk {
        let toolchain = Toolchain::find(&Parts::from_env());
        let toolchain = toolchain.unwrap_or_else(|error| panic!("{error}\n{WITHOUT_TOOLCHAIN}"));
        let folder = tempfile::tempdir().unwrap();
        let ledger = Ledger::create(folder.path().join("ledger")).unwrap();
        let desk = Desk { folder, toolchain, ledger };
        desk.write("before.cu", &kernel("2.0f * x[threadIdx.x] + 1.0f"));
        desk.write("after.cu", &kernel("x[threadIdx.x] + 1.0f + x[threadIdx.x]"));
        desk
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.folder.path().join(name), text).unwrap();
    }

    fn run(&self, text: &str, clocks: Option<&dyn Clocks>) -> RunSummary {
        self.run_in(self.folder.path(), text, clocks, &Options::default(), &|_, _| {})
    }

    fn run_in(
        &self,
        directory: &Path,
        text: &str,
        clocks: Option<&dyn Clocks>,
        options: &Options,
        tell: &(dyn Fn(&Event<'_>, &AtomicBool) + Sync),
    ) -> RunSummary {
        let task = Task::parse(text).unwrap();
        let stop = AtomicBool::new(false);
        let session = Session {
            task: &task,
            text,
            directory,
            toolchain: &self.toolchain,
            ledger: &self.ledger,
            clocks,
            stop: &stop,
        };
        session.run(options, &|event| tell(&event, &stop)).unwrap()
    }

    fn evidence(&self) -> Evidence {
        Evidence::read(&self.ledger).unwrap()
    }
}

#[track_caller]
fn of<'r>(report: &'r RunSummary, candidate: &str) -> &'r Judged {
    report.judged.iter().find(|one| one.candidate == candidate).unwrap()
}

#[track_caller]
fn verdict(report: &RunSummary, candidate: &str) -> Verdict {
    of(report, candidate).decision.as_ref().unwrap().verdict
}

#[track_caller]
fn step<'r>(report: &'r RunSummary, candidate: &str, stage: Stage) -> &'r StepRecord {
    of(report, candidate).steps.iter().find(|step| step.stage == stage).unwrap()
}

#[track_caller]
fn figure(step: &StepRecord, name: &str) -> f64 {
    step.figures.iter().find(|figure| figure.name == name).unwrap().value.get()
}

/// Clocks with known times that a test chooses.
struct Known {
    truth: Truth,
    origin: Origin,
    wrong_output: bool,
}

impl Known {
    fn measured(truth: Truth) -> Known {
        Known { truth, origin: Origin::Measured { device: "L4 number 1".into() }, wrong_output: false }
    }
}

impl Clocks for Known {
    fn device(&self) -> String {
        match &self.origin {
            Origin::Measured { device } | Origin::Predicted { device } => device.clone(),
            Origin::Synthetic => "synthetic".to_owned(),
        }
    }

    fn identity(&self) -> Option<&Identity> {
        None
    }

    fn conditions(&self) -> String {
        String::new()
    }

    fn predicted(&self) -> bool {
        !matches!(self.origin, Origin::Measured { .. })
    }

    fn profile(&self, _: &Bench<'_>, _: Program<'_>, _: &Size) -> Profiled {
        Profiled::Skipped("times are made up, and nothing counts".to_owned())
    }

    fn clock<'c>(
        &'c self,
        _bench: &Bench<'_>,
        baseline: Program<'c>,
        candidate: Program<'c>,
        _size: &Size,
        _l2: L2,
    ) -> Result<Box<dyn Clock + 'c>, ClockError> {
        let mut truth = self.truth.clone();
        if baseline.0.name == candidate.0.name {
            truth.candidate_ns = truth.baseline_ns;
        }
        Ok(Box::new(Labeled { clock: Synthetic::new(truth, 7), known: self }))
    }
}

struct Labeled<'k> {
    clock: Synthetic,
    known: &'k Known,
}

impl Clock for Labeled<'_> {
    fn origin(&self) -> Origin {
        self.known.origin.clone()
    }

    fn launch_limit(&self) -> u32 {
        self.clock.launch_limit()
    }

    fn time(&mut self, side: Side, launches: u32) -> Result<Sample, ClockError> {
        if self.known.wrong_output && side == Side::Candidate {
            return Err(ClockError::Output("element 3 is 0, and 1 is right".into()));
        }
        self.clock.time(side, launches)
    }
}

/// A gain of a fifth, with noise.
fn a_fifth() -> Truth {
    Truth {
        noise: Noise::Gaussian { sd: 0.02 },
        ticks: Some(Ticks::event(Quantized::Edges)),
        ..Truth::new(100_000.0, 80_000.0)
    }
}

// ---- 4: the quantizer is centered on 127.5, the kernel decodes around 128.

const DEQUANTIZ_E: &str = r#"
name = "dequantize"
version = 1
operator = "elementwise"
seeds = [1, 2]
distributions = ["normal"]
input = [{ name = "q", dtype = "u8", dims = ["m"], range = [0, 255] }]
output = [{ name = "y", dtype = "f32", dims = ["m"] }]
shape = [{ name = "main", axes = { m = 4096 } }]
reference = { expression = "(q - 127.5) / 127.5", output = "y" }
target = { architectures = ["sm_89"], devices = ["l4"] }
gate = [{ stage = "build" }, { stage = "correct" }, { stage = "checks" }]

[[candidate]]
name = "centered"
source = "centered.cu"
launch = [{ kernel = "f", grid = 32, block = 128, arguments = ["q", "y", { value = "m", dtype = "u32" }] }]

[[candidate]]
name = "off-center"
source = "off_center.cu"
launch = [{ kernel = "f", grid = 32, block = 128, arguments = ["q", "y", { value = "m", dtype = "u32" }] }]
"#;

/// The wide limits of that time, with a bias that rounding to nearest can explain: the mean of 4096 errors
/// of half a step of 1/127.5 each, six deviations of it.
const WIDENED: &str = "\n[tolerance]\npolicy = \"stated\"\nabsolute = 0.06\nrelative = 0.0\nrmse = 0.06\nbias = 2.2e-4\n\
                       non_finite = \"refuse\"\nderivation = \"0.05 was not enough\"\n";
const DERIVED: &str = "\n[tolerance]\npolicy = \"derived\"\naccumulate = \"f32\"\nnon_finite = \"refuse\"\n\
                       derivation = \"a subtraction and a division in f32\"\n";

fn dequantizers(desk: &Desk) {
    for (file, center) in [("centered.cu", "127.5f"), ("off_center.cu", "128.0f")] {
        let text = format!(
            "extern \"C\" __global__ void f(const unsigned char* q, float* y, unsigned m) {{\n\
             const unsigned at = blockIdx.x * blockDim.x + threadIdx.x;\n\
             if (at < m) y[at] = (q[at] - {center}) / 127.5f;\n}}\n"
        );
        desk.write(file, &text);
    }
}

fn with_tolerance(text: &str, tolerance: &str) -> String {
    text.replacen("\n[[candidate]]", &format!("{tolerance}\n[[candidate]]"), 1)
}

/// Verified to fail if the limit of the signed bias is infinite: then off-center is PROVISIONAL.
#[test]
fn toolchain_a_bias_inside_a_widened_tolerance_is_refused() {
    let desk = Desk::new();
    dequantizers(&desk);
    let report = desk.run(&with_tolerance(DEQUANTIZ_E, WIDENED), None);
    assert_eq!(verdict(&report, "centered"), Verdict::Provisional);
    assert_eq!(verdict(&report, "off-center"), Verdict::Reject);
    let step = step(&report, "off-center", Stage::Correct);
    assert_eq!(figure(step, "elements outside"), 0.0, "every element is inside");
    assert!((figure(step, "bias") + 0.5 / 127.5).abs() < 1e-6);
    assert!(step.reason.contains("bias is -3.92"), "{}", step.reason);
    assert!(!step.reason.contains("rmse"), "{}", step.reason);
}

/// The reference decodes the bytes in another way; a limit derived from it does not accept the kernel's
/// way.
#[test]
fn toolchain_a_reference_on_dequantized_inputs_tells_the_decoder() {
    let desk = Desk::new();
    dequantizers(&desk);
    let report = desk.run(&with_tolerance(DEQUANTIZ_E, DERIVED), None);
    assert_eq!(verdict(&report, "centered"), Verdict::Provisional);
    assert_eq!(verdict(&report, "off-center"), Verdict::Reject);
    assert_eq!(figure(step(&report, "off-center", Stage::Correct), "elements outside"), 1.0);
}

// ---- 5 and 9 are candidates of tasks/cheats: `dead-toggle`, `identical`, `stack-frame`.

/// Verified to fail with a budget that checks only spills, and with a stage build that ignores the results
/// of `compile`.
#[test]
fn toolchain_a_stack_frame_without_spills_and_programs_that_are_no_others_are_refused() {
    let desk = Desk::new();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tasks/cheats");
    let text = fs::read_to_string(folder.join("softmax.toml")).unwrap();
    let candidates = ["honest", "dead-toggle", "identical", "stack-frame"].map(ToOwned::to_owned).to_vec();
    let options = Options { candidates, ..Options::default() };
    let report = desk.run_in(&folder, &text, None, &options, &|_, _| {});
    assert_eq!(verdict(&report, "stack-frame"), Verdict::Reject);
    let budget = step(&report, "stack-frame", Stage::Budget);
    assert_eq!((figure(budget, "spill stores"), figure(budget, "stack frame")), (0.0, 128.0));
    for (candidate, words) in
        [("dead-toggle", "a toggle has no effect"), ("identical", "identical to `honest`")]
    {
        assert_eq!(verdict(&report, candidate), Verdict::Reject);
        let build = step(&report, candidate, Stage::Build);
        assert!(build.reason.contains(words), "{}", build.reason);
        // One program with two names is not timed twice.
        assert_eq!(of(&report, candidate).steps.len(), 1);
    }
}

// ---- 6: one tick of the event timer.

/// Verified to fail, with MERGE, without the tick's part of the interval and without `within_one_tick`.
#[test]
fn toolchain_one_tick_of_the_timer_is_no_gain() {
    let desk = Desk::new();
    // 641 ticks of 1.024 µs against 640: 0.16 %, more than the threshold.
    let truth = Truth {
        ticks: Some(Ticks::event(Quantized::Floor)),
        launch_limit: 1,
        ..Truth::new(656_500.0, 656_300.0)
    };
    let text = SCALED_ADD.replace("at_least = 0.05", "at_least = 0.001");
    let report = desk.run(&text, Some(&Known::measured(truth)));
    let step = step(&report, "after", Stage::Speed);
    assert!(figure(step, name::REDUCTION) > 0.001, "{step:?}");
    assert!((figure(step, "timer tick") - 1.024).abs() < 1e-9);
    assert_eq!(verdict(&report, "after"), Verdict::Inconclusive, "{}", step.reason);
    assert_eq!(report.exit_code(), 5);
}

#[test]
fn toolchain_a_measured_gain_merges_with_its_grade() {
    let desk = Desk::new();
    let report = desk.run(SCALED_ADD, Some(&Known::measured(a_fifth())));
    let decision = of(&report, "after").decision.clone().unwrap();
    assert_eq!((decision.verdict, decision.grade), (Verdict::Merge, Some(Grade::Excellent)));
    let low = figure(step(&report, "after", Stage::Speed), name::REDUCTION_LOW);
    assert!((0.15..0.2).contains(&low), "{low}");
    assert_eq!(report.exit_code(), 0);
}

#[test]
fn toolchain_no_gain_is_a_negative_that_says_what_it_excludes() {
    let desk = Desk::new();
    let truth = Truth { candidate_ns: 100_000.0, ..a_fifth() };
    let report = desk.run(SCALED_ADD, Some(&Known::measured(truth)));
    assert_eq!(verdict(&report, "after"), Verdict::Defer);
    assert_eq!(report.exit_code(), 0);
    let high = figure(step(&report, "after", Stage::Speed), name::REDUCTION_HIGH);
    assert!((0.0..0.05).contains(&high), "{high}");
    let text = warpproof_report::negatives(&desk.evidence()).unwrap().text();
    assert!(text.contains("an addition is cheaper"), "{text}");
    assert!(text.contains(&format!("{:.1}", high * 100.0)), "{high}: {text}");
}

/// Verified to fail if `failed` treats a wrong output as a lost device.
#[test]
fn toolchain_a_wrong_output_of_a_timed_launch_rejects() {
    let desk = Desk::new();
    let clocks = Known { wrong_output: true, ..Known::measured(a_fifth()) };
    let report = desk.run(SCALED_ADD, Some(&clocks));
    assert_eq!(verdict(&report, "after"), Verdict::Reject);
    assert!(of(&report, "after").decision.as_ref().unwrap().reason.contains("speed: main, warm cache"));
    assert_eq!(report.exit_code(), 1);
}

/// Verified to fail, with MERGE, if `decide` ignores the kind of the reduction's figure.
#[test]
fn toolchain_what_was_not_measured_never_merges() {
    for origin in [Origin::Synthetic, Origin::Predicted { device: "L4".into() }] {
        let desk = Desk::new();
        let report = desk.run(SCALED_ADD, Some(&Known { origin, ..Known::measured(a_fifth()) }));
        assert_eq!(step(&report, "after", Stage::Speed).outcome, Outcome::Pass);
        assert_eq!(verdict(&report, "after"), Verdict::Provisional);
    }
}

// ---- 7: the floor and the peer.

/// Verified to fail with a view that does not request the floor.
#[test]
fn toolchain_reports_show_floor_and_peer_or_say_that_there_is_none() {
    let desk = Desk::new();
    let report = desk.run(SCALED_ADD, Some(&Known::measured(a_fifth())));
    let run = report.run.as_str();
    let evidence = desk.evidence();
    let full = warpproof_report::validation(&evidence, run).unwrap().text();
    assert!(full.contains("No roofline floor is known"), "{full}");
    assert!(full.contains("No external peer was measured"), "{full}");

    // As the stages model and external write them.
    let speed = step(&report, "after", Stage::Speed);
    let case = speed.figures.iter().find(|figure| figure.name == name::LATENCY).unwrap().at.clone().unwrap();
    let floor = Figure::new(name::FLOOR, 26.5, "us", FigureKind::Predicted).unwrap().at(&case);
    let peer = Figure::new(name::PEER_LATENCY, 47.25, "us", FigureKind::Measured).unwrap().at("torch");
    let mut evidence = Evidence::default();
    for record in desk.ledger.records().unwrap().map(Result::unwrap) {
        let mut body = record.body;
        if let Body::Verdict(verdict) = &mut body {
            for (stage, figure) in [(Stage::Model, &floor), (Stage::External, &peer)] {
                let hash = Hash::of(format!("{} {stage}", verdict.candidate).as_bytes());
                let one = StepRecord {
                    candidate: verdict.candidate.clone(),
                    stage,
                    outcome: Outcome::Pass,
                    reason: String::new(),
                    figures: vec![figure.clone()],
                    ..speed.clone()
                };
                evidence.add(hash, Body::Step(one));
                verdict.steps.push(hash);
            }
        }
        evidence.add(record.hash, body);
    }
    let full = warpproof_report::validation(&evidence, run).unwrap().text();
    assert!(full.contains("26.5") && full.contains("47.25"), "{full}");
    assert!(!full.contains("No roofline floor") && !full.contains("No external peer"), "{full}");
}

// ---- 10: invalid comparisons.

#[track_caller]
fn refused(evidence: &Evidence, baseline: (&str, &str), candidate: (&str, &str)) -> Refusal {
    let of = |(run, candidate): (&str, &str)| Subject { run: run.into(), candidate: candidate.into() };
    match warpproof_report::comparison(
        evidence,
        &warpproof_report::Baseline(of(baseline)),
        &warpproof_report::Candidate(of(candidate)),
    ) {
        Err(ViewError::Refused(refusal)) => refusal,
        other => panic!("{other:?}"),
    }
}

/// Verified to fail without `roles` in `warpproof_report::comparison`; the tests of the views cover the
/// other refusals.
#[test]
fn toolchain_swapped_roles_other_devices_shapes_and_versions_do_not_compare() {
    let desk = Desk::new();
    let here = Known::measured(a_fifth());
    let there =
        Known { origin: Origin::Measured { device: "T4 number 2".into() }, ..Known::measured(a_fifth()) };
    // A third candidate, so that two are timed against the baseline.
    desk.write("twice.cu", &kernel("fmaf(x[threadIdx.x] * 4.0f, 0.5f, 1.0f)"));
    let (_, after) = SCALED_ADD.split_once("name = \"after\"").unwrap();
    let twice = after.replace("after.cu", "twice.cu");
    let text = format!("{SCALED_ADD}\n[[candidate]]\nname = \"twice\"{twice}");
    let first = desk.run(&text, Some(&here)).run;
    let second = desk.run(&text, Some(&there)).run;
    let text = text.replace("version = 1", "version = 2").replace("m = 128", "m = 64");
    let third = desk.run(&text, Some(&here)).run;
    // The two have no shape in common.
    let text = text.replace("version = 2", "version = 3");
    let text = text.replace("name = \"after\"", "name = \"after\"\nshapes = [\"other\"]");
    let text = text.replace("name = \"twice\"", "name = \"twice\"\nshapes = [\"main\"]");
    let fourth = desk.run(&text, Some(&here)).run;
    let evidence = desk.evidence();
    let (first, second, third, fourth) = (&*first, &*second, &*third, &*fourth);

    let swapped = Refusal::SwappedRoles { baseline: "after".into(), candidate: "before".into() };
    assert_eq!(refused(&evidence, (first, "after"), (first, "before")), swapped);
    let devices = Refusal::Device(Some("L4 number 1".into()), Some("T4 number 2".into()));
    assert_eq!(refused(&evidence, (first, "twice"), (second, "after")), devices);
    assert_eq!(refused(&evidence, (first, "twice"), (third, "after")), Refusal::TaskVersion(1, 2));
    let of = |run: &str| Subject { run: run.into(), candidate: "after".into() };
    let twice = Subject { run: first.into(), candidate: "twice".into() };
    let fine = warpproof_report::comparison(
        &evidence,
        &warpproof_report::Baseline(twice),
        &warpproof_report::Candidate(of(first)),
    );
    assert!(fine.is_ok(), "{fine:?}");
    let shapes = refused(&evidence, (fourth, "twice"), (fourth, "after"));
    assert!(matches!(shapes, Refusal::Shape(..)), "{shapes}");
}

// ---- 11: a run that was interrupted.

/// Verified to fail if `Store::part` returns nothing: then a part is run twice.
#[test]
fn toolchain_an_interrupted_run_goes_on_where_it_stopped() {
    let desk = Desk::new();
    let stop_after_a_part = |event: &Event<'_>, stop: &AtomicBool| {
        if let Event::Part { stage: Stage::Correct, part: "other", .. } = event {
            stop.store(true, Ordering::SeqCst);
        }
    };
    let options = Options { jobs: 1, ..Options::default() };
    let stopped = desk.run_in(desk.folder.path(), SCALED_ADD, None, &options, &stop_after_a_part);
    assert!(stopped.stopped);
    assert_eq!(stopped.exit_code(), 5);
    let steps = || {
        let bodies = desk.ledger.records().unwrap().map(|record| record.unwrap().body);
        let steps = bodies.filter_map(|body| if let Body::Step(step) = body { Some(step) } else { None });
        steps.filter(|step| step.from.is_none()).collect::<Vec<_>>()
    };
    let before = steps();
    assert!(before.iter().any(|step| step.part.as_deref() == Some("main")), "{before:?}");

    let resume = Options { resume: true, ..options };
    let resumed = desk.run_in(desk.folder.path(), SCALED_ADD, None, &resume, &|_, _| {});
    assert_eq!(resumed.run, stopped.run);
    assert_eq!(verdict(&resumed, "before"), Verdict::Provisional);
    assert_eq!(verdict(&resumed, "after"), Verdict::Provisional);
    let after = steps();
    let mut keys: Vec<_> = after.iter().map(|step| step.key).collect();
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), after.len(), "something was done twice");
    // Earlier records are unchanged.
    assert!(before.iter().all(|step| after.contains(step)));
    let report = warpproof_report::validation(&desk.evidence(), &resumed.run).unwrap().text();
    assert!(report.contains("PROVISIONAL"), "{report}");
}
