//! Asynchronous copies from global to shared memory, and the mbarriers that track them.
//!
//! A copy is checked when it is issued and performed at the last moment the program allows, so that a kernel that reads too
//! early reads the old data; or immediately, if the schedule asks for that. `cp.async.mbarrier.arrive` arrives when the
//! thread's earlier copies are complete. That happens when the thread waits for them or exits, when its warp tests an
//! mbarrier, or when a warp of the block has used up its turn, because it may be one that polls in a loop.

#![expect(
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    reason = "bit fields of a 64-bit word; shared addresses and lane numbers are small once checked"
)]
#![expect(
    clippy::unnecessary_wraps,
    reason = "all binders share one signature, although most of these cannot fail"
)]

use super::memory::space_of;
use super::{Args, Bound, Definition, Refusal, Shape, Slot, Spec, Unit};
use crate::bind_plain;
use crate::machine::{
    AccessKind, Flow, MAX_COUNT, Mbarrier, Pending, PendingArrival, PendingCopy, Row, Type, Warp, Width, at,
    lanes_of,
};
use crate::memory::{Fault, FaultKind, Space};
use crate::observe::MbarrierAction;
use crate::schedule::CopyTiming;
use crate::stop::{Blame, StopKind};

pub(super) const DEFINITIONS: &[Definition] = &[
    Definition {
        form: concat!(
            "cp.async.ca.space.global{.L2::cache_hint}{.prefetch} [dst], [src], cp-size{, src-size | ignore-src}{, cache-policy}",
            "; .space = .shared .shared::cta; .prefetch = .L2::64B .L2::128B .L2::256B"
        ),
        manual: "data-movement-and-conversion-instructions-cp-async",
        unit: Unit::Lsu,
        since: (7, 0, 80),
        bind: bind_plain!(copy),
    },
    Definition {
        form: concat!(
            "cp.async.cg.space.global{.L2::cache_hint}{.prefetch} [dst], [src], 16{, src-size | ignore-src}{, cache-policy}",
            "; .space = .shared .shared::cta; .prefetch = .L2::64B .L2::128B .L2::256B"
        ),
        manual: "data-movement-and-conversion-instructions-cp-async",
        unit: Unit::Lsu,
        since: (7, 0, 80),
        bind: bind_plain!(copy),
    },
    Definition {
        form: "cp.async.commit_group",
        manual: "data-movement-and-conversion-instructions-cp-async-commit-group",
        unit: Unit::Lsu,
        since: (7, 0, 80),
        bind: bind_plain!(commit_group),
    },
    Definition {
        form: "cp.async.wait_group N",
        manual: "data-movement-and-conversion-instructions-cp-async-wait-group",
        unit: Unit::Lsu,
        since: (7, 0, 80),
        bind: bind_plain!(wait_group),
    },
    Definition {
        form: "cp.async.wait_all",
        manual: "data-movement-and-conversion-instructions-cp-async-wait-group",
        unit: Unit::Lsu,
        since: (7, 0, 80),
        bind: bind_plain!(wait_all),
    },
    Definition {
        form: "cp.async.mbarrier.arrive{.noinc}{.space}.b64 [addr]; .space = .shared .shared::cta",
        manual: "parallel-synchronization-and-communication-instructions-cp-async-mbarrier-arrive",
        unit: Unit::Lsu,
        since: (7, 0, 80),
        bind: bind_plain!(copies_arrive),
    },
    Definition {
        form: "mbarrier.init{.space}.b64 [addr], count; .space = .shared .shared::cta",
        manual: "parallel-synchronization-and-communication-instructions-mbarrier-init",
        unit: Unit::Lsu,
        since: (7, 0, 80),
        bind: bind_plain!(init),
    },
    Definition {
        form: "mbarrier.inval{.space}.b64 [addr]; .space = .shared .shared::cta",
        manual: "parallel-synchronization-and-communication-instructions-mbarrier-inval",
        unit: Unit::Lsu,
        since: (7, 0, 80),
        bind: bind_plain!(inval),
    },
    Definition {
        form: "mbarrier.arrive{.space}.b64 state, [addr]{, count}; .space = .shared .shared::cta .shared::cluster",
        manual: "parallel-synchronization-and-communication-instructions-mbarrier-arrive",
        unit: Unit::Lsu,
        since: (7, 0, 80),
        bind: bind_plain!(arrive),
    },
    Definition {
        form: "mbarrier.arrive.sem.scope{.space}.b64 state, [addr]{, count}; .sem = .release .relaxed; .scope = .cta .cluster; .space = .shared .shared::cta .shared::cluster",
        manual: "parallel-synchronization-and-communication-instructions-mbarrier-arrive",
        unit: Unit::Lsu,
        since: (8, 0, 80),
        bind: bind_plain!(arrive),
    },
    Definition {
        form: "mbarrier.arrive.noComplete{.space}.b64 state, [addr], count; .space = .shared .shared::cta",
        manual: "parallel-synchronization-and-communication-instructions-mbarrier-arrive",
        unit: Unit::Lsu,
        since: (7, 0, 80),
        bind: bind_plain!(arrive),
    },
    Definition {
        form: "mbarrier.arrive.noComplete.release.cta{.space}.b64 state, [addr], count; .space = .shared .shared::cta",
        manual: "parallel-synchronization-and-communication-instructions-mbarrier-arrive",
        unit: Unit::Lsu,
        since: (8, 0, 80),
        bind: bind_plain!(arrive),
    },
    Definition {
        form: "mbarrier.arrive.expect_tx{.space}.b64 state, [addr], tx_count; .space = .shared .shared::cta .shared::cluster",
        manual: "parallel-synchronization-and-communication-instructions-mbarrier-arrive",
        unit: Unit::Lsu,
        since: (8, 0, 90),
        bind: bind_plain!(arrive),
    },
    Definition {
        form: "mbarrier.arrive.expect_tx.sem.scope{.space}.b64 state, [addr], tx_count; .sem = .release .relaxed; .scope = .cta .cluster; .space = .shared .shared::cta .shared::cluster",
        manual: "parallel-synchronization-and-communication-instructions-mbarrier-arrive",
        unit: Unit::Lsu,
        since: (8, 0, 90),
        bind: bind_plain!(arrive),
    },
    Definition {
        form: "mbarrier.arrive_drop{.space}.b64 state, [addr]{, count}; .space = .shared .shared::cta .shared::cluster",
        manual: "parallel-synchronization-and-communication-instructions-mbarrier-arrive-drop",
        unit: Unit::Lsu,
        since: (7, 0, 80),
        bind: bind_plain!(arrive),
    },
    Definition {
        form: "mbarrier.arrive_drop.sem.scope{.space}.b64 state, [addr]{, count}; .sem = .release .relaxed; .scope = .cta .cluster; .space = .shared .shared::cta .shared::cluster",
        manual: "parallel-synchronization-and-communication-instructions-mbarrier-arrive-drop",
        unit: Unit::Lsu,
        since: (7, 0, 80),
        bind: bind_plain!(arrive),
    },
    Definition {
        form: "mbarrier.arrive_drop.noComplete{.space}.b64 state, [addr], count; .space = .shared .shared::cta",
        manual: "parallel-synchronization-and-communication-instructions-mbarrier-arrive-drop",
        unit: Unit::Lsu,
        since: (7, 0, 80),
        bind: bind_plain!(arrive),
    },
    Definition {
        form: "mbarrier.arrive_drop.noComplete.release.cta{.space}.b64 state, [addr], count; .space = .shared .shared::cta",
        manual: "parallel-synchronization-and-communication-instructions-mbarrier-arrive-drop",
        unit: Unit::Lsu,
        since: (7, 0, 80),
        bind: bind_plain!(arrive),
    },
    Definition {
        form: "mbarrier.arrive_drop.expect_tx{.space}.b64 state, [addr], tx_count; .space = .shared .shared::cta .shared::cluster",
        manual: "parallel-synchronization-and-communication-instructions-mbarrier-arrive-drop",
        unit: Unit::Lsu,
        since: (8, 0, 90),
        bind: bind_plain!(arrive),
    },
    Definition {
        form: "mbarrier.arrive_drop.expect_tx.sem.scope{.space}.b64 state, [addr], tx_count; .sem = .release .relaxed; .scope = .cta .cluster; .space = .shared .shared::cta .shared::cluster",
        manual: "parallel-synchronization-and-communication-instructions-mbarrier-arrive-drop",
        unit: Unit::Lsu,
        since: (8, 0, 90),
        bind: bind_plain!(arrive),
    },
    Definition {
        form: "mbarrier.expect_tx{.space}.b64 [addr], tx_count; .space = .shared .shared::cta .shared::cluster",
        manual: "parallel-synchronization-and-communication-instructions-mbarrier-expect-tx",
        unit: Unit::Lsu,
        since: (8, 0, 90),
        bind: bind_plain!(transactions),
    },
    Definition {
        form: "mbarrier.expect_tx.relaxed.scope{.space}.b64 [addr], tx_count; .scope = .cta .cluster; .space = .shared .shared::cta .shared::cluster",
        manual: "parallel-synchronization-and-communication-instructions-mbarrier-expect-tx",
        unit: Unit::Lsu,
        since: (8, 0, 90),
        bind: bind_plain!(transactions),
    },
    Definition {
        form: "mbarrier.complete_tx{.space}.b64 [addr], tx_count; .space = .shared .shared::cta .shared::cluster",
        manual: "parallel-synchronization-and-communication-instructions-mbarrier-complete-tx",
        unit: Unit::Lsu,
        since: (8, 0, 90),
        bind: bind_plain!(transactions),
    },
    Definition {
        form: "mbarrier.complete_tx.relaxed.scope{.space}.b64 [addr], tx_count; .scope = .cta .cluster; .space = .shared .shared::cta .shared::cluster",
        manual: "parallel-synchronization-and-communication-instructions-mbarrier-complete-tx",
        unit: Unit::Lsu,
        since: (8, 0, 90),
        bind: bind_plain!(transactions),
    },
    Definition {
        form: "mbarrier.test_wait{.parity}{.space}.b64 waitComplete, [addr], state; .space = .shared .shared::cta",
        manual: "parallel-synchronization-and-communication-instructions-mbarrier-test-wait-try-wait",
        unit: Unit::Lsu,
        since: (7, 0, 80),
        bind: bind_plain!(test_wait),
    },
    Definition {
        form: "mbarrier.test_wait{.parity}.sem.scope{.space}.b64 waitComplete, [addr], state; .sem = .acquire .relaxed; .scope = .cta .cluster; .space = .shared .shared::cta",
        manual: "parallel-synchronization-and-communication-instructions-mbarrier-test-wait-try-wait",
        unit: Unit::Lsu,
        since: (8, 0, 80),
        bind: bind_plain!(test_wait),
    },
    Definition {
        form: "mbarrier.try_wait{.parity}{.space}.b64 waitComplete, [addr], state{, suspendTimeHint}; .space = .shared .shared::cta",
        manual: "parallel-synchronization-and-communication-instructions-mbarrier-test-wait-try-wait",
        unit: Unit::Lsu,
        since: (7, 8, 90),
        bind: bind_plain!(test_wait),
    },
    Definition {
        form: "mbarrier.try_wait{.parity}.sem.scope{.space}.b64 waitComplete, [addr], state{, suspendTimeHint}; .sem = .acquire .relaxed; .scope = .cta .cluster; .space = .shared .shared::cta",
        manual: "parallel-synchronization-and-communication-instructions-mbarrier-test-wait-try-wait",
        unit: Unit::Lsu,
        since: (8, 0, 90),
        bind: bind_plain!(test_wait),
    },
    Definition {
        form: "mbarrier.pending_count.b64 count, state",
        manual: "parallel-synchronization-and-communication-instructions-mbarrier-pending-count",
        unit: Unit::Lsu,
        since: (7, 0, 80),
        bind: bind_plain!(pending_count),
    },
];

/// Copies a warp may have in flight; beyond that, the oldest are completed, which is allowed at any time.
const UNDER_WAY: usize = 1 << 14;

/// How much of the source a copy reads.
#[derive(Clone, Copy)]
enum Source {
    All,
    /// The number of bytes in the operand; the rest is zero.
    Sized,
    /// Nothing if the predicate is true.
    Unless,
}

fn copy(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let size = match spec.integer(2) {
        Some(4) if spec.has("ca") => 4,
        Some(8) if spec.has("ca") => 8,
        Some(16) => 16,
        Some(size) => return Err(Refusal::Malformed(format!("a copy of {size} bytes"))),
        None => return Err(Refusal::Malformed("a copy whose size is not a constant".into())),
    };
    let mut slots = vec![Slot::Address, Slot::Address, Slot::Static];
    let hinted = spec.has("L2::cache_hint");
    let sources = spec.operands.len().saturating_sub(3 + usize::from(hinted));
    let source = match spec.operands.get(3) {
        _ if sources == 0 => Source::All,
        Some(Shape::Register(1)) => {
            slots.push(Slot::Src(Type::Pred));
            Source::Unless
        }
        _ => {
            slots.push(Slot::Src(Type::U32));
            Source::Sized
        }
    };
    if hinted && spec.operands.len() > 3 {
        // A cache policy does not affect values.
        slots.push(Slot::Src(Type::B64));
    }
    Ok(Bound::fallible(slots, move |w, args| issue(w, args, size, source)))
}

fn issue(w: &mut Warp<'_, '_>, args: &Args, size: u8, source: Source) -> Result<Flow, Flow> {
    let bytes = u32::from(size);
    let to = w.addresses(args.at[0]);
    let from = w.addresses(args.at[1]);
    let mut reads = [0u8; 32];
    for lane in lanes_of(w.exec) {
        reads[lane] = match source {
            Source::Unless if w.pred_arg(args, 0) >> lane & 1 != 0 => 0,
            Source::All | Source::Unless => size,
            Source::Sized => {
                let wanted = w.state.regs.w32[at(args.o[0])].0[lane];
                if wanted > bytes {
                    let sentence = format!("cp.async of {size} bytes with a source of {wanted}");
                    return Err(w.halt_lane(Blame::Kernel, StopKind::Malformed, lane as u32, sentence));
                }
                wanted as u8
            }
        };
        let target = w.probe(Space::Shared, to.0[lane], bytes, true);
        target.map_err(|fault| w.fault(lane, fault, AccessKind::Write, bytes))?;
        readable(w, from.0[lane], size, reads[lane])
            .map_err(|fault| w.fault(lane, fault, AccessKind::Read, bytes))?;
    }
    announce(w, &from, &reads);
    w.announce_deferred(Space::Shared, AccessKind::Write, &to, bytes, w.exec);
    let now = w.grid.schedule.copies == CopyTiming::Early;
    for lane in lanes_of(w.exec) {
        let copy = PendingCopy {
            lane: lane as u8,
            group: w.state.committed[lane],
            to: to.0[lane] as u32,
            from: from.0[lane],
            size,
            read: reads[lane],
            moved: now,
            pc: w.pc,
        };
        w.copy_issued(copy);
        // An early copy is visible immediately, but relying on that is still a bug: the copy is complete only after a
        // wait.
        if now {
            w.copy_now(copy)?;
        }
        w.state.copies.push(Pending::Copy(copy));
    }
    if w.state.copies.len() > UNDER_WAY {
        let rest = w.state.copies.split_off(UNDER_WAY / 2);
        for pending in std::mem::replace(&mut w.state.copies, rest) {
            w.complete(pending)?;
        }
    }
    Ok(Flow::Next)
}

/// The source must be aligned to the size of the copy, and all bytes that are read must exist.
fn readable(w: &Warp<'_, '_>, from: u64, size: u8, read: u8) -> Result<(), Fault> {
    if read == 0 {
        return Ok(());
    }
    if !from.is_multiple_of(u64::from(size)) {
        return Err(Fault {
            space: Space::Global,
            address: from,
            kind: FaultKind::Misaligned(u32::from(size)),
        });
    }
    w.global.heap().locate(from, u64::from(read)).map(|_| ())
}

/// Reports the reads to the observer, one access per distinct byte count.
fn announce(w: &mut Warp<'_, '_>, from: &Row<u64>, reads: &[u8; 32]) {
    let mut rest = lanes_of(w.exec).filter(|&lane| reads[lane] > 0).fold(0u32, |mask, lane| mask | 1 << lane);
    while rest != 0 {
        let bytes = reads[at(rest.trailing_zeros())];
        let lanes =
            lanes_of(rest).filter(|&lane| reads[lane] == bytes).fold(0u32, |mask, lane| mask | 1 << lane);
        w.announce_deferred(Space::Global, AccessKind::Read, from, u32::from(bytes), lanes);
        rest &= !lanes;
    }
}

fn commit(w: &mut Warp<'_, '_>) {
    for lane in lanes_of(w.exec) {
        w.state.committed[lane] = w.state.committed[lane].saturating_add(1);
    }
}

fn commit_group(_: &Spec<'_>) -> Result<Bound, Refusal> {
    Ok(Bound::new([], |w, _| {
        commit(w);
        Flow::Next
    }))
}

fn wait_group(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let Some(pending) = spec.integer(0).and_then(|n| u32::try_from(n).ok()) else {
        return Err(Refusal::Malformed(
            "the operand of cp.async.wait_group must be a non-negative constant".into(),
        ));
    };
    Ok(Bound::fallible([Slot::Static], move |w, _| wait(w, pending)))
}

fn wait_all(_: &Spec<'_>) -> Result<Bound, Refusal> {
    Ok(Bound::fallible([], |w, _| {
        commit(w);
        wait(w, 0)
    }))
}

/// Completes all groups except the last `pending`.
fn wait(w: &mut Warp<'_, '_>, pending: u32) -> Result<Flow, Flow> {
    let committed = w.state.committed;
    w.complete_copies(|lane, group| group < committed[lane].saturating_sub(pending), w.exec)?;
    Ok(Flow::Next)
}

/// The addresses of the lanes' barriers in shared memory.
fn barriers(w: &mut Warp<'_, '_>, args: &Args, space: Space) -> Result<Row<u64>, Flow> {
    let mut addresses = w.addresses(args.at[0]);
    if space == Space::Generic {
        for lane in lanes_of(w.exec) {
            let (found, address) = Space::resolve(addresses.0[lane]);
            if found != Space::Shared {
                let sentence = format!(
                    "an mbarrier at {} address {address:#x}; it must be in shared memory",
                    found.name()
                );
                return Err(w.halt_lane(Blame::Kernel, StopKind::Bounds, lane as u32, sentence));
            }
            addresses.0[lane] = address;
        }
    }
    Ok(addresses)
}

/// Applies `change` to each lane's barrier in turn, and returns the words before.
fn change(
    w: &mut Warp<'_, '_>,
    addresses: &Row<u64>,
    mut change: impl FnMut(usize, &mut Mbarrier) -> Result<MbarrierAction, String>,
) -> Result<Row<u128>, Flow> {
    let mut wrong: Option<(usize, String)> = None;
    let mut done = [(MbarrierAction::Arrive, false); 32];
    let old = w.update(Space::Shared, addresses, 8, |lane, old| {
        let changed = Mbarrier::unpack(old as u64).and_then(|mut barrier| {
            let parity = barrier.parity;
            let action = change(lane, &mut barrier)?;
            done[lane] = (action, barrier.parity != parity);
            Ok(barrier)
        });
        match changed {
            Ok(barrier) => u128::from(barrier.pack()),
            Err(sentence) => {
                wrong.get_or_insert((lane, sentence));
                old
            }
        }
    })?;
    match wrong {
        None => {
            for lane in lanes_of(w.exec) {
                w.used_mbarrier(lane, addresses.0[lane], done[lane].0, done[lane].1);
            }
            Ok(old)
        }
        Some((lane, sentence)) => {
            let sentence = format!("{sentence}, at shared address {:#x}", addresses.0[lane]);
            Err(w.halt_lane(Blame::Kernel, StopKind::Mbarrier, lane as u32, sentence))
        }
    }
}

fn init(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let space = space_of(spec.get("space"));
    Ok(Bound::fallible([Slot::Address, Slot::Src(Type::U32)], move |w, args| {
        let addresses = barriers(w, args, space)?;
        let counts = w.state.regs.w32[at(args.o[0])];
        let mut words = [Row([0; 32]); 2];
        for lane in lanes_of(w.exec) {
            let count = counts.0[lane];
            if count == 0 || count > MAX_COUNT {
                let sentence = format!("an mbarrier for {count} arrivals; expected 1 to {MAX_COUNT}");
                return Err(w.halt_lane(Blame::Kernel, StopKind::Mbarrier, lane as u32, sentence));
            }
            let word = Mbarrier { pending: count, expected: count, transactions: 0, parity: false }.pack();
            words[0].0[lane] = word as u32;
            words[1].0[lane] = (word >> 32) as u32;
        }
        w.store_at(Space::Shared, &addresses, 8, &words)?;
        for lane in lanes_of(w.exec) {
            w.used_mbarrier(lane, addresses.0[lane], MbarrierAction::Init, false);
        }
        Ok(Flow::Next)
    }))
}

fn inval(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let space = space_of(spec.get("space"));
    Ok(Bound::fallible([Slot::Address], move |w, args| {
        let addresses = barriers(w, args, space)?;
        change(w, &addresses, |_, _| Ok(MbarrierAction::Inval))?;
        w.store_at(Space::Shared, &addresses, 8, &[Row([0; 32]); 2])?;
        Ok(Flow::Next)
    }))
}

/// `arrive` and `arrive_drop`, with their operand variants.
fn arrive(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let space = space_of(spec.get("space"));
    let (dropping, expecting, keeping) =
        (spec.has("arrive_drop"), spec.has("expect_tx"), spec.has("noComplete"));
    let mut slots = vec![Slot::Dst(Width::W64), Slot::Address];
    let operand = spec.operands.len() > 2;
    if operand {
        slots.push(Slot::Src(Type::U32));
    }
    Ok(Bound::fallible(slots, move |w, args| {
        let addresses = barriers(w, args, space)?;
        let given = if operand { w.state.regs.w32[at(args.o[1])] } else { Row::splat(1) };
        for lane in lanes_of(w.exec) {
            // Bytes in flight arrive before an arrival that belongs to the next phase.
            w.complete_for(lane, addresses.0[lane], |barrier| barrier.pending == 0 && barrier.expected > 0)?;
        }
        let old = change(w, &addresses, |lane, barrier| {
            let count = if expecting { 1 } else { given.0[lane] };
            if expecting {
                barrier.transfer(i64::from(given.0[lane]))?;
            }
            if dropping {
                barrier.drop(count)?;
            }
            let parity = barrier.parity;
            barrier.arrive(count)?;
            if keeping && barrier.parity != parity {
                return Err("an arrival with .noComplete that completes the phase of its mbarrier".into());
            }
            Ok(MbarrierAction::Arrive)
        })?;
        w.put_row(Width::W64, args.o[0], &old);
        Ok(Flow::Next)
    }))
}

fn transactions(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let space = space_of(spec.get("space"));
    let sign = if spec.has("complete_tx") { -1 } else { 1 };
    Ok(Bound::fallible([Slot::Address, Slot::Src(Type::U32)], move |w, args| {
        let addresses = barriers(w, args, space)?;
        let bytes = w.state.regs.w32[at(args.o[0])];
        change(w, &addresses, |lane, barrier| {
            barrier.transfer(sign * i64::from(bytes.0[lane]))?;
            if sign < 0 {
                barrier.settle();
            }
            Ok(MbarrierAction::Arrive)
        })?;
        Ok(Flow::Next)
    }))
}

/// `test_wait` and `try_wait`. The latter may suspend the thread, but need not: kernels call it in a loop.
fn test_wait(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let space = space_of(spec.get("space"));
    let by_parity = spec.has("parity");
    let ty = if by_parity { Type::U32 } else { Type::B64 };
    let mut slots = vec![Slot::Dst(Width::Pred), Slot::Address, Slot::Src(ty)];
    if spec.operands.len() > 3 {
        slots.push(Slot::Src(Type::U32));
    }
    Ok(Bound::fallible(slots, move |w, args| {
        let addresses = barriers(w, args, space)?;
        w.complete_tracked()?;
        let phases = w.get_row(ty.width(), args.o[1]);
        let is_over = |lane: usize, barrier: &Mbarrier| {
            let asked = if by_parity { phases.0[lane] & 1 } else { phases.0[lane] >> 62 & 1 };
            barrier.parity != (asked != 0)
        };
        for lane in lanes_of(w.exec) {
            w.complete_for(lane, addresses.0[lane], |barrier| !is_over(lane, barrier))?;
        }
        let mut complete = 0;
        change(w, &addresses, |lane, barrier| {
            let over = is_over(lane, barrier);
            complete |= u32::from(over) << lane;
            Ok(MbarrierAction::Test(over))
        })?;
        w.set_pred(args.o[0], complete);
        Ok(if complete == 0 { Flow::Pause } else { Flow::Next })
    }))
}

fn pending_count(_: &Spec<'_>) -> Result<Bound, Refusal> {
    Ok(Bound::new([Slot::Dst(Width::W32), Slot::Src(Type::B64)], |w, args| {
        let mut counts = w.get_row(Width::W64, args.o[1]);
        counts.0.iter_mut().for_each(|state| *state &= u128::from(MAX_COUNT));
        w.put_row(Width::W32, args.o[0], &counts);
        Flow::Next
    }))
}

fn copies_arrive(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let space = space_of(spec.get("space"));
    let counted = spec.has("noinc");
    Ok(Bound::fallible([Slot::Address], move |w, args| {
        let addresses = barriers(w, args, space)?;
        if w.grid.schedule.copies == CopyTiming::Early {
            w.complete_copies(|_, _| true, w.exec)?;
        }
        // The group of each lane's last copy in flight; the arrival happens when that group completes.
        let mut groups = [None; 32];
        for pending in &w.state.copies {
            groups[pending.lane()] = Some(pending.group());
        }
        change(w, &addresses, |lane, barrier| {
            if !counted {
                barrier.expect(1)?;
            }
            if groups[lane].is_some() {
                return Ok(MbarrierAction::Track);
            }
            barrier.arrive(1)?;
            Ok(MbarrierAction::Arrive)
        })?;
        for lane in lanes_of(w.exec) {
            if let Some(group) = groups[lane] {
                let barrier = addresses.0[lane] as u32;
                let arrival = PendingArrival { lane: lane as u8, group, barrier, pc: w.pc };
                w.state.copies.push(Pending::Arrival(arrival));
                w.state.arrivals += 1;
            }
        }
        Ok(Flow::Next)
    }))
}
