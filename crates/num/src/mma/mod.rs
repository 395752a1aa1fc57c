//! The tensor core: one matrix multiply-accumulate D = A·B + C, bit for bit as on a generation of GPUs.
//!
//! [`rule`] defines the arithmetic; this module computes the same bits faster. All matrices are stored by column, which makes the
//! rows of A, C and D the lanes of the host's vectors:
//!
//! - `a[k][row]`, M rows of codes for each of the K columns of A;
//! - `b[col][k]`, K codes for each of the N columns of B;
//! - `c[col][row]`, M codes for each of the N columns of C, replaced by those of D. An f16 accumulator is the low half.
//!
//! Every term of the rule is an exact product, scaled by a power of two and truncated to an integer: exact operations of
//! binary floating point. f32 holds the terms and sums of 8-bit operands with F = 13, f64 those of the others. Infinities and NaNs, and
//! the corner cases in which the exponent of zero or a subnormal result matters, do not use this fast path: the rule itself
//! computes their column, or the whole matrix.

mod integer;
pub mod rule;
pub mod scaled;
mod sparse;
pub mod tensor;
mod vector;

pub use integer::{BitOp, IntElement, bits, f64, integer};
pub use rule::{Accumulator, Element, TensorCore};
pub use sparse::{Sparse, sparse};

use super::float::add_f32;
use super::fp8::{Fp8, cvt_f16_fp8};
use super::half::add_f16;
use super::round::Rounding;
use vector::{Double, Lane, Single};

const fn element(format: Fp8) -> Element {
    match format {
        Fp8::E4m3 => Element::E4m3,
        Fp8::E5m2 => Element::E5m2,
    }
}

/// e4m3 and e5m2 in any mix, to f32 or f16. K is a multiple of 16. On Hopper this is `wgmma`; for `mma` see [`fp8_by_f16`].
#[inline(always)]
pub fn fp8<const M: usize, const N: usize, const K: usize>(
    core: TensorCore,
    formats: (Fp8, Fp8),
    accumulator: Accumulator,
    a: &[[u8; M]; K],
    b: &[[u8; K]; N],
    c: &mut [[u32; M]; N],
) {
    let elements = (element(formats.0), element(formats.1));
    match core {
        TensorCore::Ada | TensorCore::Hopper => Single::multiply(core, elements, accumulator, a, b, c),
        TensorCore::RtxBlackwell => Double::multiply(core, elements, accumulator, a, b, c),
    }
}

/// `mma` of e4m3 and e5m2 on Hopper and on the Blackwell of data centers, which have no unit for it. Operands are widened to
/// f16; one `mma` of f16 takes the elements whose k mod 4 is 0 or 1, a second one the others; its result is added to C
/// and rounded to nearest. H is half of K.
#[inline(always)]
pub fn fp8_by_f16<const M: usize, const N: usize, const K: usize, const H: usize>(
    formats: (Fp8, Fp8),
    accumulator: Accumulator,
    a: &[[u8; M]; K],
    b: &[[u8; K]; N],
    c: &mut [[u32; M]; N],
) {
    const { assert!(K == 2 * H, "two halves") };
    let mut t = [[0; M]; N];
    for part in 0..2 {
        let place = |h: usize| 4 * (h / 2) + 2 * part + h % 2;
        let a: [[u16; M]; H] =
            std::array::from_fn(|h| a[place(h)].map(|code| cvt_f16_fp8(formats.0, code, false)));
        let b: [[u16; H]; N] =
            std::array::from_fn(|n| std::array::from_fn(|h| cvt_f16_fp8(formats.1, b[n][place(h)], false)));
        f16(TensorCore::Hopper, accumulator, &a, &b, &mut t);
    }
    for (c, t) in c.iter_mut().flatten().zip(t.iter().flatten()) {
        *c = match accumulator {
            Accumulator::F32 => add_f32(*c, *t, Rounding::Rn, false),
            Accumulator::F16 => u32::from(add_f16(*c as u16, *t as u16, false)),
        };
    }
}

/// Elements of at most a byte in any mix, each in a byte of its own at the width of its type, to f32 or f16: `f8f6f4` of the
/// Blackwell of workstations.
#[inline(always)]
pub fn f8f6f4<const M: usize, const N: usize, const K: usize>(
    elements: (Element, Element),
    accumulator: Accumulator,
    a: &[[u8; M]; K],
    b: &[[u8; K]; N],
    c: &mut [[u32; M]; N],
) {
    // One rule for all these types, so that the first element decides it.
    Double::multiply(TensorCore::RtxBlackwell, elements, accumulator, a, b, c);
}

/// f16 to f32 or f16.
#[inline(always)]
pub fn f16<const M: usize, const N: usize, const K: usize>(
    core: TensorCore,
    accumulator: Accumulator,
    a: &[[u16; M]; K],
    b: &[[u16; K]; N],
    c: &mut [[u32; M]; N],
) {
    Double::multiply(core, (Element::F16, Element::F16), accumulator, a, b, c);
}

/// bf16 to f32.
#[inline(always)]
pub fn bf16<const M: usize, const N: usize, const K: usize>(
    core: TensorCore,
    a: &[[u16; M]; K],
    b: &[[u16; K]; N],
    c: &mut [[u32; M]; N],
) {
    Double::multiply(core, (Element::Bf16, Element::Bf16), Accumulator::F32, a, b, c);
}

/// tf32 to f32. Operands are f32 codes; their 13 low bits are ignored.
#[inline(always)]
pub fn tf32<const M: usize, const N: usize, const K: usize>(
    core: TensorCore,
    a: &[[u32; M]; K],
    b: &[[u32; K]; N],
    c: &mut [[u32; M]; N],
) {
    Double::multiply(core, (Element::Tf32, Element::Tf32), Accumulator::F32, a, b, c);
}
