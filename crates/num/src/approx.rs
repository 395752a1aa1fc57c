//! The approximate instructions, modeled on the manual's specification and not on hardware.
//!
//! Hardware returns *some* value within the bound in the manual. These functions return one chosen value within it, in most
//! cases the correctly rounded one, and always the same on every host: they use only additions, multiplications, divisions
//! and square roots of the host, which IEEE 754 defines to the bit. Corner cases follow the manual's tables. Without
//! `.ftz`, subnormal inputs and results are supported.
//!
//! | instruction | the manual's bound | here |
//! |---|---|---|
//! | `rcp.approx.f32` | 1 ulp | correctly rounded |
//! | `sqrt.approx.f32` | relative 2^-23 | correctly rounded |
//! | `rsqrt.approx.f32` | relative 2^-22.9 | f64, then rounded |
//! | `div.approx.f32` | 2 ulp for 2^-126 ≤ ∣b∣ ≤ 2^126; beyond: 0, or NaN for an infinite a | a times the rounded reciprocal |
//! | `div.full.f32` | 2 ulp | correctly rounded |
//! | `ex2.approx.f32` | 2 ulp | f32 polynomial, below 1.2 ulp |
//! | `lg2.approx.f32` | 2^-22 absolute in (0.5, 2), relative elsewhere | f64, then rounded |
//! | `sin`, `cos.approx.f32` | absolute 2^-20.5 in ±2π, 2^-14.7 in ±100π | f64, then rounded |
//! | `tanh.approx.f32` | relative 2^-11 | f64, then rounded |
//! | `ex2.approx.f16`, `.bf16` | relative 2^-9.9, 2^-7 | f64, then rounded |
//! | `tanh.approx.f16`, `.bf16` | absolute 2^-10.987, 2^-8 | f64, then rounded |
//! | `rcp`, `rsqrt.approx.ftz.f64` | "gross": 20 fraction bits | f64, then rounded to 20 bits |
//! | `rsqrt.approx.f64` | none stated | f64, two roundings |

use super::convert::{cvt_bf16_f64, cvt_f16_f64, cvt_f32_bf16, cvt_f32_f16};
use super::float::{NAN_F32, canonical_f32, flush_f32_if, is_nan_f32, is_nan_f64};
use super::half::{NAN_F16, flush_bf16, flush_f16, is_nan_bf16, is_nan_f16};
use super::round::Rounding;

/// The NaN of `rcp.approx.ftz.f64` and `rsqrt.approx.ftz.f64`.
pub const NAN_F64_HIGH: u64 = 0x7fff_ffff_0000_0000;

// ---- f64 kernels ----

/// 2^x for −1100 < x < 1024, to about 2^-50: 2^n times a Taylor polynomial of degree 12.
#[inline(always)]
fn exp2_f64(x: f64) -> f64 {
    // Adding 1.5·2^52 leaves the nearest integer in the low bits.
    const MAGIC: f64 = 6_755_399_441_055_744.0;
    let shifted = x + MAGIC;
    let n = shifted.to_bits().wrapping_sub(MAGIC.to_bits()) as i64;
    let t = (x - (shifted - MAGIC)) * std::f64::consts::LN_2;
    let mut p = 1.0 / 479_001_600.0;
    p = p * t + 1.0 / 39_916_800.0;
    p = p * t + 1.0 / 3_628_800.0;
    p = p * t + 1.0 / 362_880.0;
    p = p * t + 1.0 / 40_320.0;
    p = p * t + 1.0 / 5_040.0;
    p = p * t + 1.0 / 720.0;
    p = p * t + 1.0 / 120.0;
    p = p * t + 1.0 / 24.0;
    p = p * t + 1.0 / 6.0;
    p = p * t + 0.5;
    p = p * t + 1.0;
    p = p * t + 1.0;
    // Two factors, each a normal number.
    let half = n >> 1;
    let power = |e: i64| f64::from_bits(((e + 1023) as u64) << 52);
    p * power(half) * power(n - half)
}

/// The hyperbolic tangent of a finite number, to about 2^-40 relative.
#[inline(always)]
fn tanh_f64(x: f64) -> f64 {
    let magnitude = x.abs().min(40.0);
    let e = exp2_f64(magnitude * (2.0 * std::f64::consts::LOG2_E));
    let large = (e - 1.0) / (e + 1.0);
    // Near zero e − 1 would cancel; x − x³/3 + 2x⁵/15 is as good there.
    let square = magnitude * magnitude;
    let small = magnitude * (1.0 - square * (1.0 / 3.0 - square * (2.0 / 15.0)));
    let result = if magnitude < 0.007_812_5 { small } else { large };
    result.copysign(x)
}

// ---- f32 ----

/// `rcp.approx.f32`
#[inline(always)]
pub fn rcp_approx_f32(a: u32, ftz: bool) -> u32 {
    let a = flush_f32_if(ftz, a);
    flush_f32_if(ftz, canonical_f32(1.0 / f32::from_bits(a)))
}

/// `sqrt.approx.f32`
#[inline(always)]
pub fn sqrt_approx_f32(a: u32, ftz: bool) -> u32 {
    canonical_f32(f32::from_bits(flush_f32_if(ftz, a)).sqrt())
}

/// `rsqrt.approx.f32`: ±0 gives an infinity of its sign, negative numbers NaN.
#[inline(always)]
pub fn rsqrt_approx_f32(a: u32, ftz: bool) -> u32 {
    let x = f32::from_bits(flush_f32_if(ftz, a));
    canonical_f32((1.0 / f64::from(x).sqrt()) as f32)
}

/// `div.approx.f32`: a · (1/b). For |b| above 2^126 the reciprocal is flushed to zero, so that the quotient is 0, or NaN for
/// an infinite a.
#[inline(always)]
pub fn div_approx_f32(a: u32, b: u32, ftz: bool) -> u32 {
    let (a, b) = (flush_f32_if(ftz, a), flush_f32_if(ftz, b));
    let (x, y) = (f64::from(f32::from_bits(a)), f64::from(f32::from_bits(b)));
    // The reciprocal in f64: that of a subnormal b does not overflow, as in the scaled sequence that compilers emit.
    let reciprocal = 1.0 / y;
    let huge = (b & 0x7fff_ffff > 0x7e80_0000) & (b & 0x7fff_ffff < 0x7f80_0000);
    let reciprocal = if huge { 0.0f64.copysign(y) } else { reciprocal };
    flush_f32_if(ftz, canonical_f32((x * reciprocal) as f32))
}

/// `div.full.f32`
#[inline(always)]
pub fn div_full_f32(a: u32, b: u32, ftz: bool) -> u32 {
    let (a, b) = (flush_f32_if(ftz, a), flush_f32_if(ftz, b));
    flush_f32_if(ftz, canonical_f32(f32::from_bits(a) / f32::from_bits(b)))
}

/// `ex2.approx.f32`
#[inline(always)]
pub fn ex2_approx_f32(a: u32, ftz: bool) -> u32 {
    // 1.5·2^23: adding it leaves the nearest integer in the low bits.
    const MAGIC: f32 = 12_582_912.0;
    let x = f32::from_bits(flush_f32_if(ftz, a));
    // Beyond these bounds the result is 0 or infinite; a NaN is clamped to the first bound and restored at the end.
    let low = if x > -152.0 { x } else { -152.0 };
    let x = if low < 129.0 { low } else { 129.0 };
    let shifted = x + MAGIC;
    let n = shifted.to_bits().wrapping_sub(MAGIC.to_bits()) as i32;
    let f = x - (shifted - MAGIC);
    // (2^f − 1)/f on [−½, ½], interpolated at Chebyshev nodes.
    let mut p = 0.000_154_531_63f32;
    p = p * f + 0.001_339_086_3;
    p = p * f + 0.009_618_083;
    p = p * f + 0.055_503_57;
    p = p * f + 0.240_226_5;
    p = p * f + std::f32::consts::LN_2;
    p = p * f + 1.0;
    // Two factors, each a normal number; only the last product can round, into the subnormals.
    let half = n >> 1;
    let power = |e: i32| f32::from_bits(((e + 127) as u32) << 23);
    let result = p * power(half) * power(n - half);
    let code = flush_f32_if(ftz, result.to_bits());
    if is_nan_f32(a) { NAN_F32 } else { code }
}

/// `lg2.approx.f32`: zeros give −∞, negative numbers NaN.
#[inline(always)]
pub fn lg2_approx_f32(a: u32, ftz: bool) -> u32 {
    const SQRT_HALF: u64 = 0x3fe6_a09e_0000_0000;
    let a = flush_f32_if(ftz, a);
    // f64 has no subnormals in the range of f32.
    let bits = f64::from(f32::from_bits(a & 0x7fff_ffff)).to_bits();
    // The significand in [√½, √2) and its exponent.
    let offset = bits.wrapping_sub(SQRT_HALF);
    let exponent = (offset as i64) >> 52;
    let m = f64::from_bits((offset & ((1 << 52) - 1)).wrapping_add(SQRT_HALF));
    // ln m = 2 artanh s
    let s = (m - 1.0) / (m + 1.0);
    let w = s * s;
    let mut p = 1.0 / 15.0;
    p = p * w + 1.0 / 13.0;
    p = p * w + 1.0 / 11.0;
    p = p * w + 1.0 / 9.0;
    p = p * w + 1.0 / 7.0;
    p = p * w + 1.0 / 5.0;
    p = p * w + 1.0 / 3.0;
    p = p * w + 1.0;
    let value = exponent as i32 as f64 + p * s * (2.0 * std::f64::consts::LOG2_E);
    let code = (value as f32).to_bits();
    let code = if a & 0x7fff_ffff == 0x7f80_0000 { 0x7f80_0000 } else { code };
    let code = if a & 0x7fff_ffff == 0 { 0xff80_0000 } else { code };
    let invalid = is_nan_f32(a) | ((a >> 31 != 0) & (a & 0x7fff_ffff != 0));
    let code = if invalid { NAN_F32 } else { code };
    flush_f32_if(ftz, code)
}

/// The angle reduced to [−π/4, π/4] and the quadrant it was in.
#[inline(always)]
fn reduce_angle(x: f32) -> (f64, i64) {
    // π/2 in two parts, the first with 33 bits, so that its multiples are exact.
    const HIGH: f64 = f64::from_bits(0x3ff9_21fb_5440_0000);
    const LOW: f64 = f64::from_bits(0x3dd0_b461_1a62_6331);
    // The manual gives no bound beyond 2^30; the remainder modulo the f64 value of 2π keeps the result a sine.
    let x = f64::from(x);
    let x = if x.abs() > 1_073_741_824.0 { x % (2.0 * std::f64::consts::PI) } else { x };
    let quadrant = (x * std::f64::consts::FRAC_2_PI).round_ties_even();
    let r = (x - quadrant * HIGH) - quadrant * LOW;
    (if quadrant == 0.0 { x } else { r }, quadrant as i64)
}

#[inline(always)]
fn sine_kernel(r: f64) -> f64 {
    let w = r * r;
    let mut p = 1.0 / 6_227_020_800.0;
    p = p * w - 1.0 / 39_916_800.0;
    p = p * w + 1.0 / 362_880.0;
    p = p * w - 1.0 / 5_040.0;
    p = p * w + 1.0 / 120.0;
    p = p * w - 1.0 / 6.0;
    r * (1.0 + w * p)
}

#[inline(always)]
fn cosine_kernel(r: f64) -> f64 {
    let w = r * r;
    let mut p = 1.0 / 479_001_600.0;
    p = p * w - 1.0 / 3_628_800.0;
    p = p * w + 1.0 / 40_320.0;
    p = p * w - 1.0 / 720.0;
    p = p * w + 1.0 / 24.0;
    p = p * w - 0.5;
    1.0 + w * p
}

#[inline(always)]
fn sine_of_quadrant(r: f64, quadrant: i64) -> f64 {
    let value = if quadrant & 1 == 0 { sine_kernel(r) } else { cosine_kernel(r) };
    if quadrant & 2 == 0 { value } else { -value }
}

/// `sin.approx.f32`
#[inline(always)]
pub fn sin_approx_f32(a: u32, ftz: bool) -> u32 {
    let a = flush_f32_if(ftz, a);
    let (r, quadrant) = reduce_angle(f32::from_bits(a));
    let code = flush_f32_if(ftz, (sine_of_quadrant(r, quadrant) as f32).to_bits());
    if a & 0x7fff_ffff >= 0x7f80_0000 { NAN_F32 } else { code }
}

/// `cos.approx.f32`
#[inline(always)]
pub fn cos_approx_f32(a: u32, ftz: bool) -> u32 {
    let a = flush_f32_if(ftz, a);
    let (r, quadrant) = reduce_angle(f32::from_bits(a));
    let code = flush_f32_if(ftz, (sine_of_quadrant(r, quadrant.wrapping_add(1)) as f32).to_bits());
    if a & 0x7fff_ffff >= 0x7f80_0000 { NAN_F32 } else { code }
}

/// `tanh.approx.f32`
#[inline(always)]
pub fn tanh_approx_f32(a: u32) -> u32 {
    let code = (tanh_f64(f64::from(f32::from_bits(a))) as f32).to_bits();
    if is_nan_f32(a) { NAN_F32 } else { code }
}

// ---- f16 and bf16 ----

#[inline(always)]
fn exp2_narrow(x: f32) -> u64 {
    let low = if x > -200.0 { x } else { -200.0 };
    let x = if low < 200.0 { low } else { 200.0 };
    exp2_f64(f64::from(x)).to_bits()
}

/// `ex2.approx{.ftz}.f16`
#[inline(always)]
pub fn ex2_approx_f16(a: u16, ftz: bool) -> u16 {
    let code = cvt_f16_f64(exp2_narrow(f32::from_bits(cvt_f32_f16(a))), Rounding::Rn);
    let code = if ftz { flush_f16(code) } else { code };
    if is_nan_f16(a) { NAN_F16 } else { code }
}

/// `ex2.approx.ftz.bf16`, which has no form without `.ftz`
#[inline(always)]
pub fn ex2_approx_bf16(a: u16) -> u16 {
    let code = cvt_bf16_f64(exp2_narrow(f32::from_bits(cvt_f32_bf16(flush_bf16(a)))), Rounding::Rn);
    if is_nan_bf16(a) { NAN_F16 } else { flush_bf16(code) }
}

/// `tanh.approx.f16`
#[inline(always)]
pub fn tanh_approx_f16(a: u16) -> u16 {
    let code = cvt_f16_f64(tanh_f64(f64::from(f32::from_bits(cvt_f32_f16(a)))).to_bits(), Rounding::Rn);
    if is_nan_f16(a) { NAN_F16 } else { code }
}

/// `tanh.approx.bf16`
#[inline(always)]
pub fn tanh_approx_bf16(a: u16) -> u16 {
    let code = cvt_bf16_f64(tanh_f64(f64::from(f32::from_bits(cvt_f32_bf16(a)))).to_bits(), Rounding::Rn);
    if is_nan_bf16(a) { NAN_F16 } else { code }
}

// ---- f64 ----

/// The upper word of an f64; subnormals are flushed to zero.
#[inline(always)]
fn upper_word(a: u64) -> u64 {
    let high = a & 0xffff_ffff_0000_0000;
    if high & 0x7ff0_0000_0000_0000 == 0 { high & (1 << 63) } else { high }
}

/// An f64 rounded to its upper word; subnormals are flushed to zero.
#[inline(always)]
fn to_upper_word(r: f64) -> u64 {
    let bits = r.to_bits();
    // Half of the last place kept; a carry into the exponent is correct.
    let rounded = if r.is_finite() { bits.wrapping_add(0x8000_0000) } else { bits };
    upper_word(rounded)
}

/// `rcp.approx.ftz.f64`
#[inline(always)]
pub fn rcp_approx_ftz_f64(a: u64) -> u64 {
    let code = to_upper_word(1.0 / f64::from_bits(upper_word(a)));
    if is_nan_f64(a) { NAN_F64_HIGH } else { code }
}

/// `rsqrt.approx.ftz.f64`
#[inline(always)]
pub fn rsqrt_approx_ftz_f64(a: u64) -> u64 {
    let r = 1.0 / f64::from_bits(upper_word(a)).sqrt();
    let code = to_upper_word(r);
    if is_nan_f64(a) | r.is_nan() { NAN_F64_HIGH } else { code }
}

/// `rsqrt.approx.f64`
#[inline(always)]
pub fn rsqrt_approx_f64(a: u64) -> u64 {
    use super::float::{rcp_f64, sqrt_f64};
    rcp_f64(sqrt_f64(a, Rounding::Rn), Rounding::Rn)
}
