//! Events.

use super::{Out, catch_up, driver, handle, number, submit};
use crate::abi::{Error, Handle};
use crate::queue::Until;
use crate::work::Work;

api! {
    /// Creates an event.
    fn cuEventCreate => (event: Out<Handle>, flags: u32) {
        if event.is_null() {
            return Err(Error::INVALID_VALUE);
        }
        let made = driver().create_event(flags)?;
        event.put(handle(made))
    }
}

api! {
    /// Destroys an event.
    fn cuEventDestroy | cuEventDestroy_v2 => (event: Handle) {
        let mut driver = driver();
        driver.ready()?;
        driver.order.forget_event(number(event));
        driver.events.remove(&number(event)).map(drop).ok_or(Error::INVALID_HANDLE)
    }
}

api! {
    /// Records the predicted device time in a stream.
    fn cuEventRecord | cuEventRecord_ptsz => (event: Handle, stream: Handle) {
        driver().event(number(event))?;
        submit(stream, Work::Record(number(event)))
    }
}

api! {
    /// Records an event, with flags.
    fn cuEventRecordWithFlags | cuEventRecordWithFlags_ptsz => (event: Handle, stream: Handle, flags: u32) {
        if super::stream::external(stream, flags)? {
            return super::stream::capture_node(stream, number(event), Work::Record(number(event)));
        }
        driver().event(number(event))?;
        submit(stream, Work::Record(number(event)))
    }
}

api! {
    /// Waits for an event. All work is already complete, so this only returns the context's error.
    fn cuEventQuery | cuEventSynchronize => (event: Handle) {
        let until = {
            let driver = driver();
            if driver.event(number(event))?.captured.is_some() {
                return Err(Error::CAPTURED_EVENT);
            }
            Until::Clock(driver.order.event_clock(number(event)))
        };
        catch_up(&until);
        let mut driver = driver();
        driver.event(number(event))?;
        driver.order.host_waits_for_event(number(event));
        Ok(())
    }
}

api! {
    /// Predicted milliseconds between two events.
    fn cuEventElapsedTime | cuEventElapsedTime_v2 => (milliseconds: Out<f32>, start: Handle, end: Handle) {
        let time = driver().elapsed(number(start), number(end))?;
        milliseconds.put(time)
    }
}
