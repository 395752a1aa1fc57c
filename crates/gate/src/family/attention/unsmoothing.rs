//! The correction of the log-sum-exp of smoothed keys.
//!
//! The exact output is the log-sum-exp that the kernel reads, plus softmax scale · q·mean. Each lane adds at most
//! 4 ⌈D/128⌉ products by fused multiply-adds, five additions follow, then the scale of Q and the softmax scale, which is itself
//! rounded: 4 ⌈D/128⌉ + 8 roundings of at most 2^-24 of the sum of magnitudes, and the last sum rounds by 2^-24 of the result.

use warpproof_kernels::attention::RunError;
use warpproof_kernels::inputs::{Inputs, generate_smoothed};
use warpproof_kernels::oracle::quantize::unsmooth;
use warpproof_kernels::plan::Plan;
use warpproof_kernels::tensor::each_row;
use warpproof_kernels::unsmooth::Unsmooth;
use warpproof_launch::Gpu;
use warpproof_model::bound::Floor;
use warpproof_task::Values;
use warpproof_toolchain::{CompileError, Toolchain};

use super::super::Step;
use super::variant::differing;
use super::{Expected, Kernels, bounded, family, step, wide};
use crate::reference::Unfit;

/// The correction for a plan's log-sum-exp, for one size.
#[derive(Debug)]
pub(super) struct Unsmoothing {
    pub(super) correction: Unsmooth,
    pub(super) plan: Plan,
}

/// What the kernel reads.
pub(super) struct Uncorrected {
    inputs: Inputs,
    mean: Vec<f32>,
    /// The log-sum-exp of attention over the smoothed keys.
    lse: Vec<u32>,
}

fn float(bits: u32) -> f64 {
    f64::from(f32::from_bits(bits))
}

/// The rows of the log-sum-exp that belong to a sequence and see a key; others keep their value.
fn finite(all: &[u32]) -> impl Iterator<Item = usize> + '_ {
    all.iter().enumerate().filter_map(|(at, bits)| f32::from_bits(*bits).is_finite().then_some(at))
}

impl Kernels for Unsmoothing {
    type Inputs = Uncorrected;
    type Output = Vec<u32>;

    fn arch(&self) -> &str {
        &self.correction.arch
    }

    fn compile(&self, toolchain: &Toolchain) -> Result<String, CompileError> {
        self.correction.compile(toolchain)
    }

    fn identity(&self) -> String {
        format!("{:?} {:?}", self.correction.step, self.plan.request)
    }

    fn steps(&self) -> Vec<Step<'_>> {
        vec![step(&self.correction.step)]
    }

    fn floor(&self) -> Floor {
        let shape = &self.plan.request.shape;
        let rows = shape.query_rows(self.plan.request.layout);
        let lse = 4 * shape.batch() * shape.heads * shape.max_queries();
        Floor { loaded: wide(rows.elements().saturating_add(lse)), stored: wide(lse), ..Floor::default() }
    }

    fn inputs(&self, values: &Values, seed: u64) -> Result<Uncorrected, Unfit> {
        let (inputs, mean) = generate_smoothed(&self.plan.request, family(values)?, seed)
            .map_err(|error| Unfit(error.to_string()))?;
        let lse = self.plan.bits(&inputs).map_err(|error| Unfit(error.to_string()))?.lse;
        Ok(Uncorrected { inputs, mean, lse })
    }

    fn execute<G: Gpu>(
        &self,
        gpu: &mut G,
        ptx: &str,
        from: &Uncorrected,
    ) -> Result<Vec<u32>, RunError<G::Error>> {
        let module = gpu.load(ptx)?;
        self.correction.run(gpu, &module, &from.inputs.q, &from.mean, &from.lse)
    }

    fn expected(&self, from: &Uncorrected) -> Result<Expected<Vec<u32>>, Unfit> {
        let request = &self.plan.request;
        let (shape, q, scale) = (&request.shape, &from.inputs.q, request.softmax_scale());
        let mut bits = from.lse.clone();
        if !unsmooth(&mut bits, q, &from.mean, shape.kv_heads, scale) {
            return Err(Unfit("the log-sum-exp does not match the shape".to_owned()));
        }
        let roundings = f64::from(u32::try_from(4 * shape.dim.div_ceil(128) + 8).unwrap_or(u32::MAX));
        let mut exact: Vec<f64> = from.lse.iter().map(|bits| float(*bits)).collect();
        let mut limits = vec![0.0; exact.len()];
        for (batch, head, row) in each_row(&q.rows) {
            let channel = (batch * shape.kv_heads + head / shape.group().max(1)) * shape.dim;
            let of_row = f64::from(q.scale_of(batch, head, row)) * scale;
            let products = q.row(batch, head, row).iter().zip(from.mean.iter().skip(channel));
            let products = products.map(|(code, mean)| f64::from(q.format.decode(*code)) * f64::from(*mean));
            let (sum, magnitudes) =
                products.fold((0.0, 0.0), |(sum, all), product| (sum + product, all + product.abs()));
            let at = (batch * shape.heads + head) * shape.max_queries() + row;
            if let (Some(exact), Some(limit)) = (exact.get_mut(at), limits.get_mut(at)) {
                *exact += of_row * sum;
                *limit = 2f64.powi(-24) * (roundings * of_row.abs() * magnitudes + exact.abs());
            }
        }
        // A row that sees no key has −∞, which is compared by its bits.
        let rows: Vec<usize> = finite(&bits).collect();
        let of = |all: &[f64]| rows.iter().filter_map(|at| all.get(*at).copied()).collect::<Vec<f64>>();
        let (exact, limits) = (of(&exact), of(&limits));
        Ok(Expected { tolerance: bounded(limits, 1), dim: 1, exact, exact_lse: Vec::new(), bits })
    }

    fn values(&self, output: &Vec<u32>) -> Vec<f64> {
        finite(output).filter_map(|at| output.get(at)).map(|bits| float(*bits)).collect()
    }

    fn other_bits(&self, output: &Vec<u32>, expected: &Expected<Vec<u32>>) -> usize {
        differing(output, &expected.bits)
    }

    fn wrong(
        &self,
        from: &Uncorrected,
        expected: &Expected<Vec<u32>>,
    ) -> Result<Vec<(String, Vec<f64>)>, Unfit> {
        let right = self.values(&expected.bits);
        let mut all = vec![
            ("zeros".to_owned(), vec![0.0; right.len()]),
            ("not corrected".to_owned(), self.values(&from.lse)),
        ];
        all.retain(|(_, values)| *values != right);
        Ok(all)
    }
}
