//! Copies and memsets.

use std::ffi::c_void;

use super::{In, address, driver, number, submit};
use crate::abi::{Answer, Copy2d, Copy3d, Error, Handle};
use crate::memory::{End, Memcpy, Memset, Side, wide};
use crate::work::Work;

/// Copies one row.
pub(super) fn line(stream: Handle, to: End, from: End, bytes: usize) -> Answer {
    submit(stream, Work::Copy(Memcpy { from, to, width: bytes, height: 1, depth: 1 }))
}

/// A row of device memory.
pub(super) fn on_device(address: u64) -> End {
    End::line(Side::Device, address)
}

/// A row of the program's memory.
pub(super) fn on_host(pointer: *const c_void) -> End {
    End::line(Side::Host, address(pointer))
}

pub(super) const NULL: Handle = std::ptr::null_mut();

api! {
    /// Copies between any two memories.
    fn cuMemcpy | cuMemcpy_ptds => (to: u64, from: u64, bytes: usize) {
        line(NULL, End::line(Side::Either, to), End::line(Side::Either, from), bytes)
    }
}

api! {
    /// Copies between any two memories, in stream order.
    fn cuMemcpyAsync | cuMemcpyAsync_ptsz => (to: u64, from: u64, bytes: usize, stream: Handle) {
        line(stream, End::line(Side::Either, to), End::line(Side::Either, from), bytes)
    }
}

/// Whether the contexts of a copy exist. The addresses alone determine the memory.
fn exist(contexts: [Handle; 2]) -> Answer {
    let driver = driver();
    contexts.into_iter().try_for_each(|context| driver.context(number(context)).map(drop))
}

api! {
    /// Copies from one context to another.
    fn cuMemcpyPeer | cuMemcpyPeer_ptds => (to: u64, to_context: Handle, from: u64, from_context: Handle, bytes: usize) {
        exist([to_context, from_context])?;
        line(NULL, on_device(to), on_device(from), bytes)
    }
}

api! {
    /// Copies from one context to another, in stream order.
    fn cuMemcpyPeerAsync | cuMemcpyPeerAsync_ptsz => (to: u64, to_context: Handle, from: u64, from_context: Handle, bytes: usize, stream: Handle) {
        exist([to_context, from_context])?;
        line(stream, on_device(to), on_device(from), bytes)
    }
}

api! {
    /// Copies from host to device.
    fn cuMemcpyHtoD_v2 | cuMemcpyHtoD_v2_ptds => (to: u64, from: *const c_void, bytes: usize) {
        line(NULL, on_device(to), on_host(from), bytes)
    }
}

api! {
    /// Copies from host to device, in stream order.
    fn cuMemcpyHtoDAsync_v2 | cuMemcpyHtoDAsync_v2_ptsz => (to: u64, from: *const c_void, bytes: usize, stream: Handle) {
        line(stream, on_device(to), on_host(from), bytes)
    }
}

api! {
    /// Copies from device to host.
    fn cuMemcpyDtoH_v2 | cuMemcpyDtoH_v2_ptds => (to: *mut c_void, from: u64, bytes: usize) {
        line(NULL, on_host(to), on_device(from), bytes)
    }
}

api! {
    /// Copies from device to host, in stream order.
    fn cuMemcpyDtoHAsync_v2 | cuMemcpyDtoHAsync_v2_ptsz => (to: *mut c_void, from: u64, bytes: usize, stream: Handle) {
        line(stream, on_host(to), on_device(from), bytes)
    }
}

api! {
    /// Copies within device memory.
    fn cuMemcpyDtoD_v2 | cuMemcpyDtoD_v2_ptds => (to: u64, from: u64, bytes: usize) {
        line(NULL, on_device(to), on_device(from), bytes)
    }
}

api! {
    /// Copies within device memory, in stream order.
    fn cuMemcpyDtoDAsync_v2 | cuMemcpyDtoDAsync_v2_ptsz => (to: u64, from: u64, bytes: usize, stream: Handle) {
        line(stream, on_device(to), on_device(from), bytes)
    }
}

/// One side of a 2D or 3D copy: memory type, base address and offsets.
struct Origin {
    kind: u32,
    host: u64,
    device: u64,
    array: u64,
    /// Bytes, rows and slices of the copy.
    size: [usize; 3],
    pitch: usize,
    rows: usize,
    skip: [usize; 3],
}

fn end(origin: &Origin) -> Answer<End> {
    // `CUmemorytype`: host, device, array, unified.
    let (side, base) = match origin.kind {
        1 => (Side::Host, origin.host),
        2 => (Side::Device, origin.device),
        4 => (Side::Either, origin.device),
        3 => return driver().array_end(origin.array, origin.skip, origin.size),
        _ => return Err(Error::INVALID_VALUE),
    };
    let [x, y, z] = origin.skip.map(wide);
    let pitch = wide(origin.pitch);
    let slice = pitch.checked_mul(wide(origin.rows)).ok_or(Error::INVALID_VALUE)?;
    let skip =
        z.checked_mul(slice).zip(y.checked_mul(pitch)).and_then(|(a, b)| a.checked_add(b)?.checked_add(x));
    let address = skip.and_then(|skip| base.checked_add(skip)).ok_or(Error::INVALID_VALUE)?;
    Ok(End { side, address, pitch, slice })
}

/// Converts a 2D copy.
pub(super) fn rows(copy: &Copy2d) -> Answer<Work> {
    let or_width = |pitch: usize| if pitch == 0 { copy.width } else { pitch };
    let from = end(&Origin {
        kind: copy.source_type,
        host: copy.source_host,
        device: copy.source_device,
        array: copy.source_array,
        size: [copy.width, copy.height, 1],
        pitch: or_width(copy.source_pitch),
        rows: 0,
        skip: [copy.source_x, copy.source_y, 0],
    })?;
    let to = end(&Origin {
        kind: copy.target_type,
        host: copy.target_host,
        device: copy.target_device,
        array: copy.target_array,
        size: [copy.width, copy.height, 1],
        pitch: or_width(copy.target_pitch),
        rows: 0,
        skip: [copy.target_x, copy.target_y, 0],
    })?;
    if from.pitch < wide(copy.width) || to.pitch < wide(copy.width) {
        return Err(Error::INVALID_VALUE);
    }
    Ok(Work::Copy(Memcpy { from, to, width: copy.width, height: copy.height, depth: 1 }))
}

/// Converts a 3D copy.
pub(super) fn slices(copy: &Copy3d) -> Answer<Work> {
    if copy.source_lod != 0 || copy.target_lod != 0 {
        return Err(Error::INVALID_VALUE);
    }
    let or_width = |pitch: usize| if pitch == 0 { copy.width } else { pitch };
    let or_height = |rows: usize| if rows == 0 { copy.height } else { rows };
    let from = end(&Origin {
        kind: copy.source_type,
        host: copy.source_host,
        device: copy.source_device,
        array: copy.source_array,
        size: [copy.width, copy.height, copy.depth],
        pitch: or_width(copy.source_pitch),
        rows: or_height(copy.source_height),
        skip: [copy.source_x, copy.source_y, copy.source_z],
    })?;
    let to = end(&Origin {
        kind: copy.target_type,
        host: copy.target_host,
        device: copy.target_device,
        array: copy.target_array,
        size: [copy.width, copy.height, copy.depth],
        pitch: or_width(copy.target_pitch),
        rows: or_height(copy.target_height),
        skip: [copy.target_x, copy.target_y, copy.target_z],
    })?;
    if from.pitch < wide(copy.width) || to.pitch < wide(copy.width) {
        return Err(Error::INVALID_VALUE);
    }
    Ok(Work::Copy(Memcpy { from, to, width: copy.width, height: copy.height, depth: copy.depth }))
}

api! {
    /// 2D copy.
    fn cuMemcpy2D_v2 | cuMemcpy2D_v2_ptds | cuMemcpy2DUnaligned_v2 | cuMemcpy2DUnaligned_v2_ptds => (copy: In<Copy2d>) {
        submit(NULL, rows(&copy.get()?)?)
    }
}

api! {
    /// 2D copy, in stream order.
    fn cuMemcpy2DAsync_v2 | cuMemcpy2DAsync_v2_ptsz => (copy: In<Copy2d>, stream: Handle) {
        submit(stream, rows(&copy.get()?)?)
    }
}

api! {
    /// 3D copy.
    fn cuMemcpy3D_v2 | cuMemcpy3D_v2_ptds | cuMemcpy3DPeer | cuMemcpy3DPeer_ptds => (copy: In<Copy3d>) {
        submit(NULL, slices(&copy.get()?)?)
    }
}

api! {
    /// 3D copy, in stream order.
    fn cuMemcpy3DAsync_v2 | cuMemcpy3DAsync_v2_ptsz | cuMemcpy3DPeerAsync | cuMemcpy3DPeerAsync_ptsz => (copy: In<Copy3d>, stream: Handle) {
        submit(stream, slices(&copy.get()?)?)
    }
}

fn set(target: u64, value: u32, element: u32, width: usize) -> Work {
    Work::Set(Memset { target, pitch: 0, value, element, width, height: 1 })
}

api! {
    /// Sets bytes.
    fn cuMemsetD8_v2 | cuMemsetD8_v2_ptds => (target: u64, value: u8, count: usize) {
        submit(NULL, set(target, u32::from(value), 1, count))
    }
}

api! {
    /// Sets 16-bit values.
    fn cuMemsetD16_v2 | cuMemsetD16_v2_ptds => (target: u64, value: u16, count: usize) {
        submit(NULL, set(target, u32::from(value), 2, count))
    }
}

api! {
    /// Sets 32-bit values.
    fn cuMemsetD32_v2 | cuMemsetD32_v2_ptds => (target: u64, value: u32, count: usize) {
        submit(NULL, set(target, value, 4, count))
    }
}

api! {
    /// Sets bytes, in stream order.
    fn cuMemsetD8Async | cuMemsetD8Async_ptsz => (target: u64, value: u8, count: usize, stream: Handle) {
        submit(stream, set(target, u32::from(value), 1, count))
    }
}

api! {
    /// Sets 16-bit values, in stream order.
    fn cuMemsetD16Async | cuMemsetD16Async_ptsz => (target: u64, value: u16, count: usize, stream: Handle) {
        submit(stream, set(target, u32::from(value), 2, count))
    }
}

api! {
    /// Sets 32-bit values, in stream order.
    fn cuMemsetD32Async | cuMemsetD32Async_ptsz => (target: u64, value: u32, count: usize, stream: Handle) {
        submit(stream, set(target, value, 4, count))
    }
}

fn set_rows(target: u64, pitch: usize, value: u32, element: u32, width: usize, height: usize) -> Work {
    Work::Set(Memset { target, pitch: wide(pitch), value, element, width, height })
}

api! {
    /// Sets rows of bytes.
    fn cuMemsetD2D8_v2 | cuMemsetD2D8_v2_ptds => (target: u64, pitch: usize, value: u8, width: usize, height: usize) {
        submit(NULL, set_rows(target, pitch, u32::from(value), 1, width, height))
    }
}

api! {
    /// Sets rows of 16-bit values.
    fn cuMemsetD2D16_v2 | cuMemsetD2D16_v2_ptds => (target: u64, pitch: usize, value: u16, width: usize, height: usize) {
        submit(NULL, set_rows(target, pitch, u32::from(value), 2, width, height))
    }
}

api! {
    /// Sets rows of 32-bit values.
    fn cuMemsetD2D32_v2 | cuMemsetD2D32_v2_ptds => (target: u64, pitch: usize, value: u32, width: usize, height: usize) {
        submit(NULL, set_rows(target, pitch, value, 4, width, height))
    }
}

api! {
    /// Sets rows of bytes, in stream order.
    fn cuMemsetD2D8Async | cuMemsetD2D8Async_ptsz => (target: u64, pitch: usize, value: u8, width: usize, height: usize, stream: Handle) {
        submit(stream, set_rows(target, pitch, u32::from(value), 1, width, height))
    }
}

api! {
    /// Sets rows of 16-bit values, in stream order.
    fn cuMemsetD2D16Async | cuMemsetD2D16Async_ptsz => (target: u64, pitch: usize, value: u16, width: usize, height: usize, stream: Handle) {
        submit(stream, set_rows(target, pitch, u32::from(value), 2, width, height))
    }
}

api! {
    /// Sets rows of 32-bit values, in stream order.
    fn cuMemsetD2D32Async | cuMemsetD2D32Async_ptsz => (target: u64, pitch: usize, value: u32, width: usize, height: usize, stream: Handle) {
        submit(stream, set_rows(target, pitch, value, 4, width, height))
    }
}
