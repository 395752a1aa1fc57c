//! The gate: takes a kernel candidate from source to verdict and records the evidence for every report.
#![forbid(unsafe_code)]

/// The device on which the gate measures; the command line runs kernels on it too.
pub use warpproof_gpu as gpu;

pub mod family;
pub mod inputs;
pub mod limits;
pub mod parameter;
pub mod reference;
pub mod runner;
pub mod session;
pub mod stage;
pub mod steps;
pub mod tensor_file;
pub mod tune;
pub mod variable;
