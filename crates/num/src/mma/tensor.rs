//! `tcgen05.mma`: one multiplication of any number of rows and columns, in pieces of 16 rows and 8 columns.
//!
//! [`Kind`] is the arithmetic of an instruction descriptor. The operands of a piece are codes at the width of their types, one in
//! each `u32`; the pieces are independent, because each output depends on its row of A, its column of B and its own C only.

use super::rule::{Accumulator, Element, TensorCore};
use super::scaled::{self, Scale};
use super::{IntElement, bf16, f8f6f4, f16, integer, tf32};

/// Rows of a piece.
pub const ROWS: usize = 16;
/// Columns of a piece.
pub const COLUMNS: usize = 8;
/// The most elements in a row of A.
pub const MOST_K: usize = 64;

/// A row of A or a column of B.
pub type Line = [u32; MOST_K];

/// The arithmetic of a multiplication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `kind::f16` with f16.
    F16(Accumulator),
    /// `kind::f16` with bf16, to f32.
    Bf16,
    /// `kind::tf32`
    Tf32,
    /// `kind::f8f6f4`
    F8f6f4((Element, Element), Accumulator),
    /// `kind::i8`: the elements of A and B, and whether sums saturate.
    I8((IntElement, IntElement), bool),
    /// `kind::mxf8f6f4`
    Mxf8f6f4((Element, Element)),
    /// `kind::mxf4` and `kind::mxf4nvf4`: the type of the scales, and whether each has 16 elements, not 32.
    Fp4(Scale, bool),
}

impl Kind {
    /// Elements in a row of A, which are 32 bytes at the width of the kind.
    pub const fn k(self) -> usize {
        match self {
            Kind::F16(_) | Kind::Bf16 => 16,
            Kind::Tf32 => 8,
            Kind::F8f6f4(..) | Kind::I8(..) | Kind::Mxf8f6f4(_) => 32,
            Kind::Fp4(..) => 64,
        }
    }

    /// Scales for a row of A or a column of B; 0 for a kind without scales.
    pub const fn scales(self) -> usize {
        match self {
            Kind::Mxf8f6f4(_) => 1,
            Kind::Fp4(_, false) => 2,
            Kind::Fp4(_, true) => 4,
            _ => 0,
        }
    }

    /// C and D are f16.
    pub const fn is_half(self) -> bool {
        matches!(self, Kind::F16(Accumulator::F16) | Kind::F8f6f4(_, Accumulator::F16))
    }
}

/// The operands of a piece.
#[derive(Clone, Debug)]
pub struct Piece {
    /// Rows of A.
    pub a: [Line; ROWS],
    /// Columns of B.
    pub b: [Line; COLUMNS],
    /// Scales of the rows of A.
    pub a_scales: [[u8; 4]; ROWS],
    /// Scales of the columns of B.
    pub b_scales: [[u8; 4]; COLUMNS],
}

impl Piece {
    /// All zeros.
    pub const ZERO: Piece = Piece {
        a: [[0; MOST_K]; ROWS],
        b: [[0; MOST_K]; COLUMNS],
        a_scales: [[0; 4]; ROWS],
        b_scales: [[0; 4]; COLUMNS],
    };

    fn columns_of_a<T: Copy, const K: usize>(&self, narrow: impl Fn(u32) -> T) -> [[T; ROWS]; K] {
        std::array::from_fn(|k| std::array::from_fn(|m| narrow(self.a[m][k])))
    }

    fn columns_of_b<T: Copy, const K: usize>(&self, narrow: impl Fn(u32) -> T) -> [[T; K]; COLUMNS] {
        std::array::from_fn(|n| std::array::from_fn(|k| narrow(self.b[n][k])))
    }
}

const fn half(code: u32) -> u16 {
    (code & 0xffff) as u16
}

const fn byte(code: u32) -> u8 {
    (code & 0xff) as u8
}

/// D = A·B + C: `c[column][row]` is replaced by D.
pub fn multiply(kind: Kind, piece: &Piece, c: &mut [[u32; ROWS]; COLUMNS]) {
    // The rules of f16, bf16 and tf32 are those of Hopper.
    let core = TensorCore::Hopper;
    match kind {
        Kind::F16(accumulator) => f16::<ROWS, COLUMNS, 16>(
            core,
            accumulator,
            &piece.columns_of_a(half),
            &piece.columns_of_b(half),
            c,
        ),
        Kind::Bf16 => {
            bf16::<ROWS, COLUMNS, 16>(core, &piece.columns_of_a(half), &piece.columns_of_b(half), c);
        }
        Kind::Tf32 => {
            tf32::<ROWS, COLUMNS, 8>(core, &piece.columns_of_a(|x| x), &piece.columns_of_b(|x| x), c);
        }
        Kind::F8f6f4(elements, accumulator) => f8f6f4::<ROWS, COLUMNS, 32>(
            elements,
            accumulator,
            &piece.columns_of_a(byte),
            &piece.columns_of_b(byte),
            c,
        ),
        Kind::I8(elements, saturates) => integer::<ROWS, COLUMNS, 32>(
            elements,
            saturates,
            &piece.columns_of_a(byte),
            &piece.columns_of_b(byte),
            c,
        ),
        Kind::Mxf8f6f4(elements) => {
            let scales = (piece.a_scales.map(|all| all[0]), piece.b_scales.map(|all| all[0]));
            let (a, b) = (piece.columns_of_a(byte), piece.columns_of_b(byte));
            scaled::bytes(elements, (&scales.0, &scales.1), &a, &b, c);
        }
        Kind::Fp4(scale, false) => {
            let two = |all: [u8; 4]| [all[0], all[1]];
            let scales = (piece.a_scales.map(two), piece.b_scales.map(two));
            let (a, b) = (piece.columns_of_a(byte), piece.columns_of_b(byte));
            scaled::nibbles(scale, (&scales.0, &scales.1), &a, &b, c);
        }
        Kind::Fp4(scale, true) => {
            let (a, b) = (piece.columns_of_a(byte), piece.columns_of_b(byte));
            scaled::nibbles(scale, (&piece.a_scales, &piece.b_scales), &a, &b, c);
        }
    }
}
