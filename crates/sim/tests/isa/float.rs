//! Tests of the family `float`: arithmetic compared with an independent soft-float, the rest with its definition.
#![expect(clippy::unwrap_used, reason = "a value that does not fit fails the test")]

use super::harness::{Column, check, pairs};
use rustc_apfloat::ieee::{Double, Single};
use rustc_apfloat::{Float, Round};
use warpproof_num::Rounding;
use warpproof_num::compare::{Extremum, minmax_f32, minmax_f64};
use warpproof_num::float as num;
use warpproof_num::random::SplitMix;
use warpproof_num::{approx, compare};

/// Zeros, subnormals, ones, ties, huge numbers, infinities, NaNs and a few arbitrary numbers.
pub(super) const SINGLES: [u64; 24] = [
    0,
    0x8000_0000,
    1,
    0x8000_0001,
    0x007f_ffff,
    0x807f_ffff,
    0x0080_0000,
    0x8080_0001,
    0x3f80_0000,
    0xbf80_0000,
    0x3f80_0001,
    0x3f7f_ffff,
    0x3f00_0000,
    0x4020_0000,
    0xc0e0_0000,
    0x4b00_0001,
    0x33ff_ffff,
    0x7f7f_ffff,
    0xff7f_ffff,
    0x7f80_0000,
    0xff80_0000,
    0x7fc0_0000,
    0xff80_0001,
    0x4f00_0000,
];

/// The same kinds of numbers in f64.
pub(super) fn doubles() -> Column {
    let mut all = vec![
        0,
        1,
        0x000f_ffff_ffff_ffff,
        0x0010_0000_0000_0000,
        1.0f64.to_bits(),
        1.0f64.to_bits() + 1,
        1.0f64.to_bits() - 1,
        2.5f64.to_bits(),
        0x4340_0000_0000_0001,
        0x7fef_ffff_ffff_ffff,
        0x7ff0_0000_0000_0000,
        0x7ff8_0000_0000_0000,
        0x7ff0_0000_0000_0123,
    ];
    all.extend(all.clone().iter().map(|x| x | 1 << 63));
    all
}

/// All pairs, then random ones whose exponents are near each other so that sums round.
fn singles2() -> (Column, Column) {
    let (mut a, mut b) = pairs(&SINGLES, &SINGLES);
    let mut random = SplitMix(11);
    for _ in 0..192 {
        let (x, y) = (random.next(), random.next());
        a.push(x & 0x81ff_ffff | 0x3e00_0000);
        b.push(y & 0x83ff_ffff | 0x3c00_0000);
    }
    (a, b)
}

fn doubles2() -> (Column, Column) {
    let all = doubles();
    let (mut a, mut b) = pairs(&all, &all);
    let mut random = SplitMix(12);
    for _ in 0..92 {
        let (x, y) = (random.next(), random.next());
        a.push(x & 0x803f_ffff_ffff_ffff | 0x3fc0_0000_0000_0000);
        b.push(y & 0x807f_ffff_ffff_ffff | 0x3f80_0000_0000_0000);
    }
    (a, b)
}

/// A third column, in another order.
fn shuffled(column: &Column) -> Column {
    column.iter().cycle().skip(7).step_by(5).take(column.len()).copied().collect()
}

pub(super) fn low(bits: u64) -> u32 {
    u32::try_from(bits & 0xffff_ffff).unwrap()
}

pub(super) const ROUNDINGS: [&str; 4] = [".rn", ".rz", ".rm", ".rp"];

pub(super) fn soft_round(name: &str) -> Round {
    match name {
        ".rz" => Round::TowardZero,
        ".rm" => Round::TowardNegative,
        ".rp" => Round::TowardPositive,
        ".rna" => Round::NearestTiesToAway,
        _ => Round::NearestTiesToEven,
    }
}

pub(super) fn num_round(name: &str) -> Rounding {
    match name {
        ".rz" => Rounding::Rz,
        ".rm" => Rounding::Rm,
        ".rp" => Rounding::Rp,
        ".rna" => Rounding::Rna,
        _ => Rounding::Rn,
    }
}

/// A subnormal becomes a zero of its sign.
pub(super) fn flushed(ftz: bool, a: u32) -> u32 {
    if ftz && a & 0x7f80_0000 == 0 { a & 0x8000_0000 } else { a }
}

/// The manual's saturation, on a number or NaN.
pub(super) fn saturated(sat: bool, a: u32) -> u32 {
    let x = f32::from_bits(a);
    if !sat {
        a
    } else if x.is_nan() || x <= 0.0 {
        0
    } else {
        x.min(1.0).to_bits()
    }
}

#[derive(Clone, Copy)]
enum Operation {
    Add,
    Sub,
    Mul,
    Div,
    Fma,
}

use Operation::{Add, Div, Fma, Mul, Sub};

fn apply<F: Float>(operation: Operation, a: F, b: F, c: F, round: Round) -> F {
    match operation {
        Add => a.add_r(b, round).value,
        Sub => a.sub_r(b, round).value,
        Mul => a.mul_r(b, round).value,
        Div => a.div_r(b, round).value,
        Fma => a.mul_add_r(b, c, round).value,
    }
}

fn soft_f32(operation: Operation, round: &str, ftz: bool, sat: bool, operands: &[u64]) -> u64 {
    let x = |i: usize| Single::from_bits(u128::from(flushed(ftz, low(operands[i]))));
    let c = if operands.len() > 2 { x(2) } else { x(0) };
    let d = apply(operation, x(0), x(1), c, soft_round(round));
    let d = if d.is_nan() { 0x7fff_ffff } else { u32::try_from(d.to_bits()).unwrap() };
    u64::from(saturated(sat, flushed(ftz, d)))
}

#[test]
fn single_precision_arithmetic_in_every_mode() {
    let (a, b) = singles2();
    let c = shuffled(&a);
    for (name, operation, roundings, sats) in [
        ("add", Add, ["", ".rn", ".rz", ".rm", ".rp"].as_slice(), ["", ".sat"].as_slice()),
        ("sub", Sub, &["", ".rn", ".rz", ".rm", ".rp"], &["", ".sat"]),
        ("mul", Mul, &["", ".rn", ".rz", ".rm", ".rp"], &["", ".sat"]),
        ("fma", Fma, &ROUNDINGS, &["", ".sat"]),
        ("mad", Fma, &["", ".rn", ".rz", ".rm", ".rp"], &["", ".sat"]),
        ("div", Div, &ROUNDINGS, &[""]),
    ] {
        let three = matches!(operation, Fma);
        for rnd in roundings {
            // All four combinations of `.ftz` and `.sat` in one kernel.
            let modes: Vec<(&str, &str)> =
                ["", ".ftz"].into_iter().flat_map(|ftz| sats.iter().map(move |sat| (ftz, *sat))).collect();
            let sources = if three { "%s0, %s1, %s2" } else { "%s0, %s1" };
            let body: Vec<String> = (0..)
                .zip(&modes)
                .map(|(i, (ftz, sat)): (u32, _)| format!("{name}{rnd}{ftz}{sat}.f32 %d{i}, {sources};"))
                .collect();
            let mut columns = vec![("f32", a.clone()), ("f32", b.clone())];
            if three {
                columns.push(("f32", c.clone()));
            }
            // Without a rounding, `mad` is that of sm_1x: fused, and it always flushes.
            let flushes = |ftz: &str| !ftz.is_empty() || (name == "mad" && rnd.is_empty());
            check(&body.join("\n"), &vec!["f32"; modes.len()], &columns, |x| {
                modes
                    .iter()
                    .map(|(ftz, sat)| soft_f32(operation, rnd, flushes(ftz), !sat.is_empty(), x))
                    .collect()
            });
        }
    }
}

#[test]
fn double_precision_arithmetic_in_every_rounding() {
    let (a, b) = doubles2();
    let c = shuffled(&a);
    let soft = |operation, rnd: &str, x: &[u64]| {
        let f = |i: usize| Double::from_bits(u128::from(x[i]));
        let d = apply(operation, f(0), f(1), f(x.len() - 1), soft_round(rnd));
        // The tests of the arithmetic cover the choice of the NaN.
        if d.is_nan() { None } else { Some(u64::try_from(d.to_bits()).unwrap()) }
    };
    for rnd in ROUNDINGS {
        let r = num_round(rnd);
        let plain = if rnd == ".rn" { "" } else { rnd };
        let body = format!(
            "add{plain}.f64 %d0, %s0, %s1;\nsub{plain}.f64 %d1, %s0, %s1;\nmul{plain}.f64 %d2, %s0, %s1;\n\
             div{rnd}.f64 %d3, %s0, %s1;\nfma{rnd}.f64 %d4, %s0, %s1, %s2;\nmad{rnd}.f64 %d5, %s0, %s1, %s2;\n\
             rcp{rnd}.f64 %d6, %s0;\nsqrt{rnd}.f64 %d7, %s0;\nadd{rnd}.f64 %d8, %s0, %s1;"
        );
        let columns = [("f64", a.clone()), ("f64", b.clone()), ("f64", c.clone())];
        check(&body, &["f64"; 9], &columns, |x| {
            let fma = soft(Fma, rnd, x).unwrap_or_else(|| num::fma_f64(x[0], x[1], x[2], r));
            let add = soft(Add, rnd, &x[..2]).unwrap_or_else(|| num::add_f64(x[0], x[1], r));
            vec![
                add,
                soft(Sub, rnd, &x[..2]).unwrap_or_else(|| num::sub_f64(x[0], x[1], r)),
                soft(Mul, rnd, &x[..2]).unwrap_or_else(|| num::mul_f64(x[0], x[1], r)),
                soft(Div, rnd, &x[..2]).unwrap_or_else(|| num::div_f64(x[0], x[1], r)),
                fma,
                fma,
                soft(Div, rnd, &[1.0f64.to_bits(), x[0]]).unwrap_or_else(|| num::rcp_f64(x[0], r)),
                num::sqrt_f64(x[0], r),
                add,
            ]
        });
    }
}

#[test]
fn reciprocals_and_roots() {
    let (a, _) = singles2();
    for rnd in ROUNDINGS {
        let body = format!(
            "rcp{rnd}.f32 %d0, %s0;\nrcp{rnd}.ftz.f32 %d1, %s0;\nsqrt{rnd}.f32 %d2, %s0;\nsqrt{rnd}.ftz.f32 %d3, %s0;"
        );
        check(&body, &["f32"; 4], &[("f32", a.clone())], |x| {
            let one = u64::from(1.0f32.to_bits());
            let root = |ftz| u64::from(num::sqrt_f32(low(x[0]), num_round(rnd), ftz));
            vec![
                soft_f32(Div, rnd, false, false, &[one, x[0]]),
                soft_f32(Div, rnd, true, false, &[one, x[0]]),
                root(false),
                root(true),
            ]
        });
    }
}

#[test]
fn approximate_divisions() {
    let (a, b) = singles2();
    let body = "div.approx.f32 %d0, %s0, %s1;\ndiv.approx.ftz.f32 %d1, %s0, %s1;\n\
                div.full.f32 %d2, %s0, %s1;\ndiv.full.ftz.f32 %d3, %s0, %s1;";
    check(body, &["f32"; 4], &[("f32", a), ("f32", b)], |x| {
        let (a, b) = (low(x[0]), low(x[1]));
        [
            approx::div_approx_f32(a, b, false),
            approx::div_approx_f32(a, b, true),
            approx::div_full_f32(a, b, false),
            approx::div_full_f32(a, b, true),
        ]
        .map(u64::from)
        .to_vec()
    });
}

#[test]
fn signs() {
    let (a, b) = singles2();
    let body = "abs.f32 %d0, %s0;\nabs.ftz.f32 %d1, %s0;\nneg.f32 %d2, %s0;\nneg.ftz.f32 %d3, %s0;\n\
                copysign.f32 %d4, %s0, %s1;";
    check(body, &["f32"; 5], &[("f32", a), ("f32", b)], |x| {
        let (a, b) = (low(x[0]), low(x[1]));
        let nan = |d: u32| if f32::from_bits(a).is_nan() { 0x7fff_ffff } else { d };
        [
            nan(a & 0x7fff_ffff),
            nan(flushed(true, a) & 0x7fff_ffff),
            nan(a ^ 0x8000_0000),
            nan(flushed(true, a) ^ 0x8000_0000),
            a & 0x8000_0000 | b & 0x7fff_ffff,
        ]
        .map(u64::from)
        .to_vec()
    });
    let (a, b) = doubles2();
    let body = "abs.f64 %d0, %s0;\nneg.f64 %d1, %s0;\ncopysign.f64 %d2, %s0, %s1;";
    check(body, &["f64"; 3], &[("f64", a), ("f64", b)], |x| {
        let sign = 1 << 63;
        vec![compare::abs_f64(x[0]), x[0] ^ sign, x[0] & sign | x[1] & !sign]
    });
}

#[test]
fn minima_and_maxima() {
    let (a, b) = singles2();
    for (name, which) in [("min", Extremum::Min), ("max", Extremum::Max)] {
        let modes = [
            "",
            ".ftz",
            ".NaN",
            ".ftz.NaN",
            ".xorsign.abs",
            ".ftz.xorsign.abs",
            ".NaN.xorsign.abs",
            ".ftz.NaN.xorsign.abs",
        ];
        let body: Vec<String> = modes
            .iter()
            .zip(0..)
            .map(|(mode, i): (_, u32)| format!("{name}{mode}.f32 %d{i}, %s0, %s1;"))
            .collect();
        check(&body.join("\n"), &["f32"; 8], &[("f32", a.clone()), ("f32", b.clone())], |x| {
            modes
                .map(|m| {
                    let (nan, xorsign, ftz) = (m.contains("NaN"), m.contains("xorsign"), m.contains("ftz"));
                    u64::from(minmax_f32(which, low(x[0]), low(x[1]), nan, xorsign, ftz))
                })
                .to_vec()
        });
        let (a, b) = doubles2();
        check(&format!("{name}.f64 %d0, %s0, %s1;"), &["f64"], &[("f64", a), ("f64", b)], |x| {
            let (p, q) = (f64::from_bits(x[0]), f64::from_bits(x[1]));
            let first = p.total_cmp(&q).is_lt() == (name == "min");
            vec![match (p.is_nan(), q.is_nan()) {
                (true, true) => minmax_f64(which, x[0], x[1]),
                (false, q_nan) if q_nan || first => x[0],
                _ => x[1],
            }]
        });
    }
}

#[test]
fn properties() {
    let tests = |x: f64, subnormal: bool| {
        [x.is_finite(), x.is_infinite(), !x.is_nan(), x.is_nan(), x.is_finite() && !subnormal, subnormal]
            .map(u64::from)
            .to_vec()
    };
    let body = |ty: &str| {
        let lines: Vec<String> = ["finite", "infinite", "number", "notanumber", "normal", "subnormal"]
            .iter()
            .zip(0..)
            .map(|(op, i): (_, u32)| format!("testp.{op}.{ty} %d{i}, %s0;"))
            .collect();
        lines.join("\n")
    };
    check(&body("f32"), &["pred"; 6], &[("f32", SINGLES.to_vec())], |x| {
        let x = f32::from_bits(low(x[0]));
        tests(f64::from(x), x.is_subnormal())
    });
    check(&body("f64"), &["pred"; 6], &[("f64", doubles())], |x| {
        let x = f64::from_bits(x[0]);
        tests(x, x.is_subnormal())
    });
}

#[test]
fn immediates_and_guards() {
    let body = ".reg .pred %q; testp.normal.f32 %q, %s0; mov.b32 %d0, 7; mov.b32 %d1, 7;\n\
                @%q add.f32 %d0, %s0, 0f3F800000; @!%q mul.f32 %d1, %s0, 2.0;";
    check(body, &["f32"; 2], &[("f32", SINGLES.to_vec())], |x| {
        let a = f32::from_bits(low(x[0]));
        let code = |d: f32| u64::from(if d.is_nan() { 0x7fff_ffff } else { d.to_bits() });
        if a.is_normal() || a == 0.0 { vec![code(a + 1.0), 7] } else { vec![7, code(a * 2.0)] }
    });
}
