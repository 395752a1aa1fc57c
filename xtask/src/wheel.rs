//! The Python wheel: its programs, its build, and environments to build and test it in.
//!
//! `cargo xtask python` puts debug programs into it, `cargo xtask dist` those of a release.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::root;

/// The programs of the wheel: the file that cargo builds, and its name in the wheel.
pub(crate) const PROGRAMS: [(&str, &str); 3] = [
    ("warpproof", "warpproof"),
    ("libwarpproof_cuda.so", "libcuda.so.1"),
    ("libwarpproof_attention.so", "libwarpproof_attention.so"),
];
/// What builds the wheel.
pub(crate) const BUILDERS: [&str; 2] = ["build==1.6.1", "hatchling==1.33.0"];
/// The largest wheel of a release, in bytes.
const MAX_WHEEL: u64 = 20 << 20;

/// Builds the wheel of a platform, such as `linux_x86_64`, from the directory with its programs, and returns its path. The
/// environment has [`BUILDERS`].
pub(crate) fn build(
    environment: &Environment,
    programs: &Path,
    platform: &str,
    outputs: &Path,
) -> Result<PathBuf, String> {
    done(
        environment
            .python()
            .args(["-m", "build", "--wheel", "--no-isolation", "--outdir"])
            .arg(outputs)
            .arg(root().join("python"))
            .env("WARPPROOF_PROGRAMS", programs)
            .env("WARPPROOF_WHEEL_TAG", platform),
    )?;
    let wheel = outputs.join(name(platform));
    let bytes = fs::metadata(&wheel).map_err(|error| format!("{}: {error}", wheel.display()))?.len();
    println!("{}: {bytes} bytes", wheel.file_name().unwrap_or_default().display());
    Ok(wheel)
}

/// The name of the wheel for a platform.
fn name(platform: &str) -> String {
    format!("warpproof-{}-py3-none-{platform}.whl", env!("CARGO_PKG_VERSION"))
}

/// Fails if the wheel of a release is too large.
pub(crate) fn is_small(wheel: &Path) -> Result<(), String> {
    small_enough(fs::metadata(wheel).map_err(|error| format!("{}: {error}", wheel.display()))?.len())
}

fn small_enough(bytes: u64) -> Result<(), String> {
    if bytes <= MAX_WHEEL {
        return Ok(());
    }
    Err(format!("expected a wheel of at most {MAX_WHEEL} bytes, found {bytes}"))
}

/// Runs the script of the book's page, which has a race in a Triton kernel, and looks for its line. The environment has Triton.
pub(crate) fn finds_race(environment: &Environment) -> Result<(), String> {
    let output = environment
        .python()
        .arg(root().join("python/sample/race.py"))
        // The user's cache may have the kernel, with the path of another checkout.
        .env("TRITON_CACHE_DIR", environment.folder.join("triton"))
        .output()
        .map_err(|error| format!("cannot run race.py: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let wanted = ["error[global-race]", "race.py:7", "tl.store(total, tl.load(total) + part)"];
    match wanted.iter().find(|wanted| !text.contains(**wanted)) {
        None => Ok(()),
        Some(wanted) => Err(format!(
            "race.py: expected `{wanted}`, found:\n{text}{}",
            String::from_utf8_lossy(&output.stderr)
        )),
    }
}

/// A virtual environment.
#[derive(Debug)]
pub(crate) struct Environment {
    folder: PathBuf,
}

impl Environment {
    /// Creates it, or takes the one that exists.
    pub(crate) fn new(folder: &Path) -> Result<Environment, String> {
        done(Command::new("python3").args(["-m", "venv"]).arg(folder))?;
        Ok(Environment { folder: folder.to_owned() })
    }

    /// One of its programs, with nothing of the caller's settings.
    pub(crate) fn program(&self, name: &str) -> Command {
        let mut command = Command::new(self.programs().join(name));
        command.env_remove("PYTHONPATH").env_remove("WARPPROOF_LIBRARY").env_remove("LD_LIBRARY_PATH");
        command
    }

    pub(crate) fn python(&self) -> Command {
        self.program("python")
    }

    /// The directory of its programs.
    pub(crate) fn programs(&self) -> PathBuf {
        self.folder.join("bin")
    }

    pub(crate) fn pip(&self, packages: &[&str]) -> Result<(), String> {
        done(
            self.python()
                .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"])
                .args(packages),
        )
    }
}

/// Runs a command, whose output is shown.
pub(crate) fn done(command: &mut Command) -> Result<(), String> {
    let status = command.status().map_err(|error| format!("cannot start {command:?}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{command:?} gave {status}")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wheel_of_more_than_20_megabytes_is_refused() {
        assert!(small_enough(20 << 20).is_ok());
        let error = small_enough((20 << 20) + 1).unwrap_err();
        assert_eq!(error, "expected a wheel of at most 20971520 bytes, found 20971521");
    }

    #[test]
    fn a_wheel_is_named_by_version_and_platform() {
        let version = env!("CARGO_PKG_VERSION");
        assert_eq!(
            name("manylinux_2_28_aarch64"),
            format!("warpproof-{version}-py3-none-manylinux_2_28_aarch64.whl")
        );
    }

    #[test]
    fn the_build_hook_has_the_same_programs() {
        let hook = fs::read_to_string(root().join("python/hatch_build.py")).unwrap();
        for (_, name) in PROGRAMS {
            assert!(hook.contains(&format!("\"{name}\"")), "{name}");
        }
    }
}
