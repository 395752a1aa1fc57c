//! Texture objects and surface objects.

use std::ffi::c_int;

use warpproof_driver::abi::{Answer, Error};
use warpproof_driver::api::{In, Out};
use warpproof_driver::array::{ResourceDescriptor, TextureDescriptor, ViewDescriptor};

use super::array::format;
use super::{context, input, out};
use crate::descriptor::{ChannelDescriptor, Resource, Resource13, TextureReading, View, View13};

/// The driver's description of a resource. An unsupported format is reported.
fn driver_resource(resource: Resource, flags: u32) -> Answer<ResourceDescriptor> {
    let converted = resource.to_driver(flags);
    if converted == Err(Error::NOT_SUPPORTED) {
        format(&resource.channels)?;
    }
    converted
}

/// Creates a texture object. The start of the view is the same in both versions.
fn create(
    texture: Out<u64>,
    resource: Resource,
    flags: u32,
    reading: In<TextureReading>,
    view: In<View>,
) -> Answer {
    context()?;
    let resource = driver_resource(resource, flags)?;
    let reading = reading.get()?.to_driver()?;
    if view.is_null() {
        return cu!(cuTexObjectCreate(texture, input(&resource), input(&reading), In::none()));
    }
    let view = view.get()?.to_driver();
    cu!(cuTexObjectCreate(texture, input(&resource), input(&reading), input(&view)))
}

api! {
    /// Creates a texture object.
    fn cudaCreateTextureObject_in12 => (texture: Out<u64>, resource: In<Resource>, reading: In<TextureReading>, view: In<View>) {
        create(texture, resource.get()?, 0, reading, view)
    }
}

api! {
    /// Creates a texture object.
    fn cudaCreateTextureObject_in13 => (texture: Out<u64>, resource: In<Resource13>, reading: In<TextureReading>, view: In<View13>) {
        let resource = resource.get()?;
        create(texture, resource.resource, resource.flags, reading, view.cast())
    }
}

api! {
    /// Destroys a texture object.
    fn cudaDestroyTextureObject => (texture: u64) {
        context()?;
        cu!(cuTexObjectDestroy(texture))
    }
}

/// What a texture object reads, and flags.
fn texture_resource(texture: u64) -> Answer<(Resource, u32)> {
    context()?;
    let mut found = ResourceDescriptor::default();
    cu!(cuTexObjectGetResourceDesc(out(&mut found), texture))?;
    Ok((Resource::from_driver(&found)?, found.flags))
}

fn resource13((resource, flags): (Resource, u32)) -> Resource13 {
    Resource13 { resource, flags, ..Resource13::default() }
}

api! {
    /// What a texture object reads.
    fn cudaGetTextureObjectResourceDesc_in12 => (resource: Out<Resource>, texture: u64) {
        resource.put(texture_resource(texture)?.0)
    }
}

api! {
    /// What a texture object reads.
    fn cudaGetTextureObjectResourceDesc_in13 => (resource: Out<Resource13>, texture: u64) {
        resource.put(resource13(texture_resource(texture)?))
    }
}

api! {
    /// How a texture object reads.
    fn cudaGetTextureObjectTextureDesc => (reading: Out<TextureReading>, texture: u64) {
        context()?;
        let mut found = TextureDescriptor::default();
        cu!(cuTexObjectGetTextureDesc(out(&mut found), texture))?;
        reading.put(TextureReading::from_driver(&found))
    }
}

/// The view of a texture object; an error if it has none.
fn texture_view(texture: u64) -> Answer<View> {
    context()?;
    let mut found = ViewDescriptor::default();
    cu!(cuTexObjectGetResourceViewDesc(out(&mut found), texture))?;
    Ok(View::from_driver(&found))
}

api! {
    /// The view of a texture object.
    fn cudaGetTextureObjectResourceViewDesc_in12 => (view: Out<View>, texture: u64) {
        view.put(texture_view(texture)?)
    }
}

api! {
    /// The view of a texture object.
    fn cudaGetTextureObjectResourceViewDesc_in13 => (view: Out<View13>, texture: u64) {
        view.put(View13 { view: texture_view(texture)?, ..View13::default() })
    }
}

fn create_surface(surface: Out<u64>, resource: Resource, flags: u32) -> Answer {
    context()?;
    let resource = driver_resource(resource, flags)?;
    cu!(cuSurfObjectCreate(surface, input(&resource)))
}

api! {
    /// Creates a surface object.
    fn cudaCreateSurfaceObject_in12 => (surface: Out<u64>, resource: In<Resource>) {
        create_surface(surface, resource.get()?, 0)
    }
}

api! {
    /// Creates a surface object.
    fn cudaCreateSurfaceObject_in13 => (surface: Out<u64>, resource: In<Resource13>) {
        let resource = resource.get()?;
        create_surface(surface, resource.resource, resource.flags)
    }
}

api! {
    /// Destroys a surface object.
    fn cudaDestroySurfaceObject => (surface: u64) {
        context()?;
        cu!(cuSurfObjectDestroy(surface))
    }
}

/// What a surface object accesses, and flags.
fn surface_resource(surface: u64) -> Answer<(Resource, u32)> {
    context()?;
    let mut found = ResourceDescriptor::default();
    cu!(cuSurfObjectGetResourceDesc(out(&mut found), surface))?;
    Ok((Resource::from_driver(&found)?, found.flags))
}

api! {
    /// What a surface object accesses.
    fn cudaGetSurfaceObjectResourceDesc_in12 => (resource: Out<Resource>, surface: u64) {
        resource.put(surface_resource(surface)?.0)
    }
}

api! {
    /// What a surface object accesses.
    fn cudaGetSurfaceObjectResourceDesc_in13 => (resource: Out<Resource13>, surface: u64) {
        resource.put(resource13(surface_resource(surface)?))
    }
}

api! {
    /// The most texels of a texture over linear memory.
    fn cudaDeviceGetTexture1DLinearMaxWidth => (width: Out<usize>, channels: In<ChannelDescriptor>, device: c_int) {
        context()?;
        let (format, channels) = format(&channels.get()?)?;
        cu!(cuDeviceGetTexture1DLinearMaxWidth(width, format, channels, device))
    }
}
