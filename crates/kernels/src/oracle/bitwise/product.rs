//! Products of blocks: 16 rows of A times 32 columns of B over 32 k, by fused multiply-adds or by a tensor core.
//!
//! Matrices are stored as in [`mma`], so that the rows of A and C are the lanes of the host's vectors. A
//! block of 32 k is a chain of instructions of 16 or 32 k, and 32 columns are four independent instructions.

use super::Format;
use warpproof_num::convert::{cvt_f16_f32, cvt_f32_f16};
use warpproof_num::fp8::{Fp8, cvt_f16_fp8, cvt_f32_fp8, cvt_fp8_f32};
use warpproof_num::{Rounding, mma};
use warpproof_sim::simd::{Level, Vectorized};

/// Query rows that are computed together.
pub(super) const ROWS: usize = 16;
/// Columns of a block, and its extent in k.
pub(super) const SIDE: usize = 32;

/// A value for each row.
pub(super) type Row<T> = [T; ROWS];
/// 32 columns of 16 rows: A as `[k][row]`, C as `[column][row]`.
pub(super) type Tall<T> = [Row<T>; SIDE];
/// B as `[column][k]`.
pub(super) type Block<T> = [[T; SIDE]; SIDE];

/// The unit that multiplies.
pub(super) trait Core: Copy + Send + Sync {
    /// An element as the core reads it; the default is +0.
    type Code: Copy + Default + Send + Sync;

    /// A stored code as the core reads it. The scale is folded in only if the format requires it
    /// (`folds_scale`).
    fn element(self, format: Format, code: u8, scale: f32) -> Self::Code;

    /// A softmax weight as the core reads it.
    fn weight(self, weight: f32) -> Self::Code;

    /// C = A·B + C.
    fn multiply(self, a: &Tall<Self::Code>, b: &Block<Self::Code>, c: &mut Tall<f32>);
}

/// A stored value as f16.
fn half(format: Format, code: u8, scale: f32) -> u16 {
    match format {
        Format::E4m3 => cvt_f16_fp8(Fp8::E4m3, code, false),
        Format::E5m2 => cvt_f16_fp8(Fp8::E5m2, code, false),
        Format::Linear8 => {
            let value = (f32::from(code) - 128.0) * scale;
            cvt_f16_f32(value.to_bits(), Rounding::Rn, false)
        }
    }
}

/// Fused multiply-adds in f32, in increasing k.
#[derive(Clone, Copy)]
pub(super) struct Chain;

impl Core for Chain {
    type Code = f32;

    fn element(self, format: Format, code: u8, scale: f32) -> f32 {
        f32::from_bits(match format {
            Format::E4m3 => cvt_f32_fp8(Fp8::E4m3, code),
            Format::E5m2 => cvt_f32_fp8(Fp8::E5m2, code),
            Format::Linear8 => cvt_f32_f16(half(format, code, scale)),
        })
    }

    #[inline(always)]
    fn weight(self, weight: f32) -> f32 {
        weight
    }

    fn multiply(self, a: &Tall<f32>, b: &Block<f32>, c: &mut Tall<f32>) {
        Level::detect().run(Chained { a, b, c });
    }
}

struct Chained<'a> {
    a: &'a Tall<f32>,
    b: &'a Block<f32>,
    c: &'a mut Tall<f32>,
}

impl Vectorized for Chained<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        // Four columns at a time: enough independent chains to hide the latency of a multiply-add, and few
        // enough for the registers.
        let (b, _) = self.b.as_chunks::<4>();
        let (c, _) = self.c.as_chunks_mut::<4>();
        for (b, c) in b.iter().zip(c) {
            let [mut w, mut x, mut y, mut z] = *c;
            for k in 0..SIDE {
                let a = &self.a[k];
                for m in 0..ROWS {
                    w[m] = a[m].mul_add(b[0][k], w[m]);
                }
                for m in 0..ROWS {
                    x[m] = a[m].mul_add(b[1][k], x[m]);
                }
                for m in 0..ROWS {
                    y[m] = a[m].mul_add(b[2][k], y[m]);
                }
                for m in 0..ROWS {
                    z[m] = a[m].mul_add(b[3][k], z[m]);
                }
            }
            *c = [w, x, y, z];
        }
    }
}

/// The tensor core on f16.
#[derive(Clone, Copy)]
pub(super) struct Half;

impl Core for Half {
    type Code = u16;

    fn element(self, format: Format, code: u8, scale: f32) -> u16 {
        half(format, code, scale)
    }

    #[inline(always)]
    fn weight(self, weight: f32) -> u16 {
        cvt_f16_f32(weight.to_bits(), Rounding::Rn, false)
    }

    fn multiply(self, a: &Tall<u16>, b: &Block<u16>, c: &mut Tall<f32>) {
        Level::detect().run(HalfProduct { a, b, c });
    }
}

struct HalfProduct<'a> {
    a: &'a Tall<u16>,
    b: &'a Block<u16>,
    c: &'a mut Tall<f32>,
}

impl Vectorized for HalfProduct<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let mut bits = bits(self.c);
        mma::f16(mma::TensorCore::Ada, mma::Accumulator::F32, self.a, self.b, &mut bits);
        *self.c = values(&bits);
    }
}

/// The tensor core on 8-bit floating point.
#[derive(Clone, Copy)]
pub(super) struct Eight {
    /// The format of A.
    pub left: Fp8,
    /// The format of B.
    pub right: Fp8,
}

impl Core for Eight {
    type Code = u8;

    fn element(self, _format: Format, code: u8, _scale: f32) -> u8 {
        code
    }

    #[inline(always)]
    fn weight(self, weight: f32) -> u8 {
        cvt_fp8_f32(Fp8::E4m3, weight.to_bits(), false)
    }

    fn multiply(self, a: &Tall<u8>, b: &Block<u8>, c: &mut Tall<f32>) {
        Level::detect().run(EightProduct { core: self, a, b, c });
    }
}

struct EightProduct<'a> {
    core: Eight,
    a: &'a Tall<u8>,
    b: &'a Block<u8>,
    c: &'a mut Tall<f32>,
}

impl Vectorized for EightProduct<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        use Fp8::{E4m3, E5m2};
        let EightProduct { core, a, b, c } = self;
        let to = mma::Accumulator::F32;
        let mut bits = bits(c);
        // Each combination as literals: otherwise every element would branch on its format.
        match (core.left, core.right) {
            (E4m3, E4m3) => mma::fp8(mma::TensorCore::Ada, (E4m3, E4m3), to, a, b, &mut bits),
            (E4m3, E5m2) => mma::fp8(mma::TensorCore::Ada, (E4m3, E5m2), to, a, b, &mut bits),
            (E5m2, E4m3) => mma::fp8(mma::TensorCore::Ada, (E5m2, E4m3), to, a, b, &mut bits),
            (E5m2, E5m2) => mma::fp8(mma::TensorCore::Ada, (E5m2, E5m2), to, a, b, &mut bits),
        }
        *c = values(&bits);
    }
}

#[inline(always)]
fn bits(values: &Tall<f32>) -> Tall<u32> {
    let mut bits = [[0; ROWS]; SIDE];
    for (to, from) in bits.as_flattened_mut().iter_mut().zip(values.as_flattened()) {
        *to = from.to_bits();
    }
    bits
}

#[inline(always)]
fn values(bits: &Tall<u32>) -> Tall<f32> {
    let mut values = [[0.0; ROWS]; SIDE];
    for (to, from) in values.as_flattened_mut().iter_mut().zip(bits.as_flattened()) {
        *to = f32::from_bits(*from);
    }
    values
}
