//! f16 and bf16 arithmetic, one rounding per operation.
//!
//! Sums and products of two numbers are computed in f32 or f64, where they are exact or wide enough for a second rounding
//! to be harmless. Fused multiply-add rounds its f64 sum to odd, so that the final rounding equals a rounding of the exact
//! value.

use super::compare::{Cmp, Extremum, extremum_bf16, extremum_f16};
use super::convert::{cvt_bf16_f64, cvt_f16_f32, cvt_f16_f64, cvt_f32_bf16, cvt_f32_f16};
use super::round::Rounding;

/// The NaN that f16 and bf16 instructions produce.
pub const NAN_F16: u16 = 0x7fff;

/// Replaces a subnormal f16 by a zero of the same sign.
#[inline(always)]
pub fn flush_f16(a: u16) -> u16 {
    if a & 0x7c00 == 0 { a & 0x8000 } else { a }
}

/// Replaces a subnormal bf16 by a zero of the same sign.
#[inline(always)]
pub fn flush_bf16(a: u16) -> u16 {
    if a & 0x7f80 == 0 { a & 0x8000 } else { a }
}

#[inline(always)]
fn flush_f16_if(ftz: bool, a: u16) -> u16 {
    if ftz { flush_f16(a) } else { a }
}

/// Whether the f16 code is a NaN.
#[inline(always)]
pub fn is_nan_f16(a: u16) -> bool {
    a & 0x7fff > 0x7c00
}

/// Whether the bf16 code is a NaN.
#[inline(always)]
pub fn is_nan_bf16(a: u16) -> bool {
    a & 0x7fff > 0x7f80
}

/// `.sat` on f16: clamps to [0, 1]; NaN and −0 become +0.
#[inline(always)]
pub fn sat_f16(a: u16) -> u16 {
    let positive = if (a & 0x8000 != 0) | is_nan_f16(a) { 0 } else { a };
    positive.min(0x3c00)
}

/// `.sat` on bf16: clamps to [0, 1]; NaN and −0 become +0.
#[inline(always)]
pub fn sat_bf16(a: u16) -> u16 {
    let positive = if (a & 0x8000 != 0) | is_nan_bf16(a) { 0 } else { a };
    positive.min(0x3f80)
}

/// `.relu` on an f16 or bf16 result: negative numbers become +0. NaN, which every result here has in its canonical,
/// positive form, is kept.
#[inline(always)]
pub fn relu(a: u16) -> u16 {
    if a & 0x8000 != 0 { 0 } else { a }
}

#[inline(always)]
fn f16(a: u16) -> f32 {
    f32::from_bits(cvt_f32_f16(a))
}

#[inline(always)]
fn bf16(a: u16) -> f32 {
    f32::from_bits(cvt_f32_bf16(a))
}

/// a·b + c in f64, rounded to odd: the product of two 11-bit significands is exact, and a sum that is not exact has its
/// lowest bit set, so no later rounding to fewer bits can mistake it for a tie.
#[inline(always)]
fn fma_odd(a: f32, b: f32, c: f32) -> f64 {
    let product = f64::from(a) * f64::from(b);
    let c = f64::from(c);
    let sum = product + c;
    let back = sum - product;
    let error = (product - (sum - back)) + (c - back);
    let bits = sum.to_bits();
    let inexact = (error != 0.0) & sum.is_finite() & !error.is_nan();
    let toward_zero = (error < 0.0) != (sum < 0.0);
    let odd = if bits & 1 == 1 {
        bits
    } else if toward_zero {
        bits.wrapping_sub(1)
    } else {
        bits | 1
    };
    f64::from_bits(if inexact { odd } else { bits })
}

/// `add.f16`
#[inline(always)]
pub fn add_f16(a: u16, b: u16, ftz: bool) -> u16 {
    let sum = f16(flush_f16_if(ftz, a)) + f16(flush_f16_if(ftz, b));
    flush_f16_if(ftz, cvt_f16_f32(sum.to_bits(), Rounding::Rn, false))
}

/// `sub.f16`
#[inline(always)]
pub fn sub_f16(a: u16, b: u16, ftz: bool) -> u16 {
    add_f16(a, b ^ 0x8000, ftz)
}

/// `mul.f16`
#[inline(always)]
pub fn mul_f16(a: u16, b: u16, ftz: bool) -> u16 {
    let product = f16(flush_f16_if(ftz, a)) * f16(flush_f16_if(ftz, b));
    flush_f16_if(ftz, cvt_f16_f32(product.to_bits(), Rounding::Rn, false))
}

/// `fma.f16`
#[inline(always)]
pub fn fma_f16(a: u16, b: u16, c: u16, ftz: bool) -> u16 {
    let sum = fma_odd(f16(flush_f16_if(ftz, a)), f16(flush_f16_if(ftz, b)), f16(flush_f16_if(ftz, c)));
    flush_f16_if(ftz, cvt_f16_f64(sum.to_bits(), Rounding::Rn))
}

/// `add.bf16` (sm_90 and later; for earlier targets compilers emit `fma.bf16` with a factor of one)
#[inline(always)]
pub fn add_bf16(a: u16, b: u16) -> u16 {
    fma_bf16(a, 0x3f80, b)
}

/// `sub.bf16`
#[inline(always)]
pub fn sub_bf16(a: u16, b: u16) -> u16 {
    fma_bf16(b, 0xbf80, a)
}

/// `mul.bf16`
#[inline(always)]
pub fn mul_bf16(a: u16, b: u16) -> u16 {
    let product = f64::from(bf16(a)) * f64::from(bf16(b));
    cvt_bf16_f64(product.to_bits(), Rounding::Rn)
}

/// `fma.bf16`
#[inline(always)]
pub fn fma_bf16(a: u16, b: u16, c: u16) -> u16 {
    cvt_bf16_f64(fma_odd(bf16(a), bf16(b), bf16(c)).to_bits(), Rounding::Rn)
}

/// `min.f16` and `max.f16`, with `.NaN`, `.xorsign.abs` and `.ftz`.
#[inline(always)]
pub fn minmax_f16(which: Extremum, a: u16, b: u16, nan: bool, xorsign_abs: bool, ftz: bool) -> u16 {
    extremum_f16(which, flush_f16_if(ftz, a), flush_f16_if(ftz, b), nan, xorsign_abs)
}

/// `min.bf16` and `max.bf16`, with `.NaN` and `.xorsign.abs`.
#[inline(always)]
pub fn minmax_bf16(which: Extremum, a: u16, b: u16, nan: bool, xorsign_abs: bool) -> u16 {
    extremum_bf16(which, a, b, nan, xorsign_abs)
}

/// `neg.f16`: NaN gives the canonical NaN.
#[inline(always)]
pub fn neg_f16(a: u16, ftz: bool) -> u16 {
    let a = flush_f16_if(ftz, a);
    if is_nan_f16(a) { NAN_F16 } else { a ^ 0x8000 }
}

/// `neg.bf16`: NaN gives the canonical NaN.
#[inline(always)]
pub fn neg_bf16(a: u16) -> u16 {
    if is_nan_bf16(a) { NAN_F16 } else { a ^ 0x8000 }
}

/// `abs.f16`: NaN gives the canonical NaN.
#[inline(always)]
pub fn abs_f16(a: u16, ftz: bool) -> u16 {
    let a = flush_f16_if(ftz, a);
    if is_nan_f16(a) { NAN_F16 } else { a & 0x7fff }
}

/// `abs.bf16`: NaN gives the canonical NaN.
#[inline(always)]
pub fn abs_bf16(a: u16) -> u16 {
    if is_nan_bf16(a) { NAN_F16 } else { a & 0x7fff }
}

/// `setp.op.f16` and `set.op…f16`
#[inline(always)]
pub fn cmp_f16(op: Cmp, a: u16, b: u16, ftz: bool) -> bool {
    let (a, b) = (flush_f16_if(ftz, a), flush_f16_if(ftz, b));
    super::compare::cmp_f32(op, cvt_f32_f16(a), cvt_f32_f16(b), false)
}

/// `setp.op.bf16` and `set.op…bf16`
#[inline(always)]
pub fn cmp_bf16(op: Cmp, a: u16, b: u16) -> bool {
    super::compare::cmp_f32(op, cvt_f32_bf16(a), cvt_f32_bf16(b), false)
}
