//! Attempts: what was tried, the results, and what did not help.

use super::document::{Block, Document, Phrase, Table};
use super::error::ViewError;
use super::evidence::{Evidence, Judged};
use super::number::Source;
use super::summary;
use warpproof_evidence::record::{Stage, Verdict};
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
fn note(evidence: &Evidence, candidate: &str, topic: &str) -> Phrase {
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

/// Valid negatives: candidates that pass every stage, were measured, and are not faster by the threshold. Each with
/// its expected gain, the excluded effect, and its cost.
pub fn negatives(evidence: &Evidence) -> Result<Document, ViewError> {
    let mut document = Document::new("Valid negatives".into());
    let mut table = Table::new(&["candidate", "hypothesis", "expected gain", "measured", "excluded", "cost"]);
    let mut records = Vec::new();
    for one in all(evidence)? {
        let Some((hash, record)) = one.verdict else { continue };
        if record.verdict != Verdict::Defer {
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
    document.seal(evidence)
}
