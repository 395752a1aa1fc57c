//! SIMD video instructions on two halves or four bytes of a word, to which CUDA intrinsics such as `__vabsdiffu4` and
//! `__vsadu4` compile. Operand selectors (`a.b3210`) and masks are not supported, nor are the scalar video instructions.

use super::map::map3;
use super::{Bound, Definition, Refusal, Spec, Unit};
use crate::bind;
use crate::simd::Simd;

macro_rules! video {
    ($($opcode:literal $parts:literal $bind:ident;)* compare: $($set:literal $section:literal $compare:ident;)*) => {
        &[$(
            Definition {
                form: concat!(
                    $opcode,
                    ".dtype.atype.btype{.sat} d, a, b, c; .dtype = .u32 .s32; .atype = .u32 .s32; .btype = .u32 .s32"
                ),
                manual: $parts,
                unit: Unit::Alu,
                since: (3, 0, 30),
                bind: bind!($bind),
            },
            Definition {
                form: concat!(
                    $opcode,
                    ".dtype.atype.btype.add d, a, b, c; .dtype = .u32 .s32; .atype = .u32 .s32; .btype = .u32 .s32"
                ),
                manual: $parts,
                unit: Unit::Alu,
                since: (3, 0, 30),
                bind: bind!($bind),
            },
        )*$(
            Definition {
                form: concat!(
                    $set,
                    ".atype.btype.cmp{.add} d, a, b, c; .atype = .u32 .s32; .btype = .u32 .s32; .cmp = .eq .ne .lt .le .gt .ge"
                ),
                manual: $section,
                unit: Unit::Alu,
                since: (3, 0, 30),
                bind: bind!($compare),
            },
        )*]
    };
}

pub(super) const DEFINITIONS: &[Definition] = video! {
    "vadd2" "simd-video-instructions-vadd2-vsub2-vavrg2-vabsdiff2-vmin2-vmax2" vadd2;
    "vsub2" "simd-video-instructions-vadd2-vsub2-vavrg2-vabsdiff2-vmin2-vmax2" vsub2;
    "vavrg2" "simd-video-instructions-vadd2-vsub2-vavrg2-vabsdiff2-vmin2-vmax2" vavrg2;
    "vabsdiff2" "simd-video-instructions-vadd2-vsub2-vavrg2-vabsdiff2-vmin2-vmax2" vabsdiff2;
    "vmin2" "simd-video-instructions-vadd2-vsub2-vavrg2-vabsdiff2-vmin2-vmax2" vmin2;
    "vmax2" "simd-video-instructions-vadd2-vsub2-vavrg2-vabsdiff2-vmin2-vmax2" vmax2;
    "vadd4" "simd-video-instructions-vadd4-vsub4-vavrg4-vabsdiff4-vmin4-vmax4" vadd4;
    "vsub4" "simd-video-instructions-vadd4-vsub4-vavrg4-vabsdiff4-vmin4-vmax4" vsub4;
    "vavrg4" "simd-video-instructions-vadd4-vsub4-vavrg4-vabsdiff4-vmin4-vmax4" vavrg4;
    "vabsdiff4" "simd-video-instructions-vadd4-vsub4-vavrg4-vabsdiff4-vmin4-vmax4" vabsdiff4;
    "vmin4" "simd-video-instructions-vadd4-vsub4-vavrg4-vabsdiff4-vmin4-vmax4" vmin4;
    "vmax4" "simd-video-instructions-vadd4-vsub4-vavrg4-vabsdiff4-vmin4-vmax4" vmax4;
    compare:
    "vset2" "simd-video-instructions-vset2" vset2;
    "vset4" "simd-video-instructions-vset4" vset4;
};

macro_rules! binders {
    ($($two:ident $four:ident: $f:expr;)*) => {$(
        fn $two<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
            parts::<I, 2>(spec, $f)
        }

        fn $four<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
            parts::<I, 4>(spec, $f)
        }
    )*};
}

binders! {
    vadd2 vadd4: |a, b| a + b;
    vsub2 vsub4: |a, b| a - b;
    // Rounds halves up for non-negative sums, and toward minus infinity otherwise.
    vavrg2 vavrg4: |a, b| (a + b + i32::from(a + b >= 0)) >> 1;
    vabsdiff2 vabsdiff4: |a, b| (a - b).abs();
    vmin2 vmin4: i32::min;
    vmax2 vmax4: i32::max;
}

fn vset2<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    set::<I, 2>(spec)
}

fn vset4<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    set::<I, 4>(spec)
}

/// 1 in each part whose comparison is true, 0 in the others.
fn set<I: Simd, const N: u32>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    match spec.get("cmp") {
        Some("eq") => parts::<I, N>(spec, |a, b| i32::from(a == b)),
        Some("ne") => parts::<I, N>(spec, |a, b| i32::from(a != b)),
        Some("lt") => parts::<I, N>(spec, |a, b| i32::from(a < b)),
        Some("le") => parts::<I, N>(spec, |a, b| i32::from(a <= b)),
        Some("gt") => parts::<I, N>(spec, |a, b| i32::from(a > b)),
        _ => parts::<I, N>(spec, |a, b| i32::from(a >= b)),
    }
}

/// `N` parts of a word, each computed by `f`, then packed again or added to `c`.
fn parts<I: Simd, const N: u32>(
    spec: &Spec<'_>,
    f: impl Fn(i32, i32) -> i32 + Copy + Send + Sync + 'static,
) -> Result<Bound, Refusal> {
    let signed = |class: &str| spec.get(class) == Some("s32");
    let (d_signed, a_signed, b_signed) = (signed("dtype"), signed("atype"), signed("btype"));
    if spec.operands.len() != 4 {
        return Err(Refusal::Malformed("a video instruction on parts of a word takes four operands".into()));
    }
    let bits = 32 / N;
    let extract = move |word: u32, part: u32, signed: bool| -> i32 {
        let top = (word >> (part * bits) << (32 - bits)).cast_signed();
        if signed { top >> (32 - bits) } else { (top.cast_unsigned() >> (32 - bits)).cast_signed() }
    };
    let (low, high) =
        if d_signed { (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) } else { (0, (1 << bits) - 1) };
    let value = move |a, b, part| f(extract(a, part, a_signed), extract(b, part, b_signed));
    let pack = move |value: i32, part: u32| (value.cast_unsigned() & ((1 << bits) - 1)) << (part * bits);
    Ok(if spec.has("add") {
        map3::<I, u32, u32, u32, u32>(move |a, b, c| {
            (0..N).fold(c, |sum, part| sum.wrapping_add(value(a, b, part).cast_unsigned()))
        })
    } else if spec.has("sat") {
        map3::<I, u32, u32, u32, u32>(move |a, b, _| {
            (0..N).fold(0, |word, part| word | pack(value(a, b, part).clamp(low, high), part))
        })
    } else {
        map3::<I, u32, u32, u32, u32>(move |a, b, _| {
            (0..N).fold(0, |word, part| word | pack(value(a, b, part), part))
        })
    })
}
