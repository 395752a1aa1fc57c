//! Uninitialized values: in registers, shared memory, local memory, outputs and memory from `malloc`.
//!
//! Tracks for every byte of a register or of memory whether its value derives only from initialized data: written by
//! the kernel, the caller (parameters, constants, inputs) or the device. Every other byte is *poisoned*. Poison may be
//! loaded, moved and computed with. It is reported where it becomes observable: in an address, a branch or guard, an
//! operand of a barrier, a lane mask or lane index, a store to global memory, and in memory that an atomic operation
//! modifies. After a report the value counts as initialized, so that each bug is reported once.
//!
//! A matrix multiplication poisons the elements of D that are computed from poison (`product.rs`), so rows of A and
//! columns of B beyond the edge of a matrix may be uninitialized. The multiplication itself is reported only if a
//! register was never written, or if poison at some k reaches every element of D.
//!
//! Poison is tracked per byte through loads, stores, moves, logic, shifts and conversions; for any other instruction,
//! the whole result is poisoned if any byte of a source is.
//!
//! Can miss: registers of a function that was called before; values that pass through the carry flag; what a shuffle
//! reads from a lane that does not take part; and reads that race, in either order, which are reported only as races.
//! Never reports: bytes that are only loaded (vector loads over padding), inactive lanes, and values that do not affect
//! a result (`x & 0`, the other side of a select).

mod memory;
mod product;
mod registers;

use super::context::Context;
use super::facts::{Cold, Facts, NO_ROW, Rule, Traffic, Use};
use super::mispaired::Mispaired;
use super::output::{Outputs, buffer_of, element_name};
use super::race::SharedRace;
use super::raw::{Raw, RawFindings, Spot};
use super::{Class, Severity};
use memory::{Local, Shared};
use registers::{Bytes, Origin, Poison, Source};
use warpproof_sim::machine::{Access, AccessKind, LANES, at, lanes_of};
use warpproof_sim::memory::Space;
use warpproof_sim::observe::{Arrival, AsyncCopy, Exchange, Holder, Issue, Moved};

/// The poison state of one warp.
struct Warp {
    registers: Poison,
    local: Local,
    piece: Piece,
}

/// Which piece of a fragment the next access of a `wmma.load` or `wmma.store` covers.
#[derive(Clone, Copy, Default)]
struct Piece {
    pc: u32,
    index: u32,
    lanes: u32,
}

impl Piece {
    /// The register that an access covers, and the first of its bytes.
    fn next(&mut self, access: &Access<'_>, registers: usize) -> (usize, u32) {
        let per = (4 / access.bytes.max(1)).max(1);
        if self.pc != access.pc || at(self.index / per) >= registers {
            *self = Piece { pc: access.pc, index: 0, lanes: 0 };
        }
        let index = self.index;
        self.lanes |= access.lanes;
        if self.lanes == u32::MAX {
            *self = Piece { pc: access.pc, index: index + 1, lanes: 0 };
        }
        (at(index / per), index % per * access.bytes)
    }
}

/// The poison state of one block.
pub(crate) struct Init {
    warps: Vec<Warp>,
    shared: Shared,
    mispaired: Mispaired,
}

/// The instruction and the lanes of a use.
#[derive(Clone, Copy)]
struct UsePlace {
    block: u32,
    warp: u32,
    pc: u32,
    lanes: u32,
}

impl Init {
    pub(crate) fn new(context: &Context, facts: &Facts, races: bool) -> Init {
        let warps = context.block_threads().div_ceil(32);
        let warp =
            || Warp { registers: Poison::new(facts), local: Local::default(), piece: Piece::default() };
        Init {
            warps: (0..warps).map(|_| warp()).collect(),
            shared: Shared::new(context.shared, races, !context.plain),
            mispaired: Mispaired::default(),
        }
    }

    /// An instruction is about to be executed, or skipped because its guard is false in all lanes.
    #[inline]
    pub(crate) fn issue(
        &mut self,
        context: &Context,
        facts: &Facts,
        raw_findings: &mut RawFindings,
        issue: &Issue<'_>,
    ) {
        let Some(warp) = self.warps.get_mut(at(issue.warp)) else { return };
        if warp.registers.is_clean() && !context.plain {
            return;
        }
        let (reads, writes, guard) = facts.rows(issue.pc);
        if guard != NO_ROW && warp.registers.lanes(guard) & issue.here != 0 {
            guarded(context, facts, raw_findings, issue, guard, &mut warp.registers);
        }
        if warp.registers.any(reads) & issue.exec == 0 && !context.plain {
            for row in writes {
                warp.registers.clear(*row, issue.exec);
            }
            return;
        }
        let Some(cold) = facts.cold(issue.pc) else { return };
        for (row, used, lanes) in &cold.uses {
            let hit = warp.registers.lanes(*row) & issue.exec & lanes;
            if hit != 0 {
                let here = Origin { pc: issue.pc, source: Source::Register };
                let multiplied = *used == Use::Matrix && matches!(cold.rule, Rule::Multiply(_));
                let mut reported = 0;
                warp.registers.by_origin(*row, hit, issue.pc, |lanes, origin| {
                    // Reported per element, where the product is used.
                    if multiplied && origin != here {
                        return;
                    }
                    reported |= lanes;
                    let place = UsePlace { block: issue.block, warp: issue.warp, pc: issue.pc, lanes };
                    report(context, raw_findings, *used, place, origin, None);
                });
                warp.registers.clear(*row, reported);
            }
        }
        if let Rule::Multiply(shape) = cold.rule
            && issue.exec == u32::MAX
        {
            if let Some((origin, lanes)) =
                warp.registers.multiply(facts, issue.pc, cold, shape, issue.registers)
            {
                let place = UsePlace { block: issue.block, warp: issue.warp, pc: issue.pc, lanes };
                report(context, raw_findings, Use::Matrix, place, origin, None);
                for row in writes {
                    warp.registers.clear(*row, u32::MAX);
                }
            }
            return;
        }
        warp.registers.spread(facts, issue.pc, issue.exec, issue.registers, cold);
    }

    /// Whether no register of a warp is poisoned.
    #[inline]
    pub(crate) fn is_calm(&self, warp: u32) -> bool {
        self.warps.get(at(warp)).is_some_and(|warp| warp.registers.is_clean())
    }

    /// Whether these bytes of shared memory are known to be written, with no poisoned value.
    #[inline]
    pub(crate) fn is_clean(&self, bytes: std::ops::Range<u32>) -> bool {
        self.shared.all_written() || self.shared.are_written(bytes)
    }

    /// As [`is_clean`](Self::is_clean), and finds out what is not known yet.
    pub(crate) fn turns_out_clean(&mut self, race: &SharedRace, bytes: std::ops::Range<u32>) -> bool {
        self.shared.all_written() || self.shared.turn_out_written(Some(race), bytes)
    }

    /// An access was made. Must be called before the race check and the output check, which record what is written.
    pub(crate) fn access(
        &mut self,
        context: &Context,
        facts: &Facts,
        raw_findings: &mut RawFindings,
        access: &Access<'_>,
        race: Option<&SharedRace>,
        outputs: Option<&mut Outputs>,
    ) {
        if access.deferred || matches!(access.space, Space::Const | Space::Param | Space::Generic) {
            return;
        }
        let Some(cold) = facts.cold(access.pc) else { return };
        match access.kind {
            AccessKind::Read => self.load(facts, cold, access, race, outputs),
            AccessKind::Write => {
                if access.space == Space::Shared {
                    self.mispaired.write(access);
                }
                self.store(context, facts, raw_findings, cold, access);
            }
            AccessKind::Atomic => {
                if cold.traffic == Traffic::Any {
                    self.atomic(context, raw_findings, access, race, outputs);
                }
                self.store(context, facts, raw_findings, cold, access);
            }
        }
    }

    /// A warp accessed the shared memory of another block, whose history is `race`. Only bytes that no thread has written are
    /// poisoned there.
    pub(crate) fn remote(&mut self, facts: &Facts, access: &Access<'_>, race: Option<&SharedRace>) {
        let Some(cold) = facts.cold(access.pc).filter(|_| access.kind == AccessKind::Read) else { return };
        let other = self.shared.of_another_block();
        let own = std::mem::replace(&mut self.shared, other);
        self.load(facts, cold, access, race, None);
        self.shared = own;
    }

    /// The poisoned bytes that each lane reads, and the lanes that have any; `None` if there are none.
    fn poisoned(
        &mut self,
        access: &Access<'_>,
        race: Option<&SharedRace>,
        outputs: Option<&mut Outputs>,
    ) -> Option<([u32; LANES], u32)> {
        let mut bytes = [0; LANES];
        let mut found = 0;
        match access.space {
            Space::Shared if self.shared.all_written() => return None,
            Space::Shared => {
                for lane in lanes_of(access.lanes) {
                    let address = u32::try_from(access.addresses.0[lane]).unwrap_or(u32::MAX);
                    bytes[lane] = self.shared.poisoned(race, address, access.bytes);
                    found |= u32::from(bytes[lane] != 0) << lane;
                }
            }
            Space::Local => {
                let warp = self.warps.get(at(access.warp))?;
                for lane in lanes_of(access.lanes) {
                    let address = u32::try_from(access.addresses.0[lane]).unwrap_or(u32::MAX);
                    bytes[lane] = warp.local.poisoned(lane, address, access.bytes);
                    found |= u32::from(bytes[lane] != 0) << lane;
                }
            }
            Space::Global => {
                let (mut lowest, mut highest) = (u64::MAX, 0);
                for lane in lanes_of(access.lanes) {
                    lowest = lowest.min(access.addresses.0[lane]);
                    highest = highest.max(access.addresses.0[lane]);
                }
                outputs?.with(|stores| {
                    if stores.concerns(lowest, highest.saturating_add(u64::from(access.bytes))) {
                        for lane in lanes_of(access.lanes) {
                            bytes[lane] = stores.missing(access.addresses.0[lane], access.bytes);
                            found |= u32::from(bytes[lane] != 0) << lane;
                        }
                    }
                });
            }
            _ => {}
        }
        (found != 0).then_some((bytes, found))
    }

    fn load(
        &mut self,
        facts: &Facts,
        cold: &Cold,
        access: &Access<'_>,
        race: Option<&SharedRace>,
        outputs: Option<&mut Outputs>,
    ) {
        if cold.traffic == Traffic::None {
            return;
        }
        let piece = (cold.traffic == Traffic::Fragment)
            .then(|| self.warps.get_mut(at(access.warp)).map(|warp| warp.piece.next(access, cold.rows.len())))
            .flatten();
        let Some((loaded, found)) = self.poisoned(access, race, outputs) else { return };
        if access.space == Space::Shared {
            for lane in lanes_of(found) {
                let first = u32::try_from(access.addresses.0[lane]).unwrap_or(u32::MAX);
                let byte = first.saturating_add(loaded[lane].trailing_zeros());
                if self.shared.stored(byte).is_none() {
                    self.mispaired.read(access.warp, lane, access.pc, byte);
                }
            }
        }
        let Init { warps, shared, .. } = self;
        let Some(Warp { registers, local, .. }) = warps.get_mut(at(access.warp)) else { return };
        // The origin of the first poisoned byte among those that a lane reads.
        let origin = |lane: usize, among: u32| {
            let asked = if loaded[lane] & among == 0 { loaded[lane] } else { loaded[lane] & among };
            origin_in_memory(shared, local, access, lane, asked.trailing_zeros())
        };
        match cold.traffic {
            Traffic::None => {}
            Traffic::Elements { bytes: size, signed } => {
                for (i, row) in (0u32..).zip(&cold.rows).filter(|(_, row)| **row != NO_ROW) {
                    let mut bytes = [0u16; LANES];
                    for lane in lanes_of(found) {
                        let element = loaded[lane].checked_shr(i * size).unwrap_or(0);
                        let element = u16::try_from(element & ((1 << size.min(16)) - 1)).unwrap_or(0);
                        let extended = signed && size < 16 && element >> (size - 1) & 1 != 0;
                        bytes[lane] = if extended { element | u16::MAX << size } else { element };
                    }
                    registers.set_from(facts, *row, found, &bytes, |lane, piece| {
                        let width = 1u32.checked_shl(size.min(4)).unwrap_or(0).wrapping_sub(1);
                        origin(lane, width.checked_shl(i * size + 4 * piece).unwrap_or(0))
                    });
                }
            }
            Traffic::Matrix { trans } => {
                for (i, row) in cold.rows.iter().enumerate() {
                    let half = |r: usize, c: usize| loaded[(8 * i + r) & 31] >> (2 * c) & 3;
                    let bytes: Bytes = std::array::from_fn(|lane| {
                        let (g, t) = (lane / 4, lane % 4);
                        let (first, second) = if trans {
                            (half(2 * t, g), half(2 * t + 1, g))
                        } else {
                            (half(g, 2 * t), half(g, 2 * t + 1))
                        };
                        u16::try_from(first | second << 2).unwrap_or(0)
                    });
                    registers.set_from(facts, *row, u32::MAX, &bytes, |lane, _| {
                        let (g, t) = (lane / 4, lane % 4);
                        let later = usize::from(bytes[lane].trailing_zeros() >= 2);
                        let (r, c) = if trans { (2 * t + later, g) } else { (g, 2 * t + later) };
                        origin((8 * i + r) & 31, 3 << (2 * c))
                    });
                }
            }
            Traffic::Bytes(matrix) => {
                for (i, row) in cold.rows.iter().enumerate() {
                    let parts = |lane: usize, byte: usize| {
                        let (giver, element) = matrix.place(i, lane, byte);
                        (giver & 31, matrix.covered(element))
                    };
                    let bytes: Bytes = std::array::from_fn(|lane| {
                        (0..4).fold(0, |bytes, byte| {
                            let (giver, covered) = parts(lane, byte);
                            bytes | u16::from(loaded[giver] & covered != 0) << byte
                        })
                    });
                    registers.set_from(facts, *row, u32::MAX, &bytes, |lane, _| {
                        let (giver, covered) = parts(lane, at(bytes[lane].trailing_zeros()) & 3);
                        origin(giver, covered)
                    });
                }
            }
            Traffic::Fragment => {
                let Some((register, first)) = piece else { return };
                let Some(row) = cold.rows.get(register).copied() else { return };
                let bytes: Bytes = std::array::from_fn(|lane| {
                    let new = u16::try_from(loaded[lane] << first & 0xffff).unwrap_or(0);
                    registers.bytes(facts, row, lane) | new
                });
                registers.set_from(facts, row, found, &bytes, |lane, _| origin(lane, u32::MAX));
            }
            Traffic::Any => {
                for row in &cold.rows {
                    registers
                        .set_from(facts, *row, found, &[u16::MAX; LANES], |lane, _| origin(lane, u32::MAX));
                }
            }
        }
    }

    /// The poisoned bytes that each lane stores.
    fn outgoing(&mut self, facts: &Facts, cold: &Cold, access: &Access<'_>) -> Option<[u32; LANES]> {
        let warp = self.warps.get_mut(at(access.warp))?;
        let piece = (cold.traffic == Traffic::Fragment).then(|| warp.piece.next(access, cold.rows.len()));
        let crosses = matches!(cold.traffic, Traffic::Matrix { .. } | Traffic::Bytes(_));
        let hit = warp.registers.any(&cold.rows) & if crosses { u32::MAX } else { access.lanes };
        if hit == 0 {
            return None;
        }
        let mut bytes = [0u32; LANES];
        match cold.traffic {
            Traffic::None => return None,
            Traffic::Elements { bytes: size, .. } => {
                for (i, row) in (0u32..).zip(&cold.rows) {
                    for lane in lanes_of(hit) {
                        let element =
                            u32::from(warp.registers.bytes(facts, *row, lane)) & ((1 << size.min(16)) - 1);
                        bytes[lane] |= element.checked_shl(i * size).unwrap_or(0);
                    }
                }
            }
            Traffic::Matrix { trans } => {
                for (i, row) in cold.rows.iter().enumerate() {
                    for lane in lanes_of(hit) {
                        let (g, t) = (lane / 4, lane % 4);
                        let word = u32::from(warp.registers.bytes(facts, *row, lane));
                        if trans {
                            bytes[(8 * i + 2 * t) & 31] |= (word & 3) << (2 * g);
                            bytes[(8 * i + 2 * t + 1) & 31] |= (word >> 2 & 3) << (2 * g);
                        } else {
                            bytes[(8 * i + g) & 31] |= word << (4 * t);
                        }
                    }
                }
            }
            Traffic::Bytes(matrix) => {
                for (i, row) in cold.rows.iter().enumerate() {
                    for lane in lanes_of(hit) {
                        let word = warp.registers.bytes(facts, *row, lane);
                        for byte in (0..4).filter(|byte| word >> byte & 1 != 0) {
                            let (giver, element) = matrix.place(i, lane, byte);
                            bytes[giver & 31] |= matrix.covered(element);
                        }
                    }
                }
            }
            Traffic::Fragment => {
                let (register, first) = piece?;
                let row = cold.rows.get(register).copied().unwrap_or(NO_ROW);
                let part = (1u32 << access.bytes.min(16)) - 1;
                for lane in lanes_of(hit) {
                    bytes[lane] = u32::from(warp.registers.bytes(facts, row, lane)) >> first & part;
                }
            }
            Traffic::Any => lanes_of(hit).for_each(|lane| bytes[lane] = u32::MAX),
        }
        let found = lanes_of(access.lanes).any(|lane| bytes[lane] != 0);
        found.then_some(bytes)
    }

    fn store(
        &mut self,
        context: &Context,
        facts: &Facts,
        raw_findings: &mut RawFindings,
        cold: &Cold,
        access: &Access<'_>,
    ) {
        let outgoing = self.outgoing(facts, cold, access);
        if outgoing.is_none() && access.space == Space::Shared && self.shared.ignores_writes() {
            return;
        }
        let Some(warp) = self.warps.get_mut(at(access.warp)) else { return };
        let bytes = outgoing.unwrap_or([0; LANES]);
        let lanes =
            lanes_of(access.lanes).filter(|lane| bytes[*lane] != 0).fold(0u32, |m, lane| m | 1 << lane);
        let crosses = matches!(cold.traffic, Traffic::Matrix { .. } | Traffic::Bytes(_));
        let all = if crosses { u32::MAX } else { access.lanes };
        // The origin of a byte that a lane stores.
        let Warp { registers, local, .. } = warp;
        let origin = |registers: &Poison, lane: usize, byte: u32| match cold.traffic {
            Traffic::Elements { bytes: size, .. } => {
                let row = cold.rows.get(at(byte / size.max(1))).copied().unwrap_or(NO_ROW);
                let among = 1u16.checked_shl(byte % size.max(1)).unwrap_or(0);
                registers.origin_of(row, lane, among, access.pc)
            }
            Traffic::Matrix { trans } => {
                let (i, r, c) = (lane / 8, lane % 8, at(byte / 2));
                let from = if trans { 4 * c + r / 2 } else { 4 * r + c / 2 };
                let row = cold.rows.get(i).copied().unwrap_or(NO_ROW);
                registers.origin_of(row, from & 31, u16::MAX, access.pc)
            }
            // Any poisoned register of the warp: the report names the store and one origin.
            Traffic::Bytes(_) => registers.first_origin(&cold.rows, u32::MAX, access.pc),
            _ => registers.lane_origin(&cold.rows, lane, access.pc),
        };
        match access.space {
            Space::Global if lanes != 0 => {
                let mut rest = lanes;
                while rest != 0 {
                    let first = |lane: usize| origin(registers, lane, bytes[lane].trailing_zeros());
                    let lane = at(rest.trailing_zeros().min(31));
                    let group = lanes_of(rest).filter(|other| first(*other).alike(first(lane)));
                    let group = group.fold(0u32, |group, lane| group | 1 << lane);
                    let place =
                        UsePlace { block: access.block, warp: access.warp, pc: access.pc, lanes: group };
                    report(
                        context,
                        raw_findings,
                        Use::Store,
                        place,
                        first(lane),
                        Some(access.addresses.0[lane]),
                    );
                    rest &= !group;
                }
                cold.rows.iter().for_each(|row| registers.clear(*row, all));
            }
            Space::Shared => {
                for lane in lanes_of(access.lanes) {
                    let address = u32::try_from(access.addresses.0[lane]).unwrap_or(u32::MAX);
                    if bytes[lane] == 0 {
                        self.shared.write(address, access.bytes);
                    } else {
                        self.shared.write_poisoned(address, access.bytes, bytes[lane], |byte| {
                            Some(origin(registers, lane, byte))
                        });
                    }
                }
            }
            Space::Local => {
                for lane in lanes_of(access.lanes) {
                    let address = u32::try_from(access.addresses.0[lane]).unwrap_or(u32::MAX);
                    local.write(lane, address, access.bytes, bytes[lane], |byte| {
                        Some(origin(registers, lane, byte))
                    });
                }
            }
            _ => {}
        }
    }

    /// An atomic operation reads the memory that it modifies.
    fn atomic(
        &mut self,
        context: &Context,
        raw_findings: &mut RawFindings,
        access: &Access<'_>,
        race: Option<&SharedRace>,
        outputs: Option<&mut Outputs>,
    ) {
        if let Some((bytes, lanes)) = self.poisoned(access, race, outputs)
            && let Some(warp) = self.warps.get(at(access.warp))
        {
            let lane = at(lanes.trailing_zeros().min(31));
            let byte = bytes[lane].trailing_zeros();
            let origin = origin_in_memory(&self.shared, &warp.local, access, lane, byte);
            let place = UsePlace { block: access.block, warp: access.warp, pc: access.pc, lanes };
            report(context, raw_findings, Use::Atomic, place, origin, None);
        }
    }

    /// Threads arrive at a barrier.
    pub(crate) fn arrive(&mut self, arrival: &Arrival) {
        self.mispaired.arrive(arrival);
    }

    /// All threads of a barrier have arrived.
    pub(crate) fn complete(&mut self, id: u32) {
        self.mispaired.complete(id);
    }

    /// The block has ended.
    pub(crate) fn finish(self, context: &Context, block: u32, raw_findings: &mut RawFindings) {
        self.mispaired.finish(context, block, raw_findings);
    }

    /// Lanes exchange values.
    pub(crate) fn exchange(&mut self, facts: &Facts, exchange: &Exchange<'_>) {
        let Some(warp) = self.warps.get_mut(at(exchange.warp)) else { return };
        let Some(cold) = facts.cold(exchange.pc) else { return };
        match (cold.rule, exchange.sources) {
            (Rule::Lanes, Some(sources)) => {
                warp.registers.shuffled(facts, exchange.pc, exchange.lanes, sources, cold);
            }
            (Rule::Vote, None) => warp.registers.voted(facts, exchange.pc, exchange.lanes),
            _ => {}
        }
    }

    /// A copy is issued: its destination in shared memory takes over the poison of its source.
    pub(crate) fn copy_issued(&mut self, copy: &AsyncCopy, outputs: Option<&mut Outputs>) {
        self.mispaired.write_one(copy.warp, at(copy.lane), copy.pc, copy.to, copy.size);
        let missing = outputs.and_then(|outputs| {
            outputs.with(|stores| if copy.read == 0 { 0 } else { stores.missing(copy.from, copy.read) })
        });
        let missing = missing.unwrap_or(0);
        if missing == 0 {
            return self.shared.write(copy.to, copy.size);
        }
        self.shared.write_poisoned(copy.to, copy.size, missing, |byte| {
            let source = Source::Global(copy.from.saturating_add(u64::from(byte)));
            Some(Origin { pc: copy.pc, source })
        });
    }

    /// A call passes an argument or a result.
    pub(crate) fn moved(&mut self, facts: &Facts, moved: &Moved) {
        let Some(warp) = self.warps.get_mut(at(moved.warp)) else { return };
        for start in (0..moved.bytes).step_by(16) {
            let size = (moved.bytes - start).min(16);
            let mut bytes: Bytes = [0; LANES];
            let mut origins = [Origin { pc: moved.pc, source: Source::Register }; LANES];
            match moved.from {
                Holder::Device => {}
                Holder::Local(address) => {
                    for lane in lanes_of(moved.lanes) {
                        let missing = warp.local.poisoned(lane, address.saturating_add(start), size);
                        let first = address.saturating_add(start).saturating_add(missing.trailing_zeros());
                        let here = Origin { pc: moved.pc, source: Source::Local(first) };
                        origins[lane] = warp.local.stored(lane, first).unwrap_or(here);
                        bytes[lane] = u16::try_from(missing & 0xffff).unwrap_or(0);
                    }
                }
                Holder::Register(width, row) => {
                    let row = facts.numbering.number(width, row);
                    for lane in lanes_of(moved.lanes) {
                        origins[lane] = warp.registers.origin_of(row, lane, u16::MAX, moved.pc);
                        bytes[lane] = warp.registers.bytes(facts, row, lane);
                    }
                }
            }
            match moved.to {
                Holder::Device => {}
                Holder::Local(address) => {
                    for lane in lanes_of(moved.lanes) {
                        let poisoned = bytes[lane].into();
                        let origin = |_| Some(origins[lane]);
                        warp.local.write(lane, address.saturating_add(start), size, poisoned, origin);
                    }
                }
                Holder::Register(width, row) => {
                    let row = facts.numbering.number(width, row);
                    warp.registers.set_from(facts, row, moved.lanes, &bytes, |lane, _| origins[lane]);
                }
            }
        }
    }

    /// Lanes got a new frame of local memory.
    pub(crate) fn framed(&mut self, warp: u32, lanes: u32, frame: std::ops::Range<u32>) {
        if let Some(warp) = self.warps.get_mut(at(warp)) {
            warp.local.forget(lanes, frame);
        }
    }
}

/// The origin of a poisoned byte that a lane reads: the memory itself, or the origin of the value that was stored
/// there.
fn origin_in_memory(shared: &Shared, local: &Local, access: &Access<'_>, lane: usize, byte: u32) -> Origin {
    let address = access.addresses.0[lane].saturating_add(u64::from(byte));
    let near = u32::try_from(address).unwrap_or(u32::MAX);
    let (source, stored) = match access.space {
        Space::Shared => (Source::Shared(near), shared.stored(near)),
        Space::Local => (Source::Local(near), local.stored(lane, near)),
        _ => (Source::Global(address), None),
    };
    stored.unwrap_or(Origin { pc: access.pc, source })
}

#[cold]
fn guarded(
    context: &Context,
    facts: &Facts,
    raw_findings: &mut RawFindings,
    issue: &Issue<'_>,
    guard: u32,
    registers: &mut Poison,
) {
    let lanes = registers.lanes(guard) & issue.here;
    let branch = facts.cold(issue.pc).is_some_and(|cold| cold.branch);
    registers.by_origin(guard, lanes, issue.pc, |lanes, origin| {
        let place = UsePlace { block: issue.block, warp: issue.warp, pc: issue.pc, lanes };
        report(context, raw_findings, if branch { Use::Branch } else { Use::Condition }, place, origin, None);
    });
    registers.clear(guard, lanes);
}

/// Whether a finding is about a value from shared memory that is only stored or multiplied: if the launch stopped at a
/// barrier, the thread that would have written the value may not have reached its store.
pub(crate) fn awaited(&(class, _, _, which): &super::raw::Key) -> bool {
    let decides = !matches!(which / 4, 4 | 7);
    class == Class::Uninitialized && which % 4 == 1 && !decides
}

fn report(
    context: &Context,
    raw_findings: &mut RawFindings,
    used: Use,
    place: UsePlace,
    origin: Origin,
    address: Option<u64>,
) {
    let space = match origin.source {
        Source::Register => 0,
        Source::Shared(_) => 1,
        Source::Local(_) => 2,
        Source::Global(_) => 3,
    };
    let kind = match used {
        Use::Address => 0,
        Use::Branch => 1,
        Use::Condition => 2,
        Use::Target => 3,
        Use::Matrix => 4,
        Use::Barrier => 5,
        Use::Lanes => 6,
        Use::Store => 7,
        Use::Atomic => 8,
    };
    let key = (Class::Uninitialized, place.pc, origin.pc, 4 * kind + space);
    raw_findings.add(key, Severity::Error, || {
        let thread = 32 * place.warp + place.lanes.trailing_zeros().min(31);
        let who = context.thread(place.block, thread);
        let (sentence, label) = match used {
            Use::Address => (format!("{who} computes an address from an uninitialized value"), "the address"),
            Use::Branch => (format!("a branch of {who} depends on an uninitialized value"), "the branch"),
            Use::Condition => (
                format!("what {who} executes depends on an uninitialized value"),
                "the instruction that depends on it",
            ),
            Use::Target => (format!("{who} jumps to an uninitialized address"), "the jump"),
            Use::Matrix => (
                format!("an operand of a matrix multiplication is uninitialized in {who}"),
                "the multiplication",
            ),
            Use::Barrier => (format!("an operand of a barrier is uninitialized in {who}"), "the barrier"),
            Use::Lanes => {
                (format!("{who} selects lanes of its warp by an uninitialized value"), "the exchange")
            }
            Use::Store => {
                let target = address.and_then(|address| buffer_of(context, address));
                let target = target
                    .map_or("global memory".to_owned(), |(buffer, element)| element_name(buffer, element));
                (format!("{who} stores an uninitialized value to {target}"), "the store")
            }
            Use::Atomic => (format!("an atomic of {who} modifies uninitialized memory"), "the atomic"),
        };
        let thread = Some((place.block, thread));
        let mut spots = vec![Spot { label: label.to_owned(), pc: place.pc, thread }];
        if origin.pc != place.pc {
            let label = match origin.source {
                Source::Register => "the register is read",
                _ => "the value is read",
            };
            spots.push(Spot { label: label.to_owned(), pc: origin.pc, thread });
        }
        let (note, help) = whence(context, origin.source);
        Raw {
            class: Class::Uninitialized,
            severity: Severity::Error,
            sentence,
            spots,
            notes: vec![note],
            help: Some(help.to_owned()),
            count: 1,
        }
    });
}

/// A note on where a value comes from, and the help to fix it.
fn whence(context: &Context, source: Source) -> (String, &'static str) {
    match source {
        Source::Register => (
            "the value comes from a register that no earlier instruction has written".to_owned(),
            "initialize the variable on every path",
        ),
        Source::Shared(address) => {
            let variables = &context.program.shared_variables;
            let holds = |(_, offset, size): &&(String, u32, u32)| address.wrapping_sub(*offset) < *size;
            let note = match variables.iter().find(holds) {
                Some((name, offset, _)) => {
                    format!("the value comes from shared variable `{name}`, byte offset {}", address - offset)
                }
                None => match context.program.dynamic_shared.filter(|start| address >= *start) {
                    Some(start) => {
                        format!("the value comes from dynamic shared memory, byte offset {}", address - start)
                    }
                    None => format!("the value comes from shared address {address:#x}"),
                },
            };
            (note, "initialize every element that is read: clear the tail of the array, or do not read it")
        }
        Source::Local(address) => (
            format!("the value comes from byte {address} of the thread's local memory"),
            "initialize every element of the array before it is read",
        ),
        Source::Global(address) => {
            let note = match buffer_of(context, address) {
                Some((buffer, element)) => format!("the value comes from {}", element_name(buffer, element)),
                None => format!("the value comes from memory that the kernel allocated, at {address:#x}"),
            };
            (note, "write the memory before it is read, or declare the buffer with its initial contents")
        }
    }
}
