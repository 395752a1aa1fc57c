//! Contexts: ownership, the current context of a thread, and sticky errors.

use std::cell::{Cell, RefCell};

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
    /// The current context of this thread, 0 if there is none. It has no destructor, so that calls of handlers that run at
    /// process exit find it after the thread's other variables are gone.
    static TOP: Cell<u64> = const { Cell::new(0) };
    /// The contexts below the current one on this thread's stack, the lowest first.
    static BELOW: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

/// The current context of this thread, even if it was destroyed.
pub fn top() -> Option<u64> {
    Some(TOP.get()).filter(|context| *context != 0)
}

/// Replaces the current context.
pub fn replace(context: Option<u64>) {
    match context {
        Some(context) => TOP.set(context),
        None => drop(pop()),
    }
}

/// Pushes a context and makes it current. Fails at the end of a thread, when its stack is gone.
pub fn push(context: u64) -> Answer {
    if let Some(top) = top() {
        let pushed = BELOW.try_with(|below| below.borrow_mut().push(top));
        pushed.map_err(|_| Error::DEINITIALIZED)?;
    }
    TOP.set(context);
    Ok(())
}

/// Pops the current context.
pub fn pop() -> Option<u64> {
    // At the end of a thread there is nothing below.
    let next = BELOW.try_with(|below| below.borrow_mut().pop()).ok().flatten();
    let popped = top();
    TOP.set(next.unwrap_or(0));
    popped
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
        push(handle)?;
        self.insert_context(handle, device, flags, false);
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
        self.forget_arrays(context);
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
