//! Flags that several commands share.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use warpproof_gate::ledger::{Ledger, LedgerError};
use warpproof_gate::runner::{Runner, RunnerError, Settings, this_program};
use warpproof_model::{DEVICES, Device};
use warpproof_toolchain::{CompileLimits, NotFound, Options};

use super::evidence::of_ledger;
use super::limits::size;
use crate::report::{Kind, Outcome, Report};
use crate::terminal::Terminal;

/// Which compiler to use.
#[derive(Debug, Args)]
pub(crate) struct ToolchainFlags {
    /// Take NVIDIA's compiler from this directory: a CUDA toolkit, or a directory of wheels
    ///
    /// WARPPROOF_TOOLCHAIN says the same for every command.
    #[arg(long, value_name = "DIR")]
    toolchain: Option<PathBuf>,
    /// Take parts of this CUDA major version only
    #[arg(long, value_name = "MAJOR")]
    cuda: Option<u32>,
    /// Let the kernel or task read files of this directory, too
    ///
    /// Headers of a kernel may come from its project: the git repository it is in, else the working directory
    /// if it is below it, else its own directory. Files of a task come from the task's directory.
    #[arg(long, value_name = "DIR")]
    allow_path: Vec<PathBuf>,
    /// Stop a compilation after this much processor time [default: 60]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    compile_seconds: Option<u64>,
    /// Stop a compilation that takes more memory, as 512M or 4G [default: 1G]
    #[arg(long, value_name = "BYTES", value_parser = size)]
    compile_memory: Option<u64>,
}

impl ToolchainFlags {
    pub(crate) fn options(&self) -> Options {
        let limits = CompileLimits::default();
        let limits = CompileLimits {
            seconds: self.compile_seconds.unwrap_or(limits.seconds),
            bytes: self.compile_memory.unwrap_or(limits.bytes),
        };
        let allowed = self.allow_path.clone();
        Options { explicit: self.toolchain.clone(), cuda: self.cuda, limits, allowed, ..Options::from_env() }
    }
}

/// Where the evidence is kept.
#[derive(Debug, Args)]
pub(crate) struct LedgerFlags {
    /// The directory of the ledger
    #[arg(long, value_name = "DIR", default_value = ".warpproof/ledger")]
    ledger: PathBuf,
}

impl LedgerFlags {
    /// A ledger that is there.
    pub(crate) fn open(&self) -> Result<Ledger, Box<Report>> {
        Ledger::open(&self.ledger).map_err(|error| Box::new(of_ledger(&error)))
    }

    /// The ledger, made where there is none, and whether it was made.
    pub(crate) fn create(&self) -> Result<(Ledger, bool), Box<Report>> {
        let absent = matches!(Ledger::open(&self.ledger), Err(LedgerError::Absent(_)));
        let ledger = Ledger::create(&self.ledger).map_err(|error| Box::new(of_ledger(&error)))?;
        Ok((ledger, absent))
    }
}

/// Whether speed is judged, and on what device.
#[derive(Debug, Args)]
pub(crate) struct GpuFlags {
    /// Time on the first CUDA device, or on number N; not tested on hardware
    ///
    /// A process of its own drives the device through NVIDIA's driver. Through Warpproof's own driver,
    /// as under `warpproof exec`, every time is a prediction, and nothing is merged.
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, default_missing_value = "0")]
    gpu: Option<u32>,
    /// Lock the clock of its multiprocessors at this many MHz while timing, if permitted
    #[arg(long, value_name = "MHZ", requires = "gpu")]
    pin_clock: Option<u32>,
}

impl GpuFlags {
    /// Whether a device is asked for.
    pub(crate) fn is_wanted(&self) -> bool {
        self.gpu.is_some()
    }

    /// Whether what is asked for is the device of a number, or a clock, of this machine.
    pub(crate) fn is_of_this_machine(&self) -> bool {
        self.gpu.is_some_and(|number| number != 0) || self.pin_clock.is_some()
    }

    /// The device, behind a process, where one is asked for.
    pub(crate) fn start(&self, terminal: &mut Terminal) -> Result<Option<Runner>, Box<Report>> {
        let Some(device) = self.gpu else { return Ok(None) };
        let absent = |error: RunnerError| {
            let report = Report::error(Kind::Missing, format!("there is no CUDA device: {error}"));
            Box::new(report.help("leave --gpu out: without a device nothing is timed"))
        };
        let program = this_program().map_err(absent)?;
        let settings = Settings { program, device, pin_mhz: self.pin_clock, apart: true };
        let runner = Runner::start(settings).map_err(absent)?;
        for note in &runner.notes {
            terminal.say(format_args!("note: {note}"));
        }
        Ok(Some(runner))
    }
}

/// Where a result goes.
#[derive(Debug, Args)]
pub(crate) struct OutputFlags {
    /// Write to this file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

impl OutputFlags {
    /// The file, where one is named.
    pub(crate) fn file(&self) -> Option<&Path> {
        self.output.as_deref()
    }

    /// Hands the place to write to `work`, and says what went wrong with it.
    pub(crate) fn write<T>(
        &self,
        work: impl FnOnce(&mut dyn Write) -> Result<T, Box<Report>>,
    ) -> Result<T, Box<Report>> {
        let refused = |error: &io::Error| {
            let name = self.file().map_or("standard output".to_owned(), |file| file.display().to_string());
            Box::new(Report::error(Kind::Missing, format!("cannot write {name}: {error}")))
        };
        let mut out: Box<dyn Write> = match self.file() {
            Some(file) => Box::new(BufWriter::new(File::create(file).map_err(|error| refused(&error))?)),
            None => Box::new(BufWriter::new(Terminal::data())),
        };
        let value = work(&mut out)?;
        out.flush().map_err(|error| refused(&error))?;
        Ok(value)
    }

    /// Writes these bytes.
    pub(crate) fn put(&self, bytes: &[u8]) -> Result<(), Box<Report>> {
        self.write(|out| {
            out.write_all(bytes).map_err(|error| {
                Box::new(Report::error(Kind::Missing, format!("cannot write the result: {error}")))
            })
        })
    }
}

/// Whether a program reads the result.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct JsonFlag {
    /// Print JSON; its field `schema` names the format
    #[arg(long = "json", id = "json")]
    pub(crate) wanted: bool,
}

/// A form that a result is written in.
pub(crate) trait Form: Copy + 'static {
    /// The form for programs.
    const JSON: Self;
    /// The endings of files, and the form that each stands for.
    const ENDINGS: &'static [(&'static str, Self)];
}

impl OutputFlags {
    /// The form that flags name, else the one that the file's ending stands for, else the default.
    pub(crate) fn form<F: Form>(
        &self,
        json: JsonFlag,
        format: Option<F>,
        default: F,
    ) -> Result<F, Box<Report>> {
        match format {
            _ if json.wanted => Ok(F::JSON),
            Some(format) => Ok(format),
            None => by_ending(self.file(), default),
        }
    }
}

/// The form that a file's ending stands for; without a file or an ending, the default.
pub(crate) fn by_ending<F: Form>(file: Option<&Path>, default: F) -> Result<F, Box<Report>> {
    let Some(ending) = file.and_then(Path::extension).map(|ending| ending.to_string_lossy().to_lowercase())
    else {
        return Ok(default);
    };
    let known = F::ENDINGS.iter().find(|(one, _)| *one == ending).map(|(_, form)| *form);
    known.ok_or_else(|| {
        let endings: Vec<String> = F::ENDINGS.iter().map(|(one, _)| format!(".{one}")).collect();
        let sentence = format!("no result is written as `.{}`", ending.escape_debug());
        let help = format!("a file ends in {}", endings.join(", "));
        Box::new(Report::error(Kind::Usage, sentence).help(help))
    })
}

/// How a command that either does its work or reports once ends.
pub(crate) fn ended(result: Result<Outcome, Box<Report>>, terminal: &mut Terminal) -> Outcome {
    result.unwrap_or_else(|report| {
        terminal.report(&report);
        Outcome::Stopped(report.kind)
    })
}

/// Notes, once for a command that runs a task, that this kernel confines neither compilers nor Python references.
pub(crate) fn note_unconfined(terminal: &mut Terminal) {
    if !warpproof_sandbox::available().is_any() {
        terminal.say(
            "note: this system cannot confine compilers and Python references: that takes Linux with Landlock and seccomp; run \
             only tasks that you trust, or set WARPPROOF_REQUIRE_SANDBOX=1 to refuse",
        );
    }
}

/// Missing parts, with the one command that mends it.
pub(crate) fn missing(error: &NotFound) -> Report {
    let report = Report::error(Kind::Missing, error.reason.clone());
    match &error.mend {
        Some(mend) => report.help(format!("run `{mend}`")),
        None => report,
    }
}

/// A device of the table.
pub(crate) fn model_device(name: &str) -> Result<&'static Device, String> {
    Device::named(name).ok_or_else(|| {
        let known: Vec<&str> = DEVICES.iter().map(|device| device.id).collect();
        format!("known devices: {}", known.join(", "))
    })
}

/// What NVIDIA's compilers know, from the first with independent threads on.
const ARCHITECTURES: [&str; 15] =
    ["70", "72", "75", "80", "86", "87", "88", "89", "90", "100", "101", "103", "110", "120", "121"];

/// Reads `sm_89`, `compute_89` or `89`, with the suffix `a` or `f` where there is one.
pub(crate) fn architecture(text: &str) -> Result<String, String> {
    let number = text.strip_prefix("sm_").or_else(|| text.strip_prefix("compute_")).unwrap_or(text);
    let digits = number.strip_suffix(['a', 'f']).unwrap_or(number);
    if ARCHITECTURES.contains(&digits) {
        return Ok(format!("sm_{number}"));
    }
    Err(format!("no such architecture; there are sm_{}", ARCHITECTURES.join(", sm_")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn architectures_are_read() {
        for (text, arch) in
            [("sm_89", "sm_89"), ("compute_80", "sm_80"), ("90a", "sm_90a"), ("sm_120f", "sm_120f")]
        {
            assert_eq!(architecture(text).as_deref(), Ok(arch));
        }
        for text in ["sm_999", "", "ada", "sm_8", "sm_-1", "sm_89aa", "a"] {
            assert!(architecture(text).unwrap_err().contains("there are sm_70, sm_72, "), "{text}");
        }
    }
}
