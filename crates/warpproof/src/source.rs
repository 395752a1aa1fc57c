//! The kernel's own file: read, compiled to PTX, and what compilers, parser and software GPU say about its lines.

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

use warpproof_toolchain::{CompileError, CompileOptions, Part, Source, Toolchain};

use crate::commands::flags::{ToolchainFlags, missing};
use crate::report::{Kind, Report};

/// Whether a file holds PTX; all others hold CUDA C++.
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

/// A module's text, and what it is called in messages.
#[derive(Debug)]
pub(crate) struct Ptx {
    /// The text.
    pub(crate) text: String,
    /// The file, or for what NVRTC made the file it would be written to.
    pub(crate) name: String,
    /// Warnings of the compiler.
    pub(crate) warnings: Vec<Report>,
}

/// PTX that was made before.
pub(crate) fn given_ptx(text: String, name: String) -> Result<Ptx, Vec<Report>> {
    let (_, errors) = warpproof_ptx::parse(&text);
    if errors.is_empty() {
        return Ok(Ptx { text, name, warnings: Vec::new() });
    }
    Err(diagnostics::of_ptx(&errors, &Source::new(name, text)))
}

/// PTX as it stands in the file, or what NVRTC makes of the file.
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
    Ok(Ptx { text: compiled.ptx, name: name.display().to_string(), warnings })
}

/// Why there is no PTX.
pub(crate) fn compile_failed(error: CompileError, source: &Source, toolchain: &Toolchain) -> Vec<Report> {
    match error {
        CompileError::NotFound(error) => vec![missing(&error)],
        CompileError::Source { diagnostics, .. } => {
            let mut reports = diagnostics::of_nvrtc(&diagnostics, source);
            // A kernel that includes nothing compiles without them; one that does must not be blamed for it.
            if let Err(error) = toolchain.require(&[Part::Headers]) {
                reports.push(missing(&error));
            }
            reports
        }
        CompileError::Options(text) => vec![Report::error(Kind::Usage, text)],
        CompileError::Limit(text) => vec![Report::error(Kind::Limit, text)],
        CompileError::Nvrtc(text) => {
            vec![Report::error(Kind::Missing, format!("NVRTC failed: {text}")).help("run `warpproof doctor`")]
        }
    }
}
