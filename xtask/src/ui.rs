//! `cargo xtask ui`: verifies or writes the PTX and the expected reports of the UI suite.
//!
//! The suite's own harness, `crates/warpproof/tests/ui`, does the work; an environment variable selects the mode.

use std::process::Command;

use crate::root;

/// Compares the committed PTX with the output of NVRTC for each kernel; `bless` writes it, and the reports of `check` too.
pub(crate) fn run(bless: bool, filter: Option<&str>) -> Result<(), String> {
    let mode = if bless { "bless" } else { "verify-ptx" };
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command
        .current_dir(root())
        .env("WARPPROOF_UI", mode)
        .args(["test", "--quiet", "--locked", "--workspace", "--test", "ui", "--"])
        .args(filter);
    let status = command.status().map_err(|error| format!("cannot run cargo: {error}"))?;
    if status.success() {
        return Ok(());
    }
    Err(if bless {
        "the reports are written, but some annotations do not match the findings".to_owned()
    } else {
        "some PTX differs from the output of NVRTC; run `cargo xtask ui --bless` to write it".to_owned()
    })
}
