//! The CUDA runtime API over the software GPU, and the shared library that CUDA programs load.
//!
//! The shared library of this crate is `libcuda.so.1`: it exports the driver API of `warpproof-driver`, and the runtime API under
//! names that start with `warpproof_`. [`shim`] writes `libcudart.so.12` and `libcudart.so.13`, whose functions jump to these.
//!
//! [`api`] is the C interface of the runtime, one function per symbol. Each calls functions of the driver API, as NVIDIA's runtime
//! does. [`registry`] has what compiled programs register at their start: fat binaries, kernels and variables. It is written from
//! CUDA's public headers.
#![deny(unsafe_code)]
#![allow(non_snake_case, reason = "the names are those of the CUDA API")]

pub use warpproof_driver as driver;

pub mod abi;
pub mod api;
pub mod descriptor;
pub mod error;
pub mod log;
pub mod registry;
pub mod shim;
