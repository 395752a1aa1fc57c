//! Memory pools and allocation in stream order.

use std::ffi::{c_int, c_void};

use warpproof_driver::abi::Handle;
use warpproof_driver::api::{In, Out};

use super::{context, init, stream};

api! {
    /// Allocates memory in stream order.
    fn cudaMallocAsync | cudaMallocAsync_ptsz => (place: Out<u64>, size: usize, on: Handle) {
        let on = stream(on);
        context()?;
        cu!(cuMemAllocAsync(place, size, on))
    }
}

api! {
    /// Allocates memory of a pool in stream order.
    fn cudaMallocFromPoolAsync | cudaMallocFromPoolAsync_ptsz => (place: Out<u64>, size: usize, pool: Handle, on: Handle) {
        let on = stream(on);
        context()?;
        cu!(cuMemAllocFromPoolAsync(place, size, pool, on))
    }
}

api! {
    /// Frees memory in stream order.
    fn cudaFreeAsync | cudaFreeAsync_ptsz => (base: u64, on: Handle) {
        let on = stream(on);
        context()?;
        cu!(cuMemFreeAsync(base, on))
    }
}

api! {
    /// Creates a pool. Its properties have the layout of the driver's.
    fn cudaMemPoolCreate => (pool: Out<Handle>, properties: In<c_void>) {
        init()?;
        cu!(cuMemPoolCreate(pool, properties.cast()))
    }
}

api! {
    /// Destroys a pool.
    fn cudaMemPoolDestroy => (pool: Handle) {
        init()?;
        cu!(cuMemPoolDestroy(pool))
    }
}

api! {
    /// Returns unused memory of a pool.
    fn cudaMemPoolTrimTo => (pool: Handle, keep: usize) {
        init()?;
        cu!(cuMemPoolTrimTo(pool, keep))
    }
}

api! {
    /// An attribute of a pool.
    fn cudaMemPoolGetAttribute => (pool: Handle, attribute: u32, value: Out<c_void>) {
        init()?;
        cu!(cuMemPoolGetAttribute(pool, attribute, value))
    }
}

api! {
    /// Sets an attribute of a pool.
    fn cudaMemPoolSetAttribute => (pool: Handle, attribute: u32, value: In<c_void>) {
        init()?;
        cu!(cuMemPoolSetAttribute(pool, attribute, value))
    }
}

api! {
    /// Sets which devices can access a pool.
    fn cudaMemPoolSetAccess => (pool: Handle, list: In<c_void>, count: usize) {
        init()?;
        cu!(cuMemPoolSetAccess(pool, list, count))
    }
}

api! {
    /// Whether a device can access a pool.
    fn cudaMemPoolGetAccess => (flags: Out<u32>, pool: Handle, location: Out<c_void>) {
        init()?;
        cu!(cuMemPoolGetAccess(flags, pool, location))
    }
}

api! {
    /// The default pool of a location, which is two 32-bit numbers.
    fn cudaMemGetDefaultMemPool => (pool: Out<Handle>, location: In<[c_int; 2]>, kind: u32) {
        init()?;
        cu!(cuMemGetDefaultMemPool(pool, location, kind))
    }
}

api! {
    /// The current pool of a location.
    fn cudaMemGetMemPool => (pool: Out<Handle>, location: In<[c_int; 2]>, kind: u32) {
        init()?;
        cu!(cuMemGetMemPool(pool, location, kind))
    }
}

api! {
    /// Sets the current pool of a location.
    fn cudaMemSetMemPool => (location: In<[c_int; 2]>, kind: u32, pool: Handle) {
        init()?;
        cu!(cuMemSetMemPool(location, kind, pool))
    }
}
