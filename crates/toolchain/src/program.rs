//! Runs a program to its end and captures its output.

use std::ffi::OsStr;
use std::fmt;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use warpproof_sandbox::Reach;

use crate::limits::{CompileLimits, WALL};

/// Output limit in bytes; nvdisasm prints the most.
const MAX_PRINTED: u64 = 1 << 30;
/// Address space that ptxas and nvdisasm reserve without using it.
const OWN_ADDRESSES: u64 = 1 << 30;

/// The signal of a process that exceeded its processor time, on Linux and macOS.
#[cfg(unix)]
const SIGXCPU: i32 = 24;

/// A program that could not be started, or was killed.
#[derive(Debug)]
pub struct ProgramError {
    /// Which program.
    pub program: PathBuf,
    /// The error of the operating system.
    pub cause: String,
    /// Whether a limit ended it; `cause` names the flag that raises the limit.
    pub limit: bool,
}

impl fmt::Display for ProgramError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.limit {
            return f.write_str(&self.cause);
        }
        write!(f, "cannot run {}: {}", self.program.display(), self.cause)
    }
}

impl std::error::Error for ProgramError {}

impl ProgramError {
    pub(crate) fn new(program: &Path, cause: impl Into<String>) -> Self {
        Self { program: program.to_owned(), cause: cause.into(), limit: false }
    }

    pub(crate) fn io(program: &Path, cause: &io::Error) -> Self {
        Self::new(program, cause.to_string())
    }
}

/// Exit status and output of a program.
pub(crate) struct Output {
    pub(crate) success: bool,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
}

/// Runs a program of the toolkit inside a directory, the only place where it may write. A program terminated by a signal is an
/// error.
pub(crate) fn run(
    program: &Path,
    args: &[&OsStr],
    directory: &Path,
    limits: CompileLimits,
) -> Result<Output, ProgramError> {
    let failed = |cause: io::Error| ProgramError::io(program, &cause);
    let mut command = Command::new(program);
    command.args(args).current_dir(directory).env("TMPDIR", directory);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // cuobjdump starts nvdisasm, which is next to it.
    let resolved = std::fs::canonicalize(program).unwrap_or_else(|_| program.to_owned());
    let beside = [program, &resolved].into_iter().filter_map(|path| Some(path.parent()?.to_owned()));
    let reach = Reach {
        read: beside.collect(),
        write: vec![directory.to_owned()],
        programs: true,
        files_of_others: true,
    };
    let (mut child, held) = warpproof_sandbox::start(&mut command, &reach).map_err(failed)?;
    if warpproof_sandbox::is_required() && !held.is_any() {
        let _ = child.kill().and_then(|()| child.wait().map(|_| ()));
        return Err(ProgramError::new(program, UNCONFINED));
    }
    warpproof_sandbox::limit_started(&child, limits.seconds, limits.bytes.saturating_add(OWN_ADDRESSES));
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let (status, stdout, stderr) = thread::scope(|scope| {
        let stdout = scope.spawn(|| all(stdout));
        let stderr = scope.spawn(|| all(stderr));
        let status = ended(&mut child, Duration::from_secs(limits.seconds.saturating_mul(WALL)));
        (status, stdout.join().unwrap_or_default(), stderr.join().unwrap_or_default())
    });
    let status = status.map_err(failed)?;
    let stderr = String::from_utf8_lossy(&stderr).into_owned();
    let name = program.file_stem().unwrap_or_default().display().to_string();
    if let Some(cause) = limit_reached(status, &stderr, &name, limits) {
        return Err(ProgramError { program: program.to_owned(), cause, limit: true });
    }
    let Some(status) = status.filter(|status| status.code().is_some()) else {
        let cause = status.map_or_else(String::new, |status| status.to_string());
        return Err(ProgramError::new(program, cause));
    };
    Ok(Output { success: status.success(), stdout, stderr })
}

/// Error if the compiler must not run without a sandbox.
pub(crate) const UNCONFINED: &str = "this system cannot sandbox the compiler, and WARPPROOF_REQUIRE_SANDBOX is set; this requires \
     Linux with Landlock and seccomp";

fn all(pipe: Option<impl Read>) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some(pipe) = pipe {
        // If reading fails, the output so far is used.
        let _ = pipe.take(MAX_PRINTED).read_to_end(&mut bytes);
    }
    bytes
}

/// Exit status of a process; `None` if it was killed after its time limit.
fn ended(child: &mut Child, most: Duration) -> io::Result<Option<ExitStatus>> {
    let begun = Instant::now();
    let mut pause = Duration::from_micros(200);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if begun.elapsed() > most {
            // It may have ended meanwhile; then there is nothing to kill.
            let _ = child.kill();
            child.wait()?;
            return Ok(None);
        }
        thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(5));
    }
}

/// Error message of a program that a limit ended.
fn limit_reached(
    status: Option<ExitStatus>,
    stderr: &str,
    name: &str,
    limits: CompileLimits,
) -> Option<String> {
    let Some(status) = status else { return Some(limits.time_sentence(name)) };
    #[cfg(unix)]
    {
        use std::os::unix::process::ExitStatusExt;
        if status.signal() == Some(SIGXCPU) {
            return Some(limits.time_sentence(name));
        }
    }
    let memory = ["out of memory", "Memory allocation failure", "bad_alloc", "cannot allocate memory"];
    let short = !status.success() && memory.iter().any(|words| stderr.contains(words));
    short.then(|| limits.memory_sentence(name))
}

/// The output of a program for `--version`, if it runs.
pub(crate) fn banner(program: &Path) -> Option<String> {
    let output = Command::new(program).arg("--version").stdin(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}
