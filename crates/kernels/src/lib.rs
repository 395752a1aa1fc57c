//! FP8 attention for Ada: the kernels, the formats they read, and the oracles that judge them.
//!
//! `cuda/` holds the kernels as CUDA C++, a ladder of rungs with one change each; the modules here hold what surrounds them.
#![forbid(unsafe_code)]

pub mod attention;
pub mod error;
pub mod format;
pub mod gpu;
pub mod inputs;
pub mod judge;
pub mod ladder;
pub mod null;
pub mod oracle;
pub mod params;
pub mod plan;
pub mod problem;
pub mod source;
pub mod tensor;
pub mod tolerance;
