//! `warpproof gate`: evaluates the candidates of a task in all stages, with one verdict each, and records everything in the ledger.

mod elsewhere;

use std::ffi::OsStr;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use clap::Args;
use serde_json::{Value, json};
use warpproof_evidence::ledger::Ledger;
use warpproof_evidence::record::Outcome as Ended;
use warpproof_gate::session::{Event, Judged, Options, RunSummary, Session, SessionError};
use warpproof_gate::stage::Clocks;
use warpproof_report::counterexample_text;
use warpproof_task::{At, Candidate, MAX_BYTES, Program, Reference, Task};
use warpproof_toolchain::{Part, Toolchain};

use super::evidence::of_ledger;
use super::flags::{GpuFlags, JsonFlag, LedgerFlags, ToolchainFlags, ended, missing, note_unconfined};
use super::fleet::FleetFlags;
use super::limits::LimitFlags;
use crate::report::{Kind, Outcome, Place, Report};
use crate::terminal::{self, Terminal};
use crate::watch::{self, WatchFlags};

/// Build, test and time the candidates of a task, up to a verdict
///
/// Every candidate runs the task's stages in order: build, budget, correct, checks, …, speed. The
/// first stage that fails ends the evaluation; only passing candidates are timed. All results are
/// written to the ledger, from which `warpproof report` makes reports. Results are cached by
/// content; unchanged candidates are not run again.
///
/// Verdicts: MERGE (measured on a GPU, faster than required) · DEFER (passed, but not faster: a
/// valid negative) · PROVISIONAL (passed, no GPU) · INCONCLUSIVE · REJECT.
///
/// Exit codes: 0 merged, deferred or provisional · 1 a candidate was rejected · 2 wrong usage or
/// invalid task · 3 unsupported · 4 limit · 5 inconclusive, or stopped before a verdict.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Gate {
    /// The task file
    #[arg(value_name = "TASK.toml")]
    task: PathBuf,
    /// Candidates, or variants such as 'tiled[TILE=32,PAD=1]' [default: all candidates]
    #[arg(value_name = "CANDIDATE")]
    candidates: Vec<String>,
    /// Evaluate all candidates [default]
    #[arg(long, conflicts_with = "candidates")]
    all: bool,
    /// Resume the newest unfinished run of this task
    #[arg(long, conflicts_with_all = ["candidates", "fresh", "fleet"])]
    resume: bool,
    /// Run all stages again, ignoring results in the ledger
    #[arg(long)]
    fresh: bool,
    /// Run at most N stages in parallel [default: the number of cores]
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
    /// Add the hidden shapes and secret seeds of this number, such as another run's
    ///
    /// They are tested in addition to those drawn for this run. Reports note that the number was
    /// chosen.
    #[arg(long, value_name = "HEX", value_parser = hexadecimal, conflicts_with = "resume")]
    secret: Option<u64>,
    #[command(flatten)]
    gpu: GpuFlags,
    #[command(flatten)]
    elsewhere: FleetFlags,
    #[command(flatten)]
    json: JsonFlag,
    /// Write the run's report: .html, .md, .txt, .json, .xml (JUnit) or .sarif
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    watch: WatchFlags,
    #[command(flatten)]
    ledger: LedgerFlags,
    #[command(flatten)]
    limits: LimitFlags,
    #[command(flatten)]
    toolchain: ToolchainFlags,
}

fn hexadecimal(text: &str) -> Result<u64, String> {
    u64::from_str_radix(text.trim_start_matches("0x"), 16)
        .map_err(|_| "expected at most 16 hexadecimal digits".to_owned())
}

impl Gate {
    pub(crate) fn run(&self, terminal: &mut Terminal) -> Outcome {
        if let Err(report) = super::report::form_of(self.output.as_deref()) {
            return ended(Err(report), terminal);
        }
        let stop = stop_on_interrupt();
        self.watch.repeat(&stop, terminal, || files_of(&self.task), |terminal| self.once(terminal))
    }

    fn once(&self, terminal: &mut Terminal) -> Outcome {
        match self.judge(terminal) {
            Ok(outcome) => outcome,
            Err(reports) => {
                let kind = reports.first().map_or(Kind::Usage, |report| report.kind);
                if self.json.wanted {
                    terminal.json(&json!({ "schema": "warpproof.gate/1", "errors": reports }));
                }
                for report in &reports {
                    terminal.report(report);
                }
                Outcome::Stopped(kind)
            }
        }
    }

    fn judge(&self, terminal: &mut Terminal) -> Result<Outcome, Vec<Report>> {
        let (mut task, text) = read_task(&self.task)?;
        for name in &self.candidates {
            if let Some(variant) = task.variant_named(name) {
                let wrong = |why| vec![Report::error(Kind::Usage, why)];
                task.candidates.push(
                    variant.map(|one| Candidate { name: At::unsaid(name.clone()), ..one }).map_err(wrong)?,
                );
            }
        }
        if self.elsewhere.is_wanted() {
            return self.elsewhere(&task, &text, terminal);
        }
        let toolchain = Toolchain::partial(&self.toolchain.options());
        toolchain.require(&[Part::Nvrtc, Part::Ptxas]).map_err(|error| vec![missing(&error)])?;
        note_unconfined(terminal);
        let (ledger, _) = self.ledger.create().map_err(|report| vec![*report])?;
        let stop = stop_on_interrupt();
        let directory = directory(&self.task);
        let runner = self.gpu.start(terminal).map_err(|report| vec![*report])?;
        let session = Session {
            task: &task,
            text: &text,
            directory,
            toolchain: &toolchain,
            ledger: &ledger,
            clocks: runner.as_ref().map(|runner| -> &dyn Clocks { runner }),
            stop: &stop,
        };
        let options = Options {
            candidates: self.candidates.clone(),
            resume: self.resume,
            fresh: self.fresh,
            // A measurement needs the device for itself.
            jobs: self.jobs.map_or(usize::from(self.gpu.is_wanted()), usize::from),
            chosen: self.secret,
            arguments: std::env::args().skip(1).collect(),
            // If the system cannot sandbox a reference, it still runs, and a note reports it.
            confined: false,
            allowance: self.limits.allowance(),
        };
        let progress = Progress::new(terminal);
        let run = session.run(&options, &|event| progress.tell(&event));
        progress.bar.finish_and_clear();
        let run = run.map_err(|error| vec![of_session(&error)])?;
        Ok(self.render(&run, &ledger, terminal))
    }

    /// Prints the results of a run and returns the exit code.
    fn render(&self, run: &RunSummary, ledger: &Ledger, terminal: &mut Terminal) -> Outcome {
        if let Some(file) = &self.output {
            let task = self.task.display().to_string();
            let written = super::report::of_gate(file, ledger, &run.run, &task);
            let written = written.and_then(|text| {
                fs::write(file, text).map_err(|error| {
                    let sentence = format!("cannot write {}: {error}", file.display());
                    Box::new(Report::error(Kind::Missing, sentence))
                })
            });
            match written {
                Ok(()) => terminal.say(format_args!("wrote the report to {}", file.display())),
                Err(report) => return ended(Err(report), terminal),
            }
        }
        if self.json.wanted {
            terminal.json(&document(run, ledger.root()));
        } else {
            self.print(run, ledger, terminal);
        }
        match run.exit_code() {
            0 => Outcome::Green,
            1 => Outcome::Stopped(Kind::Kernel),
            2 => Outcome::Stopped(Kind::Usage),
            3 => Outcome::Stopped(Kind::Unsupported),
            4 => Outcome::Stopped(Kind::Limit),
            _ => Outcome::Stopped(Kind::Inconclusive),
        }
    }

    /// The evidence of a failure, and the command that reproduces it.
    fn counterexample(&self, one: &Judged) -> String {
        let Some(shown) = one.steps.iter().find_map(|step| step.counterexample.as_deref()) else {
            return String::new();
        };
        let command = shown.command(&self.task.display().to_string(), &one.candidate);
        let text = counterexample_text(shown, &command);
        let mut shown = format!("\n{}\n", one.candidate);
        for line in text.lines() {
            // Writing to a string does not fail.
            let _ = writeln!(shown, "  {line}");
        }
        shown
    }

    fn print(&self, run: &RunSummary, ledger: &Ledger, terminal: &mut Terminal) {
        terminal.print(table(run));
        for one in &run.judged {
            terminal.print(self.counterexample(one));
        }
        let place = ledger.root().display();
        let count = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
        if self.resume && !run.resumed {
            terminal.say("nothing to resume: this task has no unfinished run");
        }
        let fleet = self.elsewhere.is_wanted();
        // If every job failed on the fleet, or the command was stopped before, there is no run.
        let spoken = run.done + run.known > 0;
        if spoken && run.done == 0 && !run.stopped {
            let steps = match run.known {
                1 => "the result of the only step is".to_owned(),
                n => format!("results of all {n} steps are"),
            };
            let read = if fleet { "in" } else { "cached in" };
            terminal.say(format_args!("nothing to do: {steps} {read} {place}"));
        } else if spoken {
            let known = if run.known > 0 { format!(", {} cached", run.known) } else { String::new() };
            terminal.say(format_args!("{} done{known}; run {} in {place}", count(run.done, "step"), run.run));
            terminal.say("`warpproof report` shows the evidence");
        }
        if run.stopped && fleet {
            terminal.say(
                "stopped, and withdrew the jobs that no worker had started; run the same command to continue",
            );
        } else if run.stopped {
            terminal.say(format_args!(
                "stopped; run `warpproof gate {} --resume` to continue",
                self.task.display()
            ));
        }
    }
}

/// A line for each candidate: its verdict, its stages and the reason.
fn table(run: &RunSummary) -> String {
    let mut text = String::new();
    if let Some(chosen) = run.chosen {
        // Writing to a string does not fail.
        let _ = writeln!(text, "chosen secret {chosen:x}: its cases were added to those drawn for the run");
    }
    let wide = |of: &dyn Fn(&Judged) -> usize| run.judged.iter().map(of).max().unwrap_or(0);
    let name = wide(&|one| one.candidate.len());
    let verdict = |one: &Judged| {
        let decision = one.decision.as_ref();
        let grade = decision.and_then(|decision| decision.grade).map(|grade| format!(" ({grade})"));
        let verdict = decision.map_or("no verdict", |decision| decision.verdict.as_str());
        format!("{verdict}{}", grade.unwrap_or_default())
    };
    let verdicts = wide(&|one| verdict(one).len());
    for one in &run.judged {
        let stages: Vec<String> =
            one.steps.iter().map(|step| format!("{} {}", step.stage, sign(step.outcome))).collect();
        let (candidate, word) = (&one.candidate, verdict(one));
        // Writing to a string does not fail.
        let _ = writeln!(text, "{candidate:name$}  {word:verdicts$}  {}", stages.join("  "));
        if let Some(decision) = &one.decision {
            let _ = writeln!(text, "{:name$}  {}", "", decision.reason);
        }
    }
    text
}

fn sign(outcome: Ended) -> &'static str {
    match outcome {
        Ended::Pass => "✓",
        Ended::Fail => "✗",
        Ended::Inconclusive => "?",
        Ended::Skipped => "–",
    }
}

/// The task and the files that its results depend on: sources with their includes, and the reference.
pub(crate) fn files_of(path: &Path) -> Vec<PathBuf> {
    let mut files = vec![path.to_path_buf()];
    // A task that cannot be read is watched until it can be read.
    let Ok((task, _)) = read_task(path) else { return files };
    let folder = directory(path);
    for candidate in &task.candidates {
        if let Program::Source { file, .. } | Program::Ptx { file, .. } = &candidate.program {
            let found = watch::sources(&folder.join(&file.value), &[]);
            files.extend(found);
        }
    }
    match &task.reference {
        Reference::BuiltIn { .. } => {}
        Reference::Python { file, .. } => files.push(folder.join(&file.value)),
        Reference::Files { cases } => {
            let named = cases.iter().flat_map(|case| case.inputs.values().chain(case.outputs.values()));
            files.extend(named.map(|file| folder.join(file.value.split('#').next().unwrap_or_default())));
        }
    }
    files.sort();
    files.dedup();
    files
}

/// The directory of a task's files.
pub(crate) fn directory(task: &Path) -> &Path {
    task.parent().map_or(
        Path::new("."),
        |parent| {
            if parent.as_os_str().is_empty() { Path::new(".") } else { parent }
        },
    )
}

/// The name of a task's file in its directory.
#[cfg(feature = "fleet")]
pub(crate) fn file_name(task: &Path) -> &str {
    task.file_name().and_then(OsStr::to_str).unwrap_or_default()
}

/// Reads a task file and reports every problem in it.
pub(crate) fn read_task(path: &Path) -> Result<(Task, String), Vec<Report>> {
    let unreadable = |cause: String| {
        vec![
            Report::error(Kind::Missing, format!("cannot read {}: {cause}", path.display()))
                .help("run `warpproof init KERNEL.cu` to write a task file for a kernel"),
        ]
    };
    let ending = path.extension().and_then(OsStr::to_str).unwrap_or_default();
    if ["cu", "cuh", "ptx"].contains(&ending.to_ascii_lowercase().as_str()) {
        let shown = path.display();
        let sentence = format!("expected a task file (.toml), found a kernel: {shown}");
        let help = format!("run `warpproof init {shown}` to write a task file");
        return Err(vec![Report::error(Kind::Usage, sentence).help(help)]);
    }
    let size = fs::metadata(path).map_err(|cause| unreadable(cause.to_string()))?.len();
    if size > u64::try_from(MAX_BYTES).unwrap_or(u64::MAX) {
        return Err(unreadable(format!("expected at most {MAX_BYTES} bytes, found {size}")));
    }
    let text = fs::read_to_string(path).map_err(|cause| unreadable(cause.to_string()))?;
    let file = path.display().to_string();
    let task = Task::parse(&text).map_err(|problems| {
        let reports = problems.into_iter().map(|problem| {
            let before = text.get(..problem.span.start).unwrap_or(&text);
            let line = u32::try_from(before.matches('\n').count() + 1).unwrap_or(u32::MAX);
            let column = before.len() - before.rfind('\n').map_or(0, |end| end + 1) + 1;
            let shown = text.lines().nth(before.matches('\n').count()).map(str::to_owned);
            let place = Place::new(file.as_str(), line).column(u32::try_from(column).ok()).text(shown);
            let report = Report::error(Kind::Usage, problem.sentence).at(Some(place));
            match problem.help {
                Some(help) => report.help(help),
                None => report,
            }
        });
        reports.collect::<Vec<_>>()
    })?;
    Ok((task, text))
}

pub(crate) fn of_session(error: &SessionError) -> Report {
    match error {
        SessionError::Ledger(error) => of_ledger(error),
        SessionError::Task(..) => Report::error(Kind::Usage, error.to_string())
            .help("increase `version` in the task file: only runs of the same version are compared"),
        SessionError::NoCandidates => {
            Report::error(Kind::Usage, error.to_string()).help("add a [[candidate]]")
        }
        SessionError::NoCandidate(..) => Report::error(Kind::Usage, error.to_string()),
        SessionError::Changed(..) | SessionError::NoSecret(_) => {
            Report::error(Kind::Usage, error.to_string()).help("run it without --resume")
        }
        SessionError::Outside(_) => Report::error(Kind::Usage, error.to_string())
            .help("move the file into the task's directory, or allow its directory with --allow-path DIR"),
        SessionError::File(..) | SessionError::NoRandom(_) => Report::error(Kind::Missing, error.to_string()),
    }
}

/// A flag that the first Ctrl-C sets; the second ends the process and loses the current step.
pub fn stop_on_interrupt() -> Arc<AtomicBool> {
    // A process has one handler, and therefore one flag.
    static STOP: OnceLock<Arc<AtomicBool>> = OnceLock::new();
    STOP.get_or_init(interrupted).clone()
}

fn interrupted() -> Arc<AtomicBool> {
    let stop = Arc::new(AtomicBool::new(false));
    let flag = stop.clone();
    // Without a handler Ctrl-C ends the process, which is also safe.
    let _unhandled = ctrlc::set_handler(move || {
        if flag.swap(true, Ordering::SeqCst) {
            std::process::exit(130);
        }
    });
    stop
}

/// Progress on a terminal.
struct Progress {
    bar: terminal::Progress,
    ended: AtomicUsize,
}

impl Progress {
    fn new(terminal: &Terminal) -> Self {
        let bar = terminal.progress();
        bar.set_message("compiling");
        Self { bar, ended: AtomicUsize::new(0) }
    }

    fn tell(&self, event: &Event<'_>) {
        match event {
            Event::Planned { steps, .. } => self.bar.set_length(u64::try_from(*steps).unwrap_or(u64::MAX)),
            Event::Begun { candidate, stage } => self.bar.set_message(format!("{candidate}: {stage}")),
            Event::Part { candidate, stage, part } => {
                self.bar.set_message(format!("{candidate}: {stage}, {part}"));
            }
            Event::Ended { step, .. } => {
                let ended = self.ended.fetch_add(1, Ordering::Relaxed) + 1;
                self.bar.set_position(u64::try_from(ended).unwrap_or(u64::MAX));
                if step.outcome == Ended::Fail {
                    self.bar.println(format!("{} {} FAIL: {}", step.candidate, step.stage, step.reason));
                }
            }
            Event::Decided { candidate, decision } => {
                self.bar.println(format!("{candidate}: {}", decision.verdict));
            }
        }
    }
}

fn document(run: &RunSummary, ledger: &Path) -> Value {
    let candidates: Vec<Value> = run
        .judged
        .iter()
        .map(|one| {
            let stages: Vec<Value> = one
                .steps
                .iter()
                .map(|step| {
                    json!({ "stage": step.stage, "outcome": step.outcome, "reason": step.reason, "known": step.from.is_some() || run.unchanged, "figures": step.figures, "counterexample": step.counterexample, "tested": step.tested })
                })
                .collect();
            json!({
                "candidate": one.candidate,
                "run": one.run,
                "verdict": one.decision.as_ref().map(|decision| decision.verdict),
                "grade": one.decision.as_ref().and_then(|decision| decision.grade),
                "reason": one.decision.as_ref().map(|decision| decision.reason.as_str()),
                "stages": stages,
            })
        })
        .collect();
    json!({
        "schema": "warpproof.gate/1",
        "run": run.run,
        "chosen_secret": run.chosen.map(|chosen| format!("{chosen:x}")),
        "ledger": ledger.display().to_string(),
        "steps_done": run.done,
        "steps_known": run.known,
        "unchanged": run.unchanged,
        "stopped": run.stopped,
        "candidates": candidates,
    })
}
