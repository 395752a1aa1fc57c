//! Which records are taken from a ledger for a view, and how a subject is named.

use crate::ladder::{Book, EARLIER, RUN, climb};
use std::collections::BTreeMap;
use warpproof_evidence::hash::Hash;
use warpproof_evidence::ledger::{Filter, Ledger, log, newest_run, runs_of};
use warpproof_evidence::record::*;
use warpproof_report::*;

fn on_disk() -> (tempfile::TempDir, Ledger, Book) {
    let directory = tempfile::tempdir().unwrap();
    let ledger = Ledger::create(directory.path()).unwrap();
    let book = climb(Book::on(&ledger));
    (directory, ledger, book)
}

#[test]
fn a_run_alone_gives_the_reports_of_all() {
    let (_directory, ledger, book) = on_disk();
    let all = Evidence::read(&ledger).unwrap();
    for run in [EARLIER, RUN] {
        let alone = Evidence::read_run(&ledger, run, None).unwrap();
        for view in [summary, validation, checklist, next_step] {
            assert_eq!(view(&alone, run).unwrap(), view(&all, run).unwrap());
            assert_eq!(view(&alone, run).unwrap(), view(&book.evidence, run).unwrap());
        }
    }
    assert_eq!(newest_run(&ledger).unwrap().unwrap().run, RUN);
    let one = Evidence::read_run(&ledger, RUN, Some("n4-swizzle")).unwrap();
    assert_eq!(one.candidates_of(RUN), ["n4-swizzle"]);
    assert!(one.run(EARLIER).is_err());
}

/// A second run that only takes the steps of the first: its figures are found in the original records.
#[test]
fn what_a_run_took_from_others_comes_along() {
    let (_directory, ledger, mut book) = on_disk();
    let first = book.evidence.judged(EARLIER, "n1-scalar").unwrap();
    let held: Vec<(Hash, StepRecord)> =
        first.steps.iter().map(|(hash, step)| (*hash, (*step).clone())).collect();
    let mut last = held;
    for run in ["again", "and-again"] {
        book.run(run, |_| {});
        let mut next = Vec::new();
        for (hash, step) in &last {
            let (figures, objects) = (Vec::new(), BTreeMap::new());
            let taken = StepRecord { run: run.into(), from: Some(*hash), figures, objects, ..step.clone() };
            next.push((book.add(Body::Step(taken.clone())), taken));
        }
        let steps = next.iter().map(|(hash, _)| *hash).collect();
        book.verdict(run, "n1-scalar", Verdict::Merge, Some(Grade::Good), "as before", steps);
        last = next;
    }
    let alone = Evidence::read_run(&ledger, "and-again", None).unwrap();
    let text = validation(&alone, "and-again").unwrap().text();
    assert!(text.contains("42 µs measured"), "{text}");
    assert_eq!(text, validation(&Evidence::read(&ledger).unwrap(), "and-again").unwrap().text());
}

#[test]
fn records_of_a_task_are_those_of_its_runs() {
    let (_directory, ledger, mut book) = on_disk();
    book.run("softmax-run", |run| run.task = "softmax".into());
    let runs = runs_of(&ledger, "softmax").unwrap();
    assert_eq!(runs.iter().collect::<Vec<_>>(), ["softmax-run"]);
    assert_eq!(runs_of(&ledger, "attention").unwrap().len(), 2);
    assert_eq!(log(&ledger, &Filter { runs: Some(runs), ..Filter::default() }).unwrap().len(), 1);
}

#[test]
fn a_subject_is_a_run_a_candidate_or_both() {
    let mut book = climb(Book::default());
    book.run("at:noon", |_| {});
    let steps = book.green("at:noon", "k:wide=4", 64);
    book.verdict("at:noon", "k:wide=4", Verdict::Provisional, None, "green", steps);
    let read = |text: &str| Subject::resolve(&book.evidence, text);
    let of = |run: &str, candidate: &str| Ok(Subject { run: run.into(), candidate: candidate.into() });
    assert_eq!(read("at:noon:k:wide=4"), of("at:noon", "k:wide=4"));
    assert_eq!(read("at:noon"), of("at:noon", "k:wide=4"));
    assert_eq!(read("k:wide=4"), of("at:noon", "k:wide=4"));
    assert_eq!(read(EARLIER), of(EARLIER, "n1-scalar"));
    assert_eq!(read("n2-mma"), of(RUN, "n2-mma"));
    assert!(matches!(read(RUN), Err(ViewError::Several(run, names)) if run == RUN && names.len() == 5));
    assert_eq!(read("nothing"), Err(ViewError::NoCandidate("nothing".into(), None)));
    let gone = ViewError::NoCandidate("gone".into(), Some("at:noon".into()));
    assert_eq!(read("at:noon:gone"), Err(gone));
}
