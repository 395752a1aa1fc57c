//! The command line: flags, rendering, exit codes, progress.
//!
//! A command is one file under `commands/` and its line in `commands.rs`. What a command has to say about a kernel
//! or a machine is a [`report::Report`], rendered in one place as text and as JSON.
#![forbid(unsafe_code)]

mod commands;
pub mod report;
mod source;
pub mod terminal;
mod watch;

use std::process::ExitCode;

use clap::Parser;

use terminal::Terminal;

/// Checks CUDA kernels without a GPU: green before fast.
#[derive(Debug, Parser)]
#[command(
    name = "warpproof",
    version,
    disable_help_subcommand = true,
    max_term_width = 100,
    after_help = "Exit codes: 0 green · 1 the kernel failed a check or does not compile · 2 usage or missing input · \
                  3 unsupported by warpproof · 4 limit reached · 5 inconclusive · 101 a bug of warpproof"
)]
struct Cli {
    /// Print results and errors only: no summary, no progress, no warnings
    #[arg(long, short, global = true)]
    quiet: bool,
    #[command(subcommand)]
    command: commands::Command,
}

/// Runs the program on the process's arguments.
pub fn run() -> ExitCode {
    report::explain_panics();
    let cli = Cli::parse();
    let mut terminal = Terminal::new().quiet(cli.quiet);
    cli.command.run(&mut terminal).into()
}
