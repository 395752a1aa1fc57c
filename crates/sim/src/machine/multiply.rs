//! `wgmma.mma_async` in flight.
//!
//! A warp computes its own sixteen rows of D. The multiplication is queued when it is issued and executed as late as the
//! program allows: by the `wgmma.wait_group` that waits for it. Only then are its operands read, from shared memory and
//! from registers, and its accumulators written. A program that changes operands too early, or reads accumulators too
//! early, computes wrong values here.
//!
//! A `wgmma` is one operation of four warps: it is complete for one of them when it is complete for all. A wait therefore lasts
//! until all four warps have arrived at it, and then until all four have executed their parts, so that one warp may release
//! the operands for the others.

use super::block::Cta;
use super::{Flow, Wait, Warp, at};
use crate::observe::MultiplyAsync;
use crate::stop::{Blame, StopKind};
use std::collections::VecDeque;

/// The waits of the four warps of a warpgroup.
#[derive(Clone, Copy, Debug, Default)]
pub struct Warpgroup {
    /// How many waits each warp has arrived at.
    arrived: [u64; 4],
    /// For how many of them it has executed its multiplications.
    executed: [u64; 4],
    /// The oldest multiplication for which each warp waits.
    oldest: [u32; 4],
}

impl Warpgroup {
    /// Whether all warps have arrived at this wait, or have executed their multiplications.
    pub(super) fn reached(&self, count: u64, executed: bool) -> bool {
        let counts = if executed { &self.executed } else { &self.arrived };
        counts.iter().all(|known| *known >= count)
    }

    /// The warps, by their number in the group, that have not arrived at this wait.
    pub(super) fn absent(&self, count: u64) -> impl Iterator<Item = u32> {
        (0..4).zip(self.arrived).filter(move |(_, known)| *known < count).map(|(member, _)| member)
    }
}

impl Cta {
    /// The warpgroup of a warp.
    pub(super) fn warpgroup(&self, warp: u32) -> Warpgroup {
        self.warpgroups.get(at(warp / 4)).copied().unwrap_or_default()
    }

    fn warpgroup_mut(&mut self, warp: u32) -> &mut Warpgroup {
        let group = at(warp / 4);
        if self.warpgroups.len() <= group {
            self.warpgroups.resize(group + 1, Warpgroup::default());
        }
        &mut self.warpgroups[group]
    }
}

/// Multiplications of a warp in flight; with more, the oldest is executed.
const MOST: usize = 1024;

/// One warp's part of a `wgmma.mma_async` that is not complete.
#[derive(Clone, Debug)]
pub struct PendingMultiply {
    /// The instruction.
    pub pc: u32,
    /// The group it completes with: the warp's count of commits when it was issued.
    pub group: u64,
    /// The descriptor of A, unless A is in registers.
    pub a: Option<u64>,
    /// The descriptor of B.
    pub b: u64,
    /// Whether D starts from its old value; from zero otherwise.
    pub accumulate: bool,
    /// Addresses in shared memory of the 16-byte pieces that it reads, for the observer.
    pub pieces: Box<[u32]>,
}

/// The multiplications of a warp in flight.
#[derive(Debug, Default)]
pub struct Multiplies {
    queue: VecDeque<PendingMultiply>,
    /// Groups committed so far.
    pub committed: u64,
    /// The one that is being executed: its instruction runs a second time.
    pub finishing: Option<PendingMultiply>,
}

impl Warp<'_, '_> {
    /// Queues a multiplication.
    pub fn start_multiply(&mut self, pending: PendingMultiply) -> Result<Flow, Flow> {
        if self.state.multiplies.queue.len() >= MOST {
            self.finish_oldest()?;
        }
        if let Some(watch) = self.watch.as_deref_mut() {
            watch.multiply_issued(&event(self.state.id, &pending));
        }
        self.state.multiplies.queue.push_back(pending);
        Ok(Flow::Next)
    }

    /// Executes the multiplications of all groups except the last `left` that were committed, together with the other warps of
    /// the warpgroup. `waited` is what the subwarp has waited for, if it executes the instruction again.
    pub fn wait_multiplies(&mut self, left: u64, waited: Wait) -> Result<Flow, Flow> {
        let (warp, member) = (self.state.id, at(self.state.id % 4));
        let count = match waited {
            Wait::Warpgroup { executed: true, .. } => return Ok(Flow::Next),
            Wait::Warpgroup { count, executed: false } => count,
            _ => {
                let committed = self.state.multiplies.committed;
                let covered = |pending: &&PendingMultiply| pending.group.saturating_add(left) < committed;
                let Some(oldest) = self.state.multiplies.queue.front().filter(covered).map(|first| first.pc)
                else {
                    return Ok(Flow::Next);
                };
                self.cta.changed = true;
                let group = self.cta.warpgroup_mut(warp);
                group.oldest[member] = oldest;
                group.arrived[member] += 1;
                group.arrived[member]
            }
        };
        let group = self.cta.warpgroup(warp);
        if !group.reached(count, false) {
            self.state.subwarp.wait = Wait::Warpgroup { count, executed: false };
            return Ok(Flow::Wait);
        }
        if group.oldest.iter().any(|pc| *pc != group.oldest[0])
            && group.executed.iter().all(|done| *done < count)
        {
            let sentence = "the warps of a warpgroup execute different wgmma instructions; all four must execute the same";
            return Err(self.halt(Blame::Kernel, StopKind::Lanes, sentence.to_owned()));
        }
        let committed = self.state.multiplies.committed;
        let done = |pending: &PendingMultiply| pending.group.saturating_add(left) < committed;
        while self.state.multiplies.queue.front().is_some_and(done) {
            self.finish_oldest()?;
        }
        self.cta.changed = true;
        self.cta.completions += 1;
        self.cta.warpgroup_mut(warp).executed[member] = count;
        if self.cta.warpgroup(warp).reached(count, true) {
            return Ok(Flow::Next);
        }
        self.state.subwarp.wait = Wait::Warpgroup { count, executed: true };
        Ok(Flow::Wait)
    }

    fn finish_oldest(&mut self) -> Result<(), Flow> {
        let Some(pending) = self.state.multiplies.queue.pop_front() else { return Ok(()) };
        if let Some(watch) = self.watch.as_deref_mut() {
            watch.multiply_done(&event(self.state.id, &pending));
        }
        // Attribute it to its own instruction, not to the one that waits.
        let running = std::mem::replace(&mut self.pc, pending.pc);
        let program = self.grid.program;
        let mut flow = Flow::Next;
        if let Some(inst) = program.code.get(at(pending.pc)) {
            self.state.multiplies.finishing = Some(pending);
            flow = (inst.run)(self, &inst.args);
        }
        self.pc = running;
        if flow == Flow::Next { Ok(()) } else { Err(flow) }
    }
}

fn event(warp: u32, pending: &PendingMultiply) -> MultiplyAsync<'_> {
    MultiplyAsync { warp, pc: pending.pc, group: pending.group, pieces: &pending.pieces }
}
