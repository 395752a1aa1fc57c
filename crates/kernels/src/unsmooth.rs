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
use warpproof_launch::{Geometry, Gpu};
use warpproof_toolchain::{CompileError, Source, Toolchain};

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
        let Some(text) = source::expanded("unsmooth.cu") else {
            return Err(CompileError::Options("there is no source `unsmooth.cu`".to_owned()));
        };
        let options = source::options(&self.defines, &self.arch);
        Ok(toolchain.compile(&Source::new("unsmooth.cu", text), &options)?.ptx)
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
