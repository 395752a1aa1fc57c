//! A block: its shared memory, its barriers, and the scheduling of its warps.

use super::footprint::{self, Allowance};
use super::start::start_warp;
use super::turns::Turns;
use super::warp::Turn;
use super::{Grid, Wait, Warp, WarpState, at, cluster_address};
use crate::memory::{Global, Heap, SharedMemory};
use crate::observe::{Arrival, Detail, Observer};
use crate::program::BASES;
use crate::stop::{Blame, Stop, StopKind};

/// The state that the warps of a block share.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is about one kind of event")]
pub struct Cta {
    /// The block's index in the grid.
    pub index: [u32; 3],
    /// The linear index of the block.
    pub linear: u32,
    /// Its rank in its cluster.
    pub rank: u32,
    /// What the addresses of its own shared memory contain besides the offset; 0 if it has no cluster.
    pub(super) window: u64,
    /// Shared memory.
    pub shared: SharedMemory,
    /// The sixteen barriers, followed by the barrier of the cluster, which is that of its first block.
    pub barriers: [Barrier; 17],
    /// Threads that have not exited.
    pub live: u32,
    /// Registers of a thread of each warp; 0 if it is not known.
    pub(crate) registers: [u32; 32],
    /// Their sum when the block started, which `setmaxnreg` distributes.
    pub(crate) pool: u32,
    /// How the block has used `griddepcontrol`.
    pub(crate) dependency: GridDependency,
    /// What `printf` printed.
    pub output: Vec<u8>,
    /// Set while the launch looks for infinite loops; records whether anything changed that another thread could notice,
    /// and whether lanes of a warp synchronized.
    pub(super) probed: bool,
    pub(super) changed: bool,
    pub(super) met: bool,
    /// Whether a warp arrived at a barrier.
    pub(super) arrived: bool,
    /// Whether lanes that wait for memory to change sleep.
    pub(super) may_nap: bool,
    /// How far the clock is ahead of the warp's instruction count.
    pub(super) later: u64,
    /// Completed phases that some threads have not left yet.
    completed: Vec<Completed>,
    /// How often any of the barriers has completed.
    pub(super) completions: u64,
    /// The breakpoint of its warps.
    pub(super) stops: Stops,
    /// Bulk copies in flight; those of the cluster are in its first block.
    pub(super) bulk: Vec<super::bulk::Bulk>,
    /// The waits of its warpgroups for `wgmma`.
    pub(super) warpgroups: Vec<super::Warpgroup>,
    /// The addresses of the bundle that is being executed.
    pub(super) places: [super::Place; BASES],
    /// Tensor memory, and what is in flight there.
    pub tensor: super::Tensor,
    /// What it knows of clusters that have not started; that of the cluster is in its first block.
    pub(super) cancels: super::Cancels,
}

/// How a launch, or a block of it, has used `griddepcontrol`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GridDependency {
    /// It has let the launches that depend on it start, before it ended.
    pub triggered: bool,
    /// It has waited for the launches that it depends on.
    pub waited: bool,
    /// A block has waited before it let others start: they start after the launches that this one depends on.
    pub waited_first: bool,
}

impl GridDependency {
    pub(crate) fn wait(&mut self) {
        self.waited = true;
        self.waited_first |= !self.triggered;
    }

    pub(crate) fn merge(&mut self, other: GridDependency) {
        self.triggered |= other.triggered;
        self.waited |= other.waited;
        self.waited_first |= other.waited_first;
    }
}

/// Where the warps of a block stop before they execute an instruction, if the run has an observer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stops {
    /// Nowhere.
    Nowhere,
    /// At an instruction, once, after warps have executed it this often.
    Before {
        /// The instruction.
        pc: u32,
        /// How often.
        times: u32,
    },
    /// At each step of a guided launch, until the guide releases the warp.
    Steps,
}

/// The index of the cluster barrier among the barriers of the cluster's first block.
pub const CLUSTER_BARRIER: u32 = 16;

/// One of a block's barriers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Barrier {
    /// How often it has completed; a waiting subwarp waits for this to change.
    pub phase: u64,
    /// Threads that arrived in this phase.
    pub(super) arrived: u32,
    /// Lanes of arrived warps that never arrive (exited or nonexistent): a count is given in whole warps.
    absent: u32,
    /// Lanes of each warp that have arrived.
    lanes: [u32; 32],
    /// The expected number of threads; `None` means all live threads.
    pub(super) expected: Option<u32>,
    /// The instruction that was the first to arrive in this phase.
    pub(super) first: u32,
    /// The same for the previous phase, with the number of threads it expected.
    pub(super) before: Option<(u32, Option<u32>)>,
    /// Threads that wait in this phase.
    waiting: u32,
    gathered: BarrierReduction,
}

/// The combined values of the threads of a completed phase. Other threads may complete the barrier again before a thread of
/// that phase continues and reads them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Completed {
    id: u32,
    phase: u64,
    /// Threads that have not read the values yet; the last one removes them.
    waiting: u32,
    result: BarrierReduction,
}

/// The values that `barrier.red` combines over the arriving threads.
#[derive(Clone, Copy, Debug)]
pub struct BarrierReduction {
    /// How many predicates were true.
    pub count: u32,
    /// Whether all were true.
    pub and: bool,
    /// Whether any was true.
    pub or: bool,
}

impl Default for BarrierReduction {
    fn default() -> Self {
        BarrierReduction { count: 0, and: true, or: false }
    }
}

impl Cta {
    /// Threads of a warp have exited: barriers that wait for all live threads, or for that warp, may be complete now.
    /// Returns the complete barriers, one bit each.
    pub fn leave(&mut self, warp: u32, lanes: u32) -> u32 {
        self.live -= lanes.count_ones().min(self.live);
        let mut completed = 0;
        let own = (0..CLUSTER_BARRIER).zip(&mut self.barriers);
        for (id, barrier) in own.filter(|(_, barrier)| barrier.arrived > 0) {
            let done = match barrier.expected {
                None => barrier.arrived >= self.live,
                Some(count) => {
                    // Lanes that arrived before they exited are already counted.
                    let here = barrier.lanes[at(warp & 31)];
                    if here != 0 {
                        barrier.absent = barrier.absent.saturating_add((lanes & !here).count_ones());
                    }
                    barrier.arrived.saturating_add(barrier.absent) >= count
                }
            };
            if done {
                let done = barrier.complete(id);
                self.completions += 1;
                self.completed.extend((done.waiting > 0).then_some(done));
                completed |= 1 << id;
            }
        }
        completed
    }

    /// The combined values of a phase, read by this number of waiting threads.
    fn take_result(&mut self, id: u32, phase: u64, threads: u32) -> Option<BarrierReduction> {
        let index = self.completed.iter().position(|done| done.id == id && done.phase == phase)?;
        let done = &mut self.completed[index];
        done.waiting = done.waiting.saturating_sub(threads);
        let result = done.result;
        if done.waiting == 0 {
            self.completed.swap_remove(index);
        }
        Some(result)
    }
}

impl Barrier {
    pub(super) fn complete(&mut self, id: u32) -> Completed {
        let done = Completed { id, phase: self.phase, waiting: self.waiting, result: self.gathered };
        let before = Some((self.first, self.expected));
        *self = Barrier { phase: self.phase + 1, before, ..Barrier::default() };
        done
    }
}

impl Warp<'_, '_> {
    /// The lanes in `exec` arrive at a barrier and continue.
    pub fn arrive(&mut self, id: u32, expected: Option<u32>) -> Result<(), super::Flow> {
        self.arrive_with(id, expected, 0, false).map(|_| ())
    }

    /// The lanes in `exec` arrive at a barrier with `values`. Returns the combined values if that completes the barrier.
    fn arrive_with(
        &mut self,
        id: u32,
        expected: Option<u32>,
        values: u32,
        waits: bool,
    ) -> Result<Option<BarrierReduction>, super::Flow> {
        if id > 15 {
            let sentence = format!("barrier {id} does not exist; a block has barriers 0 to 15");
            return Err(self.halt(Blame::Kernel, StopKind::Barrier, sentence));
        }
        if let Some(count) = expected.filter(|count| *count == 0 || count % 32 != 0) {
            let sentence = format!(
                "barrier {id} has a thread count of {count}; the count must be a nonzero multiple of 32"
            );
            return Err(self.halt(Blame::Kernel, StopKind::Barrier, sentence));
        }
        self.arrive_at(id, expected, values, waits)
    }

    fn arrive_at(
        &mut self,
        id: u32,
        expected: Option<u32>,
        values: u32,
        waits: bool,
    ) -> Result<Option<BarrierReduction>, super::Flow> {
        let live = self.cta.live;
        let everyone = self.grid.block_threads().next_multiple_of(32);
        let absent = self.state.exited.count_ones();
        let warp = at(self.state.id & 31);
        self.cta.arrived = true;
        let barrier = &mut self.cta.barriers[at(id)];
        if barrier.arrived > 0 && barrier.expected.unwrap_or(everyone) != expected.unwrap_or(everyone) {
            let described =
                |count: Option<u32>| count.map_or("all threads".to_owned(), |n| format!("{n} threads"));
            let sentence = format!(
                "warps disagree on barrier {id}: one waits for {}, another for {}",
                described(barrier.expected),
                described(expected)
            );
            let (earlier, first) = (described(barrier.expected), barrier.first);
            let flow = self.halt(Blame::Kernel, StopKind::Barrier, sentence);
            if let Some(stop) = &mut self.stop {
                stop.label = Some(format!("waits for {}", described(expected)));
                let place = self.grid.program.place(first).filter(|_| first != self.pc);
                stop.others.extend(place.map(|place| (place, format!("waits for {earlier}"))));
            }
            return Err(flow);
        }
        if barrier.arrived == 0 {
            barrier.first = self.pc;
        }
        barrier.expected = expected;
        // A thread may arrive any number of times without waiting.
        barrier.arrived = barrier.arrived.saturating_add(self.exec.count_ones());
        if barrier.lanes[warp] == 0 {
            barrier.absent = barrier.absent.saturating_add(absent);
        }
        barrier.lanes[warp] |= self.exec;
        let brought = values & self.exec;
        barrier.gathered.count = barrier.gathered.count.saturating_add(brought.count_ones());
        barrier.gathered.and &= brought == self.exec;
        barrier.gathered.or |= brought != 0;
        let done = match barrier.expected {
            None => barrier.arrived >= live,
            Some(count) => barrier.arrived.saturating_add(barrier.absent) >= count,
        };
        if let Some(watch) = self.watch.as_deref_mut() {
            let (warp, lanes, exited, pc) = (self.state.id, self.exec, self.state.exited, self.pc);
            watch.arrive(&Arrival { warp, lanes, exited, pc, id, expected, waits, clock: self.state.clock });
        }
        if !done {
            return Ok(None);
        }
        let done = barrier.complete(id);
        self.cta.completions += 1;
        self.cta.completed.extend((done.waiting > 0).then_some(done));
        if let Some(watch) = self.watch.as_deref_mut() {
            watch.barrier(self.cta.linear, id);
        }
        Ok(Some(done.result))
    }

    /// Arrives and waits. `Ok(None)` while waiting; the routine then returns [`Flow::Wait`](super::Flow::Wait) and is
    /// executed again when the phase has ended.
    pub fn arrive_and_wait(
        &mut self,
        id: u32,
        expected: Option<u32>,
        values: u32,
    ) -> Result<Option<BarrierReduction>, super::Flow> {
        if let Wait::Barrier { id, phase } = self.state.subwarp.wait {
            self.state.subwarp.wait = Wait::None;
            let result = self.cta.take_result(id, phase, self.exec.count_ones());
            return match result {
                Some(result) => Ok(Some(result)),
                None => Err(self.halt(
                    Blame::Bug,
                    StopKind::Internal,
                    "the phase of a barrier was already removed".into(),
                )),
            };
        }
        if let Some(result) = self.arrive_with(id, expected, values, true)? {
            return Ok(Some(result));
        }
        let barrier = &mut self.cta.barriers[at(id)];
        barrier.waiting += self.exec.count_ones();
        self.state.subwarp.wait = Wait::Barrier { id, phase: barrier.phase };
        Ok(None)
    }
}

/// A cluster of blocks that is running; almost always one block.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is about one kind of waiting, and they occur together"
)]
pub(super) struct BlockRun {
    /// The number of the cluster.
    pub(super) number: u32,
    /// Its blocks by rank.
    pub(super) ctas: Vec<Cta>,
    /// The warps of all blocks, block by block.
    pub(super) warps: Vec<WarpState>,
    pub(super) done: Vec<bool>,
    pub(super) order: Vec<usize>,
    pub(super) instructions: u64,
    /// Whether its last turn made no irreversible progress (no barrier completed and no thread exited).
    pub(super) idle: bool,
    /// Whether it is at its breakpoint and waits for release.
    pub(super) paused: bool,
    /// Whether the grids that this one depends on have ended, as far as its threads can observe.
    released: bool,
    /// Whether its warps only poll mbarriers, or wait.
    pub(super) polling: bool,
    /// Whether all its warps wait for memory to change, or for each other.
    pub(super) asleep: bool,
    /// Bytes that each warp holds in addition to its registers, and their sum.
    held: (Vec<u64>, u64),
}

/// Instructions per turn of a warp, at most, so that its memory use is checked regularly.
const LONGEST_TURN: u64 = 65_536;

/// Instructions per turn of a warp in a short turn of its block, at least.
const SHORTEST_TURN: u64 = 64;

/// Counts the rounds in which warps only poll mbarriers.
#[derive(Default)]
pub(super) struct Polling {
    rounds: u32,
    /// How often in a row there were many such rounds.
    repeats: u32,
}

impl Polling {
    /// Whether the warps have polled for so long that only copies in flight can end it.
    pub(super) fn round(&mut self, polls: bool) -> bool {
        if !polls {
            *self = Polling::default();
            return false;
        }
        self.rounds += 1;
        if self.rounds < 256 {
            return false;
        }
        self.rounds = 0;
        self.repeats += 1;
        true
    }
}

/// Memory of a finished block that the next one reuses: a grid of short blocks would otherwise spend much of its time on
/// allocating register files.
#[derive(Default)]
pub(super) struct Spare {
    shared: Vec<SharedMemory>,
    warps: Vec<WarpState>,
}

/// A limit of a block.
#[derive(Clone, Copy)]
enum Exceeded {
    /// Memory for what it keeps until it ends.
    Kept,
    /// Memory for what it holds while it runs.
    Running,
    Instructions,
}

/// How a turn of a block ended.
pub(super) enum Progress {
    Done,
    /// The instructions of this turn are used up.
    Expired,
    Stopped(Box<Stop>),
}

impl BlockRun {
    /// A cluster about to start, in the memory of a finished one.
    pub(super) fn new(grid: &Grid<'_>, number: u32, spare: Spare) -> BlockRun {
        let mut spare = if grid.plain { Spare::default() } else { spare };
        let threads = grid.block_threads();
        let count = threads.div_ceil(32);
        let registers = grid.program.bounds.registers.unwrap_or(0).min(256);
        let mut ctas = Vec::with_capacity(at(grid.cluster_size()));
        for rank in 0..grid.cluster_size() {
            let linear = grid.cluster_block(number, rank);
            let mut shared = spare.shared.pop().unwrap_or_else(|| SharedMemory::new(0));
            shared.reset(grid.shared_extent());
            ctas.push(Cta {
                index: grid.block_index(linear),
                linear,
                rank,
                window: if grid.cluster_size() > 1 { cluster_address(rank, 0) } else { 0 },
                shared,
                barriers: [Barrier::default(); 17],
                live: threads,
                registers: std::array::from_fn(|warp| if warp < at(count) { registers } else { 0 }),
                pool: registers * count,
                dependency: GridDependency::default(),
                output: Vec::new(),
                probed: false,
                changed: false,
                met: false,
                arrived: false,
                may_nap: false,
                later: 0,
                completed: Vec::new(),
                completions: 0,
                stops: Stops::Nowhere,
                bulk: Vec::new(),
                warpgroups: vec![super::Warpgroup::default(); at(count.div_ceil(4))],
                places: [super::Place::default(); BASES],
                tensor: super::Tensor::default(),
                cancels: super::Cancels::default(),
            });
        }
        let mut warps = spare.warps;
        warps.resize_with(at(count) * ctas.len(), WarpState::default);
        let places = ctas.iter().flat_map(|cta| (0..count).map(move |id| (cta, id)));
        for ((cta, id), warp) in places.zip(&mut warps) {
            start_warp(warp, grid, cta.index, id, threads);
            warp.rank = cta.rank;
        }
        let order = grid.schedule.order(number, warps.len());
        let held: Vec<u64> = warps.iter().map(WarpState::holds).collect();
        let all = held.iter().fold(0, |sum: u64, held| sum.saturating_add(*held));
        BlockRun {
            number,
            ctas,
            done: vec![false; warps.len()],
            warps,
            order,
            instructions: 0,
            idle: false,
            paused: false,
            released: false,
            polling: false,
            asleep: false,
            held: (held, all),
        }
    }

    /// The index of its first block.
    pub(super) fn index(&self) -> [u32; 3] {
        self.ctas.first().map_or([0; 3], |cta| cta.index)
    }

    /// Bytes that its blocks have printed.
    pub(super) fn printed(&self) -> usize {
        self.ctas.iter().map(|cta| cta.output.len()).sum()
    }

    /// Threads that have not exited.
    pub(super) fn live(&self) -> u32 {
        self.ctas.iter().map(|cta| cta.live).sum()
    }

    /// Whether anything changed that another thread could notice, since that was last set.
    pub(super) fn changed(&self) -> bool {
        self.ctas.iter().any(|cta| cta.changed || cta.arrived)
    }

    pub(super) fn set_changed(&mut self, changed: bool) {
        self.ctas.iter_mut().for_each(|cta| (cta.changed, cta.arrived) = (changed, changed));
    }

    pub(super) fn set_probed(&mut self, probed: bool) {
        self.ctas.iter_mut().for_each(|cta| cta.probed = probed);
    }

    pub(super) fn set_stops(&mut self, stops: Stops) {
        self.ctas.iter_mut().for_each(|cta| cta.stops = stops);
    }

    /// Sets the breakpoint of the block that has one.
    pub(super) fn stop_at(&mut self, turns: &Turns, grid: &Grid<'_>) {
        let stops = turns.stops(self.number);
        let overtaken = |linear: u32| match grid.schedule.blocks {
            crate::schedule::Blocks::Overtaken { block, .. } => block == linear,
            _ => false,
        };
        for cta in self.ctas.iter_mut().filter(|cta| overtaken(cta.linear)) {
            cta.stops = stops;
        }
    }

    /// The warp with this number of the block with this linear index.
    pub(super) fn warp_of(&mut self, block: u32, warp: u32) -> Option<&mut WarpState> {
        let rank = self.ctas.iter().find(|cta| cta.linear == block)?.rank;
        self.warps.iter_mut().find(|state| state.rank == rank && state.id == warp)
    }

    /// Bytes of host memory it holds while it runs.
    pub(super) fn holds(&self, grid: &Grid<'_>) -> u64 {
        let shared: u64 = self
            .ctas
            .iter()
            .map(|cta| u64::from(cta.shared.size()).saturating_add(cta.tensor.memory.bytes()))
            .sum();
        let blocks = u64::try_from(self.ctas.len()).unwrap_or(u64::MAX);
        self.held.1.saturating_add(shared).saturating_add(grid.register_bytes().saturating_mul(blocks))
    }

    /// Bytes of what it printed.
    pub(super) fn output_bytes(&self) -> u64 {
        u64::try_from(self.printed()).unwrap_or(u64::MAX)
    }

    /// All bytes it holds, except stores in the overlay.
    pub(super) fn footprint(&self, grid: &Grid<'_>) -> u64 {
        self.holds(grid).saturating_add(self.output_bytes())
    }

    /// The limit that it has exceeded.
    #[inline]
    fn exceeded(&self, grid: &Grid<'_>, global: &Global<'_>, allowance: &Allowance) -> Option<Exceeded> {
        let kept = global.overlay_bytes().saturating_add(self.output_bytes());
        if global.is_full() || kept > allowance.kept {
            Some(Exceeded::Kept)
        } else if self.holds(grid) > allowance.running {
            Some(Exceeded::Running)
        } else if self.instructions > allowance.instructions {
            Some(Exceeded::Instructions)
        } else {
            None
        }
    }

    /// Why it must end.
    #[cold]
    fn over(&self, grid: &Grid<'_>, i: usize, allowance: &Allowance, exceeded: Exceeded) -> Box<Stop> {
        let mut stop = match exceeded {
            Exceeded::Kept => grid.out_of_memory(footprint::KEPT, allowance.kept),
            Exceeded::Running => grid.out_of_memory(footprint::RUNNING, allowance.running),
            Exceeded::Instructions => grid.out_of_instructions(),
        };
        let warp = &self.warps[i];
        let index = self.ctas[at(warp.rank)].index;
        stop.block = Some(index);
        stop.place = grid.program.place(warp.subwarp.pc);
        let [x, y, z] = index;
        stop.notes.push(format!("warp {} of block ({x},{y},{z}) was here", warp.id));
        Box::new(stop)
    }

    /// The memory itself, as its blocks see it.
    pub(super) fn direct<'a>(&self, heap: &'a mut Heap) -> Global<'a> {
        heap.dependence.waited = self.released;
        Global::Direct(heap)
    }

    /// Whether threads wait for the grids that this one depends on.
    pub(super) fn awaits_grids(&self) -> bool {
        let waits = |warp: &WarpState| {
            warp.parked
                .iter()
                .chain([&warp.subwarp])
                .any(|subwarp| subwarp.wait == Wait::Grids && subwarp.mask != 0)
        };
        !self.released && self.warps.iter().any(waits)
    }

    /// How it has used `griddepcontrol`.
    pub(super) fn dependency(&self) -> GridDependency {
        self.ctas.iter().fold(GridDependency::default(), |mut all, cta| {
            all.merge(cta.dependency);
            all
        })
    }

    /// The block's output, and its memory for the next block.
    pub(super) fn end(self) -> (Vec<u8>, Spare) {
        let (mut output, mut shared) = (Vec::new(), Vec::new());
        for cta in self.ctas {
            output.extend(cta.output);
            shared.push(cta.shared);
        }
        (output, Spare { shared, warps: self.warps })
    }

    /// Runs warps in turn until the block ends or exceeds a limit.
    pub(super) fn run<'a>(
        &mut self,
        grid: &'a Grid<'a>,
        global: &mut Global<'_>,
        mut watch: Option<&mut (dyn Observer + 'static)>,
        allowance: &Allowance,
    ) -> Progress {
        let start = self.instructions;
        (self.paused, self.asleep) = (false, false);
        let may_nap = self.ctas.iter().any(|cta| cta.may_nap);
        // In a short turn, all warps together share the limit.
        let warps = u64::try_from(self.warps.len().max(1)).unwrap_or(1);
        let short = allowance.turn < LONGEST_TURN;
        let share = if short { (allowance.turn / warps).max(SHORTEST_TURN) } else { LONGEST_TURN };
        let heard = watch.as_deref().is_some_and(|watch| watch.detail() == Detail::Instructions);
        let mut polling = Polling::default();
        loop {
            let (mut moved, mut expired, mut polls) = (false, false, true);
            for place in 0..self.order.len() {
                let i = self.order[place];
                if self.done[i] {
                    continue;
                }
                let watch = watch.as_deref_mut().map(|w| -> &mut (dyn Observer + 'static) { w });
                let quantum = grid.schedule.quantum.min(share);
                match self.turn(i, grid, global, (watch, heard), allowance, quantum) {
                    Ok((Turn::Stood, _)) => {
                        self.paused = true;
                        return Progress::Expired;
                    }
                    Ok((turn, any)) => {
                        moved |= any;
                        expired |= turn == Turn::Expired;
                        polls &= turn == Turn::Paused || !any;
                    }
                    Err(stop) => return Progress::Stopped(stop),
                }
            }
            // A warp may be polling mbarriers in a loop that only copies in flight can end.
            let polled = polling.round(polls);
            if (polled || expired)
                && let Some(stop) = self.complete_tracked(
                    grid,
                    global,
                    watch.as_deref_mut().map(|w| -> &mut (dyn Observer + 'static) { w }),
                )
            {
                return Progress::Stopped(stop);
            }
            if self.done.iter().all(|done| *done) {
                return Progress::Done;
            }
            // The grids before this one end as late as possible: when no thread can continue without them, or one may wait for that.
            if (expired || !moved) && self.awaits_grids() {
                self.released = true;
                global.waited();
                moved = true;
            }
            if !moved && self.naps() {
                if self.has_tracked() {
                    let watch = watch.as_deref_mut().map(|w| -> &mut (dyn Observer + 'static) { w });
                    if let Some(stop) = self.complete_tracked(grid, global, watch) {
                        return Progress::Stopped(stop);
                    }
                    continue;
                }
                self.asleep = true;
                return Progress::Expired;
            }
            if !moved {
                return Progress::Stopped(Box::new(self.deadlock(grid)));
            }
            if may_nap && !self.has_tracked() && self.circles(grid, global) {
                self.asleep = true;
                return Progress::Expired;
            }
            self.polling = polling.repeats >= 2;
            if self.polling || self.instructions - start >= allowance.turn {
                return Progress::Expired;
            }
        }
    }

    /// Runs a warp for at most this number of instructions: how that ended, and whether anything happened. The warp has
    /// not exited.
    pub(super) fn turn<'a>(
        &mut self,
        i: usize,
        grid: &'a Grid<'a>,
        global: &mut Global<'_>,
        (watch, heard): (Option<&mut (dyn Observer + 'static)>, bool),
        allowance: &Allowance,
        quantum: u64,
    ) -> Result<(Turn, bool), Box<Stop>> {
        let completions = self.completions();
        self.starts_turn(i);
        let state = &mut self.warps[i];
        let before = state.clock;
        let left = allowance.instructions.saturating_sub(self.instructions).saturating_add(1);
        let (turn, stop) = {
            let mut warp = Warp::new(state, &mut self.ctas, grid, &mut *global, watch, heard);
            let turn = warp.run(quantum.min(left));
            (turn, warp.stop.take())
        };
        let ran = self.warps[i].clock - before;
        self.ends_turn(i);
        let (held, all) = (&mut self.held.0[i], &mut self.held.1);
        *all = all.saturating_sub(*held);
        *held = self.warps[i].holds();
        *all = all.saturating_add(*held);
        self.instructions += ran;
        let exceeded = self.exceeded(grid, global, allowance);
        let limit = exceeded.map(|exceeded| self.over(grid, i, allowance, exceeded));
        if turn == Turn::Stopped {
            let stop = stop.unwrap_or_else(|| {
                Box::new(Stop::general(Blame::Bug, StopKind::Internal, "a stop has no reason"))
            });
            // An error after a dropped store is not the kernel's fault.
            let dropped = global.is_full() && stop.blame != Blame::Limit;
            return Err(limit.filter(|_| dropped).unwrap_or(stop));
        }
        if let Some(limit) = limit {
            return Err(limit);
        }
        self.done[i] |= turn == Turn::Done;
        let moved = ran > 0 || turn == Turn::Done || self.completions() != completions;
        Ok((turn, moved))
    }

    /// Whether copies in flight may bring what threads wait for.
    fn has_tracked(&self) -> bool {
        self.tracks() || self.warps.iter().any(|warp| warp.arrivals > 0)
    }

    /// How often any of the barriers has completed.
    fn completions(&self) -> u64 {
        self.ctas.iter().map(|cta| cta.completions).sum()
    }
}

#[cfg(test)]
mod tests {
    use crate::{Buffer, Device};

    /// The second block reuses the memory of the first one but sees none of its contents.
    #[test]
    fn a_block_starts_with_nothing_of_the_block_before_it() {
        let source = ".version 8.7\n.target sm_89\n.address_size 64\n.visible .entry k(.param .u64 out) {
            .reg .b32 %r<9>; .reg .b64 %o, %t; .local .align 4 .b8 mine[4]; .shared .align 4 .b8 ours[4];
            ld.local.u32 %r1, [mine]; ld.shared.u32 %r2, [ours]; add.u32 %r3, %r3, %r1; add.u32 %r3, %r3, %r2;
            mov.u32 %r4, %tid.x; mov.u32 %r5, %tid.y; mov.u32 %r6, %ctaid.x; mov.u32 %r7, %tid.z;
            mad.lo.u32 %r3, %r3, 1000000, %r4; mad.lo.u32 %r3, %r5, 100, %r3; mad.lo.u32 %r3, %r7, 10000, %r3;
            mad.lo.u32 %r8, %r7, 5, %r5; mad.lo.u32 %r8, %r8, 7, %r4; mad.lo.u32 %r8, %r6, 70, %r8;
            ld.param.u64 %o, [out]; mul.wide.u32 %t, %r8, 4; add.u64 %o, %o, %t; st.global.u32 [%o], %r3;
            bar.sync 0; st.local.u32 [mine], 9; st.shared.u32 [ours], 9; ret; }";
        let mut device = Device::new().with_threads(1);
        let module = device.load(source).unwrap();
        let out: Buffer<u32> = device.alloc(210).unwrap();
        let launch = module.kernel("k").unwrap().launch().grid(3).block((7, 5, 2)).arg(out);
        launch.run(&mut device).unwrap();
        // A three-dimensional block whose warps end in the middle of a row.
        let expected: Vec<u32> = (0..210)
            .map(|i| i % 70)
            .map(|thread| thread % 7 + thread / 7 % 5 * 100 + thread / 35 * 10000)
            .collect();
        assert_eq!(device.read(&out).unwrap(), expected);
    }
}
