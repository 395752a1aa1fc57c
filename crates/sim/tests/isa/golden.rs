//! The golden data of the tensor cores, through the instructions: every matrix and every captured dot product is computed by a
//! kernel whose target is the architecture of the data.
#![expect(
    clippy::unwrap_used,
    clippy::needless_range_loop,
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    reason = "codes of numbers change width on purpose"
)]

use crate::harness::{Column, eval_on, levels, try_eval_on};
use crate::mma::{Matrix, a_place, b_place, c_place, code, pack};
use crate::vectors::{Capture, Case, captures, cases_of, committed, full};
use std::collections::BTreeMap;
use std::path::Path;
use warpproof_num::Rounding;
use warpproof_num::convert::{cvt_f16_f32, cvt_f32_f16};
use warpproof_num::mma::rule::{Accumulator, Element, Rule, TensorCore, dot};
use warpproof_num::random::SplitMix;
use warpproof_sim::Blame;

/// Elements of a type in a register.
fn per(ty: &str) -> usize {
    match ty {
        "e4m3" | "e5m2" | "e3m2" | "e2m3" | "e2m1" => 4,
        "f16" | "bf16" => 2,
        _ => 1,
    }
}

/// Codes as they lie in their bytes: e2m1 in the middle.
pub(crate) fn contained(ty: &str, codes: &[u64]) -> Vec<u64> {
    codes.iter().map(|code| if ty == "e2m1" { code << 2 } else { *code }).collect()
}

/// D by row of every case, each computed by one warp. All cases have the same op.
fn by_mma(target: &str, cases: &[&Case]) -> Vec<Vec<u64>> {
    let Case { op, m, n, k, .. } = cases[0];
    let (shape, types) = op.split_once('.').unwrap();
    let names: Vec<&str> = types.split('.').filter(|name| !name.starts_with("kind::")).collect();
    let (per, packed) = (per(names[1]), names[0] == "f16");
    let accumulators = m * n / 32;
    let counts =
        [m / 8 * (k / (4 * per)), k / (4 * per), if packed { accumulators / 2 } else { accumulators }];
    let mut columns = vec![Column::new(); counts.iter().sum()];
    for case in cases {
        let matrix =
            |rows: usize, columns: usize, codes: &[u64]| Matrix { rows, columns, codes: codes.to_vec() };
        let (a, b) = (contained(names[1], &case.a), contained(names[2], &case.b));
        let mut registers = pack(&matrix(*m, *k, &a), counts[0], per, a_place(*m, per));
        registers.extend(pack(&matrix(*k, *n, &b), counts[1], per, b_place(per)));
        let place = |r: usize, lane: usize, e: usize| c_place(if packed { 2 * r + e } else { r }, lane);
        registers.extend(pack(&matrix(*m, *n, &case.c), counts[2], if packed { 2 } else { 1 }, place));
        for (all, one) in columns.iter_mut().zip(registers) {
            all.extend(one);
        }
    }
    let list = |prefix: &str, from: usize, count: usize| {
        let names: Vec<String> = (from..from + count).map(|i| format!("%{prefix}{i}")).collect();
        format!("{{{}}}", names.join(", "))
    };
    let body = format!(
        "mma.sync.aligned.{shape}.row.col.{types} {}, {}, {}, {};",
        list("d", 0, counts[2]),
        list("s", 0, counts[0]),
        list("s", counts[0], counts[1]),
        list("s", counts[0] + counts[1], counts[2])
    );
    let ty = if names[1] == "f64" { "b64" } else { "b32" };
    let sources: Vec<(&str, Column)> = columns.into_iter().map(|column| (ty, column)).collect();
    let got = eval_on(target, &body, &vec![ty; counts[2]], &sources);
    (0..cases.len())
        .map(|warp| {
            let mut d = vec![0; m * n];
            for i in 0..accumulators {
                for lane in 0..32 {
                    let (row, column) = c_place(i, lane);
                    let word = got[if packed { i / 2 } else { i }][32 * warp + lane];
                    d[row * n + column] = if packed { word >> (16 * (i % 2)) & 0xffff } else { word };
                }
            }
            d
        })
        .collect()
}

/// The number of matrices of a file that agree; any other fails.
fn check_matrices(target: &str, file: &Path) -> usize {
    let cases = cases_of(file);
    let mut by_op: BTreeMap<&str, Vec<&Case>> = BTreeMap::new();
    for case in &cases {
        by_op.entry(&case.op).or_default().push(case);
    }
    for (op, cases) in by_op {
        for (case, got) in cases.iter().zip(by_mma(target, &cases)) {
            for (i, (got, want)) in got.iter().zip(&case.d).enumerate() {
                assert_eq!(got, want, "{target} {op} {} output {i}: {got:x}, expected {want:x}", case.kind);
            }
        }
    }
    cases.len()
}

/// Eight captures form one multiplication: row i of A, column i of B and element (i, i) of C. A has 16 rows.
fn as_case(op: &str, captures: &[Capture], accumulator: Accumulator) -> Case {
    let k = captures[0].row.len();
    let mut case = Case {
        op: op.to_owned(),
        kind: "capture".to_owned(),
        m: 16,
        n: 8,
        k,
        a: vec![0; 16 * k],
        b: vec![0; k * 8],
        c: vec![0; 16 * 8],
        d: Vec::new(),
        scales: (Vec::new(), Vec::new()),
    };
    for (i, capture) in captures.iter().enumerate() {
        for x in 0..k {
            case.a[i * k + x] = u64::from(capture.row[x]);
            case.b[x * 8 + i] = u64::from(capture.column[x]);
        }
        case.c[i * 8 + i] = match accumulator {
            Accumulator::F32 => u64::from(capture.c),
            Accumulator::F16 => u64::from(cvt_f16_f32(capture.c, Rounding::Rn, false)),
        };
    }
    case
}

/// The number of captured outputs of a file that agree; any other fails.
fn check_captures(target: &str, folder: &Path, name: &str) -> usize {
    let all = captures(folder, name);
    let ty = if name == "fp16" { "f16" } else { name };
    let mut outputs = 0;
    for i in 0..all[0].results.len() {
        let accumulator = all[0].results[i].0;
        let d = if accumulator == Accumulator::F16 { "f16" } else { "f32" };
        let op = format!("m16n8k{}.{d}.{ty}.{ty}.{d}", all[0].row.len());
        let cases: Vec<Case> = all.chunks(8).map(|part| as_case(&op, part, accumulator)).collect();
        let got = by_mma(target, &cases.iter().collect::<Vec<_>>());
        for (line, capture) in all.iter().enumerate() {
            let code = got[line / 8][line % 8 * 8 + line % 8] as u32;
            let code = if accumulator == Accumulator::F16 { cvt_f32_f16(code as u16) } else { code };
            assert_eq!(code, capture.results[i].1, "{target} {op} {} line {}", folder.display(), line + 2);
            outputs += 1;
        }
    }
    outputs
}

/// Files of matrices, the targets they hold for, and how many there are in the committed subset and in all.
const MATRICES: &[(&str, &[&str], usize, usize)] = &[
    ("mma-ada.jsonl", &["sm_89"], 25, 650),
    ("mma-ampere.jsonl", &["sm_80", "sm_86", "sm_89"], 8, 152),
    ("mma-hopper.jsonl", &["sm_90", "sm_90a"], 12, 276),
    ("mma-blackwell.jsonl", &["sm_100a"], 9, 231),
    ("mma-fp8-by-f16.jsonl", &["sm_90", "sm_100a"], 16, 352),
    ("mma-rtx-blackwell.jsonl", &["sm_120a", "sm_121a"], 50, 522),
];

/// Cards and their targets; only the later ones have 8-bit floats.
const CARDS: &[(&str, &str, bool)] = &[
    ("a100", "sm_80", false),
    ("a2", "sm_86", false),
    ("h100", "sm_90", true),
    ("h200", "sm_90a", true),
    ("b200", "sm_100a", true),
];

fn check_cards(folder: &Path) -> usize {
    CARDS
        .iter()
        .flat_map(|(card, target, fp8)| {
            let names: &[&str] =
                if *fp8 { &["fp16", "bf16", "tf32", "e4m3", "e5m2"] } else { &["fp16", "bf16", "tf32"] };
            names.iter().map(move |name| check_captures(target, &folder.join("silicon").join(card), name))
        })
        .sum()
}

#[test]
fn committed_matrices() {
    for (file, targets, some, _) in MATRICES {
        for target in *targets {
            assert_eq!(check_matrices(target, &committed().join(file)), *some, "{file}");
        }
    }
}

#[test]
fn all_matrices() {
    let Some(folder) = full() else { return };
    for (file, targets, _, all) in MATRICES {
        for target in *targets {
            assert_eq!(check_matrices(target, &folder.join(file)), *all, "{file}");
        }
    }
}

#[test]
fn committed_captures() {
    assert_eq!(check_cards(&committed()), 1600);
}

#[test]
fn all_captures() {
    if let Some(folder) = full() {
        assert_eq!(check_cards(&folder), 160_000);
    }
}

/// `wmma.m16n16k8` is two multiplications of four columns of A each, while `mma.m16n8k8` is one: the bits differ since Hopper.
#[test]
fn wmma_of_tf32_has_two_parts() {
    let mut random = SplitMix(5);
    let mut matrix = |rows, columns| Matrix::new(rows, columns, || code(&mut random, Element::Tf32, false));
    let (a, b, c) = (matrix(16, 8), matrix(8, 16), matrix(16, 16));
    let mut columns = pack(&a, 4, 1, a_place(16, 1));
    columns.extend(pack(&b, 4, 1, |r, lane, e| {
        let (k, n) = b_place(1)(r % 2, lane, e);
        (k, n + 8 * (r / 2))
    }));
    let place = |i: usize, lane: usize| {
        let (row, column) = c_place(i % 4, lane);
        (row, column + 8 * (i / 4))
    };
    columns.extend(pack(&c, 8, 1, |r, lane, _| place(r, lane)));
    let list = |prefix: &str, range: std::ops::Range<usize>| {
        range.map(|i| format!("%{prefix}{i}")).collect::<Vec<_>>().join(", ")
    };
    let body = format!(
        "wmma.mma.sync.aligned.row.col.m16n16k8.f32.tf32.tf32.f32 {{{}}}, {{{}}}, {{{}}}, {{{}}};",
        list("d", 0..8),
        list("s", 0..4),
        list("s", 4..8),
        list("s", 8..16)
    );
    let sources: Vec<(&str, Column)> = columns.into_iter().map(|column| ("b32", column)).collect();
    let got = eval_on("sm_90", &body, &["b32"; 8], &sources);
    let rule = Rule::of(TensorCore::Hopper, Element::Tf32, Accumulator::F32);
    let parts = Rule { block: 4, ..rule };
    let mut differ = 0;
    for i in 0..8 {
        for lane in 0..32 {
            let (row, column) = place(i, lane);
            let output = |rule: &Rule| {
                let c = u32::try_from(c.at(row, column)).unwrap();
                dot(rule, (Element::Tf32, Element::Tf32), Accumulator::F32, &a.row(row), &b.column(column), c)
            };
            assert_eq!(got[i][lane], u64::from(output(&parts)), "({row}, {column})");
            differ += usize::from(output(&parts) != output(&rule));
        }
    }
    assert_ne!(differ, 0);
}

/// m8n8k4 of f16 is a sequence of other instructions since Hopper.
#[test]
fn the_oldest_shape_is_refused_since_hopper() {
    let body = "mma.sync.aligned.m8n8k4.row.col.f16.f16.f16.f16 {%d0, %d1, %d2, %d3}, {%s0, %s0}, {%s0, %s0}, {%s0, %s0, %s0, %s0};";
    let sources = [("b32", vec![0; 32])];
    let on = |target: &str| try_eval_on(target, levels()[0], body, &["b32"; 4], &sources).err();
    assert!(on("sm_89").is_none());
    assert_eq!(on("sm_90").unwrap().blame, Blame::Gap);
}

/// Which products of a sparse matrix share a block is known for Ampere and Ada only.
#[test]
fn sparse_floating_point_is_refused_since_hopper() {
    let body = |types: &str| {
        format!(
            "mma.sp.sync.aligned.m16n8k32.row.col.{types} {{%d0, %d1, %d2, %d3}}, {{%s0, %s1, %s2, %s3}}, {{%s0, %s1, %s2, %s3}}, {{%s0, %s1, %s2, %s3}}, %s0, 0;"
        )
    };
    let sources: Vec<(&str, Column)> = (0..4).map(|_| ("b32", vec![0x4444_4444; 32])).collect();
    let on = |target: &str| {
        try_eval_on(target, levels()[0], &body("f32.f16.f16.f32"), &["b32"; 4], &sources).err()
    };
    assert!(on("sm_89").is_none());
    for target in ["sm_90", "sm_100a", "sm_120a"] {
        let stop = on(target).unwrap();
        assert_eq!(stop.blame, Blame::Gap, "{stop}");
        assert!(stop.sentence.contains("sparse matrix is not known"), "{stop}");
    }
}
