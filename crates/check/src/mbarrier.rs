//! The phases of mbarriers: which threads they order, initializations of an mbarrier that is still valid, and copies of other
//! blocks that signal an mbarrier whose initialization no fence has published.
//!
//! Arriving is a release of the thread that arrives, a successful wait is an acquire, unless they are `.relaxed`; with an explicit
//! `.cta`, they order threads of the same block only. An mbarrier is valid from `mbarrier.init` to
//! `mbarrier.inval`; according to the PTX manual, initializing a valid mbarrier is undefined behavior, whether it is in
//! use or not.
//!
//! Not reported on purpose: an mbarrier whose bytes were overwritten by ordinary stores in between, and several lanes
//! that initialize one mbarrier with one instruction, which is reported as a race.

use super::clock::{Clock, Fences, Order, Who};
use super::context::Context;
use super::raw::{Raw, RawFindings, Spot};
use super::{Class, Severity};
use std::collections::BTreeMap;
use warpproof_sim::isa::Op;
use warpproof_sim::isa::op::MbarrierOp;
use warpproof_sim::machine::{at, lanes_of};
use warpproof_sim::observe::{Mbarrier, MbarrierAction};

/// What the arrivals of a phase released, by the block of the thread and whether it named the scope of its block only.
type Released = BTreeMap<(u32, bool), Clock>;

/// Stands for the block of an asynchronous agent, whose bytes every thread that waits has.
const EVERY_BLOCK: u32 = u32::MAX;

/// The most arrivals of a phase whose threads are known.
const KNOWN: usize = 1 << 12;

/// The state of an mbarrier's phases.
#[derive(Clone, Debug, Default)]
struct Phases {
    /// What the threads that arrived in the current phase released.
    arriving: Released,
    /// What the threads that arrived in the previous phase released.
    complete: Released,
    /// Arrivals in the current phase.
    arrivals: u32,
    /// The threads that arrived in the current phase and in the previous one, with their instructions.
    arrived: [Vec<(u32, Who, u32)>; 2],
    /// Phases that have ended.
    ended: u64,
    /// The initialization that made it valid, and the thread that executed it.
    valid: Option<(u32, Who)>,
    /// Whether it was valid before that initialization.
    again: bool,
    /// Whether the thread that initialized it has executed a fence for the async proxies of other blocks since.
    published: bool,
}

impl Phases {
    fn end(&mut self) {
        self.complete = std::mem::take(&mut self.arriving);
        self.arrivals = 0;
        self.ended += 1;
        self.arrived.swap(0, 1);
        self.arrived[0].clear();
    }
}

/// The last successful wait of a thread.
#[derive(Clone, Copy, Debug)]
struct Waited {
    address: u32,
    /// Whether the phase had ended before the thread's previous wait for the same mbarrier, or none had ended at all.
    stale: bool,
}

/// The mbarriers of a block, by their address.
#[derive(Debug, Default)]
pub(crate) struct Mbarriers {
    all: BTreeMap<u32, Phases>,
    waited: BTreeMap<(u32, Who), Waited>,
    /// By thread and mbarrier: the phases that had ended at its last successful wait.
    phases: BTreeMap<(u32, Who, u32), u64>,
}

impl Mbarriers {
    /// Whether the mbarrier was initialized again while it was valid.
    pub(crate) fn again(&self, address: u32) -> bool {
        self.all.range(address.saturating_sub(7)..=address).any(|(_, phases)| phases.again)
    }

    /// A lane uses an mbarrier. Must be called after its access to the bytes.
    pub(crate) fn used(
        &mut self,
        context: &Context,
        (order, fences): (&mut Order, &Fences),
        block: u32,
        used: &Mbarrier,
    ) {
        let who = Who::new(used.warp, at(used.lane));
        let phases = self.all.entry(used.address).or_default();
        let (relaxed, narrow) = match context.program.op(used.pc) {
            Op::Mbarrier(op) => {
                (op.relaxed || matches!(op.action, MbarrierOp::ExpectTx | MbarrierOp::CompleteTx), op.narrow)
            }
            _ => (false, false),
        };
        match used.action {
            MbarrierAction::Init => {
                let again = phases.again;
                *phases = Phases { valid: Some((used.pc, who)), again, ..Phases::default() };
            }
            MbarrierAction::Inval => *phases = Phases::default(),
            MbarrierAction::Arrive => {
                let released = phases.arriving.entry((block, narrow)).or_default();
                // A relaxed arrival releases what earlier fences of the thread cover.
                match (relaxed, fences.released(who)) {
                    (false, _) => released.join(&order.release(who)),
                    (true, Some(covered)) => released.join(&covered.block),
                    (true, None) => {}
                }
                phases.arrivals = phases.arrivals.saturating_add(1);
                if phases.arrived[0].len() < KNOWN {
                    phases.arrived[0].push((block, who, used.pc));
                }
            }
            MbarrierAction::Test(true) => {
                for ((from, inside), clock) in &phases.complete {
                    let reaches = *from == block || *from == EVERY_BLOCK || !(narrow || *inside);
                    if reaches && !relaxed {
                        order.acquire(who, clock);
                    }
                }
                let last = self.phases.insert((block, who, used.address), phases.ended);
                let stale = phases.ended == 0 || last == Some(phases.ended);
                self.waited.insert((block, who), Waited { address: used.address, stale });
            }
            MbarrierAction::Track | MbarrierAction::Test(false) => {}
        }
        if used.completes {
            phases.end();
        }
    }

    /// Lanes of a block execute `fence.mbarrier_init` or `fence.proxy.async`.
    pub(crate) fn publish(&mut self, warp: u32, lanes: u32) {
        for phases in self.all.values_mut() {
            let Some((_, who)) = phases.valid else { continue };
            phases.published |= lanes_of(lanes).any(|lane| who == Who::new(warp, lane));
        }
    }

    /// The copy of another block is about to signal the mbarrier of `block`.
    pub(crate) fn signaled_from_outside(
        &self,
        context: &Context,
        raw_findings: &mut RawFindings,
        block: u32,
        (address, pc): (u32, u32),
    ) {
        let Some(phases) = self.all.get(&address).filter(|phases| !phases.published) else { return };
        let Some((init, who)) = phases.valid else { return };
        raw_findings.add((Class::Mbarrier, init, pc, 3), Severity::Error, || {
            let name = context.mbarrier_name(address);
            Raw {
                class: Class::Mbarrier,
                severity: Severity::Error,
                sentence: format!(
                    "a bulk copy of another block signals the mbarrier {name}, whose initialization has no fence for the async proxy"
                ),
                spots: vec![
                    Spot {
                        label: "the initialization".to_owned(),
                        pc: init,
                        thread: Some((block, u32::from(who.0))),
                    },
                    Spot { label: "the copy".to_owned(), pc, thread: None },
                ],
                notes: vec!["a barrier orders threads, but not mbarrier.init and the async proxy of another block".to_owned()],
                help: Some(
                    "execute fence.mbarrier_init.release.cluster in the thread that initializes it, before the barrier of the cluster"
                        .to_owned(),
                ),
                count: 1,
            }
        });
    }

    /// Bytes of a bulk copy have arrived, with what its agent releases.
    pub(crate) fn received(&mut self, address: u32, clock: &Clock, completes: bool) {
        let phases = self.all.entry(address).or_default();
        phases.arriving.entry((EVERY_BLOCK, false)).or_default().join(clock);
        if completes {
            phases.end();
        }
    }

    /// Adds to a race what the mbarrier shows for which the later thread waited last: that another lane of the earlier thread's
    /// warp arrived for it, or that the wait returned at once.
    pub(crate) fn explain(
        &self,
        raw: &mut Raw,
        context: &Context,
        (earlier_block, earlier): (u32, Who),
        (block, later): (u32, Who),
    ) {
        let Some(waited) = self.waited.get(&(block, later)) else { return };
        let Some(phases) = self.all.get(&waited.address) else { return };
        let name = context.mbarrier_name(waited.address);
        let mut all = phases.arrived.iter().flatten();
        // An arrival of the later thread itself, such as a producer's, is not one for the earlier one.
        let near = |(at, who, _): &&(u32, Who, u32)| {
            *at == earlier_block && who.warp() == earlier.warp() && (*at, *who) != (block, later)
        };
        if all.clone().any(|(at, who, _)| (*at, *who) == (earlier_block, earlier)) {
            return;
        }
        if let Some((_, who, pc)) = all.find(near) {
            let thread = (earlier_block, u32::from(who.0));
            raw.spots.push(Spot {
                label: "this arrival does not release what other lanes did".to_owned(),
                pc: *pc,
                thread: Some(thread),
            });
            raw.notes.push(format!(
                "{} has waited for the mbarrier {name}, at which another lane of the warp arrived for {}; an arrival \
                 releases only what its own thread did",
                context.thread(block, u32::from(later.0)),
                context.thread(earlier_block, u32::from(earlier.0))
            ));
            raw.help = Some(
                "execute __syncwarp() before the elected lane arrives, or let every lane arrive and count all of them"
                    .to_owned(),
            );
        } else if waited.stale {
            raw.notes.push(format!(
                "the last wait of {} before this, for the mbarrier {name}, returned at once because of an earlier phase; \
                 check its parity",
                context.thread(block, u32::from(later.0))
            ));
        }
    }

    /// A thread is about to initialize the mbarrier at an address whose bytes an mbarrier instruction wrote last.
    pub(crate) fn initialize(
        &mut self,
        context: &Context,
        raw_findings: &mut RawFindings,
        (block, who): (u32, Who),
        pc: u32,
        address: u32,
    ) {
        let Some(phases) = self.all.get_mut(&address) else { return };
        let Some((first, by)) = phases.valid else { return };
        if first == pc && by.warp() == who.warp() && by != who {
            return;
        }
        phases.again = true;
        raw_findings.add((Class::Mbarrier, pc, first, 4), Severity::Error, || {
            let name = context.shared_name(address).map_or(String::new(), |name| format!(" `{name}`"));
            let in_flight = match phases.arrivals {
                0 => None,
                1 => Some("its phase is in flight: 1 arrival is lost".to_owned()),
                n => Some(format!("its phase is in flight: {n} arrivals are lost")),
            };
            let while_what = if in_flight.is_some() { "while a phase is in flight" } else { "without mbarrier.inval" };
            let spot = |label: &str, pc: u32, who: Who| Spot {
                label: label.to_owned(),
                pc,
                thread: Some((block, u32::from(who.0))),
            };
            let mut spots = vec![spot("the mbarrier is initialized again", pc, who)];
            if context.line(first) != context.line(pc) {
                spots.push(spot("it has been valid since this initialization", first, by));
            }
            let mut notes = vec![
                "an mbarrier is valid until mbarrier.inval; initializing a valid mbarrier is undefined behavior".to_owned(),
            ];
            notes.extend(in_flight);
            Raw {
                class: Class::Mbarrier,
                severity: Severity::Error,
                sentence: format!(
                    "{} initializes the mbarrier{name} again {while_what}",
                    context.thread(block, u32::from(who.0))
                ),
                spots,
                notes,
                help: Some(
                    "initialize it once and use its next phase, or, when all threads are done with it, execute \
                     mbarrier.inval before initializing it again"
                        .to_owned(),
                ),
                count: 1,
            }
        });
    }
}
