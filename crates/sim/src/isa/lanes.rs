//! Exchange between the lanes of a warp.
//!
//! The `.sync` forms wait until every lane of the member mask has arrived; a lane that has exited counts as arrived. Each
//! lane may have a different mask, and lanes whose mask is complete continue even while other lanes of the warp still wait.
//! Lanes may also synchronize at copies of the instruction (`machine/meeting.rs`). The forms without `.sync` act on the
//! lanes that happen to execute them together.

#![expect(clippy::as_conversions, clippy::cast_possible_truncation, reason = "lane numbers are below 32")]
#![expect(
    clippy::unnecessary_wraps,
    reason = "all binders share one signature, although most of these cannot fail"
)]

use super::map::merge;
use super::{Bound, Definition, Refusal, Slot, Spec, Unit};
use crate::bind_plain;
use crate::machine::{Flow, LANES, Row, Type, Wait, Warp, Width, at, lanes_of};
use crate::stop::{Blame, StopKind};
use warpproof_num::compare::minmax_f32;

pub(super) const DEFINITIONS: &[Definition] = &[
    Definition {
        form: "shfl.sync.mode.b32 d[|p], a, b, c, membermask; .mode = .up .down .bfly .idx",
        manual: "data-movement-and-conversion-instructions-shfl-sync",
        unit: Unit::Lsu,
        since: (6, 0, 30),
        bind: bind_plain!(shfl_sync),
    },
    Definition {
        form: "shfl.mode.b32 d[|p], a, b, c; .mode = .up .down .bfly .idx",
        manual: "data-movement-and-conversion-instructions-shfl",
        unit: Unit::Lsu,
        since: (3, 0, 30),
        bind: bind_plain!(shfl),
    },
    Definition {
        form: "vote.sync.mode.pred d, {!}a, membermask; .mode = .all .any .uni",
        manual: "parallel-synchronization-and-communication-instructions-vote-sync",
        unit: Unit::Control,
        since: (6, 0, 30),
        bind: bind_plain!(vote_sync),
    },
    Definition {
        form: "vote.sync.ballot.b32 d, {!}a, membermask",
        manual: "parallel-synchronization-and-communication-instructions-vote-sync",
        unit: Unit::Control,
        since: (6, 0, 30),
        bind: bind_plain!(ballot_sync),
    },
    Definition {
        form: "vote.mode.pred d, {!}a; .mode = .all .any .uni",
        manual: "parallel-synchronization-and-communication-instructions-vote",
        unit: Unit::Control,
        since: (1, 2, 12),
        bind: bind_plain!(vote),
    },
    Definition {
        form: "vote.ballot.b32 d, {!}a",
        manual: "parallel-synchronization-and-communication-instructions-vote",
        unit: Unit::Control,
        since: (2, 0, 20),
        bind: bind_plain!(ballot),
    },
    Definition {
        form: "match.any.sync.type d, a, membermask; .type = .b32 .b64",
        manual: "parallel-synchronization-and-communication-instructions-match-sync",
        unit: Unit::Control,
        since: (6, 0, 70),
        bind: bind_plain!(match_any),
    },
    Definition {
        form: "match.all.sync.type d[|p], a, membermask; .type = .b32 .b64",
        manual: "parallel-synchronization-and-communication-instructions-match-sync",
        unit: Unit::Control,
        since: (6, 0, 70),
        bind: bind_plain!(match_all),
    },
    Definition {
        form: "redux.sync.op.type dst, src, membermask; .op = .add .min .max; .type = .u32 .s32",
        manual: "parallel-synchronization-and-communication-instructions-redux-sync",
        unit: Unit::Alu,
        since: (7, 0, 80),
        bind: bind_plain!(redux),
    },
    Definition {
        form: "redux.sync.op.b32 dst, src, membermask; .op = .and .or .xor",
        manual: "parallel-synchronization-and-communication-instructions-redux-sync",
        unit: Unit::Alu,
        since: (7, 0, 80),
        bind: bind_plain!(redux),
    },
    Definition {
        form: "redux.sync.op{.abs}{.NaN}.f32 dst, src, membermask; .op = .min .max",
        manual: "parallel-synchronization-and-communication-instructions-redux-sync",
        unit: Unit::Alu,
        since: (8, 6, 100),
        bind: bind_plain!(redux_single),
    },
    Definition {
        form: "activemask.b32 d",
        manual: "parallel-synchronization-and-communication-instructions-activemask",
        unit: Unit::Alu,
        since: (6, 2, 30),
        bind: bind_plain!(activemask),
    },
    Definition {
        form: "elect.sync d|p, membermask",
        manual: "parallel-synchronization-and-communication-instructions-elect-sync",
        unit: Unit::Alu,
        since: (8, 0, 90),
        bind: bind_plain!(elect),
    },
];

/// Runs `body` for the lanes in `exec` whose member mask, in row `mask`, is complete. `body` gets those lanes in
/// `warp.exec` and, for each lane, the participating members. The other lanes stay at the instruction.
pub(super) fn together(
    w: &mut Warp<'_, '_>,
    mask: u32,
    body: impl FnOnce(&mut Warp<'_, '_>, &Row<u32>),
) -> Flow {
    if let Some(members) = w.state.meeting.clone() {
        let masks = w.state.regs.w32[at(mask)];
        w.exchanged(Some(&masks), None);
        body(w, &members);
        return Flow::Next;
    }
    let masks = w.state.regs.w32[at(mask)];
    let here = w.exec;
    let (union, members) = match member_masks(w, &masks) {
        Ok(found) => found,
        Err(flow) => return flow,
    };
    if w.gather(union) {
        w.exchanged(Some(&masks), None);
        body(w, &members);
        return Flow::Next;
    }
    let present = here | w.state.exited;
    let ready =
        lanes_of(here).filter(|&lane| masks.0[lane] & !present == 0).fold(0, |ready, lane| ready | 1 << lane);
    if ready == 0 {
        return Flow::Wait;
    }
    w.state.subwarp.wait = Wait::None;
    w.exec = ready;
    w.exchanged(Some(&masks), None);
    body(w, &members);
    w.exec = here & !ready;
    let need = lanes_of(w.exec).fold(0, |need, lane| need | masks.0[lane]);
    w.state.subwarp.wait = Wait::Lanes(need);
    Flow::Wait
}

/// The union of the masks of the lanes in `exec`, and each mask restricted to the lanes that are present. A lane that is
/// not in its own mask is a bug in the kernel.
fn member_masks(w: &mut Warp<'_, '_>, masks: &Row<u32>) -> Result<(u32, Row<u32>), Flow> {
    let here = w.exec;
    let mut members = Row([0; LANES]);
    let (mut union, mut own) = (0, 0);
    for lane in 0..LANES {
        members.0[lane] = masks.0[lane] & here;
        let active = (here >> lane & 1).wrapping_neg();
        union |= masks.0[lane] & active;
        own |= masks.0[lane] & active & 1 << lane;
    }
    if own != here {
        let lane = (here & !own).trailing_zeros();
        let sentence = format!("lane {lane} is not in its own member mask {:#010x}", masks.0[at(lane)]);
        return Err(w.halt_lane(Blame::Kernel, StopKind::Lanes, lane, sentence));
    }
    Ok((union, members))
}

#[derive(Clone, Copy)]
enum Shuffle {
    Up,
    Down,
    Bfly,
    Idx,
}

/// The source lane of `lane`, and whether it is in range; a lane whose source is out of range reads itself.
#[inline(always)]
#[expect(clippy::inline_always, reason = "the mode is constant in the loop over lanes")]
fn source_lane(mode: Shuffle, lane: u32, b: u32, c: u32) -> (u32, bool) {
    let (b, clamp, segment) = (b & 31, c & 31, c >> 8 & 31);
    let last = lane & segment | clamp & !segment;
    let (source, in_range) = match mode {
        // A negative lane number is far above any limit when wrapped, and must not count as in range.
        Shuffle::Up => (lane.wrapping_sub(b), lane >= b && lane - b >= last),
        Shuffle::Down => (lane + b, lane + b <= last),
        Shuffle::Bfly => (lane ^ b, lane ^ b <= last),
        Shuffle::Idx => (lane & segment | b & !segment, lane & segment | b & !segment <= last),
    };
    if in_range { (source & 31, true) } else { (lane, false) }
}

fn shuffle_mode(spec: &Spec<'_>) -> Shuffle {
    match spec.get("mode") {
        Some("up") => Shuffle::Up,
        Some("down") => Shuffle::Down,
        Some("bfly") => Shuffle::Bfly,
        _ => Shuffle::Idx,
    }
}

/// Rows: d, p, a, b, c.
fn shuffle(w: &mut Warp<'_, '_>, rows: &[u32; 8], mode: Shuffle, masks: Option<&Row<u32>>) {
    let regs = &w.state.regs;
    let (a, b, c) = (&regs.w32[at(rows[2])], &regs.w32[at(rows[3])], &regs.w32[at(rows[4])]);
    let mut value = Row([0; LANES]);
    let mut sources = Row([0; LANES]);
    let mut in_range = 0;
    for lane in 0..LANES {
        let (source, good) = source_lane(mode, lane as u32, b.0[lane], c.0[lane]);
        value.0[lane] = a.0[at(source)];
        sources.0[lane] = source;
        in_range |= u32::from(good) << lane;
    }
    w.exchanged(masks, Some(&sources));
    merge(&mut w.state.regs.w32[at(rows[0])], &value, w.exec);
    w.set_pred(rows[1], in_range);
}

fn shfl_sync(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let mode = shuffle_mode(spec);
    let source = Slot::Src(Type::U32);
    let slots = [Slot::DstPair(Width::W32), source.clone(), source.clone(), source.clone(), source];
    Ok(Bound::new(slots, move |w, args| {
        together(w, args.o[5], |w, masks| shuffle(w, &args.o, mode, Some(masks)))
    }))
}

fn shfl(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let mode = shuffle_mode(spec);
    let source = Slot::Src(Type::U32);
    Ok(Bound::new([Slot::DstPair(Width::W32), source.clone(), source.clone(), source], move |w, args| {
        shuffle(w, &args.o, mode, None);
        Flow::Next
    }))
}

/// The combined result of the members' predicates.
type Verdict = fn(u32, u32) -> bool;

fn verdict(spec: &Spec<'_>) -> Verdict {
    match spec.get("mode") {
        Some("all") => |votes, members| votes & members == members,
        Some("any") => |votes, members| votes & members != 0,
        _ => |votes, members| votes & members == 0 || votes & members == members,
    }
}

fn vote_sync(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let verdict = verdict(spec);
    Ok(Bound::new([Slot::Dst(Width::Pred), Slot::Src(Type::Pred), Slot::Src(Type::U32)], move |w, args| {
        let votes = w.pred_arg(args, 1);
        together(w, args.o[2], |w, members| {
            let bits = lanes_of(w.exec)
                .fold(0, |bits, lane| bits | u32::from(verdict(votes, members.0[lane])) << lane);
            w.set_pred(args.o[0], bits);
        })
    }))
}

fn ballot_sync(_: &Spec<'_>) -> Result<Bound, Refusal> {
    Ok(Bound::new([Slot::Dst(Width::W32), Slot::Src(Type::Pred), Slot::Src(Type::U32)], |w, args| {
        let votes = w.pred_arg(args, 1);
        together(w, args.o[2], |w, members| {
            let mut ballot = *members;
            ballot.0.iter_mut().for_each(|members| *members &= votes);
            merge(&mut w.state.regs.w32[at(args.o[0])], &ballot, w.exec);
        })
    }))
}

fn vote(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let verdict = verdict(spec);
    Ok(Bound::new([Slot::Dst(Width::Pred), Slot::Src(Type::Pred)], move |w, args| {
        let bits = if verdict(w.pred_arg(args, 1), w.exec) { u32::MAX } else { 0 };
        w.set_pred(args.o[0], bits);
        Flow::Next
    }))
}

fn ballot(_: &Spec<'_>) -> Result<Bound, Refusal> {
    Ok(Bound::new([Slot::Dst(Width::W32), Slot::Src(Type::Pred)], |w, args| {
        let ballot = w.pred_arg(args, 1) & w.exec;
        merge(&mut w.state.regs.w32[at(args.o[0])], &Row::splat(ballot), w.exec);
        Flow::Next
    }))
}

fn match_any(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let ty = spec.ty("type")?;
    Ok(Bound::new([Slot::Dst(Width::W32), Slot::Src(ty), Slot::Src(Type::U32)], move |w, args| {
        let values = w.get_row(ty.width(), args.o[1]);
        together(w, args.o[2], |w, members| {
            let mut same = Row([0; LANES]);
            for lane in lanes_of(w.exec) {
                let equal = lanes_of(members.0[lane]).filter(|&other| values.0[other] == values.0[lane]);
                same.0[lane] = equal.fold(0, |mask, other| mask | 1 << other);
            }
            merge(&mut w.state.regs.w32[at(args.o[0])], &same, w.exec);
        })
    }))
}

fn match_all(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let ty = spec.ty("type")?;
    Ok(Bound::new([Slot::DstPair(Width::W32), Slot::Src(ty), Slot::Src(Type::U32)], move |w, args| {
        let values = w.get_row(ty.width(), args.o[2]);
        together(w, args.o[3], |w, members| {
            let mut same = Row([0; LANES]);
            let mut agree = 0;
            for lane in lanes_of(w.exec) {
                if lanes_of(members.0[lane]).all(|other| values.0[other] == values.0[lane]) {
                    same.0[lane] = members.0[lane];
                    agree |= 1 << lane;
                }
            }
            merge(&mut w.state.regs.w32[at(args.o[0])], &same, w.exec);
            w.set_pred(args.o[1], agree);
        })
    }))
}

fn redux(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let signed = spec.get("type") == Some("s32");
    let combine: fn(u32, u32) -> u32 = match (spec.get("op"), signed) {
        (Some("add"), _) => u32::wrapping_add,
        (Some("min"), false) => u32::min,
        (Some("max"), false) => u32::max,
        (Some("min"), true) => |a, b| a.cast_signed().min(b.cast_signed()).cast_unsigned(),
        (Some("max"), true) => |a, b| a.cast_signed().max(b.cast_signed()).cast_unsigned(),
        (Some("and"), _) => |a, b| a & b,
        (Some("or"), _) => |a, b| a | b,
        _ => |a, b| a ^ b,
    };
    Ok(reduced(Type::U32, combine))
}

/// The smallest or the largest; without `.NaN`, a NaN counts only if all are.
fn redux_single(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let (which, nan) = (super::float::extremum_of(spec.get("op")), spec.has("NaN"));
    let combine = move |a, b| minmax_f32(which, a, b, nan, false, false);
    Ok(if spec.has("abs") {
        reduced(Type::F32, move |a, b| combine(a & 0x7fff_ffff, b & 0x7fff_ffff))
    } else {
        reduced(Type::F32, combine)
    })
}

/// The values of a group, combined in the order of its lanes. A single value is combined with itself.
fn reduced(ty: Type, combine: impl Fn(u32, u32) -> u32 + Copy + Send + Sync + 'static) -> Bound {
    let alone = ty == Type::F32;
    Bound::new([Slot::Dst(Width::W32), Slot::Src(ty), Slot::Src(Type::U32)], move |w, args| {
        let values = w.state.regs.w32[at(args.o[1])];
        together(w, args.o[2], |w, members| {
            let mut out = Row([0; LANES]);
            // Lanes of one group have one result; almost always the warp is one group.
            let mut rest = w.exec;
            while rest != 0 {
                let group = members.0[at(rest.trailing_zeros())];
                let result = lanes_of(group).map(|lane| values.0[lane]).reduce(combine).unwrap_or(0);
                let result = if alone { combine(result, result) } else { result };
                let same = lanes_of(rest).filter(|&lane| members.0[lane] == group);
                for lane in same {
                    out.0[lane] = result;
                    rest &= !(1 << lane);
                }
            }
            merge(&mut w.state.regs.w32[at(args.o[0])], &out, w.exec);
        })
    })
}

fn activemask(_: &Spec<'_>) -> Result<Bound, Refusal> {
    Ok(Bound::new([Slot::Dst(Width::W32)], |w, args| {
        merge(&mut w.state.regs.w32[at(args.o[0])], &Row::splat(w.exec), w.exec);
        Flow::Next
    }))
}

fn elect(_: &Spec<'_>) -> Result<Bound, Refusal> {
    Ok(Bound::new([Slot::DstPair(Width::W32), Slot::Src(Type::U32)], |w, args| {
        together(w, args.o[2], |w, members| {
            let mut leader = Row([0; LANES]);
            let mut elected = 0;
            for lane in lanes_of(w.exec) {
                leader.0[lane] = members.0[lane].trailing_zeros();
                elected |= u32::from(leader.0[lane] == lane as u32) << lane;
            }
            merge(&mut w.state.regs.w32[at(args.o[0])], &leader, w.exec);
            w.set_pred(args.o[1], elected);
        })
    }))
}
