//! `cargo xtask fleet-faults`: kills machines of a fleet and injects every fault that the fleet must survive.

use std::process::{Command, ExitStatus};

use crate::root;

/// Sizes of the full tests; CI runs the same tests with smaller ones.
const FULL: [(&str, &str); 5] = [
    ("WARPPROOF_TEST_FLEET_EVALUATIONS", "5400"),
    ("WARPPROOF_TEST_FLEET_WORKER_KILLS", "200"),
    ("WARPPROOF_TEST_FLEET_SERVER_KILLS", "50"),
    ("WARPPROOF_TEST_FLEET_RESTARTS", "20"),
    ("WARPPROOF_TEST_FLEET_THROUGHPUT", "10000"),
];

pub(crate) fn run(only: Option<&str>) -> Result<(), String> {
    crate::announce_release();
    let packages = ["--release", "--quiet", "--locked", "-p", "warpproof", "-p", "warpproof-fleet"];
    let built = Command::new("cargo").arg("build").args(packages).arg("--bins").current_dir(root()).status();
    if !built.as_ref().is_ok_and(ExitStatus::success) {
        return Err(format!("cargo could not build the fleet: {built:?}"));
    }
    let status = Command::new("cargo")
        .arg("test")
        .args(packages)
        .args(["--test", "fleet_faults", "--"])
        .args(["--nocapture", "--test-threads=1"])
        .args(only)
        .envs(FULL)
        .current_dir(root())
        .status()
        .map_err(|error| format!("cargo: {error}"))?;
    if status.success() { Ok(()) } else { Err("the fleet did not survive the faults".to_owned()) }
}
