//! What the ledger holds of earlier runs.

use super::{Judged, Report, Session, SessionError, decisive};
use crate::hash::Hash;
use crate::ledger::{Index, Ledger};
use crate::record::{Body, Outcome, RunRecord, Stage, StepRecord, VerdictRecord};
use crate::task::Candidate;
use crate::verdict::Decision;

use super::keys::Keys;

/// All runs, oldest first.
pub(super) fn runs(ledger: &Ledger, index: &Index) -> Result<Vec<(Hash, RunRecord)>, SessionError> {
    if index.is_empty() {
        return Ok(Vec::new());
    }
    let mut runs = Vec::new();
    for record in ledger.records()? {
        let record = record?;
        if let Body::Run(run) = record.body {
            runs.push((record.hash, run));
        }
    }
    Ok(runs)
}

/// The newest run of the task whose candidates have not all a verdict. Of another task file it cannot be continued.
pub(super) fn unfinished(
    session: &Session<'_>,
    index: &Index,
    earlier: &[(Hash, RunRecord)],
) -> Result<Option<RunRecord>, SessionError> {
    for (_, run) in earlier.iter().rev().filter(|(_, run)| run.task == session.task.name.value) {
        let mut open: Vec<&String> = run.candidates.iter().collect();
        for hash in index.run(&run.run) {
            if let Body::Verdict(verdict) = index.get(session.ledger, hash)?.body {
                open.retain(|candidate| **candidate != verdict.candidate);
            }
        }
        if open.is_empty() {
            continue;
        }
        if run.task_hash != Hash::of(session.text.as_bytes()) {
            return Err(SessionError::Changed(run.run.clone()));
        }
        return Ok(Some(run.clone()));
    }
    Ok(None)
}

/// The verdicts of all chosen candidates, where every one of them was judged by this very content.
pub(super) fn all(
    session: &Session<'_>,
    index: &Index,
    chosen: &[&Candidate],
    keys: &Keys,
) -> Result<Option<Report>, SessionError> {
    let everybody = session.with_baselines(chosen);
    let mut judged = Vec::new();
    let mut known = 0;
    for candidate in chosen {
        let Some(at) = everybody.iter().position(|one| one.name == candidate.name) else { return Ok(None) };
        let mut found = None;
        for hash in index.verdicts(&candidate.name).iter().rev() {
            let Body::Verdict(verdict) = index.get(session.ledger, hash)?.body else { continue };
            if let Some(steps) = rests(session, index, &verdict, at, keys)? {
                found = Some((verdict, steps));
                break;
            }
        }
        let Some((verdict, steps)) = found else { return Ok(None) };
        known += steps.len();
        judged.push(Judged {
            candidate: verdict.candidate.clone(),
            run: verdict.run.clone(),
            decision: Some(Decision {
                verdict: verdict.verdict,
                grade: verdict.grade,
                reason: verdict.reason,
            }),
            steps,
        });
    }
    let newest = judged.iter().map(|one| one.run.clone()).max();
    Ok(newest.map(|run| Report { run, judged, done: 0, known, stopped: false, unchanged: true }))
}

/// The steps of a verdict, where they are those that would be done now.
fn rests(
    session: &Session<'_>,
    index: &Index,
    verdict: &VerdictRecord,
    at: usize,
    keys: &Keys,
) -> Result<Option<Vec<StepRecord>>, SessionError> {
    let mut steps = Vec::new();
    for hash in &verdict.steps {
        let Body::Step(step) = index.get(session.ledger, hash)?.body else { return Ok(None) };
        if step.key != keys.of(at, step.stage) || !lasting(&step) {
            return Ok(None);
        }
        steps.push((*hash, step));
    }
    let stages = session.task.gates.iter().map(|gate| gate.stage.value);
    let all = stages.into_iter().all(|stage| steps.iter().any(|(_, step)| step.stage == stage));
    let ended = steps.iter().any(|(_, step)| decisive(step));
    Ok((all || ended).then(|| steps.into_iter().map(|(_, step)| step).collect()))
}

/// Whether a step need not be done again: what a measurement left open is measured again.
pub(super) fn lasting(step: &StepRecord) -> bool {
    !(step.stage == Stage::Speed && step.outcome == Outcome::Inconclusive)
}
