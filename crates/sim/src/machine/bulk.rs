//! Bulk copies in flight: `cp.async.bulk`, `cp.reduce.async.bulk`, `st.async` and `red.async`.
//!
//! An asynchronous agent performs them as late as the program allows, so that a kernel that does not wait reads old data: a
//! copy that an mbarrier tracks when a thread tests that mbarrier, a copy of a bulk group when its thread waits for the group,
//! and otherwise when a warp of the cluster has used up its turn, or when a block whose memory the copy uses ends. The list
//! belongs to the cluster, because a thread of any block may test the mbarrier.

#![expect(
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    reason = "offsets in shared memory and lane numbers are small once checked"
)]

use super::block::Cta;
use super::{AccessKind, Flow, Mbarrier, Warp, cluster_address, rank_in};
use crate::memory::{Fault, FaultKind, Operation, Postponed, Space};
use crate::observe::BulkCopy;
use crate::schedule::CopyTiming;
use crate::stop::{Blame, StopKind};
use crate::tensor_map::{Plan, TensorMap};
use std::sync::Arc;
use warpproof_num::Rounding;
use warpproof_num::fp8::cvt_tf32_f32;

/// Bulk copies that a cluster may have in flight; beyond that, the oldest are completed, which is allowed at any time.
const UNDER_WAY: usize = 1 << 12;
/// Bytes of sources that were read and not written yet; beyond that, their copies are completed.
const KEPT: usize = 32 << 20;

/// A bulk copy that is not complete. Addresses in shared memory are addresses in the cluster.
#[derive(Clone, Debug)]
pub struct Bulk {
    /// As observers see it.
    pub copy: BulkCopy,
    /// The rows, if a tensor map describes the copy.
    pub plan: Option<Arc<Plan>>,
    /// The bytes to write, once they are read.
    pub data: Option<Vec<u8>>,
    /// How they are combined with those of the destination, if they are.
    pub reduction: Option<Operation>,
    /// Whether they were written already.
    pub moved: bool,
}

/// The largest aligned access at an address, up to 16 bytes.
fn piece_size(address: u64, left: usize) -> u32 {
    let most = if left >= 16 { 16 } else { 1 << left.max(1).ilog2() };
    1 << address.trailing_zeros().min(u32::trailing_zeros(most))
}

/// The consecutive bytes that a copy with a byte mask writes.
fn masked(copy: &BulkCopy) -> Vec<(u64, u32)> {
    let mut runs: Vec<(u64, u32)> = Vec::new();
    for at in (0..u64::from(copy.bytes)).filter(|at| copy.mask >> (at % 16) & 1 != 0) {
        let address = copy.to.1 + at;
        match runs.last_mut() {
            Some((start, bytes)) if *start + u64::from(*bytes) == address => *bytes += 1,
            _ => runs.push((address, 1)),
        }
    }
    runs
}

/// The window of an address in the cluster, and the offset in it.
fn window_of(address: u64) -> (u64, u32) {
    (address & !0xff_ffff, (address & 0xff_ffff) as u32)
}

impl Warp<'_, '_> {
    /// The cluster's copies in flight.
    fn bulk(&mut self) -> &mut Vec<Bulk> {
        let first: &mut Cta = self.peers.0.first_mut().unwrap_or(self.cta);
        &mut first.bulk
    }

    /// The address in the cluster of a shared address of this block or of the cluster.
    pub fn in_cluster(&self, address: u64) -> u64 {
        let (rank, offset) = self.locate_shared(address);
        if rank == u32::MAX { address } else { cluster_address(rank, offset) }
    }

    /// Whether all bytes of a bulk operand exist, and its address is a multiple of 16.
    pub fn probe_bulk(&self, space: Space, address: u64, bytes: u32, align: u32) -> Result<(), Fault> {
        let fault = |kind| Err(Fault { space, address, kind });
        if !address.is_multiple_of(u64::from(align)) {
            return fault(FaultKind::Misaligned(align));
        }
        if bytes == 0 {
            return Ok(());
        }
        if space == Space::Shared {
            let (size, offset) = self.shared_bounds(address)?;
            if offset + u64::from(bytes) > size {
                return fault(FaultKind::OutOfBounds { nearest: None, size: Some(size) });
            }
            return Ok(());
        }
        self.global.heap().locate(address, u64::from(bytes)).map(|_| ())
    }

    /// Reads up to 16 bytes of a lane, if they exist.
    pub fn read_checked(&self, space: Space, lane: usize, address: u64, bytes: u32) -> Result<u128, Fault> {
        self.check(space, address, bytes, false)?;
        self.read_lane(space, lane, address, bytes)
    }

    /// Writes up to 16 bytes of a lane, if they exist.
    pub fn write_checked(
        &mut self,
        space: Space,
        lane: usize,
        address: u64,
        bytes: u32,
        value: u128,
    ) -> Result<(), Fault> {
        self.check(space, address, bytes, true)?;
        self.write_lane(space, lane, address, bytes, value)
    }

    /// Stops the launch because a row that a tensor map describes does not exist.
    pub fn tensor_fault(
        &mut self,
        lane: usize,
        fault: Fault,
        kind: AccessKind,
        bytes: u32,
        map: &TensorMap,
    ) -> Flow {
        let flow = self.fault(lane, fault, kind, bytes);
        if let Some(stop) = &mut self.stop {
            let dims: Vec<String> = map.used_dims().iter().map(u64::to_string).collect();
            stop.notes.push(format!(
                "the tensor map describes {} elements of {} at {:#x}; only elements outside of these dimensions are filled or skipped",
                dims.join(" x "),
                map.data_type.name(),
                map.address
            ));
        }
        flow
    }

    /// Starts a copy.
    pub fn start_bulk(&mut self, bulk: Bulk) -> Result<(), Flow> {
        self.cta.changed = true;
        if let Some(watch) = self.watch.as_deref_mut() {
            if let Some(plan) = &bulk.plan {
                let rows: Vec<(u64, u32)> =
                    plan.rows.iter().filter(|row| row.bytes > 0).map(|row| (row.global, row.bytes)).collect();
                watch.tensor_issued(&bulk.copy, &rows);
            } else if bulk.copy.mask != u16::MAX {
                watch.tensor_issued(&bulk.copy, &masked(&bulk.copy));
            }
            watch.bulk_issued(&bulk.copy);
        }
        let mut bulk = bulk;
        // An early copy is visible immediately, but it is complete only after a wait.
        if self.grid.schedule.copies == CopyTiming::Early {
            self.read_bulk(&mut bulk)?;
            self.move_bulk(&mut bulk)?;
        }
        self.bulk().push(bulk);
        if self.bulk().len() > UNDER_WAY {
            let rest = self.bulk().split_off(UNDER_WAY / 2);
            let oldest = std::mem::replace(self.bulk(), rest);
            oldest.into_iter().try_for_each(|bulk| self.end_bulk(bulk))?;
        }
        Ok(())
    }

    /// Completes the copies for which `which` is true, oldest first.
    pub fn complete_bulk(&mut self, which: impl Fn(&BulkCopy) -> bool) -> Result<(), Flow> {
        if self.bulk().is_empty() {
            return Ok(());
        }
        let all = std::mem::take(self.bulk());
        let (done, rest): (Vec<Bulk>, Vec<Bulk>) = all.into_iter().partition(|bulk| which(&bulk.copy));
        *self.bulk() = rest;
        self.cta.changed |= !done.is_empty();
        done.into_iter().try_for_each(|bulk| self.end_bulk(bulk))
    }

    /// Completes the copies that the mbarrier at this address tracks, if its state makes that necessary.
    pub fn complete_for(
        &mut self,
        lane: usize,
        address: u64,
        necessary: impl Fn(&Mbarrier) -> bool,
    ) -> Result<(), Flow> {
        let idle = self.bulk().is_empty() && !self.is_tensor_busy();
        if idle || self.check(Space::Shared, address, 8, false).is_err() {
            return Ok(());
        }
        let lacks = |w: &Self| {
            let word = w.read_lane(Space::Shared, lane, address, 8).unwrap_or(0);
            Mbarrier::unpack(word as u64).is_ok_and(|barrier| necessary(&barrier))
        };
        let barrier = self.in_cluster(address);
        if lacks(self) {
            self.complete_bulk(|copy| copy.barrier == Some(barrier))?;
        }
        while lacks(self) && self.finish_commit(barrier)? {}
        Ok(())
    }

    /// Reads the sources of the copies for which `which` is true; what is written to the sources later has no effect.
    pub fn read_sources(&mut self, which: impl Fn(&BulkCopy) -> bool) -> Result<(), Flow> {
        let mut all = std::mem::take(self.bulk());
        let mut result = Ok(());
        for bulk in all.iter_mut().filter(|bulk| which(&bulk.copy)) {
            result = result.and_then(|()| self.read_bulk(bulk));
            if let Some(watch) = self.watch.as_deref_mut() {
                watch.bulk_read(&bulk.copy);
            }
        }
        let kept: usize = all.iter().filter_map(|bulk| bulk.data.as_ref()).map(Vec::len).sum();
        *self.bulk() = all;
        result?;
        if kept > KEPT { self.complete_bulk(which) } else { Ok(()) }
    }

    fn end_bulk(&mut self, mut bulk: Bulk) -> Result<(), Flow> {
        self.read_bulk(&mut bulk)?;
        self.move_bulk(&mut bulk)?;
        if let Some(watch) = self.watch.as_deref_mut() {
            watch.bulk_done(&bulk.copy);
        }
        let Some(barrier) = bulk.copy.barrier else { return Ok(()) };
        self.signal(&bulk.copy, barrier)
    }

    /// Completes the transaction of a copy at its mbarrier.
    fn signal(&mut self, copy: &BulkCopy, barrier: u64) -> Result<(), Flow> {
        let lane = copy.lane as usize;
        let word = match self.check(Space::Shared, barrier, 8, true) {
            Ok(()) => self.read_lane(Space::Shared, lane, barrier, 8),
            Err(fault) => Err(fault),
        };
        let word = word.map_err(|fault| self.bulk_fault(copy, fault, AccessKind::Atomic, 8))?;
        let changed = Mbarrier::unpack(word as u64).and_then(|mut mbarrier| {
            let parity = mbarrier.parity;
            mbarrier.transfer(-i64::from(copy.bytes))?;
            mbarrier.settle();
            Ok((mbarrier.pack(), mbarrier.parity != parity))
        });
        match changed {
            Ok((word, completes)) => {
                self.write_lane(Space::Shared, lane, barrier, 8, u128::from(word))
                    .map_err(|fault| self.bulk_fault(copy, fault, AccessKind::Atomic, 8))?;
                if let Some(watch) = self.watch.as_deref_mut() {
                    watch.bulk_signaled(copy, completes);
                }
                Ok(())
            }
            Err(sentence) => {
                let sentence = format!("{sentence}, when a copy of {} bytes completes", copy.bytes);
                Err(self
                    .bulk_stop(copy, |w| w.halt_lane(Blame::Kernel, StopKind::Mbarrier, copy.lane, sentence)))
            }
        }
    }

    /// Reads the source, if that was not done yet.
    fn read_bulk(&mut self, bulk: &mut Bulk) -> Result<(), Flow> {
        let copy = bulk.copy;
        if bulk.data.is_some() || bulk.moved {
            return Ok(());
        }
        if let Some(plan) = bulk.plan.clone() {
            bulk.data = Some(self.read_rows_of(&copy, &plan)?);
            return Ok(());
        }
        let mut data = Vec::with_capacity(copy.bytes as usize);
        for at in (0..u64::from(copy.bytes)).step_by(4) {
            let address = copy.from.1 + at;
            let word = match self.check(copy.from.0, address, 4, false) {
                Ok(()) => self.read_lane(copy.from.0, copy.lane as usize, address, 4),
                Err(fault) => Err(fault),
            };
            let word = word.map_err(|fault| self.bulk_fault(&copy, fault, AccessKind::Read, copy.bytes))?;
            data.extend_from_slice(&(word as u32).to_le_bytes());
        }
        bulk.data = Some(data);
        Ok(())
    }

    /// Writes the bytes to the destination, if that was not done yet.
    fn move_bulk(&mut self, bulk: &mut Bulk) -> Result<(), Flow> {
        let (copy, lane) = (bulk.copy, bulk.copy.lane as usize);
        let Some(data) = bulk.data.take().filter(|_| !bulk.moved) else { return Ok(()) };
        if let Some(plan) = bulk.plan.clone() {
            self.write_rows_of(&copy, &plan, &data, bulk.reduction)?;
            bulk.moved = true;
            return if self.global.is_full() { Err(self.no_room_for_stores()) } else { Ok(()) };
        }
        if copy.mask != u16::MAX {
            for (byte, address) in data
                .iter()
                .zip(copy.to.1..)
                .filter(|(_, address)| copy.mask >> ((address - copy.to.1) % 16) & 1 != 0)
            {
                let written = self.put_element((copy.to.0, address), lane, 1, u128::from(*byte), None);
                written.map_err(|fault| self.bulk_fault(&copy, fault, AccessKind::Write, copy.bytes))?;
            }
            bulk.moved = true;
            return if self.global.is_full() { Err(self.no_room_for_stores()) } else { Ok(()) };
        }
        let size = bulk.reduction.map_or(4, |reduction| reduction.ty.bytes());
        for (at, piece) in (0u64..).step_by(size as usize).zip(data.chunks_exact(size as usize)) {
            let address = copy.to.1 + at;
            let value = piece.iter().rev().fold(0u128, |value, byte| value << 8 | u128::from(*byte));
            let written = self.put_element((copy.to.0, address), lane, size, value, bulk.reduction);
            written.map_err(|fault| self.bulk_fault(&copy, fault, AccessKind::Write, copy.bytes))?;
        }
        bulk.moved = true;
        if self.global.is_full() { Err(self.no_room_for_stores()) } else { Ok(()) }
    }

    /// Writes an element of a copy, or combines it with the one in memory.
    fn put_element(
        &mut self,
        (space, address): (Space, u64),
        lane: usize,
        bytes: u32,
        value: u128,
        reduction: Option<Operation>,
    ) -> Result<(), Fault> {
        self.check(space, address, bytes, true)?;
        let Some(operation) = reduction else { return self.write_lane(space, lane, address, bytes, value) };
        let after = (operation.apply)(self.read_lane(space, lane, address, bytes)?, value);
        let cell = Postponed { operation, operand: value, after };
        if space == Space::Global && self.global.postpone(address, bytes, cell)? {
            return Ok(());
        }
        self.write_lane(space, lane, address, bytes, after)
    }

    /// Reads bytes for a tensor copy.
    fn read_piece(
        &mut self,
        copy: &BulkCopy,
        space: Space,
        address: u64,
        out: &mut [u8],
    ) -> Result<(), Flow> {
        let mut done = 0;
        while done < out.len() {
            let at = address + done as u64;
            let size = piece_size(at, out.len() - done);
            let value = match self.check(space, at, size, false) {
                Ok(()) => self.read_lane(space, copy.lane as usize, at, size),
                Err(fault) => Err(fault),
            };
            let value = value.map_err(|fault| self.bulk_fault(copy, fault, AccessKind::Read, size))?;
            for (place, byte) in out.iter_mut().skip(done).zip(value.to_le_bytes()).take(size as usize) {
                *place = byte;
            }
            done += size as usize;
        }
        Ok(())
    }

    /// Writes bytes for a tensor copy, combined with those in memory if it is a reduction.
    fn write_piece(
        &mut self,
        copy: &BulkCopy,
        (space, address): (Space, u64),
        data: &[u8],
        reduction: Option<Operation>,
    ) -> Result<(), Flow> {
        let (lane, mut done) = (copy.lane as usize, 0);
        while done < data.len() {
            let at = address + done as u64;
            let size = match reduction {
                Some(reduction) => reduction.ty.bytes(),
                None => piece_size(at, data.len() - done),
            };
            let bytes = data.get(done..done + size as usize).unwrap_or(&[]);
            let value = bytes.iter().rev().fold(0u128, |value, byte| value << 8 | u128::from(*byte));
            let written = self.put_element((space, at), lane, size, value, reduction);
            written.map_err(|fault| self.bulk_fault(copy, fault, AccessKind::Write, size))?;
            done += size as usize;
        }
        Ok(())
    }

    /// Reads the source of a tensor copy: rows of the tensor, with what stands for elements outside, or a box in shared memory.
    fn read_rows_of(&mut self, copy: &BulkCopy, plan: &Plan) -> Result<Vec<u8>, Flow> {
        let mut data = vec![0; copy.bytes as usize];
        if copy.from.0 == Space::Shared {
            let (window, base) = window_of(copy.from.1);
            for (at, address, size) in plan.pieces(base) {
                let piece = data.get_mut(at..at + size as usize).unwrap_or(&mut []);
                self.read_piece(copy, Space::Shared, window | u64::from(address), piece)?;
            }
            return Ok(data);
        }
        for pair in data.chunks_exact_mut(2) {
            pair.copy_from_slice(&plan.outside.to_le_bytes());
        }
        for (row, out) in plan.rows.iter().zip(data.chunks_exact_mut(plan.row_bytes as usize)) {
            let (from, size) = (row.skip as usize, row.bytes as usize);
            let out = out.get_mut(from..from + size).unwrap_or(&mut []);
            self.read_piece(copy, Space::Global, row.global, out)?;
            if plan.data_type.is_tf32() {
                for element in out.as_chunks_mut::<4>().0 {
                    let rounded = cvt_tf32_f32(u32::from_le_bytes(*element), Rounding::Rn, false, false);
                    // The 13 low bits are zero also in a NaN.
                    *element = (rounded & !0x1fff).to_le_bytes();
                }
            }
        }
        Ok(data)
    }

    /// Writes the destination of a tensor copy.
    fn write_rows_of(
        &mut self,
        copy: &BulkCopy,
        plan: &Plan,
        data: &[u8],
        reduction: Option<Operation>,
    ) -> Result<(), Flow> {
        if copy.to.0 == Space::Shared {
            let (window, base) = window_of(copy.to.1);
            for (at, address, size) in plan.pieces(base) {
                let piece = data.get(at..at + size as usize).unwrap_or(&[]);
                self.write_piece(copy, (Space::Shared, window | u64::from(address)), piece, None)?;
            }
            return Ok(());
        }
        for (row, bytes) in plan.rows.iter().zip(data.chunks_exact(plan.row_bytes as usize)) {
            let piece = bytes.get(row.skip as usize..(row.skip + row.bytes) as usize).unwrap_or(&[]);
            self.write_piece(copy, (Space::Global, row.global), piece, reduction)?;
        }
        Ok(())
    }

    fn bulk_fault(&mut self, copy: &BulkCopy, fault: Fault, kind: AccessKind, bytes: u32) -> Flow {
        self.bulk_stop(copy, |w| w.fault(copy.lane as usize, fault, kind, bytes))
    }

    /// Attributes a stop to the thread and the instruction that issued the copy.
    fn bulk_stop(&mut self, copy: &BulkCopy, stop: impl FnOnce(&mut Self) -> Flow) -> Flow {
        let running = std::mem::replace(&mut self.pc, copy.pc);
        let flow = stop(self);
        self.pc = running;
        let thread = self.grid.thread(copy.warp * 32 + copy.lane);
        let block = self.peer(copy.rank).map(|cta| cta.index);
        if let Some(stop) = &mut self.stop {
            stop.thread = Some(thread);
            stop.block = block.or(stop.block);
        }
        flow
    }

    /// All threads of the block have exited: completes the copies that it issued or that use its memory.
    pub(super) fn leave_bulk(&mut self) -> Result<(), Flow> {
        let rank = self.cta.rank;
        let own =
            |(space, address): (Space, u64)| space == Space::Shared && rank_in(address) == u64::from(rank);
        // Those whose source was not read: the thread has not waited.
        let late: Vec<BulkCopy> = self
            .bulk()
            .iter()
            .filter(|bulk| bulk.data.is_none() && !bulk.moved)
            .map(|bulk| bulk.copy)
            .collect();
        if let Some(watch) = self.watch.as_deref_mut() {
            late.iter()
                .filter(|copy| copy.rank == rank && copy.barrier.is_none())
                .for_each(|copy| watch.bulk_left(copy));
        }
        self.complete_bulk(|copy| copy.rank == rank || own(copy.from) || own(copy.to))?;
        self.leave_tensor()
    }
}
