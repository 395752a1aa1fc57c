//! `warpproof check`: runs launches on the software GPU with checks enabled and prints the findings as text, JSON or SARIF.

mod explore;
mod json;
mod sarif;

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use clap::{Args, ValueEnum};
use warpproof_check::{Bounds, CheckLaunch, Class, Finding, Settings, Severity as Grade};
use warpproof_gate::limits::Purpose;
use warpproof_model::grouped;
use warpproof_sim::cover::{Coverage, Line, Points};
use warpproof_sim::{Device, Stop};
use warpproof_toolchain::Source;

use explore::{ExploreFlags, Seen};

use super::device::{Where, listening};
use super::flags::{Form, JsonFlag, OutputFlags, ended};
use super::launch::{LaunchFlags, Memory, Plan, Prepared, Trial, setting, stop_report};
use crate::report::{Kind, Outcome, Place, Report, first_error};
use crate::source::{self, Ptx, Shown, of_finding, shown};
use crate::terminal::{Progress, Terminal};
use crate::watch::WatchFlags;
use warpproof_toolchain::symbol::readable;

/// Run a kernel on the software GPU and report races and other bugs
///
/// Finds races, async copies read too early, uninitialized reads, out-of-bounds accesses,
/// wrong shuffle lanes, barrier bugs and outputs that are not written. Each report shows the
/// CUDA lines and the threads involved. No GPU is needed.
///
/// Describe the launch as for `run`. An array may have a role:
///
///   --arg x:in:f32[1024]=randn(seed=0)    input: the kernel must not change it
///   --arg y:out:f32[1024]                 output: the kernel must write every byte
///   --arg z:inout:f32[1024]=zeros         input and output
///   --arg s:scratch:f32[1024]             scratch memory: holds no result
///
/// Default: `inout` if the array has a fill, `out` otherwise. If the file has launch lines, its
/// name is enough; all of its launches are checked in order:
///
///   //@launch: kernel=NAME grid=X,Y,Z block=X,Y,Z shared=BYTES cooperative=true symbol=… arg=… arg=…
///
/// Exit codes: 0 no findings, except notes · 1 findings · 2 wrong usage · 3 unsupported · 4 limit.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Check {
    #[command(flatten)]
    launch: LaunchFlags,
    /// Run only these checks [default: all except machine and fences]
    ///
    /// Comma-separated: race, init, array, lanes, barrier, output, provenance, machine, fences.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = check_named)]
    checks: Vec<Listener>,
    /// Report branches and results that depend on clocks, timers, %smid or addresses
    #[arg(long, value_name = "CLASS", value_parser = ["machine-dependent"])]
    deny: Vec<String>,
    /// Ignore sources in --deny machine-dependent: clock, timer, machine, address
    #[arg(long, value_name = "SOURCES", value_delimiter = ',', value_parser = source_named)]
    allow: Vec<MachineSource>,
    /// Run each launch in N orders of warps and blocks [default: 1, or 4 to 12]
    ///
    /// The default is 4 to 12 for kernels with locks, flags or tickets, and 1 for all others.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    schedules: Option<u32>,
    #[command(flatten)]
    explore: ExploreFlags,
    /// Set the seed of the random orders
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    seed: u64,
    /// Select the GPU; only the software GPU supports checks
    #[arg(long, value_name = "GPU", default_value_t = Where::Software, value_parser = listening, hide = true)]
    device: Where,
    /// Print which lines and branch outcomes the launches reached
    #[arg(long)]
    coverage: bool,
    /// Show at most N findings; count the others
    #[arg(long, value_name = "N", default_value_t = 100)]
    max_findings: usize,
    /// Set the output format [default: from the file's extension, or text]
    #[arg(long, value_name = "FORMAT", conflicts_with = "json")]
    format: Option<Format>,
    #[command(flatten)]
    json: JsonFlag,
    #[command(flatten)]
    output: OutputFlags,
    #[command(flatten)]
    watch: WatchFlags,
}

/// Findings collected per finding shown: an unrolled loop yields one for each pair of its copies, and they are merged
/// only after their lines are known.
const COPIES: usize = 64;

/// A group of checks.
type Listener = warpproof_check::Check;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Excerpts of the source, on standard error
    Text,
    /// One object, schema warpproof.findings/1
    Json,
    /// SARIF 2.1.0, for code scanning
    Sarif,
}

impl Form for Format {
    const JSON: Self = Self::Json;
    const ENDINGS: &'static [(&'static str, Self)] =
        &[("txt", Self::Text), ("json", Self::Json), ("sarif", Self::Sarif)];
}

/// A source of machine dependence.
type MachineSource = warpproof_check::Source;

fn source_named(text: &str) -> Result<MachineSource, String> {
    MachineSource::parse(text).ok_or_else(|| {
        let names: Vec<&str> = MachineSource::ALL.into_iter().map(MachineSource::name).collect();
        format!("expected one of {}", names.join(", "))
    })
}

fn check_named(text: &str) -> Result<Listener, String> {
    Listener::parse(text).ok_or_else(|| {
        let names: Vec<&str> = Listener::ALL.into_iter().map(Listener::name).collect();
        format!("expected one of {}", names.join(", "))
    })
}

/// A launch that was checked.
#[derive(Debug)]
struct Launched {
    /// The launch line in the file.
    line: Option<u32>,
    kernel: String,
    symbol: String,
    grid: [u32; 3],
    block: [u32; 3],
    shared: u32,
    instructions: u64,
    host_seconds: f64,
    printed: Vec<u8>,
}

/// A finding, and how it is shown.
#[derive(Debug)]
struct Found {
    finding: Finding,
    /// The launch that showed it first.
    launch: usize,
    /// Its places, as shown.
    places: Vec<Shown>,
    report: Report,
}

/// Everything that was checked, with findings and reports.
#[derive(Debug, Default)]
struct Examined {
    checks: Vec<Listener>,
    /// The number of schedules for each launch; `None`: depends on the kernel.
    asked: Option<u32>,
    /// If set, run every order within these bounds instead.
    bounds: Option<Bounds>,
    /// The orders explored so far.
    explored: Option<Seen>,
    /// Shows progress.
    progress: Option<Progress>,
    /// Sources, in addition to the inputs, that results may depend on.
    allowed: Vec<MachineSource>,
    schedules: u32,
    launches: Vec<Launched>,
    findings: Vec<Found>,
    /// Findings beyond the limit.
    dropped: u64,
    warnings: Vec<Report>,
    /// Coverage of the launches, if requested.
    coverage: Option<Coverage>,
    /// Reports of launches that could not be checked completely.
    stops: Vec<Report>,
}

impl Check {
    pub(crate) fn run(&self, terminal: &mut Terminal) -> Outcome {
        let form = match self.output.form(self.json, self.format, Format::Text) {
            Ok(form) => form,
            Err(report) => return ended(Err(report), terminal),
        };
        // No state is kept between runs, so Ctrl-C may end the process at any time.
        let never = AtomicBool::new(false);
        let files = || self.launch.files();
        self.watch.repeat(&never, terminal, files, |terminal| self.once(form, terminal))
    }

    fn once(&self, form: Format, terminal: &mut Terminal) -> Outcome {
        let mut examined = Examined { allowed: self.allow.clone(), ..Examined::default() };
        if let Err(reports) = self.examine(&mut examined, terminal) {
            examined.stops.extend(reports);
        }
        let failed = examined.verdict();
        let outcome = failed.map_or(Outcome::Green, Outcome::Stopped);
        let document = match form {
            Format::Json => Some(json::document(self, &examined, failed)),
            Format::Sarif => Some(sarif::document(self, &examined, failed)),
            Format::Text => None,
        };
        let text = match (&document, self.output.file()) {
            (None, None) => {
                print(&examined, terminal);
                return outcome;
            }
            (Some(document), None) => {
                terminal.json(document);
                return outcome;
            }
            (Some(document), Some(_)) => format!("{document:#}\n"),
            (None, Some(_)) => plain(&examined),
        };
        match self.output.put(text.as_bytes()) {
            Ok(()) => {
                terminal.say(examined.summary().unwrap_or_default());
                outcome
            }
            Err(report) => ended(Err(report), terminal),
        }
    }

    fn examine(&self, examined: &mut Examined, terminal: &Terminal) -> Result<(), Vec<Report>> {
        if let Some(trial) = self.launch.trial(false)? {
            return self.examine_case(&trial, examined);
        }
        let source = source::read(self.launch.file())?;
        let sequences = self.launch.sequences(&source).map_err(|report| vec![*report])?;
        (examined.checks, examined.asked) = self.settings(&source).map_err(|report| vec![*report])?;
        let line = setting(&source.text, "explore");
        let bounds = self.explore.bounds(line.map(|(_, text)| text).filter(|_| self.schedules.is_none()));
        examined.bounds = bounds.map_err(|sentence| {
            let place = line.map(|(line, _)| Place::new(source.name.as_str(), line));
            vec![Report::error(Kind::Usage, sentence).at(place)]
        })?;
        let progress = terminal.progress();
        progress.set_message("compiling");
        examined.progress = Some(progress.clone());
        let ptx = self.launch.module(&source, sequences.iter().flatten())?;
        examined.warnings.clone_from(&ptx.warnings);
        let (mut done, all) = (0, sequences.iter().map(Vec::len).sum::<usize>());
        for sequence in &sequences {
            let purpose = Purpose::Check { several: examined.asked != Some(1) };
            let (mut device, mut memory) = (self.launch.device(purpose), Memory::default());
            for plan in sequence {
                done += 1;
                progress.set_message(format!("checking launch {done} of {all}"));
                let ended = self.examine_launch(plan, &ptx, &source, (&mut device, &mut memory), examined);
                // If a launch cannot be checked, the others still can, except those that need its results.
                if let Err(reports) = ended {
                    examined.stops.extend(reports);
                    break;
                }
            }
        }
        progress.finish_and_clear();
        Ok(())
    }

    fn examine_launch(
        &self,
        plan: &Plan,
        ptx: &Ptx,
        source: &Source,
        (device, memory): (&mut Device, &mut Memory),
        examined: &mut Examined,
    ) -> Result<(), Vec<Report>> {
        let prepared = self.launch.prepare(plan, ptx, source, device, memory)?;
        self.examine_prepared((plan.line, prepared), (device, memory), ptx, source, examined)
    }

    /// Runs the launches of a task's case in order on the same memory, under the task's schedules.
    fn examine_case(&self, trial: &Trial, examined: &mut Examined) -> Result<(), Vec<Report>> {
        examined.checks = if self.checks.is_empty() { Listener::ALL.to_vec() } else { self.checks.clone() };
        if !self.deny.is_empty() && !examined.checks.contains(&Listener::Machine) {
            examined.checks.push(Listener::Machine);
        }
        examined.asked = self.schedules.or(Some(trial.staged.schedules));
        examined.bounds = self.explore.bounds(None).unwrap_or_default();
        examined.allowed.extend(&trial.staged.allowed);
        let purpose = Purpose::Check { several: examined.asked != Some(1) };
        let (mut device, mut memory) = (self.launch.device(purpose), Memory::default());
        for prepared in trial.prepare(&mut device, &mut memory)? {
            let at = (&mut device, &memory);
            self.examine_prepared((None, prepared), at, &trial.ptx, &trial.source, examined)?;
        }
        Ok(())
    }

    fn examine_prepared(
        &self,
        (line, prepared): (Option<u32>, Prepared),
        (device, memory): (&mut Device, &Memory),
        ptx: &Ptx,
        source: &Source,
        examined: &mut Examined,
    ) -> Result<(), Vec<Report>> {
        let beside = self.launch.beside(Purpose::Check { several: examined.asked != Some(1) }, memory);
        device.limits.memory = beside;
        if self.coverage {
            let program = prepared.launch.program();
            let points = Arc::new(Points::of(&program));
            let before = device.memory().clone();
            let (_, reached) = device.cover(&prepared.launch, &points);
            device.memory().restore(&before);
            examined.coverage.get_or_insert_default().add(&program.name, &points, &reached);
        }
        let settings = Settings {
            checks: examined.checks.clone(),
            allowed: examined.allowed.clone(),
            buffers: prepared.roles,
            max_findings: self.max_findings.saturating_mul(COPIES),
            memory: beside,
            touched: false,
            overlap: None,
            each_block: false,
        };
        let start = Instant::now();
        let checked = if let Some(bounds) = examined.bounds {
            let progress = examined.progress.clone();
            let mut tell = |order: u32| {
                if let Some(progress) = &progress {
                    progress.set_message(format!("checking order {order} of at most {}", bounds.executions));
                }
            };
            let ran = device.explore(&prepared.launch, &settings, bounds, &mut tell);
            examined.schedules = examined.schedules.max(ran.executions);
            examined.explored = Some(Seen::of(bounds, &ran, examined.explored));
            ran.checked
        } else {
            let ran = device.check_schedules(&prepared.launch, &settings, examined.asked, self.seed);
            examined.schedules = examined.schedules.max(ran.count);
            ran.checked
        };
        let index = examined.launches.len();
        examined.launches.push(Launched {
            line,
            kernel: prepared.kernel,
            symbol: prepared.symbol,
            grid: prepared.grid,
            block: prepared.block,
            shared: prepared.shared,
            instructions: checked.outcome.instructions,
            host_seconds: start.elapsed().as_secs_f64(),
            printed: checked.outcome.output,
        });
        examined.dropped += checked.dropped;
        for finding in checked.findings {
            examined.add(finding, index, ptx, source, self.max_findings);
        }
        match checked.outcome.stop {
            Some(stop) if !is_finding(&stop) => Err(vec![stop_report(&stop, ptx, source)]),
            _ => Ok(()),
        }
    }

    /// The enabled checks and the number of schedules: from the flags, else from the file's own lines, else as each kernel
    /// requires.
    fn settings(&self, source: &Source) -> Result<(Vec<Listener>, Option<u32>), Box<Report>> {
        let wrong = |line: u32, sentence: String| {
            let place = Place::new(source.name.as_str(), line);
            Box::new(Report::error(Kind::Usage, sentence).at(Some(place)))
        };
        let mut checks = self.checks.clone();
        if let Some((line, names)) = setting(&source.text, "checks").filter(|_| checks.is_empty()) {
            for name in names.split(',').map(str::trim) {
                checks.push(
                    check_named(name)
                        .map_err(|known| wrong(line, format!("unknown check `{name}`: {known}")))?,
                );
            }
        }
        if checks.is_empty() {
            checks = Listener::DEFAULT.to_vec();
        }
        if !self.deny.is_empty() && !checks.contains(&Listener::Machine) {
            checks.push(Listener::Machine);
        }
        let schedules = match (self.schedules, setting(&source.text, "schedules")) {
            (Some(count), _) => Some(count),
            (None, Some((line, text))) => {
                Some(text.parse().ok().filter(|count| (1..=1000).contains(count)).ok_or_else(|| {
                    wrong(line, format!("expected a number of schedules from 1 to 1000, found `{text}`"))
                })?)
            }
            (None, None) => None,
        };
        Ok((checks, schedules))
    }
}

/// Whether the findings already contain a stop.
fn is_finding(stop: &Stop) -> bool {
    Class::of_stop(stop.kind).is_some()
}

impl Examined {
    /// Adds a finding. The same bug in another launch, or in another copy of the code (an unrolled loop, an inlined
    /// call), is counted, not repeated.
    fn add(&mut self, mut finding: Finding, launch: usize, ptx: &Ptx, source: &Source, most: usize) {
        finding.sentence = readable(&finding.sentence);
        finding.notes.iter_mut().for_each(|note| *note = readable(note));
        finding.help = finding.help.as_deref().map(readable);
        finding.places.iter_mut().for_each(|label| label.text = readable(&label.text));
        let places: Vec<Shown> =
            finding.places.iter().map(|label| shown(&label.place, ptx, source)).collect();
        let same = |known: &Found| {
            let other = &known.finding;
            (other.class, other.severity, known.places.len())
                == (finding.class, finding.severity, places.len())
                && known.places.iter().zip(&places).all(|(a, b)| a.place == b.place)
                && other.places.iter().zip(&finding.places).all(|(a, b)| a.text == b.text)
                && (!places.is_empty() || other.sentence == finding.sentence)
        };
        if let Some(known) = self.findings.iter_mut().find(|known| same(known)) {
            known.finding.count = known.finding.count.saturating_add(finding.count);
            known.report = of_finding(&known.finding, ptx, source);
            return;
        }
        if self.findings.len() >= most {
            self.dropped += 1;
            return;
        }
        let report = of_finding(&finding, ptx, source);
        self.findings.push(Found { finding, launch, places, report });
    }

    /// The kind of failure, for the exit code. A finding counts even if the rest could not be checked; a bug in Warpproof
    /// takes precedence because it makes every result unreliable.
    fn verdict(&self) -> Option<Kind> {
        if self.stops.iter().any(|report| report.kind == Kind::Bug) {
            return Some(Kind::Bug);
        }
        let wrong = self.findings.iter().any(|found| found.finding.severity == Grade::Error);
        // Dropped findings were not examined; assume that they are errors.
        if wrong || self.dropped > 0 {
            return Some(Kind::Kernel);
        }
        first_error(&self.stops)
    }

    /// "3 findings in 2 kernels (2 shared-race, 1 bounds), counted in 4,864 warp instructions".
    fn summary(&self) -> Option<String> {
        if self.launches.is_empty() {
            return None;
        }
        let mut symbols: Vec<&str> = self.launches.iter().map(|launch| launch.symbol.as_str()).collect();
        symbols.sort_unstable();
        symbols.dedup();
        let count = |n: usize, noun: &str| {
            let number = grouped(u64::try_from(n).unwrap_or(u64::MAX));
            format!("{number} {noun}{}", if n == 1 { "" } else { "s" })
        };
        let of = |grade: Grade| self.findings.iter().filter(move |found| found.finding.severity == grade);
        let (errors, notes) = (of(Grade::Error).count(), of(Grade::Note).count());
        let ended = first_error(&self.stops).is_none();
        let mut text = match (errors, ended) {
            (0, true) => "no findings".to_owned(),
            (0, false) => "no findings before the error reported above,".to_owned(),
            _ => count(errors, "finding"),
        };
        // Writing to a string does not fail.
        if notes > 0 {
            let _ = write!(text, " and {}", count(notes, "note"));
        }
        let _ = write!(text, " in {}", count(symbols.len(), "kernel"));
        let classes: Vec<String> = Class::ALL
            .into_iter()
            .filter_map(|class| {
                let n = self.findings.iter().filter(|found| found.finding.class == class).count();
                (n > 0).then(|| format!("{n} {}", class.name()))
            })
            .collect();
        if !classes.is_empty() {
            let _ = write!(text, " ({})", classes.join(", "));
        }
        if self.dropped > 0 {
            let _ = write!(text, ", and {} not shown (--max-findings)", grouped(self.dropped));
        }
        let instructions =
            self.launches.iter().fold(0u64, |sum, launch| sum.saturating_add(launch.instructions));
        let noun = if instructions == 1 { "instruction" } else { "instructions" };
        let _ = write!(text, ", counted in {} warp {noun}", grouped(instructions));
        if let Some(seen) = &self.explored {
            let _ = write!(text, "\n{}", seen.sentence());
        }
        Some(text)
    }

    /// All reports except findings.
    fn reports(&self) -> impl Iterator<Item = &Report> {
        self.warnings.iter().chain(&self.stops)
    }
}

/// The whole output as plain text, for a file.
fn plain(examined: &Examined) -> String {
    let mut text = String::new();
    for launch in &examined.launches {
        text.push_str(&String::from_utf8_lossy(&launch.printed));
    }
    let findings = examined.findings.iter().map(|found| &found.report);
    for report in examined.warnings.iter().chain(findings).chain(&examined.stops) {
        text.push_str(&anstream::adapter::strip_str(&report.text()).to_string());
        text.push_str("\n\n");
    }
    text.extend(examined.summary().map(|summary| summary + "\n"));
    let coverage = examined.coverage.as_ref().map(coverage_lines).unwrap_or_default();
    text.extend(coverage.into_iter().map(|line| line + "\n"));
    text
}

fn print(examined: &Examined, terminal: &mut Terminal) {
    for launch in &examined.launches {
        terminal.print(String::from_utf8_lossy(&launch.printed));
    }
    for report in &examined.warnings {
        terminal.report(report);
    }
    for found in &examined.findings {
        terminal.report(&found.report);
    }
    for report in &examined.stops {
        terminal.report(report);
    }
    if let Some(summary) = examined.summary() {
        terminal.say(summary);
    }
    if let Some(coverage) = &examined.coverage {
        for line in coverage_lines(coverage) {
            terminal.say(line);
        }
    }
}

/// "coverage: 96 % of lines, 22 of 24 branch outcomes", and a line for each line with a gap.
fn coverage_lines(coverage: &Coverage) -> Vec<String> {
    let mut lines = vec![format!("coverage: {}", coverage.sentence())];
    let (outcomes, unexecuted) = coverage.gaps();
    lines.extend(unexecuted.iter().map(|line| format!("  {line}: never executed")));
    let only = |(line, count): (&Line, &u64)| {
        let what = if *count == 1 { "outcome" } else { "outcomes" };
        format!("  {line}: {count} branch {what} not reached")
    };
    lines.extend(outcomes.iter().filter(|(line, _)| !unexecuted.contains(line)).map(only));
    lines
}
