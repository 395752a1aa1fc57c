//! Arithmetic in f32 and f64.
//!
//! Values are passed as bits, so that a NaN reaches the arithmetic unchanged. The forms that compilers emit most (`.rn`,
//! without `.sat`) have branch-free routines of their own; the other modes share one each.
#![expect(clippy::unnecessary_wraps, reason = "all binders share one signature, and most can fail")]

use super::map::{map1, map2, map3, test1};
use super::{Bound, Definition, Inline, Refusal, Spec, Unit};
use crate::bind;
use crate::machine::Type;
use crate::simd::{Portable, Simd};
use warpproof_num::Rounding;
use warpproof_num::approx::{div_approx_f32, div_full_f32};
use warpproof_num::compare::{self, Extremum, Property};
use warpproof_num::float::{
    add_f32, add_f64, div_f32, div_f64, fma_f32, fma_f64, mul_f32, mul_f64, rcp_f32, rcp_f64, sat_f32,
    sqrt_f32, sqrt_f64, sub_f32, sub_f64,
};

pub(super) const DEFINITIONS: &[Definition] = &[
    Definition {
        form: "testp.op.type p, a; .op = .finite .infinite .number .notanumber .normal .subnormal; .type = .f32 .f64",
        manual: "floating-point-instructions-testp",
        unit: Unit::Alu,
        since: (2, 0, 20),
        bind: bind!(testp),
    },
    Definition {
        form: "copysign.type d, a, b; .type = .f32 .f64",
        manual: "floating-point-instructions-copysign",
        unit: Unit::Alu,
        since: (2, 0, 20),
        bind: bind!(copysign),
    },
    Definition {
        form: "add{.rnd}{.ftz}{.sat}.f32 d, a, b; .rnd = .rn .rz .rm .rp",
        manual: "floating-point-instructions-add",
        unit: Unit::Fma,
        since: (1, 0, 10),
        bind: bind!(add_single),
    },
    Definition {
        form: "add{.rnd}.f64 d, a, b; .rnd = .rn .rz .rm .rp",
        manual: "floating-point-instructions-add",
        unit: Unit::Fp64,
        since: (1, 0, 13),
        bind: bind!(add_double),
    },
    Definition {
        form: "sub{.rnd}{.ftz}{.sat}.f32 d, a, b; .rnd = .rn .rz .rm .rp",
        manual: "floating-point-instructions-sub",
        unit: Unit::Fma,
        since: (1, 0, 10),
        bind: bind!(sub_single),
    },
    Definition {
        form: "sub{.rnd}.f64 d, a, b; .rnd = .rn .rz .rm .rp",
        manual: "floating-point-instructions-sub",
        unit: Unit::Fp64,
        since: (1, 0, 13),
        bind: bind!(sub_double),
    },
    Definition {
        form: "mul{.rnd}{.ftz}{.sat}.f32 d, a, b; .rnd = .rn .rz .rm .rp",
        manual: "floating-point-instructions-mul",
        unit: Unit::Fma,
        since: (1, 0, 10),
        bind: bind!(mul_single),
    },
    Definition {
        form: "mul{.rnd}.f64 d, a, b; .rnd = .rn .rz .rm .rp",
        manual: "floating-point-instructions-mul",
        unit: Unit::Fp64,
        since: (1, 0, 13),
        bind: bind!(mul_double),
    },
    Definition {
        form: "fma.rnd{.ftz}{.sat}.f32 d, a, b, c; .rnd = .rn .rz .rm .rp",
        manual: "floating-point-instructions-fma",
        unit: Unit::Fma,
        since: (2, 0, 20),
        bind: bind!(fma_single),
    },
    Definition {
        form: "fma.rnd.f64 d, a, b, c; .rnd = .rn .rz .rm .rp",
        manual: "floating-point-instructions-fma",
        unit: Unit::Fp64,
        since: (1, 4, 13),
        bind: bind!(fma_double),
    },
    // Only in modules for sm_1x.
    Definition {
        form: "mad{.ftz}{.sat}.f32 d, a, b, c",
        manual: "floating-point-instructions-mad",
        unit: Unit::Fma,
        since: (1, 0, 10),
        bind: bind!(mad_of_sm_1x),
    },
    Definition {
        form: "mad.rnd{.ftz}{.sat}.f32 d, a, b, c; .rnd = .rn .rz .rm .rp",
        manual: "floating-point-instructions-mad",
        unit: Unit::Fma,
        since: (2, 0, 20),
        bind: bind!(fma_single),
    },
    Definition {
        form: "mad.rnd.f64 d, a, b, c; .rnd = .rn .rz .rm .rp",
        manual: "floating-point-instructions-mad",
        unit: Unit::Fp64,
        since: (1, 4, 13),
        bind: bind!(fma_double),
    },
    Definition {
        form: "div.approx{.ftz}.f32 d, a, b",
        manual: "floating-point-instructions-div",
        unit: Unit::Xu,
        since: (1, 4, 10),
        bind: bind!(div_approx),
    },
    Definition {
        form: "div.full{.ftz}.f32 d, a, b",
        manual: "floating-point-instructions-div",
        unit: Unit::Xu,
        since: (1, 4, 10),
        bind: bind!(div_full),
    },
    Definition {
        form: "div.rnd{.ftz}.f32 d, a, b; .rnd = .rn .rz .rm .rp",
        manual: "floating-point-instructions-div",
        unit: Unit::Xu,
        since: (1, 4, 20),
        bind: bind!(div_single),
    },
    Definition {
        form: "div.rnd.f64 d, a, b; .rnd = .rn .rz .rm .rp",
        manual: "floating-point-instructions-div",
        unit: Unit::Fp64,
        since: (1, 4, 20),
        bind: bind!(div_double),
    },
    Definition {
        form: "abs{.ftz}.f32 d, a",
        manual: "floating-point-instructions-abs",
        unit: Unit::Alu,
        since: (1, 0, 10),
        bind: bind!(abs_single),
    },
    Definition {
        form: "abs.f64 d, a",
        manual: "floating-point-instructions-abs",
        unit: Unit::Fp64,
        since: (1, 0, 13),
        bind: bind!(abs_double),
    },
    Definition {
        form: "neg{.ftz}.f32 d, a",
        manual: "floating-point-instructions-neg",
        unit: Unit::Alu,
        since: (1, 0, 10),
        bind: bind!(neg_single),
    },
    Definition {
        form: "neg.f64 d, a",
        manual: "floating-point-instructions-neg",
        unit: Unit::Fp64,
        since: (1, 0, 13),
        bind: bind!(neg_double),
    },
    Definition {
        form: "min{.ftz}.f32 d, a, b{, c}",
        manual: "floating-point-instructions-min",
        unit: Unit::Alu,
        since: (1, 0, 10),
        bind: bind!(extremum_single),
    },
    Definition {
        form: "min{.ftz}.NaN.f32 d, a, b{, c}",
        manual: "floating-point-instructions-min",
        unit: Unit::Alu,
        since: (7, 0, 80),
        bind: bind!(extremum_single),
    },
    Definition {
        form: "min{.ftz}{.NaN}.xorsign.abs.f32 d, a, b",
        manual: "floating-point-instructions-min",
        unit: Unit::Alu,
        since: (7, 2, 86),
        bind: bind!(extremum_single),
    },
    Definition {
        form: "min{.ftz}{.NaN}.abs.f32 d, a, b, c",
        manual: "floating-point-instructions-min",
        unit: Unit::Alu,
        since: (8, 8, 100),
        bind: bind!(extremum_of_three),
    },
    Definition {
        form: "min.f64 d, a, b",
        manual: "floating-point-instructions-min",
        unit: Unit::Fp64,
        since: (1, 0, 13),
        bind: bind!(extremum_double),
    },
    Definition {
        form: "max{.ftz}.f32 d, a, b{, c}",
        manual: "floating-point-instructions-max",
        unit: Unit::Alu,
        since: (1, 0, 10),
        bind: bind!(extremum_single),
    },
    Definition {
        form: "max{.ftz}.NaN.f32 d, a, b{, c}",
        manual: "floating-point-instructions-max",
        unit: Unit::Alu,
        since: (7, 0, 80),
        bind: bind!(extremum_single),
    },
    Definition {
        form: "max{.ftz}{.NaN}.xorsign.abs.f32 d, a, b",
        manual: "floating-point-instructions-max",
        unit: Unit::Alu,
        since: (7, 2, 86),
        bind: bind!(extremum_single),
    },
    Definition {
        form: "max{.ftz}{.NaN}.abs.f32 d, a, b, c",
        manual: "floating-point-instructions-max",
        unit: Unit::Alu,
        since: (8, 8, 100),
        bind: bind!(extremum_of_three),
    },
    Definition {
        form: "max.f64 d, a, b",
        manual: "floating-point-instructions-max",
        unit: Unit::Fp64,
        since: (1, 0, 13),
        bind: bind!(extremum_double),
    },
    Definition {
        form: "rcp.rnd{.ftz}.f32 d, a; .rnd = .rn .rz .rm .rp",
        manual: "floating-point-instructions-rcp",
        unit: Unit::Xu,
        since: (2, 0, 20),
        bind: bind!(rcp_single),
    },
    Definition {
        form: "rcp.rnd.f64 d, a; .rnd = .rn .rz .rm .rp",
        manual: "floating-point-instructions-rcp",
        unit: Unit::Fp64,
        since: (1, 4, 20),
        bind: bind!(rcp_double),
    },
    Definition {
        form: "sqrt.rnd{.ftz}.f32 d, a; .rnd = .rn .rz .rm .rp",
        manual: "floating-point-instructions-sqrt",
        unit: Unit::Xu,
        since: (2, 0, 20),
        bind: bind!(sqrt_single),
    },
    Definition {
        form: "sqrt.rnd.f64 d, a; .rnd = .rn .rz .rm .rp",
        manual: "floating-point-instructions-sqrt",
        unit: Unit::Fp64,
        since: (1, 4, 20),
        bind: bind!(sqrt_double),
    },
];

/// The rounding that a class of the form selects; `.rn` by default.
pub(super) fn rounding(spec: &Spec<'_>, class: &str) -> Rounding {
    match spec.get(class) {
        Some("rz") => Rounding::Rz,
        Some("rm") => Rounding::Rm,
        Some("rp") => Rounding::Rp,
        _ => Rounding::Rn,
    }
}

/// Whether the opcode is `min` or `max`.
pub(super) fn extremum(spec: &Spec<'_>) -> Extremum {
    extremum_of(Some(spec.modifiers.form().opcode))
}

/// The extremum of a name.
pub(super) fn extremum_of(name: Option<&str>) -> Extremum {
    if name == Some("min") { Extremum::Min } else { Extremum::Max }
}

/// An f32 operation with rounding, `.ftz` and `.sat`.
macro_rules! single {
    ($name:ident = $f:ident, $map:ident($($x:ident: $t:ident),+)) => {
        fn $name<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
            /// Integer arithmetic that does not vectorize: one routine for all levels.
            fn directed(rnd: Rounding, ftz: bool, sat: bool) -> Bound {
                $map::<Portable, u32, $($t),+>(move |$($x),+| {
                    let d = $f($($x),+, rnd, ftz);
                    if sat { sat_f32(d) } else { d }
                })
            }
            let (ftz, sat) = (spec.has("ftz"), spec.has("sat"));
            Ok(match (rounding(spec, "rnd"), ftz, sat) {
                (Rounding::Rn, false, false) => {
                    $map::<I, u32, $($t),+>(|$($x),+| $f($($x),+, Rounding::Rn, false))
                }
                (Rounding::Rn, true, false) => {
                    $map::<I, u32, $($t),+>(|$($x),+| $f($($x),+, Rounding::Rn, true))
                }
                (Rounding::Rn, _, true) => {
                    $map::<I, u32, $($t),+>(move |$($x),+| sat_f32($f($($x),+, Rounding::Rn, ftz)))
                }
                (rnd, _, _) => directed(rnd, ftz, sat),
            })
        }
    };
}

fn fma_single<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let plain = rounding(spec, "rnd") == Rounding::Rn && !spec.has("ftz") && !spec.has("sat");
    Ok(Bound { inline: if plain { Inline::Fma } else { Inline::No }, ..fma_any::<I>(spec)? })
}

/// An f64 operation with rounding.
macro_rules! double {
    ($name:ident = $f:ident, $map:ident($($x:ident: $t:ident),+)) => {
        fn $name<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
            fn directed(rnd: Rounding) -> Bound {
                $map::<Portable, u64, $($t),+>(move |$($x),+| $f($($x),+, rnd))
            }
            Ok(match rounding(spec, "rnd") {
                Rounding::Rn => $map::<I, u64, $($t),+>(|$($x),+| $f($($x),+, Rounding::Rn)),
                rnd => directed(rnd),
            })
        }
    };
}

single!(add_single = add_f32, map2(a: u32, b: u32));
single!(sub_single = sub_f32, map2(a: u32, b: u32));
single!(mul_single = mul_f32, map2(a: u32, b: u32));
single!(fma_any = fma_f32, map3(a: u32, b: u32, c: u32));
single!(div_single = div_f32, map2(a: u32, b: u32));
single!(rcp_single = rcp_f32, map1(a: u32));
single!(sqrt_single = sqrt_f32, map1(a: u32));
double!(add_double = add_f64, map2(a: u64, b: u64));
double!(sub_double = sub_f64, map2(a: u64, b: u64));
double!(mul_double = mul_f64, map2(a: u64, b: u64));
double!(fma_double = fma_f64, map3(a: u64, b: u64, c: u64));
double!(div_double = div_f64, map2(a: u64, b: u64));
double!(rcp_double = rcp_f64, map1(a: u64));
double!(sqrt_double = sqrt_f64, map1(a: u64));

/// Newer devices compute it as `fma.rn.ftz.f32`, as the manual defines.
fn mad_of_sm_1x<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    Ok(if spec.has("sat") {
        map3::<I, u32, u32, u32, u32>(|a, b, c| sat_f32(fma_f32(a, b, c, Rounding::Rn, true)))
    } else {
        map3::<I, u32, u32, u32, u32>(|a, b, c| fma_f32(a, b, c, Rounding::Rn, true))
    })
}

fn testp<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let property = match spec.get("op") {
        Some("finite") => Property::Finite,
        Some("infinite") => Property::Infinite,
        Some("number") => Property::Number,
        Some("notanumber") => Property::NotANumber,
        Some("normal") => Property::Normal,
        _ => Property::Subnormal,
    };
    Ok(match spec.ty("type")? {
        Type::F64 => test1::<I, u64>(move |a| compare::testp_f64(property, a)),
        _ => test1::<I, u32>(move |a| compare::testp_f32(property, a)),
    })
}

fn copysign<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    Ok(match spec.ty("type")? {
        Type::F64 => map2::<I, u64, u64, u64>(compare::copysign_f64),
        _ => map2::<I, u32, u32, u32>(compare::copysign_f32),
    })
}

fn div_approx<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    Ok(if spec.has("ftz") {
        map2::<I, u32, u32, u32>(|a, b| div_approx_f32(a, b, true))
    } else {
        map2::<I, u32, u32, u32>(|a, b| div_approx_f32(a, b, false))
    })
}

fn div_full<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    Ok(if spec.has("ftz") {
        map2::<I, u32, u32, u32>(|a, b| div_full_f32(a, b, true))
    } else {
        map2::<I, u32, u32, u32>(|a, b| div_full_f32(a, b, false))
    })
}

fn abs_single<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let ftz = spec.has("ftz");
    Ok(map1::<I, u32, u32>(move |a| compare::abs_f32(a, ftz)))
}

fn abs_double<I: Simd>(_: &Spec<'_>) -> Result<Bound, Refusal> {
    Ok(map1::<I, u64, u64>(compare::abs_f64))
}

fn neg_single<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let ftz = spec.has("ftz");
    Ok(map1::<I, u32, u32>(move |a| compare::neg_f32(a, ftz)))
}

fn neg_double<I: Simd>(_: &Spec<'_>) -> Result<Bound, Refusal> {
    Ok(map1::<I, u64, u64>(compare::neg_f64))
}

/// The extremum of three sources.
fn extremum_of_three<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    if spec.sm < 100 {
        return Err(Refusal::Malformed(format!(
            "three sources need sm_100; the module's target is sm_{}",
            spec.sm
        )));
    }
    let (which, ftz, nan) = (extremum(spec), spec.has("ftz"), spec.has("NaN"));
    let sign = if spec.has("abs") { 0x7fff_ffff } else { u32::MAX };
    Ok(map3::<I, u32, u32, u32, u32>(move |a, b, c| {
        let first = compare::minmax_f32(which, a & sign, b & sign, nan, false, ftz);
        compare::minmax_f32(which, first, c & sign, nan, false, ftz)
    }))
}

fn extremum_single<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    use compare::minmax_f32;
    if spec.operands.len() == 4 {
        return extremum_of_three::<I>(spec);
    }
    let (ftz, nan, xorsign) = (spec.has("ftz"), spec.has("NaN"), spec.has("xorsign"));
    Ok(match (extremum(spec), ftz, nan, xorsign) {
        (Extremum::Min, false, false, false) => {
            map2::<I, u32, u32, u32>(|a, b| minmax_f32(Extremum::Min, a, b, false, false, false))
        }
        (Extremum::Max, false, false, false) => {
            map2::<I, u32, u32, u32>(|a, b| minmax_f32(Extremum::Max, a, b, false, false, false))
        }
        (Extremum::Min, ..) => {
            map2::<I, u32, u32, u32>(move |a, b| minmax_f32(Extremum::Min, a, b, nan, xorsign, ftz))
        }
        (Extremum::Max, ..) => {
            map2::<I, u32, u32, u32>(move |a, b| minmax_f32(Extremum::Max, a, b, nan, xorsign, ftz))
        }
    })
}

fn extremum_double<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    Ok(match extremum(spec) {
        Extremum::Min => map2::<I, u64, u64, u64>(|a, b| compare::minmax_f64(Extremum::Min, a, b)),
        Extremum::Max => map2::<I, u64, u64, u64>(|a, b| compare::minmax_f64(Extremum::Max, a, b)),
    })
}
