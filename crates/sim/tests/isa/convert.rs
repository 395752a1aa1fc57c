//! Tests of the family `convert`: integers compared with plain integer arithmetic, floating point with an independent
//! soft-float, packed forms with the scalar arithmetic, which has exhaustive tests of its own.
#![expect(clippy::unwrap_used, reason = "a value that does not fit fails the test")]

use super::float::{ROUNDINGS, SINGLES, doubles, flushed, low, num_round, saturated, soft_round};
use super::harness::{Column, check, eval, patterns};
use rustc_apfloat::ieee::{BFloat, Double, Half, Single};
use rustc_apfloat::{Float, FloatConvert, Round};
use warpproof_num::fp8::{self, Fp8};
use warpproof_num::random::SplitMix;
use warpproof_num::{convert, half};

const INTEGERS: [&str; 8] = ["u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64"];
const INTEGER_ROUNDINGS: [&str; 4] = [".rni", ".rzi", ".rmi", ".rpi"];

fn bits(ty: &str) -> u32 {
    ty[1..].parse().unwrap()
}

fn signed(ty: &str) -> bool {
    ty.starts_with('s')
}

fn cut(x: u64, bits: u32) -> u64 {
    x & (u64::MAX >> (64 - bits))
}

/// The low bits of a register, as an integer of a type.
fn value(x: u64, ty: &str) -> i128 {
    let unused = 128 - bits(ty);
    let x = i128::from(x);
    if signed(ty) { x << unused >> unused } else { (x.cast_unsigned() << unused >> unused).cast_signed() }
}

/// An integer truncated to a type, then extended by its sign to a register.
fn stored(x: i128, ty: &str, register: u32) -> u64 {
    let cut = value(u64::try_from(x & i128::from(u64::MAX)).unwrap(), ty);
    let mask = (1i128 << register) - 1;
    u64::try_from(cut & mask).unwrap()
}

fn range(ty: &str) -> (i128, i128) {
    let bits = bits(ty);
    if signed(ty) { (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) } else { (0, (1 << bits) - 1) }
}

/// The register that the harness uses for a type.
fn register(ty: &str) -> u32 {
    bits(ty).max(16)
}

fn lines(types: &[&str], line: impl Fn(usize, &str) -> String) -> String {
    types.iter().enumerate().map(|(i, ty)| line(i, ty)).collect::<Vec<_>>().join("\n")
}

#[test]
fn integers_to_integers() {
    for from in INTEGERS {
        let body = lines(&INTEGERS, |i, to| format!("cvt.{to}.{from} %d{i}, %s0;"));
        let column: Column = patterns(64).iter().map(|x| cut(*x, register(from))).collect();
        check(&body, &INTEGERS, &[(from, column)], |x| {
            INTEGERS.map(|to| stored(value(x[0], from), to, register(to))).to_vec()
        });
        // Registers wider than both types.
        check(&body, &["b64"; 8], &[("b64", patterns(64))], |x| {
            INTEGERS.map(|to| stored(value(x[0], from), to, 64)).to_vec()
        });
        let narrow: Vec<&str> = INTEGERS.into_iter().filter(|ty| bits(ty) <= 32).collect();
        let body = lines(&narrow, |i, to| format!("cvt.{to}.{from} %d{i}, %s0;"));
        let source = if bits(from) == 64 { "b64" } else { "b32" };
        let column: Column = patterns(64).iter().map(|x| cut(*x, bits(source).max(32))).collect();
        check(&body, &vec!["b32"; narrow.len()], &[(source, column)], |x| {
            narrow.iter().map(|to| stored(value(x[0], from), to, 32)).collect()
        });
    }
}

#[test]
fn integers_that_saturate() {
    for from in INTEGERS {
        // `.sat` is valid only for results that do not hold every value of the source.
        let (low, high) = range(from);
        let results: Vec<&str> =
            INTEGERS.into_iter().filter(|to| range(to).0 > low || range(to).1 < high).collect();
        if results.is_empty() {
            continue;
        }
        let body = lines(&results, |i, to| format!("cvt.sat.{to}.{from} %d{i}, %s0;"));
        let expected = |x: u64, to: &str, register| {
            let (low, high) = range(to);
            stored(value(x, from).clamp(low, high), to, register)
        };
        let column: Column = patterns(96).iter().map(|x| cut(*x, register(from))).collect();
        check(&body, &results, &[(from, column)], |x| {
            results.iter().map(|to| expected(x[0], to, register(to))).collect()
        });
        check(&body, &vec!["b64"; results.len()], &[("b64", patterns(96))], |x| {
            results.iter().map(|to| expected(x[0], to, 64)).collect()
        });
    }
}

/// Numbers around the edges of every integer type, halves between integers, and specials.
fn numbers() -> Vec<f64> {
    let mut all =
        vec![0.0, -0.0, 0.5, 1.5, 2.5, 3.25, 0.75, 126.5, 1e-40, 1e30, 1e300, f64::INFINITY, f64::NAN];
    for bits in [7, 8, 15, 16, 31, 32, 63, 64] {
        let edge = f64::from(bits).exp2();
        all.extend([edge, edge - 0.5, edge - 1.0, edge + 1.0, edge * (1.0 - 2e-8)]);
    }
    let mut random = SplitMix(21);
    for _ in 0..40 {
        let word = random.next();
        let scale = f64::from(i32::try_from(word & 63).unwrap() - 16).exp2();
        all.push(f64::from(u32::try_from(word >> 32).unwrap()) / 4294967296.0 * scale);
    }
    let negative: Vec<f64> = all.iter().map(|x| -x).collect();
    all.extend(negative);
    all
}

fn code<T: Float>(x: f64) -> u64
where
    Double: FloatConvert<T>,
{
    let wide = Double::from_bits(u128::from(x.to_bits()));
    u64::try_from(wide.convert_r(Round::NearestTiesToEven, &mut false).value.to_bits()).unwrap()
}

/// The value of a code as f64: a NaN code gives NaN in any format, and everything else is exact.
fn number<T: Float + FloatConvert<Double>>(code: u64) -> f64 {
    let wide: Double = T::from_bits(u128::from(code)).convert_r(Round::NearestTiesToEven, &mut false).value;
    f64::from_bits(u64::try_from(wide.to_bits()).unwrap())
}

fn rounded(x: f64, rounding: &str) -> f64 {
    match rounding {
        ".rni" => x.round_ties_even(),
        ".rzi" => x.trunc(),
        ".rmi" => x.floor(),
        _ => x.ceil(),
    }
}

#[expect(clippy::as_conversions, clippy::cast_possible_truncation, reason = "an integral number, clamped")]
fn clamped(x: f64, from: &str, to: &str) -> i128 {
    let (low, high) = range(to);
    if !x.is_nan() {
        (x as i128).clamp(low, high)
    } else if from == "f64" || bits(to) == 64 {
        1 << (bits(to) - 1)
    } else {
        0
    }
}

fn to_integers<T: Float + FloatConvert<Double>>(from: &str, modes: &[&str])
where
    Double: FloatConvert<T>,
{
    let column: Column = numbers().into_iter().map(code::<T>).collect();
    for rnd in INTEGER_ROUNDINGS {
        for mode in modes {
            let body = lines(&INTEGERS, |i, to| format!("cvt{rnd}{mode}.{to}.{from} %d{i}, %s0;"));
            let expected = |x: u64, to: &str, register| {
                let flush = mode.contains("ftz") && from == "f32";
                let x = if flush { u64::from(flushed(true, low(x))) } else { x };
                stored(clamped(rounded(number::<T>(x), rnd), from, to), to, register)
            };
            check(&body, &INTEGERS, &[(from, column.clone())], |x| {
                INTEGERS.map(|to| expected(x[0], to, register(to))).to_vec()
            });
            check(&body, &["b64"; 8], &[("b64", column.clone())], |x| {
                INTEGERS.map(|to| expected(x[0], to, 64)).to_vec()
            });
        }
    }
}

#[test]
fn floats_to_integers() {
    to_integers::<Single>("f32", &["", ".ftz", ".sat", ".ftz.sat"]);
    to_integers::<Double>("f64", &["", ".sat"]);
    to_integers::<Half>("f16", &["", ".sat"]);
    to_integers::<BFloat>("bf16", &["", ".sat"]);
}

fn from_integers<T: Float>(to: &str, modes: &[&str], saturate: impl Fn(u64) -> u64) {
    for from in INTEGERS {
        let column: Column = patterns(160).iter().map(|x| cut(*x, register(from))).collect();
        for mode in modes {
            let body = lines(&ROUNDINGS, |i, rnd| format!("cvt{rnd}{mode}.{to}.{from} %d{i}, %s0;"));
            let expected = |x: &[u64]| {
                ROUNDINGS
                    .map(|rnd| {
                        let d = T::from_i128_r(value(x[0], from), soft_round(rnd)).value;
                        let d = u64::try_from(d.to_bits()).unwrap();
                        if mode.contains("sat") { saturate(d) } else { d }
                    })
                    .to_vec()
            };
            check(&body, &[to; 4], &[(from, column.clone())], expected);
            check(&body, &["b64"; 4], &[("b64", patterns(160))], expected);
        }
    }
}

#[test]
fn integers_to_floats() {
    from_integers::<Single>("f32", &["", ".ftz", ".sat", ".ftz.sat"], |d| u64::from(saturated(true, low(d))));
    from_integers::<Double>("f64", &["", ".sat"], |d| f64::from_bits(d).clamp(0.0, 1.0).to_bits());
    from_integers::<Half>("f16", &["", ".sat"], |d| u64::from(half::sat_f16(u16::try_from(d).unwrap())));
    from_integers::<BFloat>("bf16", &[""], |d| d);
}

/// The soft-float's conversion; NaN gives `nan`.
fn soft<A: Float + FloatConvert<D>, D: Float>(a: u64, rnd: &str, nan: u64) -> u64 {
    let d: D = A::from_bits(u128::from(a)).convert_r(soft_round(rnd), &mut false).value;
    if d.is_nan() { nan } else { u64::try_from(d.to_bits()).unwrap() }
}

fn singles() -> Column {
    let mut all = SINGLES.to_vec();
    let mut random = SplitMix(22);
    all.extend(numbers().into_iter().map(code::<Single>));
    // Around the subnormals, the ties and the overflow of f16.
    all.extend((0..120).map(|_| random.next() & 0x8fff_ffff | 0x3000_0000));
    all.extend((0..60).map(|_| random.next() & 0x8fff_f000 | 0x3000_0000));
    all.extend([0x477f_efff, 0x477f_f000, 0x477f_ffff, 0x4780_0000, 0x3300_0000, 0x3300_0001, 0x3380_0000]);
    all.extend((0..60).map(|_| random.next() & 0xffff_ffff));
    all
}

fn wide_doubles() -> Column {
    let mut all = doubles();
    let mut random = SplitMix(23);
    all.extend(numbers().into_iter().map(f64::to_bits));
    all.extend((0..120).map(|_| random.next() & 0x81ff_ffff_ffff_ffff | 0x3e00_0000_0000_0000));
    all.extend((0..60).map(|_| random.next() & 0x803f_ffff_f000_0000 | 0x37f0_0000_0000_0000));
    all
}

fn halves() -> Column {
    (0..656)
        .map(|i| i * 99 % 65536)
        .chain([0x7c00, 0xfc00, 0x7c01, 0xff80, 0x7f80, 1, 0x8001, 0x8000])
        .collect()
}

fn sat16(sat: bool, d: u64) -> u64 {
    if sat { u64::from(half::sat_f16(u16::try_from(d).unwrap())) } else { d }
}

fn sat64(sat: bool, d: u64) -> u64 {
    let x = f64::from_bits(d);
    if !sat {
        d
    } else if x.is_nan() || x <= 0.0 {
        0
    } else {
        x.min(1.0).to_bits()
    }
}

#[test]
fn floats_to_narrower_floats() {
    for rnd in ROUNDINGS {
        for (sat, s) in [("", false), (".sat", true)] {
            for (ftz, f) in [("", false), (".ftz", true)] {
                let body = format!("cvt{rnd}{ftz}{sat}.f16.f32 %d0, %s0;");
                check(&body, &["f16"], &[("f32", singles())], |x| {
                    vec![sat16(s, soft::<Single, Half>(u64::from(flushed(f, low(x[0]))), rnd, 0x7fff))]
                });
                let body = format!("cvt{rnd}{ftz}{sat}.f32.f64 %d0, %s0;");
                check(&body, &["f32"], &[("f64", wide_doubles())], |x| {
                    let d = low(soft::<Double, Single>(x[0], rnd, 0x7fff_ffff));
                    vec![u64::from(saturated(s, flushed(f, d)))]
                });
            }
            let body = format!("cvt{rnd}{sat}.f16.f64 %d0, %s0;");
            check(&body, &["f16"], &[("f64", wide_doubles())], |x| {
                vec![sat16(s, soft::<Double, Half>(x[0], rnd, 0x7fff))]
            });
            check(&format!("cvt{rnd}{sat}.f16.bf16 %d0, %s0;"), &["f16"], &[("bf16", halves())], |x| {
                vec![sat16(s, soft::<BFloat, Half>(x[0], rnd, 0x7fff))]
            });
        }
        check(&format!("cvt{rnd}.bf16.f16 %d0, %s0;"), &["bf16"], &[("f16", halves())], |x| {
            vec![soft::<Half, BFloat>(x[0], rnd, 0x7fff)]
        });
        check(&format!("cvt{rnd}.bf16.f64 %d0, %s0;"), &["bf16"], &[("f64", wide_doubles())], |x| {
            vec![soft::<Double, BFloat>(x[0], rnd, 0x7fff)]
        });
    }
}

#[test]
fn floats_to_wider_floats() {
    for (sat, s) in [("", false), (".sat", true)] {
        let body = format!(
            "cvt{sat}.f32.f16 %d0, %s0;\ncvt.ftz{sat}.f32.f16 %d1, %s0;\ncvt{sat}.f64.f16 %d2, %s0;\ncvt{sat}.f16.f16 %d3, %s0;"
        );
        check(&body, &["f32", "f32", "f64", "f16"], &[("f16", halves())], |x| {
            let single = u64::from(saturated(s, low(soft::<Half, Single>(x[0], "", 0x7fff_ffff))));
            let a = u16::try_from(x[0]).unwrap();
            vec![single, single, sat64(s, convert::cvt_f64_f16(a)), sat16(s, x[0])]
        });
        let body = format!(
            "cvt{sat}.f32.bf16 %d0, %s0;\ncvt.ftz{sat}.f32.bf16 %d1, %s0;\ncvt{sat}.f64.bf16 %d2, %s0;"
        );
        check(&body, &["f32", "f32", "f64"], &[("bf16", halves())], |x| {
            let wide = low(x[0] << 16);
            let double = convert::cvt_f64_bf16(u16::try_from(x[0]).unwrap());
            vec![
                u64::from(saturated(s, wide)),
                u64::from(saturated(s, flushed(true, wide))),
                sat64(s, double),
            ]
        });
        let body = format!(
            "cvt{sat}.f64.f32 %d0, %s0;\ncvt.ftz{sat}.f64.f32 %d1, %s0;\ncvt{sat}.f32.f32 %d2, %s0;\ncvt.ftz{sat}.f32.f32 %d3, %s0;"
        );
        check(&body, &["f64", "f64", "f32", "f32"], &[("f32", singles())], |x| {
            let a = low(x[0]);
            let wide = |a: u32| {
                let d = f64::from(f32::from_bits(a));
                sat64(s, if d.is_nan() { convert::cvt_f64_f32(a, false) } else { d.to_bits() })
            };
            let same =
                |a: u32| u64::from(saturated(s, if f32::from_bits(a).is_nan() { 0x7fff_ffff } else { a }));
            vec![wide(a), wide(flushed(true, a)), same(a), same(flushed(true, a))]
        });
        check(&format!("cvt{sat}.f64.f64 %d0, %s0;"), &["f64"], &[("f64", wide_doubles())], |x| {
            vec![sat64(s, x[0])]
        });
    }
    for rnd in ROUNDINGS {
        let plain = if matches!(rnd, ".rm" | ".rp") { "" } else { ".ftz" };
        let body = format!("cvt{rnd}{plain}.bf16.f32 %d0, %s0;\ncvt{rnd}.ftz.bf16.f32 %d1, %s0;");
        check(&body, &["bf16", "bf16"], &[("f32", singles())], |x| {
            let of = |ftz| soft::<Single, BFloat>(u64::from(flushed(ftz, low(x[0]))), rnd, 0x7fff);
            vec![of(!plain.is_empty()), of(true)]
        });
        let body = format!("cvt{rnd}.f32.bf16 %d0, %s0;\ncvt{rnd}.ftz.f32.bf16 %d1, %s0;");
        let plain = "cvt.f32.bf16 %d0, %s0;\ncvt.ftz.f32.bf16 %d1, %s0;";
        let sources = [("bf16", halves())];
        assert_eq!(eval(&body, &["f32", "f32"], &sources), eval(plain, &["f32", "f32"], &sources));
    }
    check("cvt.rp.f64.bf16 %d0, %s0;", &["f64"], &[("bf16", halves())], |x| {
        vec![convert::cvt_f64_bf16(u16::try_from(x[0]).unwrap())]
    });
    // A result in a wider register, from a source in a wider register.
    let body = "cvt.f32.f16 %d0, %s0;\ncvt.rn.f16.f32 %d1, %s0;\ncvt.rn.f16.f32 %d2, %s0;";
    let column: Column = singles().iter().map(|x| x | 0xdead_beef << 32).collect();
    check(body, &["b64", "b64", "b32"], &[("b64", column)], |x| {
        let narrow = soft::<Single, Half>(x[0] & 0xffff_ffff, "", 0x7fff);
        vec![soft::<Half, Single>(x[0] & 0xffff, "", 0x7fff_ffff), narrow, narrow]
    });
}

#[test]
fn integral_values_of_the_same_format() {
    for rnd in INTEGER_ROUNDINGS {
        for (sat, s) in [("", false), (".sat", true)] {
            let body = format!("cvt{rnd}{sat}.f32.f32 %d0, %s0;\ncvt{rnd}.ftz{sat}.f32.f32 %d1, %s0;");
            check(&body, &["f32"; 2], &[("f32", singles())], |x| {
                let d = |ftz| {
                    let x = f32::from_bits(flushed(ftz, low(x[0])));
                    let d = code::<Single>(rounded(f64::from(x), rnd));
                    u64::from(saturated(s, if x.is_nan() { 0x7fff_ffff } else { low(d) }))
                };
                vec![d(false), d(true)]
            });
            check(&format!("cvt{rnd}{sat}.f64.f64 %d0, %s0;"), &["f64"], &[("f64", wide_doubles())], |x| {
                let d = rounded(f64::from_bits(x[0]), rnd);
                vec![sat64(s, if d.is_nan() { x[0] | 0x0008_0000_0000_0000 } else { d.to_bits() })]
            });
            check(&format!("cvt{rnd}{sat}.f16.f16 %d0, %s0;"), &["f16"], &[("f16", halves())], |x| {
                let d = rounded(number::<Half>(x[0]), rnd);
                vec![sat16(s, if d.is_nan() { 0x7fff } else { code::<Half>(d) })]
            });
        }
        check(&format!("cvt{rnd}.bf16.bf16 %d0, %s0;"), &["bf16"], &[("bf16", halves())], |x| {
            let d = rounded(number::<BFloat>(x[0]), rnd);
            vec![if d.is_nan() { 0x7fff } else { code::<BFloat>(d) }]
        });
    }
}

/// The 16-bit result of `cvt.frnd2` with its limits.
fn narrowed(a: u64, format: &str, rnd: &str, mode: &str) -> u64 {
    let (infinity, d) = if format == "f16" {
        (0x7c00, soft::<Single, Half>(a, rnd, 0x7fff))
    } else {
        (0x7f80, soft::<Single, BFloat>(a, rnd, 0x7fff))
    };
    let d = if mode.contains("satfinite") && d & 0x7fff == infinity { d - 1 } else { d };
    if mode.contains("relu") && d & 0x8000 != 0 { 0 } else { d }
}

#[test]
fn limited_and_packed_halves() {
    let (a, b) = (singles(), singles().into_iter().rev().collect::<Column>());
    for format in ["f16", "bf16"] {
        for rnd in [".rn", ".rz"] {
            let modes = ["", ".relu", ".satfinite", ".relu.satfinite"];
            let body = lines(&modes, |i, mode| format!("cvt{rnd}{mode}.{format}.f32 %d{i}, %s0;"));
            check(&body, &[format; 4], &[("f32", a.clone())], |x| {
                modes.map(|mode| narrowed(x[0], format, rnd, mode)).to_vec()
            });
            let body = lines(&modes, |i, mode| format!("cvt{rnd}{mode}.{format}x2.f32 %d{i}, %s0, %s1;"));
            check(&body, &["b32"; 4], &[("f32", a.clone()), ("f32", b.clone())], |x| {
                modes.map(|m| narrowed(x[0], format, rnd, m) << 16 | narrowed(x[1], format, rnd, m)).to_vec()
            });
        }
    }
}

#[test]
fn fp8() {
    let (a, b) = (singles(), singles().into_iter().rev().collect::<Column>());
    for (name, format) in [("e4m3x2", Fp8::E4m3), ("e5m2x2", Fp8::E5m2)] {
        for (relu, r) in [("", false), (".relu", true)] {
            let body = format!("cvt.rn.satfinite{relu}.{name}.f32 %d0, %s0, %s1;");
            check(&body, &["b16"], &[("f32", a.clone()), ("f32", b.clone())], |x| {
                let d = |x: u64| u64::from(fp8::cvt_fp8_f32(format, low(x), r));
                vec![d(x[0]) << 8 | d(x[1])]
            });
            let pairs: Column =
                halves().iter().zip(halves().iter().rev()).map(|(a, b)| a << 16 | b).collect();
            let body = format!("cvt.rn.satfinite{relu}.{name}.f16x2 %d0, %s0;");
            check(&body, &["b16"], &[("b32", pairs)], |x| {
                let d = |x: u64| u64::from(fp8::cvt_fp8_f16(format, u16::try_from(x & 0xffff).unwrap(), r));
                vec![d(x[0] >> 16) << 8 | d(x[0])]
            });
            // Every code, paired with its complement.
            let codes: Column = (0..256).map(|i| i << 8 | (255 - i)).collect();
            check(&format!("cvt.rn{relu}.f16x2.{name} %d0, %s0;"), &["b32"], &[("b16", codes)], |x| {
                let d = |x: u64| u64::from(fp8::cvt_f16_fp8(format, u8::try_from(x & 0xff).unwrap(), r));
                vec![d(x[0] >> 8) << 16 | d(x[0])]
            });
        }
    }
    let found = eval(
        "cvt.rn.satfinite.e4m3x2.f32 %d0, %s0, %s0;",
        &["b16"],
        &[("f32", vec![0x43e0_0000, 0x7f80_0000])],
    );
    assert_eq!(found[0], [0x7e7e, 0x7e7e], "448 and infinity");
}

#[test]
fn tf32() {
    for mode in [
        ".rna",
        ".rna.satfinite",
        ".rn",
        ".rn.relu",
        ".rz",
        ".rz.relu",
        ".rn.satfinite",
        ".rz.satfinite.relu",
    ] {
        check(&format!("cvt{mode}.tf32.f32 %d0, %s0;"), &["b32"], &[("f32", singles())], |x| {
            let (relu, satfinite) = (mode.contains("relu"), mode.contains("satfinite"));
            let rounding = num_round(mode.split(".relu").next().unwrap().split(".satfinite").next().unwrap());
            vec![u64::from(fp8::cvt_tf32_f32(low(x[0]), rounding, relu, satfinite))]
        });
    }
}

#[test]
fn packed_integers() {
    let a: Column = patterns(128).iter().map(|x| cut(*x, 32)).collect();
    let b: Column = a.iter().rev().copied().collect();
    for ty in ["u16", "s16", "u8", "s8", "u4", "s4", "u2", "s2"] {
        let size: u32 = bits(ty);
        let (low, high) = if signed(ty) {
            (-(1i64 << (size - 1)), (1i64 << (size - 1)) - 1)
        } else {
            (0, (1i64 << size) - 1)
        };
        let part = |x: u64| {
            let x = i64::from(u32::try_from(x).unwrap().cast_signed()).clamp(low, high);
            cut(x.cast_unsigned(), size)
        };
        let body = if size == 16 {
            format!("cvt.pack.sat.{ty}.s32 %d0, %s0, %s1;")
        } else {
            format!("cvt.pack.sat.{ty}.s32.b32 %d0, %s0, %s1, %s2;")
        };
        let columns = [
            ("b32", a.clone()),
            ("b32", b.clone()),
            ("b32", a.iter().cycle().skip(3).take(128).copied().collect()),
        ];
        check(&body, &["b32"], &columns, |x| {
            let rest = if size == 16 { 0 } else { x[2] << (2 * size) };
            vec![cut(part(x[0]) << size | part(x[1]) | rest, 32)]
        });
    }
}

#[test]
fn immediates() {
    let body = "cvt.rn.f32.s32 %d0, -7;\ncvt.rzi.s32.f32 %d1, 0fC0E00000;\ncvt.s64.s32 %d2, -1;\ncvt.u16.u32 %d3, 65537;";
    let found = eval(body, &["f32", "b32", "b64", "b16"], &[("b32", vec![0])]);
    let found: Vec<u64> = found.iter().map(|column| column[0]).collect();
    assert_eq!(found, [0xc0e0_0000, 0xffff_fff9, u64::MAX, 1]);
}
