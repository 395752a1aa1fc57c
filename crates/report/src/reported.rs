//! Figures that were taken from files: latencies that someone else measured. They are shown next to the others and never
//! mixed with them.

use super::document::{Block, Phrase, Table};
use super::error::ViewError;
use super::evidence::Evidence;
use super::number::{Number, Source};
use std::collections::BTreeSet;
use warpproof_evidence::hash::Hash;
use warpproof_evidence::record::{Figure, NoteRecord};
use warpproof_evidence::vocabulary as name;

/// One reported figure.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reported<'a> {
    pub(super) candidate: &'a str,
    pub(super) record: Hash,
    pub(super) note: &'a NoteRecord,
    place: usize,
    figure: &'a Figure,
}

impl Reported<'_> {
    fn device(&self) -> Option<&str> {
        self.note.fields.get(name::DEVICE).map(String::as_str)
    }

    /// Whether the two may be compared: same figure, shape, unit and device.
    fn is_like(&self, other: &Reported) -> bool {
        let (one, two) = (self.figure, other.figure);
        (&one.name, &one.at, &one.unit) == (&two.name, &two.at, &two.unit)
            && self.device().is_some()
            && self.device() == other.device()
    }
}

/// Whether a note belongs to a task: it names the task or none.
pub(super) fn is_for(note: &NoteRecord, task: &str) -> bool {
    note.fields.get(name::TASK).is_none_or(|of| of == task)
}

/// The reported figures of the selected notes. Candidates come after their parents, else in the order of their notes.
pub(super) fn of(evidence: &Evidence, wanted: impl Fn(&str, &NoteRecord) -> bool) -> Vec<Reported<'_>> {
    let mut all = Vec::new();
    for (record, note) in evidence.notes_on(name::MEASURED) {
        let Some(candidate) = note.candidate.as_deref().filter(|candidate| wanted(candidate, note)) else {
            continue;
        };
        let figures = note.figures.iter().enumerate();
        all.extend(figures.map(|(place, figure)| Reported { candidate, record, note, place, figure }));
    }
    let mut sorted: Vec<Reported> = Vec::new();
    let mut open: BTreeSet<&str> = all.iter().map(|one| one.candidate).collect();
    while !open.is_empty() {
        let waits = |one: &Reported| {
            evidence
                .parent(one.candidate)
                .is_some_and(|(_, parent)| parent != one.candidate && open.contains(parent))
        };
        // Parents that form a cycle wait for each other: then the first one is next.
        let first = all.iter().filter(|one| open.contains(one.candidate));
        let Some(next) = first.clone().find(|one| !waits(one)).or_else(|| first.clone().next()) else {
            break;
        };
        let next = next.candidate;
        open.remove(next);
        sorted.extend(all.iter().filter(|one| one.candidate == next));
    }
    sorted
}

/// A heading, a sentence and the table; nothing without reported figures.
pub(super) fn section(evidence: &Evidence, all: &[Reported]) -> Result<Vec<Block>, ViewError> {
    if all.is_empty() {
        return Ok(Vec::new());
    }
    let words = "These figures were taken from the named files. Warpproof did not produce them, and no verdict rests on them.";
    let mut blocks = vec![Block::Heading("Reported figures".into()), Block::Paragraph(words.into())];
    let columns = [
        "candidate",
        "made from",
        "figure",
        "case",
        "device",
        "reported",
        "against its parent",
        "against the first",
        "source",
    ];
    let mut table = Table::new(&columns);
    let first = all.first().map(|one| one.candidate).unwrap_or_default();
    for one in all {
        let parent = evidence.parent(one.candidate);
        let field = |key: &str| {
            let value = one.note.fields.get(key);
            value.map_or("–".into(), |value| Phrase::new().quote(value, one.record))
        };
        let case = one.figure.at.as_ref();
        let case = case.map_or("–".into(), |at| Phrase::new().quote(at, one.record));
        let number = evidence.number(Source::Figure { record: one.record, figure: one.place })?;
        table.rows.push(vec![
            Phrase::new().name(one.candidate, one.record),
            parent.map_or("–".into(), |(hash, parent)| Phrase::new().name(parent, hash)),
            Phrase::new().name(&one.figure.name, one.record),
            case,
            field(name::DEVICE),
            number.into(),
            against(evidence, all, parent.map(|(_, parent)| parent), one)?,
            against(evidence, all, Some(first).filter(|first| *first != one.candidate), one)?,
            field(name::SOURCE),
        ]);
    }
    blocks.push(Block::Table(table));
    Ok(blocks)
}

/// The latency reduction from one candidate. A candidate with contradictory figures is not compared.
fn against(
    evidence: &Evidence,
    all: &[Reported],
    base: Option<&str>,
    one: &Reported,
) -> Result<Phrase, ViewError> {
    let Some(base) = base else { return Ok("–".into()) };
    let like: Vec<&Reported> =
        all.iter().filter(|other| other.candidate == base && other.is_like(one)).collect();
    Ok(match &*like {
        [] => "not comparable".into(),
        [first, rest @ ..] if rest.iter().all(|other| other.figure.value == first.figure.value) => {
            reduction(evidence, first, one)?.into()
        }
        _ => "not stated: its figures contradict each other".into(),
    })
}

fn reduction(evidence: &Evidence, base: &Reported, one: &Reported) -> Result<Number, ViewError> {
    evidence
        .number(Source::Reduction { baseline: (base.record, base.place), candidate: (one.record, one.place) })
}
