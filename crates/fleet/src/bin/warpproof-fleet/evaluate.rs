//! `warpproof-fleet evaluate`: a worker starts it for each evaluation. It sandboxes itself before it reads the task.

use std::path::PathBuf;

use clap::Args;
use warpproof_fleet::evaluate::evaluate;

use warpproof::report::{Kind, Outcome};
use warpproof::terminal::Terminal;

/// Evaluate the order in a directory, in a sandbox; started by a worker
#[derive(Debug, Args)]
#[command(hide = true)]
pub(super) struct Evaluate {
    /// The directory of the evaluation
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

impl Evaluate {
    pub(super) fn run(&self, terminal: &mut Terminal) -> Outcome {
        match evaluate(&self.directory) {
            Ok(()) => Outcome::Green,
            Err(why) => {
                terminal.say(why);
                Outcome::Stopped(Kind::Usage)
            }
        }
    }
}
