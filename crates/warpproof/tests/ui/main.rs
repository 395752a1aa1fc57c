//! The UI suite: every kernel under `tests/pass`, `tests/fail` and `tests/unsupported` is a separate test.
//!
//! A test is a `.cu` file with the `.ptx` file that NVRTC compiled from it, or a `.ptx` file alone.
//! `warpproof check` is run on it, and two things must agree: the set of (class, line) with the `//~`
//! annotations in the file, and the text with the `.stderr` file next to it. Without a `.stderr` file,
//! `check` must print nothing.
//!
//! | line | meaning |
//! |---|---|
//! | `…; //~ shared-race` | a finding of this class names this line; several are separated by commas |
//! | `…; //~ note: shared-race` | the same, as a note |
//! | `…; //~ unsupported` | a report of this kind names this line |
//! | `//~ unwritten`, alone on a line | a finding of this class names no line |
//! | `//@launch: …`, `//@options: …`, `//@checks: …`, `//@schedules: …` | as `warpproof check` reads them |
//! | `//@arch: 90a` | compiled for this architecture instead of sm_89 |
//! | `//@known-failure: reason` | it does not agree yet; fails when it does |
//!
//! `cargo xtask ui --bless` writes the `.ptx` and the `.stderr` files, `cargo xtask ui` compares the `.ptx`
//! files with the output of NVRTC; both run this with `WARPPROOF_UI` set.
#![expect(clippy::print_stderr, reason = "a harness speaks to the terminal")]

mod annotations;
mod compiler;

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::{env, fs};

use libtest_mimic::{Arguments, Failed, Trial};
use serde_json::Value;

/// The mode of the suite.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// Compare the output of `check`.
    Compare,
    /// Write the output of NVRTC and of `check`.
    Bless,
    /// Compare what NVRTC makes.
    VerifyPtx,
}

fn main() -> ExitCode {
    let mode = match env::var("WARPPROOF_UI").as_deref() {
        Ok("bless") => Mode::Bless,
        Ok("verify-ptx") => Mode::VerifyPtx,
        Ok(other) => {
            eprintln!("WARPPROOF_UI is `{other}`; bless and verify-ptx are known");
            return ExitCode::FAILURE;
        }
        Err(_) => Mode::Compare,
    };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let root = fs::canonicalize(&root).unwrap_or(root);
    // NVRTC puts the working directory before the names in its line table.
    if let Err(cause) = env::set_current_dir(&root) {
        eprintln!("cannot enter {}: {cause}", root.display());
        return ExitCode::FAILURE;
    }
    let mut kernels = Vec::new();
    for kind in ["pass", "fail", "unsupported"] {
        find(&root.join("tests").join(kind), &mut kernels);
    }
    kernels.sort();
    let trials = kernels
        .into_iter()
        .map(|path| {
            let kernel = Kernel::new(&root, &path);
            Trial::test(kernel.name.clone(), move || kernel.test(mode).map_err(Failed::from))
        })
        .collect();
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// Kernels below a directory: `.cu` files, and `.ptx` files without a `.cu` file next to them.
fn find(directory: &Path, kernels: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            find(&path, kernels);
            continue;
        }
        let extension = path.extension().and_then(|extension| extension.to_str());
        if extension == Some("cu") || (extension == Some("ptx") && !path.with_extension("cu").exists()) {
            kernels.push(path);
        }
    }
}

/// A kernel of the suite.
struct Kernel {
    root: PathBuf,
    /// From `tests`, without the extension.
    name: String,
    /// From the root.
    file: String,
    /// Which of the three directories it is in.
    kind: String,
}

impl Kernel {
    fn new(root: &Path, path: &Path) -> Self {
        let below = path.strip_prefix(root).unwrap_or(path);
        let file = below.display().to_string().replace('\\', "/");
        let name = below.with_extension("").display().to_string().replace('\\', "/");
        let name = name.strip_prefix("tests/").unwrap_or(&name).to_owned();
        let kind = name.split('/').next().unwrap_or_default().to_owned();
        Self { root: root.to_owned(), name, file, kind }
    }

    fn path(&self, extension: &str) -> PathBuf {
        self.root.join(&self.file).with_extension(extension)
    }

    fn test(&self, mode: Mode) -> Result<(), String> {
        let text = read(&self.root.join(&self.file))?;
        let is_cuda = Path::new(&self.file).extension().is_some_and(|extension| extension == "cu");
        if is_cuda && mode != Mode::Compare {
            let made = compiler::ptx(&self.root, &self.file, &text)?;
            match mode {
                Mode::Bless => write(&self.path("ptx"), &made)?,
                _ => compiler::compare(&read(&self.path("ptx"))?, &made)?,
            }
        }
        if mode == Mode::VerifyPtx {
            return Ok(());
        }
        if is_cuda && !self.path("ptx").exists() {
            return Err(format!(
                "its PTX file is missing; create it with `cargo xtask ui --bless {}`",
                self.name
            ));
        }
        let said = self.check(is_cuda)?;
        let known_failure = annotations::known_failure(&text);
        let agrees = self.compare(&text, &said, mode);
        match (known_failure, agrees) {
            (None, agrees) => agrees,
            (Some(_), Err(_)) => Ok(()),
            (Some(reason), Ok(())) => {
                Err(format!("it agrees now: take the line `//@known-failure: {reason}` out"))
            }
        }
    }

    /// The output of `check`.
    fn check(&self, is_cuda: bool) -> Result<Said, String> {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin!("warpproof"));
        command.current_dir(&self.root).stdin(Stdio::null()).args(["check", &self.file, "--format", "json"]);
        // Stops kernels that never end; those of the suite need far fewer instructions.
        command.args(["--max-instructions", "20000000"]);
        if is_cuda {
            let ptx = Path::new(&self.file).with_extension("ptx");
            command.arg("--ptx").arg(ptx);
        }
        let output = command.output().map_err(|cause| format!("cannot start warpproof: {cause}"))?;
        let json: Value = serde_json::from_slice(&output.stdout).map_err(|cause| {
            format!("no JSON was printed ({cause}):\n{}", String::from_utf8_lossy(&output.stderr))
        })?;
        Ok(Said { code: output.status.code(), json })
    }

    fn compare(&self, text: &str, said: &Said, mode: Mode) -> Result<(), String> {
        let mut wrong = String::new();
        let expected = annotations::read(text)?;
        let found = annotations::found(&said.json, &self.file);
        for mark in found.difference(&expected) {
            let _ = writeln!(wrong, "not annotated: {mark}");
        }
        for mark in expected.difference(&found) {
            let _ = writeln!(wrong, "not found:     {mark}");
        }
        let code = match self.kind.as_str() {
            "pass" => 0,
            "unsupported" => 3,
            _ => 1,
        };
        if said.code != Some(code) {
            let _ =
                writeln!(wrong, "exit code {:?}, and {code} is expected in tests/{}", said.code, self.kind);
        }
        let stderr = self.path("stderr");
        let rendered = said.rendered();
        if mode == Mode::Bless {
            if rendered.is_empty() {
                let _ = fs::remove_file(&stderr);
            } else {
                write(&stderr, &rendered)?;
            }
        } else if fs::read_to_string(&stderr).unwrap_or_default() != rendered {
            let file = Path::new(&self.file).with_extension("stderr");
            let _ = writeln!(
                wrong,
                "{} is another text; if this one is right, `cargo xtask ui --bless {}` writes it",
                file.display(),
                self.name
            );
        }
        if wrong.is_empty() { Ok(()) } else { Err(format!("{wrong}\n{rendered}")) }
    }
}

/// What `check` printed.
struct Said {
    code: Option<i32>,
    json: Value,
}

impl Said {
    fn list(&self, name: &str) -> impl Iterator<Item = &Value> {
        self.json[name].as_array().into_iter().flatten()
    }

    /// The text as printed on a terminal.
    fn rendered(&self) -> String {
        let mut all = String::new();
        for said in self.list("findings").chain(self.list("reports")) {
            let _ = writeln!(all, "{}\n", text(&said["rendered"]));
        }
        if !all.is_empty()
            && let Some(summary) = self.json["summary"].as_str()
        {
            let _ = writeln!(all, "{summary}");
        }
        all
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|cause| format!("cannot read {}: {cause}", path.display()))
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|cause| format!("cannot write {}: {cause}", path.display()))
}
