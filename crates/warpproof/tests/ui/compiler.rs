//! PTX of the suite's kernels, compiled by the pinned NVRTC.

use std::path::Path;
use std::sync::OnceLock;

use warpproof_toolchain::{CompileOptions, CudaSet, Options, Part, Source, Toolchain};

/// The architecture of the suite; a line `//@arch: 90a` names another one.
const ARCH: &str = "sm_89";

/// The toolchain with the pinned NVRTC; the PTX of another version would differ.
fn toolchain() -> Result<&'static Toolchain, String> {
    static FOUND: OnceLock<Result<Toolchain, String>> = OnceLock::new();
    let found = FOUND.get_or_init(|| {
        let pinned = CudaSet::of_major(12).map(|set| set.version).ok_or("no CUDA 12 is pinned")?;
        let toolchain = Toolchain::partial(&Options::from_env().with_cuda(12));
        toolchain.require(&[Part::Nvrtc, Part::Headers]).map_err(|error| error.to_string())?;
        let version = toolchain.part(Part::Nvrtc).map(|found| found.version.to_string()).unwrap_or_default();
        if version != pinned.to_string() {
            return Err(format!("NVRTC {version} was found, but the suite requires {pinned}"));
        }
        Ok(toolchain)
    });
    found.as_ref().map_err(Clone::clone)
}

/// The PTX of a kernel, with file names that are the same on every machine.
pub(crate) fn ptx(root: &Path, file: &str, text: &str) -> Result<String, String> {
    let toolchain = toolchain()?;
    let path = root.join(file);
    let source = Source { directory: path.parent().map(Path::to_owned), ..Source::new(file, text) };
    let extra = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix("//@options:"))
        .flat_map(str::split_whitespace)
        .map(str::to_owned)
        .collect();
    let named = text.lines().find_map(|line| line.trim().strip_prefix("//@arch:"));
    let arch = named.map_or(ARCH.to_owned(), |arch| format!("sm_{}", arch.trim()));
    let options = CompileOptions { extra, ..CompileOptions::new(&arch) };
    let compiled = toolchain.compile(&source, &options).map_err(|error| error.to_string())?;
    Ok(compiled.ptx.lines().map(|line| without_machine(line, root) + "\n").collect())
}

/// A `.file` line whose name begins at the root of the checkout, or for CUDA's own headers at `cuda`.
fn without_machine(line: &str, root: &Path) -> String {
    let Some((before, name)) = line.split_once('"').filter(|(before, _)| before.trim().starts_with(".file"))
    else {
        return line.to_owned();
    };
    let root = format!("{}/", root.display());
    // CUDA's headers first: the compiler may be installed below the checkout, as in CI.
    let name = if let Some((_, header)) = name.split_once("/include/").filter(|_| name.starts_with('/')) {
        format!("cuda/{header}")
    } else if let Some(below) = name.strip_prefix(&root) {
        below.to_owned()
    } else {
        name.to_owned()
    };
    format!("{before}\"{name}")
}

/// Whether the committed PTX equals the compiled one.
pub(crate) fn compare(committed: &str, made: &str) -> Result<(), String> {
    if committed == made {
        return Ok(());
    }
    let differs = committed.lines().zip(made.lines()).position(|(a, b)| a != b);
    let line =
        differs.map_or_else(|| committed.lines().count().min(made.lines().count()) + 1, |line| line + 1);
    let of = |text: &str| text.lines().nth(line - 1).unwrap_or("(the end)").to_owned();
    Err(format!(
        "NVRTC makes another PTX; from line {line} on:\n  committed: {}\n  made:      {}\n`cargo xtask ui --bless` writes it",
        of(committed),
        of(made)
    ))
}
