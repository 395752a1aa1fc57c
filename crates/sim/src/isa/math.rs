//! Approximations: reciprocals, roots, exponentials, logarithms, trigonometry.
#![expect(clippy::unnecessary_wraps, reason = "all binders share one signature, and most can fail")]

use super::half::{is_packed, lanewise1};
use super::map::map1;
use super::{Bound, Definition, Refusal, Spec, Unit};
use crate::bind;
use crate::simd::Simd;
use warpproof_num::approx;

pub(super) const DEFINITIONS: &[Definition] = &[
    Definition {
        form: "rcp.approx{.ftz}.f32 d, a",
        manual: "floating-point-instructions-rcp",
        unit: Unit::Xu,
        since: (1, 4, 10),
        bind: bind!(rcp),
    },
    Definition {
        form: "rcp.approx.ftz.f64 d, a",
        manual: "floating-point-instructions-rcp-approx-ftz-f64",
        unit: Unit::Xu,
        since: (2, 1, 20),
        bind: bind!(rcp_double),
    },
    Definition {
        form: "sqrt.approx{.ftz}.f32 d, a",
        manual: "floating-point-instructions-sqrt",
        unit: Unit::Xu,
        since: (1, 4, 10),
        bind: bind!(sqrt),
    },
    Definition {
        form: "rsqrt.approx{.ftz}.f32 d, a",
        manual: "floating-point-instructions-rsqrt",
        unit: Unit::Xu,
        since: (1, 4, 10),
        bind: bind!(rsqrt),
    },
    Definition {
        form: "rsqrt.approx.f64 d, a",
        manual: "floating-point-instructions-rsqrt",
        unit: Unit::Fp64,
        since: (1, 4, 13),
        bind: bind!(rsqrt_double),
    },
    Definition {
        form: "rsqrt.approx.ftz.f64 d, a",
        manual: "floating-point-instructions-rsqrt-approx-ftz-f64",
        unit: Unit::Xu,
        since: (4, 0, 20),
        bind: bind!(rsqrt_ftz_double),
    },
    Definition {
        form: "sin.approx{.ftz}.f32 d, a",
        manual: "floating-point-instructions-sin",
        unit: Unit::Xu,
        since: (1, 4, 10),
        bind: bind!(sin),
    },
    Definition {
        form: "cos.approx{.ftz}.f32 d, a",
        manual: "floating-point-instructions-cos",
        unit: Unit::Xu,
        since: (1, 4, 10),
        bind: bind!(cos),
    },
    Definition {
        form: "lg2.approx{.ftz}.f32 d, a",
        manual: "floating-point-instructions-lg2",
        unit: Unit::Xu,
        since: (1, 4, 10),
        bind: bind!(lg2),
    },
    Definition {
        form: "ex2.approx{.ftz}.f32 d, a",
        manual: "floating-point-instructions-ex2",
        unit: Unit::Xu,
        since: (1, 4, 10),
        bind: bind!(ex2),
    },
    Definition {
        form: "tanh.approx.f32 d, a",
        manual: "floating-point-instructions-tanh",
        unit: Unit::Xu,
        since: (7, 0, 75),
        bind: bind!(tanh),
    },
    Definition {
        form: "tanh.approx.type d, a; .type = .f16 .f16x2",
        manual: "half-precision-floating-point-instructions-tanh",
        unit: Unit::Xu,
        since: (7, 0, 75),
        bind: bind!(tanh_f16),
    },
    Definition {
        form: "tanh.approx.type d, a; .type = .bf16 .bf16x2",
        manual: "half-precision-floating-point-instructions-tanh",
        unit: Unit::Xu,
        since: (7, 8, 90),
        bind: bind!(tanh_bf16),
    },
    // The manual's box has no `.ftz` here, but the assembler takes it and kernels write it.
    Definition {
        form: "ex2.approx{.ftz}.type d, a; .type = .f16 .f16x2",
        manual: "half-precision-floating-point-instructions-ex2",
        unit: Unit::Xu,
        since: (7, 0, 75),
        bind: bind!(ex2_f16),
    },
    Definition {
        form: "ex2.approx.ftz.type d, a; .type = .bf16 .bf16x2",
        manual: "half-precision-floating-point-instructions-ex2",
        unit: Unit::Xu,
        since: (7, 8, 90),
        bind: bind!(ex2_bf16),
    },
];

/// An f32 approximation with `.ftz`.
macro_rules! single {
    ($name:ident = $f:ident) => {
        fn $name<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
            Ok(if spec.has("ftz") {
                map1::<I, u32, u32>(|a| approx::$f(a, true))
            } else {
                map1::<I, u32, u32>(|a| approx::$f(a, false))
            })
        }
    };
}

single!(rcp = rcp_approx_f32);
single!(sqrt = sqrt_approx_f32);
single!(rsqrt = rsqrt_approx_f32);
single!(sin = sin_approx_f32);
single!(cos = cos_approx_f32);
single!(lg2 = lg2_approx_f32);
single!(ex2 = ex2_approx_f32);

fn tanh<I: Simd>(_: &Spec<'_>) -> Result<Bound, Refusal> {
    Ok(map1::<I, u32, u32>(approx::tanh_approx_f32))
}

fn rcp_double<I: Simd>(_: &Spec<'_>) -> Result<Bound, Refusal> {
    Ok(map1::<I, u64, u64>(approx::rcp_approx_ftz_f64))
}

fn rsqrt_double<I: Simd>(_: &Spec<'_>) -> Result<Bound, Refusal> {
    Ok(map1::<I, u64, u64>(approx::rsqrt_approx_f64))
}

fn rsqrt_ftz_double<I: Simd>(_: &Spec<'_>) -> Result<Bound, Refusal> {
    Ok(map1::<I, u64, u64>(approx::rsqrt_approx_ftz_f64))
}

fn ex2_f16<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let ftz = spec.has("ftz");
    Ok(lanewise1::<I>(is_packed(spec)?, move |a| approx::ex2_approx_f16(a, ftz)))
}

fn ex2_bf16<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    Ok(lanewise1::<I>(is_packed(spec)?, approx::ex2_approx_bf16))
}

fn tanh_f16<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    Ok(lanewise1::<I>(is_packed(spec)?, approx::tanh_approx_f16))
}

fn tanh_bf16<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    Ok(lanewise1::<I>(is_packed(spec)?, approx::tanh_approx_bf16))
}
