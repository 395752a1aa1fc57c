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

mod advice;
mod array;
mod change;
mod conditional;
mod context;
mod copy;
mod device;
mod event;
mod function;
mod graph;
mod init;
mod launch;
mod link;
mod mapping;
mod memory;
mod module;
mod node;
mod pointer;
mod pool;
mod stream;
pub mod symbols;
mod tensor_map;

pub use advice::*;
pub use array::*;
pub use change::*;
pub use conditional::*;
pub use context::*;
pub use copy::*;
pub use device::*;
pub use event::*;
pub use function::*;
pub use graph::*;
pub use init::*;
pub use launch::*;
pub use link::*;
pub use mapping::*;
pub use memory::*;
pub use module::*;
pub use node::*;
pub use pointer::{In, Out};
pub use pool::*;
pub use stream::*;
use symbols::SYMBOLS;
pub use tensor_map::*;

use std::cell::Cell;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::abi::{Answer, Error, Handle};
use crate::driver::{Guard, driver};
use crate::guard;
use crate::queue::{self, Until};
use crate::stream::Target;
use crate::work::{self, Calls, Work};

thread_local! {
    /// Whether the current call uses the per-thread default stream.
    static PER_THREAD: Cell<bool> = const { Cell::new(false) };
    /// Whether the current call returns before its work is complete.
    static ASYNC: Cell<bool> = const { Cell::new(false) };
}

/// Runs the body of an API function.
fn call(name: &str, body: impl FnOnce() -> Answer) -> u32 {
    ASYNC.set(name.contains("Async"));
    PER_THREAD.set(is_per_thread(name));
    if guard::accessed() {
        driver().report_accesses();
    }
    let code = code_of(|| body().inspect_err(|Error(code)| crate::unread::call_failed(*code)));
    refresh();
    code
}

/// The error code that a body returns, or 0. A panic becomes `CUDA_ERROR_UNKNOWN` and does not unwind into C.
pub fn code_of(body: impl FnOnce() -> Answer) -> u32 {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => 0,
        Ok(Err(Error(code))) => code,
        Err(_) => Error::UNKNOWN.0,
    }
}

/// Whether a function is a variant for the per-thread default stream.
pub fn is_per_thread(name: &str) -> bool {
    name.ends_with("_ptsz") || name.ends_with("_ptds")
}

/// Reports a call of an unsupported function.
fn unsupported(name: &str) -> u32 {
    call(name, || {
        driver().report.unsupported(name);
        Err(Error::NOT_SUPPORTED)
    })
}

/// A handle as a number.
pub fn number(handle: Handle) -> u64 {
    u64::try_from(handle.addr()).unwrap_or(0)
}

/// A pointer of the program as an address.
fn address(pointer: *const c_void) -> u64 {
    u64::try_from(pointer.expose_provenance()).unwrap_or(0)
}

/// A number as a handle.
pub fn handle(number: u64) -> Handle {
    std::ptr::without_provenance_mut(usize::try_from(number).unwrap_or(0))
}

/// A stream handle as a number; 0 is the default stream of the call's kind.
fn stream_number(stream: Handle) -> u64 {
    match number(stream) {
        0 if PER_THREAD.get() => 2,
        number => number,
    }
}

/// Submits work to a stream: it runs, is queued, or becomes a node if the stream is capturing.
fn submit(stream: Handle, work: Work) -> Answer {
    let stream = stream_number(stream);
    let mut driver = driver();
    let target = driver.target(stream)?;
    let waits = !ASYNC.get() && driver.host_waits_for(&work);
    let Some(work) = driver.unless_captured(target, work)? else { return Ok(()) };
    perform(driver, target, work)?;
    if waits {
        let mut driver = caught_up(self::driver(), target)?;
        driver.host_waited(target);
    }
    Ok(())
}

/// Performs or queues work, then runs the resulting host functions without holding the lock.
fn perform(mut driver: Guard, target: Target, work: Work) -> Answer {
    let started = driver.submitted(target, &work);
    let late = driver.settings.late;
    let Some(work) = driver.queue(target, work, &started)? else {
        if let Some(until) = driver.overflow() {
            drop(driver);
            catch_up(&until);
        }
        return Ok(());
    };
    if late {
        drop(driver);
        catch_up(&Until::Clock(started.before().clone()));
        driver = self::driver();
        // As a call that waits for earlier work, it returns the error of that work.
        if let Some(error) = driver.contexts.get(&target.context).and_then(|context| context.error) {
            return Err(error);
        }
    }
    let mut calls = Calls::new();
    work::perform(driver, target, &work, &started, &mut calls)?;
    make(calls);
    Ok(())
}

/// Runs the queued work that a call waits for.
fn catch_up(until: &Until) {
    queue::catch_up(until, |mut driver, target, work, started| {
        let mut calls = Calls::new();
        // After an error no more work runs; a later call returns the error.
        if driver.contexts.get(&target.context).is_none_or(|context| context.error.is_some()) {
            return;
        }
        // The event may have been destroyed.
        if matches!(work, Work::Record(event) if !driver.events.contains_key(&event)) {
            return;
        }
        let performed = work::perform(driver, target, &work, &started, &mut calls);
        if let Err(error) = performed {
            driver = self::driver();
            driver.queued_failed(target, error, &started);
            drop(driver);
        }
        make(calls);
    });
}

/// Waits for the work of a stream. Returns the error of its context.
fn caught_up(mut driver: Guard, target: Target) -> Answer<Guard> {
    if driver.settings.late {
        let until = Until::Clock(driver.clock_of(target));
        drop(driver);
        catch_up(&until);
        driver = self::driver();
    }
    match driver.contexts.get(&target.context).and_then(|context| context.error) {
        Some(error) if driver.settings.late => Err(error),
        _ => Ok(driver),
    }
}

/// The state of this process when all work is complete: for calls that end or free what kernels use.
fn idle() -> Guard {
    catch_up(&Until::All);
    crate::driver::idle()
}

/// Releases the lock and calls the destructors that are due.
fn settle(mut driver: Guard) {
    let due = std::mem::take(&mut driver.due);
    drop(driver);
    make(due);
}

/// Protects the memory that the host may not access now, and no other: before code of the program runs again.
fn refresh() {
    if guard::stale() {
        driver().guard();
    }
}

/// Runs host functions of the program.
fn make(calls: Calls) {
    refresh();
    for call in calls {
        let data = std::ptr::with_exposed_provenance_mut(call.data);
        // SAFETY: the program passed the function together with its argument.
        unsafe { (call.function)(data) };
    }
}
