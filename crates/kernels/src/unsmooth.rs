//! Corrects the log-sum-exp of attention over smoothed keys.
//!
//! Smoothing subtracts a mean from K ([`crate::quantize`]), which lowers every score of a row by softmax scale · q·mean.
//! The output does not change, but the log-sum-exp is lower by that amount. [`Unsmooth`] adds it on the device, from the
//! codes of Q and the mean that the quantizer wrote; [`crate::oracle::quantize::unsmooth`] is the same on the host, bit
//! for bit. Rows that see no key keep −∞.

use crate::attention::RunError;
use crate::format::Format;
use crate::params::{Operand, narrow, words32, words64};
use crate::plan::{Plan, PlanError, Request, Step, extents};
use crate::source;
use crate::tensor::Quantized;
use warpproof_launch::{Geometry, Gpu, Use};
use warpproof_toolchain::{CompileError, Toolchain};

/// Rows per block, one per warp.
const ROWS: usize = 8;

/// A plan for the correction.
#[derive(Clone, Debug)]
pub struct Unsmooth {
    /// The macros the source is compiled with, `NAME=VALUE`.
    pub defines: Vec<String>,
    /// The architecture it is compiled for.
    pub arch: String,
    /// The launch.
    pub step: Step,
    request: Request,
}

/// Device addresses of a launch. Codes and the mean must be aligned to 16 bytes, everything else to 4.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnsmoothAddresses {
    /// Codes and scales of Q.
    pub q: (u64, u64),
    /// The mean that was subtracted from K, f32, `[batch][key head][element]`.
    pub mean: u64,
    /// The log-sum-exp that attention wrote, f32; it is corrected in place.
    pub lse: u64,
    /// If lengths differ: query rows before each sequence, followed by the total, as u32.
    pub starts: u64,
}

impl Unsmooth {
    /// The source file.
    pub const SOURCE: &'static str = "unsmooth.cu";
    /// Bytes of the parameters.
    pub const BYTES: usize = 104;

    /// The correction for the log-sum-exp of a plan.
    pub fn new(plan: &Plan) -> Result<Unsmooth, PlanError> {
        let request = plan.request.clone();
        let refused = |what: &str| Err(PlanError::Unsupported { rung: "unsmooth", what: what.to_owned() });
        if !request.lse {
            return refused("a plan without the log-sum-exp");
        }
        if request.format == Format::Linear8 {
            return refused("the format linear8");
        }
        let shape = &request.shape;
        let grid = extents([shape.max_queries().div_ceil(ROWS), shape.heads, shape.batch()])?;
        let defines = [
            ("HEAD_DIM", shape.dim),
            ("FORMAT_E5M2", usize::from(request.format == Format::E5m2)),
            ("VARLEN", usize::from(plan.varlen())),
        ];
        Ok(Unsmooth {
            defines: defines.map(|(name, value)| format!("{name}={value}")).to_vec(),
            arch: plan.arch.clone(),
            step: Step { kernel: "unsmooth", geometry: Geometry { grid, block: 256, shared: 0 } },
            request,
        })
    }

    /// Compiles the plan to PTX.
    pub fn compile(&self, toolchain: &Toolchain) -> Result<String, CompileError> {
        source::compile(Unsmooth::SOURCE, &self.defines, &self.arch, toolchain)
    }

    /// Launches on device memory, from the module of [`Unsmooth::compile`]'s PTX, and returns when it has ended.
    pub fn launch<G: Gpu>(
        &self,
        gpu: &mut G,
        module: &G::Module,
        at: &UnsmoothAddresses,
    ) -> Result<(), RunError<G::Error>> {
        let params = self.params(at)?;
        gpu.launch(module, self.step.kernel, self.step.geometry, &params)?;
        Ok(())
    }

    /// The request of the plan whose log-sum-exp is corrected.
    pub fn request(&self) -> &Request {
        &self.request
    }

    /// Copies Q, a mean `[batch][key head][element]` and a log-sum-exp to the device, launches, and copies the
    /// log-sum-exp back.
    pub fn run<G: Gpu>(
        &self,
        gpu: &mut G,
        module: &G::Module,
        q: &Quantized,
        mean: &[f32],
        lse: &[u32],
    ) -> Result<Vec<u32>, RunError<G::Error>> {
        let Request { shape, layout, scales, format, .. } = &self.request;
        let rows = shape.batch() * shape.heads * shape.max_queries();
        if !q.fits(&shape.query_rows(*layout), *format, scales.q)
            || mean.len() != shape.batch() * shape.kv_heads * shape.dim
            || lse.len() != rows
        {
            return Err(RunError::Tensor(
                "Q, the mean or the log-sum-exp does not match the plan".to_owned(),
            ));
        }
        let words = |all: &mut dyn Iterator<Item = u32>| all.flat_map(u32::to_le_bytes).collect::<Vec<u8>>();
        let buffers = [
            ("q", q.codes.clone(), Use::Input),
            ("q_scales", words(&mut q.scales.iter().map(|scale| scale.to_bits())), Use::Input),
            ("mean", words(&mut mean.iter().map(|mean| mean.to_bits())), Use::Input),
            ("query_starts", words(&mut q.rows.starts().iter().map(|row| narrow(*row))), Use::Input),
            ("lse", words(&mut lse.iter().copied()), Use::Shared),
        ];
        let mut used = Vec::new();
        let mut outcome = (|| {
            for (name, bytes, what) in buffers {
                // A device has no address for an empty buffer.
                let memory = gpu.allocate(name, bytes.len().max(1), what)?;
                used.push(memory);
                if let Some(memory) = used.last() {
                    gpu.write(memory, &bytes)?;
                }
            }
            let at = |index: usize| used.get(index).map_or(0, |memory| gpu.address(memory));
            let starts = if self.request.varlen() { at(3) } else { 0 };
            let at = UnsmoothAddresses { q: (at(0), at(1)), mean: at(2), lse: at(4), starts };
            self.launch(gpu, module, &at)?;
            used.last().map_or(Ok(Vec::new()), |memory| gpu.read(memory)).map_err(RunError::Gpu)
        })();
        // Every buffer is freed, also after an error; the first error is returned.
        for memory in used {
            let freed = gpu.free(memory).map_err(RunError::Gpu);
            outcome = outcome.and_then(|bytes| freed.map(|()| bytes));
        }
        let bytes = outcome?;
        Ok(bytes.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)).collect())
    }

    /// The parameters with the addresses filled in, as bytes in the layout that the kernel reads.
    #[expect(clippy::as_conversions, clippy::cast_possible_truncation, reason = "rounding is intended")]
    pub fn params<E>(&self, at: &UnsmoothAddresses) -> Result<Vec<u8>, RunError<E>> {
        let all = [
            ("Q", at.q.0, 16),
            ("the mean", at.mean, 16),
            ("the scales of Q", at.q.1, 4),
            ("the log-sum-exp", at.lse, 4),
            ("the starts of the queries", at.starts, 4),
        ];
        if let Some((name, address, bytes)) =
            all.into_iter().find(|(_, address, bytes)| !address.is_multiple_of(*bytes))
        {
            return Err(RunError::Alignment { name, address, bytes });
        }
        let shape = &self.request.shape;
        let rows = shape.query_rows(self.request.layout);
        let mut q = Operand::of(&rows, self.request.scales.q, self.request.varlen());
        (q.codes, q.scales) = at.q;
        let mut out = Vec::with_capacity(Unsmooth::BYTES);
        q.put(&mut out);
        words64(&mut out, &[at.mean, at.lse, at.starts]);
        let queries = narrow(shape.max_queries());
        words32(&mut out, &[narrow(shape.heads), narrow(shape.group()), queries, queries]);
        words32(&mut out, &[(self.request.softmax_scale() as f32).to_bits(), 0]);
        Ok(out)
    }
}
