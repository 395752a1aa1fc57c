//! One page about a stage of work: a candidate, the one that it was made from, and what may come next.

use super::attempts;
use super::comparison::{self, Subject};
use super::document::{Block, Document, Phrase, Row, Status, Table};
use super::error::ViewError;
use super::evidence::{Evidence, Found, Judged};
use super::number::Source;
use super::{reported, summary};
use std::collections::BTreeSet;
use warpproof_evidence::record::{Body, FigureKind, NoteRecord, Outcome, Stage, Verdict};
use warpproof_evidence::vocabulary as name;

/// Maximum number of resources in the table of bottlenecks.
const RESOURCES: usize = 6;
/// Figures of the stage correct that describe the task and not the candidate.
const OF_THE_TASK: &str = "cases that refuse";

/// A page about one candidate: headline, gates, comparison with the candidate before it, bottlenecks, attempts,
/// suspects, negatives, lessons, options, next steps, and texts for a merge and a tag. Without `before`, the
/// candidate before it is its parent.
pub fn stage(
    evidence: &Evidence,
    subject: &Subject,
    before: Option<&Subject>,
) -> Result<Document, ViewError> {
    let one = evidence.judged(&subject.run, &subject.candidate)?;
    let parent = evidence.parent(one.candidate).map(|(_, parent)| parent);
    let before = match before {
        Some(before) => Some(evidence.judged(&before.run, &before.candidate)?),
        None => parent.and_then(|parent| {
            let here = evidence.judged(&one.run.run, parent).ok().filter(|found| found.verdict.is_some());
            here.or_else(|| evidence.newest(parent).ok())
                .or_else(|| evidence.judged(&one.run.run, parent).ok())
        }),
    };
    let version = evidence.number(Source::TaskVersion { record: one.run_hash })?;
    let title = Phrase::new().words("Stage ").then(summary::candidate(&one)).words(" of task ");
    let title = title.name(&one.run.task, one.run_hash).words(" version ").number(version);
    let mut document = Document::new(title.words(", run ").name(&one.run.run, one.run_hash));
    document.status = summary::status(&one);
    let speed = effect(evidence, before.as_ref(), &one)?;
    let checks = checks(evidence, &one)?;
    document.headline.push(summary::candidate(&one).words(": ").then(speed.clone()));
    document.headline.push(checks.clone());
    document.headline.push(match summary::reason(&one) {
        Some(reason) => Phrase::new().words("Decision: ").then(reason),
        None => "Decision: none; no verdict is recorded.".into(),
    });
    let blocks = &mut document.blocks;
    let mut section = |title: &str, found: Option<Table>| {
        if let Some(table) = found.filter(|table| !table.rows.is_empty()) {
            blocks.extend([Block::Heading(title.into()), Block::Table(table)]);
        }
    };
    section("Gates", Some(gates(evidence, &one)?));
    if let Some(before) = &before {
        section("Comparison with the stage before", Some(compared(evidence, before, &one)?));
    }
    section("Bottlenecks", Some(bottlenecks(evidence, &one)?));
    section("Attempts", Some(tries(evidence, &one)?));
    section("Suspects", attempts::suspects(evidence, &[one.candidate]));
    let of_task = |other: &Judged| other.run.task == one.run.task;
    section("Valid negatives", Some(attempts::deferred(evidence, of_task)?.0));
    let mine = |note: &NoteRecord| {
        note.candidate.as_deref().is_none_or(|of| of == one.candidate)
            && reported::is_for(note, &one.run.task)
    };
    section("Lessons", attempts::lessons(evidence, mine));
    section("Options", Some(options(evidence, mine)));
    let kin = |candidate: &str, note: &NoteRecord| {
        let this = candidate == one.candidate;
        (this || evidence.descends(one.candidate, candidate) || Some(candidate) == parent)
            && reported::is_for(note, &one.run.task)
    };
    let imported = reported::of(evidence, kin);
    document.blocks.extend(reported::section(evidence, &imported)?);
    document.blocks.push(Block::Heading("Next steps".into()));
    document.blocks.extend(next(evidence, &one, mine).into_iter().map(Block::Paragraph));
    document.blocks.extend(texts(evidence, &one, before.as_ref(), &speed, &checks)?);
    document.seal(evidence)
}

/// The change of the latency, and the latency; or why they are not stated.
fn effect(evidence: &Evidence, before: Option<&Judged>, one: &Judged) -> Result<Phrase, ViewError> {
    if summary::is_rejected(one) {
        return Ok("no speed is stated, because it was rejected".into());
    }
    let pairs = match before {
        Some(before) => comparison::pairs(evidence, before, one),
        None => Ok(Vec::new()),
    };
    let (before, (from, to)) = match (before, pairs) {
        (Some(before), Ok(pairs)) if !summary::is_rejected(before) && !pairs.is_empty() => {
            let Some(pair) = pairs.into_iter().next() else { return summary::effect(evidence, one) };
            (before, pair)
        }
        (_, Ok(_) | Err(ViewError::Refused(_))) => return summary::effect(evidence, one),
        (_, Err(error)) => return Err(error),
    };
    let reduction = evidence.number(comparison::reduction(&from, &to))?;
    let line = Phrase::new().number(reduction).words(" against ").then(summary::candidate(before));
    let line = line.words(", from ").number(evidence.number(from.source())?);
    let line = line.words(" to ").number(evidence.number(to.source())?);
    Ok(match one.device(to.figure.kind) {
        Some(device) => {
            let on = if to.figure.kind == FigureKind::Predicted { " for " } else { " on " };
            line.words(on).name(device, one.run_hash)
        }
        None => line,
    })
}

/// "9/9 cases passed, 24/24 limits met, counted".
fn checks(evidence: &Evidence, one: &Judged) -> Result<Phrase, ViewError> {
    let mut line = Phrase::new().words("Checks: ");
    if let Some((passed, all)) = cases(evidence, one)? {
        line = line.then(share(evidence, passed, all)?).words(" cases passed, ");
    }
    let (mut stages, mut passed) = (Vec::new(), Vec::new());
    let mut limits = Vec::new();
    for stage in Stage::ALL {
        let Some((hash, step)) = one.stage(*stage).filter(|(_, step)| step.outcome != Outcome::Skipped)
        else {
            continue;
        };
        stages.push(hash);
        passed.extend(Some(hash).filter(|_| step.outcome == Outcome::Pass));
        let figures = one.figures(evidence, *stage)?.into_iter();
        limits.extend(
            figures.filter(|found| found.figure.threshold.is_some()).map(|found| (found.record, found.place)),
        );
    }
    let of = |held| Source::Figures { figures: limits.clone(), held };
    line = line.then(share(evidence, of(true), of(false))?).words(" limits met, ");
    let stages = share(evidence, Source::Count { records: passed }, Source::Count { records: stages })?;
    Ok(line.then(stages).words(" stages passed, counted"))
}

/// The cases that passed and all cases of the stage correct.
fn cases(evidence: &Evidence, one: &Judged) -> Result<Option<(Source, Source)>, ViewError> {
    let figures = one.figures(evidence, Stage::Correct)?;
    let named = |wanted: &str| {
        let found = figures.iter().filter(|found| found.figure.name == wanted);
        found.map(|found| (found.record, found.place)).collect::<Vec<_>>()
    };
    let (all, passed) = (named(name::CASES), named(name::CASES_PASSED));
    let green = one.stage(Stage::Correct).is_some_and(|(_, step)| step.outcome == Outcome::Pass);
    // Older records count only all cases; if the stage passed, each of them did.
    let passed = if passed.len() == all.len() { passed } else { all.clone() };
    Ok(if all.is_empty() || (passed == all && !green) {
        None
    } else {
        Some((Source::Sum { figures: passed }, Source::Sum { figures: all }))
    })
}

fn share(evidence: &Evidence, part: Source, whole: Source) -> Result<Phrase, ViewError> {
    Ok(Phrase::new().number(evidence.number(part)?).words("/").number(evidence.number(whole)?))
}

/// A row for each limited figure, with its worst value; a stage without limits has one row with its outcome.
fn gates(evidence: &Evidence, one: &Judged) -> Result<Table, ViewError> {
    let mut table = Table::new(&["gate", "target", "actual", "result", "target from"]);
    for stage in Stage::ALL {
        let Some((hash, step)) = one.stage(*stage) else { continue };
        let mut begun = BTreeSet::new();
        let figures = one.figures(evidence, *stage)?;
        let limited =
            |found: &&Found| found.figure.threshold.is_some() && !found.figure.name.starts_with(OF_THE_TASK);
        if *stage == Stage::Correct
            && let Some((passed, all)) = cases(evidence, one)?
        {
            let target = Phrase::from("all of ").number(evidence.number(all)?);
            let actual = Phrase::from(evidence.number(passed)?).words(" counted");
            let result = Status::Outcome(step.outcome, hash).into();
            table.rows.push(vec!["correct: cases".into(), target, actual, result, "–".into()]);
        }
        for first in figures.iter().filter(limited) {
            if !begun.insert(&first.figure.name) {
                continue;
            }
            let same = figures.iter().filter(limited).filter(|other| other.figure.name == first.figure.name);
            let Some(worst) = same.min_by(|a, b| room(a).total_cmp(&room(b))) else { continue };
            let source = worst.figure.threshold.as_ref().map(|limit| &limit.source);
            let mut gate = Phrase::new().words(stage.as_str()).words(": ");
            gate = gate.name(&worst.figure.name, worst.record);
            if let Some(at) = &worst.figure.at {
                gate = gate.words(" at ").quote(at, worst.record);
            }
            table.rows.push(vec![
                gate,
                summary::threshold_of(evidence, worst)?,
                evidence.number(worst.source())?.into(),
                Status::Held(worst.record, worst.place, worst.figure.holds().unwrap_or(false)).into(),
                source.map_or("–".into(), |source| Phrase::new().quote(source, worst.record)),
            ]);
        }
        if begun.is_empty() {
            let none = || Phrase::from("–");
            let actual = match &*step.reason {
                "" => none(),
                reason => Phrase::new().quote(reason, hash),
            };
            let result = Status::Outcome(step.outcome, hash).into();
            table.rows.push(vec![stage.as_str().into(), none(), actual, result, none()]);
        }
    }
    Ok(table)
}

/// How far a figure is from its limit; negative if it does not meet it.
fn room(found: &Found) -> f64 {
    let bound = found.figure.threshold.as_ref().map_or(0.0, |limit| limit.value.get());
    let value = found.figure.value.get();
    let apart = (bound - value).abs() / bound.abs().max(value.abs()).max(f64::MIN_POSITIVE);
    if found.figure.holds() == Some(false) { -apart } else { apart }
}

/// Resources, errors and times of both. A figure that is the same in both is left out.
fn compared(evidence: &Evidence, before: &Judged, one: &Judged) -> Result<Table, ViewError> {
    let green = !summary::is_rejected(before) && !summary::is_rejected(one);
    let of = |stage| {
        matches!(stage, Stage::Budget | Stage::Correct | Stage::Counters | Stage::Model | Stage::Speed)
    };
    let mut table = comparison::figures(evidence, before, one, green, of)?;
    let same = Phrase::from("same");
    table.rows.retain(|row| row.last() != Some(&same));
    let names: [Row; 1] = [vec![
        "–".into(),
        "candidate".into(),
        "–".into(),
        summary::candidate(before),
        summary::candidate(one),
        "–".into(),
    ]];
    table.rows.splice(0..0, names);
    Ok(table)
}

/// The minimum time of each resource, the largest first, in percent of the predicted latency if there is one.
fn bottlenecks(evidence: &Evidence, one: &Judged) -> Result<Table, ViewError> {
    let mut table = Table::new(&["resource", "case", "minimum time", "share of the predicted latency"]);
    if summary::is_rejected(one) {
        return Ok(table);
    }
    let figures = one.figures(evidence, Stage::Model)?;
    let mut bounds: Vec<&Found> =
        figures.iter().filter(|found| found.figure.name.starts_with(name::BOUND_OF)).collect();
    let case = bounds.first().map(|found| found.figure.at.clone());
    bounds.retain(|found| Some(&found.figure.at) == case.as_ref());
    bounds.sort_by(|a, b| b.figure.value.get().total_cmp(&a.figure.value.get()));
    let whole = |found: &&Found| {
        [name::LATENCY, name::SCHEDULE].contains(&&*found.figure.name)
            && Some(&found.figure.at) == case.as_ref()
    };
    let whole = figures.iter().find(whole);
    for found in bounds.into_iter().take(RESOURCES) {
        let part = match whole {
            Some(whole) => {
                let (part, whole) = ((found.record, found.place), (whole.record, whole.place));
                evidence.number(Source::Share { part, whole })?.into()
            }
            None => "–".into(),
        };
        let at = found.figure.at.as_ref();
        table.rows.push(vec![
            Phrase::new().name(&found.figure.name, found.record),
            at.map_or("–".into(), |at| Phrase::new().quote(at, found.record)),
            evidence.number(found.source())?.into(),
            part,
        ]);
    }
    Ok(table)
}

/// The verdicts about this candidate, oldest first: each run is an attempt.
fn tries(evidence: &Evidence, one: &Judged) -> Result<Table, ViewError> {
    let mut table = Table::new(&["run", "hypothesis", "change", "result", "because"]);
    let mut seen = BTreeSet::new();
    for (_, body) in evidence.entries() {
        let Body::Verdict(verdict) = body else { continue };
        if verdict.candidate != one.candidate || !seen.insert(&verdict.run) {
            continue;
        }
        let attempt = evidence.judged(&verdict.run, one.candidate)?;
        if attempt.run.task != one.run.task {
            continue;
        }
        let note = |topic: &str| {
            let all: Vec<_> = evidence.notes(one.candidate, topic).collect();
            let of_run = all.iter().rev().find(|(_, note)| note.run.as_deref() == Some(&*verdict.run));
            match of_run.or_else(|| all.iter().rev().find(|(_, note)| note.run.is_none())) {
                Some((hash, note)) => Phrase::new().quote(&note.text, *hash),
                None => "not recorded".into(),
            }
        };
        let mut result = summary::decision(&attempt);
        if !summary::is_rejected(&attempt) && attempt.latency(evidence)?.is_some() {
            result = result.words(" ").then(summary::effect(evidence, &attempt)?);
        }
        table.rows.push(vec![
            Phrase::new().name(&attempt.run.run, attempt.run_hash),
            note(name::HYPOTHESIS),
            note(name::CHANGE),
            result,
            summary::reason(&attempt).unwrap_or_else(|| "–".into()),
        ]);
    }
    Ok(table)
}

/// What may come next, with target, effort, risk and rationale.
fn options(evidence: &Evidence, of: impl Fn(&NoteRecord) -> bool) -> Table {
    let mut table = Table::new(&["option", "target", "effort", "risk", "rationale"]);
    for (hash, note) in evidence.notes_on(name::OPTION).filter(|(_, note)| of(note)) {
        let mut row = vec![Phrase::new().quote(&note.text, hash)];
        row.extend([name::TARGET, name::EFFORT, name::RISK, name::RATIONALE].map(|key| {
            let value = note.fields.get(key);
            value.map_or("not recorded".into(), |value| Phrase::new().quote(value, hash))
        }));
        table.rows.push(row);
    }
    table
}

/// What follows from the verdict, the tests of open suspects, and the first option.
fn next(evidence: &Evidence, one: &Judged, of: impl Fn(&NoteRecord) -> bool) -> Vec<Phrase> {
    let mut lines = vec![match one.verdict {
        None if one.run.candidates.is_empty() => {
            "Evaluate it with the gate: this run gives no verdicts.".into()
        }
        _ => summary::advice(one),
    }];
    for (suspect, _) in evidence.notes(one.candidate, name::SUSPECT) {
        let about = |topic| evidence.notes_on(topic).filter(move |(_, note)| note.about.contains(&suspect));
        let is_open = about(name::RULED_OUT).chain(about(name::CONFIRMED)).next().is_none();
        let tests = about(name::TEST).filter(|_| is_open);
        lines.extend(tests.map(|(hash, note)| Phrase::from("Test a suspect: ").quote(&note.text, hash)));
    }
    if let Some((hash, note)) = evidence.notes_on(name::OPTION).find(|(_, note)| of(note)) {
        lines.push(Phrase::from("First option: ").quote(&note.text, hash));
    }
    lines
}

/// Texts for git: for a merge and a tag if the candidate is merged or may be, else for a commit of the result.
fn texts(
    evidence: &Evidence,
    one: &Judged,
    before: Option<&Judged>,
    speed: &Phrase,
    checks: &Phrase,
) -> Result<Vec<Block>, ViewError> {
    let verdict = one.verdict.map(|(_, record)| record.verdict);
    let (title, open) = match verdict {
        Some(Verdict::Merge) => ("Merge text", None),
        Some(Verdict::Provisional) => {
            ("Draft of a merge text", Some("Merge requires a measurement on a GPU."))
        }
        _ => ("Draft of a commit text", Some("The candidate is not merged; this text records the result.")),
    };
    let task = Phrase::from("[").name(&one.run.task, one.run_hash).words("] ");
    let who = summary::candidate(one);
    let subject = task.then(who.clone()).words(": ").then(summary::decision(one));
    let mut lines = vec![subject];
    for (topic, label) in [(name::CHANGE, "Change: "), (name::HYPOTHESIS, "Hypothesis: ")] {
        let newest = evidence.notes(one.candidate, topic).last();
        lines.extend(newest.map(|(hash, note)| Phrase::from(label).quote(&note.text, hash)));
    }
    lines.push(Phrase::from("Speed: ").then(speed.clone()));
    lines.push(checks.clone());
    lines.extend(resources(evidence, one)?);
    if let Some(before) = before {
        lines.push(Phrase::from("To go back, use ").then(summary::candidate(before)).words("."));
    }
    lines.extend(summary::reason(one).map(|reason| Phrase::from("Decision: ").then(reason)));
    lines.push(Phrase::from("Warpproof-Run: ").name(&one.run.run, one.run_hash));
    let mut blocks = vec![Block::Heading(title.into())];
    blocks.extend(open.map(|words| Block::Paragraph(words.into())));
    blocks.push(Block::Draft(lines));
    if matches!(verdict, Some(Verdict::Merge | Verdict::Provisional)) {
        let tag = Phrase::from("Tag: ").name(&one.run.task, one.run_hash).words("-").then(who.clone());
        let text = who.words(": ").then(speed.clone());
        let newest = evidence.notes(one.candidate, name::CHANGE).last();
        let change = newest.map(|(hash, note)| Phrase::new().quote(&note.text, hash));
        blocks.push(Block::Heading(
            if verdict == Some(Verdict::Merge) { "Tag text" } else { "Draft of a tag text" }.into(),
        ));
        blocks.push(Block::Draft([tag, text].into_iter().chain(change).chain([checks.clone()]).collect()));
    }
    Ok(blocks)
}

/// "Resources: registers 84, shared memory 37120 bytes": the limited figures of the stage budget.
fn resources(evidence: &Evidence, one: &Judged) -> Result<Option<Phrase>, ViewError> {
    let figures = one.figures(evidence, Stage::Budget)?;
    let mut line = Phrase::from("Resources: ");
    let mut first = true;
    for found in figures.iter().filter(|found| found.figure.threshold.is_some()) {
        line = line.words(if first { "" } else { ", " });
        if found.figure.name != found.figure.unit {
            line = line.name(&found.figure.name, found.record).words(" ");
        }
        line = line.number(evidence.number(found.source())?);
        first = false;
    }
    Ok(if first { None } else { Some(line) })
}

/// The candidate of the newest verdict, or without verdicts of the newest step: the stage of work that was
/// evaluated last.
pub fn newest_subject(evidence: &Evidence, run: Option<&str>, candidate: Option<&str>) -> Option<Subject> {
    let mut steps = None;
    for (_, body) in evidence.newest_first() {
        let (Some(of), Some(who)) = (body.run(), body.candidate()) else { continue };
        if candidate.is_some_and(|wanted| wanted != who) || run.is_some_and(|wanted| wanted != of) {
            continue;
        }
        let found = Subject { run: of.to_owned(), candidate: who.to_owned() };
        match body {
            Body::Verdict(_) => return Some(found),
            Body::Step(step) if step.part.is_none() => {
                steps.get_or_insert(found);
            }
            _ => {}
        }
    }
    steps
}
