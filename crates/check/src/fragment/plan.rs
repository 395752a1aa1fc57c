//! What each instruction does with tags, computed once from the program. Only values between loads and matrix
//! instructions, and between those and stores, are followed; every other instruction costs one table lookup.

use std::collections::{BTreeMap, BTreeSet};
use warpproof_sim::isa::Op;
use warpproof_sim::isa::op::{
    AND, ArithmeticKind, Bits, Convert, Element, Move, MoveShape, Multiply, Part, Sparsity, TensorOp,
};
use warpproof_sim::machine::{Type, Width, at};
use warpproof_sim::memory::Space;
use warpproof_sim::program::Program;

/// A register row of the program.
type Row = (Width, u32);

/// What an instruction does with tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Its results have no origin, or are computed from other values (`true`).
    Clear(bool),
    /// `ld`: bytes of each register.
    Load(u32),
    /// `st`: bytes of each register.
    Store(u32),
    /// `ldmatrix`, transposing or not.
    MatrixLoad(bool),
    /// `stmatrix`, transposing or not.
    MatrixStore(bool),
    /// `movmatrix`.
    MatrixMove,
    /// `wmma.load`: bytes of an element.
    FragmentLoad(u32),
    /// `wmma.store`.
    FragmentStore,
    /// `shfl`.
    Shuffle,
    /// Arithmetic, element by element.
    Combine(Blend),
    /// `mov d, {a, b}`: bytes of a part.
    Pack(u32),
    /// `mov {a, b}, d`: bytes of a part.
    Unpack(u32),
    /// `prmt`.
    Permute,
    /// `shl` or `shr`.
    Shift(bool),
    /// `and`.
    And,
    /// `selp`.
    Select,
    /// `cvt`: bytes of an element before and after, elements, whether it fills the wider result.
    Convert { from: u32, to: u32, count: u32, fill: bool },
    /// `mma` or `wmma.mma`.
    Multiply(Shape),
}

/// The result of arithmetic between an accumulator and a value of mixed origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Blend {
    /// Mixed origin: sums, minimum, maximum.
    Mix,
    /// The accumulator, scaled or shifted.
    Keep,
}

/// A matrix instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub m: usize,
    pub n: usize,
    pub k: usize,
    /// Elements of A or B per register.
    pub per: usize,
    /// Whether C and D hold two elements in a register.
    pub packed: (bool, bool),
    /// Registers of A and of B.
    pub a: usize,
    pub b: usize,
    /// Scales of a row of A and of a column of B; none if the product has no scales.
    pub scales: u32,
}

impl Shape {
    /// Registers of the accumulators, packed or not.
    pub(crate) fn accumulators(&self, packed: bool) -> usize {
        self.m * self.n / 32 / if packed { 2 } else { 1 }
    }
}

/// One instruction that handles tags. Rows are renumbered, and `None` is a row that never has tags.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub action: Action,
    pub to: Box<[Option<u32>]>,
    pub from: Box<[Option<u32>]>,
    /// Whether its address depends only on the thread, the block and the kernel arguments, not on data.
    pub steady: bool,
}

/// What the instructions of a kernel do with tags.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(super) steps: Vec<Option<Box<Step>>>,
    /// Bytes that a tag stands for: 1 or 2.
    pub(super) grain: u32,
    /// For each row with tags, whether it has 64 bits.
    pub(super) rows: Vec<bool>,
    /// For each instruction, whether what it reads depends on data.
    by_data: Vec<bool>,
}

struct Draft {
    action: Action,
    to: Vec<Row>,
    from: Vec<Row>,
    spaces: Spaces,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Spaces {
    None,
    Shared,
    Global,
    Both,
}

impl Spaces {
    fn shared(self) -> bool {
        matches!(self, Spaces::Shared | Spaces::Both)
    }

    fn global(self) -> bool {
        matches!(self, Spaces::Global | Spaces::Both)
    }
}

impl Plan {
    /// The plan of a kernel; `None` if it has no matrix instruction whose fragments are followed.
    pub(crate) fn of(program: &Program) -> Option<Plan> {
        let drafts: Vec<Option<Draft>> = (0..program.code.len()).map(|pc| draft(program, pc)).collect();
        if !drafts.iter().flatten().any(|draft| matches!(draft.action, Action::Multiply(_))) {
            return None;
        }
        let narrow = |draft: &Draft| match draft.action {
            Action::Multiply(shape) => shape.per == 4,
            Action::Convert { from, to, .. } => from == 1 || to == 1,
            _ => false,
        };
        let grain = if drafts.iter().flatten().any(narrow) { 1 } else { 2 };
        let needed = needed(&drafts);
        let tainted = tainted(program);
        let numbers: BTreeMap<Row, u32> = needed.into_iter().zip(0..).collect();
        let rows = numbers.keys().map(|(width, _)| *width == Width::W64).collect();
        let place = |row: &Row| numbers.get(row).copied();
        let steps = drafts.into_iter().enumerate().map(|(pc, draft)| {
            let draft = draft?;
            let to: Box<[_]> = draft.to.iter().map(place).collect();
            let from: Box<[_]> = draft.from.iter().map(place).collect();
            let stores =
                matches!(draft.action, Action::Store(_) | Action::MatrixStore(_) | Action::FragmentStore);
            if !stores && to.iter().all(Option::is_none) {
                return None;
            }
            let steady =
                program.metas[pc].reads.iter().all(|row| draft.from.contains(row) || !tainted.contains(row));
            Some(Box::new(Step { action: draft.action, to, from, steady }))
        });
        let steps = steps.collect();
        let by_data =
            program.metas.iter().map(|meta| meta.reads.iter().any(|row| tainted.contains(row))).collect();
        Some(Plan { steps, grain, rows, by_data })
    }

    /// Whether nothing that an instruction reads depends on data.
    pub(super) fn steady(&self, pc: u32) -> bool {
        self.by_data.get(at(pc)).is_some_and(|by_data| !by_data)
    }

    /// What an instruction does.
    pub(super) fn step(&self, pc: u32) -> Option<&Step> {
        self.steps.get(at(pc))?.as_deref()
    }
}

/// The rows whose tags are needed: those that reach operands of matrix instructions, and those that carry accumulators
/// to global memory.
fn needed(drafts: &[Option<Draft>]) -> BTreeSet<Row> {
    let all = || drafts.iter().flatten();
    let (mut sums, mut in_shared) = (BTreeSet::new(), false);
    loop {
        let before = (sums.len(), in_shared);
        for draft in all() {
            let loads = in_shared
                && draft.spaces.shared()
                && matches!(draft.action, Action::Load(_) | Action::MatrixLoad(_) | Action::FragmentLoad(_));
            let multiplies = matches!(draft.action, Action::Multiply(_));
            let carries = draft.from.iter().any(|row| sums.contains(row));
            if loads || multiplies || carries {
                sums.extend(draft.to.iter().copied());
                in_shared |= carries && draft.to.is_empty() && draft.spaces.shared();
            }
        }
        if before == (sums.len(), in_shared) {
            break;
        }
    }
    let (mut needed, mut shared) = (BTreeSet::new(), false);
    for draft in all() {
        match draft.action {
            Action::Multiply(_) => needed.extend(draft.from.iter().copied()),
            _ if draft.to.is_empty() && draft.spaces.global() => {
                needed.extend(draft.from.iter().copied().filter(|row| sums.contains(row)));
            }
            _ => {}
        }
    }
    loop {
        let before = (needed.len(), shared);
        for draft in all() {
            if draft.to.iter().any(|row| needed.contains(row)) {
                needed.extend(draft.from.iter().copied());
                shared |= draft.spaces.shared();
            } else if draft.to.is_empty() && shared && draft.spaces.shared() {
                needed.extend(draft.from.iter().copied());
            }
        }
        if before == (needed.len(), shared) {
            return needed;
        }
    }
}

/// The rows that depend on values loaded from memory: an address computed from them depends on data.
fn tainted(program: &Program) -> BTreeSet<Row> {
    let mut rows: BTreeSet<Row> = BTreeSet::new();
    loop {
        let before = rows.len();
        for meta in &program.metas {
            let loads = match &meta.op {
                Op::Load(load) => load.space != Space::Param,
                Op::Atomic(_)
                | Op::Texture(_)
                | Op::SurfaceLoad(_)
                | Op::Call(_)
                | Op::LoadMatrix(_)
                | Op::LoadTile(_)
                | Op::Multiply(_)
                | Op::MultiplyAsync(_)
                | Op::Tensor(TensorOp::Load) => true,
                _ => false,
            };
            if loads || meta.reads.iter().any(|row| rows.contains(row)) {
                rows.extend(meta.writes.iter().copied());
            }
        }
        if rows.len() == before {
            return rows;
        }
    }
}

fn spaces(space: Space) -> Spaces {
    match space {
        Space::Shared => Spaces::Shared,
        Space::Global => Spaces::Global,
        Space::Generic => Spaces::Both,
        Space::Local | Space::Const | Space::Param => Spaces::None,
    }
}

fn draft(program: &Program, pc: usize) -> Option<Draft> {
    let meta = &program.metas[pc];
    let all = &program.code[pc].args.all;
    let file = |bytes: u32| if bytes == 8 { Width::W64 } else { Width::W32 };
    let rows = |bytes: u32, rows: &[u32]| rows.iter().map(|row| (file(bytes), *row)).collect::<Vec<Row>>();
    let words = |rows: &[u32]| rows.iter().map(|row| (Width::W32, *row)).collect::<Vec<Row>>();
    let plain = |action, to: Vec<Row>, from: Vec<Row>| Draft { action, to, from, spaces: Spaces::None };
    let unknown = || {
        let lost = !meta.reads.is_empty() || !matches!(meta.op, Op::Move(_) | Op::Load(_));
        plain(Action::Clear(lost), meta.writes.to_vec(), Vec::new())
    };
    let drafted = match &meta.op {
        Op::Load(load) if spaces(load.space) != Spaces::None && load.ty != Type::B128 => {
            let to = rows(load.ty.bytes(), all.get(..at(load.vector))?);
            Draft { action: Action::Load(load.ty.bytes()), to, from: Vec::new(), spaces: spaces(load.space) }
        }
        Op::Store(store) if spaces(store.space) != Spaces::None && store.ty != Type::B128 => {
            let from = rows(store.ty.bytes(), all.get(..at(store.vector))?);
            Draft {
                action: Action::Store(store.ty.bytes()),
                to: Vec::new(),
                from,
                spaces: spaces(store.space),
            }
        }
        // 8-bit elements of these instructions are not followed.
        Op::LoadMatrix(tile) if tile.bytes.is_some() => unknown(),
        Op::StoreMatrix(tile) if tile.bytes.is_some() => return None,
        Op::LoadMatrix(tile) => Draft {
            action: Action::MatrixLoad(tile.trans),
            to: words(all),
            from: Vec::new(),
            spaces: Spaces::Shared,
        },
        Op::StoreMatrix(tile) => Draft {
            action: Action::MatrixStore(tile.trans),
            to: Vec::new(),
            from: words(all),
            spaces: Spaces::Shared,
        },
        Op::TransposeMatrix => plain(Action::MatrixMove, words(all.get(..1)?), words(all.get(1..2)?)),
        Op::LoadTile(tile) if followed(tile.element) => Draft {
            action: Action::FragmentLoad(tile.element.bits() / 8),
            to: meta.writes.to_vec(),
            from: Vec::new(),
            spaces: spaces(tile.space),
        },
        Op::StoreTile(tile) if followed(tile.element) => {
            let [m, n, _] = tile.shape.map(at);
            let from = words(all.get(..m * n / 32 / if tile.element == Element::F16 { 2 } else { 1 })?);
            Draft { action: Action::FragmentStore, to: Vec::new(), from, spaces: spaces(tile.space) }
        }
        Op::Multiply(product) => match Shape::of(product) {
            Some(shape) => {
                let d = shape.accumulators(shape.packed.1);
                let from = all.get(d..d + shape.a + shape.b + shape.accumulators(shape.packed.0))?;
                plain(Action::Multiply(shape), words(all.get(..d)?), words(from))
            }
            None => unknown(),
        },
        Op::Shuffle(_) => plain(Action::Shuffle, words(all.get(..1)?), words(all.get(2..3)?)),
        Op::Bits(Bits::Permute { mode: false }) => {
            plain(Action::Permute, words(all.get(..1)?), words(all.get(1..3)?))
        }
        Op::Bits(Bits::ShiftLeft(ty)) => {
            plain(Action::Shift(true), rows(ty.bytes(), all.get(..1)?), rows(ty.bytes(), all.get(1..2)?))
        }
        Op::Bits(Bits::ShiftRight(ty)) => {
            plain(Action::Shift(false), rows(ty.bytes(), all.get(..1)?), rows(ty.bytes(), all.get(1..2)?))
        }
        Op::Logic(logic) if logic.ty != Type::Pred && !logic.tests => {
            let bytes = logic.ty.bytes();
            if logic.table == AND && logic.sources == 2 {
                plain(Action::And, rows(bytes, all.get(..1)?), rows(bytes, all.get(1..3)?))
            } else {
                plain(Action::Combine(Blend::Mix), rows(bytes, all.get(..1)?), rows(bytes, all.get(1..)?))
            }
        }
        Op::Select(ty) => {
            plain(Action::Select, rows(ty.bytes(), all.get(..1)?), rows(ty.bytes(), all.get(1..3)?))
        }
        Op::Move(moved) => move_draft(program, pc, *moved),
        // Elements below a byte are not followed.
        Op::Convert(Convert { to: Some(Type::E2M1x2), .. } | Convert { from: Some(Type::E2M1x2), .. }) => {
            unknown()
        }
        Op::Convert(Convert { to: Some(to), from: Some(from), pack: false, .. }) => convert(*to, *from, all)?,
        Op::Arithmetic(op) if op.part == Part::Low => {
            let Some(blend) = blend(op.kind) else { return Some(unknown()) };
            let bytes = op.ty.map_or(4, element_bytes);
            plain(Action::Combine(blend), rows(bytes, all.get(..1)?), rows(bytes, all.get(1..)?))
        }
        _ if meta.writes.is_empty() => return None,
        _ => unknown(),
    };
    // The register of the result has another size than its type.
    let known =
        drafted.to.iter().all(|row| meta.writes.contains(row) || !meta.writes.iter().any(|w| w.1 == row.1));
    Some(if known { drafted } else { unknown() })
}

/// What arithmetic with a value of mixed origin leaves; `None` for arithmetic whose elements are not followed.
fn blend(kind: ArithmeticKind) -> Option<Blend> {
    use ArithmeticKind::{
        Abs, Add, Div, Ex2, Fma, Lg2, Mad, Max, Min, Mul, Neg, Rcp, Rsqrt, Sqrt, Sub, Tanh,
    };
    match kind {
        Sub | Mul | Fma | Mad | Div => Some(Blend::Keep),
        Add | Min | Max | Neg | Abs | Ex2 | Lg2 | Rcp | Sqrt | Rsqrt | Tanh => Some(Blend::Mix),
        _ => None,
    }
}

/// Elements of a tile that are followed.
fn followed(element: Element) -> bool {
    match element {
        Element::F16
        | Element::BF16
        | Element::TF32
        | Element::F32
        | Element::S32
        | Element::E4M3
        | Element::E5M2
        | Element::E3M2
        | Element::E2M3
        | Element::U8
        | Element::S8 => true,
        Element::F64 | Element::E2M1 | Element::U4 | Element::S4 | Element::B1 => false,
    }
}

/// Bytes of an element of a type; a pair has two.
fn element_bytes(ty: Type) -> u32 {
    match ty {
        Type::F16x2 | Type::BF16x2 => 2,
        Type::E4M3x2 | Type::E5M2x2 | Type::E3M2x2 | Type::E2M3x2 | Type::UE8M0x2 | Type::S2F6x2 => 1,
        Type::F32x2 => 4,
        ty => ty.bytes(),
    }
}

fn move_draft(program: &Program, pc: usize, moved: Move) -> Draft {
    let (all, meta) = (&program.code[pc].args.all, &program.metas[pc]);
    let file = |bytes: u32| if bytes == 8 { Width::W64 } else { Width::W32 };
    let rows = |bytes: u32, rows: &[u32]| rows.iter().map(|row| (file(bytes), *row)).collect::<Vec<Row>>();
    if matches!(moved.ty, Type::B128 | Type::Pred) || all.len() < 2 {
        let action = Action::Clear(!meta.reads.is_empty());
        return Draft { action, to: meta.writes.to_vec(), from: Vec::new(), spaces: Spaces::None };
    }
    let bytes = moved.ty.bytes();
    let part = bytes / u32::try_from(all.len() - 1).unwrap_or(1);
    let (action, to, from) = match moved.shape {
        MoveShape::Unpack => {
            let (to, from) = all.split_at(all.len() - 1);
            (Action::Unpack(part), rows(part, to), rows(bytes, from))
        }
        MoveShape::Pack => {
            let (to, from) = all.split_at(1);
            (Action::Pack(part), rows(bytes, to), rows(part, from))
        }
        MoveShape::Copy => (Action::Combine(Blend::Mix), rows(bytes, &all[..1]), rows(bytes, &all[1..2])),
    };
    Draft { action, to, from, spaces: Spaces::None }
}

fn convert(to: Type, from: Type, all: &[u32]) -> Option<Draft> {
    let pair = |ty: Type| element_bytes(ty) != ty.bytes();
    let (to_bytes, from_bytes) = (element_bytes(to), element_bytes(from));
    let file = |bytes: u32| if bytes == 8 { Width::W64 } else { Width::W32 };
    let rows = |bytes: u32, rows: &[u32]| rows.iter().map(|row| (file(bytes), *row)).collect::<Vec<Row>>();
    // `cvt.f16x2.f32 d, a, b` puts a into the high half.
    let mut sources = rows(from_bytes, all.get(1..)?);
    if sources.len() > 1 && !pair(from) {
        sources.truncate(2);
        sources.reverse();
    } else {
        sources.truncate(1);
    }
    let unsigned = |ty: Type| !ty.is_float() && !ty.is_signed() && !pair(ty);
    let fill = !(unsigned(to) && unsigned(from));
    let count = if pair(to) { 2 } else { 1 };
    let action = Action::Convert { from: from_bytes, to: to_bytes, count, fill };
    Some(Draft { action, to: rows(to_bytes, all.get(..1)?), from: sources, spaces: Spaces::None })
}

impl Shape {
    /// The shape of a product whose elements are followed one by one.
    pub(crate) fn of(product: &Multiply) -> Option<Shape> {
        if product.scale.is_some() || product.elements.contains(&Element::E2M1) {
            return None;
        }
        Shape::in_registers(product)
    }

    /// The shape of a product whose operands lie in 32-bit registers by the layouts of `isa/tile.rs`, with or without scales.
    pub(crate) fn in_registers(product: &Multiply) -> Option<Shape> {
        if product.sparse != Sparsity::Dense {
            return None;
        }
        let [m, n, k] = product.shape.map(at);
        let [d, a, _, c] = product.elements;
        let per = match a {
            Element::F16 | Element::BF16 => 2,
            Element::TF32 => 1,
            // Two in a byte in the largest shape, one otherwise.
            Element::E2M1 if k == 64 => 8,
            Element::E4M3
            | Element::E5M2
            | Element::E3M2
            | Element::E2M3
            | Element::E2M1
            | Element::U8
            | Element::S8 => 4,
            Element::F32 | Element::F64 | Element::U4 | Element::S4 | Element::B1 | Element::S32 => {
                return None;
            }
        };
        if m < 8 || n < 8 || k < 4 * per || m > 32 || n > 32 || k > 8 * per.max(4) {
            return None;
        }
        let registers = |outer: usize| {
            if product.wmma && a == Element::F16 { 8 } else { outer / 8 * (k / (4 * per)) }
        };
        let packed = (c == Element::F16, d == Element::F16);
        let scales = product.scale.map_or(0, |scale| scale.count);
        Some(Shape { m, n, k, per, packed, a: registers(m), b: registers(n), scales })
    }
}
