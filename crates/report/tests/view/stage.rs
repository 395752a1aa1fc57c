use crate::ladder::{Book, EARLIER, RUN, ladder};
use std::collections::BTreeMap;
use warpproof_evidence::hash::Hash;
use warpproof_evidence::record::*;
use warpproof_evidence::vocabulary as name;
use warpproof_report::*;

fn subject(run: &str, candidate: &str) -> Subject {
    Subject { run: run.into(), candidate: candidate.into() }
}

/// A latency from a file.
fn reported(book: &mut Book, candidate: &str, us: f64, device: &str) -> Hash {
    let figure = Figure::new(name::LATENCY, us, "us", FigureKind::Reported).unwrap();
    let fields = [(name::TASK, "attention"), (name::DEVICE, device), (name::SOURCE, "notes/stages.md")];
    book.add(Body::Note(NoteRecord {
        topic: name::MEASURED.into(),
        text: format!("{us}us"),
        candidate: Some(candidate.into()),
        fields: fields.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
        figures: vec![figure],
        ..NoteRecord::default()
    }))
}

fn about(book: &mut Book, topic: &str, text: &str, records: &[Hash]) -> Hash {
    book.add(Body::Note(NoteRecord {
        topic: topic.into(),
        text: text.into(),
        about: records.to_vec(),
        ..NoteRecord::default()
    }))
}

/// The ladder with suspects, lessons, options and reported figures.
fn noted() -> Book {
    let mut book = ladder();
    let failed = book.step(RUN, "n5-split", Stage::External, Outcome::Skipped, "no peer", vec![]);
    let lanes = book.note("n5-split", name::SUSPECT, "the table of lanes is wrong");
    about(&mut book, name::TEST, "each row and column must occur once", &[lanes]);
    about(&mut book, name::RULED_OUT, "the table covers every place once", &[lanes, failed]);
    let masks = book.note("n5-split", name::SUSPECT, "masked lanes hold infinity");
    about(&mut book, name::TEST, "compare the row maxima with those of the parent", &[masks]);
    let sync = book.note("n5-split", name::SUSPECT, "a barrier is missing");
    about(&mut book, name::CONFIRMED, "with a barrier the race is gone", &[sync]);
    about(&mut book, name::LESSON, "a wrong kernel must not be timed", &[]);
    let fields = [(name::TARGET, "≤590 µs"), (name::EFFORT, "4 to 6 hours"), (name::RISK, "low")];
    book.add(Body::Note(NoteRecord {
        topic: name::OPTION.into(),
        text: "a third stage of copies".into(),
        fields: fields.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
        ..NoteRecord::default()
    }));
    reported(&mut book, "n1-scalar", 2870.0, "L4");
    reported(&mut book, "n2-mma", 656.4, "L4");
    book
}

#[test]
fn a_stage_that_merges() {
    let book = noted();
    let page = stage(&book.evidence, &subject(RUN, "n2-mma"), None).unwrap();
    let text = page.markdown();
    insta::assert_snapshot!("stage_merge", text);
    page.check(&book.evidence).unwrap();
    let html = page.html();
    assert!(html.contains("<pre class=\"draft\">"), "{html}");
    assert!(page.text().contains("Tag: attention-n2-mma"), "{}", page.text());
}

#[test]
fn a_stage_that_is_rejected_has_suspects_and_no_speed() {
    let book = noted();
    let page = stage(&book.evidence, &subject(RUN, "n5-split"), None).unwrap().markdown();
    insta::assert_snapshot!("stage_reject", page);
    assert!(!page.contains("Tag"), "{page}");
    assert!(page.contains("ruled out") && page.contains("confirmed") && page.contains("open"), "{page}");
    // Only the test of the open suspect is a next step.
    assert!(page.contains("Test a suspect: compare the row maxima"), "{page}");
    assert!(!page.contains("Test a suspect: each row"), "{page}");
    let attempts = attempts(&book.evidence).unwrap().markdown();
    assert!(attempts.contains("## Suspects") && attempts.contains("## Lessons"), "{attempts}");
    assert!(attempts.contains("external of `n5-split`: – SKIPPED"), "{attempts}");
}

#[test]
fn the_stage_before_can_be_chosen() {
    let book = noted();
    let of = |before: Option<&Subject>| {
        stage(&book.evidence, &subject(RUN, "n4-swizzle"), before).unwrap().markdown()
    };
    let first = subject(EARLIER, "n1-scalar");
    assert!(of(None).contains("against `n2-mma`"), "{}", of(None));
    assert!(of(Some(&first)).contains("against `n1-scalar`"), "{}", of(Some(&first)));
    assert!(of(None).contains("## Draft of a commit text"), "{}", of(None));
    let unknown = stage(&book.evidence, &subject(RUN, "n0"), None);
    assert!(matches!(unknown, Err(ViewError::NoCandidate(..))), "{unknown:?}");
}

#[test]
fn cases_and_bounds_of_newer_records_are_shown() {
    let mut book = ladder();
    let count = |name: &str, count, at: &str| Figure::counted(name, count, "").unwrap().at(at);
    let figures = vec![
        count(name::CASES, 6, "small"),
        count(name::CASES, 3, "mission"),
        count(name::CASES_PASSED, 6, "small"),
        count(name::CASES_PASSED, 1, "mission"),
    ];
    let bound = |resource: &str, us| {
        let name = format!("{}{resource}", name::BOUND_OF);
        Figure::new(&name, us, "us", FigureKind::Predicted).unwrap().at("mission")
    };
    let mut steps = book.begun(RUN, "m1", 84, 2);
    steps.push(book.step(RUN, "m1", Stage::Correct, Outcome::Fail, "wrong", figures.clone()));
    book.verdict(RUN, "m1", Verdict::Reject, None, "correct: wrong", steps);
    let page = stage(&book.evidence, &subject(RUN, "m1"), None).unwrap().text();
    assert!(page.contains("Checks: 7 [1]/9 [1] cases passed"), "{page}");

    let mut steps = book.begun(RUN, "m2", 84, 2);
    steps.push(book.step(RUN, "m2", Stage::Correct, Outcome::Pass, "", figures[..2].to_vec()));
    let latency = Figure::new(name::LATENCY, 8.0, "us", FigureKind::Predicted).unwrap().at("mission");
    let model = vec![bound("tensor cores", 2.0), bound("shared memory", 4.0), latency];
    steps.push(book.step(RUN, "m2", Stage::Model, Outcome::Pass, "", model));
    steps.push(book.step(RUN, "m2", Stage::Speed, Outcome::Skipped, "no device", vec![]));
    let held = book.begun(RUN, "m2", 84, 5);
    steps.extend(&held[3..]);
    book.verdict(RUN, "m2", Verdict::Provisional, None, "passed", steps);
    let page = stage(&book.evidence, &subject(RUN, "m2"), None).unwrap().text();
    // Records without a count of passed cases: the stage passed, so all of them did.
    assert!(page.contains("Checks: 9 [2]/9 [2] cases passed"), "{page}");
    let bottlenecks = page.split("Bottlenecks").nth(1).unwrap();
    let (shared, tensor) =
        (bottlenecks.find("shared memory").unwrap(), bottlenecks.find("tensor cores").unwrap());
    assert!(shared < tensor && bottlenecks.contains("50 % predicted"), "{bottlenecks}");
    assert!(page.contains("Draft of a tag text"), "{page}");
}

#[test]
fn reported_figures_stay_apart() {
    let mut book = noted();
    let history = |book: &Book| history(&book.evidence, "attention").unwrap();
    let text = history(&book).markdown();
    let section = text.split("## Reported figures").nth(1).unwrap();
    assert!(
        section.contains("2870 us reported") && section.contains("−77.1 % latency (4.37×) reported"),
        "{section}"
    );
    assert!(section.contains("notes/stages.md"), "{section}");
    let of = |who: &str| subject(if who == "n1-scalar" { EARLIER } else { RUN }, who);
    let compared =
        comparison(&book.evidence, &Baseline(of("n1-scalar")), &Candidate(of("n2-mma"))).unwrap().markdown();
    assert!(compared.contains("## Reported figures") && compared.contains("656.4 us reported"), "{compared}");
    // No verdict, standing or claim rests on a reported figure.
    assert!(standings(&book.evidence, RUN).unwrap().iter().all(|one| one.kind != FigureKind::Reported));
    // Another device is not compared, and contradictory figures are not either.
    reported(&mut book, "n3-registers", 655.0, "T4");
    let text = history(&book).markdown();
    assert!(text.contains("| `T4` |") || text.contains("| T4 |"), "{text}");
    assert!(text.contains("not comparable"), "{text}");
    reported(&mut book, "n1-scalar", 1391.0, "L4");
    let text = history(&book).markdown();
    assert!(text.contains("its figures contradict each other"), "{text}");
}

#[test]
fn a_task_without_a_run_has_a_history_of_reported_figures() {
    let mut book = Book::default();
    reported(&mut book, "v2", 656.0, "L4");
    reported(&mut book, "v1", 1199.0, "L4");
    book.note("v2", name::PARENT, "v1");
    let text = history(&book.evidence, "attention").unwrap().markdown();
    let (first, second) = (text.find("1199 us reported").unwrap(), text.find("656 us reported").unwrap());
    assert!(first < second && text.contains("−45.3 % latency (1.83×) reported"), "{text}");
    assert!(matches!(history(&book.evidence, "other"), Err(ViewError::NoRun(_))));
}

#[test]
fn only_notes_have_reported_figures() {
    let figure = |kind| Figure::new(name::LATENCY, 1.0, "us", kind).unwrap();
    let note = |kind| {
        let (topic, text) = (name::MEASURED.to_owned(), "1us".to_owned());
        Body::Note(NoteRecord { topic, text, figures: vec![figure(kind)], ..NoteRecord::default() }).check()
    };
    assert!(note(FigureKind::Reported).is_ok());
    assert!(note(FigureKind::Measured).is_err());
    let step = StepRecord {
        run: RUN.into(),
        key: Hash::of(b"key"),
        candidate: "n1".into(),
        stage: Stage::Speed,
        part: None,
        obstacle: None,
        outcome: Outcome::Pass,
        reason: String::new(),
        figures: vec![figure(FigureKind::Reported)],
        objects: BTreeMap::new(),
        counterexample: None,
        tested: None,
        seconds: Finite::ZERO,
        from: None,
    };
    assert!(Body::Step(step).check().is_err());
}
