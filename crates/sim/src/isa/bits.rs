//! Logic, shifts and bit manipulation.
#![expect(clippy::unnecessary_wraps, reason = "all binders share one signature, and most can fail")]

use super::map::{map1, map2, map3, map4, merge};
use super::{Bound, Definition, Refusal, Slot, Spec, Unit};
use crate::machine::{Flow, LANES, Row, Type, Width, at};
use crate::simd::Simd;
use crate::{bind, bind_plain};
use warpproof_num::bits::{self, Beyond};

pub(super) const DEFINITIONS: &[Definition] = &[
    Definition {
        form: "and.type d, a, b; .type = .b16 .b32 .b64",
        manual: "logic-and-shift-instructions-and",
        unit: Unit::Alu,
        since: (1, 0, 10),
        bind: bind!(and),
    },
    Definition {
        form: "and.pred d, a, b",
        manual: "logic-and-shift-instructions-and",
        unit: Unit::Alu,
        since: (1, 0, 10),
        bind: bind_plain!(and_pred),
    },
    Definition {
        form: "or.type d, a, b; .type = .b16 .b32 .b64",
        manual: "logic-and-shift-instructions-or",
        unit: Unit::Alu,
        since: (1, 0, 10),
        bind: bind!(or),
    },
    Definition {
        form: "or.pred d, a, b",
        manual: "logic-and-shift-instructions-or",
        unit: Unit::Alu,
        since: (1, 0, 10),
        bind: bind_plain!(or_pred),
    },
    Definition {
        form: "xor.type d, a, b; .type = .b16 .b32 .b64",
        manual: "logic-and-shift-instructions-xor",
        unit: Unit::Alu,
        since: (1, 0, 10),
        bind: bind!(xor),
    },
    Definition {
        form: "xor.pred d, a, b",
        manual: "logic-and-shift-instructions-xor",
        unit: Unit::Alu,
        since: (1, 0, 10),
        bind: bind_plain!(xor_pred),
    },
    Definition {
        form: "not.type d, a; .type = .b16 .b32 .b64",
        manual: "logic-and-shift-instructions-not",
        unit: Unit::Alu,
        since: (1, 0, 10),
        bind: bind!(not),
    },
    Definition {
        form: "not.pred d, a",
        manual: "logic-and-shift-instructions-not",
        unit: Unit::Alu,
        since: (1, 0, 10),
        bind: bind_plain!(not_pred),
    },
    Definition {
        form: "cnot.type d, a; .type = .b16 .b32 .b64",
        manual: "logic-and-shift-instructions-cnot",
        unit: Unit::Alu,
        since: (1, 0, 10),
        bind: bind!(cnot),
    },
    Definition {
        form: "lop3.b32 d, a, b, c, immLut",
        manual: "logic-and-shift-instructions-lop3",
        unit: Unit::Alu,
        since: (4, 3, 50),
        bind: bind!(lop3),
    },
    Definition {
        form: "lop3.BoolOp.b32 d|p, a, b, c, immLut, q; .BoolOp = .or .and",
        manual: "logic-and-shift-instructions-lop3",
        unit: Unit::Alu,
        since: (8, 2, 70),
        bind: bind!(lop3_test),
    },
    Definition {
        form: "shf.dir.mode.b32 d, a, b, c; .dir = .l .r; .mode = .clamp .wrap",
        manual: "logic-and-shift-instructions-shf",
        unit: Unit::Alu,
        since: (3, 1, 32),
        bind: bind!(shf),
    },
    Definition {
        form: "shl.type d, a, b; .type = .b16 .b32 .b64",
        manual: "logic-and-shift-instructions-shl",
        unit: Unit::Alu,
        since: (1, 0, 10),
        bind: bind!(shl),
    },
    Definition {
        form: "shr.type d, a, b; .type = .b16 .b32 .b64 .u16 .u32 .u64 .s16 .s32 .s64",
        manual: "logic-and-shift-instructions-shr",
        unit: Unit::Alu,
        since: (1, 0, 10),
        bind: bind!(shr),
    },
    Definition {
        form: "popc.type d, a; .type = .b32 .b64",
        manual: "integer-arithmetic-instructions-popc",
        unit: Unit::Xu,
        since: (2, 0, 20),
        bind: bind!(popc),
    },
    Definition {
        form: "clz.type d, a; .type = .b32 .b64",
        manual: "integer-arithmetic-instructions-clz",
        unit: Unit::Xu,
        since: (2, 0, 20),
        bind: bind!(clz),
    },
    Definition {
        form: "bfind{.shiftamt}.type d, a; .type = .u32 .u64 .s32 .s64",
        manual: "integer-arithmetic-instructions-bfind",
        unit: Unit::Xu,
        since: (2, 0, 20),
        bind: bind!(bfind),
    },
    Definition {
        form: "fns.b32 d, mask, base, offset",
        manual: "integer-arithmetic-instructions-fns",
        unit: Unit::Alu,
        since: (6, 0, 30),
        bind: bind!(fns),
    },
    Definition {
        form: "brev.type d, a; .type = .b32 .b64",
        manual: "integer-arithmetic-instructions-brev",
        unit: Unit::Xu,
        since: (2, 0, 20),
        bind: bind!(brev),
    },
    Definition {
        form: "bfe.type d, a, b, c; .type = .u32 .u64 .s32 .s64",
        manual: "integer-arithmetic-instructions-bfe",
        unit: Unit::Alu,
        since: (2, 0, 20),
        bind: bind!(bfe),
    },
    Definition {
        form: "bfi.type f, a, b, c, d; .type = .b32 .b64",
        manual: "integer-arithmetic-instructions-bfi",
        unit: Unit::Alu,
        since: (2, 0, 20),
        bind: bind!(bfi),
    },
    Definition {
        form: "szext.mode.type d, a, b; .mode = .clamp .wrap; .type = .u32 .s32",
        manual: "integer-arithmetic-instructions-szext",
        unit: Unit::Alu,
        since: (7, 6, 70),
        bind: bind!(szext),
    },
    Definition {
        form: "bmsk.mode.b32 d, a, b; .mode = .clamp .wrap",
        manual: "integer-arithmetic-instructions-bmsk",
        unit: Unit::Alu,
        since: (7, 6, 70),
        bind: bind!(bmsk),
    },
];

/// A logic instruction of two sources, on registers of all sizes and on predicates.
macro_rules! logic {
    ($($name:ident $pred:ident, |$a:ident, $b:ident| $value:expr;)*) => {$(
        fn $name<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
            Ok(match spec.ty("type")? {
                Type::B16 => map2::<I, u16, u16, u16>(|$a, $b| $value),
                Type::B32 => map2::<I, u32, u32, u32>(|$a, $b| $value),
                _ => map2::<I, u64, u64, u64>(|$a, $b| $value),
            })
        }

        fn $pred(_: &Spec<'_>) -> Result<Bound, Refusal> {
            let slots = [Slot::Dst(Width::Pred), Slot::Src(Type::Pred), Slot::Src(Type::Pred)];
            Ok(Bound::new(slots, |w, args| {
                let ($a, $b) = (w.pred_arg(args, 1), w.pred_arg(args, 2));
                w.set_pred(args.o[0], $value);
                Flow::Next
            }))
        }
    )*};
}

logic! {
    and and_pred, |a, b| a & b;
    or or_pred, |a, b| a | b;
    xor xor_pred, |a, b| a ^ b;
}

fn not<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    Ok(match spec.ty("type")? {
        Type::B16 => map1::<I, u16, u16>(|a| !a),
        Type::B32 => map1::<I, u32, u32>(|a| !a),
        _ => map1::<I, u64, u64>(|a| !a),
    })
}

fn not_pred(_: &Spec<'_>) -> Result<Bound, Refusal> {
    Ok(Bound::new([Slot::Dst(Width::Pred), Slot::Src(Type::Pred)], |w, args| {
        let bits = !w.pred_arg(args, 1);
        w.set_pred(args.o[0], bits);
        Flow::Next
    }))
}

fn cnot<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    Ok(match spec.ty("type")? {
        Type::B16 => map1::<I, u16, u16>(|a| u16::from(a == 0)),
        Type::B32 => map1::<I, u32, u32>(|a| u32::from(a == 0)),
        _ => map1::<I, u64, u64>(|a| u64::from(a == 0)),
    })
}

fn truth_table(spec: &Spec<'_>) -> Result<u8, Refusal> {
    spec.integer(4).and_then(|lut| u8::try_from(lut).ok()).ok_or_else(|| {
        Refusal::Malformed("the truth table of `lop3` must be a constant from 0 to 255".into())
    })
}

/// A routine for one truth table. The tables that compilers and libraries use most have specialized code; any other
/// evaluates the eight terms of the table.
macro_rules! by_table {
    ($table:expr, $($known:literal)*) => {
        match $table {
            $($known => map3::<I, u32, u32, u32, u32>(|a, b, c| bits::lop3(a, b, c, $known)),)*
            table => map3::<I, u32, u32, u32, u32>(move |a, b, c| bits::lop3(a, b, c, table)),
        }
    };
}

fn lop3<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let mut bound =
        by_table!(truth_table(spec)?, 0x40 0x6a 0x80 0x96 0xac 0xb8 0xc0 0xca 0xd8 0xe2 0xe4 0xea 0xf8 0xfe);
    bound.slots.push(Slot::Static);
    Ok(bound)
}

fn lop3_test<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let table = truth_table(spec)?;
    let and = spec.get("BoolOp") == Some("and");
    let source = Slot::Src(Type::B32);
    let slots = [
        Slot::DstPair(Width::W32),
        source.clone(),
        source.clone(),
        source,
        Slot::Static,
        Slot::Src(Type::Pred),
    ];
    Ok(Bound::new(slots, move |w, args| {
        let nonzero = I::vectorize(|| {
            let rows = &w.state.regs.w32;
            let (a, b, c) = (&rows[at(args.o[2])], &rows[at(args.o[3])], &rows[at(args.o[4])]);
            let mut d = Row([0; LANES]);
            let mut nonzero = 0;
            for lane in 0..LANES {
                d.0[lane] = bits::lop3(a.0[lane], b.0[lane], c.0[lane], table);
                nonzero |= u32::from(d.0[lane] != 0) << lane;
            }
            merge(&mut w.state.regs.w32[at(args.o[0])], &d, w.exec);
            nonzero
        });
        let q = w.pred_arg(args, 5);
        w.set_pred(args.o[1], if and { nonzero & q } else { nonzero | q });
        Flow::Next
    }))
}

fn wraps(spec: &Spec<'_>) -> bool {
    spec.get("mode") == Some("wrap")
}

fn shf<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    Ok(match (spec.get("dir"), wraps(spec)) {
        (Some("l"), false) => map3::<I, u32, u32, u32, u32>(|a, b, c| bits::shf_l(a, b, c, Beyond::Clamp)),
        (Some("l"), true) => map3::<I, u32, u32, u32, u32>(|a, b, c| bits::shf_l(a, b, c, Beyond::Wrap)),
        (_, false) => map3::<I, u32, u32, u32, u32>(|a, b, c| bits::shf_r(a, b, c, Beyond::Clamp)),
        (_, true) => map3::<I, u32, u32, u32, u32>(|a, b, c| bits::shf_r(a, b, c, Beyond::Wrap)),
    })
}

fn shl<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    Ok(match spec.ty("type")? {
        Type::B16 => map2::<I, u16, u16, u32>(bits::shl_b16),
        Type::B32 => map2::<I, u32, u32, u32>(bits::shl_b32),
        _ => map2::<I, u64, u64, u32>(bits::shl_b64),
    })
}

fn shr<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    Ok(match spec.ty("type")? {
        Type::B16 | Type::U16 => map2::<I, u16, u16, u32>(bits::shr_u16),
        Type::B32 | Type::U32 => map2::<I, u32, u32, u32>(bits::shr_u32),
        Type::B64 | Type::U64 => map2::<I, u64, u64, u32>(bits::shr_u64),
        Type::S16 => map2::<I, u16, u16, u32>(bits::shr_s16),
        Type::S32 => map2::<I, u32, u32, u32>(bits::shr_s32),
        _ => map2::<I, u64, u64, u32>(bits::shr_s64),
    })
}

fn popc<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    Ok(match spec.ty("type")? {
        Type::B32 => map1::<I, u32, u32>(u32::count_ones),
        _ => map1::<I, u32, u64>(u64::count_ones),
    })
}

fn clz<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    Ok(match spec.ty("type")? {
        Type::B32 => map1::<I, u32, u32>(u32::leading_zeros),
        _ => map1::<I, u32, u64>(u64::leading_zeros),
    })
}

fn bfind<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let shiftamt = spec.has("shiftamt");
    Ok(match spec.ty("type")? {
        Type::U32 => map1::<I, u32, u32>(move |a| bits::bfind_u32(a, shiftamt)),
        Type::U64 => map1::<I, u32, u64>(move |a| bits::bfind_u64(a, shiftamt)),
        Type::S32 => map1::<I, u32, u32>(move |a| bits::bfind_s32(a, shiftamt)),
        _ => map1::<I, u32, u64>(move |a| bits::bfind_s64(a, shiftamt)),
    })
}

fn fns<I: Simd>(_: &Spec<'_>) -> Result<Bound, Refusal> {
    Ok(map3::<I, u32, u32, u32, i32>(bits::fns))
}

fn brev<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    Ok(match spec.ty("type")? {
        Type::B32 => map1::<I, u32, u32>(u32::reverse_bits),
        _ => map1::<I, u64, u64>(u64::reverse_bits),
    })
}

fn bfe<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    Ok(match spec.ty("type")? {
        Type::U32 => map3::<I, u32, u32, u32, u32>(bits::bfe_u32),
        Type::U64 => map3::<I, u64, u64, u32, u32>(bits::bfe_u64),
        Type::S32 => map3::<I, u32, u32, u32, u32>(bits::bfe_s32),
        _ => map3::<I, u64, u64, u32, u32>(bits::bfe_s64),
    })
}

fn bfi<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    Ok(match spec.ty("type")? {
        Type::B32 => map4::<I, u32, u32, u32, u32, u32>(bits::bfi_b32),
        _ => map4::<I, u64, u64, u64, u32, u32>(bits::bfi_b64),
    })
}

fn szext<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    Ok(match (wraps(spec), spec.ty("type")?.is_signed()) {
        (false, false) => map2::<I, u32, u32, u32>(|a, b| bits::szext(a, b, false, Beyond::Clamp)),
        (false, true) => map2::<I, u32, u32, u32>(|a, b| bits::szext(a, b, true, Beyond::Clamp)),
        (true, false) => map2::<I, u32, u32, u32>(|a, b| bits::szext(a, b, false, Beyond::Wrap)),
        (true, true) => map2::<I, u32, u32, u32>(|a, b| bits::szext(a, b, true, Beyond::Wrap)),
    })
}

fn bmsk<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    Ok(if wraps(spec) {
        map2::<I, u32, u32, u32>(|a, b| bits::bmsk(a, b, Beyond::Wrap))
    } else {
        map2::<I, u32, u32, u32>(|a, b| bits::bmsk(a, b, Beyond::Clamp))
    })
}
