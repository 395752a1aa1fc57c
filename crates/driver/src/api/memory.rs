//! Memory: allocation, freeing, and attributes of pointers.

use std::ffi::{c_int, c_void};

use super::{In, Out, address, driver, handle, idle};
use crate::abi::{Answer, Error, Handle};
use crate::memory::Kind;

api! {
    /// Free and total device memory in bytes.
    fn cuMemGetInfo_v2 => (free: Out<usize>, total: Out<usize>) {
        let driver = driver();
        let (device, _) = driver.current()?;
        let visible = &driver.devices[device];
        let wide = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        free.put(wide(visible.memory().saturating_sub(visible.used)))?;
        total.put(wide(visible.memory()))
    }
}

api! {
    /// Allocates device memory.
    fn cuMemAlloc_v2 => (place: Out<u64>, size: usize) {
        if place.is_null() {
            return Err(Error::INVALID_VALUE);
        }
        let base = driver().allocate(size)?;
        place.put(base)
    }
}

api! {
    /// Allocates device memory for rows, each aligned to a sector.
    fn cuMemAllocPitch_v2 => (place: Out<u64>, pitch: Out<usize>, width: usize, height: usize, element: u32) {
        if !matches!(element, 4 | 8 | 16) || place.is_null() {
            return Err(Error::INVALID_VALUE);
        }
        let row = width.checked_next_multiple_of(512).ok_or(Error::INVALID_VALUE)?;
        let base = driver().allocate(row.checked_mul(height).ok_or(Error::INVALID_VALUE)?)?;
        pitch.put(row)?;
        place.put(base)
    }
}

api! {
    /// Frees device or managed memory.
    fn cuMemFree_v2 => (base: u64) {
        let mut driver = idle();
        driver.current()?;
        if base == 0 {
            return Ok(());
        }
        driver.free_memory(base, &[Kind::Device, Kind::Managed])
    }
}

api! {
    /// Base address and size of an allocation.
    fn cuMemGetAddressRange_v2 => (base: Out<u64>, size: Out<usize>, pointer: u64) {
        let driver = driver();
        driver.current()?;
        let known = driver.allocation(pointer).map(|(base, a)| (base, a.size));
        let (from, bytes) = known.or_else(|| driver.variable_at(pointer)).ok_or(Error::NOT_FOUND)?;
        base.offer(from);
        size.offer(usize::try_from(bytes).unwrap_or(usize::MAX));
        Ok(())
    }
}

api! {
    /// Allocates pinned memory.
    fn cuMemAllocHost_v2 => (place: Out<*mut c_void>, size: usize) {
        if place.is_null() {
            return Err(Error::INVALID_VALUE);
        }
        let base = driver().allocate_host(size, Kind::Host, 0)?;
        place.put(std::ptr::with_exposed_provenance_mut(usize::try_from(base).unwrap_or(0)))
    }
}

api! {
    /// Allocates pinned memory, with flags.
    fn cuMemHostAlloc => (place: Out<*mut c_void>, size: usize, flags: u32) {
        if place.is_null() || flags > 7 {
            return Err(Error::INVALID_VALUE);
        }
        let base = driver().allocate_host(size, Kind::Host, flags)?;
        place.put(std::ptr::with_exposed_provenance_mut(usize::try_from(base).unwrap_or(0)))
    }
}

api! {
    /// Frees pinned memory.
    fn cuMemFreeHost => (pointer: *mut c_void) {
        let mut driver = idle();
        driver.current()?;
        if pointer.is_null() {
            return Ok(());
        }
        driver.free_memory(address(pointer), &[Kind::Host])
    }
}

api! {
    /// Pins memory of the program.
    fn cuMemHostRegister | cuMemHostRegister_v2 => (pointer: *mut c_void, size: usize, flags: u32) {
        driver().register(address(pointer), size, flags)
    }
}

api! {
    /// Unpins memory of the program.
    fn cuMemHostUnregister => (pointer: *mut c_void) {
        let mut driver = idle();
        driver.current()?;
        driver.free_memory(address(pointer), &[Kind::Registered]).map_err(|_| Error::HOST_MEMORY_NOT_REGISTERED)
    }
}

api! {
    /// Device address of pinned memory; it equals the host address.
    fn cuMemHostGetDevicePointer_v2 => (place: Out<u64>, pointer: *mut c_void, _flags: u32) {
        let driver = driver();
        driver.current()?;
        let (_, allocation) = driver.allocation(address(pointer)).ok_or(Error::INVALID_VALUE)?;
        if !matches!(allocation.kind, Kind::Host | Kind::Registered) {
            return Err(Error::INVALID_VALUE);
        }
        place.put(address(pointer))
    }
}

api! {
    /// Flags of a pinned allocation.
    fn cuMemHostGetFlags => (flags: Out<u32>, pointer: *mut c_void) {
        let driver = driver();
        driver.current()?;
        let (_, allocation) = driver.allocation(address(pointer)).ok_or(Error::INVALID_VALUE)?;
        flags.put(allocation.flags)
    }
}

api! {
    /// Allocates managed memory: the program and its kernels use the same pointer.
    fn cuMemAllocManaged => (place: Out<u64>, size: usize, flags: u32) {
        if place.is_null() || !matches!(flags, 1 | 2) {
            return Err(Error::INVALID_VALUE);
        }
        let base = driver().allocate_host(size, Kind::Managed, flags)?;
        place.put(base)
    }
}

/// Writes one attribute of a pointer to the program's variable.
fn attribute(place: Out<c_void>, number: u32, pointer: u64) -> Answer {
    let driver = driver();
    driver.ready()?;
    let (base, allocation) = match driver.allocation(pointer) {
        Some((base, allocation)) => (base, allocation.clone()),
        None => driver.variable_allocation(pointer).ok_or(Error::INVALID_VALUE)?,
    };
    let host = matches!(allocation.kind, Kind::Host | Kind::Registered);
    let device = c_int::try_from(allocation.device).unwrap_or(0);
    match number {
        1 => place.cast::<Handle>().put(handle(allocation.context)),
        2 => place.cast::<u32>().put(if host { 1 } else { 2 }),
        4 if allocation.kind == Kind::Device => Err(Error::INVALID_VALUE),
        3 | 4 => place.cast::<u64>().put(pointer),
        6 | 13 => place.cast::<u32>().put(1),
        7 => place.cast::<u64>().put(allocation.id),
        8 => place.cast::<u32>().put(u32::from(allocation.kind == Kind::Managed)),
        9 => place.cast::<c_int>().put(device),
        10 | 15 => place.cast::<u32>().put(0),
        11 => place.cast::<u64>().put(base),
        12 => place.cast::<usize>().put(usize::try_from(allocation.size).unwrap_or(usize::MAX)),
        14 => place.cast::<u64>().put(0),
        16 => place.cast::<u32>().put(3),
        17 => place.cast::<Handle>().put(handle(allocation.pool.unwrap_or(0))),
        _ => Err(Error::INVALID_VALUE),
    }
}

api! {
    /// An attribute of a pointer.
    fn cuPointerGetAttribute => (place: Out<c_void>, number: u32, pointer: u64) {
        attribute(place, number, pointer)
    }
}

api! {
    /// Several attributes of a pointer; all are zero for an unknown pointer.
    fn cuPointerGetAttributes => (count: u32, numbers: In<u32>, places: In<Out<c_void>>, pointer: u64) {
        let count = usize::try_from(count).map_err(|_| Error::INVALID_VALUE)?;
        let (numbers, places) = (numbers.list(count)?, places.list(count)?);
        for (number, place) in numbers.into_iter().zip(places) {
            if attribute(place, number, pointer).is_err() {
                // Every attribute has at least four bytes.
                let nothing = if number == 9 { -2 } else { 0 };
                place.cast::<c_int>().offer(nothing);
                if matches!(number, 1 | 3 | 4 | 7 | 11 | 12 | 14 | 17) {
                    place.cast::<u64>().offer(0);
                }
            }
        }
        Ok(())
    }
}

api! {
    /// `CU_POINTER_ATTRIBUTE_SYNC_MEMOPS` is always in effect.
    fn cuPointerSetAttribute => (_value: In<c_void>, number: u32, pointer: u64) {
        let driver = driver();
        driver.ready()?;
        driver.allocation(pointer).ok_or(Error::INVALID_VALUE)?;
        if number == 6 { Ok(()) } else { Err(Error::INVALID_VALUE) }
    }
}
