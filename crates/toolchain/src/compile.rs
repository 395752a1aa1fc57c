//! Compiles CUDA C++ to PTX with NVRTC.

use std::ffi::{CString, OsStr, OsString};
use std::fmt;
use std::fs;
use std::io;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::thread;

use warpproof_sandbox::{Held, Outside, Reach, Roots};

use crate::allowed;
use crate::cache::{Key, KeyBuilder};
use crate::diagnostic::{self, Diagnostic, Severity};
#[cfg(target_os = "linux")]
use crate::fork::{self, Failure};
use crate::headers::{self, Scan};
use crate::limits::CompileLimits;
use crate::locate::{NotFound, Part, Toolchain};
use crate::nvrtc::{Answer, Nvrtc};
use crate::rounds;
use crate::shims;
use crate::symbol::{self, Instances};

/// NVRTC recurses over templates; with the 2 MB stack of an ordinary thread, deep recursion would crash the process.
const STACK: usize = 64 << 20;

/// A source to compile.
#[derive(Clone, Debug)]
pub struct Source {
    /// The name used in messages and in the line table.
    pub name: String,
    /// The CUDA C++.
    pub text: String,
    /// First search directory of `#include "…"`. `None`: the working directory.
    pub directory: Option<PathBuf>,
}

impl Source {
    /// A source that is not a file.
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

/// Compiler settings.
#[derive(Clone, Debug)]
pub struct CompileOptions {
    /// Architecture such as `sm_89`; `compute_89` and `89` are equivalent.
    pub arch: String,
    /// `NAME` or `NAME=VALUE`.
    pub defines: Vec<String>,
    /// Directories to search for headers, before CUDA's own.
    pub include_dirs: Vec<PathBuf>,
    /// Whether to write a line table.
    pub line_info: bool,
    /// Whether to compile for the debugger (`-G`), without optimization.
    pub debug: bool,
    /// The C++ standard, such as `c++17`; NVRTC's default if `None`.
    pub std: Option<String>,
    /// Further NVRTC options from a source or a task; they must be allowed options of [`NVRTC_OPTIONS`](crate::NVRTC_OPTIONS).
    pub extra: Vec<String>,
    /// Directories that headers may come from, in addition to the source's own, `include_dirs` and CUDA's.
    pub roots: Vec<PathBuf>,
    /// Kernels as spelled in the source. Template instances such as `softmax<float, 256>` are instantiated for these.
    pub kernels: Vec<String>,
}

impl CompileOptions {
    /// Options for an architecture, with a line table.
    pub fn new(arch: impl Into<String>) -> Self {
        Self {
            arch: arch.into(),
            defines: Vec::new(),
            include_dirs: Vec::new(),
            line_info: true,
            debug: false,
            std: None,
            extra: Vec::new(),
            roots: Vec::new(),
            kernels: Vec::new(),
        }
    }

    /// The requested template instances, without duplicates.
    fn instances(&self) -> Vec<String> {
        let mut instances: Vec<String> = Vec::new();
        for kernel in self.kernels.iter().filter(|kernel| symbol::is_instance(kernel)) {
            if !instances.contains(kernel) {
                instances.push(kernel.clone());
            }
        }
        instances
    }
}

/// The result of a compilation.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// The PTX.
    pub ptx: String,
    /// The unmodified log of NVRTC: warnings.
    pub log: String,
    /// The parsed warnings.
    pub diagnostics: Vec<Diagnostic>,
    /// Whether it came from the build cache.
    pub cached: bool,
    /// The requested instances of kernel templates.
    pub instances: Instances,
}

impl Compiled {
    /// The host code that was removed: files and lines, counted from 1.
    pub fn skipped_host_code(&self) -> Vec<(String, RangeInclusive<usize>)> {
        rounds::skipped(&self.diagnostics)
    }
}

/// Why compilation failed.
#[derive(Debug)]
pub enum CompileError {
    /// NVRTC or its headers are missing.
    NotFound(NotFound),
    /// The source has errors.
    Source {
        /// Errors and warnings in the order of the log.
        diagnostics: Vec<Diagnostic>,
        /// The unmodified log.
        log: String,
    },
    /// An invalid or refused option.
    Options(String),
    /// The source includes a file outside of the allowed directories.
    Outside(Outside),
    /// The compilation exceeds its limit of time or memory.
    Limit(String),
    /// NVRTC itself failed.
    Nvrtc(String),
}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound(error) => error.fmt(f),
            Self::Source { log, .. } => write!(f, "cannot compile the source:\n{}", log.trim_end()),
            Self::Outside(outside) => {
                write!(f, "the source includes a file outside of the allowed directories: {outside}")
            }
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
    /// Compiles to PTX, without a GPU. If a template instance is invalid, the rest is still compiled.
    pub fn compile(&self, source: &Source, options: &CompileOptions) -> Result<Compiled, CompileError> {
        let mut instances = options.instances();
        let first = self.compile_with(source, options, &instances);
        if first.as_ref().err().and_then(wrong_name).is_none() {
            return first;
        }
        let mut refused = Vec::new();
        instances.retain(|instance| {
            let alone = self.compile_with(source, options, std::slice::from_ref(instance));
            let wrong = alone.as_ref().err().and_then(wrong_name).map(str::to_owned);
            let known = wrong.is_none();
            refused.extend(wrong.map(|message| (instance.clone(), message)));
            known
        });
        let mut compiled = self.compile_with(source, options, &instances)?;
        compiled.instances.refused = refused;
        Ok(compiled)
    }

    /// Compiles with template instances.
    fn compile_with(
        &self,
        source: &Source,
        options: &CompileOptions,
        instances: &[String],
    ) -> Result<Compiled, CompileError> {
        let Some(nvrtc) = &self.nvrtc else {
            return Err(CompileError::NotFound(self.not_found(vec![Part::Nvrtc])));
        };
        let toolkit_dirs = self.headers.as_ref().map(|h| h.include_dirs.as_slice()).unwrap_or_default();
        let extra = allowed::nvrtc_options(&options.extra)
            .map_err(|refused| CompileError::Options(refused.to_string()))?;
        let arguments = arguments(source, options, &extra, toolkit_dirs)?;
        let own = source.directory.iter().chain(&options.include_dirs).chain(&options.roots);
        let roots = Roots::new(own.chain(&self.allowed));
        let mut key = KeyBuilder::new("nvrtc-3");
        shims::add_to_key(&mut key);
        key.add(nvrtc.version.to_string().as_bytes()).add_program(&nvrtc.path);
        for instance in instances {
            key.add(b"instance").add(instance.as_bytes());
        }
        let key = key_of(key, source, options, &arguments, toolkit_dirs, &roots)?;
        let key = self.cache.as_ref().zip(key);
        let named = |symbols: Vec<String>| Instances {
            symbols: instances.iter().cloned().zip(symbols).collect(),
            refused: Vec::new(),
        };
        if let Some((cache, key)) = &key
            && let Some(pieces) = cache.get(key)
            && let Ok(mut texts) = pieces.into_iter().map(String::from_utf8).collect::<Result<Vec<_>, _>>()
            && texts.len() == 2 + instances.len()
        {
            let instances = named(texts.split_off(2));
            let log = texts.pop().unwrap_or_default();
            let ptx = texts.pop().unwrap_or_default();
            let diagnostics = diagnostic::from_nvrtc(&log);
            return Ok(Compiled { ptx, log, diagnostics, cached: true, instances });
        }
        let opened = self.opened.get_or_init(|| Nvrtc::open(&nvrtc.path)).as_ref();
        let opened = opened
            .map_err(|cause| CompileError::Nvrtc(format!("cannot open {}: {cause}", nvrtc.path.display())))?;
        // From the toolkit, the compiler reads only its headers and the library that NVRTC loads when it compiles.
        let toolkit = toolkit_dirs.iter().cloned().chain(nvrtc.path.parent().map(Path::to_owned));
        let resolved = fs::canonicalize(&nvrtc.path).ok();
        let toolkit = toolkit.chain(resolved.as_deref().and_then(Path::parent).map(Path::to_owned));
        let read = roots.directories().iter().cloned().chain(toolkit).collect();
        let reach = Reach { read, files_of_others: true, ..Reach::default() };
        let expressions: Vec<CString> =
            instances.iter().map(|instance| c_string(OsStr::new(instance))).collect::<Result<_, _>>()?;
        let Answer { ptx, log, symbols } =
            rounds::compile(source, options, toolkit_dirs, &roots, |attempt| {
                let arguments = [&arguments, attempt.options.as_slice()].concat();
                let work = || {
                    opened.compile(&source.name, &attempt.text, &attempt.headers, &arguments, &expressions)
                };
                alone(self.limits, &reach, work)
            })?;
        let diagnostics = diagnostic::from_nvrtc(&log);
        let Some(ptx) = ptx else {
            if log.contains("out of memory") {
                return Err(CompileError::Limit(self.limits.memory_sentence("NVRTC")));
            }
            if diagnostics.iter().any(|d| d.severity == Severity::Error) {
                return Err(CompileError::Source { diagnostics, log });
            }
            return Err(CompileError::Nvrtc(format!(
                "NVRTC failed without an error message: {}",
                log.trim()
            )));
        };
        if let Some((cache, key)) = key {
            let pieces: Vec<&[u8]> = [&ptx, &log].into_iter().chain(&symbols).map(String::as_bytes).collect();
            cache.put(&key, &pieces);
        }
        Ok(Compiled { ptx, log, diagnostics, cached: false, instances: named(symbols) })
    }
}

/// NVRTC's message about an invalid name expression. All other errors, including those in the body of a template, belong to the
/// source; NVRTC prints those first.
fn wrong_name(error: &CompileError) -> Option<&str> {
    let CompileError::Source { diagnostics, .. } = error else { return None };
    let first = diagnostics.iter().find(|one| one.severity == Severity::Error)?;
    // NVRTC's internal file for name expressions.
    let place = first.place.as_ref().filter(|place| place.file == "__nv_name_map");
    place.map(|_| first.message.as_str())
}

/// The key of everything the PTX depends on, or `None` if that is unknown or changes with time.
fn key_of(
    mut key: KeyBuilder,
    source: &Source,
    options: &CompileOptions,
    arguments: &[CString],
    toolkit_dirs: &[PathBuf],
    roots: &Roots,
) -> Result<Option<Key>, CompileError> {
    let Ok(here) = std::env::current_dir() else { return Ok(None) };
    let absolute = |dir: &Path| here.join(dir);
    let directory = absolute(source.directory.as_deref().unwrap_or(Path::new("")));
    let user_dirs: Vec<PathBuf> = options.include_dirs.iter().map(|dir| absolute(dir)).collect();
    for argument in arguments {
        key.add(argument.as_bytes());
    }
    key.add(directory.as_os_str().as_encoded_bytes());
    // Relative paths in the line table and in arguments depend on the working directory.
    key.add(here.as_os_str().as_encoded_bytes());
    key.add(source.name.as_bytes()).add(source.text.as_bytes());
    let scan = headers::add_to_key(&mut key, &source.text, &directory, &user_dirs, toolkit_dirs, roots)
        .map_err(CompileError::Outside)?;
    // If the kernel cannot restrict file access of the compiler, an unknown header name could refer to any file.
    if scan == Scan::Unknown && warpproof_sandbox::available().files == Held::No {
        return Err(CompileError::Options(
            "the source names a header by a macro, or has too many headers, and this system cannot restrict the compiler \
             to the source's directory; name the header directly"
                .to_owned(),
        ));
    }
    Ok((scan == Scan::Whole).then(|| key.finish()))
}

fn arguments(
    source: &Source,
    options: &CompileOptions,
    extra: &[String],
    toolkit_dirs: &[PathBuf],
) -> Result<Vec<CString>, CompileError> {
    let number = arch_number(&options.arch).ok_or_else(|| {
        CompileError::Options(format!("expected an architecture such as sm_89, found `{}`", options.arch))
    })?;
    let mut arguments: Vec<OsString> = vec![format!("-arch=compute_{number}").into()];
    if options.debug {
        arguments.push("-G".into());
    }
    // -G also writes the line table, and NVRTC warns if both options are given.
    if options.line_info && !options.debug {
        arguments.push("-lineinfo".into());
    }
    if let Some(std) = &options.std {
        let std = allowed::nvrtc_options(&[format!("--std={std}")]);
        arguments.extend(
            std.map_err(|refused| CompileError::Options(refused.to_string()))?.iter().map(Into::into),
        );
    }
    arguments.extend(options.defines.iter().map(|define| format!("-D{define}").into()));
    let source_dir = source.directory.iter();
    for dir in options.include_dirs.iter().chain(source_dir).chain(toolkit_dirs) {
        let mut argument = OsString::from("-I");
        argument.push(dir);
        arguments.push(argument);
    }
    arguments.extend(extra.iter().map(OsString::from));
    arguments.iter().map(|argument| c_string(argument)).collect()
}

fn c_string(argument: &OsStr) -> Result<CString, CompileError> {
    CString::new(argument.as_encoded_bytes())
        .map_err(|_| CompileError::Options(format!("a NUL byte in {}", argument.display())))
}

/// Compiles in a separate process without earlier compilations, which can read only the given paths.
#[cfg(target_os = "linux")]
fn alone(
    limits: CompileLimits,
    reach: &Reach,
    work: impl FnOnce() -> Result<Answer, String> + Send,
) -> Result<Answer, CompileError> {
    let child = || fork::in_child(limits, reach, || crate::nvrtc::to_bytes(&work()));
    match on_large_stack(child).map_err(CompileError::Nvrtc)? {
        Ok(bytes) => crate::nvrtc::from_bytes(&bytes).map_err(refusal),
        Err(Failure::Time) => Err(CompileError::Limit(limits.time_sentence("NVRTC"))),
        Err(Failure::Memory) => Err(CompileError::Limit(limits.memory_sentence("NVRTC"))),
        Err(Failure::Signal(signal)) => {
            Err(CompileError::Nvrtc(format!("NVRTC was terminated by signal {signal}: a bug in NVRTC")))
        }
        Err(Failure::Other(text)) => Err(CompileError::Nvrtc(text)),
    }
}

/// Compiles while no other compilation runs. On this system, a compilation with `-G` affects later ones.
#[cfg(not(target_os = "linux"))]
fn alone(
    _: CompileLimits,
    _: &Reach,
    work: impl FnOnce() -> Result<Answer, String> + Send,
) -> Result<Answer, CompileError> {
    static ONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    if warpproof_sandbox::is_required() {
        return Err(CompileError::Nvrtc(crate::program::UNCONFINED.to_owned()));
    }
    let _one = ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    on_large_stack(work).map_err(CompileError::Nvrtc)?.map_err(refusal)
}

/// Classifies an error of NVRTC that occurred before it read the source.
fn refusal(text: String) -> CompileError {
    // NVRTC has one result code for an invalid option, and the log names the option.
    if text.contains("--") || text.contains("INVALID_OPTION") {
        CompileError::Options(text)
    } else if text.contains("OUT_OF_MEMORY") {
        CompileError::Limit(format!("{text}; raise the limit with --compile-memory"))
    } else {
        CompileError::Nvrtc(text)
    }
}

fn on_large_stack<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T, String> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().stack_size(STACK).spawn_scoped(scope, work);
        let thread = thread.map_err(|cause| format!("cannot start a thread for NVRTC: {cause}"))?;
        thread.join().map_err(|_| "the NVRTC thread panicked".to_owned())
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
        let arguments = arguments(&source, &options, &[], &[PathBuf::from("cuda")]).unwrap();
        let text: Vec<_> = arguments.iter().map(|a| a.to_str().unwrap()).collect();
        assert_eq!(
            text,
            ["-arch=compute_90a", "-lineinfo", "--std=c++20", "-DA=1", "-Imine", "-Isrc", "-Icuda"]
        );
    }
}
