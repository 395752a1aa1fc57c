//! Cache hints. They do not affect values; only their addresses and operands are checked.

#![expect(
    clippy::unnecessary_wraps,
    reason = "all binders share one signature, although most of these cannot fail"
)]

use super::{Args, Bound, Definition, Refusal, Slot, Spec, Unit};
use crate::bind_plain;
use crate::machine::{AccessKind, Flow, Row, Type, Warp, Width, at, lanes_of};
use crate::memory::Space;
use crate::stop::{Blame, StopKind};

pub(super) const DEFINITIONS: &[Definition] = &[
    Definition {
        form: "prefetch{.space}.level [a]; .space = .global .local; .level = .L1 .L2",
        manual: "data-movement-and-conversion-instructions-prefetch-prefetchu",
        unit: Unit::Lsu,
        since: (2, 0, 20),
        bind: bind_plain!(prefetch),
    },
    Definition {
        form: "prefetch.global.priority [a]; .priority = .L2::evict_last .L2::evict_normal",
        manual: "data-movement-and-conversion-instructions-prefetch-prefetchu",
        unit: Unit::Lsu,
        since: (7, 4, 80),
        bind: bind_plain!(prefetch),
    },
    Definition {
        form: "prefetch{.space}.tensormap [a]; .space = .const .param",
        manual: "data-movement-and-conversion-instructions-prefetch-prefetchu",
        unit: Unit::Lsu,
        since: (8, 0, 90),
        bind: bind_plain!(prefetch),
    },
    Definition {
        form: "prefetchu.L1 [a]",
        manual: "data-movement-and-conversion-instructions-prefetch-prefetchu",
        unit: Unit::Lsu,
        since: (2, 0, 20),
        bind: bind_plain!(prefetch),
    },
    Definition {
        form: "applypriority{.global}.L2::evict_normal [a], 128",
        manual: "data-movement-and-conversion-instructions-applypriority",
        unit: Unit::Lsu,
        since: (7, 4, 80),
        bind: bind_plain!(applypriority),
    },
    Definition {
        form: "discard{.global}.L2 [a], 128",
        manual: "data-movement-and-conversion-instructions-discard",
        unit: Unit::Lsu,
        since: (7, 4, 80),
        bind: bind_plain!(discard),
    },
    Definition {
        form: concat!(
            "createpolicy.range{.global}.primary{.secondary}.b64 cache-policy, [a], primary-size, total-size",
            "; .primary = .L2::evict_last .L2::evict_normal .L2::evict_first .L2::evict_unchanged",
            "; .secondary = .L2::evict_first .L2::evict_unchanged"
        ),
        manual: "data-movement-and-conversion-instructions-createpolicy",
        unit: Unit::Alu,
        since: (7, 4, 80),
        bind: bind_plain!(range_policy),
    },
    Definition {
        form: concat!(
            "createpolicy.fractional.primary{.secondary}.b64 cache-policy{, fraction}",
            "; .primary = .L2::evict_last .L2::evict_normal .L2::evict_first .L2::evict_unchanged",
            "; .secondary = .L2::evict_first .L2::evict_unchanged"
        ),
        manual: "data-movement-and-conversion-instructions-createpolicy",
        unit: Unit::Alu,
        since: (7, 4, 80),
        bind: bind_plain!(fractional_policy),
    },
    Definition {
        form: "createpolicy.cvt.L2.b64 cache-policy, access-property",
        manual: "data-movement-and-conversion-instructions-createpolicy",
        unit: Unit::Alu,
        since: (7, 4, 80),
        bind: bind_plain!(convert_policy),
    },
];

/// The only size `applypriority` and `discard` accept, and the alignment they require.
const LINE: u32 = 128;

/// A prefetch of unmapped memory is not an error.
fn prefetch(_: &Spec<'_>) -> Result<Bound, Refusal> {
    Ok(Bound::new([Slot::Address], |_, _| Flow::Next))
}

fn applypriority(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    line(spec, AccessKind::Read)
}

/// The manual calls it a write of an indeterminate value. Memory keeps its value here, which is one of the allowed
/// outcomes.
fn discard(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    line(spec, AccessKind::Write)
}

fn line(spec: &Spec<'_>, kind: AccessKind) -> Result<Bound, Refusal> {
    if let Some(size) = spec.integer(1).filter(|size| *size != i64::from(LINE)) {
        return Err(Refusal::Malformed(format!("a size of {size} bytes; expected {LINE}")));
    }
    let space = if spec.has("global") { Space::Global } else { Space::Generic };
    Ok(Bound::fallible([Slot::Address, Slot::Static], move |w, args| check_line(w, args, space, kind)))
}

fn check_line(w: &mut Warp<'_, '_>, args: &Args, space: Space, kind: AccessKind) -> Result<Flow, Flow> {
    let addresses = w.addresses(args.at[0]);
    for lane in lanes_of(w.exec) {
        let address = addresses.0[lane];
        let outside = space == Space::Generic && Space::resolve(address).0 != Space::Global;
        if outside {
            let sentence = format!("generic address {address:#x} is not in global memory");
            let lane = u32::try_from(lane).unwrap_or(0);
            return Err(w.halt_lane(Blame::Kernel, StopKind::Bounds, lane, sentence));
        }
        let probed = w.probe(Space::Global, address, LINE, kind == AccessKind::Write);
        probed.map_err(|fault| w.fault(lane, fault, kind, LINE))?;
    }
    if kind == AccessKind::Write {
        w.announce_lanes(Space::Global, kind, &addresses, LINE, w.exec);
    }
    Ok(Flow::Next)
}

/// A policy is opaque to kernels. Here its low bytes hold its two priorities, and it is never zero.
fn policy(spec: &Spec<'_>) -> u64 {
    let code = |name: Option<&str>| match name {
        Some("L2::evict_last") => 1,
        Some("L2::evict_normal") => 2,
        Some("L2::evict_first") => 3,
        _ => 4,
    };
    code(spec.get("primary")) | code(spec.get("secondary")) << 8
}

fn range_policy(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let policy = policy(spec);
    let slots = [Slot::Dst(Width::W64), Slot::Address, Slot::Src(Type::U32), Slot::Src(Type::U32)];
    Ok(Bound::new(slots, move |w, args| {
        let (primary, total) = (w.state.regs.w32[at(args.o[1])], w.state.regs.w32[at(args.o[2])]);
        if let Some(lane) = lanes_of(w.exec).find(|&lane| primary.0[lane] > total.0[lane]) {
            let sentence = format!(
                "a cache policy with a primary size of {} bytes in a total of {}",
                primary.0[lane], total.0[lane]
            );
            return w.halt_lane(
                Blame::Kernel,
                StopKind::Malformed,
                u32::try_from(lane).unwrap_or(0),
                sentence,
            );
        }
        w.put_row(Width::W64, args.o[0], &Row::splat(u128::from(policy)));
        Flow::Next
    }))
}

fn fractional_policy(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let policy = policy(spec);
    let mut slots = vec![Slot::Dst(Width::W64)];
    if spec.operands.len() > 1 {
        slots.push(Slot::Src(Type::F32));
    }
    let given = slots.len() > 1;
    Ok(Bound::new(slots, move |w, args| {
        let fractions = if given { w.state.regs.w32[at(args.o[1])] } else { Row::splat(1f32.to_bits()) };
        let mut out = Row([0; 32]);
        for lane in lanes_of(w.exec) {
            let fraction = f32::from_bits(fractions.0[lane]);
            if !(fraction > 0.0 && fraction <= 1.0) {
                let sentence =
                    format!("a cache policy for a fraction of {fraction}; it must be above 0 and at most 1");
                return w.halt_lane(
                    Blame::Kernel,
                    StopKind::Malformed,
                    u32::try_from(lane).unwrap_or(0),
                    sentence,
                );
            }
            out.0[lane] = u128::from(policy) | u128::from(fractions.0[lane]) << 32;
        }
        w.put_row(Width::W64, args.o[0], &out);
        Flow::Next
    }))
}

fn convert_policy(_: &Spec<'_>) -> Result<Bound, Refusal> {
    Ok(Bound::new([Slot::Dst(Width::W64), Slot::Src(Type::B64)], |w, args| {
        let property = w.get_row(Width::W64, args.o[1]);
        w.put_row(Width::W64, args.o[0], &property);
        Flow::Next
    }))
}
