//! The listener of one block: hands what happens to the checks that are on.

use super::clock::{Fences, Order, Who};
use super::context::Context;
use super::global::{GlobalRace, Pages, Together};
use super::ledger::Ledger;
use super::race::SharedRace;
use super::settings::Check;
use super::site::Kind;
use crate::machine::{Access, lanes_of};
use crate::memory::Space;
use crate::observe::{Arrival, Copy, Exchange, Issue, Mbarrier, Observer};
use std::sync::{Arc, Mutex};

/// The listener of one block.
pub(crate) struct Checker {
    context: Arc<Context>,
    block: u32,
    order: Order,
    fences: Fences,
    ledger: Ledger,
    race: Option<Races>,
}

/// Races, and copies under way.
struct Races {
    shared: SharedRace,
    global: GlobalRace,
}

/// What a block's listener leaves behind.
pub(crate) struct Left {
    pub block: u32,
    pub ledger: Ledger,
    pub pages: Option<Pages>,
    /// Bytes remembered of shared memory.
    pub shadow: u64,
}

impl Checker {
    pub(crate) fn new(context: Arc<Context>, block: u32, together: Option<Arc<Mutex<Together>>>) -> Checker {
        let order = Order::new(block, context.block_threads());
        let race = context.settings.has(Check::Race).then(|| Races {
            shared: SharedRace::new(context.shared),
            global: GlobalRace::new(together, context.settings.memory / 16),
        });
        Checker { context, block, order, fences: Fences::default(), ledger: Ledger::default(), race }
    }

    pub(crate) fn finish(self) -> Left {
        let shadow = self.race.as_ref().map_or(0, |race| race.shared.bytes());
        Left {
            block: self.block,
            ledger: self.ledger,
            pages: self.race.map(|race| race.global.into_pages()),
            shadow: u64::try_from(shadow).unwrap_or(u64::MAX),
        }
    }
}

impl Observer for Checker {
    fn issue(&mut self, issue: &Issue<'_>) {
        match self.context.sites.get(issue.pc).kind {
            Kind::Fence(scope) => {
                for lane in lanes_of(issue.exec) {
                    self.fences.fence(&mut self.order, Who::new(issue.warp, lane), scope);
                }
            }
            Kind::Commit => {
                if let Some(race) = &mut self.race {
                    race.shared.commit(issue.warp, issue.exec);
                }
            }
            _ => {}
        }
    }

    fn access(&mut self, access: &Access<'_>) {
        if let (Some(arrays), Space::Shared) = (&self.context.arrays, access.space) {
            arrays.access(&self.context, &mut self.ledger, access);
        }
        let Checker { context, order, fences, ledger, race, .. } = self;
        if let (Some(race), false) = (race, access.deferred) {
            match access.space {
                Space::Shared => race.shared.access(context, order, fences, ledger, access),
                Space::Global => race.global.access(context, order, fences, ledger, access),
                _ => {}
            }
        }
    }

    fn arrive(&mut self, arrival: &Arrival) {
        let Arrival { warp, lanes, id, expected, waits, .. } = *arrival;
        self.order.arrive(warp, lanes, id, waits, expected.is_some());
    }

    fn barrier(&mut self, _block: u32, id: u32) {
        self.order.complete(id);
    }

    fn converge(&mut self, warp: u32, lanes: u32) {
        self.order.converge(warp, lanes);
    }

    fn exchange(&mut self, _exchange: &Exchange<'_>) {}

    fn copy_issued(&mut self, copy: &Copy) {
        let Checker { context, block, order, ledger, race, .. } = self;
        if let Some(race) = race {
            race.shared.copy_issued(context, *block, order, ledger, copy);
            race.global.copy_issued(copy);
        }
    }

    fn copy_done(&mut self, copy: &Copy) {
        if let Some(race) = &mut self.race {
            race.shared.copy_done(&self.order, copy);
            race.global.copy_done(copy);
        }
    }

    fn mbarrier(&mut self, mbarrier: &Mbarrier) {
        if let Some(race) = &mut self.race {
            race.shared.mbarrier(&mut self.order, mbarrier);
        }
    }

    fn exit(&mut self, warp: u32, lanes: u32) {
        self.order.exit(warp, lanes);
    }
}
