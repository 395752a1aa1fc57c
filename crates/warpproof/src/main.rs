//! The `warpproof` program.
#![forbid(unsafe_code)]

use std::process::ExitCode;

/// The CUDA driver library that `exec` loads, embedded in a release build. It is included here, not in the
/// library of this package, because only a program is compiled after all of its dependencies are linked.
#[cfg(all(feature = "embed-driver", not(debug_assertions), target_os = "linux", target_env = "gnu"))]
const DRIVER: Option<&[u8]> = warpproof_embed::shared_library!("warpproof_cuda");
/// A debug build finds it next to its executable.
#[cfg(not(all(feature = "embed-driver", not(debug_assertions), target_os = "linux", target_env = "gnu")))]
const DRIVER: Option<&[u8]> = None;

fn main() -> ExitCode {
    warpproof::run(DRIVER)
}
