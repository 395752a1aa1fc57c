//! Reads steps from and writes them to the ledger, for all threads of a run.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::known::lasting;
use super::{SessionError, seconds};
use crate::stage::Ending;
use warpproof_evidence::hash::Hash;
use warpproof_evidence::ledger::{Index, Ledger, LedgerError, Writer};
use warpproof_evidence::record::{Body, NoteRecord, Outcome, Stage, StepRecord};

/// The ledger as a run sees it.
pub(super) struct Store<'l> {
    ledger: &'l Ledger,
    index: &'l Index,
    fresh: bool,
    writer: Mutex<Writer>,
    /// The first write error.
    failure: Mutex<Option<LedgerError>>,
}

impl<'l> Store<'l> {
    pub(super) fn new(ledger: &'l Ledger, index: &'l Index, fresh: bool) -> Self {
        Self { ledger, index, fresh, writer: Mutex::new(ledger.writer()), failure: Mutex::new(None) }
    }

    fn writer(&self) -> MutexGuard<'_, Writer> {
        // A writer that panicked left only complete lines.
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lost(&self, error: LedgerError) {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }

    /// Returns the first write error, if any.
    pub(super) fn failure(&self) -> Result<(), SessionError> {
        let lost = self.failure.lock().unwrap_or_else(PoisonError::into_inner).take();
        lost.map_or(Ok(()), |error| Err(error.into()))
    }

    /// The written value; on an error, `None`, and the error is kept.
    fn kept<T>(&self, written: Result<T, LedgerError>) -> Option<T> {
        written.map_err(|error| self.lost(error)).ok()
    }

    pub(super) fn append(&self, body: &Body) -> Result<Hash, LedgerError> {
        self.writer().append(body)
    }

    /// Like [`append`](Self::append), but a write error is reported at the end of the run.
    pub(super) fn try_append(&self, body: &Body) -> Option<Hash> {
        self.kept(self.append(body))
    }

    /// Appends a note, unless the candidate already has the same one.
    pub(super) fn note(&self, note: NoteRecord) -> Result<(), LedgerError> {
        if self.index.has_note(&note) { Ok(()) } else { self.append(&Body::Note(note)).map(|_| ()) }
    }

    /// The step of a key, if it need not be repeated. A step of the same run is always reused.
    pub(super) fn step(&self, key: &Hash, run: &str) -> Option<(Hash, StepRecord)> {
        let hash = self.index.step(key)?;
        let Body::Step(step) = self.index.get(self.ledger, &hash).ok()?.body else { return None };
        let usable = step.part.is_none() && lasting(&step) && (!self.fresh || step.run == run);
        usable.then_some((hash, step))
    }

    /// The ending of a part that was run before.
    pub(super) fn part(&self, key: &Hash) -> Option<Ending> {
        let hash = self.index.step(key).filter(|_| !self.fresh)?;
        let Body::Step(step) = self.index.get(self.ledger, &hash).ok()?.body else { return None };
        if !lasting(&step) {
            return None;
        }
        let mut objects = BTreeMap::new();
        for (name, hash) in &step.objects {
            objects.insert(name.clone(), self.ledger.object(hash).ok()?);
        }
        let StepRecord { outcome, reason, obstacle, figures, counterexample, tested, .. } = step;
        Some(Ending { outcome, reason, obstacle, figures, objects, counterexample, tested })
    }

    /// A known step, as a step of this run: itself, or a record that names its origin.
    pub(super) fn taken(
        &self,
        hash: &Hash,
        step: &StepRecord,
        run: &str,
        candidate: &str,
    ) -> Option<(Hash, StepRecord)> {
        if step.run == run && step.candidate == candidate {
            return Some((*hash, step.clone()));
        }
        let mut copy = step.clone();
        run.clone_into(&mut copy.run);
        candidate.clone_into(&mut copy.candidate);
        // The origin of a copy is the original step.
        copy.from = Some(step.from.unwrap_or(*hash));
        copy.seconds = seconds(Duration::ZERO);
        let written = self.try_append(&Body::Step(copy.clone()))?;
        Some((written, copy))
    }

    /// Writes a step, after its objects.
    pub(super) fn write(
        &self,
        (run, candidate, stage, part): (&str, &str, Stage, Option<&str>),
        key: Hash,
        ending: Ending,
        took: Duration,
    ) -> Option<(Hash, StepRecord)> {
        let Ending { outcome, mut reason, obstacle, figures, objects, counterexample, tested } = ending;
        if reason.is_empty() && outcome != Outcome::Pass {
            reason = format!("the stage {stage} gave no reason");
        }
        let mut kept = BTreeMap::new();
        for (name, bytes) in objects {
            kept.insert(name, self.kept(self.ledger.put_object(&bytes))?);
        }
        let step = StepRecord {
            run: run.to_owned(),
            key,
            candidate: candidate.to_owned(),
            stage,
            part: part.map(ToOwned::to_owned),
            outcome,
            reason,
            obstacle,
            figures,
            objects: kept,
            counterexample,
            tested,
            seconds: seconds(took),
            from: None,
        };
        let hash = self.try_append(&Body::Step(step.clone()))?;
        Some((hash, step))
    }
}
