//! Host memory of the program, accessed through the program's pointers. Only this module dereferences them.
//!
//! The program promises the API's contract: a pointer passed to a copy is valid for the given number of bytes until the copy is
//! complete. The library cannot check this; a violation is undefined behavior of the program, as with NVIDIA's library.
//!
//! Memory that the library allocates for the program is mapped twice: `guard` protects the program's mapping, the library uses the other.
#![expect(unsafe_code, reason = "it dereferences the program's pointers")]

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Alignment of host allocations: one page.
pub const PAGE: usize = 4096;

/// Copies `length` bytes from the program's memory; `None` if the buffer cannot be allocated.
///
/// # Safety
/// `address` is valid for reads of `length` bytes.
pub unsafe fn read(address: u64, length: usize) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(length).ok()?;
    bytes.resize(length, 0);
    if length > 0 {
        // SAFETY: the caller's promise; the destination is new and has `length` bytes.
        unsafe { std::ptr::copy_nonoverlapping(pointer(own(address)), bytes.as_mut_ptr(), length) };
    }
    Some(bytes)
}

/// Copies bytes into the program's memory.
///
/// # Safety
/// `address` is valid for writes of `bytes.len()` bytes.
pub unsafe fn write(address: u64, bytes: &[u8]) {
    if !bytes.is_empty() {
        // SAFETY: the caller's promise; the source is our own slice.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), pointer(own(address)), bytes.len()) };
    }
}

/// The program's memory as a slice for the software GPU.
///
/// # Safety
/// `address` is valid for reads and writes of `length` bytes until the slice is dropped, which must happen before the API call
/// ends. Concurrent accesses by other threads of the program are races of the program, as with a GPU.
pub unsafe fn lend(address: u64, length: usize) -> &'static mut [u8] {
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts_mut(pointer(own(address)), length) }
}

/// Memory that is mapped twice, by the program's address: its length in whole pages, and the library's own address of it.
static MAPPED: Mutex<BTreeMap<u64, (u64, u64)>> = Mutex::new(BTreeMap::new());

fn mapped() -> MutexGuard<'static, BTreeMap<u64, (u64, u64)>> {
    MAPPED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether an allocation has another mapping, for the library: then the program's pages can be protected.
pub fn is_mapped_twice(base: u64) -> bool {
    mapped().contains_key(&base)
}

/// The address under which the library uses an address of the program. It is never protected.
fn own(address: u64) -> u64 {
    let mapped = mapped();
    let containing = mapped.range(..=address).next_back();
    let inside = containing.filter(|(base, (length, _))| address - **base < *length);
    inside.map_or(address, |(base, (_, own))| own + (address - base))
}

/// Zeroed whole pages for pinned and managed allocations; `None` if the machine is out of memory.
pub fn allocate(length: usize) -> Option<u64> {
    if let Some(base) = map_twice(length) {
        return Some(base);
    }
    let layout = layout(length)?;
    // SAFETY: the layout is not empty.
    let pointer = unsafe { alloc_zeroed(layout) };
    (!pointer.is_null()).then(|| pointer.expose_provenance()).and_then(|address| u64::try_from(address).ok())
}

/// Maps new memory twice; `None` if the system does not support it.
fn map_twice(length: usize) -> Option<u64> {
    let length = length.max(1).checked_next_multiple_of(PAGE)?;
    let size = libc::off_t::try_from(length).ok()?;
    // SAFETY: the name is a string; the file is closed below, and mappings keep its memory.
    let file = unsafe { libc::memfd_create(c"pinned".as_ptr(), libc::MFD_CLOEXEC) };
    if file < 0 {
        return None;
    }
    let map = || {
        let (protection, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_NORESERVE);
        // SAFETY: a new mapping at a place that the system chooses.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), length, protection, flags, file, 0) };
        (at != libc::MAP_FAILED).then(|| u64::try_from(at.expose_provenance()).ok()).flatten()
    };
    // SAFETY: the file is open.
    let sized = unsafe { libc::ftruncate(file, size) } == 0;
    let both = sized.then(|| Some((map()?, map()?))).flatten();
    // SAFETY: the file is open, and this is its only owner.
    unsafe { libc::close(file) };
    let (base, own) = both?;
    mapped().insert(base, (u64::try_from(length).ok()?, own));
    Some(base)
}

/// Frees memory.
///
/// # Safety
/// [`allocate`] returned it for the same length, and no slice of it exists.
pub unsafe fn free(address: u64, length: usize) {
    if let Some((length, own)) = mapped().remove(&address) {
        let length = usize::try_from(length).unwrap_or(0);
        for start in [address, own] {
            // SAFETY: `map_twice` mapped it with this length, and the caller promises that it is not used.
            unsafe { libc::munmap(pointer(start).cast(), length) };
        }
    } else if let Some(layout) = layout(length) {
        // SAFETY: the caller's promise.
        unsafe { dealloc(pointer(address), layout) };
    }
}

fn layout(length: usize) -> Option<Layout> {
    Layout::from_size_align(length.max(1), PAGE).ok()
}

fn pointer(address: u64) -> *mut u8 {
    std::ptr::with_exposed_provenance_mut(usize::try_from(address).unwrap_or(0))
}
