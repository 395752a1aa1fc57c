//! Attempts: what was tried, the results, and what did not help.

use super::document::{Block, Document, Phrase, Status, Table};
use super::error::ViewError;
use super::evidence::{Evidence, Judged};
use super::number::Source;
use super::summary;
use warpproof_evidence::hash::Hash;
use warpproof_evidence::record::{Body, NoteRecord, Stage, Verdict};
use warpproof_evidence::vocabulary as name;

/// All candidates with a verdict, in the order of their names.
fn all(evidence: &Evidence) -> Result<Vec<Judged<'_>>, ViewError> {
    let mut all = Vec::new();
    for candidate in evidence.candidates() {
        match evidence.newest(candidate) {
            Ok(judged) => all.push(judged),
            Err(ViewError::NoCandidate(..)) => {}
            Err(error) => return Err(error),
        }
    }
    all.sort_by_key(|one| one.verdict.and_then(|(hash, _)| evidence.place(&hash)));
    Ok(all)
}

/// The newest note on a topic; the phrase also states that there is none.
pub(super) fn note(evidence: &Evidence, candidate: &str, topic: &str) -> Phrase {
    match evidence.notes(candidate, topic).last() {
        Some((hash, note)) => Phrase::new().quote(&note.text, hash),
        None => "not recorded".into(),
    }
}

/// All notes on a topic, in order.
fn notes(evidence: &Evidence, candidate: &str, topic: &str) -> Phrase {
    let mut line = Phrase::new();
    for (hash, note) in evidence.notes(candidate, topic) {
        let joint = if line.is_empty() { "" } else { "; " };
        line = line.words(joint).quote(&note.text, hash);
    }
    if line.is_empty() { "–".into() } else { line }
}

/// The columns of the table of suspects.
const SUSPECTS: [&str; 5] = ["candidate", "suspect", "test", "status", "by"];

/// The suspects of candidates, each with its test, and whether it was confirmed or ruled out, by which note and which
/// records. `None` if there are none.
pub(super) fn suspects(evidence: &Evidence, candidates: &[&str]) -> Option<Table> {
    let mut table = Table::new(&SUSPECTS);
    for candidate in candidates {
        for (suspect, note) in evidence.notes(candidate, name::SUSPECT) {
            let linked = |topic| {
                let notes = evidence.notes_on(topic);
                notes.filter(|(_, other)| other.about.contains(&suspect)).collect::<Vec<_>>()
            };
            let mut test = Phrase::new();
            for (hash, other) in linked(name::TEST) {
                let joint = if test.is_empty() { "" } else { "; " };
                test = test.words(joint).quote(&other.text, hash);
            }
            let ends = [(name::RULED_OUT, "ruled out"), (name::CONFIRMED, "confirmed")]
                .into_iter()
                .flat_map(|(topic, word)| linked(topic).into_iter().map(move |found| (found, word)))
                .max_by_key(|((hash, _), _)| evidence.place(hash));
            let (status, by) = match ends {
                None => ("open", "–".into()),
                Some(((hash, other), word)) => (word, reason(evidence, hash, other)),
            };
            let who = Phrase::new().name(candidate, suspect);
            let test = if test.is_empty() { "–".into() } else { test };
            table.rows.push(vec![who, Phrase::new().quote(&note.text, suspect), test, status.into(), by]);
        }
    }
    if table.rows.is_empty() { None } else { Some(table) }
}

/// The text of a note, with the steps and verdicts that it is about.
fn reason(evidence: &Evidence, hash: Hash, note: &NoteRecord) -> Phrase {
    let mut line = Phrase::new().quote(&note.text, hash);
    for record in &note.about {
        line = match evidence.body(record) {
            Ok(Body::Step(step)) => {
                let line = line.words(" (").words(step.stage.as_str()).words(" of ");
                let line = line.name(&step.candidate, *record).words(": ");
                line.status(Status::Outcome(step.outcome, *record)).words(")")
            }
            Ok(Body::Verdict(verdict)) => {
                let line = line.words(" (").name(&verdict.candidate, *record).words(": ");
                line.status(Status::Verdict(verdict.verdict, *record)).words(")")
            }
            _ => line,
        };
    }
    line
}

/// What was learned: notes of these candidates, and of none.
pub(super) fn lessons(evidence: &Evidence, of: impl Fn(&NoteRecord) -> bool) -> Option<Table> {
    let mut table = Table::new(&["lesson", "from"]);
    for (hash, note) in evidence.notes_on(name::LESSON).filter(|(_, note)| of(note)) {
        let from = note.candidate.as_ref();
        let from = from.map_or("–".into(), |candidate| Phrase::new().name(candidate, hash));
        table.rows.push(vec![Phrase::new().quote(&note.text, hash), from]);
    }
    if table.rows.is_empty() { None } else { Some(table) }
}

/// Valid negatives: candidates that pass every stage, were measured, and are not faster by the threshold. Each with
/// its expected gain, the excluded effect, and its cost.
pub fn negatives(evidence: &Evidence) -> Result<Document, ViewError> {
    let mut document = Document::new("Valid negatives".into());
    let (table, records) = deferred(evidence, |_| true)?;
    if records.is_empty() {
        document.headline.push("No candidate was deferred.".into());
    } else {
        let count = evidence.number(Source::Count { records })?;
        document
            .headline
            .push(Phrase::new().number(count).words(" passed every stage without the required gain."));
        document.blocks.push(Block::Table(table));
    }
    document.seal(evidence)
}

/// The table of valid negatives, and their verdicts.
pub(super) fn deferred(
    evidence: &Evidence,
    of: impl Fn(&Judged) -> bool,
) -> Result<(Table, Vec<Hash>), ViewError> {
    let mut table = Table::new(&["candidate", "hypothesis", "expected gain", "measured", "excluded", "cost"]);
    let mut records = Vec::new();
    for one in all(evidence)? {
        let Some((hash, record)) = one.verdict else { continue };
        if record.verdict != Verdict::Defer || !of(&one) {
            continue;
        }
        records.push(hash);
        let measured = match one.figure(evidence, Stage::Speed, name::REDUCTION)? {
            Some(found) => evidence.number(found.source())?.into(),
            None => "not measured".into(),
        };
        let excluded = match one.figure(evidence, Stage::Speed, name::REDUCTION_HIGH)? {
            Some(found) => Phrase::new().words("better than ").number(evidence.number(found.source())?),
            None => "nothing: no interval was recorded".into(),
        };
        table.rows.push(vec![
            summary::candidate(&one),
            note(evidence, one.candidate, name::HYPOTHESIS),
            note(evidence, one.candidate, name::EXPECTED_GAIN),
            measured,
            excluded,
            note(evidence, one.candidate, name::COST),
        ]);
    }
    Ok((table, records))
}

/// Attempts, oldest first: hypothesis, change, result, and possible or ruled-out causes.
pub fn attempts(evidence: &Evidence) -> Result<Document, ViewError> {
    let mut document = Document::new("Attempts".into());
    let columns = ["candidate", "hypothesis", "change", "result", "because", "suspects", "ruled out"];
    let mut table = Table::new(&columns);
    let mut records = Vec::new();
    for one in all(evidence)? {
        let Some((hash, record)) = one.verdict else { continue };
        records.push(hash);
        let mut result = summary::decision(&one);
        if record.verdict != Verdict::Reject && one.latency(evidence)?.is_some() {
            result = result.words(" ").then(summary::effect(evidence, &one)?);
        }
        table.rows.push(vec![
            summary::candidate(&one),
            note(evidence, one.candidate, name::HYPOTHESIS),
            note(evidence, one.candidate, name::CHANGE),
            result,
            Phrase::new().quote(&record.reason, hash),
            notes(evidence, one.candidate, name::SUSPECT),
            notes(evidence, one.candidate, name::RULED_OUT),
        ]);
    }
    if records.is_empty() {
        document.headline.push("No candidate was evaluated yet.".into());
    } else {
        let count = evidence.number(Source::Count { records })?;
        document.headline.push(Phrase::new().number(count).words(" candidates were evaluated."));
        document.blocks.push(Block::Table(table));
    }
    let linked = |topic| evidence.notes_on(topic).any(|(_, note)| !note.about.is_empty());
    if [name::TEST, name::RULED_OUT, name::CONFIRMED].into_iter().any(linked) {
        let candidates: Vec<&str> = evidence.noted().collect();
        if let Some(table) = suspects(evidence, &candidates) {
            document.blocks.push(Block::Heading("Suspects".into()));
            document.blocks.push(Block::Table(table));
        }
    }
    if let Some(table) = lessons(evidence, |_| true) {
        document.blocks.push(Block::Heading("Lessons".into()));
        document.blocks.push(Block::Table(table));
    }
    document.seal(evidence)
}
