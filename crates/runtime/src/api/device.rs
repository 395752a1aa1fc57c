//! Devices: selection, limits, peers.

use std::ffi::{c_char, c_int};

use warpproof_driver::abi::{Answer, Error, Handle};
use warpproof_driver::api::{In, Out};
use warpproof_driver::context::top;

use super::{DEVICE, context, handle, init, out, primary, select};
use crate::registry::registry;

/// The device of the current context, or the one that the thread selected.
pub(super) fn current() -> Answer<c_int> {
    let mut device = DEVICE.get();
    if top().is_some() {
        cu!(cuCtxGetDevice(out(&mut device)))?;
    }
    Ok(device)
}

api! {
    /// Number of devices.
    fn cudaGetDeviceCount => (count: Out<c_int>) {
        if let Err(error) = init() {
            count.offer(0);
            return Err(error);
        }
        cu!(cuDeviceGetCount(count))
    }
}

api! {
    /// The device of this thread.
    fn cudaGetDevice => (device: Out<c_int>) {
        init()?;
        device.put(current()?)
    }
}

api! {
    /// Selects the device of this thread.
    fn cudaSetDevice => (device: c_int) {
        select(device).map(drop)
    }
}

api! {
    /// Initializes a device without selecting it.
    fn cudaInitDevice => (device: c_int, device_flags: u32, flags: u32) {
        init()?;
        // `cudaInitDeviceFlagsAreValid`.
        if flags & 1 != 0 {
            cu!(cuDevicePrimaryCtxSetFlags_v2(device, device_flags))?;
        }
        primary(device).map(drop)
    }
}

api! {
    /// The devices that a thread may use if it selects none; the first one becomes its device.
    fn cudaSetValidDevices => (devices: In<c_int>, count: c_int) {
        init()?;
        let devices = devices.list(usize::try_from(count).unwrap_or(0))?;
        for device in &devices {
            cu!(cuDeviceGet(out(&mut 0), *device))?;
        }
        if top().is_none() {
            DEVICE.set(devices.first().copied().unwrap_or(0));
        }
        Ok(())
    }
}

/// The largest `cudaAtomicOperation`.
const LAST_ATOMIC: u32 = 12;

/// What a link between devices does natively with an operation, as `cudaAtomicOperationCapability`.
fn native(operation: u32) -> u32 {
    let (signed, unsigned, reduction, words, doubles) = (1, 2, 4, 8, 16);
    match operation {
        // Sums, minimum, maximum.
        0..=2 => signed | unsigned | reduction | words | doubles,
        // Increment and decrement.
        3 | 4 => unsigned | reduction | words,
        // Logic.
        5..=7 => unsigned | reduction | words | doubles,
        // Exchange, and compare and swap.
        8 | 9 => unsigned | words | doubles,
        // Sums of floats.
        10 => signed | reduction | words | doubles,
        _ => 0,
    }
}

/// Writes what a link does natively with operations.
fn atomics(capabilities: Out<u32>, operations: In<u32>, count: u32, native: impl Fn(u32) -> u32) -> Answer {
    let count = usize::try_from(count).unwrap_or(0);
    let operations = operations.list(count)?;
    if count == 0 || capabilities.is_null() || operations.iter().any(|operation| *operation > LAST_ATOMIC) {
        return Err(Error::INVALID_VALUE);
    }
    for (index, operation) in operations.into_iter().enumerate() {
        capabilities.at(index).put(native(operation))?;
    }
    Ok(())
}

api! {
    /// Native atomic operations between a device and the host: none, as `cudaDevAttrHostNativeAtomicSupported` shows.
    fn cudaDeviceGetHostAtomicCapabilities => (capabilities: Out<u32>, operations: In<u32>, count: u32, device: c_int) {
        init()?;
        cu!(cuDeviceGet(out(&mut 0), device))?;
        atomics(capabilities, operations, count, |_| 0)
    }
}

api! {
    /// Native atomic operations between two devices, which `cudaDevP2PAttrNativeAtomicSupported` has.
    fn cudaDeviceGetP2PAtomicCapabilities => (capabilities: Out<u32>, operations: In<u32>, count: u32, source: c_int, target: c_int) {
        init()?;
        cu!(cuDeviceGet(out(&mut 0), source))?;
        cu!(cuDeviceGet(out(&mut 0), target))?;
        if source == target {
            return Err(Error::INVALID_DEVICE);
        }
        atomics(capabilities, operations, count, native)
    }
}

api! {
    /// Does nothing: every device has doubles.
    fn cudaSetDoubleForDevice | cudaSetDoubleForHost => (number: In<f64>) {
        number.get().map(drop)
    }
}

api! {
    /// Flags of the current device.
    fn cudaGetDeviceFlags => (flags: Out<u32>) {
        context()?;
        cu!(cuCtxGetFlags(flags))
    }
}

api! {
    /// Sets the flags of the current device.
    fn cudaSetDeviceFlags => (flags: u32) {
        init()?;
        cu!(cuDevicePrimaryCtxSetFlags_v2(current()?, flags))
    }
}

api! {
    /// An attribute of a device; the numbers are the driver's.
    fn cudaDeviceGetAttribute => (value: Out<c_int>, attribute: u32, device: c_int) {
        init()?;
        cu!(cuDeviceGetAttribute(value, attribute, device))
    }
}

api! {
    /// Waits for the current device.
    fn cudaDeviceSynchronize | cudaThreadSynchronize => () {
        context()?;
        cu!(cuCtxSynchronize())
    }
}

api! {
    /// Destroys everything on the current device.
    fn cudaDeviceReset | cudaThreadExit => () {
        init()?;
        let device = current()?;
        registry().forget(primary(device)?);
        cu!(cuDevicePrimaryCtxReset_v2(device))
    }
}

api! {
    /// Sets a limit.
    fn cudaDeviceSetLimit | cudaThreadSetLimit => (limit: u32, value: usize) {
        context()?;
        cu!(cuCtxSetLimit(limit, value))
    }
}

api! {
    /// Returns a limit.
    fn cudaDeviceGetLimit | cudaThreadGetLimit => (value: Out<usize>, limit: u32) {
        context()?;
        cu!(cuCtxGetLimit(value, limit))
    }
}

api! {
    /// Sets the preferred split of L1 cache and shared memory; it has no effect.
    fn cudaDeviceSetCacheConfig | cudaThreadSetCacheConfig => (config: u32) {
        context()?;
        cu!(cuCtxSetCacheConfig(config))
    }
}

api! {
    /// Returns the preferred split of L1 cache and shared memory.
    fn cudaDeviceGetCacheConfig | cudaThreadGetCacheConfig => (config: Out<u32>) {
        context()?;
        cu!(cuCtxGetCacheConfig(config))
    }
}

api! {
    /// Sets the width of shared memory banks; it has no effect.
    fn cudaDeviceSetSharedMemConfig => (config: u32) {
        context()?;
        cu!(cuCtxSetSharedMemConfig(config))
    }
}

api! {
    /// Returns the width of shared memory banks.
    fn cudaDeviceGetSharedMemConfig => (config: Out<u32>) {
        context()?;
        cu!(cuCtxGetSharedMemConfig(config))
    }
}

api! {
    /// Range of stream priorities.
    fn cudaDeviceGetStreamPriorityRange => (least: Out<c_int>, greatest: Out<c_int>) {
        context()?;
        cu!(cuCtxGetStreamPriorityRange(least, greatest))
    }
}

api! {
    /// Does nothing: the software GPU has no persisting L2 lines.
    fn cudaCtxResetPersistingL2Cache => () {
        context()?;
        cu!(cuCtxResetPersistingL2Cache())
    }
}

api! {
    /// PCI bus ID of a device.
    fn cudaDeviceGetPCIBusId => (id: Out<c_char>, length: c_int, device: c_int) {
        init()?;
        cu!(cuDeviceGetPCIBusId(id, length, device))
    }
}

api! {
    /// Device with a given PCI bus ID.
    fn cudaDeviceGetByPCIBusId => (device: Out<c_int>, id: In<c_char>) {
        init()?;
        cu!(cuDeviceGetByPCIBusId(device, id))
    }
}

api! {
    /// Whether a device can access the memory of another one.
    fn cudaDeviceCanAccessPeer => (can: Out<c_int>, device: c_int, peer: c_int) {
        init()?;
        cu!(cuDeviceCanAccessPeer(can, device, peer))
    }
}

api! {
    /// An attribute of two devices.
    fn cudaDeviceGetP2PAttribute => (value: Out<c_int>, attribute: u32, source: c_int, target: c_int) {
        init()?;
        cu!(cuDeviceGetP2PAttribute(value, attribute, source, target))
    }
}

api! {
    /// Lets the current device access the memory of another one.
    fn cudaDeviceEnablePeerAccess => (peer: c_int, flags: u32) {
        context()?;
        cu!(cuCtxEnablePeerAccess(handle(primary(peer)?), flags))
    }
}

api! {
    /// Ends the access of the current device to the memory of another one.
    fn cudaDeviceDisablePeerAccess => (peer: c_int) {
        context()?;
        cu!(cuCtxDisablePeerAccess(handle(primary(peer)?)))
    }
}

api! {
    /// The default memory pool of a device.
    fn cudaDeviceGetDefaultMemPool => (pool: Out<Handle>, device: c_int) {
        init()?;
        primary(device)?;
        cu!(cuDeviceGetDefaultMemPool(pool, device))
    }
}

api! {
    /// The current memory pool of a device.
    fn cudaDeviceGetMemPool => (pool: Out<Handle>, device: c_int) {
        init()?;
        primary(device)?;
        cu!(cuDeviceGetMemPool(pool, device))
    }
}

api! {
    /// Sets the current memory pool of a device.
    fn cudaDeviceSetMemPool => (device: c_int, pool: Handle) {
        init()?;
        primary(device)?;
        cu!(cuDeviceSetMemPool(device, pool))
    }
}
