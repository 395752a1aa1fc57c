//! Whether lanes have passed an instruction at which other lanes of their warp wait for them.
//!
//! Decided from the control-flow graph of the kernel: the lanes execute an instruction that is reachable from the
//! waiting instruction, and no path leads from there to the waiting instruction or to a copy of it. Lanes that leave
//! the kernel on another path (an early return) have not passed it: what they execute on that path is not reachable
//! from the waiting instruction. Called functions are not analyzed.

use super::context::Context;
use crate::machine::at;
use crate::program::Program;
use std::collections::BTreeMap;

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
        again: impl Fn(&str) -> bool,
    ) -> bool {
        let behind = self.behind.entry(wait).or_insert_with(|| behind(&context.program, wait, again));
        behind.get(at(now)).copied().unwrap_or(false)
    }
}

/// The possible successors of an instruction of the kernel.
fn successors(program: &Program, pc: usize, name: &str) -> Vec<usize> {
    let Some(inst) = program.code.get(pc) else { return Vec::new() };
    let mut next = match name {
        "bra" => vec![at(inst.args.target)],
        "brx" => inst.args.targets.iter().map(|target| at(*target)).collect(),
        "ret" | "exit" | "trap" => Vec::new(),
        _ => return vec![pc + 1],
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
        let name = program.opcode(pc).split('.').next().unwrap_or("");
        work.extend(successors(program, pc, name));
    }
    !reached.get(at(second)).copied().unwrap_or(false)
}

fn behind(program: &Program, wait: u32, again: impl Fn(&str) -> bool) -> Vec<bool> {
    let own = |pc: usize| program.metas.get(pc).is_some_and(|meta| meta.function.is_none());
    let count = (0..program.metas.len()).take_while(|&pc| own(pc)).count();
    if at(wait) >= count {
        return Vec::new();
    }
    let opcodes: Vec<&str> = (0..count).map(|pc| program.opcode(pc)).collect();
    let first = |pc: usize| opcodes[pc].split('.').next().unwrap_or("");
    let next: Vec<Vec<usize>> = (0..count)
        .map(|pc| successors(program, pc, first(pc)).into_iter().filter(|to| *to < count).collect())
        .collect();
    // A called function may contain a copy of the instruction.
    let called = (count..program.metas.len()).any(|pc| again(program.opcode(pc)));
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
    let target = |pc: usize| pc == at(wait) || again(opcodes[pc]) || called && first(pc) == "call";
    let mut leads = vec![false; count];
    let mut work: Vec<usize> = (0..count).filter(|&pc| target(pc)).collect();
    while let Some(pc) = work.pop() {
        if !std::mem::replace(&mut leads[pc], true) {
            work.extend(&before[pc]);
        }
    }
    (0..count).map(|pc| reached[pc] && !leads[pc] && works(opcodes[pc])).collect()
}

/// Whether an instruction does more than compute or branch. Code that compilers share between exit paths of a kernel
/// does not.
fn works(opcode: &str) -> bool {
    let mut parts = opcode.split('.');
    match parts.next().unwrap_or("") {
        "ld" => !matches!(parts.next(), Some("param" | "const")),
        "st" | "atom" | "red" | "shfl" | "vote" | "match" | "redux" | "mma" | "wmma" | "ldmatrix"
        | "stmatrix" | "cp" | "bar" | "barrier" | "mbarrier" | "call" => true,
        _ => false,
    }
}
