//! Atomic operations on vectors: adjacent elements of global memory, each of them atomic by itself.

#![expect(
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    reason = "a vector is passed as 128 bits, of which each element is a part"
)]

use super::{operation_of, ordered, reachable, reduces};
use crate::bind_plain;
use crate::isa::memory::space_of;
use crate::isa::{Args, Bound, Definition, Refusal, Slot, Spec, Unit};
use crate::machine::{Flow, LANES, Row, Type, Warp, lanes_of};
use crate::memory::{Operation, Space};
use crate::stop::{Blame, StopKind};

macro_rules! vectors {
    ($($bind:ident $section:literal $head:literal $sem:literal: $($tail:literal)*);* $(;)?) => {
        &[$($(Definition {
            form: concat!(
                $head, "{.sem}{.scope}{.global}", $tail, "; .sem = ", $sem, "; .scope = .cta .gpu .sys .cluster"
            ),
            manual: $section,
            unit: Unit::Lsu,
            since: (8, 1, 90),
            bind: bind_plain!($bind),
        },)*)*]
    };
}

pub(in crate::isa) const DEFINITIONS: &[Definition] = vectors! {
    atom "parallel-synchronization-and-communication-instructions-atom" "atom" ".relaxed .acquire .release .acq_rel":
        ".add{.L2::cache_hint}.vec.f32 d, [a], b{, cache-policy}; .vec = .v2 .v4"
        ".op.noftz{.L2::cache_hint}.vec.type d, [a], b{, cache-policy}; .op = .add .min .max; .vec = .v2 .v4 .v8; .type = .f16 .bf16"
        ".op.noftz{.L2::cache_hint}.vec.type d, [a], b{, cache-policy}; .op = .add .min .max; .vec = .v2 .v4; .type = .f16x2 .bf16x2";
    red "parallel-synchronization-and-communication-instructions-red" "red" ".relaxed .release":
        ".add{.L2::cache_hint}.vec.f32 [a], b{, cache-policy}; .vec = .v2 .v4"
        ".op.noftz{.L2::cache_hint}.vec.type [a], b{, cache-policy}; .op = .add .min .max; .vec = .v2 .v4 .v8; .type = .f16 .bf16"
        ".op.noftz{.L2::cache_hint}.vec.type [a], b{, cache-policy}; .op = .add .min .max; .vec = .v2 .v4; .type = .f16x2 .bf16x2";
};

fn atom(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    bind(spec, true)
}

fn red(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    bind(spec, false)
}

/// What is done to a vector.
#[derive(Clone, Copy)]
struct Vector {
    space: Space,
    /// Of a register.
    ty: Type,
    /// Registers.
    count: usize,
    /// On each scalar element: half of a register if it has two.
    operation: Operation,
    /// Whether it can be done when the block has ended.
    reduces: bool,
    returns: bool,
}

impl Vector {
    fn bytes(&self) -> u32 {
        self.ty.bytes() * u32::try_from(self.count).unwrap_or(0)
    }

    /// The new value of the vector, element by element.
    fn combine(&self, old: u128, operand: u128) -> u128 {
        let bits = 8 * self.operation.ty.bytes();
        let mask = (1u128 << bits) - 1;
        (0..8 * self.bytes())
            .step_by(bits as usize)
            .map(|at| ((self.operation.apply)(old >> at & mask, operand >> at & mask) & mask) << at)
            .fold(0, |all, element| all | element)
    }

    fn run(&self, w: &mut Warp<'_, '_>, args: &Args) -> Result<Flow, Flow> {
        let addresses = reachable(w, args, self.space)?;
        if self.space == Space::Generic {
            let shared = lanes_of(w.exec).find(|&lane| Space::resolve(addresses.0[lane]).0 != Space::Global);
            if let Some(lane) = shared {
                let sentence = format!(
                    "atomic access to a vector at shared address {:#x}: atomics on vectors support only global memory",
                    Space::resolve(addresses.0[lane]).1
                );
                return Err(w.halt_lane(Blame::Kernel, StopKind::Bounds, lane as u32, sentence));
            }
        }
        let (width, step) = (self.ty.width(), 8 * self.ty.bytes());
        let first = if self.returns { self.count } else { 0 };
        let mut operand = Row([0u128; LANES]);
        for (i, row) in args.all.iter().skip(first).take(self.count).enumerate() {
            let part = w.get_row(width, *row);
            for (all, part) in operand.0.iter_mut().zip(part.0) {
                *all |= (part & ((1 << step) - 1)) << (i as u32 * step);
            }
        }
        let later = self.reduces.then_some((self.operation, &operand));
        let old = w.update_by(self.space, &addresses, self.bytes(), later, |lane, old| {
            self.combine(old, operand.0[lane])
        })?;
        if self.returns {
            for (i, row) in args.all.iter().take(self.count).enumerate() {
                let part = Row(old.0.map(|old| old >> (i as u32 * step) & ((1 << step) - 1)));
                w.put_row(width, *row, &part);
            }
        }
        Ok(Flow::Next)
    }
}

fn bind(spec: &Spec<'_>, returns: bool) -> Result<Bound, Refusal> {
    let ty = if spec.has("f32") { Type::F32 } else { spec.ty("type")? };
    let count = match spec.get("vec") {
        Some("v2") => 2,
        Some("v4") => 4,
        _ => 8,
    };
    let element = match ty {
        Type::F16x2 => Type::F16,
        Type::BF16x2 => Type::BF16,
        other => other,
    };
    let name = spec.get("op").or_else(|| spec.get("add")).unwrap_or_default();
    let operation = operation_of(name, element, false).ok_or_else(|| spec.gap("this operator"))?;
    let (space, reduces) = (space_of(spec.get("global")), reduces(spec).is_some());
    let vector = Vector { space, ty, count, operation, reduces, returns };
    let mut slots = vec![Slot::Address, Slot::SrcVec(vec![ty; count])];
    if returns {
        slots.insert(0, Slot::DstVec(vec![ty.width(); count]));
    }
    // A cache policy does not affect values.
    if spec.operands.len() > slots.len() {
        slots.push(Slot::Src(Type::B64));
    }
    Ok(ordered(spec, vector.space, Bound::fallible(slots, move |w, args| vector.run(w, args))))
}
