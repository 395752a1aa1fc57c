//! `tcgen05`: tensor memory, and loads and stores by warps. Its allocation is in `allocation.rs`, copies are in `copy.rs`,
//! shifts in `shift.rs`, multiplications in `multiply.rs`; when these act: `machine/tensor.rs`.
//!
//! A warp accesses the 32 lanes whose number divided by 32 is its own number modulo 4. Thread t holds these cells in register r, by
//! the shape of the access; `.xN` repeats the shape along the columns:
//!
//! ```text
//!  shape      registers  lane                      column
//!  32x32b         N      t                         r
//!  16x64b         N      t / 4 + 8 (t mod 2)       2 r + t / 2 mod 2
//!  16x128b       2 N     t / 4 + 8 (r mod 2)       4 (r / 2) + t mod 4
//!  16x256b       4 N     t / 4 + 8 (r / 2 mod 2)   8 (r / 4) + 2 (t mod 4) + r mod 2
//!  16x32bx2       N      t mod 16                  r, and immHalfSplitoff more for the upper 16 threads
//! ```
//!
//! With `.pack::16b` and `.unpack::16b` a register holds the lower halves of two columns, so that columns count twice.

mod allocation;
mod commit;
mod copy;
mod format;
mod multiply;
mod shift;

pub(crate) use copy::TensorCopy;
pub(crate) use multiply::TensorMultiply;
pub(crate) use shift::TensorShift;

use super::{Args, Bound, Definition, Refusal, Shape, Slot, Spec, Unit};
use crate::bind_plain;
use crate::machine::{Blocks, Flow, Row, Type, Warp, Width, at};
use crate::memory::{TENSOR_COLUMNS, TENSOR_LANES};
use crate::observe::TensorAction;
use crate::stop::{Blame, StopKind};

macro_rules! op {
    ($form:expr, $section:literal, $unit:ident, $bind:expr) => {
        Definition {
            form: $form,
            manual: concat!("tcgen05-", $section),
            unit: Unit::$unit,
            since: (8, 6, 100),
            bind: bind_plain!($bind),
        }
    };
}

/// The boxes of loads and stores, which differ in the largest number of repetitions.
macro_rules! access {
    (ld $shapes:literal $numbers:literal) => {
        op!(
            concat!(
                "tcgen05.ld.sync.aligned.shape.num{.pack::16b}.b32 r, [taddr]; .shape = ",
                $shapes,
                "; .num = ",
                $numbers
            ),
            "instructions-tcgen05-ld",
            Lsu,
            load
        )
    };
    (st $shapes:literal $numbers:literal) => {
        op!(
            concat!(
                "tcgen05.st.sync.aligned.shape.num{.unpack::16b}.b32 [taddr], r; .shape = ",
                $shapes,
                "; .num = ",
                $numbers
            ),
            "instructions-tcgen05-st",
            Lsu,
            store
        )
    };
}

pub(super) const DEFINITIONS: &[Definition] = &[
    op!(
        "tcgen05.alloc.cta_group.sync.aligned{.shared::cta}.b32 [dst], nCols; .cta_group = .cta_group::1 .cta_group::2",
        "instructions-tcgen05-alloc-dealloc-relinquish-alloc-permit",
        Lsu,
        allocation::allocate
    ),
    op!(
        "tcgen05.dealloc.cta_group.sync.aligned.b32 taddr, nCols; .cta_group = .cta_group::1 .cta_group::2",
        "instructions-tcgen05-alloc-dealloc-relinquish-alloc-permit",
        Lsu,
        allocation::free
    ),
    op!(
        "tcgen05.relinquish_alloc_permit.cta_group.sync.aligned; .cta_group = .cta_group::1 .cta_group::2",
        "instructions-tcgen05-alloc-dealloc-relinquish-alloc-permit",
        Lsu,
        allocation::relinquish
    ),
    access!(ld ".32x32b .16x64b" ".x1 .x2 .x4 .x8 .x16 .x32 .x64 .x128"),
    access!(ld ".16x128b" ".x1 .x2 .x4 .x8 .x16 .x32 .x64"),
    access!(ld ".16x256b" ".x1 .x2 .x4 .x8 .x16 .x32"),
    op!(
        "tcgen05.ld.sync.aligned.16x32bx2.num{.pack::16b}.b32 r, [taddr], immHalfSplitoff; .num = .x1 .x2 .x4 .x8 .x16 .x32 .x64 .x128",
        "instructions-tcgen05-ld",
        Lsu,
        load
    ),
    access!(st ".32x32b .16x64b" ".x1 .x2 .x4 .x8 .x16 .x32 .x64 .x128"),
    access!(st ".16x128b" ".x1 .x2 .x4 .x8 .x16 .x32 .x64"),
    access!(st ".16x256b" ".x1 .x2 .x4 .x8 .x16 .x32"),
    op!(
        "tcgen05.st.sync.aligned.16x32bx2.num{.unpack::16b}.b32 [taddr], immHalfSplitoff, r; .num = .x1 .x2 .x4 .x8 .x16 .x32 .x64 .x128",
        "instructions-tcgen05-st",
        Lsu,
        store
    ),
    op!("tcgen05.wait::ld.sync.aligned", "instructions-tcgen05-wait", Control, wait),
    op!("tcgen05.wait::st.sync.aligned", "instructions-tcgen05-wait", Control, wait),
    op!("tcgen05.fence::before_thread_sync", "instructions-tcgen05-fence", Control, fence),
    op!("tcgen05.fence::after_thread_sync", "instructions-tcgen05-fence", Control, fence),
    op!(
        "tcgen05.cp.cta_group.shape [taddr], s-desc; .shape = .128x256b .4x256b .128x128b; .cta_group = .cta_group::1 .cta_group::2",
        "instructions-tcgen05-cp",
        Tensor,
        copy::bind
    ),
    op!(
        "tcgen05.cp.cta_group.64x128b.multicast [taddr], s-desc; .multicast = .warpx2::02_13 .warpx2::01_23; .cta_group = .cta_group::1 .cta_group::2",
        "instructions-tcgen05-cp",
        Tensor,
        copy::bind
    ),
    op!(
        "tcgen05.cp.cta_group.32x128b.warpx4 [taddr], s-desc; .cta_group = .cta_group::1 .cta_group::2",
        "instructions-tcgen05-cp",
        Tensor,
        copy::bind
    ),
    op!(
        "tcgen05.cp.cta_group.shape.b8x16.src_fmt [taddr], s-desc; .shape = .128x256b .4x256b .128x128b; .cta_group = .cta_group::1 .cta_group::2; .src_fmt = .b6x16_p32 .b4x16_p64",
        "instructions-tcgen05-cp",
        Tensor,
        copy::bind
    ),
    op!(
        "tcgen05.cp.cta_group.64x128b.multicast.b8x16.src_fmt [taddr], s-desc; .multicast = .warpx2::02_13 .warpx2::01_23; .cta_group = .cta_group::1 .cta_group::2; .src_fmt = .b6x16_p32 .b4x16_p64",
        "instructions-tcgen05-cp",
        Tensor,
        copy::bind
    ),
    op!(
        "tcgen05.cp.cta_group.32x128b.warpx4.b8x16.src_fmt [taddr], s-desc; .cta_group = .cta_group::1 .cta_group::2; .src_fmt = .b6x16_p32 .b4x16_p64",
        "instructions-tcgen05-cp",
        Tensor,
        copy::bind
    ),
    op!(
        "tcgen05.shift.cta_group.down [taddr]; .cta_group = .cta_group::1 .cta_group::2",
        "instructions-tcgen05-shift",
        Tensor,
        shift::bind
    ),
    op!(
        "tcgen05.mma.cta_group.kind{.collector_usage} [d-tmem], a-operand, b-desc, idesc{, disable-output-lane}, enable-input-d{, scale-input-d}; .kind = .kind::f16 .kind::tf32; .collector_usage = .collector::a::fill .collector::a::use .collector::a::lastuse .collector::a::discard; .cta_group = .cta_group::1 .cta_group::2",
        "mma-instructions-mma",
        Tensor,
        multiply::plain
    ),
    op!(
        "tcgen05.mma.cta_group.kind{.collector_usage} [d-tmem], a-operand, b-desc, idesc{, disable-output-lane}, enable-input-d; .kind = .kind::f8f6f4 .kind::i8; .collector_usage = .collector::a::fill .collector::a::use .collector::a::lastuse .collector::a::discard; .cta_group = .cta_group::1 .cta_group::2",
        "mma-instructions-mma",
        Tensor,
        multiply::plain
    ),
    op!(
        "tcgen05.mma.cta_group.kind::mxf8f6f4.block_scale{.vec}{.collector_usage} [d-tmem], a-operand, b-desc, idesc, [scale-A-tmem], [scale-B-tmem], enable-input-d; .vec = .scale_vec::1X .block32; .collector_usage = .collector::a::fill .collector::a::use .collector::a::lastuse .collector::a::discard; .cta_group = .cta_group::1 .cta_group::2",
        "mma-instructions-mma",
        Tensor,
        multiply::scaled
    ),
    op!(
        "tcgen05.mma.cta_group.kind::mxf4.block_scale{.vec}{.collector_usage} [d-tmem], a-operand, b-desc, idesc, [scale-A-tmem], [scale-B-tmem], enable-input-d; .vec = .scale_vec::2X .block32; .collector_usage = .collector::a::fill .collector::a::use .collector::a::lastuse .collector::a::discard; .cta_group = .cta_group::1 .cta_group::2",
        "mma-instructions-mma",
        Tensor,
        multiply::scaled
    ),
    op!(
        "tcgen05.mma.cta_group.kind::mxf4nvf4.block_scale.vec{.collector_usage} [d-tmem], a-operand, b-desc, idesc, [scale-A-tmem], [scale-B-tmem], enable-input-d; .vec = .scale_vec::2X .scale_vec::4X .block32 .block16; .collector_usage = .collector::a::fill .collector::a::use .collector::a::lastuse .collector::a::discard; .cta_group = .cta_group::1 .cta_group::2",
        "mma-instructions-mma",
        Tensor,
        multiply::scaled
    ),
    op!(
        "tcgen05.mma.ws.cta_group::1.kind{.collector_usage} [d-tmem], a-operand, b-desc, idesc, enable-input-d{, zero-column-mask-desc}; .kind = .kind::f16 .kind::tf32 .kind::f8f6f4 .kind::i8; .collector_usage = .collector::b0::fill .collector::b0::use .collector::b0::lastuse .collector::b0::discard .collector::b1::fill .collector::b1::use .collector::b1::lastuse .collector::b1::discard .collector::b2::fill .collector::b2::use .collector::b2::lastuse .collector::b2::discard .collector::b3::fill .collector::b3::use .collector::b3::lastuse .collector::b3::discard",
        "mma-instructions-mma-ws",
        Tensor,
        multiply::stationary
    ),
    op!(
        "tcgen05.commit.cta_group.mbarrier::arrive::one{.shared::cluster}.b64 [mbar]; .cta_group = .cta_group::1 .cta_group::2",
        "instructions-tcgen05-commit",
        Tensor,
        commit::bind
    ),
    op!(
        "tcgen05.commit.cta_group.mbarrier::arrive::one{.shared::cluster}.multicast::cluster.b64 [mbar], ctaMask; .cta_group = .cta_group::1 .cta_group::2",
        "instructions-tcgen05-commit",
        Tensor,
        commit::bind
    ),
];

/// The lane and the column of an address.
fn split(address: u32) -> (u32, u32) {
    (address >> 16, address & 0xffff)
}

/// Waits for all lanes of the warp; stops if some have exited.
fn whole(w: &mut Warp<'_, '_>) -> Result<bool, Flow> {
    if !w.gather_warp() {
        return Ok(false);
    }
    if w.exec == u32::MAX {
        return Ok(true);
    }
    let lanes = w.exec.count_ones();
    let sentence = format!(
        "tcgen05 is executed by {lanes} of 32 lanes of a warp; all threads of the warp must execute it"
    );
    Err(w.halt(Blame::Kernel, StopKind::Lanes, sentence))
}

/// The value that all lanes have.
fn uniform(w: &mut Warp<'_, '_>, row: &Row<u64>, what: &str) -> Result<u32, Flow> {
    let first = row.0[0];
    if row.0.iter().all(|value| *value == first) {
        return Ok(u32::try_from(first & 0xffff_ffff).unwrap_or(0));
    }
    let sentence = format!("lanes of a warp execute tcgen05 with different {what}");
    Err(w.halt(Blame::Kernel, StopKind::Lanes, sentence))
}

fn invalid(w: &mut Warp<'_, '_>, sentence: String) -> Flow {
    w.halt(Blame::Kernel, StopKind::Malformed, sentence)
}

/// The blocks that an instruction uses.
fn blocks(spec: &Spec<'_>) -> Blocks {
    if spec.get("cta_group") == Some("cta_group::2") { Blocks::Pair } else { Blocks::Own }
}

/// Stops unless all instructions of the block have the same `.cta_group`, and the other block of a pair is there.
fn enter(w: &mut Warp<'_, '_>, blocks: Blocks) -> Result<(), Flow> {
    let (first, pc) = *w.cta.tensor.group.get_or_insert((blocks, w.pc));
    if first != blocks {
        let sentence = format!(
            "tcgen05 with {} in a kernel that uses {}; all instructions must have the same",
            blocks.name(),
            first.name()
        );
        let flow = invalid(w, sentence);
        let place = w.grid.program.place(pc);
        if let Some(stop) = &mut w.stop {
            stop.others.extend(place.map(|place| (place, format!("{} here", first.name()))));
        }
        return Err(flow);
    }
    let Some(peer) = blocks.peer(w.cta.rank) else { return Ok(()) };
    if peer >= w.grid.cluster_size() {
        let size = w.grid.cluster_size();
        let sentence = format!(
            "tcgen05 with .cta_group::2 in block {} of a cluster of {size}; the pair has no block {peer}",
            w.cta.rank
        );
        return Err(invalid(w, sentence));
    }
    // The other block may have ended after it has allocated or freed columns for both.
    let done = w.cta.tensor.meeting.is_some_and(|own| own.warp == w.state.id && own.done.is_some());
    if !done && w.live_tensor(peer).is_none() {
        let sentence = "tcgen05 with .cta_group::2 after the other block of the pair has ended";
        return Err(w.halt(Blame::Kernel, StopKind::Bounds, sentence.to_owned()));
    }
    Ok(())
}

/// Stops unless the blocks have allocated these columns.
fn check_columns(
    w: &mut Warp<'_, '_>,
    blocks: Blocks,
    what: &str,
    first: u32,
    count: u32,
) -> Result<(), Flow> {
    for rank in blocks.ranks(w.cta.rank) {
        let Some(tensor) = w.live_tensor(rank) else { continue };
        let Some(column) = tensor.memory.unallocated(first, count) else { continue };
        let owned: Vec<String> = tensor
            .memory
            .allocations()
            .iter()
            .map(|one| format!("{} to {}", one.first, one.first + one.columns - 1))
            .collect();
        let other = if rank == w.cta.rank { "" } else { " in the other block of the pair" };
        let sentence = format!("{what} uses column {column} of tensor memory{other}, which is not allocated");
        let flow = w.halt(Blame::Kernel, StopKind::Bounds, sentence);
        if let Some(stop) = &mut w.stop {
            let owned = if owned.is_empty() { "none".to_owned() } else { owned.join(", ") };
            stop.notes.push(format!("allocated columns: {owned}"));
        }
        return Err(flow);
    }
    Ok(())
}

/// Loads and stores here are complete at once; checks decide whether the program has waited.
fn wait(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let stores = spec.has("wait::st");
    Ok(Bound::fallible([], move |w, _| {
        if !whole(w)? {
            return Ok(Flow::Wait);
        }
        w.observe_tensor(0, w.pc, TensorAction::Waited { stores });
        Ok(Flow::Next)
    }))
}

fn fence(_: &Spec<'_>) -> Result<Bound, Refusal> {
    Ok(Bound::new([], |_, _| Flow::Next))
}

/// The cells of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cells {
    W32x32,
    W16x64,
    W16x128,
    W16x256,
    /// The columns between the halves.
    W16x32x2(u32),
}

/// A load or store.
#[derive(Clone, Copy, Debug)]
struct Access {
    cells: Cells,
    registers: u32,
    /// A register holds the lower halves of two columns.
    packed: bool,
}

impl Access {
    fn of(spec: &Spec<'_>, split: usize) -> Result<Access, Refusal> {
        let number = spec.get("num").and_then(|number| number.strip_prefix('x')?.parse::<u32>().ok());
        let number = number.ok_or_else(|| spec.gap("this number of repetitions"))?;
        let (cells, each) = match spec.get("shape") {
            Some("32x32b") => (Cells::W32x32, 1),
            Some("16x64b") => (Cells::W16x64, 1),
            Some("16x128b") => (Cells::W16x128, 2),
            Some("16x256b") => (Cells::W16x256, 4),
            _ => {
                let offset = spec.integer(split).and_then(|offset| u32::try_from(offset).ok());
                let offset = offset.filter(|offset| *offset <= TENSOR_COLUMNS).ok_or_else(|| {
                    Refusal::Malformed("immHalfSplitoff must be a constant number of columns".into())
                })?;
                (Cells::W16x32x2(offset), 1)
            }
        };
        let packed = spec.has("pack::16b") || spec.has("unpack::16b");
        Ok(Access { cells, registers: number * each, packed })
    }

    /// The lane and the first column of a thread's register.
    fn place(&self, thread: u32, register: u32) -> (u32, u32) {
        let (t, r, times) = (thread, register, if self.packed { 2 } else { 1 });
        match self.cells {
            Cells::W32x32 => (t, times * r),
            Cells::W16x64 => (t / 4 + 8 * (t % 2), times * (2 * r + t / 2 % 2)),
            Cells::W16x128 => (t / 4 + 8 * (r % 2), times * (4 * (r / 2) + t % 4)),
            Cells::W16x256 => (t / 4 + 8 * (r / 2 % 2), times * (8 * (r / 4) + 2 * (t % 4) + r % 2)),
            Cells::W16x32x2(split) => (t % 16, times * r + split * (t / 16)),
        }
    }

    /// The ranges of columns that it uses, from its address.
    fn columns(&self) -> [(u32, u32); 2] {
        let times = if self.packed { 2 } else { 1 };
        match self.cells {
            Cells::W32x32 => [(0, times * self.registers), (0, 0)],
            Cells::W16x64 | Cells::W16x128 | Cells::W16x256 => [(0, times * 2 * self.registers), (0, 0)],
            Cells::W16x32x2(split) => [(0, times * self.registers), (split, times * self.registers)],
        }
    }

    /// The groups of 16 lanes that it uses from its first lane, one bit each.
    fn halves(&self, lane: u32) -> u8 {
        let own = if self.cells == Cells::W32x32 { 3 } else { 1 };
        own << ((lane / 16) & 7)
    }

    /// The first lane and the first column, if the warp may access them.
    fn start(&self, w: &mut Warp<'_, '_>, args: &Args) -> Result<(u32, u32), Flow> {
        let addresses = w.addresses(args.at[0]);
        let address = uniform(w, &addresses, "addresses")?;
        let (lane, column) = split(address);
        let own = 32 * (w.state.id % 4);
        let step = if self.cells == Cells::W32x32 { 32 } else { 16 };
        if lane / 32 != own / 32 || lane >= TENSOR_LANES {
            let warp = w.state.id;
            let sentence = format!(
                "warp {warp} accesses lane {lane} of tensor memory; it may access lanes {own} to {}",
                own + 31
            );
            let flow = w.halt(Blame::Kernel, StopKind::Bounds, sentence);
            if let Some(stop) = &mut w.stop {
                stop.help = Some(
                    "a warp accesses the lanes from 32 times its number in the block modulo 4".to_owned(),
                );
            }
            return Err(flow);
        }
        if !lane.is_multiple_of(step) {
            return Err(invalid(
                w,
                format!("an access to tensor memory at lane {lane}; expected a multiple of {step}"),
            ));
        }
        for (first, count) in self.columns() {
            check_columns(w, Blocks::Own, "the access", column + first, count)?;
        }
        Ok((lane, column))
    }
}

fn load(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let access = Access::of(spec, 2)?;
    let mut slots = vec![Slot::DstVec(vec![Width::W32; at(access.registers)]), Slot::Address];
    if spec.operands.len() > 2 {
        slots.push(Slot::Static);
    }
    Ok(Bound::fallible(slots, move |w, args: &Args| {
        if !whole(w)? {
            return Ok(Flow::Wait);
        }
        let (lane, column) = access.start(w, args)?;
        let columns = access.columns().map(|(first, count)| (column + first, count));
        w.observe_tensor(0, w.pc, TensorAction::Loaded { columns, halves: access.halves(lane) });
        for (r, row) in (0..access.registers).zip(&args.all) {
            let mut values = Row([0; 32]);
            for (t, value) in (0..).zip(&mut values.0) {
                let (down, right) = access.place(t, r);
                let cell = |more: u32| w.cta.tensor.memory.cell(lane + down, column + right + more);
                *value = if access.packed { cell(0) & 0xffff | cell(1) << 16 } else { cell(0) };
            }
            w.state.regs.w32[at(*row)] = values;
        }
        Ok(w.worked(128 * at(access.registers)))
    }))
}

fn store(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let access = Access::of(spec, 1)?;
    let mut slots = vec![Slot::Address];
    if spec.operands.len() > 2 {
        slots.push(Slot::Static);
    }
    slots.push(Slot::SrcVec(vec![Type::B32; at(access.registers)]));
    if let Some(Shape::Vector(items)) = spec.operands.last()
        && items.len() != at(access.registers)
    {
        let found = items.len();
        return Err(Refusal::Malformed(format!("expected {} registers, found {found}", access.registers)));
    }
    Ok(Bound::fallible(slots, move |w, args: &Args| {
        if !whole(w)? {
            return Ok(Flow::Wait);
        }
        let (lane, column) = access.start(w, args)?;
        let columns = access.columns().map(|(first, count)| (column + first, count));
        w.observe_tensor(0, w.pc, TensorAction::Stored { columns, halves: access.halves(lane) });
        for (r, row) in (0..access.registers).zip(&args.all) {
            let values = w.state.regs.w32[at(*row)];
            for (t, value) in (0..).zip(values.0) {
                let (down, right) = access.place(t, r);
                let memory = w.tensor_memory();
                if access.packed {
                    memory.set(lane + down, column + right, value & 0xffff);
                    memory.set(lane + down, column + right + 1, value >> 16);
                } else {
                    memory.set(lane + down, column + right, value);
                }
            }
        }
        Ok(w.worked(128 * at(access.registers)))
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Every shape reaches every cell of its rectangle exactly once.
    #[test]
    fn cells_are_reached_once() {
        for (cells, each, lanes) in [
            (Cells::W32x32, 1, 32),
            (Cells::W16x64, 1, 16),
            (Cells::W16x128, 2, 16),
            (Cells::W16x256, 4, 16),
            (Cells::W16x32x2(4), 1, 16),
        ] {
            let access = Access { cells, registers: 4 * each, packed: false };
            let all: BTreeSet<(u32, u32)> =
                (0..32).flat_map(|t| (0..4 * each).map(move |r| access.place(t, r))).collect();
            let columns = 32 * 4 * each / lanes;
            let wanted: BTreeSet<(u32, u32)> =
                (0..lanes).flat_map(|lane| (0..columns).map(move |column| (lane, column))).collect();
            assert_eq!(all, wanted, "{cells:?}");
            let [(_, first), (_, second)] = access.columns();
            assert_eq!(first + second, columns, "{cells:?}");
        }
    }
}
