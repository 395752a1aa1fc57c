//! Device memory: allocations with bounds.

use super::image::Images;
use super::{ARRAY_BASE, Fault, FaultKind, HEAP_BASE, Space};
use std::ops::{Deref, DerefMut};

/// Distance between allocations, so that a small overrun never reaches another allocation.
const GUARD: u64 = 4096;
/// Alignment of every allocation: at least the 256 bytes CUDA promises, and a whole number of overlay pages.
const ALIGN: u64 = 4096;
/// The maximum number of allocations ever made: each is remembered after it was freed, and a kernel may call `malloc`
/// endlessly.
const MOST: usize = 1 << 20;

/// Bytes that the heap owns or that the host lent to it.
#[derive(Debug)]
pub enum Bytes {
    /// Owned by the heap.
    Owned(Vec<u8>),
    /// Host memory that the device accesses at the same address, while it is attached.
    Lent(&'static mut [u8]),
    /// Host memory that is detached: the host uses it.
    Away,
}

impl Deref for Bytes {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            Bytes::Owned(bytes) => bytes,
            Bytes::Lent(bytes) => bytes,
            Bytes::Away => &[],
        }
    }
}

impl DerefMut for Bytes {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        match self {
            Bytes::Owned(bytes) => bytes,
            Bytes::Lent(bytes) => bytes,
            Bytes::Away => &mut [],
        }
    }
}

/// A copy is owned by the heap.
impl Clone for Bytes {
    fn clone(&self) -> Bytes {
        match self {
            Bytes::Away => Bytes::Away,
            bytes => Bytes::Owned(bytes.to_vec()),
        }
    }
}

/// One allocation of device memory.
#[derive(Clone, Debug)]
pub struct Allocation {
    /// The first address.
    pub base: u64,
    /// The name that the user or the module gave it.
    pub name: String,
    /// The contents; empty after a free.
    pub bytes: Bytes,
    size: u64,
    freed: bool,
}

impl Allocation {
    /// Bytes asked for.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Whether it was freed.
    pub fn is_freed(&self) -> bool {
        self.freed
    }
}

/// All device memory.
#[derive(Clone, Debug)]
pub struct Heap {
    allocations: Vec<Allocation>,
    next: u64,
    /// Where the next array goes.
    next_array: u64,
    used: u64,
    limit: u64,
    pub(super) images: Images,
}

/// Device memory that cannot be allocated, freed, written or read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HeapError {
    /// The device's memory limit would be exceeded.
    OutOfMemory {
        /// Bytes requested.
        asked: u64,
        /// Bytes in use.
        used: u64,
        /// The limit.
        limit: u64,
    },
    /// More allocations than the heap can remember.
    TooMany,
    /// Not the start of a live allocation.
    NotAllocated(u64),
    /// Memory to be lent is already in use.
    Overlap(u64),
    /// A buffer that was freed.
    Freed(u64),
    /// More values than the buffer holds.
    TooLong {
        /// Values to be written.
        given: usize,
        /// Values that the buffer holds.
        room: usize,
    },
}

impl HeapError {
    /// The error for a buffer that the host cannot access.
    pub(crate) fn of_fault(fault: Fault) -> HeapError {
        match fault.kind {
            FaultKind::Freed(_) => HeapError::Freed(fault.address),
            _ => HeapError::NotAllocated(fault.address),
        }
    }
}

impl std::fmt::Display for HeapError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            HeapError::OutOfMemory { asked, used, limit } => {
                write!(f, "out of device memory: {asked} bytes requested with {used} of {limit} in use")
            }
            HeapError::TooMany => write!(f, "more than {MOST} allocations were made"),
            HeapError::NotAllocated(address) => {
                write!(f, "{address:#x} is not the start of a live allocation")
            }
            HeapError::Overlap(address) => write!(f, "memory at {address:#x} is already in use"),
            HeapError::Freed(address) => write!(f, "the buffer at {address:#x} was freed"),
            HeapError::TooLong { given, room } => {
                write!(f, "{given} values do not fit in a buffer of {room}")
            }
        }
    }
}

impl std::error::Error for HeapError {}

impl Heap {
    /// An empty heap that will hold at most `limit` bytes.
    pub fn new(limit: u64) -> Heap {
        Heap::at(HEAP_BASE, limit)
    }

    /// An empty heap whose addresses begin at `base`.
    pub fn at(base: u64, limit: u64) -> Heap {
        Heap {
            allocations: Vec::new(),
            next: base.next_multiple_of(ALIGN),
            next_array: ARRAY_BASE,
            used: 0,
            limit,
            images: Images::default(),
        }
    }

    /// Allocates `size` zeroed bytes and returns their address.
    pub fn allocate(&mut self, name: &str, size: u64) -> Result<u64, HeapError> {
        let base = self.next;
        self.insert(name, base, size)?;
        self.next = (base + size + GUARD).next_multiple_of(ALIGN);
        Ok(base)
    }

    /// As [`allocate`](Self::allocate), for the texels of an array: at an address that no pointer of the program is near.
    pub fn allocate_array(&mut self, name: &str, size: u64) -> Result<u64, HeapError> {
        let base = self.next_array;
        self.insert(name, base, size)?;
        self.next_array = (base + size + GUARD).next_multiple_of(ALIGN);
        Ok(base)
    }

    fn insert(&mut self, name: &str, base: u64, size: u64) -> Result<(), HeapError> {
        let fits = self.used.checked_add(size).is_some_and(|total| total <= self.limit);
        let (Ok(length), true) = (usize::try_from(size), fits) else {
            return Err(HeapError::OutOfMemory { asked: size, used: self.used, limit: self.limit });
        };
        if self.allocations.len() >= MOST {
            return Err(HeapError::TooMany);
        }
        self.used += size;
        // The end of the heap's own memory, ignoring lent memory after it.
        let place = self.allocations.partition_point(|a| a.base < base);
        let bytes = Bytes::Owned(vec![0; length]);
        self.allocations.insert(place, Allocation { base, name: name.to_owned(), bytes, size, freed: false });
        Ok(())
    }

    /// Gives the allocation that contains an address a name for reports. Returns whether there is one.
    pub fn name(&mut self, address: u64, name: &str) -> bool {
        let found = self.locate(address, 0).ok();
        if let Some(allocation) = found.and_then(|i| self.allocations.get_mut(i)) {
            name.clone_into(&mut allocation.name);
        }
        found.is_some()
    }

    /// Makes host memory available to the device at `base`, whenever it is attached ([`Heap::attach`]); freeing it ends
    /// the loan. Freed allocations at these addresses are forgotten.
    pub fn lend(&mut self, name: &str, base: u64, size: u64) -> Result<(), HeapError> {
        let end = base.checked_add(size).ok_or(HeapError::NotAllocated(base))?;
        let overlaps = |a: &Allocation| a.base < end && base < a.base.saturating_add(a.size);
        if self.allocations.iter().any(|a| !a.freed && overlaps(a)) {
            return Err(HeapError::Overlap(base));
        }
        self.allocations.retain(|a| !(a.freed && overlaps(a)));
        if self.allocations.len() >= MOST {
            return Err(HeapError::TooMany);
        }
        let place = self.allocations.partition_point(|a| a.base < base);
        let bytes = Bytes::Away;
        self.allocations.insert(place, Allocation { base, name: name.to_owned(), bytes, size, freed: false });
        Ok(())
    }

    /// Attaches lent memory until [`Heap::detach`]: no other code may access it meanwhile.
    pub fn attach(&mut self, base: u64, bytes: &'static mut [u8]) -> Result<(), HeapError> {
        let known = self.find(base).and_then(|i| self.allocations.get_mut(i));
        let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        let fits = |a: &&mut Allocation| {
            a.base == base && !a.freed && !matches!(a.bytes, Bytes::Owned(_)) && a.size == length
        };
        known.filter(fits).ok_or(HeapError::NotAllocated(base))?.bytes = Bytes::Lent(bytes);
        Ok(())
    }

    /// Detaches all lent memory, so that the host can use it.
    pub fn detach(&mut self) {
        for allocation in self.allocations.iter_mut().filter(|a| matches!(a.bytes, Bytes::Lent(_))) {
            allocation.bytes = Bytes::Away;
        }
    }

    /// Forgets all freed allocations except the last `keep`: remembering them improves reports and takes memory.
    pub fn forget(&mut self, keep: usize) {
        let freed = self.allocations.iter().filter(|a| a.freed).count();
        let mut excess = freed.saturating_sub(keep);
        self.allocations.retain(|a| {
            let drop = a.freed && excess > 0;
            excess -= usize::from(drop);
            !drop
        });
    }

    /// Restores earlier contents and allocations; lent memory stays lent.
    pub fn restore(&mut self, before: &Heap) {
        let mut lent = Vec::new();
        for allocation in self.allocations.drain(..) {
            if let Bytes::Lent(bytes) = allocation.bytes {
                lent.push((allocation.base, bytes));
            }
        }
        *self = before.clone();
        for (base, bytes) in lent {
            let known = self.allocations.iter_mut().find(|a| a.base == base && !a.freed);
            if let Some(allocation) = known.filter(|a| a.bytes.len() == bytes.len()) {
                bytes.copy_from_slice(&allocation.bytes);
                allocation.bytes = Bytes::Lent(bytes);
            }
        }
    }

    /// Frees the allocation that starts at `address`; its address range is never used again.
    pub fn free(&mut self, address: u64) -> Result<(), HeapError> {
        let found =
            self.find(address).filter(|&i| self.allocations[i].base == address && !self.allocations[i].freed);
        let index = found.ok_or(HeapError::NotAllocated(address))?;
        let allocation = &mut self.allocations[index];
        allocation.freed = true;
        let bytes = std::mem::replace(&mut allocation.bytes, Bytes::Owned(Vec::new()));
        if matches!(bytes, Bytes::Owned(_)) {
            self.used -= allocation.size;
        }
        Ok(())
    }

    /// Bytes in use.
    pub fn used(&self) -> u64 {
        self.used
    }

    /// All allocations, in address order.
    pub fn allocations(&self) -> &[Allocation] {
        &self.allocations
    }

    /// The allocation with this index.
    pub fn allocation(&self, index: usize) -> &Allocation {
        &self.allocations[index]
    }

    pub(super) fn bytes_mut(&mut self, index: usize) -> &mut [u8] {
        &mut self.allocations[index].bytes
    }

    /// The last allocation that starts at or before `address`.
    fn find(&self, address: u64) -> Option<usize> {
        self.allocations.partition_point(|a| a.base <= address).checked_sub(1)
    }

    /// The live allocation that contains all of `address .. address + length`.
    #[inline]
    pub fn locate(&self, address: u64, length: u64) -> Result<usize, Fault> {
        if let Some(i) = self.find(address) {
            let a = &self.allocations[i];
            if !a.freed && address - a.base <= a.size && length <= a.size - (address - a.base) {
                return Ok(i);
            }
        }
        Err(self.explain(address))
    }

    #[cold]
    fn explain(&self, address: u64) -> Fault {
        let before = self.find(address);
        let kind = match before {
            // It may also be before the first allocation: an address below zero wraps around.
            _ if !(GUARD..=u64::MAX - GUARD).contains(&address) => FaultKind::Null,
            Some(i)
                if self.allocations[i].freed
                    && address - self.allocations[i].base < self.allocations[i].size =>
            {
                FaultKind::Freed(i)
            }
            _ => FaultKind::OutOfBounds { nearest: self.nearest(address, before), size: None },
        };
        Fault { space: Space::Global, address, kind }
    }

    /// The nearest allocation and the distance: past its end if positive, before its start if negative.
    fn nearest(&self, address: u64, before: Option<usize>) -> Option<(usize, i64)> {
        let past = before.map(|i| {
            let a = &self.allocations[i];
            (i, i64::try_from(address - a.base).unwrap_or(i64::MAX).saturating_sub_unsigned(a.size))
        });
        if address.cast_signed() < 0 {
            // Wrapped around below zero: before all allocations.
            return self.allocations.first().map(|_| (0, i64::MIN));
        }
        let next = before.map_or(0, |i| i + 1);
        let ahead = self
            .allocations
            .get(next)
            .map(|a| (next, i64::try_from(a.base - address).map_or(i64::MIN, i64::wrapping_neg)));
        [past, ahead].into_iter().flatten().min_by_key(|(_, distance)| distance.unsigned_abs())
    }

    /// Reads bytes on behalf of the host.
    pub fn read(&self, address: u64, length: usize) -> Result<&[u8], Fault> {
        let wide = u64::try_from(length).unwrap_or(u64::MAX);
        let i = self.locate(address, wide)?;
        let a = &self.allocations[i];
        let start = usize::try_from(address - a.base).unwrap_or(usize::MAX);
        a.bytes.get(start..start.saturating_add(length)).ok_or_else(|| self.explain(address))
    }

    /// Writes bytes on behalf of the host.
    pub fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), Fault> {
        let wide = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        let i = self.locate(address, wide)?;
        let fault = self.explain(address);
        let a = &mut self.allocations[i];
        let start = usize::try_from(address - a.base).unwrap_or(usize::MAX);
        a.bytes.get_mut(start..start.saturating_add(bytes.len())).ok_or(fault)?.copy_from_slice(bytes);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_allocation_can_be_named_later() {
        let mut heap = Heap::new(1 << 20);
        let base = heap.allocate("device memory", 16).unwrap();
        assert!(heap.name(base + 8, "x"));
        assert_eq!(heap.allocation(heap.locate(base, 16).unwrap()).name, "x");
        assert!(!heap.name(base - 8, "y"));
    }

    #[test]
    fn faults_name_the_nearest_allocation() {
        let mut heap = Heap::new(1 << 20);
        let a = heap.allocate("a", 100).unwrap();
        let b = heap.allocate("b", 100).unwrap();
        assert_eq!(heap.locate(a + 96, 4), Ok(0));
        let past = heap.locate(a + 98, 4).unwrap_err().kind;
        assert_eq!(past, FaultKind::OutOfBounds { nearest: Some((0, -2)), size: None });
        let before = heap.locate(b - 4, 4).unwrap_err().kind;
        assert_eq!(before, FaultKind::OutOfBounds { nearest: Some((1, -4)), size: None });
        assert_eq!(heap.locate(8, 4).unwrap_err().kind, FaultKind::Null);
        heap.free(a).unwrap();
        assert_eq!(heap.locate(a, 4).unwrap_err().kind, FaultKind::Freed(0));
        assert_eq!(heap.free(a), Err(HeapError::NotAllocated(a)));
        assert!(matches!(heap.allocate("c", 1 << 21), Err(HeapError::OutOfMemory { .. })));
        assert!(matches!(heap.allocate("d", u64::MAX), Err(HeapError::OutOfMemory { .. })));
    }

    #[test]
    fn lent_memory_is_reached_at_its_own_address_and_stays_lent() {
        let mut heap = Heap::at(0x1000_0000, 1 << 20);
        let own = heap.allocate("own", 8).unwrap();
        heap.lend("lent", 0x7000_0000, 64).unwrap();
        assert!(heap.read(0x7000_0004, 1).is_err(), "it is detached");
        assert!(heap.attach(0x7000_0000, Box::leak(Box::new([1u8; 63]))).is_err());
        assert!(heap.attach(own, Box::leak(Box::new([1u8; 8]))).is_err());
        heap.attach(0x7000_0000, Box::leak(Box::new([1u8; 64]))).unwrap();
        let behind = heap.allocate("more", 8).unwrap();
        assert!(own < behind && behind < 0x7000_0000);
        assert_eq!(heap.lend("again", 0x7000_0020, 8), Err(HeapError::Overlap(0x7000_0020)));
        let before = heap.clone();
        heap.write(0x7000_0004, &[9]).unwrap();
        heap.write(own, &[7]).unwrap();
        heap.restore(&before);
        assert_eq!(
            (heap.read(0x7000_0004, 1).unwrap(), heap.read(own, 1).unwrap()),
            (&[1u8][..], &[0u8][..])
        );
        assert!(heap.allocations().iter().any(|a| matches!(a.bytes, Bytes::Lent(_))));
        heap.detach();
        assert!(heap.read(0x7000_0004, 1).is_err() && heap.read(own, 1).is_ok());
        heap.free(0x7000_0000).unwrap();
        heap.lend("anew", 0x7000_0000, 8).unwrap();
        heap.attach(0x7000_0000, Box::leak(Box::new([3u8; 8]))).unwrap();
        assert_eq!(heap.read(0x7000_0000, 1).unwrap(), [3]);
        heap.free(own).unwrap();
        heap.forget(0);
        assert!(heap.allocations().iter().all(|a| !a.is_freed()));
    }
}
