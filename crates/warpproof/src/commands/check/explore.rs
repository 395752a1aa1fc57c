//! `check --explore`: runs a small launch in every order, within bounds, and reports how many orders were
//! run.

use std::fmt::Write as _;

use clap::Args;
use warpproof_check::{Bounds, Explored};
use warpproof_model::grouped;

/// The default number of preemptions: nearly all known bugs need at most two (Musuvathi and Qadeer, PLDI
/// 2007).
const PREEMPTIONS: u32 = 2;

#[derive(Debug, Args)]
pub(super) struct ExploreFlags {
    /// Run each launch in every order with at most N preemptions [default N: 2]
    ///
    /// Explores the orders of atomics, flags and barriers. For small launches: a few blocks of a few warps.
    /// The summary reports whether all of these orders were run.
    #[arg(
        long,
        value_name = "N",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "2",
        conflicts_with = "schedules",
        value_parser = clap::value_parser!(u32).range(..=1000)
    )]
    explore: Option<u32>,
    /// Stop `--explore` after N executions of a launch
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    executions: u32,
}

impl ExploreFlags {
    /// The bounds of the flag, or else those of the file's own line.
    pub(super) fn bounds(&self, line: Option<&str>) -> Result<Option<Bounds>, String> {
        let line = match line.map(str::trim) {
            None => None,
            Some("") => Some(PREEMPTIONS),
            Some(text) => {
                Some(text.parse().map_err(|_| format!("expected a number of preemptions, found `{text}`"))?)
            }
        };
        let executions = self.executions;
        Ok(self.explore.or(line).map(|preemptions| Bounds { preemptions, executions }))
    }
}

/// What was explored of all launches.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    preemptions: u32,
    executions: u64,
    steps: usize,
    complete: bool,
    unbounded: bool,
    asynchronous: bool,
}

impl Seen {
    pub(super) fn of(bounds: Bounds, explored: &Explored, before: Option<Seen>) -> Seen {
        let one = Seen {
            preemptions: bounds.preemptions,
            executions: u64::from(explored.executions),
            steps: explored.steps,
            complete: explored.complete,
            unbounded: explored.unbounded,
            asynchronous: explored.asynchronous,
        };
        before.map_or(one, |before| Seen {
            executions: before.executions.saturating_add(one.executions),
            steps: before.steps.max(one.steps),
            complete: before.complete && one.complete,
            unbounded: before.unbounded && one.unbounded,
            asynchronous: before.asynchronous || one.asynchronous,
            ..one
        })
    }

    /// "explored 318 orders of up to 24 steps: all with at most 2 preemptions".
    pub(super) fn sentence(&self) -> String {
        let mut text = format!("explored {} order", grouped(self.executions));
        let steps = grouped(u64::try_from(self.steps).unwrap_or(u64::MAX));
        // Writing to a string does not fail.
        let _ = write!(text, "{} of up to {steps} steps: ", if self.executions == 1 { "" } else { "s" });
        let preemptions = match self.preemptions {
            1 => "1 preemption".to_owned(),
            n => format!("{n} preemptions"),
        };
        let _ = match (self.unbounded, self.complete) {
            (true, _) => write!(text, "all distinct orders"),
            (false, true) => write!(text, "all distinct orders with at most {preemptions}"),
            (false, false) if self.asynchronous => {
                write!(
                    text,
                    "not all orders, because the times at which bulk copies and wgmma complete are not explored"
                )
            }
            (false, false) => {
                write!(text, "not all orders with at most {preemptions}; raise the limit with --executions")
            }
        };
        text
    }

    pub(super) fn json(&self) -> serde_json::Value {
        serde_json::json!({
            "executions": self.executions,
            "preemptions": self.preemptions,
            "steps": self.steps,
            "complete": self.complete,
            "all_orders": self.unbounded,
        })
    }
}
