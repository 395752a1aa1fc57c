//! `warpproof fleet`: user commands of a fleet; and `--fleet` of other commands.
//!
//! The flags are the same in every build. Without the feature `fleet` the client is not compiled in, and each of them reports
//! the command that installs it.

#[cfg(feature = "fleet")]
pub(crate) mod client;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::flags::{LedgerFlags, ended};
use crate::report::{Kind, Outcome, Report};
use crate::terminal::Terminal;

/// The trusted certificate authorities.
#[derive(Debug, Args)]
pub struct AuthorityFlags {
    /// Trust the certificate authorities in this PEM file [default: the system's]
    #[arg(long, value_name = "FILE")]
    fleet_ca: Option<PathBuf>,
}

/// The fleet that evaluates instead of this machine.
#[derive(Debug, Args)]
pub(crate) struct FleetFlags {
    /// Evaluate on this fleet and fetch its records; set WARPPROOF_FLEET_TOKEN
    #[arg(long, value_name = "URL", conflicts_with = "jobs")]
    fleet: Option<String>,
    /// Measure on a fleet device of this name; `warpproof fleet status` lists them
    #[arg(long, value_name = "NAME", requires = "fleet", conflicts_with = "gpu")]
    device: Option<String>,
    #[command(flatten)]
    authorities: AuthorityFlags,
}

impl FleetFlags {
    /// Whether a fleet evaluates.
    pub(crate) fn is_wanted(&self) -> bool {
        self.fleet.is_some()
    }
}

/// Query a fleet: status, runs, import and export of its ledger
///
/// `warpproof-fleet` serves a fleet, works for one, and manages its tokens.
///
/// Exit codes: 0 done · 2 the fleet refuses or cannot be reached · 4 a limit of the fleet.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Fleet {
    /// Use the fleet at this URL
    #[arg(long = "fleet", value_name = "URL")]
    url: Option<String>,
    #[command(flatten)]
    authorities: AuthorityFlags,
    /// Print JSON; the field `schema` names the format
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Show the queue and the workers
    Status,
    /// List the newest runs: task, version, submitter, verdicts
    Runs {
        /// List at most N runs
        #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
        limit: u32,
    },
    /// Send a local ledger to the fleet
    Import {
        #[command(flatten)]
        ledger: LedgerFlags,
    },
    /// Fetch the fleet's whole ledger
    Export {
        #[command(flatten)]
        ledger: LedgerFlags,
    },
    /// Moved to `warpproof-fleet serve`
    #[command(hide = true)]
    Serve(Moved),
    /// Moved to `warpproof-fleet worker`
    #[command(hide = true, alias = "work")]
    Worker(Moved),
    /// Moved to `warpproof-fleet token`
    #[command(hide = true)]
    Token(Moved),
    /// Moved to `warpproof-fleet tokens`
    #[command(hide = true)]
    Tokens(Moved),
    /// Moved to `warpproof-fleet revoke`
    #[command(hide = true)]
    Revoke(Moved),
    /// Moved to `warpproof-fleet retain`
    #[command(hide = true)]
    Retain(Moved),
}

impl What {
    /// The command of `warpproof-fleet` that does this now.
    fn moved(&self) -> Option<&'static str> {
        match self {
            Self::Status | Self::Runs { .. } | Self::Import { .. } | Self::Export { .. } => None,
            Self::Serve(_) => Some("serve"),
            Self::Worker(_) => Some("worker"),
            Self::Token(_) => Some("token"),
            Self::Tokens(_) => Some("tokens"),
            Self::Revoke(_) => Some("revoke"),
            Self::Retain(_) => Some("retain"),
        }
    }
}

/// The arguments of a command that moved to `warpproof-fleet`. They are not read.
#[derive(Debug, Args)]
struct Moved {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    _arguments: Vec<OsString>,
}

/// The report of a command that moved.
fn moved(command: &str) -> Box<Report> {
    let sentence = format!("expected `warpproof-fleet {command}`: the command moved to a separate program");
    Box::new(Report::error(Kind::Usage, sentence).help("install it with `cargo install warpproof-fleet`"))
}

/// The report of a build without a client.
#[cfg(not(feature = "fleet"))]
pub(crate) fn absent() -> Box<Report> {
    let report = Report::error(Kind::Usage, "this build of warpproof does not include the fleet client");
    Box::new(report.help("install it with `cargo install warpproof --features fleet`"))
}

impl Fleet {
    pub(crate) fn run(&self, terminal: &mut Terminal) -> Outcome {
        let done = match self.what.moved() {
            Some(command) => Err(moved(command)),
            None => self.ask(terminal),
        };
        ended(done, terminal)
    }

    #[cfg(not(feature = "fleet"))]
    #[expect(clippy::unused_self, reason = "with the client it reads the flags")]
    fn ask(&self, _: &mut Terminal) -> Result<Outcome, Box<Report>> {
        Err(absent())
    }
}

/// Moved to `warpproof-fleet serve`
#[derive(Debug, Args)]
#[command(hide = true)]
pub(crate) struct Serve {
    #[command(flatten)]
    _moved: Moved,
}

impl Serve {
    #[expect(clippy::unused_self, reason = "every command has it")]
    pub(crate) fn run(&self, terminal: &mut Terminal) -> Outcome {
        ended(Err(moved("serve")), terminal)
    }
}

/// Moved to `warpproof-fleet worker`
#[derive(Debug, Args)]
#[command(hide = true)]
pub(crate) struct Work {
    #[command(flatten)]
    _moved: Moved,
}

impl Work {
    #[expect(clippy::unused_self, reason = "every command has it")]
    pub(crate) fn run(&self, terminal: &mut Terminal) -> Outcome {
        ended(Err(moved("worker")), terminal)
    }
}
