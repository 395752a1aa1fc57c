//! Whether two registers hold the same value: the same register, or results of the same computation on the same values.
//!
//! Compilers compute one address more than once, into different registers. A register counts only if one instruction writes it.

use super::Program;
use crate::isa::{AddressArg, Op};
use crate::machine::{Width, at};
use crate::memory::Space;
use std::collections::HashMap;

/// Instructions that are followed back from an address.
const DEPTH: u32 = 16;

type Row = (Width, u32);

/// The registers of a program that one instruction writes.
pub struct Values<'p> {
    program: &'p Program,
    /// The writer; `None` if there are several.
    writers: HashMap<Row, Option<usize>>,
}

impl<'p> Values<'p> {
    /// The registers of a program.
    pub fn of(program: &'p Program) -> Values<'p> {
        let mut writers = HashMap::new();
        for (pc, meta) in program.metas.iter().enumerate() {
            for row in &meta.writes {
                writers.entry(*row).and_modify(|writer| *writer = None).or_insert(Some(pc));
            }
        }
        Values { program, writers }
    }

    /// Whether two accesses have the same address whenever all registers that it is made of have the same values.
    pub fn same_address(&self, a: usize, b: usize) -> bool {
        let address = |pc: usize| self.program.code.get(pc).map(|inst| inst.args.at[0]);
        let (Some(a), Some(b)) = (address(a), address(b)) else { return false };
        self.same_argument(a, b, DEPTH)
    }

    fn same_argument(&self, a: AddressArg, b: AddressArg, depth: u32) -> bool {
        let file = if a.wide { Width::W64 } else { Width::W32 };
        let base = |address: AddressArg| (address.wide, address.frame, address.offset);
        base(a) == base(b) && self.same((file, a.row), (file, b.row), depth)
    }

    fn same(&self, a: Row, b: Row, depth: u32) -> bool {
        if a == b {
            return true;
        }
        let writer = |row: Row| self.writers.get(&row).copied().flatten();
        let (Some(first), Some(second)) = (writer(a), writer(b)) else { return false };
        depth > 0 && self.same_result(first, second, depth - 1)
    }

    /// Whether two instructions compute the same.
    fn same_result(&self, first: usize, second: usize, depth: u32) -> bool {
        let (inst, other) = (&self.program.code[first], &self.program.code[second]);
        let (meta, other_meta) = (&self.program.metas[first], &self.program.metas[second]);
        if meta.op != other_meta.op
            || inst.guard.is_some()
            || other.guard.is_some()
            || inst.args.not != other.args.not
        {
            return false;
        }
        match &meta.op {
            Op::Load(load) => {
                // Parameters of a kernel do not change.
                load.space == Space::Param
                    && meta.function.is_none()
                    && other_meta.function.is_none()
                    && self.same_argument(inst.args.at[0], other.args.at[0], depth)
            }
            Op::Arithmetic(_)
            | Op::Logic(_)
            | Op::Bits(_)
            | Op::Select(_)
            | Op::ConvertAddress
            | Op::Convert(_) => self.same_sources(first, second, depth),
            Op::Move(moved) => moved.counter.is_none() && self.same_sources(first, second, depth),
            _ => false,
        }
    }

    fn same_sources(&self, first: usize, second: usize, depth: u32) -> bool {
        let sources = |pc: usize| {
            let results = self.program.metas[pc].writes.len();
            self.program.code[pc].args.all.get(results..).unwrap_or(&[])
        };
        let register = |pc: usize, row: u32| {
            let reads = &self.program.metas[pc].reads;
            reads.iter().copied().find(|read| read.1 == row && read.0 != Width::Pred)
        };
        let (a, b) = (sources(first), sources(second));
        a.len() == b.len()
            && a.iter().zip(b).all(|(a, b)| {
                a == b
                    || match (register(first, *a), register(second, *b)) {
                        (Some(a), Some(b)) => a.0 == b.0 && self.same(a, b, depth),
                        // A constant, or a special register: each has one row.
                        _ => false,
                    }
            })
    }
}

impl Program {
    /// Whether two accesses have the same address, as far as the program decides.
    pub fn same_address(&self, a: u32, b: u32) -> bool {
        Values::of(self).same_address(at(a), at(b))
    }
}
