//! A decoded kernel: instructions bound to routines, operands resolved to rows.

mod bounds;
mod bundle;
mod calls;
mod decode;
mod forms;
mod link;
mod operands;
mod scope;
mod special;
mod target;
mod time;
mod values;

pub use bounds::LaunchBounds;
pub use bundle::{BASES, Base, Bundle, Load, Step, Sum};
pub use decode::decode;
pub use link::{ConstantBank, Linked, Managed, Parameter, Symbol, link};
pub use special::{RESERVED_SHARED, Special, SpecialKind};
pub(crate) use time::TimeRows;
pub use values::Values;

use crate::isa::op::{CacheOperator, Semantics};
use crate::isa::{Args, Inline, Op, Run};
use crate::machine::{CallSite, Callee, Registers, Width, at};
use crate::memory::Space;
use crate::stop::{Place, SourceLine};
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

/// A map for names and other keys of a kernel, which are looked up several times per operand. The hash is faster than the
/// standard library's and seeded too, so that names cannot be made to collide.
pub type NameMap<K, V> = HashMap<K, V, foldhash::fast::RandomState>;

/// A decoded kernel.
pub struct Program {
    /// The kernel's name.
    pub name: String,
    /// All instructions: the kernel's first, then those of the functions it can call.
    pub code: Vec<Inst>,
    /// Per-instruction data for observers and reports, separate from the data needed for execution.
    pub metas: Vec<Meta>,
    /// The kernel's first instruction.
    pub entry: u32,
    /// Bytes of the kernel's own frame in local memory.
    pub frame: u32,
    /// The initial register file of a warp, including immediates and addresses.
    pub registers: Registers,
    /// Rows that hold special registers.
    pub specials: Vec<Special>,
    /// Functions by number.
    pub callees: Vec<Callee>,
    /// Calls by number.
    pub call_sites: Vec<CallSite>,
    /// Bytes of static shared memory.
    pub static_shared: u32,
    /// The start of dynamic shared memory, if the kernel uses it.
    pub dynamic_shared: Option<u32>,
    /// Names of shared variables with their offset and size, by offset.
    pub shared_variables: Vec<(String, u32, u32)>,
    /// The kernel's parameters.
    pub params: Vec<Parameter>,
    /// Threads per block the kernel was compiled for: at most (`.maxntid`) and exactly (`.reqntid`).
    pub bounds: LaunchBounds,
    /// How blocks can communicate while they run.
    pub communication: Communication,
    /// Whether it has instructions by which a lane may wait for another lane of its warp: atomics, ordered or volatile
    /// loads, mbarrier tests, sleeping, reading the clock.
    pub lanes_wait: bool,
    /// The number of bundles.
    pub bundles: usize,
    /// Whether any of them is worth it without an observer of instructions.
    pub(crate) has_faster_bundles: bool,
    /// Registers whose values come from a clock.
    pub(crate) time_rows: TimeRows,
    /// Rows that hold addresses in dynamic shared memory, until its start is known.
    dynamic_rows: Vec<(Width, u32, i64)>,
    /// Rows whose value is an address in shared memory.
    shared_rows: Vec<(Width, u32)>,
    sources: Vec<Vec<SourceLine>>,
    text: Arc<str>,
}

/// How the blocks of a kernel can communicate while they run; later ones include earlier ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Communication {
    /// Not at all.
    #[default]
    None,
    /// Only by reductions: atomic operations whose results are unused and that order no other access. They can be done when
    /// the block has ended.
    Reductions,
    /// By atomic, volatile or ordered accesses, or by fences.
    Any,
}

impl Communication {
    /// Whether blocks can order their accesses: they run in turns on the memory itself, and their observers share one record.
    pub fn takes_turns(self) -> bool {
        match self {
            Communication::None | Communication::Reductions => false,
            Communication::Any => true,
        }
    }
}

/// One instruction.
pub struct Inst {
    /// The routine.
    pub run: Run,
    /// The guard's predicate row, and whether it is negated.
    pub guard: Option<(u32, bool)>,
    /// The operands.
    pub args: Args,
    /// What a bundle need not call the routine for.
    pub inline: Inline,
    /// The bundle that starts with it.
    pub bundle: Option<Arc<Bundle>>,
}

/// Data about an instruction besides what execution needs.
#[derive(Clone, Debug)]
pub struct Meta {
    /// What it is.
    pub op: Op,
    /// Index into [`crate::isa::table`]; `None` for an instruction that is not in it.
    pub entry: Option<usize>,
    /// Byte range in the PTX text.
    pub span: (u32, u32),
    /// The function that contains it, by its number in [`Program::callees`]; `None` for the kernel itself.
    pub function: Option<u32>,
    /// Index of the source lines, innermost first.
    source: Option<u32>,
    /// The register files of its sources, which are its last operands, if it synchronizes lanes by a member mask.
    pub(crate) sources: Box<[Width]>,
    /// Rows it reads.
    pub reads: Box<[(Width, u32)]>,
    /// Rows it writes.
    pub writes: Box<[(Width, u32)]>,
    /// Special registers among its operands, except clocks.
    pub specials: Box<[SpecialKind]>,
    /// Variables and functions among its operands.
    pub symbols: Box<[String]>,
}

/// How an opcode is spelled. It can be shown and not compared: what an instruction does is its [`Op`].
#[derive(Clone, Copy)]
pub struct Spelling<'p>(&'p str);

impl Spelling<'_> {
    /// Up to `.aligned`: what follows is only what the instruction computes.
    #[must_use]
    pub fn until_aligned(self) -> Self {
        let end = self.0.find(".aligned").map_or(self.0.len(), |start| start + ".aligned".len());
        Spelling(&self.0[..end])
    }
}

impl fmt::Display for Spelling<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl Program {
    /// Adds what names a block of a cluster to the addresses of its shared variables.
    pub(crate) fn name_rank(&self, registers: &mut Registers, window: u64) {
        for (width, row) in &self.shared_rows {
            if *width == Width::W64 {
                registers.w64[at(*row)].0.iter_mut().for_each(|address| *address |= window);
            } else {
                let window = u32::try_from(window).unwrap_or(0);
                registers.w32[at(*row)].0.iter_mut().for_each(|address| *address |= window);
            }
        }
    }

    /// The location of an instruction.
    pub fn place(&self, pc: u32) -> Option<Place> {
        let meta = self.metas.get(at(pc))?;
        let function = meta.function.and_then(|i| self.callees.get(at(i))).map_or(&self.name, |f| &f.name);
        let (start, end) = (at(meta.span.0), at(meta.span.1));
        let lines = self.text.get(..start).map_or(0, |before| before.bytes().filter(|b| *b == b'\n').count());
        let instruction = self.text.get(start..end).unwrap_or("");
        Some(Place {
            function: function.clone(),
            instruction: instruction.split_whitespace().collect::<Vec<_>>().join(" "),
            ptx_line: u32::try_from(lines + 1).unwrap_or(u32::MAX),
            source: self.source(pc).to_vec(),
        })
    }

    /// The CUDA lines an instruction came from, innermost inlined call first.
    pub fn source(&self, pc: u32) -> &[SourceLine] {
        let index = self.metas.get(at(pc)).and_then(|meta| meta.source);
        index.and_then(|i| self.sources.get(at(i))).map_or(&[], Vec::as_slice)
    }

    /// The opcode of an instruction with its modifiers, to be shown.
    #[inline]
    pub fn opcode(&self, pc: usize) -> Spelling<'_> {
        let (start, end) = self.metas.get(pc).map_or((0, 0), |meta| meta.span);
        let text = self.text.get(at(start)..at(end)).unwrap_or("");
        let mut words = text.split(|c: char| c.is_whitespace() || c == ';').filter(|word| !word.is_empty());
        let guarded = text.trim_start().starts_with('@');
        Spelling(words.nth(usize::from(guarded)).unwrap_or(""))
    }

    /// Whether a lane may wait for another by this instruction.
    fn lets_wait(&self, pc: usize) -> bool {
        match &self.metas[pc].op {
            Op::Atomic(atomic) => atomic.returns,
            Op::Load(load) => load.semantics != Semantics::Weak || load.cache == Some(CacheOperator::Cv),
            Op::SurfaceLoad(load) => load.cache == Some(CacheOperator::Cv),
            Op::Move(moved) => moved.counter.is_some(),
            Op::Mbarrier(_) | Op::Sleep => true,
            Op::Arithmetic(_)
            | Op::Logic(_)
            | Op::Bits(_)
            | Op::Compare(_)
            | Op::Test(_)
            | Op::Select(_)
            | Op::ConvertAddress
            | Op::TestSpace
            | Op::Convert(_)
            | Op::Store(_)
            | Op::Texture(_)
            | Op::SurfaceStore(_)
            | Op::SurfaceReduce(_)
            | Op::ImageQuery
            | Op::CacheHint
            | Op::Discard
            | Op::CachePolicy
            | Op::CopyAsync(_)
            | Op::CommitGroup
            | Op::WaitGroup(_)
            | Op::WaitAll
            | Op::CopiesArrive
            | Op::Bulk(_)
            | Op::Fill
            | Op::TensorMap
            | Op::Fence(_)
            | Op::Barrier(_)
            | Op::ClusterBarrier { .. }
            | Op::WarpSync { .. }
            | Op::Shuffle(_)
            | Op::Vote { .. }
            | Op::Match { .. }
            | Op::Redux { .. }
            | Op::Elect
            | Op::ActiveMask
            | Op::LoadMatrix(_)
            | Op::StoreMatrix(_)
            | Op::TransposeMatrix
            | Op::LoadTile(_)
            | Op::StoreTile(_)
            | Op::Multiply(_)
            | Op::MultiplyAsync(_)
            | Op::MultiplyFence
            | Op::MultiplyCommit
            | Op::MultiplyWait(_)
            | Op::Tensor(_)
            | Op::Branch
            | Op::BranchTable
            | Op::Call(_)
            | Op::Return
            | Op::Exit
            | Op::Trap
            | Op::Event
            | Op::GridDependency { .. }
            | Op::SetRegisters
            | Op::Stack(_)
            | Op::Parameter
            | Op::Refused => false,
        }
    }

    /// Whether no instruction reads what an atomic operation on global memory returns.
    fn ignores_atomics(&self) -> bool {
        let global = |meta: &&Meta| matches!(&meta.op, Op::Atomic(atomic) if atomic.space != Space::Shared);
        let returned = self.metas.iter().filter(global);
        let returned: HashSet<(Width, u32)> = returned.flat_map(|meta| meta.writes.iter().copied()).collect();
        self.metas.iter().all(|meta| meta.reads.iter().all(|row| !returned.contains(row)))
    }

    /// The number of instructions of the kernel itself; those of the functions that it calls are behind them.
    pub fn own_length(&self) -> usize {
        let own = self.metas.iter().take_while(|meta| meta.function.is_none()).count();
        own.min(self.code.len())
    }

    /// What an instruction is; an instruction that stops the launch for a number beyond the program.
    #[inline]
    pub fn op(&self, pc: u32) -> &Op {
        self.metas.get(at(pc)).map_or(&Op::Refused, |meta| &meta.op)
    }

    /// The PTX text the program was made from.
    pub fn text(&self) -> &str {
        &self.text
    }
}
