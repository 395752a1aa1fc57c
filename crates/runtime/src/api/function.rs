//! Kernels: handles, attributes and occupancy.

use std::ffi::{c_char, c_int, c_void};

use warpproof_driver::abi::{Answer, Error, Handle, LaunchConfig};
use warpproof_driver::api::{In, Out};
use warpproof_driver::driver::driver;

use super::launch::Config;
use super::register::function;
use super::{input, number, out};
use crate::abi::FunctionAttributes;
use crate::error::INVALID_DEVICE_FUNCTION;
use crate::registry::registry;

api! {
    /// A handle of a kernel, for launches that nvcc's host code makes. If it cannot be loaded now, the launch returns the error.
    fn __cudaGetKernel => (kernel: Out<Handle>, host: *const c_void) {
        match function(host) {
            Ok(found) => kernel.put(found),
            Err(_) if registry().kernels.contains_key(&host.addr()) => kernel.put(host.cast_mut()),
            Err(error) => Err(error),
        }
    }
}

api! {
    /// A handle of a kernel.
    fn cudaGetKernel | cudaGetFuncBySymbol => (kernel: Out<Handle>, host: *const c_void) {
        kernel.put(function(host)?)
    }
}

api! {
    /// Attributes of a kernel.
    fn cudaFuncGetAttributes => (attributes: Out<FunctionAttributes>, host: *const c_void) {
        let function = function(host)?;
        let get = |attribute: u32| -> Answer<c_int> {
            let mut value = 0;
            cu!(cuFuncGetAttribute(out(&mut value), attribute, function))?;
            Ok(value)
        };
        let size = |attribute: u32| -> Answer<usize> { Ok(usize::try_from(get(attribute)?).unwrap_or(0)) };
        attributes.put(FunctionAttributes {
            shared: size(1)?,
            constant: size(2)?,
            local: size(3)?,
            threads: get(0)?,
            registers: get(4)?,
            ptx: get(5)?,
            binary: get(6)?,
            cache: get(7)?,
            dynamic: get(8)?,
            carveout: get(9)?,
            cluster_required: get(10)?,
            cluster: [get(11)?, get(12)?, get(13)?],
            cluster_policy: get(15)?,
            cluster_nonportable: get(14)?,
            rest: [0; 16],
        })
    }
}

api! {
    /// Sets an attribute of a kernel; the numbers are the driver's.
    fn cudaFuncSetAttribute => (host: *const c_void, attribute: u32, value: c_int) {
        let function = function(host)?;
        cu!(cuFuncSetAttribute(function, attribute, value))
    }
}

api! {
    /// Sets the preferred split of L1 cache and shared memory; it has no effect.
    fn cudaFuncSetCacheConfig => (host: *const c_void, config: u32) {
        let function = function(host)?;
        cu!(cuFuncSetCacheConfig(function, config))
    }
}

api! {
    /// Sets the width of shared memory banks; it has no effect.
    fn cudaFuncSetSharedMemConfig => (host: *const c_void, config: u32) {
        let function = function(host)?;
        cu!(cuFuncSetSharedMemConfig(function, config))
    }
}

api! {
    /// The name of a kernel in the device code.
    fn cudaFuncGetName => (name: Out<*const c_char>, host: *const c_void) {
        let function = function(host)?;
        cu!(cuFuncGetName(name, function))
    }
}

api! {
    /// Offset and size of a parameter.
    fn cudaFuncGetParamInfo => (host: *const c_void, index: usize, offset: Out<usize>, size: Out<usize>) {
        let function = function(host)?;
        cu!(cuFuncGetParamInfo(function, index, offset, size))
    }
}

api! {
    /// Number of parameters.
    fn cudaFuncGetParamCount => (host: *const c_void, count: Out<usize>) {
        let function = function(host)?;
        let found = driver().function(number(function))?.params().len();
        count.put(found)
    }
}

api! {
    /// Resident blocks per multiprocessor.
    fn cudaOccupancyMaxActiveBlocksPerMultiprocessor => (blocks: Out<c_int>, host: *const c_void, threads: c_int, shared: usize) {
        let function = function(host)?;
        cu!(cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks, function, threads, shared))
    }
}

api! {
    /// Resident blocks per multiprocessor, with flags.
    fn cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags => (blocks: Out<c_int>, host: *const c_void, threads: c_int, shared: usize, flags: u32) {
        let function = function(host)?;
        cu!(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, threads, shared, flags))
    }
}

api! {
    /// Dynamic shared memory available to each block if the given number of blocks shares a multiprocessor.
    fn cudaOccupancyAvailableDynamicSMemPerBlock => (bytes: Out<usize>, host: *const c_void, blocks: c_int, threads: c_int) {
        let function = function(host)?;
        cu!(cuOccupancyAvailableDynamicSMemPerBlock(bytes, function, blocks, threads))
    }
}

/// The driver's launch configuration.
fn driver_config(config: In<Config>) -> Answer<LaunchConfig> {
    let config = config.get()?;
    Ok(LaunchConfig {
        grid: config.grid.list(),
        block: config.block.list(),
        shared: u32::try_from(config.shared).map_err(|_| Error::INVALID_VALUE)?,
        stream: config.stream,
        attributes: config.attributes,
        count: config.count,
    })
}

api! {
    /// Clusters that can be resident at the same time.
    fn cudaOccupancyMaxActiveClusters => (count: Out<c_int>, host: *const c_void, config: In<Config>) {
        let function = function(host)?;
        let config = driver_config(config)?;
        cu!(cuOccupancyMaxActiveClusters(count, function, input(&config)))
    }
}

api! {
    /// The largest cluster size of a launch.
    fn cudaOccupancyMaxPotentialClusterSize => (size: Out<c_int>, host: *const c_void, config: In<Config>) {
        let function = function(host)?;
        let config = driver_config(config)?;
        cu!(cuOccupancyMaxPotentialClusterSize(size, function, input(&config)))
    }
}

/// Whether a number is a function of the driver, as kernels of libraries are.
pub(super) fn known(function: *const c_void) -> Answer<Handle> {
    let handle = function.cast_mut();
    if driver().functions.contains_key(&number(handle)) { Ok(handle) } else { Err(INVALID_DEVICE_FUNCTION) }
}
