//! The host memory that a launch uses in addition to the buffers, and its limit.
//!
//! A limit must not make the outcome depend on how many blocks happen to run at once. So every block has its own share: one
//! for the memory it uses while it runs, one for what is kept of it until its wave ends. Blocks that take turns run on one
//! thread, and share the whole limit.

use super::warp::WORK_UNIT;
use super::waves::WAVE;
use super::{Flow, Frame, Grid, LANES, Pending, Row, Subwarp, Warp, WarpState};
use crate::stop::{Blame, Stop, StopKind};

/// The limits of a block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Allowance {
    /// Instructions after which it yields to other blocks.
    pub(super) turn: u64,
    /// The total number of instructions, including its start cost.
    pub(super) instructions: u64,
    /// Bytes it may hold while it runs.
    pub(super) running: u64,
    /// Bytes of stores and output that may be kept when it ends.
    pub(super) kept: u64,
}

/// The start cost of a block in instructions: a constant part,
const BLOCK_COST: u64 = 64;
/// a part for each warp, and one instruction per unit of initialized bytes.
const WARP_COST: u64 = 4;

fn wide(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}

impl Grid<'_> {
    /// The start cost of the blocks of a cluster, in instructions.
    pub(super) fn start_cost(&self) -> u64 {
        let warps = u64::from(self.block_threads().div_ceil(32));
        let block =
            BLOCK_COST + WARP_COST * warps + (self.block_bytes() + u64::from(self.shared)) / WORK_UNIT;
        block * u64::from(self.cluster_size())
    }

    /// Bytes that a block of a wave may hold while it runs. Half of the memory is for running blocks; a block that needs
    /// much at its start gets more, and fewer blocks run at once.
    pub(super) fn running_share(&self) -> u64 {
        let half = self.limits.memory / 2;
        let start = self.block_bytes().saturating_add(u64::from(self.shared));
        let start = start.saturating_mul(u64::from(self.cluster_size()));
        start.saturating_mul(4).max(half / u64::from(WAVE)).min(half)
    }

    /// Bytes of stores and output of a block of a wave that may be kept until the wave ends.
    pub(super) fn kept_share(&self) -> u64 {
        self.limits.memory / 2 / self.block_count().clamp(1, u64::from(WAVE))
    }

    /// Host threads that may run blocks of a wave at once.
    pub(super) fn workers(&self, threads: usize) -> usize {
        let most = self.limits.memory / 2 / self.running_share().max(1);
        threads.min(usize::try_from(most).unwrap_or(usize::MAX)).max(1)
    }

    /// The stop of a launch that exceeds its memory limit.
    pub(super) fn out_of_memory(&self, what: &str, share: u64) -> Stop {
        let limit = self.limits.memory;
        let of = if share < limit { format!(", its share of {limit}") } else { String::new() };
        let mut stop = Stop::general(
            Blame::Limit,
            StopKind::Limit,
            format!("{what} of a block take more than {share} bytes in addition to the buffers{of}"),
        );
        stop.help = Some("raise the memory limit if the kernel is meant to use this much".into());
        stop
    }
}

/// The subject of the message about a block's own memory.
pub(super) const RUNNING: &str = "registers, local memory, calls and pending copies";
/// The subject of the message about memory kept until the wave ends.
pub(super) const KEPT: &str = "stores and printed text";

impl Subwarp {
    /// Bytes of its calls. Saved registers that subwarps share count for each subwarp.
    fn holds(&self) -> u64 {
        let kept = self.frames.last().map_or(0, |frame| frame.kept);
        wide(self.frames.len() * size_of::<Frame>()).saturating_add(kept.saturating_mul(wide(LANES)))
    }
}

impl Warp<'_, '_> {
    /// Stops the launch because the block's stores exceed their limit.
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
    /// Bytes it holds in addition to its registers.
    pub(super) fn holds(&self) -> u64 {
        let calls = self.parked.iter().map(Subwarp::holds).fold(self.subwarp.holds(), u64::saturating_add);
        let local = self.local.size() / 4 * wide(size_of::<Row<u32>>());
        calls.saturating_add(local).saturating_add(wide(self.copies.len() * size_of::<Pending>()))
    }
}
