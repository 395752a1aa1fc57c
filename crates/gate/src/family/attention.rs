//! Attention: the kernels of the ladder, evaluated with the exact oracle and with the bit-exact one; and the kernels
//! around them, which quantize and correct the log-sum-exp of smoothed keys. Kernels with a source of their own are
//! launched like those of any other task; `own` has their inputs and their reference.

pub(crate) mod own;
mod quantizing;
mod unsmoothing;
mod variant;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use warpproof_count::Counters;
use warpproof_evidence::record::Stage;
use warpproof_kernels::attention::RunError;
use warpproof_kernels::inputs::{self, Distribution, Inputs};
use warpproof_kernels::plan::{Plan, PlanError, Request};
use warpproof_kernels::quantize::Quantizer;
use warpproof_kernels::unsmooth::Unsmooth;
use warpproof_launch::{Checking, Counting, Gpu, SimError};
use warpproof_model::Device;
use warpproof_model::bound::Floor;
use warpproof_sim::stop::Stop;
use warpproof_speed::ClockError;
use warpproof_task::{AttentionWork, Candidate, Size, Task, Values};
use warpproof_tolerance::error::{Errors, NonFinite};
use warpproof_tolerance::{Judgement, RowMoments, Tolerance};
use warpproof_toolchain::{CompileError, Toolchain};

pub use self::own::{expected as own_expected, wrong as own_wrong};
use self::quantizing::Quantizing;
use self::unsmoothing::Unsmoothing;
use self::variant::Variant;
use super::{Family, Planned, Step};
use crate::limits::Purpose;
use crate::reference::{MAX_ELEMENTS, Unfit};
use crate::runner::Remote;
use crate::stage::checks::{Told, schedules};
use crate::stage::correct::Worst;
use crate::stage::{Bench, Ending, Part, Trouble, stopped, unfit};

/// The family.
pub(super) struct Attention;

impl Family for Attention {
    fn plan(
        &self,
        task: &Task,
        candidate: &Candidate,
        size: &Size,
        device: &Device,
    ) -> Result<Arc<dyn Planned>, Unfit> {
        Ok(match work(task, candidate, size)? {
            AttentionWork::Attention { request, smooth_k } => {
                Arc::new(Of(Variant { plan: planned(&request, device)?, smooth_k }))
            }
            AttentionWork::Quantize { request, tensor, element, smooth } => {
                let plan = Quantizer::new(&request.quantize(tensor, element, smooth), device);
                Arc::new(Of(Quantizing { plan: plan.map_err(unplanned)?, tensor, request }))
            }
            AttentionWork::Unsmooth(request) => {
                let plan = planned(&request, device)?;
                Arc::new(Of(Unsmoothing { correction: Unsmooth::new(&plan).map_err(unplanned)?, plan }))
            }
        })
    }
}

/// Kernels of the family that run one after the other, planned for one size.
trait Kernels: fmt::Debug + Send + Sync {
    type Inputs;
    type Output;

    fn arch(&self) -> &str;
    fn compile(&self, toolchain: &Toolchain) -> Result<String, CompileError>;
    fn identity(&self) -> String;
    fn steps(&self) -> Vec<Step<'_>>;
    fn floor(&self) -> Floor;

    /// The inputs of a distribution.
    fn inputs(&self, values: &Values, seed: u64) -> Result<Self::Inputs, Unfit>;

    /// Loads the kernels, copies the inputs to the device, launches, and copies the output back.
    fn execute<G: Gpu>(
        &self,
        gpu: &mut G,
        ptx: &str,
        inputs: &Self::Inputs,
    ) -> Result<Self::Output, RunError<G::Error>>;

    /// The output that is expected.
    fn expected(&self, inputs: &Self::Inputs) -> Result<Expected<Self::Output>, Unfit>;

    /// The output as numbers, in the order of [`Expected::exact`].
    fn values(&self, output: &Self::Output) -> Vec<f64>;

    /// Elements whose bits differ from those that the kernel must write, or that exceed a limit of their own.
    fn other_bits(&self, output: &Self::Output, expected: &Expected<Self::Output>) -> usize;

    /// Outputs that are wrong on purpose, as numbers, by name. Those that are right by accident are left out.
    fn wrong(
        &self,
        inputs: &Self::Inputs,
        expected: &Expected<Self::Output>,
    ) -> Result<Vec<(String, Vec<f64>)>, Unfit>;
}

/// What an output is compared with.
struct Expected<O> {
    /// The exact output.
    exact: Vec<f64>,
    /// The exact log-sum-exp, if there is one; its limits are those of the tolerance.
    exact_lse: Vec<f64>,
    /// Elements of a row.
    dim: usize,
    /// How far an output may be from it.
    tolerance: Tolerance,
    /// The bits that the kernel must write.
    bits: O,
}

impl<O> Expected<O> {
    fn compare(&self, values: &[f64]) -> (Errors, Judgement) {
        let got = |at: usize| values.get(at).copied();
        let errors = Errors::measure(got, &self.exact, self.dim, &self.tolerance, NonFinite::Refuse);
        let judgement = self.tolerance.judge(&errors);
        (errors, judgement)
    }
}

/// The tolerance of elements whose errors have a bound in the worst case; those of all elements follow from it.
fn bounded(limits: Vec<f64>, dim: usize) -> Tolerance {
    let rows: Vec<RowMoments> = limits
        .chunks(dim.max(1))
        .map(|row| {
            let count = f64::from(u32::try_from(row.len()).unwrap_or(u32::MAX)).max(1.0);
            RowMoments {
                systematic: row.iter().sum::<f64>() / count,
                systematic_squared: row.iter().map(|limit| limit * limit).sum::<f64>() / count,
                ..RowMoments::default()
            }
        })
        .collect();
    #[expect(clippy::as_conversions, clippy::cast_possible_truncation, reason = "limits are rounded up")]
    let limits = limits.into_iter().map(|limit| (limit as f32).next_up()).collect();
    Tolerance::new(limits, Vec::new(), &rows)
}

/// Kernels as the stages see them.
#[derive(Debug)]
struct Of<K>(K);

impl<K: Kernels> Planned for Of<K> {
    fn arch(&self) -> &str {
        self.0.arch()
    }

    fn compile(&self, toolchain: &Toolchain) -> Result<String, CompileError> {
        self.0.compile(toolchain)
    }

    fn identity(&self) -> String {
        self.0.identity()
    }

    fn steps(&self) -> Vec<Step<'_>> {
        self.0.steps()
    }

    fn floor(&self) -> Floor {
        self.0.floor()
    }

    fn correct(&self, bench: &Bench<'_>, ptx: &str, part: &Part) -> Result<Ending, Trouble> {
        let mut gpu = bench.device(Purpose::Run);
        let mut worst = Worst::default();
        let mut nulls: BTreeMap<String, u64> = BTreeMap::new();
        for distribution in &bench.task.data.distributions {
            for (index, (seed, origin)) in bench.seeds().into_iter().enumerate() {
                bench.check_stop()?;
                let name = format!("{}, {}, {} {seed}", part.name, distribution.name.value, origin.seed());
                let inputs = self.0.inputs(&distribution.values, seed).map_err(unfitted)?;
                let output = self.0.execute(&mut gpu, ptx, &inputs).map_err(|error| failed(&error, &name))?;
                let expected = self.0.expected(&inputs).map_err(unfitted)?;
                let (errors, judgement) = expected.compare(&self.0.values(&output));
                worst.add(&name, &errors, &judgement, &expected.tolerance);
                let other = self.0.other_bits(&output, &expected);
                worst.count_other_bits(other, "bits other than the oracle's");
                if index == 0 {
                    for (name, values) in self.0.wrong(&inputs, &expected).map_err(unfitted)? {
                        let refused = !expected.compare(&values).1.passed;
                        *nulls.entry(name).or_default() += u64::from(refused);
                    }
                }
            }
        }
        Ok(worst.ending(&part.name, &nulls))
    }

    fn checks(
        &self,
        bench: &Bench<'_>,
        candidate: &Candidate,
        ptx: &str,
        part: &Part,
    ) -> Result<Ending, Trouble> {
        let sizes = bench.sizes(candidate, Some(Stage::Checks));
        let smallest = sizes.iter().min_by_key(|size| size.axes.values().product::<u64>());
        let all = smallest.is_some_and(|size| size.name == part.name);
        let distributions = bench.task.data.distributions.iter();
        let cases = distributions.flat_map(|one| bench.seeds().into_iter().map(move |seed| (one, seed)));
        let cases: Vec<_> = cases.take(if all { usize::MAX } else { 1 }).collect();
        if cases.is_empty() {
            return Err(unfit("the task has no distribution"));
        }
        let mut told = Told::default();
        for (distribution, (seed, origin)) in cases {
            bench.check_stop()?;
            let name = format!("{}, {}, {} {seed}", part.name, distribution.name.value, origin.seed());
            let inputs = self.0.inputs(&distribution.values, seed).map_err(unfitted)?;
            let count = if told.cases == 0 { schedules(bench) } else { 1 };
            told.cases += 1;
            told.executions += 1;
            let mut gpu = Checking::at_least(bench.device(Purpose::Check { several: count > 1 }), count);
            let done = self.0.execute(&mut gpu, ptx, &inputs);
            let instructions =
                gpu.outcomes.iter().fold(0u64, |all, outcome| all.saturating_add(outcome.instructions));
            told.add(std::mem::take(&mut gpu.findings), instructions, 0);
            match done {
                Ok(_) => {}
                Err(RunError::Gpu(error)) => match stop_of(&error) {
                    Some(stop) => told.stop(stop, &name),
                    None => return Err(unfit(error.to_string())),
                },
                Err(error) => return Err(unfit(error.to_string())),
            }
            if told.is_wrong() {
                told.later = Some(name).filter(|_| told.executions > 1);
                break;
            }
        }
        Ok(told.ending(&part.name, schedules(bench)))
    }

    fn count(&self, bench: &Bench<'_>, ptx: &str, part: &Part) -> Result<Vec<Counters>, Trouble> {
        let Some(distribution) = bench.measured_distribution() else {
            return Err(unfit("the task has no distribution"));
        };
        bench.check_stop()?;
        let inputs = self.0.inputs(&distribution.values, bench.measured_seed()).map_err(unfitted)?;
        let mut gpu = Counting::new(bench.device(Purpose::Run));
        self.0.execute(&mut gpu, ptx, &inputs).map_err(|error| failed(&error, &part.name))?;
        Ok(gpu.counters)
    }

    fn run(&self, held: &mut Remote, bench: &Bench<'_>, ptx: &str, name: &str) -> Result<(), ClockError> {
        let failed = |error: &dyn fmt::Display| ClockError::Device(format!("{name}: {error}"));
        let Some(distribution) = bench.measured_distribution() else {
            return Err(failed(&"the task has no distribution"));
        };
        let inputs =
            self.0.inputs(&distribution.values, bench.measured_seed()).map_err(|error| failed(&error))?;
        let output = self.0.execute(held, ptx, &inputs).map_err(|error| failed(&error))?;
        let expected = self.0.expected(&inputs).map_err(|error| failed(&error))?;
        let (_, judgement) = expected.compare(&self.0.values(&output));
        if !judgement.passed {
            let why: Vec<String> = judgement.reasons.iter().map(ToString::to_string).collect();
            return Err(ClockError::Output(format!("{name}: {}", why.join("; "))));
        }
        Ok(())
    }
}

/// What a candidate of an attention task computes on a size.
fn work(task: &Task, candidate: &Candidate, size: &Size) -> Result<AttentionWork, Unfit> {
    let work = task.attention(candidate, size).map_err(Unfit)?;
    let (AttentionWork::Attention { request, .. }
    | AttentionWork::Quantize { request, .. }
    | AttentionWork::Unsmooth(request)) = &work;
    let shape = &request.shape;
    let rows = shape.max_queries().max(shape.max_keys());
    let elements =
        [shape.heads, rows, shape.dim].iter().try_fold(shape.batch(), |n, extent| n.checked_mul(*extent));
    if elements.is_none_or(|elements| elements > MAX_ELEMENTS) {
        return Err(Unfit("tensors of this shape exceed the reference's size limit".to_owned()));
    }
    Ok(work)
}

/// The family's plan for a candidate that is a rung; its oracles are [`Plan::exact`] and [`Plan::bits`].
pub fn plan(task: &Task, candidate: &Candidate, size: &Size, device: &Device) -> Result<Plan, Unfit> {
    let AttentionWork::Attention { request, .. } = work(task, candidate, size)? else {
        return Err(Unfit(format!("`{}` is not a rung of the ladder", candidate.name.value)));
    };
    planned(&request, device)
}

fn planned(request: &Request, device: &Device) -> Result<Plan, Unfit> {
    Plan::new(request, device).map_err(unplanned)
}

#[expect(clippy::needless_pass_by_value, reason = "the form that map_err takes")]
fn unplanned(error: PlanError) -> Unfit {
    Unfit(error.to_string())
}

#[expect(clippy::needless_pass_by_value, reason = "the form that map_err takes")]
fn unfitted(error: Unfit) -> Trouble {
    unfit(error.to_string())
}

/// The inputs of a plan.
pub fn generate(plan: &Plan, values: &Values, seed: u64) -> Result<Inputs, Unfit> {
    Ok(inputs::generate(&plan.request.shape, family(values)?, seed, plan.request.spec()))
}

/// A distribution of the family.
fn family(values: &Values) -> Result<Distribution, Unfit> {
    match values {
        Values::Attention { family } => Ok(*family),
        _ => Err(Unfit("attention supports only its own distributions".to_owned())),
    }
}

fn step(step: &warpproof_kernels::plan::Step) -> Step<'_> {
    Step { kernel: step.kernel, threads: step.geometry.block, shared: step.geometry.shared }
}

fn wide(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}

fn stop_of(error: &SimError) -> Option<&Stop> {
    std::error::Error::source(error)?
        .downcast_ref::<Box<Stop>>()
        .map(|stop| &**stop)
        .or_else(|| std::error::Error::source(error)?.downcast_ref::<Stop>())
}

fn failed(error: &RunError<SimError>, case: &str) -> Trouble {
    match error {
        RunError::Gpu(error) => match stop_of(error) {
            Some(stop) => stopped(stop, case).into(),
            None => unfit(format!("{case}: {error}")),
        },
        error => unfit(format!("{case}: {error}")),
    }
}
