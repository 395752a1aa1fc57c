//! `cargo xtask fleet-faults`: a fleet whose machines are killed, with all the faults that the project promises to survive.

use std::process::Command;

use crate::root;

/// What is asked for in full; CI runs the same tests with fewer.
const FULL: [(&str, &str); 5] = [
    ("WARPPROOF_TEST_FLEET_EVALUATIONS", "5400"),
    ("WARPPROOF_TEST_FLEET_WORKER_KILLS", "200"),
    ("WARPPROOF_TEST_FLEET_SERVER_KILLS", "50"),
    ("WARPPROOF_TEST_FLEET_RESTARTS", "20"),
    ("WARPPROOF_TEST_FLEET_THROUGHPUT", "10000"),
];

pub(crate) fn run(only: Option<&str>) -> Result<(), String> {
    let status = Command::new("cargo")
        .args(["test", "--release", "--quiet", "-p", "warpproof", "--test", "fleet_faults", "--"])
        .args(["--nocapture", "--test-threads=1"])
        .args(only)
        .envs(FULL)
        .env("WARPPROOF_REQUIRE_TOOLCHAIN", "1")
        .current_dir(root())
        .status()
        .map_err(|error| format!("cargo: {error}"))?;
    if status.success() { Ok(()) } else { Err("the fleet did not survive".to_owned()) }
}
