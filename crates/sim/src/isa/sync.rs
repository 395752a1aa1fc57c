//! Barriers and fences.
//!
//! Fences have no effect: memory operations of a cluster happen in one order that all of its threads see, and clusters that
//! can communicate do not run in parallel.

#![expect(
    clippy::unnecessary_wraps,
    reason = "all binders share one signature, although most of these cannot fail"
)]

use super::lanes::together;
use super::{Bound, Definition, Refusal, Slot, Spec, Unit};
use crate::bind_plain;
use crate::machine::{BarrierReduction, Flow, Row, Type, Wait, Warp, Width, at, lanes_of};
use crate::program::Communication;

/// An entry of this family.
macro_rules! op {
    ($unit:ident, $form:expr, $section:literal, $since:expr, $bind:expr) => {
        Definition {
            form: $form,
            manual: $section,
            unit: Unit::$unit,
            since: $since,
            bind: bind_plain!($bind),
        }
    };
}

/// The manual's section for `bar` and `barrier`, which run on the address divergence unit.
macro_rules! barrier_op {
    ($form:expr, $since:expr, $bind:expr) => {
        op!(Adu, $form, "parallel-synchronization-and-communication-instructions-bar", $since, $bind)
    };
}

/// The manual's section for `membar` and `fence`, which run on the memory pipe.
macro_rules! fence_op {
    ($form:expr, $since:expr) => {
        op!(Lsu, $form, "parallel-synchronization-and-communication-instructions-membar", $since, fence)
    };
}

pub(super) const DEFINITIONS: &[Definition] = &[
    barrier_op!("bar{.cta}.sync a{, b}", (1, 0, 10), sync),
    barrier_op!("bar{.cta}.arrive a, b", (2, 0, 20), arrive),
    barrier_op!("bar{.cta}.red.popc.u32 d, a{, b}, {!}c", (2, 0, 20), count),
    barrier_op!("bar{.cta}.red.op.pred p, a{, b}, {!}c; .op = .and .or", (2, 0, 20), test),
    barrier_op!("barrier{.cta}.sync{.aligned} a{, b}", (6, 0, 30), sync),
    barrier_op!("barrier{.cta}.arrive{.aligned} a, b", (6, 0, 30), arrive),
    barrier_op!("barrier{.cta}.red.popc{.aligned}.u32 d, a{, b}, {!}c", (6, 0, 30), count),
    barrier_op!("barrier{.cta}.red.op{.aligned}.pred p, a{, b}, {!}c; .op = .and .or", (6, 0, 30), test),
    op!(
        Control,
        "bar.warp.sync membermask",
        "parallel-synchronization-and-communication-instructions-bar-warp-sync",
        (6, 0, 30),
        warp_sync
    ),
    op!(
        Adu,
        "barrier.cluster.arrive{.sem}{.aligned}; .sem = .release .relaxed",
        "parallel-synchronization-and-communication-instructions-barrier-cluster",
        (7, 8, 90),
        cluster_arrive
    ),
    op!(
        Adu,
        "barrier.cluster.wait{.acquire}{.aligned}",
        "parallel-synchronization-and-communication-instructions-barrier-cluster",
        (7, 8, 90),
        cluster_wait
    ),
    fence_op!("membar.level; .level = .cta .gl .sys", (1, 4, 10)),
    fence_op!("membar.proxy.alias", (7, 5, 60)),
    fence_op!("membar.proxy.async", (8, 0, 90)),
    fence_op!("fence{.sem}.scope; .sem = .sc .acq_rel; .scope = .cta .gpu .sys", (6, 0, 70)),
    fence_op!("fence{.sem}.cluster; .sem = .sc .acq_rel .acquire .release", (7, 8, 90)),
    fence_op!("fence.sem.scope; .sem = .acquire .release; .scope = .cta .gpu .sys", (8, 0, 70)),
    fence_op!("fence.acquire.sync_restrict::shared::cluster.cluster", (8, 6, 90)),
    fence_op!("fence.release.sync_restrict::shared::cta.cluster", (8, 6, 90)),
    fence_op!("fence.mbarrier_init.release.cluster", (8, 0, 90)),
    fence_op!("fence.proxy.alias", (7, 5, 70)),
    fence_op!("fence.proxy.async{.space}; .space = .global .shared::cta .shared::cluster", (8, 0, 90)),
    fence_op!("fence.proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster", (8, 6, 90)),
    fence_op!("fence.proxy.async::generic.release.sync_restrict::shared::cta.cluster", (8, 6, 90)),
    op!(
        Control,
        "griddepcontrol.action; .action = .launch_dependents .wait",
        "parallel-synchronization-and-communication-instructions-griddepcontrol",
        (7, 8, 90),
        grid_dependency
    ),
    op!(
        Control,
        "setmaxnreg.action.sync.aligned.u32 imm-reg-count; .action = .inc .dec",
        "miscellaneous-instructions-setmaxnreg",
        (8, 0, 90),
        set_registers
    ),
];

/// Memory is always up to date here. A fence with a scope beyond the block means that blocks communicate.
fn fence(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let wide = ["level", "scope"].iter().any(|class| matches!(spec.get(class), Some("gl" | "gpu" | "sys")));
    let bound = Bound::new([], |_, _| Flow::Next);
    Ok(if wide { bound.communicating(Communication::Any) } else { bound })
}

/// Waits for the grids that this one depends on, or lets those that depend on it start. Those before it have ended here; their stores
/// are hidden until the block waits (`memory/earlier.rs`). A launch without prerequisites waits for nothing.
fn grid_dependency(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    if spec.get("action") == Some("wait") {
        return Ok(Bound::new([], |w, _| {
            w.cta.dependency.wait();
            let waits = w.global.awaits();
            w.state.subwarp.wait = if waits { Wait::Grids } else { Wait::None };
            if waits { Flow::Wait } else { Flow::Next }
        }));
    }
    Ok(Bound::new([], |w, _| {
        w.cta.dependency.triggered = true;
        Flow::Next
    }))
}

/// Registers here are not limited. But a warp that asks for more than the other warps leave of the registers with which the block
/// started waits until they release some.
fn set_registers(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let wanted = spec.integer(0).and_then(|count| u32::try_from(count).ok());
    let Some(count) = wanted.filter(|count| (24..=256).contains(count) && count.is_multiple_of(8)) else {
        return Err(Refusal::Malformed("the register count must be a multiple of 8 from 24 to 256".into()));
    };
    let grows = spec.get("action") == Some("inc");
    Ok(Bound::fallible([Slot::Static], move |w, _| {
        if !w.gather_warp() {
            return Ok(Flow::Wait);
        }
        if grows && !w.has_registers(count) {
            w.state.subwarp.wait = Wait::Registers(count);
            return Ok(Flow::Wait);
        }
        w.take_registers(count);
        Ok(Flow::Next)
    }))
}

/// The barrier and thread count of the first lane. Lanes with other operands are split off and execute the instruction
/// separately.
struct Named {
    id: u32,
    threads: Option<u32>,
    split: bool,
}

impl Named {
    fn of(w: &mut Warp<'_, '_>, id: u32, threads: Option<u32>) -> Named {
        let ids = w.state.regs.w32[at(id)];
        let counts = threads.map(|row| w.state.regs.w32[at(row)]);
        let first = at(w.first_lane());
        let name = |lane: usize| (ids.0[lane], counts.as_ref().map(|counts| counts.0[lane]));
        let (id, threads) = name(first);
        // The operand is a constant in nearly every program.
        if ids.0 == [id; 32]
            && counts.as_ref().is_none_or(|counts| threads.is_some_and(|n| counts.0 == [n; 32]))
        {
            return Named { id, threads, split: false };
        }
        let same = lanes_of(w.exec)
            .filter(|&lane| name(lane) == (id, threads))
            .fold(0u32, |mask, lane| mask | 1 << lane);
        let split = same != w.exec;
        if split {
            let mut others = w.state.subwarp.clone();
            others.mask = w.exec & !same;
            others.pc = w.pc;
            w.state.subwarp.mask &= same | !w.exec;
            w.state.parked.push(others);
            w.exec = same;
        }
        Named { id, threads, split }
    }

    /// The remaining lanes of the subwarp have passed the barrier.
    fn done(&self, w: &mut Warp<'_, '_>) -> Flow {
        if !self.split {
            return Flow::Next;
        }
        w.state.subwarp.pc = w.pc + 1;
        Flow::Split
    }
}

/// Arrives and waits; `finish` gets the combined values of all threads once they have arrived.
fn wait(
    w: &mut Warp<'_, '_>,
    id: u32,
    threads: Option<u32>,
    values: u32,
    finish: impl FnOnce(&mut Warp<'_, '_>, BarrierReduction),
) -> Result<Flow, Flow> {
    let named = Named::of(w, id, threads);
    match w.arrive_and_wait(named.id, named.threads, values)? {
        None => Ok(Flow::Wait),
        Some(result) => {
            finish(w, result);
            Ok(named.done(w))
        }
    }
}

fn sync(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let counted = spec.operands.len() > 1;
    let slots = vec![Slot::Src(Type::U32); if counted { 2 } else { 1 }];
    let constant = |operand| spec.integer(operand).and_then(|value| u32::try_from(value).ok());
    let (id, threads) = (constant(0), constant(1));
    if let Some(id) = id.filter(|_| counted == threads.is_some()) {
        // The form that compilers emit: all lanes use the same barrier.
        return Ok(Bound::fallible(slots, move |w, _| {
            Ok(if w.arrive_and_wait(id, threads, 0)?.is_some() { Flow::Next } else { Flow::Wait })
        }));
    }
    Ok(Bound::fallible(slots, move |w, args| wait(w, args.o[0], counted.then_some(args.o[1]), 0, |_, _| {})))
}

fn arrive(_: &Spec<'_>) -> Result<Bound, Refusal> {
    Ok(Bound::fallible([Slot::Src(Type::U32), Slot::Src(Type::U32)], |w, args| {
        let named = Named::of(w, args.o[0], Some(args.o[1]));
        w.arrive(named.id, named.threads)?;
        Ok(named.done(w))
    }))
}

/// The operands of `red`: a result, the barrier, an optional thread count, a predicate. Also returns the position of the
/// predicate.
fn reduction_slots(spec: &Spec<'_>, result: Width) -> (Vec<Slot>, usize) {
    let mut slots = vec![Slot::Dst(result), Slot::Src(Type::U32)];
    if spec.operands.len() > 3 {
        slots.push(Slot::Src(Type::U32));
    }
    slots.push(Slot::Src(Type::Pred));
    let predicate = slots.len() - 1;
    (slots, predicate)
}

fn count(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let (slots, predicate) = reduction_slots(spec, Width::W32);
    Ok(Bound::fallible(slots, move |w, args| {
        let values = w.pred_arg(args, predicate);
        wait(w, args.o[1], (predicate == 3).then_some(args.o[2]), values, |w, result| {
            w.put_row(Width::W32, args.o[0], &Row::splat(u128::from(result.count)));
        })
    }))
}

fn test(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let (slots, predicate) = reduction_slots(spec, Width::Pred);
    let all = spec.get("op") == Some("and");
    Ok(Bound::fallible(slots, move |w, args| {
        let values = w.pred_arg(args, predicate);
        wait(w, args.o[1], (predicate == 3).then_some(args.o[2]), values, |w, result| {
            let holds = if all { result.and } else { result.or };
            w.set_pred(args.o[0], if holds { u32::MAX } else { 0 });
        })
    }))
}

fn warp_sync(_: &Spec<'_>) -> Result<Bound, Refusal> {
    Ok(Bound::new([Slot::Src(Type::U32)], |w, args| {
        together(w, args.o[0], |w, members| {
            // If the lanes of a group are at copies of the barrier, some are not in `exec`.
            let apart = w.state.meeting.is_some();
            // Lanes with one mask form a group; almost always the warp is one group.
            let mut rest = w.exec;
            while rest != 0 {
                let group = members.0[at(rest.trailing_zeros())];
                let lanes = lanes_of(rest).filter(|&lane| members.0[lane] == group);
                let lanes = lanes.fold(0u32, |lanes, lane| lanes | 1 << lane);
                w.converged(if apart { group } else { lanes });
                rest &= !lanes;
            }
        })
    }))
}

fn cluster_arrive(_: &Spec<'_>) -> Result<Bound, Refusal> {
    Ok(Bound::fallible([], |w, _| w.arrive_cluster()))
}

fn cluster_wait(_: &Spec<'_>) -> Result<Bound, Refusal> {
    Ok(Bound::new([], |w, _| w.wait_cluster()))
}
