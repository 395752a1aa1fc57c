//! Integer arithmetic of sm_120 and later on the four bytes of a register, and its saturating additions.
#![expect(clippy::unnecessary_wraps, reason = "all binders share one signature, and most can fail")]
#![expect(clippy::inline_always, reason = "only code inlined into a routine is compiled for its vector unit")]

use crate::bind;
use crate::isa::map::{map1, map2};
use crate::isa::{Bound, Definition, Refusal, Spec, Unit};
use crate::simd::Simd;

macro_rules! op {
    ($form:literal, $section:literal, $bind:ident) => {
        Definition {
            form: $form,
            manual: concat!("integer-arithmetic-instructions-", $section),
            unit: Unit::Alu,
            since: (9, 2, 120),
            bind: bind!($bind),
        }
    };
}

pub(in crate::isa) const DEFINITIONS: &[Definition] = &[
    op!("add{.sat}.type d, a, b; .type = .u8x4 .s8x4", "add", add),
    op!("add.sat.type d, a, b; .type = .u16x2 .s16x2 .u32", "add", add_saturating),
    op!("sub{.sat}.type d, a, b; .type = .u8x4 .s8x4", "sub", sub),
    op!("neg.s8x4 d, a", "neg", neg),
    op!("min.u8x4 d, a, b", "min", min_unsigned),
    op!("min{.relu}.s8x4 d, a, b", "min", min_signed),
    op!("max.u8x4 d, a, b", "max", max_unsigned),
    op!("max{.relu}.s8x4 d, a, b", "max", max_signed),
];

/// `d = f(a, b)` on each byte.
#[inline(always)]
fn bytes(a: u32, b: u32, f: impl Fn(u8, u8) -> u8) -> u32 {
    let ([a0, a1, a2, a3], [b0, b1, b2, b3]) = (a.to_le_bytes(), b.to_le_bytes());
    u32::from_le_bytes([f(a0, b0), f(a1, b1), f(a2, b2), f(a3, b3)])
}

fn unsigned<I: Simd>(f: impl Fn(u8, u8) -> u8 + Copy + Send + Sync + 'static) -> Bound {
    map2::<I, u32, u32, u32>(move |a, b| bytes(a, b, f))
}

fn signed<I: Simd>(f: impl Fn(i8, i8) -> i8 + Copy + Send + Sync + 'static) -> Bound {
    unsigned::<I>(move |a, b| f(a.cast_signed(), b.cast_signed()).cast_unsigned())
}

/// `d = f(a, b)` on each half.
#[inline(always)]
#[expect(clippy::as_conversions, clippy::cast_possible_truncation, reason = "one half of a register")]
fn halves(a: u32, b: u32, f: impl Fn(u16, u16) -> u16) -> u32 {
    u32::from(f(a as u16, b as u16)) | u32::from(f((a >> 16) as u16, (b >> 16) as u16)) << 16
}

fn add<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    Ok(match (spec.has("sat"), spec.get("type")) {
        (false, _) => unsigned::<I>(u8::wrapping_add),
        (true, Some("u8x4")) => unsigned::<I>(u8::saturating_add),
        (true, _) => signed::<I>(i8::saturating_add),
    })
}

fn add_saturating<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    Ok(match spec.get("type") {
        Some("u32") => map2::<I, u32, u32, u32>(u32::saturating_add),
        Some("u16x2") => map2::<I, u32, u32, u32>(|a, b| halves(a, b, u16::saturating_add)),
        _ => map2::<I, u32, u32, u32>(|a, b| {
            halves(a, b, |a, b| a.cast_signed().saturating_add(b.cast_signed()).cast_unsigned())
        }),
    })
}

fn sub<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    Ok(match (spec.has("sat"), spec.get("type")) {
        (false, _) => unsigned::<I>(u8::wrapping_sub),
        (true, Some("u8x4")) => unsigned::<I>(u8::saturating_sub),
        (true, _) => signed::<I>(i8::saturating_sub),
    })
}

fn neg<I: Simd>(_: &Spec<'_>) -> Result<Bound, Refusal> {
    Ok(map1::<I, u32, u32>(|a| bytes(0, a, u8::wrapping_sub)))
}

fn min_unsigned<I: Simd>(_: &Spec<'_>) -> Result<Bound, Refusal> {
    Ok(unsigned::<I>(Ord::min))
}

fn min_signed<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    Ok(if spec.has("relu") { signed::<I>(|a, b| a.min(b).max(0)) } else { signed::<I>(Ord::min) })
}

fn max_unsigned<I: Simd>(_: &Spec<'_>) -> Result<Bound, Refusal> {
    Ok(unsigned::<I>(Ord::max))
}

fn max_signed<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    Ok(if spec.has("relu") { signed::<I>(|a, b| a.max(b).max(0)) } else { signed::<I>(Ord::max) })
}
