use crate::ladder::{Book, EARLIER, RUN, ladder, ptx};
use warpproof_evidence::hash::Hash;
use warpproof_evidence::record::*;
use warpproof_evidence::vocabulary as name;
use warpproof_report::*;

type Change = fn(&mut RunRecord);

fn compare(book: &Book, baseline: (&str, &str), candidate: (&str, &str)) -> Result<Document, ViewError> {
    let of = |(run, candidate): (&str, &str)| Subject { run: run.into(), candidate: candidate.into() };
    comparison(&book.evidence, &Baseline(of(baseline)), &Candidate(of(candidate)))
}

fn refusal(book: &Book, baseline: (&str, &str), candidate: (&str, &str)) -> (Refusal, String) {
    match compare(book, baseline, candidate) {
        Err(ViewError::Refused(refusal)) => (refusal.clone(), refusal.to_string()),
        other => panic!("{other:?}"),
    }
}

/// A candidate in its own run that differs in one property.
fn other(change: impl FnOnce(&mut RunRecord)) -> Book {
    let mut book = ladder();
    book.run("other", change);
    let mut steps = book.green("other", "k", 64);
    steps.push(book.speed("other", "k", 42.0, 21.0, Outcome::Pass, ""));
    book.verdict("other", "k", Verdict::Merge, Some(Grade::Good), "faster", steps);
    book
}

/// MERGE requires a measured reduction.
fn reduced() -> Figure {
    let figure = Figure::new(name::REDUCTION, 0.5, "", FigureKind::Measured).unwrap();
    figure.held_to(Comparison::AtLeast, 0.05, "task file").unwrap()
}

#[test]
fn a_verdict_that_its_steps_do_not_give_is_an_error() {
    let mut book = ladder();
    book.run("other", |_| {});
    let mut steps = book.green("other", "k", 64);
    steps.push(book.step("other", "k", Stage::Speed, Outcome::Skipped, "no CUDA device", Vec::new()));
    let forged = book.verdict("other", "k", Verdict::Merge, Some(Grade::Good), "faster", steps);
    let why = "the record states MERGE (good), but its steps give PROVISIONAL by the gate's rules: passed every stage that needs \
               no GPU; no CUDA device";
    assert_eq!(summary(&book.evidence, "other").unwrap_err(), ViewError::Unsupported(forged, why.into()));
    assert_eq!(standings(&book.evidence, "other").unwrap_err(), ViewError::Unsupported(forged, why.into()));
}

#[test]
fn equals_compare() {
    let text = compare(&other(|_| {}), (EARLIER, "n1-scalar"), ("other", "k")).unwrap().text();
    assert!(text.contains("−50.0 % latency (2.00×)"), "{text}");
    assert!(text.contains("measured in different runs"), "{text}");
}

#[test]
fn what_differs_is_refused() {
    let cases: [(Change, Refusal); 5] = [
        (
            |run| {
                run.host.insert("device".into(), "NVIDIA T4".into());
            },
            Refusal::Device(Some("NVIDIA L4".into()), Some("NVIDIA T4".into())),
        ),
        (
            |run| {
                run.host.remove("device");
            },
            Refusal::Device(Some("NVIDIA L4".into()), None),
        ),
        (|run| run.task_version = 4, Refusal::TaskVersion(3, 4)),
        (|run| run.task_hash = Hash::of(b"changed"), Refusal::TaskChanged(3)),
        (|run| run.task = "softmax".into(), Refusal::Task("attention".into(), "softmax".into())),
    ];
    let mut sentences = Vec::new();
    for (change, wanted) in cases {
        let (found, sentence) = refusal(&other(change), (EARLIER, "n1-scalar"), ("other", "k"));
        assert_eq!(found, wanted);
        sentences.push(sentence);
    }
    insta::assert_snapshot!("refusals", sentences.join("\n"));
}

#[test]
fn another_shape_is_refused() {
    let mut book = ladder();
    book.run("other", |_| {});
    let mut steps = book.green("other", "k", 64);
    let figure = Figure::new(name::LATENCY, 3.0, "µs", FigureKind::Measured).unwrap().at("S=64");
    steps.push(book.step("other", "k", Stage::Speed, Outcome::Pass, "", vec![figure, reduced()]));
    book.verdict("other", "k", Verdict::Merge, Some(Grade::Good), "faster", steps);
    let (found, sentence) = refusal(&book, (EARLIER, "n1-scalar"), ("other", "k"));
    assert!(matches!(found, Refusal::Shape(..)), "{sentence}");
}

#[test]
fn swapped_roles_are_refused() {
    let wanted = |baseline: &str, candidate: &str| Refusal::SwappedRoles {
        baseline: baseline.into(),
        candidate: candidate.into(),
    };
    // By the notes: n2 was made from n1, whatever the order of the runs.
    let (found, _) = refusal(&ladder(), (RUN, "n2-mma"), (EARLIER, "n1-scalar"));
    assert_eq!(found, wanted("n2-mma", "n1-scalar"));
    let (found, _) = refusal(&ladder(), (RUN, "n4-swizzle"), (RUN, "n2-mma"));
    assert_eq!(found, wanted("n4-swizzle", "n2-mma"));
    // Without notes: the newest run is not the baseline.
    let (found, sentence) = refusal(&other(|_| {}), ("other", "k"), (EARLIER, "n1-scalar"));
    assert_eq!(found, wanted("k", "n1-scalar"));
    assert_eq!(
        sentence,
        "the roles are swapped: k comes after n1-scalar, so it is the candidate and not the baseline"
    );
}

#[test]
fn one_program_is_not_compared_with_itself() {
    let (found, _) = refusal(&ladder(), (RUN, "n2-mma"), (RUN, "n2-mma"));
    assert_eq!(found, Refusal::Same("n2-mma".into()));
    // A toggle without effect: two names, one PTX.
    let mut book = ladder();
    book.run("other", |_| {});
    let ptx = Hash::of(ptx("n2-mma").as_bytes());
    let build = book.add(Body::Step(StepRecord {
        run: "other".into(),
        key: Hash::of(b"toggle"),
        candidate: "n2-toggled".into(),
        stage: Stage::Build,
        part: None,
        obstacle: None,
        outcome: Outcome::Pass,
        reason: String::new(),
        figures: vec![],
        objects: [(name::PTX.to_owned(), ptx)].into(),
        counterexample: None,
        tested: None,
        seconds: Finite::ZERO,
        from: None,
    }));
    book.verdict("other", "n2-toggled", Verdict::Provisional, None, "no gain", vec![build]);
    let (found, _) = refusal(&book, (RUN, "n2-mma"), ("other", "n2-toggled"));
    assert_eq!(found, Refusal::Identical(ptx));
}

#[test]
fn measured_and_predicted_are_not_mixed() {
    let mut book = ladder();
    book.run("other", |_| {});
    let mut steps = book.green("other", "k", 64);
    let figure =
        Figure::new(name::LATENCY, 3.0, "µs", FigureKind::Measured).unwrap().at(crate::ladder::SHAPE);
    steps.push(book.step("other", "k", Stage::Speed, Outcome::Pass, "", vec![figure, reduced()]));
    book.verdict("other", "k", Verdict::Merge, Some(Grade::Good), "faster", steps);
    let (found, _) = refusal(&book, (RUN, "n6-fp8"), ("other", "k"));
    assert_eq!(found, Refusal::Kind(FigureKind::Predicted, FigureKind::Measured));
}

#[test]
fn the_speed_of_what_is_not_green_is_not_stated() {
    let text = compare(&ladder(), (RUN, "n3-registers"), (RUN, "n5-split")).unwrap().text();
    assert!(text.contains("No speed is shown: n5-split did not pass."), "{text}");
}
