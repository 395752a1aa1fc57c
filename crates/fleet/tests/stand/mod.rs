//! A fleet for a test: its own PostgreSQL, a server, tokens, and results that need no kernel.
#![allow(dead_code, reason = "each test uses only a part of it")]

use std::collections::BTreeMap;
use std::net::SocketAddr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tempfile::TempDir;
use warpproof_evidence::hash::Hash;
use warpproof_evidence::ledger::Ledger;
use warpproof_evidence::record::{
    Body, Figure, FigureKind, Finite, Obstacle, Outcome as Ended, RunRecord, Stage, StepRecord, Verdict,
    VerdictRecord,
};
use warpproof_fleet::client::{Fleet, FleetError};
use warpproof_fleet::postgres::Postgres;
use warpproof_fleet::server::{Clock, Config, ManualClock, Server, make_token, migrate};
use warpproof_fleet::wire::{
    Bundle, Claim, Leased, NewToken, Outcome, Role, RunView, SOFTWARE_GPU, Submission,
};

pub(crate) struct Stand {
    pub(crate) postgres: Postgres,
    pub(crate) config: Config,
    pub(crate) server: Option<Server>,
    pub(crate) dir: TempDir,
    pub(crate) token: String,
}

impl Stand {
    pub(crate) fn new() -> Self {
        Self::with(|_| ())
    }

    /// With a changed configuration.
    pub(crate) fn with(change: impl FnOnce(&mut Config)) -> Self {
        let postgres = Postgres::start(&[]).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let url = postgres.create("fleet").unwrap();
        let mut config = Config::new(url, dir.path().join("objects").display().to_string());
        change(&mut config);
        migrate(&config).unwrap();
        let all =
            NewToken { name: "all".to_owned(), roles: Role::ALL.to_vec(), quota: 2_000_000, days: None };
        let token = make_token(&config, &all).unwrap();
        let server = Some(Server::start(&config).unwrap());
        Self { postgres, config, server, dir, token }
    }

    /// With a clock that only the test advances.
    pub(crate) fn with_clock(change: impl FnOnce(&mut Config)) -> (Self, ManualClock) {
        let clock = ManualClock::default();
        let stand = Self::with(|config| {
            config.clock = Clock::Manual(clock.clone());
            change(config);
        });
        (stand, clock)
    }

    /// Replaces the server with a new one on the same port.
    pub(crate) fn restart(&mut self) {
        let old = self.server.take().unwrap();
        self.config.listen = old.address();
        old.stop().unwrap();
        self.server = Some(Server::start(&self.config).unwrap());
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.server.as_ref().unwrap().address()
    }

    pub(crate) fn base(&self) -> String {
        format!("http://{}", self.address())
    }

    pub(crate) fn fleet(&self) -> Fleet {
        self.fleet_as(&self.token)
    }

    pub(crate) fn fleet_as(&self, token: &str) -> Fleet {
        Fleet::new(&self.base(), token, None).unwrap()
    }

    pub(crate) fn token_for(&self, roles: &[Role], quota: i32) -> String {
        let wanted = NewToken { name: "some".to_owned(), roles: roles.to_vec(), quota, days: None };
        self.fleet().make_token(&wanted).unwrap().token
    }

    pub(crate) fn sql(&self, statement: &str) -> String {
        self.postgres.psql("fleet", statement).unwrap()
    }
}

/// A name for a run, from a number.
pub(crate) fn run_name(number: u64) -> String {
    format!("{number:032x}")
}

/// A submission of candidates `c0`, `c1`, … of a task whose text is given.
pub(crate) fn submission(number: u64, task: &str, candidates: usize) -> Submission {
    let files = BTreeMap::from([("task.toml".to_owned(), Hash::of(task.as_bytes()).to_string())]);
    Submission {
        run: run_name(number),
        bundle: Bundle { task: "task.toml".to_owned(), files, secret: None, stages: None },
        candidates: (0..candidates).map(|at| format!("c{at}")).collect(),
        capability: SOFTWARE_GPU.to_owned(),
        fresh: false,
        priority: 0,
    }
}

/// Uploads the task and submits.
pub(crate) fn submit(fleet: &Fleet, number: u64, task: &str, candidates: usize) -> RunView {
    fleet.put_object(&Hash::of(task.as_bytes()), task.as_bytes()).unwrap();
    fleet.submit(&submission(number, task, candidates)).unwrap()
}

pub(crate) fn claim(worker: &str, limit: u32, lease_seconds: u32) -> Claim {
    Claim {
        worker: worker.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        capabilities: vec![SOFTWARE_GPU.to_owned()],
        limit,
        lease_seconds,
    }
}

/// The result that a worker would send for a job: a run, a step, a verdict and an object.
pub(crate) fn outcome(job: &Leased, verdict: Verdict) -> Outcome {
    let dir = tempfile::tempdir().unwrap();
    let ledger = Ledger::create(dir.path()).unwrap();
    let (object, bytes) = write_result(&ledger, job, verdict);
    let objects = BTreeMap::from([(object.to_string(), STANDARD.encode(&bytes))]);
    Outcome { objects, ..segment(&ledger, job) }
}

/// The only segment of a ledger, as the result of a job.
pub(crate) fn segment(ledger: &Ledger, job: &Leased) -> Outcome {
    let segment = ledger.segment_names().unwrap().remove(0);
    let text = String::from_utf8(ledger.segment_text(&segment).unwrap()).unwrap();
    Outcome { token: job.token, segment, text, objects: BTreeMap::new() }
}

/// The record of a run that evaluates candidates for a job.
pub(crate) fn run_record(job: &Leased, candidates: &[&str]) -> RunRecord {
    RunRecord {
        run: format!("run-{}-{}", job.job, job.token),
        task: "task".to_owned(),
        task_version: 1,
        task_hash: job.bundle.files[&job.bundle.task].parse().unwrap(),
        warpproof: env!("CARGO_PKG_VERSION").to_owned(),
        started: None,
        arguments: Vec::new(),
        candidates: candidates.iter().map(|name| (*name).to_owned()).collect(),
        programs: BTreeMap::new(),
        secret: Some("1".to_owned()),
        chosen: job.bundle.secret.clone(),
        host: BTreeMap::new(),
        objects: BTreeMap::new(),
    }
}

/// The record of a step of a run.
pub(crate) fn step_record(run: &RunRecord, candidate: &str, stage: Stage, outcome: Ended) -> StepRecord {
    StepRecord {
        run: run.run.clone(),
        key: Hash::of_pieces([candidate.as_bytes(), stage.as_str().as_bytes()]),
        candidate: candidate.to_owned(),
        stage,
        part: None,
        outcome,
        reason: "said so".to_owned(),
        obstacle: (outcome == Ended::Inconclusive).then_some(Obstacle::Limit),
        figures: Vec::new(),
        objects: BTreeMap::new(),
        counterexample: None,
        tested: None,
        seconds: Finite::ZERO,
        from: None,
    }
}

/// The record of a run's verdict, based on steps.
pub(crate) fn verdict_record(
    run: &RunRecord,
    candidate: &str,
    verdict: Verdict,
    steps: Vec<Hash>,
) -> VerdictRecord {
    let reason = "said so".to_owned();
    VerdictRecord {
        run: run.run.clone(),
        candidate: candidate.to_owned(),
        verdict,
        grade: None,
        reason,
        steps,
    }
}

/// Writes the records of a job's evaluation; returns the object they refer to, with its bytes.
pub(crate) fn write_result(ledger: &Ledger, job: &Leased, verdict: Verdict) -> (Hash, String) {
    let bytes = format!("ptx of {}", job.candidate);
    let object = ledger.put_object(bytes.as_bytes()).unwrap();
    let ended = match verdict {
        Verdict::Reject | Verdict::Defer => Ended::Fail,
        Verdict::Inconclusive => Ended::Inconclusive,
        _ => Ended::Pass,
    };
    let run = run_record(job, &[&job.candidate]);
    let objects = BTreeMap::from([("ptx".to_owned(), object)]);
    // DEFER is based on a measured speedup that is too small.
    let deferred = verdict == Verdict::Defer;
    let stage = if deferred { Stage::Speed } else { Stage::Correct };
    let reduction = Figure::new("latency reduction", 0.0, "", FigureKind::Measured).unwrap();
    let figures = if deferred { vec![reduction] } else { Vec::new() };
    let step = StepRecord { objects, figures, ..step_record(&run, &job.candidate, stage, ended) };
    let mut writer = ledger.writer();
    writer.append(&Body::Run(run.clone())).unwrap();
    let step = writer.append(&Body::Step(step)).unwrap();
    let record = verdict_record(&run, &job.candidate, verdict, vec![step]);
    writer.append(&Body::Verdict(record)).unwrap();
    (object, bytes)
}

pub(crate) fn status(error: &FleetError) -> u16 {
    match error {
        FleetError::Refused(status, _) => *status,
        other => panic!("{other}"),
    }
}

/// Fetches all segments with their objects into a local ledger.
pub(crate) fn export(fleet: &Fleet, into: &Ledger) -> usize {
    warpproof_fleet::exchange::export(fleet, into).unwrap()
}
