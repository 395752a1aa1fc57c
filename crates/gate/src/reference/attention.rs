//! Attention tasks in the words of the attention family, whose oracles and tolerances judge its rungs.

use warpproof_kernels::format::Format;
use warpproof_kernels::inputs::{self, Inputs};
use warpproof_kernels::ladder;
use warpproof_kernels::plan::{Plan, PlanError, Request, Scales, Splits};
use warpproof_kernels::problem::{Granularity, Layout, Lengths, Mask, Shape};
use warpproof_model::Device;

use super::Unfit;
use crate::task::{AttentionOptions, Axes, Candidate, Operator, Program, Reference, Size, Task, Values};

/// The family's shape of some extents.
pub fn shape(axes: &Axes) -> Result<Shape, Unfit> {
    let get = |axis: &str| axes.get(axis).and_then(|extent| usize::try_from(*extent).ok());
    let need = |axis: &str| get(axis).ok_or_else(|| Unfit(format!("attention needs the axis `{axis}`")));
    let (batch, heads, queries, dim) = (need("b")?, need("h")?, need("s")?, need("d")?);
    let lengths = Lengths { queries, keys: get("keys").unwrap_or(queries) };
    let elements = [batch, heads, queries.max(lengths.keys), dim]
        .iter()
        .try_fold(1usize, |n, extent| n.checked_mul(*extent));
    if elements.is_none_or(|elements| elements > super::MAX_ELEMENTS) {
        return Err(Unfit("tensors of this shape are larger than a reference computes".to_owned()));
    }
    Ok(Shape { heads, kv_heads: get("kv").unwrap_or(heads), dim, sequences: vec![lengths; batch] })
}

/// What a candidate of an attention task asks of the family for a size.
pub fn request(task: &Task, candidate: &Candidate, size: &Size) -> Result<Request, Unfit> {
    let Reference::BuiltIn { operator: Operator::Attention { causal, softmax_scale } } = &task.reference
    else {
        return Err(Unfit(format!("`{}` is not an attention task", task.name.value)));
    };
    let Program::Rung { rung, options } = &candidate.program else {
        return Err(Unfit(format!("`{}` is not a rung of the ladder", candidate.name.value)));
    };
    let known = ladder::rung(rung).ok_or_else(|| Unfit(format!("there is no rung `{}`", rung.value)))?;
    let toggles = candidate.toggles.iter().map(|(name, value)| (name.clone(), value.value == "1")).collect();
    Ok(Request {
        mask: if size.causal.unwrap_or(*causal) { Mask::Causal } else { Mask::Full },
        format: format(options).or(known.formats.first().copied()).unwrap_or_default(),
        scales: Scales::all(granularity(options)),
        layout: if options.layout.as_ref().is_some_and(|layout| layout.value == "bshd") {
            Layout::Bshd
        } else {
            Layout::Bhsd
        },
        lse: options.lse,
        softmax_scale: *softmax_scale,
        rung: Some(rung.value.clone()),
        toggles,
        splits: options
            .splits
            .map_or(Splits::Auto, |n| Splits::Count(usize::try_from(n).unwrap_or(usize::MAX))),
        ..Request::new(shape(&size.axes)?)
    })
}

fn format(options: &AttentionOptions) -> Option<Format> {
    options.format.as_ref().map(|format| match format.as_str() {
        "e5m2" => Format::E5m2,
        "linear8" => Format::Linear8,
        _ => Format::E4m3,
    })
}

fn granularity(options: &AttentionOptions) -> Granularity {
    match options.scales.as_ref().map(|scales| scales.as_str()) {
        Some("tensor") => Granularity::Tensor,
        Some("block") => Granularity::Block,
        Some("row") => Granularity::Row,
        _ => Granularity::Head,
    }
}

/// The family's plan for a candidate; its oracles are [`Plan::exact`] and [`Plan::bits`].
pub fn plan(task: &Task, candidate: &Candidate, size: &Size, device: &Device) -> Result<Plan, Unfit> {
    Plan::new(&request(task, candidate, size)?, device).map_err(|error: PlanError| Unfit(error.to_string()))
}

/// The inputs of a plan.
pub fn generate(plan: &Plan, values: &Values, seed: u64) -> Result<Inputs, Unfit> {
    let Values::Attention { family } = values else {
        return Err(Unfit("attention has distributions of its own".to_owned()));
    };
    Ok(inputs::generate(&plan.request.shape, *family, seed, plan.request.spec()))
}
