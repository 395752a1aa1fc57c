//! Comparison and selection.
//!
//! A comparison gives one bit per lane. Plain `setp` has a routine per operator that stores those bits; every other form (a
//! second predicate, a Boolean operator, `set`, half precision) works on the bits of a [`Test`].
#![expect(clippy::inline_always, reason = "only code inlined into a routine is compiled for its vector unit")]

use super::map::{compare, map3, merge};
use super::{Bound, Definition, Refusal, Shape, Slot, Spec, Unit};
use crate::bind;
use crate::machine::{Flow, LANES, Lane, Registers, Row, Scalar, Type, Warp, Width, at};
use crate::simd::Simd;
use warpproof_num::compare::{Cmp, cmp_f32, cmp_f64, slct_f32};
use warpproof_num::half::{cmp_bf16, cmp_f16};

/// An entry for a comparison: the syntax box up to the classes that are the same everywhere.
macro_rules! comparison {
    ($form:literal, $operators:ident, $manual:literal, $unit:ident, $since:expr, $bind:ident) => {
        Definition {
            form: comparison!(@ $operators $form),
            manual: $manual,
            unit: Unit::$unit,
            since: $since,
            bind: bind!($bind),
        }
    };
    (@ unsigned $form:literal) => {
        concat!($form, "; .CmpOp = .eq .ne .lt .le .gt .ge .lo .ls .hi .hs; .BoolOp = .and .or .xor")
    };
    (@ signed $form:literal) => {
        concat!($form, "; .CmpOp = .eq .ne .lt .le .gt .ge; .BoolOp = .and .or .xor")
    };
    (@ untyped $form:literal) => {
        concat!($form, "; .CmpOp = .eq .ne; .BoolOp = .and .or .xor")
    };
    (@ float $form:literal) => {
        concat!(
            $form,
            "; .CmpOp = .eq .ne .lt .le .gt .ge .equ .neu .ltu .leu .gtu .geu .num .nan; .BoolOp = .and .or .xor"
        )
    };
}

/// `setp`
macro_rules! setp {
    ($form:literal, $operators:ident) => {
        comparison!($form, $operators, "comparison-and-selection-instructions-setp", Alu, (1, 0, 10), setp)
    };
    (half $form:literal, $since:expr) => {
        comparison!($form, float, "half-precision-comparison-instructions-setp", Half, $since, setp)
    };
}

/// `set`
macro_rules! set {
    ($form:literal, $operators:ident) => {
        comparison!($form, $operators, "comparison-and-selection-instructions-set", Alu, (1, 0, 10), set)
    };
    (half $form:literal, $operators:ident, $since:expr) => {
        comparison!($form, $operators, "half-precision-comparison-instructions-set", Half, $since, set)
    };
}

pub(super) const DEFINITIONS: &[Definition] = &[
    setp!("setp.CmpOp{.BoolOp}.type p[|q], a, b{, {!}c}; .type = .u16 .u32 .u64", unsigned),
    setp!("setp.CmpOp{.BoolOp}.type p[|q], a, b{, {!}c}; .type = .s16 .s32 .s64", signed),
    setp!("setp.CmpOp{.BoolOp}.type p[|q], a, b{, {!}c}; .type = .b16 .b32 .b64", untyped),
    setp!("setp.CmpOp{.BoolOp}{.ftz}.type p[|q], a, b{, {!}c}; .type = .f32", float),
    setp!("setp.CmpOp{.BoolOp}.type p[|q], a, b{, {!}c}; .type = .f64", float),
    setp!(half "setp.CmpOp{.BoolOp}{.ftz}.type p, a, b{, {!}c}; .type = .f16", (4, 2, 53)),
    setp!(half "setp.CmpOp{.BoolOp}{.ftz}.type p|q, a, b{, {!}c}; .type = .f16x2", (4, 2, 53)),
    setp!(half "setp.CmpOp{.BoolOp}.type p, a, b{, {!}c}; .type = .bf16", (7, 8, 90)),
    setp!(half "setp.CmpOp{.BoolOp}.type p|q, a, b{, {!}c}; .type = .bf16x2", (7, 8, 90)),
    set!(
        "set.CmpOp{.BoolOp}.dtype.type d, a, b{, {!}c}; .dtype = .u32 .s32 .f32; .type = .u16 .u32 .u64",
        unsigned
    ),
    set!(
        "set.CmpOp{.BoolOp}.dtype.type d, a, b{, {!}c}; .dtype = .u32 .s32 .f32; .type = .s16 .s32 .s64",
        signed
    ),
    set!(
        "set.CmpOp{.BoolOp}.dtype.type d, a, b{, {!}c}; .dtype = .u32 .s32 .f32; .type = .b16 .b32 .b64",
        untyped
    ),
    set!("set.CmpOp{.BoolOp}{.ftz}.dtype.type d, a, b{, {!}c}; .dtype = .u32 .s32 .f32; .type = .f32", float),
    set!("set.CmpOp{.BoolOp}.dtype.type d, a, b{, {!}c}; .dtype = .u32 .s32 .f32; .type = .f64", float),
    set!(half "set.CmpOp{.BoolOp}.dtype.type d, a, b{, {!}c}; .dtype = .f16; .type = .u16 .u32 .u64", unsigned, (4, 2, 53)),
    set!(half "set.CmpOp{.BoolOp}.dtype.type d, a, b{, {!}c}; .dtype = .f16; .type = .s16 .s32 .s64", signed, (4, 2, 53)),
    set!(half "set.CmpOp{.BoolOp}.dtype.type d, a, b{, {!}c}; .dtype = .f16; .type = .b16 .b32 .b64", untyped, (4, 2, 53)),
    set!(half "set.CmpOp{.BoolOp}{.ftz}.dtype.type d, a, b{, {!}c}; .dtype = .f16; .type = .f16 .f32", float, (4, 2, 53)),
    set!(half "set.CmpOp{.BoolOp}.dtype.type d, a, b{, {!}c}; .dtype = .f16; .type = .f64", float, (4, 2, 53)),
    set!(half "set.CmpOp{.BoolOp}{.ftz}.dtype.type d, a, b{, {!}c}; .dtype = .u16 .s16 .u32 .s32; .type = .f16", float, (6, 5, 53)),
    set!(half "set.CmpOp{.BoolOp}{.ftz}.dtype.type d, a, b{, {!}c}; .dtype = .f16x2 .u32 .s32; .type = .f16x2", float, (4, 2, 53)),
    set!(half "set.CmpOp{.BoolOp}.dtype.type d, a, b{, {!}c}; .dtype = .bf16; .type = .u16 .u32 .u64", unsigned, (7, 8, 90)),
    set!(half "set.CmpOp{.BoolOp}.dtype.type d, a, b{, {!}c}; .dtype = .bf16; .type = .s16 .s32 .s64", signed, (7, 8, 90)),
    set!(half "set.CmpOp{.BoolOp}.dtype.type d, a, b{, {!}c}; .dtype = .bf16; .type = .b16 .b32 .b64", untyped, (7, 8, 90)),
    set!(half "set.CmpOp{.BoolOp}.dtype.type d, a, b{, {!}c}; .dtype = .bf16; .type = .f16 .bf16 .f32 .f64", float, (7, 8, 90)),
    set!(half "set.CmpOp{.BoolOp}.dtype.type d, a, b{, {!}c}; .dtype = .u16 .s16 .u32 .s32; .type = .bf16", float, (7, 8, 90)),
    set!(half "set.CmpOp{.BoolOp}.dtype.type d, a, b{, {!}c}; .dtype = .bf16x2 .u32 .s32; .type = .bf16x2", float, (7, 8, 90)),
    Definition {
        form: "selp.type d, a, b, c; .type = .b16 .b32 .b64 .u16 .u32 .u64 .s16 .s32 .s64 .f32 .f64",
        manual: "comparison-and-selection-instructions-selp",
        unit: Unit::Alu,
        since: (1, 0, 10),
        bind: bind!(selp),
    },
    Definition {
        form: "slct.dtype.s32 d, a, b, c; .dtype = .b16 .b32 .b64 .u16 .u32 .u64 .s16 .s32 .s64 .f32 .f64",
        manual: "comparison-and-selection-instructions-slct",
        unit: Unit::Alu,
        since: (1, 0, 10),
        bind: bind!(slct_s32),
    },
    Definition {
        form: "slct{.ftz}.dtype.f32 d, a, b, c; .dtype = .b16 .b32 .b64 .u16 .u32 .u64 .s16 .s32 .s64 .f32 .f64",
        manual: "comparison-and-selection-instructions-slct",
        unit: Unit::Alu,
        since: (1, 0, 10),
        bind: bind!(slct_float),
    },
];

/// Evaluates the expression with the operator as a constant, so that a loop over it has no branch.
macro_rules! with_operator {
    ($operator:expr, $name:ident => $value:expr) => {
        with_operator!(@ $operator, $name => $value; Eq Ne Lt Le Gt Ge Equ Neu Ltu Leu Gtu Geu Num Nan)
    };
    (@ $operator:expr, $name:ident => $value:expr; $($known:ident)*) => {
        match $operator {
            $(Cmp::$known => {
                const $name: Cmp = Cmp::$known;
                $value
            })*
        }
    };
}

/// `setp` into one predicate, without a Boolean operator. Compilers emit almost only this, so each operator has a routine.
/// `None` for the half-precision types.
fn direct<I: Simd>(ty: Type, operator: Cmp, ftz: bool) -> Option<Bound> {
    Some(match ty {
        Type::U16 | Type::B16 => ordered::<I, u16>(ty, operator),
        Type::U32 | Type::B32 => ordered::<I, u32>(ty, operator),
        Type::U64 | Type::B64 => ordered::<I, u64>(ty, operator),
        Type::S16 => ordered::<I, i16>(ty, operator),
        Type::S32 => ordered::<I, i32>(ty, operator),
        Type::S64 => ordered::<I, i64>(ty, operator),
        Type::F32 if ftz => {
            with_operator!(operator, OP => store::<I, u32>(ty, |a, b| cmp_f32(OP, a, b, true)))
        }
        Type::F32 => with_operator!(operator, OP => store::<I, u32>(ty, |a, b| cmp_f32(OP, a, b, false))),
        Type::F64 => with_operator!(operator, OP => store::<I, u64>(ty, |a, b| cmp_f64(OP, a, b))),
        _ => return None,
    })
}

fn ordered<I: Simd, A: Scalar + Ord>(ty: Type, operator: Cmp) -> Bound {
    match operator {
        Cmp::Ne => store::<I, A>(ty, |a, b| a != b),
        Cmp::Lt => store::<I, A>(ty, |a, b| a < b),
        Cmp::Le => store::<I, A>(ty, |a, b| a <= b),
        Cmp::Gt => store::<I, A>(ty, |a, b| a > b),
        Cmp::Ge => store::<I, A>(ty, |a, b| a >= b),
        _ => store::<I, A>(ty, |a, b| a == b),
    }
}

fn store<I: Simd, A: Scalar>(ty: Type, f: impl Fn(A, A) -> bool + Copy + Send + Sync + 'static) -> Bound {
    Bound::new([Slot::Dst(Width::Pred), Slot::Src(ty), Slot::Src(ty)], move |w, args| {
        let bits = I::vectorize(|| {
            let regs = &w.state.regs;
            compare::<A>(A::Store::row(regs, args.o[1]), A::Store::row(regs, args.o[2]), f)
        });
        w.set_pred(args.o[0], bits);
        Flow::Next
    })
}

/// One bit per lane from two rows.
type Test = Box<dyn Fn(&Registers, u32, u32) -> u32 + Send + Sync>;

/// The relations between two operands for which an operator is true: each mask is all ones or zero.
#[derive(Clone, Copy)]
struct Accepts {
    less: u32,
    equal: u32,
    greater: u32,
    unordered: u32,
}

impl Accepts {
    fn new(operator: Cmp) -> Accepts {
        let (less, equal, greater, unordered) = match operator {
            Cmp::Eq => (0, 1, 0, 0),
            Cmp::Ne => (1, 0, 1, 0),
            Cmp::Lt => (1, 0, 0, 0),
            Cmp::Le => (1, 1, 0, 0),
            Cmp::Gt => (0, 0, 1, 0),
            Cmp::Ge => (0, 1, 1, 0),
            Cmp::Equ => (0, 1, 0, 1),
            Cmp::Neu => (1, 0, 1, 1),
            Cmp::Ltu => (1, 0, 0, 1),
            Cmp::Leu => (1, 1, 0, 1),
            Cmp::Gtu => (0, 0, 1, 1),
            Cmp::Geu => (0, 1, 1, 1),
            Cmp::Num => (1, 1, 1, 0),
            Cmp::Nan => (0, 0, 0, 1),
        };
        let all = u32::wrapping_neg;
        Accepts { less: all(less), equal: all(equal), greater: all(greater), unordered: all(unordered) }
    }
}

/// A comparison by any operator, computed from the three comparisons that determine the relation of the operands.
fn by_order<I: Simd, A: Scalar>(
    accepts: Accepts,
    f: impl Fn(Cmp, A, A) -> bool + Copy + Send + Sync + 'static,
) -> Test {
    Box::new(move |regs, a, b| {
        I::vectorize(|| {
            let (a, b) = (A::Store::row(regs, a), A::Store::row(regs, b));
            let less = compare::<A>(a, b, |a, b| f(Cmp::Lt, a, b));
            let greater = compare::<A>(a, b, |a, b| f(Cmp::Gt, a, b));
            let unordered = compare::<A>(a, b, |a, b| f(Cmp::Nan, a, b));
            let equal = !(less | greater | unordered);
            less & accepts.less
                | equal & accepts.equal
                | greater & accepts.greater
                | unordered & accepts.unordered
        })
    })
}

#[inline(always)]
fn integer_order<A: Ord>(operator: Cmp, a: &A, b: &A) -> bool {
    match operator {
        Cmp::Lt => a < b,
        Cmp::Gt => a > b,
        _ => false,
    }
}

/// The comparison of an instruction; for packed operands, of the halves that start at bit `shift`.
fn test<I: Simd>(spec: &Spec<'_>, ty: Type, shift: u32) -> Test {
    let accepts = Accepts::new(operator(spec));
    let ftz = spec.has("ftz");
    match ty {
        Type::U16 | Type::B16 => by_order::<I, u16>(accepts, |op, a, b| integer_order(op, &a, &b)),
        Type::U32 | Type::B32 => by_order::<I, u32>(accepts, |op, a, b| integer_order(op, &a, &b)),
        Type::U64 | Type::B64 => by_order::<I, u64>(accepts, |op, a, b| integer_order(op, &a, &b)),
        Type::S16 => by_order::<I, i16>(accepts, |op, a, b| integer_order(op, &a, &b)),
        Type::S32 => by_order::<I, i32>(accepts, |op, a, b| integer_order(op, &a, &b)),
        Type::S64 => by_order::<I, i64>(accepts, |op, a, b| integer_order(op, &a, &b)),
        Type::F64 => by_order::<I, u64>(accepts, cmp_f64),
        Type::F16 | Type::F16x2 => by_order::<I, u32>(accepts, move |op, a, b| {
            cmp_f16(op, u16::of(a >> shift), u16::of(b >> shift), ftz)
        }),
        Type::BF16 | Type::BF16x2 => by_order::<I, u32>(accepts, move |op, a, b| {
            cmp_bf16(op, u16::of(a >> shift), u16::of(b >> shift))
        }),
        _ => by_order::<I, u32>(accepts, move |op, a, b| cmp_f32(op, a, b, ftz)),
    }
}

fn operator(spec: &Spec<'_>) -> Cmp {
    match spec.get("CmpOp").unwrap_or("eq") {
        "ne" => Cmp::Ne,
        "lt" | "lo" => Cmp::Lt,
        "le" | "ls" => Cmp::Le,
        "gt" | "hi" => Cmp::Gt,
        "ge" | "hs" => Cmp::Ge,
        "equ" => Cmp::Equ,
        "neu" => Cmp::Neu,
        "ltu" => Cmp::Ltu,
        "leu" => Cmp::Leu,
        "gtu" => Cmp::Gtu,
        "geu" => Cmp::Geu,
        "num" => Cmp::Num,
        "nan" => Cmp::Nan,
        _ => Cmp::Eq,
    }
}

/// How a comparison is combined with a predicate.
type Combine = fn(u32, u32) -> u32;

fn combination(spec: &Spec<'_>) -> Option<Combine> {
    Some(match spec.get("BoolOp")? {
        "and" => |t, c| t & c,
        "or" => |t, c| t | c,
        _ => |t, c| t ^ c,
    })
}

fn is_packed(ty: Type) -> bool {
    matches!(ty, Type::F16x2 | Type::BF16x2)
}

/// The comparison of the operands or their lower halves, and for packed operands that of their upper halves.
fn tests<I: Simd>(spec: &Spec<'_>, ty: Type) -> (Test, Option<Test>) {
    (test::<I>(spec, ty, 0), is_packed(ty).then(|| test::<I>(spec, ty, 16)))
}

/// The operands of a comparison, after its results.
fn sources(result: Slot, ty: Type, combine: Option<Combine>) -> Vec<Slot> {
    let mut slots = vec![result, Slot::Src(ty), Slot::Src(ty)];
    slots.extend(combine.map(|_| Slot::Src(Type::Pred)));
    slots
}

fn setp<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let ty = spec.ty("type")?;
    let combine = combination(spec);
    let pair = matches!(spec.operands.first(), Some(Shape::Pair(_)));
    if !pair
        && combine.is_none()
        && let Some(bound) = direct::<I>(ty, operator(spec), spec.has("ftz"))
    {
        return Ok(bound);
    }
    let (first, second) = tests::<I>(spec, ty);
    Ok(Bound::new(sources(Slot::DstPair(Width::Pred), ty, combine), move |w, args| {
        let t = first(&w.state.regs, args.o[2], args.o[3]);
        let u = second.as_ref().map_or(!t, |second| second(&w.state.regs, args.o[2], args.o[3]));
        let (p, q) = match combine {
            None => (t, u),
            Some(combine) => {
                let c = w.pred_arg(args, 4);
                (combine(t, c), combine(u, c))
            }
        };
        w.set_pred(args.o[0], p);
        w.set_pred(args.o[1], q);
        Flow::Next
    }))
}

fn set<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let ty = spec.ty("type")?;
    let packed = is_packed(ty);
    let truth: u32 = match spec.ty("dtype")? {
        Type::F32 => 0x3f80_0000,
        Type::F16 | Type::F16x2 => 0x3c00,
        Type::BF16 | Type::BF16x2 => 0x3f80,
        Type::U16 | Type::S16 => 0xffff,
        _ if packed => 0xffff,
        _ => u32::MAX,
    };
    let combine = combination(spec);
    let (first, second) = tests::<I>(spec, ty);
    Ok(Bound::new(sources(Slot::Dst(Width::W32), ty, combine), move |w, args| {
        let answer = |w: &Warp<'_, '_>, test: &Test| {
            let t = test(&w.state.regs, args.o[1], args.o[2]);
            combine.map_or(t, |combine| combine(t, w.pred_arg(args, 3)))
        };
        let low = answer(w, &first);
        let high = second.as_ref().map_or(0, |second| answer(w, second));
        I::vectorize(|| {
            let mut d = Row([0u32; LANES]);
            for (lane, d) in d.0.iter_mut().enumerate() {
                *d = u32::select(low, lane, truth, 0) | u32::select(high, lane, truth << 16, 0);
            }
            merge(&mut w.state.regs.w32[at(args.o[0])], &d, w.exec);
        });
        Flow::Next
    }))
}

fn selp<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let ty = spec.ty("type")?;
    Ok(match ty.bytes() {
        2 => select::<I, u16>(ty),
        4 => select::<I, u32>(ty),
        _ => select::<I, u64>(ty),
    })
}

fn select<I: Simd, T: Scalar>(ty: Type) -> Bound {
    let slots = [Slot::Dst(T::Store::WIDTH), Slot::Src(ty), Slot::Src(ty), Slot::Src(Type::Pred)];
    Bound::new(slots, move |w, args| {
        let c = w.pred_arg(args, 3);
        I::vectorize(|| {
            let mut d = Row([T::Store::default(); LANES]);
            let a = T::Store::row(&w.state.regs, args.o[1]);
            let b = T::Store::row(&w.state.regs, args.o[2]);
            for lane in 0..LANES {
                d.0[lane] = T::of(T::Store::select(c, lane, a.0[lane], b.0[lane])).bits();
            }
            merge(T::Store::row_mut(&mut w.state.regs, args.o[0]), &d, w.exec);
        });
        Flow::Next
    })
}

fn slct_s32<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    slct::<I, i32>(spec, |c| c >= 0)
}

fn slct_float<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let ftz = spec.has("ftz");
    slct::<I, f32>(spec, move |c| slct_f32(c.to_bits(), ftz))
}

fn slct<I: Simd, C: Scalar>(
    spec: &Spec<'_>,
    first: impl Fn(C) -> bool + Copy + Send + Sync + 'static,
) -> Result<Bound, Refusal> {
    let ty = spec.ty("dtype")?;
    let mut bound = match ty.bytes() {
        2 => map3::<I, u16, u16, u16, C>(move |a, b, c| if first(c) { a } else { b }),
        4 => map3::<I, u32, u32, u32, C>(move |a, b, c| if first(c) { a } else { b }),
        _ => map3::<I, u64, u64, u64, C>(move |a, b, c| if first(c) { a } else { b }),
    };
    bound.slots[1] = Slot::Src(ty);
    bound.slots[2] = Slot::Src(ty);
    Ok(bound)
}
