//! Blocks that run ahead of their turn, on all cores.
//!
//! Blocks that communicate take turns on one thread. Until a block communicates for the first time, it cannot have learned
//! anything from other blocks, so all of its warps may run up to that instruction on the memory as it is now, with its stores
//! in an overlay: at most as far as its first turn goes. When the block's turn comes, its stores are merged and it continues on
//! the memory itself. A block that stops, or that takes too much memory, is forgotten and runs again in its turn, and no later
//! block runs ahead. So the order in which blocks communicate does not depend on what ran ahead, nor on the number of cores.

use super::block::{BlockRun, Progress, Spare};
use super::footprint::Allowance;
use super::grid::{Grid, Listen, Observed, WAVE};
use super::turns::TURN;
use crate::memory::{Global, Heap, Overlay};
use crate::observe::Observer;
use crate::program::Communication;
use crate::schedule::Blocks;
use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// The part of the memory limit for blocks that run ahead.
const SHARE: u64 = 4;

/// A block that has run ahead.
pub(super) struct Early {
    pub(super) run: BlockRun,
    pub(super) watch: Option<Box<dyn Observer>>,
    /// Whether it has used up its first turn.
    pub(super) expired: bool,
    overlay: Overlay,
}

/// Blocks that have run ahead, in the order of their turns.
pub(super) struct Ahead {
    ready: VecDeque<Early>,
    count: u32,
    threads: usize,
    /// How many run ahead together; 0 if none may.
    together: u32,
    /// Bytes that each of them may hold.
    share: u64,
    /// Bytes that they hold.
    bytes: u64,
}

/// Off: a block that runs ahead reads what was in memory when it started, and blocks that are checked take turns from the start. So
/// the outcome of a kernel with a race would depend on whether it is checked.
const ENABLED: bool = false;

impl Ahead {
    /// For a grid of `count` blocks.
    pub(super) fn new(grid: &Grid<'_>, count: u32, threads: usize) -> Ahead {
        let share = grid.limits.memory / SHARE / u64::from(WAVE);
        let start = grid.block_bytes().saturating_add(u64::from(grid.shared));
        let start = start.saturating_mul(u64::from(grid.cluster_size()));
        let may = ENABLED
            && grid.program.communication == Communication::Any
            && grid.schedule.blocks == Blocks::InOrder
            && grid.observed != Observed::Together
            && start <= share / 2
            && count > 1;
        Ahead {
            ready: VecDeque::new(),
            count,
            threads,
            together: if may { WAVE } else { 0 },
            share,
            bytes: 0,
        }
    }

    /// Bytes of host memory that blocks hold which have run ahead.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Merges the stores of a block, whose turn has come, if it has run ahead and not executed more than `left` instructions.
    pub(super) fn take(
        &mut self,
        grid: &Grid<'_>,
        heap: &mut Heap,
        block: u32,
        left: u64,
        listen: Listen<'_>,
    ) -> Option<Early> {
        if self.ready.is_empty() && self.together > 0 {
            self.run(grid, heap, block, left, listen);
        }
        let mut early = self.ready.pop_front()?;
        self.bytes = self.bytes.saturating_sub(held(grid, &early));
        if early.run.instructions > left {
            return None;
        }
        std::mem::take(&mut early.overlay).merge_into(heap);
        Some(early)
    }

    /// Lets the blocks from `first` on run ahead.
    fn run(&mut self, grid: &Grid<'_>, heap: &Heap, first: u32, left: u64, listen: Listen<'_>) {
        let end = self.count.min(first.saturating_add(self.together));
        let next = AtomicU32::new(first);
        let over = AtomicBool::new(false);
        let slots: Vec<Mutex<Option<Early>>> = (first..end).map(|_| Mutex::new(None)).collect();
        let work = || {
            // Checked before a number is taken: every number that is taken is run, so all before the first that stops are.
            while !over.load(Ordering::Relaxed) {
                let block = next.fetch_add(1, Ordering::Relaxed);
                let Some(slot) = block.checked_sub(first).and_then(|i| slots.get(super::at(i))) else {
                    break;
                };
                let early = early(grid, heap, block, (left, self.share), listen(block));
                over.fetch_or(early.is_none(), Ordering::Relaxed);
                if let Ok(mut slot) = slot.lock() {
                    *slot = early;
                }
            }
        };
        if self.threads <= 1 || slots.len() == 1 {
            work();
        } else {
            std::thread::scope(|scope| {
                for _ in 0..self.threads.min(slots.len()) {
                    scope.spawn(work);
                }
            });
        }
        let count = slots.len();
        self.ready = slots.into_iter().map_while(|slot| slot.into_inner().ok().flatten()).collect();
        self.bytes = self.ready.iter().map(|early| held(grid, early)).fold(0, u64::saturating_add);
        if self.ready.len() < count {
            self.together = 0;
        }
    }
}

fn held(grid: &Grid<'_>, early: &Early) -> u64 {
    early.run.footprint(grid).saturating_add(early.overlay.bytes())
}

/// Runs a block until it communicates, ends, or has used up its first turn; `None` if it stops.
fn early(
    grid: &Grid<'_>,
    heap: &Heap,
    block: u32,
    (left, share): (u64, u64),
    mut watch: Option<Box<dyn Observer>>,
) -> Option<Early> {
    let mut run = BlockRun::new(grid, block, Spare::default());
    let half = share / 2;
    let allowance = Allowance { turn: TURN, instructions: left, running: half, kept: half };
    let mut global = Global::Overlay(heap, Overlay::ahead(half));
    let observer = watch.as_deref_mut().map(|w| -> &mut (dyn Observer + 'static) { w });
    let expired = match run.run(grid, &mut global, observer, &allowance) {
        Progress::Stopped(_) => return None,
        Progress::Expired => true,
        Progress::Held | Progress::Done => false,
    };
    match global {
        Global::Overlay(_, overlay) => Some(Early { run, watch, expired, overlay }),
        Global::Direct(_) => None,
    }
}
