//! Worker processes that call a Python reference: started once, used for many calls.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tempfile::TempDir;
use warpproof_sandbox::{Reach, is_required, start};

use crate::inputs::Input;
use warpproof_task::Axes;
use warpproof_task::dtype::Dtype;

const BOOTSTRAP: &str = include_str!("../python.py");
/// Prints where an interpreter and its packages are.
const PLACES: &str = "import json, sys; print(json.dumps([sys.prefix, sys.base_prefix, sys.exec_prefix, sys.executable] + sys.path))";
/// Bytes of a process's error output that are read.
const TAIL: u64 = 8 << 10;
/// Bytes of the first line of an answer.
const MAX_HEADER: u64 = 1 << 20;
/// Bytes of the largest file that a reference may write in its temporary directory.
const MAX_FILE: u64 = 32 << 20;
/// Calls per process, because its resource limits cover its whole lifetime.
const MAX_CALLS: u64 = 256;
/// How long a silent process may take to exit.
const PATIENCE: Duration = Duration::from_secs(5);

/// The function to call, and its limits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings<'a> {
    pub(super) interpreter: &'a OsStr,
    pub(super) directory: &'a Path,
    pub(super) allowed: &'a [PathBuf],
    pub(super) file: &'a Path,
    pub(super) function: &'a str,
    pub(super) timeout_seconds: u64,
    pub(super) memory_bytes: u64,
}

/// One call.
#[derive(Debug)]
pub(super) struct Request<'a> {
    pub(super) inputs: &'a [Input],
    pub(super) outputs: Vec<&'a str>,
    pub(super) axes: &'a Axes,
    /// Limit on the bytes of all outputs.
    pub(super) most_bytes: u64,
}

/// The result of a call.
#[derive(Debug)]
pub(super) enum Answer {
    /// Extents and bytes of each output.
    Outputs(Vec<(Vec<usize>, Vec<u8>)>),
    /// A sentence for the user.
    Sentence(String),
    /// The text of an exception, and whether it was caused by a lack of memory.
    Raised { text: String, memory: bool },
}

/// Why a process did not answer.
#[derive(Debug)]
pub(super) enum Broken {
    /// It could not be started.
    Start(io::Error),
    /// The operating system cannot confine it, but confinement is required.
    Unconfined,
    /// It exceeded its time limit and was killed.
    Time,
    /// It exited: its status and its last error output.
    Ended { status: String, said: String },
    /// An internal error.
    Other(String),
}

/// The processes of a run: at most one per calling thread; each is reused as long as it answers.
#[derive(Debug)]
pub struct Workers {
    idle: Mutex<Vec<Worker>>,
    /// Where the interpreter and its packages are.
    places: OnceLock<Vec<PathBuf>>,
    /// Threads that libraries may use in each.
    threads: usize,
    required: bool,
}

#[derive(Debug)]
struct Worker {
    child: Child,
    pipes: Option<Pipes>,
    said: File,
    memory_bytes: u64,
    calls: u64,
    /// Its working directory, the only place that it may write.
    _scratch: TempDir,
}

#[derive(Debug)]
struct Pipes {
    requests: ChildStdin,
    replies: BufReader<ChildStdout>,
}

impl Drop for Worker {
    fn drop(&mut self) {
        // It may have exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[derive(Serialize)]
struct Configuration<'a> {
    file: String,
    function: &'a str,
    limits: Limits,
}

#[derive(Serialize)]
struct Limits {
    file_bytes: u64,
    memory_bytes: u64,
    cpu_seconds: u64,
}

#[derive(Serialize)]
struct Question<'a> {
    inputs: Vec<Given<'a>>,
    outputs: &'a [&'a str],
    axes: &'a Axes,
    most: u64,
}

#[derive(Serialize)]
struct Given<'a> {
    name: &'a str,
    /// The code of its elements in Python's `array`.
    code: &'static str,
    dims: &'a [usize],
    bytes: usize,
}

#[derive(Deserialize)]
struct Header {
    outputs: Option<Vec<Vec<usize>>>,
    sentence: Option<String>,
    raised: Option<String>,
    #[serde(default)]
    memory: bool,
}

impl Workers {
    /// Processes whose libraries use this number of threads. `required`: start only processes that the operating
    /// system confines completely.
    pub fn new(threads: usize, required: bool) -> Self {
        Self { idle: Mutex::default(), places: OnceLock::new(), threads: threads.max(1), required }
    }

    /// Calls the function. A process that answers is kept for the next call.
    pub(super) fn call(&self, settings: &Settings<'_>, request: &Request<'_>) -> Result<Answer, Broken> {
        let mut worker = match self.idle_one(settings.memory_bytes) {
            Some(worker) => worker,
            None => self.started(settings)?,
        };
        let answer = worker.ask(settings, request)?;
        if worker.calls < MAX_CALLS {
            self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(worker);
        }
        Ok(answer)
    }

    /// An idle process that may use enough memory. Processes with too little memory are dropped.
    fn idle_one(&self, memory_bytes: u64) -> Option<Worker> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|worker| worker.memory_bytes >= memory_bytes);
        idle.pop()
    }

    fn started(&self, settings: &Settings<'_>) -> Result<Worker, Broken> {
        let ours = |what: &str, cause: io::Error| Broken::Other(format!("cannot {what}: {cause}"));
        let file = std::fs::canonicalize(settings.file)
            .map_err(|cause| ours(&format!("read {}", settings.file.display()), cause))?;
        let scratch = tempfile::tempdir().map_err(|cause| ours("create a temporary directory", cause))?;
        let said = tempfile::tempfile().map_err(|cause| ours("create a temporary file", cause))?;
        let cores =
            thread::available_parallelism().map_or(1, |cores| u64::try_from(cores.get()).unwrap_or(1));
        // Leave room to grow: the limit cannot be raised later.
        let memory_bytes = settings.memory_bytes.saturating_add(settings.memory_bytes / 4);
        let configuration = Configuration {
            file: file.display().to_string(),
            function: settings.function,
            limits: Limits {
                file_bytes: MAX_FILE,
                memory_bytes,
                cpu_seconds: (settings.timeout_seconds + 1).saturating_mul(cores).saturating_mul(MAX_CALLS),
            },
        };
        let configuration = serde_json::to_string(&configuration).unwrap_or_default();
        let mut command = Command::new(settings.interpreter);
        command.args(["-I", "-c", BOOTSTRAP]).arg(configuration).current_dir(scratch.path());
        command.env_clear().env("HOME", scratch.path()).env("TMPDIR", scratch.path());
        command.env("LC_ALL", "C.UTF-8");
        for name in ["OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"] {
            command.env(name, self.threads.to_string());
        }
        // The interpreter's libraries can be installed anywhere.
        for name in ["PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT"] {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        // A file instead of a pipe: a process left behind cannot block the reader.
        let told = said.try_clone().map_err(|cause| ours("duplicate a file handle", cause))?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(told);
        let mut read = self.places(settings.interpreter).to_vec();
        read.push(settings.directory.to_owned());
        read.extend_from_slice(settings.allowed);
        let write = vec![scratch.path().to_owned()];
        let reach = Reach { read, write, programs: true, files_of_others: !self.required };
        let (mut child, held) = start(&mut command, &reach).map_err(Broken::Start)?;
        let pipes = child
            .stdin
            .take()
            .zip(child.stdout.take())
            .map(|(requests, replies)| Pipes { requests, replies: BufReader::new(replies) });
        let worker = Worker { child, pipes, said, memory_bytes, calls: 0, _scratch: scratch };
        if (self.required && !held.is_whole()) || (is_required() && !held.is_any()) {
            return Err(Broken::Unconfined);
        }
        Ok(worker)
    }

    /// Directories of an interpreter and its packages: a virtual environment and the Python it is based on.
    fn places(&self, interpreter: &OsStr) -> &[PathBuf] {
        self.places.get_or_init(|| {
            let found = Command::new(interpreter).args(["-I", "-c", PLACES]).stdin(Stdio::null()).output();
            let named: Vec<String> =
                found.ok().and_then(|output| serde_json::from_slice(&output.stdout).ok()).unwrap_or_default();
            let libraries = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
            let home = std::env::var_os("HOME").map(PathBuf::from);
            let mut places: Vec<PathBuf> =
                named.into_iter().map(PathBuf::from).chain(std::env::split_paths(&libraries)).collect();
            // The root and a home directory are not an installation.
            places
                .retain(|path| path.is_absolute() && path.parent().is_some() && Some(path) != home.as_ref());
            // An interpreter given by path may be a link to another.
            places.extend(std::fs::canonicalize(interpreter));
            places.sort_unstable();
            places.dedup();
            places
        })
    }
}

impl Worker {
    fn ask(&mut self, settings: &Settings<'_>, request: &Request<'_>) -> Result<Answer, Broken> {
        let Some(pipes) = self.pipes.take() else {
            return Err(Broken::Other("the process has already ended".into()));
        };
        self.calls += 1;
        let before = self.said.metadata().map_or(0, |found| found.len());
        let message = message(request);
        let (tell, told) = mpsc::channel();
        let (most, outputs) = (request.most_bytes, request.outputs.len());
        // A thread that waits for a process ends with that process.
        thread::spawn(move || {
            let _ = tell.send(exchange(pipes, &message, most, outputs));
        });
        match told.recv_timeout(Duration::from_secs(settings.timeout_seconds)) {
            Err(_) => Err(Broken::Time),
            Ok(Ok((pipes, answer))) => {
                self.pipes = Some(pipes);
                Ok(answer)
            }
            Ok(Err(cause)) if cause.kind() == io::ErrorKind::InvalidData => {
                Err(Broken::Other(format!("unexpected reply: {cause}")))
            }
            Ok(Err(_)) => Err(self.ended(before)),
        }
    }

    /// How a process that closed its pipes exited.
    fn ended(&mut self, before: u64) -> Broken {
        let begun = std::time::Instant::now();
        let status = loop {
            match self.child.try_wait() {
                Ok(Some(status)) => break status.to_string(),
                Ok(None) if begun.elapsed() < PATIENCE => thread::sleep(Duration::from_millis(2)),
                _ => break "closed its pipes".to_owned(),
            }
        };
        let mut bytes = Vec::new();
        let length = self.said.metadata().map_or(0, |found| found.len());
        let from = before.max(length.saturating_sub(TAIL));
        let read = self.said.seek(SeekFrom::Start(from));
        let _ = read.and_then(|_| (&mut self.said).take(TAIL).read_to_end(&mut bytes));
        Broken::Ended { status, said: String::from_utf8_lossy(&bytes).into_owned() }
    }
}

/// A request in wire format: a line of JSON, then the inputs' bytes.
fn message(request: &Request<'_>) -> Vec<u8> {
    let mut inputs = Vec::with_capacity(request.inputs.len());
    let mut data: Vec<u8> = Vec::new();
    for input in request.inputs {
        let (dtype, code) = match input.dtype {
            Dtype::U64 => (Dtype::U64, "Q"),
            dtype if dtype.is_integer() => (Dtype::I64, "q"),
            _ => (Dtype::F64, "d"),
        };
        let bytes = dtype.bytes(&input.tensor.values);
        inputs.push(Given { name: &input.name, code, dims: &input.tensor.dims, bytes: bytes.len() });
        data.extend_from_slice(&bytes);
    }
    let question =
        Question { inputs, outputs: &request.outputs, axes: request.axes, most: request.most_bytes };
    let mut message = serde_json::to_vec(&question).unwrap_or_default();
    message.push(b'\n');
    message.append(&mut data);
    message
}

/// Sends a request and reads the reply, which is not trusted.
fn exchange(mut pipes: Pipes, message: &[u8], most: u64, outputs: usize) -> io::Result<(Pipes, Answer)> {
    pipes.requests.write_all(message)?;
    pipes.requests.flush()?;
    let mut line = Vec::new();
    (&mut pipes.replies).take(MAX_HEADER).read_until(b'\n', &mut line)?;
    if line.is_empty() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let wrong = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
    let header: Header = serde_json::from_slice(&line).map_err(|_| wrong("no JSON"))?;
    let answer = match (header.outputs, header.sentence, header.raised) {
        (Some(all), None, None) if all.len() == outputs => {
            let mut left = most;
            let mut given = Vec::with_capacity(all.len());
            for dims in all {
                let count = dims.iter().try_fold(8usize, |all, extent| all.checked_mul(*extent));
                let bytes = count.and_then(|count| u64::try_from(count).ok()).filter(|bytes| *bytes <= left);
                let bytes = bytes.ok_or_else(|| wrong("more bytes than requested"))?;
                left -= bytes;
                let mut data = Vec::new();
                (&mut pipes.replies).take(bytes).read_to_end(&mut data)?;
                if u64::try_from(data.len()).ok() != Some(bytes) {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                given.push((dims, data));
            }
            Answer::Outputs(given)
        }
        (None, Some(sentence), None) => Answer::Sentence(sentence),
        (None, None, Some(text)) => Answer::Raised { text, memory: header.memory },
        _ => return Err(wrong("neither a result nor an error")),
    };
    Ok((pipes, answer))
}
