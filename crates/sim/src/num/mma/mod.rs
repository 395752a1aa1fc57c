//! The tensor core: one matrix multiply-accumulate D = A·B + C, bit for bit as on Ada.
//!
//! [`rule`] defines the arithmetic; this module computes the same bits faster. All matrices are stored by column, which makes the
//! rows of A, C and D the lanes of the host's vectors:
//!
//! - `a[k][row]`, M rows of codes for each of the K columns of A;
//! - `b[col][k]`, K codes for each of the N columns of B;
//! - `c[col][row]`, M codes for each of the N columns of C, replaced by those of D. An f16 accumulator is the low half.
//!
//! Every term of the rule is an exact product, scaled by a power of two and truncated to an integer: exact operations of
//! binary floating point. f32 holds the terms and sums of 8-bit operands, f64 those of the others. Infinities and NaNs, and
//! the corner cases in which the exponent of zero or a subnormal result matters, do not use this fast path: the rule itself
//! computes their column, or the whole matrix.

mod integer;
pub mod rule;
mod sparse;
mod vector;

pub use integer::{BitOp, IntElement, bits, f64, integer};
pub use rule::{Accumulator, Element};
pub use sparse::{Sparse, sparse};

use super::fp8::Fp8;
use vector::{Double, Lane, Single};

/// e4m3 and e5m2 in any mix, to f32 or f16. K is a multiple of 16.
#[inline(always)]
pub fn fp8<const M: usize, const N: usize, const K: usize>(
    formats: (Fp8, Fp8),
    accumulator: Accumulator,
    a: &[[u8; M]; K],
    b: &[[u8; K]; N],
    c: &mut [[u32; M]; N],
) {
    let element = |format| match format {
        Fp8::E4m3 => Element::E4m3,
        Fp8::E5m2 => Element::E5m2,
    };
    Single::multiply((element(formats.0), element(formats.1)), accumulator, a, b, c);
}

/// f16 to f32 or f16.
#[inline(always)]
pub fn f16<const M: usize, const N: usize, const K: usize>(
    accumulator: Accumulator,
    a: &[[u16; M]; K],
    b: &[[u16; K]; N],
    c: &mut [[u32; M]; N],
) {
    Double::multiply((Element::F16, Element::F16), accumulator, a, b, c);
}

/// bf16 to f32.
#[inline(always)]
pub fn bf16<const M: usize, const N: usize, const K: usize>(
    a: &[[u16; M]; K],
    b: &[[u16; K]; N],
    c: &mut [[u32; M]; N],
) {
    Double::multiply((Element::Bf16, Element::Bf16), Accumulator::F32, a, b, c);
}

/// tf32 to f32. Operands are f32 codes; their 13 low bits are ignored.
#[inline(always)]
pub fn tf32<const M: usize, const N: usize, const K: usize>(
    a: &[[u32; M]; K],
    b: &[[u32; K]; N],
    c: &mut [[u32; M]; N],
) {
    Double::multiply((Element::Tf32, Element::Tf32), Accumulator::F32, a, b, c);
}
