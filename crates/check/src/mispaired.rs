//! Mismatched barriers: shared memory that is read before it is written because two warps use different barriers.
//!
//! A warp that waits at the wrong barrier, with the wrong count, or at one barrier too few continues before the data is
//! written. A later barrier may then order its read before the write, so there is no race, and the read returns
//! uninitialized data. The check attributes this to the barriers, and not to a missing initialization, by what happens
//! to the bytes afterwards: a thread of another warp writes them with an instruction that no thread had executed before
//! the read, and the last barrier of the reader before the read, or of the writer before the write, was one that the
//! other warp did not arrive at or arrived at with another instruction.
//!
//! Can miss: a store instruction that was executed before for other elements; that stays a finding about an
//! uninitialized value. Never reports: anything that the check for uninitialized values does not report.

use super::clock::Who;
use super::context::Context;
use super::raw::{Raw, RawFindings, Spot};
use super::{Class, Severity};
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::sync::Arc;
use warpproof_sim::machine::{Access, at, lanes_of};
use warpproof_sim::observe::Arrival;

/// The warps that arrived at a phase of a barrier, and the instructions.
#[derive(Debug, Default)]
struct Met {
    id: u32,
    /// Number of threads it waited for; `None` for all threads of the block.
    expected: Option<u32>,
    /// Warps with the barrier instruction that they executed.
    at: SmallVec<[(u32, u32); 8]>,
}

impl Met {
    fn place(&self, warp: u32) -> Option<u32> {
        self.at.iter().find(|(who, _)| *who == warp).map(|(_, pc)| *pc)
    }

    /// Whether one warp arrived at it and the other did not, or arrived with another instruction.
    fn parts(&self, one: u32, other: u32) -> bool {
        self.place(one).is_some_and(|here| self.place(other) != Some(here))
    }
}

/// A read of uninitialized bytes.
#[derive(Clone, Debug)]
struct Early {
    pc: u32,
    who: Who,
    time: u64,
    /// The last barrier that the reader's warp waited at.
    barrier: Option<Arc<Met>>,
}

/// A write that should have been ordered before such a read.
#[derive(Debug)]
struct Late {
    read: Early,
    pc: u32,
    who: Who,
    barrier: Option<Arc<Met>>,
    address: u32,
}

/// The recorded barriers and accesses of one block.
#[derive(Debug, Default)]
pub(crate) struct Mispaired {
    /// Incomplete phases at which threads have arrived, with the warps that wait.
    open: Vec<(Met, SmallVec<[u32; 8]>)>,
    /// By warp: the last barrier that it waited at.
    last: Vec<Option<Arc<Met>>>,
    /// The first early read of a word.
    early: BTreeMap<u32, Early>,
    /// By instruction: when it first wrote shared memory.
    first_writes: BTreeMap<u32, u64>,
    /// Late writes, by the instruction of the read.
    late: BTreeMap<u32, Late>,
    time: u64,
}

fn number(warp: usize) -> u32 {
    u32::try_from(warp).unwrap_or(u32::MAX)
}

impl Mispaired {
    pub(crate) fn arrive(&mut self, arrival: &Arrival) {
        let known = self.open.iter().position(|(met, _)| met.id == arrival.id);
        let place = known.unwrap_or_else(|| {
            self.open.push((Met { id: arrival.id, ..Met::default() }, SmallVec::new()));
            self.open.len() - 1
        });
        let (met, waiting) = &mut self.open[place];
        met.expected = arrival.expected;
        if met.place(arrival.warp).is_none() {
            met.at.push((arrival.warp, arrival.pc));
        }
        if arrival.waits && !waiting.contains(&arrival.warp) {
            waiting.push(arrival.warp);
        }
    }

    pub(crate) fn complete(&mut self, id: u32) {
        let Some(place) = self.open.iter().position(|(met, _)| met.id == id) else { return };
        let (met, waiting) = self.open.swap_remove(place);
        let met = Arc::new(met);
        for warp in waiting.into_iter().map(at) {
            if self.last.len() <= warp {
                self.last.resize(warp + 1, None);
            }
            self.last[warp] = Some(met.clone());
        }
    }

    /// The last barrier that a warp waited at.
    fn last(&self, warp: u32) -> Option<Arc<Met>> {
        self.last.get(at(warp)).cloned().flatten()
    }

    /// A lane reads uninitialized bytes of shared memory.
    pub(crate) fn read(&mut self, warp: u32, lane: usize, pc: u32, address: u32) {
        self.time += 1;
        if !self.early.contains_key(&(address / 4)) {
            let (who, barrier) = (Who::new(warp, lane), self.last(warp));
            self.early.insert(address / 4, Early { pc, who, time: self.time, barrier });
        }
    }

    /// Lanes write shared memory.
    pub(crate) fn write(&mut self, access: &Access<'_>) {
        let (time, early) = (self.time, !self.early.is_empty());
        self.first_writes.entry(access.pc).or_insert(time);
        for lane in lanes_of(if early { access.lanes } else { 0 }) {
            let Ok(address) = u32::try_from(access.addresses.0[lane]) else { continue };
            self.write_one(access.warp, lane, access.pc, address, access.bytes);
        }
    }

    /// A lane writes shared memory, or issues a copy that will.
    pub(crate) fn write_one(&mut self, warp: u32, lane: usize, pc: u32, address: u32, bytes: u32) {
        let time = self.time;
        let first = *self.first_writes.entry(pc).or_insert(time);
        if self.early.is_empty() {
            return;
        }
        for word in address / 4..=address.saturating_add(bytes.max(1) - 1) / 4 {
            let Some(read) = self.early.remove(&word) else { continue };
            let late = first >= read.time && read.who.warp() != at(warp);
            if late && !self.late.contains_key(&read.pc) {
                let barrier = self.last(warp);
                let who = Who::new(warp, lane);
                self.late.insert(read.pc, Late { pc, who, barrier, address: 4 * word, read });
            }
        }
    }

    /// Replaces findings about uninitialized values by findings about barriers, if mismatched barriers are the cause.
    /// Accesses that race are reported as races.
    pub(crate) fn finish(self, context: &Context, block: u32, raw_findings: &mut RawFindings) {
        let races: Vec<u32> = raw_findings
            .raws()
            .filter(|raw| raw.class == Class::SharedRace && raw.severity == Severity::Error)
            .flat_map(|raw| raw.spots.iter().map(|spot| spot.pc))
            .collect();
        // If a loop is unrolled, the store that was executed before may be another copy of the instruction.
        let executed = |late: &Late| {
            let line = context.line(late.pc);
            let before = self.first_writes.iter().filter(|(_, time)| **time < late.read.time);
            line.is_some() && before.into_iter().any(|(pc, _)| context.line(*pc) == line)
        };
        for late in self.late.values().filter(|late| !races.contains(&late.read.pc) && !executed(late)) {
            let Some(mut raw) = late.describe(context, block) else { continue };
            raw_findings.replace(|known| {
                let same = known.class == Class::Uninitialized && known.names(late.read.pc);
                same.then(|| {
                    raw.count = known.count;
                    raw.clone()
                })
            });
        }
    }
}

impl Late {
    /// The finding, if the reader's or the writer's last barrier did not include the other warp at the same
    /// instruction.
    fn describe(&self, context: &Context, block: u32) -> Option<Raw> {
        let (reader, writer) = (number(self.read.who.warp()), number(self.who.warp()));
        let before_read = self.read.barrier.as_deref();
        let before_write = self.barrier.as_deref();
        let apart = before_read.is_some_and(|met| met.parts(reader, writer))
            || before_write.is_some_and(|met| met.place(reader).is_some() && met.parts(writer, reader));
        if !apart {
            return None;
        }
        let name = context
            .shared_name(self.address)
            .map_or_else(|| format!("shared address {:#x}", self.address), |name| format!("`{name}`"));
        let thread = |who: Who| context.thread(block, u32::from(who.0));
        let spot =
            |label: String, pc: u32, who: Who| Spot { label, pc, thread: Some((block, u32::from(who.0))) };
        let mut spots = vec![
            spot("the read".to_owned(), self.read.pc, self.read.who),
            spot("the write".to_owned(), self.pc, self.who),
        ];
        let mut notes = Vec::new();
        for (met, own, other, who, what) in [
            (before_read, reader, writer, self.read.who, "the read"),
            (before_write, writer, reader, self.who, "the write"),
        ] {
            let Some((met, here)) = met.and_then(|met| Some((met, met.place(own)?))) else { continue };
            let count = met.expected.map_or("all threads".to_owned(), |count| format!("{count} threads"));
            let label = format!("warp {own} waits here before {what}: barrier {} for {count}", met.id);
            spots.push(spot(label, here, who));
            match met.place(other) {
                Some(there) if there != here => {
                    let line = context.line(there).unwrap_or_default();
                    notes.push(format!("warp {other} arrives at that barrier at {line}"));
                }
                Some(_) => {}
                None => notes.push(format!("warp {other} does not arrive at the barrier before {what}")),
            }
        }
        Some(Raw {
            class: Class::Barrier,
            severity: Severity::Error,
            sentence: format!(
                "mismatched barriers: {} reads {name} before {} writes it",
                thread(self.read.who),
                thread(self.who)
            ),
            spots,
            notes,
            help: Some(
                "make the reader wait at a barrier that the writer arrives at after its write: use the same \
                 barrier number, a thread count that includes both, and the same number of barriers before it"
                    .to_owned(),
            ),
            count: 1,
        })
    }
}
