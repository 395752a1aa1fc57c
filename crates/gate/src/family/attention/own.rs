//! Kernels with a source of their own in attention tasks: their inputs, their reference with its limits, and outputs
//! that are wrong on purpose.

use warpproof_kernels::format::Format;
use warpproof_kernels::inputs::{self, Inputs};
use warpproof_kernels::null::{Null, ignored};
use warpproof_kernels::oracle::exact;
use warpproof_kernels::plan::Request;
use warpproof_kernels::tensor::Quantized;
use warpproof_kernels::tolerance::{InputPrecision, PFormat, Precision, ScorePrecision, ValueChain};
use warpproof_model::bound::Floor;
use warpproof_task::dtype::Dtype;
use warpproof_task::{Accumulate, Axes, Distribution, Policy, Problem, Size, Task, dims};
use warpproof_tolerance::Tolerance;

use super::{family, variant};
use crate::inputs::Input;
use crate::reference::{Expected, MAX_ELEMENTS, Tensor, Unfit};

/// What the task's own kernels compute on a size.
fn request(task: &Task, size: &Size) -> Result<Request, Unfit> {
    let request = task.attention_request(size).map_err(Unfit)?;
    let rows = request.shape.max_queries().max(request.shape.max_keys());
    let extents = [request.shape.batch(), request.shape.heads, rows, request.shape.dim];
    let elements = extents.iter().try_fold(1usize, |all, extent| all.checked_mul(*extent));
    if elements.is_none_or(|elements| elements > MAX_ELEMENTS) {
        return Err(Unfit("tensors of this shape exceed the reference's size limit".to_owned()));
    }
    Ok(request)
}

/// The inputs of a distribution: the family's, as codes and scales.
pub(crate) fn inputs(
    task: &Task,
    axes: &Axes,
    distribution: &Distribution,
    seed: u64,
) -> Result<Vec<Input>, Problem> {
    let problem = |Unfit(sentence)| Problem::new(distribution.name.span.clone(), sentence);
    let size = Size {
        name: distribution.name.value.clone(),
        axes: axes.clone(),
        hidden: false,
        attention: warpproof_task::AttentionShape::default(),
        residues: Vec::new(),
    };
    let mut request = request(task, &size).map_err(problem)?;
    let declared = |name: &str| task.data.inputs.iter().any(|input| input.name.value == name);
    (request.sinks, request.alibi) = (declared("sinks"), declared("slopes"));
    let family = family(&distribution.values).map_err(problem)?;
    let made = inputs::generate(&request.shape, family, seed, request.spec());
    let mut all = Vec::with_capacity(task.data.inputs.len());
    for input in &task.data.inputs {
        let dtype = input.dtype.with(Dtype::F32);
        let codes = |tensor: &Quantized| dtype.values(&tensor.codes);
        let reals = |values: &[f32]| values.iter().copied().map(f64::from).collect();
        let values: Vec<f64> = match input.name.as_str() {
            "q" => codes(&made.q),
            "k" => codes(&made.k),
            "v" => codes(&made.v),
            "q_scale" => reals(&made.q.scales),
            "k_scale" => reals(&made.k.scales),
            "v_scale" => reals(&made.v.scales),
            "sinks" => reals(made.sinks.as_deref().unwrap_or_default()),
            "slopes" => reals(made.slopes.as_deref().unwrap_or_default()),
            other => return Err(problem(Unfit(format!("attention has no tensor `{other}`")))),
        };
        let tensor = Tensor::new(dims(&input.dims, axes)?, values).map_err(problem)?;
        all.push(Input { name: input.name.value.clone(), dtype, tensor });
    }
    Ok(all)
}

/// The family's form of a task's inputs.
fn gathered(request: &Request, inputs: &[Input]) -> Result<Inputs, Unfit> {
    let find = |name: &str| inputs.iter().find(|input| input.name == name);
    let need = |name: &str| find(name).ok_or_else(|| Unfit(format!("the task has no input `{name}`")));
    let reals = |input: &Input| -> Vec<f32> {
        let bytes = input.bytes();
        let words = bytes.as_chunks::<4>().0;
        words.iter().map(|word| f32::from_le_bytes(*word)).collect()
    };
    let (shape, scales, layout) = (&request.shape, request.scales, request.layout);
    let tensor = |name, scale, rows, granularity| -> Result<Quantized, Unfit> {
        let (codes, scales) = (need(name)?.bytes(), reals(need(scale)?));
        Ok(Quantized { format: request.format, granularity, rows, codes, scales })
    };
    Ok(Inputs {
        shape: shape.clone(),
        q: tensor("q", "q_scale", shape.query_rows(layout), scales.q)?,
        k: tensor("k", "k_scale", shape.key_rows(layout), scales.k)?,
        v: tensor("v", "v_scale", shape.key_rows(layout), scales.v)?,
        sinks: if request.sinks { find("sinks").map(reals) } else { None },
        slopes: if request.alibi { find("slopes").map(reals) } else { None },
    })
}

/// Where a kernel rounds whose sums are kept in a type. On f16 tensor cores, a kernel may multiply codes by their
/// scales before the product, which rounds operands to f16.
fn precision(request: &Request, accumulate: Accumulate) -> Option<Precision> {
    let (inputs, scores, p, chain) = match accumulate {
        Accumulate::F32 => (InputPrecision::Exact, ScorePrecision::Chain, PFormat::F32, ValueChain::F32),
        Accumulate::TensorF16 => {
            (InputPrecision::F16, ScorePrecision::F16Tensor, PFormat::F16, ValueChain::F16Tensor)
        }
        Accumulate::TensorFp8 if request.format != Format::Linear8 => {
            (InputPrecision::Exact, ScorePrecision::Fp8Tensor, PFormat::E4m3, ValueChain::Fp8Promoted)
        }
        _ => return None,
    };
    Some(Precision { inputs, scores, p, chain, output: request.output })
}

/// The exact output of a size, with its limits if the task derives them.
pub fn expected(task: &Task, size: &Size, inputs: &[Input]) -> Result<Expected, Unfit> {
    let request = request(task, size)?;
    let precision = match task.tolerance.policy {
        Policy::Derived { accumulate } => Some(precision(&request, accumulate).ok_or_else(|| {
            Unfit(format!("no limits are derived for format {} with these sums", request.format))
        })?),
        Policy::Stated { .. } => None,
    };
    let given = gathered(&request, inputs)?;
    let options = exact::Options {
        layout: request.layout,
        scale: request.softmax_scale,
        window: request.window,
        softcap: request.softcap,
        precision,
        ..exact::Options::default()
    };
    let exact = exact::attention(&given, request.mask, &options).map_err(|error| Unfit(error.to_string()))?;
    let output = task.data.outputs.first().ok_or_else(|| Unfit("the task has no output".to_owned()))?;
    let dims = dims(&output.dims, &size.axes).map_err(|problem| Unfit(problem.sentence))?;
    Ok(Expected {
        tensor: Tensor::new(dims, exact.output)?,
        tolerance: exact.tolerance.unwrap_or_else(|| Tolerance::new(Vec::new(), Vec::new(), &[])),
        dtype: output.dtype.with(Dtype::F16),
        row: request.shape.dim,
        codes: None,
    })
}

/// Outputs that are wrong on purpose, by name.
pub fn wrong(task: &Task, size: &Size, inputs: &[Input]) -> Result<Vec<(String, Vec<u8>)>, Unfit> {
    let request = request(task, size)?;
    let given = gathered(&request, inputs)?;
    let refused = |error: inputs::Inconsistent| Unfit(error.to_string());
    let bytes = |codes: Vec<u16>| codes.iter().flat_map(|code| code.to_le_bytes()).collect();
    let mut all = Vec::new();
    for null in Null::ALL {
        all.push((null.to_string(), bytes(null.answer(&request, &given).map_err(refused)?)));
    }
    for (name, output) in ignored(&request, &given).map_err(refused)? {
        all.push((name.to_owned(), bytes(output)));
    }
    Ok(all)
}

/// The minimum work of a size.
pub(crate) fn floor(task: &Task, size: &Size) -> Result<Floor, Unfit> {
    Ok(variant::floor(&request(task, size)?))
}
