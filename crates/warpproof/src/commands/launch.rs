//! A launch as described by the command line and the kernel's file, ready to be run; shared by `run` and `check`.

mod arguments;
mod case;
mod clusters;
mod cooperative;
mod fill;
mod header;
mod map;
mod parameters;
mod spec;
mod variables;

pub(crate) use arguments::Array;
pub(crate) use case::Trial;
pub(crate) use header::{LaunchLine, extents, launches, setting};
pub(crate) use spec::{ArgumentValue, Spec};

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use warpproof_check::BufferRole;
use warpproof_gate::limits::{INSTRUCTIONS_FLAG, MEMORY_FLAG, Purpose, flag_of};
use warpproof_gate::parameter::Packed;
use warpproof_sim::program::ConstantBank;
use warpproof_sim::{Device, Kernel, Launch, Module, Stop};
use warpproof_toolchain::symbol::{self, Instances, NotOne};
use warpproof_toolchain::{CompileOptions, Source, options_in};

use super::flags::{ToolchainFlags, architecture};
use super::limits::{LimitFlags, size};
use crate::report::{Kind, Place, Report};
use crate::source::{self, Ptx, of_stop};
use case::CaseFlags;

/// Flags that describe a launch.
#[derive(Clone, Debug, Args)]
pub(crate) struct LaunchFlags {
    /// CUDA C++, or PTX if the name ends in .ptx
    #[arg(value_name = "FILE", required_unless_present = "task")]
    kernel_file: Option<PathBuf>,
    #[command(flatten)]
    case: CaseFlags,
    /// Select the kernel [default: the launch line's, or the only one]
    #[arg(long, value_name = "NAME")]
    kernel: Option<String>,
    /// Set the blocks: 4 or 4,4 or 4,4,4 [default: the launch line's, or 1]
    #[arg(long, value_name = "X,Y,Z", value_parser = extents)]
    grid: Option<[u32; 3]>,
    /// Set threads per block: 256 or 16,16 [default: the launch line's or .reqntid]
    #[arg(long, value_name = "X,Y,Z", value_parser = extents)]
    block: Option<[u32; 3]>,
    /// Set the bytes of dynamic shared memory [default: the launch line's, or 0]
    #[arg(long, value_name = "BYTES", value_parser = small_size)]
    shared: Option<u32>,
    /// Add an argument, in the kernel's order [default: the launch line's]
    #[arg(long = "arg", value_name = "SPEC")]
    args: Vec<String>,
    /// Set a __constant__ or __device__ variable [default: the launch line's]
    ///
    /// Write it like an argument, such as coef:f32[9]=iota.
    #[arg(long = "symbol", value_name = "SPEC")]
    symbols: Vec<String>,
    /// Launch cooperatively [default: if the kernel calls grid.sync()]
    #[arg(long)]
    cooperative: bool,
    /// Define a macro
    #[arg(short = 'D', value_name = "NAME[=VALUE]")]
    defines: Vec<String>,
    /// Search a directory for headers
    #[arg(short = 'I', value_name = "DIR")]
    include_dirs: Vec<PathBuf>,
    /// Compile for this architecture
    #[arg(long, value_name = "SM", default_value = "sm_89", value_parser = architecture)]
    arch: String,
    /// Execute this PTX, previously compiled from FILE, instead of compiling FILE
    #[arg(long, value_name = "PTX")]
    ptx: Option<PathBuf>,
    /// Use N host threads; results do not depend on it [default: all cores]
    #[arg(long, value_name = "N", value_parser = host_threads)]
    threads: Option<usize>,
    /// Use no fast path of the software GPU: slower, with the same results
    #[arg(long, hide = true)]
    plain: bool,
    #[command(flatten)]
    limits: LimitFlags,
    /// Set the local memory of a thread, in bytes or as 64K
    #[arg(long, value_name = "BYTES", default_value = "512K", value_parser = size)]
    stack: u64,
    #[command(flatten)]
    toolchain: ToolchainFlags,
}

fn small_size(text: &str) -> Result<u32, String> {
    u32::try_from(size(text)?).map_err(|_| "expected fewer than 4G bytes".to_owned())
}

/// A launch as described by flags and file together.
#[derive(Debug)]
pub(crate) struct Plan {
    /// The number of the launch line, if any.
    pub(crate) line: Option<u32>,
    pub(crate) kernel: Option<String>,
    grid: [u32; 3],
    /// Blocks in a cluster, if the launch sets them.
    cluster: Option<[u32; 3]>,
    /// Whether clusters may have a size that not every device supports.
    nonportable: bool,
    block: Option<[u32; 3]>,
    shared: u32,
    /// Whether the launch is cooperative; `None`: depends on the kernel.
    cooperative: Option<bool>,
    pub(crate) specs: Vec<Spec>,
    /// Variables of the module and their values.
    symbols: Vec<Spec>,
}

impl Plan {
    /// Whether it uses arrays of the previous launch line.
    fn continues(&self) -> bool {
        self.specs.iter().any(Spec::continues)
    }
}

/// Launches that share memory, in order: each except the first names arrays of earlier launches.
pub(crate) type Sequence = Vec<Plan>;

/// The state that the launches of a sequence share: the module with its variables, and the arrays.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    module: Option<(Module, ConstantBank)>,
    pub(crate) arrays: Vec<Array>,
}

/// A launch whose arguments are in device memory.
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
    pub(crate) cooperative: bool,
    /// The arguments, with arrays by their number in [`Memory::arrays`].
    pub(crate) arguments: Vec<Packed>,
    /// Variables of the module that were set, by symbol.
    pub(crate) variables: Vec<(String, Packed)>,
    /// The role of each array.
    pub(crate) roles: Vec<BufferRole>,
}

impl LaunchFlags {
    /// A device with the memory and the limits from the flags.
    pub(crate) fn device(&self, purpose: Purpose) -> Device {
        let mut device = self.limits.allowance().device(purpose);
        if let Some(threads) = self.threads {
            device = device.with_threads(threads);
        }
        device.limits.stack = self.stack;
        device.plain = self.plain;
        device
    }

    /// Bytes that a launch may allocate in addition to its arrays.
    pub(crate) fn beside(&self, purpose: Purpose, memory: &Memory) -> u64 {
        let arrays = memory.arrays.iter().map(|array| u64::try_from(array.bytes).unwrap_or(u64::MAX));
        self.limits.allowance().beside(purpose, arrays.fold(0, u64::saturating_add))
    }

    /// The file to run: a kernel or a task.
    pub(crate) fn file(&self) -> &Path {
        self.kernel_file.as_deref().or(self.case.task.as_deref()).unwrap_or(Path::new(""))
    }

    /// The same launch of another file, with further macros.
    pub(crate) fn with_file(&self, file: PathBuf, defines: &[String]) -> Self {
        let mut other = self.clone();
        other.kernel_file = Some(file);
        other.defines.extend_from_slice(defines);
        other
    }

    /// The files that the outcome depends on, including the headers of the source.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        if let Some(task) = &self.case.task {
            return super::gate::files_of(task);
        }
        let mut files = crate::watch::sources(self.file(), &self.include_dirs);
        files.extend(self.ptx.clone());
        files
    }

    /// Whether a case of a task is requested instead of a file.
    pub(crate) fn is_a_case(&self) -> bool {
        self.case.task.is_some()
    }

    /// The compiler to use.
    pub(crate) fn toolchain(&self) -> &ToolchainFlags {
        &self.toolchain
    }

    /// The PTX to execute: compiled from the file, passed with `--ptx`, or the file itself.
    pub(crate) fn module<'p>(
        &self,
        source: &Source,
        plans: impl IntoIterator<Item = &'p Plan>,
    ) -> Result<Ptx, Vec<Report>> {
        if let Some(path) = &self.ptx {
            let text = fs::read_to_string(path).map_err(|cause| {
                vec![Report::error(Kind::Missing, format!("cannot read {}: {cause}", path.display()))]
            })?;
            return source::given_ptx(text, path.display().to_string());
        }
        let options = CompileOptions {
            defines: self.defines.clone(),
            include_dirs: self.include_dirs.clone(),
            extra: options_in(&source.text),
            roots: source::project(self.file()).into_iter().collect(),
            kernels: plans.into_iter().filter_map(|plan| plan.kernel.clone()).collect(),
            ..CompileOptions::new(&self.arch)
        };
        source::to_ptx(self.file(), source, &options, &self.toolchain)
    }

    /// The launches, in sequences that share memory: from the flags, completed from the file's launch lines.
    /// With `--kernel`, the sequences that launch it. Arguments on the command line replace those of one line only, so then
    /// there is one launch.
    pub(crate) fn sequences(&self, source: &Source) -> Result<Vec<Sequence>, Box<Report>> {
        let mut lines = launches(&source.text).map_err(|(line, cause)| {
            let place = Place::new(source.name.as_str(), line);
            Box::new(Report::error(Kind::Usage, format!("launch line: {cause}")).at(Some(place)))
        })?;
        let asked = |kernel: Option<&str>| {
            self.kernel.as_deref().is_none_or(|name| kernel.is_some_and(|kernel| symbol::same(kernel, name)))
        };
        if !self.args.is_empty() {
            lines.retain(|line| line.kernel.is_none() || asked(line.kernel.as_deref()));
            lines.truncate(1);
        }
        let mut all: Vec<Sequence> = Vec::new();
        for line in lines {
            let named = line.kernel.clone();
            let mut plan = self.plan_of(line)?;
            // In a sequence, the other kernels are launched as well.
            plan.kernel = named.or(plan.kernel);
            match all.last_mut() {
                Some(before) if plan.continues() => {
                    // The flag sets the variable once, before the first launch.
                    if !self.symbols.is_empty() {
                        plan.symbols.clear();
                    }
                    before.push(plan);
                }
                _ => all.push(vec![plan]),
            }
        }
        all.retain(|sequence| sequence.iter().any(|plan| asked(plan.kernel.as_deref())));
        if all.is_empty() {
            all.push(vec![self.plan_of(LaunchLine::default())?]);
        }
        Ok(all)
    }

    /// Whether `--kernel` names the kernel of a plan, or names none.
    pub(crate) fn asks_for(&self, plan: &Plan) -> bool {
        let same = |name: &str| plan.kernel.as_deref().is_some_and(|kernel| symbol::same(kernel, name));
        self.kernel.as_deref().is_none_or(same)
    }

    fn plan_of(&self, line: LaunchLine) -> Result<Plan, Box<Report>> {
        let LaunchLine {
            line,
            kernel,
            grid,
            block,
            shared,
            cluster,
            nonportable,
            cooperative,
            args,
            symbols,
        } = line;
        Ok(Plan {
            line: Some(line).filter(|line| *line > 0),
            kernel: self.kernel.clone().or(kernel),
            grid: self.grid.or(grid).unwrap_or([1; 3]),
            cluster,
            nonportable,
            block: self.block.or(block),
            shared: self.shared.or(shared).unwrap_or(0),
            cooperative: if self.cooperative { Some(true) } else { cooperative },
            specs: parsed(if self.args.is_empty() { &args } else { &self.args })?,
            symbols: parsed(if self.symbols.is_empty() { &symbols } else { &self.symbols })?,
        })
    }

    /// Loads the module if that was not done for an earlier launch, finds the kernel, checks the arguments against it and lays
    /// them out in device memory.
    pub(crate) fn prepare(
        &self,
        plan: &Plan,
        ptx: &Ptx,
        source: &Source,
        device: &mut Device,
        memory: &mut Memory,
    ) -> Result<Prepared, Vec<Report>> {
        let stopped = |stop: Box<Stop>| vec![stop_report(&stop, ptx, source)];
        let refused = |report: Box<Report>| vec![*report];
        if memory.module.is_none() {
            let module = device.load(&ptx.text).map_err(stopped)?;
            let constants = module.linked().constants.clone();
            memory.module = Some((module, constants));
        }
        let Some((module, constants)) = &mut memory.module else { return Err(Vec::new()) };
        let symbol =
            choose(module.kernels(), plan.kernel.as_deref(), &ptx.instances, source).map_err(refused)?;
        let kernel = module.kernel(&symbol).map_err(stopped)?;
        let block = plan.block.or(kernel.program().bounds.required).ok_or_else(|| {
            let report = Report::error(Kind::Usage, "the number of threads per block is not set");
            vec![report.help(how_to_launch(&kernel, source))]
        })?;
        let mut packing = arguments::pack(&plan.specs, &memory.arrays).map_err(refused)?;
        parameters::check(&plan.specs, &mut packing.packed, &kernel, source).map_err(refused)?;
        clusters::fit(&kernel, plan, &module.linked().target).map_err(refused)?;
        let cooperative = plan.cooperative.unwrap_or_else(|| kernel.program().synchronizes_grid());
        if cooperative {
            cooperative::fits(&kernel, plan, block, &module.linked().target).map_err(refused)?;
        }
        arguments::allocate_all(&packing, device, &mut memory.arrays, self.limits.allowance().memory)
            .map_err(refused)?;
        let variables =
            variables::set(&plan.symbols, module, device, constants, &memory.arrays).map_err(refused)?;
        let mut launch = kernel.launch().grid(plan.grid).block(block).shared(plan.shared);
        launch = launch.cooperative(cooperative).constants(constants.clone());
        if let Some(cluster) = plan.cluster {
            launch = launch.cluster(cluster);
        }
        let address_of = |array: usize| memory.arrays.get(array).map_or(0, |array| array.address);
        for argument in &packing.packed {
            launch = launch.arg(argument.bytes(address_of));
        }
        Ok(Prepared {
            launch,
            kernel: symbol::name(&symbol),
            symbol,
            grid: plan.grid,
            block,
            shared: plan.shared,
            cooperative,
            roles: arguments::roles(&plan.specs, &packing, &memory.arrays),
            arguments: packing.packed,
            variables,
        })
    }
}

/// Parses arguments or variables; names must be unique.
fn parsed(texts: &[String]) -> Result<Vec<Spec>, Box<Report>> {
    let mut specs: Vec<Spec> = Vec::new();
    for text in texts {
        let spec = Spec::parse(text).map_err(|error| {
            let report = Report::error(Kind::Usage, error.sentence);
            Box::new(match error.help {
                Some(help) => report.help(help),
                None => report,
            })
        })?;
        if specs.iter().any(|other| other.name == spec.name) {
            let sentence = format!("duplicate argument name `{}`", spec.name);
            return Err(Box::new(
                Report::error(Kind::Usage, sentence).help("give each argument a unique name"),
            ));
        }
        specs.push(spec);
    }
    Ok(specs)
}

/// A number of host threads.
fn host_threads(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("expected at least one thread".to_owned()),
        Ok(threads) => Ok(threads),
        Err(_) => Err("expected a number".to_owned()),
    }
}

fn how_to_launch(kernel: &Kernel, source: &Source) -> String {
    format!(
        "set --grid and --block, or start the file with a line `//@launch: grid=1 block=128 arg=…`; the kernel is {}",
        parameters::shown(kernel, source)
    )
}

/// The symbol of the requested kernel, or of the only one.
pub(crate) fn choose(
    kernels: &[String],
    asked: Option<&str>,
    instances: &Instances,
    source: &Source,
) -> Result<String, Box<Report>> {
    let wrong = |sentence: String, names: Vec<String>| {
        let report = Report::error(Kind::Usage, sentence);
        Box::new(if names.is_empty() {
            report
        } else {
            report.help(format!("kernels: {}", names.join(", ")))
        })
    };
    let names = || kernels.iter().map(|kernel| symbol::name(kernel)).collect::<Vec<String>>();
    let Some(asked) = asked else {
        return match kernels {
            [only] => Ok(only.clone()),
            [] => Err(Box::new(
                Report::error(
                    Kind::Usage,
                    "the module has no kernel: nothing is declared __global__, or every kernel is a template without \
                     an instance",
                )
                .help("instantiate a template with --kernel 'NAME<ARGUMENTS>'"),
            )),
            _ => {
                let count = kernels.len();
                Err(wrong(format!("the module has {count} kernels: select one with --kernel"), names()))
            }
        };
    };
    match instances.find(kernels, asked) {
        Ok(symbol) => Ok(symbol.clone()),
        Err(NotOne::None) => {
            let report = wrong(format!("the module has no kernel `{asked}`"), names());
            Err(match instances.why_not(asked, &source.text) {
                Some(why) => Box::new(report.note(why, None)),
                None => report,
            })
        }
        Err(NotOne::Several(signatures)) => {
            Err(wrong(format!("{} kernels are called `{asked}`", signatures.len()), signatures))
        }
    }
}

/// The stop as a report, with the flag that raises a limit.
pub(crate) fn stop_report(stop: &Stop, ptx: &Ptx, source: &Source) -> Report {
    let mut report = of_stop(stop, ptx, source);
    if let Some(flag) = flag_of(stop) {
        let meant = match flag {
            INSTRUCTIONS_FLAG => "the kernel is meant to run this long",
            MEMORY_FLAG => "the kernel is meant to use this much",
            _ => "the kernel needs this much local memory",
        };
        report.help = Some(format!("if {meant}, raise the limit with {flag}"));
    }
    report
}
