//! `tcgen05.alloc`, `tcgen05.dealloc` and `tcgen05.relinquish_alloc_permit`.
//!
//! With `.cta_group::2` a warp of each block of the pair executes the instruction: the first one waits for the other, which then
//! allocates or frees the same columns in both blocks.

use super::{blocks, enter, invalid, split, uniform, whole};
use crate::isa::{Args, Bound, Refusal, Slot, Spec};
use crate::machine::{Blocks, Flow, Meeting, Row, Type, Wait, Warp, at};
use crate::memory::{Space, TENSOR_COLUMNS, TENSOR_UNIT};
use crate::observe::TensorAction;
use crate::stop::{Blame, StopKind};

fn column_count(w: &mut Warp<'_, '_>, row: u32) -> Result<u32, Flow> {
    let counts = w.state.regs.w32[at(row)].widened();
    let columns = uniform(w, &counts, "numbers of columns")?;
    if columns.is_power_of_two() && (TENSOR_UNIT..=TENSOR_COLUMNS).contains(&columns) {
        return Ok(columns);
    }
    Err(invalid(w, format!("{columns} columns of tensor memory; expected a power of two from 32 to 512")))
}

/// Meets a warp of the other block of the pair, which allocates or frees the same. Returns the first column, or `None` while the
/// warp waits.
fn meet(w: &mut Warp<'_, '_>, frees: Option<u32>, columns: u32) -> Result<Option<u32>, Flow> {
    let (warp, pc, peer) = (w.state.id, w.pc, w.cta.rank ^ 1);
    let own = w.cta.tensor.meeting;
    if let Some(first) = own.filter(|own| own.warp == warp).and_then(|own| own.done) {
        w.cta.tensor.meeting = None;
        return Ok(Some(first));
    }
    let theirs = w.live_tensor(peer).and_then(|tensor| tensor.meeting).filter(|theirs| theirs.done.is_none());
    let other = own.is_some_and(|own| own.warp != warp);
    if let Some(theirs) = theirs.filter(|_| !other) {
        if (theirs.frees, theirs.columns) != (frees, columns) {
            return Err(disagree(w, theirs, frees, columns));
        }
        let changed = match frees {
            Some(first) => free_columns(w, first, columns)?,
            None => allocate_columns(w, columns, theirs.pc),
        };
        if let Some(first) = changed {
            w.cta.tensor.meeting = None;
            if let Some(tensor) = w.tensor_of(peer) {
                tensor.meeting = Some(Meeting { done: Some(first), ..theirs });
            }
            return Ok(Some(first));
        }
    }
    if !other {
        let meeting = Meeting { warp, pc, frees, columns, done: None };
        if own != Some(meeting)
            && let Some(tensor) = w.tensor_of(w.cta.rank)
        {
            tensor.meeting = Some(meeting);
        }
    }
    w.state.subwarp.wait = Wait::Pair;
    Ok(None)
}

/// The blocks of a pair do not do the same.
fn disagree(w: &mut Warp<'_, '_>, theirs: Meeting, frees: Option<u32>, columns: u32) -> Flow {
    let text = |frees: Option<u32>, columns: u32| match frees {
        Some(first) => format!("frees {columns} columns from column {first}"),
        None => format!("allocates {columns} columns"),
    };
    let (own, other) = (text(frees, columns), text(theirs.frees, theirs.columns));
    let flow = invalid(w, format!("a block {own} of tensor memory, and the other block of the pair {other}"));
    let place = w.grid.program.place(theirs.pc).filter(|_| theirs.pc != w.pc);
    if let Some(stop) = &mut w.stop {
        stop.others.extend(place.map(|place| (place, format!("the other block {other}"))));
    }
    flow
}

/// Allocates the same columns in both blocks; `None` if there is not enough room.
fn allocate_columns(w: &mut Warp<'_, '_>, columns: u32, theirs: u32) -> Option<u32> {
    let (pc, peer) = (w.pc, w.cta.rank ^ 1);
    if !w.live_tensor(peer)?.memory.has_room(columns) {
        return None;
    }
    let first = w.tensor_memory().allocate(columns, pc)?;
    // Both have the same allocations, because they allocate and free together.
    w.tensor_of(peer)?.memory.allocate(columns, theirs).filter(|other| *other == first)
}

/// Frees the same columns in both blocks.
fn free_columns(w: &mut Warp<'_, '_>, first: u32, columns: u32) -> Result<Option<u32>, Flow> {
    let peer = w.cta.rank ^ 1;
    let own = w.tensor_memory().free(first, columns);
    let other = w.tensor_of(peer).is_some_and(|tensor| tensor.memory.free(first, columns));
    if own && other { Ok(Some(first)) } else { Err(not_allocated(w, first, columns)) }
}

fn not_allocated(w: &mut Warp<'_, '_>, address: u32, columns: u32) -> Flow {
    let sentence = format!(
        "{columns} columns of tensor memory at {address:#x} are freed, but no such allocation exists"
    );
    let flow = w.halt(Blame::Kernel, StopKind::Bounds, sentence);
    if let Some(stop) = &mut w.stop {
        stop.help = Some("free each allocation once, with its own address and number of columns".to_owned());
    }
    flow
}

pub(super) fn allocate(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let space = if spec.has("shared::cta") { Space::Shared } else { Space::Generic };
    let blocks = blocks(spec);
    Ok(Bound::fallible([Slot::Address, Slot::Src(Type::U32)], move |w, args: &Args| {
        if !whole(w)? {
            return Ok(Flow::Wait);
        }
        enter(w, blocks)?;
        let columns = column_count(w, args.o[0])?;
        if let Some(pc) = w.cta.tensor.relinquished {
            let sentence = "tensor memory is allocated after the block has given up the right to allocate";
            let flow = w.halt(Blame::Kernel, StopKind::Malformed, sentence.to_owned());
            let place = w.grid.program.place(pc);
            if let Some(stop) = &mut w.stop {
                stop.others.extend(place.map(|place| (place, "given up here".to_owned())));
            }
            return Err(flow);
        }
        let pc = w.pc;
        let first = match blocks {
            Blocks::Pair => meet(w, None, columns)?,
            Blocks::Own => {
                let first = w.tensor_memory().allocate(columns, pc);
                if first.is_none() {
                    w.state.subwarp.wait = Wait::Columns(columns);
                }
                first
            }
        };
        let Some(first) = first else { return Ok(Flow::Wait) };
        w.observe_tensor(0, pc, TensorAction::Allocated((first, columns)));
        let addresses = w.addresses(args.at[0]);
        let all = std::mem::replace(&mut w.exec, 1);
        let stored = w.store_at(space, &addresses, 4, &[Row::splat(first)]);
        w.exec = all;
        stored.map(|()| Flow::Next)
    }))
}

pub(super) fn free(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let blocks = blocks(spec);
    Ok(Bound::fallible([Slot::Src(Type::U32), Slot::Src(Type::U32)], move |w, args: &Args| {
        if !whole(w)? {
            return Ok(Flow::Wait);
        }
        enter(w, blocks)?;
        let addresses = w.state.regs.w32[at(args.o[0])].widened();
        let (address, columns) = (uniform(w, &addresses, "addresses")?, column_count(w, args.o[1])?);
        let (lane, first) = split(address);
        if lane != 0 {
            return Err(not_allocated(w, address, columns));
        }
        match blocks {
            Blocks::Own if !w.tensor_memory().free(first, columns) => {
                return Err(not_allocated(w, address, columns));
            }
            Blocks::Pair if meet(w, Some(first), columns)?.is_none() => return Ok(Flow::Wait),
            _ => {}
        }
        w.observe_tensor(0, w.pc, TensorAction::Freed((first, columns)));
        Ok(Flow::Next)
    }))
}

pub(super) fn relinquish(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let blocks = blocks(spec);
    Ok(Bound::fallible([], move |w, _| {
        if !whole(w)? {
            return Ok(Flow::Wait);
        }
        enter(w, blocks)?;
        w.cta.tensor.relinquished = Some(w.pc);
        Ok(Flow::Next)
    }))
}
