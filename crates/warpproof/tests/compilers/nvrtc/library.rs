//! The math library. Bounds are the maximum errors of the CUDA C++ Programming Guide, "Mathematical Functions", in ulp; the
//! guide's bounds hold for hardware whose approximate instructions keep the manual's errors, as ours do.

use super::Check;
use super::arrays::compounded;
use crate::data::{Type, exp2};
use crate::launch::Launched;
use crate::reference::{EX2, U32, close, ulp, within};

/// A function of x and y, and its error in ulp.
type Function = (&'static str, fn(f64, f64) -> f64, f64);

/// ln Γ for x > 0: Stirling's series at x + 20, and the recurrence down.
fn ln_gamma(x: f64) -> f64 {
    let z = x + 20.0;
    let shift: f64 = (0..20).map(|i| (x + f64::from(i)).ln()).sum();
    let series = 1.0 / (12.0 * z) - 1.0 / (360.0 * z.powi(3)) + 1.0 / (1260.0 * z.powi(5))
        - 1.0 / (1680.0 * z.powi(7));
    (z - 0.5) * z.ln() - z + 0.5 * std::f64::consts::TAU.ln() + series - shift
}

/// erfc for x ≥ 0 as 2/√π · e^(-x²) · ∫ e^(-t² - 2xt) dt over t ≥ 0, by the double-exponential rule t = e^(s - e^-s): all
/// terms are positive, so nothing cancels.
fn erfc(x: f64) -> f64 {
    let step = 1.0 / 64.0;
    let term = |n: i32| {
        let s = f64::from(n) * step;
        let t = (s - (-s).exp()).exp();
        t * (1.0 + (-s).exp()) * (-t * (t + 2.0 * x)).exp()
    };
    // Kahan summation: the error of an addition is added to the next term.
    let add = |(sum, lost): (f64, f64), term: f64| {
        let corrected = term - lost;
        let next = sum + corrected;
        (next, (next - sum) - corrected)
    };
    let integral = (-400..400).map(term).fold((0.0, 0.0), add).0 * step;
    // x² in two parts, because the exponential magnifies its rounding error.
    let square = x * x;
    let rest = x.mul_add(x, -square);
    std::f64::consts::FRAC_2_SQRT_PI * (-square).exp() * (1.0 - rest) * integral
}

const FLOAT: [Function; 24] = [
    ("sinf", |x, _| x.sin(), 2.0),
    ("cosf", |x, _| x.cos(), 2.0),
    ("tanf", |_, y| y.tan(), 4.0),
    ("expf", |x, _| x.exp(), 2.0),
    ("exp2f", |_, y| y.exp2(), 2.0),
    ("expm1f", |_, y| y.exp_m1(), 1.0),
    ("logf", |x, _| x.ln(), 1.0),
    ("log2f", |x, _| x.log2(), 1.0),
    ("log1pf", |x, _| x.ln_1p(), 1.0),
    ("powf", f64::powf, 4.0),
    ("sqrtf", |x, _| x.sqrt(), 0.0),
    ("rsqrtf", |x, _| 1.0 / x.sqrt(), 2.0),
    ("cbrtf", |x, _| x.cbrt(), 1.0),
    ("hypotf", f64::hypot, 3.0),
    ("tanhf", |_, y| y.tanh(), 2.0),
    ("atan2f", f64::atan2, 3.0),
    // The argument y / 3.5 is rounded to f32 first.
    ("asinf", |_, y| f64::from(y as f32 / 3.5).asin(), 4.0),
    ("erff", |_, y| 1.0 - erfc(y), 2.0),
    ("lgammaf", |x, _| ln_gamma(x), 6.0),
    ("fmodf", |x, y| x % y, 0.0),
    ("ldexpf", |x, y| x * exp2(y as i32), 0.0),
    // Rounded after each step; the steps are exact except where the sum passes a power of two.
    (
        "rounding functions",
        |x, y| {
            let (x, y) = (x as f32, y as f32);
            f64::from(x.round_ties_even() + y.floor() - x.ceil() + y.trunc() + x.round())
        },
        0.0,
    ),
    (
        "frexpf",
        |x, _| {
            let exponent = x.log2().floor() as i32 + 1;
            f64::from((x / exp2(exponent)) as f32 + exponent as f32)
        },
        0.0,
    ),
    ("copysignf, fdimf", |x, y| -f64::from((x as f32 - y as f32).max(0.0)), 0.0),
];

const DOUBLE: [Function; 16] = [
    ("sin", |x, _| x.sin(), 2.0),
    ("cos", |x, _| x.cos(), 2.0),
    ("exp", |_, y| y.exp(), 1.0),
    ("log", |x, _| x.ln(), 1.0),
    ("pow", f64::powf, 2.0),
    ("sqrt", |x, _| x.sqrt(), 0.0),
    ("rsqrt", |x, _| 1.0 / x.sqrt(), 1.0),
    ("cbrt", |x, _| x.cbrt(), 1.0),
    ("tanh", |_, y| y.tanh(), 2.0),
    ("atan", |x, _| x.atan(), 2.0),
    ("erfc", |_, y| erfc(y), 5.0),
    ("fmod", |x, y| x % y, 0.0),
    ("division", |x, y| x / y, 0.0),
    ("fma", |x, y| x.mul_add(y, x), 0.0),
    ("rint, floor", |x, y| x.round_ties_even() + y.floor(), 0.0),
    ("fmax, fmin", |x, y| x.max(y) - x.min(y), 0.0),
];

/// Compares each column with its function. `reference_ulp` is the error of the reference itself.
fn check_functions(run: &Launched<'_>, functions: &[Function], reference_ulp: f64) {
    let (x, y, out) = (run.floats("x"), run.floats("y"), run.after("out"));
    assert_eq!(out.len(), functions.len() * x.len());
    let results = out.floats();
    for ((name, f, error), column) in functions.iter().zip(results.chunks(x.len())) {
        for (i, result) in column.iter().enumerate() {
            let wanted = f(x[i], y[i]);
            // The guide counts ulp from the correctly rounded result. Exact functions must be exact.
            let (reference, stored) = if *error == 0.0 && (*name == "sqrt" || out.ty == Type::F64) {
                (0.0, 0.0)
            } else {
                (reference_ulp, 0.5)
            };
            within(name, i, *result, wanted, (error + reference + stored) * ulp(out.ty, wanted));
        }
    }
}

fn fixed(value: f64) -> i128 {
    (value * exp2(64)) as i128
}

/// Directed roundings of f32, in exact arithmetic: `result` is the last f32 that does not pass `value`.
fn next(value: f64, up: bool) -> f64 {
    let value = value as f32;
    f64::from(if up { value.next_up() } else { value.next_down() })
}

fn check_fast(run: &Launched<'_>) {
    let (x, y, out) = (run.floats("x"), run.floats("y"), run.after("out").floats());
    let ulp = |value| ulp(Type::F32, value);
    for i in 0..128 {
        let (x, y) = (x[i], y[i]);
        let result = |f: usize| out[f * 128 + i];
        within("__sinf", i, result(0), y.sin(), exp2(-21));
        within("__cosf", i, result(1), y.cos(), exp2(-21));
        within("__expf", i, result(2), y.exp(), (2.5 + 1.173 * y) * ulp(y.exp()));
        let log_error = if (0.5..=2.0).contains(&x) { exp2(-21) } else { 3.5 * ulp(x.ln()) };
        within("__logf", i, result(3), x.ln(), log_error);
        // ex2.approx(y · lg2.approx(x)): the logarithm is off by 2^-22, relatively or, within (0.5, 2), absolutely.
        let exponent = y * x.log2();
        let moved = y * exp2(-22) * x.log2().abs().max(1.0) + exponent.abs() * 2.0 * U32;
        within("__powf", i, result(4), x.powf(y), x.powf(y) * compounded(EX2 + moved));
        within("__fdividef", i, result(5), x / y, 2.5 * ulp(x / y));

        let reciprocal = result(6);
        assert!(reciprocal * x <= 1.0 && next(reciprocal, true) * x > 1.0, "__frcp_rz({x}) = {reciprocal}");
        let root = result(7);
        assert!(root * root >= x && next(root, false).powi(2) < x, "__fsqrt_ru({x}) = {root}");
        let (fused, exact) = (result(8), fixed(x * y) + fixed(x));
        assert!(
            fixed(fused) <= exact && fixed(next(fused, true)) > exact,
            "__fmaf_rd({x}, {y}, {x}) = {fused}"
        );
        let saturated = (x * y - 1.0).clamp(0.0, 1.0);
        within("__saturatef", i, result(9), saturated, 2.0 * U32 * (x * y + 1.0).min(4.0));
    }
}

pub(super) fn math_library() -> Vec<Check> {
    vec![
        // References in f64 are far more exact than f32.
        ("math_float", |run| check_functions(run, &FLOAT, 0.01)),
        ("math_fast", check_fast),
        // The host's library and erfc above are within 2 ulp of f64.
        ("math_double", |run| check_functions(run, &DOUBLE, 2.0)),
        ("math_huge_sine", |run| {
            let x = run.floats("x");
            let two_ulp = |value: f64| (value, 2.0 * ulp(Type::F32, value));
            close(run, "out", x.iter().map(|x| two_ulp(x.sin())).chain(x.iter().map(|x| two_ulp(x.cos()))));
        }),
    ]
}

#[test]
fn references_are_right_where_their_values_are_known() {
    // Γ(1) = Γ(2) = 1, Γ(5) = 24, Γ(1/2) = √π; erfc(0) = 1; erfc(1) and erfc(3) from tables.
    for (x, wanted) in [(1.0, 0.0), (2.0, 0.0), (5.0, 24.0f64.ln()), (0.5, 0.5 * std::f64::consts::PI.ln())] {
        within("ln Γ", 0, ln_gamma(x), wanted, 1e-13);
    }
    for (x, wanted) in [(0.0, 1.0), (1.0, 0.157_299_207_050_285_13), (3.0, 2.209_049_699_858_544e-5)] {
        within("erfc", 0, erfc(x), wanted, 4.0 * ulp(Type::F64, wanted));
    }
}
