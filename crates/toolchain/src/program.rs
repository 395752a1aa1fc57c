//! Runs another program to its end and keeps what it printed.

use std::ffi::OsStr;
use std::fmt;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use warpproof_sandbox::Reach;

use crate::limits::{CompileLimits, WALL};

/// Bytes of what a program prints; nvdisasm prints the most.
const MAX_PRINTED: u64 = 1 << 30;
/// Address space that ptxas and nvdisasm reserve and do not use.
const OWN_ADDRESSES: u64 = 1 << 30;

/// The signal of a process that has used its processor time, on Linux and macOS.
#[cfg(unix)]
const SIGXCPU: i32 = 24;

/// A program that could not be started, or was killed.
#[derive(Debug)]
pub struct ProgramError {
    /// Which program.
    pub program: PathBuf,
    /// What the system said.
    pub cause: String,
    /// Whether a limit ended it; the cause names the flag that raises it.
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

/// What a program left behind.
pub(crate) struct Output {
    pub(crate) success: bool,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
}

/// Runs a program of the toolkit inside a directory, which is all it may write. A program that a signal ended is an error: it
/// gave no answer.
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
    // cuobjdump starts nvdisasm, which is beside it.
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

/// Why a compiler is not run at all.
pub(crate) const UNCONFINED: &str = "this kernel cannot confine the compiler, and WARPPROOF_REQUIRE_SANDBOX is set; that takes \
     Linux with Landlock and seccomp";

fn all(pipe: Option<impl Read>) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some(pipe) = pipe {
        // What was printed until a failure is all there is.
        let _ = pipe.take(MAX_PRINTED).read_to_end(&mut bytes);
    }
    bytes
}

/// How a process ended; `None` if it was killed after its time.
fn ended(child: &mut Child, most: Duration) -> io::Result<Option<ExitStatus>> {
    let begun = Instant::now();
    let mut pause = Duration::from_micros(200);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if begun.elapsed() > most {
            // It may have ended meanwhile, and then there is nothing to kill.
            let _ = child.kill();
            child.wait()?;
            return Ok(None);
        }
        thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(5));
    }
}

/// What is told of a program that a limit ended.
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

/// What a program prints for `--version`, if it runs.
pub(crate) fn banner(program: &Path) -> Option<String> {
    let output = Command::new(program).arg("--version").stdin(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}
