//! Virtual memory management.

use std::ffi::{c_int, c_void};

use super::{In, Out, address, driver, idle};
use crate::abi::{AllocationProp, Error};
use crate::mapping::GRANULARITY;

api! {
    /// Reserves a range of addresses.
    fn cuMemAddressReserve => (pointer: Out<u64>, size: usize, alignment: usize, _wish: u64, flags: u64) {
        if flags != 0 || pointer.is_null() {
            return Err(Error::INVALID_VALUE);
        }
        let base = idle().reserve_range(size, alignment)?;
        pointer.put(base)
    }
}

api! {
    /// Ends a reservation.
    fn cuMemAddressFree => (pointer: u64, size: usize) {
        idle().free_range(pointer, size)
    }
}

api! {
    /// Creates physical memory.
    fn cuMemCreate => (handle: Out<u64>, size: usize, properties: In<AllocationProp>, flags: u64) {
        if flags != 0 || handle.is_null() {
            return Err(Error::INVALID_VALUE);
        }
        let created = driver().create_physical(size, &properties.get()?)?;
        handle.put(created)
    }
}

api! {
    /// Releases a reference to physical memory.
    fn cuMemRelease => (handle: u64) {
        driver().release_physical(handle)
    }
}

api! {
    /// Maps physical memory into a reserved range. No device has access yet.
    fn cuMemMap => (pointer: u64, size: usize, offset: usize, handle: u64, flags: u64) {
        if flags != 0 {
            return Err(Error::INVALID_VALUE);
        }
        idle().map_memory(pointer, size, offset, handle)
    }
}

api! {
    /// Unmaps whole mappings.
    fn cuMemUnmap => (pointer: u64, size: usize) {
        idle().unmap_memory(pointer, size)
    }
}

/// `CUmemAccessDesc`: a location and flags.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct AccessDescription {
    /// `CUmemLocationType`.
    pub location: u32,
    /// The device, if the location is one.
    pub id: c_int,
    /// `CUmemAccess_flags`: 0 is none, 3 is to read and write.
    pub flags: u32,
}

api! {
    /// Allows or forbids devices to access mapped memory.
    fn cuMemSetAccess => (pointer: u64, size: usize, descriptions: In<AccessDescription>, count: usize) {
        let descriptions = descriptions.list(count)?;
        let mut driver = idle();
        for AccessDescription { location, id, flags } in descriptions {
            driver.set_access(pointer, size, (location, id), flags)?;
        }
        Ok(())
    }
}

api! {
    /// How a location can access mapped memory.
    fn cuMemGetAccess => (flags: Out<u64>, location: In<[c_int; 2]>, pointer: u64) {
        let [location, id] = location.get()?;
        let location = u32::try_from(location).map_err(|_| Error::INVALID_VALUE)?;
        let found = driver().access(pointer, (location, id))?;
        flags.put(found)
    }
}

api! {
    /// The unit of physical memory.
    fn cuMemGetAllocationGranularity => (granularity: Out<usize>, properties: In<AllocationProp>, option: u32) {
        if option > 1 {
            return Err(Error::INVALID_VALUE);
        }
        driver().physical_device(&properties.get()?)?;
        granularity.put(usize::try_from(GRANULARITY).unwrap_or(usize::MAX))
    }
}

api! {
    /// The physical memory that is mapped at an address, with one more reference.
    fn cuMemRetainAllocationHandle => (handle: Out<u64>, pointer: *const c_void) {
        if handle.is_null() {
            return Err(Error::INVALID_VALUE);
        }
        let found = driver().retain_physical(address(pointer))?;
        handle.put(found)
    }
}

api! {
    /// The properties with which physical memory was created.
    fn cuMemGetAllocationPropertiesFromHandle => (properties: Out<AllocationProp>, handle: u64) {
        let found = driver().physical_properties(handle)?;
        properties.put(found)
    }
}
