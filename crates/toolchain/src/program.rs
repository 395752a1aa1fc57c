//! Runs another program to its end and keeps what it printed.

use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A program that could not be started, or was killed.
#[derive(Debug)]
pub struct ProgramError {
    /// Which program.
    pub program: PathBuf,
    /// What the system said.
    pub cause: String,
}

impl fmt::Display for ProgramError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot run {}: {}", self.program.display(), self.cause)
    }
}

impl std::error::Error for ProgramError {}

impl ProgramError {
    pub(crate) fn io(program: &Path, cause: &io::Error) -> Self {
        Self { program: program.to_owned(), cause: cause.to_string() }
    }
}

/// What a program left behind.
pub(crate) struct Output {
    pub(crate) success: bool,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
}

/// Runs a program without a terminal. A program that a signal ended is an error: it gave no answer.
pub(crate) fn run(program: &Path, args: &[&OsStr]) -> Result<Output, ProgramError> {
    let output = Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .output()
        .map_err(|cause| ProgramError::io(program, &cause))?;
    if output.status.code().is_none() {
        return Err(ProgramError { program: program.to_owned(), cause: output.status.to_string() });
    }
    Ok(Output {
        success: output.status.success(),
        stdout: output.stdout,
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}

/// What a program prints for `--version`, if it runs.
pub(crate) fn banner(program: &Path) -> Option<String> {
    let output = run(program, &[OsStr::new("--version")]).ok()?;
    output.success.then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}
