//! Standard output and standard error.
//!
//! Color goes to a terminal only. A reader that closes the pipe (`warpproof build … | head`) is not an error: the rest is not
//! printed, and the exit code still reports the verdict.

mod progress;

use std::fmt;
use std::fs::File;
use std::io::{self, IsTerminal, Write};

use anstream::AutoStream;

use crate::report::{Report, Severity};
pub(crate) use progress::Progress;

/// Where commands print.
#[derive(Debug)]
pub struct Terminal {
    out: AutoStream<io::Stdout>,
    /// Standard output, after it was redirected away from the libraries of this process.
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

    /// The same; prints only results and errors if `quiet` is set.
    #[must_use]
    pub fn quiet(self, quiet: bool) -> Self {
        Self { quiet, ..self }
    }

    /// Prints to standard output.
    pub fn print(&mut self, text: impl fmt::Display) {
        // A closed pipe or a full disk: the error cannot be reported either.
        let _ = match &mut self.own {
            None => write!(self.out, "{text}").and_then(|()| self.out.flush()),
            Some(own) => own.write_all(text.to_string().as_bytes()),
        };
    }

    /// Redirects standard output of this process's libraries to standard error; only this type still writes to standard output.
    pub(crate) fn print_alone(&mut self) -> io::Result<()> {
        self.own = Some(take_output(&io::stderr())?);
        Ok(())
    }

    /// Prints JSON to standard output.
    pub fn json(&mut self, value: &serde_json::Value) {
        self.print(format_args!("{value:#}\n"));
    }

    /// Standard output for binary data: nothing is stripped.
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

    /// Prints a status message to standard error, unless `--quiet` is set.
    pub fn say(&mut self, text: impl fmt::Display) {
        if !self.quiet {
            self.note(text);
        }
    }

    /// Prints a message to standard error, even with `--quiet`.
    pub(crate) fn note(&mut self, text: impl fmt::Display) {
        let _ = writeln!(self.err, "{text}");
    }

    /// A progress line, on a terminal only; it is erased when it is finished or dropped.
    pub(crate) fn progress(&self) -> Progress {
        if self.is_watched() { Progress::shown() } else { Progress::hidden() }
    }

    /// Whether standard error is a terminal and progress is enabled.
    pub fn is_watched(&self) -> bool {
        !self.quiet && io::stderr().is_terminal()
    }
}

/// Reserves standard output for the caller. A driver prints the output of kernels' `printf` there; that output is redirected.
#[cfg(unix)]
pub(crate) fn take_output(elsewhere: &impl std::os::fd::AsFd) -> io::Result<File> {
    use std::os::fd::AsFd as _;
    io::stdout().flush()?;
    let own = io::stdout().as_fd().try_clone_to_owned()?;
    rustix::stdio::dup2_stdout(elsewhere)?;
    Ok(File::from(own))
}

/// Standard output cannot be redirected on this system, so output of kernels could be mistaken for results.
#[cfg(not(unix))]
pub(crate) fn take_output<T>(_: &T) -> io::Result<File> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "standard output cannot be redirected on this system"))
}

/// Standard output for data. A closed pipe is ignored; any other error is returned.
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
