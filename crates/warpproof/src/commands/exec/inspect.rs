//! What `exec` can see of a program before it starts: how it was linked, and whether it contains PTX.

use std::collections::BTreeSet;
use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use warpproof_toolchain::{CudaRuntime, Executable};

use crate::report::{Kind, Report};

/// Libraries of a program that are read, at most.
const MAX_LIBRARIES: usize = 256;

/// Libraries of NVIDIA that contain a runtime of their own, and cannot be rebuilt.
const CLOSED: &[&str] =
    &["libcublas", "libcudnn", "libcufft", "libcurand", "libcusolver", "libcusparse", "libnpp", "libnccl"];

/// Rejects a program that cannot run on the software GPU; returns remarks about its libraries.
pub(super) fn program(words: &[OsString]) -> Result<Vec<String>, Box<Report>> {
    let Some(path) = words.first().and_then(|name| resolve(Path::new(name))) else { return Ok(Vec::new()) };
    // A file that cannot be read, or is not an executable, is left to the system.
    let Ok(Some(found)) = Executable::read(&path) else { return Ok(Vec::new()) };
    if found.runtime == CudaRuntime::Static {
        return Err(Box::new(static_runtime(&path)));
    }
    if found.fat_binaries > 0 && found.without_ptx == found.fat_binaries {
        return Err(Box::new(no_ptx(&path, &found)));
    }
    let mut notes: Vec<String> = some_without_ptx(&path, &found).into_iter().collect();
    for (library, found) in libraries(&found) {
        let name = library.file_name().unwrap_or_default().display().to_string();
        if CLOSED.iter().any(|closed| name.starts_with(closed)) {
            continue;
        }
        if found.runtime == CudaRuntime::Static {
            notes.push(format!(
                "{} contains a static CUDA runtime and cannot use the software GPU; {REBUILD}",
                library.display()
            ));
        } else if found.fat_binaries > 0 && found.without_ptx == found.fat_binaries {
            notes.push(format!("{} contains no PTX, so its kernels cannot run", library.display()));
        }
    }
    Ok(notes)
}

/// How to get the shared runtime.
const REBUILD: &str =
    "link it with `nvcc -cudart shared`, in CMake set the property `CUDA_RUNTIME_LIBRARY Shared`";

fn static_runtime(path: &Path) -> Report {
    let sentence =
        format!("{} contains a static CUDA runtime, which cannot use the software GPU", path.display());
    Report::error(Kind::Unsupported, sentence)
        .note("nvcc links the static runtime by default; the program was not started", None)
        .help(format!("{REBUILD}; or compile with `warpproof nvcc`, which does it by default"))
}

fn no_ptx(path: &Path, found: &Executable) -> Report {
    let names: Vec<String> = found.machine_code.iter().map(|sm| format!("sm_{sm}")).collect();
    let sentence = format!(
        "{} contains machine code only ({}), and the software GPU needs PTX",
        path.display(),
        names.join(", ")
    );
    let sm = found.machine_code.last().copied().unwrap_or(89);
    Report::error(Kind::Unsupported, sentence).note("the program was not started", None).help(format!(
        "compile with `nvcc -gencode arch=compute_{sm},code=[sm_{sm},compute_{sm}]`, in CMake set \
         `CMAKE_CUDA_ARCHITECTURES={sm}` without `-real`; or compile with `warpproof nvcc`, which adds PTX"
    ))
}

fn some_without_ptx(path: &Path, found: &Executable) -> Option<String> {
    (found.without_ptx > 0).then(|| {
        format!(
            "{} of the {} fat binaries in {} contain no PTX; launches of their kernels fail",
            found.without_ptx,
            found.fat_binaries,
            path.display()
        )
    })
}

/// The file that the system starts for a name.
fn resolve(name: &Path) -> Option<PathBuf> {
    if name.components().count() > 1 {
        return Some(name.to_owned());
    }
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|dir| dir.join(name)).find(|file| file.is_file())
}

/// The libraries of a program that are its own: found where it or `LD_LIBRARY_PATH` names a directory, not the system's.
fn libraries(program: &Executable) -> Vec<(PathBuf, Executable)> {
    let named: Vec<PathBuf> =
        env::var_os("LD_LIBRARY_PATH").map(|path| env::split_paths(&path).collect()).unwrap_or_default();
    let mut seen: BTreeSet<PathBuf> = BTreeSet::new();
    let mut pending = vec![(program.needed.clone(), program.search.clone())];
    let mut found = Vec::new();
    while let Some((needed, search)) = pending.pop() {
        for name in needed {
            let places = search.iter().chain(&named).map(|dir| dir.join(&name));
            let Some(place) = places.into_iter().find(|place| place.is_file()) else { continue };
            // NVIDIA's runtime and driver are replaced.
            let replaced = name.starts_with("libcudart.so") || name.starts_with("libcuda.so");
            if replaced || seen.len() >= MAX_LIBRARIES || !seen.insert(place.clone()) {
                continue;
            }
            if let Ok(Some(library)) = Executable::read(&place) {
                pending.push((library.needed.clone(), library.search.clone()));
                found.push((place, library));
            }
        }
    }
    found
}
