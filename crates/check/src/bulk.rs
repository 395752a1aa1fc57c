//! Bulk copies: what they read and write, from when until when.
//!
//! An asynchronous agent reads the source and writes the destination at any time between the issue and the completion. It is
//! ordered after what the issuing thread has seen, and before what a thread does that has waited for it: for the mbarrier that
//! tracks the copy, or, in the issuing thread, for the copy's bulk group. A wait with `.read` orders only the read of the source.
//! In shared memory the agent is a thread of its own, so that a wait for another copy does not count. In global memory the copy
//! counts as an access of the thread that issued it. Also reported: a block that ends while a copy still reads its shared memory.
//!
//! Sources: `cp.async.bulk`, `cp.async.bulk.wait_group` and the section on async proxies in the PTX manual. Missed: accesses to
//! global memory between the issue and the wait by the issuing thread.

use super::clock::{Clock, Order, Who};
use super::cluster::Cluster;
use super::context::{AGENT, Context};
use super::copies::Copies;
use super::history::stamp;
use super::raw::{Raw, RawFindings, Spot};
use super::site::Scope;
use super::{Class, Severity};
use std::collections::{BTreeMap, VecDeque};
use warpproof_sim::machine::{AccessKind, at, rank_in};
use warpproof_sim::memory::Space;
use warpproof_sim::observe::{BulkCopy, MultiplyAsync, TensorAction, TensorEvent};

/// Which agent makes a copy: copies that complete together have one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    /// Those that an mbarrier tracks.
    Mbarrier(u64),
    /// Those of a thread's groups.
    Thread(u32, u32),
    /// The tensor core, for a warp.
    Multiply(u32),
    /// The tensor core, for a thread that uses tensor memory.
    Tensor(u32),
}

/// The agents of a cluster, and when they started what they do.
#[derive(Debug, Default)]
pub(crate) struct Agents {
    numbers: BTreeMap<(u32, Key), u32>,
    /// By copy: the time at which it was issued, in the time of the issuing block.
    issued: BTreeMap<(u32, u32, u64), u32>,
    /// By rank and warp: when its multiplications in flight were issued, oldest first.
    multiplies: BTreeMap<(u32, u32), VecDeque<u32>>,
    /// By rank and thread: its work on tensor memory.
    tensor: BTreeMap<(u32, u32), TensorWork>,
}

/// The work of a thread on tensor memory.
#[derive(Debug, Default)]
struct TensorWork {
    /// When what is in flight was issued, oldest first.
    flights: VecDeque<u32>,
    /// The same for the last that is complete.
    last: u32,
    /// What the thread had seen when it executed each `tcgen05.commit` that has not arrived.
    commits: VecDeque<Clock>,
}

/// The most agents that are distinguished.
const MOST: u32 = 1 << 26;

impl Agents {
    /// The number that stands for the agent's block.
    fn of(&mut self, copy: &BulkCopy) -> u32 {
        let key = match copy.barrier {
            Some(barrier) => Key::Mbarrier(barrier),
            None => Key::Thread(copy.warp, copy.lane),
        };
        self.number(copy.rank, key)
    }

    fn number(&mut self, rank: u32, key: Key) -> u32 {
        let next = u32::try_from(self.numbers.len()).unwrap_or(MOST - 1).min(MOST - 1);
        let number = *self.numbers.entry((rank, key)).or_insert(next);
        AGENT | number << 4 | rank & 15
    }
}

/// The offset in its block of an address in the cluster's shared memory, and the rank of that block.
fn place(address: u64) -> (usize, u32) {
    (usize::try_from(rank_in(address)).unwrap_or(usize::MAX), u32::try_from(address & 0xff_ffff).unwrap_or(0))
}

/// The offset in the shared memory of the block with this rank, if the place is there.
pub(crate) fn offset_in(rank: u32, (space, address): (Space, u64)) -> Option<u32> {
    let (owner, offset) = place(address);
    (space == Space::Shared && owner == at(rank)).then_some(offset)
}

impl Cluster {
    /// A copy is issued: from now on its agent reads the source and writes the destination.
    pub(crate) fn bulk_issued(
        &mut self,
        context: &Context,
        order: &mut Order,
        raw_findings: &mut RawFindings,
        (block, copies): (u32, &Copies),
        copy: &BulkCopy,
    ) {
        let who = Who::new(copy.warp, at(copy.lane));
        let agent = self.agents.of(copy);
        let stored = copy.from == copy.to;
        let mut accesses = vec![(copy.to, AccessKind::Write)];
        if !stored {
            accesses.insert(0, (copy.from, AccessKind::Read));
        }
        if let Some(barrier) = copy.barrier.filter(|_| !stored) {
            let (rank, offset) = place(barrier);
            let outside = (rank != at(copy.rank)).then(|| self.windows.get_mut(rank)).flatten();
            if let Some(window) = outside {
                let owner = context.cluster_block(block, u32::try_from(rank).unwrap_or(0));
                window.mbarriers().signaled_from_outside(context, raw_findings, owner, (offset, copy.pc));
            }
        }
        let time = order.now();
        for ((space, address), kind) in accesses {
            if space != Space::Shared {
                continue;
            }
            let (rank, offset) = place(address);
            // Reductions may be concurrent, as atomics are.
            let strong = (copy.reduces && kind == AccessKind::Write).then_some(Scope::Device);
            let kind = if strong.is_some() { AccessKind::Atomic } else { kind };
            let stamp = stamp(order, who, copy.pc, strong);
            if let Some(window) = self.windows.get_mut(rank) {
                let bytes = (offset, copy.extent);
                window.bulk(context, order, raw_findings, copies, (block, agent), stamp, bytes, kind);
            }
        }
        self.agents.issued.insert((agent, copy.pc, copy.to.1), time);
        // What the thread does next has another time.
        order.release(who);
    }

    /// The clock of an agent when the copy is complete.
    fn finished(&mut self, copy: &BulkCopy) -> Clock {
        let agent = self.agents.of(copy);
        let time = self.agents.issued.get(&(agent, copy.pc, copy.to.1)).copied().unwrap_or(0);
        Clock::of_agent(agent, time)
    }

    /// A thread has waited until the source of a copy is read.
    pub(crate) fn bulk_read(&mut self, order: &mut Order, copy: &BulkCopy) {
        let clock = self.finished(copy);
        order.acquire(Who::new(copy.warp, at(copy.lane)), &clock);
    }

    /// A copy is complete. The thread has waited for it if it is part of a group.
    pub(crate) fn bulk_done(&mut self, order: &mut Order, copy: &BulkCopy) {
        if copy.to.0 == Space::Shared {
            let (rank, offset) = place(copy.to.1);
            if let Some(window) = self.windows.get_mut(rank) {
                window.bulk_done(offset, copy);
            }
        }
        if copy.barrier.is_none() {
            self.bulk_read(order, copy);
            self.forget(copy);
        }
    }

    /// The mbarrier of a copy has received its bytes, which releases them to the threads that wait for it.
    pub(crate) fn bulk_signaled(&mut self, copy: &BulkCopy, completes: bool) {
        let Some(barrier) = copy.barrier else { return };
        let clock = self.finished(copy);
        let (rank, offset) = place(barrier);
        if let Some(window) = self.windows.get_mut(rank) {
            window.bulk_signaled(offset, &clock, completes);
        }
        self.forget(copy);
    }

    /// A warp issues a multiplication: from now on the tensor core reads its operands.
    pub(crate) fn multiply_issued(
        &mut self,
        context: &Context,
        order: &mut Order,
        raw_findings: &mut RawFindings,
        (block, rank, copies): (u32, u32, &Copies),
        multiply: &MultiplyAsync<'_>,
    ) {
        let agent = self.agents.number(rank, Key::Multiply(multiply.warp));
        let Some(window) = self.windows.get_mut(at(rank)) else { return };
        for (i, piece) in multiply.pieces.iter().enumerate() {
            let stamp = stamp(order, Who::new(multiply.warp, i % 32), multiply.pc, None);
            let bytes = (*piece, 16);
            window.bulk(context, order, raw_findings, copies, (block, agent), stamp, bytes, AccessKind::Read);
        }
        let time = order.advance();
        self.agents.multiplies.entry((rank, multiply.warp)).or_default().push_back(time);
    }

    /// The oldest multiplication of a warp is complete: the tensor core has read its operands. The four warps of the group
    /// wait together.
    pub(crate) fn multiply_done(&mut self, order: &mut Order, rank: u32, warp: u32) {
        let flights = self.agents.multiplies.entry((rank, warp)).or_default();
        let Some(time) = flights.pop_front() else { return };
        let clock = Clock::of_agent(self.agents.number(rank, Key::Multiply(warp)), time);
        for member in warp / 4 * 4..warp / 4 * 4 + 4 {
            order.acquire_warp(member, &clock);
        }
    }

    /// A thread issues a copy to tensor memory or a multiplication: from now on the tensor core reads its operands. Returns the agent
    /// and its time.
    pub(crate) fn tensor_issued(
        &mut self,
        context: &Context,
        order: &mut Order,
        raw_findings: &mut RawFindings,
        (block, rank, copies): (u32, u32, &Copies),
        event: &TensorEvent<'_>,
    ) -> (u32, u32) {
        let thread = event.warp * 32 + event.lane;
        let agent = self.agents.number(rank, Key::Tensor(thread));
        let stamp = stamp(order, Who::new(event.warp, at(event.lane)), event.pc, None);
        if let TensorAction::Issued { pieces, peer, .. } = event.action {
            for owner in [Some(rank), peer].into_iter().flatten() {
                let Some(window) = self.windows.get_mut(at(owner)) else { continue };
                for piece in pieces {
                    let (place, bytes) = ((block, agent), (*piece, 16));
                    window.bulk(context, order, raw_findings, copies, place, stamp, bytes, AccessKind::Read);
                }
            }
        }
        let time = order.advance();
        self.agents.tensor.entry((rank, thread)).or_default().flights.push_back(time);
        (agent, time)
    }

    /// The oldest work of a thread on tensor memory is complete.
    pub(crate) fn tensor_completed(&mut self, rank: u32, event: &TensorEvent<'_>) {
        let work = self.agents.tensor.entry((rank, event.warp * 32 + event.lane)).or_default();
        work.last = work.flights.pop_front().unwrap_or(work.last);
    }

    /// A thread executes `tcgen05.commit`: what it has seen is released with the work before it.
    pub(crate) fn tensor_committed(&mut self, order: &mut Order, rank: u32, event: &TensorEvent<'_>) {
        // It is a `tcgen05.fence::before_thread_sync` too.
        self.tensor.iter_mut().for_each(|cells| cells.publish(order, event.warp));
        let clock = order.release(Who::new(event.warp, at(event.lane)));
        let work = self.agents.tensor.entry((rank, event.warp * 32 + event.lane)).or_default();
        work.commits.push_back(clock);
    }

    /// A `tcgen05.commit` of a thread arrives at an mbarrier, which releases what is complete to the threads that wait for it.
    pub(crate) fn tensor_arrived(&mut self, rank: u32, event: &TensorEvent<'_>) {
        let TensorAction::Arrived { rank: target, address, completes } = event.action else { return };
        let thread = event.warp * 32 + event.lane;
        let agent = self.agents.number(rank, Key::Tensor(thread));
        let work = self.agents.tensor.entry((rank, thread)).or_default();
        let mut clock = work.commits.pop_front().unwrap_or_default();
        clock.join(&Clock::of_agent(agent, work.last));
        if let Some(window) = self.windows.get_mut(at(target)) {
            window.bulk_signaled(address, &clock, completes);
        }
    }

    /// A copy is complete, and its clock was released.
    fn forget(&mut self, copy: &BulkCopy) {
        let agent = self.agents.of(copy);
        self.agents.issued.remove(&(agent, copy.pc, copy.to.1));
    }
}

/// A block ends while a copy of a group still reads its shared memory.
pub(crate) fn left(context: &Context, raw_findings: &mut RawFindings, block: u32, copy: &BulkCopy) {
    raw_findings.add((Class::AsyncCopy, copy.pc, copy.pc, 7), Severity::Error, || {
        let who = copy.warp * 32 + copy.lane;
        Raw {
            class: Class::AsyncCopy,
            severity: Severity::Error,
            sentence: format!(
                "the block ends while the bulk copy issued by {} still reads its shared memory",
                context.thread(block, who)
            ),
            spots: vec![Spot { label: "the copy".to_owned(), pc: copy.pc, thread: Some((block, who)) }],
            notes: vec!["shared memory exists until the block ends; the bytes that arrive are undefined".to_owned()],
            help: Some(
                "execute cp.async.bulk.commit_group and cp.async.bulk.wait_group.read 0 in that thread before it exits"
                    .to_owned(),
            ),
            count: 1,
        }
    });
}
