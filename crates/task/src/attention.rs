//! Attention: the operator, what a shape changes of it, the options of a candidate, and the work that follows from them.

use serde::Serialize;
use warpproof_kernels::inputs::TensorName;
use warpproof_kernels::ladder::{self, LADDER};
use warpproof_kernels::plan::Splits;
use warpproof_kernels::quantize::Element;
use warpproof_kernels::{Format, Lengths, Request, Shape, Window};

use super::model::{Candidate, Extent, Operator, Program, Reference, Task};
use super::operands::{self, Operands};
use super::problem::At;
use super::section::{File, Section, integer_of};
use super::size::Size;

/// What attention computes: O = softmax(scale · Q Kᵀ) V with these options.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct AttentionOperator {
    /// Whether queries see only earlier keys.
    pub causal: bool,
    /// Factor of the scores; `None`: 1/√D.
    pub softmax_scale: Option<f64>,
    /// The other options.
    #[serde(flatten)]
    pub variant: AttentionVariant,
    /// How kernels with a source of their own read Q, K and V.
    #[serde(flatten)]
    pub operands: Operands,
}

/// What a shape of an attention task sets: options that differ from the task's, and lengths of sequences.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct AttentionShape {
    /// As [`AttentionOperator::causal`].
    pub causal: Option<bool>,
    /// As [`AttentionOperator::variant`].
    #[serde(flatten)]
    pub variant: AttentionVariant,
    /// Queries of each sequence, if they differ.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seqlens_q: Option<At<Vec<u64>>>,
    /// Keys of each sequence, if they differ.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seqlens_k: Option<At<Vec<u64>>>,
}

/// Options that a task sets for all shapes, and a shape for itself. Only those that are set are part of hashes.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct AttentionVariant {
    /// Keys that a query sees before and after its own place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window_size: Option<WindowSize>,
    /// Scores become `cap · tanh(score / cap)`; 0: no cap.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub softcap: Option<f64>,
    /// Whether a logit for each head joins the sum of the softmax.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sinks: Option<bool>,
    /// Whether scores have the bias of `ALiBi`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alibi: Option<bool>,
    /// The format of O: `f16` or `bf16`; `None`: `f16`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_dtype: Option<At<String>>,
}

/// Keys that a query sees before and after its own place; `None`: all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct WindowSize(pub Option<u64>, pub Option<u64>);

/// Options of a kernel of the attention family.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct AttentionOptions {
    /// Format of Q, K and V: `e4m3`, `e5m2` or `linear8`; `None`: the first that the rung supports.
    pub format: Option<At<String>>,
    /// Which elements share a scale: `tensor`, `head`, `block` or `row`; `None`: `head`.
    pub scales: Option<At<String>>,
    /// Order of the axes: `bhsd` or `bshd`; `None`: `bhsd`.
    pub layout: Option<At<String>>,
    /// Whether the log-sum-exp is also written.
    pub lse: bool,
    /// Blocks over which the keys of a row are split; `None`: enough to fill the device.
    pub splits: Option<u32>,
    /// Keys of a page, if K and V are in pages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_size: Option<At<u64>>,
    /// Whether the mean of each channel of K is subtracted before quantization.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub smooth_k: Option<At<bool>>,
    /// Of `quantize`: the operand, `q`, `k` or `v`; `None`: `k`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operand: Option<At<String>>,
    /// Of `quantize`: the type of the elements, `f16`, `bf16` or `f32`; `None`: `f16`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_dtype: Option<At<String>>,
}

/// What a candidate computes on a size of an attention task.
#[derive(Clone, Debug)]
pub enum AttentionWork {
    /// Attention by a rung of the ladder.
    Attention {
        /// The request.
        request: Request,
        /// Whether K is smoothed before quantization.
        smooth_k: bool,
    },
    /// The codes and scales of an operand of a request.
    Quantize {
        /// The request whose operand it is.
        request: Request,
        /// The operand.
        tensor: TensorName,
        /// The type of the elements.
        element: Element,
        /// Whether the mean of each channel is subtracted.
        smooth: bool,
    },
    /// The correction of a request's log-sum-exp over smoothed keys.
    Unsmooth(Request),
}

/// Kernels of the family that are not rungs of the ladder.
const QUANTIZE: &str = "quantize";
const UNSMOOTH: &str = "unsmooth";
/// The names of formats, granularities and layouts.
const FORMATS: [&str; 3] = ["e4m3", "e5m2", "linear8"];
const SCALES: [&str; 4] = ["tensor", "head", "block", "row"];
const LAYOUTS: [&str; 2] = ["bhsd", "bshd"];
/// The most sequences of a shape, which are a grid's third extent.
const MAX_SEQUENCES: usize = 65_535;

/// The names of all kernels of the family.
pub(super) fn kernels() -> impl Iterator<Item = &'static str> + Clone {
    LADDER.iter().map(|rung| rung.id).chain([QUANTIZE, UNSMOOTH])
}

/// The names of options that only some kernels have.
fn misplaced(kernel: &str, options: &AttentionOptions) -> Option<(std::ops::Range<usize>, &'static str)> {
    let span = |at: &Option<At<String>>| at.as_ref().map(|at| at.span.clone());
    if kernel != QUANTIZE {
        let found = span(&options.operand).map(|span| (span, "operand"));
        let found = found.or_else(|| span(&options.input_dtype).map(|span| (span, "input_dtype")));
        if found.is_some() {
            return found;
        }
    }
    let paged = options.page_size.as_ref().filter(|_| kernel == QUANTIZE || kernel == UNSMOOTH);
    paged.map(|size| (size.span.clone(), "page_size"))
}

pub(super) fn operator(file: &mut File<'_>, section: &mut Section<'_, '_>) -> AttentionOperator {
    AttentionOperator {
        causal: section.flag(file, "causal").unwrap_or(false),
        softmax_scale: section.real(file, "softmax_scale").map(|scale| scale.value),
        variant: variant(file, section),
        operands: Operands {
            format: word(file, section, "format", &FORMATS),
            scales: word(file, section, "scales", &SCALES),
            layout: word(file, section, "layout", &LAYOUTS),
        },
    }
}

pub(super) fn shape(file: &mut File<'_>, section: &mut Section<'_, '_>) -> AttentionShape {
    AttentionShape {
        causal: section.flag(file, "causal"),
        variant: variant(file, section),
        seqlens_q: seqlens(file, section, "seqlens_q"),
        seqlens_k: seqlens(file, section, "seqlens_k"),
    }
}

fn variant(file: &mut File<'_>, section: &mut Section<'_, '_>) -> AttentionVariant {
    AttentionVariant {
        window_size: window_size(file, section),
        softcap: softcap(file, section),
        sinks: section.flag(file, "sinks"),
        alibi: section.flag(file, "alibi"),
        output_dtype: word(file, section, "output_dtype", &["f16", "bf16"]),
    }
}

pub(super) fn options(file: &mut File<'_>, mut section: Section<'_, '_>) -> AttentionOptions {
    const OPERATOR: [&str; 6] = ["causal", "window_size", "softcap", "sinks", "alibi", "output_dtype"];
    for key in OPERATOR {
        if let Some(value) = section.get(key) {
            let help = "write it in [reference] or in a [[shape]]";
            let sentence = match key {
                "causal" => "a causal mask is part of the operator, not of a candidate".to_owned(),
                key => format!("`{key}` is part of the operator, not of a candidate"),
            };
            file.wrong_with(value.span(), sentence, help);
        }
    }
    let smooth_k = section.get("smooth_k").map(toml::Spanned::span);
    let options = AttentionOptions {
        format: word(file, &mut section, "format", &FORMATS),
        scales: word(file, &mut section, "scales", &SCALES),
        layout: word(file, &mut section, "layout", &LAYOUTS),
        lse: section.flag(file, "lse").unwrap_or(false),
        splits: section.within(file, "splits", 1, 1024).and_then(|splits| u32::try_from(splits.value).ok()),
        page_size: section
            .within(file, "page_size", 1, 1 << 20)
            .and_then(|size| u64::try_from(size.value).ok().map(|keys| At::new(keys, size.span))),
        smooth_k: smooth_k
            .and_then(|span| section.flag(file, "smooth_k").map(|smooth| At::new(smooth, span))),
        operand: word(file, &mut section, "operand", &["q", "k", "v"]),
        input_dtype: word(file, &mut section, "input_dtype", &["f16", "bf16", "f32"]),
    };
    section.close(file);
    options
}

fn word(
    file: &mut File<'_>,
    section: &mut Section<'_, '_>,
    key: &'static str,
    words: &[&'static str],
) -> Option<At<String>> {
    let text = section.text(file, key)?;
    if !words.contains(&text.as_str()) {
        file.unknown(text.span.clone(), key, &text, words.iter().copied());
    }
    Some(text)
}

/// 0 or a positive number; larger ones than this have no effect in f32.
fn softcap(file: &mut File<'_>, section: &mut Section<'_, '_>) -> Option<f64> {
    section.real_within(file, "softcap", 0.0, 1e6).map(|cap| cap.value)
}

fn window_size(file: &mut File<'_>, section: &mut Section<'_, '_>) -> Option<WindowSize> {
    const HELP: &str = "window_size = [127, 0]: keys before and after the query's own place; -1 for all";
    let (span, values) = section.list(file, "window_size", false)?;
    let [left, right] = *values.as_slice() else {
        file.wrong_with(span, format!("expected two numbers, found {}", values.len()), HELP);
        return None;
    };
    let mut side = |value| {
        let number = integer_of(file, "window_size", value)?;
        if number.value < -1 || number.value > 1 << 40 {
            let sentence = format!("`window_size` has {}; expected -1 to 2^40", number.value);
            file.wrong_with(number.span, sentence, HELP);
            return None;
        }
        Some(u64::try_from(number.value).ok())
    };
    let sides = (side(left), side(right));
    Some(WindowSize(sides.0?, sides.1?))
}

fn seqlens(file: &mut File<'_>, section: &mut Section<'_, '_>, key: &'static str) -> Option<At<Vec<u64>>> {
    let (span, values) = section.list(file, key, false)?;
    let mut lengths = Vec::new();
    for value in values {
        let number = integer_of(file, key, value)?;
        let Ok(length) = u64::try_from(number.value) else {
            file.wrong(number.span, format!("expected a number of rows in `{key}`, found {}", number.value));
            return None;
        };
        lengths.push(length);
    }
    Some(At::new(lengths, span))
}

/// Checks the lengths of sequences, and that each candidate supports its shapes.
pub(super) fn check(file: &mut File<'_>, task: &Task) {
    for shape in &task.shapes {
        let fixed = |axis: &str| match shape.axes.get(axis) {
            Some(Extent::Fixed(extent)) => Some(*extent),
            _ => None,
        };
        let most = [("s", &shape.attention.seqlens_q), ("keys", &shape.attention.seqlens_k)];
        for (axis, lengths) in most {
            let Some(lengths) = lengths else { continue };
            let limit = fixed(axis).or_else(|| fixed("s").filter(|_| !shape.axes.contains_key(axis)));
            let (Some(batch), Some(limit)) = (fixed("b"), limit) else {
                file.wrong(
                    lengths.span.clone(),
                    "lengths of sequences require fixed extents of b, s and keys",
                );
                continue;
            };
            let count = u64::try_from(lengths.len()).unwrap_or(u64::MAX);
            if count != batch {
                let sentence = format!("expected b = {batch} lengths, found {count}");
                file.wrong(lengths.span.clone(), sentence);
            } else if lengths.iter().max() != Some(&limit) {
                let sentence = format!("expected the largest length to be the extent {limit}");
                file.wrong(lengths.span.clone(), sentence);
            }
            if ["b", axis].iter().any(|axis| shape.tails.contains_key(*axis)) {
                file.wrong(
                    lengths.span.clone(),
                    "a shape with lengths of sequences has no tails of b, s or keys",
                );
            }
        }
    }
    if !file.problems.is_empty() {
        // What follows would repeat them in other words.
        return;
    }
    let sizes = task.sizes(0);
    for candidate in &task.candidates {
        let Program::Rung { rung, options } = &candidate.program else { continue };
        if let Some((span, key)) = misplaced(rung, options) {
            file.wrong(span, format!("`{}` has no option `{key}`", rung.value));
            continue;
        }
        let mut known: Vec<String> = Vec::new();
        for size in sizes.iter().filter(|size| !size.hidden) {
            let shape = size.name.split(':').next().unwrap_or_default();
            if candidate.shapes.as_ref().is_some_and(|all| all.iter().all(|one| one.value != shape)) {
                continue;
            }
            let Err(why) = task.attention(candidate, size) else { continue };
            if !known.contains(&why) {
                let help = "list the shapes that it supports in `shapes`";
                file.wrong_with(rung.span.clone(), format!("shape `{}`: {why}", size.name), help);
                known.push(why);
            }
        }
    }
}

impl AttentionOperator {
    /// The operator on a size.
    #[must_use]
    pub fn on(&self, size: &Size) -> AttentionOperator {
        let own = &size.attention;
        AttentionOperator {
            causal: own.causal.unwrap_or(self.causal),
            softmax_scale: self.softmax_scale,
            variant: own.variant.or(&self.variant),
            operands: self.operands.clone(),
        }
    }

    /// The window, without limits if there is none.
    pub fn window(&self) -> Window {
        let WindowSize(left, right) = self.variant.window_size.unwrap_or(WindowSize(None, None));
        let keys = |side: Option<u64>| side.map(|keys| usize::try_from(keys).unwrap_or(usize::MAX));
        Window { left: keys(left), right: keys(right) }
    }

    /// The cap of the scores, if there is one.
    pub fn cap(&self) -> Option<f64> {
        self.variant.softcap.filter(|cap| *cap > 0.0)
    }

    /// The options beyond a mask and a factor, by their keys.
    pub fn extended(&self) -> Vec<&'static str> {
        [
            ("window_size", self.window() != Window::default()),
            ("softcap", self.cap().is_some()),
            ("sinks", self.variant.sinks == Some(true)),
            ("alibi", self.variant.alibi == Some(true)),
        ]
        .into_iter()
        .filter_map(|(key, set)| set.then_some(key))
        .collect()
    }
}

impl AttentionVariant {
    /// These options, and for those that are not set the others.
    fn or(&self, others: &AttentionVariant) -> AttentionVariant {
        AttentionVariant {
            window_size: self.window_size.or(others.window_size),
            softcap: self.softcap.or(others.softcap),
            sinks: self.sinks.or(others.sinks),
            alibi: self.alibi.or(others.alibi),
            output_dtype: self.output_dtype.clone().or_else(|| others.output_dtype.clone()),
        }
    }
}

/// The family's shape of a size.
pub fn shape_of(size: &Size) -> Result<Shape, String> {
    let get = |axis: &str| size.axes.get(axis).and_then(|extent| usize::try_from(*extent).ok());
    let need = |axis: &str| get(axis).ok_or_else(|| format!("attention requires the axis `{axis}`"));
    let (batch, heads, queries, dim) = (need("b")?, need("h")?, need("s")?, need("d")?);
    if batch > MAX_SEQUENCES {
        return Err(format!("{batch} sequences exceed the limit of {MAX_SEQUENCES}"));
    }
    let keys = get("keys").unwrap_or(queries);
    let listed = |lengths: &Option<At<Vec<u64>>>, index: usize| {
        let length = lengths.as_ref()?.get(index)?;
        usize::try_from(*length).ok()
    };
    let own = &size.attention;
    let sequence = |index: usize| {
        let queries = listed(&own.seqlens_q, index).unwrap_or(queries);
        // Without an extent or a list of its own, a sequence has as many keys as queries.
        let same = if get("keys").is_none() { queries } else { keys };
        Lengths { queries, keys: listed(&own.seqlens_k, index).unwrap_or(same) }
    };
    let sequences = (0..batch).map(sequence).collect();
    Ok(Shape { heads, kv_heads: get("kv").unwrap_or(heads), dim, sequences })
}

impl Task {
    /// What a candidate of an attention task computes on a size, or why it cannot.
    pub fn attention(&self, candidate: &Candidate, size: &Size) -> Result<AttentionWork, String> {
        let Reference::BuiltIn { operator: Operator::Attention(operator) } = &self.reference else {
            return Err(format!("`{}` is not an attention task", self.name.value));
        };
        let Program::Rung { rung, options } = &candidate.program else {
            return Err(format!("`{}` is not a kernel of the attention family", candidate.name.value));
        };
        let operator = operator.on(size);
        let attends = rung.value != QUANTIZE && rung.value != UNSMOOTH;
        let known = ladder::rung(rung);
        if attends && known.is_none() {
            return Err(format!("there is no rung `{}`", rung.value));
        }
        let format = operands::format(options.format.as_ref());
        let format = format.or_else(|| known.and_then(|rung| rung.formats.first().copied()));
        let granularity = operands::granularity(options.scales.as_ref());
        let layout = operands::layout(options.layout.as_ref());
        let toggles = candidate.toggles.iter().map(|(name, value)| (name.clone(), value.value == "1"));
        let request = Request {
            lse: options.lse || rung.value == UNSMOOTH,
            page_size: options
                .page_size
                .as_ref()
                .map(|keys| usize::try_from(keys.value).unwrap_or(usize::MAX)),
            rung: attends.then(|| rung.value.clone()),
            toggles: toggles.collect(),
            splits: options
                .splits
                .map_or(Splits::Auto, |n| Splits::Count(usize::try_from(n).unwrap_or(usize::MAX))),
            ..operands::request(&operator, size, (format.unwrap_or_default(), granularity, layout))?
        };
        request.check().map_err(|error| error.to_string())?;
        let smooth_k = options.smooth_k.as_ref().is_some_and(|smooth| smooth.value);
        if smooth_k && request.format == Format::Linear8 {
            return Err("smoothing requires the format e4m3 or e5m2".to_owned());
        }
        if attends && smooth_k && request.lse {
            return Err(
                "the log-sum-exp of smoothed keys is corrected by `unsmooth`, a candidate of its own"
                    .to_owned(),
            );
        }
        match rung.value.as_str() {
            QUANTIZE => {
                let tensor = match options.operand.as_ref().map(|operand| operand.as_str()) {
                    Some("q") => TensorName::Q,
                    Some("v") => TensorName::V,
                    _ => TensorName::K,
                };
                if smooth_k && tensor != TensorName::K {
                    return Err("only K is smoothed".to_owned());
                }
                let element = match options.input_dtype.as_ref().map(|dtype| dtype.as_str()) {
                    Some("bf16") => Element::Bf16,
                    Some("f32") => Element::F32,
                    _ => Element::F16,
                };
                Ok(AttentionWork::Quantize { request, tensor, element, smooth: smooth_k })
            }
            UNSMOOTH => Ok(AttentionWork::Unsmooth(request)),
            _ => Ok(AttentionWork::Attention { request, smooth_k }),
        }
    }
}
