//! Stream-K distribution of long work: blocks take equal runs of steps, so a tile of rows may be shared by
//! two blocks.
//!
//! A step is a tile of rows times a tile of keys. Steps are numbered across all tiles of rows. Each group of
//! `per` consecutive blocks shares `run` steps, which is one tile fewer than the group has blocks. So a tile
//! is cut at most once, the position of the cut depends on the tile's index only, and a block works on one or
//! two tiles.

use std::ops::Range;

use crate::problem::Shape;

/// The maximum number of blocks that share a whole number of tiles. With more blocks, undivided tiles fill
/// the device almost as well.
const MOST_SHARING: usize = 16;

/// How the steps of a problem are distributed over blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamK {
    /// Query rows of a tile.
    pub rows: usize,
    /// Steps of a tile of rows.
    pub steps: usize,
    /// Tiles of rows of a head.
    pub tiles_of_head: usize,
    /// Query heads of a sequence.
    pub heads: usize,
    /// Tiles of rows of all heads.
    pub tiles: usize,
    /// Blocks.
    pub blocks: usize,
    /// Steps shared by each group of `per` blocks.
    pub run: usize,
    /// Blocks that share `run` steps.
    pub per: usize,
}

impl StreamK {
    /// Distributes steps of `keys` keys over at most `slots` blocks. Returns `None` if there are about as
    /// many tiles of rows as blocks, where smaller tiles are as even, or if a size exceeds 32 bits.
    pub fn new(shape: &Shape, rows: usize, keys: usize, slots: usize) -> Option<StreamK> {
        let steps = shape.max_keys() / keys.max(1);
        let tiles_of_head = shape.max_queries().div_ceil(rows.max(1));
        let tiles = shape.batch().checked_mul(shape.heads)?.checked_mul(tiles_of_head)?;
        let spare = slots.checked_sub(tiles).filter(|spare| *spare > 0)?;
        if steps < 2 || tiles == 0 {
            return None;
        }
        // n tiles over n + 1 blocks, with the smallest n that leaves no remaining tile: no tile is cut twice,
        // and no block works on three.
        let sharing = tiles.div_ceil(spare);
        let (run, per) = (sharing.checked_mul(steps)?, sharing + 1);
        let blocks = tiles.checked_mul(steps)?.checked_mul(per)?.div_ceil(run);
        let most = blocks.checked_add(1)?.checked_mul(run)?;
        let fits = u32::try_from(most).is_ok() && per <= MOST_SHARING;
        let heads = shape.heads;
        fits.then_some(StreamK { rows, steps, tiles_of_head, heads, tiles, blocks, run, per })
    }

    /// The first step of a run; for the index after the last run, the total number of steps.
    pub fn begin(&self, run: usize) -> usize {
        (run.saturating_mul(self.run) / self.per.max(1)).min(self.tiles * self.steps)
    }

    /// The maximum number of steps of a block.
    pub fn longest(&self) -> usize {
        self.run.div_ceil(self.per.max(1))
    }

    /// The tile that contains a row.
    pub fn tile(&self, batch: usize, head: usize, row: usize) -> usize {
        (batch * self.heads + head) * self.tiles_of_head + row / self.rows.max(1)
    }

    /// The step at which the second part of a tile begins, if the tile is cut.
    pub fn cut(&self, tile: usize) -> Option<usize> {
        let (first, end) = (tile * self.steps, (tile + 1) * self.steps);
        let at = self.begin(((first + 1) * self.per).div_ceil(self.run.max(1)));
        (first < at && at < end).then(|| at - first)
    }

    /// The tiles of a run, each with the range of its steps that the run contains.
    pub fn pieces(&self, run: usize) -> impl Iterator<Item = (usize, Range<usize>)> + '_ {
        let (begin, end) = (self.begin(run), self.begin(run + 1));
        let tiles = if begin < end { begin / self.steps..end.div_ceil(self.steps) } else { 0..0 };
        tiles.map(move |tile| {
            let first = tile * self.steps;
            (tile, begin.max(first) - first..end.min(first + self.steps) - first)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_is_in_one_run_and_no_tile_is_cut_twice() {
        let mut cut = 0;
        for heads in [1, 2, 3, 8, 33] {
            for rows in [1, 128, 129, 500, 2048] {
                for slots in [1, 2, 3, 7, 58, 174] {
                    let shape = Shape::equal(2, heads, rows, 64);
                    let Some(stream_k) = StreamK::new(&shape, 128, 32, slots) else { continue };
                    assert!(stream_k.blocks <= slots, "{stream_k:?}");
                    let pieces: Vec<_> = (0..stream_k.blocks).flat_map(|run| stream_k.pieces(run)).collect();
                    assert!(pieces.iter().all(|(_, steps)| !steps.is_empty()), "{stream_k:?}");
                    for tile in 0..stream_k.tiles {
                        let parts: Vec<_> = pieces.iter().filter(|piece| piece.0 == tile).collect();
                        let steps: Vec<usize> = parts.iter().flat_map(|(_, steps)| steps.clone()).collect();
                        assert_eq!(steps, (0..stream_k.steps).collect::<Vec<_>>());
                        assert!(parts.len() <= 2, "{stream_k:?}");
                        let second = parts.get(1).map(|(_, steps)| steps.start);
                        assert_eq!(stream_k.cut(tile), second, "{stream_k:?}");
                        cut += usize::from(second.is_some());
                    }
                    assert!(
                        (0..stream_k.blocks).all(|run| stream_k.pieces(run).count() <= 2),
                        "{stream_k:?}"
                    );
                    let longest =
                        (0..stream_k.blocks).map(|run| stream_k.begin(run + 1) - stream_k.begin(run));
                    assert!(longest.max().unwrap_or(0) <= stream_k.longest());
                }
            }
        }
        assert!(cut > 300, "{cut}");
    }

    #[test]
    fn three_tiles_over_four_blocks() {
        let stream_k = StreamK::new(&Shape::equal(1, 8, 2048, 64), 128, 32, 3 * 58).unwrap();
        assert_eq!((stream_k.tiles, stream_k.blocks, stream_k.longest()), (128, 171, 48));
        let cuts: Vec<_> = (0..4).map(|tile| stream_k.cut(tile)).collect();
        assert_eq!(cuts, [Some(48), Some(32), Some(16), Some(48)]);
    }

    #[test]
    fn what_divides_evenly_or_is_too_large_is_not_cut() {
        assert!(StreamK::new(&Shape::equal(1, 4, 1024, 64), 128, 32, 8).is_none());
        assert!(StreamK::new(&Shape::equal(1, 1, 1024, 64), 128, 32, 0).is_none());
        let huge = Shape::equal(1, 1 << 20, 1 << 20, 64);
        assert!(StreamK::new(&huge, 128, 32, 174).is_none());
    }
}
