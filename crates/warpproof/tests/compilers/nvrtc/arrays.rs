//! Arrays: reductions, scans, moves through every kind of memory, normalizations.

use super::Check;
use crate::data::{Data, Type};
use crate::launch::Launched;
use crate::reference::{EX2, U32, U64, close, equal, exact, gamma, same_bits, softmax as softmax_of};

/// Floats as unsigned integers of the same order.
fn ordered(value: f64) -> i64 {
    let bits = (value as f32).to_bits();
    i64::from(if bits >> 31 == 1 { !bits } else { bits | 1 << 31 })
}

pub(super) fn reduction() -> Vec<Check> {
    vec![
        ("reduce_sum", |run| {
            let input = run.floats("in");
            let magnitude: f64 = input.iter().map(|x| x.abs()).sum();
            close(run, "out", [(input.iter().sum(), gamma(input.len()) * magnitude)]);
        }),
        ("reduce_max", |run| {
            equal(run, "out", [run.floats("in").into_iter().map(ordered).max().unwrap()]);
        }),
    ]
}

fn running_sums(values: &[i64]) -> impl Iterator<Item = i64> {
    values.iter().scan(0, |sum, value| {
        *sum += value;
        Some(*sum)
    })
}

pub(super) fn scan() -> Vec<Check> {
    vec![
        ("scan_inclusive", |run| {
            let input = run.integers("in");
            equal(run, "out", input.chunks(512).flat_map(running_sums));
        }),
        ("scan_exclusive", |run| {
            let input = run.integers("in");
            equal(
                run,
                "out",
                input.chunks(1024).flat_map(|chunk| running_sums(chunk).zip(chunk).map(|(s, x)| s - x)),
            );
        }),
        ("scan_chained", |run| equal(run, "out", running_sums(&run.integers("in")))),
    ]
}

pub(super) fn histogram() -> Vec<Check> {
    fn check(run: &Launched<'_>) {
        let mut bins = [0; 256];
        for byte in run.integers("in") {
            bins[byte as usize] += 1;
        }
        equal(run, "bins", bins);
    }
    vec![("histogram", check), ("histogram_aggregated", check)]
}

pub(super) fn transpose() -> Vec<Check> {
    fn check(run: &Launched<'_>) {
        let (input, width, height) = (run.floats("in"), run.count("width"), run.count("height"));
        exact(run, "out", (0..width * height).map(|i| input[i % height * width + i / height]));
    }
    vec![("transpose_padded", check), ("transpose_swizzled", check), ("transpose_ragged", check)]
}

/// Relative errors that multiply and divide: (1+a)(1+b)/(1-c) is within 1 ± r/(1-r) for r = a+b+c.
pub(crate) fn compounded(relative: f64) -> f64 {
    relative / (1.0 - relative)
}

/// `__expf(x - top)`: the difference is rounded once, and the guide states 2 + ⌊1.173·|d|⌋ ulp for the exponential.
fn expf_error(difference: f64) -> f64 {
    (2.0 + 1.173 * difference.abs()) * 2.0 * U32 + difference.abs() * U32
}

fn check_softmax(run: &Launched<'_>, sum_error: impl Fn(f64) -> f64) {
    let columns = run.count("columns");
    let input = run.floats("in");
    let wanted = input.chunks(columns).flat_map(|row| {
        let top = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let range = top - row.iter().copied().fold(f64::INFINITY, f64::min);
        let sum_error = sum_error(range);
        // The last terms: a quotient, or a reciprocal and a product.
        let bounded =
            move |(w, x): (f64, &f64)| (w, w * compounded(expf_error(x - top) + sum_error + 2.0 * U32));
        softmax_of(row).into_iter().zip(row).map(bounded).collect::<Vec<_>>()
    });
    close(run, "out", wanted.collect::<Vec<_>>());
}

pub(super) fn softmax() -> Vec<Check> {
    vec![
        // Every exponential has its own error; the sum adds those of 125 terms.
        ("softmax_warp", |run| check_softmax(run, |range| expf_error(range) + gamma(125))),
        // A term passes at most four rescalings within its lane and five across lanes, each an exponential and a product.
        ("softmax_online", |run| check_softmax(run, |range| 10.0 * expf_error(range) + gamma(2 * 9 + 125))),
    ]
}

/// Welford's method in f32. An element moves the mean by a rounded difference, quotient and sum, so the
/// error is at most 7u·M for |x| ≤ M, and no later step magnifies it; the same holds for a merge. A thread
/// processes ⌈columns/128⌉ elements and takes part in ten merges. Each term of the squares is then off by
/// at most 4M times the error of the mean, and by its own roundings.
fn check_layer_norm(run: &Launched<'_>) {
    let columns = run.count("columns");
    let (gamma_, beta, epsilon) = (run.floats("gamma"), run.floats("beta"), run.floats("epsilon")[0]);
    let steps = (columns.div_ceil(128) + 10) as f64;
    let input = run.floats("in");
    let wanted = input.chunks(columns).flat_map(|row| {
        let n = columns as f64;
        let mean = row.iter().sum::<f64>() / n;
        let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n;
        let largest = row.iter().fold(0.0, |m: f64, x| m.max(x.abs()));
        let mean_error = 7.0 * steps * U32 * largest;
        let variance_error = 4.0 * largest * mean_error + variance * gamma(8 * steps as usize);
        let scale = 1.0 / (variance + epsilon).sqrt();
        // rsqrtf is within 2 ulp.
        let scale_error = compounded(0.5 * variance_error / (variance + epsilon) + 2.0 * U32 + 4.0 * U32);
        row.iter()
            .enumerate()
            .map(|(c, x)| {
                let normal = (x - mean) * scale;
                let value = normal * gamma_[c] + beta[c];
                let error = normal.abs() * compounded(scale_error + 4.0 * U32) + mean_error * scale * 1.01;
                (value, gamma_[c].abs() * error + 2.0 * U32 * (value.abs() + beta[c].abs()))
            })
            .collect::<Vec<_>>()
    });
    close(run, "out", wanted.collect::<Vec<_>>());
}

pub(super) fn layer_norm() -> Vec<Check> {
    vec![("layer_norm", check_layer_norm), ("layer_norm_half", check_layer_norm)]
}

pub(super) fn vector_loads() -> Vec<Check> {
    vec![
        ("copy_vectors", |run| same_bits("copy_vectors", run.after("out"), run.given("in"))),
        ("cached", |run| {
            let five = |x: f64| {
                let x = x as f32;
                f64::from(x + x + x + x + x)
            };
            exact(run, "out", run.floats("in").into_iter().map(five));
        }),
        ("struct_of_int3", |run| {
            equal(run, "out", run.integers("in").chunks(3).flat_map(|v| [v[1], v[2], v[0]]));
        }),
        ("wide_types", |run| exact(run, "out", run.floats("in").chunks(2).flat_map(|v| [v[1], v[0]]))),
    ]
}

pub(super) fn dynamic_shared() -> Vec<Check> {
    vec![
        ("reverse", |run| equal(run, "out", run.integers("in").into_iter().rev())),
        ("carved", |run| {
            let (f, d, b) = (run.floats("f"), run.floats("d"), run.floats("b"));
            exact(run, "out", (0..64).map(|i| f[i] + d[63 - i] + b[i]));
        }),
        // The total is a multiple of the allocation unit: 128 bytes on sm_8x, 256 on sm_7x (PTX manual, %total_smem_size).
        ("shared_sizes", |run| {
            let [dynamic, total] = <[i64; 2]>::try_from(run.after("out").integers()).unwrap();
            assert!(dynamic == 832 && [896, 1024].contains(&total), "{dynamic} of {total} bytes");
        }),
    ]
}

pub(super) fn globals() -> Vec<Check> {
    vec![
        ("read_globals", |run| {
            let mut wanted =
                vec![0, 1, 4, 9, 16, 25, 36, 49, 16, 25, 27, 1, 2, 3, 0, 0, -1, 0x89ab_cdef, 100];
            wanted.extend([-0.0f32, 1e-40, 3.4e38, 1.0 / 3.0].map(|x| i64::from(x.to_bits())));
            wanted.resize(32, 0);
            equal(run, "out", wanted);
        }),
        ("walk_list", |run| equal(run, "out", [1230, 20])),
        ("polynomial", |run| {
            let terms = |x: f64| [1.0, -0.5 * x, 0.25 * x * x, -0.125 * x * x * x];
            let bounded =
                |x: f64| (terms(x).iter().sum(), gamma(8) * terms(x).map(f64::abs).iter().sum::<f64>());
            close(run, "out", run.floats("x").into_iter().map(bounded));
        }),
        ("copy_text", |run| {
            let mut text = b"gamma \"quoted\"".to_vec();
            text.resize(16, 0);
            same_bits("copy_text", run.after("out"), &Data { ty: Type::U8, bytes: text });
        }),
        ("count_up", |run| equal(run, "out", [256, 7 + 256])),
    ]
}

pub(super) fn local_arrays() -> Vec<Check> {
    vec![
        ("insertion_sort", |run| {
            let mut data = run.integers("data");
            data.chunks_mut(16).for_each(<[i64]>::sort_unstable);
            equal(run, "data", data);
        }),
        ("bucket_count", |run| {
            let input = run.integers("in");
            let count = |chunk: &[i64], b| chunk.iter().filter(|x| **x % 8 == b).count() as i64;
            equal(run, "out", input.chunks(32).flat_map(|chunk| (0..8).map(move |b| count(chunk, b))));
        }),
        ("sieve", |run| {
            let prime = |p: &i64| (2..*p).all(|d| p % d != 0);
            equal(run, "out", (0..96).map(|n| (2..n).filter(prime).count() as i64));
        }),
        ("variable_frame", |run| equal(run, "out", (0..32).map(|t| t * (t + 1) / 2))),
    ]
}

pub(super) fn templates() -> Vec<Check> {
    fn axpy(run: &Launched<'_>, u: f64) {
        let (a, x, y) = (run.floats("a")[0], run.floats("x"), run.floats("y"));
        // Fused or not: at most the product and the sum are rounded. The reference itself rounds twice in f64.
        let bounded = |(x, y): (&f64, &f64)| (a * x + y, 2.0 * (u + U64) * ((a * x).abs() + y.abs()));
        close(run, "y", x.iter().zip(&y).map(bounded));
    }
    vec![
        ("axpy<float>", |run| axpy(run, U32)),
        ("axpy<double>", |run| axpy(run, U64)),
        ("axpy<int>", |run| equal(run, "y", (0..64).map(|i| 3 * i + i))),
        ("signal::fir<5>", |run| {
            let input = run.floats("in");
            let bounded = |taps: &[f64]| {
                (taps.iter().sum::<f64>() / 5.0, gamma(6) * taps.iter().map(|x| x.abs()).sum::<f64>() / 5.0)
            };
            close(run, "out", input.windows(5).map(bounded));
        }),
        ("square_plus_one", |run| {
            close(run, "out", run.floats("in").into_iter().map(|x| (x * x + 1.0, gamma(2) * (x * x + 1.0))));
        }),
        ("complex_mul", |run| {
            let (a, b) = (run.floats("a"), run.floats("b"));
            let bounded = |p: f64, q: f64| (p + q, gamma(2) * (p.abs() + q.abs()));
            let product = |(a, b): (&[f64], &[f64])| {
                [bounded(a[0] * b[0], -a[1] * b[1]), bounded(a[0] * b[1], a[1] * b[0])]
            };
            close(run, "out", a.chunks(2).zip(b.chunks(2)).flat_map(product));
        }),
    ]
}

pub(super) fn launch_bounds() -> Vec<Check> {
    fn check(run: &Launched<'_>) {
        exact(run, "out", run.floats("in").into_iter().map(|x| 2.0 * x));
    }
    vec![("bounded", check), ("bounded_twice", check), ("few_registers", check)]
}

/// Tiles are added in order, each addition rounded to f32.
fn sums_of_tiles(run: &Launched<'_>) {
    let (input, tiles) = (run.floats("in"), run.count("tiles"));
    let sum = |i: usize| {
        let (block, thread) = (i / 256, i % 256);
        let element = |tile| input[(block * tiles + tile) * 256 + thread] as f32;
        f64::from((0..tiles).fold(0.0f32, |sum, tile| sum + element(tile)))
    };
    exact(run, "out", (0..512).map(sum));
}

pub(super) fn pipeline_primitives() -> Vec<Check> {
    vec![
        ("pipeline_sum", sums_of_tiles),
        ("pipeline_zero_fill", |run| {
            let (input, n) = (run.floats("in"), run.count("n"));
            exact(run, "out", (0..512).map(|i| if i < n { input[i] } else { 0.0 }));
        }),
    ]
}

pub(super) fn pipeline_cuda() -> Vec<Check> {
    vec![("pipeline_thread", sums_of_tiles), ("pipeline_block", sums_of_tiles)]
}

#[test]
fn the_guides_bound_of_the_exponential_covers_its_instructions() {
    // __expf(d) is ex2.approx(d · log2 e): the product's rounding moves the exponent by |d·log2 e|·u, the constant's by as
    // much, and the instruction errs by 2^-22.
    for tenths in 0..200 {
        let d = f64::from(tenths) / 10.0;
        let derived = EX2 + 2.0 * d * U32;
        assert!(derived <= expf_error(d) * 1.0001, "{d}");
    }
}
