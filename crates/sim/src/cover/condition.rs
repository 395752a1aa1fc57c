//! Analyzes a condition backward through the program: its value for given parameters and a given thread, and the constants
//! that loaded values are compared with. The result only proposes inputs, which are then run; a wrong proposal costs one
//! run.

use crate::check::Words;
use crate::machine::{Type, Width, at};
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
            let words = Words::of(self.program.instruction(writer));
            match words.opcode {
                "ld" | "ldu" if !words.has("param") => {
                    loads = true;
                    // The address of the load is not a loaded value itself.
                    continue;
                }
                "ld" | "call" => continue,
                "setp" => {
                    let ty = words.modifiers.last().and_then(|name| Type::parse(name));
                    if words.has("nan") || words.has("num") {
                        constants.push(f64::NAN);
                    }
                    for position in compared_operands(self.program.code[writer].args.all.len()) {
                        let bits = ty.and_then(|ty| self.constant(writer, position, ty.width()));
                        constants.extend(ty.zip(bits).and_then(|(ty, bits)| number(ty, bits)));
                    }
                }
                "testp" => {
                    if words.has("infinite") || words.has("finite") {
                        constants.extend([f64::INFINITY, f64::NEG_INFINITY]);
                    }
                    if words.has("notanumber") || words.has("number") {
                        constants.push(f64::NAN);
                    }
                }
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
            let negated = width == Width::Pred && args.not >> position & 1 != 0;
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
        let words = Words::of(self.program.instruction(pc));
        let inst = &self.program.code[pc];
        if inst.guard.is_some() || inst.args.all.first() != Some(&row.1) {
            return None;
        }
        let ty = Type::parse(words.modifiers.last()?)?;
        let width = ty.width();
        let of = |position: usize| self.operand(pc, position, width, environment);
        let signed = |value: u64| integer(ty, value);
        let cut = |value: i128| Some(low(value) & mask(ty.bytes()));
        Some(match words.opcode {
            "ld" if words.has("param") && words.modifiers.iter().all(|word| !word.starts_with('v')) => {
                self.parameter(pc, ty.bytes(), environment)?
            }
            "mov" | "cvta" if inst.args.all.len() == 2 => of(1)?,
            "and" => of(1)? & of(2)?,
            "or" => of(1)? | of(2)?,
            "xor" => of(1)? ^ of(2)?,
            "not" if ty == Type::Pred => of(1)? ^ 1,
            "not" => cut(!signed(of(1)?))?,
            _ if ty.is_float() && words.opcode != "setp" => return None,
            "add" => cut(signed(of(1)?) + signed(of(2)?))?,
            "sub" => cut(signed(of(1)?) - signed(of(2)?))?,
            "neg" => cut(-signed(of(1)?))?,
            "mul" | "mad" => {
                let product = signed(of(1)?).checked_mul(signed(of(2)?))?;
                let bytes = if words.has("wide") { 2 * ty.bytes() } else { ty.bytes() };
                let product = if words.has("hi") { product >> (8 * ty.bytes()) } else { product };
                let result = if words.has("wide") && ty.bytes() >= 4 { Width::W64 } else { width };
                let added = if words.opcode == "mad" {
                    i128::from(self.operand(pc, 3, result, environment)?)
                } else {
                    0
                };
                low(product.wrapping_add(added)) & mask(bytes)
            }
            "div" => cut(signed(of(1)?).checked_div(signed(of(2)?))?)?,
            "rem" => cut(signed(of(1)?).checked_rem(signed(of(2)?))?)?,
            "min" => cut(signed(of(1)?).min(signed(of(2)?)))?,
            "max" => cut(signed(of(1)?).max(signed(of(2)?)))?,
            "shl" | "shr" => {
                let by = u32::try_from(self.operand(pc, 2, Width::W32, environment)?).ok()?.min(63);
                let value = signed(of(1)?);
                cut(if words.opcode == "shl" { value << by } else { value >> by })?
            }
            "cvt" if words.modifiers.len() == 2 => {
                let target = Type::parse(words.modifiers[0])?;
                if target.is_float() || ty.is_float() {
                    return None;
                }
                let source = self.program.metas[pc].reads.first().map_or(width, |(width, _)| *width);
                let value = self.operand(pc, 1, source, environment)?;
                low(integer(ty, value & mask(ty.bytes()))) & mask(target.bytes())
            }
            "selp" => {
                let chosen = self.operand(pc, 3, Width::Pred, environment)? & 1 != 0;
                of(if chosen { 1 } else { 2 })?
            }
            "setp" => {
                let compare = *words.modifiers.first()?;
                let [first, second] = compared_operands(inst.args.all.len());
                let value = compared(compare, ty, of(first)?, of(second)?)?;
                let value = match inst.args.all.len() {
                    3 | 4 => value,
                    _ => {
                        let other = self.operand(pc, 4, Width::Pred, environment)? & 1 != 0;
                        match *words.modifiers.get(1)? {
                            "and" => value & other,
                            "or" => value | other,
                            "xor" => value ^ other,
                            _ => return None,
                        }
                    }
                };
                u64::from(value)
            }
            _ => return None,
        })
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

fn compared(compare: &str, ty: Type, a: u64, b: u64) -> Option<bool> {
    use std::cmp::Ordering::{Equal, Greater, Less};
    let order = if ty.is_float() {
        number(ty, a)?.partial_cmp(&number(ty, b)?)
    } else {
        Some(integer(ty, a).cmp(&integer(ty, b)))
    };
    Some(match compare {
        "eq" => order == Some(Equal),
        "ne" => matches!(order, Some(Less | Greater)),
        "lt" | "lo" => order == Some(Less),
        "le" | "ls" => matches!(order, Some(Less | Equal)),
        "gt" | "hi" => order == Some(Greater),
        "ge" | "hs" => matches!(order, Some(Greater | Equal)),
        "neu" => order != Some(Equal),
        "equ" => matches!(order, Some(Equal) | None),
        "ltu" => !matches!(order, Some(Greater | Equal)),
        "leu" => order != Some(Greater),
        "gtu" => !matches!(order, Some(Less | Equal)),
        "geu" => order != Some(Less),
        "nan" => order.is_none(),
        "num" => order.is_some(),
        _ => return None,
    })
}
