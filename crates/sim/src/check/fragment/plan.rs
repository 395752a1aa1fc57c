//! What each instruction does with tags, computed once from the program. Only values between loads and matrix
//! instructions, and between those and stores, are followed; every other instruction costs one table lookup.

use super::super::site::Words;
use crate::machine::{Width, at};
use crate::program::Program;
use std::collections::{BTreeMap, BTreeSet};

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
pub(in crate::check) struct Shape {
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
}

impl Shape {
    /// Registers of the accumulators, packed or not.
    pub(in crate::check) fn accumulators(&self, packed: bool) -> usize {
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
        let drafts: Vec<Option<Draft>> = (0..program.code.len())
            .map(|pc| draft(program, pc, &Words::of(program.instruction(pc))))
            .collect();
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
            let text = program.text().get(at(meta.span.0)..at(meta.span.1)).unwrap_or("");
            let words = Words::of(text);
            let loads = matches!(words.opcode, "ld" | "ldu" | "atom" | "call" | "ldmatrix" | "mma" | "wmma")
                && !words.modifiers.iter().any(|m| m.starts_with("param"));
            if loads || meta.reads.iter().any(|row| rows.contains(row)) {
                rows.extend(meta.writes.iter().copied());
            }
        }
        if rows.len() == before {
            return rows;
        }
    }
}

/// Bytes and count of the elements that a type names.
fn element(name: &str) -> Option<(u32, u32)> {
    Some(match name {
        "f64" | "b64" | "u64" | "s64" => (8, 1),
        "f32" | "tf32" | "b32" | "u32" | "s32" => (4, 1),
        "f16" | "bf16" | "b16" | "u16" | "s16" => (2, 1),
        "f16x2" | "bf16x2" => (2, 2),
        "e4m3" | "e5m2" | "b8" | "u8" | "s8" => (1, 1),
        "e4m3x2" | "e5m2x2" => (1, 2),
        _ => return None,
    })
}

fn spaces(words: &Words<'_>) -> Spaces {
    let shared = words.modifiers.iter().any(|m| m.starts_with("shared"));
    let elsewhere = words.modifiers.iter().any(|m| *m == "local" || *m == "const" || m.starts_with("param"));
    match (shared, words.has("global"), elsewhere) {
        (true, ..) => Spaces::Shared,
        (_, true, _) => Spaces::Global,
        (_, _, true) => Spaces::None,
        _ => Spaces::Both,
    }
}

fn draft(program: &Program, pc: usize, words: &Words<'_>) -> Option<Draft> {
    let meta = &program.metas[pc];
    let args = &program.code[pc].args;
    let all = &args.all;
    let types: Vec<&str> = words.modifiers.iter().copied().filter(|m| element(m).is_some()).collect();
    let (bytes, _) = types.last().copied().and_then(element).unwrap_or((4, 1));
    let width = if bytes == 8 { Width::W64 } else { Width::W32 };
    let same = |rows: &[u32]| rows.iter().map(|row| (width, *row)).collect::<Vec<Row>>();
    let words32 = |rows: &[u32]| rows.iter().map(|row| (Width::W32, *row)).collect::<Vec<Row>>();
    let plain = |action, to: Vec<Row>, from: Vec<Row>| Draft { action, to, from, spaces: Spaces::None };
    let unknown = || {
        let lost = !meta.reads.is_empty() || !matches!(words.opcode, "mov" | "ld");
        Draft {
            action: Action::Clear(lost),
            to: meta.writes.to_vec(),
            from: Vec::new(),
            spaces: Spaces::None,
        }
    };
    let vector = if words.has("v8") {
        8
    } else if words.has("v4") {
        4
    } else if words.has("v2") {
        2
    } else {
        1
    };
    let drafted = match words.opcode {
        "ld" | "ldu" if spaces(words) != Spaces::None && !words.has("b128") => {
            let to = same(all.get(..vector)?);
            Draft { action: Action::Load(bytes), to, from: Vec::new(), spaces: spaces(words) }
        }
        "st" if spaces(words) != Spaces::None && !words.has("b128") => {
            let from = same(all.get(..vector)?);
            Draft { action: Action::Store(bytes), to: Vec::new(), from, spaces: spaces(words) }
        }
        "ldmatrix" | "stmatrix" if words.has("m8n8") => {
            let trans = words.has("trans");
            let (load, rows) = (words.opcode == "ldmatrix", words32(all));
            let (to, from) = if load { (rows, Vec::new()) } else { (Vec::new(), rows) };
            let action = if load { Action::MatrixLoad(trans) } else { Action::MatrixStore(trans) };
            Draft { action, to, from, spaces: Spaces::Shared }
        }
        "movmatrix" => plain(Action::MatrixMove, words32(all.get(..1)?), words32(all.get(1..2)?)),
        "wmma" if words.has("load") || words.has("store") => {
            if types.contains(&"f64") || types.is_empty() {
                return Some(unknown());
            }
            let load = words.has("load");
            let rows = if load {
                meta.writes.to_vec()
            } else {
                let (m, n, _) = sizes(words)?;
                words32(all.get(..m * n / 32 / if words.has("f16") { 2 } else { 1 })?)
            };
            let (to, from) = if load { (rows, Vec::new()) } else { (Vec::new(), rows) };
            let action = if load { Action::FragmentLoad(bytes) } else { Action::FragmentStore };
            Draft { action, to, from, spaces: spaces(words) }
        }
        "mma" | "wmma" => match shape(words, &types) {
            Some(shape) => {
                let d = shape.accumulators(shape.packed.1);
                let from = all.get(d..d + shape.a + shape.b + shape.accumulators(shape.packed.0))?;
                plain(Action::Multiply(shape), words32(all.get(..d)?), words32(from))
            }
            None => unknown(),
        },
        "shfl" => plain(Action::Shuffle, words32(all.get(..1)?), words32(all.get(2..3)?)),
        "prmt" if words.modifiers == ["b32"] => {
            plain(Action::Permute, words32(all.get(..1)?), words32(all.get(1..3)?))
        }
        "shl" | "shr" => {
            plain(Action::Shift(words.opcode == "shl"), same(all.get(..1)?), same(all.get(1..2)?))
        }
        "and" if !words.has("pred") => plain(Action::And, same(all.get(..1)?), same(all.get(1..3)?)),
        "selp" => plain(Action::Select, same(all.get(..1)?), same(all.get(1..3)?)),
        "mov" => mov(program, pc, words, bytes)?,
        "cvt" => match types.as_slice() {
            [to, from] => convert(to, from, all)?,
            _ => unknown(),
        },
        "add" | "sub" | "mul" | "fma" | "mad" | "div" | "min" | "max" | "neg" | "abs" | "ex2" | "lg2"
        | "rcp" | "sqrt" | "rsqrt" | "tanh" | "or" | "xor" | "not" | "lop3"
            if !words.has("wide") && !words.has("hi") && !words.has("pred") =>
        {
            let keep = matches!(words.opcode, "sub" | "mul" | "fma" | "mad" | "div");
            let blend = if keep { Blend::Keep } else { Blend::Mix };
            plain(Action::Combine(blend), same(all.get(..1)?), same(all.get(1..)?))
        }
        _ if meta.writes.is_empty() => return None,
        _ => unknown(),
    };
    // The register of the result has another size than its type.
    let known =
        drafted.to.iter().all(|row| meta.writes.contains(row) || !meta.writes.iter().any(|w| w.1 == row.1));
    Some(if known { drafted } else { unknown() })
}

fn mov(program: &Program, pc: usize, words: &Words<'_>, bytes: u32) -> Option<Draft> {
    let all = &program.code[pc].args.all;
    let wide = |bytes: u32| if bytes == 8 { Width::W64 } else { Width::W32 };
    let rows = |width: Width, rows: &[u32]| rows.iter().map(|row| (width, *row)).collect::<Vec<Row>>();
    let meta = &program.metas[pc];
    let clear = || Draft {
        action: Action::Clear(!meta.reads.is_empty()),
        to: meta.writes.to_vec(),
        from: Vec::new(),
        spaces: Spaces::None,
    };
    if words.has("b128") || words.has("pred") || all.len() < 2 {
        return Some(clear());
    }
    let text = program.text().get(at(meta.span.0)..at(meta.span.1)).unwrap_or("");
    let operands = text.split_once(|c: char| c.is_whitespace() || c == '{').map_or("", |(_, rest)| rest);
    let parts = u32::try_from(all.len() - 1).unwrap_or(1);
    let (action, to, from) = match (operands.find('{'), operands.find(',')) {
        (Some(brace), Some(comma)) if brace < comma => {
            let width = wide(bytes / parts);
            let (to, from) = all.split_at(all.len() - 1);
            (Action::Unpack(bytes / parts), rows(width, to), rows(wide(bytes), from))
        }
        (Some(_), Some(_)) => {
            let (to, from) = all.split_at(1);
            (Action::Pack(bytes / parts), rows(wide(bytes), to), rows(wide(bytes / parts), from))
        }
        _ => (Action::Combine(Blend::Mix), rows(wide(bytes), &all[..1]), rows(wide(bytes), &all[1..2])),
    };
    Some(Draft { action, to, from, spaces: Spaces::None })
}

fn convert(to: &str, from: &str, all: &[u32]) -> Option<Draft> {
    let ((to_bytes, count), (from_bytes, from_count)) = (element(to)?, element(from)?);
    let wide = |bytes: u32| if bytes == 8 { Width::W64 } else { Width::W32 };
    let rows = |width: Width, rows: &[u32]| rows.iter().map(|row| (width, *row)).collect::<Vec<Row>>();
    // `cvt.f16x2.f32 d, a, b` puts a into the high half.
    let mut sources = rows(wide(from_bytes), all.get(1..)?);
    if sources.len() > 1 && from_count == 1 {
        sources.truncate(2);
        sources.reverse();
    } else {
        sources.truncate(1);
    }
    let integer = |name: &str| name.starts_with(['u', 'b']) && name != "bf16" && name != "bf16x2";
    let fill = !(integer(to) && integer(from));
    let action = Action::Convert { from: from_bytes, to: to_bytes, count, fill };
    Some(Draft { action, to: rows(wide(to_bytes), all.get(..1)?), from: sources, spaces: Spaces::None })
}

/// The shape of a matrix instruction whose operands lie in 32-bit registers by the layouts of `isa/tile.rs`.
pub(in crate::check) fn shape_of(words: &Words<'_>) -> Option<Shape> {
    let types: Vec<&str> = words.modifiers.iter().copied().filter(|m| element(m).is_some()).collect();
    let multiplies = words.opcode == "mma" || (words.opcode == "wmma" && words.has("mma"));
    multiplies.then(|| shape(words, &types)).flatten()
}

fn shape(words: &Words<'_>, types: &[&str]) -> Option<Shape> {
    if words.has("sp") || words.modifiers.iter().any(|m| m.starts_with("sp:")) {
        return None;
    }
    let (m, n, k) = sizes(words)?;
    let wmma = words.opcode == "wmma";
    let (d, a, c) = match types {
        [d, a, _, c] => (*d, *a, *c),
        [d, c] if wmma => (*d, "f16", *c),
        _ => return None,
    };
    let per = match a {
        "f16" | "bf16" => 2,
        "tf32" => 1,
        "e4m3" | "e5m2" | "u8" | "s8" => 4,
        _ => return None,
    };
    if m < 8 || n < 8 || k < 4 * per || m > 32 || n > 32 || k > 32 {
        return None;
    }
    let registers = |outer: usize| if wmma && a == "f16" { 8 } else { outer / 8 * (k / (4 * per)) };
    Some(Shape { m, n, k, per, packed: (c == "f16", d == "f16"), a: registers(m), b: registers(n) })
}

/// The numbers of a shape such as `m16n8k16`.
fn sizes(words: &Words<'_>) -> Option<(usize, usize, usize)> {
    let name = words.modifiers.iter().find(|m| m.starts_with('m') && m.contains('n') && m.contains('k'))?;
    let mut numbers = name[1..].split(['n', 'k']).map(|part| part.parse().ok());
    Some((numbers.next()??, numbers.next()??, numbers.next()??))
}
