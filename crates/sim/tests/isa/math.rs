//! Tests of the family `math`: the instructions return the values of the arithmetic, which are within the manual's bounds.

use super::float::{SINGLES, doubles, flushed, low};
use super::harness::{Column, check, eval};
use warpproof_num::approx;
use warpproof_num::random::SplitMix;

fn column() -> Column {
    let mut all = SINGLES.to_vec();
    let mut random = SplitMix(3);
    while all.len() < 480 {
        all.push(random.next() & 0xffff_ffff);
    }
    // Around one, the usual range of exponentials and logarithms.
    while all.len() < 736 {
        all.push(random.next() & 0x83ff_ffff | 0x3e00_0000);
    }
    all
}

#[test]
fn single_precision() {
    type Function = fn(u32, bool) -> u32;
    let functions: [(&str, Function); 7] = [
        ("rcp", approx::rcp_approx_f32),
        ("sqrt", approx::sqrt_approx_f32),
        ("rsqrt", approx::rsqrt_approx_f32),
        ("sin", approx::sin_approx_f32),
        ("cos", approx::cos_approx_f32),
        ("lg2", approx::lg2_approx_f32),
        ("ex2", approx::ex2_approx_f32),
    ];
    for (name, f) in functions {
        let body = format!("{name}.approx.f32 %d0, %s0;\n{name}.approx.ftz.f32 %d1, %s0;");
        check(&body, &["f32"; 2], &[("f32", column())], |x| {
            vec![u64::from(f(low(x[0]), false)), u64::from(f(low(x[0]), true))]
        });
    }
    check("tanh.approx.f32 %d0, %s0;", &["f32"], &[("f32", column())], |x| {
        vec![u64::from(approx::tanh_approx_f32(low(x[0])))]
    });
}

#[test]
fn within_the_stated_errors() {
    // (instruction, reference, relative error, absolute error): either bound suffices.
    type Reference = fn(f64) -> f64;
    let bounds: [(&str, Reference, i32, i32); 8] = [
        ("rcp", |x| 1.0 / x, -23, -1000),
        ("sqrt", f64::sqrt, -23, -1000),
        ("rsqrt", |x| 1.0 / x.sqrt(), -22, -1000),
        ("sin", f64::sin, -1000, -20),
        ("cos", f64::cos, -1000, -20),
        ("lg2", f64::log2, -22, -22),
        ("ex2", f64::exp2, -22, -1000),
        ("tanh", f64::tanh, -11, -1000),
    ];
    let inputs: Column = (1..256u16).map(|i| u64::from((f32::from(i) / 41.0).to_bits())).collect();
    for (name, reference, relative, absolute) in bounds {
        let results = eval(&format!("{name}.approx.f32 %d0, %s0;"), &["f32"], &[("f32", inputs.clone())]);
        for (a, d) in inputs.iter().zip(&results[0]) {
            let (a, d) = (f64::from(f32::from_bits(low(*a))), f64::from(f32::from_bits(low(*d))));
            let wanted = reference(a);
            let error = (d - wanted).abs();
            let bound = (wanted.abs() * f64::from(relative).exp2()).max(f64::from(absolute).exp2());
            assert!(error <= bound, "{name} of {a}: found {d}, expected {wanted}");
        }
    }
}

#[test]
fn corner_cases_of_the_tables() {
    let (inf, nan) = (f32::INFINITY.to_bits(), 0x7fff_ffff);
    let minus = 0x8000_0000;
    let one = 1.0f32.to_bits();
    // -inf, -subnormal, -0, +0, +subnormal, +inf, NaN, with `.ftz`.
    let inputs = [inf | minus, 0x8000_0001, minus, 0, 1, inf, 0x7fc0_0000];
    for (name, results) in [
        ("rcp", [minus, inf | minus, inf | minus, inf, inf, 0, nan]),
        ("sqrt", [nan, minus, minus, 0, 0, inf, nan]),
        ("rsqrt", [nan, inf | minus, inf | minus, inf, inf, 0, nan]),
        ("sin", [nan, minus, minus, 0, 0, nan, nan]),
        ("cos", [nan, one, one, one, one, nan, nan]),
        ("lg2", [nan, inf | minus, inf | minus, inf | minus, inf | minus, inf, nan]),
        ("ex2", [0, one, one, one, one, inf, nan]),
    ] {
        let column: Column = inputs.map(u64::from).to_vec();
        let found = eval(&format!("{name}.approx.ftz.f32 %d0, %s0;"), &["f32"], &[("f32", column)]);
        assert_eq!(found[0], results.map(u64::from).to_vec(), "{name}");
    }
    let column: Column = inputs.map(u64::from).to_vec();
    let found = eval("tanh.approx.f32 %d0, %s0;", &["f32"], &[("f32", column)]);
    assert_eq!(found[0], [one | minus, 0x8000_0001, minus, 0, 1, one, nan].map(u64::from).to_vec());
    assert_eq!(flushed(true, 1), 0);
}

#[test]
fn double_precision() {
    let body = "rcp.approx.ftz.f64 %d0, %s0;\nrsqrt.approx.ftz.f64 %d1, %s0;\nrsqrt.approx.f64 %d2, %s0;";
    let mut column = doubles();
    let mut random = SplitMix(4);
    column.extend((0..200).map(|_| random.next()));
    check(body, &["f64"; 3], &[("f64", column)], |x| {
        vec![
            approx::rcp_approx_ftz_f64(x[0]),
            approx::rsqrt_approx_ftz_f64(x[0]),
            approx::rsqrt_approx_f64(x[0]),
        ]
    });
}

#[test]
fn half_precision() {
    type Function = fn(u16) -> u16;
    let functions: [(&str, &str, Function); 5] = [
        ("ex2.approx", "f16", |a| approx::ex2_approx_f16(a, false)),
        ("ex2.approx.ftz", "f16", |a| approx::ex2_approx_f16(a, true)),
        ("ex2.approx.ftz", "bf16", approx::ex2_approx_bf16),
        ("tanh.approx", "f16", approx::tanh_approx_f16),
        ("tanh.approx", "bf16", approx::tanh_approx_bf16),
    ];
    // A column of every 97th code in both halves.
    let column: Column = (0..676u64).map(|i| (i * 97) | ((65535 - i * 97) << 16)).collect();
    let lower: Column = column.iter().map(|x| x & 0xffff).collect();
    for (op, ty, f) in functions {
        let part = |x: u64| u64::from(f(u16::try_from(x & 0xffff).unwrap()));
        check(&format!("{op}.{ty} %d0, %s0;"), &["b16"], &[("b16", lower.clone())], |x| vec![part(x[0])]);
        check(&format!("{op}.{ty}x2 %d0, %s0;"), &["b32"], &[("b32", column.clone())], |x| {
            vec![part(x[0]) | part(x[0] >> 16) << 16]
        });
    }
}
