//! Predicted times of the dispatched attention kernels and of Triton's at the shapes of inference servers.
//!
//! All keys are visible, inputs are quantized already, and the L2 cache is warm. A part of each launch runs on the
//! software GPU: some blocks of one key head over all keys. All blocks of a launch are alike, so that their counts stand for
//! it. Blocks of a causal mask are not alike, and those of stream-K wait for each other: such launches run as a whole, and
//! where that would take minutes, the rung before stream-K stands for it.

use serde::Deserialize;
use warpproof_count::{CountLaunch, CountSettings, Counters};
use warpproof_explain::{Explanation, Request as Explained, Scheduled, Whole, explain};
use warpproof_kernels::attention::{Attention, RunError};
use warpproof_kernels::inputs::{Distribution, Inputs, generate};
use warpproof_kernels::plan::{Plan, Request, Splits};
use warpproof_kernels::problem::{Lengths, Mask, Shape};
use warpproof_launch::Counting;
use warpproof_model::Device;
use warpproof_model::bound::Consumed;
use warpproof_task::dtype::Dtype;
use warpproof_toolchain::Toolchain;

use super::{Described, LeftOut, element, softmax_scale};

/// The worst error of a kernel that the model was not fitted to, relative to the measured time; see the book's page on the
/// accuracy of the model.
pub const WORST_ERROR: f64 = 0.241;
/// Tiles of rows that run, of one key head.
const TILES: usize = 2;
/// The most multiply-adds of a launch that runs as a whole.
const MOST_PRODUCTS: usize = 5_000_000_000;
/// The rung before stream-K, whose blocks are alike.
const WITHOUT_STREAM_K: &str = "n8";
/// The most tiles of keys that one block of Triton's `combine` reads.
const MOST_SPLITS: usize = 64;

/// A predicted time.
#[derive(Clone, Debug, PartialEq)]
pub struct Time {
    /// The kernel.
    pub kernel: String,
    /// Microseconds with a warm L2 cache, without launch overhead, of all launches.
    pub us: f64,
    /// Launches.
    pub launches: usize,
    /// Resources and the share of the time for which each would be busy at its peak rate, the busiest first.
    pub busy: Vec<(Consumed, f64)>,
    /// Stall reasons by their names in Nsight Compute, and the share of issue slots that each leaves empty, of the first
    /// launch.
    pub lost: Vec<(&'static str, f64)>,
}

impl Time {
    /// The least and the most microseconds, if the model is as wrong as it was for any kernel.
    pub fn interval(&self) -> (f64, f64) {
        (self.us / (1.0 + WORST_ERROR), self.us / (1.0 - WORST_ERROR))
    }
}

/// The predicted time of the kernels that the library launches for a request.
pub fn ours(request: &Request, device: &'static Device, toolchain: &Toolchain) -> Result<Time, LeftOut> {
    let planned = |request: &Request| Plan::new(request, device).map_err(|error| LeftOut::of(&error));
    let mut plan = planned(request)?;
    let mut name = plan.rung.id.to_owned();
    if plan.fit.stream_k.is_some() && products(&request.shape) > MOST_PRODUCTS {
        plan = planned(&Request { rung: Some(WITHOUT_STREAM_K.to_owned()), ..request.clone() })?;
        name = format!("{name} as {WITHOUT_STREAM_K}");
    }
    let ptx = plan.compile(toolchain).map_err(|error| LeftOut::of(&error))?;
    let part = part(&plan, device)?;
    let shape = &part.request.shape;
    let inputs = generate(shape, Distribution::Normal, 0, part.request.spec());
    let mut gpu = Counting::new(warpproof_sim::Device::new());
    let attention = Attention::load(part, &ptx, &mut gpu).map_err(|error| LeftOut::of(&error))?;
    attention.run_inputs(&mut gpu, &inputs).map_err(|error| match error {
        RunError::Gpu(error) => LeftOut::of(&error),
        error => LeftOut::of(&error),
    })?;
    let mut all = Vec::new();
    for (counters, step) in gpu.counters.iter().zip(&plan.steps) {
        let blocks = step.geometry.grid.iter().map(|extent| u64::from(*extent)).product();
        let whole = Whole { blocks, bytes: bytes(&request.shape, 1) };
        all.push(predicted(step.kernel, &ptx, counters, whole, device, toolchain)?);
    }
    timed(&name, &all)
}

/// The plan for a part of a plan's blocks, with the same program and the same work for each block.
fn part(plan: &Plan, device: &Device) -> Result<Plan, LeftOut> {
    // Rows of a causal mask see different numbers of keys.
    if plan.fit.stream_k.is_some() || plan.request.mask == Mask::Causal {
        return Ok(plan.clone());
    }
    let Shape { dim, sequences, .. } = &plan.request.shape;
    let Some(lengths) = sequences.first() else { return Err("no sequence".into()) };
    let group = plan.request.shape.group();
    let queries = lengths.queries.min(plan.fit.rows * TILES);
    let shape = Shape {
        heads: group,
        kv_heads: 1,
        dim: *dim,
        sequences: vec![Lengths { queries, keys: lengths.keys }],
    };
    let splits = if plan.is_split() {
        Splits::Count(usize::try_from(plan.params.splits).unwrap_or(1))
    } else {
        Splits::None
    };
    let request = Request { shape, splits, rung: Some(plan.rung.id.to_owned()), ..plan.request.clone() };
    let mut part = Plan::new(&request, device).map_err(|error| LeftOut::of(&error))?;
    let tiles = u32::try_from(queries.div_ceil(plan.fit.rows)).unwrap_or(u32::MAX);
    let heads = u32::try_from(group).unwrap_or(u32::MAX);
    if let (false, Some(first), Some(own)) = (plan.is_split(), part.steps.first_mut(), plan.steps.first()) {
        let grid = if plan.fit.heavy_first { [heads, tiles, 1] } else { [tiles, heads, 1] };
        first.geometry = warpproof_launch::Geometry { grid, ..own.geometry };
    }
    part.params.tiles_per_split = plan.params.tiles_per_split;
    if plan.is_split() != part.is_split() || plan.params.splits != part.params.splits {
        return Err("a part of the launch splits its keys in another way".into());
    }
    part.fit = plan.fit.clone();
    part.defines.clone_from(&plan.defines);
    Ok(part)
}

/// Multiply-adds of attention over all keys.
fn products(shape: &Shape) -> usize {
    let pairs =
        shape.sequences.iter().map(|one| one.queries.saturating_mul(one.keys)).fold(0, usize::saturating_add);
    pairs.saturating_mul(2 * shape.heads).saturating_mul(shape.dim)
}

/// Bytes that attention reads and writes once: codes or f16, and f16 out.
fn bytes(shape: &Shape, code_bytes: usize) -> u64 {
    let (queries, keys) = shape.sequences.iter().fold((0, 0), |(q, k), one| (q + one.queries, k + one.keys));
    let elements =
        shape.dim * (shape.heads * queries * (code_bytes + 2) + 2 * shape.kv_heads * keys * code_bytes);
    u64::try_from(elements).unwrap_or(u64::MAX)
}

fn predicted(
    symbol: &str,
    ptx: &str,
    counters: &Counters,
    whole: Whole,
    device: &'static Device,
    toolchain: &Toolchain,
) -> Result<Explanation, LeftOut> {
    // All of a launch that ran as a whole was counted.
    let whole = (whole.blocks != counters.blocks).then_some(whole);
    let request = Explained {
        kernel: symbol,
        symbol,
        ptx,
        counters,
        device,
        floor: None,
        whole,
        timeline: 0,
        offers: false,
        text: &|_, _| None,
    };
    Ok(explain(&request, toolchain).map_err(|error| LeftOut::of(&error))?.0)
}

/// The time of launches one after the other.
fn timed(kernel: &str, all: &[Explanation]) -> Result<Time, LeftOut> {
    let mut us = 0.0;
    let mut busy: Vec<(Consumed, f64)> = Vec::new();
    let mut lost = Vec::new();
    for (index, one) in all.iter().enumerate() {
        match &one.predicted.schedule {
            Scheduled::Known(timed) => {
                us += timed.warm.us.max(one.predicted.bounds.warm_us());
                if index == 0 {
                    lost = timed.warm.lost.iter().map(|stall| (stall.nsight, stall.share)).collect();
                }
            }
            Scheduled::Uncertain { why } => return Err(why.clone().into()),
        }
        for share in &one.predicted.bounds.warm {
            match busy.iter_mut().find(|(resource, _)| *resource == share.resource) {
                Some((_, us)) => *us += share.us,
                None => busy.push((share.resource, share.us)),
            }
        }
    }
    for (_, share) in &mut busy {
        *share /= us;
    }
    busy.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    Ok(Time { kernel: kernel.to_owned(), us, launches: all.len(), busy, lost })
}

/// A format of Triton's kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names of the formats")]
pub enum TritonFormat {
    F16,
    E4m3,
}

impl TritonFormat {
    fn name(self) -> &'static str {
        match self {
            TritonFormat::F16 => "f16",
            TritonFormat::E4m3 => "e4m3",
        }
    }

    fn bytes(self) -> usize {
        if self == TritonFormat::F16 { 2 } else { 1 }
    }
}

#[derive(Deserialize)]
struct Manifest {
    modules: Vec<Described>,
}

const MANIFEST: &str = include_str!("../data/serving/manifest.json");

/// The modules by name.
const MODULES: &[(&str, &str)] = &[
    ("attend_e4m3_d128", include_str!("../data/serving/attend_e4m3_d128.ptx")),
    ("attend_e4m3_d64", include_str!("../data/serving/attend_e4m3_d64.ptx")),
    ("attend_f16_d128", include_str!("../data/serving/attend_f16_d128.ptx")),
    ("attend_f16_d64", include_str!("../data/serving/attend_f16_d64.ptx")),
    ("combine_d128", include_str!("../data/serving/combine_d128.ptx")),
    ("combine_d64", include_str!("../data/serving/combine_d64.ptx")),
    ("decode_e4m3_d128", include_str!("../data/serving/decode_e4m3_d128.ptx")),
    ("decode_e4m3_d64", include_str!("../data/serving/decode_e4m3_d64.ptx")),
    ("decode_f16_d128", include_str!("../data/serving/decode_f16_d128.ptx")),
    ("decode_f16_d64", include_str!("../data/serving/decode_f16_d64.ptx")),
];

/// The module of a name.
fn module(name: &str) -> Result<(Described, &'static str), LeftOut> {
    let manifest: Manifest = serde_json::from_str(MANIFEST).map_err(|error| LeftOut::of(&error))?;
    let described = manifest.modules.into_iter().find(|one| one.name == name);
    let ptx = MODULES.iter().find(|(own, _)| *own == name).map(|(_, ptx)| *ptx);
    match (described, ptx) {
        (Some(described), Some(ptx)) => Ok((described, ptx)),
        _ => Err(format!("there is no module `{name}`").into()),
    }
}

/// A launch of one of Triton's kernels, and the output that it left.
struct Ran {
    name: String,
    ptx: &'static str,
    kernel: String,
    counters: Counters,
}

/// Triton's kernels on a device: memory by the names of arguments, which launches share.
struct Bed {
    gpu: warpproof_sim::Device,
    buffers: Vec<(&'static str, warpproof_sim::Buffer<u8>)>,
    numbers: Vec<(&'static str, u32)>,
    dim: usize,
}

impl Bed {
    fn put(&mut self, name: &'static str, bytes: &[u8]) -> Result<(), LeftOut> {
        let buffer =
            self.gpu.alloc_named::<u8>(name, bytes.len().max(1)).map_err(|error| LeftOut::of(&error))?;
        self.gpu.write(&buffer, bytes).map_err(|error| LeftOut::of(&error))?;
        self.buffers.push((name, buffer));
        Ok(())
    }

    fn launch(&mut self, name: &str, grid: [usize; 3]) -> Result<Ran, LeftOut> {
        let (described, ptx) = module(name)?;
        let loaded = self.gpu.load(ptx).map_err(|stop| LeftOut::of(&*stop))?;
        let kernel = loaded.kernel(&described.kernel).map_err(|stop| LeftOut::of(&*stop))?;
        let grid = [narrow(grid[0])?, narrow(grid[1])?, narrow(grid[2])?];
        let mut launch = kernel.launch().grid(grid).block(described.block).shared(described.shared_bytes);
        for parameter in &described.arguments {
            let own = parameter.name.as_str();
            launch = if parameter.scratch {
                launch.arg(0u64)
            } else if own == "scale" {
                launch.arg(softmax_scale(self.dim))
            } else if let Some((_, number)) = self.numbers.iter().find(|(name, _)| *name == own) {
                launch.arg(*number)
            } else if let Some((_, buffer)) = self.buffers.iter().find(|(name, _)| *name == own) {
                launch.arg(*buffer)
            } else {
                return Err(format!("the manifest names an argument `{own}`").into());
            };
        }
        let counted = self.gpu.count(&launch, &CountSettings::default());
        match counted.outcome.stop {
            Some(stop) => Err(LeftOut::of(&*stop)),
            None => {
                Ok(Ran { name: name.to_owned(), ptx, kernel: described.kernel, counters: counted.counters })
            }
        }
    }
}

fn narrow(n: usize) -> Result<u32, LeftOut> {
    u32::try_from(n).map_err(|_| LeftOut::from("the shape is too large"))
}

/// Runs Triton's kernels on inputs of a shape whose sequences are equal; `splits` for one query per sequence.
fn run(
    shape: &Shape,
    inputs: &Inputs,
    format: TritonFormat,
    splits: usize,
) -> Result<(Vec<Ran>, Vec<f64>), LeftOut> {
    let Some(lengths) = shape.sequences.first().copied() else { return Err("no sequence".into()) };
    let dtype = element(if format == TritonFormat::F16 { "*fp16" } else { "*fp8e4nv" })?;
    let heads = shape.heads * shape.batch();
    let mut bed =
        Bed { gpu: warpproof_sim::Device::new(), buffers: Vec::new(), numbers: Vec::new(), dim: shape.dim };
    for (name, tensor) in [("q", &inputs.q), ("k", &inputs.k), ("v", &inputs.v)] {
        bed.put(name, &dtype.bytes(&tensor.dequantize()))?;
    }
    bed.put("out", &vec![0xff; 2 * heads * lengths.queries * shape.dim])?;
    for (name, number) in [("queries", lengths.queries), ("keys", lengths.keys), ("group", shape.group())] {
        bed.numbers.push((name, narrow(number)?));
    }
    let (kind, dim) = (format.name(), shape.dim);
    let ran = if lengths.queries == 1 {
        let per_split = lengths.keys.div_ceil(splits);
        bed.put("partial", &vec![0xff; 4 * splits * heads * dim])?;
        bed.put("sums", &vec![0xff; 8 * splits * heads])?;
        bed.numbers.push(("per_split", narrow(per_split)?));
        bed.numbers.push(("splits", narrow(splits)?));
        let first =
            bed.launch(&format!("decode_{kind}_d{dim}"), [shape.kv_heads * shape.batch(), splits, 1])?;
        let second = bed.launch(&format!("combine_d{dim}"), [heads, 1, 1])?;
        vec![first, second]
    } else {
        let name = format!("attend_{kind}_d{dim}");
        let rows = module(&name)?.0.constants.rows.max(1);
        vec![bed.launch(&name, [lengths.queries.div_ceil(rows), heads, 1])?]
    };
    let mut values = Vec::new();
    for (_, buffer) in bed.buffers.iter().filter(|(name, _)| *name == "out") {
        let bytes = bed.gpu.read(buffer).map_err(|error| LeftOut::of(&error))?;
        let codes = bytes.as_chunks::<2>().0.iter().map(|pair| u16::from_le_bytes(*pair));
        values.extend(codes.map(|code| Dtype::F16.decode(u64::from(code))));
    }
    Ok((ran, values))
}

/// The output of Triton's kernels, for inputs in the layout BHSD.
pub fn triton_output(inputs: &Inputs, format: TritonFormat, splits: usize) -> Result<Vec<f64>, LeftOut> {
    Ok(run(&inputs.shape, inputs, format, splits)?.1)
}

/// The predicted time of Triton's kernels at a shape whose sequences are equal.
pub fn triton(
    shape: &Shape,
    format: TritonFormat,
    device: &'static Device,
    toolchain: &Toolchain,
) -> Result<Time, LeftOut> {
    let Some(lengths) = shape.sequences.first().copied() else { return Err("no sequence".into()) };
    let (kind, dim) = (format.name(), shape.dim);
    let (keyed, heads) = (shape.kv_heads * shape.batch(), shape.heads * shape.batch());
    let (mut splits, mut queries) = (1, 1);
    let blocks: Vec<usize> = if lengths.queries == 1 {
        // As many blocks as fill the device twice, each with at least one tile of keys, as our own kernels.
        let tile = module(&format!("decode_{kind}_d{dim}"))?.0.constants.keys.max(1);
        let sms = usize::try_from(device.multiprocessors.value).unwrap_or(1);
        splits = (2 * sms).div_ceil(keyed).clamp(1, lengths.keys.div_ceil(tile).min(MOST_SPLITS));
        vec![keyed * splits, heads]
    } else {
        let rows = module(&format!("attend_{kind}_d{dim}"))?.0.constants.rows.max(1);
        queries = lengths.queries.min(rows * TILES);
        vec![lengths.queries.div_ceil(rows) * heads]
    };
    let part = Shape {
        heads: shape.group(),
        kv_heads: 1,
        dim,
        sequences: vec![Lengths { queries, keys: lengths.keys }],
    };
    let inputs = generate(&part, Distribution::Normal, 0, Request::new(part.clone()).spec());
    let (ran, _) = run(&part, &inputs, format, splits)?;
    let mut all = Vec::new();
    for (one, blocks) in ran.iter().zip(blocks) {
        let blocks = u64::try_from(blocks).unwrap_or(u64::MAX);
        let whole = Whole { blocks, bytes: bytes(shape, format.bytes()) };
        all.push(predicted(&one.kernel, one.ptx, &one.counters, whole, device, toolchain)?);
    }
    timed(ran.first().map_or("", |one| one.name.as_str()), &all)
}
