//! Tensors of an attention task that kernels with a source of their own read and write: `q`, `k` and `v` as 8-bit codes,
//! their scales, and `o`. They follow from the shapes and from `format`, `scales` and `layout` in `[reference]`.

use serde::Serialize;
use serde::ser::SerializeSeq;
use warpproof_kernels::{Format, Granularity, Layout, Mask, OutputFormat, Request, Scales};

use super::Accumulate;
use super::attention::{AttentionOperator, shape_of};
use super::dtype::Dtype;
use super::expr::Expr;
use super::model::{Candidate, Data, Input, Operator, Output, Policy, Program, Reference, Task, TensorType};
use super::problem::At;
use super::section::File;
use super::size::Size;

/// How Q, K and V are stored for kernels with a source of their own; a rung has such options itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Operands {
    /// Format of the codes: `e4m3`, `e5m2` or `linear8`; `None`: `e4m3`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format: Option<At<String>>,
    /// Which elements share a scale: `tensor`, `head`, `block` or `row`; `None`: `head`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scales: Option<At<String>>,
    /// Order of the axes: `bhsd` or `bshd`; `None`: `bhsd`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub layout: Option<At<String>>,
}

impl Operands {
    fn granularity(&self) -> Granularity {
        granularity(self.scales.as_ref())
    }

    fn layout(&self) -> Layout {
        layout(self.layout.as_ref())
    }

    fn format(&self) -> Format {
        format(self.format.as_ref()).unwrap_or_default()
    }
}

pub(super) fn format(named: Option<&At<String>>) -> Option<Format> {
    named.map(|format| match format.as_str() {
        "e5m2" => Format::E5m2,
        "linear8" => Format::Linear8,
        _ => Format::E4m3,
    })
}

pub(super) fn granularity(named: Option<&At<String>>) -> Granularity {
    match named.map(|scales| scales.as_str()) {
        Some("tensor") => Granularity::Tensor,
        Some("block") => Granularity::Block,
        Some("row") => Granularity::Row,
        _ => Granularity::Head,
    }
}

pub(super) fn layout(named: Option<&At<String>>) -> Layout {
    if named.is_some_and(|layout| layout.value == "bshd") { Layout::Bshd } else { Layout::Bhsd }
}

/// The request of an operator on a size, for one format and granularity.
pub(super) fn request(
    operator: &AttentionOperator,
    size: &Size,
    (format, granularity, layout): (Format, Granularity, Layout),
) -> Result<Request, String> {
    let bf16 = operator.variant.output_dtype.as_ref().is_some_and(|dtype| dtype.value == "bf16");
    Ok(Request {
        mask: if operator.causal { Mask::Causal } else { Mask::Full },
        window: operator.window(),
        format,
        scales: Scales::all(granularity),
        layout,
        output: if bf16 { OutputFormat::Bf16 } else { OutputFormat::F16 },
        softmax_scale: operator.softmax_scale,
        softcap: operator.cap(),
        sinks: operator.variant.sinks == Some(true),
        alibi: operator.variant.alibi == Some(true),
        ..Request::new(shape_of(size)?)
    })
}

impl Task {
    /// What kernels with a source of their own compute on a size of an attention task, or why they cannot.
    pub fn attention_request(&self, size: &Size) -> Result<Request, String> {
        let Reference::BuiltIn { operator: Operator::Attention(operator) } = &self.reference else {
            return Err(format!("`{}` is not an attention task", self.name.value));
        };
        let own = &operator.operands;
        let request = request(&operator.on(size), size, (own.format(), own.granularity(), own.layout()))?;
        request.check().map_err(|error| error.to_string())?;
        Ok(request)
    }
}

fn is_own(candidate: &Candidate) -> bool {
    !matches!(candidate.program, Program::Rung { .. })
}

/// Adds the tensors of an attention task that has a kernel with a source of its own.
pub(super) fn imply(task: &mut Task) {
    let Reference::BuiltIn { operator: Operator::Attention(operator) } = &task.reference else { return };
    let stated = !task.data.inputs.is_empty() || !task.data.outputs.is_empty();
    if stated || !task.candidates.iter().any(is_own) {
        return;
    }
    let own = &operator.operands;
    let has = |axis: &str| task.shapes.iter().all(|shape| shape.axes.contains_key(axis));
    let heads = if has("kv") { "kv" } else { "h" };
    let keys = if has("keys") { "keys" } else { "s" };
    let rows = |heads, rows| match own.layout() {
        Layout::Bhsd => vec!["b", heads, rows, "d"],
        Layout::Bshd => vec!["b", rows, heads, "d"],
    };
    let blocks = format!("ceil({keys} / 64)");
    let query_blocks = "ceil(s / 64)".to_owned();
    let scales = |heads, rows, blocks| match own.granularity() {
        Granularity::Tensor => vec!["1"],
        Granularity::Head => vec!["b", heads],
        Granularity::Block => vec!["b", heads, blocks],
        Granularity::Row => vec!["b", heads, rows],
    };
    let codes = match own.format() {
        Format::E4m3 => (Dtype::E4m3, None),
        Format::E5m2 => (Dtype::E5m2, None),
        Format::Linear8 => (Dtype::U8, Some((constant(1), constant(255)))),
    };
    let input = |name, dims: &[&str], (dtype, range): (Dtype, _)| Input {
        name: named(name),
        dtype: At::unsaid(TensorType::Fixed(dtype)),
        dims: extents(dims),
        range,
    };
    let float = || (Dtype::F32, None);
    let mut inputs = vec![
        input("q", &rows("h", "s"), codes.clone()),
        input("k", &rows(heads, keys), codes.clone()),
        input("v", &rows(heads, keys), codes),
        input("q_scale", &scales("h", "s", &query_blocks), float()),
        input("k_scale", &scales(heads, keys, &blocks), float()),
        input("v_scale", &scales(heads, keys, &blocks), float()),
    ];
    let variants = || task.shapes.iter().map(|shape| &shape.attention.variant).chain([&operator.variant]);
    if variants().any(|variant| variant.sinks == Some(true)) {
        inputs.push(input("sinks", &["h"], float()));
    }
    if variants().any(|variant| variant.alibi == Some(true)) {
        inputs.push(input("slopes", &["h"], float()));
    }
    let bf16 = operator.variant.output_dtype.as_ref().is_some_and(|dtype| dtype.value == "bf16");
    let output = Output {
        name: named("o"),
        dtype: At::unsaid(TensorType::Fixed(if bf16 { Dtype::Bf16 } else { Dtype::F16 })),
        dims: extents(&rows("h", "s")),
        in_place: None,
    };
    task.data.inputs = inputs;
    task.data.outputs = vec![output];
}

fn named(name: &str) -> At<String> {
    At::unsaid(name.to_owned())
}

fn constant(value: i64) -> At<Expr> {
    At::unsaid(Expr::constant(value))
}

/// Extents that are written here, so they always parse.
fn extents(dims: &[&str]) -> Vec<At<Expr>> {
    dims.iter().filter_map(|dim| Expr::parse(dim).ok()).map(At::unsaid).collect()
}

/// Reports what a kernel with a source of its own does not support.
pub(super) fn check(file: &mut File<'_>, task: &Task, candidate: &Candidate) {
    let Reference::BuiltIn { operator: Operator::Attention(operator) } = &task.reference else { return };
    let takes = |shape: &str| {
        candidate.shapes.as_ref().is_none_or(|shapes| shapes.iter().any(|one| one.value == shape))
    };
    for shape in task.shapes.iter().filter(|shape| takes(&shape.name.value)) {
        let own = &shape.attention;
        let stated = &operator.variant.output_dtype;
        let output = own.variant.output_dtype.as_ref();
        let what = if own.seqlens_q.is_some() || own.seqlens_k.is_some() {
            "has sequences of different lengths, which only rungs of the ladder support"
        } else if output.is_some_and(|own| Some(&own.value) != stated.as_ref().map(|at| &at.value)) {
            "has its own output_dtype, which only rungs of the ladder support"
        } else {
            continue;
        };
        let sentence = format!("shape `{}` {what}", shape.name.value);
        let help = "list the shapes that the kernel supports in `shapes` of its [[candidate]]";
        file.wrong_with(candidate.name.span.clone(), sentence, help);
    }
    for axis in ["kv", "keys"] {
        let (with, without): (Vec<_>, Vec<_>) =
            task.shapes.iter().partition(|shape| shape.axes.contains_key(axis));
        if let (Some(_), Some(without)) = (with.first(), without.first()) {
            let sentence =
                format!("shape `{}` has no axis `{axis}`, but other shapes have it", without.name.value);
            let help = "a task with a kernel of your own has the same axes in every shape";
            file.wrong_with(without.name.span.clone(), sentence, help);
        }
    }
    if let Policy::Derived { accumulate } = task.tolerance.policy
        && !matches!(accumulate, Accumulate::F32 | Accumulate::TensorF16 | Accumulate::TensorFp8)
    {
        let sentence = "limits of attention are derived for sums in f32, tensor_f16 or tensor_fp8";
        let help =
            "accumulate = \"tensor_f16\" in [tolerance], or policy = \"stated\" with limits of your own";
        file.wrong_with(candidate.name.span.clone(), sentence, help);
    }
}

/// Tensors without a place in the file follow from other parts of the task, so hashes leave them out.
fn stated<S, T>(list: &[T], name: impl Fn(&T) -> &At<String>, serializer: S) -> Result<S::Ok, S::Error>
where
    S: serde::Serializer,
    T: Serialize,
{
    let mut sequence = serializer.serialize_seq(None)?;
    for one in list.iter().filter(|one| !name(one).span.is_empty()) {
        sequence.serialize_element(one)?;
    }
    sequence.end()
}

pub(super) fn stated_inputs<S: serde::Serializer>(list: &[Input], to: S) -> Result<S::Ok, S::Error> {
    stated(list, |one| &one.name, to)
}

pub(super) fn stated_outputs<S: serde::Serializer>(list: &[Output], to: S) -> Result<S::Ok, S::Error> {
    stated(list, |one| &one.name, to)
}

impl Data {
    /// Whether inputs and outputs follow from the operator instead of being stated in the file.
    pub fn is_implied(&self) -> bool {
        self.inputs.first().is_some_and(|input| input.name.span.is_empty())
    }
}
