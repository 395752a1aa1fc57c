//! Kernels of the UI suite, run and checked by `warpproof`.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use super::subject::{Checked, Ran, Runner};

/// Warp instructions after which a mutant counts as hanging: far more than any of these kernels needs.
const LIMIT: &str = "3000000";

/// A kernel of `tests/pass` with its launch.
pub(crate) struct Case {
    program: PathBuf,
    root: PathBuf,
    /// The CUDA file, from the root.
    file: String,
    /// Flags that describe the launch.
    launch: Vec<String>,
    arrays: Vec<String>,
    /// The directory of a mutant and its arrays.
    directory: PathBuf,
}

impl Case {
    pub(crate) fn new(
        name: &str,
        launch: Option<&str>,
        root: &Path,
        program: &Path,
        directory: &Path,
    ) -> Result<Self, String> {
        let file = format!("tests/pass/{name}.cu");
        let text =
            fs::read_to_string(root.join(&file)).map_err(|error| format!("cannot read {file}: {error}"))?;
        let line = launch.or_else(|| text.lines().find_map(|line| line.strip_prefix("//@launch:")));
        let words = line.ok_or_else(|| format!("{file} has no launch line"))?.split_whitespace();
        let mut launch = Vec::new();
        let mut arrays = Vec::new();
        for word in words {
            let (flag, value) = word
                .split_once('=')
                .ok_or_else(|| format!("{file}: expected `key=value` in the launch line, found `{word}`"))?;
            launch.extend([format!("--{flag}"), value.to_owned()]);
            let declaration = value.split('=').next().unwrap_or_default();
            if let (true, Some((name, _))) =
                (flag == "arg" && declaration.contains('['), value.split_once(':'))
            {
                arrays.push(name.to_owned());
            }
        }
        let (program, root, directory) = (program.to_owned(), root.to_owned(), directory.to_owned());
        Ok(Self { program, root, file, launch, arrays, directory })
    }

    fn call(&self, command: &str, ptx: &str, more: &[String]) -> Result<Output, String> {
        let file = self.directory.join("mutant.ptx");
        fs::write(&file, ptx).map_err(|error| format!("cannot write a mutant: {error}"))?;
        Command::new(&self.program)
            .current_dir(&self.root)
            .args([command, &self.file, "--threads", "1", "--max-instructions", LIMIT, "--ptx"])
            .arg(&file)
            .args(&self.launch)
            .args(more)
            .output()
            .map_err(|error| format!("cannot run {}: {error}", self.program.display()))
    }
}

impl Runner for Case {
    /// The committed PTX.
    fn ptx(&self) -> Result<String, String> {
        let path = Path::new(&self.file).with_extension("ptx");
        fs::read_to_string(self.root.join(&path))
            .map_err(|error| format!("cannot read {}: {error}", path.display()))
    }

    fn sources(&self) -> Vec<&str> {
        self.file.rsplit('/').take(1).collect()
    }

    fn run(&self, ptx: &str) -> Result<Ran, String> {
        let path = |name: &str| self.directory.join(format!("{name}.npy"));
        let mut flags = Vec::new();
        for name in &self.arrays {
            // Remove the output of an earlier mutant: this one may not write the file.
            let _ = fs::remove_file(path(name));
            flags.extend(["--out".to_owned(), format!("{name}={}", path(name).display())]);
        }
        let output = self.call("run", ptx, &flags)?;
        let arrays = self.arrays.iter().map(|name| fs::read(path(name)).unwrap_or_default()).collect();
        Ok(Ran { code: output.status.code(), arrays })
    }

    fn check(&self, ptx: &str, schedules: u32) -> Result<Checked, String> {
        let flags = ["--format", "json", "--schedules", &schedules.to_string()].map(str::to_owned);
        let output = self.call("check", ptx, &flags)?;
        let document: serde_json::Value = serde_json::from_slice(&output.stdout)
            .map_err(|error| format!("{}: no JSON from check: {error}", self.file))?;
        let mut checked = Checked { code: output.status.code(), ..Checked::default() };
        for finding in document["findings"].as_array().into_iter().flatten() {
            checked.add(finding["class"].as_str().unwrap_or("?"), finding["severity"] == "note");
        }
        Ok(checked)
    }
}
