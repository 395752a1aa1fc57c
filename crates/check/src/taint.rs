//! Taint analysis for results that depend on the machine: a clock, a timer, the multiprocessor, or an address.
//!
//! Tracks for every register and lane which sources its value depends on, through registers, shuffles, votes, matrix
//! instructions, calls, shared and local memory, and reports a value that reaches control flow (a branch, a guard, a
//! jump) or global memory (a store, an atomic, the address of either). Sources: PTX manual, special registers; the
//! addresses of allocations that a kernel gets in parameters and from module variables.
//!
//! An address is followed as a sum (`lane.rs`), so that ordinary pointer arithmetic is not reported: accesses,
//! differences and comparisons within an allocation, null tests, and tests of the lowest 8 bits, which are zero in
//! every allocation's address.
//!
//! Can miss: addresses that are loaded from global memory or come from `malloc`; values that pass through the carry
//! flag; values computed in a wait loop whose iteration count depends on a source; single bytes within a word. Never
//! reports: a value that affects no branch and no store to global memory, such as a clock that is only printed or used
//! for a delay.

mod lane;
mod shadow;
mod sources;

pub(crate) use sources::Entrances;

use super::context::Context;
use super::facts::{Arithmetic, BitMove, Cold, Facts, NO_ROW, Rule, Traffic, Use};
use super::output::{buffer_of, element_name};
use super::raw::{Raw, RawFindings, Spot};
use super::settings::Source;
use super::{Class, Severity};
use lane::Lane;
use shadow::Shadow;
use sources::Sources;
use warpproof_sim::machine::{Access, AccessKind, LANES, Registers, Width, at, lanes_of};
use warpproof_sim::memory::Space;
use warpproof_sim::observe::{AsyncCopy, Exchange, Holder, Issue, Moved};

/// A register.
type Row = [Lane; LANES];

const CLEAN: Row = [Lane::CLEAN; LANES];

/// The registers of a warp, and its local memory.
struct Warp {
    /// Lanes of each row that depend on a source.
    masks: Vec<u32>,
    /// What they depend on; lanes outside the mask are stale.
    rows: Vec<Option<Box<Row>>>,
    local: Shadow,
    /// The operands of the memory instruction that is being executed.
    access: Option<Box<Pending>>,
}

/// Operands of a memory instruction before it is executed.
struct Pending {
    pc: u32,
    /// What the choice of each address depends on.
    addresses: Row,
    /// What is stored, row by row.
    values: Vec<Row>,
}

/// The taint state of a block.
pub(crate) struct Taint {
    warps: Vec<Warp>,
    shared: Shadow,
}

/// Where a tainted value is used.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sink {
    Branch,
    Guard,
    Jump,
    /// The value is stored.
    Value,
    /// The address of a store depends on it.
    Address,
}

/// The instruction and the lane of a use.
#[derive(Clone, Copy)]
struct UsePlace {
    block: u32,
    warp: u32,
    pc: u32,
    lane: usize,
}

impl Warp {
    fn new(facts: &Facts, entrances: &Entrances) -> Warp {
        let count = facts.start.len();
        let mut warp =
            Warp { masks: vec![0; count], rows: vec![None; count], local: Shadow::default(), access: None };
        for (row, lanes) in entrances.constants() {
            warp.set(row, u32::MAX, &lanes);
        }
        warp
    }

    fn mask(&self, row: u32) -> u32 {
        self.masks.get(at(row)).copied().unwrap_or(0)
    }

    fn any(&self, rows: &[u32]) -> u32 {
        rows.iter().fold(0, |lanes, row| lanes | self.mask(*row))
    }

    fn clear(&mut self, row: u32, lanes: u32) {
        if let Some(mask) = self.masks.get_mut(at(row)) {
            *mask &= !lanes;
        }
    }

    fn lane(&self, row: u32, lane: usize) -> Lane {
        if self.mask(row) >> lane & 1 == 0 {
            return Lane::CLEAN;
        }
        self.rows.get(at(row)).and_then(Option::as_ref).map_or(Lane::CLEAN, |row| row[lane])
    }

    fn row(&self, row: u32) -> Row {
        std::array::from_fn(|lane| self.lane(row, lane))
    }

    fn set(&mut self, row: u32, lanes: u32, values: &Row) {
        let (Some(mask), Some(own)) = (self.masks.get_mut(at(row)), self.rows.get_mut(at(row))) else {
            return;
        };
        let stained =
            lanes_of(lanes).filter(|lane| !values[*lane].is_clean()).fold(0u32, |all, lane| all | 1 << lane);
        *mask = *mask & !lanes | stained;
        if stained != 0 {
            let own = own.get_or_insert_with(|| Box::new(CLEAN));
            lanes_of(stained).for_each(|lane| own[lane] = values[lane]);
        }
    }

    /// What a lane depends on in several rows, joined.
    fn joined(&self, rows: &[u32], lane: usize) -> Lane {
        rows.iter().fold(Lane::CLEAN, |all, row| {
            let one = self.lane(*row, lane);
            if one.is_clean() { all } else { all.joined(one) }
        })
    }

    /// What several lanes of several rows depend on, joined.
    fn together(&self, rows: &[u32], lanes: u32) -> Lane {
        lanes_of(lanes).fold(Lane::CLEAN, |all, lane| {
            let one = self.joined(rows, lane);
            if one.is_clean() { all } else { all.joined(one) }
        })
    }

    /// An instruction that reads a tainted value writes its results.
    fn spread(&mut self, facts: &Facts, issue: &Issue<'_>, cold: &Cold, own: Sources) {
        let (reads, writes, _) = facts.rows(issue.pc);
        let exec = issue.exec;
        let whole = |lane: usize, warp: &Warp| {
            let all = warp.joined(reads, lane);
            if own.is_empty() { all } else { all.joined(Lane::read(own, issue.pc)) }
        };
        match cold.rule {
            Rule::Fresh => writes.iter().for_each(|row| self.clear(*row, exec)),
            // Handled when the exchange is observed.
            Rule::Vote | Rule::Lanes => {}
            Rule::VoteHere | Rule::Transpose => {
                let all = [self.together(reads, exec); LANES];
                for row in writes {
                    self.set(*row, exec, &all);
                }
            }
            Rule::Unpack(part) => {
                let Some((source, parts)) = cold.operands.split_last() else { return };
                let value = self.row(*source);
                for (i, row) in (0u32..).zip(parts) {
                    let taken = |lane: Lane| match (i, part) {
                        (0, _) => lane.converted(64, 8 * part),
                        (1, 4) => lane.upper_half(),
                        _ => lane.shifted_down(u64::from(8 * part * i)),
                    };
                    self.set(*row, exec, &value.map(taken));
                }
            }
            Rule::Pack(4) if cold.operands.len() == 3 => {
                let [target, low, high] = cold.operands[..] else { return };
                let value: Row =
                    std::array::from_fn(|lane| self.lane(low, lane).packed(self.lane(high, lane)));
                self.set(target, exec, &value);
            }
            Rule::Bitwise(_) | Rule::Shuffle(_) | Rule::Select | Rule::Arithmetic(_) | Rule::Compare(_)
                if own.is_empty() =>
            {
                let mut value = CLEAN;
                for lane in lanes_of(exec) {
                    value[lane] = self.rule(facts, cold, issue.registers, lane);
                }
                for row in cold.operands.iter().take(cold.results()) {
                    self.set(*row, exec, &value);
                }
            }
            _ => {
                let crosses = cold.uses.iter().any(|(_, used, _)| *used == Use::Matrix);
                let value: Row = if crosses {
                    [self.together(reads, exec); LANES]
                } else {
                    std::array::from_fn(|lane| whole(lane, self))
                };
                for row in writes {
                    self.set(*row, exec, &value);
                }
            }
        }
    }

    /// What one lane's result depends on.
    fn rule(&self, facts: &Facts, cold: &Cold, registers: &Registers, lane: usize) -> Lane {
        let all = &cold.operands;
        let sources = all.get(cold.results()..).unwrap_or(&[]);
        let row = |i: usize| sources.get(i).copied().unwrap_or(NO_ROW);
        let of = |i: usize| self.lane(row(i), lane);
        let value = |i: usize| facts.value(registers, row(i), lane);
        let bits = |row: u32| match facts.numbering.row(row).0 {
            Width::Pred => 1,
            Width::W32 => 32,
            Width::W64 => 64,
            Width::W128 => 128,
        };
        let product = || match (of(0), of(1)) {
            (a, b) if b.is_clean() => a.scaled(signed(value(1), bits(row(1)))),
            (a, b) if a.is_clean() => b.scaled(signed(value(0), bits(row(0)))),
            (a, b) => a.bitwise(b),
        };
        // The factors of a widening product are 32-bit values, so an address in them is truncated.
        let widened = |lane: Lane, wide: bool| if wide { lane.converted(32, 64) } else { lane };
        match cold.rule {
            Rule::Bitwise(0xf0) | Rule::Arithmetic(Arithmetic::Space) => of(0),
            Rule::Bitwise(0xc0) if of(1).is_clean() => of(0).masked(value(1), bits(row(0))),
            Rule::Bitwise(0xc0) if of(0).is_clean() => of(1).masked(value(0), bits(row(1))),
            Rule::Bitwise(0xfc | 0x3c) if of(1).is_clean() => of(0).with_bits(value(1)),
            Rule::Bitwise(0xfc | 0x3c) if of(0).is_clean() => of(1).with_bits(value(0)),
            Rule::Bitwise(_) => (0..sources.len()).map(of).fold(Lane::CLEAN, Lane::bitwise),
            Rule::Shuffle(BitMove::Shl(_)) if of(1).is_clean() => {
                let by = value(1).min(63);
                of(0).scaled(1i64.wrapping_shl(u32::try_from(by).unwrap_or(63)))
            }
            Rule::Shuffle(BitMove::Shr(..)) if of(1).is_clean() => of(0).shifted_down(value(1)),
            Rule::Shuffle(BitMove::Extract(..)) if of(1).is_clean() && of(2).is_clean() => {
                of(0).shifted_down(value(1)).masked(ones(value(2)), 64)
            }
            Rule::Shuffle(BitMove::Convert((from, _), (to, _))) => of(0).converted(8 * from, 8 * to),
            Rule::Select if of(2).is_clean() => {
                let chosen = (value(2) ^ u64::from(cold.not >> 3 & 1)) & 1 != 0;
                of(usize::from(!chosen))
            }
            Rule::Arithmetic(Arithmetic::Add) => of(0).plus(of(1)),
            Rule::Arithmetic(Arithmetic::Sub) => of(0).minus(of(1)),
            Rule::Arithmetic(Arithmetic::Multiply { wide }) => widened(product(), wide),
            Rule::Arithmetic(Arithmetic::MultiplyAdd { wide }) => widened(product(), wide).plus(of(2)),
            Rule::Arithmetic(Arithmetic::Compare) | Rule::Compare(_) => {
                let zero = |i: usize| of(i).is_clean() && value(i) == 0;
                let compared = of(0).compared(of(1), cold.equality, zero(0) || zero(1));
                let Rule::Compare(decides) = cold.rule else { return compared };
                let deciding = of(2);
                let chosen = (value(2) ^ u64::from(cold.not >> 4 & 1)) & 1 != 0;
                if !deciding.is_clean() {
                    compared.joined(deciding)
                } else if chosen == decides {
                    Lane::CLEAN
                } else {
                    compared
                }
            }
            _ => self.joined(sources, lane),
        }
    }
}

/// Sign-extends a value of `bits` bits.
fn signed(value: u64, bits: u32) -> i64 {
    let unused = 64u32.saturating_sub(bits).min(63);
    (value << unused).cast_signed() >> unused
}

fn ones(count: u64) -> u64 {
    if count >= 64 { u64::MAX } else { (1 << count) - 1 }
}

impl Taint {
    pub(crate) fn new(context: &Context, facts: &Facts, entrances: &Entrances) -> Taint {
        let warps = context.block_threads().div_ceil(32);
        Taint { warps: (0..warps).map(|_| Warp::new(facts, entrances)).collect(), shared: Shadow::default() }
    }

    /// An instruction is about to be executed, or skipped because its guard is false in all lanes.
    pub(crate) fn issue(
        &mut self,
        context: &Context,
        facts: &Facts,
        entrances: &Entrances,
        raw_findings: &mut RawFindings,
        issue: &Issue<'_>,
    ) {
        let Some(warp) = self.warps.get_mut(at(issue.warp)) else { return };
        let (reads, writes, guard) = facts.rows(issue.pc);
        let (own, constant) = entrances.own(issue.pc);
        warp.access = None;
        let report = |raw_findings: &mut RawFindings, sink: Sink, value: Lane, lane: usize| {
            let place = UsePlace { block: issue.block, warp: issue.warp, pc: issue.pc, lane };
            add(context, entrances, raw_findings, sink, place, value, None);
        };
        let cold = facts.cold(issue.pc);
        if guard != NO_ROW && warp.mask(guard) & issue.here != 0 {
            let lanes = warp.mask(guard) & issue.here;
            let lane = at(lanes.trailing_zeros()).min(LANES - 1);
            if !entrances.harmless(issue.pc) {
                let sink = if cold.is_some_and(|cold| cold.branch) { Sink::Branch } else { Sink::Guard };
                report(raw_findings, sink, warp.lane(guard, lane), lane);
            }
            warp.clear(guard, lanes);
        }
        if own.is_empty() && !constant && warp.any(reads) & issue.exec == 0 {
            for row in writes {
                warp.clear(*row, issue.exec);
            }
            return;
        }
        let Some(cold) = cold else { return };
        for (row, used, lanes) in &cold.uses {
            let hit = warp.mask(*row) & issue.exec & lanes;
            if *used == Use::Target && hit != 0 {
                let lane = at(hit.trailing_zeros()).min(LANES - 1);
                let value = warp.lane(*row, lane);
                report(raw_findings, Sink::Jump, value, lane);
                warp.clear(*row, hit);
            }
        }
        if cold.traffic != Traffic::None || cold.uses.iter().any(|(_, used, _)| *used == Use::Address) {
            let mut addresses = CLEAN;
            for lane in lanes_of(issue.exec) {
                let each = cold.addresses.iter().map(|row| warp.lane(*row, lane).as_address());
                addresses[lane] = each.fold(Lane::CLEAN, |all, one| if one.is_clean() { all } else { one });
            }
            let stores = !cold.loads && warp.any(&cold.rows) != 0;
            if stores || addresses.iter().any(|lane| !lane.is_clean()) {
                let rows = if stores { &cold.rows[..] } else { &[] };
                let values = rows.iter().map(|row| warp.row(*row)).collect();
                warp.access = Some(Box::new(Pending { pc: issue.pc, addresses, values }));
            }
            for row in writes {
                warp.set(*row, issue.exec, &addresses);
            }
            return;
        }
        warp.spread(facts, issue, cold, own);
    }

    /// An access was made.
    pub(crate) fn access(
        &mut self,
        context: &Context,
        facts: &Facts,
        entrances: &Entrances,
        raw_findings: &mut RawFindings,
        access: &Access<'_>,
    ) {
        let Some(cold) = facts.cold(access.pc) else { return };
        let Some(warp) = self.warps.get_mut(at(access.warp)) else { return };
        if access.deferred || cold.traffic == Traffic::None {
            return;
        }
        let pending = warp.access.take_if(|pending| pending.pc == access.pc);
        if access.kind == AccessKind::Read {
            self.load(entrances, cold, access);
        } else {
            self.store(context, entrances, raw_findings, cold, access, pending.as_deref());
        }
    }

    /// Bytes of each element of an access, and how many there are in a lane.
    fn elements(cold: &Cold, access: &Access<'_>) -> u32 {
        match cold.traffic {
            Traffic::Elements { bytes, .. } => bytes.max(1),
            _ => access.bytes.max(1),
        }
    }

    fn load(&mut self, entrances: &Entrances, cold: &Cold, access: &Access<'_>) {
        let Some(warp) = self.warps.get_mut(at(access.warp)) else { return };
        let size = Taint::elements(cold, access);
        let mut crossing = Lane::CLEAN;
        for (i, row) in (0u32..).zip(&cold.rows) {
            let elements = matches!(cold.traffic, Traffic::Elements { .. });
            let offset = if elements { i * size } else { 0 };
            let mut value = CLEAN;
            for lane in lanes_of(access.lanes) {
                let address = access.addresses.0[lane].saturating_add(u64::from(offset));
                let near = u32::try_from(address).unwrap_or(u32::MAX);
                let stored = match access.space {
                    Space::Shared => self.shared.load(0, near, size),
                    Space::Local => warp.local.load(lane, near, size),
                    Space::Param => entrances.parameter(address, size, access.pc),
                    _ => Lane::CLEAN,
                };
                // The dependence on the address is already recorded.
                let chosen = warp.lane(*row, lane);
                value[lane] = if chosen.is_clean() { stored } else { stored.joined(chosen) };
                if !stored.is_clean() {
                    crossing = crossing.joined(stored);
                }
            }
            if elements {
                warp.set(*row, access.lanes, &value);
            }
        }
        if !matches!(cold.traffic, Traffic::Elements { .. }) && !crossing.is_clean() {
            for row in &cold.rows {
                warp.set(*row, u32::MAX, &[crossing; LANES]);
            }
        }
    }

    fn store(
        &mut self,
        context: &Context,
        entrances: &Entrances,
        raw_findings: &mut RawFindings,
        cold: &Cold,
        access: &Access<'_>,
        pending: Option<&Pending>,
    ) {
        let Some(warp) = self.warps.get_mut(at(access.warp)) else { return };
        let size = Taint::elements(cold, access);
        let by_elements = matches!(cold.traffic, Traffic::Elements { .. });
        let every = || {
            let lanes = pending.iter().flat_map(|pending| pending.values.iter().flatten());
            lanes.fold(Lane::CLEAN, |all, one| if one.is_clean() { all } else { all.joined(*one) })
        };
        // Matrix loads move rows to other lanes.
        let crossing = if by_elements || pending.is_none() { Lane::CLEAN } else { every() };
        let mut reported = [false; 2];
        for lane in lanes_of(access.lanes) {
            let chosen = pending.map_or(Lane::CLEAN, |pending| pending.addresses[lane]);
            let place = UsePlace { block: access.block, warp: access.warp, pc: access.pc, lane };
            let target = Some(access.addresses.0[lane]);
            if access.space == Space::Global && !chosen.is_clean() && !reported[0] {
                reported[0] = true;
                add(context, entrances, raw_findings, Sink::Address, place, chosen, target);
            }
            let count = if by_elements { cold.rows.len() } else { 1 };
            for i in 0..count {
                let value = match pending {
                    Some(pending) if by_elements => {
                        pending.values.get(i).map_or(Lane::CLEAN, |row| row[lane])
                    }
                    _ => crossing,
                };
                let offset = u32::try_from(i).unwrap_or(0).saturating_mul(size);
                let near = u32::try_from(access.addresses.0[lane]).unwrap_or(u32::MAX).saturating_add(offset);
                let held = if chosen.is_clean() { value } else { value.joined(chosen) };
                match access.space {
                    Space::Global if !value.is_clean() && !reported[1] => {
                        reported[1] = true;
                        add(context, entrances, raw_findings, Sink::Value, place, value, target);
                    }
                    Space::Shared => self.shared.store(0, near, size, held),
                    Space::Local => warp.local.store(lane, near, size, held),
                    _ => {}
                }
            }
        }
    }

    /// Lanes exchange values.
    pub(crate) fn exchange(&mut self, facts: &Facts, exchange: &Exchange<'_>) {
        let Some(warp) = self.warps.get_mut(at(exchange.warp)) else { return };
        let Some(cold) = facts.cold(exchange.pc) else { return };
        let (reads, writes, _) = facts.rows(exchange.pc);
        match (cold.rule, exchange.sources) {
            (Rule::Lanes, Some(sources)) => {
                let [target, in_range, source, ref which @ ..] = cold.operands[..] else { return };
                let value: Row = std::array::from_fn(|lane| {
                    let from = at(sources.0[lane] & 31);
                    let got = warp.lane(source, from);
                    let chosen = warp.joined(which, lane);
                    if chosen.is_clean() { got } else { got.joined(chosen) }
                });
                warp.clear(in_range, exchange.lanes);
                warp.set(target, exchange.lanes, &value);
            }
            (Rule::Vote, None) => {
                let all = [warp.together(reads, exchange.lanes); LANES];
                for row in writes {
                    warp.set(*row, exchange.lanes, &all);
                }
            }
            _ => {}
        }
    }

    /// A copy writes data from global memory to shared memory.
    pub(crate) fn copy_issued(&mut self, copy: &AsyncCopy) {
        let Some(warp) = self.warps.get(at(copy.warp)) else { return };
        let pending = warp.access.as_ref().filter(|pending| pending.pc == copy.pc);
        let chosen = pending.map_or(Lane::CLEAN, |pending| pending.addresses[at(copy.lane) % LANES]);
        self.shared.store(0, copy.to, copy.size.max(4), chosen);
    }

    /// A call passes an argument or a result.
    pub(crate) fn moved(&mut self, facts: &Facts, moved: &Moved) {
        let Some(warp) = self.warps.get_mut(at(moved.warp)) else { return };
        for start in (0..moved.bytes.max(1)).step_by(8) {
            let size = (moved.bytes - start.min(moved.bytes)).min(8);
            let value: Row = match moved.from {
                Holder::Device => CLEAN,
                Holder::Local(address) => {
                    std::array::from_fn(|lane| warp.local.load(lane, address.saturating_add(start), size))
                }
                Holder::Register(width, row) => warp.row(facts.numbering.number(width, row)),
            };
            match moved.to {
                Holder::Device => {}
                Holder::Local(address) => {
                    for lane in lanes_of(moved.lanes) {
                        warp.local.store(lane, address.saturating_add(start), size, value[lane]);
                    }
                }
                Holder::Register(width, row) => {
                    warp.set(facts.numbering.number(width, row), moved.lanes, &value);
                }
            }
        }
    }
}

/// A source in a report: what it is, and why it differs.
fn described(source: Source) -> (&'static str, &'static str) {
    match source {
        Source::Clock => ("the clock", "the clock of a multiprocessor differs in every run"),
        Source::Timer => ("the global timer", "the global timer differs in every run"),
        Source::Machine => (
            "a machine-dependent register",
            "%smid, %nsmid, %warpid, %nwarpid and %gridid depend on the device and on where a block is placed",
        ),
        Source::Address => ("the address of an array", "the address of an array differs in every process"),
    }
}

fn add(
    context: &Context,
    entrances: &Entrances,
    raw_findings: &mut RawFindings,
    sink: Sink,
    place: UsePlace,
    value: Lane,
    target: Option<u64>,
) {
    let sources = value.all_sources();
    let kind = match sink {
        Sink::Branch => 0,
        Sink::Guard => 1,
        Sink::Jump => 2,
        Sink::Value => 3,
        Sink::Address => 4,
    };
    let key = (Class::MachineDependent, place.pc, value.origin, kind);
    raw_findings.add(key, Severity::Error, || {
        let thread = 32 * place.warp + u32::try_from(place.lane).unwrap_or(0);
        let who = context.thread(place.block, thread);
        let names: Vec<&str> = sources.each().map(|source| described(source).0).collect();
        let what = names.join(" and ");
        let array = || {
            target
                .and_then(|address| buffer_of(context, address))
                .map_or_else(|| "global memory".to_owned(), |(buffer, element)| element_name(buffer, element))
        };
        let (sentence, label) = match sink {
            Sink::Branch => (format!("a branch of {who} depends on {what}"), "the branch"),
            Sink::Guard => {
                (format!("what {who} executes depends on {what}"), "the instruction that depends on it")
            }
            Sink::Jump => (format!("the target of a jump of {who} depends on {what}"), "the jump"),
            Sink::Value => {
                (format!("the value that {who} stores to {} depends on {what}", array()), "the store")
            }
            Sink::Address => (format!("which element {who} writes depends on {what}"), "the store"),
        };
        let thread = Some((place.block, thread));
        let mut spots = vec![Spot { label: label.to_owned(), pc: place.pc, thread }];
        if value.origin != place.pc && value.origin != NO_ROW {
            let label =
                if sources == Sources::ADDRESS { "the address is read" } else { "the source is read" };
            spots.push(Spot { label: label.to_owned(), pc: value.origin, thread });
        }
        let mut notes: Vec<String> = sources.each().map(|source| described(source).1.to_owned()).collect();
        let array = entrances.address(value.base).filter(|_| value.times != 0);
        notes.extend(
            array
                .and_then(|address| buffer_of(context, address))
                .map(|(buffer, _)| format!("it is the address of `{}`", buffer.name)),
        );
        Raw {
            class: Class::MachineDependent,
            severity: Severity::Error,
            sentence,
            spots,
            notes,
            help: Some(
                "compute control flow and results only from the inputs and the thread's index".to_owned(),
            ),
            count: 1,
        }
    });
}
