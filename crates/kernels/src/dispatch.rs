//! Which rung a request gets that names none: the one with the least predicted time at the nearest shape of a table.
//!
//! The table is `data/dispatch.csv`, written by `cargo xtask dispatch --bless` from the schedule model, with a warm second-level
//! cache and without launching: *predicted*, not measured. It holds full attention with a scale for each head; a rung that cannot do
//! what else is asked gives way to the last of the ladder that can.

use warpproof_model::Device;

use crate::ladder::{self, Rung};
use crate::problem::Shape;

/// The table as it is committed.
pub const TABLE: &str = include_str!("../data/dispatch.csv");

/// Rungs that the table chooses from, in the order in which the first of equals is taken.
pub const CANDIDATES: &[&str] = &["n5", "n6", "n7", "n8", "n9"];

/// Shapes of the table: sequences, heads, rows, elements of a row.
pub const SHAPES: &[[usize; 4]] = &[
    [1, 1, 64, 64],
    [2, 8, 256, 64],
    [1, 8, 512, 64],
    [1, 8, 1024, 64],
    [1, 8, 2048, 64],
    [1, 1, 64, 128],
    [2, 8, 256, 128],
    [1, 8, 1024, 128],
    [1, 8, 2048, 128],
];

/// A line of the table.
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
    /// That time in microseconds, with a warm second-level cache, without launching.
    pub predicted_us: f64,
}

/// The lines of the table; what is no entry is left out.
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

/// A line as it is written.
pub fn line(device: &Device, shape: &Shape, rung: &Rung, predicted_us: f64) -> String {
    let heads = shape.heads.saturating_mul(shape.batch());
    format!("{},{},{heads},{},{},{predicted_us:.2}", device.id, shape.dim, shape.max_queries(), rung.id)
}

/// The entry nearest to a shape: of the device if it has any, of rows as long, and then by doublings of heads and of rows.
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

/// How often the smaller is doubled to come to the larger, roughly.
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
