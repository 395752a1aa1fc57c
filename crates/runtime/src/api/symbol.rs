//! Device variables.

use std::ffi::c_void;

use warpproof_driver::abi::{Answer, Error, Handle};
use warpproof_driver::api::Out;
use warpproof_driver::driver::driver;

use super::copy::{Direction, copy, copy_async};
use super::register::variable;
use super::stream;
use crate::error::INVALID_MEMCPY_DIRECTION;

/// The address of a part of a variable.
pub(super) fn part(symbol: *const c_void, offset: usize, count: usize) -> Answer<u64> {
    let (address, size) = variable(symbol)?;
    let wide = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
    match wide(offset).checked_add(wide(count)) {
        Some(end) if end <= size => Ok(address + wide(offset)),
        _ => {
            driver().report_variable_bounds(wide(offset), wide(count), size);
            Err(Error::INVALID_VALUE)
        }
    }
}

/// The direction of a copy to a variable.
pub(super) fn to(kind: u32) -> Answer<Direction> {
    match Direction::new(kind)? {
        Direction::HostToHost | Direction::DeviceToHost => Err(INVALID_MEMCPY_DIRECTION),
        direction => Ok(direction),
    }
}

/// The direction of a copy from a variable.
pub(super) fn from(kind: u32) -> Answer<Direction> {
    match Direction::new(kind)? {
        Direction::HostToHost | Direction::HostToDevice => Err(INVALID_MEMCPY_DIRECTION),
        direction => Ok(direction),
    }
}

api! {
    /// Copies to a variable.
    fn cudaMemcpyToSymbol | cudaMemcpyToSymbol_ptds => (symbol: *const c_void, source: u64, count: usize, offset: usize, kind: u32) {
        copy(part(symbol, offset, count)?, source, count, to(kind)?)
    }
}

api! {
    /// Copies to a variable, in stream order.
    fn cudaMemcpyToSymbolAsync | cudaMemcpyToSymbolAsync_ptsz => (symbol: *const c_void, source: u64, count: usize, offset: usize, kind: u32, on: Handle) {
        let on = stream(on);
        copy_async(part(symbol, offset, count)?, source, count, to(kind)?, on)
    }
}

api! {
    /// Copies from a variable.
    fn cudaMemcpyFromSymbol | cudaMemcpyFromSymbol_ptds => (target: u64, symbol: *const c_void, count: usize, offset: usize, kind: u32) {
        copy(target, part(symbol, offset, count)?, count, from(kind)?)
    }
}

api! {
    /// Copies from a variable, in stream order.
    fn cudaMemcpyFromSymbolAsync | cudaMemcpyFromSymbolAsync_ptsz => (target: u64, symbol: *const c_void, count: usize, offset: usize, kind: u32, on: Handle) {
        let on = stream(on);
        copy_async(target, part(symbol, offset, count)?, count, from(kind)?, on)
    }
}

api! {
    /// The address of a variable on the current device.
    fn cudaGetSymbolAddress => (address: Out<u64>, symbol: *const c_void) {
        address.put(variable(symbol)?.0)
    }
}

api! {
    /// The size of a variable.
    fn cudaGetSymbolSize => (size: Out<usize>, symbol: *const c_void) {
        size.put(usize::try_from(variable(symbol)?.1).unwrap_or(usize::MAX))
    }
}
