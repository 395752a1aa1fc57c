//! A CUDA device through NVIDIA's driver, which is opened at run time: building needs no NVIDIA software.
//!
//! [`Cuda`] loads, launches and times; it implements [`Gpu`](warpproof_launch::Gpu), like the software GPU.
//! [`Management`] reads clocks, power and temperature, and pins clocks if permitted. [`ncu`] runs Nsight
//! Compute, a separate program.
//!
//! The driver library may be Warpproof's own, on the software GPU: then [`Identity::predicted`] is true, and
//! every time is a *prediction*. The tests of this crate use it: the calls are those of hardware. **Not tested
//! on hardware**: times, errors that only hardware raises, machine code ([`Cuda::assemble_with`]), [`Management`]
//! and [`ncu`].
//!
//! **Invariant:** only `driver.rs` and `nvml.rs` contain `unsafe` code.
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
