//! Integer arithmetic, compared with 128-bit arithmetic.
#![expect(
    clippy::as_conversions,
    clippy::cast_sign_loss,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    reason = "bits of a register, read and written at a width"
)]

use crate::harness::{Column, check, pairs, patterns};

/// The integer types of most instructions.
pub(crate) const TYPES: [&str; 6] = ["u16", "u32", "u64", "s16", "s32", "s64"];

/// Bits of a type such as `s16`.
pub(crate) fn bits(ty: &str) -> u32 {
    ty[1..].parse().expect("a type such as u16 ends in its size")
}

/// The number that a register holds, read as a type.
pub(crate) fn number(ty: &str, register: u64) -> i128 {
    let unused = 128 - bits(ty);
    let top = u128::from(register) << unused;
    if ty.starts_with('s') { (top as i128) >> unused } else { (top >> unused) as i128 }
}

/// A result as the bits of a register.
pub(crate) fn cut(ty: &str, value: i128) -> u64 {
    let value = value as u128 as u64;
    if bits(ty) == 64 { value } else { value & ((1 << bits(ty)) - 1) }
}

/// The product's bits; the product of two unsigned 64-bit numbers does not fit into an `i128`.
fn product(a: i128, b: i128) -> u128 {
    (a as u128).wrapping_mul(b as u128)
}

fn double(ty: &str) -> String {
    format!("{}{}", &ty[..1], 2 * bits(ty))
}

fn two() -> (Column, Column) {
    let mut values = patterns(36);
    values.retain(|v| *v != 7 && *v != 33);
    pairs(&values, &values)
}

fn three() -> (Column, Column, Column) {
    let (a, b) = two();
    let mut c = patterns(a.len());
    c.rotate_left(5);
    (a, b, c)
}

/// Checks an instruction of two sources on a type.
fn binary(op: &str, ty: &str, f: impl Fn(i128, i128) -> i128) {
    let (a, b) = two();
    check(&format!("{op}.{ty} %d0, %s0, %s1;"), &[ty], &[(ty, a), (ty, b)], |s| {
        vec![cut(ty, f(number(ty, s[0]), number(ty, s[1])))]
    });
}

/// Checks an instruction of three sources on a type.
fn ternary(op: &str, ty: &str, f: impl Fn(i128, i128, i128) -> i128) {
    let (a, b, c) = three();
    check(&format!("{op}.{ty} %d0, %s0, %s1, %s2;"), &[ty], &[(ty, a), (ty, b), (ty, c)], |s| {
        vec![cut(ty, f(number(ty, s[0]), number(ty, s[1]), number(ty, s[2])))]
    });
}

fn saturate(value: i128) -> i128 {
    value.clamp(i128::from(i32::MIN), i128::from(i32::MAX))
}

#[test]
fn sums_and_differences() {
    for ty in TYPES {
        binary("add", ty, |a, b| a + b);
        binary("sub", ty, |a, b| a - b);
    }
    binary("add.sat", "s32", |a, b| saturate(a + b));
    binary("sub.sat", "s32", |a, b| saturate(a - b));
    check("add.s16 %d0, %s0, -1;", &["b16"], &[("b16", patterns(64))], |s| {
        vec![s[0].wrapping_sub(1) & 0xffff]
    });
}

#[test]
fn products() {
    for ty in TYPES {
        let n = bits(ty);
        binary("mul.lo", ty, |a, b| product(a, b) as i128);
        binary("mul.hi", ty, move |a, b| (product(a, b) >> n) as i128);
        ternary("mad.lo", ty, |a, b, c| (product(a, b) as i128).wrapping_add(c));
        ternary("mad.hi", ty, move |a, b, c| (product(a, b) >> n) as i128 + c);
    }
    ternary("mad.hi.sat", "s32", |a, b, c| saturate(((a * b) >> 32) + c));
}

#[test]
fn wide_products() {
    for ty in ["u16", "u32", "s16", "s32"] {
        let wide = double(ty);
        let (a, b, c) = three();
        check(&format!("mul.wide.{ty} %d0, %s0, %s1;"), &[&wide], &[(ty, a.clone()), (ty, b.clone())], |s| {
            vec![cut(&wide, number(ty, s[0]) * number(ty, s[1]))]
        });
        check(
            &format!("mad.wide.{ty} %d0, %s0, %s1, %s2;"),
            &[&wide],
            &[(ty, a), (ty, b), (&wide, c)],
            |s| vec![cut(&wide, number(ty, s[0]) * number(ty, s[1]) + number(&wide, s[2]))],
        );
    }
}

#[test]
fn products_of_24_bits() {
    let low = |signed: bool, a: i128| if signed { (a << 104) >> 104 } else { a & 0xff_ffff };
    for (ty, signed) in [("u32", false), ("s32", true)] {
        let times = move |a, b| low(signed, a) * low(signed, b);
        binary("mul24.lo", ty, times);
        binary("mul24.hi", ty, move |a, b| times(a, b) >> 16);
        ternary("mad24.lo", ty, move |a, b, c| times(a, b) + c);
        ternary("mad24.hi", ty, move |a, b, c| (times(a, b) >> 16) + c);
    }
    ternary("mad24.hi.sat", "s32", move |a, b, c| saturate(((low(true, a) * low(true, b)) >> 16) + c));
}

#[test]
fn sums_of_absolute_differences() {
    for ty in TYPES {
        ternary("sad", ty, |a, b, c| c + (a - b).abs());
    }
}

#[test]
fn quotients_and_remainders() {
    for ty in TYPES {
        binary("div", ty, |a, b| if b == 0 { -1 } else { a / b });
        binary("rem", ty, |a, b| if b == 0 { a } else { a % b });
    }
}

#[test]
fn signs() {
    for ty in ["s16", "s32", "s64"] {
        check(&format!("abs.{ty} %d0, %s0; neg.{ty} %d1, %s0;"), &[ty, ty], &[(ty, patterns(300))], |s| {
            let a = number(ty, s[0]);
            vec![cut(ty, a.abs()), cut(ty, -a)]
        });
    }
}

#[test]
fn extrema() {
    for ty in TYPES {
        binary("min", ty, i128::min);
        binary("max", ty, i128::max);
    }
    binary("min.relu", "s32", |a, b| a.min(b).max(0));
    binary("max.relu", "s32", |a, b| a.max(b).max(0));
}

#[test]
fn pairs_of_16_bits() {
    type Halves = fn(i128, i128) -> i128;
    let forms: [(&str, &str, Halves); 8] = [
        ("add.u16x2", "u16", |a, b| a + b),
        ("add.s16x2", "s16", |a, b| a + b),
        ("min.u16x2", "u16", |a, b| a.min(b)),
        ("max.u16x2", "u16", |a, b| a.max(b)),
        ("min.s16x2", "s16", |a, b| a.min(b)),
        ("max.s16x2", "s16", |a, b| a.max(b)),
        ("min.relu.s16x2", "s16", |a, b| a.min(b).max(0)),
        ("max.relu.s16x2", "s16", |a, b| a.max(b).max(0)),
    ];
    let (a, b) = two();
    let lines: Vec<String> =
        forms.iter().enumerate().map(|(i, form)| format!("{} %d{i}, %s0, %s1;", form.0)).collect();
    let body = lines.join("\n");
    check(&body, &["b32"; 8], &[("b32", a), ("b32", b)], |s| {
        let half = |ty, f: Halves, shift: u32| {
            cut(ty, f(number(ty, s[0] >> shift), number(ty, s[1] >> shift))) << shift
        };
        forms.iter().map(|(_, ty, f)| half(ty, *f, 0) | half(ty, *f, 16)).collect()
    });
}

#[test]
fn dot_products() {
    let part = |ty: &str, width: u32, register: u64, i: u32| {
        number(&format!("{}{width}", &ty[..1]), register >> (width * i))
    };
    for at in ["u32", "s32"] {
        for bt in ["u32", "s32"] {
            let (a, b, c) = three();
            let body = format!(
                "dp4a.{at}.{bt} %d0, %s0, %s1, %s2; dp2a.lo.{at}.{bt} %d1, %s0, %s1, %s2; dp2a.hi.{at}.{bt} %d2, %s0, %s1, %s2;"
            );
            check(&body, &["b32"; 3], &[("b32", a), ("b32", b), ("b32", c)], |s| {
                let c = i128::from(s[2]);
                let four: i128 = (0..4).map(|i| part(at, 8, s[0], i) * part(bt, 8, s[1], i)).sum();
                let two = |first| -> i128 {
                    (0..2).map(|i| part(at, 16, s[0], i) * part(bt, 8, s[1], first + i)).sum()
                };
                vec![cut("u32", c + four), cut("u32", c + two(0)), cut("u32", c + two(2))]
            });
        }
    }
}
