//! The origin of an element, encoded as a number (its tag).
//!
//! Every element of the buffers that the launch names has a number of its own, in memory order, so that a load computes
//! its tags by arithmetic. A *line* is what the elements of one row (or column) of an operand have in common, and an
//! accumulator's tag is the line of A and the line of B whose product it is.

use super::super::settings::BufferRole;
use std::collections::HashMap;

/// The origin of an element: 0 (none), [`LOST`], the number of an element, or an accumulator's two lines.
pub(super) type Tag = u32;
/// The value comes from memory, but not from a single element.
pub(super) const LOST: Tag = 1;
const FIRST: u32 = 2;
const SUM: u32 = 1 << 31;
/// Maximum number of distinct lines in a block.
const LINES: usize = 1 << 15;

/// Position in a buffer: the index of the matrix, the row, the column.
pub(super) type Cell = [u32; 3];

/// One buffer of the launch.
#[derive(Clone, Debug)]
pub(super) struct Source {
    pub name: String,
    address: u64,
    bytes: u64,
    element: u64,
    /// The number of its first element; `None` if its elements are not distinguished.
    first: Option<u32>,
    /// The tag of all its elements in that case.
    other: Tag,
    rows: u32,
    columns: u32,
}

/// The rows and columns of a buffer that a block accesses. Rows are counted through all matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    rows: (u64, u64),
    columns: (u64, u64),
}

/// Accumulators are compared in tiles of 16 × 8; elements that move by a multiple of this many keep their place.
const TILE: i64 = 16;

/// The buffers of the launch.
#[derive(Clone, Debug, Default)]
pub(super) struct Sources(Vec<Source>);

impl Sources {
    pub(super) fn of(buffers: &[BufferRole]) -> Sources {
        let mut next = u64::from(FIRST);
        let sources = buffers.iter().map(|buffer| {
            let count = buffer.extents.iter().fold(1u64, |n, extent| n.saturating_mul(*extent));
            let narrow = |n: &u64| u32::try_from(*n).unwrap_or(u32::MAX);
            let (rows, columns) = match buffer.extents.as_slice() {
                [.., rows, columns] => (narrow(rows), narrow(columns)),
                _ => (1, 1),
            };
            let matrix = rows > 1 && columns > 1 && next.saturating_add(count) < u64::from(SUM);
            let first = matrix.then(|| narrow(&next));
            if matrix {
                next += count;
            }
            Source {
                name: buffer.name.clone(),
                address: buffer.address,
                bytes: buffer.bytes(),
                element: u64::from(buffer.element.max(1)),
                first,
                other: if count == 1 { 0 } else { LOST },
                rows,
                columns,
            }
        });
        Sources(sources.collect())
    }

    /// Whether no element can be distinguished from others.
    pub(super) fn is_empty(&self) -> bool {
        self.0.iter().all(|source| source.first.is_none())
    }

    /// The number of the buffer that contains an address; `hint` is tried first.
    pub(super) fn holding(&self, address: u64, hint: usize) -> Option<usize> {
        let holds = |source: &Source| address.wrapping_sub(source.address) < source.bytes;
        if self.0.get(hint).is_some_and(holds) { Some(hint) } else { self.0.iter().position(holds) }
    }

    /// The tags of the bytes from an address of a buffer on, `grain` bytes each.
    pub(super) fn tags(&self, buffer: Option<usize>, address: u64, grain: u32, out: &mut [Tag]) {
        out.fill(LOST);
        let Some(source) = buffer.and_then(|buffer| self.0.get(buffer)) else { return };
        let Some(first) = source.first else { return out.fill(source.other) };
        if source.element < u64::from(grain) {
            return;
        }
        let mut offset = address.wrapping_sub(source.address);
        for tag in out {
            if offset < source.bytes {
                let index = if source.element.is_power_of_two() {
                    offset >> source.element.trailing_zeros()
                } else {
                    offset / source.element
                };
                *tag = u32::try_from(index).map_or(LOST, |index| first.saturating_add(index));
            }
            offset = offset.wrapping_add(u64::from(grain));
        }
    }

    /// Whether a buffer contains an address.
    pub(super) fn holds(&self, buffer: usize, address: u64) -> bool {
        self.0.get(buffer).is_some_and(|source| address.wrapping_sub(source.address) < source.bytes)
    }

    /// Whether the elements of a buffer are distinguished.
    pub(super) fn is_matrix(&self, buffer: usize) -> bool {
        self.0.get(buffer).is_some_and(|source| source.first.is_some())
    }

    /// Extends an extent by bytes of a buffer.
    pub(super) fn cover(&self, buffer: usize, extent: &mut Option<Extent>, address: u64, bytes: u32) {
        let Some(source) = self.0.get(buffer) else { return };
        let first = address.wrapping_sub(source.address) / source.element;
        let last = (address.wrapping_sub(source.address).saturating_add(u64::from(bytes.max(1)) - 1)
            / source.element)
            .max(first);
        let columns = u64::from(source.columns.max(1));
        let rows = (first / columns, last / columns);
        let columns = if rows.0 == rows.1 { (first % columns, last % columns) } else { (0, columns - 1) };
        let new = Extent { rows, columns };
        *extent = Some(extent.map_or(new, |known| Extent {
            rows: (known.rows.0.min(new.rows.0), known.rows.1.max(new.rows.1)),
            columns: (known.columns.0.min(new.columns.0), known.columns.1.max(new.columns.1)),
        }));
    }

    /// Whether what a block accesses of a buffer, moved by this many bytes, lies there as before: each element as many rows
    /// and columns further, in one matrix if rows change, and at the same place in tiles.
    pub(super) fn allows_shift(&self, buffer: usize, extent: &Extent, by: u64) -> bool {
        self.moved(buffer, extent, by).is_some()
    }

    fn moved(&self, buffer: usize, extent: &Extent, by: u64) -> Option<()> {
        let source = self.0.get(buffer)?;
        let signed = |n: u64| i64::try_from(n).ok();
        let (by, element) = (by.cast_signed(), signed(source.element)?);
        let (rows, columns) = (i64::from(source.rows.max(1)), i64::from(source.columns.max(1)));
        let moved = (by % element == 0).then_some(by / element)?;
        let fits = |across: &i64| {
            signed(extent.columns.0).is_some_and(|first| first + across >= 0)
                && signed(extent.columns.1).is_some_and(|last| last + across < columns)
        };
        let right = moved.rem_euclid(columns);
        let across = [right, right - columns].into_iter().find(fits)?;
        let down = (moved - across) / columns;
        let (first, last) = (signed(extent.rows.0)?, signed(extent.rows.1)?);
        let count = signed(source.bytes / source.element)? / columns;
        let inside = first.checked_add(down)? >= 0 && last.checked_add(down)? < count;
        let in_tiles = |by: i64| by % TILE == 0;
        let whole = down % rows == 0;
        let within = first / rows == last / rows
            && (first + down) / rows == (last + down) / rows
            && in_tiles((first + down) % rows - first % rows);
        (inside && in_tiles(across) && (whole || within)).then_some(())
    }

    /// Bytes of an element.
    pub(super) fn element(&self, buffer: usize) -> u64 {
        self.0.get(buffer).map_or(1, |source| source.element)
    }

    /// The extent of an index of a buffer.
    pub(super) fn extent(&self, buffer: usize, index: usize) -> Option<u32> {
        let source = self.0.get(buffer)?;
        [None, Some(source.rows), Some(source.columns)].get(index).copied().flatten()
    }

    /// The buffer and position of an element.
    pub(super) fn place(&self, tag: Tag) -> Option<(usize, Cell)> {
        if !is_element(tag) {
            return None;
        }
        let (buffer, first) = self
            .0
            .iter()
            .enumerate()
            .filter_map(|(i, source)| source.first.map(|first| (i, first)))
            .take_while(|(_, first)| *first <= tag)
            .last()?;
        let source = self.0.get(buffer)?;
        let index = tag - first;
        let row = index / source.columns;
        Some((buffer, [row / source.rows, row % source.rows, index % source.columns]))
    }

    /// The number of the element at a position.
    pub(super) fn at(&self, buffer: usize, [matrix, row, column]: Cell) -> Option<Tag> {
        let source = self.0.get(buffer)?;
        let line = matrix.checked_mul(source.rows)?.checked_add(row)?;
        source.first?.checked_add(line.checked_mul(source.columns)?.checked_add(column)?)
    }

    /// An element in source notation, such as `a[1][2]`.
    pub(super) fn name(&self, buffer: usize, [matrix, row, column]: Cell) -> String {
        let Some(source) = self.0.get(buffer) else { return String::new() };
        let rank = source.bytes / source.element / u64::from(source.rows) / u64::from(source.columns);
        if rank > 1 {
            format!("{}[{matrix}][{row}][{column}]", source.name)
        } else {
            format!("{}[{row}][{column}]", source.name)
        }
    }

    /// A buffer's name.
    pub(super) fn buffer(&self, buffer: usize) -> &str {
        self.0.get(buffer).map_or("", |source| source.name.as_str())
    }
}

/// Whether a tag names an element.
pub(super) fn is_element(tag: Tag) -> bool {
    (FIRST..SUM).contains(&tag)
}

/// Whether a tag names a product of two lines.
pub(super) fn is_sum(tag: Tag) -> bool {
    tag >= SUM
}

/// The tag of an accumulator; a line of 0 is not known.
pub(super) fn sum(row: u32, column: u32) -> Tag {
    if row == 0 || column == 0 { LOST } else { SUM | row << 16 | column }
}

/// The two lines of an accumulator.
pub(super) fn lines_of(tag: Tag) -> (u32, u32) {
    (tag >> 16 & 0x7fff, tag & 0xffff)
}

/// The lines of a block, by number; 0 is none.
#[derive(Debug, Default)]
pub(super) struct Lines {
    lines: Vec<(Tag, u8)>,
    index: HashMap<(Tag, u8), u32>,
}

impl Lines {
    /// The line through an element in the directions `along`: one bit for each index of a position.
    pub(super) fn line(&mut self, sources: &Sources, buffer: usize, mut place: Cell, along: u8) -> u32 {
        for (direction, index) in place.iter_mut().enumerate() {
            if along >> direction & 1 != 0 {
                *index = 0;
            }
        }
        let Some(tag) = sources.at(buffer, place) else { return 0 };
        if let Some(line) = self.index.get(&(tag, along)) {
            return *line;
        }
        if self.lines.len() + 2 >= LINES {
            return 0;
        }
        self.lines.push((tag, along));
        let line = u32::try_from(self.lines.len()).unwrap_or(0);
        self.index.insert((tag, along), line);
        line
    }

    /// The index that distinguishes a line from its neighbors, if there is exactly one.
    pub(super) fn across(&self, line: u32) -> Option<usize> {
        let index = usize::try_from(line.checked_sub(1)?).ok()?;
        match self.lines.get(index)?.1 {
            0b100 => Some(1),
            0b010 => Some(2),
            _ => None,
        }
    }

    /// The first element of a line.
    pub(super) fn start(&self, line: u32) -> Option<Tag> {
        let index = usize::try_from(line.checked_sub(1)?).ok()?;
        self.lines.get(index).map(|(tag, _)| *tag)
    }
}
