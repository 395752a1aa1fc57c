//! Memory of the program itself, reached through pointers it handed over: the one place that follows them.
//!
//! The API's contract is the program's promise: a pointer it passes to a copy is valid for as many bytes as it says, until the copy is
//! done. Nothing can check that; a program that breaks it breaks itself, as it does with NVIDIA's library.
#![expect(unsafe_code, reason = "it follows the program's pointers")]

use std::alloc::{Layout, alloc_zeroed, dealloc};

/// Alignment of memory made for the host: a page.
pub const PAGE: usize = 4096;

/// Copies `length` bytes out of the program's memory; `None` where there is no room for them.
///
/// # Safety
/// `address` is valid for reads of `length` bytes.
pub unsafe fn read(address: u64, length: usize) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(length).ok()?;
    bytes.resize(length, 0);
    if length > 0 {
        // SAFETY: the caller's promise; the target is new and as long.
        unsafe { std::ptr::copy_nonoverlapping(pointer(address), bytes.as_mut_ptr(), length) };
    }
    Some(bytes)
}

/// Copies bytes into the program's memory.
///
/// # Safety
/// `address` is valid for writes of as many bytes.
pub unsafe fn write(address: u64, bytes: &[u8]) {
    if !bytes.is_empty() {
        // SAFETY: the caller's promise; the source is a slice of ours.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), pointer(address), bytes.len()) };
    }
}

/// The program's memory as a slice that the software GPU may hold.
///
/// # Safety
/// `address` is valid for reads and writes of `length` bytes until the slice is given up, which must be before the call of the API
/// ends. What other threads of the program do to the same bytes meanwhile is a race of the program, as it is with a GPU.
pub unsafe fn lend(address: u64, length: usize) -> &'static mut [u8] {
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts_mut(pointer(address), length) }
}

/// Zeroed memory of whole pages, for pinned and managed allocations; `None` where the machine has none left.
pub fn allocate(length: usize) -> Option<u64> {
    let layout = layout(length)?;
    // SAFETY: the layout is not empty.
    let pointer = unsafe { alloc_zeroed(layout) };
    (!pointer.is_null()).then(|| pointer.expose_provenance()).and_then(|address| u64::try_from(address).ok())
}

/// Gives memory back.
///
/// # Safety
/// [`allocate`] gave it for the same length, and nobody holds a slice of it.
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
