//! The operators, each with the roundings of a good implementation.

use std::ops::Range;

use super::{Element, MAX_ELEMENTS, MAX_PRODUCTS, Problem, Summing, Tensor, Unfit, integer, real};
use warpproof_task::{Operator, Reduction};

/// Which part of a reduction of a given length is skipped.
pub(super) type Skip = Option<fn(usize) -> Range<usize>>;

pub(super) fn evaluate(problem: &Problem<'_>, skip: Skip) -> Result<(Vec<usize>, Vec<Element>), Unfit> {
    if problem.accumulate.is_integer() {
        let exact = integer::evaluate(problem, skip)?;
        let elements = integer::elements(&exact);
        return Ok((exact.dims, elements));
    }
    let tensor = |name: &str| {
        let found =
            problem.inputs.get(name).ok_or_else(|| Unfit(format!("the task has no input `{name}`")))?;
        let elements = found.dims.iter().try_fold(1usize, |all, extent| all.checked_mul(*extent));
        if elements != Some(found.values.len()) || found.values.len() > MAX_ELEMENTS {
            return Err(Unfit(format!("the number of values of input `{name}` does not match its extents")));
        }
        Ok(found)
    };
    match problem.operator {
        Operator::Attention(_) => Err(Unfit("attention is computed by its own family".to_owned())),
        Operator::Gemm { a, b, transpose_a, transpose_b, alpha, .. } => {
            gemm(problem, tensor(a)?, tensor(b)?, (*transpose_a, *transpose_b), *alpha, skip)
        }
        Operator::Softmax { input, .. } => Ok(softmax(problem, tensor(input)?, skip)),
        Operator::LayerNorm { input, weight, bias, epsilon, .. } => {
            let weight = weight.as_ref().map(|name| tensor(name)).transpose()?;
            let bias = bias.as_ref().map(|name| tensor(name)).transpose()?;
            layer_norm(problem, tensor(input)?, (weight, bias), *epsilon, skip)
        }
        Operator::Reduction { input, op, axis, .. } => reduction(problem, tensor(input)?, *op, *axis, skip),
        Operator::Elementwise { expression, .. } => {
            let names: Vec<&str> =
                problem.inputs.keys().chain(problem.axes.keys()).map(String::as_str).collect();
            let bound = expression.bind(&names).map_err(|error| Unfit(error.sentence))?;
            let used: Vec<&Tensor> =
                expression.names().iter().filter_map(|(name, _)| problem.inputs.get(*name)).collect();
            let Some(first) = used.first() else {
                return Err(Unfit("the expression uses no input".to_owned()));
            };
            if used
                .iter()
                .any(|tensor| tensor.dims != first.dims || tensor.values.len() != first.values.len())
            {
                return Err(Unfit("inputs of an elementwise operator must have the same extents".to_owned()));
            }
            let unit = problem.accumulate.dtype().unit();
            let constants: Vec<f64> = problem
                .axes
                .values()
                .map(|extent| real(usize::try_from(*extent).unwrap_or(usize::MAX)))
                .collect();
            let mut row = vec![0.0; names.len()];
            let skipped = skip.map_or(0..0, |skip| skip(first.values.len()));
            let mut elements = Vec::with_capacity(first.values.len());
            for at in 0..first.values.len() {
                let inputs =
                    problem.inputs.values().map(|tensor| tensor.values.get(at).copied().unwrap_or(f64::NAN));
                row.iter_mut().zip(inputs.chain(constants.iter().copied())).for_each(|(to, from)| *to = from);
                let result = bound.evaluate(&row, unit);
                // The running bound is never exceeded; its variance is that of a uniform distribution within it.
                let variance = result.error * result.error / 3.0;
                let value = if skipped.contains(&at) { 0.0 } else { result.value };
                elements.push(Element { value, variance, worst: result.error, systematic: 0.0 });
            }
            Ok((first.dims.clone(), elements))
        }
    }
}

/// The extents m, n and k of a matrix product, within the reference's size limit.
pub(super) fn extents_of_product(
    a: &Tensor,
    b: &Tensor,
    transpose: (bool, bool),
) -> Result<(usize, usize, usize), Unfit> {
    let extents = |tensor: &Tensor, transposed: bool| match *tensor.dims.as_slice() {
        [rows, columns] if transposed => Ok((columns, rows)),
        [rows, columns] => Ok((rows, columns)),
        _ => Err(Unfit("expected a matrix with two axes".to_owned())),
    };
    let ((m, k), (inner, n)) = (extents(a, transpose.0)?, extents(b, transpose.1)?);
    if k != inner {
        return Err(Unfit(format!("cannot multiply {m} × {k} by {inner} × {n}")));
    }
    let products = m.checked_mul(n).filter(|all| *all <= MAX_ELEMENTS).and_then(|all| all.checked_mul(k));
    if products.is_none_or(|products| products > MAX_PRODUCTS) {
        return Err(Unfit(format!("a product of {m} × {k} × {n} exceeds the reference's size limit")));
    }
    Ok((m, n, k))
}

/// alpha · A B: a sum of k products, and one more rounding for alpha.
fn gemm(
    problem: &Problem<'_>,
    a: &Tensor,
    b: &Tensor,
    transpose: (bool, bool),
    alpha: f64,
    skip: Skip,
) -> Result<(Vec<usize>, Vec<Element>), Unfit> {
    let (m, n, k) = extents_of_product(a, b, transpose)?;
    let skipped = skip.map_or(0..0, |skip| skip(k));
    let summing = Summing::of(problem.accumulate, k);
    let u = problem.accumulate.dtype().unit().relative;
    let mut elements = Vec::with_capacity(m * n);
    let mut sums = vec![(0.0, 0.0); n];
    for row in 0..m {
        sums.fill((0.0, 0.0));
        for t in (0..k).filter(|t| !skipped.contains(t)) {
            let left = a.values[if transpose.0 { t * m + row } else { row * k + t }];
            for (column, (sum, magnitude)) in sums.iter_mut().enumerate() {
                let product = left * b.values[if transpose.1 { column * k + t } else { t * n + column }];
                *sum += product;
                *magnitude += product.abs();
            }
        }
        elements.extend(sums.iter().map(|(sum, magnitude)| {
            let size = (alpha * magnitude).abs();
            let last = if (alpha - 1.0).abs() > 0.0 { u * (alpha * sum).abs() } else { 0.0 };
            Element {
                value: alpha * sum,
                variance: summing.variance * size * size + last * last / 3.0,
                worst: summing.worst * size + last,
                systematic: summing.systematic * size,
            }
        }));
    }
    Ok((vec![m, n], elements))
}

/// exp(x − m) / Σ exp(x − m) over the last axis.
///
/// The exponent of element j is off by at most 3u|x_j − m|: the difference, its product with log₂ e, and
/// that constant. exp adds 2 ulp = 4u, the division 2u (a reciprocal and a product, or better). The sum has
/// the roundings of its n terms and the weighted mean of the terms' own errors. Values below the smallest
/// normal number may be flushed.
fn softmax(problem: &Problem<'_>, x: &Tensor, skip: Skip) -> (Vec<usize>, Vec<Element>) {
    let row = x.row();
    let unit = problem.accumulate.dtype().unit();
    let u = unit.relative;
    let skipped = skip.map_or(0..0, |skip| skip(row));
    let mut elements = Vec::with_capacity(x.values.len());
    for x in x.values.chunks(row) {
        let summing = Summing::of(problem.accumulate, x.len());
        let counts = |at: &usize| !skipped.contains(at);
        let largest = (0..x.len()).filter(counts).map(|at| x[at]).fold(f64::NEG_INFINITY, f64::max);
        // NaN must stay NaN; f64::max would drop it.
        let largest = if x.iter().any(|x| x.is_nan()) { f64::NAN } else { largest };
        let weights: Vec<f64> = (0..x.len())
            .map(|at| if skipped.contains(&at) { 0.0 } else { (x[at] - largest).exp() })
            .collect();
        let sum: f64 = weights.iter().sum();
        let distance = |at: usize| if weights[at] > 0.0 { (x[at] - largest).abs() } else { 0.0 };
        let shared = (0..x.len()).map(|at| weights[at] / sum * 3.0 * u * distance(at)).sum::<f64>() + 4.0 * u;
        for (at, weight) in weights.iter().enumerate() {
            let value = weight / sum;
            let own = 3.0 * u * distance(at) + 6.0 * u + shared;
            let flushed = if *weight < unit.smallest { unit.smallest / sum } else { 0.0 };
            elements.push(Element {
                value,
                variance: value * value * (own * own / 3.0 + summing.variance) + flushed * flushed,
                worst: value * (own + summing.worst) + flushed,
                systematic: value * summing.systematic,
            });
        }
    }
    (x.dims.clone(), elements)
}

/// (x − μ) / √(σ² + ε) · weight + bias over the last axis, by two passes or by Welford's method.
///
/// μ is off by the roundings of its sum over n terms and 2u|μ|. An error of μ changes σ² in second order only, so σ² has the
/// relative error of a sum of n squares and 3u; 1/√ halves it and adds 2 ulp = 4u. Subtraction, two products and the last
/// sum round once each. One pass, E[x²] − μ², loses what the two share: where |μ| is many σ, it is outside these limits.
fn layer_norm(
    problem: &Problem<'_>,
    x: &Tensor,
    (weight, bias): (Option<&Tensor>, Option<&Tensor>),
    epsilon: f64,
    skip: Skip,
) -> Result<(Vec<usize>, Vec<Element>), Unfit> {
    let row = x.row();
    if [weight, bias].into_iter().flatten().any(|tensor| tensor.values.len() != row) {
        return Err(Unfit(format!("weight and bias must each have {row} values")));
    }
    let u = problem.accumulate.dtype().unit().relative;
    let skipped = skip.map_or(0..0, |skip| skip(row));
    let mut elements = Vec::with_capacity(x.values.len());
    for x in x.values.chunks(row) {
        let kept: Vec<f64> =
            x.iter().enumerate().filter(|(at, _)| !skipped.contains(at)).map(|(_, x)| *x).collect();
        let count = real(kept.len()).max(1.0);
        let summing = Summing::of(problem.accumulate, kept.len());
        let mean = kept.iter().sum::<f64>() / count;
        let magnitude = kept.iter().map(|x| x.abs()).sum::<f64>() / count;
        let variance = kept.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / count;
        let inverse = 1.0 / (variance + epsilon).sqrt();
        let mean_variance = summing.variance * magnitude * magnitude + (2.0 * u * mean).powi(2) / 3.0;
        let mean_worst = summing.worst * magnitude + 2.0 * u * mean.abs();
        let mean_systematic = summing.systematic * magnitude;
        // Second order: σ² grows by the square of the error of μ.
        let second = (36.0 * mean_variance).min(mean_worst * mean_worst) / 2.0 * inverse * inverse;
        for (at, x) in x.iter().enumerate() {
            let w = weight.map_or(1.0, |tensor| tensor.values[at]);
            let b = bias.map_or(0.0, |tensor| tensor.values[at]);
            let scaled = (x - mean) * inverse * w;
            let value = if skipped.contains(&at) { 0.0 } else { scaled + b };
            let size = (inverse * w).abs();
            let steps = u * (8.5 * scaled.abs() + value.abs());
            elements.push(Element {
                value,
                variance: mean_variance * size * size
                    + summing.variance / 4.0 * scaled * scaled
                    + steps * steps / 3.0,
                worst: mean_worst * size + summing.worst / 2.0 * scaled.abs() + steps,
                systematic: mean_systematic * size + (summing.systematic / 2.0 + second) * scaled.abs(),
            });
        }
    }
    Ok((x.dims.clone(), elements))
}

/// Over one axis. A maximum is exact; a mean rounds twice more than its sum.
fn reduction(
    problem: &Problem<'_>,
    x: &Tensor,
    op: Reduction,
    axis: u32,
    skip: Skip,
) -> Result<(Vec<usize>, Vec<Element>), Unfit> {
    let axis = usize::try_from(axis).unwrap_or(usize::MAX);
    let Some(length) = x.dims.get(axis).copied() else {
        return Err(Unfit(format!("expected an axis below {}, found {axis}", x.dims.len())));
    };
    let mut dims = x.dims.clone();
    dims.remove(axis);
    let inner: usize = x.dims[axis + 1..].iter().product();
    let outer: usize = x.dims[..axis].iter().product();
    let skipped = skip.map_or(0..0, |skip| skip(length));
    let summing = Summing::of(problem.accumulate, length);
    let u = problem.accumulate.dtype().unit().relative;
    let mut elements = Vec::with_capacity(outer * inner);
    for (o, i) in (0..outer).flat_map(|o| (0..inner).map(move |i| (o, i))) {
        let terms = || {
            (0..length).filter(|at| !skipped.contains(at)).map(|at| x.values[(o * length + at) * inner + i])
        };
        elements.push(match op {
            Reduction::Max => {
                let largest = terms().fold(f64::NEG_INFINITY, f64::max);
                let value = if terms().any(f64::is_nan) { f64::NAN } else { largest };
                Element { value, ..Element::default() }
            }
            Reduction::Sum | Reduction::Mean => {
                let divisor = if op == Reduction::Mean { real(length).max(1.0) } else { 1.0 };
                let value = terms().sum::<f64>() / divisor;
                let size = terms().map(f64::abs).sum::<f64>() / divisor;
                let last = if op == Reduction::Mean { 2.0 * u * value.abs() } else { 0.0 };
                Element {
                    value,
                    variance: summing.variance * size * size + last * last / 3.0,
                    worst: summing.worst * size + last,
                    systematic: summing.systematic * size,
                }
            }
        });
    }
    Ok((dims, elements))
}
