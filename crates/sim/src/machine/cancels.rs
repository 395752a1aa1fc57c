//! Clusters that a running cluster cancels before they start: `clusterlaunchcontrol.try_cancel`.
//!
//! While a cluster has its turn it holds the list of those that have not started. It can cancel the one that would start next, which
//! then never starts. If the order of blocks is a search's, no cluster can be canceled: all start.

use super::Warp;
use super::block::{BlockRun, Cta};
use super::turns::Turns;

/// What a cluster knows of others.
#[derive(Debug, Default)]
pub struct Cancels {
    /// Those that have not started, while the cluster has its turn.
    unstarted: Option<Turns>,
    /// Where a thread has seen that a request failed.
    pub failed: Option<u32>,
}

impl Warp<'_, '_> {
    /// What the cluster knows of others.
    pub fn cancels(&mut self) -> &mut Cancels {
        let first: &mut Cta = self.peers.0.first_mut().unwrap_or(self.cta);
        &mut first.cancels
    }

    /// Cancels the cluster that would start next, and returns the index of its first block; `None` if all have started.
    pub fn cancel_next(&mut self) -> Option<[u32; 3]> {
        let number = self.cancels().unstarted.as_mut().and_then(Turns::start)?;
        Some(self.grid.block_index(self.grid.cluster_block(number, 0)))
    }
}

impl BlockRun {
    /// Runs something for which the cluster holds the list of those that have not started.
    pub(super) fn with_unstarted<T>(&mut self, turns: &mut Turns, run: impl FnOnce(&mut BlockRun) -> T) -> T {
        if let Some(first) = self.ctas.first_mut() {
            first.cancels.unstarted = Some(std::mem::take(turns));
        }
        let result = run(self);
        if let Some(held) = self.ctas.first_mut().and_then(|first| first.cancels.unstarted.take()) {
            *turns = held;
        }
        result
    }
}
