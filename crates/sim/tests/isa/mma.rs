//! `mma`: fragments placed by the manual's formulas, results computed by the rule for one output at a time.
#![expect(
    clippy::unwrap_used,
    clippy::needless_range_loop,
    clippy::manual_is_multiple_of,
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "small numbers chosen by the test"
)]

use crate::harness::{Column, eval_on};
use warpproof_num::Rounding;
use warpproof_num::float::fma_f64;
use warpproof_num::mma::rule::{Accumulator, Element, Rule, TensorCore, dot};
use warpproof_num::random::SplitMix;

/// A matrix of codes by row.
pub(crate) struct Matrix {
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    pub(crate) codes: Vec<u64>,
}

impl Matrix {
    pub(crate) fn new(rows: usize, columns: usize, mut f: impl FnMut() -> u64) -> Matrix {
        Matrix { rows, columns, codes: (0..rows * columns).map(|_| f()).collect() }
    }

    pub(crate) fn at(&self, row: usize, column: usize) -> u64 {
        self.codes[row * self.columns + column]
    }

    pub(crate) fn row(&self, row: usize) -> Vec<u32> {
        (0..self.columns).map(|k| u32::try_from(self.at(row, k)).unwrap()).collect()
    }

    pub(crate) fn column(&self, column: usize) -> Vec<u32> {
        (0..self.rows).map(|k| u32::try_from(self.at(k, column)).unwrap()).collect()
    }
}

/// Registers of an A or B fragment, one column of 32 lanes each, by the manual: `place(register, lane, element)`.
pub(crate) fn pack(
    matrix: &Matrix,
    registers: usize,
    per: usize,
    place: impl Fn(usize, usize, usize) -> (usize, usize),
) -> Vec<Column> {
    let bits = 32 / per;
    (0..registers)
        .map(|r| {
            (0..32)
                .map(|lane| {
                    (0..per).fold(0, |word, e| {
                        let (row, column) = place(r, lane, e);
                        word | matrix.at(row, column) << (bits * e)
                    })
                })
                .collect()
        })
        .collect()
}

/// The manual's A fragment of m16n8k*: element i of lane: row g (+8 for odd registers), columns in chunks of four lanes.
pub(crate) fn a_place(rows: usize, per: usize) -> impl Fn(usize, usize, usize) -> (usize, usize) {
    move |r, lane, e| {
        let (half, chunk) = if rows == 16 { (r % 2, r / 2) } else { (0, r) };
        (lane / 4 + 8 * half, 4 * per * chunk + lane % 4 * per + e)
    }
}

pub(crate) fn b_place(per: usize) -> impl Fn(usize, usize, usize) -> (usize, usize) {
    move |r, lane, e| (4 * per * r + lane % 4 * per + e, lane / 4)
}

pub(crate) fn c_place(i: usize, lane: usize) -> (usize, usize) {
    (lane / 4 + 8 * (i / 2), lane % 4 * 2 + i % 2)
}

struct Case<'a> {
    modifiers: &'a str,
    shape: (usize, usize, usize),
    /// Elements per register of A and B.
    per: usize,
    f16: bool,
}

/// Runs one `mma` and compares every output with `expected(row of A, column of B, c)`.
fn run(case: &Case<'_>, a: &Matrix, b: &Matrix, c: &Matrix, expected: impl Fn(&[u32], &[u32], u32) -> u32) {
    let (m, n, k) = case.shape;
    let a_count = m / 8 * (k / (4 * case.per));
    let b_count = k / (4 * case.per);
    let accumulators = m * n / 32;
    let c_count = if case.f16 { accumulators / 2 } else { accumulators };
    let mut columns = pack(a, a_count, case.per, a_place(m, case.per));
    columns.extend(pack(b, b_count, case.per, b_place(case.per)));
    let accumulator = |r: usize, lane: usize, e: usize| c_place(if case.f16 { 2 * r + e } else { r }, lane);
    columns.extend(pack(c, c_count, if case.f16 { 2 } else { 1 }, accumulator));
    let list = |prefix: &str, from: usize, count: usize| {
        let names: Vec<String> = (from..from + count).map(|i| format!("%{prefix}{i}")).collect();
        format!("{{{}}}", names.join(", "))
    };
    let body = format!(
        "mma.sync.aligned.{} {}, {}, {}, {};",
        case.modifiers,
        list("d", 0, c_count),
        list("s", 0, a_count),
        list("s", a_count, b_count),
        list("s", a_count + b_count, c_count)
    );
    let sources: Vec<(&str, Column)> = columns.into_iter().map(|column| ("b32", column)).collect();
    let got = eval_on("sm_89", &body, &vec!["b32"; c_count], &sources);
    for i in 0..accumulators {
        for lane in 0..32 {
            let (row, column) = c_place(i, lane);
            let word = if case.f16 { got[i / 2][lane] >> (16 * (i % 2)) & 0xffff } else { got[i][lane] };
            let wanted = expected(&a.row(row), &b.column(column), u32::try_from(c.at(row, column)).unwrap());
            assert_eq!(word, u64::from(wanted), "{body} at ({row}, {column})");
        }
    }
}

/// Codes whose exponents are close enough to affect each other; with occasional special values.
pub(crate) fn code(random: &mut SplitMix, element: Element, specials: bool) -> u64 {
    let bits = random.next();
    if specials && bits % 50 == 0 {
        return match element {
            Element::F16 => [0x7c00, 0xfc00, 0x7e00, 0x8000, 1][(bits / 64 % 5) as usize],
            Element::Bf16 => [0x7f80, 0xff80, 0x7fc0, 0x8000, 1][(bits / 64 % 5) as usize],
            Element::Tf32 => {
                [0x7f80_0000, 0xff80_0000, 0x7fc0_0000, 0x8000_0000, 0x2000][(bits / 64 % 5) as usize]
            }
            Element::E4m3 => [0x7f, 0xff, 0x80, 1, 0x7e][(bits / 64 % 5) as usize],
            _ => [0x7c, 0xfc, 0x7e, 0x80, 1][(bits / 64 % 5) as usize],
        };
    }
    let value = ((bits >> 11) as f64 / (1u64 << 53) as f64 * 4.0 - 2.0) as f32;
    match element {
        Element::F16 => u64::from(warpproof_num::convert::cvt_f16_f32(value.to_bits(), Rounding::Rn, false)),
        Element::Bf16 => u64::from(value.to_bits() >> 16),
        Element::Tf32 => u64::from(value.to_bits() & 0xffff_e000),
        _ => bits & 0xff,
    }
}

fn float_case(
    modifiers: &str,
    shape: (usize, usize, usize),
    per: usize,
    types: (Element, Element),
    f16: bool,
) {
    let accumulator = if f16 { Accumulator::F16 } else { Accumulator::F32 };
    let rule = Rule::of(TensorCore::Ada, types.0, accumulator);
    for seed in 0..3 {
        let mut random = SplitMix(seed);
        let a = Matrix::new(shape.0, shape.2, || code(&mut random, types.0, seed == 2));
        let b = Matrix::new(shape.2, shape.1, || code(&mut random, types.1, seed == 2));
        let c = Matrix::new(shape.0, shape.1, || {
            let element = if f16 { Element::F16 } else { Element::Tf32 };
            code(&mut random, element, seed == 2)
        });
        let case = Case { modifiers, shape, per, f16 };
        run(&case, &a, &b, &c, |row, column, c| dot(&rule, types, accumulator, row, column, c));
    }
}

#[test]
fn half_precision() {
    for (k, shape) in [(8, "m16n8k8"), (16, "m16n8k16")] {
        let f16 = (Element::F16, Element::F16);
        float_case(&format!("{shape}.row.col.f32.f16.f16.f32"), (16, 8, k), 2, f16, false);
        float_case(&format!("{shape}.row.col.f16.f16.f16.f16"), (16, 8, k), 2, f16, true);
        let bf16 = (Element::Bf16, Element::Bf16);
        float_case(&format!("{shape}.row.col.f32.bf16.bf16.f32"), (16, 8, k), 2, bf16, false);
    }
}

#[test]
fn tf32() {
    for (k, shape) in [(4, "m16n8k4"), (8, "m16n8k8")] {
        let types = (Element::Tf32, Element::Tf32);
        float_case(&format!("{shape}.row.col.f32.tf32.tf32.f32"), (16, 8, k), 1, types, false);
    }
}

#[test]
fn fp8() {
    for (k, shape) in [(16, "m16n8k16"), (32, "m16n8k32")] {
        for (a, a_name) in [(Element::E4m3, "e4m3"), (Element::E5m2, "e5m2")] {
            for (b, b_name) in [(Element::E4m3, "e4m3"), (Element::E5m2, "e5m2")] {
                for (f16, accumulator) in [(false, "f32"), (true, "f16")] {
                    let modifiers = format!("{shape}.row.col.{accumulator}.{a_name}.{b_name}.{accumulator}");
                    float_case(&modifiers, (16, 8, k), 4, (a, b), f16);
                }
            }
        }
    }
}

fn integer(modifiers: &str, shape: (usize, usize, usize), bits: u32, signed: (bool, bool), satfinite: bool) {
    let mut random = SplitMix(u64::from(bits));
    let mask = (1u64 << bits) - 1;
    let a = Matrix::new(shape.0, shape.2, || random.next() & mask);
    let b = Matrix::new(shape.2, shape.1, || random.next() & mask);
    let c = Matrix::new(shape.0, shape.1, || {
        if random.next() % 4 == 0 { 0x7fff_fff0 } else { random.next() & 0xffff_ffff }
    });
    let value = |code: u32, signed: bool| {
        let unused = 32 - bits;
        if signed { i64::from((code << unused).cast_signed() >> unused) } else { i64::from(code) }
    };
    let case = Case { modifiers, shape, per: (32 / bits) as usize, f16: false };
    run(&case, &a, &b, &c, |row, column, c| {
        let sum: i64 = row.iter().zip(column).map(|(x, y)| value(*x, signed.0) * value(*y, signed.1)).sum();
        let total = sum + i64::from(c.cast_signed());
        let total = if satfinite { total.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) } else { total };
        (total & 0xffff_ffff) as u32
    });
}

#[test]
fn integers() {
    for (shape, name) in [((8, 8, 16), "m8n8k16"), ((16, 8, 16), "m16n8k16"), ((16, 8, 32), "m16n8k32")] {
        for (a, b) in [("s8", "s8"), ("u8", "s8"), ("s8", "u8"), ("u8", "u8")] {
            integer(&format!("{name}.row.col.s32.{a}.{b}.s32"), shape, 8, (a == "s8", b == "s8"), false);
            integer(
                &format!("{name}.row.col.satfinite.s32.{a}.{b}.s32"),
                shape,
                8,
                (a == "s8", b == "s8"),
                true,
            );
        }
    }
    for (shape, name) in [((8, 8, 32), "m8n8k32"), ((16, 8, 32), "m16n8k32"), ((16, 8, 64), "m16n8k64")] {
        for (a, b) in [("s4", "s4"), ("u4", "s4"), ("s4", "u4"), ("u4", "u4")] {
            integer(&format!("{name}.row.col.s32.{a}.{b}.s32"), shape, 4, (a == "s4", b == "s4"), false);
            integer(
                &format!("{name}.row.col.satfinite.s32.{a}.{b}.s32"),
                shape,
                4,
                (a == "s4", b == "s4"),
                true,
            );
        }
    }
}

#[test]
fn single_bits() {
    for (shape, name) in [((8, 8, 128), "m8n8k128"), ((16, 8, 128), "m16n8k128"), ((16, 8, 256), "m16n8k256")]
    {
        for op in ["xor", "and"] {
            // A register holds 32 elements of one bit; here they are one element of 32 bits.
            let words = (shape.0, shape.1, shape.2 / 32);
            let mut random = SplitMix(1);
            let a = Matrix::new(words.0, words.2, || random.next() & 0xffff_ffff);
            let b = Matrix::new(words.2, words.1, || random.next() & 0xffff_ffff);
            let c = Matrix::new(words.0, words.1, || random.next() & 0xffff_ffff);
            let modifiers = format!("{name}.row.col.s32.b1.b1.s32.{op}.popc");
            let case = Case { modifiers: &modifiers, shape: words, per: 1, f16: false };
            run(&case, &a, &b, &c, |row, column, c| {
                let ones =
                    row.iter().zip(column).map(|(x, y)| if op == "xor" { x ^ y } else { x & y }.count_ones());
                c.wrapping_add(ones.sum())
            });
        }
    }
}

#[test]
fn double_precision() {
    for (rnd, rounding) in
        [("", Rounding::Rn), (".rz", Rounding::Rz), (".rm", Rounding::Rm), (".rp", Rounding::Rp)]
    {
        let mut random = SplitMix(9);
        let mut value = || ((random.next() >> 11) as f64 / (1u64 << 52) as f64 - 1.0).to_bits();
        let a = Matrix::new(8, 4, &mut value);
        let b = Matrix::new(4, 8, &mut value);
        let c = Matrix::new(8, 8, &mut value);
        let by_lane =
            |f: &dyn Fn(usize, usize) -> u64| (0..32).map(|lane| f(lane / 4, lane % 4)).collect::<Column>();
        let sources = [
            ("b64", by_lane(&|g, t| a.at(g, t))),
            ("b64", by_lane(&|g, t| b.at(t, g))),
            ("b64", by_lane(&|g, t| c.at(g, 2 * t))),
            ("b64", by_lane(&|g, t| c.at(g, 2 * t + 1))),
        ];
        let body = format!(
            "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64{rnd} {{%d0, %d1}}, {{%s0}}, {{%s1}}, {{%s2, %s3}};"
        );
        let got = eval_on("sm_89", &body, &["b64", "b64"], &sources);
        for lane in 0..32 {
            for i in 0..2 {
                let (row, column) = (lane / 4, lane % 4 * 2 + i);
                let wanted = (0..4)
                    .fold(c.at(row, column), |sum, k| fma_f64(a.at(row, k), b.at(k, column), sum, rounding));
                assert_eq!(got[i][lane], wanted, "{body} at ({row}, {column})");
            }
        }
    }
}

/// m8n8k4: four independent products, one for each pair of quads.
#[test]
fn quad_pairs() {
    for (a_layout, b_layout) in [("row", "col"), ("col", "row"), ("row", "row"), ("col", "col")] {
        for f16 in [false, true] {
            let mut random = SplitMix(3);
            let ty = Element::F16;
            let a: Vec<Matrix> = (0..4).map(|_| Matrix::new(8, 4, || code(&mut random, ty, false))).collect();
            let b: Vec<Matrix> = (0..4).map(|_| Matrix::new(4, 8, || code(&mut random, ty, false))).collect();
            let c_type = if f16 { Element::F16 } else { Element::Tf32 };
            let c: Vec<Matrix> =
                (0..4).map(|_| Matrix::new(8, 8, || code(&mut random, c_type, false))).collect();
            let place = |lane: usize| (lane % 16 / 4, lane / 16, lane % 4);
            let c_place = |lane: usize, i: usize| {
                let (_, high, t) = place(lane);
                if f16 {
                    (t + 4 * high, i)
                } else {
                    ((t & 1) + (i & 2) + 4 * high, (i & 4) + (t & 2) + (i & 1))
                }
            };
            let halves = |f: &dyn Fn(usize, usize) -> u64| -> Vec<Column> {
                (0..2)
                    .map(|r| (0..32).map(|lane| f(lane, 2 * r) | f(lane, 2 * r + 1) << 16).collect())
                    .collect()
            };
            let mut columns = halves(&|lane, i| {
                let (quad, high, t) = place(lane);
                if a_layout == "row" { a[quad].at(t + 4 * high, i) } else { a[quad].at(i + 4 * high, t) }
            });
            columns.extend(halves(&|lane, i| {
                let (quad, high, t) = place(lane);
                if b_layout == "row" { b[quad].at(t, i + 4 * high) } else { b[quad].at(i, t + 4 * high) }
            }));
            let c_value = |lane: usize, i: usize| {
                let (row, column) = c_place(lane, i);
                c[place(lane).0].at(row, column)
            };
            let count = if f16 { 4 } else { 8 };
            columns.extend((0..count).map(|r| {
                (0..32)
                    .map(|lane| {
                        if f16 {
                            c_value(lane, 2 * r) | c_value(lane, 2 * r + 1) << 16
                        } else {
                            c_value(lane, r)
                        }
                    })
                    .collect::<Column>()
            }));
            let name = if f16 { "f16" } else { "f32" };
            let list = |prefix: &str, from: usize, n: usize| {
                (from..from + n).map(|i| format!("%{prefix}{i}")).collect::<Vec<_>>().join(", ")
            };
            let body = format!(
                "mma.sync.aligned.m8n8k4.{a_layout}.{b_layout}.{name}.f16.f16.{name} {{{}}}, {{%s0, %s1}}, {{%s2, %s3}}, {{{}}};",
                list("d", 0, count),
                list("s", 4, count)
            );
            let sources: Vec<(&str, Column)> = columns.into_iter().map(|column| ("b32", column)).collect();
            let got = eval_on("sm_89", &body, &vec!["b32"; count], &sources);
            let accumulator = if f16 { Accumulator::F16 } else { Accumulator::F32 };
            let rule = Rule::of(TensorCore::Ada, ty, accumulator);
            for lane in 0..32 {
                let quad = place(lane).0;
                for i in 0..8 {
                    let (row, column) = c_place(lane, i);
                    let c = u32::try_from(c[quad].at(row, column)).unwrap();
                    let wanted =
                        dot(&rule, (ty, ty), accumulator, &a[quad].row(row), &b[quad].column(column), c);
                    let word = if f16 { got[i / 2][lane] >> (16 * (i % 2)) & 0xffff } else { got[i][lane] };
                    assert_eq!(word, u64::from(wanted), "{body} quad {quad} at ({row}, {column})");
                }
            }
        }
    }
}
