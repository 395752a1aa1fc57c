//! A software GPU that executes the PTX of NVIDIA's compilers. Results are bit-identical on every host and for any number of
//! host threads.
//!
//! Open a device, load a module, allocate, launch with typed arguments, read back:
//!
//! ```
//! use warpproof_sim::Device;
//!
//! let ptx = "
//!     .version 8.7
//!     .target sm_89
//!     .address_size 64
//!     .visible .entry twice(.param .u64 data)
//!     {
//!         .reg .b64 %rd<4>; .reg .b32 %r<2>; .reg .f32 %f<3>;
//!         ld.param.u64 %rd1, [data];
//!         mov.u32 %r1, %tid.x;
//!         mul.wide.u32 %rd2, %r1, 4;
//!         add.s64 %rd3, %rd1, %rd2;
//!         ld.global.f32 %f1, [%rd3];
//!         add.rn.f32 %f2, %f1, %f1;
//!         st.global.f32 [%rd3], %f2;
//!         ret;
//!     }";
//! let mut device = Device::new();
//! let module = device.load(ptx)?;
//! let data = device.upload(&[1.0f32, 2.5, -4.0])?;
//! let outcome = module.kernel("twice")?.launch().block(3).arg(data).run(&mut device)?;
//! assert_eq!(device.read(&data)?, [2.0, 5.0, -8.0]);
//! assert_eq!(outcome.instructions, 8);
//!
//! // One thread too many: the launch stops and reports where, and what is to blame.
//! let stop = module.kernel("twice")?.launch().block(4).arg(data).run(&mut device).unwrap_err();
//! assert_eq!(stop.exit_code(), 1);
//! assert!(stop.to_string().contains("out of bounds"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! `warpproof-check` runs a launch with checks that find its bugs, and `warpproof-count` counts its instructions and memory
//! traffic: both observe a run through [`observe::Observer`]. With the feature `serde`, which is on by default, stops serialize.
//! Without the feature `simd`, which is on by default too, the crate builds in a third of the time and runs slower, with the same
//! results.
//!
//! `warpproof-toolchain` compiles CUDA C++ to PTX; this crate needs no NVIDIA software. Modules: [`isa`] has the instruction
//! table; [`machine`] runs warps, blocks and grids; [`memory`] has the address spaces; [`program`] decodes PTX for the
//! machine; [`observe`] defines the observers of a run. Arithmetic on bits is in `warpproof-num`.
#![deny(unsafe_code)]
#![expect(clippy::inline_always, reason = "a loop over lanes is vectorized only where all of it is inlined")]
#![expect(clippy::unnecessary_wraps, reason = "binders of the instruction table share one signature")]

pub mod cover;
mod device_functions;
pub mod isa;
pub mod machine;
pub mod memory;
pub mod observe;
pub mod program;
pub mod schedule;
pub mod simd;
pub mod stop;
pub mod tensor_map;
pub mod values;

mod cooperative;
mod device;
mod element;
mod shared_device;

pub use device::{Buffer, Device, Extent, Kernel, Launch, Module};
pub use element::{Argument, Bf16, E4m3, E5m2, Element, F16};
pub use machine::{GridDependency, Limits, MAX_CLUSTER, Outcome};
pub use memory::{Earlier, HeapError};
pub use shared_device::SharedDevice;
pub use simd::Level;
pub use stop::{Blame, Stop, StopKind};
