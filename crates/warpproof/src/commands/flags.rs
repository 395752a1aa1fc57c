//! Flags that several commands share.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use warpproof_count::{CountSettings, SampleSize};
use warpproof_evidence::ledger::{Ledger, LedgerError};
use warpproof_gate::runner::{Runner, RunnerError, Settings, this_program};
use warpproof_model::{DEVICES, Device};
use warpproof_toolchain::{CompileLimits, NotFound, Options};

use super::evidence::of_ledger;
use super::limits::size;
use crate::report::{Kind, Outcome, Report};
use crate::terminal::Terminal;

/// Which compiler to use.
#[derive(Clone, Debug, Args)]
pub(crate) struct ToolchainFlags {
    /// Use NVIDIA's compiler from this directory: a CUDA toolkit or its wheels
    ///
    /// WARPPROOF_TOOLCHAIN sets it for every command.
    #[arg(long, value_name = "DIR")]
    toolchain: Option<PathBuf>,
    /// Use only tools of this CUDA major version
    #[arg(long, value_name = "MAJOR")]
    cuda: Option<u32>,
    /// Allow the kernel or task to read files in this directory
    ///
    /// By default a kernel may include headers of its project: its git repository, else the working directory
    /// if it contains the kernel, else the kernel's directory. A task may read files in its own directory.
    #[arg(long, value_name = "DIR")]
    allow_path: Vec<PathBuf>,
    /// Limit the CPU time of a compilation, in seconds [default: 60]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    compile_seconds: Option<u64>,
    /// Limit the memory of a compilation, such as 512M or 4G [default: 1G]
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

/// Whether to count a sample of the blocks.
#[derive(Debug, Args)]
pub(crate) struct SampleFlag {
    /// Count N blocks of the grid, or a share such as 5%, and scale the counters
    ///
    /// The selection includes the first and the last block, the borders of the grid and blocks spread over the
    /// rest; it is the same in every run. The output shows a margin of error and lists what is not known.
    /// Not possible if blocks communicate, or for cooperative launches and clusters (exit code 3).
    #[arg(long, value_name = "N|P%")]
    sample: Option<SampleSize>,
}

impl SampleFlag {
    /// The settings of the counters.
    pub(crate) fn settings(&self) -> CountSettings {
        CountSettings { sample: self.sample, ..CountSettings::default() }
    }
}

/// The ledger to use.
#[derive(Debug, Args)]
pub(crate) struct LedgerFlags {
    /// Use the ledger in this directory
    #[arg(long, value_name = "DIR", default_value = ".warpproof/ledger")]
    ledger: PathBuf,
}

impl LedgerFlags {
    /// Opens an existing ledger.
    pub(crate) fn open(&self) -> Result<Ledger, Box<Report>> {
        Ledger::open(&self.ledger).map_err(|error| Box::new(of_ledger(&error)))
    }

    /// Opens or creates the ledger; returns whether it was created.
    pub(crate) fn create(&self) -> Result<(Ledger, bool), Box<Report>> {
        let absent = matches!(Ledger::open(&self.ledger), Err(LedgerError::Absent(_)));
        let ledger = Ledger::create(&self.ledger).map_err(|error| Box::new(of_ledger(&error)))?;
        Ok((ledger, absent))
    }
}

/// Whether candidates are timed, and on which device.
#[derive(Debug, Args)]
pub(crate) struct GpuFlags {
    /// Measure on the first CUDA device, or on device N; not tested on hardware
    ///
    /// A separate process drives the device through NVIDIA's driver. With Warpproof's own driver,
    /// as under `warpproof exec`, all times are predictions, and MERGE is not possible.
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, default_missing_value = "0")]
    gpu: Option<u32>,
    /// Lock the SM clock at this frequency in MHz while measuring, if permitted
    #[arg(long, value_name = "MHZ", requires = "gpu")]
    pin_clock: Option<u32>,
}

impl GpuFlags {
    /// Whether a device is requested.
    pub(crate) fn is_wanted(&self) -> bool {
        self.gpu.is_some()
    }

    /// Whether a device number or a clock of this machine is requested.
    #[cfg(feature = "fleet")]
    pub(crate) fn is_of_this_machine(&self) -> bool {
        self.gpu.is_some_and(|number| number != 0) || self.pin_clock.is_some()
    }

    /// The device, in its own process, if requested.
    pub(crate) fn start(&self, terminal: &mut Terminal) -> Result<Option<Runner>, Box<Report>> {
        let Some(device) = self.gpu else { return Ok(None) };
        let absent = |error: RunnerError| {
            let report = Report::error(Kind::Missing, format!("no CUDA device found: {error}"));
            Box::new(report.help("omit --gpu: without a device, candidates are not timed"))
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

/// The destination of a result.
#[derive(Debug, Args)]
pub(crate) struct OutputFlags {
    /// Write to this file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

impl OutputFlags {
    /// The file, if any.
    pub(crate) fn file(&self) -> Option<&Path> {
        self.output.as_deref()
    }

    /// Passes the destination to `work` and reports write errors.
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

/// Whether the result is printed as JSON.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct JsonFlag {
    /// Print JSON; the field `schema` names the format
    #[arg(long = "json", id = "json")]
    pub(crate) wanted: bool,
}

/// An output format.
pub(crate) trait Form: Copy + 'static {
    /// The JSON format.
    const JSON: Self;
    /// File extensions, and the format of each.
    const ENDINGS: &'static [(&'static str, Self)];
}

impl OutputFlags {
    /// The format from the flags, else from the file's extension, else the default.
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

/// The format of a file's extension; the default without a file or an extension.
pub(crate) fn by_ending<F: Form>(file: Option<&Path>, default: F) -> Result<F, Box<Report>> {
    let Some(ending) = file.and_then(Path::extension).map(|ending| ending.to_string_lossy().to_lowercase())
    else {
        return Ok(default);
    };
    let known = F::ENDINGS.iter().find(|(one, _)| *one == ending).map(|(_, form)| *form);
    known.ok_or_else(|| {
        let endings: Vec<String> = F::ENDINGS.iter().map(|(one, _)| format!(".{one}")).collect();
        let sentence = format!("unknown output format: `.{}`", ending.escape_debug());
        let help = format!("expected a file ending in {}", endings.join(", "));
        Box::new(Report::error(Kind::Usage, sentence).help(help))
    })
}

/// The outcome of a command that either succeeds or reports one error.
pub fn ended(result: Result<Outcome, Box<Report>>, terminal: &mut Terminal) -> Outcome {
    result.unwrap_or_else(|report| {
        terminal.report(&report);
        Outcome::Stopped(report.kind)
    })
}

/// Prints a note, once per command that runs a task, if this system cannot sandbox compilers and Python references.
pub(crate) fn note_unconfined(terminal: &mut Terminal) {
    if !warpproof_sandbox::available().is_any() {
        terminal.say(
            "note: compilers and Python references are not sandboxed: this requires Linux with Landlock and seccomp; run \
             only tasks that you trust, or set WARPPROOF_REQUIRE_SANDBOX=1 to refuse",
        );
    }
}

/// Missing tools, with the command that installs them.
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

/// The architectures of NVIDIA's compilers, starting with the first with independent thread scheduling.
const ARCHITECTURES: [&str; 15] =
    ["70", "72", "75", "80", "86", "87", "88", "89", "90", "100", "101", "103", "110", "120", "121"];

/// Parses `sm_89`, `compute_89` or `89`, with an optional suffix `a` or `f`.
pub(crate) fn architecture(text: &str) -> Result<String, String> {
    let number = text.strip_prefix("sm_").or_else(|| text.strip_prefix("compute_")).unwrap_or(text);
    let digits = number.strip_suffix(['a', 'f']).unwrap_or(number);
    if ARCHITECTURES.contains(&digits) {
        return Ok(format!("sm_{number}"));
    }
    Err(format!("expected one of sm_{}", ARCHITECTURES.join(", sm_")))
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
            assert!(architecture(text).unwrap_err().contains("expected one of sm_70, sm_72, "), "{text}");
        }
    }
}
