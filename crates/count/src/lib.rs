//! The counters: exact numbers of what a launch on the software GPU did, per instruction and per line. The execution code does
//! not depend on them.
//!
//! [`CountLaunch::count`] runs a launch with an observer for each block and adds up their counts in block
//! order; so the counters do not depend on the number of host threads. All numbers are *counted* on PTX as executed. A GPU
//! executes SASS, which ptxas compiles from PTX: loads of kernel parameters become operands, address arithmetic is merged,
//! a division becomes many instructions. Accesses to memory, tensor-core operations and barriers survive that translation;
//! counts of other instructions are close but not equal. [`names`] lists for each Nsight Compute metric which counter it
//! corresponds to and how exact that is.
//!
//! With [`CountSettings::sample`], only some blocks are executed and counted, and totals are estimates for the whole grid:
//! [`Sampling`] describes how far they may be off.
//!
//! | counter | meaning | Nsight Compute |
//! |---|---|---|
//! | `executions` | warp instructions | `smsp__inst_executed` |
//! | `lanes`, `lanes_on` | threads at them, threads whose guard was true | `smsp__thread_inst_executed`, `…_pred_on` |
//! | `passed` | warp instructions whose guard was false in all lanes | – |
//! | `pipe.*` | warp instructions by pipe of the instruction table | `smsp__inst_executed_pipe_*` |
//! | `branch.*` | all lanes branched, no lane branched, lanes diverged | `smsp__sass_branch_targets…` |
//! | `tensor.*` | matrix products of warps | `sm__inst_executed_pipe_tensor_op_*` |
//! | `*.requests` | requests of warps to a space | `l1tex__t_requests_…` |
//! | `*.bytes` | bytes that lanes requested | – |
//! | `*.sectors`, `*.lines` | distinct 32-byte sectors and 128-byte lines in each request | `l1tex__t_sectors_…` |
//! | `shared.*.wavefronts` | passes through the banks | `l1tex__data_pipe_lsu_wavefronts_mem_shared…` |
//! | `shared.*.conflicts` | passes beyond the minimum | `l1tex__data_bank_conflicts_pipe_lsu_mem_shared…` |
//! | `*.ideal_sectors` | sectors that the distinct bytes of each request would fill if contiguous | – |
//! | `*.uncached_sectors` | sectors loaded past L1 (`.cg`, `.volatile`, …) | – |
//! | `*.cp_async_bulk.*` | what asynchronous agents move for bulk and tensor copies; a multicast reads global memory once | – |
//! | `*.remote_bytes` | bytes in the shared memory of other blocks of a cluster | – |
//! | `*.depth`, `*.max_depth` | lanes at the most contended address of an atomic request: sum and maximum | – |
//! | `*.serial`, [`Hottest`] | serialized operations at that address, and at the hottest address of the launch | – |
//! | `*.first_sectors`, [`Compulsory`] | sectors accessed for the first time: an estimate of misses | `lts__t_sectors…`, `dram__sectors…` |
//! | `barrier.*` | arrivals, phases, and work imbalance between warps | – |
//! | `cluster_barrier.*` | the same for `barrier.cluster` | – |
//! | `mbarrier.*` | arrivals, transactions of bulk copies, phases, tests and unsuccessful tests of mbarriers | – |
//!
//! The pipes of the table are those of an Ada multiprocessor: half precision runs on the FMA pipe, and warp-uniform
//! instructions run on the uniform pipe, which PTX does not show.

#![forbid(unsafe_code)]

mod atomics;
mod bundles;
mod counters;
mod heat;
mod memo;
pub mod names;
mod pattern;
mod record;
mod reuse;
mod sampling;
mod selection;
mod site;
mod spread;
mod tally;

pub use counters::{
    Barriers, Branches, Change, Compulsory, Counters, Flat, Flow, Hottest, Instruction, Issued, LineKey,
    Mbarriers, MemoryOp, Sample, SecondLevel, Totals, Traffic, diff,
};
pub use sampling::{DistinctSectors, SampleSize, Sampling};
pub use selection::Stratum;
pub use site::multiply_adds;

use heat::{BlockHeat, Heat, Operations};
use record::Record;
use sampling::Collected;
use selection::Selection;
use site::Sites;
use std::any::Any;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use tally::{Pool, Tally};
use warpproof_sim::machine::{Outcome, at};
use warpproof_sim::memory::Space;
use warpproof_sim::observe::Observer;
use warpproof_sim::program::{Communication, Program};
use warpproof_sim::schedule::Blocks;
use warpproof_sim::{Device, Launch, SharedDevice};

/// Options for counting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CountSettings {
    /// Bytes that may be used to track which sectors of memory were accessed.
    pub memory: u64,
    /// Counts a sample of the blocks and scales the totals to the whole grid; see [`Sampling`]. A sampled launch leaves
    /// memory unchanged. Launches whose blocks depend on each other are refused.
    pub sample: Option<SampleSize>,
}

impl Default for CountSettings {
    fn default() -> Self {
        CountSettings { memory: 1 << 30, sample: None }
    }
}

/// The result of a counted launch.
#[derive(Debug)]
pub struct Counted {
    /// The outcome of the launch.
    pub outcome: Outcome,
    /// The counters; up to the stop if the launch stopped early.
    pub counters: Counters,
}

/// Blocks that may run at once with counters of their own, both in waves and when blocks take turns.
const IN_A_WAVE: u64 = 64;
const IN_TURNS: u64 = 4096;

/// Counts launches.
pub trait CountLaunch {
    /// Runs a launch and counts.
    fn count(&mut self, launch: &Launch, settings: &CountSettings) -> Counted;
}

impl CountLaunch for Device {
    fn count(&mut self, launch: &Launch, settings: &CountSettings) -> Counted {
        let selection = settings.sample.map_or(Ok(None), |size| sampling::select(launch, size));
        match selection {
            Ok(selection) => count_selected(self, launch, settings, selection.as_ref()),
            Err(stop) => {
                let outcome = Outcome { stop: Some(stop), ..Outcome::default() };
                Counted { outcome, counters: Counters::default() }
            }
        }
    }
}

impl CountLaunch for &SharedDevice {
    fn count(&mut self, launch: &Launch, settings: &CountSettings) -> Counted {
        self.with(launch, |device| device.count(launch, settings))
    }
}

/// Counts all blocks, or those of a selection.
fn count_selected(
    device: &mut Device,
    launch: &Launch,
    settings: &CountSettings,
    selection: Option<&Selection>,
) -> Counted {
    let program = launch.program();
    let reduces = program.communication == Communication::Reductions;
    let sites = Arc::new(Sites::of(&program));
    let pool: Pool = Arc::new(Mutex::new(Vec::new()));
    // Half of the memory is for the launch and half for the blocks that run at once; a quarter of the launch's share
    // is for atomics.
    let all = settings.memory / 2;
    let scheduled = device.schedule.blocks != Blocks::InOrder && reduces;
    let turns = selection.is_none() && (program.communication.takes_turns() || scheduled);
    let each = all / if turns { IN_TURNS } else { IN_A_WAVE };
    let own_heat = if reduces && !turns { each / 4 } else { 0 };
    let length = program.code.len();
    let mut sums = Record::new(length, sites.guards, all - all / 4);
    let heat = Arc::new(Mutex::new(Heat::new(all / 4)));
    let mut compulsory = Compulsory::default();
    let mut blocks = 0u64;
    let mut sample =
        selection.map(|selection| Collected::new(selection, listing(&program, &sites), &device.reading()));
    let (level, plain) = (device.level(), device.plain);
    let spare: Mutex<Vec<Box<Tally>>> = Mutex::new(Vec::new());
    // A block that starts once more has been given up, and so has what was found out for it.
    let started = AtomicU64::new(0);
    let listen = |block: u32| -> Option<Box<dyn Observer>> {
        let next = u64::from(block) + 1;
        let again = started.fetch_max(next, Ordering::Relaxed) >= next;
        let known = pool.lock().ok().filter(|_| !again && !plain).and_then(|mut pool| pool.pop());
        let heat =
            if turns { BlockHeat::Launch(heat.clone()) } else { BlockHeat::Block(Operations::new(own_heat)) };
        let spare = spare.lock().ok().and_then(|mut spare| spare.pop());
        let mut tally = spare.unwrap_or_else(|| {
            let record = Record::new(length, sites.guards, each - own_heat);
            Box::new(Tally::new(sites.clone(), level, pool.clone(), record).plain(plain))
        });
        tally.begin(known.unwrap_or_default(), heat);
        Some(tally)
    };
    let mut collect = |listener: Box<dyn Observer>| {
        let listener: Box<dyn Any> = listener;
        if let Ok(mut tally) = listener.downcast::<Tally>() {
            tally.ended();
            if let (BlockHeat::Block(operations), Ok(mut heat)) =
                (std::mem::take(&mut tally.heat), heat.lock())
            {
                operations.merge_into(&mut heat);
            }
            let own = &mut tally.record;
            let weight = sample.as_mut().map_or(1, |sample| sample.add(&sites, own));
            blocks += weight;
            compulsory.block_loaded += weight * own.touched.loaded;
            compulsory.block_cached += weight * own.touched.cached;
            compulsory.block_stored += weight * own.touched.stored;
            sums.merge(own, weight);
            own.clear();
            if let Ok(mut spare) = spare.lock() {
                spare.push(tally);
            }
        }
    };
    let chosen: Option<Vec<u32>> =
        selection.map(|selection| selection.chosen.iter().map(|one| one.block).collect());
    let mut outcome = device.run_selected(launch, chosen.as_deref(), &listen, &mut collect);
    compulsory.grid_loaded = sums.touched.loaded;
    compulsory.grid_stored = sums.touched.stored;
    compulsory.grid_touched = sums.touched.either;
    compulsory.incomplete = sums.touched.incomplete;
    let mut instructions = listing(&program, &sites);
    fill(&mut instructions, &sites, &sums);
    let mut totals = Totals::default();
    for instruction in &instructions {
        totals.add(instruction);
    }
    let hottest = heat.lock().map_or_else(
        |_| Hottest { operations: 0, incomplete: true },
        |heat| Hottest { operations: heat.hottest, incomplete: heat.incomplete },
    );
    let mut counters = Counters {
        kernel: program.name.clone(),
        grid: launch.blocks(),
        block: launch.threads(),
        cluster: launch.cluster_dims(),
        static_shared: program.static_shared,
        dynamic_shared: launch.dynamic_shared(),
        blocks,
        instructions,
        totals,
        compulsory,
        hottest,
        sampled: None,
    };
    if let Some(sample) = sample {
        outcome.stop = outcome.stop.or(sample.stop());
        sample.describe(&mut counters, &sums.touched);
    }
    Counted { outcome, counters }
}

/// Every instruction with its location, without counts.
fn listing(program: &Program, sites: &Sites) -> Vec<Instruction> {
    let line_ends: Vec<usize> =
        program.text().bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(i, _)| i).collect();
    let mut instructions = Vec::with_capacity(program.code.len());
    for (pc, meta) in (0u32..).zip(&program.metas) {
        let site = sites.get(pc);
        let function = meta.function.and_then(|i| program.callees.get(at(i))).map(|callee| &callee.name);
        let line = line_ends.partition_point(|end| *end < at(meta.span.0)) + 1;
        instructions.push(Instruction {
            pc,
            function: function.unwrap_or(&program.name).clone(),
            ptx_line: u32::try_from(line).unwrap_or(u32::MAX),
            source: program.source(pc).to_vec(),
            op: meta.op.clone(),
            opcode: site::opcode(program, at(pc)),
            pipe: site.pipe,
            tensor: site::tensor(program.op(pc)),
            flow: site.flow,
            issued: Issued::default(),
            branches: Branches::default(),
            memory: std::collections::BTreeMap::new(),
            barriers: Barriers::default(),
            mbarriers: Mbarriers::default(),
            worst: Vec::new(),
        });
    }
    instructions
}

/// Replaces the counts of every instruction.
fn fill(instructions: &mut [Instruction], sites: &Sites, sums: &Record) {
    let (mut executions, mut lanes) = (0i64, 0i64);
    for (instruction, edge) in instructions.iter_mut().zip(&sums.edges) {
        executions += edge.executions;
        lanes += edge.lanes;
        let pc = instruction.pc;
        let site = sites.get(pc);
        let guard = site.guard.and_then(|slot| sums.guards.get(at(slot)));
        let issued = if let Some(count) = guard {
            Issued {
                executions: count.executions,
                lanes: count.lanes,
                lanes_on: count.lanes_on,
                passed: count.passed,
            }
        } else {
            let lanes = u64::try_from(lanes).unwrap_or(0);
            let executions = u64::try_from(executions).unwrap_or(0);
            Issued { executions, lanes, lanes_on: lanes, passed: 0 }
        };
        let parted = sums.tables.get(&pc).copied().unwrap_or(0);
        let [taken, not_taken, divergent] = record::branch(site.flow, issued.executions, guard, parted);
        instruction.issued = issued;
        instruction.branches = Branches { taken, not_taken, divergent };
        instruction.barriers = sums.barriers.get(pc).copied().unwrap_or_default();
        instruction.mbarriers = sums.mbarriers.get(pc).copied().unwrap_or_default();
        instruction.memory.clear();
        instruction.worst.clear();
    }
    for requests in &sums.requests {
        if let Some(instruction) = instructions.get_mut(at(requests.pc)) {
            instruction.worst.extend(requests.worst.as_deref().cloned());
            let site = sites.get(requests.pc);
            let mut traffic = requests.traffic;
            if site.uncached && matches!(requests.space, Space::Global | Space::Generic) {
                traffic.uncached_sectors = traffic.sectors;
            }
            instruction.memory.insert((requests.space, site.op), traffic);
        }
    }
}
