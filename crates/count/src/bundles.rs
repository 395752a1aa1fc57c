//! Bundles whose loads were counted before. All loads from a register have the shape of the addresses in it, so the counts
//! of a bundle are those of an earlier one whose registers had the same shapes.

use super::counters::Traffic;
use super::memo::{Regular, Same};
use warpproof_sim::machine::{LANES, Place, Row};
use warpproof_sim::observe::BundleReads;
use warpproof_sim::program::BASES;

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
    /// By register: how the addresses lie.
    regular: [Option<Regular>; BASES],
    hits: u64,
    /// By register: the distances from the first lane, which matter if the addresses are not regular.
    distances: Vec<Row<u32>>,
    /// The cost of each load.
    costs: Vec<(u32, Traffic)>,
    /// Some number of hits, and their costs. One block has often as many as the next.
    product: (u64, Vec<(u32, Traffic)>),
}

impl Bundles {
    pub(super) fn entry(&mut self, number: usize) -> &mut Known {
        if number >= self.0.len() {
            self.0.resize_with(number + 1, Known::default);
        }
        &mut self.0[number]
    }

    /// Adds up the costs. The shapes stay, for another block.
    pub(super) fn settle(&mut self, mut add: impl FnMut(u32, &Traffic)) {
        for way in self.0.iter_mut().flat_map(|known| &mut known.0) {
            let hits = std::mem::take(&mut way.hits);
            if hits == 0 {
                continue;
            }
            if way.product.0 != hits {
                way.product = (hits, way.costs.iter().map(|(pc, cost)| (*pc, cost.times(hits))).collect());
            }
            way.product.1.iter().for_each(|(pc, cost)| add(*pc, cost));
        }
    }
}

impl Known {
    /// Counts a bundle if its shapes are known, and returns whether they are.
    #[inline]
    pub(super) fn again(&mut self, same: Same<u32>, reads: &BundleReads<'_>) -> bool {
        let alike = |way: &&mut Way| {
            reads.places.iter().zip(&way.regular).enumerate().all(|(base, (place, regular))| {
                let row = &place.offsets;
                lies(place) == *regular
                    && (regular.is_some()
                        || way.distances.get(base).is_some_and(|known| same(row, row.0[0], known, None)))
            })
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
        let mut regular = [None; BASES];
        regular.iter_mut().zip(reads.places).for_each(|(regular, place)| *regular = lies(place));
        self.0.push(Way { regular, hits: 0, distances, costs, product: (0, Vec::new()) });
    }
}

/// How the addresses in a register lie.
#[inline]
fn lies(place: &Place) -> Option<Regular> {
    Regular::of([place.offsets.0[0], place.offsets.0[16]].map(u64::from), place.halves)
}
