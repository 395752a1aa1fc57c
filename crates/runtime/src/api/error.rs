//! Errors.

use std::ffi::c_char;

use super::{LAST, thread};
use crate::error::find;
use warpproof_driver::context::top;
use warpproof_driver::driver::driver;
use warpproof_driver::unread::error_read;

/// Whether an error is sticky: the current context returns it until it is reset.
fn sticky(code: u32) -> bool {
    let driver = driver();
    let context = top().and_then(|context| driver.contexts.get(&context));
    context.and_then(|context| context.error).is_some_and(|error| error.0 == code)
}

plain! {
    /// The last error of a call in this thread, which is then forgotten unless it is sticky.
    fn cudaGetLastError => () -> u32, 0, {
        let last = LAST.get();
        if last != 0 {
            error_read(thread());
        }
        if last != 0 && !sticky(last) {
            LAST.set(0);
        }
        last
    }
}

plain! {
    /// The last error of a call in this thread.
    fn cudaPeekAtLastError => () -> u32, 0, {
        let last = LAST.get();
        if last != 0 {
            error_read(thread());
        }
        last
    }
}

plain! {
    /// The name of an error.
    fn cudaGetErrorName => (code: u32) -> *const c_char, std::ptr::null(), {
        find(code).map_or(c"unrecognized error code", |(name, _)| name).as_ptr()
    }
}

plain! {
    /// The description of an error.
    fn cudaGetErrorString => (code: u32) -> *const c_char, std::ptr::null(), {
        find(code).map_or(c"unrecognized error code", |(_, sentence)| sentence).as_ptr()
    }
}
