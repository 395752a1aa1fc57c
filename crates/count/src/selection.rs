//! Which blocks of a grid are counted if only a sample is: a selection that depends on the grid and the size of the sample
//! only.
//!
//! The grid is divided into *strata*: the first block, the last block, and boxes of blocks. Kernels treat the borders of a
//! grid differently, so each axis is divided into its first index, its last index and the rest, as long as the sample is
//! large enough for two blocks of each box. The rest of the sample is shared out by size.
//!
//! Within a box, the work of a block often depends on one coordinate, as in causal attention. So the blocks are spread over
//! the x axis and over the other axes separately (a Latin hypercube): each section of an axis gets the same share of the
//! sample. Positions within a section are pseudo-random, because a fixed stride could have the period of the grid.
//!
//! Each block of the sample represents a whole number of blocks. So scaled counters are the exact counters of a grid that
//! repeats the sampled blocks, and sums over instructions, branches and lines still agree.

use std::collections::BTreeSet;
use std::ops::Range;
use warpproof_num::random::SplitMix;

/// The minimum size of a sample: the first block, the last block, and two of the others.
pub(crate) const LEAST: u64 = 4;
/// The maximum size of a sample.
pub(crate) const MOST: u64 = 1 << 20;
/// The seed of the positions within sections.
const SEED: u64 = 0x5eed_b10c;

/// Blocks that are alike as far as their position in the grid shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Stratum {
    /// Its blocks.
    pub blocks: u64,
    /// Those that were counted.
    pub sampled: u64,
}

/// A block of the sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chosen {
    /// The number of the block.
    pub block: u32,
    /// The number of blocks that it represents.
    pub weight: u64,
    /// The index of its stratum.
    pub stratum: usize,
}

/// A sample of the blocks of a grid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Selection {
    /// The blocks in ascending order.
    pub chosen: Vec<Chosen>,
    pub strata: Vec<Stratum>,
}

/// A box of blocks, without the first and the last block of the grid.
#[derive(Clone, Debug)]
struct Cell {
    ranges: [Range<u64>; 3],
    /// Its number of blocks.
    size: u64,
}

impl Cell {
    fn extents(&self) -> [u64; 3] {
        self.ranges.each_ref().map(|range| range.end - range.start)
    }

    /// The number of the block at a position.
    fn block(&self, grid: [u64; 3], [x, y, z]: [u64; 3]) -> u64 {
        let [x, y, z] = [x + self.ranges[0].start, y + self.ranges[1].start, z + self.ranges[2].start];
        x + grid[0] * (y + grid[1] * z)
    }
}

impl Selection {
    /// Selects `size` blocks of a grid with more blocks than that; `None` if the grid or the sample is too large, or the
    /// sample too small.
    pub(crate) fn of(grid: [u32; 3], size: u64) -> Option<Selection> {
        let grid = grid.map(u64::from);
        let all = grid.iter().try_fold(1u64, |all, extent| all.checked_mul(*extent))?;
        if all > u64::from(u32::MAX) || !(LEAST..=MOST).contains(&size) || size >= all {
            return None;
        }
        let mut divided = [false; 3];
        for axis in 0..3 {
            divided[axis] = grid[axis] > 1;
            if 2 * needed(&cells(grid, divided)) > size {
                divided[axis] = false;
            }
        }
        let cells = cells(grid, divided);
        let shares = shares(&cells, size, all);
        let mut strata = vec![Stratum { blocks: 1, sampled: 1 }; 2];
        let mut chosen = Vec::new();
        for (block, stratum) in [(0, 0), (all - 1, 1)] {
            chosen.push(Chosen { block: u32::try_from(block).ok()?, weight: 1, stratum });
        }
        let mut random = SplitMix(SEED ^ size);
        for (cell, share) in cells.iter().zip(shares) {
            let stratum = strata.len();
            strata.push(Stratum { blocks: cell.size, sampled: share });
            for (index, block) in (0u64..).zip(pick(cell, grid, share, &mut random)) {
                // Whole weights that add up to the size of the cell.
                let weight = part(index + 1, cell.size, share) - part(index, cell.size, share);
                chosen.push(Chosen { block: u32::try_from(block).ok()?, weight, stratum });
            }
        }
        chosen.sort_unstable_by_key(|one| one.block);
        Some(Selection { chosen, strata })
    }
}

/// `index · all / parts`, rounded down: where a section of an axis begins.
fn part(index: u64, all: u64, parts: u64) -> u64 {
    u64::try_from(u128::from(index) * u128::from(all) / u128::from(parts.max(1))).unwrap_or(u64::MAX)
}

/// The boxes of a grid whose axes are divided or not.
fn cells(grid: [u64; 3], divided: [bool; 3]) -> Vec<Cell> {
    let parts = |axis: usize| -> Vec<Range<u64>> {
        let extent = grid[axis];
        match extent {
            2.. if divided[axis] => {
                let all = [0..1, 1..extent - 1, extent - 1..extent];
                all.into_iter().filter(|range| !range.is_empty()).collect()
            }
            _ => std::iter::once(0..extent).collect(),
        }
    };
    let mut cells = Vec::new();
    for z in parts(2) {
        for y in parts(1) {
            for x in parts(0) {
                let mut cell = Cell { ranges: [x, y.clone(), z.clone()], size: 0 };
                let first = cell.ranges.iter().all(|range| range.start == 0);
                let last = cell.ranges.iter().zip(grid).all(|(range, extent)| range.end == extent);
                let size: u64 = cell.extents().iter().product();
                cell.size = size - u64::from(first) - u64::from(last && size > u64::from(first));
                if cell.size > 0 {
                    cells.push(cell);
                }
            }
        }
    }
    cells
}

/// The size of the smallest sample with two blocks of each box, and the first and last block.
fn needed(cells: &[Cell]) -> u64 {
    cells.iter().map(|cell| cell.size.min(2)).sum::<u64>() + 2
}

/// The number of blocks to select from each box.
fn shares(cells: &[Cell], size: u64, all: u64) -> Vec<u64> {
    let needed = needed(cells);
    let (spare, others) = (size.saturating_sub(needed), all.saturating_sub(needed));
    let mut shares: Vec<u64> = cells
        .iter()
        .map(|cell| cell.size.min(2) + part(cell.size - cell.size.min(2), spare, others))
        .collect();
    let mut left = size.saturating_sub(2 + shares.iter().sum::<u64>());
    // What rounding left over goes to the largest boxes.
    let mut order: Vec<usize> = (0..cells.len()).collect();
    order.sort_by_key(|index| std::cmp::Reverse(cells[*index].size));
    for index in order {
        let more = left.min(1).min(cells[index].size - shares[index]);
        shares[index] += more;
        left -= more;
    }
    shares
}

/// Selects blocks of a box, in ascending order.
fn pick(cell: &Cell, grid: [u64; 3], share: u64, random: &mut SplitMix) -> Vec<u64> {
    let [wide, high, deep] = cell.extents();
    let rest = high * deep;
    let ends = [0, grid.iter().product::<u64>() - 1];
    if 2 * share > cell.size {
        // Most of the blocks: evenly spread.
        let blocks = (0..wide * rest).map(|i| cell.block(grid, [i % wide, i / wide % high, i / wide / high]));
        let blocks: Vec<u64> = blocks.filter(|block| !ends.contains(block)).collect();
        let index = |i: u64| usize::try_from(part(i, cell.size, share)).unwrap_or(usize::MAX);
        return (0..share).filter_map(|i| blocks.get(index(i)).copied()).collect();
    }
    let mut within = |section: u64, all: u64| {
        let (start, end) = (part(section, all, share), part(section + 1, all, share));
        if end > start + 1 { start + random.below(end - start) } else { start.min(all - 1) }
    };
    let positions: Vec<(u64, u64)> =
        (0..share).map(|section| (within(section, wide), within(section, rest))).collect();
    let mut others: Vec<u64> = positions.iter().map(|(_, other)| *other).collect();
    random.shuffle(&mut others);
    let mut taken: BTreeSet<u64> = BTreeSet::new();
    for ((x, _), other) in positions.into_iter().zip(others) {
        // A block that is already taken is replaced by the next one of the column, or of the next column.
        let free = (0..wide * rest).find_map(|step| {
            let x = (x + step / rest) % wide;
            let other = (other + step) % rest;
            let block = cell.block(grid, [x, other % high, other / high]);
            (!ends.contains(&block) && !taken.contains(&block)).then_some(block)
        });
        taken.extend(free);
    }
    taken.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(selection: &Selection) -> Vec<u32> {
        selection.chosen.iter().map(|one| one.block).collect()
    }

    #[test]
    fn every_sample_has_its_size_and_represents_the_grid() {
        for grid in [[5, 1, 1], [1000, 1, 1], [1, 1, 999], [64, 32, 1], [2, 2, 2], [16, 3, 40], [2, 500, 2]] {
            let all: u64 = grid.iter().map(|extent| u64::from(*extent)).product();
            for size in (4..all.min(300)).chain([all / 2, all * 3 / 4, all - 1]) {
                let Some(selection) = Selection::of(grid, size) else {
                    assert!(size < 4 || size >= all);
                    continue;
                };
                assert_eq!(u64::try_from(selection.chosen.len()).unwrap(), size, "{grid:?} {size}");
                assert_eq!(selection.chosen.iter().map(|one| one.weight).sum::<u64>(), all);
                assert!(selection.chosen.iter().all(|one| one.weight > 0));
                let mut numbers = blocks(&selection);
                assert_eq!((numbers[0], u64::from(*numbers.last().unwrap())), (0, all - 1));
                numbers.dedup();
                assert_eq!(u64::try_from(numbers.len()).unwrap(), size);
                for (index, stratum) in selection.strata.iter().enumerate() {
                    let own = selection.chosen.iter().filter(|one| one.stratum == index);
                    let weights: Vec<u64> = own.map(|one| one.weight).collect();
                    assert_eq!(u64::try_from(weights.len()).unwrap(), stratum.sampled);
                    assert_eq!(weights.iter().sum::<u64>(), stratum.blocks);
                    assert!(stratum.sampled >= stratum.blocks.min(2));
                }
            }
        }
    }

    #[test]
    fn borders_are_strata_of_their_own() {
        // 8 × 8 blocks: 4 corners, 4 edges of 6, and 36 inside.
        let selection = Selection::of([8, 8, 1], 28).unwrap();
        let mut sizes: Vec<u64> = selection.strata.iter().map(|stratum| stratum.blocks).collect();
        sizes.sort_unstable();
        assert_eq!(sizes, [1, 1, 1, 1, 6, 6, 6, 6, 36]);
        // Too few for two blocks of each: only the first and the last block are apart.
        assert_eq!(Selection::of([8, 8, 1], 10).unwrap().strata.len(), 3);
    }

    #[test]
    fn no_coordinate_is_preferred() {
        // 64 tiles of 32 heads: a stride of the grid's period would select one tile of every head.
        let selection = Selection::of([64, 32, 1], 66).unwrap();
        let mut tiles = [0; 64];
        for one in &selection.chosen {
            tiles[usize::try_from(one.block % 64).unwrap()] += one.weight;
        }
        // Each tile has 32 blocks. Every quarter of the tiles is represented by about a quarter of the weight.
        for quarter in tiles.chunks(16) {
            let weight: u64 = quarter.iter().sum();
            assert!((440..=584).contains(&weight), "{tiles:?}");
        }
    }

    #[test]
    fn the_same_grid_has_the_same_sample() {
        assert_eq!(Selection::of([100, 7, 3], 50), Selection::of([100, 7, 3], 50));
        assert_ne!(Selection::of([100, 7, 3], 50), Selection::of([100, 7, 3], 51));
    }

    #[test]
    fn absurd_sizes_are_refused() {
        for (grid, size) in [
            ([10, 1, 1], 3),
            ([10, 1, 1], 10),
            ([u32::MAX, 2, 1], 10),
            ([u32::MAX, 1, 1], MOST + 1),
            ([0, 1, 1], 4),
        ] {
            assert_eq!(Selection::of(grid, size), None);
        }
        let most = Selection::of([u32::MAX, 1, 1], 1000).unwrap();
        assert_eq!(most.chosen.iter().map(|one| one.weight).sum::<u64>(), u64::from(u32::MAX));
    }
}
