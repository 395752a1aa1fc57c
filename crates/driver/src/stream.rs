//! Streams and events.
//!
//! Work runs when it is submitted, in the thread that submits it. A stream has pending work only while another thread submits
//! to it. Events store the device time at which they were recorded.

use std::cell::RefCell;
use std::collections::BTreeMap;

use crate::abi::{Answer, Error};
use crate::driver::Driver;

/// A stream.
#[derive(Clone, Debug)]
pub struct Stream {
    /// Its context.
    pub context: u64,
    /// Flags of its creation.
    pub flags: u32,
    /// Its priority; 0 is the lowest.
    pub priority: i32,
    /// Unique ID, never reused.
    pub id: u64,
    /// The capture it participates in.
    pub capture: Option<u64>,
    /// Attributes that the program set, by number. They have no effect.
    pub attributes: BTreeMap<u32, [u32; 16]>,
}

/// An event.
#[derive(Clone, Debug)]
pub struct Event {
    /// Its context.
    pub context: u64,
    /// Flags of its creation.
    pub flags: u32,
    /// The device, and its time in picoseconds when the event was recorded.
    pub recorded: Option<(usize, u64)>,
    /// The capture it was recorded in, and the nodes it represents.
    pub captured: Option<(u64, Vec<u64>)>,
}

thread_local! {
    /// The default streams of this thread, by context.
    static OWN: RefCell<BTreeMap<u64, u64>> = const { RefCell::new(BTreeMap::new()) };
}

/// `CU_STREAM_NON_BLOCKING`.
pub const NON_BLOCKING: u32 = 1;
/// `CU_EVENT_DISABLE_TIMING`.
pub const DISABLE_TIMING: u32 = 2;

/// The stream that a call refers to: a created stream, or a default stream of the current context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// The context.
    pub context: u64,
    /// The device.
    pub device: usize,
    /// The key of the stream; default streams are created on first use.
    pub stream: u64,
    /// Whether it is the legacy default stream.
    pub legacy: bool,
}

impl Driver {
    /// Resolves a stream handle in the current context: 0 and 1 are the legacy default stream, 2 is that of this thread.
    pub fn target(&mut self, handle: u64) -> Answer<Target> {
        let (device, context) = self.current()?;
        if handle > 2 {
            let stream = self.streams.get(&handle).ok_or(Error::INVALID_HANDLE)?;
            let owner = self.contexts.get(&stream.context).ok_or(Error::CONTEXT_IS_DESTROYED)?;
            if let Some(error) = owner.error {
                return Err(error);
            }
            return Ok(Target {
                context: stream.context,
                device: owner.device,
                stream: handle,
                legacy: false,
            });
        }
        let key = if handle == 2 {
            // Each thread has its own default stream in each context.
            let known = OWN.try_with(|own| own.borrow().get(&context).copied());
            // At the end of a thread, handlers that run at process exit share one stream.
            known.map_or(context + 2, |known| {
                let known = known.filter(|key| self.streams.contains_key(key));
                let key = known.unwrap_or_else(|| self.handle());
                // It was there just now.
                let _ = OWN.try_with(|own| own.borrow_mut().insert(context, key));
                key
            })
        } else {
            // Handles are multiples of 16, so the context's handle plus one is not a handle.
            context + 1
        };
        let made =
            Stream { context, flags: 0, priority: 0, id: key, capture: None, attributes: BTreeMap::new() };
        self.streams.entry(key).or_insert(made);
        Ok(Target { context, device, stream: key, legacy: handle < 2 })
    }

    /// `cuStreamCreate`.
    pub fn create_stream(&mut self, flags: u32, priority: i32) -> Answer<u64> {
        let (_, context) = self.current()?;
        if flags > 1 {
            return Err(Error::INVALID_VALUE);
        }
        let handle = self.handle();
        let priority = priority.clamp(-5, 0);
        let (id, attributes) = (handle >> 4, BTreeMap::new());
        self.streams.insert(handle, Stream { context, flags, priority, id, capture: None, attributes });
        Ok(handle)
    }

    /// `cuStreamDestroy`.
    pub fn destroy_stream(&mut self, handle: u64) -> Answer {
        self.ready()?;
        let stream = self.streams.remove(&handle).filter(|_| handle > 2).ok_or(Error::INVALID_HANDLE)?;
        // Another stream that takes part may end before the capture does, if its work is joined.
        if let Some(capture) = stream.capture
            && self.captures.get(&capture).is_some_and(|capture| capture.origin == handle)
        {
            self.abandon(capture);
        }
        Ok(())
    }

    /// Whether a stream must wait for a kernel that runs now: one of the same stream; the legacy default stream and blocking
    /// streams wait for each other.
    pub fn must_wait(&self, target: Target) -> bool {
        let blocking = |target: &Target| {
            self.streams.get(&target.stream).is_some_and(|stream| stream.flags & NON_BLOCKING == 0)
        };
        self.alone
            || self.running.iter().any(|other| {
                other.stream == target.stream
                    || other.context == target.context
                        && (other.legacy && blocking(&target) || target.legacy && blocking(other))
            })
    }

    /// `cuStreamSynchronize`, `cuStreamQuery` when no work is pending: only returns the context's error.
    pub fn synchronize(&mut self, handle: u64) -> Answer {
        let target = self.target(handle)?;
        let capture = self.streams.get(&target.stream).and_then(|stream| stream.capture);
        if let Some(capture) = capture {
            self.invalidate(capture);
            return Err(Error::STREAM_CAPTURE_UNSUPPORTED);
        }
        Ok(())
    }

    /// `cuEventCreate`.
    pub fn create_event(&mut self, flags: u32) -> Answer<u64> {
        let (_, context) = self.current()?;
        let handle = self.handle();
        self.events.insert(handle, Event { context, flags, recorded: None, captured: None });
        Ok(handle)
    }

    /// An event by its handle.
    pub fn event(&self, handle: u64) -> Answer<&Event> {
        self.ready()?;
        let event = self.events.get(&handle).ok_or(Error::INVALID_HANDLE)?;
        match self.contexts.get(&event.context).and_then(|context| context.error) {
            Some(error) => Err(error),
            None => Ok(event),
        }
    }

    /// `cuEventElapsedTime`: predicted milliseconds between two events.
    pub fn elapsed(&self, start: u64, end: u64) -> Answer<f32> {
        let (start, end) = (self.event(start)?, self.event(end)?);
        if (start.flags | end.flags) & DISABLE_TIMING != 0 {
            return Err(Error::INVALID_HANDLE);
        }
        if start.captured.is_some() || end.captured.is_some() {
            return Err(Error::CAPTURED_EVENT);
        }
        let (Some((device, from)), Some((other, to))) = (start.recorded, end.recorded) else {
            return Err(Error::INVALID_HANDLE);
        };
        if device != other {
            return Err(Error::INVALID_HANDLE);
        }
        let (sign, picoseconds) = if to >= from { (1.0, to - from) } else { (-1.0, from - to) };
        #[expect(
            clippy::as_conversions,
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            reason = "the API returns milliseconds as a float"
        )]
        let milliseconds = (picoseconds as f64 / 1e9) as f32;
        Ok(sign * milliseconds)
    }
}
