//! Virtual memory management: reserved address ranges, physical memory, and mappings of one to the other.
//!
//! A mapping is an allocation of the heap inside a reserved range. An access to a reserved address without a mapping, or to a
//! mapping that the device has no access to, is a fault of the kernel. The contents belong to the physical memory: they survive
//! unmapping, and move to the address of the next mapping.

use std::collections::{BTreeMap, BTreeSet};

use crate::abi::{AllocationProp, Answer, Error, LOCATION_DEVICE, PINNED};
use crate::driver::Driver;
use crate::memory::{Kind, wide};

/// The unit of physical memory and of mappings.
pub const GRANULARITY: u64 = 2 << 20;
/// End of the addresses that can be reserved: Linux places programs above.
const HIGHEST: u64 = 0x5000_0000_0000;

/// State of virtual memory management.
#[derive(Debug, Default)]
pub struct VirtualMemory {
    /// Reserved ranges: size by first address.
    ranges: BTreeMap<u64, u64>,
    /// Physical memory by handle.
    physical: BTreeMap<u64, Physical>,
    /// Mappings by first address.
    mappings: BTreeMap<u64, Mapping>,
}

/// Physical memory.
#[derive(Debug)]
struct Physical {
    properties: AllocationProp,
    device: usize,
    size: u64,
    /// References of the program.
    references: u32,
    /// Its contents while it is not mapped, and whether nothing was ever written to them.
    contents: Option<(Vec<u8>, bool)>,
}

/// A mapping of physical memory.
#[derive(Debug)]
struct Mapping {
    handle: u64,
    size: u64,
    /// Devices with access.
    access: BTreeSet<usize>,
}

impl VirtualMemory {
    /// Whether memory is mapped at this first address.
    pub fn is_mapping(&self, base: u64) -> bool {
        self.mappings.contains_key(&base)
    }

    /// Whether a device can access the mapping at this first address; `None` if there is no mapping.
    pub fn accessible(&self, base: u64, device: usize) -> Option<bool> {
        self.mappings.get(&base).map(|mapping| mapping.access.contains(&device))
    }

    /// Whether no device can access the mapping at this first address.
    pub fn unreachable(&self, base: u64) -> bool {
        self.mappings.get(&base).is_some_and(|mapping| mapping.access.is_empty())
    }

    /// The mapping that contains an address.
    fn at(&self, address: u64) -> Option<(u64, &Mapping)> {
        let (base, mapping) = self.mappings.range(..=address).next_back()?;
        (address - base < mapping.size).then_some((*base, mapping))
    }

    /// The first addresses of the mappings that make up exactly this range.
    fn tiles(&self, address: u64, size: u64) -> Answer<Vec<u64>> {
        let end = address.checked_add(size).filter(|_| size > 0).ok_or(Error::INVALID_VALUE)?;
        let mut next = address;
        let mut found = Vec::new();
        while next < end {
            let mapping = self.mappings.get(&next).ok_or(Error::INVALID_VALUE)?;
            found.push(next);
            next += mapping.size;
        }
        if next == end { Ok(found) } else { Err(Error::INVALID_VALUE) }
    }
}

impl Driver {
    /// `cuMemAddressReserve`. The address that the program would like is ignored, as CUDA allows.
    pub fn reserve_range(&mut self, size: usize, alignment: usize) -> Answer<u64> {
        self.ready()?;
        let (size, alignment) = (wide(size), wide(alignment).max(GRANULARITY));
        if size == 0 || !size.is_multiple_of(wide(crate::host::PAGE)) || !alignment.is_power_of_two() {
            return Err(Error::INVALID_VALUE);
        }
        let base = self.gpu.memory().reserve(size, alignment, HIGHEST).map_err(|_| Error::OUT_OF_MEMORY)?;
        self.mapped.ranges.insert(base, size);
        Ok(base)
    }

    /// `cuMemAddressFree`.
    pub fn free_range(&mut self, base: u64, size: usize) -> Answer {
        self.ready()?;
        let known = self.mapped.ranges.get(&base) == Some(&wide(size));
        let used = self.mapped.mappings.range(base..base.saturating_add(wide(size))).next().is_some();
        if !known || used {
            return Err(Error::INVALID_VALUE);
        }
        self.mapped.ranges.remove(&base);
        self.gpu.memory().unreserve(base);
        Ok(())
    }

    /// Checks the properties of physical memory and returns its device.
    pub fn physical_device(&mut self, properties: &AllocationProp) -> Answer<usize> {
        self.ready()?;
        if properties.kind != PINNED {
            return Err(Error::INVALID_VALUE);
        }
        let missing = match properties {
            AllocationProp { location, .. } if *location != LOCATION_DEVICE => "physical memory of the host",
            AllocationProp { handles, .. } if *handles != 0 => "physical memory that other processes share",
            _ => return self.device(properties.id).map(|(device, _)| device),
        };
        self.report.unsupported(missing);
        Err(Error::NOT_SUPPORTED)
    }

    /// `cuMemCreate`.
    pub fn create_physical(&mut self, size: usize, properties: &AllocationProp) -> Answer<u64> {
        let device = self.physical_device(properties)?;
        let bytes = wide(size);
        if size == 0 || !bytes.is_multiple_of(GRANULARITY) {
            return Err(Error::INVALID_VALUE);
        }
        self.room(device, bytes)?;
        if Vec::<u8>::new().try_reserve_exact(size).is_err() {
            return Err(Error::OUT_OF_MEMORY);
        }
        self.devices[device].used += bytes;
        let handle = self.handle();
        let contents = Some((vec![0; size], true));
        let physical = Physical { properties: *properties, device, size: bytes, references: 1, contents };
        self.mapped.physical.insert(handle, physical);
        Ok(handle)
    }

    /// `cuMemRelease`: mapped memory stays until it is unmapped.
    pub fn release_physical(&mut self, handle: u64) -> Answer {
        self.ready()?;
        let physical = self.mapped.physical.get_mut(&handle).ok_or(Error::INVALID_VALUE)?;
        physical.references = physical.references.checked_sub(1).ok_or(Error::INVALID_VALUE)?;
        self.end_physical(handle);
        Ok(())
    }

    /// Frees physical memory that is neither mapped nor referred to.
    fn end_physical(&mut self, handle: u64) {
        let unused = |physical: &&Physical| physical.references == 0 && physical.contents.is_some();
        if let Some(physical) = self.mapped.physical.get(&handle).filter(unused) {
            let device = &mut self.devices[physical.device];
            device.used = device.used.saturating_sub(physical.size);
            self.mapped.physical.remove(&handle);
        }
    }

    /// `cuMemMap`.
    pub fn map_memory(&mut self, address: u64, size: usize, offset: usize, handle: u64) -> Answer {
        self.ready()?;
        let size = wide(size);
        let end = address.checked_add(size).ok_or(Error::INVALID_VALUE)?;
        let known = self.mapped.ranges.range(..=address).next_back();
        let inside = known.is_some_and(|(base, length)| end <= base + length);
        let taken = self.mapped.mappings.range(..end).next_back();
        let taken = taken.is_some_and(|(base, mapping)| base + mapping.size > address);
        let aligned = size > 0 && size.is_multiple_of(GRANULARITY) && address.is_multiple_of(GRANULARITY);
        if !inside || taken || !aligned || offset != 0 {
            return Err(Error::INVALID_VALUE);
        }
        let physical = self.mapped.physical.get_mut(&handle).ok_or(Error::INVALID_VALUE)?;
        if size > physical.size {
            return Err(Error::INVALID_VALUE);
        }
        let missing = if size < physical.size { Some("mapping a part of physical memory") } else { None };
        let missing =
            missing.or(physical.contents.is_none().then_some("two mappings of the same physical memory"));
        if let Some(missing) = missing {
            self.report.unsupported(missing);
            return Err(Error::NOT_SUPPORTED);
        }
        let device = physical.device;
        let (contents, fresh) = physical.contents.take().ok_or(Error::INVALID_VALUE)?;
        let mapped = self.gpu.memory().map("mapped memory", address, contents);
        if let Err((_, contents)) = mapped {
            if let Some(physical) = self.mapped.physical.get_mut(&handle) {
                physical.contents = Some((contents, fresh));
            }
            return Err(Error::OUT_OF_MEMORY);
        }
        self.gpu.memory().hide(address, true);
        self.mapped.mappings.insert(address, Mapping { handle, size, access: BTreeSet::new() });
        self.note(address, 0, device, size, Kind::Device).fresh = fresh;
        Ok(())
    }

    /// `cuMemUnmap`: whole mappings only.
    pub fn unmap_memory(&mut self, address: u64, size: usize) -> Answer {
        self.ready()?;
        for base in self.mapped.tiles(address, wide(size))? {
            let Some(mapping) = self.mapped.mappings.remove(&base) else { continue };
            let fresh = self.memory.remove(&base).is_some_and(|allocation| allocation.fresh);
            let contents = self.gpu.memory().unmap(base).ok_or(Error::INVALID_VALUE)?;
            if let Some(physical) = self.mapped.physical.get_mut(&mapping.handle) {
                physical.contents = Some((contents, fresh));
            }
            self.end_physical(mapping.handle);
        }
        Ok(())
    }

    /// `cuMemSetAccess` for one location.
    pub fn set_access(
        &mut self,
        address: u64,
        size: usize,
        (location, id): (u32, i32),
        flags: u32,
    ) -> Answer {
        self.ready()?;
        let tiles = self.mapped.tiles(address, wide(size))?;
        if location != LOCATION_DEVICE {
            self.report.unsupported("access of the host to mapped device memory");
            return Err(Error::NOT_SUPPORTED);
        }
        let (device, _) = self.device(id)?;
        let allowed = match flags {
            0 => false,
            3 => true,
            1 => {
                self.report.unsupported("mapped memory that a device may only read");
                return Err(Error::NOT_SUPPORTED);
            }
            _ => return Err(Error::INVALID_VALUE),
        };
        for base in tiles {
            let Some(mapping) = self.mapped.mappings.get_mut(&base) else { continue };
            if allowed {
                mapping.access.insert(device);
            } else {
                mapping.access.remove(&device);
            }
            self.gpu.memory().hide(base, mapping.access.is_empty());
        }
        Ok(())
    }

    /// `cuMemGetAccess`.
    pub fn access(&self, address: u64, (location, id): (u32, i32)) -> Answer<u64> {
        self.ready()?;
        let (_, mapping) = self.mapped.at(address).ok_or(Error::INVALID_VALUE)?;
        if location != LOCATION_DEVICE {
            return Ok(0);
        }
        let (device, _) = self.device(id)?;
        Ok(if mapping.access.contains(&device) { 3 } else { 0 })
    }

    /// `cuMemRetainAllocationHandle`.
    pub fn retain_physical(&mut self, address: u64) -> Answer<u64> {
        self.ready()?;
        let (_, mapping) = self.mapped.at(address).ok_or(Error::INVALID_VALUE)?;
        let handle = mapping.handle;
        let physical = self.mapped.physical.get_mut(&handle).ok_or(Error::INVALID_VALUE)?;
        physical.references = physical.references.checked_add(1).ok_or(Error::INVALID_VALUE)?;
        Ok(handle)
    }

    /// `cuMemGetAllocationPropertiesFromHandle`.
    pub fn physical_properties(&self, handle: u64) -> Answer<AllocationProp> {
        self.ready()?;
        self.mapped.physical.get(&handle).map(|physical| physical.properties).ok_or(Error::INVALID_VALUE)
    }
}
