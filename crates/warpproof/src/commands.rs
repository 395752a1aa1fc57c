//! The commands. To add one: a file beside the others with an `Args` struct that has
//! `fn run(&self, terminal: &mut Terminal) -> Outcome`, and its two lines here.

mod build;
mod check;
mod claims;
mod completions;
mod counters;
mod device;
mod device_runner;
mod doctor;
mod evaluate;
mod evidence;
mod exec;
mod explain;
mod export;
pub(crate) mod flags;
mod fleet;
mod gate;
mod init;
mod ladder;
mod launch;
mod limits;
mod log;
mod note;
mod report;
mod run;
mod selftest;
mod serve;
mod show;
mod toolchain;
mod tune;
mod verify;
mod work;

use crate::report::Outcome;
use crate::terminal::Terminal;

macro_rules! commands {
    ($($module:ident::$Command:ident),* $(,)?) => {
        /// What to do.
        #[derive(Debug, clap::Subcommand)]
        pub(crate) enum Command {
            $(
                $Command($module::$Command),
            )*
        }

        impl Command {
            /// Does it.
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
    explain::Explain,
    counters::Counters,
    ladder::Ladder,
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
    device_runner::DeviceRunner,
    serve::Serve,
    work::Work,
    fleet::Fleet,
    evaluate::Evaluate,
];
