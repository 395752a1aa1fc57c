//! Tensor memory: 512 columns of 128 lanes of 32 bits for each block, which threads allocate by columns.
//!
//! An address has the lane in its upper 16 bits and the column in its lower 16. Hardware gives the blocks of a multiprocessor one
//! tensor memory together; here every block has its own.

/// Lanes.
pub const TENSOR_LANES: u32 = 128;
/// Columns.
pub const TENSOR_COLUMNS: u32 = 512;
/// The fewest columns of an allocation.
pub const TENSOR_UNIT: u32 = 32;

/// Columns that a warp has allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TensorAllocation {
    /// The first column.
    pub first: u32,
    /// How many.
    pub columns: u32,
    /// The instruction that allocated them.
    pub pc: u32,
}

impl TensorAllocation {
    fn end(&self) -> u32 {
        self.first + self.columns
    }
}

/// The tensor memory of a block.
#[derive(Debug, Default)]
pub struct TensorMemory {
    /// By column, then by lane; empty until the first allocation.
    cells: Vec<u32>,
    /// In the order of their columns.
    allocations: Vec<TensorAllocation>,
}

fn index(lane: u32, column: u32) -> usize {
    usize::try_from(column * TENSOR_LANES + lane).unwrap_or(usize::MAX)
}

impl TensorMemory {
    /// The first of this number of free consecutive columns; `None` if there are fewer.
    fn room(&self, columns: u32) -> Option<u32> {
        let mut first = 0;
        for allocation in &self.allocations {
            if first + columns <= allocation.first {
                break;
            }
            first = allocation.end();
        }
        (first + columns <= TENSOR_COLUMNS).then_some(first)
    }

    /// Whether an allocation of this number of columns would succeed now.
    pub fn has_room(&self, columns: u32) -> bool {
        self.room(columns).is_some()
    }

    /// Allocates columns, and returns the first; `None` if there are not enough.
    pub fn allocate(&mut self, columns: u32, pc: u32) -> Option<u32> {
        let first = self.room(columns)?;
        if self.cells.is_empty() {
            self.cells = vec![0; index(0, TENSOR_COLUMNS)];
        }
        self.allocations.push(TensorAllocation { first, columns, pc });
        self.allocations.sort_by_key(|allocation| allocation.first);
        Some(first)
    }

    /// Frees an allocation; `false` if no allocation has exactly these columns.
    pub fn free(&mut self, first: u32, columns: u32) -> bool {
        let found = self.allocations.iter().position(|one| one.first == first && one.columns == columns);
        found.map(|place| self.allocations.remove(place)).is_some()
    }

    /// The allocations that were not freed, in the order of their columns.
    pub fn allocations(&self) -> &[TensorAllocation] {
        &self.allocations
    }

    /// The first of these columns that is not allocated.
    pub fn unallocated(&self, first: u32, count: u32) -> Option<u32> {
        let owned = |column: &u32| self.allocations.iter().any(|one| (one.first..one.end()).contains(column));
        // The first column that does not exist is enough.
        let end = first.saturating_add(count).min(first.max(TENSOR_COLUMNS).saturating_add(1));
        (first..end).find(|column| !owned(column))
    }

    /// Bytes of host memory that it holds.
    pub fn bytes(&self) -> u64 {
        4 * u64::try_from(self.cells.len()).unwrap_or(u64::MAX)
    }

    /// The cell at a lane and column; zero outside.
    #[inline]
    pub fn cell(&self, lane: u32, column: u32) -> u32 {
        self.cells.get(index(lane, column)).copied().unwrap_or(0)
    }

    /// Writes a cell.
    #[inline]
    pub fn set(&mut self, lane: u32, column: u32, value: u32) {
        if let Some(cell) = self.cells.get_mut(index(lane, column)) {
            *cell = value;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_allocated_in_the_first_gap_that_is_large_enough() {
        let mut memory = TensorMemory::default();
        assert_eq!(memory.allocate(128, 0), Some(0));
        assert_eq!(memory.allocate(256, 1), Some(128));
        assert_eq!(memory.allocate(256, 2), None);
        assert_eq!(memory.allocate(64, 3), Some(384));
        assert!(!memory.free(0, 64), "another size");
        assert!(memory.free(0, 128) && !memory.free(0, 128), "freed twice");
        assert_eq!(memory.allocate(32, 4), Some(0));
        assert_eq!(memory.allocate(128, 5), None, "the gap has 96 columns, and the end 64");
        assert_eq!((memory.unallocated(0, 32), memory.unallocated(0, 33)), (None, Some(32)));
        assert_eq!(memory.unallocated(500, 20), Some(500));
        memory.set(127, 511, 7);
        assert_eq!((memory.cell(127, 511), memory.cell(126, 511)), (7, 0));
    }
}
