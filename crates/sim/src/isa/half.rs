//! Arithmetic in f16 and bf16, scalar and packed.
#![expect(clippy::inline_always, reason = "only code inlined into a routine is compiled for its vector unit")]

use super::float::extremum;
use super::map::{map1, map2, map3, merge};
use super::{Bound, Definition, Refusal, Slot, Spec, Unit};
use crate::bind;
use crate::machine::{Flow, LANES, Row, Type, Width, at};
use crate::simd::Simd;
use warpproof_num::half;

pub(super) const DEFINITIONS: &[Definition] = &[
    Definition {
        form: "add{.rnd}{.ftz}{.sat}.type d, a, b; .rnd = .rn; .type = .f16 .f16x2",
        manual: "half-precision-floating-point-instructions-add",
        unit: Unit::Half,
        since: (4, 2, 53),
        bind: bind!(add_f16),
    },
    Definition {
        form: "add{.rnd}.type d, a, b; .rnd = .rn; .type = .bf16 .bf16x2",
        manual: "half-precision-floating-point-instructions-add",
        unit: Unit::Half,
        since: (7, 8, 90),
        bind: bind!(add_bf16),
    },
    Definition {
        form: "sub{.rnd}{.ftz}{.sat}.type d, a, b; .rnd = .rn; .type = .f16 .f16x2",
        manual: "half-precision-floating-point-instructions-sub",
        unit: Unit::Half,
        since: (4, 2, 53),
        bind: bind!(sub_f16),
    },
    Definition {
        form: "sub{.rnd}.type d, a, b; .rnd = .rn; .type = .bf16 .bf16x2",
        manual: "half-precision-floating-point-instructions-sub",
        unit: Unit::Half,
        since: (7, 8, 90),
        bind: bind!(sub_bf16),
    },
    Definition {
        form: "mul{.rnd}{.ftz}{.sat}.type d, a, b; .rnd = .rn; .type = .f16 .f16x2",
        manual: "half-precision-floating-point-instructions-mul",
        unit: Unit::Half,
        since: (4, 2, 53),
        bind: bind!(mul_f16),
    },
    Definition {
        form: "mul{.rnd}.type d, a, b; .rnd = .rn; .type = .bf16 .bf16x2",
        manual: "half-precision-floating-point-instructions-mul",
        unit: Unit::Half,
        since: (7, 8, 90),
        bind: bind!(mul_bf16),
    },
    Definition {
        form: "fma.rn{.ftz}{.sat}.type d, a, b, c; .type = .f16 .f16x2",
        manual: "half-precision-floating-point-instructions-fma",
        unit: Unit::Half,
        since: (4, 2, 53),
        bind: bind!(fma_f16),
    },
    Definition {
        form: "fma.rn{.ftz}.relu.type d, a, b, c; .type = .f16 .f16x2",
        manual: "half-precision-floating-point-instructions-fma",
        unit: Unit::Half,
        since: (7, 0, 80),
        bind: bind!(fma_f16),
    },
    Definition {
        form: "fma.rn{.relu}.type d, a, b, c; .type = .bf16 .bf16x2",
        manual: "half-precision-floating-point-instructions-fma",
        unit: Unit::Half,
        since: (7, 0, 80),
        bind: bind!(fma_bf16),
    },
    Definition {
        form: "neg{.ftz}.type d, a; .type = .f16 .f16x2",
        manual: "half-precision-floating-point-instructions-neg",
        unit: Unit::Half,
        since: (6, 0, 53),
        bind: bind!(neg_f16),
    },
    Definition {
        form: "neg.type d, a; .type = .bf16 .bf16x2",
        manual: "half-precision-floating-point-instructions-neg",
        unit: Unit::Half,
        since: (7, 0, 80),
        bind: bind!(neg_bf16),
    },
    Definition {
        form: "abs{.ftz}.type d, a; .type = .f16 .f16x2",
        manual: "half-precision-floating-point-instructions-abs",
        unit: Unit::Half,
        since: (6, 5, 53),
        bind: bind!(abs_f16),
    },
    Definition {
        form: "abs.type d, a; .type = .bf16 .bf16x2",
        manual: "half-precision-floating-point-instructions-abs",
        unit: Unit::Half,
        since: (7, 0, 80),
        bind: bind!(abs_bf16),
    },
    Definition {
        form: "min{.ftz}{.NaN}.type d, a, b; .type = .f16 .f16x2",
        manual: "half-precision-floating-point-instructions-min",
        unit: Unit::Half,
        since: (7, 0, 80),
        bind: bind!(extremum_f16),
    },
    Definition {
        form: "min{.ftz}{.NaN}.xorsign.abs.type d, a, b; .type = .f16 .f16x2",
        manual: "half-precision-floating-point-instructions-min",
        unit: Unit::Half,
        since: (7, 2, 86),
        bind: bind!(extremum_f16),
    },
    Definition {
        form: "min{.NaN}.type d, a, b; .type = .bf16 .bf16x2",
        manual: "half-precision-floating-point-instructions-min",
        unit: Unit::Half,
        since: (7, 0, 80),
        bind: bind!(extremum_bf16),
    },
    Definition {
        form: "min{.NaN}.xorsign.abs.type d, a, b; .type = .bf16 .bf16x2",
        manual: "half-precision-floating-point-instructions-min",
        unit: Unit::Half,
        since: (7, 2, 86),
        bind: bind!(extremum_bf16),
    },
    Definition {
        form: "max{.ftz}{.NaN}.type d, a, b; .type = .f16 .f16x2",
        manual: "half-precision-floating-point-instructions-max",
        unit: Unit::Half,
        since: (7, 0, 80),
        bind: bind!(extremum_f16),
    },
    Definition {
        form: "max{.ftz}{.NaN}.xorsign.abs.type d, a, b; .type = .f16 .f16x2",
        manual: "half-precision-floating-point-instructions-max",
        unit: Unit::Half,
        since: (7, 2, 86),
        bind: bind!(extremum_f16),
    },
    Definition {
        form: "max{.NaN}.type d, a, b; .type = .bf16 .bf16x2",
        manual: "half-precision-floating-point-instructions-max",
        unit: Unit::Half,
        since: (7, 0, 80),
        bind: bind!(extremum_bf16),
    },
    Definition {
        form: "max{.NaN}.xorsign.abs.type d, a, b; .type = .bf16 .bf16x2",
        manual: "half-precision-floating-point-instructions-max",
        unit: Unit::Half,
        since: (7, 2, 86),
        bind: bind!(extremum_bf16),
    },
];

/// Whether the form's `.type` packs two values in a register.
pub(super) fn is_packed(spec: &Spec<'_>) -> Result<bool, Refusal> {
    Ok(matches!(spec.ty("type")?, Type::F16x2 | Type::BF16x2))
}

/// The halves of packed registers, all lower ones first, as one array for one loop: the loop body exists only once and is
/// inlined and vectorized even if it is long.
#[inline(always)]
#[expect(clippy::as_conversions, clippy::cast_possible_truncation, reason = "a half of a register")]
fn halves(row: &Row<u32>) -> [u16; 2 * LANES] {
    let mut out = [0; 2 * LANES];
    for lane in 0..LANES {
        out[lane] = row.0[lane] as u16;
        out[lane + LANES] = (row.0[lane] >> 16) as u16;
    }
    out
}

/// Packs halves back into registers.
#[inline(always)]
fn joined(halves: &[u16; 2 * LANES]) -> Row<u32> {
    let mut row = Row([0; LANES]);
    for lane in 0..LANES {
        row.0[lane] = u32::from(halves[lane]) | u32::from(halves[lane + LANES]) << 16;
    }
    row
}

/// `d = f(a)` on 16-bit values, one or two per register.
pub(super) fn lanewise1<I: Simd>(
    packed: bool,
    f: impl Fn(u16) -> u16 + Copy + Send + Sync + 'static,
) -> Bound {
    if !packed {
        return map1::<I, u16, u16>(f);
    }
    Bound::new([Slot::Dst(Width::W32), Slot::Src(Type::F16x2)], move |w, args| {
        I::vectorize(|| {
            let regs = &mut w.state.regs.w32;
            let a = halves(&regs[at(args.o[1])]);
            let mut d = [0; 2 * LANES];
            for i in 0..2 * LANES {
                d[i] = f(a[i]);
            }
            merge(&mut regs[at(args.o[0])], &joined(&d), w.exec);
        });
        Flow::Next
    })
}

/// `d = f(a, b)` on 16-bit values, one or two per register.
fn lanewise2<I: Simd>(packed: bool, f: impl Fn(u16, u16) -> u16 + Copy + Send + Sync + 'static) -> Bound {
    if !packed {
        return map2::<I, u16, u16, u16>(f);
    }
    let slots = [Slot::Dst(Width::W32), Slot::Src(Type::F16x2), Slot::Src(Type::F16x2)];
    Bound::new(slots, move |w, args| {
        I::vectorize(|| {
            let regs = &mut w.state.regs.w32;
            let (a, b) = (halves(&regs[at(args.o[1])]), halves(&regs[at(args.o[2])]));
            let mut d = [0; 2 * LANES];
            for i in 0..2 * LANES {
                d[i] = f(a[i], b[i]);
            }
            merge(&mut regs[at(args.o[0])], &joined(&d), w.exec);
        });
        Flow::Next
    })
}

/// `d = f(a, b, c)` on 16-bit values, one or two per register.
fn lanewise3<I: Simd>(
    packed: bool,
    f: impl Fn(u16, u16, u16) -> u16 + Copy + Send + Sync + 'static,
) -> Bound {
    if !packed {
        return map3::<I, u16, u16, u16, u16>(f);
    }
    let source = Slot::Src(Type::F16x2);
    Bound::new([Slot::Dst(Width::W32), source.clone(), source.clone(), source], move |w, args| {
        I::vectorize(|| {
            let regs = &mut w.state.regs.w32;
            let (a, b) = (halves(&regs[at(args.o[1])]), halves(&regs[at(args.o[2])]));
            let c = halves(&regs[at(args.o[3])]);
            let mut d = [0; 2 * LANES];
            for i in 0..2 * LANES {
                d[i] = f(a[i], b[i], c[i]);
            }
            merge(&mut regs[at(args.o[0])], &joined(&d), w.exec);
        });
        Flow::Next
    })
}

/// An f16 operation of two operands with `.ftz` and `.sat`, and the bf16 operation, which has no modifiers.
macro_rules! arithmetic {
    ($f16:ident = $f:ident, $bf16:ident = $b:ident) => {
        fn $f16<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
            let (packed, ftz) = (is_packed(spec)?, spec.has("ftz"));
            Ok(match (ftz, spec.has("sat")) {
                (false, false) => lanewise2::<I>(packed, |a, b| half::$f(a, b, false)),
                (true, false) => lanewise2::<I>(packed, |a, b| half::$f(a, b, true)),
                (_, true) => lanewise2::<I>(packed, move |a, b| half::sat_f16(half::$f(a, b, ftz))),
            })
        }

        fn $bf16<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
            Ok(lanewise2::<I>(is_packed(spec)?, half::$b))
        }
    };
}

arithmetic!(add_f16 = add_f16, add_bf16 = add_bf16);
arithmetic!(sub_f16 = sub_f16, sub_bf16 = sub_bf16);
arithmetic!(mul_f16 = mul_f16, mul_bf16 = mul_bf16);

fn fma_f16<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let (packed, ftz) = (is_packed(spec)?, spec.has("ftz"));
    Ok(match (ftz, spec.has("sat"), spec.has("relu")) {
        (false, false, false) => lanewise3::<I>(packed, |a, b, c| half::fma_f16(a, b, c, false)),
        (true, false, false) => lanewise3::<I>(packed, |a, b, c| half::fma_f16(a, b, c, true)),
        (_, true, _) => lanewise3::<I>(packed, move |a, b, c| half::sat_f16(half::fma_f16(a, b, c, ftz))),
        (_, _, true) => lanewise3::<I>(packed, move |a, b, c| half::relu(half::fma_f16(a, b, c, ftz))),
    })
}

fn fma_bf16<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let packed = is_packed(spec)?;
    Ok(if spec.has("relu") {
        lanewise3::<I>(packed, |a, b, c| half::relu(half::fma_bf16(a, b, c)))
    } else {
        lanewise3::<I>(packed, half::fma_bf16)
    })
}

fn neg_f16<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let ftz = spec.has("ftz");
    Ok(lanewise1::<I>(is_packed(spec)?, move |a| half::neg_f16(a, ftz)))
}

fn neg_bf16<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    Ok(lanewise1::<I>(is_packed(spec)?, half::neg_bf16))
}

fn abs_f16<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let ftz = spec.has("ftz");
    Ok(lanewise1::<I>(is_packed(spec)?, move |a| half::abs_f16(a, ftz)))
}

fn abs_bf16<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    Ok(lanewise1::<I>(is_packed(spec)?, half::abs_bf16))
}

fn extremum_f16<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let (which, packed) = (extremum(spec), is_packed(spec)?);
    let (ftz, nan, xorsign) = (spec.has("ftz"), spec.has("NaN"), spec.has("xorsign"));
    Ok(lanewise2::<I>(packed, move |a, b| half::minmax_f16(which, a, b, nan, xorsign, ftz)))
}

fn extremum_bf16<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let (which, packed) = (extremum(spec), is_packed(spec)?);
    let (nan, xorsign) = (spec.has("NaN"), spec.has("xorsign"));
    Ok(lanewise2::<I>(packed, move |a, b| half::minmax_bf16(which, a, b, nan, xorsign)))
}
