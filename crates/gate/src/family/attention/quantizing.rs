//! The quantizer of an operand.
//!
//! The exact output is the operand minus its exact mean, if it is smoothed. A code is at most half a step of the format
//! away from the quotient of value and scale, in units of the scale: r times the quotient, or the floor f where the format
//! is subnormal; E4M3 has r = 2^-4 and f = 2^-10, E5M2 r = 2^-3 and f = 2^-17. The difference of value and mean and the
//! quotient round by 2^-24 each, and so does the scale, which is why the largest magnitude may exceed the format by 2^-22.
//! A mean over n rows is a sum of n terms in f32 and one division: it is wrong by at most (n + 1) 2^-24 of the mean of magnitudes.

use warpproof_kernels::attention::RunError;
use warpproof_kernels::format::Format;
use warpproof_kernels::inputs::{TensorName, Tensors};
use warpproof_kernels::null::{last_tile, middle_tile};
use warpproof_kernels::oracle::quantize::quantize;
use warpproof_kernels::plan::Request;
use warpproof_kernels::quantize::{Quantization, Quantizer, Smoothed};
use warpproof_kernels::tensor::each_row;
use warpproof_launch::Gpu;
use warpproof_model::bound::Floor;
use warpproof_task::Values;
use warpproof_toolchain::{CompileError, Toolchain};

use super::super::Step;
use super::variant::differing;
use super::{Expected, Kernels, bounded, family, step, wide};
use crate::reference::Unfit;

/// The quantizer of an operand, planned for one size.
#[derive(Debug)]
pub(super) struct Quantizing {
    pub(super) plan: Quantizer,
    pub(super) tensor: TensorName,
    /// The request whose operand it is.
    pub(super) request: Request,
}

impl Quantizing {
    /// For each element of the operand, the exact mean of its channel, and that of magnitudes.
    fn means(&self, values: &[f32]) -> Vec<(f64, f64)> {
        let rows = &self.plan.request.rows;
        let channel = |batch: usize, head: usize, d: usize| (batch * rows.heads + head) * rows.dim + d;
        let mut sums = vec![(0.0, 0.0); rows.batch() * rows.heads * rows.dim];
        for (batch, head, row) in each_row(rows) {
            let at = rows.offset(batch, head, row);
            for (d, value) in values.iter().skip(at).take(rows.dim).enumerate() {
                if let Some(sum) = sums.get_mut(channel(batch, head, d)) {
                    *sum = (sum.0 + f64::from(*value), sum.1 + f64::from(value.abs()));
                }
            }
        }
        let mut all = vec![(0.0, 0.0); values.len()];
        for (batch, head, row) in each_row(rows) {
            let (at, count) = (rows.offset(batch, head, row), length(rows.length(batch)));
            for (d, mean) in all.iter_mut().skip(at).take(rows.dim).enumerate() {
                let sum = sums.get(channel(batch, head, d)).copied().unwrap_or_default();
                *mean = (sum.0 / count, sum.1 / count);
            }
        }
        all
    }
}

/// A number of rows as a divisor.
fn length(rows: usize) -> f64 {
    f64::from(u32::try_from(rows).unwrap_or(u32::MAX).max(1))
}

impl Kernels for Quantizing {
    /// The values that the elements hold.
    type Inputs = Vec<f32>;
    type Output = Smoothed;

    fn arch(&self) -> &str {
        &self.plan.arch
    }

    fn compile(&self, toolchain: &Toolchain) -> Result<String, CompileError> {
        self.plan.compile(toolchain)
    }

    fn identity(&self) -> String {
        format!("{:?} {:?} {:?}", self.plan.steps, self.tensor, self.plan.request)
    }

    fn steps(&self) -> Vec<Step<'_>> {
        self.plan.steps.iter().map(step).collect()
    }

    fn floor(&self) -> Floor {
        let elements = self.plan.request.rows.elements();
        Floor {
            loaded: wide(elements.saturating_mul(self.plan.request.element.bytes())),
            stored: wide(elements),
            ..Floor::default()
        }
    }

    fn inputs(&self, values: &Values, seed: u64) -> Result<Vec<f32>, Unfit> {
        let Request { shape, layout, .. } = &self.request;
        let tensors = Tensors::generate(shape, family(values)?, seed, *layout);
        let values = match self.tensor {
            TensorName::Q => tensors.q,
            TensorName::K => tensors.k,
            TensorName::V => tensors.v,
        };
        let element = self.plan.request.element;
        Ok(element.decode(&element.encode(&values)))
    }

    fn execute<G: Gpu>(
        &self,
        gpu: &mut G,
        ptx: &str,
        inputs: &Vec<f32>,
    ) -> Result<Smoothed, RunError<G::Error>> {
        let bytes = self.plan.request.element.encode(inputs);
        Quantization::load(self.plan.clone(), ptx, gpu)?.run(gpu, &bytes)
    }

    fn expected(&self, inputs: &Vec<f32>) -> Result<Expected<Smoothed>, Unfit> {
        let request = &self.plan.request;
        let bits = quantize(inputs, request).map_err(|error| Unfit(error.to_string()))?;
        let (relative, floor) = match request.format {
            Format::E5m2 => (2f64.powi(-3), 2f64.powi(-17)),
            _ => (2f64.powi(-4), 2f64.powi(-10)),
        };
        let means = if request.smooth { self.means(inputs) } else { vec![(0.0, 0.0); inputs.len()] };
        let exact: Vec<f64> =
            inputs.iter().zip(&means).map(|(value, (mean, _))| f64::from(*value) - mean).collect();
        let mut limits = vec![0.0; exact.len()];
        let rows = &request.rows;
        for (batch, head, row) in each_row(rows) {
            let (at, scale) =
                (rows.offset(batch, head, row), f64::from(bits.tensor.scale_of(batch, head, row)));
            let of_mean = (length(rows.length(batch)) + 1.0) * 2f64.powi(-24);
            let row = limits.iter_mut().zip(exact.iter().zip(&means)).skip(at).take(rows.dim);
            for (limit, (exact, (_, magnitudes))) in row {
                let step = (relative * exact.abs()).max(floor * scale);
                let moved = if request.smooth { of_mean * magnitudes } else { 0.0 };
                *limit = (step + 2f64.powi(-22) * exact.abs() + moved) * (1.0 + relative);
            }
        }
        Ok(Expected {
            tolerance: bounded(limits, rows.dim),
            dim: rows.dim,
            exact,
            exact_lse: Vec::new(),
            bits,
        })
    }

    fn values(&self, output: &Smoothed) -> Vec<f64> {
        output.tensor.dequantize()
    }

    fn other_bits(&self, output: &Smoothed, expected: &Expected<Smoothed>) -> usize {
        let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<u32>>();
        let mean = |smoothed: &Smoothed| bits(smoothed.mean.as_deref().unwrap_or_default());
        differing(&output.tensor.codes, &expected.bits.tensor.codes)
            + differing(&bits(&output.tensor.scales), &bits(&expected.bits.tensor.scales))
            + differing(&mean(output), &mean(&expected.bits))
    }

    fn wrong(
        &self,
        inputs: &Vec<f32>,
        expected: &Expected<Smoothed>,
    ) -> Result<Vec<(String, Vec<f64>)>, Unfit> {
        let right = self.values(&expected.bits);
        let rows = &self.plan.request.rows;
        let without = |skipped: fn(usize) -> std::ops::Range<usize>| {
            let mut values = right.clone();
            for (batch, head, row) in each_row(rows) {
                if skipped(rows.length(batch)).contains(&row) {
                    values
                        .iter_mut()
                        .skip(rows.offset(batch, head, row))
                        .take(rows.dim)
                        .for_each(|v| *v = 0.0);
                }
            }
            values
        };
        let mut all = vec![
            ("zeros".to_owned(), vec![0.0; right.len()]),
            ("a tile skipped".to_owned(), without(middle_tile)),
            ("the tail skipped".to_owned(), without(last_tile)),
            ("scales ignored".to_owned(), {
                let tensor = &expected.bits.tensor;
                tensor.codes.iter().map(|code| f64::from(tensor.format.decode(*code))).collect()
            }),
        ];
        if self.plan.request.smooth {
            all.push(("smoothing ignored".to_owned(), inputs.iter().copied().map(f64::from).collect()));
        }
        all.retain(|(_, values)| *values != right);
        Ok(all)
    }
}
