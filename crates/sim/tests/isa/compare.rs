//! Comparison and selection, compared with Rust's own ordering of numbers.
#![expect(
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    reason = "the low bits of a register, and fields of a few bits"
)]

use crate::harness::{Column, check, pairs, patterns};
use crate::int::{bits, number};
use std::cmp::Ordering;

const ORDERED: [&str; 6] = ["eq", "ne", "lt", "le", "gt", "ge"];
const UNSIGNED: [&str; 10] = ["eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs"];
const UNTYPED: [&str; 2] = ["eq", "ne"];
const FLOAT: [&str; 14] =
    ["eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"];
const BOOLEAN: [&str; 3] = ["and", "or", "xor"];

/// Every type that `setp` compares, its operators, and whether it takes `.ftz`.
const TYPES: [(&str, &[&str], bool); 13] = [
    ("u16", &UNSIGNED, false),
    ("u32", &UNSIGNED, false),
    ("u64", &UNSIGNED, false),
    ("s16", &ORDERED, false),
    ("s32", &ORDERED, false),
    ("s64", &ORDERED, false),
    ("b16", &UNTYPED, false),
    ("b32", &UNTYPED, false),
    ("b64", &UNTYPED, false),
    ("f32", &FLOAT, true),
    ("f64", &FLOAT, false),
    ("f16", &FLOAT, true),
    ("bf16", &FLOAT, false),
];

/// Whether an operator is true for two operands in this order; `None` if one is NaN.
fn holds(operator: &str, order: Option<Ordering>) -> bool {
    let Some(order) = order else {
        return matches!(operator, "equ" | "neu" | "ltu" | "leu" | "gtu" | "geu" | "nan");
    };
    match operator {
        "eq" | "equ" => order.is_eq(),
        "ne" | "neu" => order.is_ne(),
        "lt" | "lo" | "ltu" => order.is_lt(),
        "le" | "ls" | "leu" => order.is_le(),
        "gt" | "hi" | "gtu" => order.is_gt(),
        "ge" | "hs" | "geu" => order.is_ge(),
        "num" => true,
        _ => false,
    }
}

/// A floating-point number from its fields.
fn decode(code: u64, exponent_bits: u32, fraction_bits: u32, ftz: bool) -> f64 {
    let fraction = code & ((1 << fraction_bits) - 1);
    let exponent = code >> fraction_bits & ((1 << exponent_bits) - 1);
    let bias = (1i32 << (exponent_bits - 1)) - 1;
    let scale = |e: u64| f64::powi(2.0, e as i32 - bias - fraction_bits as i32);
    let exact = |v: u64| f64::from(v as u32);
    let magnitude = if exponent == (1 << exponent_bits) - 1 {
        if fraction == 0 { f64::INFINITY } else { f64::NAN }
    } else if exponent == 0 {
        if ftz { 0.0 } else { exact(fraction) * scale(1) }
    } else {
        exact(fraction | 1 << fraction_bits) * scale(exponent)
    };
    if code >> (fraction_bits + exponent_bits) & 1 != 0 { -magnitude } else { magnitude }
}

fn order(ty: &str, ftz: bool, a: u64, b: u64) -> Option<Ordering> {
    let float = |code: u64| match ty {
        "f64" => f64::from_bits(code),
        "f32" => decode(code, 8, 23, ftz),
        "f16" => decode(code, 5, 10, ftz),
        _ => decode(code, 8, 7, ftz),
    };
    if matches!(ty, "f64" | "f32" | "f16" | "bf16") {
        float(a).partial_cmp(&float(b))
    } else {
        Some(number(ty, a).cmp(&number(ty, b)))
    }
}

fn truth(operator: &str, ty: &str, ftz: bool, a: u64, b: u64) -> bool {
    holds(operator, order(ty, ftz, a, b))
}

/// Codes worth comparing as a type: integer edge values, or zeros, subnormals, ones, infinities and NaNs of both signs.
fn codes(ty: &str) -> Column {
    let magnitudes: &[u64] = match ty {
        "f32" => &[
            0,
            1,
            0x7f_ffff,
            0x80_0000,
            0x3f80_0000,
            0x3f80_0001,
            0x7f7f_ffff,
            0x7f80_0000,
            0x7f80_0001,
            0x7fff_ffff,
        ],
        "f64" => {
            &[0, 1, 1 << 52, 0x3ff0 << 48, (0x3ff0 << 48) + 1, 0x7ff0 << 48, (0x7ff0 << 48) + 1, 0x7fff << 48]
        }
        "f16" | "f16x2" => &[0, 1, 0x3ff, 0x400, 0x3c00, 0x3c01, 0x7bff, 0x7c00, 0x7c01, 0x7fff],
        "bf16" | "bf16x2" => &[0, 1, 0x7f, 0x80, 0x3f80, 0x3f81, 0x7f7f, 0x7f80, 0x7f81, 0x7fff],
        _ => return patterns(36),
    };
    let sign = match ty {
        "f32" => 31,
        "f64" => 63,
        _ => 15,
    };
    let mut out: Column = magnitudes.iter().flat_map(|m| [*m, m | 1 << sign]).collect();
    out.extend(patterns(36).into_iter().skip(29));
    out
}

fn operands(ty: &str) -> (Column, Column) {
    pairs(&codes(ty), &codes(ty))
}

/// Pairs for packed types: the upper halves are those of another pair.
fn packed_operands(ty: &str) -> (Column, Column) {
    let (a, b) = operands(ty);
    let pack = |low: &Column| -> Column {
        let mut high = low.clone();
        high.rotate_left(131);
        low.iter().zip(high).map(|(l, h)| l & 0xffff | (h & 0xffff) << 16).collect()
    };
    (pack(&a), pack(&b))
}

fn flags(count: usize) -> Column {
    (0..count).map(|i| u64::from(i % 7 % 2 == 1)).collect()
}

fn combine(boolean: &str, t: bool, c: bool) -> bool {
    match boolean {
        "and" => t & c,
        "or" => t | c,
        _ => t ^ c,
    }
}

fn lines(operators: &[&str], line: impl Fn(usize, &str) -> String) -> String {
    operators.iter().enumerate().map(|(i, operator)| line(i, operator) + "\n").collect()
}

fn settings(takes_ftz: bool) -> &'static [(&'static str, bool)] {
    if takes_ftz { &[("", false), (".ftz", true)] } else { &[("", false)] }
}

#[test]
fn setp_with_every_operator() {
    for (ty, operators, takes_ftz) in TYPES {
        for &(suffix, ftz) in settings(takes_ftz) {
            let (a, b) = operands(ty);
            let body = lines(operators, |i, op| format!("setp.{op}{suffix}.{ty} %d{i}, %s0, %s1;"));
            check(&body, &vec!["pred"; operators.len()], &[(ty, a), (ty, b)], |s| {
                operators.iter().map(|op| u64::from(truth(op, ty, ftz, s[0], s[1]))).collect()
            });
        }
    }
}

#[test]
fn setp_with_two_results_and_boolean_operators() {
    for (ty, operators, takes_ftz) in TYPES {
        let (suffix, ftz) = if takes_ftz { (".ftz", true) } else { ("", false) };
        let (a, b) = operands(ty);
        let c = flags(a.len());
        let op = operators[operators.len() - 1];
        let mut body = format!("setp.{op}{suffix}.{ty} %d0|%d1, %s0, %s1;\n");
        body += &lines(&BOOLEAN, |i, boolean| {
            let (p, q, r) = (3 * i + 2, 3 * i + 3, 3 * i + 4);
            format!(
                "setp.{op}.{boolean}{suffix}.{ty} %d{p}|%d{q}, %s0, %s1, %s2; setp.{op}.{boolean}{suffix}.{ty} %d{r}, %s0, %s1, !%s2;"
            )
        });
        check(&body, &["pred"; 11], &[(ty, a), (ty, b), ("pred", c)], |s| {
            let (t, c) = (truth(op, ty, ftz, s[0], s[1]), s[2] != 0);
            let mut wanted = vec![t, !t];
            for boolean in BOOLEAN {
                wanted.extend([combine(boolean, t, c), combine(boolean, !t, c), combine(boolean, t, !c)]);
            }
            wanted.into_iter().map(u64::from).collect()
        });
    }
}

#[test]
fn setp_on_pairs() {
    for (ty, part, takes_ftz) in [("f16x2", "f16", true), ("bf16x2", "bf16", false)] {
        for &(suffix, ftz) in settings(takes_ftz) {
            let (a, b) = packed_operands(ty);
            let c = flags(a.len());
            let plain = lines(&FLOAT, |i, op| {
                format!("setp.{op}{suffix}.{ty} %d{}|%d{}, %s0, %s1;", 2 * i, 2 * i + 1)
            });
            let body = plain + &format!("setp.lt.xor{suffix}.{ty} %d28|%d29, %s0, %s1, !%s2;");
            check(&body, &["pred"; 30], &[("b32", a), ("b32", b), ("pred", c)], |s| {
                let half = |op: &str, shift: u32| {
                    truth(op, part, ftz, s[0] >> shift & 0xffff, s[1] >> shift & 0xffff)
                };
                let mut wanted: Vec<bool> = FLOAT.iter().flat_map(|op| [half(op, 0), half(op, 16)]).collect();
                wanted.extend([half("lt", 0) ^ (s[2] == 0), half("lt", 16) ^ (s[2] == 0)]);
                wanted.into_iter().map(u64::from).collect()
            });
        }
    }
}

#[test]
fn setp_with_immediates_sinks_and_guards() {
    let body = "setp.lt.s16 %d0, %s0, -5; setp.ge.f32 %d1, %s1, 0f3F800000; setp.lt.f64 %d2, %s2, 1.5;
                setp.eq.u32 _|%d3, %s1, 0; setp.eq.s32 %d4, 0, 0; @%d0 setp.ne.s32 %d4, 0, 0; setp.gt.f32 %d5, %s1, 2;";
    let (a, b, c) = (patterns(300), codes("f32"), codes("f64"));
    let fill = |column: &Column| -> Column { column.iter().copied().cycle().take(300).collect() };
    check(body, &["pred"; 6], &[("b16", a), ("b32", fill(&b)), ("b64", fill(&c))], |s| {
        let x = f32::from_bits(s[1] as u32);
        let first = number("s16", s[0]) < -5;
        [first, x >= 1.0, f64::from_bits(s[2]) < 1.5, s[1] as u32 != 0, !first, x > 2.0]
            .map(u64::from)
            .to_vec()
    });
}

/// The bits that mean true in a result of `set`.
fn yes(dtype: &str) -> u64 {
    match dtype {
        "f32" => 0x3f80_0000,
        "f16" | "f16x2" => 0x3c00,
        "bf16" | "bf16x2" => 0x3f80,
        "u16" | "s16" => 0xffff,
        _ => 0xffff_ffff,
    }
}

#[test]
fn set_into_every_type() {
    for (ty, operators, takes_ftz) in TYPES {
        let results: &[&str] = match ty {
            "f16" => &["u16", "s16", "u32", "s32", "f16", "bf16"],
            "bf16" => &["u16", "s16", "u32", "s32", "bf16"],
            _ => &["u32", "s32", "f32", "f16", "bf16"],
        };
        for dtype in results {
            let takes_ftz = takes_ftz && *dtype != "bf16";
            let (suffix, ftz) = if takes_ftz { (".ftz", true) } else { ("", false) };
            let (a, b) = operands(ty);
            let c = flags(a.len());
            let n = operators.len();
            let mut body = lines(operators, |i, op| format!("set.{op}.{dtype}.{ty} %d{i}, %s0, %s1;"));
            body += &lines(&BOOLEAN, |i, boolean| {
                let op = operators[i % n];
                let not = if i == 1 { "!" } else { "" };
                format!("set.{op}.{boolean}{suffix}.{dtype}.{ty} %d{}, %s0, %s1, {not}%s2;", n + i)
            });
            check(&body, &vec![*dtype; n + 3], &[(ty, a), (ty, b), ("pred", c)], |s| {
                let mut wanted: Vec<bool> =
                    operators.iter().map(|op| truth(op, ty, false, s[0], s[1])).collect();
                for (i, boolean) in BOOLEAN.iter().enumerate() {
                    let t = truth(operators[i % n], ty, ftz, s[0], s[1]);
                    wanted.push(combine(boolean, t, (s[2] != 0) ^ (i == 1)));
                }
                wanted.into_iter().map(|t| if t { yes(dtype) } else { 0 }).collect()
            });
        }
    }
}

#[test]
fn set_on_pairs() {
    for (ty, part, takes_ftz) in [("f16x2", "f16", true), ("bf16x2", "bf16", false)] {
        for dtype in [ty, "u32", "s32"] {
            let (suffix, ftz) = if takes_ftz { (".ftz", true) } else { ("", false) };
            let (a, b) = packed_operands(ty);
            let c = flags(a.len());
            let plain = lines(&FLOAT, |i, op| format!("set.{op}.{dtype}.{ty} %d{i}, %s0, %s1;"));
            let body = plain + &format!("set.ge.or{suffix}.{dtype}.{ty} %d14, %s0, %s1, %s2;");
            check(&body, &["b32"; 15], &[("b32", a), ("b32", b), ("pred", c)], |s| {
                let yes = yes(dtype) & 0xffff;
                let half = |op: &str, ftz: bool, c: bool, shift: u32| {
                    let t = truth(op, part, ftz, s[0] >> shift & 0xffff, s[1] >> shift & 0xffff);
                    if t | c { yes << shift } else { 0 }
                };
                let mut wanted: Vec<u64> =
                    FLOAT.iter().map(|op| half(op, false, false, 0) | half(op, false, false, 16)).collect();
                wanted.push(half("ge", ftz, s[2] != 0, 0) | half("ge", ftz, s[2] != 0, 16));
                wanted
            });
        }
    }
}

const DATA: [&str; 11] = ["b16", "b32", "b64", "u16", "u32", "u64", "s16", "s32", "s64", "f32", "f64"];

fn low(ty: &str, value: u64) -> u64 {
    if bits(ty) == 64 { value } else { value & ((1 << bits(ty)) - 1) }
}

#[test]
fn selp_of_every_type() {
    for ty in DATA {
        let a = patterns(300);
        let mut b = a.clone();
        b.rotate_left(100);
        let body = format!(
            "selp.{ty} %d0, %s0, %s1, %s2; selp.{ty} %d1, %s0, %s1, %s2; @%s2 selp.{ty} %d1, %s1, %s0, %s2;"
        );
        check(&body, &[ty; 2], &[(ty, a), (ty, b), ("pred", flags(300))], |s| {
            vec![low(ty, if s[2] != 0 { s[0] } else { s[1] }), low(ty, s[1])]
        });
    }
    let body = "selp.b16 %d0, -1, 5, %s0; selp.f32 %d1, 0f3F800000, 2.0, %s0; selp.f64 %d2, 1.0, 0d4000000000000000, %s0;
                selp.s32 %d3, -7, 7, %s0;";
    check(body, &["b16", "b32", "b64", "b32"], &[("pred", flags(300))], |s| {
        if s[0] != 0 {
            vec![0xffff, 0x3f80_0000, 0x3ff0 << 48, 0xffff_fff9]
        } else {
            vec![5, 0x4000_0000, 0x4000 << 48, 7]
        }
    });
}

#[test]
fn slct_by_sign() {
    for ty in DATA {
        let count = 300;
        let a = patterns(count);
        let mut b = a.clone();
        b.rotate_left(100);
        let c: Column = patterns(count).into_iter().rev().collect();
        let f: Column = codes("f32").into_iter().cycle().take(count).collect();
        let body = format!(
            "slct.{ty}.s32 %d0, %s0, %s1, %s2; slct.{ty}.f32 %d1, %s0, %s1, %s3; slct.ftz.{ty}.f32 %d2, %s0, %s1, %s3;"
        );
        check(&body, &[ty; 3], &[(ty, a), (ty, b), ("b32", c), ("b32", f)], |s| {
            let first = |choose: bool| low(ty, if choose { s[0] } else { s[1] });
            let float = |ftz| decode(s[3], 8, 23, ftz) >= 0.0;
            vec![first(number("s32", s[2]) >= 0), first(float(false)), first(float(true))]
        });
    }
}
