//! What the observers of a cluster's blocks share: the history of the shared memory of each block, the clocks of the cluster's
//! barrier, and which threads have accessed the memory of another block.
//!
//! Reported, besides races between blocks: an access to the shared memory of a block that may not have started, because the
//! thread is not ordered after anything that the block did; and an access to the shared memory of a block that may have exited,
//! because no thread of the block is ordered after the access when the block ends. Source: distributed shared memory in the CUDA
//! programming guide: all blocks must have started before, and must not exit before the accesses are complete.
//!
//! Missed: an access that another thread of the block ordered for it, by means that the checks do not follow. Never reported:
//! accesses to the own block.

use super::bulk::Agents;
use super::clock::{Clock, Fences, Order, Who};
use super::context::Context;
use super::race::SharedRace;
use super::raw::{Raw, RawFindings, Reach, Spot};
use super::tensor::TensorCells;
use super::{Class, Severity};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use warpproof_sim::machine::{Access, at, lanes_of};

/// The state that the blocks of a cluster share.
#[derive(Debug)]
pub(crate) struct Cluster {
    /// The history of the shared memory of each block, by rank.
    pub windows: Vec<SharedRace>,
    /// What the threads released that arrived at the cluster's barrier in this phase, and in the phase before.
    arriving: Clock,
    complete: Clock,
    /// The tensor memory of each block, by rank.
    pub tensor: Vec<TensorCells>,
    /// The agents that make bulk copies.
    pub(super) agents: Agents,
    /// By rank: the last access of each thread of other blocks, as time and instruction.
    visitors: Vec<BTreeMap<(u32, Who), (u32, u32)>>,
}

impl Cluster {
    /// The state of a cluster of this many blocks.
    pub(crate) fn new(context: &Context) -> Cluster {
        let size = context.cluster_size();
        let window = || SharedRace::new(context.shared, context.shares_memory());
        Cluster {
            windows: (0..size).map(|_| window()).collect(),
            tensor: (0..size).map(|_| TensorCells::of(context)).collect(),
            arriving: Clock::default(),
            complete: Clock::default(),
            agents: Agents::default(),
            visitors: (0..size).map(|_| BTreeMap::new()).collect(),
        }
    }

    /// Lanes arrive at the cluster's barrier and release what they have done; a relaxed arrival only what their fences cover,
    /// and that their block has started.
    pub(crate) fn arrive(&mut self, order: &mut Order, relaxed: Option<&Fences>, warp: u32, lanes: u32) {
        let Some(fences) = relaxed else {
            self.arriving.join(&order.release_lanes(warp, lanes));
            return;
        };
        self.arriving.join(&order.started());
        for lane in lanes_of(lanes) {
            if let Some(covered) = fences.released(Who::new(warp, lane)) {
                self.arriving.join(&covered.device);
            }
        }
    }

    /// All threads of the cluster have arrived.
    pub(crate) fn completed(&mut self) {
        self.complete = std::mem::take(&mut self.arriving);
    }

    /// Lanes have waited for the barrier.
    pub(crate) fn waited(&self, order: &mut Order, warp: u32, lanes: u32) {
        order.acquire_lanes(warp, lanes, &self.complete);
    }

    /// A warp accesses the memory of the block with this rank.
    pub(crate) fn visit(
        &mut self,
        context: &Context,
        order: &Order,
        raw_findings: &mut RawFindings,
        rank: u32,
        access: &Access<'_>,
    ) {
        let target = context.cluster_block(access.block, rank);
        for lane in lanes_of(access.lanes) {
            let who = Who::new(access.warp, lane);
            if let Some(visitors) = self.visitors.get_mut(at(rank)) {
                visitors.insert((access.block, who), (order.now(), access.pc));
            }
            if order.knows(target, who) {
                continue;
            }
            raw_findings.add_reaching(
                (Class::SharedRace, access.pc, access.pc, 8),
                Severity::Error,
                Reach::Grid,
                || {
                    let me = context.thread(access.block, u32::from(who.0));
                    let verb = context.verb(access.pc, access.kind != warpproof_sim::machine::AccessKind::Read);
                    let [x, y, z] = context.thread(target, 0).block;
                    Raw {
                        class: Class::SharedRace,
                        severity: Severity::Error,
                        sentence: format!(
                            "{verb} of the shared memory of block ({x},{y},{z}) by {me}, although that block may not \
                             have started"
                        ),
                        spots: vec![Spot {
                            label: format!("the {verb}"),
                            pc: access.pc,
                            thread: Some((access.block, u32::from(who.0))),
                        }],
                        notes: vec!["blocks of a cluster start in any order".to_owned()],
                        help: Some(
                            "put a cluster.sync() (barrier.cluster.arrive and barrier.cluster.wait) before the first \
                             access to the memory of another block"
                                .to_owned(),
                        ),
                        count: 1,
                    }
                },
            );
        }
    }

    /// All threads of the block with this rank have exited.
    pub(crate) fn ended(
        &mut self,
        context: &Context,
        order: &Order,
        raw_findings: &mut RawFindings,
        (block, rank): (u32, u32),
    ) {
        let visitors = self.visitors.get_mut(at(rank)).map(std::mem::take).unwrap_or_default();
        for ((visitor, who), (time, pc)) in visitors {
            if order.anyone_saw(visitor, who, time) {
                continue;
            }
            raw_findings.add_reaching((Class::SharedRace, pc, pc, 9), Severity::Error, Reach::Grid, || {
                let other = context.thread(visitor, u32::from(who.0));
                let [x, y, z] = context.thread(block, 0).block;
                Raw {
                    class: Class::SharedRace,
                    severity: Severity::Error,
                    sentence: format!(
                        "access to the shared memory of block ({x},{y},{z}) by {other}, although that block may have \
                         exited"
                    ),
                    spots: vec![Spot {
                        label: "the access".to_owned(),
                        pc,
                        thread: Some((visitor, u32::from(who.0))),
                    }],
                    notes: vec!["the memory of a block exists until all of its threads have exited".to_owned()],
                    help: Some(
                        "put a cluster.sync() (barrier.cluster.arrive and barrier.cluster.wait) after the last access \
                         to the memory of another block"
                            .to_owned(),
                    ),
                    count: 1,
                }
            });
        }
    }
}

/// A cluster of one block, or one that several observers share.
#[derive(Debug)]
pub(crate) enum Held {
    /// Of one block.
    Own(Box<Cluster>),
    /// Of several blocks.
    Shared(Arc<Mutex<Cluster>>),
}

impl Held {
    /// Calls `f` with the state.
    #[inline]
    pub(crate) fn with<T>(&mut self, f: impl FnOnce(&mut Cluster) -> T) -> T {
        match self {
            Held::Own(cluster) => f(cluster),
            Held::Shared(cluster) => f(&mut cluster.lock().unwrap_or_else(PoisonError::into_inner)),
        }
    }
}

/// The clusters of a launch that have observers.
#[derive(Debug, Default)]
pub(crate) struct Clusters(Mutex<BTreeMap<u32, Weak<Mutex<Cluster>>>>);

impl Clusters {
    /// The state of a block's cluster.
    pub(crate) fn of(&self, context: &Context, block: u32) -> Held {
        if context.cluster_size() == 1 {
            return Held::Own(Box::new(Cluster::new(context)));
        }
        let first = context.cluster_block(block, 0);
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = all.get(&first).and_then(Weak::upgrade) {
            return Held::Shared(found);
        }
        all.retain(|_, cluster| cluster.strong_count() > 0);
        let cluster = Arc::new(Mutex::new(Cluster::new(context)));
        all.insert(first, Arc::downgrade(&cluster));
        Held::Shared(cluster)
    }
}
