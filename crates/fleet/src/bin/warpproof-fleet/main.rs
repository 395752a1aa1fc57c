//! The `warpproof-fleet` program: a fleet's server, its workers, and the administration of its tokens.
#![forbid(unsafe_code)]

mod administration;
mod evaluate;
mod serve;
mod worker;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use warpproof::program::DeviceRunner;
use warpproof::terminal::Terminal;

/// Serve a fleet, work for one, and manage its tokens.
#[derive(Debug, Parser)]
#[command(
    name = "warpproof-fleet",
    version,
    disable_help_subcommand = true,
    max_term_width = 100,
    after_help = "`warpproof gate --fleet URL` submits candidates; `warpproof fleet` shows runs and moves ledgers."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Serve(serve::Serve),
    Worker(worker::Worker),
    Token(administration::Token),
    Tokens(administration::Tokens),
    Revoke(administration::Revoke),
    Retain(administration::Retain),
    Evaluate(evaluate::Evaluate),
    DeviceRunner(DeviceRunner),
}

fn main() -> ExitCode {
    warpproof::report::explain_panics();
    let cli = Cli::parse();
    let quiet = matches!(&cli.command, Command::Worker(worker) if worker.quiet);
    let terminal = &mut Terminal::new().quiet(quiet);
    let outcome = match &cli.command {
        Command::Serve(serve) => serve.run(terminal),
        Command::Worker(worker) => worker.run(terminal),
        Command::Token(token) => token.run(terminal),
        Command::Tokens(tokens) => tokens.run(terminal),
        Command::Revoke(revoke) => revoke.run(terminal),
        Command::Retain(retain) => retain.run(terminal),
        Command::Evaluate(evaluate) => evaluate.run(terminal),
        Command::DeviceRunner(runner) => runner.run(terminal),
    };
    outcome.into()
}
