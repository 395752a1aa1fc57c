//! `cvt` among integers and floating-point numbers.
//!
//! Conversion to an integer clamps. NaN becomes 0 if neither side is 64 bits wide (an f64 source or a 64-bit destination);
//! otherwise it becomes the value with only the destination's topmost bit set, as newer editions of the manual specify.

use super::float::{NAN_F32, flush_f32_if, is_nan_f32, is_nan_f64};
use super::half::{NAN_F16, is_nan_bf16, is_nan_f16};
use super::round::{
    BF16, F16, F32, F64, Format, IntRounding, Rounding, narrow_f32, narrow_f64, pack, widen_f32,
};

// ---- float to float ----

/// `cvt.f32.f16`: exact; NaN gives the canonical f32 NaN.
#[inline(always)]
pub fn cvt_f32_f16(a: u16) -> u32 {
    let a = u32::from(a);
    let number = widen_f32((a & 0x7fff) << 13, 15) | ((a & 0x8000) << 16);
    let infinite = 0x7f80_0000 | ((a & 0x8000) << 16);
    let code = if a & 0x7fff == 0x7c00 { infinite } else { number };
    if a & 0x7fff > 0x7c00 { NAN_F32 } else { code }
}

/// `cvt.f32.bf16`: a shift, also for NaNs, which is how the compiler implements it.
#[inline(always)]
pub fn cvt_f32_bf16(a: u16) -> u32 {
    u32::from(a) << 16
}

/// `cvt.f64.f32`: exact; a NaN keeps its sign and payload and becomes quiet.
#[inline(always)]
pub fn cvt_f64_f32(a: u32, ftz: bool) -> u64 {
    let a = flush_f32_if(ftz, a);
    let nan = (u64::from(a >> 31) << 63) | 0x7ff8_0000_0000_0000 | (u64::from(a & 0x007f_ffff) << 29);
    if is_nan_f32(a) { nan } else { f64::from(f32::from_bits(a)).to_bits() }
}

/// `cvt.f64.f16`
#[inline(always)]
pub fn cvt_f64_f16(a: u16) -> u64 {
    cvt_f64_f32(cvt_f32_f16(a), false)
}

/// `cvt.f64.bf16`
#[inline(always)]
pub fn cvt_f64_bf16(a: u16) -> u64 {
    cvt_f64_f32(cvt_f32_bf16(a), false)
}

/// `cvt.rnd.f32.f64`
#[inline(always)]
pub fn cvt_f32_f64(a: u64, rounding: Rounding, ftz: bool) -> u32 {
    let code = if rounding == Rounding::Rn {
        (f64::from_bits(a) as f32).to_bits()
    } else {
        narrow_f64(F32, a, rounding) as u32
    };
    let code = flush_f32_if(ftz, code);
    if is_nan_f64(a) { NAN_F32 } else { code }
}

/// `cvt.f32.f32`, which only `.ftz` can change; NaN gives the canonical NaN.
#[inline(always)]
pub fn cvt_f32_f32(a: u32, ftz: bool) -> u32 {
    if is_nan_f32(a) { NAN_F32 } else { flush_f32_if(ftz, a) }
}

/// `cvt.rnd.f16.f32`
#[inline(always)]
pub fn cvt_f16_f32(a: u32, rounding: Rounding, ftz: bool) -> u16 {
    let a = flush_f32_if(ftz, a);
    let code = narrow_f32(F16, a, rounding) as u16;
    if is_nan_f32(a) { NAN_F16 } else { code }
}

/// `cvt.rnd.f16.f64`
#[inline(always)]
pub fn cvt_f16_f64(a: u64, rounding: Rounding) -> u16 {
    let code = narrow_f64(F16, a, rounding) as u16;
    if is_nan_f64(a) { NAN_F16 } else { code }
}

/// `cvt.rnd.bf16.f32`
#[inline(always)]
pub fn cvt_bf16_f32(a: u32, rounding: Rounding, ftz: bool) -> u16 {
    let a = flush_f32_if(ftz, a);
    let code = narrow_f32(BF16, a, rounding) as u16;
    if is_nan_f32(a) { NAN_F16 } else { code }
}

/// `cvt.rnd.bf16.f64`
#[inline(always)]
pub fn cvt_bf16_f64(a: u64, rounding: Rounding) -> u16 {
    let code = narrow_f64(BF16, a, rounding) as u16;
    if is_nan_f64(a) { NAN_F16 } else { code }
}

/// `cvt.rnd.f16.bf16`
#[inline(always)]
pub fn cvt_f16_bf16(a: u16, rounding: Rounding) -> u16 {
    cvt_f16_f32(cvt_f32_bf16(a), rounding, false)
}

/// `cvt.rnd.bf16.f16`
#[inline(always)]
pub fn cvt_bf16_f16(a: u16, rounding: Rounding) -> u16 {
    cvt_bf16_f32(cvt_f32_f16(a), rounding, false)
}

/// `.satfinite` on a conversion to f16: an infinite result becomes the largest finite value of its sign.
#[inline(always)]
pub fn satfinite_f16(a: u16) -> u16 {
    if a & 0x7fff == 0x7c00 { (a & 0x8000) | 0x7bff } else { a }
}

/// `.satfinite` on a conversion to bf16.
#[inline(always)]
pub fn satfinite_bf16(a: u16) -> u16 {
    if a & 0x7fff == 0x7f80 { (a & 0x8000) | 0x7f7f } else { a }
}

// ---- to an integral value, in the same format ----

#[inline(always)]
fn integral_f32(a: f32, rounding: IntRounding) -> f32 {
    match rounding {
        IntRounding::Rni => a.round_ties_even(),
        IntRounding::Rzi => a.trunc(),
        IntRounding::Rmi => a.floor(),
        IntRounding::Rpi => a.ceil(),
    }
}

#[inline(always)]
fn integral_f64(a: f64, rounding: IntRounding) -> f64 {
    match rounding {
        IntRounding::Rni => a.round_ties_even(),
        IntRounding::Rzi => a.trunc(),
        IntRounding::Rmi => a.floor(),
        IntRounding::Rpi => a.ceil(),
    }
}

/// `cvt.irnd.f32.f32`
#[inline(always)]
pub fn rint_f32(a: u32, rounding: IntRounding, ftz: bool) -> u32 {
    let a = flush_f32_if(ftz, a);
    let code = integral_f32(f32::from_bits(a), rounding).to_bits();
    if is_nan_f32(a) { NAN_F32 } else { code }
}

/// `cvt.irnd.f64.f64`; a NaN becomes quiet.
#[inline(always)]
pub fn rint_f64(a: u64, rounding: IntRounding) -> u64 {
    let code = integral_f64(f64::from_bits(a), rounding).to_bits();
    if is_nan_f64(a) { a | 0x0008_0000_0000_0000 } else { code }
}

/// `cvt.irnd.f16.f16`
#[inline(always)]
pub fn rint_f16(a: u16, rounding: IntRounding) -> u16 {
    let code = cvt_f16_f32(rint_f32(cvt_f32_f16(a), rounding, false), Rounding::Rn, false);
    if is_nan_f16(a) { NAN_F16 } else { code }
}

/// `cvt.irnd.bf16.bf16`
#[inline(always)]
pub fn rint_bf16(a: u16, rounding: IntRounding) -> u16 {
    let code = cvt_bf16_f32(rint_f32(cvt_f32_bf16(a), rounding, false), Rounding::Rn, false);
    if is_nan_bf16(a) { NAN_F16 } else { code }
}

// ---- float to integer ----

macro_rules! to_integer {
    ($($int:ty, $bits:ty: $f32:ident $f64:ident $f16:ident $bf16:ident $type:literal, wide $wide:literal;)*) => {$(
        #[doc = concat!("`cvt.irnd.", $type, ".f32`")]
        #[inline(always)]
        pub fn $f32(a: u32, rounding: IntRounding, ftz: bool) -> $bits {
            let a = flush_f32_if(ftz, a);
            // `as` clamps, and converts NaN to 0.
            let value = integral_f32(f32::from_bits(a), rounding) as $int as $bits;
            if $wide && is_nan_f32(a) { 1 << (<$bits>::BITS - 1) } else { value }
        }

        #[doc = concat!("`cvt.irnd.", $type, ".f64`")]
        #[inline(always)]
        pub fn $f64(a: u64, rounding: IntRounding) -> $bits {
            let value = integral_f64(f64::from_bits(a), rounding) as $int as $bits;
            if is_nan_f64(a) { 1 << (<$bits>::BITS - 1) } else { value }
        }

        #[doc = concat!("`cvt.irnd.", $type, ".f16`")]
        #[inline(always)]
        pub fn $f16(a: u16, rounding: IntRounding) -> $bits {
            $f32(cvt_f32_f16(a), rounding, false)
        }

        #[doc = concat!("`cvt.irnd.", $type, ".bf16`")]
        #[inline(always)]
        pub fn $bf16(a: u16, rounding: IntRounding) -> $bits {
            $f32(cvt_f32_bf16(a), rounding, false)
        }
    )*};
}

to_integer! {
    u8, u8: cvt_u8_f32 cvt_u8_f64 cvt_u8_f16 cvt_u8_bf16 "u8", wide false;
    i8, u8: cvt_s8_f32 cvt_s8_f64 cvt_s8_f16 cvt_s8_bf16 "s8", wide false;
    u16, u16: cvt_u16_f32 cvt_u16_f64 cvt_u16_f16 cvt_u16_bf16 "u16", wide false;
    i16, u16: cvt_s16_f32 cvt_s16_f64 cvt_s16_f16 cvt_s16_bf16 "s16", wide false;
    u32, u32: cvt_u32_f32 cvt_u32_f64 cvt_u32_f16 cvt_u32_bf16 "u32", wide false;
    i32, u32: cvt_s32_f32 cvt_s32_f64 cvt_s32_f16 cvt_s32_bf16 "s32", wide false;
    u64, u64: cvt_u64_f32 cvt_u64_f64 cvt_u64_f16 cvt_u64_bf16 "u64", wide true;
    i64, u64: cvt_s64_f32 cvt_s64_f64 cvt_s64_f16 cvt_s64_bf16 "s64", wide true;
}

// ---- integer to float ----

/// An integer given by its sign and magnitude, rounded to a format.
#[inline]
fn from_magnitude(format: Format, negative: bool, magnitude: u64, rounding: Rounding) -> u64 {
    // The integer zero is +0 in every rounding.
    if magnitude == 0 { 0 } else { pack(format, negative, 0, u128::from(magnitude), rounding) }
}

/// `cvt.rnd.f32.{u8,u16,u32,u64}`: the caller zero-extends.
#[inline(always)]
pub fn cvt_f32_u64(a: u64, rounding: Rounding) -> u32 {
    if rounding == Rounding::Rn {
        (a as f32).to_bits()
    } else {
        from_magnitude(F32, false, a, rounding) as u32
    }
}

/// `cvt.rnd.f32.{s8,s16,s32,s64}`: the caller sign-extends.
#[inline(always)]
pub fn cvt_f32_s64(a: i64, rounding: Rounding) -> u32 {
    if rounding == Rounding::Rn {
        (a as f32).to_bits()
    } else {
        from_magnitude(F32, a < 0, a.unsigned_abs(), rounding) as u32
    }
}

/// `cvt.rnd.f32.u32`: [`cvt_f32_u64`] in the width that vectorizes.
#[inline(always)]
pub fn cvt_f32_u32(a: u32, rounding: Rounding) -> u32 {
    if rounding == Rounding::Rn { (a as f32).to_bits() } else { cvt_f32_u64(u64::from(a), rounding) }
}

/// `cvt.rnd.f32.s32`: [`cvt_f32_s64`] in the width that vectorizes.
#[inline(always)]
pub fn cvt_f32_s32(a: i32, rounding: Rounding) -> u32 {
    if rounding == Rounding::Rn { (a as f32).to_bits() } else { cvt_f32_s64(i64::from(a), rounding) }
}

/// `cvt.rnd.f64.{u8,u16,u32,u64}`: the caller zero-extends.
#[inline(always)]
pub fn cvt_f64_u64(a: u64, rounding: Rounding) -> u64 {
    if rounding == Rounding::Rn { (a as f64).to_bits() } else { from_magnitude(F64, false, a, rounding) }
}

/// `cvt.rnd.f64.{s8,s16,s32,s64}`: the caller sign-extends.
#[inline(always)]
pub fn cvt_f64_s64(a: i64, rounding: Rounding) -> u64 {
    if rounding == Rounding::Rn {
        (a as f64).to_bits()
    } else {
        from_magnitude(F64, a < 0, a.unsigned_abs(), rounding)
    }
}

/// `cvt.rnd.f16.{u8,u16,u32,u64}`: the caller zero-extends.
pub fn cvt_f16_u64(a: u64, rounding: Rounding) -> u16 {
    from_magnitude(F16, false, a, rounding) as u16
}

/// `cvt.rnd.f16.{s8,s16,s32,s64}`: the caller sign-extends.
pub fn cvt_f16_s64(a: i64, rounding: Rounding) -> u16 {
    from_magnitude(F16, a < 0, a.unsigned_abs(), rounding) as u16
}

/// `cvt.rnd.bf16.{u8,u16,u32,u64}`: the caller zero-extends.
pub fn cvt_bf16_u64(a: u64, rounding: Rounding) -> u16 {
    from_magnitude(BF16, false, a, rounding) as u16
}

/// `cvt.rnd.bf16.{s8,s16,s32,s64}`: the caller sign-extends.
pub fn cvt_bf16_s64(a: i64, rounding: Rounding) -> u16 {
    from_magnitude(BF16, a < 0, a.unsigned_abs(), rounding) as u16
}

// ---- integer to integer ----

/// `cvt.sat` between integers: clamps a value, given sign- or zero-extended, to an integer type of `bits` bits.
#[inline(always)]
pub fn saturate_integer(a: i128, bits: u32, signed: bool) -> u64 {
    let bits = bits.clamp(1, 64);
    let (low, high) =
        if signed { (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1) } else { (0, (1i128 << bits) - 1) };
    a.clamp(low, high) as u64
}

/// `cvt.pack.sat`: both inputs clamped to a type of `bits` bits and packed, `a` above `b`; the bits above come from the low
/// bits of `c`.
#[inline(always)]
pub fn cvt_pack(a: i32, b: i32, c: u32, bits: u32, signed: bool) -> u32 {
    let bits = bits.clamp(1, 16);
    let mask = (1u64 << bits) - 1;
    let a = saturate_integer(i128::from(a), bits, signed) & mask;
    let b = saturate_integer(i128::from(b), bits, signed) & mask;
    (b | a << bits | u64::from(c) << (2 * bits)) as u32
}
