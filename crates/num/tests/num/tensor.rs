//! Compares the arithmetic of `tcgen05.mma` with a published model of it.
#![expect(
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    reason = "a panic fails the test, and codes of numbers change width on purpose"
)]

use crate::vectors::{Case, cases_of, committed, full};
use std::path::Path;
use warpproof_num::mma::scaled::Scale;
use warpproof_num::mma::tensor::{COLUMNS, Kind, Piece, ROWS, multiply};
use warpproof_num::mma::{Accumulator, Element, IntElement};

fn element(name: &str) -> Element {
    match name {
        "e4m3" => Element::E4m3,
        "e5m2" => Element::E5m2,
        "e3m2" => Element::E3m2,
        "e2m3" => Element::E2m3,
        "e2m1" => Element::E2m1,
        other => panic!("unknown element {other}"),
    }
}

fn kind(op: &str) -> Kind {
    let names: Vec<&str> = op.split('.').filter(|name| !name.starts_with("block")).skip(1).collect();
    let accumulator = if names[1] == "f16" { Accumulator::F16 } else { Accumulator::F32 };
    let scale = if op.ends_with("ue4m3") { Scale::Ue4m3 } else { Scale::Ue8m0 };
    match names[0] {
        "kind::f16" if names[2] == "f16" => Kind::F16(accumulator),
        "kind::f16" => Kind::Bf16,
        "kind::tf32" => Kind::Tf32,
        "kind::f8f6f4" => Kind::F8f6f4((element(names[2]), element(names[3])), accumulator),
        "kind::mxf8f6f4" => Kind::Mxf8f6f4((element(names[2]), element(names[3]))),
        "kind::mxf4" | "kind::mxf4nvf4" => Kind::Fp4(scale, op.contains("block16")),
        other => panic!("unknown kind {other}"),
    }
}

/// D by row.
fn run(case: &Case) -> Vec<u64> {
    let kind = kind(&case.op);
    assert_eq!(kind.k(), case.k);
    let scales = kind.scales();
    let mut d = vec![0; case.m * case.n];
    for row in (0..case.m).step_by(ROWS) {
        for column in (0..case.n).step_by(COLUMNS) {
            let mut piece = Piece::ZERO;
            let mut c = [[0; ROWS]; COLUMNS];
            for (m, line) in piece.a.iter_mut().enumerate() {
                for (k, code) in line.iter_mut().enumerate().take(case.k) {
                    *code = case.a[(row + m) * case.k + k] as u32;
                }
                for s in 0..scales {
                    piece.a_scales[m][s] = case.scales.0[(row + m) * scales + s] as u8;
                }
            }
            for (n, line) in piece.b.iter_mut().enumerate() {
                for (k, code) in line.iter_mut().enumerate().take(case.k) {
                    *code = case.b[k * case.n + column + n] as u32;
                }
                for s in 0..scales {
                    piece.b_scales[n][s] = case.scales.1[s * case.n + column + n] as u8;
                }
                for (m, c) in c[n].iter_mut().enumerate() {
                    *c = case.c[(row + m) * case.n + column + n] as u32;
                }
            }
            multiply(kind, &piece, &mut c);
            for (n, column_of_d) in c.iter().enumerate() {
                for (m, code) in column_of_d.iter().enumerate() {
                    d[(row + m) * case.n + column + n] = u64::from(*code);
                }
            }
        }
    }
    d
}

/// The number of matrices of a file that agree; any other fails.
fn check(file: &Path) -> usize {
    let cases = cases_of(file);
    for case in &cases {
        for (i, (got, want)) in run(case).iter().zip(&case.d).enumerate() {
            assert_eq!(got, want, "{} {} output {i}: {got:x}, expected {want:x}", case.op, case.kind);
        }
    }
    cases.len()
}

#[test]
fn committed_matrices() {
    assert_eq!(check(&committed().join("tcgen05-blackwell.jsonl")), 10);
    assert_eq!(check(&committed().join("tcgen05-block-scale-blackwell.jsonl")), 5);
}

#[test]
fn all_matrices() {
    let Some(folder) = full() else { return };
    assert_eq!(check(&folder.join("tcgen05-blackwell.jsonl")), 190);
    assert_eq!(check(&folder.join("tcgen05-block-scale-blackwell.jsonl")), 75);
}

/// Integers have no rule to compare with: the sum is exact, and wraps or saturates.
#[test]
fn integers_are_exact() {
    let mut piece = Piece::ZERO;
    piece.a[3][..32].fill(0x80);
    piece.b[5][..32].fill(0xff);
    let mut c = [[0; ROWS]; COLUMNS];
    c[5][3] = 7;
    let mut signed = c;
    multiply(Kind::I8((IntElement::S8, IntElement::S8), false), &piece, &mut signed);
    assert_eq!((signed[5][3].cast_signed(), signed[5][4], signed[4][3]), (32 * 128 + 7, 0, 0));
    let mut mixed = c;
    mixed[5][3] = i32::MIN.cast_unsigned();
    multiply(Kind::I8((IntElement::S8, IntElement::U8), true), &piece, &mut mixed);
    assert_eq!(mixed[5][3], i32::MIN.cast_unsigned());
}
