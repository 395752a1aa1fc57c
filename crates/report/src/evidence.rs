//! Records in the order of the ledger, with the queries that views use.

use super::error::ViewError;
use super::number::{Number, Source};
use std::borrow::Cow;
use std::collections::BTreeMap;
use warpproof_evidence::hash::Hash;
use warpproof_evidence::ledger::Record;
use warpproof_evidence::record::{
    Body, Figure, FigureKind, NoteRecord, Outcome, RunRecord, Stage, StepRecord, Verdict, VerdictRecord,
};
use warpproof_evidence::verdict::unsupported;
use warpproof_evidence::vocabulary as name;

/// Maximum length of a chain of steps taken from other steps.
const MAX_TAKEN: usize = 64;

/// Records, oldest first. Views hold all given records in memory: a caller with a large ledger passes only the
/// records of the relevant runs and candidates, with all notes.
#[derive(Clone, Debug, Default)]
pub struct Evidence {
    entries: Vec<(Hash, Body)>,
    places: BTreeMap<Hash, usize>,
    runs: BTreeMap<String, Vec<usize>>,
    candidates: BTreeMap<String, Vec<usize>>,
    notes: BTreeMap<String, Vec<usize>>,
}

/// One candidate in one run: its verdict, if any, and its steps in the order of the stages.
#[derive(Clone, Debug)]
pub struct Judged<'a> {
    /// The run.
    pub run: &'a RunRecord,
    /// The record of the run.
    pub run_hash: Hash,
    /// The candidate's name.
    pub candidate: &'a str,
    /// The verdict.
    pub verdict: Option<(Hash, &'a VerdictRecord)>,
    /// The steps.
    pub steps: Vec<(Hash, &'a StepRecord)>,
}

/// A figure with its place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found<'a> {
    pub(super) record: Hash,
    pub(super) place: usize,
    pub(super) figure: &'a Figure,
}

impl Found<'_> {
    pub(super) fn source(&self) -> Source {
        Source::Figure { record: self.record, figure: self.place }
    }
}

impl<'a> FromIterator<&'a Record> for Evidence {
    fn from_iter<T: IntoIterator<Item = &'a Record>>(records: T) -> Self {
        let mut evidence = Self::default();
        for record in records {
            evidence.add(record.hash, record.body.clone());
        }
        evidence
    }
}

impl Evidence {
    /// Adds the next record, unless it is already present.
    pub fn add(&mut self, hash: Hash, body: Body) {
        if self.places.contains_key(&hash) {
            return;
        }
        let place = self.entries.len();
        self.places.insert(hash, place);
        if let Some(run) = body.run() {
            self.runs.entry(run.to_owned()).or_default().push(place);
        }
        match &body {
            Body::Step(_) | Body::Verdict(_) => {
                let name = body.candidate().unwrap_or_default().to_owned();
                self.candidates.entry(name).or_default().push(place);
            }
            Body::Note(note) => {
                if let Some(candidate) = &note.candidate {
                    self.notes.entry(candidate.clone()).or_default().push(place);
                }
            }
            Body::Run(_) | Body::Raw(_) => {}
        }
        self.entries.push((hash, body));
    }

    /// The content of a record.
    pub fn body(&self, hash: &Hash) -> Result<&Body, ViewError> {
        let entry = self.places.get(hash).and_then(|place| self.entries.get(*place));
        entry.map(|(_, body)| body).ok_or(ViewError::NoRecord(*hash))
    }

    /// Its position in the order; later records have higher ones.
    pub(super) fn place(&self, hash: &Hash) -> Option<usize> {
        self.places.get(hash).copied()
    }

    /// All records, oldest first.
    pub(super) fn entries(&self) -> impl Iterator<Item = (Hash, &Body)> {
        self.entries.iter().map(|(hash, body)| (*hash, body))
    }

    /// All records, newest first.
    pub(super) fn newest_first(&self) -> impl Iterator<Item = (Hash, &Body)> {
        self.entries.iter().rev().map(|(hash, body)| (*hash, body))
    }

    fn at<'a>(&'a self, places: &'a [usize]) -> impl Iterator<Item = (Hash, &'a Body)> {
        places.iter().filter_map(|place| self.entries.get(*place)).map(|(hash, body)| (*hash, body))
    }

    /// The run of this name.
    pub fn run(&self, run: &str) -> Result<(Hash, &RunRecord), ViewError> {
        self.at(self.runs.get(run).map_or(&[], Vec::as_slice))
            .find_map(|(hash, body)| match body {
                Body::Run(run) => Some((hash, run)),
                _ => None,
            })
            .ok_or_else(|| ViewError::NoRun(run.to_owned()))
    }

    /// The newest run.
    pub fn newest_run(&self) -> Option<&RunRecord> {
        self.entries.iter().rev().find_map(|(_, body)| match body {
            Body::Run(run) => Some(run),
            _ => None,
        })
    }

    /// The candidates of a run, in the order in which they first appear.
    pub fn candidates_of(&self, run: &str) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        let mut seen = std::collections::BTreeSet::new();
        for (_, body) in self.at(self.runs.get(run).map_or(&[], Vec::as_slice)) {
            if let (Body::Step(_) | Body::Verdict(_), Some(name)) = (body, body.candidate())
                && seen.insert(name)
            {
                names.push(name);
            }
        }
        names
    }

    /// All candidates that were evaluated or begun, by name.
    pub(super) fn candidates(&self) -> impl Iterator<Item = &str> {
        self.candidates.keys().map(String::as_str)
    }

    /// One candidate in one run. The newest verdict counts; its steps are those it rests on. Without a verdict, the
    /// steps are all of the candidate's in this run.
    pub fn judged<'a>(&'a self, run: &str, candidate: &'a str) -> Result<Judged<'a>, ViewError> {
        let (run_hash, run_record) = self.run(run)?;
        // Use the shorter list: a candidate may have many runs, a run many candidates.
        let of_run = self.runs.get(run).map_or(&[][..], Vec::as_slice);
        let of_candidate = self.candidates.get(candidate).map_or(&[][..], Vec::as_slice);
        let places = if of_run.len() < of_candidate.len() { of_run } else { of_candidate };
        let mine = || {
            self.at(places).filter(|(_, body)| body.run() == Some(run) && body.candidate() == Some(candidate))
        };
        let verdict = mine()
            .filter_map(|(hash, body)| match body {
                Body::Verdict(verdict) => Some((hash, verdict)),
                _ => None,
            })
            .last();
        let mut steps = Vec::new();
        if let Some((record, verdict)) = verdict {
            for hash in &verdict.steps {
                match self.body(hash)? {
                    Body::Step(step) => steps.push((*hash, step)),
                    _ => return Err(ViewError::NotThere(*hash, "step that a verdict rests on".into())),
                }
            }
            let with_figures = |(hash, step): &(Hash, &'a StepRecord)| {
                let (at, holder) = self.holder(*hash, step)?;
                if at == *hash {
                    return Ok(Cow::Borrowed(*step));
                }
                Ok(Cow::Owned(StepRecord { figures: holder.figures.clone(), ..(*step).clone() }))
            };
            let rests = steps.iter().map(with_figures).collect::<Result<Vec<_>, ViewError>>()?;
            let rests: Vec<&StepRecord> = rests.iter().map(AsRef::as_ref).collect();
            if let Some(why) = unsupported(None, verdict, &rests) {
                return Err(ViewError::Unsupported(record, why));
            }
        } else {
            steps.extend(mine().filter_map(|(hash, body)| match body {
                Body::Step(step) if step.part.is_none() => Some((hash, step)),
                _ => None,
            }));
        }
        if verdict.is_none() && steps.is_empty() {
            return Err(ViewError::NoCandidate(candidate.to_owned(), Some(run.to_owned())));
        }
        steps.sort_by_key(|(_, step)| step.stage);
        Ok(Judged { run: run_record, run_hash, candidate, verdict, steps })
    }

    /// A candidate in the newest run that has a verdict about it.
    pub fn newest(&self, candidate: &str) -> Result<Judged<'_>, ViewError> {
        let nothing = || ViewError::NoCandidate(candidate.to_owned(), None);
        let (name, places) = self.candidates.get_key_value(candidate).ok_or_else(nothing)?;
        let mut verdicts = places.iter().rev().filter_map(|place| match self.entries.get(*place) {
            Some((_, Body::Verdict(verdict))) => Some(verdict),
            _ => None,
        });
        let verdict = verdicts.next().ok_or_else(nothing)?;
        self.judged(&verdict.run, name)
    }

    /// The record that holds a step's figures: the step itself, or the one it was taken from.
    pub(super) fn holder<'a>(
        &'a self,
        hash: Hash,
        step: &'a StepRecord,
    ) -> Result<(Hash, &'a StepRecord), ViewError> {
        let (mut at, mut held) = (hash, step);
        for _ in 0..MAX_TAKEN {
            let Some(from) = held.from else { return Ok((at, held)) };
            match self.body(&from)? {
                Body::Step(step) if held.figures.is_empty() => (at, held) = (from, step),
                Body::Step(_) => return Ok((at, held)),
                _ => return Err(ViewError::NotThere(from, "step that another was taken from".into())),
            }
        }
        Err(ViewError::Circle(hash))
    }

    /// The notes on one topic about a candidate, oldest first.
    pub fn notes<'a>(
        &'a self,
        candidate: &str,
        topic: &'a str,
    ) -> impl Iterator<Item = (Hash, &'a NoteRecord)> + 'a {
        let places = self.notes.get(candidate).map_or(&[][..], Vec::as_slice);
        self.at(places).filter_map(move |(hash, body)| match body {
            Body::Note(note) if note.topic == topic => Some((hash, note)),
            _ => None,
        })
    }

    /// All candidates with notes, by name.
    pub(super) fn noted(&self) -> impl Iterator<Item = &str> {
        self.notes.keys().map(String::as_str)
    }

    /// The notes on one topic about any candidate or none, oldest first.
    pub(super) fn notes_on<'a>(
        &'a self,
        topic: &'a str,
    ) -> impl Iterator<Item = (Hash, &'a NoteRecord)> + 'a {
        self.entries().filter_map(move |(hash, body)| match body {
            Body::Note(note) if note.topic == topic => Some((hash, note)),
            _ => None,
        })
    }

    /// The parent of a candidate, from its newest note.
    pub(super) fn parent(&self, candidate: &str) -> Option<(Hash, &str)> {
        let (hash, note) = self.notes(candidate, name::PARENT).last()?;
        Some((hash, note.text.trim()))
    }

    /// Whether `ancestor` is an ancestor of `candidate`, over any number of parents.
    pub(super) fn descends(&self, candidate: &str, ancestor: &str) -> bool {
        let mut seen = std::collections::BTreeSet::new();
        let mut at = candidate;
        while let Some((_, parent)) = self.parent(at) {
            if parent == ancestor {
                return true;
            }
            if !seen.insert(parent) {
                return false;
            }
            at = parent;
        }
        false
    }

    /// The number of a source.
    pub fn number(&self, source: Source) -> Result<Number, ViewError> {
        source.number(self)
    }

    /// Whether a record contains exactly this text in one of its fields.
    pub(super) fn says(&self, hash: &Hash, text: &str) -> Result<bool, ViewError> {
        let is = |field: &str| field == text;
        let some = |field: Option<&str>| field == Some(text);
        Ok(match self.body(hash)? {
            Body::Run(run) => {
                is(&run.run)
                    || is(&run.task)
                    || is(&run.warpproof)
                    || some(run.started.as_deref())
                    || some(run.chosen.as_deref())
                    || run.arguments.iter().any(|argument| is(argument))
                    || run.arguments.join(" ") == text
                    || is(&run.task_hash.short())
                    || run.host.iter().any(|(key, value)| is(key) || is(value))
            }
            Body::Step(step) => {
                is(&step.candidate)
                    || is(&step.reason)
                    || is(&step.run)
                    || step.from.is_some_and(|from| is(&from.short()))
                    || step
                        .tested
                        .as_ref()
                        .is_some_and(|tested| tested.rows().iter().any(|(_, value)| is(value)))
                    || step.figures.iter().any(|figure| {
                        is(&figure.name)
                            || some(figure.at.as_deref())
                            || figure.threshold.as_ref().is_some_and(|threshold| is(&threshold.source))
                    })
                    || step.objects.iter().any(|(key, object)| is(key) || object.to_string() == text)
            }
            Body::Verdict(verdict) => is(&verdict.candidate) || is(&verdict.reason) || is(&verdict.run),
            Body::Note(note) => {
                is(&note.text)
                    || is(note.text.trim())
                    || is(&note.topic)
                    || some(note.candidate.as_deref())
                    || some(note.run.as_deref())
                    || note.fields.values().any(|value| is(value))
                    || note.figures.iter().any(|figure| is(&figure.name) || some(figure.at.as_deref()))
            }
            Body::Raw(_) => false,
        })
    }
}

impl<'a> Judged<'a> {
    /// The outcome of a stage: the worst of its steps, with its record. A stage in which some steps were skipped
    /// counts as skipped.
    pub fn stage(&self, stage: Stage) -> Option<(Hash, &'a StepRecord)> {
        let bad = |outcome| match outcome {
            Outcome::Pass => 0,
            Outcome::Skipped => 1,
            Outcome::Inconclusive => 2,
            Outcome::Fail => 3,
        };
        // The first of the worst: the first failure is the cause.
        let steps = self.steps.iter().filter(|(_, step)| step.stage == stage);
        steps.rev().max_by_key(|(_, step)| bad(step.outcome)).copied()
    }

    /// All figures of a stage, with their places.
    pub(super) fn figures(&self, evidence: &'a Evidence, stage: Stage) -> Result<Vec<Found<'a>>, ViewError> {
        let mut all = Vec::new();
        for (hash, step) in self.steps.iter().filter(|(_, step)| step.stage == stage) {
            let (record, step) = evidence.holder(*hash, step)?;
            all.extend(step.figures.iter().enumerate().map(|(place, figure)| Found {
                record,
                place,
                figure,
            }));
        }
        Ok(all)
    }

    pub(super) fn figure(
        &self,
        evidence: &'a Evidence,
        stage: Stage,
        name: &str,
    ) -> Result<Option<Found<'a>>, ViewError> {
        Ok(self.figures(evidence, stage)?.into_iter().find(|found| found.figure.name == name))
    }

    /// Its latency: measured if available, else predicted. A rejected candidate has none: it is not known to be
    /// correct.
    pub(super) fn latency(&self, evidence: &'a Evidence) -> Result<Option<Found<'a>>, ViewError> {
        if self.verdict.is_some_and(|(_, record)| record.verdict == Verdict::Reject) {
            return Ok(None);
        }
        for (stage, kind) in [(Stage::Speed, FigureKind::Measured), (Stage::Model, FigureKind::Predicted)] {
            let found = self.figure(evidence, stage, name::LATENCY)?;
            if let Some(found) = found.filter(|found| found.figure.kind == kind) {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// The time below which the device cannot do the work.
    pub(super) fn floor(&self, evidence: &'a Evidence) -> Result<Option<Found<'a>>, ViewError> {
        self.figure(evidence, Stage::Model, name::FLOOR)
    }

    /// The device a figure of this kind is about.
    pub(super) fn device(&self, kind: FigureKind) -> Option<&'a str> {
        let key = match kind {
            FigureKind::Measured => name::DEVICE,
            FigureKind::Predicted => name::MODEL_DEVICE,
            FigureKind::Counted | FigureKind::Reported => return None,
        };
        self.run.host.get(key).map(String::as_str)
    }
}
