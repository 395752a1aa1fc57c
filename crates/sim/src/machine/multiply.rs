//! `wgmma.mma_async` in flight.
//!
//! A warp computes its own sixteen rows of D. The multiplication is queued when it is issued and executed as late as the
//! program allows: by the `wgmma.wait_group` that waits for it. Only then are its operands read, from shared memory and
//! from registers, and its accumulators written. A program that changes operands too early, or reads accumulators too
//! early, computes wrong values here.

use super::{Flow, Warp, at};
use crate::observe::MultiplyAsync;
use std::collections::VecDeque;

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

    /// Executes the multiplications of all groups except the last `left` that were committed.
    pub fn wait_multiplies(&mut self, left: u64) -> Result<Flow, Flow> {
        let committed = self.state.multiplies.committed;
        let done = |pending: &PendingMultiply| pending.group.saturating_add(left) < committed;
        while self.state.multiplies.queue.front().is_some_and(done) {
            self.finish_oldest()?;
        }
        Ok(Flow::Next)
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
