//! Waves: blocks that cannot communicate run on all cores, each on the memory as it was when its wave began.

use super::block::{BlockRun, GridDependency, Progress, Spare};
use super::footprint::Allowance;
use super::grid::{Begun, Collect, Grid, Listen, Outcome, over_limit, run_in_turns};
use super::spin::{Look, POLLING, Suspicion};
use crate::memory::{Earlier, Global, Heap, Memory, Overlay};
use crate::observe::Observer;
use crate::program::Communication;
use crate::stop::{Blame, Stop, StopKind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Blocks in a wave. Fixed, so that the outcome is the same for any number of threads.
pub(super) const WAVE: u32 = 64;
/// Instructions that a block running alone executes before its limits are checked.
const TURN: u64 = 65_536;

struct Finished {
    overlay: Overlay,
    output: Vec<u8>,
    instructions: u64,
    index: [u32; 3],
    dependency: GridDependency,
    stop: Option<Box<Stop>>,
}

/// A finished block and its observer.
type Watched = (Finished, Option<Box<dyn Observer>>);

/// The blocks of a launch that are finished, in block order. A block is added as soon as those before it have ended too, so that what
/// its observer knows is still in the host's cache and is not kept for long.
struct Ended<'a> {
    grid: &'a Grid<'a>,
    collect: Collect<'a>,
    outcome: Outcome,
    /// Instructions, and the start cost of blocks.
    used: u64,
    /// The position of the next block.
    next: u32,
    /// The stores of the wave's blocks.
    overlays: Vec<Overlay>,
    /// Whether the next block has more reductions than can be kept.
    full: bool,
}

impl Ended<'_> {
    /// Whether no later block counts.
    fn is_over(&self) -> bool {
        self.full || self.outcome.stop.is_some()
    }

    /// Adds the blocks that are finished. The first slot is that of the position `start`.
    fn advance(&mut self, slots: &[Mutex<Option<Watched>>], start: u32) {
        while !self.is_over()
            && let Some(slot) = slots.get(super::at(self.next - start))
            && let Some((finished, watch)) = slot.lock().ok().and_then(|mut slot| slot.take())
        {
            self.add(finished, watch);
        }
    }

    fn add(&mut self, finished: Finished, watch: Option<Box<dyn Observer>>) {
        let grid = self.grid;
        if grid.program.communication == Communication::Reductions && finished.overlay.is_full() {
            self.full = true;
            return;
        }
        self.next += 1;
        self.used = self.used.saturating_add(finished.instructions).saturating_add(grid.start_cost());
        self.outcome.instructions += finished.instructions;
        self.outcome.output.extend(finished.output);
        self.outcome.dependency.merge(finished.dependency);
        if grid.selection.is_none() {
            self.overlays.push(finished.overlay);
        }
        if let Some(watch) = watch {
            (self.collect)(watch);
        }
        let printed = self.outcome.output.len();
        self.outcome.stop = finished.stop.or_else(|| over_limit(grid, self.used, printed, finished.index));
    }
}

/// Runs blocks in waves.
pub(super) fn run_in_waves(
    grid: &Grid<'_>,
    mut memory: Memory<'_>,
    count: u32,
    threads: usize,
    listen: Listen<'_>,
    collect: Collect<'_>,
) -> Outcome {
    let cost = grid.start_cost();
    let threads = grid.workers(threads);
    let mut kept = grid.keeps_earlier.then(Earlier::default);
    let (outcome, used, next, overlays, full) = (Outcome::default(), 0, 0, Vec::new(), false);
    let mut ended = Ended { grid, collect, outcome, used, next, overlays, full };
    while ended.next < count && !ended.is_over() {
        let start = ended.next;
        let end = count.min(start.saturating_add(WAVE));
        let size = super::at(end - start);
        let next = AtomicU32::new(start);
        // What earlier waves left. A block need not run once an earlier block has ended the launch. Numbers are taken in
        // order, so all earlier blocks run; the outcome does not depend on timing.
        let left = grid.limits.instructions.saturating_sub(ended.used);
        let spent = AtomicU64::new(0);
        let over = AtomicBool::new(false);
        let slots: Vec<Mutex<Option<Watched>>> = (0..size).map(|_| Mutex::new(None)).collect();
        let reading = memory.read();
        let base: &Heap = &reading;
        let all = Mutex::new(&mut ended);
        let work = || {
            let mut spare = Spare::default();
            loop {
                // Checked before a number is taken: every number that is taken is run.
                if over.load(Ordering::Relaxed) {
                    break;
                }
                let position = next.fetch_add(1, Ordering::Relaxed);
                if position >= end {
                    break;
                }
                let block = grid.block_at(position);
                let mut watch = listen(block);
                let finished = run_block(grid, base, block, &mut spare, watch.as_deref_mut(), left);
                let own = finished.instructions.saturating_add(cost);
                let before = spent.fetch_add(own, Ordering::Relaxed);
                if finished.stop.is_some() || before.saturating_add(own) > left {
                    over.store(true, Ordering::Relaxed);
                }
                if let Ok(mut slot) = slots[super::at(position - start)].lock() {
                    *slot = Some((finished, watch));
                }
                // A thread that finds another one at it leaves its block to it, or to the end of the wave.
                if let Ok(mut all) = all.try_lock() {
                    all.advance(&slots, start);
                }
            }
        };
        if threads == 1 || size == 1 {
            work();
        } else {
            std::thread::scope(|scope| {
                for _ in 0..threads.min(size) {
                    scope.spawn(work);
                }
            });
        }
        drop(reading);
        ended.advance(&slots, start);
        if !ended.is_over() && ended.next < end {
            let stop = Stop::general(Blame::Bug, StopKind::Internal, "a block was lost");
            ended.outcome.stop = Some(Box::new(stop));
        }
        let mut heap = memory.write();
        heap.dependence.kept = kept.take();
        ended.overlays.drain(..).for_each(|overlay| overlay.merge_into(&mut heap));
        if ended.full && grid.selection.is_some() {
            let sentence = "a block of the sample has more reductions than can be kept for its end";
            ended.outcome.stop = Some(Box::new(Stop::general(Blame::Limit, StopKind::Limit, sentence)));
            return ended.outcome;
        }
        if ended.full {
            let Ended { outcome, used, next, collect, .. } = ended;
            let mut outcome =
                run_in_turns(grid, &mut heap, next..count, Begun { outcome, used }, listen, collect);
            outcome.earlier = heap.dependence.kept.take();
            return outcome;
        }
        kept = heap.dependence.kept.take();
    }
    let mut outcome = ended.outcome;
    outcome.earlier = kept;
    outcome
}

fn run_block(
    grid: &Grid<'_>,
    base: &Heap,
    block: u32,
    spare: &mut Spare,
    watch: Option<&mut (dyn Observer + 'static)>,
    limit: u64,
) -> Finished {
    let mut run = BlockRun::new(grid, block, std::mem::take(spare));
    let allowance = Allowance {
        turn: TURN,
        instructions: limit.saturating_sub(grid.start_cost()),
        running: grid.running_share(),
        kept: grid.kept_share(),
    };
    let mut global = Global::Overlay(base, Overlay::with_room(allowance.kept).plain(grid.plain));
    let mut watch = watch.map(|w| -> &mut (dyn Observer + 'static) { w });
    let mut suspicion = Suspicion::default();
    let stop = loop {
        match run.run(grid, &mut global, watch.as_deref_mut(), &allowance) {
            Progress::Stopped(stop) => break Some(stop),
            Progress::Done => break None,
            Progress::Expired => {}
        }
        let due = suspicion.is_due(run.instructions, run.progress());
        if let Some(steps) = due.or(run.polling.then_some(POLLING)) {
            match run.look(grid, &mut global, watch.as_deref_mut(), steps) {
                // Another block of the wave may write what the loop reads, although that is not visible here.
                Look::Stuck(spins) if spins.iter().any(|spin| spin.global) => {}
                Look::Stuck(spins) => break Some(Box::new(run.endless(grid, &spins))),
                Look::Ended(Progress::Stopped(stop)) => break Some(stop),
                Look::Ended(_) | Look::Moves => {}
            }
        }
    };
    let overlay = match global {
        Global::Overlay(_, overlay) => overlay,
        Global::Direct(_) => Overlay::default(),
    };
    if let Some(watch) = watch {
        watch.ended();
    }
    let (instructions, index, dependency) = (run.instructions, run.index(), run.dependency());
    let (output, left) = run.end();
    *spare = left;
    Finished { overlay, output, instructions, index, dependency, stop }
}
