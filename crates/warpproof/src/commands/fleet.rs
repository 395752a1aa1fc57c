//! `warpproof fleet`: what an operator asks a fleet.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use warpproof_fleet::client::{Fleet as Client, FleetError};
use warpproof_fleet::exchange;
use warpproof_fleet::submit::SubmitError;
use warpproof_fleet::wire::{
    ANY_DEVICE, MAX_TOKEN_DAYS, NewToken, QueueView, Role, RunSummary, SOFTWARE_GPU, TokenView, WorkerView,
    device,
};

use super::flags::{GpuFlags, LedgerFlags, ended};
use super::gate::of_session;
use crate::report::{Kind, Outcome, Report};
use crate::terminal::Terminal;

/// The variable of the token.
const TOKEN: &str = "WARPPROOF_FLEET_TOKEN";

/// How an operator makes a token.
const MAKE_TOKEN: &str = "`warpproof fleet --fleet URL token NAME --roles ROLE,…`";

/// Whom to believe.
#[derive(Debug, Args)]
pub(crate) struct AuthorityFlags {
    /// The authority that signed the fleet's certificate, in PEM [default: those of the system]
    #[arg(long, value_name = "FILE")]
    fleet_ca: Option<PathBuf>,
}

impl AuthorityFlags {
    /// The fleet at an address, with the token of the environment.
    pub(crate) fn fleet(&self, url: &str) -> Result<Client, Box<Report>> {
        let token = std::env::var(TOKEN).unwrap_or_default();
        if token.is_empty() {
            let report = Report::error(Kind::Usage, format!("{TOKEN} is not set"));
            return Err(Box::new(
                report.help(format!("a fleet asks for a token; its operator makes one: {MAKE_TOKEN}")),
            ));
        }
        Client::new(url, token.trim(), self.fleet_ca.as_deref()).map_err(|error| Box::new(of_fleet(&error)))
    }
}

/// What judges instead of this machine.
#[derive(Debug, Args)]
pub(crate) struct FleetFlags {
    /// Have a fleet judge, and take its evidence into this ledger; its token is in WARPPROOF_FLEET_TOKEN
    #[arg(long, value_name = "URL", conflicts_with = "jobs")]
    fleet: Option<String>,
    /// With --fleet: time on a device of this name, as `warpproof fleet status` shows it
    #[arg(long, value_name = "NAME", requires = "fleet", conflicts_with = "gpu")]
    device: Option<String>,
    #[command(flatten)]
    authorities: AuthorityFlags,
}

impl FleetFlags {
    /// Whether a fleet judges.
    pub(crate) fn is_wanted(&self) -> bool {
        self.fleet.is_some()
    }

    /// The fleet, where one is named.
    pub(crate) fn fleet(&self) -> Result<Option<Client>, Box<Report>> {
        self.fleet.as_ref().map(|url| self.authorities.fleet(url)).transpose()
    }

    /// What it takes to judge: a device of a name, any device, or none.
    pub(crate) fn capability(&self, gpu: &GpuFlags) -> Result<String, Box<Report>> {
        if gpu.is_of_this_machine() {
            let report =
                Report::error(Kind::Usage, "a number names a device of this machine, and not of a fleet");
            return Err(Box::new(report.help("--gpu takes any device, --device one of a name")));
        }
        Ok(match &self.device {
            Some(name) => device(name),
            None if gpu.is_wanted() => ANY_DEVICE.to_owned(),
            None => SOFTWARE_GPU.to_owned(),
        })
    }
}

/// What a submission that failed before anything was judged says.
pub(crate) fn of_submission(error: &SubmitError) -> Report {
    match error {
        SubmitError::Session(error) => of_session(error),
        SubmitError::Bundle(why) => Report::error(Kind::Usage, why.clone()),
        SubmitError::Fleet(error) => of_fleet(error),
    }
}

/// What a fleet refused, as a report.
pub(crate) fn of_fleet(error: &FleetError) -> Report {
    let kind = match error {
        FleetError::Refused(413 | 429, _) => Kind::Limit,
        FleetError::Refused(..) | FleetError::Local(_) => Kind::Usage,
        FleetError::Unreachable(_) | FleetError::Untrusted(_) | FleetError::Odd(_) => Kind::Missing,
    };
    let report = Report::error(kind, error.to_string());
    match error {
        FleetError::Refused(401, _) => {
            report.help(format!("{TOKEN} holds the token; an operator makes one: {MAKE_TOKEN}"))
        }
        FleetError::Unreachable(_) => report.help("does `warpproof serve` run at this address?"),
        _ => report,
    }
}

/// Manage a fleet: status, runs, tokens, import and export of its ledger
///
/// Exit codes: 0 done · 2 the fleet refuses or cannot be reached · 4 a limit of the fleet.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Fleet {
    /// The fleet
    #[arg(long = "fleet", value_name = "URL")]
    url: String,
    #[command(flatten)]
    authorities: AuthorityFlags,
    /// Print JSON; its field `schema` names the format
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Show the queue and the workers
    Status,
    /// Make a token and print it; it cannot be shown again
    Token {
        /// Who uses it
        name: String,
        /// What it allows: submit, work, read, admin
        #[arg(long, value_name = "ROLE", value_delimiter = ',', required = true, value_parser = role)]
        roles: Vec<Role>,
        /// How many jobs of it may be unfinished at a time
        #[arg(long, value_name = "N", default_value_t = 100_000)]
        quota: i32,
        /// When it expires: a number of days, or never
        #[arg(long, value_name = "DAYS", default_value = "90", value_parser = lifetime)]
        expires: Lifetime,
    },
    /// List tokens: number, name, roles, when they were made and when they expire
    Tokens,
    /// List the newest runs: task, version, submitter, verdicts
    Runs {
        /// How many
        #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
        limit: u32,
    },
    /// Revoke a token
    Revoke {
        /// Its number, as `tokens` shows it
        id: i64,
    },
    /// Send a local ledger, byte for byte
    Import {
        #[command(flatten)]
        ledger: LedgerFlags,
    },
    /// Fetch all of the fleet's ledger, byte for byte
    Export {
        #[command(flatten)]
        ledger: LedgerFlags,
    },
    /// Delete partitions in which everything ended more than N days ago
    Retain {
        /// The least age, in days
        #[arg(long, value_name = "N")]
        days: u32,
    },
}

fn role(text: &str) -> Result<Role, String> {
    Role::named(text).ok_or_else(|| "the roles are submit, work, read and admin".to_owned())
}

/// How long a token is good for, in days; `None`: until it is revoked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Lifetime(Option<u32>);

fn lifetime(text: &str) -> Result<Lifetime, String> {
    if text == "never" {
        return Ok(Lifetime(None));
    }
    let days = text.parse().ok().filter(|days| (1..=MAX_TOKEN_DAYS).contains(days));
    days.map(|days| Lifetime(Some(days)))
        .ok_or_else(|| format!("expected 1 to {MAX_TOKEN_DAYS} days, or `never`"))
}

/// `softmax v2`, or the file where the server could not read the task.
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

impl Fleet {
    pub(crate) fn run(&self, terminal: &mut Terminal) -> Outcome {
        let done = self.ask(terminal);
        ended(done, terminal)
    }

    fn ask(&self, terminal: &mut Terminal) -> Result<Outcome, Box<Report>> {
        let refused = |error: FleetError| Box::new(of_fleet(&error));
        let fleet = self.authorities.fleet(&self.url)?;
        match &self.what {
            What::Status => {
                let (queue, workers) = (fleet.queue().map_err(refused)?, fleet.workers().map_err(refused)?);
                self.show(terminal, "status", json!({ "queue": queue, "workers": workers }), |terminal| {
                    terminal.print(queue.iter().map(queue_line).collect::<String>());
                    terminal.print(workers.iter().map(worker_line).collect::<String>());
                });
            }
            What::Runs { limit } => {
                let runs = fleet.runs(*limit).map_err(refused)?;
                self.show(terminal, "runs", json!({ "runs": runs }), |terminal| {
                    terminal.print(runs.iter().map(run_line).collect::<String>());
                });
            }
            What::Token { name, roles, quota, expires } => {
                let Lifetime(days) = *expires;
                let wanted = NewToken { name: name.clone(), roles: roles.clone(), quota: *quota, days };
                let made = fleet.make_token(&wanted).map_err(refused)?;
                self.show(terminal, "token", json!({ "id": made.id, "token": made.token }), |terminal| {
                    terminal.print(format_args!("{}\n", made.token));
                    let ends =
                        days.map_or("never expires".to_owned(), |days| format!("expires in {days} days"));
                    terminal.say(format_args!("token {} for {}, {ends}", made.id, name.escape_debug()));
                });
            }
            What::Tokens => {
                let tokens = fleet.tokens().map_err(refused)?;
                self.show(terminal, "tokens", json!({ "tokens": tokens }), |terminal| {
                    terminal.print(tokens.iter().map(token_line).collect::<String>());
                });
            }
            What::Revoke { id } => {
                fleet.revoke_token(*id).map_err(refused)?;
                self.show(terminal, "revoke", json!({ "id": id }), |_| ());
            }
            What::Import { ledger } => {
                let new = exchange::import(&fleet, &ledger.open()?).map_err(refused)?;
                self.show(terminal, "import", json!({ "segments": new }), |terminal| {
                    terminal.say(format_args!("sent {new} new segments"));
                });
            }
            What::Export { ledger } => {
                let (ledger, _) = ledger.create()?;
                let new = exchange::export(&fleet, &ledger).map_err(refused)?;
                let root = ledger.root().display().to_string();
                self.show(terminal, "export", json!({ "segments": new, "ledger": root }), |terminal| {
                    terminal.say(format_args!("fetched {new} new segments into {root}"));
                });
            }
            What::Retain { days } => {
                let gone = fleet.retain(*days).map_err(refused)?;
                self.show(terminal, "retain", json!({ "deleted": gone }), |terminal| {
                    terminal.say(format_args!(
                        "deleted {} partitions, {} jobs, {} segments, {} runs and {} objects",
                        gone.partitions, gone.jobs, gone.segments, gone.runs, gone.objects
                    ));
                });
            }
        }
        Ok(Outcome::Green)
    }

    /// Prints an answer: as JSON where that is wanted, else by `text`.
    fn show(&self, terminal: &mut Terminal, what: &str, answer: Value, text: impl FnOnce(&mut Terminal)) {
        if !self.json {
            return text(terminal);
        }
        let mut document = json!({ "schema": format!("warpproof.fleet.{what}/1") });
        if let (Value::Object(all), Value::Object(answer)) = (&mut document, answer) {
            all.extend(answer);
        }
        terminal.json(&document);
    }
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

fn token_line(token: &TokenView) -> String {
    let roles: Vec<&str> = token.roles.iter().map(|role| role.as_str()).collect();
    let ends = match (&token.expires_at, token.expired) {
        _ if token.revoked => "revoked".to_owned(),
        (None, _) => "never expires".to_owned(),
        (Some(at), false) => format!("expires {at}"),
        (Some(at), true) => format!("expired {at}"),
    };
    let (name, roles) = (token.name.escape_debug(), roles.join(","));
    format!("{:>5} {name}: {roles}, made {}, {ends}\n", token.id, token.made_at)
}
