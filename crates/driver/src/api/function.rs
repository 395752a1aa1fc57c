//! Functions and occupancy.

use std::collections::BTreeMap;
use std::ffi::{CString, c_char, c_int};
use std::sync::{Mutex, PoisonError};

use super::{In, Out, driver, handle, number};
use crate::abi::{Answer, Error, Handle, LaunchConfig};

api! {
    /// An attribute.
    fn cuFuncGetAttribute => (value: Out<c_int>, attribute: u32, function: Handle) {
        let driver = driver();
        driver.current()?;
        value.put(driver.function_attribute(number(function), attribute)?)
    }
}

api! {
    /// Sets one.
    fn cuFuncSetAttribute => (function: Handle, attribute: u32, value: c_int) {
        let mut driver = driver();
        driver.current()?;
        driver.set_function_attribute(number(function), attribute, value)
    }
}

api! {
    /// Changes nothing here.
    fn cuFuncSetCacheConfig | cuFuncSetSharedMemConfig => (function: Handle, _config: u32) {
        driver().function(number(function)).map(drop)
    }
}

api! {
    /// Its module.
    fn cuFuncGetModule => (module: Out<Handle>, function: Handle) {
        let found = driver().function(number(function))?.module;
        module.put(handle(found))
    }
}

/// Names that were asked for, as C wants them; they stay for the life of the process.
static NAMES: Mutex<BTreeMap<String, CString>> = Mutex::new(BTreeMap::new());

/// A name that stays.
fn lasting(name: &str) -> Answer<*const c_char> {
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    if !names.contains_key(name) {
        names.insert(name.to_owned(), CString::new(name).map_err(|_| Error::INVALID_VALUE)?);
    }
    names.get(name).map(|name| name.as_ptr()).ok_or(Error::INVALID_VALUE)
}

api! {
    /// Its name.
    fn cuFuncGetName | cuKernelGetName => (name: Out<*const c_char>, function: Handle) {
        let found = driver().function(number(function))?.name.clone();
        name.put(lasting(&found)?)
    }
}

api! {
    /// Where a parameter lies.
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
    /// It is: it was made ready when it was asked for.
    fn cuFuncIsLoaded => (state: Out<u32>, function: Handle) {
        driver().function(number(function))?;
        state.put(1)
    }
}

api! {
    /// It is already.
    fn cuFuncLoad => (function: Handle) {
        driver().function(number(function)).map(drop)
    }
}

api! {
    /// Blocks that fit a multiprocessor. Registers are estimated, for only ptxas knows them.
    fn cuOccupancyMaxActiveBlocksPerMultiprocessor => (blocks: Out<c_int>, function: Handle, threads: c_int, shared: usize) {
        let found = resident(function, threads, shared)?;
        blocks.put(found)
    }
}

api! {
    /// Likewise.
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

/// Shared memory of a block of so many threads, as the program computes it.
type SharedOf = Option<unsafe extern "C" fn(c_int) -> usize>;

/// The block that fills a multiprocessor best, the largest of equals; and the blocks that fill the device.
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
            // SAFETY: the program gave the function for this.
            Some(function) => unsafe { function(threads) },
            None => shared,
        };
        let blocks = resident(function, threads, bytes)?;
        if blocks * threads > chosen.0 {
            chosen = (blocks * threads, threads, blocks);
        }
        // The largest first, then whole warps.
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
    /// Likewise.
    fn cuOccupancyMaxPotentialBlockSizeWithFlags => (grid: Out<c_int>, block: Out<c_int>, function: Handle, shared_of: SharedOf, shared: usize, limit: c_int, _flags: u32) {
        let (blocks, threads) = best(function, shared_of, shared, limit)?;
        grid.put(blocks)?;
        block.put(threads)
    }
}

api! {
    /// Dynamic shared memory that so many blocks leave for each.
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

api! {
    /// Clusters are not supported.
    fn cuOccupancyMaxActiveClusters | cuOccupancyMaxPotentialClusterSize => (count: Out<c_int>, function: Handle, config: In<LaunchConfig>) {
        driver().function(number(function))?;
        config.get()?;
        count.offer(0);
        driver().report.unsupported("clusters of blocks");
        Err(Error::NOT_SUPPORTED)
    }
}
