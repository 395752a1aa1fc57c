//! `tcgen05.commit`: an arrival at an mbarrier when the work of the tensor core before it is complete.

use crate::isa::{Args, Bound, Refusal, Slot, Spec};
use crate::machine::{Action, Flow, Row, Type, Work, at, cluster_address, lanes_of};
use crate::memory::Space;
use crate::stop::{Blame, StopKind};

pub(super) fn bind(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let generic = !spec.has("shared::cluster");
    let blocks = super::blocks(spec);
    let multicast = spec.has("multicast::cluster");
    let mut slots = vec![Slot::Address];
    if multicast {
        slots.push(Slot::Src(Type::U16));
    }
    Ok(Bound::fallible(slots, move |w, args: &Args| {
        super::enter(w, blocks)?;
        let addresses = w.addresses(args.at[0]);
        let masks = if multicast { w.state.regs.w32[at(args.o[0])] } else { Row([0; 32]) };
        for lane in lanes_of(w.exec) {
            let number = u32::try_from(lane).unwrap_or(0);
            let address = addresses.0[lane];
            let (space, address) = if generic { Space::resolve(address) } else { (Space::Shared, address) };
            if space != Space::Shared {
                let sentence = format!(
                    "an mbarrier at {} address {address:#x}; it must be in shared memory",
                    space.name()
                );
                return Err(w.halt_lane(Blame::Kernel, StopKind::Bounds, number, sentence));
            }
            let barrier = w.in_cluster(address);
            let ranks = masks.0[lane] & 0xffff;
            let size = w.grid.cluster_size();
            if ranks.checked_shr(size).unwrap_or(0) != 0 {
                let sentence = format!("a multicast to blocks {ranks:#06x} of a cluster of {size}");
                return Err(w.halt_lane(Blame::Kernel, StopKind::Bounds, number, sentence));
            }
            let targets: Vec<u64> = if multicast {
                let ranks = lanes_of(ranks).map(|rank| u32::try_from(rank).unwrap_or(0));
                ranks.map(|rank| cluster_address(rank, barrier)).collect()
            } else {
                vec![barrier]
            };
            for barrier in targets {
                w.start_tensor(Work::of(w, lane, Action::Arrive(barrier)))?;
            }
        }
        Ok(Flow::Next)
    }))
}
