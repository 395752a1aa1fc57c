//! `warpproof explain`: what a launch costs on a device and why, from counters and the model.

use std::fs;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use warpproof_gate::explain::{self, ExplainError, Explanation, Request, Timeline, html, text, trace};
use warpproof_model::Device;
use warpproof_sim::count::CountSettings;
use warpproof_toolchain::{AssembleError, Source, Survey, Toolchain};

use super::build::assemble_failed;
use super::flags::{OutputFlags, ended, model_device};
use super::launch::{LaunchFlags, Plan, stop_report};
use crate::report::{Kind, Outcome, Report};
use crate::source::{self, Ptx};
use crate::terminal::Terminal;

/// Events of a trace: some seconds of loading for a viewer.
const EVENTS: usize = 400_000;

/// Say what a kernel costs on a device, and why
///
/// The kernel runs on the software GPU, as `warpproof run` would run it, and is counted; no GPU is
/// needed. From the counters and the machine code that ptxas makes, a model of the device predicts
/// what binds, what binds next, the time with a cold and a warm L2 cache, what warps wait for, the
/// cost of each line, occupancy and what limits it, and what a change would buy. Every number says
/// whether it was counted or predicted; none is measured.
///
/// Arguments are described as for `warpproof run`.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Explain {
    #[command(flatten)]
    launch: LaunchFlags,
    /// The device to explain it for
    #[arg(long, value_name = "NAME", default_value = "l4", value_parser = model_device)]
    device: &'static Device,
    /// How to write the explanation
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = Format::Text)]
    format: Format,
    #[command(flatten)]
    output: OutputFlags,
    /// Which of the file's launch lines, from 1 [default: the first]
    #[arg(long, value_name = "N", conflicts_with = "args")]
    launch_line: Option<usize>,
    /// Show every line, conflict and uncoalesced access, not the first few
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
    /// One page with pictures, for a browser
    Html,
}

impl Explain {
    pub(crate) fn run(&self, terminal: &mut Terminal) -> Outcome {
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
        let source = source::read(&self.launch.kernel_file)?;
        let plan = self.plan(&source, warnings).map_err(|report| vec![*report])?;
        let ptx = self.launch.module(&source)?;
        warnings.extend(ptx.warnings.iter().cloned());
        if let Some(report) = other_architecture(&ptx.text, self.device) {
            return Err(vec![report]);
        }
        let mut device = self.launch.device();
        let prepared = self.launch.prepare(&plan, &ptx, &source, &mut device)?;
        let counted = device.count(&prepared.launch, &CountSettings::default());
        if let Some(stop) = &counted.outcome.stop {
            return Err(vec![stop_report(stop, &ptx, &source)]);
        }
        let options = self.launch.toolchain().options();
        let mut toolchain = Toolchain::partial(&options);
        if toolchain.ptxas_for(&ptx.text).is_err() {
            // What was found first is too old for this module; look everywhere.
            toolchain = Toolchain::select(&Survey::complete(&options), &options);
        }
        let lines: Vec<&str> = source.text.lines().collect();
        // The compiler may have put a directory before the name.
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
            timeline: if self.trace.is_some() { EVENTS } else { 0 },
            offers: true,
            text: &line_of,
        };
        explain::explain(&request, &toolchain).map_err(|error| failed(error, &ptx, &source))
    }

    /// The launch to explain: the one that is chosen, or the first, and then it is said that there are others.
    fn plan(&self, source: &Source, warnings: &mut Vec<Report>) -> Result<Plan, Box<Report>> {
        let plans = self.launch.plans(source)?;
        let all = plans.len();
        let chosen = self.launch_line.unwrap_or(1);
        let Some(plan) = chosen.checked_sub(1).and_then(|index| plans.into_iter().nth(index)) else {
            let sentence = format!("there is no launch line {chosen}: the file has {all}");
            return Err(Box::new(Report::error(Kind::Usage, sentence)));
        };
        if all > 1 && self.launch_line.is_none() {
            let kernel = plan.kernel.as_deref().map(|name| format!(", of `{name}`")).unwrap_or_default();
            let line = plan.line.map(|line| format!(" (line {line}{kernel})")).unwrap_or_default();
            warnings.push(
                Report::warning(format!("the file has {all} launch lines, and the first{line} is explained"))
                    .help("choose with --launch-line N, or with --kernel"),
            );
        }
        Ok(plan)
    }

    fn write(&self, explanation: &Explanation, timeline: Option<&Timeline>) -> Result<(), Box<Report>> {
        let text = match self.format {
            Format::Text => text::text(explanation, self.all),
            Format::Html => html::html(explanation),
            Format::Json => {
                let value = serde_json::to_value(explanation).map_err(|error| {
                    Box::new(Report::error(Kind::Bug, format!("an explanation is no JSON: {error}")))
                })?;
                format!("{value:#}\n")
            }
        };
        self.output.put(text.as_bytes())?;
        let Some(file) = &self.trace else { return Ok(()) };
        let Some(timeline) = timeline else {
            let sentence = "there is no timeline: the schedule of the machine code is not certain";
            return Err(Box::new(Report::error(Kind::Inconclusive, sentence)));
        };
        fs::write(file, trace::json(timeline).to_string()).map_err(|error| {
            Box::new(Report::error(Kind::Missing, format!("cannot write {}: {error}", file.display())))
        })
    }
}

/// What is wrong if a module is for a newer architecture than the device's: ptxas would refuse it in words of its own.
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
    let sentence = format!("the kernel is compiled for {target}, and an {} runs {arch}", device.name);
    Some(Report::error(Kind::Usage, sentence).help(format!(
        "compile it for the device with --arch {arch}, or choose another device with --device; PTX that was made for {target} cannot go back"
    )))
}

/// Why there is no explanation.
fn failed(error: ExplainError, ptx: &Ptx, source: &Source) -> Vec<Report> {
    match error {
        ExplainError::Assemble(error @ AssembleError::Rejected { .. }) => {
            let mut reports = assemble_failed(error, &ptx.text, &ptx.name, source);
            if let Some(last) = reports.last_mut()
                && last.help.is_none()
            {
                last.help = Some("if the module is for another architecture, say --device".to_owned());
            }
            reports
        }
        ExplainError::Assemble(error) => assemble_failed(error, &ptx.text, &ptx.name, source),
        ExplainError::NoKernel(_) => vec![Report::error(Kind::Bug, error.to_string())],
        ExplainError::Bound(_) => vec![Report::error(Kind::Kernel, error.to_string())],
    }
}
