//! Memory: allocation, freeing, and attributes of pointers.

use std::ffi::c_void;

use warpproof_driver::abi::{Answer, Error};
use warpproof_driver::api::Out;

use super::{context, init, out};
use crate::abi::{Extent, PitchedPointer, PointerAttributes};

api! {
    /// Allocates device memory. The address of nothing is null.
    fn cudaMalloc => (place: Out<u64>, size: usize) {
        context()?;
        if size == 0 {
            return place.put(0);
        }
        cu!(cuMemAlloc_v2(place, size))
    }
}

api! {
    /// Frees device or managed memory.
    fn cudaFree => (base: u64) {
        context()?;
        cu!(cuMemFree_v2(base))
    }
}

/// Allocates rows; each starts at a multiple of the pitch.
fn rows(place: Out<u64>, pitch: Out<usize>, width: usize, height: usize) -> Answer {
    context()?;
    if width == 0 || height == 0 {
        pitch.offer(0);
        return place.put(0);
    }
    cu!(cuMemAllocPitch_v2(place, pitch, width, height, 4))
}

api! {
    /// Allocates device memory for rows.
    fn cudaMallocPitch => (place: Out<u64>, pitch: Out<usize>, width: usize, height: usize) {
        rows(place, pitch, width, height)
    }
}

api! {
    /// Allocates device memory for slices of rows.
    fn cudaMalloc3D => (pointer: Out<PitchedPointer>, extent: Extent) {
        let Extent { width, height, depth } = extent;
        let all = height.checked_mul(depth).ok_or(Error::INVALID_VALUE)?;
        let mut made = PitchedPointer { address: 0, pitch: 0, width, height };
        rows(out(&mut made.address), out(&mut made.pitch), width, all)?;
        pointer.put(made)
    }
}

api! {
    /// Allocates pinned memory.
    fn cudaMallocHost => (place: Out<*mut c_void>, size: usize) {
        pinned(place, size, 0)
    }
}

api! {
    /// Allocates pinned memory, with flags.
    fn cudaHostAlloc => (place: Out<*mut c_void>, size: usize, flags: u32) {
        pinned(place, size, flags)
    }
}

fn pinned(place: Out<*mut c_void>, size: usize, flags: u32) -> Answer {
    context()?;
    if size == 0 {
        return place.put(std::ptr::null_mut());
    }
    cu!(cuMemHostAlloc(place, size, flags))
}

api! {
    /// Frees pinned memory.
    fn cudaFreeHost => (pointer: *mut c_void) {
        context()?;
        cu!(cuMemFreeHost(pointer))
    }
}

api! {
    /// Pins memory of the program.
    fn cudaHostRegister => (pointer: *mut c_void, size: usize, flags: u32) {
        context()?;
        cu!(cuMemHostRegister_v2(pointer, size, flags))
    }
}

api! {
    /// Ends the pinning of memory of the program.
    fn cudaHostUnregister => (pointer: *mut c_void) {
        context()?;
        cu!(cuMemHostUnregister(pointer))
    }
}

api! {
    /// The address of pinned memory for kernels.
    fn cudaHostGetDevicePointer => (place: Out<u64>, pointer: *mut c_void, flags: u32) {
        context()?;
        cu!(cuMemHostGetDevicePointer_v2(place, pointer, flags))
    }
}

api! {
    /// Flags of pinned memory.
    fn cudaHostGetFlags => (flags: Out<u32>, pointer: *mut c_void) {
        context()?;
        cu!(cuMemHostGetFlags(flags, pointer))
    }
}

api! {
    /// Allocates managed memory.
    fn cudaMallocManaged => (place: Out<u64>, size: usize, flags: u32) {
        context()?;
        cu!(cuMemAllocManaged(place, size, flags))
    }
}

api! {
    /// Free and total device memory in bytes.
    fn cudaMemGetInfo => (free: Out<usize>, total: Out<usize>) {
        context()?;
        cu!(cuMemGetInfo_v2(free, total))
    }
}

/// What a pointer is. An unknown one is memory of the program.
fn attributes(pointer: u64) -> Answer<PointerAttributes> {
    init()?;
    let (mut kind, mut managed, mut device) = (0u32, 0u32, 0);
    let mut found = PointerAttributes { kind: 0, device: -2, device_pointer: 0, host_pointer: pointer };
    // `CUpointer_attribute`: 2 is the kind of memory, 3 and 4 the addresses, 8 whether it is managed, 9 the device.
    if cu!(cuPointerGetAttribute(out(&mut kind).cast(), 2, pointer)).is_err() {
        return Ok(found);
    }
    cu!(cuPointerGetAttribute(out(&mut managed).cast(), 8, pointer))?;
    cu!(cuPointerGetAttribute(out(&mut device).cast(), 9, pointer))?;
    found.kind = if managed == 0 { kind } else { 3 };
    found.device = device;
    cu!(cuPointerGetAttribute(out(&mut found.device_pointer).cast(), 3, pointer))?;
    if cu!(cuPointerGetAttribute(out(&mut found.host_pointer).cast(), 4, pointer)).is_err() {
        found.host_pointer = 0;
    }
    Ok(found)
}

api! {
    /// What a pointer is.
    fn cudaPointerGetAttributes_in12 => (place: Out<PointerAttributes>, pointer: u64) {
        place.put(attributes(pointer)?)
    }
}

api! {
    /// What a pointer is; CUDA 13 reserves 64 more bytes.
    fn cudaPointerGetAttributes_in13 => (place: Out<PointerAttributes>, pointer: u64) {
        let found = attributes(pointer)?;
        place.put(found)?;
        place.at(1).cast::<[u64; 8]>().put([0; 8])
    }
}
