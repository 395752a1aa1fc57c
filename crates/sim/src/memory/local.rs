//! The local memory of a warp's threads: one stack per lane, interleaved word by word across the lanes.
//!
//! All lanes almost always use the same offset, so a word of all 32 lanes is a row, and an access is a row copy.

use crate::machine::{LANES, Row};

/// Local memory of one warp.
#[derive(Debug, Default)]
pub struct LocalMemory {
    rows: Vec<Row<u32>>,
}

impl LocalMemory {
    /// Bytes per thread that exist.
    pub fn size(&self) -> u64 {
        u64::try_from(self.rows.len()).unwrap_or(u64::MAX).saturating_mul(4)
    }

    /// Makes sure that `bytes` per thread exist; new memory is zero.
    pub fn grow(&mut self, bytes: u32) {
        let rows = crate::machine::at(bytes.div_ceil(4));
        if self.rows.len() < rows {
            self.rows.resize(rows, Row::splat(0));
        }
    }

    /// Prepares it for another block: `bytes` per thread, zeroed. Memory beyond that is freed, because otherwise every
    /// warp would eventually hold as much as the deepest calls of any block needed.
    pub fn reset(&mut self, bytes: u32) {
        self.rows.clear();
        self.rows.shrink_to(crate::machine::at(bytes.div_ceil(4)));
        self.grow(bytes);
    }

    /// The row at a word index.
    pub fn row(&self, index: u32) -> Option<&Row<u32>> {
        self.rows.get(crate::machine::at(index))
    }

    /// The row at a word index, to write.
    pub fn row_mut(&mut self, index: u32) -> Option<&mut Row<u32>> {
        self.rows.get_mut(crate::machine::at(index))
    }

    /// Reads bytes of one lane; nonexistent memory reads as zero, so callers check bounds first.
    pub fn read<const N: usize>(&self, lane: usize, offset: u32) -> [u8; N] {
        let mut out = [0; N];
        for (at, byte) in (offset..).zip(&mut out) {
            let word = self.row(at / 4).map_or(0, |row| row.0[lane % LANES]);
            *byte = word.to_le_bytes()[byte_of(at)];
        }
        out
    }

    /// Writes bytes of one lane; writes to nonexistent memory are dropped, so callers check bounds first.
    pub fn write<const N: usize>(&mut self, lane: usize, offset: u32, bytes: [u8; N]) {
        for (at, byte) in (offset..).zip(bytes) {
            if let Some(row) = self.row_mut(at / 4) {
                let word = &mut row.0[lane % LANES];
                let mut parts = word.to_le_bytes();
                parts[byte_of(at)] = byte;
                *word = u32::from_le_bytes(parts);
            }
        }
    }
}

#[expect(clippy::as_conversions, reason = "two bits")]
fn byte_of(offset: u32) -> usize {
    (offset & 3) as usize
}
