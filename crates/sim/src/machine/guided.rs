//! A launch in which a guide orders the steps of warps.
//!
//! A step is an instruction by which threads can affect each other: an atomic, a flag, a barrier for some of them. Warps
//! run up to their next step and stop there; then the guide chooses which of them takes its step. Instructions between two
//! steps do not affect other threads, unless there is a race, which the checks find in any order.

use super::block::{BlockRun, Polling, Spare, Stops};
use super::footprint::Allowance;
use super::grid::{
    Active, Collect, Grid, Listen, Outcome, Standing, hand_on, look_at_all, over_limit, standstill,
};
use super::spin::Suspicion;
use super::turns::Turns;
use super::warp::Turn;
use crate::memory::Heap;
use crate::observe::Observer;
use crate::stop::{Blame, Stop, StopKind};
use std::collections::BTreeMap;

/// A warp that stopped before a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ready {
    /// The block's linear index.
    pub block: u32,
    /// The warp's number in the block.
    pub warp: u32,
    /// The step.
    pub pc: u32,
}

/// The decision of the guide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// The warp at this index of the list takes its step.
    Step(usize),
    /// No warp seems able to continue. If so, the launch ends.
    Look,
    /// The launch ends here.
    End,
}

/// Orders the steps.
pub trait Guide {
    /// Chooses which of the warps that stopped before a step, sorted by block and warp, takes its step.
    fn next(&mut self, ready: &[Ready]) -> Next;
    /// Called after a check in which a warp made progress: whether anything changed that other threads can observe.
    fn looked(&mut self, changed: bool);
}

/// Instructions that a warp runs without a step before the other warps get their turn.
const QUANTUM: u64 = 4096;

/// Runs a launch whose blocks all run at the same time.
pub(super) fn run(
    grid: &Grid<'_>,
    heap: &mut Heap,
    count: u32,
    guide: &mut dyn Guide,
    listen: Listen<'_>,
    collect: Collect<'_>,
) -> Outcome {
    let mut outcome = Outcome::default();
    let residency = grid.residency();
    if super::at(count) > residency.blocks {
        let sentence =
            format!("{count} blocks cannot be explored: at most {} run at the same time", residency.blocks);
        let mut stop = Stop::general(Blame::Limit, StopKind::Limit, sentence);
        stop.help = Some("explore a launch of a few blocks".to_owned());
        outcome.stop = Some(Box::new(stop));
        return outcome;
    }
    let mut active: Vec<Active> = (0..count)
        .map(|block| {
            let mut run = BlockRun::new(grid, block, Spare::default());
            run.set_stops(Stops::Steps);
            (run, listen(block))
        })
        .collect();
    let mut suspicion = Suspicion::default();
    loop {
        outcome.stop = advance(grid, heap, &mut active, &mut suspicion, &mut outcome.instructions);
        if outcome.stop.is_some() {
            break;
        }
        let mut ready = Vec::new();
        for (run, _) in &active {
            let standing = run.warps.iter().zip(&run.done).filter(|(warp, done)| !**done && warp.stands);
            ready.extend(standing.map(|(warp, _)| Ready {
                block: run.ctas[super::at(warp.rank)].linear,
                warp: warp.id,
                pc: warp.subwarp.pc,
            }));
        }
        if ready.is_empty() {
            let left = active.iter().find(|(run, _)| run.done.iter().any(|done| !done));
            outcome.stop = left.map(|(run, _)| Box::new(run.deadlock(grid)));
            break;
        }
        match guide.next(&ready) {
            Next::End => break,
            Next::Look => {
                let steps = look(grid, heap, &mut active, &mut outcome.instructions);
                outcome.stop = steps.stop(grid, &active);
                guide.looked(active.iter().any(|(run, _)| run.changed()));
            }
            Next::Step(chosen) => {
                let Some(chosen) = ready.get(chosen) else { break };
                let warp = active.iter_mut().find_map(|(run, _)| run.warp_of(chosen.block, chosen.warp));
                if let Some(warp) = warp {
                    warp.granted = true;
                    warp.stands = false;
                }
            }
        }
        if outcome.stop.is_some() {
            break;
        }
    }
    for (run, _) in &active {
        outcome.dependency.merge(run.dependency());
    }
    let ended = active.into_iter().map(|(run, watch)| (run.number, (run.end().0, watch)));
    let mut ended: BTreeMap<_, _> = ended.collect();
    hand_on(&mut ended, u32::MAX, &mut outcome.output, collect);
    outcome
}

impl Standing {
    /// Why the launch ended, if all blocks have started.
    fn stop(self, grid: &Grid<'_>, active: &[Active]) -> Option<Box<Stop>> {
        match self {
            Standing::Moves => None,
            Standing::Ended(stop) => Some(stop),
            Standing::Stuck(first, spins) => standstill(grid, active, (first, &spins), 0, grid.residency()),
        }
    }
}

/// Instructions per warp in a check for progress.
const LOOK: u64 = 4096;

/// Whether any block can make progress if it runs freely.
fn look(grid: &Grid<'_>, heap: &mut Heap, active: &mut [Active], instructions: &mut u64) -> Standing {
    let unfinished = |run: &BlockRun| run.done.iter().any(|done| !done);
    for (run, _) in active.iter_mut() {
        run.set_stops(Stops::Nowhere);
        for warp in &mut run.warps {
            warp.stands = false;
        }
        run.paused = !unfinished(run);
        run.set_changed(false);
    }
    let standing = look_at_all(grid, heap, active, instructions, (&mut Turns::default(), LOOK));
    for (run, _) in active.iter_mut() {
        run.set_stops(Stops::Steps);
        run.paused = false;
    }
    standing
}

/// Runs every warp up to its next step, or until it waits.
fn advance(
    grid: &Grid<'_>,
    heap: &mut Heap,
    active: &mut [Active],
    suspicion: &mut Suspicion,
    instructions: &mut u64,
) -> Option<Box<Stop>> {
    let mut polling = Polling::default();
    loop {
        let mut moved = false;
        for (run, watch) in active.iter_mut() {
            let (mut expired, mut polls) = (false, true);
            for i in run.order.clone() {
                if run.done[i] || run.warps[i].stands {
                    continue;
                }
                let left = grid.limits.instructions.saturating_sub(*instructions);
                let allowance = Allowance {
                    turn: QUANTUM,
                    instructions: run.instructions.saturating_add(left),
                    running: grid.running_share(),
                    kept: grid.kept_share(),
                };
                let before = run.instructions;
                let watch = watch.as_deref_mut().map(|w| -> &mut (dyn Observer + 'static) { w });
                let turn = run.turn(i, grid, &mut run.direct(heap), (watch, true), &allowance, QUANTUM);
                *instructions = instructions.saturating_add(run.instructions - before);
                match turn {
                    Err(stop) => return Some(stop),
                    Ok((Turn::Stood, _)) => {
                        run.warps[i].stands = true;
                        moved = true;
                    }
                    Ok((turn, any)) => {
                        moved |= any;
                        expired |= turn == Turn::Expired;
                        polls &= turn == Turn::Paused || !any;
                    }
                }
            }
            if polling.round(polls) || expired {
                let watch = watch.as_deref_mut().map(|w| -> &mut (dyn Observer + 'static) { w });
                if let Some(stop) = run.complete_tracked(grid, &mut run.direct(heap), watch) {
                    return Some(stop);
                }
            }
            if let Some(stop) = over_limit(grid, *instructions, run.printed(), run.index()) {
                return Some(stop);
            }
        }
        if !moved {
            return None;
        }
        // A warp may loop without a step, reading a location that no thread will write.
        let progress = active.iter().fold(0u64, |sum, (run, _)| sum.saturating_add(run.progress()));
        if suspicion.is_due(*instructions, progress).is_some() {
            let standing = look(grid, heap, active, instructions);
            if let Some(stop) = standing.stop(grid, active) {
                return Some(stop);
            }
        }
    }
}
