//! Compiles a candidate for every target, and refuses a toggle that changes nothing and a program that another
//! candidate already has.

use std::collections::BTreeMap;
use std::sync::Arc;

use warpproof_model::Device;
use warpproof_toolchain::symbol::{Instances, NotOne};
use warpproof_toolchain::{CompileError, CompileOptions, Compiled, Source, nvrtc_options, options_in};

use super::{Bench, Ending, Part, Trouble, identity, unfit};
use crate::family::{self, Planned};
use warpproof_evidence::hash::Hash;
use warpproof_evidence::record::{Figure, Obstacle, Outcome};
use warpproof_evidence::vocabulary;
use warpproof_task::{Candidate, Launch, Program};

/// Bytes of the largest source.
const MAX_SOURCE: u64 = 64 << 20;

/// A candidate that was compiled.
#[derive(Clone, Debug)]
pub struct Built {
    /// What runs.
    pub programs: Programs,
    /// The hash of the program and of how it is launched. Equal hashes mean equal programs.
    pub identity: Hash,
    /// Toggles that change nothing, each with the reason.
    pub dead: Vec<String>,
    /// Another candidate with the same program.
    pub same_as: Option<String>,
    /// Warnings of the compiler.
    pub warnings: Vec<String>,
}

/// The PTX of a candidate.
#[derive(Clone, Debug)]
pub enum Programs {
    /// One module for each architecture, and how it is launched.
    Launched {
        /// By architecture, in the task's order.
        modules: Vec<(String, Arc<str>)>,
        /// How it is launched; names of kernels include the values of their macros.
        launch: Launch,
        /// Instances of kernel templates that it launches.
        instances: Instances,
    },
    /// A kernel of an operator family, planned for each size.
    Family {
        /// By the size's name, with its PTX.
        plans: BTreeMap<String, (Arc<dyn Planned>, Arc<str>)>,
    },
}

/// A module with the way it is launched.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Module<'b> {
    /// The architecture.
    pub(super) arch: &'b str,
    pub(super) ptx: &'b str,
    pub(super) launch: &'b Launch,
    pub(super) instances: &'b Instances,
}

impl Built {
    /// The modules of a launched candidate that differ in their code: one for each architecture, or one for several.
    pub(super) fn distinct(&self) -> Vec<Module<'_>> {
        let Programs::Launched { modules, launch, instances } = &self.programs else { return Vec::new() };
        let mut seen = Vec::new();
        let mut distinct = Vec::new();
        for (arch, ptx) in modules {
            let code = identity::of_code(ptx);
            if !seen.contains(&code) {
                seen.push(code);
                distinct.push(Module { arch, ptx, launch, instances });
            }
        }
        distinct
    }

    /// The module for an architecture.
    pub(super) fn module(&self, arch: &str) -> Option<Module<'_>> {
        let Programs::Launched { modules, launch, instances } = &self.programs else { return None };
        let (arch, ptx) = modules.iter().find(|(own, _)| own == arch)?;
        Some(Module { arch, ptx, launch, instances })
    }

    /// The plan of a family's kernel for a size, and its PTX.
    pub(super) fn plan(&self, part: &Part) -> Result<(&dyn Planned, &Arc<str>), Trouble> {
        let found = match &self.programs {
            Programs::Family { plans } => plans.get(&part.name),
            Programs::Launched { .. } => None,
        };
        let (plan, ptx) =
            found.ok_or_else(|| unfit(format!("the candidate has no plan for {}", part.name)))?;
        Ok((&**plan, ptx))
    }

    /// The module that is stored as evidence: the first.
    pub fn ptx(&self) -> &str {
        match &self.programs {
            Programs::Launched { modules, .. } => modules.first().map_or("", |(_, ptx)| ptx),
            Programs::Family { plans } => plans.values().next().map_or("", |(_, ptx)| ptx),
        }
    }

    /// Every module with its architecture, each once.
    pub(super) fn modules(&self) -> Vec<(&str, &str)> {
        let mut all: Vec<(&str, &str)> = match &self.programs {
            Programs::Launched { modules, .. } => {
                modules.iter().map(|(arch, ptx)| (arch.as_str(), &**ptx)).collect()
            }
            Programs::Family { plans } => plans.values().map(|(plan, ptx)| (plan.arch(), &**ptx)).collect(),
        };
        all.sort_unstable();
        all.dedup();
        all
    }
}

/// Compiles a candidate. A compile error is an ending of the stage.
pub fn compile(bench: &Bench<'_>, candidate: &Candidate) -> Result<Built, Ending> {
    let (programs, warnings) = programs(bench, candidate)?;
    let identity = identity_of(bench, candidate, &programs);
    let mut dead = Vec::new();
    // Every combination of a variant is requested; comparing programs finds the ones that change nothing.
    let judged = candidate.variant_of.is_none();
    for name in candidate.toggles.keys().filter(|_| judged) {
        let mut without = candidate.clone();
        without.toggles.remove(name);
        let default = bench.task.toggles.iter().find(|toggle| toggle.name.value == *name);
        let default = default.and_then(|toggle| toggle.default.as_ref());
        // Setting a toggle to its default sets nothing.
        if default.is_some_and(|default| candidate.toggles.get(name).is_some_and(|own| own.value == *default))
        {
            continue;
        }
        let Some(other) = compared(bench, &without)? else { continue };
        if code(&other) == code(&programs) {
            let value = candidate.toggles.get(name).map_or("", |value| value.value.as_str());
            dead.push(format!("{name}={value} gives the same PTX as its default"));
        }
    }
    for (name, value) in unset(bench, candidate) {
        let mut with = candidate.clone();
        with.toggles.insert(name.clone(), warpproof_task::At::new(value.clone(), 0..0));
        let Some(other) = compared(bench, &with)? else { continue };
        if code(&other) == code(&programs) {
            dead.push(format!(
                "{name}={value} gives the same PTX as its default (the task declares {name}, and no candidate sets it)"
            ));
        }
    }
    Ok(Built { programs, identity, dead, same_as: None, warnings })
}

/// A candidate with another toggle, for comparison. `None`: it does not compile, so the toggle does something. Any
/// other error gives no information about the toggle.
fn compared(bench: &Bench<'_>, other: &Candidate) -> Result<Option<Programs>, Ending> {
    match programs(bench, other) {
        Ok((programs, _)) => Ok(Some(programs)),
        Err(ending) if ending.outcome == Outcome::Fail => Ok(None),
        Err(ending) => Err(ending),
    }
}

/// Toggles that the task declares and no candidate sets, with every other value: the first candidate answers for
/// them.
fn unset(bench: &Bench<'_>, candidate: &Candidate) -> Vec<(String, String)> {
    let own = |other: &&Candidate| !matches!(other.program, Program::Rung { .. });
    let first = bench.task.candidates.iter().find(own);
    if candidate.variant_of.is_some() || first.is_none_or(|first| first.name != candidate.name) {
        return Vec::new();
    }
    let nobody = |name: &str| !bench.task.candidates.iter().any(|other| other.toggles.contains_key(name));
    let toggles = bench.task.toggles.iter().filter(|toggle| nobody(&toggle.name));
    let values = toggles.flat_map(|toggle| {
        let others = toggle.values.iter().filter(|value| Some(*value) != toggle.default.as_ref());
        others.map(|value| (toggle.name.value.clone(), value.clone()))
    });
    values.collect()
}

fn programs(bench: &Bench<'_>, candidate: &Candidate) -> Result<(Programs, Vec<String>), Ending> {
    match &candidate.program {
        Program::Source { file, launch } => {
            let source = read(bench, file)?;
            // Unlike `check`, the gate does not apply options from a comment; it refuses options that would harm a
            // user of `check`.
            if let Err(refused) = nvrtc_options(&options_in(&source.text)) {
                return Err(Ending::fail(format!("{}: {refused}", file.value), Vec::new()));
            }
            let launch = bench.task.named_launch(candidate, launch);
            let kernels: Vec<String> = launch.kernels().map(str::to_owned).collect();
            let mut instances = Instances::default();
            let mut modules = Vec::new();
            let mut warnings = Vec::new();
            for arch in &bench.task.target.architectures {
                let options = CompileOptions {
                    defines: bench.task.macros(candidate),
                    extra: candidate.flags.iter().map(|flag| flag.value.clone()).collect(),
                    roots: vec![bench.directory.to_owned()],
                    kernels: kernels.clone(),
                    ..CompileOptions::new(arch.as_str())
                };
                let compiled =
                    bench.toolchain.compile(&source, &options).map_err(|error| refused(&error, arch))?;
                warnings.extend(compiled.diagnostics.iter().map(|one| one.message.clone()));
                known(&kernels, &compiled, &source)?;
                instances = compiled.instances;
                modules.push((arch.value.clone(), Arc::from(relative(&compiled.ptx, file))));
            }
            warnings.sort_unstable();
            warnings.dedup();
            Ok((Programs::Launched { modules, launch, instances }, warnings))
        }
        Program::Ptx { file, launch } => {
            let source = read(bench, file)?;
            let (_, errors) = warpproof_ptx::parse(&source.text);
            if let Some(error) = errors.first() {
                return Err(Ending::fail(format!("cannot parse {} as PTX: {error}", file.value), Vec::new()));
            }
            let text: Arc<str> = Arc::from(source.text);
            let modules = bench.task.target.architectures.iter();
            let modules = modules.map(|arch| (arch.value.clone(), text.clone())).collect();
            let launch = bench.task.named_launch(candidate, launch);
            Ok((Programs::Launched { modules, launch, instances: Instances::default() }, Vec::new()))
        }
        Program::Rung { .. } => Ok((planned(bench, candidate)?, Vec::new())),
    }
}

/// Whether the module has an instance of every launched kernel template.
fn known(kernels: &[String], compiled: &Compiled, source: &Source) -> Result<(), Ending> {
    let (module, _) = warpproof_ptx::parse(&compiled.ptx);
    let entries = module.functions().filter(|function| function.entry);
    let symbols: Vec<String> = entries.map(|function| function.name.to_owned()).collect();
    for name in kernels {
        if let Err(NotOne::None) = compiled.instances.find(&symbols, name)
            && let Some(why) = compiled.instances.why_not(name, &source.text)
        {
            let reason = format!("the module has no kernel `{name}`: {why}");
            return Err(Ending::inconclusive(reason, Some(Obstacle::Input)));
        }
    }
    Ok(())
}

/// The module with its file named as in the task: the compiler prepends the working directory, and evidence must not
/// name directories of a machine.
fn relative(ptx: &str, file: &str) -> String {
    let Ok(here) = std::env::current_dir() else { return ptx.to_owned() };
    ptx.replace(&format!("\"{}\"", here.join(file).display()), &format!("\"{file}\""))
}

fn planned(bench: &Bench<'_>, candidate: &Candidate) -> Result<Programs, Ending> {
    let input = |reason: String| Ending::inconclusive(reason, Some(Obstacle::Input));
    let device = bench.task.target.devices.first().and_then(|id| Device::named(id));
    let device = device.ok_or_else(|| input("the task names no known device".to_owned()))?;
    let family = family::of(bench.task)
        .ok_or_else(|| input("the task's operator has no built-in kernels".to_owned()))?;
    let mut plans = BTreeMap::new();
    for size in bench.sizes(candidate, None) {
        let plan = family
            .plan(bench.task, candidate, &size, device)
            .map_err(|error| input(format!("{}: {error}", size.name)))?;
        let ptx = plan.compile(bench.toolchain).map_err(|error| refused(&error, plan.arch()))?;
        plans.insert(size.name, (plan, Arc::from(ptx)));
    }
    if plans.is_empty() {
        return Err(input(format!("`{}` supports none of the task's shapes", candidate.name.value)));
    }
    Ok(Programs::Family { plans })
}

/// Reads a file of the task; line tables use the task's own name for it, so that it is the same on every machine.
fn read(bench: &Bench<'_>, file: &str) -> Result<Source, Ending> {
    let path = bench.directory.join(file);
    let unreadable = |cause: String| {
        Ending::inconclusive(format!("cannot read {}: {cause}", path.display()), Some(Obstacle::Input))
    };
    let found = std::fs::metadata(&path).map_err(|cause| unreadable(cause.to_string()))?;
    if !found.is_file() || found.len() > MAX_SOURCE {
        return Err(unreadable(format!("expected a file of at most {MAX_SOURCE} bytes")));
    }
    let source = Source::read(&path).map_err(|cause| unreadable(cause.to_string()))?;
    Ok(Source { name: file.to_owned(), ..source })
}

fn refused(error: &CompileError, arch: &str) -> Ending {
    match error {
        CompileError::Source { diagnostics, log } => {
            let first = diagnostics.iter().find(|one| one.severity == warpproof_toolchain::Severity::Error);
            let at =
                first.and_then(|one| one.place.as_ref()).map(|at| format!(" at {}:{}", at.file, at.line));
            let first = first.map_or("the source does not compile", |one| one.message.as_str());
            let reason = format!("{arch}: {first}{}", at.unwrap_or_default());
            Ending::fail(reason, Vec::new()).with_object("log", log.as_bytes())
        }
        CompileError::NotFound(error) => Ending::inconclusive(error.reason.clone(), Some(Obstacle::Input)),
        CompileError::Outside(_) => {
            Ending::fail(format!("{error}; allow another directory with --allow-path"), Vec::new())
        }
        CompileError::Limit(text) => Ending::inconclusive(text.clone(), Some(Obstacle::Limit)),
        CompileError::Options(text) | CompileError::Nvrtc(text) => {
            Ending::inconclusive(text.clone(), Some(Obstacle::Input))
        }
    }
}

/// The code of all modules of public sizes.
fn code(programs: &Programs) -> Vec<Hash> {
    match programs {
        Programs::Launched { modules, .. } => modules.iter().map(|(_, ptx)| identity::of(ptx)).collect(),
        Programs::Family { plans } => plans.values().map(|(_, ptx)| identity::of(ptx)).collect(),
    }
}

/// The program and how it is launched; hidden sizes are left out, so that the identity does not depend on a run's
/// secret.
fn identity_of(bench: &Bench<'_>, candidate: &Candidate, programs: &Programs) -> Hash {
    let mut pieces: Vec<Vec<u8>> = Vec::new();
    match programs {
        Programs::Launched { modules, launch, .. } => {
            for (arch, ptx) in modules {
                pieces.push(arch.as_bytes().to_vec());
                pieces.push(identity::of(ptx).to_string().into_bytes());
            }
            // Serializing a launch cannot fail.
            pieces.push(serde_json::to_vec(launch).unwrap_or_default());
        }
        Programs::Family { plans } => {
            for size in bench.sizes(candidate, None).iter().filter(|size| !size.hidden) {
                if let Some((plan, ptx)) = plans.get(&size.name) {
                    pieces.push(identity::of(ptx).to_string().into_bytes());
                    pieces.push(plan.identity().into_bytes());
                }
            }
        }
    }
    Hash::of_pieces(pieces.iter().map(Vec::as_slice))
}

/// The stage's own ending for a candidate that compiles.
pub(super) fn ending(built: &Built) -> Ending {
    let count = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
    let mut figures = Vec::new();
    figures.extend(Figure::counted("modules", count(built.modules().len()), ""));
    figures.extend(Figure::counted("PTX", count(built.ptx().len()), "B"));
    figures.extend(Figure::counted("compiler warnings", count(built.warnings.len()), ""));
    let ending = if let Some(dead) = built.dead.first() {
        Ending::fail(format!("a toggle has no effect: {dead}"), figures)
    } else if let Some(other) = &built.same_as {
        let reason = format!("identical to `{other}`: same program and same launch");
        Ending::fail(reason, figures)
    } else {
        Ending::pass(figures)
    };
    let ending = ending.with_object(vocabulary::PTX, built.ptx());
    if built.warnings.is_empty() { ending } else { ending.with_object("warnings", built.warnings.join("\n")) }
}
