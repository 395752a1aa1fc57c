//! Runs one launch under several schedules, to check whether the outcome depends on the order of warps and blocks.
//!
//! A kernel that synchronizes only by barriers has the same findings under every schedule. A kernel that uses tickets
//! or flags may not, so it is run again from the same memory: with warps in reverse order, with copies that complete
//! immediately, with warps interleaved every few instructions, and in random orders from a seed. Blocks that
//! communicate also start in random orders, several at a time. The findings of all runs are merged. If the outputs
//! differ and no race explains it, that is a finding of its own: both runs are possible on a GPU.
//!
//! Can miss: a dependence that none of the schedules shows. Never reports: outputs that are equal bit for bit.

use super::settings::{BufferRole, Role, Settings};
use super::site::Sites;
use super::{Checked, Class, Finding, Label, Schedules, Severity, Writers, check_keeping};
use warpproof_num::random::SplitMix;
use warpproof_sim::machine::{MAY_NEVER_END, at};
use warpproof_sim::memory::Heap;
use warpproof_sim::schedule::{Blocks, CopyTiming, Order, Schedule};
use warpproof_sim::{Device, Launch, Stop, StopKind};

/// From the third round on: a block is overtaken after fewer than this many executions of the step.
const LATER: u32 = 8;
/// Number of schedules per step in which a block is overtaken at it.
const ROUNDS: u32 = 4;

/// The number of schedules that a launch needs, given its synchronization: one if block barriers order everything.
pub fn schedules_needed(launch: &Launch) -> u32 {
    needed(&Sites::of(&launch.program()))
}

fn needed(sites: &Sites) -> u32 {
    if sites.order_matters { DRAWN + count(&sites.steps).saturating_mul(2).min(OVERTAKEN) } else { 1 }
}

fn blocks(launch: &Launch) -> u32 {
    launch.blocks().iter().fold(1, |product: u32, side| product.saturating_mul(*side))
}

fn count<T>(list: &[T]) -> u32 {
    u32::try_from(list.len()).unwrap_or(u32::MAX)
}

fn below(random: &mut SplitMix, bound: u32) -> u32 {
    u32::try_from(random.below(u64::from(bound))).unwrap_or(0)
}

/// The schedule of run `number`; the first is the device's own.
fn schedule(own: Schedule, number: u32, seed: u64, sites: &Sites, blocks: u32) -> Schedule {
    let late = Schedule { copies: CopyTiming::Late, ..own };
    let early = Schedule { copies: CopyTiming::Early, ..own };
    let drawn = SplitMix(seed.rotate_left(32) ^ u64::from(number)).next();
    let turns = |together, turn| Blocks::Interleaved { seed: drawn, together, turn };
    match number {
        0 => own,
        1 => Schedule { order: Order::Reverse, blocks: turns(64, 256), ..late },
        2 => Schedule { quantum: 16, blocks: turns(64, 16), ..early },
        // Run one warp, and one block, as far as possible before the next begins.
        3 => Schedule { order: Order::Reverse, quantum: 1 << 16, blocks: turns(1, 1 << 16), ..early },
        // Overtake at each step: first block 0, then block 1, then a random block after a random number of executions.
        _ if !sites.steps.is_empty()
            && blocks > 1
            && number - DRAWN < count(&sites.steps).saturating_mul(ROUNDS) =>
        {
            let steps = count(&sites.steps);
            let (round, place) = ((number - DRAWN) / steps, (number - DRAWN) % steps);
            let mut random = SplitMix(drawn);
            // Neighboring blocks are the most likely to communicate.
            let (block, times) = match round {
                0 | 1 => (round, 0),
                _ => (below(&mut random, blocks), below(&mut random, LATER)),
            };
            let pc = sites.steps.get(at(place)).copied().unwrap_or(0);
            Schedule { blocks: Blocks::Overtaken { block, pc, times }, ..late }
        }
        _ => {
            let mut random = SplitMix(seed ^ u64::from(number));
            let quantum = [8, 64, 512, 4096][usize::try_from(random.next() % 4).unwrap_or(0)];
            let base = if random.next().is_multiple_of(2) { late } else { early };
            let order = Order::Random(random.next());
            let together = [2, 3, 8, 64][usize::try_from(random.next() % 4).unwrap_or(0)];
            Schedule { order, quantum, blocks: turns(together, quantum), ..base }
        }
    }
}

/// Default number of base schedules for a kernel whose synchronization depends on the order. Schedules in which a block
/// is overtaken at one of its steps are added.
const DRAWN: u32 = 4;
/// Maximum number of added schedules.
const OVERTAKEN: u32 = 8;

/// See [`CheckLaunch::check_schedules`](crate::CheckLaunch::check_schedules).
pub(super) fn run(
    device: &mut Device,
    launch: &Launch,
    settings: &Settings,
    count: Option<u32>,
    seed: u64,
) -> Schedules {
    let own = device.schedule;
    let sites = Sites::of(&launch.program());
    let compare = count.is_some();
    let count = count.unwrap_or_else(|| needed(&sites)).max(1);
    let schedules = (0..count).map(|number| schedule(own, number, seed, &sites, blocks(launch)));
    let schedules: Vec<Schedule> = schedules.collect();
    let before = (schedules.len() > 1).then(|| device.memory().clone());
    let (checked, writers) = check_keeping(device, launch, settings);
    let Some(before) = before else { return Schedules { checked, count: 1 } };
    let mut runs = Runs::new(launch, settings, checked, writers, device.memory().clone());
    runs.compare = compare;
    let mut ran = 1;
    for schedule in schedules.into_iter().skip(1) {
        if runs.checked.outcome.stop.is_some() {
            break;
        }
        device.memory().restore(&before);
        device.schedule = schedule;
        let (other, _) = check_keeping(device, launch, settings);
        runs.add(other, device.memory(), true);
        ran += 1;
    }
    device.schedule = own;
    device.memory().restore(&runs.after);
    Schedules { checked: runs.end(), count: ran }
}

/// Runs of one launch from the same memory in different orders.
pub(super) struct Runs<'a> {
    launch: &'a Launch,
    settings: &'a Settings,
    /// The first run, with the findings of all runs.
    pub(super) checked: Checked,
    writers: Writers,
    /// Memory after the first run.
    pub(super) after: Heap,
    /// Whether outputs are compared.
    compare: bool,
    /// Number of runs.
    count: u32,
    different: Option<Finding>,
}

impl<'a> Runs<'a> {
    /// Starts with the first run.
    pub(super) fn new(
        launch: &'a Launch,
        settings: &'a Settings,
        checked: Checked,
        writers: Writers,
        after: Heap,
    ) -> Runs<'a> {
        Runs { launch, settings, checked, writers, after, compare: true, count: 1, different: None }
    }

    /// Adds another run and the memory after it. `whole`: the run was not cut short.
    pub(super) fn add(&mut self, other: Checked, memory: &Heap, whole: bool) {
        let ended = whole && other.outcome.stop.is_none();
        self.count += 1;
        if let Some(mut stop) = other.outcome.stop.filter(|stop| Class::of_stop(stop.kind).is_none()) {
            // A limit that another run reaches counts like one in the first run.
            name_schedule(&mut stop, self.count);
            self.checked.outcome.stop = Some(stop);
        }
        merge(&mut self.checked, other.findings, self.count, self.settings.max_findings);
        let first_ended = self.checked.outcome.stop.is_none();
        if self.compare && ended && first_ended && self.different.is_none() {
            let result = |role| matches!(role, Role::Out | Role::InOut);
            let mut outputs = self.settings.buffers.iter().filter(|buffer| result(buffer.role));
            self.different = outputs.find_map(|buffer| {
                let size = usize::try_from(buffer.bytes()).ok()?;
                let (a, b) =
                    (self.after.read(buffer.address, size).ok()?, memory.read(buffer.address, size).ok()?);
                let byte = a.iter().zip(b).position(|(a, b)| a != b)?;
                let elements = usize::try_from(buffer.element.max(1)).ok()?;
                let differ = a.chunks(elements).zip(b.chunks(elements)).filter(|(a, b)| a != b).count();
                Some(dependence(buffer, byte, differ, self.launch, &mut self.writers))
            });
        }
    }

    /// Whether one of the runs reached a limit.
    pub(super) fn limited(&self) -> bool {
        self.checked.outcome.stop.as_ref().is_some_and(|stop| Class::of_stop(stop.kind).is_none())
    }

    /// The first run, with the findings of all runs.
    pub(super) fn end(mut self) -> Checked {
        let explained = |finding: &Finding| {
            finding.severity == Severity::Error
                && matches!(finding.class, Class::SharedRace | Class::GlobalRace | Class::AsyncCopy)
        };
        let explained = self.checked.findings.iter().any(explained);
        self.checked.findings.extend(self.different.filter(|_| !explained));
        self.checked
    }
}

/// A launch that ended under other schedules does not run forever.
fn name_schedule(stop: &mut Stop, schedule: u32) {
    if stop.kind == StopKind::Limit {
        let known = stop.sentence.strip_suffix(MAY_NEVER_END).unwrap_or(&stop.sentence);
        stop.sentence = format!("{known} under schedule {schedule}");
        stop.notes.insert(0, "it ended under the schedules before this one".to_owned());
    }
}

/// Adds the new findings of a later run. A finding with a single location gets a note about the schedule, because it
/// does not occur in the usual order.
fn merge(checked: &mut Checked, more: Vec<Finding>, run: u32, limit: usize) {
    let key = |finding: &Finding| {
        let mut lines: Vec<u32> = finding.places.iter().map(|label| label.place.ptx_line).collect();
        // Another schedule may execute the two accesses of a race in the opposite order.
        if finding.class != Class::AsyncCopy {
            lines.sort_unstable();
        }
        (finding.class, finding.severity, lines)
    };
    for mut finding in more {
        if checked.findings.iter().any(|known| key(known) == key(&finding)) {
            continue;
        }
        if checked.findings.len() < limit {
            if finding.places.len() <= 1 {
                finding
                    .notes
                    .push(format!("seen when warps and blocks run in another order (schedule {run})"));
            }
            checked.findings.push(finding);
        } else {
            checked.dropped += 1;
        }
    }
}

fn dependence(
    buffer: &BufferRole,
    byte: usize,
    differ: usize,
    launch: &Launch,
    writers: &mut Writers,
) -> Finding {
    let element = u64::try_from(byte).unwrap_or(0) / u64::from(buffer.element.max(1));
    let address = buffer.address + u64::try_from(byte).unwrap_or(0);
    let place = writers.last(address).and_then(|pc| launch.program().place(pc));
    let label = |place| Label { text: "the write".to_owned(), place, thread: None };
    Finding {
        class: Class::Order,
        severity: Severity::Error,
        sentence: format!(
            "`{}` depends on the order in which warps run: {differ} elements differ, the first is `{}`",
            buffer.name,
            buffer.element_name(element)
        ),
        places: place.into_iter().map(label).collect(),
        notes: Vec::new(),
        help: Some(
            "compute each thread's output position from its index; if any order is valid, compare the array as a set"
                .to_owned(),
        ),
        count: u64::try_from(differ).unwrap_or(u64::MAX),
    }
}
