//! `warpproof-fleet worker`: a worker of a fleet.

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::PoisonError;

use clap::Args;
use warpproof_fleet::worker::device::find;
use warpproof_fleet::worker::{Config, Tally, work};
use warpproof_sandbox::Limits;
use warpproof_toolchain::Environment;

use warpproof::program::fleet::{AuthorityFlags, of_fleet};
use warpproof::program::{ended, stop_on_interrupt};
use warpproof::report::{Kind, Outcome, Report};
use warpproof::terminal::Terminal;

/// Evaluate candidates for a fleet
///
/// Only opens outgoing connections. Each evaluation is a separate process, with limits of time and
/// memory, in a sandbox without access to other files, the network and other processes; this
/// requires Linux 6.12 or later with Landlock and seccomp. Results are stored on disk and sent until
/// the server acknowledges them. Set WARPPROOF_FLEET_TOKEN to a token with the role `work`.
///
/// Ctrl-C or SIGTERM: claims no new jobs, finishes and sends running ones, and releases the rest.
///
/// Exit codes: 0 stopped on request, or the queue is empty · 2 refused, or something is missing.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(super) struct Worker {
    /// Work for the fleet at this URL
    #[arg(long, value_name = "URL")]
    fleet: String,
    /// Run N evaluations in parallel on the software GPU [default: the number of cores]
    ///
    /// With --gpu it may be 0, to use devices only.
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u16).range(0..=1024))]
    jobs: Option<u16>,
    /// Set the worker's name [default: host name and process id]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Use this working directory [default: `worker` in warpproof's cache]
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,
    /// Measure on all CUDA devices, or on devices N,…; not tested on hardware
    ///
    /// Each device runs one evaluation at a time, of a candidate with its baseline; all devices run in
    /// parallel. `warpproof fleet status` shows the names under which a device can be requested. With
    /// Warpproof's own driver, as under `warpproof exec`, all times are predictions, and the device has
    /// separate names.
    #[arg(long, value_name = "N,…", num_args = 0.., require_equals = true, value_delimiter = ',')]
    gpu: Option<Vec<u32>>,
    /// Release the worker's jobs after this many seconds without a heartbeat
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=3600))]
    lease: u32,
    /// Limit the time of one evaluation, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = Limits::default().seconds)]
    timeout: u64,
    /// Limit the address space of each process, in MB; all processes may use twice that
    #[arg(long, value_name = "MB", default_value_t = Limits::default().memory_bytes >> 20)]
    memory: u64,
    /// Limit the number of processes of one evaluation
    #[arg(long, value_name = "N", default_value_t = Limits::default().processes)]
    processes: usize,
    /// Limit the disk space of one evaluation, in MB
    #[arg(long, value_name = "MB", default_value_t = Limits::default().disk_bytes >> 20)]
    disk: u64,
    /// Evaluate even if the system cannot sandbox evaluations
    #[arg(long)]
    unconfined: bool,
    /// Exit when the queue is empty
    #[arg(long)]
    until_idle: bool,
    /// Print errors only
    #[arg(long, short)]
    pub(super) quiet: bool,
    #[command(flatten)]
    authorities: AuthorityFlags,
}

impl Worker {
    pub(super) fn run(&self, terminal: &mut Terminal) -> Outcome {
        let worked = self.work(terminal);
        ended(worked, terminal)
    }

    fn work(&self, terminal: &mut Terminal) -> Result<Outcome, Box<Report>> {
        let missing = |why: String| Box::new(Report::error(Kind::Missing, why));
        let stop = stop_on_interrupt();
        let fleet = self.authorities.fleet(&self.fleet)?;
        let program = std::env::current_exe().map_err(|error| missing(error.to_string()))?;
        if self.jobs == Some(0) && self.gpu.is_none() {
            return Err(Box::new(Report::error(Kind::Usage, "expected at least one job or a device")));
        }
        let devices = match self.gpu.as_deref() {
            None => Vec::new(),
            Some(numbers) => {
                let numbers = Some(numbers).filter(|numbers| !numbers.is_empty());
                find(numbers).map_err(|why| missing(format!("no CUDA device found: {why}")))?
            }
        };
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let cache = Environment::read().cache;
        let directory = match &self.directory {
            Some(directory) => std::path::absolute(directory).map_err(|error| missing(error.to_string()))?,
            None => cache
                .clone()
                .ok_or_else(|| missing("no cache directory found: set --directory".to_owned()))?
                .join("worker"),
        };
        let machine = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let machine = machine.trim();
        let machine = if machine.is_empty() { "worker" } else { machine };
        let config = Config {
            name: self.name.clone().unwrap_or_else(|| format!("{machine}-{}", std::process::id())),
            slots: self.jobs.map_or(cores, usize::from),
            lease_seconds: self.lease,
            devices,
            taken: cache.unwrap_or_else(|| directory.clone()).join("devices"),
            directory,
            program: (program, vec!["evaluate".to_owned()]),
            limits: Limits {
                memory_bytes: self.memory.saturating_mul(1 << 20),
                total_memory_bytes: self.memory.saturating_mul(2 << 20),
                disk_bytes: self.disk.saturating_mul(1 << 20),
                processes: self.processes,
                seconds: self.timeout,
                ..Limits::default()
            },
            unconfined: self.unconfined,
            until_idle: self.until_idle,
        };
        for one in &config.devices {
            let names = one.capabilities.join("; ");
            terminal.say(format_args!("device {}: {}", one.number, names.escape_debug()));
        }
        let said = Mutex::new(terminal);
        let say = |text: &str| {
            // A failed message does not stop the worker.
            said.lock().unwrap_or_else(PoisonError::into_inner).say(text.escape_debug());
        };
        say(&format!("{} works for {} in {}", config.name, fleet.base(), config.directory.display()));
        let tally = work(&config, &fleet, &stop, &say).map_err(|error| Box::new(of_fleet(&error)))?;
        let Tally { accepted, lost, failed, released } = tally;
        say(&format!("{accepted} accepted, {lost} too late, {failed} failed, {released} released"));
        Ok(Outcome::Green)
    }
}
