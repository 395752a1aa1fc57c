//! The device's own counters, through Nsight Compute if it is installed. They decide nothing unless the task limits a
//! figure.

use warpproof_gpu::ncu;

use super::speed::{Profiled, declared};
use super::{Bench, Built, Ending, Trouble, unfit};
use warpproof_evidence::record::{Figure, FigureKind};
use warpproof_task::Candidate;

pub(super) fn judge(bench: &Bench<'_>, candidate: &Candidate, built: &Built) -> Result<Ending, Trouble> {
    let Some(clocks) = bench.clocks else {
        return Ok(Ending::skipped("no GPU found"));
    };
    let kind = if clocks.predicted() { FigureKind::Predicted } else { FigureKind::Measured };
    // The first shape decides speed, so it is the one that is profiled.
    let Some(size) = declared(bench, candidate).into_iter().next() else {
        return Err(unfit("the task has no shape to profile"));
    };
    let launches = match clocks.profile(bench, (candidate, built), &size) {
        Profiled::Skipped(why) => return Ok(Ending::absent(why)),
        Profiled::Failed(why) => return Ok(Ending::inconclusive(format!("{}: {why}", size.name), None)),
        Profiled::Counted(launches) if launches.is_empty() => {
            return Ok(Ending::inconclusive(format!("{}: Nsight Compute saw no launch", size.name), None));
        }
        Profiled::Counted(launches) => launches,
    };
    let mut figures = Vec::new();
    for (place, launch) in launches.iter().enumerate() {
        let at = match launches.len() {
            1 => size.name.clone(),
            _ => format!("{}, launch {}: {}", size.name, place + 1, launch.kernel),
        };
        for (metric, unit, value) in &launch.metrics {
            let known = ncu::METRICS.iter().find(|(name, _)| name == metric);
            let name = known.map_or(metric.as_str(), |(_, name)| *name);
            figures.extend(Figure::new(name, *value, unit, kind).map(|figure| figure.at(&at)));
        }
    }
    Ok(Ending::pass(figures))
}
