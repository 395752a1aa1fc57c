//! What the driver API demands of a tensor map. The names of the arguments are those of the API.

use super::{Columns, DataType, Fill, Interleave, Mode, RANK, Swizzle, TensorMap};
use std::fmt;

/// An argument that breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid {
    /// The argument, as in `boxDim[0]`.
    pub argument: String,
    /// The rule and what was found.
    pub reason: String,
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.argument, self.reason)
    }
}

impl std::error::Error for Invalid {}

fn wrong<T>(argument: impl Into<String>, reason: impl Into<String>) -> Result<T, Invalid> {
    Err(Invalid { argument: argument.into(), reason: reason.into() })
}

fn index(name: &str, i: usize) -> String {
    format!("{name}[{i}]")
}

/// Dimensions are at most this.
const MOST_DIM: u64 = 1 << 32;
/// Strides are less than this.
const MOST_STRIDE: u64 = 1 << 40;

impl TensorMap {
    /// The dimensions in use.
    pub fn used_dims(&self) -> &[u64] {
        self.dims.get(..self.dimensions()).unwrap_or(&self.dims)
    }

    /// The rank as an index.
    pub(super) fn dimensions(&self) -> usize {
        usize::try_from(self.rank).unwrap_or(RANK).min(RANK)
    }

    /// Checks every rule of the driver API.
    pub fn validate(&self) -> Result<(), Invalid> {
        let im2col = !matches!(self.mode, Mode::Tiled { .. });
        let (least, most) = (if im2col { 3 } else { 1 }, 5);
        if !(least..=most).contains(&self.rank) {
            return wrong("tensorRank", format!("must be from {least} to {most}, found {}", self.rank));
        }
        if self.interleave != Interleave::None && self.rank < 3 {
            return wrong(
                "tensorRank",
                format!("must be at least 3 if interleave is not NONE, found {}", self.rank),
            );
        }
        self.check_memory()?;
        for (i, stride) in self.element_strides.iter().enumerate().take(self.dimensions()) {
            // Without interleave, the first is ignored.
            if !(1..=8).contains(stride) && (i > 0 || self.interleave != Interleave::None) {
                return wrong(index("elementStrides", i), format!("must be from 1 to 8, found {stride}"));
            }
        }
        match &self.mode {
            Mode::Tiled { sizes } => self.check_box(sizes)?,
            Mode::Im2col(columns) => self.check_columns(columns)?,
            Mode::Im2colWide { columns, w128 } => self.check_wide(columns, *w128)?,
        }
        self.check_layout()
    }

    fn check_memory(&self) -> Result<(), Invalid> {
        let align =
            if self.interleave == Interleave::Bytes32 || self.data_type.is_padded() { 32 } else { 16 };
        if !self.address.is_multiple_of(align) {
            return wrong(
                "globalAddress",
                format!("must be a multiple of {align}, found {:#x}", self.address),
            );
        }
        for (i, dim) in self.used_dims().iter().enumerate() {
            if !(1..=MOST_DIM).contains(dim) {
                return wrong(index("globalDim", i), format!("must be from 1 to 2^32, found {dim}"));
            }
        }
        let multiple = match self.data_type {
            DataType::Packed4Align16 | DataType::Packed6Align16 => 128,
            DataType::Packed4Align8 => 2,
            _ => 1,
        };
        if !self.dims[0].is_multiple_of(multiple) {
            let type_name = self.data_type.name();
            return wrong(
                "globalDim[0]",
                format!("must be a multiple of {multiple} for {type_name}, found {}", self.dims[0]),
            );
        }
        for (i, stride) in self.strides.iter().enumerate().take(self.dimensions().saturating_sub(1)) {
            if !stride.is_multiple_of(align) {
                return wrong(
                    index("globalStrides", i),
                    format!("must be a multiple of {align}, found {stride}"),
                );
            }
            if *stride >= MOST_STRIDE {
                return wrong(index("globalStrides", i), format!("must be less than 2^40, found {stride}"));
            }
        }
        Ok(())
    }

    fn check_box(&self, sizes: &[u32; RANK]) -> Result<(), Invalid> {
        for (i, size) in sizes.iter().enumerate().take(self.dimensions()) {
            if !(1..=256).contains(size) {
                return wrong(index("boxDim", i), format!("must be from 1 to 256, found {size}"));
            }
        }
        if self.data_type.is_padded() && sizes[0] != 128 {
            let type_name = self.data_type.name();
            return wrong("boxDim[0]", format!("must be 128 for {type_name}, found {}", sizes[0]));
        }
        self.check_inner("boxDim[0]", sizes[0])
    }

    /// Checks the bytes along the first dimension.
    fn check_inner(&self, argument: &str, elements: u32) -> Result<(), Invalid> {
        if self.interleave != Interleave::None || self.data_type.is_padded() {
            return Ok(());
        }
        let bits = elements.saturating_mul(self.data_type.bits());
        if !bits.is_multiple_of(128) {
            return wrong(
                argument,
                format!(
                    "must be a multiple of 16 bytes if interleave is NONE, found {elements} elements of {} bits",
                    self.data_type.bits()
                ),
            );
        }
        match self.swizzle.span() {
            Some(span) if bits / 8 > span => wrong(
                argument,
                format!("must be at most {span} bytes, the span of the swizzle, found {} bytes", bits / 8),
            ),
            _ => Ok(()),
        }
    }

    fn check_channels(&self, columns: &Columns, pixels_matter: bool) -> Result<(), Invalid> {
        if !(1..=256).contains(&columns.channels) {
            return wrong("channelsPerPixel", format!("must be from 1 to 256, found {}", columns.channels));
        }
        if self.data_type.is_padded() && columns.channels != 128 {
            let type_name = self.data_type.name();
            return wrong(
                "channelsPerPixel",
                format!("must be 128 for {type_name}, found {}", columns.channels),
            );
        }
        if pixels_matter && !(1..=1024).contains(&columns.pixels) {
            return wrong("pixelsPerColumn", format!("must be from 1 to 1024, found {}", columns.pixels));
        }
        self.check_inner("channelsPerPixel", columns.channels)
    }

    fn check_columns(&self, columns: &Columns) -> Result<(), Invalid> {
        let pixels = self.dimensions().saturating_sub(2).min(3);
        let range = match self.rank {
            3 => -32768..=32767,
            4 => -128..=127,
            _ => -16..=15,
        };
        for i in 0..pixels {
            for (name, corner) in
                [("pixelBoxLowerCorner", columns.lower[i]), ("pixelBoxUpperCorner", columns.upper[i])]
            {
                if !range.contains(&corner) {
                    let (least, most) = (range.start(), range.end());
                    return wrong(index(name, i), format!("must be from {least} to {most}, found {corner}"));
                }
            }
            self.check_extent(&index("pixelBoxUpperCorner", i), i + 1, columns.lower[i], columns.upper[i])?;
        }
        self.check_channels(columns, true)
    }

    /// Checks that the bounding box is not empty along a dimension.
    fn check_extent(&self, argument: &str, dimension: usize, lower: i32, upper: i32) -> Result<(), Invalid> {
        let size = i64::try_from(self.dims.get(dimension).copied().unwrap_or(1)).unwrap_or(i64::MAX);
        if size + i64::from(upper) - i64::from(lower) <= 0 {
            return wrong(
                argument,
                format!(
                    "leaves an empty bounding box: {size} pixels, lower corner {lower}, upper corner {upper}"
                ),
            );
        }
        Ok(())
    }

    fn check_wide(&self, columns: &Columns, w128: bool) -> Result<(), Invalid> {
        for (name, corner) in
            [("pixelBoxLowerCornerWidth", columns.lower[0]), ("pixelBoxUpperCornerWidth", columns.upper[0])]
        {
            if !(-32768..=32767).contains(&corner) {
                return wrong(name, format!("must be from -32768 to 32767, found {corner}"));
            }
        }
        self.check_extent("pixelBoxUpperCornerWidth", 1, columns.lower[0], columns.upper[0])?;
        if !matches!(self.swizzle, Swizzle::Bytes64 | Swizzle::Bytes128 | Swizzle::Bytes128Atom32) {
            return wrong("swizzle", "must be 64B, 128B or 128B_ATOM_32B for im2col wide");
        }
        self.check_channels(columns, !w128)
    }

    fn check_layout(&self) -> Result<(), Invalid> {
        if self.interleave == Interleave::Bytes32 && self.swizzle != Swizzle::Bytes32 {
            return wrong("swizzle", "must be 32B if interleave is 32B");
        }
        if self.data_type == DataType::Packed6Align16 && self.interleave != Interleave::None {
            return wrong("interleave", "must be NONE for 16U6_ALIGN16B");
        }
        let supported = match self.data_type {
            DataType::Packed6Align16 => matches!(
                self.swizzle,
                Swizzle::None | Swizzle::Bytes128 | Swizzle::Bytes128Atom32 | Swizzle::Bytes128Atom64
            ),
            DataType::Packed4Align16 => {
                matches!(self.swizzle, Swizzle::None | Swizzle::Bytes128 | Swizzle::Bytes128Atom32)
            }
            _ => true,
        };
        if !supported {
            return wrong("swizzle", format!("is not supported for {}", self.data_type.name()));
        }
        if self.promotion > 3 {
            return wrong("l2Promotion", format!("must be from 0 to 3, found {}", self.promotion));
        }
        if self.fill == Fill::Nan && !self.data_type.is_float() {
            return wrong(
                "oobFill",
                format!("must be NONE for {}, which is not a floating-point type", self.data_type.name()),
            );
        }
        Ok(())
    }
}
