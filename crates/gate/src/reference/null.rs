//! Null kernels: outputs that are wrong on purpose. A task that accepts one of them in every case tests nothing.

use std::fmt;

use warpproof_kernels::null::{last_tile, middle_tile};

use super::{Expected, Problem, Unfit, real, without};

/// A kernel that does not do its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Null {
    /// Writes zeros.
    Zeros,
    /// Writes the mean of the correct output everywhere.
    Mean,
    /// Copies an input repeatedly until the output is full.
    Copy,
    /// Skips a tile of 64 in the middle of the reduced axis; without a reduction, of the output.
    TileSkipped,
    /// Skips the last tile, full or not.
    TailSkipped,
}

impl Null {
    /// All of them.
    pub const ALL: [Null; 5] = [Null::Zeros, Null::Mean, Null::Copy, Null::TileSkipped, Null::TailSkipped];

    /// The bytes of its output. For some inputs it is correct: the softmax of a constant is its mean. A task is sound
    /// if each null kernel fails at least one of its cases.
    pub fn output(self, problem: &Problem<'_>, expected: &Expected) -> Result<Vec<u8>, Unfit> {
        let exact = &expected.tensor.values;
        let values = match self {
            Null::Zeros => vec![0.0; exact.len()],
            Null::Mean => mean(exact),
            Null::Copy => {
                let input = problem.inputs.values().find(|tensor| !tensor.values.is_empty());
                let input = input.ok_or_else(|| Unfit("the task has no input to copy".to_owned()))?;
                input.values.iter().copied().cycle().take(exact.len()).collect()
            }
            Null::TileSkipped => without(problem, middle_tile)?,
            Null::TailSkipped => without(problem, last_tile)?,
        };
        Ok(problem.output.bytes(&values))
    }

    /// The bytes of its output if only the correct output is known; `None` if that is not sufficient.
    pub fn of_values(self, expected: &Expected) -> Option<Vec<u8>> {
        let exact = &expected.tensor.values;
        let values = match self {
            Null::Zeros => vec![0.0; exact.len()],
            Null::Mean => mean(exact),
            Null::Copy | Null::TileSkipped | Null::TailSkipped => return None,
        };
        Some(expected.dtype.bytes(&values))
    }
}

/// The mean of the finite values, everywhere.
fn mean(exact: &[f64]) -> Vec<f64> {
    let finite: Vec<f64> = exact.iter().copied().filter(|value| value.is_finite()).collect();
    vec![finite.iter().sum::<f64>() / real(finite.len()).max(1.0); exact.len()]
}

impl fmt::Display for Null {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Null::Zeros => "zeros",
            Null::Mean => "mean",
            Null::Copy => "copy",
            Null::TileSkipped => "a tile skipped",
            Null::TailSkipped => "the tail skipped",
        })
    }
}
