//! A launch as the command line and the kernel's file describe it, ready to be run: what `run` and `check` share.

mod arguments;
mod fill;
mod header;
mod parameters;
mod spec;

pub(crate) use arguments::Array;
pub(crate) use header::{LaunchLine, launches, options, setting};
pub(crate) use spec::{ArgumentValue, Spec};

use std::fs;
use std::path::PathBuf;

use clap::Args;
use warpproof_sim::check::BufferRole;
use warpproof_sim::{Device, Kernel, Launch, Limits, Stop, StopKind};
use warpproof_toolchain::{CompileOptions, Source};

use super::flags::{ToolchainFlags, architecture};
use crate::report::{Kind, Place, Report};
use crate::source::{self, Ptx, of_stop};
use crate::symbol;
use header::extents;

/// Flags that describe a launch.
#[derive(Debug, Args)]
pub(crate) struct LaunchFlags {
    /// CUDA C++, or PTX if the name ends in .ptx
    #[arg(value_name = "FILE")]
    pub(crate) kernel_file: PathBuf,
    /// The kernel [default: the launch line's; else the only one]
    #[arg(long, value_name = "NAME")]
    kernel: Option<String>,
    /// Blocks, as 4 or 4,4 or 4,4,4 [default: the launch line's; else 1]
    #[arg(long, value_name = "X,Y,Z", value_parser = extents)]
    grid: Option<[u32; 3]>,
    /// Threads per block, as 256 or 16,16 [default: the launch line's; else what the kernel requires]
    #[arg(long, value_name = "X,Y,Z", value_parser = extents)]
    block: Option<[u32; 3]>,
    /// Bytes of dynamic shared memory [default: the launch line's; else 0]
    #[arg(long, value_name = "BYTES", value_parser = small_size)]
    shared: Option<u32>,
    /// An argument, in the kernel's order [default: the launch line's]
    #[arg(long = "arg", value_name = "SPEC")]
    args: Vec<String>,
    /// Define a macro
    #[arg(short = 'D', value_name = "NAME[=VALUE]")]
    defines: Vec<String>,
    /// Search a directory for headers
    #[arg(short = 'I', value_name = "DIR")]
    include_dirs: Vec<PathBuf>,
    /// The architecture to compile for
    #[arg(long, value_name = "SM", default_value = "sm_89", value_parser = architecture)]
    arch: String,
    /// Execute this PTX, which was made of FILE before, instead of compiling FILE
    #[arg(long, value_name = "PTX")]
    ptx: Option<PathBuf>,
    /// Threads of this machine to use; the outcome does not depend on it [default: all cores]
    #[arg(long, value_name = "N", value_parser = host_threads)]
    threads: Option<usize>,
    /// Stop after so many warp instructions
    #[arg(long, value_name = "N", default_value_t = Limits::default().instructions)]
    max_instructions: u64,
    /// Device memory, in bytes or as 512M or 8G; beside it, a launch may take as much again, and 8G at least
    #[arg(long, value_name = "BYTES", default_value = "8G", value_parser = size)]
    max_memory: u64,
    /// Local memory of a thread, in bytes or as 64K
    #[arg(long, value_name = "BYTES", default_value = "512K", value_parser = size)]
    stack: u64,
    #[command(flatten)]
    toolchain: ToolchainFlags,
}

/// `1024`, `64K`, `512M` or `8G`.
fn size(text: &str) -> Result<u64, String> {
    let upper = text.to_ascii_uppercase();
    let (digits, shift) = match upper.as_bytes().last() {
        Some(b'K') => (&upper[..upper.len() - 1], 10),
        Some(b'M') => (&upper[..upper.len() - 1], 20),
        Some(b'G') => (&upper[..upper.len() - 1], 30),
        _ => (upper.as_str(), 0),
    };
    let value: u64 = digits.parse().map_err(|_| "write bytes as 1024, 64K, 512M or 8G".to_owned())?;
    value.checked_mul(1 << shift).ok_or_else(|| "more bytes than can be addressed".to_owned())
}

fn small_size(text: &str) -> Result<u32, String> {
    u32::try_from(size(text)?).map_err(|_| "more bytes than any block has".to_owned())
}

/// A launch as flags and file together describe it.
#[derive(Debug)]
pub(crate) struct Plan {
    /// The launch line's number, if there is one.
    pub(crate) line: Option<u32>,
    pub(crate) kernel: Option<String>,
    grid: [u32; 3],
    block: Option<[u32; 3]>,
    shared: u32,
    pub(crate) specs: Vec<Spec>,
}

/// A launch whose arguments lie in device memory.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) launch: Launch,
    /// The kernel's name in the source.
    pub(crate) kernel: String,
    /// Its name in the module.
    pub(crate) symbol: String,
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) shared: u32,
    pub(crate) arrays: Vec<Array>,
    /// What each array is for.
    pub(crate) roles: Vec<BufferRole>,
}

impl LaunchFlags {
    /// A device with the memory and the limits that the flags give it.
    pub(crate) fn device(&self) -> Device {
        let mut device = Device::new().with_memory(self.max_memory);
        if let Some(threads) = self.threads {
            device = device.with_threads(threads);
        }
        device.limits.instructions = self.max_instructions;
        device.limits.stack = self.stack;
        device.limits.memory = device.limits.memory.max(self.max_memory);
        device
    }

    /// Which compiler to use.
    pub(crate) fn toolchain(&self) -> &ToolchainFlags {
        &self.toolchain
    }

    /// The PTX to execute: compiled from the file, given beside it, or the file itself.
    pub(crate) fn module(&self, source: &Source) -> Result<Ptx, Vec<Report>> {
        if let Some(path) = &self.ptx {
            let text = fs::read_to_string(path).map_err(|cause| {
                vec![Report::error(Kind::Missing, format!("cannot read {}: {cause}", path.display()))]
            })?;
            return source::given_ptx(text, path.display().to_string());
        }
        let options = CompileOptions {
            defines: self.defines.clone(),
            include_dirs: self.include_dirs.clone(),
            extra: options(&source.text),
            ..CompileOptions::new(&self.arch)
        };
        source::to_ptx(&self.kernel_file, source, &options, &self.toolchain)
    }

    /// The first launch: what the flags say, and for the rest what the file's launch line says.
    pub(crate) fn plan(&self, source: &Source) -> Result<Plan, Box<Report>> {
        let line = self.launch_lines(source)?.into_iter().next();
        self.plan_of(line.unwrap_or_default())
    }

    /// A launch for each of the file's launch lines. Arguments on the command line replace those of one line only, so
    /// then there is one launch.
    pub(crate) fn plans(&self, source: &Source) -> Result<Vec<Plan>, Box<Report>> {
        let lines = self.launch_lines(source)?;
        if lines.is_empty() || !self.args.is_empty() {
            return Ok(vec![self.plan(source)?]);
        }
        lines.into_iter().map(|line| self.plan_of(line)).collect()
    }

    /// The file's launch lines, or those that name the kernel that is asked for.
    fn launch_lines(&self, source: &Source) -> Result<Vec<LaunchLine>, Box<Report>> {
        let mut lines = launches(&source.text).map_err(|(line, cause)| {
            let place = Place::new(source.name.as_str(), line);
            Box::new(Report::error(Kind::Usage, format!("launch line: {cause}")).at(Some(place)))
        })?;
        if let Some(name) = &self.kernel {
            let squeeze = |text: &str| text.split_whitespace().collect::<String>();
            let name = squeeze(name);
            lines.retain(|line| line.kernel.as_deref().is_some_and(|kernel| squeeze(kernel) == name));
        }
        Ok(lines)
    }

    fn plan_of(&self, line: LaunchLine) -> Result<Plan, Box<Report>> {
        if let Some(cluster) = line.cluster.filter(|cluster| *cluster > 1) {
            let report =
                Report::error(Kind::Unsupported, format!("a launch in clusters of {cluster} blocks"));
            return Err(Box::new(report.note("this is a gap in warpproof, not a bug in the kernel", None)));
        }
        let LaunchLine { line, kernel, grid, block, shared, args, .. } = line;
        let args = if self.args.is_empty() { &args } else { &self.args };
        let mut specs: Vec<Spec> = Vec::new();
        for text in args {
            let spec = Spec::parse(text).map_err(|error| {
                let report = Report::error(Kind::Usage, error.sentence);
                Box::new(match error.help {
                    Some(help) => report.help(help),
                    None => report,
                })
            })?;
            if specs.iter().any(|other| other.name == spec.name) {
                let sentence = format!("two arguments are called `{}`", spec.name);
                return Err(Box::new(
                    Report::error(Kind::Usage, sentence).help("give each a name of its own"),
                ));
            }
            specs.push(spec);
        }
        Ok(Plan {
            line: Some(line).filter(|line| *line > 0),
            kernel: self.kernel.clone().or(kernel),
            grid: self.grid.or(grid).unwrap_or([1; 3]),
            block: self.block.or(block),
            shared: self.shared.or(shared).unwrap_or(0),
            specs,
        })
    }

    /// Loads the module, finds the kernel, checks the arguments against it and lays them out in device memory.
    pub(crate) fn prepare(
        &self,
        plan: &Plan,
        ptx: &Ptx,
        source: &Source,
        device: &mut Device,
    ) -> Result<Prepared, Vec<Report>> {
        let stopped = |stop: Box<Stop>| vec![stop_report(&stop, ptx, source)];
        let refused = |report: Box<Report>| vec![*report];
        let module = device.load(&ptx.text).map_err(stopped)?;
        let symbol = choose(module.kernels(), plan.kernel.as_deref()).map_err(refused)?;
        let kernel = module.kernel(&symbol).map_err(stopped)?;
        let block = plan.block.or(kernel.program().bounds.required).ok_or_else(|| {
            let report = Report::error(Kind::Usage, "nothing says how many threads a block has");
            vec![report.help(how_to_launch(&kernel, source))]
        })?;
        parameters::check(&plan.specs, &kernel, source).map_err(refused)?;
        let launch = kernel.launch().grid(plan.grid).block(block).shared(plan.shared);
        let (launch, arrays) =
            arguments::lay_out(&plan.specs, launch, device, self.max_memory).map_err(refused)?;
        Ok(Prepared {
            launch,
            kernel: symbol::name(&symbol),
            symbol,
            grid: plan.grid,
            block,
            shared: plan.shared,
            roles: arguments::roles(&plan.specs, &arrays),
            arrays,
        })
    }
}

/// A number of host threads.
fn host_threads(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("at least one thread is needed".to_owned()),
        Ok(threads) => Ok(threads),
        Err(_) => Err("not a number".to_owned()),
    }
}

fn how_to_launch(kernel: &Kernel, source: &Source) -> String {
    format!(
        "say --grid and --block, or begin the file with a line `//@launch: grid=1 block=128 arg=…`; the kernel is {}",
        parameters::shown(kernel, source)
    )
}

/// The symbol of the kernel that is asked for, or of the only one.
pub(crate) fn choose(kernels: &[String], asked: Option<&str>) -> Result<String, Box<Report>> {
    let list = || {
        let names: Vec<String> = kernels.iter().map(|kernel| symbol::name(kernel)).collect();
        format!("kernels: {}", names.join(", "))
    };
    let wrong = |sentence: String| {
        let report = Report::error(Kind::Usage, sentence);
        Box::new(if kernels.is_empty() { report } else { report.help(list()) })
    };
    let Some(asked) = asked else {
        return match kernels {
            [only] => Ok(only.clone()),
            [] => Err(wrong(
                "the module has no kernel: nothing is declared __global__, or every template is without an instance"
                    .to_owned(),
            )),
            _ => Err(wrong(format!("the module has {} kernels: say which with --kernel", kernels.len()))),
        };
    };
    let exact = kernels.iter().find(|kernel| kernel.as_str() == asked || symbol::name(kernel) == asked);
    if let Some(exact) = exact {
        return Ok(exact.clone());
    }
    let called: Vec<&String> = kernels.iter().filter(|kernel| symbol::is_called(kernel, asked)).collect();
    match called.as_slice() {
        [only] => Ok((*only).clone()),
        [] => Err(wrong(format!("the module has no kernel `{asked}`"))),
        _ => Err(wrong(format!("{} kernels are called `{asked}`", called.len()))),
    }
}

/// The stop as a report, with the flag that raises a limit.
pub(crate) fn stop_report(stop: &Stop, ptx: &Ptx, source: &Source) -> Report {
    let mut report = of_stop(stop, ptx, source);
    if stop.kind == StopKind::Limit {
        let flag = if stop.sentence.contains("warp instructions") {
            Some("if the kernel is meant to run this long, raise the limit with --max-instructions")
        } else if stop.sentence.contains("beside the buffers") {
            Some("if the kernel is meant to use this much, raise the limit with --max-memory")
        } else if stop.sentence.contains("stack") {
            Some("if the kernel needs this much local memory, raise the limit with --stack")
        } else {
            None
        };
        report.help = flag.map(str::to_owned).or(report.help);
    }
    report
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read() {
        assert_eq!(size("1024"), Ok(1024));
        assert_eq!(size("64k"), Ok(65536));
        assert_eq!(size("8G"), Ok(8 << 30));
        assert!(size("").is_err() && size("K").is_err() && size("-1").is_err() && size("é").is_err());
        assert!(size("99999999999999G").is_err());
    }
}
