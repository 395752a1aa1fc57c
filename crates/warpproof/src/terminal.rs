//! Standard output and standard error.
//!
//! Colour goes to a terminal only. A reader that goes away (`warpproof build … | head`) is no error: the rest is not
//! printed, and the exit code still tells the verdict.

use std::fmt;
use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use anstream::AutoStream;
use indicatif::ProgressBar;

use crate::report::{Report, Severity};

/// Where commands print.
#[derive(Debug)]
pub struct Terminal {
    out: AutoStream<io::Stdout>,
    /// Standard output once it was taken from the libraries of this process.
    own: Option<File>,
    err: AutoStream<io::Stderr>,
    /// Whether only results and errors are printed.
    quiet: bool,
}

impl Default for Terminal {
    fn default() -> Self {
        Self::new()
    }
}

impl Terminal {
    /// The process's own streams.
    pub fn new() -> Self {
        let (out, err) = (AutoStream::auto(io::stdout()), AutoStream::auto(io::stderr()));
        Self { out, own: None, err, quiet: false }
    }

    /// The same, which prints results and errors only where that is asked for.
    #[must_use]
    pub fn quiet(self, quiet: bool) -> Self {
        Self { quiet, ..self }
    }

    /// Prints to standard output.
    pub fn print(&mut self, text: impl fmt::Display) {
        // A closed pipe and a full disk alike: there is no one left to tell.
        let _ = match &mut self.own {
            None => write!(self.out, "{text}").and_then(|()| self.out.flush()),
            Some(own) => own.write_all(text.to_string().as_bytes()),
        };
    }

    /// From now on what libraries of this process write to standard output goes to standard error, and this prints alone there.
    pub(crate) fn print_alone(&mut self) -> io::Result<()> {
        self.own = Some(take_output(&io::stderr())?);
        Ok(())
    }

    /// Prints JSON to standard output.
    pub fn json(&mut self, value: &serde_json::Value) {
        self.print(format_args!("{value:#}\n"));
    }

    /// Standard output for bytes that are data: nothing is stripped.
    pub(crate) fn data() -> Data {
        Data { out: io::stdout(), gone: false }
    }

    /// Prints a report to standard error.
    pub fn report(&mut self, report: &Report) {
        if self.quiet && report.severity == Severity::Warning {
            return;
        }
        let _ = writeln!(self.err, "{}\n", report.text());
    }

    /// Prints a sentence about what was done to standard error, unless only results are asked for.
    pub fn say(&mut self, text: impl fmt::Display) {
        if !self.quiet {
            self.note(text);
        }
    }

    /// Prints a sentence to standard error that the user waits for, whatever else is asked for.
    pub(crate) fn note(&mut self, text: impl fmt::Display) {
        let _ = writeln!(self.err, "{text}");
    }

    /// A line that says what is being done, on a terminal only; it goes away when it is finished or dropped.
    pub(crate) fn progress(&self) -> ProgressBar {
        if !self.is_watched() {
            return ProgressBar::hidden();
        }
        let bar = ProgressBar::new_spinner();
        bar.enable_steady_tick(Duration::from_millis(120));
        bar
    }

    /// Whether a person watches standard error, and wants to see what is being done.
    pub fn is_watched(&self) -> bool {
        !self.quiet && io::stderr().is_terminal()
    }
}

/// Takes the standard output for the caller. A driver prints there what kernels print; from now on that goes elsewhere.
#[cfg(unix)]
pub(crate) fn take_output(elsewhere: &impl std::os::fd::AsFd) -> io::Result<File> {
    use std::os::fd::AsFd as _;
    io::stdout().flush()?;
    let own = io::stdout().as_fd().try_clone_to_owned()?;
    rustix::stdio::dup2_stdout(elsewhere)?;
    Ok(File::from(own))
}

/// As there is no way to move it here, nothing may be read there that kernels could have printed.
#[cfg(not(unix))]
pub(crate) fn take_output<T>(_: &T) -> io::Result<File> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "the standard output cannot be moved on this system"))
}

/// Standard output for data. A reader that went away takes everything; any other error is one.
#[derive(Debug)]
pub(crate) struct Data {
    out: io::Stdout,
    gone: bool,
}

impl Data {
    fn unless_gone<T>(&mut self, result: io::Result<T>, otherwise: T) -> io::Result<T> {
        match result {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                self.gone = true;
                Ok(otherwise)
            }
            result => result,
        }
    }
}

impl Write for Data {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.gone {
            return Ok(bytes.len());
        }
        let written = self.out.write(bytes);
        self.unless_gone(written, bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.gone {
            return Ok(());
        }
        let flushed = self.out.flush();
        self.unless_gone(flushed, ())
    }
}
