//! Events: all that the provenance of a block depends on, except the program and the buffers of the launch.
//!
//! Two blocks with the same events have the same tags. That is what `follow.rs` is based on, so whatever `state.rs` reads
//! must be a part of its event.

use super::plan::{Action, Shape, Step};
use smallvec::SmallVec;
use warpproof_sim::machine::{LANES, at};
use warpproof_sim::memory::Space;
use warpproof_sim::observe::Issue;

/// Something that moves, uses or destroys tags.
pub(super) struct Event<'e> {
    pub warp: u32,
    pub pc: u32,
    /// The lanes that take part.
    pub lanes: u32,
    pub what: What<'e>,
}

pub(super) enum What<'e> {
    /// An instruction between registers, and the values that it depends on.
    Step { whole: bool, values: &'e [u32] },
    /// A matrix instruction, and the values of its operands.
    Multiply { whole: bool, values: &'e mut dyn Values },
    /// Lanes exchange values: the lane that each one reads.
    Exchange { sources: &'e [u32; LANES] },
    /// A lane's asynchronous copy from global to shared memory is complete.
    Copy { to: u32, from: u64, size: u32, read: u32 },
    /// An access to memory.
    Access(Memory<'e>),
    /// Threads arrive at a barrier: changes no tags, but orders what warps do.
    Arrive { id: u32 },
}

/// An access to memory.
#[derive(Clone, Copy)]
pub(super) struct Memory<'e> {
    pub space: Space,
    /// Bytes for each lane.
    pub bytes: u32,
    /// Whether it only destroys the tags of shared memory.
    pub destroys: bool,
    /// The addresses, unless tags do not depend on them.
    pub addresses: Option<&'e [u64; LANES]>,
}

/// What a matrix instruction asks about the values of its operands. Sources are numbered: A, B, C.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Question {
    /// Whether `count` registers from `first` on hold only zeros.
    AllZero { first: usize, count: usize },
    /// The lanes in which an element of C is zero.
    Zeros { register: usize, high: bool, packed: bool },
}

/// The values of the operands of a matrix instruction.
pub(super) trait Values {
    fn answer(&mut self, question: Question) -> u32;
}

/// Values in the registers of a warp.
pub(super) struct InRegisters<'i, 'm> {
    pub issue: &'m Issue<'i>,
    pub shape: Shape,
}

impl InRegisters<'_, '_> {
    /// The values of a source register.
    fn row(&self, register: usize) -> Option<&[u32; LANES]> {
        let d = self.shape.accumulators(self.shape.packed.1);
        let row = *self.issue.program.code.get(at(self.issue.pc))?.args.all.get(d + register)?;
        self.issue.registers.w32.get(at(row)).map(|row| &row.0)
    }
}

impl Values for InRegisters<'_, '_> {
    fn answer(&mut self, question: Question) -> u32 {
        match question {
            Question::AllZero { first, count } => u32::from(
                (first..first + count)
                    .all(|register| self.row(register).is_some_and(|row| row.iter().all(|word| *word == 0))),
            ),
            Question::Zeros { register, high, packed } => self.row(register).map_or(0, |row| {
                let (shift, part) = if packed { (16 * u32::from(high), 0xffff) } else { (0, u32::MAX) };
                mask(|lane| row[lane] >> shift & part == 0)
            }),
        }
    }
}

/// A bit for each lane.
fn mask(is_set: impl Fn(usize) -> bool) -> u32 {
    (0..LANES).fold(0, |bits, lane| bits | u32::from(is_set(lane)) << lane)
}

/// Values that an instruction between registers depends on.
pub(super) type Words = SmallVec<[u32; LANES]>;

/// The values that an instruction between registers depends on. Those of lanes that do not take part are not defined, but
/// always the same.
pub(super) fn values_of(step: &Step, issue: &Issue<'_>, grain: u32) -> Words {
    let args = &issue.program.code[at(issue.pc)].args;
    let value = |operand: usize| {
        let row = args.all.get(operand).copied().unwrap_or(0);
        issue.registers.w32.get(at(row)).map_or(&[0; LANES], |row| &row.0)
    };
    match step.action {
        Action::FragmentLoad(_) => SmallVec::from_slice(&[leading(issue)]),
        Action::Select => {
            let negated = args.not >> 3 & 1 != 0;
            let bits =
                args.all.get(3).and_then(|row| issue.registers.preds.get(at(*row))).copied().unwrap_or(0);
            let bits = if negated { !bits } else { bits };
            let nonzero = [1, 2].map(|operand| {
                let row = value(operand);
                mask(|lane| row[lane] != 0) & issue.exec
            });
            SmallVec::from_slice(&[bits & issue.exec, nonzero[0], nonzero[1]])
        }
        Action::And => {
            let parts = 4 / grain;
            let each = |operand: usize| {
                let row = value(operand);
                (0..parts).map(move |i| {
                    let part = (1 << (8 * grain)) - 1;
                    mask(|lane| row[lane] >> (32 / parts * i) & part == 0) & issue.exec
                })
            };
            each(1).chain(each(2)).collect()
        }
        Action::Shift(_) => words(value(2), issue.exec),
        Action::Permute => words(value(3), issue.exec),
        _ => SmallVec::new(),
    }
}

/// The words of all lanes, or one if all are the same.
fn words(row: &[u32; LANES], exec: u32) -> Words {
    let first = row[at(exec.trailing_zeros()) % LANES];
    let other = mask(|lane| row[lane] != first) & exec;
    if other == 0 {
        return SmallVec::from_slice(&[first]);
    }
    row.iter().enumerate().map(|(lane, word)| if exec >> lane & 1 == 0 { first } else { *word }).collect()
}

/// The leading dimension that a `wmma.load` is given, in elements; 0 if it has none.
fn leading(issue: &Issue<'_>) -> u32 {
    let pc = at(issue.pc);
    let registers = issue.program.metas.get(pc).map_or(0, |meta| meta.writes.len());
    let row = issue.program.code.get(pc).and_then(|code| code.args.all.get(registers)).copied();
    let lane = at(issue.exec.trailing_zeros()).min(LANES - 1);
    row.and_then(|row| issue.registers.w32.get(at(row))).map_or(0, |row| row.0[lane])
}
