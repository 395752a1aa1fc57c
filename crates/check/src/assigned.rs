//! Registers that every thread writes before it reads them, whatever path it takes through the kernel.
//!
//! Such a register is never read while it holds what it held at the start, so the check for uninitialized values need not follow
//! it until something poisoned is written to it. A write with a guard does not count, and the registers of called functions are left out.

use super::facts::Numbering;
use super::passing::successors;
use warpproof_sim::isa::op::Control;
use warpproof_sim::machine::at;
use warpproof_sim::program::Program;

/// The most words of all sets; larger kernels are not analyzed.
const LIMIT: usize = 1 << 22;

/// A set of rows.
type Set = Vec<u64>;

fn insert(set: &mut [u64], row: u32) {
    if let Some(word) = set.get_mut(at(row / 64)) {
        *word |= 1 << (row % 64);
    }
}

fn contains(set: &[u64], row: u32) -> bool {
    set.get(at(row / 64)).is_some_and(|word| word >> (row % 64) & 1 != 0)
}

/// By number, whether a row is one of these registers.
pub(super) fn assigned_first(program: &Program, numbering: Numbering) -> Vec<bool> {
    let rows = at(numbering.count);
    let none = vec![false; rows];
    let count = program.own_length();
    let entry = at(program.entry);
    let blocks = Blocks::of(program, count);
    let words = rows.div_ceil(64);
    if entry >= count || blocks.starts.len().saturating_mul(words) > LIMIT {
        return none;
    }
    // Before each block: the rows that are written on every path to it; all of them for a block that is not reached.
    let mut before: Vec<Option<Set>> = vec![None; blocks.starts.len()];
    let first = blocks.of[entry];
    before[first] = Some(vec![0; words]);
    let mut work = vec![first];
    while let Some(block) = work.pop() {
        let Some(mut known) = before[block].clone() else { continue };
        let range = blocks.range(block, count);
        for pc in range.clone() {
            assign(program, numbering, pc, &mut known);
        }
        for to in successors(program, range.end - 1).into_iter().filter(|to| *to < count) {
            let to = blocks.of[to];
            let changed = match &mut before[to] {
                Some(there) => there.iter_mut().zip(&known).fold(false, |changed, (there, known)| {
                    let both = *there & known;
                    changed | (std::mem::replace(there, both) != both)
                }),
                unknown @ None => {
                    *unknown = Some(known.clone());
                    true
                }
            };
            if changed {
                work.push(to);
            }
        }
    }
    let mut result = vec![true; rows];
    let mut left_out = |row: u32| {
        if let Some(assigned) = result.get_mut(at(row)) {
            *assigned = false;
        }
    };
    for (block, known) in before.into_iter().enumerate() {
        let Some(mut known) = known else { continue };
        for pc in blocks.range(block, count) {
            for (width, row) in &program.metas[pc].reads {
                let row = numbering.number(*width, *row);
                if !contains(&known, row) {
                    left_out(row);
                }
            }
            assign(program, numbering, pc, &mut known);
        }
    }
    for meta in &program.metas[count..] {
        let all = meta.reads.iter().chain(&meta.writes);
        all.for_each(|(width, row)| left_out(numbering.number(*width, *row)));
    }
    result
}

fn assign(program: &Program, numbering: Numbering, pc: usize, known: &mut [u64]) {
    if program.code[pc].guard.is_none() {
        program.metas[pc]
            .writes
            .iter()
            .for_each(|(width, row)| insert(known, numbering.number(*width, *row)));
    }
}

/// Instructions without a branch or a target in between.
struct Blocks {
    starts: Vec<usize>,
    /// By instruction: its block.
    of: Vec<usize>,
}

impl Blocks {
    fn of(program: &Program, count: usize) -> Blocks {
        let mut leads = vec![false; count];
        let mut lead = |pc: usize| {
            if let Some(leads) = leads.get_mut(pc) {
                *leads = true;
            }
        };
        lead(0);
        lead(at(program.entry));
        for pc in 0..count {
            if program.metas[pc].op.effects().control != Control::Next {
                lead(pc + 1);
                successors(program, pc).into_iter().for_each(&mut lead);
            }
        }
        let starts: Vec<usize> = (0..count).filter(|pc| leads[*pc]).collect();
        let mut block = 0;
        let of = leads.iter().map(|leads| {
            block += usize::from(*leads);
            block - 1
        });
        let of = of.collect();
        Blocks { starts, of }
    }

    fn range(&self, block: usize, count: usize) -> std::ops::Range<usize> {
        self.starts[block]..self.starts.get(block + 1).copied().unwrap_or(count)
    }
}

#[cfg(test)]
mod tests {
    use crate::facts::Facts;
    use warpproof_sim::Device;

    /// Registers that may be read before they are written, in a kernel with this body.
    fn unset(body: &str) -> usize {
        let ptx = format!(
            ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 out) {{\n\
             .reg .pred %p<3>;\n.reg .b32 %r<6>;\n.reg .b64 %rd<3>;\n\
             ld.param.u64 %rd1, [out];\nmov.u32 %r1, %tid.x;\nsetp.eq.u32 %p1, %r1, 0;\n\
             {body}\nst.global.u32 [%rd1], %r2;\nret;\n}}\n"
        );
        let module = Device::new().load(&ptx).unwrap();
        let program = module.kernel("k").unwrap().launch().program();
        Facts::of(&program).unset.iter().filter(|lanes| **lanes != 0).count()
    }

    #[test]
    fn registers_that_are_written_on_every_path_are_assigned() {
        assert_eq!(unset("mov.u32 %r2, 1;"), 0);
        assert_eq!(unset("@%p1 bra A;\nmov.u32 %r2, 1;\nbra B;\nA:\nmov.u32 %r2, 2;\nB:"), 0);
        assert_eq!(unset("L:\nmov.u32 %r2, %r1;\n@%p1 bra L;"), 0);
    }

    #[test]
    fn a_guard_or_a_path_without_the_write_leaves_a_register_unset() {
        assert_eq!(unset(""), 1);
        assert_eq!(unset("@%p1 mov.u32 %r2, 1;"), 1);
        assert_eq!(unset("@%p1 bra A;\nmov.u32 %r2, 1;\nA:"), 1);
        assert_eq!(unset("L:\nadd.u32 %r3, %r3, 1;\nmov.u32 %r2, %r3;\n@%p1 bra L;"), 1);
        assert_eq!(unset("L:\n@%p1 bra M;\nmov.u32 %r2, %r4;\nmov.u32 %r4, 1;\nbra L;\nM:"), 2);
    }
}
