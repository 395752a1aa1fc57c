//! Arrays, mipmapped arrays, and copies to and from arrays.

use std::ffi::c_int;

use warpproof_driver::abi::{Answer, Copy2d, Error, Handle};
use warpproof_driver::api::{In, Out};
use warpproof_driver::array::Array3dDescriptor;
use warpproof_driver::driver::driver;

use super::copy::{Direction, own_stream, wait};
use super::{context, handle, input, number, out, stream};
use crate::abi::Extent;
use crate::descriptor::ChannelDescriptor;
use crate::error::{INVALID_MEMCPY_DIRECTION, INVALID_PITCH_VALUE};

plain! {
    /// A description of channels.
    fn cudaCreateChannelDesc => (x: c_int, y: c_int, z: c_int, w: c_int, kind: u32) -> ChannelDescriptor, ChannelDescriptor::default(), {
        ChannelDescriptor { bits: [x, y, z, w], kind }
    }
}

/// The driver's description of an array.
fn describe(channels: In<ChannelDescriptor>, extent: Extent, flags: u32) -> Answer<Array3dDescriptor> {
    let (format, channels) = format(&channels.get()?)?;
    let Extent { width, height, depth } = extent;
    Ok(Array3dDescriptor { width, height, depth, format, channels, flags })
}

/// The driver's format, and the number of channels. An unsupported format is reported.
pub(super) fn format(channels: &ChannelDescriptor) -> Answer<(u32, u32)> {
    let found = channels.format();
    if found == Err(Error::NOT_SUPPORTED) {
        driver().report.unsupported(&format!("channel format {}", channels.kind));
    }
    found
}

/// The driver's description of an existing array.
fn described(array: Handle) -> Answer<Array3dDescriptor> {
    context()?;
    let mut found = Array3dDescriptor::default();
    cu!(cuArray3DGetDescriptor_v2(out(&mut found), array))?;
    Ok(found)
}

/// Bytes of an element of an array.
pub(super) fn element_of(array: u64) -> Answer<usize> {
    let found = described(handle(array))?;
    Ok(ChannelDescriptor::new(found.format, found.channels)?.bytes())
}

api! {
    /// Creates an array of one or two dimensions.
    fn cudaMallocArray => (array: Out<Handle>, channels: In<ChannelDescriptor>, width: usize, height: usize, flags: u32) {
        context()?;
        let description = describe(channels, Extent { width, height, depth: 0 }, flags)?;
        cu!(cuArray3DCreate_v2(array, input(&description)))
    }
}

api! {
    /// Creates an array.
    fn cudaMalloc3DArray => (array: Out<Handle>, channels: In<ChannelDescriptor>, extent: Extent, flags: u32) {
        context()?;
        let description = describe(channels, extent, flags)?;
        cu!(cuArray3DCreate_v2(array, input(&description)))
    }
}

api! {
    /// Destroys an array.
    fn cudaFreeArray => (array: Handle) {
        context()?;
        if array.is_null() { Ok(()) } else { cu!(cuArrayDestroy(array)) }
    }
}

api! {
    /// Creates a mipmapped array.
    fn cudaMallocMipmappedArray => (array: Out<Handle>, channels: In<ChannelDescriptor>, extent: Extent, levels: u32, flags: u32) {
        context()?;
        let description = describe(channels, extent, flags)?;
        cu!(cuMipmappedArrayCreate(array, input(&description), levels))
    }
}

api! {
    /// A level of a mipmapped array, as an array.
    fn cudaGetMipmappedArrayLevel => (level: Out<Handle>, array: Handle, index: u32) {
        context()?;
        cu!(cuMipmappedArrayGetLevel(level, array, index))
    }
}

api! {
    /// Destroys a mipmapped array.
    fn cudaFreeMipmappedArray => (array: Handle) {
        context()?;
        if array.is_null() { Ok(()) } else { cu!(cuMipmappedArrayDestroy(array)) }
    }
}

api! {
    /// Channels, size and flags of an array.
    fn cudaArrayGetInfo => (channels: Out<ChannelDescriptor>, extent: Out<Extent>, flags: Out<u32>, array: Handle) {
        let found = described(array)?;
        channels.offer(ChannelDescriptor::new(found.format, found.channels)?);
        extent.offer(Extent { width: found.width, height: found.height, depth: found.depth });
        flags.offer(found.flags);
        Ok(())
    }
}

api! {
    /// Channels of an array.
    fn cudaGetChannelDesc => (channels: Out<ChannelDescriptor>, array: Handle) {
        let found = described(array)?;
        channels.put(ChannelDescriptor::new(found.format, found.channels)?)
    }
}

/// One side of a copy of rows.
#[derive(Clone, Copy, Debug)]
enum Side {
    /// Linear memory with bytes from row to row.
    Memory { address: u64, pitch: usize },
    /// An array from a byte of a row on.
    Array { array: Handle, x: usize, y: usize },
}

/// `CUmemorytype`.
const ARRAY: u32 = 3;

/// Copies rows to or from arrays: in stream order, or in the default stream.
fn rows(
    to: Side,
    from: Side,
    (width, height): (usize, usize),
    direction: Direction,
    on: Option<Handle>,
) -> Answer {
    context()?;
    if width == 0 || height == 0 {
        return Ok(());
    }
    let (source_type, target_type) = direction.types();
    let mut copy = Copy2d {
        source_x: 0,
        source_y: 0,
        source_type,
        source_host: 0,
        source_device: 0,
        source_array: 0,
        source_pitch: 0,
        target_x: 0,
        target_y: 0,
        target_type,
        target_host: 0,
        target_device: 0,
        target_array: 0,
        target_pitch: 0,
        width,
        height,
    };
    match from {
        Side::Memory { pitch, .. } if pitch < width => return Err(INVALID_PITCH_VALUE),
        Side::Memory { address, pitch } => {
            (copy.source_host, copy.source_device, copy.source_pitch) = (address, address, pitch);
        }
        Side::Array { array, x, y } => {
            (copy.source_type, copy.source_array) = (ARRAY, number(array));
            (copy.source_x, copy.source_y) = (x, y);
        }
    }
    match to {
        Side::Memory { pitch, .. } if pitch < width => return Err(INVALID_PITCH_VALUE),
        Side::Memory { address, pitch } => {
            (copy.target_host, copy.target_device, copy.target_pitch) = (address, address, pitch);
        }
        Side::Array { array, x, y } => {
            (copy.target_type, copy.target_array) = (ARRAY, number(array));
            (copy.target_x, copy.target_y) = (x, y);
        }
    }
    match on {
        Some(on) => cu!(cuMemcpy2DAsync_v2(input(&copy), on)),
        None => cu!(cuMemcpy2D_v2(input(&copy))),
    }
}

/// The direction of a copy to an array.
fn to_array(kind: u32) -> Answer<Direction> {
    match Direction::new(kind)? {
        Direction::HostToHost | Direction::DeviceToHost => Err(INVALID_MEMCPY_DIRECTION),
        direction => Ok(direction),
    }
}

/// The direction of a copy from an array.
fn from_array(kind: u32) -> Answer<Direction> {
    match Direction::new(kind)? {
        Direction::HostToHost | Direction::HostToDevice => Err(INVALID_MEMCPY_DIRECTION),
        direction => Ok(direction),
    }
}

/// The direction of a copy between arrays.
fn between_arrays(kind: u32) -> Answer<Direction> {
    match Direction::new(kind)? {
        Direction::DeviceToDevice | Direction::Default => Ok(Direction::DeviceToDevice),
        _ => Err(INVALID_MEMCPY_DIRECTION),
    }
}

/// Runs a copy in the default stream of the call's kind.
fn now(copy: impl FnOnce(Option<Handle>) -> Answer) -> Answer {
    let on = own_stream();
    let submitted = copy(on);
    on.map_or(submitted, |on| wait(on, submitted))
}

api! {
    /// Copies rows to an array.
    fn cudaMemcpy2DToArray | cudaMemcpy2DToArray_ptds => (array: Handle, x: usize, y: usize, address: u64, pitch: usize, width: usize, height: usize, kind: u32) {
        let direction = to_array(kind)?;
        now(|on| rows(Side::Array { array, x, y }, Side::Memory { address, pitch }, (width, height), direction, on))
    }
}

api! {
    /// Copies rows to an array in stream order.
    fn cudaMemcpy2DToArrayAsync | cudaMemcpy2DToArrayAsync_ptsz => (array: Handle, x: usize, y: usize, address: u64, pitch: usize, width: usize, height: usize, kind: u32, on: Handle) {
        let (direction, on) = (to_array(kind)?, stream(on));
        rows(Side::Array { array, x, y }, Side::Memory { address, pitch }, (width, height), direction, Some(on))
    }
}

api! {
    /// Copies rows from an array.
    fn cudaMemcpy2DFromArray | cudaMemcpy2DFromArray_ptds => (address: u64, pitch: usize, array: Handle, x: usize, y: usize, width: usize, height: usize, kind: u32) {
        let direction = from_array(kind)?;
        now(|on| rows(Side::Memory { address, pitch }, Side::Array { array, x, y }, (width, height), direction, on))
    }
}

api! {
    /// Copies rows from an array in stream order.
    fn cudaMemcpy2DFromArrayAsync | cudaMemcpy2DFromArrayAsync_ptsz => (address: u64, pitch: usize, array: Handle, x: usize, y: usize, width: usize, height: usize, kind: u32, on: Handle) {
        let (direction, on) = (from_array(kind)?, stream(on));
        rows(Side::Memory { address, pitch }, Side::Array { array, x, y }, (width, height), direction, Some(on))
    }
}

api! {
    /// Copies rows between arrays.
    fn cudaMemcpy2DArrayToArray | cudaMemcpy2DArrayToArray_ptds => (to: Handle, to_x: usize, to_y: usize, from: Handle, from_x: usize, from_y: usize, width: usize, height: usize, kind: u32) {
        let direction = between_arrays(kind)?;
        let (to, from) = (Side::Array { array: to, x: to_x, y: to_y }, Side::Array { array: from, x: from_x, y: from_y });
        now(|on| rows(to, from, (width, height), direction, on))
    }
}

/// A rectangle of an array, and the first byte of the linear memory that it corresponds to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    x: usize,
    y: usize,
    width: usize,
    height: usize,
    offset: usize,
}

/// The rectangles of bytes that continue in the next row: the rest of the first row, whole rows, and the start of the last row.
/// `row` and `height` are the size of the array in bytes and rows.
fn parts(row: usize, height: usize, x: usize, y: usize, count: usize) -> Answer<Vec<Part>> {
    let end = y.checked_mul(row).and_then(|bytes| bytes.checked_add(x)?.checked_add(count));
    let room = row.checked_mul(height).ok_or(Error::INVALID_VALUE)?;
    if x >= row || end.is_none_or(|end| end > room) {
        return Err(Error::INVALID_VALUE);
    }
    let first = count.min(row - x);
    let (whole, last) = ((count - first) / row, (count - first) % row);
    let all = [
        Part { x, y, width: first, height: 1, offset: 0 },
        Part { x: 0, y: y + 1, width: row, height: whole, offset: first },
        Part { x: 0, y: y + 1 + whole, width: last, height: 1, offset: count - last },
    ];
    Ok(all.into_iter().filter(|part| part.width > 0 && part.height > 0).collect())
}

/// Bytes of a row of an array, and its rows. Arrays with slices have no order of bytes.
fn size(array: Handle) -> Answer<(usize, usize)> {
    let found = described(array)?;
    if found.depth > 0 {
        return Err(Error::INVALID_VALUE);
    }
    let element = ChannelDescriptor::new(found.format, found.channels)?.bytes();
    Ok((found.width.checked_mul(element).ok_or(Error::INVALID_VALUE)?, found.height.max(1)))
}

/// Copies bytes between linear memory and an array, with `memory` and `array` in the order of [`rows`].
fn bytes(
    (address, array): (u64, Handle),
    (x, y): (usize, usize),
    count: usize,
    direction: Direction,
    into_array: bool,
    on: Option<Handle>,
) -> Answer {
    let (row, height) = size(array)?;
    for part in parts(row, height, x, y, count)? {
        let offset = u64::try_from(part.offset).map_err(|_| Error::INVALID_VALUE)?;
        let address = address.checked_add(offset).ok_or(Error::INVALID_VALUE)?;
        let memory = Side::Memory { address, pitch: part.width };
        let texels = Side::Array { array, x: part.x, y: part.y };
        let (to, from) = if into_array { (texels, memory) } else { (memory, texels) };
        rows(to, from, (part.width, part.height), direction, on)?;
    }
    Ok(())
}

api! {
    /// Copies bytes to an array; they continue in the next row.
    fn cudaMemcpyToArray | cudaMemcpyToArray_ptds => (array: Handle, x: usize, y: usize, address: u64, count: usize, kind: u32) {
        let direction = to_array(kind)?;
        now(|on| bytes((address, array), (x, y), count, direction, true, on))
    }
}

api! {
    /// Copies bytes to an array in stream order.
    fn cudaMemcpyToArrayAsync | cudaMemcpyToArrayAsync_ptsz => (array: Handle, x: usize, y: usize, address: u64, count: usize, kind: u32, on: Handle) {
        let (direction, on) = (to_array(kind)?, stream(on));
        bytes((address, array), (x, y), count, direction, true, Some(on))
    }
}

api! {
    /// Copies bytes from an array; they continue in the next row.
    fn cudaMemcpyFromArray | cudaMemcpyFromArray_ptds => (address: u64, array: Handle, x: usize, y: usize, count: usize, kind: u32) {
        let direction = from_array(kind)?;
        now(|on| bytes((address, array), (x, y), count, direction, false, on))
    }
}

api! {
    /// Copies bytes from an array in stream order.
    fn cudaMemcpyFromArrayAsync | cudaMemcpyFromArrayAsync_ptsz => (address: u64, array: Handle, x: usize, y: usize, count: usize, kind: u32, on: Handle) {
        let (direction, on) = (from_array(kind)?, stream(on));
        bytes((address, array), (x, y), count, direction, false, Some(on))
    }
}

api! {
    /// Copies bytes between arrays; they continue in the next row of each.
    fn cudaMemcpyArrayToArray | cudaMemcpyArrayToArray_ptds => (to: Handle, to_x: usize, to_y: usize, from: Handle, from_x: usize, from_y: usize, count: usize, kind: u32) {
        let direction = between_arrays(kind)?;
        let ((to_row, to_height), (from_row, from_height)) = (size(to)?, size(from)?);
        // Both ranges are inside of their arrays, so the numbers below stay small.
        parts(to_row, to_height, to_x, to_y, count)?;
        parts(from_row, from_height, from_x, from_y, count)?;
        now(|on| {
            let (mut target, mut source, mut left) = (to_y * to_row + to_x, from_y * from_row + from_x, count);
            while left > 0 {
                let width = left.min(to_row - target % to_row).min(from_row - source % from_row);
                let to = Side::Array { array: to, x: target % to_row, y: target / to_row };
                let from = Side::Array { array: from, x: source % from_row, y: source / from_row };
                rows(to, from, (width, 1), direction, on)?;
                (target, source, left) = (target + width, source + width, left - width);
            }
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_continue_in_the_next_row_and_end_with_the_array() {
        let part = |x, y, width, height, offset| Part { x, y, width, height, offset };
        assert_eq!(parts(10, 4, 3, 0, 5).unwrap(), [part(3, 0, 5, 1, 0)]);
        assert_eq!(
            parts(10, 4, 3, 0, 29).unwrap(),
            [part(3, 0, 7, 1, 0), part(0, 1, 10, 2, 7), part(0, 3, 2, 1, 27)]
        );
        assert_eq!(parts(10, 4, 0, 2, 20).unwrap(), [part(0, 2, 10, 1, 0), part(0, 3, 10, 1, 10)]);
        assert_eq!(parts(10, 4, 0, 0, 0).unwrap(), []);
        for (x, y, count) in [(10, 0, 1), (0, 4, 1), (1, 0, 40), (0, usize::MAX, 1), (0, 0, usize::MAX)] {
            assert_eq!(parts(10, 4, x, y, count), Err(Error::INVALID_VALUE));
        }
    }
}
