//! `warpproof run`: a kernel on the software GPU, with arguments described on the command line or in the file's head.

mod arguments;
mod element;
mod fill;
mod header;
mod npy;
mod render;
mod spec;
mod tensor;

use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use warpproof_sim::schedule::{Order, Schedule};
use warpproof_sim::{Device, Kernel, Limits, Module, Stop, StopKind};
use warpproof_toolchain::{CompileOptions, Source};

use super::flags::ToolchainFlags;
use crate::report::{Kind, Outcome, Place, Report, Severity};
use crate::source::{self, Ptx, of_stop};
use crate::symbol;
use crate::terminal::Terminal;
use arguments::Array;
use header::{LaunchLine, extents};
use render::Print;
use spec::Spec;

/// Run a kernel on the software GPU
///
/// CUDA C++ is compiled to PTX by NVRTC; a .ptx file is run as it is. No GPU is needed. An argument
/// is described as name:type=value for a scalar and as name:type[count]=fill for an array:
///
///   --arg n:u32=1024                      a scalar
///   --arg in:f32[1024]=randn(seed=0)      an array of random numbers
///   --arg out:f32[32x32]                  an array that starts as zeros
///   --arg w:f16=@weights.npy              an array from a file, which tells its extents
///
/// Types: u8 u16 u32 u64 i8 i16 i32 i64 f16 bf16 f32 f64 e4m3 e5m2.
/// Fills: zeros, ones, a number, iota(start,step), randn(seed=,mean=,std=), uniform(lo,hi,seed=),
/// randint(lo,hi,seed=), [1,2,3], @file.npy, @file.safetensors#tensor.
/// The same seed gives the same numbers on every machine.
///
/// What is not said on the command line is taken from a line of the file itself:
///
///   //@launch: kernel=NAME grid=X,Y,Z block=X,Y,Z shared=BYTES arg=… arg=…
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Run {
    /// CUDA C++, or PTX if the name ends in .ptx
    #[arg(value_name = "FILE")]
    kernel_file: PathBuf,
    /// The kernel [default: the first launch line's; else the only one]
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
    /// Write an array to a .npy or .safetensors file after the launch
    #[arg(long, value_name = "NAME=FILE")]
    out: Vec<String>,
    /// Print an array's first values after the launch
    #[arg(long, value_name = "NAME[:COUNT]", value_parser = Print::parse)]
    print: Vec<Print>,
    /// Define a macro
    #[arg(short = 'D', value_name = "NAME[=VALUE]")]
    defines: Vec<String>,
    /// Search a directory for headers
    #[arg(short = 'I', value_name = "DIR")]
    include_dirs: Vec<PathBuf>,
    /// The architecture to compile for
    #[arg(long, value_name = "SM", default_value = "sm_89")]
    arch: String,
    /// Threads of this machine to use; the outcome does not depend on it [default: all cores]
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// The order in which a block's warps take turns: forward, reverse or random:SEED
    #[arg(long, value_name = "ORDER", default_value = "forward", value_parser = order)]
    schedule: Order,
    /// The same as --schedule random:SEED
    #[arg(long, value_name = "SEED", conflicts_with = "schedule")]
    seed: Option<u64>,
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
    /// Print JSON
    #[arg(long)]
    json: bool,
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

fn order(text: &str) -> Result<Order, String> {
    match (text, text.strip_prefix("random:")) {
        ("forward", _) => Ok(Order::Forward),
        ("reverse", _) => Ok(Order::Reverse),
        (_, Some(seed)) => seed.parse().map(Order::Random).map_err(|_| format!("`{seed}` is no seed")),
        _ => Err("write forward, reverse or random:SEED".to_owned()),
    }
}

/// What a launch did.
#[derive(Debug)]
struct Finished {
    kernel: String,
    symbol: String,
    grid: [u32; 3],
    block: [u32; 3],
    shared: u32,
    instructions: u64,
    host_seconds: f64,
    printed: Vec<u8>,
    arrays: Vec<Array>,
    stop: Option<Box<Stop>>,
}

/// A launch as flags and file together describe it.
#[derive(Debug)]
struct Plan {
    kernel: Option<String>,
    grid: [u32; 3],
    block: Option<[u32; 3]>,
    shared: u32,
    specs: Vec<Spec>,
}

impl Run {
    pub(crate) fn run(&self, terminal: &mut Terminal) -> Outcome {
        let mut device = Device::new().with_memory(self.max_memory);
        if let Some(threads) = self.threads {
            device = device.with_threads(threads);
        }
        let order = self.seed.map_or(self.schedule, Order::Random);
        device.schedule = Schedule { order, ..Schedule::default() };
        device.limits.instructions = self.max_instructions;
        device.limits.stack = self.stack;
        device.limits.memory = device.limits.memory.max(self.max_memory);

        let mut reports = Vec::new();
        let mut finished = None;
        if let Err(errors) = self.launch(&mut device, &mut finished, &mut reports) {
            reports.extend(errors);
        }
        let mut failed = first_error(&reports);
        if failed.is_none()
            && let Some(finished) = &finished
            && let Err(report) = self.write(finished, &mut device)
        {
            reports.push(*report);
            failed = first_error(&reports);
        }
        if self.json {
            terminal.json(&render::json(self, finished.as_ref(), &mut device, &reports, failed));
            return failed.map_or(Outcome::Green, Outcome::Stopped);
        }
        if let Some(finished) = &finished {
            terminal.print(String::from_utf8_lossy(&finished.printed));
        }
        for report in &reports {
            terminal.report(report);
        }
        if let Some(finished) = &finished {
            // A stopped kernel has no results; what it left in memory would only mislead.
            if failed.is_none() {
                for print in &self.print {
                    if let Some(array) = finished.arrays.iter().find(|array| array.name == print.name) {
                        terminal.print(render::values(print, array, &mut device));
                    }
                }
            }
            terminal.say(render::summary(finished));
        }
        failed.map_or(Outcome::Green, Outcome::Stopped)
    }

    fn launch(
        &self,
        device: &mut Device,
        finished: &mut Option<Finished>,
        reports: &mut Vec<Report>,
    ) -> Result<(), Vec<Report>> {
        let source = source::read(&self.kernel_file)?;
        let plan = self.plan(&source).map_err(|report| vec![*report])?;
        self.check_names(&plan.specs).map_err(|report| vec![*report])?;
        let options = CompileOptions {
            defines: self.defines.clone(),
            include_dirs: self.include_dirs.clone(),
            extra: header::options(&source.text),
            ..CompileOptions::new(&self.arch)
        };
        let ptx = source::to_ptx(&self.kernel_file, &source, &options, &self.toolchain)?;
        reports.extend(ptx.warnings.iter().cloned());
        let stopped = |stop: &Stop| vec![stop_report(stop, &ptx, &source)];

        let module = device.load(&ptx.text).map_err(|stop| stopped(&stop))?;
        let symbol = choose(&module, plan.kernel.as_deref()).map_err(|report| vec![*report])?;
        let kernel = module.kernel(&symbol).map_err(|stop| stopped(&stop))?;
        let block = plan.block.or(kernel.program().bounds.required).ok_or_else(|| {
            let report = Report::error(Kind::Usage, "nothing says how many threads a block has");
            vec![report.help(how_to_launch(&kernel))]
        })?;
        arguments::check(&plan.specs, &kernel).map_err(|report| vec![*report])?;
        let launch = kernel.launch().grid(plan.grid).block(block).shared(plan.shared);
        let (launch, arrays) = arguments::lay_out(&plan.specs, launch, device, self.max_memory)
            .map_err(|report| vec![*report])?;

        let start = Instant::now();
        let outcome = device.run(&launch);
        if let Some(stop) = outcome.stop.as_ref().filter(|stop| stop.kind == StopKind::Launch) {
            // It never began.
            return Err(stopped(stop));
        }
        let failed = outcome.stop.as_ref().map(|stop| stopped(stop));
        *finished = Some(Finished {
            kernel: symbol::name(&symbol),
            symbol,
            grid: plan.grid,
            block,
            shared: plan.shared,
            instructions: outcome.instructions,
            host_seconds: start.elapsed().as_secs_f64(),
            printed: outcome.output,
            arrays,
            stop: outcome.stop,
        });
        failed.map_or(Ok(()), Err)
    }

    /// What the flags say, and for the rest what the file's launch line says.
    fn plan(&self, source: &Source) -> Result<Plan, Box<Report>> {
        let lines = header::launches(&source.text).map_err(|(line, cause)| {
            let place = Place { file: source.name.clone(), line, column: None, length: None, text: None };
            Box::new(Report::error(Kind::Usage, format!("launch line: {cause}")).at(Some(place)))
        })?;
        let line = match &self.kernel {
            None => lines.into_iter().next(),
            Some(name) => {
                let squeeze = |text: &str| text.split_whitespace().collect::<String>();
                let name = squeeze(name);
                lines.into_iter().find(|line| line.kernel.as_deref().is_some_and(|k| squeeze(k) == name))
            }
        };
        let line = line.unwrap_or_default();
        if let Some(cluster) = line.cluster.filter(|cluster| *cluster > 1) {
            let report =
                Report::error(Kind::Unsupported, format!("a launch in clusters of {cluster} blocks"));
            return Err(Box::new(report.note("this is a gap in warpproof, not a bug in the kernel", None)));
        }
        let LaunchLine { kernel, grid, block, shared, args, .. } = line;
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
            kernel: self.kernel.clone().or(kernel),
            grid: self.grid.or(grid).unwrap_or([1; 3]),
            block: self.block.or(block),
            shared: self.shared.or(shared).unwrap_or(0),
            specs,
        })
    }

    /// `--out` and `--print` name arrays that there are; better said before a long run than after it.
    fn check_names(&self, specs: &[Spec]) -> Result<(), Box<Report>> {
        let arrays: Vec<&str> = specs
            .iter()
            .filter(|spec| matches!(spec.value, spec::ArgumentValue::Array { .. }))
            .map(|spec| spec.name.as_str())
            .collect();
        let known = |flag: &str, name: &str| {
            if arrays.contains(&name) {
                return Ok(());
            }
            let list = if arrays.is_empty() { "there is none".to_owned() } else { arrays.join(", ") };
            let report = Report::error(Kind::Usage, format!("{flag}: no array is called `{name}`"));
            Err(Box::new(report.help(format!("arrays: {list}"))))
        };
        for print in &self.print {
            known("--print", &print.name)?;
        }
        for (name, path) in self.outputs()? {
            known("--out", name)?;
            tensor::check_name(&path)
                .map_err(|cause| Box::new(Report::error(Kind::Usage, format!("--out {name}: {cause}"))))?;
        }
        Ok(())
    }

    fn outputs(&self) -> Result<Vec<(&str, PathBuf)>, Box<Report>> {
        let mut outputs = Vec::new();
        for text in &self.out {
            let Some((name, path)) = text.split_once('=').filter(|(_, path)| !path.is_empty()) else {
                let report = Report::error(Kind::Usage, format!("--out {text} names no file"));
                return Err(Box::new(
                    report.help("write --out NAME=FILE.npy or --out NAME=FILE.safetensors"),
                ));
            };
            outputs.push((name, PathBuf::from(path)));
        }
        Ok(outputs)
    }

    fn write(&self, finished: &Finished, device: &mut Device) -> Result<(), Box<Report>> {
        let mut tensors = Vec::new();
        for (name, path) in self.outputs()? {
            if let Some(array) = finished.arrays.iter().find(|array| array.name == name) {
                let bytes = array.content(device).to_vec();
                let tensor = tensor::Tensor { element: array.element, shape: array.shape.clone(), bytes };
                tensors.push((path, name.to_owned(), tensor));
            }
        }
        tensor::write(&tensors).map_err(|cause| Box::new(Report::error(Kind::Missing, cause)))
    }
}

fn first_error(reports: &[Report]) -> Option<Kind> {
    reports.iter().find(|report| report.severity == Severity::Error).map(|report| report.kind)
}

fn how_to_launch(kernel: &Kernel) -> String {
    format!(
        "say --grid and --block, or begin the file with a line `//@launch: grid=1 block=128 arg=…`; the kernel is {}",
        arguments::parameters(kernel)
    )
}

/// The symbol of the kernel that is asked for, or of the only one.
fn choose(module: &Module, asked: Option<&str>) -> Result<String, Box<Report>> {
    let kernels = module.kernels();
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
fn stop_report(stop: &Stop, ptx: &Ptx, source: &Source) -> Report {
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
    fn sizes_and_orders_are_read() {
        assert_eq!(size("1024"), Ok(1024));
        assert_eq!(size("64k"), Ok(65536));
        assert_eq!(size("8G"), Ok(8 << 30));
        assert!(size("").is_err() && size("K").is_err() && size("-1").is_err() && size("é").is_err());
        assert!(size("99999999999999G").is_err());
        assert_eq!(order("random:7"), Ok(Order::Random(7)));
        assert!(order("random:x").is_err() && order("back").is_err());
    }
}
