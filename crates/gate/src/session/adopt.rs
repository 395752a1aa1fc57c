//! Verdicts that were reached elsewhere, as a run of this ledger.
//!
//! Whoever has candidates judged by other machines gets a segment for each. Together they are one run, as they would be
//! had they been judged here: its steps say from which records they were taken.

use std::collections::BTreeMap;
use std::time::SystemTime;

use super::store::Store;
use super::{Judged, Report, SessionError, draw};
use crate::hash::Hash;
use crate::ledger::{Index, Ledger, LedgerError, Record, Tasks, utc};
use crate::record::{Body, Invalid, RunRecord, StepRecord, VerdictRecord};
use crate::verdict::Decision;

/// A verdict that the ledger holds.
#[derive(Clone, Debug)]
pub struct Elsewhere {
    /// The candidate, as it is called here.
    pub candidate: String,
    /// The record of its verdict.
    pub verdict: Hash,
    /// Whether it was known before anybody asked.
    pub known: bool,
}

/// One verdict with all it rests on.
struct Whole {
    run: RunRecord,
    verdict: VerdictRecord,
    steps: Vec<(Hash, StepRecord)>,
}

fn odd(what: &str) -> SessionError {
    SessionError::Ledger(LedgerError::Invalid(Invalid(what.to_owned().into())))
}

fn whole(ledger: &Ledger, index: &Index, hash: &Hash) -> Result<Whole, SessionError> {
    let Body::Verdict(verdict) = index.get(ledger, hash)?.body else { return Err(odd("it is no verdict")) };
    let mut found = None;
    for hash in index.run(&verdict.run) {
        if let Body::Run(run) = index.get(ledger, hash)?.body {
            found = Some(run);
            break;
        }
    }
    let run = found.ok_or_else(|| odd("a verdict without its run"))?;
    let mut steps = Vec::new();
    for hash in &verdict.steps {
        let Body::Step(step) = index.get(ledger, hash)?.body else {
            return Err(odd("a verdict that rests on something else than steps"));
        };
        steps.push((*hash, step));
    }
    Ok(Whole { run, verdict, steps })
}

fn decision(verdict: &VerdictRecord) -> Decision {
    Decision { verdict: verdict.verdict, grade: verdict.grade, reason: verdict.reason.clone() }
}

/// The newest run of this ledger, where it holds these very verdicts already. Reports are of the newest.
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

/// Makes one run of verdicts whose segments the ledger holds. Where they are the newest run already, nothing is written.
pub fn adopt(
    ledger: &Ledger,
    elsewhere: &[Elsewhere],
    arguments: Vec<String>,
) -> Result<Report, SessionError> {
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
    let report = |run: String, judged: Vec<Judged>, unchanged: bool| Report {
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
    let digits: String = format!("{:016x}", draw()).chars().take(8).collect();
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
        // What was done for this run is told as done; the record says where.
        let done = own.steps.iter().map(|(_, step)| step.clone());
        let steps = if one.known { steps } else { done.collect() };
        let (candidate, run) = (one.candidate.clone(), run.clone());
        judged.push(Judged { candidate, run, decision: Some(decision(&own.verdict)), steps });
    }
    Ok(report(run, judged, false))
}
