//! f32 and f64 arithmetic in every rounding, compared with an independent soft-float.
#![expect(
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    clippy::float_cmp,
    clippy::verbose_bit_mask,
    reason = "codes of numbers change width on purpose"
)]

use rustc_apfloat::ieee::{Double, Quad, Single};
use rustc_apfloat::{Float, FloatConvert, Round};
use warpproof_num::Rounding;
use warpproof_num::compare::{self, Cmp, Extremum, Property};
use warpproof_num::float::{self, NAN_F32, NAN_F64};

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

    /// Any f32; every other time one with an exponent near that of `near`, so that sums cancel and round.
    fn f32(&mut self, near: u32) -> u32 {
        let x = self.next();
        let raw = x as u32;
        match x >> 61 {
            0..=3 => raw,
            4..=5 => {
                let exponent =
                    (near >> 23 & 0xff).wrapping_add((x >> 40) as u32 % 54).wrapping_sub(27) & 0xff;
                (raw & 0x807f_ffff) | (exponent << 23)
            }
            // Few significant bits: exact results and ties.
            6 => raw & 0xfff0_0000,
            _ => raw & 0x807f_ffff,
        }
    }

    fn f64(&mut self, near: u64) -> u64 {
        let (x, raw) = (self.next(), self.next());
        match x >> 61 {
            0..=3 => raw,
            4..=5 => {
                let exponent = (near >> 52 & 0x7ff).wrapping_add((x >> 40) % 110).wrapping_sub(55) & 0x7ff;
                (raw & 0x800f_ffff_ffff_ffff) | (exponent << 52)
            }
            6 => raw & 0xffff_c000_0000_0000,
            _ => raw & 0x800f_ffff_ffff_ffff,
        }
    }
}

const SPECIAL_F32: [u32; 26] = [
    0,
    0x8000_0000,
    1,
    0x8000_0001,
    0x007f_ffff,
    0x807f_ffff,
    0x0080_0000,
    0x8080_0000,
    0x0080_0001,
    0x3f80_0000,
    0xbf80_0000,
    0x3f80_0001,
    0x3f7f_ffff,
    0x4000_0000,
    0x3f00_0000,
    0x4b00_0000,
    0x4b00_0001,
    0x7f7f_ffff,
    0xff7f_ffff,
    0x7f00_0000,
    0x7f80_0000,
    0xff80_0000,
    0x7fc0_0000,
    0xffc0_0001,
    0x7f80_0001,
    0x7fff_ffff,
];

fn special_f64() -> Vec<u64> {
    let mut all = vec![
        0,
        1,
        0x000f_ffff_ffff_ffff,
        0x0010_0000_0000_0000,
        0x0010_0000_0000_0001,
        1.0f64.to_bits(),
        1.0f64.to_bits() + 1,
        1.0f64.to_bits() - 1,
        2.0f64.to_bits(),
        0.5f64.to_bits(),
        0x4340_0000_0000_0000,
        0x7fef_ffff_ffff_ffff,
        0x7fe0_0000_0000_0000,
        0x7ff0_0000_0000_0000,
        0x7ff8_0000_0000_0000,
        0x7ff0_0000_0000_0123,
    ];
    for i in 0..all.len() {
        all.push(all[i] | 1 << 63);
    }
    all
}

fn single(x: u32) -> Single {
    Single::from_bits(u128::from(x))
}

fn code32(x: Single) -> u32 {
    if x.is_nan() { NAN_F32 } else { x.to_bits() as u32 }
}

fn double(x: u64) -> Double {
    Double::from_bits(u128::from(x))
}

/// The code of a result, with the first NaN operand made quiet.
fn code64(x: Double, operands: &[u64]) -> u64 {
    if x.is_nan() {
        operands.iter().find(|x| float::is_nan_f64(**x)).map_or(NAN_F64, |x| x | 0x0008_0000_0000_0000)
    } else {
        x.to_bits() as u64
    }
}

fn check_f32(a: u32, b: u32, c: u32) {
    for (rounding, round) in ROUNDINGS {
        let (x, y, z) = (single(a), single(b), single(c));
        let pairs = [
            ("add", float::add_f32(a, b, rounding, false), x.add_r(y, round)),
            ("sub", float::sub_f32(a, b, rounding, false), x.sub_r(y, round)),
            ("mul", float::mul_f32(a, b, rounding, false), x.mul_r(y, round)),
            ("div", float::div_f32(a, b, rounding, false), x.div_r(y, round)),
            ("fma", float::fma_f32(a, b, c, rounding, false), x.mul_add_r(y, z, round)),
            ("rcp", float::rcp_f32(a, rounding, false), single(0x3f80_0000).div_r(x, round)),
        ];
        for (name, got, want) in pairs {
            let want = code32(want.value);
            assert_eq!(
                got, want,
                "{name}.{rounding:?} {a:08x} {b:08x} {c:08x}: found {got:08x}, expected {want:08x}"
            );
        }
    }
}

fn check_f64(a: u64, b: u64, c: u64) {
    for (rounding, round) in ROUNDINGS {
        let (x, y, z) = (double(a), double(b), double(c));
        let one = 1.0f64.to_bits();
        let pairs = [
            ("add", float::add_f64(a, b, rounding), code64(x.add_r(y, round).value, &[a, b])),
            ("sub", float::sub_f64(a, b, rounding), code64(x.sub_r(y, round).value, &[a, b])),
            ("mul", float::mul_f64(a, b, rounding), code64(x.mul_r(y, round).value, &[a, b])),
            ("div", float::div_f64(a, b, rounding), code64(x.div_r(y, round).value, &[a, b])),
            ("fma", float::fma_f64(a, b, c, rounding), code64(x.mul_add_r(y, z, round).value, &[a, b, c])),
            ("rcp", float::rcp_f64(a, rounding), code64(double(one).div_r(x, round).value, &[a])),
        ];
        for (name, got, want) in pairs {
            assert_eq!(
                got, want,
                "{name}.{rounding:?} {a:016x} {b:016x} {c:016x}: found {got:016x}, expected {want:016x}"
            );
        }
    }
}

#[test]
fn f32_special_operands() {
    for a in SPECIAL_F32 {
        for b in SPECIAL_F32 {
            for c in SPECIAL_F32 {
                check_f32(a, b, c);
            }
        }
    }
}

#[test]
fn f64_special_operands() {
    let all = special_f64();
    for &a in &all {
        for &b in &all {
            for &c in &all {
                check_f64(a, b, c);
            }
        }
    }
}

/// Four tests share a million random triples of each type, so that a test runner can run them in parallel.
fn random_f32(seed: u64) {
    let mut random = Random(seed);
    for _ in 0..250_000 {
        let a = random.f32(0x3f80_0000);
        let b = random.f32(a);
        // An addend near the product makes fused operations cancel.
        let product = float::mul_f32(a, b, Rounding::Rn, false);
        let c = random.f32(product);
        check_f32(a, b, c);
    }
}

fn random_f64(seed: u64) {
    let mut random = Random(seed);
    for _ in 0..250_000 {
        let a = random.f64(1.0f64.to_bits());
        let b = random.f64(a);
        let product = float::mul_f64(a, b, Rounding::Rn);
        let c = random.f64(product);
        check_f64(a, b, c);
    }
}

#[test]
fn f32_random_1() {
    random_f32(1);
}

#[test]
fn f32_random_2() {
    random_f32(2);
}

#[test]
fn f32_random_3() {
    random_f32(3);
}

#[test]
fn f32_random_4() {
    random_f32(4);
}

#[test]
fn f64_random_1() {
    random_f64(5);
}

#[test]
fn f64_random_2() {
    random_f64(6);
}

#[test]
fn f64_random_3() {
    random_f64(7);
}

#[test]
fn f64_random_4() {
    random_f64(8);
}

/// The soft-float has no square root; this checks its definition instead, with squares that are exact in f64 and in quad.
#[test]
fn square_roots() {
    let mut random = Random(9);
    let up32 = |x: u32| f64::from(f32::from_bits(x + 1));
    let down32 = |x: u32| f64::from(f32::from_bits(x.saturating_sub(1)));
    for i in 0..200_000u32 {
        let raw = if i < 26 { SPECIAL_F32[i as usize] } else { random.f32(0x3f80_0000) };
        let [rn, rz, rm, rp] = ROUNDINGS.map(|(rounding, _)| float::sqrt_f32(raw, rounding, false));
        let a = f32::from_bits(raw);
        if a.is_nan() || a < 0.0 {
            assert_eq!([rn, rz, rm, rp], [NAN_F32; 4]);
            continue;
        }
        if a == 0.0 || a.is_infinite() {
            assert_eq!([rn, rz, rm, rp], [raw; 4]);
            continue;
        }
        let exact = f64::from(a);
        let low = f64::from(f32::from_bits(rz));
        let high = f64::from(f32::from_bits(rp));
        assert_eq!(rz, rm);
        assert!(low * low <= exact && up32(rz) * up32(rz) > exact, "{raw:x}");
        assert!(high * high >= exact && down32(rp) * down32(rp) < exact, "{raw:x}");
        // √a is above the middle of its neighbors exactly if a is above the middle's square, which has 50 bits.
        let middle = low.midpoint(high);
        let nearest = if rz == rp || middle * middle > exact { rz } else { rp };
        assert_eq!(rn, nearest, "{raw:x}");
    }
    let quad = |x: u64| -> Quad { double(x).convert(&mut false).value };
    for _ in 0..40_000 {
        let raw = random.f64(1.0f64.to_bits()) & !(1 << 63);
        if raw >= 0x7ff0_0000_0000_0000 || raw == 0 {
            continue;
        }
        let [rn, rz, rm, rp] = ROUNDINGS.map(|(rounding, _)| float::sqrt_f64(raw, rounding));
        let square = |x: u64| (quad(x) * quad(x)).value;
        assert_eq!(rz, rm);
        assert!(square(rz) <= quad(raw) && square(rz + 1) > quad(raw), "{raw:x}");
        assert!(square(rp) >= quad(raw) && square(rp - 1) < quad(raw), "{raw:x}");
        assert_eq!(rn, f64::from_bits(raw).sqrt().to_bits());
    }
    assert_eq!(float::sqrt_f64((-1.0f64).to_bits(), Rounding::Rz), NAN_F64);
    assert_eq!(float::sqrt_f64(0x7ff0_0000_0000_0001, Rounding::Rp), 0x7ff8_0000_0000_0001);
    assert_eq!(float::sqrt_f64(1 << 63, Rounding::Rp), 1 << 63);
}

/// `.ftz` equals flushing the operands, then the result.
#[test]
fn flush_to_zero() {
    let mut random = Random(10);
    let flush = float::flush_f32;
    for i in 0..100_000u32 {
        let mut operand = |i: u32| {
            if i.is_multiple_of(3) {
                SPECIAL_F32[random.next() as usize % 26]
            } else {
                random.f32(0x0100_0000)
            }
        };
        let (a, b, c) = (operand(i), operand(i / 3), operand(i / 9));
        for (rounding, _) in ROUNDINGS {
            let (x, y, z) = (flush(a), flush(b), flush(c));
            let pairs = [
                (float::add_f32(a, b, rounding, true), float::add_f32(x, y, rounding, false)),
                (float::sub_f32(a, b, rounding, true), float::sub_f32(x, y, rounding, false)),
                (float::mul_f32(a, b, rounding, true), float::mul_f32(x, y, rounding, false)),
                (float::fma_f32(a, b, c, rounding, true), float::fma_f32(x, y, z, rounding, false)),
                (float::div_f32(a, b, rounding, true), float::div_f32(x, y, rounding, false)),
                (float::sqrt_f32(a, rounding, true), float::sqrt_f32(x, rounding, false)),
            ];
            for (got, want) in pairs {
                assert_eq!(got, flush(want));
                assert!(got & 0x7f80_0000 != 0 || got & 0x7fff_ffff == 0);
            }
        }
    }
    assert_eq!(flush(0x8000_0001), 0x8000_0000);
}

#[test]
fn saturation() {
    for (input, want) in [
        (0x7fc0_0000u32, 0),
        (0xff80_0000, 0),
        (0x8000_0000, 0),
        (0x7f80_0000, 0x3f80_0000),
        (0x3f80_0001, 0x3f80_0000),
        (0x3f00_0000, 0x3f00_0000),
        (1, 1),
    ] {
        assert_eq!(float::sat_f32(input), want);
    }
    assert_eq!(float::sat_f64(NAN_F64), 0);
    assert_eq!(float::sat_f64(2.0f64.to_bits()), 1.0f64.to_bits());
    assert_eq!(float::sat_f64((-0.0f64).to_bits()), 0);
}

#[test]
fn comparisons() {
    let ops = [
        (Cmp::Eq, Cmp::Equ),
        (Cmp::Ne, Cmp::Neu),
        (Cmp::Lt, Cmp::Ltu),
        (Cmp::Le, Cmp::Leu),
        (Cmp::Gt, Cmp::Gtu),
        (Cmp::Ge, Cmp::Geu),
        (Cmp::Num, Cmp::Nan),
    ];
    for a in SPECIAL_F32 {
        for b in SPECIAL_F32 {
            let order = single(a).partial_cmp(&single(b));
            for (ordered, unordered) in ops {
                let want = order.is_some_and(|order| match ordered {
                    Cmp::Eq => order.is_eq(),
                    Cmp::Ne => order.is_ne(),
                    Cmp::Lt => order.is_lt(),
                    Cmp::Le => order.is_le(),
                    Cmp::Gt => order.is_gt(),
                    Cmp::Ge => order.is_ge(),
                    _ => true,
                });
                let loose = if unordered == Cmp::Nan { order.is_none() } else { want || order.is_none() };
                assert_eq!(compare::cmp_f32(ordered, a, b, false), want, "{ordered:?} {a:x} {b:x}");
                assert_eq!(compare::cmp_f32(unordered, a, b, false), loose, "{unordered:?} {a:x} {b:x}");
                let (x, y) = (float::flush_f32(a), float::flush_f32(b));
                assert_eq!(compare::cmp_f32(ordered, a, b, true), compare::cmp_f32(ordered, x, y, false));
                let wide = |x: u32| f64::from(f32::from_bits(x)).to_bits();
                assert_eq!(compare::cmp_f64(ordered, wide(a), wide(b)), want);
                assert_eq!(compare::cmp_f64(unordered, wide(a), wide(b)), loose);
            }
        }
    }
}

/// The manual's definition of `min` and `max`, as code.
fn manual_minmax(which: Extremum, a: u32, b: u32, nan: bool, xorsign_abs: bool) -> u32 {
    let is_nan = |x: u32| f32::from_bits(x).is_nan();
    let xorsign = (a ^ b) & 0x8000_0000;
    let (a, b) = if xorsign_abs { (a & 0x7fff_ffff, b & 0x7fff_ffff) } else { (a, b) };
    let result = if is_nan(a) && is_nan(b) || nan && (is_nan(a) || is_nan(b)) {
        NAN_F32
    } else if is_nan(a) {
        b
    } else if is_nan(b) {
        a
    } else {
        let (x, y) = (f32::from_bits(a), f32::from_bits(b));
        let less = x < y || (x == y && a >> 31 > b >> 31);
        if less == (which == Extremum::Min) { a } else { b }
    };
    if xorsign_abs && !is_nan(result) { (result & 0x7fff_ffff) | xorsign } else { result }
}

#[test]
fn minimum_and_maximum() {
    let mut random = Random(12);
    let mut pairs: Vec<(u32, u32)> = SPECIAL_F32.iter().flat_map(|&a| SPECIAL_F32.map(|b| (a, b))).collect();
    pairs.extend((0..20_000).map(|_| {
        let a = random.f32(0);
        (a, random.f32(a))
    }));
    for (a, b) in pairs {
        for which in [Extremum::Min, Extremum::Max] {
            for nan in [false, true] {
                for xorsign_abs in [false, true] {
                    let got = compare::minmax_f32(which, a, b, nan, xorsign_abs, false);
                    let want = manual_minmax(which, a, b, nan, xorsign_abs);
                    assert_eq!(got, want, "{which:?} {a:x} {b:x} {nan} {xorsign_abs}");
                    let (x, y) = (float::flush_f32(a), float::flush_f32(b));
                    assert_eq!(
                        compare::minmax_f32(which, a, b, nan, xorsign_abs, true),
                        manual_minmax(which, x, y, nan, xorsign_abs)
                    );
                }
            }
            if !f32::from_bits(a).is_nan() && !f32::from_bits(b).is_nan() {
                let wide = |x: u32| f64::from(f32::from_bits(x)).to_bits();
                assert_eq!(
                    compare::minmax_f64(which, wide(a), wide(b)),
                    wide(manual_minmax(which, a, b, false, false))
                );
            }
        }
    }
    assert_eq!(compare::minmax_f64(Extremum::Min, NAN_F64, 5), 5);
    assert_eq!(compare::minmax_f64(Extremum::Min, 0x7ff0_0000_0000_0001, NAN_F64), 0x7ff8_0000_0000_0001);
}

#[test]
fn signs_and_classes() {
    for a in SPECIAL_F32 {
        let x = f32::from_bits(a);
        if x.is_nan() {
            assert_eq!(compare::abs_f32(a, false), NAN_F32);
            assert_eq!(compare::neg_f32(a, false), NAN_F32);
        } else {
            assert_eq!(compare::abs_f32(a, false), x.abs().to_bits());
            assert_eq!(compare::neg_f32(a, false), (-x).to_bits());
            assert_eq!(compare::neg_f32(a, true), float::flush_f32((-x).to_bits()));
        }
        assert_eq!(compare::copysign_f32(0x8000_0000, a), a | 0x8000_0000);
        let wanted = [
            (Property::Finite, x.is_finite()),
            (Property::Infinite, x.is_infinite()),
            (Property::Number, !x.is_nan()),
            (Property::NotANumber, x.is_nan()),
            (Property::Normal, x.is_normal() || x == 0.0),
            (Property::Subnormal, x.is_subnormal()),
        ];
        for (property, want) in wanted {
            assert_eq!(compare::testp_f32(property, a), want, "{property:?} {a:x}");
        }
    }
    for a in special_f64() {
        let x = f64::from_bits(a);
        let wanted = [
            (Property::Finite, x.is_finite()),
            (Property::Infinite, x.is_infinite()),
            (Property::Number, !x.is_nan()),
            (Property::NotANumber, x.is_nan()),
            (Property::Normal, x.is_normal() || x == 0.0),
            (Property::Subnormal, x.is_subnormal()),
        ];
        for (property, want) in wanted {
            assert_eq!(compare::testp_f64(property, a), want, "{property:?} {a:x}");
        }
        assert_eq!(compare::abs_f64(a), if x.is_nan() { a } else { a & !(1 << 63) });
        assert_eq!(compare::neg_f64(a), a ^ (1 << 63));
        assert_eq!(compare::copysign_f64(a, 7), (a & (1 << 63)) | 7);
    }
    assert!(compare::slct_f32(0x8000_0000, false));
    assert!(!compare::slct_f32(NAN_F32, false));
    assert!(!compare::slct_f32(0x8000_0001, false));
    assert!(compare::slct_f32(0x8000_0001, true));
}
