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

/// Where the evidence is.
#[derive(Debug, Args)]
pub(crate) struct LedgerFlags {
    /// The ledger's directory [default: .warpproof/ledger]
    ///
    /// WARPPROOF_LEDGER says the same for every command.
    #[arg(long, value_name = "DIR", env = "WARPPROOF_LEDGER", hide_env = true)]
    ledger: Option<PathBuf>,
}

impl LedgerFlags {
    pub(crate) fn directory(&self) -> PathBuf {
        self.ledger.clone().unwrap_or_else(|| PathBuf::from(".warpproof/ledger"))
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

/// What NVIDIA's compilers know, from the first with independent threads on.
const ARCHITECTURES: [&str; 15] =
    ["70", "72", "75", "80", "86", "87", "88", "89", "90", "100", "101", "103", "110", "120", "121"];

/// Reads `sm_89`, `compute_89` or `89`, with the suffix `a` or `f` where there is one.
pub(crate) fn architecture(text: &str) -> Result<String, String> {
    let number = text.strip_prefix("sm_").or_else(|| text.strip_prefix("compute_")).unwrap_or(text);
    let digits = number.strip_suffix(['a', 'f']).unwrap_or(number);
    if ARCHITECTURES.contains(&digits) {
        return Ok(format!("sm_{number}"));
    }
    Err(format!("no such architecture; there are sm_{}", ARCHITECTURES.join(", sm_")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn architectures_are_read() {
        for (text, arch) in
            [("sm_89", "sm_89"), ("compute_80", "sm_80"), ("90a", "sm_90a"), ("sm_120f", "sm_120f")]
        {
            assert_eq!(architecture(text).as_deref(), Ok(arch));
        }
        for text in ["sm_999", "", "ada", "sm_8", "sm_-1", "sm_89aa", "a"] {
            assert!(architecture(text).unwrap_err().contains("there are sm_70, sm_72, "), "{text}");
        }
    }
}
