//! CUDA C++ to PTX through NVRTC.

use std::ffi::{CString, OsStr, OsString};
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
#[cfg(target_os = "linux")]
use std::time::Duration;

use crate::cache::{Key, KeyBuilder};
use crate::diagnostic::{self, Diagnostic, Severity};
#[cfg(target_os = "linux")]
use crate::fork::{self, Failure, Limits};
use crate::headers;
use crate::locate::{NotFound, Part, Toolchain};
use crate::nvrtc::{Answer, Nvrtc};

/// NVRTC recurses over templates; on the 2 MB of an ordinary thread a deep one would end the process.
const STACK: usize = 64 << 20;

/// Far beyond what a source of a person takes: templates can ask for any amount of both.
#[cfg(target_os = "linux")]
const LIMITS: Limits = Limits { time: Duration::from_mins(10), bytes: 16 << 30 };

/// A text to compile.
#[derive(Clone, Debug)]
pub struct Source {
    /// The name in messages and in the line table.
    pub name: String,
    /// The CUDA C++.
    pub text: String,
    /// Where `#include "…"` is looked for first. `None`: the working directory.
    pub directory: Option<PathBuf>,
}

impl Source {
    /// A text that stands in no file.
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Self {
        Self { name: name.into(), text: text.into(), directory: None }
    }

    /// Reads a file.
    pub fn read(path: &Path) -> io::Result<Self> {
        let text = String::from_utf8(fs::read(path)?).map_err(|error| {
            let at = error.utf8_error().valid_up_to();
            io::Error::new(io::ErrorKind::InvalidData, format!("not UTF-8 text, from byte {at} on"))
        })?;
        let directory = path.parent().map(|p| if p.as_os_str().is_empty() { Path::new(".") } else { p });
        Ok(Self { name: path.display().to_string(), text, directory: directory.map(Path::to_owned) })
    }
}

/// How to compile.
#[derive(Clone, Debug)]
pub struct CompileOptions {
    /// `sm_89`; `compute_89` and `89` mean the same.
    pub arch: String,
    /// `NAME` or `NAME=VALUE`.
    pub defines: Vec<String>,
    /// Directories to search for headers, before CUDA's own.
    pub include_dirs: Vec<PathBuf>,
    /// Write a line table.
    pub line_info: bool,
    /// Compile for the debugger (`-G`), without optimising.
    pub debug: bool,
    /// The C++ standard, such as `c++17`; NVRTC's own choice if `None`.
    pub std: Option<String>,
    /// Further options of NVRTC.
    pub extra: Vec<String>,
}

impl CompileOptions {
    /// For an architecture, with a line table.
    pub fn new(arch: impl Into<String>) -> Self {
        Self {
            arch: arch.into(),
            defines: Vec::new(),
            include_dirs: Vec::new(),
            line_info: true,
            debug: false,
            std: None,
            extra: Vec::new(),
        }
    }
}

/// PTX, and what NVRTC had to say.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// The PTX.
    pub ptx: String,
    /// NVRTC's log as it is: warnings.
    pub log: String,
    /// The warnings, read.
    pub diagnostics: Vec<Diagnostic>,
    /// Whether it came from the build cache.
    pub cached: bool,
}

/// Why there is no PTX.
#[derive(Debug)]
pub enum CompileError {
    /// NVRTC or its headers are missing.
    NotFound(NotFound),
    /// The source is wrong.
    Source {
        /// The messages, errors and warnings in the order of the log.
        diagnostics: Vec<Diagnostic>,
        /// The log as it is.
        log: String,
    },
    /// An option is wrong.
    Options(String),
    /// The source takes more time or memory than there is for it.
    Limit(String),
    /// NVRTC itself failed.
    Nvrtc(String),
}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound(error) => error.fmt(f),
            Self::Source { log, .. } => write!(f, "the source does not compile:\n{}", log.trim_end()),
            Self::Options(text) | Self::Limit(text) | Self::Nvrtc(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for CompileError {}

/// The number in `sm_90a`, `compute_90a` or `90a`.
pub(crate) fn arch_number(arch: &str) -> Option<&str> {
    let number = arch.strip_prefix("sm_").or_else(|| arch.strip_prefix("compute_")).unwrap_or(arch);
    let digits = number.trim_end_matches(['a', 'f']);
    let valid = number.len() <= digits.len() + 1 && (2..=3).contains(&digits.len());
    (valid && digits.bytes().all(|b| b.is_ascii_digit())).then_some(number)
}

impl Toolchain {
    /// Compiles to PTX. Needs no GPU.
    pub fn compile(&self, source: &Source, options: &CompileOptions) -> Result<Compiled, CompileError> {
        let Some(nvrtc) = &self.nvrtc else {
            return Err(CompileError::NotFound(self.not_found(vec![Part::Nvrtc])));
        };
        let toolkit_dirs = self.headers.as_ref().map(|h| h.include_dirs.as_slice()).unwrap_or_default();
        let arguments = arguments(source, options, toolkit_dirs)?;
        let key = self.cache.as_ref().and_then(|cache| {
            let mut key = KeyBuilder::new("nvrtc-2");
            key.add(nvrtc.version.to_string().as_bytes()).add_program(&nvrtc.path);
            Some((cache, key_of(key, source, options, &arguments, toolkit_dirs)?))
        });
        if let Some((cache, key)) = &key
            && let Some([ptx, log]) = cache.get(key).as_deref()
            && let (Ok(ptx), Ok(log)) = (String::from_utf8(ptx.clone()), String::from_utf8(log.clone()))
        {
            let diagnostics = diagnostic::from_nvrtc(&log);
            return Ok(Compiled { ptx, log, diagnostics, cached: true });
        }
        let opened = self.opened.get_or_init(|| Nvrtc::open(&nvrtc.path)).as_ref();
        let opened = opened
            .map_err(|cause| CompileError::Nvrtc(format!("cannot open {}: {cause}", nvrtc.path.display())))?;
        let Answer { ptx, log } = alone(|| opened.compile(&source.name, &source.text, &arguments))?;
        let diagnostics = diagnostic::from_nvrtc(&log);
        let Some(ptx) = ptx else {
            if diagnostics.iter().any(|d| d.severity == Severity::Error) {
                return Err(CompileError::Source { diagnostics, log });
            }
            return Err(CompileError::Nvrtc(format!("NVRTC refused without a reason: {}", log.trim())));
        };
        if let Some((cache, key)) = key {
            cache.put(&key, &[ptx.as_bytes(), log.as_bytes()]);
        }
        Ok(Compiled { ptx, log, diagnostics, cached: false })
    }
}

/// Everything the PTX depends on, or `None` if that cannot be told.
fn key_of(
    mut key: KeyBuilder,
    source: &Source,
    options: &CompileOptions,
    arguments: &[CString],
    toolkit_dirs: &[PathBuf],
) -> Option<Key> {
    // Options that read or write files we do not see.
    const OPAQUE: [&str; 6] =
        ["-I", "--include-path", "-include", "--pre-include", "--options-file", "-optf"];
    let opaque = |option: &String| OPAQUE.iter().any(|o| option.starts_with(o)) || option.contains("pch");
    if options.extra.iter().any(opaque) {
        return None;
    }
    let here = std::env::current_dir().ok()?;
    let absolute = |dir: &Path| here.join(dir);
    let directory = absolute(source.directory.as_deref().unwrap_or(Path::new("")));
    let user_dirs: Vec<PathBuf> = options.include_dirs.iter().map(|dir| absolute(dir)).collect();
    for argument in arguments {
        key.add(argument.as_bytes());
    }
    key.add(directory.as_os_str().as_encoded_bytes());
    // Relative names in the line table and in arguments mean something else in another working directory.
    key.add(here.as_os_str().as_encoded_bytes());
    key.add(source.name.as_bytes()).add(source.text.as_bytes());
    headers::add_to_key(&mut key, &source.text, &directory, &user_dirs, toolkit_dirs).then(|| key.finish())
}

fn arguments(
    source: &Source,
    options: &CompileOptions,
    toolkit_dirs: &[PathBuf],
) -> Result<Vec<CString>, CompileError> {
    let number = arch_number(&options.arch)
        .ok_or_else(|| CompileError::Options(format!("{} is no architecture; write sm_89", options.arch)))?;
    let mut arguments: Vec<OsString> = vec![format!("-arch=compute_{number}").into()];
    if options.debug {
        arguments.push("-G".into());
    }
    // -G writes the line table too, and NVRTC warns if it is told both.
    if options.line_info && !options.debug {
        arguments.push("-lineinfo".into());
    }
    if let Some(std) = &options.std {
        arguments.push(format!("-std={std}").into());
    }
    arguments.extend(options.defines.iter().map(|define| format!("-D{define}").into()));
    let source_dir = source.directory.iter();
    for dir in options.include_dirs.iter().chain(source_dir).chain(toolkit_dirs) {
        let mut argument = OsString::from("-I");
        argument.push(dir);
        arguments.push(argument);
    }
    arguments.extend(options.extra.iter().map(OsString::from));
    arguments.iter().map(|argument| c_string(argument)).collect()
}

fn c_string(argument: &OsStr) -> Result<CString, CompileError> {
    CString::new(argument.as_encoded_bytes())
        .map_err(|_| CompileError::Options(format!("a NUL byte in {}", argument.display())))
}

/// Compiles where no other compilation was before or is beside it.
#[cfg(target_os = "linux")]
fn alone(work: impl FnOnce() -> Result<Answer, String> + Send) -> Result<Answer, CompileError> {
    let child = || fork::in_child(LIMITS, || crate::nvrtc::to_bytes(&work()));
    match on_large_stack(child).map_err(CompileError::Nvrtc)? {
        Ok(bytes) => crate::nvrtc::from_bytes(&bytes).map_err(refusal),
        Err(Failure::Time) => Err(CompileError::Limit(format!(
            "NVRTC took more than {} minutes of a processor, or six times as long, for this source",
            LIMITS.time.as_secs() / 60
        ))),
        Err(Failure::Signal(signal)) => Err(CompileError::Nvrtc(format!(
            "signal {signal} ended it: a fault of NVRTC, or too little memory for this source"
        ))),
        Err(Failure::Other(text)) => Err(CompileError::Nvrtc(text)),
    }
}

/// Compiles while no other compilation runs. One with `-G` changes those after it here.
#[cfg(not(target_os = "linux"))]
fn alone(work: impl FnOnce() -> Result<Answer, String> + Send) -> Result<Answer, CompileError> {
    static ONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    on_large_stack(work).map_err(CompileError::Nvrtc)?.map_err(refusal)
}

/// What NVRTC says when it does not even look at the source.
fn refusal(text: String) -> CompileError {
    // It has one result for an option it does not take, and the log names the option.
    if text.contains("--") || text.contains("INVALID_OPTION") {
        CompileError::Options(text)
    } else if text.contains("OUT_OF_MEMORY") {
        CompileError::Limit(text)
    } else {
        CompileError::Nvrtc(text)
    }
}

fn on_large_stack<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T, String> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().stack_size(STACK).spawn_scoped(scope, work);
        let thread = thread.map_err(|cause| format!("cannot start a thread for NVRTC: {cause}"))?;
        thread.join().map_err(|_| "the thread of NVRTC panicked".to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_architectures() {
        for (text, number) in [("sm_89", "89"), ("compute_90a", "90a"), ("120f", "120f"), ("sm_100", "100")] {
            assert_eq!(arch_number(text), Some(number));
        }
        for text in ["", "sm_", "sm_8", "89x", "sm_90aa", "sm_1000", "ada", "sm_8 9", "-arch=89"] {
            assert_eq!(arch_number(text), None, "{text}");
        }
    }

    #[test]
    fn user_directories_come_before_cudas() {
        let source = Source { directory: Some("src".into()), ..Source::new("a.cu", "") };
        let options = CompileOptions {
            include_dirs: vec!["mine".into()],
            defines: vec!["A=1".into()],
            std: Some("c++20".into()),
            ..CompileOptions::new("sm_90a")
        };
        let arguments = arguments(&source, &options, &[PathBuf::from("cuda")]).unwrap();
        let text: Vec<_> = arguments.iter().map(|a| a.to_str().unwrap()).collect();
        assert_eq!(
            text,
            ["-arch=compute_90a", "-lineinfo", "-std=c++20", "-DA=1", "-Imine", "-Isrc", "-Icuda"]
        );
    }
}
