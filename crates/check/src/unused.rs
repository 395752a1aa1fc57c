//! Racing reads of global memory whose value has no effect.
//!
//! Triton lets several threads hold the same element: all of them load it, and a guard lets one of them store the
//! result. If the result is stored in place, the loads of the others race with that store, and what they read is thrown
//! away. Such a race is a note, not an error.
//!
//! The *sinks* of a load are the instructions at which its value leaves the registers of its thread: stores, addresses,
//! branches, guards. They are found from the program alone, without regard to the order of instructions, so the list is
//! never too short. Only loads whose sinks all have a guard are considered here. The value has no effect if its thread has
//! exited and never executed a sink of the load. A value that lanes exchange has no effect if that holds for all lanes of
//! the warp: a warp that holds the elements of another warp also reduces them.

use super::clock::Who;
use super::context::Context;
use super::facts::Flow;
use super::history::Conflict;
use super::race::Race;
use super::shadow::UNKNOWN_SITE;
use std::collections::{BTreeMap, BTreeSet};
use warpproof_sim::isa::Op;
use warpproof_sim::isa::op::{Arithmetic, Control, Copies, MemoryKind, Participants, Semantics};
use warpproof_sim::machine::{Width, at};
use warpproof_sim::memory::Space;
use warpproof_sim::program::{Meta, Program};

/// Steps of the search for sinks, so that it is quick in kernels with thousands of loads.
const MOST_STEPS: usize = 1 << 20;

/// The loads of a program whose value may have no effect in some threads, and their sinks.
#[derive(Debug, Default)]
pub(crate) struct Sinks {
    /// By instruction: the number of its set of sinks, if it is such a load.
    loads: Vec<Option<usize>>,
    /// The different sets, each the sorted numbers of sinks, and whether lanes exchange the value.
    sets: Vec<(Vec<usize>, bool)>,
    /// By instruction: its number among the sinks.
    pub(super) numbers: Vec<Option<usize>>,
    /// How many sinks there are.
    count: usize,
}

impl Sinks {
    pub(crate) fn of(program: &Program, flow: &Flow) -> Sinks {
        let mut sinks = Sinks::default();
        // A callee has registers of its own, and its caller reads the result from them.
        if program.metas.iter().any(|meta| matches!(meta.op, Op::Call(_))) {
            return sinks;
        }
        let used = used_without_guard(program);
        let mut steps = MOST_STEPS;
        let mut sets = BTreeMap::new();
        for (pc, meta) in program.metas.iter().enumerate() {
            let known = pc < at(UNKNOWN_SITE) && weak_load(meta);
            if !known || meta.writes.iter().any(|row| used.contains(row)) {
                continue;
            }
            let Some((found, exchanged)) = guarded_sinks(program, flow, meta, &mut steps) else { break };
            if !found.is_empty() {
                let mut set: Vec<usize> = found.into_iter().map(|sink| sinks.number(sink)).collect();
                set.sort_unstable();
                let next = sets.len();
                let number = *sets.entry((set, exchanged)).or_insert(next);
                sinks.loads.resize(pc, None);
                sinks.loads.push(Some(number));
            }
        }
        sinks.sets = vec![(Vec::new(), false); sets.len()];
        for (set, number) in sets {
            sinks.sets[number] = set;
        }
        sinks
    }

    /// The sinks of a load whose value may have no effect in some threads, the number of the set, and whether lanes exchange the
    /// value.
    fn set(&self, load: u32) -> Option<(usize, &[usize], bool)> {
        let number = (*self.loads.get(at(load))?)?;
        let (set, exchanged) = self.sets.get(number)?;
        Some((number, set, *exchanged))
    }

    /// Whether both are such loads, and the first has all sinks of the second: if the second has an effect, it has one too.
    pub(crate) fn include(&self, load: u32, other: u32) -> bool {
        let (Some((number, sinks, wide)), Some((other, fewer, other_wide))) =
            (self.set(load), self.set(other))
        else {
            return false;
        };
        let has = |sink: &usize| sinks.binary_search(sink).is_ok();
        number == other || ((wide || !other_wide) && fewer.len() <= sinks.len() && fewer.iter().all(has))
    }

    /// The number of an instruction among the sinks, a new one if it has none.
    fn number(&mut self, sink: usize) -> usize {
        if self.numbers.len() <= sink {
            self.numbers.resize(sink + 1, None);
        }
        *self.numbers[sink].get_or_insert_with(|| {
            self.count += 1;
            self.count - 1
        })
    }

    /// Whether there is no such load.
    pub(crate) fn is_empty(&self) -> bool {
        self.loads.is_empty()
    }

    /// Whether the value of a load may have no effect in some threads.
    pub(crate) fn doubtful(&self, load: u32) -> bool {
        self.set(load).is_some()
    }
}

/// Whether an instruction is an ordinary load that may read global memory.
fn weak_load(meta: &Meta) -> bool {
    meta.op.effects().memory.is_some_and(|memory| {
        memory.kind == MemoryKind::Load
            && memory.semantics == Semantics::Weak
            && !memory.read_only
            && matches!(memory.space, Space::Global | Space::Generic)
    })
}

/// The rows whose value can reach an effect without a guard, or decides something.
fn used_without_guard(program: &Program) -> BTreeSet<(Width, u32)> {
    // By row: the rows that it is computed from.
    let mut sources: BTreeMap<(Width, u32), Vec<(Width, u32)>> = BTreeMap::new();
    let mut open = Vec::new();
    for (pc, meta) in program.metas.iter().enumerate() {
        let guard = program.code.get(pc).and_then(|inst| inst.guard).map(|(row, _)| (Width::Pred, row));
        match (guard, skipped(program, pc)) {
            (Some(guard), Some(region)) => {
                for row in region.iter().flat_map(|meta| &meta.writes) {
                    sources.entry(*row).or_default().push(guard);
                }
            }
            (Some(guard), None) => open.push(guard),
            (None, _) => {}
        }
        let values = meta.reads.iter().filter(|row| Some(**row) != guard);
        if computes(meta) || exchanges(meta) {
            for row in &meta.writes {
                sources.entry(*row).or_default().extend(values.clone());
            }
        } else if guard.is_none() {
            open.extend(values);
        }
    }
    let mut used = BTreeSet::new();
    while let Some(row) = open.pop() {
        if used.insert(row) {
            open.extend(sources.remove(&row).into_iter().flatten());
        }
    }
    used
}

/// The sinks of a load, all of which have a guard, and whether lanes exchange the value on its way there; `None` if that takes too
/// many steps.
fn guarded_sinks(
    program: &Program,
    flow: &Flow,
    load: &Meta,
    steps: &mut usize,
) -> Option<(BTreeSet<usize>, bool)> {
    let (mut sinks, mut seen) = (BTreeSet::new(), BTreeSet::new());
    let mut exchanged = false;
    let mut rows: Vec<(Width, u32)> = load.writes.to_vec();
    while let Some(row) = rows.pop() {
        if !seen.insert(row) {
            continue;
        }
        for &pc in flow.readers(row) {
            *steps = steps.checked_sub(1)?;
            let meta = &program.metas[pc];
            if let Some(region) = skipped(program, pc).filter(|_| row.0 == Width::Pred) {
                rows.extend(region.iter().flat_map(|meta| meta.writes.iter().copied()));
            } else if computes(meta) || (exchanges(meta) && !guards(program, pc, row)) {
                exchanged |= exchanges(meta);
                rows.extend_from_slice(&meta.writes);
            } else {
                sinks.insert(pc);
            }
        }
    }
    Some((sinks, exchanged))
}

/// Whether a register decides if an instruction is executed.
fn guards(program: &Program, pc: usize, row: (Width, u32)) -> bool {
    let guard = program.code.get(pc).and_then(|inst| inst.guard);
    guard.is_some_and(|(guard, _)| row == (Width::Pred, guard))
}

/// The instructions that a branch skips, if all of them only compute and both ways then meet at the branch's target: what
/// the branch depends on has an effect only through the registers that they write.
fn skipped(program: &Program, branch: usize) -> Option<&[Meta]> {
    let goes_to = |pc: usize| {
        let jumps = program.metas.get(pc).is_some_and(|meta| meta.op == Op::Branch);
        jumps.then(|| at(program.code[pc].args.target))
    };
    let (target, first) = (goes_to(branch)?, branch + 1);
    let unconditional = |pc: usize| program.code.get(pc).is_some_and(|inst| inst.guard.is_none());
    let joins = |pc: usize| pc == target || (unconditional(pc) && goes_to(pc) == Some(target));
    let end = (first..program.metas.len()).find(|pc| joins(*pc) || !computes(&program.metas[*pc]))?;
    joins(end).then(|| &program.metas[first..end])
}

/// Whether an instruction only computes registers of a lane from registers of the same lane.
fn computes(meta: &Meta) -> bool {
    let effects = meta.op.effects();
    effects.memory.is_none()
        && effects.control == Control::Next
        && effects.participants == Participants::Lane
        && effects.fence.is_none()
        && effects.copies == Copies::None
        // The condition code is a register that the lists of rows do not have.
        && !matches!(meta.op, Op::Parameter | Op::Refused | Op::Stack(_) | Op::Arithmetic(Arithmetic { carries: true, .. }))
}

/// Whether an instruction only computes registers of lanes of a warp from registers of such lanes.
fn exchanges(meta: &Meta) -> bool {
    matches!(meta.op, Op::Shuffle(_) | Op::Vote { .. } | Op::Match { .. } | Op::Redux { .. })
}

/// The racing reads of a block whose value may have no effect, and the sinks that its threads have executed.
#[derive(Debug)]
pub(crate) struct UnusedReads {
    sinks: usize,
    /// By warp and sink: the lanes that executed it.
    executed: Vec<u32>,
    /// By warp: the lanes that have exited or do not exist.
    exited: Vec<u32>,
    races: BTreeMap<(u32, u32, Who), Doubt>,
}

/// A race of a read whose value may have no effect, and how often it occurred.
#[derive(Debug)]
pub(crate) struct Doubt {
    pub(crate) race: Race,
    pub(crate) conflict: Conflict,
    pub(crate) count: u64,
}

impl UnusedReads {
    pub(crate) fn new(context: &Context) -> UnusedReads {
        let threads = context.block_threads();
        let (warps, sinks) = (threads.div_ceil(32), context.sinks.count);
        let missing = |warp: u32| u32::MAX.checked_shl(threads - 32 * warp).unwrap_or(0);
        UnusedReads {
            sinks,
            executed: vec![0; if sinks == 0 { 0 } else { at(warps) * sinks }],
            exited: if sinks == 0 { Vec::new() } else { (0..warps).map(missing).collect() },
            races: BTreeMap::new(),
        }
    }

    /// An instruction is executed by some lanes.
    #[inline]
    pub(crate) fn issue(&mut self, context: &Context, pc: u32, warp: u32, lanes: u32) {
        if self.sinks != 0
            && let Some(Some(sink)) = context.sinks.numbers.get(at(pc))
            && let Some(executed) = self.executed.get_mut(at(warp) * self.sinks + sink)
        {
            *executed |= lanes;
        }
    }

    /// Lanes exit.
    pub(crate) fn exit(&mut self, warp: u32, lanes: u32) {
        if let Some(exited) = self.exited.get_mut(at(warp)) {
            *exited |= lanes;
        }
    }

    /// Keeps a race for [`decide`](Self::decide) if its read may have no effect; returns whether it did.
    pub(crate) fn keep(&mut self, context: &Context, race: &Race, conflict: &Conflict) -> bool {
        let (read, write) = match (race.wrote, conflict.wrote) {
            (false, true) => (race.access, conflict.other),
            (true, false) => (conflict.other, race.access),
            _ => return false,
        };
        let known = conflict.thread_known && conflict.block == race.block && read.plain();
        if !known || !context.sinks.doubtful(read.pc) {
            return false;
        }
        let doubt = Doubt { race: *race, conflict: *conflict, count: 0 };
        self.races.entry((read.pc, write.pc, read.who)).or_insert(doubt).count += 1;
        true
    }

    /// The kept races, each with whether the value that was read has an effect.
    pub(crate) fn decide(&mut self, context: &Context) -> Vec<(bool, Doubt)> {
        let races = std::mem::take(&mut self.races);
        let effect = |load: u32, who: Who| {
            let Some((_, sinks, exchanged)) = context.sinks.set(load) else { return true };
            let concerned = if exchanged { u32::MAX } else { 1 << who.lane() };
            let exited = self.exited.get(who.warp()).copied().unwrap_or(0);
            let executed = |sink: &usize| {
                self.executed.get(who.warp() * self.sinks + sink).is_none_or(|lanes| lanes & concerned != 0)
            };
            concerned & !exited != 0 || sinks.iter().any(executed)
        };
        races.into_iter().map(|((load, _, who), doubt)| (effect(load, who), doubt)).collect()
    }
}
