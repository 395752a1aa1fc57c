//! Rungs of the attention ladder: judged by the family's own oracles, the exact one and the one that gives their very bits.

use std::collections::BTreeMap;

use warpproof_kernels::attention::{Attention, RunError};
use warpproof_kernels::error::Errors;
use warpproof_kernels::gpu::{Checking, Counting, SimError};
use warpproof_kernels::inputs::Inputs;
use warpproof_kernels::null::Null;
use warpproof_kernels::oracle::exact::Exact;
use warpproof_kernels::plan::Plan;
use warpproof_sim::count::Counters;
use warpproof_sim::stop::Stop;

use super::checks::{Told, schedules};
use super::correct::Worst;
use super::{Bench, Built, Ending, Part, Programs, Trouble, stopped, unfit};
use crate::limits::Purpose;
use crate::record::Stage;
use crate::reference::attention::generate;
use crate::task::Candidate;

fn plan<'b>(built: &'b Built, part: &Part) -> Result<(&'b Plan, &'b str), Trouble> {
    let Programs::Rung { plans } = &built.programs else { return Err(unfit("this is no rung")) };
    let found = plans.get(&part.name).map(|(plan, ptx)| (plan, &**ptx));
    found.ok_or_else(|| unfit(format!("there is no plan for {}", part.name)))
}

/// Outputs of one size against both oracles.
pub(super) fn correct(bench: &Bench<'_>, built: &Built, part: &Part) -> Result<Ending, Trouble> {
    let (plan, ptx) = plan(built, part)?;
    let mut gpu = bench.device(Purpose::Run);
    let attention = Attention::load(plan.clone(), ptx, &mut gpu)
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
            let Some(tolerance) = &oracles.exact.tolerance else { return Err(unfit("there are no limits")) };
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

fn try_nulls(
    plan: &Plan,
    inputs: &Inputs,
    exact: &Exact,
    nulls: &mut BTreeMap<String, u64>,
) -> Result<(), Trouble> {
    let Some(tolerance) = &exact.tolerance else { return Ok(()) };
    let (mask, layout) = (plan.request.mask, plan.request.layout);
    for null in Null::ALL {
        // One that was refused on this size says no more by being refused again.
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

/// All checks on one size. The first case is checked under all schedules; every other distribution and seed under the first one,
/// on the smallest size, because the kernels of the ladder are long.
pub(super) fn checks(
    bench: &Bench<'_>,
    candidate: &Candidate,
    built: &Built,
    part: &Part,
) -> Result<Ending, Trouble> {
    let (plan, ptx) = plan(built, part)?;
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
        let inputs = generate(plan, &distribution.values, seed).map_err(|error| unfit(error.to_string()))?;
        let count = if told.cases == 0 { schedules(bench) } else { 1 };
        told.cases += 1;
        told.executions += 1;
        let mut gpu = Checking::at_least(bench.device(Purpose::Check { schedules: count }), count);
        let done = Attention::load(plan.clone(), ptx, &mut gpu)
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

/// What each launch does on one size, on inputs drawn for the run.
pub(super) fn count(bench: &Bench<'_>, built: &Built, part: &Part) -> Result<Vec<Counters>, Trouble> {
    let (plan, ptx) = plan(built, part)?;
    let Some(distribution) = bench.measured_distribution() else {
        return Err(unfit("the task has no distribution"));
    };
    bench.check_stop()?;
    let inputs = generate(plan, &distribution.values, bench.measured_seed())
        .map_err(|error| unfit(error.to_string()))?;
    let mut gpu = Counting::new(bench.device(Purpose::Run));
    Attention::load(plan.clone(), ptx, &mut gpu)
        .map_err(RunError::Gpu)
        .and_then(|attention| attention.run(&mut gpu, &inputs.q, &inputs.k, &inputs.v))
        .map_err(|error| failed(&error, &part.name))?;
    Ok(gpu.counters)
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
