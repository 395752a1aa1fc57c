//! Tests of the family `video`.

use super::harness::{check, pairs, patterns};

fn part(word: u64, bits: u32, i: u32, signed: bool) -> i64 {
    let field = (word >> (bits * i)).cast_signed();
    let top = 64 - bits;
    if signed { field << top >> top } else { ((field << top).cast_unsigned() >> top).cast_signed() }
}

#[test]
fn parts_of_words_are_computed_apart() {
    type Operation = fn(i64, i64) -> i64;
    let operations: [(&str, Operation); 6] = [
        ("vadd", |a, b| a + b),
        ("vsub", |a, b| a - b),
        ("vavrg", |a, b| if a + b >= 0 { (a + b + 1).div_euclid(2) } else { (a + b).div_euclid(2) }),
        ("vabsdiff", |a, b| (a - b).abs()),
        ("vmin", i64::min),
        ("vmax", i64::max),
    ];
    let values: Vec<u64> = patterns(24).into_iter().chain([0x80ff_7f01, 0xff80_0100, 0x7f80_8000]).collect();
    let (a, b) = pairs(&values, &values);
    let c: Vec<u64> = a.iter().rev().copied().collect();
    for (name, f) in operations {
        for (parts, bits) in [(2, 16), (4, 8)] {
            for types in ["u32.u32.u32", "s32.s32.s32", "u32.s32.u32", "s32.u32.s32"] {
                for second in ["", ".sat", ".add"] {
                    let signed: Vec<bool> = types.split('.').map(|ty| ty == "s32").collect();
                    let (low, high) = if signed[0] {
                        (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
                    } else {
                        (0, (1i64 << bits) - 1)
                    };
                    let body = format!("{name}{parts}.{types}{second} %d0, %s0, %s1, %s2;");
                    let sources = [("b32", a.clone()), ("b32", b.clone()), ("b32", c.clone())];
                    check(&body, &["b32"], &sources, |s| {
                        let results = (0..parts)
                            .map(|i| f(part(s[0], bits, i, signed[1]), part(s[1], bits, i, signed[2])));
                        let word: i64 = match second {
                            ".add" => results.sum::<i64>() + s[2].cast_signed(),
                            ".sat" => (0..)
                                .zip(results)
                                .map(|(i, t)| (t.clamp(low, high) & ((1 << bits) - 1)) << (bits * i))
                                .sum(),
                            _ => (0..).zip(results).map(|(i, t)| (t & ((1 << bits) - 1)) << (bits * i)).sum(),
                        };
                        vec![word.cast_unsigned() & 0xffff_ffff]
                    });
                }
            }
        }
    }
}

#[test]
fn parts_of_words_are_compared_apart() {
    type Comparison = fn(&i64, &i64) -> bool;
    let comparisons: [(&str, Comparison); 6] = [
        ("eq", i64::eq),
        ("ne", i64::ne),
        ("lt", i64::lt),
        ("le", i64::le),
        ("gt", i64::gt),
        ("ge", i64::ge),
    ];
    let values: Vec<u64> = patterns(24).into_iter().chain([0x80ff_7f01, 0xff80_0100, 0x7f80_8000]).collect();
    let (a, b) = pairs(&values, &values);
    let c: Vec<u64> = a.iter().rev().copied().collect();
    for (name, holds) in comparisons {
        for (parts, bits) in [(2, 16), (4, 8)] {
            for types in ["u32.u32", "s32.s32", "u32.s32", "s32.u32"] {
                for second in ["", ".add"] {
                    let signed: Vec<bool> = types.split('.').map(|ty| ty == "s32").collect();
                    let body = format!("vset{parts}.{types}.{name}{second} %d0, %s0, %s1, %s2;");
                    let sources = [("b32", a.clone()), ("b32", b.clone()), ("b32", c.clone())];
                    check(&body, &["b32"], &sources, |s| {
                        let results = (0..parts).map(|i| {
                            let (a, b) = (part(s[0], bits, i, signed[0]), part(s[1], bits, i, signed[1]));
                            (i, u64::from(holds(&a, &b)))
                        });
                        let word = match second {
                            ".add" => s[2].wrapping_add(results.map(|(_, one)| one).sum()),
                            _ => results.map(|(i, one)| one << (bits * i)).sum(),
                        };
                        vec![word & 0xffff_ffff]
                    });
                }
            }
        }
    }
}
