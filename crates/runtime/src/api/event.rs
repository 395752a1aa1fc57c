//! Events.

use warpproof_driver::abi::Handle;
use warpproof_driver::api::Out;

use super::{context, stream};

api! {
    /// Creates an event.
    fn cudaEventCreate => (event: Out<Handle>) {
        context()?;
        cu!(cuEventCreate(event, 0))
    }
}

api! {
    /// Creates an event, with flags.
    fn cudaEventCreateWithFlags => (event: Out<Handle>, flags: u32) {
        context()?;
        cu!(cuEventCreate(event, flags))
    }
}

api! {
    /// Destroys an event.
    fn cudaEventDestroy => (event: Handle) {
        context()?;
        cu!(cuEventDestroy_v2(event))
    }
}

api! {
    /// Records an event.
    fn cudaEventRecord | cudaEventRecord_ptsz => (event: Handle, on: Handle) {
        let on = stream(on);
        context()?;
        cu!(cuEventRecord(event, on))
    }
}

api! {
    /// Records an event, with flags.
    fn cudaEventRecordWithFlags | cudaEventRecordWithFlags_ptsz => (event: Handle, on: Handle, flags: u32) {
        let on = stream(on);
        context()?;
        cu!(cuEventRecordWithFlags(event, on, flags))
    }
}

api! {
    /// Whether an event's work is complete.
    fn cudaEventQuery => (event: Handle) {
        context()?;
        cu!(cuEventQuery(event))
    }
}

api! {
    /// Waits for an event.
    fn cudaEventSynchronize => (event: Handle) {
        context()?;
        cu!(cuEventSynchronize(event))
    }
}

api! {
    /// Predicted milliseconds between two events.
    fn cudaEventElapsedTime | cudaEventElapsedTime_v2 => (milliseconds: Out<f32>, start: Handle, end: Handle) {
        context()?;
        cu!(cuEventElapsedTime_v2(milliseconds, start, end))
    }
}
