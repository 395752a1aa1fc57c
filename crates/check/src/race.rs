//! Data races in shared memory, including races with asynchronous copies.
//!
//! Decides, for every byte of shared memory that two threads access and at least one writes, whether one access happens
//! before the other: by a barrier that both take part in, by `bar.warp.sync`, by an mbarrier, or by a release that the
//! other thread has acquired. Shuffles and votes do not order memory. A `cp.async` writes from its issue until the
//! thread that issued it has waited for it; until then no thread may access the bytes, afterwards the copy counts as
//! that thread's write. Source: the memory consistency model of the PTX manual.
//!
//! Can miss: races on paths that were not executed; of two unordered strong writes the earlier one, when a weak read
//! follows. Never reports: two accesses of one thread, two strong accesses, accesses to neighboring bytes.

use super::clock::{Clock, Fences, Order, Scoped, Who};
use super::context::Context;
use super::copies::Copies;
use super::fused;
use super::history::{Conflict, Touch, Write, stamp};
use super::lines::Lines;
use super::mbarrier::Mbarriers;
use super::multiply;
use super::raw::{Raw, RawFindings, Reach, Spot};
use super::shadow::{Cell, Owner, Spill, Stamp, UNKNOWN_SITE};
use super::site::{Kind, Scope};
use super::{Class, Severity};
use std::collections::BTreeMap;
use warpproof_sim::isa::Op;
use warpproof_sim::isa::op::MbarrierOp;
use warpproof_sim::machine::{Access, AccessKind, at, lanes_of};
use warpproof_sim::memory::Space;
use warpproof_sim::observe::{AsyncCopy, BulkCopy, Mbarrier};

/// The clocks that strong writes have released at an address.
#[derive(Clone, Debug, Default)]
pub(crate) struct Variable {
    /// For readers of every block.
    device: Clock,
    /// For readers of the block that wrote.
    block: BTreeMap<u32, Clock>,
    /// What sequentially consistent fences before the writes cover, for readers of every block and of the block that wrote.
    covered: Clock,
    covered_in: BTreeMap<u32, Clock>,
}

impl Variable {
    /// A strong write: a store replaces the released clock, an atomic joins it (`keeps`).
    pub(crate) fn write(&mut self, block: u32, clock: Option<(Clock, Scope)>, keeps: bool) {
        if !keeps {
            *self = Variable::default();
        }
        if let Some((clock, scope)) = clock {
            if scope == Scope::Device {
                self.device.join(&clock);
            }
            self.block.entry(block).or_default().join(&clock);
        }
    }

    /// A strong write publishes what earlier fences cover.
    fn cover(&mut self, block: u32, covered: &Scoped, scope: Scope) {
        if scope == Scope::Device {
            self.covered.join(&covered.device);
        }
        if !covered.block.is_empty() {
            self.covered_in.entry(block).or_default().join(&covered.block);
        }
    }

    /// What a strong read with this scope sees of `covered`.
    fn covered(&self, block: u32, scope: Scope) -> Scoped {
        let device = if scope == Scope::Device { self.covered.clone() } else { Clock::default() };
        Scoped { block: self.covered_in.get(&block).cloned().unwrap_or_default(), device }
    }

    /// What a strong read with this scope sees.
    pub(crate) fn seen(&self, block: u32, scope: Scope) -> Clock {
        let mut clock = if scope == Scope::Device { self.device.clone() } else { Clock::default() };
        if let Some(own) = self.block.get(&block) {
            clock.join(own);
        }
        clock
    }
}

/// The races of one block in shared memory.
#[derive(Debug)]
pub(crate) struct SharedRace {
    pub(super) cells: Vec<Cell>,
    /// Reads that are not in the cells yet.
    pub(super) lines: Lines,
    /// The blocks that made the accesses, by cell; empty if only the block itself accesses its memory.
    pub(super) owners: Vec<Owner>,
    spill: Spill,
    variables: BTreeMap<u32, Variable>,
    mbarriers: Mbarriers,
    /// The last values of stores that depend on a fused product, by address.
    sums: BTreeMap<u32, u32>,
}

impl SharedRace {
    /// For shared memory of this size, which other blocks may access too.
    pub(crate) fn new(bytes: u32, shared: bool) -> SharedRace {
        let words = at(bytes.div_ceil(4));
        SharedRace {
            cells: vec![Cell::default(); words],
            lines: Lines::new(if shared { 0 } else { words }),
            owners: if shared { vec![Owner::default(); words] } else { Vec::new() },
            spill: Spill::default(),
            variables: BTreeMap::new(),
            mbarriers: Mbarriers::default(),
            sums: BTreeMap::new(),
        }
    }

    /// Whether a byte was ever written.
    pub(crate) fn written(&self, byte: u32) -> bool {
        let Some(cell) = self.cells.get(at(byte / 4)) else { return false };
        match cell.parts() {
            Some(parts) => self.spill.part(parts, at(byte % 4)).0.written(),
            None => cell.written(),
        }
    }

    /// Whether a word was fully written.
    #[inline]
    pub(crate) fn word_written(&self, word: u32) -> bool {
        match self.cells.get(at(word)) {
            Some(cell) if cell.parts().is_none() => cell.written(),
            Some(_) => (4 * word..4 * word + 4).all(|byte| self.written(byte)),
            None => false,
        }
    }

    /// Bytes of shadow state for shared memory.
    pub(crate) fn bytes(&self) -> usize {
        let cells = self.cells.len() * size_of::<Cell>() + self.owners.len() * size_of::<Owner>();
        cells + self.spill.bytes() + self.lines.bytes()
    }

    /// An access of a warp.
    pub(crate) fn access(
        &mut self,
        context: &Context,
        order: &mut Order,
        fences: &mut Fences,
        raw_findings: &mut RawFindings,
        copies: &Copies,
        access: &Access<'_>,
    ) {
        let site = context.sites.get(access.pc);
        let strong = match (access.kind, site.kind) {
            (AccessKind::Atomic, Kind::Mbarrier) if self.owners.is_empty() => Some(Scope::Block),
            (AccessKind::Atomic, Kind::Mbarrier) => Some(Scope::Device),
            _ => site.ordering.strong,
        };
        if site.kind == Kind::Mbarrier && access.kind == AccessKind::Write {
            self.initialized(context, raw_findings, access);
        }
        let sums = access.bytes.is_multiple_of(4)
            && context.replicated.as_ref().is_some_and(|all| all.fused.contains(&access.pc));
        let ordinary =
            strong.is_none() && !site.volatile && !sums && self.owners.is_empty() && !context.plain;
        let rest =
            if ordinary { self.quietly(context.sites.barriers_only, order, access) } else { access.lanes };
        let mut conflicts = Vec::new();
        for lane in lanes_of(rest) {
            let who = Who::new(access.warp, lane);
            let Ok(address) = u32::try_from(access.addresses.0[lane]) else { continue };
            let stamp = stamp(order, who, access.pc, strong);
            let touch = Touch {
                order,
                block: access.block,
                stamp: if site.volatile { stamp.volatile() } else { stamp },
                barriers_only: context.sites.barriers_only,
                exact: !context.sites.barriers_only,
                doubtful: None,
                unchanged: access.unchanged >> lane & 1 != 0,
            };
            let rounded = sums && self.rounded(access, lane, address);
            self.touch(&touch, address, access.bytes, access.kind, false, &mut conflicts);
            for conflict in conflicts.drain(..) {
                let race = Race {
                    block: access.block,
                    access: touch.stamp,
                    wrote: access.kind != AccessKind::Read,
                    unchanged: touch.unchanged,
                };
                if !one_store(&race, &conflict) {
                    self.report(context, raw_findings, copies, &race, (&conflict, address, rounded));
                }
            }
            if strong.is_some() && site.kind != Kind::Mbarrier {
                self.synchronize(context, order, fences, access, who, address);
            }
        }
    }

    /// Records the sums that a lane stores; returns whether they and the sums before them differ by rounding only.
    fn rounded(&mut self, access: &Access<'_>, lane: usize, address: u32) -> bool {
        let mut rounded = !access.words.is_empty();
        for (word, row) in (address..).step_by(4).zip(access.words) {
            let before = self.sums.insert(word, row.0[lane]);
            rounded &= before.is_some_and(|before| fused::rounded(row.0[lane], before));
        }
        rounded
    }

    /// Applies an access to the cells of its bytes. Returns the conflicts, one for each conflicting instruction.
    pub(super) fn touch(
        &mut self,
        touch: &Touch<'_>,
        address: u32,
        bytes: u32,
        kind: AccessKind,
        pending: bool,
        found: &mut Vec<Conflict>,
    ) {
        let shared = !self.owners.is_empty();
        self.open(touch.order, address, bytes);
        if bytes < 4 || !address.is_multiple_of(4) {
            for byte in address..address.saturating_add(bytes) {
                let Some(cell) = self.cells.get_mut(at(byte / 4)) else { break };
                let mut owner = self.owners.get(at(byte / 4)).copied().unwrap_or(Owner::of(touch.block));
                if !shared {
                    owner.second = cell.second();
                }
                let parts = self.spill.split(cell, owner);
                let (mut part, mut owner) = self.spill.part(parts, at(byte % 4));
                let conflict = act(touch, &mut part, &mut owner, &mut self.spill, kind, pending);
                self.spill.set_part(parts, at(byte % 4), part, owner);
                add_conflict(found, conflict);
            }
            return;
        }
        let first = at(address / 4);
        let floor = touch.order.floor();
        for word in first..first + at(bytes / 4) {
            let Some(cell) = self.cells.get_mut(word) else { break };
            // All threads are ordered after everything that is known of the word.
            if !shared && cell.quiet(floor) && cell.unread(floor) {
                match kind {
                    AccessKind::Read => {
                        cell.set_read(touch.stamp);
                        continue;
                    }
                    AccessKind::Write => {
                        cell.set_write(touch.stamp, pending);
                        continue;
                    }
                    AccessKind::Atomic => {}
                }
            }
            match cell.parts() {
                None => {
                    // A write that not every thread is ordered after leaves no place for a second reader.
                    let quiet = !shared && cell.quiet(floor);
                    let mut owner = self.owners.get(word).copied().unwrap_or(Owner::of(touch.block));
                    if !shared {
                        owner.second = cell.second();
                    }
                    let touch = Touch { exact: touch.exact || !quiet, ..*touch };
                    let conflict = act(&touch, cell, &mut owner, &mut self.spill, kind, pending);
                    if quiet && kind == AccessKind::Read {
                        cell.set_second(owner.second);
                    }
                    if let Some(slot) = self.owners.get_mut(word) {
                        *slot = owner;
                    }
                    add_conflict(found, conflict);
                }
                Some(parts) => {
                    for byte in 0..4 {
                        let (mut part, mut owner) = self.spill.part(parts, byte);
                        let conflict = act(touch, &mut part, &mut owner, &mut self.spill, kind, pending);
                        self.spill.set_part(parts, byte, part, owner);
                        add_conflict(found, conflict);
                    }
                }
            }
        }
    }

    /// The cells of these bytes are used in another way than by ordinary accesses to words.
    fn open(&mut self, order: &Order, address: u32, bytes: u32) {
        let words = at(address / 4)..at(address.saturating_add(bytes).div_ceil(4));
        self.lines.open(&mut self.cells, order, words);
    }

    /// The releases and acquires of a strong access in shared memory.
    fn synchronize(
        &mut self,
        context: &Context,
        order: &mut Order,
        fences: &mut Fences,
        access: &Access<'_>,
        who: Who,
        address: u32,
    ) {
        let ordering = context.sites.get(access.pc).ordering;
        exchange(&mut self.variables, address, order, fences, access, who, ordering);
    }

    /// A copy is issued: from now on no thread may access the bytes it writes.
    pub(crate) fn copy_issued(
        &mut self,
        context: &Context,
        block: u32,
        order: &Order,
        raw_findings: &mut RawFindings,
        copies: &Copies,
        copy: &AsyncCopy,
    ) {
        let who = Who::new(copy.warp, at(copy.lane));
        let stamp = stamp(order, who, copy.pc, None);
        let barriers_only = context.sites.barriers_only;
        let exact = !barriers_only;
        let touch = Touch { order, block, stamp, barriers_only, exact, doubtful: None, unchanged: false };
        let mut conflicts = Vec::new();
        self.touch(&touch, copy.to, copy.size, AccessKind::Write, true, &mut conflicts);
        for conflict in conflicts {
            let race = Race { block, access: stamp, wrote: true, unchanged: false };
            self.report(context, raw_findings, copies, &race, (&conflict, copy.to, false));
        }
    }

    /// A copy is complete: from now on it counts as a write of its thread.
    pub(crate) fn copy_done(&mut self, order: &Order, copy: &AsyncCopy) {
        let who = Who::new(copy.warp, at(copy.lane));
        let mine = |cell: &Cell| {
            cell.writer().is_some_and(|(write, pending)| {
                pending && write.who == who && write.pc == copy.pc.min(UNKNOWN_SITE)
            })
        };
        let done = stamp(order, who, copy.pc, None);
        self.open(order, copy.to, copy.size);
        for word in at(copy.to / 4)..at((copy.to + copy.size) / 4) {
            let Some(cell) = self.cells.get_mut(word) else { break };
            match cell.parts() {
                None if mine(cell) => {
                    self.spill.drop_list(cell);
                    cell.set_write(done, false);
                }
                None => {}
                Some(parts) => {
                    for byte in 0..4 {
                        let (mut part, owner) = self.spill.part(parts, byte);
                        if mine(&part) {
                            self.spill.drop_list(&part);
                            part.set_write(done, false);
                            self.spill.set_part(parts, byte, part, owner);
                        }
                    }
                }
            }
        }
    }

    /// An agent makes a bulk copy for a thread of `block`: an access to these bytes.
    #[expect(clippy::too_many_arguments, reason = "the state of the check and the parts of an access")]
    pub(crate) fn bulk(
        &mut self,
        context: &Context,
        order: &Order,
        raw_findings: &mut RawFindings,
        copies: &Copies,
        (block, agent): (u32, u32),
        stamp: Stamp,
        (offset, bytes): (u32, u32),
        kind: AccessKind,
    ) {
        let touch = Touch {
            order,
            block: agent,
            stamp,
            barriers_only: false,
            exact: true,
            doubtful: None,
            unchanged: false,
        };
        let mut conflicts = Vec::new();
        self.touch(&touch, offset, bytes, kind, kind == AccessKind::Write, &mut conflicts);
        for conflict in conflicts {
            let race = Race { block, access: stamp, wrote: kind != AccessKind::Read, unchanged: false };
            self.report(context, raw_findings, copies, &race, (&conflict, offset, false));
        }
    }

    /// A bulk copy to this offset is complete.
    pub(crate) fn bulk_done(&mut self, offset: u32, copy: &BulkCopy) {
        let who = Who::new(copy.warp, at(copy.lane));
        for word in at(offset / 4)..at((offset + copy.extent).div_ceil(4)) {
            let mine = |cell: &Cell| {
                let pending = cell.writer().filter(|(_, pending)| *pending).map(|(write, _)| write);
                pending.filter(|write| (write.who, write.pc) == (who, copy.pc.min(UNKNOWN_SITE)))
            };
            let Some(cell) = self.cells.get_mut(word) else { break };
            if let Some(write) = mine(cell) {
                cell.set_write(write, false);
            }
            let Some(parts) = cell.parts() else { continue };
            for byte in 0..4 {
                let (mut part, owner) = self.spill.part(parts, byte);
                if let Some(write) = mine(&part) {
                    part.set_write(write, false);
                    self.spill.set_part(parts, byte, part, owner);
                }
            }
        }
    }

    /// The mbarriers of the block.
    pub(crate) fn mbarriers(&mut self) -> &mut Mbarriers {
        &mut self.mbarriers
    }

    /// An mbarrier has received the bytes of a bulk copy.
    pub(crate) fn bulk_signaled(&mut self, offset: u32, clock: &Clock, completes: bool) {
        self.mbarriers.received(offset, clock, completes);
    }

    /// A lane uses an mbarrier: arriving releases, a successful wait acquires.
    pub(crate) fn mbarrier(
        &mut self,
        context: &Context,
        order: (&mut Order, &Fences),
        block: u32,
        used: &Mbarrier,
    ) {
        self.mbarriers.used(context, order, block, used);
    }

    /// An mbarrier instruction is about to write a whole mbarrier; checks initializations.
    fn initialized(&mut self, context: &Context, raw_findings: &mut RawFindings, access: &Access<'_>) {
        if !matches!(context.program.op(access.pc), Op::Mbarrier(mbarrier) if mbarrier.action == MbarrierOp::Init)
        {
            return;
        }
        for lane in lanes_of(access.lanes) {
            let Ok(address) = u32::try_from(access.addresses.0[lane]) else { continue };
            let last = self.cells.get(at(address / 4)).and_then(Cell::writer);
            if last.is_some_and(|(write, _)| context.sites.get(write.pc).kind == Kind::Mbarrier) {
                let who = (access.block, Who::new(access.warp, lane));
                self.mbarriers.initialize(context, raw_findings, who, access.pc, address);
            }
        }
    }

    fn report(
        &self,
        context: &Context,
        raw_findings: &mut RawFindings,
        copies: &Copies,
        race: &Race,
        (conflict, address, rounded): (&Conflict, u32, bool),
    ) {
        // An asynchronous agent is named by the thread that it acts for.
        let conflict = &Conflict { block: context.issuer(conflict.block, race.block), ..*conflict };
        let kinds = [context.sites.get(race.access.pc).kind, context.sites.get(conflict.other.pc).kind];
        let multiplies = |pc: u32| matches!(context.program.op(pc), Op::MultiplyAsync(_) | Op::Tensor(_));
        let class = if kinds.contains(&Kind::Mbarrier) {
            Class::Mbarrier
        } else if race.wrote && multiplies(conflict.other.pc) {
            Class::AsyncMultiply
        } else if conflict.pending || kinds.contains(&Kind::Copy) {
            Class::AsyncCopy
        } else {
            Class::SharedRace
        };
        let same_value = race.wrote
            && conflict.wrote
            && race.unchanged
            && !race.access.strong
            && !conflict.other.strong
            && class == Class::SharedRace;
        let (here, there) = (race.access.pc, conflict.other.pc);
        let one_instruction = race.wrote && conflict.wrote && class == Class::SharedRace && here == there;
        let replicated = context.replicated.as_ref().filter(|_| one_instruction);
        if same_value && replicated.is_some() {
            return;
        }
        let fused = rounded && replicated.is_some();
        let severity = if same_value || fused { Severity::Note } else { Severity::Error };
        let key = if class == Class::SharedRace {
            // The order of the two accesses does not matter: the fix is the same.
            (class, here.min(there), here.max(there), 0)
        } else {
            (class, here, there, u32::from(conflict.pending))
        };
        raw_findings.add_reaching(key, severity, reach(race, conflict), || {
            if fused {
                return fused_product(context, race, conflict);
            }
            if class == Class::AsyncMultiply {
                return multiply::overwritten(context, race, conflict, address);
            }
            let mut raw = describe(context, race, conflict, class, severity, Space::Shared);
            if let Some(name) = context.shared_name(address) {
                raw.notes.push(format!("the bytes are those of `{name}`, from shared address {address:#x}"));
            }
            let bulk = class == Class::AsyncCopy && explain_bulk(&mut raw, context, race, conflict);
            if class != Class::Mbarrier && !conflict.pending {
                let [earlier, later] = [(conflict.block, conflict.other.who), (race.block, race.access.who)];
                self.mbarriers.explain(&mut raw, context, earlier, later);
            }
            if bulk {
                return raw;
            }
            if class == Class::AsyncCopy {
                explain_copy(&mut raw, copies, race, conflict, address);
            } else if class == Class::Mbarrier && self.mbarriers.again(address) {
                raw.help = Some(
                    "put a barrier after the last use, execute mbarrier.inval, then initialize the mbarrier: it is \
                     initialized again while threads still use it"
                        .to_owned(),
                );
            }
            raw
        });
    }
}

/// The finding for threads that hold the same element and round it differently.
fn fused_product(context: &Context, race: &Race, conflict: &Conflict) -> Raw {
    let raw = describe(context, race, conflict, Class::SharedRace, Severity::Error, Space::Shared);
    let note = "Triton lets both threads compute this sum and store it. The compiler fused a product into the sum behind \
                a shuffle, so the threads round it differently, and which of the two values is kept is undefined";
    Raw {
        severity: Severity::Note,
        notes: vec![note.to_owned()],
        help: Some(
            "launch the kernel with enable_fp_fusion=False to get the same bits in every run".to_owned(),
        ),
        ..raw
    }
}

/// Sets the help for a conflict between an access and a bulk copy; returns whether one of the two is one.
fn explain_bulk(raw: &mut Raw, context: &Context, race: &Race, conflict: &Conflict) -> bool {
    let is_bulk = |pc: u32| matches!(context.program.op(pc), Op::Bulk(_));
    let help = if is_bulk(conflict.other.pc) && !conflict.wrote {
        "execute cp.async.bulk.wait_group.read in the thread that issued the copy, and a barrier if another thread writes, \
         before the source is written again"
    } else if is_bulk(conflict.other.pc) {
        "wait for the mbarrier on which the copy completes before the bytes are used: mbarrier.try_wait in every thread that \
         uses them, or in one thread followed by a barrier"
    } else if is_bulk(race.access.pc) && !conflict.wrote {
        "let the readers arrive at an mbarrier or a barrier after their last read, and wait for it before the copy that \
         refills the buffer"
    } else if is_bulk(race.access.pc) {
        "put a barrier between the write and the copy"
    } else {
        return false;
    };
    raw.help = Some(help.to_owned());
    true
}

/// Sets the help for a conflict between an access and an asynchronous copy.
fn explain_copy(raw: &mut Raw, copies: &Copies, race: &Race, conflict: &Conflict, address: u32) {
    let barrier = if reach(race, conflict) == Reach::Warp { "__syncwarp()" } else { "__syncthreads()" };
    if conflict.pending {
        let same_thread = race.access.who == conflict.other.who;
        let then = if same_thread { String::new() } else { format!(", then a {barrier}") };
        match copies.of(conflict.other.who, address) {
            Some(copy) => copies.explain(raw, &copy, race.block, &then),
            None => raw.help = Some(format!("wait for the copy's group first{then}")),
        }
    } else if race.wrote && !conflict.wrote {
        raw.help =
            Some(format!("put a {barrier} between the last read of the buffer and the copy that refills it"));
    } else {
        raw.help = Some(format!(
            "put a {barrier} after the wait: waiting makes copies visible only to the thread that issued them"
        ));
    }
}

/// Adds a conflict, unless one with the same instruction is already in the list.
pub(crate) fn add_conflict(found: &mut Vec<Conflict>, conflict: Option<Conflict>) {
    if let Some(conflict) = conflict
        && !found.iter().any(|known| known.other.pc == conflict.other.pc && known.wrote == conflict.wrote)
    {
        found.push(conflict);
    }
}

/// Applies one access to one cell.
fn act(
    touch: &Touch<'_>,
    cell: &mut Cell,
    owner: &mut Owner,
    spill: &mut Spill,
    kind: AccessKind,
    pending: bool,
) -> Option<Conflict> {
    match kind {
        AccessKind::Read => touch.read(cell, owner, spill),
        AccessKind::Write => touch.write(cell, owner, spill, Write { pending, same: touch.unchanged }),
        AccessKind::Atomic => touch.modify(cell, owner, spill),
    }
}

/// Performs the release and the acquire of a strong access. Addresses at which nothing was ever released are not
/// recorded: kernels can have many plain counters.
pub(crate) fn exchange<A: Ord + std::marker::Copy>(
    variables: &mut BTreeMap<A, Variable>,
    address: A,
    order: &mut Order,
    fences: &mut Fences,
    access: &Access<'_>,
    who: Who,
    ordering: super::site::Ordering,
) {
    let Some(scope) = ordering.strong else { return };
    if access.kind != AccessKind::Write
        && let Some(variable) = variables.get(&address)
    {
        let device = variable.seen(access.block, scope);
        if !device.is_empty() && ordering.acquire {
            order.acquire(who, &device);
        } else if !device.is_empty() {
            let block = variable.seen(access.block, Scope::Block);
            fences.saw(who, &Scoped { block, device });
        }
        fences.carry(who, &variable.covered(access.block, scope));
    }
    if access.kind != AccessKind::Read {
        let keeps = access.kind == AccessKind::Atomic;
        let covered = fences.covered(who);
        if ordering.release {
            let clock = order.release(who);
            variables.entry(address).or_default().write(access.block, Some((clock, scope)), keeps);
        } else if let Some(released) = fences.released(who) {
            let variable = variables.entry(address).or_default();
            variable.write(access.block, Some((released.block.clone(), Scope::Block)), keeps);
            if scope == Scope::Device {
                variable.write(access.block, Some((released.device.clone(), Scope::Device)), true);
            }
        } else if !keeps {
            variables.remove(&address);
        }
        if !covered.is_empty() {
            variables.entry(address).or_default().cover(access.block, &covered, scope);
        }
    }
}

/// Whether two lanes of a warp store the same value with one instruction. CUDA defines the outcome: one of the stores
/// is performed, and which one makes no difference.
pub(crate) fn one_store(race: &Race, conflict: &Conflict) -> bool {
    let (here, there) = (race.access, conflict.other);
    let stores = race.wrote && conflict.wrote && !conflict.pending && !here.strong && !there.strong;
    let together = here.pc.min(UNKNOWN_SITE) == there.pc && here.time == there.time;
    stores && together && race.unchanged && reach(race, conflict) == Reach::Warp
}

/// Whether the two threads are in one warp, in one block, or in different blocks.
pub(crate) fn reach(race: &Race, conflict: &Conflict) -> Reach {
    if conflict.block != race.block {
        Reach::Grid
    } else if conflict.thread_known && conflict.other.who.warp() == race.access.who.warp() {
        Reach::Warp
    } else {
        Reach::Block
    }
}

/// The later of two accesses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Race {
    pub block: u32,
    pub access: Stamp,
    pub wrote: bool,
    pub unchanged: bool,
}

/// The finding: the message, the two accesses and the help.
pub(crate) fn describe(
    context: &Context,
    race: &Race,
    conflict: &Conflict,
    class: Class,
    severity: Severity,
    space: Space,
) -> Raw {
    let block = race.block;
    let name = |block: u32, who: Who| context.thread(block, u32::from(who.0));
    let (here, there) =
        (context.verb(race.access.pc, race.wrote), context.verb(conflict.other.pc, conflict.wrote));
    let other = if conflict.thread_known {
        name(conflict.block, conflict.other.who).to_string()
    } else {
        "another thread".to_owned()
    };
    let me = name(block, race.access.who);
    let memory = space.name();
    let own = conflict.thread_known && conflict.block == block && conflict.other.who == race.access.who;
    let sentence = if conflict.pending && own {
        format!("{here} of {memory} memory by {me} while an asynchronous copy that it issued is in flight")
    } else if conflict.pending {
        format!(
            "{here} of {memory} memory by {me} while the asynchronous copy issued by {other} is in flight"
        )
    } else if class == Class::Mbarrier {
        format!("{here} of an mbarrier by {me}, unordered with the {there} by {other}")
    } else if severity == Severity::Note {
        format!("{other} and {me} write the same value to {memory} memory without synchronization")
    } else {
        format!("data race on {memory} memory: {there} by {other} and {here} by {me}")
    };
    let reach = reach(race, conflict);
    let help = if reach == Reach::Grid && !context.modifies(race.access.pc, conflict.other.pc) {
        "move one of the two accesses to another launch, or order the blocks by a fence and a flag".to_owned()
    } else if class == Class::Mbarrier {
        let barrier = if reach == Reach::Warp { "__syncwarp()" } else { "__syncthreads()" };
        format!("put a {barrier} between the initialization and the use")
    } else if race.wrote && conflict.wrote && !race.access.strong && race.access.pc == conflict.other.pc {
        "let one thread write, or give each thread its own element".to_owned()
    } else if context.modifies(race.access.pc, conflict.other.pc) {
        "use an atomic such as atomicAdd(), or give each thread its own element".to_owned()
    } else if reach == Reach::Warp {
        "put a __syncwarp() between the two".to_owned()
    } else {
        "put a __syncthreads() between the two".to_owned()
    };
    let spot =
        |label: &str, pc: u32, thread: Option<(u32, u32)>| Spot { label: label.to_owned(), pc, thread };
    Raw {
        class,
        severity,
        sentence,
        spots: vec![
            spot(&format!("the {here}"), race.access.pc, Some((block, u32::from(race.access.who.0)))),
            spot(
                &format!("the {}{there}", if here == there { "other " } else { "" }),
                conflict.other.pc,
                conflict.thread_known.then_some((conflict.block, u32::from(conflict.other.who.0))),
            ),
        ],
        notes: Vec::new(),
        help: Some(help),
        count: 1,
    }
}
