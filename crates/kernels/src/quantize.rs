//! Quantizes tensors on a GPU: f16, bf16 or f32 rows to codes and scales, as [`Quantized::quantize`] does on the
//! host, bit for bit.
//!
//! [`Quantizer::new`] plans a [`Quantize`] request; [`Quantizer::compile`] returns PTX, and [`Quantization`] runs
//! it, from device addresses or from host bytes. One quantizer serves one operand: Q, K or V.
//!
//! # Smoothing
//!
//! Some channels of K have a large mean in most language models, and that mean takes up the range of the format.
//! With [`Quantize::smooth`], the mean of each channel over the rows of a sequence and head is subtracted before
//! quantization, as in `SageAttention`. The score of every key of a row then changes by the same amount, −q·mean, so
//! the softmax and the output do not change. The log-sum-exp does: [`crate::unsmooth`] adds q·mean again.
//!
//! # Values that are not finite
//!
//! A device cannot refuse them, as the host does. They are left out of the largest magnitude and count as 0 in a mean,
//! so they do not change the codes of other elements. Infinities become the largest finite code of their sign, and NaN
//! becomes the NaN of the format. [`crate::Attention::run`] refuses a NaN code.

use crate::attention::RunError;
use crate::format::Format;
use crate::params::{Operand, Strides, narrow, words32, words64};
use crate::plan::{PlanError, Step, extents};
use crate::problem::{BLOCK_ROWS, Granularity, Layout, Rows, Shape};
use crate::source;
use crate::tensor::Quantized;
use warpproof_launch::{Geometry, Gpu, Use};
use warpproof_model::Device;
use warpproof_num::Rounding;
use warpproof_num::convert::{cvt_bf16_f32, cvt_f16_f32, cvt_f32_bf16, cvt_f32_f16};
use warpproof_toolchain::{CompileError, Toolchain};

/// Threads per block.
const THREADS: u32 = 256;
/// Bytes that a thread reads at once.
const CHUNK: usize = 16;
/// The longest row that fits in the registers of a block.
const MOST_ELEMENTS: usize = 256;

/// The type of the elements before quantization.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names of the formats")]
pub enum Element {
    #[default]
    F16,
    Bf16,
    F32,
}

impl Element {
    /// All types.
    pub const ALL: [Element; 3] = [Element::F16, Element::Bf16, Element::F32];

    /// Bytes of an element.
    pub fn bytes(self) -> usize {
        if self == Element::F32 { size_of::<f32>() } else { size_of::<u16>() }
    }

    /// Rounds values to the type, as little-endian bytes.
    pub fn encode(self, values: &[f32]) -> Vec<u8> {
        let half = |code: fn(u32, Rounding, bool) -> u16| {
            let codes = values.iter().map(|value| code(value.to_bits(), Rounding::Rn, false));
            codes.flat_map(u16::to_le_bytes).collect()
        };
        match self {
            Element::F16 => half(cvt_f16_f32),
            Element::Bf16 => half(cvt_bf16_f32),
            Element::F32 => values.iter().flat_map(|value| value.to_le_bytes()).collect(),
        }
    }

    /// The values of little-endian bytes, exactly.
    pub fn decode(self, bytes: &[u8]) -> Vec<f32> {
        let half = |value: fn(u16) -> u32| {
            let pairs = bytes.as_chunks::<2>().0.iter();
            pairs.map(|pair| f32::from_bits(value(u16::from_le_bytes(*pair)))).collect()
        };
        match self {
            Element::F16 => half(cvt_f32_f16),
            Element::Bf16 => half(cvt_f32_bf16),
            Element::F32 => bytes.as_chunks::<4>().0.iter().map(|word| f32::from_le_bytes(*word)).collect(),
        }
    }
}

/// A request to quantize one tensor. [`Quantize::new`] sets the defaults.
#[derive(Clone, Debug)]
pub struct Quantize {
    /// The location of each row, of the codes and (unless [`Quantize::strides`] is set) of the values.
    pub rows: Rows,
    /// The type of the values.
    pub element: Element,
    /// The format of the codes; not [`Format::Linear8`].
    pub format: Format,
    /// Which elements share a scale.
    pub granularity: Granularity,
    /// Subtract the mean of each channel over the rows of a sequence and head: for K.
    pub smooth: bool,
    /// Strides of the values in elements, for a view of a larger tensor; `None`: those of `rows`. Rows start at
    /// multiples of 16 bytes. If lengths differ, the batch stride must be 0.
    pub strides: Option<Strides>,
    /// As [`crate::Request::lengths_on_device`].
    pub lengths_on_device: bool,
}

impl Quantize {
    /// f16 to E4M3 with a scale for each head.
    pub fn new(rows: Rows) -> Quantize {
        Quantize {
            rows,
            element: Element::F16,
            format: Format::E4m3,
            granularity: Granularity::Head,
            smooth: false,
            strides: None,
            lengths_on_device: false,
        }
    }

    /// Whether the kernels read the start of each sequence from device memory.
    pub fn varlen(&self) -> bool {
        self.lengths_on_device
            || (1..self.rows.batch()).any(|batch| self.rows.length(batch) != self.rows.length(0))
    }

    /// Tiles of the longest sequence.
    fn tiles(&self) -> usize {
        self.rows.longest().div_ceil(BLOCK_ROWS)
    }

    /// The number of rows that a block reads at once; it decides the order of the sums of a mean.
    pub(crate) fn slots(&self) -> usize {
        let chunks = self.rows.dim.saturating_mul(self.element.bytes()).div_ceil(CHUNK);
        let lanes = chunks.clamp(4, 32).next_power_of_two();
        usize::try_from(THREADS).unwrap_or(usize::MAX) / lanes
    }
}

/// How to quantize a tensor.
#[derive(Clone, Debug)]
pub struct Quantizer {
    /// The request.
    pub request: Quantize,
    /// The macros the source is compiled with, `NAME=VALUE`.
    pub defines: Vec<String>,
    /// The architecture it is compiled for.
    pub arch: String,
    /// The launches, one after the other; all get the same parameters.
    pub steps: Vec<Step>,
    /// Bytes of scratch memory; its previous contents do not matter.
    pub workspace: usize,
    /// The parameters, without addresses.
    pub params: QuantizeParams,
    /// Bytes of the workspace before the maxima: the column sums.
    sums: usize,
}

/// The parameters of a launch; the fields are those of `cuda/quantize.cu`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "documented in cuda/quantize.cu")]
pub struct QuantizeParams {
    pub values: u64,
    pub codes: u64,
    pub scales: u64,
    pub mean: u64,
    pub sums: u64,
    pub maxima: u64,
    pub starts: u64,
    pub value_strides: Strides,
    pub code_strides: Strides,
    pub heads: u32,
    pub batches: u32,
    pub rows: u32,
    pub tiles: u32,
    pub scale_batch: u32,
    pub scale_head: u32,
}

impl QuantizeParams {
    /// Bytes of the struct.
    pub const BYTES: usize = 128;

    /// The bytes in the layout that the kernels read.
    pub fn bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(QuantizeParams::BYTES);
        words64(&mut out, &[self.values, self.codes, self.scales, self.mean]);
        words64(&mut out, &[self.sums, self.maxima, self.starts]);
        for strides in [self.value_strides, self.code_strides] {
            words64(&mut out, &[strides.batch, strides.head, strides.row]);
        }
        words32(&mut out, &[self.heads, self.batches, self.rows, self.tiles]);
        words32(&mut out, &[self.scale_batch, self.scale_head]);
        out
    }
}

impl Quantizer {
    /// The source file.
    pub const SOURCE: &'static str = "quantize.cu";

    /// Plans a request for a device.
    pub fn new(request: &Quantize, device: &Device) -> Result<Quantizer, PlanError> {
        let rows = &request.rows;
        check(request, device)?;
        let (varlen, tiles) = (request.varlen(), request.tiles());
        let grid = extents([tiles, rows.heads, rows.batch()])?;
        let step = |kernel, grid, block| Step { kernel, geometry: Geometry { grid, block, shared: 0 } };
        let tiled = |kernel| step(kernel, grid, THREADS);
        let mut steps = Vec::new();
        let all = rows.batch() * rows.heads * tiles;
        let (mut sums, mut maxima) = (0, 0);
        if request.smooth {
            let heads = extents([rows.heads, rows.batch(), 1])?;
            steps.extend([tiled("sums"), step("mean", heads, narrow(rows.dim))]);
            sums = all * rows.dim * size_of::<f32>();
        }
        if matches!(request.granularity, Granularity::Head | Granularity::Tensor) {
            steps.push(tiled("maxima"));
            maxima = (all + 1) * size_of::<f32>();
        }
        if request.granularity == Granularity::Tensor {
            steps.push(step("largest", [1; 3], THREADS));
        }
        steps.push(tiled("quantize"));
        let operand = Operand::of(rows, request.granularity, varlen);
        let params = QuantizeParams {
            value_strides: request.strides.unwrap_or(operand.strides),
            code_strides: operand.strides,
            heads: narrow(rows.heads),
            batches: narrow(rows.batch()),
            rows: narrow(rows.longest()),
            tiles: narrow(tiles),
            scale_batch: operand.scale_batch,
            scale_head: operand.scale_head,
            ..QuantizeParams::default()
        };
        Ok(Quantizer {
            defines: defines(request),
            arch: device.capability.arch(),
            steps,
            workspace: sums + maxima,
            params,
            sums,
            request: request.clone(),
        })
    }

    /// Compiles the plan to PTX.
    pub fn compile(&self, toolchain: &Toolchain) -> Result<String, CompileError> {
        source::compile(Quantizer::SOURCE, &self.defines, &self.arch, toolchain)
    }

    /// The parameters with the addresses filled in.
    pub fn params_at(&self, at: &QuantizeAddresses) -> QuantizeParams {
        let sums = u64::try_from(self.sums).unwrap_or(u64::MAX);
        QuantizeParams {
            values: at.values,
            codes: at.codes,
            scales: at.scales,
            mean: at.mean,
            sums: at.workspace,
            maxima: at.workspace.saturating_add(sums),
            starts: at.starts,
            ..self.params
        }
    }

    /// The scales of the result.
    pub fn scales(&self) -> usize {
        self.request.granularity.count(&self.request.rows)
    }

    /// The elements of the mean, `[batch][head][element]`; 0 without smoothing.
    pub fn mean(&self) -> usize {
        let rows = &self.request.rows;
        if self.request.smooth { rows.batch() * rows.heads * rows.dim } else { 0 }
    }

    /// The elements of the values up to the last one that is read; more than those of the codes with strides.
    pub fn values(&self) -> usize {
        let rows = &self.request.rows;
        let Strides { batch, head, row } = self.params.value_strides;
        let last = |count: usize, stride: u64| {
            let stride = usize::try_from(stride).unwrap_or(usize::MAX);
            count.saturating_sub(1).saturating_mul(stride)
        };
        let rows_before = if self.request.varlen() {
            last(rows.starts().last().copied().unwrap_or(0), row)
        } else {
            last(rows.batch(), batch).saturating_add(last(rows.longest(), row))
        };
        rows_before.saturating_add(last(rows.heads, head)).saturating_add(rows.dim)
    }
}

fn check(request: &Quantize, device: &Device) -> Result<(), PlanError> {
    let rows = &request.rows;
    // The limits of a tensor are those of attention; heads, rows and elements are those of the queries.
    let lengths = (0..rows.batch()).map(|batch| crate::Lengths { queries: rows.length(batch), keys: 0 });
    let shape =
        Shape { heads: rows.heads, kv_heads: rows.heads, dim: rows.dim, sequences: lengths.collect() };
    shape.check().map_err(|error| PlanError::Shape(error.to_string()))?;
    if rows.longest() == 0 {
        return Err(PlanError::Shape("no sequence has a row".to_owned()));
    }
    let refused = |what: String| Err(PlanError::Unsupported { rung: "quantize", what });
    if !rows.dim.is_multiple_of(CHUNK) || rows.dim > MOST_ELEMENTS {
        return refused(format!(
            "rows of {} elements; expected a multiple of {CHUNK}, at most {MOST_ELEMENTS}",
            rows.dim
        ));
    }
    if request.format == Format::Linear8 {
        return refused("the format linear8".to_owned());
    }
    if request.varlen() && rows.layout != Layout::Bshd {
        return refused("sequences of different lengths unless rows lie before heads (BSHD)".to_owned());
    }
    if let Some(Strides { batch, head, row }) = request.strides {
        let bytes = u64::try_from(request.element.bytes()).unwrap_or(u64::MAX);
        let aligned = |stride: u64| stride.checked_mul(bytes).is_some_and(|bytes| bytes.is_multiple_of(16));
        if ![batch, head, row].into_iter().all(aligned) {
            return refused("strides that are not multiples of 16 bytes".to_owned());
        }
        if request.varlen() && batch != 0 {
            return refused("a batch stride other than 0 if lengths differ".to_owned());
        }
    }
    let capability = device.capability.major * 10 + device.capability.minor;
    if capability < 89 {
        let (name, arch) = (device.name, device.capability.arch());
        return Err(PlanError::Device(format!("{name} is {arch}; 8-bit floats need sm_89 or newer")));
    }
    Ok(())
}

fn defines(request: &Quantize) -> Vec<String> {
    let value = match request.element {
        Element::F16 => 0,
        Element::Bf16 => 1,
        Element::F32 => 2,
    };
    let scales = match request.granularity {
        Granularity::Head => 0,
        Granularity::Block => 1,
        Granularity::Row => 2,
        Granularity::Tensor => 3,
    };
    [
        ("HEAD_DIM", request.rows.dim),
        ("VALUE", value),
        ("SCALES", scales),
        ("FORMAT_E5M2", usize::from(request.format == Format::E5m2)),
        ("SMOOTH", usize::from(request.smooth)),
        ("VARLEN", usize::from(request.varlen())),
    ]
    .map(|(name, value)| format!("{name}={value}"))
    .to_vec()
}

/// A quantizer whose kernels are loaded on a device.
#[derive(Debug)]
pub struct Quantization<G: Gpu> {
    plan: Quantizer,
    module: G::Module,
}

/// Device addresses of a launch. Values, codes, the mean and the workspace must be aligned to 16 bytes, everything
/// else to 4.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuantizeAddresses {
    /// The values.
    pub values: u64,
    /// The codes: one byte per element, in the layout of the request.
    pub codes: u64,
    /// The scales, f32, placed by [`Granularity::index`]; 1 for padding.
    pub scales: u64,
    /// With smoothing: the mean that was subtracted, f32, `[batch][head][element]`.
    pub mean: u64,
    /// If lengths differ: rows before each sequence, followed by the total, as u32.
    pub starts: u64,
    /// [`Quantizer::workspace`] bytes. Launches that run at the same time need one each.
    pub workspace: u64,
}

/// A quantized tensor.
#[derive(Clone, Debug)]
pub struct Smoothed {
    /// Codes and scales.
    pub tensor: Quantized,
    /// With smoothing, the mean that was subtracted, `[batch][head][element]`.
    pub mean: Option<Vec<f32>>,
}

impl<G: Gpu> Quantization<G> {
    /// Loads the plan's PTX, as compiled by [`Quantizer::compile`].
    pub fn load(plan: Quantizer, ptx: &str, gpu: &mut G) -> Result<Self, G::Error> {
        let module = gpu.load(ptx)?;
        Ok(Quantization { plan, module })
    }

    /// The plan.
    pub fn plan(&self) -> &Quantizer {
        &self.plan
    }

    /// Launches on device memory, and returns when the last launch has ended.
    pub fn launch(&self, gpu: &mut G, at: &QuantizeAddresses) -> Result<(), RunError<G::Error>> {
        let params = self.params(at)?;
        for step in &self.plan.steps {
            gpu.launch(&self.module, step.kernel, step.geometry, &params.bytes())?;
        }
        Ok(())
    }

    /// The parameters with the addresses filled in.
    fn params(&self, at: &QuantizeAddresses) -> Result<QuantizeParams, RunError<G::Error>> {
        let all = [
            ("the values", at.values, 16),
            ("the codes", at.codes, 16),
            ("the mean", at.mean, 16),
            ("the workspace", at.workspace, 16),
            ("the scales", at.scales, 4),
            ("the starts", at.starts, 4),
        ];
        if let Some((name, address, bytes)) =
            all.into_iter().find(|(_, address, bytes)| !address.is_multiple_of(*bytes))
        {
            return Err(RunError::Alignment { name, address, bytes });
        }
        Ok(self.plan.params_at(at))
    }

    /// Copies values to the device, launches, and copies codes and scales back. `values` are little-endian
    /// bytes with the strides of the request, at least [`Quantizer::values`] elements.
    pub fn run(&self, gpu: &mut G, values: &[u8]) -> Result<Smoothed, RunError<G::Error>> {
        let element = self.plan.request.element;
        let expected = self.plan.values().saturating_mul(element.bytes());
        if values.len() < expected {
            return Err(RunError::Tensor(format!(
                "expected at least {expected} bytes of values, found {}",
                values.len()
            )));
        }
        let mut used = Vec::new();
        let outcome = self.run_in(gpu, values, &mut used);
        // Every buffer is freed, also after an error; the first error is returned.
        let mut freed = Ok(());
        for memory in used {
            freed = freed.and(gpu.free(memory));
        }
        let [codes, scales, mean] = outcome?;
        freed?;
        let Quantize { rows, format, granularity, smooth, .. } = self.plan.request.clone();
        let tensor = Quantized { format, granularity, rows, codes, scales: Element::F32.decode(&scales) };
        Ok(Smoothed { tensor, mean: smooth.then(|| Element::F32.decode(&mean)) })
    }

    fn run_in(
        &self,
        gpu: &mut G,
        values: &[u8],
        used: &mut Vec<G::Memory>,
    ) -> Result<[Vec<u8>; 3], RunError<G::Error>> {
        let plan = &self.plan;
        let rows = &plan.request.rows;
        let mut put = |gpu: &mut G, name: &str, bytes: &[u8], what: Use| {
            // A device has no address for an empty buffer.
            used.push(gpu.allocate(name, bytes.len().max(1), what)?);
            let place = used.len() - 1;
            gpu.write(&used[place], bytes)?;
            Ok::<_, G::Error>((place, gpu.address(&used[place])))
        };
        let starts: Vec<u8> = rows.starts().iter().flat_map(|row| narrow(*row).to_le_bytes()).collect();
        // Elements that a kernel does not write stay 0xff: NaN in every format.
        let blank = |bytes: usize| vec![0xff; bytes];
        let values = put(gpu, "values", values, Use::Input)?.1;
        let starts = if plan.request.varlen() { put(gpu, "starts", &starts, Use::Input)?.1 } else { 0 };
        let workspace = put(gpu, "workspace", &blank(plan.workspace), Use::Scratch)?.1;
        let mean = put(gpu, "mean", &blank(plan.mean() * size_of::<f32>()), Use::Scratch)?;
        let codes = put(gpu, "codes", &blank(rows.elements()), Use::Scratch)?;
        let scales = put(gpu, "scales", &blank(plan.scales() * size_of::<f32>()), Use::Scratch)?;
        let at =
            QuantizeAddresses { values, codes: codes.1, scales: scales.1, mean: mean.1, starts, workspace };
        let params = self.params(&at)?;
        for step in &plan.steps {
            let (of_mean, of_codes) = match step.kernel {
                "mean" => (Use::Output, Use::Scratch),
                "sums" => (Use::Scratch, Use::Scratch),
                "quantize" => (Use::Input, Use::Output),
                _ => (Use::Input, Use::Scratch),
            };
            for (place, what) in [(mean.0, of_mean), (codes.0, of_codes), (scales.0, of_codes)] {
                gpu.declare(&used[place], what);
            }
            gpu.launch(&self.module, step.kernel, step.geometry, &params.bytes())?;
        }
        Ok([gpu.read(&used[codes.0])?, gpu.read(&used[scales.0])?, gpu.read(&used[mean.0])?])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_struct_has_the_size_the_kernels_read() {
        assert_eq!(QuantizeParams::default().bytes().len(), QuantizeParams::BYTES);
    }

    #[test]
    fn elements_keep_values_that_they_can_hold() {
        let values = [0.0, -1.5, 448.0, f32::INFINITY, 0.000_061_035_156];
        for element in Element::ALL {
            let bytes = element.encode(&values);
            assert_eq!(bytes.len(), values.len() * element.bytes());
            assert_eq!(element.decode(&bytes), values, "{element:?}");
        }
    }
}
