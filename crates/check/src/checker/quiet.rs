//! The most frequent accesses, of which nothing needs to be checked.

use super::Checker;
use warpproof_sim::isa::Op;
use warpproof_sim::machine::{Access, AccessKind, at};
use warpproof_sim::memory::Space;
use warpproof_sim::observe::{BundleReads, SharedAccess};

impl Checker {
    /// The most frequent access: all lanes of a warp read words of one line of shared memory that were written before the last barrier.
    /// Returns whether it is one and nothing else needs to be checked.
    pub(super) fn read_quietly(&mut self, access: &SharedAccess<'_>) -> bool {
        let SharedAccess { warp, pc, kind, offsets, bytes, lanes, .. } = *access;
        let follows = self.follows_values(pc);
        let Checker { context, rank, order, race: Some(race), init, .. } = self else { return false };
        let site = context.sites.get(pc);
        if context.plain
            || (kind, bytes, lanes) != (AccessKind::Read, 4, u32::MAX)
            || !context.sites.barriers_only
            || follows
            || race.proxy.is_some()
            || site.ordering.strong.is_some()
            || site.volatile
        {
            return false;
        }
        let shape = (context.measure)(offsets);
        let inside = context.arrays.as_ref().is_none_or(|arrays| arrays.holds(context, pc, &shape));
        let defined = init.as_ref().is_none_or(|init| init.is_clean(shape.lowest..shape.highest + 4));
        let rank = at(*rank);
        inside
            && defined
            && race.shared.with(|cluster| {
                let window = cluster.windows.get_mut(rank);
                window.is_some_and(|window| window.read_line(order, (warp, pc), offsets, &shape))
            })
    }

    /// Takes note of the loads of a bundle if each would be read quietly. Returns whether it did.
    pub(super) fn read_bundle(&mut self, reads: &BundleReads<'_>) -> bool {
        // Provenance does not concern the instructions of a bundle that can be checked as one.
        let follows = self.taint.is_some() || self.log.is_some();
        let Checker { context, rank, order, race: Some(race), init, .. } = self else { return false };
        let mut extents = (0..reads.places.len()).map(|base| reads.extent(base));
        let rank = at(*rank);
        !follows
            && race.proxy.is_none()
            && context.bundles.admit(reads)
            && race.shared.with(|cluster| {
                let Some(window) = cluster.windows.get_mut(rank) else { return false };
                let defined = match init {
                    Some(init) => extents.all(|extent| init.turns_out_clean(window, extent)),
                    None => true,
                };
                defined && window.read_bundle(order, reads)
            })
    }

    /// Another frequent access: all lanes of a warp load from one input. Returns whether it is one and nothing needs to be checked.
    #[inline]
    pub(super) fn reads_input(&mut self, access: &Access<'_>) -> bool {
        let Access { pc, space, kind, addresses, bytes, lanes, deferred, used, .. } = *access;
        if (space, kind, lanes, used) != (Space::Global, AccessKind::Read, u32::MAX, u32::MAX) || deferred {
            return false;
        }
        self.may_read_input(pc) && {
            let (lowest, highest) = (self.context.extent)(addresses);
            self.is_in_input(lowest, highest, highest.saturating_add(u64::from(bytes)))
        }
    }

    /// Whether nothing needs to be checked if all lanes load from one input.
    pub(super) fn may_read_input(&self, pc: u32) -> bool {
        !(self.context.plain
            || self.follows_values(pc)
            || self.touched.is_some()
            || self.phases.is_some()
            || !matches!(self.context.program.op(pc), Op::Load(_))
            || self.context.sites.get(pc).ordering.strong.is_some())
    }

    pub(super) fn is_in_input(&mut self, lowest: u64, highest: u64, end: u64) -> bool {
        self.context.in_one_input(lowest, highest)
            && self
                .outputs
                .as_mut()
                .is_none_or(|outputs| outputs.with(|stores| stores.concerns(lowest, end)) == Some(false))
    }
}
