//! Arrays, mipmapped arrays, texture objects and surface objects.

use std::ffi::{c_int, c_void};

use super::copy::{NULL, line, on_device, on_host};
use super::{In, Out, driver, handle, idle, number};
use crate::abi::{Answer, Error, Handle};
use crate::array::{
    Array3dDescriptor, ArrayDescriptor, ResourceDescriptor, TextureDescriptor, ViewDescriptor,
};
use crate::memory::End;

/// Reports what of a function is not supported, if that is its answer.
fn known<T>(name: &str, answer: Answer<T>) -> Answer<T> {
    if matches!(answer, Err(Error::NOT_SUPPORTED)) {
        driver().report.unsupported(name);
    }
    answer
}

fn create(place: Out<Handle>, descriptor: &Array3dDescriptor, levels: Option<u32>) -> Answer {
    if place.is_null() {
        return Err(Error::INVALID_VALUE);
    }
    let created = driver().create_array(descriptor, levels);
    place.put(handle(known("an array of this format or with these flags", created)?))
}

api! {
    /// Creates an array of one or two dimensions.
    fn cuArrayCreate_v2 => (place: Out<Handle>, descriptor: In<ArrayDescriptor>) {
        let ArrayDescriptor { width, height, format, channels } = descriptor.get()?;
        create(place, &Array3dDescriptor { width, height, depth: 0, format, channels, flags: 0 }, None)
    }
}

api! {
    /// Creates an array.
    fn cuArray3DCreate_v2 => (place: Out<Handle>, descriptor: In<Array3dDescriptor>) {
        create(place, &descriptor.get()?, None)
    }
}

api! {
    /// Describes an array of one or two dimensions.
    fn cuArrayGetDescriptor_v2 => (place: Out<ArrayDescriptor>, array: Handle) {
        let Array3dDescriptor { width, height, format, channels, .. } = driver().array(number(array))?.descriptor;
        place.put(ArrayDescriptor { width, height, format, channels })
    }
}

api! {
    /// Describes an array.
    fn cuArray3DGetDescriptor_v2 => (place: Out<Array3dDescriptor>, array: Handle) {
        let descriptor = driver().array(number(array))?.descriptor;
        place.put(descriptor)
    }
}

api! {
    /// Destroys an array.
    fn cuArrayDestroy => (array: Handle) {
        idle().destroy_array(number(array), false)
    }
}

api! {
    /// Creates a mipmapped array.
    fn cuMipmappedArrayCreate => (place: Out<Handle>, descriptor: In<Array3dDescriptor>, levels: u32) {
        create(place, &descriptor.get()?, Some(levels))
    }
}

api! {
    /// A level of a mipmapped array, as an array.
    fn cuMipmappedArrayGetLevel => (place: Out<Handle>, array: Handle, level: u32) {
        let found = driver().array_level(number(array), level)?;
        place.put(handle(found))
    }
}

api! {
    /// Destroys a mipmapped array and its levels.
    fn cuMipmappedArrayDestroy => (array: Handle) {
        idle().destroy_array(number(array), true)
    }
}

api! {
    /// Creates a texture object.
    fn cuTexObjectCreate => (place: Out<u64>, resource: In<ResourceDescriptor>, texture: In<TextureDescriptor>, view: In<ViewDescriptor>) {
        if place.is_null() {
            return Err(Error::INVALID_VALUE);
        }
        let view = if view.is_null() { None } else { Some(view.get()?) };
        let (resource, texture) = (resource.get()?, texture.get()?);
        let created = driver().create_texture(&resource, &texture, view);
        place.put(known("a texture object of this format or with these flags", created)?)
    }
}

api! {
    /// Destroys a texture object.
    fn cuTexObjectDestroy => (texture: u64) {
        idle().destroy_texture(texture)
    }
}

api! {
    /// What a texture object reads.
    fn cuTexObjectGetResourceDesc => (place: Out<ResourceDescriptor>, texture: u64) {
        let (resource, _, _) = driver().texture(texture)?;
        place.put(resource)
    }
}

api! {
    /// How a texture object reads.
    fn cuTexObjectGetTextureDesc => (place: Out<TextureDescriptor>, texture: u64) {
        let (_, texture, _) = driver().texture(texture)?;
        place.put(texture)
    }
}

api! {
    /// The view of a texture object; an error if it has none.
    fn cuTexObjectGetResourceViewDesc => (place: Out<ViewDescriptor>, texture: u64) {
        let (_, _, view) = driver().texture(texture)?;
        place.put(view.ok_or(Error::INVALID_VALUE)?)
    }
}

api! {
    /// Creates a surface object.
    fn cuSurfObjectCreate => (place: Out<u64>, resource: In<ResourceDescriptor>) {
        if place.is_null() {
            return Err(Error::INVALID_VALUE);
        }
        let resource = resource.get()?;
        let created = driver().create_surface(&resource)?;
        place.put(created)
    }
}

api! {
    /// Destroys a surface object.
    fn cuSurfObjectDestroy => (surface: u64) {
        idle().destroy_surface(surface)
    }
}

api! {
    /// What a surface object accesses.
    fn cuSurfObjectGetResourceDesc => (place: Out<ResourceDescriptor>, surface: u64) {
        let resource = driver().surface(surface)?;
        place.put(resource)
    }
}

api! {
    /// The most texels of a texture over linear memory.
    fn cuDeviceGetTexture1DLinearMaxWidth => (place: Out<usize>, _format: u32, _channels: u32, device: c_int) {
        driver().device(device)?;
        place.put(1 << 28)
    }
}

/// A row of an array from a byte on.
fn row(array: Handle, offset: usize, bytes: usize) -> Answer<End> {
    driver().array_end(number(array), [offset, 0, 0], [bytes, 1, 1])
}

api! {
    /// Copies from device memory to the first row of an array.
    fn cuMemcpyDtoA_v2 | cuMemcpyDtoA_v2_ptds => (to: Handle, offset: usize, from: u64, bytes: usize) {
        line(NULL, row(to, offset, bytes)?, on_device(from), bytes)
    }
}

api! {
    /// Copies from the first row of an array to device memory.
    fn cuMemcpyAtoD_v2 | cuMemcpyAtoD_v2_ptds => (to: u64, from: Handle, offset: usize, bytes: usize) {
        line(NULL, on_device(to), row(from, offset, bytes)?, bytes)
    }
}

api! {
    /// Copies from host memory to the first row of an array.
    fn cuMemcpyHtoA_v2 | cuMemcpyHtoA_v2_ptds => (to: Handle, offset: usize, from: *const c_void, bytes: usize) {
        line(NULL, row(to, offset, bytes)?, on_host(from), bytes)
    }
}

api! {
    /// Copies from host memory to the first row of an array, in stream order.
    fn cuMemcpyHtoAAsync_v2 | cuMemcpyHtoAAsync_v2_ptsz => (to: Handle, offset: usize, from: *const c_void, bytes: usize, stream: Handle) {
        line(stream, row(to, offset, bytes)?, on_host(from), bytes)
    }
}

api! {
    /// Copies from the first row of an array to host memory.
    fn cuMemcpyAtoH_v2 | cuMemcpyAtoH_v2_ptds => (to: *mut c_void, from: Handle, offset: usize, bytes: usize) {
        line(NULL, on_host(to), row(from, offset, bytes)?, bytes)
    }
}

api! {
    /// Copies from the first row of an array to host memory, in stream order.
    fn cuMemcpyAtoHAsync_v2 | cuMemcpyAtoHAsync_v2_ptsz => (to: *mut c_void, from: Handle, offset: usize, bytes: usize, stream: Handle) {
        line(stream, on_host(to), row(from, offset, bytes)?, bytes)
    }
}

api! {
    /// Copies between the first rows of two arrays.
    fn cuMemcpyAtoA_v2 | cuMemcpyAtoA_v2_ptds => (to: Handle, to_offset: usize, from: Handle, from_offset: usize, bytes: usize) {
        line(NULL, row(to, to_offset, bytes)?, row(from, from_offset, bytes)?, bytes)
    }
}
