//! A cluster: blocks that run together and can access each other's shared memory.
//!
//! The cluster is what the launch schedules: its blocks start together and their warps take turns on one host thread. An
//! address in the shared memory of a block of the cluster is an offset, the block's rank in the bits from 24 on, as on
//! devices, and a mark above them. The addresses of variables carry the rank of their block too, so a program may compute
//! the same address of another block: CUTLASS clears bit 24 for the even block of a pair. An address without the mark and
//! without a rank is in the shared memory of the executing block, as with `shared::cta`.

use super::access::Told;
use super::block::{Barrier, CLUSTER_BARRIER, Cta};
use super::grid::{Collect, Listen, dispatch};
use super::guided::Guide;
use super::{Access, AccessKind, Grid, LANES, Outcome, Row, Wait, Warp, at, lanes_of};
use crate::memory::{Fault, FaultKind, Memory, SharedMemory, Space};
use crate::observe::{
    Arrival, AsyncCopy, BulkCopy, BundleReads, Detail, Exchange, GlobalWords, Guarded, Issue, MapUse,
    Mbarrier, Moved, MultiplyAsync, Observer, SharedAccess, Sight, Stretch, TensorEvent,
};
use crate::schedule::Blocks;
use crate::stop::{Blame, StopKind};
use std::any::Any;
use std::ops::Range;
use std::sync::Arc;

/// The largest cluster of any device; sizes beyond 8 must be allowed by an attribute of the function.
pub const MAX_CLUSTER: u32 = 16;

/// The bits of a shared address that are the offset in a block's memory.
const WINDOW_BITS: u32 = 24;
const OFFSET: u64 = (1 << WINDOW_BITS) - 1;
/// The bits of a shared address that are a rank.
const RANK: u64 = 0x3f;
/// The bit of a shared address that contains a rank.
const MARK: u64 = 1 << 30;

/// A rank that no block of a cluster has.
pub const NO_RANK: u32 = 0x3f;

/// The address in the cluster's shared memory of an offset in the memory of a block.
pub fn cluster_address(rank: u32, offset: u64) -> u64 {
    MARK | u64::from(rank) << WINDOW_BITS | offset & OFFSET
}

/// The rank in an address that [`cluster_address`] returned.
pub fn rank_in(address: u64) -> u64 {
    address >> WINDOW_BITS & RANK
}

impl Grid<'_> {
    /// Blocks in a cluster.
    pub fn cluster_size(&self) -> u32 {
        self.cluster.iter().product::<u32>().max(1)
    }

    /// The rank of a block in its cluster.
    pub(super) fn cluster_rank(&self, block: [u32; 3]) -> u32 {
        let [x, y, z] = [0, 1, 2].map(|axis| block[axis] % self.cluster[axis]);
        x + self.cluster[0] * (y + self.cluster[1] * z)
    }

    /// The linear index of a block by its cluster and its rank there.
    pub(super) fn cluster_block(&self, cluster: u32, rank: u32) -> u32 {
        let [sx, sy, _] = self.cluster;
        let clusters = [0, 1, 2].map(|axis| self.blocks[axis] / self.cluster[axis]);
        let first =
            [cluster % clusters[0], cluster / clusters[0] % clusters[1], cluster / clusters[0] / clusters[1]];
        let inside = [rank % sx, rank / sx % sy, rank / sx / sy];
        let [x, y, z] = [0, 1, 2].map(|axis| first[axis] * self.cluster[axis] + inside[axis]);
        x + self.blocks[0] * (y + self.blocks[1] * z)
    }

    /// The number of the cluster of a block.
    fn cluster_of(&self, block: u32) -> u32 {
        let index = self.block_index(block);
        let [x, y, z] = [0, 1, 2].map(|axis| index[axis] / self.cluster[axis]);
        let [nx, ny, _] = [0, 1, 2].map(|axis| self.blocks[axis] / self.cluster[axis]);
        x + nx * (y + ny * z)
    }

    /// The schedule of blocks, for clusters.
    pub(super) fn unit_schedule(&self) -> Blocks {
        match self.schedule.blocks {
            Blocks::Overtaken { block, pc, times } if self.cluster_size() > 1 => {
                Blocks::Overtaken { block: self.cluster_of(block), pc, times }
            }
            blocks => blocks,
        }
    }
}

impl Cta {
    /// Removes the own rank from shared addresses.
    #[inline(always)]
    pub(super) fn strip_rank(&self, addresses: &mut [u32; LANES]) {
        if let Ok(window @ 1..) = u32::try_from(self.window) {
            for address in addresses {
                *address &= if *address & 0xff00_0000 == window { 0x00ff_ffff } else { u32::MAX };
            }
        }
    }
}

impl Warp<'_, '_> {
    /// A block of the cluster by its rank.
    pub(super) fn peer(&self, rank: u32) -> Option<&Cta> {
        let (own, rank) = (at(self.cta.rank), at(rank));
        match rank.cmp(&own) {
            std::cmp::Ordering::Less => self.peers.0.get(rank),
            std::cmp::Ordering::Equal => Some(self.cta),
            std::cmp::Ordering::Greater => self.peers.1.get(rank - own - 1),
        }
    }

    pub(super) fn peer_mut(&mut self, rank: u32) -> Option<&mut Cta> {
        let (own, rank) = (at(self.cta.rank), at(rank));
        match rank.cmp(&own) {
            std::cmp::Ordering::Less => self.peers.0.get_mut(rank),
            std::cmp::Ordering::Equal => Some(self.cta),
            std::cmp::Ordering::Greater => self.peers.1.get_mut(rank - own - 1),
        }
    }

    /// Splits an address in the cluster's shared memory into the rank of the block and the offset there; a rank that does
    /// not exist is [`u32::MAX`].
    pub fn locate_shared(&self, address: u64) -> (u32, u64) {
        match address >> WINDOW_BITS {
            0 => (self.cta.rank, address),
            window => {
                let rank = u32::try_from(window & !(MARK >> WINDOW_BITS)).unwrap_or(u32::MAX);
                let exists = self.peer(rank).is_some();
                if exists { (rank, address & OFFSET) } else { (u32::MAX, address) }
            }
        }
    }

    /// Addresses of which those in the own memory contain no rank.
    #[inline]
    pub(super) fn without_own_rank(&self, mut addresses: Row<u64>) -> Row<u64> {
        if self.cta.window != 0 {
            let kept = Space::Shared.window() | OFFSET;
            for address in &mut addresses.0 {
                *address &= if *address & !kept == self.cta.window { kept } else { u64::MAX };
            }
        }
        addresses
    }

    /// Bytes of shared memory behind an address, from the start of the memory of its block, and the offset in it.
    pub(super) fn shared_bounds(&self, address: u64) -> Result<(u64, u64), Fault> {
        if address >> WINDOW_BITS == 0 {
            return Ok((u64::from(self.cta.shared.size()), address));
        }
        let (rank, offset) = self.locate_shared(address);
        let fault = |kind| Err(Fault { space: Space::Shared, address, kind });
        match self.peer(rank) {
            None => {
                fault(FaultKind::OutOfBounds { nearest: None, size: Some(u64::from(self.cta.shared.size())) })
            }
            Some(cta) if cta.live == 0 => fault(FaultKind::Exited(cta.linear)),
            Some(cta) => Ok((u64::from(cta.shared.size()), offset)),
        }
    }

    /// The memory behind a checked shared address, and the offset in it.
    #[inline]
    pub(super) fn shared_at(&self, address: u64) -> (&SharedMemory, u32) {
        let (rank, offset) = self.locate_shared(address);
        let cta = self.peer(rank).unwrap_or(self.cta);
        (&cta.shared, u32::try_from(offset & OFFSET).unwrap_or(0))
    }

    /// The same, to write.
    #[inline]
    pub(super) fn shared_at_mut(&mut self, address: u64) -> (&mut SharedMemory, u32) {
        let (rank, offset) = self.locate_shared(address);
        let offset = u32::try_from(offset & OFFSET).unwrap_or(0);
        let rank = if self.peer(rank).is_some() { rank } else { self.cta.rank };
        match self.peer_mut(rank) {
            Some(cta) => (&mut cta.shared, offset),
            None => unreachable!("the own block always exists"),
        }
    }

    /// Reports an access through addresses in the cluster's shared memory, block by block.
    #[cold]
    pub(super) fn tell_windows(
        &mut self,
        kind: AccessKind,
        addresses: &Row<u64>,
        bytes: u32,
        lanes: u32,
        told: Told<'_>,
    ) {
        let mut rest = lanes;
        while rest != 0 {
            let (rank, _) = self.locate_shared(addresses.0[at(rest.trailing_zeros()) & 31]);
            let (mut offsets, mut own) = (Row([0; LANES]), 0);
            for lane in lanes_of(rest) {
                let (window, offset) = self.locate_shared(addresses.0[lane]);
                if window == rank {
                    own |= 1 << lane;
                    offsets.0[lane] = offset;
                }
            }
            rest &= !own;
            let (block, warp, pc) = (self.cta.linear, self.state.id, self.pc);
            let Told { unchanged, words, deferred, used } = told;
            let access = Access {
                block,
                warp,
                pc,
                space: Space::Shared,
                kind,
                addresses: &offsets,
                bytes,
                lanes: own,
                unchanged,
                words,
                deferred,
                used,
            };
            if let Some(watch) = self.watch.as_deref_mut() {
                if rank == self.cta.rank {
                    watch.access(&access);
                } else {
                    watch.remote(rank, &access);
                }
            }
        }
    }

    /// The cluster's barrier.
    pub(super) fn cluster_barrier(&self) -> &Barrier {
        let first = self.peers.0.first().unwrap_or(self.cta);
        &first.barriers[at(CLUSTER_BARRIER)]
    }

    fn cluster_barrier_mut(&mut self) -> &mut Barrier {
        let first = self.peers.0.first_mut().unwrap_or(self.cta);
        &mut first.barriers[at(CLUSTER_BARRIER)]
    }

    /// Threads of the cluster that have not exited.
    fn cluster_live(&self) -> u32 {
        let others = self.peers.0.iter().chain(self.peers.1.iter()).map(|cta| cta.live);
        others.fold(self.cta.live, u32::saturating_add)
    }

    /// The lanes in `exec` arrive at the cluster barrier and continue.
    pub fn arrive_cluster(&mut self) -> Result<super::Flow, super::Flow> {
        let phase = self.cluster_barrier().phase;
        for lane in lanes_of(self.exec) {
            if self.state.cluster[lane] != 0 {
                let sentence = "a thread arrives at the cluster barrier twice without waiting".to_owned();
                let lane = u32::try_from(lane).unwrap_or(0);
                let flow = self.halt_lane(Blame::Kernel, StopKind::Barrier, lane, sentence);
                if let Some(stop) = &mut self.stop {
                    stop.help =
                        Some("execute barrier.cluster.wait between two barrier.cluster.arrive".to_owned());
                }
                return Err(flow);
            }
            self.state.cluster[lane] = phase + 1;
        }
        self.cta.changed = true;
        let (pc, count) = (self.pc, self.exec.count_ones());
        let barrier = self.cluster_barrier_mut();
        if barrier.arrived == 0 {
            barrier.first = pc;
        }
        barrier.arrived = barrier.arrived.saturating_add(count);
        if let Some(watch) = self.watch.as_deref_mut() {
            let (warp, lanes, exited) = (self.state.id, self.exec, self.state.exited);
            let (id, clock) = (CLUSTER_BARRIER, self.state.clock);
            watch.arrive(&Arrival { warp, lanes, exited, pc, id, expected: None, waits: false, clock });
        }
        self.settle_cluster();
        Ok(super::Flow::Next)
    }

    /// Completes the cluster barrier if all threads of the cluster that have not exited have arrived.
    fn settle_cluster(&mut self) {
        let live = self.cluster_live();
        let barrier = self.cluster_barrier_mut();
        if barrier.arrived == 0 || barrier.arrived < live {
            return;
        }
        barrier.complete(CLUSTER_BARRIER);
        self.cta.completions += 1;
        if let Some(watch) = self.watch.as_deref_mut() {
            watch.barrier(self.cta.linear, CLUSTER_BARRIER);
        }
    }

    /// Lanes have exited: the cluster barrier does not wait for them, but those that arrived no longer count.
    pub(super) fn leave_cluster(&mut self) {
        let phase = self.cluster_barrier().phase;
        let gone = lanes_of(self.exec).filter(|lane| self.state.cluster[*lane] > phase).count();
        let gone = u32::try_from(gone).unwrap_or(0);
        let barrier = self.cluster_barrier_mut();
        barrier.arrived = barrier.arrived.saturating_sub(gone);
        self.settle_cluster();
    }

    /// The lanes in `exec` wait until all threads of the cluster have arrived at its barrier.
    pub fn wait_cluster(&mut self) -> super::Flow {
        let phase = self.cluster_barrier().phase;
        let mut pending = 0;
        for lane in lanes_of(self.exec) {
            match self.state.cluster[lane] {
                0 => {
                    let sentence = "a thread waits at the cluster barrier without having arrived".to_owned();
                    let lane = u32::try_from(lane).unwrap_or(0);
                    return self.halt_lane(Blame::Kernel, StopKind::Barrier, lane, sentence);
                }
                arrived if arrived > phase => pending |= 1 << lane,
                _ => {}
            }
        }
        let over = self.exec & !pending;
        for lane in lanes_of(over) {
            self.state.cluster[lane] = 0;
        }
        if let Some(watch) = self.watch.as_deref_mut().filter(|_| over != 0) {
            watch.cluster_waited(self.state.id, over, self.pc);
        }
        if pending == 0 {
            self.state.subwarp.wait = Wait::None;
            return super::Flow::Next;
        }
        // The other lanes continue.
        self.exec = pending;
        self.state.subwarp.wait = Wait::Barrier { id: CLUSTER_BARRIER, phase };
        super::Flow::Wait
    }
}

/// Runs a launch whose clusters have several blocks.
pub(super) fn run(
    grid: &Grid<'_>,
    memory: Memory<'_>,
    threads: usize,
    guide: Option<&mut dyn Guide>,
    count: u32,
    (listen, collect): (Listen<'_>, Collect<'_>),
) -> Outcome {
    let together = |cluster: u32| -> Option<Box<dyn Observer>> {
        let blocks = (0..grid.cluster_size()).map(|rank| listen(grid.cluster_block(cluster, rank)));
        let blocks: Option<Vec<_>> = blocks.collect();
        Some(Box::new(Observers { current: 0, blocks: blocks? }))
    };
    let mut apart = |observer: Box<dyn Observer>| {
        let observer: Box<dyn Any> = observer;
        if let Ok(observers) = observer.downcast::<Observers>() {
            observers.blocks.into_iter().for_each(&mut *collect);
        }
    };
    dispatch(grid, memory, threads, guide, count, (&together, &mut apart))
}

/// The observers of the blocks of a cluster, each of which sees the events of its block.
struct Observers {
    current: usize,
    blocks: Vec<Box<dyn Observer>>,
}

impl Observers {
    /// The observer of the block whose events follow.
    fn own(&mut self) -> &mut dyn Observer {
        let current = self.current.min(self.blocks.len() - 1);
        &mut *self.blocks[current]
    }

    /// The observer of the block that issued a copy.
    fn of(&mut self, copy: &BulkCopy) -> &mut dyn Observer {
        let rank = at(copy.rank).min(self.blocks.len() - 1);
        &mut *self.blocks[rank]
    }
}

// A method that is not forwarded is a check that clusters do not get.
#[deny(clippy::missing_trait_methods)]
impl Observer for Observers {
    fn detail(&self) -> Detail {
        self.blocks.first().map_or(Detail::Instructions, |block| block.detail())
    }
    fn sights(&self) -> Option<Arc<[Sight]>> {
        self.blocks.first().and_then(|block| block.sights())
    }
    fn is_calm(&self, warp: u32) -> bool {
        self.blocks.get(self.current).is_some_and(|block| block.is_calm(warp))
    }
    fn ended(&mut self) {
        self.blocks.iter_mut().for_each(|block| block.ended());
    }
    fn enter(&mut self, rank: u32) {
        self.current = at(rank);
    }
    fn issue(&mut self, issue: &Issue<'_>) {
        self.own().issue(issue);
    }
    fn pass(&mut self, issue: &Issue<'_>) {
        self.own().pass(issue);
    }
    fn stretch(&mut self, stretch: &Stretch) {
        self.own().stretch(stretch);
    }
    fn guarded(&mut self, guarded: &Guarded) {
        self.own().guarded(guarded);
    }
    fn diverge(&mut self, warp: u32, pc: u32) {
        self.own().diverge(warp, pc);
    }
    fn access(&mut self, access: &Access<'_>) {
        self.own().access(access);
    }
    fn remote(&mut self, rank: u32, access: &Access<'_>) {
        self.own().remote(rank, access);
    }
    fn shared(&mut self, shared: &SharedAccess<'_>) {
        self.own().shared(shared);
    }
    fn words(&mut self, words: &GlobalWords) {
        self.own().words(words);
    }
    fn bundle(&mut self, reads: &BundleReads<'_>) -> bool {
        self.own().bundle(reads)
    }
    fn arrive(&mut self, arrival: &Arrival) {
        self.own().arrive(arrival);
    }
    fn cluster_waited(&mut self, warp: u32, lanes: u32, pc: u32) {
        self.own().cluster_waited(warp, lanes, pc);
    }
    fn barrier(&mut self, block: u32, id: u32) {
        match id {
            CLUSTER_BARRIER => self.blocks.iter_mut().for_each(|observer| observer.barrier(block, id)),
            _ => self.own().barrier(block, id),
        }
    }
    fn converge(&mut self, warp: u32, lanes: u32) {
        self.own().converge(warp, lanes);
    }
    fn exchange(&mut self, exchange: &Exchange<'_>) {
        self.own().exchange(exchange);
    }
    fn copy_issued(&mut self, copy: &AsyncCopy) {
        self.own().copy_issued(copy);
    }
    fn copy_done(&mut self, copy: &AsyncCopy) {
        self.own().copy_done(copy);
    }
    fn bulk_issued(&mut self, copy: &BulkCopy) {
        self.of(copy).bulk_issued(copy);
    }
    fn tensor_issued(&mut self, copy: &BulkCopy, rows: &[(u64, u32)]) {
        self.of(copy).tensor_issued(copy, rows);
    }
    fn tensor_map(&mut self, used: &MapUse) {
        self.own().tensor_map(used);
    }
    fn bulk_read(&mut self, copy: &BulkCopy) {
        self.of(copy).bulk_read(copy);
    }
    fn bulk_done(&mut self, copy: &BulkCopy) {
        self.of(copy).bulk_done(copy);
    }
    fn bulk_signaled(&mut self, copy: &BulkCopy, completes: bool) {
        self.of(copy).bulk_signaled(copy, completes);
    }
    fn bulk_left(&mut self, copy: &BulkCopy) {
        self.of(copy).bulk_left(copy);
    }
    fn multiply_issued(&mut self, multiply: &MultiplyAsync<'_>) {
        self.own().multiply_issued(multiply);
    }
    fn multiply_done(&mut self, multiply: &MultiplyAsync<'_>) {
        self.own().multiply_done(multiply);
    }
    fn tensor(&mut self, event: &TensorEvent<'_>) {
        self.own().tensor(event);
    }
    fn mbarrier(&mut self, mbarrier: &Mbarrier) {
        self.own().mbarrier(mbarrier);
    }
    fn moved(&mut self, moved: &Moved) {
        self.own().moved(moved);
    }
    fn framed(&mut self, warp: u32, lanes: u32, frame: Range<u32>) {
        self.own().framed(warp, lanes, frame);
    }
    fn allocated(&mut self, address: u64, bytes: u64) {
        self.own().allocated(address, bytes);
    }
    fn exit(&mut self, warp: u32, lanes: u32) {
        self.own().exit(warp, lanes);
    }
}
