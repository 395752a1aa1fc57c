//! Addresses in the shared memory of the blocks of a cluster.

use super::{Bound, Definition, Refusal, Slot, Spec, Unit};
use crate::bind_plain;
use crate::machine::{Flow, NO_RANK, Row, Type, Warp, Width, at, cluster_address, lanes_of};
use crate::memory::Space;
use crate::stop::{Blame, StopKind};

pub(super) const DEFINITIONS: &[Definition] = &[
    Definition {
        form: "mapa{.shared::cluster}.type d, a, b; .type = .u32 .u64",
        manual: "data-movement-and-conversion-instructions-mapa",
        unit: Unit::Alu,
        since: (7, 8, 90),
        bind: bind_plain!(mapa),
    },
    Definition {
        form: "getctarank{.shared::cluster}.type d, a; .type = .u32 .u64",
        manual: "data-movement-and-conversion-instructions-getctarank",
        unit: Unit::Alu,
        since: (7, 8, 90),
        bind: bind_plain!(getctarank),
    },
];

/// The offset in its block of a shared address, which may be generic, and the rank of that block.
fn offset(w: &mut Warp<'_, '_>, lane: usize, address: u64, generic: bool) -> Result<(u32, u64), Flow> {
    let (space, address) = if generic { Space::resolve(address) } else { (Space::Shared, address) };
    let (rank, offset) = w.locate_shared(address);
    if space == Space::Shared && rank != u32::MAX {
        return Ok((rank, offset));
    }
    let sentence =
        format!("{} address {address:#x} is not in the shared memory of the cluster", space.name());
    Err(w.halt_lane(Blame::Kernel, StopKind::Bounds, u32::try_from(lane).unwrap_or(0), sentence))
}

fn mapa(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let ty = spec.ty("type")?;
    let generic = !spec.has("shared::cluster");
    let slots = [Slot::Dst(ty.width()), Slot::Src(ty), Slot::Src(Type::U32)];
    Ok(Bound::fallible(slots, move |w, args| {
        let addresses = w.get_row(ty.width(), args.o[1]);
        let ranks = w.state.regs.w32[at(args.o[2])];
        let mut mapped = Row([0u128; 32]);
        for lane in lanes_of(w.exec) {
            let address = u64::try_from(addresses.0[lane]).unwrap_or(u64::MAX);
            let (_, offset) = offset(w, lane, address, generic)?;
            // Compilers move it out of its guard: a block that does not exist is an error when the address is used.
            let rank = ranks.0[lane].min(NO_RANK);
            let window = if generic { Space::Shared.window() } else { 0 };
            mapped.0[lane] = u128::from(window + cluster_address(rank, offset));
        }
        w.put_row(ty.width(), args.o[0], &mapped);
        Ok(Flow::Next)
    }))
}

fn getctarank(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let ty = spec.ty("type")?;
    let generic = !spec.has("shared::cluster");
    Ok(Bound::fallible([Slot::Dst(Width::W32), Slot::Src(ty)], move |w, args| {
        let addresses = w.get_row(ty.width(), args.o[1]);
        let mut ranks = Row([0u128; 32]);
        for lane in lanes_of(w.exec) {
            let address = u64::try_from(addresses.0[lane]).unwrap_or(u64::MAX);
            ranks.0[lane] = u128::from(offset(w, lane, address, generic)?.0);
        }
        w.put_row(Width::W32, args.o[0], &ranks);
        Ok(Flow::Next)
    }))
}
