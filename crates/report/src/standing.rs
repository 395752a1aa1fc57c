//! The latencies by which candidates are ranked.

use super::error::ViewError;
use super::evidence::{Evidence, Judged};
use std::collections::BTreeMap;
use warpproof_evidence::hash::Hash;
use warpproof_evidence::record::{FigureKind, Stage, Verdict};
use warpproof_evidence::vocabulary as name;

/// One latency of a candidate with a valid standing: an entry of a leaderboard.
#[derive(Clone, Debug, PartialEq)]
pub struct Standing {
    /// The task; latencies of different tasks or versions are not comparable.
    pub task: String,
    /// Its version.
    pub task_version: u64,
    /// The shape; empty if the figure names none.
    pub case: String,
    /// Measured, or predicted if nothing was measured. The two are not comparable.
    pub kind: FigureKind,
    /// The device it was measured on or predicted for.
    pub device: String,
    /// The latency.
    pub latency: f64,
    /// Its unit.
    pub unit: String,
    /// The candidate.
    pub candidate: String,
    /// Its verdict.
    pub verdict: Verdict,
    /// The record that holds the figure.
    pub record: Hash,
}

/// The standings of every candidate of a run. Rejected or undecided candidates have none.
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
