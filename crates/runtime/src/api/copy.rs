//! Copies and memsets of linear memory.

use std::ffi::c_int;

use warpproof_driver::abi::{Answer, Copy2d, Copy3d, Error, Handle};
use warpproof_driver::api::In;

use super::{PER_THREAD, context, handle, input, primary, stream};
use crate::abi::{Copy3dParms, Extent, PeerCopy3dParms, PitchedPointer};
use crate::error::{INVALID_MEMCPY_DIRECTION, INVALID_PITCH_VALUE};

/// `cudaMemcpyKind`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    HostToHost,
    HostToDevice,
    DeviceToHost,
    DeviceToDevice,
    /// The addresses show where the memory is.
    Default,
}

impl Direction {
    pub(super) fn new(kind: u32) -> Answer<Direction> {
        Ok(match kind {
            0 => Direction::HostToHost,
            1 => Direction::HostToDevice,
            2 => Direction::DeviceToHost,
            3 => Direction::DeviceToDevice,
            4 => Direction::Default,
            _ => return Err(INVALID_MEMCPY_DIRECTION),
        })
    }

    /// `CUmemorytype` of source and destination.
    pub(super) fn types(self) -> (u32, u32) {
        let (host, device, unified) = (1, 2, 4);
        match self {
            Direction::HostToHost => (host, host),
            Direction::HostToDevice => (host, device),
            Direction::DeviceToHost => (device, host),
            Direction::DeviceToDevice => (device, device),
            Direction::Default => (unified, unified),
        }
    }
}

/// The stream of a call without one, if it is not the legacy default stream.
pub(super) fn own_stream() -> Option<Handle> {
    PER_THREAD.get().then(|| stream(std::ptr::null_mut()))
}

/// Runs work in the default stream of the call's kind and waits for it.
pub(super) fn wait(on: Handle, submitted: Answer) -> Answer {
    submitted?;
    cu!(cuStreamSynchronize(on))
}

fn host(address: u64) -> *mut std::ffi::c_void {
    std::ptr::with_exposed_provenance_mut(usize::try_from(address).unwrap_or(0))
}

/// Copies bytes and waits.
pub(super) fn copy(to: u64, from: u64, count: usize, direction: Direction) -> Answer {
    if let Some(on) = own_stream() {
        return wait(on, copy_async(to, from, count, direction, on));
    }
    context()?;
    if count == 0 {
        return Ok(());
    }
    match direction {
        Direction::HostToHost => rows(to, count, from, count, count, 1, direction, None),
        Direction::HostToDevice => cu!(cuMemcpyHtoD_v2(to, host(from), count)),
        Direction::DeviceToHost => cu!(cuMemcpyDtoH_v2(host(to), from, count)),
        Direction::DeviceToDevice => cu!(cuMemcpyDtoD_v2(to, from, count)),
        Direction::Default => cu!(cuMemcpy(to, from, count)),
    }
}

/// Copies bytes in stream order.
pub(super) fn copy_async(to: u64, from: u64, count: usize, direction: Direction, on: Handle) -> Answer {
    context()?;
    if count == 0 {
        return Ok(());
    }
    match direction {
        Direction::HostToHost => rows(to, count, from, count, count, 1, direction, Some(on)),
        Direction::HostToDevice => cu!(cuMemcpyHtoDAsync_v2(to, host(from), count, on)),
        Direction::DeviceToHost => cu!(cuMemcpyDtoHAsync_v2(host(to), from, count, on)),
        Direction::DeviceToDevice => cu!(cuMemcpyDtoDAsync_v2(to, from, count, on)),
        Direction::Default => cu!(cuMemcpyAsync(to, from, count, on)),
    }
}

/// Copies rows: in stream order, or in the default stream.
#[expect(clippy::too_many_arguments, reason = "those of the C function")]
fn rows(
    to: u64,
    target_pitch: usize,
    from: u64,
    source_pitch: usize,
    width: usize,
    height: usize,
    direction: Direction,
    on: Option<Handle>,
) -> Answer {
    context()?;
    if width == 0 || height == 0 {
        return Ok(());
    }
    if target_pitch < width || source_pitch < width {
        return Err(INVALID_PITCH_VALUE);
    }
    let (source_type, target_type) = direction.types();
    let copy = Copy2d {
        source_x: 0,
        source_y: 0,
        source_type,
        source_host: from,
        source_device: from,
        source_array: 0,
        source_pitch,
        target_x: 0,
        target_y: 0,
        target_type,
        target_host: to,
        target_device: to,
        target_array: 0,
        target_pitch,
        width,
        height,
    };
    match on {
        Some(on) => cu!(cuMemcpy2DAsync_v2(input(&copy), on)),
        None => cu!(cuMemcpy2D_v2(input(&copy))),
    }
}

api! {
    /// Copies bytes.
    fn cudaMemcpy | cudaMemcpy_ptds => (to: u64, from: u64, count: usize, kind: u32) {
        copy(to, from, count, Direction::new(kind)?)
    }
}

api! {
    /// Copies bytes in stream order.
    fn cudaMemcpyAsync | cudaMemcpyAsync_ptsz => (to: u64, from: u64, count: usize, kind: u32, on: Handle) {
        let on = stream(on);
        copy_async(to, from, count, Direction::new(kind)?, on)
    }
}

api! {
    /// Copies rows.
    fn cudaMemcpy2D | cudaMemcpy2D_ptds => (to: u64, target_pitch: usize, from: u64, source_pitch: usize, width: usize, height: usize, kind: u32) {
        let direction = Direction::new(kind)?;
        let on = own_stream();
        let submitted = rows(to, target_pitch, from, source_pitch, width, height, direction, on);
        on.map_or(submitted, |on| wait(on, submitted))
    }
}

api! {
    /// Copies rows in stream order.
    fn cudaMemcpy2DAsync | cudaMemcpy2DAsync_ptsz => (to: u64, target_pitch: usize, from: u64, source_pitch: usize, width: usize, height: usize, kind: u32, on: Handle) {
        let on = stream(on);
        rows(to, target_pitch, from, source_pitch, width, height, Direction::new(kind)?, Some(on))
    }
}

/// The driver's description of a 3D copy. `None` if there is nothing to copy.
pub(super) fn slices(parms: &Copy3dParms) -> Answer<Option<Copy3d>> {
    let Extent { width, height, depth } = parms.extent;
    if width == 0 || height == 0 || depth == 0 {
        return Ok(None);
    }
    // Either an array or linear memory, on both sides.
    if (parms.source_array != 0) == (parms.source.address != 0)
        || (parms.target_array != 0) == (parms.target.address != 0)
    {
        return Err(Error::INVALID_VALUE);
    }
    let (mut source_type, mut target_type) = Direction::new(parms.kind)?.types();
    let array = 3;
    // The width of a row counts elements if an array takes part; positions in it do too.
    let mut element = 1;
    if parms.source_array != 0 {
        source_type = array;
        element = super::array::element_of(parms.source_array)?;
    }
    if parms.target_array != 0 {
        target_type = array;
        let size = super::array::element_of(parms.target_array)?;
        if parms.source_array != 0 && size != element {
            return Err(Error::INVALID_VALUE);
        }
        element = size;
    }
    let bytes = |elements: usize, size: usize| elements.checked_mul(size).ok_or(Error::INVALID_VALUE);
    let source_element = if parms.source_array == 0 { 1 } else { element };
    let target_element = if parms.target_array == 0 { 1 } else { element };
    Ok(Some(Copy3d {
        source_x: bytes(parms.source_position.x, source_element)?,
        source_y: parms.source_position.y,
        source_z: parms.source_position.z,
        source_lod: 0,
        source_type,
        source_host: parms.source.address,
        source_device: parms.source.address,
        source_array: parms.source_array,
        source_context: 0,
        source_pitch: parms.source.pitch,
        source_height: parms.source.height,
        target_x: bytes(parms.target_position.x, target_element)?,
        target_y: parms.target_position.y,
        target_z: parms.target_position.z,
        target_lod: 0,
        target_type,
        target_host: parms.target.address,
        target_device: parms.target.address,
        target_array: parms.target_array,
        target_context: 0,
        target_pitch: parms.target.pitch,
        target_height: parms.target.height,
        width: bytes(width, element)?,
        height,
        depth,
    }))
}

/// Copies slices of rows: in stream order, or in the default stream.
pub(super) fn copy_slices(copy: Option<Copy3d>, on: Option<Handle>) -> Answer {
    context()?;
    let Some(copy) = copy else { return Ok(()) };
    match on {
        Some(on) => cu!(cuMemcpy3DAsync_v2(input(&copy), on)),
        None => cu!(cuMemcpy3D_v2(input(&copy))),
    }
}

api! {
    /// Copies slices of rows.
    fn cudaMemcpy3D | cudaMemcpy3D_ptds => (parms: In<Copy3dParms>) {
        let on = own_stream();
        let submitted = copy_slices(slices(&parms.get()?)?, on);
        on.map_or(submitted, |on| wait(on, submitted))
    }
}

api! {
    /// Copies slices of rows in stream order.
    fn cudaMemcpy3DAsync | cudaMemcpy3DAsync_ptsz => (parms: In<Copy3dParms>, on: Handle) {
        let on = stream(on);
        copy_slices(slices(&parms.get()?)?, Some(on))
    }
}

/// The driver's description of a 3D copy between devices.
fn peer_slices(parms: &PeerCopy3dParms) -> Answer<Option<Copy3d>> {
    context()?;
    let (source, target) = (primary(parms.source_device)?, primary(parms.target_device)?);
    let copy = slices(&Copy3dParms {
        source_array: parms.source_array,
        source_position: parms.source_position,
        source: parms.source,
        target_array: parms.target_array,
        target_position: parms.target_position,
        target: parms.target,
        extent: parms.extent,
        kind: 3,
    })?;
    Ok(copy.map(|copy| Copy3d { source_context: source, target_context: target, ..copy }))
}

api! {
    /// Copies slices of rows between devices.
    fn cudaMemcpy3DPeer | cudaMemcpy3DPeer_ptds => (parms: In<PeerCopy3dParms>) {
        let copy = peer_slices(&parms.get()?)?;
        let Some(copy) = copy else { return Ok(()) };
        match own_stream() {
            Some(on) => wait(on, cu!(cuMemcpy3DPeerAsync(input(&copy), on))),
            None => cu!(cuMemcpy3DPeer(input(&copy))),
        }
    }
}

api! {
    /// Copies slices of rows between devices in stream order.
    fn cudaMemcpy3DPeerAsync | cudaMemcpy3DPeerAsync_ptsz => (parms: In<PeerCopy3dParms>, on: Handle) {
        let on = stream(on);
        let copy = peer_slices(&parms.get()?)?;
        let Some(copy) = copy else { return Ok(()) };
        cu!(cuMemcpy3DPeerAsync(input(&copy), on))
    }
}

api! {
    /// Copies bytes between devices.
    fn cudaMemcpyPeer => (to: u64, target_device: c_int, from: u64, source_device: c_int, count: usize) {
        context()?;
        let (target, source) = (handle(primary(target_device)?), handle(primary(source_device)?));
        if count == 0 {
            return Ok(());
        }
        cu!(cuMemcpyPeer(to, target, from, source, count))
    }
}

api! {
    /// Copies bytes between devices in stream order.
    fn cudaMemcpyPeerAsync => (to: u64, target_device: c_int, from: u64, source_device: c_int, count: usize, on: Handle) {
        let on = stream(on);
        context()?;
        let (target, source) = (handle(primary(target_device)?), handle(primary(source_device)?));
        if count == 0 {
            return Ok(());
        }
        cu!(cuMemcpyPeerAsync(to, target, from, source, count, on))
    }
}

/// The byte that a memset writes: the lowest of the program's number.
fn byte(value: c_int) -> u8 {
    value.to_le_bytes()[0]
}

api! {
    /// Sets bytes.
    fn cudaMemset | cudaMemset_ptds => (target: u64, value: c_int, count: usize) {
        context()?;
        match own_stream() {
            _ if count == 0 => Ok(()),
            Some(on) => wait(on, cu!(cuMemsetD8Async(target, byte(value), count, on))),
            None => cu!(cuMemsetD8_v2(target, byte(value), count)),
        }
    }
}

api! {
    /// Sets bytes in stream order.
    fn cudaMemsetAsync | cudaMemsetAsync_ptsz => (target: u64, value: c_int, count: usize, on: Handle) {
        let on = stream(on);
        context()?;
        if count == 0 {
            return Ok(());
        }
        cu!(cuMemsetD8Async(target, byte(value), count, on))
    }
}

/// Sets slices of rows, in stream order or in the default stream.
fn set(pointer: PitchedPointer, value: c_int, extent: Extent, on: Option<Handle>) -> Answer {
    context()?;
    let Extent { width, height, depth } = extent;
    if width == 0 || height == 0 || depth == 0 {
        return Ok(());
    }
    let slice = pointer.pitch.checked_mul(pointer.height).and_then(|bytes| u64::try_from(bytes).ok());
    let mut address = pointer.address;
    for index in 0..depth {
        if index > 0 {
            let next = slice.filter(|slice| *slice > 0).and_then(|slice| address.checked_add(slice));
            address = next.ok_or(Error::INVALID_VALUE)?;
        }
        match on {
            Some(on) => cu!(cuMemsetD2D8Async(address, pointer.pitch, byte(value), width, height, on))?,
            None => cu!(cuMemsetD2D8_v2(address, pointer.pitch, byte(value), width, height))?,
        }
    }
    Ok(())
}

api! {
    /// Sets rows of bytes.
    fn cudaMemset2D | cudaMemset2D_ptds => (address: u64, pitch: usize, value: c_int, width: usize, height: usize) {
        let on = own_stream();
        let submitted = set(PitchedPointer { address, pitch, width, height }, value, Extent { width, height, depth: 1 }, on);
        on.map_or(submitted, |on| wait(on, submitted))
    }
}

api! {
    /// Sets rows of bytes in stream order.
    fn cudaMemset2DAsync | cudaMemset2DAsync_ptsz => (address: u64, pitch: usize, value: c_int, width: usize, height: usize, on: Handle) {
        let on = stream(on);
        set(PitchedPointer { address, pitch, width, height }, value, Extent { width, height, depth: 1 }, Some(on))
    }
}

api! {
    /// Sets slices of rows.
    fn cudaMemset3D | cudaMemset3D_ptds => (pointer: PitchedPointer, value: c_int, extent: Extent) {
        let on = own_stream();
        let submitted = set(pointer, value, extent, on);
        on.map_or(submitted, |on| wait(on, submitted))
    }
}

api! {
    /// Sets slices of rows in stream order.
    fn cudaMemset3DAsync | cudaMemset3DAsync_ptsz => (pointer: PitchedPointer, value: c_int, extent: Extent, on: Handle) {
        let on = stream(on);
        set(pointer, value, extent, Some(on))
    }
}
