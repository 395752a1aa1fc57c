//! Streams.

use std::ffi::{c_int, c_void};

use warpproof_driver::abi::Handle;
use warpproof_driver::api::{In, Out};

use super::{context, stream};

api! {
    /// Creates a stream.
    fn cudaStreamCreate => (made: Out<Handle>) {
        context()?;
        cu!(cuStreamCreate(made, 0))
    }
}

api! {
    /// Creates a stream, with flags.
    fn cudaStreamCreateWithFlags => (made: Out<Handle>, flags: u32) {
        context()?;
        cu!(cuStreamCreate(made, flags))
    }
}

api! {
    /// Creates a stream with a priority.
    fn cudaStreamCreateWithPriority => (made: Out<Handle>, flags: u32, priority: c_int) {
        context()?;
        cu!(cuStreamCreateWithPriority(made, flags, priority))
    }
}

api! {
    /// Destroys a stream.
    fn cudaStreamDestroy => (on: Handle) {
        context()?;
        cu!(cuStreamDestroy_v2(on))
    }
}

api! {
    /// Waits for a stream.
    fn cudaStreamSynchronize | cudaStreamSynchronize_ptsz => (on: Handle) {
        let on = stream(on);
        context()?;
        cu!(cuStreamSynchronize(on))
    }
}

api! {
    /// Whether the work of a stream is complete.
    fn cudaStreamQuery | cudaStreamQuery_ptsz => (on: Handle) {
        let on = stream(on);
        context()?;
        cu!(cuStreamQuery(on))
    }
}

api! {
    /// Makes later work of a stream wait for an event.
    fn cudaStreamWaitEvent | cudaStreamWaitEvent_ptsz => (on: Handle, event: Handle, flags: u32) {
        let on = stream(on);
        context()?;
        cu!(cuStreamWaitEvent(on, event, flags))
    }
}

api! {
    /// Priority of a stream.
    fn cudaStreamGetPriority | cudaStreamGetPriority_ptsz => (on: Handle, priority: Out<c_int>) {
        let on = stream(on);
        context()?;
        cu!(cuStreamGetPriority(on, priority))
    }
}

api! {
    /// Flags of a stream.
    fn cudaStreamGetFlags | cudaStreamGetFlags_ptsz => (on: Handle, flags: Out<u32>) {
        let on = stream(on);
        context()?;
        cu!(cuStreamGetFlags(on, flags))
    }
}

api! {
    /// ID of a stream, unique in the process.
    fn cudaStreamGetId | cudaStreamGetId_ptsz => (on: Handle, id: Out<u64>) {
        let on = stream(on);
        context()?;
        cu!(cuStreamGetId(on, id))
    }
}

api! {
    /// Device of a stream.
    fn cudaStreamGetDevice | cudaStreamGetDevice_ptsz => (on: Handle, device: Out<c_int>) {
        let on = stream(on);
        context()?;
        cu!(cuStreamGetDevice(on, device))
    }
}

/// Callback type of `cudaStreamAddCallback`.
type Callback = unsafe extern "C" fn(Handle, u32, *mut c_void);

api! {
    /// Calls a host function with the stream and its status.
    fn cudaStreamAddCallback | cudaStreamAddCallback_ptsz => (on: Handle, callback: Option<Callback>, data: *mut c_void, flags: u32) {
        let on = stream(on);
        context()?;
        cu!(cuStreamAddCallback(on, callback, data, flags))
    }
}

api! {
    /// Calls a host function.
    fn cudaLaunchHostFunc | cudaLaunchHostFunc_ptsz => (on: Handle, function: Option<unsafe extern "C" fn(*mut c_void)>, data: *mut c_void) {
        let on = stream(on);
        context()?;
        cu!(cuLaunchHostFunc(on, function, data))
    }
}

api! {
    /// Calls a host function; how the device waits for it has no effect here.
    fn cudaLaunchHostFunc_v2 | cudaLaunchHostFunc_v2_ptsz => (on: Handle, function: Option<unsafe extern "C" fn(*mut c_void)>, data: *mut c_void, _mode: u32) {
        let on = stream(on);
        context()?;
        cu!(cuLaunchHostFunc(on, function, data))
    }
}

api! {
    /// Restricts managed memory to a stream.
    fn cudaStreamAttachMemAsync | cudaStreamAttachMemAsync_ptsz => (on: Handle, pointer: u64, length: usize, flags: u32) {
        let on = stream(on);
        context()?;
        cu!(cuStreamAttachMemAsync(on, pointer, length, flags))
    }
}

api! {
    /// Sets an attribute of a stream; it has no effect.
    fn cudaStreamSetAttribute | cudaStreamSetAttribute_ptsz => (on: Handle, attribute: u32, value: In<[u32; 16]>) {
        let on = stream(on);
        context()?;
        cu!(cuStreamSetAttribute(on, attribute, value))
    }
}

api! {
    /// An attribute of a stream.
    fn cudaStreamGetAttribute | cudaStreamGetAttribute_ptsz => (on: Handle, attribute: u32, value: Out<[u32; 16]>) {
        let on = stream(on);
        context()?;
        cu!(cuStreamGetAttribute(on, attribute, value))
    }
}

api! {
    /// Copies the attributes of a stream.
    fn cudaStreamCopyAttributes | cudaStreamCopyAttributes_ptsz => (to: Handle, from: Handle) {
        let (to, from) = (stream(to), stream(from));
        context()?;
        cu!(cuStreamCopyAttributes(to, from))
    }
}

api! {
    /// Capture status of a stream.
    fn cudaStreamIsCapturing | cudaStreamIsCapturing_ptsz => (on: Handle, status: Out<u32>) {
        let on = stream(on);
        context()?;
        cu!(cuStreamIsCapturing(on, status))
    }
}

api! {
    /// Exchanges the capture mode of this thread.
    fn cudaThreadExchangeStreamCaptureMode => (mode: Out<u32>) {
        cu!(cuThreadExchangeStreamCaptureMode(mode))
    }
}
