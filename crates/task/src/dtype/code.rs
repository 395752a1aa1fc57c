//! Codes in readable form.

use serde_json::Value;
use warpproof_num::Rounding;
use warpproof_num::convert::cvt_f64_s64;

use super::Dtype;

impl Dtype {
    fn bits(self) -> u32 {
        match self.size() {
            1 => 8,
            2 => 16,
            4 => 32,
            _ => 64,
        }
    }

    /// The code of an integer: its low bits in an integer type, the nearest number in another.
    pub fn of_integer(self, value: i128) -> u64 {
        if self.is_integer() {
            let mask = u128::from(u64::MAX >> (64 - self.bits()));
            return u64::try_from(value.cast_unsigned() & mask).unwrap_or(0);
        }
        let clamped = i64::try_from(value).unwrap_or(if value < 0 { i64::MIN } else { i64::MAX });
        self.encode(f64::from_bits(cvt_f64_s64(clamped, Rounding::Rn)))
    }

    /// The code of a number that a user wrote.
    pub fn parse(self, text: &str) -> Result<u64, String> {
        if self.is_integer() {
            let value = integer(text).ok_or_else(|| format!("`{text}` is not an integer"))?;
            let (low, high) = self.integer_range();
            if value < low || value > high {
                return Err(format!("{text} does not fit {self} ({low} to {high})"));
            }
            return Ok(self.of_integer(value));
        }
        let value: f64 = text.parse().map_err(|_| format!("`{text}` is not a number"))?;
        Ok(self.encode(value))
    }

    /// A code in readable form.
    pub fn show(self, code: u64) -> String {
        match self {
            Dtype::F64 => format!("{:?}", f64::from_bits(code)),
            Dtype::F32 | Dtype::F16 | Dtype::Bf16 | Dtype::E4m3 | Dtype::E5m2 => {
                // F32 holds them all, and needs fewer digits to distinguish them.
                format!("{:?}", self.decode_single(code))
            }
            Dtype::I8 | Dtype::I16 | Dtype::I32 | Dtype::I64 => {
                let unused = 64 - self.bits();
                ((code << unused).cast_signed() >> unused).to_string()
            }
            Dtype::U8 | Dtype::U16 | Dtype::U32 | Dtype::U64 => code.to_string(),
        }
    }

    /// A code in JSON: a number, or a string if JSON has no such number.
    pub fn json(self, code: u64) -> Value {
        let text = self.show(code);
        serde_json::from_str(&text).unwrap_or(Value::String(text))
    }

    /// The codes in an array's bytes; an incomplete last element is ignored.
    pub fn codes(self, bytes: &[u8]) -> impl Iterator<Item = u64> {
        bytes
            .chunks_exact(self.size())
            .map(|value| value.iter().rev().fold(0, |code, byte| code << 8 | u64::from(*byte)))
    }

    /// Appends a code's bytes.
    pub fn push(self, code: u64, out: &mut Vec<u8>) {
        out.extend(code.to_le_bytes().into_iter().take(self.size()));
    }
}

/// An integer that a user wrote: decimal, `0x…` or `0b…`, with an optional sign.
pub fn integer(text: &str) -> Option<i128> {
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
            (Dtype::U8, "255", 0xff, "255"),
            (Dtype::I8, "-1", 0xff, "-1"),
            (Dtype::I64, "-9223372036854775808", 1 << 63, "-9223372036854775808"),
            (Dtype::U64, "0xffffffffffffffff", u64::MAX, "18446744073709551615"),
            (Dtype::U32, "0b101", 5, "5"),
            (Dtype::F32, "0.1", 0x3dcccccd, "0.1"),
            (Dtype::F64, "1e-300", 0x01a56e1fc2f8f359, "1e-300"),
            (Dtype::F16, "65504", 0x7bff, "65504.0"),
            (Dtype::Bf16, "1.0", 0x3f80, "1.0"),
            (Dtype::E4m3, "448", 0x7e, "448.0"),
            (Dtype::E4m3, "1000", 0x7e, "448.0"),
            (Dtype::E5m2, "-1.5", 0xbe, "-1.5"),
            (Dtype::F32, "inf", 0x7f800000, "inf"),
        ];
        for (dtype, text, code, shown) in cases {
            assert_eq!(dtype.parse(text), Ok(code), "{text}");
            assert_eq!(dtype.show(code), shown);
        }
        assert_eq!(Dtype::I32.parse("s"), Err("`s` is not an integer".into()));
        for text in ["", "-", "+-1", "0x", "0x-1", "--1", "99999999999999999999999999999999999999999"] {
            assert_eq!(integer(text), None, "{text}");
        }
        assert_eq!(Dtype::U8.parse("-1"), Err("-1 does not fit u8 (0 to 255)".into()));
    }

    #[test]
    fn integers_wrap_and_reals_round() {
        assert_eq!(Dtype::U8.of_integer(257), 1);
        assert_eq!(Dtype::I16.of_integer(-1), 0xffff);
        assert_eq!(Dtype::U64.of_integer(-1), u64::MAX);
        assert_eq!(Dtype::F32.of_integer(16777217), 0x4b800000);
        assert_eq!(Dtype::F32.json(0x3f800000), serde_json::json!(1.0));
        assert_eq!(Dtype::F32.json(0x7fc00000), serde_json::json!("NaN"));
        assert_eq!(Dtype::U64.json(u64::MAX), serde_json::json!(u64::MAX));
    }
}
