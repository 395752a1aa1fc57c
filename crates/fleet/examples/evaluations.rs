//! Measures the overhead of a fleet per evaluation compared with a local gate, and its scaling with the number of workers: program,
//! server, PostgreSQL and workers all run on this machine. `cargo xtask bench fleet` runs it.
#![expect(clippy::print_stdout, reason = "it prints its result")]

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Instant;

use warpproof_evidence::hash::Hash;
use warpproof_fleet::client::Fleet;
use warpproof_fleet::postgres::Postgres;
use warpproof_fleet::submit;
use warpproof_fleet::wire::{Bundle, SOFTWARE_GPU, Submission};

/// Numbers of workers, measured one after another.
const WORKERS: [u32; 4] = [1, 2, 4, 8];
/// The secret from which every evaluation draws its cases.
const SECRET: &str = "5";

const TASK: &str = include_str!("doubled/task.toml");
const FILES: [(&str, &[u8]); 3] = [
    ("doubled.ptx", include_bytes!("doubled/doubled.ptx")),
    ("x.npy", include_bytes!("doubled/x.npy")),
    ("y.npy", include_bytes!("doubled/y.npy")),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [program, evaluations] = &arguments[..] else {
        println!("usage: evaluations PROGRAM EVALUATIONS");
        return ExitCode::from(2);
    };
    let measured = evaluations
        .parse()
        .map_err(|error| format!("{evaluations}: {error}"))
        .and_then(|evaluations| Study { program: PathBuf::from(program), evaluations }.measure());
    match measured {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            println!("{why}");
            ExitCode::FAILURE
        }
    }
}

struct Study {
    program: PathBuf,
    evaluations: u32,
}

fn started(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.stdin(Stdio::null()).stderr(Stdio::null());
    command
}

fn message(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// The files of one evaluation: each has its own task, so that no verdict is cached.
fn files(number: u32) -> BTreeMap<&'static str, Vec<u8>> {
    let task = TASK.replace("y = 2 x", &format!("evaluation {number}: y = 2 x"));
    let others = FILES.iter().map(|(path, bytes)| (*path, bytes.to_vec()));
    others.chain([("task.toml", task.into_bytes())]).collect()
}

/// Processor time in seconds of a process and of its ended children.
fn seconds_of(process: u32) -> f64 {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // The fields after the name in parentheses, which may contain any character.
    let fields = text.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks = fields.split_whitespace().skip(11).take(4).filter_map(|field| field.parse::<f64>().ok());
    ticks.sum::<f64>() / 100.0
}

/// Processor time in seconds of a process and of all its children.
fn seconds_of_family(parent: u32) -> f64 {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let processes = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let children = processes.filter(|process| {
        let text = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        let parent_of =
            text.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1)?.parse().ok());
        parent_of == Some(parent)
    });
    seconds_of(parent) + children.map(seconds_of).sum::<f64>()
}

/// Prints one row of the table.
fn row(what: &str, evaluations: u32, wall: f64, cores: f64, parts: &str) {
    let each = 1e3 / f64::from(evaluations);
    let rate = f64::from(evaluations) / wall;
    println!("| {what} | {:.1} | {rate:.1} | {:.1} | {parts} |", wall * each, cores * each);
}

impl Study {
    fn measure(&self) -> Result<(), String> {
        let place = tempfile::tempdir().map_err(message)?;
        println!(
            "| setup | ms per evaluation | evaluations/s | core ms per evaluation | of which server, PostgreSQL |"
        );
        println!("|---|--:|--:|--:|---|");
        let alone = self.local(place.path(), 1)?;
        let cores = u32::try_from(thread::available_parallelism().map_or(1, usize::from)).unwrap_or(1);
        if cores > 1 {
            self.local(place.path(), cores)?;
        }
        let mut first = None;
        for workers in WORKERS {
            let each = self.fleet(&place.path().join(format!("fleet-{workers}")), workers)?;
            first = first.or(Some(each));
        }
        if let Some(first) = first {
            println!();
            println!("Overhead of one worker over the local gate: {:+.1} ms per evaluation.", first - alone);
        }
        Ok(())
    }

    fn command(&self) -> Command {
        started(&self.program)
    }

    /// `warpproof-fleet`, which is next to the program.
    fn fleet_command(&self) -> Command {
        started(&self.program.with_file_name("warpproof-fleet"))
    }

    /// Runs the local gate, several in parallel. Returns milliseconds per evaluation.
    fn local(&self, place: &Path, at_once: u32) -> Result<f64, String> {
        let evaluations = self.evaluations;
        for number in 0..evaluations {
            let directory = place.join(format!("local-{at_once}-{number}"));
            fs::create_dir_all(&directory).map_err(message)?;
            for (path, bytes) in files(number) {
                fs::write(directory.join(path), bytes).map_err(message)?;
            }
        }
        let (before, begun, next) = (seconds_of(std::process::id()), Instant::now(), AtomicU32::new(0));
        let one = || -> Result<(), String> {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= evaluations {
                    return Ok(());
                }
                let mut gate = self.command();
                gate.current_dir(place.join(format!("local-{at_once}-{number}"))).stdout(Stdio::null());
                gate.args(["gate", "task.toml", "--jobs", "1", "--ledger", "ledger", "--secret", SECRET]);
                if !gate.status().map_err(message)?.success() {
                    return Err(format!("evaluation {number} fails in the local gate"));
                }
            }
        };
        thread::scope(|scope| {
            let threads: Vec<_> = (0..at_once).map(|_| scope.spawn(one)).collect();
            threads
                .into_iter()
                .try_for_each(|thread| thread.join().map_err(|_| "a thread panicked".to_owned())?)
        })?;
        let wall = begun.elapsed().as_secs_f64();
        let what = format!("local `gate`, {at_once} in parallel");
        row(&what, evaluations, wall, seconds_of(std::process::id()) - before, "");
        Ok(wall * 1e3 / f64::from(evaluations))
    }

    /// Runs the same evaluations on a fleet. Returns milliseconds per evaluation.
    fn fleet(&self, place: &Path, workers: u32) -> Result<f64, String> {
        fs::create_dir_all(place).map_err(message)?;
        let postgres = Postgres::start(&[])?;
        let mut server = self.fleet_command();
        server.args(["serve", "--dev", "--quiet", "--listen", "127.0.0.1:0", "--database", &postgres.url()]);
        server.arg("--objects").arg(place.join("objects"));
        let mut server = Ended(server.stdout(Stdio::piped()).spawn().map_err(message)?);
        let lines = server.0.stdout.take().map(BufReader::new).into_iter().flat_map(BufRead::lines);
        let said: Vec<String> = lines.map_while(Result::ok).take(2).collect();
        let at = |place: usize, before: &str| {
            said.get(place).and_then(|line| line.strip_prefix(before)).ok_or("the server did not start")
        };
        let (address, token) = (at(0, "serving ")?, at(1, "WARPPROOF_FLEET_TOKEN=")?);
        let fleet = Fleet::new(address, token, None).map_err(message)?;
        for number in 0..self.evaluations {
            let files = files(number);
            let named = files.iter().map(|(path, bytes)| ((*path).to_owned(), Hash::of(bytes).to_string()));
            let bundle = Bundle {
                task: "task.toml".to_owned(),
                files: named.collect(),
                secret: Some(SECRET.to_owned()),
                stages: None,
            };
            let submission = Submission {
                run: format!("{:032x}", number + 1),
                bundle,
                candidates: vec!["doubled".to_owned()],
                capability: SOFTWARE_GPU.to_owned(),
                fresh: false,
                priority: 0,
            };
            let objects = files.into_values().map(|bytes| (Hash::of(&bytes), bytes)).collect();
            submit::send(&fleet, &submission, &objects).map_err(message)?;
        }
        let log = postgres.psql("postgres", "SELECT pg_current_wal_lsn()")?;
        let database = || postgres.process().map_or(0.0, seconds_of_family);
        let before = (seconds_of(server.0.id()), database(), seconds_of(std::process::id()));
        let mut working = Vec::new();
        for number in 0..workers {
            let mut worker = self.fleet_command();
            worker.args(["worker", "--fleet", address, "--jobs", "1", "--until-idle", "--directory"]);
            worker.arg(place.join(format!("worker-{number}"))).env("WARPPROOF_FLEET_TOKEN", token);
            working.push(worker.stdout(Stdio::null()).spawn().map_err(message)?);
        }
        for mut worker in working {
            if !worker.wait().map_err(message)?.success() {
                return Err("a worker failed".to_owned());
            }
        }
        let after = (seconds_of(server.0.id()), database(), seconds_of(std::process::id()));
        let number = |statement: &str| -> Result<f64, String> {
            postgres.psql("postgres", statement)?.parse().map_err(|error| format!("{statement}: {error}"))
        };
        if number("SELECT count(*) FROM results")? < f64::from(self.evaluations) {
            return Err("not all evaluations are finished".to_owned());
        }
        // From the first accepted result to the last: the start-up time of a worker does not count.
        let wall = number("SELECT extract(epoch FROM max(accepted_at) - min(accepted_at)) FROM results")?;
        let (serving, keeping) = (after.0 - before.0, after.1 - before.1);
        let each = 1e3 / f64::from(self.evaluations);
        let parts = format!("{:.1}, {:.1}", serving * each, keeping * each);
        let what = format!("fleet of {workers} worker{}", if workers == 1 { "" } else { "s" });
        row(&what, self.evaluations, wall, after.2 - before.2 + serving + keeping, &parts);
        if workers == WORKERS[WORKERS.len() - 1] {
            let tables = number(
                "SELECT sum(pg_total_relation_size(oid)) FROM pg_class WHERE relkind IN ('r', 'p')
                                 AND relnamespace = 'public'::regnamespace",
            )?;
            let log = number(&format!("SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '{log}')"))?;
            let each = f64::from(self.evaluations) * 1e3;
            println!();
            println!(
                "Database: {:.1} kB of tables and indexes, {:.1} kB of log per evaluation.",
                tables / each,
                log / each
            );
        }
        Ok(wall * each)
    }
}

/// A process that is killed when this is dropped.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        // It may have ended already.
        let _ended = self.0.kill().and_then(|()| self.0.wait());
    }
}
