use crate::ladder::{Book, EARLIER, RUN, climb_on, ladder};
use warpproof_evidence::hash::Hash;
use warpproof_evidence::record::*;
use warpproof_report::*;

fn of_one() -> Book {
    let mut book = Book::default();
    book.run("solo", |_| {});
    let mut steps = book.green("solo", "n2-mma", 96);
    steps.push(book.model("solo", "n2-mma", 9.4));
    steps.push(book.speed("solo", "n2-mma", 18.72, 10.24, Outcome::Pass, ""));
    steps.push(book.peer("solo", "n2-mma"));
    book.verdict(
        "solo",
        "n2-mma",
        Verdict::Merge,
        Some(Grade::Excellent),
        "the whole interval is above the threshold",
        steps,
    );
    book
}

fn roles() -> (Baseline, Candidate) {
    let of = |run: &str, candidate: &str| Subject { run: run.into(), candidate: candidate.into() };
    (Baseline(of(EARLIER, "n1-scalar")), Candidate(of(RUN, "n2-mma")))
}

#[test]
fn markdown() {
    let evidence = ladder().evidence;
    let (baseline, candidate) = roles();
    insta::assert_snapshot!("summary", summary(&evidence, RUN).unwrap().markdown());
    insta::assert_snapshot!("summary_of_one", summary(&of_one().evidence, "solo").unwrap().markdown());
    insta::assert_snapshot!("validation", validation(&evidence, RUN).unwrap().markdown());
    insta::assert_snapshot!("comparison", comparison(&evidence, &baseline, &candidate).unwrap().markdown());
    insta::assert_snapshot!("history", history(&evidence, "attention").unwrap().markdown());
    insta::assert_snapshot!("negatives", negatives(&evidence).unwrap().markdown());
    insta::assert_snapshot!("attempts", attempts(&evidence).unwrap().markdown());
    insta::assert_snapshot!("checklist", checklist(&evidence, RUN).unwrap().markdown());
    insta::assert_snapshot!("next_step", next_step(&evidence, RUN).unwrap().markdown());
}

#[test]
fn html() {
    let evidence = ladder().evidence;
    insta::assert_snapshot!("summary_html", summary(&evidence, RUN).unwrap().html());
    insta::assert_snapshot!("eight_html", summary(&climb_on(ladder()).evidence, RUN).unwrap().html());
    insta::assert_snapshot!("history_html", history(&evidence, "attention").unwrap().html());
    insta::assert_snapshot!("validation_html", validation(&of_one().evidence, "solo").unwrap().html());
}

/// Writes pages for inspection to the directory in `WARPPROOF_PAGES`.
#[test]
fn pages_load_nothing() {
    let evidence = ladder().evidence;
    let (baseline, candidate) = roles();
    let pages = [
        ("summary", summary(&evidence, RUN)),
        ("eight", summary(&climb_on(ladder()).evidence, RUN)),
        ("one", summary(&of_one().evidence, "solo")),
        ("validation", validation(&evidence, RUN)),
        ("comparison", comparison(&evidence, &baseline, &candidate)),
        ("history", history(&evidence, "attention")),
        ("negatives", negatives(&evidence)),
        ("attempts", attempts(&evidence)),
    ];
    for (name, page) in pages {
        let html = page.unwrap().html();
        for loads in ["http:", "https:", "src=", "@import", "<script", "<link", "url(h"] {
            assert!(!html.contains(loads), "{name} loads something: {loads}");
        }
        if let Some(directory) = std::env::var_os("WARPPROOF_PAGES") {
            std::fs::write(std::path::Path::new(&directory).join(format!("{name}.html")), html).unwrap();
        }
    }
}

#[test]
fn text_for_a_terminal() {
    insta::assert_snapshot!("summary_text", summary(&ladder().evidence, RUN).unwrap().text());
    insta::assert_snapshot!("summary_of_one_text", summary(&of_one().evidence, "solo").unwrap().text());
}

#[test]
fn messages() {
    let evidence = ladder().evidence;
    let message = merge_message(&evidence, RUN, "n2-mma").unwrap();
    assert!(message.lines().next().unwrap().chars().count() <= 72);
    insta::assert_snapshot!("merge_message", message);
    insta::assert_snapshot!("comment", pull_request_comment(&of_one().evidence, "solo").unwrap());
    let error = merge_message(&evidence, RUN, "n4-swizzle").unwrap_err();
    assert_eq!(error, ViewError::NotMerged("n4-swizzle".into(), Verdict::Defer));
}

#[test]
fn junit_and_sarif() {
    let evidence = ladder().evidence;
    insta::assert_snapshot!("junit", junit(&evidence, RUN).unwrap());
    let sarif = sarif(&evidence, RUN, &|candidate| format!("kernels/{candidate}.cu")).unwrap();
    assert_eq!(sarif_errors(&sarif), Vec::<String>::new());
    insta::assert_snapshot!("sarif", serde_json::to_string_pretty(&sarif["runs"][0]["results"]).unwrap());
    assert_eq!(sarif["runs"][0]["invocations"][0]["exitCode"], 1);
}

pub(crate) fn sarif_errors(sarif: &serde_json::Value) -> Vec<String> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../schemas/sarif-2.1.0.schema.json");
    let text = std::fs::read_to_string(path).unwrap();
    // One pattern of the standard, for language names, has a bracket that a strict regex parser refuses.
    let text = text.replace("[a-zA-Z]{2}]?$", "[a-zA-Z]{2}\\\\]?$");
    let schema: serde_json::Value = serde_json::from_str(&text).unwrap();
    jsonschema::validator_for(&schema).unwrap().iter_errors(sarif).map(|error| error.to_string()).collect()
}

#[test]
fn json_reads_back_and_is_held_against_the_records() {
    let evidence = ladder().evidence;
    let document = summary(&evidence, RUN).unwrap();
    let json = document.json();
    let again: Document = serde_json::from_str(&json).unwrap();
    assert_eq!(again, document);
    assert_eq!(again.check(&evidence), Ok(()));
    // A digit, a verdict or a word that was changed by hand is detected.
    for (from, to) in [("10.24", "10.23"), ("\"DEFER\"", "\"MERGE\""), ("one tick", "no tick")] {
        assert!(json.contains(from), "{from}");
        let forged: Document = serde_json::from_str(&json.replacen(from, to, 1)).unwrap();
        assert!(matches!(forged.check(&evidence), Err(ViewError::Unresolved(_))), "{from}");
    }
    let mut forged = document.clone();
    forged.headline.push("16 times as fast".into());
    assert!(matches!(forged.check(&evidence), Err(ViewError::Unresolved(_))));
    assert!(document.check(&Evidence::default()).is_err());
}

#[test]
fn a_verdict_that_rests_on_nothing_is_an_error() {
    let mut book = Book::default();
    book.run("r", |_| {});
    let nowhere = Hash::of(b"nowhere");
    book.verdict("r", "k", Verdict::Defer, None, "why", vec![nowhere]);
    assert_eq!(summary(&book.evidence, "r").unwrap_err(), ViewError::NoRecord(nowhere));
    assert_eq!(summary(&book.evidence, "s").unwrap_err(), ViewError::NoRun("s".into()));
}

#[test]
fn figures_of_a_step_that_was_taken_from_another_are_those_of_the_other() {
    let mut book = ladder();
    let taken: Vec<(Hash, StepRecord)> = book
        .evidence
        .judged(RUN, "n2-mma")
        .unwrap()
        .steps
        .iter()
        .map(|(hash, step)| (*hash, (*step).clone()))
        .collect();
    book.run("again", |_| {});
    let mut steps = Vec::new();
    for (hash, step) in taken {
        let step = StepRecord { run: "again".into(), figures: vec![], from: Some(hash), ..step };
        steps.push(book.add(Body::Step(step)));
    }
    book.verdict("again", "n2-mma", Verdict::Merge, Some(Grade::Outstanding), "as before", steps);
    let text = validation(&book.evidence, "again").unwrap().text();
    assert!(text.contains("10.24 µs measured"), "{text}");
    assert!(text.contains("taken from"), "{text}");
}

#[test]
fn a_run_that_was_stopped_says_so() {
    let mut book = Book::default();
    book.run("r", |_| {});
    book.green("r", "k", 32);
    let text = summary(&book.evidence, "r").unwrap().text();
    assert!(text.contains("--resume"), "{text}");
    book.run("empty", |_| {});
    assert!(summary(&book.evidence, "empty").unwrap().text().contains("No candidate was evaluated"));
}

#[test]
fn a_ledger_on_disk_is_evidence() {
    let directory = tempfile::tempdir().unwrap();
    let ledger = warpproof_evidence::ledger::Ledger::create(directory.path()).unwrap();
    let mut writer = ledger.writer();
    let run = RunRecord {
        run: "r".into(),
        task: "t".into(),
        task_version: 1,
        task_hash: Hash::of(b""),
        warpproof: "0".into(),
        started: None,
        arguments: vec![],
        candidates: Vec::new(),
        programs: std::collections::BTreeMap::new(),
        secret: None,
        chosen: None,
        host: [].into(),
        objects: [].into(),
    };
    writer.append(&Body::Run(run)).unwrap();
    let step = StepRecord {
        run: "r".into(),
        key: Hash::of(b"k"),
        candidate: "k".into(),
        stage: Stage::Build,
        part: None,
        obstacle: None,
        outcome: Outcome::Pass,
        reason: String::new(),
        figures: vec![],
        objects: [].into(),
        counterexample: None,
        tested: None,
        seconds: Finite::ZERO,
        from: None,
    };
    writer.append(&Body::Step(step)).unwrap();
    let records: Vec<_> = ledger.records().unwrap().map(Result::unwrap).collect();
    let evidence: Evidence = records.iter().collect();
    assert!(summary(&evidence, "r").unwrap().markdown().contains("PASS"));
}
