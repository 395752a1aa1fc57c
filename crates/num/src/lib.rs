//! The arithmetic of a GPU, bit for bit as its manual defines it: integers, floating-point numbers down to four bits, the
//! tensor core, approximations, texels. [`random`] and [`printf`] are the generator and the formatter that go with it.
//!
//! Except for these two, every function maps bit patterns to bit patterns, independent of warps, registers and instructions.
//!
//! Conventions
//! - A value is passed as the bits of a register: `u32` for `.f32`, `u64` for `.f64`, `u16` for `.f16` and `.bf16`, `u8` for
//!   `.e4m3`, `.e5m2` and the formats below a byte. The caller loops over the halves of packed types.
//! - Names mirror the manual: `add_f32` is `add.f32`, `cvt_s32_f32` is `cvt.s32.f32`. Modifiers are plain arguments; the
//!   functions are inlined, so a literal `Rounding::Rn` or `false` costs nothing and a loop over lanes vectorizes.
//! - `.sat` and `.relu` are separate functions ([`float::sat_f32`], [`half::relu`]) that the caller applies to a result.
//! - The same operands give the same bits on every host: this module chooses NaNs, never the host's arithmetic, and nothing
//!   calls a platform's math library except for correctly rounded operations.
//!
//! NaN results
//! - f32: `0x7fffffff`; f16 and bf16: `0x7fff`; e4m3 and e5m2: `0x7f`.
//! - f64: the first NaN operand, made quiet, because the manual specifies that payloads are supported; an invalid operation on
//!   numbers gives `0xfff8000000000000`, the NaN in CUDA's own headers.
#![forbid(unsafe_code)]
#![expect(
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    clippy::cast_lossless,
    reason = "bit-level arithmetic: every cast here is a deliberate change of width, sign or representation"
)]
#![expect(
    clippy::inline_always,
    reason = "a routine over 32 lanes is compiled for the host's vector unit; only code inlined into it is"
)]
#![expect(
    clippy::needless_bitwise_bool,
    reason = "a lazy operator is a branch, and a branch costs a loop its vectors"
)]
#![expect(clippy::verbose_bit_mask, reason = "masks name the fields of a format")]

pub mod approx;
pub mod bits;
pub mod compare;
pub mod convert;
pub mod float;
pub mod fp8;
pub mod half;
pub mod int;
pub mod mma;
pub mod printf;
pub mod random;
pub mod round;
pub mod small;
pub mod texture;

pub use round::{IntRounding, Rounding};
