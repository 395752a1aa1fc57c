//! What the ledger holds of earlier runs.

use super::{Compiled, Judged, Report, Session, SessionError, decisive};
use crate::hash::Hash;
use crate::ledger::{Index, Ledger, Tasks};
use crate::record::{Body, Obstacle, Outcome, RunRecord, Stage, StepRecord, Verdict, VerdictRecord};
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
    let mut newer = false;
    for (_, run) in earlier.iter().rev().filter(|(_, run)| run.task == session.task.name.value) {
        let mut open: Vec<&String> = run.candidates.iter().collect();
        for hash in index.run(&run.run) {
            if let Body::Verdict(verdict) = index.get(session.ledger, hash)?.body {
                open.retain(|candidate| **candidate != verdict.candidate);
            }
        }
        let same = run.task_hash == Hash::of(session.text.as_bytes());
        match (open.is_empty(), same) {
            (false, true) => return Ok(Some(run.clone())),
            // What was left for another text of the task is over once that text was judged.
            (false, false) if !newer => {
                return Err(SessionError::Changed(run.run.clone(), "the task file".to_owned()));
            }
            _ => newer = true,
        }
    }
    Ok(None)
}

/// The verdicts of all chosen candidates, where every one of them was judged by this very content.
pub(super) fn all(
    session: &Session<'_>,
    index: &Index,
    earlier: &[(Hash, RunRecord)],
    chosen: &[&Candidate],
    (keys, added): (&Keys, Option<u64>),
) -> Result<Option<Report>, SessionError> {
    let everybody = session.in_order();
    let mut verdicts = Vec::new();
    let mut judged = Vec::new();
    let mut known = 0;
    for candidate in chosen {
        let Some(at) = everybody.iter().position(|one| one.name == candidate.name) else { return Ok(None) };
        let mut found = None;
        for hash in index.verdicts(&candidate.name).iter().rev() {
            let record = index.get(session.ledger, hash)?;
            let Body::Verdict(verdict) = &record.body else { continue };
            if let Some(steps) = rests(session, index, verdict, at, keys)? {
                found = Some((verdict.clone(), steps));
                verdicts.push(record);
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
    // A verdict that its steps do not give was not written by a gate.
    Tasks::of(session.ledger)?.check(session.ledger, &verdicts)?;
    // Reports are of the newest run: where that is another one, this one is written down.
    let newest = earlier.last().map(|(_, run)| run.run.clone());
    let all = newest.filter(|newest| judged.iter().all(|one| one.run == *newest));
    Ok(all.map(|run| Report {
        run,
        judged,
        done: 0,
        known,
        stopped: false,
        resumed: false,
        unchanged: true,
        chosen: added,
    }))
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
        // One that failed with another secret is not undone by one that passed.
        let newest = index.step(&step.key).map(|hash| index.get(session.ledger, &hash)).transpose()?;
        let failed = newest.is_some_and(
            |record| matches!(&record.body, Body::Step(other) if other.outcome == Outcome::Fail),
        );
        if step.key != keys.of(at, step.stage) || !lasting(&step) || (failed && step.outcome != Outcome::Fail)
        {
            return Ok(None);
        }
        steps.push((*hash, step));
    }
    let stages = session.task.gates.iter().map(|gate| gate.stage.value);
    let all = stages.into_iter().all(|stage| steps.iter().any(|(_, step)| step.stage == stage));
    let ended = steps.iter().any(|(_, step)| decisive(step));
    Ok((all || ended).then(|| steps.into_iter().map(|(_, step)| step).collect()))
}

/// Whether a step need not be done again: what a measurement left open is measured again, and what this machine or a file
/// kept from an answer is tried again. What was skipped for want of a GPU is another step where there is one.
pub fn lasting(step: &StepRecord) -> bool {
    match step.outcome {
        Outcome::Inconclusive => step.stage != Stage::Speed && step.obstacle == Some(Obstacle::Unsupported),
        // A profiler or a package can be installed any time.
        Outcome::Skipped => step.obstacle != Some(Obstacle::Absent),
        Outcome::Pass | Outcome::Fail => true,
    }
}

/// Whether a run came to a verdict that binds: all but INCONCLUSIVE.
pub(super) fn decided(ledger: &Ledger, index: &Index, run: &str) -> Result<bool, SessionError> {
    for hash in index.run(run) {
        if let Body::Verdict(verdict) = index.get(ledger, hash)?.body
            && verdict.verdict != Verdict::Inconclusive
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The secret of a run in which a chosen candidate failed as it is now.
pub(super) fn failing_secret(
    session: &Session<'_>,
    index: &Index,
    earlier: &[(Hash, RunRecord)],
    compiled: &[Compiled<'_>],
    chosen: &[&Candidate],
    keys: &Keys,
) -> Result<Option<u64>, SessionError> {
    for (at, one) in compiled.iter().enumerate() {
        if !chosen.iter().any(|other| other.name == one.candidate.name) {
            continue;
        }
        let Some(hash) = index.step(&keys.of(at, Stage::Correct)) else { continue };
        let Body::Step(step) = index.get(session.ledger, &hash)?.body else { continue };
        let run = earlier.iter().find(|(_, run)| run.run == step.run).map(|(_, run)| run);
        if let Some(run) = run.filter(|_| step.outcome == Outcome::Fail) {
            return super::secret_of(run).map(Some);
        }
    }
    Ok(None)
}
