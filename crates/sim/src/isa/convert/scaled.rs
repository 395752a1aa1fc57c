//! Conversions of sm_100 and later to bf16: with factors of type ue8m0, from s2f6, and with random bits.
#![expect(clippy::inline_always, reason = "only code inlined into a routine is compiled for its vector unit")]

use super::registers::{converted, truncate16};
use crate::bind;
use crate::isa::map::{map2, map3};
use crate::isa::{Bound, Definition, Refusal, Spec, Unit};
use crate::simd::Simd;
use warpproof_num::fp8::{Fp8, cvt_f32_fp8};
use warpproof_num::small::{Small, cvt_bf16_f32_rs, cvt_f32_small, scaled_bf16};

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
        "cvt.rn{.satfinite}{.relu}{.scaled::n2::ue8m0}.bf16x2.stype d, a{, scale-factor}; .stype = .e4m3x2 .e5m2x2 .e3m2x2 .e2m3x2",
        (9, 2, 100),
        scaled
    ),
    op!(
        "cvt.rn{.satfinite}{.relu}{.scaled::n2::ue8m0}.bf16x2.e2m1x2 d, a{, scale-factor}",
        (9, 2, 100),
        scaled_fp4
    ),
    op!(
        "cvt.rn{.satfinite}{.relu}{.scaled::n2::ue8m0}.bf16x2.stype d, a{, scale-factor}; .stype = .s2f6x2",
        (9, 1, 100),
        scaled
    ),
    op!("cvt.rs{.relu}{.satfinite}.bf16x2.f32 d, a, b, rbits", (8, 7, 100), random),
];

/// The code of 1.
const ONE: u16 = 0x7f7f;

/// A format of a byte or less.
#[derive(Clone, Copy)]
enum Format {
    Eight(Fp8),
    Small(Small),
    Fixed,
}

impl Format {
    #[inline(always)]
    fn value(self, code: u8) -> f32 {
        match self {
            Format::Eight(format) => f32::from_bits(cvt_f32_fp8(format, code)),
            Format::Small(format) => f32::from_bits(cvt_f32_small(format, code)),
            Format::Fixed => f32::from(code.cast_signed()) / 64.0,
        }
    }
}

/// Both elements, whose codes and scales are the bytes of a pair.
#[inline(always)]
fn pair(spec: &Spec<'_>, format: Format) -> impl Fn(u16, u16) -> u32 + Copy + Send + Sync + 'static {
    let (satfinite, relu) = (spec.has("satfinite"), spec.has("relu"));
    move |codes, scales| {
        let ([low, high], [low_scale, high_scale]) = (codes.to_le_bytes(), scales.to_le_bytes());
        let upper = scaled_bf16(format.value(high), high_scale, satfinite, relu);
        u32::from(upper) << 16 | u32::from(scaled_bf16(format.value(low), low_scale, satfinite, relu))
    }
}

fn scaled<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let f = pair(
        spec,
        match spec.get("stype") {
            Some("e4m3x2") => Format::Eight(Fp8::E4m3),
            Some("e5m2x2") => Format::Eight(Fp8::E5m2),
            Some("e3m2x2") => Format::Small(Small::E3m2),
            Some("e2m3x2") => Format::Small(Small::E2m3),
            _ => Format::Fixed,
        },
    );
    if spec.has("scaled::n2::ue8m0") {
        return Ok(map2::<I, u32, u16, u16>(f));
    }
    converted::<I, u32, u16>(spec, move |codes| f(codes, ONE))
}

fn scaled_fp4<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let f = pair(spec, Format::Small(Small::E2m1));
    let f = move |codes: u8, scales: u16| f(u16::from_le_bytes([codes & 15, codes >> 4]), scales);
    if spec.has("scaled::n2::ue8m0") {
        return Ok(map2::<I, u32, u8, u16>(f));
    }
    converted::<I, u32, u8>(spec, move |codes| f(codes, ONE))
}

#[expect(clippy::unnecessary_wraps, reason = "all binders share one signature, and most can fail")]
fn random<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let (satfinite, relu) = (spec.has("satfinite"), spec.has("relu"));
    Ok(map3::<I, u32, u32, u32, u32>(move |a, b, bits| {
        let upper = cvt_bf16_f32_rs(a, truncate16(bits >> 16), satfinite, relu);
        u32::from(upper) << 16 | u32::from(cvt_bf16_f32_rs(b, truncate16(bits), satfinite, relu))
    }))
}
