//! `warpproof attention`: the attention kernels that are built in.

mod ladder;

use clap::{Args, Subcommand};

use crate::report::Outcome;
use crate::terminal::Terminal;

/// Predict the built-in FP8 attention kernels
#[derive(Debug, Args)]
pub(crate) struct Attention {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Ladder(ladder::Ladder),
}

impl Attention {
    /// Runs the command.
    pub(crate) fn run(&self, terminal: &mut Terminal) -> Outcome {
        match &self.what {
            What::Ladder(ladder) => ladder.run(terminal),
        }
    }
}
