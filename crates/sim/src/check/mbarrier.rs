//! The phases of mbarriers: which threads they order, and initializations of an mbarrier that is still valid.
//!
//! Arriving is a release, a successful wait is an acquire. An mbarrier is valid from `mbarrier.init` to
//! `mbarrier.inval`; according to the PTX manual, initializing a valid mbarrier is undefined behavior, whether it is in
//! use or not.
//!
//! Not reported on purpose: an mbarrier whose bytes were overwritten by ordinary stores in between, and several lanes
//! that initialize one mbarrier with one instruction, which is reported as a race.

use super::clock::{Clock, Order, Who};
use super::context::Context;
use super::raw::{Raw, RawFindings, Spot};
use super::{Class, Severity};
use crate::machine::at;
use crate::observe::{Mbarrier, MbarrierAction};
use std::collections::BTreeMap;

/// The state of an mbarrier's phases.
#[derive(Clone, Debug, Default)]
struct Phases {
    /// What the threads that arrived in the current phase released.
    arriving: Clock,
    /// What the threads that arrived in the previous phase released.
    complete: Clock,
    /// Arrivals in the current phase.
    arrivals: u32,
    /// The initialization that made it valid, and the thread that executed it.
    valid: Option<(u32, Who)>,
    /// Whether it was valid before that initialization.
    again: bool,
}

/// The mbarriers of a block, by their address.
#[derive(Debug, Default)]
pub(crate) struct Mbarriers {
    all: BTreeMap<u32, Phases>,
}

impl Mbarriers {
    /// Whether the mbarrier was initialized again while it was valid.
    pub(crate) fn again(&self, address: u32) -> bool {
        self.all.range(address.saturating_sub(7)..=address).any(|(_, phases)| phases.again)
    }

    /// A lane uses an mbarrier. Must be called after its access to the bytes.
    pub(crate) fn used(&mut self, order: &mut Order, used: &Mbarrier) {
        let who = Who::new(used.warp, at(used.lane));
        let phases = self.all.entry(used.address).or_default();
        match used.action {
            MbarrierAction::Init => {
                let again = phases.again;
                *phases = Phases { valid: Some((used.pc, who)), again, ..Phases::default() };
            }
            MbarrierAction::Inval => *phases = Phases::default(),
            MbarrierAction::Arrive => {
                phases.arriving.join(&order.release(who));
                phases.arrivals = phases.arrivals.saturating_add(1);
            }
            MbarrierAction::Test(true) => order.acquire(who, &phases.complete),
            MbarrierAction::Track | MbarrierAction::Test(false) => {}
        }
        if used.completes {
            phases.complete = std::mem::take(&mut phases.arriving);
            phases.arrivals = 0;
        }
    }

    /// Bytes of a bulk copy have arrived, with what its agent releases.
    pub(crate) fn received(&mut self, address: u32, clock: &Clock, completes: bool) {
        let phases = self.all.entry(address).or_default();
        phases.arriving.join(clock);
        if completes {
            phases.complete = std::mem::take(&mut phases.arriving);
            phases.arrivals = 0;
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
