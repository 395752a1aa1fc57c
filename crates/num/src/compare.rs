//! Comparison, minimum and maximum, sign operations and classes of floating-point numbers.
//!
//! Minimum and maximum work on any format: magnitudes of one sign have the same order as their codes.

use super::float::{NAN_F32, NAN_F64, flush_f32_if, is_nan_f32, is_nan_f64};

/// A floating-point comparison operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cmp {
    /// Equal, ordered.
    Eq,
    /// Not equal, ordered.
    Ne,
    /// Less, ordered.
    Lt,
    /// Less or equal, ordered.
    Le,
    /// Greater, ordered.
    Gt,
    /// Greater or equal, ordered.
    Ge,
    /// Equal, or an operand is NaN.
    Equ,
    /// Not equal, or an operand is NaN.
    Neu,
    /// Less, or an operand is NaN.
    Ltu,
    /// Less or equal, or an operand is NaN.
    Leu,
    /// Greater, or an operand is NaN.
    Gtu,
    /// Greater or equal, or an operand is NaN.
    Geu,
    /// Neither operand is NaN.
    Num,
    /// An operand is NaN.
    Nan,
}

/// The relation of two host floats under a comparison operator.
#[inline(always)]
fn relation<T: PartialOrd>(op: Cmp, a: &T, b: &T, unordered: bool) -> bool {
    match op {
        Cmp::Eq => a == b,
        Cmp::Ne => (a != b) & !unordered,
        Cmp::Lt => a < b,
        Cmp::Le => a <= b,
        Cmp::Gt => a > b,
        Cmp::Ge => a >= b,
        Cmp::Equ => (a == b) | unordered,
        Cmp::Neu => a != b,
        Cmp::Ltu => (a < b) | unordered,
        Cmp::Leu => (a <= b) | unordered,
        Cmp::Gtu => (a > b) | unordered,
        Cmp::Geu => (a >= b) | unordered,
        Cmp::Num => !unordered,
        Cmp::Nan => unordered,
    }
}

/// `setp.op.f32` and `set.op…f32`
#[inline(always)]
pub fn cmp_f32(op: Cmp, a: u32, b: u32, ftz: bool) -> bool {
    let (a, b) = (f32::from_bits(flush_f32_if(ftz, a)), f32::from_bits(flush_f32_if(ftz, b)));
    relation(op, &a, &b, a.is_nan() | b.is_nan())
}

/// `setp.op.f64` and `set.op…f64`
#[inline(always)]
pub fn cmp_f64(op: Cmp, a: u64, b: u64) -> bool {
    let (a, b) = (f64::from_bits(a), f64::from_bits(b));
    relation(op, &a, &b, a.is_nan() | b.is_nan())
}

/// Which of two numbers `min` or `max` keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extremum {
    /// `min`
    Min,
    /// `max`
    Max,
}

macro_rules! extremum {
    ($name:ident, $bits:ty, $sign:expr, $inf:expr, $nan:expr, $doc:literal) => {
        #[doc = $doc]
        ///
        /// −0 orders below +0. A single NaN operand yields the other operand, or NaN if `nan` (`.NaN`). With `xorsign_abs`
        /// the magnitudes are compared and the sign is the exclusive or of both signs.
        #[inline(always)]
        pub(crate) fn $name(which: Extremum, a: $bits, b: $bits, nan: bool, xorsign_abs: bool) -> $bits {
            const SIGN: $bits = $sign;
            let signs = (a ^ b) & SIGN;
            let (a, b) = if xorsign_abs { (a & !SIGN, b & !SIGN) } else { (a, b) };
            let (a_nan, b_nan) = (a & !SIGN > $inf, b & !SIGN > $inf);
            // A key with the order of the numbers: negative codes are reversed below positive ones.
            let key = |x: $bits| if x & SIGN != 0 { !x } else { x | SIGN };
            let less = key(a) < key(b);
            let keep_a = match which {
                Extremum::Min => less,
                Extremum::Max => !less,
            };
            let number = if keep_a { a } else { b };
            let one = if a_nan { b } else { number };
            let one = if b_nan { a } else { one };
            let one = if xorsign_abs { (one & !SIGN) | signs } else { one };
            let invalid = if nan { a_nan | b_nan } else { a_nan & b_nan };
            if invalid { $nan } else { one }
        }
    };
}

extremum!(extremum_f32, u32, 0x8000_0000, 0x7f80_0000, NAN_F32, "`min`/`max` on f32 codes.");
extremum!(extremum_f64, u64, 1 << 63, 0x7ff0_0000_0000_0000, NAN_F64, "`min`/`max` on f64 codes.");
extremum!(extremum_f16, u16, 0x8000, 0x7c00, 0x7fff, "`min`/`max` on f16 codes.");
extremum!(extremum_bf16, u16, 0x8000, 0x7f80, 0x7fff, "`min`/`max` on bf16 codes.");

/// `min.f32` and `max.f32`, with `.NaN`, `.xorsign.abs` and `.ftz`.
#[inline(always)]
pub fn minmax_f32(which: Extremum, a: u32, b: u32, nan: bool, xorsign_abs: bool, ftz: bool) -> u32 {
    extremum_f32(which, flush_f32_if(ftz, a), flush_f32_if(ftz, b), nan, xorsign_abs)
}

/// `min.f64` and `max.f64`. Two NaN operands give the first, made quiet.
#[inline(always)]
pub fn minmax_f64(which: Extremum, a: u64, b: u64) -> u64 {
    let both = is_nan_f64(a) & is_nan_f64(b);
    if both { a | 0x0008_0000_0000_0000 } else { extremum_f64(which, a, b, false, false) }
}

/// `abs.f32`: NaN gives the canonical NaN.
#[inline(always)]
pub fn abs_f32(a: u32, ftz: bool) -> u32 {
    let a = flush_f32_if(ftz, a);
    if is_nan_f32(a) { NAN_F32 } else { a & 0x7fff_ffff }
}

/// `neg.f32`: NaN gives the canonical NaN.
#[inline(always)]
pub fn neg_f32(a: u32, ftz: bool) -> u32 {
    let a = flush_f32_if(ftz, a);
    if is_nan_f32(a) { NAN_F32 } else { a ^ 0x8000_0000 }
}

/// `abs.f64`: NaN is unchanged, as the manual specifies.
#[inline(always)]
pub fn abs_f64(a: u64) -> u64 {
    if is_nan_f64(a) { a } else { a & !(1 << 63) }
}

/// `neg.f64`: only the sign bit changes, also for a NaN.
#[inline(always)]
pub fn neg_f64(a: u64) -> u64 {
    a ^ (1 << 63)
}

/// `copysign.f32`: the sign of `a` with the magnitude of `b`.
#[inline(always)]
pub fn copysign_f32(a: u32, b: u32) -> u32 {
    (a & 0x8000_0000) | (b & 0x7fff_ffff)
}

/// `copysign.f64`: the sign of `a` with the magnitude of `b`.
#[inline(always)]
pub fn copysign_f64(a: u64, b: u64) -> u64 {
    (a & (1 << 63)) | (b & !(1 << 63))
}

/// A property that `testp` tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Property {
    /// Neither infinite nor NaN.
    Finite,
    /// An infinity.
    Infinite,
    /// Not NaN.
    Number,
    /// NaN.
    NotANumber,
    /// Normal; zero counts as normal.
    Normal,
    /// Subnormal and not zero.
    Subnormal,
}

/// `testp.op.f32`
#[inline(always)]
pub fn testp_f32(property: Property, a: u32) -> bool {
    testp(property, u64::from(a & 0x7fff_ffff), 0x7f80_0000, 0x0080_0000)
}

/// `testp.op.f64`
#[inline(always)]
pub fn testp_f64(property: Property, a: u64) -> bool {
    testp(property, a & !(1 << 63), 0x7ff0_0000_0000_0000, 0x0010_0000_0000_0000)
}

#[inline(always)]
fn testp(property: Property, magnitude: u64, infinity: u64, smallest_normal: u64) -> bool {
    match property {
        Property::Finite => magnitude < infinity,
        Property::Infinite => magnitude == infinity,
        Property::Number => magnitude <= infinity,
        Property::NotANumber => magnitude > infinity,
        Property::Normal => magnitude == 0 || (magnitude >= smallest_normal && magnitude < infinity),
        Property::Subnormal => magnitude != 0 && magnitude < smallest_normal,
    }
}

/// The sign test of `slct…f32`: whether the selecting operand is at least zero. −0 is; NaN is not.
#[inline(always)]
pub fn slct_f32(c: u32, ftz: bool) -> bool {
    f32::from_bits(flush_f32_if(ftz, c)) >= 0.0
}
