//! The 8-bit formats that attention reads, code to value and back, without scales; the 16-bit formats that it
//! writes.

#![expect(
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "codes have eight bits; each cast is of a value clamped to its range"
)]

use std::fmt;
use warpproof_num::Rounding;
use warpproof_num::convert::{
    cvt_bf16_f32, cvt_bf16_f64, cvt_f16_f32, cvt_f16_f64, cvt_f32_bf16, cvt_f32_f16,
};
use warpproof_num::fp8::{Fp8, cvt_f32_fp8, cvt_fp8_f32};

/// An 8-bit format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// 4 exponent bits, 3 fraction bits, no infinity, largest value 448.
    #[default]
    E4m3,
    /// 5 exponent bits, 2 fraction bits, infinities, largest finite value 57344.
    E5m2,
    /// Equidistant: code 128 is zero, and one step is the scale. Code 0 is never written, so the range is
    /// symmetric.
    Linear8,
}

impl Format {
    /// All formats.
    pub const ALL: [Format; 3] = [Format::E4m3, Format::E5m2, Format::Linear8];

    /// The value of a code, exactly.
    pub fn decode(self, code: u8) -> f32 {
        TABLES[self as usize][usize::from(code)]
    }

    /// The values of all codes.
    pub fn values(self) -> &'static [f32; 256] {
        &TABLES[self as usize]
    }

    /// Whether a code is a finite number: E4M3 has a NaN of either sign, E5M2 has infinities and NaNs.
    pub fn is_finite(self, code: u8) -> bool {
        self.decode(code).is_finite()
    }

    /// The code nearest to a value. Values outside the range saturate. E4M3 and E5M2 round ties to even and
    /// keep NaN; [`Format::Linear8`] rounds ties away from zero, as C's `roundf` does, and maps NaN to zero.
    pub fn encode(self, value: f32) -> u8 {
        match self {
            Format::E4m3 => cvt_fp8_f32(Fp8::E4m3, value.to_bits(), false),
            Format::E5m2 => cvt_fp8_f32(Fp8::E5m2, value.to_bits(), false),
            // NaN would pass through clamp and addition, and its cast would be code 0.
            Format::Linear8 if value.is_nan() => 128,
            Format::Linear8 => (value.round().clamp(-127.0, 127.0) + 128.0) as u8,
        }
    }

    /// The largest finite value of the format.
    pub fn max_finite(self) -> f32 {
        match self {
            Format::E4m3 => 448.0,
            Format::E5m2 => 57344.0,
            Format::Linear8 => 127.0,
        }
    }

    /// The format for tensor cores; `None` for [`Format::Linear8`].
    pub fn fp8(self) -> Option<Fp8> {
        match self {
            Format::E4m3 => Some(Fp8::E4m3),
            Format::E5m2 => Some(Fp8::E5m2),
            Format::Linear8 => None,
        }
    }
}

/// The format of the output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OutputFormat {
    /// 5 exponent bits, 10 fraction bits.
    #[default]
    F16,
    /// 8 exponent bits, 7 fraction bits: the range of f32.
    Bf16,
}

impl OutputFormat {
    /// The value of a code, exactly.
    pub fn decode(self, code: u16) -> f64 {
        f64::from(f32::from_bits(match self {
            OutputFormat::F16 => cvt_f32_f16(code),
            OutputFormat::Bf16 => cvt_f32_bf16(code),
        }))
    }

    /// The code nearest to a value, ties to even.
    pub fn encode(self, value: f64) -> u16 {
        match self {
            OutputFormat::F16 => cvt_f16_f64(value.to_bits(), Rounding::Rn),
            OutputFormat::Bf16 => cvt_bf16_f64(value.to_bits(), Rounding::Rn),
        }
    }

    /// As [`OutputFormat::encode`], as the kernels convert: NaN becomes the format's own.
    pub(crate) fn encode_f32(self, value: f32) -> u16 {
        match self {
            OutputFormat::F16 => cvt_f16_f32(value.to_bits(), Rounding::Rn, false),
            OutputFormat::Bf16 => cvt_bf16_f32(value.to_bits(), Rounding::Rn, false),
        }
    }

    /// At most half a step of the format at a magnitude.
    pub(crate) fn half_step(self, magnitude: f64) -> f64 {
        let (relative, floor) = match self {
            OutputFormat::F16 => (-11, -25),
            OutputFormat::Bf16 => (-8, -134),
        };
        (magnitude * 2f64.powi(relative)).max(2f64.powi(floor))
    }
}

impl fmt::Display for OutputFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            OutputFormat::F16 => "f16",
            OutputFormat::Bf16 => "bf16",
        })
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Format::E4m3 => "e4m3",
            Format::E5m2 => "e5m2",
            Format::Linear8 => "linear8",
        })
    }
}

static TABLES: std::sync::LazyLock<[[f32; 256]; 3]> = std::sync::LazyLock::new(|| {
    let mut tables = [[0.0; 256]; 3];
    for code in 0..=255u8 {
        let at = usize::from(code);
        tables[Format::E4m3 as usize][at] = f32::from_bits(cvt_f32_fp8(Fp8::E4m3, code));
        tables[Format::E5m2 as usize][at] = f32::from_bits(cvt_f32_fp8(Fp8::E5m2, code));
        tables[Format::Linear8 as usize][at] = f32::from(code) - 128.0;
    }
    tables
});

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "values are exact")]
mod tests {
    use super::*;

    #[test]
    fn codes_that_are_no_numbers_are_known() {
        let not_finite =
            |format: Format| (0..=255u8).filter(|code| !format.is_finite(*code)).collect::<Vec<_>>();
        assert_eq!(not_finite(Format::E4m3), [0x7f, 0xff]);
        assert_eq!(not_finite(Format::E5m2), [0x7c, 0x7d, 0x7e, 0x7f, 0xfc, 0xfd, 0xfe, 0xff]);
        assert!(not_finite(Format::Linear8).is_empty());
    }

    #[test]
    fn every_finite_code_survives_the_round_trip() {
        for format in Format::ALL {
            for code in 0..=255u8 {
                let value = format.decode(code);
                if !value.is_finite() || (format == Format::Linear8 && code == 0) {
                    continue;
                }
                assert_eq!(format.encode(value), code, "{format} {code:#x}");
                assert!(value.abs() <= format.max_finite());
            }
        }
    }

    #[test]
    fn codes_mean_what_their_fields_say() {
        for code in 0..=255u8 {
            let sign = if code & 0x80 == 0 { 1.0 } else { -1.0 };
            let exponent = i32::from(code >> 3 & 15);
            let fraction = f32::from(code & 7) / 8.0;
            let expected = match (exponent, code & 7) {
                (15, 7) => f32::NAN,
                (0, _) => sign * fraction * 2f32.powi(-6),
                _ => sign * (1.0 + fraction) * 2f32.powi(exponent - 7),
            };
            let got = Format::E4m3.decode(code);
            assert!(got == expected || (got.is_nan() && expected.is_nan()), "{code:#x}: {got} {expected}");

            let exponent = i32::from(code >> 2 & 31);
            let fraction = f32::from(code & 3) / 4.0;
            let expected = match (exponent, code & 3) {
                (31, 0) => sign * f32::INFINITY,
                (31, _) => f32::NAN,
                (0, _) => sign * fraction * 2f32.powi(-14),
                _ => sign * (1.0 + fraction) * 2f32.powi(exponent - 15),
            };
            let got = Format::E5m2.decode(code);
            assert!(got == expected || (got.is_nan() && expected.is_nan()), "{code:#x}: {got} {expected}");
        }
    }

    #[test]
    fn values_between_codes_go_to_the_nearer_and_ties_to_the_even() {
        for format in [Format::E4m3, Format::E5m2] {
            let end = format.encode(format.max_finite());
            for code in 0..end {
                let (low, high) = (format.decode(code), format.decode(code + 1));
                let middle = f32::midpoint(low, high);
                let step = high - low;
                assert_eq!(format.encode(middle), if code % 2 == 0 { code } else { code + 1 });
                assert_eq!(format.encode(middle - step / 64.0), code);
                assert_eq!(format.encode(middle + step / 64.0), code + 1);
                assert_eq!(format.encode(-middle), format.encode(middle) | 0x80);
            }
        }
        assert_eq!(Format::Linear8.encode(0.5), 129);
        assert_eq!(Format::Linear8.encode(-0.5), 127);
    }

    #[test]
    fn values_beyond_the_range_saturate() {
        for format in Format::ALL {
            for value in [f32::INFINITY, f32::MAX, format.max_finite() * 1.5] {
                assert_eq!(format.decode(format.encode(value)), format.max_finite());
                assert_eq!(format.decode(format.encode(-value)), -format.max_finite());
            }
        }
        assert!(Format::E4m3.decode(Format::E4m3.encode(f32::NAN)).is_nan());
        assert_eq!(Format::Linear8.encode(f32::NAN), 128);
    }
}
