//! `warpproof device-runner`: the process through which the gate drives a CUDA device. Not meant to be run by users.

use std::fs::OpenOptions;
use std::io;
use std::path::Path;

use clap::Args;
use warpproof_gate::runner::serve;

use crate::report::{Kind, Outcome};
use crate::terminal::{Terminal, take_output};

/// Drive a CUDA device for the gate: JSON requests on stdin, replies on stdout
#[derive(Debug, Args)]
#[command(hide = true)]
pub struct DeviceRunner {}

impl DeviceRunner {
    /// Serves requests until the standard input ends.
    pub fn run(&self, terminal: &mut Terminal) -> Outcome {
        // Done before a driver is opened: a kernel's output must never be read as a response.
        let nowhere = Path::new(if cfg!(windows) { "NUL" } else { "/dev/null" });
        let answers = OpenOptions::new().write(true).open(nowhere).and_then(|nowhere| take_output(&nowhere));
        let answers = match answers {
            Ok(answers) => answers,
            Err(error) => {
                terminal.say(format_args!("error: kernel output would mix with responses: {error}"));
                return Outcome::Stopped(Kind::Missing);
            }
        };
        // If no process reads the responses, the gate has exited and the error cannot be reported.
        let _gone = serve(io::stdin().lock(), io::BufWriter::new(answers));
        Outcome::Green
    }
}
