//! Products of f64 matrices, which take most of an oracle's time.
#![expect(
    clippy::inline_always,
    reason = "only inlined functions are compiled for the detected instruction set"
)]

use warpproof_sim::simd::{Level, Vectorized};

/// A row-major matrix inside a slice.
#[derive(Clone, Copy)]
pub(super) struct Matrix<'a> {
    pub(super) values: &'a [f64],
    /// Distance between rows, in elements.
    pub(super) width: usize,
}

/// Rows of `c` that are summed at a time. Columns are as many that the sums fit in the registers of the processor: 8 with vectors of
/// four, 16 with vectors of eight.
const ROWS: usize = 4;

/// A matrix that others are multiplied by: columns in panels, so that the rows of a panel are contiguous. Rows of a wide matrix would
/// evict each other from the cache.
pub(super) struct Panels {
    /// Columns of a panel.
    columns: usize,
    rows: usize,
    width: usize,
    values: Vec<f64>,
}

impl Panels {
    /// The panels of a row-major matrix.
    pub(super) fn of(values: &[f64], width: usize) -> Panels {
        let columns = if Level::detect() == Level::V4 { 16 } else { 8 };
        let rows = values.len().checked_div(width).unwrap_or(0);
        // What is missing in the last panel is zero; its sums are discarded.
        let mut panels = vec![0.0; width.div_ceil(columns) * rows * columns];
        for (row, values) in values.chunks_exact(width.max(1)).enumerate() {
            for (panel, values) in values.chunks(columns).enumerate() {
                let start = (panel * rows + row) * columns;
                panels[start..start + values.len()].copy_from_slice(values);
            }
        }
        Panels { columns, rows, width, values: panels }
    }
}

/// `c = a · b` for `rows` rows of `a`, `inner` rows of `b` and all columns of `c`, at most `b`'s width.
///
/// Every sum runs over `inner` in order, and each product is added without being rounded, so that the bits are the same on
/// every machine. A library would choose the order, and whether to fuse multiply and add, by the processor.
pub(super) fn multiply(a: Matrix<'_>, b: &Panels, rows: usize, inner: usize, c: &mut [f64], width: usize) {
    let c = &mut c[..rows * width];
    let last = rows.checked_sub(1).map_or(Some(0), |last| last.checked_mul(a.width)?.checked_add(inner));
    let holds = inner <= a.width && last.is_some_and(|end| end <= a.values.len());
    if !holds || inner > b.rows || width > b.width {
        // The matrix is too short: NaN makes the oracle reject every output.
        return c.fill(f64::NAN);
    }
    match b.columns {
        16 => Level::detect().run(Product::<16> { a, b, inner, c, width }),
        _ => Level::detect().run(Product::<8> { a, b, inner, c, width }),
    }
}

struct Product<'m, const COLUMNS: usize> {
    a: Matrix<'m>,
    b: &'m Panels,
    inner: usize,
    c: &'m mut [f64],
    width: usize,
}

impl<const COLUMNS: usize> Vectorized for Product<'_, COLUMNS> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self { a, b, inner, c, width } = self;
        for (number, column) in (0..width).step_by(COLUMNS).enumerate() {
            let columns = COLUMNS.min(width - column);
            let panel = &b.values[number * b.rows * COLUMNS..];
            let (panel, _) = panel[..inner * COLUMNS].as_chunks::<COLUMNS>();
            for (at, c) in c.chunks_mut(ROWS * width).enumerate() {
                let rows = c.len() / width;
                let row = |r: usize| {
                    // Past the last row, the last row is repeated; its sums are discarded.
                    let start = (at * ROWS + r.min(rows - 1)) * a.width;
                    &a.values[start..start + inner]
                };
                let sums = tile(&std::array::from_fn(row), panel);
                for (sums, c) in sums.iter().zip(c.chunks_mut(width)) {
                    let c = &mut c[column..column + columns];
                    match c.first_chunk_mut() {
                        Some(c) => *c = *sums,
                        None => c.copy_from_slice(&sums[..columns]),
                    }
                }
            }
        }
    }
}

#[inline(always)]
fn tile<const COLUMNS: usize>(a: &[&[f64]; ROWS], panel: &[[f64; COLUMNS]]) -> [[f64; COLUMNS]; ROWS] {
    let mut sums = [[0.0; COLUMNS]; ROWS];
    let [a0, a1, a2, a3] = a;
    for ((((row, a0), a1), a2), a3) in panel.iter().zip(*a0).zip(*a1).zip(*a2).zip(*a3) {
        for (sums, a) in sums.iter_mut().zip([a0, a1, a2, a3]) {
            for (sum, b) in sums.iter_mut().zip(row) {
                *sum = a.mul_add(*b, *sum);
            }
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_matrix_that_is_too_short_gives_nothing() {
        let (a, b) = ([1.0; 5], [1.0; 6]);
        let mut c = [0.0; 4];
        multiply(Matrix { values: &a, width: 3 }, &Panels::of(&b, 2), 2, 3, &mut c, 2);
        assert!(c.iter().all(|value| value.is_nan()));
        multiply(Matrix { values: &b, width: 3 }, &Panels::of(&b, 2), 2, 3, &mut c, 2);
        assert!(c.iter().all(|value| (value - 3.0).abs() < 0.5));
        multiply(Matrix { values: &b, width: 3 }, &Panels::of(&a, 2), 2, 3, &mut c, 2);
        assert!(c.iter().all(|value| value.is_nan()));
        multiply(Matrix { values: &[], width: 0 }, &Panels::of(&[], 2), 2, 0, &mut c, 2);
        assert!(c.iter().all(|value| value.abs() < 0.5));
    }

    #[test]
    fn products_of_all_sizes_are_those_of_the_definition() {
        for (rows, inner, width, b_width) in [(1, 1, 1, 1), (4, 300, 8, 8), (7, 5, 19, 23), (9, 257, 64, 70)]
        {
            let value = |seed: usize| f64::from(u32::try_from(seed * 7919 % 101).unwrap()) - 50.0;
            let a: Vec<f64> = (0..rows * inner).map(value).collect();
            let b: Vec<f64> = (0..inner * b_width).map(|i| value(i + 13)).collect();
            let mut c = vec![f64::NAN; rows * width];
            let a = Matrix { values: &a, width: inner };
            multiply(a, &Panels::of(&b, b_width), rows, inner, &mut c, width);
            for row in 0..rows {
                for column in 0..width {
                    // Small integers: exact in any order.
                    let sum: f64 =
                        (0..inner).map(|k| a.values[row * inner + k] * b[k * b_width + column]).sum();
                    assert!((c[row * width + column] - sum).abs() < 0.5);
                }
            }
        }
    }
}
