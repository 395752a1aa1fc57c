//! Predicts the time of a kernel from the schedule that ptxas encoded.
//!
//! A multiprocessor has four sub-cores, each of which issues at most one instruction per cycle: from the warp
//! it issued from last while that warp is ready, otherwise from the youngest ready warp. Fixed latencies are
//! the stall counts in the encodings; variable latencies use the six dependence counters, released after the
//! latencies of `unit.rs`. Units are busy for their issue interval. Memory instructions go through a queue of
//! five per sub-core, an address unit, and a load/store unit that all sub-cores share. Bytes go through the
//! L2 cache and device memory; a multiprocessor gets the share of their rates that corresponds to its share
//! of the device's blocks.
//!
//! A launch ends when its last store has reached the L2 cache. A block starts when a previous one has ended,
//! so the blocks of a multiprocessor drift apart, and the end of one overlaps with the start of the next. The
//! device starts one block per cycle. The first instructions come from the L2 cache; the following ones
//! arrive at the rate of the port, which limits straight-line code.
//!
//! Assumptions: register reads never stall, a guarded instruction executes as if its guard were true, and the
//! first resident blocks of a multiprocessor start together. Every cycle count is *predicted*. The same input
//! gives the same output.

mod core;
mod path;
mod unit;

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use crate::bound::Waves;
use crate::device::Device;
use crate::rates::Pipe;
use crate::sass::{Flow, Function, Instruction, Uncertain};

pub use path::{Path, Ratios};
pub use unit::{Kind, Timing, timing};

/// Where an instruction's accesses hit and how much they move, averaged over its executions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Access {
    /// Wavefronts of shared memory or of the L1 cache; at least the conflict-free number.
    pub wavefronts: f64,
    /// Sectors of 32 bytes requested from the L1 cache.
    pub sectors: f64,
    /// The fraction of sectors that hit in L1.
    pub l1_hit: f64,
    /// The fraction of L1 misses that hit in L2.
    pub l2_hit: f64,
    /// The fraction of L2 hits in its far half, if the L2 cache has two.
    pub l2_far: f64,
}

impl Access {
    /// A conflict-free, coalesced access that hits in L1.
    pub fn ideal(instruction: &Instruction) -> Self {
        let words = f64::from(unit::words(instruction));
        Self { wavefronts: words, sectors: words * 4.0, l1_hit: 1.0, l2_hit: 1.0, l2_far: 0.0 }
    }

    /// The same access, hitting in L2.
    #[must_use]
    pub fn from_l2(self) -> Self {
        Self { l1_hit: 0.0, l2_hit: 1.0, ..self }
    }

    /// The same access, missing both caches.
    #[must_use]
    pub fn from_dram(self) -> Self {
        Self { l1_hit: 0.0, l2_hit: 0.0, ..self }
    }
}

/// The code to simulate.
#[derive(Clone, Copy, Debug)]
pub struct Code<'a> {
    /// The machine code.
    pub function: &'a Function,
    /// Its blocks.
    pub flow: &'a Flow,
    /// For each instruction, how it accesses memory; for missing entries, [`Access::ideal`].
    pub accesses: &'a [Access],
}

/// The resident blocks of one multiprocessor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Residency {
    /// Blocks at a time.
    pub blocks: u32,
    /// Warps of a block.
    pub warps: u32,
    /// The number of equally full multiprocessors that the blocks of the device would occupy; they share
    /// caches and memory.
    pub multiprocessors: u32,
}

/// Limits of the simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Limits {
    /// Maximum number of warp instructions.
    pub instructions: u64,
    /// Maximum number of timeline events.
    pub timeline: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { instructions: 50_000_000, timeline: 0 }
    }
}

/// Why a warp did not issue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// The stall count: a result of fixed latency is not ready.
    FixedLatency,
    /// A load from global or local memory, or an atomic.
    Global,
    /// Shared memory, shuffles.
    Shared,
    /// A special function, a constant, or another variable latency.
    Variable,
    /// A group of asynchronous copies.
    AsyncCopy,
    /// Other warps of the block have not arrived.
    Barrier,
    /// The tensor core is busy, or a group of its asynchronous products is not complete.
    TensorBusy,
    /// Another pipe is busy.
    PipeBusy,
    /// The memory queue is full, and the warp's next instruction accesses global or local memory.
    GlobalQueue,
    /// The memory queue is full, and the warp's next instruction accesses shared memory or is a shuffle.
    MemoryQueue,
    /// Another warp was selected.
    NotSelected,
}

impl Reason {
    /// Nsight Compute's name of the stall. If it uses one name for several reasons, the reason follows in
    /// parentheses.
    pub fn nsight(self) -> &'static str {
        match self {
            Self::FixedLatency => "wait",
            Self::Global => "long scoreboard",
            Self::Shared => "short scoreboard (shared memory)",
            Self::Variable => "short scoreboard (special functions)",
            Self::AsyncCopy => "long scoreboard (asynchronous copies)",
            Self::Barrier => "barrier",
            Self::TensorBusy => "math pipe throttle (tensor)",
            Self::PipeBusy => "math pipe throttle",
            Self::GlobalQueue => "lg throttle",
            Self::MemoryQueue => "mio throttle",
            Self::NotSelected => "not selected",
        }
    }

    /// Its index in [`REASONS`].
    fn slot(self) -> usize {
        match self {
            Self::FixedLatency => 0,
            Self::Global => 1,
            Self::Shared => 2,
            Self::Variable => 3,
            Self::AsyncCopy => 4,
            Self::Barrier => 5,
            Self::TensorBusy => 6,
            Self::PipeBusy => 7,
            Self::GlobalQueue => 8,
            Self::MemoryQueue => 9,
            Self::NotSelected => 10,
        }
    }
}

/// All reasons, in the order of [`Stalls`].
pub const REASONS: [Reason; 11] = [
    Reason::FixedLatency,
    Reason::Global,
    Reason::Shared,
    Reason::Variable,
    Reason::AsyncCopy,
    Reason::Barrier,
    Reason::TensorBusy,
    Reason::PipeBusy,
    Reason::GlobalQueue,
    Reason::MemoryQueue,
    Reason::NotSelected,
];

/// Predicted cycles lost, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Stalls(pub [u64; 11]);

impl Stalls {
    /// The cycles lost to one reason.
    pub fn of(&self, reason: Reason) -> u64 {
        self.0.get(reason.slot()).copied().unwrap_or(0)
    }

    pub(crate) fn add(&mut self, reason: Reason, cycles: u64) {
        if let Some(slot) = self.0.get_mut(reason.slot()) {
            *slot += cycles;
        }
    }

    /// Adds the cycles of `other`.
    pub fn add_all(&mut self, other: &Self) {
        for (sum, cycles) in self.0.iter_mut().zip(other.0) {
            *sum = sum.saturating_add(cycles);
        }
    }

    /// The cycles of all reasons.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }
}

/// An issued instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Event {
    /// The cycle.
    pub cycle: u64,
    /// The warp, counted over the blocks of the multiprocessor.
    pub warp: u32,
    /// The index of the instruction in the function.
    pub instruction: usize,
}

/// The cost of one instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Cost {
    /// How often it was issued.
    pub issued: u64,
    /// What its warps waited for before it was issued, in warp cycles.
    pub stalls: Stalls,
    /// Issue slots of the sub-core that stayed empty until it was issued, by the reason its warp waited for.
    pub lost: Stalls,
}

/// A predicted run of one multiprocessor.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Schedule {
    /// Cycles until the last warp ended.
    pub cycles: u64,
    /// Warp instructions issued.
    pub issued: u64,
    /// What all warps waited for, in warp cycles. Warps wait at the same time, so this is not elapsed time.
    pub stalls: Stalls,
    /// Issue slots in which a sub-core had nothing to issue, by the reason of the warp that issued next.
    /// Together with `issued` and the slots of sub-cores that ended before the others, they are all slots:
    /// this is elapsed time.
    pub lost: Stalls,
    /// Both, for each instruction of the function.
    pub costs: Vec<Cost>,
    /// Assumptions about the device, as sentences.
    pub assumed: Vec<String>,
    /// The first events, up to the limit.
    pub timeline: Vec<Event>,
}

/// Why a schedule cannot be predicted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScheduleError {
    /// More instructions than the simulation limit.
    TooLong {
        /// The limit.
        limit: u64,
    },
    /// The path of a warp is uncertain; only the bounds are known.
    Uncertain(Uncertain),
    /// Warps wait for a barrier that never completes.
    Deadlock {
        /// The instruction at which they wait.
        instruction: usize,
    },
    /// There are no warps.
    Empty,
}

impl fmt::Display for ScheduleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong { limit } => {
                write!(f, "the kernel issues more than {limit} instructions on a multiprocessor")
            }
            Self::Uncertain(reason) => write!(f, "the path of a warp is uncertain: {reason}"),
            Self::Deadlock { instruction } => {
                write!(f, "warps wait forever at the barrier of machine instruction {instruction}")
            }
            Self::Empty => f.write_str("there are no warps to run"),
        }
    }
}

impl std::error::Error for ScheduleError {}

impl From<Uncertain> for ScheduleError {
    fn from(reason: Uncertain) -> Self {
        Self::Uncertain(reason)
    }
}

/// Warp instructions by pipe, in the order of pipes, for the given execution count of each instruction.
pub fn pipes(device: &Device, function: &Function, executions: impl Fn(usize) -> u64) -> Vec<(Pipe, u64)> {
    let mut pipes: BTreeMap<Pipe, u64> = BTreeMap::new();
    for (index, instruction) in function.instructions.iter().enumerate() {
        let count = pipes.entry(timing(device, instruction).pipe).or_default();
        *count = count.saturating_add(executions(index));
    }
    pipes.into_iter().filter(|(_, count)| *count > 0).collect()
}

/// Simulates one multiprocessor until all resident warps have ended.
pub fn simulate(
    device: &Device,
    code: &Code<'_>,
    residency: Residency,
    path: &mut dyn Path,
    limits: Limits,
) -> Result<Schedule, ScheduleError> {
    core::Core::new(device, code, residency, 0, limits)?.run(path)
}

/// As [`simulate`], with `following` more blocks after the resident ones; each starts when a previous one has
/// ended.
pub fn simulate_queue(
    device: &Device,
    code: &Code<'_>,
    residency: Residency,
    following: u32,
    path: &mut dyn Path,
    limits: Limits,
) -> Result<Schedule, ScheduleError> {
    core::Core::new(device, code, residency, following, limits)?.run(path)
}

/// A predicted launch.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Launch {
    /// Predicted cycles of the kernel, without launch overhead.
    pub cycles: u64,
    /// The first round of the multiprocessor with the most blocks, alone.
    pub round: Schedule,
}

/// Cycles between two blocks that a device starts. Calibrated with te42kyfo/gpu-benches, gpu-small-kernels,
/// l40_graph.txt, 160,631 doubles.
const START: u64 = 1;

/// Simulates the multiprocessor that gets the most blocks. If it gets many, two rounds are simulated; every
/// further round adds the difference between the second and the first. The last round has the remaining
/// blocks.
pub fn launch(
    device: &Device,
    code: &Code<'_>,
    waves: &Waves,
    warps: u32,
    path: &mut dyn FnMut(Residency) -> Box<dyn Path>,
    limits: Limits,
) -> Result<Launch, ScheduleError> {
    let sms = device.multiprocessors.value.max(1);
    // Clusters leave multiprocessors empty; this is one that is full.
    let per_sm = u32::try_from(waves.at_once.div_ceil(u64::from(sms))).unwrap_or(u32::MAX).max(1);
    let full = waves.rounds.saturating_sub(1);
    let rest = waves.most_per_sm.saturating_sub(full * u64::from(per_sm));
    let rest = u32::try_from(rest).unwrap_or(per_sm).clamp(1, per_sm);
    // Blocks that run concurrently with those of the fullest multiprocessor, in units of equally full
    // multiprocessors.
    let mut one = |blocks: u32, beside: u64, following: u32| {
        let multiprocessors = u32::try_from(beside.div_ceil(u64::from(blocks))).unwrap_or(sms).clamp(1, sms);
        let residency = Residency { blocks, warps, multiprocessors };
        simulate_queue(device, code, residency, following, path(residency).as_mut(), limits)
    };
    let fetched = |cycles: u64| {
        // A machine instruction has 16 bytes.
        let bytes = u64::try_from(code.function.instructions.len()).unwrap_or(u64::MAX).saturating_mul(16);
        // The last of the blocks that start together starts after the others.
        let started = waves.blocks.min(waves.at_once).saturating_mul(START);
        cycles
            .max(bytes / core::PORT_BYTES)
            .saturating_add(u64::from(device.rates.l2_latency.value))
            .saturating_add(started)
            .max(waves.blocks.saturating_mul(START))
    };
    if full == 0 {
        let round = one(rest, waves.blocks, 0)?;
        return Ok(Launch { cycles: fetched(round.cycles), round });
    }
    let round = one(per_sm, waves.at_once, 0)?;
    let more = |found: Result<Schedule, ScheduleError>| match found {
        Ok(found) => Ok(Some(found.cycles)),
        // A kernel that is too long to simulate two rounds is so long that their overlap is negligible.
        Err(ScheduleError::TooLong { .. }) => Ok(None),
        Err(other) => Err(other),
    };
    let two = more(one(per_sm, waves.at_once, per_sm))?;
    let last = if rest == per_sm { two } else { more(one(per_sm, waves.at_once, rest))? };
    let cycles = match (two, last) {
        (Some(two), Some(last)) => {
            let each = two.saturating_sub(round.cycles);
            last.saturating_add(each.saturating_mul(full - 1))
        }
        _ => round.cycles.saturating_mul(waves.rounds),
    };
    Ok(Launch { cycles: fetched(cycles), round })
}
