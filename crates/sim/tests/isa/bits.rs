//! Logic, shifts and bit manipulation, compared with one bit at a time.

use crate::harness::{Column, check, pairs, patterns};
use crate::int::{bits, cut, number};

fn two() -> (Column, Column) {
    pairs(&patterns(34), &patterns(34))
}

fn three() -> (Column, Column, Column) {
    let (a, b) = two();
    let mut c = patterns(a.len());
    c.rotate_left(11);
    (a, b, c)
}

/// Positions and lengths at every edge: below, at and beyond the width, the 8 bits that count, and far out of range.
fn amounts() -> Column {
    let mut out: Column = (0..=66).step_by(3).collect();
    out.extend([1, 15, 16, 17, 31, 32, 34, 63, 64, 127, 128, 255, 256, 257, 0xffff_ffff, 0x8000_0000]);
    out
}

fn bit(value: u64, i: u32) -> u64 {
    if i < 64 { value >> i & 1 } else { 0 }
}

/// A number of `n` bits from its bits.
fn gather(n: u32, f: impl Fn(u32) -> u64) -> u64 {
    (0..n).map(|i| f(i) << i).sum()
}

fn low(n: u32, value: u64) -> u64 {
    if n == 64 { value } else { value & ((1 << n) - 1) }
}

#[test]
fn logic() {
    for ty in ["b16", "b32", "b64"] {
        let (a, b) = two();
        let n = bits(ty);
        let body = format!(
            "and.{ty} %d0, %s0, %s1; or.{ty} %d1, %s0, %s1; xor.{ty} %d2, %s0, %s1; not.{ty} %d3, %s0; cnot.{ty} %d4, %s0;
             or.{ty} %d5, %s0, -2;"
        );
        check(&body, &[ty; 6], &[(ty, a), (ty, b)], |s| {
            let (a, b) = (low(n, s[0]), low(n, s[1]));
            let minus_two = low(n, u64::MAX - 1);
            vec![a & b, a | b, a ^ b, low(n, !a), u64::from(a == 0), a | minus_two]
        });
    }
}

#[test]
fn logic_of_predicates() {
    let a: Column = (0..256).map(|i| i & 1).collect();
    let b: Column = (0..256).map(|i| i >> 1 & 1).collect();
    let body = "and.pred %d0, %s0, %s1; or.pred %d1, %s0, %s1; xor.pred %d2, %s0, %s1; not.pred %d3, %s0;
                and.pred %d4, %s0, !%s1; not.pred %d5, %s0; @%s1 not.pred %d5, %d5;";
    check(body, &["pred"; 6], &[("pred", a), ("pred", b)], |s| {
        vec![s[0] & s[1], s[0] | s[1], s[0] ^ s[1], 1 - s[0], s[0] & (1 - s[1]), (1 - s[0]) ^ s[1]]
    });
}

#[test]
fn lop3_for_every_truth_table() {
    let table: Column = patterns(70);
    let (mut b, mut c) = (table.clone(), table.clone());
    b.rotate_left(9);
    c.rotate_left(31);
    for first in (0..256u64).step_by(16) {
        let line = |i| format!("lop3.b32 %d{i}, %s0, %s1, %s2, {:#x};\n", first + i);
        let body = (0..16).map(line).collect::<Vec<_>>().concat();
        check(&body, &["b32"; 16], &[("b32", table.clone()), ("b32", b.clone()), ("b32", c.clone())], |s| {
            (first..first + 16)
                .map(|lut| {
                    gather(32, |i| {
                        bit(lut, u32::try_from(bit(s[0], i) * 4 + bit(s[1], i) * 2 + bit(s[2], i)).unwrap())
                    })
                })
                .collect()
        });
    }
}

#[test]
fn lop3_with_a_predicate() {
    let (a, b, c) = three();
    let q: Column = (0..a.len()).map(|i| u64::from(i % 3 == 1)).collect();
    let sources = [("b32", a), ("b32", b), ("b32", c), ("pred", q)];
    let body =
        "lop3.and.b32 %d0|%d1, %s0, %s1, %s2, 0x80, %s3; lop3.or.b32 %d2|%d3, %s0, %s1, %s2, 0x40, %s3;
                lop3.or.b32 _|%d4, %s0, %s1, %s2, 0x80, !%s3;";
    check(body, &["b32", "pred", "b32", "pred", "pred"], &sources, |s| {
        let first = s[0] & s[1] & s[2] & 0xffff_ffff;
        let second = s[0] & s[1] & !s[2] & 0xffff_ffff;
        let flag = |v: u64| u64::from(v != 0);
        vec![first, flag(first) & s[3], second, flag(second) | s[3], flag(first) | (1 - s[3])]
    });
}

#[test]
fn shifts() {
    for n in [16u32, 32, 64] {
        let (a, b) = pairs(&patterns(40), &amounts());
        let ty = format!("b{n}");
        let body = format!(
            "shl.b{n} %d0, %s0, %s1; shr.b{n} %d1, %s0, %s1; shr.u{n} %d2, %s0, %s1; shr.s{n} %d3, %s0, %s1; shl.b{n} %d4, %s0, 3;"
        );
        check(&body, &[&ty; 5].map(String::as_str), &[(&ty, a), ("b32", b)], |s| {
            let by = u32::try_from(s[1]).unwrap();
            let a = low(n, s[0]);
            let left = gather(n, |i| if i >= by { bit(a, i - by) } else { 0 });
            let right = gather(n, |i| bit(a, i.saturating_add(by)));
            let arithmetic = gather(n, |i| bit(a, i.saturating_add(by).min(n - 1)));
            vec![left, right, right, arithmetic, low(n, a << 3)]
        });
    }
}

#[test]
fn funnel_shifts() {
    let (a, c) = pairs(&patterns(40), &amounts());
    let mut b = a.clone();
    b.rotate_left(123);
    let body = "shf.l.clamp.b32 %d0, %s0, %s1, %s2; shf.r.clamp.b32 %d1, %s0, %s1, %s2;
                shf.l.wrap.b32 %d2, %s0, %s1, %s2; shf.r.wrap.b32 %d3, %s0, %s1, %s2;";
    check(body, &["b32"; 4], &[("b32", a), ("b32", b), ("b32", c)], |s| {
        let both = u128::from(low(32, s[0])) | u128::from(low(32, s[1])) << 32;
        let word = |v: u128| u64::try_from(v & 0xffff_ffff).unwrap();
        let (clamp, wrap) = (s[2].min(32), s[2] % 32);
        vec![word(both << clamp >> 32), word(both >> clamp), word(both << wrap >> 32), word(both >> wrap)]
    });
}

#[test]
fn counts_and_searches() {
    for n in [32u32, 64] {
        let ty = format!("b{n}");
        let body = format!(
            "popc.b{n} %d0, %s0; clz.b{n} %d1, %s0; brev.b{n} %d2, %s0; bfind.u{n} %d3, %s0; bfind.shiftamt.u{n} %d4, %s0;
             bfind.s{n} %d5, %s0; bfind.shiftamt.s{n} %d6, %s0;"
        );
        let results = ["b32", "b32", &ty, "b32", "b32", "b32", "b32"];
        check(&body, &results, &[(&ty, patterns(400))], |s| {
            let a = low(n, s[0]);
            let top = |wanted: u64| (0..n).rev().find(|i| bit(a, *i) == wanted);
            let none = 0xffff_ffff;
            let unsigned = top(1);
            let signed = top(1 - bit(a, n - 1));
            let position = |found: Option<u32>| found.map_or(none, u64::from);
            let distance = |found: Option<u32>| found.map_or(none, |i| u64::from(n - 1 - i));
            vec![
                (0..n).map(|i| bit(a, i)).sum(),
                unsigned.map_or(u64::from(n), |i| u64::from(n - 1 - i)),
                gather(n, |i| bit(a, n - 1 - i)),
                position(unsigned),
                distance(unsigned),
                position(signed),
                distance(signed),
            ]
        });
    }
}

#[test]
fn the_nth_set_bit() {
    let offsets: Column =
        (-33i32..=33).step_by(3).chain([1, -1, 2, 32, -32]).map(|v| u64::from(v.cast_unsigned())).collect();
    let (base, offset) = pairs(&(0..32).collect::<Column>(), &offsets);
    let mask: Column = patterns(37).into_iter().cycle().take(base.len()).collect();
    check("fns.b32 %d0, %s0, %s1, %s2;", &["b32"], &[("b32", mask), ("b32", base), ("b32", offset)], |s| {
        let offset = number("s32", s[2]);
        let base = u32::try_from(s[1]).unwrap();
        let set = |i: &u32| bit(s[0], *i) == 1;
        let skip = usize::try_from(offset.abs().max(1) - 1).unwrap();
        let found = match offset {
            0 => Some(base).filter(set),
            1.. => (base..32).filter(set).nth(skip),
            _ => (0..=base).rev().filter(set).nth(skip),
        };
        vec![found.map_or(0xffff_ffff, u64::from)]
    });
}

#[test]
fn bit_fields() {
    let (position, length) = pairs(&amounts(), &amounts());
    let a: Column = patterns(101).into_iter().cycle().take(position.len()).collect();
    let mut b = a.clone();
    b.rotate_left(17);
    for n in [32u32, 64] {
        let ty = format!("b{n}");
        let body = format!(
            "bfe.u{n} %d0, %s0, %s2, %s3; bfe.s{n} %d1, %s0, %s2, %s3; bfi.b{n} %d2, %s0, %s1, %s2, %s3;"
        );
        let sources =
            [(&*ty, a.clone()), (&*ty, b.clone()), ("b32", position.clone()), ("b32", length.clone())];
        check(&body, &[&ty; 3].map(String::as_str), &sources, |s| {
            let (a, b) = (low(n, s[0]), low(n, s[1]));
            let (pos, len) = (u32::try_from(s[2] & 0xff).unwrap(), u32::try_from(s[3] & 0xff).unwrap());
            let field =
                |sign: u64| gather(n, |i| if i < len && pos + i < n { bit(a, pos + i) } else { sign });
            let sign = if len == 0 { 0 } else { bit(a, (pos + len - 1).min(n - 1)) };
            let inserted = gather(n, |i| if i >= pos && i < pos + len { bit(a, i - pos) } else { bit(b, i) });
            vec![field(0), field(sign), inserted]
        });
    }
}

#[test]
fn extensions_and_masks() {
    let (a, b) = pairs(&patterns(40), &amounts());
    let body = "szext.clamp.u32 %d0, %s0, %s1; szext.clamp.s32 %d1, %s0, %s1; szext.wrap.u32 %d2, %s0, %s1;
                szext.wrap.s32 %d3, %s0, %s1;";
    check(body, &["b32"; 4], &[("b32", a), ("b32", b)], |s| {
        let extend = |signed: bool, width: u64| match width {
            0 => 0,
            32.. => low(32, s[0]),
            _ => {
                let ty = format!("{}{width}", if signed { 's' } else { 'u' });
                cut("u32", number(&ty, s[0]))
            }
        };
        vec![extend(false, s[1]), extend(true, s[1]), extend(false, s[1] % 32), extend(true, s[1] % 32)]
    });
    let (a, b) = pairs(&amounts(), &amounts());
    check(
        "bmsk.clamp.b32 %d0, %s0, %s1; bmsk.wrap.b32 %d1, %s0, %s1;",
        &["b32"; 2],
        &[("b32", a), ("b32", b)],
        |s| {
            let ones = |start: u64, width: u64| {
                gather(32, |i| u64::from((start..start + width).contains(&u64::from(i))))
            };
            vec![ones(s[0], s[1]), ones(s[0] % 32, s[1] % 32)]
        },
    );
}
