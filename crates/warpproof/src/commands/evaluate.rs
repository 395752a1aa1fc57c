//! `warpproof evaluate`: what a worker starts for each evaluation. It binds itself before it reads anything of a task.

use std::path::PathBuf;

use clap::Args;
use warpproof_fleet::evaluate::evaluate;

use crate::report::{Kind, Outcome};
use crate::terminal::Terminal;

/// Judge what a directory asks for, with no rights but its own; a worker starts it
#[derive(Debug, Args)]
#[command(hide = true)]
pub(crate) struct Evaluate {
    /// The directory of the evaluation
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

impl Evaluate {
    pub(crate) fn run(&self, terminal: &mut Terminal) -> Outcome {
        match evaluate(&self.directory) {
            Ok(()) => Outcome::Green,
            Err(why) => {
                terminal.say(why);
                Outcome::Stopped(Kind::Usage)
            }
        }
    }
}
