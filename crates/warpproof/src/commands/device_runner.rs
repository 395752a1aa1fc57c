//! `warpproof device-runner`: the process through which the gate drives a CUDA device. It is no command for people.

use std::io;

use clap::Args;
use warpproof_gate::runner::serve;

use crate::report::Outcome;
use crate::terminal::Terminal;

/// Drive a CUDA device for the gate: requests as lines of JSON on the standard input, answers likewise
#[derive(Debug, Args)]
#[command(hide = true)]
pub(crate) struct DeviceRunner {}

impl DeviceRunner {
    #[expect(clippy::unused_self, reason = "every command has it")]
    pub(crate) fn run(&self, _: &mut Terminal) -> Outcome {
        // Who asked is gone if nobody reads the answers; there is nobody to tell.
        let _gone = serve(io::stdin().lock(), io::stdout().lock());
        Outcome::Green
    }
}
