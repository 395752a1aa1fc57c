//! Advice about managed memory and prefetches.

use std::ffi::{c_int, c_void};
use std::ops::Range;

use super::{In, Out, driver, submit};
use crate::abi::{Answer, Error, Handle};
use crate::advice::{Change, DEVICE, HOST, HOST_NUMA, Location, State};
use crate::memory::{Kind, wide};
use crate::work::Work;

/// `CU_DEVICE_CPU` and `CU_DEVICE_INVALID`.
const CPU: c_int = -1;
const NONE: c_int = -2;
/// `CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT`.
const HOST_NUMA_CURRENT: u32 = 4;

/// Addresses of managed memory.
fn managed(pointer: u64, count: usize) -> Answer<Range<u64>> {
    let driver = driver();
    driver.current()?;
    let end = pointer.checked_add(wide(count)).filter(|end| *end > pointer).ok_or(Error::INVALID_VALUE)?;
    let inside = |base: u64, size: u64| end - base <= size;
    let known =
        driver.allocation(pointer).is_some_and(|(base, a)| a.kind == Kind::Managed && inside(base, a.size));
    if known { Ok(pointer..end) } else { Err(Error::INVALID_VALUE) }
}

/// The location of a device number.
fn of_device(device: c_int) -> Answer<Location> {
    if device == CPU {
        return Ok(Location { kind: HOST, id: 0 });
    }
    driver().device(device)?;
    Ok(Location { kind: DEVICE, id: device })
}

/// A location that the program passed by value: its type in the low half, its number in the high one.
pub(super) fn of_value(location: u64) -> Answer<Location> {
    let kind = u32::try_from(location & 0xffff_ffff).unwrap_or(0);
    let id = i32::from_ne_bytes(u32::try_from(location >> 32).unwrap_or(0).to_ne_bytes());
    match kind {
        DEVICE => of_device(id),
        HOST => Ok(Location { kind: HOST, id: 0 }),
        // One NUMA node.
        HOST_NUMA if id == 0 => Ok(Location { kind: HOST_NUMA, id }),
        HOST_NUMA_CURRENT => Ok(Location { kind: HOST_NUMA, id: 0 }),
        _ => Err(Error::INVALID_VALUE),
    }
}

fn advise(pointer: u64, count: usize, advice: u32, location: impl Fn() -> Answer<Location>) -> Answer {
    let range = managed(pointer, count)?;
    let device = || location().map(|location| if location.kind == DEVICE { location.id } else { CPU });
    let change = match advice {
        1 | 2 => Change::ReadMostly(advice == 1),
        3 => Change::Preferred(Some(location()?)),
        4 => Change::Preferred(None),
        5 | 6 => Change::AccessedBy(device()?, advice == 5),
        _ => return Err(Error::INVALID_VALUE),
    };
    driver().advice.add(range, change);
    Ok(())
}

fn prefetch(pointer: u64, count: usize, location: Location, stream: Handle) -> Answer {
    let range = managed(pointer, count)?;
    submit(stream, Work::Empty)?;
    driver().advice.add(range, Change::Prefetched(location));
    Ok(())
}

api! {
    /// Remembers the location: managed memory is accessible everywhere.
    fn cuMemPrefetchAsync | cuMemPrefetchAsync_ptsz => (pointer: u64, count: usize, device: c_int, stream: Handle) {
        prefetch(pointer, count, of_device(device)?, stream)
    }
}

api! {
    /// Remembers the location, which is two numbers.
    fn cuMemPrefetchAsync_v2 | cuMemPrefetchAsync_v2_ptsz => (pointer: u64, count: usize, location: u64, flags: u32, stream: Handle) {
        if flags != 0 {
            return Err(Error::INVALID_VALUE);
        }
        prefetch(pointer, count, of_value(location)?, stream)
    }
}

api! {
    /// Remembers advice.
    fn cuMemAdvise => (pointer: u64, count: usize, advice: u32, device: c_int) {
        advise(pointer, count, advice, || of_device(device))
    }
}

api! {
    /// Remembers advice, with a location of two numbers.
    fn cuMemAdvise_v2 => (pointer: u64, count: usize, advice: u32, location: u64) {
        advise(pointer, count, advice, || of_value(location))
    }
}

/// Ranges of a batch.
fn ranges(pointers: In<u64>, sizes: In<usize>, count: usize, flags: u64) -> Answer<Vec<Range<u64>>> {
    if count == 0 || flags != 0 {
        return Err(Error::INVALID_VALUE);
    }
    let (pointers, sizes) = (pointers.list(count)?, sizes.list(count)?);
    pointers.into_iter().zip(sizes).map(|(pointer, size)| managed(pointer, size)).collect()
}

/// The location of each operation of a batch. Each location applies from its index on; the first index is 0, and they grow.
fn locations(all: In<u64>, first: In<usize>, number: usize, count: usize) -> Answer<Vec<Location>> {
    if number == 0 || number > count {
        return Err(Error::INVALID_VALUE);
    }
    let (all, first) = (all.list(number)?, first.list(number)?);
    let grows = first.windows(2).all(|pair| pair[0] < pair[1]);
    if first.first() != Some(&0) || !grows || first.last().is_some_and(|last| *last >= count) {
        return Err(Error::INVALID_VALUE);
    }
    let at = |i: usize| {
        let applies = first.partition_point(|index| *index <= i).saturating_sub(1);
        of_value(all.get(applies).copied().unwrap_or(0))
    };
    (0..count).map(at).collect()
}

/// Submits a batch in a stream, which must not be the legacy default stream.
fn batch(stream: Handle, ranges: Vec<Range<u64>>, locations: &[Location]) -> Answer {
    let target = driver().target(super::stream_number(stream))?;
    if target.legacy {
        return Err(Error::INVALID_VALUE);
    }
    submit(stream, Work::Empty)?;
    let mut driver = driver();
    for (range, location) in ranges.into_iter().zip(locations) {
        driver.advice.add(range, Change::Prefetched(*location));
    }
    Ok(())
}

api! {
    /// Remembers the locations.
    fn cuMemPrefetchBatchAsync | cuMemPrefetchBatchAsync_ptsz => (pointers: In<u64>, sizes: In<usize>, count: usize, all: In<u64>, first: In<usize>, number: usize, flags: u64, stream: Handle) {
        let ranges = ranges(pointers, sizes, count, flags)?;
        batch(stream, ranges, &locations(all, first, number, count)?)
    }
}

api! {
    /// Does nothing: the contents of discarded memory are undefined, so they may stay as they are.
    fn cuMemDiscardBatchAsync | cuMemDiscardBatchAsync_ptsz => (pointers: In<u64>, sizes: In<usize>, count: usize, flags: u64, stream: Handle) {
        let ranges = ranges(pointers, sizes, count, flags)?;
        batch(stream, ranges, &[])
    }
}

api! {
    /// Remembers the locations; discarded contents may stay as they are.
    fn cuMemDiscardAndPrefetchBatchAsync | cuMemDiscardAndPrefetchBatchAsync_ptsz => (pointers: In<u64>, sizes: In<usize>, count: usize, all: In<u64>, first: In<usize>, number: usize, flags: u64, stream: Handle) {
        let ranges = ranges(pointers, sizes, count, flags)?;
        batch(stream, ranges, &locations(all, first, number, count)?)
    }
}

/// The device number of a location.
fn device_number(location: Option<Location>) -> c_int {
    match location {
        Some(Location { kind: DEVICE, id }) => id,
        Some(Location { kind: HOST, .. }) => CPU,
        _ => NONE,
    }
}

/// Writes an attribute of a range.
fn attribute(data: Out<c_void>, size: usize, attribute: u32, state: &State) -> Answer {
    let data = data.cast::<c_int>();
    let kind = |location: Option<Location>| location.map_or(0, |location| location.kind.cast_signed());
    let id = |location: Option<Location>| location.map_or(NONE, |location| location.id);
    if attribute == 3 {
        if size == 0 || !size.is_multiple_of(4) {
            return Err(Error::INVALID_VALUE);
        }
        let mut devices = state.accessed_by.iter();
        for i in 0..size / 4 {
            data.at(i).put(devices.next().copied().unwrap_or(NONE))?;
        }
        return Ok(());
    }
    let value = match attribute {
        1 => c_int::from(state.read_mostly),
        2 => device_number(state.preferred),
        4 => device_number(state.prefetched),
        5 => kind(state.preferred),
        6 => id(state.preferred),
        7 => kind(state.prefetched),
        8 => id(state.prefetched),
        _ => return Err(Error::INVALID_VALUE),
    };
    if size == 4 { data.put(value) } else { Err(Error::INVALID_VALUE) }
}

api! {
    /// An attribute that all bytes of a range have.
    fn cuMemRangeGetAttribute => (data: Out<c_void>, size: usize, number: u32, pointer: u64, count: usize) {
        let range = managed(pointer, count)?;
        let state = driver().advice.of(&range);
        attribute(data, size, number, &state)
    }
}

api! {
    /// Several attributes that all bytes of a range have.
    fn cuMemRangeGetAttributes => (data: In<Out<c_void>>, sizes: In<usize>, numbers: In<u32>, all: usize, pointer: u64, count: usize) {
        let range = managed(pointer, count)?;
        let state = driver().advice.of(&range);
        let (data, sizes, numbers) = (data.list(all)?, sizes.list(all)?, numbers.list(all)?);
        if all == 0 {
            return Err(Error::INVALID_VALUE);
        }
        for ((data, size), number) in data.into_iter().zip(sizes).zip(numbers) {
            attribute(data, size, number, &state)?;
        }
        Ok(())
    }
}
