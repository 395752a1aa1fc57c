//! `cargo xtask bench`: measures the speeds for which the project sets limits.

mod checks;
mod counters;
mod driver;
mod exec;
pub(crate) mod fleet;
pub(crate) mod kernels;
mod sim;

use std::fs;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::in_release;

/// Length of a batch: long enough that the resolution of the system's CPU clock does not matter.
const BATCH: Duration = Duration::from_millis(500);

/// The best batch counts: whatever else runs on the machine can only slow one down.
const BATCHES: u32 = 6;

/// Runs one benchmark in the release build: the speed of a debug build means nothing.
pub(crate) fn run(what: &str, json: bool) -> Result<(), String> {
    // The measured programs are built for release; this program only starts them.
    match what {
        "driver" => return driver::run(json),
        "exec" => return exec::run(json),
        _ => {}
    }
    let task: Vec<&str> = ["bench", what].into_iter().chain(json.then_some("--json")).collect();
    in_release(&task, || match what {
        "parse" => parse(json),
        "checks" => checks::run(json),
        "counters" => counters::run(json),
        _ => sim::run(json),
    })
}

/// Parses the corpus over and over on one core and prints the rate.
///
/// The corpus is what `cargo xtask corpus` has left under `target/corpus`, and the modules in the repository.
fn parse(json: bool) -> Result<(), String> {
    let root = crate::root();
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let mut paths = Vec::new();
    for directory in [target.join("corpus"), root.join("corpus")] {
        find_modules(&directory, &mut paths)?;
    }
    paths.sort();
    if paths.is_empty() {
        return Err("found no PTX to parse: run `cargo xtask corpus` first".to_owned());
    }
    let mut modules = Vec::new();
    for path in &paths {
        modules.push(
            fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?,
        );
    }
    for (path, source) in paths.iter().zip(&modules) {
        if let Some(error) = warpproof_ptx::parse(source).1.first() {
            return Err(format!("{} does not parse: {error}", path.display()));
        }
    }
    let bytes: usize = modules.iter().map(String::len).sum();
    let exact = u32::try_from(bytes).map_err(|_| "the corpus is larger than 4 GiB".to_owned())?;
    let rate = (0..BATCHES).map(|_| batch(&modules, f64::from(exact) / 1e6)).fold(0.0, f64::max);
    if json {
        let report = serde_json::json!({
            "parse_mb_per_s": (rate * 10.0).round() / 10.0,
            "bytes": bytes,
            "modules": modules.len(),
            "clock": if on_core().is_some() { "cpu" } else { "wall" },
        });
        println!("{report}");
    } else {
        println!("{rate:.1} MB/s: {} modules, {bytes} bytes, best of {BATCHES} batches", modules.len());
    }
    Ok(())
}

/// Megabytes per second of one batch.
fn batch(modules: &[String], megabytes: f64) -> f64 {
    let clock = Clock::start();
    let mut rounds = 0u32;
    loop {
        for source in modules {
            black_box(warpproof_ptx::parse(black_box(source)));
        }
        rounds += 1;
        let elapsed = clock.elapsed();
        if elapsed >= BATCH {
            return f64::from(rounds) * megabytes / elapsed.as_secs_f64();
        }
    }
}

/// CPU time where the system provides it, so that other work on the machine counts less; otherwise wall-clock time.
struct Clock {
    on_core: Option<Duration>,
    wall: Instant,
}

impl Clock {
    fn start() -> Self {
        Self { on_core: on_core(), wall: Instant::now() }
    }

    fn elapsed(&self) -> Duration {
        match (self.on_core, on_core()) {
            (Some(before), Some(after)) => after.saturating_sub(before),
            _ => self.wall.elapsed(),
        }
    }
}

/// CPU time of this thread.
fn on_core() -> Option<Duration> {
    let text = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
}

/// All `.ptx` files below a directory, which need not exist.
fn find_modules(directory: &Path, found: &mut Vec<PathBuf>) -> Result<(), String> {
    if !directory.is_dir() {
        return Ok(());
    }
    let failed = |error: std::io::Error| format!("cannot list {}: {error}", directory.display());
    for entry in fs::read_dir(directory).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.is_dir() {
            find_modules(&path, found)?;
        } else if path.extension().is_some_and(|extension| extension == "ptx") {
            found.push(path);
        }
    }
    Ok(())
}
