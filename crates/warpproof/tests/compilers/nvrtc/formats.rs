//! Half, bfloat16 and FP8. Operations that CUDA's headers define as correctly rounded are computed exactly in f64 (a product
//! of two halves has 22 bits, a quotient rounded to 53 bits rounds to 11 as the exact one does) and rounded once.

use rustc_apfloat::Round;

use super::Check;
use super::arrays::compounded;
use crate::data::{Data, Type, decode, encode, exp2};
use crate::launch::Launched;
use crate::reference::{EX2, U32, close, equal, exact, gamma, same_bits};

const ROUNDINGS: [Round; 4] =
    [Round::NearestTiesToEven, Round::TowardZero, Round::TowardPositive, Round::TowardNegative];

/// x in all four roundings, one after the other.
fn check_roundings(run: &Launched<'_>) {
    let (x, ty) = (run.floats("x"), run.after("out").ty);
    let bits = ROUNDINGS.iter().flat_map(|round| x.iter().map(|x| encode(ty, *x, *round)));
    same_bits(&run.case.kernel, run.after("out"), &Data::of_bits(ty, bits));
}

/// Each function of x[i], y[i] in turn.
fn check_columns(run: &Launched<'_>, functions: &[fn(f64, f64) -> f64]) {
    let (x, y) = (run.floats("x"), run.floats("y"));
    exact(run, "out", functions.iter().flat_map(|f| x.iter().zip(&y).map(|(x, y)| f(*x, *y))));
}

pub(super) fn half_arith() -> Vec<Check> {
    vec![
        ("half2_axpy", |run| {
            let a = run.floats("a")[0];
            exact(run, "y", run.floats("x").into_iter().zip(run.floats("y")).map(|(x, y)| a * x + y));
        }),
        ("half_scalar", |run| {
            check_columns(
                run,
                &[
                    |a, b| a + b,
                    |a, b| a - b,
                    |a, b| a * b,
                    |a, b| a / b,
                    |a, b| (a * b + a).clamp(0.0, 1.0),
                    |a, b| a.abs().min(-b),
                    f64::max,
                    |a, b| (a + b).clamp(0.0, 1.0),
                ],
            );
        }),
        ("half_compare", |run| {
            let (x, y) = (run.floats("x"), run.floats("y"));
            let bits = |i: usize| {
                let (a, b) = (x[2 * i], y[2 * i]);
                let comparisons = [
                    a == b,
                    a != b,
                    a < b,
                    a <= b,
                    a > b,
                    a >= b,
                    a == b && x[2 * i + 1] == y[2 * i + 1],
                    false,
                ];
                comparisons.iter().enumerate().map(|(bit, holds)| i64::from(*holds) << bit).sum()
            };
            equal(run, "out", (0..64).map(bits));
        }),
        ("half_round", |run| {
            check_roundings(run);
            let nearest = |x: f64| decode(Type::F16, encode(Type::F16, x, Round::NearestTiesToEven));
            equal(run, "whole", run.floats("x").into_iter().map(|x| nearest(x).floor() as i64));
        }),
        ("half_functions", |run| {
            let x = run.floats("x");
            // In f32 by the approximate instructions, with the manual's errors, then rounded to half.
            let functions: [fn(f64) -> (f64, f64); 6] = [
                // ex2.approx of a product with log2 e: its rounding and the constant's move the exponent.
                |x| (x.exp(), x.exp() * compounded(EX2 + 2.0 * x * U32)),
                |x| (x.log2(), exp2(-22) * x.log2().abs().max(1.0)),
                |x| (x.sqrt(), x.sqrt() * exp2(-22)),
                |x| (1.0 / x.sqrt(), exp2(-22) / x.sqrt()),
                // 2^-20.5 within ±2π.
                |x| (x.sin(), exp2(-20)),
                |x| (x.trunc(), 0.0),
            ];
            close(run, "out", functions.iter().flat_map(|f| x.iter().map(|x| f(*x))));
        }),
        ("half_dot", |run| {
            let products: Vec<f64> =
                run.floats("x").iter().zip(run.floats("y")).map(|(x, y)| x * y).collect();
            let magnitude: f64 = products.iter().map(|p| p.abs()).sum();
            // A product passes at most four fused additions and five sums, each rounded to half.
            let relative = compounded(9.0 * exp2(-11)) + U32;
            close(run, "out", [(products.iter().sum(), relative * magnitude)]);
        }),
    ]
}

pub(super) fn bf16_arith() -> Vec<Check> {
    vec![
        ("bf16_scalar", |run| {
            check_columns(
                run,
                &[
                    |a, b| a + b,
                    |a, b| a - b,
                    |a, b| a * b,
                    |a, b| a / b,
                    f64::max,
                    |a, b| if a < b { a.abs() } else { -b },
                ],
            );
        }),
        ("bf16_pairs", |run| {
            let (x, y) = (run.floats("x"), run.floats("y"));
            exact(run, "out", (0..256).map(|i| x[i] * y[i] + x[i ^ 1]));
        }),
        ("bf16_round", check_roundings),
        ("bf16_from_others", |run| {
            let integers = run.integers("k").into_iter().map(|k| k as f64);
            exact(run, "out", run.floats("d").into_iter().chain(integers));
        }),
        ("bf16_sum", |run| {
            let x = run.floats("x");
            close(run, "out", [(x.iter().sum(), gamma(256) * x.iter().map(|x| x.abs()).sum::<f64>())]);
        }),
    ]
}

/// Codes of both formats, packed `count` to an element, the first lowest.
fn check_codes(run: &Launched<'_>, count: usize) {
    for (name, ty) in [("e4m3", Type::E4m3), ("e5m2", Type::E5m2)] {
        let codes = Data::of_floats(ty, run.floats("in"));
        let result = run.after(name);
        assert_eq!(result.ty.size(), count);
        same_bits(
            &format!("{}: {name}", run.case.kernel),
            result,
            &Data { ty: result.ty, bytes: codes.bytes },
        );
    }
}

pub(super) fn fp8_convert() -> Vec<Check> {
    vec![
        ("float_to_fp8", |run| check_codes(run, 1)),
        ("fp8_to_float", |run| {
            for (name, ty) in [("e4m3", Type::E4m3), ("e5m2", Type::E5m2)] {
                for (code, value) in (0..).zip(run.after(name).floats()) {
                    let wanted = decode(ty, code);
                    let equal = value.to_bits() == wanted.to_bits() || (value.is_nan() && wanted.is_nan());
                    assert!(equal, "{name} {code:#x} is {value}, should be {wanted}");
                }
            }
        }),
        ("half_to_fp8", |run| check_codes(run, 2)),
        ("bf16_to_fp8", |run| check_codes(run, 2)),
        ("fp8_quads", |run| {
            let through =
                |x: f64| decode(Type::E4m3, encode(Type::E4m3, x / 16.0, Round::NearestTiesToEven)) * 16.0;
            exact(run, "out", run.floats("in").into_iter().map(through));
        }),
        ("double_to_fp8", |run| {
            let codes = Data::of_floats(Type::E4m3, run.floats("in"));
            same_bits("double_to_fp8", run.after("out"), &Data { ty: Type::U8, bytes: codes.bytes });
        }),
    ]
}
