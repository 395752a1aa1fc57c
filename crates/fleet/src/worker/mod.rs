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

/// The shortest and the longest pause of a worker that found nothing to do.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));
/// How long a goodbye is tried.
const GOODBYE: Duration = Duration::from_secs(2);

/// How a worker works.
#[derive(Clone, Debug)]
pub struct Config {
    /// Its name, for people.
    pub name: String,
    /// Evaluations at a time that are not timed on a device.
    pub slots: usize,
    /// How long it may be silent before others get its jobs, in seconds.
    pub lease_seconds: u32,
    /// The devices it times on: each is a worker of its own to the server, with one job at a time.
    pub devices: Vec<Device>,
    /// Where it is written down which device is taken; workers that share it never share a device.
    pub taken: PathBuf,
    /// Its own directory: evaluations under way, and results that were not sent yet.
    pub directory: PathBuf,
    /// The program that evaluates: this one, with the arguments that come before the directory.
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
    /// Results that came too late.
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

/// A job in hand.
#[derive(Clone, Debug)]
struct Held {
    /// The place of its lane.
    lane: usize,
    token: i64,
    /// Set when the lease has expired: the server would reject the result.
    over: Arc<AtomicBool>,
}

/// Places of one kind: those of the software GPU, or one device.
struct Lane {
    /// The worker that the server knows.
    name: String,
    /// What it can do, the scarcest first.
    capabilities: Vec<String>,
    slots: usize,
    /// Jobs that are held at most. On a device no job waits for another: another device could have it.
    most: usize,
    /// The number of the device.
    device: Option<u32>,
    /// What no slot has begun.
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

/// What the threads of a worker share.
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
    // Held until the end.
    let taken = config.devices.iter().map(|one| device::hold(one, &config.taken));
    let _taken: Vec<File> = taken.collect::<Result<_, _>>().map_err(FleetError::Local)?;
    // Found out here, and not with every job.
    let (_, mut read) = Worker::toolchain();
    read.extend(std::env::current_exe());
    let reach = Reach { read, write: vec![config.directory.clone()], programs: true, files_of_others: false };
    let held = sandbox::probe(&reach).map_err(FleetError::Local)?;
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
    // Jobs that others fail at do not wait for this worker any more. Where nobody answers, two minutes do the same.
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

/// What became of a result.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sent {
    /// The server has said yes or no.
    Settled,
    /// The server does not answer now.
    Waits,
    /// It is on disk, and this worker does not send it again.
    Kept,
}

/// Whether a refusal is the server's last word on a result: the lease is over, another result is there, the job is not.
fn is_no(status: u16, word: &str) -> bool {
    matches!((status, word), (409, "lease" | "done" | "segment") | (404, "absent"))
}

/// Waits for threads, and gives the first error of them.
fn all<'t>(
    threads: impl IntoIterator<Item = thread::ScopedJoinHandle<'t, Result<(), FleetError>>>,
) -> Result<(), FleetError> {
    let joined = threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Err(panicked())));
    // All are waited for, whatever the first says.
    joined.fold(Ok(()), Result::and)
}

fn panicked() -> FleetError {
    FleetError::Local("a thread of this worker panicked: this is a bug in warpproof".to_owned())
}

impl Worker<'_> {
    /// Does what a thread is for. Where it panics, the worker ends, and what is under way with it: without its sign of life or
    /// its limits nobody may judge. What it holds others get when the leases end.
    fn guard(&self, work: impl FnOnce()) -> Result<(), FleetError> {
        // What is shared stands behind locks, and is whole at every moment.
        catch_unwind(AssertUnwindSafe(work)).map_err(|_| {
            self.broken.store(true, Ordering::Relaxed);
            lock(&self.held).values().for_each(|held| held.over.store(true, Ordering::Relaxed));
            panicked()
        })
    }

    /// Whether nothing more shall be claimed.
    fn is_over(&self, stop: &AtomicBool) -> bool {
        stop.load(Ordering::Relaxed) || self.broken.load(Ordering::Relaxed)
    }

    /// Pauses, unless the end comes.
    fn rest(&self, pause: Duration, stop: &AtomicBool) {
        let end = Instant::now() + pause;
        while Instant::now() < end && !self.is_over(stop) {
            thread::sleep(Duration::from_millis(5).min(pause));
        }
    }

    /// Claims as many as the slots of a lane will soon need, until a stop.
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
            // Not one by one: one claim for several jobs costs as much as one for one.
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
            // Tried again here, so that a stop is heard meanwhile.
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

    /// Takes nothing more into a lane, and gives back what nobody has begun.
    fn close(&self, lane: &Lane) {
        lane.waiting.close();
        self.give_back(lane);
    }

    /// Gives back what nobody has begun.
    fn give_back(&self, lane: &Lane) {
        for job in lane.waiting.drain() {
            self.release(&job);
            self.let_go(&job);
        }
    }

    /// Holds a job no more. A claim may have brought it again meanwhile, under another token: that one stays.
    fn let_go(&self, job: &Leased) {
        let mut held = lock(&self.held);
        if held.get(&job.job).is_some_and(|held| held.token == job.token) {
            held.remove(&job.job);
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
            for (at, lane) in self.lanes.iter().enumerate() {
                self.sign_of_life(at, lane, say);
            }
        }
    }

    /// Says of a lane that it lives, and hears what it has lost.
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
        // A sign that did not arrive is followed by the next.
        let Ok(beaten) = self.fleet.heartbeat(&beat) else { return };
        for (lease, over) in held {
            // One that has ended meanwhile is lost to nobody.
            if beaten.lost.contains(&lease.job) && lock(&self.held).contains_key(&lease.job) {
                over.store(true, Ordering::Relaxed);
                say(&format!("the lease of job {} has expired", lease.job));
            }
        }
    }

    /// Judges one job of a lane after the other.
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

    /// Sends one result after the other.
    fn sender(&self, say: &(dyn Fn(&str) + Sync)) {
        while let Some((job, outcome)) = self.judged.pop() {
            lock(&self.health).result();
            // Tried for a minute already. It stays held, so that its lease goes on; at the end of this worker it is left to the next.
            if self.send(job.job, &outcome, say) == Sent::Waits && !self.judged.is_closed() {
                self.judged.push((job, outcome));
                continue;
            }
            self.let_go(&job);
        }
    }

    /// One job, from its files to what came of it.
    fn one(
        &self,
        lane: &Lane,
        job: &Leased,
        over: &AtomicBool,
        say: &(dyn Fn(&str) + Sync),
    ) -> Result<Outcome, Trouble> {
        let directory = self.config.directory.join("jobs").join(format!("{}-{}", job.job, job.token));
        let judged = child::judge(self, job, &directory, lane.device, over).and_then(|outcome| {
            // From here on neither a server that is away nor the end of this process loses it.
            self.spool.keep(job.job, &outcome)?;
            Ok(outcome)
        });
        if let Err(error) = leftovers::remove(&directory, &self.config.directory.join("left")) {
            say(&error);
        }
        judged
    }

    /// What is said of a job that came to no result.
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

    /// Sends a result. Unless the server has said yes or no, it stays on disk, and is sent when the next worker starts here at
    /// the latest.
    fn send(&self, job: i64, outcome: &Outcome, say: &(dyn Fn(&str) + Sync)) -> Sent {
        let Err(error) = self.fleet.finish(job, outcome) else {
            self.counters.accepted.fetch_add(1, Ordering::Relaxed);
            self.spool.forget(job, outcome.token);
            return Sent::Settled;
        };
        match &error {
            // It will never be taken, and another try would end as this one: that counts as a failure.
            FleetError::Refused(400 | 413 | 422, _) => {
                self.fail(job, outcome.token, &format!("its result was rejected: {error}"), say);
            }
            FleetError::Refused(status, refusal) if is_no(*status, &refusal.error) => {
                self.counters.lost.fetch_add(1, Ordering::Relaxed);
                say(&format!("job {job}: {error}"));
            }
            // A proxy, a token that is not known, a certificate that has expired: not the server's word on this result.
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
            // `…/bin/python3` needs what is beside `bin`. In a virtual environment it is a link to another one, which needs the same.
            let places = [std::path::absolute(&python).ok(), fs::canonicalize(&python).ok()];
            let places = places.iter().flatten().filter(|place| place.is_file());
            let homes = places.filter_map(|place| place.parent()?.parent());
            // Nobody may read everything.
            read.extend(homes.filter(|home| home.parent().is_some()).map(Path::to_owned));
        }
        (sets, read)
    }
}
