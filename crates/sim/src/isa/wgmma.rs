//! `wgmma`: asynchronous matrix multiply and accumulate over a warpgroup, four consecutive warps.
//!
//! D has 64 rows; warp w of the group holds rows 16 w to 16 w + 15 of D, and of A if it is in registers, in the layout of
//! `mma.m16n8` (`tile.rs`), tile after tile. Each warp computes its rows by itself (`machine/multiply.rs`). Operands in
//! shared memory are described by 64-bit *matrix descriptors* (`descriptor.rs`).

use super::descriptor::Descriptor;
use super::mma::{fp8_format, int_elements};
use super::tile::{Code, gather_a, gather_c, scatter_c};
use super::{Args, Bound, Definition, Refusal, Shape, Slot, Spec, Unit};
use crate::machine::{Flow, PendingMultiply, Type, Warp, Width, at};
use crate::simd::Simd;
use crate::stop::{Blame, StopKind};
use crate::{bind, bind_plain};
use std::ops::BitXor;
use warpproof_num::fp8::Fp8;
use warpproof_num::mma::{self, Accumulator, BitOp, TensorCore};

/// All shapes for a K.
macro_rules! shapes {
    ($k:literal: $($n:literal)*) => {
        concat!("; .shape =" $(, " .m64n", $n, "k", $k)*)
    };
    (floats $k:literal) => {
        shapes!($k: 8 16 24 32 40 48 56 64 72 80 88 96 104 112 120 128 136 144 152 160 168 176 184 192 200 208 216 224 232 240 248 256)
    };
    (integers $k:literal) => {
        shapes!($k: 8 16 24 32 48 64 80 96 112 128 144 160 176 192 208 224 240 256)
    };
}

pub(super) mod sparse;

macro_rules! op {
    ($form:expr, $bind:expr) => {
        Definition {
            form: $form,
            manual: "asynchronous-warpgroup-level-matrix-instructions-wgmma-mma-async",
            unit: Unit::Tensor,
            since: (8, 0, 90),
            bind: $bind,
        }
    };
}

macro_rules! order {
    ($form:expr, $section:literal, $bind:expr) => {
        Definition {
            form: $form,
            manual: $section,
            unit: Unit::Control,
            since: (8, 0, 90),
            bind: bind_plain!($bind),
        }
    };
}

pub(super) const DEFINITIONS: &[Definition] = &[
    order!("wgmma.fence.sync.aligned", "asynchronous-warpgroup-level-matrix-instructions-wgmma-fence", fence),
    op!(
        concat!(
            "wgmma.mma_async.sync.aligned.shape.dtype.f16.f16 d, a, b-desc, scale-d, imm-scale-a, imm-scale-b{, imm-trans-a}, imm-trans-b",
            shapes!(floats 16),
            "; .dtype = .f16 .f32"
        ),
        bind!(f16)
    ),
    op!(
        concat!(
            "wgmma.mma_async.sync.aligned.shape.f32.bf16.bf16 d, a, b-desc, scale-d, imm-scale-a, imm-scale-b{, imm-trans-a}, imm-trans-b",
            shapes!(floats 16)
        ),
        bind!(bf16)
    ),
    op!(
        concat!(
            "wgmma.mma_async.sync.aligned.shape.f32.tf32.tf32 d, a, b-desc, scale-d, imm-scale-a, imm-scale-b",
            shapes!(floats 8)
        ),
        bind!(tf32)
    ),
    op!(
        concat!(
            "wgmma.mma_async.sync.aligned.shape.dtype.atype.btype d, a, b-desc, scale-d, imm-scale-a, imm-scale-b",
            shapes!(floats 32),
            "; .dtype = .f16 .f32; .atype = .e4m3 .e5m2; .btype = .e4m3 .e5m2"
        ),
        bind!(fp8)
    ),
    op!(
        concat!(
            "wgmma.mma_async.sync.aligned.shape{.satfinite}.s32.atype.btype d, a, b-desc, scale-d",
            shapes!(integers 32),
            "; .atype = .s8 .u8; .btype = .s8 .u8"
        ),
        bind!(int8)
    ),
    op!(
        concat!(
            "wgmma.mma_async.sync.aligned.shape.s32.b1.b1.and.popc d, a, b-desc, scale-d",
            shapes!(integers 256)
        ),
        bind!(single_bit)
    ),
    order!(
        "wgmma.commit_group.sync.aligned",
        "asynchronous-warpgroup-level-matrix-instructions-wgmma-commit-group",
        commit
    ),
    order!(
        "wgmma.wait_group.sync.aligned N",
        "asynchronous-warpgroup-level-matrix-instructions-wgmma-wait-group",
        wait
    ),
];

/// The warp's number in its group; stops unless all lanes execute the instruction and the group has four whole warps.
fn member(w: &mut Warp<'_, '_>) -> Result<usize, Flow> {
    let group = w.state.id / 4;
    let whole = u64::from(w.grid.block_threads()) >= 128 * (u64::from(group) + 1);
    if w.exec == u32::MAX && whole {
        return Ok(at(w.state.id % 4));
    }
    let sentence = if whole {
        let lanes = w.exec.count_ones();
        format!(
            "wgmma is executed by {lanes} of 32 lanes of a warp; all threads of a warpgroup must execute it"
        )
    } else {
        format!(
            "wgmma is executed by warp {} of a block of {} threads; a warpgroup is four whole warps",
            w.state.id,
            w.grid.block_threads()
        )
    };
    Err(w.halt(Blame::Kernel, StopKind::Lanes, sentence))
}

fn fence(_: &Spec<'_>) -> Result<Bound, Refusal> {
    Ok(Bound::fallible([], |w, _| {
        if !w.gather_warp() {
            return Ok(Flow::Wait);
        }
        member(w).map(|_| Flow::Next)
    }))
}

fn commit(_: &Spec<'_>) -> Result<Bound, Refusal> {
    Ok(Bound::fallible([], |w, _| {
        if !w.gather_warp() {
            return Ok(Flow::Wait);
        }
        member(w)?;
        w.state.multiplies.committed += 1;
        Ok(Flow::Next)
    }))
}

fn wait(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let left = spec.integer(0).and_then(|left| u64::try_from(left).ok());
    let left = left.ok_or_else(|| Refusal::Malformed("the number of groups must be a constant".into()))?;
    Ok(Bound::fallible([Slot::Static], move |w, _| {
        let waited = w.state.subwarp.wait;
        if !w.gather_warp() {
            return Ok(Flow::Wait);
        }
        member(w)?;
        w.wait_multiplies(left, waited)
    }))
}

/// What the operands of an instruction are.
#[derive(Clone, Copy, Debug)]
struct Form {
    n: usize,
    /// Two f16 accumulators share a register.
    packed: bool,
    /// A is in registers.
    registers: bool,
    /// A and B are stored by column: MN-major.
    transposed: (bool, bool),
    /// A and B are negated.
    negated: (bool, bool),
    /// `scale-d`, if it is a constant.
    accumulate: Option<bool>,
    /// A is sparse: metadata and its selector are behind the descriptor of B.
    sparse: bool,
}

impl Form {
    fn of(spec: &Spec<'_>) -> Result<Form, Refusal> {
        let shape = spec.get("shape").unwrap_or("m64n8k16");
        let n = shape.trim_start_matches("m64n").split('k').next().and_then(|n| n.parse().ok()).unwrap_or(8);
        let registers = matches!(spec.operands.get(1), Some(Shape::Vector(_)));
        let float = !spec.has("s32");
        let wide = spec.has("f16") && !spec.modifiers.form().text.contains("atype") || spec.has("bf16");
        let constant = |position: usize, what: &str, allowed: [i64; 2]| match spec.integer(position) {
            Some(value) if allowed.contains(&value) => Ok(value),
            _ => Err(Refusal::Malformed(format!(
                "{what} must be the constant {} or {}",
                allowed[0], allowed[1]
            ))),
        };
        let transposing = wide.then_some(if registers { 1 } else { 2 });
        let sparse = spec.has("sp");
        let more = if sparse { 2 } else { 0 };
        let expected = if float { 6 } else { 4 } + transposing.unwrap_or(0) + more;
        if spec.operands.len() != expected {
            let found = spec.operands.len();
            return Err(Refusal::Malformed(format!("expected {expected} operands, found {found}")));
        }
        let mut form = Form {
            n,
            packed: spec.get("dtype") == Some("f16"),
            registers,
            transposed: (false, false),
            negated: (false, false),
            accumulate: spec.integer(3 + more).map(|value| value != 0),
            sparse,
        };
        if float {
            form.negated.0 = constant(4 + more, "imm-scale-a", [1, -1])? == -1;
            form.negated.1 = constant(5 + more, "imm-scale-b", [1, -1])? == -1;
        }
        match transposing {
            Some(1) => form.transposed.1 = constant(6 + more, "imm-trans-b", [0, 1])? == 1,
            Some(_) => {
                form.transposed.0 = constant(6 + more, "imm-trans-a", [0, 1])? == 1;
                form.transposed.1 = constant(7 + more, "imm-trans-b", [0, 1])? == 1;
            }
            None => {}
        }
        Ok(form)
    }

    /// Registers of D.
    fn accumulators(&self) -> usize {
        self.n / if self.packed { 4 } else { 2 }
    }

    /// The position of the descriptor of B among the rows.
    fn b_index(&self) -> usize {
        self.accumulators() + if self.registers { 4 } else { 1 }
    }

    fn slots(&self, spec: &Spec<'_>) -> Vec<Slot> {
        let a = if self.registers { Slot::SrcVec(vec![Type::B32; 4]) } else { Slot::Src(Type::B64) };
        let scale = if self.accumulate.is_some() { Slot::Static } else { Slot::Src(Type::Pred) };
        let mut slots = vec![Slot::UpdateVec(vec![Width::W32; self.accumulators()]), a, Slot::Src(Type::B64)];
        if self.sparse {
            slots.extend([Slot::Src(Type::B32), Slot::Static]);
        }
        slots.push(scale);
        slots.resize(spec.operands.len(), Slot::Static);
        slots
    }

    /// The descriptors and `scale-d`, which all lanes must agree on.
    fn read(&self, w: &mut Warp<'_, '_>, args: &Args) -> Result<(Option<u64>, u64, bool), Flow> {
        let (d, b) = (self.accumulators(), self.b_index());
        let uniform = |w: &Warp<'_, '_>, index: usize| {
            let row = &w.state.regs.w64[at(args.all[index])];
            (row.0 == [row.0[0]; 32]).then_some(row.0[0])
        };
        let a = if self.registers { Some(None) } else { uniform(w, d).map(Some) };
        let accumulate = match self.accumulate {
            Some(constant) => Some(constant),
            None => match w.pred_arg(args, b + 1 + usize::from(self.sparse)) {
                0 => Some(false),
                u32::MAX => Some(true),
                _ => None,
            },
        };
        match (a, uniform(w, b), accumulate) {
            (Some(a), Some(b), Some(accumulate)) => Ok((a, b, accumulate)),
            (a, b, _) => {
                let what = match (a, b) {
                    (None, _) => "descriptors of A",
                    (_, None) => "descriptors of B",
                    _ => "values of scale-d",
                };
                let sentence = format!("lanes of a warp execute wgmma with different {what}");
                Err(w.halt(Blame::Kernel, StopKind::Lanes, sentence))
            }
        }
    }

    /// The pieces of shared memory that warp `member` of the group reads, within the block's memory.
    fn pieces(
        &self,
        w: &mut Warp<'_, '_>,
        member: usize,
        a: Option<u64>,
        b: u64,
    ) -> Result<Box<[u32]>, Flow> {
        let first = u32::try_from(16 * member).unwrap_or(0);
        let n = u32::try_from(self.n).unwrap_or(0);
        let size = w.cta.shared.size();
        let mut pieces = Vec::new();
        let a = a.map(Descriptor::of);
        let operands = [
            ("A", a, self.transposed.0, false, first..first + 16),
            ("B", Some(Descriptor::of(b)), self.transposed.1, self.sparse, 0..n),
        ];
        for (name, descriptor, transposed, long, rows) in operands {
            let Some(descriptor) = descriptor else { continue };
            for address in descriptor.pieces(transposed, long, rows.start, rows.end) {
                if address.saturating_add(16) > size {
                    let sentence = format!(
                        "the descriptor of {name} reads 16 bytes at shared address {address:#x}; the block has {size} bytes of shared memory"
                    );
                    return Err(w.halt(Blame::Kernel, StopKind::Bounds, sentence));
                }
                pieces.push(address);
            }
        }
        Ok(pieces.into())
    }
}

/// Sixteen bytes of shared memory.
#[inline(always)]
fn piece(w: &Warp<'_, '_>, address: u32) -> [u32; 4] {
    std::array::from_fn(|i| w.cta.shared.word(address / 4 + u32::try_from(i).unwrap_or(0)))
}

/// R rows of an operand in shared memory, from row `first`: `rows[row][k]`.
#[inline(always)]
fn rows<T: Code, const R: usize, const K: usize>(
    w: &Warp<'_, '_>,
    descriptor: &Descriptor,
    transposed: bool,
    first: u32,
) -> [[T; K]; R] {
    let mut out = [[T::default(); K]; R];
    if transposed {
        for (k, chunk) in (0..K).flat_map(|k| (0..R / 8).map(move |chunk| (k, chunk))) {
            let words = piece(w, descriptor.by_column(narrow(k), first / 8 + narrow(chunk)));
            for (i, row) in out[8 * chunk..8 * chunk + 8].iter_mut().enumerate() {
                // Only 16-bit elements can be stored by column.
                row[k] = T::take(words[i / 2], i % 2);
            }
        }
        return out;
    }
    for (r, row) in out.iter_mut().enumerate() {
        for (p, elements) in row.chunks_exact_mut(4 * T::PER).enumerate() {
            let words = piece(w, descriptor.by_row(first + narrow(r), narrow(p)));
            for (word, out) in words.into_iter().zip(elements.chunks_exact_mut(T::PER)) {
                T::spread(word, out);
            }
        }
    }
    out
}

fn narrow(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(0)
}

/// Elements of type `T`, K in 32 bytes; `sign` is its sign bit, and `f` does the arithmetic of eight columns.
fn multiply<I: Simd, T: Code + BitXor<Output = T> + Send + Sync, const K: usize>(
    spec: &Spec<'_>,
    sign: T,
    f: impl Fn(&[[T; 16]; K], &[[T; K]; 8], &mut [[u32; 16]; 8]) + Send + Sync + 'static,
) -> Result<Bound, Refusal> {
    let form = Form::of(spec)?;
    Ok(Bound::fallible(form.slots(spec), move |w, args| {
        if let Some(pending) = w.state.multiplies.finishing.take() {
            let running = std::mem::replace(&mut w.exec, u32::MAX);
            I::vectorize(|| finish(w, args, &form, &pending, sign, &f));
            w.exec = running;
            return Ok(Flow::Next);
        }
        if !w.gather_warp() {
            return Ok(Flow::Wait);
        }
        let member = member(w)?;
        let (a, b, accumulate) = form.read(w, args)?;
        let mut pieces = form.pieces(w, member, a, b)?;
        if w.watch.is_none() {
            pieces = Box::default();
        }
        let (pc, group) = (w.pc, w.state.multiplies.committed);
        w.start_multiply(PendingMultiply { pc, group, a, b, accumulate, pieces })
    }))
}

/// Reads the operands and writes the accumulators of a warp.
#[inline(always)]
fn finish<T: Code + BitXor<Output = T>, const K: usize>(
    w: &mut Warp<'_, '_>,
    args: &Args,
    form: &Form,
    pending: &PendingMultiply,
    sign: T,
    f: &impl Fn(&[[T; 16]; K], &[[T; K]; 8], &mut [[u32; 16]; 8]),
) {
    let (d, rest) = args.all.split_at(form.accumulators());
    let mut a: [[T; 16]; K] = match pending.a {
        None => gather_a::<T, 16, K>(w, &rest[..4]),
        Some(code) => {
            let first = 16 * (w.state.id % 4);
            let rows = rows::<T, 16, K>(w, &Descriptor::of(code), form.transposed.0, first);
            std::array::from_fn(|k| std::array::from_fn(|m| rows[m][k]))
        }
    };
    if form.negated.0 {
        a = a.map(|column| column.map(|code| code ^ sign));
    }
    let descriptor = Descriptor::of(pending.b);
    let step = if form.packed { 2 } else { 4 };
    for (tile, registers) in d.chunks_exact(step).enumerate() {
        let mut b = rows::<T, 8, K>(w, &descriptor, form.transposed.1, 8 * narrow(tile));
        if form.negated.1 {
            b = b.map(|column| column.map(|code| code ^ sign));
        }
        let mut c =
            if pending.accumulate { gather_c::<16, 8>(w, registers, form.packed) } else { [[0; 16]; 8] };
        f(&a, &b, &mut c);
        scatter_c(w, registers, form.packed, &c);
    }
}

fn accumulator(spec: &Spec<'_>) -> Accumulator {
    if spec.get("dtype") == Some("f16") { Accumulator::F16 } else { Accumulator::F32 }
}

fn f16<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    match accumulator(spec) {
        Accumulator::F32 => multiply::<I, u16, 16>(spec, 0x8000, |a, b, c| {
            mma::f16(TensorCore::Hopper, Accumulator::F32, a, b, c);
        }),
        Accumulator::F16 => multiply::<I, u16, 16>(spec, 0x8000, |a, b, c| {
            mma::f16(TensorCore::Hopper, Accumulator::F16, a, b, c);
        }),
    }
}

fn bf16<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    multiply::<I, u16, 16>(spec, 0x8000, |a, b, c| mma::bf16(TensorCore::Hopper, a, b, c))
}

fn tf32<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    multiply::<I, u32, 8>(spec, 0x8000_0000, |a, b, c| mma::tf32(TensorCore::Hopper, a, b, c))
}

fn fp8<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let formats = (fp8_format(spec.get("atype")), fp8_format(spec.get("btype")));
    let accumulator = accumulator(spec);
    // The common pair of types has its own routine, in which the formats are constants.
    match (formats, accumulator) {
        ((Fp8::E4m3, Fp8::E4m3), Accumulator::F32) => multiply::<I, u8, 32>(spec, 0x80, |a, b, c| {
            mma::fp8(TensorCore::Hopper, (Fp8::E4m3, Fp8::E4m3), Accumulator::F32, a, b, c);
        }),
        _ => multiply::<I, u8, 32>(spec, 0x80, move |a, b, c| {
            mma::fp8(TensorCore::Hopper, formats, accumulator, a, b, c);
        }),
    }
}

fn int8<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let (elements, sat) = (int_elements(spec), spec.has("satfinite"));
    multiply::<I, u8, 32>(spec, 0, move |a, b, c| mma::integer(elements, sat, a, b, c))
}

/// 32 single bits form one word, so K counts words here.
fn single_bit<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    multiply::<I, u32, 8>(spec, 0, |a, b, c| mma::bits(BitOp::And, a, b, c))
}
