//! Copies that a tensor map describes (the tensor memory accelerator), and instructions that change a map.
//! When copies act: `machine/bulk.rs`; what they move: `tensor_map/plan.rs`.

#![expect(
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    reason = "lane numbers are below 32, coordinates are the bits of signed numbers"
)]

use super::atomic::operation_of;
use super::bulk::describe;
use super::{Args, Bound, Definition, Refusal, Shape, Slot, Spec, Unit};
use crate::bind_plain;
use crate::machine::{AccessKind, Bulk, Flow, Row, Type, Warp, at, cluster_address, lanes_of};
use crate::memory::{Fault, FaultKind, Operation, Space};
use crate::observe::{MapAction, MapUse};
use crate::program::Communication;
use crate::stop::{Blame, StopKind};
use crate::tensor_map::{BYTES, DataType, Fill, Interleave, Plan, PlanError, Swizzle, TensorMap, Visit};
use std::sync::Arc;

macro_rules! op {
    ($since:expr, $bind:ident, $section:literal, $($form:literal)*) => {
        Definition {
            form: concat!($($form),*),
            manual: concat!("data-movement-and-conversion-instructions-", $section),
            unit: Unit::Lsu,
            since: $since,
            bind: bind_plain!($bind),
        }
    };
}

/// A field of a map that `tensormap.replace` sets.
macro_rules! replace {
    ($operands:literal $fields:literal $ty:literal) => {
        op!(
            (8, 3, 90),
            replace,
            "tensormap-replace",
            "tensormap.replace.tile.field{.space}.b1024.type [addr]" $operands "; .field = " $fields
            "; .space = .global .shared::cta; .type = " $ty
        )
    };
}

pub(super) const DEFINITIONS: &[Definition] = &[
    op!((8, 6, 90), copy, "cp-async-bulk-tensor",
        "cp.async.bulk.tensor.dim.shared::cta.global{.tile}.mbarrier::complete_tx::bytes{.L2::cache_hint} [dstMem], "
        "[tensorMap, tensorCoords], [mbar]{, cache-policy}; .dim = .1d .2d .3d .4d .5d"),
    op!((8, 6, 90), copy, "cp-async-bulk-tensor",
        "cp.async.bulk.tensor.dim.shared::cta.global.im2col.mbarrier::complete_tx::bytes{.L2::cache_hint} [dstMem], "
        "[tensorMap, tensorCoords], [mbar], im2colOffsets{, cache-policy}; .dim = .3d .4d .5d"),
    op!((8, 0, 90), copy, "cp-async-bulk-tensor",
        "cp.async.bulk.tensor.dim.shared::cluster.global{.tile}.mbarrier::complete_tx::bytes{.L2::cache_hint} [dstMem], "
        "[tensorMap, tensorCoords], [mbar]{, cache-policy}; .dim = .1d .2d .3d .4d .5d"),
    op!((8, 0, 90), copy, "cp-async-bulk-tensor",
        "cp.async.bulk.tensor.dim.shared::cluster.global{.tile}.mbarrier::complete_tx::bytes.multicast::cluster{.L2::cache_hint} "
        "[dstMem], [tensorMap, tensorCoords], [mbar], ctaMask{, cache-policy}; .dim = .1d .2d .3d .4d .5d"),
    op!((8, 0, 90), copy, "cp-async-bulk-tensor",
        "cp.async.bulk.tensor.dim.shared::cluster.global.im2col.mbarrier::complete_tx::bytes{.L2::cache_hint} [dstMem], "
        "[tensorMap, tensorCoords], [mbar], im2colOffsets{, cache-policy}; .dim = .3d .4d .5d"),
    op!((8, 0, 90), copy, "cp-async-bulk-tensor",
        "cp.async.bulk.tensor.dim.shared::cluster.global.im2col.mbarrier::complete_tx::bytes.multicast::cluster{.L2::cache_hint} "
        "[dstMem], [tensorMap, tensorCoords], [mbar], im2colOffsets, ctaMask{, cache-policy}; .dim = .3d .4d .5d"),
    op!((8, 6, 100), copy, "cp-async-bulk-tensor",
        "cp.async.bulk.tensor.dim.shared::cta.global{.tile}.mbarrier::complete_tx::bytes.cta_group{.L2::cache_hint} [dstMem], "
        "[tensorMap, tensorCoords], [mbar]{, cache-policy}; .dim = .1d .2d .3d .4d .5d; .cta_group = .cta_group::1 .cta_group::2"),
    op!((8, 6, 100), copy, "cp-async-bulk-tensor",
        "cp.async.bulk.tensor.dim.shared::cta.global.im2col.mbarrier::complete_tx::bytes.cta_group{.L2::cache_hint} [dstMem], "
        "[tensorMap, tensorCoords], [mbar], im2colOffsets{, cache-policy}; .dim = .3d .4d .5d; .cta_group = .cta_group::1 .cta_group::2"),
    op!((8, 6, 100), copy, "cp-async-bulk-tensor",
        "cp.async.bulk.tensor.dim.shared::cluster.global{.tile}.mbarrier::complete_tx::bytes.cta_group{.L2::cache_hint} [dstMem], "
        "[tensorMap, tensorCoords], [mbar]{, cache-policy}; .dim = .1d .2d .3d .4d .5d; .cta_group = .cta_group::1 .cta_group::2"),
    op!((8, 6, 100), copy, "cp-async-bulk-tensor",
        "cp.async.bulk.tensor.dim.shared::cluster.global{.tile}.mbarrier::complete_tx::bytes.multicast::cluster.cta_group{.L2::cache_hint} "
        "[dstMem], [tensorMap, tensorCoords], [mbar], ctaMask{, cache-policy}; .dim = .1d .2d .3d .4d .5d; .cta_group = .cta_group::1 .cta_group::2"),
    op!((8, 6, 100), copy, "cp-async-bulk-tensor",
        "cp.async.bulk.tensor.dim.shared::cluster.global.im2col.mbarrier::complete_tx::bytes.cta_group{.L2::cache_hint} [dstMem], "
        "[tensorMap, tensorCoords], [mbar], im2colOffsets{, cache-policy}; .dim = .3d .4d .5d; .cta_group = .cta_group::1 .cta_group::2"),
    op!((8, 6, 100), copy, "cp-async-bulk-tensor",
        "cp.async.bulk.tensor.dim.shared::cluster.global.im2col.mbarrier::complete_tx::bytes.multicast::cluster.cta_group{.L2::cache_hint} "
        "[dstMem], [tensorMap, tensorCoords], [mbar], im2colOffsets, ctaMask{, cache-policy}; .dim = .3d .4d .5d; .cta_group = .cta_group::1 .cta_group::2"),
    op!((8, 6, 100), copy, "cp-async-bulk-tensor",
        "cp.async.bulk.tensor.dim.shared::cta.global.tile::gather4.mbarrier::complete_tx::bytes{.cta_group}{.L2::cache_hint} [dstMem], "
        "[tensorMap, tensorCoords], [mbar]{, cache-policy}; .dim = .2d; .cta_group = .cta_group::1 .cta_group::2"),
    op!((8, 6, 100), copy, "cp-async-bulk-tensor",
        "cp.async.bulk.tensor.dim.shared::cluster.global.tile::gather4.mbarrier::complete_tx::bytes{.cta_group}{.L2::cache_hint} "
        "[dstMem], [tensorMap, tensorCoords], [mbar]{, cache-policy}; .dim = .2d; .cta_group = .cta_group::1 .cta_group::2"),
    op!((8, 6, 100), copy, "cp-async-bulk-tensor",
        "cp.async.bulk.tensor.dim.shared::cluster.global.tile::gather4.mbarrier::complete_tx::bytes.multicast::cluster{.cta_group}"
        "{.L2::cache_hint} [dstMem], [tensorMap, tensorCoords], [mbar], ctaMask{, cache-policy}; .dim = .2d"
        "; .cta_group = .cta_group::1 .cta_group::2"),
    op!((8, 6, 100), copy, "cp-async-bulk-tensor",
        "cp.async.bulk.tensor.dim.shared::cta.global.load_mode.mbarrier::complete_tx::bytes{.cta_group}{.L2::cache_hint} [dstMem], "
        "[tensorMap, tensorCoords], [mbar], im2colInfo{, cache-policy}; .dim = .3d .4d .5d; .load_mode = .im2col::w .im2col::w::128"
        "; .cta_group = .cta_group::1 .cta_group::2"),
    op!((8, 6, 100), copy, "cp-async-bulk-tensor",
        "cp.async.bulk.tensor.dim.shared::cluster.global.load_mode.mbarrier::complete_tx::bytes{.cta_group}{.L2::cache_hint} [dstMem], "
        "[tensorMap, tensorCoords], [mbar], im2colInfo{, cache-policy}; .dim = .3d .4d .5d; .load_mode = .im2col::w .im2col::w::128"
        "; .cta_group = .cta_group::1 .cta_group::2"),
    op!((8, 6, 100), copy, "cp-async-bulk-tensor",
        "cp.async.bulk.tensor.dim.shared::cluster.global.load_mode.mbarrier::complete_tx::bytes.multicast::cluster{.cta_group}"
        "{.L2::cache_hint} [dstMem], [tensorMap, tensorCoords], [mbar], im2colInfo, ctaMask{, cache-policy}; .dim = .3d .4d .5d"
        "; .load_mode = .im2col::w .im2col::w::128; .cta_group = .cta_group::1 .cta_group::2"),
    op!((8, 6, 100), store, "cp-async-bulk-tensor",
        "cp.async.bulk.tensor.dim.global.shared::cta.tile::scatter4.bulk_group{.L2::cache_hint} [tensorMap, tensorCoords], "
        "[srcMem]{, cache-policy}; .dim = .2d"),
    op!((8, 6, 100), prefetch, "cp-async-bulk-prefetch-tensor",
        "cp.async.bulk.prefetch.tensor.dim.L2.global.tile::gather4{.L2::cache_hint} [tensorMap, tensorCoords]{, cache-policy}"
        "; .dim = .2d"),
    op!((8, 6, 100), prefetch, "cp-async-bulk-prefetch-tensor",
        "cp.async.bulk.prefetch.tensor.dim.L2.global.load_mode{.L2::cache_hint} [tensorMap, tensorCoords], im2colInfo{, cache-policy}"
        "; .dim = .3d .4d .5d; .load_mode = .im2col::w .im2col::w::128"),
    op!((8, 0, 90), store, "cp-async-bulk-tensor",
        "cp.async.bulk.tensor.dim.global.shared::cta{.tile}.bulk_group{.L2::cache_hint} [tensorMap, tensorCoords], "
        "[srcMem]{, cache-policy}; .dim = .1d .2d .3d .4d .5d"),
    op!((8, 0, 90), store, "cp-async-bulk-tensor",
        "cp.async.bulk.tensor.dim.global.shared::cta.im2col_no_offs.bulk_group{.L2::cache_hint} [tensorMap, tensorCoords], "
        "[srcMem]{, cache-policy}; .dim = .3d .4d .5d"),
    op!((8, 0, 90), store, "cp-reduce-async-bulk-tensor",
        "cp.reduce.async.bulk.tensor.dim.global.shared::cta.redOp{.tile}.bulk_group{.L2::cache_hint} [tensorMap, tensorCoords], "
        "[srcMem]{, cache-policy}; .dim = .1d .2d .3d .4d .5d; .redOp = .add .min .max .inc .dec .and .or .xor"),
    op!((8, 0, 90), store, "cp-reduce-async-bulk-tensor",
        "cp.reduce.async.bulk.tensor.dim.global.shared::cta.redOp.im2col_no_offs.bulk_group{.L2::cache_hint} "
        "[tensorMap, tensorCoords], [srcMem]{, cache-policy}; .dim = .3d .4d .5d; .redOp = .add .min .max .inc .dec .and .or .xor"),
    op!((8, 0, 90), prefetch, "cp-async-bulk-prefetch-tensor",
        "cp.async.bulk.prefetch.tensor.dim.L2.global{.tile}{.L2::cache_hint} [tensorMap, tensorCoords]{, cache-policy}"
        "; .dim = .1d .2d .3d .4d .5d"),
    op!((8, 0, 90), prefetch, "cp-async-bulk-prefetch-tensor",
        "cp.async.bulk.prefetch.tensor.dim.L2.global.im2col{.L2::cache_hint} [tensorMap, tensorCoords], im2colOffsets{, cache-policy}"
        "; .dim = .3d .4d .5d"),
    replace!(", new_val" ".global_address" ".b64"),
    replace!(", new_val" ".rank .elemtype .interleave_layout .swizzle_mode .fill_mode" ".b32"),
    replace!(", ord, new_val" ".box_dim .global_dim .element_stride" ".b32"),
    replace!(", ord, new_val" ".global_stride" ".b64"),
    Definition {
        form: "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.scope.sync.aligned [dst], [src], 128; .scope = .cta .cluster .gpu .sys",
        manual: "parallel-synchronization-and-communication-instructions-tensormap-cp-fenceproxy",
        unit: Unit::Lsu,
        since: (8, 3, 90),
        bind: bind_plain!(publish),
    },
    Definition {
        form: "fence.proxy.tensormap::generic.release.scope; .scope = .cta .cluster .gpu .sys",
        manual: "parallel-synchronization-and-communication-instructions-membar",
        unit: Unit::Lsu,
        since: (8, 3, 90),
        bind: bind_plain!(fence),
    },
    Definition {
        form: "fence.proxy.tensormap::generic.acquire.scope [addr], 128; .scope = .cta .cluster .gpu .sys",
        manual: "parallel-synchronization-and-communication-instructions-membar",
        unit: Unit::Lsu,
        since: (8, 3, 90),
        bind: bind_plain!(fence),
    },
];

/// The number of coordinates that a form has.
fn dimensions(spec: &Spec<'_>) -> usize {
    spec.get("dim")
        .and_then(|dim| dim.chars().next())
        .and_then(|digit| digit.to_digit(10))
        .map_or(1, |n| n as usize)
}

/// How an instruction visits the tensor.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LoadMode {
    Tile,
    /// Four rows.
    Rows,
    Im2col,
    /// Without offsets.
    Plain,
    /// `.im2col::w`, or `.im2col::w::128`.
    Wide(bool),
}

impl LoadMode {
    fn of(spec: &Spec<'_>) -> LoadMode {
        if spec.has("tile::gather4") || spec.has("tile::scatter4") {
            LoadMode::Rows
        } else if spec.has("im2col") {
            LoadMode::Im2col
        } else if spec.has("im2col_no_offs") {
            LoadMode::Plain
        } else {
            match spec.get("load_mode") {
                Some(name) => LoadMode::Wide(name == "im2col::w::128"),
                None => LoadMode::Tile,
            }
        }
    }

    /// How many coordinates there are.
    fn coordinates(self, dimensions: usize) -> usize {
        if self == LoadMode::Rows { 5 } else { dimensions }
    }

    /// How many values follow the mbarrier: an offset for each dimension of a pixel, or the halo and the offset.
    fn offsets(self, dimensions: usize) -> usize {
        match self {
            LoadMode::Im2col => dimensions.saturating_sub(2),
            LoadMode::Wide(_) => 2,
            LoadMode::Tile | LoadMode::Rows | LoadMode::Plain => 0,
        }
    }

    fn visit(self, offsets: &[u16]) -> Visit<'_> {
        match self {
            LoadMode::Tile => Visit::Tile,
            LoadMode::Rows => Visit::Rows,
            LoadMode::Im2col | LoadMode::Plain => Visit::Im2col(offsets),
            LoadMode::Wide(w128) => {
                let value = |i: usize| offsets.get(i).copied().unwrap_or(0);
                Visit::Wide { w128, halo: value(0), offset: value(1) }
            }
        }
    }
}

/// The operand with the map and the coordinates.
fn tensor_slot(spec: &Spec<'_>) -> Slot {
    Slot::Tensor(vec![Type::B32; LoadMode::of(spec).coordinates(dimensions(spec))])
}

/// The operand with what an im2col mode needs besides the coordinates, if it has one.
fn offsets_slot(spec: &Spec<'_>) -> Option<Slot> {
    let count = LoadMode::of(spec).offsets(dimensions(spec));
    (count > 0).then(|| Slot::SrcVec(vec![Type::U16; count]))
}

/// Reads the map of a lane, whose address is generic.
fn read_map(w: &mut Warp<'_, '_>, lane: usize, address: u64, space: Space) -> Result<TensorMap, Flow> {
    let (space, place) = if space == Space::Generic { Space::resolve(address) } else { (space, address) };
    if !place.is_multiple_of(64) {
        let sentence =
            format!("{} address {place:#x} of a tensor map, which is not a multiple of 64", space.name());
        return Err(w.halt_lane(Blame::Kernel, StopKind::TensorMap, lane as u32, sentence));
    }
    let bytes = read_bytes(w, lane, space, place)?;
    TensorMap::decode(&bytes).map_err(|error| {
        let sentence = format!("{} address {place:#x}: {error}", space.name());
        w.halt_lane(Blame::Kernel, StopKind::TensorMap, lane as u32, sentence)
    })
}

/// Reads the 128 bytes of a map.
fn read_bytes(w: &mut Warp<'_, '_>, lane: usize, space: Space, place: u64) -> Result<[u8; BYTES], Flow> {
    let mut bytes = [0; BYTES];
    for (offset, out) in (0u64..).step_by(16).zip(bytes.as_chunks_mut::<16>().0) {
        let word = w.read_checked(space, lane, place.wrapping_add(offset), 16);
        *out = word.map_err(|fault| w.fault(lane, fault, AccessKind::Read, 16))?.to_le_bytes();
    }
    Ok(bytes)
}

/// The map of a copy, for one that reads or writes the tensor: it must not be in the memory of a block or a thread.
fn map_of(w: &mut Warp<'_, '_>, lane: usize, address: u64) -> Result<TensorMap, Flow> {
    let (space, place) = Space::resolve(address);
    if matches!(space, Space::Shared | Space::Local) {
        let sentence = format!(
            "the tensor map is in {} memory, at {place:#x}; a copy needs it in global, constant or parameter memory",
            space.name()
        );
        return Err(w.halt_lane(Blame::Kernel, StopKind::TensorMap, lane as u32, sentence));
    }
    let map = read_map(w, lane, address, Space::Generic)?;
    observe(w, lane, MapAction::Used, (space, place));
    Ok(map)
}

/// The rows of a copy, all of which exist.
fn plan_of(
    w: &mut Warp<'_, '_>,
    lane: usize,
    map: &TensorMap,
    (coordinates, visit): (&[i32], Visit<'_>),
    (store, room): (bool, u32),
) -> Result<Plan, Flow> {
    let plan = map.plan(coordinates, visit, store, room).map_err(|error| {
        let (blame, kind) = match &error {
            PlanError::Wrong(_) => (Blame::Kernel, StopKind::TensorMap),
            PlanError::Unsupported(_) => (Blame::Gap, StopKind::Unsupported),
        };
        w.halt_lane(blame, kind, lane as u32, error.to_string())
    })?;
    let kind = if store { AccessKind::Write } else { AccessKind::Read };
    for row in plan.rows.iter().filter(|row| row.bytes > 0) {
        let found = w.probe_bulk(Space::Global, row.global, row.bytes, 1);
        found.map_err(|fault| w.tensor_fault(lane, fault, kind, row.bytes, map))?;
    }
    Ok(plan)
}

/// Where the rows of an instruction's registers are.
struct Operands {
    coordinates: Vec<Row<u32>>,
    offsets: Vec<Row<u32>>,
    /// How many rows that is.
    count: usize,
}

impl Operands {
    /// Reads them: coordinates, then offsets.
    fn read(w: &Warp<'_, '_>, args: &Args, dimensions: usize, mode: LoadMode) -> Operands {
        let row = |i: usize| args.all.get(i).map_or(Row([0; 32]), |row| w.state.regs.w32[at(*row)]);
        let coordinates = mode.coordinates(dimensions);
        let count = coordinates + mode.offsets(dimensions);
        Operands {
            coordinates: (0..coordinates).map(row).collect(),
            offsets: (coordinates..count).map(row).collect(),
            count,
        }
    }

    fn lane(&self, lane: usize) -> (Vec<i32>, Vec<u16>) {
        let coordinates = self.coordinates.iter().map(|row| row.0[lane] as i32).collect();
        (coordinates, self.offsets.iter().map(|row| row.0[lane] as u16).collect())
    }
}

/// Bytes of shared memory of a block.
fn room(w: &Warp<'_, '_>) -> u32 {
    w.cta.shared.size()
}

/// From global to shared memory.
fn copy(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let (count, mode, multicast) = (dimensions(spec), LoadMode::of(spec), spec.has("multicast::cluster"));
    // With a pair of blocks, the mbarrier may be in either.
    let pair = spec.get("cta_group") == Some("cta_group::2");
    let mut slots = vec![Slot::Address, tensor_slot(spec), Slot::Address];
    slots.extend(offsets_slot(spec));
    if multicast {
        slots.push(Slot::Src(Type::U16));
    }
    if spec.has("L2::cache_hint") {
        slots.push(Slot::Src(Type::B64));
    }
    Ok(Bound::fallible(slots, move |w, args| {
        let [to, maps, barriers] = [0, 1, 2].map(|i| w.addresses(args.at[i]));
        let operands = Operands::read(w, args, count, mode);
        let masks = match args.all.get(operands.count).filter(|_| multicast) {
            Some(row) => w.state.regs.w32[at(*row)],
            None => Row([0; 32]),
        };
        let mut moved = 0;
        for lane in lanes_of(w.exec) {
            let map = map_of(w, lane, maps.0[lane])?;
            let (coordinates, offsets) = operands.lane(lane);
            let room = room(w);
            let plan = plan_of(w, lane, &map, (&coordinates, mode.visit(&offsets)), (false, room))?;
            let mut copy = describe(w, lane, plan.bytes());
            (copy.tensor, copy.extent, copy.multicast) = (true, plan.extent(), multicast);
            copy.from = (Space::Global, map.address);
            copy.to = (Space::Shared, w.in_cluster(to.0[lane]));
            let barrier = w.in_cluster(barriers.0[lane]);
            copy.barrier = Some(barrier);
            let size = w.grid.cluster_size();
            let ranks = masks.0[lane] & 0xffff;
            if multicast && ranks >> size != 0 {
                let sentence = format!("a multicast to blocks {ranks:#06x} of a cluster of {size}");
                return Err(w.halt_lane(Blame::Kernel, StopKind::Bounds, lane as u32, sentence));
            }
            let (signaled, written) = (w.locate_shared(barrier).0, w.locate_shared(copy.to.1).0);
            let same = if pair { signaled | 1 == written | 1 } else { signaled == written };
            if !multicast && !same {
                let sentence = "a bulk copy whose mbarrier is not in the block of its destination".to_owned();
                return Err(w.halt_lane(Blame::Kernel, StopKind::Mbarrier, lane as u32, sentence));
            }
            let targets: Vec<Option<u32>> =
                if multicast { lanes_of(ranks).map(|rank| Some(rank as u32)).collect() } else { vec![None] };
            let plan = Arc::new(plan);
            for target in targets {
                let mut copy = copy;
                if let Some(rank) = target {
                    copy.to.1 = cluster_address(rank, copy.to.1);
                    let owner = if pair { rank & !1 | signaled & 1 } else { rank };
                    copy.barrier = Some(cluster_address(owner, barrier));
                }
                let place = w.probe_bulk(Space::Shared, copy.to.1, copy.extent, map.swizzle.alignment());
                place.map_err(|fault| w.fault(lane, fault, AccessKind::Write, copy.extent))?;
                moved += at(copy.bytes);
                let plan = Some(Arc::clone(&plan));
                w.start_bulk(Bulk { copy, plan, data: None, reduction: None, moved: false })?;
            }
        }
        Ok(w.worked(moved))
    }))
}

/// The type and operator of a reduction of elements of a tensor, if the manual defines it.
fn reduction(name: &str, data_type: DataType) -> Option<Operation> {
    use DataType::{Bfloat16, Float16, Float32, Int32, Int64, Uint32, Uint64};
    let ty = match (name, data_type) {
        ("add" | "min" | "max" | "inc" | "dec" | "and" | "or" | "xor", Uint32) => Type::U32,
        ("add" | "min" | "max" | "and" | "or" | "xor", Int32) => Type::S32,
        ("add" | "min" | "max" | "and" | "or" | "xor", Uint64) => Type::U64,
        ("min" | "max" | "and" | "or" | "xor", Int64) => Type::S64,
        ("add", Float32) => Type::F32,
        ("add" | "min" | "max", Float16) => Type::F16,
        ("add" | "min" | "max", Bfloat16) => Type::BF16,
        _ => return None,
    };
    operation_of(name, ty, false)
}

/// From shared to global memory.
fn store(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let (count, mode, operator) = (dimensions(spec), LoadMode::of(spec), spec.get("redOp"));
    let mut slots = vec![tensor_slot(spec), Slot::Address];
    if spec.has("L2::cache_hint") {
        slots.push(Slot::Src(Type::B64));
    }
    let communication = if operator.is_some() { Communication::Reductions } else { Communication::None };
    let bound = Bound::fallible(slots, move |w, args| {
        let [maps, from] = [0, 1].map(|i| w.addresses(args.at[i]));
        let operands = Operands::read(w, args, count, mode);
        let mut moved = 0;
        for lane in lanes_of(w.exec) {
            let map = map_of(w, lane, maps.0[lane])?;
            let (coordinates, _) = operands.lane(lane);
            let room = room(w);
            let plan = plan_of(w, lane, &map, (&coordinates, mode.visit(&[])), (true, room))?;
            let reduction = match operator.map(|name| (name, reduction(name, map.data_type))) {
                Some((name, None)) => {
                    let sentence =
                        format!("a reduction .{name} of a tensor of {} is not defined", map.data_type.name());
                    return Err(w.halt_lane(Blame::Kernel, StopKind::TensorMap, lane as u32, sentence));
                }
                Some((_, found)) => found,
                None => None,
            };
            let mut copy = describe(w, lane, plan.bytes());
            (copy.tensor, copy.extent, copy.reduces) = (true, plan.extent(), reduction.is_some());
            copy.from = (Space::Shared, w.in_cluster(from.0[lane]));
            let first = plan.rows.iter().find(|row| row.bytes > 0).map_or(map.address, |row| row.global);
            copy.to = (Space::Global, first);
            let place = w.probe_bulk(Space::Shared, copy.from.1, copy.extent, map.swizzle.alignment());
            place.map_err(|fault| w.fault(lane, fault, AccessKind::Read, copy.extent))?;
            moved += at(copy.bytes);
            w.start_bulk(Bulk { copy, plan: Some(Arc::new(plan)), data: None, reduction, moved: false })?;
        }
        Ok(w.worked(moved))
    });
    Ok(bound.communicating(communication))
}

/// A prefetch does not affect values, but its map must be valid.
fn prefetch(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let (count, mode) = (dimensions(spec), LoadMode::of(spec));
    let mut slots = vec![tensor_slot(spec)];
    slots.extend(offsets_slot(spec));
    if spec.has("L2::cache_hint") {
        slots.push(Slot::Src(Type::B64));
    }
    Ok(Bound::fallible(slots, move |w, args| {
        let maps = w.addresses(args.at[0]);
        let operands = Operands::read(w, args, count, mode);
        for lane in lanes_of(w.exec) {
            let map = map_of(w, lane, maps.0[lane])?;
            let (coordinates, offsets) = operands.lane(lane);
            plan_of(w, lane, &map, (&coordinates, mode.visit(&offsets)), (false, 1 << 24))?;
        }
        Ok(Flow::Next)
    }))
}

/// The place of a map that an instruction changes.
fn writable(w: &mut Warp<'_, '_>, lane: usize, address: u64, space: Space) -> Result<(Space, u64), Flow> {
    let (space, place) = if space == Space::Generic { Space::resolve(address) } else { (space, address) };
    if matches!(space, Space::Global | Space::Shared) {
        return Ok((space, place));
    }
    let fault = Fault { space, address: place, kind: FaultKind::ReadOnly };
    Err(w.fault(lane, fault, AccessKind::Write, BYTES as u32))
}

/// Writes the 128 bytes of a map, as the thread.
fn write_map(
    w: &mut Warp<'_, '_>,
    lane: usize,
    (space, place): (Space, u64),
    bytes: &[u8; BYTES],
) -> Result<(), Flow> {
    for (offset, piece) in (0u64..).step_by(16).zip(bytes.as_chunks::<16>().0) {
        let written = w.write_checked(space, lane, place + offset, 16, u128::from_le_bytes(*piece));
        written.map_err(|fault| w.fault(lane, fault, AccessKind::Write, 16))?;
        let mut addresses = Row([0; 32]);
        addresses.0[lane] = place + offset;
        w.announce_lanes(space, AccessKind::Write, &addresses, 16, 1 << lane);
    }
    observe(w, lane, MapAction::Changed, (space, place));
    Ok(())
}

/// What to set: the field of the form and its value.
fn set(map: &mut TensorMap, field: &str, ordinal: usize, value: u64) -> Option<()> {
    let small = u32::try_from(value).unwrap_or(u32::MAX);
    match field {
        "global_address" => map.address = value,
        // The operand is the rank minus one.
        "rank" => map.rank = small.saturating_add(1),
        "box_dim" => *map.sizes_mut()?.get_mut(ordinal)? = small,
        "global_dim" => *map.dims.get_mut(ordinal)? = value & 0xffff_ffff,
        "global_stride" => *map.strides.get_mut(ordinal)? = value,
        "element_stride" => *map.element_strides.get_mut(ordinal)? = small,
        "elemtype" => map.data_type = DataType::from_ptx_number(small)?,
        "interleave_layout" => map.interleave = Interleave::from_number(small)?,
        "swizzle_mode" => map.swizzle = Swizzle::from_number(small).filter(|_| small <= 3)?,
        "fill_mode" => map.fill = Fill::from_number(small)?,
        _ => return None,
    }
    Some(())
}

/// The map whose field is replaced. Kernels that make a map by themselves, such as those of Triton, start from zeros.
fn replaceable(w: &mut Warp<'_, '_>, lane: usize, place: (Space, u64)) -> Result<TensorMap, Flow> {
    if place.1.is_multiple_of(64) && read_bytes(w, lane, place.0, place.1)? == [0; BYTES] {
        return Ok(TensorMap::BLANK);
    }
    read_map(w, lane, place.1, place.0)
}

fn replace(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let Some(field) = spec.get("field") else { return Err(spec.gap("this field")) };
    let space = match spec.get("space") {
        Some("global") => Space::Global,
        Some(_) => Space::Shared,
        None => Space::Generic,
    };
    let ordered = spec.operands.len() == 3;
    let ordinal = match spec.operands.get(1) {
        Some(Shape::Integer(value)) if ordered => usize::try_from(*value).ok().filter(|value| *value < 5),
        _ => None,
    };
    let constant = matches!(field, "elemtype" | "interleave_layout" | "swizzle_mode" | "fill_mode");
    if ordered && ordinal.is_none() {
        return Err(Refusal::Malformed(
            "the ordinal of tensormap.replace must be a constant from 0 to 4".into(),
        ));
    }
    if constant && !matches!(spec.operands.get(1), Some(Shape::Integer(_))) {
        return Err(Refusal::Malformed("the new value of this field must be a constant".into()));
    }
    let wide = spec.ty("type")?.bytes() == 8;
    let mut slots = vec![Slot::Address];
    if ordered {
        slots.push(Slot::Static);
    }
    slots.push(Slot::Src(if wide { Type::B64 } else { Type::B32 }));
    Ok(Bound::fallible(slots, move |w, args| {
        let addresses = w.addresses(args.at[0]);
        let values = w.get_row(if wide { Type::B64 } else { Type::B32 }.width(), args.o[0]);
        for lane in lanes_of(w.exec) {
            let place = writable(w, lane, addresses.0[lane], space)?;
            let mut map = replaceable(w, lane, place)?;
            let value = values.0[lane] as u64;
            if set(&mut map, field, ordinal.unwrap_or(0), value).is_none() {
                let sentence = format!("{value} is not a value of the field .{field} of a tensor map");
                return Err(w.halt_lane(Blame::Kernel, StopKind::TensorMap, lane as u32, sentence));
            }
            write_map(w, lane, place, &map.pack())?;
        }
        Ok(Flow::Next)
    }))
}

/// `tensormap.cp_fenceproxy`: the warp copies a map from shared to global memory, and releases it to the tensormap proxy.
fn publish(_: &Spec<'_>) -> Result<Bound, Refusal> {
    Ok(Bound::fallible([Slot::Address, Slot::Address, Slot::Static], |w, args| {
        if !w.gather_warp() {
            return Ok(Flow::Wait);
        }
        let (to, from) = (w.addresses(args.at[0]), w.addresses(args.at[1]));
        let Some(lane) = lanes_of(w.exec).next() else { return Ok(Flow::Next) };
        let (to, from) = (to.0[lane], from.0[lane]);
        if !to.is_multiple_of(128) || !from.is_multiple_of(128) {
            let (space, address) =
                if to.is_multiple_of(128) { (Space::Shared, from) } else { (Space::Global, to) };
            let fault = Fault { space, address, kind: FaultKind::Misaligned(128) };
            return Err(w.fault(lane, fault, AccessKind::Write, 128));
        }
        let bytes = read_bytes(w, lane, Space::Shared, from)?;
        write_map(w, lane, (Space::Global, to), &bytes)?;
        observe(w, lane, MapAction::Released, (Space::Global, 0));
        Ok(Flow::Next)
    }))
}

/// `fence.proxy.tensormap::generic`. Memory is always up to date here, but the checks need to know. Blocks that pass a map on
/// communicate by what shows that it is complete, not by this fence.
fn fence(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let acquires = spec.has("acquire");
    let slots = if acquires { vec![Slot::Address, Slot::Static] } else { Vec::new() };
    Ok(Bound::fallible(slots, move |w, args| {
        let addresses = if acquires { w.addresses(args.at[0]) } else { Row([0; 32]) };
        for lane in lanes_of(w.exec) {
            let (action, place) = if acquires {
                (MapAction::Acquired, Space::resolve(addresses.0[lane]))
            } else {
                (MapAction::Released, (Space::Global, 0))
            };
            observe(w, lane, action, place);
        }
        Ok(Flow::Next)
    }))
}

fn observe(w: &mut Warp<'_, '_>, lane: usize, action: MapAction, place: (Space, u64)) {
    if let Some(watch) = w.watch.as_deref_mut() {
        watch.tensor_map(&MapUse { warp: w.state.id, lane: lane as u32, pc: w.pc, action, place });
    }
}
