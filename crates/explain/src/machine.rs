//! The machine code of a launch: the execution counts of its blocks, its memory accesses, and its time from the
//! schedule.
#![expect(
    clippy::as_conversions,
    clippy::cast_precision_loss,
    reason = "counts become averages; rounding beyond 2^53 is far below the model's own error"
)]

use std::collections::BTreeMap;

use super::explained::Whole;
use warpproof_count::{Counters, Instruction, MemoryOp, Sampling};
use warpproof_model::bound::Waves;
use warpproof_model::sass::mapping::{self, Mapped};
use warpproof_model::sass::{self, Flow, Function, Uncertain};
use warpproof_model::schedule::{
    Access, Code, Kind, Launch, Limits, Ratios, ScheduleError, launch, pipes, timing,
};
use warpproof_model::{Device, Pipe, work};
use warpproof_sim::isa::Op;
use warpproof_sim::memory::Space;

/// The contents of the L2 cache when the kernel starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cache {
    /// None of the data that it reads.
    Cold,
    /// All of the data that it reads, as far as it fits.
    Warm,
}

/// A hypothetical change of a kernel's accesses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Ideal {
    /// No two lanes share a bank.
    pub banks: bool,
    /// The bytes of a request are contiguous.
    pub sectors: bool,
}

/// Machine code whose blocks have counts.
#[derive(Debug)]
pub(super) struct Machine<'a> {
    pub device: &'static Device,
    counters: &'a Counters,
    whole: Option<Whole>,
    pub function: Function,
    flow: Flow,
    pub mapped: Mapped,
}

/// The first events of one multiprocessor, and their code.
#[derive(Clone, Debug, PartialEq)]
pub struct Timeline {
    /// The device.
    pub device: &'static Device,
    /// The machine code.
    pub function: Function,
    /// Issued instructions, in order of cycles.
    pub events: Vec<warpproof_model::schedule::Event>,
    /// Whether the list of events was truncated.
    pub cut: bool,
    /// Where each line of the PTX came from.
    pub sources: BTreeMap<u32, super::Place>,
    /// Present if only a sample of the blocks was counted.
    pub sampled: Option<Sampling>,
}

/// Lines of the PTX that hold one instruction, with that instruction.
pub(super) fn single_lines(counters: &Counters) -> BTreeMap<u32, &Instruction> {
    let mut lines: BTreeMap<u32, Option<&Instruction>> = BTreeMap::new();
    // Call sequences of the machine are not instructions of the text.
    for instruction in counters.instructions.iter().filter(|i| i.op != Op::Parameter) {
        lines.entry(instruction.ptx_line).and_modify(|known| *known = None).or_insert(Some(instruction));
    }
    lines.into_iter().filter_map(|(line, instruction)| Some((line, instruction?))).collect()
}

impl<'a> Machine<'a> {
    /// Assigns the counts of a run to the blocks of machine code.
    pub(super) fn new(
        device: &'static Device,
        counters: &'a Counters,
        whole: Option<Whole>,
        function: Function,
    ) -> Result<Machine<'a>, Uncertain> {
        let flow = Flow::new(&function);
        let executions =
            single_lines(counters).into_iter().map(|(line, one)| (line, one.issued.executions)).collect();
        let mapped = mapping::map(&function, &flow, &executions, counters.warps())?;
        Ok(Machine { device, counters, whole, function, flow, mapped })
    }

    /// The number of executions of a machine instruction by warps.
    pub(super) fn executions(&self, index: usize) -> u64 {
        self.mapped.frequencies.blocks.get(self.flow.block_of(index)).copied().unwrap_or(0)
    }

    /// Warp instructions by pipe, in the order of pipes.
    pub(super) fn instructions(&self) -> Vec<(Pipe, u64)> {
        pipes(self.device, &self.function, |index| self.executions(index))
    }

    /// The memory accesses of each machine instruction, averaged over its executions.
    fn accesses(&self, cache: Cache, ideal: Ideal) -> Vec<Access> {
        let singles = single_lines(self.counters);
        // A spill of ptxas is on the line of the instruction that it makes room for, but does not access that
        // instruction's memory.
        let line_of = |instruction: &sass::Instruction| {
            let line = instruction.ptx_line?;
            let one = singles.get(&line)?;
            let kind = timing(self.device, instruction).kind;
            let local = matches!(instruction.base(), "LDL" | "STL");
            let does = |(space, _): &(Space, MemoryOp)| match space {
                Space::Shared => kind == Kind::Shared || kind == Kind::AsyncCopy,
                Space::Local => local,
                Space::Generic => !local && kind != Kind::Shared,
                Space::Global => !local && matches!(kind, Kind::Load | Kind::Store | Kind::AsyncCopy),
                Space::Const | Space::Param => false,
            };
            let moves = matches!(kind, Kind::Shared | Kind::Load | Kind::Store | Kind::AsyncCopy);
            (moves && one.memory.keys().any(does)).then_some((line, *one))
        };
        // A line may have become several machine instructions, or several copies; together they move the line's data.
        let mut shared_out: BTreeMap<u32, u64> = BTreeMap::new();
        for (index, instruction) in self.function.instructions.iter().enumerate() {
            if let Some((line, _)) = line_of(instruction) {
                let count = shared_out.entry(line).or_default();
                *count = count.saturating_add(self.executions(index));
            }
        }
        let hits = Hits::of(self.device, self.counters, self.whole, cache);
        let of = |instruction: &sass::Instruction| {
            let counted = line_of(instruction).and_then(|(line, one)| {
                let executions = shared_out.get(&line).copied().filter(|count| *count > 0)?;
                Some(of_line(one, executions, hits, ideal))
            });
            counted.unwrap_or_else(|| Access::ideal(instruction))
        };
        self.function.instructions.iter().map(of).collect()
    }

    /// The predicted launch.
    pub(super) fn schedule(
        &self,
        waves: &Waves,
        cache: Cache,
        ideal: Ideal,
        timeline: usize,
    ) -> Result<Launch, ScheduleError> {
        let accesses = self.accesses(cache, ideal);
        let code = Code { function: &self.function, flow: &self.flow, accesses: &accesses };
        let warps = u32::try_from(self.counters.block_threads().div_ceil(32)).unwrap_or(u32::MAX);
        let frequencies = &self.mapped.frequencies;
        launch(
            self.device,
            &code,
            waves,
            warps,
            &mut |residency| {
                let warps = residency.blocks.saturating_mul(residency.warps);
                Box::new(Ratios::new(&self.flow, frequencies, warps))
            },
            Limits { timeline, ..Limits::default() },
        )
    }
}

/// The fractions of sectors that the L2 cache holds.
#[derive(Clone, Copy, Debug)]
struct Hits {
    loads: f64,
    stores: f64,
    /// The fraction of its contents in its far half, if it has two: all, if the near half is too small.
    far: f64,
    /// Whether the contents of the L1 cache are unknown, because too much data was touched to track.
    first_unknown: bool,
}

impl Hits {
    fn of(device: &Device, counters: &Counters, whole: Option<Whole>, cache: Cache) -> Hits {
        let compulsory = &counters.compulsory;
        let room = u64::from(device.l2_kb.value) * 1024;
        let touched = compulsory.grid_touched.saturating_mul(32);
        let fits = if touched <= room { 1.0 } else { room as f64 / touched as f64 };
        let first: f64 = match cache {
            Cache::Warm => 1.0,
            // Each sector misses once for the grid, and hits when it is requested again.
            Cache::Cold => counted_reuse(counters),
        };
        if let Some(whole) = whole {
            // Concurrent blocks find the data that one of them has read; data written before them has left the cache.
            let stores = if whole.bytes <= room { 1.0 } else { 0.0 };
            let loads = if whole.bytes <= room { first } else { first.min(counted_reuse(counters)) };
            let far = if whole.bytes > room / 2 { 1.0 } else { 0.0 };
            return Hits { loads, stores, far, first_unknown: compulsory.incomplete };
        }
        let far = if touched > room / 2 { 1.0 } else { 0.0 };
        Hits { loads: first.min(fits), stores: fits, far, first_unknown: compulsory.incomplete }
    }
}

/// The fraction of sectors requested from the L2 cache that were requested before.
fn counted_reuse(counters: &Counters) -> f64 {
    let second = counters.second_level();
    let asked = second.loads.saturating_add(second.atomics);
    if asked == 0 { 1.0 } else { 1.0 - (counters.compulsory.grid_loaded as f64 / asked as f64).min(1.0) }
}

/// The memory accesses of the machine instructions of a line, given their total executions.
fn of_line(one: &Instruction, executions: u64, hits: Hits, ideal: Ideal) -> Access {
    let mut access =
        Access { wavefronts: 0.0, sectors: 0.0, l1_hit: 1.0, l2_hit: hits.loads, l2_far: hits.far };
    let all = executions as f64;
    for ((space, op), traffic) in &one.memory {
        match space {
            Space::Shared => {
                let passes = if ideal.banks { traffic.ideal_wavefronts } else { traffic.wavefronts };
                access.wavefronts = access.wavefronts.max(passes as f64 / all);
            }
            Space::Global | Space::Generic | Space::Local => {
                let (mut sectors, mut lines) = (traffic.sectors, traffic.lines);
                if ideal.sectors && *space != Space::Local {
                    sectors = sectors.min(super::memory::ideal_sectors(traffic));
                    lines = lines.min(sectors.div_ceil(4).max(traffic.requests));
                }
                access.wavefronts = access.wavefronts.max(lines as f64 / all);
                access.sectors += sectors as f64 / all;
                access.l1_hit = match (*space, traffic.sectors) {
                    (Space::Local, _) | (_, 0) => 1.0,
                    _ if hits.first_unknown || work::is_store(*op) || work::bypasses(*op, traffic) => 0.0,
                    (_, sectors) => 1.0 - (traffic.first_sectors as f64 / sectors as f64).min(1.0),
                };
                if work::is_store(*op) {
                    access.l2_hit = hits.stores;
                }
            }
            Space::Const | Space::Param => {}
        }
    }
    access
}
