//! Commands of an administrator: tokens, and the deletion of old results.

use clap::Args;
use serde_json::json;
use warpproof::program::ended;
use warpproof::program::fleet::{AuthorityFlags, of_fleet, show};
use warpproof::report::{Outcome, Report};
use warpproof::terminal::Terminal;
use warpproof_fleet::client::{Fleet, FleetError};
use warpproof_fleet::wire::{MAX_TOKEN_DAYS, NewToken, Role, TokenView};

/// The server, and the output format.
#[derive(Debug, Args)]
struct ServerFlags {
    /// Use the fleet at this URL; set WARPPROOF_FLEET_TOKEN to an administrator's token
    #[arg(long, value_name = "URL")]
    fleet: String,
    #[command(flatten)]
    authorities: AuthorityFlags,
    /// Print JSON; the field `schema` names the format
    #[arg(long)]
    json: bool,
}

impl ServerFlags {
    /// Connects, sends the request, and reports an error if the server refuses.
    fn ask(
        &self,
        terminal: &mut Terminal,
        question: impl FnOnce(&Fleet, &mut Terminal) -> Result<(), FleetError>,
    ) -> Outcome {
        let done = self.authorities.fleet(&self.fleet).and_then(|fleet| {
            let asked = question(&fleet, terminal);
            asked.map(|()| Outcome::Green).map_err(|error| Box::<Report>::new(of_fleet(&error)))
        });
        ended(done, terminal)
    }
}

/// Create a token and print it; it cannot be shown again
#[derive(Debug, Args)]
pub(super) struct Token {
    /// The name of the token's user
    name: String,
    /// Grant these roles: submit, work, read, admin
    #[arg(long, value_name = "ROLE", value_delimiter = ',', required = true, value_parser = role)]
    roles: Vec<Role>,
    /// Limit the number of unfinished jobs of the token
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    quota: i32,
    /// Set the lifetime: a number of days, or never
    #[arg(long, value_name = "DAYS", default_value = "90", value_parser = lifetime)]
    expires: Lifetime,
    #[command(flatten)]
    server: ServerFlags,
}

impl Token {
    pub(super) fn run(&self, terminal: &mut Terminal) -> Outcome {
        self.server.ask(terminal, |fleet, terminal| {
            let Lifetime(days) = self.expires;
            let (name, roles) = (self.name.clone(), self.roles.clone());
            let made = fleet.make_token(&NewToken { name, roles, quota: self.quota, days })?;
            let answer = json!({ "id": made.id, "token": made.token });
            show(terminal, self.server.json, "token", answer, |terminal| {
                terminal.print(format_args!("{}\n", made.token));
                let ends = days.map_or("never expires".to_owned(), |days| format!("expires in {days} days"));
                terminal.say(format_args!("token {} for {}, {ends}", made.id, self.name.escape_debug()));
            });
            Ok(())
        })
    }
}

/// List tokens: number, name, roles, creation and expiry dates
#[derive(Debug, Args)]
pub(super) struct Tokens {
    #[command(flatten)]
    server: ServerFlags,
}

impl Tokens {
    pub(super) fn run(&self, terminal: &mut Terminal) -> Outcome {
        self.server.ask(terminal, |fleet, terminal| {
            let tokens = fleet.tokens()?;
            show(terminal, self.server.json, "tokens", json!({ "tokens": tokens }), |terminal| {
                terminal.print(tokens.iter().map(token_line).collect::<String>());
            });
            Ok(())
        })
    }
}

/// Revoke a token
#[derive(Debug, Args)]
pub(super) struct Revoke {
    /// The number of the token, from `tokens`
    id: i64,
    #[command(flatten)]
    server: ServerFlags,
}

impl Revoke {
    pub(super) fn run(&self, terminal: &mut Terminal) -> Outcome {
        self.server.ask(terminal, |fleet, terminal| {
            fleet.revoke_token(self.id)?;
            show(terminal, self.server.json, "revoke", json!({ "id": self.id }), |_| ());
            Ok(())
        })
    }
}

/// Delete partitions in which everything ended more than N days ago
#[derive(Debug, Args)]
pub(super) struct Retain {
    /// Set the minimum age, in days
    #[arg(long, value_name = "N")]
    days: u32,
    #[command(flatten)]
    server: ServerFlags,
}

impl Retain {
    pub(super) fn run(&self, terminal: &mut Terminal) -> Outcome {
        self.server.ask(terminal, |fleet, terminal| {
            let gone = fleet.retain(self.days)?;
            show(terminal, self.server.json, "retain", json!({ "deleted": gone }), |terminal| {
                terminal.say(format_args!(
                    "deleted {} partitions, {} jobs, {} segments, {} runs and {} objects",
                    gone.partitions, gone.jobs, gone.segments, gone.runs, gone.objects
                ));
            });
            Ok(())
        })
    }
}

fn role(text: &str) -> Result<Role, String> {
    Role::named(text).ok_or_else(|| "expected submit, work, read or admin".to_owned())
}

/// How long a token is valid, in days; `None`: until it is revoked.
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

fn token_line(token: &TokenView) -> String {
    let roles: Vec<&str> = token.roles.iter().map(|role| role.as_str()).collect();
    let ends = match (&token.expires_at, token.expired) {
        _ if token.revoked => "revoked".to_owned(),
        (None, _) => "never expires".to_owned(),
        (Some(at), false) => format!("expires {at}"),
        (Some(at), true) => format!("expired {at}"),
    };
    let (name, roles) = (token.name.escape_debug(), roles.join(","));
    format!("{:>5} {name}: {roles}, created {}, {ends}\n", token.id, token.made_at)
}
