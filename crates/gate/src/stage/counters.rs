//! Counts a candidate's work on the software GPU, on inputs drawn for the run: instructions by pipe, lanes, memory
//! requests, bank conflicts, barriers. A candidate and its baseline are counted on the same inputs, so a limit on a
//! figure, or on its ratio to the baseline's, is exact.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use warpproof_count::{Counters, LineKey, MemoryOp, Totals};
use warpproof_sim::isa::Unit;
use warpproof_sim::memory::Space;

use super::launch::{POISON, Stand};
use super::{Bench, Built, Ending, Part, Programs, Trouble, unfit};
use crate::limits::Purpose;
use warpproof_evidence::record::{Comparison, Figure, FigureKind, Obstacle, Stage};
use warpproof_task::{Candidate, FigureThreshold, Peer, Role, Threshold};

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
        Programs::Family { .. } => {
            let (plan, ptx) = built.plan(part)?;
            let launches = plan.count(bench, ptx, part)?;
            return Ok(vec![Case { at: part.name.clone(), ptx: ptx.clone(), launches }]);
        }
    };
    let first = modules.first().and_then(|(arch, ptx)| Some((ptx, built.module(arch)?)));
    let Some((ptx, module)) = first else { return Err(unfit("the task names no architecture")) };
    let cases = bench.measured_cases(candidate);
    let several = cases.len() > 1;
    let mut counted: Vec<Case> = Vec::new();
    for case in cases {
        bench.check_stop()?;
        let inputs = super::correct::inputs_of(bench, part, &case)?;
        let mut stand = Stand::new(bench, candidate, module, &part.size, case.dtype, Purpose::Run)?;
        stand.fill(&inputs, POISON)?;
        let at = if several { format!("{}, {}", part.name, case.dtype) } else { part.name.clone() };
        let shown = bench.case_name(part, &case);
        let launches = stand.count(&at).map_err(|end| end.shown_by(&shown))?;
        counted.push(Case { at, ptx: ptx.clone(), launches });
    }
    Ok(counted)
}

/// Counts one size, and compares it with the baseline if the task requires that.
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
        let reason = "the baseline has no compiled program";
        return Ok(Ending { figures, ..Ending::inconclusive(reason, Some(Obstacle::Input)) });
    };
    if !bench.sizes(peer, Some(Stage::Counters)).iter().any(|size| size.name == part.name) {
        return Ok(Ending {
            reason: format!("{} has no counts for {}", peer.name.value, part.name),
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
                    format!("the task compares the figure `{name}`, which this stage does not report");
                return Ok(Ending { figures, ..Ending::inconclusive(reason, Some(Obstacle::Input)) });
            };
            let op = limit.threshold.comparison;
            let told = regression(case, limit, (now, before), &peer.name.value);
            // Zero compared with zero means no change; a count compared with zero has no quotient.
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

/// The message for an exceeded limit: the figure, the baseline and which it is, the limit and its source, and the
/// line with the largest count.
fn regression(case: &Case, limit: &FigureThreshold, (now, before): (f64, f64), baseline: &str) -> String {
    let name = &limit.figure.value;
    let Threshold { comparison, value, source } = &limit.threshold;
    let times = if before > 0.0 { format!("{:.4} times ", now / before) } else { String::new() };
    let mut told = format!(
        "{}: {name} is {now}, {times}the {before} of the speed baseline {baseline}; the limit is {} {value} times ({source})",
        case.at,
        comparison.words(),
    );
    if let Some((place, share)) = most_at(&case.launches, name) {
        let _ = write!(told, "; {share:.0} % of it at {place}");
    }
    told
}

/// The line with the largest count of a figure, and its share in percent; `None` if the figure is not a sum over
/// lines.
fn most_at(launches: &[Counters], name: &str) -> Option<(String, f64)> {
    let mut lines: BTreeMap<LineKey, f64> = BTreeMap::new();
    for launch in launches {
        for (key, totals) in launch.by_line() {
            let found = counted(&totals).into_iter().find(|(figure, ..)| figure == name)?;
            *lines.entry(key).or_default() += number(found.1);
        }
    }
    let all: f64 = lines.values().sum();
    let (key, most) = lines.into_iter().max_by(|(_, a), (_, b)| a.total_cmp(b)).filter(|_| all > 0.0)?;
    let place = match key.file {
        Some(file) => format!("{}:{}", file.rsplit(['/', '\\']).next().unwrap_or(&file), key.line),
        None => format!("PTX line {}", key.line),
    };
    Some((place, 100.0 * most / all))
}

/// Whether another candidate is the task's baseline of this one.
fn has_peer(bench: &Bench<'_>, candidate: &Candidate) -> bool {
    bench.task.baselines.iter().any(|one| {
        one.role == Role::Speed
            && (one.candidates.is_empty() || candidate.is_among(&one.candidates))
            && matches!(&one.who, Peer::Candidate(name) if *name != candidate.name)
    })
}

/// The figures of all launches together. All names are always present, so that a task may limit any of them.
fn figures_of(launches: &[Counters]) -> Vec<Figure> {
    let mut totals = Totals::default();
    let (mut l2, mut loaded, mut stored, mut hottest) = (0u64, 0u64, 0u64, 0u64);
    for launch in launches {
        for instruction in &launch.instructions {
            totals.add(instruction);
        }
        let sectors = &launch.compulsory;
        l2 = l2.saturating_add(launch.second_level().sectors());
        hottest = hottest.max(launch.hottest.operations);
        loaded = loaded.saturating_add(sectors.grid_loaded);
        stored = stored.saturating_add(sectors.grid_stored);
    }
    let mut figures = Vec::new();
    for (name, value, unit) in counted(&totals) {
        figures.extend(Figure::counted(&name, value, unit));
    }
    // Omit the figure if its maximum is unknown, so that no limit is met by it.
    if !launches.iter().any(|launch| launch.hottest.incomplete) {
        figures.extend(Figure::counted("atomics at one address", hottest, ""));
    }
    let global = totals.traffic(Space::Global, &[]);
    let mut mean = |name: &str, above: u64, below: u64| {
        let value = if below == 0 { 0.0 } else { number(above) / number(below) };
        figures.extend(Figure::new(name, value, "", FigureKind::Counted));
    };
    mean("active lanes", totals.issued.lanes_on, totals.issued.executions);
    mean("global sectors per request", global.sectors, global.requests);
    // The remaining traffic depends on cache evictions; these figures assume that caches never evict.
    for (name, sectors) in [("L2 traffic", l2), ("DRAM loads, cold", loaded), ("DRAM stores, cold", stored)] {
        figures.extend(Figure::new(name, 32.0 * number(sectors), "B", FigureKind::Predicted));
    }
    figures
}

/// Figures that are sums over lines: name, value, unit.
fn counted(totals: &Totals) -> Vec<(String, u64, &'static str)> {
    let mut found = vec![("warp instructions".to_owned(), totals.issued.executions, "")];
    for pipe in PIPES {
        let executions = totals.pipe(pipe).executions;
        // Few kernels use textures.
        if pipe != Unit::Tex || executions > 0 {
            found.push((format!("{} instructions", pipe.name()), executions, ""));
        }
    }
    let global = totals.traffic(Space::Global, &[]);
    let shared = totals.traffic(Space::Shared, &[]);
    let local = totals.traffic(Space::Local, &[]);
    let atomics = [MemoryOp::Atomic, MemoryOp::Reduction];
    let atomic =
        totals.traffic(Space::Global, &atomics).requests + totals.traffic(Space::Shared, &atomics).requests;
    let rest = [
        ("tensor operations", totals.tensor.values().sum(), ""),
        ("tensor multiply-adds", totals.tensor_multiply_adds(), ""),
        ("divergent branches", totals.branches.divergent, ""),
        ("global requests", global.requests, ""),
        ("global sectors", global.sectors, ""),
        ("global bytes asked for", global.bytes, "B"),
        ("shared requests", shared.requests, ""),
        ("shared wavefronts", shared.wavefronts, ""),
        ("shared conflicts", shared.conflicts(), ""),
        ("local bytes", local.bytes, "B"),
        ("atomic requests", atomic, ""),
        ("barrier arrivals", totals.barriers.arrivals, ""),
        ("barrier idle instructions", totals.barriers.idle, ""),
    ];
    found.extend(rest.into_iter().map(|(name, value, unit)| (name.to_owned(), value, unit)));
    found
}

/// Pipes that instructions are counted by.
const PIPES: [Unit; 10] = [
    Unit::Alu,
    Unit::Fma,
    Unit::Half,
    Unit::Fp64,
    Unit::Xu,
    Unit::Lsu,
    Unit::Tex,
    Unit::Tensor,
    Unit::Adu,
    Unit::Control,
];

#[expect(clippy::as_conversions, clippy::cast_precision_loss, reason = "counts are far below 2^53")]
fn number(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_book_lists_every_figure_that_a_task_may_limit() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../book/src/gate/task-file.md");
        let book = std::fs::read_to_string(page).unwrap();
        let (_, rest) = book.split_once("### Figures of the stage `counters`").unwrap();
        let section = rest.split("\n#").next().unwrap();
        let listed: BTreeSet<&str> =
            section.lines().filter_map(|row| row.strip_prefix("| `")?.split('`').next()).collect();
        let figures = figures_of(&[Counters::default()]);
        let given: BTreeSet<&str> = figures.iter().map(|figure| figure.name.as_str()).collect();
        assert_eq!(listed, given);
    }

    #[test]
    fn a_regression_says_what_was_asked_and_of_whom() {
        let limit = FigureThreshold {
            figure: warpproof_task::At { value: "shared conflicts".to_owned(), span: 0..0 },
            threshold: Threshold {
                comparison: Comparison::AtMost,
                value: 1.05,
                source: "no more than noise".to_owned(),
            },
        };
        let case = Case { at: "main".to_owned(), ptx: "".into(), launches: Vec::new() };
        assert_eq!(
            regression(&case, &limit, (300.0, 100.0), "rows"),
            "main: shared conflicts is 300, 3.0000 times the 100 of the speed baseline rows; the limit is at most 1.05 times (no more than noise)"
        );
    }
}
