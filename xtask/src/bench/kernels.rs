//! Speed of the kernels that people run: unchecked, checked and counted, alternating, in one run on one core.
//!
//! Times are those of the processor and *measured*; the best of several runs counts, because other work on the machine can only slow a
//! run down. A run whose result is wrong, or in which the checks find something, is an error.

mod picture;
mod pocl;
mod profile;
mod subject;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use warpproof_check::CheckLaunch;

use serde_json::{Map, Value, json};
use warpproof_count::{CountLaunch, CountSettings};
use warpproof_sim::Level;

use super::Clock;
use crate::section::Section;
pub(crate) use profile::run as profile;
use subject::{Prepared, SUBJECTS, Sizes, Subject, Work};

/// The generated table.
const SECTION: Section = Section { page: "book/src/performance.md", name: "figures", task: "bench kernels" };

/// Seconds of a batch of runs: much more than the resolution of the system's CPU clock.
const BATCH: f64 = 0.2;

/// A load of other processes above which a run is marked.
const BUSY: f64 = 1.0;

/// How a launch is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Mode {
    /// Without observers
    Unchecked,
    /// With the checks of `warpproof check`
    Checked,
    /// With the counters of `warpproof counters`
    Counted,
}

impl Mode {
    const ALL: [Mode; 3] = [Mode::Unchecked, Mode::Checked, Mode::Counted];

    fn name(self) -> &'static str {
        match self {
            Mode::Unchecked => "unchecked",
            Mode::Checked => "checked",
            Mode::Counted => "counted",
        }
    }
}

/// What to measure.
#[derive(clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "flags of the command line")]
pub(crate) struct Asked {
    /// Only kernels whose name contains this
    filter: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Batches of runs of each kernel in each mode; the best counts. 1 is a single run, for profilers
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    times: u32,
    /// Only this mode
    #[arg(long, value_enum)]
    mode: Option<Mode>,
    /// Run smaller problems, for profilers
    #[arg(long)]
    small: bool,
    /// Keep the kernels that an interrupted run of this build has measured
    #[arg(long)]
    resume: bool,
    /// Write the table into the book
    #[arg(long, conflicts_with_all = ["filter", "mode", "small"])]
    bless: bool,
}

impl Asked {
    /// The same arguments for the release build.
    pub(crate) fn task(&self) -> Vec<String> {
        let mut task = vec!["bench".to_owned(), "kernels".to_owned()];
        task.extend(self.filter.clone());
        let flags = [
            ("--json", self.json),
            ("--small", self.small),
            ("--resume", self.resume),
            ("--bless", self.bless),
        ];
        task.extend(flags.iter().filter(|(_, set)| *set).map(|(flag, _)| (*flag).to_owned()));
        task.push(format!("--times={}", self.times));
        task.extend(self.mode.map(|mode| format!("--mode={}", mode.name())));
        task
    }

    fn subjects(&self) -> Result<Vec<&'static Subject>, String> {
        let filter = self.filter.as_deref().unwrap_or("");
        let chosen: Vec<_> = SUBJECTS.iter().filter(|subject| subject.name.contains(filter)).collect();
        if chosen.is_empty() {
            let names: Vec<_> = SUBJECTS.iter().map(|subject| subject.name).collect();
            return Err(format!("expected a part of a name of {}, found `{filter}`", names.join(", ")));
        }
        Ok(chosen)
    }
}

/// The best time of each mode that was run.
#[derive(Clone, Debug, Default, PartialEq)]
struct Times {
    seconds: BTreeMap<String, f64>,
    rate: Option<(f64, String)>,
}

impl Times {
    fn of(&self, mode: Mode) -> Option<f64> {
        self.seconds.get(mode.name()).copied()
    }

    /// How many times the unchecked time this mode takes.
    fn ratio(&self, mode: Mode) -> Option<f64> {
        Some(self.of(mode)? / self.of(Mode::Unchecked)?)
    }

    fn json(&self) -> Value {
        let mut object = Map::new();
        for mode in Mode::ALL {
            if let Some(seconds) = self.of(mode) {
                object.insert(format!("{}_s", mode.name()), json!(seconds));
            }
        }
        for mode in [Mode::Checked, Mode::Counted] {
            if let Some(ratio) = self.ratio(mode) {
                object.insert(format!("{}_ratio", mode.name()), json!((ratio * 100.0).round() / 100.0));
            }
        }
        if let Some((rate, unit)) = &self.rate {
            object.insert("unchecked_rate".to_owned(), json!((rate * 1000.0).round() / 1000.0));
            object.insert("unit".to_owned(), json!(unit));
        }
        Value::Object(object)
    }

    fn from_json(value: &Value) -> Option<Times> {
        let seconds = Mode::ALL.iter().filter_map(|mode| {
            Some((mode.name().to_owned(), value.get(format!("{}_s", mode.name()))?.as_f64()?))
        });
        let rate = || Some((value.get("unchecked_rate")?.as_f64()?, value.get("unit")?.as_str()?.to_owned()));
        let times = Times { seconds: seconds.collect(), rate: rate() };
        (!times.seconds.is_empty()).then_some(times)
    }
}

/// Executes a run this many times; returns the processor's seconds of all of them, with those in which memory is restored.
fn batch(prepared: &mut Prepared, mode: Mode, runs: u32) -> Result<f64, String> {
    let clock = Clock::start();
    for _ in 0..runs {
        prepared.reset()?;
        if let Some(problem) = launches_of_the_profile(prepared, mode) {
            return Err(problem);
        }
    }
    let seconds = clock.elapsed().as_secs_f64();
    prepared.verify()?;
    Ok(seconds)
}

/// Seconds to restore the memory.
fn resetting(prepared: &mut Prepared) -> Result<f64, String> {
    let clock = Clock::start();
    let mut count = 0;
    loop {
        prepared.reset()?;
        count += 1;
        let seconds = clock.elapsed().as_secs_f64();
        if seconds >= BATCH / 4.0 {
            return Ok(seconds / f64::from(count));
        }
    }
}

/// Seconds of one run, the best of several batches in each mode. The first batch of a mode finds how many runs a batch needs.
fn best_times(prepared: &mut Prepared, modes: &[Mode], times: u32) -> Result<BTreeMap<String, f64>, String> {
    if times == 1 {
        // For profiles: one run of each mode.
        let once = |mode: &Mode| Ok((mode.name().to_owned(), batch(prepared, *mode, 1)?));
        return modes.iter().map(once).collect();
    }
    let reset = resetting(prepared)?;
    let mut best: BTreeMap<String, f64> = BTreeMap::new();
    let mut runs = vec![0; modes.len()];
    for _ in 0..times {
        for (mode, runs) in modes.iter().zip(&mut runs) {
            if *runs == 0 {
                *runs = 1;
                while batch(prepared, *mode, *runs)? < BATCH && *runs < 1 << 10 {
                    *runs *= 2;
                }
            }
            let seconds = batch(prepared, *mode, *runs)? / f64::from(*runs) - reset;
            let best = best.entry(mode.name().to_owned()).or_insert(f64::INFINITY);
            *best = best.min(seconds);
        }
    }
    Ok(best)
}

/// The part of a run that is measured; callgrind finds it by its name. Returns a stop or a finding.
#[inline(never)]
fn launches_of_the_profile(prepared: &mut Prepared, mode: Mode) -> Option<String> {
    let Prepared { device, launches, .. } = prepared;
    for (launch, settings) in launches {
        let stop = match mode {
            Mode::Unchecked => device.run(launch).stop,
            Mode::Counted => device.count(launch, &CountSettings::default()).outcome.stop,
            Mode::Checked => {
                let checked = device.check(launch, settings);
                if let Some(finding) = checked.findings.first() {
                    return Some(format!("unexpected finding: {finding}"));
                }
                checked.outcome.stop
            }
        };
        if let Some(stop) = stop {
            return Some(stop.to_string());
        }
    }
    None
}

/// Measures one kernel.
fn measure(subject: &Subject, sizes: Sizes, modes: &[Mode], times: u32) -> Result<Times, String> {
    let mut prepared = subject.prepare(sizes)?;
    let best =
        best_times(&mut prepared, modes, times).map_err(|error| format!("{}: {error}", subject.name))?;
    let work: Work = prepared.work;
    let rate = best.get(Mode::Unchecked.name()).map(|seconds| {
        let (rate, unit) = work.rate(*seconds);
        (rate, unit.to_owned())
    });
    Ok(Times { seconds: best, rate })
}

/// The results of this build so far, for a run that is resumed.
struct Kept {
    path: PathBuf,
    build: String,
    kernels: Map<String, Value>,
}

impl Kept {
    /// Those of an earlier run if it is to be resumed; otherwise none.
    fn open(asked: &Asked) -> Result<Kept, String> {
        let path = crate::target().join("bench/kernels.json");
        let program = std::env::current_exe().and_then(fs::read).map_err(|error| error.to_string())?;
        let build =
            format!("{} times={} small={}", blake3::hash(&program).to_hex(), asked.times, asked.small);
        let earlier = fs::read_to_string(&path).ok().filter(|_| asked.resume);
        let earlier = earlier.and_then(|text| serde_json::from_str::<Value>(&text).ok());
        let kernels = earlier
            .filter(|earlier| earlier["build"] == *build)
            .and_then(|earlier| earlier["kernels"].as_object().cloned())
            .unwrap_or_default();
        Ok(Kept { path, build, kernels })
    }

    /// The times of a kernel, if all of these modes were run.
    fn find(&self, name: &str, modes: &[Mode]) -> Option<Times> {
        let times = Times::from_json(self.kernels.get(name)?)?;
        modes.iter().all(|mode| times.of(*mode).is_some()).then_some(times)
    }

    fn keep(&mut self, name: &str, times: &Times) -> Result<(), String> {
        self.kernels.insert(name.to_owned(), times.json());
        let write = || {
            fs::create_dir_all(self.path.parent().unwrap_or(&self.path))?;
            fs::write(&self.path, json!({ "build": self.build, "kernels": self.kernels }).to_string())
        };
        write().map_err(|error| format!("cannot write {}: {error}", self.path.display()))
    }
}

/// Processes that want a core, without this one.
fn load() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().next().and_then(|load| load.parse().ok()).unwrap_or(0.0)
}

/// The machine in neutral terms.
fn machine() -> String {
    let vectors = match Level::detect() {
        Level::V4 => "with AVX-512",
        Level::V3 => "with AVX2",
        Level::Portable => "without AVX2",
    };
    format!("{} cores of {}, {vectors}", crate::cores(), std::env::consts::ARCH)
}

/// Measures the kernels and prints the table.
pub(crate) fn run(asked: &Asked) -> Result<(), String> {
    let subjects = asked.subjects()?;
    let modes: Vec<Mode> = asked.mode.map_or_else(|| Mode::ALL.to_vec(), |mode| vec![mode]);
    let sizes = if asked.small { Sizes::SMALL } else { Sizes::FULL };
    let load = load();
    let mut kept = Kept::open(asked)?;
    let mut results: Vec<(&Subject, Times)> = Vec::new();
    for subject in subjects {
        let times = if let Some(times) = kept.find(subject.name, &modes) {
            times
        } else {
            eprintln!("{} …", subject.name);
            let times = measure(subject, sizes, &modes, asked.times)?;
            kept.keep(subject.name, &times)?;
            times
        };
        results.push((subject, times));
    }
    let compared = ["sgemm", "copy"];
    let wanted = modes.contains(&Mode::Unchecked)
        && !asked.small
        && results.iter().any(|(subject, _)| compared.contains(&subject.name));
    let pocl = if wanted { pocl::seconds(asked.times)? } else { None };
    if asked.json {
        println!("{}", json(&results, pocl.as_ref(), load, asked.times));
        return Ok(());
    }
    let note = format!(
        "{}; processor time on one core, best of {}, *measured* in one run{}.",
        machine(),
        asked.times,
        if load > BUSY {
            format!("; other processes used the machine (load {load:.1})")
        } else {
            String::new()
        }
    );
    let table = table(&results, pocl.as_ref());
    println!("{note}\n\n{table}");
    if asked.bless { SECTION.compare_or_write(&format!("{note}\n\n{table}"), true) } else { Ok(()) }
}

fn json(results: &[(&Subject, Times)], pocl: Option<&BTreeMap<String, f64>>, load: f64, times: u32) -> Value {
    let mut kernels = Map::new();
    for (subject, measured) in results {
        let mut object = measured.json();
        let seconds = pocl.and_then(|pocl| pocl.get(subject.name));
        if let (Some(pocl), Some(own), Some(object)) =
            (seconds, measured.of(Mode::Unchecked), object.as_object_mut())
        {
            object.insert("pocl_s".to_owned(), json!(pocl));
            object.insert("pocl_ratio".to_owned(), json!((own / pocl * 100.0).round() / 100.0));
        }
        kernels.insert(subject.name.to_owned(), object);
    }
    json!({
        "machine": machine(),
        "load": load,
        "clock": if super::on_core().is_some() { "cpu" } else { "wall" },
        "times": times,
        "kernels": kernels,
    })
}

/// The table as Markdown, which is also readable on a terminal.
fn table(results: &[(&Subject, Times)], pocl: Option<&BTreeMap<String, f64>>) -> String {
    let cell = |value: Option<String>| value.unwrap_or_else(|| "–".to_owned());
    let mut rows = vec![
        [
            "kernel",
            "unchecked",
            "rate",
            "checked",
            "checked ÷ unchecked",
            "counted ÷ unchecked",
            "unchecked ÷ PoCL",
        ]
        .map(str::to_owned),
    ];
    for (subject, times) in results {
        let milliseconds =
            |mode: Mode| cell(times.of(mode).map(|seconds| format!("{:.1} ms", seconds * 1e3)));
        let ratio = |mode: Mode| cell(times.ratio(mode).map(|ratio| format!("{ratio:.2}")));
        let rate = |(rate, unit): &(f64, String)| {
            if *rate < 10.0 { format!("{rate:.2} {unit}") } else { format!("{rate:.0} {unit}") }
        };
        let other = pocl.and_then(|pocl| Some(times.of(Mode::Unchecked)? / pocl.get(subject.name)?));
        rows.push([
            format!("`{}`", subject.name),
            milliseconds(Mode::Unchecked),
            cell(times.rate.as_ref().map(rate)),
            milliseconds(Mode::Checked),
            ratio(Mode::Checked),
            ratio(Mode::Counted),
            cell(other.map(|ratio| format!("{ratio:.2}"))),
        ]);
    }
    let mut widths = [0; 7];
    for row in &rows {
        widths = std::array::from_fn(|i| widths[i].max(row[i].chars().count()));
    }
    let mut text = String::new();
    for (number, row) in rows.iter().enumerate() {
        let _ = write!(text, "| {:<w$} |", row[0], w = widths[0]);
        for (cell, width) in row.iter().zip(widths).skip(1) {
            let _ = write!(text, " {cell:>width$} |");
        }
        text.push('\n');
        if number == 0 {
            let _ = write!(text, "|{}|", "-".repeat(widths[0] + 2));
            for width in &widths[1..] {
                let _ = write!(text, "{}:|", "-".repeat(width + 1));
            }
            text.push('\n');
        }
    }
    text.push('\n');
    for (subject, _) in results {
        let _ = writeln!(text, "- `{}`: {}", subject.name, subject.what);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured() -> Times {
        let seconds = [("unchecked", 0.04), ("checked", 0.4), ("counted", 0.05)];
        let seconds = seconds.map(|(name, time)| (name.to_owned(), time)).into_iter().collect();
        Times { seconds, rate: Some((412.5, "MFMA/s".to_owned())) }
    }

    #[test]
    fn the_table_has_ratios_to_the_unchecked_time() {
        let pocl = BTreeMap::from([("sgemm".to_owned(), 0.02)]);
        let text = table(&[(&SUBJECTS[0], measured())], Some(&pocl));
        let row = text.lines().nth(2).unwrap_or_default();
        let cells: Vec<&str> = row.split('|').map(str::trim).filter(|cell| !cell.is_empty()).collect();
        assert_eq!(cells, ["`sgemm`", "40.0 ms", "412 MFMA/s", "400.0 ms", "10.00", "1.25", "2.00"]);
        let without = table(&[(&SUBJECTS[0], Times::default())], None);
        assert_eq!(without.lines().nth(2).unwrap_or_default().matches('–').count(), 6);
    }

    #[test]
    fn kept_times_are_those_that_were_measured() {
        let times = measured();
        assert_eq!(Times::from_json(&times.json()), Some(times));
        assert_eq!(Times::from_json(&json!({})), None);
    }

    #[test]
    fn the_release_build_gets_the_same_arguments() {
        let asked = Asked {
            filter: Some("copy".to_owned()),
            json: true,
            times: 3,
            mode: Some(Mode::Checked),
            small: false,
            resume: false,
            bless: false,
        };
        assert_eq!(asked.task(), ["bench", "kernels", "copy", "--json", "--times=3", "--mode=checked"]);
    }

    #[test]
    fn names_are_unique() {
        let names: std::collections::BTreeSet<_> = SUBJECTS.iter().map(|subject| subject.name).collect();
        assert_eq!(names.len(), SUBJECTS.len());
    }
}
