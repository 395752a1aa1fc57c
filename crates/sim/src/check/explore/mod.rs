//! All orders of a small launch: what `loom` does for Rust, for the warps of a kernel.
//!
//! The launch is run again and again from the same memory. Each time another order is taken of the steps, the instructions by which
//! threads can notice each other, until every order with at most so many preemptions has been seen, up to orders that differ in
//! nothing that anyone can notice. All checks listen to every run.
//!
//! Can miss: what takes more preemptions than the bound; sums of floats are taken to be the same in every order; what a weak
//! memory shows although no order of the steps does, unless it is a race. Never reports: what no order of the steps shows.

mod log;
mod search;

pub(crate) use log::Log;

use super::Checked;
use super::schedules::Runs;
use super::settings::Settings;
use super::site;
use crate::{Device, Launch};
use search::Search;
use std::sync::Arc;

/// What an exploration may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Switches away from a warp that could have continued, in one execution.
    pub preemptions: u32,
    /// Executions.
    pub executions: u32,
}

/// What an exploration saw.
#[derive(Debug)]
pub struct Explored {
    /// The first execution, with the findings of all.
    pub checked: Checked,
    /// How many there were.
    pub executions: u32,
    /// Steps of the longest.
    pub steps: usize,
    /// Whether every order within the bound on preemptions was seen.
    pub complete: bool,
    /// Whether there are no orders beyond that bound.
    pub unbounded: bool,
}

impl Device {
    /// Runs a launch with checks in every order of its steps, within the bounds. Memory is left as the first execution leaves
    /// it. `progress` is told of every execution.
    pub fn explore(
        &mut self,
        launch: &Launch,
        settings: &Settings,
        bounds: Bounds,
        progress: &mut dyn FnMut(u32),
    ) -> Explored {
        let log = Arc::new(Log::default());
        let mut search = Search::new(log.clone(), site::combines(&launch.program()), bounds.preemptions);
        let before = self.memory().clone();
        let (checked, writers) = self.check_guided(launch, settings, Some((&mut search, &log)));
        let mut runs = Runs::new(launch, settings, checked, writers, self.memory().clone());
        let mut executions = 1;
        progress(executions);
        let mut more = search.turn();
        while more && executions < bounds.executions && !runs.limited() {
            self.memory().restore(&before);
            let (other, _) = self.check_guided(launch, settings, Some((&mut search, &log)));
            runs.add(other, self.memory(), !search.ended_early);
            executions += 1;
            progress(executions);
            more = search.turn();
        }
        self.memory().restore(&runs.after);
        let complete = !more && !search.cut && !runs.limited();
        Explored {
            executions,
            steps: search.longest,
            complete,
            unbounded: complete && search.beyond == 0,
            checked: runs.end(),
        }
    }
}
