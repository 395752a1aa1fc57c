//! `tcgen05` in flight: copies to tensor memory, multiplications, and arrivals at mbarriers that follow them.
//!
//! They are executed in the order in which they were issued, and as late as the program allows: when a thread tests an mbarrier at
//! which a `tcgen05.commit` arrives. Only then are the operands read and the results written, so that a program that does
//! not wait reads old values. Otherwise they are executed when a warp has used up its turn, or when the block ends.

#![expect(clippy::as_conversions, clippy::cast_possible_truncation, reason = "a word of 64 bits")]

use super::block::BlockRun;
use super::{AccessKind, Cta, Flow, Grid, Mbarrier, Warp, at};
use crate::isa::tcgen05::{TensorCopy, TensorMultiply};
use crate::memory::{Global, Space, TensorMemory};
use crate::observe::{Observer, TensorAction, TensorEvent};
use crate::schedule::CopyTiming;
use crate::stop::{Blame, Stop, StopKind};
use std::collections::VecDeque;

/// Work of a block in flight; with more, the oldest is executed.
const MOST: usize = 1024;

/// What the tensor core of a block has to do.
#[derive(Debug)]
pub enum Action {
    /// Multiplies.
    Multiply(Box<TensorMultiply>),
    /// Copies from shared to tensor memory.
    Copy(TensorCopy),
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
    queue: VecDeque<Work>,
}

impl Cta {
    /// Executes a multiplication or a copy.
    fn execute(&mut self, action: &Action) {
        match action {
            Action::Multiply(multiply) => multiply.run(&self.shared, &mut self.tensor.memory),
            Action::Copy(copy) => copy.run(&self.shared, &mut self.tensor.memory),
            Action::Arrive(_) => {}
        }
    }
}

impl Warp<'_, '_> {
    /// Whether a block of the cluster has work in flight.
    pub(super) fn is_tensor_busy(&self) -> bool {
        let mut all = self.peers.0.iter().chain(self.peers.1.iter());
        !self.cta.tensor.queue.is_empty() || all.any(|cta| !cta.tensor.queue.is_empty())
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
                Action::Arrive(_) => None,
            };
            if let Some((pieces, reads, writes, halves)) = issued {
                let action = TensorAction::Issued { pieces: &pieces, reads: &reads, writes, halves };
                self.observe_tensor(work.lane, work.pc, action);
            } else {
                self.observe_tensor(work.lane, work.pc, TensorAction::Committed);
            }
        }
        // Early work is visible immediately, but it is complete only when its arrival shows that.
        if self.grid.schedule.copies == CopyTiming::Early {
            self.cta.execute(&work.action);
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
        for left in self.cta.tensor.memory.allocations().to_vec() {
            self.observe_tensor(0, left.pc, TensorAction::Left((left.first, left.columns)));
        }
        Ok(())
    }

    /// Executes the oldest work of a block of the cluster.
    fn finish_oldest_tensor(&mut self, rank: u32) -> Result<(), Flow> {
        self.cta.changed = true;
        let Some(cta) = self.peer_mut(rank) else { return Ok(()) };
        let Some(work) = cta.tensor.queue.pop_front() else { return Ok(()) };
        if !work.executed {
            cta.execute(&work.action);
        }
        match work.action {
            Action::Arrive(barrier) => self.arrive_tensor(rank, &work, barrier),
            Action::Multiply(_) | Action::Copy(_) => {
                self.observe_work(rank, &work, TensorAction::Completed);
                Ok(())
            }
        }
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
