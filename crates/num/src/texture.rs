//! Texels: formats, coordinates and weights of texture fetches.
//!
//! Follows "Texture Fetching" in the CUDA programming guide: `tex(x) = T[floor(x)]` without filtering, and with linear filtering
//! the sum over the texels around `x - 0.5`, weighted by its fraction in 9-bit fixed point with 8 bits after the point.
//!
//! The guide leaves open, and this module decides:
//! - A fraction is rounded to the nearest multiple of 1/256, and the sum is rounded to f32 once. A texel of weight 0 is not read.
//! - A coordinate that is not a number is 0.
//! - Of two coordinates of a cubemap with the same magnitude, the first selects the face.
//! - The fraction between two mipmap levels has 8 bits too. The level of gradients is `log2` of the longer one in texels.
//! - Channels that a format does not have are 0, the fourth is 1.

use super::Rounding;
use super::convert::{cvt_f16_f32, cvt_f32_f16};

/// The format of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "signed and unsigned integers, and floating point, with their bits")]
pub enum Channel {
    U8,
    U16,
    U32,
    S8,
    S16,
    S32,
    F16,
    F32,
}

impl Channel {
    /// Bytes of a channel.
    #[inline]
    pub fn bytes(self) -> u32 {
        match self {
            Channel::U8 | Channel::S8 => 1,
            Channel::U16 | Channel::S16 | Channel::F16 => 2,
            Channel::U32 | Channel::S32 | Channel::F32 => 4,
        }
    }

    /// Whether it holds floating-point numbers.
    #[inline]
    pub fn is_float(self) -> bool {
        matches!(self, Channel::F16 | Channel::F32)
    }

    /// Whether it holds signed integers.
    #[inline]
    pub fn is_signed(self) -> bool {
        matches!(self, Channel::S8 | Channel::S16 | Channel::S32)
    }
}

/// The format of a texel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Texel {
    /// Of each channel.
    pub channel: Channel,
    /// 1, 2 or 4.
    pub channels: u32,
}

/// How an integer texel is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reading {
    /// As it is; floating-point formats as f32.
    Element,
    /// Integers of 8 and 16 bits as an f32 from 0 to 1, or from -1 to 1.
    Normalized,
    /// As `Normalized`, and the first three channels are decoded from sRGB.
    Srgb,
}

impl Texel {
    /// Bytes of a texel.
    #[inline]
    pub fn bytes(self) -> u32 {
        self.channel.bytes() * self.channels
    }

    /// Whether a reading of it yields f32.
    #[inline]
    pub fn reads_float(self, reading: Reading) -> bool {
        self.channel.is_float() || (reading != Reading::Element && self.channel.bytes() < 4)
    }

    /// The bits of one channel in the words of a texel.
    #[inline]
    fn bits(self, words: &[u32; 4], index: u32) -> u32 {
        let bytes = self.channel.bytes();
        let first = index * bytes;
        let word = words.get((first / 4) as usize).copied().unwrap_or(0) >> (8 * (first % 4));
        if bytes == 4 { word } else { word & ((1 << (8 * bytes)) - 1) }
    }

    /// The four channels of a texel, given as little-endian words: f32 bits if [`reads_float`](Self::reads_float), 32-bit integers
    /// otherwise.
    #[inline]
    pub fn decode(self, words: &[u32; 4], reading: Reading) -> [u32; 4] {
        let float = self.reads_float(reading);
        std::array::from_fn(|i| {
            let index = i as u32;
            if index >= self.channels {
                return match (i, float) {
                    (3, true) => 1f32.to_bits(),
                    (3, false) => 1,
                    _ => 0,
                };
            }
            let bits = self.bits(words, index);
            let value = match self.channel {
                Channel::F32 => bits,
                Channel::F16 => cvt_f32_f16(bits as u16),
                _ if !float => match self.channel {
                    Channel::S8 => bits as u8 as i8 as i32 as u32,
                    Channel::S16 => bits as u16 as i16 as i32 as u32,
                    _ => bits,
                },
                Channel::U8 => (bits as f32 / 255.0).to_bits(),
                Channel::U16 => (bits as f32 / 65535.0).to_bits(),
                // The lowest value has no counterpart: -128 and -127 are both -1.
                Channel::S8 => (bits as u8 as i8 as f32 / 127.0).max(-1.0).to_bits(),
                _ => (bits as u16 as i16 as f32 / 32767.0).max(-1.0).to_bits(),
            };
            if reading == Reading::Srgb && i < 3 && float && !self.channel.is_float() {
                linear_of_srgb(f32::from_bits(value)).to_bits()
            } else {
                value
            }
        })
    }

    /// The words of a texel from four channels of 32 bits: f32 for a floating-point format, integers otherwise, which are clamped
    /// to the range of the channel.
    #[inline]
    pub fn encode(self, values: [u32; 4]) -> [u32; 4] {
        let mut words = [0u32; 4];
        for (index, value) in (0..self.channels).zip(values) {
            let bits = match self.channel {
                Channel::U32 | Channel::S32 | Channel::F32 => value,
                Channel::F16 => u32::from(cvt_f16_f32(value, Rounding::Rn, false)),
                Channel::U8 => value.min(0xff),
                Channel::U16 => value.min(0xffff),
                Channel::S8 => (value as i32).clamp(-128, 127) as u32 & 0xff,
                Channel::S16 => (value as i32).clamp(-32768, 32767) as u32 & 0xffff,
            };
            let first = index * self.channel.bytes();
            if let Some(word) = words.get_mut((first / 4) as usize) {
                *word |= bits << (8 * (first % 4));
            }
        }
        words
    }
}

/// Decodes one channel from sRGB, with operations that are the same on every host.
#[inline]
fn linear_of_srgb(value: f32) -> f32 {
    let value = f64::from(value);
    if value <= 0.04045 {
        return (value / 12.92) as f32;
    }
    // x^2.4 is x^2 times the square of the fifth root, by Newton's method.
    let x = (value + 0.055) / 1.055;
    let mut root = 1.0f64;
    for _ in 0..40 {
        root -= (root - x / (root * root * root * root)) / 5.0;
    }
    (x * x * root * root) as f32
}

/// What a coordinate outside a texture reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AddressMode {
    /// The texture repeats.
    Wrap,
    /// The nearest texel.
    Clamp,
    /// The texture repeats, every second time mirrored.
    Mirror,
    /// The border color.
    Border,
}

/// The texel of an index in a row of `size` texels; `None` for the border.
#[inline]
pub fn texel_index(mode: AddressMode, index: i64, size: u32) -> Option<u32> {
    let size = i64::from(size.max(1));
    let inside = match mode {
        AddressMode::Wrap => index.rem_euclid(size),
        AddressMode::Clamp => index.clamp(0, size - 1),
        AddressMode::Mirror => {
            let place = index.rem_euclid(2 * size);
            if place < size { place } else { 2 * size - 1 - place }
        }
        AddressMode::Border if (0..size).contains(&index) => index,
        AddressMode::Border => return None,
    };
    u32::try_from(inside).ok()
}

/// A coordinate in texels, bounded so that it can be counted; `scale` is the size for normalized coordinates.
#[inline]
pub fn in_texels(coordinate: f32, scale: f64) -> f64 {
    let place = f64::from(coordinate) * scale;
    if place.is_nan() { 0.0 } else { place.clamp(-1e12, 1e12) }
}

/// The texel that contains a coordinate.
#[inline]
pub fn nearest(place: f64) -> i64 {
    place.floor() as i64
}

/// The first of the two texels around a coordinate, and the weight of the second in 1/256.
#[inline]
pub fn around(place: f64) -> (i64, u32) {
    let place = place - 0.5;
    let first = place.floor();
    (first as i64, fixed(place - first))
}

/// A fraction from 0 to 1 in 9-bit fixed point, with 8 bits after the point.
#[inline]
pub fn fixed(fraction: f64) -> u32 {
    (fraction * 256.0 + 0.5).floor() as u32
}

/// The face of a cubemap in a direction, and the coordinates in it, from 0 to 1.
#[inline]
pub fn cube_face([x, y, z]: [f32; 3]) -> (u32, [f32; 2]) {
    let (ax, ay, az) = (x.abs(), y.abs(), z.abs());
    let (face, major, s, t) = if ax >= ay && ax >= az {
        if x >= 0.0 { (0, ax, -z, -y) } else { (1, ax, z, -y) }
    } else if ay >= az {
        if y >= 0.0 { (2, ay, x, z) } else { (3, ay, x, -z) }
    } else if z >= 0.0 {
        (4, az, x, -y)
    } else {
        (5, az, -x, -y)
    };
    (face, [s, t].map(|minor| f32::midpoint(minor / major, 1.0)))
}

/// `log2` of a positive number, with operations that are the same on every host; the lowest f32 exponent for anything else.
#[inline]
pub fn log2(value: f64) -> f64 {
    if value.is_nan() || value <= 0.0 {
        return -149.0;
    }
    if value.is_infinite() {
        return 128.0;
    }
    let (mut scaled, mut whole) = (value, 0.0);
    while scaled >= 2.0 {
        scaled /= 2.0;
        whole += 1.0;
    }
    while scaled < 1.0 {
        scaled *= 2.0;
        whole -= 1.0;
    }
    // Squaring doubles the logarithm: each step gives one bit after the point.
    let (mut fraction, mut bit) = (0.0, 0.5);
    for _ in 0..24 {
        scaled *= scaled;
        if scaled >= 2.0 {
            scaled /= 2.0;
            fraction += bit;
        }
        bit /= 2.0;
    }
    whole + fraction
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "results are exact")]
mod tests {
    use super::*;

    fn texel(channel: Channel, channels: u32) -> Texel {
        Texel { channel, channels }
    }

    #[test]
    fn texels_are_read_as_the_guide_defines() {
        let bytes = [u32::from_le_bytes([0, 128, 255, 7]), 0, 0, 0];
        let u8x4 = texel(Channel::U8, 4);
        assert_eq!(u8x4.decode(&bytes, Reading::Element), [0, 128, 255, 7]);
        let normalized = u8x4.decode(&bytes, Reading::Normalized).map(f32::from_bits);
        assert_eq!(normalized, [0.0, 128.0 / 255.0, 1.0, 7.0 / 255.0]);
        let s8x2 = texel(Channel::S8, 2);
        assert_eq!(s8x2.decode(&bytes, Reading::Element), [0, (-128i32) as u32, 0, 1]);
        assert_eq!(s8x2.decode(&bytes, Reading::Normalized).map(f32::from_bits), [0.0, -1.0, 0.0, 1.0]);
        let u16x2 = texel(Channel::U16, 2);
        assert_eq!(u16x2.decode(&[0xffff_0001, 0, 0, 0], Reading::Element), [1, 0xffff, 0, 1]);
        let s16 = texel(Channel::S16, 1);
        assert_eq!(f32::from_bits(s16.decode(&[0x8000, 0, 0, 0], Reading::Normalized)[0]), -1.0);
        assert_eq!(f32::from_bits(s16.decode(&[0x7fff, 0, 0, 0], Reading::Normalized)[0]), 1.0);
        let half = texel(Channel::F16, 4);
        assert_eq!(half.decode(&[0x4000_3c00, 0x0001_c000, 0, 0], Reading::Element)[1], 2f32.to_bits());
        // Integers of 32 bits are never promoted.
        assert_eq!(texel(Channel::U32, 1).decode(&[7, 0, 0, 0], Reading::Normalized)[0], 7);
        let payload = 0x7fc0_1234;
        assert_eq!(texel(Channel::F32, 1).decode(&[payload, 0, 0, 0], Reading::Element)[0], payload);
    }

    #[test]
    fn srgb_decodes_colors_and_not_alpha() {
        let read = texel(Channel::U8, 4).decode(&[u32::MAX, 0, 0, 0], Reading::Srgb).map(f32::from_bits);
        assert_eq!(read, [1.0; 4]);
        let middle = texel(Channel::U8, 4).decode(&[0x8080_8080, 0, 0, 0], Reading::Srgb).map(f32::from_bits);
        assert!((middle[0] - 0.215_860_5).abs() < 1e-6, "{middle:?}");
        assert_eq!(middle[3], 128.0 / 255.0);
        for code in 0..=255u32 {
            let value = code as f64 / 255.0;
            let expected = if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) };
            assert!((f64::from(linear_of_srgb(value as f32)) - expected).abs() < 1e-6, "{code}");
        }
    }

    #[test]
    fn encoding_is_the_inverse_of_decoding() {
        for channel in [
            Channel::U8,
            Channel::U16,
            Channel::U32,
            Channel::S8,
            Channel::S16,
            Channel::S32,
            Channel::F16,
            Channel::F32,
        ] {
            for channels in [1, 2, 4] {
                let format = texel(channel, channels);
                let mut words = [0u32; 4];
                for byte in 0..format.bytes() {
                    words[(byte / 4) as usize] |= (17 * byte + 3) << (8 * (byte % 4));
                }
                assert_eq!(format.encode(format.decode(&words, Reading::Element)), words, "{format:?}");
            }
        }
        assert_eq!(texel(Channel::U8, 1).encode([300, 0, 0, 0])[0], 255);
        assert_eq!(texel(Channel::S8, 1).encode([(-300i32) as u32, 0, 0, 0])[0], 0x80);
    }

    #[test]
    fn address_modes() {
        let of = |mode| (-5..9).map(|i| texel_index(mode, i, 4)).collect::<Vec<_>>();
        let some = |list: [u32; 14]| list.map(Some).to_vec();
        assert_eq!(of(AddressMode::Wrap), some([3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0]));
        assert_eq!(of(AddressMode::Clamp), some([0, 0, 0, 0, 0, 0, 1, 2, 3, 3, 3, 3, 3, 3]));
        assert_eq!(of(AddressMode::Mirror), some([3, 3, 2, 1, 0, 0, 1, 2, 3, 3, 2, 1, 0, 0]));
        assert_eq!(of(AddressMode::Border)[4..11], [None, Some(0), Some(1), Some(2), Some(3), None, None]);
    }

    #[test]
    fn weights_have_eight_bits_after_the_point() {
        assert_eq!(around(0.5), (0, 0));
        assert_eq!(around(1.0), (0, 128));
        assert_eq!(around(0.25), (-1, 192));
        assert_eq!(around(1.5 - 1e-9), (0, 256), "1 is represented exactly");
        assert_eq!(nearest(-0.25), -1);
        assert_eq!(in_texels(f32::NAN, 4.0), 0.0);
    }

    #[test]
    fn directions_select_faces() {
        assert_eq!(cube_face([1.0, 0.0, 0.0]), (0, [0.5, 0.5]));
        assert_eq!(cube_face([-2.0, 0.0, 1.0]), (1, [0.75, 0.5]));
        assert_eq!(cube_face([0.0, 4.0, 2.0]), (2, [0.5, 0.75]));
        assert_eq!(cube_face([0.0, -1.0, 0.5]), (3, [0.5, 0.25]));
        assert_eq!(cube_face([0.5, 0.5, 1.0]), (4, [0.75, 0.25]));
        assert_eq!(cube_face([0.5, 0.0, -1.0]), (5, [0.25, 0.5]));
    }

    #[test]
    fn logarithms() {
        for value in [1.0f64, 2.0, 8.0, 0.5, 3.0, 0.1, 1000.0] {
            assert!((log2(value) - value.log2()).abs() < 1e-6, "{value}");
        }
        assert_eq!((log2(0.0), log2(f64::NAN), log2(f64::INFINITY)), (-149.0, -149.0, 128.0));
    }
}
