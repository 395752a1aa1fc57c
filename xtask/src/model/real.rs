//! Whole kernels with published times, rebuilt in `crates/model/kernels`, counted and predicted.
//!
//! Launches that are too long are run in part: as many blocks as are resident on the device at a time, and for matrix products two
//! short depths, from which the time is extrapolated linearly.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};

use warpproof_count::{CountLaunch, CountSettings, Counters};
use warpproof_explain::{Request, Scheduled, Whole, explain};
use warpproof_model::{Device, Sourced};
use warpproof_toolchain::{CompileOptions, Source, Toolchain};

use crate::cores;
use crate::part::{Part, Results};

/// What kind of kernel it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Class {
    Stream,
    Short,
    Sgemm,
    Tensor,
}

impl Class {
    fn title(self) -> &'static str {
        match self {
            Class::Stream => "streams from memory",
            Class::Short => "short kernels in a graph, out of L2",
            Class::Sgemm => "f32 products",
            Class::Tensor => "f16 products by tensor cores",
        }
    }
}

/// How a kernel is launched.
#[derive(Clone, Copy, Debug)]
enum Shape {
    /// The number of threads in a block, with two blocks for each multiprocessor, and the number of arrays of 2^27 + 2 doubles.
    Stream { threads: u32, arrays: u32 },
    /// The number of doubles, and of threads in a block.
    Short { doubles: u32, threads: u32 },
    /// A matrix product of 4096³: the threads of a block, rows and columns of its tile, whether blocks are ordered by column, and
    /// the number of resident blocks per multiprocessor.
    Product { block: [u32; 2], tile: [u32; 2], down: bool, resident: u32 },
}

/// A published time.
#[derive(Clone, Copy, Debug)]
struct Row {
    class: Class,
    kernel: &'static str,
    device: &'static str,
    shape: Shape,
    /// Gigabytes per second, or 10^12 operations per second.
    published: f64,
    /// Whether a constant of the model was fitted to it.
    fit: bool,
    source: &'static str,
}

const STREAM_L40: &str = "gpu-benches, gpu-stream/l40.txt";
const STREAM_A40: &str = "gpu-benches, gpu-stream/a40.txt";
const STREAM_A100: &str = "gpu-benches, gpu-stream/a100_40.txt";
const STREAM_H100: &str = "gpu-benches, README, H100 PCIe";
const SMALL_L40: &str = "gpu-benches, gpu-small-kernels/l40_graph.txt";
const SMALL_A40: &str = "gpu-benches, gpu-small-kernels/a40_graph.txt";
const SIBOEHM: &str = "siboehm/SGEMM_CUDA, README";
const LEIMAO: &str = "leimao/CUDA-GEMM-Optimization, README";
const SPATTERS: &str = "spatters/mma-matmul, README";

const fn stream(
    kernel: &'static str,
    device: &'static str,
    threads: u32,
    arrays: u32,
    published: f64,
    source: &'static str,
) -> Row {
    Row {
        class: Class::Stream,
        kernel,
        device,
        shape: Shape::Stream { threads, arrays },
        published,
        fit: false,
        source,
    }
}

const fn short(
    device: &'static str,
    doubles: u32,
    threads: u32,
    published: f64,
    source: &'static str,
) -> Row {
    let shape = Shape::Short { doubles, threads };
    Row { class: Class::Short, kernel: "quarter", device, shape, published, fit: false, source }
}

const fn product(
    kernel: &'static str,
    device: &'static str,
    shape: Shape,
    published: f64,
    source: &'static str,
) -> Row {
    Row { class: Class::Sgemm, kernel, device, shape, published, fit: false, source }
}

const fn fit(row: Row) -> Row {
    Row { fit: true, ..row }
}

const fn tensor(row: Row) -> Row {
    Row { class: Class::Tensor, ..row }
}

const NAIVE: Shape = Shape::Product { block: [32, 32], tile: [32, 32], down: true, resident: 1 };
const FLAT: Shape = Shape::Product { block: [1024, 1], tile: [32, 32], down: true, resident: 1 };
const COLUMN: Shape = Shape::Product { block: [512, 1], tile: [64, 64], down: false, resident: 3 };
const SQUARE: Shape = Shape::Product { block: [256, 1], tile: [128, 128], down: false, resident: 2 };
const SMALL_TILE: Shape = Shape::Product { block: [16, 16], tile: [32, 32], down: false, resident: 6 };
const MIDDLE_TILE: Shape = Shape::Product { block: [16, 16], tile: [64, 64], down: false, resident: 4 };
const LARGE_TILE: Shape = Shape::Product { block: [16, 16], tile: [128, 128], down: false, resident: 2 };

/// Every time.
const ROWS: &[Row] = &[
    fit(stream("init", "l40", 256, 1, 846.0, STREAM_L40)),
    fit(stream("read", "l40", 256, 1, 844.0, STREAM_L40)),
    fit(stream("scale", "l40", 256, 2, 792.0, STREAM_L40)),
    fit(stream("triad", "l40", 256, 3, 795.0, STREAM_L40)),
    fit(stream("read", "l40", 64, 1, 320.0, STREAM_L40)),
    stream("scale", "l40", 64, 2, 549.0, STREAM_L40),
    stream("read", "a40", 256, 1, 552.0, STREAM_A40),
    stream("scale", "a40", 256, 2, 643.0, STREAM_A40),
    stream("triad", "a40", 512, 3, 655.0, STREAM_A40),
    stream("read", "a40", 512, 1, 679.0, STREAM_A40),
    stream("init", "a100", 512, 1, 1503.0, STREAM_A100),
    stream("read", "a100", 256, 1, 579.0, STREAM_A100),
    stream("read", "a100", 1024, 1, 1490.0, STREAM_A100),
    stream("scale", "a100", 256, 2, 954.0, STREAM_A100),
    stream("scale", "a100", 1024, 2, 1381.0, STREAM_A100),
    stream("triad", "a100", 512, 3, 1359.0, STREAM_A100),
    stream("read", "h100-pcie", 512, 1, 1261.0, STREAM_H100),
    stream("scale", "h100-pcie", 512, 2, 1583.0, STREAM_H100),
    stream("triad", "h100-pcie", 512, 3, 1675.0, STREAM_H100),
    fit(short("l40", 4096, 256, 68.0, SMALL_L40)),
    short("l40", 15_625, 256, 246.0, SMALL_L40),
    short("l40", 63_237, 256, 819.0, SMALL_L40),
    short("l40", 63_237, 64, 602.0, SMALL_L40),
    short("l40", 160_631, 512, 1692.0, SMALL_L40),
    fit(short("l40", 160_631, 256, 1621.0, SMALL_L40)),
    short("l40", 650_360, 256, 3421.0, SMALL_L40),
    short("a40", 4096, 256, 58.0, SMALL_A40),
    short("a40", 7768, 256, 109.0, SMALL_A40),
    product("naive", "a6000", NAIVE, 0.309, SIBOEHM),
    product("coalesced", "a6000", FLAT, 1.9865, SIBOEHM),
    product("shared", "a6000", FLAT, 2.9803, SIBOEHM),
    product("column", "a6000", COLUMN, 8.4747, SIBOEHM),
    product("square", "a6000", SQUARE, 15.9717, SIBOEHM),
    product("wide", "a6000", SQUARE, 18.2373, SIBOEHM),
    product("naive", "rtx3090", NAIVE, 0.278_129, LEIMAO),
    product("coalesced", "rtx3090", FLAT, 1.7218, LEIMAO),
    product("shared", "rtx3090", FLAT, 2.661_57, LEIMAO),
    tensor(product("plain_1", "rtx4090", SMALL_TILE, 29.4, SPATTERS)),
    tensor(product("plain_2", "rtx4090", MIDDLE_TILE, 57.3, SPATTERS)),
    tensor(product("staged_2", "rtx4090", MIDDLE_TILE, 137.4, SPATTERS)),
    tensor(product("staged_4", "rtx4090", LARGE_TILE, 153.6, SPATTERS)),
];

/// Number of doubles in an array of a stream kernel.
const DOUBLES: u32 = (1 << 27) + 2;
/// The side of the matrices.
const SIDE: u32 = 4096;
/// Depths that are run instead of the full one.
const DEPTHS: [u32; 2] = [128, 256];

/// The device of a row: one of the table, or a variant of one with a different clock, multiprocessor count and memory.
fn device(id: &str) -> Result<&'static Device, String> {
    const SPEC: &str = "NVIDIA datasheet; the clock as the source reports it";
    let sister = |of: &str, name: &'static str, sms: u32, mhz: u32, bandwidth: u32| {
        let of = Device::named(of).ok_or("unknown device")?;
        let with = |value: u32| Sourced { value, source: SPEC };
        let device = Device {
            name,
            multiprocessors: with(sms),
            boost_mhz: with(mhz),
            bandwidth_gb_s: with(bandwidth),
            ..*of
        };
        // Leaks a handful of devices for the lifetime of the process.
        Ok::<&'static Device, String>(Box::leak(Box::new(device)))
    };
    match id {
        "l40" => sister("l40s", "NVIDIA L40", 142, 2490, 864),
        "a40" => sister("rtx3090", "NVIDIA A40", 84, 1740, 696),
        "a6000" => sister("rtx3090", "NVIDIA RTX A6000", 84, 1800, 768),
        "h100-pcie" => sister("h100", "NVIDIA H100 PCIe", 114, 1755, 2000),
        id => Device::named(id).ok_or_else(|| format!("unknown device {id}")),
    }
}

/// A part of a launch, and the size of the whole.
struct Launched {
    grid: [u32; 3],
    block: [u32; 3],
    shared: u32,
    whole: Whole,
    /// Bytes of the arrays, and the scalar arguments after them.
    arrays: [u64; 3],
    numbers: Vec<Vec<u8>>,
}

fn part(device: &Device, shape: Shape, depth: u32) -> Launched {
    let sms = device.multiprocessors.value;
    let word = |number: u32| number.to_le_bytes().to_vec();
    match shape {
        Shape::Stream { threads, arrays } => {
            let sample = 2 * sms;
            let bytes = u64::from(sample * threads) * 8;
            let whole = Whole {
                blocks: u64::from(DOUBLES / threads + 1),
                bytes: u64::from(DOUBLES) * 8 * u64::from(arrays),
            };
            // A third block does not fit.
            let shared = device.capability.shared.value / 2 - 2048;
            let numbers = vec![word(sample * threads), word(0)];
            Launched {
                grid: [sample, 1, 1],
                block: [threads, 1, 1],
                shared,
                whole,
                arrays: [bytes; 3],
                numbers,
            }
        }
        Shape::Short { doubles, threads } => {
            let blocks = doubles / threads + 1;
            let bytes = u64::from(doubles) * 8;
            let whole = Whole { blocks: u64::from(blocks), bytes: 2 * bytes };
            let numbers = vec![word(doubles), word(0)];
            Launched {
                grid: [blocks, 1, 1],
                block: [threads, 1, 1],
                shared: 0,
                whole,
                arrays: [bytes; 3],
                numbers,
            }
        }
        Shape::Product { block, tile, down, resident } => {
            let (rows, columns) = (SIDE / tile[0], SIDE / tile[1]);
            let first = if down { rows } else { columns };
            let sample = (sms * resident).min(rows * columns);
            let x = first.min(sample);
            let y = sample.div_ceil(x);
            let m = tile[0] * if down { x } else { y };
            let whole =
                Whole { blocks: u64::from(rows * columns), bytes: 3 * 4 * u64::from(SIDE) * u64::from(SIDE) };
            let bytes = |elements: u32| u64::from(elements) * 4;
            let arrays = [bytes(m * depth), bytes(depth * SIDE), bytes(m * SIDE)];
            let numbers = vec![
                word(m),
                word(SIDE),
                word(depth),
                1.0_f32.to_le_bytes().to_vec(),
                0.5_f32.to_le_bytes().to_vec(),
            ];
            Launched { grid: [x, y, 1], block: [block[0], block[1], 1], shared: 0, whole, arrays, numbers }
        }
    }
}

/// The file of a kernel.
fn file(row: &Row) -> &'static str {
    match row.class {
        Class::Stream | Class::Short => "crates/model/kernels/stream.cu",
        Class::Sgemm => "crates/model/kernels/sgemm.cu",
        Class::Tensor => "crates/model/kernels/hgemm.cu",
    }
}

fn count(ptx: &str, row: &Row, part: &Launched) -> Result<Counters, String> {
    let mut gpu = warpproof_sim::Device::new();
    let module = gpu.load(ptx).map_err(|stop| stop.to_string())?;
    let kernel = module.kernel(row.kernel).map_err(|stop| stop.to_string())?;
    let mut launch = kernel.launch().grid(part.grid).block(part.block).shared(part.shared);
    for (index, bytes) in part.arrays.iter().enumerate() {
        let bytes = usize::try_from(*bytes).map_err(|error| error.to_string())?;
        let buffer =
            gpu.alloc_named::<u8>(&format!("array{index}"), bytes).map_err(|error| error.to_string())?;
        gpu.write(&buffer, &vec![0; bytes]).map_err(|error| error.to_string())?;
        launch = launch.arg(buffer);
    }
    for number in &part.numbers {
        launch = launch.arg(number.clone());
    }
    let counted = gpu.count(&launch, &CountSettings::default());
    counted.outcome.stop.map_or(Ok(counted.counters), |stop| Err(stop.to_string()))
}

/// Predicted microseconds at a depth.
fn at_depth(
    toolchain: &Toolchain,
    row: &Row,
    ptx: &str,
    device: &'static Device,
    depth: u32,
) -> Result<f64, String> {
    let part = part(device, row.shape, depth);
    let counters = count(ptx, row, &part)?;
    let request = Request {
        kernel: row.kernel,
        symbol: row.kernel,
        ptx,
        counters: &counters,
        whole: Some(part.whole),
        device,
        floor: None,
        timeline: 0,
        offers: false,
        text: &|_, _| None,
    };
    let (explanation, _) = explain(&request, toolchain).map_err(|error| error.to_string())?;
    match explanation.predicted.schedule {
        // A kernel that is launched repeatedly finds its arrays in the cache.
        Scheduled::Known(timed) if row.class == Class::Short => {
            Ok(timed.warm.us + explanation.predicted.bounds.launch_us)
        }
        Scheduled::Known(timed) => Ok(timed.cold.us),
        Scheduled::Uncertain { why } => Err(why),
    }
}

/// Published microseconds.
fn published(row: &Row) -> f64 {
    let side = f64::from(SIDE);
    match row.shape {
        Shape::Stream { arrays, .. } => f64::from(DOUBLES) * 8.0 * f64::from(arrays) / row.published / 1e3,
        Shape::Short { doubles, .. } => f64::from(doubles) * 16.0 / row.published / 1e3,
        Shape::Product { .. } => 2.0 * side * side * side / row.published / 1e6,
    }
}

/// The prediction for a row, or the reason why there is none.
pub(super) type Outcome = Result<f64, String>;

/// Predicts the rows of this part.
pub(super) fn predict(part: &Part, toolchain: &Toolchain) -> Result<Results<Outcome>, String> {
    let compiled = Mutex::new(BTreeMap::new());
    let results = part.each(cores(), ROWS, |row| {
        let device = device(row.device)?;
        let key = (file(row), device.capability.arch());
        let known = compiled.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
        let ptx: Arc<str> = match known {
            Some(ptx) => ptx,
            None => compile(toolchain, key.0, &key.1)?.into(),
        };
        compiled.lock().unwrap_or_else(PoisonError::into_inner).insert(key, Arc::clone(&ptx));
        Ok(time(toolchain, row, &ptx, device))
    });
    results.all()
}

fn compile(toolchain: &Toolchain, file: &str, arch: &str) -> Result<String, String> {
    let path = crate::root().join(file);
    let source = Source::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let options = CompileOptions { std: Some("c++17".to_owned()), ..CompileOptions::new(arch) };
    toolchain.compile(&source, &options).map(|made| made.ptx).map_err(|error| error.to_string())
}

fn time(toolchain: &Toolchain, row: &Row, ptx: &str, device: &'static Device) -> Outcome {
    let Shape::Product { .. } = row.shape else { return at_depth(toolchain, row, ptx, device, 0) };
    let [few, many] = DEPTHS;
    let (first, second) =
        (at_depth(toolchain, row, ptx, device, few)?, at_depth(toolchain, row, ptx, device, many)?);
    Ok(first + (second - first) / f64::from(many - few) * f64::from(SIDE - few))
}

/// Errors of a class in percent: their mean and the worst, over rows to which no constant was fitted.
fn errors(predicted: &[Outcome], class: Option<Class>) -> (f64, f64, usize) {
    let held = ROWS
        .iter()
        .zip(predicted)
        .filter(|(row, _)| !row.fit && class.is_none_or(|class| row.class == class));
    let all: Vec<f64> =
        held.filter_map(|(row, us)| us.as_ref().ok().map(|us| error(row, *us).abs())).collect();
    let count = u32::try_from(all.len()).unwrap_or(u32::MAX).max(1);
    (all.iter().sum::<f64>() / f64::from(count), all.iter().copied().fold(0.0, f64::max), all.len())
}

fn error(row: &Row, us: f64) -> f64 {
    (us / published(row) - 1.0) * 100.0
}

pub(super) fn summary(predicted: &[Outcome]) -> String {
    let (mean, worst, count) = errors(predicted, None);
    let refused = predicted.iter().filter(|one| one.is_err()).count();
    format!(
        "mean error {mean:.1} %, worst {worst:.1} %, over {count} whole kernels; {refused} without a prediction"
    )
}

/// The table of the book.
pub(super) fn table(predicted: &[Outcome]) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(text, "| class | rows held out | mean error | worst |\n|---|---:|---:|---:|");
    for class in [Class::Stream, Class::Short, Class::Sgemm, Class::Tensor] {
        let (mean, worst, count) = errors(predicted, Some(class));
        let _ = writeln!(text, "| {} | {count} | {mean:.1} % | {worst:.1} % |", class.title());
    }
    let (mean, worst, count) = errors(predicted, None);
    let _ = writeln!(text, "| all | {count} | {mean:.1} % | {worst:.1} % |\n");
    let _ =
        writeln!(text, "| kernel | device | launch | published µs | predicted µs | error | role | source |");
    let _ = writeln!(text, "|---|---|---|---:|---:|---:|---|---|");
    for (row, us) in ROWS.iter().zip(predicted) {
        text += &line(row, us);
        text.push('\n');
    }
    text
}

/// Lines of the table: the index of a row, and its prediction.
pub(super) fn lines(predicted: &[(usize, Outcome)]) -> Vec<String> {
    predicted.iter().filter_map(|(index, us)| Some(line(ROWS.get(*index)?, us))).collect()
}

fn line(row: &Row, us: &Outcome) -> String {
    let name = device(row.device).map_or(row.device, |device| device.name);
    let launch = match row.shape {
        Shape::Stream { threads, .. } => {
            format!("2 blocks of {threads} threads per multiprocessor, 2^27 doubles")
        }
        Shape::Short { doubles, threads } => format!("{doubles} doubles, blocks of {threads}"),
        Shape::Product { .. } => "4096 × 4096 × 4096".to_owned(),
    };
    let role = if row.fit { "fit" } else { "held out" };
    let (time, off) = match us {
        Ok(us) => (digits(*us), format!("{:+.1} %", error(row, *us))),
        Err(why) => ("–".to_owned(), why.clone()),
    };
    format!(
        "| `{}` | {name} | {launch} | {} | {time} | {off} | {role} | {} |",
        row.kernel,
        digits(published(row)),
        row.source
    )
}

/// A time with three digits or more.
fn digits(us: f64) -> String {
    if us < 100.0 { format!("{us:.2}") } else { format!("{us:.0}") }
}
