//! Conversions to and from formats of less than a byte and scales: e3m2, e2m3, e2m1, ue8m0; and between bf16 and formats of a
//! byte.
//!
//! A pair of e2m1 is one byte. A pair of e3m2 or e2m3 is two bytes, whose two upper bits are zero in a result and ignored in a
//! source. The first operand goes to the upper part.
#![expect(clippy::unnecessary_wraps, reason = "all binders share one signature, and most can fail")]
#![expect(clippy::inline_always, reason = "only code inlined into a routine is compiled for its vector unit")]

use super::registers::{converted, truncate16};
use crate::bind;
use crate::isa::map::map2;
use crate::isa::{Bound, Definition, Refusal, Spec, Unit};
use crate::simd::Simd;
use warpproof_num::convert::{cvt_bf16_f32, cvt_f32_bf16, cvt_f32_f16};
use warpproof_num::fp8::{Fp8, cvt_f32_fp8, cvt_fp8_f32};
use warpproof_num::small::{
    Small, cvt_bf16_small, cvt_bf16_ue8m0, cvt_f16_small, cvt_small_f32, cvt_ue8m0_f32,
};
use warpproof_num::{Rounding, half};

macro_rules! op {
    ($form:literal, $since:expr, $bind:ident) => {
        Definition {
            form: $form,
            manual: "data-movement-and-conversion-instructions-cvt",
            unit: Unit::Alu,
            since: $since,
            bind: bind!($bind),
        }
    };
}

pub(in crate::isa) const DEFINITIONS: &[Definition] = &[
    op!(
        "cvt.rn.satfinite{.relu}.f6x2type.f32 d, a, b; .f6x2type = .e3m2x2 .e2m3x2",
        (8, 6, 100),
        fp6_from_singles
    ),
    op!(
        "cvt.rn.satfinite{.relu}.f6x2type.stype d, a; .f6x2type = .e3m2x2 .e2m3x2; .stype = .f16x2 .bf16x2",
        (9, 1, 100),
        fp6_from_halves
    ),
    op!("cvt.rn{.relu}.f16x2.f6x2type d, a; .f6x2type = .e3m2x2 .e2m3x2", (8, 6, 100), halves_from_fp6),
    op!("cvt.rn{.relu}.bf16x2.f6x2type d, a; .f6x2type = .e3m2x2 .e2m3x2", (9, 2, 100), halves_from_fp6),
    op!("cvt.rn.satfinite{.relu}.e2m1x2.f32 d, a, b", (8, 6, 100), fp4_from_singles),
    op!("cvt.rn.satfinite{.relu}.e2m1x2.stype d, a; .stype = .f16x2 .bf16x2", (9, 1, 100), fp4_from_halves),
    op!("cvt.rn{.relu}.f16x2.e2m1x2 d, a", (8, 6, 100), halves_from_fp4),
    op!("cvt.rn{.relu}.bf16x2.e2m1x2 d, a", (9, 2, 100), halves_from_fp4),
    op!(
        "cvt.rn.satfinite{.relu}.f8x2type.bf16x2 d, a; .f8x2type = .e4m3x2 .e5m2x2",
        (9, 1, 100),
        fp8_from_bf16
    ),
    op!("cvt.rn{.relu}.bf16x2.f8x2type d, a; .f8x2type = .e4m3x2 .e5m2x2", (9, 2, 100), bf16_from_fp8),
    op!("cvt.frnd3{.satfinite}.ue8m0x2.f32 d, a, b; .frnd3 = .rz .rp", (8, 6, 100), scales_from_singles),
    op!("cvt.frnd3{.satfinite}.ue8m0x2.bf16x2 d, a; .frnd3 = .rz .rp", (8, 6, 100), scales_from_bf16),
    op!("cvt.rn.bf16x2.ue8m0x2 d, a", (8, 6, 100), bf16_from_scales),
];

#[inline(always)]
fn bytes(upper: u8, lower: u8) -> u16 {
    u16::from_le_bytes([lower, upper])
}

#[inline(always)]
fn words(upper: u16, lower: u16) -> u32 {
    u32::from(upper) << 16 | u32::from(lower)
}

/// `f` of both halves of a word.
#[inline(always)]
fn halves<T>(a: u32, f: impl Fn(u16) -> T) -> (T, T) {
    (f(truncate16(a >> 16)), f(truncate16(a)))
}

fn six(spec: &Spec<'_>) -> Small {
    if spec.get("f6x2type") == Some("e3m2x2") { Small::E3m2 } else { Small::E2m3 }
}

/// The f32 value of an f16 or bf16.
#[inline(always)]
fn single(bf16: bool, a: u16) -> u32 {
    if bf16 { cvt_f32_bf16(a) } else { cvt_f32_f16(a) }
}

fn fp6_from_singles<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let (format, relu) = (six(spec), spec.has("relu"));
    let f = move |a| cvt_small_f32(format, a, relu);
    Ok(map2::<I, u16, u32, u32>(move |a, b| bytes(f(a), f(b))))
}

fn fp6_from_halves<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let (format, relu, bf16) = (six(spec), spec.has("relu"), spec.get("stype") == Some("bf16x2"));
    converted::<I, u16, u32>(spec, move |a| {
        let (upper, lower) = halves(a, |half| cvt_small_f32(format, single(bf16, half), relu));
        bytes(upper, lower)
    })
}

fn halves_from_fp6<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let (format, relu, bf16) = (six(spec), spec.has("relu"), spec.has("bf16x2"));
    converted::<I, u32, u16>(spec, move |a: u16| {
        let [lower, upper] = a.to_le_bytes().map(|code| widened(format, code, bf16, relu));
        words(upper, lower)
    })
}

#[inline(always)]
fn widened(format: Small, code: u8, bf16: bool, relu: bool) -> u16 {
    if bf16 { cvt_bf16_small(format, code, relu) } else { cvt_f16_small(format, code, relu) }
}

fn fp4_from_singles<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let relu = spec.has("relu");
    let f = move |a| cvt_small_f32(Small::E2m1, a, relu);
    Ok(map2::<I, u8, u32, u32>(move |a, b| f(a) << 4 | f(b)))
}

fn fp4_from_halves<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let (relu, bf16) = (spec.has("relu"), spec.get("stype") == Some("bf16x2"));
    converted::<I, u8, u32>(spec, move |a| {
        let (upper, lower) = halves(a, |half| cvt_small_f32(Small::E2m1, single(bf16, half), relu));
        upper << 4 | lower
    })
}

fn halves_from_fp4<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let (relu, bf16) = (spec.has("relu"), spec.has("bf16x2"));
    converted::<I, u32, u8>(spec, move |a: u8| {
        words(widened(Small::E2m1, a >> 4, bf16, relu), widened(Small::E2m1, a & 15, bf16, relu))
    })
}

fn eight(spec: &Spec<'_>) -> Fp8 {
    if spec.get("f8x2type") == Some("e4m3x2") { Fp8::E4m3 } else { Fp8::E5m2 }
}

fn fp8_from_bf16<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let (format, relu) = (eight(spec), spec.has("relu"));
    converted::<I, u16, u32>(spec, move |a| {
        let (upper, lower) = halves(a, |half| cvt_fp8_f32(format, cvt_f32_bf16(half), relu));
        bytes(upper, lower)
    })
}

fn bf16_from_fp8<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let (format, relu) = (eight(spec), spec.has("relu"));
    converted::<I, u32, u16>(spec, move |a: u16| {
        let [lower, upper] = a.to_le_bytes().map(|code| {
            // bf16 holds all values of both formats.
            let wide = cvt_bf16_f32(cvt_f32_fp8(format, code), Rounding::Rn, false);
            if relu { half::relu(wide) } else { wide }
        });
        words(upper, lower)
    })
}

fn scales_from_singles<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let (up, satfinite) = (spec.get("frnd3") == Some("rp"), spec.has("satfinite"));
    let f = move |a| cvt_ue8m0_f32(a, up, satfinite);
    Ok(map2::<I, u16, u32, u32>(move |a, b| bytes(f(a), f(b))))
}

fn scales_from_bf16<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let (up, satfinite) = (spec.get("frnd3") == Some("rp"), spec.has("satfinite"));
    converted::<I, u16, u32>(spec, move |a| {
        let (upper, lower) = halves(a, |half| cvt_ue8m0_f32(cvt_f32_bf16(half), up, satfinite));
        bytes(upper, lower)
    })
}

fn bf16_from_scales<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    converted::<I, u32, u16>(spec, |a: u16| {
        let [lower, upper] = a.to_le_bytes().map(cvt_bf16_ue8m0);
        words(upper, lower)
    })
}
