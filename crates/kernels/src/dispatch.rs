//! Chooses a rung for a request that names none: the one with the least predicted time at the nearest shape
//! of a table.
//!
//! The table is `data/dispatch.csv`, which `cargo xtask dispatch --bless` generates from the schedule model,
//! for a warm L2 cache and without launch overhead: times are *predicted*, not measured. It covers full
//! attention with one scale per head. If the chosen rung does not support a request, the last supporting rung
//! of the ladder is used.

use warpproof_model::Device;

use crate::ladder::{self, Rung};
use crate::problem::Shape;

/// The committed table.
pub const TABLE: &str = include_str!("../data/dispatch.csv");

/// Rungs that the table chooses from; of equal times, the first wins.
pub const CANDIDATES: &[&str] = &["n5", "n6", "n7", "n8", "n9"];

/// Shapes of the table: sequences, heads, rows, elements of a row.
pub const SHAPES: &[[usize; 4]] = &[
    [1, 1, 64, 64],
    [2, 8, 256, 64],
    [1, 8, 512, 64],
    [1, 8, 1024, 64],
    [1, 8, 2048, 64],
    [1, 1, 64, 96],
    [2, 8, 256, 96],
    [1, 8, 1024, 96],
    [1, 1, 64, 128],
    [2, 8, 256, 128],
    [1, 8, 1024, 128],
    [1, 8, 2048, 128],
    [1, 1, 64, 256],
    [2, 8, 256, 256],
];

/// Shapes of inference servers: sequences, query heads, key heads, queries, keys, elements of a row.
pub const SERVING: [[usize; 6]; 12] = [
    [2, 8, 8, 256, 256, 64],
    [1, 8, 8, 512, 512, 64],
    [1, 8, 8, 2048, 2048, 64],
    [1, 64, 8, 1024, 1024, 64],
    [1, 32, 8, 512, 512, 128],
    [1, 32, 8, 2048, 2048, 128],
    [4, 32, 8, 256, 1024, 128],
    [1, 40, 40, 4096, 4096, 128],
    [1, 64, 8, 1, 4096, 64],
    [1, 32, 8, 1, 4096, 128],
    [16, 32, 8, 1, 1024, 128],
    [64, 32, 8, 1, 2048, 128],
];

/// A row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The device's id.
    pub device: &'static str,
    /// Elements of a row.
    pub dim: usize,
    /// Query heads of all sequences.
    pub heads: usize,
    /// Queries of a sequence.
    pub rows: usize,
    /// The rung with the least predicted time.
    pub rung: &'static Rung,
    /// That time in microseconds, with a warm L2 cache and without launch overhead.
    pub predicted_us: f64,
}

/// The rows of the table; lines that do not parse are skipped.
pub fn entries() -> impl Iterator<Item = Entry> {
    TABLE.lines().skip(1).filter_map(|line| {
        let fields: Vec<&'static str> = line.split(',').collect();
        let [device, dim, heads, rows, rung, predicted_us] = *fields.as_slice() else { return None };
        Some(Entry {
            device,
            dim: dim.parse().ok()?,
            heads: heads.parse().ok()?,
            rows: rows.parse().ok()?,
            rung: ladder::rung(rung)?,
            predicted_us: predicted_us.parse().ok()?,
        })
    })
}

/// A row of the table as text.
pub fn line(device: &Device, shape: &Shape, rung: &Rung, predicted_us: f64) -> String {
    let heads = shape.heads.saturating_mul(shape.batch());
    format!("{},{},{heads},{},{},{predicted_us:.2}", device.id, shape.dim, shape.max_queries(), rung.id)
}

/// The entry nearest to a shape: of the same device if it has any, of the same row length, then by doublings
/// of heads and of rows.
pub fn nearest(shape: &Shape, device: &Device) -> Option<Entry> {
    let known = entries().any(|entry| entry.device == device.id);
    let heads = shape.heads.saturating_mul(shape.batch());
    let apart = |entry: &Entry| {
        doublings(entry.heads, heads).saturating_add(doublings(entry.rows, shape.max_queries()))
    };
    entries()
        .filter(|entry| entry.dim == shape.dim && (!known || entry.device == device.id))
        .min_by_key(apart)
}

/// How often the smaller number must be doubled to reach the larger, roughly.
fn doublings(a: usize, b: usize) -> u32 {
    a.max(1).ilog2().abs_diff(b.max(1).ilog2())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_every_shape_once_and_reads_as_it_is_written() {
        let l4 = Device::named("L4").unwrap();
        let written: Vec<String> = SHAPES
            .iter()
            .zip(entries())
            .map(|([batch, heads, rows, dim], entry)| {
                line(l4, &Shape::equal(*batch, *heads, *rows, *dim), entry.rung, entry.predicted_us)
            })
            .collect();
        assert_eq!(TABLE.lines().skip(1).collect::<Vec<_>>(), written);
        assert_eq!(entries().count(), SHAPES.len());
        assert!(entries().all(|entry| CANDIDATES.contains(&entry.rung.id)));
    }

    #[test]
    fn the_nearest_shape_decides() {
        let l4 = Device::named("L4").unwrap();
        let rows = |shape: Shape| nearest(&shape, l4).map(|entry| (entry.heads, entry.rows));
        assert_eq!(rows(Shape::equal(2, 8, 256, 64)), Some((16, 256)));
        assert_eq!(rows(Shape::equal(3, 8, 300, 64)), Some((16, 256)));
        assert_eq!(rows(Shape::equal(1, 32, 8192, 64)), Some((8, 2048)));
        assert!(nearest(&Shape::equal(1, 1, 64, 32), l4).is_none());
    }
}
