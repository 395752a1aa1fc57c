//! f16, bf16, tf32, e4m3 and e5m2: every conversion among the small formats over all inputs, f32 and f64 to them at every
//! rounding boundary, and arithmetic, compared with an independent soft-float.
#![expect(
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    clippy::float_cmp,
    reason = "codes of numbers change width on purpose, and results are exact"
)]

use rustc_apfloat::ieee::{BFloat, Double, Float8E4M3FN, Float8E5M2, Half, Single};
use rustc_apfloat::{Float, FloatConvert, Round};
use warpproof_num::compare::{Cmp, Extremum, cmp_f32, minmax_f32};
use warpproof_num::fp8::{Fp8, cvt_f16_fp8, cvt_f32_fp8, cvt_fp8_f16, cvt_fp8_f32, cvt_tf32_f32};
use warpproof_num::{IntRounding, Rounding, convert, half};

const ROUNDINGS: [(Rounding, Round); 4] = [
    (Rounding::Rn, Round::NearestTiesToEven),
    (Rounding::Rz, Round::TowardZero),
    (Rounding::Rm, Round::TowardNegative),
    (Rounding::Rp, Round::TowardPositive),
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

fn code<F: Float>(x: F, nan: u128) -> u128 {
    if x.is_nan() { nan } else { x.to_bits() }
}

fn convert<A: Float + FloatConvert<B>, B: Float>(a: u128, round: Round, nan: u128) -> u128 {
    code(A::from_bits(a).convert_r(round, &mut false).value, nan)
}

const NEAREST: Round = Round::NearestTiesToEven;

#[test]
fn widening_is_exact_for_all_codes() {
    for a in 0..=u16::MAX {
        let wide = u128::from(a);
        assert_eq!(
            u128::from(convert::cvt_f32_f16(a)),
            convert::<Half, Single>(wide, NEAREST, 0x7fff_ffff),
            "{a:x}"
        );
        assert_eq!(convert::cvt_f32_bf16(a), u32::from(a) << 16);
        if !half::is_nan_f16(a) {
            assert_eq!(u128::from(convert::cvt_f64_f16(a)), convert::<Half, Double>(wide, NEAREST, 0));
        }
        if !half::is_nan_bf16(a) {
            assert_eq!(u128::from(convert::cvt_f64_bf16(a)), convert::<BFloat, Double>(wide, NEAREST, 0));
        }
    }
    for a in 0..=u8::MAX {
        let wide = u128::from(a);
        for (format, f32_code, f16_code) in [
            (
                Fp8::E4m3,
                convert::<Float8E4M3FN, Single>(wide, NEAREST, 0x7fff_ffff),
                convert::<Float8E4M3FN, Half>(wide, NEAREST, 0x7fff),
            ),
            (
                Fp8::E5m2,
                convert::<Float8E5M2, Single>(wide, NEAREST, 0x7fff_ffff),
                convert::<Float8E5M2, Half>(wide, NEAREST, 0x7fff),
            ),
        ] {
            assert_eq!(u128::from(cvt_f32_fp8(format, a)), f32_code, "{format:?} {a:x}");
            assert_eq!(u128::from(cvt_f16_fp8(format, a, false)), f16_code, "{format:?} {a:x}");
            let relu = if f16_code & 0x8000 != 0 { 0 } else { f16_code };
            assert_eq!(u128::from(cvt_f16_fp8(format, a, true)), relu, "{format:?} {a:x}");
        }
    }
}

#[test]
fn f16_and_bf16_into_each_other() {
    for a in 0..=u16::MAX {
        for (rounding, round) in ROUNDINGS {
            let want = convert::<Half, BFloat>(u128::from(a), round, 0x7fff);
            assert_eq!(u128::from(convert::cvt_bf16_f16(a, rounding)), want, "{a:x} {rounding:?}");
            let want = convert::<BFloat, Half>(u128::from(a), round, 0x7fff);
            assert_eq!(u128::from(convert::cvt_f16_bf16(a, rounding)), want, "{a:x} {rounding:?}");
        }
    }
}

/// The result of `cvt.rn.satfinite` for an f32: the soft-float's rounding, with overflow clamped.
fn fp8_of_f32(format: Fp8, a: u32) -> u8 {
    let x = f32::from_bits(a);
    if x.is_nan() {
        return 0x7f;
    }
    let (largest, code) = match format {
        Fp8::E4m3 => (0x7e, convert::<Single, Float8E4M3FN>(u128::from(a), NEAREST, 0x7f)),
        Fp8::E5m2 => (0x7b, convert::<Single, Float8E5M2>(u128::from(a), NEAREST, 0x7f)),
    };
    let magnitude = (code as u8 & 0x7f).min(largest);
    magnitude | if x.is_sign_negative() { 0x80 } else { 0 }
}

#[test]
fn f16_into_8_bits_for_all_codes() {
    for a in 0..=u16::MAX {
        for format in [Fp8::E4m3, Fp8::E5m2] {
            let want = fp8_of_f32(format, convert::cvt_f32_f16(a));
            assert_eq!(cvt_fp8_f16(format, a, false), want, "{format:?} {a:x}");
            let relu = if want & 0x80 != 0 { 0 } else { want };
            assert_eq!(cvt_fp8_f16(format, a, true), relu, "{format:?} {a:x}");
        }
    }
}

/// A value, its neighbors, and the negations of all of them.
fn around(a: u32) -> [u32; 6] {
    let (below, above) = (a.saturating_sub(1), a + 1);
    [below, a, above, below | 0x8000_0000, a | 0x8000_0000, above | 0x8000_0000]
}

/// Both rounding boundaries of a code, as f32: itself, and the midpoint between it and the next, which is exact in f32.
fn boundaries(code: u32, next: u32) -> [u32; 2] {
    let middle = f64::from(f32::from_bits(code)).midpoint(f64::from(f32::from_bits(next)));
    [code, (middle as f32).to_bits()]
}

#[test]
fn f32_into_8_bits_at_every_boundary() {
    for format in [Fp8::E4m3, Fp8::E5m2] {
        let largest = if format == Fp8::E4m3 { 0x7e } else { 0x7b };
        for code in 0..largest {
            for boundary in boundaries(cvt_f32_fp8(format, code), cvt_f32_fp8(format, code + 1)) {
                for a in around(boundary) {
                    assert_eq!(cvt_fp8_f32(format, a, false), fp8_of_f32(format, a), "{format:?} {a:x}");
                }
            }
        }
    }
    let specials = [
        (0x7fc0_0000u32, 0x7f, 0x7f),
        (0xffc0_0001, 0x7f, 0x7f),
        (0x7f80_0000, 0x7e, 0x7b),
        (0xff80_0000, 0xfe, 0xfb),
        (0x7f7f_ffff, 0x7e, 0x7b),
        (448.0f32.to_bits(), 0x7e, 0x5f),
        (464.0f32.to_bits(), 0x7e, 0x5f),
        (465.0f32.to_bits(), 0x7e, 0x5f),
        (61440.0f32.to_bits(), 0x7e, 0x7b),
        (1, 0, 0),
        (0x8000_0001, 0x80, 0x80),
        (0x8000_0000, 0x80, 0x80),
    ];
    for (a, e4m3, e5m2) in specials {
        assert_eq!(cvt_fp8_f32(Fp8::E4m3, a, false), e4m3, "{a:x}");
        assert_eq!(cvt_fp8_f32(Fp8::E5m2, a, false), e5m2, "{a:x}");
    }
    assert_eq!(cvt_fp8_f32(Fp8::E4m3, (-3.0f32).to_bits(), true), 0);
    assert_eq!(cvt_fp8_f32(Fp8::E4m3, 0xffc0_0000, true), 0x7f);
    let mut random = Random(1);
    for _ in 0..200_000 {
        let a = random.next() as u32;
        let near_one = (a & 0x8fff_ffff) | 0x3000_0000;
        for a in [a, near_one] {
            for format in [Fp8::E4m3, Fp8::E5m2] {
                assert_eq!(cvt_fp8_f32(format, a, false), fp8_of_f32(format, a), "{format:?} {a:x}");
            }
        }
    }
}

fn check_to_halves(a: u32) {
    for (rounding, round) in ROUNDINGS {
        let want = convert::<Single, Half>(u128::from(a), round, 0x7fff);
        let got = convert::cvt_f16_f32(a, rounding, false);
        assert_eq!(u128::from(got), want, "f16 {a:x} {rounding:?}: found {got:x}, expected {want:x}");
        let want = convert::<Single, BFloat>(u128::from(a), round, 0x7fff);
        let got = convert::cvt_bf16_f32(a, rounding, false);
        assert_eq!(u128::from(got), want, "bf16 {a:x} {rounding:?}: found {got:x}, expected {want:x}");
    }
}

#[test]
fn f32_into_f16_at_every_boundary() {
    for code in 0..0x7bffu16 {
        for boundary in boundaries(convert::cvt_f32_f16(code), convert::cvt_f32_f16(code + 1)) {
            for a in around(boundary) {
                check_to_halves(a);
            }
        }
    }
    // The largest finite value, the midpoint above it, the next power of two, and the ends of f32.
    for boundary in
        [65504.0f32.to_bits(), 65520.0f32.to_bits(), 65536.0f32.to_bits(), 1, 0x7f7f_fffe, 0x7f80_0000]
    {
        for a in around(boundary) {
            check_to_halves(a);
        }
    }
}

#[test]
fn f32_into_bf16_at_every_boundary() {
    for code in 0..=0x7f7fu32 {
        for a in around(code << 16).into_iter().chain(around(code << 16 | 0x8000)) {
            check_to_halves(a);
        }
    }
}

#[test]
fn satfinite_and_flushing() {
    assert_eq!(convert::satfinite_f16(0x7c00), 0x7bff);
    assert_eq!(convert::satfinite_f16(0xfc00), 0xfbff);
    assert_eq!(convert::satfinite_f16(0x7fff), 0x7fff);
    assert_eq!(convert::satfinite_bf16(0xff80), 0xff7f);
    assert_eq!(convert::cvt_bf16_f32(0x007f_ffff, Rounding::Rn, true), 0);
    assert_eq!(convert::cvt_bf16_f32(0x807f_ffff, Rounding::Rn, true), 0x8000);
    assert_eq!(half::relu(0xbc00), 0);
    assert_eq!(half::relu(0x8000), 0);
    assert_eq!(half::relu(0x7fff), 0x7fff);
    for (a, want) in
        [(0xbc00u16, 0), (0x3c01, 0x3c00), (0x7e00, 0), (0xfc00, 0), (0x3800, 0x3800), (0x8000, 0)]
    {
        assert_eq!(half::sat_f16(a), want);
    }
    for (a, want) in [(0xbf80u16, 0), (0x3f81, 0x3f80), (0x7fc0, 0), (0x7f80, 0x3f80), (0x3f00, 0x3f00)] {
        assert_eq!(half::sat_bf16(a), want);
    }
}

/// f64 values whose significant bits are around the last place of each narrower format.
fn f64_near_boundaries(random: &mut Random) -> u64 {
    let x = random.next();
    let exponent = match x >> 62 {
        0 => 1023 - 30 + (x >> 40) % 50,
        1 => 1023 - 155 + (x >> 40) % 40,
        2 => 1023 + 100 + (x >> 40) % 40,
        _ => (x >> 40) % 2048,
    };
    let fraction = random.next() & 0x000f_ffff_ffff_ffff;
    let fraction = match x & 7 {
        0 => fraction & 0x000f_ffe0_0000_0000,
        1 => (fraction & 0x000f_ff00_0000_0000) | 1,
        2 => fraction & 0x000f_ffff_f000_0000,
        3 => (fraction & 0x000f_f000_0000_0000) | 0xffff_ffff,
        _ => fraction,
    };
    (x & 1 << 50) << 13 | exponent << 52 | fraction
}

#[test]
fn f64_into_narrower() {
    let mut random = Random(2);
    for _ in 0..150_000 {
        let a = f64_near_boundaries(&mut random);
        let wide = u128::from(a);
        for (rounding, round) in ROUNDINGS {
            let want = convert::<Double, Single>(wide, round, 0x7fff_ffff);
            assert_eq!(u128::from(convert::cvt_f32_f64(a, rounding, false)), want, "f32 {a:x} {rounding:?}");
            let want = convert::<Double, Half>(wide, round, 0x7fff);
            assert_eq!(u128::from(convert::cvt_f16_f64(a, rounding)), want, "f16 {a:x} {rounding:?}");
            let want = convert::<Double, BFloat>(wide, round, 0x7fff);
            assert_eq!(u128::from(convert::cvt_bf16_f64(a, rounding)), want, "bf16 {a:x} {rounding:?}");
        }
    }
    assert_eq!(convert::cvt_f64_f32(0xffc0_0001, false), 0xfff8_0000_2000_0000);
    assert_eq!(convert::cvt_f64_f32(0x8000_0001, true), 1 << 63);
    assert_eq!(convert::cvt_f32_f64((1e-40f64).to_bits(), Rounding::Rn, true), 0);
    assert_eq!(convert::cvt_f32_f32(0xff80_0001, false), 0x7fff_ffff);
}

#[test]
fn tf32_at_boundaries() {
    let mut random = Random(3);
    let check = |a: u32| {
        let x = f64::from(f32::from_bits(a));
        for rounding in [Rounding::Rna, Rounding::Rn, Rounding::Rz] {
            let got = cvt_tf32_f32(a, rounding, false, false);
            if x.is_nan() {
                assert_eq!(got, 0x7fff_ffff);
                continue;
            }
            let want = if x.is_infinite() {
                x
            } else {
                let exponent = i32::try_from(a >> 23 & 0xff).unwrap().max(1) - 127;
                let quantum = 2f64.powi(exponent - 10);
                let rounded = match rounding {
                    Rounding::Rna => (x / quantum).round(),
                    Rounding::Rn => (x / quantum).round_ties_even(),
                    _ => (x / quantum).trunc(),
                };
                rounded * quantum
            };
            // 2^128, reached by rounding, is infinite.
            assert_eq!(got, (want as f32).to_bits(), "{a:x} {rounding:?}");
            assert_eq!(got & 0x1fff, 0);
            let finite = cvt_tf32_f32(a, rounding, false, true);
            assert_eq!(
                finite,
                if f32::from_bits(got).is_infinite() { got & 0x8000_0000 | 0x7f7f_e000 } else { got }
            );
            let relu = cvt_tf32_f32(a, rounding, true, false);
            assert_eq!(relu, if got >> 31 != 0 { 0 } else { got });
        }
    };
    for exponent in 0..=255u32 {
        for fraction in (0..1024u32).step_by(33).chain([1023]) {
            for low in [0, 1, 0xfff, 0x1000, 0x1001, 0x1fff] {
                check(exponent << 23 | fraction << 13 | low);
                check(1 << 31 | exponent << 23 | fraction << 13 | low);
            }
        }
    }
    for _ in 0..100_000 {
        check(random.next() as u32);
    }
}

const SPECIAL_F16: [u16; 20] = [
    0, 0x8000, 1, 0x8001, 0x3ff, 0x83ff, 0x400, 0x8400, 0x401, 0x3c00, 0xbc00, 0x3c01, 0x3bff, 0x7bff,
    0xfbff, 0x7c00, 0xfc00, 0x7e00, 0xfd01, 0x7fff,
];

const SPECIAL_BF16: [u16; 18] = [
    0, 0x8000, 1, 0x8001, 0x7f, 0x807f, 0x80, 0x8080, 0x3f80, 0xbf80, 0x3f81, 0x7f7f, 0xff7f, 0x7f80, 0xff80,
    0x7fc0, 0xffc1, 0x7f00,
];

fn check_f16(a: u16, b: u16, c: u16) {
    let [x, y, z] = [a, b, c].map(|x| Half::from_bits(u128::from(x)));
    let pairs = [
        ("add", half::add_f16(a, b, false), x.add_r(y, NEAREST)),
        ("sub", half::sub_f16(a, b, false), x.sub_r(y, NEAREST)),
        ("mul", half::mul_f16(a, b, false), x.mul_r(y, NEAREST)),
        ("fma", half::fma_f16(a, b, c, false), x.mul_add_r(y, z, NEAREST)),
    ];
    for (name, got, want) in pairs {
        let want = code(want.value, 0x7fff);
        assert_eq!(
            u128::from(got),
            want,
            "{name}.f16 {a:04x} {b:04x} {c:04x}: found {got:04x}, expected {want:04x}"
        );
    }
}

fn check_bf16(a: u16, b: u16, c: u16) {
    let [x, y, z] = [a, b, c].map(|x| BFloat::from_bits(u128::from(x)));
    let pairs = [
        ("add", half::add_bf16(a, b), x.add_r(y, NEAREST)),
        ("sub", half::sub_bf16(a, b), x.sub_r(y, NEAREST)),
        ("mul", half::mul_bf16(a, b), x.mul_r(y, NEAREST)),
        ("fma", half::fma_bf16(a, b, c), x.mul_add_r(y, z, NEAREST)),
    ];
    for (name, got, want) in pairs {
        let want = code(want.value, 0x7fff);
        assert_eq!(
            u128::from(got),
            want,
            "{name}.bf16 {a:04x} {b:04x} {c:04x}: found {got:04x}, expected {want:04x}"
        );
    }
}

#[test]
fn f16_arithmetic() {
    for a in SPECIAL_F16 {
        for b in SPECIAL_F16 {
            for c in SPECIAL_F16 {
                check_f16(a, b, c);
            }
        }
        for b in 0..=u16::MAX {
            check_f16(a, b, 0x3555);
        }
    }
    let mut random = Random(4);
    for i in 0..300_000 {
        let x = random.next();
        let (a, b, c) = (x as u16, (x >> 16) as u16, (x >> 32) as u16);
        // An addend near the product, or far below it, would expose a second rounding.
        let c =
            if i % 2 == 0 { (half::mul_f16(a, b, false) ^ (c & 0x83ff)).wrapping_sub(c & 0x2c00) } else { c };
        check_f16(a, b, c);
    }
}

#[test]
fn bf16_arithmetic() {
    for a in SPECIAL_BF16 {
        for b in SPECIAL_BF16 {
            for c in SPECIAL_BF16 {
                check_bf16(a, b, c);
            }
        }
        for b in 0..=u16::MAX {
            check_bf16(a, b, 0x3eab);
        }
    }
    let mut random = Random(5);
    for i in 0..300_000 {
        let x = random.next();
        let (a, b, c) = (x as u16, (x >> 16) as u16, (x >> 32) as u16);
        let c = if i % 2 == 0 { (half::mul_bf16(a, b) ^ (c & 0x807f)).wrapping_sub(c & 0x0780) } else { c };
        check_bf16(a, b, c);
    }
}

#[test]
fn f16_flushing() {
    let flush = half::flush_f16;
    for a in SPECIAL_F16 {
        for b in SPECIAL_F16 {
            let (x, y) = (flush(a), flush(b));
            assert_eq!(half::add_f16(a, b, true), flush(half::add_f16(x, y, false)));
            assert_eq!(half::mul_f16(a, b, true), flush(half::mul_f16(x, y, false)));
            assert_eq!(half::fma_f16(a, b, a, true), flush(half::fma_f16(x, y, x, false)));
            assert_eq!(half::cmp_f16(Cmp::Lt, a, b, true), half::cmp_f16(Cmp::Lt, x, y, false));
        }
    }
}

/// Order, extrema and signs follow from f32, because widening preserves order.
#[test]
fn order_and_signs() {
    let back = |x: u32| convert::cvt_f16_f32(x, Rounding::Rn, false);
    let back_bf16 = |x: u32| convert::cvt_bf16_f32(x, Rounding::Rn, false);
    let mut random = Random(6);
    let random_pairs: Vec<(u16, u16)> = (0..20_000)
        .map(|_| {
            let x = random.next();
            (x as u16, (x >> 16) as u16)
        })
        .collect();
    let special = SPECIAL_F16.iter().chain(&SPECIAL_BF16);
    let pairs = special.clone().flat_map(|&a| special.clone().map(move |&b| (a, b))).chain(random_pairs);
    for (a, b) in pairs {
        let (x, y) = (convert::cvt_f32_f16(a), convert::cvt_f32_f16(b));
        let (u, v) = (convert::cvt_f32_bf16(a), convert::cvt_f32_bf16(b));
        for which in [Extremum::Min, Extremum::Max] {
            for nan in [false, true] {
                for xorsign in [false, true] {
                    assert_eq!(
                        half::minmax_f16(which, a, b, nan, xorsign, false),
                        back(fix_sign(
                            minmax_f32(which, x, y, nan, false, false),
                            which,
                            a,
                            b,
                            nan,
                            xorsign,
                            x,
                            y
                        )),
                        "{which:?} {a:x} {b:x} {nan} {xorsign}"
                    );
                    assert_eq!(
                        half::minmax_bf16(which, a, b, nan, xorsign),
                        back_bf16(minmax_f32(which, u, v, nan, xorsign, false)),
                        "{which:?} {a:x} {b:x} {nan} {xorsign}"
                    );
                }
            }
        }
        for op in [Cmp::Eq, Cmp::Ne, Cmp::Lt, Cmp::Geu, Cmp::Nan] {
            assert_eq!(half::cmp_f16(op, a, b, false), cmp_f32(op, x, y, false));
            assert_eq!(half::cmp_bf16(op, a, b), cmp_f32(op, u, v, false));
        }
        assert_eq!(half::neg_f16(a, false), if half::is_nan_f16(a) { 0x7fff } else { a ^ 0x8000 });
        assert_eq!(half::abs_f16(a, false), if half::is_nan_f16(a) { 0x7fff } else { a & 0x7fff });
        assert_eq!(half::neg_bf16(a), if half::is_nan_bf16(a) { 0x7fff } else { a ^ 0x8000 });
        assert_eq!(half::abs_bf16(a), if half::is_nan_bf16(a) { 0x7fff } else { a & 0x7fff });
    }
}

/// `.xorsign.abs` on f16 also uses the sign of NaN operands, which widening does not preserve.
#[expect(clippy::too_many_arguments, reason = "the operands in both formats")]
fn fix_sign(plain: u32, which: Extremum, a: u16, b: u16, nan: bool, xorsign: bool, x: u32, y: u32) -> u32 {
    if !xorsign {
        return plain;
    }
    let magnitude = minmax_f32(which, x & 0x7fff_ffff, y & 0x7fff_ffff, nan, false, false);
    if f32::from_bits(magnitude).is_nan() { magnitude } else { magnitude | u32::from((a ^ b) & 0x8000) << 16 }
}

#[test]
fn integral_values() {
    for a in 0..=u16::MAX {
        for rounding in [IntRounding::Rni, IntRounding::Rzi, IntRounding::Rmi, IntRounding::Rpi] {
            let integral = |x: f32| match rounding {
                IntRounding::Rni => x.round_ties_even(),
                IntRounding::Rzi => x.trunc(),
                IntRounding::Rmi => x.floor(),
                IntRounding::Rpi => x.ceil(),
            };
            let x = f32::from_bits(convert::cvt_f32_f16(a));
            let got = convert::rint_f16(a, rounding);
            if x.is_nan() {
                assert_eq!(got, 0x7fff);
            } else {
                assert_eq!(f32::from_bits(convert::cvt_f32_f16(got)).to_bits(), integral(x).to_bits());
            }
            let x = f32::from_bits(convert::cvt_f32_bf16(a));
            let got = convert::rint_bf16(a, rounding);
            if x.is_nan() {
                assert_eq!(got, 0x7fff);
            } else {
                assert_eq!(f32::from_bits(convert::cvt_f32_bf16(got)), integral(x));
            }
        }
    }
}
