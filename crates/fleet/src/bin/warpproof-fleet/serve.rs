//! `warpproof-fleet serve`: a fleet's server.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use clap::Args;
use warpproof_fleet::server::{Config, Limits, Server, developer, make_token, migrate};

use warpproof::program::{ended, stop_on_interrupt};
use warpproof::report::{Kind, Outcome, Report};
use warpproof::terminal::Terminal;

/// Serve a fleet: many machines, one ledger, in PostgreSQL
///
/// `warpproof gate --fleet` submits candidates, `warpproof-fleet worker` evaluates them; results are
/// stored in the database, in the format of a local ledger. The server is stateless; several
/// servers may share one database.
///
/// To start: `warpproof-fleet serve --dev --database postgres://…` creates the tables and a token.
///
/// Exit codes: 0 stopped on request · 2 the database, a file or the address is not available.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(super) struct Serve {
    /// Use this database: postgres://USER@HOST/DATABASE; PostgreSQL 15 or later
    #[arg(long, value_name = "URL", env = "WARPPROOF_DATABASE", hide_env_values = true)]
    database: String,
    /// Store objects in a directory, or in s3://BUCKET/PREFIX with AWS's variables
    #[arg(long, value_name = "DIR|URL", default_value = ".warpproof/objects")]
    objects: String,
    /// Listen on this address
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8731")]
    listen: SocketAddr,
    /// Create the tables and a token with all roles, print the token, and serve
    #[arg(long)]
    dev: bool,
    /// Migrate the tables to this version first
    #[arg(long)]
    migrate: bool,
    /// Use this certificate chain, in PEM; without it, TLS requires a proxy
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Use this private key, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Mark cookies as secure: a proxy in front terminates TLS
    #[arg(long, conflicts_with = "tls_cert")]
    behind_tls: bool,
    /// Open at most N connections to the database
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(2..=1000))]
    connections: u32,
    /// Limit the size of a body, compressed and decompressed
    #[arg(long, value_name = "BYTES", default_value_t = Limits::default().body_bytes)]
    max_body: usize,
    /// Fail a job after N workers stopped responding while they evaluated it
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=100))]
    attempts: u16,
    /// Limit the requests per second of one token
    #[arg(long, value_name = "N", default_value_t = Limits::default().requests_per_second)]
    max_rate: u32,
    /// Do not log requests
    #[arg(long)]
    quiet: bool,
}

impl Serve {
    pub(super) fn run(&self, terminal: &mut Terminal) -> Outcome {
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
        // Created after the server has started; otherwise a failed start would leave an unused token.
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
