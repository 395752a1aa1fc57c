//! One launch under several schedules: does the outcome depend on the order in which warps and blocks run?
//!
//! A kernel that synchronises by barriers alone gives the same findings under every schedule. One that takes tickets or
//! sets flags may not, so it is run again from the same memory: backwards, with copies that complete at once, in turns
//! of a few instructions, and in orders drawn from a seed. Blocks that communicate start in drawn orders too, several at
//! once. Findings of all runs are merged. If the outputs differ and no race explains it, that is a finding of its own:
//! both runs are possible on a GPU.
//!
//! Can miss: a dependence that none of the schedules shows. Never reports: outputs that are equal bit for bit.

use super::finding::{Class, Finding, Label, Severity};
use super::settings::{BufferRole, Role, Settings};
use super::site::Sites;
use super::{Checked, Schedules, Writers};
use crate::schedule::{Blocks, CopyTiming, Order, Schedule, SplitMix};
use crate::{Device, Launch};

/// The schedule of the run with that number; the first is the device's own.
fn schedule(own: Schedule, number: u32, seed: u64) -> Schedule {
    let late = Schedule { copies: CopyTiming::Late, ..own };
    let early = Schedule { copies: CopyTiming::Early, ..own };
    let drawn = SplitMix(seed.rotate_left(32) ^ u64::from(number)).next();
    let blocks = |together, turn| Blocks::Interleaved { seed: drawn, together, turn };
    match number {
        0 => own,
        1 => Schedule { order: Order::Reverse, blocks: blocks(64, 256), ..late },
        2 => Schedule { quantum: 16, blocks: blocks(64, 16), ..early },
        // One warp as far as it goes before the next begins, and one block.
        3 => Schedule { order: Order::Reverse, quantum: 1 << 16, blocks: blocks(1, 1 << 16), ..early },
        _ => {
            let mut random = SplitMix(seed ^ u64::from(number));
            let quantum = [8, 64, 512, 4096][usize::try_from(random.next() % 4).unwrap_or(0)];
            let base = if random.next().is_multiple_of(2) { late } else { early };
            let order = Order::Random(random.next());
            let together = [2, 3, 8, 64][usize::try_from(random.next() % 4).unwrap_or(0)];
            Schedule { order, quantum, blocks: blocks(together, quantum), ..base }
        }
    }
}

/// Schedules of a kernel whose synchronization depends on the order, unless a number is given.
const AS_NEEDED: u32 = 6;

impl Device {
    /// Runs a launch with checks, under `count` schedules that start from the same memory. Memory is left as the first
    /// run leaves it.
    pub fn check_schedules(
        &mut self,
        launch: &Launch,
        settings: &Settings,
        count: u32,
        seed: u64,
    ) -> Schedules {
        self.check_under(launch, settings, count, seed, true)
    }

    /// Runs a launch with checks under as many schedules as its synchronization calls for: one where barriers of the block
    /// order everything, several where locks, flags, tickets or barriers of some of the threads do. That outputs depend on
    /// the order is then not reported: kernels that append to a list do so on purpose.
    pub fn check_as_needed(&mut self, launch: &Launch, settings: &Settings, seed: u64) -> Schedules {
        let count = if Sites::of(&launch.program()).order_matters { AS_NEEDED } else { 1 };
        self.check_under(launch, settings, count, seed, false)
    }

    fn check_under(
        &mut self,
        launch: &Launch,
        settings: &Settings,
        count: u32,
        seed: u64,
        compare: bool,
    ) -> Schedules {
        let own = self.schedule;
        let before = (count > 1).then(|| self.memory().clone());
        let (mut checked, mut writers) = self.check_keeping(launch, settings);
        let Some(before) = before else { return Schedules { checked, count: 1 } };
        let after = self.memory().clone();
        let mut different: Option<Finding> = None;
        let mut ran = 1;
        while ran < count && checked.outcome.stop.is_none() {
            self.memory().restore(&before);
            self.schedule = schedule(own, ran, seed);
            let (other, _) = self.check_keeping(launch, settings);
            ran += 1;
            let ended = other.outcome.stop.is_none();
            if let Some(stop) = other.outcome.stop.filter(|stop| Class::of_stop(stop.kind).is_none()) {
                // A limit in another order is as much of an end as in the first.
                checked.outcome.stop = Some(stop);
            }
            merge(&mut checked, other.findings, ran, settings.max_findings);
            if compare && ended && different.is_none() {
                let result = |role| matches!(role, Role::Out | Role::InOut);
                let mut outputs = settings.buffers.iter().filter(|buffer| result(buffer.role));
                different = outputs.find_map(|buffer| {
                    let size = usize::try_from(buffer.bytes()).ok()?;
                    let (a, b) = (
                        after.read(buffer.address, size).ok()?,
                        self.memory().read(buffer.address, size).ok()?,
                    );
                    let byte = a.iter().zip(b).position(|(a, b)| a != b)?;
                    let elements = usize::try_from(buffer.element.max(1)).ok()?;
                    let differ = a.chunks(elements).zip(b.chunks(elements)).filter(|(a, b)| a != b).count();
                    Some(dependence(buffer, byte, differ, launch, &mut writers))
                });
            }
        }
        self.schedule = own;
        self.memory().restore(&after);
        let explained = |finding: &Finding| {
            finding.severity == Severity::Error
                && matches!(finding.class, Class::SharedRace | Class::GlobalRace | Class::AsyncCopy)
        };
        if let Some(finding) = different.filter(|_| !checked.findings.iter().any(explained)) {
            checked.findings.push(finding);
        }
        Schedules { checked, count: ran }
    }
}

/// Adds the findings of a later run that were not known. One that names a single place says that the order was another: the
/// reader would look for it in the usual one in vain.
fn merge(checked: &mut Checked, more: Vec<Finding>, run: u32, limit: usize) {
    let key = |finding: &Finding| {
        let mut lines: Vec<u32> = finding.places.iter().map(|label| label.place.ptx_line).collect();
        // Another schedule may have the two accesses of a race the other way round.
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
            "let each thread find its place by its index; if any order will do, compare the array as a set"
                .to_owned(),
        ),
        count: u64::try_from(differ).unwrap_or(u64::MAX),
    }
}
