//! The command line: flags, rendering, exit codes, progress.
//!
//! A command is one file under `commands/` and one line in `commands.rs`. A command reports problems of a kernel
//! or a machine as [`report::Report`]s, which one module renders as text and as JSON.
#![forbid(unsafe_code)]

mod commands;
pub mod program;
pub mod report;
mod source;
pub mod terminal;
mod watch;

use std::process::ExitCode;

use clap::Parser;

use terminal::Terminal;

/// Find bugs in CUDA kernels without a GPU; evaluate candidates up to a verdict
#[derive(Debug, Parser)]
#[command(
    name = "warpproof",
    version,
    disable_help_subcommand = true,
    max_term_width = 100,
    after_help = "Exit codes: 0 success · 1 the kernel failed a check or does not compile · 2 usage or missing input · \
                  3 unsupported by warpproof · 4 limit reached · 5 inconclusive · 101 a bug in warpproof"
)]
struct Cli {
    /// Print results and errors only: no summary, no progress, no warnings
    #[arg(long, short, global = true)]
    quiet: bool,
    #[command(subcommand)]
    command: commands::Command,
}

/// Runs the program on the process's arguments. A release build contains the CUDA driver library of `exec`.
pub fn run(driver: Option<&'static [u8]>) -> ExitCode {
    report::explain_panics();
    commands::exec::carry(driver);
    let cli = Cli::parse();
    let mut terminal = Terminal::new().quiet(cli.quiet);
    cli.command.run(&mut terminal).into()
}
