//! Products of f64 matrices, which are most of an oracle's work.

use warpproof_sim::simd::{Isa, Level, V3};

/// A row-major matrix inside a slice.
#[derive(Clone, Copy)]
pub(super) struct Matrix<'a> {
    pub(super) values: &'a [f64],
    /// Elements from one row to the next.
    pub(super) width: usize,
}

/// `c = a · b` for `rows` rows of `a`, `inner` rows of `b` and as many columns as `c` is wide, at most `b`'s width. The
/// same bits at every vector level: products and sums are rounded one by one, in the order of `inner`.
pub(super) fn multiply(a: Matrix<'_>, b: Matrix<'_>, rows: usize, inner: usize, c: &mut [f64], width: usize) {
    match Level::detect() {
        Level::Portable => accumulate(a, b, rows, inner, c, width),
        Level::V3 | Level::V4 => V3::vectorize(|| accumulate(a, b, rows, inner, c, width)),
    }
}

/// Rows and columns that are held in registers, and rows of `b` that stay in the first cache meanwhile.
const ROWS: usize = 4;
const COLUMNS: usize = 8;
const INNER: usize = 256;

#[expect(clippy::inline_always, reason = "compiled for the vector level that it is entered at")]
#[inline(always)]
fn accumulate(a: Matrix<'_>, b: Matrix<'_>, rows: usize, inner: usize, c: &mut [f64], width: usize) {
    c[..rows * width].fill(0.0);
    for from in (0..inner).step_by(INNER) {
        let until = (from + INNER).min(inner);
        for column in (0..width).step_by(COLUMNS) {
            let columns = COLUMNS.min(width - column);
            for row in (0..rows).step_by(ROWS) {
                if columns == COLUMNS && rows - row >= ROWS {
                    block(a, b, from..until, (row, column), c, width);
                } else {
                    for row in row..rows.min(row + ROWS) {
                        let sums = &mut c[row * width + column..][..columns];
                        for k in from..until {
                            let factor = a.values[row * a.width + k];
                            for (sum, b) in sums.iter_mut().zip(&b.values[k * b.width + column..]) {
                                *sum += factor * b;
                            }
                        }
                    }
                }
            }
        }
    }
}

#[expect(clippy::inline_always, reason = "compiled for the vector level that it is entered at")]
#[inline(always)]
fn block(
    a: Matrix<'_>,
    b: Matrix<'_>,
    inner: std::ops::Range<usize>,
    (row, column): (usize, usize),
    c: &mut [f64],
    width: usize,
) {
    let count = inner.len();
    let lines: [&[f64]; ROWS] =
        std::array::from_fn(|r| &a.values[(row + r) * a.width + inner.start..][..count]);
    let mut sums = [[0.0f64; COLUMNS]; ROWS];
    for (r, sums) in sums.iter_mut().enumerate() {
        sums.copy_from_slice(&c[(row + r) * width + column..][..COLUMNS]);
    }
    for k in 0..count {
        let Some(b) = b.values[(inner.start + k) * b.width + column..].first_chunk::<COLUMNS>() else {
            break;
        };
        for r in 0..ROWS {
            let factor = lines[r][k];
            for (sum, b) in sums[r].iter_mut().zip(b) {
                *sum += factor * b;
            }
        }
    }
    for (r, sums) in sums.iter().enumerate() {
        c[(row + r) * width + column..][..COLUMNS].copy_from_slice(sums);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
