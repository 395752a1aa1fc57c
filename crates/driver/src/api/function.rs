//! Functions and occupancy.

use std::collections::BTreeMap;
use std::ffi::{CString, c_char, c_int};
use std::sync::{Mutex, PoisonError};

use super::{In, Out, driver, handle, number};
use crate::abi::{Answer, Error, Handle, LaunchConfig};
use crate::cluster::portable_mode;

api! {
    /// An attribute of a function.
    fn cuFuncGetAttribute => (value: Out<c_int>, attribute: u32, function: Handle) {
        let driver = driver();
        driver.current()?;
        value.put(driver.function_attribute(number(function), attribute)?)
    }
}

api! {
    /// Sets an attribute of a function.
    fn cuFuncSetAttribute => (function: Handle, attribute: u32, value: c_int) {
        let mut driver = driver();
        driver.current()?;
        driver.set_function_attribute(number(function), attribute, value)
    }
}

api! {
    /// Ignored.
    fn cuFuncSetCacheConfig | cuFuncSetSharedMemConfig => (function: Handle, _config: u32) {
        driver().function(number(function)).map(drop)
    }
}

api! {
    /// The module of a function.
    fn cuFuncGetModule => (module: Out<Handle>, function: Handle) {
        let found = driver().function(number(function))?.module;
        module.put(handle(found))
    }
}

/// Function names returned to the program as C strings; they live as long as the process.
static NAMES: Mutex<BTreeMap<String, CString>> = Mutex::new(BTreeMap::new());

/// A C string that lives as long as the process.
fn lasting(name: &str) -> Answer<*const c_char> {
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    if !names.contains_key(name) {
        names.insert(name.to_owned(), CString::new(name).map_err(|_| Error::INVALID_VALUE)?);
    }
    names.get(name).map(|name| name.as_ptr()).ok_or(Error::INVALID_VALUE)
}

api! {
    /// The name of a function.
    fn cuFuncGetName | cuKernelGetName => (name: Out<*const c_char>, function: Handle) {
        let found = driver().function(number(function))?.name.clone();
        name.put(lasting(&found)?)
    }
}

api! {
    /// Offset and size of a parameter.
    fn cuFuncGetParamInfo | cuKernelGetParamInfo => (function: Handle, index: usize, offset: Out<usize>, size: Out<usize>) {
        let driver = driver();
        let parameter = driver.function(number(function))?.params().get(index).ok_or(Error::INVALID_VALUE)?;
        let wide = |n: u32| usize::try_from(n).unwrap_or(0);
        offset.put(wide(parameter.offset))?;
        size.offer(wide(parameter.size));
        Ok(())
    }
}

api! {
    /// Number of parameters.
    fn cuFuncGetParamCount | cuKernelGetParamCount => (function: Handle, count: Out<usize>) {
        let count_of = driver().function(number(function))?.params().len();
        count.put(count_of)
    }
}

api! {
    /// Always loaded: functions are compiled when the program looks them up.
    fn cuFuncIsLoaded => (state: Out<u32>, function: Handle) {
        driver().function(number(function))?;
        state.put(1)
    }
}

api! {
    /// Does nothing: functions are compiled when the program looks them up.
    fn cuFuncLoad => (function: Handle) {
        driver().function(number(function)).map(drop)
    }
}

api! {
    /// Resident blocks per multiprocessor. Register counts are estimates: only ptxas knows the real ones.
    fn cuOccupancyMaxActiveBlocksPerMultiprocessor => (blocks: Out<c_int>, function: Handle, threads: c_int, shared: usize) {
        let found = resident(function, threads, shared)?;
        blocks.put(found)
    }
}

api! {
    /// Resident blocks per multiprocessor, with flags.
    fn cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags => (blocks: Out<c_int>, function: Handle, threads: c_int, shared: usize, _flags: u32) {
        let found = resident(function, threads, shared)?;
        blocks.put(found)
    }
}

fn resident(function: Handle, threads: c_int, shared: usize) -> Answer<c_int> {
    let threads = u32::try_from(threads).map_err(|_| Error::INVALID_VALUE)?;
    let shared = u32::try_from(shared).unwrap_or(u32::MAX);
    let blocks = driver().blocks_per_multiprocessor(number(function), threads, shared)?;
    Ok(c_int::try_from(blocks).unwrap_or(c_int::MAX))
}

/// Callback of the program: dynamic shared memory of a block, given its number of threads.
type SharedOf = Option<unsafe extern "C" fn(c_int) -> usize>;

/// The block size with the highest occupancy (the largest one, if several are equal), and the number of blocks that fill the
/// device.
fn best(function: Handle, shared_of: SharedOf, shared: usize, limit: c_int) -> Answer<(c_int, c_int)> {
    let (most, multiprocessors) = {
        let driver = driver();
        let (device, _) = driver.current()?;
        let most = driver.function_attribute(number(function), 0)?;
        (most, driver.devices[device].model.multiprocessors.value)
    };
    let most = if limit > 0 { most.min(limit) } else { most };
    let mut chosen = (0, 0, 0);
    let mut threads = most;
    while threads > 0 {
        let bytes = match shared_of {
            // SAFETY: the program passed the function for this call.
            Some(function) => unsafe { function(threads) },
            None => shared,
        };
        let blocks = resident(function, threads, bytes)?;
        if blocks * threads > chosen.0 {
            chosen = (blocks * threads, threads, blocks);
        }
        // The limit first, then multiples of the warp size.
        threads = if threads % 32 == 0 { threads - 32 } else { threads / 32 * 32 };
    }
    let all = c_int::try_from(multiprocessors).unwrap_or(c_int::MAX);
    Ok((chosen.2.saturating_mul(all), chosen.1))
}

api! {
    /// The block size with the highest occupancy.
    fn cuOccupancyMaxPotentialBlockSize => (grid: Out<c_int>, block: Out<c_int>, function: Handle, shared_of: SharedOf, shared: usize, limit: c_int) {
        let (blocks, threads) = best(function, shared_of, shared, limit)?;
        grid.put(blocks)?;
        block.put(threads)
    }
}

api! {
    /// The block size with the highest occupancy, with flags.
    fn cuOccupancyMaxPotentialBlockSizeWithFlags => (grid: Out<c_int>, block: Out<c_int>, function: Handle, shared_of: SharedOf, shared: usize, limit: c_int, _flags: u32) {
        let (blocks, threads) = best(function, shared_of, shared, limit)?;
        grid.put(blocks)?;
        block.put(threads)
    }
}

api! {
    /// Dynamic shared memory available to each block if the given number of blocks shares a multiprocessor.
    fn cuOccupancyAvailableDynamicSMemPerBlock => (bytes: Out<usize>, function: Handle, blocks: c_int, _threads: c_int) {
        let driver = driver();
        let (device, _) = driver.current()?;
        let own = driver.function(number(function))?.static_shared();
        let capability = driver.devices[device].model.capability;
        let blocks = u32::try_from(blocks).ok().filter(|blocks| *blocks > 0).ok_or(Error::INVALID_VALUE)?;
        let each = (capability.shared.value / blocks).saturating_sub(capability.reserved_shared.value);
        let each = each.min(capability.block_shared_opt_in.value);
        let whole = each / capability.shared_granularity.value * capability.shared_granularity.value;
        bytes.put(usize::try_from(whole.saturating_sub(own)).unwrap_or(0))
    }
}

/// Threads of a block.
fn threads(config: &LaunchConfig) -> u32 {
    config.block.iter().fold(1u32, |threads, extent| threads.saturating_mul(*extent))
}

api! {
    /// The largest cluster that the kernel and the device allow.
    fn cuOccupancyMaxPotentialClusterSize => (size: Out<c_int>, function: Handle, config: In<LaunchConfig>) {
        let config = config.get()?;
        let most = driver().max_cluster_size(number(function), threads(&config), config.shared)?;
        size.put(c_int::try_from(most).unwrap_or(c_int::MAX))
    }
}

api! {
    /// Clusters that are active at the same time. Register counts are estimates: only ptxas knows the real ones.
    fn cuOccupancyMaxActiveClusters => (count: Out<c_int>, function: Handle, config: In<LaunchConfig>) {
        let config = config.get()?;
        let attributes = config.attributes.list(usize::try_from(config.count).map_err(|_| Error::INVALID_VALUE)?)?;
        let given = attributes.iter().find(|attribute| attribute.id == 4).map(|attribute| {
            let [x, y, z, ..] = attribute.value;
            [x, y, z]
        });
        let mode = attributes.iter().find(|attribute| attribute.id == 17);
        let nonportable = mode.map_or(Ok(None), |attribute| portable_mode(attribute.value[0]))?;
        let active =
            driver().max_active_clusters(number(function), (given, nonportable), threads(&config), config.shared)?;
        count.put(c_int::try_from(active).unwrap_or(c_int::MAX))
    }
}
