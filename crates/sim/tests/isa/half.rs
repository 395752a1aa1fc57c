//! Tests of the family `half`.
#![expect(clippy::unwrap_used, reason = "a value that does not fit fails the test")]

use super::harness::{Column, check, pairs};
use warpproof_num::compare::Extremum;
use warpproof_num::half;
use warpproof_num::random::SplitMix;

/// Zeros, subnormals, ones, ties, huge numbers, infinities and NaNs, of f16 and of bf16.
const CODES: [u64; 22] = [
    0, 0x8000, 1, 0x8001, 0x03ff, 0x83ff, 0x0400, 0x3c00, 0xbc00, 0x3c01, 0x7bff, 0xfbff, 0x7c00, 0xfc00,
    0x7c01, 0xfe00, 0x007f, 0x0080, 0x3f80, 0xff7f, 0x7f80, 0xff80,
];

/// Codes of one half paired with arbitrary ones of the other.
fn columns() -> [Column; 3] {
    let (mut a, mut b) = pairs(&CODES, &CODES);
    let mut random = SplitMix(5);
    for _ in 0..28 {
        a.push(random.next() & 0xffff);
        b.push(random.next() & 0xffff);
    }
    let mut add_upper = |x: &mut u64| *x |= (random.next() & 0xffff) << 16;
    a.iter_mut().for_each(&mut add_upper);
    b.iter_mut().for_each(&mut add_upper);
    let c = a
        .iter()
        .cycle()
        .skip(13)
        .step_by(3)
        .take(a.len())
        .map(|x| x.rotate_left(16) & 0xffff_ffff | x >> 16)
        .collect();
    [a, b, c]
}

fn parts(x: u64) -> [u16; 2] {
    [u16::try_from(x & 0xffff).unwrap(), u16::try_from(x >> 16 & 0xffff).unwrap()]
}

/// Runs `op.type` and `op.typex2` in one kernel and compares both with `f` of the halves.
fn both(op: &str, ty: &str, operands: usize, f: impl Fn(u16, u16, u16) -> u16) {
    let columns = columns();
    let sources = ["%s0", "%s0, %s1", "%s0, %s1, %s2"][operands - 1];
    let body = format!("{op}.{ty} %d0, {sources};\n");
    let scalar: Vec<(&str, Column)> =
        columns.iter().take(operands).map(|c| ("b16", c.iter().map(|x| x & 0xffff).collect())).collect();
    let of = |x: &[u64], half: usize| {
        let part = |i: usize| x.get(i).map_or(0, |x| parts(*x)[half]);
        f(part(0), part(1), part(2))
    };
    check(&body, &["b16"], &scalar, |x| vec![u64::from(of(x, 0))]);
    let packed: Vec<(&str, Column)> = columns.iter().take(operands).map(|c| ("b32", c.clone())).collect();
    check(&body.replace(&format!(".{ty} "), &format!(".{ty}x2 ")), &["b32"], &packed, |x| {
        vec![u64::from(of(x, 0)) | u64::from(of(x, 1)) << 16]
    });
}

#[test]
fn f16_arithmetic() {
    for (ftz, f) in [("", false), (".ftz", true)] {
        for rnd in ["", ".rn"] {
            both(&format!("add{rnd}{ftz}"), "f16", 2, |a, b, _| half::add_f16(a, b, f));
            both(&format!("sub{rnd}{ftz}"), "f16", 2, |a, b, _| half::sub_f16(a, b, f));
            both(&format!("mul{rnd}{ftz}"), "f16", 2, |a, b, _| half::mul_f16(a, b, f));
        }
        both(&format!("add{ftz}.sat"), "f16", 2, |a, b, _| half::sat_f16(half::add_f16(a, b, f)));
        both(&format!("sub{ftz}.sat"), "f16", 2, |a, b, _| half::sat_f16(half::sub_f16(a, b, f)));
        both(&format!("mul{ftz}.sat"), "f16", 2, |a, b, _| half::sat_f16(half::mul_f16(a, b, f)));
        both(&format!("fma.rn{ftz}"), "f16", 3, |a, b, c| half::fma_f16(a, b, c, f));
        both(&format!("fma.rn{ftz}.sat"), "f16", 3, |a, b, c| half::sat_f16(half::fma_f16(a, b, c, f)));
        both(&format!("fma.rn{ftz}.relu"), "f16", 3, |a, b, c| half::relu(half::fma_f16(a, b, c, f)));
    }
}

#[test]
fn bf16_arithmetic() {
    for rnd in ["", ".rn"] {
        both(&format!("add{rnd}"), "bf16", 2, |a, b, _| half::add_bf16(a, b));
        both(&format!("sub{rnd}"), "bf16", 2, |a, b, _| half::sub_bf16(a, b));
        both(&format!("mul{rnd}"), "bf16", 2, |a, b, _| half::mul_bf16(a, b));
    }
    both("fma.rn", "bf16", 3, half::fma_bf16);
    both("fma.rn.relu", "bf16", 3, |a, b, c| half::relu(half::fma_bf16(a, b, c)));
}

#[test]
fn signs() {
    let nan = |a: u16, infinity: u16, d: u16| if a & 0x7fff > infinity { 0x7fff } else { d };
    let flush = |a: u16| if a & 0x7c00 == 0 { a & 0x8000 } else { a };
    both("neg", "f16", 1, |a, _, _| nan(a, 0x7c00, a ^ 0x8000));
    both("neg.ftz", "f16", 1, |a, _, _| nan(a, 0x7c00, flush(a) ^ 0x8000));
    both("abs", "f16", 1, |a, _, _| nan(a, 0x7c00, a & 0x7fff));
    both("abs.ftz", "f16", 1, |a, _, _| nan(a, 0x7c00, flush(a) & 0x7fff));
    both("neg", "bf16", 1, |a, _, _| nan(a, 0x7f80, a ^ 0x8000));
    both("abs", "bf16", 1, |a, _, _| nan(a, 0x7f80, a & 0x7fff));
}

#[test]
fn minima_and_maxima() {
    for (name, which) in [("min", Extremum::Min), ("max", Extremum::Max)] {
        for (nan, n) in [("", false), (".NaN", true)] {
            for (xorsign, x) in [("", false), (".xorsign.abs", true)] {
                for (ftz, f) in [("", false), (".ftz", true)] {
                    both(&format!("{name}{ftz}{nan}{xorsign}"), "f16", 2, |a, b, _| {
                        half::minmax_f16(which, a, b, n, x, f)
                    });
                }
                both(&format!("{name}{nan}{xorsign}"), "bf16", 2, |a, b, _| {
                    half::minmax_bf16(which, a, b, n, x)
                });
            }
        }
    }
}

#[test]
fn a_guard_keeps_the_other_lanes() {
    let [a, b, _] = columns();
    let body = ".reg .pred %q; testp.normal.f32 %q, %s0; mov.b32 %d0, 7; @%q add.f16x2 %d0, %s0, %s1;";
    check(body, &["b32"], &[("b32", a), ("b32", b)], |x| {
        let float = f32::from_bits(u32::try_from(x[0]).unwrap());
        let [p, q] = [parts(x[0]), parts(x[1])];
        let sum = |i: usize| u64::from(half::add_f16(p[i], q[i], false));
        vec![if float.is_normal() || float == 0.0 { sum(0) | sum(1) << 16 } else { 7 }]
    });
}
