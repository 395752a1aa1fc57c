//! A CUDA device through NVIDIA's driver, which is opened at run time: nothing of NVIDIA's is needed to build.
//!
//! [`Cuda`] loads, launches and times; it is a [`Gpu`](warpproof_launch::Gpu) as the software GPU is. [`Management`] reads
//! clocks, power and temperature and pins clocks where that is permitted. [`ncu`] has Nsight Compute, a program beside it.
//!
//! The driver library may be Warpproof's own, over the software GPU: [`Identity::predicted`] says so, and every time is then a
//! *prediction*. That is how this crate is tested. **It was not tested on hardware.**
//!
//! **Invariant:** `unsafe` stands in `driver.rs` and `nvml.rs` alone.
#![deny(unsafe_code)]

mod device;
#[expect(unsafe_code, reason = "calls the driver, a foreign library")]
mod driver;
mod management;
pub mod ncu;
#[expect(unsafe_code, reason = "calls the management library, a foreign library")]
mod nvml;

pub use device::{Assembler, Batch, Cuda, Identity, Launch, Memory, ModuleId, Timed};
pub use driver::CudaError;
pub use management::Management;
