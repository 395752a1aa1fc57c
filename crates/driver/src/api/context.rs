//! Contexts.

use std::ffi::{c_int, c_void};

use super::{In, Out, driver, handle, idle, number};
use crate::abi::{Error, Handle};
use crate::context::{pop, push, replace, top};

api! {
    /// Creates a context and makes it current.
    fn cuCtxCreate | cuCtxCreate_v2 => (context: Out<Handle>, flags: u32, device: c_int) {
        if context.is_null() {
            return Err(Error::INVALID_VALUE);
        }
        let created = driver().create_context(device, flags)?;
        context.put(handle(created))
    }
}

api! {
    /// Creates a context with an execution affinity, which is ignored: the context gets the whole device.
    fn cuCtxCreate_v3 => (context: Out<Handle>, _affinity: In<c_void>, _count: c_int, flags: u32, device: c_int) {
        if context.is_null() {
            return Err(Error::INVALID_VALUE);
        }
        let created = driver().create_context(device, flags)?;
        context.put(handle(created))
    }
}

api! {
    /// Creates a context with parameters, which are ignored.
    fn cuCtxCreate_v4 => (context: Out<Handle>, _parameters: In<c_void>, flags: u32, device: c_int) {
        if context.is_null() {
            return Err(Error::INVALID_VALUE);
        }
        let created = driver().create_context(device, flags)?;
        context.put(handle(created))
    }
}

api! {
    /// Destroys a context and everything it owns.
    fn cuCtxDestroy | cuCtxDestroy_v2 => (context: Handle) {
        idle().destroy_context(number(context))
    }
}

api! {
    /// Pushes a context onto the thread's stack and makes it current.
    fn cuCtxPushCurrent | cuCtxPushCurrent_v2 => (context: Handle) {
        driver().context(number(context))?;
        push(number(context))
    }
}

api! {
    /// Pops the current context; the previous one becomes current.
    fn cuCtxPopCurrent | cuCtxPopCurrent_v2 => (context: Out<Handle>) {
        driver().ready()?;
        let popped = pop().ok_or(Error::INVALID_CONTEXT)?;
        context.offer(handle(popped));
        Ok(())
    }
}

api! {
    /// Replaces the current context; null unbinds it.
    fn cuCtxSetCurrent => (context: Handle) {
        let driver = driver();
        driver.ready()?;
        if context.is_null() {
            replace(None);
        } else {
            driver.context(number(context))?;
            replace(Some(number(context)));
        }
        Ok(())
    }
}

api! {
    /// The current context.
    fn cuCtxGetCurrent => (context: Out<Handle>) {
        driver().ready()?;
        context.put(handle(top().unwrap_or(0)))
    }
}

api! {
    /// The device of the current context.
    fn cuCtxGetDevice => (device: Out<c_int>) {
        let driver = driver();
        let (index, ..) = driver.current_any()?;
        device.put(c_int::try_from(index).unwrap_or(0))
    }
}

api! {
    /// The device of a context.
    fn cuCtxGetDevice_v2 => (device: Out<c_int>, context: Handle) {
        let driver = driver();
        let index = if context.is_null() { driver.current_any()?.0 } else { driver.context(number(context))?.device };
        device.put(c_int::try_from(index).unwrap_or(0))
    }
}

api! {
    /// Flags of the current context.
    fn cuCtxGetFlags => (flags: Out<u32>) {
        let driver = driver();
        let (.., context) = driver.current_any()?;
        flags.put(context.flags)
    }
}

api! {
    /// Sets the flags of the current context.
    fn cuCtxSetFlags => (flags: u32) {
        let mut driver = driver();
        let (_, current) = driver.current()?;
        if let Some(context) = driver.contexts.get_mut(&current) {
            context.flags = flags;
        }
        Ok(())
    }
}

api! {
    /// ID of a context, unique in the process.
    fn cuCtxGetId => (context: Handle, id: Out<u64>) {
        let driver = driver();
        let found = if context.is_null() { driver.current_any()?.2.id } else { driver.context(number(context))?.id };
        id.put(found)
    }
}

api! {
    /// Waits for the current context: for kernels that other threads launched.
    fn cuCtxSynchronize => () {
        let mut driver = idle();
        let (_, context) = driver.current()?;
        if driver.captures.values().any(|capture| capture.context == context && capture.mode == 0) {
            return Err(Error::STREAM_CAPTURE_UNSUPPORTED);
        }
        driver.order.host_waits_for_all();
        Ok(())
    }
}

api! {
    /// Waits for a given context.
    fn cuCtxSynchronize_v2 => (context: Handle) {
        let mut driver = idle();
        driver.order.host_waits_for_all();
        let error = if context.is_null() { driver.current_any()?.2.error } else { driver.context(number(context))?.error };
        error.map_or(Ok(()), Err)
    }
}

api! {
    /// Stores a limit. Kernels always run with the limits of the software GPU.
    fn cuCtxSetLimit => (limit: u32, value: usize) {
        let mut driver = driver();
        let (_, current) = driver.current()?;
        let context = driver.contexts.get_mut(&current).ok_or(Error::INVALID_CONTEXT)?;
        let index = usize::try_from(limit).map_err(|_| Error::UNSUPPORTED_LIMIT)?;
        *context.limits.get_mut(index).ok_or(Error::UNSUPPORTED_LIMIT)? = value;
        Ok(())
    }
}

api! {
    /// Returns a limit.
    fn cuCtxGetLimit => (value: Out<usize>, limit: u32) {
        let driver = driver();
        let (.., context) = driver.current_any()?;
        let index = usize::try_from(limit).map_err(|_| Error::UNSUPPORTED_LIMIT)?;
        value.put(*context.limits.get(index).ok_or(Error::UNSUPPORTED_LIMIT)?)
    }
}

api! {
    /// Sets the preferred split of L1 cache and shared memory; ignored.
    fn cuCtxSetCacheConfig => (config: u32) {
        let mut driver = driver();
        let (_, current) = driver.current()?;
        if let Some(context) = driver.contexts.get_mut(&current) {
            context.cache = config;
        }
        Ok(())
    }
}

api! {
    /// Returns the cache configuration.
    fn cuCtxGetCacheConfig => (config: Out<u32>) {
        config.put(driver().current_any()?.2.cache)
    }
}

api! {
    /// Sets the bank width of shared memory; no effect on devices since Maxwell.
    fn cuCtxSetSharedMemConfig => (config: u32) {
        let mut driver = driver();
        let (_, current) = driver.current()?;
        if let Some(context) = driver.contexts.get_mut(&current) {
            context.banks = config;
        }
        Ok(())
    }
}

api! {
    /// Returns the bank configuration.
    fn cuCtxGetSharedMemConfig => (config: Out<u32>) {
        config.put(driver().current_any()?.2.banks)
    }
}

api! {
    /// API version that a context was created for.
    fn cuCtxGetApiVersion => (context: Handle, version: Out<u32>) {
        let driver = driver();
        if !context.is_null() {
            driver.context(number(context))?;
        }
        version.put(3020)
    }
}

api! {
    /// Range of stream priorities: 0 is the lowest, -5 the highest.
    fn cuCtxGetStreamPriorityRange => (least: Out<c_int>, greatest: Out<c_int>) {
        driver().current()?;
        least.offer(0);
        greatest.offer(-5);
        Ok(())
    }
}

api! {
    /// Does nothing: the software GPU has no persisting L2 lines.
    fn cuCtxResetPersistingL2Cache => () {
        driver().current().map(drop)
    }
}

api! {
    /// Enables access of the current context's kernels to memory of a context of another device.
    fn cuCtxEnablePeerAccess => (peer: Handle, flags: u32) {
        let mut driver = driver();
        let (device, current) = driver.current()?;
        let other = driver.context(number(peer))?.device;
        if flags != 0 {
            return Err(Error::INVALID_VALUE);
        }
        if device == other {
            return Err(Error::INVALID_DEVICE);
        }
        let context = driver.contexts.get_mut(&current).ok_or(Error::INVALID_CONTEXT)?;
        if context.peers.contains(&number(peer)) {
            return Err(Error::PEER_ACCESS_ALREADY_ENABLED);
        }
        context.peers.push(number(peer));
        Ok(())
    }
}

api! {
    /// Disables access to memory of another context.
    fn cuCtxDisablePeerAccess => (peer: Handle) {
        let mut driver = driver();
        let (_, current) = driver.current()?;
        let context = driver.contexts.get_mut(&current).ok_or(Error::INVALID_CONTEXT)?;
        let at = context.peers.iter().position(|known| *known == number(peer)).ok_or(Error::PEER_ACCESS_NOT_ENABLED)?;
        context.peers.remove(at);
        Ok(())
    }
}

api! {
    /// Deprecated form of retaining a context.
    fn cuCtxAttach => (context: Out<Handle>, _flags: u32) {
        let driver = driver();
        let (_, current) = driver.current()?;
        context.put(handle(current))
    }
}

api! {
    /// Deprecated form of releasing a context.
    fn cuCtxDetach => (context: Handle) {
        driver().context(number(context)).map(drop)
    }
}
