//! Stream-ordered allocation and memory pools. Pools only keep statistics: memory comes directly from the device and is returned
//! immediately.

use std::ffi::{c_int, c_void};

use super::{In, Out, driver, handle, number, submit};
use crate::abi::{Answer, Error, Handle};
use crate::driver::Driver;
use crate::memory::{Kind, Pool};
use crate::site::Site;
use crate::work::Work;

impl Driver {
    /// The default pool of a device, created on first use.
    fn default_pool(&mut self, device: usize) -> u64 {
        if let Some(pool) = self.devices[device].default_pool {
            return pool;
        }
        let pool = self.handle();
        self.pools.insert(pool, Pool::new(device));
        self.devices[device].default_pool = Some(pool);
        pool
    }
}

/// Allocates from a pool. An allocation of no bytes is null, unlike that of `cuMemAlloc`, which refuses it.
fn allocate(size: usize, pool: Option<u64>, stream: Handle) -> Answer<u64> {
    let stream = super::stream_number(stream);
    let mut driver = driver();
    let target = driver.target(stream)?;
    if let Some(pool) = pool {
        driver.pools.get(&pool).ok_or(Error::INVALID_VALUE)?;
    }
    if size == 0 {
        return Ok(0);
    }
    if let Some(capture) = driver.streams.get(&target.stream).and_then(|stream| stream.capture) {
        let base = driver.reserve(size, Kind::Device)?;
        let captured = driver.capture_node(capture, target.stream, Work::Allocate(base));
        driver.release_reserved();
        return captured.map(|()| base);
    }
    let base = driver.allocate(size)?;
    let pool = match pool {
        Some(pool) => pool,
        None => match driver.devices[target.device].pool {
            Some(pool) => pool,
            None => driver.default_pool(target.device),
        },
    };
    if let Some(allocation) = driver.memory.get_mut(&base) {
        allocation.pool = Some(pool);
        let bytes = allocation.size;
        if let Some(pool) = driver.pools.get_mut(&pool) {
            pool.allocated(bytes);
        }
    }
    let started = driver.start_operation(target, Site::here());
    driver.changed(&started, "the allocation", base);
    Ok(base)
}

api! {
    /// Allocates from the current pool.
    fn cuMemAllocAsync | cuMemAllocAsync_ptsz => (place: Out<u64>, size: usize, stream: Handle) {
        if place.is_null() {
            return Err(Error::INVALID_VALUE);
        }
        let base = allocate(size, None, stream)?;
        place.put(base)
    }
}

api! {
    /// Allocates from a given pool.
    fn cuMemAllocFromPoolAsync | cuMemAllocFromPoolAsync_ptsz => (place: Out<u64>, size: usize, pool: Handle, stream: Handle) {
        if place.is_null() {
            return Err(Error::INVALID_VALUE);
        }
        let base = allocate(size, Some(number(pool)), stream)?;
        place.put(base)
    }
}

api! {
    /// Frees memory, in stream order.
    fn cuMemFreeAsync | cuMemFreeAsync_ptsz => (base: u64, stream: Handle) {
        {
            let mut driver = driver();
            driver.current()?;
            if base == 0 {
                return Ok(());
            }
            if driver.memory.get(&base).is_none_or(|a| a.kind != Kind::Device) {
                driver.report_free(base, &[Kind::Device]);
                return Err(Error::INVALID_VALUE);
            }
        }
        submit(stream, Work::Free(base))
    }
}

/// The default pool of a device.
fn default_pool(pool: Out<Handle>, device: c_int) -> Answer {
    let mut driver = driver();
    let (index, _) = driver.device(device)?;
    let found = driver.default_pool(index);
    pool.put(handle(found))
}

/// The current pool of a device.
fn current_pool(pool: Out<Handle>, device: c_int) -> Answer {
    let mut driver = driver();
    let (index, visible) = driver.device(device)?;
    let found = match visible.pool {
        Some(pool) => pool,
        None => driver.default_pool(index),
    };
    pool.put(handle(found))
}

/// Sets the current pool of a device.
fn set_pool(device: c_int, pool: Handle) -> Answer {
    let mut driver = driver();
    let (index, _) = driver.device(device)?;
    let known = driver.pools.get(&number(pool)).is_some_and(|pool| pool.device == index);
    if !known {
        return Err(Error::INVALID_VALUE);
    }
    driver.devices[index].pool = Some(number(pool));
    Ok(())
}

/// The device of a `CUmemLocation` (its type and number), for pinned allocations (1). Pools exist for device memory only.
fn device_of(location: In<[c_int; 2]>, kind: u32) -> Answer<c_int> {
    if let ([1, device], 1) = (location.get()?, kind) {
        return Ok(device);
    }
    driver().report.unsupported("memory pools of host and managed memory");
    Err(Error::NOT_SUPPORTED)
}

api! {
    /// The default pool of a device.
    fn cuDeviceGetDefaultMemPool => (pool: Out<Handle>, device: c_int) {
        default_pool(pool, device)
    }
}

api! {
    /// The current pool of a device.
    fn cuDeviceGetMemPool => (pool: Out<Handle>, device: c_int) {
        current_pool(pool, device)
    }
}

api! {
    /// Sets the current pool of a device.
    fn cuDeviceSetMemPool => (device: c_int, pool: Handle) {
        set_pool(device, pool)
    }
}

api! {
    /// The default pool of a location.
    fn cuMemGetDefaultMemPool => (pool: Out<Handle>, location: In<[c_int; 2]>, kind: u32) {
        default_pool(pool, device_of(location, kind)?)
    }
}

api! {
    /// The current pool of a location.
    fn cuMemGetMemPool => (pool: Out<Handle>, location: In<[c_int; 2]>, kind: u32) {
        current_pool(pool, device_of(location, kind)?)
    }
}

api! {
    /// Sets the current pool of a location.
    fn cuMemSetMemPool => (location: In<[c_int; 2]>, kind: u32, pool: Handle) {
        set_pool(device_of(location, kind)?, pool)
    }
}

/// `CUmemPoolProps`: allocation type, handle type and location.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct PoolProperties {
    kind: u32,
    handles: u32,
    location: u32,
    device: c_int,
}

api! {
    /// Creates a pool.
    fn cuMemPoolCreate => (pool: Out<Handle>, properties: In<PoolProperties>) {
        let properties = properties.get()?;
        let mut driver = driver();
        let (index, _) = driver.device(properties.device)?;
        if properties.kind != 1 || properties.handles != 0 || properties.location != 1 {
            return Err(Error::INVALID_VALUE);
        }
        let made = driver.handle();
        driver.pools.insert(made, Pool::new(index));
        pool.put(handle(made))
    }
}

api! {
    /// Destroys a pool; its allocations stay valid until they are freed.
    fn cuMemPoolDestroy => (pool: Handle) {
        let mut driver = driver();
        driver.ready()?;
        if driver.devices.iter().any(|device| device.default_pool == Some(number(pool))) {
            return Err(Error::INVALID_VALUE);
        }
        driver.pools.remove(&number(pool)).ok_or(Error::INVALID_VALUE)?;
        for device in driver.devices.iter_mut().filter(|device| device.pool == Some(number(pool))) {
            device.pool = None;
        }
        Ok(())
    }
}

api! {
    /// Does nothing: a pool never keeps unused memory.
    fn cuMemPoolTrimTo => (pool: Handle, _keep: usize) {
        let driver = driver();
        driver.ready()?;
        driver.pools.get(&number(pool)).map(drop).ok_or(Error::INVALID_VALUE)
    }
}

/// Whether an attribute has 8 bytes.
fn is_wide(attribute: u32) -> bool {
    attribute >= 4
}

api! {
    /// An attribute of a pool: 5 to 8 are the reserved bytes now and at most, then the used ones. Only used memory is reserved.
    fn cuMemPoolGetAttribute => (pool: Handle, attribute: u32, value: Out<c_void>) {
        let driver = driver();
        driver.ready()?;
        let known = driver.pools.get(&number(pool)).ok_or(Error::INVALID_VALUE)?;
        let index = usize::try_from(attribute).map_err(|_| Error::INVALID_VALUE)?;
        let found = match attribute {
            5 | 7 => known.used,
            6 => known.most[0],
            8 => known.most[1],
            _ => *known.attributes.get(index).ok_or(Error::INVALID_VALUE)?,
        };
        if is_wide(attribute) {
            value.cast::<u64>().put(found)
        } else {
            value.cast::<u32>().put(u32::try_from(found).unwrap_or(u32::MAX))
        }
    }
}

api! {
    /// Sets an attribute. Of the byte counts, only the high-water marks can be set, and only to zero.
    fn cuMemPoolSetAttribute => (pool: Handle, attribute: u32, value: In<c_void>) {
        let mut driver = driver();
        driver.ready()?;
        let known = driver.pools.get_mut(&number(pool)).ok_or(Error::INVALID_VALUE)?;
        let index = usize::try_from(attribute).map_err(|_| Error::INVALID_VALUE)?;
        let value = if is_wide(attribute) {
            value.cast::<u64>().get()?
        } else {
            u64::from(value.cast::<u32>().get()?)
        };
        let place = match attribute {
            // High-water marks can only be reset to zero.
            6 | 8 if value == 0 => known.most.get_mut(usize::from(attribute == 8)),
            5..=8 => None,
            _ => known.attributes.get_mut(index),
        };
        *place.ok_or(Error::INVALID_VALUE)? = value;
        Ok(())
    }
}

api! {
    /// Ignored: every device can access every pool.
    fn cuMemPoolSetAccess => (pool: Handle, _map: In<c_void>, _count: usize) {
        let driver = driver();
        driver.ready()?;
        driver.pools.get(&number(pool)).map(drop).ok_or(Error::INVALID_VALUE)
    }
}

api! {
    /// Always read and write access.
    fn cuMemPoolGetAccess => (flags: Out<u32>, pool: Handle, _location: Out<c_void>) {
        let driver = driver();
        driver.ready()?;
        driver.pools.get(&number(pool)).ok_or(Error::INVALID_VALUE)?;
        flags.offer(3);
        Ok(())
    }
}
