//! Conversions of `cvt` to and from e4m3, e5m2 and tf32.
//!
//! e4m3 has no infinity: its topmost exponent encodes numbers up to 448, and only the code of all ones is NaN. e5m2 has the
//! layout of a shortened f16. Conversions to them always have `.satfinite`: a magnitude beyond the largest finite value,
//! including infinity, becomes that value with its sign, and NaN becomes `0x7f`.

use super::convert::{cvt_f16_f32, cvt_f32_f16};
use super::float::{NAN_F32, is_nan_f32};
use super::half::NAN_F16;
use super::round::{E5M2, Rounding, TF32, narrow_f32, widen_f32};

/// The NaN that conversions to e4m3 and e5m2 produce.
pub const NAN_FP8: u8 = 0x7f;

/// An 8-bit floating-point format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fp8 {
    /// 4 exponent bits, 3 fraction bits, no infinity, largest value 448.
    E4m3,
    /// 5 exponent bits, 2 fraction bits, infinities, largest value 57344.
    E5m2,
}

/// One half of `cvt.rn.satfinite{.relu}.{e4m3x2,e5m2x2}.f32`
#[inline(always)]
pub fn cvt_fp8_f32(format: Fp8, a: u32, relu: bool) -> u8 {
    let code = match format {
        // e4m3 has no reserved exponent: clamp first, then round a magnitude that e4m3 can represent.
        Fp8::E4m3 => {
            let sign = (a >> 24) & 0x80;
            let magnitude = f32::from_bits(a & 0x7fff_ffff);
            let clamped = if magnitude > 448.0 { 448.0 } else { magnitude };
            sign | e4m3_magnitude(clamped)
        }
        Fp8::E5m2 => {
            let code = narrow_f32(E5M2, a, Rounding::Rn);
            let sign = code & 0x80;
            sign | (code & 0x7f).min(0x7b)
        }
    };
    let code = if relu & (code & 0x80 != 0) { 0 } else { code };
    if is_nan_f32(a) { NAN_FP8 } else { code as u8 }
}

/// The e4m3 code of a magnitude of at most 448, to nearest even.
#[inline(always)]
fn e4m3_magnitude(a: f32) -> u32 {
    let bits = a.to_bits();
    let exponent = ((bits >> 23) as i32 - 127).max(-6);
    // The quantum is 2^(exponent − 3). Adding 2^23 quanta leaves no bits below it, and the host rounds to nearest even.
    let anchor = f32::from_bits(((exponent - 3 + 23 + 127) as u32) << 23);
    // Wraps for a NaN, which the caller discards.
    let quanta = (a + anchor).to_bits().wrapping_sub(anchor.to_bits());
    (((exponent + 6) as u32) << 3).wrapping_add(quanta)
}

/// One half of `cvt.rn.satfinite{.relu}.{e4m3x2,e5m2x2}.f16x2`
#[inline(always)]
pub fn cvt_fp8_f16(format: Fp8, a: u16, relu: bool) -> u8 {
    cvt_fp8_f32(format, cvt_f32_f16(a), relu)
}

/// An 8-bit code widened to f32, exactly; NaN gives the canonical f32 NaN.
#[inline(always)]
pub fn cvt_f32_fp8(format: Fp8, a: u8) -> u32 {
    let a = u32::from(a);
    match format {
        Fp8::E4m3 => {
            let number = widen_f32((a & 0x7f) << 20, 7) | ((a & 0x80) << 24);
            if a & 0x7f == 0x7f { NAN_F32 } else { number }
        }
        Fp8::E5m2 => cvt_f32_f16((a << 8) as u16),
    }
}

/// One half of `cvt.rn{.relu}.f16x2.{e4m3x2,e5m2x2}`: exact.
#[inline(always)]
pub fn cvt_f16_fp8(format: Fp8, a: u8, relu: bool) -> u16 {
    let wide = match format {
        Fp8::E4m3 => cvt_f16_f32(cvt_f32_fp8(format, a), Rounding::Rn, false),
        Fp8::E5m2 => {
            let wide = u16::from(a) << 8;
            if wide & 0x7fff > 0x7c00 { NAN_F16 } else { wide }
        }
    };
    if relu & (wide & 0x8000 != 0) { 0 } else { wide }
}

/// `cvt.{rna,rn,rz}{.relu}{.satfinite}.tf32.f32`: the result is an f32 code whose 13 low bits are zero.
#[inline(always)]
pub fn cvt_tf32_f32(a: u32, rounding: Rounding, relu: bool, satfinite: bool) -> u32 {
    let code = narrow_f32(TF32, a, rounding) << 13;
    let limited = if satfinite & (code & 0x7fff_ffff >= 0x7f80_0000) {
        (code & 0x8000_0000) | 0x7f7f_e000
    } else {
        code
    };
    let limited = if relu & (limited >> 31 != 0) { 0 } else { limited };
    if is_nan_f32(a) { NAN_F32 } else { limited }
}
