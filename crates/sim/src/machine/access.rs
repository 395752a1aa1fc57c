//! All memory accesses of instructions go through this module, which reports them to the observer.

#![expect(
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "addresses of a space are 32-bit by construction once checked against its size; lane numbers are below 32"
)]

use super::{Flow, LANES, Row, Warp, at};
use crate::isa::AddressArg;
use crate::isa::map::merge;
use crate::memory::{Fault, FaultKind, MAX_SHARED, Space};
use crate::observe::{GlobalWords, SharedAccess};
use crate::simd::{Half, Simd};

/// The kind of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AccessKind {
    /// Reads.
    Read,
    /// Writes.
    Write,
    /// Reads and writes in one step.
    Atomic,
}

/// One access of a warp.
#[derive(Clone, Copy, Debug)]
pub struct Access<'a> {
    /// The block's linear index.
    pub block: u32,
    /// The warp's number in the block.
    pub warp: u32,
    /// The instruction.
    pub pc: u32,
    /// The space, after resolving generic addresses; a warp whose lanes use several spaces makes one access per space.
    pub space: Space,
    /// What it does.
    pub kind: AccessKind,
    /// The address of each lane, in its space.
    pub addresses: &'a Row<u64>,
    /// Bytes per lane.
    pub bytes: u32,
    /// The lanes.
    pub lanes: u32,
    /// Lanes whose write did not change memory.
    pub unchanged: u32,
    /// The written data as 32-bit words; empty if unknown or not a write.
    pub words: &'a [Row<u32>],
    /// Whether an asynchronous copy performs the access later.
    pub deferred: bool,
    /// Which bytes of a lane are used, one bit each: a compiler that merges several loads into a wide one declares this.
    /// The other bytes are read too, and it does not matter which allocation they belong to.
    pub used: u32,
}

/// Details of an access besides its addresses.
#[derive(Clone, Copy)]
pub(super) struct Told<'a> {
    pub(super) unchanged: u32,
    pub(super) words: &'a [Row<u32>],
    pub(super) deferred: bool,
    pub(super) used: u32,
}

impl Told<'_> {
    /// No details.
    pub(super) const NOTHING: Told<'static> =
        Told { unchanged: 0, words: &[], deferred: false, used: u32::MAX };
}

/// The lanes set in a mask, lowest first.
#[inline]
pub fn lanes_of(mask: u32) -> impl Iterator<Item = usize> {
    let mut rest = mask;
    std::iter::from_fn(move || {
        let lane = rest.trailing_zeros();
        rest &= rest.wrapping_sub(1);
        (lane < 32).then_some(lane as usize)
    })
}

/// Whether an address is a multiple of an access size, which is a power of two.
#[inline(always)]
pub(super) fn aligned(address: u64, bytes: u32) -> bool {
    address & u64::from(bytes - 1) == 0
}

impl Warp<'_, '_> {
    /// The address of each lane.
    #[inline]
    pub fn addresses(&self, arg: AddressArg) -> Row<u64> {
        let mut out = Row([0; LANES]);
        let frame = if arg.frame { self.state.subwarp.sp } else { 0 };
        if arg.wide {
            let base = &self.state.regs.w64[at(arg.row)];
            let offset = (arg.offset as u64).wrapping_add(u64::from(frame));
            for lane in 0..LANES {
                out.0[lane] = base.0[lane].wrapping_add(offset);
            }
        } else {
            let base = &self.state.regs.w32[at(arg.row)];
            let offset = (arg.offset as u32).wrapping_add(frame);
            for lane in 0..LANES {
                out.0[lane] = u64::from(base.0[lane].wrapping_add(offset));
            }
        }
        self.without_own_rank(out)
    }

    /// Reads `bytes` per lane as 32-bit words, the first word in the first row; narrower values are zero-extended.
    pub fn load<const WORDS: usize>(
        &mut self,
        space: Space,
        arg: AddressArg,
        bytes: u32,
    ) -> Result<[Row<u32>; WORDS], Flow> {
        let addresses = self.addresses(arg);
        self.load_at(space, &addresses, bytes)
    }

    /// Reads words of each lane from shared memory through 32-bit addresses into registers, if all lanes are in bounds
    /// and aligned. Returns `false` if not: the slow path is required.
    #[inline(always)]
    pub fn get_shared_words<I: Simd, const WORDS: usize>(&mut self, arg: AddressArg, rows: &[u32]) -> bool {
        if self.state.naps.records {
            return false;
        }
        let Some((mut index, halves)) = self.shared_offsets::<I, WORDS>(arg) else { return false };
        if self.watch.is_some() {
            self.announce_shared(AccessKind::Read, &index, halves, 4 * WORDS as u32);
        }
        for at in &mut index.0 {
            *at >>= 2;
        }
        for row in rows {
            let out = Row(self.cta.shared.gather_halves::<I>(&index.0, halves));
            merge(&mut self.state.regs.w32[at(*row)], &out, self.exec);
            for at in &mut index.0 {
                *at += 1;
            }
        }
        true
    }

    #[inline(never)]
    fn announce_shared(&mut self, kind: AccessKind, offsets: &Row<u32>, halves: [Half; 2], bytes: u32) {
        if let Some(watch) = self.watch.as_deref_mut() {
            let (block, warp, pc, lanes) = (self.cta.linear, self.state.id, self.pc, self.exec);
            watch.shared(&SharedAccess { block, warp, pc, kind, offsets, halves, bytes, lanes });
        }
    }

    /// As [`get_shared_words`](Self::get_shared_words). If changes are tracked, all lanes must write to increasing addresses.
    #[inline(always)]
    pub fn put_shared_words<I: Simd, const WORDS: usize>(&mut self, arg: AddressArg, rows: &[u32]) -> bool {
        if self.heard {
            return self.exec == u32::MAX && self.put_watched_words::<I, WORDS>(arg, rows);
        }
        let Some((offsets, halves)) = self.shared_offsets::<I, WORDS>(arg) else { return false };
        if self.watch.is_some() {
            self.announce_shared(AccessKind::Write, &offsets, halves, 4 * WORDS as u32);
        }
        for (i, row) in (0u32..).zip(rows) {
            let values = &self.state.regs.w32[at(*row)];
            if self.exec == u32::MAX {
                let index = offsets.0.map(|offset| (offset >> 2) + i);
                self.cta.shared.scatter_halves::<I>(&index, halves, &values.0);
            } else {
                for lane in lanes_of(self.exec) {
                    *self.cta.shared.word_mut((offsets.0[lane] >> 2) + i) = values.0[lane];
                }
            }
        }
        true
    }

    /// Reads a word of each lane from global memory into a register, in the common case: all lanes are active, each half
    /// of the warp reads consecutive words or one word, and the block has not written to the allocation. Returns `false`
    /// otherwise: the slow path is required.
    #[inline(always)]
    pub fn get_global_word<I: Simd>(&mut self, arg: AddressArg, row: u32) -> bool {
        if self.grid.plain || self.exec != u32::MAX || !arg.wide || arg.frame || self.state.naps.records {
            return false;
        }
        let base = &self.state.regs.w64[at(arg.row)];
        let heap = self.global.heap();
        let first = base.0[0].wrapping_add(arg.offset as u64);
        let Ok(allocation) = heap.locate(first, 4) else { return false };
        let Some(data) = self.global.plain(allocation) else { return false };
        let start = heap.allocation(allocation).base.wrapping_sub(arg.offset as u64);
        let (distances, high) = I::narrow(&base.0.map(|address| address.wrapping_sub(start)));
        let extent = I::extent(&distances);
        if high != 0 || extent.bits & 3 != 0 {
            return false;
        }
        let mut out = Row([0u32; LANES]);
        for (half, to) in out.0.as_chunks_mut::<16>().0.iter_mut().enumerate() {
            let Some(rest) = data.get(at(distances[16 * half])..) else { return false };
            match (extent.halves[half % 2], rest.first_chunk::<64>(), rest.first_chunk::<4>()) {
                (Half::Run, Some(run), _) => {
                    for (value, word) in to.iter_mut().zip(run.as_chunks::<4>().0) {
                        *value = u32::from_le_bytes(*word);
                    }
                }
                (Half::Same, _, Some(word)) => *to = [u32::from_le_bytes(*word); 16],
                _ => return false,
            }
        }
        // Before the load: the register may be the address.
        let starts = [0, 16].map(|lane| base.0[lane].wrapping_add(arg.offset as u64));
        self.state.regs.w32[at(row)] = out;
        if let Some(watch) = self.watch.as_deref_mut() {
            let (block, warp, pc, halves) = (self.cta.linear, self.state.id, self.pc, extent.halves);
            watch.words(&GlobalWords { block, warp, pc, starts, halves });
        }
        true
    }

    /// The address of each lane in shared memory, if all are inside and aligned, and how those of words lie.
    #[inline(always)]
    pub(super) fn shared_offsets<I: Simd, const WORDS: usize>(
        &self,
        arg: AddressArg,
    ) -> Option<(Row<u32>, [Half; 2])> {
        if self.grid.plain || arg.frame {
            return None;
        }
        let mut out = Row([0u32; LANES]);
        if arg.wide {
            let base = &self.state.regs.w64[at(arg.row)];
            for lane in 0..LANES {
                let address = base.0[lane].wrapping_add(arg.offset as u64);
                out.0[lane] = address as u32 | u32::from(address >> 32 != 0).wrapping_neg();
            }
        } else {
            let base = &self.state.regs.w32[at(arg.row)];
            for lane in 0..LANES {
                out.0[lane] = base.0[lane].wrapping_add(arg.offset as u32);
            }
        }
        self.cta.strip_rank(&mut out.0);
        if self.exec != u32::MAX {
            // Inactive lanes read the first word.
            for (lane, address) in out.0.iter_mut().enumerate() {
                *address &= (self.exec >> lane & 1).wrapping_neg();
            }
        }
        let extent = I::extent(&out.0);
        let (size, bytes) = (self.cta.shared.size(), 4 * WORDS as u32);
        let inside = size >= bytes && extent.highest <= size - bytes;
        let halves = if self.exec == u32::MAX { extent.halves } else { [Half::Mixed; 2] };
        (inside && extent.bits.is_multiple_of(bytes)).then_some((out, halves))
    }

    /// As [`load`](Self::load), from addresses that were computed already.
    pub fn load_at<const WORDS: usize>(
        &mut self,
        space: Space,
        addresses: &Row<u64>,
        bytes: u32,
    ) -> Result<[Row<u32>; WORDS], Flow> {
        let mut out = [Row([0; LANES]); WORDS];
        if space == Space::Generic {
            for (space, addresses, lanes) in self.by_space(addresses) {
                self.read_rows(space, &addresses, lanes, bytes, &mut out)?;
                self.announce(space, AccessKind::Read, &addresses, bytes, lanes);
            }
        } else {
            let lanes = self.exec;
            self.read_rows(space, addresses, lanes, bytes, &mut out)?;
            self.announce(space, AccessKind::Read, addresses, bytes, lanes);
        }
        Ok(out)
    }

    /// Writes `bytes` per lane from 32-bit words.
    pub fn store<const WORDS: usize>(
        &mut self,
        space: Space,
        arg: AddressArg,
        bytes: u32,
        words: &[Row<u32>; WORDS],
    ) -> Result<(), Flow> {
        let addresses = self.addresses(arg);
        self.store_at(space, &addresses, bytes, words)
    }

    /// As [`store`](Self::store), to addresses that were computed already.
    pub fn store_at<const WORDS: usize>(
        &mut self,
        space: Space,
        addresses: &Row<u64>,
        bytes: u32,
        words: &[Row<u32>; WORDS],
    ) -> Result<(), Flow> {
        if space == Space::Generic {
            for (space, addresses, lanes) in self.by_space(addresses) {
                self.write_watched(space, &addresses, lanes, bytes, words)?;
            }
        } else {
            self.write_watched(space, addresses, self.exec, bytes, words)?;
        }
        if self.global.is_full() { Err(self.no_room_for_stores()) } else { Ok(()) }
    }

    pub(super) fn announce(
        &mut self,
        space: Space,
        kind: AccessKind,
        addresses: &Row<u64>,
        bytes: u32,
        lanes: u32,
    ) {
        self.tell(space, kind, addresses, bytes, lanes, Told::NOTHING);
    }

    pub(super) fn tell(
        &mut self,
        space: Space,
        kind: AccessKind,
        addresses: &Row<u64>,
        bytes: u32,
        lanes: u32,
        told: Told<'_>,
    ) {
        if self.state.naps.records {
            self.record_access(space, kind, addresses, bytes, lanes);
        }
        if self.watch.is_some()
            && space == Space::Shared
            && lanes_of(lanes).any(|lane| addresses.0[lane] >> 24 != 0)
        {
            return self.tell_windows(kind, addresses, bytes, lanes, told);
        }
        if let Some(watch) = self.watch.as_deref_mut() {
            watch.access(&Access {
                block: self.cta.linear,
                warp: self.state.id,
                pc: self.pc,
                space,
                kind,
                addresses,
                bytes,
                lanes,
                unchanged: told.unchanged,
                words: told.words,
                deferred: told.deferred,
                used: told.used,
            });
        }
    }

    pub(super) fn read_rows<const WORDS: usize>(
        &mut self,
        space: Space,
        addresses: &Row<u64>,
        lanes: u32,
        bytes: u32,
        out: &mut [Row<u32>; WORDS],
    ) -> Result<(), Flow> {
        if bytes >= 4 && !self.grid.plain {
            match space {
                Space::Shared if self.in_shared(addresses, lanes, bytes) => {
                    for (i, row) in (0u32..).zip(out.iter_mut()) {
                        let word = |lane: usize| self.cta.shared.word((addresses.0[lane] as u32 >> 2) + i);
                        if lanes == u32::MAX {
                            for lane in 0..LANES {
                                row.0[lane] = word(lane);
                            }
                        } else {
                            // Inactive lanes load nothing, also for an instruction that uses what other lanes load.
                            lanes_of(lanes).for_each(|lane| row.0[lane] = word(lane));
                        }
                    }
                    return Ok(());
                }
                Space::Global if self.read_global_rows(addresses, lanes, bytes, out) => return Ok(()),
                Space::Param | Space::Const => {
                    // The address is almost always the same for all lanes: one read.
                    let lane = lanes.trailing_zeros() as usize & 31;
                    let first = addresses.0[lane];
                    if lanes_of(lanes).all(|lane| addresses.0[lane] == first) {
                        let value = self
                            .check(space, first, bytes, false)
                            .and_then(|()| self.read_lane_words::<WORDS>(space, lane, first, bytes))
                            .map_err(|fault| self.fault(lane, fault, AccessKind::Read, bytes))?;
                        for (row, word) in out.iter_mut().zip(value) {
                            *row = Row::splat(word);
                        }
                        return Ok(());
                    }
                }
                Space::Local => {
                    // The same offset in every lane is a row copy.
                    let first = addresses.0[lanes.trailing_zeros() as usize & 31];
                    let same = lanes_of(lanes).all(|lane| addresses.0[lane] == first);
                    if same
                        && aligned(first, bytes)
                        && first
                            .checked_add(u64::from(bytes))
                            .is_some_and(|end| end <= self.state.local.size())
                    {
                        for (i, row) in out.iter_mut().enumerate() {
                            if let Some(source) = self.state.local.row(first as u32 / 4 + i as u32) {
                                *row = *source;
                            }
                        }
                        return Ok(());
                    }
                }
                _ => {}
            }
        }
        for lane in lanes_of(lanes) {
            let address = addresses.0[lane];
            let value = self
                .check(space, address, bytes, false)
                .and_then(|()| self.read_lane_words::<WORDS>(space, lane, address, bytes))
                .map_err(|fault| self.fault(lane, fault, AccessKind::Read, bytes))?;
            for (row, word) in out.iter_mut().zip(value) {
                row.0[lane] = word;
            }
        }
        Ok(())
    }

    /// Whether all of these lanes can be read from shared memory at once.
    #[inline(always)]
    fn in_shared(&self, addresses: &Row<u64>, lanes: u32, bytes: u32) -> bool {
        let limit = u64::from(self.cta.shared.size()).saturating_sub(u64::from(bytes));
        if self.cta.shared.size() < bytes {
            return false;
        }
        let mut bad = false;
        if lanes == u32::MAX {
            let mut high = 0;
            let mut low_bits = 0;
            for lane in 0..LANES {
                high = high.max(addresses.0[lane]);
                low_bits |= addresses.0[lane];
            }
            bad = high > limit || low_bits & u64::from(bytes - 1) != 0;
        } else {
            for lane in lanes_of(lanes) {
                bad |= addresses.0[lane] > limit || addresses.0[lane] & u64::from(bytes - 1) != 0;
            }
        }
        !bad
    }

    /// Reads rows from one allocation the block has not written to: the common case. Returns `false` in other cases.
    pub(super) fn read_global_rows<const WORDS: usize>(
        &self,
        addresses: &Row<u64>,
        lanes: u32,
        bytes: u32,
        out: &mut [Row<u32>; WORDS],
    ) -> bool {
        let first = addresses.0[lanes.trailing_zeros() as usize & 31];
        let Ok(allocation) = self.global.heap().locate(first, u64::from(bytes)) else { return false };
        let base = self.global.heap().allocation(allocation).base;
        let Some(data) = self.global.plain(allocation) else { return false };
        if let (true, [row]) =
            (lanes == u32::MAX && bytes == 4 && first.is_multiple_of(4), out.as_mut_slice())
        {
            // Consecutive words: a coalesced access.
            let mut gaps = 0;
            for lane in 0..LANES {
                gaps |= addresses.0[lane].wrapping_sub(first) ^ (4 * lane as u64);
            }
            let start = first.wrapping_sub(base) as usize;
            if let (0, Some(piece)) = (gaps, data.get(start..).and_then(|rest| rest.get(..4 * LANES))) {
                for (value, word) in row.0.iter_mut().zip(piece.as_chunks::<4>().0) {
                    *value = u32::from_le_bytes(*word);
                }
                return true;
            }
        }
        for lane in lanes_of(lanes) {
            let start = addresses.0[lane].wrapping_sub(base) as usize;
            if !aligned(addresses.0[lane], bytes) {
                return false;
            }
            let Some(piece) = data.get(start..).and_then(|rest| rest.get(..4 * WORDS)) else { return false };
            for (row, word) in out.iter_mut().zip(piece.as_chunks::<4>().0) {
                row.0[lane] = u32::from_le_bytes(*word);
            }
        }
        true
    }

    pub(super) fn write_rows<const WORDS: usize>(
        &mut self,
        space: Space,
        addresses: &Row<u64>,
        lanes: u32,
        bytes: u32,
        words: &[Row<u32>; WORDS],
    ) -> Result<(), Flow> {
        if !self.grid.plain && self.write_together(space, addresses, lanes, bytes, words) {
            return Ok(());
        }
        for lane in lanes_of(lanes) {
            let address = addresses.0[lane];
            let mut value = [0; WORDS];
            for (word, row) in value.iter_mut().zip(words) {
                *word = row.0[lane];
            }
            self.check(space, address, bytes, true)
                .and_then(|()| self.write_lane_words(space, lane, address, bytes, &value))
                .map_err(|fault| self.fault(lane, fault, AccessKind::Write, bytes))?;
        }
        Ok(())
    }

    /// Writes words of all lanes that are in shared memory, or in one allocation. Returns `false` and writes nothing otherwise.
    #[inline(always)]
    fn write_together<const WORDS: usize>(
        &mut self,
        space: Space,
        addresses: &Row<u64>,
        lanes: u32,
        bytes: u32,
        words: &[Row<u32>; WORDS],
    ) -> bool {
        if bytes >= 4 && space == Space::Shared && self.in_shared(addresses, lanes, bytes) {
            for (i, row) in words.iter().enumerate() {
                if lanes == u32::MAX {
                    for lane in 0..LANES {
                        *self.cta.shared.word_mut((addresses.0[lane] as u32 >> 2) + i as u32) = row.0[lane];
                    }
                } else {
                    for lane in lanes_of(lanes) {
                        *self.cta.shared.word_mut((addresses.0[lane] as u32 >> 2) + i as u32) = row.0[lane];
                    }
                }
            }
            return true;
        }
        bytes == 4
            && space == Space::Global
            && matches!(words.as_slice(), [row] if self.global.write_words(addresses, lanes, row))
    }

    /// Whether an access of one lane is aligned and in bounds. Global bounds are checked by the heap itself.
    pub(super) fn check(&self, space: Space, address: u64, bytes: u32, write: bool) -> Result<(), Fault> {
        let fault = |kind| Err(Fault { space, address, kind });
        if !aligned(address, bytes) {
            return fault(FaultKind::Misaligned(bytes));
        }
        let (mut offset, address) = (address, address);
        let size = match space {
            Space::Shared => {
                let (size, inside) = self.shared_bounds(address)?;
                offset = inside;
                size.min(MAX_SHARED as u64)
            }
            Space::Local => self.state.local.size(),
            Space::Const if !write => self.grid.constants.len() as u64,
            Space::Param if !write => self.grid.params.len() as u64,
            Space::Const | Space::Param => return fault(FaultKind::ReadOnly),
            Space::Global | Space::Generic => return Ok(()),
        };
        if offset.checked_add(u64::from(bytes)).is_none_or(|end| end > size) {
            return fault(FaultKind::OutOfBounds { nearest: None, size: Some(size) });
        }
        Ok(())
    }

    /// Reads one lane's value of up to 16 bytes, zero-extended.
    pub fn read_lane(&self, space: Space, lane: usize, address: u64, bytes: u32) -> Result<u128, Fault> {
        let words: [u32; 4] = self.read_lane_words(space, lane, address, bytes)?;
        Ok(words.iter().rev().fold(0, |value, word| value << 32 | u128::from(*word)))
    }

    /// Writes one lane's value of up to 16 bytes.
    pub fn write_lane(
        &mut self,
        space: Space,
        lane: usize,
        address: u64,
        bytes: u32,
        value: u128,
    ) -> Result<(), Fault> {
        let words = [value as u32, (value >> 32) as u32, (value >> 64) as u32, (value >> 96) as u32];
        self.write_lane_words(space, lane, address, bytes, &words)
    }

    pub(super) fn read_lane_words<const WORDS: usize>(
        &self,
        space: Space,
        lane: usize,
        address: u64,
        bytes: u32,
    ) -> Result<[u32; WORDS], Fault> {
        let mut words = [0; WORDS];
        if bytes < 4 {
            let value = if bytes == 1 {
                u32::from(u8::from_le_bytes(self.read_bytes(space, lane, address)?))
            } else {
                u32::from(u16::from_le_bytes(self.read_bytes(space, lane, address)?))
            };
            if let Some(first) = words.first_mut() {
                *first = value;
            }
        } else {
            if bytes == 16
                && let (Some(first), Ok(all)) =
                    (words.first_chunk_mut::<4>(), self.read_bytes::<16>(space, lane, address))
            {
                for (word, bytes) in first.iter_mut().zip(all.as_chunks::<4>().0) {
                    *word = u32::from_le_bytes(*bytes);
                }
                return Ok(words);
            }
            // Word by word, so that a fault names the word.
            let count = (bytes as usize / 4).min(WORDS);
            for (i, word) in words.iter_mut().take(count).enumerate() {
                *word =
                    u32::from_le_bytes(self.read_bytes(space, lane, address.wrapping_add(4 * i as u64))?);
            }
        }
        Ok(words)
    }

    fn write_lane_words<const WORDS: usize>(
        &mut self,
        space: Space,
        lane: usize,
        address: u64,
        bytes: u32,
        words: &[u32; WORDS],
    ) -> Result<(), Fault> {
        let first = words.first().copied().unwrap_or(0);
        match bytes {
            1 => self.write_bytes(space, lane, address, [first as u8]),
            2 => self.write_bytes(space, lane, address, (first as u16).to_le_bytes()),
            _ => {
                if let (16, Some(words)) = (bytes, words.first_chunk::<4>()) {
                    let mut all = [0; 16];
                    for (bytes, word) in all.as_chunks_mut::<4>().0.iter_mut().zip(words) {
                        *bytes = word.to_le_bytes();
                    }
                    if self.write_bytes(space, lane, address, all).is_ok() {
                        return Ok(());
                    }
                }
                // Word by word, so that a fault names the word.
                let count = (bytes as usize / 4).min(WORDS);
                for (i, word) in words.iter().take(count).enumerate() {
                    self.write_bytes(space, lane, address.wrapping_add(4 * i as u64), word.to_le_bytes())?;
                }
                Ok(())
            }
        }
    }

    fn read_bytes<const N: usize>(&self, space: Space, lane: usize, address: u64) -> Result<[u8; N], Fault> {
        let slice = |bytes: &[u8]| {
            let mut out = [0; N];
            if let Some(piece) = bytes.get(address as usize..).and_then(|rest| rest.get(..N)) {
                out.copy_from_slice(piece);
            }
            out
        };
        Ok(match space {
            Space::Global | Space::Generic => return self.global.read(address),
            Space::Shared => {
                let (shared, offset) = self.shared_at(address);
                shared.read(offset)
            }
            Space::Local => self.state.local.read(lane, address as u32),
            Space::Const => slice(self.grid.constants),
            Space::Param => slice(self.grid.params),
        })
    }

    fn write_bytes<const N: usize>(
        &mut self,
        space: Space,
        lane: usize,
        address: u64,
        bytes: [u8; N],
    ) -> Result<(), Fault> {
        match space {
            Space::Global | Space::Generic => return self.global.write(address, bytes),
            Space::Shared => {
                let (shared, offset) = self.shared_at_mut(address);
                shared.write(offset, bytes);
            }
            Space::Local => self.state.local.write(lane, address as u32, bytes),
            Space::Const | Space::Param => return Err(Fault { space, address, kind: FaultKind::ReadOnly }),
        }
        Ok(())
    }

    /// Checks an access of one lane that an instruction makes outside the load and store paths.
    pub fn probe(&self, space: Space, address: u64, bytes: u32, write: bool) -> Result<(), Fault> {
        self.check(space, address, bytes, write)?;
        if matches!(space, Space::Global | Space::Generic) {
            self.global.heap().locate(address, u64::from(bytes))?;
        }
        Ok(())
    }

    /// Reports an access that an asynchronous copy will make.
    pub fn announce_deferred(
        &mut self,
        space: Space,
        kind: AccessKind,
        addresses: &Row<u64>,
        bytes: u32,
        lanes: u32,
    ) {
        self.tell(space, kind, addresses, bytes, lanes, Told { deferred: true, ..Told::NOTHING });
    }

    /// Reports an access that an instruction made lane by lane.
    pub fn announce_lanes(
        &mut self,
        space: Space,
        kind: AccessKind,
        addresses: &Row<u64>,
        bytes: u32,
        lanes: u32,
    ) {
        self.announce(space, kind, addresses, bytes, lanes);
    }
}
