//! A rung of the ladder.

use warpproof_kernels::attention::{Answer, Attention, RunError};
use warpproof_kernels::inputs::{self, Inputs};
use warpproof_kernels::null::{Null, ignored};
use warpproof_kernels::plan::{Plan, Request};
use warpproof_kernels::problem::{Mask, Window};
use warpproof_launch::Gpu;
use warpproof_model::TensorType;
use warpproof_model::bound::Floor;
use warpproof_task::Values;
use warpproof_toolchain::{CompileError, Toolchain};

use super::super::Step;
use super::{Expected, Kernels, family, generate, step, wide};
use crate::reference::Unfit;

/// A rung, planned for one size.
#[derive(Debug)]
pub(super) struct Variant {
    pub(super) plan: Plan,
    /// Whether K is smoothed before quantization.
    pub(super) smooth_k: bool,
}

impl Kernels for Variant {
    type Inputs = Inputs;
    type Output = Answer;

    fn arch(&self) -> &str {
        &self.plan.arch
    }

    fn compile(&self, toolchain: &Toolchain) -> Result<String, CompileError> {
        self.plan.compile(toolchain)
    }

    fn identity(&self) -> String {
        let smoothed = if self.smooth_k { " smooth_k" } else { "" };
        format!("{:?} {:?}{smoothed}", self.plan.steps, self.plan.request)
    }

    fn steps(&self) -> Vec<Step<'_>> {
        self.plan.steps.iter().map(step).collect()
    }

    fn floor(&self) -> Floor {
        floor(&self.plan.request)
    }

    fn inputs(&self, values: &Values, seed: u64) -> Result<Inputs, Unfit> {
        if !self.smooth_k {
            return generate(&self.plan, values, seed);
        }
        let smoothed = inputs::generate_smoothed(&self.plan.request, family(values)?, seed);
        smoothed.map(|(inputs, _)| inputs).map_err(|error| Unfit(error.to_string()))
    }

    fn execute<G: Gpu>(&self, gpu: &mut G, ptx: &str, inputs: &Inputs) -> Result<Answer, RunError<G::Error>> {
        Attention::load(self.plan.clone(), ptx, gpu)?.run_inputs(gpu, inputs)
    }

    fn expected(&self, inputs: &Inputs) -> Result<Expected<Answer>, Unfit> {
        let oracles = self.plan.oracles(inputs).map_err(|error| Unfit(error.to_string()))?;
        let Some(tolerance) = oracles.exact.tolerance else {
            return Err(Unfit("the task has no tolerance limits".to_owned()));
        };
        let lse = oracles.lse.then_some(oracles.bits.lse);
        Ok(Expected {
            dim: oracles.exact.rows.dim,
            exact: oracles.exact.output,
            exact_lse: oracles.exact.lse,
            tolerance,
            bits: Answer { output: oracles.bits.output, lse },
        })
    }

    fn values(&self, output: &Answer) -> Vec<f64> {
        output.output.iter().map(|code| self.plan.request.output.decode(*code)).collect()
    }

    fn other_bits(&self, output: &Answer, expected: &Expected<Answer>) -> usize {
        let mut other = differing(&output.output, &expected.bits.output);
        if let Some(bits) = &expected.bits.lse {
            let lse = output.lse.as_deref().unwrap_or_default();
            let values: Vec<f32> = lse.iter().map(|bits| f32::from_bits(*bits)).collect();
            other += differing(lse, bits) + expected.tolerance.lse_outside(&values, &expected.exact_lse);
        }
        other
    }

    fn wrong(&self, inputs: &Inputs, expected: &Expected<Answer>) -> Result<Vec<(String, Vec<f64>)>, Unfit> {
        let request = &self.plan.request;
        let refused = |error: inputs::Inconsistent| Unfit(error.to_string());
        let mut all = Vec::new();
        for null in Null::ALL {
            all.push((null.to_string(), null.answer(request, inputs).map_err(refused)?));
        }
        for (name, output) in ignored(request, inputs).map_err(refused)? {
            all.push((name.to_owned(), output));
        }
        let right: Vec<u16> = expected.exact.iter().map(|value| request.output.encode(*value)).collect();
        all.retain(|(_, output)| *output != right);
        let values = |output: Vec<u16>| output.iter().map(|code| request.output.decode(*code)).collect();
        Ok(all.into_iter().map(|(name, output)| (name, values(output))).collect())
    }
}

/// The minimum work of a request.
pub(super) fn floor(request: &Request) -> Floor {
    let shape = &request.shape;
    let mut pairs = 0;
    let (mut queries, mut keys) = (0, 0);
    for lengths in &shape.sequences {
        queries += lengths.queries;
        keys += lengths.keys;
        pairs += if request.mask == Mask::Full && request.window == Window::default() {
            lengths.queries * lengths.keys
        } else {
            (0..lengths.queries).map(|row| request.visible(*lengths, row).len()).sum()
        };
    }
    // Codes of Q, K and V are bytes, the output has 16 bits.
    let loaded = shape.dim * (shape.heads * queries + 2 * shape.kv_heads * keys);
    Floor {
        fma: (Some(TensorType::F8ToF32), wide(2 * pairs * shape.heads * shape.dim)),
        special: wide(pairs * shape.heads),
        loaded: wide(loaded),
        stored: wide(2 * shape.dim * shape.heads * queries),
    }
}

/// Elements that differ; missing ones do.
pub(super) fn differing<T: PartialEq>(ours: &[T], theirs: &[T]) -> usize {
    let same = ours.iter().zip(theirs).filter(|(a, b)| a == b).count();
    ours.len().max(theirs.len()) - same
}
