//! Conversions that fill a register with several values: the first operand goes to the upper part.
#![expect(clippy::unnecessary_wraps, reason = "all binders share one signature, and most can fail")]
#![expect(clippy::inline_always, reason = "only code inlined into a routine is compiled for its vector unit")]

use super::Narrowing;
use super::registers::{converted, truncate16};
use crate::isa::map::{map2, map3, merge};
use crate::isa::{Bound, Refusal, Slot, Spec};
use crate::machine::{Flow, LANES, Row, Type, Width, at};
use crate::simd::Simd;
use warpproof_num::fp8::{self, Fp8};
use warpproof_num::{Rounding, convert};

#[inline(always)]
fn pack16(upper: u16, lower: u16) -> u32 {
    u32::from(upper) << 16 | u32::from(lower)
}

/// `f` of both operands, packed. `f` is called in one loop over all 64 values, so that it is inlined and vectorized.
fn packed<I: Simd>(f: impl Fn(u32) -> u16 + Copy + Send + Sync + 'static) -> Bound {
    let slots = [Slot::Dst(Width::W32), Slot::Src(Type::F32), Slot::Src(Type::F32)];
    Bound::new(slots, move |w, args| {
        I::vectorize(|| {
            let regs = &mut w.state.regs.w32;
            let mut wide = [0u32; 2 * LANES];
            wide[..LANES].copy_from_slice(&regs[at(args.o[1])].0);
            wide[LANES..].copy_from_slice(&regs[at(args.o[2])].0);
            let mut narrow = [0u16; 2 * LANES];
            for (narrow, wide) in narrow.iter_mut().zip(wide) {
                *narrow = f(wide);
            }
            let mut d = Row([0u32; LANES]);
            for lane in 0..LANES {
                d.0[lane] = pack16(narrow[lane], narrow[lane + LANES]);
            }
            merge(&mut regs[at(args.o[0])], &d, w.exec);
        });
        Flow::Next
    })
}

pub(super) fn pack_halves<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let narrowing = Narrowing::of(spec);
    Ok(match (spec.ty("dtype")?, narrowing.is_plain()) {
        (Type::BF16x2, true) => packed::<I>(|a| convert::cvt_bf16_f32(a, Rounding::Rn, false)),
        (Type::BF16x2, false) => packed::<I>(move |a| narrowing.bf16(a)),
        (_, true) => packed::<I>(|a| convert::cvt_f16_f32(a, Rounding::Rn, false)),
        (_, false) => packed::<I>(move |a| narrowing.f16(a)),
    })
}

fn fp8_format(spec: &Spec<'_>) -> Fp8 {
    if spec.get("f8x2type") == Some("e4m3x2") { Fp8::E4m3 } else { Fp8::E5m2 }
}

pub(super) fn pack_fp8<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let relu = spec.has("relu");
    let pack = |upper: u8, lower: u8| u16::from_le_bytes([lower, upper]);
    Ok(match fp8_format(spec) {
        Fp8::E4m3 => map2::<I, u16, u32, u32>(move |a, b| {
            pack(fp8::cvt_fp8_f32(Fp8::E4m3, a, relu), fp8::cvt_fp8_f32(Fp8::E4m3, b, relu))
        }),
        Fp8::E5m2 => map2::<I, u16, u32, u32>(move |a, b| {
            pack(fp8::cvt_fp8_f32(Fp8::E5m2, a, relu), fp8::cvt_fp8_f32(Fp8::E5m2, b, relu))
        }),
    })
}

pub(super) fn fp8_from_halves<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let (format, relu) = (fp8_format(spec), spec.has("relu"));
    converted::<I, u16, u32>(spec, move |a| {
        let (upper, lower) = (truncate16(a >> 16), truncate16(a));
        u16::from_le_bytes([fp8::cvt_fp8_f16(format, lower, relu), fp8::cvt_fp8_f16(format, upper, relu)])
    })
}

pub(super) fn halves_from_fp8<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let relu = spec.has("relu");
    let widen = move |format, a: u16| {
        let [lower, upper] = a.to_le_bytes();
        pack16(fp8::cvt_f16_fp8(format, upper, relu), fp8::cvt_f16_fp8(format, lower, relu))
    };
    match fp8_format(spec) {
        Fp8::E4m3 => converted::<I, u32, u16>(spec, move |a| widen(Fp8::E4m3, a)),
        Fp8::E5m2 => converted::<I, u32, u16>(spec, move |a| widen(Fp8::E5m2, a)),
    }
}

pub(super) fn pack_integers<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let ty = spec.get("convertType").unwrap_or("");
    let signed = ty.starts_with('s');
    let bits = match ty {
        "u2" | "s2" => 2,
        "u4" | "s4" => 4,
        "u8" | "s8" => 8,
        _ => 16,
    };
    Ok(if bits == 16 {
        map2::<I, u32, i32, i32>(move |a, b| convert::cvt_pack(a, b, 0, 16, signed))
    } else {
        map3::<I, u32, i32, i32, u32>(move |a, b, c| convert::cvt_pack(a, b, c, bits, signed))
    })
}
