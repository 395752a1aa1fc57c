//! Why a launch takes the time it takes: from counters to what binds, what waits, and what a change would buy.
//!
//! A launch that was counted, the PTX it ran and NVIDIA's assembler go in; an [`Explanation`] comes out, as data. Numbers
//! stand under `counted` or `predicted`, by what they are; none is measured. The same input gives the same explanation.
//!
//! Times come in two levels. *Bounds* divide counted work by the device's rates, and hold as far as those do. The *schedule*
//! runs the machine code that ptxas made through a model of a multiprocessor; it needs to know how often each block of machine
//! code ran, and where that does not follow from what was counted there is no schedule, and why is said.

mod explained;
pub mod html;
pub mod ladder;
mod machine;
mod memory;
mod purchase;
pub mod text;
pub mod trace;

pub use explained::{ExplainError, Request, explain};
pub use machine::Timeline;

use std::collections::BTreeMap;

use serde::Serialize;
use warpproof_model::Resource;
use warpproof_model::bound::{Bounds, Share, Work};
use warpproof_model::schedule::Reason;

/// The version of the explanation's fields.
pub const SCHEMA: &str = "warpproof.explain/1";

/// What a launch costs on a device, and why.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Explanation {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// What was launched, and for which device it is explained.
    pub subject: Subject,
    /// What the launch did, as the software GPU counted it.
    pub counted: Counted,
    /// What the model makes of it.
    pub predicted: Predicted,
    /// Lines by their cost, the dearest first.
    pub lines: Vec<Line>,
    /// Accesses whose lanes meet in banks of shared memory, the most passes lost first. Counted.
    pub conflicts: Vec<Conflict>,
    /// Accesses that touch more sectors of global memory than their bytes fill, the most first. Counted.
    pub uncoalesced: Vec<Uncoalesced>,
    /// Atomics, those that come one after another the most first. Counted.
    pub atomics: Vec<Atomics>,
    /// What a reader should know about these numbers.
    pub remarks: Vec<String>,
}

/// What was launched.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Subject {
    /// The kernel as people call it.
    pub kernel: String,
    /// The device, as NVIDIA calls it.
    pub device: String,
    /// What a command line calls it.
    pub device_id: String,
    /// What the machine code is for.
    pub arch: String,
    /// The version of the ptxas that made it.
    pub ptxas: String,
    /// Blocks in each direction.
    pub grid: [u32; 3],
    /// Threads of a block in each direction.
    pub block: [u32; 3],
    /// Registers per thread, as ptxas reports.
    pub registers: u32,
    /// Bytes of shared memory that the kernel declares.
    pub static_shared: u32,
    /// Bytes of shared memory given at launch.
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
    /// Those of the PTX, which are near.
    Ptx,
}

/// What the launch did.
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
    /// Whose instructions `work` counts.
    pub instructions_of: Origin,
}

/// What the model makes of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Predicted {
    /// The least time by each resource, waves, launch cost, and occupancy with its limiter and what one block more takes.
    pub bounds: Bounds,
    /// What no kernel for the problem can beat, where the caller says what the problem is.
    pub roofline: Option<Share>,
    /// The time by the schedule of the machine code.
    pub schedule: Scheduled,
    /// What changes would buy.
    pub purchases: Vec<Purchase>,
}

/// The time by the schedule of the machine code.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Scheduled {
    /// It is known how often each block of machine code ran.
    Known(Timed),
    /// It is not; bounds are all there is.
    Uncertain {
        /// Why.
        why: String,
    },
}

/// A predicted run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Timed {
    /// With a second-level cache that holds nothing of it.
    pub cold: Run,
    /// With one that holds all it can.
    pub warm: Run,
    /// Counts that did not follow and were chosen among those that fit, in words; empty if all followed.
    pub assumed: Vec<String>,
}

/// Predicted time of a launch, without launching.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Run {
    /// Cycles of the fullest multiprocessor, all rounds.
    pub cycles: u64,
    /// Microseconds at boost clock.
    pub us: f64,
    /// The share of issue slots that issued, in one round of the fullest multiprocessor; 0 to 1.
    pub issue_active: f64,
    /// What warps of that round waited for, the most first, in warp cycles. Warps wait side by side: this is not time.
    pub stalls: Vec<Stall>,
    /// Issue slots of that round that stayed empty, by what the warp that issued next waited for, the most first. Shares
    /// are of all slots, and so of the time; what is left beside `issue_active` are sub-cores that had ended.
    pub lost: Vec<Stall>,
}

/// Cycles lost to one reason.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Stall {
    /// Why.
    pub reason: Reason,
    /// What Nsight Compute calls it.
    pub nsight: &'static str,
    /// Predicted warp cycles, or issue slots, of one round of a multiprocessor.
    pub cycles: u64,
    /// Of all warp cycles, or of all issue slots, used ones included; 0 to 1.
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

/// What a line costs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Line {
    /// The line.
    pub place: Place,
    /// Its text, where the source is at hand.
    pub text: Option<String>,
    /// Lines of the PTX that came from it, ascending.
    pub ptx_lines: Vec<u32>,
    /// What it did.
    pub counted: LineCounts,
    /// What the schedule makes of it; `None` without one.
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
    /// Passes beyond those needed.
    pub conflicts: u64,
    /// Sectors of global and local memory.
    pub sectors: u64,
    /// Bytes of global memory that lanes asked for.
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

/// An access of a line whose lanes meet in banks of shared memory.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Conflict {
    /// Where.
    pub place: Place,
    /// The line of the PTX; of the first, where the compiler made several of the same kind.
    pub ptx_line: u32,
    /// Instructions of the PTX: an unrolled loop has one for each turn.
    pub copies: u32,
    /// The instruction.
    pub opcode: String,
    /// Requests of warps.
    pub requests: u64,
    /// Passes through the banks.
    pub wavefronts: u64,
    /// Passes if no two words were in one bank.
    pub ideal: u64,
    /// `wavefronts` over `ideal`: 2.0 is a two-way conflict on average.
    pub degree: f64,
    /// The worst request.
    pub pattern: Option<Pattern>,
    /// The text of the line, where the source is at hand.
    pub text: Option<String>,
}

/// An access of a line that touches more sectors than its bytes fill.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Uncoalesced {
    /// Where.
    pub place: Place,
    /// The line of the PTX; of the first, where the compiler made several of the same kind.
    pub ptx_line: u32,
    /// Instructions of the PTX: an unrolled loop has one for each turn.
    pub copies: u32,
    /// The instruction.
    pub opcode: String,
    /// Requests of warps.
    pub requests: u64,
    /// Sectors of 32 bytes, added up over requests.
    pub sectors: u64,
    /// Sectors if the bytes of each request lay side by side.
    pub ideal: u64,
    /// Sectors per request.
    pub per_request: f64,
    /// Sectors per request if its bytes lay side by side.
    pub ideal_per_request: f64,
    /// The worst request.
    pub pattern: Option<Pattern>,
    /// The text of the line, where the source is at hand.
    pub text: Option<String>,
}

/// Atomics of a line, and how their lanes meet.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Atomics {
    /// Where.
    pub place: Place,
    /// The line of the PTX; of the first, where the compiler made several of the same kind.
    pub ptx_line: u32,
    /// Instructions of the PTX: an unrolled loop has one for each turn.
    pub copies: u32,
    /// The instruction.
    pub opcode: String,
    /// `atom` if the old value is read, `red` if not.
    pub kind: &'static str,
    /// `shared` or `global`.
    pub space: &'static str,
    /// Requests of warps.
    pub requests: u64,
    /// Lanes that asked.
    pub lanes: u64,
    /// Distinct addresses in each request, added up.
    pub addresses: u64,
    /// Lanes at an address, on average.
    pub per_address: f64,
    /// The most lanes of any request at one address.
    pub most: u64,
    /// Operations one after another at the most wanted address of each request, added up: one for a request that ptxas makes
    /// one operation of.
    pub serial: u64,
    /// The text of the line, where the source is at hand.
    pub text: Option<String>,
}

/// The addresses of one request, as they were counted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Pattern {
    /// Bytes of each lane.
    pub bytes: u32,
    /// Lanes that asked, and for each its distance in bytes from the first of them.
    pub lanes: Vec<(u32, i64)>,
    /// Bytes from each lane to the next, if all are as far apart.
    pub stride: Option<i64>,
    /// Passes (shared memory) or sectors (global memory) it takes.
    pub taken: u64,
    /// What it would take at best.
    pub ideal: u64,
    /// In words.
    pub says: String,
}

/// A time before a change and after it, in predicted microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Change {
    /// As it is.
    pub before: f64,
    /// As it would be.
    pub after: f64,
}

impl Change {
    /// Microseconds won; less than nothing is lost.
    pub fn gain(&self) -> f64 {
        self.before - self.after
    }

    /// Whether it can be seen in hundredths of a microsecond.
    pub fn is_seen(&self) -> bool {
        self.gain().abs() >= 0.005
    }
}

/// Something one could change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Offer {
    /// No two lanes meet in a bank.
    RemoveConflicts,
    /// The bytes of each request lie side by side.
    Coalesce,
    /// Half the registers.
    HalveRegisters,
    /// 2,048 bytes less of shared memory.
    LessShared,
    /// Blocks twice as large in work.
    DoubleTile,
}

/// What a change would buy: the bound, the schedule and occupancy, each as it is and as it would be.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Purchase {
    /// Which.
    pub offer: Offer,
    /// In words, with what is assumed.
    pub title: String,
    /// Whether it can be done at all; if not, `verdict` says why.
    pub possible: bool,
    /// The bound, cold.
    pub cold: Change,
    /// The bound, warm.
    pub warm: Change,
    /// The schedule, warm, where there is one and the change is one that it can follow.
    pub scheduled: Option<Change>,
    /// Blocks per multiprocessor, before and after.
    pub blocks_per_sm: (u32, u32),
    /// Occupancy in per cent, before and after.
    pub occupancy: (f64, f64),
    /// What it buys, in words; `nothing` where it is nothing.
    pub verdict: String,
}

impl Purchase {
    /// Whether it is worth a line: it changes something or cannot be had, or it is less of what limits occupancy, where that
    /// it buys nothing is what one wants to know.
    pub fn is_told(&self, limiters: &[Resource]) -> bool {
        let of_limiter = match self.offer {
            Offer::HalveRegisters => limiters.contains(&Resource::Registers),
            Offer::LessShared => limiters.contains(&Resource::SharedMemory),
            Offer::RemoveConflicts | Offer::Coalesce | Offer::DoubleTile => false,
        };
        of_limiter || self.verdict != "nothing"
    }
}
