//! `warpproof explain`: predicts the cost of a launch on a device and its causes, from counters and the model.

use std::fs;
use std::path::{Path, PathBuf};
use warpproof_count::CountLaunch;

use clap::{Args, ValueEnum};
use warpproof_explain::{self, ExplainError, Explanation, Request, Timeline, html, text, trace};
use warpproof_gate::limits::Purpose;
use warpproof_model::Device;
use warpproof_sim::Device as SoftwareGpu;
use warpproof_toolchain::{AssembleError, Source, Survey, Toolchain};

use super::build::assemble_failed;
use super::flags::{Form, JsonFlag, OutputFlags, SampleFlag, ended, model_device};
use super::launch::{LaunchFlags, Memory, Plan, Prepared, Sequence, Trial, stop_report};
use crate::report::{Kind, Outcome, Report};
use crate::source::{self, Ptx};
use crate::terminal::Terminal;

/// The maximum number of events of a trace: viewers load this many in a few seconds.
const EVENTS: usize = 400_000;

/// Predict what a kernel costs on a device, and why
///
/// Runs the kernel on the software GPU, like `warpproof run`, with counters enabled; no GPU is
/// needed. From the counters and ptxas's machine code, a model of the device predicts the
/// bottleneck, the next bottleneck, the time with a cold and a warm L2 cache, stall reasons, the
/// cost of each line, occupancy and its limiter, and the gain of possible changes. Every number
/// is labeled as counted or predicted; none is measured.
///
/// Describe arguments as for `warpproof run`.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Explain {
    #[command(flatten)]
    launch: LaunchFlags,
    /// Predict for this device
    #[arg(long, value_name = "NAME", default_value = "l4", value_parser = model_device)]
    device: &'static Device,
    /// Set the output format [default: from the file's extension, or text]
    #[arg(long, value_enum, value_name = "FORMAT", conflicts_with = "json")]
    format: Option<Format>,
    #[command(flatten)]
    sample: SampleFlag,
    #[command(flatten)]
    json: JsonFlag,
    #[command(flatten)]
    output: OutputFlags,
    /// Select a launch line of the file, counted from 1 [default: the first]
    #[arg(long, value_name = "N", conflicts_with = "args")]
    launch_line: Option<usize>,
    /// Show every line, bank conflict and uncoalesced access, not only the first few
    #[arg(long)]
    all: bool,
    /// Write the timeline of one multiprocessor, for Perfetto or Chrome's trace viewer
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A table for a terminal
    Text,
    /// JSON
    Json,
    /// One HTML page with charts
    Html,
}

impl Form for Format {
    const JSON: Self = Self::Json;
    const ENDINGS: &'static [(&'static str, Self)] =
        &[("txt", Self::Text), ("json", Self::Json), ("html", Self::Html), ("htm", Self::Html)];
}

impl Explain {
    pub(crate) fn run(&self, terminal: &mut Terminal) -> Outcome {
        if let Err(report) = self.output.form(self.json, self.format, Format::Text) {
            return ended(Err(report), terminal);
        }
        let mut warnings = Vec::new();
        let explained = self.explained(&mut warnings);
        for report in &warnings {
            terminal.report(report);
        }
        let (explanation, timeline) = match explained {
            Ok(explained) => explained,
            Err(reports) => {
                for report in &reports {
                    terminal.report(report);
                }
                let kind = crate::report::first_error(&reports);
                return kind.map_or(Outcome::Green, Outcome::Stopped);
            }
        };
        ended(self.write(&explanation, timeline.as_ref()).map(|()| Outcome::Green), terminal)
    }

    fn explained(&self, warnings: &mut Vec<Report>) -> Result<(Explanation, Option<Timeline>), Vec<Report>> {
        let (mut device, mut memory) = (self.launch.device(Purpose::Run), Memory::default());
        let (source, ptx, prepared) = if let Some(trial) = self.launch.trial(false)? {
            let prepared = self.of_case(&trial, &mut device, &mut memory)?;
            (trial.source, trial.ptx, prepared)
        } else {
            let source = source::read(self.launch.file())?;
            let sequence = self.sequence(&source, warnings).map_err(|report| vec![*report])?;
            let ptx = self.launch.module(&source, &sequence)?;
            warnings.extend(ptx.warnings.iter().cloned());
            if let Some(report) = other_architecture(&ptx.text, self.device) {
                return Err(vec![report]);
            }
            let Some((plan, before)) = sequence.split_last() else { return Err(Vec::new()) };
            for plan in before {
                let prepared = self.launch.prepare(plan, &ptx, &source, &mut device, &mut memory)?;
                if let Some(stop) = device.run(&prepared.launch).stop {
                    return Err(vec![stop_report(&stop, &ptx, &source)]);
                }
            }
            let prepared = self.launch.prepare(plan, &ptx, &source, &mut device, &mut memory)?;
            (source, ptx, prepared)
        };
        let counted = device.count(&prepared.launch, &self.sample.settings());
        if let Some(stop) = &counted.outcome.stop {
            return Err(vec![stop_report(stop, &ptx, &source)]);
        }
        let options = self.launch.toolchain().options();
        let mut toolchain = Toolchain::partial(&options);
        if toolchain.ptxas_for(&ptx.text).is_err() {
            // The first compiler found is too old for this module; search all locations.
            toolchain = Toolchain::select(&Survey::complete(&options), &options);
        }
        let lines: Vec<&str> = source.text.lines().collect();
        // The compiler may have prefixed a directory to the name.
        let own = |file: &str| {
            file == source.name || Path::new(file).file_name() == Path::new(&source.name).file_name()
        };
        let line_of = |file: &str, line: u32| {
            let index = usize::try_from(line).ok()?.checked_sub(1)?;
            lines.get(index).filter(|_| own(file)).map(|line| (*line).to_owned())
        };
        let request = Request {
            kernel: &prepared.kernel,
            symbol: &prepared.symbol,
            ptx: &ptx.text,
            counters: &counted.counters,
            device: self.device,
            floor: None,
            whole: None,
            timeline: if self.trace.is_some() { EVENTS } else { 0 },
            offers: true,
            text: &line_of,
        };
        warpproof_explain::explain(&request, &toolchain).map_err(|error| failed(error, &ptx, &source))
    }

    /// The selected launch of a case, or the first; the launches before it are run.
    fn of_case(
        &self,
        trial: &Trial,
        device: &mut SoftwareGpu,
        memory: &mut Memory,
    ) -> Result<Prepared, Vec<Report>> {
        if let Some(report) = other_architecture(&trial.ptx.text, self.device) {
            return Err(vec![report]);
        }
        let all = trial.prepare(device, memory)?;
        let (chosen, count) = (self.launch_line.unwrap_or(1), all.len());
        for (index, prepared) in all.into_iter().enumerate() {
            if index + 1 == chosen {
                return Ok(prepared);
            }
            if let Some(stop) = device.run(&prepared.launch).stop {
                return Err(vec![stop_report(&stop, &trial.ptx, &trial.source)]);
            }
        }
        let sentence = format!("expected a launch from 1 to {count}, found {chosen}");
        Err(vec![Report::error(Kind::Usage, sentence)])
    }

    /// The launch to explain, after those that produce its arrays: the selected one; else the first that launches `--kernel`;
    /// else the first. Warns if there are others.
    fn sequence(&self, source: &Source, warnings: &mut Vec<Report>) -> Result<Sequence, Box<Report>> {
        let sequences = self.launch.sequences(source)?;
        let all: usize = sequences.iter().map(Vec::len).sum();
        let asked = |plan: &&Plan| self.launch.asks_for(plan);
        let first = sequences.iter().flatten().position(|plan| asked(&plan));
        let several = sequences.iter().flatten().filter(asked).count() > 1;
        let chosen = self.launch_line.unwrap_or(first.unwrap_or(0) + 1);
        let mut index = chosen.checked_sub(1);
        let mut found = None;
        for mut sequence in sequences {
            match index {
                Some(at) if at < sequence.len() => {
                    sequence.truncate(at + 1);
                    found = Some(sequence);
                    break;
                }
                other => index = other.map(|at| at - sequence.len()),
            }
        }
        let Some(plan) = found.as_ref().and_then(|sequence| sequence.last()) else {
            let sentence = format!("expected a launch line from 1 to {all}, found {chosen}");
            return Err(Box::new(Report::error(Kind::Usage, sentence)));
        };
        if several && self.launch_line.is_none() {
            let kernel = plan.kernel.as_deref().map(|name| format!(", of `{name}`")).unwrap_or_default();
            let line = plan.line.map(|line| format!(" (line {line}{kernel})")).unwrap_or_default();
            warnings.push(
                Report::warning(format!("the file has {all} launch lines; explaining the first{line}"))
                    .help("select another with --launch-line N or --kernel"),
            );
        }
        Ok(found.unwrap_or_default())
    }

    fn write(&self, explanation: &Explanation, timeline: Option<&Timeline>) -> Result<(), Box<Report>> {
        let text = match self.output.form(self.json, self.format, Format::Text)? {
            Format::Text => text::text(explanation, self.all),
            Format::Html => html::html(explanation),
            Format::Json => {
                let value = serde_json::to_value(explanation).map_err(|error| {
                    Box::new(Report::error(
                        Kind::Bug,
                        format!("cannot write the explanation as JSON: {error}"),
                    ))
                })?;
                format!("{value:#}\n")
            }
        };
        self.output.put(text.as_bytes())?;
        let Some(file) = &self.trace else { return Ok(()) };
        let Some(timeline) = timeline else {
            let sentence = "no timeline available: the schedule of the machine code is not certain";
            return Err(Box::new(Report::error(Kind::Inconclusive, sentence)));
        };
        fs::write(file, trace::json(timeline).to_string()).map_err(|error| {
            Box::new(Report::error(Kind::Missing, format!("cannot write {}: {error}", file.display())))
        })
    }
}

/// Reports a module for a newer architecture than the device's, before ptxas rejects it with a less clear message.
fn other_architecture(ptx: &str, device: &Device) -> Option<Report> {
    let target = ptx.lines().find_map(|line| line.trim().strip_prefix(".target"))?.trim();
    let target = target.split([',', ' ', '/']).next()?;
    let number = |arch: &str| -> Option<u32> {
        arch.strip_prefix("sm_")?.trim_end_matches(|c: char| c.is_ascii_alphabetic()).parse().ok()
    };
    let arch = device.capability.arch();
    if number(target)? <= number(&arch)? {
        return None;
    }
    let sentence = format!("the kernel is compiled for {target}, but an {} runs {arch}", device.name);
    Some(Report::error(Kind::Usage, sentence).help(format!(
        "compile it with --arch {arch}, or select another device with --device; PTX for {target} does not run on older devices"
    )))
}

/// Reports why the explanation failed.
fn failed(error: ExplainError, ptx: &Ptx, source: &Source) -> Vec<Report> {
    match error {
        ExplainError::Assemble(error @ AssembleError::Rejected { .. }) => {
            let mut reports = assemble_failed(error, &ptx.text, &ptx.name, source);
            if let Some(last) = reports.last_mut()
                && last.help.is_none()
            {
                last.help = Some("if the module is for another architecture, set --device".to_owned());
            }
            reports
        }
        ExplainError::Assemble(error) => assemble_failed(error, &ptx.text, &ptx.name, source),
        ExplainError::NoKernel(_) => vec![Report::error(Kind::Bug, error.to_string())],
        ExplainError::Bound(_) => vec![Report::error(Kind::Kernel, error.to_string())],
    }
}
