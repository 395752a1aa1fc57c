//! `warpproof exec`: runs a CUDA program on the software GPU, with one report for all its processes.

mod inspect;
mod library;

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use clap::{Args, ValueEnum};
use serde_json::json;
use warpproof_check::{Class, Finding, Label, Severity as Grade, Thread};
use warpproof_cuda::driver::report::{COUNT, HostRecord, PlaceRecord, Record};
use warpproof_cuda::driver::settings::Settings;
use warpproof_cuda::driver::site::shown;
use warpproof_model::grouped;
use warpproof_sim::stop;
use warpproof_toolchain::Source;

use super::flags::JsonFlag;
use crate::report::{Kind, Outcome, Place, Report, Severity, first_error};
use crate::source::{Ptx, of_finding};
use crate::terminal::Terminal;
pub(crate) use library::carry;
pub(super) use library::driver_folder;
use library::{find, lasting, link};
use warpproof_toolchain::symbol::readable;

/// Run a CUDA program on the software GPU and report bugs in its kernels
///
/// The program and its child processes load Warpproof's libcuda.so.1 instead of NVIDIA's; the
/// program is not modified, and no GPU is needed. All launches are checked, from any language
/// and framework. When the program ends, one report covers all of its processes.
///
///   warpproof exec -- python train.py
///   warpproof exec --checks race,init -- cargo test
///   export LD_LIBRARY_PATH=$(warpproof exec --library-path)    the same, without this command
///
/// The host's use of the API is checked too: leaks, frees, copies, and streams that race.
///
/// Programs of the CUDA runtime must be linked with the shared one: `nvcc -cudart shared`.
///
/// Exit codes: the program's, if there are no findings · 1 findings · 2 wrong usage ·
/// 3 a kernel is unsupported · 4 limit.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Exec {
    /// Enable these checks: all, none, or a comma-separated list
    #[arg(long, value_name = "NAMES")]
    checks: Option<String>,
    /// Check each launch in N orders of warps and blocks [default: 1, or 4 to 12]
    ///
    /// The default is 4 to 12 for kernels with locks, flags or tickets, and 1 for all others.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    schedules: Option<u32>,
    /// Simulate these devices, comma-separated [default: l4]
    #[arg(long, value_name = "NAMES")]
    device: Option<String>,
    /// Stop a launch after N warp instructions [default: 50000000]
    ///
    /// Without checks, the default is 300000000.
    #[arg(long, value_name = "N")]
    max_instructions: Option<u64>,
    /// Make a launch with a finding fail, like a device error
    #[arg(long)]
    fail: bool,
    /// Run queued work as late as CUDA allows, so that missing synchronization shows
    #[arg(long)]
    late: bool,
    /// Report memory that is never freed [default: warn; off for Python]
    #[arg(long, value_name = "HOW", value_parser = ["off", "warn", "error"], hide_possible_values = true)]
    leaks: Option<String>,
    /// Report loads and stores of the host that race with a device [default: on]
    #[arg(long, value_name = "WHEN", value_parser = ["on", "off"], hide_possible_values = true)]
    host_races: Option<String>,
    /// Set the output format
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: Format,
    #[command(flatten)]
    json: JsonFlag,
    /// Write the JSON object of `--format json` to this file
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print the library's directory, for LD_LIBRARY_PATH, and exit
    #[arg(long, conflicts_with = "program")]
    library_path: bool,
    /// The program and its arguments
    #[arg(required_unless_present = "library_path", trailing_var_arg = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Excerpts of the source, on standard error
    Text,
    /// One object, schema warpproof.exec/1
    Json,
}

/// The records that all processes wrote.
#[derive(Debug, Default)]
struct Collected {
    processes: u64,
    launches: u64,
    checked: u64,
    unsupported: BTreeSet<String>,
    said: BTreeSet<String>,
    findings: Vec<Found>,
}

/// A finding, with its place.
#[derive(Debug)]
struct Found {
    /// The kernel; none for a finding in the host's code.
    kernel: Option<String>,
    report: Report,
    blame: String,
    /// The processes that reported it.
    processes: BTreeSet<PathBuf>,
}

fn cannot(what: &str, cause: &std::io::Error) -> Box<Report> {
    Box::new(Report::error(Kind::Missing, format!("cannot {what}: {cause}")))
}

impl Exec {
    pub(crate) fn run(&self, terminal: &mut Terminal) -> Outcome {
        match self.execute(terminal) {
            Ok(outcome) => outcome,
            Err(report) => {
                terminal.report(&report);
                Outcome::Stopped(report.kind)
            }
        }
    }

    fn execute(&self, terminal: &mut Terminal) -> Result<Outcome, Box<Report>> {
        self.understood()?;
        let library = find()?;
        if self.library_path {
            let folder =
                lasting(&library).map_err(|cause| cannot("create the library's directory", &cause))?;
            terminal.print(format_args!("{}\n", folder.display()));
            return Ok(Outcome::Green);
        }
        for note in inspect::program(&self.program)? {
            terminal.say(format_args!("note: {note}"));
        }
        let folder =
            tempfile::tempdir().map_err(|cause| cannot("create a directory for the report", &cause))?;
        link(folder.path(), &library).map_err(|cause| cannot("link the library", &cause))?;
        let status = self.spawn(folder.path())?;
        let collected = collect(folder.path());
        let outcome = collected.outcome(status);
        let document = collected.document(&self.program, status);
        match if self.json.wanted { Format::Json } else { self.format } {
            Format::Text => collected.print(terminal),
            Format::Json => terminal.json(&document),
        }
        if let Some(output) = &self.output {
            let written = fs::write(output, format!("{document:#}\n"));
            written.map_err(|cause| cannot(&format!("write {}", output.display()), &cause))?;
        }
        Ok(outcome)
    }

    /// The settings, as passed to the library.
    fn settings(&self) -> [(&'static str, Option<String>); 8] {
        [
            ("WARPPROOF_CHECKS", self.checks.clone()),
            ("WARPPROOF_SCHEDULES", self.schedules.map(|n| n.to_string())),
            ("WARPPROOF_INSTRUCTIONS", self.max_instructions.map(|n| n.to_string())),
            ("WARPPROOF_DEVICE", self.device.clone()),
            ("WARPPROOF_FAIL", self.fail.then(|| "1".to_owned())),
            ("WARPPROOF_LEAKS", self.leaks.clone()),
            ("WARPPROOF_LATE", self.late.then(|| "1".to_owned())),
            ("WARPPROOF_HOST_RACES", self.host_races.clone()),
        ]
    }

    /// Rejects flags that the library does not support.
    fn understood(&self) -> Result<(), Box<Report>> {
        let settings = self.settings();
        let read = Settings::from(|name| {
            settings.iter().find(|(known, _)| *known == name).and_then(|(_, value)| value.clone())
        });
        read.doubts.first().map_or(Ok(()), |doubt| Err(Box::new(Report::error(Kind::Usage, doubt.clone()))))
    }

    /// Runs the program to its end.
    fn spawn(&self, folder: &Path) -> Result<ExitStatus, Box<Report>> {
        let (program, arguments) =
            self.program.split_first().unwrap_or_else(|| unreachable!("clap asks for one"));
        let mut path = folder.as_os_str().to_owned();
        if let Some(before) = env::var_os("LD_LIBRARY_PATH").filter(|before| !before.is_empty()) {
            path.push(":");
            path.push(before);
        }
        let mut command = Command::new(program);
        command.args(arguments).env("LD_LIBRARY_PATH", path).env("WARPPROOF_REPORT", folder);
        // Findings are reported here, once, with their source.
        command.env("WARPPROOF_FINDINGS", "quiet");
        for (name, value) in self.settings() {
            if let Some(value) = value {
                command.env(name, value);
            }
        }
        // Ctrl-C goes to the program; this process waits for it to end and reports.
        let _already = ctrlc::set_handler(|| {});
        let failed = |cause: std::io::Error| cannot(&format!("run {}", program.display()), &cause);
        command.spawn().and_then(|mut child| child.wait()).map_err(failed)
    }
}

/// Reads the records of the processes. Lines truncated by a killed process are skipped.
fn collect(folder: &Path) -> Collected {
    let mut files: Vec<PathBuf> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "jsonl"))
        .collect();
    files.sort();
    let mut collected = Collected::default();
    let mut known: BTreeMap<String, usize> = BTreeMap::new();
    for file in files {
        let text = fs::read_to_string(&file).unwrap_or_default();
        let counted = fs::read_to_string(file.with_extension(COUNT)).unwrap_or_default();
        let mut numbers = counted.split_whitespace().filter_map(|word| word.parse::<u64>().ok());
        collected.launches += numbers.next().unwrap_or(0);
        collected.checked += numbers.next().unwrap_or(0);
        for record in text.lines().filter_map(|line| serde_json::from_str::<Record>(line).ok()) {
            match record {
                Record::Process { .. } => collected.processes += 1,
                Record::Unsupported { function } => drop(collected.unsupported.insert(function)),
                Record::Said { sentence } => drop(collected.said.insert(sentence)),
                Record::Finding { .. } => collected.add(&record, &file, &mut known),
                Record::Host(record) => collected.add_host(&record, &file, &mut known),
            }
        }
    }
    collected
}

/// A place as the software GPU has it.
fn label(place: &PlaceRecord) -> Label {
    let source = place.source.iter();
    Label {
        text: place.text.clone(),
        place: stop::Place {
            function: place.function.clone(),
            instruction: place.instruction.clone(),
            ptx_line: place.ptx_line,
            source: source
                .map(|at| stop::SourceLine { file: shown(&at.file), line: at.line, column: at.column })
                .collect(),
        },
        thread: place.thread.map(|(block, thread)| Thread { block, thread }),
    }
}

impl Collected {
    /// Adds a finding, or counts the process that made a known one.
    fn add(&mut self, record: &Record, file: &Path, known: &mut BTreeMap<String, usize>) {
        let folder = file.parent().unwrap_or(Path::new("."));
        let Record::Finding {
            kernel,
            ptx,
            grid,
            block,
            class,
            blame,
            severity,
            sentence,
            places,
            notes,
            help,
            count,
            site,
            ..
        } = record
        else {
            return;
        };
        let lines: Vec<u32> = places.iter().map(|place| place.ptx_line).collect();
        let key = format!("{kernel}\n{class}\n{ptx}\n{lines:?}");
        if let Some(found) = known.get(&key).and_then(|at| self.findings.get_mut(*at)) {
            found.processes.insert(file.to_path_buf());
            return;
        }
        known.insert(key, self.findings.len());
        let finding = Finding {
            class: Class::ALL.into_iter().find(|known| known.name() == class).unwrap_or(Class::Trap),
            severity: if severity == "error" { Grade::Error } else { Grade::Note },
            sentence: sentence.clone(),
            places: places.iter().map(label).collect(),
            notes: notes.clone(),
            help: help.clone(),
            count: *count,
        };
        // A file name only: it must not be a path out of the directory.
        let text = Path::new(ptx).file_name().and_then(|name| fs::read_to_string(folder.join(name)).ok());
        let name = format!("{}.ptx", readable(kernel));
        let ptx = Ptx::new(text.unwrap_or_default(), name.clone());
        // The kernel's source file, if it can be read.
        let origin = places.iter().find_map(|place| place.source.last()).map(|at| shown(&at.file));
        let read = origin.and_then(|origin| Source::read(Path::new(&origin)).ok());
        let source = read.unwrap_or_else(|| Source::new(name, ptx.text.clone()));
        let mut report = of_finding(&finding, &ptx, &source);
        report.code = Some(class.clone());
        report.kind = match blame.as_str() {
            "gap" => Kind::Unsupported,
            "limit" => Kind::Limit,
            "bug" => Kind::Bug,
            _ => Kind::Kernel,
        };
        let [gx, gy, gz] = grid;
        let [bx, by, bz] = block;
        report = report.note(
            format!(
                "in kernel `{}`, launched with grid ({gx},{gy},{gz}) and block ({bx},{by},{bz})",
                readable(kernel)
            ),
            None,
        );
        let lined = site.iter().find(|frame| frame.file.is_some());
        if let Some((frame, file)) = lined.and_then(|frame| Some((frame, frame.shown_file()?))) {
            let place = Place::new(file, frame.line).label(Some("launched here".to_owned()));
            report = report.note("the launch", Some(place));
        } else if let Some(frame) = site.first() {
            report = report.note(format!("launched at {}", frame.place()), None);
        }
        self.findings.push(Found {
            kernel: Some(kernel.clone()),
            report,
            blame: blame.clone(),
            processes: BTreeSet::from([file.to_path_buf()]),
        });
    }

    /// Adds a finding in the host's code, or counts the process that made a known one.
    fn add_host(&mut self, record: &HostRecord, file: &Path, known: &mut BTreeMap<String, usize>) {
        let frames = record.places.iter().flat_map(|place| &place.frames);
        let frames: Vec<(&str, u64)> = frames.map(|frame| (frame.module.as_str(), frame.offset)).collect();
        let key = format!("{}\n{frames:?}", record.class);
        if let Some(found) = known.get(&key).and_then(|at| self.findings.get_mut(*at)) {
            found.processes.insert(file.to_path_buf());
            return;
        }
        known.insert(key, self.findings.len());
        self.findings.push(Found {
            kernel: None,
            report: record.report(readable),
            blame: "host".to_owned(),
            processes: BTreeSet::from([file.to_path_buf()]),
        });
    }

    /// The outcome: findings take precedence over the program's exit code.
    fn outcome(&self, status: ExitStatus) -> Outcome {
        use std::os::unix::process::ExitStatusExt as _;
        let reports: Vec<Report> = self.findings.iter().map(|found| found.report.clone()).collect();
        if let Some(kind) = first_error(&reports) {
            return Outcome::Stopped(kind);
        }
        let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1);
        if code == 0 { Outcome::Green } else { Outcome::Program(u8::try_from(code).unwrap_or(1)) }
    }

    fn print(&self, terminal: &mut Terminal) {
        for found in &self.findings {
            let mut report = found.report.clone();
            if found.processes.len() > 1 {
                report = report.note(format!("in {} processes", found.processes.len()), None);
            }
            terminal.report(&report);
        }
        for sentence in &self.said {
            terminal.say(format_args!("note: {sentence}"));
        }
        for function in &self.unsupported {
            terminal.say(format_args!("note: {function} is not supported and returned an error"));
        }
        if self.processes == 0 {
            terminal.say("exec: the program opened no device through this library; nothing was checked");
            return;
        }
        let (warnings, wrong): (Vec<&Found>, Vec<&Found>) = self
            .findings
            .iter()
            .filter(|found| matches!(found.blame.as_str(), "kernel" | "host"))
            .partition(|found| found.report.severity == Severity::Warning);
        let counted =
            |n: u64, one: &str, more: &str| format!("{} {}", grouped(n), if n == 1 { one } else { more });
        let number = |list: &[&Found]| u64::try_from(list.len()).unwrap_or(u64::MAX);
        let warned = match number(&warnings) {
            0 => String::new(),
            count => format!(", {}", counted(count, "warning", "warnings")),
        };
        terminal.say(format_args!(
            "exec: {}, {}, {} checked, {}{warned}",
            counted(self.processes, "process", "processes"),
            counted(self.launches, "launch", "launches"),
            grouped(self.checked),
            counted(number(&wrong), "finding", "findings")
        ));
    }

    fn document(&self, program: &[OsString], status: ExitStatus) -> serde_json::Value {
        let words: Vec<String> = program.iter().map(|word| word.display().to_string()).collect();
        let findings: Vec<serde_json::Value> = self
            .findings
            .iter()
            .map(|found| json!({ "kernel": found.kernel, "processes": found.processes.len(), "report": found.report }))
            .collect();
        json!({
            "schema": "warpproof.exec/1",
            "program": words,
            "program_exit_code": status.code(),
            "processes": self.processes,
            "launches": self.launches,
            "checked": self.checked,
            "unsupported": self.unsupported,
            "said": self.said,
            "findings": findings,
        })
    }
}
