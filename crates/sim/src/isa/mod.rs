//! The instruction table: one entry per form in the manual, by family.
//!
//! An entry fully defines an instruction. [`decode`](crate::program) finds the entry by opcode and modifiers, its `bind`
//! selects a routine over a warp and lists the operands of that routine, and everything else (decoding, counting, cost, the
//! table in the book) follows from the entry.

mod atomic;
mod bits;
mod bulk;
mod cache;
mod cancel;
mod cluster;
mod compare;
mod control;
mod convert;
mod copy;
mod descriptor;
mod extended;
mod fill;
mod float;
mod form;
pub mod fragments;
pub mod gaps;
mod half;
mod int;
mod lanes;
pub mod map;
mod math;
mod matrix;
mod memory;
mod mma;
mod moves;
mod needs;
pub mod op;
mod packed;
#[cfg(test)]
mod spelling;
mod stack;
mod surface;
mod sync;
pub(crate) mod tcgen05;
mod tensor;
mod texture;
pub mod tile;
mod video;
mod wgmma;
mod wmma;

pub use form::{Form, Modifiers};
pub use needs::{Needs, needs};
pub use op::{Callee, Op};

use crate::machine::{Flow, Type, Warp, Width};
use crate::program::Communication;
use crate::simd::Level;
use std::collections::HashMap;
use std::sync::LazyLock;

/// One form of one instruction.
#[derive(Clone, Copy)]
pub struct Definition {
    /// The manual's syntax box: opcode, modifiers with `{…}` for optional ones, operands; then `; .class = .a .b` lists.
    pub form: &'static str,
    /// The anchor of its section in the PTX manual.
    pub manual: &'static str,
    /// The pipe it runs on.
    pub unit: Unit,
    /// The first PTX version and architecture that support it.
    pub since: Since,
    /// Selects the routine.
    pub bind: Bind,
}

/// The first PTX version (major, minor) and `sm_` number that support a form.
pub type Since = (u8, u8, u32);

/// The pipes of a streaming multiprocessor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Unit {
    /// Integer arithmetic, logic, compares, min/max, moves between them.
    Alu,
    /// Single-precision multiply-add, and integer multiply-add.
    Fma,
    /// Half-precision arithmetic.
    Half,
    /// Double precision.
    Fp64,
    /// Transcendental and conversion unit.
    Xu,
    /// Loads, stores, atomics, shuffles, matrix loads.
    Lsu,
    /// Texture fetches and surface accesses.
    Tex,
    /// Matrix multiply.
    Tensor,
    /// Barriers of the block.
    Adu,
    /// Branches, calls, votes, warp synchronization.
    Control,
    /// Uses no pipe.
    None,
}

impl Unit {
    /// Its name in counters.
    pub fn name(self) -> &'static str {
        match self {
            Unit::Alu => "alu",
            Unit::Fma => "fma",
            Unit::Half => "half",
            Unit::Fp64 => "fp64",
            Unit::Xu => "xu",
            Unit::Lsu => "lsu",
            Unit::Tex => "tex",
            Unit::Tensor => "tensor",
            Unit::Adu => "adu",
            Unit::Control => "control",
            Unit::None => "none",
        }
    }
}

/// A routine over the warp: reads and writes registers of the lanes in `warp.exec`.
pub type Run = Box<dyn Fn(&mut Warp<'_, '_>, &Args) -> Flow + Send + Sync>;

/// The resolved operands of an instruction. Sources are always rows: immediates and symbols have rows of their own.
#[derive(Clone, Debug, Default)]
pub struct Args {
    /// The first eight operand rows, vectors flattened, in the order of the slots; addresses and labels are not counted.
    pub o: [u32; 8],
    /// All operand rows.
    pub all: Box<[u32]>,
    /// The address operands, in order.
    pub at: [AddressArg; 4],
    /// How many there are.
    pub addresses: usize,
    /// The code index of a label operand.
    pub target: u32,
    /// The code indices of a branch table.
    pub targets: Box<[u32]>,
    /// Which predicate sources are negated: one bit per position in `all`, see [`Args::negation`].
    pub not: u32,
}

impl Args {
    /// The bit of `not` for a position. Long vectors have one predicate behind them at most, and it has the last bit.
    pub fn negation(position: usize) -> u32 {
        1 << position.min(31)
    }

    /// Whether the predicate at a position is negated.
    #[inline]
    pub fn is_negated(&self, position: usize) -> bool {
        self.not & Self::negation(position) != 0
    }
}

/// A base row and an offset.
#[derive(Clone, Copy, Debug, Default)]
pub struct AddressArg {
    /// The row of the base.
    pub row: u32,
    /// Whether the base is a 64-bit row.
    pub wide: bool,
    /// Whether the thread's stack pointer is added: a variable of the current function's frame.
    pub frame: bool,
    /// Bytes after the base.
    pub offset: i64,
}

/// The result of `bind`: the routine and the operands it takes.
pub struct Bound {
    /// The routine.
    pub run: Run,
    /// What each operand of the instruction must be.
    pub slots: Vec<Slot>,
    /// How the instruction lets a block communicate with another block while both run.
    pub communication: Communication,
    /// What a bundle need not call the routine for.
    pub inline: Inline,
}

/// Frequent instructions that a bundle executes without calling their routines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Inline {
    /// None of them.
    #[default]
    No,
    /// Loads this number of words from shared memory for each lane, one for each register, without any order.
    SharedWords(u32),
    /// `fma.rn.f32`.
    Fma,
}

/// What an operand position accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Slot {
    /// A result register; `_` is a row that is never read.
    Dst(Width),
    /// A register, special register, symbol address, or an immediate read as this type.
    Src(Type),
    /// A result of several registers.
    DstVec(Vec<Width>),
    /// A source of several registers.
    SrcVec(Vec<Type>),
    /// Several registers that are a source and a result: accumulators.
    UpdateVec(Vec<Width>),
    /// Two results, `a|b`; the second is a predicate. With a single operand, the second result goes to a row that is
    /// never read.
    DstPair(Width),
    /// As `DstVec`, and a predicate: `{a, b}|p`.
    DstVecPair(Vec<Width>),
    /// `[handle, {x, y}]`: the handle of a texture or surface, and coordinates of these types; `[handle]` if there are none.
    Image(Vec<Type>),
    /// `[map, {x, y}]`: the address of a tensor map, and coordinates of these types.
    Tensor(Vec<Type>),
    /// `[base+offset]`.
    Address,
    /// A label of the same function.
    Label,
    /// The label of a `.branchtargets` list.
    Table,
    /// Nothing at run time: the routine already includes it.
    Static,
}

impl Slot {
    /// The file of a single source.
    pub fn source(&self) -> Option<Width> {
        if let Slot::Src(ty) = self { Some(ty.width()) } else { None }
    }
}

/// Why an instruction cannot be bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The instruction exists, but warpproof does not support it yet.
    Gap(String),
    /// The operands or modifiers do not form a valid instruction: an error in the module.
    Malformed(String),
}

/// The form of an operand as written, for binders that need it before operands are resolved.
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    /// A declared register and its size in bits (1 for a predicate).
    Register(u32),
    /// An integer immediate.
    Integer(i64),
    /// A floating-point immediate.
    Float(f64),
    /// A special register, component included.
    Special(String),
    /// A variable or function.
    Symbol(String),
    /// A variable in the frame of the current function, at this offset.
    Frame(u32),
    /// `[…]`.
    Address,
    /// `[a, …]`: what follows the first part.
    Image(Vec<Shape>),
    /// `{…}`.
    Vector(Vec<Shape>),
    /// `a|b`.
    Pair(Box<(Shape, Shape)>),
    /// `_`.
    Sink,
    /// Anything else: a label, a call list.
    Other,
}

impl Shape {
    /// Whether it is a register or a number.
    pub fn is_plain(&self) -> bool {
        matches!(self, Shape::Register(_) | Shape::Integer(_) | Shape::Float(_))
    }
}

/// An instruction to bind: its modifiers as matched, its operands as written.
pub struct Spec<'a> {
    /// The modifiers, by the names of the form.
    pub modifiers: Modifiers<'a>,
    /// The shapes of the operands.
    pub operands: Vec<Shape>,
    /// The architecture number of the module's target.
    pub sm: u32,
    /// Which bytes of a load are used, one bit each, from a preceding `.pragma "used_bytes_mask …"`.
    pub used: u32,
}

/// The binders of one entry, one for each [`Level`].
#[derive(Clone, Copy)]
pub struct Bind(pub [Binder; 3]);

/// Selects the routine and the operands of an instruction.
pub type Binder = fn(&Spec<'_>) -> Result<Bound, Refusal>;

/// The binders of a generic function `fn f<I: Simd>(&Spec) -> Result<Bound, Refusal>`.
#[cfg(any(not(feature = "simd"), test))]
#[macro_export]
#[doc(hidden)]
macro_rules! bind {
    ($f:ident) => {
        $crate::isa::Bind([$f::<$crate::simd::Portable>; 3])
    };
}

/// The binders of a generic function `fn f<I: Simd>(&Spec) -> Result<Bound, Refusal>`.
#[cfg(all(feature = "simd", not(test)))]
#[macro_export]
#[doc(hidden)]
macro_rules! bind {
    ($f:ident) => {
        $crate::isa::Bind([$f::<$crate::simd::Portable>, $f::<$crate::simd::V3>, $f::<$crate::simd::V4>])
    };
}

/// The binders of a function that is the same at every level, because it does no bulk computation on lanes.
#[macro_export]
#[doc(hidden)]
macro_rules! bind_plain {
    ($f:expr) => {
        $crate::isa::Bind([$f, $f, $f])
    };
}

impl Bound {
    /// A routine and its operands.
    pub fn new(
        slots: impl IntoIterator<Item = Slot>,
        run: impl Fn(&mut Warp<'_, '_>, &Args) -> Flow + Send + Sync + 'static,
    ) -> Bound {
        Bound {
            run: Box::new(run),
            slots: slots.into_iter().collect(),
            communication: Communication::None,
            inline: Inline::No,
        }
    }

    /// A routine that may stop: its error is an early [`Flow`].
    pub fn fallible(
        slots: impl IntoIterator<Item = Slot>,
        run: impl Fn(&mut Warp<'_, '_>, &Args) -> Result<Flow, Flow> + Send + Sync + 'static,
    ) -> Bound {
        Bound::new(slots, move |w, args| run(w, args).unwrap_or_else(|flow| flow))
    }

    /// Sets how blocks communicate by the instruction.
    #[must_use]
    pub fn communicating(self, way: Communication) -> Bound {
        Bound { communication: way, ..self }
    }
}

impl Spec<'_> {
    /// The value chosen for a class or literal of the form.
    pub fn get(&self, name: &str) -> Option<&'static str> {
        self.modifiers.get(name)
    }

    /// Whether an optional part is present.
    pub fn has(&self, name: &str) -> bool {
        self.modifiers.has(name)
    }

    /// The type chosen for a class.
    pub fn ty(&self, name: &str) -> Result<Type, Refusal> {
        self.get(name)
            .and_then(Type::parse)
            .ok_or_else(|| Refusal::Gap(format!("`.{name}` has no type in `{}`", self.modifiers.form().text)))
    }

    /// The integer immediate at an operand position.
    pub fn integer(&self, operand: usize) -> Option<i64> {
        match self.operands.get(operand) {
            Some(Shape::Integer(value)) => Some(*value),
            _ => None,
        }
    }

    /// Bits of the register at an operand position.
    pub fn bits(&self, operand: usize) -> Option<u32> {
        match self.operands.get(operand) {
            Some(Shape::Register(bits)) => Some(*bits),
            _ => None,
        }
    }

    /// A refusal that shows the combination of modifiers.
    pub fn gap(&self, what: &str) -> Refusal {
        Refusal::Gap(format!("{what} is not supported in `{}`", self.modifiers.form().text))
    }
}

/// The families, in the order of the manual.
const FAMILIES: &[(&str, &[Definition])] = &[
    ("int", int::DEFINITIONS),
    ("extended", extended::DEFINITIONS),
    ("bits", bits::DEFINITIONS),
    ("float", float::DEFINITIONS),
    ("half", half::DEFINITIONS),
    ("math", math::DEFINITIONS),
    ("compare", compare::DEFINITIONS),
    ("packed", packed::DEFINITIONS),
    ("packed", packed::integers::DEFINITIONS),
    ("convert", convert::DEFINITIONS),
    ("small", convert::small::DEFINITIONS),
    ("convert", convert::scaled::DEFINITIONS),
    ("moves", moves::DEFINITIONS),
    ("memory", memory::DEFINITIONS),
    ("fill", fill::DEFINITIONS),
    ("cluster", cluster::DEFINITIONS),
    ("cache", cache::DEFINITIONS),
    ("atomic", atomic::DEFINITIONS),
    ("atomic", atomic::vector::DEFINITIONS),
    ("copy", copy::DEFINITIONS),
    ("bulk", bulk::DEFINITIONS),
    ("tensor", tensor::DEFINITIONS),
    ("texture", texture::DEFINITIONS),
    ("surface", surface::DEFINITIONS),
    ("matrix", matrix::DEFINITIONS),
    ("matrix", matrix::BYTES),
    ("mma", mma::DEFINITIONS),
    ("scaled", mma::scaled::DEFINITIONS),
    ("sparse", mma::sparse::DEFINITIONS),
    ("wmma", wmma::DEFINITIONS),
    ("wgmma", wgmma::DEFINITIONS),
    ("wgmma", wgmma::sparse::DEFINITIONS),
    ("tcgen05", tcgen05::DEFINITIONS),
    ("cancel", cancel::DEFINITIONS),
    ("lanes", lanes::DEFINITIONS),
    ("sync", sync::DEFINITIONS),
    ("control", control::DEFINITIONS),
    ("stack", stack::DEFINITIONS),
    ("video", video::DEFINITIONS),
];

/// Every form, parsed, with its family.
pub struct Entry {
    /// The source file of the entry.
    pub family: &'static str,
    /// The entry as written.
    pub definition: &'static Definition,
    /// Its syntax box, parsed.
    pub form: Form,
}

impl Entry {
    /// What instructions of the form do besides computing, each possibility once; empty for one that only computes.
    pub fn effects(&self) -> Vec<String> {
        // A call is built by decoding; elsewhere any number serves as an operand.
        let operands = vec![Shape::Integer(0); 8];
        let op = |spelling: &Vec<&'static str>| {
            let modifiers = self.form.matches(spelling)?;
            let spec =
                Spec { modifiers, operands: operands.clone(), sm: self.definition.since.2, used: u32::MAX };
            if self.form.opcode == "call" { Some(Op::Call(Callee::Function)) } else { Op::of(&spec) }
        };
        let mut found = Vec::new();
        for effects in self.form.spellings().iter().filter_map(op).map(|op| op.effects().to_string()) {
            if !effects.is_empty() && !found.contains(&effects) {
                found.push(effects);
            }
        }
        found
    }
}

/// The whole table.
pub fn table() -> &'static [Entry] {
    &TABLE.0
}

/// The entries, and the entries of each opcode.
type Table = (Vec<Entry>, HashMap<&'static str, Vec<usize>>);

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    let entries: Vec<Entry> = FAMILIES
        .iter()
        .flat_map(|(family, definitions)| {
            let entry = |definition: &'static Definition| Entry {
                family,
                definition,
                form: Form::parse(definition.form),
            };
            definitions.iter().map(entry)
        })
        .collect();
    let mut by_opcode: HashMap<&'static str, Vec<usize>> = HashMap::new();
    for (i, entry) in entries.iter().enumerate() {
        by_opcode.entry(entry.form.opcode).or_default().push(i);
    }
    (entries, by_opcode)
});

/// The entry for an opcode and its modifiers, and the matched modifiers. `Err(true)` if the opcode exists with other
/// modifiers.
pub fn find(opcode: &str, modifiers: &[&str]) -> Result<(usize, Modifiers<'static>), bool> {
    let (entries, by_opcode) = &*TABLE;
    let candidates = by_opcode.get(opcode).ok_or(false)?;
    candidates.iter().find_map(|&i| entries[i].form.matches(modifiers).map(|m| (i, m))).ok_or(true)
}

impl Bind {
    /// The binder for a level.
    pub fn at(&self, level: Level) -> Binder {
        match level {
            Level::Portable => self.0[0],
            Level::V3 => self.0[1],
            Level::V4 => self.0[2],
        }
    }
}
