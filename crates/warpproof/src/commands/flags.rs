//! Flags that several commands share.

use std::path::PathBuf;

use clap::Args;
use warpproof_toolchain::{NotFound, Options};

use crate::report::{Kind, Report};

/// Which compiler to use.
#[derive(Debug, Args)]
pub(crate) struct ToolchainFlags {
    /// Take NVIDIA's compiler from this directory: a CUDA toolkit, or a directory of wheels
    ///
    /// WARPPROOF_TOOLCHAIN says the same for every command.
    #[arg(long, value_name = "DIR")]
    toolchain: Option<PathBuf>,
    /// Take parts of this CUDA major version only
    #[arg(long, value_name = "MAJOR")]
    cuda: Option<u32>,
}

impl ToolchainFlags {
    pub(crate) fn options(&self) -> Options {
        Options { explicit: self.toolchain.clone(), cuda: self.cuda, ..Options::from_env() }
    }
}

/// Missing parts, with the one command that mends it.
pub(crate) fn missing(error: &NotFound) -> Report {
    let report = Report::error(Kind::Missing, error.reason.clone());
    match &error.mend {
        Some(mend) => report.help(format!("run `{mend}`")),
        None => report,
    }
}
