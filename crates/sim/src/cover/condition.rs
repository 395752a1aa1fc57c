//! Analyzes a condition backward through the program: its value for given parameters and a given thread, and the constants
//! that loaded values are compared with. The result only proposes inputs, which are then run; a wrong proposal costs one
//! run.

use crate::isa::Op;
use crate::isa::op::{
    self, Arithmetic, ArithmeticKind, Bits, Combine, Comparison, Convert, MoveShape, Part, Property,
};
use crate::machine::{Type, Width, at};
use crate::memory::Space;
use crate::program::{Program, SpecialKind};
use std::cell::Cell;
use std::collections::BTreeSet;

/// Instructions visited per condition, at most.
const FUEL: u32 = 400;

/// A launch and one of its threads.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    /// The bytes of each parameter, by position; `None` for unknown ones, such as addresses.
    pub parameters: Vec<Option<Vec<u8>>>,
    /// Blocks of the grid.
    pub blocks: [u32; 3],
    /// Threads of a block.
    pub threads: [u32; 3],
    /// The block.
    pub block: [u32; 3],
    /// The thread.
    pub thread: [u32; 3],
}

/// A condition and its inputs.
pub struct Slice<'p> {
    program: &'p Program,
    fuel: Cell<u32>,
}

/// A register or constant.
type Row = (Width, u32);

impl<'p> Slice<'p> {
    /// An analysis of a program.
    pub fn of(program: &'p Program) -> Slice<'p> {
        Slice { program, fuel: Cell::new(0) }
    }

    /// The value of a predicate before an instruction, if the analysis can determine it.
    pub fn value(&self, pc: u32, predicate: u32, environment: &Environment) -> Option<bool> {
        self.fuel.set(FUEL);
        self.register(at(pc), (Width::Pred, predicate), environment).map(|value| value & 1 != 0)
    }

    /// The floating-point constants that a predicate compares a loaded value with; `None` if it does not depend on a
    /// load. Integers are converted to floating point.
    pub fn constants(&self, pc: u32, predicate: u32) -> Option<Vec<f64>> {
        let (mut loads, mut constants) = (false, Vec::new());
        let mut seen = BTreeSet::new();
        let function = self.program.metas.get(at(pc))?.function;
        let mut open: Vec<usize> = self.writers(function, (Width::Pred, predicate)).collect();
        while let Some(writer) = open.pop() {
            if !seen.insert(writer) || seen.len() > 64 {
                continue;
            }
            match &self.program.metas[writer].op {
                Op::Load(load) => {
                    // Where it is loaded from is another matter.
                    loads |= load.space != Space::Param;
                    continue;
                }
                Op::Texture(_) | Op::SurfaceLoad(_) => {
                    loads = true;
                    continue;
                }
                Op::Call(_) => continue,
                Op::Compare(compare) if compare.predicate => {
                    if matches!(compare.comparison, Comparison::Nan | Comparison::Num) {
                        constants.push(f64::NAN);
                    }
                    for position in compared_operands(self.program.code[writer].args.all.len()) {
                        let bits = self.constant(writer, position, compare.ty.width());
                        constants.extend(bits.and_then(|bits| number(compare.ty, bits)));
                    }
                }
                Op::Test(property) => match property {
                    Property::Infinite | Property::Finite => {
                        constants.extend([f64::INFINITY, f64::NEG_INFINITY]);
                    }
                    Property::NotANumber | Property::Number => constants.push(f64::NAN),
                    Property::Normal | Property::Subnormal => {}
                },
                _ => {}
            }
            let reads = self.program.metas[writer].reads.iter();
            open.extend(reads.flat_map(|row| self.writers(function, *row)));
        }
        loads.then_some(constants)
    }

    /// The instructions of a function that write a row.
    fn writers(&self, function: Option<u32>, row: Row) -> impl Iterator<Item = usize> + '_ {
        let metas = self.program.metas.iter().enumerate();
        let writes = metas.filter(move |(_, meta)| meta.function == function && meta.writes.contains(&row));
        writes.map(|(pc, _)| pc)
    }

    /// The value of a register with exactly one definition; with several definitions the analysis gives up.
    fn register(&self, before: usize, row: Row, environment: &Environment) -> Option<u64> {
        let left = self.fuel.get().checked_sub(1)?;
        self.fuel.set(left);
        let mut writers = self.writers(self.program.metas.get(before)?.function, row);
        let writer = writers.next().filter(|_| writers.next().is_none())?;
        self.result(writer, row, environment)
    }

    /// A constant operand.
    fn constant(&self, pc: usize, position: usize, width: Width) -> Option<u64> {
        let row = *self.program.code[pc].args.all.get(position)?;
        let register = self.program.metas[pc].reads.contains(&(width, row));
        let special =
            self.program.specials.iter().any(|special| (special.width, special.row) == (width, row));
        if register || special {
            return None;
        }
        let registers = &self.program.registers;
        match width {
            Width::W32 => registers.w32.get(at(row)).map(|row| u64::from(row.0[0])),
            Width::W64 => registers.w64.get(at(row)).map(|row| row.0[0]),
            Width::Pred | Width::W128 => None,
        }
    }

    fn operand(&self, pc: usize, position: usize, width: Width, environment: &Environment) -> Option<u64> {
        let args = &self.program.code[pc].args;
        let row = *args.all.get(position)?;
        if self.program.metas[pc].reads.contains(&(width, row)) {
            let value = self.register(pc, (width, row), environment)?;
            let negated = width == Width::Pred && args.is_negated(position);
            return Some(if negated { value ^ 1 } else { value });
        }
        let is = |special: &&crate::program::Special| (special.width, special.row) == (width, row);
        match self.program.specials.iter().find(is) {
            Some(special) => environment.special(special.kind),
            None => self.constant(pc, position, width),
        }
    }

    fn parameter(&self, pc: usize, bytes: u32, environment: &Environment) -> Option<u64> {
        let address = self.program.code[pc].args.at[0];
        if self.program.metas[pc].function.is_some() || address.frame {
            return None;
        }
        let registers = &self.program.registers;
        let base = if address.wide {
            registers.w64.get(at(address.row))?.0[0]
        } else {
            u64::from(registers.w32.get(at(address.row))?.0[0])
        };
        let offset = base.checked_add_signed(address.offset)?;
        let holds = |offset: u64, start: u32, size: u32| {
            offset >= u64::from(start) && offset + u64::from(bytes) <= u64::from(start) + u64::from(size)
        };
        let found = self.program.params.iter().zip(&environment.parameters);
        let (parameter, given) =
            found.into_iter().find(|(parameter, _)| holds(offset, parameter.offset, parameter.size))?;
        let start = usize::try_from(offset - u64::from(parameter.offset)).ok()?;
        let part = given.as_ref()?.get(start..start + at(bytes))?;
        Some(part.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }

    /// The value that an instruction writes to a row.
    fn result(&self, pc: usize, row: Row, environment: &Environment) -> Option<u64> {
        let inst = &self.program.code[pc];
        if inst.guard.is_some() || inst.args.all.first() != Some(&row.1) {
            return None;
        }
        let of = |position: usize, width: Width| self.operand(pc, position, width, environment);
        Some(match &self.program.metas[pc].op {
            Op::Load(load) if load.space == Space::Param && load.vector == 1 => {
                self.parameter(pc, load.ty.bytes(), environment)?
            }
            Op::Move(moved) if moved.shape == MoveShape::Copy => of(1, moved.ty.width())?,
            Op::ConvertAddress => of(1, Width::W64)?,
            Op::Logic(logic) if !logic.tests => {
                let width = logic.ty.width();
                let sources = [of(1, width)?, if logic.sources > 1 { of(2, width)? } else { 0 }];
                let value = match logic.table {
                    op::AND => sources[0] & sources[1],
                    op::OR => sources[0] | sources[1],
                    op::XOR => sources[0] ^ sources[1],
                    op::NOT => !sources[0] & mask(logic.ty.bytes()),
                    _ => return None,
                };
                if logic.sources == 3 {
                    return None;
                }
                value
            }
            Op::Arithmetic(arithmetic) => self.arithmetic(pc, *arithmetic, environment)?,
            Op::Bits(Bits::ShiftLeft(ty)) => {
                let by = u32::try_from(of(2, Width::W32)?).ok()?.min(63);
                low(integer(*ty, of(1, ty.width())?) << by) & mask(ty.bytes())
            }
            Op::Bits(Bits::ShiftRight(ty)) => {
                let by = u32::try_from(of(2, Width::W32)?).ok()?.min(63);
                low(integer(*ty, of(1, ty.width())?) >> by) & mask(ty.bytes())
            }
            Op::Convert(Convert { to: Some(to), from: Some(from), plain: true, .. }) => {
                if to.is_float() || from.is_float() {
                    return None;
                }
                let source = self.program.metas[pc].reads.first().map_or(from.width(), |(width, _)| *width);
                low(integer(*from, of(1, source)? & mask(from.bytes()))) & mask(to.bytes())
            }
            Op::Select(ty) => {
                let chosen = of(3, Width::Pred)? & 1 != 0;
                of(if chosen { 1 } else { 2 }, ty.width())?
            }
            Op::Compare(compare) if compare.predicate => {
                let [first, second] = compared_operands(inst.args.all.len());
                let width = compare.ty.width();
                let value = compared(compare.comparison, compare.ty, of(first, width)?, of(second, width)?)?;
                let joined = |value: bool| Some((value, of(4, Width::Pred)? & 1 != 0));
                u64::from(match compare.join {
                    None => value,
                    Some(Combine::And) => joined(value).map(|(a, b)| a & b)?,
                    Some(Combine::Or) => joined(value).map(|(a, b)| a | b)?,
                    Some(Combine::Xor) => joined(value).map(|(a, b)| a ^ b)?,
                    Some(_) => return None,
                })
            }
            _ => return None,
        })
    }

    /// The result of integer arithmetic.
    fn arithmetic(&self, pc: usize, op: Arithmetic, environment: &Environment) -> Option<u64> {
        let ty = op.ty.filter(|ty| !ty.is_float() && !op.pairs)?;
        let width = ty.width();
        let signed = |position: usize| Some(integer(ty, self.operand(pc, position, width, environment)?));
        let value = match op.kind {
            ArithmeticKind::Add => signed(1)? + signed(2)?,
            ArithmeticKind::Sub => signed(1)? - signed(2)?,
            ArithmeticKind::Neg => -signed(1)?,
            ArithmeticKind::Div => signed(1)?.checked_div(signed(2)?)?,
            ArithmeticKind::Rem => signed(1)?.checked_rem(signed(2)?)?,
            ArithmeticKind::Min => signed(1)?.min(signed(2)?),
            ArithmeticKind::Max => signed(1)?.max(signed(2)?),
            ArithmeticKind::Mul | ArithmeticKind::Mad => {
                let product = signed(1)?.checked_mul(signed(2)?)?;
                let (bytes, result, product) = match op.part {
                    Part::Low => (ty.bytes(), width, product),
                    Part::High => (ty.bytes(), width, product >> (8 * ty.bytes())),
                    Part::Wide if ty.bytes() >= 4 => (2 * ty.bytes(), Width::W64, product),
                    Part::Wide => (2 * ty.bytes(), width, product),
                };
                let added = match op.kind {
                    ArithmeticKind::Mad => i128::from(self.operand(pc, 3, result, environment)?),
                    _ => 0,
                };
                return Some(low(product.wrapping_add(added)) & mask(bytes));
            }
            _ => return None,
        };
        Some(low(value) & mask(ty.bytes()))
    }
}

impl Environment {
    fn special(&self, kind: SpecialKind) -> Option<u64> {
        let of = |all: [u32; 3], axis: usize| all.get(axis).map(|extent| u64::from(*extent));
        match kind {
            SpecialKind::Tid(axis) => of(self.thread, axis),
            SpecialKind::Ntid(axis) => of(self.threads, axis),
            SpecialKind::Ctaid(axis) => of(self.block, axis),
            SpecialKind::Nctaid(axis) => of(self.blocks, axis),
            SpecialKind::Laneid => of(self.thread, 0).map(|lane| lane % 32),
            _ => None,
        }
    }
}

/// The positions of the two compared operands of a `setp` with this number of operands: it has one or two results.
fn compared_operands(count: usize) -> [usize; 2] {
    if count == 3 { [1, 2] } else { [2, 3] }
}

fn mask(bytes: u32) -> u64 {
    match bytes {
        0 => 1,
        1..=7 => (1 << (8 * bytes)) - 1,
        _ => u64::MAX,
    }
}

fn low(value: i128) -> u64 {
    u64::try_from(value.cast_unsigned() & u128::from(u64::MAX)).unwrap_or(0)
}

/// The numeric value of the bits of an integer type.
fn integer(ty: Type, bits: u64) -> i128 {
    let unused = 64u32.saturating_sub(8 * ty.bytes()).min(63);
    if ty.is_signed() {
        i128::from((bits << unused).cast_signed() >> unused)
    } else {
        i128::from(bits & mask(ty.bytes()))
    }
}

/// The numeric value of the bits of a type.
fn number(ty: Type, bits: u64) -> Option<f64> {
    match ty {
        Type::F32 => Some(f64::from(f32::from_bits(u32::try_from(bits & 0xffff_ffff).ok()?))),
        Type::F64 => Some(f64::from_bits(bits)),
        Type::F16 | Type::BF16 | Type::Pred => None,
        ty => i32::try_from(integer(ty, bits)).ok().map(f64::from),
    }
}

fn compared(comparison: Comparison, ty: Type, a: u64, b: u64) -> Option<bool> {
    use std::cmp::Ordering::{Equal, Greater, Less};
    let order = if ty.is_float() {
        number(ty, a)?.partial_cmp(&number(ty, b)?)
    } else {
        Some(integer(ty, a).cmp(&integer(ty, b)))
    };
    Some(match comparison {
        Comparison::Eq => order == Some(Equal),
        Comparison::Ne => matches!(order, Some(Less | Greater)),
        Comparison::Lt | Comparison::Lo => order == Some(Less),
        Comparison::Le | Comparison::Ls => matches!(order, Some(Less | Equal)),
        Comparison::Gt | Comparison::Hi => order == Some(Greater),
        Comparison::Ge | Comparison::Hs => matches!(order, Some(Greater | Equal)),
        Comparison::Neu => order != Some(Equal),
        Comparison::Equ => matches!(order, Some(Equal) | None),
        Comparison::Ltu => !matches!(order, Some(Greater | Equal)),
        Comparison::Leu => order != Some(Greater),
        Comparison::Gtu => !matches!(order, Some(Less | Equal)),
        Comparison::Geu => order != Some(Less),
        Comparison::Nan => order.is_none(),
        Comparison::Num => order.is_some(),
    })
}
