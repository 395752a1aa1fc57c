//! `warpproof completions`: prints shell completions.

use clap::{Args, CommandFactory};
use clap_complete::{Shell, generate};

use super::flags::{OutputFlags, ended};
use crate::report::Outcome;
use crate::terminal::Terminal;

/// Print completions for a shell
///
///   warpproof completions bash > ~/.local/share/bash-completion/completions/warpproof
///   warpproof completions zsh > "${fpath[1]}/_warpproof"
///   warpproof completions fish > ~/.config/fish/completions/warpproof.fish
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Completions {
    /// The shell
    #[arg(value_enum, value_name = "SHELL")]
    shell: Shell,
    #[command(flatten)]
    output: OutputFlags,
}

impl Completions {
    pub(crate) fn run(&self, terminal: &mut Terminal) -> Outcome {
        let mut text = Vec::new();
        generate(self.shell, &mut crate::Cli::command(), "warpproof", &mut text);
        ended(self.output.put(&text).map(|()| Outcome::Green), terminal)
    }
}
