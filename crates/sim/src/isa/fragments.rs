//! The layouts of matrix fragments as tables, for display and comparison. The instructions use the same functions.

use super::tile::{place_a_of, place_b_of, place_c};
use crate::machine::LANES;

/// A matrix of a multiplication.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Matrix {
    /// The left factor.
    A,
    /// The right factor.
    B,
    /// The accumulators, and the result.
    C,
}

/// The layout of a fragment of `mma` or `wmma`: which lane holds which elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment {
    matrix: Matrix,
    m: usize,
    n: usize,
    k: usize,
    /// Elements in a register of a factor.
    per: usize,
}

/// Shapes, and the bits of an element of a factor, of `wmma`.
const WMMA: &[(usize, usize, usize, u32)] = &[
    (16, 16, 16, 16),
    (32, 8, 16, 16),
    (8, 32, 16, 16),
    (16, 16, 16, 8),
    (32, 8, 16, 8),
    (8, 32, 16, 8),
    (16, 16, 8, 32),
    (8, 8, 4, 64),
    (8, 8, 32, 4),
    (8, 8, 128, 1),
];

/// The same of `mma`. The product m8n8k4 of f16 has another layout and is not here.
const MMA: &[(usize, usize, usize, u32)] = &[
    (16, 8, 16, 16),
    (16, 8, 8, 16),
    (16, 8, 32, 8),
    (16, 8, 16, 8),
    (16, 8, 8, 32),
    (16, 8, 4, 32),
    (16, 8, 64, 4),
    (16, 8, 32, 4),
    (16, 8, 256, 1),
    (16, 8, 128, 1),
    (8, 8, 4, 64),
];

/// The bits of an element that a shape supports, the usual ones first.
pub fn element_bits(wmma: bool, (m, n, k): (usize, usize, usize)) -> impl Iterator<Item = u32> {
    let all = if wmma { WMMA } else { MMA };
    all.iter().filter(move |one| (one.0, one.1, one.2) == (m, n, k)).map(|one| one.3)
}

/// The supported shapes.
pub fn shapes(wmma: bool) -> impl Iterator<Item = (usize, usize, usize)> {
    let all = if wmma { WMMA } else { MMA };
    all.iter().map(|one| (one.0, one.1, one.2))
}

impl Fragment {
    /// The layout of a matrix of a shape with elements of this many bits; `None` if the instruction does not exist or has
    /// another layout.
    pub fn new(wmma: bool, shape: (usize, usize, usize), matrix: Matrix, bits: u32) -> Option<Self> {
        element_bits(wmma, shape).find(|known| *known == bits)?;
        let per = usize::try_from((32 / bits).max(1)).ok()?;
        let (m, n, k) = shape;
        Some(Self { matrix, m, n, k, per })
    }

    /// Rows and columns of the matrix.
    pub fn extents(&self) -> (usize, usize) {
        match self.matrix {
            Matrix::A => (self.m, self.k),
            Matrix::B => (self.k, self.n),
            Matrix::C => (self.m, self.n),
        }
    }

    /// Elements that each lane holds.
    pub fn elements(&self) -> usize {
        let (rows, columns) = self.extents();
        rows * columns / LANES
    }

    /// Elements in a register; an accumulator has one for itself.
    pub fn per_register(&self) -> usize {
        if self.matrix == Matrix::C { 1 } else { self.per }
    }

    /// Row and column of an element of a lane.
    pub fn place(&self, lane: usize, element: usize) -> (usize, usize) {
        let (register, e) = (element / self.per, element % self.per);
        match self.matrix {
            Matrix::A => {
                let (row, column) = place_a_of(self.per, self.m, self.k, register, lane);
                (row, column + e)
            }
            Matrix::B => {
                let (row, column) = place_b_of(self.per, self.k, register, lane);
                (row + e, column)
            }
            Matrix::C => place_c(self.m, self.n, element, lane),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_layout_covers_its_matrix_once() {
        for wmma in [true, false] {
            for &(m, n, k, bits) in if wmma { WMMA } else { MMA } {
                for matrix in [Matrix::A, Matrix::B, Matrix::C] {
                    let one = Fragment::new(wmma, (m, n, k), matrix, bits).unwrap();
                    let (rows, columns) = one.extents();
                    let mut counts = vec![0; rows * columns];
                    for lane in 0..LANES {
                        for element in 0..one.elements() {
                            let (row, column) = one.place(lane, element);
                            counts[row * columns + column] += 1;
                        }
                    }
                    assert!(counts.iter().all(|count| *count == 1), "{one:?}");
                }
            }
        }
    }

    #[test]
    fn the_accumulators_of_16x16_are_those_of_two_16x8() {
        let wide = Fragment::new(true, (16, 16, 16), Matrix::C, 16).unwrap();
        let half = Fragment::new(false, (16, 8, 16), Matrix::C, 16).unwrap();
        for lane in 0..LANES {
            for element in 0..4 {
                assert_eq!(wide.place(lane, element), half.place(lane, element));
                let (row, column) = half.place(lane, element);
                assert_eq!(wide.place(lane, element + 4), (row, column + 8));
            }
        }
        assert_eq!(Fragment::new(false, (8, 8, 4), Matrix::A, 16), None);
    }
}
