//! `mma.sp`: metadata packed as in the manual's figures; results computed from the whole matrix where sums are exact, and
//! by the rule over the stored elements where they are not.
#![expect(
    clippy::unwrap_used,
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "small numbers chosen by the test"
)]

use crate::harness::{Column, eval_on, levels, try_eval_on};
use crate::mma::{Matrix, a_place, b_place, c_place, code, pack};
use warpproof_num::Rounding;
use warpproof_num::convert::cvt_f16_f32;
use warpproof_num::mma::rule::{Accumulator, Element, Rule, TensorCore, dot};
use warpproof_num::random::SplitMix;
use warpproof_sim::{Blame, StopKind};

const VARIANTS: [&str; 2] = ["sp", "sp::ordered_metadata"];

/// A shape and its types.
#[derive(Clone)]
struct Case {
    /// Shape and types as written.
    modifiers: String,
    k: usize,
    /// Bits of an element.
    bits: usize,
    /// Elements of a chunk.
    chunk: usize,
    /// Whether C and D are f16.
    f16: bool,
}

impl Case {
    fn new(modifiers: &str, k: usize, bits: usize) -> Case {
        let chunk = match bits {
            32 => 2,
            4 => 8,
            _ => 4,
        };
        Case { modifiers: modifiers.to_owned(), k, bits, chunk, f16: modifiers.contains(".f16.f16.f16") }
    }

    fn chunks(&self) -> usize {
        self.k / self.chunk
    }

    /// How many selectors there are.
    fn selectors(&self) -> usize {
        16 / self.chunks()
    }

    /// The positions of a chunk for which a nibble stores elements.
    fn places(&self, nibble: u64) -> Vec<usize> {
        let (first, second) = ((nibble & 3) as usize, (nibble >> 2 & 3) as usize);
        match self.bits {
            32 => vec![usize::from(nibble == 0b1110)],
            4 => vec![2 * first, 2 * first + 1, 2 * second, 2 * second + 1],
            _ => vec![first, second],
        }
    }

    /// The columns of the stored elements of a row.
    fn columns(&self, nibbles: &Matrix, row: usize) -> Vec<usize> {
        (0..self.chunks())
            .flat_map(|c| self.places(nibbles.at(row, c)).into_iter().map(move |p| (c, p)))
            .map(|(c, place)| c * self.chunk + place)
            .collect()
    }

    /// Random nibbles, in increasing order or in any.
    fn nibbles(&self, random: &mut SplitMix, ordered: bool) -> Matrix {
        let increasing = [0b0100, 0b1000, 0b1001, 0b1100, 0b1101, 0b1110];
        Matrix::new(16, self.chunks(), || {
            let bits = random.next();
            let nibble = increasing[(bits % 6) as usize];
            match self.bits {
                32 => [0b0100, 0b1110][(bits % 2) as usize],
                _ if ordered || bits >> 32 & 1 == 0 => nibble,
                _ => nibble >> 2 | (nibble & 3) << 2,
            }
        })
    }

    /// The metadata register: as in the figures for the selected lanes, garbage in the others.
    fn metadata(&self, nibbles: &Matrix, selector: usize, random: &mut SplitMix) -> Column {
        let lanes = self.chunks() / 4;
        (0..32)
            .map(|lane| {
                let (group, t) = (lane / 4, lane % 4);
                if t / lanes != selector {
                    return random.next() & 0xffff_ffff;
                }
                (0..8).fold(0, |word, n| {
                    let (row, chunk) = if self.bits >= 16 {
                        // Half a register for a row and the one eight below it.
                        (group + 8 * (n / 4), 4 * (t % lanes) + n % 4)
                    } else {
                        // A whole register for a row; even lanes hold the upper rows.
                        (group + 8 * (t % 2), 8 * (t % lanes / 2) + n)
                    };
                    word | nibbles.at(row, chunk) << (4 * n)
                })
            })
            .collect()
    }
}

/// The instruction and its sources.
fn prepare(
    case: &Case,
    variant: &str,
    selector: usize,
    operands: (&Matrix, &Matrix, &Matrix),
    metadata: Column,
) -> (String, usize, Vec<(&'static str, Column)>) {
    let per = 32 / case.bits;
    let (a_count, b_count) = (2 * (case.k / 2 / (4 * per)), case.k / (4 * per));
    let c_count = if case.f16 { 2 } else { 4 };
    let mut columns = pack(operands.0, a_count, per, a_place(16, per));
    columns.extend(pack(operands.1, b_count, per, b_place(per)));
    let accumulator = |r: usize, lane: usize, e: usize| c_place(if case.f16 { 2 * r + e } else { r }, lane);
    columns.extend(pack(operands.2, c_count, if case.f16 { 2 } else { 1 }, accumulator));
    columns.push(metadata);
    let list = |prefix: &str, from: usize, count: usize| {
        let names: Vec<String> = (from..from + count).map(|i| format!("%{prefix}{i}")).collect();
        format!("{{{}}}", names.join(", "))
    };
    let body = format!(
        "mma.{variant}.sync.aligned.{} {}, {}, {}, {}, %s{}, {selector};",
        case.modifiers,
        list("d", 0, c_count),
        list("s", 0, a_count),
        list("s", a_count, b_count),
        list("s", a_count + b_count, c_count),
        a_count + b_count + c_count
    );
    // Eight warps that do the same: the harness runs whole blocks, and would fill the rest with data that the manual
    // leaves undefined.
    (body, c_count, columns.into_iter().map(|column| ("b32", column.repeat(8))).collect())
}

/// The outputs with their rows and columns.
fn outputs(case: &Case, got: &[Column]) -> Vec<(usize, usize, u64)> {
    let word = |i: usize, lane: usize| {
        if case.f16 { got[i / 2][lane] >> (16 * (i % 2)) & 0xffff } else { got[i][lane] }
    };
    let places = (0..4).flat_map(|i| (0..32).map(move |lane| (i, lane)));
    places
        .map(|(i, lane)| {
            let (row, column) = c_place(i, lane);
            (row, column, word(i, lane))
        })
        .collect()
}

/// Runs every variant and selector of a case; `expected` gets the stored row of A, the columns of B's elements that it
/// selects, and c.
fn run(
    case: &Case,
    stored: &Matrix,
    b: &Matrix,
    c: &Matrix,
    seed: u64,
    expected: impl Fn(&[u32], &[u32], u32) -> u32,
) {
    let mut random = SplitMix(seed ^ 0x55);
    for variant in VARIANTS {
        for selector in 0..case.selectors() {
            let ordered = variant != "sp" || case.modifiers.contains(".e");
            let nibbles = case.nibbles(&mut random, ordered);
            let metadata = case.metadata(&nibbles, selector, &mut random);
            let (body, c_count, sources) = prepare(case, variant, selector, (stored, b, c), metadata);
            let got = eval_on("sm_89", &body, &vec!["b32"; c_count], &sources);
            for (row, column, word) in outputs(case, &got) {
                let selected: Vec<u32> =
                    case.columns(&nibbles, row).iter().map(|k| b.at(*k, column) as u32).collect();
                let wanted = expected(&stored.row(row), &selected, c.at(row, column) as u32);
                assert_eq!(word, u64::from(wanted), "{body} at ({row}, {column})");
            }
        }
    }
}

/// Every floating-point case with its element types.
fn floats() -> Vec<(Case, (Element, Element))> {
    let mut cases = Vec::new();
    for k in [16, 32] {
        let f16 = (Element::F16, Element::F16);
        cases.push((Case::new(&format!("m16n8k{k}.row.col.f32.f16.f16.f32"), k, 16), f16));
        cases.push((Case::new(&format!("m16n8k{k}.row.col.f16.f16.f16.f16"), k, 16), f16));
        let bf16 = (Element::Bf16, Element::Bf16);
        cases.push((Case::new(&format!("m16n8k{k}.row.col.f32.bf16.bf16.f32"), k, 16), bf16));
    }
    for k in [8, 16] {
        let tf32 = (Element::Tf32, Element::Tf32);
        cases.push((Case::new(&format!("m16n8k{k}.row.col.f32.tf32.tf32.f32"), k, 32), tf32));
    }
    for (a, a_name) in [(Element::E4m3, "e4m3"), (Element::E5m2, "e5m2")] {
        for (b, b_name) in [(Element::E4m3, "e4m3"), (Element::E5m2, "e5m2")] {
            let modifiers = format!("m16n8k64.row.col.f32.{a_name}.{b_name}.f32");
            cases.push((Case::new(&modifiers, 64, 8), (a, b)));
        }
    }
    cases
}

/// The code of a small integer.
fn small(element: Element, value: i64) -> u64 {
    let bits = (value as f32).to_bits();
    u64::from(match element {
        Element::F16 => u32::from(cvt_f16_f32(bits, Rounding::Rn, false)),
        Element::Bf16 => bits >> 16,
        Element::Tf32 => bits,
        Element::E4m3 => [0, 0x38, 0x40, 0x44][value.unsigned_abs() as usize] | u32::from(value < 0) << 7,
        _ => [0, 0x3c, 0x40, 0x42][value.unsigned_abs() as usize] | u32::from(value < 0) << 7,
    })
}

/// The whole matrix times B in plain integers: without rounding, only the layouts can be wrong.
#[test]
fn products_of_small_integers() {
    for (case, (a_type, b_type)) in floats() {
        let mut random = SplitMix(case.k as u64);
        let mut draw = || (random.next() >> 20) as i64 % 7 - 3;
        let a = (0..16 * case.k / 2).map(|_| draw()).collect::<Vec<_>>();
        let b = (0..case.k * 8).map(|_| draw()).collect::<Vec<_>>();
        let c = (0..16 * 8).map(|_| draw()).collect::<Vec<_>>();
        let c_type = if case.f16 { Element::F16 } else { Element::Tf32 };
        let codes = |element, columns, values: &[i64]| Matrix {
            rows: values.len() / columns,
            columns,
            codes: values.iter().map(|value| small(element, *value)).collect(),
        };
        let stored = codes(a_type, case.k / 2, &a);
        let (b_codes, c_codes) = (codes(b_type, 8, &b), codes(c_type, 8, &c));
        for variant in VARIANTS {
            for selector in 0..case.selectors() {
                let mut more = SplitMix(77 + selector as u64);
                let nibbles = case.nibbles(&mut more, variant != "sp" || case.bits == 8);
                let metadata = case.metadata(&nibbles, selector, &mut more);
                let operands = (&stored, &b_codes, &c_codes);
                let (body, c_count, sources) = prepare(&case, variant, selector, operands, metadata);
                let got = eval_on("sm_89", &body, &vec!["b32"; c_count], &sources);
                for (row, column, word) in outputs(&case, &got) {
                    let mut whole = vec![0; case.k];
                    for (h, k) in case.columns(&nibbles, row).into_iter().enumerate() {
                        whole[k] = a[row * case.k / 2 + h];
                    }
                    let sum: i64 = (0..case.k).map(|k| whole[k] * b[k * 8 + column]).sum();
                    let wanted = small(c_type, sum + c[row * 8 + column]);
                    assert_eq!(word, wanted, "{body} at ({row}, {column})");
                }
            }
        }
    }
}

/// Random codes, with occasional infinities, NaNs and subnormals, compared with the rule over the stored elements.
#[test]
fn floating_point() {
    for (case, types) in floats() {
        let accumulator = if case.f16 { Accumulator::F16 } else { Accumulator::F32 };
        let rule = Rule::of(TensorCore::Ada, types.0, accumulator);
        for seed in 0..2 {
            let mut random = SplitMix(seed);
            let stored = Matrix::new(16, case.k / 2, || code(&mut random, types.0, seed == 1));
            let b = Matrix::new(case.k, 8, || code(&mut random, types.1, seed == 1));
            let c_type = if case.f16 { Element::F16 } else { Element::Tf32 };
            let c = Matrix::new(16, 8, || code(&mut random, c_type, seed == 1));
            run(&case, &stored, &b, &c, seed, |row, selected, c| {
                dot(&rule, types, accumulator, row, selected, c)
            });
        }
    }
}

#[test]
fn integers() {
    for (bits, ks) in [(8, [32, 64]), (4, [64, 128])] {
        for k in ks {
            for (a_sign, b_sign) in [("s", "s"), ("u", "s"), ("s", "u"), ("u", "u")] {
                for satfinite in ["", ".satfinite"] {
                    let modifiers =
                        format!("m16n8k{k}.row.col{satfinite}.s32.{a_sign}{bits}.{b_sign}{bits}.s32");
                    let case = Case::new(&modifiers, k, bits);
                    let mut random = SplitMix(k as u64);
                    let mask = (1u64 << bits) - 1;
                    let stored = Matrix::new(16, k / 2, || random.next() & mask);
                    let b = Matrix::new(k, 8, || random.next() & mask);
                    let c = Matrix::new(16, 8, || {
                        if random.next().is_multiple_of(4) {
                            0x7fff_fff0
                        } else {
                            random.next() & 0xffff_ffff
                        }
                    });
                    let value = |code: u32, sign: &str| {
                        let unused = 32 - bits;
                        let signed = i64::from((code << unused).cast_signed() >> unused);
                        if sign == "s" { signed } else { i64::from(code) }
                    };
                    run(&case, &stored, &b, &c, 1, |row, selected, c| {
                        let products =
                            row.iter().zip(selected).map(|(x, y)| value(*x, a_sign) * value(*y, b_sign));
                        let total = products.sum::<i64>() + i64::from(c.cast_signed());
                        let clamped = total.clamp(i64::from(i32::MIN), i64::from(i32::MAX));
                        let total = if satfinite.is_empty() { total } else { clamped };
                        (total & 0xffff_ffff) as u32
                    });
                }
            }
        }
    }
}

/// The kind of stop for a metadata register of one nibble everywhere, at every level; `None` if there is none.
fn stop(case: &Case, variant: &str, selector: usize, nibble: u64) -> Option<(Blame, StopKind, String)> {
    let zero = |rows, columns| Matrix::new(rows, columns, || 0);
    let operands = (&zero(16, case.k / 2), &zero(case.k, 8), &zero(16, 8));
    let metadata = vec![nibble * 0x1111_1111; 32];
    let (body, c_count, sources) = prepare(case, variant, selector, operands, metadata);
    let stops: Vec<_> = levels()
        .into_iter()
        .map(|level| {
            let stop = try_eval_on("sm_89", level, &body, &vec!["b32"; c_count], &sources).err();
            stop.map(|stop| (stop.blame, stop.kind, stop.sentence))
        })
        .collect();
    assert!(stops.windows(2).all(|pair| pair[0] == pair[1]), "{body}");
    stops.first().unwrap().clone()
}

#[test]
fn indices_that_the_manual_leaves_undefined_are_the_kernels_fault() {
    let f16 = Case::new("m16n8k16.row.col.f32.f16.f16.f32", 16, 16);
    let s8 = Case::new("m16n8k64.row.col.s32.s8.s8.s32", 64, 8);
    let s4 = Case::new("m16n8k64.row.col.s32.s4.s4.s32", 64, 4);
    let fp8 = Case::new("m16n8k64.row.col.f32.e4m3.e4m3.f32", 64, 8);
    let tf32 = Case::new("m16n8k8.row.col.f32.tf32.tf32.f32", 8, 32);
    let increasing = [0b0100, 0b1000, 0b1001, 0b1100, 0b1101, 0b1110];
    let equal = [0b0000, 0b0101, 0b1010, 0b1111];
    for nibble in 0..16 {
        for (case, either) in [(&f16, true), (&s8, true), (&s4, true), (&fp8, false)] {
            let known = if either { !equal.contains(&nibble) } else { increasing.contains(&nibble) };
            assert_eq!(stop(case, "sp", 0, nibble).is_none(), known, "{} {nibble:#06b}", case.modifiers);
            let known = increasing.contains(&nibble);
            let stop = stop(case, "sp::ordered_metadata", 0, nibble);
            assert_eq!(stop.is_none(), known, "ordered {} {nibble:#06b}", case.modifiers);
        }
        let known = [0b0100, 0b1110].contains(&nibble);
        assert_eq!(stop(&tf32, "sp", 0, nibble).is_none(), known, "tf32 {nibble:#06b}");
    }
    let (blame, kind, sentence) = stop(&s4, "sp", 1, 0b1010).unwrap();
    assert_eq!((blame, kind), (Blame::Kernel, StopKind::Malformed));
    assert_eq!(
        sentence,
        "sparsity metadata 0b1010 for row 0, columns 0 to 7 of A: the two indices must be different"
    );
}

#[test]
fn a_selector_that_the_shape_does_not_have_is_refused() {
    for case in floats().into_iter().map(|(case, _)| case) {
        for selector in 0..5 {
            let stop = stop(&case, "sp", selector, 0b1110);
            let blame = stop.as_ref().map(|(blame, ..)| *blame);
            let wanted = match selector {
                _ if selector < case.selectors() => None,
                4 => Some(Blame::Input),
                _ => Some(Blame::Kernel),
            };
            assert_eq!(blame, wanted, "{} selector {selector}: {stop:?}", case.modifiers);
        }
    }
}
