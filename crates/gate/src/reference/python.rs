//! References in Python: one function of one file, called in a process of its own.
//!
//! The file is not trusted. It runs with `-I` in a temporary directory, without the environment of this process, and is ended
//! after its time. Files, memory and processor time are limited where the system can; what it writes is read as any other file.
//! This keeps mistakes from doing harm. It is no sandbox: the process has the rights of the user, unless a [`Confiner`] takes
//! them from it.

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::fmt::Write;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::{MAX_ELEMENTS, Tensor, Unfit};
use crate::dtype::Dtype;
use crate::inputs::Input;
use crate::task::{Axes, Reference};
use crate::tensor_file::{self, FileTensor, npy};

const BOOTSTRAP: &str = include_str!("python.py");
/// The file that it is written to.
const SCRIPT: &str = "warpproof_call.py";
/// Bytes of what it says that are looked at, and lines that are shown.
const TAIL: u64 = 8 << 10;
const TAIL_LINES: usize = 8;
/// Memory beside twelve copies of all tensors, for the interpreter and its libraries.
const OWN_MEMORY: u64 = 4 << 30;

/// A program that takes rights from itself and then becomes another one: what a file that is not trusted is started by. It gets
/// `--read PATH` and `--write PATH` for what is needed, `--`, and the other program with its arguments.
#[derive(Clone, Debug)]
pub struct Confiner {
    /// The program.
    pub program: PathBuf,
    /// Its arguments, before those.
    pub arguments: Vec<OsString>,
}

impl Confiner {
    /// Starts with what becomes `other`, which may read and write what is named and what the confiner lets all read.
    fn command(&self, other: &OsString, read: &[&Path], write: &[&Path]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments);
        for (flag, paths) in [("--read", read), ("--write", write)] {
            for path in paths {
                command.arg(flag).arg(path);
            }
        }
        command.arg("--").arg(other);
        command
    }
}

/// A function of a Python file.
#[derive(Clone, Debug)]
pub struct Python<'a> {
    /// The interpreter.
    pub interpreter: OsString,
    /// The task's directory.
    pub directory: &'a Path,
    /// The file, relative to it.
    pub file: &'a str,
    /// The function.
    pub function: &'a str,
    /// Seconds until it is ended.
    pub timeout_seconds: u32,
    /// What it is started by, where somebody takes its rights from it.
    pub confiner: Option<&'a Confiner>,
}

/// The interpreter that the user wants: `WARPPROOF_PYTHON`, else `python3`.
pub fn interpreter() -> OsString {
    env::var_os("WARPPROOF_PYTHON").filter(|path| !path.is_empty()).unwrap_or_else(|| "python3".into())
}

#[derive(Serialize)]
struct Request<'a> {
    file: String,
    function: &'a str,
    inputs: Vec<Given<'a>>,
    outputs: Vec<Wanted<'a>>,
    axes: &'a Axes,
    limits: Limits,
}

#[derive(Serialize)]
struct Given<'a> {
    name: &'a str,
    path: String,
    /// The code of its elements in Python's `array`.
    code: &'static str,
    dims: &'a [usize],
}

#[derive(Serialize)]
struct Wanted<'a> {
    name: &'a str,
    path: String,
}

#[derive(Serialize)]
struct Limits {
    file_bytes: u64,
    memory_bytes: u64,
    cpu_seconds: u64,
}

impl<'a> Python<'a> {
    /// The reference of a task whose file stands in a directory, if it is one in Python.
    pub fn of(
        reference: &'a Reference,
        directory: &'a Path,
        confiner: Option<&'a Confiner>,
    ) -> Option<Python<'a>> {
        let Reference::Python { file, function, timeout_seconds } = reference else { return None };
        Some(Python {
            interpreter: interpreter(),
            directory,
            file,
            function,
            timeout_seconds: *timeout_seconds,
            confiner,
        })
    }

    /// What the function returns for inputs and extents: each output with the extents that it should have.
    pub fn run(
        &self,
        inputs: &[Input],
        outputs: &[(String, Vec<usize>)],
        axes: &Axes,
    ) -> Result<BTreeMap<String, Tensor>, Unfit> {
        let ours = |cause: std::io::Error| Unfit(format!("cannot prepare the reference: {cause}"));
        let source = self.directory.join(self.file);
        let source = fs::canonicalize(&source)
            .map_err(|cause| Unfit(format!("cannot read {}: {cause}", source.display())))?;
        let directory = tempfile::tempdir().map_err(ours)?;
        let at = |name: String| directory.path().join(name);
        let mut elements = 0usize;
        let mut largest = 0usize;
        for dims in
            inputs.iter().map(|input| &input.tensor.dims).chain(outputs.iter().map(|output| &output.1))
        {
            let count = dims.iter().try_fold(1usize, |all, extent| all.checked_mul(*extent));
            let count = count
                .filter(|count| *count <= MAX_ELEMENTS)
                .ok_or_else(|| Unfit(format!("{dims:?} are more than {MAX_ELEMENTS} elements")))?;
            elements = elements.saturating_add(count);
            largest = largest.max(count);
        }
        let bytes = |elements: usize| u64::try_from(elements).unwrap_or(u64::MAX).saturating_mul(8);
        let cores =
            thread::available_parallelism().map_or(1, |cores| u64::try_from(cores.get()).unwrap_or(1));
        let mut request = Request {
            file: source.display().to_string(),
            function: self.function,
            inputs: Vec::new(),
            outputs: Vec::new(),
            axes,
            limits: Limits {
                file_bytes: bytes(largest).saturating_add(1 << 20),
                memory_bytes: bytes(elements).saturating_mul(12).saturating_add(OWN_MEMORY),
                cpu_seconds: (u64::from(self.timeout_seconds) + 1).saturating_mul(cores),
            },
        };
        for (number, input) in inputs.iter().enumerate() {
            let path = at(format!("input-{number}.npy"));
            let (dtype, code) = match input.dtype {
                Dtype::U64 => (Dtype::U64, "Q"),
                dtype if dtype.is_integer() => (Dtype::I64, "q"),
                _ => (Dtype::F64, "d"),
            };
            let dims = &input.tensor.dims;
            let tensor = FileTensor { dtype, dims: dims.clone(), bytes: dtype.bytes(&input.tensor.values) };
            fs::write(&path, npy::write(&tensor)).map_err(ours)?;
            let path = path.display().to_string();
            request.inputs.push(Given { name: &input.name, path, code, dims });
        }
        for (number, (name, _)) in outputs.iter().enumerate() {
            let path = at(format!("output-{number}.npy")).display().to_string();
            request.outputs.push(Wanted { name, path });
        }
        let (script, asked) = (at(SCRIPT.into()), at("request.json".into()));
        fs::write(&script, BOOTSTRAP).map_err(ours)?;
        fs::write(&asked, serde_json::to_string(&request).unwrap_or_default()).map_err(ours)?;

        // It may put anything in the place of the file, and is read from this one.
        let said = File::options().create_new(true).read(true).write(true).open(at("stderr".into()));
        let said = said.map_err(ours)?;
        let status = self.wait(self.start(&script, &asked, directory.path(), &said)?)?;
        if !status.success() {
            return Err(self.failed(status, &said));
        }
        let mut results = BTreeMap::new();
        for ((name, dims), wanted) in outputs.iter().zip(&request.outputs) {
            let tensor = self.result(name, dims, Path::new(&wanted.path))?;
            results.insert(name.clone(), tensor);
        }
        Ok(results)
    }

    fn start(&self, script: &Path, request: &Path, directory: &Path, said: &File) -> Result<Child, Unfit> {
        let shown = Path::new(&self.interpreter).display();
        let said =
            said.try_clone().map_err(|cause| Unfit(format!("cannot prepare the reference: {cause}")))?;
        let mut command = match self.confiner {
            Some(confiner) => confiner.command(&self.interpreter, &[self.directory], &[directory]),
            None => Command::new(&self.interpreter),
        };
        command.arg("-I").arg(script).arg(request).current_dir(directory);
        command.env_clear().env("HOME", directory).env("TMPDIR", directory).env("LC_ALL", "C.UTF-8");
        // Libraries of the interpreter may stand anywhere.
        for name in ["PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT"] {
            if let Some(value) = env::var_os(name) {
                command.env(name, value);
            }
        }
        // A file, not a pipe: nobody must read while it runs, and a process it leaves behind keeps nobody waiting.
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(said);
        command.spawn().map_err(|cause| {
            Unfit(format!("cannot run {shown}: {cause}; set WARPPROOF_PYTHON to a Python interpreter"))
        })
    }

    fn wait(&self, mut child: Child) -> Result<ExitStatus, Unfit> {
        let begun = Instant::now();
        let most = Duration::from_secs(u64::from(self.timeout_seconds));
        let mut pause = Duration::from_millis(1);
        loop {
            match child.try_wait() {
                Ok(Some(status)) => return Ok(status),
                Ok(None) if begun.elapsed() < most => thread::sleep(pause),
                Ok(None) => {
                    // It may have ended meanwhile, and then there is nothing to end.
                    let _ = child.kill();
                    let _ = child.wait();
                    return Err(Unfit(format!(
                        "{}: `{}` was not done after {} s, and was ended; timeout_seconds in [reference] gives it more",
                        self.file, self.function, self.timeout_seconds
                    )));
                }
                Err(cause) => {
                    let _ = child.kill();
                    let _ = child.wait();
                    return Err(Unfit(format!("cannot wait for {}: {cause}", self.file)));
                }
            }
            pause = (pause * 2).min(Duration::from_millis(50));
        }
    }

    /// Why there is no result: its last words, and what to do where that is known.
    fn failed(&self, status: ExitStatus, said: &File) -> Unfit {
        let text = tail(said);
        let lines: Vec<&str> =
            text.lines().map(str::trim_end).filter(|line| !line.trim().is_empty()).collect();
        let last = lines.last().copied().unwrap_or("it said nothing");
        let mut sentence = format!("{}: {last}", self.file);
        let missing = lines.iter().rev().find_map(|line| line.split_once("No module named '"));
        if let Some((_, name)) = missing {
            let name: String = name.chars().take_while(|c| *c != '\'').collect();
            let shown = Path::new(&self.interpreter).display();
            let _ = write!(
                sentence,
                "; `{shown} -m pip install {name}` installs it (packages of a user's own directory are not seen), or \
                 WARPPROOF_PYTHON names an interpreter that has it"
            );
        }
        // Status 3 is a sentence of our own; else where it happened is of use.
        if status.code() != Some(3) {
            let before = lines.get(..lines.len().saturating_sub(1)).unwrap_or_default();
            let own = self.own_frames(before);
            let _ = write!(sentence, " ({status})");
            for line in own.get(own.len().saturating_sub(TAIL_LINES)..).unwrap_or_default() {
                let _ = write!(sentence, "\n    {line}");
            }
        }
        Unfit(sentence)
    }

    /// The lines without the frames of what calls the file: they say nothing of its mistake. The file is shown by the name
    /// that the task gives it.
    fn own_frames(&self, lines: &[&str]) -> Vec<String> {
        let place = fs::canonicalize(self.directory.join(self.file)).map(|path| path.display().to_string());
        let mut foreign = false;
        let mut kept = Vec::new();
        for line in lines {
            if let Some(file) = line.strip_prefix("  File \"") {
                let file = file.split('"').next().unwrap_or(file);
                foreign = file.starts_with("<frozen importlib") || Path::new(file).ends_with(SCRIPT);
            } else if !line.starts_with("    ") {
                foreign = false;
            }
            if !foreign {
                kept.push(match &place {
                    Ok(place) => line.replace(place.as_str(), self.file),
                    Err(_) => (*line).to_owned(),
                });
            }
        }
        // A head without frames heads nothing.
        if let [head] = kept.as_slice()
            && head.starts_with("Traceback ")
        {
            kept.clear();
        }
        kept
    }

    fn result(&self, name: &str, dims: &[usize], path: &Path) -> Result<Tensor, Unfit> {
        let about =
            |cause: String| Unfit(format!("{}: `{}` for `{name}`: {cause}", self.file, self.function));
        // What was put there instead of a file might never end, or never begin.
        if !fs::symlink_metadata(path).is_ok_and(|found| found.is_file()) {
            return Err(about("the result is no file".into()));
        }
        let count: usize = dims.iter().product();
        let limit = u64::try_from(count).unwrap_or(0).saturating_mul(8).saturating_add(1 << 20);
        let found = tensor_file::read(path, None, Dtype::F64, limit).map_err(about)?;
        if found.dims != dims {
            return Err(about(format!("it should return {dims:?}, and returned {:?}", found.dims)));
        }
        Tensor::new(found.dims, Dtype::F64.values(&found.bytes))
    }
}

/// The end of a text, without what moves a terminal's cursor.
fn tail(mut file: &File) -> String {
    let mut bytes = Vec::new();
    let length = file.metadata().map_or(0, |found| found.len());
    let _ = file.seek(SeekFrom::Start(length.saturating_sub(TAIL)));
    let _ = file.take(TAIL).read_to_end(&mut bytes);
    let shown = |c: char| if c.is_control() && c != '\n' { ' ' } else { c };
    String::from_utf8_lossy(&bytes).chars().map(shown).collect()
}

#[cfg(test)]
mod tests;
