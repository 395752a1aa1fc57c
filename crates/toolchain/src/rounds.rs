//! Compiles complete CUDA files, including host headers and host code.
//!
//! The first attempt uses the unmodified file; if it compiles, nothing is changed. Otherwise NVRTC's errors determine the next
//! step: replacements for host headers are provided (`shims`), missing headers are replaced with empty ones, and host code is
//! removed (`host`). Attempts end when no step applies to the remaining errors, which are then reported to the user.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CString;
use std::fmt::Write as _;
use std::fs;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use warpproof_sandbox::Roots;

use crate::compile::{CompileError, CompileOptions, Source};
use crate::diagnostic::{self, Diagnostic, Severity};
use crate::headers;
use crate::host::{self, Files};
use crate::nvrtc::Answer;
use crate::shims::{self, Extent};

/// Maximum number of attempts; a failed attempt takes a fraction of a second.
const MAX_ROUNDS: usize = 40;
/// No new attempt starts after this time.
const MAX_TIME: Duration = Duration::from_mins(3);
/// Limit of user files that are read to find host code.
const MAX_FILES: usize = 256;
const MAX_BYTES: usize = 16 << 20;

/// Input of NVRTC for one attempt, in addition to the options.
#[derive(Debug)]
pub(crate) struct Attempt {
    /// The source.
    pub(crate) text: String,
    /// In-memory headers: name and text.
    pub(crate) headers: Vec<(String, String)>,
    /// Further options.
    pub(crate) options: Vec<CString>,
}

/// Repeats attempts until there is PTX, or until no step applies to an error. `compile` calls NVRTC.
pub(crate) fn compile(
    source: &Source,
    options: &CompileOptions,
    toolkit_dirs: &[PathBuf],
    roots: &Roots,
    mut compile: impl FnMut(&Attempt) -> Result<Answer, CompileError>,
) -> Result<Answer, CompileError> {
    let mut rounds = Rounds {
        source,
        options,
        toolkit_dirs,
        roots,
        extent: None,
        provided: BTreeSet::new(),
        missing: BTreeMap::new(),
        opened: None,
    };
    // With this option, code without annotation is device code.
    let all_device = ["-default-device", "--default-device", "-device-as-default-execution-space"];
    let all_device = options.extra.iter().any(|option| all_device.iter().any(|all| option.contains(all)));
    let start = Instant::now();
    let mut attempts = 0;
    while attempts < MAX_ROUNDS && start.elapsed() < MAX_TIME {
        attempts += 1;
        let mut answer = compile(&rounds.attempt())?;
        let errors: Vec<Diagnostic> = diagnostic::from_nvrtc(&answer.log)
            .into_iter()
            .filter(|diagnostic| diagnostic.severity == Severity::Error)
            .collect();
        let no_kernel = |ptx: &str| !ptx.contains(".entry") && !source.text.contains("__global__");
        let missed = |ptx: &str| !rounds.missing.is_empty() && no_kernel(ptx);
        match &answer.ptx {
            // A missing header may have contained the kernel.
            Some(ptx) if missed(ptx) => {
                answer.ptx = None;
                answer.log = rounds.missing_log(|_| true);
                return Ok(answer);
            }
            Some(_) => return Ok(Answer { log: rounds.accepted_log(&answer.log), ..answer }),
            None if rounds.provide(&errors) => {}
            None if !all_device && rounds.leave_out(&errors) => {}
            None if rounds.extend(&errors) => {}
            None => return Ok(Answer { log: rounds.refused_log(&answer.log), ..answer }),
        }
    }
    Err(CompileError::Limit(format!(
        "{} still does not compile after {attempts} attempts to remove its host code; put host code between `#ifndef \
         __CUDACC_RTC__` and `#endif`",
        source.name
    )))
}

/// Whether a header that cannot be opened may simply not be installed. A header with an absolute path or `..` may be a file hidden
/// by the sandbox, and a source that includes it must not compile.
fn may_be_missing(name: &str) -> bool {
    let plain = |part: std::path::Component<'_>| matches!(part, std::path::Component::Normal(_));
    !name.is_empty() && Path::new(name).components().all(plain)
}

struct Rounds<'a> {
    source: &'a Source,
    options: &'a CompileOptions,
    toolkit_dirs: &'a [PathBuf],
    /// Directories from which user files are read.
    roots: &'a Roots,
    /// Which host headers are provided.
    extent: Option<Extent>,
    /// Headers that are included before the source.
    provided: BTreeSet<&'static str>,
    /// Headers replaced with empty ones; with NVRTC's message about them, unless they are CUDA's own.
    missing: BTreeMap<String, Option<Diagnostic>>,
    opened: Option<Opened>,
}

/// The user's files; the source comes first.
struct Opened {
    files: Files,
    headers: Vec<Header>,
    /// Every name in an include directive.
    includes: BTreeSet<String>,
}

/// A header of the user.
struct Header {
    path: PathBuf,
    /// Its spellings in include directives. A spelling that refers to several files is not replaced.
    names: BTreeSet<String>,
}

impl Rounds<'_> {
    /// Search directories for headers: the source's directory, then the user's.
    fn user_dirs(&self) -> impl Iterator<Item = &Path> {
        let own = self.source.directory.as_deref();
        own.into_iter().chain(self.options.include_dirs.iter().map(PathBuf::as_path))
    }

    fn attempt(&self) -> Attempt {
        let mut headers: Vec<(String, String)> = Vec::new();
        if let Some(extent) = self.extent {
            let on_disk = |name: &str| {
                let toolkit = self.toolkit_dirs.iter().filter(|_| !shims::replaces_cudas(name));
                self.user_dirs().chain(toolkit.map(PathBuf::as_path)).any(|dir| dir.join(name).is_file())
            };
            let all = shims::all(extent).into_iter().filter(|(name, _)| !on_disk(name));
            headers.extend(all.map(|(name, text)| (name.to_owned(), text)));
        }
        headers.extend(
            self.missing.keys().map(|name| (name.clone(), "#pragma once\nnamespace std {}\n".to_owned())),
        );
        let mut text = self.source.text.clone();
        if let Some(opened) = &self.opened {
            text = opened.files.text(0).into_owned();
            for (number, header) in opened.headers.iter().enumerate() {
                let path = header.path.display().to_string();
                if opened.files.is_changed(number + 1) && !path.contains(['"', '\\', '\n']) {
                    let text = format!("#line 1 \"{path}\"\n{}", opened.files.text(number + 1));
                    headers.extend(header.names.iter().map(|name| (name.clone(), text.clone())));
                }
            }
        }
        let before = self.provided.iter().map(|name| format!("--pre-include={name}"));
        let marked = format!("-D{}=__host__ __device__ constexpr", host::CONSTEXPR);
        let marked = (text.contains(host::CONSTEXPR)
            || headers.iter().any(|(_, text)| text.contains(host::CONSTEXPR)))
        .then_some(marked);
        let options = before.chain(marked).filter_map(|option| CString::new(option).ok()).collect();
        Attempt { text, headers, options }
    }

    /// Provides missing headers, and headers of names that nvcc declares in every file.
    fn provide(&mut self, errors: &[Diagnostic]) -> bool {
        let mut more = false;
        for error in errors {
            if let Some(name) = quoted(&error.message, "cannot open source file ") {
                if shims::has(name) && self.extent.is_none() {
                    self.extent = Some(Extent::Small);
                    more = true;
                } else if !self.missing.contains_key(name) && may_be_missing(name) {
                    self.missing.insert(name.to_owned(), Some(error.clone()));
                    more = true;
                }
            } else if let Some(header) = undefined(&error.message).and_then(|name| {
                let library = || shims::declares_with_library(name).filter(|_| !self.missing.is_empty());
                shims::declares(name).or_else(library)
            }) {
                more |= self.provided.insert(header);
                self.extent.get_or_insert(Extent::Small);
            }
        }
        more
    }

    /// Removes host code, and CUDA headers that contain only host code.
    fn leave_out(&mut self, errors: &[Diagnostic]) -> bool {
        let mut more = false;
        let mut of_host = BTreeSet::new();
        for error in errors {
            let Some(place) = &error.place else { continue };
            if self.opened.is_none() {
                self.opened = Some(self.open());
            }
            let path = Path::new(&place.file);
            let of_toolkit = self.toolkit_dirs.iter().find_map(|dir| path.strip_prefix(dir).ok()?.to_str());
            if let Some(name) = of_toolkit {
                more |= self.leave_out_header(name, host::is_host_message(&error.message));
                continue;
            }
            let Some(opened) = &mut self.opened else { continue };
            let Some(file) = opened.position(&place.file, &self.source.name) else { continue };
            if opened.files.blame(file, error) {
                more = true;
                of_host.insert(file);
            }
        }
        if let Some(opened) = &mut self.opened {
            for file in of_host {
                opened.files.cut_functions(file);
            }
        }
        more
    }

    /// Replaces a CUDA header that does not compile for the device with an empty one. For a library such as Thrust, this applies to
    /// all of its headers that the user's files include.
    fn leave_out_header(&mut self, name: &str, said_host: bool) -> bool {
        if shims::replaces_cudas(name) && self.extent.is_none() {
            self.extent = Some(Extent::Small);
            return true;
        }
        let library = name.split_once('/').map(|(library, _)| format!("{library}/"));
        let named = self.opened.iter().flat_map(|opened| &opened.includes);
        let of_library = |name: &&String| library.as_ref().is_some_and(|library| name.starts_with(library));
        let mut names: Vec<String> = named.filter(of_library).cloned().collect();
        if names.is_empty() && said_host {
            names.push(name.to_owned());
        }
        let before = self.missing.len();
        for name in names {
            self.missing.entry(name).or_insert(None);
        }
        self.missing.len() > before
    }

    /// If device code uses more of the standard library than is provided: first all of our own headers, then libcu++.
    fn extend(&mut self, errors: &[Diagnostic]) -> bool {
        let member = |error: &Diagnostic| {
            let (_, name) = error.message.strip_prefix("namespace \"std\" has no member")?.split_once('"')?;
            Some(!shims::is_host_member(name.trim_end_matches('"')))
        };
        if !errors.iter().filter_map(member).any(|available| available) {
            return false;
        }
        if self.provided.insert(shims::STANDARD) {
            self.extent.get_or_insert(Extent::Small);
            return true;
        }
        self.extent.replace(Extent::Full) != Some(Extent::Full)
    }

    /// Reads the user's files by following include directives.
    fn open(&self) -> Opened {
        let mut texts = vec![self.source.text.clone()];
        let mut headers: Vec<Header> = Vec::new();
        let mut meant: BTreeMap<String, Option<usize>> = BTreeMap::new();
        let own = self.source.directory.clone().unwrap_or_default();
        let (mut next, mut bytes) = (0, 0_usize);
        let mut includes = BTreeSet::new();
        while let Some(text) = texts.get(next) {
            let from = next.checked_sub(1).and_then(|at| headers[at].path.parent());
            let from = from.unwrap_or(&own).to_owned();
            for name in headers::includes(text) {
                includes.insert(name.clone());
                let found =
                    std::iter::once(from.as_path()).chain(self.user_dirs()).map(|dir| dir.join(&name));
                let mut found = found.into_iter().filter(|path| path.is_file() && self.roots.contain(path));
                let Some(path) = found.next() else { continue };
                let known = headers.iter().position(|header| header.path == path);
                let at = known.unwrap_or(headers.len());
                let one = meant.entry(name.clone()).or_insert(Some(at));
                if *one != Some(at) {
                    *one = None;
                }
                if known.is_some() {
                    continue;
                }
                let Ok(Ok(text)) = fs::read(&path).map(String::from_utf8) else { continue };
                bytes = bytes.saturating_add(text.len());
                if headers.len() >= MAX_FILES || bytes > MAX_BYTES {
                    continue;
                }
                headers.push(Header { path, names: BTreeSet::new() });
                texts.push(text);
            }
            next += 1;
        }
        for (name, at) in meant {
            if let Some(header) = at.and_then(|at| headers.get_mut(at)) {
                header.names.insert(name);
            }
        }
        Opened { files: Files::new(texts, &self.options.defines), headers, includes }
    }

    /// The log of the successful attempt, with remarks about removed code.
    fn accepted_log(&self, log: &str) -> String {
        let mut log = log.replace(host::CONSTEXPR, "constexpr");
        let mut remarks = Vec::new();
        for (name, miss) in &self.missing {
            let place = miss.as_ref().and_then(|miss| miss.place.as_ref());
            if let Some(place) = place.filter(|_| !shims::is_host_library(name)) {
                remarks.push(format!(
                    "{}({}): warning: \"{name}\" was not found and is treated as empty",
                    place.file, place.line
                ));
            }
        }
        if let Some(opened) = &self.opened {
            log = opened.without_host_warnings(&log, &self.source.name);
            for (file, name) in opened.names(&self.source.name) {
                for lines in opened.files.skipped(file) {
                    remarks
                        .push(format!("{name}({}): remark #{SKIPPED}: {TO_LINE}{}", lines.first, lines.last));
                }
            }
        }
        for remark in remarks {
            if !log.is_empty() && !log.ends_with("\n\n") {
                log.push('\n');
            }
            log.push_str(&remark);
            log.push_str("\n\n");
        }
        log
    }

    /// The log of the last attempt. Errors about a name that a missing header or host code may have declared get an explanation.
    fn refused_log(&self, log: &str) -> String {
        let log = log.replace(host::CONSTEXPR, "constexpr");
        let mut blocks: Vec<String> = log.split("\n\n").map(str::to_owned).collect();
        let mut unknown = false;
        for block in &mut blocks {
            unknown |= ["is undefined", "has no member", "must be a class or namespace", "is not a template"]
                .iter()
                .any(|text| block.contains(text));
            let skipped = undefined(block).and_then(|name| {
                let opened = self.opened.as_ref()?;
                let (file, line) = opened.files.skipped_function(name)?;
                let file = opened.name(file, &self.source.name);
                Some(format!(
                    "\n  `{name}` is a host function, defined at {file}:{line}; device code can call it if it is marked \
                     `__device__`"
                ))
            });
            block.push_str(&skipped.unwrap_or_default());
        }
        let missing =
            if unknown { self.missing_log(|name| !shims::is_host_library(name)) } else { String::new() };
        missing + &blocks.join("\n\n")
    }

    /// NVRTC's messages about headers that were replaced with empty ones.
    fn missing_log(&self, of: impl Fn(&str) -> bool) -> String {
        let mut log = String::new();
        for (name, error) in self.missing.iter().filter(|(name, _)| of(name)) {
            let Some(Diagnostic { place: Some(place), excerpt, .. }) = error else { continue };
            let _ =
                writeln!(log, "{}({}): error: cannot open source file \"{name}\"", place.file, place.line);
            if let (Some(excerpt), Some(column)) = (excerpt, place.column) {
                let caret = " ".repeat(usize::try_from(column).unwrap_or(1).saturating_sub(1));
                let _ = writeln!(log, "  {excerpt}\n  {caret}^");
            }
            log.push('\n');
        }
        log
    }
}

impl Opened {
    /// The index of a file that NVRTC names.
    fn position(&self, file: &str, source: &str) -> Option<usize> {
        if file == source {
            return Some(0);
        }
        let same =
            |header: &Header| header.path == Path::new(file) || same_file(&header.path, Path::new(file));
        self.headers.iter().position(same).map(|at| at + 1)
    }

    fn name(&self, file: usize, source: &str) -> String {
        match file.checked_sub(1).and_then(|at| self.headers.get(at)) {
            Some(header) => header.path.display().to_string(),
            None => source.to_owned(),
        }
    }

    fn names(&self, source: &str) -> Vec<(usize, String)> {
        (0..=self.headers.len()).map(|file| (file, self.name(file, source))).collect()
    }

    /// A log without warnings about host code, and about constants and kernels that only host code used.
    fn without_host_warnings(&self, log: &str, source: &str) -> String {
        let of_device = |block: &&str| {
            diagnostic::from_nvrtc(block).iter().all(|one| {
                let Some(place) = &one.place else { return true };
                if one.code.as_deref() == Some("177-D") && one.message.starts_with("function ") {
                    return false;
                }
                let file = self.position(&place.file, source);
                file.is_none_or(|file| self.files.is_device(file, place.line, place.column))
            })
        };
        log.split("\n\n").filter(of_device).collect::<Vec<_>>().join("\n\n")
    }
}

/// The code of a remark about removed host code, and the start of its message.
const SKIPPED: &str = "host";
const TO_LINE: &str = "skipped host code, to line ";

/// The host code named by the remarks of a log: files and lines.
pub(crate) fn skipped(diagnostics: &[Diagnostic]) -> Vec<(String, RangeInclusive<usize>)> {
    let lines = |one: &Diagnostic| {
        let place = one.place.as_ref().filter(|_| one.code.as_deref() == Some(SKIPPED))?;
        let last = one.message.strip_prefix(TO_LINE)?.parse().ok()?;
        Some((place.file.clone(), usize::try_from(place.line).ok()?..=last))
    };
    diagnostics.iter().filter_map(lines).collect()
}

fn same_file(one: &Path, other: &Path) -> bool {
    match (fs::canonicalize(one), fs::canonicalize(other)) {
        (Ok(one), Ok(other)) => one == other,
        _ => false,
    }
}

/// The quoted name after `start`.
fn quoted<'a>(message: &'a str, start: &str) -> Option<&'a str> {
    message.strip_prefix(start)?.strip_prefix('"')?.split_once('"').map(|(name, _)| name)
}

/// The name in `identifier "x" is undefined`.
fn undefined(message: &str) -> Option<&str> {
    let (_, rest) = message.split_once("identifier \"")?;
    let (name, rest) = rest.split_once('"')?;
    rest.starts_with(" is undefined").then_some(name)
}
