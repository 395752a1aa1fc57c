//! `cargo xtask fleet-api`: tests the fleet's server with programs of other projects.
//!
//! A fuzzer that reads the OpenAPI description sends requests for some minutes, with a token for all roles and with one for each
//! role. An S3-compatible store holds the objects. Both are Python packages, pinned in
//! `crates/fleet/tests/outside/requirements.txt` and installed below the target directory; the tests are in
//! `crates/fleet/tests/outside.rs`.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::program;
use crate::root;
use crate::target;

/// Runs both; the fuzzer for this number of minutes.
pub(crate) fn run(minutes: f64) -> Result<(), String> {
    let warpproof = program::warpproof()?;
    let place = environment()?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    // All of the workspace, so that dependencies have the features that they have for the other tests.
    let status = Command::new(cargo)
        .args(["nextest", "run", "--locked", "--workspace", "--profile", "ci", "--no-capture"])
        .args(["--run-ignored", "only", "-E", "package(warpproof-fleet) & binary(outside)"])
        .env("WARPPROOF_TEST_PROGRAM", warpproof)
        .env("WARPPROOF_TEST_OUTSIDE", place)
        .env("WARPPROOF_TEST_FLEET_MINUTES", minutes.to_string())
        .current_dir(root())
        .status()
        .map_err(|error| format!("cannot start cargo: {error}"))?;
    if status.success() { Ok(()) } else { Err("the tests of the fleet's server failed".to_owned()) }
}

/// The Python environment, installed if it is missing or if its list of packages has changed.
fn environment() -> Result<PathBuf, String> {
    let place = target().join("fleet-api");
    let list = root().join("crates/fleet/tests/outside/requirements.txt");
    let wanted =
        fs::read_to_string(&list).map_err(|error| format!("cannot read {}: {error}", list.display()))?;
    let mark = place.join("installed.txt");
    if fs::read_to_string(&mark).is_ok_and(|installed| installed == wanted) {
        return Ok(place);
    }
    // The network fails now and then; a real failure fails twice.
    install(&place, &list).or_else(|_| install(&place, &list))?;
    fs::write(&mark, wanted).map_err(|error| format!("cannot write {}: {error}", mark.display()))?;
    Ok(place)
}

fn install(place: &Path, list: &Path) -> Result<(), String> {
    let mut make = Command::new("python3");
    make.args(["-m", "venv", "--clear"]).arg(place);
    let mut fill = Command::new(place.join("bin/python"));
    fill.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement"]).arg(list);
    for command in [&mut make, &mut fill] {
        let output = command.output().map_err(|error| format!("cannot run Python: {error}"))?;
        if !output.status.success() {
            let errors = String::from_utf8_lossy(&output.stderr);
            return Err(format!("cannot install the packages: {}\n{errors}", output.status));
        }
    }
    Ok(())
}
