//! Contexts: who owns what, which one a thread works in, and what went wrong in it for good.

use std::cell::RefCell;

use crate::abi::{Answer, Error};
use crate::driver::Driver;

/// A context.
#[derive(Debug)]
pub struct Context {
    /// Its device.
    pub device: usize,
    /// What `cuCtxCreate` was given.
    pub flags: u32,
    /// A number that is never used again.
    pub id: u64,
    /// What went wrong for good: every later call answers with it.
    pub error: Option<Error>,
    /// Whether it is the primary context of its device.
    pub primary: bool,
    /// `cuCtxSetLimit`.
    pub limits: [usize; 8],
    /// `cuCtxSetCacheConfig` and `cuCtxSetSharedMemConfig`, which change nothing here.
    pub cache: u32,
    /// Likewise.
    pub banks: u32,
    /// Contexts whose memory it was allowed to reach.
    pub peers: Vec<u64>,
}

/// The primary context of a device.
#[derive(Clone, Copy, Debug, Default)]
pub struct Primary {
    /// Its handle, once there was one. It stays the same for the life of the process.
    pub handle: Option<u64>,
    /// How often it was retained.
    pub retained: u32,
    /// `cuDevicePrimaryCtxSetFlags`.
    pub flags: u32,
}

thread_local! {
    /// The contexts of this thread, the current one last.
    static STACK: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

/// The current context of this thread, whatever has become of it.
pub fn top() -> Option<u64> {
    STACK.with_borrow(|stack| stack.last().copied())
}

/// Makes a context current; nothing removes the one that is.
pub fn replace(context: Option<u64>) {
    STACK.with_borrow_mut(|stack| {
        stack.pop();
        stack.extend(context);
    });
}

/// Makes a context current, and remembers the one before.
pub fn push(context: u64) {
    STACK.with_borrow_mut(|stack| stack.push(context));
}

/// Takes the current context away.
pub fn pop() -> Option<u64> {
    STACK.with_borrow_mut(Vec::pop)
}

/// What limits are at first: stack, printf buffer, heap, and what has no meaning here.
const LIMITS: [usize; 8] = [1024, 1 << 20, 8 << 20, 2, 2048, 128, 0, 0];

impl Driver {
    /// The current context's device and handle, if it can be used: nothing went wrong in it.
    pub fn current(&self) -> Answer<(usize, u64)> {
        let (device, handle, context) = self.current_any()?;
        context.error.map_or(Ok((device, handle)), Err)
    }

    /// The current context, even if something went wrong in it.
    pub fn current_any(&self) -> Answer<(usize, u64, &Context)> {
        self.ready()?;
        let handle = top().ok_or(Error::INVALID_CONTEXT)?;
        let context = self.contexts.get(&handle).ok_or(Error::CONTEXT_IS_DESTROYED)?;
        Ok((context.device, handle, context))
    }

    /// A context by its handle.
    pub fn context(&self, handle: u64) -> Answer<&Context> {
        self.ready()?;
        self.contexts.get(&handle).ok_or(Error::INVALID_CONTEXT)
    }

    fn insert_context(&mut self, handle: u64, device: usize, flags: u32, primary: bool) {
        let id = handle >> 4;
        let context = Context {
            device,
            flags,
            id,
            error: None,
            primary,
            limits: LIMITS,
            cache: 0,
            banks: 0,
            peers: Vec::new(),
        };
        self.contexts.insert(handle, context);
    }

    /// `cuCtxCreate`: a context that is current at once.
    pub fn create_context(&mut self, ordinal: i32, flags: u32) -> Answer<u64> {
        let (device, _) = self.device(ordinal)?;
        let handle = self.handle();
        self.insert_context(handle, device, flags, false);
        push(handle);
        Ok(handle)
    }

    /// `cuCtxDestroy`: everything it owned goes with it.
    pub fn destroy_context(&mut self, handle: u64) -> Answer {
        if self.context(handle)?.primary {
            return Err(Error::INVALID_CONTEXT);
        }
        self.release(handle);
        self.contexts.remove(&handle);
        if top() == Some(handle) {
            pop();
        }
        Ok(())
    }

    /// `cuDevicePrimaryCtxRetain`.
    pub fn retain_primary(&mut self, ordinal: i32) -> Answer<u64> {
        let (device, _) = self.device(ordinal)?;
        let handle = match self.primaries[device].handle {
            Some(handle) => handle,
            None => self.handle(),
        };
        let primary = &mut self.primaries[device];
        primary.handle = Some(handle);
        primary.retained = primary.retained.saturating_add(1);
        let flags = primary.flags;
        if !self.contexts.contains_key(&handle) {
            self.insert_context(handle, device, flags, true);
        }
        Ok(handle)
    }

    /// `cuDevicePrimaryCtxRelease`.
    pub fn release_primary(&mut self, ordinal: i32) -> Answer {
        let (device, _) = self.device(ordinal)?;
        let primary = &mut self.primaries[device];
        primary.retained = primary.retained.checked_sub(1).ok_or(Error::INVALID_CONTEXT)?;
        if primary.retained == 0 { self.reset_primary(ordinal) } else { Ok(()) }
    }

    /// `cuDevicePrimaryCtxReset`: everything it owned goes, and so does what went wrong. Who retained it has it still.
    pub fn reset_primary(&mut self, ordinal: i32) -> Answer {
        let (device, _) = self.device(ordinal)?;
        let Primary { handle, retained, flags } = self.primaries[device];
        if let Some(handle) = handle.filter(|handle| self.contexts.contains_key(handle)) {
            self.release(handle);
            self.contexts.remove(&handle);
            if retained > 0 {
                self.insert_context(handle, device, flags, true);
            }
        }
        Ok(())
    }

    /// Frees all that a context owns.
    fn release(&mut self, context: u64) {
        let modules: Vec<u64> = self
            .modules
            .iter()
            .filter(|(_, m)| m.context == Some(context))
            .map(|(handle, _)| *handle)
            .collect();
        for module in modules {
            // It is there.
            let _ = self.unload(module);
        }
        let memory: Vec<u64> =
            self.memory.iter().filter(|(_, a)| a.context == context).map(|(base, _)| *base).collect();
        for base in memory {
            let _ = self.release_memory(base);
        }
        self.streams.retain(|_, stream| stream.context != context);
        self.events.retain(|_, event| event.context != context);
        self.links.retain(|_, link| link.context != context);
        let captures: Vec<u64> = self
            .captures
            .iter()
            .filter(|(_, capture)| capture.context == context)
            .map(|(handle, _)| *handle)
            .collect();
        for capture in captures {
            self.abandon(capture);
        }
    }

    /// Remembers what went wrong in a context. The first error stays.
    pub fn poison(&mut self, context: u64, error: Error) {
        if let Some(context) = self.contexts.get_mut(&context) {
            context.error.get_or_insert(error);
        }
    }
}
