//! Stack memory whose size is known only at run time.
//!
//! The stacks of all lanes of a fragment end at the same offset, so every lane gets as much as the lane that requests most.

use super::{Bound, Definition, Refusal, Slot, Spec, Unit};
use crate::bind_plain;
use crate::machine::{Flow, Row, lanes_of};

pub(super) const DEFINITIONS: &[Definition] = &[
    Definition {
        form: "stacksave.type d; .type = .u32 .u64",
        manual: "stack-manipulation-instructions-stacksave",
        unit: Unit::Alu,
        since: (7, 3, 52),
        bind: bind_plain!(stacksave),
    },
    Definition {
        form: "stackrestore.type a; .type = .u32 .u64",
        manual: "stack-manipulation-instructions-stackrestore",
        unit: Unit::Alu,
        since: (7, 3, 52),
        bind: bind_plain!(stackrestore),
    },
    Definition {
        form: "alloca.type ptr, size, immAlign; .type = .u32 .u64",
        manual: "stack-manipulation-instructions-alloca",
        unit: Unit::Alu,
        since: (7, 3, 52),
        bind: bind_plain!(alloca),
    },
];

/// The default alignment of an allocation.
const ALIGN: i64 = 8;

fn stacksave(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let ty = spec.ty("type")?;
    Ok(Bound::new([Slot::Dst(ty.width())], move |w, args| {
        let top = w.stack_top();
        w.put_row(ty.width(), args.o[0], &Row::splat(u128::from(top)));
        Flow::Next
    }))
}

fn stackrestore(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let ty = spec.ty("type")?;
    Ok(Bound::new([Slot::Src(ty)], move |w, args| {
        let saved = w.get_row(ty.width(), args.o[0]);
        let top = lanes_of(w.exec).map(|lane| saved.0[lane]).max().unwrap_or(0);
        w.release(u64::try_from(top).unwrap_or(u64::MAX));
        Flow::Next
    }))
}

fn alloca(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let ty = spec.ty("type")?;
    let align = match spec.operands.len() {
        2 => ALIGN,
        _ => spec
            .integer(2)
            .ok_or_else(|| Refusal::Malformed("the alignment of `alloca` must be a number".into()))?,
    };
    let align = u32::try_from(align).ok().filter(|align| align.is_power_of_two() && *align <= 1 << 23);
    let Some(align) = align else {
        return Err(Refusal::Malformed(
            "the alignment of `alloca` must be a power of two of at most 2^23".into(),
        ));
    };
    let mut slots = vec![Slot::Dst(ty.width()), Slot::Src(ty)];
    slots.resize(spec.operands.len().clamp(2, 3), Slot::Static);
    Ok(Bound::fallible(slots, move |w, args| {
        let sizes = w.get_row(ty.width(), args.o[1]);
        let most = lanes_of(w.exec).map(|lane| sizes.0[lane]).max().unwrap_or(0);
        let start = w.allocate(u64::try_from(most).unwrap_or(u64::MAX), align)?;
        w.put_row(ty.width(), args.o[0], &Row::splat(u128::from(start)));
        Ok(Flow::Next)
    }))
}
