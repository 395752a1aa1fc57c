//! How ptxas translates atomics, as far as it affects counts: an `atom` whose old value is unused becomes a reduction, and
//! ptxas merges the lanes of a warp into one operation if it can prove that they all use one address. These rules were
//! derived from the SASS that ptxas emits; `crates/sim/tests/count/atomics.rs` has the cases.

use crate::machine::Width;
use crate::program::Program;
use std::collections::HashSet;

/// Iterations of the data-flow analysis that finds registers that differ between lanes; without a fixed point by then, all
/// registers count as differing.
const ROUNDS: usize = 32;

/// Register facts of a program with atomics; other programs are not analyzed.
pub(super) struct Atomics {
    /// Registers that some instruction reads.
    read: HashSet<(Width, u32)>,
    /// Registers that may differ between the lanes of a warp.
    differ: HashSet<(Width, u32)>,
}

/// The parts of an `atom` or `red` that the analysis needs.
fn is_atomic(opcode: &str) -> bool {
    opcode.starts_with("atom.") || opcode.starts_with("red.")
}

impl Atomics {
    pub(super) fn of(program: &Program) -> Atomics {
        let mut found = Atomics { read: HashSet::new(), differ: HashSet::new() };
        if !(0..program.code.len()).any(|pc| is_atomic(super::site::opcode(program, pc))) {
            return found;
        }
        for meta in &program.metas {
            found.read.extend(meta.reads.iter().copied());
        }
        // A value differs between lanes if one of its inputs does.
        let source = |pc: usize| {
            let text = program.instruction(pc);
            let special = ["%tid", "%laneid", "%lanemask", "%clock", "%globaltimer"];
            special.iter().any(|name| text.contains(name)) || text.starts_with("atom.")
        };
        let sources: Vec<bool> = (0..program.metas.len()).map(source).collect();
        let mut settled = false;
        for _ in 0..ROUNDS {
            let before = found.differ.len();
            for (meta, source) in program.metas.iter().zip(&sources) {
                if *source || meta.reads.iter().any(|row| found.differ.contains(row)) {
                    found.differ.extend(meta.writes.iter().copied());
                }
            }
            settled = found.differ.len() == before;
            if settled {
                break;
            }
        }
        if !settled {
            found.differ.extend(program.metas.iter().flat_map(|meta| meta.writes.iter().copied()));
        }
        found
    }

    /// Whether no instruction reads the result.
    fn unread(&self, program: &Program, pc: usize) -> bool {
        program.metas.get(pc).is_some_and(|meta| meta.writes.iter().all(|row| !self.read.contains(row)))
    }

    /// Whether ptxas turns an `atom` of global memory into a reduction.
    pub(super) fn reduces(&self, program: &Program, pc: usize, opcode: &str) -> bool {
        let mut words = opcode.split('.');
        let atomic = words.next() == Some("atom") && opcode.contains(".global");
        atomic && !words.any(|word| matches!(word, "cas" | "exch")) && self.unread(program, pc)
    }

    /// Whether ptxas merges the lanes of a warp into one operation if they all use one address.
    pub(super) fn merges(&self, program: &Program, pc: usize, opcode: &str) -> bool {
        if !is_atomic(opcode) {
            return false;
        }
        let words: Vec<&str> = opcode.split('.').collect();
        let has = |wanted: &[&str]| words.iter().any(|word| wanted.contains(word));
        if !has(&["u32", "s32", "b32"]) || !has(&["add", "min", "max", "and", "or", "xor"]) {
            return false;
        }
        let Some(meta) = program.metas.get(pc) else { return false };
        // The address is the first source, unless it is a symbol; a guard is the last.
        let text = program.instruction(pc);
        let register = text.split_once('[').is_some_and(|(_, rest)| rest.trim_start().starts_with('%'));
        if register && meta.reads.first().is_some_and(|row| self.differ.contains(row)) {
            return false;
        }
        let guarded = program.code.get(pc).is_some_and(|inst| inst.guard.is_some());
        let values = meta.reads.len() - usize::from(register && !meta.reads.is_empty());
        let constant = values <= usize::from(guarded);
        self.unread(program, pc) || (has(&["add"]) && constant)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_atom_and_red_are_atomics() {
        assert!(is_atomic("atom.global.add.u32") && is_atomic("red.shared.add.u32"));
        assert!(!is_atomic("redux.sync.add.s32") && !is_atomic("add.u32"));
    }
}
