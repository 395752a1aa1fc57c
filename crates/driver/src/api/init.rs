//! Initialization, version, error strings, and lookup of functions by name.

use std::ffi::{c_char, c_int, c_void};

use super::{In, Out, SYMBOLS, driver, idle};
use crate::abi::{ANSWERS, Error};

/// The API version that the library reports: that of the newest runtime, because programs refuse a driver that is older than their
/// runtime. `data/versions.txt` ends with CUDA 13.2; functions that are newer are not found.
const VERSION: c_int = 13_040;

/// Maps a name and a version to a symbol, as in cudaTypedefs.h: `name version symbol`.
const VERSIONS: &str = include_str!("../../data/versions.txt");

api! {
    /// Initializes the library; must be the first call.
    fn cuInit => (_flags: u32) {
        driver().init()
    }
}

api! {
    /// The version of the API.
    fn cuDriverGetVersion => (version: Out<c_int>) {
        version.put(VERSION)
    }
}

api! {
    /// Name of an error.
    fn cuGetErrorName => (error: u32, name: Out<*const c_char>) {
        let Some((_, symbol, _)) = ANSWERS.iter().find(|(code, ..)| *code == error) else {
            name.put(std::ptr::null())?;
            return Err(Error::INVALID_VALUE);
        };
        name.put(symbol.as_ptr().cast())
    }
}

api! {
    /// Description of an error.
    fn cuGetErrorString => (error: u32, sentence: Out<*const c_char>) {
        let Some((.., words)) = ANSWERS.iter().find(|(code, ..)| *code == error) else {
            sentence.put(std::ptr::null())?;
            return Err(Error::INVALID_VALUE);
        };
        sentence.put(words.as_ptr().cast())
    }
}

/// Result of a lookup by name and version.
enum Found {
    /// The address of the function.
    Symbol(*const ()),
    /// No such function.
    Nothing,
    /// The function exists only in later versions.
    Later,
}

impl Found {
    /// The function's address, or null.
    fn address(&self) -> *const c_void {
        match self {
            Found::Symbol(symbol) => symbol.cast(),
            Found::Nothing | Found::Later => std::ptr::null(),
        }
    }

    /// `CUdriverProcAddressQueryResult`.
    fn status(&self) -> u32 {
        match self {
            Found::Symbol(_) => 0,
            Found::Nothing => 1,
            Found::Later => 2,
        }
    }
}

/// The symbol for a name at a version, optionally its per-thread-default-stream variant.
fn find(name: &str, version: c_int, per_thread: bool) -> Found {
    let known = |symbol: &str| {
        let at = SYMBOLS.binary_search_by_key(&symbol, |(name, _)| name).ok()?;
        SYMBOLS.get(at).map(|(_, symbol)| symbol.0)
    };
    let mut later = false;
    let listed = VERSIONS.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let (base, since, symbol) = (words.next()?, words.next()?.parse::<c_int>().ok()?, words.next()?);
        later |= base == name && since > version;
        (base == name && since <= version).then_some((since, symbol))
    });
    // Plain names first; a flag selects the variants for the per-thread default stream.
    let plain = listed.filter(|(_, symbol)| !symbol.ends_with("_ptsz") && !symbol.ends_with("_ptds"));
    // Since CUDA 12, the header maps this name to another function.
    let newest = plain.max_by_key(|(since, _)| *since).map(|(_, symbol)| symbol);
    let symbol = match newest {
        _ if name == "cuGraphInstantiate" && version >= 12_000 => "cuGraphInstantiateWithFlags",
        Some(symbol) => symbol,
        None if later => return Found::Later,
        None => name,
    };
    let own = per_thread
        .then(|| ["_ptsz", "_ptds"].iter().find_map(|end| known(&format!("{symbol}{end}"))))
        .flatten();
    own.or_else(|| known(symbol)).map_or(Found::Nothing, Found::Symbol)
}

/// `CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM`.
const PER_THREAD: u64 = 2;

api! {
    /// Address of a function.
    fn cuGetProcAddress_v2 => (name: In<c_char>, address: Out<*const c_void>, version: c_int, flags: u64, status: Out<u32>) {
        let name = name.text()?;
        let found = find(&name, version, flags & PER_THREAD != 0);
        address.put(found.address())?;
        status.offer(found.status());
        if found.status() == 0 || !status.is_null() { Ok(()) } else { Err(Error::NOT_FOUND) }
    }
}

api! {
    /// Address of a function; older form without a status.
    fn cuGetProcAddress => (name: In<c_char>, address: Out<*const c_void>, version: c_int, flags: u64) {
        let name = name.text()?;
        let found = find(&name, version, flags & PER_THREAD != 0);
        address.put(found.address())?;
        if found.status() == 0 { Ok(()) } else { Err(Error::NOT_FOUND) }
    }
}

api! {
    /// Tables of private functions, which the CUDA runtime and NVRTC request. None are provided; NVRTC works without them.
    fn cuGetExportTable => (table: Out<*const c_void>, _id: In<c_void>) {
        table.offer(std::ptr::null());
        Err(Error::NOT_FOUND)
    }
}

api! {
    /// Does nothing: there is no profiler.
    fn cuProfilerStart | cuProfilerStop => () {
        driver().ready()
    }
}

/// The version of Warpproof as a number. Programs and our own tools use this symbol to detect that the device is not a real GPU.
#[unsafe(no_mangle)]
pub extern "C" fn warpproof_driver() -> u32 {
    1
}

api! {
    /// Names the memory at an address in reports, for callers that know their arrays by name. Not part of NVIDIA's API.
    fn warpproof_name_memory => (address: u64, name: In<c_char>) {
        let name = name.text()?;
        if idle().name_memory(address, &name) { Ok(()) } else { Err(Error::INVALID_VALUE) }
    }
}

/// Begins the report of a part of this process, such as one test: findings that recur are reported again, `WARPPROOF_CHECKS`,
/// `WARPPROOF_SCHEDULES` and `WARPPROOF_FAIL` are read again, and contexts forget their errors. Waits for running kernels.
#[unsafe(no_mangle)]
pub extern "C" fn warpproof_begin_report() {
    idle().begin_report(crate::settings::Settings::from_env());
}

#[cfg(test)]
mod tests {
    use super::{VERSION, VERSIONS};

    #[test]
    fn no_function_of_the_table_is_newer_than_the_reported_version() {
        let since = |line: &str| line.split_whitespace().nth(1)?.parse().ok();
        let newest = VERSIONS.lines().filter(|line| !line.starts_with('#')).filter_map(since).max();
        assert!(newest.is_some_and(|newest: i32| newest <= VERSION), "{newest:?}");
    }
}
