//! One case of a task as a launch: what a failing stage of the gate prints is run again, alone.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use clap::Args;
use warpproof_check::BufferRole;
use warpproof_evidence::record::{Obstacle, Outcome as Ended};
use warpproof_gate::parameter::Packed;
use warpproof_gate::reference::python::Workers;
use warpproof_gate::stage::{Bench, CaseName, Ending, Staged, compile};
use warpproof_gate::variable::Variable;
use warpproof_sim::{Device, Stop};
use warpproof_task::{At, Candidate, Program, Task};
use warpproof_toolchain::{Part, Source, Toolchain, symbol};

use super::{Array, LaunchFlags, Memory, Prepared, stop_report};
use crate::commands::flags::missing;
use crate::commands::gate::{directory, read_task};
use crate::report::{Kind, Report};
use crate::source::{self, Ptx};

/// A case of a task instead of a file and its launch.
#[derive(Clone, Debug, Args)]
pub(crate) struct CaseFlags {
    /// Run a case of this task instead of FILE, as the gate launches it
    #[arg(
        long,
        value_name = "TASK.toml",
        conflicts_with_all = ["kernel_file", "kernel", "grid", "block", "shared", "args", "symbols", "cooperative", "defines", "include_dirs", "ptx"]
    )]
    pub(crate) task: Option<PathBuf>,
    /// Select the case [default: the first]
    ///
    /// Write it as the gate prints it: TASK/shape=NAME/dtype=TYPE/dist=NAME/seed=N.
    #[arg(long, value_name = "CASE", requires = "task")]
    case: Option<CaseName>,
    /// Select the candidate of the task [default: the first]
    #[arg(long, value_name = "NAME", requires = "task")]
    candidate: Option<String>,
}

/// A case of a task, compiled and laid out.
#[derive(Debug)]
pub(crate) struct Trial {
    pub(crate) source: Source,
    pub(crate) ptx: Ptx,
    pub(crate) staged: Staged,
}

impl LaunchFlags {
    /// The case that the flags name, where they name a task. The reference is computed where outputs are to be compared.
    pub(crate) fn trial(&self, compares: bool) -> Result<Option<Trial>, Vec<Report>> {
        let Some(path) = &self.case.task else { return Ok(None) };
        let (mut task, _) = read_task(path)?;
        let name = self.candidate(&mut task).map_err(|report| vec![*report])?;
        let unknown = || vec![Report::error(Kind::Bug, format!("candidate `{name}` was lost"))];
        let candidate = task.candidate(&name).ok_or_else(unknown)?;
        let toolchain = Toolchain::partial(&self.toolchain().options());
        toolchain.require(&[Part::Nvrtc]).map_err(|error| vec![missing(&error)])?;
        let stop = AtomicBool::new(false);
        let python = Workers::new(self.threads.unwrap_or(1), false);
        let allowance = self.limits.allowance();
        let bench = Bench::of_cases(&task, directory(path), &toolchain, allowance, &python, &stop);
        let built = compile(&bench, candidate).map_err(|ending| vec![of_ending(&ending)])?;
        let case = self.case.case.clone().unwrap_or_default();
        let staged = bench.staged_case((candidate, &built), &case, compares);
        let staged = staged.map_err(|ending| vec![of_ending(&ending)])?;
        let source = own_source(candidate, directory(path))?;
        let ptx = Ptx::new(staged.ptx.clone(), format!("{name}.ptx"));
        Ok(Some(Trial { source, ptx, staged }))
    }

    /// The candidate that is named, which may be a variant, or the first.
    fn candidate(&self, task: &mut Task) -> Result<String, Box<Report>> {
        let names: Vec<String> = task.candidates.iter().map(|one| one.name.value.clone()).collect();
        let wrong = |sentence: String| Report::error(Kind::Usage, sentence);
        let Some(name) = &self.case.candidate else {
            return names
                .into_iter()
                .next()
                .ok_or_else(|| Box::new(wrong("the task has no candidates".into())));
        };
        if let Some(variant) = task.variant_named(name) {
            let variant = variant.map_err(|why| Box::new(wrong(why)))?;
            task.candidates.push(Candidate { name: At::unsaid(name.clone()), ..variant });
            return Ok(name.clone());
        }
        if names.contains(name) {
            return Ok(name.clone());
        }
        let report = wrong(format!("the task has no candidate `{name}`"));
        Err(Box::new(report.help(format!("candidates: {}", names.join(", ")))))
    }
}

impl Trial {
    /// Lays the memory out on a device, and gives the launches in their order.
    pub(crate) fn prepare(
        &self,
        device: &mut Device,
        memory: &mut Memory,
    ) -> Result<Vec<Prepared>, Vec<Report>> {
        let stopped = |stop: Box<Stop>| vec![stop_report(&stop, &self.ptx, &self.source)];
        let wrong = |sentence: String| vec![Report::error(Kind::Usage, sentence)];
        let module = device.load(&self.ptx.text).map_err(stopped)?;
        let mut arrays = Vec::new();
        for (content, buffer) in self.staged.memory.iter().zip(&self.staged.buffers) {
            let lost = |cause: String| {
                let sentence = format!("`{}`: {cause}", buffer.name);
                vec![Report::error(Kind::Limit, sentence).help("raise the limit with --max-memory")]
            };
            let asked = u64::try_from(content.len()).unwrap_or(u64::MAX);
            let address =
                device.memory().allocate(&buffer.name, asked).map_err(|error| lost(error.to_string()))?;
            device.memory().write(address, content).map_err(|_| lost("cannot be written".to_owned()))?;
            arrays.push(Array {
                name: buffer.name.clone(),
                element: buffer.dtype,
                shape: buffer.dims.clone(),
                address,
                bytes: content.len(),
                before: blake3::hash(content),
            });
        }
        let mut constants = module.linked().constants.clone();
        let mut variables = Vec::new();
        for (symbol, bytes) in &self.staged.variables {
            let variable = Variable::find(&module, symbol).map_err(|unknown| wrong(unknown.sentence))?;
            variable.set(bytes, device, &mut constants).map_err(wrong)?;
            variables.push((variable.symbol, Packed::value(bytes.clone(), 1)));
        }
        let mut all = Vec::new();
        for (index, one) in self.staged.launches.iter().enumerate() {
            let kernel = module.kernel(&one.kernel).map_err(stopped)?;
            let mut launch = kernel.launch().grid(one.grid).block(one.block).shared(one.shared);
            launch = launch.cooperative(one.cooperative).constants(constants.clone());
            let wide = |n: u32| usize::try_from(n).unwrap_or(usize::MAX);
            let address_of = |place: usize| arrays.get(place).map_or(0, |array: &Array| array.address);
            let arguments = one.arguments.iter().enumerate().map(|(at, argument)| {
                // A struct has the padding of its parameter.
                let parameter = kernel.program().params.get(at);
                parameter.map_or_else(
                    || argument.clone(),
                    |parameter| argument.clone().padded(wide(parameter.size), wide(parameter.align)),
                )
            });
            let arguments: Vec<Packed> = arguments.collect();
            for argument in &arguments {
                launch = launch.arg(argument.bytes(address_of));
            }
            let roles = self.staged.buffers.iter().zip(&arrays).map(|(buffer, array)| BufferRole {
                name: buffer.name.clone(),
                address: array.address,
                element: u32::try_from(buffer.dtype.size()).unwrap_or(1),
                extents: buffer
                    .dims
                    .iter()
                    .map(|extent| u64::try_from(*extent).unwrap_or(u64::MAX))
                    .collect(),
                role: buffer.role,
                // What one launch leaves is for the next to read.
                initialized: buffer.initialized || index > 0,
            });
            all.push(Prepared {
                launch,
                kernel: symbol::name(&one.kernel),
                symbol: one.kernel.clone(),
                grid: one.grid,
                block: one.block,
                shared: one.shared,
                cooperative: one.cooperative,
                roles: roles.collect(),
                arguments,
                // What is set is set once, before the first launch.
                variables: std::mem::take(&mut variables),
            });
        }
        *memory = Memory { module: Some((module, constants)), arrays };
        Ok(all)
    }
}

/// The candidate's own file, by the name that the task gives it.
fn own_source(candidate: &Candidate, directory: &Path) -> Result<Source, Vec<Report>> {
    match &candidate.program {
        Program::Source { file, .. } | Program::Ptx { file, .. } => {
            let source = source::read(&directory.join(&file.value))?;
            Ok(Source { name: file.value.clone(), ..source })
        }
        Program::Rung { .. } => Ok(Source::new(candidate.name.value.clone(), String::new())),
    }
}

/// Why a case cannot be run.
fn of_ending(ending: &Ending) -> Report {
    let kind = match (ending.outcome, ending.obstacle) {
        (Ended::Fail, _) => Kind::Kernel,
        (_, Some(Obstacle::Unsupported)) => Kind::Unsupported,
        (_, Some(Obstacle::Limit)) => Kind::Limit,
        _ => Kind::Usage,
    };
    Report::error(kind, ending.reason.clone())
}
