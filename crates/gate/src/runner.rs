//! A CUDA device behind another process: a Python program that talks to NVIDIA's driver, and to us in lines of JSON.
//!
//! It is what there is until the driver is opened from Rust. The gate stays what it is: its plan asks for batches in its own
//! order, and the process does nothing but load, launch and time. Rungs of the attention ladder are timed; kernels of other tasks
//! are not yet. **Not tested on hardware**: tests run it on a stand-in for the driver's library.

use std::fmt;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
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
}

impl Drop for Process {
    fn drop(&mut self) {
        // Without input it ends; one that hangs is ended.
        self.input = None;
        let _gone = self.child.kill();
        let _waited = self.child.wait();
    }
}

impl Process {
    fn start() -> Result<Process, RunnerError> {
        let python = crate::reference::python::interpreter();
        let failed = |cause: std::io::Error| {
            RunnerError(format!("cannot run {}: {cause}", std::path::Path::new(&python).display()))
        };
        let mut child = Command::new(&python)
            .args(["-c", SCRIPT])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(failed)?;
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
        Ok(Process { child, input, answers })
    }

    fn ask(&mut self, request: &Value) -> Result<Value, RunnerError> {
        let gone = || RunnerError("the process that drives the device has ended".to_owned());
        let input = self.input.as_mut().ok_or_else(gone)?;
        let written = writeln!(input, "{request}").and_then(|()| input.flush());
        written.map_err(|_| gone())?;
        let line = self.answers.recv_timeout(PATIENCE).map_err(|error| match error {
            RecvTimeoutError::Timeout => {
                RunnerError(format!("the device gave no answer for {} s", PATIENCE.as_secs()))
            }
            RecvTimeoutError::Disconnected => gone(),
        })?;
        let answer: Value =
            serde_json::from_str(&line).map_err(|_| RunnerError("an answer is no JSON".to_owned()))?;
        match answer.get("error").and_then(Value::as_str) {
            Some(said) => Err(RunnerError(said.to_owned())),
            None => Ok(answer),
        }
    }
}

/// A CUDA device that another process drives.
#[derive(Debug)]
pub struct Runner<'t> {
    task: &'t Task,
    device: String,
    process: Arc<Mutex<Process>>,
}

impl<'t> Runner<'t> {
    /// Starts the process and asks for the first device.
    pub fn start(task: &'t Task) -> Result<Runner<'t>, RunnerError> {
        let mut process = Process::start()?;
        let answer = process.ask(&json!({ "op": "open" }))?;
        let device = answer.get("device").and_then(Value::as_str).unwrap_or("a CUDA device").to_owned();
        Ok(Runner { task, device, process: Arc::new(Mutex::new(process)) })
    }

    fn gpu(&self) -> Remote {
        Remote { process: self.process.clone(), keep: None }
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
        let mut gpu = self.gpu();
        let failed = |error: String| ClockError::Device(format!("{name}: {error}"));
        let Some(distribution) = self.task.data.distributions.first() else {
            return Err(failed("the task has no distribution".to_owned()));
        };
        let seed = self.task.data.seeds.first().copied().unwrap_or_default();
        let inputs = generate(plan, &distribution.values, seed).map_err(|error| failed(error.to_string()))?;
        let attention =
            Attention::load(plan.clone(), ptx, &mut gpu).map_err(|error| failed(error.to_string()))?;
        if plan.varlen() || plan.request.lse {
            return Err(failed("sequences of different lengths and log-sum-exp are not timed".to_owned()));
        }
        let mut memory = Vec::new();
        let mut put = |gpu: &mut Remote, bytes: &[u8]| {
            let one = gpu.allocate("", bytes.len().max(1), Use::Input)?;
            gpu.write(&one, bytes)?;
            memory.push(one);
            Ok::<u64, RunnerError>(one.address)
        };
        let floats = |values: &[f32]| values.iter().flat_map(|one| one.to_le_bytes()).collect::<Vec<u8>>();
        let mut at = Addresses::default();
        for (to, tensor) in
            [&mut at.q, &mut at.k, &mut at.v].into_iter().zip([&inputs.q, &inputs.k, &inputs.v])
        {
            to.0 = put(&mut gpu, &tensor.codes)?;
            to.1 = put(&mut gpu, &floats(&tensor.scales))?;
        }
        // What a kernel leaves unwritten is NaN.
        if plan.workspace > 0 {
            at.workspace = put(&mut gpu, &vec![0xff; plan.workspace])?;
        }
        let bytes = inputs.q.rows.elements() * size_of::<u16>();
        at.o = put(&mut gpu, &vec![0xff; bytes])?;
        let wrong = |error: String| failed(error);
        attention.launch(&mut gpu, &at).map_err(|error| wrong(error.to_string()))?;
        let output = gpu.read(&Block { address: at.o, bytes }).map_err(|error| wrong(error.to_string()))?;
        let output = output.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]])).collect();
        let oracles = plan.oracles(&inputs).map_err(|error| failed(error.to_string()))?;
        let verdict = oracles.judge(&Answer { output, lse: None });
        if !verdict.judgement.passed {
            let why: Vec<String> = verdict.judgement.reasons.iter().map(ToString::to_string).collect();
            return Err(ClockError::Output(format!("{name}: {}", why.join("; "))));
        }
        // The launches as they are timed: written down instead of done.
        gpu.keep = Some(Vec::new());
        attention.launch(&mut gpu, &at).map_err(|error| wrong(error.to_string()))?;
        let launches = gpu.keep.take().unwrap_or_default();
        Ok(Prepared { gpu, launches, memory })
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
        Ok(Box::new(Timed { device: self.device.clone(), baseline, candidate, cold: l2 == L2::Cold }))
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
    /// Launches that are written down, where they are not to be done.
    keep: Option<Vec<Value>>,
}

impl Remote {
    fn ask(&self, request: &Value) -> Result<Value, RunnerError> {
        // A process whose answer was not understood is asked again, and answers or has ended.
        let mut process: MutexGuard<'_, Process> =
            self.process.lock().unwrap_or_else(PoisonError::into_inner);
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
        self.number(&json!({ "op": "load", "ptx": ptx }), "module")
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

impl Drop for Prepared {
    fn drop(&mut self) {
        for one in std::mem::take(&mut self.memory) {
            // A device that is gone has given everything back.
            let _gone = self.gpu.free(one);
        }
    }
}

/// Times two programs in turn.
#[derive(Debug)]
struct Timed {
    device: String,
    baseline: Prepared,
    candidate: Prepared,
    cold: bool,
}

impl Clock for Timed {
    fn origin(&self) -> Origin {
        Origin::Measured { device: self.device.clone() }
    }

    fn resolution_hint_ps(&self) -> Option<u64> {
        Some(TICK_PS)
    }

    fn launch_limit(&self) -> u32 {
        // After the first launch the cache is warm.
        if self.cold { 1 } else { u32::MAX }
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
