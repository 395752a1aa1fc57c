//! A task with all files it needs, addressed by content. It is sent to a worker; an evaluation can read no other files of the task.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Component, Path, PathBuf};

use warpproof_evidence::hash::Hash;
use warpproof_sandbox::Roots;
use warpproof_task::{Program, Reference, Task};
use warpproof_toolchain::included_files;

use crate::wire::{Bundle, MAX_FILES, MAX_PATHS};

/// Maximum size of a file in a bundle, in bytes.
const MAX_FILE: u64 = 64 << 20;

/// A bundle with its bytes.
#[derive(Clone, Debug)]
pub struct Packed {
    /// The file list.
    pub bundle: Bundle,
    /// Its bytes by hash.
    pub objects: BTreeMap<Hash, Vec<u8>>,
}

/// Whether a path stays below a directory: no root, no `..`, no `.`, no characters that other systems interpret differently.
pub fn check_path(path: &str) -> Result<(), String> {
    let wrong = || format!("expected a path below the task's directory, found `{}`", path.escape_debug());
    if path.is_empty() || path.len() > 1024 || path.contains(['\\', ':']) || path.contains(char::is_control) {
        return Err(wrong());
    }
    // No file system accepts a longer name.
    if path.split('/').any(|part| part.is_empty() || part.len() > 255 || part == "." || part == "..") {
        return Err(wrong());
    }
    Ok(())
}

/// Whether the files of a bundle are valid: relative paths, no path that is also a directory of another, and a limited number of
/// files.
pub fn check_files(files: &BTreeMap<String, String>) -> Result<(), String> {
    let bytes: usize = files.keys().map(String::len).sum();
    if files.len() > MAX_FILES || bytes > MAX_PATHS {
        let count = files.len();
        return Err(format!(
            "expected at most {MAX_FILES} files with {MAX_PATHS} bytes of paths, found {count} with {bytes}"
        ));
    }
    for path in files.keys() {
        check_path(path)?;
        let mut above = path.as_str();
        while let Some((parent, _)) = above.rsplit_once('/') {
            if files.contains_key(parent) {
                return Err(format!("`{}` is both a file and a directory", parent.escape_debug()));
            }
            above = parent;
        }
    }
    Ok(())
}

/// A path below a directory, with `..` resolved.
fn below(directory: &Path, path: &Path) -> Option<String> {
    let rest = path.strip_prefix(directory).ok()?;
    let mut parts: Vec<&str> = Vec::new();
    for part in rest.components() {
        match part {
            Component::Normal(part) => parts.push(part.to_str()?),
            Component::ParentDir => {
                parts.pop()?;
            }
            Component::CurDir => {}
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    let path = parts.join("/");
    check_path(&path).ok()?;
    Some(path)
}

fn read(directory: &Path, path: &str) -> Result<Vec<u8>, String> {
    let place = directory.join(path);
    let unreadable = |why: String| format!("cannot read {}: {why}", place.display());
    // A link may point outside the directory, and packed files are sent to the fleet.
    Roots::new([directory]).check(&place).map_err(|outside| outside.to_string())?;
    let found = fs::metadata(&place).map_err(|error| unreadable(error.to_string()))?;
    if !found.is_file() || found.len() > MAX_FILE {
        return Err(unreadable(format!("expected a file of at most {MAX_FILE} bytes")));
    }
    fs::read(&place).map_err(|error| unreadable(error.to_string()))
}

/// Collects the files of a task: the task file, sources with their headers, PTX, and the files of its reference.
pub fn pack(task: &Task, text: &str, file_name: &str, directory: &Path) -> Result<Packed, String> {
    let mut wanted: Vec<String> = Vec::new();
    for candidate in &task.candidates {
        let sources: &str = match &candidate.program {
            Program::Source { file, .. } => file,
            Program::Ptx { file, .. } => {
                wanted.push(file.value.clone());
                continue;
            }
            Program::Rung { .. } => continue,
        };
        wanted.push(sources.to_owned());
        let source = String::from_utf8_lossy(&read(directory, sources)?).into_owned();
        let place = directory.join(sources);
        let own = place.parent().unwrap_or(directory);
        let headers = included_files(&source, own, &Roots::new([directory])).ok_or_else(|| {
            format!("{sources} includes a header by a macro or uses __TIME__: its dependencies are unknown")
        })?;
        for header in headers {
            let shown = header.display();
            wanted.push(below(directory, &header).ok_or_else(|| {
                format!("{sources} includes {shown}, which is outside the task's directory")
            })?);
        }
    }
    match &task.reference {
        Reference::BuiltIn { .. } => {}
        Reference::Files { cases } => {
            let files = cases.iter().flat_map(|case| case.inputs.values().chain(case.outputs.values()));
            // `weights.safetensors#q` is a tensor of a file.
            wanted.extend(files.map(|file| file.split('#').next().unwrap_or(file).to_owned()));
        }
        Reference::Python { file, .. } => wanted.push(file.value.clone()),
    }
    let mut files = BTreeMap::new();
    let mut objects = BTreeMap::new();
    let mut add = |path: String, bytes: Vec<u8>| {
        let hash = Hash::of(&bytes);
        files.insert(path, hash.to_string());
        objects.insert(hash, bytes);
    };
    let name = below(Path::new(""), Path::new(file_name))
        .ok_or_else(|| format!("expected the name of a task file, found `{}`", file_name.escape_debug()))?;
    add(name.clone(), text.as_bytes().to_vec());
    for path in wanted {
        let below = below(directory, &directory.join(&path))
            .ok_or_else(|| format!("{path} is outside the task's directory"))?;
        let bytes = read(directory, &below)?;
        add(below, bytes);
    }
    check_files(&files)?;
    Ok(Packed { bundle: Bundle { task: name, files, secret: None, stages: None }, objects })
}

/// Writes a bundle's files to an empty directory. An invalid bundle is returned as a message, a disk failure as an I/O error.
pub fn unpack<E: From<String> + From<std::io::Error>>(
    bundle: &Bundle,
    directory: &Path,
    mut bytes_of: impl FnMut(&Hash) -> Result<Vec<u8>, E>,
) -> Result<(), E> {
    // The server has checked it too; a worker does not trust the server.
    check_files(&bundle.files)?;
    for (path, name) in &bundle.files {
        let hash: Hash = name.parse().map_err(|error| format!("{path}: {error}"))?;
        let bytes = bytes_of(&hash)?;
        if Hash::of(&bytes) != hash {
            return Err(format!("{path}: the content does not match its hash").into());
        }
        let place: PathBuf = directory.join(path);
        if let Some(parent) = place.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(&place, bytes)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_stays_below_its_task() {
        for path in ["a", "a/b.cu", "..a/b", "a..", "ä/ü.cuh"] {
            assert_eq!(check_path(path), Ok(()), "{path}");
        }
        for path in [
            "",
            "/a",
            "a/../b",
            "..",
            "./a",
            "a//b",
            "a/",
            "a\\b",
            "c:a",
            "a\0",
            "a\nb",
            &"a".repeat(1025),
            &"a".repeat(256),
        ] {
            assert!(check_path(path).is_err(), "{path:?}");
        }
        let files = |paths: &[&str]| paths.iter().map(|path| ((*path).to_owned(), String::new())).collect();
        assert_eq!(check_files(&files(&["a/b", "a/c", "a.b"])), Ok(()));
        assert!(check_files(&files(&["a/b/c", "a", "a.b"])).is_err());
        let many = |count: usize, name: &str| {
            let paths: Vec<String> = (0..count).map(|at| format!("{name}{at:04}")).collect();
            check_files(&files(&paths.iter().map(String::as_str).collect::<Vec<_>>()))
        };
        assert_eq!(many(MAX_FILES, "kernels/"), Ok(()));
        assert!(many(MAX_FILES + 1, "").is_err());
        assert!(many(1_000, &"a/".repeat(100)).is_err());
        let here = Path::new("task");
        assert_eq!(below(here, Path::new("task/a/../b.h")).as_deref(), Some("b.h"));
        assert_eq!(below(here, Path::new("task/../b.h")), None);
        assert_eq!(below(here, Path::new("/etc/passwd")), None);
    }

    #[test]
    fn what_does_not_have_its_hash_is_not_written() {
        let directory = tempfile::tempdir().expect("a directory");
        let files = BTreeMap::from([("a.cu".to_owned(), Hash::of(b"x").to_string())]);
        let bundle = Bundle { task: "a.cu".to_owned(), files, secret: None, stages: None };
        let put = |bytes: &'static [u8]| {
            unpack::<Box<dyn std::error::Error>>(&bundle, directory.path(), |_| Ok(bytes.to_vec()))
        };
        assert!(put(b"y").is_err());
        assert!(!directory.path().join("a.cu").exists());
        put(b"x").expect("written");
        assert_eq!(fs::read(directory.path().join("a.cu")).expect("read"), b"x");
    }
}
