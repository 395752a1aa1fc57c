//! Builds the programs that tasks run, without building anything twice.

use std::{path::PathBuf, process::Command};

use crate::root;
use crate::target;

/// Builds `warpproof` and returns its path. Everything that `.ci/run` builds is built, or dependencies would get other features and be
/// built once more.
pub(crate) fn warpproof() -> Result<PathBuf, String> {
    built(&["build", "--quiet", "--locked", "--workspace", "--lib", "--bins", "--tests"])
}

/// Builds the whole workspace and returns the path of `warpproof`. The driver's library and the examples are next to it; a
/// build of the program alone puts them elsewhere, or does not build them.
pub(crate) fn workspace() -> Result<PathBuf, String> {
    built(&["build", "--quiet", "--locked", "--workspace", "--all-targets"])
}

/// The program, after a command of cargo that builds it.
fn built(command: &[&str]) -> Result<PathBuf, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(command)
        .current_dir(root())
        .status()
        .map_err(|error| format!("cannot start cargo: {error}"))?;
    if !status.success() {
        return Err(format!("cargo could not build warpproof: {status}"));
    }
    Ok(target().join("debug").join("warpproof").with_extension(std::env::consts::EXE_EXTENSION))
}
