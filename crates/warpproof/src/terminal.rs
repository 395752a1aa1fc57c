//! Standard output and standard error.
//!
//! Colour goes to a terminal only. A reader that goes away (`warpproof build … | head`) is no error: the rest is not
//! printed, and the exit code still tells the verdict.

use std::fmt;
use std::io::{self, IsTerminal, Write};

use anstream::AutoStream;

use crate::report::Report;

/// Where commands print.
#[derive(Debug)]
pub struct Terminal {
    out: AutoStream<io::Stdout>,
    err: AutoStream<io::Stderr>,
}

impl Default for Terminal {
    fn default() -> Self {
        Self::new()
    }
}

impl Terminal {
    /// The process's own streams.
    pub fn new() -> Self {
        Self { out: AutoStream::auto(io::stdout()), err: AutoStream::auto(io::stderr()) }
    }

    /// Prints to standard output.
    pub fn print(&mut self, text: impl fmt::Display) {
        // A closed pipe and a full disk alike: there is no one left to tell.
        let _ = write!(self.out, "{text}").and_then(|()| self.out.flush());
    }

    /// Prints JSON to standard output.
    pub fn json(&mut self, value: &serde_json::Value) {
        self.print(format_args!("{value:#}\n"));
    }

    /// Prints a report to standard error.
    pub fn report(&mut self, report: &Report) {
        let _ = writeln!(self.err, "{}\n", report.text());
    }

    /// Prints a sentence to standard error.
    pub fn say(&mut self, text: impl fmt::Display) {
        let _ = writeln!(self.err, "{text}");
    }

    /// Whether a person watches standard error.
    pub fn is_watched(&self) -> bool {
        io::stderr().is_terminal()
    }
}
