//! What a launch holds of the host's memory beside the buffers, and what it may hold.
//!
//! A limit must not make the outcome depend on how many blocks happen to run at once, so every block has a share of its
//! own: one for what it holds while it runs, one for what is kept of it until its wave ends. Blocks that run in turns are
//! on one thread, and share what there is.

use super::grid::WAVE;
use super::warp::WORK_UNIT;
use super::{Flow, Fragment, Frame, Grid, LANES, Pending, Row, Warp, WarpState};
use crate::stop::{Blame, Stop, StopKind};

/// What a block may use.
#[derive(Clone, Copy, Debug)]
pub(super) struct Allowance {
    /// Instructions after which it lets others run.
    pub(super) turn: u64,
    /// Instructions in all, what its start costs included.
    pub(super) instructions: u64,
    /// Bytes it may hold while it runs.
    pub(super) running: u64,
    /// Bytes of stores and output that may be kept when it ends.
    pub(super) kept: u64,
}

/// What a block costs before its first instruction, in instructions: so much for itself,
const BLOCK_COST: u64 = 64;
/// so much for each warp, and one for every unit of bytes that are filled in.
const WARP_COST: u64 = 4;

fn wide(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}

impl Grid<'_> {
    /// What a block costs before its first instruction, as instructions.
    pub(super) fn start_cost(&self) -> u64 {
        let warps = u64::from(self.block_threads().div_ceil(32));
        BLOCK_COST + WARP_COST * warps + (self.block_bytes() + u64::from(self.shared)) / WORK_UNIT
    }

    /// Bytes that a block of a wave may hold while it runs. Half of the memory is for blocks that run; one that starts with
    /// much gets more, and so fewer run at once.
    pub(super) fn running_share(&self) -> u64 {
        let half = self.limits.memory / 2;
        let start = self.block_bytes().saturating_add(u64::from(self.shared));
        start.saturating_mul(4).max(half / u64::from(WAVE)).min(half)
    }

    /// Bytes of stores and output that a block of a wave may leave until the wave ends.
    pub(super) fn kept_share(&self) -> u64 {
        self.limits.memory / 2 / self.block_count().clamp(1, u64::from(WAVE))
    }

    /// Host threads that may run blocks of a wave at once.
    pub(super) fn workers(&self, threads: usize) -> usize {
        let most = self.limits.memory / 2 / self.running_share().max(1);
        threads.min(usize::try_from(most).unwrap_or(usize::MAX)).max(1)
    }

    /// The stop of a launch that holds too much.
    pub(super) fn out_of_memory(&self, what: &str, share: u64) -> Stop {
        let limit = self.limits.memory;
        let of = if share < limit { format!(", its share of {limit}") } else { String::new() };
        let mut stop = Stop::general(
            Blame::Limit,
            StopKind::Limit,
            format!("{what} of a block take more than {share} bytes beside the buffers{of}"),
        );
        stop.help = Some("raise the memory limit if the kernel is meant to use this much".into());
        stop
    }
}

/// What the limit on a block's own memory is about, in a sentence.
pub(super) const RUNNING: &str = "registers, local memory, calls and pending copies";
/// The same of what is kept.
pub(super) const KEPT: &str = "stores and printed text";

impl Fragment {
    /// Bytes of its calls. Registers that fragments share are counted for each.
    fn holds(&self) -> u64 {
        let kept = self.frames.last().map_or(0, |frame| frame.kept);
        wide(self.frames.len() * size_of::<Frame>()).saturating_add(kept.saturating_mul(wide(LANES)))
    }
}

impl Warp<'_, '_> {
    /// Ends the launch because the block's stores take more than may be kept.
    #[cold]
    pub(super) fn no_room_for_stores(&mut self) -> Flow {
        let stop = self.grid.out_of_memory(KEPT, self.grid.kept_share());
        let flow = self.halt(stop.blame, stop.kind, stop.sentence);
        if let Some(mine) = &mut self.stop {
            mine.help = stop.help;
        }
        flow
    }
}

impl WarpState {
    /// Bytes it holds beside its registers.
    pub(super) fn holds(&self) -> u64 {
        let calls = self.parked.iter().map(Fragment::holds).fold(self.fragment.holds(), u64::saturating_add);
        let local = self.local.size() / 4 * wide(size_of::<Row<u32>>());
        calls.saturating_add(local).saturating_add(wide(self.copies.len() * size_of::<Pending>()))
    }
}
