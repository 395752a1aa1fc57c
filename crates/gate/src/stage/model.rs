//! The best that the task's device could do: the roofline floor of each shape, which is a lower bound for any kernel
//! of the problem; and for the shapes of the stage `counters`, the minimum time of this kernel, with the resource
//! that sets it.

use std::fmt::Write as _;

use warpproof_model::bound::{Floor, roofline};
use warpproof_model::{Device, TensorType};

use super::counters::{Case, count};
use super::{Bench, Built, Ending, Part, Programs, Trouble, unfit};
use crate::family::attention;
use warpproof_evidence::record::{Figure, FigureKind, Stage};
use warpproof_evidence::vocabulary as name;
use warpproof_explain::{Request, Scheduled, explain};
use warpproof_task::dtype::Dtype;
use warpproof_task::{Accumulate, Candidate, Operator, Policy, Reference, Size, dims};

/// Maximum number of resources whose time is recorded.
const RESOURCES: usize = 6;

pub(super) fn judge(bench: &Bench<'_>, candidate: &Candidate, built: &Built) -> Result<Ending, Trouble> {
    let mut figures = Vec::new();
    let mut words = Vec::new();
    for id in &bench.task.target.devices {
        let Some(device) = Device::named(id) else { continue };
        for size in bench.sizes(candidate, None) {
            if size.hidden || size.name.contains(':') {
                continue;
            }
            let floor = floor(bench, candidate, built, &size)?;
            match roofline(device, &floor) {
                Ok(share) => {
                    let at = format!("{} on {}", size.name, device.id);
                    words.push(format!("{at}: {:.3} us, limited by {}", share.us, share.resource));
                    let figure = Figure::new(name::FLOOR, share.us, "us", FigureKind::Predicted);
                    // With one device, the shape alone identifies the case.
                    let case = if bench.task.target.devices.len() > 1 { &at } else { &size.name };
                    figures.extend(figure.map(|figure| figure.at(case)));
                }
                Err(why) => words.push(format!("{}: {why}", size.name)),
            }
        }
    }
    let mut told = Vec::new();
    latencies(bench, candidate, built, &mut figures, &mut told)?;
    if figures.is_empty() {
        return Ok(Ending::skipped("the peak rates of the task's devices are unknown"));
    }
    let mut ending = Ending::pass(figures).with_object("roofline", words.join("\n"));
    if let Some(first) = told.first() {
        ending.reason.clone_from(first);
        ending = ending.with_object("prediction", told.join("\n"));
    }
    Ok(ending)
}

/// The counted shapes on every device of the task. The first device's figures use only the shape as their case.
fn latencies(
    bench: &Bench<'_>,
    candidate: &Candidate,
    built: &Built,
    figures: &mut Vec<Figure>,
    told: &mut Vec<String>,
) -> Result<(), Trouble> {
    if !bench.task.gates.iter().any(|gate| gate.stage.value == Stage::Counters) {
        return Ok(());
    }
    for size in bench.sizes(candidate, Some(Stage::Counters)) {
        if size.hidden || size.name.contains(':') {
            continue;
        }
        let cases = count(bench, candidate, built, &Part { name: size.name.clone(), size })?;
        for (index, id) in bench.task.target.devices.iter().enumerate() {
            let Some(device) = Device::named(id) else { continue };
            for case in &cases {
                bench.check_stop()?;
                let at = if index == 0 { case.at.clone() } else { format!("{} on {}", case.at, device.id) };
                match predict(bench, device, case) {
                    Ok(times) => {
                        told.push(times.sentence(&format!("{} on {}", case.at, device.id)));
                        for (resource, us) in &times.binds {
                            let name = format!("{}{resource}", name::BOUND_OF);
                            let figure = Figure::new(&name, *us, "us", FigureKind::Predicted);
                            figures.extend(figure.map(|figure| figure.at(&at)));
                        }
                        let mut put = |name: &str, us: f64| {
                            let figure = Figure::new(name, us, "us", FigureKind::Predicted);
                            figures.extend(figure.map(|figure| figure.at(&at)));
                        };
                        put(name::LATENCY_BOUND, times.warm);
                        put(name::COLD_LATENCY_BOUND, times.cold);
                        if let Some(us) = times.scheduled {
                            put(name::LATENCY, us);
                        }
                    }
                    Err(why) => told.push(format!("{} on {}: {why}", case.at, device.id)),
                }
            }
        }
    }
    Ok(())
}

/// Predicted microseconds of all launches of a case, including launch overhead.
#[derive(Debug, Default)]
struct Times {
    warm: f64,
    cold: f64,
    /// By the schedule of the machine code; `None` if one launch has none.
    scheduled: Option<f64>,
    /// The resources of the longest launch with a warm cache, each with its time, the longest first.
    binds: Vec<(String, f64)>,
}

impl Times {
    /// "mission on l4: at least 3.210 us with a warm L2, limited by tensor cores; next shared memory (2.100
    /// us)".
    fn sentence(&self, at: &str) -> String {
        let mut text =
            format!("{at}: at least {:.3} us with a warm L2, including launch overhead", self.warm);
        for ((resource, us), how) in self.binds.iter().zip(["limited by", "next"]) {
            // Writing to a string does not fail.
            let _ = write!(text, "; {how} {resource} ({us:.3} us)");
        }
        if let Some(us) = self.scheduled {
            let _ = write!(text, "; {us:.3} us from the instruction schedule");
        }
        text
    }
}

fn predict(bench: &Bench<'_>, device: &'static Device, case: &Case) -> Result<Times, String> {
    let mut times = Times { scheduled: Some(0.0), ..Times::default() };
    let mut longest = f64::NEG_INFINITY;
    for counters in &case.launches {
        let request = Request {
            kernel: &counters.kernel,
            symbol: &counters.kernel,
            ptx: &case.ptx,
            counters,
            device,
            floor: None,
            whole: None,
            timeline: 0,
            offers: false,
            text: &|_, _| None,
        };
        let (explanation, _) = explain(&request, bench.toolchain).map_err(|error| error.to_string())?;
        let bounds = &explanation.predicted.bounds;
        times.warm += bounds.warm_us() + bounds.launch_us;
        times.cold += bounds.cold_us() + bounds.launch_us;
        times.scheduled = match (&explanation.predicted.schedule, times.scheduled) {
            (Scheduled::Known(timed), Some(sum)) => Some(sum + timed.warm.us + bounds.launch_us),
            _ => None,
        };
        if bounds.warm_us() > longest {
            longest = bounds.warm_us();
            let named =
                bounds.warm.iter().take(RESOURCES).map(|share| (share.resource.to_string(), share.us));
            times.binds = named.collect();
        }
    }
    Ok(times)
}

/// The minimum work for the problem: every input read and every output written once, and the products of its
/// definition.
fn floor(bench: &Bench<'_>, candidate: &Candidate, built: &Built, size: &Size) -> Result<Floor, Trouble> {
    let wide = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
    if let Programs::Family { plans } = &built.programs {
        let plan = plans
            .get(&size.name)
            .ok_or_else(|| unfit(format!("the candidate has no plan for {}", size.name)))?;
        return Ok(plan.0.floor());
    }
    let each = candidate.dtypes.as_ref().and_then(|own| own.first()).or(bench.task.data.dtypes.first());
    let each = each.copied().unwrap_or(Dtype::F32);
    let bytes = |extents, dtype: Dtype| -> Result<u64, Trouble> {
        let elements: usize = dims(extents, &size.axes)?.iter().product();
        Ok(wide(elements.saturating_mul(dtype.size())))
    };
    let mut floor = Floor::default();
    for one in &bench.task.data.inputs {
        floor.loaded = floor.loaded.saturating_add(bytes(&one.dims, one.dtype.with(each))?);
    }
    for one in &bench.task.data.outputs {
        floor.stored = floor.stored.saturating_add(bytes(&one.dims, one.dtype.with(each))?);
    }
    if let Reference::BuiltIn { operator: Operator::Attention(_) } = &bench.task.reference {
        let products = attention::own::floor(bench.task, size).map_err(|error| unfit(error.to_string()))?;
        floor.fma = (tensor(bench), products.fma.1);
        floor.special = products.special;
    }
    if let Reference::BuiltIn { operator: Operator::Gemm { a, output, transpose_a, .. } } =
        &bench.task.reference
    {
        let of = |name: &str| {
            let inputs = bench.task.data.inputs.iter().map(|one| (&one.name, &one.dims));
            let outputs = bench.task.data.outputs.iter().map(|one| (&one.name, &one.dims));
            inputs.chain(outputs).find(|(one, _)| one.value == name).map(|(_, dims)| dims)
        };
        if let (Some(a), Some(c)) = (of(a), of(output)) {
            let (a, c) = (dims(a, &size.axes)?, dims(c, &size.axes)?);
            let depth = if *transpose_a { a.first() } else { a.last() }.copied().unwrap_or(1);
            let products = c.iter().product::<usize>().saturating_mul(depth);
            floor.fma = (tensor(bench), wide(products));
        }
    }
    Ok(floor)
}

/// The tensor cores that the task allows.
fn tensor(bench: &Bench<'_>) -> Option<TensorType> {
    match bench.task.tolerance.policy {
        Policy::Derived { accumulate: Accumulate::TensorF16 } => Some(TensorType::F16ToF32),
        Policy::Derived { accumulate: Accumulate::TensorFp8 } => Some(TensorType::F8ToF32),
        _ => None,
    }
}
