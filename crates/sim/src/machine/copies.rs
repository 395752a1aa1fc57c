//! Asynchronous copies in flight, and the mbarrier arrivals that follow them.

#![expect(
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    reason = "eight bytes were read; lane numbers are below 32"
)]

use super::{AccessKind, Flow, LANES, Mbarrier, Row, Warp};
use crate::memory::Space;
use crate::observe::MbarrierAction;
use crate::stop::{Blame, StopKind};

/// An issued operation of a lane that has not completed yet.
#[derive(Clone, Copy, Debug)]
pub enum Pending {
    /// A copy that is not complete.
    Copy(PendingCopy),
    /// An arrival that waits for copies.
    Arrival(PendingArrival),
}

impl Pending {
    /// The lane that issued it.
    pub fn lane(&self) -> usize {
        usize::from(match self {
            Pending::Copy(copy) => copy.lane,
            Pending::Arrival(arrival) => arrival.lane,
        })
    }

    /// The group it completes with.
    pub fn group(&self) -> u32 {
        match self {
            Pending::Copy(copy) => copy.group,
            Pending::Arrival(arrival) => arrival.group,
        }
    }
}

/// One lane's `cp.async.mbarrier.arrive` whose copies have not completed.
#[derive(Clone, Copy, Debug)]
pub struct PendingArrival {
    /// The lane that issued it.
    pub lane: u8,
    /// The group of the last copy before it.
    pub group: u32,
    /// The barrier in shared memory.
    pub barrier: u32,
    /// The instruction that issued it.
    pub pc: u32,
}

/// One lane's `cp.async` that has not completed.
#[derive(Clone, Copy, Debug)]
pub struct PendingCopy {
    /// The lane that issued it.
    pub lane: u8,
    /// The group it will complete with: the lane's count of commits when it was issued.
    pub group: u32,
    /// Destination in shared memory.
    pub to: u32,
    /// Source in global memory.
    pub from: u64,
    /// Bytes written: 4, 8 or 16.
    pub size: u8,
    /// Bytes read from the source; the rest is zero.
    pub read: u8,
    /// Whether its bytes have been copied already.
    pub moved: bool,
    /// The instruction that issued it.
    pub pc: u32,
}

impl PendingCopy {
    /// The copy as observers see it.
    pub(super) fn event(&self, warp: u32) -> crate::observe::AsyncCopy {
        crate::observe::AsyncCopy {
            warp,
            lane: self.lane.into(),
            pc: self.pc,
            to: self.to,
            from: self.from,
            size: self.size.into(),
            read: self.read.into(),
            group: self.group,
        }
    }
}

impl Warp<'_, '_> {
    /// Completes the pending operations of the given lanes for which `which(lane, group)` is true, oldest first.
    pub fn complete_copies(&mut self, which: impl Fn(usize, u32) -> bool, lanes: u32) -> Result<(), Flow> {
        self.complete_where(|_, pending| {
            lanes >> pending.lane() & 1 != 0 && which(pending.lane(), pending.group())
        })
    }

    /// Completes the copies of the warp that mbarriers track, and performs their arrivals.
    pub fn complete_tracked(&mut self) -> Result<(), Flow> {
        if self.state.arrivals == 0 {
            return Ok(());
        }
        // The operations after each lane's last arrival.
        let mut ends = [0; LANES];
        for (i, pending) in self.state.copies.iter().enumerate() {
            if let Pending::Arrival(_) = pending {
                ends[pending.lane()] = i + 1;
            }
        }
        self.complete_where(|i, pending| i < ends[pending.lane()])
    }

    fn complete_where(&mut self, which: impl Fn(usize, &Pending) -> bool) -> Result<(), Flow> {
        if self.state.copies.is_empty() {
            return Ok(());
        }
        let mut done = Vec::with_capacity(self.state.copies.len());
        let mut index = 0;
        self.state.copies.retain(|pending| {
            let complete = which(index, pending);
            index += 1;
            if complete {
                done.push(*pending);
            }
            !complete
        });
        done.into_iter().try_for_each(|pending| self.complete(pending))
    }

    /// Performs a pending operation.
    pub fn complete(&mut self, pending: Pending) -> Result<(), Flow> {
        match pending {
            Pending::Copy(copy) => self.end_copy(copy),
            Pending::Arrival(arrival) => {
                self.state.arrivals = self.state.arrivals.saturating_sub(1);
                // Attribute it to the instruction that issued it, not to the current one.
                let running = std::mem::replace(&mut self.pc, arrival.pc);
                let result = self.arrive_late(usize::from(arrival.lane), u64::from(arrival.barrier));
                self.pc = running;
                result
            }
        }
    }

    fn arrive_late(&mut self, lane: usize, address: u64) -> Result<(), Flow> {
        let word = self
            .read_lane(Space::Shared, lane, address, 8)
            .map_err(|fault| self.fault(lane, fault, AccessKind::Atomic, 8))?;
        let arrived = Mbarrier::unpack(word as u64).and_then(|mut barrier| {
            let parity = barrier.parity;
            barrier.arrive(1)?;
            Ok((barrier.pack(), barrier.parity != parity))
        });
        match arrived {
            Ok((word, completes)) => {
                self.write_lane(Space::Shared, lane, address, 8, u128::from(word))
                    .map_err(|fault| self.fault(lane, fault, AccessKind::Atomic, 8))?;
                self.announce(Space::Shared, AccessKind::Atomic, &Row::splat(address), 8, 1 << lane);
                self.used_mbarrier(lane, address, MbarrierAction::Arrive, completes);
                Ok(())
            }
            Err(sentence) => {
                let sentence = format!("{sentence}, at shared address {address:#x}");
                Err(self.halt_lane(Blame::Kernel, StopKind::Mbarrier, lane as u32, sentence))
            }
        }
    }

    /// Copies the bytes of one `cp.async` if that was not done yet, and makes them visible.
    pub fn end_copy(&mut self, copy: PendingCopy) -> Result<(), Flow> {
        if !copy.moved {
            self.copy_now(copy)?;
        }
        if let Some(watch) = self.watch.as_deref_mut() {
            watch.copy_done(&copy.event(self.state.id));
        }
        Ok(())
    }

    /// Copies the bytes of one `cp.async`.
    pub fn copy_now(&mut self, copy: PendingCopy) -> Result<(), Flow> {
        let lane = usize::from(copy.lane);
        let bytes = u32::from(copy.read);
        let whole = matches!(bytes, 4 | 8 | 16)
            .then(|| self.read_lane(Space::Global, lane, copy.from, bytes).ok())
            .flatten();
        let value = match whole {
            Some(value) => value,
            // Other sizes; and a fault names the first byte that cannot be read.
            None => self.read_by_byte(copy)?,
        };
        self.check(Space::Shared, u64::from(copy.to), u32::from(copy.size), true)
            .and_then(|()| {
                self.write_lane(Space::Shared, lane, u64::from(copy.to), u32::from(copy.size), value)
            })
            .map_err(|fault| self.fault(lane, fault, AccessKind::Write, u32::from(copy.size)))
    }

    /// The source of a copy, read byte by byte.
    fn read_by_byte(&mut self, copy: PendingCopy) -> Result<u128, Flow> {
        let lane = usize::from(copy.lane);
        let mut value = 0;
        for i in 0..u64::from(copy.read) {
            let byte = self
                .read_lane(Space::Global, lane, copy.from.wrapping_add(i), 1)
                .map_err(|fault| self.fault(lane, fault, AccessKind::Read, u32::from(copy.size)))?;
            value |= byte << (8 * i);
        }
        Ok(value)
    }
}
