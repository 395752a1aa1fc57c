//! The CUDA driver API over the software GPU, for machines without a GPU.
//!
//! CUDA programs find their GPU through the name `libcuda.so.1`, which the shared library of `warpproof-runtime` has; it exports
//! the functions of this crate. If it is loaded instead of NVIDIA's, the program runs unchanged: every launch runs on the software
//! GPU and, by default, under its checks. Findings go to stderr and to the report of `warpproof exec`.
//!
//! From the outside in: [`api`] is the C interface, one function per symbol, and only converts pointers into values; [`driver`] is
//! the state of the process behind one lock, and is safe code: contexts, modules, memory, streams, events, graphs; `work` is what
//! streams execute and graphs consist of. Work runs when it is submitted: a launch is complete when the call returns, which is one
//! of the orders that CUDA allows; or as late as possible (`queue`). Errors are reported as in CUDA: a later call returns them, and they are sticky.
//!
//! **Invariant:** a handle is a number that is looked up, never a pointer that is dereferenced; a wrong or stale handle is an
//! error. **Invariant:** a panic does not leave the library.
#![deny(unsafe_code)]
#![allow(non_snake_case, reason = "the names are those of the CUDA API")]

pub mod abi;
pub mod advice;
pub mod api;
pub mod array;
pub mod clock;
pub mod cluster;
pub mod conditional;
pub mod context;
pub mod debug_info;
pub mod dependent;
pub mod device;
pub mod driver;
pub mod exit;
pub mod graph;
pub mod guard;
pub mod host;
pub mod host_race;
pub mod image;
pub mod inlined;
pub mod linker;
pub mod mapping;
pub mod memory;
pub mod misuse;
pub mod module;
pub mod order;
pub mod queue;
pub mod report;
pub mod settings;
pub mod site;
pub mod stream;
pub mod unread;
pub mod work;
