//! Memory: device, pinned, managed and registered; copies and memsets.
//!
//! Device memory belongs to the software GPU's heap. Pinned and managed memory is host memory, lent to the heap at its own address,
//! so that the program and its kernels use the same pointer. The driver tracks memory that has never been written and passes this
//! to the checks.
#![expect(unsafe_code, reason = "the program's memory is lent and copied here, under the API's contract")]

use warpproof_check::{BufferRole, Role};
use warpproof_sim::memory::{Heap, HeapError};

use crate::abi::{Answer, Error};
use crate::driver::Driver;
use crate::host;
use crate::site::Site;

/// Number of freed allocations that reports can still name.
const REMEMBERED: usize = 4096;

/// Characters of a name that reports show.
const LONGEST_NAME: usize = 256;

/// Kind of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Device memory.
    Device,
    /// `cuMemAllocManaged`.
    Managed,
    /// `cuMemAllocHost`, `cuMemHostAlloc`.
    Host,
    /// `cuMemHostRegister`.
    Registered,
}

/// An allocation.
#[derive(Clone, Debug)]
pub struct Allocation {
    /// Owning context.
    pub context: u64,
    /// Its device.
    pub device: usize,
    /// Requested size in bytes.
    pub size: u64,
    /// Kind of memory.
    pub kind: Kind,
    /// Flags of the allocation.
    pub flags: u32,
    /// Unique ID, never reused.
    pub id: u64,
    /// Its pool, if any.
    pub pool: Option<u64>,
    /// Whether neither host nor kernels can have written to it.
    pub fresh: bool,
    /// Start of the lent range: page-aligned for registered memory.
    pub lent: u64,
    /// Whether the heap has a slice of the lent range.
    pub attached: bool,
    /// The name that the program gave it for reports.
    pub name: Option<String>,
    /// For memory of a graph's allocation node: whether it is allocated now. It is reserved as long as the node exists.
    pub live: Option<bool>,
    /// Where the program allocated it.
    pub site: Site,
}

/// A memory pool.
#[derive(Clone, Debug)]
pub struct Pool {
    /// Its device.
    pub device: usize,
    /// Attributes by number.
    pub attributes: [u64; 16],
    /// Bytes currently allocated from it.
    pub used: u64,
    /// High-water marks of reserved and used bytes since each was reset.
    pub most: [u64; 2],
}

impl Pool {
    /// A pool with CUDA's defaults: memory is reused in every way that is allowed (attributes 1 to 3).
    pub fn new(device: usize) -> Pool {
        let mut attributes = [0; 16];
        attributes[1..=3].fill(1);
        Pool { device, attributes, used: 0, most: [0; 2] }
    }

    /// Accounts for newly allocated bytes.
    pub fn allocated(&mut self, bytes: u64) {
        self.used = self.used.saturating_add(bytes);
        for most in &mut self.most {
            *most = self.used.max(*most);
        }
    }
}

/// Memory of one side of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Host memory.
    Host,
    /// Memory accessible by a device.
    Device,
    /// Determined by the address.
    Either,
}

/// One side of a copy.
#[derive(Clone, Copy, Debug)]
pub struct End {
    /// Its memory.
    pub side: Side,
    /// The first byte.
    pub address: u64,
    /// Bytes from row to row.
    pub pitch: u64,
    /// Bytes from slice to slice.
    pub slice: u64,
}

impl End {
    /// A side with a single row.
    pub fn line(side: Side, address: u64) -> End {
        End { side, address, pitch: 0, slice: 0 }
    }
}

/// A copy of rows and slices. Its creator promises that the host memory it refers to is valid until the copy is complete.
#[derive(Clone, Copy, Debug)]
pub struct Memcpy {
    /// Source.
    pub from: End,
    /// Destination.
    pub to: End,
    /// Bytes per row.
    pub width: usize,
    /// Rows.
    pub height: usize,
    /// Slices.
    pub depth: usize,
}

/// A memset of rows.
#[derive(Clone, Copy, Debug)]
pub struct Memset {
    /// The first byte.
    pub target: u64,
    /// Bytes from row to row.
    pub pitch: u64,
    /// The element.
    pub value: u32,
    /// Bytes per element: 1, 2 or 4.
    pub element: u32,
    /// Elements per row.
    pub width: usize,
    /// Rows.
    pub height: usize,
}

impl Memset {
    /// Whether its rows start at multiples of the element.
    pub fn is_aligned(&self) -> bool {
        let aligned = |number: u64| number.is_multiple_of(u64::from(self.element.max(1)));
        aligned(self.target) && (self.height <= 1 || aligned(self.pitch))
    }
}

/// A size as a 64-bit number.
pub(crate) fn wide(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

impl Driver {
    /// The allocation that contains an address.
    pub fn allocation(&self, address: u64) -> Option<(u64, &Allocation)> {
        let (base, allocation) = self.memory.range(..=address).next_back()?;
        (address - base < allocation.size.max(1)).then_some((*base, allocation))
    }

    pub(crate) fn note(
        &mut self,
        base: u64,
        context: u64,
        device: usize,
        size: u64,
        kind: Kind,
    ) -> &mut Allocation {
        let id = self.handle() >> 4;
        let fresh = kind == Kind::Device;
        let allocation = Allocation {
            context,
            device,
            size,
            kind,
            flags: 0,
            id,
            pool: None,
            fresh,
            lent: base,
            attached: false,
            name: None,
            live: None,
            site: Site::here(),
        };
        self.freed.reused(base, size);
        self.memory.entry(base).insert_entry(allocation).into_mut()
    }

    /// Whether a device has this many bytes left.
    pub(crate) fn room(&self, device: usize, size: u64) -> Answer {
        let visible = &self.devices[device];
        let fits = visible.used.checked_add(size).is_some_and(|used| used <= visible.memory());
        if fits { Ok(()) } else { Err(Error::OUT_OF_MEMORY) }
    }

    /// `cuMemAlloc`.
    pub fn allocate(&mut self, size: usize) -> Answer<u64> {
        self.allocate_by("device memory", size, Heap::allocate)
    }

    /// Memory for the texels of an array.
    pub fn allocate_texels(&mut self, size: usize) -> Answer<u64> {
        let base = self.allocate_by("array", size, Heap::allocate_array)?;
        self.name_memory(base, "array");
        Ok(base)
    }

    fn allocate_by(
        &mut self,
        name: &str,
        size: usize,
        allocate: fn(&mut Heap, &str, u64) -> Result<u64, HeapError>,
    ) -> Answer<u64> {
        let (device, context) = self.current()?;
        if size == 0 {
            return Err(Error::INVALID_VALUE);
        }
        let bytes = wide(size);
        self.room(device, bytes)?;
        if Vec::<u8>::new().try_reserve_exact(size).is_err() {
            return Err(Error::OUT_OF_MEMORY);
        }
        self.gpu.memory().forget(REMEMBERED);
        let base = allocate(&mut self.gpu.memory(), name, bytes).map_err(|error| refused(&error))?;
        self.devices[device].used += bytes;
        self.note(base, context, device, bytes, Kind::Device);
        Ok(base)
    }

    /// `cuMemAllocManaged`, `cuMemAllocHost`: host memory that devices can access.
    pub fn allocate_host(&mut self, size: usize, kind: Kind, flags: u32) -> Answer<u64> {
        let (device, context) = self.current()?;
        if size == 0 {
            return Err(Error::INVALID_VALUE);
        }
        let bytes = wide(size);
        if kind == Kind::Managed {
            self.room(device, bytes)?;
        }
        let base = host::allocate(size).ok_or(Error::OUT_OF_MEMORY)?;
        let name = if kind == Kind::Managed { "managed memory" } else { "pinned memory" };
        if let Err(error) = self.gpu.memory().lend(name, base, bytes) {
            // SAFETY: the heap did not accept it, so no slice of it exists.
            unsafe { host::free(base, size) };
            return Err(refused(&error));
        }
        self.note(base, context, device, bytes, kind).flags = flags;
        Ok(base)
    }

    /// Records a managed variable of a module, whose memory is attached now.
    pub(crate) fn note_managed(&mut self, base: u64, size: u64, owner: Option<u64>, device: usize) {
        let allocation = self.note(base, owner.unwrap_or(0), device, size, Kind::Managed);
        // `CU_MEM_ATTACH_GLOBAL`
        allocation.flags = 1;
        allocation.attached = true;
    }

    /// `cuMemHostRegister`: registers the pages that contain the range. The caller promises that they stay valid until
    /// unregistered.
    pub fn register(&mut self, address: u64, size: usize, flags: u32) -> Answer {
        let (device, context) = self.current()?;
        let page = wide(host::PAGE);
        let end = address
            .checked_add(wide(size))
            .filter(|_| size > 0 && address > 0)
            .ok_or(Error::INVALID_VALUE)?;
        let from = address / page * page;
        let length = end.next_multiple_of(page) - from;
        self.gpu
            .memory()
            .lend("registered memory", from, length)
            .map_err(|_| Error::HOST_MEMORY_ALREADY_REGISTERED)?;
        let allocation = self.note(address, context, device, wide(size), Kind::Registered);
        allocation.lent = from;
        allocation.flags = flags;
        Ok(())
    }

    /// Frees memory of the given kinds by its base address.
    pub fn free_memory(&mut self, base: u64, kinds: &[Kind]) -> Answer {
        let kind = self.memory.get(&base).map(|a| a.kind);
        // Managed variables live as long as their module, mappings until they are unmapped.
        let other = self.is_variable(base) || self.mapped.is_mapping(base);
        if kind.is_none_or(|kind| !kinds.contains(&kind)) || other {
            self.report_free(base, kinds);
            return Err(Error::INVALID_VALUE);
        }
        if kinds.contains(&Kind::Device) {
            // This free waits for all work.
            self.order.host_waits_for_all();
        }
        self.report_free_in_use(base);
        self.end_memory(base)
    }

    /// Frees memory of any kind. Memory of an allocation node stays reserved.
    pub fn end_memory(&mut self, base: u64) -> Answer {
        let allocation = self.memory.get_mut(&base).ok_or(Error::INVALID_VALUE)?;
        match allocation.live {
            None => self.release_memory(base),
            Some(false) => Err(Error::INVALID_VALUE),
            Some(true) => {
                allocation.live = Some(false);
                self.release_reserved();
                Ok(())
            }
        }
    }

    /// Reserves memory for an allocation node.
    pub fn reserve(&mut self, size: usize, kind: Kind) -> Answer<u64> {
        let base = match kind {
            Kind::Device => self.allocate(size)?,
            kind => self.allocate_host(size, kind, 1)?,
        };
        if let Some(allocation) = self.memory.get_mut(&base) {
            allocation.live = Some(false);
            let device = allocation.device;
            self.count_graph_memory(device);
        }
        Ok(base)
    }

    /// Allocates the memory that an allocation node reserved. Its contents are undefined again.
    pub fn allocate_reserved(&mut self, base: u64) -> Answer {
        let allocation = self.memory.get_mut(&base).ok_or(Error::INVALID_VALUE)?;
        allocation.live = Some(true);
        allocation.fresh = allocation.kind == Kind::Device;
        let device = allocation.device;
        self.count_graph_memory(device);
        Ok(())
    }

    /// Bytes of a device that graphs use and reserve now.
    pub fn graph_memory(&self, device: usize) -> [u64; 2] {
        let of = |wanted: &dyn Fn(bool) -> bool| {
            let mine = self.memory.values().filter(|a| a.device == device && a.live.is_some_and(wanted));
            mine.map(|a| a.size).sum()
        };
        [of(&|live| live), of(&|_| true)]
    }

    fn count_graph_memory(&mut self, device: usize) {
        let now = self.graph_memory(device);
        for (most, now) in self.devices[device].graph_most.iter_mut().zip(now) {
            *most = now.max(*most);
        }
    }

    /// Frees memory of any kind.
    pub fn release_memory(&mut self, base: u64) -> Answer {
        let Some(allocation) = self.memory.remove(&base) else { return Err(Error::INVALID_VALUE) };
        self.freed.add(base, &allocation, Site::here());
        self.advice.forget(&(base..base.saturating_add(allocation.size)));
        self.unguard(base, allocation.size);
        self.gpu.memory().free(allocation.lent).map_err(|_| Error::INVALID_VALUE)?;
        match allocation.kind {
            Kind::Device => {
                let device = &mut self.devices[allocation.device];
                device.used = device.used.saturating_sub(allocation.size);
                if let Some(pool) = allocation.pool.and_then(|pool| self.pools.get_mut(&pool)) {
                    pool.used = pool.used.saturating_sub(allocation.size);
                }
            }
            Kind::Managed | Kind::Host => {
                let size = usize::try_from(allocation.size).unwrap_or(0);
                // SAFETY: `allocate_host` created it with this size, and the heap has just dropped its slice.
                unsafe { host::free(base, size) };
            }
            Kind::Registered => {}
        }
        Ok(())
    }

    /// Attaches host memory to the heap for the duration of a launch, copy or memset. The slices end when no one needs them,
    /// because the program uses its memory freely in between. Returns whether there is any host memory.
    pub fn attach(&mut self) -> bool {
        let page = wide(host::PAGE);
        let mut any = false;
        for (base, allocation) in self.memory.iter_mut().filter(|(_, a)| a.kind != Kind::Device) {
            any = true;
            // Its slice exists: another launch needs it.
            if std::mem::replace(&mut allocation.attached, true) {
                continue;
            }
            let from = allocation.lent;
            let length = match allocation.kind {
                Kind::Registered => (base + allocation.size).next_multiple_of(page) - from,
                _ => allocation.size,
            };
            let Ok(length) = usize::try_from(length) else { continue };
            // SAFETY: it is an allocation of `allocate_host`, or pages that the program promised when it registered them; `detach`
            // ends the slice before the last call that needs it ends, and `release_memory` takes it from the heap before it frees.
            let lent = unsafe { host::lend(from, length) };
            // This cannot fail: the length is the one it was lent with.
            let _ = self.gpu.memory().attach(from, lent);
        }
        self.borrowers += usize::from(any);
        any
    }

    /// Detaches host memory from the heap, unless others need it.
    pub fn detach(&mut self) {
        self.borrowers = self.borrowers.saturating_sub(1);
        if self.borrowers == 0 {
            self.gpu.memory().detach();
            self.memory.values_mut().for_each(|allocation| allocation.attached = false);
        }
    }

    /// Whether one side of a copy is accessed through the heap.
    fn on_device(&self, end: End) -> bool {
        match end.side {
            Side::Host => false,
            Side::Device => true,
            // Host memory is accessed directly, lent or not.
            Side::Either => self.gpu_holds(end.address),
        }
    }

    fn gpu_holds(&self, address: u64) -> bool {
        // Variables of modules are in the heap but not in an allocation, except managed ones.
        self.allocation(address).map_or_else(|| self.is_variable(address), |(_, a)| a.kind == Kind::Device)
    }

    /// Performs a copy. An unknown address or a buffer that is too short is an invalid value; the affected row is not copied.
    pub fn copy(&mut self, copy: &Memcpy) -> Answer<u64> {
        let (from, to) = (self.on_device(copy.from), self.on_device(copy.to));
        // Contiguous rows are copied as one row.
        let width = wide(copy.width);
        let dense = |end: End| end.pitch == width || copy.height == 1;
        let (rows, row) = if dense(copy.from) && dense(copy.to) {
            (1, copy.width.checked_mul(copy.height).ok_or(Error::INVALID_VALUE)?)
        } else {
            (copy.height, copy.width)
        };
        if row == 0 || rows == 0 || copy.depth == 0 {
            return Ok(0);
        }
        for z in 0..wide(copy.depth) {
            for y in 0..wide(rows) {
                let at = |end: End| {
                    let slice = z.checked_mul(end.slice)?;
                    end.address.checked_add(slice)?.checked_add(y.checked_mul(end.pitch)?)
                };
                let (source, target) = (at(copy.from), at(copy.to));
                let (source, target) = source.zip(target).ok_or(Error::INVALID_VALUE)?;
                if to {
                    // Checked before the program's memory is read: a size that is wrong here is also wrong for the source.
                    self.gpu.heap().locate_across(target, wide(row)).map_err(|_| Error::INVALID_VALUE)?;
                }
                let bytes = if from {
                    self.gpu.memory().read_across(source, row).map_err(|_| Error::INVALID_VALUE)?
                } else if source == 0 {
                    return Err(Error::INVALID_VALUE);
                } else {
                    // SAFETY: the creator of the copy promised that its host memory is valid.
                    unsafe { host::read(source, row) }.ok_or(Error::OUT_OF_MEMORY)?
                };
                if to {
                    self.gpu.memory().write_across(target, &bytes).map_err(|_| Error::INVALID_VALUE)?;
                    self.written(target, wide(row));
                } else if target == 0 {
                    return Err(Error::INVALID_VALUE);
                } else {
                    // SAFETY: as above.
                    unsafe { host::write(target, &bytes) };
                }
            }
        }
        Ok(width.saturating_mul(wide(copy.height)).saturating_mul(wide(copy.depth)))
    }

    /// Performs a memset.
    pub fn fill(&mut self, set: &Memset) -> Answer<u64> {
        let element = usize::try_from(set.element).unwrap_or(1);
        let value = set.value.to_le_bytes();
        let pattern = value.get(..element).ok_or(Error::INVALID_VALUE)?;
        if element == 0 || !set.is_aligned() {
            return Err(Error::INVALID_VALUE);
        }
        let bytes = set.width.checked_mul(element).ok_or(Error::INVALID_VALUE)?;
        if bytes == 0 || set.height == 0 {
            return Ok(0);
        }
        // Checked before the buffer is allocated.
        self.gpu.heap().locate_across(set.target, wide(bytes)).map_err(|_| Error::INVALID_VALUE)?;
        let row = pattern.repeat(set.width);
        for y in 0..wide(set.height) {
            let target = y.checked_mul(set.pitch).and_then(|skip| set.target.checked_add(skip));
            let target = target.ok_or(Error::INVALID_VALUE)?;
            self.gpu.memory().write_across(target, &row).map_err(|_| Error::INVALID_VALUE)?;
            self.written(target, wide(row.len()));
        }
        Ok(wide(bytes).saturating_mul(wide(set.height)))
    }

    /// Marks the allocations of some bytes as written: several, if they are mappings that follow each other.
    fn written(&mut self, address: u64, size: u64) {
        let end = address.saturating_add(size.max(1));
        for (base, allocation) in self.memory.range_mut(..end).rev() {
            if base.saturating_add(allocation.size.max(1)) <= address {
                break;
            }
            allocation.fresh = false;
        }
    }

    /// Names the allocation at an address in reports. Returns whether there is one.
    pub fn name_memory(&mut self, address: u64, name: &str) -> bool {
        let name: String = name.chars().take(LONGEST_NAME).collect();
        let named = self.gpu.memory().name(address, &name);
        if let Some((_, allocation)) = self.memory.range_mut(..=address).next_back().filter(|_| named) {
            allocation.name = Some(name);
        }
        named
    }

    /// Roles of allocations for the checks: never-written memory is uninitialized.
    pub fn roles(&self) -> Vec<BufferRole> {
        let fresh = self.memory.iter().filter(|(_, a)| a.fresh);
        fresh
            .map(|(base, a)| BufferRole {
                name: a.name.clone().unwrap_or_else(|| "device memory".to_owned()),
                address: *base,
                element: 1,
                extents: vec![a.size],
                role: Role::InOut,
                initialized: false,
            })
            .collect()
    }

    /// Marks all memory as possibly written, after a kernel ran.
    pub fn touched(&mut self) {
        for allocation in self.memory.values_mut() {
            allocation.fresh = false;
        }
    }
}

/// Allocates host memory for a managed variable and lends it to the heap, attached: it gets its initial value next.
pub(crate) fn lend_managed(heap: &mut Heap, name: &str, bytes: u64) -> Result<u64, HeapError> {
    let full = HeapError::OutOfMemory { asked: bytes, used: heap.used(), limit: heap.used() };
    let size = usize::try_from(bytes).map_err(|_| full.clone())?;
    let base = host::allocate(size).ok_or(full)?;
    if let Err(error) = heap.lend(name, base, bytes) {
        // SAFETY: the heap did not accept it, so no slice of it exists.
        unsafe { host::free(base, size) };
        return Err(error);
    }
    // SAFETY: it was just allocated with this size; `detach` ends the slice, and `release_memory` takes it from the heap before
    // it frees the memory.
    let lent = unsafe { host::lend(base, size) };
    // This cannot fail: the length is the one it was lent with.
    let _ = heap.attach(base, lent);
    Ok(base)
}

fn refused(error: &HeapError) -> Error {
    match error {
        HeapError::OutOfMemory { .. } | HeapError::TooMany => Error::OUT_OF_MEMORY,
        _ => Error::INVALID_VALUE,
    }
}
