//! The approximate instructions: within the manual's bounds for dense samples, and exact in its tables of corner cases.
#![expect(
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::float_cmp,
    reason = "codes of numbers change width on purpose"
)]

use warpproof_num::approx::{self, NAN_F64_HIGH};
use warpproof_num::convert::{cvt_f32_bf16, cvt_f32_f16};
use warpproof_num::float::{NAN_F32, NAN_F64, flush_f32};

const INF: u32 = 0x7f80_0000;
const NEG: u32 = 0x8000_0000;
const ONE: u32 = 0x3f80_0000;

fn value(code: u32) -> f64 {
    f64::from(f32::from_bits(code))
}

/// The unit in the last place of an f32 of magnitude x.
fn ulp(x: f64) -> f64 {
    let exponent = x.abs().max(f64::from(f32::MIN_POSITIVE)).log2().floor();
    2f64.powf(exponent - 23.0)
}

/// Every 97th positive f32 code up to infinity, about 22 million codes, thinned further by `step`.
fn codes(step: usize) -> impl Iterator<Item = u32> {
    (0..INF).step_by(step)
}

#[test]
fn reciprocal() {
    for a in codes(4801) {
        for a in [a, a | NEG] {
            let exact = 1.0 / value(a);
            let got = value(approx::rcp_approx_f32(a, false));
            if exact.abs() >= 2f64.powi(128) {
                assert!(got.is_infinite() && got.signum() == exact.signum());
            } else {
                assert!((got - exact).abs() <= ulp(exact), "{a:x}");
            }
            let flushed = flush_f32(approx::rcp_approx_f32(flush_f32(a), false));
            assert_eq!(approx::rcp_approx_f32(a, true), flushed);
        }
    }
    for (a, want) in [(NEG | INF, NEG), (NEG, NEG | INF), (0, INF), (INF, 0), (0x7fc0_0000, NAN_F32)] {
        assert_eq!(approx::rcp_approx_f32(a, false), want);
    }
    assert_eq!(approx::rcp_approx_f32(1, true), INF);
    assert_eq!(approx::rcp_approx_f32(NEG | 1, true), NEG | INF);
    // The reciprocal of the largest numbers is subnormal.
    assert_eq!(approx::rcp_approx_f32(0x7f7f_ffff, true), 0);
}

#[test]
fn roots() {
    for a in codes(4801).skip(1) {
        let exact = value(a).sqrt();
        let got = value(approx::sqrt_approx_f32(a, false));
        assert!((got / exact - 1.0).abs() <= 2f64.powi(-23), "{a:x}");
        let got = value(approx::rsqrt_approx_f32(a, false));
        assert!((got * exact - 1.0).abs() <= 2f64.powf(-22.9), "{a:x}");
    }
    for (a, sqrt, rsqrt) in [
        (NEG | INF, NAN_F32, NAN_F32),
        (NEG | ONE, NAN_F32, NAN_F32),
        (NEG, NEG, NEG | INF),
        (0, 0, INF),
        (INF, INF, 0),
        (0xffc0_0000, NAN_F32, NAN_F32),
    ] {
        for ftz in [false, true] {
            assert_eq!(approx::sqrt_approx_f32(a, ftz), sqrt, "{a:x}");
            assert_eq!(approx::rsqrt_approx_f32(a, ftz), rsqrt, "{a:x}");
        }
    }
    assert_eq!(approx::sqrt_approx_f32(NEG | 5, true), NEG);
    assert_eq!(approx::sqrt_approx_f32(5, true), 0);
    assert_eq!(approx::rsqrt_approx_f32(5, true), INF);
    assert_eq!(approx::rsqrt_approx_f32(NEG | 5, true), NEG | INF);
}

#[test]
fn division() {
    let numerators = [ONE, 0x3fff_ffff, 0x4049_0fdb, 0xc2f6_e979, 0x0080_0000, 0x7f7f_ffff, 0x0000_0fff];
    for a in numerators {
        for b in codes(50_021).skip(1) {
            let exact = value(a) / value(b);
            let full = value(approx::div_full_f32(a, b, false));
            let fast = value(approx::div_approx_f32(a, b, false));
            let limit = f64::from(f32::MAX);
            if exact.abs() > limit {
                assert!(full.is_infinite(), "{a:x} / {b:x}");
                continue;
            }
            assert!((full - exact).abs() <= 2.0 * ulp(exact), "{a:x} / {b:x}");
            if value(b) > 2f64.powi(126) {
                assert!(fast == 0.0, "{a:x} / {b:x}");
            } else {
                assert!((fast - exact).abs() <= 2.0 * ulp(exact), "{a:x} / {b:x}");
            }
        }
    }
    assert_eq!(approx::div_approx_f32(INF, 0x7f00_0000, false), NAN_F32);
    assert_eq!(approx::div_approx_f32(INF, INF, false), NAN_F32);
    assert_eq!(approx::div_approx_f32(ONE, 0, true), INF);
    assert_eq!(approx::div_approx_f32(NEG | ONE, 1, true), NEG | INF);
    assert_eq!(approx::div_approx_f32(0, 0, true), NAN_F32);
    assert_eq!(approx::div_full_f32(ONE, NEG, true), NEG | INF);
    assert_eq!(approx::div_full_f32(5, ONE, true), 0);
    assert_eq!(approx::div_full_f32(5, ONE, false), 5);
}

#[test]
fn exponential() {
    let mut worst = 0f64;
    for i in -15_200_000i32..13_000_000 {
        if i % 7 != 0 {
            continue;
        }
        let x = i as f32 / 100_000.0;
        let exact = f64::from(x).exp2();
        let got = approx::ex2_approx_f32(x.to_bits(), false);
        if exact >= 2f64.powi(128) {
            assert_eq!(got, INF, "{x}");
            continue;
        }
        let error = (value(got) - exact).abs() / ulp(exact);
        assert!(error <= 2.0, "{x}: {error} ulp");
        worst = worst.max(error);
        let flushed = approx::ex2_approx_f32(x.to_bits(), true);
        assert_eq!(flushed, flush_f32(got));
    }
    assert!(worst < 1.2, "{worst}");
    for (a, want) in
        [(NEG | INF, 0), (NEG, ONE), (0, ONE), (1, ONE), (NEG | 1, ONE), (INF, INF), (0x7f80_0001, NAN_F32)]
    {
        for ftz in [false, true] {
            assert_eq!(approx::ex2_approx_f32(a, ftz), want, "{a:x}");
        }
    }
    // Powers of two are exact, down to the subnormals.
    for n in -149i16..128 {
        let got = value(approx::ex2_approx_f32(f32::from(n).to_bits(), false));
        assert!(got == 2f64.powi(n.into()), "{n}");
    }
    assert_eq!(approx::ex2_approx_f32(0x7f7f_ffff, false), INF);
    assert_eq!(approx::ex2_approx_f32(0xff7f_ffff, false), 0);
}

#[test]
fn logarithm() {
    let mut near_one: Vec<u32> = (0x3f00_0000..0x4000_0000).step_by(811).collect();
    near_one.extend(ONE - 2000..ONE + 2000);
    for a in codes(4801).skip(1).chain(near_one) {
        let exact = value(a).log2();
        let got = value(approx::lg2_approx_f32(a, false));
        let bound = 2f64.powi(-22);
        let inside = value(a) > 0.5 && value(a) < 2.0;
        let error = if inside { (got - exact).abs() } else { (got / exact - 1.0).abs() };
        assert!(error <= bound || got == exact, "{a:x}: {got} for {exact}");
    }
    for (a, want) in [
        (NEG | INF, NAN_F32),
        (NEG | ONE, NAN_F32),
        (NEG, NEG | INF),
        (0, NEG | INF),
        (INF, INF),
        (0x7fc0_0000, NAN_F32),
        (ONE, 0),
        (0x4000_0000, ONE),
    ] {
        for ftz in [false, true] {
            assert_eq!(approx::lg2_approx_f32(a, ftz), want, "{a:x}");
        }
    }
    assert_eq!(approx::lg2_approx_f32(9, true), NEG | INF);
    assert_eq!(approx::lg2_approx_f32(NEG | 9, true), NEG | INF);
    assert!(value(approx::lg2_approx_f32(1, false)) == -149.0);
}

#[test]
fn sine_and_cosine() {
    for i in -315_000i32..315_000 {
        let x = i as f32 / 1000.0;
        let bound = if x.abs() <= 2.0 * std::f32::consts::PI { 2f64.powf(-20.5) } else { 2f64.powf(-14.7) };
        for ftz in [false, true] {
            let sine = value(approx::sin_approx_f32(x.to_bits(), ftz));
            assert!((sine - f64::from(x).sin()).abs() <= bound, "{x}");
            let cosine = value(approx::cos_approx_f32(x.to_bits(), ftz));
            assert!((cosine - f64::from(x).cos()).abs() <= bound, "{x}");
        }
    }
    // Beyond that, the result is still a sine.
    for a in codes(500_009) {
        assert!(value(approx::sin_approx_f32(a, false)).abs() <= 1.0, "{a:x}");
        assert!(value(approx::cos_approx_f32(a | NEG, false)).abs() <= 1.0, "{a:x}");
    }
    for (a, sine, cosine) in [
        (NEG | INF, NAN_F32, NAN_F32),
        (INF, NAN_F32, NAN_F32),
        (0x7fc0_0000, NAN_F32, NAN_F32),
        (NEG, NEG, ONE),
        (0, 0, ONE),
    ] {
        for ftz in [false, true] {
            assert_eq!(approx::sin_approx_f32(a, ftz), sine, "{a:x}");
            assert_eq!(approx::cos_approx_f32(a, ftz), cosine, "{a:x}");
        }
    }
    assert_eq!(approx::sin_approx_f32(NEG | 3, true), NEG);
    assert_eq!(approx::sin_approx_f32(NEG | 3, false), NEG | 3);
    assert_eq!(approx::cos_approx_f32(NEG | 3, true), ONE);
}

#[test]
fn hyperbolic_tangent() {
    for a in codes(9601).chain((0x3000_0000..0x4200_0000).step_by(301)) {
        for a in [a, a | NEG] {
            let exact = value(a).tanh();
            let got = value(approx::tanh_approx_f32(a));
            // Well within the manual's 2^-11.
            assert!((got - exact).abs() <= 2f64.powi(-22) * exact.abs() || got == exact, "{a:x}");
        }
    }
    for (a, want) in [
        (NEG | INF, NEG | ONE),
        (NEG, NEG),
        (0, 0),
        (INF, ONE),
        (1, 1),
        (NEG | 0x7f_ffff, NEG | 0x7f_ffff),
        (0x7fc0_0000, NAN_F32),
    ] {
        assert_eq!(approx::tanh_approx_f32(a), want, "{a:x}");
    }
}

#[test]
fn halves_over_all_codes() {
    let largest = 65504.0;
    for a in 0..=u16::MAX {
        let x = value(cvt_f32_f16(a));
        let exponential = value(cvt_f32_f16(approx::ex2_approx_f16(a, false)));
        let tangent = value(cvt_f32_f16(approx::tanh_approx_f16(a)));
        if x.is_nan() {
            assert_eq!(approx::ex2_approx_f16(a, false), 0x7fff);
            assert_eq!(approx::tanh_approx_f16(a), 0x7fff);
        } else {
            let exact = x.exp2();
            if exact > largest {
                assert!(exponential.is_infinite() || exact < 65520.0, "{a:x}");
            } else {
                // Below the normal range the unit in the last place is constant.
                assert!(
                    (exponential - exact).abs() <= (exact * 2f64.powf(-9.9)).max(2f64.powi(-25)),
                    "{a:x}"
                );
            }
            assert!((tangent - x.tanh()).abs() <= 2f64.powf(-10.987), "{a:x}");
            let flushed = value(cvt_f32_f16(approx::ex2_approx_f16(a, true)));
            assert!(flushed == if exponential < 2f64.powi(-14) { 0.0 } else { exponential });
        }
        let x = value(cvt_f32_bf16(a));
        let exponential = value(cvt_f32_bf16(approx::ex2_approx_bf16(a)));
        let tangent = value(cvt_f32_bf16(approx::tanh_approx_bf16(a)));
        if x.is_nan() {
            assert_eq!(approx::ex2_approx_bf16(a), 0x7fff);
            assert_eq!(approx::tanh_approx_bf16(a), 0x7fff);
        } else {
            let exact = x.exp2();
            if exact >= 2f64.powi(128) {
                assert!(exponential.is_infinite(), "{a:x}");
            } else if exact < 2f64.powi(-126) {
                assert!(exponential == 0.0 || exponential == 2f64.powi(-126), "{a:x}");
            } else {
                assert!((exponential - exact).abs() <= exact * 2f64.powi(-7), "{a:x}");
            }
            assert!((tangent - x.tanh()).abs() <= 2f64.powi(-8), "{a:x}");
        }
    }
    for (a, want) in
        [(0xfc00u16, 0u16), (0x8000, 0x3c00), (0, 0x3c00), (1, 0x3c00), (0x8001, 0x3c00), (0x7c00, 0x7c00)]
    {
        assert_eq!(approx::ex2_approx_f16(a, false), want);
    }
    for (a, want) in
        [(0xfc00u16, 0xbc00u16), (0x8000, 0x8000), (0, 0), (0x7c00, 0x3c00), (0x8123, 0x8123), (7, 7)]
    {
        assert_eq!(approx::tanh_approx_f16(a), want);
    }
}

#[test]
fn doubles() {
    let neg = 1u64 << 63;
    let inf = 0x7ff0_0000_0000_0000u64;
    let mut a = 0x0010_0000_0000_0000u64;
    while a < inf {
        let x = f64::from_bits(a);
        for (got, exact) in
            [(approx::rcp_approx_ftz_f64(a), 1.0 / x), (approx::rsqrt_approx_ftz_f64(a), 1.0 / x.sqrt())]
        {
            assert_eq!(got as u32, 0);
            let got = f64::from_bits(got);
            if exact < f64::MIN_POSITIVE {
                assert!(got == 0.0 || got == f64::MIN_POSITIVE, "{a:x}");
            } else {
                assert!((got / exact - 1.0).abs() <= 2f64.powi(-19), "{a:x}");
            }
        }
        let got = f64::from_bits(approx::rsqrt_approx_f64(a));
        assert!((got * x.sqrt() - 1.0).abs() <= 2f64.powi(-51), "{a:x}");
        a += 0x0000_0123_4567_89ab * 97;
    }
    for (a, rcp, rsqrt) in [
        (neg | inf, neg, NAN_F64_HIGH),
        (neg | 1, neg | inf, neg | inf),
        (neg, neg | inf, neg | inf),
        (0, inf, inf),
        (0x000f_ffff_ffff_ffff, inf, inf),
        (inf, 0, 0),
        (0x7ff8_0000_0000_0000, NAN_F64_HIGH, NAN_F64_HIGH),
    ] {
        assert_eq!(approx::rcp_approx_ftz_f64(a), rcp, "{a:x}");
        assert_eq!(approx::rsqrt_approx_ftz_f64(a), rsqrt, "{a:x}");
    }
    assert_eq!(approx::rsqrt_approx_ftz_f64((-2.0f64).to_bits()), NAN_F64_HIGH);
    assert_eq!(approx::rcp_approx_ftz_f64(2.0f64.to_bits()), 0.5f64.to_bits());
    assert_eq!(approx::rsqrt_approx_f64((-2.0f64).to_bits()), NAN_F64);
    assert_eq!(approx::rsqrt_approx_f64(neg), neg | inf);
    assert_eq!(approx::rsqrt_approx_f64(inf), 0);
}
