//! Parses names, shapes, data, reference and tolerance from TOML.

use std::collections::BTreeMap;

use toml::Spanned;
use toml::de::{DeTable, DeValue};
use warpproof_kernels::inputs::Distribution as AttentionDistribution;

use super::attention::{self, AttentionShape};
use super::model::{
    Data, Distribution, Extent, FileCase, Input, NonFinite, Operator, Output, Policy, REFERENCE_MEMORY_MB,
    Reduction, Reference, Shape, Task, TensorType, Tolerance, Values,
};
use super::problem::At;
use super::section::{File, Section, check_identifier, dtype_of, expr_of, integer_of, text_of};
use super::{Accumulate, candidate, operands, policy, space};

/// The largest extent of an axis.
const MAX_EXTENT: i64 = 1 << 40;
/// Maximum number of seeds, and of secret seeds, of a task.
const MAX_SEEDS: i64 = 64;

/// Reads the whole file; a missing or wrong value is reported, and a placeholder takes its place, so that the rest
/// can be checked too.
pub(super) fn task(file: &mut File<'_>, table: &Spanned<DeTable<'_>>) -> Task {
    let mut root = Section::new("the task", 0..file.text.len().min(1), table.get_ref());
    root.missing(file, "name", "name = \"softmax\"");
    root.missing(file, "version", "version = 1");
    root.missing(file, "operator", "operator = \"softmax\"");
    let name = root.name(file, "name").unwrap_or_default();
    let version =
        root.integer(file, "version").map_or_else(At::default, |version| version_of(file, &version));
    let description = root.text(file, "description").unwrap_or_default().value;
    let operator = root.choice(file, "operator", &OPERATORS);
    let attention = operator.as_ref().is_some_and(|operator| operator.value == Kind::Attention);
    root.missing(file, "shape", "[[shape]] with name and axes");
    let shapes =
        root.sections(file, "shape").into_iter().map(|section| shape(file, section, attention)).collect();
    let data = data(file, &mut root, attention);
    root.missing(file, "tolerance", "[tolerance] with policy and derivation");
    let reference = reference(file, &mut root, operator.as_ref().map(|operator| operator.value));
    let tolerance =
        root.section(file, "tolerance").map_or_else(no_tolerance, |section| tolerance(file, section, &data));
    let mut task = Task {
        name,
        version,
        description,
        shapes,
        data,
        reference,
        tolerance,
        budgets: policy::budgets(file, &mut root),
        toggles: policy::toggles(file, &mut root, attention),
        target: policy::target(file, &mut root),
        baselines: policy::baselines(file, &mut root),
        gates: policy::gates(file, &mut root),
        timing: policy::timing(file, &mut root),
        candidates: candidate::candidates(file, &mut root),
        spaces: space::spaces(file, &mut root),
    };
    root.close(file);
    operands::imply(&mut task);
    task
}

fn version_of(file: &mut File<'_>, version: &At<i64>) -> At<u32> {
    let value = u32::try_from(version.value).ok().filter(|version| *version > 0);
    if value.is_none() {
        file.wrong(
            version.span.clone(),
            format!("expected a version of at least 1, found {}", version.value),
        );
    }
    At::new(value.unwrap_or(0), version.span.clone())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Attention,
    Gemm,
    Softmax,
    LayerNorm,
    Reduction,
    Elementwise,
    Custom,
}

const OPERATORS: [(&str, Kind); 7] = [
    ("attention", Kind::Attention),
    ("gemm", Kind::Gemm),
    ("softmax", Kind::Softmax),
    ("layer_norm", Kind::LayerNorm),
    ("reduction", Kind::Reduction),
    ("elementwise", Kind::Elementwise),
    ("custom", Kind::Custom),
];

fn shape(file: &mut File<'_>, mut section: Section<'_, '_>, attention: bool) -> Shape {
    section.missing(file, "name", "every shape needs a name");
    section.missing(file, "axes", "axes = { n = 1024 }");
    let name = section.name(file, "name").unwrap_or_default();
    let hidden = section.flag(file, "hidden").unwrap_or(false);
    let mut axes = BTreeMap::new();
    if let Some(mut table) = section.section(file, "axes") {
        if table.entries().next().is_none() {
            file.wrong(table.span.clone(), "a shape needs axes");
        }
        for (axis, value) in table.entries() {
            if check_identifier(file, &axis)
                && let Some(extent) = extent(file, &axis, value, hidden)
            {
                axes.insert(axis.value, extent);
            }
        }
    }
    let mut tails = BTreeMap::new();
    if let Some(mut table) = section.section(file, "tails") {
        for (axis, value) in table.entries() {
            if !axes.contains_key(&axis.value) {
                file.unknown(axis.span.clone(), "axis", &axis, axes.keys().map(String::as_str));
                continue;
            }
            let DeValue::Array(values) = value.get_ref() else {
                file.wrong(
                    value.span(),
                    format!("expected a list of extents as the tails of `{}`", axis.value),
                );
                continue;
            };
            let values = values.iter().take(64).filter_map(|value| positive(file, &axis, value)).collect();
            tails.insert(axis.value, values);
        }
    }
    let attention = if attention { attention::shape(file, &mut section) } else { AttentionShape::default() };
    section.close(file);
    Shape { name, axes, hidden, tails, attention }
}

fn positive(file: &mut File<'_>, axis: &At<String>, value: &Spanned<DeValue<'_>>) -> Option<u64> {
    let number = integer_of(file, axis, value)?;
    if !(1..=MAX_EXTENT).contains(&number.value) {
        file.wrong(
            number.span,
            format!("axis `{}` is {}; extents must be from 1 to 2^40", axis.value, number.value),
        );
        return None;
    }
    u64::try_from(number.value).ok()
}

fn extent(
    file: &mut File<'_>,
    axis: &At<String>,
    value: &Spanned<DeValue<'_>>,
    hidden: bool,
) -> Option<Extent> {
    let DeValue::Array(ends) = value.get_ref() else {
        return positive(file, axis, value).map(Extent::Fixed);
    };
    if !hidden {
        let sentence = format!("axis `{}` is a range, but only hidden shapes may have ranges", axis.value);
        file.wrong_with(value.span(), sentence, "write hidden = true, or one extent");
        return None;
    }
    let ends: Vec<u64> = ends.iter().take(3).filter_map(|end| positive(file, axis, end)).collect();
    match ends.as_slice() {
        [low, high] if low <= high => Some(Extent::Range(*low, *high)),
        _ => {
            file.wrong(value.span(), format!("expected [least, most] as the range of axis `{}`", axis.value));
            None
        }
    }
}

fn data(file: &mut File<'_>, root: &mut Section<'_, '_>, attention: bool) -> Data {
    let dtypes = root.texts(file, "dtypes").unwrap_or_default();
    let dtypes = dtypes.iter().filter_map(|text| dtype_of(file, text)).map(|dtype| dtype.value).collect();
    root.missing(file, "seeds", "seeds = [1, 2, 3]");
    let mut seeds = Vec::new();
    if let Some((span, values)) = root.list(file, "seeds", false) {
        if values.is_empty() || i64::try_from(values.len()).is_ok_and(|count| count > MAX_SEEDS) {
            file.wrong(span, format!("expected 1 to {MAX_SEEDS} seeds"));
        }
        for value in values {
            let Some(seed) = integer_of(file, "seeds", value) else { continue };
            match u64::try_from(seed.value) {
                Ok(seed) if !seeds.contains(&seed) => seeds.push(seed),
                Ok(again) => file.wrong(seed.span, format!("duplicate seed {again}")),
                Err(_) => file.wrong(seed.span, "seeds must not be negative"),
            }
        }
    }
    let secret_seeds = root.within(file, "secret_seeds", 0, MAX_SEEDS).map_or(0, |n| n.value);
    root.missing(file, "distributions", "distributions = [\"normal\", \"wide\"]");
    let mut distributions = Vec::new();
    if let Some((span, values)) = root.list(file, "distributions", false) {
        if values.is_empty() {
            file.wrong(span, "a task needs a distribution");
        }
        distributions = values.into_iter().filter_map(|value| distribution(file, value, attention)).collect();
    }
    Data {
        dtypes,
        seeds,
        secret_seeds: u32::try_from(secret_seeds).unwrap_or(0),
        distributions,
        inputs: root.sections(file, "input").into_iter().map(|section| input(file, section)).collect(),
        outputs: root.sections(file, "output").into_iter().map(|section| output(file, section)).collect(),
    }
}

/// A name alone, with default parameters, or a table.
fn distribution(file: &mut File<'_>, value: &Spanned<DeValue<'_>>, attention: bool) -> Option<Distribution> {
    if matches!(value.get_ref(), DeValue::String(_)) {
        let kind = text_of(file, "distributions", value)?;
        let empty = DeTable::new();
        let mut none = Section::new("distribution", value.span(), &empty);
        let values = values(file, &mut none, &kind, attention)?;
        return Some(Distribution { name: kind, values, inputs: Vec::new() });
    }
    let mut section = Section::of("distribution", value, file)?;
    section.missing(file, "kind", "kind = \"normal\"");
    let kind = section.text(file, "kind")?;
    let name = section.name(file, "name").unwrap_or_else(|| kind.clone());
    let values = values(file, &mut section, &kind, attention);
    let inputs = section.texts(file, "inputs").unwrap_or_default();
    section.close(file);
    Some(Distribution { name, values: values?, inputs })
}

fn values(
    file: &mut File<'_>,
    section: &mut Section<'_, '_>,
    kind: &At<String>,
    attention: bool,
) -> Option<Values> {
    const KINDS: [&str; 13] = [
        "normal",
        "uniform",
        "wide",
        "constant",
        "one_hot",
        "large",
        "structured",
        "masked",
        "nan",
        "denormal",
        "signed_zero",
        "extreme",
        "magnitudes",
    ];
    let family = AttentionDistribution::ALL.map(|family| (family, family.to_string()));
    if attention {
        let found = family.iter().find(|(_, name)| *name == kind.value);
        if found.is_none() {
            file.unknown(
                kind.span.clone(),
                "distribution",
                kind,
                family.iter().map(|(_, name)| name.as_str()),
            );
        }
        return found.map(|(family, _)| Values::Attention { family: *family });
    }
    let mut real =
        |file: &mut File<'_>, key, default| section.real(file, key).map_or(default, |number| number.value);
    Some(match kind.as_str() {
        "normal" => {
            let (mean, std) = (real(file, "mean", 0.0), real(file, "std", 1.0));
            Values::Normal { mean, std }
        }
        "uniform" => {
            let (low, high) = (real(file, "low", -1.0), real(file, "high", 1.0));
            if low > high {
                file.wrong(section.span.clone(), format!("uniform: invalid range {low} to {high}"));
            }
            Values::Uniform { low, high }
        }
        "wide" => {
            let octaves = section.within(file, "octaves", 1, 64).map_or(8, |octaves| octaves.value);
            Values::Wide { octaves: u32::try_from(octaves).unwrap_or(8) }
        }
        "constant" => Values::Constant { value: real(file, "value", 1.0) },
        "one_hot" => {
            let (value, background) = (real(file, "value", 1.0), real(file, "background", 0.0));
            Values::OneHot { value, background }
        }
        "large" => {
            let fraction = section.real_within(file, "fraction", 0.0, 1.0);
            Values::Large { fraction: fraction.map_or(1.0 / 64.0, |fraction| fraction.value) }
        }
        "structured" => Values::Structured,
        "masked" | "nan" | "extreme" => {
            let fraction = section.real_within(file, "fraction", 0.0, 1.0);
            let of = |default: f64| fraction.map_or(default, |fraction| fraction.value);
            match kind.as_str() {
                "masked" => Values::Masked { fraction: of(0.5) },
                "nan" => Values::Nan { fraction: of(1.0 / 64.0) },
                _ => Values::Extreme { fraction: of(1.0 / 16.0) },
            }
        }
        "denormal" => Values::Denormal,
        "signed_zero" => Values::SignedZero,
        "magnitudes" => Values::Magnitudes,
        _ => {
            file.unknown(kind.span.clone(), "distribution", kind, KINDS.into_iter());
            return None;
        }
    })
}

fn tensor_type(file: &mut File<'_>, section: &mut Section<'_, '_>) -> At<TensorType> {
    section.missing(file, "dtype", "a dtype, or \"each\" for each of the task's dtypes");
    let Some(text) = section.text(file, "dtype") else { return At::unsaid(TensorType::Each) };
    if text.value == "each" {
        return At::new(TensorType::Each, text.span);
    }
    dtype_of(file, &text).map_or_else(
        || At::unsaid(TensorType::Each),
        |dtype| At::new(TensorType::Fixed(dtype.value), dtype.span),
    )
}

fn input(file: &mut File<'_>, mut section: Section<'_, '_>) -> Input {
    section.missing(file, "name", "the name that arguments and the reference use");
    section.missing(file, "dims", "dims = [\"n\", \"m\"]");
    let name = section.identifier(file, "name").unwrap_or_default();
    let dtype = tensor_type(file, &mut section);
    let dims = section.exprs(file, "dims", 8).map_or_else(Vec::new, |dims| dims.value);
    let range = section.exprs(file, "range", 2).and_then(|ends| {
        let span = ends.span;
        let mut ends = ends.value.into_iter();
        let range = ends.next().zip(ends.next());
        if range.is_none() {
            file.wrong(span, "expected a range [least, most]");
        }
        range
    });
    section.close(file);
    Input { name, dtype, dims, range }
}

fn output(file: &mut File<'_>, mut section: Section<'_, '_>) -> Output {
    section.missing(file, "name", "the name that arguments and the reference use");
    section.missing(file, "dims", "dims = [\"n\", \"m\"]");
    let name = section.identifier(file, "name").unwrap_or_default();
    let dtype = tensor_type(file, &mut section);
    let dims = section.exprs(file, "dims", 8).map_or_else(Vec::new, |dims| dims.value);
    let in_place = section.text(file, "in_place");
    section.close(file);
    Output { name, dtype, dims, in_place }
}

fn reference(file: &mut File<'_>, root: &mut Section<'_, '_>, kind: Option<Kind>) -> Reference {
    let empty = DeTable::new();
    let mut section = match root.section(file, "reference") {
        Some(section) => section,
        None => Section::new("reference", root.span.clone(), &empty),
    };
    let found = if section.has("python") {
        section.text(file, "python").map(|path| {
            let function =
                section.identifier(file, "function").map_or_else(|| "reference".into(), |name| name.value);
            let seconds =
                section.within(file, "timeout_seconds", 1, 3600).map_or(60, |seconds| seconds.value);
            let memory = section
                .within(file, "memory_mb", 64, 1 << 20)
                .and_then(|memory| u32::try_from(memory.value).ok());
            Reference::Python {
                file: candidate::checked_path(file, path),
                function,
                timeout_seconds: u32::try_from(seconds).unwrap_or(60),
                memory_mb: memory.unwrap_or(REFERENCE_MEMORY_MB),
            }
        })
    } else if section.has("case") {
        let cases =
            section.sections(file, "case").into_iter().map(|section| file_case(file, section)).collect();
        Some(Reference::Files { cases })
    } else {
        match kind {
            None => None,
            Some(Kind::Custom) => {
                let help = "python = \"reference.py\", or [[reference.case]] with files";
                file.wrong_with(section.span.clone(), "a custom operator needs its own reference", help);
                None
            }
            Some(kind) => built_in(file, &mut section, kind).map(|operator| Reference::BuiltIn { operator }),
        }
    };
    section.close(file);
    found.unwrap_or(Reference::Files { cases: Vec::new() })
}

fn file_case(file: &mut File<'_>, mut section: Section<'_, '_>) -> FileCase {
    section.missing(file, "shape", "the shape that the files are for");
    let shape = section.text(file, "shape").unwrap_or_default();
    let mut files = |file: &mut File<'_>, key| {
        let mut found = BTreeMap::new();
        if let Some(mut table) = section.section(file, key) {
            for (name, value) in table.entries() {
                if let Some(path) = text_of(file, &name, value) {
                    let known = [".npy", ".safetensors"]
                        .iter()
                        .any(|end| path.split('#').next().is_some_and(|p| p.ends_with(end)));
                    if !known {
                        let help = "x.npy, or x.safetensors#tensor";
                        file.wrong_with(
                            path.span.clone(),
                            "tensors are read from .npy and .safetensors files",
                            help,
                        );
                    }
                    found.insert(name.value, candidate::checked_path(file, path));
                }
            }
        }
        found
    };
    let (inputs, outputs) = (files(file, "inputs"), files(file, "outputs"));
    section.close(file);
    FileCase { shape, inputs, outputs }
}

fn built_in(file: &mut File<'_>, section: &mut Section<'_, '_>, kind: Kind) -> Option<Operator> {
    // A missing name is reported here, and the operator is not reported again.
    let mut name = |file: &mut File<'_>, key: &'static str| {
        section.missing(file, key, "the name of an input or output");
        section.text(file, key)
    };
    Some(match kind {
        Kind::Custom => return None,
        Kind::Attention => Operator::Attention(attention::operator(file, section)),
        Kind::Gemm => {
            let (a, b, output) = (name(file, "a"), name(file, "b"), name(file, "output"));
            let transpose_a = section.flag(file, "transpose_a").unwrap_or(false);
            let transpose_b = section.flag(file, "transpose_b").unwrap_or(false);
            let alpha = section.real(file, "alpha").map_or(1.0, |alpha| alpha.value);
            Operator::Gemm { a: a?, b: b?, output: output?, transpose_a, transpose_b, alpha }
        }
        Kind::Softmax => {
            let (input, output) = (name(file, "input"), name(file, "output"));
            Operator::Softmax { input: input?, output: output? }
        }
        Kind::LayerNorm => {
            let (input, output) = (name(file, "input"), name(file, "output"));
            let (weight, bias) = (section.text(file, "weight"), section.text(file, "bias"));
            let epsilon =
                section.real_within(file, "epsilon", 0.0, 1.0).map_or(1e-5, |epsilon| epsilon.value);
            Operator::LayerNorm { input: input?, weight, bias, output: output?, epsilon }
        }
        Kind::Reduction => {
            const OPS: [(&str, Reduction); 3] =
                [("sum", Reduction::Sum), ("mean", Reduction::Mean), ("max", Reduction::Max)];
            let (input, output) = (name(file, "input"), name(file, "output"));
            section.missing(file, "op", "op = \"sum\", \"mean\" or \"max\"");
            section.missing(file, "axis", "axis = 0 is the first axis of the input");
            let op = section.choice(file, "op", &OPS);
            let axis = section.within(file, "axis", 0, 7);
            let axis = u32::try_from(axis?.value).unwrap_or(0);
            Operator::Reduction { input: input?, output: output?, op: op?.value, axis }
        }
        Kind::Elementwise => {
            let output = name(file, "output");
            section.missing(file, "expression", "expression = \"max(x, 0)\"");
            let value = section.get("expression");
            let expression = value.and_then(|value| expr_of(file, "expression", value));
            Operator::Elementwise { expression: expression?, output: output? }
        }
    })
}

fn no_tolerance() -> Tolerance {
    let policy = Policy::Derived { accumulate: Accumulate::F32 };
    Tolerance { policy, derivation: String::new(), non_finite: NonFinite::Refuse }
}

fn tolerance(file: &mut File<'_>, mut section: Section<'_, '_>, data: &Data) -> Tolerance {
    const POLICIES: [(&str, bool); 2] = [("derived", true), ("stated", false)];
    const ACCUMULATE: [(&str, Accumulate); 9] = [
        ("f32", Accumulate::F32),
        ("f64", Accumulate::F64),
        ("f16", Accumulate::F16),
        ("tensor_f16", Accumulate::TensorF16),
        ("tensor_fp8", Accumulate::TensorFp8),
        ("i32", Accumulate::I32),
        ("u32", Accumulate::U32),
        ("i64", Accumulate::I64),
        ("u64", Accumulate::U64),
    ];
    const NON_FINITE: [(&str, NonFinite); 2] = [("refuse", NonFinite::Refuse), ("match", NonFinite::Match)];
    section.missing(
        file,
        "policy",
        "policy = \"derived\", or \"stated\" with absolute, relative, rmse and bias",
    );
    section.missing(file, "derivation", "write where the limits come from");
    let derived = section.choice(file, "policy", &POLICIES).is_none_or(|policy| policy.value);
    let derivation = section.prose(file, "derivation").unwrap_or_default().value;
    let policy = if derived {
        let said = section.choice(file, "accumulate", &ACCUMULATE);
        let integers = data.integer_sums();
        let accumulate = said.as_ref().map_or(integers.unwrap_or(Accumulate::F32), |said| said.value);
        if let Some(span) =
            said.map(|said| said.span).filter(|_| accumulate.is_integer() != integers.is_some())
        {
            let (sentence, help) = if integers.is_some() {
                (
                    "integer inputs and outputs are compared exactly, but floating-point sums are not exact",
                    "accumulate = \"i32\"",
                )
            } else {
                (
                    "sums of floating-point inputs or outputs cannot be kept in integers",
                    "accumulate = \"f32\"",
                )
            };
            file.wrong_with(span, sentence, help);
        }
        Policy::Derived { accumulate }
    } else {
        let mut limit = |key| {
            section.missing(file, key, "a stated tolerance needs absolute, relative, rmse and bias");
            section.real_within(file, key, 0.0, f64::MAX).map_or(0.0, |number| number.value)
        };
        Policy::Stated {
            absolute: limit("absolute"),
            relative: limit("relative"),
            rmse: limit("rmse"),
            bias: limit("bias"),
        }
    };
    let non_finite = section.choice(file, "non_finite", &NON_FINITE);
    let non_finite = non_finite.map_or(NonFinite::Refuse, |policy| policy.value);
    section.close(file);
    Tolerance { policy, derivation, non_finite }
}
