//! One evaluation, in a process of its own: a directory with a task goes in, a ledger in it comes out.
//!
//! ```text
//! order.json      what is asked for
//! task/           the files of the bundle, and nothing else
//! cache/          the compiler, linked to, and builds
//! tmp/            temporary files
//! ledger/         what was written down
//! ```

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use serde::{Deserialize, Serialize};
use warpproof_gate::ledger::Ledger;
use warpproof_gate::runner::{Runner, Settings, this_program};
use warpproof_gate::session::{Options, Session};
use warpproof_gate::stage::Clocks;
use warpproof_gate::task::{At, Candidate, Task};
use warpproof_toolchain::{Options as ToolchainOptions, Toolchain};

use crate::sandbox::{self, Limits, Reach};

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// The task file, below `task/`.
    pub task: String,
    /// The candidate, or a variant.
    pub candidate: String,
    /// What hidden shapes and secret seeds are drawn from, where somebody gave it.
    pub secret: Option<String>,
    /// Whether it is timed on the first CUDA device.
    pub timed: bool,
    /// How many steps it does at a time: its part of this machine's cores.
    pub steps: usize,
    /// How much it may use.
    pub limits: Limits,
    /// Directories it may read: the compiler.
    pub read: Vec<PathBuf>,
    /// Whether a machine that cannot keep files and calls from it may judge at all.
    pub unconfined: bool,
}

/// Why a machine judges nothing.
pub const UNCONFINED: &str = "this machine cannot keep files, processes and calls from an evaluation: that takes Linux 6.12 \
     or newer with Landlock and seccomp; `--unconfined` judges anyway";

/// The file of the order.
pub const ORDER: &str = "order.json";

/// Evaluates what the directory asks for. The process is bound from here on.
pub fn evaluate(directory: &Path) -> Result<(), String> {
    let place = directory.join(ORDER);
    let text = fs::read(&place).map_err(|error| format!("{}: {error}", place.display()))?;
    let order: Order =
        serde_json::from_slice(&text).map_err(|error| format!("{}: {error}", place.display()))?;
    let (mut read, mut write) = (order.read.clone(), vec![directory.to_owned()]);
    let mut limits = order.limits;
    if order.timed {
        // A GPU's driver reserves more addresses than any machine has memory.
        limits.memory_bytes = u64::MAX;
        write.extend(sandbox::gpu_devices());
        // A device is driven by a process of its own, which is this program once more.
        read.extend(std::env::current_exe());
    }
    let held = sandbox::confine(&limits, &Reach { read, write })?;
    if !held.is_whole() && !order.unconfined {
        return Err(UNCONFINED.to_owned());
    }
    judge(directory, &order)
}

fn judge(directory: &Path, order: &Order) -> Result<(), String> {
    let place = directory.join("task").join(&order.task);
    let text = fs::read_to_string(&place).map_err(|error| format!("{}: {error}", order.task))?;
    let mut task = Task::parse(&text).map_err(|problems| {
        let first = problems.first().map_or("it is no task", |problem| &problem.sentence);
        format!("{}: {first}", order.task)
    })?;
    if let Some(variant) = task.variant_named(&order.candidate) {
        let name = At::unsaid(order.candidate.clone());
        task.candidates.push(variant.map(|one| Candidate { name, ..one })?);
    }
    let secret = order.secret.as_deref().map(|secret| u64::from_str_radix(secret, 16)).transpose();
    let secret = secret.map_err(|_| "the secret is no hexadecimal number".to_owned())?;
    let toolchain = Toolchain::partial(&ToolchainOptions::from_env());
    let ledger = Ledger::create(directory.join("ledger")).map_err(|error| error.to_string())?;
    let runner = if order.timed {
        let absent = |error| format!("there is no CUDA device: {error}");
        let settings = Settings { program: this_program().map_err(absent)?, device: 0, pin_mhz: None };
        Some(Runner::start(settings).map_err(absent)?)
    } else {
        None
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
        jobs: if order.timed { 1 } else { order.steps.max(1) },
        secret,
        arguments,
        ..Options::default()
    };
    session.run(&options, &|_| {}).map(|_| ()).map_err(|error| error.to_string())
}
