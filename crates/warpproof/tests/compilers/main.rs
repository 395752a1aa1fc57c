//! Kernels of two compilers on the software GPU, against references computed here in plain Rust.
//!
//! `nvrtc` compiles `corpus/cuda/*.cu` for sm_89 and launches every kernel as its `//@launch:` lines say; without a
//! toolchain these tests say so and pass, unless `WARPPROOF_REQUIRE_TOOLCHAIN` is set. `triton` launches the committed
//! modules of `corpus/triton` for sm_89 and needs nothing.
//!
//! References are integers or f64, and use nothing of the simulator's own arithmetic. A result that is not exact is held
//! against a bound that follows from the arithmetic the kernel asks for (`reference`): roundings of a sum of n terms,
//! the manual's error of an approximate instruction, the programming guide's table for a library function, the fraction
//! bits a tensor core keeps. No bound was fitted to a result.
//!
//! Every launch runs at every vector level of this machine, with 1, 2 and 8 host threads, ten times or more: memory,
//! printed text and instruction counts must be equal. It then runs in other orders of warps and with copies that arrive
//! early, where memory must again be right. Last it runs with every check, which must be silent (`silence` counts).
#![expect(
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    clippy::float_cmp,
    reason = "references compute in f64 and integers of the formats' own widths, and compare what is exact"
)]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod data;
mod launch;
mod nvrtc;
mod reference;
mod silence;
mod triton;
