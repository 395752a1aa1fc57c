//! `cvt` between integers and floating-point numbers, compared with an independent soft-float and the manual's rules for
//! NaN.
#![expect(
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "codes of numbers change width on purpose"
)]

use rustc_apfloat::ieee::{BFloat, Double, Half, Single};
use rustc_apfloat::{Float, Round};
use warpproof_num::convert as c;
use warpproof_num::{IntRounding, Rounding};

const ROUNDINGS: [(Rounding, Round); 4] = [
    (Rounding::Rn, Round::NearestTiesToEven),
    (Rounding::Rz, Round::TowardZero),
    (Rounding::Rm, Round::TowardNegative),
    (Rounding::Rp, Round::TowardPositive),
];

const INTEGRAL: [(IntRounding, Round); 4] = [
    (IntRounding::Rni, Round::NearestTiesToEven),
    (IntRounding::Rzi, Round::TowardZero),
    (IntRounding::Rmi, Round::TowardNegative),
    (IntRounding::Rpi, Round::TowardPositive),
];

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// The integer result of the soft-float, which also clamps. The caller handles NaN.
fn integer<F: Float>(x: F, width: usize, signed: bool, round: Round) -> u64 {
    if signed {
        x.to_i128_r(width, round, &mut false).value as u64
    } else {
        x.to_u128_r(width, round, &mut false).value as u64
    }
}

fn check_f32(a: u32) {
    let x = Single::from_bits(u128::from(a));
    for (rounding, round) in INTEGRAL {
        let got: [(u64, usize, bool); 8] = [
            (u64::from(c::cvt_u8_f32(a, rounding, false)), 8, false),
            (i64::from(c::cvt_s8_f32(a, rounding, false) as i8) as u64, 8, true),
            (u64::from(c::cvt_u16_f32(a, rounding, false)), 16, false),
            (i64::from(c::cvt_s16_f32(a, rounding, false) as i16) as u64, 16, true),
            (u64::from(c::cvt_u32_f32(a, rounding, false)), 32, false),
            (i64::from(c::cvt_s32_f32(a, rounding, false) as i32) as u64, 32, true),
            (c::cvt_u64_f32(a, rounding, false), 64, false),
            (c::cvt_s64_f32(a, rounding, false), 64, true),
        ];
        for (got, width, signed) in got {
            let want = match (x.is_nan(), width) {
                (true, 64) => 1 << 63,
                (true, _) => 0,
                _ => integer(x, width, signed, round),
            };
            assert_eq!(got, want, "{a:x} to {width} bits, signed {signed}, {rounding:?}");
        }
    }
}

fn check_f64(a: u64) {
    let x = Double::from_bits(u128::from(a));
    for (rounding, round) in INTEGRAL {
        let got: [(u64, usize, bool); 8] = [
            (u64::from(c::cvt_u8_f64(a, rounding)), 8, false),
            (i64::from(c::cvt_s8_f64(a, rounding) as i8) as u64, 8, true),
            (u64::from(c::cvt_u16_f64(a, rounding)), 16, false),
            (i64::from(c::cvt_s16_f64(a, rounding) as i16) as u64, 16, true),
            (u64::from(c::cvt_u32_f64(a, rounding)), 32, false),
            (i64::from(c::cvt_s32_f64(a, rounding) as i32) as u64, 32, true),
            (c::cvt_u64_f64(a, rounding), 64, false),
            (c::cvt_s64_f64(a, rounding), 64, true),
        ];
        for (got, width, signed) in got {
            let want = if x.is_nan() {
                let top = 1u64 << (width - 1);
                if signed { top.wrapping_neg() } else { top }
            } else {
                integer(x, width, signed, round)
            };
            assert_eq!(got, want, "{a:x} to {width} bits, signed {signed}, {rounding:?}");
        }
    }
}

#[test]
fn f32_to_integers() {
    let mut random = Random(1);
    // Values around every power of two and half of it, and random exponents.
    for exponent in 120..195u32 {
        for fraction in [0, 1, 0x3f_ffff, 0x40_0000, 0x40_0001, 0x7f_fffe, 0x7f_ffff] {
            check_f32(exponent << 23 | fraction);
            check_f32(1 << 31 | exponent << 23 | fraction);
        }
    }
    for a in [0, 1 << 31, 1, 0x7f80_0000, 0xff80_0000, 0x7fc0_0000, 0xffff_ffff] {
        check_f32(a);
    }
    for _ in 0..60_000 {
        let x = random.next();
        check_f32((x as u32 & 0x807f_ffff) | (115 + (x >> 40) as u32 % 85) << 23);
    }
    assert_eq!(c::cvt_s32_f32(0x8000_0001, IntRounding::Rmi, false), u32::MAX);
    assert_eq!(c::cvt_s32_f32(0x8000_0001, IntRounding::Rmi, true), 0);
}

#[test]
fn f64_to_integers() {
    let mut random = Random(2);
    for a in [0, 1 << 63, 1, 0x7ff0_0000_0000_0000, 0xfff0_0000_0000_0000, 0x7ff8_0000_0000_0000] {
        check_f64(a);
    }
    for _ in 0..60_000 {
        let x = random.next();
        let mut fraction = random.next() & 0x000f_ffff_ffff_ffff;
        if x.is_multiple_of(4) {
            fraction &= 0x000f_8000_0000_0000;
        }
        check_f64((x & 1 << 63) | (1010 + (x >> 40) % 85) << 52 | fraction);
    }
}

#[test]
fn halves_to_integers() {
    for a in 0..=u16::MAX {
        let (x, y) = (c::cvt_f32_f16(a), c::cvt_f32_bf16(a));
        for (rounding, _) in INTEGRAL {
            assert_eq!(c::cvt_u8_f16(a, rounding), c::cvt_u8_f32(x, rounding, false));
            assert_eq!(c::cvt_s16_f16(a, rounding), c::cvt_s16_f32(x, rounding, false));
            assert_eq!(c::cvt_s32_f16(a, rounding), c::cvt_s32_f32(x, rounding, false));
            assert_eq!(c::cvt_u64_f16(a, rounding), c::cvt_u64_f32(x, rounding, false));
            assert_eq!(c::cvt_s8_bf16(a, rounding), c::cvt_s8_f32(y, rounding, false));
            assert_eq!(c::cvt_u32_bf16(a, rounding), c::cvt_u32_f32(y, rounding, false));
            assert_eq!(c::cvt_s64_bf16(a, rounding), c::cvt_s64_f32(y, rounding, false));
        }
    }
}

fn check_from(a: u64) {
    for (rounding, round) in ROUNDINGS {
        let unsigned = u128::from(a);
        let signed = i128::from(a as i64);
        assert_eq!(
            u128::from(c::cvt_f32_u64(a, rounding)),
            Single::from_u128_r(unsigned, round).value.to_bits(),
            "{a:x} {rounding:?}"
        );
        assert_eq!(
            u128::from(c::cvt_f32_s64(a as i64, rounding)),
            Single::from_i128_r(signed, round).value.to_bits(),
            "{a:x} {rounding:?}"
        );
        assert_eq!(
            u128::from(c::cvt_f64_u64(a, rounding)),
            Double::from_u128_r(unsigned, round).value.to_bits(),
            "{a:x} {rounding:?}"
        );
        assert_eq!(
            u128::from(c::cvt_f64_s64(a as i64, rounding)),
            Double::from_i128_r(signed, round).value.to_bits(),
            "{a:x} {rounding:?}"
        );
        assert_eq!(
            u128::from(c::cvt_f16_u64(a, rounding)),
            Half::from_u128_r(unsigned, round).value.to_bits(),
            "{a:x} {rounding:?}"
        );
        assert_eq!(
            u128::from(c::cvt_f16_s64(a as i64, rounding)),
            Half::from_i128_r(signed, round).value.to_bits(),
            "{a:x} {rounding:?}"
        );
        assert_eq!(
            u128::from(c::cvt_bf16_u64(a, rounding)),
            BFloat::from_u128_r(unsigned, round).value.to_bits(),
            "{a:x} {rounding:?}"
        );
        assert_eq!(
            u128::from(c::cvt_bf16_s64(a as i64, rounding)),
            BFloat::from_i128_r(signed, round).value.to_bits(),
            "{a:x} {rounding:?}"
        );
        let narrow = a as u32;
        assert_eq!(c::cvt_f32_u32(narrow, rounding), c::cvt_f32_u64(u64::from(narrow), rounding));
        assert_eq!(
            c::cvt_f32_s32(narrow as i32, rounding),
            c::cvt_f32_s64(i64::from(narrow as i32), rounding)
        );
    }
}

#[test]
fn integers_to_floats() {
    for a in 0..=0x2100u64 {
        check_from(a);
        check_from(a.wrapping_neg());
    }
    let mut random = Random(3);
    for _ in 0..60_000 {
        let x = random.next();
        let a = random.next() >> (x % 64);
        // Long runs of zeros or ones below the leading bits make ties and near ties.
        check_from(match x >> 62 {
            0 => a,
            1 => a & (u64::MAX << ((x >> 20) % 64)),
            2 => a | ((1 << ((x >> 20) % 64)) - 1),
            _ => a.wrapping_neg(),
        });
    }
    for a in [65504, 65519, 65520, 65535, 65536, 1 << 32, 1 << 63, u64::MAX, (1 << 63) - 1] {
        check_from(a);
    }
}

#[test]
fn integral_floats() {
    for a in [
        0x3f00_0000u32,
        0xbf00_0000,
        0x3fc0_0000,
        0x4b00_0001,
        0x8000_0001,
        0x7f80_0000,
        0xff80_0000,
        0x8000_0000,
    ] {
        for (rounding, round) in INTEGRAL {
            let x = Single::from_bits(u128::from(a));
            let want = x.round_to_integral(round).value.to_bits();
            assert_eq!(u128::from(c::rint_f32(a, rounding, false)), want, "{a:x} {rounding:?}");
            let wide = f64::from(f32::from_bits(a)).to_bits();
            let want = Double::from_bits(u128::from(wide)).round_to_integral(round).value.to_bits();
            assert_eq!(u128::from(c::rint_f64(wide, rounding)), want, "{a:x} {rounding:?}");
        }
    }
    assert_eq!(c::rint_f32(0xff80_0001, IntRounding::Rni, false), 0x7fff_ffff);
    assert_eq!(c::rint_f32(0x8000_0001, IntRounding::Rmi, true), 0x8000_0000);
    assert_eq!(c::rint_f64(0x7ff0_0000_0000_0001, IntRounding::Rni), 0x7ff8_0000_0000_0001);
}

#[test]
fn integer_saturation() {
    assert_eq!(c::saturate_integer(-1, 8, false), 0);
    assert_eq!(c::saturate_integer(300, 8, false), 255);
    assert_eq!(c::saturate_integer(300, 8, true), 127);
    assert_eq!(c::saturate_integer(-300, 8, true), (-128i64) as u64);
    assert_eq!(c::saturate_integer(i128::from(u64::MAX), 64, true), i64::MAX as u64);
    assert_eq!(c::saturate_integer(i128::from(u64::MAX), 64, false), u64::MAX);
    // The manual's example: the results of two packs, concatenated.
    assert_eq!(c::cvt_pack(0x1234, -5, 0, 16, true), 0x1234_fffb);
    assert_eq!(c::cvt_pack(70_000, -70_000, 0, 16, true), 0x7fff_8000);
    assert_eq!(c::cvt_pack(70_000, -1, 0, 16, false), 0xffff_0000);
    assert_eq!(c::cvt_pack(1, 2, 0xabcd, 8, false), 0xabcd_0102);
    assert_eq!(c::cvt_pack(9, -9, 0x12_3456, 4, true), 0x1234_5678);
    assert_eq!(c::cvt_pack(1, -1, 0, 2, true), 0b0111);
}
