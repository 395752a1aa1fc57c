//! All rungs of the attention ladder and Triton's flash attention, at one shape on one device: one table from one run.
//!
//! Every kernel is compiled, run and counted on the software GPU with the same values, and explained. Triton's
//! modules are those of the corpus, unchanged. Counts are *counted*, times are *predicted*.
#![forbid(unsafe_code)]

mod record;
pub mod serving;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use warpproof_count::{CountLaunch, CountSettings, Counters};
use warpproof_kernels::Format;
use warpproof_kernels::attention::{Attention, RunError};
use warpproof_kernels::inputs::{Distribution, Inputs, generate};
use warpproof_kernels::ladder::{LADDER, Rung};
use warpproof_kernels::plan::{Plan, Request as Wanted};
use warpproof_kernels::problem::Shape;
use warpproof_launch::Counting;
use warpproof_model::bound::{Consumed, Floor};
use warpproof_model::{Device, Resource, TensorType, grouped};
use warpproof_sim::{Stop, StopKind};
use warpproof_toolchain::Toolchain;

pub use record::record;

use warpproof_explain::{Explanation, Origin, Request, Scheduled, explain};
use warpproof_task::dtype::Dtype;

/// The version of the table's fields.
pub const SCHEMA: &str = "warpproof.ladder/1";

/// The table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Ladder {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// The device's name at NVIDIA.
    pub device: String,
    /// Its id on the command line.
    pub device_id: String,
    /// `B2 H8 S256 D64`.
    pub shape: String,
    /// The rungs in their order, then Triton's modules.
    pub rows: Vec<Row>,
}

/// The author of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Author {
    /// A rung of the ladder.
    Ladder,
    /// Triton's compiler.
    Triton,
}

/// One kernel.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// `n4-mma-fp8`, or the module's name.
    pub name: String,
    /// Its author.
    pub author: Author,
    /// Its change, or its input format.
    pub what: String,
    /// The results, or why there are none.
    #[serde(flatten)]
    pub outcome: RowOutcome,
}

/// The result of a kernel.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "outcome")]
pub enum RowOutcome {
    /// It was explained.
    Explained(Box<Figures>),
    /// It was not.
    LeftOut(LeftOut),
}

/// Why a kernel is not explained.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// In one line.
    pub why: String,
    /// Whether a limit of the software GPU was reached; otherwise the kernel does not support this shape or this
    /// device.
    pub limit: bool,
}

impl LeftOut {
    /// Converts an error: distinguishes a stop at a limit from all others.
    fn of(error: &(dyn std::error::Error + 'static)) -> LeftOut {
        let mut cause = Some(error);
        let mut limit = false;
        while let Some(one) = cause {
            limit |= one.downcast_ref::<Stop>().is_some_and(|stop| stop.kind == StopKind::Limit);
            cause = one.source();
        }
        LeftOut { limit, ..LeftOut::from(error.to_string()) }
    }
}

impl From<String> for LeftOut {
    /// Messages of compilers have several lines; a row of a table has one.
    fn from(why: String) -> Self {
        let lines: Vec<&str> = why.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        LeftOut { why: lines.join("; "), limit: false }
    }
}

impl From<&str> for LeftOut {
    fn from(why: &str) -> Self {
        LeftOut::from(why.to_owned())
    }
}

impl std::fmt::Display for LeftOut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.why)
    }
}

/// The figures of a kernel; summed over its launches if it has several.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figures {
    /// Launches.
    pub launches: usize,
    /// Counts.
    pub counted: RowCounts,
    /// The instructions that the bounds count: those of the machine code, or those of the PTX as an approximation.
    pub instructions_of: Origin,
    /// Predictions.
    pub predicted: RowTimes,
    /// Registers per thread of the first launch, as ptxas reports.
    pub registers: u32,
    /// Bytes of shared memory of a block of the first launch.
    pub shared: u32,
    /// Threads of a block of the first launch.
    pub threads: u64,
}

/// Counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RowCounts {
    /// Blocks.
    pub blocks: u64,
    /// Warp instructions of the PTX.
    pub instructions: u64,
    /// Multiply-adds of matrix products.
    pub tensor: u64,
    /// Passes through the banks of shared memory.
    pub wavefronts: u64,
    /// Passes beyond the minimum.
    pub conflicts: u64,
}

/// Predicted microseconds without launch overhead, and the resources that set them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RowTimes {
    /// The lower bound for any kernel of the problem in this kernel's formats, cold.
    pub roofline_us: Option<f64>,
    /// The same, warm.
    pub roofline_warm_us: Option<f64>,
    /// The bound with a cold L2 cache.
    pub bound_cold_us: f64,
    /// With a warm one.
    pub bound_warm_us: f64,
    /// The binding resource of the first launch, cold.
    pub binds_cold: Option<Consumed>,
    /// The binding resource, warm.
    pub binds_warm: Option<Consumed>,
    /// The next binding resource, warm.
    pub next_warm: Option<Consumed>,
    /// From the schedule, cold; `None` if it is uncertain.
    pub schedule_cold_us: Option<f64>,
    /// From the schedule, warm.
    pub schedule_warm_us: Option<f64>,
    /// Why the schedule is missing.
    pub uncertain: Option<String>,
    /// Counts that the schedule had to assume.
    pub assumed: usize,
    /// Occupancy of the first launch, in percent.
    pub occupancy: f64,
    /// What limits it.
    pub limiters: Vec<Resource>,
}

/// Compiles, counts and explains all rungs that `wanted` selects, and with `peers` Triton's kernels;
/// `progress` receives the name of each kernel before it is run.
pub fn ladder(
    shape: &Shape,
    device: &'static Device,
    toolchain: &Toolchain,
    wanted: impl Fn(&Rung) -> bool,
    peers: bool,
    mut progress: impl FnMut(&str),
) -> Ladder {
    let mut rows = Vec::new();
    for rung in LADDER.iter().filter(|rung| wanted(rung)) {
        progress(rung.name);
        let outcome = self::rung(rung, shape, device, toolchain);
        rows.push(row(rung.name, Author::Ladder, rung.change, outcome));
    }
    for module in TRITON.iter().filter(|_| peers) {
        progress(module.name);
        let outcome = triton(module, shape, device, toolchain);
        rows.push(row(module.name, Author::Triton, module.what, outcome));
    }
    Ladder {
        schema: SCHEMA,
        device: device.name.to_owned(),
        device_id: device.id.to_owned(),
        shape: shape.to_string(),
        rows,
    }
}

fn row(name: &str, author: Author, what: &str, outcome: Result<Figures, LeftOut>) -> Row {
    let outcome = match outcome {
        Ok(figures) => RowOutcome::Explained(Box::new(figures)),
        Err(why) => RowOutcome::LeftOut(why),
    };
    Row { name: name.to_owned(), author, what: what.to_owned(), outcome }
}

/// The minimum work of attention: two products, an exponential for each score, inputs read and outputs written once.
fn floor(shape: &Shape, kind: TensorType, code_bytes: usize) -> Floor {
    let wide = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
    let (mut pairs, mut queries, mut keys) = (0usize, 0usize, 0usize);
    for lengths in &shape.sequences {
        pairs = pairs.saturating_add(lengths.queries.saturating_mul(lengths.keys));
        queries = queries.saturating_add(lengths.queries);
        keys = keys.saturating_add(lengths.keys);
    }
    let scores = wide(pairs).saturating_mul(wide(shape.heads));
    // Q is read, O is written as f16, K and V are read.
    let rows = wide(shape.heads * queries).saturating_mul(wide(shape.dim));
    let of_keys = wide(shape.kv_heads * keys).saturating_mul(wide(2 * code_bytes));
    Floor {
        fma: (Some(kind), scores.saturating_mul(wide(2 * shape.dim))),
        special: scores,
        loaded: rows.saturating_mul(wide(code_bytes)).saturating_add(of_keys.saturating_mul(wide(shape.dim))),
        stored: rows.saturating_mul(2),
    }
}

/// One rung, run by its own plan.
pub fn rung(
    rung: &Rung,
    shape: &Shape,
    device: &'static Device,
    toolchain: &Toolchain,
) -> Result<Figures, LeftOut> {
    let explained = explain_rung(rung, shape, device, toolchain, false)?;
    Ok(figures(&explained))
}

/// The explanations of a rung's launches.
pub fn explain_rung(
    rung: &Rung,
    shape: &Shape,
    device: &'static Device,
    toolchain: &Toolchain,
    offers: bool,
) -> Result<Vec<Explanation>, LeftOut> {
    let format = rung.formats.first().copied().unwrap_or_default();
    let wanted = Wanted { format, rung: Some(rung.id.to_owned()), ..Wanted::new(shape.clone()) };
    let plan = Plan::new(&wanted, device).map_err(|error| LeftOut::of(&error))?;
    let ptx = plan.compile(toolchain).map_err(|error| LeftOut::of(&error))?;
    let inputs = generate(shape, Distribution::Normal, 0, wanted.spec());
    let source = plan.source();
    let mut gpu = Counting::new(warpproof_sim::Device::new());
    let attention = Attention::load(plan, &ptx, &mut gpu).map_err(|error| LeftOut::of(&error))?;
    attention.run(&mut gpu, &inputs.q, &inputs.k, &inputs.v).map_err(|error| match error {
        RunError::Gpu(error) => LeftOut::of(&error),
        error => LeftOut::of(&error),
    })?;
    let kind = if format == Format::Linear8 { TensorType::F16ToF32 } else { TensorType::F8ToF32 };
    let floor = floor(shape, kind, 1);
    let lines = source.as_ref().map(|source| numbered(&source.text)).unwrap_or_default();
    let text = |file: &str, line: u32| {
        let name = file.rsplit(['/', '\\']).next().unwrap_or(file);
        lines.get(&(name, line)).map(|text| (*text).to_owned())
    };
    let mut explained = Vec::new();
    for (counters, step) in gpu.counters.iter().zip(&attention.plan().steps) {
        let request = Request {
            kernel: if step.kernel == "attention" { rung.name } else { step.kernel },
            symbol: step.kernel,
            ptx: &ptx,
            counters,
            device,
            floor: Some(&floor),
            whole: None,
            timeline: 0,
            offers,
            text: &text,
        };
        explained.push(explain(&request, toolchain).map_err(|error| LeftOut::of(&error))?.0);
    }
    Ok(explained)
}

/// The lines of a source by file and number, according to its `#line` directives.
fn numbered(text: &str) -> BTreeMap<(&str, u32), &str> {
    let (mut file, mut next) = ("", 1_u32);
    let mut lines = BTreeMap::new();
    for line in text.lines() {
        let said = line.strip_prefix("#line ").and_then(|rest| rest.split_once(' '));
        let said = said.and_then(|(number, name)| Some((number.parse().ok()?, name.trim_matches('"'))));
        if let Some((number, name)) = said {
            (next, file) = (number, name);
        } else {
            lines.insert((file, next), line);
            next = next.saturating_add(1);
        }
    }
    lines
}

/// A module of the corpus.
struct Module {
    name: &'static str,
    what: &'static str,
    ptx: &'static str,
    kind: TensorType,
    code_bytes: usize,
}

/// How the modules are launched.
const MANIFEST: &str = include_str!("../data/manifest.json");

/// Those that compute the same problem as the ladder: all keys visible.
const TRITON: &[Module] = &[
    Module {
        name: "attention_f16_64x64",
        what: "Triton's flash attention on f16",
        ptx: include_str!("../data/attention_f16_64x64.sm_89.ptx"),
        kind: TensorType::F16ToF32,
        code_bytes: 2,
    },
    Module {
        name: "attention_e4m3_64x64",
        what: "Triton's flash attention on e4m3",
        ptx: include_str!("../data/attention_e4m3_64x64.sm_89.ptx"),
        kind: TensorType::F8ToF32,
        code_bytes: 1,
    },
];

#[derive(Deserialize)]
struct Manifest {
    modules: Vec<Described>,
}

#[derive(Deserialize)]
struct Described {
    name: String,
    arch: String,
    kernel: String,
    block: u32,
    shared_bytes: u32,
    arguments: Vec<Parameter>,
    constants: Constants,
}

#[derive(Deserialize)]
struct Parameter {
    name: String,
    #[serde(rename = "type")]
    ty: String,
    #[serde(default)]
    scratch: bool,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Constants {
    #[serde(rename = "BLOCK_M")]
    rows: usize,
    #[serde(rename = "BLOCK_N")]
    keys: usize,
    #[serde(rename = "D")]
    dim: usize,
}

fn triton(
    module: &Module,
    shape: &Shape,
    device: &'static Device,
    toolchain: &Toolchain,
) -> Result<Figures, LeftOut> {
    let manifest: Manifest = serde_json::from_str(MANIFEST).map_err(|error| LeftOut::of(&error))?;
    let described = manifest
        .modules
        .iter()
        .find(|one| one.name == module.name && one.arch == "sm_89")
        .ok_or("the corpus has no such module")?;
    let (dim, rows) = (described.constants.dim, described.constants.rows);
    if shape.dim != dim {
        return Err(format!("the module was compiled for rows of {dim} elements").into());
    }
    let counters = run_triton(described, module.ptx, shape, rows.max(1))?;
    let floor = floor(shape, module.kind, module.code_bytes);
    let request = Request {
        kernel: module.name,
        symbol: &described.kernel,
        ptx: module.ptx,
        counters: &counters,
        device,
        floor: Some(&floor),
        whole: None,
        timeline: 0,
        offers: false,
        text: &|_, _| None,
    };
    let (explanation, _) = explain(&request, toolchain).map_err(|error| LeftOut::of(&error))?;
    Ok(figures(&[explanation]))
}

/// Runs a module on the same values as the rungs.
fn run_triton(described: &Described, ptx: &str, shape: &Shape, rows: usize) -> Result<Counters, LeftOut> {
    let inputs = generate(shape, Distribution::Normal, 0, Wanted::new(shape.clone()).spec());
    let narrow = |n: usize| u32::try_from(n).map_err(|_| LeftOut::from("the shape is too large"));
    let sequence = shape.max_queries();
    let mut gpu = warpproof_sim::Device::new();
    let loaded = gpu.load(ptx).map_err(|stop| LeftOut::of(&*stop))?;
    let kernel = loaded.kernel(&described.kernel).map_err(|stop| LeftOut::of(&*stop))?;
    let grid = [narrow(sequence.div_ceil(rows))?, narrow(shape.heads * shape.batch())?, 1];
    let mut launch = kernel.launch().grid(grid).block(described.block).shared(described.shared_bytes);
    for parameter in &described.arguments {
        launch = match parameter.name.as_str() {
            _ if parameter.scratch => launch.arg(0u64),
            "scale" => launch.arg(softmax_scale(shape.dim)),
            "sequence" => launch.arg(narrow(sequence)?),
            name => {
                let bytes = tensor(&inputs, name, element(&parameter.ty)?)?;
                let buffer =
                    gpu.alloc_named::<u8>(name, bytes.len().max(1)).map_err(|error| LeftOut::of(&error))?;
                gpu.write(&buffer, &bytes).map_err(|error| LeftOut::of(&error))?;
                launch.arg(buffer)
            }
        };
    }
    let counted = gpu.count(&launch, &CountSettings::default());
    match counted.outcome.stop {
        Some(stop) => Err(LeftOut::of(&*stop)),
        None => Ok(counted.counters),
    }
}

#[expect(
    clippy::as_conversions,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "a row is short, and the kernel takes the factor as f32"
)]
fn softmax_scale(dim: usize) -> f32 {
    (1.0 / (dim as f64).sqrt()) as f32
}

fn element(ty: &str) -> Result<Dtype, String> {
    Ok(match ty {
        "*fp16" => Dtype::F16,
        "*fp8e4nv" => Dtype::E4m3,
        other => return Err(format!("the manifest names a type `{other}` that attention does not take")),
    })
}

/// The bytes of an argument: a tensor of the problem, or space for the output.
fn tensor(inputs: &Inputs, name: &str, dtype: Dtype) -> Result<Vec<u8>, String> {
    Ok(match name {
        "q" => dtype.bytes(&inputs.q.dequantize()),
        "k" => dtype.bytes(&inputs.k.dequantize()),
        "v" => dtype.bytes(&inputs.v.dequantize()),
        "out" => vec![0; inputs.q.codes.len() * dtype.size()],
        other => {
            return Err(format!("the manifest names an argument `{other}` that attention does not have"));
        }
    })
}

fn figures(explained: &[Explanation]) -> Figures {
    let mut counted = RowCounts::default();
    let (mut cold, mut warm) = (0.0, 0.0);
    let (mut scheduled, mut uncertain, mut assumed) = (Some((0.0, 0.0)), None, 0);
    let mut instructions_of = Origin::MachineCode;
    for one in explained {
        let total = |name: &str| one.counted.totals.get(name).copied().unwrap_or(0);
        counted.blocks += one.counted.blocks;
        if one.counted.instructions_of == Origin::Ptx {
            instructions_of = Origin::Ptx;
        }
        counted.instructions += total("executions");
        counted.tensor += one.counted.work.tensor.iter().map(|(_, fma)| *fma).sum::<u64>();
        counted.wavefronts += one.counted.work.shared_wavefronts;
        counted.conflicts += one.conflicts.iter().map(|one| one.wavefronts - one.ideal).sum::<u64>();
        cold += one.predicted.bounds.cold_us();
        warm += one.predicted.bounds.warm_us();
        match &one.predicted.schedule {
            Scheduled::Known(timed) => {
                assumed += timed.assumed.len();
                scheduled = scheduled.map(|(cold, warm)| (cold + timed.cold.us, warm + timed.warm.us));
            }
            Scheduled::Uncertain { why } => {
                scheduled = None;
                uncertain = uncertain.or_else(|| Some(why.clone()));
            }
        }
    }
    let first = explained.first();
    let bounds = first.map(|one| &one.predicted.bounds);
    let subject = first.map(|one| &one.subject);
    Figures {
        launches: explained.len(),
        counted,
        instructions_of,
        predicted: RowTimes {
            roofline_us: first.and_then(|one| one.predicted.roofline).map(|share| share.us),
            roofline_warm_us: first.and_then(|one| one.predicted.roofline_warm).map(|share| share.us),
            bound_cold_us: cold,
            bound_warm_us: warm,
            binds_cold: bounds.and_then(|bounds| bounds.binding_cold().0).map(|share| share.resource),
            binds_warm: bounds.and_then(|bounds| bounds.binding_warm().0).map(|share| share.resource),
            next_warm: bounds.and_then(|bounds| bounds.binding_warm().1).map(|share| share.resource),
            schedule_cold_us: scheduled.map(|(cold, _)| cold),
            schedule_warm_us: scheduled.map(|(_, warm)| warm),
            uncertain,
            assumed,
            occupancy: bounds.map_or(0.0, |bounds| bounds.occupancy.percent),
            limiters: bounds.map(|bounds| bounds.occupancy.limiters.clone()).unwrap_or_default(),
        },
        registers: subject.map_or(0, |subject| subject.registers),
        shared: subject.map_or(0, |subject| subject.static_shared.saturating_add(subject.dynamic_shared)),
        threads: subject.map_or(0, |subject| subject.block.iter().map(|n| u64::from(*n)).product()),
    }
}

/// The table for a terminal.
pub fn text(ladder: &Ladder) -> String {
    let mut out = format!(
        "{} on an {}: predicted microseconds without launch overhead, bound and schedule, with a cold and a warm L2\n\n",
        ladder.shape, ladder.device
    );
    out.push_str(
        "kernel                 bound cold    warm  schedule cold    warm  occupancy  conflicts   binds warm (next)\n",
    );
    let mut notes = String::new();
    let mut marked = false;
    // Writing to a string cannot fail.
    for row in &ladder.rows {
        match &row.outcome {
            RowOutcome::Explained(figures) => {
                let times = &figures.predicted;
                let us = |us: Option<f64>| us.map_or("–".to_owned(), |us| format!("{us:.2}"));
                let name =
                    |resource: Option<Consumed>| resource.map_or("–".to_owned(), |one| one.to_string());
                // Bounds from PTX instructions are approximate.
                let mark = if figures.instructions_of == Origin::Ptx { "*" } else { "" };
                marked |= figures.instructions_of == Origin::Ptx;
                let _ = writeln!(
                    out,
                    "{:<22} {:>10.2} {:>7.2} {:>14} {:>7} {:>8.1} % {:>10}   {} ({})",
                    format!("{}{mark}", row.name),
                    times.bound_cold_us,
                    times.bound_warm_us,
                    us(times.schedule_cold_us),
                    us(times.schedule_warm_us),
                    times.occupancy,
                    grouped(figures.counted.conflicts),
                    name(times.binds_warm),
                    name(times.next_warm),
                );
                if let Some(why) = &times.uncertain {
                    let _ = writeln!(notes, "{}: no schedule: {why}", row.name);
                }
            }
            RowOutcome::LeftOut(why) => {
                let _ = writeln!(out, "{:<22} skipped: {why}", row.name);
            }
        }
    }
    if !notes.is_empty() {
        let _ = write!(out, "\n{notes}");
    }
    if marked {
        out.push_str(
            "\n* no schedule: instructions are counted on the PTX, so their bounds are approximate\n",
        );
    }
    out.push_str("\nConflicts are counted; all else is predicted. Nothing here was measured.\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_found_where_the_directives_say() {
        let lines = numbered("#line 1 \"n.cu\"\na\n#line 1 \"h.cuh\"\nb\nc\n#line 3 \"n.cu\"\nd\n");
        let found: Vec<_> = lines.into_iter().collect();
        let expected = [(("h.cuh", 1), "b"), (("h.cuh", 2), "c"), (("n.cu", 1), "a"), (("n.cu", 3), "d")];
        assert_eq!(found, expected);
    }
}
