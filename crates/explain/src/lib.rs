//! Explains why a launch takes its time: from counters to the binding resource, the stalls, and the effect of
//! changes.
//!
//! The input is a counted launch, its PTX and NVIDIA's assembler; the output is an [`Explanation`], as data. Numbers
//! are under `counted` or `predicted`, according to their origin; none is measured. The same input gives the same
//! explanation.
//!
//! Times come in two levels. *Bounds* divide counted work by the device's rates, and are as accurate as those rates.
//! The *schedule* runs the machine code of ptxas through a model of a multiprocessor; it needs the execution count of
//! each block of machine code. If the counters do not determine those counts, the schedule is missing and the
//! explanation gives the reason.
#![forbid(unsafe_code)]

mod explained;
pub mod html;
mod machine;
mod memory;
mod phases;
mod purchase;
pub mod text;
pub mod trace;

pub use explained::{ExplainError, Request, Whole, explain};
pub use machine::Timeline;
pub use phases::Phase;

use std::collections::BTreeMap;

use serde::Serialize;
use warpproof_count::Sampling;
use warpproof_model::Resource;
use warpproof_model::bound::{Bounds, Share, Work};
use warpproof_model::schedule::Reason;

/// The version of the explanation's fields.
pub const SCHEMA: &str = "warpproof.explain/1";

/// The cost of a launch on a device, with the reasons.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Explanation {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// The launch and the device.
    pub subject: Subject,
    /// Present if only a sample of the blocks was counted: all numbers below are from counters scaled to the whole grid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sampled: Option<Sampling>,
    /// The work of the launch, as the software GPU counted it.
    pub counted: Counted,
    /// The model's predictions.
    pub predicted: Predicted,
    /// Phases that comments `// phase: name` mark in the source, in its order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<Phase>,
    /// Lines by their cost, the most expensive first.
    pub lines: Vec<Line>,
    /// Accesses with bank conflicts in shared memory, the most lost passes first. Counted.
    pub conflicts: Vec<Conflict>,
    /// Accesses that touch more sectors of global memory than their bytes fill, the largest excess first. Counted.
    pub uncoalesced: Vec<Uncoalesced>,
    /// Atomics, the most serialized first. Counted.
    pub atomics: Vec<Atomics>,
    /// Remarks on these numbers.
    pub remarks: Vec<String>,
}

/// What was launched.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Subject {
    /// The kernel's readable name.
    pub kernel: String,
    /// The device's name at NVIDIA.
    pub device: String,
    /// Its id on the command line.
    pub device_id: String,
    /// The architecture of the machine code.
    pub arch: String,
    /// The version of ptxas.
    pub ptxas: String,
    /// Blocks in each direction.
    pub grid: [u32; 3],
    /// Threads of a block in each direction.
    pub block: [u32; 3],
    /// Registers per thread, as ptxas reports.
    pub registers: u32,
    /// Bytes of shared memory that the kernel declares.
    pub static_shared: u32,
    /// Bytes of shared memory requested at launch.
    pub dynamic_shared: u32,
    /// Bytes of register spills, stored and loaded, as ptxas reports.
    pub spills: u32,
}

/// Which instructions were counted for the pipes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// Those of the machine code, whose counts follow from the run.
    MachineCode,
    /// Those of the PTX, as an approximation.
    Ptx,
}

/// The work of the launch.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Counted {
    /// Blocks that ran.
    pub blocks: u64,
    /// Warps that ran.
    pub warps: u64,
    /// Every counter of the launch by its name.
    pub totals: BTreeMap<String, u64>,
    /// Work by resource.
    pub work: Work,
    /// Which instructions `work` counts.
    pub instructions_of: Origin,
}

/// The model's predictions.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Predicted {
    /// The minimum time by each resource, waves, launch cost, and occupancy with its limiter and the requirements of
    /// one more block.
    pub bounds: Bounds,
    /// The lower bound for any kernel of the problem with a cold L2 cache, if the caller describes the problem.
    pub roofline: Option<Share>,
    /// The same, with a warm L2 cache.
    pub roofline_warm: Option<Share>,
    /// The time by the schedule of the machine code.
    pub schedule: Scheduled,
    /// The predicted effect of changes.
    pub purchases: Vec<Purchase>,
}

/// The time by the schedule of the machine code.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Scheduled {
    /// The execution count of each block of machine code is known.
    Known(Timed),
    /// It is unknown; only bounds are available.
    Uncertain {
        /// Why.
        why: String,
    },
}

/// A predicted run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Timed {
    /// With an L2 cache that holds none of its data.
    pub cold: Run,
    /// With an L2 cache that holds as much of its data as fits.
    pub warm: Run,
    /// Counts that did not follow from the run and were chosen among those that fit, as text; empty if all followed.
    pub assumed: Vec<String>,
}

/// Predicted time of a launch, without launch overhead.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Run {
    /// Cycles of the fullest multiprocessor, all rounds.
    pub cycles: u64,
    /// Microseconds at boost clock.
    pub us: f64,
    /// The fraction of issue slots that issued, in one round of the fullest multiprocessor; 0 to 1.
    pub issue_active: f64,
    /// Stall reasons of the warps of that round, the largest first, in warp cycles. Warps wait concurrently, so this
    /// is not time.
    pub stalls: Vec<Stall>,
    /// Empty issue slots of that round, by the stall reason of the warp that issued next, the largest first. Shares
    /// are of all slots, and so of the time; the remainder after `issue_active` is from sub-cores that had finished.
    pub lost: Vec<Stall>,
}

/// Cycles lost to one reason.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Stall {
    /// The reason.
    pub reason: Reason,
    /// Its name in Nsight Compute.
    pub nsight: &'static str,
    /// Predicted warp cycles, or issue slots, of one round of a multiprocessor.
    pub cycles: u64,
    /// As a fraction of all warp cycles, or of all issue slots, including used ones; 0 to 1.
    pub share: f64,
}

/// A place in the source, and in the PTX.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Place {
    /// The file as the compiler named it; `None` for the PTX text.
    pub file: Option<String>,
    /// The line of that file, from 1.
    pub line: u32,
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.file.as_deref().unwrap_or("ptx"), self.line)
    }
}

/// The cost of a line.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Line {
    /// The line.
    pub place: Place,
    /// Its text, if the source is available.
    pub text: Option<String>,
    /// Lines of the PTX that came from it, ascending.
    pub ptx_lines: Vec<u32>,
    /// Its counts.
    pub counted: LineCounts,
    /// Its predicted cost; `None` without a schedule.
    pub predicted: Option<LineCost>,
    /// Its share of the cost, 0 to 1: of predicted warp cycles, or without a schedule of counted warp instructions.
    pub share: f64,
}

/// Counts of a line over the whole launch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LineCounts {
    /// Warp instructions of the PTX.
    pub executions: u64,
    /// Multiply-adds of matrix products.
    pub tensor: u64,
    /// Passes through the banks of shared memory.
    pub wavefronts: u64,
    /// Passes beyond the minimum.
    pub conflicts: u64,
    /// Sectors of global and local memory.
    pub sectors: u64,
    /// Bytes of global memory that lanes requested.
    pub bytes: u64,
}

/// Predicted cost of a line in one round of the fullest multiprocessor, with a warm cache.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct LineCost {
    /// Warp instructions of machine code issued.
    pub issued: u64,
    /// Warp cycles waited before them, by reason, the most first.
    pub stalls: Vec<Stall>,
    /// Issue slots that stayed empty until they were issued, by reason, the most first.
    pub lost: Vec<Stall>,
}

/// An access of a line with bank conflicts in shared memory.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Conflict {
    /// Its place.
    pub place: Place,
    /// The line of the PTX; the first one, if the compiler generated several of the same kind.
    pub ptx_line: u32,
    /// Instructions of the PTX: an unrolled loop has one for each iteration.
    pub copies: u32,
    /// The instruction.
    pub opcode: String,
    /// Requests of warps.
    pub requests: u64,
    /// Passes through the banks.
    pub wavefronts: u64,
    /// Passes if no two words were in the same bank.
    pub ideal: u64,
    /// `wavefronts` over `ideal`: 2.0 is a two-way conflict on average.
    pub degree: f64,
    /// The worst request.
    pub pattern: Option<Pattern>,
    /// The text of the line, if the source is available.
    pub text: Option<String>,
}

/// An access of a line that touches more sectors than its bytes fill.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Uncoalesced {
    /// Its place.
    pub place: Place,
    /// The line of the PTX; the first one, if the compiler generated several of the same kind.
    pub ptx_line: u32,
    /// Instructions of the PTX: an unrolled loop has one for each iteration.
    pub copies: u32,
    /// The instruction.
    pub opcode: String,
    /// Requests of warps.
    pub requests: u64,
    /// Sectors of 32 bytes, summed over requests.
    pub sectors: u64,
    /// Sectors if the bytes of each request were contiguous.
    pub ideal: u64,
    /// Sectors per request.
    pub per_request: f64,
    /// Sectors per request if its bytes were contiguous.
    pub ideal_per_request: f64,
    /// The worst request.
    pub pattern: Option<Pattern>,
    /// The text of the line, if the source is available.
    pub text: Option<String>,
}

/// Atomics of a line, and how many lanes share an address.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Atomics {
    /// Its place.
    pub place: Place,
    /// The line of the PTX; the first one, if the compiler generated several of the same kind.
    pub ptx_line: u32,
    /// Instructions of the PTX: an unrolled loop has one for each iteration.
    pub copies: u32,
    /// The instruction.
    pub opcode: String,
    /// `atom` if the old value is read, `red` if not.
    pub kind: &'static str,
    /// `shared` or `global`.
    pub space: &'static str,
    /// Requests of warps.
    pub requests: u64,
    /// Participating lanes.
    pub lanes: u64,
    /// Distinct addresses in each request, summed.
    pub addresses: u64,
    /// Lanes per address, on average.
    pub per_address: f64,
    /// The maximum number of lanes of any request at one address.
    pub most: u64,
    /// Serialized operations at the most contended address of each request, summed: one for a request that ptxas
    /// combines into one operation.
    pub serial: u64,
    /// The text of the line, if the source is available.
    pub text: Option<String>,
}

/// The addresses of one request, as counted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Pattern {
    /// Bytes of each lane.
    pub bytes: u32,
    /// Participating lanes, each with its distance in bytes from the first of them.
    pub lanes: Vec<(u32, i64)>,
    /// Bytes from each lane to the next, if constant.
    pub stride: Option<i64>,
    /// Passes (shared memory) or sectors (global memory) of the request.
    pub taken: u64,
    /// The minimum.
    pub ideal: u64,
    /// As text.
    pub says: String,
}

/// A time before a change and after it, in predicted microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Change {
    /// Before the change.
    pub before: f64,
    /// After the change.
    pub after: f64,
}

impl Change {
    /// Microseconds gained; negative if lost.
    pub fn gain(&self) -> f64 {
        self.before - self.after
    }

    /// Whether it is visible in hundredths of a microsecond.
    pub fn is_seen(&self) -> bool {
        self.gain().abs() >= 0.005
    }
}

/// A possible change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Offer {
    /// No two lanes share a bank.
    RemoveConflicts,
    /// The bytes of each request are contiguous.
    Coalesce,
    /// Half the registers.
    HalveRegisters,
    /// 2,048 bytes less of shared memory.
    LessShared,
    /// Blocks with twice the work.
    DoubleTile,
}

/// The effect of a change: the bound, the schedule and occupancy, each before and after.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Purchase {
    /// The change.
    pub offer: Offer,
    /// A description, with its assumptions.
    pub title: String,
    /// Whether it is possible at all; if not, `verdict` gives the reason.
    pub possible: bool,
    /// The bound, cold.
    pub cold: Change,
    /// The bound, warm.
    pub warm: Change,
    /// The schedule, warm, if available and if it can model the change.
    pub scheduled: Option<Change>,
    /// Blocks per multiprocessor, before and after.
    pub blocks_per_sm: (u32, u32),
    /// Occupancy in percent, before and after.
    pub occupancy: (f64, f64),
    /// The effect, as text; `nothing` if there is none.
    pub verdict: String,
}

impl Purchase {
    /// Whether to show it: it has an effect, or is not possible, or it reduces a resource that limits occupancy. In
    /// the last case it is useful to know that it has no effect.
    pub fn is_told(&self, limiters: &[Resource]) -> bool {
        let of_limiter = match self.offer {
            Offer::HalveRegisters => limiters.contains(&Resource::Registers),
            Offer::LessShared => limiters.contains(&Resource::SharedMemory),
            Offer::RemoveConflicts | Offer::Coalesce | Offer::DoubleTile => false,
        };
        of_limiter || self.verdict != "nothing"
    }
}
