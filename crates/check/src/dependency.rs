//! What a launch accesses before it waits for the launch before it, and after it has let the next one start.
//!
//! With programmatic dependent launch the next launch may start when every block has executed `griddepcontrol.launch_dependents` or has
//! ended, and only `griddepcontrol.wait` makes the stores of the launch before it visible. A thread follows a wait if it waited itself, or
//! if a wait of another thread happens before. A strong load counts as a wait: a flag may order two launches too. Callers compare the
//! launches.
//!
//! Can miss: reads of a block that come before its `launch_dependents` in the executed order only.

use super::clock::{Order, Who};
use super::site::Sites;
use super::touched::{Kind, Pages, Touched, kind_of};
use std::sync::{Arc, Mutex};
use warpproof_sim::machine::{Access, AccessKind, at, lanes_of};
use warpproof_sim::observe::{AsyncCopy, BulkCopy};

/// Waits that are remembered.
const MOST_WAITS: usize = 64;

/// The part of a launch that other launches may overlap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overlap {
    /// What it accesses before it waits, if that was asked for.
    pub early: Touched,
    /// What it accesses after it has let the next launch start.
    pub late: Touched,
}

/// A wait: block, thread and time.
type Wait = (u32, Who, u32);

/// The waits of blocks that run in turns.
pub(crate) type Waits = Arc<Mutex<Vec<Wait>>>;

/// The accesses of a block, or of all blocks so far.
#[derive(Debug, Default)]
pub(crate) struct Phases {
    early: Option<Pages>,
    late: Pages,
    waits: Vec<Wait>,
    /// Waits of all blocks, if they can communicate.
    shared: Option<Waits>,
    /// By warp, lanes that follow a wait.
    informed: Vec<u32>,
    triggered: bool,
}

impl Phases {
    /// `early`: whether the launch may start before the one before it has ended.
    pub(crate) fn new(early: bool, shared: Option<Waits>) -> Phases {
        Phases {
            early: early.then(|| Pages::with_places(true)),
            late: Pages::with_places(true),
            shared,
            ..Phases::default()
        }
    }

    /// Lanes execute `griddepcontrol`.
    pub(crate) fn control(&mut self, order: &Order, block: u32, (warp, lanes): (u32, u32), waits: bool) {
        if !waits {
            self.triggered = true;
            return;
        }
        *self.informed(warp) |= lanes;
        let Some(lane) = lanes_of(lanes).next() else { return };
        let wait = (block, Who::new(warp, lane), order.now());
        for lane in lanes_of(lanes).take(MOST_WAITS.saturating_sub(self.waits.len())) {
            self.waits.push((block, Who::new(warp, lane), order.now()));
        }
        if let Some(Ok(mut shared)) = self.shared.as_ref().map(|shared| shared.lock())
            && shared.len() < MOST_WAITS
        {
            shared.push(wait);
        }
    }

    fn informed(&mut self, warp: u32) -> &mut u32 {
        if self.informed.len() <= at(warp) {
            self.informed.resize(at(warp) + 1, 0);
        }
        &mut self.informed[at(warp)]
    }

    /// The lanes that no wait happens before.
    fn uninformed(&mut self, order: &Order, warp: u32, lanes: u32) -> u32 {
        let missing = lanes & !*self.informed(warp);
        if missing == 0 {
            return 0;
        }
        let others = self.shared.as_ref().and_then(|shared| shared.lock().ok().map(|waits| waits.clone()));
        let others = others.unwrap_or_default();
        let follows = |lane: &usize| {
            let me = Who::new(warp, *lane);
            self.waits
                .iter()
                .chain(&others)
                .any(|(block, who, time)| order.before_any(*block, *who, *time, me))
        };
        let informed = lanes_of(missing).filter(follows).fold(0u32, |mask, lane| mask | 1 << lane);
        *self.informed(warp) |= informed;
        missing & !informed
    }

    /// Records an access to global memory.
    pub(crate) fn access(&mut self, sites: &Sites, order: &Order, access: &Access<'_>) {
        if self.early.is_some() {
            let lanes = self.uninformed(order, access.warp, access.lanes);
            if let Some(early) = self.early.as_mut().filter(|_| lanes != 0) {
                early.access(sites, access, lanes);
                if access.kind == AccessKind::Read && kind_of(sites, access) == Kind::Strong {
                    *self.informed(access.warp) |= lanes;
                }
            }
        }
        if self.triggered {
            self.late.access(sites, access, access.lanes);
        }
    }

    /// Records an asynchronous copy of a thread.
    pub(crate) fn copy(&mut self, order: &Order, copy: &AsyncCopy) {
        self.record(order, copy.warp, copy.lane, |pages| pages.copy(copy));
    }

    /// Records a bulk copy of a thread.
    pub(crate) fn bulk(&mut self, order: &Order, copy: &BulkCopy) {
        self.record(order, copy.warp, copy.lane, |pages| pages.bulk(copy));
    }

    fn record(&mut self, order: &Order, warp: u32, lane: u32, mark: impl Fn(&mut Pages)) {
        if self.early.is_some() && self.uninformed(order, warp, 1 << (lane & 31)) != 0 {
            self.early.iter_mut().for_each(&mark);
        }
        if self.triggered {
            mark(&mut self.late);
        }
    }

    /// Adds the accesses of another block.
    pub(crate) fn merge(&mut self, other: Phases) {
        if let (Some(early), Some(other)) = (&mut self.early, other.early) {
            early.merge(other);
        }
        self.late.merge(other.late);
    }

    /// All accesses as ranges.
    pub(crate) fn overlap(&self) -> Overlap {
        let early = self.early.as_ref().map(Pages::touched).unwrap_or_default();
        Overlap { early, late: self.late.touched() }
    }
}
