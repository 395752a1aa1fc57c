//! Submits candidates to a fleet and fetches the records.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use warpproof_evidence::hash::Hash;
use warpproof_evidence::ledger::Ledger;
use warpproof_gate::session::{Elsewhere, Judged, RunSummary, SessionError, adopt};
use warpproof_task::Task;

use crate::bundle::{self, Packed};
use crate::client::{Fleet, FleetError};
use crate::exchange;
use crate::random;
use crate::wire::{JobView, RunView, State, Submission};

/// The timeout of one poll of a run, in seconds.
const WAIT: u64 = 3;

/// The candidates to evaluate.
#[derive(Clone, Copy, Debug)]
pub struct Wish<'w> {
    /// The task.
    pub task: &'w Task,
    /// Its text.
    pub text: &'w str,
    /// The name of its file.
    pub file: &'w str,
    /// The directory of its files.
    pub directory: &'w Path,
    /// The candidates; empty: all.
    pub candidates: &'w [String],
    /// A secret chosen by the user: adds cases to the drawn ones.
    pub secret: Option<u64>,
    /// Evaluate again, ignoring cached results.
    pub fresh: bool,
    /// The required capability.
    pub capability: &'w str,
    /// The command line, for the record.
    pub arguments: &'w [String],
}

/// Why nothing was evaluated.
#[derive(Debug)]
pub enum SubmitError {
    /// The task cannot be bundled.
    Bundle(String),
    /// The fleet failed.
    Fleet(FleetError),
    /// The local ledger could not be written.
    Session(SessionError),
}

impl std::fmt::Display for SubmitError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Bundle(why) => f.write_str(why),
            Self::Fleet(error) => error.fmt(f),
            Self::Session(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for SubmitError {}

impl From<FleetError> for SubmitError {
    fn from(error: FleetError) -> Self {
        Self::Fleet(error)
    }
}

/// The result of a submission.
#[derive(Debug)]
pub struct Returned {
    /// The outcome, as of a local run.
    pub report: RunSummary,
    /// Candidates that failed on the fleet, each with the reason.
    pub given_up: Vec<(String, String)>,
}

/// Submits, waits, and writes the records to the ledger. `tell` is called with the run after every poll.
pub fn judge(
    fleet: &Fleet,
    ledger: &Ledger,
    wish: &Wish<'_>,
    stop: &AtomicBool,
    tell: &dyn Fn(&RunView),
) -> Result<Returned, SubmitError> {
    let packed =
        bundle::pack(wish.task, wish.text, wish.file, wish.directory).map_err(SubmitError::Bundle)?;
    let all = || wish.task.candidates.iter().map(|one| one.name.value.clone()).collect();
    for name in wish.candidates {
        if wish.task.candidate(name).is_none() {
            return Err(SubmitError::Session(SessionError::NoCandidate(name.clone(), all())));
        }
    }
    let candidates: Vec<String> = if wish.candidates.is_empty() { all() } else { wish.candidates.to_vec() };
    if candidates.is_empty() {
        return Err(SubmitError::Session(SessionError::NoCandidates));
    }
    let secret = wish.secret.map(|secret| format!("{secret:x}"));
    let bundle = crate::wire::Bundle { secret, ..packed.bundle.clone() };
    let asked = Asked { bundle, candidates, capability: wish.capability, fresh: wish.fresh };
    let run = ask(fleet, &packed, asked, stop, &mut |run| {
        tell(run);
        Ok(())
    })?;
    take(fleet, ledger, &run, wish.arguments, stop.load(Ordering::Relaxed))
}

/// An accepted submission.
pub(crate) struct Asked<'w> {
    pub(crate) bundle: crate::wire::Bundle,
    pub(crate) candidates: Vec<String>,
    pub(crate) capability: &'w str,
    pub(crate) fresh: bool,
}

/// Submits, and polls the run until all jobs are settled, or until a stop, which cancels the jobs that were not started.
pub(crate) fn ask(
    fleet: &Fleet,
    packed: &Packed,
    asked: Asked<'_>,
    stop: &AtomicBool,
    look: &mut dyn FnMut(&RunView) -> Result<(), SubmitError>,
) -> Result<RunView, SubmitError> {
    let submission = Submission {
        run: random::hexadecimal::<16>().map_err(SubmitError::Bundle)?,
        bundle: asked.bundle,
        candidates: asked.candidates,
        capability: asked.capability.to_owned(),
        fresh: asked.fresh,
        priority: 0,
    };
    let mut run = send(fleet, &submission, &packed.objects)?;
    look(&run)?;
    while run.open > 0 {
        if stop.load(Ordering::Relaxed) {
            fleet.cancel(&submission.run)?;
            run = fleet.run(&submission.run, 0)?;
            look(&run)?;
            break;
        }
        run = fleet.run(&submission.run, WAIT)?;
        look(&run)?;
    }
    Ok(run)
}

/// Submits, after uploading the objects that the fleet lacks.
pub fn send(
    fleet: &Fleet,
    submission: &Submission,
    objects: &BTreeMap<Hash, Vec<u8>>,
) -> Result<RunView, FleetError> {
    let missing = match fleet.submit(submission) {
        Err(FleetError::Refused(_, refusal)) if refusal.error == "missing_objects" => refusal.missing,
        answered => return answered,
    };
    let mut lacking = Vec::new();
    for name in missing {
        let object = name.parse::<Hash>().ok().and_then(|hash| Some((hash, objects.get(&hash)?)));
        let (hash, bytes) = object
            .ok_or_else(|| FleetError::Odd(format!("the fleet requests an unknown object `{name}`")))?;
        lacking.push((hash, Cow::Borrowed(&bytes[..])));
    }
    fleet.put_objects(lacking)?;
    fleet.submit(submission)
}

fn take(
    fleet: &Fleet,
    ledger: &Ledger,
    run: &RunView,
    arguments: &[String],
    stopped: bool,
) -> Result<Returned, SubmitError> {
    let mut elsewhere = Vec::new();
    let mut open: Vec<&JobView> = Vec::new();
    for job in &run.jobs {
        let (Some(segment), Some(record)) = (&job.segment, &job.record) else {
            open.push(job);
            continue;
        };
        exchange::fetch(fleet, ledger, segment)?;
        let verdict =
            record.parse().map_err(|_| FleetError::Odd(format!("expected a record, found `{record}`")))?;
        elsewhere.push(Elsewhere { candidate: job.candidate.clone(), verdict, known: job.known });
    }
    let mut report = if elsewhere.is_empty() {
        RunSummary {
            run: run.run.clone(),
            judged: Vec::new(),
            done: 0,
            known: 0,
            stopped: false,
            resumed: false,
            unchanged: false,
            chosen: None,
        }
    } else {
        adopt(ledger, &elsewhere, arguments.to_vec()).map_err(SubmitError::Session)?
    };
    report.stopped = stopped && !open.is_empty();
    for job in &open {
        let (candidate, run) = (job.candidate.clone(), report.run.clone());
        report.judged.push(Judged { candidate, run, decision: None, steps: Vec::new() });
    }
    let place = |one: &Judged| run.jobs.iter().position(|job| job.candidate == one.candidate);
    report.judged.sort_by_key(place);
    let given_up = open.iter().filter(|job| job.state == State::Failed).map(|job| {
        let why = job.reason.clone().unwrap_or_else(|| "no reason reported".to_owned());
        (job.candidate.clone(), why)
    });
    Ok(Returned { given_up: given_up.collect(), report })
}
