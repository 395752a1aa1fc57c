//! A CUDA device behind another process: a Python program that talks to NVIDIA's driver, and to us in lines of JSON.
//!
//! It is what there is until the driver is opened from Rust. The gate stays what it is: its plan asks for batches in its own
//! order, and the process does nothing but load, launch and time. Rungs of the attention ladder are timed; kernels of other tasks
//! are not yet. **Not tested on hardware**: tests run it on a stand-in for the driver's library.

use std::fmt;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use serde_json::{Value, json};
use warpproof_kernels::attention::{Addresses, Answer, Attention};
use warpproof_kernels::gpu::{Geometry, Gpu, Use};
use warpproof_kernels::plan::Plan;

use crate::reference::attention::generate;
use crate::speed::{Clock, ClockError, Origin, Reading, Sample, Side};
use crate::stage::{self, Clocks, Programs};
use crate::task::{L2, Size, Task};

/// The program.
const SCRIPT: &str = include_str!("runner/cuda.py");
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_mins(2);
/// How long a process that was killed may take to go. One that waits for a device that hangs may never.
const GOING: Duration = Duration::from_secs(2);
/// The most launches of a batch: it is one graph, and a graph has a node for each.
const LAUNCHES: u32 = 4096;
/// The driver's library and the management library, and the variables that replace them, as tests do.
const LIBCUDA: (&str, &str) = ("WARPPROOF_LIBCUDA", "libcuda.so.1");
const LIBNVML: (&str, &str) = ("WARPPROOF_LIBNVML", "libnvidia-ml.so.1");
/// The tick of event timers as NVIDIA documents it: half a microsecond.
const TICK_PS: u64 = 500_000;

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

/// The process.
#[derive(Debug)]
struct Process {
    child: Child,
    input: Option<ChildStdin>,
    answers: Receiver<String>,
    patience: Duration,
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}

impl Process {
    fn start() -> Result<Process, RunnerError> {
        let python = crate::reference::python::interpreter();
        let failed = |cause: std::io::Error| {
            RunnerError(format!("cannot run {}: {cause}", std::path::Path::new(&python).display()))
        };
        let child = Command::new(&python)
            // Isolated: neither variables nor modules that lie about change what runs.
            .args(["-I", "-c", SCRIPT])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(failed)?;
        Ok(Process::of(child))
    }

    /// A process whose input and output are pipes.
    fn of(mut child: Child) -> Process {
        let (to, answers) = channel();
        if let Some(out) = child.stdout.take() {
            std::thread::spawn(move || {
                for line in BufReader::new(out).lines() {
                    let Ok(line) = line else { break };
                    if to.send(line).is_err() {
                        break;
                    }
                }
            });
        }
        let input = child.stdin.take();
        Process { child, input, answers, patience: PATIENCE }
    }

    /// Ends the process; no more is asked of it.
    fn end(&mut self) {
        self.input = None;
        let _gone = self.child.kill();
        let step = Duration::from_millis(10);
        let mut waited = Duration::ZERO;
        while waited < GOING && matches!(self.child.try_wait(), Ok(None)) {
            std::thread::sleep(step);
            waited += step;
        }
    }

    /// Asks, and waits for the answer. What the device refuses is an error like others; but once an answer is late or not
    /// understood, nobody knows any more which answer is whose, and the process is ended.
    fn ask(&mut self, request: &Value) -> Result<Value, RunnerError> {
        let answer = self.exchange(request);
        if answer.is_err() {
            self.end();
        }
        let answer = answer?;
        match answer.get("error").and_then(Value::as_str) {
            Some(said) => Err(RunnerError(said.to_owned())),
            None => Ok(answer),
        }
    }

    /// One request and the line that answers it. Every error is one of the protocol.
    fn exchange(&mut self, request: &Value) -> Result<Value, RunnerError> {
        let gone = || RunnerError("the process that drives the device has ended".to_owned());
        let input = self.input.as_mut().ok_or_else(gone)?;
        let written = writeln!(input, "{request}").and_then(|()| input.flush());
        written.map_err(|_| gone())?;
        let line = self.answers.recv_timeout(self.patience).map_err(|error| match error {
            RecvTimeoutError::Timeout => {
                RunnerError(format!("the device gave no answer for {} s", self.patience.as_secs()))
            }
            RecvTimeoutError::Disconnected => gone(),
        })?;
        let answer: Option<Value> = serde_json::from_str(&line).ok();
        let answer = answer.filter(Value::is_object);
        answer.ok_or_else(|| RunnerError("an answer is no JSON object".to_owned()))
    }
}

/// A CUDA device that another process drives.
#[derive(Debug)]
pub struct Runner<'t> {
    task: &'t Task,
    device: String,
    /// A library was replaced: what comes out is no measurement.
    replaced: bool,
    process: Arc<Mutex<Process>>,
}

impl<'t> Runner<'t> {
    /// Starts the process and asks for the first device.
    pub fn start(task: &'t Task) -> Result<Runner<'t>, RunnerError> {
        let mut process = Process::start()?;
        let library = |(variable, usual): (&str, &str)| match std::env::var_os(variable) {
            Some(other) => (other.to_string_lossy().into_owned(), true),
            None => (usual.to_owned(), false),
        };
        let ((libcuda, driver), (libnvml, management)) = (library(LIBCUDA), library(LIBNVML));
        let answer = process.ask(&json!({ "op": "open", "libcuda": libcuda, "libnvml": libnvml }))?;
        let mut device = answer.get("device").and_then(Value::as_str).unwrap_or("a CUDA device").to_owned();
        if driver {
            device.push_str(", driver library replaced");
        }
        if management {
            device.push_str(", management library replaced");
        }
        let replaced = driver || management;
        Ok(Runner { task, device, replaced, process: Arc::new(Mutex::new(process)) })
    }

    /// Nothing yet, on the device.
    fn empty(&self) -> Prepared {
        let gpu = Remote { process: self.process.clone(), modules: Vec::new(), keep: None };
        Prepared { gpu, launches: Vec::new(), memory: Vec::new() }
    }

    /// A side, loaded and found right.
    fn prepare(&self, side: stage::Side<'_>, size: &Size) -> Result<Prepared, ClockError> {
        let (candidate, built) = side;
        let Programs::Rung { plans } = &built.programs else {
            let name = &candidate.name.value;
            return Err(ClockError::Device(format!(
                "`{name}` is not timed: the runner launches rungs of the attention ladder alone"
            )));
        };
        let missing = || ClockError::Device(format!("there is no plan for {}", size.name));
        let (plan, ptx) = plans.get(&size.name).ok_or_else(missing)?;
        self.load(plan, ptx, &format!("{} of {}", candidate.name.value, size.name))
    }

    fn load(&self, plan: &Plan, ptx: &str, name: &str) -> Result<Prepared, ClockError> {
        let failed = |error: String| ClockError::Device(format!("{name}: {error}"));
        let Some(distribution) = self.task.data.distributions.first() else {
            return Err(failed("the task has no distribution".to_owned()));
        };
        let seed = self.task.data.seeds.first().copied().unwrap_or_default();
        let inputs = generate(plan, &distribution.values, seed).map_err(|error| failed(error.to_string()))?;
        if plan.varlen() || plan.request.lse {
            return Err(failed("sequences of different lengths and log-sum-exp are not timed".to_owned()));
        }
        // Whatever is on the device is held by this, and given back where something fails.
        let mut held = self.empty();
        let attention =
            Attention::load(plan.clone(), ptx, &mut held.gpu).map_err(|error| failed(error.to_string()))?;
        let floats = |values: &[f32]| values.iter().flat_map(|one| one.to_le_bytes()).collect::<Vec<u8>>();
        let mut at = Addresses::default();
        for (to, tensor) in
            [&mut at.q, &mut at.k, &mut at.v].into_iter().zip([&inputs.q, &inputs.k, &inputs.v])
        {
            to.0 = held.put(&tensor.codes)?;
            to.1 = held.put(&floats(&tensor.scales))?;
        }
        // What a kernel leaves unwritten is NaN.
        if plan.workspace > 0 {
            at.workspace = held.put(&plan.blank_workspace())?;
        }
        let bytes = inputs.q.rows.elements() * size_of::<u16>();
        at.o = held.put(&vec![0xff; bytes])?;
        attention.launch(&mut held.gpu, &at).map_err(|error| failed(error.to_string()))?;
        let output = held.gpu.read(&Block { address: at.o, bytes });
        let output = output.map_err(|error| failed(error.to_string()))?;
        let output = output.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]])).collect();
        let oracles = plan.oracles(&inputs).map_err(|error| failed(error.to_string()))?;
        let verdict = oracles.judge(&Answer { output, lse: None });
        if !verdict.judgement.passed {
            let why: Vec<String> = verdict.judgement.reasons.iter().map(ToString::to_string).collect();
            return Err(ClockError::Output(format!("{name}: {}", why.join("; "))));
        }
        // The launches as they are timed: written down instead of done.
        held.gpu.keep = Some(Vec::new());
        attention.launch(&mut held.gpu, &at).map_err(|error| failed(error.to_string()))?;
        held.launches = held.gpu.keep.take().unwrap_or_default();
        Ok(held)
    }
}

impl Clocks for Runner<'_> {
    fn device(&self) -> String {
        self.device.clone()
    }

    fn clock<'c>(
        &'c self,
        baseline: stage::Side<'c>,
        candidate: stage::Side<'c>,
        size: &Size,
        l2: L2,
    ) -> Result<Box<dyn Clock + 'c>, ClockError> {
        let baseline = self.prepare(baseline, size)?;
        let candidate = self.prepare(candidate, size)?;
        let origin =
            if self.replaced { Origin::Synthetic } else { Origin::Measured { device: self.device.clone() } };
        Ok(Box::new(Timed { origin, baseline, candidate, cold: l2 == L2::Cold }))
    }
}

/// Memory of the device.
#[derive(Clone, Copy, Debug)]
struct Block {
    address: u64,
    bytes: usize,
}

/// The device as the library sees it.
#[derive(Debug)]
struct Remote {
    process: Arc<Mutex<Process>>,
    /// What was loaded through it.
    modules: Vec<u64>,
    /// Launches that are written down, where they are not to be done.
    keep: Option<Vec<Value>>,
}

impl Remote {
    fn ask(&self, request: &Value) -> Result<Value, RunnerError> {
        // Who panicked may have left an answer unread.
        let mut process: MutexGuard<'_, Process> = self.process.lock().unwrap_or_else(|poisoned| {
            let mut process = poisoned.into_inner();
            process.end();
            process
        });
        process.ask(request)
    }

    fn number(&self, request: &Value, field: &str) -> Result<u64, RunnerError> {
        let answer = self.ask(request)?;
        let missing = || RunnerError(format!("an answer has no {field}"));
        answer.get(field).and_then(Value::as_u64).ok_or_else(missing)
    }
}

impl Gpu for Remote {
    type Memory = Block;
    type Module = u64;
    type Error = RunnerError;

    fn load(&mut self, ptx: &str) -> Result<u64, RunnerError> {
        let module = self.number(&json!({ "op": "load", "ptx": ptx }), "module")?;
        self.modules.push(module);
        Ok(module)
    }

    fn allocate(&mut self, _: &str, bytes: usize, _: Use) -> Result<Block, RunnerError> {
        let address = self.number(&json!({ "op": "allocate", "bytes": bytes }), "address")?;
        Ok(Block { address, bytes })
    }

    fn free(&mut self, memory: Block) -> Result<(), RunnerError> {
        self.ask(&json!({ "op": "free", "address": memory.address })).map(|_| ())
    }

    fn address(&self, memory: &Block) -> u64 {
        memory.address
    }

    fn write(&mut self, memory: &Block, bytes: &[u8]) -> Result<(), RunnerError> {
        self.ask(&json!({ "op": "write", "address": memory.address, "hex": hex(bytes) })).map(|_| ())
    }

    fn read(&mut self, memory: &Block) -> Result<Vec<u8>, RunnerError> {
        let answer = self.ask(&json!({ "op": "read", "address": memory.address, "bytes": memory.bytes }))?;
        let text = answer.get("hex").and_then(Value::as_str).unwrap_or_default();
        let bytes: Option<Vec<u8>> =
            (0..memory.bytes).map(|at| u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok()).collect();
        bytes.ok_or_else(|| RunnerError("an answer has too few bytes".to_owned()))
    }

    fn launch(
        &mut self,
        module: &u64,
        kernel: &str,
        geometry: Geometry,
        params: &[u8],
    ) -> Result<(), RunnerError> {
        let launch = json!({
            "module": module,
            "kernel": kernel,
            "grid": geometry.grid,
            "block": geometry.block,
            "shared": geometry.shared,
            "params": hex(params),
        });
        match &mut self.keep {
            Some(kept) => {
                kept.push(launch);
                Ok(())
            }
            None => self.ask(&json!({ "op": "launch", "launches": [launch] })).map(|_| ()),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    use fmt::Write as _;
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// A program on the device, with its inputs.
#[derive(Debug)]
struct Prepared {
    gpu: Remote,
    launches: Vec<Value>,
    memory: Vec<Block>,
}

impl Prepared {
    /// Brings bytes to the device, and says where they are.
    fn put(&mut self, bytes: &[u8]) -> Result<u64, RunnerError> {
        let one = self.gpu.allocate("", bytes.len().max(1), Use::Input)?;
        self.memory.push(one);
        self.gpu.write(&one, bytes)?;
        Ok(one.address)
    }
}

impl Drop for Prepared {
    fn drop(&mut self) {
        // A device that is gone has given everything back.
        for module in std::mem::take(&mut self.gpu.modules) {
            let _gone = self.gpu.ask(&json!({ "op": "unload", "module": module }));
        }
        for one in std::mem::take(&mut self.memory) {
            let _gone = self.gpu.free(one);
        }
    }
}

/// Times two programs in turn.
#[derive(Debug)]
struct Timed {
    origin: Origin,
    baseline: Prepared,
    candidate: Prepared,
    cold: bool,
}

impl Clock for Timed {
    fn origin(&self) -> Origin {
        self.origin.clone()
    }

    fn resolution_hint_ps(&self) -> Option<u64> {
        Some(TICK_PS)
    }

    fn launch_limit(&self) -> u32 {
        // After the first launch the cache is warm.
        if self.cold { 1 } else { LAUNCHES }
    }

    fn time(&mut self, side: Side, launches: u32) -> Result<Sample, ClockError> {
        let one = match side {
            Side::Baseline => &self.baseline,
            Side::Candidate => &self.candidate,
        };
        let request =
            json!({ "op": "time", "launches": one.launches, "repeat": launches, "cold": self.cold });
        let answer = one.gpu.ask(&request)?;
        let elapsed_ps = answer.get("elapsed_ps").and_then(Value::as_u64);
        let elapsed_ps = elapsed_ps.ok_or_else(|| ClockError::Device("an answer has no time".to_owned()))?;
        let reading = |field: &str| -> Reading {
            let value = answer.get(field).cloned().unwrap_or_default();
            serde_json::from_value(value).unwrap_or_default()
        };
        Ok(Sample { elapsed_ps, before: reading("before"), after: reading("after") })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process that answers with what is given to it, whatever is asked.
    fn answering(script: &str) -> Option<Process> {
        let child =
            Command::new("sh").args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        Some(Process::of(child.ok()?))
    }

    #[test]
    fn after_an_answer_that_is_not_understood_nothing_is_asked() {
        let Some(mut process) = answering("read a; echo nonsense; read b; echo '{}'; cat") else { return };
        let said = process.ask(&json!({})).map_err(|error| error.0);
        assert_eq!(said, Err("an answer is no JSON object".to_owned()));
        assert!(matches!(process.child.try_wait(), Ok(Some(_))));
        let said = process.ask(&json!({})).map_err(|error| error.0);
        assert_eq!(said, Err("the process that drives the device has ended".to_owned()));
    }

    #[test]
    fn a_late_answer_is_not_taken_for_the_next() {
        let script = r#"read a; sleep 1; echo '{"of": 1}'; read b; echo '{"of": 2}'; cat"#;
        let Some(mut process) = answering(script) else { return };
        process.patience = Duration::from_millis(50);
        assert!(process.ask(&json!({})).is_err_and(|error| error.0.contains("no answer")));
        std::thread::sleep(Duration::from_millis(1200));
        assert!(process.ask(&json!({})).is_err_and(|error| error.0.contains("has ended")));
    }

    #[test]
    fn what_the_device_refuses_ends_nothing() {
        let Some(mut process) = answering(r#"read a; echo '{"error": "no"}'; read b; echo '{}'; cat"#) else {
            return;
        };
        assert!(process.ask(&json!({})).is_err_and(|error| error.0 == "no"));
        assert!(process.ask(&json!({})).is_ok());
    }
}
