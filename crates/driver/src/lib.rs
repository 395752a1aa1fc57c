//! The CUDA driver API over the software GPU: a `libcuda.so.1` for machines without a GPU.
//!
//! A CUDA program finds its GPU through this library's name. Load this one in its place and the program runs unchanged, every
//! launch on the software GPU and, unless told otherwise, under its checks; what they find goes to stderr and to the report of
//! `warpproof exec`.
//!
//! From the outside in: [`api`] is what C sees, one function per symbol, and does nothing but turn pointers into values;
//! [`driver`] is the state of the process behind one lock, and is safe code: contexts, modules, memory, streams, events, graphs;
//! `work` is what a stream is given and what a graph is made of. Work is done when it is given: a launch has ended when the call
//! returns, which is one of the orders that CUDA allows. What went wrong is told as CUDA tells it, by a later call, and stays.
//!
//! **Invariant:** a handle is a number that is looked up, never a pointer that is followed; a program that hands over a wrong or an
//! old one gets an error. **Invariant:** a panic does not leave the library.
#![deny(unsafe_code)]
#![allow(non_snake_case, reason = "the names are CUDA's")]

pub mod abi;
pub mod api;
pub mod clock;
pub mod context;
pub mod device;
pub mod driver;
pub mod graph;
pub mod host;
pub mod image;
pub mod memory;
pub mod module;
pub mod report;
pub mod settings;
pub mod stream;
pub mod work;
