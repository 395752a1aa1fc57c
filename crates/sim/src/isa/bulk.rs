//! Bulk copies by asynchronous agents, and stores to other blocks that an mbarrier tracks. When they act: `machine/bulk.rs`.

#![expect(
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    reason = "lane numbers are below 32, values are truncated to their type"
)]

use super::atomic::operation_of;
use super::{Args, Bound, Definition, Refusal, Shape, Slot, Spec, Unit};
use crate::bind_plain;
use crate::machine::{AccessKind, Bulk, Flow, Row, Type, Warp, at, cluster_address, lanes_of};
use crate::memory::{Operation, Space};
use crate::observe::BulkCopy;
use crate::program::Communication;
use crate::stop::{Blame, StopKind};

macro_rules! op {
    ($form:expr, $section:literal, $since:expr, $bind:ident) => {
        Definition { form: $form, manual: $section, unit: Unit::Lsu, since: $since, bind: bind_plain!($bind) }
    };
}

macro_rules! reduce {
    (cluster $classes:literal) => {
        op!(
            concat!(
                "cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.redOp.type [dstMem], [srcMem], size, [mbar]",
                $classes
            ),
            "data-movement-and-conversion-instructions-cp-reduce-async-bulk",
            (8, 0, 90),
            copy
        )
    };
    (global $classes:literal) => {
        op!(
            concat!(
                "cp.reduce.async.bulk.global.shared::cta.bulk_group{.L2::cache_hint}.redOp.type [dstMem], [srcMem], size{, cache-policy}",
                $classes
            ),
            "data-movement-and-conversion-instructions-cp-reduce-async-bulk",
            (8, 0, 90),
            copy
        )
    };
    (async $classes:literal) => {
        op!(
            concat!(
                "red.async.relaxed.cluster{.shared::cluster}.mbarrier::complete_tx::bytes.redOp.type [a], b, [mbar]",
                $classes
            ),
            "parallel-synchronization-and-communication-instructions-red-async",
            (8, 1, 90),
            store
        )
    };
}

pub(super) const DEFINITIONS: &[Definition] = &[
    op!(
        "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes{.L2::cache_hint} [dstMem], [srcMem], size, [mbar]{, cache-policy}",
        "data-movement-and-conversion-instructions-cp-async-bulk",
        (8, 6, 90),
        copy
    ),
    op!(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes{.L2::cache_hint} [dstMem], [srcMem], size, [mbar]{, cache-policy}",
        "data-movement-and-conversion-instructions-cp-async-bulk",
        (8, 0, 90),
        copy
    ),
    op!(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster{.L2::cache_hint} [dstMem], [srcMem], size, [mbar], ctaMask{, cache-policy}",
        "data-movement-and-conversion-instructions-cp-async-bulk",
        (8, 0, 90),
        copy
    ),
    op!(
        "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [dstMem], [srcMem], size, [mbar]",
        "data-movement-and-conversion-instructions-cp-async-bulk",
        (8, 0, 90),
        copy
    ),
    op!(
        "cp.async.bulk.global.shared::cta.bulk_group{.L2::cache_hint} [dstMem], [srcMem], size{, cache-policy}",
        "data-movement-and-conversion-instructions-cp-async-bulk",
        (8, 0, 90),
        copy
    ),
    op!(
        "cp.async.bulk.global.shared::cta.bulk_group{.L2::cache_hint}.cp_mask [dstMem], [srcMem], size{, cache-policy}, byteMask",
        "data-movement-and-conversion-instructions-cp-async-bulk",
        (8, 6, 100),
        copy
    ),
    reduce!(cluster "; .redOp = .and .or .xor; .type = .b32"),
    reduce!(cluster "; .redOp = .add; .type = .u32 .s32 .u64"),
    reduce!(cluster "; .redOp = .inc .dec; .type = .u32"),
    reduce!(cluster "; .redOp = .min .max; .type = .u32 .s32"),
    reduce!(global "; .redOp = .and .or .xor; .type = .b32 .b64"),
    reduce!(global "; .redOp = .add; .type = .u32 .s32 .u64 .f32 .f64"),
    reduce!(global "; .redOp = .inc .dec; .type = .u32"),
    reduce!(global "; .redOp = .min .max; .type = .u32 .s32 .u64 .s64 .f16 .bf16"),
    op!(
        "cp.reduce.async.bulk.global.shared::cta.bulk_group{.L2::cache_hint}.add.noftz.type [dstMem], [srcMem], size{, cache-policy}; .type = .f16 .bf16",
        "data-movement-and-conversion-instructions-cp-reduce-async-bulk",
        (8, 0, 90),
        copy
    ),
    op!(
        "cp.async.bulk.prefetch.L2.global{.L2::cache_hint} [srcMem], size{, cache-policy}",
        "data-movement-and-conversion-instructions-cp-async-bulk-prefetch",
        (8, 0, 90),
        prefetch
    ),
    op!(
        "cp.async.bulk.commit_group",
        "data-movement-and-conversion-instructions-cp-async-bulk-commit-group",
        (8, 0, 90),
        commit
    ),
    op!(
        "cp.async.bulk.wait_group{.read} N",
        "data-movement-and-conversion-instructions-cp-async-bulk-wait-group",
        (8, 0, 90),
        wait
    ),
    op!(
        "st.async{.weak}{.shared::cluster}{.mbarrier::complete_tx::bytes}{.vec}.type [a], b, [mbar]; .vec = .v2 .v4; .type = .b32 .u32 .s32 .f32",
        "data-movement-and-conversion-instructions-st-async",
        (8, 1, 90),
        store
    ),
    op!(
        "st.async{.weak}{.shared::cluster}{.mbarrier::complete_tx::bytes}{.vec}.type [a], b, [mbar]; .vec = .v2; .type = .b64 .u64 .s64 .f64",
        "data-movement-and-conversion-instructions-st-async",
        (8, 1, 90),
        store
    ),
    op!(
        "st.async{.weak}{.shared::cluster}.mbarrier::complete_tx::bytes.type [a], b, [mbar]; .type = .b128",
        "data-movement-and-conversion-instructions-st-async",
        (9, 2, 90),
        store
    ),
    reduce!(async "; .redOp = .inc .dec; .type = .u32"),
    reduce!(async "; .redOp = .min .max; .type = .u32 .s32"),
    reduce!(async "; .redOp = .and .or .xor; .type = .b32"),
    reduce!(async "; .redOp = .add; .type = .u32 .s32 .u64"),
];

/// The reduction that a form names, in shared or global memory.
fn reduction(spec: &Spec<'_>, shared: bool) -> Result<Option<Operation>, Refusal> {
    let Some(name) = spec.get("redOp").or(spec.get("add")) else { return Ok(None) };
    let ty = spec.ty("type")?;
    operation_of(name, ty, shared).map(Some).ok_or_else(|| spec.gap("this operator"))
}

/// The shared address of a lane's operand, which may be generic, as an address in the cluster.
fn shared(w: &mut Warp<'_, '_>, lane: usize, address: u64, generic: bool) -> Result<u64, Flow> {
    let (space, address) = if generic { Space::resolve(address) } else { (Space::Shared, address) };
    if space == Space::Shared {
        return Ok(w.in_cluster(address));
    }
    let sentence = format!("{} address {address:#x}; expected an address in shared memory", space.name());
    Err(w.halt_lane(Blame::Kernel, StopKind::Bounds, lane as u32, sentence))
}

/// The bulk group of a lane, for copies that no mbarrier tracks.
pub(super) fn describe(w: &Warp<'_, '_>, lane: usize, bytes: u32) -> BulkCopy {
    BulkCopy {
        rank: w.cta.rank,
        warp: w.state.id,
        lane: lane as u32,
        pc: w.pc,
        from: (Space::Global, 0),
        to: (Space::Global, 0),
        bytes,
        barrier: None,
        group: w.state.bulk_committed[lane],
        reduces: false,
        multicast: false,
        tensor: false,
        extent: bytes,
        mask: u16::MAX,
    }
}

fn copy(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let (tracked, store) = (spec.has("mbarrier::complete_tx::bytes"), spec.has("bulk_group"));
    let remote = spec.has("shared::cluster");
    let from_shared = spec.has("shared::cta") && !(tracked && spec.has("global"));
    let reduction = reduction(spec, !store)?;
    let multicast = spec.has("multicast::cluster");
    let mut slots = vec![Slot::Address, Slot::Address, Slot::Src(Type::U32)];
    if tracked {
        slots.push(Slot::Address);
    }
    if multicast {
        slots.push(Slot::Src(Type::U16));
    }
    if spec.has("L2::cache_hint") {
        // A cache policy does not affect values.
        slots.push(Slot::Src(Type::B64));
    }
    let (masked, mask_at) = (spec.has("cp_mask"), usize::from(spec.has("L2::cache_hint")) + 1);
    if masked {
        slots.push(Slot::Src(Type::U16));
    }
    let align = 16;
    let communication =
        if store && reduction.is_some() { Communication::Reductions } else { Communication::None };
    let bound = Bound::fallible(slots, move |w, args| {
        let (to, from) = (w.addresses(args.at[0]), w.addresses(args.at[1]));
        let sizes = w.state.regs.w32[at(args.o[0])];
        let barriers = if tracked { w.addresses(args.at[2]) } else { Row([0; 32]) };
        let byte_masks = if masked { w.state.regs.w32[at(args.o[mask_at])] } else { Row([u32::MAX; 32]) };
        let masks = if multicast { w.state.regs.w32[at(args.o[1])] } else { Row([0; 32]) };
        let mut moved = 0;
        for lane in lanes_of(w.exec) {
            let bytes = sizes.0[lane];
            if !bytes.is_multiple_of(align) {
                let sentence = format!("a bulk copy of {bytes} bytes; the size must be a multiple of 16");
                return Err(w.halt_lane(Blame::Kernel, StopKind::Alignment, lane as u32, sentence));
            }
            let mut copy = describe(w, lane, bytes);
            copy.reduces = reduction.is_some();
            copy.multicast = multicast;
            copy.mask = byte_masks.0[lane] as u16;
            // Its bytes in global memory are reported piece by piece.
            copy.tensor = copy.mask != u16::MAX;
            copy.from = if from_shared {
                (Space::Shared, w.in_cluster(from.0[lane]))
            } else {
                (Space::Global, from.0[lane])
            };
            copy.to =
                if store { (Space::Global, to.0[lane]) } else { (Space::Shared, w.in_cluster(to.0[lane])) };
            copy.barrier = tracked.then(|| w.in_cluster(barriers.0[lane]));
            let source = w.probe_bulk(copy.from.0, copy.from.1, bytes, align);
            source.map_err(|fault| w.fault(lane, fault, AccessKind::Read, bytes))?;
            let ranks = if multicast { masks.0[lane] & 0xffff } else { 0 };
            if multicast && ranks >> w.grid.cluster_size() != 0 {
                let sentence =
                    format!("a multicast to blocks {ranks:#06x} of a cluster of {}", w.grid.cluster_size());
                return Err(w.halt_lane(Blame::Kernel, StopKind::Bounds, lane as u32, sentence));
            }
            if let (true, false, Some(barrier)) = (remote, multicast, copy.barrier)
                && w.locate_shared(barrier).0 != w.locate_shared(copy.to.1).0
            {
                let sentence = "a bulk copy whose mbarrier is not in the block of its destination".to_owned();
                return Err(w.halt_lane(Blame::Kernel, StopKind::Mbarrier, lane as u32, sentence));
            }
            // A multicast writes to the same offset, and signals the mbarrier at the same offset, of each block.
            let targets: Vec<Option<u32>> =
                if multicast { lanes_of(ranks).map(|rank| Some(rank as u32)).collect() } else { vec![None] };
            for target in targets {
                let mut copy = copy;
                if let Some(rank) = target {
                    copy.to.1 = cluster_address(rank, copy.to.1);
                    copy.barrier = copy.barrier.map(|barrier| cluster_address(rank, barrier));
                }
                let place = w.probe_bulk(copy.to.0, copy.to.1, bytes, align);
                place.map_err(|fault| w.fault(lane, fault, AccessKind::Write, bytes))?;
                w.start_bulk(Bulk { copy, plan: None, data: None, reduction, moved: false })?;
                moved += at(bytes);
            }
        }
        Ok(w.worked(moved))
    });
    Ok(bound.communicating(communication))
}

/// `st.async` and `red.async`: the value is in registers.
fn store(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let ty = spec.ty("type")?;
    let generic = !spec.has("shared::cluster");
    let reduction = reduction(spec, true)?;
    let count = match spec.get("vec") {
        None => 1,
        Some("v2") => 2,
        Some(_) => 4,
    };
    let given = match spec.operands.get(1) {
        Some(Shape::Vector(items)) => items.len(),
        _ => 1,
    };
    if given != count {
        return Err(Refusal::Malformed(format!("{given} registers for a vector of {count}")));
    }
    let slots = [Slot::Address, Slot::SrcVec(vec![ty; count]), Slot::Address];
    Ok(Bound::fallible(slots, move |w, args| {
        let (to, barriers) = (w.addresses(args.at[0]), w.addresses(args.at[1]));
        let values: Vec<Row<u128>> = (0..count).map(|i| w.get_row(ty.width(), args.all[i])).collect();
        let bytes = ty.bytes() * count as u32;
        for lane in lanes_of(w.exec) {
            let mut copy = describe(w, lane, bytes);
            copy.reduces = reduction.is_some();
            copy.to = (Space::Shared, shared(w, lane, to.0[lane], generic)?);
            copy.from = copy.to;
            let barrier = shared(w, lane, barriers.0[lane], generic)?;
            copy.barrier = Some(barrier);
            if w.locate_shared(barrier).0 != w.locate_shared(copy.to.1).0 {
                let sentence =
                    "an asynchronous store whose mbarrier is not in the block of its destination".to_owned();
                return Err(w.halt_lane(Blame::Kernel, StopKind::Mbarrier, lane as u32, sentence));
            }
            let place = w.probe_bulk(Space::Shared, copy.to.1, bytes, bytes);
            place.map_err(|fault| w.fault(lane, fault, AccessKind::Write, bytes))?;
            let data =
                values.iter().flat_map(|row| row.0[lane].to_le_bytes().into_iter().take(at(ty.bytes())));
            w.start_bulk(Bulk { copy, plan: None, data: Some(data.collect()), reduction, moved: false })?;
        }
        Ok(Flow::Next)
    }))
}

/// A prefetch does not affect values.
fn prefetch(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let mut slots = vec![Slot::Address, Slot::Src(Type::U32)];
    if spec.has("L2::cache_hint") {
        slots.push(Slot::Src(Type::B64));
    }
    Ok(Bound::fallible(slots, move |w: &mut Warp<'_, '_>, args: &Args| {
        let (from, sizes) = (w.addresses(args.at[0]), w.state.regs.w32[at(args.o[0])]);
        for lane in lanes_of(w.exec) {
            let bytes = sizes.0[lane];
            if !bytes.is_multiple_of(16) {
                let sentence = format!("a bulk prefetch of {bytes} bytes; the size must be a multiple of 16");
                return Err(w.halt_lane(Blame::Kernel, StopKind::Alignment, lane as u32, sentence));
            }
            let source = w.probe_bulk(Space::Global, from.0[lane], bytes, 16);
            source.map_err(|fault| w.fault(lane, fault, AccessKind::Read, bytes))?;
        }
        Ok(Flow::Next)
    }))
}

fn commit(_: &Spec<'_>) -> Result<Bound, Refusal> {
    Ok(Bound::new([], |w, _| {
        for lane in lanes_of(w.exec) {
            w.state.bulk_committed[lane] = w.state.bulk_committed[lane].saturating_add(1);
        }
        Flow::Next
    }))
}

fn wait(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let Some(left) = spec.integer(0).and_then(|n| u32::try_from(n).ok()) else {
        return Err(Refusal::Malformed(
            "the operand of cp.async.bulk.wait_group must be a non-negative constant".into(),
        ));
    };
    let only_read = spec.has("read");
    Ok(Bound::fallible([Slot::Static], move |w, _| {
        let (rank, warp, exec) = (w.cta.rank, w.state.id, w.exec);
        let committed = w.state.bulk_committed;
        let which = |copy: &BulkCopy| {
            let own = copy.rank == rank && copy.warp == warp && exec >> copy.lane & 1 != 0;
            let over = copy.group < committed[copy.lane as usize & 31].saturating_sub(left);
            own && over && copy.barrier.is_none()
        };
        if only_read {
            w.read_sources(which)?;
        } else {
            w.complete_bulk(which)?;
        }
        Ok(Flow::Next)
    }))
}
