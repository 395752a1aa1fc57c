//! How a command ends: its diagnostics, its exit code, and what a panic prints.

use std::process::ExitCode;

pub(crate) use warpproof_diagnostic::first_error;
pub use warpproof_diagnostic::{Kind, Note, Place, Report, Severity};

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Success.
    Green,
    /// Failure; a report has been printed.
    Stopped(Kind),
    /// The exit code of a program that the command ran.
    Program(u8),
}

impl From<Outcome> for ExitCode {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Green => Self::SUCCESS,
            Outcome::Stopped(kind) => Self::from(kind.exit_code()),
            Outcome::Program(code) => Self::from(code),
        }
    }
}

/// Reports a panic as a bug in Warpproof; the exit code is 101, as for every Rust program.
pub fn explain_panics() {
    let default = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        default(info);
        let report = Report::error(
            Kind::Bug,
            "warpproof itself failed: this is a bug in warpproof, not in the kernel",
        )
        .help("please report it with the lines above and the input");
        crate::terminal::Terminal::new().report(&report);
    }));
}
