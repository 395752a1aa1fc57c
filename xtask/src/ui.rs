//! `cargo xtask ui`: the PTX of the UI suite, and the texts that its kernels get.
//!
//! The work is done by the suite's own harness, `crates/warpproof/tests/ui`, which is told by a variable what to do.

use std::process::Command;

use crate::root;

/// Compares the committed PTX with what NVRTC makes of each kernel; `bless` writes it, and the texts of `check` with it.
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
        "some annotations do not agree with what is found; the texts are written".to_owned()
    } else {
        "some PTX is not what NVRTC makes; `cargo xtask ui --bless` writes it".to_owned()
    })
}
