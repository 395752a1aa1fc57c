//! Deliberately wrong outputs. A test that accepts one of them is too weak.

use crate::inputs::{Inconsistent, Inputs};
use crate::oracle::exact::{self, Options};
use crate::problem::{BLOCK_ROWS, Layout, Mask};
use crate::tensor::each_row;
use std::fmt;
use std::ops::Range;
use warpproof_sim::num::{Rounding, convert::cvt_f16_f64};

/// A kernel that does not compute attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Null {
    /// Writes zeros.
    Zeros,
    /// Writes the mean of the visible rows of V, as if all scores were equal.
    MeanOfV,
    /// Copies Q.
    CopyOfQ,
    /// Leaves out the 64 keys in the middle, and divides by the sum of the others.
    TileSkipped,
    /// Leaves out the keys of the last tile, full or not, and divides by the sum of the others.
    TailSkipped,
}

impl Null {
    /// All null kernels.
    pub const ALL: [Null; 5] =
        [Null::Zeros, Null::MeanOfV, Null::CopyOfQ, Null::TileSkipped, Null::TailSkipped];

    /// The bits of the null kernel's f16 output.
    pub fn output(self, inputs: &Inputs, mask: Mask, layout: Layout) -> Result<Vec<u16>, Inconsistent> {
        inputs.check()?;
        let rows = inputs.shape.query_rows(layout);
        let attend = |options| exact::attention(inputs, mask, &options).map(|exact| exact.output);
        let values = match self {
            Null::Zeros => vec![0.0; rows.elements()],
            Null::MeanOfV => attend(Options { layout, scale: Some(0.0), ..Options::default() })?,
            Null::CopyOfQ => {
                let q = inputs.q.dequantize();
                let mut values = vec![0.0; rows.elements()];
                for (batch, head, row) in each_row(&rows) {
                    let (from, to) = (inputs.q.rows.offset(batch, head, row), rows.offset(batch, head, row));
                    values[to..to + rows.dim].copy_from_slice(&q[from..from + rows.dim]);
                }
                values
            }
            Null::TileSkipped => attend(Options { layout, skip: Some(middle_tile), ..Options::default() })?,
            Null::TailSkipped => attend(Options { layout, skip: Some(last_tile), ..Options::default() })?,
        };
        Ok(values.iter().map(|value| cvt_f16_f64(value.to_bits(), Rounding::Rn)).collect())
    }

    /// Whether the null output happens to be correct: if every query sees at most one key, the mean of V is
    /// the correct output.
    pub fn is_right(self, inputs: &Inputs, mask: Mask) -> bool {
        let sees = |least: usize| {
            inputs
                .shape
                .sequences
                .iter()
                .all(|&lengths| (0..lengths.queries).all(|row| mask.visible(lengths, row) <= least))
        };
        match self {
            Null::MeanOfV => sees(1),
            Null::Zeros | Null::TileSkipped | Null::TailSkipped => sees(0),
            Null::CopyOfQ => inputs.shape.query_rows(Layout::Bhsd).elements() == 0,
        }
    }
}

impl fmt::Display for Null {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Null::Zeros => "zeros",
            Null::MeanOfV => "mean of V",
            Null::CopyOfQ => "copy of Q",
            Null::TileSkipped => "a tile skipped",
            Null::TailSkipped => "the tail skipped",
        })
    }
}

/// The keys of the middle tile of `keys` keys.
pub fn middle_tile(keys: usize) -> Range<usize> {
    let start = keys.div_ceil(BLOCK_ROWS) / 2 * BLOCK_ROWS;
    start.min(keys)..(start + BLOCK_ROWS).min(keys)
}

/// The keys of the last tile of `keys` keys.
pub fn last_tile(keys: usize) -> Range<usize> {
    keys.div_ceil(BLOCK_ROWS).saturating_sub(1) * BLOCK_ROWS..keys
}
