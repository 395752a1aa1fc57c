//! `warpproof exec`: a program that uses CUDA, on the software GPU, with one report of all its processes.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use clap::{Args, ValueEnum};
use serde_json::json;
use warpproof_cuda::report::{COUNT, PlaceRecord, Record};
use warpproof_cuda::settings::Settings;
use warpproof_model::grouped;
use warpproof_sim::check::{Class, Finding, Label, Severity as Grade, Thread};
use warpproof_sim::stop;
use warpproof_toolchain::Source;

use super::flags::JsonFlag;
use crate::report::{Kind, Outcome, Report, first_error};
use crate::source::{Ptx, of_finding};
use crate::terminal::Terminal;
use warpproof_toolchain::symbol::readable;

/// Run a CUDA program on the software GPU and report bugs in its kernels
///
/// The program and its children find our libcuda.so.1 in place of NVIDIA's; nothing of them is
/// changed, and no GPU is needed. Launches through the driver API are checked, whatever language
/// and framework they come from; when the program has ended there is one report for all of its
/// processes.
///
///   warpproof exec -- python train.py
///   warpproof exec --checks race,init -- cargo test
///   export LD_LIBRARY_PATH=$(warpproof exec --library-path)    the same, without this command
///
/// Programs of the CUDA runtime (cudart) ask for more than the driver API and are not supported yet.
///
/// Exit codes: that of the program, unless there is something to say · 1 a kernel is wrong ·
/// 2 wrong usage · 3 a kernel is unsupported · 4 limit.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Exec {
    /// Checks that listen: all, none, or names of checks with commas
    #[arg(long, value_name = "NAMES")]
    checks: Option<String>,
    /// Check each launch in N orders of warps and blocks [default: 4 to 12 with locks, flags or tickets, else 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    schedules: Option<u32>,
    /// The devices that the program sees, with commas [default: l4]
    #[arg(long, value_name = "NAMES")]
    device: Option<String>,
    /// Stop a launch after N warp instructions [default: 50000000; without checks 300000000]
    #[arg(long, value_name = "N")]
    max_instructions: Option<u64>,
    /// A launch with a finding fails, as if the device had
    #[arg(long)]
    fail: bool,
    /// How to print what was found
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: Format,
    #[command(flatten)]
    json: JsonFlag,
    /// Write the object of `--format json` to a file as well, for what the program prints goes to standard output too
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print the directory of the library, for LD_LIBRARY_PATH, and do nothing else
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

/// What all processes left behind.
#[derive(Debug, Default)]
struct Collected {
    processes: u64,
    launches: u64,
    checked: u64,
    unsupported: BTreeSet<String>,
    said: BTreeSet<String>,
    findings: Vec<Found>,
}

/// A finding, with where it was made.
#[derive(Debug)]
struct Found {
    kernel: String,
    report: Report,
    blame: String,
    /// The processes that made it.
    processes: BTreeSet<PathBuf>,
}

/// The library's file, as cargo names it.
const LIBRARY: &str = "libwarpproof_cuda.so";

/// Where the library is: named by a variable, beside this program, or where cargo puts it.
fn library() -> Result<PathBuf, Box<Report>> {
    if let Some(named) = env::var_os("WARPPROOF_LIBRARY") {
        let path = PathBuf::from(named);
        return path.is_file().then_some(path.clone()).ok_or_else(|| {
            let sentence = format!("WARPPROOF_LIBRARY names {}, which is no file", path.display());
            Box::new(Report::error(Kind::Missing, sentence))
        });
    }
    let folder = env::current_exe().ok().and_then(|exe| exe.parent().map(Path::to_path_buf));
    let places = folder.iter().flat_map(|folder| {
        [
            folder.join(LIBRARY),
            folder.join("deps").join(LIBRARY),
            folder.join("../lib/warpproof").join(LIBRARY),
            folder.join("../lib").join(LIBRARY),
        ]
    });
    let found = places.into_iter().find(|path| path.is_file());
    found.ok_or_else(|| {
        let report = Report::error(Kind::Missing, format!("{LIBRARY} is not beside this program"));
        Box::new(
            report.help(
                "build it: `cargo build --release -p warpproof-driver`; or name it in WARPPROOF_LIBRARY",
            ),
        )
    })
}

/// Links the library under the names that programs look for.
fn link(folder: &Path, library: &Path) -> std::io::Result<()> {
    let library = library.canonicalize()?;
    for name in ["libcuda.so.1", "libcuda.so"] {
        let place = folder.join(name);
        if fs::read_link(&place).is_ok_and(|known| known == library) {
            continue;
        }
        // Another process may do the same; what is there then is as good.
        let _old = fs::remove_file(&place);
        match std::os::unix::fs::symlink(&library, &place) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
    }
    Ok(())
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
        let library = library()?;
        if self.library_path {
            let folder = lasting(&library).map_err(|cause| cannot("make the library's directory", &cause))?;
            terminal.print(format_args!("{}\n", folder.display()));
            return Ok(Outcome::Green);
        }
        let folder =
            tempfile::tempdir().map_err(|cause| cannot("make a directory for the report", &cause))?;
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

    /// The settings as the library gets them.
    fn settings(&self) -> [(&'static str, Option<String>); 5] {
        [
            ("WARPPROOF_CHECKS", self.checks.clone()),
            ("WARPPROOF_SCHEDULES", self.schedules.map(|n| n.to_string())),
            ("WARPPROOF_INSTRUCTIONS", self.max_instructions.map(|n| n.to_string())),
            ("WARPPROOF_DEVICE", self.device.clone()),
            ("WARPPROOF_FAIL", self.fail.then(|| "1".to_owned())),
        ]
    }

    /// Refuses flags that the library would not understand.
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
        // Findings are told here, once, with their source.
        command.env("WARPPROOF_FINDINGS", "quiet");
        for (name, value) in self.settings() {
            if let Some(value) = value {
                command.env(name, value);
            }
        }
        // Ctrl-C is the program's; this one waits for its end and reports.
        let _already = ctrlc::set_handler(|| {});
        let failed = |cause: std::io::Error| cannot(&format!("run {}", program.display()), &cause);
        command.spawn().and_then(|mut child| child.wait()).map_err(failed)
    }
}

/// A directory that stays, in the user's cache.
fn lasting(library: &Path) -> std::io::Result<PathBuf> {
    let named = env::var_os("WARPPROOF_CACHE").map(PathBuf::from);
    let home =
        || env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or_else(|| Some(env::home_dir()?.join(".cache")));
    let cache = named.or_else(|| home().map(|home| home.join("warpproof"))).unwrap_or_else(env::temp_dir);
    let key = blake3::hash(library.canonicalize()?.as_os_str().as_encoded_bytes()).to_hex();
    let folder = cache.join("driver").join(key.get(..16).unwrap_or_default());
    fs::create_dir_all(&folder)?;
    link(&folder, library)?;
    Ok(folder)
}

/// Reads what the processes wrote. Lines that are cut short, by a process that was killed, are left out.
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
                .map(|at| stop::SourceLine { file: at.file.clone(), line: at.line, column: at.column })
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
        // A name of the file that was read, and no path out of the directory.
        let text = Path::new(ptx).file_name().and_then(|name| fs::read_to_string(folder.join(name)).ok());
        let name = format!("{}.ptx", readable(kernel));
        let ptx = Ptx::new(text.unwrap_or_default(), name.clone());
        // The file that the kernel came from, where it can be read.
        let origin = places.iter().find_map(|place| place.source.last()).map(|at| at.file.clone());
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
        self.findings.push(Found {
            kernel: kernel.clone(),
            report,
            blame: blame.clone(),
            processes: BTreeSet::from([file.to_path_buf()]),
        });
    }

    /// A finding decides; without one, the program's own end does.
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
            terminal.say(format_args!("note: {function} is not supported and was answered so"));
        }
        if self.processes == 0 {
            terminal.say("exec: the program opened no device through this library; nothing was checked");
            return;
        }
        let wrong = self.findings.iter().filter(|found| found.blame == "kernel").count();
        let counted =
            |n: u64, one: &str, more: &str| format!("{} {}", grouped(n), if n == 1 { one } else { more });
        terminal.say(format_args!(
            "exec: {}, {}, {} checked, {}",
            counted(self.processes, "process", "processes"),
            counted(self.launches, "launch", "launches"),
            grouped(self.checked),
            counted(u64::try_from(wrong).unwrap_or(u64::MAX), "finding", "findings")
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
