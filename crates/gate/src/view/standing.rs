//! The latencies by which candidates are ranked.

use super::error::ViewError;
use super::evidence::{Evidence, Judged};
use super::vocabulary as name;
use crate::hash::Hash;
use crate::record::{FigureKind, Stage, Verdict};
use std::collections::BTreeMap;

/// One latency of a candidate whose verdict lets it stand: what a leaderboard is made of.
#[derive(Clone, Debug, PartialEq)]
pub struct Standing {
    /// The task; latencies of different tasks or versions do not compare.
    pub task: String,
    /// Its version.
    pub task_version: u64,
    /// The shape; empty where the figure names none.
    pub case: String,
    /// Measured, or predicted where nothing was measured. The two do not compare.
    pub kind: FigureKind,
    /// The device it was measured on or predicted for.
    pub device: String,
    /// The latency.
    pub latency: f64,
    /// Its unit.
    pub unit: String,
    /// The candidate.
    pub candidate: String,
    /// What was decided about it.
    pub verdict: Verdict,
    /// The record that holds the figure.
    pub record: Hash,
}

/// What every candidate of a run stands with. What was rejected, or is not decided, has no standing.
pub fn standings(evidence: &Evidence, run: &str) -> Result<Vec<Standing>, ViewError> {
    let mut all = Vec::new();
    for candidate in evidence.candidates_of(run) {
        let judged = evidence.judged(run, candidate)?;
        all.extend(of(evidence, &judged)?);
    }
    Ok(all)
}

fn of(evidence: &Evidence, judged: &Judged) -> Result<Vec<Standing>, ViewError> {
    let Some((_, verdict)) = judged.verdict else { return Ok(Vec::new()) };
    if matches!(verdict.verdict, Verdict::Reject | Verdict::Inconclusive) {
        return Ok(Vec::new());
    }
    let mut cases: BTreeMap<&str, Standing> = BTreeMap::new();
    for (stage, kind) in [(Stage::Speed, FigureKind::Measured), (Stage::Model, FigureKind::Predicted)] {
        for found in judged.figures(evidence, stage)? {
            if found.figure.name != name::LATENCY || found.figure.kind != kind {
                continue;
            }
            let case = found.figure.at.as_deref().unwrap_or_default();
            cases.entry(case).or_insert_with(|| Standing {
                task: judged.run.task.clone(),
                task_version: judged.run.task_version,
                case: case.to_owned(),
                kind,
                device: judged.device(kind).unwrap_or_default().to_owned(),
                latency: found.figure.value.get(),
                unit: found.figure.unit.clone(),
                candidate: judged.candidate.to_owned(),
                verdict: verdict.verdict,
                record: found.record,
            });
        }
    }
    Ok(cases.into_values().collect())
}
