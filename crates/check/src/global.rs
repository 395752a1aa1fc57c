//! Data races in global memory: within a block, and between blocks.
//!
//! Within a block, the rules are the same as for shared memory. Between blocks, it depends on the kernel. If its blocks
//! cannot communicate (no fences, no volatile or ordered accesses, no atomics except reductions), nothing orders them, and any
//! two blocks race if they access the same bytes and one of them writes, unless both accesses are atomics: each block records
//! its own accesses, and they are compared in block order when the block has ended. If blocks can communicate, they run
//! interleaved and record their accesses in one common shadow memory, where a release that is acquired orders them within its
//! scope.
//!
//! Reads of inputs are not recorded if writes to inputs are reported as findings of their own.
//!
//! Can miss: accesses that the compiler has removed. Never reports: two strong accesses whose scopes include both
//! threads.

mod between;
mod reduced;

pub(crate) use between::Between;
use between::{Done, slots};
use reduced::{Reduced, ReducedPages};

use super::clock::{Fences, Order, Who};
use super::context::Context;
use super::copies::Copies;
use super::history::{Conflict, Touch, Write, stamp};
use super::race::{Race, Variable, describe, exchange, one_store, reach};
use super::raw::{Raw, RawFindings};
use super::shadow::{Cell, Owner, Quiet, Spill, Stamp};
use super::site::{Kind, Scope};
use super::unused::{Doubt, UnusedReads};
use super::{Class, Severity};
use foldhash::fast::FixedState;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::{Arc, Mutex};
use warpproof_sim::isa::Op;
use warpproof_sim::machine::{Access, AccessKind, at, lanes_of};
use warpproof_sim::memory::Space;
use warpproof_sim::observe::{AsyncCopy, BulkCopy, Issue};

/// Words in a page.
const PAGE: usize = 64;
/// Bytes of global memory that a page covers.
const PAGE_BYTES: u64 = 256;

/// The history of a word of global memory.
#[derive(Clone, Copy, Debug, Default)]
struct GlobalCell {
    cell: Cell,
    owner: Owner,
    /// The value written last, if known.
    value: Option<u32>,
    /// Whether different values were written.
    varied: bool,
}

impl GlobalCell {
    /// Records the value of a write.
    fn wrote(&mut self, value: Option<u32>, first: bool) {
        self.varied |= !first && (value.is_none() || value != self.value);
        self.value = value;
    }

    /// What [`meet`] leaves of the block's accesses to a whole word if it is the first block to access the word.
    fn of_block(self, block: u32, spill: &Spill) -> GlobalCell {
        let Done { read, write } = Done::of(&self.cell, &self.owner, spill);
        let mut all = GlobalCell::default();
        if let Some(read) = read {
            all.cell.set_read(read);
            all.owner.read = block;
        }
        if let Some(write) = write {
            all.cell.add_write(write);
            all.owner.write = block;
            all.value = self.value.filter(|_| !self.varied);
        }
        all
    }
}

#[derive(Clone, Debug)]
struct Page {
    /// Words that were accessed, one bit each.
    touched: u64,
    cells: [GlobalCell; PAGE],
}

/// The shadow of global memory: the pages that were accessed.
#[derive(Debug, Default)]
pub(crate) struct Pages {
    index: HashMap<u64, usize>,
    list: Vec<(u64, Box<Page>)>,
    spill: Spill,
    last: Option<(u64, usize)>,
    /// The atomics of blocks that record their own accesses.
    reduced: ReducedPages,
    /// Maximum number of pages.
    limit: usize,
    /// Whether the limit was reached, so that some accesses are missing.
    pub full: bool,
}

impl Pages {
    pub(crate) fn new(bytes: u64) -> Pages {
        let limit =
            usize::try_from(bytes / u64::try_from(size_of::<Page>()).unwrap_or(1)).unwrap_or(usize::MAX);
        Pages { limit: limit.max(16), ..Pages::default() }
    }

    #[inline]
    fn page(&mut self, number: u64) -> Option<usize> {
        match self.last {
            Some((known, i)) if known == number => Some(i),
            _ => self.find(number),
        }
    }

    /// Whether another page can be kept. If not, takes note of that.
    fn has_room(&mut self) -> bool {
        let others = self.spill.bytes() + self.reduced.len() * size_of::<[Reduced; PAGE]>();
        let room = self.list.len() + others / size_of::<Page>() < self.limit;
        self.full |= !room;
        room
    }

    /// A page other than the one looked at last.
    fn find(&mut self, number: u64) -> Option<usize> {
        let i = match self.index.get(&number).copied() {
            Some(i) => i,
            None if !self.has_room() => return None,
            None => {
                let page = Page { touched: 0, cells: [GlobalCell::default(); PAGE] };
                self.list.push((number, Box::new(page)));
                self.index.insert(number, self.list.len() - 1);
                self.list.len() - 1
            }
        };
        self.last = Some((number, i));
        Some(i)
    }

    /// Takes a page of a block that is the first to access it; returns any other page.
    fn adopt(&mut self, number: u64, mut page: Box<Page>, block: u32, spill: &Spill) -> Option<Box<Page>> {
        let split = |page: &Page| slots(page.touched).any(|slot| page.cells[slot].cell.parts().is_some());
        if self.index.contains_key(&number) || split(&page) || !self.has_room() {
            return Some(page);
        }
        for slot in slots(page.touched) {
            page.cells[slot] = page.cells[slot].of_block(block, spill);
        }
        self.index.insert(number, self.list.len());
        self.list.push((number, page));
        None
    }

    /// Takes a word of a block that is the first to access it; returns whether it is.
    fn adopt_word(&mut self, number: u64, slot: usize, word: impl FnOnce() -> GlobalCell) -> bool {
        let Some(page) = self.page(number) else { return false };
        let all = &mut self.list[page].1.cells[slot];
        let first = all.cell.is_empty();
        if first {
            *all = word();
        }
        first
    }

    /// Who wrote a byte last.
    fn writer(&mut self, address: u64) -> Option<(Stamp, u32)> {
        let page = self.page(address / PAGE_BYTES)?;
        let slot = usize::try_from(address / 4).unwrap_or(0) % PAGE;
        let GlobalCell { cell, owner, .. } = &self.list[page].1.cells[slot];
        let (cell, owner) = match cell.parts() {
            Some(parts) => self.spill.part(parts, usize::try_from(address % 4).unwrap_or(0)),
            None => (*cell, *owner),
        };
        cell.writer().map(|(stamp, _)| (stamp, owner.write))
    }

    /// The fast path for the common case: whole words that no other thread has accessed since the block's last barrier,
    /// or that were only read. Returns whether all words were that case; if not, the slow path records the access again
    /// from the start.
    fn quietly(
        &mut self,
        block: u32,
        address: u64,
        (reads, kind): (bool, Kind),
        (floor, warp_floor, now, bits): (u32, u32, u32, u32),
        words: &[warpproof_sim::machine::Row<u32>],
        (lane, count): (usize, u64),
    ) -> bool {
        for i in 0..count {
            let address = address + 4 * i;
            let Some(page) = self.page(address / PAGE_BYTES) else { return true };
            let slot = usize::try_from(address % PAGE_BYTES / 4).unwrap_or(0);
            let page = &mut self.list[page].1;
            let word = &mut page.cells[slot];
            let first = !word.cell.written();
            let GlobalCell { cell, owner, .. } = word;
            if kind == Kind::ReadOnly && !first {
                return false;
            }
            let quiet = if reads {
                let quiet = cell.read_quietly((floor, warp_floor, now), bits);
                if quiet == Quiet::Second {
                    owner.second = bits;
                }
                quiet != Quiet::No
            } else {
                cell.write_quietly(floor, now, bits)
            };
            if !quiet {
                return false;
            }
            page.touched |= 1 << slot;
            if reads {
                owner.read = block;
                if first {
                    owner.expose(now, bits);
                }
            } else {
                owner.write = block;
                word.wrote(usize::try_from(i).ok().and_then(|i| words.get(i)).map(|row| row.0[lane]), first);
            }
        }
        true
    }

    /// All earlier accesses to some bytes that an access conflicts with, if every reader is recorded.
    fn conflicts(&mut self, touch: &Touch<'_>, address: u64, bytes: u32, found: &mut Vec<Conflict>) {
        let end = address.saturating_add(u64::from(bytes));
        let mut byte = address;
        while byte < end {
            let next = (byte | 3).saturating_add(1).min(end);
            let Some(page) = self.page(byte / PAGE_BYTES) else { return };
            let slot = usize::try_from(byte / 4).unwrap_or(0) % PAGE;
            let GlobalCell { cell, owner, .. } = self.list[page].1.cells[slot];
            match cell.parts() {
                None => touch.with_everyone(&cell, &self.spill, owner, found),
                Some(parts) => {
                    for byte in byte..next {
                        let part = self.spill.part(parts, usize::try_from(byte % 4).unwrap_or(0));
                        touch.with_everyone(&part.0, &self.spill, part.1, found);
                    }
                }
            }
            byte = next;
        }
    }

    /// Applies an access to the cells of its bytes. Adds the conflicts, one for each conflicting instruction, and whether
    /// both wrote the same value to all words of the conflict.
    fn touch(
        &mut self,
        touch: &Touch<'_>,
        address: u64,
        bytes: u32,
        kind: AccessKind,
        words: impl Fn(usize) -> Option<u32>,
        found: &mut Vec<(Conflict, bool)>,
    ) {
        let end = address.saturating_add(u64::from(bytes));
        let mut word = address & !3;
        while word < end {
            let Some(page) = self.page(word / PAGE_BYTES) else { return };
            let slot = usize::try_from(word / 4).unwrap_or(0) % PAGE;
            let Pages { list, spill, .. } = self;
            let page = &mut list[page].1;
            page.touched |= 1 << slot;
            let GlobalCell { cell, owner, value, .. } = &mut page.cells[slot];
            let unwritten = !cell.written();
            let first = usize::try_from(address.saturating_sub(word)).unwrap_or(0);
            let last = usize::try_from(end - word).unwrap_or(4).min(4);
            let whole = first == 0 && last == 4;
            let given =
                words(usize::try_from(word.saturating_sub(address) / 4).unwrap_or(0)).filter(|_| whole);
            let same = touch.unchanged || (given.is_some() && given == *value);
            if whole && cell.parts().is_none() {
                let conflict = act(touch, cell, owner, spill, (kind, same));
                add_conflict(found, conflict, same);
            } else {
                let parts = spill.split(cell, *owner);
                for byte in first..last {
                    let (mut part, mut owner) = spill.part(parts, byte);
                    let conflict = act(touch, &mut part, &mut owner, spill, (kind, touch.unchanged));
                    spill.set_part(parts, byte, part, owner);
                    add_conflict(found, conflict, touch.unchanged);
                }
            }
            if kind != AccessKind::Read {
                page.cells[slot].wrote(given, unwritten);
            }
            word += 4;
        }
    }
}

/// Adds a conflict, or merges it with that of the same instruction.
fn add_conflict(found: &mut Vec<(Conflict, bool)>, conflict: Option<Conflict>, same: bool) {
    let Some(conflict) = conflict else { return };
    let alike = |(known, _): &&mut (Conflict, bool)| {
        known.other.pc == conflict.other.pc && known.wrote == conflict.wrote
    };
    match found.iter_mut().find(alike) {
        Some((_, all)) => *all &= same,
        None => found.push((conflict, same)),
    }
}

/// Applies one access to one cell; `same`: it writes the same value as the last write.
fn act(
    touch: &Touch<'_>,
    cell: &mut Cell,
    owner: &mut Owner,
    spill: &mut Spill,
    (kind, same): (AccessKind, bool),
) -> Option<Conflict> {
    match kind {
        AccessKind::Read => {
            if !cell.written() {
                owner.expose(touch.stamp.time, touch.stamp.bits());
            }
            touch.read(cell, owner, spill)
        }
        AccessKind::Write => touch.write(cell, owner, spill, Write { pending: false, same }),
        AccessKind::Atomic => touch.modify(cell, owner, spill),
    }
}

/// The state shared by blocks that can communicate.
#[derive(Debug)]
pub(crate) struct Together {
    pages: Pages,
    variables: BTreeMap<u64, Variable>,
}

impl Together {
    pub(crate) fn new(bytes: u64) -> Together {
        Together { pages: Pages::new(bytes), variables: BTreeMap::new() }
    }

    /// The instruction that wrote a byte last.
    pub(crate) fn writer(&mut self, address: u64) -> Option<u32> {
        self.pages.writer(address).map(|(stamp, _)| stamp.pc)
    }

    pub(crate) fn full(&self) -> bool {
        self.pages.full
    }
}

/// Sources of copies in flight.
#[derive(Debug, Default)]
struct Sources {
    /// By their first byte, the thread that issued them and their destination.
    copies: HashMap<(u64, u32, u32, u32), AsyncCopy, FixedState>,
    /// No source is outside of these bytes.
    bounds: Range<u64>,
}

impl Sources {
    fn is_empty(&self) -> bool {
        self.copies.is_empty()
    }

    fn insert(&mut self, copy: &AsyncCopy) {
        let end = copy.from.saturating_add(u64::from(copy.read));
        let Range { start, end: known } = self.bounds;
        self.bounds = if self.is_empty() { copy.from..end } else { start.min(copy.from)..known.max(end) };
        self.copies.insert((copy.from, copy.warp, copy.lane, copy.to), *copy);
    }

    fn remove(&mut self, copy: &AsyncCopy) {
        self.copies.remove(&(copy.from, copy.warp, copy.lane, copy.to));
    }

    /// The copies that read some of these bytes, in the order of their keys.
    fn reading(&self, bytes: Range<u64>) -> impl Iterator<Item = &AsyncCopy> {
        let apart = bytes.end <= self.bounds.start || self.bounds.end <= bytes.start;
        let reads = move |(_, copy): &(_, &AsyncCopy)| {
            copy.from < bytes.end && bytes.start < copy.from.saturating_add(u64::from(copy.read))
        };
        let all = if apart { None } else { Some(self.copies.iter().filter(reads)) };
        let mut near: Vec<_> = all.into_iter().flatten().collect();
        near.sort_unstable_by_key(|(key, _)| **key);
        near.into_iter().map(|(_, copy)| copy)
    }
}

/// The races of one block in global memory.
pub(crate) struct GlobalRace {
    own: Pages,
    together: Option<Arc<Mutex<Together>>>,
    sources: Sources,
    unused: UnusedReads,
}

impl GlobalRace {
    pub(crate) fn new(context: &Context, together: Option<Arc<Mutex<Together>>>) -> GlobalRace {
        GlobalRace {
            own: Pages::new(context.settings.memory / 16),
            together,
            sources: Sources::default(),
            unused: UnusedReads::new(context),
        }
    }

    /// An instruction is executed by some lanes.
    #[inline]
    pub(crate) fn issue(&mut self, context: &Context, issue: &Issue<'_>) {
        self.unused.issue(context, issue.pc, issue.warp, issue.exec);
    }

    /// Lanes exit.
    pub(crate) fn exit(&mut self, warp: u32, lanes: u32) {
        self.unused.exit(warp, lanes);
    }

    /// Reports the races of reads whose effect was not known before. Must be called when the block has ended.
    pub(crate) fn finish(&mut self, context: &Context, raw_findings: &mut RawFindings) {
        for (effect, Doubt { race, conflict, count }) in self.unused.decide(context) {
            report(context, raw_findings, &race, &conflict, (effect, count));
        }
    }

    /// The block's accesses, for comparison with other blocks.
    pub(crate) fn into_pages(self) -> Pages {
        self.own
    }

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
        let strong = site.ordering.strong;
        if access.kind == AccessKind::Read && strong.is_none() && context.all_input(access) {
            return;
        }
        let together = self.together.clone();
        let mut guard = together.as_ref().and_then(|together| together.lock().ok());
        let reads = access.kind == AccessKind::Read;
        let (barriers_only, exact) = (context.sites.barriers_only, exact(context, guard.is_some()));
        let sinks = Some(&context.sinks).filter(|sinks| !sinks.is_empty());
        let doubtful = sinks.filter(|sinks| !reads || sinks.doubtful(access.pc));
        let alone = guard.is_none();
        let plain = alone
            && !context.plain
            && strong.is_none()
            && !site.volatile
            && access.kind != AccessKind::Atomic
            && access.bytes.is_multiple_of(4)
            && (!reads || !exact)
            && (reads || self.sources.is_empty());
        let (floor, now) = (order.floor(), order.now());
        let warp_floor = order.warp_floor(at(access.warp));
        let first = stamp(order, Who::new(access.warp, 0), access.pc, None).bits();
        let mut found = Vec::new();
        for lane in lanes_of(access.lanes) {
            let who = Who::new(access.warp, lane);
            let address = access.addresses.0[lane];
            if plain && address.is_multiple_of(4) {
                let times = (floor, warp_floor, now, first | u32::try_from(lane).unwrap_or(0));
                let span = (lane, u64::from(access.bytes / 4));
                if self.own.quietly(access.block, address, (reads, site.kind), times, access.words, span) {
                    continue;
                }
            }
            let stamp = stamp(order, who, access.pc, strong);
            let stamp = if site.volatile { stamp.volatile() } else { stamp };
            let unchanged = access.unchanged >> lane & 1 != 0;
            let touch =
                Touch { order, block: access.block, stamp, barriers_only, exact, doubtful, unchanged };
            let word = |i: usize| access.words.get(i).map(|row| row.0[lane]);
            let pages = match &mut guard {
                Some(together) => &mut together.pages,
                None => &mut self.own,
            };
            if alone && access.kind == AccessKind::Atomic {
                pages.reduce(access.block, stamp, address, access.bytes);
            }
            if site.kind == Kind::ReadOnly
                && let Some((other, block)) =
                    (0..u64::from(access.bytes)).find_map(|byte| pages.writer(address.saturating_add(byte)))
            {
                // This includes the thread's own writes and writes before a barrier: the read-only cache is not
                // coherent.
                let race = Race { block: access.block, access: stamp, wrote: false, unchanged: false };
                let conflict = Conflict { other, block, wrote: true, pending: false, thread_known: true };
                report(context, raw_findings, &race, &conflict, (true, 1));
            } else {
                let mut readers = Vec::new();
                if !reads && doubtful.is_some() {
                    pages.conflicts(&touch, address, access.bytes, &mut readers);
                    readers.retain(|conflict| !conflict.wrote);
                }
                pages.touch(&touch, address, access.bytes, access.kind, word, &mut found);
                if !readers.is_empty() && found.iter().any(|(conflict, _)| !conflict.wrote) {
                    // A reader whose value has no effect does not stand for the others.
                    found.retain(|(conflict, _)| conflict.wrote);
                    found.extend(readers.into_iter().map(|conflict| (conflict, false)));
                }
                for (conflict, unchanged) in found.drain(..) {
                    let race = Race { block: access.block, access: stamp, wrote: !reads, unchanged };
                    if !self.unused.keep(context, &race, &conflict) && !one_store(&race, &conflict) {
                        report(context, raw_findings, &race, &conflict, (true, 1));
                    }
                }
            }
            if access.kind != AccessKind::Read && !self.sources.is_empty() {
                self.overwritten(context, raw_findings, copies, access, (who, address));
            }
            if let (Some(together), true) = (&mut guard, strong.is_some()) {
                exchange(&mut together.variables, address, order, fences, access, who, site.ordering);
            }
        }
    }

    /// A copy is issued: from now on it reads its source, as a read of its thread.
    pub(crate) fn copy_issued(
        &mut self,
        context: &Context,
        order: &Order,
        raw_findings: &mut RawFindings,
        block: u32,
        copy: &AsyncCopy,
    ) {
        if copy.read > 0 {
            let stamp = stamp(order, Who::new(copy.warp, at(copy.lane)), copy.pc, None);
            let together = self.together.clone();
            let mut guard = together.as_ref().and_then(|together| together.lock().ok());
            let (barriers_only, exact) = (context.sites.barriers_only, exact(context, guard.is_some()));
            let touch = Touch { order, block, stamp, barriers_only, exact, doubtful: None, unchanged: false };
            let pages = match &mut guard {
                Some(together) => &mut together.pages,
                None => &mut self.own,
            };
            let input = context.is_input(copy.from);
            let mut found = Vec::new();
            if !input {
                pages.touch(&touch, copy.from, copy.read, AccessKind::Read, |_| None, &mut found);
            }
            for (conflict, _) in found {
                let race = Race { block, access: stamp, wrote: false, unchanged: false };
                report(context, raw_findings, &race, &conflict, (true, 1));
            }
            self.sources.insert(copy);
        }
    }

    /// A thread issues a bulk copy from or to global memory; a reduction may be concurrent with others.
    pub(crate) fn bulk(
        &mut self,
        context: &Context,
        order: &Order,
        raw_findings: &mut RawFindings,
        block: u32,
        copy: &BulkCopy,
    ) {
        for ((space, address), reads) in [(copy.from, true), (copy.to, false)] {
            if space != Space::Global || copy.bytes == 0 || reads && context.is_input(address) {
                continue;
            }
            let strong = (copy.reduces && !reads).then_some(Scope::Device);
            let stamp = stamp(order, Who::new(copy.warp, at(copy.lane)), copy.pc, strong);
            let together = self.together.clone();
            let mut guard = together.as_ref().and_then(|together| together.lock().ok());
            let (barriers_only, exact) = (context.sites.barriers_only, exact(context, guard.is_some()));
            let touch = Touch { order, block, stamp, barriers_only, exact, doubtful: None, unchanged: false };
            let alone = guard.is_none();
            let pages = match &mut guard {
                Some(together) => &mut together.pages,
                None => &mut self.own,
            };
            let kind = match (reads, strong) {
                (true, _) => AccessKind::Read,
                (false, Some(_)) => AccessKind::Atomic,
                (false, None) => AccessKind::Write,
            };
            let mut found = Vec::new();
            if alone && kind == AccessKind::Atomic {
                pages.reduce(block, stamp, address, copy.bytes);
            }
            pages.touch(&touch, address, copy.bytes, kind, |_| None, &mut found);
            for (conflict, _) in found {
                let race = Race { block, access: stamp, wrote: !reads, unchanged: false };
                report(context, raw_findings, &race, &conflict, (true, 1));
            }
        }
    }

    pub(crate) fn copy_done(&mut self, copy: &AsyncCopy) {
        self.sources.remove(copy);
    }

    /// Reports a write to bytes that a copy in flight may still read.
    fn overwritten(
        &self,
        context: &Context,
        raw_findings: &mut RawFindings,
        copies: &Copies,
        access: &Access<'_>,
        (who, address): (Who, u64),
    ) {
        let end = address.saturating_add(u64::from(access.bytes));
        for copy in self.sources.reading(address..end) {
            let other = Stamp {
                time: 0,
                who: Who::new(copy.warp, at(copy.lane)),
                pc: copy.pc,
                strong: false,
                narrow: false,
                modified: false,
            };
            let key = (Class::AsyncCopy, access.pc, copy.pc, 2);
            raw_findings.add(key, Severity::Error, || {
                let me = Stamp { who, pc: access.pc, ..other };
                let race = Race { block: access.block, access: me, wrote: true, unchanged: false };
                let conflict =
                    Conflict { other, block: access.block, wrote: false, pending: true, thread_known: true };
                let mut raw =
                    describe(context, &race, &conflict, Class::AsyncCopy, Severity::Error, Space::Global);
                copies.explain(&mut raw, copy, access.block, " before the source is written");
                raw
            });
        }
    }
}

/// Whether every reader is recorded: threads can be ordered by more than barriers of the block, or a read does not stand
/// for others.
fn exact(context: &Context, together: bool) -> bool {
    together || !context.sites.barriers_only || !context.sinks.is_empty()
}

/// Reports `count` occurrences of a race; `effect`: what the read of the two has read has an effect.
fn report(
    context: &Context,
    raw_findings: &mut RawFindings,
    race: &Race,
    conflict: &Conflict,
    (effect, count): (bool, u64),
) {
    let weak = !race.access.strong && !conflict.other.strong;
    let same_value = race.wrote && conflict.wrote && race.unchanged && weak;
    let severity = if same_value || !effect { Severity::Note } else { Severity::Error };
    let class = Class::GlobalRace;
    let (low, high) = (race.access.pc.min(conflict.other.pc), race.access.pc.max(conflict.other.pc));
    let key = (class, low, high, 0);
    raw_findings.add_times(key, severity, reach(race, conflict), count, || {
        if !effect {
            let raw = describe(context, race, conflict, class, Severity::Error, Space::Global);
            let sentence = format!("{}; the value that was read has no effect", raw.sentence);
            return Raw { severity, sentence, help: None, ..raw };
        }
        let mut raw = describe(context, race, conflict, class, severity, Space::Global);
        let narrow = race.access.strong
            && conflict.other.strong
            && (race.access.narrow || conflict.other.narrow)
            && race.block != conflict.block;
        let read_only = [race.access.pc, conflict.other.pc]
            .iter()
            .any(|pc| context.sites.get(*pc).kind == Kind::ReadOnly);
        let image = [race.access.pc, conflict.other.pc]
            .iter()
            .any(|pc| matches!(context.program.op(*pc), Op::Texture(_) | Op::SurfaceLoad(_)));
        if narrow {
            raw.help = Some(
                "use device scope: the access has block scope, but other blocks use the address too"
                    .to_owned(),
            );
        } else if read_only && image {
            raw.notes.push(
                "textures and surfaces are read through a cache that stores of the same launch do not update".to_owned(),
            );
            raw.help = Some("write the texels in an earlier launch".to_owned());
        } else if read_only {
            raw.notes.push(
                "the read goes through the read-only cache, for data that is not written during the launch".to_owned(),
            );
            raw.help = Some(
                "read it with an ordinary load (not __ldg, not const __restrict__), or write it in an earlier launch"
                    .to_owned(),
            );
        }
        raw
    });
}
