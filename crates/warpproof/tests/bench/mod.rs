//! Runs the program like a user, each test in its own folder.
//!
//! Tests that need NVIDIA's compiler find it like the program does, and fail without it; their names begin with
//! `toolchain_`.
#![allow(dead_code, reason = "each of the tests that share this uses a part of it")]

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use warpproof_toolchain::{Environment, Nvcc, Options, Toolchain, WITHOUT_TOOLCHAIN};

/// Every test has its own cache that contains the machine's toolchain.
pub(crate) struct Bench {
    pub(crate) dir: TempDir,
}

impl Bench {
    /// Without a toolchain.
    pub(crate) fn bare() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    /// With the machine's toolchain.
    pub(crate) fn new() -> Self {
        Self::with_cuda(None)
    }

    pub(crate) fn with_cuda(cuda: Option<u32>) -> Self {
        let found = Toolchain::find(&Options { cuda, ..Options::from_env() });
        assert!(found.is_ok(), "{}\n{WITHOUT_TOOLCHAIN}", found.unwrap_err());
        let bench = Self::bare();
        bench.link_sets();
        bench
    }

    /// With the machine's nvcc.
    pub(crate) fn with_nvcc() -> Self {
        let found = Nvcc::find(&Environment::read());
        assert!(found.is_ok(), "{}\n{WITHOUT_TOOLCHAIN}", found.unwrap_err());
        let bench = Self::bare();
        bench.link_sets();
        bench
    }

    /// Makes the installed sets of this machine available in the bench's cache.
    fn link_sets(&self) {
        let sets = Environment::read().cache.map(|cache| cache.join("toolchain")).filter(|dir| dir.is_dir());
        #[cfg(unix)]
        if let Some(sets) = sets {
            fs::create_dir_all(self.cache()).unwrap();
            std::os::unix::fs::symlink(fs::canonicalize(sets).unwrap(), self.cache().join("toolchain"))
                .unwrap();
        }
    }

    pub(crate) fn cache(&self) -> PathBuf {
        self.dir.path().join("cache")
    }

    pub(crate) fn command(&self) -> Command {
        self.start(option_env!("CARGO_BIN_EXE_warpproof"), "warpproof")
    }

    /// `warpproof-fleet`.
    pub(crate) fn fleet_command(&self) -> Command {
        self.start(option_env!("CARGO_BIN_EXE_warpproof-fleet"), "warpproof-fleet")
    }

    /// A program of this workspace: cargo names those of the tested package, and puts all of them into one
    /// directory.
    fn start(&self, named: Option<&str>, name: &str) -> Command {
        let beside = || {
            let test = env::current_exe().unwrap();
            let folder = test.ancestors().nth(2).unwrap();
            folder.join(format!("{name}{}", env::consts::EXE_SUFFIX))
        };
        let program = named.map_or_else(beside, PathBuf::from);
        assert!(program.is_file(), "{} is missing: `cargo build --workspace --bins`", program.display());
        let mut command = Command::new(program);
        command.env("WARPPROOF_CACHE", self.cache()).current_dir(self.dir.path()).stdin(Stdio::null());
        command
    }

    pub(crate) fn run<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Run {
        Run::of(&self.command().args(args).output().unwrap())
    }

    /// Copies a kernel next to the cache, so that messages name it without a path.
    pub(crate) fn kernel(&self, name: &str) -> String {
        fs::copy(kernels().join(name), self.dir.path().join(name)).unwrap();
        name.to_owned()
    }
}

pub(crate) struct Run {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Run {
    pub(crate) fn of(output: &Output) -> Self {
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        Self { code: output.status.code(), out: text(&output.stdout), err: text(&output.stderr) }
    }

    #[track_caller]
    pub(crate) fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "stdout:\n{}\nstderr:\n{}", self.out, self.err);
        self
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap()
    }
}

/// Does some work, and returns its result and whether a file with this name was below a directory at any time meanwhile.
pub(crate) fn watching<T>(directory: &Path, name: &str, work: impl FnOnce() -> T) -> (T, bool) {
    fn is_below(directory: &Path, name: &str) -> bool {
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        entries.into_iter().any(|entry| {
            let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
            entry.file_name() == name || (is_directory && is_below(&entry.path(), name))
        })
    }
    let (ended, seen) = (AtomicBool::new(false), AtomicBool::new(false));
    let result = thread::scope(|scope| {
        scope.spawn(|| {
            while !ended.load(Ordering::Relaxed) && !seen.load(Ordering::Relaxed) {
                seen.fetch_or(is_below(directory, name), Ordering::Relaxed);
                thread::sleep(Duration::from_millis(5));
            }
        });
        let result = work();
        ended.store(true, Ordering::Relaxed);
        result
    });
    (result, seen.into_inner())
}

pub(crate) fn kernels() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kernels")
}
