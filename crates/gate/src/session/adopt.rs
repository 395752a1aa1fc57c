//! Combines verdicts from other machines into one run of this ledger.
//!
//! A user who has candidates evaluated by other machines receives a segment for each. Together they form one run, as
//! if they had been evaluated here: its steps name the records from which they were taken.

use std::collections::BTreeMap;
use std::time::SystemTime;

use super::store::Store;
use super::{Judged, RunSummary, SessionError, draw};
use warpproof_evidence::hash::Hash;
use warpproof_evidence::ledger::{Index, Ledger, LedgerError, Record, Tasks, utc};
use warpproof_evidence::record::{Body, Invalid, RunRecord, StepRecord, VerdictRecord};
use warpproof_evidence::verdict::Decision;

/// A verdict that the ledger holds.
#[derive(Clone, Debug)]
pub struct Elsewhere {
    /// The candidate, under its local name.
    pub candidate: String,
    /// The record of its verdict.
    pub verdict: Hash,
    /// Whether it was known before the request.
    pub known: bool,
}

/// One verdict with all the records it refers to.
struct Whole {
    run: RunRecord,
    verdict: VerdictRecord,
    steps: Vec<(Hash, StepRecord)>,
}

fn odd(what: &str) -> SessionError {
    SessionError::Ledger(LedgerError::Invalid(Invalid(what.to_owned().into())))
}

fn whole(ledger: &Ledger, index: &Index, hash: &Hash) -> Result<Whole, SessionError> {
    let Body::Verdict(verdict) = index.get(ledger, hash)?.body else {
        return Err(odd("expected a verdict, found another record"));
    };
    let mut found = None;
    for hash in index.run(&verdict.run) {
        if let Body::Run(run) = index.get(ledger, hash)?.body {
            found = Some(run);
            break;
        }
    }
    let run = found.ok_or_else(|| odd("the run of a verdict is missing"))?;
    let mut steps = Vec::new();
    for hash in &verdict.steps {
        let Body::Step(step) = index.get(ledger, hash)?.body else {
            return Err(odd("a verdict refers to a record that is not a step"));
        };
        steps.push((*hash, step));
    }
    Ok(Whole { run, verdict, steps })
}

fn decision(verdict: &VerdictRecord) -> Decision {
    Decision { verdict: verdict.verdict, grade: verdict.grade, reason: verdict.reason.clone() }
}

/// The newest run of this ledger, if it already holds exactly these verdicts. Reports show the newest run.
fn held(
    ledger: &Ledger,
    index: &Index,
    wanted: &[(Elsewhere, Whole)],
) -> Result<Option<Vec<Judged>>, SessionError> {
    let mut judged: Vec<Judged> = Vec::new();
    for (one, own) in wanted {
        let Some(newest) = index.verdicts(&one.candidate).last() else { return Ok(None) };
        let other = whole(ledger, index, newest)?;
        let origin = |(hash, step): &(Hash, StepRecord)| step.from.unwrap_or(*hash);
        let same = other.steps.iter().map(origin).eq(own.steps.iter().map(origin));
        let together = judged.iter().all(|before| before.run == other.run.run);
        if !same || !together || other.run.candidates.len() != wanted.len() {
            return Ok(None);
        }
        judged.push(Judged {
            candidate: one.candidate.clone(),
            run: other.run.run,
            decision: Some(decision(&other.verdict)),
            steps: other.steps.into_iter().map(|(_, step)| step).collect(),
        });
    }
    let newest = super::known::runs(ledger, index)?.pop().map(|(_, run)| run.run);
    let is_newest = judged.first().is_some_and(|one| Some(&one.run) == newest.as_ref());
    Ok(is_newest.then_some(judged))
}

/// Makes one run from verdicts whose segments the ledger holds. If they already are the newest run, nothing is
/// written.
pub fn adopt(
    ledger: &Ledger,
    elsewhere: &[Elsewhere],
    arguments: Vec<String>,
) -> Result<RunSummary, SessionError> {
    let index = Index::new(ledger)?;
    let mut wanted = Vec::new();
    let records: Vec<Record> =
        elsewhere.iter().map(|one| index.get(ledger, &one.verdict)).collect::<Result<_, _>>()?;
    Tasks::of(ledger)?.check(ledger, &records)?;
    for one in elsewhere {
        wanted.push((one.clone(), whole(ledger, &index, &one.verdict)?));
    }
    let steps = |known: bool| {
        wanted.iter().filter(|(one, _)| one.known == known).map(|(_, own)| own.steps.len()).sum::<usize>()
    };
    let (done, known) = (steps(false), steps(true));
    let chosen = wanted.first().and_then(|(_, own)| own.run.chosen.as_deref());
    let chosen = chosen.and_then(|text| u64::from_str_radix(text, 16).ok());
    let report = |run: String, judged: Vec<Judged>, unchanged: bool| RunSummary {
        run,
        judged,
        done,
        known,
        stopped: false,
        resumed: false,
        unchanged,
        chosen,
    };
    if let Some(judged) = held(ledger, &index, &wanted)?
        && let Some(first) = judged.first()
    {
        return Ok(report(first.run.clone(), judged, done == 0));
    }
    let Some((_, first)) = wanted.first() else { return Err(SessionError::NoCandidates) };
    let started = utc(SystemTime::now());
    let digits: String = format!("{:016x}", draw()?).chars().take(8).collect();
    let run = format!("{}-{digits}", started.replace([':', '-'], "").trim_end_matches('Z'));
    let mut programs = BTreeMap::new();
    for (one, own) in &wanted {
        let program = own.run.programs.get(&own.verdict.candidate);
        programs.extend(program.map(|hash| (one.candidate.clone(), *hash)));
    }
    let record = RunRecord {
        run: run.clone(),
        started: Some(started),
        arguments,
        candidates: wanted.iter().map(|(one, _)| one.candidate.clone()).collect(),
        programs,
        ..first.run.clone()
    };
    let store = Store::new(ledger, &index, false);
    store.append(&Body::Run(record))?;
    let mut judged = Vec::new();
    for (one, own) in &wanted {
        let mut taken = Vec::new();
        for (hash, step) in &own.steps {
            let Some(step) = store.taken(hash, step, &run, &one.candidate) else { break };
            taken.push(step);
        }
        store.failure()?;
        let (hashes, steps): (Vec<Hash>, Vec<StepRecord>) = taken.into_iter().unzip();
        let verdict = VerdictRecord {
            run: run.clone(),
            candidate: one.candidate.clone(),
            steps: hashes,
            ..own.verdict.clone()
        };
        store.append(&Body::Verdict(verdict))?;
        // Steps done for this run count as done; the record names where.
        let done = own.steps.iter().map(|(_, step)| step.clone());
        let steps = if one.known { steps } else { done.collect() };
        let (candidate, run) = (one.candidate.clone(), run.clone());
        judged.push(Judged { candidate, run, decision: Some(decision(&own.verdict)), steps });
    }
    Ok(report(run, judged, false))
}
