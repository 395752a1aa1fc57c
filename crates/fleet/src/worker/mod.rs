//! A worker: connects to the server, claims jobs, evaluates each candidate in a separate process, and sends the results.
//!
//! A result is stored on disk before it is sent, and is sent again until the server accepts or rejects it: neither an
//! unreachable server nor a killed worker loses it. The fencing token decides whether it is still valid.

mod child;
pub mod device;
mod health;
mod leftovers;
mod queue;
mod spool;
mod watch;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::client::{Fleet, FleetError};
use crate::evaluate::UNCONFINED;
use crate::wire::{Claim, Failure, Heartbeat, Lease, Leased, MAX_CLAIM, Outcome, SOFTWARE_GPU};
use child::Trouble;
use device::Device;
use health::Health;
use queue::Queue;
use spool::Spool;
use warpproof_sandbox::{self as sandbox, Limits, Reach};
use watch::Watch;

/// The shortest and the longest pause of a worker that found no job.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));
/// How long the sign-off is retried.
const GOODBYE: Duration = Duration::from_secs(2);

/// Configuration of a worker.
#[derive(Clone, Debug)]
pub struct Config {
    /// Its name, shown to users.
    pub name: String,
    /// Concurrent evaluations on the software GPU.
    pub slots: usize,
    /// Lease duration without a heartbeat, in seconds.
    pub lease_seconds: u32,
    /// The devices it times on: to the server each one is a separate worker, with one job at a time.
    pub devices: Vec<Device>,
    /// Directory of device locks; workers that share it never share a device.
    pub taken: PathBuf,
    /// Its own directory: running evaluations, and unsent results.
    pub directory: PathBuf,
    /// The program that evaluates: this one, with the arguments before the directory.
    pub program: (PathBuf, Vec<String>),
    /// The limits of an evaluation.
    pub limits: Limits,
    /// Evaluate even if the system cannot sandbox evaluations.
    pub unconfined: bool,
    /// Exit when the queue is empty.
    pub until_idle: bool,
}

/// The totals of a worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Results that the server accepted.
    pub accepted: u64,
    /// Results that were sent too late.
    pub lost: u64,
    /// Failed jobs.
    pub failed: u64,
    /// Released jobs.
    pub released: u64,
}

#[derive(Debug, Default)]
struct Counters {
    accepted: AtomicU64,
    lost: AtomicU64,
    failed: AtomicU64,
    released: AtomicU64,
}

/// A job that this worker holds.
#[derive(Clone, Debug)]
struct Held {
    /// The index of its lane.
    lane: usize,
    token: i64,
    /// Set when the lease has expired: the server would reject the result.
    over: Arc<AtomicBool>,
}

/// Slots of one kind: those of the software GPU, or one device.
struct Lane {
    /// The worker's name on the server.
    name: String,
    /// Its capabilities, the scarcest first.
    capabilities: Vec<String>,
    slots: usize,
    /// Maximum number of held jobs. On a device no job waits for another: another device could run it.
    most: usize,
    /// The number of the device.
    device: Option<u32>,
    /// Jobs that no slot has started.
    waiting: Queue<Leased>,
}

impl Lane {
    fn all(config: &Config) -> Vec<Self> {
        let of = |name: String, capabilities: Vec<String>, (slots, most), device| Self {
            name,
            capabilities,
            slots,
            most,
            device,
            waiting: Queue::new(),
        };
        // For each slot one job in evaluation, one being sent, one waiting.
        let here = (config.slots, 3 * config.slots);
        let software = of(config.name.clone(), vec![SOFTWARE_GPU.to_owned()], here, None);
        let devices = config.devices.iter().map(|one| {
            let name = format!("{}-gpu{}", config.name, one.number);
            of(name, one.capabilities.clone(), (1, 1), Some(one.number))
        });
        let software = Some(software).filter(|one| one.slots > 0);
        software.into_iter().chain(devices).collect()
    }
}

/// State shared by the threads of a worker.
struct Worker<'w> {
    config: &'w Config,
    fleet: &'w Fleet,
    spool: Spool,
    lanes: Vec<Lane>,
    held: Mutex<BTreeMap<i64, Held>>,
    /// Results that are not sent yet; slots continue in the meantime.
    judged: Queue<(Leased, Outcome)>,
    counters: Counters,
    health: Mutex<Health>,
    watch: Watch,
    /// Set when a lane cannot continue: the others end too.
    broken: AtomicBool,
    finished: AtomicBool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // The data behind these locks is consistent at all times.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Works until `stop` is set, then finishes the running jobs. `say` is called with messages for the user.
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
            "{place} is in use by another worker; set another --directory"
        )));
    }
    // The locks are held until the end.
    let taken = config.devices.iter().map(|one| device::hold(one, &config.taken));
    let _taken: Vec<File> = taken.collect::<Result<_, _>>().map_err(FleetError::Local)?;
    // Determined once, not for every job.
    let (_, mut read) = Worker::toolchain();
    read.extend(std::env::current_exe());
    let reach = Reach { read, write: vec![config.directory.clone()], programs: true, files_of_others: false };
    let held = sandbox::probe(&reach).map_err(FleetError::Local)?;
    if !held.is_whole() && !config.unconfined {
        return Err(FleetError::Local(UNCONFINED.to_owned()));
    }
    // Removes evaluations of a killed worker that used this directory.
    let jobs = config.directory.join("jobs");
    if let Err(error) = leftovers::remove(&jobs, &config.directory.join("left")) {
        say(&error);
    }
    fs::create_dir_all(&jobs).map_err(local)?;
    let worker = Worker {
        config,
        fleet,
        spool: Spool::open(&config.directory)?,
        lanes: Lane::all(config),
        held: Mutex::new(BTreeMap::new()),
        judged: Queue::new(),
        counters: Counters::default(),
        health: Mutex::new(Health::default()),
        watch: Watch::default(),
        broken: AtomicBool::new(false),
        finished: AtomicBool::new(false),
    };
    for (job, outcome) in worker.spool.left()? {
        say(&format!("sending the result of job {job} again"));
        worker.send(job, &outcome, say);
    }
    let ended = thread::scope(|scope| {
        let worker = &worker;
        let others = [
            scope.spawn(|| worker.guard(|| worker.beat(say))),
            scope.spawn(|| worker.guard(|| worker.watch.run(&worker.finished))),
        ];
        let (mut slots, mut claims) = (Vec::new(), Vec::new());
        let places: usize = worker.lanes.iter().map(|lane| lane.slots).sum();
        let senders: Vec<_> =
            (0..places).map(|_| scope.spawn(|| worker.guard(|| worker.sender(say)))).collect();
        for (at, lane) in worker.lanes.iter().enumerate() {
            slots.extend(
                (0..lane.slots).map(|_| scope.spawn(move || worker.guard(|| worker.slot(lane, say)))),
            );
            claims.push(scope.spawn(move || {
                let mut ended = Ok(());
                let whole = worker.guard(|| ended = worker.claim(at, lane, stop, say));
                worker.broken.fetch_or(ended.is_err(), Ordering::Relaxed);
                worker.close(lane);
                whole.and(ended)
            }));
        }
        let ended = all(claims);
        let judged = all(slots);
        worker.judged.close();
        let sent = all(senders);
        worker.finished.store(true, Ordering::Relaxed);
        ended.and(judged).and(sent).and(all(others))
    });
    // Jobs that fail on other workers need not wait for this worker. If the server does not respond, it notices after two minutes.
    let brief = worker.fleet.clone().with_patience(GOODBYE);
    for lane in &worker.lanes {
        let _heard = brief.goodbye(&lane.name);
    }
    ended?;
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    Ok(Tally {
        accepted: count(&worker.counters.accepted),
        lost: count(&worker.counters.lost),
        failed: count(&worker.counters.failed),
        released: count(&worker.counters.released),
    })
}

/// Result of sending.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sent {
    /// The server has accepted or rejected the result.
    Settled,
    /// The server does not respond now.
    Waits,
    /// It is stored on disk, and this worker does not send it again.
    Kept,
}

/// Whether a rejection is final: the lease has expired, or the job has another result or does not exist.
fn is_no(status: u16, word: &str) -> bool {
    matches!((status, word), (409, "lease" | "done" | "segment") | (404, "absent"))
}

/// Waits for threads, and returns their first error.
fn all<'t>(
    threads: impl IntoIterator<Item = thread::ScopedJoinHandle<'t, Result<(), FleetError>>>,
) -> Result<(), FleetError> {
    let joined = threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Err(panicked())));
    // Waits for all of them, even after an error.
    joined.fold(Ok(()), Result::and)
}

fn panicked() -> FleetError {
    FleetError::Local("a thread of this worker panicked: this is a bug in warpproof".to_owned())
}

impl Worker<'_> {
    /// Runs a thread's work. If it panics, the worker ends together with its running evaluations: without heartbeats and limits
    /// they must not continue. Its jobs are claimed by others when the leases expire.
    fn guard(&self, work: impl FnOnce()) -> Result<(), FleetError> {
        // Shared state is behind locks and consistent at all times.
        catch_unwind(AssertUnwindSafe(work)).map_err(|_| {
            self.broken.store(true, Ordering::Relaxed);
            lock(&self.held).values().for_each(|held| held.over.store(true, Ordering::Relaxed));
            panicked()
        })
    }

    /// Whether to stop claiming.
    fn is_over(&self, stop: &AtomicBool) -> bool {
        stop.load(Ordering::Relaxed) || self.broken.load(Ordering::Relaxed)
    }

    /// Pauses, or returns early at a stop.
    fn rest(&self, pause: Duration, stop: &AtomicBool) {
        let end = Instant::now() + pause;
        while Instant::now() < end && !self.is_over(stop) {
            thread::sleep(Duration::from_millis(5).min(pause));
        }
    }

    /// Claims as many jobs as the slots of a lane will need soon, until a stop.
    fn claim(
        &self,
        at: usize,
        lane: &Lane,
        stop: &AtomicBool,
        say: &(dyn Fn(&str) + Sync),
    ) -> Result<(), FleetError> {
        let mut pause = PAUSES.0;
        let mut silent = false;
        while !self.is_over(stop) {
            if self.config.until_idle
                && let Some(reason) = lock(&self.health).lasting_trouble()
            {
                return Err(FleetError::Local(reason.to_owned()));
            }
            let unwell = lock(&self.health).pause();
            if let Some(pause) = unwell {
                self.rest(pause, stop);
                continue;
            }
            let held = lock(&self.held).values().filter(|held| held.lane == at).count();
            let room = lane.most.saturating_sub(held);
            // Not one at a time: a claim of several jobs costs as much as a claim of one.
            if room < lane.slots {
                self.rest(Duration::from_millis(5), stop);
                continue;
            }
            let claim = Claim {
                worker: lane.name.clone(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
                capabilities: lane.capabilities.clone(),
                limit: u32::try_from(room).unwrap_or(MAX_CLAIM).min(MAX_CLAIM),
                lease_seconds: self.config.lease_seconds,
            };
            // Retried here, so that a stop takes effect in between.
            let claimed = match self.fleet.clone().with_patience(Duration::ZERO).claim(&claim) {
                Ok(claimed) => claimed.jobs,
                Err(error) if error.passes() => {
                    if !std::mem::replace(&mut silent, true) {
                        say(&format!("{error}; retrying"));
                    }
                    self.rest(pause, stop);
                    pause = (pause * 2).min(PAUSES.1);
                    continue;
                }
                Err(error) => return Err(error),
            };
            if std::mem::take(&mut silent) {
                say("the fleet is reachable again");
            }
            if claimed.is_empty() {
                if self.config.until_idle && held == 0 {
                    return Ok(());
                }
                self.rest(pause, stop);
                pause = (pause * 2).min(PAUSES.1);
                continue;
            }
            pause = PAUSES.0;
            for job in claimed {
                let held = Held { lane: at, token: job.token, over: Arc::new(AtomicBool::new(false)) };
                lock(&self.held).insert(job.job, held);
                lane.waiting.push(job);
            }
        }
        Ok(())
    }

    /// Closes a lane and releases the jobs that were not started.
    fn close(&self, lane: &Lane) {
        lane.waiting.close();
        self.give_back(lane);
    }

    /// Releases the jobs that were not started.
    fn give_back(&self, lane: &Lane) {
        for job in lane.waiting.drain() {
            self.release(&job);
            self.let_go(&job);
        }
    }

    /// Removes a job from the held ones. A newer claim of the same job, with another token, stays.
    fn let_go(&self, job: &Leased) {
        let mut held = lock(&self.held);
        if held.get(&job.job).is_some_and(|held| held.token == job.token) {
            held.remove(&job.job);
        }
    }

    fn release(&self, job: &Leased) {
        // If releasing fails, other workers claim the job when its lease expires.
        if self.fleet.clone().with_patience(Duration::from_secs(2)).release(job.job, job.token).is_ok() {
            self.counters.released.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Sends heartbeats, often enough that one lost heartbeat does not matter.
    fn beat(&self, say: &(dyn Fn(&str) + Sync)) {
        let every = Duration::from_millis(u64::from(self.config.lease_seconds) * 1000 / 4);
        let mut last = Instant::now();
        while !self.finished.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(20));
            if last.elapsed() < every {
                continue;
            }
            last = Instant::now();
            for (at, lane) in self.lanes.iter().enumerate() {
                self.sign_of_life(at, lane, say);
            }
        }
    }

    /// Sends the heartbeat of a lane, and handles the leases it has lost.
    fn sign_of_life(&self, at: usize, lane: &Lane, say: &(dyn Fn(&str) + Sync)) {
        let held: Vec<(Lease, Arc<AtomicBool>)> = lock(&self.held)
            .iter()
            .filter(|(_, held)| held.lane == at)
            .map(|(job, held)| (Lease { job: *job, token: held.token }, Arc::clone(&held.over)))
            .collect();
        if held.is_empty() {
            return;
        }
        let beat = Heartbeat {
            worker: lane.name.clone(),
            leases: held.iter().map(|(lease, _)| *lease).collect(),
            lease_seconds: self.config.lease_seconds,
        };
        // A failed heartbeat is followed by the next one.
        let Ok(beaten) = self.fleet.heartbeat(&beat) else { return };
        for (lease, over) in held {
            // A job that ended meanwhile is not lost.
            if beaten.lost.contains(&lease.job) && lock(&self.held).contains_key(&lease.job) {
                over.store(true, Ordering::Relaxed);
                say(&format!("the lease of job {} has expired", lease.job));
            }
        }
    }

    /// Evaluates the jobs of a lane one after another.
    fn slot(&self, lane: &Lane, say: &(dyn Fn(&str) + Sync)) {
        while let Some(job) = lane.waiting.pop() {
            let over = lock(&self.held).get(&job.job).map(|held| Arc::clone(&held.over)).unwrap_or_default();
            let judged = if over.load(Ordering::Relaxed) {
                Err(Trouble::Over)
            } else {
                self.one(lane, &job, &over, say)
            };
            match judged {
                Ok(outcome) => self.judged.push((job, outcome)),
                Err(trouble) => self.without_result(&job, trouble, say),
            }
        }
    }

    /// Sends results one after another.
    fn sender(&self, say: &(dyn Fn(&str) + Sync)) {
        while let Some((job, outcome)) = self.judged.pop() {
            lock(&self.health).result();
            // Retried for a minute already. It stays held, so that its lease is extended; when this worker ends, the next one sends
            // it.
            if self.send(job.job, &outcome, say) == Sent::Waits && !self.judged.is_closed() {
                self.judged.push((job, outcome));
                continue;
            }
            self.let_go(&job);
        }
    }

    /// Evaluates one job, from its files to its result.
    fn one(
        &self,
        lane: &Lane,
        job: &Leased,
        over: &AtomicBool,
        say: &(dyn Fn(&str) + Sync),
    ) -> Result<Outcome, Trouble> {
        let directory = self.config.directory.join("jobs").join(format!("{}-{}", job.job, job.token));
        let judged = child::judge(self, job, &directory, lane.device, over).and_then(|outcome| {
            // From here on neither an unreachable server nor the end of this process loses the result.
            self.spool.keep(job.job, &outcome)?;
            Ok(outcome)
        });
        if let Err(error) = leftovers::remove(&directory, &self.config.directory.join("left")) {
            say(&error);
        }
        judged
    }

    /// Handles a job without a result.
    fn without_result(&self, job: &Leased, trouble: Trouble, say: &(dyn Fn(&str) + Sync)) {
        match trouble {
            Trouble::Over => {
                self.counters.lost.fetch_add(1, Ordering::Relaxed);
            }
            Trouble::Here(reason) => {
                let of_job = lock(&self.health).trouble(job.job, &reason);
                if of_job {
                    self.fail(job.job, job.token, &reason, say);
                } else {
                    say(&format!("job {} is released, and this worker pauses: {reason}", job.job));
                    self.release(job);
                    self.lanes.iter().for_each(|lane| self.give_back(lane));
                }
            }
            Trouble::Failed(reason) => {
                lock(&self.health).failure();
                self.fail(job.job, job.token, &reason, say);
            }
        }
        self.let_go(job);
    }

    /// Reports a failed job.
    fn fail(&self, job: i64, token: i64, reason: &str, say: &(dyn Fn(&str) + Sync)) {
        say(&format!("job {job}: {reason}"));
        self.counters.failed.fetch_add(1, Ordering::Relaxed);
        let failure = Failure { token, reason: child::told(reason) };
        // If the report does not arrive, the job is claimed again when the lease expires.
        if let Err(error) = self.fleet.fail(job, &failure) {
            say(&format!("job {job}: {error}"));
        }
    }

    /// Sends a result. Unless the server has accepted or rejected it, it stays on disk and is sent at the latest when the next
    /// worker starts here.
    fn send(&self, job: i64, outcome: &Outcome, say: &(dyn Fn(&str) + Sync)) -> Sent {
        let Err(error) = self.fleet.finish(job, outcome) else {
            self.counters.accepted.fetch_add(1, Ordering::Relaxed);
            self.spool.forget(job, outcome.token);
            return Sent::Settled;
        };
        match &error {
            // It will never be accepted, and a retry would end the same way: this counts as a failure.
            FleetError::Refused(400 | 413 | 422, _) => {
                self.fail(job, outcome.token, &format!("its result was rejected: {error}"), say);
            }
            FleetError::Refused(status, refusal) if is_no(*status, &refusal.error) => {
                self.counters.lost.fetch_add(1, Ordering::Relaxed);
                say(&format!("job {job}: {error}"));
            }
            // A proxy, an unknown token, an expired certificate: not the server's decision about this result.
            _ => {
                say(&format!("job {job}: {error}; its result is kept"));
                return if error.passes() { Sent::Waits } else { Sent::Kept };
            }
        }
        self.spool.forget(job, outcome.token);
        Sent::Settled
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
        if let Some(python) = std::env::var_os("WARPPROOF_PYTHON").filter(|python| !python.is_empty()) {
            // `…/bin/python3` needs the directories next to `bin`. In a virtual environment it is a link to another Python, which
            // needs the same.
            let places = [std::path::absolute(&python).ok(), fs::canonicalize(&python).ok()];
            let places = places.iter().flatten().filter(|place| place.is_file());
            let homes = places.filter_map(|place| place.parent()?.parent());
            // Never the root directory: that would allow reading everything.
            read.extend(homes.filter(|home| home.parent().is_some()).map(Path::to_owned));
        }
        (sets, read)
    }
}
