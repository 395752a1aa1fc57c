//! The time of a kernel from the schedule ptxas gave it.
//!
//! A multiprocessor is four sub-cores, each issuing at most one instruction per cycle: of the warp it issued from last
//! while that one is ready, else of the youngest that is. Fixed latencies are the stall counts in the encodings;
//! variable ones are the six dependence counters, released after the latencies of `unit.rs`. Units are busy for their issue
//! interval; memory instructions go through a queue of five per sub-core, an address unit, and a load/store unit that
//! all sub-cores share; bytes go through the second-level cache and the memory, of whose rates a multiprocessor gets
//! the share that its blocks have in those of the device.
//!
//! A launch ends when its last store has come to the second-level cache. A block begins when one before it has ended, so that
//! the blocks of a multiprocessor drift apart and the end of one overlaps with the beginning of the next. The device starts a block
//! in a cycle. The first instructions
//! come out of the second-level cache; those behind them follow at the rate of the port, which straight-line code cannot outrun.
//!
//! It assumes: registers are always read in time, a guarded instruction runs as if its guard held, and the blocks that a
//! multiprocessor holds first start together. Every cycle count is *predicted*. The same input gives the same output.

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

/// Where loads of an instruction find their data, and how much they move, on average over its executions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Access {
    /// Wavefronts of shared memory, or of the first-level cache; at least the conflict-free number.
    pub wavefronts: f64,
    /// Sectors of 32 bytes asked of the first-level cache.
    pub sectors: f64,
    /// The share of sectors the first-level cache holds.
    pub l1_hit: f64,
    /// The share of the others that the second-level cache holds.
    pub l2_hit: f64,
    /// The share of what the second-level cache holds that is in its far half, where it has two.
    pub l2_far: f64,
}

impl Access {
    /// An access without conflicts, coalesced, out of the first-level cache.
    pub fn ideal(instruction: &Instruction) -> Self {
        let words = f64::from(unit::words(instruction));
        Self { wavefronts: words, sectors: words * 4.0, l1_hit: 1.0, l2_hit: 1.0, l2_far: 0.0 }
    }

    /// The same out of the second-level cache.
    #[must_use]
    pub fn from_l2(self) -> Self {
        Self { l1_hit: 0.0, l2_hit: 1.0, ..self }
    }

    /// The same out of memory.
    #[must_use]
    pub fn from_dram(self) -> Self {
        Self { l1_hit: 0.0, l2_hit: 0.0, ..self }
    }
}

/// What runs.
#[derive(Clone, Copy, Debug)]
pub struct Code<'a> {
    /// The machine code.
    pub function: &'a Function,
    /// Its blocks.
    pub flow: &'a Flow,
    /// For each instruction, how it reaches memory; for those beyond the end, [`Access::ideal`].
    pub accesses: &'a [Access],
}

/// Who runs it, on one multiprocessor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Residency {
    /// Blocks at a time.
    pub blocks: u32,
    /// Warps of a block.
    pub warps: u32,
    /// Multiprocessors as full as this one that the blocks of the device would fill; they share caches and memory.
    pub multiprocessors: u32,
}

/// How much is simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Limits {
    /// Warp instructions, at most.
    pub instructions: u64,
    /// Events of the timeline that are kept.
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
    /// The stall count: a result of fixed latency is not there yet.
    FixedLatency,
    /// A load from global or local memory, or an atomic.
    Global,
    /// Shared memory, shuffles.
    Shared,
    /// A special function, a constant, another variable latency.
    Variable,
    /// A group of asynchronous copies.
    AsyncCopy,
    /// Other warps of the block.
    Barrier,
    /// The tensor core takes no product yet.
    TensorBusy,
    /// Another pipe takes no instruction yet.
    PipeBusy,
    /// The memory queue is full, and the warp would add an access to global or local memory.
    GlobalQueue,
    /// The memory queue is full, and the warp would add an access to shared memory, or a shuffle.
    MemoryQueue,
    /// Another warp was chosen.
    NotSelected,
}

impl Reason {
    /// What Nsight Compute calls the stall. Where it has one name for several reasons, what is meant stands behind it.
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

    /// Its place in [`REASONS`].
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

    /// Adds what others lost.
    pub fn add_all(&mut self, other: &Self) {
        for (sum, cycles) in self.0.iter_mut().zip(other.0) {
            *sum = sum.saturating_add(cycles);
        }
    }

    /// All of them.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }
}

/// One instruction that was issued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Event {
    /// The cycle.
    pub cycle: u64,
    /// The warp, counted over the blocks of the multiprocessor.
    pub warp: u32,
    /// The instruction, as an index of the function.
    pub instruction: usize,
}

/// What one instruction cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Cost {
    /// How often it was issued.
    pub issued: u64,
    /// What its warps waited for before it, in warp cycles.
    pub stalls: Stalls,
    /// Issue slots of the sub-core that stayed empty until it was issued, by what its warp waited for.
    pub lost: Stalls,
}

/// A predicted run of one multiprocessor.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Schedule {
    /// Cycles until the last warp ended.
    pub cycles: u64,
    /// Warp instructions issued.
    pub issued: u64,
    /// What warps waited for, all together, in warp cycles. Warps wait at the same time, so this is not time.
    pub stalls: Stalls,
    /// Issue slots in which a sub-core had nothing to issue, by what the warp that issued next was waiting for. Together
    /// with `issued` and with the slots of sub-cores that had ended before the others, they are all slots: this is time.
    pub lost: Stalls,
    /// Both, for each instruction of the function.
    pub costs: Vec<Cost>,
    /// What had to be assumed about the device, in words.
    pub assumed: Vec<String>,
    /// The first events, as many as were asked for.
    pub timeline: Vec<Event>,
}

/// Why there is no schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScheduleError {
    /// More instructions than are simulated.
    TooLong {
        /// The most that are.
        limit: u64,
    },
    /// The way of a warp is not certain; only bounds are left.
    Uncertain(Uncertain),
    /// Warps wait for a barrier that can never be complete.
    Deadlock {
        /// The instruction they wait at.
        instruction: usize,
    },
    /// Nothing to run.
    Empty,
}

impl fmt::Display for ScheduleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong { limit } => {
                write!(f, "the kernel issues more than {limit} instructions on a multiprocessor")
            }
            Self::Uncertain(reason) => write!(f, "the way of a warp is not certain: {reason}"),
            Self::Deadlock { instruction } => {
                write!(f, "warps wait forever at the barrier of machine instruction {instruction}")
            }
            Self::Empty => f.write_str("there is no warp to run"),
        }
    }
}

impl std::error::Error for ScheduleError {}

impl From<Uncertain> for ScheduleError {
    fn from(reason: Uncertain) -> Self {
        Self::Uncertain(reason)
    }
}

/// Warp instructions by pipe, in the order of pipes, if each instruction is executed so often.
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

/// Likewise, with so many blocks behind those that are resident, each of which begins when one before it has ended.
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
    /// Predicted cycles of the kernel, without launching.
    pub cycles: u64,
    /// The first round of the fullest multiprocessor, alone.
    pub round: Schedule,
}

/// Cycles between two blocks that a device starts. Chosen by te42kyfo/gpu-benches, gpu-small-kernels, l40_graph.txt, 160,631 doubles.
const START: u64 = 1;

/// Simulates the multiprocessor that gets the most blocks. Where it gets many, two rounds are simulated, and what the second takes
/// more than the first is what every further one takes; the last round has the blocks that are left.
pub fn launch(
    device: &Device,
    code: &Code<'_>,
    waves: &Waves,
    warps: u32,
    path: &mut dyn FnMut(Residency) -> Box<dyn Path>,
    limits: Limits,
) -> Result<Launch, ScheduleError> {
    let sms = device.multiprocessors.value.max(1);
    let per_sm = u32::try_from(waves.at_once / u64::from(sms)).unwrap_or(u32::MAX).max(1);
    let full = waves.rounds.saturating_sub(1);
    let rest = waves.most_per_sm.saturating_sub(full * u64::from(per_sm));
    let rest = u32::try_from(rest).unwrap_or(per_sm).clamp(1, per_sm);
    // Blocks that run beside those of the fullest multiprocessor, in multiprocessors that are as full.
    let mut one = |blocks: u32, beside: u64, following: u32| {
        let multiprocessors = u32::try_from(beside.div_ceil(u64::from(blocks))).unwrap_or(sms).clamp(1, sms);
        let residency = Residency { blocks, warps, multiprocessors };
        simulate_queue(device, code, residency, following, path(residency).as_mut(), limits)
    };
    let fetched = |cycles: u64| {
        // A machine instruction has 16 bytes.
        let bytes = u64::try_from(code.function.instructions.len()).unwrap_or(u64::MAX).saturating_mul(16);
        // The last of the blocks that begin together begins when the others have been started.
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
        // What is too long for two rounds is long enough for their overlap not to count.
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
