//! Host memory of the program, accessed through the program's pointers. Only this module dereferences them.
//!
//! The program promises the API's contract: a pointer passed to a copy is valid for the given number of bytes until the copy is
//! complete. The library cannot check this; a violation is undefined behavior of the program, as with NVIDIA's library.
#![expect(unsafe_code, reason = "it dereferences the program's pointers")]

use std::alloc::{Layout, alloc_zeroed, dealloc};

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
        unsafe { std::ptr::copy_nonoverlapping(pointer(address), bytes.as_mut_ptr(), length) };
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
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), pointer(address), bytes.len()) };
    }
}

/// The program's memory as a slice for the software GPU.
///
/// # Safety
/// `address` is valid for reads and writes of `length` bytes until the slice is dropped, which must happen before the API call
/// ends. Concurrent accesses by other threads of the program are races of the program, as with a GPU.
pub unsafe fn lend(address: u64, length: usize) -> &'static mut [u8] {
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts_mut(pointer(address), length) }
}

/// Zeroed whole pages for pinned and managed allocations; `None` if the machine is out of memory.
pub fn allocate(length: usize) -> Option<u64> {
    let layout = layout(length)?;
    // SAFETY: the layout is not empty.
    let pointer = unsafe { alloc_zeroed(layout) };
    (!pointer.is_null()).then(|| pointer.expose_provenance()).and_then(|address| u64::try_from(address).ok())
}

/// Frees memory.
///
/// # Safety
/// [`allocate`] returned it for the same length, and no slice of it exists.
pub unsafe fn free(address: u64, length: usize) {
    if let Some(layout) = layout(length) {
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
