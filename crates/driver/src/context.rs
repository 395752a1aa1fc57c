//! Contexts: ownership, the current context of a thread, and sticky errors.

use std::cell::RefCell;

use crate::abi::{Answer, Error};
use crate::driver::Driver;

/// A context.
#[derive(Debug)]
pub struct Context {
    /// Its device.
    pub device: usize,
    /// Flags of `cuCtxCreate`.
    pub flags: u32,
    /// Unique ID, never reused.
    pub id: u64,
    /// Sticky error: every later call returns it.
    pub error: Option<Error>,
    /// Whether it is the primary context of its device.
    pub primary: bool,
    /// `cuCtxSetLimit`.
    pub limits: [usize; 8],
    /// `cuCtxSetCacheConfig`, which has no effect.
    pub cache: u32,
    /// `cuCtxSetSharedMemConfig`, which has no effect.
    pub banks: u32,
    /// Contexts whose memory it may access.
    pub peers: Vec<u64>,
}

/// The primary context of a device.
#[derive(Clone, Copy, Debug, Default)]
pub struct Primary {
    /// Its handle, after the first retain. It stays the same for the life of the process.
    pub handle: Option<u64>,
    /// Number of references.
    pub retained: u32,
    /// `cuDevicePrimaryCtxSetFlags`.
    pub flags: u32,
}

thread_local! {
    /// Context stack of this thread; the current one is last.
    static STACK: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

/// The current context of this thread, even if it was destroyed.
pub fn top() -> Option<u64> {
    STACK.with_borrow(|stack| stack.last().copied())
}

/// Replaces the current context.
pub fn replace(context: Option<u64>) {
    STACK.with_borrow_mut(|stack| {
        stack.pop();
        stack.extend(context);
    });
}

/// Pushes a context and makes it current.
pub fn push(context: u64) {
    STACK.with_borrow_mut(|stack| stack.push(context));
}

/// Pops the current context.
pub fn pop() -> Option<u64> {
    STACK.with_borrow_mut(Vec::pop)
}

/// Default limits: stack, printf buffer, heap, and limits without meaning here.
const LIMITS: [usize; 8] = [1024, 1 << 20, 8 << 20, 2, 2048, 128, 0, 0];

impl Driver {
    /// Device and handle of the current context, or its error if it has one.
    pub fn current(&self) -> Answer<(usize, u64)> {
        let (device, handle, context) = self.current_any()?;
        context.error.map_or(Ok((device, handle)), Err)
    }

    /// The current context, even if it has an error.
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

    /// `cuCtxCreate`: creates a context and makes it current.
    pub fn create_context(&mut self, ordinal: i32, flags: u32) -> Answer<u64> {
        let (device, _) = self.device(ordinal)?;
        let handle = self.handle();
        self.insert_context(handle, device, flags, false);
        push(handle);
        Ok(handle)
    }

    /// `cuCtxDestroy`: destroys a context and everything it owns.
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

    /// `cuDevicePrimaryCtxReset`: destroys everything it owns and clears its error. References to it stay valid.
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

    /// Frees everything that a context owns.
    fn release(&mut self, context: u64) {
        self.order.host_waits_for_all();
        let modules: Vec<u64> = self
            .modules
            .iter()
            .filter(|(_, m)| m.context == Some(context))
            .map(|(handle, _)| *handle)
            .collect();
        for module in modules {
            // The module exists, so this cannot fail.
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

    /// Stores the error of a context. The first error is kept.
    pub fn poison(&mut self, context: u64, error: Error) {
        if let Some(context) = self.contexts.get_mut(&context) {
            context.error.get_or_insert(error);
        }
    }
}
