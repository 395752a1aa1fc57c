//! `clusterlaunchcontrol`: a running cluster takes over the work of a cluster that has not started.
//!
//! A request is decided when it is issued: it cancels the cluster that would start next, or fails if all have started. The response
//! arrives as late as the program allows, as bulk copies do, at the mbarrier of each block that receives it. Its 16 bytes are the
//! index of the first block of the canceled cluster, and a word that marks a response and has the outcome in its lowest bit.

use super::bulk::describe;
use super::{Args, Bound, Definition, Refusal, Slot, Spec, Unit};
use crate::bind_plain;
use crate::machine::{AccessKind, Bulk, Flow, Type, Warp, Width, at, cluster_address, lanes_of};
use crate::memory::Space;
use crate::program::Communication;
use crate::stop::{Blame, StopKind};

/// The last word of the response of a request that failed.
const RESPONSE: u32 = 0xca9c_e100;
/// Bytes of a response.
const BYTES: u32 = 16;

macro_rules! op {
    ($form:literal, $section:literal, $unit:ident, $bind:expr) => {
        Definition {
            form: $form,
            manual: concat!(
                "parallel-synchronization-and-communication-instructions-clusterlaunchcontrol-",
                $section
            ),
            unit: Unit::$unit,
            since: (8, 6, 100),
            bind: bind_plain!($bind),
        }
    };
}

pub(super) const DEFINITIONS: &[Definition] = &[
    op!(
        "clusterlaunchcontrol.try_cancel.async{.shared::cta}.mbarrier::complete_tx::bytes{.multicast::cluster::all}.b128 [addr], [mbar]",
        "try-cancel",
        Lsu,
        request
    ),
    op!(
        "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 pred, try_cancel_response",
        "query-cancel",
        Alu,
        is_canceled
    ),
    op!(
        "clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {xdim, ydim, zdim, _}, try_cancel_response",
        "query-cancel",
        Alu,
        first_index
    ),
    op!(
        "clusterlaunchcontrol.query_cancel.dimension.b32.b128 reg, try_cancel_response; .dimension = .get_first_ctaid::x .get_first_ctaid::y .get_first_ctaid::z",
        "query-cancel",
        Alu,
        first_dimension
    ),
];

fn request(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let (generic, multicast) = (!spec.has("shared::cta"), spec.has("multicast::cluster::all"));
    let bound = Bound::fallible([Slot::Address, Slot::Address], move |w, args: &Args| {
        let (to, barriers) = (w.addresses(args.at[0]), w.addresses(args.at[1]));
        for lane in lanes_of(w.exec) {
            let number = u32::try_from(lane).unwrap_or(0);
            let own = |w: &mut Warp<'_, '_>, address: u64| {
                let (space, address) =
                    if generic { Space::resolve(address) } else { (Space::Shared, address) };
                let (rank, offset) = w.locate_shared(address);
                if space == Space::Shared && rank == w.cta.rank {
                    return Ok(offset);
                }
                let sentence = format!(
                    "clusterlaunchcontrol.try_cancel with {} address {address:#x}; expected the shared memory of the block",
                    space.name()
                );
                Err(w.halt_lane(Blame::Kernel, StopKind::Bounds, number, sentence))
            };
            let (to, barrier) = (own(w, to.0[lane])?, own(w, barriers.0[lane])?);
            if let Some(pc) = w.cancels().failed {
                let sentence =
                    "clusterlaunchcontrol.try_cancel after the cluster has seen that a request failed";
                let flow = w.halt_lane(Blame::Kernel, StopKind::Malformed, number, sentence.to_owned());
                let place = w.grid.program.place(pc);
                if let Some(stop) = &mut w.stop {
                    stop.others.extend(place.map(|place| (place, "seen here".to_owned())));
                    stop.help = Some("end when a request has failed: no later one can succeed".to_owned());
                }
                return Err(flow);
            }
            let canceled = w.cancel_next();
            let words = match canceled {
                Some([x, y, z]) => [x, y, z, RESPONSE | 1],
                None => [0, 0, 0, RESPONSE],
            };
            let data: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            let ranks = if multicast { 0..w.grid.cluster_size() } else { w.cta.rank..w.cta.rank + 1 };
            for rank in ranks {
                let mut copy = describe(w, lane, BYTES);
                copy.to = (Space::Shared, cluster_address(rank, to));
                copy.from = copy.to;
                copy.barrier = Some(cluster_address(rank, barrier));
                copy.multicast = multicast;
                let place = w.probe_bulk(Space::Shared, copy.to.1, BYTES, BYTES);
                place.map_err(|fault| w.fault(lane, fault, AccessKind::Write, BYTES))?;
                let data = Some(data.clone());
                w.start_bulk(Bulk { copy, plan: None, data, reduction: None, moved: false })?;
            }
        }
        Ok(Flow::Next)
    });
    Ok(bound.communicating(Communication::Any))
}

/// The words of a response, and whether a cluster was canceled.
fn response(w: &mut Warp<'_, '_>, lane: usize, value: u128) -> Result<([u32; 3], bool), Flow> {
    let word = |i: u32| u32::try_from(value >> (32 * i) & 0xffff_ffff).unwrap_or(0);
    if word(3) & !1 != RESPONSE {
        let lane = u32::try_from(lane).unwrap_or(0);
        let sentence = "clusterlaunchcontrol.query_cancel of a value that is not the response of a request";
        let flow = w.halt_lane(Blame::Kernel, StopKind::Malformed, lane, sentence.to_owned());
        if let Some(stop) = &mut w.stop {
            stop.help = Some("wait for the mbarrier of the request before the response is loaded".to_owned());
        }
        return Err(flow);
    }
    Ok(([word(0), word(1), word(2)], word(3) & 1 != 0))
}

fn is_canceled(_: &Spec<'_>) -> Result<Bound, Refusal> {
    Ok(Bound::fallible([Slot::Dst(Width::Pred), Slot::Src(Type::B128)], |w, args: &Args| {
        let values = w.get_row(Width::W128, args.o[1]);
        let mut bits = 0u32;
        for lane in lanes_of(w.exec) {
            let (_, canceled) = response(w, lane, values.0[lane])?;
            bits |= u32::from(canceled) << lane;
            if !canceled {
                let pc = w.pc;
                w.cancels().failed.get_or_insert(pc);
            }
        }
        w.set_pred(args.o[0], bits);
        Ok(Flow::Next)
    }))
}

/// The index of the first block of the canceled cluster, by lane.
fn indices(w: &mut Warp<'_, '_>, row: u32) -> Result<[[u32; 32]; 3], Flow> {
    let values = w.get_row(Width::W128, row);
    let mut found = [[0; 32]; 3];
    for lane in lanes_of(w.exec) {
        let (index, canceled) = response(w, lane, values.0[lane])?;
        if !canceled {
            let sentence = "clusterlaunchcontrol.query_cancel.get_first_ctaid of a request that failed";
            let lane = u32::try_from(lane).unwrap_or(0);
            return Err(w.halt_lane(Blame::Kernel, StopKind::Malformed, lane, sentence.to_owned()));
        }
        for (axis, value) in found.iter_mut().zip(index) {
            axis[lane] = value;
        }
    }
    Ok(found)
}

fn put(w: &mut Warp<'_, '_>, row: u32, values: &[u32; 32]) {
    for lane in lanes_of(w.exec) {
        w.state.regs.w32[at(row)].0[lane] = values[lane];
    }
}

fn first_index(_: &Spec<'_>) -> Result<Bound, Refusal> {
    let slots = [Slot::DstVec(vec![Width::W32; 4]), Slot::Src(Type::B128)];
    Ok(Bound::fallible(slots, |w, args: &Args| {
        let found = indices(w, args.all[4])?;
        for (row, values) in args.all.iter().zip(&found) {
            put(w, *row, values);
        }
        put(w, args.all[3], &[0; 32]);
        Ok(Flow::Next)
    }))
}

fn first_dimension(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let axis = match spec.get("dimension") {
        Some("get_first_ctaid::x") => 0,
        Some("get_first_ctaid::y") => 1,
        _ => 2,
    };
    Ok(Bound::fallible([Slot::Dst(Width::W32), Slot::Src(Type::B128)], move |w, args: &Args| {
        let found = indices(w, args.o[1])?;
        put(w, args.o[0], &found[axis]);
        Ok(Flow::Next)
    }))
}
