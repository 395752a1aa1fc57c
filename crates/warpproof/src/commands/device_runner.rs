//! `warpproof device-runner`: the process through which the gate drives a CUDA device. It is no command for people.

use std::fs::OpenOptions;
use std::io;
use std::path::Path;

use clap::Args;
use warpproof_gate::runner::serve;

use crate::report::{Kind, Outcome};
use crate::terminal::{Terminal, take_output};

/// Drive a CUDA device for the gate: requests as lines of JSON on the standard input, answers likewise
#[derive(Debug, Args)]
#[command(hide = true)]
pub(crate) struct DeviceRunner {}

impl DeviceRunner {
    #[expect(clippy::unused_self, reason = "every command has it")]
    pub(crate) fn run(&self, terminal: &mut Terminal) -> Outcome {
        // Before a driver is opened: what a kernel prints must never be read as an answer.
        let nowhere = Path::new(if cfg!(windows) { "NUL" } else { "/dev/null" });
        let answers = OpenOptions::new().write(true).open(nowhere).and_then(|nowhere| take_output(&nowhere));
        let answers = match answers {
            Ok(answers) => answers,
            Err(error) => {
                terminal.say(format_args!("error: kernels would print where answers are read: {error}"));
                return Outcome::Stopped(Kind::Missing);
            }
        };
        // Who asked is gone if nobody reads the answers; there is nobody to tell.
        let _gone = serve(io::stdin().lock(), io::BufWriter::new(answers));
        Outcome::Green
    }
}
