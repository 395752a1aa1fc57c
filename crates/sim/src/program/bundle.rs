//! Bundles: consecutive instructions that a warp executes as one.
//!
//! They compute, or load words of shared memory from registers that the bundle does not change before; none has a guard, and
//! control enters only at the first one. So the places that the loads read are known when the bundle starts: they are
//! measured once for each register, and observers get all loads in one event.

use super::{Inst, Program};
use crate::isa::op::Control;
use crate::isa::{Inline, Op};
use crate::machine::{Execute, Width, at};
use std::sync::Arc;

/// Instructions of the longest bundle, and of the shortest.
const LENGTHS: std::ops::RangeInclusive<usize> = 3..=256;
/// The most registers that the loads of a bundle start from.
pub const BASES: usize = 4;
/// The largest distance of a load from its register.
const REACH: u64 = 1 << 20;

/// Consecutive instructions that a warp executes as one.
#[derive(Debug)]
pub struct Bundle {
    /// Its number in the program.
    pub number: usize,
    /// The first instruction.
    pub first: u32,
    /// The registers that its loads start from.
    pub bases: Box<[Base]>,
    /// Its instructions.
    pub steps: Box<[Step]>,
    /// Those that are executed together, in order.
    pub sums: Box<[Sum]>,
    /// Executes it.
    pub execute: Execute,
}

/// How an instruction of a bundle is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// As a load.
    Load(Load),
    /// As `fma.rn.f32`.
    Fma,
    /// By its routine.
    Routine,
}

/// A register with addresses in shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Base {
    /// Its row.
    pub row: u32,
    /// Whether it has 64 bits.
    pub wide: bool,
    /// The distances from it to the first byte that a load reads, and behind the last one.
    pub reach: (i64, i64),
    /// Bits that are zero in an address that is aligned for all of the loads.
    pub misaligned: u32,
}

/// A load of words from shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// The register, by its number in the bundle.
    pub base: usize,
    /// The distance from it.
    pub offset: i64,
    /// Words for each lane.
    pub words: u32,
}

impl Load {
    /// The distance from the register in words, to add to an index that wraps around.
    #[expect(
        clippy::as_conversions,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "within `REACH`; the sum is in shared memory"
    )]
    #[inline]
    pub fn step(self) -> u32 {
        (self.offset >> 2) as u32
    }
}

/// A sum of products, `fma.rn.f32` after `fma.rn.f32`, whose factors are loaded for it: two loads of a word in front of each. Nothing else
/// reads the factors or the sums between, so only the last sum is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sum {
    /// The number of its first instruction in the bundle.
    pub first: usize,
    /// The factors of each product: of lower and of higher base.
    pub factors: Box<[[Load; 2]]>,
    /// The bases of both factors, if they are the same for all products.
    pub bases: Option<[usize; 2]>,
    /// The distances of the factors from their bases, in words.
    pub steps: Box<[[u32; 2]]>,
    /// The row of the addend.
    pub from: u32,
    /// The row of the result.
    pub to: u32,
}

impl Sum {
    fn of(first: usize, factors: Vec<[Load; 2]>, (from, to): (u32, u32)) -> Sum {
        let of = |factors: &[Load; 2]| factors.map(|load| load.base);
        let bases =
            factors.first().map(of).filter(|bases| factors.iter().all(|factors| of(factors) == *bases));
        let steps = factors.iter().map(|factors| factors.map(Load::step)).collect();
        Sum { first, factors: factors.into(), bases, steps, from, to }
    }

    /// The number of its instructions.
    #[inline]
    pub fn length(&self) -> usize {
        3 * self.factors.len()
    }
}

impl Bundle {
    /// The loads with their instructions.
    #[inline]
    pub fn loads(&self) -> impl Iterator<Item = (u32, &Load)> {
        (self.first..).zip(&self.steps).filter_map(|(pc, step)| match step {
            Step::Load(load) => Some((pc, load)),
            Step::Fma | Step::Routine => None,
        })
    }

    /// Whether it is worth it without an observer of instructions. Instructions that only compute are not faster together, only observed
    /// together.
    #[inline]
    pub fn is_faster(&self) -> bool {
        !self.bases.is_empty()
    }

    /// The number of instructions.
    #[inline]
    pub fn length(&self) -> u32 {
        u32::try_from(self.steps.len()).unwrap_or(u32::MAX)
    }
}

/// Whether an instruction only computes with registers.
fn computes(op: &Op) -> bool {
    match op {
        Op::Move(moved) => moved.counter.is_none(),
        Op::Arithmetic(_)
        | Op::Logic(_)
        | Op::Bits(_)
        | Op::Select(_)
        | Op::Convert(_)
        | Op::Compare(_)
        | Op::Test(_) => true,
        _ => false,
    }
}

/// Finds the bundles of a program.
pub(super) fn find(program: &mut Program, execute: Execute) {
    let mut entered = vec![false; program.code.len()];
    for (inst, meta) in program.code.iter().zip(&program.metas) {
        let targets = match meta.op.effects().control {
            Control::Branch => std::slice::from_ref(&inst.args.target),
            Control::Table => &inst.args.targets,
            _ => &[],
        };
        for target in targets {
            if let Some(entered) = entered.get_mut(at(*target)) {
                *entered = true;
            }
        }
    }
    let uses = uses(program);
    let (mut pc, mut number) = (0, 0);
    while pc < program.code.len() {
        let (mut bases, mut steps) = collect(program, pc, &entered);
        let mut loads = (0..).zip(&steps).filter(|(_, step)| matches!(step, Step::Load(_)));
        let single = loads.next().map(|(place, _)| place).filter(|_| loads.next().is_none());
        if let Some(single) = single {
            // To measure where one load reads takes as long as to execute it: the bundle ends before it.
            steps.truncate(single);
            bases.clear();
        }
        let length = steps.len();
        if LENGTHS.contains(&length) {
            let first = u32::try_from(pc).unwrap_or(u32::MAX);
            let sums = sums(&program.code[pc..pc + length], &steps, &uses);
            let (bases, steps, sums) = (bases.into(), steps.into(), sums.into());
            let bundle = Bundle { number, first, bases, steps, sums, execute };
            program.has_faster_bundles |= bundle.is_faster();
            program.code[pc].bundle = Some(Arc::new(bundle));
            number += 1;
            pc += length;
        } else {
            pc += single.unwrap_or(0) + 1;
        }
    }
    program.bundles = number;
}

/// The instructions from `start` on that can be a bundle.
fn collect(program: &Program, start: usize, entered: &[bool]) -> (Vec<Base>, Vec<Step>) {
    let (mut bases, mut steps): (Vec<Base>, Vec<Step>) = (Vec::new(), Vec::new());
    let mut changed: Vec<(Width, u32)> = Vec::new();
    let all = program.code.iter().zip(&program.metas).zip(entered);
    for ((inst, meta), entered) in all.skip(start).take(*LENGTHS.end()) {
        let apart = !steps.is_empty() && (*entered || meta.function != program.metas[start].function);
        if apart || inst.guard.is_some() {
            break;
        }
        if let Inline::SharedWords(words) = inst.inline {
            let from = inst.args.at[0];
            let width = if from.wide { Width::W64 } else { Width::W32 };
            if from.frame || from.offset.unsigned_abs() > REACH || changed.contains(&(width, from.row)) {
                break;
            }
            let known = bases.iter().position(|base| (base.row, base.wide) == (from.row, from.wide));
            let number = known.unwrap_or(bases.len());
            if number == BASES {
                break;
            }
            let size = 4 * i64::from(words);
            let reach = (from.offset, from.offset + size);
            // A distance that is not a multiple of the size needs addresses that are not either: not in a bundle.
            if from.offset & (size - 1) != 0 {
                break;
            }
            let misaligned = 4 * words - 1;
            match bases.get_mut(number) {
                Some(base) => {
                    base.reach = (base.reach.0.min(reach.0), base.reach.1.max(reach.1));
                    base.misaligned |= misaligned;
                }
                None => bases.push(Base { row: from.row, wide: from.wide, reach, misaligned }),
            }
            steps.push(Step::Load(Load { base: number, offset: from.offset, words }));
        } else if computes(&meta.op) {
            steps.push(if inst.inline == Inline::Fma { Step::Fma } else { Step::Routine });
        } else {
            break;
        }
        changed.extend(&meta.writes);
    }
    (bases, steps)
}

/// How many operands of instructions are each 32-bit row, arguments of calls included.
fn uses(program: &Program) -> Vec<u32> {
    let mut uses = vec![0; program.registers.w32.len()];
    let reads = program.metas.iter().flat_map(|meta| &meta.reads);
    for (_, row) in reads.filter(|(width, _)| *width == Width::W32) {
        if let Some(uses) = uses.get_mut(at(*row)) {
            *uses += 1;
        }
    }
    uses
}

/// The sums of products among the instructions of a bundle.
fn sums(code: &[Inst], steps: &[Step], uses: &[u32]) -> Vec<Sum> {
    let once = |row: u32| uses.get(at(row)) == Some(&1);
    // Two loads and the product of what they loaded, which nothing else reads.
    let product = |number: usize| {
        let [Step::Load(x), Step::Load(y), Step::Fma] = steps.get(number..number + 3)? else { return None };
        let [x_row, y_row] = [code.get(number)?.args.o[0], code.get(number + 1)?.args.o[0]];
        let [to, a, b, from] = code.get(number + 2)?.args.o[..4] else { return None };
        let used = (a, b) == (x_row, y_row) || (a, b) == (y_row, x_row);
        let apart = x_row != y_row && ![x_row, y_row].contains(&from);
        let factors = if x.base <= y.base { [*x, *y] } else { [*y, *x] };
        (used && apart && x.words == 1 && y.words == 1 && once(x_row) && once(y_row))
            .then_some((factors, from, to))
    };
    let (mut sums, mut number): (Vec<Sum>, usize) = (Vec::new(), 0);
    while number < steps.len() {
        let Some((factors, from, to)) = product(number) else {
            number += 1;
            continue;
        };
        let (first, mut last, mut factors) = (number, to, vec![factors]);
        number += 3;
        while let Some((next, _, to)) = product(number).filter(|(_, from, _)| *from == last && once(*from)) {
            factors.push(next);
            last = to;
            number += 3;
        }
        sums.push(Sum::of(first, factors, (from, last)));
    }
    sums
}

#[cfg(test)]
mod tests {
    use crate::Device;

    /// The number of products in each sum of the first bundle with loads.
    fn sums(body: &str) -> Vec<usize> {
        let text = format!(
            ".version 8.7\n.target sm_89\n.address_size 64\n.visible .entry k() {{\n.reg .f32 %f<20>; .reg .b32 %a;\n\
             .shared .f32 tile[64];\nmov.u32 %a, tile;\n{body}\nst.shared.f32 [%a], %f9;\nret;\n}}\n"
        );
        let launch = Device::new().load(&text).unwrap().kernel("k").unwrap().launch();
        let program = launch.program();
        let bundles = program.code.iter().filter_map(|inst| inst.bundle.as_ref());
        bundles.flat_map(|bundle| &bundle.sums).map(|sum| sum.factors.len()).collect()
    }

    const TWO: &str = "ld.shared.f32 %f1, [%a]; ld.shared.f32 %f2, [%a+4]; fma.rn.f32 %f3, %f2, %f1, %f0;\n\
                       ld.shared.f32 %f4, [%a]; ld.shared.f32 %f5, [%a+4]; fma.rn.f32 %f9, %f4, %f5, %f3;\n";

    #[test]
    fn a_chain_of_products_is_one_sum() {
        assert_eq!(sums(TWO), [2]);
    }

    #[test]
    fn what_is_read_again_is_kept() {
        assert_eq!(sums(&format!("{TWO}st.shared.f32 [%a+8], %f3;")), [1, 1]);
        assert_eq!(sums(&format!("{TWO}st.shared.f32 [%a+8], %f4;")), [1]);
        assert_eq!(
            sums("ld.shared.f32 %f1, [%a]; ld.shared.f32 %f2, [%a+4]; fma.rn.f32 %f9, %f2, %f1, %f1;"),
            [0; 0]
        );
    }
}
