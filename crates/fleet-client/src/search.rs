//! A tuning search whose variants a fleet evaluates.
//!
//! Nothing is compiled locally. The records show which variants compile to the same program: each one is evaluated, and the first
//! represents all of them.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use warpproof_evidence::record::Stage;
use warpproof_gate::session::{Elsewhere, Judged, Options, Screen, Screened, Screening, Session, adopt};
use warpproof_gate::tune::{Event, Judges};
use warpproof_task::Task;

use crate::bundle::{self, Packed};
use crate::client::{Fleet, FleetError};
use crate::exchange;
use crate::submit::{Asked, SubmitError, ask};
use crate::wire::{Bundle, JobView, RunView, SOFTWARE_GPU, State};

/// The maximum number of variants in one submission: each poll reads the state of all of them.
const AT_A_TIME: usize = 4_096;

/// A fleet that evaluates the variants of a session's task.
pub struct FleetJudges<'s> {
    session: &'s Session<'s>,
    fleet: &'s Fleet,
    packed: Packed,
    capability: &'s str,
}

/// A variant with its result.
struct Back {
    screen: Screen,
    known: bool,
}

/// The results of one submission.
#[derive(Default)]
struct Returned {
    back: BTreeMap<String, Back>,
    given_up: BTreeMap<String, String>,
}

impl<'s> FleetJudges<'s> {
    /// Creates it for a session, the name of its task file and the required capability. The task's files are read once: their
    /// content must not change during a search.
    pub fn new(
        session: &'s Session<'s>,
        fleet: &'s Fleet,
        file: &str,
        capability: &'s str,
    ) -> Result<Self, SubmitError> {
        let packed = bundle::pack(session.task, session.text, file, session.directory);
        Ok(Self { session, fleet, packed: packed.map_err(SubmitError::Bundle)?, capability })
    }

    fn asked(&self, candidates: &[String], stages: Option<&[Stage]>) -> Asked<'s> {
        Asked {
            bundle: Bundle { stages: stages.map(<[Stage]>::to_vec), ..self.packed.bundle.clone() },
            candidates: candidates.to_vec(),
            capability: self.capability,
            fresh: false,
        }
    }

    /// Fetches the new results of a run and reports their steps.
    fn fetch(
        &self,
        run: &RunView,
        returned: &mut Returned,
        tell: &(dyn Fn(Event<'_>) + Sync),
    ) -> Result<(), SubmitError> {
        for JobView { candidate, segment, known, state, reason, .. } in &run.jobs {
            if *state == State::Failed {
                let reason = reason.as_deref().unwrap_or("no reason reported");
                returned.given_up.insert(candidate.clone(), format!("failed on the fleet: {reason}"));
            }
            let Some(segment) = segment.as_ref().filter(|_| !returned.back.contains_key(candidate)) else {
                continue;
            };
            let (records, _) = exchange::fetch(self.fleet, self.session.ledger, segment)?;
            let screen = Screen::of(&records, candidate);
            // Cached results are not reported, as with the local ledger.
            if !known {
                screen.steps.iter().for_each(|step| tell(Event::Ended(step)));
            }
            returned.back.insert(candidate.clone(), Back { screen, known: *known });
        }
        Ok(())
    }
}

impl Judges for FleetJudges<'_> {
    type Error = SubmitError;

    fn task(&self) -> &Task {
        self.session.task
    }

    fn times(&self) -> bool {
        self.capability != SOFTWARE_GPU
    }

    fn is_stopped(&self) -> bool {
        self.session.stop.load(Ordering::Relaxed)
    }

    fn check_task(&self) -> Result<(), SubmitError> {
        self.session.check_task().map_err(SubmitError::Session)
    }

    fn screen(
        &self,
        task: &Task,
        screening: &Screening<'_>,
        _options: &Options,
        tell: &(dyn Fn(Event<'_>) + Sync),
    ) -> Result<Vec<Screened>, SubmitError> {
        // Request only stages that the task has.
        let stages = screening.stages.map(|stages| {
            let has = |stage: &Stage| task.gates.iter().any(|gate| gate.stage.value == *stage);
            stages.iter().copied().filter(has).collect::<Vec<Stage>>()
        });
        let mut returned = Returned::default();
        for some in screening.candidates.chunks(AT_A_TIME) {
            if self.is_stopped() {
                break;
            }
            ask(
                self.fleet,
                &self.packed,
                self.asked(some, stages.as_deref()),
                self.session.stop,
                &mut |run| self.fetch(run, &mut returned, tell),
            )?;
        }
        let mut programs = screening.programs.clone();
        let mut screened = Vec::new();
        for name in screening.candidates {
            let candidate = name.clone();
            let given_up = returned.given_up.remove(name);
            let Some(Back { screen: Screen { program, steps }, known }) = returned.back.remove(name) else {
                let (program, same_as, steps) = (None, None, Vec::new());
                screened.push(Screened { candidate, program, same_as, steps, known: false, given_up });
                continue;
            };
            let first =
                program.map(|program| programs.entry(program).or_insert_with(|| name.clone()).clone());
            let same_as = first.filter(|first| first != name);
            // A variant with the same program as another is not reported again, as if it had not been evaluated.
            let (steps, known) = if same_as.is_some() { (Vec::new(), true) } else { (steps, known) };
            screened.push(Screened { candidate, program, same_as, steps, known, given_up: None });
        }
        Ok(screened)
    }

    fn decide(
        &self,
        _task: &Task,
        candidate: &str,
        options: &Options,
    ) -> Result<Option<Judged>, SubmitError> {
        let asked = self.asked(&[candidate.to_owned()], None);
        let mut returned = Returned::default();
        let run = ask(self.fleet, &self.packed, asked, self.session.stop, &mut |run| {
            self.fetch(run, &mut returned, &|_| {})
        })?;
        let Some(JobView { record: Some(record), known, .. }) = run.jobs.into_iter().next() else {
            return Ok(None);
        };
        let verdict =
            record.parse().map_err(|_| FleetError::Odd(format!("expected a record, found `{record}`")))?;
        let elsewhere = Elsewhere { candidate: candidate.to_owned(), verdict, known };
        let report = adopt(self.session.ledger, &[elsewhere], options.arguments.clone());
        let report = report.map_err(SubmitError::Session)?;
        Ok(report.judged.into_iter().find(|one| one.decision.is_some()))
    }
}
