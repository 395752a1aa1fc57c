//! Tasks of the repository: `cargo xtask help`.
//!
//! A new task is one file that holds the work and one entry of `tasks!` below.
#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a task speaks to the terminal")]

use std::{
    num::NonZeroUsize,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use clap::{Parser, Subcommand};

mod attention;
mod bench;
mod book;
mod ci;
mod corpus;
mod dispatch;
mod driver_api;
mod ecosystem;
mod findings;
mod fleet_api;
mod fleet_faults;
mod fuzz;
mod instructions;
mod kills;
mod latencies;
mod model;
mod mutants;
mod program;
mod readme;
mod rungs;
mod section;
mod tidy;
mod tune;
mod ui;

/// Each entry is a subcommand: its help, its arguments, and the function that does it.
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
    /// Run the checks, the tests, and the studies whose inputs changed since they passed
    Ci {
        /// Run only these steps, separated by commas, known or not
        #[arg(long, value_delimiter = ',')]
        only: Vec<String>,
        /// Run every study, known or not
        #[arg(long, conflicts_with = "only")]
        full: bool,
        /// Write the keys of the studies that pass to xtask/known.toml
        #[arg(long)]
        stamp: bool,
        /// Print which steps would run, and run none
        #[arg(long)]
        plan: bool,
        /// Remove what a step leaves for its next run: for machines with a small disk
        #[arg(long)]
        discard: bool,
    } => ci::run(&ci::Asked { only: &only, full, stamp, plan, discard }),

    /// House rules that no compiler checks: file names and sizes, machine paths, unsafe, arrows, links
    Tidy {} => tidy::run(),

    /// Parses and prints every PTX module of the corpus, and compares what ptxas makes of both texts
    Corpus {
        /// Only modules whose name contains this
        #[arg(long)]
        filter: Option<String>,
        /// Modules at a time; as many as there are cores when left out
        #[arg(long)]
        jobs: Option<NonZeroUsize>,
    } => corpus::run(filter.as_deref(), jobs.map_or_else(cores, NonZeroUsize::get)),

    /// Kills runs of the gate at 300 moments: nothing is lost, and resuming gives the same verdicts
    Kills {} => kills::run(),

    /// Kills workers, servers and databases of a fleet behind a hostile network: every job completes, once
    FleetFaults {
        /// Only tests whose name contains this
        only: Option<String>,
    } => fleet_faults::run(only.as_deref()),

    /// Programs of others against the fleet's server: a fuzzer of its description, and a store that speaks S3
    FleetApi {
        /// How long the fuzzer asks
        #[arg(long, default_value_t = 10.0)]
        minutes: f64,
    } => fleet_api::run(minutes),

    /// Runs a fuzz target
    Fuzz {
        /// The target: parse or roundtrip
        target: String,
        /// How long
        #[arg(long, default_value_t = 60)]
        seconds: u64,
    } => fuzz::run(&target, seconds),

    /// Runs every rung of the attention ladder against its oracles and under the checks
    Attention {
        /// A part that takes minutes instead of half an hour: fewer shapes, one seed
        #[arg(long)]
        quick: bool,
        /// Only the rung of this id
        #[arg(long)]
        rung: Option<String>,
        /// Write the book's table of errors, from all shapes, seeds and distributions; with --quick, its page from the table
        #[arg(long)]
        bless: bool,
    } => attention::run(quick, rung.as_deref(), bless),

    /// Counts what each rung of the attention ladder does, and compares the book's table with it
    Rungs {
        /// Write the table instead of comparing
        #[arg(long)]
        bless: bool,
    } => rungs::run(bless),

    /// Predicts the rungs that a shape could get, and compares the table that dispatch reads
    Dispatch {
        /// Write the table instead of comparing
        #[arg(long)]
        bless: bool,
    } => in_release(if bless { &["dispatch", "--bless"] } else { &["dispatch"] }, || dispatch::run(bless)),

    /// Searches a space whole and by evolution, and compares the book's table of what each seed found
    Tune {
        /// Write the table instead of comparing
        #[arg(long)]
        bless: bool,
    } => in_release(if bless { &["tune", "--bless"] } else { &["tune"] }, || tune::run(bless)),

    /// Reads CUDA's headers, and compares the driver's list of functions and of their versions with them
    DriverApi {
        /// Write the lists instead of comparing
        #[arg(long)]
        bless: bool,
    } => driver_api::run(bless),

    /// Runs programs of others on the driver, from their registries, and compares the book's table of what ran
    Ecosystem {
        /// Write the table instead of comparing
        #[arg(long)]
        bless: bool,
    } => ecosystem::run(bless),

    /// Measures
    Bench {
        #[command(subcommand)]
        what: Bench,
    } => match what {
        Bench::Parse { json } => bench::run("parse", json),
        Bench::Sim { json } => bench::run("sim", json),
        Bench::Checks { json } => bench::run("checks", json),
        Bench::Counters { json } => bench::run("counters", json),
        Bench::Driver { json } => bench::run("driver", json),
        Bench::Fleet { evaluations, bless } => bench::fleet::run(evaluations, bless),
    },

    /// Runs the README's commands word for word and compares what they print
    Readme {
        /// Write what the commands print into the README instead of comparing
        #[arg(long)]
        bless: bool,
        /// Install the unoptimized program that is built already: minutes less, and all that CI has time for
        #[arg(long)]
        built: bool,
    } => readme::run(bless, built),

    /// Compares the PTX of the UI suite with what NVRTC makes of its kernels
    Ui {
        /// Write the PTX and the texts of `warpproof check` instead of comparing
        #[arg(long)]
        bless: bool,
        /// Only kernels whose name contains this
        filter: Option<String>,
    } => ui::run(bless, filter.as_deref()),

    /// Runs the commands that the book's pages show, and compares what they print
    Book {
        /// Write what the commands print into the pages instead of comparing
        #[arg(long)]
        bless: bool,
    } => book::run(bless),

    /// Checks every kernel of `tests/fail`, and compares the book's table of findings with what is found
    Findings {
        /// Write the table instead of comparing
        #[arg(long)]
        bless: bool,
    } => findings::run(bless),

    /// Makes correct kernels wrong, one change at a time, and tells which changes the checks see
    Mutants {
        /// Write the book's page instead of comparing
        #[arg(long)]
        bless: bool,
        /// Print what became of each mutant
        #[arg(long)]
        list: bool,
        /// Only kernels whose name contains this
        filter: Option<String>,
    } => mutants::run(bless, filter.as_deref(), list),

    /// Joins the instruction table with what the tests executed, and compares the book's page with it
    Instructions {
        /// Write the page instead of comparing
        #[arg(long)]
        bless: bool,
    } => instructions::run(bless),

    /// Reads latencies and issue intervals from the stall counts of ptxas, and compares the model's table with them
    Latencies {
        /// Write the table instead of comparing
        #[arg(long)]
        bless: bool,
    } => latencies::run(bless),

    /// Predicts kernels whose time others have published, and compares the book's page with the predictions
    Model {
        /// Write the page instead of comparing
        #[arg(long)]
        bless: bool,
    } => model::run(bless),
}

#[derive(Subcommand)]
enum Bench {
    /// Speed of the PTX parser over the joined corpus, on one core
    Parse {
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Speed of the software GPU: warp instructions, matrix products and a whole kernel a second
    Sim {
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// How a fleet grows: claims with the queue, evaluations with the workers, against a PostgreSQL of its own
    Fleet {
        /// Evaluations for each number of workers
        #[arg(long, default_value_t = 1_000)]
        evaluations: u32,
        /// Write what was measured into docs/scale.md
        #[arg(long)]
        bless: bool,
    },
    /// What checking costs: checked to unchecked time, and bytes of shadow
    Checks {
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// What a launch through the driver costs above the software GPU called directly
    Driver {
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// What counting costs: counted to uncounted time
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

/// Does a task in the release build, where `cargo xtask`, which is an unoptimized one, was asked for it.
fn in_release(task: &[&str], work: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
    if cfg!(not(debug_assertions)) {
        return work();
    }
    let status = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .current_dir(root())
        .args(["run", "--quiet", "--locked", "--release", "--package", "xtask", "--"])
        .args(task)
        .status()
        .map_err(|error| format!("cannot run cargo: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("`xtask {}` failed", task.join(" "))) }
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
