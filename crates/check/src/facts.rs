//! How values flow through each instruction, and which uses of a value are observable. Decoded once from the program
//! and shared by the checks that follow values (`init`, `taint`).

use super::assigned::assigned_first;
use super::fragment::Shape;
use std::collections::BTreeMap;
use warpproof_sim::isa::op::{
    self, ArithmeticKind, Bits, Bulk, ByteMatrix, Combine, Compare, Comparison, Convert, Element, Memory,
    MemoryKind, Move, MoveShape, Part, TensorOp,
};
use warpproof_sim::isa::{Callee, Op};
use warpproof_sim::machine::{Registers, Type, Width, at};
use warpproof_sim::program::{Meta, Program};

/// An operand that is not a register: a constant, a special register, `_`.
pub(super) const NO_ROW: u32 = u32::MAX;

/// A use of a value that makes it observable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    Address,
    /// Decides a branch.
    Branch,
    /// Decides whether another instruction is executed, or how much it copies.
    Condition,
    /// The target of a branch or call.
    Target,
    /// An operand of a matrix multiplication.
    Matrix,
    /// An operand of a barrier.
    Barrier,
    /// Chooses lanes.
    Lanes,
    /// Stored to global memory.
    Store,
    /// Memory that an atomic operation modifies.
    Atomic,
}

/// How results depend on sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// All bytes of a result are poisoned if any byte of a source is.
    Any,
    /// The results come from memory or a callee: they are clean until the access or the return is observed.
    Fresh,
    /// The same for each half of a word; bytes of a half.
    Halves(u32),
    /// The same for each byte.
    Bytes,
    /// The consecutive parts of the source; bytes of a part.
    Unpack(u32),
    Pack(u32),
    /// Each bit of the result depends on the same bit of the sources, by the truth table of up to three inputs.
    Bitwise(u8),
    /// Bits are moved.
    Shuffle(BitMove),
    /// `selp`.
    Select,
    /// `setp` combined with a predicate, which alone decides the result if it has this value.
    Compare(bool),
    /// Each lane's result depends on all lanes that take part in the exchange.
    Vote,
    /// The same, without an exchange.
    VoteHere,
    /// A lane's result is the value of another lane, known from the exchange.
    Lanes,
    /// `movmatrix`.
    Transpose,
    /// Integer arithmetic on whole registers.
    Arithmetic(Arithmetic),
    /// `mma` or `wmma.mma`: an element depends on a row of A, a column of B, and an element of C.
    Multiply(Shape),
}

/// Integer arithmetic under which a sum of addresses stays a sum of addresses, and comparisons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arithmetic {
    Add,
    Sub,
    /// Whether the result is twice as wide as the factors.
    Multiply {
        wide: bool,
    },
    MultiplyAdd {
        wide: bool,
    },
    /// `cvta`: the same address in another space.
    Space,
    /// `setp` without another predicate.
    Compare,
}

/// An instruction that moves bits of its first operands, controlled by the last ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BitMove {
    Shl(u32),
    Shr(u32, bool),
    Funnel {
        left: bool,
        wrap: bool,
    },
    Extract(u32, bool),
    Insert(u32),
    Permute,
    /// Bytes and sign of the source, and of the result.
    Convert((u32, bool), (u32, bool)),
}

impl BitMove {
    /// How many of the sources are moved; the others control the move.
    pub(super) fn moved(self) -> usize {
        match self {
            BitMove::Shl(_) | BitMove::Shr(..) | BitMove::Extract(..) | BitMove::Convert(..) => 1,
            BitMove::Funnel { .. } | BitMove::Insert(_) | BitMove::Permute => 2,
        }
    }
}

/// Which part of an access is in which register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Traffic {
    /// No data in registers that the checks follow.
    None,
    /// Elements of `bytes` bytes, one per row, sign-extended or not.
    Elements { bytes: u32, signed: bool },
    /// `ldmatrix`, `stmatrix`: transposed or not.
    Matrix { trans: bool },
    /// The same with 8-bit elements.
    Bytes(ByteMatrix),
    /// `wmma.load`, `wmma.store`: register by register, each in one access or element by element.
    Fragment,
    /// Any of the rows.
    Any,
}

/// The part that the fast path needs: where the rows of an instruction are listed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hot {
    start: u32,
    reads: u16,
    writes: u16,
    /// The guard's row, or [`NO_ROW`].
    pub(super) guard: u32,
}

/// The rest, needed only if an operand is poisoned.
#[derive(Clone, Debug)]
pub(super) struct Cold {
    pub(super) rule: Rule,
    pub(super) uses: Vec<(u32, Use, u32)>,
    /// The operands that the rule refers to, results first; includes constants.
    pub(super) operands: Vec<u32>,
    /// Which of them are negated predicates.
    pub(super) not: u32,
    pub(super) traffic: Traffic,
    /// The registers that `traffic` refers to.
    pub(super) rows: Vec<u32>,
    /// Whether the access loads into the registers.
    pub(super) loads: bool,
    /// The rows of the addresses.
    pub(super) addresses: Vec<u32>,
    pub(super) branch: bool,
    /// Compares for equality or its opposite.
    pub(super) equality: bool,
}

impl Cold {
    /// How many of the operands are results.
    pub(super) fn results(&self) -> usize {
        match self.rule {
            Rule::Compare(_) => 2,
            Rule::Arithmetic(Arithmetic::Compare) => self.operands.len().saturating_sub(2),
            _ => 1,
        }
    }
}

/// Numbers the rows of all register files consecutively: 32 bits, 64, 128, predicates.
#[derive(Clone, Copy, Debug)]
pub(super) struct Numbering {
    starts: [u32; 4],
    pub(super) count: u32,
}

impl Numbering {
    fn of(program: &Program) -> Numbering {
        let regs = &program.registers;
        let length = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let lengths = [regs.w32.len(), regs.w64.len(), regs.w128.len(), regs.preds.len()].map(length);
        let mut starts = [0; 4];
        let mut count = 0u32;
        for (start, length) in starts.iter_mut().zip(lengths) {
            *start = count;
            count = count.saturating_add(length);
        }
        Numbering { starts, count }
    }

    pub(super) fn number(&self, width: Width, row: u32) -> u32 {
        row + self.starts[match width {
            Width::W32 => 0,
            Width::W64 => 1,
            Width::W128 => 2,
            Width::Pred => 3,
        }]
    }

    pub(super) fn row(&self, number: u32) -> (Width, u32) {
        let files = [Width::W32, Width::W64, Width::W128, Width::Pred];
        let file = self.starts.iter().rposition(|start| number >= *start).unwrap_or(0);
        (files[file], number - self.starts[file])
    }

    /// All bytes of a row; a predicate counts as one.
    pub(super) fn full(&self, number: u32) -> u16 {
        match self.row(number).0 {
            Width::Pred => 1,
            Width::W32 => 0xf,
            Width::W64 => 0xff,
            Width::W128 => 0xffff,
        }
    }
}

/// By row: the instructions that read it, including those that it guards, and those that write it.
#[derive(Debug, Default)]
pub(crate) struct Flow {
    readers: BTreeMap<(Width, u32), Vec<usize>>,
    writers: BTreeMap<(Width, u32), Vec<usize>>,
}

impl Flow {
    pub(crate) fn of(program: &Program) -> Flow {
        let mut flow = Flow::default();
        for (pc, meta) in program.metas.iter().enumerate() {
            meta.reads.iter().for_each(|row| flow.readers.entry(*row).or_default().push(pc));
            meta.writes.iter().for_each(|row| flow.writers.entry(*row).or_default().push(pc));
        }
        flow
    }

    pub(super) fn readers(&self, row: (Width, u32)) -> &[usize] {
        self.readers.get(&row).map_or(&[], Vec::as_slice)
    }

    pub(super) fn writers(&self, row: (Width, u32)) -> &[usize] {
        self.writers.get(&row).map_or(&[], Vec::as_slice)
    }
}

/// The facts about all instructions of a program.
#[derive(Debug)]
pub(crate) struct Facts {
    hot: Vec<Hot>,
    cold: Vec<Cold>,
    rows: Vec<u32>,
    pub(super) numbering: Numbering,
    /// The lanes of each row that are uninitialized when a warp starts: all lanes of every register.
    pub(super) start: Vec<u32>,
    /// The same without the registers that are always written before they are read.
    pub(super) unset: Vec<u32>,
}

impl Facts {
    pub(crate) fn of(program: &Program) -> Facts {
        let numbering = Numbering::of(program);
        let mut facts = Facts {
            hot: Vec::with_capacity(program.code.len()),
            cold: Vec::with_capacity(program.code.len()),
            rows: Vec::new(),
            numbering,
            start: vec![0; at(numbering.count)],
            unset: Vec::new(),
        };
        for meta in &program.metas {
            for (width, row) in meta.reads.iter().chain(&meta.writes) {
                if let Some(start) = facts.start.get_mut(at(numbering.number(*width, *row))) {
                    *start = u32::MAX;
                }
            }
        }
        let assigned = assigned_first(program, numbering);
        let unset =
            facts.start.iter().zip(assigned).map(|(start, assigned)| if assigned { 0 } else { *start });
        facts.unset = unset.collect();
        for pc in 0..program.code.len().min(program.metas.len()) {
            facts.add(program, pc);
        }
        facts
    }

    fn add(&mut self, program: &Program, pc: usize) {
        let numbering = self.numbering;
        let (inst, meta) = (&program.code[pc], &program.metas[pc]);
        let guard = inst.guard.map_or(NO_ROW, |(row, _)| numbering.number(Width::Pred, row));
        let reads = meta.reads.len() - usize::from(inst.guard.is_some()).min(meta.reads.len());
        let start = self.rows.len();
        self.rows.extend(meta.reads[..reads].iter().map(|(width, row)| numbering.number(*width, *row)));
        let mid = self.rows.len();
        self.rows.extend(meta.writes.iter().map(|(width, row)| numbering.number(*width, *row)));
        // What a function that calls itself had in its registers comes back when it returns.
        if meta.op == Op::Return
            && let Some(callee) =
                meta.function.and_then(|i| program.callees.get(at(i))).filter(|f| f.recursive)
        {
            let files = [Width::W32, Width::W64, Width::W128, Width::Pred];
            for (width, (from, to)) in files.into_iter().zip(callee.rows) {
                self.rows.extend((from..to).map(|row| numbering.number(width, row)));
            }
        }
        let short = |n: usize| u16::try_from(n).unwrap_or(u16::MAX);
        self.hot.push(Hot {
            start: u32::try_from(start).unwrap_or(u32::MAX),
            reads: short(mid - start),
            writes: short(self.rows.len() - mid),
            guard,
        });
        let reader = Reader { program, pc, numbering, op: &meta.op, reads: &meta.reads[..reads] };
        self.cold.push(reader.cold(meta));
    }

    /// The rows an instruction reads and writes, and its guard.
    #[inline]
    pub(super) fn rows(&self, pc: u32) -> (&[u32], &[u32], u32) {
        let Some(hot) = self.hot.get(at(pc)) else { return (&[], &[], NO_ROW) };
        let (start, reads) = (at(hot.start), usize::from(hot.reads));
        let rows = self.rows.get(start..start + reads + usize::from(hot.writes)).unwrap_or(&[]);
        let (reads, writes) = rows.split_at(reads.min(rows.len()));
        (reads, writes, hot.guard)
    }

    pub(super) fn cold(&self, pc: u32) -> Option<&Cold> {
        self.cold.get(at(pc))
    }

    /// The value of a row.
    pub(super) fn value(&self, registers: &Registers, row: u32, lane: usize) -> u64 {
        let (width, row) = self.numbering.row(row);
        match width {
            Width::W32 => registers.w32.get(at(row)).map_or(0, |row| u64::from(row.0[lane])),
            Width::W64 => registers.w64.get(at(row)).map_or(0, |row| row.0[lane]),
            Width::W128 => 0,
            Width::Pred => registers.preds.get(at(row)).map_or(0, |row| u64::from(row >> lane & 1)),
        }
    }
}

/// Whether a type is a scalar integer type.
fn integer(ty: Option<Type>) -> bool {
    use Type::{S16, S32, S64, U16, U32, U64};
    matches!(ty, Some(U16 | S16 | U32 | S32 | U64 | S64))
}

/// The register file of a product that is twice as wide as its factors.
fn wider(width: Width, bytes: u32) -> Width {
    if bytes < 4 { width } else { Width::W64 }
}

/// An instruction being decoded.
struct Reader<'a> {
    program: &'a Program,
    pc: usize,
    numbering: Numbering,
    op: &'a Op,
    /// Rows it reads, the guard's apart.
    reads: &'a [(Width, u32)],
}

impl Reader<'_> {
    fn cold(&self, meta: &Meta) -> Cold {
        let args = &self.program.code[self.pc].args;
        let mut cold = Cold {
            rule: Rule::Any,
            uses: self.uses(),
            operands: Vec::new(),
            not: args.not,
            traffic: Traffic::None,
            rows: Vec::new(),
            loads: self.loads(),
            addresses: self
                .addresses()
                .iter()
                .map(|(width, row)| self.numbering.number(*width, *row))
                .collect(),
            branch: *self.op == Op::Branch,
            equality: matches!(
                self.op,
                Op::Compare(Compare { comparison: Comparison::Eq | Comparison::Ne, .. })
            ),
        };
        if meta.entry.is_none() {
            cold.rule = Rule::Fresh;
            return cold;
        }
        if let Some((rule, widths)) = self.rule()
            && widths.len() == args.all.len()
        {
            cold.rule = rule;
            cold.operands = widths
                .iter()
                .zip(&args.all)
                .map(|(width, row)| self.numbering.number(*width, *row))
                .collect();
        } else {
            cold.rule = self.plain_rule();
        }
        (cold.traffic, cold.rows) = self.traffic(meta);
        cold
    }

    /// Rules that need no operands.
    fn plain_rule(&self) -> Rule {
        match self.op {
            Op::Load(_)
            | Op::Store(_)
            | Op::Atomic(_)
            | Op::LoadMatrix(_)
            | Op::StoreMatrix(_)
            | Op::LoadTile(_)
            | Op::StoreTile(_)
            | Op::Call(_)
            | Op::Return
            | Op::CopyAsync(_)
            | Op::CommitGroup
            | Op::WaitGroup(_)
            | Op::WaitAll
            | Op::CopiesArrive
            | Op::Bulk(_)
            | Op::Fill
            | Op::TensorMap
            | Op::Texture(_)
            | Op::SurfaceLoad(_)
            | Op::SurfaceStore(_)
            | Op::SurfaceReduce(_)
            | Op::MultiplyAsync(_)
            | Op::Tensor(_)
            | Op::Parameter
            | Op::Refused => Rule::Fresh,
            Op::Vote { sync: false, .. } => Rule::VoteHere,
            Op::Vote { .. } | Op::Match { .. } | Op::Redux { .. } | Op::Elect => Rule::Vote,
            Op::Arithmetic(arithmetic) if arithmetic.quads => Rule::Bytes,
            Op::Arithmetic(arithmetic) if arithmetic.pairs => {
                Rule::Halves(if arithmetic.ty == Some(Type::F32x2) { 4 } else { 2 })
            }
            Op::Arithmetic(_)
            | Op::Logic(_)
            | Op::Bits(_)
            | Op::Compare(_)
            | Op::Test(_)
            | Op::Select(_)
            | Op::Move(_)
            | Op::ConvertAddress
            | Op::TestSpace
            | Op::Convert(_)
            | Op::ImageQuery
            | Op::CacheHint
            | Op::Discard
            | Op::CachePolicy
            | Op::Mbarrier(_)
            | Op::Fence(_)
            | Op::Barrier(_)
            | Op::ClusterBarrier { .. }
            | Op::WarpSync { .. }
            | Op::Shuffle(_)
            | Op::ActiveMask
            | Op::TransposeMatrix
            | Op::Multiply(_)
            | Op::MultiplyFence
            | Op::MultiplyCommit
            | Op::MultiplyWait(_)
            | Op::Branch
            | Op::BranchTable
            | Op::Exit
            | Op::Trap
            | Op::Event
            | Op::Sleep
            | Op::GridDependency { .. }
            | Op::SetRegisters
            | Op::Stack(_) => Rule::Any,
        }
    }

    /// Rules that depend on operands, and the register files of all operands.
    fn rule(&self) -> Option<(Rule, Vec<Width>)> {
        let all = self.program.code[self.pc].args.all.len();
        let word = Width::W32;
        Some(match self.op {
            Op::Move(moved) => move_rule(*moved, all)?,
            Op::Logic(logic) if !logic.tests => {
                (Rule::Bitwise(logic.table), vec![logic.ty.width(); usize::from(logic.sources) + 1])
            }
            Op::Bits(bits) => bits_rule(*bits)?,
            Op::Convert(Convert { to: Some(to), from: Some(from), plain: true, .. }) if all == 2 => {
                if !whole_number(*from) || !whole_number(*to) {
                    return None;
                }
                let (source, target) = ((from.bytes(), from.is_signed()), (to.bytes(), to.is_signed()));
                let to = self.program.metas[self.pc].writes.first().map_or(to.width(), |(w, _)| *w);
                let from = self.reads.first().map_or(from.width(), |(w, _)| *w);
                (Rule::Shuffle(BitMove::Convert(source, target)), vec![to, from])
            }
            Op::Select(ty) => (Rule::Select, vec![ty.width(), ty.width(), ty.width(), Width::Pred]),
            Op::Compare(compare) if compare.predicate => compare_rule(*compare, all)?,
            Op::ConvertAddress => (Rule::Arithmetic(Arithmetic::Space), vec![Width::W64; 2]),
            Op::Arithmetic(arithmetic) => arithmetic_rule(*arithmetic)?,
            Op::Shuffle(_) => {
                let mut widths = vec![word; all];
                *widths.get_mut(1)? = Width::Pred;
                (Rule::Lanes, widths)
            }
            Op::TransposeMatrix => (Rule::Transpose, vec![word; 2]),
            Op::Multiply(product) => (Rule::Multiply(Shape::in_registers(product)?), vec![word; all]),
            _ => return None,
        })
    }

    fn addresses(&self) -> Vec<(Width, u32)> {
        let args = &self.program.code[self.pc].args;
        let row = |i: usize| (if args.at[i].wide { Width::W64 } else { Width::W32 }, args.at[i].row);
        (0..args.addresses.min(3)).map(row).filter(|row| self.reads.contains(row)).collect()
    }

    fn uses(&self) -> Vec<(u32, Use, u32)> {
        let all = &self.program.code[self.pc].args.all;
        let numbered = |(width, row): &(Width, u32)| self.numbering.number(*width, *row);
        let every = |used: Use| self.reads.iter().map(|row| (numbered(row), used, u32::MAX)).collect();
        let addresses = |lanes: u32| -> Vec<(u32, Use, u32)> {
            self.addresses().iter().map(|row| (numbered(row), Use::Address, lanes)).collect()
        };
        // Rows of 32 bits; constants are never poisoned.
        let words = |rows: &[u32], used: Use| -> Vec<(u32, Use, u32)> {
            rows.iter().map(|row| (self.numbering.number(Width::W32, *row), used, u32::MAX)).collect()
        };
        match self.op {
            Op::Load(_) | Op::Store(_) | Op::Atomic(_) | Op::Mbarrier(_) | Op::StoreTile(_) => {
                addresses(u32::MAX)
            }
            // Only the lanes that name a row need an address.
            Op::LoadMatrix(tile) | Op::StoreMatrix(tile) => addresses(match tile.count {
                1 => 0xff,
                2 => 0xffff,
                _ => u32::MAX,
            }),
            // The value of `st.async` may be uninitialized, as with a store to shared memory.
            Op::Bulk(Bulk::Store) | Op::TensorMap => addresses(u32::MAX),
            Op::CopyAsync(_) | Op::CopiesArrive | Op::Bulk(_) | Op::Fill => {
                let addresses = self.addresses();
                let used = |row: &(Width, u32)| match (addresses.contains(row), row.0) {
                    (true, _) => Some((numbered(row), Use::Address, u32::MAX)),
                    (false, Width::W64) => None,
                    (false, _) => Some((numbered(row), Use::Condition, u32::MAX)),
                };
                self.reads.iter().filter_map(used).collect()
            }
            // Lanes whose scales are not selected may have any; `init/product.rs` follows the others.
            Op::Multiply(product) if product.scale.is_some() => {
                let scale = |row: &(Width, u32)| {
                    [6, 3].iter().any(|back| Some(row.1) == all.len().checked_sub(*back).map(|at| all[at]))
                };
                let read = self.reads.iter().filter(|row| !scale(row));
                read.map(|row| (numbered(row), Use::Matrix, u32::MAX)).collect()
            }
            Op::Multiply(_) => every(Use::Matrix),
            // Whether the accumulators are read, `scale-d` decides when it is executed.
            Op::MultiplyAsync(_) => {
                let updated = &self.program.metas[self.pc].writes;
                let read = self.reads.iter().filter(|row| !updated.contains(row));
                read.map(|row| (numbered(row), Use::Matrix, u32::MAX)).collect()
            }
            // What is stored in tensor memory is not followed.
            Op::Tensor(TensorOp::Store) => Vec::new(),
            Op::Tensor(_) | Op::LoadTile(_) | Op::Texture(_) | Op::SurfaceLoad(_) | Op::ImageQuery => {
                every(Use::Address)
            }
            Op::SurfaceStore(surface) | Op::SurfaceReduce(surface) => {
                // The handle, the coordinates, and then the data.
                let places = all.get(..all.len().saturating_sub(at(surface.vector))).unwrap_or(&[]);
                let handle = places.first().map(|row| self.numbering.number(Width::W64, *row));
                let mut uses = words(places.get(1..).unwrap_or(&[]), Use::Address);
                uses.extend(handle.map(|row| (row, Use::Address, u32::MAX)));
                uses
            }
            Op::BranchTable => every(Use::Target),
            Op::Call(Callee::Pointer) => {
                let pointer = self.reads.last().filter(|row| row.0 == Width::W64);
                pointer.map(|row| (numbered(row), Use::Target, u32::MAX)).into_iter().collect()
            }
            Op::Shuffle(_) => words(all.get(3..).unwrap_or(&[]), Use::Lanes),
            Op::Vote { sync: true, .. } | Op::Match { .. } | Op::Redux { .. } => {
                words(all.last().map_or(&[], std::slice::from_ref), Use::Lanes)
            }
            Op::Elect | Op::WarpSync { .. } => every(Use::Lanes),
            Op::Barrier(_) | Op::ClusterBarrier { .. } => every(Use::Barrier),
            Op::Arithmetic(_)
            | Op::Logic(_)
            | Op::Bits(_)
            | Op::Compare(_)
            | Op::Test(_)
            | Op::Select(_)
            | Op::Move(_)
            | Op::ConvertAddress
            | Op::TestSpace
            | Op::Convert(_)
            | Op::CacheHint
            | Op::Discard
            | Op::CachePolicy
            | Op::CommitGroup
            | Op::WaitGroup(_)
            | Op::WaitAll
            | Op::Fence(_)
            | Op::Vote { .. }
            | Op::ActiveMask
            | Op::TransposeMatrix
            | Op::Branch
            | Op::Call(Callee::Function | Callee::System)
            | Op::Return
            | Op::Exit
            | Op::Trap
            | Op::Event
            | Op::Sleep
            | Op::GridDependency { .. }
            | Op::SetRegisters
            | Op::Stack(_)
            | Op::Parameter
            | Op::MultiplyFence
            | Op::MultiplyCommit
            | Op::MultiplyWait(_)
            | Op::Refused => Vec::new(),
        }
    }

    /// Whether an access only loads into registers.
    fn loads(&self) -> bool {
        let loads = |memory: Memory| match memory.kind {
            MemoryKind::Load
            | MemoryKind::LoadMatrix
            | MemoryKind::LoadTile
            | MemoryKind::Texture
            | MemoryKind::SurfaceLoad => true,
            MemoryKind::Store
            | MemoryKind::SurfaceStore
            | MemoryKind::SurfaceReduce
            | MemoryKind::Atomic
            | MemoryKind::Reduce
            | MemoryKind::AsyncCopy
            | MemoryKind::StoreMatrix
            | MemoryKind::StoreTile
            | MemoryKind::Mbarrier
            | MemoryKind::Hint
            | MemoryKind::Discard => false,
        };
        self.op.effects().memory.is_some_and(loads)
    }

    fn traffic(&self, meta: &Meta) -> (Traffic, Vec<u32>) {
        let all = &self.program.code[self.pc].args.all;
        let known = if self.loads() { &meta.writes[..] } else { self.reads };
        // The rows of one access are in one register file; the type gives its minimum width.
        let files = [Width::W32, Width::W64, Width::W128];
        let numbered = |rows: &[u32], least: Width| -> Vec<u32> {
            let file = files
                .into_iter()
                .filter(|file| *file >= least)
                .find(|file| rows.iter().any(|row| known.contains(&(*file, *row))));
            let number = |row: &u32| {
                file.filter(|file| known.contains(&(*file, *row)))
                    .map_or(NO_ROW, |file| self.numbering.number(file, *row))
            };
            rows.iter().map(number).collect()
        };
        let rows =
            |count: usize, least: Width| numbered(all.get(..count.min(all.len())).unwrap_or(&[]), least);
        // The data of a store to a surface are its last operands.
        let last = |count: u32, least: Width| {
            numbered(all.get(all.len().saturating_sub(at(count))..).unwrap_or(&[]), least)
        };
        let elements = |ty: Type, vector: u32| {
            let rows = rows(at(vector), ty.width());
            (Traffic::Elements { bytes: ty.bytes(), signed: ty.is_signed() }, rows)
        };
        let file = |element: Element| if element == Element::F64 { Width::W64 } else { Width::W32 };
        match self.op {
            Op::Load(load) => elements(load.ty, load.vector),
            Op::Store(store) => elements(store.ty, store.vector),
            Op::LoadMatrix(tile) | Op::StoreMatrix(tile) => {
                let traffic = tile.bytes.map_or(Traffic::Matrix { trans: tile.trans }, Traffic::Bytes);
                (traffic, rows(4, Width::W32))
            }
            Op::LoadTile(tile) => (Traffic::Fragment, rows(meta.writes.len(), file(tile.element))),
            Op::StoreTile(tile) => {
                let count = all.len() - usize::from(tile.stride).min(all.len());
                (Traffic::Fragment, rows(count, file(tile.element)))
            }
            Op::Texture(_) => {
                let values = meta.writes.iter().filter(|(width, _)| *width != Width::Pred);
                (Traffic::Any, values.map(|(width, row)| self.numbering.number(*width, *row)).collect())
            }
            Op::SurfaceLoad(load) => elements(load.ty, load.vector),
            Op::SurfaceStore(store) if !store.formatted => {
                let traffic = Traffic::Elements { bytes: store.ty.bytes(), signed: false };
                (traffic, last(store.vector, store.ty.width()))
            }
            Op::SurfaceStore(data) | Op::SurfaceReduce(data) => {
                (Traffic::Any, last(data.vector, data.ty.width()))
            }
            Op::Atomic(_) => {
                let skipped = self.addresses();
                let kept = known.iter().filter(|row| !skipped.contains(row));
                (Traffic::Any, kept.map(|(width, row)| self.numbering.number(*width, *row)).collect())
            }
            _ => (Traffic::None, Vec::new()),
        }
    }
}

/// Whether a type is one of whole numbers, one to a register, of any size.
fn whole_number(ty: Type) -> bool {
    use Type::{S8, S16, S32, S64, U8, U16, U32, U64};
    matches!(ty, U8 | S8 | U16 | S16 | U32 | S32 | U64 | S64)
}

fn move_rule(moved: Move, all: usize) -> Option<(Rule, Vec<Width>)> {
    let (width, bytes) = (moved.ty.width(), moved.ty.bytes());
    if moved.shape == MoveShape::Copy {
        return Some((Rule::Bitwise(0xf0), vec![width; 2]));
    }
    let parts = all.checked_sub(1).filter(|parts| *parts > 0)?;
    let part = bytes / u32::try_from(parts).ok()?;
    let file = match part {
        0 => return None,
        1..=4 => Width::W32,
        _ => Width::W64,
    };
    let mut widths = vec![file; parts];
    Some(if moved.shape == MoveShape::Unpack {
        widths.push(width);
        (Rule::Unpack(part), widths)
    } else {
        widths.insert(0, width);
        (Rule::Pack(part), widths)
    })
}

fn bits_rule(bits: Bits) -> Option<(Rule, Vec<Width>)> {
    let word = Width::W32;
    Some(match bits {
        Bits::ShiftLeft(ty) => (Rule::Shuffle(BitMove::Shl(ty.bytes())), vec![ty.width(), ty.width(), word]),
        Bits::ShiftRight(ty) => {
            (Rule::Shuffle(BitMove::Shr(ty.bytes(), ty.is_signed())), vec![ty.width(), ty.width(), word])
        }
        Bits::Funnel { left, wrap } => (Rule::Shuffle(BitMove::Funnel { left, wrap }), vec![word; 4]),
        Bits::Extract(ty) => {
            let rule = Rule::Shuffle(BitMove::Extract(ty.bytes(), ty.is_signed()));
            (rule, vec![ty.width(), ty.width(), word, word])
        }
        Bits::Insert(ty) => {
            let width = ty.width();
            (Rule::Shuffle(BitMove::Insert(ty.bytes())), vec![width, width, width, word, word])
        }
        Bits::Permute { mode: false } => (Rule::Shuffle(BitMove::Permute), vec![word; 4]),
        Bits::Permute { mode: true } => return None,
    })
}

fn compare_rule(compare: Compare, all: usize) -> Option<(Rule, Vec<Width>)> {
    let width = if compare.ty == Type::Pred { return None } else { compare.ty.width() };
    match compare.join {
        Some(join @ (Combine::And | Combine::Or)) if all == 5 => Some((
            Rule::Compare(join == Combine::Or),
            vec![Width::Pred, Width::Pred, width, width, Width::Pred],
        )),
        // One result or two.
        None if all == 3 || all == 4 => {
            let mut widths = vec![Width::Pred; all - 2];
            widths.extend([width; 2]);
            Some((Rule::Arithmetic(Arithmetic::Compare), widths))
        }
        _ => None,
    }
}

fn arithmetic_rule(op: op::Arithmetic) -> Option<(Rule, Vec<Width>)> {
    let ty = op.ty.filter(|ty| integer(Some(*ty)) && !op.carries && op.part != Part::High)?;
    let (width, wide) = (ty.width(), op.part == Part::Wide);
    let result = if wide { wider(width, ty.bytes()) } else { width };
    Some(match op.kind {
        ArithmeticKind::Add => (Rule::Arithmetic(Arithmetic::Add), vec![width; 3]),
        ArithmeticKind::Sub => (Rule::Arithmetic(Arithmetic::Sub), vec![width; 3]),
        ArithmeticKind::Mul => (Rule::Arithmetic(Arithmetic::Multiply { wide }), vec![result, width, width]),
        ArithmeticKind::Mad => {
            (Rule::Arithmetic(Arithmetic::MultiplyAdd { wide }), vec![result, width, width, result])
        }
        _ => return None,
    })
}
