//! A worker: dials out, claims, judges each candidate in a process of its own, and sends what came of it.
//!
//! What was judged is on disk before it is sent, and is sent again until the server has said yes or no: neither a server
//! that goes away nor a worker that is killed loses it. Whether it still counts, the fence decides.

mod child;
mod health;
mod leftovers;
mod spool;

use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::client::{Fleet, FleetError};
use crate::evaluate::UNCONFINED;
use crate::sandbox::{self, Limits};
use crate::wire::{Claim, Failure, Heartbeat, Lease, Leased, MAX_CLAIM, SOFTWARE_GPU};
use child::Trouble;
use health::Health;
use spool::Spool;

/// The shortest and the longest pause of a worker that found nothing to do.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));

/// How a worker works.
#[derive(Clone, Debug)]
pub struct Config {
    /// Its name, for people.
    pub name: String,
    /// Evaluations at a time.
    pub slots: usize,
    /// How long it may be silent before others get its jobs, in seconds.
    pub lease_seconds: u32,
    /// The device it times on, as submissions name it; nothing without a GPU.
    pub device: Option<String>,
    /// Its own directory: evaluations under way, and results that were not sent yet.
    pub directory: PathBuf,
    /// The program that evaluates: this one, with the arguments that come before the directory.
    pub program: (PathBuf, Vec<String>),
    /// How much an evaluation may use.
    pub limits: Limits,
    /// Judge even where the system cannot keep files and calls from an evaluation.
    pub unconfined: bool,
    /// End when nothing waits.
    pub until_idle: bool,
}

/// What a worker did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Results the server took.
    pub accepted: u64,
    /// Results that came too late.
    pub lost: u64,
    /// Jobs that could not be done.
    pub failed: u64,
    /// Jobs that were given back.
    pub released: u64,
}

#[derive(Debug, Default)]
struct Counters {
    accepted: AtomicU64,
    lost: AtomicU64,
    failed: AtomicU64,
    released: AtomicU64,
}

/// A job in hand.
#[derive(Clone, Debug)]
struct Held {
    token: i64,
    /// Set when the lease is over: whatever it comes to, nobody will take it.
    over: Arc<AtomicBool>,
}

struct Queue {
    waiting: VecDeque<Leased>,
    closed: bool,
}

/// What the threads of a worker share.
struct Worker<'w> {
    config: &'w Config,
    fleet: &'w Fleet,
    spool: Spool,
    held: Mutex<BTreeMap<i64, Held>>,
    queue: Mutex<Queue>,
    changed: Condvar,
    /// One candidate on the GPU at a time.
    device: Mutex<()>,
    counters: Counters,
    health: Mutex<Health>,
    finished: AtomicBool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is behind these locks is whole at every moment.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Pauses, unless a stop comes.
fn rest(pause: Duration, stop: &AtomicBool) {
    let end = Instant::now() + pause;
    while Instant::now() < end && !stop.load(Ordering::Relaxed) {
        thread::sleep(Duration::from_millis(5).min(pause));
    }
}

/// Works until `stop` is set, and then until what is under way has ended. `say` hears what a person may want to know.
pub fn work(
    config: &Config,
    fleet: &Fleet,
    stop: &AtomicBool,
    say: &(dyn Fn(&str) + Sync),
) -> Result<Tally, FleetError> {
    let local = |error: std::io::Error| FleetError::Local(format!("{}: {error}", config.directory.display()));
    fs::create_dir_all(&config.directory).map_err(local)?;
    let lock_file = File::create(config.directory.join("lock")).map_err(local)?;
    if lock_file.try_lock().is_err() {
        let place = config.directory.display();
        return Err(FleetError::Local(format!(
            "another worker has {place}; give this one a directory of its own"
        )));
    }
    // Found out here, and not with every job.
    let held = sandbox::probe().map_err(FleetError::Local)?;
    if !held.is_whole() && !config.unconfined {
        return Err(FleetError::Local(UNCONFINED.to_owned()));
    }
    // What a worker before this one was doing when it was killed.
    let jobs = config.directory.join("jobs");
    if let Err(error) = leftovers::remove(&jobs, &config.directory.join("left")) {
        say(&error);
    }
    fs::create_dir_all(&jobs).map_err(local)?;
    let worker = Worker {
        config,
        fleet,
        spool: Spool::open(&config.directory)?,
        held: Mutex::new(BTreeMap::new()),
        queue: Mutex::new(Queue { waiting: VecDeque::new(), closed: false }),
        changed: Condvar::new(),
        device: Mutex::new(()),
        counters: Counters::default(),
        health: Mutex::new(Health::default()),
        finished: AtomicBool::new(false),
    };
    for (job, outcome) in worker.spool.left()? {
        say(&format!("sending the result of job {job} again"));
        worker.send(job, &outcome, say);
    }
    let ended = thread::scope(|scope| {
        scope.spawn(|| worker.beat(say));
        let slots: Vec<_> = (0..config.slots.max(1)).map(|_| scope.spawn(|| worker.slot(say))).collect();
        let ended = worker.claim(stop, say);
        worker.close();
        for slot in slots {
            // A panic in a slot is a bug, and is told as one.
            if slot.join().is_err() {
                say("a slot panicked");
            }
        }
        worker.finished.store(true, Ordering::Relaxed);
        ended
    });
    ended?;
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    Ok(Tally {
        accepted: count(&worker.counters.accepted),
        lost: count(&worker.counters.lost),
        failed: count(&worker.counters.failed),
        released: count(&worker.counters.released),
    })
}

impl Worker<'_> {
    /// Claims as many as the slots will soon need, until a stop.
    fn claim(&self, stop: &AtomicBool, say: &(dyn Fn(&str) + Sync)) -> Result<(), FleetError> {
        let mut pause = PAUSES.0;
        let mut silent = false;
        while !stop.load(Ordering::Relaxed) {
            if self.config.until_idle
                && let Some(reason) = lock(&self.health).lasting_trouble()
            {
                return Err(FleetError::Local(reason.to_owned()));
            }
            let unwell = lock(&self.health).pause();
            if let Some(pause) = unwell {
                rest(pause, stop);
                continue;
            }
            let room = (2 * self.config.slots.max(1)).saturating_sub(lock(&self.held).len());
            // Half of it at a time: one claim for several jobs costs as much as one for one.
            if room < self.config.slots.max(1) {
                rest(Duration::from_millis(5), stop);
                continue;
            }
            let device = self.config.device.iter().cloned();
            let claim = Claim {
                worker: self.config.name.clone(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
                capabilities: device.chain([SOFTWARE_GPU.to_owned()]).collect(),
                limit: u32::try_from(room).unwrap_or(MAX_CLAIM).min(MAX_CLAIM),
                lease_seconds: self.config.lease_seconds,
            };
            // Tried again here, so that a stop is heard meanwhile.
            let claimed = match self.fleet.clone().with_patience(Duration::ZERO).claim(&claim) {
                Ok(claimed) => claimed.jobs,
                Err(error) if error.passes() => {
                    if !std::mem::replace(&mut silent, true) {
                        say(&format!("{error}; trying again"));
                    }
                    rest(pause, stop);
                    pause = (pause * 2).min(PAUSES.1);
                    continue;
                }
                Err(error) => return Err(error),
            };
            if std::mem::take(&mut silent) {
                say("the fleet answers again");
            }
            if claimed.is_empty() {
                if self.config.until_idle && lock(&self.held).is_empty() {
                    return Ok(());
                }
                rest(pause, stop);
                pause = (pause * 2).min(PAUSES.1);
                continue;
            }
            pause = PAUSES.0;
            for job in claimed {
                let held = Held { token: job.token, over: Arc::new(AtomicBool::new(false)) };
                lock(&self.held).insert(job.job, held);
                lock(&self.queue).waiting.push_back(job);
                self.changed.notify_one();
            }
        }
        Ok(())
    }

    /// Takes nothing more, and gives back what nobody has begun.
    fn close(&self) {
        lock(&self.queue).closed = true;
        self.changed.notify_all();
        self.give_back();
    }

    /// Gives back what nobody has begun.
    fn give_back(&self) {
        let left: Vec<Leased> = lock(&self.queue).waiting.drain(..).collect();
        for job in left {
            self.release(&job);
            lock(&self.held).remove(&job.job);
        }
    }

    fn release(&self, job: &Leased) {
        // One that cannot be given back is claimed by others when its lease ends.
        if self.fleet.clone().with_patience(Duration::from_secs(2)).release(job.job, job.token).is_ok() {
            self.counters.released.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Says that it lives, often enough that one lost sign does not matter.
    fn beat(&self, say: &(dyn Fn(&str) + Sync)) {
        let every = Duration::from_millis(u64::from(self.config.lease_seconds) * 1000 / 4);
        let mut last = Instant::now();
        while !self.finished.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(20));
            if last.elapsed() < every {
                continue;
            }
            last = Instant::now();
            let held: Vec<(Lease, Arc<AtomicBool>)> = lock(&self.held)
                .iter()
                .map(|(job, held)| (Lease { job: *job, token: held.token }, Arc::clone(&held.over)))
                .collect();
            if held.is_empty() {
                continue;
            }
            let beat = Heartbeat {
                worker: self.config.name.clone(),
                leases: held.iter().map(|(lease, _)| *lease).collect(),
                lease_seconds: self.config.lease_seconds,
            };
            // A sign that did not arrive is followed by the next.
            let Ok(beaten) = self.fleet.heartbeat(&beat) else { continue };
            for (lease, over) in held {
                // One that has ended meanwhile is lost to nobody.
                if beaten.lost.contains(&lease.job) && lock(&self.held).contains_key(&lease.job) {
                    over.store(true, Ordering::Relaxed);
                    say(&format!("the lease of job {} is over", lease.job));
                }
            }
        }
    }

    fn next(&self) -> Option<Leased> {
        let mut queue = lock(&self.queue);
        loop {
            if let Some(job) = queue.waiting.pop_front() {
                return Some(job);
            }
            if queue.closed {
                return None;
            }
            queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn slot(&self, say: &(dyn Fn(&str) + Sync)) {
        while let Some(job) = self.next() {
            let over = lock(&self.held).get(&job.job).map(|held| Arc::clone(&held.over)).unwrap_or_default();
            if over.load(Ordering::Relaxed) {
                self.counters.lost.fetch_add(1, Ordering::Relaxed);
            } else {
                self.one(&job, &over, say);
            }
            lock(&self.held).remove(&job.job);
        }
    }

    /// One job, from its files to the server's answer.
    fn one(&self, job: &Leased, over: &AtomicBool, say: &(dyn Fn(&str) + Sync)) {
        let timed = job.capability != SOFTWARE_GPU;
        // Baseline and candidate are timed in one evaluation, alone on the device.
        let _alone = timed.then(|| lock(&self.device));
        let directory = self.config.directory.join("jobs").join(format!("{}-{}", job.job, job.token));
        let judged = child::judge(self, job, &directory, timed, over);
        if let Err(error) = leftovers::remove(&directory, &self.config.directory.join("left")) {
            say(&error);
        }
        let judged = judged.and_then(|outcome| {
            self.spool.keep(job.job, &outcome)?;
            Ok(outcome)
        });
        match judged {
            Ok(outcome) => {
                lock(&self.health).result();
                self.send(job.job, &outcome, say);
            }
            Err(Trouble::Over) => {
                self.counters.lost.fetch_add(1, Ordering::Relaxed);
            }
            Err(Trouble::Here(reason)) => {
                let of_job = lock(&self.health).trouble(job.job, &reason);
                if of_job {
                    self.fail(job.job, job.token, &reason, say);
                    return;
                }
                say(&format!("job {} is given back, and this worker rests: {reason}", job.job));
                self.release(job);
                self.give_back();
            }
            Err(Trouble::Failed(reason)) => {
                lock(&self.health).failure();
                self.fail(job.job, job.token, &reason, say);
            }
        }
    }

    /// Says that a job could not be done.
    fn fail(&self, job: i64, token: i64, reason: &str, say: &(dyn Fn(&str) + Sync)) {
        say(&format!("job {job}: {reason}"));
        self.counters.failed.fetch_add(1, Ordering::Relaxed);
        let failure = Failure { token, reason: child::told(reason) };
        // One that is not heard is claimed again when the lease ends.
        if let Err(error) = self.fleet.fail(job, &failure) {
            say(&format!("job {job}: {error}"));
        }
    }

    /// Sends a result until the server has said yes or no.
    fn send(&self, job: i64, outcome: &crate::wire::Outcome, say: &(dyn Fn(&str) + Sync)) {
        match self.fleet.finish(job, outcome) {
            Ok(_) => {
                self.counters.accepted.fetch_add(1, Ordering::Relaxed);
                self.spool.forget(job, outcome.token);
            }
            // It stays on disk, and is sent when the next worker starts here.
            Err(error) if error.passes() => say(&format!("job {job}: {error}; its result is kept")),
            // It will never be taken, and another try would end as this one: that counts as a failure.
            Err(error @ FleetError::Refused(400 | 413 | 422, _)) => {
                self.fail(job, outcome.token, &format!("its result is not taken: {error}"), say);
                self.spool.forget(job, outcome.token);
            }
            Err(error) => {
                self.counters.lost.fetch_add(1, Ordering::Relaxed);
                say(&format!("job {job}: {error}"));
                self.spool.forget(job, outcome.token);
            }
        }
    }

    /// The directories an evaluation may read: wherever the compiler is.
    fn toolchain() -> (Option<PathBuf>, Vec<PathBuf>) {
        let environment = warpproof_toolchain::Environment::read();
        let sets = environment.cache.map(|cache| cache.join("toolchain"));
        let sets = sets.and_then(|sets| fs::canonicalize(sets).ok());
        let mut read: Vec<PathBuf> = sets.iter().cloned().collect();
        let named = [environment.toolchain, environment.cuda_home, environment.cuda_path];
        read.extend(named.into_iter().flatten());
        read.extend(environment.library_path);
        read.extend(std::env::var_os("WARPPROOF_PYTHON").map(PathBuf::from).and_then(|python| {
            let python = fs::canonicalize(python).ok()?;
            // `…/bin/python3` needs what is beside `bin`.
            python.parent().and_then(Path::parent).map(Path::to_owned)
        }));
        (sets, read)
    }
}
