//! The log of errors.

use std::ffi::{c_char, c_void};

use warpproof_driver::abi::{Answer, Error, Handle};
use warpproof_driver::api::{In, Out};

use super::{handle, number};
use crate::error::find;
use crate::log::log;

/// `cudaLogsCallback_t`: data, level, message and its length.
type Callback = unsafe extern "C" fn(*mut c_void, u32, *mut c_char, usize);

/// Adds the error of a call to the log, and passes it to the program's callbacks.
pub(super) fn failed(function: &str, code: u32) {
    let (name, sentence) = find(code).unwrap_or((c"unrecognized error code", c""));
    let message = format!("[CUDA][E] {function}: {}: {}", name.to_string_lossy(), sentence.to_string_lossy());
    let callbacks = log().add(&message);
    for (function, data) in callbacks {
        let mut bytes: Vec<u8> = message.bytes().chain([0]).collect();
        let place = std::ptr::with_exposed_provenance_mut::<c_void>(data);
        let function = std::ptr::with_exposed_provenance::<()>(function);
        // SAFETY: `cudaLogsRegisterCallback` got this function from the program as a callback, and its pointer is not null.
        let function = unsafe { std::mem::transmute::<*const (), Callback>(function) };
        // SAFETY: the program passed the function together with its data; the message is valid during the call.
        unsafe { function(place, 0, bytes.as_mut_ptr().cast(), message.len()) };
    }
}

/// The one flag value.
fn no_flags(flags: u32) -> Answer {
    if flags == 0 { Ok(()) } else { Err(Error::INVALID_VALUE) }
}

api! {
    /// Registers a callback for messages.
    fn cudaLogsRegisterCallback => (callback: Option<Callback>, data: *mut c_void, made: Out<Handle>) {
        let callback = callback.ok_or(Error::INVALID_VALUE)?;
        #[expect(clippy::as_conversions, reason = "a function's address has no other conversion")]
        let address = (callback as *const ()).expose_provenance();
        let registered = log().register((address, data.expose_provenance())).ok_or(Error::OUT_OF_MEMORY)?;
        made.offer(handle(registered));
        Ok(())
    }
}

api! {
    /// Ends the registration of a callback.
    fn cudaLogsUnregisterCallback => (callback: Handle) {
        if log().unregister(number(callback)) { Ok(()) } else { Err(Error::INVALID_VALUE) }
    }
}

api! {
    /// Where the next message will be.
    fn cudaLogsCurrent => (place: Out<u32>, flags: u32) {
        no_flags(flags)?;
        place.put(log().end())
    }
}

/// The messages from the program's place on, or all of them.
fn messages(place: Out<u32>, room: usize) -> Answer<String> {
    let start = if place.is_null() { None } else { Some(place.read().get()?) };
    Ok(log().from(start, room))
}

api! {
    /// Writes messages to a file, and moves the place behind them.
    fn cudaLogsDumpToFile => (place: Out<u32>, path: In<c_char>, flags: u32) {
        no_flags(flags)?;
        let text = messages(place, usize::MAX)?;
        std::fs::write(path.text()?, text).map_err(|_| Error::INVALID_VALUE)?;
        place.offer(log().end());
        Ok(())
    }
}

api! {
    /// Writes messages to memory, and moves the place behind them. The size excludes the NUL byte at the end.
    fn cudaLogsDumpToMemory => (place: Out<u32>, buffer: Out<c_char>, size: Out<usize>, flags: u32) {
        no_flags(flags)?;
        let room = size.read().get()?;
        if buffer.is_null() || room == 0 {
            return Err(Error::INVALID_VALUE);
        }
        let all = !messages(place, usize::MAX)?.is_empty();
        let text = messages(place, room - 1)?;
        size.put(text.len())?;
        buffer.put_text(room, &text)?;
        // Not even one message fits.
        if all && text.is_empty() {
            return Err(Error::INVALID_VALUE);
        }
        place.offer(log().end());
        Ok(())
    }
}
