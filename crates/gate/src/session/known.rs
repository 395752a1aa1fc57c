//! Results of earlier runs in the ledger.

use super::{Compiled, Judged, RunSummary, Session, SessionError, decisive};
use warpproof_evidence::hash::Hash;
use warpproof_evidence::ledger::{Index, Ledger, Tasks};
use warpproof_evidence::record::{
    Body, Obstacle, Outcome, RunRecord, Stage, StepRecord, Verdict, VerdictRecord,
};
use warpproof_evidence::verdict::Decision;
use warpproof_task::Candidate;

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

/// The newest run of the task in which some candidate has no verdict. A run of another task file cannot be continued.
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
            // An unfinished run of another task text no longer matters once a newer run is complete.
            (false, false) if !newer => {
                return Err(SessionError::Changed(run.run.clone(), "the task file".to_owned()));
            }
            _ => newer = true,
        }
    }
    Ok(None)
}

/// The verdicts of all chosen candidates, if each of them was evaluated with exactly this content.
pub(super) fn all(
    session: &Session<'_>,
    index: &Index,
    earlier: &[(Hash, RunRecord)],
    chosen: &[&Candidate],
    (keys, added): (&Keys, Option<u64>),
) -> Result<Option<RunSummary>, SessionError> {
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
    // Ignore a verdict that does not follow from its steps: a gate would not have written it.
    Tasks::of(session.ledger)?.check(session.ledger, &verdicts)?;
    // Reports show the newest run: if that is another one, write this one again.
    let newest = earlier.last().map(|(_, run)| run.run.clone());
    let all = newest.filter(|newest| judged.iter().all(|one| one.run == *newest));
    Ok(all.map(|run| RunSummary {
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

/// The steps of a verdict, if they are the ones that would be done now.
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
        // A pass does not cancel a failure with another secret.
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

/// Whether a step need not be repeated. Inconclusive measurements are repeated, and so are steps without a result
/// because of this machine or a file. A step skipped for lack of a GPU is a different step on a machine that has one.
pub fn lasting(step: &StepRecord) -> bool {
    match step.outcome {
        Outcome::Inconclusive => step.stage != Stage::Speed && step.obstacle == Some(Obstacle::Unsupported),
        // The user may install a profiler or a package at any time.
        Outcome::Skipped => step.obstacle != Some(Obstacle::Absent),
        Outcome::Pass | Outcome::Fail => true,
    }
}

/// Whether a run reached a binding verdict: any except INCONCLUSIVE.
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

/// The secret of a run in which a chosen candidate failed with its current content.
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
