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

/// Rows and columns of `c` that are summed at a time: as many sums as fit in the registers of a processor
/// with vectors of four.
const TILE: (usize, usize) = (4, 8);

/// `c = a · b` for `rows` rows of `a`, `inner` rows of `b` and all columns of `c`, at most `b`'s width.
///
/// Every sum runs over `inner` in order, with products and sums rounded separately, so that the bits are the
/// same on every machine. A library would choose the order, and whether to fuse multiply and add, by the
/// processor.
pub(super) fn multiply(a: Matrix<'_>, b: Matrix<'_>, rows: usize, inner: usize, c: &mut [f64], width: usize) {
    let c = &mut c[..rows * width];
    let holds = |matrix: Matrix<'_>, rows: usize, columns: usize| {
        let last =
            rows.checked_sub(1).map_or(Some(0), |last| last.checked_mul(matrix.width)?.checked_add(columns));
        columns <= matrix.width && last.is_some_and(|end| end <= matrix.values.len())
    };
    if !holds(a, rows, inner) || !holds(b, inner, width) {
        // The matrix is too short: NaN makes the oracle reject every output.
        return c.fill(f64::NAN);
    }
    Level::detect().run(Product { a, b, inner, c, width });
}

struct Product<'m> {
    a: Matrix<'m>,
    b: Matrix<'m>,
    inner: usize,
    c: &'m mut [f64],
    width: usize,
}

impl Vectorized for Product<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self { a, b, inner, c, width } = self;
        // The columns of `b`, copied to be contiguous: rows of a wide matrix would evict each other from the
        // cache.
        let mut panel = vec![[0.0; TILE.1]; inner];
        for column in (0..width).step_by(TILE.1) {
            let columns = TILE.1.min(width - column);
            for (k, packed) in panel.iter_mut().enumerate() {
                let start = k * b.width + column;
                // A narrow tile leaves stale columns of the previous one; their sums are discarded.
                packed[..columns].copy_from_slice(&b.values[start..start + columns]);
            }
            for (at, c) in c.chunks_mut(TILE.0 * width).enumerate() {
                let rows = c.len() / width;
                let row = |r: usize| {
                    // Past the last row, the last row is repeated; its sums are discarded.
                    let start = (at * TILE.0 + r.min(rows - 1)) * a.width;
                    &a.values[start..start + inner]
                };
                let sums = tile(&std::array::from_fn(row), &panel);
                for (sums, c) in sums.iter().zip(c.chunks_mut(width)) {
                    c[column..column + columns].copy_from_slice(&sums[..columns]);
                }
            }
        }
    }
}

#[inline(always)]
fn tile(a: &[&[f64]; TILE.0], panel: &[[f64; TILE.1]]) -> [[f64; TILE.1]; TILE.0] {
    let mut sums = [[0.0; TILE.1]; TILE.0];
    let [a0, a1, a2, a3] = a;
    for ((((row, a0), a1), a2), a3) in panel.iter().zip(*a0).zip(*a1).zip(*a2).zip(*a3) {
        for (sums, a) in sums.iter_mut().zip([a0, a1, a2, a3]) {
            for (sum, b) in sums.iter_mut().zip(row) {
                *sum += a * b;
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
        multiply(Matrix { values: &a, width: 3 }, Matrix { values: &b, width: 2 }, 2, 3, &mut c, 2);
        assert!(c.iter().all(|value| value.is_nan()));
        multiply(Matrix { values: &b, width: 3 }, Matrix { values: &b, width: 2 }, 2, 3, &mut c, 2);
        assert!(c.iter().all(|value| (value - 3.0).abs() < 0.5));
        multiply(Matrix { values: &[], width: 0 }, Matrix { values: &[], width: 2 }, 2, 0, &mut c, 2);
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
            let (a, b) = (Matrix { values: &a, width: inner }, Matrix { values: &b, width: b_width });
            multiply(a, b, rows, inner, &mut c, width);
            for row in 0..rows {
                for column in 0..width {
                    // Small integers: exact in any order.
                    let sum: f64 =
                        (0..inner).map(|k| a.values[row * inner + k] * b.values[k * b_width + column]).sum();
                    assert!((c[row * width + column] - sum).abs() < 0.5);
                }
            }
        }
    }
}
