//! A launch: runs blocks on all cores, with an outcome that does not depend on the number of cores.
//!
//! Blocks that cannot communicate run in waves of a fixed size. Every block of a wave sees memory as it was at the start of
//! the wave; their stores are merged in block order when the wave ends, and so are reductions: atomic operations whose results
//! are unused. If the program can communicate between blocks otherwise, blocks take turns on one thread, and a block that
//! spins yields to the next. Blocks also take turns from the first one on whose reductions take too much memory.

use super::block::{BlockRun, GridDependency, Progress, Spare};
use super::cluster;
use super::footprint::Allowance;
use super::guided::{self, Guide};
use super::residency::Residency;
use super::spin::{LONGEST, Look, POLLING, Spin, Suspicion};
use super::turns::Turns;
use super::waves::run_in_waves;
use crate::memory::{Earlier, Heap, Memory, Writing};
use crate::observe::Observer;
use crate::program::{Communication, Program, RESERVED_SHARED, SpecialKind};
use crate::schedule::{Blocks, Schedule};
use crate::stop::{Blame, Stop, StopKind};
use std::collections::BTreeMap;
use std::ops::Range;

/// Rounds in which blocks that were started together may still be on their way to where the others wait.
const GRACE: u32 = 8;
/// Rounds without progress after which a block leaves its breakpoint.
const PATIENCE: u32 = 256;
/// Bytes of registers and local memory that one block may hold when it starts.
const MAX_BLOCK_BYTES: u64 = 1 << 30;

/// The end of the sentence about a launch that executed too many instructions, if nothing else is known of it.
pub const MAY_NEVER_END: &str = "; it may never end";

/// Data that all blocks of a launch share.
#[expect(clippy::struct_excessive_bools, reason = "settings that do not depend on each other")]
pub struct Grid<'a> {
    /// The kernel.
    pub program: &'a Program,
    /// Blocks in each direction.
    pub blocks: [u32; 3],
    /// The blocks to run in ascending order, if not all; their stores are then discarded. They must not communicate.
    pub selection: Option<&'a [u32]>,
    /// Blocks of a cluster in each direction.
    pub cluster: [u32; 3],
    /// Whether the launch or the kernel asks for clusters.
    pub explicit_cluster: bool,
    /// Threads of a block in each direction.
    pub threads: [u32; 3],
    /// The kernel's parameters as laid out in memory.
    pub params: &'a [u8],
    /// The module's constant memory.
    pub constants: &'a [u8],
    /// Static and dynamic shared memory in bytes.
    pub shared: u32,
    /// The dynamic part of it.
    pub dynamic_shared: u32,
    /// The address of the workspace of a cooperative launch; `None` if the launch is not cooperative.
    pub workspace: Option<u64>,
    /// The architecture number of the module's target.
    pub sm: u32,
    /// How warps take turns.
    pub schedule: Schedule,
    /// Indices of the instructions before which warps of a guided launch stop; empty if it is not guided.
    pub steps: &'a [bool],
    /// Whether observers see what the blocks do.
    pub observed: bool,
    /// Whether the bytes that it overwrites are kept.
    pub keeps_earlier: bool,
    /// The limits of the launch.
    pub limits: Limits,
    /// Whether no fast path is used; see [`Device::plain`](crate::Device::plain).
    pub plain: bool,
}

/// The limits of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Warp instructions.
    pub instructions: u64,
    /// Bytes of local memory of a thread.
    pub stack: u64,
    /// Bytes that `printf` prints.
    pub output: u64,
    /// Bytes of host memory in addition to the buffers: registers, local memory and calls of the running blocks, their
    /// pending copies and output, and stores that are kept until a wave of blocks ends. Each block of a wave has a fixed
    /// share, so that the outcome does not depend on how many run at once.
    pub memory: u64,
}

impl Limits {
    /// Warp instructions of about a minute. One core of a machine of 2026 was measured to execute 5 million per second of
    /// a kernel that loads, stores and synchronizes, 25 million of one that only computes, and 0.8 million if all lanes
    /// of a warp do an atomic on one address. Starting a block counts as instructions too.
    pub const MINUTE: u64 = 300_000_000;
    /// The same with checks: one core was measured to execute 0.6 million per second of a kernel that loads and stores.
    pub const CHECKED_MINUTE: u64 = 50_000_000;
}

impl Default for Limits {
    fn default() -> Self {
        Limits { instructions: 100_000_000_000, stack: 512 * 1024, output: 16 << 20, memory: 8 << 30 }
    }
}

/// The result of a launch.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Warp instructions executed.
    pub instructions: u64,
    /// What `printf` printed, block by block.
    pub output: Vec<u8>,
    /// Why it stopped early, if it did.
    pub stop: Option<Box<Stop>>,
    /// How it has used `griddepcontrol`.
    pub dependency: GridDependency,
    /// What it overwrote, if the launch asked for that.
    pub earlier: Option<Earlier>,
}

impl Grid<'_> {
    /// Threads in a block.
    pub fn block_threads(&self) -> u32 {
        self.threads.iter().fold(1, |n: u32, t| n.saturating_mul(*t))
    }

    /// Blocks in the grid.
    pub fn block_count(&self) -> u64 {
        self.blocks.iter().map(|b| u64::from(*b)).product()
    }

    /// The number of the block at a position in the order of those to run.
    pub(super) fn block_at(&self, position: u32) -> u32 {
        let of = |selection: &[u32]| selection.get(super::at(position)).copied();
        self.selection.and_then(of).unwrap_or(position)
    }

    /// The index of a block.
    pub fn block_index(&self, linear: u32) -> [u32; 3] {
        let [x, y, _] = self.blocks;
        [linear % x, linear / x % y, linear / x / y]
    }

    /// The index of a thread in its block.
    pub fn thread(&self, linear: u32) -> [u32; 3] {
        let [x, y, _] = self.threads;
        [linear % x, linear / x % y, linear / x / y]
    }

    /// The value of a special register that is constant while a thread runs.
    pub fn special(&self, kind: SpecialKind, block: [u32; 3], thread: u32, lane: u32, warp: u32) -> u64 {
        let t = self.thread(thread);
        let cluster = self.cluster;
        let value = match kind {
            SpecialKind::Tid(i) => t[i],
            SpecialKind::Ntid(i) => self.threads[i],
            SpecialKind::Ctaid(i) => block[i],
            SpecialKind::Nctaid(i) => self.blocks[i],
            SpecialKind::ClusterId(i) => block[i] / cluster[i],
            SpecialKind::NclusterId(i) => self.blocks[i] / cluster[i],
            SpecialKind::ClusterCtaid(i) => block[i] % cluster[i],
            SpecialKind::ClusterNctaid(i) => cluster[i],
            SpecialKind::ClusterCtarank => self.cluster_rank(block),
            SpecialKind::ClusterNctarank => self.cluster_size(),
            SpecialKind::IsExplicitCluster => u32::from(self.explicit_cluster),
            SpecialKind::Laneid => lane,
            SpecialKind::Warpid => warp,
            SpecialKind::Nwarpid => 48,
            SpecialKind::Gridid => return 1,
            SpecialKind::LanemaskEq => 1 << lane,
            SpecialKind::LanemaskLe => (1 << lane) | ((1 << lane) - 1),
            SpecialKind::LanemaskLt => (1 << lane) - 1,
            SpecialKind::LanemaskGe => !((1 << lane) - 1),
            SpecialKind::LanemaskGt => !((1 << lane) | ((1 << lane) - 1)),
            SpecialKind::DynamicSharedSize => self.dynamic_shared,
            SpecialKind::TotalSharedSize => self.allocated_shared(),
            SpecialKind::Reserved(offset) => self.allocated_shared() + offset,
            SpecialKind::ReservedSize => RESERVED_SHARED,
            // The upper and the lower half of the workspace's address: cooperative_groups/details/driver_abi.h.
            SpecialKind::Environment(1) => return self.workspace.unwrap_or(0) >> 32,
            SpecialKind::Environment(2) => return self.workspace.unwrap_or(0) & 0xffff_ffff,
            SpecialKind::Environment(_) | SpecialKind::Zero | SpecialKind::Smid => 0,
            SpecialKind::Nsmid => 1,
        };
        u64::from(value)
    }

    /// Shared memory in whole allocation units (PTX manual, `%total_smem_size`).
    fn allocated_shared(&self) -> u32 {
        self.shared.next_multiple_of(if self.sm < 80 { 256 } else { 128 })
    }

    /// The size of shared memory, including the reserved part if the program uses it; that part follows the block's own
    /// memory.
    pub(super) fn shared_extent(&self) -> u32 {
        let reserved = |kind| matches!(kind, SpecialKind::Reserved(_));
        let named = self.program.specials.iter().any(|special| reserved(special.kind));
        if named { self.allocated_shared() + RESERVED_SHARED } else { self.shared }
    }

    /// Bytes of a block's registers.
    pub(super) fn register_bytes(&self) -> u64 {
        let regs = &self.program.registers;
        let rows =
            |count: usize, lane: u64| u64::try_from(count).unwrap_or(u64::MAX).saturating_mul(32 * lane);
        let warp = rows(regs.w32.len(), 4)
            .saturating_add(rows(regs.w64.len(), 8))
            .saturating_add(rows(regs.w128.len(), 16));
        warp.saturating_mul(u64::from(self.block_threads().div_ceil(32)))
    }

    /// Bytes of registers and local memory that a block holds when it starts.
    pub fn block_bytes(&self) -> u64 {
        let local = 32 * u64::from(self.program.frame) * u64::from(self.block_threads().div_ceil(32));
        self.register_bytes().saturating_add(local)
    }

    /// The stop of a launch that exceeded its instruction limit.
    pub fn out_of_instructions(&self) -> Stop {
        let n = self.limits.instructions;
        let mut stop = Stop::general(
            Blame::Limit,
            StopKind::Limit,
            format!("the launch executed more than {n} warp instructions{MAY_NEVER_END}"),
        );
        stop.help = Some("raise the limit if the kernel is meant to run this long".into());
        stop
    }
}

/// Creates the observer of a block.
pub type Listen<'a> = &'a (dyn Fn(u32) -> Option<Box<dyn Observer>> + Sync);
/// Receives the observers of finished blocks, in block order.
pub type Collect<'a> = &'a mut (dyn FnMut(Box<dyn Observer>) + Send);

/// Runs a launch on `threads` host threads, or on one thread in the order that a guide chooses.
pub fn run(
    grid: &Grid<'_>,
    memory: Memory<'_>,
    threads: usize,
    guide: Option<&mut dyn Guide>,
    listen: Listen<'_>,
    collect: Collect<'_>,
) -> Outcome {
    // Blocks of a cluster run together, so clusters are what is counted, started and ended.
    let Ok(count) = u32::try_from(grid.block_count()).map(|blocks| blocks / grid.cluster_size()) else {
        let stop = Stop::general(Blame::Limit, StopKind::Limit, "a grid of more than 2^32 - 1 blocks");
        return Outcome { stop: Some(Box::new(stop)), ..Outcome::default() };
    };
    if grid.block_bytes().saturating_mul(u64::from(grid.cluster_size())) > MAX_BLOCK_BYTES {
        let sentence = format!(
            "a block needs {} bytes for its registers and local memory; the maximum is {MAX_BLOCK_BYTES}",
            grid.block_bytes()
        );
        let stop = Stop::general(Blame::Limit, StopKind::Limit, sentence);
        return Outcome { stop: Some(Box::new(stop)), ..Outcome::default() };
    }
    if grid.workspace.is_some() && super::at(count) > grid.residency().blocks {
        let most = grid.residency().blocks;
        let units = if grid.cluster_size() > 1 { "clusters" } else { "blocks" };
        let sentence =
            format!("a cooperative launch of {count} {units}; at most {most} can run at the same time");
        let stop = Stop::general(Blame::Limit, StopKind::Limit, sentence);
        return Outcome { stop: Some(Box::new(stop)), ..Outcome::default() };
    }
    if let Some(selection) = grid.selection {
        let count = u32::try_from(selection.len()).unwrap_or(u32::MAX);
        return run_in_waves(grid, memory, count, threads.max(1), listen, collect);
    }
    if grid.cluster_size() > 1 {
        return cluster::run(grid, memory, threads, guide, count, (listen, collect));
    }
    dispatch(grid, memory, threads, guide, count, (listen, collect))
}

/// Runs the blocks, or the clusters if they have several blocks.
pub(super) fn dispatch(
    grid: &Grid<'_>,
    mut memory: Memory<'_>,
    threads: usize,
    guide: Option<&mut dyn Guide>,
    count: u32,
    (listen, collect): (Listen<'_>, Collect<'_>),
) -> Outcome {
    // A schedule of blocks matters only if they affect each other.
    let communication = grid.program.communication;
    let scheduled = grid.schedule.blocks != Blocks::InOrder && communication != Communication::None;
    let kept = grid.keeps_earlier.then(Earlier::default);
    let on_memory = |mut heap: Writing<'_>, run: &mut dyn FnMut(&mut Heap) -> Outcome| {
        heap.dependence.kept = kept;
        let mut outcome = run(&mut heap);
        outcome.earlier = heap.dependence.kept.take();
        outcome
    };
    if let Some(guide) = guide {
        on_memory(memory.write(), &mut |heap| guided::run(grid, heap, count, guide, listen, collect))
    } else if communication.takes_turns()
        || scheduled
        // Observers of clusters share the record of global memory, because the blocks of a cluster can order their accesses.
        || (grid.observed || grid.schedule.blocks != Blocks::InOrder) && grid.cluster_size() > 1
        || count == 1 && !memory.is_concurrent()
    {
        on_memory(memory.write(), &mut |heap| {
            run_in_turns(grid, heap, 0..count, Begun::default(), listen, collect)
        })
    } else {
        run_in_waves(grid, memory, count, threads.max(1), listen, collect)
    }
}

/// The stop if the blocks exceed a limit together, although no single block does.
pub(super) fn over_limit(grid: &Grid<'_>, used: u64, printed: usize, last: [u32; 3]) -> Option<Box<Stop>> {
    let mut stop = if used > grid.limits.instructions {
        let mut stop = grid.out_of_instructions();
        let cost = grid.start_cost();
        stop.notes.push(format!("the blocks together; starting a block counts as {cost} instructions"));
        stop
    } else if u64::try_from(printed).unwrap_or(u64::MAX) > grid.limits.output {
        let sentence = format!("printf printed more than {} bytes", grid.limits.output);
        Stop::general(Blame::Limit, StopKind::Limit, sentence)
    } else {
        return None;
    };
    let [x, y, z] = last;
    stop.block = Some(last);
    stop.notes.push(format!("block ({x},{y},{z}) exceeded it when it ended"));
    Some(Box::new(stop))
}

/// The state of all running blocks after a check for progress.
pub(super) enum Standing {
    /// At least one of them may still make progress.
    Moves,
    /// None can make progress, unless a block that has not started changes memory. Holds the first of them, and its loop.
    Stuck(usize, Vec<Spin>),
    /// The launch has ended.
    Ended(Box<Stop>),
}

/// Runs all active blocks for a while, to see whether one of them can make progress.
pub(super) fn look_at_all(
    grid: &Grid<'_>,
    heap: &mut Heap,
    active: &mut [Active],
    instructions: &mut u64,
    (turns, steps): (&mut Turns, u64),
) -> Standing {
    let mut stuck: Option<(usize, Vec<Spin>)> = None;
    // Blocks that sleep do not move unless others do.
    let awake = (0..active.len()).filter(|i| !active[*i].0.asleep);
    let asleep = (0..active.len()).filter(|i| active[*i].0.asleep);
    let all: Vec<usize> = awake.chain(asleep).collect();
    for i in all {
        let (run, watch) = &mut active[i];
        if run.paused {
            continue;
        }
        let before = run.instructions;
        let watch = watch.as_deref_mut().map(|w| -> &mut (dyn Observer + 'static) { w });
        let mut global = run.direct(heap);
        let look = run.with_unstarted(turns, |run| run.look(grid, &mut global, watch, steps));
        *instructions += run.instructions - before;
        match look {
            Look::Stuck(spins) => {
                if stuck.as_ref().is_none_or(|(first, _)| i < *first) {
                    stuck = Some((i, spins));
                }
            }
            Look::Ended(Progress::Stopped(stop)) => return Standing::Ended(stop),
            Look::Ended(_) | Look::Moves => return Standing::Moves,
        }
    }
    stuck.map_or(Standing::Moves, |(i, spins)| Standing::Stuck(i, spins))
}

/// The stop of blocks that wait forever while `later` others cannot start.
pub(super) fn standstill(
    grid: &Grid<'_>,
    active: &[Active],
    (first, spins): (usize, &[Spin]),
    later: u32,
    residency: Residency,
) -> Option<Box<Stop>> {
    let mut stop = active.get(first)?.0.endless(grid, spins);
    let running = active.len();
    if running > 1 {
        stop.notes.push(format!("all {running} running blocks wait"));
    }
    if later > 0 && residency.by_memory {
        stop.blame = Blame::Limit;
        stop.kind = StopKind::Limit;
        stop.sentence = format!(
            "{running} blocks wait for others, and {later} more cannot start: memory in addition to the buffers would exceed \
             half of {} bytes",
            grid.limits.memory
        );
        stop.help = Some("raise the memory limit, or launch fewer blocks".to_owned());
    } else if later > 0 {
        "deadlock: blocks wait for blocks that cannot start".clone_into(&mut stop.sentence);
        stop.notes.push(format!("{later} blocks have not started: a device starts them when others end"));
        let (sm, threads, shared) = (grid.sm, grid.block_threads(), grid.shared);
        stop.notes.push(format!(
            "no device of sm_{sm} or later runs more than {running} blocks of {threads} threads and {shared} bytes of shared \
             memory at the same time"
        ));
        stop.help = Some(
            "launch at most as many blocks as run at the same time (cudaOccupancyMaxActiveBlocksPerMultiprocessor times the \
             number of multiprocessors), or let blocks wait for earlier blocks only"
                .to_owned(),
        );
    }
    Some(Box::new(stop))
}

/// Counts the rounds in which no barrier completes and no thread exits.
#[derive(Default)]
struct Quiet {
    progress: u64,
    rounds: u32,
}

impl Quiet {
    /// The end of a round. Returns whether a block at a breakpoint has waited long enough for the others.
    fn end(&mut self, progress: u64) -> bool {
        self.rounds = if progress == self.progress { self.rounds + 1 } else { 0 };
        self.progress = progress;
        let ends = self.rounds >= PATIENCE;
        if ends {
            self.rounds = 0;
        }
        ends
    }
}

/// Whether waiting lanes sleep: those of blocks that communicate, unless loads get what memory contained before another launch.
fn communication_naps(grid: &Grid<'_>, heap: &Heap) -> bool {
    grid.program.communication.takes_turns() && heap.dependence.hidden.iter().all(Option::is_none)
}

/// Releases blocks that are at a breakpoint.
fn resume(active: &mut [Active]) {
    for (run, _) in active {
        run.paused = false;
    }
}

/// An active block and its observer.
pub(super) type Active = (BlockRun, Option<Box<dyn Observer>>);

/// What the blocks have done that ended before others take turns.
#[derive(Default)]
pub(super) struct Begun {
    pub outcome: Outcome,
    /// Instructions, and the start cost of blocks.
    pub used: u64,
}

/// Runs blocks in turns on the memory itself. A block that does not finish in its turn lets the next one start, so blocks
/// may wait for each other. If all active blocks wait, their number is doubled, up to the number that a device runs at the
/// same time.
pub(super) fn run_in_turns(
    grid: &Grid<'_>,
    heap: &mut Heap,
    blocks: Range<u32>,
    Begun { mut outcome, mut used }: Begun,
    listen: Listen<'_>,
    collect: Collect<'_>,
) -> Outcome {
    let mut active: Vec<Active> = Vec::new();
    // The results of finished blocks, to be passed on in block order.
    let mut finished: BTreeMap<u32, Ended> = BTreeMap::new();
    let mut spare = Spare::default();
    let residency = grid.residency();
    // Blocks that only reduce never wait for each other: one at a time holds the least memory.
    let alone =
        grid.program.communication == Communication::Reductions && grid.schedule.blocks == Blocks::InOrder;
    let resident = if alone { 1 } else { residency.blocks };
    let cost = grid.start_cost();
    let mut printed = outcome.output.len();
    let mut turns = Turns::new(grid.unit_schedule(), blocks.end, resident).starting_at(blocks.start);
    // Bytes that the active blocks hold.
    let mut held = 0u64;
    let mut suspicion = Suspicion::default();
    // How much longer the next examination of sleeping blocks is, and the progress since which that holds.
    let (mut patience, mut examined_at) = (1u64, 0);
    // The irreversible progress of the finished blocks.
    let mut past = 0u64;
    // For blocks that all wait: for how many instructions they were checked, and the number of rounds that newly started
    // blocks may take to reach the same point.
    let mut waiting: Option<(u64, u32)> = None;
    // Blocks that the next round starts.
    let mut starts = turns.starts(0);
    // A launch that reads memory as it was before another launch cannot see what changes.
    let may_nap = communication_naps(grid, heap);
    let mut rounds = Quiet::default();
    while outcome.stop.is_none() && (turns.left() > 0 || !active.is_empty()) {
        for _ in 0..starts {
            if active.len() >= resident {
                break;
            }
            let Some(next) = turns.start() else { break };
            used = used.saturating_add(cost);
            let mut run = BlockRun::new(grid, next, std::mem::take(&mut spare));
            run.stop_at(&turns, grid);
            if may_nap {
                run.let_nap();
            }
            // A block that joins waiting blocks has short turns until it has made progress.
            run.idle = waiting.is_some();
            held = held.saturating_add(run.footprint(grid));
            active.push((run, listen(next)));
        }
        starts = if waiting.is_none() { turns.starts(active.len()) } else { 0 };
        let mut i = 0;
        while i < active.len() {
            let turn = turns.turn(active[i].0.idle);
            if turn == 0 || active[i].0.paused || active[i].0.asleep && !active[i].0.is_stirred(heap) {
                i += 1;
                continue;
            }
            if active[i].0.asleep {
                active[i].0.forget_circles();
            }
            let (run, watch) = &mut active[i];
            let before = run.instructions;
            let mut global = run.direct(heap);
            held = held.saturating_sub(run.footprint(grid));
            let room = grid.limits.memory.saturating_sub(held);
            let progress_before = run.progress();
            let allowance = Allowance {
                turn,
                instructions: before.saturating_add(grid.limits.instructions.saturating_sub(used)),
                running: room.saturating_sub(run.output_bytes()),
                kept: room,
            };
            let watch = watch.as_deref_mut().map(|w| -> &mut (dyn Observer + 'static) { w });
            let progress =
                run.with_unstarted(&mut turns, |run| run.run(grid, &mut global, watch, &allowance));
            run.idle = run.progress() == progress_before;
            held = held.saturating_add(run.footprint(grid));
            outcome.instructions += run.instructions - before;
            used = used.saturating_add(run.instructions - before);
            let index = run.index();
            let done = !matches!(progress, Progress::Expired);
            if let Progress::Stopped(stop) = progress {
                outcome.stop = Some(stop);
            }
            if done {
                let (run, mut watch) = active.remove(i);
                if let Some(watch) = &mut watch {
                    watch.ended();
                }
                held = held.saturating_sub(run.footprint(grid));
                past = past.saturating_add(run.progress()).saturating_add(1);
                let linear = run.number;
                outcome.dependency.merge(run.dependency());
                let (output, left) = run.end();
                spare = left;
                printed = printed.saturating_add(output.len());
                if !output.is_empty() || watch.is_some() {
                    finished.insert(linear, (output, watch));
                }
            } else {
                i += 1;
            }
            if outcome.stop.is_none() {
                outcome.stop = over_limit(grid, used, printed, index);
            }
            if outcome.stop.is_some() {
                break;
            }
            // Results of blocks before the first active one are passed on, so that few are kept.
            let first = active.iter().map(|(run, _)| run.number).fold(turns.lowest(), u32::min);
            hand_on(&mut finished, first, &mut outcome.output, collect);
        }
        if outcome.stop.is_some() {
            break;
        }
        let full = turns.left() == 0 || active.len() >= resident;
        let progress = active.iter().fold(past, |sum, (run, _)| sum.saturating_add(run.progress()));
        if active.is_empty() {
            waiting = None;
            starts = turns.starts(0).max(1);
            continue;
        }
        let sleeping = active.iter().all(|(run, _)| run.paused || run.asleep);
        if progress != examined_at {
            (patience, examined_at) = (1, progress);
        }
        let patient = rounds.end(progress) && active.iter().any(|(run, _)| run.paused);
        if full && (sleeping || patient) && active.iter().any(|(run, _)| run.paused) {
            resume(&mut active);
            continue;
        }
        if sleeping && !full {
            starts = active.len();
            continue;
        }
        let polling = active.iter().all(|(run, _)| run.polling || run.asleep);
        let examined = || active.iter().map(|(run, _)| run.examination()).fold(POLLING, u64::max);
        let due = suspicion.is_due(outcome.instructions, progress).or(polling.then_some(POLLING));
        // Lanes of a warp take long turns, so an examination that saw only some of them is followed by a longer one.
        let due = if sleeping { Some(examined().saturating_mul(patience).min(LONGEST)) } else { due };
        let Some(steps) = waiting.map(|(steps, _)| steps).or(due) else { continue };
        let before = outcome.instructions;
        let standing = look_at_all(grid, heap, &mut active, &mut outcome.instructions, (&mut turns, steps));
        used = used.saturating_add(outcome.instructions - before);
        match standing {
            Standing::Ended(stop) => outcome.stop = Some(stop),
            Standing::Moves => {
                if sleeping {
                    patience = patience.saturating_mul(2);
                    for (run, _) in &mut active {
                        run.wake_all();
                    }
                }
                let grace = waiting.and_then(|(steps, grace)| Some((steps, grace.checked_sub(1)?)));
                waiting = grace;
                starts = turns.starts(active.len()).max(1);
            }
            Standing::Stuck(..) if full && active.iter().any(|(run, _)| run.paused) => resume(&mut active),
            Standing::Stuck(first, spins) if full => {
                outcome.stop = standstill(grid, &active, (first, &spins), turns.left(), residency);
            }
            Standing::Stuck(..) => {
                waiting = Some((steps, GRACE));
                starts = active.len();
            }
        }
    }
    for (run, watch) in active {
        outcome.dependency.merge(run.dependency());
        let number = run.number;
        finished.insert(number, (run.end().0, watch));
    }
    hand_on(&mut finished, u32::MAX, &mut outcome.output, collect);
    outcome
}

/// The output of a block, and its observer.
pub(super) type Ended = (Vec<u8>, Option<Box<dyn Observer>>);

/// Passes on the results of the blocks before `end`, in block order.
pub(super) fn hand_on(
    finished: &mut BTreeMap<u32, Ended>,
    end: u32,
    output: &mut Vec<u8>,
    collect: &mut dyn FnMut(Box<dyn Observer>),
) {
    while let Some(first) = finished.first_entry().filter(|first| *first.key() < end) {
        let (printed, watch) = first.remove();
        output.extend(printed);
        if let Some(watch) = watch {
            collect(watch);
        }
    }
}
