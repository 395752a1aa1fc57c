//! Descriptions of arrays, textures and surfaces, as in CUDA's `driver_types.h` and `texture_types.h`, and their equivalents of the
//! driver API.

use warpproof_driver::abi::{Answer, Error};
use warpproof_driver::array::{ResourceDescriptor, TextureDescriptor, ViewDescriptor};

use crate::error::INVALID_CHANNEL_DESCRIPTOR;

/// `cudaChannelFormatDesc`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChannelDescriptor {
    /// Bits of each channel; 0 for a channel that does not exist.
    pub bits: [i32; 4],
    /// `cudaChannelFormatKind`.
    pub kind: u32,
}

const SIGNED: u32 = 0;
const UNSIGNED: u32 = 1;
const FLOAT: u32 = 2;

/// `CUarray_format` of kinds and bits of a channel.
const FORMATS: [(u32, i32, u32); 8] = [
    (UNSIGNED, 8, 0x01),
    (UNSIGNED, 16, 0x02),
    (UNSIGNED, 32, 0x03),
    (SIGNED, 8, 0x08),
    (SIGNED, 16, 0x09),
    (SIGNED, 32, 0x0a),
    (FLOAT, 16, 0x10),
    (FLOAT, 32, 0x20),
];

impl ChannelDescriptor {
    /// The driver's format, and the number of channels. Normalized, compressed and planar formats are not supported.
    pub fn format(&self) -> Answer<(u32, u32)> {
        if self.kind > 3 {
            return Err(Error::NOT_SUPPORTED);
        }
        let [x, y, z, w] = self.bits;
        let channels = match (y, z, w) {
            (0, 0, 0) => 1,
            (_, 0, 0) if y == x => 2,
            _ if y == x && z == x && w == x => 4,
            _ => return Err(INVALID_CHANNEL_DESCRIPTOR),
        };
        let known = FORMATS.iter().find(|(kind, bits, _)| *kind == self.kind && *bits == x);
        known.map(|(.., format)| (*format, channels)).ok_or(INVALID_CHANNEL_DESCRIPTOR)
    }

    /// The description of a format of the driver.
    pub fn new(format: u32, channels: u32) -> Answer<ChannelDescriptor> {
        let known = FORMATS.iter().find(|(.., number)| *number == format).ok_or(Error::NOT_SUPPORTED)?;
        let (kind, size, _) = *known;
        let mut bits = [0; 4];
        for (bits, _) in bits.iter_mut().zip(0..channels) {
            *bits = size;
        }
        Ok(ChannelDescriptor { bits, kind })
    }

    /// Bytes of a texel.
    pub fn bytes(&self) -> usize {
        let bits: i32 = self.bits.iter().copied().filter(|bits| (0..=64).contains(bits)).sum();
        usize::try_from(bits / 8).unwrap_or(0)
    }
}

/// `cudaResourceDesc` of CUDA 12, and the start of that of CUDA 13.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resource {
    /// `cudaResourceType`; the numbers are the driver's.
    pub kind: u32,
    /// Padding.
    pub pad: u32,
    /// Handle of an array or of a mipmapped array, or address of memory.
    pub pointer: u64,
    /// The format, if it is memory.
    pub channels: ChannelDescriptor,
    /// Padding.
    pub gap: u32,
    /// Bytes of linear memory; or width, height and pitch of rows.
    pub sizes: [u64; 3],
}

/// `cudaResourceDesc` of CUDA 13.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resource13 {
    /// What CUDA 12 has.
    pub resource: Resource,
    /// The rest of a union.
    pub rest: [u64; 9],
    /// Must be 0.
    pub flags: u32,
    /// Padding.
    pub end: u32,
}

const LINEAR: u32 = 2;
const PITCHED: u32 = 3;

impl Resource {
    /// The driver's description.
    pub fn to_driver(self, flags: u32) -> Answer<ResourceDescriptor> {
        let mut resource = [0; 16];
        resource[0] = self.pointer;
        if matches!(self.kind, LINEAR | PITCHED) {
            let (format, channels) = self.channels.format()?;
            resource[1] = u64::from(format) | u64::from(channels) << 32;
            resource[2] = self.sizes[0];
        }
        if self.kind == PITCHED {
            (resource[3], resource[4]) = (self.sizes[1], self.sizes[2]);
        }
        Ok(ResourceDescriptor { kind: self.kind, pad: 0, resource, flags, end: 0 })
    }

    /// The runtime's description of one of the driver.
    pub fn from_driver(from: &ResourceDescriptor) -> Answer<Resource> {
        let mut resource = Resource { kind: from.kind, pointer: from.resource[0], ..Resource::default() };
        if matches!(from.kind, LINEAR | PITCHED) {
            let half = |bits: u64| u32::try_from(bits & 0xffff_ffff).unwrap_or(0);
            let format = from.resource[1];
            resource.channels = ChannelDescriptor::new(half(format), half(format >> 32))?;
            resource.sizes[0] = from.resource[2];
        }
        if from.kind == PITCHED {
            (resource.sizes[1], resource.sizes[2]) = (from.resource[3], from.resource[4]);
        }
        Ok(resource)
    }
}

/// `cudaTextureDesc`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TextureReading {
    /// `cudaTextureAddressMode`, by dimension.
    pub address: [u32; 3],
    /// `cudaTextureFilterMode`.
    pub filter: u32,
    /// `cudaTextureReadMode`: 0 for the type of the texels, 1 for normalized floats.
    pub reading: u32,
    /// Whether the texels are sRGB.
    pub srgb: i32,
    /// The border color.
    pub border: [f32; 4],
    /// Whether coordinates are normalized.
    pub normalized: i32,
    /// Maximum anisotropy.
    pub anisotropy: u32,
    /// `cudaTextureFilterMode` between levels.
    pub level_filter: u32,
    /// Added to the level.
    pub level_bias: f32,
    /// The lowest level.
    pub level_low: f32,
    /// The highest level.
    pub level_high: f32,
    /// A hint.
    pub no_trilinear_optimization: i32,
    /// Whether filtering crosses the faces of a cubemap.
    pub seamless: i32,
}

const READ_AS_INTEGER: u32 = 0x01;
const NORMALIZED: u32 = 0x02;
const SRGB: u32 = 0x10;
const NO_TRILINEAR_OPTIMIZATION: u32 = 0x20;
const SEAMLESS: u32 = 0x40;

impl TextureReading {
    /// The driver's description.
    pub fn to_driver(self) -> Answer<TextureDescriptor> {
        if self.reading > 1 {
            return Err(Error::INVALID_VALUE);
        }
        let flag = |set: bool, flag: u32| if set { flag } else { 0 };
        Ok(TextureDescriptor {
            address: self.address,
            filter: self.filter,
            flags: flag(self.reading == 0, READ_AS_INTEGER)
                | flag(self.normalized != 0, NORMALIZED)
                | flag(self.srgb != 0, SRGB)
                | flag(self.no_trilinear_optimization != 0, NO_TRILINEAR_OPTIMIZATION)
                | flag(self.seamless != 0, SEAMLESS),
            anisotropy: self.anisotropy,
            level_filter: self.level_filter,
            level_bias: self.level_bias,
            level_low: self.level_low,
            level_high: self.level_high,
            border: self.border,
            reserved: [0; 12],
        })
    }

    /// The runtime's description of one of the driver.
    pub fn from_driver(from: &TextureDescriptor) -> TextureReading {
        let flag = |flag: u32| i32::from(from.flags & flag != 0);
        TextureReading {
            address: from.address,
            filter: from.filter,
            reading: u32::from(from.flags & READ_AS_INTEGER == 0),
            srgb: flag(SRGB),
            border: from.border,
            normalized: flag(NORMALIZED),
            anisotropy: from.anisotropy,
            level_filter: from.level_filter,
            level_bias: from.level_bias,
            level_low: from.level_low,
            level_high: from.level_high,
            no_trilinear_optimization: flag(NO_TRILINEAR_OPTIMIZATION),
            seamless: flag(SEAMLESS),
        }
    }
}

/// `cudaResourceViewDesc` of CUDA 12, and the start of that of CUDA 13. The numbers of formats are the driver's.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// `cudaResourceViewFormat`.
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
}

/// `cudaResourceViewDesc` of CUDA 13.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct View13 {
    /// What CUDA 12 has.
    pub view: View,
    /// Reserved.
    pub reserved: [u32; 16],
}

impl View {
    /// The driver's description.
    pub fn to_driver(self) -> ViewDescriptor {
        let View { format, pad: _, width, height, depth, first_level, last_level, first_layer, last_layer } =
            self;
        let reserved = [0; 16];
        ViewDescriptor {
            format,
            pad: 0,
            width,
            height,
            depth,
            first_level,
            last_level,
            first_layer,
            last_layer,
            reserved,
        }
    }

    /// The runtime's description of one of the driver.
    pub fn from_driver(from: &ViewDescriptor) -> View {
        View {
            format: from.format,
            pad: 0,
            width: from.width,
            height: from.height,
            depth: from.depth,
            first_level: from.first_level,
            last_level: from.last_level,
            first_layer: from.first_layer,
            last_layer: from.last_layer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_keep_their_channels_and_odd_ones_are_refused() {
        for (kind, bits, format) in FORMATS {
            for (count, list) in [(1, [bits, 0, 0, 0]), (2, [bits, bits, 0, 0]), (4, [bits; 4])] {
                let channels = ChannelDescriptor { bits: list, kind };
                assert_eq!(channels.format(), Ok((format, count)));
                assert_eq!(ChannelDescriptor::new(format, count), Ok(channels));
                assert_eq!(
                    channels.bytes(),
                    usize::try_from(bits).unwrap() / 8 * usize::try_from(count).unwrap()
                );
            }
        }
        for (bits, kind) in [
            ([8, 8, 8, 0], UNSIGNED),
            ([8, 16, 0, 0], UNSIGNED),
            ([0; 4], UNSIGNED),
            ([8, 0, 0, 0], FLOAT),
            ([64, 0, 0, 0], SIGNED),
            ([0, 8, 0, 0], SIGNED),
            ([32, 0, 0, 0], 3),
        ] {
            let channels = ChannelDescriptor { bits, kind };
            assert_eq!(channels.format(), Err(INVALID_CHANNEL_DESCRIPTOR), "{bits:?}");
        }
        // cudaChannelFormatKindUnsignedNormalized8X4.
        assert_eq!(ChannelDescriptor { bits: [8; 4], kind: 7 }.format(), Err(Error::NOT_SUPPORTED));
    }

    #[test]
    fn descriptions_survive_the_way_to_the_driver_and_back() {
        let channels = ChannelDescriptor { bits: [16, 16, 0, 0], kind: FLOAT };
        for resource in [
            Resource { kind: 0, pointer: 0x10, ..Resource::default() },
            Resource { kind: LINEAR, pointer: 0x1000, channels, sizes: [64, 0, 0], ..Resource::default() },
            Resource { kind: PITCHED, pointer: 0x1000, channels, sizes: [7, 8, 512], ..Resource::default() },
        ] {
            assert_eq!(Resource::from_driver(&resource.to_driver(0).unwrap()), Ok(resource));
        }
        let texture = TextureReading {
            address: [0, 1, 2],
            filter: 1,
            reading: 1,
            srgb: 1,
            border: [1.0, 2.0, 3.0, 4.0],
            normalized: 1,
            anisotropy: 4,
            level_filter: 1,
            level_bias: 0.5,
            level_low: 1.0,
            level_high: 2.0,
            no_trilinear_optimization: 1,
            seamless: 1,
        };
        for texture in [texture, TextureReading::default()] {
            assert_eq!(TextureReading::from_driver(&texture.to_driver().unwrap()), texture);
        }
        let view =
            View { format: 3, width: 4, first_layer: 1, last_layer: 2, last_level: 3, ..View::default() };
        assert_eq!(View::from_driver(&view.to_driver()), view);
    }
}
