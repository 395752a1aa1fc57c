//! Drives a CUDA device through another process: this program starts itself again, and the child opens the driver and
//! receives requests as lines of JSON.
//!
//! A candidate can hang a device or leave its context unusable; only the child process is lost then, not the gate.
//! The gate's plan decides the order of batches; the child only loads, launches and times. Outputs of the attention
//! kernels and of any task's kernels are compared with their reference on the device before timing. With Warpproof's
//! own driver over the software GPU, every time is a prediction. **Not tested on hardware.**

mod process;
mod protocol;
mod serve;

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use warpproof_gpu::{Batch, Identity, Launch, Memory, ModuleId, ncu};
use warpproof_launch::{Geometry, Gpu, Use};

pub use process::SUBCOMMAND;
pub(crate) use process::apart;
pub use serve::{assembler, serve};

use crate::stage::{self, Bench, Clocks, Profiled, Programs};
use process::Process;
use protocol::{Answer, Request, bytes, hex};
use warpproof_speed::{Clock, ClockError, Origin, Sample, Side};
use warpproof_task::{L2, Size};

/// Maximum launches per batch: a batch is one graph with a node for each launch.
const LAUNCHES: u32 = 4096;
/// The resolution of event timers according to NVIDIA: half a microsecond.
const TICK_PS: u64 = 500_000;
/// Predictions are given in whole nanoseconds.
const PREDICTED_TICK_PS: u64 = 1_000;
/// The environment variable of Warpproof's own driver that selects the source of its event clock.
const EVENT_CLOCK: &str = "WARPPROOF_CLOCK";
/// Timeout for Nsight Compute, which repeats a launch for each group of counters.
const PROFILING: Duration = Duration::from_mins(2);

/// An error from the process or from the device behind it.
#[derive(Clone, Debug)]
pub struct RunnerError(pub String);

impl fmt::Display for RunnerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for RunnerError {}

impl From<RunnerError> for ClockError {
    fn from(error: RunnerError) -> ClockError {
        ClockError::Device(error.0)
    }
}

/// A reply of another kind than the request expects.
fn unexpected() -> RunnerError {
    RunnerError("the device process sent an unexpected reply".to_owned())
}

/// The process, shared by everything that was loaded onto the device through it.
type Shared = Arc<Mutex<Process>>;

/// Which device to open, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The program that serves as [`SUBCOMMAND`]: `warpproof` itself.
    pub program: PathBuf,
    /// The device's number.
    pub device: u32,
    /// MHz to which the multiprocessor clock is pinned, where permitted.
    pub pin_mhz: Option<u32>,
    /// Whether its processes get their own process group, which a keyboard interrupt does not reach. A caller that
    /// must end together with all its children sets this to false.
    pub apart: bool,
}

/// A CUDA device that another process drives.
#[derive(Debug)]
pub struct Runner {
    settings: Settings,
    identity: Identity,
    /// The source of the event clock of Warpproof's own driver, from its environment variable.
    event_clock: String,
    /// Skipped steps, with reasons.
    pub notes: Vec<String>,
    process: Mutex<Shared>,
}

impl Runner {
    /// Starts the process and opens the device.
    pub fn start(settings: Settings) -> Result<Runner, RunnerError> {
        let (process, identity, notes) = open(&settings)?;
        // The child inherits this environment; the driver's own default is `issue`.
        let event_clock = std::env::var(EVENT_CLOCK).ok().filter(|set| !set.is_empty());
        let event_clock = event_clock.unwrap_or_else(|| "issue".to_owned());
        Ok(Runner { settings, identity, event_clock, notes, process: Mutex::new(process) })
    }

    /// The process, replaced if the previous one failed: a candidate that damages a context damages only its own.
    fn process(&self) -> Result<Shared, RunnerError> {
        let mut held = self.process.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if lock(&held).is_spoiled() {
            // End it first: its exit releases the clocks it pinned, and a later exit would release those of the next.
            lock(&held).end();
            let (process, identity, notes) = open(&self.settings)?;
            if identity != self.identity {
                return Err(RunnerError(format!(
                    "the device changed: it is now {identity}; it was {}",
                    self.identity
                )));
            }
            // The remaining samples would be timed under different conditions.
            if notes != self.notes {
                let told = if notes.is_empty() {
                    "clocks are now pinned; before they were not".to_owned()
                } else {
                    notes.join("; ")
                };
                return Err(RunnerError(format!("conditions changed when the device was reopened: {told}")));
            }
            *held = process;
        }
        Ok(held.clone())
    }

    /// A handle that holds nothing on the device yet.
    fn empty(process: &Shared) -> Remote {
        Remote { process: process.clone(), modules: Vec::new(), memory: Vec::new(), launches: Vec::new() }
    }

    /// A side that is loaded and verified; its recorded launches are the ones that are timed.
    fn prepare(
        &self,
        process: &Shared,
        bench: &Bench<'_>,
        side: stage::Side<'_>,
        size: &Size,
    ) -> Result<Remote, ClockError> {
        // This handle owns everything on the device and frees it on failure.
        let mut held = Runner::empty(process);
        let (candidate, built) = side;
        match &built.programs {
            Programs::Family { plans } => {
                let missing = || ClockError::Device(format!("the candidate has no plan for {}", size.name));
                let (plan, ptx) = plans.get(&size.name).ok_or_else(missing)?;
                let name = format!("{} of {}", candidate.name.value, size.name);
                plan.run(&mut held, bench, ptx, &name)?;
            }
            Programs::Launched { .. } => {
                let staged = bench.staged(side, size, self.identity.capability)?;
                run_staged(&mut held, &staged)?;
            }
        }
        Ok(held)
    }

    /// Runs a side once under Nsight Compute, in its own process.
    fn under_ncu(
        &self,
        bench: &Bench<'_>,
        side: stage::Side<'_>,
        size: &Size,
        program: &ncu::Ncu,
    ) -> Result<Vec<ncu::Profile>, RunnerError> {
        let failed = |error: &dyn fmt::Display| RunnerError(error.to_string());
        let folder = tempfile::tempdir().map_err(|error| failed(&error))?;
        let log = folder.path().join("ncu.csv");
        let command = program.command(&log, &self.settings.program, [SUBCOMMAND]);
        let mut process = Process::start(command, self.settings.apart)?;
        process.ask(&Request::Open { device: self.settings.device, pin_mhz: None })?;
        let process = Arc::new(Mutex::new(process));
        let held = self.prepare(&process, bench, side, size).map_err(|error| failed(&error))?;
        drop(held);
        // Nsight Compute writes its table after the program has exited.
        if lock(&process).finish(PROFILING).is_none() {
            return Err(RunnerError(format!("ncu did not exit within {} s", PROFILING.as_secs())));
        }
        let text = std::fs::read_to_string(&log);
        let text = text.map_err(|error| RunnerError(format!("ncu wrote no table: {error}")))?;
        ncu::parse(&text).map_err(RunnerError)
    }
}

/// Starts the process and opens the device; skipped steps are returned with their reasons.
fn open(settings: &Settings) -> Result<(Shared, Identity, Vec<String>), RunnerError> {
    let mut process = Process::start(Process::command(&settings.program), settings.apart)?;
    let (device, pin_mhz) = (settings.device, settings.pin_mhz);
    let Answer::Opened { identity, notes } = process.ask(&Request::Open { device, pin_mhz })? else {
        return Err(unexpected());
    };
    if pin_mhz.is_some() && notes.is_empty() {
        process.pinned(&settings.program, device);
    }
    Ok((Arc::new(Mutex::new(process)), identity, notes))
}

/// Loads a candidate with its own launches, runs it and compares its outputs with the reference.
fn run_staged(held: &mut Remote, staged: &stage::Staged) -> Result<(), ClockError> {
    let named = |error: RunnerError| ClockError::Device(format!("{}: {error}", staged.name));
    let module = held.load(&staged.ptx).map_err(named)?;
    let mut memory = Vec::with_capacity(staged.memory.len());
    for content in &staged.memory {
        let one = held.allocate("", content.len(), Use::Scratch).map_err(named)?;
        held.write(&one, content).map_err(named)?;
        memory.push(one);
    }
    for (symbol, bytes) in &staged.variables {
        let request = Request::Set { module, symbol: symbol.clone(), hex: hex(bytes) };
        held.tell(&request).map_err(named)?;
    }
    let address_of = |place: usize| memory.get(place).map_or(0, |memory: &Memory| memory.address);
    for launch in &staged.launches {
        let launch = Launch {
            module,
            kernel: launch.kernel.clone(),
            grid: launch.grid,
            block: launch.block,
            shared: launch.shared,
            cooperative: launch.cooperative,
            arguments: launch.arguments.iter().map(|argument| argument.bytes(address_of)).collect(),
        };
        held.run(launch).map_err(named)?;
    }
    for (output, place) in &staged.outputs {
        let Some(memory) = memory.get(*place) else { continue };
        let bytes = held.read(memory).map_err(named)?;
        staged.judge(output, &bytes)?;
    }
    Ok(())
}

impl Clocks for Runner {
    fn device(&self) -> String {
        self.identity.to_string()
    }

    fn identity(&self) -> Option<&Identity> {
        Some(&self.identity)
    }

    fn conditions(&self) -> String {
        let mut all = Vec::new();
        let pinned = self.settings.pin_mhz.filter(|_| self.notes.is_empty());
        all.extend(pinned.map(|mhz| format!("pinned to {mhz} MHz")));
        if self.identity.predicted {
            all.push(format!("event clock: {}", self.event_clock));
        }
        all.join(", ")
    }

    fn predicted(&self) -> bool {
        self.identity.predicted
    }

    fn apart(&self) -> bool {
        self.settings.apart
    }

    fn clock<'c>(
        &'c self,
        bench: &Bench<'_>,
        baseline: stage::Side<'c>,
        candidate: stage::Side<'c>,
        size: &Size,
        l2: L2,
    ) -> Result<Box<dyn Clock + 'c>, ClockError> {
        let process = self.process()?;
        let baseline = self.prepare(&process, bench, baseline, size)?;
        let candidate = self.prepare(&process, bench, candidate, size)?;
        let device = self.identity.to_string();
        let predicted = self.identity.predicted;
        let origin = if predicted { Origin::Predicted { device } } else { Origin::Measured { device } };
        let cold = l2 == L2::Cold;
        Ok(Box::new(Timed { origin, predicted, baseline, candidate, cold, known: Vec::new() }))
    }

    fn profile(&self, bench: &Bench<'_>, side: stage::Side<'_>, size: &Size) -> Profiled {
        match ncu::Ncu::find() {
            Err(why) => Profiled::Skipped(why),
            Ok(program) => match self.under_ncu(bench, side, size, &program) {
                Ok(launches) => Profiled::Counted(launches),
                Err(error) => Profiled::Failed(error.0),
            },
        }
    }
}

fn lock(process: &Mutex<Process>) -> MutexGuard<'_, Process> {
    process.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// The device as the library sees it, with everything loaded onto it. Launches are recorded so that the clock can
/// repeat them; memory is freed only at the end.
#[derive(Debug)]
pub struct Remote {
    process: Shared,
    modules: Vec<ModuleId>,
    memory: Vec<Memory>,
    launches: Vec<Launch>,
}

impl Remote {
    fn ask(&self, request: &Request) -> Result<Answer, RunnerError> {
        lock(&self.process).ask(request)
    }

    fn tell(&self, request: &Request) -> Result<(), RunnerError> {
        self.ask(request).and_then(|answer| if answer == Answer::Done { Ok(()) } else { Err(unexpected()) })
    }

    /// Launches, and records the launch.
    fn run(&mut self, launch: Launch) -> Result<(), RunnerError> {
        self.tell(&Request::Launch { launch: launch.clone() })?;
        self.launches.push(launch);
        Ok(())
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        // A lost device has already freed everything.
        for module in std::mem::take(&mut self.modules) {
            let _gone = self.tell(&Request::Unload { module });
        }
        for memory in std::mem::take(&mut self.memory) {
            let _gone = self.tell(&Request::Free { memory });
        }
    }
}

impl Gpu for Remote {
    type Memory = Memory;
    type Module = ModuleId;
    type Error = RunnerError;

    fn load(&mut self, ptx: &str) -> Result<ModuleId, RunnerError> {
        let Answer::Loaded { module } = self.ask(&Request::Load { ptx: ptx.to_owned() })? else {
            return Err(unexpected());
        };
        self.modules.push(module);
        Ok(module)
    }

    fn allocate(&mut self, _: &str, bytes: usize, _: Use) -> Result<Memory, RunnerError> {
        let Answer::Allocated { memory } = self.ask(&Request::Allocate { bytes })? else {
            return Err(unexpected());
        };
        self.memory.push(memory);
        Ok(memory)
    }

    fn free(&mut self, _: Memory) -> Result<(), RunnerError> {
        // The clock repeats the launches on this same memory.
        Ok(())
    }

    fn address(&self, memory: &Memory) -> u64 {
        memory.address
    }

    fn write(&mut self, memory: &Memory, bytes: &[u8]) -> Result<(), RunnerError> {
        self.tell(&Request::Write { memory: *memory, hex: hex(bytes) })
    }

    fn read(&mut self, memory: &Memory) -> Result<Vec<u8>, RunnerError> {
        let Answer::Bytes { hex } = self.ask(&Request::Read { memory: *memory })? else {
            return Err(unexpected());
        };
        let all = bytes(&hex).filter(|all| all.len() == memory.bytes);
        all.ok_or_else(|| RunnerError("a reply has too few bytes".to_owned()))
    }

    fn launch(
        &mut self,
        module: &ModuleId,
        kernel: &str,
        geometry: Geometry,
        params: &[u8],
    ) -> Result<(), RunnerError> {
        self.run(Launch {
            module: *module,
            kernel: kernel.to_owned(),
            grid: geometry.grid,
            block: [geometry.block, 1, 1],
            shared: geometry.shared,
            cooperative: false,
            arguments: vec![params.to_vec()],
        })
    }
}

/// Times two programs in turn.
#[derive(Debug)]
struct Timed {
    origin: Origin,
    predicted: bool,
    baseline: Remote,
    candidate: Remote,
    cold: bool,
    /// Predictions made so far: a model has no noise, so each is computed once.
    known: Vec<((Side, u32), Sample)>,
}

impl Clock for Timed {
    fn origin(&self) -> Origin {
        self.origin.clone()
    }

    fn resolution_hint_ps(&self) -> Option<u64> {
        Some(if self.predicted { PREDICTED_TICK_PS } else { TICK_PS })
    }

    fn launch_limit(&self) -> u32 {
        // After the first launch the cache is warm; and a second prediction equals the first.
        if self.cold || self.predicted { 1 } else { LAUNCHES }
    }

    fn time(&mut self, side: Side, launches: u32) -> Result<Sample, ClockError> {
        if let Some((_, sample)) = self.known.iter().find(|(asked, _)| *asked == (side, launches)) {
            return Ok(*sample);
        }
        let one = match side {
            Side::Baseline => &self.baseline,
            Side::Candidate => &self.candidate,
        };
        let request = Request::Time {
            launches: one.launches.clone(),
            repeat: launches,
            batch: Batch::Graph,
            cold: self.cold,
        };
        let Answer::Timed { elapsed_ps, before, after } = one.ask(&request)? else {
            return Err(unexpected().into());
        };
        let sample = Sample { elapsed_ps, before, after };
        if self.predicted {
            self.known.push(((side, launches), sample));
        }
        Ok(sample)
    }
}

/// The path of the running program, which also serves as the runner.
pub fn this_program() -> Result<PathBuf, RunnerError> {
    std::env::current_exe()
        .map_err(|cause| RunnerError(format!("cannot find the path of this program: {cause}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_mistake_another_process_is_started() {
        let Ok(folder) = tempfile::tempdir() else { return };
        let (program, starts) = (folder.path().join("program"), folder.path().join("starts"));
        // A stand-in for the program: opens, then refuses every request.
        let opened = r#"{"answer": "opened", "notes": [], "identity": {"name": "G", "uuid": "00", "driver": "1",
            "capability": 89, "l2_bytes": 0, "predicted": true}}"#;
        let script = format!(
            "#!/bin/sh\necho start >> '{}'\nread line; echo '{}'\n\
             while read line; do echo '{{\"answer\": \"error\", \"error\": \"no\"}}'; done\n",
            starts.display(),
            opened.replace('\n', " ")
        );
        let made = std::fs::write(&program, script).is_ok()
            && std::process::Command::new("chmod").arg("+x").arg(&program).status().is_ok();
        assert!(made);
        let Ok(runner) = Runner::start(Settings { program, device: 0, pin_mhz: None, apart: true }) else {
            panic!("the process does not start")
        };
        let starts = || std::fs::read_to_string(&starts).unwrap_or_default().lines().count();
        assert!(runner.process().is_ok());
        assert_eq!(starts(), 1);
        let first = runner.process().map(|process| Runner::empty(&process).load("").map_err(|error| error.0));
        assert!(first.is_ok_and(|said| said == Err("no".to_owned())));
        assert!(runner.process().is_ok());
        assert_eq!(starts(), 2);
        assert!(runner.device().contains("predicted"));
    }
}
