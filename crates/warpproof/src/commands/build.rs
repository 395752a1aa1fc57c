//! `warpproof build`: compiles CUDA C++ or PTX to machine code and reports the resources and the occupancy of every kernel.

mod kernel;
mod render;

use std::ffi::{OsStr, OsString};
use std::fs;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use warpproof_model::{Capability, Device, Occupancy, Usage, occupancy};
use warpproof_toolchain::symbol::Instances;
use warpproof_toolchain::{
    AssembleError, Assembled, CompileOptions, Found, Part, Resources, Source, Survey, Toolchain, Version,
};

use super::flags::{JsonFlag, ToolchainFlags, architecture, missing};
use super::launch::{choose, extents};
use crate::report::{Kind, Outcome, Report, Severity};
use crate::source::{self, diagnostics};
use crate::terminal::Terminal;
use kernel::{Kernel, Stack};

/// Compile a kernel; report its registers, memory and occupancy
///
/// NVRTC compiles CUDA C++ to PTX, ptxas assembles it. No GPU is needed. Registers, memory and spills are what ptxas
/// reports; occupancy is computed from them and from the device's published limits.
#[derive(Debug, Args)]
pub(crate) struct Build {
    /// CUDA C++, or PTX if the name ends in .ptx
    kernel: PathBuf,
    /// Report only this kernel or template instance 'softmax<float, 256>' (repeatable)
    #[arg(long = "kernel", value_name = "NAME")]
    names: Vec<String>,
    /// Define a macro
    #[arg(short = 'D', value_name = "NAME[=VALUE]")]
    defines: Vec<String>,
    /// Search a directory for headers
    #[arg(short = 'I', value_name = "DIR")]
    include_dirs: Vec<PathBuf>,
    /// Compile for these architectures [default: the devices', the PTX target or sm_89]
    #[arg(long, value_name = "SM", value_delimiter = ',', value_parser = architecture)]
    arch: Vec<String>,
    /// Compute occupancy for these devices [default: one per target; L4 for sm_89]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    device: Vec<String>,
    /// Set threads per block: 128 or 16,8 [default: the kernel's launch bounds or 128]
    #[arg(long, value_name = "X,Y,Z", value_parser = block_size)]
    block: Option<u32>,
    /// Set the bytes of dynamic shared memory
    #[arg(long, visible_alias = "shared", value_name = "BYTES", default_value_t = 0)]
    dynamic_smem: u32,
    /// Set the C++ standard, such as c++17 [default: NVRTC's]
    #[arg(long, value_name = "STANDARD")]
    std: Option<String>,
    /// Write these files
    #[arg(long, value_name = "WHAT", value_delimiter = ',')]
    emit: Vec<Emit>,
    /// Write files to this directory
    #[arg(short = 'o', long = "output", value_name = "DIR", default_value = ".")]
    output: PathBuf,
    #[command(flatten)]
    toolchain: ToolchainFlags,
    /// Ignore the build cache
    #[arg(long)]
    no_cache: bool,
    #[command(flatten)]
    json: JsonFlag,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Emit {
    /// PTX text
    Ptx,
    /// Machine code
    Cubin,
    /// Disassembled machine code
    Sass,
}

/// Parses the threads of a block, in the syntax of a launch.
fn block_size(text: &str) -> Result<u32, String> {
    let extents = extents(text)?;
    let threads = extents.iter().try_fold(1u32, |threads, extent| threads.checked_mul(*extent));
    threads.filter(|threads| *threads <= 1024).ok_or_else(|| {
        let [x, y, z] = extents;
        format!("expected at most 1024 threads per block, found {x} x {y} x {z}")
    })
}

/// Everything that was built, with its reports.
#[derive(Debug, Default)]
struct Built {
    targets: Vec<Target>,
    reports: Vec<Report>,
    nvrtc: Option<Version>,
}

/// One architecture.
#[derive(Debug)]
struct Target {
    arch: String,
    ptxas: Version,
    /// Whether the results of NVRTC and ptxas came from the build cache; `None` if the tool did not run.
    compiled_from_cache: Option<bool>,
    assembled_from_cache: bool,
    /// Files and lines, counted from 1.
    skipped_host_code: Vec<(String, RangeInclusive<usize>)>,
    kernels: Vec<Examined>,
    files: Vec<PathBuf>,
}

/// One kernel on one architecture.
#[derive(Debug)]
struct Examined {
    kernel: Kernel,
    resources: Resources,
    dynamic_shared: u32,
    block: u32,
    block_origin: BlockOrigin,
    fits: Vec<Fit>,
    remarks: Vec<String>,
}

/// Where the block size comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BlockOrigin {
    Flag,
    LaunchBounds,
    Assumed,
}

/// One kernel on one device.
#[derive(Debug)]
struct Fit {
    device: String,
    occupancy: Occupancy,
}

/// A device, or an architecture without a device in the table.
#[derive(Clone, Debug)]
struct Seat {
    name: String,
    capability: &'static Capability,
}

impl From<&'static Device> for Seat {
    fn from(device: &'static Device) -> Self {
        Self { name: device.name.to_owned(), capability: device.capability }
    }
}

impl Build {
    pub(crate) fn run(&self, terminal: &mut Terminal) -> Outcome {
        let mut built = Built::default();
        if let Err(reports) = self.build(&mut built) {
            built.reports.extend(reports);
        }
        let failed = built.reports.iter().find(|report| report.severity == Severity::Error).map(|r| r.kind);
        if self.json.wanted {
            terminal.json(&render::json(self, &built, failed));
        } else {
            for report in &built.reports {
                terminal.report(report);
            }
            if failed.is_none() {
                terminal.print(render::text(self, &built));
            }
        }
        failed.map_or(Outcome::Green, Outcome::Stopped)
    }

    fn is_ptx(&self) -> bool {
        source::is_ptx(&self.kernel)
    }

    fn build(&self, built: &mut Built) -> Result<(), Vec<Report>> {
        let source = source::read(&self.kernel)?;
        let mut stated_target = None;
        if self.is_ptx() {
            let (module, errors) = warpproof_ptx::parse(&source.text);
            if !errors.is_empty() {
                return Err(diagnostics::of_ptx(&errors, &source));
            }
            stated_target =
                module.target().iter().find(|name| name.starts_with("sm_")).map(|n| (*n).to_owned());
        }
        let plan = self.plan(stated_target.as_deref())?;

        let mut options = self.toolchain.options();
        options.no_cache = self.no_cache;
        let mut toolchain = Toolchain::partial(&options);
        if self.is_ptx() && toolchain.ptxas_for(&source.text).is_err() {
            // The first compiler found is too old for this module; search all locations.
            toolchain = Toolchain::select(&Survey::complete(&options), &options);
        }
        let needed: &[Part] = if self.is_ptx() { &[] } else { &[Part::Nvrtc, Part::Ptxas] };
        toolchain.require(needed).map_err(|error| vec![missing(&error)])?;
        built.nvrtc =
            toolchain.part(Part::Nvrtc).filter(|_| !self.is_ptx()).map(|found: &Found| found.version);
        for (arch, seats) in plan {
            let target = self.build_target(&source, &toolchain, arch, &seats, &mut built.reports)?;
            built.targets.push(target);
        }
        Ok(())
    }

    /// The architectures to build for, each with its devices.
    fn plan(&self, stated_target: Option<&str>) -> Result<Vec<(String, Vec<Seat>)>, Vec<Report>> {
        let mut devices: Vec<&'static Device> = Vec::new();
        for name in &self.device {
            devices.push(Device::named(name).ok_or_else(|| {
                let known: Vec<&str> = warpproof_model::DEVICES.iter().map(|device| device.id).collect();
                let report = Report::error(Kind::Usage, format!("expected a known device, found `{name}`"));
                vec![report.help(format!("known devices: {}", known.join(", ")))]
            })?);
        }
        let mut archs = self.arch.clone();
        if archs.is_empty() {
            archs.extend(devices.iter().map(|device| device.capability.arch()));
        }
        if archs.is_empty() {
            archs.push(stated_target.unwrap_or("sm_89").to_owned());
        }
        let mut seen = Vec::new();
        archs.retain(|arch| {
            !seen.contains(arch) && {
                seen.push(arch.clone());
                true
            }
        });
        for device in &devices {
            if !archs.iter().any(|arch| device.capability.runs(arch)) {
                let sentence =
                    format!("machine code of {} does not run on an {}", archs.join(", "), device.name);
                let help = format!("build for it with --arch {}", device.capability.arch());
                return Err(vec![Report::error(Kind::Usage, sentence).help(help)]);
            }
        }
        let seats = |arch: &str| -> Vec<Seat> {
            if !devices.is_empty() {
                return devices.iter().filter(|d| d.capability.runs(arch)).map(|d| Seat::from(*d)).collect();
            }
            let device = Device::of_arch(arch).map(Seat::from);
            let any = || Capability::of_arch(arch).map(|c| Seat { name: c.arch(), capability: c });
            device.or_else(any).into_iter().collect()
        };
        Ok(archs
            .into_iter()
            .map(|arch| {
                let seats = seats(&arch);
                (arch, seats)
            })
            .collect())
    }

    fn build_target(
        &self,
        source: &Source,
        toolchain: &Toolchain,
        arch: String,
        seats: &[Seat],
        reports: &mut Vec<Report>,
    ) -> Result<Target, Vec<Report>> {
        let mut skipped_host_code = Vec::new();
        let mut instances = Instances::default();
        let (ptx, compiled_from_cache) = if self.is_ptx() {
            (source.text.clone(), None)
        } else {
            let options = CompileOptions {
                defines: self.defines.clone(),
                include_dirs: self.include_dirs.clone(),
                std: self.std.clone(),
                roots: source::project(&self.kernel).into_iter().collect(),
                kernels: self.names.clone(),
                ..CompileOptions::new(&arch)
            };
            let compiled = toolchain
                .compile(source, &options)
                .map_err(|error| source::compile_failed(error, source, toolchain))?;
            for report in diagnostics::of_nvrtc(&compiled.diagnostics, source) {
                // Most warnings do not depend on the architecture; report them once.
                if !reports.contains(&report) {
                    reports.push(report);
                }
            }
            skipped_host_code = compiled.skipped_host_code();
            instances = compiled.instances;
            (compiled.ptx, Some(compiled.cached))
        };
        let name =
            if self.is_ptx() { source.name.clone() } else { self.file(&arch, "ptx").display().to_string() };
        let lines: &[&str] = if has_line_table(&ptx) { &["-lineinfo"] } else { &[] };
        let assembled = toolchain
            .ptxas(&ptx, &arch, lines)
            .map_err(|error| assemble_failed(error, &ptx, &name, source))?;
        reports.extend(diagnostics::of_ptxas(&assembled.diagnostics, &ptx, &name, source));
        let files = self.write(toolchain, &arch, &ptx, &assembled)?;
        let mut kernels = kernel::all(&ptx);
        let symbols: Vec<String> = kernels.iter().map(|kernel| kernel.symbol.clone()).collect();
        let mut chosen = Vec::new();
        for name in &self.names {
            chosen.push(choose(&symbols, Some(name), &instances, source).map_err(|report| vec![*report])?);
        }
        kernels.retain(|kernel| chosen.is_empty() || chosen.contains(&kernel.symbol));
        let kernels = kernels
            .into_iter()
            .filter_map(|kernel| {
                let resources = assembled.resources.iter().find(|r| r.kernel == kernel.symbol)?;
                Some(self.examine(kernel, resources.clone(), seats))
            })
            .collect();
        Ok(Target {
            arch,
            ptxas: assembled.version,
            compiled_from_cache,
            assembled_from_cache: assembled.cached,
            skipped_host_code,
            kernels,
            files,
        })
    }

    fn examine(&self, kernel: Kernel, resources: Resources, seats: &[Seat]) -> Examined {
        let (block, block_origin) = match (self.block, kernel.launch_bound) {
            (Some(block), _) => (block, BlockOrigin::Flag),
            (None, Some(bound)) => (bound, BlockOrigin::LaunchBounds),
            (None, None) => (128, BlockOrigin::Assumed),
        };
        let usage = Usage {
            registers: resources.registers,
            static_shared: resources.static_shared,
            dynamic_shared: self.dynamic_smem,
            barriers: resources.barriers,
        };
        let fits = seats
            .iter()
            .map(|seat| Fit {
                device: seat.name.clone(),
                occupancy: occupancy(seat.capability, &usage, block),
            })
            .collect();
        let mut remarks = Vec::new();
        if resources.has_unspilled_stack() {
            let cause = match kernel.stack {
                Stack::LocalArray => "a local array is indexed dynamically",
                Stack::Unknown => {
                    "a local array is indexed dynamically, the address of a local variable is taken (as printf \
                     does), or a function is called that was not inlined"
                }
            };
            remarks.push(format!(
                "local memory: stack frame of {} bytes although nothing spilled: {cause}",
                resources.local_bytes()
            ));
        }
        if let Some(bound) = kernel.launch_bound.filter(|bound| block > *bound) {
            remarks.push(format!("launch: a block of {block} threads exceeds the kernel's bound of {bound}"));
        }
        Examined { kernel, resources, dynamic_shared: self.dynamic_smem, block, block_origin, fits, remarks }
    }

    /// `kernel.sm_89.ptx` in the output directory.
    fn file(&self, arch: &str, extension: &str) -> PathBuf {
        let mut name: OsString = self.kernel.file_stem().unwrap_or(OsStr::new("kernel")).to_owned();
        name.push(format!(".{arch}.{extension}"));
        if self.output == Path::new(".") { name.into() } else { self.output.join(name) }
    }

    fn write(
        &self,
        toolchain: &Toolchain,
        arch: &str,
        ptx: &str,
        assembled: &Assembled,
    ) -> Result<Vec<PathBuf>, Vec<Report>> {
        let mut files = Vec::new();
        for emit in &self.emit {
            let (extension, content) = match emit {
                Emit::Ptx => ("ptx", ptx.as_bytes().to_vec()),
                Emit::Cubin => ("cubin", assembled.cubin.clone()),
                Emit::Sass => {
                    let text = toolchain.sass(&assembled.cubin).map_err(|error| match error {
                        AssembleError::NotFound(error) => vec![missing(&error)],
                        error => vec![Report::error(Kind::Missing, error.to_string())],
                    })?;
                    ("sass", text.into_bytes())
                }
            };
            let file = self.file(arch, extension);
            let written = fs::create_dir_all(&self.output).and_then(|()| fs::write(&file, content));
            written.map_err(|cause| {
                vec![Report::error(Kind::Missing, format!("cannot write {}: {cause}", file.display()))]
            })?;
            files.push(file);
        }
        Ok(files)
    }
}

/// Only a module with `.loc` has line information, and ptxas warns if `-lineinfo` is passed for any other module.
pub(super) fn has_line_table(ptx: &str) -> bool {
    ptx.lines().any(|line| line.trim_start().starts_with(".loc"))
}

/// Reports why assembling failed.
pub(super) fn assemble_failed(error: AssembleError, ptx: &str, name: &str, source: &Source) -> Vec<Report> {
    match error {
        AssembleError::NotFound(error) => vec![missing(&error)],
        AssembleError::TooOld { needed, .. } => {
            let help = format!("run `warpproof toolchain install --cuda {}`", needed.major);
            vec![Report::error(Kind::Missing, error.to_string()).help(help)]
        }
        AssembleError::Rejected { diagnostics, log } => {
            let reports = diagnostics::of_ptxas(&diagnostics, ptx, name, source);
            if reports.is_empty() {
                let sentence = format!("ptxas rejects the module: {}", log.trim());
                return vec![Report::error(Kind::Kernel, sentence)];
            }
            reports
        }
        AssembleError::Options(text) => vec![Report::error(Kind::Usage, text)],
        AssembleError::Program(error) if error.limit => {
            vec![Report::error(Kind::Limit, error.to_string())]
        }
        AssembleError::Program(_) | AssembleError::Io(_) => {
            vec![Report::error(Kind::Missing, error.to_string()).help("run `warpproof doctor`")]
        }
    }
}
