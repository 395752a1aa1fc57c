//! Integer arithmetic.
#![expect(clippy::unnecessary_wraps, reason = "all binders share one signature, and most can fail")]

use super::map::{map1, map2, map3};
use super::{Bound, Definition, Refusal, Spec, Unit};
use crate::bind;
use crate::machine::{Scalar, Type};
use crate::simd::Simd;
use warpproof_num::int;

pub(super) const DEFINITIONS: &[Definition] = &[
    Definition {
        form: "add.type d, a, b; .type = .u16 .u32 .u64 .s16 .s32 .s64",
        manual: "integer-arithmetic-instructions-add",
        unit: Unit::Alu,
        since: (1, 0, 10),
        bind: bind!(add),
    },
    Definition {
        form: "add.sat.s32 d, a, b",
        manual: "integer-arithmetic-instructions-add",
        unit: Unit::Alu,
        since: (1, 0, 10),
        bind: bind!(add_sat),
    },
    Definition {
        form: "add.type d, a, b; .type = .u16x2 .s16x2",
        manual: "integer-arithmetic-instructions-add",
        unit: Unit::Alu,
        since: (8, 0, 90),
        bind: bind!(add_pairs),
    },
    Definition {
        form: "sub.type d, a, b; .type = .u16 .u32 .u64 .s16 .s32 .s64",
        manual: "integer-arithmetic-instructions-sub",
        unit: Unit::Alu,
        since: (1, 0, 10),
        bind: bind!(sub),
    },
    Definition {
        form: "sub.sat.s32 d, a, b",
        manual: "integer-arithmetic-instructions-sub",
        unit: Unit::Alu,
        since: (1, 0, 10),
        bind: bind!(sub_sat),
    },
    Definition {
        form: "mul.mode.type d, a, b; .mode = .lo .hi; .type = .u16 .u32 .u64 .s16 .s32 .s64",
        manual: "integer-arithmetic-instructions-mul",
        unit: Unit::Fma,
        since: (1, 0, 10),
        bind: bind!(mul),
    },
    Definition {
        form: "mul.wide.type d, a, b; .type = .u16 .u32 .s16 .s32",
        manual: "integer-arithmetic-instructions-mul",
        unit: Unit::Fma,
        since: (1, 0, 10),
        bind: bind!(mul_wide),
    },
    Definition {
        form: "mad.mode.type d, a, b, c; .mode = .lo .hi; .type = .u16 .u32 .u64 .s16 .s32 .s64",
        manual: "integer-arithmetic-instructions-mad",
        unit: Unit::Fma,
        since: (1, 0, 10),
        bind: bind!(mad),
    },
    Definition {
        form: "mad.wide.type d, a, b, c; .type = .u16 .u32 .s16 .s32",
        manual: "integer-arithmetic-instructions-mad",
        unit: Unit::Fma,
        since: (1, 0, 10),
        bind: bind!(mad_wide),
    },
    Definition {
        form: "mad.hi.sat.s32 d, a, b, c",
        manual: "integer-arithmetic-instructions-mad",
        unit: Unit::Fma,
        since: (1, 0, 10),
        bind: bind!(mad_sat),
    },
    Definition {
        form: "mul24.mode.type d, a, b; .mode = .hi .lo; .type = .u32 .s32",
        manual: "integer-arithmetic-instructions-mul24",
        unit: Unit::Fma,
        since: (1, 0, 10),
        bind: bind!(mul24),
    },
    Definition {
        form: "mad24.mode.type d, a, b, c; .mode = .hi .lo; .type = .u32 .s32",
        manual: "integer-arithmetic-instructions-mad24",
        unit: Unit::Fma,
        since: (1, 0, 10),
        bind: bind!(mad24),
    },
    Definition {
        form: "mad24.hi.sat.s32 d, a, b, c",
        manual: "integer-arithmetic-instructions-mad24",
        unit: Unit::Fma,
        since: (1, 0, 10),
        bind: bind!(mad24_sat),
    },
    Definition {
        form: "sad.type d, a, b, c; .type = .u16 .u32 .u64 .s16 .s32 .s64",
        manual: "integer-arithmetic-instructions-sad",
        unit: Unit::Alu,
        since: (1, 0, 10),
        bind: bind!(sad),
    },
    Definition {
        form: "div.type d, a, b; .type = .u16 .u32 .u64 .s16 .s32 .s64",
        manual: "integer-arithmetic-instructions-div",
        unit: Unit::Alu,
        since: (1, 0, 10),
        bind: bind!(div),
    },
    Definition {
        form: "rem.type d, a, b; .type = .u16 .u32 .u64 .s16 .s32 .s64",
        manual: "integer-arithmetic-instructions-rem",
        unit: Unit::Alu,
        since: (1, 0, 10),
        bind: bind!(rem),
    },
    Definition {
        form: "abs.type d, a; .type = .s16 .s32 .s64",
        manual: "integer-arithmetic-instructions-abs",
        unit: Unit::Alu,
        since: (1, 0, 10),
        bind: bind!(abs),
    },
    Definition {
        form: "neg.type d, a; .type = .s16 .s32 .s64",
        manual: "integer-arithmetic-instructions-neg",
        unit: Unit::Alu,
        since: (1, 0, 10),
        bind: bind!(neg),
    },
    Definition {
        form: "min.type d, a, b; .type = .u16 .u32 .u64 .s16 .s32 .s64",
        manual: "integer-arithmetic-instructions-min",
        unit: Unit::Alu,
        since: (1, 0, 10),
        bind: bind!(min),
    },
    Definition {
        form: "min.relu.s32 d, a, b",
        manual: "integer-arithmetic-instructions-min",
        unit: Unit::Alu,
        since: (8, 0, 90),
        bind: bind!(min_relu),
    },
    Definition {
        form: "min.u16x2 d, a, b",
        manual: "integer-arithmetic-instructions-min",
        unit: Unit::Alu,
        since: (8, 0, 90),
        bind: bind!(min_u16x2),
    },
    Definition {
        form: "min{.relu}.s16x2 d, a, b",
        manual: "integer-arithmetic-instructions-min",
        unit: Unit::Alu,
        since: (8, 0, 90),
        bind: bind!(min_s16x2),
    },
    Definition {
        form: "max.type d, a, b; .type = .u16 .u32 .u64 .s16 .s32 .s64",
        manual: "integer-arithmetic-instructions-max",
        unit: Unit::Alu,
        since: (1, 0, 10),
        bind: bind!(max),
    },
    Definition {
        form: "max.relu.s32 d, a, b",
        manual: "integer-arithmetic-instructions-max",
        unit: Unit::Alu,
        since: (8, 0, 90),
        bind: bind!(max_relu),
    },
    Definition {
        form: "max.u16x2 d, a, b",
        manual: "integer-arithmetic-instructions-max",
        unit: Unit::Alu,
        since: (8, 0, 90),
        bind: bind!(max_u16x2),
    },
    Definition {
        form: "max{.relu}.s16x2 d, a, b",
        manual: "integer-arithmetic-instructions-max",
        unit: Unit::Alu,
        since: (8, 0, 90),
        bind: bind!(max_s16x2),
    },
    Definition {
        form: "dp4a.atype.btype d, a, b, c; .atype = .u32 .s32; .btype = .u32 .s32",
        manual: "integer-arithmetic-instructions-dp4a",
        unit: Unit::Fma,
        since: (5, 0, 61),
        bind: bind!(dp4a),
    },
    Definition {
        form: "dp2a.mode.atype.btype d, a, b, c; .mode = .lo .hi; .atype = .u32 .s32; .btype = .u32 .s32",
        manual: "integer-arithmetic-instructions-dp2a",
        unit: Unit::Fma,
        since: (5, 0, 61),
        bind: bind!(dp2a),
    },
];

/// A routine for each of the six integer types, from functions on their bits.
macro_rules! by_type {
    ($map:ident, $spec:expr, $u16:expr, $u32:expr, $u64:expr, $s16:expr, $s32:expr, $s64:expr) => {
        Ok(match $spec.ty("type")? {
            Type::U16 => by_type!(@ $map, u16, $u16),
            Type::U32 => by_type!(@ $map, u32, $u32),
            Type::U64 => by_type!(@ $map, u64, $u64),
            Type::S16 => by_type!(@ $map, u16, $s16),
            Type::S32 => by_type!(@ $map, u32, $s32),
            _ => by_type!(@ $map, u64, $s64),
        })
    };
    (@ map2, $t:ty, $f:expr) => { map2::<I, $t, $t, $t>($f) };
    (@ map3, $t:ty, $f:expr) => { map3::<I, $t, $t, $t, $t>($f) };
}

fn add<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    Ok(match spec.ty("type")? {
        Type::U16 | Type::S16 => map2::<I, u16, u16, u16>(u16::wrapping_add),
        Type::U32 | Type::S32 => map2::<I, u32, u32, u32>(u32::wrapping_add),
        _ => map2::<I, u64, u64, u64>(u64::wrapping_add),
    })
}

fn add_sat<I: Simd>(_: &Spec<'_>) -> Result<Bound, Refusal> {
    Ok(map2::<I, u32, u32, u32>(int::add_sat_s32))
}

fn add_pairs<I: Simd>(_: &Spec<'_>) -> Result<Bound, Refusal> {
    Ok(pairs::<I, u16>(u16::wrapping_add))
}

fn sub<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    Ok(match spec.ty("type")? {
        Type::U16 | Type::S16 => map2::<I, u16, u16, u16>(u16::wrapping_sub),
        Type::U32 | Type::S32 => map2::<I, u32, u32, u32>(u32::wrapping_sub),
        _ => map2::<I, u64, u64, u64>(u64::wrapping_sub),
    })
}

fn sub_sat<I: Simd>(_: &Spec<'_>) -> Result<Bound, Refusal> {
    Ok(map2::<I, u32, u32, u32>(int::sub_sat_s32))
}

fn mul<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    if spec.get("mode") == Some("hi") {
        return by_type!(
            map2,
            spec,
            int::mul_hi_u16,
            int::mul_hi_u32,
            int::mul_hi_u64,
            int::mul_hi_s16,
            int::mul_hi_s32,
            int::mul_hi_s64
        );
    }
    Ok(match spec.ty("type")? {
        Type::U16 | Type::S16 => map2::<I, u16, u16, u16>(u16::wrapping_mul),
        Type::U32 | Type::S32 => map2::<I, u32, u32, u32>(u32::wrapping_mul),
        _ => map2::<I, u64, u64, u64>(u64::wrapping_mul),
    })
}

fn mul_wide<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    Ok(match spec.ty("type")? {
        Type::U16 => map2::<I, u32, u16, u16>(|a, b| u32::from(a) * u32::from(b)),
        Type::S16 => map2::<I, i32, i16, i16>(|a, b| i32::from(a) * i32::from(b)),
        Type::U32 => map2::<I, u64, u32, u32>(|a, b| u64::from(a) * u64::from(b)),
        _ => map2::<I, i64, i32, i32>(|a, b| i64::from(a) * i64::from(b)),
    })
}

fn mad<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    if spec.get("mode") == Some("hi") {
        return by_type!(
            map3,
            spec,
            |a, b, c| int::mul_hi_u16(a, b).wrapping_add(c),
            |a, b, c| int::mul_hi_u32(a, b).wrapping_add(c),
            |a, b, c| int::mul_hi_u64(a, b).wrapping_add(c),
            |a, b, c| int::mul_hi_s16(a, b).wrapping_add(c),
            |a, b, c| int::mul_hi_s32(a, b).wrapping_add(c),
            |a, b, c| int::mul_hi_s64(a, b).wrapping_add(c)
        );
    }
    Ok(match spec.ty("type")? {
        Type::U16 | Type::S16 => map3::<I, u16, u16, u16, u16>(|a, b, c| a.wrapping_mul(b).wrapping_add(c)),
        Type::U32 | Type::S32 => map3::<I, u32, u32, u32, u32>(|a, b, c| a.wrapping_mul(b).wrapping_add(c)),
        _ => map3::<I, u64, u64, u64, u64>(|a, b, c| a.wrapping_mul(b).wrapping_add(c)),
    })
}

fn mad_wide<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    Ok(match spec.ty("type")? {
        Type::U16 => map3::<I, u32, u16, u16, u32>(|a, b, c| (u32::from(a) * u32::from(b)).wrapping_add(c)),
        Type::S16 => map3::<I, i32, i16, i16, i32>(|a, b, c| (i32::from(a) * i32::from(b)).wrapping_add(c)),
        Type::U32 => map3::<I, u64, u32, u32, u64>(|a, b, c| (u64::from(a) * u64::from(b)).wrapping_add(c)),
        _ => map3::<I, i64, i32, i32, i64>(|a, b, c| (i64::from(a) * i64::from(b)).wrapping_add(c)),
    })
}

fn mad_sat<I: Simd>(_: &Spec<'_>) -> Result<Bound, Refusal> {
    Ok(map3::<I, u32, u32, u32, u32>(|a, b, c| int::add_sat_s32(int::mul_hi_s32(a, b), c)))
}

fn mul24<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    Ok(match (spec.get("mode"), spec.ty("type")?) {
        (Some("hi"), Type::U32) => map2::<I, u32, u32, u32>(int::mul24_hi_u32),
        (Some("hi"), _) => map2::<I, u32, u32, u32>(int::mul24_hi_s32),
        (_, Type::U32) => map2::<I, u32, u32, u32>(int::mul24_lo_u32),
        _ => map2::<I, u32, u32, u32>(int::mul24_lo_s32),
    })
}

fn mad24<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    Ok(match (spec.get("mode"), spec.ty("type")?) {
        (Some("hi"), Type::U32) => {
            map3::<I, u32, u32, u32, u32>(|a, b, c| int::mul24_hi_u32(a, b).wrapping_add(c))
        }
        (Some("hi"), _) => map3::<I, u32, u32, u32, u32>(|a, b, c| int::mul24_hi_s32(a, b).wrapping_add(c)),
        (_, Type::U32) => map3::<I, u32, u32, u32, u32>(|a, b, c| int::mul24_lo_u32(a, b).wrapping_add(c)),
        _ => map3::<I, u32, u32, u32, u32>(|a, b, c| int::mul24_lo_s32(a, b).wrapping_add(c)),
    })
}

fn mad24_sat<I: Simd>(_: &Spec<'_>) -> Result<Bound, Refusal> {
    Ok(map3::<I, u32, u32, u32, u32>(|a, b, c| int::add_sat_s32(int::mul24_hi_s32(a, b), c)))
}

fn sad<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    by_type!(map3, spec, int::sad_u16, int::sad_u32, int::sad_u64, int::sad_s16, int::sad_s32, int::sad_s64)
}

fn div<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    by_type!(map2, spec, int::div_u16, int::div_u32, int::div_u64, int::div_s16, int::div_s32, int::div_s64)
}

fn rem<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    by_type!(map2, spec, int::rem_u16, int::rem_u32, int::rem_u64, int::rem_s16, int::rem_s32, int::rem_s64)
}

fn abs<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    Ok(match spec.ty("type")? {
        Type::S16 => map1::<I, i16, i16>(i16::wrapping_abs),
        Type::S32 => map1::<I, i32, i32>(i32::wrapping_abs),
        _ => map1::<I, i64, i64>(i64::wrapping_abs),
    })
}

fn neg<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    Ok(match spec.ty("type")? {
        Type::S16 => map1::<I, i16, i16>(i16::wrapping_neg),
        Type::S32 => map1::<I, i32, i32>(i32::wrapping_neg),
        _ => map1::<I, i64, i64>(i64::wrapping_neg),
    })
}

/// `min` and `max`, whose forms are the same.
macro_rules! extremum {
    ($($name:ident $relu:ident $u16x2:ident $s16x2:ident, $keep:path;)*) => {$(
        fn $name<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
            Ok(match spec.ty("type")? {
                Type::U16 => map2::<I, u16, u16, u16>($keep),
                Type::U32 => map2::<I, u32, u32, u32>($keep),
                Type::U64 => map2::<I, u64, u64, u64>($keep),
                Type::S16 => map2::<I, i16, i16, i16>($keep),
                Type::S32 => map2::<I, i32, i32, i32>($keep),
                _ => map2::<I, i64, i64, i64>($keep),
            })
        }

        fn $relu<I: Simd>(_: &Spec<'_>) -> Result<Bound, Refusal> {
            Ok(map2::<I, i32, i32, i32>(|a, b| $keep(a, b).max(0)))
        }

        fn $u16x2<I: Simd>(_: &Spec<'_>) -> Result<Bound, Refusal> {
            Ok(pairs::<I, u16>($keep))
        }

        fn $s16x2<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
            Ok(if spec.has("relu") { pairs::<I, i16>(|a, b| $keep(a, b).max(0)) } else { pairs::<I, i16>($keep) })
        }
    )*};
}

extremum! {
    min min_relu min_u16x2 min_s16x2, Ord::min;
    max max_relu max_u16x2 max_s16x2, Ord::max;
}

/// `d = f(a, b)` on both halves of 32 bits.
fn pairs<I: Simd, T: Scalar<Store = u32>>(f: impl Fn(T, T) -> T + Copy + Send + Sync + 'static) -> Bound {
    map2::<I, u32, u32, u32>(move |a, b| {
        f(T::of(a), T::of(b)).bits() | f(T::of(a >> 16), T::of(b >> 16)).bits() << 16
    })
}

fn dp4a<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    Ok(match (spec.ty("atype")?.is_signed(), spec.ty("btype")?.is_signed()) {
        (false, false) => map3::<I, u32, u32, u32, u32>(|a, b, c| int::dp4a(a, false, b, false, c)),
        (false, true) => map3::<I, u32, u32, u32, u32>(|a, b, c| int::dp4a(a, false, b, true, c)),
        (true, false) => map3::<I, u32, u32, u32, u32>(|a, b, c| int::dp4a(a, true, b, false, c)),
        (true, true) => map3::<I, u32, u32, u32, u32>(|a, b, c| int::dp4a(a, true, b, true, c)),
    })
}

fn dp2a<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let (signed_a, signed_b) = (spec.ty("atype")?.is_signed(), spec.ty("btype")?.is_signed());
    Ok(if spec.get("mode") == Some("hi") {
        map3::<I, u32, u32, u32, u32>(move |a, b, c| int::dp2a(a, signed_a, b, signed_b, c, true))
    } else {
        map3::<I, u32, u32, u32, u32>(move |a, b, c| int::dp2a(a, signed_a, b, signed_b, c, false))
    })
}
