//! Measures how many claims per second a server handles with a long queue and many concurrent clients, on this machine, through
//! HTTP, with durable claims. `cargo xtask bench fleet` runs it.
#![expect(clippy::print_stdout, reason = "it prints its result")]

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use warpproof_evidence::hash::Hash;
use warpproof_fleet::client::Fleet;
use warpproof_fleet::postgres::Postgres;
use warpproof_fleet::server::{Config, Limits, Server, developer, make_token, migrate};
use warpproof_fleet::wire::{Bundle, Claim, SOFTWARE_GPU, Submission};

/// One configuration of the measurement.
struct Study {
    jobs: u32,
    claimers: u32,
    batch: u32,
}

/// Queued jobs, concurrent clients, and jobs per claim.
const STUDIES: [Study; 6] = [
    Study { jobs: 10_000, claimers: 8, batch: 1 },
    Study { jobs: 10_000, claimers: 32, batch: 1 },
    Study { jobs: 100_000, claimers: 32, batch: 1 },
    Study { jobs: 1_000_000, claimers: 8, batch: 1 },
    Study { jobs: 1_000_000, claimers: 32, batch: 1 },
    Study { jobs: 1_000_000, claimers: 32, batch: 8 },
];
/// Duration of each measurement.
const TIME: Duration = Duration::from_secs(10);

fn main() -> ExitCode {
    println!("| queued | concurrent clients | jobs per claim | claims/s | jobs/s | p50 | p99 |");
    println!("|--:|--:|--:|--:|--:|--:|--:|");
    for study in STUDIES {
        match measure(&study) {
            Ok(row) => println!("{row}"),
            Err(why) => {
                println!("{why}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}

fn measure(study: &Study) -> Result<String, String> {
    let postgres = Postgres::start(&["shared_buffers=512MB", "max_wal_size=4GB"])?;
    let objects = tempfile::tempdir().map_err(|error| error.to_string())?;
    let config = Config {
        limits: Limits { requests_per_second: 1_000_000, ..Limits::default() },
        connections: 32,
        ..Config::new(postgres.url(), objects.path().display().to_string())
    };
    migrate(&config)?;
    let token = make_token(&config, &developer())?;
    let server = Server::start(&config)?;
    let base = format!("http://{}", server.address());
    let fleet = Fleet::new(&base, &token, None).map_err(|error| error.to_string())?;
    // One job is submitted through the API; the others are copies of it.
    let task = Hash::of(b"task");
    fleet.put_object(&task, b"task").map_err(|error| error.to_string())?;
    let files = BTreeMap::from([("task.toml".to_owned(), task.to_string())]);
    let submission = Submission {
        run: "0".repeat(32),
        bundle: Bundle { task: "task.toml".to_owned(), files, secret: None, stages: None },
        candidates: vec!["c".to_owned()],
        capability: SOFTWARE_GPU.to_owned(),
        fresh: false,
        priority: 0,
    };
    fleet.submit(&submission).map_err(|error| error.to_string())?;
    postgres.psql(
        "postgres",
        &format!(
            "INSERT INTO jobs (key, token, capability, candidate, bundle)
             SELECT decode(md5(n::text) || md5('x' || n), 'hex'), token, capability, 'c' || n, bundle
             FROM generate_series(1, {}) AS n, (SELECT token, capability, bundle FROM jobs LIMIT 1) AS one",
            study.jobs.saturating_sub(1)
        ),
    )?;
    postgres.psql("postgres", "ANALYZE jobs")?;
    postgres.psql("postgres", "CHECKPOINT")?;
    let end = Instant::now() + TIME;
    let start = Instant::now();
    let times: Vec<(Duration, usize)> = thread::scope(|scope| {
        let claimers: Vec<_> = (0..study.claimers)
            .map(|number| {
                let fleet = fleet.clone();
                scope.spawn(move || {
                    let claim = Claim {
                        worker: format!("w{number}"),
                        version: env!("CARGO_PKG_VERSION").to_owned(),
                        capabilities: vec![SOFTWARE_GPU.to_owned()],
                        limit: study.batch,
                        lease_seconds: 600,
                    };
                    let mut times = Vec::new();
                    while Instant::now() < end {
                        let asked = Instant::now();
                        let Ok(claimed) = fleet.claim(&claim) else { break };
                        times.push((asked.elapsed(), claimed.jobs.len()));
                        if claimed.jobs.is_empty() {
                            break;
                        }
                    }
                    times
                })
            })
            .collect();
        claimers.into_iter().flat_map(|claimer| claimer.join().unwrap_or_default()).collect()
    });
    let seconds = start.elapsed().as_secs_f64();
    let held = postgres.psql("postgres", "SELECT count(*) FROM jobs WHERE state = 'leased'")?;
    let claimed: usize = times.iter().map(|(_, jobs)| jobs).sum();
    if held != claimed.to_string() {
        return Err(format!("{claimed} jobs were claimed, but the database has {held}"));
    }
    let mut taken: Vec<Duration> = times.iter().map(|(time, _)| *time).collect();
    taken.sort_unstable();
    let at = |percent: usize| {
        taken.get(taken.len() * percent / 100).copied().unwrap_or_default().as_secs_f64() * 1e3
    };
    let rate = |count: usize| f64::from(u32::try_from(count).unwrap_or(u32::MAX)) / seconds;
    server.stop()?;
    let Study { jobs, claimers, batch } = study;
    Ok(format!(
        "| {jobs} | {claimers} | {batch} | {:.0} | {:.0} | {:.1} ms | {:.1} ms |",
        rate(taken.len()),
        rate(claimed),
        at(50),
        at(99),
    ))
}
