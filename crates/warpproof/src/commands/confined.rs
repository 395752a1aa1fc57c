//! `warpproof confined`: what an evaluation starts a reference in Python by. It takes rights from itself, and becomes Python.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use warpproof_fleet::sandbox::{Reach, become_confined};

use crate::report::{Kind, Outcome};
use crate::terminal::Terminal;

/// Become another program, with no rights but those named; an evaluation starts it
#[derive(Debug, Args)]
#[command(hide = true)]
pub(crate) struct Confined {
    /// What it may read and execute, beside the system's programs and libraries
    #[arg(long, value_name = "PATH")]
    read: Vec<PathBuf>,
    /// What it may read and write
    #[arg(long, value_name = "PATH")]
    write: Vec<PathBuf>,
    /// Become it even where the system cannot hold all of that
    #[arg(long)]
    unconfined: bool,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    command: Vec<OsString>,
}

impl Confined {
    pub(crate) fn run(&self, terminal: &mut Terminal) -> Outcome {
        let reach = Reach { read: self.read.clone(), write: self.write.clone() };
        terminal.say(become_confined(&reach, self.unconfined, &self.command));
        Outcome::Stopped(Kind::Usage)
    }
}
