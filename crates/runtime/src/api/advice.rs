//! Managed memory: prefetches, advice, and what the program asked for.

use std::ffi::{c_int, c_void};

use warpproof_driver::abi::Handle;
use warpproof_driver::api::{In, Out};

use super::{context, stream};

api! {
    /// Moves managed memory to a device.
    fn cudaMemPrefetchAsync_in12 | cudaMemPrefetchAsync_ptsz_in12 => (pointer: u64, count: usize, device: c_int, on: Handle) {
        let on = stream(on);
        context()?;
        cu!(cuMemPrefetchAsync(pointer, count, device, on))
    }
}

api! {
    /// Moves managed memory to a location, which is two 32-bit numbers.
    fn cudaMemPrefetchAsync | cudaMemPrefetchAsync_ptsz | cudaMemPrefetchAsync_v2 | cudaMemPrefetchAsync_v2_ptsz => (pointer: u64, count: usize, location: u64, flags: u32, on: Handle) {
        let on = stream(on);
        context()?;
        cu!(cuMemPrefetchAsync_v2(pointer, count, location, flags, on))
    }
}

api! {
    /// Remembers advice about managed memory, which has no effect.
    fn cudaMemAdvise_in12 => (pointer: u64, count: usize, advice: u32, device: c_int) {
        context()?;
        cu!(cuMemAdvise(pointer, count, advice, device))
    }
}

api! {
    /// Remembers advice about managed memory, which has no effect.
    fn cudaMemAdvise | cudaMemAdvise_v2 => (pointer: u64, count: usize, advice: u32, location: u64) {
        context()?;
        cu!(cuMemAdvise_v2(pointer, count, advice, location))
    }
}

api! {
    /// Moves ranges of managed memory to locations.
    fn cudaMemPrefetchBatchAsync | cudaMemPrefetchBatchAsync_ptsz => (pointers: In<u64>, sizes: In<usize>, count: usize, locations: In<u64>, first: In<usize>, number: usize, flags: u64, on: Handle) {
        let on = stream(on);
        context()?;
        cu!(cuMemPrefetchBatchAsync(pointers, sizes, count, locations, first, number, flags, on))
    }
}

api! {
    /// Discards the contents of ranges of managed memory.
    fn cudaMemDiscardBatchAsync | cudaMemDiscardBatchAsync_ptsz => (pointers: In<u64>, sizes: In<usize>, count: usize, flags: u64, on: Handle) {
        let on = stream(on);
        context()?;
        cu!(cuMemDiscardBatchAsync(pointers, sizes, count, flags, on))
    }
}

api! {
    /// Discards the contents of ranges of managed memory, and moves the ranges to locations.
    fn cudaMemDiscardAndPrefetchBatchAsync | cudaMemDiscardAndPrefetchBatchAsync_ptsz => (pointers: In<u64>, sizes: In<usize>, count: usize, locations: In<u64>, first: In<usize>, number: usize, flags: u64, on: Handle) {
        let on = stream(on);
        context()?;
        cu!(cuMemDiscardAndPrefetchBatchAsync(pointers, sizes, count, locations, first, number, flags, on))
    }
}

api! {
    /// An attribute that all bytes of a range have; the numbers are the driver's.
    fn cudaMemRangeGetAttribute => (data: Out<c_void>, size: usize, attribute: u32, pointer: u64, count: usize) {
        context()?;
        cu!(cuMemRangeGetAttribute(data, size, attribute, pointer, count))
    }
}

api! {
    /// Several attributes that all bytes of a range have.
    fn cudaMemRangeGetAttributes => (data: In<Out<c_void>>, sizes: In<usize>, attributes: In<u32>, number: usize, pointer: u64, count: usize) {
        context()?;
        cu!(cuMemRangeGetAttributes(data, sizes, attributes, number, pointer, count))
    }
}
