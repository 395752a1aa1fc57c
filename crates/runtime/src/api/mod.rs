//! The C interface: one function per symbol of the runtime API. Each one calls functions of the driver API.
//!
//! `api!` defines a function that returns a `cudaError_t`, under all of its names: versions with the same behavior here, and the
//! variants for the per-thread default stream (`_ptds`, `_ptsz`). `plain!` defines one that returns something else. A name with
//! `_in12` or `_in13` is for programs of that major version only. `build.rs` generates the other functions; those return
//! `cudaErrorNotSupported`.
#![expect(unsafe_code, reason = "symbols that C calls are unsafe by definition")]
#![allow(
    clippy::missing_safety_doc,
    clippy::macro_metavars_in_unsafe,
    reason = "CUDA's contract applies: pointers are null or valid for the access that the call documents; `cu!` passes them on"
)]

/// Defines a function of the API under one or more names.
macro_rules! api {
    (#$doc:tt fn $($name:ident)|+ => $arguments:tt $body:block) => {
        $(
            #$doc
            #[unsafe(export_name = concat!("warpproof_", stringify!($name)))]
            pub unsafe extern "C" fn $name $arguments -> u32 {
                $crate::api::call(stringify!($name), || -> warpproof_driver::abi::Answer { $body })
            }
        )+
    };
}

/// Defines a function that does not return an error code. If it panics, the result is the default of its type.
macro_rules! plain {
    (#$doc:tt fn $name:ident => $arguments:tt -> $result:ty, $default:expr, $body:block) => {
        #$doc
        #[unsafe(export_name = concat!("warpproof_", stringify!($name)))]
        pub unsafe extern "C" fn $name $arguments -> $result {
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| -> $result { $body })).unwrap_or($default)
        }
    };
}

/// Calls a function of the driver API.
macro_rules! cu {
    ($name:ident($($argument:expr),* $(,)?)) => {
        // SAFETY: each pointer is null, that of a variable of the caller, or valid because the program promised it for this call.
        $crate::api::answer(unsafe { warpproof_driver::api::$name($($argument),*) })
    };
}

mod advice;
mod array;
mod batch;
mod capture;
mod copy;
mod device;
mod error;
mod event;
mod execution;
mod function;
mod graph;
mod launch;
mod library;
mod log;
mod memory;
mod node;
mod params;
mod pool;
mod property;
mod register;
mod stream;
mod symbol;
pub mod symbols;
mod texture;
mod version;

pub use advice::*;
pub use array::*;
pub use batch::*;
pub use capture::*;
pub use copy::*;
pub use device::*;
pub use error::*;
pub use event::*;
pub use execution::*;
pub use function::*;
pub use graph::*;
pub use launch::*;
pub use library::*;
pub use log::*;
pub use memory::*;
pub use node::*;
pub use params::*;
pub use pool::*;
pub use property::*;
pub use register::*;
pub use stream::*;
pub use symbol::*;
pub use texture::*;
pub use version::*;

use std::cell::Cell;
use std::ffi::c_int;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU64, Ordering};

use warpproof_driver::abi::{Answer, Error, Handle};
use warpproof_driver::api::{In, Out, code_of, handle, is_per_thread, number};
use warpproof_driver::context::top;
use warpproof_driver::driver::driver;

/// `CU_STREAM_PER_THREAD`.
const PER_THREAD_STREAM: usize = 2;
/// `cudaErrorNotReady`: an answer, not an error.
const NOT_READY: u32 = Error::NOT_READY.0;

thread_local! {
    /// Whether the current call uses the per-thread default stream.
    static PER_THREAD: Cell<bool> = const { Cell::new(false) };
    /// The last error of a call in this thread.
    static LAST: Cell<u32> = const { Cell::new(0) };
    /// The device that this thread selected.
    static DEVICE: Cell<c_int> = const { Cell::new(0) };
    /// The number of this thread, from 1 on; 0 before it is used.
    static THREAD: Cell<u64> = const { Cell::new(0) };
}

/// The number of this thread.
fn thread() -> u64 {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    if THREAD.get() == 0 {
        THREAD.set(COUNT.fetch_add(1, Ordering::Relaxed) + 1);
    }
    THREAD.get()
}

/// Runs the body of a function.
fn call(name: &str, body: impl FnOnce() -> Answer) -> u32 {
    let name = name.trim_end_matches("_in12").trim_end_matches("_in13");
    PER_THREAD.set(is_per_thread(name));
    let code = code_of(body);
    if code != 0 && code != NOT_READY {
        LAST.set(code);
        log::failed(name, code);
    }
    code
}

/// The answer of a function of the driver.
fn answer(code: u32) -> Answer {
    if code == 0 { Ok(()) } else { Err(Error(code)) }
}

/// Reports a call of an unsupported function.
fn unsupported(name: &str) -> u32 {
    call(name, || {
        driver().report.unsupported(name);
        Err(Error::NOT_SUPPORTED)
    })
}

/// A variable of the caller as an output.
fn out<T>(variable: &mut T) -> Out<T> {
    // SAFETY: the variable is valid for writes; callers use the pointer only for calls during which the variable exists.
    unsafe { Out::new(variable) }
}

/// A variable of the caller as an input.
fn input<T>(variable: &T) -> In<T> {
    // SAFETY: the variable is valid for reads; callers use the pointer only for calls during which the variable exists.
    unsafe { In::new(variable) }
}

/// The stream that the program means: null is the default stream of the call's kind.
fn stream(stream: Handle) -> Handle {
    if stream.is_null() && PER_THREAD.get() {
        std::ptr::without_provenance_mut(PER_THREAD_STREAM)
    } else {
        stream
    }
}

/// Initializes the driver.
fn init() -> Answer {
    if driver().ready().is_ok() { Ok(()) } else { cu!(cuInit(0)) }
}

/// The current context. If the thread has none, the primary context of its device becomes current.
fn context() -> Answer<u64> {
    match top() {
        Some(context) => Ok(context),
        None => select(DEVICE.get()),
    }
}

/// Makes the primary context of a device current.
fn select(device: c_int) -> Answer<u64> {
    init()?;
    let context = primary(device)?;
    cu!(cuCtxSetCurrent(handle(context)))?;
    DEVICE.set(device);
    Ok(context)
}

/// The primary context of a device. The runtime has one reference to it.
fn primary(device: c_int) -> Answer<u64> {
    {
        let driver = driver();
        let (index, _) = driver.device(device)?;
        let known = driver.primaries.get(index).filter(|primary| primary.retained > 0);
        if let Some(context) = known.and_then(|primary| primary.handle) {
            return Ok(context);
        }
    }
    let mut context = null_mut();
    cu!(cuDevicePrimaryCtxRetain(out(&mut context), device))?;
    Ok(number(context))
}
