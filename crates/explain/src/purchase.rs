//! Predicts the effect of a change: the same work with one thing changed, bounded and scheduled again.
#![expect(
    clippy::as_conversions,
    clippy::cast_precision_loss,
    reason = "cycles become microseconds; they are far below 2^53"
)]

use warpproof_count::Counters;
use warpproof_model::bound::{Bounds, Work, bounds};
use warpproof_model::schedule::Launch;
use warpproof_model::{Device, Usage, grouped, work};
use warpproof_sim::memory::Space;

use super::machine::{Cache, Ideal, Machine};
use super::{Change, Offer, Purchase};

/// Bytes that [`Offer::LessShared`] removes.
const LESS_SHARED: u32 = 2048;

/// All offers, in the order of [`Offer`].
pub(super) fn all(
    device: &'static Device,
    counters: &Counters,
    now: &Work,
    bound: &Bounds,
    machine: Option<(&Machine<'_>, &Launch)>,
) -> Vec<Purchase> {
    let shop = Shop { device, now, bound, machine };
    let banks = Ideal { banks: true, ..Ideal::default() };
    let sectors = Ideal { sectors: true, ..Ideal::default() };
    let usage = now.usage;
    let registers = usage.registers.div_ceil(2);
    vec![
        shop.offer(
            Offer::RemoveConflicts,
            conflicts(device, counters),
            &work::without_conflicts(now, counters),
            Some(banks),
        ),
        shop.offer(
            Offer::Coalesce,
            "coalesce global accesses (L1 misses are kept as counted)".to_owned(),
            &work::coalesced(now, counters),
            Some(sectors),
        ),
        shop.offer(
            Offer::HalveRegisters,
            format!("{registers} registers instead of {}, if nothing spilled", usage.registers),
            &Work { usage: Usage { registers, ..usage }, ..now.clone() },
            Some(Ideal::default()),
        ),
        less_shared(&shop, usage),
        double_tile(&shop, usage),
    ]
}

/// The effect of removing conflicts. If a multiprocessor has 16 load/store units, a warp takes two cycles of them
/// regardless of its conflicts.
fn conflicts(device: &Device, counters: &Counters) -> String {
    let title = "remove bank conflicts".to_owned();
    let traffic = counters.totals.traffic(Space::Shared, &[]);
    if device.rates.memory.value >= 32.0 || traffic.conflicts() == 0 {
        return title;
    }
    title + " (an access takes the load/store units 2 cycles, so a conflict of 2 ways costs no throughput)"
}

fn less_shared(shop: &Shop<'_>, usage: Usage) -> Purchase {
    let fewer = LESS_SHARED.min(usage.shared());
    let static_shared = usage.static_shared.saturating_sub(fewer);
    let rest = fewer - (usage.static_shared - static_shared);
    let usage = Usage { static_shared, dynamic_shared: usage.dynamic_shared.saturating_sub(rest), ..usage };
    shop.offer(
        Offer::LessShared,
        format!("{} bytes less of shared memory", grouped(LESS_SHARED)),
        &Work { usage, ..shop.now.clone() },
        Some(Ideal::default()),
    )
}

/// Half as many blocks do the same work, each with twice the shared memory. The traffic that a larger tile saves
/// depends on the algorithm and is not claimed.
fn double_tile(shop: &Shop<'_>, usage: Usage) -> Purchase {
    let usage = Usage {
        static_shared: usage.static_shared.saturating_mul(2),
        dynamic_shared: usage.dynamic_shared.saturating_mul(2),
        ..usage
    };
    let mut purchase = shop.offer(
        Offer::DoubleTile,
        "double the tile: half the blocks, twice the shared memory, the same registers and traffic"
            .to_owned(),
        &Work { usage, blocks: shop.now.blocks.div_ceil(2), ..shop.now.clone() },
        None,
    );
    if shop.now.blocks < 2 {
        purchase.possible = false;
        "impossible: there is one block".clone_into(&mut purchase.verdict);
    }
    purchase
}

struct Shop<'a> {
    device: &'static Device,
    now: &'a Work,
    bound: &'a Bounds,
    machine: Option<(&'a Machine<'a>, &'a Launch)>,
}

impl Shop<'_> {
    /// An offer: changed work, and for the schedule changed accesses; without those the schedule cannot model it.
    fn offer(&self, offer: Offer, title: String, changed: &Work, accesses: Option<Ideal>) -> Purchase {
        let before = self.bound;
        let (blocks, percent) = (before.occupancy.blocks_per_sm, before.occupancy.percent);
        let same = |us: f64| Change { before: us, after: us };
        let mut purchase = Purchase {
            offer,
            title,
            possible: true,
            cold: same(before.cold_us()),
            warm: same(before.warm_us()),
            scheduled: None,
            blocks_per_sm: (blocks, blocks),
            occupancy: (percent, percent),
            verdict: String::new(),
        };
        match bounds(self.device, changed) {
            Ok(after) => {
                purchase.cold.after = after.cold_us();
                purchase.warm.after = after.warm_us();
                purchase.blocks_per_sm.1 = after.occupancy.blocks_per_sm;
                purchase.occupancy.1 = after.occupancy.percent;
                purchase.scheduled = self.scheduled(changed, &after, accesses);
                purchase.verdict = verdict(&purchase, before.waves.stretch, after.waves.stretch);
            }
            Err(why) => {
                purchase.possible = false;
                purchase.verdict = format!("impossible: {why}");
            }
        }
        purchase
    }

    fn scheduled(&self, changed: &Work, after: &Bounds, accesses: Option<Ideal>) -> Option<Change> {
        let (machine, warm) = self.machine?;
        let ideal = accesses?;
        let us = |cycles: u64| cycles as f64 / f64::from(self.device.boost_mhz.value);
        // The schedule depends on accesses and on the number of resident blocks; if neither changes, nothing does.
        let same_accesses = Work { usage: self.now.usage, ..changed.clone() } == *self.now;
        let cycles = if same_accesses && after.waves == self.bound.waves {
            warm.cycles
        } else {
            machine.schedule(&after.waves, Cache::Warm, ideal, 0).ok()?.cycles
        };
        Some(Change { before: us(warm.cycles), after: us(cycles) })
    }
}

fn verdict(purchase: &Purchase, from: f64, to: f64) -> String {
    let mut parts = Vec::new();
    for (name, change) in [
        ("of the cold bound", Some(purchase.cold)),
        ("of the warm bound", Some(purchase.warm)),
        ("by the warm schedule", purchase.scheduled),
    ] {
        let Some(change) = change.filter(Change::is_seen) else { continue };
        let word = if change.gain() > 0.0 { "less" } else { "more" };
        parts.push(format!(
            "{:.2} us {word} {name} ({:.2} → {:.2})",
            change.gain().abs(),
            change.before,
            change.after
        ));
    }
    if (from - to).abs() >= 0.005 {
        parts.push(format!("the fullest SM gets {to:.2} instead of {from:.2} times an even share"));
    }
    let (before, after) = purchase.blocks_per_sm;
    if before != after || (purchase.occupancy.0 - purchase.occupancy.1).abs() > 1e-9 {
        let (from, to) = purchase.occupancy;
        parts.push(format!("{after} instead of {before} blocks per SM ({from:.1} % → {to:.1} %)"));
    }
    if parts.is_empty() { "nothing".to_owned() } else { parts.join("; ") }
}
