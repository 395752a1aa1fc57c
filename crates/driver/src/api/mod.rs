//! What C sees: one function per symbol of the driver API. Each turns pointers into values, asks [`crate::driver`], and answers.
//!
//! `api!` writes a function under all of its names: versions that mean the same here, and those of the per-thread default stream
//! (`_ptds`, `_ptsz`). What stands in no `api!` is written by `build.rs` and answers not-supported.
#![expect(unsafe_code, reason = "symbols that C calls are unsafe by definition")]
#![allow(
    clippy::missing_safety_doc,
    reason = "the contract is CUDA's: pointers are null or valid for what the call says"
)]

/// A function of the API under one or more names.
macro_rules! api {
    (#$doc:tt fn $($name:ident)|+ => $arguments:tt $body:block) => {
        $(
            #$doc
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name $arguments -> u32 {
                $crate::api::call(stringify!($name), || -> $crate::abi::Answer { $body })
            }
        )+
    };
}

mod context;
mod copy;
mod device;
mod event;
mod function;
mod graph;
mod init;
mod launch;
mod link;
mod memory;
mod module;
mod pointer;
mod pool;
mod stream;
pub mod symbols;

pub use context::*;
pub use copy::*;
pub use device::*;
pub use event::*;
pub use function::*;
pub use graph::*;
pub use init::*;
pub use launch::*;
pub use link::*;
pub use memory::*;
pub use module::*;
pub use pointer::{In, Out};
pub use pool::*;
pub use stream::*;
use symbols::SYMBOLS;

use std::cell::Cell;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::abi::{Answer, Error, Handle};
use crate::driver::driver;
use crate::work::{Calls, Work};

thread_local! {
    /// Whether the call under way is one whose default stream is the thread's own.
    static PER_THREAD: Cell<bool> = const { Cell::new(false) };
}

/// Runs the body of a function: a panic is an unknown error, and does not leave the library.
fn call(name: &str, body: impl FnOnce() -> Answer) -> u32 {
    PER_THREAD.set(name.ends_with("_ptsz") || name.ends_with("_ptds"));
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => 0,
        Ok(Err(Error(code))) => code,
        Err(_) => Error::UNKNOWN.0,
    }
}

/// A function that is not there.
fn unsupported(name: &str) -> u32 {
    call(name, || {
        driver().report.unsupported(name);
        Err(Error::NOT_SUPPORTED)
    })
}

/// A handle as a number.
fn number(handle: Handle) -> u64 {
    u64::try_from(handle.addr()).unwrap_or(0)
}

/// A pointer of the program as an address.
fn address(pointer: *const c_void) -> u64 {
    u64::try_from(pointer.expose_provenance()).unwrap_or(0)
}

/// A number as a handle.
fn handle(number: u64) -> Handle {
    std::ptr::without_provenance_mut(usize::try_from(number).unwrap_or(0))
}

/// A stream handle as a number; 0 is the default stream of the call's kind.
fn stream_number(stream: Handle) -> u64 {
    match number(stream) {
        0 if PER_THREAD.get() => 2,
        number => number,
    }
}

/// Gives work to a stream, and makes the calls into the program that come of it, without the lock.
fn submit(stream: Handle, work: Work) -> Answer {
    let stream = stream_number(stream);
    let mut calls = Calls::new();
    {
        let mut driver = driver();
        let target = driver.target(stream)?;
        driver.submit(target, work, &mut calls)?;
    }
    make(calls);
    Ok(())
}

/// Makes calls into the program.
fn make(calls: Calls) {
    for call in calls {
        let data = std::ptr::with_exposed_provenance_mut(call.data);
        // SAFETY: the program gave the function and what it is called with.
        unsafe { (call.function)(data) };
    }
}
