//! Arrays, texture objects and surface objects.
//!
//! The texels of an array are an allocation of the software GPU that has no pointer (`Heap::allocate_array`); its handle is a number
//! of this module, and those of texture and surface objects are numbers of the software GPU's own table, because kernels use them.

use std::collections::BTreeMap;

use warpproof_sim::memory::{
    AddressMode, Channel, Image, ImageLevel, Layout, Sampler, Texel, TexelReading, Texture,
};

use crate::abi::{Answer, Error};
use crate::driver::Driver;
use crate::memory::{End, Side, wide};

/// `CUDA_ARRAY_DESCRIPTOR`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArrayDescriptor {
    /// Texels of a row.
    pub width: usize,
    /// Rows; 0 for one dimension.
    pub height: usize,
    /// `CUarray_format`.
    pub format: u32,
    /// Channels of a texel.
    pub channels: u32,
}

/// `CUDA_ARRAY3D_DESCRIPTOR`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Array3dDescriptor {
    /// Texels of a row.
    pub width: usize,
    /// Rows; 0 for one dimension.
    pub height: usize,
    /// Slices or layers; 0 for fewer dimensions.
    pub depth: usize,
    /// `CUarray_format`.
    pub format: u32,
    /// Channels of a texel.
    pub channels: u32,
    /// `CUDA_ARRAY3D_…`.
    pub flags: u32,
}

/// `CUDA_RESOURCE_DESC`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResourceDescriptor {
    /// `CUresourcetype`.
    pub kind: u32,
    /// Padding.
    pub pad: u32,
    /// A union. An array or mipmapped array: its handle. Memory: its address, the format and the channels in one number, and the
    /// size in bytes, or width, height and pitch.
    pub resource: [u64; 16],
    /// Must be 0.
    pub flags: u32,
    /// Padding.
    pub end: u32,
}

/// `CUDA_TEXTURE_DESC`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TextureDescriptor {
    /// `CUaddress_mode`, by dimension.
    pub address: [u32; 3],
    /// `CUfilter_mode`.
    pub filter: u32,
    /// `CU_TRSF_…`.
    pub flags: u32,
    /// Maximum anisotropy.
    pub anisotropy: u32,
    /// `CUfilter_mode` between levels.
    pub level_filter: u32,
    /// Added to the level.
    pub level_bias: f32,
    /// The lowest level.
    pub level_low: f32,
    /// The highest level.
    pub level_high: f32,
    /// The border color.
    pub border: [f32; 4],
    /// Reserved.
    pub reserved: [i32; 12],
}

/// `CUDA_RESOURCE_VIEW_DESC`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ViewDescriptor {
    /// `CUresourceViewFormat`.
    pub format: u32,
    /// Padding.
    pub pad: u32,
    /// Width of the view.
    pub width: usize,
    /// Height of the view.
    pub height: usize,
    /// Depth of the view.
    pub depth: usize,
    /// First mipmap level.
    pub first_level: u32,
    /// Last mipmap level.
    pub last_level: u32,
    /// First layer.
    pub first_layer: u32,
    /// Last layer.
    pub last_layer: u32,
    /// Reserved.
    pub reserved: [u32; 16],
}

const LAYERED: u32 = 0x01;
const SURFACE: u32 = 0x02;
const CUBEMAP: u32 = 0x04;
/// Layered, surface, cubemap, gather, and a hint for graphics.
const FLAGS: u32 = 0x2f;

const READ_AS_INTEGER: u32 = 0x01;
const NORMALIZED: u32 = 0x02;
const SRGB: u32 = 0x10;
/// A hint.
const NO_TRILINEAR_OPTIMIZATION: u32 = 0x20;
const SEAMLESS: u32 = 0x40;

const ARRAY: u32 = 0;
const MIPMAPPED: u32 = 1;
const LINEAR: u32 = 2;
const PITCHED: u32 = 3;

/// Alignment of textures over memory, as the attributes of devices show it.
const TEXTURE_ALIGN: u64 = 512;
/// Alignment of their rows.
const PITCH_ALIGN: u64 = 32;

/// An array, or a mipmapped array.
#[derive(Clone, Debug)]
pub struct Array {
    /// The context that it belongs to.
    pub context: u64,
    /// As created; flags included.
    pub descriptor: Array3dDescriptor,
    /// Its texels; one level unless it is mipmapped.
    pub image: Image,
    /// Its memory.
    base: u64,
    /// Created by `cuMipmappedArrayCreate`.
    mipmapped: bool,
    /// The mipmapped array that it is a level of, and the level.
    part_of: Option<(u64, u32)>,
}

/// All arrays and objects of the process.
#[derive(Debug, Default)]
pub struct Arrays {
    list: BTreeMap<u64, Array>,
    /// Descriptions of texture objects.
    textures: BTreeMap<u64, (ResourceDescriptor, TextureDescriptor, Option<ViewDescriptor>)>,
    /// Descriptions of surface objects.
    surfaces: BTreeMap<u64, ResourceDescriptor>,
}

fn texel(format: u32, channels: u32) -> Answer<Texel> {
    let channel = match format {
        0x01 => Channel::U8,
        0x02 => Channel::U16,
        0x03 => Channel::U32,
        0x08 => Channel::S8,
        0x09 => Channel::S16,
        0x0a => Channel::S32,
        0x10 => Channel::F16,
        0x20 => Channel::F32,
        _ => return Err(Error::NOT_SUPPORTED),
    };
    if matches!(channels, 1 | 2 | 4) { Ok(Texel { channel, channels }) } else { Err(Error::INVALID_VALUE) }
}

fn narrow(size: usize) -> Answer<u32> {
    u32::try_from(size).map_err(|_| Error::INVALID_VALUE)
}

/// The arrangement that a descriptor asks for.
fn layout(descriptor: &Array3dDescriptor) -> Answer<Layout> {
    let Array3dDescriptor { width, height, depth, flags, .. } = *descriptor;
    if flags & !FLAGS != 0 {
        return Err(Error::NOT_SUPPORTED);
    }
    let (layered, cube) = (flags & LAYERED != 0, flags & CUBEMAP != 0);
    let valid = match (layered, cube) {
        _ if width == 0 => false,
        (false, false) => depth == 0 || height > 0,
        (true, false) => depth > 0,
        (false, true) => width == height && depth == 6,
        (true, true) => width == height && depth > 0 && depth.is_multiple_of(6),
    };
    match (valid, layered, cube) {
        (false, ..) => Err(Error::INVALID_VALUE),
        (_, _, true) => Ok(Layout::Cube),
        (_, true, _) => Ok(Layout::Layered),
        _ => Ok(Layout::Array),
    }
}

impl ResourceDescriptor {
    fn format(&self) -> Answer<Texel> {
        let number = |bits: u64| u32::try_from(bits & 0xffff_ffff).unwrap_or(0);
        texel(number(self.resource[1]), number(self.resource[1] >> 32))
    }
}

/// The sampler that a description asks for.
fn sampler(texture: &TextureDescriptor) -> Answer<Sampler> {
    let mode = |number: u32| {
        Ok(match number {
            0 => AddressMode::Wrap,
            1 => AddressMode::Clamp,
            2 => AddressMode::Mirror,
            3 => AddressMode::Border,
            _ => return Err(Error::INVALID_VALUE),
        })
    };
    let [x, y, z] = texture.address;
    if texture.filter > 1 || texture.level_filter > 1 {
        return Err(Error::INVALID_VALUE);
    }
    let known = READ_AS_INTEGER | NORMALIZED | SRGB | NO_TRILINEAR_OPTIMIZATION;
    if texture.flags & !known != 0 {
        return Err(if texture.flags & SEAMLESS != 0 { Error::NOT_SUPPORTED } else { Error::INVALID_VALUE });
    }
    let reading = if texture.flags & READ_AS_INTEGER != 0 {
        TexelReading::Element
    } else if texture.flags & SRGB != 0 {
        TexelReading::Srgb
    } else {
        TexelReading::Normalized
    };
    Ok(Sampler {
        address: [mode(x)?, mode(y)?, mode(z)?],
        linear: texture.filter == 1,
        normalized: texture.flags & NORMALIZED != 0,
        reading,
        border: texture.border,
        linear_levels: texture.level_filter == 1,
        level_bias: texture.level_bias,
        level_clamp: [texture.level_low, texture.level_high],
        anisotropy: texture.anisotropy,
    })
}

/// The levels and layers of a view. A view does not change the format: that would be another number here.
fn viewed(mut image: Image, view: &ViewDescriptor) -> Answer<Image> {
    let ViewDescriptor { first_level, last_level, first_layer, last_layer, .. } = *view;
    if view.format != 0 && Some(view.format) != view_format(image.texel) {
        return Err(Error::NOT_SUPPORTED);
    }
    let index = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
    let levels = image.levels.get(index(first_level)..=index(last_level).min(image.levels.len() - 1));
    image.levels = levels.filter(|levels| !levels.is_empty()).ok_or(Error::INVALID_VALUE)?.to_vec();
    let sizes = [view.width, view.height].map(wide);
    let base = image.base();
    let differs = |asked: u64, size: u32| asked > 1 && asked != u64::from(size);
    if differs(sizes[0], base.width) || differs(sizes[1], base.height) {
        return Err(Error::INVALID_VALUE);
    }
    if matches!(image.layout, Layout::Layered | Layout::Cube) {
        for level in &mut image.levels {
            if first_layer > last_layer || last_layer >= level.slices {
                return Err(Error::INVALID_VALUE);
            }
            level.address += u64::from(first_layer) * level.slice;
            level.slices = last_layer - first_layer + 1;
        }
    } else if first_layer != 0 || last_layer != 0 {
        return Err(Error::INVALID_VALUE);
    }
    Ok(image)
}

/// `CUresourceViewFormat` of a format.
fn view_format(texel: Texel) -> Option<u32> {
    let first = match texel.channel {
        Channel::U8 => 0x01,
        Channel::S8 => 0x04,
        Channel::U16 => 0x07,
        Channel::S16 => 0x0a,
        Channel::U32 => 0x0d,
        Channel::S32 => 0x10,
        Channel::F16 => 0x13,
        Channel::F32 => 0x16,
    };
    Some(first + texel.channels.checked_ilog2()?)
}

impl Driver {
    /// `cuArray3DCreate`, `cuMipmappedArrayCreate`.
    pub fn create_array(&mut self, descriptor: &Array3dDescriptor, levels: Option<u32>) -> Answer<u64> {
        let (_, context) = self.current()?;
        let layout = layout(descriptor)?;
        let texel = texel(descriptor.format, descriptor.channels)?;
        let extents = [narrow(descriptor.width)?, narrow(descriptor.height)?, narrow(descriptor.depth)?];
        let depth = if layout == Layout::Array { extents[2] } else { 0 };
        let most = extents[0].max(extents[1]).max(depth).checked_ilog2().unwrap_or(0) + 1;
        let count = match levels {
            Some(0) => return Err(Error::INVALID_VALUE),
            Some(asked) => asked.min(most),
            None => 1,
        };
        let sized = |base| Image::array(texel, layout, extents, count, base).ok_or(Error::INVALID_VALUE);
        let (_, bytes) = sized(0)?;
        let base = self.allocate_texels(usize::try_from(bytes).map_err(|_| Error::OUT_OF_MEMORY)?)?;
        let (image, _) = sized(base)?;
        let descriptor = *descriptor;
        let mipmapped = levels.is_some();
        let array = Array { context, descriptor, image, base, mipmapped, part_of: None };
        let handle = self.handle();
        self.arrays.list.insert(handle, array);
        Ok(handle)
    }

    /// An array that is not mipmapped.
    pub fn array(&self, handle: u64) -> Answer<&Array> {
        self.ready()?;
        self.arrays.list.get(&handle).filter(|array| !array.mipmapped).ok_or(Error::INVALID_HANDLE)
    }

    /// A mipmapped array.
    pub fn mipmapped_array(&self, handle: u64) -> Answer<&Array> {
        self.ready()?;
        self.arrays.list.get(&handle).filter(|array| array.mipmapped).ok_or(Error::INVALID_HANDLE)
    }

    /// `cuMipmappedArrayGetLevel`: the same handle each time.
    pub fn array_level(&mut self, handle: u64, level: u32) -> Answer<u64> {
        let whole = self.mipmapped_array(handle)?.clone();
        let part_of = Some((handle, level));
        let known = self.arrays.list.iter().find(|(_, array)| array.part_of == part_of);
        if let Some((known, _)) = known {
            return Ok(*known);
        }
        let index = usize::try_from(level).unwrap_or(usize::MAX);
        let one = *whole.image.levels.get(index).ok_or(Error::INVALID_VALUE)?;
        let size = |now: u32, asked: usize| if asked == 0 { 0 } else { usize::try_from(now).unwrap_or(0) };
        let descriptor = Array3dDescriptor {
            width: size(one.width, whole.descriptor.width),
            height: size(one.height, whole.descriptor.height),
            depth: size(one.slices, whole.descriptor.depth),
            ..whole.descriptor
        };
        let image = Image { levels: vec![one], ..whole.image };
        let array = Array { descriptor, image, mipmapped: false, part_of, ..whole };
        let new = self.handle();
        self.arrays.list.insert(new, array);
        Ok(new)
    }

    /// `cuArrayDestroy`, `cuMipmappedArrayDestroy`.
    pub fn destroy_array(&mut self, handle: u64, mipmapped: bool) -> Answer {
        self.current()?;
        let array = if mipmapped { self.mipmapped_array(handle)? } else { self.array(handle)? };
        if array.part_of.is_some() {
            // Its texels belong to the mipmapped array.
            return Err(Error::INVALID_HANDLE);
        }
        let base = array.base;
        self.arrays.list.retain(|number, array| {
            *number != handle && array.part_of.is_none_or(|(whole, _)| whole != handle)
        });
        self.release_memory(base)
    }

    /// Forgets the arrays of a context that ends; its memory is freed with all of its memory.
    pub fn forget_arrays(&mut self, context: u64) {
        self.arrays.list.retain(|_, array| array.context != context);
    }

    /// One side of a copy: bytes, rows and slices of an array from an offset on.
    pub fn array_end(&mut self, handle: u64, skip: [usize; 3], size: [usize; 3]) -> Answer<End> {
        let array = self.array(handle)?;
        let ImageLevel { address, width, height, slices, pitch, slice } = array.image.base();
        let row = u64::from(width) * u64::from(array.image.texel.bytes());
        let [x, y, z] = skip.map(wide);
        let limits = [row, u64::from(height), u64::from(slices)];
        let ends = [x, y, z].into_iter().zip(size.map(wide));
        let fits = ends
            .zip(limits)
            .all(|((skip, size), limit)| skip.checked_add(size).is_some_and(|end| end <= limit));
        if !fits {
            self.report_array_bounds(address, [x, y, z], size.map(wide), limits);
            return Err(Error::INVALID_VALUE);
        }
        Ok(End { side: Side::Device, address: address + z * slice + y * pitch + x, pitch, slice })
    }

    /// The array that has the texels at an address, and bytes, rows and slices before it.
    pub fn array_at(&self, address: u64) -> Option<(u64, [usize; 3])> {
        let arrays = self.arrays.list.iter().filter(|(_, array)| !array.mipmapped);
        arrays.into_iter().find_map(|(handle, array)| {
            let ImageLevel { address: start, slices, pitch, slice, .. } = array.image.base();
            let skip = address.checked_sub(start).filter(|skip| *skip < slice * u64::from(slices))?;
            let [x, y, z] = [skip % slice % pitch, skip % slice / pitch, skip / slice];
            let size = |bytes: u64| usize::try_from(bytes).ok();
            Some((*handle, [size(x)?, size(y)?, size(z)?]))
        })
    }

    /// The texels of a resource, and whether surfaces may access them.
    fn resource(&self, resource: &ResourceDescriptor) -> Answer<(Image, bool)> {
        if resource.flags != 0 {
            return Err(Error::INVALID_VALUE);
        }
        let address = resource.resource[0];
        match resource.kind {
            ARRAY => {
                let array = self.array(address)?;
                Ok((array.image.clone(), array.descriptor.flags & SURFACE != 0))
            }
            MIPMAPPED => Ok((self.mipmapped_array(address)?.image.clone(), false)),
            LINEAR | PITCHED if address == 0 || !address.is_multiple_of(TEXTURE_ALIGN) => {
                Err(Error::INVALID_VALUE)
            }
            LINEAR => {
                let texel = resource.format()?;
                let count = u32::try_from(resource.resource[2] / u64::from(texel.bytes()));
                Ok((Image::linear(texel, address, count.map_err(|_| Error::INVALID_VALUE)?), false))
            }
            PITCHED => {
                let texel = resource.format()?;
                let [width, height, pitch] =
                    [resource.resource[2], resource.resource[3], resource.resource[4]];
                let size = |number: u64| u32::try_from(number).map_err(|_| Error::INVALID_VALUE);
                let (width, height) = (size(width)?, size(height)?);
                let row = u64::from(width) * u64::from(texel.bytes());
                if width == 0 || height == 0 || pitch < row || !pitch.is_multiple_of(PITCH_ALIGN) {
                    return Err(Error::INVALID_VALUE);
                }
                Ok((Image::pitched(texel, address, width, height, pitch), false))
            }
            _ => Err(Error::INVALID_VALUE),
        }
    }

    /// `cuTexObjectCreate`.
    pub fn create_texture(
        &mut self,
        resource: &ResourceDescriptor,
        texture: &TextureDescriptor,
        view: Option<ViewDescriptor>,
    ) -> Answer<u64> {
        self.current()?;
        let (mut image, _) = self.resource(resource)?;
        let sampler = sampler(texture)?;
        if let Some(view) = &view {
            if !matches!(resource.kind, ARRAY | MIPMAPPED) {
                return Err(Error::INVALID_VALUE);
            }
            image = viewed(image, view)?;
        }
        let filtered = sampler.linear && image.layout != Layout::Linear;
        if filtered && !image.texel.reads_float(sampler.reading) {
            return Err(Error::INVALID_VALUE);
        }
        if image.levels.len() > 1 && !sampler.normalized {
            return Err(Error::INVALID_VALUE);
        }
        let added = self.gpu.memory().images_mut().add_texture(Texture { image, sampler });
        let handle = added.ok_or(Error::OUT_OF_MEMORY)?;
        self.arrays.textures.insert(handle, (*resource, *texture, view));
        Ok(handle)
    }

    /// `cuTexObjectDestroy`.
    pub fn destroy_texture(&mut self, handle: u64) -> Answer {
        self.current()?;
        self.arrays.textures.remove(&handle).ok_or(Error::INVALID_VALUE)?;
        self.gpu.memory().images_mut().remove_texture(handle);
        Ok(())
    }

    /// How a texture object was created.
    pub fn texture(
        &self,
        handle: u64,
    ) -> Answer<(ResourceDescriptor, TextureDescriptor, Option<ViewDescriptor>)> {
        self.current()?;
        self.arrays.textures.get(&handle).copied().ok_or(Error::INVALID_VALUE)
    }

    /// `cuSurfObjectCreate`.
    pub fn create_surface(&mut self, resource: &ResourceDescriptor) -> Answer<u64> {
        self.current()?;
        let (image, writable) = self.resource(resource)?;
        if !writable {
            return Err(Error::INVALID_VALUE);
        }
        let added = self.gpu.memory().images_mut().add_surface(image);
        let handle = added.ok_or(Error::OUT_OF_MEMORY)?;
        self.arrays.surfaces.insert(handle, *resource);
        Ok(handle)
    }

    /// `cuSurfObjectDestroy`.
    pub fn destroy_surface(&mut self, handle: u64) -> Answer {
        self.current()?;
        self.arrays.surfaces.remove(&handle).ok_or(Error::INVALID_VALUE)?;
        self.gpu.memory().images_mut().remove_surface(handle);
        Ok(())
    }

    /// How a surface object was created.
    pub fn surface(&self, handle: u64) -> Answer<ResourceDescriptor> {
        self.current()?;
        self.arrays.surfaces.get(&handle).copied().ok_or(Error::INVALID_VALUE)
    }
}
