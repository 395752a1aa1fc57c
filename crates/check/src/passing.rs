//! Whether lanes have passed an instruction at which other lanes of their warp wait for them.
//!
//! Decided from the control-flow graph of the kernel: the lanes execute an instruction that is reachable from the
//! waiting instruction, and no path leads from there to the waiting instruction or to a copy of it. Lanes that leave
//! the kernel on another path (an early return) have not passed it: what they execute on that path is not reachable
//! from the waiting instruction. Called functions are not analyzed.

use super::context::Context;
use std::collections::BTreeMap;
use warpproof_sim::isa::Op;
use warpproof_sim::isa::op::{Control, Copies, MemoryKind, Participants};
use warpproof_sim::machine::at;
use warpproof_sim::memory::Space;
use warpproof_sim::program::Program;

/// By instruction: the instructions that are reachable from it and from which no path leads back to it.
#[derive(Debug, Default)]
pub(crate) struct Passing {
    behind: BTreeMap<u32, Vec<bool>>,
}

impl Passing {
    /// Whether lanes at `now` can never reach `wait` again; `again` returns whether an opcode counts as a copy of it.
    pub(crate) fn is_past(
        &mut self,
        context: &Context,
        wait: u32,
        now: u32,
        again: impl Fn(&Op) -> bool,
    ) -> bool {
        let behind = self.behind.entry(wait).or_insert_with(|| behind(&context.program, wait, again));
        behind.get(at(now)).copied().unwrap_or(false)
    }
}

/// Where control may go from an instruction of the kernel.
pub(super) fn successors(program: &Program, pc: usize) -> Vec<usize> {
    let (Some(inst), Some(meta)) = (program.code.get(pc), program.metas.get(pc)) else { return Vec::new() };
    let mut next = match meta.op.effects().control {
        Control::Branch => vec![at(inst.args.target)],
        Control::Table => inst.args.targets.iter().map(|target| at(*target)).collect(),
        Control::Return | Control::Exit | Control::Trap => Vec::new(),
        Control::Next | Control::Call => return vec![pc + 1],
    };
    if inst.guard.is_some() {
        next.push(pc + 1);
    }
    next
}

/// Whether a thread that executes `second` must have executed `first` before.
pub(crate) fn dominates(program: &Program, first: u32, second: u32) -> bool {
    let guard = |pc: u32| program.code.get(at(pc)).map(|inst| inst.guard);
    if guard(first).flatten().is_some() && guard(first) != guard(second) {
        return false;
    }
    let mut reached = vec![false; program.code.len()];
    let mut work = vec![at(program.entry)];
    while let Some(pc) = work.pop() {
        if pc == at(first) || reached.get(pc).copied().unwrap_or(true) {
            continue;
        }
        reached[pc] = true;
        work.extend(successors(program, pc));
    }
    !reached.get(at(second)).copied().unwrap_or(false)
}

fn behind(program: &Program, wait: u32, again: impl Fn(&Op) -> bool) -> Vec<bool> {
    let count = program.own_length();
    if at(wait) >= count {
        return Vec::new();
    }
    let op = |pc: usize| &program.metas[pc].op;
    let next: Vec<Vec<usize>> =
        (0..count).map(|pc| successors(program, pc).into_iter().filter(|to| *to < count).collect()).collect();
    // Functions may hold what lanes could come to.
    let called = (count..program.metas.len()).any(|pc| again(op(pc)));
    let mut reached = vec![false; count];
    let mut work: Vec<usize> = next[at(wait)].clone();
    while let Some(pc) = work.pop() {
        if !std::mem::replace(&mut reached[pc], true) {
            work.extend(&next[pc]);
        }
    }
    let mut before = vec![Vec::new(); count];
    for (pc, next) in next.iter().enumerate() {
        for to in next {
            before[*to].push(pc);
        }
    }
    let target = |pc: usize| pc == at(wait) || again(op(pc)) || called && matches!(op(pc), Op::Call(_));
    let mut leads = vec![false; count];
    let mut work: Vec<usize> = (0..count).filter(|&pc| target(pc)).collect();
    while let Some(pc) = work.pop() {
        if !std::mem::replace(&mut leads[pc], true) {
            work.extend(&before[pc]);
        }
    }
    (0..count).map(|pc| reached[pc] && !leads[pc] && works(op(pc))).collect()
}

/// Whether an instruction does more than compute or go elsewhere: what compilers share between ways out of a kernel does not.
fn works(op: &Op) -> bool {
    let effects = op.effects();
    let touches = effects.memory.is_some_and(|memory| match memory.kind {
        MemoryKind::Load => !matches!(memory.space, Space::Param | Space::Const),
        MemoryKind::Store
        | MemoryKind::Atomic
        | MemoryKind::Reduce
        | MemoryKind::AsyncCopy
        | MemoryKind::LoadMatrix
        | MemoryKind::StoreMatrix
        | MemoryKind::LoadTile
        | MemoryKind::StoreTile
        | MemoryKind::Texture
        | MemoryKind::SurfaceLoad
        | MemoryKind::SurfaceStore
        | MemoryKind::SurfaceReduce
        | MemoryKind::Mbarrier
        | MemoryKind::Discard => true,
        MemoryKind::Hint => false,
    });
    touches
        || effects.copies != Copies::None
        || effects.control == Control::Call
        || match effects.participants {
            Participants::Lane => false,
            Participants::Active
            | Participants::Members
            | Participants::Warp
            | Participants::Block
            | Participants::Cluster => true,
        }
}
