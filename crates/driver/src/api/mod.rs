//! The C interface: one function per symbol of the driver API. Each one converts pointers into values and calls [`crate::driver`].
//!
//! `api!` defines a function under all of its names: versions with the same behavior here, and the variants for the per-thread
//! default stream (`_ptds`, `_ptsz`). `build.rs` generates the other functions; those return `CUDA_ERROR_NOT_SUPPORTED`.
#![expect(unsafe_code, reason = "symbols that C calls are unsafe by definition")]
#![allow(
    clippy::missing_safety_doc,
    reason = "CUDA's contract applies: pointers are null or valid for the access that the call documents"
)]

/// Defines an API function under one or more names.
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
mod node;
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
pub use node::*;
pub use pointer::{In, Out};
pub use pool::*;
pub use stream::*;
use symbols::SYMBOLS;

use std::cell::Cell;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::abi::{Answer, Error, Handle};
use crate::driver::{Guard, driver, idle};
use crate::work::{self, Calls, Work};

thread_local! {
    /// Whether the current call uses the per-thread default stream.
    static PER_THREAD: Cell<bool> = const { Cell::new(false) };
    /// Whether the current call returns before its work is complete.
    static ASYNC: Cell<bool> = const { Cell::new(false) };
}

/// Runs the body of an API function. A panic becomes `CUDA_ERROR_UNKNOWN` and does not unwind into C.
fn call(name: &str, body: impl FnOnce() -> Answer) -> u32 {
    ASYNC.set(name.contains("Async"));
    PER_THREAD.set(name.ends_with("_ptsz") || name.ends_with("_ptds"));
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => 0,
        Ok(Err(Error(code))) => {
            crate::unread::call_failed(code);
            code
        }
        Err(_) => Error::UNKNOWN.0,
    }
}

/// Reports a call of an unsupported function.
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

/// Submits work to a stream, then runs the resulting host functions without holding the lock.
fn submit(stream: Handle, work: Work) -> Answer {
    let stream = stream_number(stream);
    let mut calls = Calls::new();
    {
        let mut driver = driver();
        let target = driver.target(stream)?;
        let waits = !ASYNC.get() && driver.host_waits_for(&work);
        work::submit(driver, target, work, &mut calls)?;
        if waits {
            self::driver().host_waited(target);
        }
    }
    make(calls);
    Ok(())
}

/// Releases the lock and calls the destructors that are due.
fn settle(mut driver: Guard) {
    let due = std::mem::take(&mut driver.due);
    drop(driver);
    make(due);
}

/// Runs host functions of the program.
fn make(calls: Calls) {
    for call in calls {
        let data = std::ptr::with_exposed_provenance_mut(call.data);
        // SAFETY: the program passed the function together with its argument.
        unsafe { (call.function)(data) };
    }
}
