//! Tasks of the repository: `cargo xtask help`.
//!
//! A new task is one file that holds the work and one entry of `tasks!` below.
#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a task prints to the terminal")]

use std::{
    num::NonZeroUsize,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use clap::{Parser, Subcommand};

use part::Part;

mod attention;
mod attention_library;
mod bench;
mod book;
mod ci;
mod corpus;
mod dispatch;
mod dist;
mod driver_api;
mod ecosystem;
mod findings;
mod fleet_api;
mod fleet_faults;
mod fuzz;
mod hopper;
mod instructions;
mod kernels;
mod kills;
mod latencies;
mod model;
mod mutants;
mod part;
mod plain;
mod program;
mod python;
mod readme;
mod rungs;
mod runtime_functions;
mod section;
mod tidy;
mod tune;
mod ui;
mod wheel;

/// Each entry is a subcommand: its help, its arguments, and the function that runs it.
macro_rules! tasks {
    ($($(#[$about:meta])* $name:ident { $($(#[$arg:meta])* $field:ident: $type:ty,)* } => $work:expr,)*) => {
        #[derive(Subcommand)]
        enum Task {
            $($(#[$about])* $name { $($(#[$arg])* $field: $type,)* },)*
        }

        fn perform(task: Task) -> Result<(), String> {
            match task {
                $(Task::$name { $($field,)* } => $work,)*
            }
        }
    };
}

tasks! {
    /// Run the checks, the tests of changed packages, and a sample of each study whose inputs changed
    Ci {
        /// Run every test and a sample of every study, as each landing does
        #[arg(long, conflicts_with = "full")]
        proof: bool,
        /// Run everything, as the nightly workflow does
        #[arg(long)]
        full: bool,
        /// Run only these steps, separated by commas, even if they passed before
        #[arg(long, value_delimiter = ',')]
        only: Vec<String>,
    } => {
        let tier = if full { ci::Tier::Night } else if proof { ci::Tier::Proof } else { ci::Tier::Answer };
        ci::run(&ci::Asked { tier, only: &only })
    },

    /// Build the Python wheel and test it in fresh environments
    Python {} => python::run(&Part::whole()).map(drop),

    /// Build wheels, archives, checksums and an SBOM of a release into target/dist
    Dist {
        /// Only this architecture; may be repeated [default: all]
        #[arg(long = "target", value_name = "ARCH", value_enum)]
        targets: Vec<dist::Arch>,
        /// Fail unless this git tag names the version of Cargo.toml
        #[arg(long)]
        tag: Option<String>,
    } => dist::run(&targets, tag.as_deref()),

    /// Check rules that no compiler checks: file names and sizes, machine paths, unsafe, words, links
    Tidy {} => tidy::run(),

    /// Parse and print every PTX module of the corpus; ptxas must compile both texts to the same code
    Corpus {
        /// Only modules whose name contains this
        #[arg(long)]
        filter: Option<String>,
        /// Modules processed in parallel [default: number of cores]
        #[arg(long)]
        jobs: Option<NonZeroUsize>,
    } => corpus::run(&Part::whole(), filter.as_deref(), jobs.map_or_else(cores, NonZeroUsize::get)).map(drop),

    /// Kill runs of the gate at 300 points and verify that resumed runs give the same verdicts
    Kills {} => kills::run(),

    /// Kill workers, servers and databases of a fleet; verify that every job completes exactly once
    FleetFaults {
        /// Only tests whose name contains this
        only: Option<String>,
    } => fleet_faults::run(only.as_deref()),

    /// Test the fleet's server with an OpenAPI fuzzer and with an S3-compatible store
    FleetApi {
        /// Minutes for which the fuzzer sends requests
        #[arg(long, default_value_t = 10.0)]
        minutes: f64,
    } => fleet_api::run(minutes),

    /// Run a fuzz target
    Fuzz {
        /// The target: a file of fuzz/targets, without its extension
        target: String,
        /// Seconds to run
        #[arg(long, default_value_t = 60)]
        seconds: u64,
    } => fuzz::run(&target, seconds),

    /// Compare every rung of the attention ladder with its oracles, and run it under the checks
    Attention {
        /// Run fewer shapes and one seed: minutes instead of half an hour
        #[arg(long)]
        quick: bool,
        /// Only the rung of this id
        #[arg(long)]
        rung: Option<String>,
        /// Write the book's table of errors and its page; with --quick, only the page, from the table
        #[arg(long)]
        bless: bool,
    } => attention::run(&Part::whole(), quick, rung.as_deref(), bless).map(drop),

    /// Count the instructions of each rung of the attention ladder; compare the book's table
    Rungs {
        /// Write the table instead of comparing
        #[arg(long)]
        bless: bool,
    } => rungs::run(&Part::whole(), bless).map(drop),

    /// Call the attention library from C, Rust and PyTorch on the software GPU, and compare it with the oracles
    AttentionLibrary {} => attention_library::run(&Part::whole()).map(drop),

    /// Compile the kernels of the attention library; compare its files
    Kernels {
        /// Write the files instead of comparing
        #[arg(long)]
        bless: bool,
    } => kernels::run(bless).map(drop),

    /// Predict the time of each rung for each shape; compare the table that dispatch reads
    Dispatch {
        /// Write the table instead of comparing
        #[arg(long)]
        bless: bool,
    } => in_release(if bless { &["dispatch", "--bless"] } else { &["dispatch"] }, || dispatch::run(bless)),

    /// Search a space exhaustively and by evolution; compare the book's table of results
    Tune {
        /// Write the table instead of comparing
        #[arg(long)]
        bless: bool,
    } => in_release(if bless { &["tune", "--bless"] } else { &["tune"] }, || tune::run(&Part::whole(), bless).map(drop)),

    /// Compare the driver's list of functions and versions with CUDA's headers
    DriverApi {
        /// Write the lists instead of comparing
        #[arg(long)]
        bless: bool,
    } => driver_api::run(bless),

    /// Run published packages on the driver; compare the book's table of what ran
    Ecosystem {
        /// Write the table instead of comparing
        #[arg(long)]
        bless: bool,
    } => ecosystem::run(&Part::whole(), bless).map(drop),

    /// Measure speed
    Bench {
        #[command(subcommand)]
        what: Bench,
    } => match what {
        Bench::Parse { json } => bench::run("parse", json),
        Bench::Sim { json } => bench::run("sim", json),
        Bench::Checks { json } => bench::run("checks", json),
        Bench::Counters { json } => bench::run("counters", json),
        Bench::Driver { json } => bench::run("driver", json),
        Bench::Exec { json } => bench::run("exec", json),
        Bench::Kernels(asked) => {
            let task = asked.task();
            in_release(&task.iter().map(String::as_str).collect::<Vec<_>>(), || bench::kernels::run(&asked))
        }
        Bench::Profile { filter, bless } => bench::kernels::profile(filter.as_deref(), bless),
        Bench::Fleet { evaluations, bless } => bench::fleet::run(evaluations, bless),
    },

    /// Run the README's commands and compare their output
    Readme {
        /// Write what the commands print into the README instead of comparing
        #[arg(long)]
        bless: bool,
        /// Install the debug build instead of compiling a release build (used in CI)
        #[arg(long)]
        built: bool,
    } => readme::run(bless, built),

    /// Compare the PTX of the UI suite with what NVRTC compiles from its kernels
    Ui {
        /// Write the PTX and the reports of `warpproof check` instead of comparing
        #[arg(long)]
        bless: bool,
        /// Only kernels whose name contains this
        filter: Option<String>,
    } => ui::run(bless, filter.as_deref()),

    /// Run the commands that the book's pages show, and compare their output
    Book {
        /// Write what the commands print into the pages instead of comparing
        #[arg(long)]
        bless: bool,
    } => book::run(&Part::whole(), bless).map(drop),

    /// Check every kernel of `tests/fail`, and compare the book's table of findings
    Findings {
        /// Write the table instead of comparing
        #[arg(long)]
        bless: bool,
    } => findings::run(&Part::whole(), bless).map(drop),

    /// Make correct kernels wrong, one change at a time, and count which changes the checks find
    Mutants {
        /// Write the book's page instead of comparing
        #[arg(long)]
        bless: bool,
        /// Print the outcome of each mutant
        #[arg(long)]
        list: bool,
        /// Only kernels whose name contains this
        filter: Option<String>,
    } => mutants::run(&Part::whole(), bless, filter.as_deref(), list).map(drop),

    /// Run our own kernels for Hopper against exact results, and count which changes of them the checks find
    Hopper {
        /// Write the book's page instead of comparing
        #[arg(long)]
        bless: bool,
        /// Print the outcome of each mutant
        #[arg(long)]
        list: bool,
        /// Only run the kernels, without mutants
        #[arg(long)]
        sound: bool,
        /// Only kernels whose name begins with this
        filter: Option<String>,
    } => hopper::run(&Part::whole(), hopper::Generation::Hopper, bless, filter.as_deref(), list, sound).map(drop),
    /// Run our own kernels for Blackwell against exact results, and count which changes of them the checks find
    Blackwell {
        /// Write the book's page instead of comparing
        #[arg(long)]
        bless: bool,
        /// Print the outcome of each mutant
        #[arg(long)]
        list: bool,
        /// Only run the kernels, without mutants
        #[arg(long)]
        sound: bool,
        /// Only kernels whose name begins with this
        filter: Option<String>,
    } => hopper::run(&Part::whole(), hopper::Generation::Blackwell, bless, filter.as_deref(), list, sound).map(drop),

    /// Compare random kernels with and without the fast paths of the software GPU
    Plain {
        /// Kernels to compare [default: 100000]
        #[arg(long)]
        kernels: Option<u64>,
        /// The seed of the first kernel
        #[arg(long, default_value_t = 0)]
        seed: u64,
    } => plain::run(&Part::whole(), kernels, seed).map(drop),

    /// Join the instruction table with the tests that execute it; compare the book's page
    Instructions {
        /// Write the page instead of comparing
        #[arg(long)]
        bless: bool,
    } => instructions::run(bless),

    /// Join the functions of the CUDA runtime with the programs that test them; compare the book's page
    RuntimeFunctions {
        /// Write the page instead of comparing
        #[arg(long)]
        bless: bool,
    } => runtime_functions::run(bless),

    /// Read latencies and issue intervals from ptxas' stall counts; compare the model's table
    Latencies {
        /// Write the table instead of comparing
        #[arg(long)]
        bless: bool,
    } => latencies::run(&Part::whole(), bless).map(drop),

    /// Predict kernels with published times, and compare the book's page with the predictions
    Model {
        /// Write the page instead of comparing
        #[arg(long)]
        bless: bool,
    } => model::run(&Part::whole(), bless).map(drop),
}

#[derive(Subcommand)]
enum Bench {
    /// Speed of the PTX parser over the joined corpus, on one core
    Parse {
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Speed of the software GPU: warp instructions, matrix products and whole kernels per second
    Sim {
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Speed of the kernels that people run: unchecked, checked and counted, with ratios
    Kernels(bench::kernels::Asked),
    /// Instructions of the host in the runs of `bench kernels`, by part of the software GPU; needs valgrind
    Profile {
        /// Only kernels whose name contains this
        filter: Option<String>,
        /// Write the pictures, and without a filter the table, into the book
        #[arg(long)]
        bless: bool,
    },
    /// How a fleet scales with queue length and workers, on a PostgreSQL server of its own
    Fleet {
        /// Evaluations for each number of workers
        #[arg(long, default_value_t = 1_000)]
        evaluations: u32,
        /// Write the measurements into docs/scale.md
        #[arg(long)]
        bless: bool,
    },
    /// Cost of the checks: ratio of checked to unchecked time, and bytes of shadow memory
    Checks {
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Cost of a launch through the driver, compared with a direct call of the software GPU
    Driver {
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Cost of 10,000 small launches under `warpproof exec`, compared with direct calls of the software GPU
    Exec {
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Cost of the counters: ratio of counted to uncounted time
    Counters {
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
}

/// Tasks of the Warpproof repository
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

fn main() -> ExitCode {
    match perform(Cli::parse().task) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
    }
}

/// The root of the checkout this program was built from.
fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().unwrap_or(manifest).to_path_buf()
}

/// Runs a task in the release build. `cargo xtask` itself is an unoptimized build, so it starts cargo again.
fn in_release(task: &[&str], work: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
    if cfg!(not(debug_assertions)) {
        return work();
    }
    announce_release();
    let status = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .current_dir(root())
        .args(["run", "--quiet", "--locked", "--release", "--package", "xtask", "--"])
        .args(task)
        .status()
        .map_err(|error| format!("cannot run cargo: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("`xtask {}` failed", task.join(" "))) }
}

/// Announces a release build, which prints nothing for minutes.
fn announce_release() {
    eprintln!("building for release: this takes minutes if sources have changed");
}

/// Cargo's target directory, as an absolute path.
fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), |path| root().join(path))
}

/// Cores this process may use.
fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, NonZeroUsize::get)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
