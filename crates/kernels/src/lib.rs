//! FP8 attention for Ada: the kernels, the formats they read, and the oracles that judge them.
//!
//! `cuda/` holds the kernels as CUDA C++, a ladder of rungs with one change each; the modules here hold what surrounds them.
#![forbid(unsafe_code)]
pub mod problem;
