//! The types of array elements and scalars: their codes, their text, and how numbers become codes.

use serde_json::Value;
use warpproof_sim::num::Rounding;
use warpproof_sim::num::convert::{
    cvt_bf16_f64, cvt_f16_f64, cvt_f32_bf16, cvt_f32_f16, cvt_f32_f64, cvt_f64_s64,
};
use warpproof_sim::num::fp8::{Fp8, cvt_f32_fp8, cvt_fp8_f32};

/// A type of array elements and scalars.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Element {
    U8,
    U16,
    U32,
    U64,
    I8,
    I16,
    I32,
    I64,
    F16,
    Bf16,
    F32,
    F64,
    E4m3,
    E5m2,
}

/// All types with the names a user may write; the first is the one we write.
const NAMES: [(Element, &[&str]); 14] = [
    (Element::U8, &["u8"]),
    (Element::U16, &["u16"]),
    (Element::U32, &["u32"]),
    (Element::U64, &["u64"]),
    (Element::I8, &["i8", "s8"]),
    (Element::I16, &["i16", "s16"]),
    (Element::I32, &["i32", "s32"]),
    (Element::I64, &["i64", "s64"]),
    (Element::F16, &["f16"]),
    (Element::Bf16, &["bf16"]),
    (Element::F32, &["f32"]),
    (Element::F64, &["f64"]),
    (Element::E4m3, &["e4m3"]),
    (Element::E5m2, &["e5m2"]),
];

impl Element {
    /// The type a user named.
    pub(crate) fn named(name: &str) -> Option<Self> {
        NAMES.iter().find(|(_, names)| names.contains(&name)).map(|(element, _)| *element)
    }

    /// All names, for messages.
    pub(crate) fn all() -> String {
        let names: Vec<&str> = NAMES.iter().filter_map(|(_, names)| names.first().copied()).collect();
        names.join(" ")
    }

    /// Its name.
    pub(crate) fn name(self) -> &'static str {
        let names = NAMES.iter().find(|(element, _)| *element == self).map(|(_, names)| *names);
        names.and_then(|names| names.first()).copied().unwrap_or("?")
    }

    /// Bytes of one value.
    pub(crate) fn size(self) -> usize {
        match self {
            Self::U8 | Self::I8 | Self::E4m3 | Self::E5m2 => 1,
            Self::U16 | Self::I16 | Self::F16 | Self::Bf16 => 2,
            Self::U32 | Self::I32 | Self::F32 => 4,
            Self::U64 | Self::I64 | Self::F64 => 8,
        }
    }

    /// Whether its values are integers.
    pub(crate) fn is_integer(self) -> bool {
        !matches!(self, Self::F16 | Self::Bf16 | Self::F32 | Self::F64 | Self::E4m3 | Self::E5m2)
    }

    fn is_signed(self) -> bool {
        matches!(self, Self::I8 | Self::I16 | Self::I32 | Self::I64)
    }

    fn bits(self) -> u32 {
        match self.size() {
            1 => 8,
            2 => 16,
            4 => 32,
            _ => 64,
        }
    }

    /// The smallest and the largest integer of an integer type.
    pub(crate) fn range(self) -> (i128, i128) {
        if self.is_signed() {
            (-(1 << (self.bits() - 1)), (1 << (self.bits() - 1)) - 1)
        } else {
            (0, (1 << self.bits()) - 1)
        }
    }

    /// The code of an integer: its low bits in an integer type, the nearest number in another.
    pub(crate) fn of_integer(self, value: i128) -> u64 {
        if self.is_integer() {
            let mask = u128::from(u64::MAX >> (64 - self.bits()));
            return u64::try_from(value.cast_unsigned() & mask).unwrap_or(0);
        }
        let clamped = i64::try_from(value).unwrap_or(if value < 0 { i64::MIN } else { i64::MAX });
        self.of_real(f64::from_bits(cvt_f64_s64(clamped, Rounding::Rn)))
    }

    /// The code of the nearest number, as `cvt.rn` gives it (`cvt.rn.satfinite`, from f32, for e4m3 and e5m2). Not for
    /// integer types: their code is that of zero.
    pub(crate) fn of_real(self, value: f64) -> u64 {
        let bits = value.to_bits();
        let single = || cvt_f32_f64(bits, Rounding::Rn, false);
        match self {
            Self::F64 => bits,
            Self::F32 => u64::from(single()),
            Self::F16 => u64::from(cvt_f16_f64(bits, Rounding::Rn)),
            Self::Bf16 => u64::from(cvt_bf16_f64(bits, Rounding::Rn)),
            Self::E4m3 => u64::from(cvt_fp8_f32(Fp8::E4m3, single(), false)),
            Self::E5m2 => u64::from(cvt_fp8_f32(Fp8::E5m2, single(), false)),
            _ => 0,
        }
    }

    /// The code of a number as a user wrote it.
    pub(crate) fn parse(self, text: &str) -> Result<u64, String> {
        if self.is_integer() {
            let value = integer(text).ok_or_else(|| format!("`{text}` is not an integer"))?;
            let (low, high) = self.range();
            if value < low || value > high {
                return Err(format!("{text} does not fit {} ({low} to {high})", self.name()));
            }
            return Ok(self.of_integer(value));
        }
        let value: f64 = text.parse().map_err(|_| format!("`{text}` is not a number"))?;
        Ok(self.of_real(value))
    }

    /// The value of a code in f32, for types that f32 holds exactly.
    fn as_single(self, code: u64) -> Option<f32> {
        let bits = match self {
            Self::F32 => u32::try_from(code).ok()?,
            Self::F16 => cvt_f32_f16(u16::try_from(code).ok()?),
            Self::Bf16 => cvt_f32_bf16(u16::try_from(code).ok()?),
            Self::E4m3 => cvt_f32_fp8(Fp8::E4m3, u8::try_from(code).ok()?),
            Self::E5m2 => cvt_f32_fp8(Fp8::E5m2, u8::try_from(code).ok()?),
            _ => return None,
        };
        Some(f32::from_bits(bits))
    }

    /// A code as a person reads it.
    pub(crate) fn show(self, code: u64) -> String {
        if self == Self::F64 {
            return format!("{:?}", f64::from_bits(code));
        }
        if let Some(value) = self.as_single(code) {
            return format!("{value:?}");
        }
        if self.is_signed() {
            let shift = 64 - self.bits();
            return ((code << shift).cast_signed() >> shift).to_string();
        }
        code.to_string()
    }

    /// A code in JSON: a number, or a text for what JSON has no number for.
    pub(crate) fn json(self, code: u64) -> Value {
        let text = self.show(code);
        serde_json::from_str(&text).unwrap_or(Value::String(text))
    }

    /// The codes in an array's bytes.
    pub(crate) fn codes(self, bytes: &[u8]) -> impl Iterator<Item = u64> {
        bytes
            .chunks_exact(self.size())
            .map(|value| value.iter().rev().fold(0, |code, byte| code << 8 | u64::from(*byte)))
    }

    /// Appends a code's bytes.
    pub(crate) fn push(self, code: u64, out: &mut Vec<u8>) {
        out.extend(code.to_le_bytes().into_iter().take(self.size()));
    }
}

/// An integer as a user wrote it: decimal, `0x…` or `0b…`, with a sign if need be.
pub(crate) fn integer(text: &str) -> Option<i128> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let (radix, digits) = match digits.get(..2) {
        Some("0x" | "0X") => (16, &digits[2..]),
        Some("0b" | "0B") => (2, &digits[2..]),
        _ => (10, digits),
    };
    if !digits.starts_with(|c: char| c.is_ascii_hexdigit()) {
        return None;
    }
    let value = i128::from_str_radix(digits, radix).ok()?;
    Some(if negative { -value } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_become_codes_and_text_again() {
        let cases = [
            (Element::U8, "255", 0xff, "255"),
            (Element::I8, "-1", 0xff, "-1"),
            (Element::I64, "-9223372036854775808", 1 << 63, "-9223372036854775808"),
            (Element::U64, "0xffffffffffffffff", u64::MAX, "18446744073709551615"),
            (Element::U32, "0b101", 5, "5"),
            (Element::F32, "0.1", 0x3dcccccd, "0.1"),
            (Element::F64, "1e-300", 0x01a56e1fc2f8f359, "1e-300"),
            (Element::F16, "65504", 0x7bff, "65504.0"),
            (Element::Bf16, "1.0", 0x3f80, "1.0"),
            (Element::E4m3, "448", 0x7e, "448.0"),
            (Element::E4m3, "1000", 0x7e, "448.0"),
            (Element::E5m2, "-1.5", 0xbe, "-1.5"),
            (Element::F32, "inf", 0x7f800000, "inf"),
        ];
        for (element, text, code, shown) in cases {
            assert_eq!(element.parse(text), Ok(code), "{text}");
            assert_eq!(element.show(code), shown);
            assert_eq!(Element::named(element.name()), Some(element));
        }
        assert_eq!(Element::I32.parse("s"), Err("`s` is not an integer".into()));
        for text in ["", "-", "+-1", "0x", "0x-1", "--1", "99999999999999999999999999999999999999999"] {
            assert_eq!(integer(text), None, "{text}");
        }
        assert_eq!(Element::U8.parse("-1"), Err("-1 does not fit u8 (0 to 255)".into()));
    }

    #[test]
    fn integers_wrap_and_reals_round() {
        assert_eq!(Element::U8.of_integer(257), 1);
        assert_eq!(Element::I16.of_integer(-1), 0xffff);
        assert_eq!(Element::U64.of_integer(-1), u64::MAX);
        assert_eq!(Element::F32.of_integer(16777217), 0x4b800000);
        assert_eq!(Element::F32.json(0x3f800000), serde_json::json!(1.0));
        assert_eq!(Element::F32.json(0x7fc00000), serde_json::json!("NaN"));
        assert_eq!(Element::U64.json(u64::MAX), serde_json::json!(u64::MAX));
    }
}
