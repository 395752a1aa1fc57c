//! Bundles whose loads were counted before. All loads from a register have the shape of the addresses in it, so the counts
//! of a bundle are those of an earlier one whose registers had the same shapes.

use super::counters::Traffic;
use super::memo::Same;
use crate::machine::{LANES, Row};
use crate::observe::BundleReads;

/// Shapes that are kept for a bundle. Loads with further ones are counted one by one.
const WAYS: usize = 4;

/// By number: the bundles of a program.
#[derive(Debug, Default)]
pub(super) struct Bundles(Vec<Known>);

/// The shapes of a bundle.
#[derive(Debug, Default)]
pub(super) struct Known(Vec<Way>);

#[derive(Debug)]
struct Way {
    /// By register: the distances from the first lane.
    distances: Vec<Row<u32>>,
    hits: u64,
    /// The cost of each load.
    costs: Vec<(u32, Traffic)>,
}

impl Bundles {
    pub(super) fn entry(&mut self, number: usize) -> &mut Known {
        if number >= self.0.len() {
            self.0.resize_with(number + 1, Known::default);
        }
        &mut self.0[number]
    }

    /// Adds up the costs. The shapes stay, for another block.
    pub(super) fn settle(&mut self, mut add: impl FnMut(u32, Traffic)) {
        for way in self.0.iter_mut().flat_map(|known| &mut known.0) {
            let hits = std::mem::take(&mut way.hits);
            way.costs.iter().filter(|_| hits > 0).for_each(|(pc, cost)| add(*pc, cost.times(hits)));
        }
    }
}

impl Known {
    /// Counts a bundle if its shapes are known, and returns whether they are.
    #[inline]
    pub(super) fn again(&mut self, same: Same<u32>, reads: &BundleReads<'_>) -> bool {
        let alike = |way: &&mut Way| {
            let rows = reads.places.iter().map(|place| &place.offsets);
            rows.zip(&way.distances).all(|(row, distances)| same(row, row.0[0], distances, None))
        };
        let way = self.0.iter_mut().find(alike);
        way.map(|way| way.hits += 1).is_some()
    }

    /// Whether another shape can be kept.
    pub(super) fn has_room(&self) -> bool {
        self.0.len() < WAYS
    }

    /// Keeps the shapes of a bundle and the cost of each load.
    pub(super) fn put(&mut self, reads: &BundleReads<'_>, costs: Vec<(u32, Traffic)>) {
        let distances = |row: &Row<u32>| {
            let mut distances = Row([0; LANES]);
            for (distance, offset) in distances.0.iter_mut().zip(row.0) {
                *distance = offset.wrapping_sub(row.0[0]);
            }
            distances
        };
        let distances = reads.places.iter().map(|place| distances(&place.offsets)).collect();
        self.0.push(Way { distances, hits: 0, costs });
    }
}
