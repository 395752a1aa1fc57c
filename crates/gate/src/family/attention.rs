//! Attention: the kernels of the ladder, evaluated with the exact oracle and with the bit-exact one.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use warpproof_evidence::record::Stage;
use warpproof_kernels::attention::{Attention as Loaded, RunError};
use warpproof_kernels::format::Format;
use warpproof_kernels::inputs::{self, Inputs};
use warpproof_kernels::ladder;
use warpproof_kernels::null::Null;
use warpproof_kernels::oracle::exact::Exact;
use warpproof_kernels::plan::{Plan, PlanError, Request, Scales, Splits};
use warpproof_kernels::problem::{Granularity, Layout, Lengths, Mask, Shape};
use warpproof_launch::{Checking, Counting, SimError};
use warpproof_model::bound::Floor;
use warpproof_model::{Device, TensorType};
use warpproof_sim::count::Counters;
use warpproof_sim::stop::Stop;
use warpproof_speed::ClockError;
use warpproof_task::{AttentionOptions, Axes, Candidate, Operator, Program, Reference, Size, Task, Values};
use warpproof_tolerance::error::Errors;
use warpproof_toolchain::{CompileError, Toolchain};

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
        Ok(Arc::new(plan(task, candidate, size, device)?))
    }
}

impl Planned for Plan {
    fn arch(&self) -> &str {
        &self.arch
    }

    fn compile(&self, toolchain: &Toolchain) -> Result<String, CompileError> {
        Plan::compile(self, toolchain)
    }

    fn identity(&self) -> String {
        format!("{:?} {:?}", self.steps, self.request)
    }

    fn steps(&self) -> Vec<Step<'_>> {
        let steps = self.steps.iter();
        steps
            .map(|step| Step {
                kernel: step.kernel,
                threads: step.geometry.block,
                shared: step.geometry.shared,
            })
            .collect()
    }

    fn floor(&self) -> Floor {
        let wide = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
        let (shape, mask) = (&self.request.shape, self.request.mask);
        let mut pairs = 0;
        let (mut queries, mut keys) = (0, 0);
        for lengths in &shape.sequences {
            queries += lengths.queries;
            keys += lengths.keys;
            pairs += match mask {
                Mask::Full => lengths.queries * lengths.keys,
                Mask::Causal => (0..lengths.queries).map(|row| mask.visible(*lengths, row)).sum(),
            };
        }
        // Codes of Q, K and V are bytes, the output is f16.
        let loaded = shape.dim * (shape.heads * queries + 2 * shape.kv_heads * keys);
        Floor {
            fma: (Some(TensorType::F8ToF32), wide(2 * pairs * shape.heads * shape.dim)),
            special: wide(pairs * shape.heads),
            loaded: wide(loaded),
            stored: wide(2 * shape.dim * shape.heads * queries),
        }
    }

    fn correct(&self, bench: &Bench<'_>, ptx: &str, part: &Part) -> Result<Ending, Trouble> {
        let plan = self;
        let mut gpu = bench.device(Purpose::Run);
        let attention = Loaded::load(plan.clone(), ptx, &mut gpu)
            .map_err(|error| failed(&RunError::Gpu(error), &part.name))?;
        let mut worst = Worst::default();
        let mut nulls: BTreeMap<String, u64> = BTreeMap::new();
        for distribution in &bench.task.data.distributions {
            for (index, (seed, origin)) in bench.seeds().into_iter().enumerate() {
                bench.check_stop()?;
                let name = format!("{}, {}, {} {seed}", part.name, distribution.name.value, origin.seed());
                let inputs =
                    generate(plan, &distribution.values, seed).map_err(|error| unfit(error.to_string()))?;
                let answer = attention
                    .run(&mut gpu, &inputs.q, &inputs.k, &inputs.v)
                    .map_err(|error| failed(&error, &name))?;
                let oracles = plan.oracles(&inputs).map_err(|error| unfit(error.to_string()))?;
                let verdict = oracles.judge(&answer);
                let Some(tolerance) = &oracles.exact.tolerance else {
                    return Err(unfit("the task has no tolerance limits"));
                };
                worst.add(&name, &verdict.errors, &verdict.judgement, tolerance);
                worst.count_other_bits(
                    verdict.other_bits + verdict.other_lse_bits + verdict.lse_outside,
                    "bits other than the oracle's",
                );
                if index == 0 {
                    try_nulls(plan, &inputs, &oracles.exact, &mut nulls)?;
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
        let plan = self;
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
            let inputs =
                generate(plan, &distribution.values, seed).map_err(|error| unfit(error.to_string()))?;
            let count = if told.cases == 0 { schedules(bench) } else { 1 };
            told.cases += 1;
            told.executions += 1;
            let mut gpu = Checking::at_least(bench.device(Purpose::Check { several: count > 1 }), count);
            let done = Loaded::load(plan.clone(), ptx, &mut gpu)
                .map_err(RunError::Gpu)
                .and_then(|attention| attention.run(&mut gpu, &inputs.q, &inputs.k, &inputs.v));
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
        let plan = self;
        let Some(distribution) = bench.measured_distribution() else {
            return Err(unfit("the task has no distribution"));
        };
        bench.check_stop()?;
        let inputs = generate(plan, &distribution.values, bench.measured_seed())
            .map_err(|error| unfit(error.to_string()))?;
        let mut gpu = Counting::new(bench.device(Purpose::Run));
        Loaded::load(plan.clone(), ptx, &mut gpu)
            .map_err(RunError::Gpu)
            .and_then(|attention| attention.run(&mut gpu, &inputs.q, &inputs.k, &inputs.v))
            .map_err(|error| failed(&error, &part.name))?;
        Ok(gpu.counters)
    }

    fn run(&self, held: &mut Remote, bench: &Bench<'_>, ptx: &str, name: &str) -> Result<(), ClockError> {
        let plan = self;
        let failed = |error: &dyn fmt::Display| ClockError::Device(format!("{name}: {error}"));
        let Some(distribution) = bench.measured_distribution() else {
            return Err(failed(&"the task has no distribution"));
        };
        let inputs =
            generate(plan, &distribution.values, bench.measured_seed()).map_err(|error| failed(&error))?;
        let attention = Loaded::load(plan.clone(), ptx, held).map_err(|error| failed(&error))?;
        let answer = attention.run(held, &inputs.q, &inputs.k, &inputs.v).map_err(|error| failed(&error))?;
        let oracles = plan.oracles(&inputs).map_err(|error| failed(&error))?;
        let verdict = oracles.judge(&answer);
        if !verdict.judgement.passed {
            let why: Vec<String> = verdict.judgement.reasons.iter().map(ToString::to_string).collect();
            return Err(ClockError::Output(format!("{name}: {}", why.join("; "))));
        }
        Ok(())
    }
}

/// The family's shape of some extents.
pub fn shape(axes: &Axes) -> Result<Shape, Unfit> {
    let get = |axis: &str| axes.get(axis).and_then(|extent| usize::try_from(*extent).ok());
    let need = |axis: &str| get(axis).ok_or_else(|| Unfit(format!("attention requires the axis `{axis}`")));
    let (batch, heads, queries, dim) = (need("b")?, need("h")?, need("s")?, need("d")?);
    let lengths = Lengths { queries, keys: get("keys").unwrap_or(queries) };
    let elements = [batch, heads, queries.max(lengths.keys), dim]
        .iter()
        .try_fold(1usize, |n, extent| n.checked_mul(*extent));
    if elements.is_none_or(|elements| elements > MAX_ELEMENTS) {
        return Err(Unfit("tensors of this shape exceed the reference's size limit".to_owned()));
    }
    Ok(Shape { heads, kv_heads: get("kv").unwrap_or(heads), dim, sequences: vec![lengths; batch] })
}

/// The family's request for a candidate of an attention task on one size.
pub fn request(task: &Task, candidate: &Candidate, size: &Size) -> Result<Request, Unfit> {
    let Reference::BuiltIn { operator: Operator::Attention { causal, softmax_scale } } = &task.reference
    else {
        return Err(Unfit(format!("`{}` is not an attention task", task.name.value)));
    };
    let Program::Rung { rung, options } = &candidate.program else {
        return Err(Unfit(format!("`{}` is not a rung of the ladder", candidate.name.value)));
    };
    let known = ladder::rung(rung).ok_or_else(|| Unfit(format!("there is no rung `{}`", rung.value)))?;
    let toggles = candidate.toggles.iter().map(|(name, value)| (name.clone(), value.value == "1")).collect();
    Ok(Request {
        mask: if size.causal.unwrap_or(*causal) { Mask::Causal } else { Mask::Full },
        format: format(options).or(known.formats.first().copied()).unwrap_or_default(),
        scales: Scales::all(granularity(options)),
        layout: if options.layout.as_ref().is_some_and(|layout| layout.value == "bshd") {
            Layout::Bshd
        } else {
            Layout::Bhsd
        },
        lse: options.lse,
        softmax_scale: *softmax_scale,
        rung: Some(rung.value.clone()),
        toggles,
        splits: options
            .splits
            .map_or(Splits::Auto, |n| Splits::Count(usize::try_from(n).unwrap_or(usize::MAX))),
        ..Request::new(shape(&size.axes)?)
    })
}

fn format(options: &AttentionOptions) -> Option<Format> {
    options.format.as_ref().map(|format| match format.as_str() {
        "e5m2" => Format::E5m2,
        "linear8" => Format::Linear8,
        _ => Format::E4m3,
    })
}

fn granularity(options: &AttentionOptions) -> Granularity {
    match options.scales.as_ref().map(|scales| scales.as_str()) {
        Some("tensor") => Granularity::Tensor,
        Some("block") => Granularity::Block,
        Some("row") => Granularity::Row,
        _ => Granularity::Head,
    }
}

/// The family's plan for a candidate; its oracles are [`Plan::exact`] and [`Plan::bits`].
pub fn plan(task: &Task, candidate: &Candidate, size: &Size, device: &Device) -> Result<Plan, Unfit> {
    Plan::new(&request(task, candidate, size)?, device).map_err(|error: PlanError| Unfit(error.to_string()))
}

/// The inputs of a plan.
pub fn generate(plan: &Plan, values: &Values, seed: u64) -> Result<Inputs, Unfit> {
    let Values::Attention { family } = values else {
        return Err(Unfit("attention supports only its own distributions".to_owned()));
    };
    Ok(inputs::generate(&plan.request.shape, *family, seed, plan.request.spec()))
}

fn try_nulls(
    plan: &Plan,
    inputs: &Inputs,
    exact: &Exact,
    nulls: &mut BTreeMap<String, u64>,
) -> Result<(), Trouble> {
    let Some(tolerance) = &exact.tolerance else { return Ok(()) };
    let (mask, layout) = (plan.request.mask, plan.request.layout);
    for null in Null::ALL {
        // Once a null kernel was refused on this size, refusing it again adds no information.
        let known = nulls.entry(null.to_string()).or_default();
        if *known > 0 || null.is_right(inputs, mask) {
            continue;
        }
        let output = null.output(inputs, mask, layout).map_err(|error| unfit(error.to_string()))?;
        let errors = Errors::of(&output, &exact.output, exact.rows.dim, tolerance);
        *known += u64::from(!tolerance.judge(&errors).passed);
    }
    Ok(())
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
