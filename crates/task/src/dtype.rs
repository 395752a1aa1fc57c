//! Element types: their codes in memory, their values, and their rounding.

mod code;

use std::fmt;

use serde::{Serialize, Serializer};
use warpproof_num::Rounding;
use warpproof_num::convert::{
    cvt_bf16_f64, cvt_f16_f64, cvt_f32_bf16, cvt_f32_f16, cvt_f32_f64, cvt_f64_s64,
};
use warpproof_num::fp8::{Fp8, cvt_f32_fp8, cvt_fp8_f32};

pub use code::integer;

use crate::expr::real::Unit;

/// The type of an array's elements or of a scalar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the names of the types")]
pub enum Dtype {
    F64,
    F32,
    F16,
    Bf16,
    E4m3,
    E5m2,
    I8,
    U8,
    I16,
    U16,
    I32,
    U32,
    I64,
    U64,
}

/// A floating-point format.
struct Float {
    /// Digits of the mantissa, including the implicit one.
    digits: i32,
    /// The exponent of the smallest normal number.
    least: i32,
    /// The largest finite number.
    largest: f64,
}

const NAMES: [(Dtype, &str, usize); 14] = [
    (Dtype::U8, "u8", 1),
    (Dtype::U16, "u16", 2),
    (Dtype::U32, "u32", 4),
    (Dtype::U64, "u64", 8),
    (Dtype::I8, "i8", 1),
    (Dtype::I16, "i16", 2),
    (Dtype::I32, "i32", 4),
    (Dtype::I64, "i64", 8),
    (Dtype::F16, "f16", 2),
    (Dtype::Bf16, "bf16", 2),
    (Dtype::F32, "f32", 4),
    (Dtype::F64, "f64", 8),
    (Dtype::E4m3, "e4m3", 1),
    (Dtype::E5m2, "e5m2", 1),
];

impl Dtype {
    /// The type with this name.
    pub fn named(name: &str) -> Option<Dtype> {
        NAMES.iter().find(|row| row.1 == name).map(|row| row.0)
    }

    /// Every name.
    pub fn names() -> [&'static str; 14] {
        NAMES.map(|row| row.1)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        NAMES.iter().find(|row| row.0 == self).map_or("", |row| row.1)
    }

    /// Bytes of an element.
    pub fn size(self) -> usize {
        NAMES.iter().find(|row| row.0 == self).map_or(1, |row| row.2)
    }

    /// Whether its values are integers.
    pub fn is_integer(self) -> bool {
        self.float().is_none()
    }

    fn float(self) -> Option<Float> {
        Some(match self {
            Dtype::F64 => Float { digits: 53, least: -1022, largest: f64::MAX },
            Dtype::F32 => Float { digits: 24, least: -126, largest: f64::from(f32::MAX) },
            Dtype::F16 => Float { digits: 11, least: -14, largest: 65504.0 },
            Dtype::Bf16 => Float { digits: 8, least: -126, largest: 3.3895313892515355e38 },
            Dtype::E4m3 => Float { digits: 4, least: -6, largest: 448.0 },
            Dtype::E5m2 => Float { digits: 3, least: -14, largest: 57344.0 },
            _ => return None,
        })
    }

    /// The largest finite value; of an integer, the largest.
    pub fn largest(self) -> f64 {
        match (self.float(), self) {
            (Some(float), _) => float.largest,
            (None, Dtype::I8) => 127.0,
            (None, Dtype::U8) => 255.0,
            (None, Dtype::I16) => 32767.0,
            (None, Dtype::U16) => 65535.0,
            (None, Dtype::I32) => 2147483647.0,
            (None, Dtype::U32) => 4294967295.0,
            (None, Dtype::I64) => 9223372036854775807.0,
            (None, _) => 18446744073709551615.0,
        }
    }

    /// The exponents of its smallest normal number and of its largest; for integers, from 1.
    pub fn exponents(self) -> (i32, i32) {
        let least = self.float().map_or(0, |float| float.least);
        // Exact: the largest is below the next power of two.
        let mut most = least;
        while most < 1023 && 2f64.powi(most + 1) <= self.largest() {
            most += 1;
        }
        (least, most)
    }

    /// Its rounding: to nearest with unit 2^-digits. Integers do not round.
    pub fn unit(self) -> Unit {
        self.float().map_or(Unit { relative: 0.0, smallest: 0.0 }, |float| Unit {
            relative: 2f64.powi(-float.digits),
            smallest: 2f64.powi(float.least),
        })
    }

    /// Half the distance between neighbors at a value: the maximum error of rounding to nearest.
    pub fn half_step(self, value: f64) -> f64 {
        let Some(float) = self.float() else { return 0.0 };
        let unit = 2f64.powi(-float.digits);
        // Below the smallest normal number the steps are those of its binade.
        (value.abs() * unit).max(2f64.powi(float.least).max(f64::MIN_POSITIVE) * unit)
    }

    /// The code of the nearest value; overflow gives infinity, or the largest number in formats without infinity.
    pub fn encode(self, value: f64) -> u64 {
        let integer = || {
            let (low, high) = self.integer_range();
            to_integer(value).clamp(low, high)
        };
        match self {
            Dtype::F64 => value.to_bits(),
            Dtype::F32 => u64::from(cvt_f32_f64(value.to_bits(), Rounding::Rn, false)),
            Dtype::F16 => u64::from(cvt_f16_f64(value.to_bits(), Rounding::Rn)),
            Dtype::Bf16 => u64::from(cvt_bf16_f64(value.to_bits(), Rounding::Rn)),
            Dtype::E4m3 => u64::from(cvt_fp8_f32(Fp8::E4m3, Self::narrowed(value), false)),
            Dtype::E5m2 => u64::from(cvt_fp8_f32(Fp8::E5m2, Self::narrowed(value), false)),
            _ => {
                let bytes = integer().to_le_bytes();
                let mut code = [0; 8];
                code.iter_mut().zip(bytes).take(self.size()).for_each(|(to, from)| *to = from);
                u64::from_le_bytes(code)
            }
        }
    }

    /// A value as f32 that rounds to 8 bits exactly as the value itself does: rounded to odd, to avoid double
    /// rounding.
    fn narrowed(value: f64) -> u32 {
        let toward = cvt_f32_f64(value.to_bits(), Rounding::Rz, false);
        let inexact = f64::from(f32::from_bits(toward)).to_bits() != value.to_bits() && value.is_finite();
        if inexact { toward | 1 } else { toward }
    }

    /// The least and the largest integer of an integer type.
    pub fn integer_range(self) -> (i128, i128) {
        let bits = u32::try_from(8 * self.size()).unwrap_or(64);
        match self {
            Dtype::U8 | Dtype::U16 | Dtype::U32 | Dtype::U64 => (0, (1 << bits) - 1),
            _ => (-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
        }
    }

    /// The value of a code. A 64-bit integer beyond 2^53 is rounded.
    pub fn decode(self, code: u64) -> f64 {
        let low = |bits: u32| code & (u64::MAX >> (64 - bits));
        match self {
            Dtype::F64 => f64::from_bits(code),
            Dtype::F32 | Dtype::F16 | Dtype::Bf16 | Dtype::E4m3 | Dtype::E5m2 => {
                f64::from(self.decode_single(code))
            }
            Dtype::U64 => f64::from_bits(warpproof_num::convert::cvt_f64_u64(code, Rounding::Rn)),
            Dtype::U8 | Dtype::U16 | Dtype::U32 => {
                let bits = u32::try_from(8 * self.size()).unwrap_or(64);
                f64::from_bits(cvt_f64_s64(low(bits).cast_signed(), Rounding::Rn))
            }
            _ => {
                let unused = 64 - u32::try_from(8 * self.size()).unwrap_or(64);
                f64::from_bits(cvt_f64_s64((code << unused).cast_signed() >> unused, Rounding::Rn))
            }
        }
    }

    /// The value of a code in f32, for the formats whose values f32 holds exactly.
    fn decode_single(self, code: u64) -> f32 {
        let low = |bits: u32| code & (u64::MAX >> (64 - bits));
        let half = || u16::try_from(low(16)).unwrap_or(0);
        let byte = || u8::try_from(low(8)).unwrap_or(0);
        f32::from_bits(match self {
            Dtype::F16 => cvt_f32_f16(half()),
            Dtype::Bf16 => cvt_f32_bf16(half()),
            Dtype::E4m3 => cvt_f32_fp8(Fp8::E4m3, byte()),
            Dtype::E5m2 => cvt_f32_fp8(Fp8::E5m2, byte()),
            _ => u32::try_from(low(32)).unwrap_or(0),
        })
    }

    /// The value after storing it in this type.
    pub fn round(self, value: f64) -> f64 {
        self.decode(self.encode(value))
    }

    /// The values in an array's bytes; an incomplete last element is ignored.
    pub fn values(self, bytes: &[u8]) -> Vec<f64> {
        self.codes(bytes).map(|code| self.decode(code)).collect()
    }

    /// The bytes of an array of values.
    pub fn bytes(self, values: &[f64]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(values.len().saturating_mul(self.size()));
        for value in values {
            self.push(self.encode(*value), &mut bytes);
        }
        bytes
    }
}

/// To nearest; NaN gives 0, as in the hardware's conversions.
#[expect(clippy::as_conversions, clippy::cast_possible_truncation, reason = "the conversion saturates")]
pub fn to_integer(value: f64) -> i128 {
    value.round_ties_even() as i128
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Serialize for Dtype {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "values are exact")]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn codes_are_those_of_the_formats() {
        for (dtype, value, code) in [
            (Dtype::F16, 1.0, 0x3c00),
            (Dtype::F16, 1e9, 0x7c00),
            (Dtype::Bf16, 1.0, 0x3f80),
            (Dtype::E4m3, 448.0, 0x7e),
            (Dtype::E5m2, -1.5, 0xbe),
            (Dtype::F32, 0.1, 0x3dcccccd),
            (Dtype::I8, -1.0, 0xff),
            (Dtype::U8, 300.0, 255),
            (Dtype::I32, -2.5, 0xfffffffe),
            (Dtype::U64, 3.0, 3),
        ] {
            assert_eq!(dtype.encode(value), code, "{dtype} {value}");
            assert_eq!(Dtype::named(dtype.name()), Some(dtype));
        }
        assert_eq!(Dtype::I8.decode(0x80), -128.0);
        assert_eq!(Dtype::values(Dtype::F16, &[0, 0x3c, 0, 0x40, 7]), [1.0, 2.0]);
        assert_eq!(Dtype::bytes(Dtype::I16, &[-1.0]), [0xff, 0xff]);
        // Slightly above the middle between 1 and 1.125: double rounding would tie down to even.
        assert_eq!(Dtype::E4m3.round(1.0625 + 1e-12), 1.125);
        assert_eq!(Dtype::E4m3.round(1.0625), 1.0);
    }

    proptest! {
        #[test]
        fn rounding_moves_at_most_half_a_step(value in -400f64..400.0) {
            for dtype in [Dtype::F64, Dtype::F32, Dtype::F16, Dtype::Bf16, Dtype::E4m3, Dtype::E5m2] {
                prop_assert!((dtype.round(value) - value).abs() <= dtype.half_step(value), "{dtype} {value}");
            }
        }

        #[test]
        fn every_code_is_its_value(code in any::<u64>()) {
            for dtype in NAMES.map(|row| row.0) {
                let code = code & (u64::MAX >> (64 - 8 * dtype.size()));
                let value = dtype.decode(code);
                // A 64-bit integer has more digits than f64; conversions to 8 bits have no infinity.
                if !value.is_nan() && (value.is_finite() || dtype.size() > 1) && !(dtype.size() == 8 && dtype.is_integer()) {
                    prop_assert_eq!(dtype.encode(value), code);
                }
            }
        }
    }
}
