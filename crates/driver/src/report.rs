//! What is told: findings and stops of launches, and what is not supported, each once.
//!
//! On its own the library writes to stderr, or to a file. Under `warpproof exec` it writes records to a directory, one file for each
//! process, which the command reads when the program has ended; the PTX that findings are about lies beside them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use warpproof_diagnostic::{self as diagnostic, sarif};
use warpproof_sim::check::{Finding, Severity};
use warpproof_sim::stop::Place;
use warpproof_sim::{Blame, Stop, StopKind};

use crate::settings::{Format, Settings};
use crate::work::LaunchCall;

/// A line of CUDA source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceRecord {
    /// The file as the compiler named it.
    pub file: String,
    /// From 1.
    pub line: u32,
    /// From 1; 0 if unknown.
    pub column: u32,
}

/// A place with what happened there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlaceRecord {
    /// What happened there.
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

/// What is written for each finding or stop, and once for a process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "kebab-case")]
pub enum Record {
    /// A process opened a device.
    Process {
        /// The version of this format.
        version: u32,
        /// Its number.
        pid: u32,
        /// Its program.
        program: String,
        /// The devices it sees.
        devices: Vec<String>,
    },
    /// Something is wrong with a kernel, or a launch ended early.
    Finding {
        /// The kernel.
        kernel: String,
        /// The file of its PTX in the directory.
        ptx: String,
        /// Blocks.
        grid: [u32; 3],
        /// Threads of a block.
        block: [u32; 3],
        /// The number of the launch in its process, from 1.
        launch: u64,
        /// The class of the finding, or the kind of the stop.
        class: String,
        /// `kernel`, `input`, `limit`, `gap` or `bug`.
        blame: String,
        /// `error` or `note`.
        severity: String,
        /// One sentence.
        sentence: String,
        /// Where, the place to mend first.
        places: Vec<PlaceRecord>,
        /// Further lines.
        notes: Vec<String>,
        /// How to mend it.
        help: Option<String>,
        /// How often it happened in the launch.
        count: u64,
    },
    /// A function that is not supported was called.
    Unsupported {
        /// Its name.
        function: String,
    },
    /// A sentence for the user: a module that was not loaded, a setting that was not understood.
    Said {
        /// It.
        sentence: String,
    },
}

/// The name of the file that holds how many launches a process made, beside its records.
pub const COUNT: &str = "launches";

/// The version of the records.
pub const VERSION: u32 = 1;

/// What is told, and where.
#[derive(Debug)]
pub struct Report {
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
}

/// The most different findings of a process that are told.
const MOST: usize = 10_000;
/// The most findings that are kept for a SARIF log.
const KEPT: usize = 1000;

impl Report {
    /// Told as the settings ask.
    pub fn new(settings: &Settings) -> Report {
        let mut report = Report {
            format: settings.format,
            checked: !settings.checks.is_empty() && !settings.model_clock,
            file: settings.file.clone(),
            folder: settings.report.clone(),
            out: None,
            counter: None,
            seen: BTreeSet::new(),
            unsupported: BTreeSet::new(),
            texts: BTreeMap::new(),
            results: Vec::new(),
            launches: 0,
        };
        let program =
            std::env::current_exe().map_or_else(|_| String::new(), |path| path.display().to_string());
        let devices = settings.devices.iter().map(|device| device.name.to_owned()).collect();
        report.keep(&Record::Process { version: VERSION, pid: std::process::id(), program, devices });
        report
    }

    /// A sentence on stderr.
    pub fn say(&mut self, sentence: &str) {
        self.keep(&Record::Said { sentence: sentence.to_owned() });
        if self.format != Format::Quiet {
            // Nobody listens, and nothing can be done about it.
            let _ = writeln!(std::io::stderr(), "warpproof: {sentence}");
        }
    }

    /// A function that is not there was called.
    pub fn unsupported(&mut self, function: &str) {
        if self.unsupported.insert(function.to_owned()) {
            if self.format != Format::Quiet {
                let sentence = format!("{function} is not supported; it answers CUDA_ERROR_NOT_SUPPORTED");
                // Nobody listens, and nothing can be done about it.
                let _ = writeln!(std::io::stderr(), "warpproof: {sentence}");
            }
            self.keep(&Record::Unsupported { function: function.to_owned() });
        }
    }

    /// What kernels printed.
    pub fn print(&self, output: &[u8]) {
        if !output.is_empty() {
            let mut out = std::io::stdout().lock();
            let _ = out.write_all(output).and_then(|()| out.flush());
        }
    }

    /// A launch has ended.
    pub fn launched(
        &mut self,
        kernel: &str,
        text: &str,
        call: &LaunchCall,
        findings: &[Finding],
        stop: Option<&Stop>,
    ) {
        self.launches += 1;
        self.count();
        // A stop that is the kernel's fault is among the findings of a checked launch.
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
            severity: if finding.severity == Severity::Error { "error" } else { "note" }.to_owned(),
            sentence: finding.sentence.clone(),
            places: finding
                .places
                .iter()
                .map(|l| place(&l.place, &l.text, l.thread.map(|t| (t.block, t.thread))))
                .collect(),
            notes: finding.notes.clone(),
            help: finding.help.clone(),
            count: finding.count,
        };
        for finding in findings {
            self.tell(
                kernel,
                finding,
                &finding.to_string(),
                &record(finding, finding.class.name(), "kernel"),
            );
        }
        if let Some((finding, stop)) = stopped {
            let blame = match stop.blame {
                Blame::Kernel => "kernel",
                Blame::Input => "input",
                Blame::Limit => "limit",
                Blame::Gap => "gap",
                Blame::Bug => "bug",
            };
            let finding = finding.unwrap_or_else(|| plain(stop));
            self.tell(kernel, &finding, &stop.to_string(), &record(&finding, stop.kind.name(), blame));
        }
    }

    /// Writes the number of launches over the one before: always true, also of a process that is killed, and never longer.
    fn count(&mut self) {
        let Some(folder) = &self.folder else { return };
        if self.counter.is_none() {
            let path = folder.join(format!("{}.{COUNT}", std::process::id()));
            self.counter = open(&path, false).ok();
        }
        if let Some(counter) = &self.counter {
            let checked = if self.checked { self.launches } else { 0 };
            let _ = counter.write_at(format!("{:20} {checked:20}", self.launches).as_bytes(), 0);
        }
    }

    /// The file that holds a module's text.
    fn text(&mut self, text: &str) -> String {
        let key = fingerprint(text.as_bytes());
        if let Some(known) = self.texts.get(&key) {
            return known.clone();
        }
        let name = format!("{key:016x}.ptx");
        if let Some(folder) = &self.folder {
            // Another process may write the same.
            let _ = fs::write(folder.join(&name), text);
        }
        self.texts.insert(key, name.clone());
        name
    }

    /// Tells a finding the first time it is made.
    fn tell(&mut self, kernel: &str, finding: &Finding, text: &str, record: &Record) {
        let Record::Finding { class, places, .. } = record else { return };
        // The same mistake is made in every launch, each time by other threads and another number of times.
        let lines: Vec<u32> = places.iter().map(|place| place.ptx_line).collect();
        if self.seen.len() >= MOST || !self.seen.insert(format!("{kernel}\n{class}\n{lines:?}")) {
            return;
        }
        self.keep(record);
        match self.format {
            Format::Quiet => {}
            Format::Text => self.write(&format!("warpproof: kernel `{kernel}`: {text}\n")),
            Format::Json => {
                if let Ok(line) = serde_json::to_string(record) {
                    self.write(&format!("{line}\n"));
                }
            }
            Format::Sarif => {
                if self.results.len() < KEPT {
                    let result = sarif_result(kernel, class, finding);
                    self.results.push(result);
                    self.write_sarif();
                }
            }
        }
    }

    /// This process's run in the SARIF log, whose file is shared with other processes: each has a run of its own in it.
    fn write_sarif(&self) {
        let Some(path) = &self.file else { return };
        let write = || -> std::io::Result<()> {
            let mut file =
                OpenOptions::new().create(true).read(true).write(true).truncate(false).open(path)?;
            // Released when the file is closed, also of a process that is killed.
            file.lock()?;
            let mut text = String::new();
            // What is no log of ours is written over.
            let _ = file.read_to_string(&mut text);
            let log = with_run(&text, sarif_run(&self.results));
            file.set_len(0)?;
            file.write_all_at(format!("{log:#}\n").as_bytes(), 0)
        };
        // Nobody listens, and nothing can be done about it.
        let _ = write();
    }

    /// To the file, or to stderr.
    fn write(&self, text: &str) {
        let written = match &self.file {
            Some(path) => open(path, true).and_then(|mut file| file.write_all(text.as_bytes())),
            None => std::io::stderr().write_all(text.as_bytes()),
        };
        // Nobody listens, and nothing can be done about it.
        let _ = written;
    }

    /// Adds a record to this process's file.
    fn keep(&mut self, record: &Record) {
        let Some(folder) = &self.folder else { return };
        if self.out.is_none() {
            self.out = open(&folder.join(format!("{}.jsonl", std::process::id())), true).ok();
        }
        if let (Some(out), Ok(line)) = (&mut self.out, serde_json::to_string(record)) {
            // One call for one line, so that lines of a process that is killed are whole.
            let _ = out.write_all(format!("{line}\n").as_bytes());
        }
    }
}

fn open(path: &Path, append: bool) -> std::io::Result<File> {
    OpenOptions::new().create(true).append(append).write(true).truncate(!append).open(path)
}

/// A stop that is nobody's finding, such as a limit.
fn plain(stop: &Stop) -> Finding {
    let mut finding = Finding {
        class: warpproof_sim::check::Class::Trap,
        severity: Severity::Error,
        sentence: stop.sentence.clone(),
        places: Vec::new(),
        notes: stop.notes.clone(),
        help: help_of(stop),
        count: 1,
    };
    if let Some(place) = &stop.place {
        finding.places.push(warpproof_sim::check::Label {
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

/// FNV-1a: names of files, no secret and no proof.
fn fingerprint(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// A SARIF log with a run in it, in place of the one that this process wrote before.
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
    sarif::run("warpproof", env!("CARGO_PKG_VERSION"), &sarif::rules(), results, more)
}

/// A finding as a result of that run.
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

/// How to fix it: a limit on instructions has a variable of its own here.
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

    #[test]
    fn processes_share_a_log_and_each_has_one_run_in_it() {
        let other = serde_json::json!({ "automationDetails": { "id": "process 0" }, "results": ["theirs"] });
        let log = with_run("", other);
        let log = with_run(&log.to_string(), sarif_run(&[]));
        let finding = Finding {
            class: warpproof_sim::check::Class::SharedRace,
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
