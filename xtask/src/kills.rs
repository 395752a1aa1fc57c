//! `cargo xtask kills`: kills runs of the gate at many points and inspects the ledger afterward.

use std::process::Command;

use crate::root;

/// Number of kills.
const MOMENTS: &str = "300";

pub(crate) fn run() -> Result<(), String> {
    let test = "toolchain_nothing_is_lost_by_kill_and_resuming_gives_the_same_verdicts";
    let status = Command::new("cargo")
        .args([
            "test",
            "--quiet",
            "-p",
            "warpproof",
            "--test",
            "interrupted",
            "--",
            "--exact",
            test,
            "--nocapture",
        ])
        .env("WARPPROOF_TEST_KILLS", MOMENTS)
        .current_dir(root())
        .status()
        .map_err(|error| format!("cargo: {error}"))?;
    if status.success() { Ok(()) } else { Err("the ledger or a verdict did not survive a kill".to_owned()) }
}
