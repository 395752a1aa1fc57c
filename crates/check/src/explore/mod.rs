//! Explores all schedules of a small launch, as `loom` does for Rust threads.
//!
//! The launch is run repeatedly from the same initial memory. A *step* is an instruction by which threads can observe
//! each other. Each run takes the steps in another order, until every order within the bound on preemptions has been
//! explored, except orders that no thread can distinguish. All checks observe every run.
//!
//! Can miss: bugs that need more preemptions than the bound; differences from the order of floating-point sums, which
//! count as equal; effects of the weak memory model that no order of the steps shows, unless they are races. Never
//! reports: anything that no order of the steps shows.

mod log;
mod search;

pub(crate) use log::Log;

use super::schedules::Runs;
use super::settings::Settings;
use super::site;
use super::{Checked, check_guided};
use search::Search;
use std::sync::Arc;
use warpproof_sim::isa::Op;
use warpproof_sim::{Device, Launch};

/// Limits of an exploration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Maximum number of preemptions in one execution: switches away from a warp that could have continued.
    pub preemptions: u32,
    /// Maximum number of executions.
    pub executions: u32,
}

/// The result of an exploration.
#[derive(Debug)]
pub struct Explored {
    /// The first execution, with the findings of all executions.
    pub checked: Checked,
    /// Number of executions.
    pub executions: u32,
    /// Number of steps of the longest execution.
    pub steps: usize,
    /// Whether every order within the bound on preemptions was explored.
    pub complete: bool,
    /// Whether no order exceeds that bound.
    pub unbounded: bool,
    /// Whether the kernel has bulk copies or `wgmma`. Their times are not explored, so that the exploration is never complete.
    pub asynchronous: bool,
}

/// See [`CheckLaunch::explore`](crate::CheckLaunch::explore).
pub(super) fn explore(
    device: &mut Device,
    launch: &Launch,
    settings: &Settings,
    bounds: Bounds,
    progress: &mut dyn FnMut(u32),
) -> Explored {
    let log = Arc::new(Log::default());
    let mut search = Search::new(log.clone(), site::combines(&launch.program()), bounds.preemptions);
    let before = device.memory().clone();
    let (checked, writers) = check_guided(device, launch, settings, Some((&mut search, &log)));
    let mut runs = Runs::new(launch, settings, checked, writers, device.memory().clone());
    let mut executions = 1;
    progress(executions);
    let mut more = search.turn();
    while more && executions < bounds.executions && !runs.limited() {
        device.memory().restore(&before);
        let (other, _) = check_guided(device, launch, settings, Some((&mut search, &log)));
        runs.add(other, device.memory(), !search.ended_early);
        executions += 1;
        progress(executions);
        more = search.turn();
    }
    device.memory().restore(&runs.after);
    let agent = |op: &Op| matches!(op, Op::Bulk(_) | Op::MultiplyAsync(_) | Op::Tensor(_));
    let asynchronous = launch.program().metas.iter().any(|meta| agent(&meta.op));
    let complete = !more && !search.cut && !runs.limited() && !asynchronous;
    Explored {
        executions,
        steps: search.longest,
        complete,
        unbounded: complete && search.beyond == 0,
        asynchronous,
        checked: runs.end(),
    }
}
