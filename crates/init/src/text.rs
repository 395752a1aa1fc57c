//! Formats a task file, section by section.

use std::fmt::Write;

use super::draft::Target;
use super::operator::Kind;
use super::sizes::Axis;
use super::{Block, Seen};
use warpproof_task::dtype::Dtype;

/// The content of the file.
pub(super) struct Parts<'a> {
    pub(super) seen: &'a Seen,
    pub(super) target: &'a Target<'a>,
    pub(super) kind: Kind,
    pub(super) because: &'a str,
    pub(super) axes: &'a [Axis],
    /// The keys of each input.
    pub(super) inputs: &'a [String],
    pub(super) outputs: &'a [String],
    pub(super) scratch: &'a [String],
    /// The type of the output.
    pub(super) dtype: Dtype,
    /// The coarsest rounding of an output; 0 if all are integers.
    pub(super) unit: f64,
    /// Whether a tensor has a format of 16 bits or less.
    pub(super) narrow: bool,
    /// Whether an input holds real numbers.
    pub(super) real: bool,
    /// Each with a remark.
    pub(super) arguments: &'a [(String, Option<String>)],
    pub(super) grid: &'a [String],
    pub(super) grid_because: &'a str,
    pub(super) block: &'a Block,
    /// Bytes of dynamic shared memory, with the reason.
    pub(super) shared: Option<(&'a str, &'a str)>,
    pub(super) reference: &'a [String],
    pub(super) questions: &'a [String],
}

/// A valid name for task files: letters, digits, `_`, `-` and `.`.
pub(super) fn name(text: &str) -> String {
    let good = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.') { c } else { '-' };
    let name: String = text.chars().map(good).take(64).collect();
    let name = name.split('-').filter(|part| !part.is_empty()).collect::<Vec<_>>().join("-");
    let name = name.trim_matches('.').to_owned();
    if name.is_empty() { "kernel".into() } else { name }
}

/// A text in quotes.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out + "\""
}

/// The file.
pub(super) fn task(parts: &Parts<'_>) -> String {
    let mut shapes = String::new();
    data(parts, &mut shapes);
    with_data(parts, &shapes)
}

/// The file, with seeds, distributions, shapes and reference as a text.
pub(super) fn with_data(parts: &Parts<'_>, data: &str) -> String {
    let mut text = String::new();
    head(parts, &mut text);
    text.push_str(data);
    limits(parts, &mut text);
    stages(parts, &mut text);
    candidate(parts, &mut text);
    text
}

// Writing to a string cannot fail.
fn head(parts: &Parts<'_>, text: &mut String) {
    let kernel = &parts.seen.name;
    let _ = write!(
        text,
        "# Evaluates `{kernel}`. Written by `warpproof init`: check the lines marked `guessed`, and correct them.\n\
         # The book's chapter on task files documents every key.\n"
    );
    for question in parts.questions {
        let _ = writeln!(text, "# question: {question}");
    }
    let _ = write!(
        text,
        "name = {}\nversion = 1\ndescription = {}\noperator = \"{}\"{}\n\n",
        quoted(&parts.target.file_name()),
        quoted(&format!("The kernel {kernel} of {}.", parts.target.file)),
        parts.kind.name(),
        match parts.target.operator {
            Some(_) => String::new(),
            None => format!(" # guessed: because {}", parts.because.replace('\n', " ")),
        },
    );
}

fn data(parts: &Parts<'_>, text: &mut String) {
    let distributions: &[&str] = match parts.kind {
        // Integers are drawn from their range, whatever the distribution.
        _ if !parts.real => &["\"normal\""],
        // Products and sums of `wide` overflow f16 and fp8. These do not: at most six deviations, 1.5 in all.
        Kind::Gemm | Kind::Reduction | Kind::LayerNorm | Kind::Elementwise if parts.narrow => &[
            "{ kind = \"normal\", std = 0.25 }",
            "\"uniform\"",
            "\"structured\"",
            "{ kind = \"constant\", value = 0.5 }",
        ],
        Kind::Softmax if parts.narrow => &[
            "\"normal\"",
            "\"uniform\"",
            "\"structured\"",
            "{ kind = \"constant\", value = 3.0 }",
            "{ kind = \"one_hot\", value = 20.0, background = -20.0 }",
        ],
        Kind::Softmax => &[
            "\"normal\"",
            "\"wide\"",
            "\"structured\"",
            "{ kind = \"constant\", value = 3.0 }",
            "{ kind = \"one_hot\", value = 20.0, background = -20.0 }",
        ],
        Kind::Custom => &["\"normal\"", "\"structured\""],
        _ => &["\"normal\"", "\"wide\"", "\"structured\"", "{ kind = \"constant\", value = 3.0 }"],
    };
    let _ = write!(
        text,
        "dtypes = [\"{}\"]\nseeds = [1, 2]\n\
         # Drawn for each run, so that a kernel cannot be tuned to the seeds above.\nsecret_seeds = 1\n\
         distributions = [\n    {},\n]\n\n",
        parts.dtype,
        distributions.join(",\n    "),
    );
    let extents = |extent: &dyn Fn(&Axis) -> String| {
        parts
            .axes
            .iter()
            .map(|axis| format!("{} = {}", axis.name, extent(axis)))
            .collect::<Vec<_>>()
            .join(", ")
    };
    let main = extents(&|axis| axis.main.to_string());
    let _ = write!(
        text,
        "[[shape]]\nname = \"main\"\naxes = {{ {main} }} # guessed: because it runs quickly on the software GPU\n"
    );
    let tails: Vec<String> = parts
        .axes
        .iter()
        .filter(|axis| !axis.tails.is_empty())
        .map(|axis| format!("{} = {:?}", axis.name, axis.tails))
        .collect();
    if !tails.is_empty() {
        let _ = write!(
            text,
            "# Each is a separate size: 1, and one less and one more than a warp and a block.\ntails = {{ {} }}\n",
            tails.join(", ")
        );
    }
    let hidden = extents(&|axis| format!("[{}, {}]", axis.hidden.0, axis.hidden.1));
    let _ = write!(
        text,
        "\n# Drawn for each run, to find kernels that work only for the sizes above.\n\
         [[shape]]\nname = \"surprise\"\naxes = {{ {hidden} }}\nhidden = true\n\n"
    );
    for input in parts.inputs {
        let _ = write!(text, "[[input]]\n{input}\n");
    }
    for output in parts.outputs {
        let _ = write!(text, "[[output]]\n{output}\n");
    }
    let _ = write!(text, "[reference]\n{}\n\n", parts.reference.join("\n"));
}

fn limits(parts: &Parts<'_>, text: &mut String) {
    if parts.unit <= 0.0 {
        text.push_str(
            "[tolerance]\npolicy = \"stated\"\nabsolute = 0.0\nrelative = 0.0\nrmse = 0.0\nbias = 0.0\nnon_finite = \"refuse\"\n\
             derivation = \"Outputs are integers and must be exact.\"\n\n",
        );
    } else if parts.kind == Kind::Custom {
        let unit = parts.unit;
        // Values stored in 16 bits or fewer are usually computed in f32 and rounded once.
        let (each, square, bias) = if unit > 2f64.powi(-20) { (4.0, 2.0, 0.5) } else { (64.0, 16.0, 4.0) };
        let _ = write!(
            text,
            "[tolerance]\npolicy = \"stated\" # question: how many roundings does the kernel make?\n\
             absolute = {:e}\nrelative = {:e}\nrmse = {:e}\nbias = {:e}\nnon_finite = \"refuse\"\n\
             derivation = \"A first guess, not a derivation: {each} roundings of {} for an element of magnitude 1, {square} for the \
             root mean square, {bias} of one sign. State your own before you trust a verdict.\"\n\n",
            each * unit,
            each * unit,
            square * unit,
            bias * unit,
            parts.dtype,
        );
    } else {
        let (accumulate, why) = match (parts.seen.geometry.tensor_cores, parts.dtype) {
            (_, Dtype::I64 | Dtype::U64) => (parts.dtype.name(), "integers are compared exactly"),
            (_, dtype) if dtype.is_integer() => ("i32", "integers are compared exactly"),
            (Some(true), _) => ("tensor_fp8", "its PTX uses tensor cores on FP8"),
            (Some(false), _) => ("tensor_f16", "its PTX uses tensor cores"),
            (None, Dtype::F64) => ("f64", "its output is f64"),
            (None, _) => ("f32", "kernels rarely accumulate in a narrower type"),
        };
        let _ = write!(
            text,
            "[tolerance]\npolicy = \"derived\"\naccumulate = \"{accumulate}\" # guessed: because {why}\nnon_finite = \"refuse\"\n\
             derivation = \"Inputs are exact. Limits follow from the length of the sums, the format they are kept in, and the \
             output's format; the book derives them.\"\n\n"
        );
    }
    let resources = &parts.seen.resources;
    // Shared memory that grows with an axis has no single figure for all shapes.
    let dynamic = parts.shared.map_or(Some(0), |(bytes, _)| bytes.parse::<u32>().ok());
    let shared = dynamic.map(|dynamic| resources.static_shared.saturating_add(dynamic));
    let figures = [
        ("stack_bytes", Some(resources.stack)),
        ("spill_store_bytes", Some(resources.spill_stores)),
        ("spill_load_bytes", Some(resources.spill_loads)),
        ("shared_bytes", shared),
    ];
    for (resource, value) in figures.into_iter().filter_map(|(resource, value)| Some((resource, value?))) {
        let note = if value > 0 && resource != "shared_bytes" { " # more than 0: check why" } else { "" };
        let _ = write!(
            text,
            "[[budget]]\nresource = \"{resource}\"\nat_most = {value}{note}\nsource = \"what ptxas reported for {} when this file \
             was written\"\n\n",
            parts.target.architecture
        );
    }
}

fn stages(parts: &Parts<'_>, text: &mut String) {
    let arch = parts.target.architecture;
    let device = warpproof_model::Device::of_arch(arch).map_or("l4", |device| device.id);
    let _ = write!(text, "[target]\narchitectures = [\"{arch}\"]\ndevices = [\"{device}\"]\n\n");
    for gate in ["build", "budget", "correct"] {
        let _ = write!(text, "[[gate]]\nstage = \"{gate}\"\n\n");
    }
    text.push_str(
        "[[gate]]\nstage = \"checks\"\nschedules = 4\n\n# Counts instructions and traffic, from which `model` predicts the latency.\n[[gate]]\nstage = \"counters\"\n\n\
         [[gate]]\nstage = \"model\"\n\n# Skipped if there is no GPU.\n[[gate]]\nstage = \"speed\"\noptional = true\n\n\
         [timing]\nl2 = [\"warm\", \"cold\"]\npairs = 100\nconfidence = 0.95\n\
         reduction = { at_least = 0.05, source = \"below 5 % a change is rarely worth a review\" } # guessed: a common threshold\n\n",
    );
    let _ = write!(
        text,
        "# Further candidates are compared with this one.\n[[baseline]]\ncandidate = {}\nrole = \"speed\"\n\n",
        quoted(&name(&parts.seen.name))
    );
}

fn candidate(parts: &Parts<'_>, text: &mut String) {
    let key = if parts.target.is_ptx { "ptx" } else { "source" };
    let _ = write!(
        text,
        "[[candidate]]\nname = {}\n{key} = {}\n\n",
        quoted(&name(&parts.seen.name)),
        quoted(parts.target.file)
    );
    for scratch in parts.scratch {
        let _ = write!(text, "[[candidate.scratch]]\n{scratch}\n");
    }
    let list = |all: Vec<String>| match all.as_slice() {
        [one] => one.clone(),
        all => format!("[{}]", all.join(", ")),
    };
    let grid = list(parts.grid.iter().map(|extent| quoted(extent)).collect());
    let block = list(parts.block.extents.iter().map(ToString::to_string).collect());
    let why = match (&parts.block.because, parts.block.evidence) {
        (None, _) => String::new(),
        (Some(why), true) => format!(" # guessed: because {why}"),
        (Some(why), false) => format!(" # guessed without evidence: check it; {why}"),
    };
    let _ = write!(
        text,
        "[[candidate.launch]]\nkernel = {}\ngrid = {grid} # guessed: because {}\nblock = {block}{why}\n",
        quoted(&parts.seen.name),
        parts.grid_because
    );
    if let Some((bytes, why)) = parts.shared {
        let _ = writeln!(text, "shared_bytes = {} # guessed: because {why}", quoted(bytes));
    }
    text.push_str("arguments = [\n");
    for (argument, remark) in parts.arguments {
        let remark = remark.as_ref().map_or_else(String::new, |remark| format!(" # {remark}"));
        let _ = writeln!(text, "    {argument},{remark}");
    }
    text.push_str("]\n");
}
