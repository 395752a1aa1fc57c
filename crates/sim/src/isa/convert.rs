//! Conversions between all types.
//!
//! `cvt` is the only instruction whose registers may be wider than its types: it reads the low bits of a source, and
//! extends a result to its register by the sign of its type. Registers of the same size as the types, which compilers
//! usually emit, have vectorized routines; the others use [`widened`](registers::widened).
//!
//! Pipes are those of the SASS that ptxas emits for Ada: `F2FP` (packs to 16 and 8 bits) and `I2FP` (32-bit integers to
//! f32) run on the ALU, `HADD2` converts f16 to f32, and the rest (`F2F`, `F2I`, `I2F`, `FRND`) runs on the conversion
//! unit. A form that maps to several SASS instructions has the pipe of the usual one: `.rm` and `.rp` to f16 are `F2F`, and
//! narrower or wider integers to f32 are `I2F`.
#![expect(clippy::inline_always, reason = "only code inlined into a routine is compiled for its vector unit")]

mod packed;
mod registers;
pub(super) mod scaled;
pub(super) mod small;

use super::float::rounding;
use super::map::map1;
use super::{Bound, Definition, Refusal, Spec, Unit};
use crate::machine::{Type, Width};
use crate::simd::{Portable, Simd};
use crate::{bind, bind_plain};
use packed::{fp8_from_halves, halves_from_fp8, pack_fp8, pack_halves, pack_integers};
use registers::{converted, file, ones, register_bits, truncate, truncate16, widened};
use warpproof_num::half::{relu, sat_bf16, sat_f16};
use warpproof_num::{IntRounding, Rounding, convert, float, fp8};

pub(super) const DEFINITIONS: &[Definition] = &[
    // Integer to integer.
    Definition {
        form: "cvt.dtype.atype d, a; .dtype = .u8 .u16 .u32 .u64 .s8 .s16 .s32 .s64; .atype = .u8 .u16 .u32 .u64 .s8 .s16 .s32 .s64",
        manual: "data-movement-and-conversion-instructions-cvt",
        unit: Unit::Alu,
        since: (1, 0, 10),
        bind: bind!(integer),
    },
    // `.sat` is for types that do not hold all values of the source: three boxes whose spellings are all of that kind.
    Definition {
        form: "cvt.sat.dtype.atype d, a; .dtype = .s8 .u8 .u16 .u32 .s16 .s32 .s64; .atype = .u64 .u8 .u16 .u32 .s16 .s32 .s64",
        manual: "data-movement-and-conversion-instructions-cvt",
        unit: Unit::Alu,
        since: (1, 0, 10),
        bind: bind_plain!(integer_sat),
    },
    Definition {
        form: "cvt.sat.dtype.atype d, a; .dtype = .u64; .atype = .s8 .s16 .s32 .s64",
        manual: "data-movement-and-conversion-instructions-cvt",
        unit: Unit::Alu,
        since: (1, 0, 10),
        bind: bind_plain!(integer_sat),
    },
    Definition {
        form: "cvt.sat.dtype.atype d, a; .dtype = .u8 .u16 .u32; .atype = .s8",
        manual: "data-movement-and-conversion-instructions-cvt",
        unit: Unit::Alu,
        since: (1, 0, 10),
        bind: bind_plain!(integer_sat),
    },
    // Floating point to integer.
    Definition {
        form: "cvt.irnd{.ftz}{.sat}.dtype.f32 d, a; .irnd = .rni .rzi .rmi .rpi; .dtype = .u8 .u16 .u32 .u64 .s8 .s16 .s32 .s64",
        manual: "data-movement-and-conversion-instructions-cvt",
        unit: Unit::Xu,
        since: (1, 0, 10),
        bind: bind!(integer_from_f32),
    },
    Definition {
        form: "cvt.irnd{.sat}.dtype.f64 d, a; .irnd = .rni .rzi .rmi .rpi; .dtype = .u8 .u16 .u32 .u64 .s8 .s16 .s32 .s64",
        manual: "data-movement-and-conversion-instructions-cvt",
        unit: Unit::Xu,
        since: (1, 0, 13),
        bind: bind!(integer_from_f64),
    },
    Definition {
        form: "cvt.irnd{.sat}.dtype.f16 d, a; .irnd = .rni .rzi .rmi .rpi; .dtype = .u8 .u16 .u32 .u64 .s8 .s16 .s32 .s64",
        manual: "data-movement-and-conversion-instructions-cvt",
        unit: Unit::Xu,
        since: (1, 0, 10),
        bind: bind_plain!(integer_from_f16),
    },
    Definition {
        form: "cvt.irnd{.sat}.dtype.bf16 d, a; .irnd = .rni .rzi .rmi .rpi; .dtype = .u8 .u16 .u32 .u64 .s8 .s16 .s32 .s64",
        manual: "data-movement-and-conversion-instructions-cvt",
        unit: Unit::Xu,
        since: (7, 8, 90),
        bind: bind_plain!(integer_from_bf16),
    },
    // Integer to floating point.
    Definition {
        form: "cvt.frnd{.ftz}{.sat}.f32.atype d, a; .frnd = .rn .rz .rm .rp; .atype = .u8 .u16 .u32 .u64 .s8 .s16 .s32 .s64",
        manual: "data-movement-and-conversion-instructions-cvt",
        unit: Unit::Alu,
        since: (1, 0, 10),
        bind: bind!(f32_from_integer),
    },
    Definition {
        form: "cvt.frnd{.sat}.f64.atype d, a; .frnd = .rn .rz .rm .rp; .atype = .u8 .u16 .u32 .u64 .s8 .s16 .s32 .s64",
        manual: "data-movement-and-conversion-instructions-cvt",
        unit: Unit::Xu,
        since: (1, 0, 13),
        bind: bind!(f64_from_integer),
    },
    Definition {
        form: "cvt.frnd{.sat}.f16.atype d, a; .frnd = .rn .rz .rm .rp; .atype = .u8 .u16 .u32 .u64 .s8 .s16 .s32 .s64",
        manual: "data-movement-and-conversion-instructions-cvt",
        unit: Unit::Xu,
        since: (1, 0, 10),
        bind: bind_plain!(f16_from_integer),
    },
    Definition {
        form: "cvt.frnd.bf16.atype d, a; .frnd = .rn .rz .rm .rp; .atype = .u8 .u16 .u32 .u64 .s8 .s16 .s32 .s64",
        manual: "data-movement-and-conversion-instructions-cvt",
        unit: Unit::Xu,
        since: (7, 8, 90),
        bind: bind_plain!(bf16_from_integer),
    },
    // Between floating-point formats, without rounding.
    Definition {
        form: "cvt{.ftz}{.sat}.f32.f32 d, a",
        manual: "data-movement-and-conversion-instructions-cvt",
        unit: Unit::Alu,
        since: (1, 0, 10),
        bind: bind!(same_f32),
    },
    Definition {
        form: "cvt{.sat}.f64.f64 d, a",
        manual: "data-movement-and-conversion-instructions-cvt",
        unit: Unit::Fp64,
        since: (1, 0, 13),
        bind: bind_plain!(same_f64),
    },
    Definition {
        form: "cvt{.sat}.f16.f16 d, a",
        manual: "data-movement-and-conversion-instructions-cvt",
        unit: Unit::Half,
        since: (1, 0, 10),
        bind: bind_plain!(same_f16),
    },
    Definition {
        form: "cvt{.ftz}{.sat}.f32.f16 d, a",
        manual: "data-movement-and-conversion-instructions-cvt",
        unit: Unit::Half,
        since: (1, 0, 10),
        bind: bind!(f32_from_f16),
    },
    Definition {
        form: "cvt{.ftz}{.sat}.f64.f32 d, a",
        manual: "data-movement-and-conversion-instructions-cvt",
        unit: Unit::Xu,
        since: (1, 0, 13),
        bind: bind!(f64_from_f32),
    },
    Definition {
        form: "cvt{.sat}.f64.f16 d, a",
        manual: "data-movement-and-conversion-instructions-cvt",
        unit: Unit::Xu,
        since: (1, 0, 13),
        bind: bind_plain!(f64_from_f16),
    },
    Definition {
        form: "cvt{.sat}.f32.bf16 d, a",
        manual: "data-movement-and-conversion-instructions-cvt",
        unit: Unit::Alu,
        since: (7, 1, 80),
        bind: bind!(f32_from_bf16),
    },
    Definition {
        form: "cvt.ftz{.sat}.f32.bf16 d, a",
        manual: "data-movement-and-conversion-instructions-cvt",
        unit: Unit::Alu,
        since: (7, 8, 80),
        bind: bind!(f32_from_bf16),
    },
    // Exact, so that a rounding changes nothing.
    Definition {
        form: "cvt.frnd{.ftz}{.sat}.f32.bf16 d, a; .frnd = .rn .rz .rm .rp",
        manual: "data-movement-and-conversion-instructions-cvt",
        unit: Unit::Alu,
        since: (7, 8, 90),
        bind: bind!(f32_from_bf16),
    },
    Definition {
        form: "cvt{.frnd}{.sat}.f64.bf16 d, a; .frnd = .rn .rz .rm .rp",
        manual: "data-movement-and-conversion-instructions-cvt",
        unit: Unit::Xu,
        since: (7, 8, 90),
        bind: bind_plain!(f64_from_bf16),
    },
    // To an integral value of the same format.
    Definition {
        form: "cvt.irnd{.ftz}{.sat}.f32.f32 d, a; .irnd = .rni .rzi .rmi .rpi",
        manual: "data-movement-and-conversion-instructions-cvt",
        unit: Unit::Xu,
        since: (1, 0, 10),
        bind: bind!(integral_f32),
    },
    Definition {
        form: "cvt.irnd{.sat}.f64.f64 d, a; .irnd = .rni .rzi .rmi .rpi",
        manual: "data-movement-and-conversion-instructions-cvt",
        unit: Unit::Fp64,
        since: (1, 0, 13),
        bind: bind_plain!(integral_f64),
    },
    Definition {
        form: "cvt.irnd{.sat}.f16.f16 d, a; .irnd = .rni .rzi .rmi .rpi",
        manual: "data-movement-and-conversion-instructions-cvt",
        unit: Unit::Half,
        since: (1, 0, 10),
        bind: bind_plain!(integral_f16),
    },
    Definition {
        form: "cvt.irnd.bf16.bf16 d, a; .irnd = .rni .rzi .rmi .rpi",
        manual: "data-movement-and-conversion-instructions-cvt",
        unit: Unit::Half,
        since: (7, 8, 90),
        bind: bind_plain!(integral_bf16),
    },
    // To a narrower format.
    Definition {
        form: "cvt.frnd{.ftz}{.sat}.f32.f64 d, a; .frnd = .rn .rz .rm .rp",
        manual: "data-movement-and-conversion-instructions-cvt",
        unit: Unit::Xu,
        since: (1, 0, 13),
        bind: bind!(f32_from_f64),
    },
    Definition {
        form: "cvt.frnd{.ftz}{.sat}.f16.f32 d, a; .frnd = .rn .rz .rm .rp",
        manual: "data-movement-and-conversion-instructions-cvt",
        unit: Unit::Alu,
        since: (1, 0, 10),
        bind: bind!(f16_from_f32),
    },
    Definition {
        form: "cvt.frnd{.sat}.f16.f64 d, a; .frnd = .rn .rz .rm .rp",
        manual: "data-movement-and-conversion-instructions-cvt",
        unit: Unit::Xu,
        since: (1, 0, 13),
        bind: bind_plain!(f16_from_f64),
    },
    Definition {
        form: "cvt.frnd{.sat}.f16.bf16 d, a; .frnd = .rn .rz .rm .rp",
        manual: "data-movement-and-conversion-instructions-cvt",
        unit: Unit::Xu,
        since: (7, 8, 90),
        bind: bind_plain!(f16_from_bf16),
    },
    Definition {
        form: "cvt.frnd.bf16.f16 d, a; .frnd = .rn .rz .rm .rp",
        manual: "data-movement-and-conversion-instructions-cvt",
        unit: Unit::Xu,
        since: (7, 8, 90),
        bind: bind_plain!(bf16_from_f16),
    },
    Definition {
        form: "cvt.frnd.bf16.f64 d, a; .frnd = .rn .rz .rm .rp",
        manual: "data-movement-and-conversion-instructions-cvt",
        unit: Unit::Xu,
        since: (7, 8, 90),
        bind: bind_plain!(bf16_from_f64),
    },
    Definition {
        form: "cvt.frnd.bf16.f32 d, a; .frnd = .rm .rp",
        manual: "data-movement-and-conversion-instructions-cvt",
        unit: Unit::Alu,
        since: (7, 8, 90),
        bind: bind_plain!(bf16_from_f32),
    },
    Definition {
        form: "cvt.frnd.ftz.bf16.f32 d, a; .frnd = .rn .rz .rm .rp",
        manual: "data-movement-and-conversion-instructions-cvt",
        unit: Unit::Alu,
        since: (7, 8, 90),
        bind: bind_plain!(bf16_from_f32),
    },
    Definition {
        form: "cvt.frnd2.bf16.f32 d, a; .frnd2 = .rn .rz",
        manual: "data-movement-and-conversion-instructions-cvt",
        unit: Unit::Alu,
        since: (7, 0, 80),
        bind: bind!(narrow_limited),
    },
    Definition {
        form: "cvt.frnd2.relu.f16.f32 d, a; .frnd2 = .rn .rz",
        manual: "data-movement-and-conversion-instructions-cvt",
        unit: Unit::Alu,
        since: (7, 0, 80),
        bind: bind!(narrow_limited),
    },
    Definition {
        form: "cvt.frnd2{.relu}.satfinite.f16.f32 d, a; .frnd2 = .rn .rz",
        manual: "data-movement-and-conversion-instructions-cvt",
        unit: Unit::Alu,
        since: (8, 1, 70),
        bind: bind!(narrow_limited),
    },
    Definition {
        form: "cvt.frnd2.relu.bf16.f32 d, a; .frnd2 = .rn .rz",
        manual: "data-movement-and-conversion-instructions-cvt",
        unit: Unit::Alu,
        since: (7, 0, 80),
        bind: bind!(narrow_limited),
    },
    Definition {
        form: "cvt.frnd2{.relu}.satfinite.bf16.f32 d, a; .frnd2 = .rn .rz",
        manual: "data-movement-and-conversion-instructions-cvt",
        unit: Unit::Alu,
        since: (8, 1, 80),
        bind: bind!(narrow_limited),
    },
    // Two values packed: the first operand goes to the upper half.
    Definition {
        form: "cvt.frnd2{.relu}.dtype.f32 d, a, b; .frnd2 = .rn .rz; .dtype = .f16x2 .bf16x2",
        manual: "data-movement-and-conversion-instructions-cvt",
        unit: Unit::Alu,
        since: (7, 0, 80),
        bind: bind!(pack_halves),
    },
    Definition {
        form: "cvt.frnd2{.relu}.satfinite.dtype.f32 d, a, b; .frnd2 = .rn .rz; .dtype = .f16x2 .bf16x2",
        manual: "data-movement-and-conversion-instructions-cvt",
        unit: Unit::Alu,
        since: (8, 1, 80),
        bind: bind!(pack_halves),
    },
    Definition {
        form: "cvt.rn.satfinite{.relu}.f8x2type.f32 d, a, b; .f8x2type = .e4m3x2 .e5m2x2",
        manual: "data-movement-and-conversion-instructions-cvt",
        unit: Unit::Alu,
        since: (8, 1, 89),
        bind: bind!(pack_fp8),
    },
    Definition {
        form: "cvt.rn.satfinite{.relu}.f8x2type.f16x2 d, a; .f8x2type = .e4m3x2 .e5m2x2",
        manual: "data-movement-and-conversion-instructions-cvt",
        unit: Unit::Alu,
        since: (8, 1, 89),
        bind: bind!(fp8_from_halves),
    },
    Definition {
        form: "cvt.rn{.relu}.f16x2.f8x2type d, a; .f8x2type = .e4m3x2 .e5m2x2",
        manual: "data-movement-and-conversion-instructions-cvt",
        unit: Unit::Alu,
        since: (8, 1, 89),
        bind: bind!(halves_from_fp8),
    },
    Definition {
        form: "cvt.rna.tf32.f32 d, a",
        manual: "data-movement-and-conversion-instructions-cvt",
        unit: Unit::Xu,
        since: (7, 0, 80),
        bind: bind!(tf32),
    },
    Definition {
        form: "cvt.rna.satfinite.tf32.f32 d, a",
        manual: "data-movement-and-conversion-instructions-cvt",
        unit: Unit::Xu,
        since: (8, 1, 80),
        bind: bind!(tf32),
    },
    Definition {
        form: "cvt.frnd2{.relu}.tf32.f32 d, a; .frnd2 = .rn .rz",
        manual: "data-movement-and-conversion-instructions-cvt",
        unit: Unit::Xu,
        since: (7, 8, 90),
        bind: bind!(tf32),
    },
    Definition {
        form: "cvt.frnd2.satfinite{.relu}.tf32.f32 d, a; .frnd2 = .rn .rz",
        manual: "data-movement-and-conversion-instructions-cvt",
        unit: Unit::Xu,
        since: (8, 6, 100),
        bind: bind!(tf32),
    },
    Definition {
        form: "cvt.pack.sat.convertType.s32 d, a, b; .convertType = .u16 .s16",
        manual: "data-movement-and-conversion-instructions-cvt-pack",
        unit: Unit::Alu,
        since: (6, 5, 72),
        bind: bind!(pack_integers),
    },
    Definition {
        form: "cvt.pack.sat.convertType.s32.b32 d, a, b, c; .convertType = .u8 .s8",
        manual: "data-movement-and-conversion-instructions-cvt-pack",
        unit: Unit::Alu,
        since: (6, 5, 72),
        bind: bind!(pack_integers),
    },
    Definition {
        form: "cvt.pack.sat.convertType.s32.b32 d, a, b, c; .convertType = .u2 .s2 .u4 .s4",
        manual: "data-movement-and-conversion-instructions-cvt-pack",
        unit: Unit::Alu,
        since: (6, 5, 75),
        bind: bind!(pack_integers),
    },
];

// ---- integer to integer ----

/// Truncates a word to a type and extends it again, without a branch on signedness: flipping the sign bit and subtracting
/// it extends a signed value, and does nothing for an unsigned one.
#[derive(Clone, Copy)]
struct Extension {
    mask: u64,
    sign: u64,
}

impl Extension {
    fn of(ty: Type) -> Extension {
        let bits = ty.bytes() * 8;
        Extension { mask: ones(bits), sign: if ty.is_signed() { 1 << (bits - 1) } else { 0 } }
    }

    #[inline(always)]
    fn apply(self, word: u64) -> u64 {
        ((word & self.mask) ^ self.sign).wrapping_sub(self.sign)
    }

    /// As above in half the width, for types of at most 32 bits.
    #[inline(always)]
    fn apply32(self, word: u32) -> u32 {
        let (mask, sign) = (truncate(self.mask), truncate(self.sign));
        ((word & mask) ^ sign).wrapping_sub(sign)
    }
}

/// The types of an integer conversion and the widths of its registers.
fn integer_types(spec: &Spec<'_>) -> Result<(Type, Type, u32, u32), Refusal> {
    let (d, a) = (spec.ty("dtype")?, spec.ty("atype")?);
    Ok((d, a, register_bits(spec, 0, d.bytes() * 8)?, register_bits(spec, 1, a.bytes() * 8)?))
}

fn integer<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let (d, a, target, source) = integer_types(spec)?;
    let (to, from, limit) = (Extension::of(d), Extension::of(a), ones(target));
    Ok(match (d, a, file(target), file(source)) {
        // The conversions that compilers emit most often.
        (Type::S64, Type::S32, Width::W64, Width::W32) => map1::<I, i64, i32>(i64::from),
        (Type::U64, Type::U32, Width::W64, Width::W32) => map1::<I, u64, u32>(u64::from),
        (Type::U32, Type::U64, Width::W32, Width::W64) => map1::<I, u32, u64>(truncate),
        (Type::U32, Type::U16, Width::W32, Width::W32) => map1::<I, u32, u16>(u32::from),
        (Type::U16, Type::U32, Width::W32, Width::W32) => map1::<I, u16, u32>(truncate16),
        (_, _, Width::W32, Width::W32) => {
            map1::<I, u32, u32>(move |a| to.apply32(from.apply32(a)) & truncate(limit))
        }
        (_, _, Width::W64, Width::W32) => {
            map1::<I, u64, u32>(move |a| to.apply(from.apply(u64::from(a))) & limit)
        }
        (_, _, Width::W32, Width::W64) => {
            map1::<I, u32, u64>(move |a| truncate(to.apply(from.apply(a)) & limit))
        }
        (_, _, Width::W64, Width::W64) => map1::<I, u64, u64>(move |a| to.apply(from.apply(a)) & limit),
        _ => widened(target, source, d.is_signed(), Box::new(move |a| to.apply(from.apply(a)))),
    })
}

fn integer_sat(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let (d, a, target, source) = integer_types(spec)?;
    let (from, bits, signed, from_signed) = (Extension::of(a), d.bytes() * 8, d.is_signed(), a.is_signed());
    let clamp = move |a| {
        let word = from.apply(a);
        let value = if from_signed { i128::from(word.cast_signed()) } else { i128::from(word) };
        convert::saturate_integer(value, bits, signed)
    };
    Ok(widened(target, source, signed, Box::new(clamp)))
}

// ---- floating point to integer; results clamp, so `.sat` has no effect ----

fn integer_rounding(spec: &Spec<'_>) -> IntRounding {
    match spec.get("irnd") {
        Some("rni") => IntRounding::Rni,
        Some("rmi") => IntRounding::Rmi,
        Some("rpi") => IntRounding::Rpi,
        _ => IntRounding::Rzi,
    }
}

/// All less common results; one routine for all levels.
macro_rules! integer_from {
    ($name:ident, $a:ty $(, $ftz:ident)?: $u8:ident $u16:ident $u32:ident $u64:ident $s8:ident $s16:ident $s32:ident $s64:ident) => {
        fn $name(spec: &Spec<'_>) -> Result<Bound, Refusal> {
            let rnd = integer_rounding(spec);
            $(let $ftz = spec.has("ftz");)?
            match spec.ty("dtype")? {
                Type::U8 => converted::<Portable, u8, $a>(spec, move |a| convert::$u8(a, rnd $(, $ftz)?)),
                Type::U16 => converted::<Portable, u16, $a>(spec, move |a| convert::$u16(a, rnd $(, $ftz)?)),
                Type::U32 => converted::<Portable, u32, $a>(spec, move |a| convert::$u32(a, rnd $(, $ftz)?)),
                Type::U64 => converted::<Portable, u64, $a>(spec, move |a| convert::$u64(a, rnd $(, $ftz)?)),
                Type::S8 => converted::<Portable, i8, $a>(spec, move |a| convert::$s8(a, rnd $(, $ftz)?).cast_signed()),
                Type::S16 => converted::<Portable, i16, $a>(spec, move |a| convert::$s16(a, rnd $(, $ftz)?).cast_signed()),
                Type::S32 => converted::<Portable, i32, $a>(spec, move |a| convert::$s32(a, rnd $(, $ftz)?).cast_signed()),
                _ => converted::<Portable, i64, $a>(spec, move |a| convert::$s64(a, rnd $(, $ftz)?).cast_signed()),
            }
        }
    };
}

integer_from!(any_integer_from_f32, u32, ftz: cvt_u8_f32 cvt_u16_f32 cvt_u32_f32 cvt_u64_f32 cvt_s8_f32 cvt_s16_f32 cvt_s32_f32 cvt_s64_f32);
integer_from!(any_integer_from_f64, u64: cvt_u8_f64 cvt_u16_f64 cvt_u32_f64 cvt_u64_f64 cvt_s8_f64 cvt_s16_f64 cvt_s32_f64 cvt_s64_f64);
integer_from!(integer_from_f16, u16: cvt_u8_f16 cvt_u16_f16 cvt_u32_f16 cvt_u64_f16 cvt_s8_f16 cvt_s16_f16 cvt_s32_f16 cvt_s64_f16);
integer_from!(integer_from_bf16, u16: cvt_u8_bf16 cvt_u16_bf16 cvt_u32_bf16 cvt_u64_bf16 cvt_s8_bf16 cvt_s16_bf16 cvt_s32_bf16 cvt_s64_bf16);

fn integer_from_f32<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    use convert::{cvt_s32_f32, cvt_u32_f32};
    let ftz = spec.has("ftz");
    // The common results, with the rounding as a compile-time constant.
    match (spec.ty("dtype")?, integer_rounding(spec)) {
        (Type::S32, IntRounding::Rni) => {
            converted::<I, i32, u32>(spec, move |a| cvt_s32_f32(a, IntRounding::Rni, ftz).cast_signed())
        }
        (Type::S32, IntRounding::Rzi) => {
            converted::<I, i32, u32>(spec, move |a| cvt_s32_f32(a, IntRounding::Rzi, ftz).cast_signed())
        }
        (Type::S32, IntRounding::Rmi) => {
            converted::<I, i32, u32>(spec, move |a| cvt_s32_f32(a, IntRounding::Rmi, ftz).cast_signed())
        }
        (Type::U32, IntRounding::Rzi) => {
            converted::<I, u32, u32>(spec, move |a| cvt_u32_f32(a, IntRounding::Rzi, ftz))
        }
        _ => any_integer_from_f32(spec),
    }
}

fn integer_from_f64<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    match (spec.ty("dtype")?, integer_rounding(spec)) {
        (Type::S32, IntRounding::Rzi) => {
            converted::<I, i32, u64>(spec, |a| convert::cvt_s32_f64(a, IntRounding::Rzi).cast_signed())
        }
        _ => any_integer_from_f64(spec),
    }
}

// ---- integer to floating point ----

/// All less common sources; one routine for all levels.
macro_rules! from_integer {
    ($name:ident, $d:ty, $unsigned:ident $signed:ident, $sat:path) => {
        fn $name(spec: &Spec<'_>) -> Result<Bound, Refusal> {
            use convert::{$signed, $unsigned};
            let (rnd, sat) = (rounding(spec, "frnd"), spec.has("sat"));
            let finish = move |d: $d| if sat { $sat(d) } else { d };
            match spec.ty("atype")? {
                Type::U8 => {
                    converted::<Portable, $d, u8>(spec, move |a| finish($unsigned(u64::from(a), rnd)))
                }
                Type::U16 => {
                    converted::<Portable, $d, u16>(spec, move |a| finish($unsigned(u64::from(a), rnd)))
                }
                Type::U32 => {
                    converted::<Portable, $d, u32>(spec, move |a| finish($unsigned(u64::from(a), rnd)))
                }
                Type::U64 => converted::<Portable, $d, u64>(spec, move |a| finish($unsigned(a, rnd))),
                Type::S8 => converted::<Portable, $d, i8>(spec, move |a| finish($signed(i64::from(a), rnd))),
                Type::S16 => {
                    converted::<Portable, $d, i16>(spec, move |a| finish($signed(i64::from(a), rnd)))
                }
                Type::S32 => {
                    converted::<Portable, $d, i32>(spec, move |a| finish($signed(i64::from(a), rnd)))
                }
                _ => converted::<Portable, $d, i64>(spec, move |a| finish($signed(a, rnd))),
            }
        }
    };
}

from_integer!(f32_from_any_integer, u32, cvt_f32_u64 cvt_f32_s64, float::sat_f32);
from_integer!(f64_from_any_integer, u64, cvt_f64_u64 cvt_f64_s64, float::sat_f64);
from_integer!(f16_from_integer, u16, cvt_f16_u64 cvt_f16_s64, sat_f16);
from_integer!(bf16_from_integer, u16, cvt_bf16_u64 cvt_bf16_s64, sat_bf16);

fn f32_from_integer<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    match (spec.ty("atype")?, rounding(spec, "frnd"), spec.has("sat")) {
        (Type::S32, Rounding::Rn, false) => {
            converted::<I, u32, i32>(spec, |a| convert::cvt_f32_s32(a, Rounding::Rn))
        }
        (Type::U32, Rounding::Rn, false) => {
            converted::<I, u32, u32>(spec, |a| convert::cvt_f32_u32(a, Rounding::Rn))
        }
        _ => f32_from_any_integer(spec),
    }
}

fn f64_from_integer<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    match (spec.ty("atype")?, rounding(spec, "frnd"), spec.has("sat")) {
        (Type::S32, Rounding::Rn, false) => {
            converted::<I, u64, i32>(spec, |a| convert::cvt_f64_s64(i64::from(a), Rounding::Rn))
        }
        (Type::U32, Rounding::Rn, false) => {
            converted::<I, u64, u32>(spec, |a| convert::cvt_f64_u64(u64::from(a), Rounding::Rn))
        }
        _ => f64_from_any_integer(spec),
    }
}

// ---- between floating-point formats ----

#[inline(always)]
fn limit_f32(sat: bool, d: u32) -> u32 {
    if sat { float::sat_f32(d) } else { d }
}

#[inline(always)]
fn limit_f64(sat: bool, d: u64) -> u64 {
    if sat { float::sat_f64(d) } else { d }
}

#[inline(always)]
fn limit_f16(sat: bool, d: u16) -> u16 {
    if sat { sat_f16(d) } else { d }
}

fn same_f32<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let (ftz, sat) = (spec.has("ftz"), spec.has("sat"));
    converted::<I, u32, u32>(spec, move |a| limit_f32(sat, convert::cvt_f32_f32(a, ftz)))
}

fn same_f64(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let sat = spec.has("sat");
    converted::<Portable, u64, u64>(spec, move |a| limit_f64(sat, a))
}

fn same_f16(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let sat = spec.has("sat");
    converted::<Portable, u16, u16>(spec, move |a| limit_f16(sat, a))
}

fn f32_from_f16<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    // Every f16 number is normal in f32: `.ftz` has nothing to flush.
    if spec.has("sat") {
        converted::<I, u32, u16>(spec, |a| float::sat_f32(convert::cvt_f32_f16(a)))
    } else {
        converted::<I, u32, u16>(spec, convert::cvt_f32_f16)
    }
}

fn f64_from_f32<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let (ftz, sat) = (spec.has("ftz"), spec.has("sat"));
    converted::<I, u64, u32>(spec, move |a| limit_f64(sat, convert::cvt_f64_f32(a, ftz)))
}

fn f64_from_f16(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let sat = spec.has("sat");
    converted::<Portable, u64, u16>(spec, move |a| limit_f64(sat, convert::cvt_f64_f16(a)))
}

fn f32_from_bf16<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let (ftz, sat) = (spec.has("ftz"), spec.has("sat"));
    if !ftz && !sat {
        return converted::<I, u32, u16>(spec, convert::cvt_f32_bf16);
    }
    converted::<I, u32, u16>(spec, move |a| {
        limit_f32(sat, float::flush_f32_if(ftz, convert::cvt_f32_bf16(a)))
    })
}

fn f64_from_bf16(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let sat = spec.has("sat");
    converted::<Portable, u64, u16>(spec, move |a| limit_f64(sat, convert::cvt_f64_bf16(a)))
}

fn integral_f32<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let (rnd, ftz, sat) = (integer_rounding(spec), spec.has("ftz"), spec.has("sat"));
    converted::<I, u32, u32>(spec, move |a| limit_f32(sat, convert::rint_f32(a, rnd, ftz)))
}

fn integral_f64(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let (rnd, sat) = (integer_rounding(spec), spec.has("sat"));
    converted::<Portable, u64, u64>(spec, move |a| limit_f64(sat, convert::rint_f64(a, rnd)))
}

fn integral_f16(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let (rnd, sat) = (integer_rounding(spec), spec.has("sat"));
    converted::<Portable, u16, u16>(spec, move |a| limit_f16(sat, convert::rint_f16(a, rnd)))
}

fn integral_bf16(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let rnd = integer_rounding(spec);
    converted::<Portable, u16, u16>(spec, move |a| convert::rint_bf16(a, rnd))
}

fn f32_from_f64<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let (rnd, ftz, sat) = (rounding(spec, "frnd"), spec.has("ftz"), spec.has("sat"));
    if rnd == Rounding::Rn && !sat {
        return converted::<I, u32, u64>(spec, move |a| convert::cvt_f32_f64(a, Rounding::Rn, ftz));
    }
    converted::<I, u32, u64>(spec, move |a| limit_f32(sat, convert::cvt_f32_f64(a, rnd, ftz)))
}

fn f16_from_f32<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let (rnd, ftz, sat) = (rounding(spec, "frnd"), spec.has("ftz"), spec.has("sat"));
    if rnd == Rounding::Rn && !sat {
        return converted::<I, u16, u32>(spec, move |a| convert::cvt_f16_f32(a, Rounding::Rn, ftz));
    }
    converted::<I, u16, u32>(spec, move |a| limit_f16(sat, convert::cvt_f16_f32(a, rnd, ftz)))
}

fn f16_from_f64(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let (rnd, sat) = (rounding(spec, "frnd"), spec.has("sat"));
    converted::<Portable, u16, u64>(spec, move |a| limit_f16(sat, convert::cvt_f16_f64(a, rnd)))
}

fn f16_from_bf16(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let (rnd, sat) = (rounding(spec, "frnd"), spec.has("sat"));
    converted::<Portable, u16, u16>(spec, move |a| limit_f16(sat, convert::cvt_f16_bf16(a, rnd)))
}

fn bf16_from_f16(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let rnd = rounding(spec, "frnd");
    converted::<Portable, u16, u16>(spec, move |a| convert::cvt_bf16_f16(a, rnd))
}

fn bf16_from_f32(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let (rnd, ftz) = (rounding(spec, "frnd"), spec.has("ftz"));
    converted::<Portable, u16, u32>(spec, move |a| convert::cvt_bf16_f32(a, rnd, ftz))
}

fn bf16_from_f64(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let rnd = rounding(spec, "frnd");
    converted::<Portable, u16, u64>(spec, move |a| convert::cvt_bf16_f64(a, rnd))
}

/// The parameters of `cvt.frnd2`: the narrow format, the rounding and the limit.
#[derive(Clone, Copy)]
struct Narrowing {
    rounding: Rounding,
    relu: bool,
    satfinite: bool,
}

impl Narrowing {
    fn of(spec: &Spec<'_>) -> Narrowing {
        Narrowing {
            rounding: rounding(spec, "frnd2"),
            relu: spec.has("relu"),
            satfinite: spec.has("satfinite"),
        }
    }

    /// Round to nearest, without a limit.
    fn is_plain(self) -> bool {
        self.rounding == Rounding::Rn && !self.relu && !self.satfinite
    }

    #[inline(always)]
    fn f16(self, a: u32) -> u16 {
        let d = convert::cvt_f16_f32(a, self.rounding, false);
        let d = if self.satfinite { convert::satfinite_f16(d) } else { d };
        if self.relu { relu(d) } else { d }
    }

    #[inline(always)]
    fn bf16(self, a: u32) -> u16 {
        let d = convert::cvt_bf16_f32(a, self.rounding, false);
        let d = if self.satfinite { convert::satfinite_bf16(d) } else { d };
        if self.relu { relu(d) } else { d }
    }
}

fn narrow_limited<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let narrowing = Narrowing::of(spec);
    match (spec.has("bf16"), narrowing.is_plain()) {
        (true, true) => converted::<I, u16, u32>(spec, |a| convert::cvt_bf16_f32(a, Rounding::Rn, false)),
        (true, false) => converted::<I, u16, u32>(spec, move |a| narrowing.bf16(a)),
        (false, _) => converted::<I, u16, u32>(spec, move |a| narrowing.f16(a)),
    }
}

fn tf32<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let rnd = if spec.has("rna") { Rounding::Rna } else { rounding(spec, "frnd2") };
    let (relu, satfinite) = (spec.has("relu"), spec.has("satfinite"));
    if rnd == Rounding::Rna && !satfinite {
        return converted::<I, u32, u32>(spec, |a| fp8::cvt_tf32_f32(a, Rounding::Rna, false, false));
    }
    converted::<I, u32, u32>(spec, move |a| fp8::cvt_tf32_f32(a, rnd, relu, satfinite))
}
