//! `warpproof serve`: a fleet's server.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use clap::Args;
use warpproof_fleet::server::{Config, Limits, Server, developer, make_token, migrate};

use super::flags::ended;
use super::gate::stop_on_interrupt;
use crate::report::{Kind, Outcome, Report};
use crate::terminal::Terminal;

/// Serve a fleet: many machines, one ledger, in PostgreSQL
///
/// Candidates are submitted by `warpproof gate --fleet`, judged by `warpproof work --fleet`, and kept
/// in the database, in the format of a local ledger. The server keeps nothing that a restart loses;
/// several may share one database.
///
/// First: `warpproof serve --dev --database postgres://…` makes the tables and a token, and serves.
///
/// Exit codes: 0 stopped when asked · 2 the database, the files or the address are not to be had.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(crate) struct Serve {
    /// The database, postgres://USER@HOST/DATABASE; PostgreSQL 15 or later
    #[arg(long, value_name = "URL", env = "WARPPROOF_DATABASE", hide_env_values = true)]
    database: String,
    /// Where bytes are kept: a directory, or s3://BUCKET/PREFIX with AWS's own variables
    #[arg(long, value_name = "DIR|URL", default_value = ".warpproof/objects")]
    objects: String,
    /// Where to listen
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8731")]
    listen: SocketAddr,
    /// Make the tables and a token with all roles, print it, and serve
    #[arg(long)]
    dev: bool,
    /// Bring the tables to this version first
    #[arg(long)]
    migrate: bool,
    /// The certificate chain, in PEM; without one a proxy has to see to TLS
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Its key, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// A proxy in front sees to TLS: browsers send their cookie over nothing else
    #[arg(long, conflicts_with = "tls_cert")]
    behind_tls: bool,
    /// Connections to the database
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(2..=1000))]
    connections: u32,
    /// Bytes of the largest body, packed and unpacked
    #[arg(long, value_name = "BYTES", default_value_t = Limits::default().body_bytes)]
    max_body: usize,
    /// Give a job up after N workers stopped responding while they evaluated it
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=100))]
    attempts: u16,
    /// Requests of one token in a second
    #[arg(long, value_name = "N", default_value_t = Limits::default().requests_per_second)]
    max_rate: u32,
    /// Write no line for each request
    #[arg(long)]
    quiet: bool,
}

impl Serve {
    pub(crate) fn run(&self, terminal: &mut Terminal) -> Outcome {
        let served = self.serve(terminal);
        ended(served, terminal)
    }

    fn serve(&self, terminal: &mut Terminal) -> Result<Outcome, Box<Report>> {
        let refused = |why: String| Box::new(Report::error(Kind::Missing, why));
        let config = Config {
            listen: self.listen,
            tls: self.tls_cert.clone().zip(self.tls_key.clone()),
            behind_tls: self.behind_tls,
            connections: self.connections,
            limits: Limits {
                body_bytes: self.max_body,
                requests_per_second: self.max_rate.max(1),
                ..Limits::default()
            },
            attempts: self.attempts,
            log: !self.quiet,
            ..Config::new(self.database.as_str(), self.objects.as_str())
        };
        let stop = stop_on_interrupt();
        if self.dev || self.migrate {
            migrate(&config).map_err(refused)?;
        }
        let scheme = if config.tls.is_some() { "https" } else { "http" };
        let server = Server::start(&config).map_err(refused)?;
        terminal.print(format_args!("serving {scheme}://{}\n", server.address()));
        // Not before: a server that does not start would leave one that nobody has seen.
        if self.dev {
            let token = make_token(&config, &developer()).map_err(refused)?;
            terminal.print(format_args!("WARPPROOF_FLEET_TOKEN={token}\n"));
        }
        while !stop.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(50));
        }
        server.stop().map_err(refused)?;
        Ok(Outcome::Green)
    }
}
