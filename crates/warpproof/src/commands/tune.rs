//! `warpproof tune`: a search over the macros of a candidate, every variant through the gate.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde_json::json;
use warpproof_fleet::search::FleetJudges;
use warpproof_gate::session::Session;
use warpproof_gate::stage::Clocks;
use warpproof_gate::task::Task;
use warpproof_gate::tune::search::Strategy;
use warpproof_gate::tune::{Event, Judges, SCHEMA, Settings, Study, TuneError, text, tune};
use warpproof_toolchain::{Part, Toolchain};

use super::flags::{GpuFlags, JsonFlag, LedgerFlags, ToolchainFlags, missing, note_unconfined};
use super::fleet::{FleetFlags, of_submission};
use super::gate::{directory, file_name, of_session, read_task, stop_on_interrupt};
use super::limits::LimitFlags;
use crate::report::{Kind, Outcome, Report};
use crate::terminal::Terminal;

/// Search the macros of a candidate for the fastest variant
///
/// The task declares what may be varied: [[space]] with a candidate, macros and their values, and
/// constraints between them. Every variant goes through the gate's stages build, budget and model;
/// whoever leads goes through all stages, and leads no more if one is not green. Without a GPU,
/// times are predicted.
///
/// What was evaluated is in the ledger. A search that was stopped, however, is run again with the
/// same command: it reads what it did and goes on. The same seed gives the same search, also where a
/// fleet evaluates; then no compiler is needed here.
///
/// Exit codes: 0 a winner that is green in all stages · 1 no variant is · 2 wrong usage or a wrong task ·
/// 4 the time limit came before the budget's end · 5 stopped, or nothing could be judged.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Tune {
    /// The task file
    #[arg(value_name = "TASK.toml")]
    task: PathBuf,
    /// The candidate that is varied [default: the one that the task has a space for]
    #[arg(value_name = "CANDIDATE")]
    candidate: Option<String>,
    /// How variants are chosen
    #[arg(long, value_enum, value_name = "HOW", default_value = "evolution")]
    search: Search,
    /// The most variants that are evaluated [default: a quarter of them, at least 32; all with a grid]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=262_144))]
    budget: Option<u32>,
    /// What the search draws from
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Take every variant through all stages, not only those that lead
    #[arg(long)]
    full: bool,
    #[command(flatten)]
    gpu: GpuFlags,
    #[command(flatten)]
    elsewhere: FleetFlags,
    /// Seconds after which no further generation begins
    #[arg(long, value_name = "SECONDS")]
    time_limit: Option<u32>,
    /// Stages that run at a time [default: as many as there are cores]
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
    #[command(flatten)]
    json: JsonFlag,
    #[command(flatten)]
    ledger: LedgerFlags,
    #[command(flatten)]
    limits: LimitFlags,
    #[command(flatten)]
    toolchain: ToolchainFlags,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Search {
    /// All of them, in order
    Grid,
    /// Any of them
    Random,
    /// Children of the best so far
    Evolution,
}

impl Tune {
    pub(crate) fn run(&self, terminal: &mut Terminal) -> Outcome {
        match self.search(terminal) {
            Ok(outcome) => outcome,
            Err(reports) => {
                let kind = reports.first().map_or(Kind::Usage, |report| report.kind);
                if self.json.wanted {
                    terminal.json(&json!({ "schema": SCHEMA, "errors": reports }));
                }
                for report in &reports {
                    terminal.report(report);
                }
                Outcome::Stopped(kind)
            }
        }
    }

    fn search(&self, terminal: &mut Terminal) -> Result<Outcome, Vec<Report>> {
        let (task, source) = read_task(&self.task)?;
        let candidate = self.candidate(&task).map_err(|report| vec![*report])?;
        let fleet = self.elsewhere.fleet().map_err(|report| vec![*report])?;
        let toolchain = Toolchain::partial(&self.toolchain.options());
        if fleet.is_none() {
            toolchain.require(&[Part::Nvrtc, Part::Ptxas]).map_err(|error| vec![missing(&error)])?;
            note_unconfined(terminal);
        }
        let (ledger, _) = self.ledger.create().map_err(|report| vec![*report])?;
        let stop = stop_on_interrupt();
        // Whatever a fleet times on is not here.
        let runner =
            if fleet.is_none() { self.gpu.start(terminal).map_err(|report| vec![*report])? } else { None };
        let session = Session {
            task: &task,
            text: &source,
            directory: directory(&self.task),
            toolchain: &toolchain,
            ledger: &ledger,
            clocks: runner.as_ref().map(|runner| -> &dyn Clocks { runner }),
            stop: &stop,
        };
        let settings = Settings {
            strategy: match self.search {
                Search::Grid => Strategy::Grid,
                Search::Random => Strategy::Random,
                Search::Evolution => Strategy::Evolution,
            },
            seed: self.seed,
            budget: self.budget.and_then(|budget| usize::try_from(budget).ok()),
            full: self.full,
            time_limit: self.time_limit.map(|seconds| Duration::from_secs(u64::from(seconds))),
            // Whoever times shares the device with nobody.
            jobs: self.jobs.map_or(usize::from(self.gpu.is_wanted()), usize::from),
            arguments: std::env::args().skip(1).collect(),
            allowance: self.limits.allowance(),
        };
        let study = match &fleet {
            None => follow(&session, &candidate, &settings, terminal)
                .map_err(|error| of_tuning(&error, of_session)),
            Some(fleet) => {
                let capability = self.elsewhere.capability(&self.gpu).map_err(|report| vec![*report])?;
                let judges = FleetJudges::new(&session, fleet, file_name(&self.task), &capability);
                let judges = judges.map_err(|error| vec![of_submission(&error)])?;
                follow(&judges, &candidate, &settings, terminal)
                    .map_err(|error| of_tuning(&error, of_submission))
            }
        };
        let study = study.map_err(|report| vec![report])?;
        if self.json.wanted {
            let value = serde_json::to_value(&study);
            let value = value
                .map_err(|error| vec![Report::error(Kind::Bug, format!("the study is no JSON: {error}"))])?;
            terminal.json(&value);
        } else {
            terminal.print(text::text(&study, &self.task.display().to_string()));
            let known = study.evaluations.len().saturating_sub(study.fresh);
            let done = format!("{} evaluated now, {known} known before", study.fresh);
            terminal.say(format_args!("{done}; in {}", ledger.root().display()));
        }
        Ok(match study.exit_code() {
            0 => Outcome::Green,
            1 => Outcome::Stopped(Kind::Kernel),
            4 => Outcome::Stopped(Kind::Limit),
            _ => Outcome::Stopped(Kind::Inconclusive),
        })
    }

    /// The candidate that is varied.
    fn candidate(&self, task: &Task) -> Result<String, Box<Report>> {
        let spaces: Vec<&str> = task.spaces.iter().map(|space| space.candidate.as_str()).collect();
        let help = "[[space]] with candidate, values and require; the book's chapter on tuning has one";
        let (sentence, help) = match (&self.candidate, spaces.as_slice()) {
            (Some(name), _) if spaces.contains(&name.as_str()) => return Ok(name.clone()),
            (None, [one]) => return Ok((*one).to_owned()),
            (None, []) => ("the task declares no space".to_owned(), help.to_owned()),
            (None, _) => (
                "the task has several spaces; name a candidate".to_owned(),
                format!("there are {}", spaces.join(", ")),
            ),
            (Some(name), _) => (format!("the task declares no space for `{name}`"), help.to_owned()),
        };
        Err(Box::new(Report::error(Kind::Usage, sentence).help(help)))
    }
}

/// The search, and what is told of it on the way.
fn follow<J: Judges>(
    judges: &J,
    candidate: &str,
    settings: &Settings,
    terminal: &Terminal,
) -> Result<Study, TuneError<J::Error>> {
    let progress = terminal.progress();
    let study = tune(judges, candidate, settings, &|event| match event {
        Event::Generation { done, of, best } => {
            let best = best.map(|best| format!(", best {:.3} us", best.us)).unwrap_or_default();
            progress.set_message(format!("{done} of {of}{best}"));
            progress.println(format!("{done} of {of} evaluated{best}"));
        }
        Event::Ended(step) => progress.set_message(format!("{}: {}", step.candidate, step.stage)),
        Event::Leads(candidate) => progress.set_message(format!("{candidate} leads: all stages")),
    });
    progress.finish_and_clear();
    study
}

fn of_tuning<E: fmt::Display>(error: &TuneError<E>, of_judges: impl Fn(&E) -> Report) -> Report {
    match error {
        TuneError::Judges(error) => of_judges(error),
        TuneError::Points(_) => Report::error(Kind::Usage, error.to_string())
            .help("loosen `require`, or take values away, in the task's [[space]]"),
        TuneError::NoSpace(_) | TuneError::NoTimes => Report::error(Kind::Usage, error.to_string()),
    }
}
