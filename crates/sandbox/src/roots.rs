//! Directories that names from untrusted input may refer to.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// Directories, with symbolic links resolved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Roots {
    directories: Vec<PathBuf>,
}

/// A file outside of the allowed directories.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outside {
    /// The file, as named in the input.
    pub path: PathBuf,
    /// The allowed directories.
    pub roots: Roots,
}

impl fmt::Display for Outside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is outside of {}", self.path.display().to_string().escape_debug(), self.roots)
    }
}

impl std::error::Error for Outside {}

impl fmt::Display for Roots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.directories.as_slice() {
            [] => f.write_str("every allowed directory"),
            [first, others @ ..] => {
                write!(f, "`{}`", first.display())?;
                others.iter().try_for_each(|directory| write!(f, " and `{}`", directory.display()))
            }
        }
    }
}

impl Roots {
    /// Resolves the directories; a directory that does not exist is ignored.
    pub fn new<P: AsRef<Path>>(directories: impl IntoIterator<Item = P>) -> Self {
        let mut found: Vec<PathBuf> = Vec::new();
        for directory in directories {
            let directory = directory.as_ref();
            let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
            if let Ok(resolved) = fs::canonicalize(directory)
                && !found.contains(&resolved)
            {
                found.push(resolved);
            }
        }
        Self { directories: found }
    }

    /// The directories.
    pub fn directories(&self) -> &[PathBuf] {
        &self.directories
    }

    /// Whether an existing path is in one of them, after resolving symbolic links and `..`. For a path that does not exist, the
    /// nearest existing parent directory decides.
    pub fn contain(&self, path: &Path) -> bool {
        let mut at = path;
        let resolved = loop {
            match fs::canonicalize(if at.as_os_str().is_empty() { Path::new(".") } else { at }) {
                Ok(resolved) => break resolved,
                Err(_) => match at.parent() {
                    Some(parent) => at = parent,
                    None => return false,
                },
            }
        };
        // The remaining components may still leave the existing directory through `..`.
        let rest = path.strip_prefix(at).unwrap_or(Path::new(""));
        !rest.components().any(|part| part == std::path::Component::ParentDir)
            && self.directories.iter().any(|directory| resolved.starts_with(directory))
    }

    /// Like [`Roots::contain`], with an error for the user.
    pub fn check(&self, path: &Path) -> Result<(), Outside> {
        if self.contain(path) {
            return Ok(());
        }
        Err(Outside { path: path.to_owned(), roots: self.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(unix)]
    fn a_path_is_judged_by_where_it_leads() {
        let place = tempfile::tempdir().unwrap();
        let at = |path: &str| place.path().join(path);
        fs::create_dir_all(at("task/deep")).unwrap();
        fs::write(at("task/kernel.cu"), "").unwrap();
        fs::write(at("secret"), "").unwrap();
        std::os::unix::fs::symlink(at("secret"), at("task/link")).unwrap();
        std::os::unix::fs::symlink(place.path(), at("task/up")).unwrap();
        std::os::unix::fs::symlink("kernel.cu", at("task/inner")).unwrap();
        let roots = Roots::new([at("task")]);
        for inside in
            ["task", "task/kernel.cu", "task/deep/../kernel.cu", "task/inner", "task/absent/a", "task/absent"]
        {
            assert!(roots.contain(&at(inside)), "{inside}");
        }
        for outside in
            ["secret", "task/../secret", "task/link", "task/up/secret", "task/absent/../../secret", "task2"]
        {
            assert!(!roots.contain(&at(outside)), "{outside}");
        }
        assert!(!roots.contain(Path::new("/etc/passwd")));
        assert!(!Roots::default().contain(&at("task/kernel.cu")));
        let told = roots.check(&at("task/link")).unwrap_err().to_string();
        assert!(told.contains("task/link` is outside of `") && told.ends_with("/task`"), "{told}");
        // A directory whose name has the same prefix is a different one.
        fs::create_dir_all(at("task2")).unwrap();
        assert!(!roots.contain(&at("task2")));
    }
}
