//! Formats of six and four bits, and scales: `cvt` to and from e3m2, e2m3, e2m1 and ue8m0.
//!
//! The formats below a byte have neither infinity nor NaN. Conversions to them saturate: a magnitude beyond the largest value
//! becomes that value with its sign, and NaN becomes the largest positive value. ue8m0 is a biased exponent without sign: the
//! code 0 is 2^−127, the code of all ones is NaN, and zero has no code.

use super::convert::{cvt_bf16_f32, cvt_bf16_f64, cvt_f16_f32, satfinite_bf16};
use super::float::is_nan_f32;
use super::round::{E2M1, E2M3, E3M2, Format, Rounding, widen_f32};

/// A floating-point format below a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Small {
    /// 3 exponent bits, 2 fraction bits, largest value 28.
    E3m2,
    /// 2 exponent bits, 3 fraction bits, largest value 7.5.
    E2m3,
    /// 2 exponent bits, 1 fraction bit, largest value 6.
    E2m1,
}

impl Small {
    /// The fields of a code.
    #[inline]
    pub const fn format(self) -> Format {
        match self {
            Self::E3m2 => E3M2,
            Self::E2m3 => E2M3,
            Self::E2m1 => E2M1,
        }
    }

    /// The largest value.
    #[inline]
    pub const fn largest(self) -> f32 {
        match self {
            Self::E3m2 => 28.0,
            Self::E2m3 => 7.5,
            Self::E2m1 => 6.0,
        }
    }
}

/// 2^`exponent`, for exponents of normal numbers.
#[inline(always)]
const fn power(exponent: i32) -> f32 {
    f32::from_bits(((127 + exponent) as u32) << 23)
}

/// One element of `cvt.rn.satfinite{.relu}.{e3m2x2,e2m3x2,e2m1x2}.f32`
#[inline(always)]
pub fn cvt_small_f32(format: Small, a: u32, relu: bool) -> u8 {
    let fields = format.format();
    let (fraction_bits, lowest) = (fields.fraction_bits as i32, 1 - fields.bias());
    let magnitude = f32::from_bits(a & 0x7fff_ffff);
    // Not a number fails the comparison, and becomes the largest value too.
    let clamped = if magnitude < format.largest() { magnitude } else { format.largest() };
    // The exponent of a subnormal result is that of the smallest normal one. The hidden bit of the integer raises the
    // exponent field, and so does a carry.
    let exponent = ((clamped.to_bits() >> 23) as i32 - 127).max(lowest);
    let integer = (clamped * power(fraction_bits - exponent)).round_ties_even() as u32;
    let code = (((exponent - lowest) as u32) << fraction_bits) + integer;
    let negative = a >> 31 != 0 && !is_nan_f32(a);
    let code = code as u8 | if negative { fields.sign() as u8 } else { 0 };
    if relu & negative { 0 } else { code }
}

/// The value of a code as f32: exact. Bits above the format are ignored.
#[inline(always)]
pub fn cvt_f32_small(format: Small, a: u8) -> u32 {
    let fields = format.format();
    let (a, sign) = (u32::from(a), fields.sign() as u32);
    let magnitude = widen_f32((a & (sign - 1)) << (23 - fields.fraction_bits), fields.bias() as u32);
    magnitude | if a & sign != 0 { 0x8000_0000 } else { 0 }
}

/// One element of `cvt.rn{.relu}.f16x2.{e3m2x2,e2m3x2,e2m1x2}`: exact.
#[inline(always)]
pub fn cvt_f16_small(format: Small, a: u8, relu: bool) -> u16 {
    let wide = cvt_f16_f32(cvt_f32_small(format, a), Rounding::Rn, false);
    if relu & (wide & 0x8000 != 0) { 0 } else { wide }
}

/// One element of `cvt.rn{.relu}.bf16x2.{e3m2x2,e2m3x2,e2m1x2}`: exact.
#[inline(always)]
pub fn cvt_bf16_small(format: Small, a: u8, relu: bool) -> u16 {
    let wide = cvt_bf16_f32(cvt_f32_small(format, a), Rounding::Rn, false);
    if relu & (wide & 0x8000 != 0) { 0 } else { wide }
}

/// One element of `cvt.{rz,rp}{.satfinite}.ue8m0x2.f32`: the exponent of the magnitude, rounded down or up. A magnitude below
/// the smallest code becomes that code. Infinity, and a magnitude that is rounded up beyond the largest code, becomes NaN, or
/// the largest code with `.satfinite`.
#[inline(always)]
pub fn cvt_ue8m0_f32(a: u32, up: bool, satfinite: bool) -> u8 {
    let magnitude = a & 0x7fff_ffff;
    let field = magnitude >> 23;
    // The code 0 is 2^−127, half of the smallest normal number.
    let above = magnitude & 0x007f_ffff != 0 && magnitude > 0x0040_0000;
    let code = (field + u32::from(up && above && field < 0xff)) as u8;
    let number = magnitude <= 0x7f80_0000;
    if satfinite && number && code == 0xff { 0xfe } else { code }
}

/// One element of `cvt.rn.bf16x2.ue8m0x2`: exact.
#[inline(always)]
pub fn cvt_bf16_ue8m0(a: u8) -> u16 {
    match a {
        0 => 0x0040,
        0xff => 0x7fff,
        code => u16::from(code) << 7,
    }
}

/// One element of `cvt.rn{.satfinite}{.relu}{.scaled::n2::ue8m0}.bf16x2` from a narrower format: the value, which bf16 holds
/// exactly, times the scale, rounded once.
#[inline(always)]
pub fn scaled_bf16(a: f32, scale: u8, satfinite: bool, relu: bool) -> u16 {
    // A product of f64 is exact here. The code of all ones is NaN.
    let factor = if scale == 0xff { f64::NAN } else { f64::from_bits((896 + u64::from(scale)) << 52) };
    let wide = cvt_bf16_f64((f64::from(a) * factor).to_bits(), Rounding::Rn);
    let wide = if satfinite { satfinite_bf16(wide) } else { wide };
    if relu & (wide & 0x8000 != 0) { 0 } else { wide }
}

/// One element of `cvt.rs{.relu}{.satfinite}.bf16x2.f32`: the random bits are added to the 16 discarded bits of the magnitude, and
/// their carry rounds away from zero.
#[inline(always)]
pub fn cvt_bf16_f32_rs(a: u32, random: u16, satfinite: bool, relu: bool) -> u16 {
    let magnitude = a & 0x7fff_ffff;
    if magnitude > 0x7f80_0000 {
        return 0x7fff;
    }
    let code = ((magnitude + u32::from(random)) >> 16) as u16 | (a >> 16) as u16 & 0x8000;
    let code = if satfinite { satfinite_bf16(code) } else { code };
    if relu & (code & 0x8000 != 0) { 0 } else { code }
}
