//! `wgmma.mma_async.sp`: a sparse A, of which half the elements are stored, with metadata in a register.
//!
//! The stored elements of A have the layout of a dense A, in registers or behind a descriptor; B has twice as many elements along
//! k, four pieces of 16 bytes in a row instead of two. Each warp has the metadata of its own sixteen rows, in the layout of
//! `mma.sp` (`mma/sparse.rs`).
//!
//! Sums of floating-point numbers are modeled: an instruction has as many stored products as a dense one has products, which is one
//! block of the rule, so that their order does not matter. This was not compared with hardware. Integer sums are exact.
//!
//! A swizzle of 32 bytes is not supported for a B that is stored by row: its rows of 64 bytes are longer than the pattern,
//! and the manual does not define where they continue.

use super::super::descriptor::Descriptor;
use super::super::mma::sparse::{Granularity, Metadata};
use super::{Form, accumulator, member, rows};
use crate::bind;
use crate::isa::mma::{fp8_format, int_elements};
use crate::isa::tile::{Code, gather_a, gather_c, scatter_c};
use crate::isa::{Args, Bound, Definition, Refusal, Spec, Unit};
use crate::machine::{Flow, PendingMultiply, Warp, at};
use crate::simd::Simd;
use crate::stop::{Blame, StopKind};
use std::ops::BitXor;
use warpproof_num::fp8::Fp8;
use warpproof_num::mma::{self, Accumulator, Element, Sparse, TensorCore};

macro_rules! op {
    ($form:expr, $bind:ident) => {
        Definition {
            form: concat!("wgmma.mma_async.sp.sync.aligned", $form),
            manual: "asynchronous-warpgroup-level-matrix-instructions-wgmma-mma-sp",
            unit: Unit::Tensor,
            since: (8, 2, 90),
            bind: bind!($bind),
        }
    };
}

pub(in crate::isa) const DEFINITIONS: &[Definition] = &[
    op!(
        concat!(
            ".shape.dtype.f16.f16 d, a, b-desc, sp-meta, sp-sel, scale-d, imm-scale-a, imm-scale-b{, imm-trans-a}, imm-trans-b",
            shapes!(floats 32),
            "; .dtype = .f16 .f32"
        ),
        f16
    ),
    op!(
        concat!(
            ".shape.f32.bf16.bf16 d, a, b-desc, sp-meta, sp-sel, scale-d, imm-scale-a, imm-scale-b{, imm-trans-a}, imm-trans-b",
            shapes!(floats 32)
        ),
        bf16
    ),
    op!(
        concat!(
            ".shape.f32.tf32.tf32 d, a, b-desc, sp-meta, sp-sel, scale-d, imm-scale-a, imm-scale-b",
            shapes!(floats 16)
        ),
        tf32
    ),
    op!(
        concat!(
            ".shape.dtype.atype.btype d, a, b-desc, sp-meta, sp-sel, scale-d, imm-scale-a, imm-scale-b",
            shapes!(floats 64),
            "; .dtype = .f16 .f32; .atype = .e4m3 .e5m2; .btype = .e4m3 .e5m2"
        ),
        fp8
    ),
    op!(
        concat!(
            ".shape{.satfinite}.s32.atype.btype d, a, b-desc, sp-meta, sp-sel, scale-d",
            shapes!(integers 64),
            "; .atype = .s8 .u8; .btype = .s8 .u8"
        ),
        int8
    ),
];

/// A of H stored elements per row of K; `sign` is the sign bit of an element, and `f` does the arithmetic of eight columns.
fn multiply<I: Simd, T: Code + BitXor<Output = T> + Send + Sync, const H: usize, const K: usize>(
    spec: &Spec<'_>,
    (granularity, whole_words): (Granularity, bool),
    sign: T,
    f: impl Fn(&Sparse<T, 16, H>, &[[T; K]; 8], &mut [[u32; 16]; 8]) + Send + Sync + 'static,
) -> Result<Bound, Refusal> {
    let form = Form::of(spec)?;
    let selector = spec.integer(4).and_then(|selector| usize::try_from(selector).ok());
    let metadata = selector.and_then(|selector| Metadata::of(granularity, whole_words, false, K, selector));
    let Some(metadata) = metadata else {
        let expected = if whole_words { "0" } else { "0 or 1" };
        return Err(Refusal::Malformed(format!("the sparsity selector must be the constant {expected}")));
    };
    Ok(Bound::fallible(form.slots(spec), move |w, args| {
        if let Some(pending) = w.state.multiplies.finishing.take() {
            let running = std::mem::replace(&mut w.exec, u32::MAX);
            let finished = finish::<I, T, H, K>(w, args, &form, &metadata, &pending, sign, &f);
            w.exec = running;
            return finished.map(|()| Flow::Next);
        }
        if !w.gather_warp() {
            return Ok(Flow::Wait);
        }
        let member = member(w)?;
        let (a, b, accumulate) = form.read(w, args)?;
        if Descriptor::of(b).bits == 1 && !form.transposed.1 {
            let sentence =
                "wgmma.mma_async.sp with a B of rows of 64 bytes in a swizzle of 32 bytes is not supported";
            return Err(w.halt(Blame::Gap, StopKind::Unsupported, sentence.to_owned()));
        }
        let mut pieces = form.pieces(w, member, a, b)?;
        if w.watch.is_none() {
            pieces = Box::default();
        }
        let (pc, group) = (w.pc, w.state.multiplies.committed);
        w.start_multiply(PendingMultiply { pc, group, a, b, accumulate, pieces })
    }))
}

/// Reads the operands and writes the accumulators of a warp.
fn finish<I: Simd, T: Code + BitXor<Output = T>, const H: usize, const K: usize>(
    w: &mut Warp<'_, '_>,
    args: &Args,
    form: &Form,
    metadata: &Metadata,
    pending: &PendingMultiply,
    sign: T,
    f: &impl Fn(&Sparse<T, 16, H>, &[[T; K]; 8], &mut [[u32; 16]; 8]),
) -> Result<(), Flow> {
    let (d, rest) = args.all.split_at(form.accumulators());
    let words = w.state.regs.w32[at(args.all[form.b_index() + 1])];
    let places = metadata.columns::<H>(&words).map_err(|wrong| metadata.undefined(w, wrong))?;
    I::vectorize(|| {
        let mut values: [[T; 16]; H] = match pending.a {
            None => gather_a::<T, 16, H>(w, &rest[..4]),
            Some(code) => {
                let first = 16 * (w.state.id % 4);
                let rows = rows::<T, 16, H>(w, &Descriptor::of(code), form.transposed.0, first);
                std::array::from_fn(|h| std::array::from_fn(|m| rows[m][h]))
            }
        };
        if form.negated.0 {
            values = values.map(|column| column.map(|code| code ^ sign));
        }
        let a = Sparse { values, places };
        let descriptor = Descriptor::of(pending.b);
        let step = if form.packed { 2 } else { 4 };
        for (first, registers) in (0u32..).step_by(8).zip(d.chunks_exact(step)) {
            let mut b = rows::<T, 8, K>(w, &descriptor, form.transposed.1, first);
            if form.negated.1 {
                b = b.map(|column| column.map(|code| code ^ sign));
            }
            let mut c =
                if pending.accumulate { gather_c::<16, 8>(w, registers, form.packed) } else { [[0; 16]; 8] };
            f(&a, &b, &mut c);
            scatter_c(w, registers, form.packed, &c);
        }
    });
    Ok(())
}

/// Floating point of one type.
fn float<I: Simd, T, const H: usize, const K: usize>(
    spec: &Spec<'_>,
    (granularity, element, accumulator): (Granularity, Element, Accumulator),
    sign: T,
) -> Result<Bound, Refusal>
where
    T: Code + BitXor<Output = T> + Into<u32> + Send + Sync,
{
    multiply::<I, T, H, K>(spec, (granularity, false), sign, move |a, b, c| {
        mma::sparse(TensorCore::Hopper, (element, element), accumulator, a, b, c);
    })
}

fn f16<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let kind = (Granularity::TwoOfFour, Element::F16, accumulator(spec));
    float::<I, u16, 16, 32>(spec, kind, 0x8000)
}

fn bf16<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    float::<I, u16, 16, 32>(spec, (Granularity::TwoOfFour, Element::Bf16, Accumulator::F32), 0x8000)
}

fn tf32<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    float::<I, u32, 8, 16>(spec, (Granularity::OneOfTwo, Element::Tf32, Accumulator::F32), 0x8000_0000)
}

fn fp8<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let element = |name: &str| match fp8_format(spec.get(name)) {
        Fp8::E4m3 => Element::E4m3,
        Fp8::E5m2 => Element::E5m2,
    };
    let (elements, accumulator) = ((element("atype"), element("btype")), accumulator(spec));
    multiply::<I, u8, 32, 64>(spec, (Granularity::TwoOfFour, true), 0x80, move |a, b, c| {
        mma::sparse(TensorCore::Hopper, elements, accumulator, a, b, c);
    })
}

fn int8<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let (elements, sat) = (int_elements(spec), spec.has("satfinite"));
    multiply::<I, u8, 32, 64>(spec, (Granularity::TwoOfFour, true), 0, move |a, b, c| {
        mma::integer(elements, sat, &a.whole::<64>(), b, c);
    })
}
