//! Vector addition, softmax, cross entropy and layer norm.

use super::{float, int, module, rows_of, untouched_beside_rows};
use crate::data::{Data, Type};
use crate::launch::Random;
use crate::reference::{EX2, U32, close_data, gamma, same_bits, softmax};

macro_rules! modules {
    ($($name:ident: $check:ident)*) => {
        mod sm_89 {
            $(
                #[test]
                fn $name() {
                    super::$check(stringify!($name), "sm_89");
                }
            )*
        }
        mod sm_90 {
            $(
                #[test]
                fn $name() {
                    super::$check(stringify!($name), "sm_90");
                }
            )*
        }
        pub(super) const TESTED: &[(&str, &str)] =
            &[$((stringify!($name), "sm_89"), (stringify!($name), "sm_90")),*];
    };
}
pub(super) use modules;

modules! {
    vector_add_f32: check_add
    vector_add_f16: check_add
    vector_add_i64: check_add
    softmax_f32: check_softmax
    softmax_f16: check_softmax
    cross_entropy_f32: check_cross_entropy
    layer_norm_f32: check_layer_norm
    layer_norm_bf16: check_layer_norm
}

fn normal(ty: Type, count: usize, random: &mut Random) -> Data {
    Data::of_floats(ty, (0..count).map(|_| random.normal()))
}

fn check_add(name: &str, arch: &str) {
    let module = module(name, arch);
    let (ty, mut random) = (module.ty("x"), Random::new(1));
    // The last program is only partly inside, and the arrays extend beyond n.
    let (n, length) = (2000, 2100);
    let mut input = || match ty {
        Type::I64 => Data::of_bits(ty, (0..length).map(|_| random.bits())),
        _ => normal(ty, length, &mut random),
    };
    let values = [("x", input()), ("y", input()), ("out", Data::unwritten(ty, length)), ("n", int(n))];
    module.check(&values, &[], |run| {
        let (x, y) = (run.given("x"), run.given("y"));
        let sums = match ty {
            Type::I64 => {
                Data::of_bits(ty, x.bits().into_iter().zip(y.bits()).map(|(x, y)| x.wrapping_add(y)))
            }
            // Exact in f64 except for a rounding that is too small for f32 and f16.
            _ => Data::of_floats(ty, x.floats().into_iter().zip(y.floats()).map(|(x, y)| x + y)),
        };
        untouched_beside_rows(run, "out", length, n);
        same_bits(name, &rows_of(run.after("out"), length, n), &rows_of(&sums, length, n));
    });
}

fn check_softmax(name: &str, arch: &str) {
    let module = module(name, arch);
    let (ty, mut random) = (module.ty("x"), Random::new(2));
    let columns = module.constant("BLOCK") - 55;
    let (rows, x_stride, out_stride) = (5, columns.next_multiple_of(16) + 16, columns.next_multiple_of(16));
    let values = [
        ("x", normal(ty, rows * x_stride, &mut random)),
        ("out", Data::unwritten(ty, rows * out_stride)),
        ("x_stride", int(x_stride)),
        ("out_stride", int(out_stride)),
        ("columns", int(columns)),
    ];
    module.check(&values, &[("rows", rows as u32)], |run| {
        let x = rows_of(run.given("x"), x_stride, columns).floats();
        let wanted = x.chunks(columns).flat_map(|row| {
            let top = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let least = row.iter().copied().fold(f64::INFINITY, f64::min);
            // ex2.approx of a rounded difference times log2 e, itself rounded and the product as well: each moves the
            // result by the exponent's size. The sum, then div.full, which is within 2 ulp.
            let exponential = |difference: f64| EX2 + 3.0 * U32 * difference;
            let sum = exponential(top - least) + gamma(columns);
            let relative = move |x: f64| {
                let error = exponential(top - x) + sum + 4.0 * U32;
                error / (1.0 - error)
            };
            let bounded = move |(w, x): (f64, &f64)| (w, w * relative(*x));
            softmax(row).into_iter().zip(row).map(bounded).collect::<Vec<_>>()
        });
        let wanted: Vec<_> = wanted.collect();
        untouched_beside_rows(run, "out", out_stride, columns);
        close_data(name, &rows_of(run.after("out"), out_stride, columns), wanted);
    });
}

fn check_cross_entropy(name: &str, arch: &str) {
    let module = module(name, arch);
    let (ty, mut random) = (module.ty("logits"), Random::new(4));
    // Not a multiple of the block, and more than one of them.
    let (block, rows) = (module.constant("BLOCK"), 5);
    let classes = block + 301;
    let stride = classes.next_multiple_of(16) + 16;
    // The first class, the last, and some of both blocks.
    let labels = [0, classes - 1, 7, block, block + 1];
    let values = [
        ("logits", normal(ty, rows * stride, &mut random)),
        ("labels", Data::of_bits(Type::I32, labels.iter().map(|label| *label as u64))),
        ("losses", Data::unwritten(Type::F32, rows)),
        ("stride", int(stride)),
        ("classes", int(classes)),
    ];
    module.check(&values, &[("rows", rows as u32)], |run| {
        let x = rows_of(run.given("logits"), stride, classes).floats();
        let (mut losses, mut gradients) = (Vec::new(), Vec::new());
        for (row, label) in x.chunks(classes).zip(labels) {
            let top = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let least = row.iter().copied().fold(f64::INFINITY, f64::min);
            // As in softmax; the sum is also scaled once for each block.
            let exponential = |difference: f64| EX2 + 3.0 * U32 * difference;
            let blocks = classes.div_ceil(block) as f64;
            let sum = (1.0 + blocks) * exponential(top - least) + gamma(classes);
            let total: f64 = row.iter().map(|x| (x - top).exp()).sum();
            let loss = top + total.ln() - row[label];
            // The logarithm of a sum that is off by this, lg2.approx within 2^-22, the product, two sums.
            let log = total.ln().abs() + 1.0;
            let added = 2.0 * U32 * (top.abs() + log + row[label].abs());
            losses.push((loss, 1.01 * sum + EX2 * log + 2.0 * U32 * log + added));
            for (class, x) in row.iter().enumerate() {
                let weight = (x - top).exp() / total;
                let error = exponential(top - x) + sum + 4.0 * U32;
                let gradient = weight - if class == label { 1.0 } else { 0.0 };
                gradients.push((gradient, weight * error / (1.0 - error) + U32 * gradient.abs()));
            }
        }
        close_data("losses", run.after("losses"), losses);
        untouched_beside_rows(run, "logits", stride, classes);
        close_data(name, &rows_of(run.after("logits"), stride, classes), gradients);
    });
}

fn check_layer_norm(name: &str, arch: &str) {
    let module = module(name, arch);
    let (ty, mut random) = (module.ty("x"), Random::new(3));
    // Not a multiple of the block, and more than two of them.
    let columns = 2 * module.constant("BLOCK") + 101;
    let (rows, stride, epsilon) = (4, columns.next_multiple_of(16) + 16, 1e-5f32);
    let values = [
        ("x", normal(ty, rows * stride, &mut random)),
        ("gamma", normal(ty, columns, &mut random)),
        ("beta", normal(ty, columns, &mut random)),
        ("out", Data::unwritten(ty, rows * stride)),
        ("mean_out", Data::unwritten(Type::F32, rows)),
        ("rstd_out", Data::unwritten(Type::F32, rows)),
        ("stride", int(stride)),
        ("columns", int(columns)),
        ("epsilon", float(f64::from(epsilon))),
    ];
    module.check(&values, &[("rows", rows as u32)], |run| {
        let x = rows_of(run.given("x"), stride, columns).floats();
        let (scale, shift) = (run.floats("gamma"), run.floats("beta"));
        let n = columns as f64;
        let (mut means, mut rstds, mut wanted) = (Vec::new(), Vec::new(), Vec::new());
        for row in x.chunks(columns) {
            let mean = row.iter().sum::<f64>() / n;
            let mean_error = gamma(columns + 2) * row.iter().map(|x| x.abs()).sum::<f64>() / n;
            let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n;
            // A difference is off by the mean's error and its rounding; squares and their sum round again.
            let off = |x: f64| {
                let difference = (x - mean).abs();
                let error = mean_error + U32 * (difference + mean_error);
                2.0 * difference * error + error * error
            };
            let variance_error = row.iter().map(|x| off(*x)).sum::<f64>() / n + gamma(columns + 4) * variance;
            let inside = variance + f64::from(epsilon);
            let rstd = 1.0 / inside.sqrt();
            // Half the relative error of the square, sqrt.approx within 2^-23, div.full within 2^-22.
            let error = 0.5 * variance_error / inside + 0.5 * U32 + 2.0 * U32 + 4.0 * U32;
            let rstd_error = error / (1.0 - error);
            means.push((mean, mean_error));
            rstds.push((rstd, rstd * rstd_error));
            for (c, x) in row.iter().enumerate() {
                let normal = (x - mean) * rstd;
                let value = normal * scale[c] + shift[c];
                let error = scale[c].abs()
                    * (normal.abs() * (rstd_error + 4.0 * U32)
                        + (mean_error + U32 * normal.abs()) * rstd * 1.01);
                wanted.push((value, error + 2.0 * U32 * (value.abs() + shift[c].abs())));
            }
        }
        close_data("mean", run.after("mean_out"), means);
        close_data("rstd", run.after("rstd_out"), rstds);
        untouched_beside_rows(run, "out", stride, columns);
        close_data(name, &rows_of(run.after("out"), stride, columns), wanted);
    });
}
