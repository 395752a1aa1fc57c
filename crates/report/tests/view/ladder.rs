//! A synthetic ledger: candidates of one attention task, each verdict at least once. Its figures are
//! invented.

use std::collections::BTreeMap;
use warpproof_evidence::hash::Hash;
use warpproof_evidence::ledger::{Ledger, Writer};
use warpproof_evidence::record::*;
use warpproof_evidence::vocabulary as name;
use warpproof_report::Evidence;

pub(crate) const RUN: &str = "2026-01-05-full";
pub(crate) const EARLIER: &str = "2026-01-04-first";
pub(crate) const SHAPE: &str = "B=2 H=8 S=256 D=64";

/// Records with deterministic hashes.
#[derive(Default)]
pub(crate) struct Book {
    pub(crate) evidence: Evidence,
    records: u32,
    /// The ledger that also stores the records, if there is one.
    ledger: Option<(Ledger, Writer)>,
}

impl Book {
    /// Records written to a ledger, with the hashes it gives them.
    pub(crate) fn on(ledger: &Ledger) -> Self {
        Self { ledger: Some((ledger.clone(), ledger.writer())), ..Self::default() }
    }

    pub(crate) fn add(&mut self, body: Body) -> Hash {
        body.check().unwrap();
        if let Some((_, writer)) = &mut self.ledger {
            let hash = writer.append(&body).unwrap();
            self.evidence.add(hash, body);
            return hash;
        }
        // By number, so that snapshots stay when records gain a field.
        self.records += 1;
        let hash = Hash::of(format!("{} {}", self.records, body.kind()).as_bytes());
        self.evidence.add(hash, body);
        hash
    }

    pub(crate) fn run(&mut self, run: &str, change: impl FnOnce(&mut RunRecord)) -> Hash {
        let facts = [
            ("device", "NVIDIA L4"),
            ("model device", "NVIDIA L4"),
            ("system", "Linux 6.1"),
            ("driver", "550.54"),
        ];
        let mut record = RunRecord {
            run: run.into(),
            task: "attention".into(),
            task_version: 3,
            task_hash: Hash::of(b"task"),
            warpproof: "0.1.0".into(),
            started: Some("2026-01-05T10:00:00Z".into()),
            arguments: vec!["gate".into(), "tasks/attention.toml".into(), "--all".into()],
            candidates: Vec::new(),
            programs: BTreeMap::new(),
            secret: None,
            chosen: None,
            host: facts.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
            objects: BTreeMap::new(),
        };
        change(&mut record);
        self.add(Body::Run(record))
    }

    pub(crate) fn step(
        &mut self,
        run: &str,
        candidate: &str,
        stage: Stage,
        outcome: Outcome,
        reason: &str,
        figures: Vec<Figure>,
    ) -> Hash {
        let mut objects = BTreeMap::new();
        if stage == Stage::Build {
            let ptx = ptx(candidate);
            if let Some((ledger, _)) = &self.ledger {
                ledger.put_object(ptx.as_bytes()).unwrap();
            }
            objects.insert(name::PTX.to_owned(), Hash::of(ptx.as_bytes()));
        }
        self.add(Body::Step(StepRecord {
            run: run.into(),
            key: Hash::of(format!("{candidate} {stage}").as_bytes()),
            candidate: candidate.into(),
            stage,
            part: None,
            obstacle: None,
            outcome,
            reason: reason.into(),
            figures,
            objects,
            counterexample: None,
            tested: None,
            seconds: Finite::new(1.5).unwrap(),
            from: None,
        }))
    }

    pub(crate) fn verdict(
        &mut self,
        run: &str,
        candidate: &str,
        verdict: Verdict,
        grade: Option<Grade>,
        reason: &str,
        steps: Vec<Hash>,
    ) -> Hash {
        let (run, candidate, reason) = (run.into(), candidate.into(), reason.into());
        self.add(Body::Verdict(VerdictRecord { run, candidate, verdict, grade, reason, steps }))
    }

    pub(crate) fn note(&mut self, candidate: &str, topic: &str, text: &str) -> Hash {
        let (topic, text, candidate) = (topic.into(), text.into(), Some(candidate.into()));
        self.add(Body::Note(NoteRecord {
            topic,
            text,
            run: None,
            candidate,
            about: Vec::new(),
            ..NoteRecord::default()
        }))
    }

    /// Build, budget, correct, checks and counters, all green.
    pub(crate) fn green(&mut self, run: &str, candidate: &str, registers: u64) -> Vec<Hash> {
        self.begun(run, candidate, registers, 5)
    }

    /// The first `count` of these.
    pub(crate) fn begun(&mut self, run: &str, candidate: &str, registers: u64, stages: usize) -> Vec<Hash> {
        let budget = vec![
            Figure::counted("registers", registers, "registers")
                .unwrap()
                .held_to(Comparison::AtMost, 168.0, "3 blocks on one SM")
                .unwrap(),
            Figure::counted("stack frame", 0, "bytes")
                .unwrap()
                .held_to(Comparison::AtMost, 0.0, "task file, budgets")
                .unwrap(),
            Figure::counted("shared memory", 36864, "bytes").unwrap(),
        ];
        let correct = vec![
            Figure::new("max error", 0.0123, "", FigureKind::Counted)
                .unwrap()
                .held_to(Comparison::AtMost, 0.0312, "derived from e4m3 and the row length")
                .unwrap()
                .at("S=256 normal seed 1"),
            Figure::new("bias z", -0.8, "", FigureKind::Counted)
                .unwrap()
                .held_to(Comparison::AtMost, 4.0, "task file, policy")
                .unwrap()
                .at("S=256 normal seed 1"),
        ];
        let counters = vec![Figure::counted("instructions", 1234567, "instructions").unwrap()];
        let steps = [
            (Stage::Build, "", vec![]),
            (Stage::Budget, "", budget),
            (Stage::Correct, "", correct),
            (Stage::Checks, "no finding under 3 schedules", vec![]),
            (Stage::Counters, "", counters),
        ];
        let steps = steps.into_iter().take(stages);
        steps
            .map(|(stage, reason, figures)| self.step(run, candidate, stage, Outcome::Pass, reason, figures))
            .collect()
    }

    pub(crate) fn model(&mut self, run: &str, candidate: &str, latency: f64) -> Hash {
        let figures = vec![
            Figure::new(name::LATENCY, latency, "µs", FigureKind::Predicted).unwrap().at(SHAPE),
            Figure::new(name::FLOOR, 2.31, "µs", FigureKind::Predicted).unwrap().at(SHAPE),
        ];
        self.step(run, candidate, Stage::Model, Outcome::Pass, "bound by shared-memory bandwidth", figures)
    }

    pub(crate) fn speed(
        &mut self,
        run: &str,
        candidate: &str,
        baseline: f64,
        latency: f64,
        outcome: Outcome,
        reason: &str,
    ) -> Hash {
        let reduction = (baseline - latency) / baseline;
        let figure =
            |name: &str, value: f64| Figure::new(name, value, "", FigureKind::Measured).unwrap().at(SHAPE);
        let figures = vec![
            Figure::new(name::LATENCY, latency, "µs", FigureKind::Measured).unwrap().at(SHAPE),
            Figure::new(name::BASELINE_LATENCY, baseline, "µs", FigureKind::Measured).unwrap().at(SHAPE),
            figure(name::REDUCTION, reduction)
                .held_to(Comparison::AtLeast, 0.05, "task file, timing.threshold")
                .unwrap(),
            figure(name::REDUCTION_LOW, reduction - 0.012),
            figure(name::REDUCTION_HIGH, reduction + 0.012),
        ];
        self.step(run, candidate, Stage::Speed, outcome, reason, figures)
    }

    pub(crate) fn peer(&mut self, run: &str, candidate: &str) -> Hash {
        let figures = vec![
            Figure::new(name::PEER_LATENCY, 26.0, "µs", FigureKind::Measured)
                .unwrap()
                .at("PyTorch SDPA flash"),
        ];
        self.step(run, candidate, Stage::External, Outcome::Pass, "same inputs, same process", figures)
    }
}

/// A stand-in for a candidate's program.
pub(crate) fn ptx(candidate: &str) -> String {
    format!("// PTX of {candidate}\n")
}

/// The first run evaluates the baseline, the second the rest.
pub(crate) fn ladder() -> Book {
    climb(Book::default())
}

pub(crate) fn climb(mut book: Book) -> Book {
    book.run(EARLIER, |_| {});
    let mut steps = book.green(EARLIER, "n1-scalar", 64);
    steps.push(book.model(EARLIER, "n1-scalar", 38.2));
    steps.push(book.speed(EARLIER, "n1-scalar", 42.0, 42.0, Outcome::Pass, "the baseline itself"));
    book.verdict(
        EARLIER,
        "n1-scalar",
        Verdict::Merge,
        Some(Grade::Good),
        "the first rung is its own baseline",
        steps,
    );

    book.run(RUN, |_| {});
    for (candidate, parent, change, hypothesis) in [
        (
            "n2-mma",
            "n1-scalar",
            "f16 tensor cores for both products",
            "products dominate, and tensor cores do them 8 times faster",
        ),
        (
            "n3-registers",
            "n2-mma",
            "weights stay in registers",
            "a round trip through shared memory is saved",
        ),
        ("n4-swizzle", "n2-mma", "swizzled shared memory", "bank conflicts are the bottleneck"),
        ("n5-split", "n3-registers", "keys split over two blocks", "more blocks fill the device"),
        ("n6-fp8", "n3-registers", "fp8 tensor cores", "fp8 halves the tensor time"),
    ] {
        book.note(candidate, name::PARENT, parent);
        book.note(candidate, name::CHANGE, change);
        book.note(candidate, name::HYPOTHESIS, hypothesis);
    }
    book.note("n4-swizzle", name::EXPECTED_GAIN, "10 to 15 % less latency");
    book.note("n4-swizzle", name::COST, "two days, 40 lines of index arithmetic");
    book.note("n5-split", name::SUSPECT, "both blocks update one row maximum");
    book.note("n5-split", name::RULED_OUT, "quantisation: the dequantised reference fails too");

    let mut steps = book.green(RUN, "n2-mma", 96);
    steps.push(book.model(RUN, "n2-mma", 9.4));
    steps.push(book.speed(RUN, "n2-mma", 42.0, 10.24, Outcome::Pass, ""));
    steps.push(book.peer(RUN, "n2-mma"));
    book.verdict(
        RUN,
        "n2-mma",
        Verdict::Merge,
        Some(Grade::Outstanding),
        "the whole interval is above the threshold",
        steps,
    );

    let mut steps = book.green(RUN, "n3-registers", 128);
    steps.push(book.model(RUN, "n3-registers", 5.9));
    let why = "the sides differ by one tick of the timer (1.024 µs)";
    steps.push(book.speed(RUN, "n3-registers", 10.24, 9.216, Outcome::Inconclusive, why));
    book.verdict(RUN, "n3-registers", Verdict::Inconclusive, None, why, steps);

    let mut steps = book.green(RUN, "n4-swizzle", 98);
    steps.push(book.model(RUN, "n4-swizzle", 9.3));
    steps.push(book.speed(
        RUN,
        "n4-swizzle",
        10.24,
        10.18,
        Outcome::Fail,
        "the whole interval is below the threshold",
    ));
    book.verdict(
        RUN,
        "n4-swizzle",
        Verdict::Defer,
        None,
        "green, and the gain is below the threshold",
        steps,
    );

    let mut steps = book.begun(RUN, "n5-split", 128, 3);
    let why = "race on shared memory: n5.cu:88 and n5.cu:93, threads 3 and 35";
    steps.push(book.step(
        RUN,
        "n5-split",
        Stage::Checks,
        Outcome::Fail,
        why,
        vec![
                Figure::counted("findings", 2, "findings")
                    .unwrap()
                    .held_to(Comparison::AtMost, 0.0, "task file, gates")
                    .unwrap(),
            ],
    ));
    book.verdict(RUN, "n5-split", Verdict::Reject, None, "checks: a race on shared memory", steps);

    let mut steps = book.green(RUN, "n6-fp8", 152);
    steps.push(book.model(RUN, "n6-fp8", 4.8));
    steps.push(book.step(
        RUN,
        "n6-fp8",
        Stage::Speed,
        Outcome::Skipped,
        "no CUDA device on this machine",
        vec![],
    ));
    book.verdict(RUN, "n6-fp8", Verdict::Provisional, None, "green, with no device to measure on", steps);
    book
}

/// Three more in the same run: one that merges, and two that fail at other stages.
pub(crate) fn climb_on(mut book: Book) -> Book {
    for (candidate, parent, change, hypothesis) in [
        ("n7-pipeline", "n2-mma", "copies run ahead by one tile", "loads and products overlap"),
        ("n8-stack", "n7-pipeline", "tile size chosen at run time", "one kernel serves all shapes"),
        ("n9-round", "n7-pipeline", "weights truncated, not rounded", "an instruction less for each weight"),
    ] {
        book.note(candidate, name::PARENT, parent);
        book.note(candidate, name::CHANGE, change);
        book.note(candidate, name::HYPOTHESIS, hypothesis);
    }
    let mut steps = book.green(RUN, "n7-pipeline", 124);
    steps.push(book.model(RUN, "n7-pipeline", 7.6));
    steps.push(book.speed(RUN, "n7-pipeline", 10.24, 8.19, Outcome::Pass, ""));
    steps.push(book.peer(RUN, "n7-pipeline"));
    let why = "the whole interval is above the threshold";
    book.verdict(RUN, "n7-pipeline", Verdict::Merge, Some(Grade::Excellent), why, steps);

    let mut steps = book.begun(RUN, "n8-stack", 168, 1);
    let why = "stack frame of 128 bytes: a local array is indexed dynamically";
    let figures = vec![
        Figure::counted("registers", 168, "registers")
            .unwrap()
            .held_to(Comparison::AtMost, 168.0, "3 blocks on one SM")
            .unwrap(),
        Figure::counted("stack frame", 128, "bytes")
            .unwrap()
            .held_to(Comparison::AtMost, 0.0, "task file, budgets")
            .unwrap(),
    ];
    steps.push(book.step(RUN, "n8-stack", Stage::Budget, Outcome::Fail, why, figures));
    book.verdict(RUN, "n8-stack", Verdict::Reject, None, "budget: a stack frame", steps);

    let mut steps = book.begun(RUN, "n9-round", 124, 2);
    let why = "bias: outputs are too small on average, z above its threshold";
    let figures = vec![
        Figure::new("max error", 0.0144, "", FigureKind::Counted)
            .unwrap()
            .held_to(Comparison::AtMost, 0.0312, "derived from e4m3 and the row length")
            .unwrap()
            .at("S=256 normal seed 1"),
        Figure::new("bias z", 27.5, "", FigureKind::Counted)
            .unwrap()
            .held_to(Comparison::AtMost, 4.0, "task file, policy")
            .unwrap()
            .at("S=256 normal seed 1"),
    ];
    steps.push(book.step(RUN, "n9-round", Stage::Correct, Outcome::Fail, why, figures));
    book.verdict(RUN, "n9-round", Verdict::Reject, None, "correct: a signed bias", steps);
    book
}
