//! Built-in operators over integers: exact, with the wrap-around of CUDA's integer types.
//!
//! Sums and products are kept modulo 2^64, which gives the same low bits as any narrower type. Quotients, remainders,
//! minima, maxima and comparisons use values in the type of the sums. Stored values are truncated to the bits of the
//! output.

use super::operators::{Skip, extents_of_product};
use super::{Element, MAX_ELEMENTS, Problem, Tensor, Unfit, real};
use warpproof_task::dtype::{Dtype, to_integer};
use warpproof_task::{Operator, Reduction};

/// Values in the type of the output, exactly.
pub(super) struct Exact {
    pub(super) dims: Vec<usize>,
    pub(super) values: Vec<i128>,
}

/// The value that a type's bits hold after an integer was stored in it.
fn wrapped(value: i128, dtype: Dtype) -> i128 {
    let bits = u32::try_from(8 * dtype.size()).unwrap_or(64);
    let (low, high) = dtype.integer_range();
    let span = 1i128 << bits;
    let rest = value.rem_euclid(span);
    if rest > high { rest - span } else { rest.max(low) }
}

/// The low 64 bits, in which sums and products are kept.
fn low(value: i128) -> i64 {
    let [a, b, c, d, e, f, g, h, ..] = value.to_le_bytes();
    i64::from_le_bytes([a, b, c, d, e, f, g, h])
}

fn integers(tensor: &Tensor) -> Vec<i64> {
    tensor.values.iter().map(|value| low(to_integer(*value))).collect()
}

pub(super) fn evaluate(problem: &Problem<'_>, skip: Skip) -> Result<Exact, Unfit> {
    let kept = problem.accumulate.dtype();
    let tensor = |name: &str| {
        let found =
            problem.inputs.get(name).ok_or_else(|| Unfit(format!("the task has no input `{name}`")))?;
        if found.values.len() > MAX_ELEMENTS || found.dims.iter().product::<usize>() != found.values.len() {
            return Err(Unfit(format!("the number of values of input `{name}` does not match its extents")));
        }
        Ok(found)
    };
    let (dims, values) = match problem.operator {
        Operator::Gemm { a, b, transpose_a, transpose_b, alpha, .. } => {
            gemm(tensor(a)?, tensor(b)?, (*transpose_a, *transpose_b), *alpha, skip)?
        }
        Operator::Reduction { input, op, axis, .. } => reduction(tensor(input)?, *op, *axis, kept, skip)?,
        Operator::Elementwise { expression, .. } => {
            let used: Vec<(&str, &Tensor)> = expression
                .names()
                .iter()
                .filter_map(|(name, _)| Some((*name, problem.inputs.get(*name)?)))
                .collect();
            let Some((_, first)) = used.first() else {
                return Err(Unfit("the expression uses no input".to_owned()));
            };
            let differs =
                |tensor: &Tensor| tensor.dims != first.dims || tensor.values.len() != first.values.len();
            if used.iter().any(|(_, tensor)| differs(tensor)) {
                return Err(Unfit("inputs of an elementwise operator must have the same extents".to_owned()));
            }
            let skipped = skip.map_or(0..0, |skip| skip(first.values.len()));
            let mut values = Vec::with_capacity(first.values.len());
            for at in 0..first.values.len() {
                let value_of = |name: &str| {
                    let input = used.iter().find(|(known, _)| *known == name);
                    let input =
                        input.and_then(|(_, tensor)| tensor.values.get(at)).map(|value| to_integer(*value));
                    input.or_else(|| problem.axes.get(name).map(|extent| i128::from(*extent)))
                };
                let value = expression.wrapping(&value_of, &|value| wrapped(value, kept));
                let value = value.map_err(|error| Unfit(error.sentence))?;
                values.push(if skipped.contains(&at) { 0 } else { value });
            }
            (first.dims.clone(), values)
        }
        Operator::Attention(_) | Operator::Softmax { .. } | Operator::LayerNorm { .. } => {
            return Err(Unfit(format!("this operator does not support sums in {kept}")));
        }
    };
    let stored = |value: i128| {
        let value = wrapped(value, kept);
        if problem.output.is_integer() { wrapped(value, problem.output) } else { value }
    };
    Ok(Exact { dims, values: values.into_iter().map(stored).collect() })
}

/// Elements without any rounding.
pub(super) fn elements(exact: &Exact) -> Vec<Element> {
    let of = |value: &i128| Element { value: number(*value), ..Element::default() };
    exact.values.iter().map(of).collect()
}

/// The nearest real number.
#[expect(
    clippy::as_conversions,
    clippy::cast_precision_loss,
    reason = "64-bit integers are rounded here; the comparison uses their codes"
)]
fn number(value: i128) -> f64 {
    value as f64
}

fn gemm(
    a: &Tensor,
    b: &Tensor,
    transpose: (bool, bool),
    alpha: f64,
    skip: Skip,
) -> Result<(Vec<usize>, Vec<i128>), Unfit> {
    let (m, n, k) = extents_of_product(a, b, transpose)?;
    if alpha.fract().abs() > 0.0 || alpha.abs() > 2f64.powi(53) {
        return Err(Unfit(format!("expected an integer alpha for an integer product, found {alpha}")));
    }
    let alpha = low(to_integer(alpha));
    let (a, b) = (integers(a), integers(b));
    let skipped = skip.map_or(0..0, |skip| skip(k));
    let mut values = Vec::with_capacity(m * n);
    for row in 0..m {
        let mut sums = vec![0i64; n];
        for t in (0..k).filter(|t| !skipped.contains(t)) {
            let left = a[if transpose.0 { t * m + row } else { row * k + t }];
            for (column, sum) in sums.iter_mut().enumerate() {
                let right = b[if transpose.1 { column * k + t } else { t * n + column }];
                *sum = sum.wrapping_add(left.wrapping_mul(right));
            }
        }
        values.extend(sums.into_iter().map(|sum| i128::from(sum.wrapping_mul(alpha))));
    }
    Ok((vec![m, n], values))
}

fn reduction(
    x: &Tensor,
    op: Reduction,
    axis: u32,
    kept: Dtype,
    skip: Skip,
) -> Result<(Vec<usize>, Vec<i128>), Unfit> {
    let axis = usize::try_from(axis).unwrap_or(usize::MAX);
    let Some(length) = x.dims.get(axis).copied() else {
        return Err(Unfit(format!("expected an axis below {}, found {axis}", x.dims.len())));
    };
    let mut dims = x.dims.clone();
    dims.remove(axis);
    let inner: usize = x.dims[axis + 1..].iter().product();
    let outer: usize = x.dims[..axis].iter().product();
    let skipped = skip.map_or(0..0, |skip| skip(length));
    let count = to_integer(real(length)).max(1);
    let mut values = Vec::with_capacity(outer * inner);
    for (o, i) in (0..outer).flat_map(|o| (0..inner).map(move |i| (o, i))) {
        let terms = (0..length).filter(|at| !skipped.contains(at));
        let terms = terms.map(|at| to_integer(x.values[(o * length + at) * inner + i]));
        values.push(match op {
            Reduction::Max => terms.max().unwrap_or(0),
            Reduction::Sum | Reduction::Mean => {
                let sum = terms.fold(0i64, |sum, term| sum.wrapping_add(low(term)));
                let sum = wrapped(i128::from(sum), kept);
                if op == Reduction::Mean { sum / count } else { sum }
            }
        });
    }
    Ok((dims, values))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_wrap_as_their_types_do() {
        for (value, dtype, expected) in [
            (128, Dtype::I8, -128),
            (-129, Dtype::I8, 127),
            (256, Dtype::U8, 0),
            (-1, Dtype::U32, 4_294_967_295),
            (2_147_483_648, Dtype::I32, -2_147_483_648),
            (1 << 63, Dtype::I64, -(1 << 63)),
            (1 << 63, Dtype::U64, 1 << 63),
        ] {
            assert_eq!(wrapped(value, dtype), expected, "{value} in {dtype}");
        }
    }
}
