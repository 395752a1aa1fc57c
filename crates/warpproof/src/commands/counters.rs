//! `warpproof counters`: runs launches on the software GPU with counters enabled; prints them as tables, as JSON or
//! under Nsight Compute's names; and compares two results.

mod diff;
mod file;
mod metrics;
mod table;
mod timed;

use std::path::PathBuf;

use clap::{ArgMatches, Args, FromArgMatches, Subcommand};
use warpproof_count::{CountLaunch, CountSettings, Counters as Counts, Sampling};
use warpproof_explain::Predicted;
use warpproof_gate::limits::Purpose;
use warpproof_sim::{Device, StopKind};
use warpproof_toolchain::{Source, Survey, Toolchain};

use super::device::{Where, listening};
use super::flags::{JsonFlag, SampleFlag};
use super::launch::{LaunchFlags, Memory, Prepared, stop_report};
use crate::report::{Outcome, Report, first_error};
use crate::source::{self, Ptx};
use crate::terminal::Terminal;
use metrics::Selection;
use timed::Model;

/// Count what a kernel does on the software GPU
///
/// Counts instructions by pipe, active lanes, divergence, tensor operations, requests, bytes
/// and sectors by memory space, bank conflicts, barriers and atomics, for the launch and for
/// each line. Counts are exact for the PTX and the same in every run; no GPU is needed.
///
/// Describe the launch as for `run`; all launch lines of a file are counted in order.
///
///   warpproof counters kernel.cu                      a table, and the top lines of each counter
///   warpproof counters kernel.cu --by-line            every executed line
///   warpproof counters kernel.cu --json > a.json      all counters of all lines
///   warpproof counters diff a.json b.json             changes, line by line
///   warpproof counters kernel.cu --sample 64          64 blocks, scaled to the grid, with margins
///   warpproof counters kernel.cu --metrics 'smsp__inst_executed_pipe_*,dram__bytes_read.sum'
///
/// --metrics takes Nsight Compute names and prints the same CSV as `ncu --csv --metrics NAMES
/// --print-units base`: one row for each metric of each launch. An unknown name has the value n/a.
/// Metrics that depend on time are predicted by the model of a device, which needs ptxas.
///
/// Exit codes: 0 counted · 1 the kernel failed (counted up to the failure) · 2 wrong usage ·
/// 3 unsupported · 4 limit. `diff`: 0 equal · 1 different · 2 a file cannot be read.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Counters {
    #[command(flatten)]
    launch: Launch,
    /// Select the GPU; only the software GPU supports counters
    #[arg(long, value_name = "GPU", default_value_t = Where::Software, value_parser = listening, hide = true)]
    device: Where,
    /// Print a table of every executed line
    #[arg(long, conflicts_with_all = ["metrics", "json"])]
    by_line: bool,
    #[command(flatten)]
    sample: SampleFlag,
    #[command(flatten)]
    json: JsonFlag,
    /// Print these metrics as CSV, like ncu; * matches any text, suffixes are optional
    #[arg(long, value_name = "NAMES", value_delimiter = ',', conflicts_with = "json")]
    metrics: Vec<String>,
    /// List the supported metrics and how exact each is
    #[arg(long, exclusive = true)]
    list_metrics: bool,
    #[command(subcommand)]
    command: Option<Command>,
}

/// The launch; `None` if the command compares existing files. (`Option` alone does not work because the flags flatten
/// other flags.)
#[derive(Debug)]
struct Launch(Option<LaunchFlags>);

impl FromArgMatches for Launch {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = matches.contains_id("kernel_file") || matches.contains_id("task");
        Ok(Self(given.then(|| LaunchFlags::from_arg_matches(matches)).transpose()?))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for Launch {
    fn augment_args(command: clap::Command) -> clap::Command {
        LaunchFlags::augment_args(command)
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        LaunchFlags::augment_args_for_update(command)
    }
}

#[derive(Debug, Subcommand)]
enum Command {
    Diff(Diff),
}

/// Show the counters that differ between two files of `counters --json`
///
/// Compares launches in order and counters by line. Lines match by their text, so moved lines are
/// not reported. Lines with equal counters are not shown. Exit codes: 0 equal · 1 different · 2 a file cannot be read.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Diff {
    /// Counters before the change
    before: PathBuf,
    /// Counters after the change
    after: PathBuf,
    /// Compare whole launches instead of lines
    #[arg(long)]
    totals: bool,
    #[command(flatten)]
    json: JsonFlag,
}

/// A launch that was counted.
#[derive(Debug)]
struct Launched {
    /// The launch line in the file.
    line: Option<u32>,
    kernel: String,
    symbol: String,
    printed: Vec<u8>,
    /// Whether the launch finished.
    complete: bool,
    counters: Counts,
    /// The prediction for a device, if a metric needs it.
    predicted: Option<Predicted>,
}

/// Everything that was counted, with reports.
#[derive(Debug, Default)]
struct Counted {
    launches: Vec<Launched>,
    /// The source text, to show lines from.
    source: Option<Source>,
    /// The architecture that the PTX is for, such as `8.9`.
    capability: String,
    /// The module.
    ptx: String,
    reports: Vec<Report>,
}

impl Counters {
    pub(crate) fn run(&self, terminal: &mut Terminal) -> Outcome {
        if let Some(Command::Diff(diff)) = &self.command {
            return diff.run(terminal);
        }
        let Some(launch) = self.launch.0.as_ref().filter(|_| !self.list_metrics) else {
            terminal.print(metrics::list());
            return Outcome::Green;
        };
        let selection = match Selection::new(&self.metrics) {
            Ok(selection) => selection,
            Err(report) => {
                terminal.report(&report);
                return Outcome::Stopped(report.kind);
            }
        };
        let mut counted = Counted::default();
        let settings = self.sample.settings();
        if let Err(reports) = count(launch, &settings, &mut counted, terminal) {
            counted.reports.extend(reports);
        }
        let failed = first_error(&counted.reports);
        if self.json.wanted {
            terminal.json(&file::document(launch, &counted, failed));
            return failed.map_or(Outcome::Green, Outcome::Stopped);
        }
        for report in &counted.reports {
            terminal.report(report);
        }
        if self.metrics.is_empty() {
            for (index, one) in counted.launches.iter().enumerate() {
                terminal.print(if index > 0 { "\n" } else { "" });
                terminal.print(String::from_utf8_lossy(&one.printed));
                terminal.print(table::launch(one, counted.source.as_ref(), self.by_line));
            }
        } else {
            for sampling in counted.launches.iter().filter_map(|one| one.counters.sampled.as_ref()) {
                terminal.report(&sampled_warning(sampling));
            }
            for warning in &selection.warnings {
                terminal.report(warning);
            }
            if selection.is_timed() {
                predict(launch, &mut counted, terminal);
            }
            terminal.print(metrics::csv(&selection, &counted));
        }
        failed.map_or(Outcome::Green, Outcome::Stopped)
    }
}

/// Predicts every launch for a device of the module's architecture. Without a prediction, its metrics have no value.
fn predict(launch: &LaunchFlags, counted: &mut Counted, terminal: &mut Terminal) {
    let Some(device) = timed::device(&counted.capability) else {
        let sentence =
            format!("metrics that depend on time: no device of sm_{} is known", counted.capability);
        terminal.report(&Report::warning(sentence));
        return;
    };
    let options = launch.toolchain().options();
    let mut toolchain = Toolchain::partial(&options);
    if toolchain.ptxas_for(&counted.ptx).is_err() {
        toolchain = Toolchain::select(&Survey::complete(&options), &options);
    }
    let model = Model { ptx: &counted.ptx, toolchain: &toolchain, device };
    for one in counted.launches.iter_mut().filter(|one| one.complete) {
        match model.predict(&one.kernel, &one.symbol, &one.counters) {
            Ok(predicted) => one.predicted = Some(predicted),
            Err(why) => {
                let sentence = format!("metrics that depend on time have no value for {}: {why}", one.kernel);
                terminal.report(&Report::warning(sentence));
            }
        }
    }
    if counted.launches.iter().any(|one| one.predicted.is_some()) {
        terminal.say(format_args!("metrics that depend on time are predicted for an {}", device.name));
    }
}

/// The statements about a sample, for output that has no room for them.
fn sampled_warning(sampling: &Sampling) -> Report {
    let mut statements = sampling.statements().into_iter();
    let first = Report::warning(statements.next().unwrap_or_default());
    statements.fold(first, |report, statement| report.note(statement, None))
}

fn count(
    launch: &LaunchFlags,
    settings: &CountSettings,
    counted: &mut Counted,
    terminal: &Terminal,
) -> Result<(), Vec<Report>> {
    if let Some(trial) = launch.trial(false)? {
        counted.capability = capability(&trial.ptx.text);
        counted.ptx.clone_from(&trial.ptx.text);
        let (mut device, mut memory) = (launch.device(Purpose::Run), Memory::default());
        let all = trial.prepare(&mut device, &mut memory)?;
        let last = all.len().saturating_sub(1);
        for (index, prepared) in all.into_iter().enumerate() {
            let one = One { line: None, prepared, is_last: index == last, settings };
            count_prepared(one, &mut device, &trial.ptx, &trial.source, counted)?;
        }
        counted.source = Some(trial.source);
        return Ok(());
    }
    let source = source::read(launch.file())?;
    let sequences = launch.sequences(&source).map_err(|report| vec![*report])?;
    let progress = terminal.progress();
    progress.set_message("compiling");
    let ptx = launch.module(&source, sequences.iter().flatten())?;
    counted.reports.clone_from(&ptx.warnings);
    counted.capability = capability(&ptx.text);
    counted.ptx.clone_from(&ptx.text);
    let (mut done, all) = (0, sequences.iter().map(Vec::len).sum::<usize>());
    for sequence in &sequences {
        let (mut device, mut memory) = (launch.device(Purpose::Run), Memory::default());
        for (index, plan) in sequence.iter().enumerate() {
            done += 1;
            progress.set_message(format!("counting launch {done} of {all}"));
            let prepared = launch.prepare(plan, &ptx, &source, &mut device, &mut memory);
            let is_last = index + 1 == sequence.len();
            let ended = prepared.and_then(|prepared| {
                let one = One { line: plan.line, prepared, is_last, settings };
                count_prepared(one, &mut device, &ptx, &source, counted)
            });
            // If a launch cannot be counted, the others still can, except those that need its results.
            if let Err(reports) = ended {
                counted.reports.extend(reports);
                break;
            }
        }
    }
    progress.finish_and_clear();
    counted.source = Some(source);
    Ok(())
}

/// A launch to count.
struct One<'a> {
    line: Option<u32>,
    prepared: Prepared,
    /// Whether no other launch uses its results.
    is_last: bool,
    settings: &'a CountSettings,
}

fn count_prepared(
    One { line, prepared, is_last, settings }: One<'_>,
    device: &mut Device,
    ptx: &Ptx,
    source: &Source,
    counted: &mut Counted,
) -> Result<(), Vec<Report>> {
    let mut done = device.count(&prepared.launch, settings);
    if done.counters.sampled.is_some() && done.outcome.stop.is_none() && !is_last {
        // A sample leaves memory as it is, and the next launch needs the results of all blocks.
        done.outcome.stop = device.run(&prepared.launch).stop;
    }
    let stop = done.outcome.stop;
    // Nothing was counted if the launch was refused.
    if stop.as_ref().is_none_or(|stop| stop.kind != StopKind::Launch) && !done.counters.kernel.is_empty() {
        let mut counters = done.counters;
        // Name the kernel's file as the user named it, so that counts from two machines refer to the same lines.
        let mut names: Vec<(String, String)> = Vec::new();
        for at in counters.instructions.iter_mut().flat_map(|one| one.source.iter_mut()) {
            let known = names.iter().find(|(file, _)| *file == at.file).map(|(_, given)| given.clone());
            let given = known.unwrap_or_else(|| {
                let given = source::as_given(&at.file, source);
                names.push((at.file.clone(), given.clone()));
                given
            });
            at.file = given;
        }
        counted.launches.push(Launched {
            line,
            kernel: prepared.kernel,
            symbol: prepared.symbol,
            printed: done.outcome.output,
            complete: stop.is_none(),
            counters,
            predicted: None,
        });
    }
    match stop {
        Some(stop) => Err(vec![stop_report(&stop, ptx, source)]),
        None => Ok(()),
    }
}

/// The compute capability a module is for, as Nsight Compute writes it: `.target sm_89` is `8.9`.
fn capability(ptx: &str) -> String {
    let mut targets = ptx.lines().filter_map(|line| line.trim().strip_prefix(".target"));
    let digits: String = targets
        .next()
        .and_then(|rest| rest.trim().strip_prefix("sm_"))
        .map(|rest| rest.chars().take_while(char::is_ascii_digit).collect())
        .unwrap_or_default();
    match digits.len() {
        0 | 1 => String::new(),
        length => format!("{}.{}", &digits[..length - 1], &digits[length - 1..]),
    }
}

#[cfg(test)]
mod tests {
    use super::capability;

    #[test]
    fn capabilities_are_read() {
        assert_eq!(capability(".version 8.0\n.target sm_89\n"), "8.9");
        assert_eq!(capability(".target sm_120a, debug"), "12.0");
        assert_eq!(capability("nothing"), "");
        assert_eq!(capability(".target sm_"), "");
    }
}
