//! Checks whether an access conflicts with earlier ones, and records it in a cell.

use super::clock::{Order, Who};
use super::shadow::{Cell, Many, Owner, Readers, Spill, Stamp};
use super::unused::Sinks;
use warpproof_sim::machine::lanes_of;

/// An earlier access that a later one is not ordered with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Conflict {
    /// The earlier access. If several threads read and the racing one is unknown, `thread_known` is false.
    pub other: Stamp,
    pub block: u32,
    /// Whether the earlier one wrote.
    pub wrote: bool,
    /// Whether it is an asynchronous copy in flight.
    pub pending: bool,
    pub thread_known: bool,
}

/// An access, with the order of threads that it is checked against.
pub(crate) struct Touch<'a> {
    pub order: &'a Order,
    pub block: u32,
    pub stamp: Stamp,
    /// Whether threads are ordered only by barriers of the whole block or of whole warps.
    pub barriers_only: bool,
    /// Whether every reader is recorded.
    pub exact: bool,
    /// Of a read whose value may have no effect, so that it does not stand for other reads: the sinks of the kernel's loads.
    /// The same of a write if the kernel has such reads: a race with one of them is not yet a finding.
    pub doubtful: Option<&'a Sinks>,
    /// Of a write: whether the bytes already had the value.
    pub unchanged: bool,
}

/// How a cell is written.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Write {
    /// By an asynchronous copy in flight.
    pub pending: bool,
    /// The same value as the last write, which conflicts only with reads of an older value.
    pub same: bool,
}

impl Touch<'_> {
    /// Whether two accesses may be concurrent: both are strong, or one is volatile and the other an atomic, with a scope
    /// that includes both threads.
    fn allowed(&self, other: Stamp, block: u32) -> bool {
        let narrow = (self.stamp.in_block() || other.in_block()) && block != self.block;
        let both = |one: Stamp, two: Stamp| one.strong && (two.strong || (one.modified && two.is_volatile()));
        (both(self.stamp, other) || both(other, self.stamp)) && !narrow
    }

    fn conflicts(&self, other: Stamp, block: u32) -> bool {
        !self.allowed(other, block) && !self.order.before_any(block, other.who, other.time, self.stamp.who)
    }

    fn with_writer(&self, cell: &Cell, owner: Owner) -> Option<Conflict> {
        let (other, pending) = cell.writer()?;
        (pending || self.conflicts(other, owner.write)).then_some(Conflict {
            other,
            block: owner.write,
            wrote: true,
            pending,
            thread_known: true,
        })
    }

    /// A conflict with earlier reads; with `modified`, only with those that also wrote (atomics).
    fn with_readers(&self, cell: &Cell, spill: &Spill, owner: Owner, modified: bool) -> Option<Conflict> {
        let conflict = |other: Stamp, block: u32, thread_known: bool| Conflict {
            other,
            block,
            wrote: other.modified,
            pending: false,
            thread_known,
        };
        if let Some(list) = cell.list() {
            let listed = spill.list(list).iter().filter(|readers| readers.stamp.modified || !modified);
            return listed.into_iter().find_map(|readers| {
                readers
                    .stamps()
                    .find(|stamp| self.conflicts(*stamp, readers.block))
                    .map(|stamp| conflict(stamp, readers.block, true))
            });
        }
        let (first, many) = cell.reader()?;
        let me = self.stamp.who;
        let second = Stamp::of(first.time, owner.second);
        // Of the two known readers, one that the writer is not ordered after.
        let other = match many {
            Many::Lanes if first.who == me => second,
            Many::Warps if first.who.warp() == me.warp() => second,
            _ => first,
        };
        if self.allowed(other, owner.read) || (modified && !other.modified) {
            return None;
        }
        let unordered = match many {
            Many::One => self.conflicts(other, owner.read),
            // Readers in one warp: the warp's own lanes are ordered after them once all have synchronized, other warps
            // after a block barrier.
            Many::Lanes if other.who.warp() == me.warp() => {
                other.time > self.order.warp_floor(me.warp()).max(self.order.floor())
            }
            Many::Lanes | Many::Warps => other.time > self.order.floor(),
        };
        unordered.then(|| conflict(other, owner.read, true))
    }

    /// The conflicts with all earlier accesses, if every reader is recorded.
    pub(crate) fn with_everyone(&self, cell: &Cell, spill: &Spill, owner: Owner, found: &mut Vec<Conflict>) {
        found.extend(self.with_writer(cell, owner));
        let mut add = |other: Stamp, block: u32| {
            if self.conflicts(other, block) {
                found.push(Conflict {
                    other,
                    block,
                    wrote: other.modified,
                    pending: false,
                    thread_known: true,
                });
            }
        };
        match cell.list() {
            Some(list) => {
                let readers = spill.list(list).iter();
                readers.for_each(|readers| readers.stamps().for_each(|stamp| add(stamp, readers.block)));
            }
            None => cell.reader().into_iter().for_each(|(stamp, _)| add(stamp, owner.read)),
        }
    }

    /// Reads a cell.
    pub(crate) fn read(&self, cell: &mut Cell, owner: &mut Owner, spill: &mut Spill) -> Option<Conflict> {
        let conflict =
            self.with_writer(cell, *owner).or_else(|| self.with_readers(cell, spill, *owner, true));
        self.remember_read(cell, owner, spill);
        conflict
    }

    /// An atomic: reads and writes a cell in one step. It replaces the atomics before it: it has observed them, so a
    /// thread that is ordered after it is ordered after them too (causality order in the PTX manual's memory model). An
    /// ordinary write that not all threads have seen is still recorded next to it.
    pub(crate) fn modify(&self, cell: &mut Cell, owner: &mut Owner, spill: &mut Spill) -> Option<Conflict> {
        // The floor covers only writes of this block.
        let seen = |write: Stamp| owner.write == self.block && write.time <= self.order.floor();
        let plain = cell.writer().is_some_and(|(write, _)| !write.strong && !seen(write));
        let this = Touch { stamp: Stamp { modified: true, ..self.stamp }, ..*self };
        if !plain {
            return this.write(cell, owner, spill, Write::default());
        }
        let conflict =
            this.with_writer(cell, *owner).or_else(|| this.with_readers(cell, spill, *owner, false));
        this.remember_read(cell, owner, spill);
        conflict
    }

    /// Whether this read can replace an earlier one. One that is doubtful only replaces reads that it has an effect with,
    /// those of the same thread without further sinks, and those that every thread of the block is ordered after.
    fn stands_for(&self, earlier: Stamp, block: u32) -> bool {
        let Some(sinks) = self.doubtful else { return self.stamp.replaces(earlier) };
        let same = earlier.who == self.stamp.who && sinks.include(self.stamp.pc, earlier.pc);
        let over = block == self.block && (same || earlier.time <= self.order.floor());
        self.stamp.replaces(earlier) && over
    }

    fn remember_read(&self, cell: &mut Cell, owner: &mut Owner, spill: &mut Spill) {
        let covered = |other: Stamp, block: u32| {
            self.stands_for(other, block)
                && ((block == self.block && other.who == self.stamp.who)
                    || self.order.before_any(block, other.who, other.time, self.stamp.who))
        };
        if let Some(number) = cell.list() {
            spill.change(number, |list| self.enlist(list));
            if let ([only], false) = (spill.list(number), self.exact)
                && only.stamps().nth(1).is_none()
            {
                spill.drop_list(cell);
                cell.set_read(self.stamp);
                owner.read = self.block;
            }
            return;
        }
        match cell.reader() {
            Some((other, many)) if !self.exact && other.plain() && self.stamp.plain() => {
                let me = self.stamp.who;
                let met = many != Many::Warps
                    && other.who.warp() == me.warp()
                    && other.time <= self.order.warp_floor(me.warp());
                // The first of several reads of one thread stands for all of them.
                if other.time <= self.order.floor() || met {
                    cell.set_read(self.stamp);
                } else {
                    cell.add_read(&mut owner.second, self.stamp);
                }
            }
            Some((other, many)) if many != Many::One || !covered(other, owner.read) => {
                let readers = |stamp: Stamp| Readers::one(owner.read, stamp);
                let mut list = vec![readers(other)];
                if many != Many::One {
                    list.push(readers(Stamp::of(other.time, owner.second)));
                }
                self.enlist(&mut list);
                let number = spill.new_list(list);
                cell.set_list(number);
            }
            _ => {
                cell.set_read(self.stamp);
                owner.read = self.block;
            }
        }
    }

    /// Adds the reader to a list, and removes the readers that are ordered before it.
    fn enlist(&self, list: &mut Vec<Readers>) {
        let me = Readers::one(self.block, self.stamp);
        // The readers of my warp, once I am removed from readers of several warps.
        let mut rest = Vec::new();
        list.retain_mut(|readers| {
            if readers.alike(&me) || !self.stamp.replaces(readers.stamp) {
                return true;
            }
            let mine = Stamp { who: self.stamp.who, ..readers.stamp };
            if readers.include(&me) && self.stands_for(mine, readers.block) {
                let others = Readers { warps: me.warps, lanes: readers.lanes & !me.lanes, ..*readers };
                if readers.warps == me.warps {
                    *readers = others;
                } else {
                    readers.warps &= !me.warps;
                    rest.extend(Some(others).filter(|others| others.lanes != 0));
                }
            }
            if self.doubtful.is_some()
                && (readers.block != self.block || readers.stamp.time > self.order.floor())
            {
                return readers.lanes != 0;
            }
            let seen =
                |stamp: &Stamp| self.order.before_any(readers.block, stamp.who, stamp.time, self.stamp.who);
            readers.lanes != 0 && !readers.stamps().all(|stamp| seen(&stamp))
        });
        list.append(&mut rest);
        let before = list.len();
        self.join(list, me);
        // Rarely, so that a list that does not shrink costs little.
        let long = list.len() > before && before >= 16 && before.is_power_of_two();
        if long && self.barriers_only && self.doubtful.is_some() {
            self.compact(list);
        }
    }

    /// Adds readers to those that read at the same time: to the lanes of their warp, and if they are doubtful, which most
    /// threads of a block can be, to the warps of their lanes.
    fn join(&self, list: &mut Vec<Readers>, me: Readers) {
        if list.iter().any(|readers| readers.alike(&me) && readers.include(&me)) {
            return;
        }
        let warp = list.iter().position(|readers| readers.alike(&me) && readers.warps == me.warps);
        if self.doubtful.is_none() {
            return match warp.and_then(|i| list.get_mut(i)) {
                Some(readers) => readers.lanes |= me.lanes,
                None => list.push(me),
            };
        }
        let grown = match warp {
            Some(i) => Readers { lanes: me.lanes | list[i].lanes, ..list.swap_remove(i) },
            None => me,
        };
        let same = |readers: &Readers| readers.alike(&grown) && readers.lanes == grown.lanes;
        match list.iter().position(same) {
            Some(i) => list[i].warps |= grown.warps,
            None => list.push(grown),
        }
    }

    /// Joins readers that read at different times but are ordered alike: those whose warp has synchronized since, and
    /// those whose warp has not.
    fn compact(&self, list: &mut Vec<Readers>) {
        for readers in std::mem::take(list) {
            let time = readers.stamp.time;
            if readers.block != self.block || time <= self.order.floor() {
                list.push(readers);
                continue;
            }
            let met = lanes_of(readers.warps).filter(|warp| time <= self.order.warp_floor(*warp));
            let met = met.fold(0, |warps: u32, warp| warps | 1 << warp);
            for (warps, time) in [(met, self.order.floor() + 1), (readers.warps & !met, self.order.now())] {
                if warps != 0 {
                    self.join(list, Readers { warps, stamp: Stamp { time, ..readers.stamp }, ..readers });
                }
            }
        }
    }

    /// Writes a cell, immediately or when an asynchronous copy completes. Reads that not every thread is ordered after
    /// stay: a later write of the same value is not an error, but its race with such a read is.
    pub(crate) fn write(
        &self,
        cell: &mut Cell,
        owner: &mut Owner,
        spill: &mut Spill,
        Write { pending, same }: Write,
    ) -> Option<Conflict> {
        let writer = self.with_writer(cell, *owner);
        let readers = || self.with_readers(cell, spill, *owner, false);
        let conflict = match writer {
            Some(writer) if same && !writer.pending => readers().or(Some(writer)),
            writer => writer.or_else(readers),
        };
        // A copy in flight stays in flight: the final value of the bytes is still undetermined.
        if conflict.is_none_or(|conflict| !conflict.pending) {
            let raced = conflict.is_some_and(|conflict| !conflict.wrote || !same);
            // An error about these bytes is reported already.
            let settled = raced && self.doubtful.is_none();
            if pending || settled || !self.keep_reads(cell, *owner, spill, raced) {
                spill.drop_list(cell);
                cell.set_write(self.stamp, pending);
            } else {
                cell.add_write(self.stamp);
            }
            owner.write = self.block;
        }
        conflict
    }

    /// Removes the reads that every thread is ordered after, and those that this write races with (`raced`: there may be
    /// such reads). Returns whether any read is left.
    fn keep_reads(&self, cell: &mut Cell, owner: Owner, spill: &mut Spill, raced: bool) -> bool {
        let over = |block: u32, time: u32| block == self.block && time <= self.order.floor();
        let Some(list) = cell.list() else {
            // Several readers that the writer is ordered after are lanes of its warp, which has synchronized since. One of
            // them stands for all.
            let first = cell.reader().map(|(read, _)| read);
            cell.only_first();
            return first.is_some_and(|read| {
                read.weak() && !over(owner.read, read.time) && !(raced && self.conflicts(read, owner.read))
            });
        };
        spill.change(list, |list| {
            list.retain(|readers| readers.stamp.weak() && !over(readers.block, readers.stamp.time));
            if raced {
                for readers in std::mem::take(list) {
                    let stamps = readers.stamps().filter(|stamp| !self.conflicts(*stamp, readers.block));
                    stamps.for_each(|stamp| self.join(list, Readers::one(readers.block, stamp)));
                }
            }
        });
        !spill.list(list).is_empty()
    }
}

/// A thread's access as a cell keeps it.
pub(crate) fn stamp(order: &Order, who: Who, pc: u32, strong: Option<super::site::Scope>) -> Stamp {
    Stamp {
        time: order.now(),
        who,
        pc,
        strong: strong.is_some(),
        narrow: strong == Some(super::site::Scope::Block),
        modified: false,
    }
}
