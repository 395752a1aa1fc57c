//! Reporting: findings and stops of launches, and calls of unsupported functions, each only once.
//!
//! By default the library writes to stderr, or to a file. Under `warpproof exec` it writes records to a directory, one file per
//! process, which the command reads after the program has ended; the PTX of the findings is stored next to them.

mod host;

pub use host::{HostFinding, HostPlaceRecord, HostRecord};

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use warpproof_check::{Finding, Severity};
use warpproof_diagnostic::host::HostClass;
use warpproof_diagnostic::{self as diagnostic, sarif};
use warpproof_sim::stop::Place;
use warpproof_sim::{Stop, StopKind};

use crate::settings::{Format, Settings};
use crate::site::{FrameRecord, Site, Symbols};
use crate::work::LaunchCall;

/// A line of CUDA source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceRecord {
    /// The file as the compiler named it.
    pub file: String,
    /// Line, from 1.
    pub line: u32,
    /// Column, from 1; 0 if unknown.
    pub column: u32,
}

/// A source location with a description of the event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlaceRecord {
    /// Description of the event.
    pub text: String,
    /// The kernel or device function.
    pub function: String,
    /// The instruction.
    pub instruction: String,
    /// The line of the PTX.
    pub ptx_line: u32,
    /// The CUDA source, innermost call first.
    pub source: Vec<SourceRecord>,
    /// Block and thread.
    pub thread: Option<([u32; 3], [u32; 3])>,
}

/// A record: one per finding or stop, and one per process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "kebab-case")]
pub enum Record {
    /// A process opened a device.
    Process {
        /// The version of this format.
        version: u32,
        /// Process ID.
        pid: u32,
        /// Program name.
        program: String,
        /// The devices visible to it.
        devices: Vec<String>,
    },
    /// A finding in a kernel, or a launch that ended early.
    Finding {
        /// The kernel.
        kernel: String,
        /// Name of the PTX file in the directory.
        ptx: String,
        /// Grid size in blocks.
        grid: [u32; 3],
        /// Block size in threads.
        block: [u32; 3],
        /// Number of the launch in its process, from 1.
        launch: u64,
        /// The class of the finding, or the kind of the stop.
        class: String,
        /// `kernel`, `input`, `limit`, `gap` or `bug`.
        blame: String,
        /// `error` or `note`.
        severity: String,
        /// One sentence.
        sentence: String,
        /// Locations; the first one is the place to fix.
        places: Vec<PlaceRecord>,
        /// Additional lines.
        notes: Vec<String>,
        /// How to fix it.
        help: Option<String>,
        /// How often it occurred in the launch.
        count: u64,
        /// Where the program launched the kernel, innermost frame first.
        #[serde(default)]
        site: Vec<FrameRecord>,
    },
    /// A finding in the host's code.
    Host(HostRecord),
    /// A call of an unsupported function.
    Unsupported {
        /// Its name.
        function: String,
    },
    /// A message for the user: a module that cannot be loaded, an invalid setting.
    Said {
        /// The message.
        sentence: String,
    },
}

/// Name of the file with the number of launches of a process, next to its records.
pub const COUNT: &str = "launches";

/// The version of the records.
pub const VERSION: u32 = 1;

/// State of the reporting.
#[derive(Debug)]
pub struct Reporter {
    format: Format,
    checked: bool,
    file: Option<PathBuf>,
    folder: Option<PathBuf>,
    out: Option<File>,
    counter: Option<File>,
    seen: BTreeSet<String>,
    unsupported: BTreeSet<String>,
    texts: BTreeMap<u64, String>,
    results: Vec<serde_json::Value>,
    launches: u64,
    symbols: Symbols,
}

/// Where a launch comes from.
#[derive(Clone, Debug, Default)]
pub struct Origin {
    /// The call site.
    pub site: Site,
    /// Lines about the freed memory that stopped it, if that did.
    pub freed: Option<Vec<String>>,
}

/// Whether launches are checked.
fn checked(settings: &Settings) -> bool {
    !settings.checks.is_empty() && !settings.model_clock
}

/// Maximum number of different findings reported per process.
const MOST: usize = 10_000;
/// The number of launches is stored after each of the first launches, then after this many more and when the process ends: a system call
/// for each is a part of the cost of a small launch.
const COUNTED_EACH: u64 = 1000;
const COUNTED_TOGETHER: u64 = 32;
/// Maximum number of findings kept for a SARIF log.
const KEPT: usize = 1000;

impl Reporter {
    /// Creates the report for the given settings.
    pub fn new(settings: &Settings) -> Reporter {
        let mut report = Reporter {
            format: settings.format,
            checked: checked(settings),
            file: settings.file.clone(),
            folder: settings.report.clone(),
            out: None,
            counter: None,
            seen: BTreeSet::new(),
            unsupported: BTreeSet::new(),
            texts: BTreeMap::new(),
            results: Vec::new(),
            launches: 0,
            symbols: Symbols::default(),
        };
        let program =
            std::env::current_exe().map_or_else(|_| String::new(), |path| path.display().to_string());
        let devices = settings.devices.iter().map(|device| device.name.to_owned()).collect();
        report.keep(&Record::Process { version: VERSION, pid: std::process::id(), program, devices });
        report
    }

    /// Forgets what was reported, so that it is reported again if it recurs.
    pub fn begin(&mut self, settings: &Settings) {
        self.checked = checked(settings);
        self.seen.clear();
    }

    /// Writes a message to stderr.
    pub fn say(&mut self, sentence: &str) {
        self.keep(&Record::Said { sentence: sentence.to_owned() });
        if self.format != Format::Quiet {
            // A failed write cannot be reported anywhere.
            let _ = writeln!(std::io::stderr(), "warpproof: {sentence}");
        }
    }

    /// Reports a call of an unsupported function.
    pub fn unsupported(&mut self, function: &str) {
        if self.unsupported.insert(function.to_owned()) {
            if self.format != Format::Quiet {
                let sentence = format!("{function} is not supported; it returns CUDA_ERROR_NOT_SUPPORTED");
                // A failed write cannot be reported anywhere.
                let _ = writeln!(std::io::stderr(), "warpproof: {sentence}");
            }
            self.keep(&Record::Unsupported { function: function.to_owned() });
        }
    }

    /// Writes the output of device-side printf.
    pub fn print(&self, output: &[u8]) {
        if !output.is_empty() {
            let mut out = std::io::stdout().lock();
            let _ = out.write_all(output).and_then(|()| out.flush());
        }
    }

    /// Reports the end of a launch.
    pub fn launched(
        &mut self,
        kernel: &str,
        text: &str,
        call: &LaunchCall,
        findings: &[Finding],
        stop: Option<&Stop>,
        origin: &Origin,
    ) {
        self.launches += 1;
        if self.launches <= COUNTED_EACH || self.launches.is_multiple_of(COUNTED_TOGETHER) {
            self.count();
        }
        let freed = origin.freed.as_deref().zip(stop.map(|stop| stop.sentence.as_str()));
        // The findings of a checked launch already include a stop caused by the kernel.
        let stop = stop.filter(|stop| !findings.iter().any(|f| f.sentence == stop.sentence));
        let stopped = stop.map(|stop| (Finding::of_stop(stop), stop));
        if findings.is_empty() && stopped.is_none() {
            return;
        }
        let ptx = self.text(text);
        let launch = self.launches;
        let record = |finding: &Finding, class: &str, blame: &str| Record::Finding {
            kernel: kernel.to_owned(),
            ptx: ptx.clone(),
            grid: call.grid,
            block: call.block,
            launch,
            class: class.to_owned(),
            blame: blame.to_owned(),
            severity: finding.severity.name().to_owned(),
            sentence: finding.sentence.clone(),
            places: finding
                .places
                .iter()
                .map(|l| place(&l.place, &l.text, l.thread.map(|t| (t.block, t.thread))))
                .collect(),
            notes: finding.notes.clone(),
            help: finding.help.clone(),
            count: finding.count,
            site: Vec::new(),
        };
        for finding in findings {
            let freed = freed.filter(|(_, sentence)| *sentence == finding.sentence);
            let mut finding = finding.clone();
            finding.notes.extend(freed.iter().flat_map(|(notes, _)| notes.iter().cloned()));
            let class = if freed.is_some() { HostClass::UseAfterFree.name() } else { finding.class.name() };
            let record = record(&finding, class, "kernel");
            self.report_once(kernel, &finding, &finding.to_string(), record, origin.site);
        }
        if let Some((finding, stop)) = stopped {
            let blame = stop.blame.name();
            let finding = finding.unwrap_or_else(|| plain(stop));
            let record = record(&finding, stop.kind.name(), blame);
            self.report_once(kernel, &finding, &stop.to_string(), record, origin.site);
        }
    }

    /// Overwrites the stored number of launches, so that it is correct even if the process is killed, and the file does not grow.
    pub fn count(&mut self) {
        let Some(folder) = self.folder.as_ref().filter(|_| self.launches > 0) else { return };
        if self.counter.is_none() {
            let path = folder.join(format!("{}.{COUNT}", std::process::id()));
            self.counter = open(&path, false).ok();
        }
        if let Some(counter) = &self.counter {
            let checked = if self.checked { self.launches } else { 0 };
            let _ = counter.write_at(format!("{:20} {checked:20}", self.launches).as_bytes(), 0);
        }
    }

    /// The file with a module's text.
    fn text(&mut self, text: &str) -> String {
        let key = fingerprint(text.as_bytes());
        if let Some(known) = self.texts.get(&key) {
            return known.clone();
        }
        let name = format!("{key:016x}.ptx");
        if let Some(folder) = &self.folder {
            // Another process may write the same file with the same content.
            let _ = fs::write(folder.join(&name), text);
        }
        self.texts.insert(key, name.clone());
        name
    }

    /// Reports a finding the first time it occurs.
    fn report_once(
        &mut self,
        kernel: &str,
        finding: &Finding,
        text: &str,
        mut record: Record,
        launched: Site,
    ) {
        let Record::Finding { class, places, site, .. } = &mut record else { return };
        // The same bug recurs in every launch, with other threads and another count, so these are not part of the key.
        let lines: Vec<u32> = places.iter().map(|place| place.ptx_line).collect();
        if self.seen.len() >= MOST || !self.seen.insert(format!("{kernel}\n{class}\n{lines:?}")) {
            return;
        }
        *site = self.symbols.frames(launched);
        let known = site.iter().find(|frame| frame.file.is_some()).or(site.first());
        let from = known.map_or_else(String::new, |frame| format!("\n  launched at {}", frame.place()));
        let class = class.clone();
        self.keep(&record);
        match self.format {
            Format::Quiet => {}
            Format::Text => self.write(&format!("warpproof: kernel `{kernel}`: {text}{from}\n")),
            Format::Json => {
                if let Ok(line) = serde_json::to_string(&record) {
                    self.write(&format!("{line}\n"));
                }
            }
            Format::Sarif => {
                if self.results.len() < KEPT {
                    let result = sarif_result(kernel, &class, finding);
                    self.results.push(result);
                    self.write_sarif();
                }
            }
        }
    }

    /// Writes this process's run to the SARIF log. Processes share the file; each has its own run in it.
    fn write_sarif(&self) {
        let Some(path) = &self.file else { return };
        let write = || -> std::io::Result<()> {
            let mut file =
                OpenOptions::new().create(true).read(true).write(true).truncate(false).open(path)?;
            // The lock is released when the file is closed, also if the process is killed.
            file.lock()?;
            let mut text = String::new();
            // A file that is not our log is overwritten.
            let _ = file.read_to_string(&mut text);
            let log = with_run(&text, sarif_run(&self.results));
            file.set_len(0)?;
            file.write_all_at(format!("{log:#}\n").as_bytes(), 0)
        };
        // A failed write cannot be reported anywhere.
        let _ = write();
    }

    /// Writes to the file, or to stderr.
    fn write(&self, text: &str) {
        let written = match &self.file {
            Some(path) => open(path, true).and_then(|mut file| file.write_all(text.as_bytes())),
            None => std::io::stderr().write_all(text.as_bytes()),
        };
        // A failed write cannot be reported anywhere.
        let _ = written;
    }

    /// Appends a record to this process's file.
    fn keep(&mut self, record: &Record) {
        let Some(folder) = &self.folder else { return };
        if self.out.is_none() {
            self.out = open(&folder.join(format!("{}.jsonl", std::process::id())), true).ok();
        }
        if let (Some(out), Ok(line)) = (&mut self.out, serde_json::to_string(record)) {
            // One write per line, so that a killed process leaves only complete lines.
            let _ = out.write_all(format!("{line}\n").as_bytes());
        }
    }
}

fn open(path: &Path, append: bool) -> std::io::Result<File> {
    OpenOptions::new().create(true).append(append).write(true).truncate(!append).open(path)
}

/// Converts a stop that is not a finding, such as a limit.
fn plain(stop: &Stop) -> Finding {
    let mut finding = Finding {
        class: warpproof_check::Class::Trap,
        severity: Severity::Error,
        sentence: stop.sentence.clone(),
        places: Vec::new(),
        notes: stop.notes.clone(),
        help: help_of(stop),
        count: 1,
    };
    if let Some(place) = &stop.place {
        finding.places.push(warpproof_check::Label {
            text: "here".to_owned(),
            place: place.clone(),
            thread: None,
        });
    }
    finding
}

fn place(place: &Place, text: &str, thread: Option<([u32; 3], [u32; 3])>) -> PlaceRecord {
    let source = place.source.iter();
    PlaceRecord {
        text: text.to_owned(),
        function: place.function.clone(),
        instruction: place.instruction.clone(),
        ptx_line: place.ptx_line,
        source: source
            .map(|s| SourceRecord { file: s.file.clone(), line: s.line, column: s.column })
            .collect(),
        thread,
    }
}

/// FNV-1a hash for file names; not cryptographic.
fn fingerprint(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Adds a run to a SARIF log, replacing the previous run of this process.
fn with_run(log: &str, run: serde_json::Value) -> serde_json::Value {
    let known = serde_json::from_str::<serde_json::Value>(log).ok();
    let mut runs =
        known.and_then(|mut log| log["runs"].as_array_mut().map(std::mem::take)).unwrap_or_default();
    let whose = |run: &serde_json::Value| run["automationDetails"]["id"].clone();
    let own = whose(&run);
    runs.retain(|run| whose(run) != own);
    runs.push(run);
    sarif::log(&runs)
}

/// The findings of this process as a run of a SARIF log.
fn sarif_run(results: &[serde_json::Value]) -> serde_json::Value {
    let more =
        serde_json::json!({ "automationDetails": { "id": format!("process {}", std::process::id()) } });
    sarif::run("warpproof", env!("CARGO_PKG_VERSION"), &sarif::rules_with_host(), results, more)
}

/// A finding as a SARIF result.
fn sarif_result(kernel: &str, class: &str, finding: &Finding) -> serde_json::Value {
    let shown = |place: &Place| match place.source.first() {
        Some(at) => diagnostic::Place::new(at.file.as_str(), at.line).column(Some(at.column)),
        None => diagnostic::Place::new("module.ptx", place.ptx_line),
    };
    let places: Vec<diagnostic::Place> = finding.places.iter().map(|label| shown(&label.place)).collect();
    let places: Vec<&diagnostic::Place> = places.iter().collect();
    let mut finding = finding.clone();
    finding.sentence = format!("kernel `{kernel}`: {}", finding.sentence);
    let mut result = sarif::result(&finding, &places, &diagnostic::Place::new("module.ptx", 1), None);
    if let Some(fields) = result.as_object_mut().filter(|_| class != finding.class.name()) {
        // A stop that is not a finding, such as a limit, has no rule.
        fields.insert("ruleId".to_owned(), class.into());
        fields.remove("ruleIndex");
    }
    result
}

/// How to fix a stop; the instruction limit has its own environment variable here.
fn help_of(stop: &Stop) -> Option<String> {
    if stop.kind == StopKind::Limit && stop.sentence.contains("warp instructions") {
        return Some(
            "if the kernel is meant to run this long, raise the limit with `warpproof exec --max-instructions` or \
             WARPPROOF_INSTRUCTIONS"
                .to_owned(),
        );
    }
    stop.help.clone()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A driver whose report goes to a directory.
    fn driver(folder: &Path, checks: &str) -> crate::driver::Driver {
        crate::driver::Driver::new(settings(folder, checks))
    }

    fn settings(folder: &Path, checks: &str) -> Settings {
        Settings::from(|name| match name {
            "WARPPROOF_REPORT" => Some(folder.display().to_string()),
            "WARPPROOF_FINDINGS" => Some("quiet".to_owned()),
            "WARPPROOF_CHECKS" => Some(checks.to_owned()),
            _ => None,
        })
    }

    #[test]
    fn a_finding_is_reported_once_in_each_report() {
        let folder = tempfile::tempdir().unwrap();
        let mut driver = driver(folder.path(), "all");
        let stop = Stop::general(warpproof_sim::Blame::Kernel, StopKind::Trap, "the kernel executed a trap");
        let call = LaunchCall {
            function: 0,
            grid: [1; 3],
            block: [32, 1, 1],
            shared: 0,
            arguments: Vec::new(),
            cooperative: false,
            cluster: None,
            nonportable: None,
            programmatic: crate::dependent::Programmatic::default(),
        };
        let count = || {
            let file = folder.path().join(format!("{}.jsonl", std::process::id()));
            fs::read_to_string(file).unwrap().matches("\"record\":\"finding\"").count()
        };
        for _ in 0..2 {
            driver.report.launched("k", "", &call, &[], Some(&stop), &Origin::default());
        }
        assert_eq!(count(), 1);
        driver.begin_report(settings(folder.path(), "race"));
        driver.report.launched("k", "", &call, &[], Some(&stop), &Origin::default());
        assert_eq!(count(), 2);
        assert_eq!(driver.settings.checks, [warpproof_check::Check::Race]);
    }

    #[test]
    fn processes_share_a_log_and_each_has_one_run_in_it() {
        let other = serde_json::json!({ "automationDetails": { "id": "process 0" }, "results": ["theirs"] });
        let log = with_run("", other);
        let log = with_run(&log.to_string(), sarif_run(&[]));
        let finding = Finding {
            class: warpproof_check::Class::SharedRace,
            severity: Severity::Error,
            sentence: "two threads".to_owned(),
            places: Vec::new(),
            notes: Vec::new(),
            help: None,
            count: 1,
        };
        let log = with_run(&log.to_string(), sarif_run(&[sarif_result("k", "shared-race", &finding)]));
        let results: Vec<_> = log["runs"].as_array().unwrap().iter().map(|run| &run["results"]).collect();
        assert_eq!(results.len(), 2);
        assert_eq!(results[0][0], "theirs");
        assert_eq!(results[1][0]["ruleId"], "shared-race");
        assert_eq!(with_run("no log", sarif_run(&[]))["runs"].as_array().unwrap().len(), 1);
    }
}
