//! Products of f64 matrices, which are most of an oracle's work.

use ndarray::linalg::general_mat_mul;
use ndarray::{ArrayView2, ArrayViewMut2, ShapeBuilder};

/// A row-major matrix inside a slice.
#[derive(Clone, Copy)]
pub(super) struct Matrix<'a> {
    pub(super) values: &'a [f64],
    /// Elements from one row to the next.
    pub(super) width: usize,
}

/// `c = a · b` for `rows` rows of `a`, `inner` rows of `b` and as many columns as `c` is wide, at most `b`'s width.
pub(super) fn multiply(a: Matrix<'_>, b: Matrix<'_>, rows: usize, inner: usize, c: &mut [f64], width: usize) {
    let c = &mut c[..rows * width];
    if inner == 0 {
        return c.fill(0.0);
    }
    let views = (
        ArrayView2::from_shape((rows, inner).strides((a.width, 1)), a.values),
        ArrayView2::from_shape((inner, width).strides((b.width, 1)), b.values),
        ArrayViewMut2::from_shape((rows, width), &mut *c),
    );
    match views {
        (Ok(a), Ok(b), Ok(mut c)) => general_mat_mul(1.0, &a, &b, 0.0, &mut c),
        // A matrix that is not there: an oracle that passes nothing.
        _ => c.fill(f64::NAN),
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
