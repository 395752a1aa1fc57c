//! Atomic operations: `atom` returns the old value, `red` does not.
//!
//! Lanes with the same address are served in order of their lane numbers. Scopes and memory orders have no effect here: the
//! accesses of a block happen in one order, and blocks that can communicate do not run in parallel. If they communicate only
//! by operations whose results are unused, these are done after the wave, in block order.

#![expect(
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    reason = "a memory cell is passed as 128 bits and truncated to the width of its type"
)]

pub(super) mod vector;

use super::memory::space_of;
use super::op::Combine;
use super::{Args, Bound, Definition, Op, Refusal, Slot, Spec, Unit};
use crate::bind_plain;
use crate::machine::{Flow, Row, Type, Warp, lanes_of};
use crate::memory::{Operation, Space};
use crate::program::Communication;
use crate::stop::{Blame, StopKind};
use warpproof_num::compare::Extremum;
use warpproof_num::{Rounding, float, half};

pub(super) const DEFINITIONS: &[Definition] = &[
    Definition {
        form: concat!(
            "atom{.sem}{.scope}{.space}.op{.L2::cache_hint}.type d, [a], b{, cache-policy}; .sem = .relaxed .acquire .release .acq_rel",
            "; .scope = .cta .gpu .sys .cluster; .space = .global .shared .shared::cta .shared::cluster; .op = .and .or .xor .exch; .type = .b32 .b64"
        ),
        manual: "parallel-synchronization-and-communication-instructions-atom",
        unit: Unit::Lsu,
        since: (1, 1, 11),
        bind: bind_plain!(atom),
    },
    Definition {
        form: concat!(
            "atom{.sem}{.scope}{.space}.cas.type d, [a], b, c; .sem = .relaxed .acquire .release .acq_rel",
            "; .scope = .cta .gpu .sys .cluster; .space = .global .shared .shared::cta .shared::cluster; .type = .b32 .b64"
        ),
        manual: "parallel-synchronization-and-communication-instructions-atom",
        unit: Unit::Lsu,
        since: (1, 1, 11),
        bind: bind_plain!(atom),
    },
    Definition {
        form: concat!(
            "atom{.sem}{.scope}{.space}.cas.b16 d, [a], b, c; .sem = .relaxed .acquire .release .acq_rel",
            "; .scope = .cta .gpu .sys .cluster; .space = .global .shared .shared::cta .shared::cluster"
        ),
        manual: "parallel-synchronization-and-communication-instructions-atom",
        unit: Unit::Lsu,
        since: (6, 3, 70),
        bind: bind_plain!(atom),
    },
    Definition {
        form: concat!(
            "atom{.sem}{.scope}{.space}.cas.b128 d, [a], b, c; .sem = .relaxed .acquire .release .acq_rel",
            "; .scope = .cta .gpu .sys .cluster; .space = .global .shared .shared::cta .shared::cluster"
        ),
        manual: "parallel-synchronization-and-communication-instructions-atom",
        unit: Unit::Lsu,
        since: (8, 3, 90),
        bind: bind_plain!(atom),
    },
    Definition {
        form: concat!(
            "atom{.sem}{.scope}{.space}.exch{.L2::cache_hint}.b128 d, [a], b{, cache-policy}; .sem = .relaxed .acquire .release .acq_rel",
            "; .scope = .cta .gpu .sys .cluster; .space = .global .shared .shared::cta .shared::cluster"
        ),
        manual: "parallel-synchronization-and-communication-instructions-atom",
        unit: Unit::Lsu,
        since: (8, 3, 90),
        bind: bind_plain!(atom),
    },
    Definition {
        form: concat!(
            "atom{.sem}{.scope}{.space}.add{.L2::cache_hint}.type d, [a], b{, cache-policy}; .sem = .relaxed .acquire .release .acq_rel",
            "; .scope = .cta .gpu .sys .cluster; .space = .global .shared .shared::cta .shared::cluster; .type = .u32 .s32 .u64 .s64"
        ),
        manual: "parallel-synchronization-and-communication-instructions-atom",
        unit: Unit::Lsu,
        since: (1, 1, 11),
        bind: bind_plain!(atom),
    },
    Definition {
        form: concat!(
            "atom{.sem}{.scope}{.space}.op{.L2::cache_hint}.u32 d, [a], b{, cache-policy}; .sem = .relaxed .acquire .release .acq_rel",
            "; .scope = .cta .gpu .sys .cluster; .space = .global .shared .shared::cta .shared::cluster; .op = .inc .dec"
        ),
        manual: "parallel-synchronization-and-communication-instructions-atom",
        unit: Unit::Lsu,
        since: (1, 1, 11),
        bind: bind_plain!(atom),
    },
    Definition {
        form: concat!(
            "atom{.sem}{.scope}{.space}.op{.L2::cache_hint}.type d, [a], b{, cache-policy}; .sem = .relaxed .acquire .release .acq_rel",
            "; .scope = .cta .gpu .sys .cluster; .space = .global .shared .shared::cta .shared::cluster; .op = .min .max; .type = .u32 .s32 .u64 .s64"
        ),
        manual: "parallel-synchronization-and-communication-instructions-atom",
        unit: Unit::Lsu,
        since: (1, 1, 11),
        bind: bind_plain!(atom),
    },
    Definition {
        form: concat!(
            "atom{.sem}{.scope}{.space}.add{.L2::cache_hint}.f32 d, [a], b{, cache-policy}; .sem = .relaxed .acquire .release .acq_rel",
            "; .scope = .cta .gpu .sys .cluster; .space = .global .shared .shared::cta .shared::cluster"
        ),
        manual: "parallel-synchronization-and-communication-instructions-atom",
        unit: Unit::Lsu,
        since: (2, 0, 20),
        bind: bind_plain!(atom),
    },
    Definition {
        form: concat!(
            "atom{.sem}{.scope}{.space}.add{.L2::cache_hint}.f64 d, [a], b{, cache-policy}; .sem = .relaxed .acquire .release .acq_rel",
            "; .scope = .cta .gpu .sys .cluster; .space = .global .shared .shared::cta .shared::cluster"
        ),
        manual: "parallel-synchronization-and-communication-instructions-atom",
        unit: Unit::Lsu,
        since: (5, 0, 60),
        bind: bind_plain!(atom),
    },
    Definition {
        form: concat!(
            "atom{.sem}{.scope}{.space}.add.noftz{.L2::cache_hint}.f16x2 d, [a], b{, cache-policy}; .sem = .relaxed .acquire .release .acq_rel",
            "; .scope = .cta .gpu .sys .cluster; .space = .global .shared .shared::cta .shared::cluster"
        ),
        manual: "parallel-synchronization-and-communication-instructions-atom",
        unit: Unit::Lsu,
        since: (6, 2, 60),
        bind: bind_plain!(atom),
    },
    Definition {
        form: concat!(
            "atom{.sem}{.scope}{.space}.add.noftz{.L2::cache_hint}.f16 d, [a], b{, cache-policy}; .sem = .relaxed .acquire .release .acq_rel",
            "; .scope = .cta .gpu .sys .cluster; .space = .global .shared .shared::cta .shared::cluster"
        ),
        manual: "parallel-synchronization-and-communication-instructions-atom",
        unit: Unit::Lsu,
        since: (6, 3, 70),
        bind: bind_plain!(atom),
    },
    Definition {
        form: concat!(
            "atom{.sem}{.scope}{.space}.add.noftz{.L2::cache_hint}.type d, [a], b{, cache-policy}; .sem = .relaxed .acquire .release .acq_rel",
            "; .scope = .cta .gpu .sys .cluster; .space = .global .shared .shared::cta .shared::cluster; .type = .bf16 .bf16x2"
        ),
        manual: "parallel-synchronization-and-communication-instructions-atom",
        unit: Unit::Lsu,
        since: (7, 8, 90),
        bind: bind_plain!(atom),
    },
    Definition {
        form: concat!(
            "red{.sem}{.scope}{.space}.op{.L2::cache_hint}.type [a], b{, cache-policy}; .sem = .relaxed .release",
            "; .scope = .cta .gpu .sys .cluster; .space = .global .shared .shared::cta .shared::cluster; .op = .and .or .xor; .type = .b32 .b64"
        ),
        manual: "parallel-synchronization-and-communication-instructions-red",
        unit: Unit::Lsu,
        since: (1, 2, 11),
        bind: bind_plain!(red),
    },
    Definition {
        form: concat!(
            "red{.sem}{.scope}{.space}.add{.L2::cache_hint}.type [a], b{, cache-policy}; .sem = .relaxed .release",
            "; .scope = .cta .gpu .sys .cluster; .space = .global .shared .shared::cta .shared::cluster; .type = .u32 .s32 .u64 .s64"
        ),
        manual: "parallel-synchronization-and-communication-instructions-red",
        unit: Unit::Lsu,
        since: (1, 2, 11),
        bind: bind_plain!(red),
    },
    Definition {
        form: "red.async{.mmio}.release.scope{.space}.add.type [a], b; .scope = .gpu .sys; .space = .global; .type = .u32 .s32 .u64 .s64",
        manual: "parallel-synchronization-and-communication-instructions-red-async",
        unit: Unit::Lsu,
        since: (8, 7, 100),
        bind: bind_plain!(red),
    },
    Definition {
        form: concat!(
            "red{.sem}{.scope}{.space}.op{.L2::cache_hint}.u32 [a], b{, cache-policy}; .sem = .relaxed .release",
            "; .scope = .cta .gpu .sys .cluster; .space = .global .shared .shared::cta .shared::cluster; .op = .inc .dec"
        ),
        manual: "parallel-synchronization-and-communication-instructions-red",
        unit: Unit::Lsu,
        since: (1, 2, 11),
        bind: bind_plain!(red),
    },
    Definition {
        form: concat!(
            "red{.sem}{.scope}{.space}.op{.L2::cache_hint}.type [a], b{, cache-policy}; .sem = .relaxed .release",
            "; .scope = .cta .gpu .sys .cluster; .space = .global .shared .shared::cta .shared::cluster; .op = .min .max; .type = .u32 .s32 .u64 .s64"
        ),
        manual: "parallel-synchronization-and-communication-instructions-red",
        unit: Unit::Lsu,
        since: (1, 2, 11),
        bind: bind_plain!(red),
    },
    Definition {
        form: concat!(
            "red{.sem}{.scope}{.space}.add{.L2::cache_hint}.f32 [a], b{, cache-policy}; .sem = .relaxed .release",
            "; .scope = .cta .gpu .sys .cluster; .space = .global .shared .shared::cta .shared::cluster"
        ),
        manual: "parallel-synchronization-and-communication-instructions-red",
        unit: Unit::Lsu,
        since: (2, 0, 20),
        bind: bind_plain!(red),
    },
    Definition {
        form: concat!(
            "red{.sem}{.scope}{.space}.add{.L2::cache_hint}.f64 [a], b{, cache-policy}; .sem = .relaxed .release",
            "; .scope = .cta .gpu .sys .cluster; .space = .global .shared .shared::cta .shared::cluster"
        ),
        manual: "parallel-synchronization-and-communication-instructions-red",
        unit: Unit::Lsu,
        since: (5, 0, 60),
        bind: bind_plain!(red),
    },
    Definition {
        form: concat!(
            "red{.sem}{.scope}{.space}.add.noftz{.L2::cache_hint}.f16x2 [a], b{, cache-policy}; .sem = .relaxed .release",
            "; .scope = .cta .gpu .sys .cluster; .space = .global .shared .shared::cta .shared::cluster"
        ),
        manual: "parallel-synchronization-and-communication-instructions-red",
        unit: Unit::Lsu,
        since: (6, 2, 60),
        bind: bind_plain!(red),
    },
    Definition {
        form: concat!(
            "red{.sem}{.scope}{.space}.add.noftz{.L2::cache_hint}.f16 [a], b{, cache-policy}; .sem = .relaxed .release",
            "; .scope = .cta .gpu .sys .cluster; .space = .global .shared .shared::cta .shared::cluster"
        ),
        manual: "parallel-synchronization-and-communication-instructions-red",
        unit: Unit::Lsu,
        since: (6, 3, 70),
        bind: bind_plain!(red),
    },
    Definition {
        form: concat!(
            "red{.sem}{.scope}{.space}.add.noftz{.L2::cache_hint}.type [a], b{, cache-policy}; .sem = .relaxed .release",
            "; .scope = .cta .gpu .sys .cluster; .space = .global .shared .shared::cta .shared::cluster; .type = .bf16 .bf16x2"
        ),
        manual: "parallel-synchronization-and-communication-instructions-red",
        unit: Unit::Lsu,
        since: (7, 8, 90),
        bind: bind_plain!(red),
    },
];

/// The new value of the cell, from its old value and operand `b`.
type Update = fn(u128, u128) -> u128;

/// The operators on a cell. According to the manual, global memory adds f32 with subnormals flushed, shared memory without.
#[derive(Clone, Copy)]
struct Operator {
    global: Update,
    shared: Update,
}

fn operator(spec: &Spec<'_>, ty: Type) -> Result<Operator, Refusal> {
    let name = spec.get("op").or_else(|| spec.get("add")).or_else(|| spec.get("exch"));
    named(name.unwrap_or(""), ty).ok_or_else(|| spec.gap("this operator"))
}

/// The operation on each element that a reduction by an asynchronous agent or on a vector names, in shared or global memory.
pub(super) fn operation_of(name: &str, ty: Type, shared: bool) -> Option<Operation> {
    Some(Operation { combine: Combine::parse(name)?, ty, apply: update_of(name, ty, shared)? })
}

fn update_of(name: &str, ty: Type, shared: bool) -> Option<Update> {
    Some(match (name, ty) {
        ("min", Type::F16) => {
            |old, b| u128::from(half::minmax_f16(Extremum::Min, old as u16, b as u16, false, false, false))
        }
        ("max", Type::F16) => {
            |old, b| u128::from(half::minmax_f16(Extremum::Max, old as u16, b as u16, false, false, false))
        }
        ("min", Type::BF16) => {
            |old, b| u128::from(half::minmax_bf16(Extremum::Min, old as u16, b as u16, false, false))
        }
        ("max", Type::BF16) => {
            |old, b| u128::from(half::minmax_bf16(Extremum::Max, old as u16, b as u16, false, false))
        }
        _ => {
            let operator = named(name, ty)?;
            if shared { operator.shared } else { operator.global }
        }
    })
}

fn named(name: &str, ty: Type) -> Option<Operator> {
    let update: Update = match (name, ty) {
        ("and", _) => |old, b| old & b,
        ("or", _) => |old, b| old | b,
        ("xor", _) => |old, b| old ^ b,
        ("exch", _) => |_, b| b,
        ("inc", _) => |old, b| if old >= b { 0 } else { old + 1 },
        ("dec", _) => |old, b| if old == 0 || old > b { b } else { old - 1 },
        ("min", Type::U32 | Type::U64) => u128::min,
        ("max", Type::U32 | Type::U64) => u128::max,
        ("min", Type::S32) => {
            |old, b| if (old as u32).cast_signed() <= (b as u32).cast_signed() { old } else { b }
        }
        ("max", Type::S32) => {
            |old, b| if (old as u32).cast_signed() >= (b as u32).cast_signed() { old } else { b }
        }
        ("min", _) => |old, b| if (old as u64).cast_signed() <= (b as u64).cast_signed() { old } else { b },
        ("max", _) => |old, b| if (old as u64).cast_signed() >= (b as u64).cast_signed() { old } else { b },
        ("add", Type::U32 | Type::S32) => |old, b| u128::from((old as u32).wrapping_add(b as u32)),
        ("add", Type::U64 | Type::S64) => |old, b| u128::from((old as u64).wrapping_add(b as u64)),
        ("add", Type::F32) => {
            return Some(Operator {
                global: |old, b| u128::from(float::add_f32(old as u32, b as u32, Rounding::Rn, true)),
                shared: |old, b| u128::from(float::add_f32(old as u32, b as u32, Rounding::Rn, false)),
            });
        }
        ("add", Type::F64) => |old, b| u128::from(float::add_f64(old as u64, b as u64, Rounding::Rn)),
        ("add", Type::F16) => |old, b| u128::from(half::add_f16(old as u16, b as u16, false)),
        ("add", Type::BF16) => |old, b| u128::from(half::add_bf16(old as u16, b as u16)),
        ("add", Type::F16x2) => |old, b| {
            let low = half::add_f16(old as u16, b as u16, false);
            let high = half::add_f16((old >> 16) as u16, (b >> 16) as u16, false);
            u128::from(high) << 16 | u128::from(low)
        },
        ("add", Type::BF16x2) => |old, b| {
            let low = half::add_bf16(old as u16, b as u16);
            let high = half::add_bf16((old >> 16) as u16, (b >> 16) as u16);
            u128::from(high) << 16 | u128::from(low)
        },
        _ => return None,
    };
    Some(Operator { global: update, shared: update })
}

/// The type, which a form gives as a class or as a literal.
fn type_of(spec: &Spec<'_>) -> Result<Type, Refusal> {
    let named = ["b16", "b128", "u32", "f32", "f64", "f16", "f16x2"].into_iter().find(|name| spec.has(name));
    named.and_then(Type::parse).map_or_else(|| spec.ty("type"), Ok)
}

fn atom(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let ty = type_of(spec)?;
    let mut slots = vec![Slot::Dst(ty.width()), Slot::Address, Slot::Src(ty)];
    if spec.has("cas") {
        slots.push(Slot::Src(ty));
        let space = space_of(spec.get("space"));
        return Ok(ordered(spec, space, Bound::fallible(slots, move |w, args| cas(w, args, space, ty))));
    }
    modify(spec, slots, 1, ty)
}

fn red(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let ty = type_of(spec)?;
    modify(spec, vec![Slot::Address, Slot::Src(ty)], 0, ty)
}

/// Binds an operator; its operand is at position `b` of the rows, after the result if there is one.
fn modify(spec: &Spec<'_>, mut slots: Vec<Slot>, b: usize, ty: Type) -> Result<Bound, Refusal> {
    let space = space_of(spec.get("space"));
    let operator = operator(spec, ty)?;
    let later = reduces(spec).map(|combine| match ty {
        // Of 128 bits there is only the exchange, which is one of each half.
        Type::B128 => Operation { combine, ty: Type::B64, apply: operator.global },
        _ => Operation { combine, ty, apply: operator.global },
    });
    // A cache policy does not affect values.
    if spec.operands.len() > slots.len() {
        slots.push(Slot::Src(Type::B64));
    }
    let bound = Bound::fallible(slots, move |w, args| {
        let addresses = reachable(w, args, space)?;
        let operand = w.get_row(ty.width(), args.o[b]);
        let later = later.map(|operation| (operation, &operand));
        let old = w.update_by(space, &addresses, ty.bytes(), later, |lane, old| {
            let shared = match space {
                Space::Generic => Space::resolve(addresses.0[lane]).0 == Space::Shared,
                space => space == Space::Shared,
            };
            let update = if shared { operator.shared } else { operator.global };
            update(old, operand.0[lane])
        })?;
        if b == 1 {
            w.put_row(ty.width(), args.o[0], &old);
        }
        Ok(Flow::Next)
    });
    Ok(ordered(spec, space, bound))
}

/// What the instruction computes, if it can be done when the block has ended.
fn reduces(spec: &Spec<'_>) -> Option<Combine> {
    match Op::of(spec)? {
        Op::Atomic(atomic) => atomic.is_reduction().then_some(atomic.combine),
        _ => None,
    }
}

fn cas(w: &mut Warp<'_, '_>, args: &Args, space: Space, ty: Type) -> Result<Flow, Flow> {
    let addresses = reachable(w, args, space)?;
    let compare = w.get_row(ty.width(), args.o[1]);
    let swap = w.get_row(ty.width(), args.o[2]);
    let old = w.update(space, &addresses, ty.bytes(), |lane, old| {
        // An immediate fills its whole row, which is wider than a 16-bit cell.
        let compare = if ty == Type::B16 { compare.0[lane] & 0xffff } else { compare.0[lane] };
        if old == compare { swap.0[lane] } else { old }
    })?;
    w.put_row(ty.width(), args.o[0], &old);
    Ok(Flow::Next)
}

/// The addresses of the lanes; a generic address of local memory is an error.
fn reachable(w: &mut Warp<'_, '_>, args: &Args, space: Space) -> Result<Row<u64>, Flow> {
    let addresses = w.addresses(args.at[0]);
    if space == Space::Generic {
        let local = lanes_of(w.exec).find(|&lane| Space::resolve(addresses.0[lane]).0 == Space::Local);
        if let Some(lane) = local {
            let sentence = format!(
                "atomic access at local address {:#x}: atomics support only global and shared memory",
                Space::resolve(addresses.0[lane]).1
            );
            return Err(w.halt_lane(Blame::Kernel, StopKind::Bounds, lane as u32, sentence));
        }
    }
    Ok(addresses)
}

/// Blocks can communicate through global memory, and a generic address may refer to it.
fn ordered(spec: &Spec<'_>, space: Space, bound: Bound) -> Bound {
    match (space, reduces(spec)) {
        (Space::Generic | Space::Global, Some(_)) => bound.communicating(Communication::Reductions),
        (Space::Generic | Space::Global, None) => bound.communicating(Communication::Any),
        _ => bound,
    }
}
