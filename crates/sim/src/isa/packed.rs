//! Arithmetic of sm_100 and later on two f32 in a register of 64 bits, and on f32 with sources of 16 bits.
#![expect(clippy::unnecessary_wraps, reason = "all binders share one signature, and most can fail")]
#![expect(clippy::inline_always, reason = "only code inlined into a routine is compiled for its vector unit")]

pub(super) mod integers;

use super::float::rounding;
use super::map::{map2, map3};
use super::{Bound, Definition, Refusal, Spec, Unit};
use crate::bind;
use crate::simd::{Portable, Simd};
use warpproof_num::Rounding;
use warpproof_num::convert::{cvt_f32_bf16, cvt_f32_f16};
use warpproof_num::float::{add_f32, fma_f32, mul_f32, sat_f32, sub_f32};

macro_rules! op {
    ($form:literal, $section:literal, $bind:ident) => {
        Definition {
            form: $form,
            manual: concat!("floating-point-instructions-", $section),
            unit: Unit::Fma,
            since: (8, 6, 100),
            bind: bind!($bind),
        }
    };
}

pub(super) const DEFINITIONS: &[Definition] = &[
    op!("add{.rnd}{.ftz}.f32x2 d, a, b; .rnd = .rn .rz .rm .rp", "add", add_pair),
    op!("sub{.rnd}{.ftz}.f32x2 d, a, b; .rnd = .rn .rz .rm .rp", "sub", sub_pair),
    op!("mul{.rnd}{.ftz}.f32x2 d, a, b; .rnd = .rn .rz .rm .rp", "mul", mul_pair),
    op!("fma.rnd{.ftz}.f32x2 d, a, b, c; .rnd = .rn .rz .rm .rp", "fma", fma_pair),
    op!(
        "add{.rnd}{.sat}.f32.atype d, a, c; .rnd = .rn .rz .rm .rp; .atype = .f16 .bf16",
        "mixed-precision-add",
        add_mixed
    ),
    op!(
        "sub{.rnd}{.sat}.f32.atype d, a, c; .rnd = .rn .rz .rm .rp; .atype = .f16 .bf16",
        "mixed-precision-sub",
        sub_mixed
    ),
    op!(
        "fma.rnd{.sat}.f32.abtype d, a, b, c; .rnd = .rn .rz .rm .rp; .abtype = .f16 .bf16",
        "mixed-precision-fma",
        fma_mixed
    ),
];

#[inline(always)]
#[expect(clippy::as_conversions, clippy::cast_possible_truncation, reason = "one half of a register")]
fn half(word: u64, upper: bool) -> u32 {
    (if upper { word >> 32 } else { word }) as u32
}

#[inline(always)]
fn join(upper: u32, lower: u32) -> u64 {
    u64::from(upper) << 32 | u64::from(lower)
}

/// An operation on both halves. The common rounding has its own routine, which vectorizes.
macro_rules! pair {
    ($name:ident = $f:ident, $map:ident($($x:ident),+ => $($t:ident),+)) => {
        fn $name<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
            let ftz = spec.has("ftz");
            Ok(match rounding(spec, "rnd") {
                Rounding::Rn => $map::<I, u64, $($t),+>(move |$($x),+| {
                    join(
                        $f($(half($x, true)),+, Rounding::Rn, ftz),
                        $f($(half($x, false)),+, Rounding::Rn, ftz),
                    )
                }),
                rnd => $map::<Portable, u64, $($t),+>(move |$($x),+| {
                    join($f($(half($x, true)),+, rnd, ftz), $f($(half($x, false)),+, rnd, ftz))
                }),
            })
        }
    };
}

pair!(add_pair = add_f32, map2(a, b => u64, u64));
pair!(sub_pair = sub_f32, map2(a, b => u64, u64));
pair!(mul_pair = mul_f32, map2(a, b => u64, u64));
pair!(fma_pair = fma_f32, map3(a, b, c => u64, u64, u64));

/// The f32 value of a source of 16 bits, by the name of its type.
fn wide(name: Option<&str>) -> fn(u16) -> u32 {
    if name == Some("bf16") { cvt_f32_bf16 } else { cvt_f32_f16 }
}

/// The result, limited to 0 to 1 if the instruction has `.sat`.
fn limited(sat: bool, d: u32) -> u32 {
    if sat { sat_f32(d) } else { d }
}

fn add_mixed<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let (rnd, sat, wide) = (rounding(spec, "rnd"), spec.has("sat"), wide(spec.get("atype")));
    Ok(map2::<I, u32, u16, u32>(move |a, c| limited(sat, add_f32(wide(a), c, rnd, false))))
}

fn sub_mixed<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let (rnd, sat, wide) = (rounding(spec, "rnd"), spec.has("sat"), wide(spec.get("atype")));
    Ok(map2::<I, u32, u16, u32>(move |a, c| limited(sat, sub_f32(wide(a), c, rnd, false))))
}

fn fma_mixed<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let (rnd, sat, wide) = (rounding(spec, "rnd"), spec.has("sat"), wide(spec.get("abtype")));
    Ok(map3::<I, u32, u16, u16, u32>(move |a, b, c| limited(sat, fma_f32(wide(a), wide(b), c, rnd, false))))
}
