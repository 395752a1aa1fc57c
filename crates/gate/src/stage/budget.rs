//! Compares a candidate's use of a multiprocessor with the task's budgets, and reports what one more block would
//! need.

use warpproof_model::{Device, Occupancy, Usage, occupancy};
use warpproof_toolchain::{AssembleError, Resources};

use super::{Bench, Built, Ending, Programs, Trouble, limited, unfit};
use warpproof_evidence::record::{Comparison, Figure, FigureKind, Obstacle, Outcome};
use warpproof_task::{Candidate, Resource};

/// A kernel as it is launched on one size.
struct Kernel {
    /// Its name in the source.
    name: String,
    resources: Resources,
    block: u32,
    dynamic: u32,
    /// For a cooperative launch: the blocks that must be resident at the same time.
    together: Option<u64>,
}

/// A figure that a budget limits: the resource, its value, its unit, and where it is worst.
type Taken = (Resource, f64, &'static str, String);

pub(super) fn judge(bench: &Bench<'_>, candidate: &Candidate, built: &Built) -> Result<Ending, Trouble> {
    let mut taken: Vec<Taken> = Vec::new();
    let mut words = Vec::new();
    let mut misfit = None;
    for (arch, ptx) in built.modules() {
        bench.check_stop()?;
        let assembled = bench.toolchain.ptxas(ptx, arch, &[]).map_err(|error| match error {
            AssembleError::Rejected { log, .. } => Trouble::from(
                Ending::fail(format!("ptxas rejects the kernel for {arch}"), Vec::new())
                    .with_object("log", log),
            ),
            AssembleError::Program(error) if error.limit => {
                Ending::inconclusive(error.to_string(), Some(Obstacle::Limit)).into()
            }
            error => unfit(error.to_string()),
        })?;
        for kernel in kernels(bench, candidate, built, ptx, &assembled.resources)? {
            for (resource, value) in counted(&kernel) {
                worst(&mut taken, (resource, value, unit(resource), kernel.name.clone()));
            }
            for id in &bench.task.target.devices {
                let Some(device) = Device::named(id).filter(|device| device.capability.runs(arch)) else {
                    continue;
                };
                let usage = Usage {
                    registers: kernel.resources.registers,
                    static_shared: kernel.resources.static_shared,
                    dynamic_shared: kernel.dynamic,
                    barriers: kernel.resources.barriers,
                };
                let found = occupancy(device.capability, &usage, kernel.block);
                if found.blocks_per_sm == 0 {
                    let name = &kernel.name;
                    misfit.get_or_insert_with(|| format!("no block of `{name}` fits on {}", device.name));
                }
                let resident = u64::from(found.blocks_per_sm) * u64::from(device.multiprocessors.value);
                if let Some(blocks) = kernel.together.filter(|blocks| *blocks > resident) {
                    let (name, device) = (&kernel.name, device.name);
                    misfit.get_or_insert_with(|| {
                        format!(
                            "the cooperative launch of `{name}` has {blocks} blocks; at most {resident} can be \
                             resident on {device}"
                        )
                    });
                }
                let at = format!("{} on {}", kernel.name, device.id);
                worst(&mut taken, (Resource::Occupancy, found.percent / 100.0, "", at.clone()));
                let blocks = f64::from(found.blocks_per_sm);
                worst(&mut taken, (Resource::BlocksPerMultiprocessor, blocks, "", at.clone()));
                words.push(explained(&at, &found));
            }
        }
    }
    words.sort_unstable();
    words.dedup();
    let mut figures = Vec::new();
    let mut broken: Option<String> = misfit;
    for (resource, value, unit, at) in &taken {
        let budgets: Vec<_> = bench
            .task
            .budgets
            .iter()
            .filter(|budget| {
                budget.resource.value == *resource
                    && (budget.candidates.is_empty() || candidate.is_among(&budget.candidates))
            })
            .collect();
        let kind = if derived(*resource) { FigureKind::Predicted } else { FigureKind::Counted };
        if budgets.is_empty() {
            figures.extend(Figure::new(name(*resource), *value, unit, kind).map(|figure| figure.at(at)));
        }
        for budget in budgets {
            let op = budget.threshold.comparison;
            let limit = (op, budget.threshold.value, budget.threshold.source.as_str());
            let held = limited(&mut figures, (name(*resource), *value, unit), limit, Some(at));
            if let Some(last) = figures.last_mut() {
                last.kind = kind;
            }
            if !held {
                let wanted = if op == Comparison::AtMost { "at most" } else { "at least" };
                let broke = format!(
                    "{} is {value}{}{unit} in {at}; the budget is {wanted} {}",
                    name(*resource),
                    if unit.is_empty() { "" } else { " " },
                    budget.threshold.value
                );
                broken.get_or_insert(broke);
            }
        }
    }
    if figures.is_empty() {
        return Ok(Ending::inconclusive("ptxas reported no kernel", Some(Obstacle::Input)));
    }
    let mut ending = match broken {
        Some(reason) => Ending::fail(reason, figures),
        None => Ending::pass(figures),
    };
    if ending.outcome == Outcome::Pass {
        ending.reason = words.first().cloned().unwrap_or_default();
    }
    Ok(ending.with_object("occupancy", words.join("\n")))
}

/// Keeps the worse of two figures: the larger use, or the lower occupancy.
fn worst(taken: &mut Vec<Taken>, one: Taken) {
    match taken.iter_mut().find(|other| other.0 == one.0) {
        Some(other) => {
            let worse = if derived(one.0) { one.1 < other.1 } else { one.1 > other.1 };
            if worse {
                *other = one;
            }
        }
        None => taken.push(one),
    }
}

/// Whether it is computed for a device, and lower is worse.
fn derived(resource: Resource) -> bool {
    matches!(resource, Resource::Occupancy | Resource::BlocksPerMultiprocessor)
}

/// The kernels of a module that the candidate launches, each with its largest block and its most shared memory.
fn kernels(
    bench: &Bench<'_>,
    candidate: &Candidate,
    built: &Built,
    ptx: &str,
    all: &[Resources],
) -> Result<Vec<Kernel>, Trouble> {
    let mut found: Vec<Kernel> = Vec::new();
    let mut add = |name: &str, resources: &Resources, block: u32, dynamic: u32, together: Option<u64>| {
        let same =
            |one: &&mut Kernel| one.resources == *resources && one.block == block && one.dynamic == dynamic;
        match found.iter_mut().find(same) {
            Some(one) => one.together = one.together.max(together),
            None => found.push(Kernel {
                name: name.to_owned(),
                resources: resources.clone(),
                block,
                dynamic,
                together,
            }),
        }
    };
    match &built.programs {
        Programs::Launched { launch, instances, .. } => {
            let symbols: Vec<String> = all.iter().map(|one| one.kernel.clone()).collect();
            for size in bench.sizes(candidate, None) {
                for step in &launch.steps {
                    let geometry = bench.task.geometry(candidate, step, &size.axes)?;
                    let block = geometry.block.iter().fold(1u32, |all, extent| all.saturating_mul(*extent));
                    let blocks = geometry.grid.iter().fold(1u64, |all, n| all.saturating_mul(u64::from(*n)));
                    let together = step.cooperative.then_some(blocks);
                    for name in step.kernel.names() {
                        let symbol = super::layout::kernel(&symbols, name, instances)?;
                        for kernel in all.iter().filter(|one| one.kernel == *symbol) {
                            add(name, kernel, block, geometry.shared_bytes, together);
                        }
                    }
                }
            }
        }
        Programs::Family { plans } => {
            for (plan, _) in plans.values().filter(|(_, own)| **own == *ptx) {
                for step in plan.steps() {
                    for kernel in all.iter().filter(|one| one.kernel == step.kernel) {
                        add(step.kernel, kernel, step.threads, step.shared, None);
                    }
                }
            }
        }
    }
    Ok(found)
}

fn counted(kernel: &Kernel) -> [(Resource, f64); 8] {
    let one = &kernel.resources;
    [
        (Resource::Registers, one.registers),
        (Resource::SharedBytes, one.static_shared.saturating_add(kernel.dynamic)),
        (Resource::StackBytes, one.stack_frame.max(one.cumulative_stack)),
        (Resource::SpillStoreBytes, one.spill_stores),
        (Resource::SpillLoadBytes, one.spill_loads),
        (Resource::LocalBytes, one.local_bytes()),
        (Resource::Barriers, one.barriers),
        (Resource::ConstantBytes, one.constant_bytes()),
    ]
    .map(|(resource, value)| (resource, f64::from(value)))
}

/// The figure of a resource.
fn name(resource: Resource) -> &'static str {
    match resource {
        Resource::Registers => "registers",
        Resource::SharedBytes => "shared memory",
        Resource::StackBytes => "stack frame",
        Resource::SpillStoreBytes => "spill stores",
        Resource::SpillLoadBytes => "spill loads",
        Resource::LocalBytes => "local memory",
        Resource::Barriers => "barriers",
        Resource::ConstantBytes => "constant memory",
        Resource::Occupancy => "occupancy",
        Resource::BlocksPerMultiprocessor => "blocks per multiprocessor",
    }
}

fn unit(resource: Resource) -> &'static str {
    match resource {
        Resource::Registers
        | Resource::Barriers
        | Resource::Occupancy
        | Resource::BlocksPerMultiprocessor => "",
        _ => "B",
    }
}

/// "f on l4: occupancy 16.7 %, 2 blocks of 128 threads, limited by shared memory; for one more block: …".
fn explained(at: &str, found: &Occupancy) -> String {
    let limiters: Vec<String> = found.limiters.iter().map(ToString::to_string).collect();
    let limits = if limiters.is_empty() { "nothing".to_owned() } else { limiters.join(" and ") };
    format!(
        "{at}: occupancy {:.1} %, {} blocks of {} threads, limited by {limits}; for one more block: {}",
        found.percent, found.blocks_per_sm, found.block, found.next
    )
}
