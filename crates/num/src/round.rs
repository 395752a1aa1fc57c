//! Rounding: the only place that converts an exact value to a code of a binary format.

/// A floating-point rounding modifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// `.rn`: to nearest, ties to even.
    Rn,
    /// `.rz`: toward zero.
    Rz,
    /// `.rm`: toward negative infinity.
    Rm,
    /// `.rp`: toward positive infinity.
    Rp,
    /// `.rna`: to nearest, ties away from zero (conversions to `.tf32` only).
    Rna,
}

/// An integer rounding modifier of `cvt`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntRounding {
    /// `.rni`: to the nearest integer, ties to even.
    Rni,
    /// `.rzi`: toward zero.
    Rzi,
    /// `.rmi`: toward negative infinity.
    Rmi,
    /// `.rpi`: toward positive infinity.
    Rpi,
}

/// A binary interchange format with infinities and NaNs in its topmost exponent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    /// Width of the exponent field.
    pub exponent_bits: u32,
    /// Width of the fraction field.
    pub fraction_bits: u32,
}

/// `.f64`
pub const F64: Format = Format { exponent_bits: 11, fraction_bits: 52 };
/// `.f32`
pub const F32: Format = Format { exponent_bits: 8, fraction_bits: 23 };
/// `.tf32`, without the 13 low bits that are unused in a register.
pub const TF32: Format = Format { exponent_bits: 8, fraction_bits: 10 };
/// `.f16`
pub const F16: Format = Format { exponent_bits: 5, fraction_bits: 10 };
/// `.bf16`
pub const BF16: Format = Format { exponent_bits: 8, fraction_bits: 7 };
/// `.e5m2`
pub const E5M2: Format = Format { exponent_bits: 5, fraction_bits: 2 };
/// `.e4m3` as if its topmost exponent were reserved for infinity; `fp8` handles its largest values.
pub const E4M3: Format = Format { exponent_bits: 4, fraction_bits: 3 };
/// `.e3m2`. It has no infinity and no NaN: its topmost exponent encodes numbers, as those of the next two.
pub const E3M2: Format = Format { exponent_bits: 3, fraction_bits: 2 };
/// `.e2m3`
pub const E2M3: Format = Format { exponent_bits: 2, fraction_bits: 3 };
/// `.e2m1`
pub const E2M1: Format = Format { exponent_bits: 2, fraction_bits: 1 };

impl Format {
    /// The exponent bias.
    #[inline(always)]
    pub const fn bias(self) -> i32 {
        (1 << (self.exponent_bits - 1)) - 1
    }

    /// The code of positive infinity.
    #[inline(always)]
    pub const fn infinity(self) -> u64 {
        ((1 << self.exponent_bits) - 1) << self.fraction_bits
    }

    /// The sign bit.
    #[inline(always)]
    pub const fn sign(self) -> u64 {
        1 << (self.exponent_bits + self.fraction_bits)
    }
}

/// Whether a magnitude with a discarded part is rounded away from zero. `rem` is the discarded part and `half` the value of
/// one half in its units.
#[inline(always)]
fn away(rounding: Rounding, negative: bool, odd: bool, rem: u128, half: u128) -> bool {
    match rounding {
        Rounding::Rn => rem > half || (rem == half && odd),
        Rounding::Rna => rem >= half,
        Rounding::Rz => false,
        Rounding::Rm => negative && rem != 0,
        Rounding::Rp => !negative && rem != 0,
    }
}

/// Whether a magnitude beyond the largest finite value becomes infinite rather than that largest value.
#[inline(always)]
pub(crate) fn overflows(rounding: Rounding, negative: bool) -> bool {
    match rounding {
        Rounding::Rn | Rounding::Rna => true,
        Rounding::Rz => false,
        Rounding::Rm => negative,
        Rounding::Rp => !negative,
    }
}

/// The code of (−1)^`negative` · `significand` · 2^`exponent`, rounded once. A significand that was shortened must have at
/// least two more bits than the format, with its lowest bit set if a nonzero bit was discarded below it.
pub fn pack(format: Format, negative: bool, exponent: i32, significand: u128, rounding: Rounding) -> u64 {
    let sign = if negative { format.sign() } else { 0 };
    if significand == 0 {
        return sign;
    }
    let fraction_bits = format.fraction_bits as i32;
    let top = exponent + 127 - significand.leading_zeros() as i32;
    let quantum = top.max(1 - format.bias()) - fraction_bits;
    let shift = quantum - exponent;
    let (kept, up) = if shift <= 0 {
        (significand << -shift, false)
    } else if shift > 127 {
        // The whole significand lies below half of the smallest quantum: nonzero, and less than a half.
        (0, away(rounding, negative, false, 1, 2))
    } else {
        let kept = significand >> shift;
        let rem = significand & ((1 << shift) - 1);
        (kept, away(rounding, negative, kept & 1 == 1, rem, 1 << (shift - 1)))
    };
    // With the exponent field one lower, the hidden bit of `kept` raises it again, and so does a carry.
    let field = (quantum + fraction_bits + format.bias() - 1) as i64 as u64;
    let code = (kept as u64 + u64::from(up)).wrapping_add(field.wrapping_shl(format.fraction_bits));
    if field >= (1 << format.exponent_bits) - 1 || code >= format.infinity() {
        let inf = format.infinity();
        return sign | if overflows(rounding, negative) { inf } else { inf - 1 };
    }
    sign | code
}

/// A magnitude widened to f32: its fields, at their positions in f32, have an exponent with this bias.
#[inline(always)]
pub(crate) fn widen_f32(fields: u32, bias: u32) -> u32 {
    let normal = fields.wrapping_add((127 - bias) << 23);
    // A subnormal gets a hidden bit, which is subtracted again. To multiply subnormals of f32 instead is many times slower on some hosts.
    let hidden = (128 - bias) << 23;
    let subnormal = f32::from_bits(fields.wrapping_add(hidden)) - f32::from_bits(hidden);
    if fields < 1 << 23 { subnormal.to_bits() } else { normal }
}

/// Rounds a finite f32 or an infinity to a narrower format; the caller handles NaN. There are no branches on the value, so
/// that it vectorizes.
#[inline(always)]
pub(crate) fn narrow_f32(format: Format, bits: u32, rounding: Rounding) -> u32 {
    let negative = bits >> 31 != 0;
    let abs = bits & 0x7fff_ffff;
    let exponent = (abs >> 23) as i32;
    let significand = (abs & 0x007f_ffff) | (u32::from(exponent != 0) << 23);
    let target = exponent.max(1) - 127 + format.bias();
    let shift = (23 - format.fraction_bits as i32 + (1 - target).max(0)).min(31) as u32;
    let kept = significand >> shift;
    let rem = significand & ((1u32 << shift) - 1);
    // A shift of 0 can only happen when nothing is discarded, and then `half` is never reached.
    let half = (1u32 << shift) >> 1;
    let up = match rounding {
        Rounding::Rn => (rem > half) | ((rem == half) & (kept & 1 == 1) & (half != 0)),
        Rounding::Rna => (rem >= half) & (half != 0),
        Rounding::Rz => false,
        Rounding::Rm => negative & (rem != 0),
        Rounding::Rp => !negative & (rem != 0),
    };
    let code = (((target.max(1) - 1) as u32) << format.fraction_bits) + kept + u32::from(up);
    let inf = format.infinity() as u32;
    let largest = if overflows(rounding, negative) { inf } else { inf - 1 };
    let code = if code >= inf { largest } else { code };
    let code = if abs == 0x7f80_0000 { inf } else { code };
    code | if negative { format.sign() as u32 } else { 0 }
}

/// [`narrow_f32`] from f64.
#[inline(always)]
pub(crate) fn narrow_f64(format: Format, bits: u64, rounding: Rounding) -> u64 {
    let negative = bits >> 63 != 0;
    let abs = bits & !(1 << 63);
    let exponent = (abs >> 52) as i64;
    let significand = (abs & ((1 << 52) - 1)) | (u64::from(exponent != 0) << 52);
    let target = exponent.max(1) - 1023 + i64::from(format.bias());
    let shift = (52 - i64::from(format.fraction_bits) + (1 - target).max(0)).min(63) as u64;
    let kept = significand >> shift;
    let rem = significand & ((1u64 << shift) - 1);
    let half = (1u64 << shift) >> 1;
    let up = match rounding {
        Rounding::Rn => (rem > half) | ((rem == half) & (kept & 1 == 1)),
        Rounding::Rna => rem >= half,
        Rounding::Rz => false,
        Rounding::Rm => negative & (rem != 0),
        Rounding::Rp => !negative & (rem != 0),
    };
    let inf = format.infinity();
    let field = (target.max(1) - 1) as u64;
    let code = (field << format.fraction_bits) + kept + u64::from(up);
    let largest = if overflows(rounding, negative) { inf } else { inf - 1 };
    let code = if code >= inf { largest } else { code };
    let code = if abs == F64.infinity() { inf } else { code };
    code | if negative { format.sign() } else { 0 }
}
