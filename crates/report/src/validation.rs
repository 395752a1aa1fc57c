//! The complete evidence of a run: every stage of every candidate.

use super::document::{Block, Document, Phrase, Status, Table};
use super::error::ViewError;
use super::evidence::{Evidence, Found, Judged};
use super::number::Source;
use super::summary;
use warpproof_evidence::record::Stage;

/// Every stage of every candidate with its figures, thresholds and their sources, its outcome and the reason.
pub fn validation(evidence: &Evidence, run: &str) -> Result<Document, ViewError> {
    let all = summary::judged(evidence, run)?;
    let mut document = Document::new(summary::title(evidence, run, "Validation report")?);
    summary::open(&mut document, evidence, &all)?;
    if all.len() > 1 {
        document.blocks.push(Block::Heading("Gates".into()));
        document.blocks.push(Block::Table(summary::matrix(&all)));
    }
    for one in &all {
        document.blocks.push(Block::Heading(summary::heading(one)));
        // With one candidate, the reason is shown above.
        document.blocks.extend(summary::reason(one).filter(|_| all.len() > 1).map(Block::Paragraph));
        document.blocks.extend(summary::counterexample(one));
        document.blocks.push(Block::Table(stages(evidence, one)?));
        if !summary::is_rejected(one) && one.floor(evidence)?.is_none() {
            document.blocks.push(Block::Paragraph(
                "No roofline floor is known: the stage model did not compute one.".into(),
            ));
        }
        let timed = one.stage(Stage::Speed).is_some_and(|(_, step)| !step.figures.is_empty());
        if timed && one.stage(Stage::External).is_none() {
            document.blocks.push(Block::Paragraph("No external peer was measured.".into()));
        }
    }
    document.blocks.extend(summary::bars(evidence, &all, "Latency of each candidate")?.map(Block::Plot));
    document.blocks.extend(summary::tested(evidence, &all)?);
    document.blocks.push(Block::Heading("The run".into()));
    document.blocks.push(Block::Table(facts(evidence, run)?));
    document.seal(evidence)
}

fn stages(evidence: &Evidence, one: &Judged) -> Result<Table, ViewError> {
    let mut table =
        Table::new(&["stage", "outcome", "figure", "value", "threshold", "threshold from", "reason"]);
    for (hash, step) in &one.steps {
        let stage = Phrase::new().words(step.stage.as_str());
        let outcome = Phrase::from(Status::Outcome(step.outcome, *hash));
        let mut reason = match &*step.reason {
            "" => Phrase::new(),
            reason if summary::is_told(one, reason) => Phrase::new(),
            reason => Phrase::new().quote(reason, *hash),
        };
        if let Some(from) = step.from {
            let space = if reason.is_empty() { "" } else { " " };
            reason = reason.words(space);
            reason = reason.words("(taken from ").name(&from.short(), *hash).words(")");
        }
        let (record, held) = evidence.holder(*hash, step)?;
        if held.figures.is_empty() {
            let none = || Phrase::from("–");
            table.rows.push(vec![stage, outcome, none(), none(), none(), none(), reason]);
            continue;
        }
        for (place, figure) in held.figures.iter().enumerate() {
            let number = evidence.number(Source::Figure { record, figure: place })?;
            let mut label = Phrase::new().name(&figure.name, record);
            if let Some(at) = &figure.at {
                label = label.words(" at ").quote(at, record);
            }
            let (threshold, source) = match &figure.threshold {
                Some(threshold) => (
                    summary::threshold_of(evidence, &Found { record, place, figure })?
                        .words(" ")
                        .status(Status::Held(record, place, figure.holds().unwrap_or(false))),
                    Phrase::new().quote(&threshold.source, record),
                ),
                None => ("–".into(), "–".into()),
            };
            // The stage is named once, in the first of its rows.
            let first = place == 0;
            let once = |phrase: &Phrase| if first { phrase.clone() } else { Phrase::new() };
            table.rows.push(vec![
                once(&stage),
                once(&outcome),
                label,
                number.into(),
                threshold,
                source,
                once(&reason),
            ]);
        }
    }
    // An empty column is left out.
    if table.rows.iter().all(|row| row.last().is_none_or(Phrase::is_empty)) {
        table.columns.pop();
        table.rows.iter_mut().for_each(|row| drop(row.pop()));
    }
    Ok(table)
}

fn facts(evidence: &Evidence, run: &str) -> Result<Table, ViewError> {
    let (hash, record) = evidence.run(run)?;
    let mut table = Table::new(&["fact", "value"]);
    let mut fact = |key: Phrase, value: &str| table.rows.push(vec![key, Phrase::new().quote(value, hash)]);
    fact("task".into(), &record.task);
    fact("task file".into(), &record.task_hash.short());
    fact("warpproof".into(), &record.warpproof);
    if let Some(started) = &record.started {
        fact("started".into(), started);
    }
    fact("arguments".into(), &record.arguments.join(" "));
    for (key, value) in &record.host {
        fact(Phrase::new().quote(key, hash), value);
    }
    Ok(table)
}
