//! Screens variants of candidates: takes many of them through some of the stages, as a search requests.
//!
//! A screening is a run like any other, and every step is identified by its content, but it does not evaluate
//! completely: a variant that fails a stage is rejected, and one that fails none has no verdict, because it did not
//! go through the other stages.

use std::collections::BTreeMap;

use super::keys::{self, Keys};
use super::store::Store;
use super::{Conduct, Options, Session, SessionError, Told, compile_all, draw, known};
use crate::reference::python::Workers;
use crate::stage::Bench;
use warpproof_evidence::hash::Hash;
use warpproof_evidence::ledger::{Index, Record};
use warpproof_evidence::record::{Body, Outcome, Stage, StepRecord};
use warpproof_task::Candidate;

/// The request for a screening.
#[derive(Clone, Copy, Debug)]
pub struct Screening<'s> {
    /// The variants, each a candidate of the session's task.
    pub candidates: &'s [String],
    /// The stages; `None`: all, which gives a verdict.
    pub stages: Option<&'s [Stage]>,
    /// Programs that were evaluated before, each with the name of a variant that compiles to it: they are not
    /// evaluated again.
    pub programs: &'s BTreeMap<Hash, String>,
    /// Whether the run's record names the program of each variant, for readers without a compiler.
    pub names_programs: bool,
}

/// One variant.
#[derive(Clone, Debug)]
pub struct Screened {
    /// Its name.
    pub candidate: String,
    /// Its program, including how it is launched; `None` if it does not compile.
    pub program: Option<Hash>,
    /// The variant with the same program that was evaluated instead.
    pub same_as: Option<String>,
    /// Its steps, in the order of the stages, up to the first that does not pass.
    pub steps: Vec<StepRecord>,
    /// Whether all of them were in the ledger.
    pub known: bool,
    /// Why other machines could not take it through the stages.
    pub given_up: Option<String>,
}

/// A variant in the records of another machine: one run of it, through some or all stages.
#[derive(Clone, Debug)]
pub struct Screen {
    /// Its program; equal programs have equal hashes. `None` if it does not compile.
    pub program: Option<Hash>,
    /// Its steps, in the order of the stages.
    pub steps: Vec<StepRecord>,
}

impl Screen {
    /// Reads a variant from the records of one run.
    pub fn of(records: &[Record], candidate: &str) -> Self {
        let (mut program, mut steps) = (None, Vec::new());
        for record in records {
            match &record.body {
                Body::Run(run) => program = run.programs.get(candidate).copied(),
                Body::Step(step) if step.candidate == candidate && step.part.is_none() => {
                    steps.push(step.clone());
                }
                _ => {}
            }
        }
        steps.sort_by_key(|step| step.stage);
        // A candidate that does not compile has a reason instead of a program.
        let broken = |step: &StepRecord| step.stage == Stage::Build && !green(step);
        Self { program: program.filter(|_| !steps.iter().any(broken)), steps }
    }
}

/// Whether the next stage may run.
fn green(step: &StepRecord) -> bool {
    matches!(step.outcome, Outcome::Pass | Outcome::Skipped)
}

impl Session<'_> {
    /// Whether the results in the ledger are for this text of the task.
    pub fn check_task(&self) -> Result<(), SessionError> {
        let index = Index::new(self.ledger)?;
        let earlier = known::runs(self.ledger, &index)?;
        self.check_version(&index, &earlier, &keys::files(self)?)
    }

    /// Takes variants through stages. Known results are read, and nothing is written for them. A variant that a stop
    /// interrupted has fewer steps.
    pub fn screen(
        &self,
        screening: &Screening<'_>,
        options: &Options,
        tell: Told<'_>,
    ) -> Result<Vec<Screened>, SessionError> {
        let index = Index::new(self.ledger)?;
        let files = keys::files(self)?;
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let jobs = if options.jobs == 0 { cores } else { options.jobs };
        let python = Workers::new((cores / jobs).max(1), options.confined);
        let bench = Bench {
            task: self.task,
            directory: self.directory,
            toolchain: self.toolchain,
            secret: draw()?,
            chosen: options.chosen,
            allowance: options.allowance,
            threads: (cores / jobs).max(1),
            clocks: self.clocks,
            stop: self.stop,
            python: &python,
        };
        let chosen = self.chosen(screening.candidates)?;
        let compiled = compile_all(&bench, &self.with_baselines(&chosen), jobs);
        let keys = Keys::new(self, &compiled, &files, options.chosen);
        let mut programs = screening.programs.clone();
        let mut screened: Vec<Screened> = Vec::new();
        let mut open: Vec<&Candidate> = Vec::new();
        for name in screening.candidates {
            let Some(at) = compiled.iter().position(|one| one.candidate.name.value == *name) else {
                continue;
            };
            let program = compiled[at].built.as_ref().ok().map(|built| built.identity);
            let before = program.and_then(|program| programs.get(&program).cloned());
            let same_as = before.filter(|other| other != name);
            if let Some(program) = program {
                programs.entry(program).or_insert_with(|| name.clone());
            }
            let steps = if same_as.is_some() {
                Some(Vec::new())
            } else {
                self.written(&index, &keys, at, screening.stages)
            };
            if steps.is_none() {
                open.push(compiled[at].candidate);
            }
            let known = steps.is_some();
            let steps = steps.unwrap_or_default();
            let candidate = name.clone();
            screened.push(Screened { candidate, program, same_as, steps, known, given_up: None });
        }
        if open.is_empty() {
            return Ok(screened);
        }
        let store = Store::new(self.ledger, &index, false);
        // Only variants that go through all stages get a verdict.
        let judges: &[&Candidate] = if screening.stages.is_none() { &open } else { &[] };
        let named = if screening.names_programs { &open } else { judges };
        let run = self.begin(&store, judges, (bench.secret, super::programs(&compiled, named)), options)?;
        let report = self.conduct(
            &Conduct {
                bench: &bench,
                compiled: &compiled,
                keys: &keys,
                store: &store,
                judged: &open,
                stages: screening.stages,
                run: &run,
                resumes: false,
                jobs,
            },
            tell,
        )?;
        for one in report.judged {
            if let Some(screened) = screened.iter_mut().find(|other| other.candidate == one.candidate) {
                screened.steps = one.steps;
            }
        }
        Ok(screened)
    }

    /// The steps of a candidate, if the ledger has all requested ones, or those up to one that fails.
    fn written(
        &self,
        index: &Index,
        keys: &Keys,
        at: usize,
        stages: Option<&[Stage]>,
    ) -> Option<Vec<StepRecord>> {
        let store = Store::new(self.ledger, index, false);
        let mut steps = Vec::new();
        for gate in &self.task.gates {
            let stage = gate.stage.value;
            if stages.is_some_and(|stages| !stages.contains(&stage)) {
                continue;
            }
            let (_, step) = store.step(&keys.of(at, stage), "")?;
            let goes_on = green(&step);
            steps.push(step);
            if !goes_on {
                break;
            }
        }
        Some(steps)
    }
}
