//! FP8 attention for Ada (L4): prebuilt kernels behind a C interface and a Rust interface.
//!
//! The kernels and their plans are those of `warpproof-kernels`; this crate contains them compiled, so that neither NVIDIA's
//! compiler nor its toolkit is needed, only a driver. A request is prepared once, and runs on the caller's stream:
//!
//! ```no_run
//! use warpproof_attention::Prepared;
//! use warpproof_kernels::{Request, Shape};
//!
//! let request = Request::new(Shape::equal(2, 8, 256, 64));
//! let prepared = Prepared::new(request)?;
//! println!("{} bytes of workspace", prepared.workspace());
//! # Ok::<(), warpproof_attention::Error>(())
//! ```
//!
//! `examples/first_call.rs` is a whole program with cudarc, `examples/first_call.c` the same in C.
//!
//! Drivers: machine code for sm_89 needs a driver of CUDA 12.0 or later; newer devices compile the PTX, which needs CUDA
//! 12.4 or later. Both are checked when a request is prepared. The library is tested on Warpproof's software GPU, and untested
//! on hardware.
//!
//! Only `cuda.rs`, `prepared.rs`, `slices.rs` and `abi.rs` contain `unsafe` code.

#![deny(unsafe_code)]

#[expect(unsafe_code, reason = "symbols that C calls, and its pointers")]
pub mod abi;
pub mod catalog;
#[expect(unsafe_code, reason = "calls the driver, a foreign library")]
mod cuda;
mod error;
pub mod image;
mod layout;
#[expect(unsafe_code, reason = "the caller guarantees the addresses")]
mod prepared;
#[expect(unsafe_code, reason = "launches on slices whose sizes it has checked")]
mod slices;

pub use cuda::{OLDEST_DRIVER, OLDEST_DRIVER_FOR_PTX};
pub use error::Error;
pub use prepared::{Arguments, Operand, Prepared, Problem, Tensor};
pub use slices::{Output, Slices};

/// The version of the C interface.
pub const VERSION: u32 = 1;
