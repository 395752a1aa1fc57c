//! References in Python: one function of one file, called in a separate process.
//!
//! The file is not trusted. Its process runs with `-I` in a temporary directory, without the environment of this
//! process. If the operating system supports it, the process is confined: it reads its task, Python and the system's
//! libraries, writes only its temporary directory, and has no network. Memory, files and time are limited.
//!
//! One process serves many calls, because starting an interpreter and importing numpy takes longer than most calls. A
//! file can therefore keep state between calls. The stage `correct` repeats the first case after the last one and
//! refuses a reference whose second result differs.

mod worker;

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::fmt::{self, Write};
use std::path::{Path, PathBuf};

pub use worker::Workers;
use worker::{Answer, Broken, Request, Settings};

use super::{MAX_ELEMENTS, Tensor};
use crate::inputs::Input;
use warpproof_task::dtype::Dtype;
use warpproof_task::{Axes, Reference};

/// Lines of an error that are shown.
const TAIL_LINES: usize = 8;
/// Memory of the interpreter and of libraries such as numpy: threads and tables that they may never touch.
const INTERPRETER: u64 = 512 << 20;
/// Copies of all tensors that a reference may make.
const COPIES: u64 = 12;

/// A function of a Python file.
#[derive(Clone, Debug)]
pub struct Python<'a> {
    /// The interpreter.
    pub interpreter: OsString,
    /// The task's directory.
    pub directory: &'a Path,
    /// Directories that it may read in addition to its task.
    pub allowed: &'a [PathBuf],
    /// The file, relative to the task's directory.
    pub file: &'a str,
    /// The function.
    pub function: &'a str,
    /// Timeout of a call in seconds.
    pub timeout_seconds: u32,
    /// Megabytes of memory, in addition to what its tensors need.
    pub memory_mb: u32,
    /// The processes that call it.
    pub workers: &'a Workers,
}

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PythonError {
    /// The error.
    pub sentence: String,
    /// Whether a limit ended the call; the sentence names the key that raises the limit.
    pub limit: bool,
}

impl fmt::Display for PythonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)
    }
}

impl std::error::Error for PythonError {}

impl PythonError {
    fn new(sentence: impl Into<String>) -> Self {
        Self { sentence: sentence.into(), limit: false }
    }
}

/// The configured interpreter: `WARPPROOF_PYTHON`, else `python3`.
pub fn interpreter() -> OsString {
    env::var_os("WARPPROOF_PYTHON").filter(|path| !path.is_empty()).unwrap_or_else(|| "python3".into())
}

impl<'a> Python<'a> {
    /// The reference of a task in this directory, if it is in Python.
    pub fn of(
        reference: &'a Reference,
        directory: &'a Path,
        allowed: &'a [PathBuf],
        workers: &'a Workers,
    ) -> Option<Python<'a>> {
        let Reference::Python { file, function, timeout_seconds, memory_mb } = reference else { return None };
        Some(Python {
            interpreter: interpreter(),
            directory,
            allowed,
            file,
            function,
            timeout_seconds: *timeout_seconds,
            memory_mb: *memory_mb,
            workers,
        })
    }

    /// The function's outputs for these inputs and extents; each output is given with its expected extents.
    pub fn run(
        &self,
        inputs: &[Input],
        outputs: &[(String, Vec<usize>)],
        axes: &Axes,
    ) -> Result<BTreeMap<String, Tensor>, PythonError> {
        let mut elements = 0u64;
        let mut wanted = 0u64;
        let all = inputs.iter().map(|input| (&input.tensor.dims, false));
        for (dims, is_output) in all.chain(outputs.iter().map(|output| (&output.1, true))) {
            let count = dims.iter().try_fold(1usize, |all, extent| all.checked_mul(*extent));
            let count = count
                .filter(|count| *count <= MAX_ELEMENTS)
                .and_then(|count| u64::try_from(count).ok())
                .ok_or_else(|| {
                    PythonError::new(format!(
                        "extents {dims:?} exceed the maximum of {MAX_ELEMENTS} elements"
                    ))
                })?;
            elements = elements.saturating_add(count);
            wanted = wanted.saturating_add(if is_output { count } else { 0 });
        }
        let source = self.directory.join(self.file);
        let settings = Settings {
            interpreter: &self.interpreter,
            directory: self.directory,
            allowed: self.allowed,
            file: &source,
            function: self.function,
            timeout_seconds: u64::from(self.timeout_seconds),
            memory_bytes: elements
                .saturating_mul(8 * COPIES)
                .saturating_add(INTERPRETER)
                .saturating_add(u64::from(self.memory_mb) << 20),
        };
        let request = Request {
            inputs,
            outputs: outputs.iter().map(|(name, _)| name.as_str()).collect(),
            axes,
            // A reply with wrong extents is reported as such; the process does not send a much larger one.
            most_bytes: wanted.saturating_mul(16).saturating_add(1 << 16),
        };
        match self.workers.call(&settings, &request).map_err(|broken| self.broken(broken))? {
            Answer::Outputs(given) => self.results(outputs, given),
            Answer::Sentence(sentence) => Err(PythonError::new(format!("{}: {sentence}", self.file))),
            Answer::Raised { memory: true, .. } => Err(self.too_much()),
            Answer::Raised { text, .. } => Err(PythonError::new(self.told(&text, None))),
        }
    }

    fn results(
        &self,
        outputs: &[(String, Vec<usize>)],
        given: Vec<(Vec<usize>, Vec<u8>)>,
    ) -> Result<BTreeMap<String, Tensor>, PythonError> {
        let mut results = BTreeMap::new();
        for ((name, dims), (found, bytes)) in outputs.iter().zip(given) {
            let about = |cause: String| {
                PythonError::new(format!("{}: `{}` for `{name}`: {cause}", self.file, self.function))
            };
            if found != *dims {
                return Err(about(format!("expected extents {dims:?}, found {found:?}")));
            }
            let tensor = Tensor::new(found, Dtype::F64.values(&bytes)).map_err(|unfit| about(unfit.0))?;
            results.insert(name.clone(), tensor);
        }
        Ok(results)
    }

    fn too_much(&self) -> PythonError {
        let sentence = format!(
            "{}: `{}` used more than {} MB of memory in addition to its tensors; raise `memory_mb` in [reference]",
            self.file, self.function, self.memory_mb
        );
        PythonError { sentence, limit: true }
    }

    /// The error for a process that did not answer.
    fn broken(&self, broken: Broken) -> PythonError {
        let shown = Path::new(&self.interpreter).display();
        match broken {
            Broken::Start(cause) => PythonError::new(format!(
                "cannot run {shown}: {cause}; set WARPPROOF_PYTHON to a Python interpreter"
            )),
            Broken::Unconfined => PythonError::new(
                "this system cannot sandbox a Python reference: Linux with Landlock and seccomp is required",
            ),
            Broken::Time => PythonError {
                sentence: format!(
                    "{}: `{}` did not finish within {} s and was killed; raise `timeout_seconds` in [reference]",
                    self.file, self.function, self.timeout_seconds
                ),
                limit: true,
            },
            Broken::Ended { said, .. } if said.contains("MemoryError") || said.contains("bad_alloc") => {
                self.too_much()
            }
            Broken::Ended { status, said } => PythonError::new(self.told(&said, Some(&status))),
            Broken::Other(cause) => PythonError::new(format!("{}: {cause}", self.file)),
        }
    }

    /// The error from the text of a traceback, with a fix where one is known.
    fn told(&self, text: &str, status: Option<&str>) -> String {
        let shown = |c: char| if c.is_control() && c != '\n' { ' ' } else { c };
        let text: String = text.chars().map(shown).collect();
        let lines: Vec<&str> =
            text.lines().map(str::trim_end).filter(|line| !line.trim().is_empty()).collect();
        let last = lines.last().copied().unwrap_or("it printed nothing");
        let mut sentence = format!("{}: {last}", self.file);
        let missing = lines.iter().rev().find_map(|line| line.split_once("No module named '"));
        if let Some((_, name)) = missing {
            let name: String = name.chars().take_while(|c| *c != '\'').collect();
            let shown = Path::new(&self.interpreter).display();
            let _ = write!(
                sentence,
                "; `{shown} -m pip install {name}` installs it (packages in the user site directory are ignored); or set \
                 WARPPROOF_PYTHON to an interpreter that has it"
            );
        }
        if let Some(status) = status {
            let _ = write!(sentence, " ({status})");
        }
        let before = lines.get(..lines.len().saturating_sub(1)).unwrap_or_default();
        let own = self.own_frames(before);
        for line in own.get(own.len().saturating_sub(TAIL_LINES)..).unwrap_or_default() {
            let _ = write!(sentence, "\n    {line}");
        }
        sentence
    }

    /// The lines without the frames of our own caller, which do not help the user to find the bug. The file
    /// is shown under the name that the task gives it.
    fn own_frames(&self, lines: &[&str]) -> Vec<String> {
        let place = std::fs::canonicalize(self.directory.join(self.file));
        let place = place.map(|path| path.display().to_string());
        let mut foreign = false;
        let mut kept = Vec::new();
        for line in lines {
            if let Some(file) = line.strip_prefix("  File \"") {
                let file = file.split('"').next().unwrap_or(file);
                foreign = file.starts_with("<frozen importlib") || file == "<string>";
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
        // Drop a heading without frames.
        if let [head] = kept.as_slice()
            && head.starts_with("Traceback ")
        {
            kept.clear();
        }
        kept
    }
}

#[cfg(test)]
mod tests;
