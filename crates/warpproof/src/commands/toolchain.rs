//! `warpproof toolchain`: installs, lists and removes NVIDIA's compiler.

use clap::{Args, Subcommand, ValueEnum};
use serde_json::json;
use warpproof_toolchain::{
    CudaSet, Environment, InstallError, NVCC, Progress, Purpose, install, installed, remove,
};

use super::flags::JsonFlag;
use crate::report::{Kind, Outcome, Report};
use crate::terminal::Terminal;

/// Install, list or remove NVIDIA's compiler
#[derive(Debug, Args)]
pub(crate) struct Toolchain {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Install NVIDIA's compiler wheels in the cache, with pinned versions and hashes
    ///
    /// Requires Linux, pip or uv, and about 350 MB per release; no GPU, no driver, no root. The wheels are NVIDIA's,
    /// under NVIDIA's license. The cache is WARPPROOF_CACHE, or `warpproof` in XDG_CACHE_HOME or ~/.cache.
    Install {
        /// Which release [default: 12, or none with --nvcc]
        #[arg(long, value_name = "WHICH")]
        cuda: Option<Which>,
        /// Install nvcc, which compiles whole CUDA programs; `warpproof nvcc` runs it
        #[arg(long)]
        nvcc: bool,
    },
    /// List installed releases
    List {
        #[command(flatten)]
        json: JsonFlag,
    },
    /// Remove installed releases
    Remove {
        /// Which release [default: both, and nvcc]
        #[arg(long, value_name = "WHICH")]
        cuda: Option<Which>,
        /// Remove nvcc
        #[arg(long)]
        nvcc: bool,
    },
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Which {
    /// CUDA 12
    #[value(name = "12")]
    Twelve,
    /// CUDA 13
    #[value(name = "13")]
    Thirteen,
    /// Both
    Both,
}

impl Which {
    fn majors(self) -> &'static [u32] {
        match self {
            Self::Twelve => &[12],
            Self::Thirteen => &[13],
            Self::Both => &[12, 13],
        }
    }
}

impl Toolchain {
    pub(crate) fn run(&self, terminal: &mut Terminal) -> Outcome {
        let environment = Environment::read();
        match self.action {
            Action::Install { cuda, nvcc } => {
                let cuda = cuda.or(if nvcc { None } else { Some(Which::Twelve) });
                let majors = cuda.map(Which::majors).unwrap_or_default();
                let sets = majors.iter().filter_map(|major| CudaSet::of_major(*major));
                for set in sets.chain(nvcc.then_some(&NVCC)) {
                    if let Err(error) = install_one(terminal, &environment, set) {
                        return stopped(terminal, &error);
                    }
                }
                Outcome::Green
            }
            Action::List { json } => {
                list(terminal, &environment, json.wanted);
                Outcome::Green
            }
            Action::Remove { cuda, nvcc } => {
                let all = cuda.is_none() && !nvcc;
                let cuda = cuda.or(all.then_some(Which::Both));
                let majors = cuda.map(Which::majors).unwrap_or_default().iter();
                let kernels = majors.map(|major| (Purpose::Kernels, *major));
                let programs = (nvcc || all).then_some((Purpose::Programs, NVCC.version.major));
                for (purpose, major) in kernels.chain(programs) {
                    let name = purpose.name();
                    match remove(&environment, purpose, major) {
                        Ok(true) => terminal.print(format_args!("removed {name} {major}\n")),
                        Ok(false) => terminal.print(format_args!("{name} {major} is not installed\n")),
                        Err(error) => return stopped(terminal, &error),
                    }
                }
                Outcome::Green
            }
        }
    }
}

fn install_one(
    terminal: &mut Terminal,
    environment: &Environment,
    set: &CudaSet,
) -> Result<(), InstallError> {
    let bar = terminal.progress();
    bar.count_bytes(set.bytes);
    let name = set.purpose.name();
    bar.set_message(format!("installing {name} {}", set.version));
    let result = install(environment, set, &mut |Progress { done, .. }| bar.set_position(done));
    bar.finish_and_clear();
    let state = if result? { "installed" } else { "already installed" };
    let place = installed(environment)
        .into_iter()
        .find(|found| (found.purpose, found.version) == (set.purpose, set.version));
    let place =
        place.map(|found| format!(" in {} ({})", found.path, megabytes(found.bytes))).unwrap_or_default();
    terminal.print(format_args!("{name} {} {state}{place}\n", set.version));
    Ok(())
}

fn list(terminal: &mut Terminal, environment: &Environment, json: bool) {
    let sets = installed(environment);
    if json {
        let sets: Vec<_> = sets
            .iter()
            .map(|set| {
                let wheels: serde_json::Map<_, _> =
                    set.wheels.iter().map(|(name, version)| (name.clone(), json!(version))).collect();
                json!({ "name": set.purpose.name(), "cuda": set.version, "path": set.path, "bytes": set.bytes, "wheels": wheels })
            })
            .collect();
        terminal.json(&json!({ "schema": "warpproof.toolchain-list/1", "sets": sets }));
        return;
    }
    if sets.is_empty() {
        terminal
            .print("nothing is installed; run `warpproof toolchain install` to install NVIDIA's compiler\n");
    }
    for set in sets {
        let name = set.purpose.name();
        terminal.print(format_args!("{name} {}  {}  {}\n", set.version, megabytes(set.bytes), set.path));
        for (name, version) in set.wheels {
            terminal.print(format_args!("  {name} {version}\n"));
        }
    }
}

fn megabytes(bytes: u64) -> String {
    format!("{} MB", bytes.div_ceil(1_000_000))
}

fn stopped(terminal: &mut Terminal, error: &InstallError) -> Outcome {
    let report = Report::error(Kind::Missing, error.to_string());
    let report = match error {
        InstallError::System(_) => report.help(
            "compile on Linux (or in a container) and pass the .ptx file to warpproof instead of the .cu file",
        ),
        InstallError::NoInstaller => report.help("install Python's pip, or uv, and run the command again"),
        InstallError::Offline { place, .. } => report
            .note("nothing was installed; partial files were removed", None)
            .help(format!(
                "run the command again when online, or copy {} from a machine that has it, or point \
                 WARPPROOF_TOOLCHAIN to an installed CUDA toolkit",
                place.display()
            )),
        InstallError::WrongHash(_) => report.help("check which package index pip is set up to use (`pip config list`)"),
        InstallError::NoCache | InstallError::Failed(_) | InstallError::Broken(_) | InstallError::Io(..) => report,
    };
    terminal.report(&report);
    Outcome::Stopped(report.kind)
}
