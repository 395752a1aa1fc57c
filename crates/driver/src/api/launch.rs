//! Launches.

use std::ffi::c_void;

use super::{In, driver, number, submit};
use crate::abi::{Answer, Error, Handle, LaunchConfig};
use crate::cluster::portable_mode;
use crate::dependent::{Programmatic, ProgrammaticEvent};
use crate::stream::DISABLE_TIMING;
use crate::work::{LaunchCall, Work};

/// Arguments of a function: one pointer per argument, or all arguments in one buffer.
pub(super) fn arguments(function: u64, each: In<In<u8>>, extra: In<*mut c_void>) -> Answer<Vec<Vec<u8>>> {
    let places: Vec<(usize, usize)> = {
        let driver = driver();
        let wide = |n: u32| usize::try_from(n).unwrap_or(0);
        driver.function(function)?.params().iter().map(|p| (wide(p.offset), wide(p.size))).collect()
    };
    if places.is_empty() {
        return Ok(Vec::new());
    }
    if !each.is_null() {
        let values = places.iter().enumerate();
        return values.map(|(i, (_, size))| each.at(i).get()?.list(*size)).collect();
    }
    if extra.is_null() {
        return Err(Error::INVALID_VALUE);
    }
    // Pairs of a key and a value, terminated by zero: 1 is the buffer, 2 points to its size.
    let (mut buffer, mut length) = (None, None);
    for i in (0..16).step_by(2) {
        // The program terminates the pairs with a zero.
        match extra.at(i).get()?.addr() {
            0 => break,
            1 => buffer = Some(extra.cast::<In<u8>>().at(i + 1).get()?),
            2 => length = Some(extra.cast::<In<usize>>().at(i + 1).get()?.get()?),
            _ => return Err(Error::INVALID_VALUE),
        }
    }
    let (Some(buffer), Some(length)) = (buffer, length) else { return Err(Error::INVALID_VALUE) };
    // Upper limit of the parameter size; protects against a wrong size.
    if length > 1 << 16 {
        return Err(Error::INVALID_VALUE);
    }
    let bytes = buffer.list(length)?;
    places
        .iter()
        .map(|(offset, size)| {
            bytes.get(*offset..offset + size).map(<[u8]>::to_vec).ok_or(Error::INVALID_VALUE)
        })
        .collect()
}

/// The event of `CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT`: its handle, flags, and whether blocks trigger it when they start. It must not
/// measure time.
fn programmatic_event(stream: Handle, value: [u32; 16]) -> Answer<ProgrammaticEvent> {
    let [low, high, flags, at_block_start, ..] = value;
    let event = u64::from(high) << 32 | u64::from(low);
    let mut driver = driver();
    let target = driver.target(super::stream_number(stream))?;
    if driver.streams.get(&target.stream).is_some_and(|stream| stream.capture.is_some()) {
        driver.report.unsupported("programmatic events in a stream capture");
        return Err(Error::NOT_SUPPORTED);
    }
    if flags != 0 || driver.event(event)?.flags & DISABLE_TIMING == 0 {
        return Err(Error::INVALID_VALUE);
    }
    Ok(ProgrammaticEvent { event, at_block_start: at_block_start != 0 })
}

api! {
    /// Launches a kernel.
    fn cuLaunchKernel | cuLaunchKernel_ptsz => (function: Handle, gx: u32, gy: u32, gz: u32, bx: u32, by: u32, bz: u32, shared: u32, stream: Handle, each: In<In<u8>>, extra: In<*mut c_void>) {
        if !each.is_null() && !extra.is_null() {
            return Err(Error::INVALID_VALUE);
        }
        let function = number(function);
        let arguments = arguments(function, each, extra)?;
        submit(stream, Work::Launch(LaunchCall { function, grid: [gx, gy, gz], block: [bx, by, bz], shared, arguments, cooperative: false, cluster: None, nonportable: None, programmatic: Programmatic::default() }))
    }
}

api! {
    /// Launches a kernel whose blocks must all be resident at the same time.
    fn cuLaunchCooperativeKernel | cuLaunchCooperativeKernel_ptsz => (function: Handle, gx: u32, gy: u32, gz: u32, bx: u32, by: u32, bz: u32, shared: u32, stream: Handle, each: In<In<u8>>) {
        let function = number(function);
        let arguments = arguments(function, each, In::none())?;
        submit(stream, Work::Launch(LaunchCall { function, grid: [gx, gy, gz], block: [bx, by, bz], shared, arguments, cooperative: true, cluster: None, nonportable: None, programmatic: Programmatic::default() }))
    }
}

api! {
    /// Launches a kernel with attributes: cooperative, cluster size, portability of that size, programmatic serialization and event; others are ignored.
    fn cuLaunchKernelEx | cuLaunchKernelEx_ptsz => (config: In<LaunchConfig>, function: Handle, each: In<In<u8>>, extra: In<*mut c_void>) {
        let config = config.get()?;
        let count = usize::try_from(config.count).map_err(|_| Error::INVALID_VALUE)?;
        let (mut cooperative, mut cluster, mut programmatic) = (false, None, Programmatic::default());
        let mut nonportable = None;
        for attribute in config.attributes.list(count)? {
            match attribute.id {
                2 => cooperative = attribute.value[0] != 0,
                4 => {
                    let [x, y, z, ..] = attribute.value;
                    cluster = Some([x, y, z]);
                }
                6 => programmatic.serialization = attribute.value[0] != 0,
                17 => nonportable = portable_mode(attribute.value[0])?,
                7 => programmatic.event = Some(programmatic_event(config.stream, attribute.value)?),
                _ => {}
            }
        }
        let function = number(function);
        let arguments = arguments(function, each, extra)?;
        let LaunchConfig { grid, block, shared, stream, .. } = config;
        submit(stream, Work::Launch(LaunchCall { function, grid, block, shared, arguments, cooperative, cluster, nonportable, programmatic }))
    }
}
