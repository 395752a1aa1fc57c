//! `wgmma.mma_async.sp`, compared with the rule over the stored elements, and with exact sums of integers.
#![expect(
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "small numbers chosen by the test"
)]

use crate::harness::levels;
use crate::mma::{Matrix, code};
use crate::wgmma::{Case, element, sign};
use warpproof_num::mma::rule::{Accumulator, Element, Rule, TensorCore, dot};
use warpproof_num::random::SplitMix;
use warpproof_sim::simd::Level;
use warpproof_sim::{Blame, StopKind};

/// Random metadata of 64 rows: the column of each stored element, and the words of the 128 threads, by the manual's figures.
fn metadata(random: &mut SplitMix, k: usize, width: usize, selector: usize) -> (Vec<Vec<usize>>, Vec<u32>) {
    let chunks = k / width;
    let mut words: Vec<u32> = (0..128).map(|_| random.next() as u32).collect();
    let mut places = vec![Vec::new(); 64];
    for (row, places) in places.iter_mut().enumerate() {
        for chunk in 0..chunks {
            let (x, y) = match (width, random.next() % 4) {
                (2, even) => {
                    if even % 2 == 0 {
                        (0, 1)
                    } else {
                        (2, 3)
                    }
                }
                (_, x) => (x, (x + 1 + random.next() % 3) % 4),
            };
            let nibble = (x | y << 2) as u32;
            places.push(chunk * width + if width == 2 { x as usize / 2 } else { x as usize });
            if width == 4 {
                places.push(chunk * width + y as usize);
            }
            let (warp, half, group) = (row / 16, row / 8 % 2, row % 8);
            let (lane, bit) = if k == 64 {
                (4 * group + 2 * (chunk / 8) + half, 4 * (chunk % 8))
            } else {
                (4 * group + 2 * selector + chunk / 4, 16 * half + 4 * (chunk % 4))
            };
            let word = &mut words[32 * warp + lane];
            *word = *word & !(15 << bit) | nibble << bit;
        }
    }
    (places, words)
}

/// Runs a case at every level; `expected(stored elements of A, selected elements of B, c)`.
fn check(
    case: &Case,
    places: &[Vec<usize>],
    [a, b, c]: [&Matrix; 3],
    expected: impl Fn(&[u32], &[u32], u32) -> u32,
) {
    for level in levels() {
        let got = case
            .run(level, &case.body(), &[(a, b, c)])
            .unwrap_or_else(|stop| panic!("{}: {stop}", case.body()));
        for (i, got) in got[0].iter().enumerate() {
            let (row, column) = (i / case.n, i % case.n);
            let selected: Vec<u32> = places[row].iter().map(|k| b.at(*k, column) as u32).collect();
            let wanted = expected(&a.row(row), &selected, c.at(row, column) as u32);
            assert_eq!(*got, u64::from(wanted), "{} at ({row}, {column})", case.body());
        }
    }
}

fn float(op: &str, (selector, seed): (u32, u64), change: impl Fn(Case) -> Case) {
    let names: Vec<&str> = op.split('.').collect();
    let types = (element(names[2]), element(names[3]));
    let mut random = SplitMix(seed);
    let k = Case::new(op).k;
    let width = if types.0 == Element::Tf32 { 2 } else { 4 };
    let (places, words) = metadata(&mut random, k, width, selector as usize);
    let case = change(Case::sparse(op, selector, words));
    let accumulator = if case.packed { Accumulator::F16 } else { Accumulator::F32 };
    let rule = Rule::of(TensorCore::Hopper, types.0, accumulator);
    let a = Matrix::new(64, k / 2, || code(&mut random, types.0, false));
    let b = Matrix::new(k, case.n, || code(&mut random, types.1, false));
    let c_type = if case.packed { Element::F16 } else { Element::Tf32 };
    let c = Matrix::new(64, case.n, || code(&mut random, c_type, false));
    let flip = |codes: &[u32], negated: bool, element: Element| -> Vec<u32> {
        codes.iter().map(|code| if negated { code ^ sign(element) } else { *code }).collect()
    };
    check(&case, &places, [&a, &b, &c], |row, column, c| {
        let row = flip(row, case.negated.0, types.0);
        let column = flip(column, case.negated.1, types.1);
        dot(&rule, types, accumulator, &row, &column, c)
    });
}

#[test]
fn every_type_and_layout() {
    // A swizzle of 32 bytes is shorter than a row of B.
    for swizzle in [0, 1, 2] {
        for op in [
            "m64n16k32.f32.f16.f16",
            "m64n8k32.f16.f16.f16",
            "m64n24k32.f32.bf16.bf16",
            "m64n16k16.f32.tf32.tf32",
            "m64n16k64.f32.e4m3.e5m2",
            "m64n24k64.f16.e5m2.e5m2",
        ] {
            for registers in [false, true] {
                let selector = u32::from(registers && !op.contains("k64"));
                float(op, (selector, swizzle + 1), |case| Case { swizzle, registers, ..case });
            }
        }
    }
    for swizzle in 0..4 {
        for transposed in [(true, false), (false, true), (true, true)] {
            if swizzle == 3 && !transposed.1 {
                continue;
            }
            float("m64n64k32.f32.f16.f16", (1, 9), |case| Case { swizzle, transposed, ..case });
        }
    }
    float("m64n256k32.f32.f16.f16", (0, 5), |case| Case { negated: (true, false), ..case });
    float("m64n8k64.f32.e4m3.e4m3", (0, 6), |case| Case { negated: (false, true), ..case });
}

#[test]
fn integers() {
    let mut random = SplitMix(3);
    for (satfinite, a_type, b_type) in
        [("", "s8", "s8"), (".satfinite", "s8", "u8"), ("", "u8", "s8"), (".satfinite", "u8", "u8")]
    {
        for n in [8, 48] {
            let (places, words) = metadata(&mut random, 64, 4, 0);
            let op = format!("m64n{n}k64{satfinite}.s32.{a_type}.{b_type}");
            let case = Case { swizzle: 1, registers: n == 8, ..Case::sparse(&op, 0, words) };
            let a = Matrix::new(64, 32, || random.next() & 0xff);
            let b = Matrix::new(64, n, || random.next() & 0xff);
            let c = Matrix::new(64, n, || {
                if random.next().is_multiple_of(4) { 0x7fff_fff0 } else { random.next() >> 32 }
            });
            let value = |ty: &str, code: u32| {
                if ty == "s8" { i64::from((code as u8).cast_signed()) } else { i64::from(code) }
            };
            check(&case, &places, [&a, &b, &c], |row, column, c| {
                let sum: i64 =
                    row.iter().zip(column).map(|(x, y)| value(a_type, *x) * value(b_type, *y)).sum();
                let total = sum + i64::from(c.cast_signed());
                let limits = (i64::from(i32::MIN), i64::from(i32::MAX));
                (if satfinite.is_empty() { total } else { total.clamp(limits.0, limits.1) }) as u32
            });
        }
    }
}

#[test]
fn what_is_wrong_or_unknown_stops() {
    let zeros = |rows, columns| Matrix::new(rows, columns, || 0);
    let run = |case: &Case, k: usize| {
        let (a, b, c) = (zeros(64, k / 2), zeros(k, 16), zeros(64, 16));
        case.run(Level::detect(), &case.body(), &[(&a, &b, &c)]).unwrap_err()
    };
    let op = "m64n16k32.f32.f16.f16";
    // Two equal indices.
    let stop = run(&Case::sparse(op, 0, vec![0; 128]), 32);
    assert_eq!((stop.blame, stop.kind), (Blame::Kernel, StopKind::Malformed), "{stop}");
    assert!(stop.to_string().contains("sparsity metadata"), "{stop}");
    let stop = run(&Case::sparse(op, 2, vec![0x4444_4444; 128]), 32);
    assert_eq!((stop.blame, stop.kind), (Blame::Input, StopKind::Malformed), "{stop}");
    let stop = run(&Case::sparse("m64n16k64.f32.e4m3.e4m3", 1, vec![0x4444_4444; 128]), 64);
    assert_eq!(stop.kind, StopKind::Malformed, "{stop}");
    let stop = run(&Case { swizzle: 3, ..Case::sparse(op, 0, vec![0x4444_4444; 128]) }, 32);
    assert_eq!((stop.blame, stop.kind), (Blame::Gap, StopKind::Unsupported), "{stop}");
}
