//! The optimization history of a kernel: the candidates of a task from parent to child.

use super::comparison::pairs;
use super::document::{Block, Document, Inline, Phrase, Table};
use super::error::ViewError;
use super::evidence::{Evidence, Judged};
use super::number::Source;
use super::plot::{Bar, Plot};
use super::{reported, summary};
use std::collections::{BTreeMap, BTreeSet};
use warpproof_evidence::record::{Body, Verdict};
use warpproof_evidence::vocabulary as name;

/// The lineages of a task: a lineage is a candidate without a parent and all its descendants. Each candidate is shown
/// with its newest verdict, compared with its parent and with the first of its lineage.
pub fn history(evidence: &Evidence, task: &str) -> Result<Document, ViewError> {
    let mut rungs: BTreeMap<&str, Judged> = BTreeMap::new();
    for candidate in evidence.candidates() {
        match evidence.newest(candidate) {
            Ok(judged) if judged.run.task == task => {
                rungs.insert(candidate, judged);
            }
            Ok(_) | Err(ViewError::NoCandidate(..)) => {}
            Err(error) => return Err(error),
        }
    }
    let reported = reported::of(evidence, |candidate, note| match note.fields.get(name::TASK) {
        Some(of) => of == task,
        None => rungs.contains_key(candidate),
    });
    let named = evidence.entries().find_map(|(hash, body)| match body {
        Body::Run(run) if run.task == task => Some(hash),
        _ => None,
    });
    let imported =
        || reported.iter().find(|one| one.note.fields.get(name::TASK).is_some_and(|of| of == task));
    let Some(hash) = named.or_else(|| imported().map(|one| one.record)) else {
        return Err(ViewError::NoRun(task.to_owned()));
    };
    let title = Phrase::new().words("Performance history: task ").name(task, hash);
    let mut document = Document::new(title);
    let lineages = lineages(evidence, &rungs);
    for lineage in &lineages {
        let members: Vec<Judged> = lineage.iter().filter_map(|rung| rungs.get(rung).cloned()).collect();
        let Some(first) = members.first() else { continue };
        document.headline.push(course(evidence, &members)?);
        let title = Phrase::new().words("Lineage of ").then(summary::candidate(first));
        document.blocks.push(Block::Heading(title));
        document.blocks.push(Block::Table(ladder(evidence, &members, &rungs)?));
        document.blocks.extend(summary::bars(evidence, &members, "Latency of each rung")?.map(Block::Plot));
        document.blocks.extend(over_time(evidence, lineage, task)?.map(Block::Plot));
    }
    if lineages.is_empty() {
        document.headline.push("No candidate of this task has a verdict yet.".into());
    }
    document.blocks.extend(reported::section(evidence, &reported)?);
    document.seal(evidence)
}

/// Lineages in the order of their first candidate, each from parent to child.
fn lineages<'a>(evidence: &'a Evidence, rungs: &BTreeMap<&'a str, Judged<'a>>) -> Vec<Vec<&'a str>> {
    let mut order: Vec<&str> = rungs.keys().copied().collect();
    let first = |rung: &&str| {
        rungs.get(rung).and_then(|one| one.steps.iter().filter_map(|(hash, _)| evidence.place(hash)).min())
    };
    order.sort_by_key(first);
    let parent = |rung: &str| {
        evidence.parent(rung).map(|(_, parent)| parent).filter(|parent| rungs.contains_key(parent))
    };
    let mut children: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for rung in &order {
        if let Some(parent) = parent(rung) {
            children.entry(parent).or_default().push(rung);
        }
    }
    let mut seen = BTreeSet::new();
    let mut lineages = Vec::new();
    // Candidates in a cycle of parents have no first one; the second pass begins a lineage with any of them.
    for circles in [false, true] {
        for root in &order {
            if seen.contains(root) || (!circles && parent(root).is_some()) {
                continue;
            }
            let mut lineage = Vec::new();
            let mut open = vec![*root];
            while let Some(rung) = open.pop() {
                if seen.insert(rung) {
                    lineage.push(rung);
                    open.extend(children.get(rung).into_iter().flatten().rev());
                }
            }
            lineages.push(lineage);
        }
    }
    lineages
}

/// From the first candidate to the best comparable one, in one line. Merged candidates rank before the others.
fn course(evidence: &Evidence, members: &[Judged]) -> Result<Phrase, ViewError> {
    let Some(first) = members.first() else { return Ok(Phrase::new()) };
    let mut best: Option<(&Judged, super::Number)> = None;
    for verdicts in [&[Verdict::Merge][..], &[Verdict::Defer, Verdict::Provisional]] {
        if best.is_some() {
            break;
        }
        let green = |one: &&Judged| one.verdict.is_some_and(|(_, record)| verdicts.contains(&record.verdict));
        for one in members.iter().skip(1).filter(green) {
            if let Ok(Some(number)) = against(evidence, first, one)?
                && best.as_ref().is_none_or(|(_, than)| number.value > than.value)
            {
                best = Some((one, number));
            }
        }
    }
    let line = summary::candidate(first);
    Ok(match best {
        Some((one, number)) => line.words(" to ").then(summary::candidate(one)).words(": ").number(number),
        None => line.words(": no other rung can be compared with it yet"),
    })
}

/// The latency reduction from one to the other, or why it is not available.
fn against(
    evidence: &Evidence,
    one: &Judged,
    other: &Judged,
) -> Result<Result<Option<super::Number>, &'static str>, ViewError> {
    match pairs(evidence, one, other) {
        Ok(pairs) => {
            let Some((from, to)) = pairs.first() else { return Ok(Ok(None)) };
            let source =
                Source::Reduction { baseline: (from.record, from.place), candidate: (to.record, to.place) };
            evidence.number(source).map(|number| Ok(Some(number)))
        }
        Err(ViewError::Refused(refusal)) => Ok(Err(refusal.short())),
        Err(error) => Err(error),
    }
}

fn ladder(
    evidence: &Evidence,
    members: &[Judged],
    rungs: &BTreeMap<&str, Judged>,
) -> Result<Table, ViewError> {
    let mut table = Table::new(&[
        "rung",
        "made from",
        "change",
        "verdict",
        "latency",
        "against its parent",
        "against the first",
    ]);
    for one in members {
        let parent = evidence.parent(one.candidate);
        let made = parent.map_or("–".into(), |(hash, parent)| Phrase::new().name(parent, hash));
        let change = evidence.notes(one.candidate, name::CHANGE).last();
        let change =
            change.map_or("not recorded".into(), |(hash, note)| Phrase::new().quote(&note.text, hash));
        let latency = match one.latency(evidence)? {
            Some(found) => evidence.number(found.source())?.into(),
            None => "–".into(),
        };
        let cell = |base: Option<&Judged>| -> Result<Phrase, ViewError> {
            let Some(base) = base else { return Ok("–".into()) };
            Ok(match against(evidence, base, one)? {
                Ok(Some(number)) => number.into(),
                Ok(None) => "–".into(),
                Err(why) => Phrase::new().words("not comparable: ").words(why),
            })
        };
        let from_parent = cell(parent.and_then(|(_, parent)| rungs.get(parent)))?;
        let first = members.first().filter(|first| first.candidate != one.candidate);
        table.rows.push(vec![
            summary::candidate(one),
            made,
            change,
            summary::decision(one),
            latency,
            from_parent,
            cell(first)?,
        ]);
    }
    Ok(table)
}

/// Every valid latency of the lineage, in the order in which it was recorded.
fn over_time(evidence: &Evidence, lineage: &[&str], task: &str) -> Result<Option<Plot>, ViewError> {
    let members: BTreeSet<&str> = lineage.iter().copied().collect();
    let mut bars = Vec::new();
    let mut like = None;
    for (hash, body) in evidence.entries() {
        let Body::Verdict(verdict) = body else { continue };
        let stands = !matches!(verdict.verdict, Verdict::Reject | Verdict::Inconclusive);
        if !members.contains(&*verdict.candidate) || !stands {
            continue;
        }
        let one = evidence.judged(&verdict.run, &verdict.candidate)?;
        let newest = one.verdict.is_some_and(|(newest, _)| newest == hash);
        let Some(found) = one.latency(evidence)?.filter(|_| newest && one.run.task == task) else { continue };
        let this = (found.figure.unit.clone(), found.figure.at.clone(), one.run.task_version);
        if like.get_or_insert_with(|| this.clone()) != &this {
            continue;
        }
        let label = Inline::Name { text: verdict.candidate.clone(), record: hash };
        bars.push(Bar { label, number: Inline::Number(evidence.number(found.source())?) });
    }
    let title = "Latency over time, passing candidates in the order of their verdicts".into();
    Ok(if bars.len() < 2 { None } else { Some(Plot { title, line: true, bars, bounds: Vec::new() }) })
}
