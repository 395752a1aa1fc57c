//! What the task's device could do at best: the roofline floor of each shape, below which no kernel for the problem gets.

use warpproof_kernels::problem::Mask;
use warpproof_model::bound::{Floor, roofline};
use warpproof_model::{Device, TensorType};

use super::{Bench, Built, Ending, Programs, Trouble, unfit};
use crate::dtype::Dtype;
use crate::record::{Figure, FigureKind};
use crate::task::{Accumulate, Candidate, Operator, Policy, Reference, Size, dims};
use crate::view::vocabulary as name;

pub(super) fn judge(bench: &Bench<'_>, candidate: &Candidate, built: &Built) -> Result<Ending, Trouble> {
    let mut figures = Vec::new();
    let mut words = Vec::new();
    for id in &bench.task.target.devices {
        let Some(device) = Device::named(id) else { continue };
        for size in bench.sizes(candidate, None) {
            if size.hidden || size.name.contains(':') {
                continue;
            }
            let floor = floor(bench, candidate, built, &size)?;
            match roofline(device, &floor) {
                Ok(share) => {
                    let at = format!("{} on {}", size.name, device.id);
                    words.push(format!("{at}: {:.3} us, set by {}", share.us, share.resource));
                    let figure = Figure::new(name::FLOOR, share.us, "us", FigureKind::Predicted);
                    // One device needs no name beside the shape.
                    let case = if bench.task.target.devices.len() > 1 { &at } else { &size.name };
                    figures.extend(figure.map(|figure| figure.at(case)));
                }
                Err(why) => words.push(format!("{}: {why}", size.name)),
            }
        }
    }
    if figures.is_empty() {
        return Ok(Ending::skipped("no device of the task has the rates that a floor is made from"));
    }
    Ok(Ending::pass(figures).with_object("roofline", words.join("\n")))
}

/// The least work for the problem: every input read and every output written once, and the products of its definition.
fn floor(bench: &Bench<'_>, candidate: &Candidate, built: &Built, size: &Size) -> Result<Floor, Trouble> {
    let wide = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
    if let Programs::Rung { plans } = &built.programs {
        let (plan, _) =
            plans.get(&size.name).ok_or_else(|| unfit(format!("there is no plan for {}", size.name)))?;
        let (shape, mask) = (&plan.request.shape, plan.request.mask);
        let mut pairs = 0;
        let (mut queries, mut keys) = (0, 0);
        for lengths in &shape.sequences {
            queries += lengths.queries;
            keys += lengths.keys;
            pairs += match mask {
                Mask::Full => lengths.queries * lengths.keys,
                Mask::Causal => (0..lengths.queries).map(|row| mask.visible(*lengths, row)).sum(),
            };
        }
        // Codes of Q, K and V are bytes, the output is f16.
        let bytes = shape.dim * (3 * shape.heads * queries + 2 * shape.kv_heads * keys);
        return Ok(Floor {
            fma: (Some(TensorType::F8ToF32), wide(2 * pairs * shape.heads * shape.dim)),
            special: wide(pairs * shape.heads),
            bytes: wide(bytes),
        });
    }
    let each = candidate.dtypes.as_ref().and_then(|own| own.first()).or(bench.task.data.dtypes.first());
    let each = each.copied().unwrap_or(Dtype::F32);
    let mut bytes = 0usize;
    let inputs = bench.task.data.inputs.iter().map(|one| (&one.dims, one.dtype.with(each)));
    let outputs = bench.task.data.outputs.iter().map(|one| (&one.dims, one.dtype.with(each)));
    for (extents, dtype) in inputs.chain(outputs) {
        let elements: usize = dims(extents, &size.axes)?.iter().product();
        bytes = bytes.saturating_add(elements.saturating_mul(dtype.size()));
    }
    let mut floor = Floor { bytes: wide(bytes), ..Floor::default() };
    if let Reference::BuiltIn { operator: Operator::Gemm { a, output, transpose_a, .. } } =
        &bench.task.reference
    {
        let of = |name: &str| {
            let inputs = bench.task.data.inputs.iter().map(|one| (&one.name, &one.dims));
            let outputs = bench.task.data.outputs.iter().map(|one| (&one.name, &one.dims));
            inputs.chain(outputs).find(|(one, _)| one.value == name).map(|(_, dims)| dims)
        };
        if let (Some(a), Some(c)) = (of(a), of(output)) {
            let (a, c) = (dims(a, &size.axes)?, dims(c, &size.axes)?);
            let depth = if *transpose_a { a.first() } else { a.last() }.copied().unwrap_or(1);
            let products = c.iter().product::<usize>().saturating_mul(depth);
            floor.fma = (tensor(bench), wide(products));
        }
    }
    Ok(floor)
}

/// The tensor cores that the task allows.
fn tensor(bench: &Bench<'_>) -> Option<TensorType> {
    match bench.task.tolerance.policy {
        Policy::Derived { accumulate: Accumulate::TensorF16 } => Some(TensorType::F16ToF32),
        Policy::Derived { accumulate: Accumulate::TensorFp8 } => Some(TensorType::F8ToF32),
        _ => None,
    }
}
