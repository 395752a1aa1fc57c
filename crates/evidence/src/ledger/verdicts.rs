//! Checks that verdicts follow from their steps by the gate's own rules. Any program can write and hash a line; a
//! verdict that does not follow from its steps is not shown as one.

use super::error::Problem;
use super::line::Fault;
use super::{Ledger, LedgerError, Record};
use crate::hash::Hash;
use crate::record::{Body, StepRecord};
use crate::verdict::unsupported;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use warpproof_task::Task;

/// Maximum length of a chain of steps taken from other steps, as in views.
const MAX_TAKEN: usize = 64;

/// The text of each run's task, by the run's name.
#[derive(Debug, Default)]
pub struct Tasks(BTreeMap<String, Hash>);

impl Tasks {
    /// Adds a record; only runs matter.
    pub fn see(&mut self, record: &Record) {
        if let Body::Run(run) = &record.body
            && let Some(hash) = run.objects.get("task")
        {
            // The first run with a name counts, as in views.
            self.0.entry(run.run.clone()).or_insert(*hash);
        }
    }

    /// The tasks of all runs of a ledger.
    pub fn of(ledger: &Ledger) -> Result<Self, LedgerError> {
        let mut tasks = Self::default();
        for record in ledger.records()? {
            tasks.see(&record?);
        }
        Ok(tasks)
    }

    /// The problems of the verdicts among records. A verdict whose steps cannot be read is skipped: that is a
    /// separate problem.
    pub fn problems<'r>(
        &self,
        ledger: &Ledger,
        records: impl IntoIterator<Item = &'r Record>,
    ) -> Result<Vec<Problem>, LedgerError> {
        let records: Vec<&Record> = records.into_iter().collect();
        let verdicts = || {
            records.iter().filter_map(|record| match &record.body {
                Body::Verdict(verdict) => Some((record, verdict)),
                _ => None,
            })
        };
        let mut steps: BTreeMap<Hash, StepRecord> = BTreeMap::new();
        let mut wanted: BTreeSet<Hash> =
            verdicts().flat_map(|(_, verdict)| &verdict.steps).copied().collect();
        for _ in 0..MAX_TAKEN {
            if wanted.is_empty() {
                break;
            }
            let mut origins = BTreeSet::new();
            for (hash, place) in ledger.places(&wanted)? {
                if let Ok(Record { body: Body::Step(step), .. }) = ledger.read(&place) {
                    // A step without its own figures has those of the step it was taken from.
                    origins.extend(
                        step.from.filter(|from| step.figures.is_empty() && !steps.contains_key(from)),
                    );
                    steps.insert(hash, step);
                }
            }
            wanted = origins;
        }
        let mut read: BTreeMap<Hash, Option<Task>> = BTreeMap::new();
        let mut problems = Vec::new();
        for (record, verdict) in verdicts() {
            let rests: Option<Vec<Cow<'_, StepRecord>>> =
                verdict.steps.iter().map(|hash| with_figures(&steps, hash)).collect();
            let Some(rests) = rests else { continue };
            let rests: Vec<&StepRecord> = rests.iter().map(AsRef::as_ref).collect();
            let task = self.0.get(&verdict.run).and_then(|hash| {
                let task = read.entry(*hash).or_insert_with(|| task(ledger, hash));
                task.as_ref()
            });
            if let Some(why) = unsupported(task, verdict, &rests) {
                let fault = Fault::Unsupported(record.hash, why);
                problems.push(Problem { file: record.file(), line: Some(record.place.line), fault });
            }
        }
        Ok(problems)
    }

    /// Like [`problems`](Self::problems); the first problem is an error.
    pub fn check<'r>(
        &self,
        ledger: &Ledger,
        records: impl IntoIterator<Item = &'r Record>,
    ) -> Result<(), LedgerError> {
        let first = self.problems(ledger, records)?.into_iter().next();
        first.map_or(Ok(()), |problem| Err(LedgerError::Damaged(problem)))
    }
}

/// A step with its figures, from its origin if necessary.
fn with_figures<'s>(steps: &'s BTreeMap<Hash, StepRecord>, hash: &Hash) -> Option<Cow<'s, StepRecord>> {
    let own = steps.get(hash)?;
    if own.from.is_none() || !own.figures.is_empty() {
        return Some(Cow::Borrowed(own));
    }
    let mut holder = own;
    for _ in 0..MAX_TAKEN {
        let Some(from) = holder.from.filter(|_| holder.figures.is_empty()) else { break };
        holder = steps.get(&from)?;
    }
    Some(Cow::Owned(StepRecord { figures: holder.figures.clone(), ..own.clone() }))
}

/// A stored task; `None` if this Warpproof cannot parse it.
fn task(ledger: &Ledger, hash: &Hash) -> Option<Task> {
    let bytes = ledger.object(hash).ok()?;
    Task::parse(std::str::from_utf8(&bytes).ok()?).ok()
}
