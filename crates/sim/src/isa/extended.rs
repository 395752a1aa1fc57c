//! Extended-precision integer arithmetic: the condition code holds the carry.

use super::map::merge;
use super::{Bound, Definition, Refusal, Slot, Spec, Unit};
use crate::bind;
use crate::machine::{Flow, LANES, Lane, Row, Scalar, Type};
use crate::simd::Simd;
use warpproof_num::int;

pub(super) const DEFINITIONS: &[Definition] = &[
    Definition {
        form: "add.cc.type d, a, b; .type = .u32 .s32 .u64 .s64",
        manual: "extended-precision-arithmetic-instructions-add-cc",
        unit: Unit::Alu,
        since: (1, 2, 10),
        bind: bind!(add_cc),
    },
    Definition {
        form: "addc{.cc}.type d, a, b; .type = .u32 .s32 .u64 .s64",
        manual: "extended-precision-arithmetic-instructions-addc",
        unit: Unit::Alu,
        since: (1, 2, 10),
        bind: bind!(addc),
    },
    Definition {
        form: "sub.cc.type d, a, b; .type = .u32 .s32 .u64 .s64",
        manual: "extended-precision-arithmetic-instructions-sub-cc",
        unit: Unit::Alu,
        since: (1, 2, 10),
        bind: bind!(sub_cc),
    },
    Definition {
        form: "subc{.cc}.type d, a, b; .type = .u32 .s32 .u64 .s64",
        manual: "extended-precision-arithmetic-instructions-subc",
        unit: Unit::Alu,
        since: (1, 2, 10),
        bind: bind!(subc),
    },
    Definition {
        form: "mad.mode.cc.type d, a, b, c; .mode = .hi .lo; .type = .u32 .s32 .u64 .s64",
        manual: "extended-precision-arithmetic-instructions-mad-cc",
        unit: Unit::Fma,
        since: (3, 0, 20),
        bind: bind!(mad_cc),
    },
    Definition {
        form: "madc.mode{.cc}.type d, a, b, c; .mode = .hi .lo; .type = .u32 .s32 .u64 .s64",
        manual: "extended-precision-arithmetic-instructions-madc",
        unit: Unit::Fma,
        since: (3, 0, 20),
        bind: bind!(madc),
    },
];

/// How an instruction uses the condition code.
#[derive(Clone, Copy)]
struct Carry {
    reads: bool,
    writes: bool,
}

const OUT: Carry = Carry { reads: false, writes: true };

fn carry_in(spec: &Spec<'_>) -> Carry {
    Carry { reads: true, writes: spec.has("cc") }
}

/// `d, carry = f(a, b, c, carry)`; a form with two sources passes its second as `c` too.
fn chain<I: Simd, T: Scalar>(
    sources: usize,
    carry: Carry,
    f: impl Fn(T, T, T, bool) -> (T, bool) + Copy + Send + Sync + 'static,
) -> Bound {
    let slots =
        std::iter::once(Slot::Dst(T::Store::WIDTH)).chain(std::iter::repeat_n(Slot::Src(T::TYPE), sources));
    Bound::new(slots, move |w, args| {
        let before = if carry.reads { w.state.carry } else { 0 };
        let after = I::vectorize(|| {
            let mut d = Row([T::Store::default(); LANES]);
            let mut after = 0u32;
            let a = T::Store::row(&w.state.regs, args.o[1]);
            let b = T::Store::row(&w.state.regs, args.o[2]);
            let c = T::Store::row(&w.state.regs, args.o[sources]);
            for lane in 0..LANES {
                let (value, out) =
                    f(T::of(a.0[lane]), T::of(b.0[lane]), T::of(c.0[lane]), before >> lane & 1 != 0);
                d.0[lane] = value.bits();
                after |= u32::from(out) << lane;
            }
            merge(T::Store::row_mut(&mut w.state.regs, args.o[0]), &d, w.exec);
            after
        });
        if carry.writes {
            w.state.carry = w.state.carry & !w.exec | after & w.exec;
        }
        Flow::Next
    })
}

fn add<I: Simd>(spec: &Spec<'_>, carry: Carry) -> Result<Bound, Refusal> {
    Ok(match spec.ty("type")? {
        Type::U32 | Type::S32 => chain::<I, u32>(2, carry, |a, b, _, carry| int::addc_b32(a, b, carry)),
        _ => chain::<I, u64>(2, carry, |a, b, _, carry| int::addc_b64(a, b, carry)),
    })
}

fn sub<I: Simd>(spec: &Spec<'_>, carry: Carry) -> Result<Bound, Refusal> {
    Ok(match spec.ty("type")? {
        Type::U32 | Type::S32 => chain::<I, u32>(2, carry, |a, b, _, carry| int::subc_b32(a, b, carry)),
        _ => chain::<I, u64>(2, carry, |a, b, _, carry| int::subc_b64(a, b, carry)),
    })
}

fn mad<I: Simd>(spec: &Spec<'_>, carry: Carry) -> Result<Bound, Refusal> {
    Ok(match (spec.get("mode"), spec.ty("type")?) {
        (Some("lo"), Type::U32 | Type::S32) => {
            chain::<I, u32>(3, carry, |a, b, c, carry| int::addc_b32(a.wrapping_mul(b), c, carry))
        }
        (Some("lo"), _) => {
            chain::<I, u64>(3, carry, |a, b, c, carry| int::addc_b64(a.wrapping_mul(b), c, carry))
        }
        (_, Type::U32) => {
            chain::<I, u32>(3, carry, |a, b, c, carry| int::addc_b32(int::mul_hi_u32(a, b), c, carry))
        }
        (_, Type::S32) => {
            chain::<I, u32>(3, carry, |a, b, c, carry| int::addc_b32(int::mul_hi_s32(a, b), c, carry))
        }
        (_, Type::U64) => {
            chain::<I, u64>(3, carry, |a, b, c, carry| int::addc_b64(int::mul_hi_u64(a, b), c, carry))
        }
        _ => chain::<I, u64>(3, carry, |a, b, c, carry| int::addc_b64(int::mul_hi_s64(a, b), c, carry)),
    })
}

fn add_cc<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    add::<I>(spec, OUT)
}

fn addc<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    add::<I>(spec, carry_in(spec))
}

fn sub_cc<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    sub::<I>(spec, OUT)
}

fn subc<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    sub::<I>(spec, carry_in(spec))
}

fn mad_cc<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    mad::<I>(spec, OUT)
}

fn madc<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    mad::<I>(spec, carry_in(spec))
}
