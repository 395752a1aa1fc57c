//! `tcgen05` in flight: copies to tensor memory, shifts, multiplications, and arrivals at mbarriers that follow them.
//!
//! They are executed in the order in which they were issued, and as late as the program allows: when a thread tests an mbarrier at
//! which a `tcgen05.commit` arrives. Only then are the operands read and the results written, so that a program that does
//! not wait reads old values. Otherwise they are executed when a warp has used up its turn, or when the block ends.

#![expect(clippy::as_conversions, clippy::cast_possible_truncation, reason = "a word of 64 bits")]

use super::block::BlockRun;
use super::{AccessKind, Cta, Flow, Grid, Mbarrier, Warp, at};
use crate::isa::tcgen05::{TensorCopy, TensorMultiply, TensorShift};
use crate::memory::{Global, Space, TensorMemory};
use crate::observe::{Observer, TensorAction, TensorEvent};
use crate::schedule::CopyTiming;
use crate::stop::{Blame, Stop, StopKind};
use std::collections::VecDeque;

/// Work of a block in flight; with more, the oldest is executed.
const MOST: usize = 1024;

/// The blocks that an instruction uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocks {
    /// The own one: `.cta_group::1`.
    Own,
    /// Both of a pair, whose ranks differ in the last bit: `.cta_group::2`.
    Pair,
}

impl Blocks {
    /// How many.
    pub fn count(self) -> u32 {
        match self {
            Blocks::Own => 1,
            Blocks::Pair => 2,
        }
    }

    /// The name of the qualifier.
    pub fn name(self) -> &'static str {
        match self {
            Blocks::Own => ".cta_group::1",
            Blocks::Pair => ".cta_group::2",
        }
    }

    /// The other block of the pair.
    pub fn peer(self, rank: u32) -> Option<u32> {
        (self == Blocks::Pair).then_some(rank ^ 1)
    }

    /// The ranks, in order.
    pub fn ranks(self, own: u32) -> std::ops::RangeInclusive<u32> {
        match self {
            Blocks::Own => own..=own,
            Blocks::Pair => own & !1..=own | 1,
        }
    }
}

/// A warp that waits for the other block of the pair to allocate or free columns too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meeting {
    /// The warp's number in the block.
    pub warp: u32,
    /// The instruction.
    pub pc: u32,
    /// The first column, if it frees.
    pub frees: Option<u32>,
    /// How many columns.
    pub columns: u32,
    /// The first column, once a warp of the other block has done it for both.
    pub done: Option<u32>,
}

/// What the tensor core of a block has to do.
#[derive(Debug)]
pub enum Action {
    /// Multiplies.
    Multiply(Box<TensorMultiply>),
    /// Copies from shared to tensor memory.
    Copy(TensorCopy),
    /// Shifts lanes of tensor memory.
    Shift(TensorShift),
    /// Arrives at the mbarrier at this address in the cluster.
    Arrive(u64),
}

/// An action, and the thread that issued it.
#[derive(Debug)]
pub struct Work {
    /// The instruction.
    pub pc: u32,
    /// The warp's number in the block.
    pub warp: u32,
    /// The lane.
    pub lane: u32,
    /// What to do.
    pub action: Action,
    /// Whether it was executed when it was issued.
    pub executed: bool,
}

impl Work {
    /// Work of a lane of the warp.
    pub fn of(w: &Warp<'_, '_>, lane: usize, action: Action) -> Work {
        Work { pc: w.pc, warp: w.state.id, lane: u32::try_from(lane).unwrap_or(0), action, executed: false }
    }
}

/// The tensor memory of a block, and what is in flight.
#[derive(Debug, Default)]
pub struct Tensor {
    /// The memory.
    pub memory: TensorMemory,
    /// Whether the block has given up the right to allocate, and where.
    pub relinquished: Option<u32>,
    /// The qualifier of its instructions, and the first of them.
    pub group: Option<(Blocks, u32)>,
    /// The warp that waits for the other block of the pair.
    pub meeting: Option<Meeting>,
    queue: VecDeque<Work>,
}

impl Action {
    /// The blocks that it uses.
    fn blocks(&self) -> Blocks {
        match self {
            Action::Multiply(multiply) => multiply.blocks(),
            Action::Copy(copy) => copy.blocks(),
            Action::Shift(shift) => shift.blocks(),
            Action::Arrive(_) => Blocks::Own,
        }
    }
}

impl Warp<'_, '_> {
    /// Whether a block of the cluster has work in flight.
    pub(super) fn is_tensor_busy(&self) -> bool {
        let mut all = self.peers.0.iter().chain(self.peers.1.iter());
        !self.cta.tensor.queue.is_empty() || all.any(|cta| !cta.tensor.queue.is_empty())
    }

    /// Executes a multiplication, a copy or a shift of a block of the cluster.
    fn execute(&mut self, rank: u32, action: &Action) {
        let mut columns = Vec::new();
        if let Action::Multiply(multiply) = action {
            for rank in multiply.blocks().ranks(rank) {
                columns.extend(self.peer(rank).into_iter().flat_map(|cta| multiply.columns(&cta.shared)));
            }
        }
        for rank in action.blocks().ranks(rank) {
            let Some(cta) = self.peer_mut(rank) else { continue };
            match action {
                Action::Multiply(multiply) => multiply.run(&cta.shared, &mut cta.tensor.memory, &columns),
                Action::Copy(copy) => copy.run(&cta.shared, &mut cta.tensor.memory),
                Action::Shift(shift) => shift.run(&mut cta.tensor.memory),
                Action::Arrive(_) => {}
            }
        }
    }

    /// Whether the meeting for which a warp waits can take place, or has.
    pub(super) fn pair_is_ready(&self) -> bool {
        let peer = self.peer(self.cta.rank ^ 1);
        let Some(own) = self.cta.tensor.meeting.filter(|own| own.warp == self.state.id) else {
            // Another warp of the block met the peer, or none.
            return self.cta.tensor.meeting.is_none();
        };
        let Some(peer) = peer.filter(|peer| peer.live > 0) else { return true };
        let both = peer.tensor.meeting.is_some_and(|theirs| theirs.done.is_none());
        let room = |tensor: &Tensor| own.frees.is_some() || tensor.memory.has_room(own.columns);
        own.done.is_some() || both && room(&self.cta.tensor) && room(&peer.tensor)
    }

    /// Another block of the cluster, to change its tensor memory.
    pub fn tensor_of(&mut self, rank: u32) -> Option<&mut Tensor> {
        self.cta.changed = true;
        self.peer_mut(rank).map(|cta| &mut cta.tensor)
    }

    /// The tensor memory of a block of the cluster whose threads have not all exited.
    pub fn live_tensor(&self, rank: u32) -> Option<&Tensor> {
        self.peer(rank).filter(|cta| cta.live > 0).map(|cta| &cta.tensor)
    }

    /// The tensor memory of the block, to change it.
    pub fn tensor_memory(&mut self) -> &mut TensorMemory {
        self.cta.changed = true;
        &mut self.cta.tensor.memory
    }

    /// Reports an event of tensor memory to the observer.
    pub fn observe_tensor(&mut self, lane: u32, pc: u32, action: TensorAction<'_>) {
        let warp = self.state.id;
        if let Some(watch) = self.watch.as_deref_mut() {
            watch.tensor(&TensorEvent { warp, lane, pc, action });
        }
    }

    /// Queues work of the tensor core.
    pub fn start_tensor(&mut self, mut work: Work) -> Result<(), Flow> {
        self.cta.changed = true;
        if self.cta.tensor.queue.len() >= MOST {
            self.finish_oldest_tensor(self.cta.rank)?;
        }
        if self.watch.is_some() {
            let issued = match &work.action {
                Action::Multiply(multiply) => {
                    Some((multiply.sources(), multiply.reads(), multiply.writes(), multiply.halves()))
                }
                Action::Copy(copy) => Some((copy.sources(), Vec::new(), copy.writes(), 0xff)),
                Action::Shift(shift) => {
                    Some((Vec::new(), vec![shift.columns()], shift.columns(), shift.halves()))
                }
                Action::Arrive(_) => None,
            };
            if let Some((pieces, reads, writes, halves)) = issued {
                let peer = work.action.blocks().peer(self.cta.rank);
                let action = TensorAction::Issued { pieces: &pieces, reads: &reads, writes, halves, peer };
                self.observe_tensor(work.lane, work.pc, action);
                if let Some(peer) = peer {
                    self.observe_work(peer, &work, TensorAction::ReadByPeer { pieces: &pieces });
                }
            } else {
                self.observe_tensor(work.lane, work.pc, TensorAction::Committed);
            }
        }
        // Early work is visible immediately, but it is complete only when its arrival shows that.
        if self.grid.schedule.copies == CopyTiming::Early {
            self.execute(self.cta.rank, &work.action);
            work.executed = true;
        }
        self.cta.tensor.queue.push_back(work);
        Ok(())
    }

    /// Executes the work of the cluster up to the first arrival at an mbarrier; `false` if nothing arrives there.
    pub(super) fn finish_commit(&mut self, barrier: u64) -> Result<bool, Flow> {
        for rank in 0..self.grid.cluster_size() {
            let arrives = |work: &Work| matches!(work.action, Action::Arrive(there) if there == barrier);
            let found = self.peer(rank).and_then(|cta| cta.tensor.queue.iter().position(arrives));
            let Some(place) = found else { continue };
            for _ in 0..=place {
                self.finish_oldest_tensor(rank)?;
            }
            return Ok(true);
        }
        Ok(false)
    }

    /// Executes all work of the cluster.
    pub(super) fn finish_tensor(&mut self) -> Result<(), Flow> {
        for rank in 0..self.grid.cluster_size() {
            while self.peer(rank).is_some_and(|cta| !cta.tensor.queue.is_empty()) {
                self.finish_oldest_tensor(rank)?;
            }
        }
        Ok(())
    }

    /// All threads of the block have exited: executes its work.
    pub(super) fn leave_tensor(&mut self) -> Result<(), Flow> {
        while !self.cta.tensor.queue.is_empty() {
            self.finish_oldest_tensor(self.cta.rank)?;
        }
        let (own, peer) = (self.cta.rank, self.cta.rank ^ 1);
        let uses = |work: &Work| work.action.blocks() == Blocks::Pair;
        let theirs = self.peer(peer).and_then(|cta| cta.tensor.queue.iter().position(uses));
        let theirs =
            theirs.and_then(|place| self.peer_mut(peer).and_then(|cta| cta.tensor.queue.remove(place)));
        if let Some(work) = theirs {
            return Err(self.left_pair(peer, &work, own));
        }
        for left in self.cta.tensor.memory.allocations().to_vec() {
            self.observe_tensor(0, left.pc, TensorAction::Left((left.first, left.columns)));
        }
        Ok(())
    }

    /// Executes the oldest work of a block of the cluster.
    fn finish_oldest_tensor(&mut self, rank: u32) -> Result<(), Flow> {
        self.cta.changed = true;
        let oldest = self.peer_mut(rank).and_then(|cta| cta.tensor.queue.pop_front());
        let Some(work) = oldest else { return Ok(()) };
        if let Some(gone) = work.action.blocks().peer(rank).filter(|peer| self.live_tensor(*peer).is_none()) {
            return Err(self.left_pair(rank, &work, gone));
        }
        if !work.executed {
            self.execute(rank, &work.action);
        }
        match work.action {
            Action::Arrive(barrier) => self.arrive_tensor(rank, &work, barrier),
            Action::Multiply(_) | Action::Copy(_) | Action::Shift(_) => {
                self.observe_work(rank, &work, TensorAction::Completed);
                Ok(())
            }
        }
    }

    /// Stops because a block has ended while the tensor core used its memory for the other block of the pair.
    fn left_pair(&mut self, rank: u32, work: &Work, gone: u32) -> Flow {
        let index = |cta: Option<&Cta>| cta.map_or([0; 3], |cta| cta.index);
        let ([x, y, z], issuer) = (index(self.peer(gone)), index(self.peer(rank)));
        let running = std::mem::replace(&mut self.pc, work.pc);
        let sentence = format!(
            "block ({x},{y},{z}) has ended, and a tcgen05 instruction of the other block of its pair uses its memory"
        );
        let flow = self.halt_lane(Blame::Kernel, StopKind::Bounds, work.lane, sentence);
        self.pc = running;
        let thread = self.grid.thread(work.warp * 32 + work.lane);
        if let Some(stop) = &mut self.stop {
            (stop.thread, stop.block) = (Some(thread), Some(issuer));
            stop.help = Some(
                "let both blocks wait for the last tcgen05.commit, which arrives at both by .multicast::cluster, before one ends"
                    .to_owned(),
            );
        }
        flow
    }

    /// Reports an event of work of a block of the cluster to the observer of that block.
    fn observe_work(&mut self, rank: u32, work: &Work, action: TensorAction<'_>) {
        let (own, cluster) = (self.cta.rank, self.grid.cluster_size() > 1);
        let Some(watch) = self.watch.as_deref_mut() else { return };
        if cluster {
            watch.enter(rank);
        }
        watch.tensor(&TensorEvent { warp: work.warp, lane: work.lane, pc: work.pc, action });
        if cluster {
            watch.enter(own);
        }
    }

    /// A `tcgen05.commit` arrives at its mbarrier.
    fn arrive_tensor(&mut self, rank: u32, work: &Work, barrier: u64) -> Result<(), Flow> {
        // Attribute it to its own instruction, not to the one that waits.
        let running = std::mem::replace(&mut self.pc, work.pc);
        let lane = at(work.lane);
        let word = self
            .check(Space::Shared, barrier, 8, true)
            .and_then(|()| self.read_lane(Space::Shared, lane, barrier, 8))
            .map_err(|fault| self.fault(lane, fault, AccessKind::Atomic, 8))?;
        let changed = Mbarrier::unpack(word as u64).and_then(|mut mbarrier| {
            let parity = mbarrier.parity;
            mbarrier.arrive(1)?;
            Ok((mbarrier.pack(), mbarrier.parity != parity))
        });
        let (word, completes) = changed.map_err(|sentence| {
            let sentence = format!("{sentence}, when a tcgen05.commit arrives");
            self.halt_lane(Blame::Kernel, StopKind::Mbarrier, work.lane, sentence)
        })?;
        self.write_lane(Space::Shared, lane, barrier, 8, u128::from(word))
            .map_err(|fault| self.fault(lane, fault, AccessKind::Atomic, 8))?;
        let (target, address) = self.locate_shared(barrier);
        let address = u32::try_from(address).unwrap_or(u32::MAX);
        self.observe_work(rank, work, TensorAction::Arrived { rank: target, address, completes });
        self.pc = running;
        Ok(())
    }
}

impl BlockRun {
    /// Whether arrivals at mbarriers follow bulk copies or multiplications in flight.
    pub(super) fn tracks(&self) -> bool {
        let bulk = self.ctas.iter().flat_map(|cta| &cta.bulk).any(|bulk| bulk.copy.barrier.is_some());
        bulk || self.ctas.iter().any(|cta| !cta.tensor.queue.is_empty())
    }

    /// Completes the copies of all warps that mbarriers track; returns the reason if that ends the launch.
    pub(super) fn complete_tracked<'a>(
        &mut self,
        grid: &'a Grid<'a>,
        global: &mut Global<'_>,
        mut watch: Option<&mut (dyn Observer + 'static)>,
    ) -> Option<Box<Stop>> {
        let bulk = self.tracks();
        for (i, state) in
            self.warps.iter_mut().enumerate().filter(|(i, state)| *i == 0 && bulk || state.arrivals > 0)
        {
            let watch = watch.as_deref_mut().map(|w| -> &mut (dyn Observer + 'static) { w });
            let mut warp = Warp::new(state, &mut self.ctas, grid, &mut *global, watch, true);
            if i == 0 && bulk && warp.complete_bulk(|copy| copy.barrier.is_some()).is_err() {
                return warp.stop;
            }
            if i == 0 && bulk && warp.finish_tensor().is_err() {
                return warp.stop;
            }
            if warp.complete_tracked().is_err() {
                return warp.stop;
            }
        }
        None
    }
}
