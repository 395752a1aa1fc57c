//! Values that nobody has written: in registers, shared memory, local memory, outputs and memory from `malloc`.
//!
//! Decides for every byte of a register or of memory whether it goes back to something that was written: by the kernel,
//! by the caller (parameters, constants, inputs) or by the device. What does not is *poisoned*. Poison may be loaded,
//! moved and computed with, and is reported where it matters: in an address, a branch or guard, an operand of a matrix
//! multiplication or of a barrier, a choice of lanes, a store to global memory, and in memory that an atomic operation
//! changes. There it counts as written from then on, so that one mistake is told once.
//!
//! Bits are kept apart by bytes, through loads, stores, moves, logic, shifts and conversions; of any other instruction
//! a result is poisoned as a whole if one of its sources is in part.
//!
//! Can miss: registers of a function that was called before; what goes through the carry flag; what a shuffle gets from
//! a lane that does not take part; and reads that race, in whichever order they come, which are told as races alone.
//! Never reports: bytes that are only loaded, as vector loads over padding do, lanes that are off, and values that do
//! not decide a result (`x & 0`, the other side of a select).

mod memory;
mod registers;

use super::context::Context;
use super::facts::{Cold, Facts, NO_ROW, Rule, Traffic, Use};
use super::finding::{Class, Severity};
use super::ledger::{Ledger, Raw, Spot};
use super::output::{Outputs, buffer_of, element_name};
use super::race::SharedRace;
use crate::machine::{Access, AccessKind, LANES, at, lanes_of};
use crate::memory::Space;
use crate::observe::{Copy, Exchange, Holder, Issue, Moved};
use memory::{Local, Shared};
use registers::{Bytes, Origin, Poison, Source};

/// What is known of one warp.
struct Warp {
    registers: Poison,
    local: Local,
}

/// The values of one block.
pub(crate) struct Init {
    warps: Vec<Warp>,
    shared: Shared,
}

/// Where a use is and whose.
#[derive(Clone, Copy)]
struct Place {
    block: u32,
    warp: u32,
    pc: u32,
    lanes: u32,
}

impl Init {
    pub(crate) fn new(context: &Context, facts: &Facts, races: bool) -> Init {
        let warps = context.block_threads().div_ceil(32);
        let warp = || Warp { registers: Poison::new(facts), local: Local::default() };
        Init { warps: (0..warps).map(|_| warp()).collect(), shared: Shared::new(context.shared, races) }
    }

    /// An instruction is about to be executed, or passed over by all lanes.
    #[inline]
    pub(crate) fn issue(&mut self, context: &Context, facts: &Facts, ledger: &mut Ledger, issue: &Issue<'_>) {
        let Some(warp) = self.warps.get_mut(at(issue.warp)) else { return };
        let (reads, writes, guard) = facts.rows(issue.pc);
        if guard != NO_ROW && warp.registers.lanes(guard) & issue.here != 0 {
            guarded(context, facts, ledger, issue, guard, &mut warp.registers);
        }
        if warp.registers.any(reads) & issue.exec == 0 {
            for row in writes {
                warp.registers.clear(*row, issue.exec);
            }
            return;
        }
        let Some(cold) = facts.cold(issue.pc) else { return };
        for (row, used, lanes) in &cold.uses {
            let hit = warp.registers.lanes(*row) & issue.exec & lanes;
            if hit != 0 {
                let origin = warp.registers.origin(*row, issue.pc);
                let place = Place { block: issue.block, warp: issue.warp, pc: issue.pc, lanes: hit };
                report(context, ledger, *used, place, origin, None);
                warp.registers.clear(*row, hit);
            }
        }
        warp.registers.spread(facts, issue.pc, issue.exec, issue.registers, cold);
    }

    /// An access was made. Must be told before the race check and the output check are, which note what is written.
    pub(crate) fn access(
        &mut self,
        context: &Context,
        facts: &Facts,
        ledger: &mut Ledger,
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
            AccessKind::Write => self.store(context, facts, ledger, cold, access),
            AccessKind::Atomic => {
                if cold.traffic == Traffic::Any {
                    self.atomic(context, ledger, access, race, outputs);
                }
                self.store(context, facts, ledger, cold, access);
            }
        }
    }

    /// The poisoned bytes of what each lane reads, and where the first of them is; `None` if there are none.
    fn poisoned(
        &mut self,
        access: &Access<'_>,
        race: Option<&SharedRace>,
        outputs: Option<&mut Outputs>,
    ) -> Option<([u32; LANES], Origin, u32)> {
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
        let lane = lanes_of(found).next()?;
        let address = access.addresses.0[lane].saturating_add(u64::from(bytes[lane].trailing_zeros()));
        let near = u32::try_from(address).unwrap_or(u32::MAX);
        let source = match access.space {
            Space::Shared => Source::Shared(near),
            Space::Local => Source::Local(near),
            _ => Source::Global(address),
        };
        let here = Origin { pc: access.pc, source };
        let stored = if access.space == Space::Shared { self.shared.stored(near) } else { None };
        Some((bytes, stored.unwrap_or(here), found))
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
        let Some((loaded, origin, found)) = self.poisoned(access, race, outputs) else { return };
        let Some(warp) = self.warps.get_mut(at(access.warp)) else { return };
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
                    warp.registers.set(facts, *row, found, &bytes, origin);
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
                    warp.registers.set(facts, *row, u32::MAX, &bytes, origin);
                }
            }
            Traffic::Any => {
                for row in &cold.rows {
                    warp.registers.set(facts, *row, found, &[u16::MAX; LANES], origin);
                }
            }
        }
    }

    /// The poisoned bytes of what each lane stores.
    fn outgoing(&self, facts: &Facts, cold: &Cold, access: &Access<'_>) -> Option<[u32; LANES]> {
        let warp = self.warps.get(at(access.warp))?;
        let crosses = matches!(cold.traffic, Traffic::Matrix { .. });
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
            Traffic::Any => lanes_of(hit).for_each(|lane| bytes[lane] = u32::MAX),
        }
        let found = lanes_of(access.lanes).any(|lane| bytes[lane] != 0);
        found.then_some(bytes)
    }

    fn store(
        &mut self,
        context: &Context,
        facts: &Facts,
        ledger: &mut Ledger,
        cold: &Cold,
        access: &Access<'_>,
    ) {
        let outgoing = self.outgoing(facts, cold, access);
        let Some(warp) = self.warps.get_mut(at(access.warp)) else { return };
        let bytes = outgoing.unwrap_or([0; LANES]);
        let lanes =
            lanes_of(access.lanes).filter(|lane| bytes[*lane] != 0).fold(0u32, |m, lane| m | 1 << lane);
        let all = if matches!(cold.traffic, Traffic::Matrix { .. }) { u32::MAX } else { access.lanes };
        let origin = warp.registers.first_origin(&cold.rows, all, access.pc);
        match access.space {
            Space::Global if lanes != 0 => {
                let lane = at(lanes.trailing_zeros().min(31));
                let place = Place { block: access.block, warp: access.warp, pc: access.pc, lanes };
                report(context, ledger, Use::Store, place, origin, Some(access.addresses.0[lane]));
                cold.rows.iter().for_each(|row| warp.registers.clear(*row, all));
            }
            Space::Shared => {
                for lane in lanes_of(access.lanes) {
                    let address = u32::try_from(access.addresses.0[lane]).unwrap_or(u32::MAX);
                    if bytes[lane] == 0 {
                        self.shared.write(address, access.bytes);
                    } else {
                        self.shared.write_poisoned(address, access.bytes, bytes[lane], Some(origin));
                    }
                }
            }
            Space::Local => {
                for lane in lanes_of(access.lanes) {
                    let address = u32::try_from(access.addresses.0[lane]).unwrap_or(u32::MAX);
                    warp.local.write(lane, address, access.bytes, bytes[lane]);
                }
            }
            _ => {}
        }
    }

    /// An atomic operation reads what it changes.
    fn atomic(
        &mut self,
        context: &Context,
        ledger: &mut Ledger,
        access: &Access<'_>,
        race: Option<&SharedRace>,
        outputs: Option<&mut Outputs>,
    ) {
        if let Some((_, origin, lanes)) = self.poisoned(access, race, outputs) {
            let place = Place { block: access.block, warp: access.warp, pc: access.pc, lanes };
            report(context, ledger, Use::Atomic, place, origin, None);
        }
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

    /// A copy writes shared memory from now on, with what its source holds.
    pub(crate) fn copy_issued(&mut self, copy: &Copy, outputs: Option<&mut Outputs>) {
        let missing = outputs.and_then(|outputs| {
            outputs.with(|stores| if copy.read == 0 { 0 } else { stores.missing(copy.from, copy.read) })
        });
        let missing = missing.unwrap_or(0);
        if missing == 0 {
            return self.shared.write(copy.to, copy.size);
        }
        let first = copy.from.saturating_add(u64::from(missing.trailing_zeros()));
        let origin = Origin { pc: copy.pc, source: Source::Global(first) };
        self.shared.write_poisoned(copy.to, copy.size, missing, Some(origin));
    }

    /// A call hands a value over.
    pub(crate) fn moved(&mut self, facts: &Facts, moved: &Moved) {
        let Some(warp) = self.warps.get_mut(at(moved.warp)) else { return };
        for start in (0..moved.bytes).step_by(16) {
            let size = (moved.bytes - start).min(16);
            let mut bytes: Bytes = [0; LANES];
            let mut origin = Origin { pc: moved.pc, source: Source::Register };
            match moved.from {
                Holder::Device => {}
                Holder::Local(address) => {
                    origin.source = Source::Local(address);
                    for lane in lanes_of(moved.lanes) {
                        let missing = warp.local.poisoned(lane, address.saturating_add(start), size);
                        bytes[lane] = u16::try_from(missing & 0xffff).unwrap_or(0);
                    }
                }
                Holder::Register(width, row) => {
                    let row = facts.numbering.number(width, row);
                    origin = warp.registers.origin(row, moved.pc);
                    for lane in lanes_of(moved.lanes) {
                        bytes[lane] = warp.registers.bytes(facts, row, lane);
                    }
                }
            }
            match moved.to {
                Holder::Device => {}
                Holder::Local(address) => {
                    for lane in lanes_of(moved.lanes) {
                        warp.local.write(lane, address.saturating_add(start), size, bytes[lane].into());
                    }
                }
                Holder::Register(width, row) => {
                    let row = facts.numbering.number(width, row);
                    warp.registers.set(facts, row, moved.lanes, &bytes, origin);
                }
            }
        }
    }

    /// Lanes got a piece of local memory.
    pub(crate) fn framed(&mut self, warp: u32, lanes: u32, frame: std::ops::Range<u32>) {
        if let Some(warp) = self.warps.get_mut(at(warp)) {
            warp.local.forget(lanes, frame);
        }
    }
}

#[cold]
fn guarded(
    context: &Context,
    facts: &Facts,
    ledger: &mut Ledger,
    issue: &Issue<'_>,
    guard: u32,
    registers: &mut Poison,
) {
    let lanes = registers.lanes(guard) & issue.here;
    let branch = facts.cold(issue.pc).is_some_and(|cold| cold.branch);
    let place = Place { block: issue.block, warp: issue.warp, pc: issue.pc, lanes };
    let origin = registers.origin(guard, issue.pc);
    report(context, ledger, if branch { Use::Branch } else { Use::Condition }, place, origin, None);
    registers.clear(guard, lanes);
}

fn report(
    context: &Context,
    ledger: &mut Ledger,
    used: Use,
    place: Place,
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
    let key = (Class::Uninitialised, place.pc, origin.pc, 4 * kind + space);
    ledger.add(key, Severity::Error, || {
        let thread = 32 * place.warp + place.lanes.trailing_zeros().min(31);
        let who = context.thread(place.block, thread);
        let (sentence, label) = match used {
            Use::Address => {
                (format!("{who} computes an address from a value that was never written"), "the address")
            }
            Use::Branch => {
                (format!("a branch of {who} depends on a value that was never written"), "the branch")
            }
            Use::Condition => (
                format!("what {who} executes depends on a value that was never written"),
                "the instruction that depends on it",
            ),
            Use::Target => (format!("{who} jumps to an address that was never written"), "the jump"),
            Use::Matrix => (
                format!("an operand of a matrix multiplication was never written in {who}"),
                "the multiplication",
            ),
            Use::Barrier => (format!("an operand of a barrier was never written in {who}"), "the barrier"),
            Use::Lanes => {
                (format!("{who} chooses lanes of its warp by a value that was never written"), "the exchange")
            }
            Use::Store => {
                let target = address.and_then(|address| buffer_of(context, address));
                let target = target
                    .map_or("global memory".to_owned(), |(buffer, element)| element_name(buffer, element));
                (format!("the value that {who} stores to {target} was never written"), "the store")
            }
            Use::Atomic => {
                (format!("an atomic of {who} changes memory that was never written"), "the atomic")
            }
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
            class: Class::Uninitialised,
            severity: Severity::Error,
            sentence,
            spots,
            notes: vec![note],
            help: Some(help.to_owned()),
            count: 1,
        }
    });
}

/// Where a value comes from, and how to mend it.
fn whence(context: &Context, source: Source) -> (String, &'static str) {
    match source {
        Source::Register => (
            "it comes from a register that no instruction before has written".to_owned(),
            "give the variable a value on every path",
        ),
        Source::Shared(address) => {
            let variables = &context.program.shared_variables;
            let holds = |(_, offset, size): &&(String, u32, u32)| address.wrapping_sub(*offset) < *size;
            let note = match variables.iter().find(holds) {
                Some((name, offset, _)) => {
                    format!("it comes from shared variable `{name}`, byte offset {}", address - offset)
                }
                None => match context.program.dynamic_shared.filter(|start| address >= *start) {
                    Some(start) => {
                        format!("it comes from dynamic shared memory, byte offset {}", address - start)
                    }
                    None => format!("it comes from shared address {address:#x}"),
                },
            };
            (note, "write every element that is read: clear the tail of the array, or do not read it")
        }
        Source::Local(address) => (
            format!("it comes from byte {address} of the thread's local memory"),
            "give every element of the array a value before it is read",
        ),
        Source::Global(address) => {
            let note = match buffer_of(context, address) {
                Some((buffer, element)) => format!("it comes from {}", element_name(buffer, element)),
                None => format!("it comes from memory that the kernel allocated, at {address:#x}"),
            };
            (note, "write the memory before it is read, or declare the buffer with its first contents")
        }
    }
}
