//! A program of the name `nvcc` that starts `warpproof nvcc`.
//!
//! CMake needs the path of one program, and Makefiles look for headers and libraries next to it. So the wrapper is in
//! `bin/` of a directory of links to the toolkit.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::{Runtime, allow_execution, link};

/// A file in a wrapper's directory, by which it is recognized.
pub(super) const MARK: &str = "warpproof-wrapper";

pub(super) fn write(root: &Path, cache: &Path, command: &Path, runtime: Runtime) -> io::Result<PathBuf> {
    let cache = std::path::absolute(cache)?;
    let script = script(command, &cache, runtime);
    // Links of another toolkit must not be mixed with these.
    let key = blake3::hash(format!("{}\n{script}", root.display()).as_bytes()).to_hex();
    let place = cache.join("nvcc").join(key.get(..16).unwrap_or_default());
    let bin = place.join("bin");
    fs::create_dir_all(&bin)?;
    fs::write(place.join(MARK), "")?;
    links(root, &place, &["bin", MARK])?;
    links(&root.join("bin"), &bin, &["nvcc"])?;
    let program = bin.join("nvcc");
    if fs::read_to_string(&program).is_ok_and(|known| known == script) {
        return Ok(program);
    }
    let mut file = tempfile::NamedTempFile::new_in(&bin)?;
    file.write_all(script.as_bytes())?;
    allow_execution(file.path())?;
    file.persist(&program).map_err(|error| error.error)?;
    Ok(program)
}

/// Links the entries of a directory, except some.
fn links(from: &Path, to: &Path, except: &[&str]) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        if !except.iter().any(|name| entry.file_name() == *name) {
            link(&entry.path(), &to.join(entry.file_name()))?;
        }
    }
    Ok(())
}

fn script(command: &Path, cache: &Path, runtime: Runtime) -> String {
    let runtime = match runtime {
        Runtime::Own => "",
        Runtime::Twelve => "--runtime 12 ",
    };
    // A build may run without the variables with which this was made.
    format!(
        "#!/bin/sh\n: \"${{WARPPROOF_CACHE:={}}}\"\nexport WARPPROOF_CACHE\nexec {} nvcc {runtime}\"$@\"\n",
        double_quoted(cache),
        quoted(command)
    )
}

fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', r"'\''"))
}

/// A path between double quotes.
fn double_quoted(path: &Path) -> String {
    let mut text = String::new();
    for letter in path.display().to_string().chars() {
        if matches!(letter, '"' | '$' | '`' | '\\' | '}') {
            text.push('\\');
        }
        text.push(letter);
    }
    text
}
