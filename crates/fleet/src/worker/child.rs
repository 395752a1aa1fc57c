//! One evaluation in a separate process: starts it, watches it, and reads its result.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use warpproof_evidence::hash::Hash;
use warpproof_evidence::ledger::{Ledger, read_segment};
use warpproof_evidence::record::{Body, Obstacle};
use warpproof_gate::reference::python::interpreter;
use warpproof_toolchain::{Options as ToolchainOptions, Toolchain};

use super::watch::Watched;
use super::{Worker, leftovers};
use crate::bundle;
use crate::client::FleetError;
use crate::evaluate::{ORDER, Order};
use crate::wire::{Leased, Outcome};
use warpproof_sandbox::Limits;

/// Objects are sent with their result up to this total size, in bytes; the others are uploaded first.
const INLINE: usize = 1 << 20;
/// The maximum number of bytes read from a process's output.
const SAID: u64 = 16 << 10;
/// The shortest and the longest interval between two polls of a process.
const PAUSES: (Duration, Duration) = (Duration::from_micros(200), Duration::from_millis(5));
/// The longest reason that is reported.
const REASON: usize = 1_000;

/// Why a job has no result.
pub(super) enum Trouble {
    /// The lease has expired.
    Over,
    /// A problem of this machine: a full disk, a server that does not respond, a missing compiler. Another machine may
    /// succeed, so the job does not fail.
    Here(String),
    /// The job failed.
    Failed(String),
}

/// A reason that is safe to display: a task may have written anything into it.
pub(super) fn told(reason: &str) -> String {
    let reason: String = reason.chars().map(|c| if c.is_control() { ' ' } else { c }).take(REASON).collect();
    if reason.trim().is_empty() { "no reason reported".to_owned() } else { reason }
}

impl From<String> for Trouble {
    fn from(reason: String) -> Self {
        Self::Failed(told(&reason))
    }
}

impl From<std::io::Error> for Trouble {
    fn from(error: std::io::Error) -> Self {
        Self::Here(format!("this machine: {error}"))
    }
}

impl From<FleetError> for Trouble {
    fn from(error: FleetError) -> Self {
        match &error {
            FleetError::Refused(400 | 404 | 413 | 422, _) => Self::Failed(told(&error.to_string())),
            _ => Self::Here(error.to_string()),
        }
    }
}

/// Evaluates a job in a new directory.
pub(super) fn judge(
    worker: &Worker<'_>,
    job: &Leased,
    directory: &Path,
    device: Option<u32>,
    over: &AtomicBool,
) -> Result<Outcome, Trouble> {
    let refused = |error: std::io::Error| Trouble::Here(format!("{}: {error}", directory.display()));
    for inner in ["task", "cache", "tmp"] {
        fs::create_dir_all(directory.join(inner)).map_err(refused)?;
    }
    let objects = worker.config.directory.join("objects");
    fs::create_dir_all(&objects).map_err(refused)?;
    bundle::unpack(&job.bundle, &directory.join("task"), |hash| object(worker, &objects, hash))?;
    let (sets, read) = Worker::toolchain();
    #[cfg(unix)]
    if let Some(sets) = sets {
        std::os::unix::fs::symlink(sets, directory.join("cache/toolchain")).map_err(refused)?;
    }
    #[cfg(not(unix))]
    let _unlinked = sets;
    let order = Order {
        task: job.bundle.task.clone(),
        candidate: job.candidate.clone(),
        secret: job.bundle.secret.clone(),
        stages: job.bundle.stages.clone(),
        device,
        // Slots times steps equals the number of cores, not its square.
        steps: cores() / worker.config.slots.max(1),
        limits: worker.config.limits,
        read,
        unconfined: worker.config.unconfined,
    };
    let text = serde_json::to_vec(&order).map_err(|error| error.to_string())?;
    fs::write(directory.join(ORDER), text).map_err(refused)?;
    let said = File::options().create_new(true).read(true).write(true).open(directory.join("said"));
    let mut said = said.map_err(refused)?;
    let child = start(worker, directory, device.is_some(), &said)
        .map_err(|error| Trouble::Here(format!("cannot start the evaluation: {error}")))?;
    let watched = worker.watch.begin(child.id());
    let status = wait(child, (&worker.config.limits, directory), watched, over)?;
    if !status.success() {
        let mut text = Vec::new();
        let read = said.seek(SeekFrom::Start(0)).and_then(|_| said.take(SAID).read_to_end(&mut text));
        let text = read.map(|_| String::from_utf8_lossy(&text).trim().to_owned()).unwrap_or_default();
        let line = text.lines().last().unwrap_or_default();
        // A lost device is not the job's fault.
        if let Some(number) = device
            && let Err(why) = super::device::open(number)
        {
            return Err(Trouble::Here(told(&format!("device {number}: {why}"))));
        }
        return Err(format!("the evaluation ended with {status}: {line}").into());
    }
    pack(worker, job, directory)
}

/// An object of a bundle: from the local cache, or from the server and then cached.
fn object(worker: &Worker<'_>, directory: &Path, hash: &Hash) -> Result<Vec<u8>, Trouble> {
    let path = directory.join(hash.to_string());
    if let Ok(bytes) = fs::read(&path)
        && Hash::of(&bytes) == *hash
    {
        return Ok(bytes);
    }
    let bytes = worker.fleet.object(hash)?;
    let refused = |error: std::io::Error| Trouble::Here(format!("{}: {error}", path.display()));
    let file = tempfile::NamedTempFile::new_in(directory).map_err(refused)?;
    fs::write(file.path(), &bytes).map_err(refused)?;
    file.persist(&path).map_err(|error| refused(error.error))?;
    Ok(bytes)
}

/// Variables that configure the devices of NVIDIA's driver or of Warpproof's own.
const OF_DRIVERS: [&str; 5] =
    ["CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "WARPPROOF_DEVICE", "WARPPROOF_CLOCK", "WARPPROOF_CHECKS"];

fn start(worker: &Worker<'_>, directory: &Path, timed: bool, said: &File) -> std::io::Result<Child> {
    let (program, arguments) = &worker.config.program;
    let mut command = Command::new(program);
    command.args(arguments).arg(directory).current_dir(directory.join("task"));
    // Pass only the variables needed to find the compiler; above all not the token.
    command.env_clear();
    let kept =
        ["PATH", "LD_LIBRARY_PATH", "CUDA_HOME", "CUDA_PATH", "WARPPROOF_TOOLCHAIN", "WARPPROOF_PYTHON"];
    for name in kept.into_iter().chain(OF_DRIVERS.into_iter().filter(|_| timed)) {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    command.env("HOME", directory).env("TMPDIR", directory.join("tmp")).env("LC_ALL", "C.UTF-8");
    command.env("WARPPROOF_CACHE", directory.join("cache"));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(said.try_clone()?);
    #[cfg(unix)]
    {
        use std::os::unix::process::CommandExt;
        // All of its child processes end with it.
        command.process_group(0);
    }
    command.spawn()
}

/// Waits for the end, for a limit, or for the lease to expire.
fn wait(
    child: Child,
    (limits, directory): (&Limits, &Path),
    mut watched: Watched<'_>,
    over: &AtomicBool,
) -> Result<ExitStatus, Trouble> {
    let mut child = Running(child);
    let limit = Duration::from_secs(limits.seconds);
    let begun = Instant::now();
    loop {
        if let Some(status) = child.0.try_wait()? {
            return Ok(status);
        }
        if over.load(Ordering::Relaxed) {
            return Err(Trouble::Over);
        }
        if begun.elapsed() > limit {
            return Err(format!("the evaluation took more than {} seconds", limit.as_secs()).into());
        }
        if let Some(excess) = watched.excess(limits, directory) {
            return Err(excess.into());
        }
        // A fiftieth of the elapsed time: short evaluations are not delayed, and long ones are not polled too often.
        thread::sleep((begun.elapsed() / 50).clamp(PAUSES.0, PAUSES.1));
    }
}

/// A process that is killed, with all of its children, when this is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        #[cfg(unix)]
        if let Some(group) = i32::try_from(self.0.id()).ok().and_then(rustix::process::Pid::from_raw) {
            // An empty process group is not an error.
            let _gone = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
        let _ended = self.0.kill().and_then(|()| self.0.wait());
    }
}

fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// A missing requirement of most tasks: the compiler or Python.
fn lacks() -> Option<String> {
    if let Err(missing) = Toolchain::find(&ToolchainOptions::from_env()) {
        return Some(missing.reason);
    }
    let mut python = Command::new(interpreter());
    python.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    match python.status() {
        Ok(status) if status.success() => None,
        Ok(status) => Some(format!("Python ends with {status}")),
        Err(error) => Some(format!("Python not found: {error}")),
    }
}

/// Reads the ledger that an evaluation left: one segment, and its objects.
fn pack(worker: &Worker<'_>, job: &Leased, directory: &Path) -> Result<Outcome, Trouble> {
    leftovers::only_plain(&directory.join("ledger"))?;
    let ledger = Ledger::open(directory.join("ledger")).map_err(|error| error.to_string())?;
    let mut names = ledger.segment_names().map_err(|error| error.to_string())?;
    let (Some(segment), true) = (names.pop(), names.is_empty()) else {
        return Err("expected one segment from the evaluation".to_owned().into());
    };
    let text = ledger.segment_text(&segment).map_err(|error| error.to_string())?;
    let records = read_segment(&segment, &text).map_err(|problem| problem.to_string())?;
    let lacking = records
        .iter()
        .any(|record| matches!(&record.body, Body::Step(step) if step.obstacle == Some(Obstacle::Input)));
    if lacking && let Some(why) = lacks() {
        return Err(Trouble::Here(why));
    }
    let named: BTreeSet<Hash> =
        records.iter().flat_map(|record| record.body.objects()).map(|(_, hash)| hash).collect();
    let (mut objects, mut room) = (BTreeMap::new(), INLINE);
    for hash in named {
        let bytes = ledger.object(&hash).map_err(|error| error.to_string())?;
        if bytes.len() > room {
            worker.fleet.put_object(&hash, &bytes)?;
        } else {
            room -= bytes.len();
            objects.insert(hash.to_string(), STANDARD.encode(bytes));
        }
    }
    let text = String::from_utf8(text).map_err(|error| error.to_string())?;
    Ok(Outcome { token: job.token, segment, text, objects })
}
