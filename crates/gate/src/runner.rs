//! A CUDA device behind another process: this program once more, which opens the driver and is told in lines of JSON what to do.
//!
//! A candidate can hang a device or leave its context unusable; the process goes, and the gate stays. Its plan asks for batches in
//! its own order, and the process does nothing but load, launch and time. Rungs of the attention ladder and kernels of any task are
//! held against their reference on the device first. Where the driver is Warpproof's own, over the software GPU, every time is a
//! prediction. **Not tested on hardware.**

mod process;
mod protocol;
mod serve;

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use warpproof_gpu::{Batch, Identity, Launch, Memory, ModuleId, ncu};
use warpproof_kernels::attention::Attention;
use warpproof_kernels::gpu::{Geometry, Gpu, Use};
use warpproof_kernels::plan::Plan;

pub use process::SUBCOMMAND;
pub(crate) use process::apart;
pub use serve::serve;

use crate::reference::attention::generate;
use crate::speed::{Clock, ClockError, Origin, Sample, Side};
use crate::stage::{self, Bench, Clocks, Profiled, Programs};
use crate::task::{L2, Size};
use process::Process;
use protocol::{Answer, Request, bytes, hex};

/// The most launches of a batch: it is one graph, and a graph has a node for each.
const LAUNCHES: u32 = 4096;
/// The tick of event timers as NVIDIA documents it: half a microsecond.
const TICK_PS: u64 = 500_000;
/// Predictions are given in whole nanoseconds.
const PREDICTED_TICK_PS: u64 = 1_000;
/// The setting of Warpproof's own driver that says what its event clock is made of.
const EVENT_CLOCK: &str = "WARPPROOF_CLOCK";
/// How long Nsight Compute may take: it runs a launch once for each group of counters.
const PROFILING: Duration = Duration::from_mins(2);

/// What the process, or the device behind it, said went wrong.
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

/// An answer of another kind than what was asked for.
fn unexpected() -> RunnerError {
    RunnerError("an answer is none to what was asked".to_owned())
}

/// The process, as all that was brought to the device through it hold it.
type Shared = Arc<Mutex<Process>>;

/// Which device, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The program that serves as [`SUBCOMMAND`]: `warpproof` itself.
    pub program: PathBuf,
    /// The device's number.
    pub device: u32,
    /// MHz at which the clock of the multiprocessors shall stay, where that is permitted.
    pub pin_mhz: Option<u32>,
    /// Whether processes for it have a group of their own, which an interrupt at the keyboard does not reach. Whoever is to end
    /// together with all that it has started has none.
    pub apart: bool,
}

/// A CUDA device that another process drives.
#[derive(Debug)]
pub struct Runner {
    settings: Settings,
    identity: Identity,
    /// What the event clock of Warpproof's own driver is made of, as its setting says.
    event_clock: String,
    /// What was not done, and why.
    pub notes: Vec<String>,
    process: Mutex<Shared>,
}

impl Runner {
    /// Starts the process and opens the device.
    pub fn start(settings: Settings) -> Result<Runner, RunnerError> {
        let (process, identity, notes) = open(&settings)?;
        // The process has this environment; the driver's own default is `issue`.
        let event_clock = std::env::var(EVENT_CLOCK).ok().filter(|set| !set.is_empty());
        let event_clock = event_clock.unwrap_or_else(|| "issue".to_owned());
        Ok(Runner { settings, identity, event_clock, notes, process: Mutex::new(process) })
    }

    /// The process; another one where something went wrong with the last: a candidate that harms a context harms its own alone.
    fn process(&self) -> Result<Shared, RunnerError> {
        let mut held = self.process.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if lock(&held).is_spoiled() {
            // Its end lets go of clocks that it pinned; were it later, those of the next would go.
            lock(&held).end();
            let (process, identity, notes) = open(&self.settings)?;
            if identity != self.identity {
                return Err(RunnerError(format!("the device is now {identity}, and was {}", self.identity)));
            }
            // What is timed now would be timed under other conditions than the rest.
            if notes != self.notes {
                let told = if notes.is_empty() {
                    "pinned as it was not before".to_owned()
                } else {
                    notes.join("; ")
                };
                return Err(RunnerError(format!("the device was opened again: {told}")));
            }
            *held = process;
        }
        Ok(held.clone())
    }

    /// Nothing yet, on the device.
    fn empty(process: &Shared) -> Remote {
        Remote { process: process.clone(), modules: Vec::new(), memory: Vec::new(), launches: Vec::new() }
    }

    /// A side, loaded and found right; its launches are as they are timed.
    fn prepare(
        &self,
        process: &Shared,
        bench: &Bench<'_>,
        side: stage::Side<'_>,
        size: &Size,
    ) -> Result<Remote, ClockError> {
        // Whatever is on the device is held by this, and given back where something fails.
        let mut held = Runner::empty(process);
        let (candidate, built) = side;
        match &built.programs {
            Programs::Rung { plans } => {
                let missing = || ClockError::Device(format!("there is no plan for {}", size.name));
                let (plan, ptx) = plans.get(&size.name).ok_or_else(missing)?;
                run_rung(&mut held, bench, plan, ptx, &format!("{} of {}", candidate.name.value, size.name))?;
            }
            Programs::Launched { .. } => {
                let staged = bench.staged(side, size, self.identity.capability)?;
                run_staged(&mut held, &staged)?;
            }
        }
        Ok(held)
    }

    /// Runs a side once under Nsight Compute, in a process of its own.
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
        // It writes its table when the program has ended.
        if lock(&process).finish(PROFILING).is_none() {
            return Err(RunnerError(format!("ncu did not end within {} s", PROFILING.as_secs())));
        }
        let text = std::fs::read_to_string(&log);
        let text = text.map_err(|error| RunnerError(format!("ncu wrote no table: {error}")))?;
        ncu::parse(&text).map_err(RunnerError)
    }
}

/// Starts the process and opens the device; what was not done is told with why.
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

/// Loads a rung, runs it and holds its answer against the oracles.
fn run_rung(
    held: &mut Remote,
    bench: &Bench<'_>,
    plan: &Plan,
    ptx: &str,
    name: &str,
) -> Result<(), ClockError> {
    let failed = |error: &dyn fmt::Display| ClockError::Device(format!("{name}: {error}"));
    let Some(distribution) = bench.measured_distribution() else {
        return Err(failed(&"the task has no distribution"));
    };
    let inputs =
        generate(plan, &distribution.values, bench.measured_seed()).map_err(|error| failed(&error))?;
    let attention = Attention::load(plan.clone(), ptx, held).map_err(|error| failed(&error))?;
    let answer = attention.run(held, &inputs.q, &inputs.k, &inputs.v).map_err(|error| failed(&error))?;
    let oracles = plan.oracles(&inputs).map_err(|error| failed(&error))?;
    let verdict = oracles.judge(&answer);
    if !verdict.judgement.passed {
        let why: Vec<String> = verdict.judgement.reasons.iter().map(ToString::to_string).collect();
        return Err(ClockError::Output(format!("{name}: {}", why.join("; "))));
    }
    Ok(())
}

/// Loads a candidate with launches of its own, runs it and holds its outputs against the reference.
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

/// The device as the library sees it, with all that was brought there. What was launched is written down, for the clock to launch
/// again, and memory is given back at the end only.
#[derive(Debug)]
struct Remote {
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

    /// Launches, and remembers how.
    fn run(&mut self, launch: Launch) -> Result<(), RunnerError> {
        self.tell(&Request::Launch { launch: launch.clone() })?;
        self.launches.push(launch);
        Ok(())
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        // A device that is gone has given everything back.
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
        // The launches are done again, on this very memory.
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
        all.ok_or_else(|| RunnerError("an answer has too few bytes".to_owned()))
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
    /// Predictions that were made: a model has no noise, so each is made once.
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
        // After the first launch the cache is warm; and a second prediction says what the first did.
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

/// The program that runs now, as who serves.
pub fn this_program() -> Result<PathBuf, RunnerError> {
    std::env::current_exe()
        .map_err(|cause| RunnerError(format!("this program's own file is not known: {cause}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_mistake_another_process_is_started() {
        let Ok(folder) = tempfile::tempdir() else { return };
        let (program, starts) = (folder.path().join("program"), folder.path().join("starts"));
        // Stands for the program: opens, and then refuses everything.
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
            panic!("it does not start")
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
