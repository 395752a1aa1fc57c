//! The kernel's source file: reads it, compiles it to PTX, and maps messages of compilers, parser and software GPU to its lines.

pub(crate) mod diagnostics;
mod finding;
mod place;
mod stop;

pub(crate) use diagnostics::{as_given, line};
pub(crate) use finding::of_finding;
pub(crate) use place::{Shown, shown};
pub(crate) use stop::of_stop;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use warpproof_toolchain::symbol::Instances;
use warpproof_toolchain::{CompileError, CompileOptions, Part, Source, Toolchain};

use crate::commands::flags::{ToolchainFlags, missing};
use crate::report::{Kind, Report};

/// Whether a file contains PTX; all other files contain CUDA C++.
pub(crate) fn is_ptx(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("ptx"))
}

/// Reads a kernel's file.
pub(crate) fn read(path: &Path) -> Result<Source, Vec<Report>> {
    Source::read(path).map_err(|cause| {
        let sentence = format!("cannot read {}: {cause}", path.display());
        vec![Report::error(Kind::Missing, sentence)]
    })
}

/// The project that a kernel's file belongs to, where its headers may be: the nearest directory above it that is a git repository,
/// else the working directory if the file is below it. The root and a home directory are not a project.
pub(crate) fn project(file: &Path) -> Option<PathBuf> {
    let file = std::fs::canonicalize(file).ok()?;
    let home = std::env::var_os("HOME").and_then(|home| std::fs::canonicalize(home).ok());
    let is_project = |path: &&Path| path.parent().is_some() && Some(*path) != home.as_deref();
    let repository = file.ancestors().skip(1).filter(is_project).find(|path| path.join(".git").exists());
    let here = std::env::current_dir().ok().and_then(|here| std::fs::canonicalize(here).ok());
    let here = here.filter(|here| file.starts_with(here) && is_project(&here.as_path()));
    repository.map(Path::to_owned).or(here)
}

/// A module's text, and its name in messages.
#[derive(Clone, Debug)]
pub(crate) struct Ptx {
    /// The text.
    pub(crate) text: String,
    /// The file; for NVRTC's output, the file it would be written to.
    pub(crate) name: String,
    /// Warnings of the compiler.
    pub(crate) warnings: Vec<Report>,
    /// Requested instances of kernel templates.
    pub(crate) instances: Instances,
}

impl Ptx {
    /// A module that was not compiled in this run.
    pub(crate) fn new(text: String, name: String) -> Self {
        Self { text, name, warnings: Vec::new(), instances: Instances::default() }
    }
}

/// PTX that was compiled earlier.
pub(crate) fn given_ptx(text: String, name: String) -> Result<Ptx, Vec<Report>> {
    let (_, errors) = warpproof_ptx::parse(&text);
    if errors.is_empty() {
        return Ok(Ptx::new(text, name));
    }
    Err(diagnostics::of_ptx(&errors, &Source::new(name, text)))
}

/// The PTX in the file, or the PTX that NVRTC compiles from the file.
pub(crate) fn to_ptx(
    path: &Path,
    source: &Source,
    options: &CompileOptions,
    flags: &ToolchainFlags,
) -> Result<Ptx, Vec<Report>> {
    if is_ptx(path) {
        return given_ptx(source.text.clone(), source.name.clone());
    }
    let toolchain = Toolchain::partial(&flags.options());
    toolchain.require(&[Part::Nvrtc]).map_err(|error| vec![missing(&error)])?;
    let compiled =
        toolchain.compile(source, options).map_err(|error| compile_failed(error, source, &toolchain))?;
    let stem = path.file_stem().unwrap_or(OsStr::new("kernel"));
    let name = PathBuf::from(stem).with_added_extension(&options.arch).with_added_extension("ptx");
    let warnings = diagnostics::of_nvrtc(&compiled.diagnostics, source);
    let name = name.display().to_string();
    Ok(Ptx { text: compiled.ptx, name, warnings, instances: compiled.instances })
}

/// Reports why compilation to PTX failed.
pub(crate) fn compile_failed(error: CompileError, source: &Source, toolchain: &Toolchain) -> Vec<Report> {
    match error {
        CompileError::NotFound(error) => vec![missing(&error)],
        CompileError::Source { diagnostics, .. } => {
            let mut reports = diagnostics::of_nvrtc(&diagnostics, source);
            // A kernel without includes compiles without headers; for other kernels the missing headers are not the kernel's fault.
            if let Err(error) = toolchain.require(&[Part::Headers]) {
                reports.push(missing(&error));
            }
            reports
        }
        CompileError::Options(text) => vec![Report::error(Kind::Usage, text)],
        CompileError::Outside(outside) => vec![
            Report::error(Kind::Usage, format!("{} includes a file that it may not read", source.name))
                .note(outside.to_string(), None)
                .help("move the file, or allow its directory with --allow-path DIR"),
        ],
        CompileError::Limit(text) => vec![Report::error(Kind::Limit, text)],
        CompileError::Nvrtc(text) => {
            vec![Report::error(Kind::Missing, format!("NVRTC failed: {text}")).help("run `warpproof doctor`")]
        }
    }
}
