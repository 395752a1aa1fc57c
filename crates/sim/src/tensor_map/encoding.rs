//! The 128 bytes of a map: a mark with a version, the fields, and a checksum over both.

use super::{BYTES, Columns, DataType, Fill, Interleave, Invalid, Mode, Swizzle, TensorMap};
use std::fmt;

/// The first bytes of every map.
const MARK: [u8; 7] = *b"wp-tmap";
/// The version of the encoding.
const VERSION: u8 = 1;
/// Where the checksum is.
const SUM: usize = BYTES - 8;

/// Why 128 bytes are not a tensor map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// They have never been one.
    Foreign,
    /// They were made by another version of this library.
    Version(u8),
    /// A byte was changed by something other than `tensormap.replace`.
    Damaged,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unreadable::Foreign => f.write_str(
                "these 128 bytes are not a tensor map: cuTensorMapEncodeTiled, cuTensorMapEncodeIm2col and \
                 cuTensorMapEncodeIm2colWide make one",
            ),
            Unreadable::Version(found) => {
                write!(f, "the tensor map has version {found} of the encoding, expected {VERSION}")
            }
            Unreadable::Damaged => {
                f.write_str("the tensor map is damaged: its bytes were changed, but not by tensormap.replace")
            }
        }
    }
}

impl std::error::Error for Unreadable {}

/// FNV-1a.
fn checksum(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}

/// Writes fields one after the other.
struct Writer {
    bytes: [u8; BYTES],
    at: usize,
}

impl Writer {
    fn put(&mut self, bytes: &[u8]) {
        for byte in bytes {
            if let Some(place) = self.bytes.get_mut(self.at) {
                *place = *byte;
            }
            self.at += 1;
        }
    }

    /// A number in fewer bytes; one that does not fit becomes the largest, which no rule accepts.
    fn number<const N: usize>(&mut self, value: u64) {
        let most = if N >= 8 { u64::MAX } else { (1 << (8 * N)) - 1 };
        self.put(value.min(most).to_le_bytes().first_chunk::<N>().unwrap_or(&[0; N]));
    }
}

/// Reads them.
struct Reader<'a> {
    bytes: &'a [u8; BYTES],
    at: usize,
}

impl Reader<'_> {
    fn number(&mut self, size: usize) -> u64 {
        let bytes = self.bytes.get(self.at..self.at + size).unwrap_or(&[]);
        self.at += size;
        bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte))
    }

    fn small(&mut self, size: usize) -> u32 {
        u32::try_from(self.number(size)).unwrap_or(u32::MAX)
    }

    fn signed(&mut self) -> i32 {
        i32::from(i16::from_le_bytes((u16::try_from(self.number(2)).unwrap_or(0)).to_le_bytes()))
    }
}

impl TensorMap {
    /// The 128 bytes, if the map obeys the rules.
    pub fn encode(&self) -> Result<[u8; BYTES], Invalid> {
        self.validate()?;
        Ok(self.pack())
    }

    /// The 128 bytes, also of a map that does not obey the rules yet: `tensormap.replace` changes one field at a time.
    pub fn pack(&self) -> [u8; BYTES] {
        let mut out = Writer { bytes: [0; BYTES], at: 0 };
        out.put(&MARK);
        out.put(&[VERSION]);
        let (mode, columns, sizes) = match self.mode {
            Mode::Tiled { sizes } => {
                (0, Columns { lower: [0; 3], upper: [0; 3], channels: 0, pixels: 0 }, sizes)
            }
            Mode::Im2col(columns) => (1, columns, [0; super::RANK]),
            Mode::Im2colWide { columns, w128 } => (2 + u8::from(w128), columns, [0; super::RANK]),
        };
        out.put(&[mode, self.data_type.number(), u8::try_from(self.rank).unwrap_or(u8::MAX)]);
        out.put(&[self.interleave.number(), self.swizzle.number(), self.promotion, self.fill.number(), 0]);
        out.number::<8>(self.address);
        for dim in &self.dims {
            out.number::<5>(*dim);
        }
        for stride in &self.strides {
            out.number::<8>(*stride);
        }
        for size in &sizes {
            out.number::<2>(u64::from(*size));
        }
        for stride in &self.element_strides {
            out.number::<1>(u64::from(*stride));
        }
        for corner in columns.lower.iter().chain(&columns.upper) {
            out.put(&i16::try_from(*corner).unwrap_or(i16::MIN).to_le_bytes());
        }
        out.number::<2>(u64::from(columns.channels));
        out.number::<2>(u64::from(columns.pixels));
        let sum = checksum(out.bytes.get(..SUM).unwrap_or(&[]));
        out.at = SUM;
        out.put(&sum.to_le_bytes());
        out.bytes
    }

    /// The map in these bytes, which need not obey the rules; see [`validate`](Self::validate).
    pub fn decode(bytes: &[u8; BYTES]) -> Result<TensorMap, Unreadable> {
        let (body, sum) = bytes.split_at(SUM);
        if !body.starts_with(&MARK) {
            return Err(Unreadable::Foreign);
        }
        if checksum(body).to_le_bytes() != *sum {
            return Err(Unreadable::Damaged);
        }
        let mut read = Reader { bytes, at: MARK.len() };
        let version = u8::try_from(read.number(1)).unwrap_or(0);
        if version != VERSION {
            return Err(Unreadable::Version(version));
        }
        let (mode, data_type, rank) = (read.number(1), read.small(1), read.small(1));
        let (interleave, swizzle) = (read.small(1), read.small(1));
        let (promotion, fill) = (u8::try_from(read.number(1)).unwrap_or(0), read.small(1));
        read.at += 1;
        let address = read.number(8);
        let dims = std::array::from_fn(|_| read.number(5));
        let strides = std::array::from_fn(|_| read.number(8));
        let sizes = std::array::from_fn(|_| read.small(2));
        let element_strides = std::array::from_fn(|_| read.small(1));
        let lower = std::array::from_fn(|_| read.signed());
        let upper = std::array::from_fn(|_| read.signed());
        let columns = Columns { lower, upper, channels: read.small(2), pixels: read.small(2) };
        let found = || {
            Some(TensorMap {
                data_type: DataType::from_number(data_type)?,
                rank,
                address,
                dims,
                strides,
                element_strides,
                interleave: Interleave::from_number(interleave)?,
                swizzle: Swizzle::from_number(swizzle)?,
                promotion,
                fill: Fill::from_number(fill)?,
                mode: match mode {
                    0 => Mode::Tiled { sizes },
                    1 => Mode::Im2col(columns),
                    2 | 3 => Mode::Im2colWide { columns, w128: mode == 3 },
                    _ => return None,
                },
            })
        };
        found().ok_or(Unreadable::Damaged)
    }
}
