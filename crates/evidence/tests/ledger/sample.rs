//! Records to write.

use std::collections::BTreeMap;
use warpproof_evidence::hash::Hash;
use warpproof_evidence::record::{
    Body, Comparison, Figure, FigureKind, Finite, NoteRecord, Outcome, RunRecord, Stage, StepRecord, Verdict,
    VerdictRecord,
};

pub(crate) fn run(name: &str) -> Body {
    Body::Run(RunRecord {
        run: name.to_owned(),
        task: "attention".to_owned(),
        task_version: 3,
        task_hash: Hash::of(b"task"),
        warpproof: "0.1.0".to_owned(),
        started: Some("2026-03-01T12:00:00Z".to_owned()),
        arguments: vec!["gate".to_owned(), "tasks/attention.toml".to_owned()],
        candidates: Vec::new(),
        programs: BTreeMap::new(),
        secret: None,
        chosen: None,
        host: BTreeMap::from([("cpus".to_owned(), "2".to_owned())]),
        objects: BTreeMap::new(),
    })
}

pub(crate) fn step(run: &str, candidate: &str, stage: Stage) -> StepRecord {
    let figures = vec![
        Figure::counted("registers", 84, "registers").expect("exact"),
        Figure::new("max error", 0.1 + 0.2, "", FigureKind::Counted)
            .and_then(|figure| figure.held_to(Comparison::AtMost, 0.5, "derived, \"formats\""))
            .expect("finite")
            .at("1x8x1024x64/seed 1"),
    ];
    StepRecord {
        run: run.to_owned(),
        key: Hash::of_pieces([candidate.as_bytes(), stage.as_str().as_bytes()]),
        candidate: candidate.to_owned(),
        stage,
        part: None,
        obstacle: None,
        outcome: Outcome::Pass,
        reason: String::new(),
        figures,
        objects: BTreeMap::new(),
        counterexample: None,
        tested: None,
        seconds: Finite::new(1.5).expect("finite"),
        from: None,
    }
}

pub(crate) fn verdict(run: &str, candidate: &str, steps: Vec<Hash>) -> Body {
    Body::Verdict(VerdictRecord {
        run: run.to_owned(),
        candidate: candidate.to_owned(),
        verdict: Verdict::Provisional,
        grade: None,
        reason: "green, no device".to_owned(),
        steps,
    })
}

pub(crate) fn note(text: &str, about: Vec<Hash>) -> Body {
    Body::Note(NoteRecord {
        topic: "hypothesis".to_owned(),
        text: text.to_owned(),
        run: None,
        candidate: Some("fused".to_owned()),
        about,
        ..NoteRecord::default()
    })
}
