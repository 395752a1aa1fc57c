//! What a candidate does, counted on the software GPU on inputs of the first seed: instructions by pipe, lanes, memory
//! requests, bank conflicts, barriers. Counts do not vary, so a limit on a figure, and on a figure divided by the
//! baseline's, is exact.

use warpproof_sim::count::{Counters, MemoryOp, Totals};
use warpproof_sim::isa::Unit;
use warpproof_sim::memory::Space;

use super::launch::{POISON, Stand};
use super::{Bench, Built, Ending, Part, Programs, Trouble, rung, unfit};
use crate::record::{Comparison, Figure, FigureKind, Obstacle, Stage};
use crate::task::{Candidate, Peer, Role};

/// The launches of one case: one dtype on one size.
pub(super) struct Case {
    /// The size, with the dtype where the candidate has several.
    pub(super) at: String,
    /// The module that was counted.
    pub(super) ptx: std::sync::Arc<str>,
    /// What each launch did.
    pub(super) launches: Vec<Counters>,
}

/// Counts one size, for each dtype.
pub(super) fn count(
    bench: &Bench<'_>,
    candidate: &Candidate,
    built: &Built,
    part: &Part,
) -> Result<Vec<Case>, Trouble> {
    let modules = match &built.programs {
        Programs::Launched { modules, .. } => modules,
        Programs::Rung { plans } => {
            let launches = rung::count(bench, built, part)?;
            let (_, ptx) =
                plans.get(&part.name).ok_or_else(|| unfit(format!("there is no plan for {}", part.name)))?;
            return Ok(vec![Case { at: part.name.clone(), ptx: ptx.clone(), launches }]);
        }
    };
    let first = modules.first().and_then(|(arch, ptx)| Some((ptx, built.module(arch)?)));
    let Some((ptx, module)) = first else { return Err(unfit("the task names no architecture")) };
    let cases = bench.first_cases(candidate);
    let several = cases.len() > 1;
    let mut counted: Vec<Case> = Vec::new();
    for case in cases {
        bench.check_stop()?;
        let inputs = super::correct::inputs_of(bench, part, &case)?;
        let mut stand = Stand::new(bench, candidate, module, &part.size, case.dtype)?;
        stand.fill(&inputs, POISON);
        let at = if several { format!("{}, {}", part.name, case.dtype) } else { part.name.clone() };
        let launches = stand.count(&at)?;
        counted.push(Case { at, ptx: ptx.clone(), launches });
    }
    Ok(counted)
}

/// Counts one size, and holds it against the baseline where the task wants that.
pub(super) fn part(
    bench: &Bench<'_>,
    (candidate, built): (&Candidate, &Built),
    baseline: Option<(&Candidate, &Built)>,
    part: &Part,
) -> Result<Ending, Trouble> {
    let mine = count(bench, candidate, built, part)?;
    let mut figures = Vec::new();
    for case in &mine {
        figures.extend(figures_of(&case.launches).into_iter().map(|figure| figure.at(&case.at)));
    }
    let gate = bench.task.gates.iter().find(|gate| gate.stage.value == Stage::Counters);
    let limits = gate.map_or(&[][..], |gate| &gate.regressions);
    if limits.is_empty() {
        return Ok(Ending::pass(figures));
    }
    let Some((peer, program)) = baseline else {
        if !has_peer(bench, candidate) {
            return Ok(Ending::pass(figures));
        }
        let reason = "the baseline has no program to be compared with";
        return Ok(Ending { figures, ..Ending::inconclusive(reason, Some(Obstacle::Input)) });
    };
    if !bench.sizes(peer, Some(Stage::Counters)).iter().any(|size| size.name == part.name) {
        return Ok(Ending {
            reason: format!("{} has no {}", peer.name.value, part.name),
            ..Ending::pass(figures)
        });
    }
    let theirs = count(bench, peer, program, part)?;
    let mut broken: Option<String> = None;
    for case in &mine {
        let Some(other) = theirs.iter().find(|other| other.at == case.at) else { continue };
        let (own, theirs) = (figures_of(&case.launches), figures_of(&other.launches));
        for limit in limits {
            let name = &limit.figure.value;
            let value = |figures: &[Figure]| {
                figures.iter().find(|figure| figure.name == *name).map(|figure| figure.value.get())
            };
            let (Some(now), Some(before)) = (value(&own), value(&theirs)) else {
                let reason =
                    format!("the task compares the figure `{name}`, and this stage gives none of that name");
                return Ok(Ending { figures, ..Ending::inconclusive(reason, Some(Obstacle::Input)) });
            };
            let op = limit.threshold.comparison;
            let told = format!("{}: {name} is {now}, and {before} in {}", case.at, peer.name.value);
            // As many as none is no change; some where there were none has no quotient.
            let ratio = match (now > 0.0, before > 0.0) {
                (_, true) => now / before,
                (true, false) => f64::INFINITY,
                (false, false) => 1.0,
            };
            let ratio = Figure::new(&format!("{name}, of the baseline's"), ratio, "", FigureKind::Counted)
                .and_then(|figure| figure.held_to(op, limit.threshold.value, &limit.threshold.source));
            let kept = match ratio {
                Ok(figure) => {
                    let figure = figure.at(&case.at);
                    let kept = figure.holds().unwrap_or(false);
                    figures.push(figure);
                    kept
                }
                Err(_) => op == Comparison::AtLeast,
            };
            if !kept {
                broken.get_or_insert(told);
            }
        }
    }
    Ok(match broken {
        Some(reason) => Ending::fail(reason, figures),
        None => Ending::pass(figures),
    })
}

/// Whether another candidate is the task's baseline of this one.
fn has_peer(bench: &Bench<'_>, candidate: &Candidate) -> bool {
    bench.task.baselines.iter().any(|one| {
        one.role == Role::Speed
            && (one.candidates.is_empty() || one.candidates.contains(&candidate.name))
            && matches!(&one.who, Peer::Candidate(name) if *name != candidate.name)
    })
}

/// The figures of all launches together. All names are always there, so that a task may limit any of them.
fn figures_of(launches: &[Counters]) -> Vec<Figure> {
    let mut totals = Totals::default();
    let (mut l2, mut loaded, mut stored) = (0u64, 0u64, 0u64);
    for launch in launches {
        for instruction in &launch.instructions {
            totals.add(instruction);
        }
        let sectors = &launch.compulsory;
        l2 = l2.saturating_add(sectors.block_loaded).saturating_add(sectors.block_stored);
        loaded = loaded.saturating_add(sectors.grid_loaded);
        stored = stored.saturating_add(sectors.grid_stored);
    }
    let mut figures = Vec::new();
    let mut count = |name: &str, value: u64, unit: &str| figures.extend(Figure::counted(name, value, unit));
    count("warp instructions", totals.issued.executions, "");
    for pipe in PIPES {
        count(&format!("{} instructions", pipe.name()), totals.pipe(pipe).executions, "");
    }
    count("tensor operations", totals.tensor.values().sum(), "");
    count("tensor multiply-adds", totals.tensor_multiply_adds(), "");
    count("divergent branches", totals.branches.divergent, "");
    let global = totals.traffic(Space::Global, &[]);
    let shared = totals.traffic(Space::Shared, &[]);
    let local = totals.traffic(Space::Local, &[]);
    count("global requests", global.requests, "");
    count("global sectors", global.sectors, "");
    count("global bytes asked for", global.bytes, "B");
    count("shared requests", shared.requests, "");
    count("shared wavefronts", shared.wavefronts, "");
    count("shared conflicts", shared.conflicts(), "");
    count("local bytes", local.bytes, "B");
    let atomics = [MemoryOp::Atomic, MemoryOp::Reduction];
    let atomic =
        totals.traffic(Space::Global, &atomics).requests + totals.traffic(Space::Shared, &atomics).requests;
    count("atomic requests", atomic, "");
    count("barrier arrivals", totals.barriers.arrivals, "");
    count("barrier idle instructions", totals.barriers.idle, "");
    let mut mean = |name: &str, above: u64, below: u64| {
        let value = if below == 0 { 0.0 } else { number(above) / number(below) };
        figures.extend(Figure::new(name, value, "", FigureKind::Counted));
    };
    mean("active lanes", totals.issued.lanes_on, totals.issued.executions);
    mean("global sectors per request", global.sectors, global.requests);
    // What caches leave over depends on what they forget; these take it that they forget nothing.
    for (name, sectors) in [("L2 traffic", l2), ("DRAM loads, cold", loaded), ("DRAM stores, cold", stored)] {
        figures.extend(Figure::new(name, 32.0 * number(sectors), "B", FigureKind::Predicted));
    }
    figures
}

/// Pipes that instructions are counted by.
const PIPES: [Unit; 9] = [
    Unit::Alu,
    Unit::Fma,
    Unit::Half,
    Unit::Fp64,
    Unit::Xu,
    Unit::Lsu,
    Unit::Tensor,
    Unit::Adu,
    Unit::Control,
];

#[expect(clippy::as_conversions, clippy::cast_precision_loss, reason = "counts are far below 2^53")]
fn number(count: u64) -> f64 {
    count as f64
}
