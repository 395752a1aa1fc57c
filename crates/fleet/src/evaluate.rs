//! One evaluation in a separate process: reads a task from a directory and writes a ledger to it.
//!
//! ```text
//! order.json      the order
//! task/           the files of the bundle, and nothing else
//! cache/          the compiler, linked to, and builds
//! tmp/            temporary files; each call of a Python reference may write only to its own directory here
//! ledger/         the records
//! ```

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use serde::{Deserialize, Serialize};
use warpproof_evidence::ledger::Ledger;
use warpproof_evidence::record::Stage;
use warpproof_gate::limits::Allowance;
use warpproof_gate::runner::{Runner, Settings, this_program};
use warpproof_gate::session::{Options, Screening, Session};
use warpproof_gate::stage::Clocks;
use warpproof_sandbox::{self as sandbox, Limits, Reach};
use warpproof_task::{At, Candidate, Task};
use warpproof_toolchain::{Options as ToolchainOptions, Toolchain};

/// The order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// The task file, below `task/`.
    pub task: String,
    /// The candidate, or a variant.
    pub candidate: String,
    /// A secret chosen by the user: adds cases to the drawn ones.
    pub secret: Option<String>,
    /// The stages to run; `None`: all.
    pub stages: Option<Vec<Stage>>,
    /// The number of the CUDA device, used exclusively; `None` if it is not timed.
    pub device: Option<u32>,
    /// The number of parallel steps: its share of this machine's cores.
    pub steps: usize,
    /// The resource limits.
    pub limits: Limits,
    /// Directories it may read: the compiler.
    pub read: Vec<PathBuf>,
    /// Whether to evaluate on a machine that cannot sandbox it.
    pub unconfined: bool,
}

/// Why a machine refuses to evaluate.
pub const UNCONFINED: &str = "this machine cannot sandbox evaluations: this requires Linux 6.12 or later with Landlock and \
     seccomp; use `--unconfined` to evaluate anyway";

/// Limit of warp instructions per launch: more than an evaluation can execute in its time.
const INSTRUCTIONS: u64 = 20_000_000_000;

/// The file of the order.
pub const ORDER: &str = "order.json";

/// Evaluates the order in the directory. The process is sandboxed from here on.
pub fn evaluate(directory: &Path) -> Result<(), String> {
    let place = directory.join(ORDER);
    let text = fs::read(&place).map_err(|error| format!("{}: {error}", place.display()))?;
    let order: Order =
        serde_json::from_slice(&text).map_err(|error| format!("{}: {error}", place.display()))?;
    let (mut read, mut write) = (order.read.clone(), vec![directory.to_owned()]);
    let mut limits = order.limits;
    // The process that drives a device is this same program, started again.
    read.extend(std::env::current_exe());
    if order.device.is_some() {
        // A GPU's driver reserves more address space than any machine has memory.
        limits.memory_bytes = u64::MAX;
        write.extend(sandbox::gpu_devices());
        // Files of the CUDA driver found on this machine.
        read.extend(sandbox::gpu_files());
    }
    let held = sandbox::confine(&limits, &Reach { read, write, programs: true, files_of_others: false })?;
    if !held.is_whole() && !order.unconfined {
        return Err(UNCONFINED.to_owned());
    }
    judge(directory, &order)
}

fn judge(directory: &Path, order: &Order) -> Result<(), String> {
    let place = directory.join("task").join(&order.task);
    let text = fs::read_to_string(&place).map_err(|error| format!("{}: {error}", order.task))?;
    let mut task = Task::parse(&text).map_err(|problems| {
        let first = problems.first().map_or("it is not a task", |problem| &problem.sentence);
        format!("{}: {first}", order.task)
    })?;
    if let Some(variant) = task.variant_named(&order.candidate) {
        let name = At::unsaid(order.candidate.clone());
        task.candidates.push(variant.map(|one| Candidate { name, ..one })?);
    }
    let chosen = order.secret.as_deref().map(|secret| u64::from_str_radix(secret, 16)).transpose();
    let chosen = chosen.map_err(|_| "expected a hexadecimal secret".to_owned())?;
    let toolchain = Toolchain::partial(&ToolchainOptions::from_env());
    let ledger = Ledger::passing(directory.join("ledger")).map_err(|error| error.to_string())?;
    let runner = match order.device {
        Some(device) => {
            let absent = |error| format!("CUDA device {device} not found: {error}");
            // It ends with this process, like every child process.
            let (program, apart) = (this_program().map_err(absent)?, false);
            Some(Runner::start(Settings { program, device, pin_mhz: None, apart }).map_err(absent)?)
        }
        None => None,
    };
    let stop = AtomicBool::new(false);
    let session = Session {
        task: &task,
        text: &text,
        directory: place.parent().unwrap_or(directory),
        toolchain: &toolchain,
        ledger: &ledger,
        clocks: runner.as_ref().map(|runner| -> &dyn Clocks { runner }),
        stop: &stop,
    };
    let mut arguments = vec!["gate".to_owned(), order.task.clone(), order.candidate.clone()];
    arguments.extend(order.secret.as_ref().map(|secret| format!("--secret={secret}")));
    let options = Options {
        candidates: vec![order.candidate.clone()],
        jobs: if order.device.is_some() { 1 } else { order.steps.max(1) },
        chosen,
        arguments,
        // The reference shares only the task's files (read-only) and its own temporary directory with the evaluation. In particular
        // it cannot access the ledger, which contains its verdict, or the order, which contains the secret.
        confined: !order.unconfined,
        // The worker limits time and memory of the whole evaluation.
        allowance: Allowance::new(Some(INSTRUCTIONS), Some(order.limits.memory_bytes / 2)),
        ..Options::default()
    };
    let ended = match &order.stages {
        None => session.run(&options, &|_| {}).map(|_| ()),
        Some(stages) => {
            let absent = |stage: &&Stage| !task.gates.iter().any(|gate| gate.stage.value == **stage);
            if let Some(stage) = stages.iter().find(absent) {
                return Err(format!("the task has no stage {stage}"));
            }
            let screening = Screening {
                candidates: &options.candidates,
                stages: Some(stages),
                programs: &BTreeMap::new(),
                names_programs: true,
            };
            session.screen(&screening, &options, &|_| {}).map(|_| ())
        }
    };
    ended.map_err(|error| error.to_string())
}
