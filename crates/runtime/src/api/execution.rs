//! Execution contexts of CUDA 13: those of devices. Contexts with a part of a device's resources (green contexts) are not supported.

use std::ffi::c_int;

use warpproof_driver::abi::{Answer, Error, Handle};
use warpproof_driver::api::Out;
use warpproof_driver::driver::driver;

use super::{handle, init, number, out, primary};

/// Runs calls with another current context.
fn within(context: Handle, calls: impl FnOnce() -> Answer) -> Answer {
    known(context)?;
    cu!(cuCtxPushCurrent_v2(context))?;
    let answer = calls();
    let mut same = std::ptr::null_mut();
    cu!(cuCtxPopCurrent_v2(out(&mut same)))?;
    answer
}

/// A context that exists.
fn known(context: Handle) -> Answer {
    init()?;
    if context.is_null() {
        return Err(Error::INVALID_VALUE);
    }
    driver().context(number(context)).map(drop)
}

api! {
    /// The execution context of a device: its primary context.
    fn cudaDeviceGetExecutionCtx => (context: Out<Handle>, device: c_int) {
        init()?;
        if context.is_null() {
            return Err(Error::INVALID_VALUE);
        }
        context.put(handle(primary(device)?))
    }
}

api! {
    /// The device of an execution context.
    fn cudaExecutionCtxGetDevice => (device: Out<c_int>, context: Handle) {
        within(context, || cu!(cuCtxGetDevice(device)))
    }
}

api! {
    /// The number of an execution context, unique in the process.
    fn cudaExecutionCtxGetId => (context: Handle, id: Out<u64>) {
        known(context)?;
        cu!(cuCtxGetId(context, id))
    }
}

api! {
    /// Creates a stream in an execution context.
    fn cudaExecutionCtxStreamCreate => (made: Out<Handle>, context: Handle, flags: u32, priority: c_int) {
        within(context, || cu!(cuStreamCreateWithPriority(made, flags, priority)))
    }
}

api! {
    /// Waits for the work of an execution context.
    fn cudaExecutionCtxSynchronize => (context: Handle) {
        within(context, || cu!(cuCtxSynchronize()))
    }
}
