//! The commands. To add one: add a file next to the others with an `Args` struct that has
//! `fn run(&self, terminal: &mut Terminal) -> Outcome`, and two lines here.

mod attention;
mod bench;
mod build;
mod check;
mod claims;
mod completions;
mod counters;
mod device;
pub(crate) mod device_runner;
mod diff;
mod doctor;
mod evidence;
pub(crate) mod exec;
mod explain;
mod export;
pub(crate) mod flags;
pub(crate) mod fleet;
mod fragments;
pub(crate) mod gate;
mod init;
mod launch;
mod limits;
mod log;
mod note;
mod nvcc;
mod report;
mod run;
mod selftest;
mod show;
mod toolchain;
mod tune;
mod verify;

use crate::report::Outcome;
use crate::terminal::Terminal;

macro_rules! commands {
    ($($module:ident::$Command:ident),* $(,)?) => {
        /// The command to run.
        #[derive(Debug, clap::Subcommand)]
        pub(crate) enum Command {
            $(
                $Command($module::$Command),
            )*
        }

        impl Command {
            /// Runs the command.
            pub(crate) fn run(&self, terminal: &mut Terminal) -> Outcome {
                match self {
                    $(Self::$Command(command) => command.run(terminal),)*
                }
            }
        }
    };
}

commands![
    build::Build,
    run::Run,
    check::Check,
    exec::Exec,
    nvcc::Nvcc,
    explain::Explain,
    counters::Counters,
    diff::Diff,
    fragments::Fragments,
    init::Init,
    gate::Gate,
    tune::Tune,
    report::Report,
    log::Log,
    show::Show,
    verify::Verify,
    export::Export,
    note::Note,
    claims::Claims,
    doctor::Doctor,
    completions::Completions,
    selftest::Selftest,
    toolchain::Toolchain,
    attention::Attention,
    bench::Bench,
    device_runner::DeviceRunner,
    fleet::Fleet,
    fleet::Serve,
    fleet::Work,
];
