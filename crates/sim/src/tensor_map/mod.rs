//! Tensor maps: the 128-byte descriptions of a tensor in global memory that `cp.async.bulk.tensor` uses.
//!
//! NVIDIA does not document the bits. The encoding here is our own (`encoding.rs`): the driver's `cuTensorMapEncode…` functions
//! produce it, `tensormap.replace` changes it, and a copy that finds anything else stops the launch. `rules.rs` checks what the
//! driver API demands of a map, `plan.rs` lists what a copy reads and writes.

mod encoding;
mod plan;
mod rules;
#[cfg(test)]
mod tests;

pub use encoding::Unreadable;
pub use plan::{Plan, PlanError, Row, Visit};
pub use rules::Invalid;

/// The most dimensions of a tensor.
pub const RANK: usize = 5;
/// Bytes of a map.
pub const BYTES: usize = 128;

/// The type of a tensor's elements, in the order of `CUtensorMapDataType`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "CUDA's own names")]
pub enum DataType {
    Uint8,
    Uint16,
    Uint32,
    Int32,
    Uint64,
    Int64,
    Float16,
    Float32,
    Float64,
    Bfloat16,
    Float32Ftz,
    Tfloat32,
    Tfloat32Ftz,
    Packed4Align8,
    Packed4Align16,
    Packed6Align16,
}

/// How channels are grouped in global memory, in the order of `CUtensorMapInterleave`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "CUDA's own names")]
pub enum Interleave {
    None,
    Bytes16,
    Bytes32,
}

/// How the bytes of a box are permuted in shared memory, in the order of `CUtensorMapSwizzle`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "CUDA's own names")]
pub enum Swizzle {
    None,
    Bytes32,
    Bytes64,
    Bytes128,
    Bytes128Atom32,
    Bytes128Atom32Flip8,
    Bytes128Atom64,
}

/// What elements outside of the tensor are, in the order of `CUtensorMapFloatOOBfill`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fill {
    /// Zero.
    Zero,
    /// The NaN that `fma.oob` recognizes.
    Nan,
}

/// The box of an im2col copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Columns {
    /// The offsets of the lower corner of the bounding box, first that of W.
    pub lower: [i32; 3],
    /// The offsets of its upper corner from the tensor's last pixel.
    pub upper: [i32; 3],
    /// Elements along the channels.
    pub channels: u32,
    /// Pixels.
    pub pixels: u32,
}

/// Which elements a copy visits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// A box.
    Tiled {
        /// Its sizes in elements.
        sizes: [u32; RANK],
    },
    /// Pixels in a bounding box.
    Im2col(Columns),
    /// Pixels along W.
    Im2colWide {
        /// The corners along W, channels and pixels.
        columns: Columns,
        /// `CU_TENSOR_MAP_IM2COL_WIDE_MODE_W128`.
        w128: bool,
    },
}

/// A tensor in global memory and the part of it that a copy moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TensorMap {
    /// The type of the elements.
    pub data_type: DataType,
    /// The number of dimensions.
    pub rank: u32,
    /// The address of the first element.
    pub address: u64,
    /// Elements along each dimension; the first is contiguous.
    pub dims: [u64; RANK],
    /// Bytes between elements of each dimension except the first.
    pub strides: [u64; RANK - 1],
    /// Along each dimension, every how many elements one is copied.
    pub element_strides: [u32; RANK],
    /// How channels are grouped.
    pub interleave: Interleave,
    /// How the bytes are permuted in shared memory.
    pub swizzle: Swizzle,
    /// The L2 promotion, a hint: 0 to 3.
    pub promotion: u8,
    /// What is read outside of the tensor.
    pub fill: Fill,
    /// Which elements a copy visits.
    pub mode: Mode,
}

/// The values of an enumeration, by number.
macro_rules! numbered {
    ($($name:ident: $($value:ident)*;)*) => {
        $(impl $name {
            const ALL: &[$name] = &[$($name::$value),*];

            /// The value with CUDA's number.
            pub fn from_number(number: u32) -> Option<$name> {
                Self::ALL.get(usize::try_from(number).ok()?).copied()
            }

            /// CUDA's number.
            pub fn number(self) -> u8 {
                let found = Self::ALL.iter().position(|value| *value == self);
                found.and_then(|number| u8::try_from(number).ok()).unwrap_or(u8::MAX)
            }
        })*
    };
}

numbered! {
    DataType: Uint8 Uint16 Uint32 Int32 Uint64 Int64 Float16 Float32 Float64 Bfloat16 Float32Ftz Tfloat32 Tfloat32Ftz Packed4Align8
        Packed4Align16 Packed6Align16;
    Interleave: None Bytes16 Bytes32;
    Swizzle: None Bytes32 Bytes64 Bytes128 Bytes128Atom32 Bytes128Atom32Flip8 Bytes128Atom64;
    Fill: Zero Nan;
}

impl DataType {
    /// Bits of an element in global memory.
    pub fn bits(self) -> u32 {
        match self {
            DataType::Packed4Align8 | DataType::Packed4Align16 => 4,
            DataType::Packed6Align16 => 6,
            DataType::Uint8 => 8,
            DataType::Uint16 | DataType::Float16 | DataType::Bfloat16 => 16,
            DataType::Uint64 | DataType::Int64 | DataType::Float64 => 64,
            DataType::Uint32
            | DataType::Int32
            | DataType::Float32
            | DataType::Float32Ftz
            | DataType::Tfloat32
            | DataType::Tfloat32Ftz => 32,
        }
    }

    /// Whether elements are smaller than a byte.
    pub fn is_packed(self) -> bool {
        self.bits() < 8
    }

    /// Whether 16 elements have 16 bytes in shared memory, with a gap behind them.
    pub fn is_padded(self) -> bool {
        matches!(self, DataType::Packed4Align16 | DataType::Packed6Align16)
    }

    /// Whether it is a floating-point type.
    pub fn is_float(self) -> bool {
        matches!(
            self,
            DataType::Float16
                | DataType::Bfloat16
                | DataType::Float32
                | DataType::Float32Ftz
                | DataType::Float64
                | DataType::Tfloat32
                | DataType::Tfloat32Ftz
        )
    }

    /// Whether a load rounds the elements to TF32.
    pub fn is_tf32(self) -> bool {
        matches!(self, DataType::Tfloat32 | DataType::Tfloat32Ftz)
    }

    /// CUDA's name, without the prefix.
    pub fn name(self) -> &'static str {
        match self {
            DataType::Uint8 => "UINT8",
            DataType::Uint16 => "UINT16",
            DataType::Uint32 => "UINT32",
            DataType::Int32 => "INT32",
            DataType::Uint64 => "UINT64",
            DataType::Int64 => "INT64",
            DataType::Float16 => "FLOAT16",
            DataType::Float32 => "FLOAT32",
            DataType::Float64 => "FLOAT64",
            DataType::Bfloat16 => "BFLOAT16",
            DataType::Float32Ftz => "FLOAT32_FTZ",
            DataType::Tfloat32 => "TFLOAT32",
            DataType::Tfloat32Ftz => "TFLOAT32_FTZ",
            DataType::Packed4Align8 => "16U4_ALIGN8B",
            DataType::Packed4Align16 => "16U4_ALIGN16B",
            DataType::Packed6Align16 => "16U6_ALIGN16B",
        }
    }

    /// The type with the number that `tensormap.replace` uses, which orders the types differently.
    pub fn from_ptx_number(number: u32) -> Option<DataType> {
        Some(match number {
            8 => DataType::Float32Ftz,
            9 => DataType::Float64,
            10 => DataType::Bfloat16,
            other => DataType::from_number(other)?,
        })
    }
}

impl Interleave {
    /// Bytes of a group of channels, if there are groups.
    pub fn bytes(self) -> Option<u32> {
        match self {
            Interleave::None => None,
            Interleave::Bytes16 => Some(16),
            Interleave::Bytes32 => Some(32),
        }
    }
}

impl Swizzle {
    /// The bytes within which pieces are permuted, if they are.
    pub fn span(self) -> Option<u32> {
        match self {
            Swizzle::None => None,
            Swizzle::Bytes32 => Some(32),
            Swizzle::Bytes64 => Some(64),
            Swizzle::Bytes128
            | Swizzle::Bytes128Atom32
            | Swizzle::Bytes128Atom32Flip8
            | Swizzle::Bytes128Atom64 => Some(128),
        }
    }

    /// The bytes of the pieces.
    pub fn atom(self) -> u32 {
        match self {
            Swizzle::Bytes128Atom32 | Swizzle::Bytes128Atom32Flip8 => 32,
            Swizzle::Bytes128Atom64 => 64,
            Swizzle::None | Swizzle::Bytes32 | Swizzle::Bytes64 | Swizzle::Bytes128 => 16,
        }
    }

    /// The shared address of a byte: bits of the piece's number are combined with those of the number of its 128 bytes.
    pub fn apply(self, address: u32) -> u32 {
        let Some(span) = self.span() else { return address };
        let pieces = span / self.atom();
        let flipped =
            if self == Swizzle::Bytes128Atom32Flip8 { address ^ (address >> 4 & 8) } else { address };
        flipped ^ ((address >> 7 & (pieces - 1)) * self.atom())
    }

    /// Bytes that stay together.
    pub fn grain(self) -> u32 {
        if self == Swizzle::Bytes128Atom32Flip8 { 8 } else { 16 }
    }

    /// The alignment of the shared address that a copy needs.
    pub fn alignment(self) -> u32 {
        128
    }
}

impl TensorMap {
    /// The map that 128 bytes of zeros are to `tensormap.replace`: one dimension without elements.
    pub const BLANK: TensorMap = TensorMap {
        data_type: DataType::Uint8,
        rank: 1,
        address: 0,
        dims: [0; RANK],
        strides: [0; RANK - 1],
        element_strides: [1; RANK],
        interleave: Interleave::None,
        swizzle: Swizzle::None,
        promotion: 0,
        fill: Fill::Zero,
        mode: Mode::Tiled { sizes: [0; RANK] },
    };

    /// A tiled map without padding: rows are contiguous, every element is copied, nothing is permuted.
    pub fn tiled(data_type: DataType, address: u64, dims: &[u64], sizes: &[u32]) -> TensorMap {
        let mut map = TensorMap {
            data_type,
            rank: u32::try_from(dims.len()).unwrap_or(u32::MAX),
            address,
            dims: [1; RANK],
            strides: [0; RANK - 1],
            element_strides: [1; RANK],
            interleave: Interleave::None,
            swizzle: Swizzle::None,
            promotion: 0,
            fill: Fill::Zero,
            mode: Mode::Tiled { sizes: [1; RANK] },
        };
        for (place, dim) in map.dims.iter_mut().zip(dims) {
            *place = *dim;
        }
        let mut stride = u64::from(data_type.bits());
        for (place, dim) in map.strides.iter_mut().zip(dims).take(dims.len().saturating_sub(1)) {
            stride = stride.saturating_mul(*dim);
            *place = stride / 8;
        }
        if let Mode::Tiled { sizes: places } = &mut map.mode {
            for (place, size) in places.iter_mut().zip(sizes) {
                *place = *size;
            }
        }
        map
    }

    /// The sizes of the box of a tiled map.
    pub fn sizes_mut(&mut self) -> Option<&mut [u32; RANK]> {
        match &mut self.mode {
            Mode::Tiled { sizes } => Some(sizes),
            _ => None,
        }
    }
}
