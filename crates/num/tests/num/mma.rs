//! Compares the tensor-core rule with captures of hardware and with a published model of it.
//!
//! The full set of vectors is in `WARPPROOF_VECTORS`, or else next to the repository; a subset is committed and always
//! tested.
#![expect(
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "codes of numbers change width on purpose"
)]
#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

use crate::vectors::{Case, captures, cases_of, committed, full};
use std::path::Path;
use warpproof_num::Rounding;
use warpproof_num::fp8::Fp8;
use warpproof_num::mma::rule::{Rule, dot};
use warpproof_num::mma::{self, Accumulator, BitOp, Element, IntElement, TensorCore};

fn element(name: &str) -> Element {
    match name {
        "f16" => Element::F16,
        "bf16" => Element::Bf16,
        "tf32" => Element::Tf32,
        "e4m3" => Element::E4m3,
        "e5m2" => Element::E5m2,
        other => panic!("unknown element {other}"),
    }
}

fn fp8(name: &str) -> Fp8 {
    if name == "e4m3" { Fp8::E4m3 } else { Fp8::E5m2 }
}

/// Whole matrices of two GPU generations, which share one rule.
const MATRICES: [&str; 2] = ["mma-ada.jsonl", "mma-ampere.jsonl"];

fn cases(folder: &Path) -> Vec<Case> {
    MATRICES.iter().flat_map(|file| cases_of(&folder.join(file))).collect()
}

/// A, B and C stored by column, as the tested functions require.
type Columns<T, C, const M: usize, const N: usize, const K: usize> = ([[T; M]; K], [[T; K]; N], [[C; M]; N]);

fn by_column<
    T: Copy + TryFrom<u64>,
    C: Copy + TryFrom<u64>,
    const M: usize,
    const N: usize,
    const K: usize,
>(
    case: &Case,
) -> Columns<T, C, M, N, K> {
    assert_eq!((case.m, case.n, case.k), (M, N, K), "{}", case.op);
    let narrow = |x: u64| T::try_from(x).ok().unwrap();
    let a = std::array::from_fn(|k| std::array::from_fn(|m| narrow(case.a[m * K + k])));
    let b = std::array::from_fn(|n| std::array::from_fn(|k| narrow(case.b[k * N + n])));
    let c = std::array::from_fn(|n| std::array::from_fn(|m| C::try_from(case.c[m * N + n]).ok().unwrap()));
    (a, b, c)
}

fn row_major<C: Copy + Into<u64>, const M: usize, const N: usize>(c: &[[C; M]; N]) -> Vec<u64> {
    (0..M * N).map(|i| c[i % N][i / N].into()).collect()
}

fn run(case: &Case) -> Vec<u64> {
    let core = TensorCore::Ada;
    let names: Vec<&str> = case.op.split('.').collect();
    let [_, d_type, a_type, b_type, _] = names[..] else { panic!("{}", case.op) };
    let accumulator = if d_type == "f16" { Accumulator::F16 } else { Accumulator::F32 };
    match (a_type, case.k) {
        ("e4m3" | "e5m2", 32) => {
            let (a, b, mut c) = by_column::<u8, u32, 16, 8, 32>(case);
            mma::fp8(core, (fp8(a_type), fp8(b_type)), accumulator, &a, &b, &mut c);
            row_major(&c)
        }
        ("e4m3" | "e5m2", 16) => {
            let (a, b, mut c) = by_column::<u8, u32, 16, 8, 16>(case);
            mma::fp8(core, (fp8(a_type), fp8(b_type)), accumulator, &a, &b, &mut c);
            row_major(&c)
        }
        ("f16", 16) => {
            let (a, b, mut c) = by_column::<u16, u32, 16, 8, 16>(case);
            mma::f16(core, accumulator, &a, &b, &mut c);
            row_major(&c)
        }
        ("f16", 8) => {
            let (a, b, mut c) = by_column::<u16, u32, 16, 8, 8>(case);
            mma::f16(core, accumulator, &a, &b, &mut c);
            row_major(&c)
        }
        ("bf16", 16) => {
            let (a, b, mut c) = by_column::<u16, u32, 16, 8, 16>(case);
            mma::bf16(core, &a, &b, &mut c);
            row_major(&c)
        }
        ("bf16", 8) => {
            let (a, b, mut c) = by_column::<u16, u32, 16, 8, 8>(case);
            mma::bf16(core, &a, &b, &mut c);
            row_major(&c)
        }
        ("tf32", 8) => {
            let (a, b, mut c) = by_column::<u32, u32, 16, 8, 8>(case);
            mma::tf32(core, &a, &b, &mut c);
            row_major(&c)
        }
        ("tf32", 4) => {
            let (a, b, mut c) = by_column::<u32, u32, 16, 8, 4>(case);
            mma::tf32(core, &a, &b, &mut c);
            row_major(&c)
        }
        ("f64", 4) => {
            let (a, b, mut c) = by_column::<u64, u64, 8, 8, 4>(case);
            mma::f64(Rounding::Rn, &a, &b, &mut c);
            row_major(&c)
        }
        _ => panic!("no function for {}", case.op),
    }
}

fn check_cases(folder: &Path) -> usize {
    let cases = cases(folder);
    for case in &cases {
        let got = run(case);
        for (i, (got, want)) in got.iter().zip(&case.d).enumerate() {
            assert_eq!(got, want, "{} {} output {i}: found {got:x}, expected {want:x}", case.op, case.kind);
        }
    }
    cases.len()
}

#[test]
fn committed_matrices() {
    assert_eq!(check_cases(&committed()), 33);
}

#[test]
fn all_matrices() {
    if let Some(folder) = full() {
        assert_eq!(check_cases(&folder), 802);
    }
}

fn element_of_file(name: &str) -> Element {
    element(if name == "fp16" { "f16" } else { name })
}

fn c_code(accumulator: Accumulator, c: u32) -> u32 {
    use warpproof_num::convert::cvt_f16_f32;
    match accumulator {
        Accumulator::F32 => c,
        Accumulator::F16 => u32::from(cvt_f16_f32(c, Rounding::Rn, false)),
    }
}

fn as_f32(accumulator: Accumulator, d: u32) -> u32 {
    match accumulator {
        Accumulator::F32 => d,
        Accumulator::F16 => warpproof_num::convert::cvt_f32_f16(d as u16),
    }
}

/// One output computed by the function over whole matrices: its rows are 16 captures, and its column is one of them.
fn one_output(element: Element, accumulator: Accumulator, row: &[u32], column: &[u32], c: u32) -> u32 {
    let core = TensorCore::Ada;
    match element {
        Element::F16 | Element::Bf16 => {
            let a: [[u16; 2]; 8] = std::array::from_fn(|k| [row[k] as u16; 2]);
            let b: [[u16; 8]; 1] = [std::array::from_fn(|k| column[k] as u16)];
            let mut d = [[c; 2]];
            if element == Element::F16 {
                mma::f16(core, accumulator, &a, &b, &mut d);
            } else {
                mma::bf16(core, &a, &b, &mut d);
            }
            d[0][0]
        }
        Element::Tf32 => {
            let a: [[u32; 2]; 4] = std::array::from_fn(|k| [row[k]; 2]);
            let b: [[u32; 4]; 1] = [std::array::from_fn(|k| column[k])];
            let mut d = [[c; 2]];
            mma::tf32(core, &a, &b, &mut d);
            d[0][1]
        }
        _ => {
            let format = if element == Element::E4m3 { Fp8::E4m3 } else { Fp8::E5m2 };
            let a: [[u8; 2]; 32] = std::array::from_fn(|k| [row[k] as u8; 2]);
            let b: [[u8; 32]; 1] = [std::array::from_fn(|k| column[k] as u8)];
            let mut d = [[c; 2]];
            mma::fp8(core, (format, format), accumulator, &a, &b, &mut d);
            d[0][1]
        }
    }
}

const FILES: [&str; 5] = ["e4m3", "e5m2", "fp16", "bf16", "tf32"];

/// The number of outputs of the files in a folder that agree, and the total.
fn check_captures(folder: &Path, files: &[&str]) -> usize {
    let mut outputs = 0;
    for name in files {
        let element = element_of_file(name);
        for (line, capture) in captures(folder, name).iter().enumerate() {
            for &(accumulator, want) in &capture.results {
                let c = c_code(accumulator, capture.c);
                let got = one_output(element, accumulator, &capture.row, &capture.column, c);
                assert_eq!(as_f32(accumulator, got), want, "{name} line {}", line + 2);
                outputs += 1;
            }
        }
    }
    outputs
}

#[test]
fn committed_captures() {
    assert_eq!(check_captures(&committed().join("silicon"), &FILES), 1400);
}

#[test]
fn all_captures() {
    if let Some(folder) = full() {
        let silicon = folder.join("silicon");
        assert_eq!(check_captures(&silicon, &FILES), 70_000);
        // Ampere: A100 and A2, which have no 8-bit floats.
        for card in ["a100", "a2"] {
            assert_eq!(check_captures(&silicon.join(card), &["fp16", "bf16", "tf32"]), 20_000, "{card}");
        }
    }
}

/// 8-bit floats captured on an H100 by `wgmma`, which starts from zero.
#[test]
fn captures_of_wgmma() {
    let folder = full().unwrap_or_else(committed).join("silicon/h100");
    for name in ["e4m3", "e5m2"] {
        let element = element_of_file(name);
        let rule = Rule::of(TensorCore::Hopper, element, Accumulator::F32);
        for (line, capture) in captures(&folder, name).iter().enumerate() {
            let got = dot(&rule, (element, element), Accumulator::F32, &capture.row, &capture.column, 0);
            assert_eq!(Some(got), capture.from_zero, "{name} line {}", line + 2);
        }
    }
}

/// Every constant of the rule is necessary: a small change to any of them disagrees with the hardware or with its model.
#[test]
fn every_changed_constant_fails() {
    let core = TensorCore::Ada;
    let folder = full().unwrap_or_else(committed);
    let cases = cases(&folder);
    let mut tried = 0;
    for name in ["e4m3", "e5m2", "fp16", "bf16", "tf32"] {
        let element = element_of_file(name);
        let captures = captures(&folder.join("silicon"), name);
        for accumulator in [Accumulator::F32, Accumulator::F16] {
            let rows = || captures.iter().flat_map(|x| x.results.iter().map(move |r| (x, r)));
            if !rows().any(|(_, r)| r.0 == accumulator) {
                continue;
            }
            let right = Rule::of(core, element, accumulator);
            let mismatches = |rule: &Rule| {
                let on_hardware = rows()
                    .filter(|(_, r)| r.0 == accumulator)
                    .filter(|(x, r)| {
                        let c = c_code(accumulator, x.c);
                        let got = dot(rule, (element, element), accumulator, &x.row, &x.column, c);
                        as_f32(accumulator, got) != r.1
                    })
                    .count();
                let on_model: usize =
                    cases.iter().map(|case| model_mismatches(case, rule, element, accumulator)).sum();
                on_hardware + on_model
            };
            assert_eq!(mismatches(&right), 0, "{name} {accumulator:?}");
            let mut wrong = vec![
                Rule { fraction: right.fraction - 1, ..right },
                Rule { rounding: Rounding::Rm, ..right },
                Rule { rounding: Rounding::Rp, ..right },
                Rule { output_fraction: right.output_fraction - 1, ..right },
            ];
            if accumulator == Accumulator::F32 {
                wrong.push(Rule { rounding: Rounding::Rn, ..right });
            } else {
                wrong.push(Rule { rounding: Rounding::Rz, ..right });
            }
            // A term of two f16 has its last bit at most 48 below 1, and an f16 result hides the effect of one more bit.
            if (element, accumulator) != (Element::F16, Accumulator::F16) {
                wrong.push(Rule { fraction: right.fraction + 1, ..right });
            }
            // Only matrices of tiny numbers reach the exponent of zero; the captures do not.
            if (element, accumulator) == (Element::F16, Accumulator::F16) {
                wrong.push(Rule { zero_exponent: right.zero_exponent - 1, ..right });
                wrong.push(Rule { zero_exponent: right.zero_exponent + 1, ..right });
            } else if accumulator == Accumulator::F16 {
                wrong.push(Rule { zero_exponent: right.zero_exponent + 60, ..right });
            }
            if right.output_fraction == 13 {
                wrong.push(Rule { output_fraction: 14, ..right });
            }
            if right.block < captures[0].row.len() || cases.iter().any(|case| case.k > right.block) {
                wrong.push(Rule { block: right.block / 2, ..right });
            }
            for rule in wrong {
                assert_ne!(
                    mismatches(&rule),
                    0,
                    "{name} {accumulator:?}: {rule:?} agrees as well as {right:?}"
                );
                tried += 1;
            }
        }
    }
    assert_eq!(tried, 61);
}

fn model_mismatches(case: &Case, rule: &Rule, wanted: Element, accumulator: Accumulator) -> usize {
    let names: Vec<&str> = case.op.split('.').collect();
    if names[2] == "f64"
        || element(names[2]) != wanted
        || (names[1] == "f16") != (accumulator == Accumulator::F16)
    {
        return 0;
    }
    let elements = (element(names[2]), element(names[3]));
    (0..case.m * case.n)
        .filter(|i| {
            let (m, n) = (i / case.n, i % case.n);
            let row: Vec<u32> = (0..case.k).map(|k| case.a[m * case.k + k] as u32).collect();
            let column: Vec<u32> = (0..case.k).map(|k| case.b[k * case.n + n] as u32).collect();
            u64::from(dot(rule, elements, accumulator, &row, &column, case.c[*i] as u32)) != case.d[*i]
        })
        .count()
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// The vector computation returns the bits of the rule on raw random codes, on codes of one narrow range, on sparse ones,
/// and with accumulators of any size.
#[test]
fn vectors_agree_with_the_rule() {
    let mut random = Random(7);
    for round in 0..1500u32 {
        let density = round % 4;
        let mut code = |bits: u32, special: bool| -> u32 {
            let raw = random.next();
            let x = (raw as u32) & (u32::MAX >> (32 - bits));
            match density {
                // Mostly zeros.
                0 if raw >> 60 > 3 => 0,
                // Small: the exponent's upper bits are cleared, so there are many subnormals.
                1 => x & !(0x78u32 << (bits - 8)),
                // Finite, of any magnitude.
                _ if !special => x & !(1 << (bits - 3)),
                _ => x,
            }
        };
        let special = round % 5 == 0;
        let core = [TensorCore::Ada, TensorCore::Hopper, TensorCore::RtxBlackwell][round as usize % 3];
        for accumulator in [Accumulator::F32, Accumulator::F16] {
            let c_bits = if accumulator == Accumulator::F32 { 32 } else { 16 };
            let c: [[u32; 16]; 2] = std::array::from_fn(|_| std::array::from_fn(|_| code(c_bits, special)));
            for formats in [
                (Fp8::E4m3, Fp8::E4m3),
                (Fp8::E5m2, Fp8::E5m2),
                (Fp8::E4m3, Fp8::E5m2),
                (Fp8::E5m2, Fp8::E4m3),
            ] {
                let a: [[u8; 16]; 32] =
                    std::array::from_fn(|_| std::array::from_fn(|_| code(8, special) as u8));
                let b: [[u8; 32]; 2] =
                    std::array::from_fn(|_| std::array::from_fn(|_| code(8, special) as u8));
                let kinds = (fp8_element(formats.0), fp8_element(formats.1));
                let mut d = c;
                mma::fp8(core, formats, accumulator, &a, &b, &mut d);
                compare(core, kinds, accumulator, &a, &b, &c, &d);
            }
            let a: [[u16; 16]; 16] =
                std::array::from_fn(|_| std::array::from_fn(|_| code(16, special) as u16));
            let b: [[u16; 16]; 2] =
                std::array::from_fn(|_| std::array::from_fn(|_| code(16, special) as u16));
            let mut d = c;
            mma::f16(core, accumulator, &a, &b, &mut d);
            compare(core, (Element::F16, Element::F16), accumulator, &a, &b, &c, &d);
            if accumulator == Accumulator::F32 {
                let mut d = c;
                mma::bf16(core, &a, &b, &mut d);
                compare(core, (Element::Bf16, Element::Bf16), accumulator, &a, &b, &c, &d);
                let a: [[u32; 16]; 8] = std::array::from_fn(|_| std::array::from_fn(|_| code(32, special)));
                let b: [[u32; 8]; 2] = std::array::from_fn(|_| std::array::from_fn(|_| code(32, special)));
                let mut d = c;
                mma::tf32(core, &a, &b, &mut d);
                compare(core, (Element::Tf32, Element::Tf32), accumulator, &a, &b, &c, &d);
            }
        }
    }
}

fn fp8_element(format: Fp8) -> Element {
    if format == Fp8::E4m3 { Element::E4m3 } else { Element::E5m2 }
}

fn compare<T: Copy + Into<u32>, const M: usize, const N: usize, const K: usize>(
    core: TensorCore,
    elements: (Element, Element),
    accumulator: Accumulator,
    a: &[[T; M]; K],
    b: &[[T; K]; N],
    c: &[[u32; M]; N],
    d: &[[u32; M]; N],
) {
    let rule = Rule::of(core, elements.0, accumulator);
    for n in 0..N {
        for m in 0..M {
            let row: [u32; K] = std::array::from_fn(|k| a[k][m].into());
            let column: [u32; K] = std::array::from_fn(|k| b[n][k].into());
            let want = dot(&rule, elements, accumulator, &row, &column, c[n][m]);
            assert_eq!(
                d[n][m], want,
                "{elements:?} {accumulator:?} row {row:x?} column {column:x?} c {:x}",
                c[n][m]
            );
        }
    }
}

#[test]
fn integers() {
    let mut random = Random(11);
    for _ in 0..300 {
        for x in [IntElement::S8, IntElement::U8, IntElement::S4, IntElement::U4] {
            for y in [IntElement::S8, IntElement::U8, IntElement::S4, IntElement::U4] {
                let a: [[u8; 4]; 32] = std::array::from_fn(|_| std::array::from_fn(|_| random.next() as u8));
                let b: [[u8; 32]; 3] = std::array::from_fn(|_| std::array::from_fn(|_| random.next() as u8));
                let c: [[u32; 4]; 3] = std::array::from_fn(|_| {
                    std::array::from_fn(|_| {
                        let raw = random.next();
                        if raw >> 62 == 0 { 0x7fff_fff0 } else { raw as u32 }
                    })
                });
                let value = |kind: IntElement, code: u8| -> i64 {
                    match kind {
                        IntElement::S8 => i64::from(code as i8),
                        IntElement::U8 => i64::from(code),
                        IntElement::S4 => (i64::from(code & 15) ^ 8) - 8,
                        IntElement::U4 => i64::from(code & 15),
                    }
                };
                for satfinite in [false, true] {
                    let mut d = c;
                    mma::integer((x, y), satfinite, &a, &b, &mut d);
                    for n in 0..3 {
                        for m in 0..4 {
                            let exact = i64::from(c[n][m] as i32)
                                + (0..32).map(|k| value(x, a[k][m]) * value(y, b[n][k])).sum::<i64>();
                            let want = if satfinite {
                                exact.clamp(i64::from(i32::MIN), i64::from(i32::MAX))
                            } else {
                                exact
                            };
                            assert_eq!(d[n][m], want as u32);
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn single_bits() {
    let mut random = Random(13);
    for _ in 0..200 {
        let a: [[u32; 8]; 4] = std::array::from_fn(|_| std::array::from_fn(|_| random.next() as u32));
        let b: [[u32; 4]; 8] = std::array::from_fn(|_| std::array::from_fn(|_| random.next() as u32));
        for op in [BitOp::Xor, BitOp::And] {
            let mut d = [[5u32; 8]; 8];
            mma::bits(op, &a, &b, &mut d);
            for n in 0..8 {
                for m in 0..8 {
                    let mut count = 5;
                    for k in 0..128 {
                        let x = a[k / 32][m] >> (k % 32) & 1;
                        let y = b[n][k / 32] >> (k % 32) & 1;
                        count += if op == BitOp::Xor { x ^ y } else { x & y };
                    }
                    assert_eq!(d[n][m], count);
                }
            }
        }
    }
}
