//! Versions, entry points of the driver, and the profiler.

use std::ffi::{c_char, c_int, c_void};

use warpproof_driver::abi::Answer;
use warpproof_driver::api::{In, Out};

use super::{PER_THREAD, context, out};

/// The versions whose functions `data/` lists.
const VERSION_12: c_int = 12_090;
const VERSION_13: c_int = 13_040;

api! {
    /// The version of the driver.
    fn cudaDriverGetVersion => (version: Out<c_int>) {
        cu!(cuDriverGetVersion(version))
    }
}

api! {
    /// The version of the runtime.
    fn cudaRuntimeGetVersion_in12 => (version: Out<c_int>) {
        version.put(VERSION_12)
    }
}

api! {
    /// The version of the runtime.
    fn cudaRuntimeGetVersion_in13 => (version: Out<c_int>) {
        version.put(VERSION_13)
    }
}

/// The address of a function of the driver; null and a status if there is none.
fn entry(
    name: In<c_char>,
    address: Out<*const c_void>,
    version: c_int,
    flags: u64,
    status: Out<u32>,
) -> Answer {
    // 0 is the default stream of the program's kind, 1 the legacy one, 2 the per-thread one.
    let flags = if flags == 0 && PER_THREAD.get() { 2 } else { flags };
    let mut found = 0;
    address.offer(std::ptr::null());
    cu!(cuGetProcAddress_v2(name, address, version, flags, out(&mut found)))?;
    status.offer(found);
    Ok(())
}

api! {
    /// The address of a function of the driver.
    fn cudaGetDriverEntryPoint_in12 | cudaGetDriverEntryPoint_ptsz_in12 => (name: In<c_char>, address: Out<*const c_void>, flags: u64, status: Out<u32>) {
        entry(name, address, VERSION_12, flags, status)
    }
}

api! {
    /// The address of a function of the driver.
    fn cudaGetDriverEntryPoint_in13 | cudaGetDriverEntryPoint_ptsz_in13 => (name: In<c_char>, address: Out<*const c_void>, flags: u64, status: Out<u32>) {
        entry(name, address, VERSION_13, flags, status)
    }
}

api! {
    /// The address of a function of the driver, as of a version.
    fn cudaGetDriverEntryPointByVersion | cudaGetDriverEntryPointByVersion_ptsz => (name: In<c_char>, address: Out<*const c_void>, version: u32, flags: u64, status: Out<u32>) {
        entry(name, address, c_int::try_from(version).unwrap_or(c_int::MAX), flags, status)
    }
}

api! {
    /// Does nothing: there is no profiler.
    fn cudaProfilerStart | cudaProfilerStop => () {
        context().map(drop)
    }
}
