//! `warpproof fleet` and `--fleet`, in builds with the client.

use serde_json::{Value, json};
use warpproof_fleet_client::client::{Fleet as Client, FleetError};
use warpproof_fleet_client::exchange;
use warpproof_fleet_client::submit::SubmitError;
use warpproof_fleet_client::wire::{ANY_DEVICE, QueueView, RunSummary, SOFTWARE_GPU, WorkerView, device};

use super::super::flags::GpuFlags;
use super::super::gate::of_session;
use super::{AuthorityFlags, Fleet, FleetFlags, What};
use crate::report::{Kind, Outcome, Report};
use crate::terminal::Terminal;

/// The environment variable of the token.
const TOKEN: &str = "WARPPROOF_FLEET_TOKEN";

/// The command with which an administrator creates a token.
const MAKE_TOKEN: &str = "`warpproof-fleet token NAME --roles ROLE,… --fleet URL`";

impl AuthorityFlags {
    /// The fleet at an address, with the token of the environment.
    pub fn fleet(&self, url: &str) -> Result<Client, Box<Report>> {
        let token = std::env::var(TOKEN).unwrap_or_default();
        if token.is_empty() {
            let report = Report::error(Kind::Usage, format!("{TOKEN} is not set"));
            return Err(Box::new(
                report
                    .help(format!("ask the fleet's administrator for a token; to create one: {MAKE_TOKEN}")),
            ));
        }
        Client::new(url, token.trim(), self.fleet_ca.as_deref()).map_err(|error| Box::new(of_fleet(&error)))
    }
}

impl FleetFlags {
    /// The requested fleet.
    pub(crate) fn fleet(&self) -> Result<Client, Box<Report>> {
        self.authorities.fleet(self.fleet.as_deref().unwrap_or_default())
    }

    /// The required capability: a device of a name, any device, or none.
    pub(crate) fn capability(&self, gpu: &GpuFlags) -> Result<String, Box<Report>> {
        if gpu.is_of_this_machine() {
            let report = Report::error(
                Kind::Usage,
                "expected --gpu without a number with --fleet: numbers select a device of this machine",
            );
            return Err(Box::new(report.help("use --gpu for any device of the fleet, or --device NAME")));
        }
        Ok(match &self.device {
            Some(name) => device(name),
            None if gpu.is_wanted() => ANY_DEVICE.to_owned(),
            None => SOFTWARE_GPU.to_owned(),
        })
    }
}

/// The report of a submission that failed before any evaluation.
pub(crate) fn of_submission(error: &SubmitError) -> Report {
    match error {
        SubmitError::Session(error) => of_session(error),
        SubmitError::Bundle(why) => Report::error(Kind::Usage, why.clone()),
        SubmitError::Fleet(error) => of_fleet(error),
    }
}

/// An error of the fleet as a report.
pub fn of_fleet(error: &FleetError) -> Report {
    let kind = match error {
        FleetError::Refused(413 | 429, _) => Kind::Limit,
        FleetError::Refused(..) | FleetError::Local(_) => Kind::Usage,
        FleetError::Unreachable(_) | FleetError::Untrusted(_) | FleetError::Odd(_) => Kind::Missing,
    };
    let report = Report::error(kind, error.to_string());
    match error {
        FleetError::Refused(401, _) => {
            report.help(format!("set {TOKEN} to a valid token; to create one: {MAKE_TOKEN}"))
        }
        FleetError::Unreachable(_) => report.help("check that `warpproof-fleet serve` runs at this address"),
        _ => report,
    }
}

impl Fleet {
    pub(super) fn ask(&self, terminal: &mut Terminal) -> Result<Outcome, Box<Report>> {
        let refused = |error: FleetError| Box::new(of_fleet(&error));
        let url = self
            .url
            .as_deref()
            .ok_or_else(|| Box::new(Report::error(Kind::Usage, "expected --fleet URL before the command")))?;
        let fleet = self.authorities.fleet(url)?;
        match &self.what {
            What::Status => {
                let (queue, workers) = (fleet.queue().map_err(refused)?, fleet.workers().map_err(refused)?);
                show(
                    terminal,
                    self.json,
                    "status",
                    json!({ "queue": queue, "workers": workers }),
                    |terminal| {
                        terminal.print(queue.iter().map(queue_line).collect::<String>());
                        terminal.print(workers.iter().map(worker_line).collect::<String>());
                    },
                );
            }
            What::Runs { limit } => {
                let runs = fleet.runs(*limit).map_err(refused)?;
                show(terminal, self.json, "runs", json!({ "runs": runs }), |terminal| {
                    terminal.print(runs.iter().map(run_line).collect::<String>());
                });
            }
            What::Import { ledger } => {
                let new = exchange::import(&fleet, &ledger.open()?).map_err(refused)?;
                show(terminal, self.json, "import", json!({ "segments": new }), |terminal| {
                    terminal.say(format_args!("sent {new} new segments"));
                });
            }
            What::Export { ledger } => {
                let (ledger, _) = ledger.create()?;
                let new = exchange::export(&fleet, &ledger).map_err(refused)?;
                let root = ledger.root().display().to_string();
                show(terminal, self.json, "export", json!({ "segments": new, "ledger": root }), |terminal| {
                    terminal.say(format_args!("fetched {new} new segments into {root}"));
                });
            }
            moved => return Err(super::moved(moved.moved().unwrap_or_default())),
        }
        Ok(Outcome::Green)
    }
}

/// Prints a response: as JSON if requested, else by `text`.
pub fn show(
    terminal: &mut Terminal,
    json: bool,
    what: &str,
    answer: Value,
    text: impl FnOnce(&mut Terminal),
) {
    if !json {
        return text(terminal);
    }
    let mut document = json!({ "schema": format!("warpproof.fleet.{what}/1") });
    if let (Value::Object(all), Value::Object(answer)) = (&mut document, answer) {
        all.extend(answer);
    }
    terminal.json(&document);
}

/// `softmax v2`, or the file if the server could not read the task.
fn task_of(run: &RunSummary) -> String {
    match (&run.task_name, run.task_version) {
        (Some(name), Some(version)) => format!("{name} v{version}"),
        _ => run.task.escape_debug().to_string(),
    }
}

/// `2 MERGE, 1 REJECT, 3 open`.
fn verdicts_of(run: &RunSummary) -> String {
    let mut words: Vec<String> =
        run.verdicts.iter().map(|(word, count)| format!("{count} {}", word.escape_debug())).collect();
    words.extend((run.open > 0).then(|| format!("{} open", run.open)));
    words.join(", ")
}

fn queue_line(queue: &QueueView) -> String {
    let state = format!("{:?}", queue.state).to_lowercase();
    format!("{:>9} {state:8} {}\n", queue.jobs, queue.capability.escape_debug())
}

fn worker_line(worker: &WorkerView) -> String {
    let (name, can) = (worker.worker.escape_debug(), worker.capabilities.join(", "));
    let (leases, seen) = (worker.leases, &worker.last_seen);
    let lost = match worker.lost {
        0 => String::new(),
        n => format!(", {n} lost leases in 30 days"),
    };
    let left = if worker.left { ", left" } else { "" };
    format!("{name}: {leases} jobs, last seen {seen}, {}{lost}{left}\n", can.escape_debug())
}

fn run_line(run: &RunSummary) -> String {
    let short: String = run.run.chars().take(8).collect();
    let (task, who) = (task_of(run), run.submitter.escape_debug());
    format!("{short} {} {task}, by {who}: {}\n", run.made_at, verdicts_of(run))
}
