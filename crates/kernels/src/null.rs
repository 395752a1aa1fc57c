//! Deliberately wrong outputs. A test that accepts one of them is too weak.

use crate::format::OutputFormat;
use crate::inputs::{Inconsistent, Inputs};
use crate::oracle::exact::{self, Options};
use crate::plan::Request;
use crate::problem::{BLOCK_ROWS, Layout, Mask, Window};
use crate::tensor::each_row;
use std::fmt;
use std::ops::Range;

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
        let plain = Options { layout, ..Options::default() };
        self.codes(inputs, mask, &plain, OutputFormat::F16)
    }

    /// The bits of the null kernel's output for a request.
    pub fn answer(self, request: &Request, inputs: &Inputs) -> Result<Vec<u16>, Inconsistent> {
        self.codes(inputs, request.mask, &request.options(), request.output)
    }

    fn codes(
        self,
        inputs: &Inputs,
        mask: Mask,
        options: &Options,
        format: OutputFormat,
    ) -> Result<Vec<u16>, Inconsistent> {
        inputs.check()?;
        let rows = inputs.shape.query_rows(options.layout);
        let attend = |options| exact::attention(inputs, mask, &options).map(|exact| exact.output);
        let values = match self {
            Null::Zeros => vec![0.0; rows.elements()],
            Null::MeanOfV => attend(Options { scale: Some(0.0), ..*options })?,
            Null::CopyOfQ => {
                let q = inputs.q.dequantize();
                let mut values = vec![0.0; rows.elements()];
                for (batch, head, row) in each_row(&rows) {
                    let (from, to) = (inputs.q.rows.offset(batch, head, row), rows.offset(batch, head, row));
                    values[to..to + rows.dim].copy_from_slice(&q[from..from + rows.dim]);
                }
                values
            }
            Null::TileSkipped => attend(Options { skip: Some(middle_tile), ..*options })?,
            Null::TailSkipped => attend(Options { skip: Some(last_tile), ..*options })?,
        };
        Ok(values.into_iter().map(|value| format.encode(value)).collect())
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

/// For each option of a request, the output of a kernel that ignores it: f64, rounded to the output's format. Such an
/// output is right by accident if it has the bits of the right one.
pub fn ignored(request: &Request, inputs: &Inputs) -> Result<Vec<(&'static str, Vec<u16>)>, Inconsistent> {
    inputs.check()?;
    let (mask, options, format) = (request.mask, request.options(), request.output);
    let without = |sinks: bool, slopes: bool| Inputs {
        sinks: inputs.sinks.clone().filter(|_| sinks),
        slopes: inputs.slopes.clone().filter(|_| slopes),
        ..inputs.clone()
    };
    let attend = |inputs: &Inputs, mask, options: Options, format: OutputFormat| {
        let exact = exact::attention(inputs, mask, &options)?.output;
        Ok::<_, Inconsistent>(exact.into_iter().map(|value| format.encode(value)).collect::<Vec<u16>>())
    };
    let mut all = Vec::new();
    if mask == Mask::Causal {
        all.push(("the causal mask ignored", attend(inputs, Mask::Full, options, format)?));
    }
    if request.window != Window::default() {
        let options = Options { window: Window::default(), ..options };
        all.push(("the window ignored", attend(inputs, mask, options, format)?));
    }
    if request.softcap.is_some() {
        all.push((
            "the soft cap ignored",
            attend(inputs, mask, Options { softcap: None, ..options }, format)?,
        ));
    }
    if request.sinks {
        all.push(("the sinks ignored", attend(&without(false, true), mask, options, format)?));
    }
    if request.alibi {
        all.push(("ALiBi ignored", attend(&without(true, false), mask, options, format)?));
    }
    if format == OutputFormat::Bf16 {
        all.push(("bf16 ignored", attend(inputs, mask, options, OutputFormat::F16)?));
    }
    Ok(all)
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
