//! The group [`Check::Fences`](super::Check::Fences): what threads had seen at their last `tcgen05.fence::after_thread_sync`.
//!
//! From the PTX manual, "Specialized inter-thread synchronization for tcgen05 instructions": an asynchronous operation before
//! `tcgen05.fence::before_thread_sync` is ordered before the synchronizations that follow the fence, and one behind
//! `tcgen05.fence::after_thread_sync` after the synchronizations before it. Loads, stores, copies and multiplications are asynchronous.
//! Allocation and deallocation are synchronous: they need no `::after_thread_sync`, and what follows an allocation no
//! `::before_thread_sync`. `tcgen05.commit` is a `::before_thread_sync`.

use super::clock::{Clock, Order, Who};
use std::collections::BTreeMap;
use warpproof_sim::machine::lanes_of;

/// A fence that the manual demands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Missing {
    /// `tcgen05.fence::before_thread_sync`, in the thread of the earlier access.
    Before,
    /// `tcgen05.fence::after_thread_sync`, in the thread of the later access.
    After,
}

impl Missing {
    pub(super) fn name(self) -> &'static str {
        match self {
            Missing::Before => "tcgen05.fence::before_thread_sync",
            Missing::After => "tcgen05.fence::after_thread_sync",
        }
    }
}

/// By warp: what its lanes had seen at their last `tcgen05.fence::after_thread_sync`.
#[derive(Debug, Default)]
pub(super) struct AfterFences {
    warps: BTreeMap<u32, Vec<(u32, Clock)>>,
}

impl AfterFences {
    /// Lanes of a warp execute `tcgen05.fence::after_thread_sync`.
    pub(super) fn execute(&mut self, order: &Order, warp: u32, lanes: u32) {
        let seen = self.warps.entry(warp).or_default();
        for (old, _) in seen.iter_mut() {
            *old &= !lanes;
        }
        seen.retain(|(old, _)| *old != 0);
        // Lanes that have seen the same share a clock.
        for lane in lanes_of(lanes) {
            let clock = order.seen_by(Who::new(warp, lane));
            match seen.iter_mut().find(|(_, known)| *known == clock) {
                Some((same, _)) => *same |= 1 << lane,
                None => seen.push((1 << lane, clock)),
            }
        }
    }

    /// Whether a thread had seen what a thread of a block, or an agent, did at a time.
    pub(super) fn saw(&self, me: Who, (block, who): (u32, Who), time: u32) -> bool {
        let warp = u32::from(me.0) / 32;
        let seen = self.warps.get(&warp).into_iter().flatten();
        seen.filter(|(lanes, _)| lanes >> me.lane() & 1 != 0)
            .any(|(_, clock)| clock.reaches(block, who, time))
    }
}
