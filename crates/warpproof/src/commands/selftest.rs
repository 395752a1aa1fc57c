//! `warpproof selftest`: compares the software GPU with recorded results of hardware.

mod fragment;
mod matrix;
mod vectors;

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::flags::JsonFlag;
use crate::report::Outcome;
use crate::terminal::Terminal;

/// Compare the software GPU with recorded results of hardware
#[derive(Debug, Args)]
pub(crate) struct Selftest {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Mma(Mma),
}

/// Compare the tensor-core instructions, bit for bit
///
/// Executes the instruction for every vector: a kernel loads the fragments from memory, executes mma.sync and stores
/// the result. Also computes products of f16, bf16, tf32 and f64 with wmma. The folder contains mma-ada.jsonl (whole
/// matrices) and silicon/*.txt (dot products captured on hardware). The exit code is 1 if any bit differs.
#[derive(Debug, Args)]
pub(crate) struct Mma {
    /// The folder of vectors; crates/num/tests/golden in the source has some of them
    #[arg(value_name = "DIR")]
    folder: Option<PathBuf>,
    #[command(flatten)]
    json: JsonFlag,
}

impl Selftest {
    pub(crate) fn run(&self, terminal: &mut Terminal) -> Outcome {
        match &self.what {
            What::Mma(mma) => matrix::run(mma, terminal),
        }
    }
}
