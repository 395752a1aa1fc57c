//! `cvt` of formats below a byte and of scales: every code of the 16-bit types and their neighbors in f32, compared with a search
//! over all values of the format.
#![expect(
    clippy::unwrap_used,
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::float_cmp,
    reason = "codes of numbers change width on purpose"
)]

use crate::harness::{Column, eval_on, levels, patterns, try_eval_on};
use warpproof_sim::Blame;

/// Exponent bits, fraction bits, bias, and the number of magnitudes that are numbers.
#[derive(Clone, Copy)]
struct Format(u32, u32, i32, u64);

fn format(name: &str) -> Format {
    match name {
        "e2m1x2" => Format(2, 1, 1, 8),
        "e2m3x2" => Format(2, 3, 1, 32),
        "e3m2x2" => Format(3, 2, 3, 32),
        "e4m3x2" => Format(4, 3, 7, 127),
        _ => Format(5, 2, 15, 124),
    }
}

impl Format {
    /// The value of a magnitude, from the definition of the format.
    fn value(self, code: u64) -> f64 {
        let Format(_, fraction_bits, bias, _) = self;
        let (field, fraction) = (code >> fraction_bits, code & ((1 << fraction_bits) - 1));
        let fraction = fraction as f64 / f64::from(1u32 << fraction_bits);
        if field == 0 {
            fraction * 2f64.powi(1 - bias)
        } else {
            (1.0 + fraction) * 2f64.powi(field as i32 - bias)
        }
    }

    fn sign(self) -> u64 {
        1 << (self.0 + self.1)
    }

    /// The nearest code; the even one of two; the largest beyond all.
    fn nearest(self, x: f64, relu: bool) -> u64 {
        if x.is_nan() {
            // Formats without NaN give the largest number.
            return if self.0 >= 4 { 0x7f } else { self.3 - 1 };
        }
        let distance = |code: u64| (self.value(code) - x.abs()).abs();
        let largest = self.3 - 1;
        let code = if x.abs() >= self.value(largest) {
            largest
        } else {
            (0..self.3)
                .min_by(|a, b| distance(*a).total_cmp(&distance(*b)).then((a & 1).cmp(&(b & 1))))
                .unwrap()
        };
        match (x.is_sign_negative(), relu) {
            (true, true) => 0,
            (true, false) => code | self.sign(),
            (false, _) => code,
        }
    }
}

fn f16(code: u64) -> f64 {
    let (field, fraction) = ((code >> 10 & 31) as i32, (code & 0x3ff) as f64 / 1024.0);
    let magnitude = match field {
        31 if fraction == 0.0 => f64::INFINITY,
        31 => return f64::NAN,
        0 => fraction * 2f64.powi(-14),
        _ => (1.0 + fraction) * 2f64.powi(field - 15),
    };
    if code & 0x8000 != 0 { -magnitude } else { magnitude }
}

fn f32_of(code: u64) -> f64 {
    f64::from(f32::from_bits(code as u32))
}

fn bf16(code: u64) -> f64 {
    f32_of(code << 16)
}

const TARGET: &str = "sm_120a";
const TYPES: [&str; 5] = ["e2m1x2", "e2m3x2", "e3m2x2", "e4m3x2", "e5m2x2"];

/// A result of type e2m1x2 is in a register of 8 bits.
fn to_small(ty: &str, instruction: &str, sources: &str) -> String {
    if ty == "e2m1x2" {
        format!(".reg .b8 %b; {instruction} %b, {sources}; mov.b16 %d0, {{%b, 0}};")
    } else {
        format!("{instruction} %d0, {sources};")
    }
}

fn pack(ty: &str, upper: u64, lower: u64) -> u64 {
    upper << if ty == "e2m1x2" { 4 } else { 8 } | lower
}

/// All codes of 16 bits, and the same in an order in which neighbors are far apart.
fn codes() -> (Column, Column) {
    ((0..0x1_0000).collect(), (0..0x1_0000).map(|code| (code * 40503 + 77) & 0xffff).collect())
}

#[test]
fn pairs_of_halves() {
    let (upper, lower) = codes();
    let words: Column = upper.iter().zip(&lower).map(|(upper, lower)| upper << 16 | lower).collect();
    for ty in TYPES {
        for (from, value) in [("f16x2", f16 as fn(u64) -> f64), ("bf16x2", bf16)] {
            for relu in [false, true] {
                let name = format!("cvt.rn.satfinite{}.{ty}.{from}", if relu { ".relu" } else { "" });
                let got = eval_on(TARGET, &to_small(ty, &name, "%s0"), &["b16"], &[("b32", words.clone())]);
                let table: Vec<u64> =
                    (0..0x1_0000).map(|code| format(ty).nearest(value(code), relu)).collect();
                for (i, got) in got[0].iter().enumerate() {
                    let want = pack(ty, table[upper[i] as usize], table[lower[i] as usize]);
                    assert_eq!(*got, want, "{name} {:#x}", words[i]);
                }
            }
        }
    }
}

#[test]
fn pairs_of_singles() {
    // Ties between bf16 and their neighbors are decided by the bits below.
    let (some, other) = codes();
    let upper: Column = some.iter().map(|code| code << 16).collect();
    let lower: Column =
        other.iter().map(|code| ((code << 16).wrapping_add(1) - (code & 2)) & 0xffff_ffff).collect();
    for ty in &TYPES[..3] {
        for relu in [false, true] {
            let name = format!("cvt.rn.satfinite{}.{ty}.f32", if relu { ".relu" } else { "" });
            let sources = [("b32", upper.clone()), ("b32", lower.clone())];
            let got = eval_on(TARGET, &to_small(ty, &name, "%s0, %s1"), &["b16"], &sources);
            for (i, got) in got[0].iter().enumerate() {
                let code = |code: u64| format(ty).nearest(f32_of(code), relu);
                assert_eq!(
                    *got,
                    pack(ty, code(upper[i]), code(lower[i])),
                    "{name} {:#x} {:#x}",
                    upper[i],
                    lower[i]
                );
            }
        }
    }
}

#[test]
fn back_to_halves() {
    let words: Column = (0..0x1_0000).collect();
    for ty in TYPES {
        for to in ["f16x2", "bf16x2"] {
            for relu in [false, true] {
                let name = format!("cvt.rn{}.{to}.{ty}", if relu { ".relu" } else { "" });
                let body = if ty == "e2m1x2" {
                    format!(".reg .b8 %b, %z; mov.b16 {{%b, %z}}, %s0; {name} %d0, %b;")
                } else {
                    format!("{name} %d0, %s0;")
                };
                let got = eval_on(TARGET, &body, &["b32"], &[("b16", words.clone())]);
                let Format(exponent_bits, fraction_bits, ..) = format(ty);
                let (width, step) = (1 + exponent_bits + fraction_bits, if ty == "e2m1x2" { 4 } else { 8 });
                for (word, got) in words.iter().zip(&got[0]) {
                    for half in 0..2 {
                        let code = word >> (step * half) & ((1 << width) - 1);
                        let magnitude = code & (format(ty).sign() - 1);
                        let got = got >> (16 * half) & 0xffff;
                        let value = if to == "f16x2" { f16(got) } else { bf16(got) };
                        let numbers = format(ty).3;
                        if magnitude > numbers || magnitude == numbers && ty == "e4m3x2" {
                            assert!(got == 0x7fff, "{name} {code:#x}: {got:#x}");
                        } else if magnitude == numbers {
                            assert!(value.is_infinite() || relu && value == 0.0, "{name} {code:#x}");
                        } else {
                            let negative = code != magnitude;
                            let want = if negative && relu { 0.0 } else { format(ty).value(magnitude) };
                            assert_eq!(value.abs(), want, "{name} {code:#x}");
                            assert_eq!(value.is_sign_negative(), negative && !relu, "{name} {code:#x}");
                        }
                    }
                }
            }
        }
    }
}

/// The code of a scale: the power of two next to the magnitude.
fn scale(x: f64, up: bool, satfinite: bool) -> u64 {
    let power = |code: &u64| 2f64.powi(*code as i32 - 127);
    let magnitude = x.abs();
    if magnitude.is_nan() {
        return 0xff;
    }
    let largest = if satfinite { 0xfe } else { 0xff };
    if magnitude.is_infinite() {
        return largest;
    }
    if up {
        (0..255).find(|code| power(code) >= magnitude).unwrap_or(largest)
    } else {
        (0..255).rev().find(|code| power(code) <= magnitude).unwrap_or(0)
    }
}

#[test]
fn scales() {
    let (upper, lower) = codes();
    let words: Column = upper.iter().zip(&lower).map(|(upper, lower)| upper << 16 | lower).collect();
    let singles: Column = lower.iter().map(|code| code << 16 | (code & 1)).collect();
    for (rounding, up) in [("rz", false), ("rp", true)] {
        for satfinite in [false, true] {
            let name = format!("cvt.{rounding}{}.ue8m0x2", if satfinite { ".satfinite" } else { "" });
            let got =
                eval_on(TARGET, &format!("{name}.bf16x2 %d0, %s0;"), &["b16"], &[("b32", words.clone())]);
            for (word, got) in words.iter().zip(&got[0]) {
                let code = |half: u64| scale(bf16(half), up, satfinite);
                assert_eq!(*got, code(word >> 16) << 8 | code(word & 0xffff), "{name} {word:#x}");
            }
            let sources = [("b32", singles.clone()), ("b32", words.clone())];
            let got = eval_on(TARGET, &format!("{name}.f32 %d0, %s0, %s1;"), &["b16"], &sources);
            for (i, got) in got[0].iter().enumerate() {
                let code = |single: u64| scale(f32_of(single), up, satfinite);
                assert_eq!(
                    *got,
                    code(singles[i]) << 8 | code(words[i]),
                    "{name} {:#x} {:#x}",
                    singles[i],
                    words[i]
                );
            }
        }
    }
    let all: Column = (0..0x1_0000).collect();
    let got = eval_on(TARGET, "cvt.rn.bf16x2.ue8m0x2 %d0, %s0;", &["b32"], &[("b16", all.clone())]);
    for (word, got) in all.iter().zip(&got[0]) {
        for half in 0..2 {
            let (code, value) = (word >> (8 * half) & 0xff, got >> (16 * half) & 0xffff);
            if code == 0xff {
                assert_eq!(value, 0x7fff);
            } else {
                assert_eq!(bf16(value), 2f64.powi(code as i32 - 127), "{code:#x}");
            }
        }
    }
}

#[test]
fn targets() {
    let body = "cvt.rn.satfinite.e2m3x2.f32 %d0, %s0, %s0;";
    let run = |target: &str| try_eval_on(target, levels()[0], body, &["b16"], &[("b32", vec![0; 32])]);
    for target in ["sm_100a", "sm_103a", "sm_110f", "sm_120f", "sm_121a"] {
        run(target).unwrap();
    }
    for target in ["sm_90a", "sm_100", "sm_120", "sm_121"] {
        let stop = run(target).unwrap_err();
        assert_eq!(stop.blame, Blame::Input, "{stop}");
        assert!(stop.sentence.contains("needs sm_100a"), "{stop}");
    }
}

/// The nearest bf16, by search; beyond the largest, infinity.
fn nearest_bf16(x: f64) -> u64 {
    if x.is_nan() {
        return 0x7fff;
    }
    let sign = if x.is_sign_negative() { 0x8000 } else { 0 };
    // Halfway between the largest and the next power of two.
    if x.abs() >= 2f64.powi(128) - 2f64.powi(119) {
        return sign | 0x7f80;
    }
    let (mut below, mut above) = (0, 0x7f80);
    while above - below > 1 {
        let middle = u64::midpoint(below, above);
        if bf16(middle) <= x.abs() {
            below = middle;
        } else {
            above = middle;
        }
    }
    let next = if below == 0x7f7f { 2f64.powi(128) } else { bf16(below + 1) };
    let (down, up) = (x.abs() - bf16(below), next - x.abs());
    let odd = below & 1 != 0;
    sign | if down < up || (down == up && !odd) { below } else { below + 1 }
}

#[test]
fn scaled_values_to_bf16() {
    let codes: Column = (0..4096).map(|i| (i * 40503 + 11) & 0xffff).collect();
    let scales: Column = (0..4096).map(|i| (i * 257 + i / 16 * 3) & 0xffff).collect();
    for ty in ["s2f6x2", "e2m1x2", "e2m3x2", "e3m2x2", "e4m3x2", "e5m2x2"] {
        let value = |code: u64| -> f64 {
            if ty == "s2f6x2" {
                return f64::from((code as u8).cast_signed()) / 64.0;
            }
            let form = format(ty);
            let magnitude = code & (form.sign() - 1);
            let negative = code & form.sign() != 0;
            let number = match (ty, magnitude) {
                ("e5m2x2", 124) => f64::INFINITY,
                _ if magnitude >= form.3 => f64::NAN,
                _ => form.value(magnitude),
            };
            if negative { -number } else { number }
        };
        for (satfinite, relu, scaled) in (0..8)
            .map(|i| (i & 1 != 0, i & 2 != 0, i & 4 != 0))
            .filter(|case| case.2 || case.0 || ty == "s2f6x2")
        {
            let name = format!(
                "cvt.rn{}{}{}.bf16x2.{ty}",
                if satfinite { ".satfinite" } else { "" },
                if relu { ".relu" } else { "" },
                if scaled { ".scaled::n2::ue8m0" } else { "" }
            );
            let scale = if scaled { ", %s1" } else { "" };
            let body = if ty == "e2m1x2" {
                format!(".reg .b8 %b, %z; mov.b16 {{%b, %z}}, %s0; {name} %d0, %b{scale};")
            } else {
                format!("{name} %d0, %s0{scale};")
            };
            let sources = [("b16", codes.clone()), ("b16", scales.clone())];
            let got = eval_on(TARGET, &body, &["b32"], &sources);
            let width = if ty == "e2m1x2" { 4 } else { 8 };
            for (i, got) in got[0].iter().enumerate() {
                for half in 0..2 {
                    let code = codes[i] >> (width * half) & ((1 << width) - 1);
                    let exponent = scales[i] >> (8 * half) & 0xff;
                    let factor = match exponent {
                        _ if !scaled => 1.0,
                        0xff => f64::NAN,
                        exponent => 2f64.powi(exponent as i32 - 127),
                    };
                    let want = match nearest_bf16(value(code) * factor) {
                        code if relu && code & 0x8000 != 0 => 0,
                        code if satfinite && code & 0x7fff == 0x7f80 => code - 1,
                        code => code,
                    };
                    assert_eq!(
                        got >> (16 * half) & 0xffff,
                        want,
                        "{name} {code:#x} times {factor:e}, half {half}"
                    );
                }
            }
        }
    }
}

/// The random bits decide between the two neighbors: the one away from zero is chosen if they and the distance from the other,
/// both as fractions of the step, are together at least 1.
#[test]
fn random_bits_round_to_bf16() {
    let some: Column = patterns(2048).iter().map(|word| word & 0xffff_ffff).collect();
    let other: Column = some.iter().rev().copied().collect();
    let bits: Column = (0..2048).map(|i| (i * 2_654_435_761) & 0xffff_ffff).collect();
    for (satfinite, relu) in [(false, false), (true, false), (false, true), (true, true)] {
        let name = format!(
            "cvt.rs{}{}.bf16x2.f32",
            if relu { ".relu" } else { "" },
            if satfinite { ".satfinite" } else { "" }
        );
        let sources = [("b32", some.clone()), ("b32", other.clone()), ("b32", bits.clone())];
        let got = eval_on("sm_100a", &format!("{name} %d0, %s0, %s1, %s2;"), &["b32"], &sources);
        for (i, got) in got[0].iter().enumerate() {
            for (a, shift) in [(some[i], 16), (other[i], 0)] {
                let (x, random) = (f32_of(a), bits[i] >> shift & 0xffff);
                let want = if x.is_nan() {
                    0x7fff
                } else if x.is_infinite() {
                    a >> 16
                } else {
                    let down = a >> 16 & 0x7fff;
                    let next = if down == 0x7f7f { 2f64.powi(128) } else { bf16(down + 1) };
                    let part = (x.abs() - bf16(down)) / (next - bf16(down));
                    let up = part + random as f64 / 65536.0 >= 1.0;
                    (a >> 16 & 0x8000) | (down + u64::from(up))
                };
                let want = match want {
                    code if relu && code & 0x8000 != 0 => 0,
                    code if satfinite && code & 0x7fff == 0x7f80 => code - 1,
                    code => code,
                };
                assert_eq!(got >> shift & 0xffff, want, "{name} {a:#x} {random:#x}");
            }
        }
    }
}
