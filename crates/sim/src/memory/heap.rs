//! Device memory: allocations with bounds.

use super::earlier::Dependence;
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
    state: State,
    /// Whether it is mapped into a reserved range, so that it may touch the next allocation.
    mapped: bool,
}

/// Whether an allocation can be accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It can.
    Live,
    /// It exists, but the device has no access to it.
    Hidden,
    /// It was freed.
    Freed,
}

impl Allocation {
    /// Bytes asked for.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Whether it was freed.
    pub fn is_freed(&self) -> bool {
        self.state == State::Freed
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
    /// Reserved ranges, first address and size, in the order of their addresses.
    reserved: Vec<(u64, u64)>,
    /// How the launch that runs depends on others; nothing between launches.
    pub(crate) dependence: Dependence,
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
            reserved: Vec::new(),
            dependence: Dependence::default(),
        }
    }

    /// Allocates `size` zeroed bytes and returns their address.
    pub fn allocate(&mut self, name: &str, size: u64) -> Result<u64, HeapError> {
        let base = self.next;
        self.place(name, base, size)?;
        self.next = (base + size + GUARD).next_multiple_of(ALIGN);
        Ok(base)
    }

    /// As [`allocate`](Self::allocate), for the texels of an array: at an address that no pointer of the program is near.
    pub fn allocate_array(&mut self, name: &str, size: u64) -> Result<u64, HeapError> {
        let base = self.next_array;
        self.place(name, base, size)?;
        self.next_array = (base + size + GUARD).next_multiple_of(ALIGN);
        Ok(base)
    }

    /// Adds an allocation of `size` zeroed bytes.
    fn place(&mut self, name: &str, base: u64, size: u64) -> Result<(), HeapError> {
        let fits = self.used.checked_add(size).is_some_and(|total| total <= self.limit);
        let (Ok(length), true) = (usize::try_from(size), fits) else {
            return Err(HeapError::OutOfMemory { asked: size, used: self.used, limit: self.limit });
        };
        if self.allocations.len() >= MOST {
            return Err(HeapError::TooMany);
        }
        self.used += size;
        self.insert(name, base, Bytes::Owned(vec![0; length]), size);
        Ok(())
    }

    /// Adds an allocation in the order of addresses.
    fn insert(&mut self, name: &str, base: u64, bytes: Bytes, size: u64) -> &mut Allocation {
        let place = self.allocations.partition_point(|a| a.base < base);
        let (name, state) = (name.to_owned(), State::Live);
        self.allocations.insert(place, Allocation { base, name, bytes, size, state, mapped: false });
        &mut self.allocations[place]
    }

    /// Reserves addresses without memory, below `highest`. An access to them is a fault until memory is mapped there.
    pub fn reserve(&mut self, size: u64, alignment: u64, highest: u64) -> Result<u64, HeapError> {
        let full = HeapError::OutOfMemory { asked: size, used: self.used, limit: self.limit };
        let base = self.next.checked_next_multiple_of(alignment.max(ALIGN)).ok_or(full.clone())?;
        let end = base.checked_add(size).filter(|end| *end <= highest).ok_or(full)?;
        if self.reserved.len() >= MOST {
            return Err(HeapError::TooMany);
        }
        self.next = (end + GUARD).next_multiple_of(ALIGN);
        self.reserved.push((base, size));
        Ok(base)
    }

    /// Ends the reservation at this first address.
    pub fn unreserve(&mut self, base: u64) {
        self.reserved.retain(|(other, _)| *other != base);
    }

    /// Maps memory with contents into a reserved range. Returns the contents if they cannot be mapped.
    pub fn map(&mut self, name: &str, base: u64, contents: Vec<u8>) -> Result<(), (HeapError, Vec<u8>)> {
        let size = u64::try_from(contents.len()).unwrap_or(u64::MAX);
        let end = base.saturating_add(size);
        let error = if !self.reserved.iter().any(|(from, length)| *from <= base && end <= from + length) {
            Some(HeapError::NotAllocated(base))
        } else if self.allocations.iter().any(|a| a.base < end && base < a.base.saturating_add(a.size)) {
            Some(HeapError::Overlap(base))
        } else {
            (self.allocations.len() >= MOST).then_some(HeapError::TooMany)
        };
        if let Some(error) = error {
            return Err((error, contents));
        }
        self.used = self.used.saturating_add(size);
        self.insert(name, base, Bytes::Owned(contents), size).mapped = true;
        Ok(())
    }

    /// Ends the mapping at this first address and returns its contents.
    pub fn unmap(&mut self, base: u64) -> Option<Vec<u8>> {
        let index =
            self.find(base).filter(|i| self.allocations[*i].base == base && self.allocations[*i].mapped)?;
        let allocation = self.allocations.remove(index);
        self.used = self.used.saturating_sub(allocation.size);
        match allocation.bytes {
            Bytes::Owned(bytes) => Some(bytes),
            Bytes::Lent(_) | Bytes::Away => None,
        }
    }

    /// Sets whether the device has no access to the allocation at this first address.
    pub fn hide(&mut self, base: u64, hidden: bool) {
        let found = self.find(base).and_then(|i| self.allocations.get_mut(i));
        if let Some(allocation) = found.filter(|a| a.base == base && !a.is_freed()) {
            allocation.state = if hidden { State::Hidden } else { State::Live };
        }
    }

    /// The bytes from `address` up to the end of its allocation, at most `length`; all of them, unless the allocation is mapped and
    /// the range may continue in the next one.
    fn stretch(&self, address: u64, length: u64) -> u64 {
        let found = self.find(address).map(|i| &self.allocations[i]);
        match found.filter(|a| a.mapped && address - a.base < a.size) {
            Some(allocation) => length.min(allocation.size - (address - allocation.base)),
            None => length,
        }
    }

    /// As [`read`](Self::read), also across mappings that follow each other.
    pub fn read_across(&self, address: u64, length: usize) -> Result<Vec<u8>, Fault> {
        let mut bytes = Vec::new();
        let mut at = address;
        while bytes.len() < length {
            let left = u64::try_from(length - bytes.len()).unwrap_or(u64::MAX);
            let piece = usize::try_from(self.stretch(at, left)).unwrap_or(usize::MAX);
            bytes.extend_from_slice(self.read(at, piece)?);
            at = at.saturating_add(u64::try_from(piece).unwrap_or(u64::MAX));
        }
        Ok(bytes)
    }

    /// As [`write`](Self::write), also across mappings that follow each other. Writes nothing if a part is not mapped.
    pub fn write_across(&mut self, address: u64, bytes: &[u8]) -> Result<(), Fault> {
        self.locate_across(address, u64::try_from(bytes.len()).unwrap_or(u64::MAX))?;
        let (mut at, mut rest) = (address, bytes);
        while !rest.is_empty() {
            let left = u64::try_from(rest.len()).unwrap_or(u64::MAX);
            let piece = usize::try_from(self.stretch(at, left)).unwrap_or(usize::MAX);
            let (now, later) = rest.split_at(piece.min(rest.len()));
            self.write(at, now)?;
            at = at.saturating_add(u64::try_from(now.len()).unwrap_or(u64::MAX));
            rest = later;
        }
        Ok(())
    }

    /// Whether all of `address .. address + length` can be accessed, also across mappings that follow each other.
    pub fn locate_across(&self, address: u64, length: u64) -> Result<(), Fault> {
        let (mut at, mut left) = (address, length);
        loop {
            let piece = self.stretch(at, left);
            self.locate(at, piece)?;
            left -= piece;
            if left == 0 {
                return Ok(());
            }
            at = at.saturating_add(piece);
        }
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
        if self.allocations.iter().any(|a| !a.is_freed() && overlaps(a)) {
            return Err(HeapError::Overlap(base));
        }
        self.allocations.retain(|a| !(a.is_freed() && overlaps(a)));
        if self.allocations.len() >= MOST {
            return Err(HeapError::TooMany);
        }
        self.insert(name, base, Bytes::Away, size);
        Ok(())
    }

    /// Attaches lent memory until [`Heap::detach`]: no other code may access it meanwhile.
    pub fn attach(&mut self, base: u64, bytes: &'static mut [u8]) -> Result<(), HeapError> {
        let known = self.find(base).and_then(|i| self.allocations.get_mut(i));
        let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        let fits = |a: &&mut Allocation| {
            a.base == base && !a.is_freed() && !matches!(a.bytes, Bytes::Owned(_)) && a.size == length
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
        let freed = self.allocations.iter().filter(|a| a.is_freed()).count();
        let mut excess = freed.saturating_sub(keep);
        self.allocations.retain(|a| {
            let drop = a.is_freed() && excess > 0;
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
            let known = self.allocations.iter_mut().find(|a| a.base == base && !a.is_freed());
            if let Some(allocation) = known.filter(|a| a.bytes.len() == bytes.len()) {
                bytes.copy_from_slice(&allocation.bytes);
                allocation.bytes = Bytes::Lent(bytes);
            }
        }
    }

    /// Frees the allocation that starts at `address`; its address range is never used again.
    pub fn free(&mut self, address: u64) -> Result<(), HeapError> {
        let found = self.find(address).filter(|&i| {
            let a = &self.allocations[i];
            a.base == address && !a.is_freed() && !a.mapped
        });
        let index = found.ok_or(HeapError::NotAllocated(address))?;
        let allocation = &mut self.allocations[index];
        allocation.state = State::Freed;
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

    /// The bytes of an allocation, for a store of a launch to `range` of them.
    #[inline]
    pub(super) fn bytes_mut(&mut self, index: usize, range: std::ops::Range<usize>) -> &mut [u8] {
        let allocation = &mut self.allocations[index];
        if self.dependence.is_active() {
            let address = allocation.base.saturating_add(u64::try_from(range.start).unwrap_or(u64::MAX));
            self.dependence.overwrite(address, allocation.bytes.get(range.clone()).unwrap_or_default());
        }
        allocation.bytes.get_mut(range).unwrap_or_default()
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
            if a.state == State::Live && address - a.base <= a.size && length <= a.size - (address - a.base) {
                return Ok(i);
            }
        }
        Err(self.explain(address))
    }

    #[cold]
    fn explain(&self, address: u64) -> Fault {
        let before = self.find(address);
        let outside = || FaultKind::OutOfBounds { nearest: self.nearest(address, before), size: None };
        let kind = match before {
            // It may also be before the first allocation: an address below zero wraps around.
            _ if !(GUARD..=u64::MAX - GUARD).contains(&address) => FaultKind::Null,
            Some(i) if address - self.allocations[i].base < self.allocations[i].size => {
                match self.allocations[i].state {
                    State::Freed => FaultKind::Freed(i),
                    State::Hidden => FaultKind::Hidden(i),
                    State::Live => outside(),
                }
            }
            _ if self.reserved.iter().any(|(base, size)| (*base..base + size).contains(&address)) => {
                FaultKind::Unmapped
            }
            _ => outside(),
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
    fn memory_is_mapped_into_reserved_addresses_and_keeps_its_contents() {
        let mut heap = Heap::at(0x1000_0000, 1 << 20);
        let range = heap.reserve(4 * 4096, 1 << 20, 1 << 40).unwrap();
        assert!(range.is_multiple_of(1 << 20));
        assert!(heap.reserve(1 << 40, 4096, 1 << 40).is_err());
        assert_eq!(heap.locate(range + 8, 4).unwrap_err().kind, FaultKind::Unmapped);
        assert!(heap.map("outside", range + 3 * 4096, vec![0; 8192]).is_err());
        heap.map("first", range, vec![1; 4096]).unwrap();
        heap.map("second", range + 4096, vec![2; 4096]).unwrap();
        assert!(heap.map("again", range + 4096, vec![3; 4096]).is_err());
        // Two mappings are one range for copies, and two for kernels.
        assert_eq!(heap.read_across(range + 4094, 4).unwrap(), [1, 1, 2, 2]);
        heap.write_across(range + 4095, &[7, 8]).unwrap();
        assert_eq!(heap.read_across(range + 4094, 4).unwrap(), [1, 7, 8, 2]);
        assert!(
            heap.read_across(range + 8190, 4).is_err() && heap.write_across(range + 8190, &[0; 4]).is_err()
        );
        assert_eq!(heap.read_across(range + 8190, 2).unwrap(), [2, 2]);
        heap.hide(range, true);
        assert_eq!(heap.locate(range, 4).unwrap_err().kind, FaultKind::Hidden(0));
        heap.hide(range, false);
        assert!(heap.free(range).is_err());
        let used = heap.used();
        let contents = heap.unmap(range).unwrap();
        assert_eq!((contents[4095], contents.len(), heap.used()), (7, 4096, used - 4096));
        assert!(heap.unmap(range).is_none());
        assert_eq!(heap.locate(range, 4).unwrap_err().kind, FaultKind::Unmapped);
        heap.unreserve(range);
        assert!(matches!(heap.locate(range, 4).unwrap_err().kind, FaultKind::OutOfBounds { .. }));
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
