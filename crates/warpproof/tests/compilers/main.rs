//! Runs kernels of two compilers on the software GPU and compares them with references computed in plain
//! Rust.
//!
//! `nvrtc` compiles `corpus/cuda/*.cu` for sm_89 and launches every kernel according to its `//@launch:`
//! lines; these tests fail without a toolchain. `triton` launches the committed modules of `corpus/triton` and needs no toolchain.
//!
//! References are integers or f64, and do not use the simulator's arithmetic. An inexact result is compared
//! with a bound that follows from the kernel's arithmetic (`reference`): roundings of a sum of n terms, the
//! manual's error of an approximate instruction, the programming guide's table for a library function, the
//! fraction bits that a tensor core keeps. No bound was fitted to a result.
//!
//! Every launch runs at every vector level of this machine, with 1, 2 and 8 host threads, ten times or
//! more: memory, printed text and instruction counts must be equal. It then runs in other orders of warps
//! and with copies that arrive early, where memory must again be correct. Last it runs with all checks,
//! which must report nothing (`silence` counts).
#![expect(
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    clippy::float_cmp,
    reason = "references compute in f64 and integers of the formats' own widths, and compare exact values"
)]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod data;
mod forms;
mod launch;
mod nvrtc;
mod reference;
mod silence;
mod triton;
