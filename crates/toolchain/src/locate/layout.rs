//! The directory layouts of NVIDIA's parts: a toolkit, a Debian package, and two generations of wheels.

use std::fs;
use std::path::{Path, PathBuf};

use super::{Found, Part, Rule};
use crate::program;
use crate::version::Version;

/// Library directories, relative to a root.
const LIBRARIES: &[&str] = &[
    "nvidia/cuda_nvrtc/lib",
    "nvidia/cu13/lib",
    "nvidia/cu12/lib",
    "lib64",
    "lib",
    "lib/x86_64-linux-gnu",
    "lib/aarch64-linux-gnu",
    "targets/x86_64-linux/lib",
    "targets/sbsa-linux/lib",
    "bin",
    "",
];

/// Program directories, relative to a root.
const PROGRAMS: &[&str] = &["nvidia/cuda_nvcc/bin", "nvidia/cu13/bin", "nvidia/cu12/bin", "bin", ""];

/// Groups of include directories, relative to a root; the first of a group must contain CUDA's runtime header.
const INCLUDES: &[&[&str]] = &[
    &["nvidia/cuda_runtime/include", "nvidia/cuda_nvcc/include", "nvidia/cuda_cccl/include"],
    &["nvidia/cu13/include", "nvidia/cu13/include/cccl"],
    &["nvidia/cu12/include", "nvidia/cu12/include/cccl"],
    &["include", "include/cccl"],
    &["targets/x86_64-linux/include", "targets/x86_64-linux/include/cccl"],
    &["targets/sbsa-linux/include", "targets/sbsa-linux/include/cccl"],
];

/// All parts below one root that run or can be read.
pub(super) fn parts_below(root: &Path, rule: Rule) -> Vec<Found> {
    let mut found = Vec::new();
    let mut push = |part, path: PathBuf, version, include_dirs| {
        found.push(Found { part, path, version, rule, include_dirs });
    };
    for dir in LIBRARIES {
        let dir = root.join(dir);
        for library in nvrtc_libraries(&dir) {
            if let Some(version) = nvrtc_version(&library, &dir, root) {
                push(Part::Nvrtc, library, version, Vec::new());
            }
        }
    }
    for (part, name) in [(Part::Ptxas, "ptxas"), (Part::Nvdisasm, "nvdisasm"), (Part::Cuobjdump, "cuobjdump")]
    {
        for dir in PROGRAMS {
            let path = root.join(dir).join(format!("{name}{}", std::env::consts::EXE_SUFFIX));
            if path.is_file()
                && let Some(version) = program::banner(&path).as_deref().and_then(Version::in_banner)
            {
                push(part, path, version, Vec::new());
            }
        }
    }
    for group in INCLUDES {
        let dirs: Vec<_> = group.iter().map(|dir| root.join(dir)).filter(|dir| dir.is_dir()).collect();
        if let Some(first) = dirs.first().cloned()
            && let Some(version) = header_version(&first)
        {
            push(Part::Headers, first, version, dirs);
        }
    }
    found
}

/// The NVRTC libraries of a directory: `libnvrtc.so.12`, without its builtins and its alternative build. Among links to the same
/// file, the one with the shortest version is kept: it is the library's soname.
fn nvrtc_libraries(dir: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    let mut libraries: Vec<(PathBuf, PathBuf)> = entries
        .flatten()
        .filter(|entry| {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let unix = name.strip_prefix("libnvrtc.so").is_some_and(|rest| rest.starts_with('.'));
            let windows = name.strip_prefix("nvrtc64_").is_some_and(|rest| rest.ends_with("_0.dll"));
            unix || windows
        })
        .map(|entry| entry.path())
        .filter_map(|path| Some((fs::canonicalize(&path).ok()?, path)))
        .collect();
    libraries.sort_by_key(|(real, path)| (real.clone(), path.as_os_str().len(), path.clone()));
    libraries.dedup_by(|later, kept| later.0 == kept.0);
    libraries.into_iter().map(|(_, path)| path).collect()
}

/// NVRTC's version, derived from the file names next to it, so that a cached build need not open a library of a hundred megabytes.
fn nvrtc_version(library: &Path, dir: &Path, root: &Path) -> Option<Version> {
    let after = |path: &Path, prefix: &str| -> Option<Version> {
        Version::parse(path.file_name()?.to_str()?.strip_prefix(prefix)?)
    };
    // The real file of a toolkit has the whole version in its name.
    let real = fs::canonicalize(library).ok()?;
    let named = after(&real, "libnvrtc.so.");
    if let Some(version) = named
        && version.patch != 0
    {
        return Some(version);
    }
    let major: u32 =
        library.file_name()?.to_str()?.strip_prefix("libnvrtc.so.")?.split('.').next()?.parse().ok()?;
    // The metadata of a wheel contains it too.
    let from_wheel = fs::read_dir(root).ok().and_then(|entries| {
        entries.flatten().find_map(|entry| {
            let name = entry.file_name();
            let name = name.to_str()?.strip_suffix(".dist-info")?;
            let (package, version) = name.rsplit_once('-')?;
            let version = Version::parse(version)?;
            (package.starts_with("nvidia_cuda_nvrtc") && version.major == major).then_some(version)
        })
    });
    if from_wheel.is_some() {
        return from_wheel;
    }
    // The name of the builtins library contains the release.
    let from_builtins = fs::read_dir(dir).ok().and_then(|entries| {
        entries
            .flatten()
            .filter_map(|entry| after(&entry.path(), "libnvrtc-builtins.so."))
            .find(|version| version.major == major)
    });
    from_builtins.or(named).or_else(|| crate::nvrtc::Nvrtc::open(library).ok().map(|nvrtc| nvrtc.version()))
}

/// The version that `CUDART_VERSION` states.
fn header_version(dir: &Path) -> Option<Version> {
    let text = fs::read(dir.join("cuda_runtime_api.h")).ok()?;
    let text = String::from_utf8_lossy(&text);
    let number = text.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        (words.next() == Some("#define") && words.next() == Some("CUDART_VERSION"))
            .then(|| words.next()?.parse().ok())
            .flatten()
    })?;
    Some(Version::from_cuda_version(number))
}

/// The toolkits found through `PATH` and `LD_LIBRARY_PATH`.
pub(super) fn roots_on_path(path: &[PathBuf], library_path: &[PathBuf]) -> Vec<PathBuf> {
    let mut roots: Vec<PathBuf> = Vec::new();
    let mut push = |root: &Path| {
        if !roots.iter().any(|known| known == root) {
            roots.push(root.to_owned());
        }
    };
    for dir in path {
        for name in ["ptxas", "nvdisasm", "cuobjdump"] {
            let program = dir.join(format!("{name}{}", std::env::consts::EXE_SUFFIX));
            // Links are resolved: /usr/local/bin/ptxas may point into a toolkit whose libraries are elsewhere.
            let Ok(real) = fs::canonicalize(&program) else { continue };
            let Some(bin) = real.parent() else { continue };
            let root = if bin.ends_with("bin") { bin.parent().unwrap_or(bin) } else { bin };
            push(root);
        }
    }
    for dir in library_path {
        if !nvrtc_libraries(dir).is_empty() {
            push(dir);
        }
    }
    roots
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn program(path: &Path, version: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("#!/bin/sh\necho 'Cuda compilation tools, release x, V{version}'\n"))
            .unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn file(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn reads_a_toolkit() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        program(&root.join("bin/ptxas"), "12.4.131");
        file(&root.join("lib64/libnvrtc.so.12.4.127"), "");
        std::os::unix::fs::symlink("libnvrtc.so.12.4.127", root.join("lib64/libnvrtc.so.12")).unwrap();
        file(&root.join("lib64/libnvrtc-builtins.so.12.4"), "");
        file(&root.join("include/cuda_runtime_api.h"), "#define CUDART_VERSION  12040\n");
        let found = parts_below(root, Rule::CudaHome);
        let of = |part| found.iter().filter(|f| f.part == part).collect::<Vec<_>>();
        assert_eq!(of(Part::Nvrtc).len(), 1);
        assert_eq!(of(Part::Nvrtc)[0].version.to_string(), "12.4.127");
        assert!(of(Part::Nvrtc)[0].path.ends_with("libnvrtc.so.12"));
        assert_eq!(of(Part::Ptxas)[0].version.to_string(), "12.4.131");
        assert_eq!(of(Part::Headers)[0].version, Version::new(12, 4));
        assert!(of(Part::Nvdisasm).is_empty());
    }

    #[test]
    fn reads_both_generations_of_wheels_in_one_site_packages() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        file(&root.join("nvidia/cuda_nvrtc/lib/libnvrtc.so.12"), "");
        file(&root.join("nvidia/cuda_nvrtc/lib/libnvrtc.alt.so.12"), "");
        file(&root.join("nvidia/cuda_nvrtc/lib/libnvrtc-builtins.so.12.9"), "");
        file(&root.join("nvidia_cuda_nvrtc_cu12-12.9.86.dist-info/METADATA"), "");
        file(&root.join("nvidia/cu13/lib/libnvrtc.so.13"), "");
        file(&root.join("nvidia/cu13/lib/libnvrtc-builtins.so.13.2"), "");
        program(&root.join("nvidia/cu13/bin/ptxas"), "13.2.86");
        program(&root.join("nvidia/cuda_nvcc/bin/ptxas"), "12.9.86");
        file(&root.join("nvidia/cuda_runtime/include/cuda_runtime_api.h"), "#define CUDART_VERSION 12090\n");
        file(&root.join("nvidia/cuda_cccl/include/cuda/pipeline"), "");
        let found = parts_below(root, Rule::SitePackages);
        let versions: Vec<_> =
            found.iter().filter(|f| f.part == Part::Nvrtc).map(|f| f.version.to_string()).collect();
        assert_eq!(versions, ["12.9.86", "13.2"]);
        assert_eq!(found.iter().filter(|f| f.part == Part::Ptxas).count(), 2);
        let headers = found.iter().find(|f| f.part == Part::Headers).unwrap();
        assert_eq!(headers.include_dirs.len(), 2);
    }

    #[test]
    fn follows_links_on_the_path() {
        let dir = tempfile::tempdir().unwrap();
        program(&dir.path().join("toolkit/bin/ptxas"), "12.9.86");
        let bin = dir.path().join("shims");
        fs::create_dir_all(&bin).unwrap();
        std::os::unix::fs::symlink(dir.path().join("toolkit/bin/ptxas"), bin.join("ptxas")).unwrap();
        let roots = roots_on_path(&[bin.clone(), bin], &[]);
        assert_eq!(roots, [fs::canonicalize(dir.path().join("toolkit")).unwrap()]);
    }
}
