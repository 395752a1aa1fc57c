//! Textures and surfaces: which texels a handle refers to.
//!
//! The texels of an array are in an allocation of their own in the global space ([`Heap::allocate_array`]), row after row, so that
//! copies and checks see them as they see all memory. Its address is far from other memory and no function of CUDA reveals it. A handle is a
//! number in this table and never an address.

use super::Heap;
use std::collections::BTreeMap;
use std::sync::Arc;
pub use warpproof_num::texture::{AddressMode, Channel, Reading as TexelReading, Texel};

/// How texels are arranged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Layout {
    /// Consecutive texels in memory of the program.
    Linear,
    /// Rows in memory of the program.
    Pitched,
    /// An array of one, two or three dimensions.
    Array,
    /// Layers of one or two dimensions.
    Layered,
    /// Layers of two dimensions, six for each cube.
    Cube,
}

/// One level of an image; only mipmapped arrays have several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageLevel {
    /// The first texel.
    pub address: u64,
    /// Texels of a row.
    pub width: u32,
    /// Rows of a slice.
    pub height: u32,
    /// Slices: the depth, the layers, or the faces.
    pub slices: u32,
    /// Bytes from row to row.
    pub pitch: u64,
    /// Bytes from slice to slice.
    pub slice: u64,
}

/// Texels of one format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// The format.
    pub texel: Texel,
    /// The arrangement.
    pub layout: Layout,
    /// At least one.
    pub levels: Vec<ImageLevel>,
}

/// How a texture is read between its texels and outside of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampler {
    /// Outside of the texture, by dimension.
    pub address: [AddressMode; 3],
    /// Linear filtering; the nearest texel otherwise.
    pub linear: bool,
    /// Coordinates go from 0 to 1.
    pub normalized: bool,
    /// How integers are read.
    pub reading: TexelReading,
    /// The value of texels outside with [`AddressMode::Border`].
    pub border: [f32; 4],
    /// Linear filtering between mipmap levels; the nearest level otherwise.
    pub linear_levels: bool,
    /// Added to the level that an instruction asks for.
    pub level_bias: f32,
    /// The lowest and the highest level.
    pub level_clamp: [f32; 2],
    /// More than 1 asks for anisotropic filtering.
    pub anisotropy: u32,
}

impl Default for Sampler {
    /// Nearest texel, clamped, integers as they are.
    fn default() -> Sampler {
        Sampler {
            address: [AddressMode::Clamp; 3],
            linear: false,
            normalized: false,
            reading: TexelReading::Element,
            border: [0.0; 4],
            linear_levels: false,
            level_bias: 0.0,
            level_clamp: [0.0, 0.0],
            anisotropy: 0,
        }
    }
}

/// A texture object.
#[derive(Clone, Debug, PartialEq)]
pub struct Texture {
    /// What it reads.
    pub image: Image,
    /// How it reads.
    pub sampler: Sampler,
}

/// Rows of an array begin at multiples of this, so that the widest access to a surface is aligned.
const ROW_ALIGN: u64 = 32;
/// The most objects that exist at a time.
const MOST: usize = 1 << 20;

impl Image {
    /// An array at `base`: width, height and depth or layers in texels, 0 where it has no such dimension. Returns its size in bytes too;
    /// `None` if it is too large.
    pub fn array(
        texel: Texel,
        layout: Layout,
        extents: [u32; 3],
        levels: u32,
        base: u64,
    ) -> Option<(Image, u64)> {
        let mut bytes = 0u64;
        let mut list = Vec::new();
        for level in 0..levels.clamp(1, 32) {
            let shrunk = |extent: u32| extent.checked_shr(level).unwrap_or(0).max(1);
            let [width, height] = [extents[0], extents[1]].map(shrunk);
            let slices = if layout == Layout::Array { shrunk(extents[2]) } else { extents[2].max(1) };
            let pitch = (u64::from(width) * u64::from(texel.bytes())).next_multiple_of(ROW_ALIGN);
            let slice = pitch.checked_mul(u64::from(height))?;
            let address = base.checked_add(bytes)?;
            bytes = bytes.checked_add(slice.checked_mul(u64::from(slices))?)?;
            list.push(ImageLevel { address, width, height, slices, pitch, slice });
        }
        Some((Image { texel, layout, levels: list }, bytes))
    }

    /// Consecutive texels at an address.
    pub fn linear(texel: Texel, address: u64, count: u32) -> Image {
        let slice = u64::from(count) * u64::from(texel.bytes());
        let level = ImageLevel { address, width: count, height: 1, slices: 1, pitch: slice, slice };
        Image { texel, layout: Layout::Linear, levels: vec![level] }
    }

    /// Rows at an address.
    pub fn pitched(texel: Texel, address: u64, width: u32, height: u32, pitch: u64) -> Image {
        let slice = pitch.saturating_mul(u64::from(height));
        let level = ImageLevel { address, width, height, slices: 1, pitch, slice };
        Image { texel, layout: Layout::Pitched, levels: vec![level] }
    }

    /// The base level.
    pub fn base(&self) -> ImageLevel {
        let nothing = ImageLevel { address: 0, width: 0, height: 0, slices: 0, pitch: 0, slice: 0 };
        self.levels.first().copied().unwrap_or(nothing)
    }

    /// What it is, for messages.
    pub fn describe(&self) -> String {
        let ImageLevel { width, height, slices, .. } = self.base();
        match self.layout {
            Layout::Linear => format!("linear memory of {width} texels"),
            Layout::Pitched => format!("pitched memory of {width} x {height} texels"),
            Layout::Array if slices > 1 => format!("a 3D array of {width} x {height} x {slices} texels"),
            Layout::Array if height > 1 => format!("a 2D array of {width} x {height} texels"),
            Layout::Array => format!("a 1D array of {width} texels"),
            Layout::Layered => format!("a layered array of {slices} layers of {width} x {height} texels"),
            Layout::Cube => format!("a cubemap of {slices} faces of {width} x {height} texels"),
        }
    }
}

impl ImageLevel {
    /// The address of a texel that exists.
    pub fn texel(&self, texel: Texel, [x, y, z]: [u32; 3]) -> u64 {
        let bytes = u64::from(x) * u64::from(texel.bytes());
        let (rows, slices) = (u64::from(y) * self.pitch, u64::from(z) * self.slice);
        self.address.wrapping_add(bytes).wrapping_add(rows).wrapping_add(slices)
    }
}

/// The texture and surface objects of a device.
#[derive(Clone, Debug, Default)]
pub struct Images {
    textures: BTreeMap<u64, Arc<Texture>>,
    surfaces: BTreeMap<u64, Arc<Image>>,
    /// Handles that exist or existed are 1 to this number.
    last: u64,
    /// Whether a program could create objects.
    open: bool,
}

impl Images {
    fn handle(&mut self) -> Option<u64> {
        if self.textures.len() + self.surfaces.len() >= MOST {
            return None;
        }
        self.last += 1;
        self.open = true;
        Some(self.last)
    }

    /// A program can create objects from now on: a kernel that uses a handle of none is wrong.
    pub fn open(&mut self) {
        self.open = true;
    }

    /// Whether no object exists because no program could create one.
    pub fn is_closed(&self) -> bool {
        !self.open
    }

    /// Creates a texture object; `None` if there are too many objects.
    pub fn add_texture(&mut self, texture: Texture) -> Option<u64> {
        let handle = self.handle()?;
        self.textures.insert(handle, Arc::new(texture));
        Some(handle)
    }

    /// Creates a surface object; `None` if there are too many objects.
    pub fn add_surface(&mut self, image: Image) -> Option<u64> {
        let handle = self.handle()?;
        self.surfaces.insert(handle, Arc::new(image));
        Some(handle)
    }

    /// Destroys a texture object. Returns whether it existed.
    pub fn remove_texture(&mut self, handle: u64) -> bool {
        self.textures.remove(&handle).is_some()
    }

    /// Destroys a surface object. Returns whether it existed.
    pub fn remove_surface(&mut self, handle: u64) -> bool {
        self.surfaces.remove(&handle).is_some()
    }

    /// A texture object.
    pub fn texture(&self, handle: u64) -> Option<&Arc<Texture>> {
        self.textures.get(&handle)
    }

    /// A surface object.
    pub fn surface(&self, handle: u64) -> Option<&Arc<Image>> {
        self.surfaces.get(&handle)
    }

    /// Why a handle is not that of a texture object, or of a surface object.
    pub fn explain(&self, handle: u64, texture: bool) -> String {
        let wanted = if texture { "texture" } else { "surface" };
        let other =
            if texture { self.surfaces.contains_key(&handle) } else { self.textures.contains_key(&handle) };
        if other {
            let other = if texture { "surface" } else { "texture" };
            format!("{handle:#x} is a {other} object, not a {wanted} object")
        } else if (1..=self.last).contains(&handle) {
            format!("the {wanted} object {handle:#x} was destroyed")
        } else {
            format!("{handle:#x} is not a {wanted} object")
        }
    }
}

impl Heap {
    /// The texture and surface objects.
    pub fn images(&self) -> &Images {
        &self.images
    }

    /// The texture and surface objects, to be changed.
    pub fn images_mut(&mut self) -> &mut Images {
        &mut self.images
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const F32: Texel = Texel { channel: Channel::F32, channels: 1 };

    #[test]
    fn levels_follow_each_other() {
        let (image, bytes) = Image::array(F32, Layout::Array, [9, 5, 0], 3, 1000).unwrap();
        let sizes: Vec<_> = image.levels.iter().map(|l| (l.address, l.width, l.height, l.slices)).collect();
        assert_eq!(sizes, [(1000, 9, 5, 1), (1000 + 5 * 64, 4, 2, 1), (1000 + 7 * 64 - 64, 2, 1, 1)]);
        assert_eq!(bytes, 5 * 64 + 2 * 32 + 32);
        let (layered, _) = Image::array(F32, Layout::Layered, [8, 8, 3], 2, 0).unwrap();
        assert_eq!((layered.levels[1].slices, layered.levels[1].width), (3, 4));
        assert_eq!(layered.levels[0].texel(F32, [1, 2, 1]), 4 + 2 * 32 + 256);
        assert!(Image::array(F32, Layout::Array, [u32::MAX; 3], 1, 0).is_none());
    }

    #[test]
    fn handles_are_numbers_that_are_never_used_again() {
        let mut images = Images::default();
        let image = Image::linear(F32, 16, 4);
        let texture =
            images.add_texture(Texture { image: image.clone(), sampler: Sampler::default() }).unwrap();
        let surface = images.add_surface(image).unwrap();
        assert!(texture != surface && images.texture(surface).is_none() && images.surface(texture).is_none());
        assert!(images.explain(surface, true).contains("is a surface object"));
        assert!(images.explain(0, true).contains("is not a texture object"));
        assert!(images.remove_texture(texture) && !images.remove_texture(texture));
        assert!(images.explain(texture, true).contains("was destroyed"));
        assert!(images.remove_surface(surface) && images.explain(surface, false).contains("was destroyed"));
    }
}
