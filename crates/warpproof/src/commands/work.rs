//! `warpproof work`: a worker of a fleet.

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::PoisonError;

use clap::Args;
use warpproof_fleet::worker::device::find;
use warpproof_fleet::worker::{Config, Tally, work};
use warpproof_sandbox::Limits;
use warpproof_toolchain::Environment;

use super::flags::ended;
use super::fleet::{AuthorityFlags, of_fleet};
use super::gate::stop_on_interrupt;
use crate::report::{Kind, Outcome, Report};
use crate::terminal::Terminal;

/// Evaluate candidates for a fleet
///
/// It dials out only. Each evaluation is a process of its own, with limits of time and memory; the
/// kernel keeps files, the network and other processes from it, which takes Linux 6.12 or newer with
/// Landlock and seccomp. What was judged is on disk before it is sent, and is sent until the server
/// has answered. The token is in WARPPROOF_FLEET_TOKEN and has the role `work`.
///
/// Ctrl-C or SIGTERM: takes nothing new, ends what is under way, sends it, and gives the rest back.
///
/// Exit codes: 0 stopped when asked, or nothing waits · 2 the fleet refuses, or something is missing.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Work {
    /// The fleet
    #[arg(long, value_name = "URL")]
    fleet: String,
    /// Evaluations at a time on the software GPU [default: as many as there are cores]
    ///
    /// With --gpu it may be 0: then nothing but devices works.
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u16).range(0..=1024))]
    jobs: Option<u16>,
    /// The worker's name [default: that of the machine and of the process]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Its own directory [default: below warpproof's cache]
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,
    /// Time on all CUDA devices, or on those of these numbers, for those who ask; not tested on hardware
    ///
    /// Each device has one evaluation at a time, of a candidate with its baseline, and all devices
    /// work at once. What a device is, its driver says; `warpproof fleet status` shows by what names
    /// it can be asked for. Behind Warpproof's own driver, as under `warpproof exec`, every time is a
    /// prediction, and such a device has names of its own.
    #[arg(long, value_name = "N,…", num_args = 0.., require_equals = true, value_delimiter = ',')]
    gpu: Option<Vec<u32>>,
    /// Seconds without a sign of life after which others get its jobs
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=3600))]
    lease: u32,
    /// Seconds of one evaluation
    #[arg(long, value_name = "SECONDS", default_value_t = Limits::default().seconds)]
    timeout: u64,
    /// Megabytes of address space of each process of an evaluation; all of them may have twice as many in memory
    #[arg(long, value_name = "MB", default_value_t = Limits::default().memory_bytes >> 20)]
    memory: u64,
    /// Processes of one evaluation at a time
    #[arg(long, value_name = "N", default_value_t = Limits::default().processes)]
    processes: usize,
    /// Megabytes that all files of one evaluation take
    #[arg(long, value_name = "MB", default_value_t = Limits::default().disk_bytes >> 20)]
    disk: u64,
    /// Judge even where the system cannot keep files, processes and calls from an evaluation
    #[arg(long)]
    unconfined: bool,
    /// End when nothing waits
    #[arg(long)]
    until_idle: bool,
    #[command(flatten)]
    authorities: AuthorityFlags,
}

impl Work {
    pub(crate) fn run(&self, terminal: &mut Terminal) -> Outcome {
        let worked = self.work(terminal);
        ended(worked, terminal)
    }

    fn work(&self, terminal: &mut Terminal) -> Result<Outcome, Box<Report>> {
        let missing = |why: String| Box::new(Report::error(Kind::Missing, why));
        let stop = stop_on_interrupt();
        let fleet = self.authorities.fleet(&self.fleet)?;
        let program = std::env::current_exe().map_err(|error| missing(error.to_string()))?;
        if self.jobs == Some(0) && self.gpu.is_none() {
            return Err(Box::new(Report::error(
                Kind::Usage,
                "a worker without evaluations and without a device",
            )));
        }
        let devices = match self.gpu.as_deref() {
            None => Vec::new(),
            Some(numbers) => {
                let numbers = Some(numbers).filter(|numbers| !numbers.is_empty());
                find(numbers).map_err(|why| missing(format!("there is no CUDA device: {why}")))?
            }
        };
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let cache = Environment::read().cache;
        let directory = match &self.directory {
            Some(directory) => std::path::absolute(directory).map_err(|error| missing(error.to_string()))?,
            None => cache
                .clone()
                .ok_or_else(|| missing("there is no cache directory: give --directory".to_owned()))?
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
            // A worker that cannot say something still works.
            said.lock().unwrap_or_else(PoisonError::into_inner).say(text.escape_debug());
        };
        say(&format!("{} works for {} in {}", config.name, fleet.base(), config.directory.display()));
        let tally = work(&config, &fleet, &stop, &say).map_err(|error| Box::new(of_fleet(&error)))?;
        let Tally { accepted, lost, failed, released } = tally;
        say(&format!("{accepted} accepted, {lost} too late, {failed} failed, {released} given back"));
        Ok(Outcome::Green)
    }
}
