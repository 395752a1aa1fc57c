//! The run at a glance: headline, checklist, decision, next step.

use super::coverage::coverage;
use super::document::{Block, Document, Inline, Item, Phrase, Row, Status, Table};
use super::error::ViewError;
use super::evidence::{Evidence, Found, Judged};
use super::number::Source;
use super::plot::{Bar, Bound, Plot};
use super::shown::Shown;
use warpproof_evidence::hash::Hash;
use warpproof_evidence::record::{Comparison, FigureKind, Obstacle, Outcome, Stage, Verdict};
use warpproof_evidence::tested::Tested;
use warpproof_evidence::vocabulary as name;

/// The columns of the table of tested inputs.
const TESTED: [&str; 7] =
    ["stage", "sets of inputs", "shapes", "types", "distributions", "seeds", "schedules"];

/// The run in three lines, its gates, and the decision.
pub fn summary(evidence: &Evidence, run: &str) -> Result<Document, ViewError> {
    let all = judged(evidence, run)?;
    let mut document = Document::new(title(evidence, run, "Gate")?);
    open(&mut document, evidence, &all)?;
    if let [one] = &*all {
        document.blocks.push(Block::Heading("Gates".into()));
        document.blocks.push(gates(evidence, one)?);
        document.blocks.extend(counterexample(one));
        document.blocks.extend(speed(evidence, one)?);
    } else if !all.is_empty() {
        document.blocks.push(Block::Heading("Candidates".into()));
        document.blocks.push(Block::Table(decisions(evidence, &all)?));
        document.blocks.push(Block::Heading("Gates".into()));
        document.blocks.push(Block::Table(matrix(&all)));
        document.blocks.extend(bars(evidence, &all, "Latency of each candidate")?.map(Block::Plot));
        document.blocks.extend(all.iter().flat_map(counterexample));
    }
    document.blocks.extend(tested(evidence, &all)?);
    document.blocks.extend(coverage(evidence, &all)?);
    document.blocks.push(Block::Heading("Next step".into()));
    document.blocks.push(match &*all {
        [] | [_] => Block::Paragraph(next(evidence, &all)?),
        many => Block::Table(steps(many)),
    });
    document.seal(evidence)
}

/// Only the gates, candidate by candidate.
pub fn checklist(evidence: &Evidence, run: &str) -> Result<Document, ViewError> {
    let all = judged(evidence, run)?;
    let mut document = Document::new(title(evidence, run, "Checklist")?);
    open(&mut document, evidence, &all)?;
    for one in &all {
        document.blocks.push(Block::Heading(heading(one)));
        // With one candidate, the reason is shown above.
        document.blocks.extend(reason(one).filter(|_| all.len() > 1).map(Block::Paragraph));
        document.blocks.push(gates(evidence, one)?);
    }
    document.seal(evidence)
}

/// The next step, first for the run and then for each candidate.
pub fn next_step(evidence: &Evidence, run: &str) -> Result<Document, ViewError> {
    let all = judged(evidence, run)?;
    let mut document = Document::new(title(evidence, run, "Next step")?);
    document.headline.push(next(evidence, &all)?);
    if let [one] = &*all {
        document.blocks.extend(reason(one).map(Block::Paragraph));
    } else if !all.is_empty() {
        let mut table = steps(&all);
        table.columns.push("reason".into());
        for (row, one) in table.rows.iter_mut().zip(&all) {
            row.push(reason(one).unwrap_or_else(|| "–".into()));
        }
        document.blocks.push(Block::Table(table));
    }
    document.seal(evidence)
}

/// The reason of the verdict.
pub(super) fn reason(one: &Judged) -> Option<Phrase> {
    one.verdict.map(|(hash, verdict)| Phrase::new().quote(&verdict.reason, hash))
}

/// The next step for each candidate.
fn steps(all: &[Judged]) -> Table {
    let mut table = Table::new(&["candidate", "verdict", "next step"]);
    for one in all {
        table.rows.push(vec![candidate(one), decision(one), advice(one)]);
    }
    table
}

/// All candidates of a run.
pub(super) fn judged<'a>(evidence: &'a Evidence, run: &str) -> Result<Vec<Judged<'a>>, ViewError> {
    evidence.run(run)?;
    evidence.candidates_of(run).into_iter().map(|candidate| evidence.judged(run, candidate)).collect()
}

pub(super) fn title(evidence: &Evidence, run: &str, what: &str) -> Result<Phrase, ViewError> {
    let (hash, record) = evidence.run(run)?;
    let version = evidence.number(Source::TaskVersion { record: hash })?;
    let title = Phrase::new().words(what).words(": task ").name(&record.task, hash);
    Ok(title.words(" version ").number(version).words(", run ").name(&record.run, hash))
}

/// The headline: three lines, and one more if the user chose a secret.
pub(super) fn open(document: &mut Document, evidence: &Evidence, all: &[Judged]) -> Result<(), ViewError> {
    let lines = &mut document.headline;
    match all {
        [] => lines.push("No candidate was evaluated in this run.".into()),
        [one] => {
            document.status = status(one);
            // A rejected candidate has no valid latency: show the reason first and the fix last.
            let rejected = one
                .verdict
                .filter(|(_, record)| matches!(record.verdict, Verdict::Reject | Verdict::Inconclusive));
            let news = match rejected {
                Some((hash, record)) => Phrase::new().quote(&record.reason, hash),
                None => effect(evidence, one)?,
            };
            lines.push(candidate(one).words(": ").then(news));
            lines.push(passed(evidence, one)?);
            if rejected.is_some() {
                lines.push(next(evidence, all)?);
            } else if let Some((hash, verdict)) = one.verdict {
                lines.push(Phrase::new().words("Decision: ").quote(&verdict.reason, hash));
            } else {
                lines.push("Decision: none; the run is not finished.".into());
            }
        }
        many => {
            lines.push(tally(evidence, many)?);
            lines.push(best(evidence, many)?);
            lines.push(next(evidence, many)?);
        }
    }
    if let Some((chosen, hash)) = all.first().and_then(|one| Some((one.run.chosen.as_ref()?, one.run_hash))) {
        let line = Phrase::new().words("The user chose the secret ").name(chosen, hash);
        lines.push(line.words(": its cases were added to those drawn for the run."));
    }
    Ok(())
}

fn tally(evidence: &Evidence, all: &[Judged]) -> Result<Phrase, ViewError> {
    let records: Vec<_> = all.iter().filter_map(record_of).collect();
    let candidates = if records.len() == 1 { " candidate: " } else { " candidates: " };
    let mut line = Phrase::new().number(evidence.number(Source::Count { records })?).words(candidates);
    let mut first = true;
    for verdict in Verdict::ALL {
        let records: Vec<_> = all
            .iter()
            .filter_map(|one| one.verdict)
            .filter(|(_, record)| record.verdict == *verdict)
            .map(|(hash, _)| hash)
            .collect();
        let Some(hash) = records.first().copied() else { continue };
        line = line.words(if first { "" } else { ", " });
        line = line.number(evidence.number(Source::Count { records })?).words(" ");
        line = line.status(Status::Verdict(*verdict, hash));
        first = false;
    }
    let open: Vec<_> = all.iter().filter(|one| one.verdict.is_none()).filter_map(record_of).collect();
    if !open.is_empty() {
        line = line.words(if first { "" } else { ", " });
        line = line.number(evidence.number(Source::Count { records: open })?).words(" without a verdict");
    }
    Ok(line)
}

/// The record that stands for a candidate in a count.
fn record_of(one: &Judged) -> Option<Hash> {
    one.verdict.map(|(hash, _)| hash).or_else(|| one.steps.first().map(|(hash, _)| *hash))
}

/// The lowest latency of the candidates that may be merged; if there are none, of the passing ones with a valid
/// latency.
fn best(evidence: &Evidence, all: &[Judged]) -> Result<Phrase, ViewError> {
    for (verdicts, words) in [
        (&[Verdict::Merge][..], "Best: "),
        (
            &[Verdict::Defer, Verdict::Provisional],
            "Nothing to merge; the lowest latency of the passing candidates: ",
        ),
    ] {
        let mut best: Option<(&Judged, Found)> = None;
        for one in all {
            let green = one.verdict.is_some_and(|(_, record)| verdicts.contains(&record.verdict));
            let Some(found) = one.latency(evidence)?.filter(|_| green) else { continue };
            let better = best.as_ref().is_none_or(|(_, than)| {
                let measured = |found: &Found| found.figure.kind == FigureKind::Measured;
                let like = found.figure.unit == than.figure.unit && found.figure.at == than.figure.at;
                (measured(&found) && !measured(than))
                    || (measured(&found) == measured(than) && like && found.figure.value < than.figure.value)
            });
            if better {
                best = Some((one, found));
            }
        }
        if let Some((one, _)) = best {
            let line = Phrase::new().words(words).then(candidate(one)).words(", ");
            return Ok(line.then(effect(evidence, one)?));
        }
    }
    Ok("No latency of a passing candidate is known.".into())
}

/// The name of a candidate in a line.
pub(super) fn candidate(one: &Judged) -> Phrase {
    match record_of(one) {
        Some(hash) => Phrase::new().name(one.candidate, hash),
        None => "a candidate".into(),
    }
}

/// Its verdict as a status.
pub(super) fn status(one: &Judged) -> Option<Status> {
    one.verdict.map(|(hash, record)| match record.grade {
        Some(grade) if record.verdict == Verdict::Merge => Status::Merge(grade, hash),
        _ => Status::Verdict(record.verdict, hash),
    })
}

pub(super) fn decision(one: &Judged) -> Phrase {
    status(one).unwrap_or(Status::Absent).into()
}

pub(super) fn heading(one: &Judged) -> Phrase {
    candidate(one).words(" ").then(decision(one))
}

/// Its effect on the latency, in one phrase.
pub(super) fn effect(evidence: &Evidence, one: &Judged) -> Result<Phrase, ViewError> {
    let reduction = one.figure(evidence, Stage::Speed, name::REDUCTION)?;
    let latency = one.latency(evidence)?;
    let mut line = Phrase::new();
    if let Some(found) = reduction {
        line = line.number(evidence.number(found.source())?);
        if let Some(latency) = latency {
            line = line.words(", ").number(evidence.number(latency.source())?);
        }
    } else if let Some(latency) = latency {
        line = line.number(evidence.number(latency.source())?);
    } else {
        return Ok(no_latency(one));
    }
    let kind = latency.map_or(FigureKind::Measured, |found| found.figure.kind);
    if let Some(device) = one.device(kind) {
        line = line.words(if kind == FigureKind::Predicted { " for " } else { " on " });
        line = line.name(device, one.run_hash);
    }
    Ok(line)
}

/// Why the latency is unknown.
fn no_latency(one: &Judged) -> Phrase {
    match (one.stage(Stage::Model), one.stage(Stage::Counters)) {
        (None, _) => "no latency is known: the stage model was not run",
        (Some(_), None) => "no latency is known: the stage counters was not run",
        _ => "no latency is known: the stage model predicted none",
    }
    .into()
}

/// The number of stages by outcome.
fn passed(evidence: &Evidence, one: &Judged) -> Result<Phrase, ViewError> {
    let mut line = Phrase::new().words("Gates: ");
    let mut first = true;
    for outcome in Outcome::ALL {
        let ends = Stage::ALL.iter().filter_map(|stage| one.stage(*stage));
        let records: Vec<_> =
            ends.filter(|(_, step)| step.outcome == *outcome).map(|(hash, _)| hash).collect();
        if records.is_empty() {
            continue;
        }
        line = line.words(if first { "" } else { ", " });
        line = line.number(evidence.number(Source::Count { records })?);
        line = line.words(match outcome {
            Outcome::Pass => " passed",
            Outcome::Fail => " failed",
            Outcome::Inconclusive => " inconclusive",
            Outcome::Skipped => " skipped",
        });
        first = false;
    }
    let mut ends = Stage::ALL.iter().filter_map(|stage| one.stage(*stage));
    if let Some((_, step)) = ends.find(|(_, step)| step.outcome == Outcome::Fail) {
        line = line.words("; the first failure is ").words(step.stage.as_str());
    }
    Ok(line)
}

/// The stages that always get a line. Optional ones are left out if nothing was recorded.
fn expected(stage: Stage) -> bool {
    !matches!(stage, Stage::Profile | Stage::External)
}

/// One candidate's gates.
pub(super) fn gates(evidence: &Evidence, one: &Judged) -> Result<Block, ViewError> {
    let mut items = Vec::new();
    for stage in Stage::ALL {
        let words = Phrase::new().words(stage.as_str());
        match one.stage(*stage) {
            Some((hash, step)) => {
                let what = if step.reason.is_empty() {
                    words.then(tightest(evidence, one, *stage)?)
                } else if is_told(one, &step.reason) {
                    words
                } else {
                    words.words(": ").quote(&step.reason, hash)
                };
                items.push(Item { status: Status::Outcome(step.outcome, hash), what });
            }
            None if expected(*stage) => items.push(Item { status: Status::Absent, what: words }),
            None => {}
        }
    }
    Ok(Block::Checklist(items))
}

/// Whether it was rejected: then its speed is not reported.
pub(super) fn is_rejected(one: &Judged) -> bool {
    one.verdict.is_some_and(|(_, record)| record.verdict == Verdict::Reject)
}

/// Whether the verdict gives this reason, so that it is shown once, with the verdict.
pub(super) fn is_told(one: &Judged, reason: &str) -> bool {
    !reason.is_empty() && one.verdict.is_some_and(|(_, record)| record.reason.contains(reason))
}

/// What the stages were tested on: a row for each stage, and for each candidate that differs from the others.
pub(super) fn tested(evidence: &Evidence, all: &[Judged]) -> Result<Vec<Block>, ViewError> {
    let mut rows: Vec<(Stage, Tested, Row)> = Vec::new();
    for one in all {
        for (hash, step) in &one.steps {
            let (record, held) = evidence.holder(*hash, step)?;
            let Some(tested) = held.tested.as_deref() else { continue };
            if rows.iter().any(|(stage, other, _)| (stage, other) == (&step.stage, tested)) {
                continue;
            }
            let shown = tested.rows();
            let cell = |column: &str| match shown.iter().find(|(name, _)| *name == column) {
                Some((_, value)) => Phrase::new().quote(value, record),
                None => "–".into(),
            };
            let mut row = vec![Phrase::new().words(step.stage.as_str())];
            row.extend(TESTED.iter().skip(1).map(|column| cell(column)));
            rows.push((step.stage, tested.clone(), row));
        }
    }
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    rows.sort_by_key(|(stage, ..)| *stage);
    let mut table = Table::new(&TESTED);
    table.rows = rows.into_iter().map(|(.., row)| row).collect();
    Ok(vec![Block::Heading("What was tested".into()), Block::Table(table)])
}

/// The counterexample of a failed candidate.
pub(super) fn counterexample(one: &Judged) -> Vec<Block> {
    let Some(shown) = Shown::of(one) else { return Vec::new() };
    vec![
        Block::Heading(Phrase::new().words("Error in ").then(candidate(one))),
        Block::Counterexample(Box::new(shown)),
    ]
}

/// The figure of a stage that is closest to its threshold, if any: the one that would fail first.
fn tightest(evidence: &Evidence, one: &Judged, stage: Stage) -> Result<Phrase, ViewError> {
    let room = |found: &Found| {
        let bound = found.figure.threshold.as_ref().map_or(0.0, |threshold| threshold.value.get());
        let value = found.figure.value.get();
        (bound - value).abs() / bound.abs().max(value.abs()).max(f64::MIN_POSITIVE)
    };
    let all = one.figures(evidence, stage)?;
    // A limit of zero that is met with zero is less informative than one that is nearly reached.
    let held = all.iter().filter(|found| found.figure.threshold.is_some() && room(found) > 0.0);
    let Some(found) = held.min_by(|a, b| room(a).total_cmp(&room(b))) else { return Ok(Phrase::new()) };
    let line = Phrase::new().words(": ").name(&found.figure.name, found.record).words(" ");
    let line = line.number(evidence.number(found.source())?).words(", threshold ");
    Ok(line.then(threshold_of(evidence, found)?))
}

/// All candidates' gates: a row each, a column for each stage that any of them reached.
pub(super) fn matrix(all: &[Judged]) -> Table {
    let met = |stage: &Stage| expected(*stage) || all.iter().any(|one| one.stage(*stage).is_some());
    let stages: Vec<Stage> = Stage::ALL.iter().copied().filter(met).collect();
    let columns: Vec<&str> =
        std::iter::once("candidate").chain(stages.iter().map(|stage| stage.as_str())).collect();
    let mut table = Table::new(&columns);
    for one in all {
        let mut row = vec![candidate(one)];
        row.extend(stages.iter().map(|stage| match one.stage(*stage) {
            Some((hash, step)) => Phrase::from(Status::Outcome(step.outcome, hash)),
            None => "not run".into(),
        }));
        table.rows.push(row);
    }
    table
}

/// A row for each candidate with its decision and the reason.
fn decisions(evidence: &Evidence, all: &[Judged]) -> Result<Table, ViewError> {
    let mut table = Table::new(&["candidate", "verdict", "latency", "against its baseline", "reason"]);
    for one in all {
        let number = |found: Option<Found>| match found {
            Some(found) => evidence.number(found.source()).map(Phrase::from),
            None => Ok("–".into()),
        };
        let latency = number(one.latency(evidence)?)?;
        let against = number(one.figure(evidence, Stage::Speed, name::REDUCTION)?)?;
        let reason = match one.verdict {
            Some((hash, record)) => Phrase::new().quote(&record.reason, hash),
            None => "the run is not finished".into(),
        };
        table.rows.push(vec![candidate(one), decision(one), latency, against, reason]);
    }
    Ok(table)
}

/// One candidate's speed: latency, baseline, interval, floor, peers.
pub(super) fn speed(evidence: &Evidence, one: &Judged) -> Result<Vec<Block>, ViewError> {
    let mut table = Table::new(&["speed", "case", "value", "threshold"]);
    let mut bounds = Vec::new();
    let mut bars = Vec::new();
    for stage in [Stage::Speed, Stage::Model, Stage::External] {
        for found in one.figures(evidence, stage)? {
            let figure = found.figure;
            let number = evidence.number(found.source())?;
            let threshold = match &figure.threshold {
                Some(_) => threshold_of(evidence, &found)?,
                None => "–".into(),
            };
            let case = figure.at.as_ref().map_or("–".into(), |at| Phrase::new().quote(at, found.record));
            let label = Phrase::new().name(&figure.name, found.record);
            table.rows.push(vec![label, case, number.clone().into(), threshold]);
            let text = if figure.name == name::PEER_LATENCY { figure.at.as_ref() } else { None };
            let label = Inline::Name { text: text.unwrap_or(&figure.name).clone(), record: found.record };
            let inline = Inline::Number(number);
            match &*figure.name {
                name::LATENCY | name::BASELINE_LATENCY => bars.push((Bar { label, number: inline }, figure)),
                name::FLOOR | name::PEER_LATENCY => bounds.push((Bound { label, number: inline }, figure)),
                _ => {}
            }
        }
    }
    let mut blocks = Vec::new();
    if !table.rows.is_empty() {
        blocks.push(Block::Heading("Speed".into()));
        blocks.push(Block::Table(table));
    }
    if !is_rejected(one) && one.floor(evidence)?.is_none() {
        blocks.push(Block::Paragraph(
            "No roofline floor is known: the stage model did not compute one.".into(),
        ));
    }
    if let Some((_, first)) = bars.first() {
        let (unit, at) = (first.unit.clone(), first.at.clone());
        let bars: Vec<Bar> =
            bars.into_iter().filter(|(_, f)| f.unit == unit && f.at == at).map(|(bar, _)| bar).collect();
        let bounds = bounds.into_iter().filter(|(_, f)| f.unit == unit).map(|(bound, _)| bound).collect();
        blocks.push(Block::Plot(Plot {
            title:
                "Latency and its bounds; the roofline floor assumes a cold cache and excludes launch overhead"
                    .into(),
            line: false,
            bars,
            bounds,
        }));
    }
    Ok(blocks)
}

/// The threshold of a figure. For a latency reduction, which is written with a minus sign, more is better.
pub(super) fn threshold_of(evidence: &Evidence, found: &Found) -> Result<Phrase, ViewError> {
    let Some(threshold) = &found.figure.threshold else { return Ok("–".into()) };
    let number = evidence.number(Source::Threshold { record: found.record, figure: found.place })?;
    Ok(match threshold.op {
        Comparison::AtLeast | Comparison::Greater if number.reduction => {
            Phrase::from(number).words(" or better")
        }
        op => Phrase::new().words(sign(op)).words(" ").number(number),
    })
}

/// The symbol of a comparison, for display.
fn sign(op: Comparison) -> &'static str {
    match op {
        Comparison::AtMost => "≤",
        Comparison::AtLeast => "≥",
        Comparison::Equal => "=",
        Comparison::Less => "<",
        Comparison::Greater => ">",
    }
}

/// The latencies of many candidates, with the floor. Only numbers with the first one's unit and shape are drawn.
pub(super) fn bars(evidence: &Evidence, all: &[Judged], title: &str) -> Result<Option<Plot>, ViewError> {
    let mut bars = Vec::new();
    let mut bounds: Vec<Bound> = Vec::new();
    let mut like: Option<(&str, Option<&str>)> = None;
    for one in all {
        let Some(found) = one.latency(evidence)? else { continue };
        let this = (&*found.figure.unit, found.figure.at.as_deref());
        if *like.get_or_insert(this) != this {
            continue;
        }
        let number = Inline::Number(evidence.number(found.source())?);
        bars.push(Bar {
            label: Inline::Name { text: one.candidate.to_owned(), record: candidate_record(one, &found) },
            number,
        });
        let peers = one.figures(evidence, Stage::External)?.into_iter();
        let peers = peers.filter(|found| found.figure.name == name::PEER_LATENCY);
        for found in one.floor(evidence)?.into_iter().chain(peers) {
            if found.figure.unit != this.0 {
                continue;
            }
            let text = found.figure.at.as_ref().filter(|_| found.figure.name == name::PEER_LATENCY);
            let label =
                Inline::Name { text: text.unwrap_or(&found.figure.name).clone(), record: found.record };
            let number = evidence.number(found.source())?;
            // One line for each bound, not one for each candidate that has it.
            let known = bounds.iter().any(|bound| {
                name_of(&bound.label) == name_of(&label)
                    && matches!(&bound.number, Inline::Number(other) if other.shown() == number.shown())
            });
            if !known && bounds.len() < 6 {
                bounds.push(Bound { label, number: Inline::Number(number) });
            }
        }
    }
    let plot = Plot { title: title.into(), line: false, bars, bounds };
    Ok(if plot.bars.is_empty() { None } else { Some(plot) })
}

fn name_of(label: &Inline) -> &str {
    match label {
        Inline::Name { text, .. } => text,
        _ => "",
    }
}

fn candidate_record(one: &Judged, found: &Found) -> Hash {
    record_of(one).unwrap_or(found.record)
}

/// The next step for one candidate.
pub(super) fn advice(one: &Judged) -> Phrase {
    let worst = |outcome: Outcome| {
        Stage::ALL.iter().filter_map(|stage| one.stage(*stage)).find(|(_, step)| step.outcome == outcome)
    };
    let because = |line: &str, outcome: Outcome| match worst(outcome) {
        Some((_, step)) => Phrase::new().words(line).words(" ").words(step.stage.as_str()).words("."),
        None => Phrase::new().words(line).words(" that the verdict names."),
    };
    let at_fault =
        || worst(Outcome::Inconclusive).is_some_and(|(_, step)| step.obstacle == Some(Obstacle::Input));
    match one.verdict.map(|(_, record)| record.verdict) {
        None => "Continue the run with --resume: it was stopped before a verdict.".into(),
        Some(Verdict::Merge) => "Merge it with the generated message.".into(),
        Some(Verdict::Reject) => because("Fix the failure in the stage", Outcome::Fail),
        Some(Verdict::Inconclusive) if at_fault() => {
            because("Fix the task, not the kernel: see the stage", Outcome::Inconclusive)
        }
        Some(Verdict::Inconclusive) => {
            because("Run it again after fixing the problem in the stage", Outcome::Inconclusive)
        }
        Some(Verdict::Provisional) => "Measure it on a GPU: it passed every stage that needs none.".into(),
        Some(Verdict::Defer) => {
            "Keep it as a valid negative: note its cost, and try the next hypothesis.".into()
        }
    }
}

/// The first thing to do: merge, then resume stopped runs, then fix errors, then resolve open results.
fn next(evidence: &Evidence, all: &[Judged]) -> Result<Phrase, ViewError> {
    let rank = |one: &Judged| match one.verdict.map(|(_, record)| record.verdict) {
        Some(Verdict::Merge) => 0,
        None => 1,
        Some(Verdict::Reject) => 2,
        Some(Verdict::Inconclusive) => 3,
        Some(Verdict::Provisional) => 4,
        Some(Verdict::Defer) => 5,
    };
    let Some(first) = all.iter().map(rank).min() else {
        return Ok("Add candidates to the task file.".into());
    };
    let mut like = all.iter().filter(|one| rank(one) == first);
    let Some(one) = like.next() else { return Ok(Phrase::new()) };
    let mut line = Phrase::new().words("Next: ").then(candidate(one)).words(": ").then(advice(one));
    let others: Vec<_> = like.filter_map(record_of).collect();
    if !others.is_empty() {
        line = line
            .words(" (and ")
            .number(evidence.number(Source::Count { records: others })?)
            .words(" more with the same next step)");
    }
    Ok(line)
}
