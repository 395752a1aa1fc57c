//! Bounds on rounding errors, and references that several kernels share.
//!
//! Notation: u is half a unit in the last place of 1 in a format (2^-24 for f32). A sum of n terms in any order, each
//! addition rounded, errs by at most γ(n-1) · Σ|terms| with γ(n) = n·u / (1 - n·u); so does a dot product of n terms with
//! γ(n), fused or not (Higham, Accuracy and Stability of Numerical Algorithms, sections 3.1 and 4.2).

use crate::data::{Data, Type, exp2};
use crate::launch::Launched;

/// u of f32.
pub(crate) const U32: f64 = 1.0 / (1u64 << 24) as f64;
/// u of f64.
pub(crate) const U64: f64 = 1.0 / (1u64 << 53) as f64;

/// γ(n) for f32.
pub(crate) fn gamma(n: usize) -> f64 {
    let nu = n as f64 * U32;
    nu / (1.0 - nu)
}

/// `ex2.approx.f32` is within 2 ulp, so within 2^-22 relatively (PTX manual, ex2).
pub(crate) const EX2: f64 = 1.0 / (1u64 << 22) as f64;

/// Asserts that `result` is within `bound` of `wanted`.
#[track_caller]
pub(crate) fn within(what: &str, i: usize, result: f64, wanted: f64, bound: f64) {
    let error = (result - wanted).abs();
    assert!(
        error <= bound,
        "{what}[{i}] = {result:e}, should be {wanted:e}: off by {error:e}, and at most {bound:e} can be explained"
    );
}

/// Insists on equal bits.
#[track_caller]
pub(crate) fn same_bits(what: &str, result: &Data, wanted: &Data) {
    assert_eq!(result.ty, wanted.ty);
    assert_eq!(result.len(), wanted.len());
    for (i, (r, w)) in result.bits().into_iter().zip(wanted.bits()).enumerate() {
        assert!(r == w, "{what}[{i}] = {r:#x}, should be {w:#x}");
    }
}

/// Asserts that an array of integers (or of small whole floats) equals `wanted`.
#[track_caller]
pub(crate) fn equal(run: &Launched<'_>, name: &str, wanted: impl IntoIterator<Item = i64>) {
    let result = run.after(name);
    let wanted: Vec<i64> = wanted.into_iter().collect();
    let wanted = Data::of_bits(result.ty, wanted.into_iter().map(|value| value as u64));
    same_bits(&format!("{}: {name}", run.case.kernel), result, &wanted);
}

/// Asserts that an array of floats is the correctly rounded `wanted`.
#[track_caller]
pub(crate) fn exact(run: &Launched<'_>, name: &str, wanted: impl IntoIterator<Item = f64>) {
    let result = run.after(name);
    same_bits(&format!("{}: {name}", run.case.kernel), result, &Data::of_floats(result.ty, wanted));
}

/// Asserts that each element is within its bound: `wanted` gives the value and the bound before the result
/// is rounded to the array's type.
#[track_caller]
pub(crate) fn close(run: &Launched<'_>, name: &str, wanted: impl IntoIterator<Item = (f64, f64)>) {
    close_data(&format!("{}: {name}", run.case.kernel), run.after(name), wanted);
}

#[track_caller]
pub(crate) fn close_data(what: &str, result: &Data, wanted: impl IntoIterator<Item = (f64, f64)>) {
    let (relative, absolute) = result.ty.rounding();
    let mut count = 0;
    for (i, (r, (value, bound))) in result.floats().into_iter().zip(wanted).enumerate() {
        let stored = ((value.abs() + bound) * relative).max(absolute);
        within(what, i, r, value, bound + stored);
        count += 1;
    }
    assert_eq!(count, result.len(), "{what}: length");
}

/// How a tensor core adds (published for Ada and Hopper: arXiv 2511.10909, 2512.07004): products are exact; a block of them and the
/// running sum are each cut off 2^fraction below the largest of them, and the sum is rounded to the accumulator.
#[derive(Clone, Copy)]
pub(crate) struct TensorCore {
    block: usize,
    fraction: i32,
    /// The relative error of rounding the sum of a block.
    output: i32,
    least: i32,
}

impl TensorCore {
    /// For operands of a type and an accumulator of f32.
    pub(crate) fn of(ty: Type) -> TensorCore {
        let least = ty.least_exponent();
        match ty {
            Type::F16 | Type::Bf16 => TensorCore { block: 8, fraction: 24, output: 23, least },
            // f32 operands are used as tf32.
            Type::F32 => TensorCore { block: 4, fraction: 24, output: 23, least },
            _ => TensorCore { block: 16, fraction: 13, output: 13, least },
        }
    }

    /// For operands of a type and an accumulator of f32 on Hopper, `wgmma` for 8-bit formats.
    pub(crate) fn of_hopper(ty: Type) -> TensorCore {
        let least = ty.least_exponent();
        match ty {
            Type::F16 | Type::Bf16 => TensorCore { block: 16, fraction: 25, output: 23, least },
            Type::F32 => TensorCore { block: 8, fraction: 25, output: 23, least },
            _ => TensorCore { block: 32, fraction: 13, output: 13, least },
        }
    }

    /// With an accumulator of f16, rounded to nearest.
    pub(crate) fn to_half(self) -> TensorCore {
        TensorCore { output: 11, ..self }
    }

    /// The dot product and the bound of its error, whatever the order of k.
    pub(crate) fn dot(self, pairs: impl Iterator<Item = (f64, f64)>, start: f64) -> (f64, f64) {
        let floor = exp2(self.least);
        let (mut sum, mut magnitude, mut largest, mut terms) = (start, start.abs(), start.abs(), 0);
        for (a, b) in pairs {
            let product = a * b;
            sum += product;
            magnitude += product.abs();
            if product != 0.0 {
                // A subnormal operand aligns like the smallest normal.
                largest = f64::max(largest, a.abs().max(floor) * b.abs().max(floor));
            }
            terms += 1;
        }
        (sum, self.error(terms, magnitude, largest))
    }

    /// The error of adding `terms` products that together have `magnitude`, the largest of them `largest`. No running sum
    /// exceeds the magnitude by more than the error itself, which the last factor allows for.
    pub(crate) fn error(self, terms: usize, magnitude: f64, largest: f64) -> f64 {
        let blocks = terms.div_ceil(self.block) as f64;
        let per_block = (self.block + 1) as f64 * exp2(-self.fraction) + exp2(-self.output);
        let error = blocks * per_block * magnitude.max(largest);
        error * (1.0 + 2.0 * blocks * per_block)
    }
}

/// One row's softmax.
pub(crate) fn softmax(row: &[f64]) -> Vec<f64> {
    let top = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = row.iter().map(|x| (x - top).exp()).sum();
    row.iter().map(|x| (x - top).exp() / sum).collect()
}

/// `value` in units of the last place of `ty` at that value.
pub(crate) fn ulp(ty: Type, value: f64) -> f64 {
    let fraction = ty.fraction_bits().unwrap();
    let exponent = if value == 0.0 { ty.least_exponent() } else { value.abs().log2().floor() as i32 };
    exp2(exponent.max(ty.least_exponent()) - fraction)
}
