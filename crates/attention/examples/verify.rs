//! Compares what the library computes on the first CUDA device with the oracles: bit for bit, and within derived limits.
//!
//!     cargo run --example verify
//!
//! Without a GPU: `warpproof exec -- target/debug/examples/verify`, which also checks the kernels. Every kind of kernel that the
//! library has is run once, on sizes with tails.
#![expect(clippy::print_stdout, reason = "an example prints its results")]

use std::error::Error;
use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaSlice, CudaStream, DevicePtr};
use warpproof_attention::{Arguments, Prepared, Problem, Tensor};
use warpproof_kernels::format::OutputFormat;
use warpproof_kernels::inputs::{Distribution, generate};
use warpproof_kernels::oracle::quantize as oracle;
use warpproof_kernels::paged::PageTable;
use warpproof_kernels::params::Strides;
use warpproof_kernels::problem::{Granularity, Layout, Lengths, Mask, Rows, Shape, Window};
use warpproof_kernels::quantize::{Element, Quantize};
use warpproof_kernels::tensor::Unquantizable;
use warpproof_kernels::{Answer, Format, Inputs, Plan, Quantized, Request, Scales};

fn main() -> Result<(), Box<dyn Error>> {
    let context = CudaContext::new(0)?;
    let stream = context.new_stream()?;
    let (mut failed, problems) = (0, problems());
    for problem in &problems {
        let outcome = verify(&stream, problem);
        let text = match &outcome {
            Ok(text) => text.clone(),
            Err(error) => format!("FAILED: {error}"),
        };
        failed += usize::from(outcome.is_err());
        println!("{}: {text}", describe(problem));
    }
    println!("{} of {} problems have the bits of the oracle", problems.len() - failed, problems.len());
    if failed == 0 { Ok(()) } else { Err("some problems failed".into()) }
}

/// One problem for each kind of kernel.
fn problems() -> Vec<Problem> {
    let mut all = Vec::new();
    for dim in warpproof_attention::catalog::DIMS {
        for (queries, keys) in [(70, 133), (1, 200)] {
            for mask in [Mask::Full, Mask::Causal] {
                let sequences = vec![Lengths { queries, keys }; 2];
                let shape = Shape { heads: 4, kv_heads: 2, dim, sequences };
                let base = Request { mask, layout: Layout::Bshd, lse: true, ..Request::new(shape.clone()) };
                let varlen = shape.with(vec![
                    Lengths { queries, keys },
                    Lengths { queries: queries.div_ceil(3), keys: keys - 65 },
                    Lengths { queries: 1, keys: 1 },
                ]);
                all.extend(
                    [
                        base.clone(),
                        Request { layout: Layout::Bhsd, lse: false, ..base.clone() },
                        Request { scales: Scales::all(Granularity::Block), ..base.clone() },
                        Request { output: OutputFormat::Bf16, ..base.clone() },
                        Request { format: Format::E5m2, ..base.clone() },
                        Request { shape: varlen, scales: Scales::all(Granularity::Block), ..base.clone() },
                    ]
                    .map(Problem::from),
                );
                if mask == Mask::Causal {
                    let (base, window) = (&all_scales(&base), Window::left(40));
                    all.extend(
                        [
                            Request { window, ..base.clone() },
                            Request { sinks: true, ..base.clone() },
                            Request { window, sinks: true, output: OutputFormat::Bf16, ..base.clone() },
                            Request { softcap: Some(2.0), ..base.clone() },
                            Request { softcap: Some(2.0), window, ..base.clone() },
                            Request { alibi: true, ..base.clone() },
                        ]
                        .map(Problem::from),
                    );
                }
                if mask == Mask::Causal {
                    for (page_size, granularity, values) in
                        [(64, Granularity::Block, None), (128, Granularity::Head, Some(Element::F16))]
                    {
                        let lengths_on_device = true;
                        let scales = Scales::all(granularity);
                        let request =
                            Request { page_size: Some(page_size), scales, lengths_on_device, ..base.clone() };
                        all.push(Problem { request, values, smooth_keys: false });
                    }
                }
                for (element, granularity, smooth_keys) in [
                    (Element::F16, Granularity::Head, false),
                    (Element::Bf16, Granularity::Block, false),
                    (Element::F16, Granularity::Block, true),
                ] {
                    let request = Request { scales: Scales::all(granularity), ..base.clone() };
                    all.push(Problem { request, values: Some(element), smooth_keys });
                }
            }
        }
    }
    all
}

/// The request with scales per block.
fn all_scales(request: &Request) -> Request {
    Request { scales: Scales::all(Granularity::Block), ..request.clone() }
}

fn describe(problem: &Problem) -> String {
    let Request { shape, mask, format, scales, output, layout, .. } = &problem.request;
    let values = problem.values.map_or_else(|| format.to_string(), |element| format!("{element:?}"));
    let smooth = if problem.smooth_keys { ", smooth keys" } else { "" };
    let Request { window, softcap, sinks, alibi, page_size, .. } = &problem.request;
    let mut rare = window.left.map_or_else(String::new, |keys| format!(", window of {keys}"));
    rare.push_str(&page_size.map_or_else(String::new, |keys| format!(", pages of {keys}")));
    for (name, on) in [("soft cap", softcap.is_some()), ("sinks", *sinks), ("ALiBi", *alibi)] {
        if on {
            rare.extend([", ", name]);
        }
    }
    format!(
        "{shape} {mask:?}, {values}{smooth}{rare}, scales per {:?}, output {output:?}, {layout:?}",
        scales.q
    )
}

/// Device memory of a run.
struct Memory<'a> {
    stream: &'a Arc<CudaStream>,
    held: Vec<CudaSlice<u8>>,
}

impl Memory<'_> {
    /// Copies bytes to the device, and returns their address.
    fn put(&mut self, bytes: &[u8]) -> Result<u64, Box<dyn Error>> {
        let slice = self.stream.clone_htod(bytes)?;
        let address = slice.device_ptr(self.stream).0;
        self.held.push(slice);
        Ok(address)
    }

    /// The bytes of the memory that was put at this place.
    fn get(&self, place: usize) -> Result<Vec<u8>, Box<dyn Error>> {
        let slice = self.held.get(place).ok_or("there is no such memory")?;
        let bytes = self.stream.clone_dtoh(slice)?;
        self.stream.synchronize()?;
        Ok(bytes)
    }
}

fn verify(stream: &Arc<CudaStream>, problem: &Problem) -> Result<String, Box<dyn Error>> {
    let request = &problem.request;
    let prepared = Prepared::new(Problem { request: at_most(request), ..problem.clone() })?;
    let drawn = generate(&request.shape, Distribution::Normal, 7, request.spec());
    let (inputs, mean) = quantized(problem, &drawn)?;
    let mut memory = Memory { stream, held: Vec::new() };
    let mut at = Arguments::default();
    let varlen = request.varlen();
    let table = request.page_size.map(|size| PageTable::shuffled(&inputs.k.rows, size, 3));
    for ((to, codes), values) in [&mut at.q, &mut at.k, &mut at.v]
        .into_iter()
        .zip([&inputs.q, &inputs.k, &inputs.v])
        .zip([&drawn.q, &drawn.k, &drawn.v])
    {
        if let (Some(table), false) = (&table, std::ptr::eq(codes, &raw const inputs.q)) {
            let pool = table.pool(codes);
            let across = u64::try_from(codes.rows.heads * codes.rows.dim)?;
            let batch = across * u64::try_from(table.page_size)?;
            let strides = Strides { batch, head: u64::try_from(codes.rows.dim)?, row: across };
            to.tensor = Tensor { address: memory.put(&pool.codes)?, strides };
            to.scales =
                memory.put(&pool.scales.iter().flat_map(|scale| scale.to_le_bytes()).collect::<Vec<u8>>())?;
            continue;
        }
        let bytes = match problem.values {
            Some(element) => element.encode(&floats(values)),
            None => codes.codes.clone(),
        };
        to.tensor = Tensor { address: memory.put(&bytes)?, strides: Strides::of(&codes.rows, varlen) };
        to.scales =
            memory.put(&codes.scales.iter().flat_map(|scale| scale.to_le_bytes()).collect::<Vec<u8>>())?;
    }
    if let Some(table) = &table {
        let entries = u32::try_from(table.entries.len() / request.shape.batch())?;
        at.pages = (
            memory.put(&table.entries.iter().flat_map(|page| page.to_le_bytes()).collect::<Vec<u8>>())?,
            entries,
        );
    }
    let queries = request.shape.query_rows(request.layout);
    if varlen {
        at.starts =
            (memory.put(&starts(&queries))?, memory.put(&starts(&request.shape.key_rows(request.layout)))?);
    }
    let mut floats = |values: &Option<Vec<f32>>| {
        let bytes: Vec<u8> = values.iter().flatten().flat_map(|value| value.to_le_bytes()).collect();
        if bytes.is_empty() { Ok(0) } else { memory.put(&bytes) }
    };
    (at.sinks, at.slopes) = (floats(&inputs.sinks)?, floats(&inputs.slopes)?);
    // Elements that a kernel does not write stay NaN.
    let o = memory.held.len();
    at.o = Tensor {
        address: memory.put(&vec![0xff; queries.elements() * 2])?,
        strides: Strides::of(&queries, varlen),
    };
    let most = request.shape.max_queries();
    let rows = request.shape.batch() * request.shape.heads * most;
    at.lse = memory.put(&vec![0xff; rows * 4])?;
    at.workspace = memory.put(&vec![0xff; prepared.workspace().max(1)])?;
    // SAFETY: the memory has the sizes of the request, and lives until the stream is synchronized below.
    unsafe { prepared.run(&at, stream.cu_stream().cast())? };
    let halves = memory.get(o)?.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]])).collect();
    let lse = request.lse.then(|| lse(request, most, &memory, o + 1)).transpose()?;
    let answer = Answer { output: halves, lse };
    let plan = Plan { request: request.clone(), ..prepared.plan().clone() };
    judge(&plan, &inputs, mean.as_deref(), &answer)
}

/// The request with the lengths of its longest sequences for all, if lengths differ: the library does not know them.
fn at_most(request: &Request) -> Request {
    let shape = &request.shape;
    let longest = Lengths { queries: shape.max_queries(), keys: shape.max_keys() };
    Request {
        shape: shape.clone().with(vec![longest; shape.batch()]),
        lengths_on_device: request.varlen(),
        ..request.clone()
    }
}

/// The values of a tensor, in its layout.
#[expect(
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    reason = "a product of a code and a scale, rounded"
)]
fn floats(tensor: &Quantized) -> Vec<f32> {
    tensor.dequantize().into_iter().map(|value| value as f32).collect()
}

/// The codes that a run computes with, and the mean of K that was subtracted.
fn quantized(problem: &Problem, drawn: &Inputs) -> Result<(Inputs, Option<Vec<f32>>), Unquantizable> {
    let Some(element) = problem.values else { return Ok((drawn.clone(), None)) };
    let request = &problem.request;
    let mut mean = None;
    let mut one = |tensor: &Quantized, granularity, smooth| {
        let quantize = Quantize {
            element,
            format: request.format,
            granularity,
            smooth,
            ..Quantize::new(tensor.rows.clone())
        };
        let values = element.decode(&element.encode(&floats(tensor)));
        let smoothed = oracle::quantize(&values, &quantize)?;
        if smooth {
            mean = smoothed.mean;
        }
        Ok::<_, Unquantizable>(smoothed.tensor)
    };
    let inputs = Inputs { q: one(&drawn.q, request.scales.q, false)?, ..drawn.clone() };
    // Keys in pages are codes.
    let inputs = if request.page_size.is_some() {
        inputs
    } else {
        Inputs {
            k: one(&drawn.k, request.scales.k, problem.smooth_keys)?,
            v: one(&drawn.v, request.scales.v, false)?,
            ..inputs
        }
    };
    Ok((inputs, mean))
}

fn starts(rows: &Rows) -> Vec<u8> {
    rows.starts().iter().flat_map(|row| u32::try_from(*row).unwrap_or(u32::MAX).to_le_bytes()).collect()
}

/// The log-sum-exp, 0 beyond the end of a sequence.
fn lse(
    request: &Request,
    most: usize,
    memory: &Memory<'_>,
    place: usize,
) -> Result<Vec<u32>, Box<dyn Error>> {
    let words = memory.get(place)?;
    let words = words.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]));
    let length = |index: usize| request.shape.sequences[index / most / request.shape.heads].queries;
    Ok(words.enumerate().map(|(index, word)| if index % most < length(index) { word } else { 0 }).collect())
}

fn judge(
    plan: &Plan,
    inputs: &Inputs,
    mean: Option<&[f32]>,
    answer: &Answer,
) -> Result<String, Box<dyn Error>> {
    let oracles = plan.oracles(inputs)?;
    let mut answer = answer.clone();
    if let (Some(mean), Some(found)) = (mean, &answer.lse) {
        // The oracle has the log-sum-exp of the smoothed keys.
        let mut expected = oracles.bits.lse.clone();
        let (kv_heads, scale) = (plan.request.shape.kv_heads, plan.request.softmax_scale());
        if !oracle::unsmooth(&mut expected, &inputs.q, mean, kv_heads, scale) || *found != expected {
            return Err("the corrected log-sum-exp has other bits".into());
        }
        answer.lse = Some(oracles.bits.lse.clone());
    }
    let verdict = oracles.judge(&answer);
    if !verdict.passed() {
        return Err(format!("{verdict:?}").into());
    }
    Ok(format!("bits equal, max error {:.1e}", verdict.errors.max))
}
