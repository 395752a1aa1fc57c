//! What a copy reads and writes: the box of a tiled map, four of its rows, or the pixels of an im2col map, as rows of contiguous
//! elements.
//!
//! In shared memory the rows follow each other; with a swizzle each takes at least its span. Sources: "Tensors" in the PTX manual,
//! and the section on swizzles in the CUDA programming guide. Of a type with gaps, 16 elements are at the start of 16 bytes of shared
//! memory; the rest of these keeps its value, and mbarriers do not count it: Triton 3.9 expects the bytes without gaps.

use super::{Columns, DataType, Interleave, Mode, RANK, Swizzle, TensorMap};
use std::fmt;

/// Elements that are contiguous in global memory, or outside of the tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// The address of its first byte inside the tensor.
    pub global: u64,
    /// Bytes before that, which are outside.
    pub skip: u32,
    /// Bytes inside.
    pub bytes: u32,
}

/// The rows of a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// In the order of shared memory.
    pub rows: Vec<Row>,
    /// Bytes of each row, inside and outside of the tensor.
    pub row_bytes: u32,
    /// Bytes from one row to the next in shared memory.
    pub pitch: u32,
    /// How shared memory is permuted.
    pub swizzle: Swizzle,
    /// The type of the elements.
    pub data_type: DataType,
    /// What stands for two bytes outside of the tensor.
    pub outside: u16,
}

/// Which elements a copy visits: the instruction's `.load_mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visit<'a> {
    /// A box: `.tile`.
    Tile,
    /// Four rows, each with a coordinate of its own: `.tile::gather4` and `.tile::scatter4`.
    Rows,
    /// The pixels of a bounding box, with these offsets: `.im2col`; without offsets: `.im2col_no_offs`.
    Im2col(&'a [u16]),
    /// Pixels along W: `.im2col::w` and `.im2col::w::128`.
    Wide {
        /// 128 pixels.
        w128: bool,
        /// Pixels of the halo.
        halo: u16,
        /// What is added to the coordinate and to the bounding box.
        offset: u16,
    },
}

/// A copy that a map does not describe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlanError {
    /// The kernel is wrong: a sentence.
    Wrong(String),
    /// This is not supported here: what.
    Unsupported(&'static str),
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlanError::Wrong(sentence) => f.write_str(sentence),
            PlanError::Unsupported(what) => write!(f, "{what} is not supported"),
        }
    }
}

/// Elements outside of the tensor if the map asks for NaN: these two bytes, repeated.
const NAN: u16 = 0x7ff7;

/// Elements of a type with gaps that lie together, and bytes of shared memory for them.
const GROUP: u32 = 16;

fn wrong<T>(sentence: impl Into<String>) -> Result<T, PlanError> {
    Err(PlanError::Wrong(sentence.into()))
}

/// One dimension of a walk: where it starts, how far it goes, and the tensor along it.
#[derive(Clone, Copy)]
struct Axis {
    start: i64,
    count: u32,
    step: i64,
    dim: u64,
    stride: u64,
}

impl Plan {
    /// Bytes that a copy moves and that its mbarrier counts.
    pub fn bytes(&self) -> u32 {
        self.row_bytes.saturating_mul(u32::try_from(self.rows.len()).unwrap_or(u32::MAX))
    }

    /// Bytes of shared memory that it may use.
    pub fn extent(&self) -> u32 {
        self.pitch.saturating_mul(u32::try_from(self.rows.len()).unwrap_or(u32::MAX))
    }

    /// The pieces of the rows: the offset of each in the moved bytes, its shared address, and its size, for a copy from or to
    /// this shared address.
    pub fn pieces(&self, base: u32) -> impl Iterator<Item = (usize, u32, u32)> + '_ {
        let whole = self.swizzle == Swizzle::None && self.row_bytes == self.pitch;
        let rows = u32::try_from(self.rows.len()).unwrap_or(0);
        // The bytes of a piece, and those from one piece of a row to the next in shared memory.
        let (size, step) = match self.swizzle.grain() {
            _ if self.data_type.is_padded() => (2 * self.data_type.bits(), GROUP),
            _ if whole => (self.row_bytes, self.row_bytes),
            grain => (grain, grain),
        };
        (0..rows * self.row_bytes.div_ceil(size)).map(move |piece| {
            let at = piece * size;
            let (row, inside) = (at / self.row_bytes, at % self.row_bytes);
            let place = base + row * self.pitch + inside / size * step;
            (super::super::machine::at(at), self.swizzle.apply(place), size.min(self.row_bytes - inside))
        })
    }
}

impl TensorMap {
    /// The rows of a copy at these coordinates. `room` limits the bytes of shared memory.
    pub fn plan(
        &self,
        coordinates: &[i32],
        visit: Visit<'_>,
        store: bool,
        room: u32,
    ) -> Result<Plan, PlanError> {
        if let Err(invalid) = self.validate() {
            return wrong(format!("the tensor map is invalid: {invalid}"));
        }
        let rank = self.dimensions();
        if visit == Visit::Rows && (rank != 2 || coordinates.len() != 5) {
            return wrong(format!("a copy of four rows, but the tensor map has rank {rank}, expected 2"));
        }
        if visit != Visit::Rows && coordinates.len() != rank {
            return wrong(format!(
                "a copy with {} coordinates, but the tensor map has rank {rank}",
                coordinates.len()
            ));
        }
        if self.data_type.is_padded() {
            let what = if store {
                Some("a copy of 4-bit or 6-bit elements with gaps to global memory")
            } else if self.interleave != Interleave::None {
                Some("a tensor map of 4-bit or 6-bit elements with gaps and interleave")
            } else if coordinates[0] % 128 != 0 {
                Some("coordinate 0 that is not a multiple of 128, of 4-bit or 6-bit elements with gaps")
            } else {
                None
            };
            if let Some(what) = what {
                return Err(PlanError::Unsupported(what));
            }
        }
        if let (true, Some(i)) = (store, coordinates.iter().position(|coordinate| *coordinate < 0)) {
            return wrong(format!(
                "coordinate {i} is {}; a copy to global memory must not start before the tensor",
                coordinates[i]
            ));
        }
        match (&self.mode, visit) {
            (Mode::Tiled { sizes }, Visit::Tile) => self.tiles(coordinates, sizes, room),
            (Mode::Tiled { sizes }, Visit::Rows) => self.four_rows(coordinates, sizes, room),
            (Mode::Im2col(columns), Visit::Im2col(offsets)) => {
                self.columns(coordinates, columns, offsets, store, room)
            }
            (Mode::Im2colWide { columns, w128: made }, Visit::Wide { w128, halo, offset }) => {
                if *made != w128 {
                    let (name, found) = if w128 { ("W128", "W") } else { ("W", "W128") };
                    return wrong(format!("the tensor map is for im2col wide mode {found}, expected {name}"));
                }
                if halo >= if w128 { 32 } else { 512 } || offset >= 32 {
                    return wrong(format!("im2col wide mode with wHalo {halo} and wOffset {offset}"));
                }
                if halo != 0 {
                    return Err(PlanError::Unsupported("im2col wide mode with a wHalo other than 0"));
                }
                self.along_width(coordinates, columns, w128, offset, room)
            }
            (Mode::Tiled { .. }, Visit::Im2col(_) | Visit::Wide { .. }) => {
                wrong("an im2col copy with a tensor map for tiles")
            }
            (Mode::Im2col(_) | Mode::Im2colWide { .. }, Visit::Tile | Visit::Rows) => {
                wrong("a copy of a tile with a tensor map for im2col")
            }
            (Mode::Im2col(_), Visit::Wide { .. }) => {
                wrong("a copy in im2col wide mode with a tensor map for im2col mode")
            }
            (Mode::Im2colWide { .. }, Visit::Im2col(_)) => {
                wrong("an im2col copy with a tensor map for im2col wide mode")
            }
        }
    }

    /// Rows with the same first coordinate, each with a second one of its own.
    fn four_rows(&self, coordinates: &[i32], sizes: &[u32; RANK], room: u32) -> Result<Plan, PlanError> {
        if sizes[1] != 1 {
            return wrong(format!("a copy of four rows with a box of {} rows, expected 1", sizes[1]));
        }
        let bits = self.data_type.bits();
        let first = i64::from(coordinates[0]);
        let inner = Axis { start: first, count: sizes[0], step: 1, dim: self.dims[0], stride: 0 };
        let mut plan = self.empty(inner.count, bits, [4].into_iter(), room)?;
        for coordinate in coordinates.iter().skip(1) {
            let address = advance(Some(self.address), i64::from(*coordinate), self.dims[1], self.strides[0]);
            plan.rows.push(row(address, inner, bits)?);
        }
        Ok(plan)
    }

    /// Pixels along W of one row of an image, and then of the same row of the next image.
    fn along_width(
        &self,
        coordinates: &[i32],
        columns: &Columns,
        w128: bool,
        offset: u16,
        room: u32,
    ) -> Result<Plan, PlanError> {
        let last_dimension = self.dimensions() - 1;
        let offset = i64::from(offset);
        let lower = i64::from(columns.lower[0]) + offset;
        let size = i64::try_from(self.dims[1]).unwrap_or(i64::MAX);
        let upper = size.saturating_sub(1) + i64::from(columns.upper[0]) + offset;
        let mut at: Vec<i64> = coordinates.iter().map(|coordinate| i64::from(*coordinate)).collect();
        at[1] += offset;
        if at[1] > upper {
            return wrong(format!(
                "coordinate 1 is {}, behind the bounding box of the tensor map",
                coordinates[1]
            ));
        }
        let (bits, pixels) = (self.data_type.bits(), if w128 { 128 } else { columns.pixels });
        let mut plan = self.empty(columns.channels, bits, [pixels].into_iter(), room)?;
        let channels = Axis { start: at[0], count: columns.channels, step: 1, dim: self.dims[0], stride: 0 };
        for _ in 0..pixels {
            let mut address = Some(self.address);
            for (i, position) in at.iter().enumerate().skip(1) {
                address = advance(address, *position, self.dims[i], self.strides[i - 1]);
            }
            plan.rows.push(row(address, channels, bits)?);
            at[1] += i64::from(self.element_strides[1]);
            if at[1] > upper {
                at[1] = lower;
                at[last_dimension] += 1;
            }
        }
        Ok(plan)
    }

    fn tiles(&self, coordinates: &[i32], sizes: &[u32; RANK], room: u32) -> Result<Plan, PlanError> {
        let rank = self.dimensions();
        let axis = |i: usize| {
            let step =
                if i == 0 && self.interleave == Interleave::None { 1 } else { self.element_strides[i] };
            Axis {
                start: i64::from(coordinates[i]),
                count: sizes[i].div_ceil(step),
                step: i64::from(step),
                dim: self.dims[i],
                stride: if i == 0 { 0 } else { self.strides[i - 1] },
            }
        };
        let mut axes: Vec<Axis> = (0..rank).map(axis).collect();
        let inner = match self.interleave.bytes() {
            None => axes.remove(0),
            Some(bytes) => {
                if self.interleave == Interleave::Bytes16 && self.swizzle != Swizzle::None {
                    return Err(PlanError::Unsupported("a swizzle of a tensor with interleave 16B"));
                }
                // A group of channels is the element of the first dimension; the last but one selects the group.
                axes[0].stride = u64::from(bytes);
                axes[rank - 2].count = 1;
                Axis { start: 0, count: bytes, step: 1, dim: u64::from(bytes), stride: 0 }
            }
        };
        let bits = if self.interleave == Interleave::None { self.data_type.bits() } else { 8 };
        let mut plan = self.empty(inner.count, bits, axes.iter().map(|axis| axis.count), room)?;
        let mut place = vec![0u32; axes.len()];
        let total: u32 = axes.iter().map(|axis| axis.count).product();
        for _ in 0..total {
            let mut address = Some(self.address);
            for (axis, at) in axes.iter().zip(&place) {
                let coordinate = axis.start + i64::from(*at) * axis.step;
                address = advance(address, coordinate, axis.dim, axis.stride);
            }
            plan.rows.push(row(address, inner, bits)?);
            for (axis, at) in axes.iter().zip(&mut place) {
                *at += 1;
                if *at < axis.count {
                    break;
                }
                *at = 0;
            }
        }
        Ok(plan)
    }

    fn columns(
        &self,
        coordinates: &[i32],
        columns: &Columns,
        offsets: &[u16],
        store: bool,
        room: u32,
    ) -> Result<Plan, PlanError> {
        if self.interleave != Interleave::None {
            return Err(PlanError::Unsupported("im2col mode of a tensor with interleave"));
        }
        let (rank, spatial) = (self.dimensions(), self.dimensions() - 2);
        let inside = |i: usize| columns.lower[i] >= 0 && columns.upper[i] <= 0;
        if store && !(0..spatial).all(inside) {
            return wrong("the bounding box of a copy to global memory must be inside of the tensor");
        }
        let bits = self.data_type.bits();
        let mut plan = self.empty(columns.channels, bits, [columns.pixels].into_iter(), room)?;
        let channels = Axis {
            start: i64::from(coordinates[0]),
            count: columns.channels,
            step: 1,
            dim: self.dims[0],
            stride: 0,
        };
        let mut at: Vec<i64> = coordinates.iter().skip(1).map(|coordinate| i64::from(*coordinate)).collect();
        for _ in 0..columns.pixels {
            let mut address = Some(self.address);
            for (i, position) in at.iter().enumerate() {
                let offset = offsets.get(i).map_or(0, |offset| i64::from(*offset));
                let coordinate = if i < spatial { position + offset } else { *position };
                address = advance(address, coordinate, self.dims[i + 1], self.strides[i]);
            }
            plan.rows.push(row(address, channels, bits)?);
            // To the next pixel in the bounding box, and behind the last one to the next image.
            for (i, position) in at.iter_mut().enumerate() {
                if i == rank - 2 {
                    *position += 1;
                    break;
                }
                *position += i64::from(self.element_strides[i + 1]);
                let last =
                    i64::try_from(self.dims[i + 1]).unwrap_or(i64::MAX) - 1 + i64::from(columns.upper[i]);
                if *position <= last {
                    break;
                }
                *position = i64::from(columns.lower[i]);
            }
        }
        Ok(plan)
    }

    /// A plan without rows, if they have room in shared memory.
    fn empty(
        &self,
        elements: u32,
        bits: u32,
        mut counts: impl Iterator<Item = u32>,
        room: u32,
    ) -> Result<Plan, PlanError> {
        let row_bytes = elements * bits / 8;
        let shared = if self.data_type.is_padded() { elements.div_ceil(GROUP) * GROUP } else { row_bytes };
        let pitch = match (self.interleave, self.swizzle.span()) {
            (Interleave::None, Some(span)) => shared.max(span),
            _ => shared,
        };
        let extent = counts.try_fold(pitch, u32::checked_mul).unwrap_or(u32::MAX);
        if extent > room {
            return wrong(format!("a box of {extent} bytes, but shared memory has {room} bytes"));
        }
        let outside = if self.fill == super::Fill::Nan { NAN } else { 0 };
        let (swizzle, data_type) = (self.swizzle, self.data_type);
        Ok(Plan { rows: Vec::new(), row_bytes, pitch, swizzle, data_type, outside })
    }
}

/// The address after moving along a dimension; `None` outside of the tensor.
fn advance(address: Option<u64>, coordinate: i64, dim: u64, stride: u64) -> Option<u64> {
    let coordinate = u64::try_from(coordinate).ok().filter(|coordinate| *coordinate < dim)?;
    Some(address?.wrapping_add(coordinate.wrapping_mul(stride)))
}

/// The part of a row that is inside of the tensor.
fn row(address: Option<u64>, axis: Axis, bits: u32) -> Result<Row, PlanError> {
    let nothing = Row { global: 0, skip: 0, bytes: 0 };
    let Some(address) = address else { return Ok(nothing) };
    let (count, dim) = (i64::from(axis.count), i64::try_from(axis.dim).unwrap_or(i64::MAX));
    let first = (-axis.start).clamp(0, count);
    let end = (dim - axis.start).clamp(first, count);
    if first == end {
        return Ok(nothing);
    }
    let bits = i64::from(bits);
    let (from, skip, size) = ((axis.start + first) * bits, first * bits, (end - first) * bits);
    if from % 8 != 0 || skip % 8 != 0 || size % 8 != 0 {
        return wrong(format!("coordinate 0 is {}, which is not a whole byte of 4-bit elements", axis.start));
    }
    let small = |bits: i64| u32::try_from(bits / 8).unwrap_or(u32::MAX);
    Ok(Row {
        global: address.wrapping_add(u64::try_from(from / 8).unwrap_or(0)),
        skip: small(skip),
        bytes: small(size),
    })
}
