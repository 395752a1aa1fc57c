//! Where the lanes of a warp access memory, computed for all of them at once.

use warpproof_sim::machine::Row;
use warpproof_sim::simd::{Level, Simd, at_level};

/// Where the lanes of a warp access shared memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub lowest: u32,
    pub highest: u32,
    /// The words of the line, if all lanes access words of one line.
    pub words: Option<u32>,
}

/// Computes the shape of an access of all lanes to words.
pub(crate) type Measure = fn(&Row<u32>) -> Shape;

/// The computation for a level of vector instructions.
pub(crate) fn measure(level: Level) -> Measure {
    at_level!(level, shape)
}

fn shape<I: Simd>(offsets: &Row<u32>) -> Shape {
    I::vectorize(
        #[inline(always)]
        || {
            let (mut lowest, mut highest, mut words, mut low) = (u32::MAX, 0, 0u32, 0);
            for offset in offsets.0 {
                lowest = lowest.min(offset);
                highest = highest.max(offset);
                words |= 1u32.wrapping_shl(offset >> 2);
                low |= offset;
            }
            let one = lowest >> 7 == highest >> 7 && low.is_multiple_of(4);
            Shape { lowest, highest, words: one.then_some(words) }
        },
    )
}

/// Computes the lowest and the highest address of an access of all lanes.
pub(crate) type Extent = fn(&Row<u64>) -> (u64, u64);

/// The computation for a level of vector instructions.
pub(crate) fn extent(level: Level) -> Extent {
    at_level!(level, ends)
}

fn ends<I: Simd>(addresses: &Row<u64>) -> (u64, u64) {
    I::vectorize(
        #[inline(always)]
        || {
            let (mut lowest, mut highest) = (u64::MAX, 0);
            for address in addresses.0 {
                lowest = lowest.min(address);
                highest = highest.max(address);
            }
            (lowest, highest)
        },
    )
}
