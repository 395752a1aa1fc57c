//! Finds, installs and drives NVIDIA's compiler.
//!
//! Building this crate needs no NVIDIA software: NVRTC is opened at run time, and ptxas, nvdisasm, cuobjdump and nvcc run as programs.
//!
//! ```no_run
//! use warpproof_toolchain::{CompileOptions, Options, Source, Toolchain};
//!
//! let toolchain = Toolchain::find(&Options::from_env())?;
//! let source = Source::new("one.cu", "extern \"C\" __global__ void one(int *x) { *x = 1; }");
//! let compiled = toolchain.compile(&source, &CompileOptions::new("sm_89"))?;
//! let assembled = toolchain.ptxas(&compiled.ptx, "sm_89", &[])?;
//! assert_eq!(assembled.resources[0].kernel, "one");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![deny(unsafe_code)]

mod allowed;
mod assemble;
mod cache;
mod compile;
mod cubin;
mod diagnostic;
mod executable;
#[cfg(target_os = "linux")]
mod fork;
mod headers;
mod host;
mod install;
mod limits;
mod locate;
mod nvcc;
mod nvrtc;
mod pins;
mod program;
mod resources;
mod rounds;
mod shims;
pub mod symbol;
mod version;

pub use allowed::{
    CompilerOption, NVRTC_OPTIONS, PTXAS_OPTIONS, RefusedOption, Ruling, Value, nvrtc_options, options_in,
    options_page, ptxas_options,
};
pub use assemble::{AssembleError, Assembled};
pub use cache::BuildCache;
pub use compile::{CompileError, CompileOptions, Compiled, Source};
pub use diagnostic::{Diagnostic, Place, Severity};
pub use executable::{CudaRuntime, Executable};
pub use headers::included_files;
pub use install::{InstallError, Installed, Progress, install, installed, remove};
pub use limits::CompileLimits;
pub use locate::{Environment, Found, NotFound, Options, Part, Rule, Survey, Toolchain};
pub use nvcc::{Nvcc, Plan, Runtime};
pub use pins::{CudaSet, NVCC, Purpose, SETS, Wheel};
pub use program::ProgramError;
pub use resources::Resources;
pub use version::{Version, ptx_version, ptxas_needed};

/// What a test that needs NVIDIA's compiler adds to the error without it.
#[doc(hidden)]
pub const WITHOUT_TOOLCHAIN: &str = "help: install it, or leave out the tests that need it: `cargo nextest run --workspace --profile no-toolchain`";
