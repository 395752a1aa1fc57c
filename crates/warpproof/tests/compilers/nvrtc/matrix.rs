//! Matrix products, on the ordinary units and on tensor cores.

use super::Check;
use crate::data::{Type, rounded};
use crate::launch::Launched;
use crate::reference::{TensorCore, U64, close, equal, gamma};

/// A matrix as a function of row and column.
type Matrix<'a> = &'a dyn Fn(usize, usize) -> f64;

/// All outputs by rows, each with its dot product over k.
fn product(
    rows: usize,
    columns: usize,
    k: usize,
    a: Matrix<'_>,
    b: Matrix<'_>,
    core: TensorCore,
) -> Vec<(f64, f64)> {
    let dot = |i: usize| core.dot((0..k).map(|k| (a(i / columns, k), b(k, i % columns))), 0.0);
    (0..rows * columns).map(dot).collect()
}

/// As `product`, in integers.
fn integer_product(
    rows: usize,
    columns: usize,
    k: usize,
    a: &[i64],
    b: &[i64],
    b_by_columns: bool,
) -> Vec<i64> {
    let b_at = |row: usize, column: usize| {
        if b_by_columns { b[column * k + row] } else { b[row * columns + column] }
    };
    let dot = |i: usize| (0..k).map(|k_| a[i / columns * k + k_] * b_at(k_, i % columns)).sum();
    (0..rows * columns).map(dot).collect()
}

pub(super) fn sgemm_tiled() -> Vec<Check> {
    fn check(run: &Launched<'_>) {
        let (a, b, n) = (run.floats("a"), run.floats("b"), run.count("n"));
        let dot = |i: usize| {
            let terms: Vec<f64> = (0..n).map(|k| a[i / n * n + k] * b[k * n + i % n]).collect();
            (terms.iter().sum(), gamma(n) * terms.iter().map(|x| x.abs()).sum::<f64>())
        };
        close(run, "c", (0..n * n).map(dot));
    }
    vec![("sgemm_tiled", check), ("sgemm_blocked", check)]
}

pub(super) fn wmma_f16() -> Vec<Check> {
    fn halves(
        run: &Launched<'_>,
        (rows, columns, k): (usize, usize, usize),
        a_at: fn(usize, usize) -> usize,
    ) -> Vec<(f64, f64)> {
        let (a, b) = (run.floats("a"), run.floats("b"));
        let core = TensorCore::of(Type::F16);
        product(rows, columns, k, &|i, k| a[a_at(i, k)], &|k, j| b[k * columns + j], core)
    }
    vec![
        ("wmma_f16_f32", |run| close(run, "c", halves(run, (64, 64, 64), |i, k| i * 64 + k))),
        ("wmma_f16_f16", |run| {
            let (a, b, c) = (run.floats("a"), run.floats("b"), run.floats("c"));
            let core = TensorCore::of(Type::F16).to_half();
            let dot = |i: usize| {
                let (row, column) = (i / 16, i % 16);
                let (sum, error) = core.dot((0..16).map(|k| (a[row * 16 + k], b[column * 16 + k])), c[i]);
                (sum.max(0.0), error)
            };
            close(run, "c", (0..256).map(dot));
        }),
        ("wmma_f16_m32n8k16", |run| close(run, "c", halves(run, (32, 8, 16), |i, k| i * 16 + k))),
        ("wmma_f16_m8n32k16", |run| {
            let by_rows = halves(run, (8, 32, 16), |i, k| k * 8 + i);
            close(run, "c", (0..256).map(|i| by_rows[i % 8 * 32 + i / 8]));
        }),
    ]
}

/// To tf32: ten fraction bits, ties away from zero.
pub(super) fn tf32(value: f64) -> f64 {
    let bits = (value as f32).to_bits();
    f64::from(f32::from_bits((bits + 0x1000) & !0x1fff))
}

pub(super) fn wmma_types() -> Vec<Check> {
    vec![
        ("wmma_bf16", |run| {
            let (a, b) = (run.floats("a"), run.floats("b"));
            let core = TensorCore::of(Type::Bf16);
            close(run, "c", product(16, 16, 16, &|i, k| a[i * 16 + k], &|k, j| b[k * 16 + j], core));
        }),
        ("wmma_tf32", |run| {
            let (a, b) = (run.floats("a"), run.floats("b"));
            let core = TensorCore::of(Type::F32);
            close(
                run,
                "c",
                product(16, 16, 8, &|i, k| tf32(a[i * 8 + k]), &|k, j| tf32(b[k * 16 + j]), core),
            );
        }),
        ("wmma_f64", |run| {
            let (a, b) = (run.floats("a"), run.floats("b"));
            let dot = |i: usize| {
                let terms: Vec<f64> = (0..4).map(|k| a[i / 8 * 4 + k] * b[i % 8 * 4 + k]).collect();
                // Both sides round: at most eight roundings each.
                (terms.iter().sum(), 16.0 * U64 * terms.iter().map(|x| x.abs()).sum::<f64>())
            };
            close(run, "c", (0..64).map(dot));
        }),
        ("wmma_s8", |run| {
            equal(run, "c", integer_product(16, 16, 16, &run.integers("a"), &run.integers("b"), true));
        }),
        ("wmma_u8", |run| {
            let products = integer_product(32, 8, 16, &run.integers("a"), &run.integers("b"), false);
            equal(run, "c", products.into_iter().map(|x| (x + 0x7fff_0000).min(i64::from(i32::MAX))));
        }),
    ]
}

pub(super) fn wmma_subbyte() -> Vec<Check> {
    vec![
        ("wmma_s4", |run| {
            let nibbles = |name| -> Vec<i64> {
                let nibble = |word: u64, n: u32| ((word >> (4 * n)) as i64) << 60 >> 60;
                run.given(name)
                    .bits()
                    .into_iter()
                    .flat_map(|word| (0..8).map(move |n| nibble(word, n)))
                    .collect()
            };
            equal(run, "c", integer_product(8, 8, 32, &nibbles("a"), &nibbles("b"), true));
        }),
        ("wmma_b1", |run| {
            let (a, b) = (run.given("a").bits(), run.given("b").bits());
            let differ = |row: usize, column: usize| {
                (0..4).map(|word| i64::from((a[row * 4 + word] ^ b[column * 4 + word]).count_ones())).sum()
            };
            equal(run, "c", (0..64).map(|i| differ(i / 8, i % 8)));
        }),
    ]
}

/// d[16][8] = a[16][k] · b[8][k], both along k.
fn along_k(run: &Launched<'_>, k: usize, core: TensorCore, convert: fn(f64) -> f64) {
    let (a, b) = (run.floats("a"), run.floats("b"));
    close(run, "d", product(16, 8, k, &|i, n| convert(a[i * k + n]), &|n, j| convert(b[j * k + n]), core));
}

pub(super) fn mma_sync() -> Vec<Check> {
    vec![
        ("mma_f16_m16n8k16", |run| along_k(run, 16, TensorCore::of(Type::F16), |x| x)),
        ("mma_f16_m16n8k16_half", |run| along_k(run, 16, TensorCore::of(Type::F16).to_half(), |x| x)),
        ("mma_bf16_m16n8k16", |run| along_k(run, 16, TensorCore::of(Type::Bf16), |x| x)),
        ("mma_tf32_m16n8k8", |run| along_k(run, 8, TensorCore::of(Type::F32), tf32)),
        ("mma_s8_m16n8k32", |run| {
            equal(run, "d", integer_product(16, 8, 32, &run.integers("a"), &run.integers("b"), true));
        }),
        ("mma_u8_s8_m16n8k32", |run| {
            equal(run, "d", integer_product(16, 8, 32, &run.integers("a"), &run.integers("b"), true));
        }),
    ]
}

pub(super) fn mma_fp8() -> Vec<Check> {
    vec![
        ("mma_e4m3_e4m3", |run| along_k(run, 32, TensorCore::of(Type::E4m3), |x| x)),
        ("mma_e5m2_e5m2", |run| along_k(run, 32, TensorCore::of(Type::E5m2), |x| x)),
        // Use the larger smallest normal number, to be conservative.
        ("mma_e4m3_e5m2", |run| along_k(run, 32, TensorCore::of(Type::E4m3), |x| x)),
        ("quantized_gemm", |run| {
            let (a, b, k) = (run.floats("a"), run.floats("b"), run.count("k"));
            let (scale_a, scale_b) = (run.floats("scale_a")[0], run.floats("scale_b")[0]);
            let quantized = |x: f64, scale: f64| rounded(Type::E4m3, x / scale);
            let core = TensorCore::of(Type::E4m3);
            let products = product(
                16,
                8,
                k,
                &|i, n| quantized(a[i * k + n], scale_a),
                &|n, j| quantized(b[j * k + n], scale_b),
                core,
            );
            // The scales are powers of two.
            let scale = scale_a * scale_b;
            close(run, "d", products.into_iter().map(|(value, bound)| (value * scale, bound * scale)));
        }),
    ]
}

pub(super) fn gemm_cp_async() -> Vec<Check> {
    vec![("gemm_cp_async", |run| {
        let (a, b) = (run.floats("a"), run.floats("b"));
        let (m, n, k) = (run.count("m"), run.count("n"), run.count("k"));
        close(
            run,
            "c",
            product(m, n, k, &|i, e| a[i * k + e], &|e, j| b[e * n + j], TensorCore::of(Type::F16)),
        );
    })]
}
