//! `warpproof init`: writes a first task file for a kernel, from its source, PTX and trial runs.

use std::ffi::OsStr;
use std::fmt::Write;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::AtomicBool;

use clap::Args;
use warpproof_gate::limits::Allowance;
use warpproof_gate::reference::python::Workers;
use warpproof_gate::stage::{Bench, Rehearsal};
use warpproof_init::{
    self, Attempt, Draft, Found, Kind as Operator, Parameter, Resources, Seen, Target, Triton, What,
};
use warpproof_task::Task;
use warpproof_toolchain::symbol::Instances;
use warpproof_toolchain::{CompileOptions, Part, Source, Survey, Toolchain, options_in};

use super::build::{assemble_failed, has_line_table};
use super::flags::{JsonFlag, ToolchainFlags, architecture, missing};
use super::launch;
use crate::report::{Kind, Outcome, Report};
use crate::source::{self, is_ptx};
use crate::terminal::Terminal;
use warpproof_toolchain::symbol;

/// Write a task file for a kernel
///
/// Compiles the kernel and runs it on the software GPU with trial sizes to find which arrays it reads and writes, their
/// extents, and the number of blocks. Guesses the operator from the kernel's name and keeps it only if the outputs agree;
/// otherwise writes a Python reference for you to complete. Marks every guess in the file with its reason, and writes a
/// question where it cannot guess. For Triton's PTX, also reads the `.json` and `.ttir` files next to it in Triton's
/// cache. Then run `warpproof gate` with the task.
#[derive(Debug, Args)]
pub(crate) struct Init {
    /// CUDA C++, or PTX if the name ends in .ptx
    #[arg(value_name = "FILE")]
    kernel_file: PathBuf,
    /// Write the task to this file [default: next to the kernel, with extension .toml]
    #[arg(short = 'o', long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Select the kernel [default: the only one]
    #[arg(long, value_name = "NAME")]
    kernel: Option<String>,
    /// Set the operator [default: guessed from the kernel's name]
    ///
    /// One of attention, softmax, layer_norm, gemm, reduction, elementwise, custom. For attention, the kernel reads Q, K
    /// and V as codes of 8 bits with scales; trial runs select their format, scales and layout.
    #[arg(long, value_name = "OPERATOR", value_parser = operator)]
    operator: Option<Operator>,
    /// Define a macro
    #[arg(short = 'D', value_name = "NAME[=VALUE]")]
    defines: Vec<String>,
    /// Search a directory for headers
    #[arg(short = 'I', value_name = "DIR")]
    include_dirs: Vec<PathBuf>,
    /// Compile for this architecture [default: the target of a PTX file, or sm_89]
    #[arg(long, value_name = "SM", value_parser = architecture)]
    arch: Option<String>,
    /// Overwrite existing files
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    json: JsonFlag,
    #[command(flatten)]
    toolchain: ToolchainFlags,
}

fn operator(text: &str) -> Result<Operator, String> {
    Operator::named(text).ok_or_else(|| format!("expected one of {}", Operator::names().join(", ")))
}

impl Init {
    pub(crate) fn run(&self, terminal: &mut Terminal) -> Outcome {
        match self.write() {
            Ok(wrote) => {
                if self.json.wanted {
                    terminal.json(&self.document(&wrote));
                } else {
                    terminal.print(self.summary(&wrote));
                }
                Outcome::Green
            }
            Err(reports) => {
                for report in &reports {
                    terminal.report(report);
                }
                Outcome::Stopped(reports.first().map_or(Kind::Bug, |report| report.kind))
            }
        }
    }

    fn write(&self) -> Result<Wrote, Vec<Report>> {
        let task = self.output.clone().unwrap_or_else(|| self.kernel_file.with_extension("toml"));
        let source = source::read(&self.kernel_file)?;
        let looked = self.look(&source)?;
        let Looked { seen, arch, ptx, instances, symbol, toolchain, alone } = &looked;
        let file = relative(&self.kernel_file, &task).map_err(|cause| {
            let sentence = format!(
                "cannot find the path of {} relative to {}: {cause}",
                self.kernel_file.display(),
                task.display()
            );
            vec![Report::error(Kind::Usage, sentence)]
        })?;
        let stem = self.kernel_file.file_stem().and_then(OsStr::to_str).unwrap_or("kernel");
        let named = self.output.as_deref().and_then(Path::file_stem).and_then(OsStr::to_str);
        // `attn::forward<float>` is the task `forward`.
        let plain = seen.name.split('<').next().unwrap_or(&seen.name);
        let target = Target {
            file: &file,
            stem: alone.then_some(stem),
            name: named.unwrap_or_else(|| plain.rsplit("::").next().unwrap_or(plain)),
            is_ptx: is_ptx(&self.kernel_file),
            operator: self.operator,
            refuted: None,
            architecture: arch,
        };
        let (mut draft, mut rehearsal);
        if self.operator == Some(Operator::Attention) {
            (draft, rehearsal) = attention(seen, &target, (ptx, instances), toolchain)?;
        } else {
            let found = warpproof_init::explore(ptx, symbol, seen);
            (draft, rehearsal) = rehearsed(seen, &found, &target, (ptx, instances), toolchain)?;
            if let Some(why) = rehearsal.differs.clone().filter(|_| self.operator.is_none()) {
                let refuted = Target { refuted: Some(&why), ..target.clone() };
                (draft, rehearsal) = rehearsed(seen, &found, &refuted, (ptx, instances), toolchain)?;
            }
        }
        let python = draft.python.as_ref().map(|(name, text)| (task.with_file_name(name), text));
        self.store(&task, &draft.text)?;
        let mut reference = None;
        if let Some((path, text)) = python {
            // Never overwrite a reference that the user may have completed.
            let kept = path.exists();
            if !kept {
                self.store(&path, text)?;
            }
            reference = Some((path, kept));
        }
        Ok(Wrote { looked, draft, rehearsal, task, reference })
    }

    /// Compiles the kernel, and combines the facts from source, PTX and ptxas.
    fn look(&self, source: &Source) -> Result<Looked, Vec<Report>> {
        let wrong = |line, cause: String| {
            let place = crate::report::Place::new(source.name.as_str(), line);
            vec![Report::error(Kind::Usage, format!("launch line: {cause}")).at(Some(place))]
        };
        let lines = launch::launches(&source.text).map_err(|(line, cause)| wrong(line, cause))?;
        let stated = is_ptx(&self.kernel_file).then(|| {
            let (module, _) = warpproof_ptx::parse(&source.text);
            module.target().iter().find(|name| name.starts_with("sm_")).map(|name| (*name).to_owned())
        });
        let arch = self.arch.clone().or(stated.flatten()).unwrap_or_else(|| "sm_89".to_owned());
        let options = CompileOptions {
            defines: self.defines.clone(),
            include_dirs: self.include_dirs.clone(),
            extra: options_in(&source.text),
            roots: source::project(&self.kernel_file).into_iter().collect(),
            kernels: self.kernel.iter().cloned().collect(),
            ..CompileOptions::new(&arch)
        };
        let ptx = source::to_ptx(&self.kernel_file, source, &options, &self.toolchain)?;
        let kernels: Vec<String> = warpproof_ptx::parse(&ptx.text)
            .0
            .functions()
            .filter(|function| function.entry && function.body.is_some())
            .map(|function| function.name.to_owned())
            .collect();
        let symbol = launch::choose(&kernels, self.kernel.as_deref(), &ptx.instances, source)
            .map_err(|report| vec![*report])?;
        let name = symbol::name(&symbol);
        let (resources, toolchain) = self.resources(&ptx, source, &arch, &symbol)?;
        let (traffic, geometry) = warpproof_init::look(&ptx.text, &symbol).ok_or_else(|| {
            vec![Report::error(Kind::Bug, format!("internal error: the module has no kernel `{name}`"))]
        })?;
        let declared =
            if is_ptx(&self.kernel_file) { None } else { warpproof_init::declared(&source.text, &name) };
        let types = symbol::parameters(&symbol);
        let squeeze = |text: &str| text.split_whitespace().collect::<String>();
        let line = lines.iter().find(|line| {
            line.kernel.as_deref().map_or(kernels.len() == 1, |kernel| squeeze(kernel) == squeeze(&name))
        });
        let triton = self.triton(&symbol);
        let threads = triton.as_ref().and_then(|triton| triton.threads).map(|threads| [threads, 1, 1]);
        let stated = line.and_then(|line| line.block).or(threads);
        let block = warpproof_init::block(stated, geometry.bound, &geometry, &source.text, &name);
        let shared = triton.as_ref().and_then(|triton| triton.shared);
        let seen = Seen {
            parameters: Parameter::all(&traffic, declared.as_deref(), types.as_deref(), triton.as_ref()),
            name,
            block,
            geometry,
            resources,
            dynamic_shared: line.and_then(|line| line.shared).or(shared),
        };
        let instances = ptx.instances;
        Ok(Looked { seen, arch, ptx: ptx.text, instances, symbol, toolchain, alone: kernels.len() == 1 })
    }

    /// Reads the files next to the kernel's PTX in Triton's cache.
    fn triton(&self, symbol: &str) -> Option<Triton> {
        if !is_ptx(&self.kernel_file) {
            return None;
        }
        let neighbor = |ending: &str| {
            let path = self.kernel_file.with_extension(ending);
            let small = fs::metadata(&path).is_ok_and(|file| file.is_file() && file.len() <= MAX_NEIGHBOR);
            small.then(|| fs::read_to_string(path).ok()).flatten()
        };
        Triton::read(neighbor("json").as_deref(), neighbor("ttir").as_deref(), symbol)
    }

    fn resources(
        &self,
        ptx: &source::Ptx,
        source: &Source,
        arch: &str,
        symbol: &str,
    ) -> Result<(Resources, Toolchain), Vec<Report>> {
        let options = self.toolchain.options();
        let mut toolchain = Toolchain::partial(&options);
        if toolchain.ptxas_for(&ptx.text).is_err() {
            // The first compiler found is too old for this module; search all locations.
            toolchain = Toolchain::select(&Survey::complete(&options), &options);
        }
        toolchain.require(&[Part::Ptxas]).map_err(|error| vec![missing(&error)])?;
        let flags: &[&str] = if has_line_table(&ptx.text) { &["-lineinfo"] } else { &[] };
        let assembled = toolchain
            .ptxas(&ptx.text, arch, flags)
            .map_err(|error| assemble_failed(error, &ptx.text, &ptx.name, source))?;
        let found = assembled.resources.iter().find(|found| found.kernel == symbol);
        let resources = found.map_or_else(Resources::default, |found| Resources {
            static_shared: found.static_shared,
            stack: found.stack_frame.max(found.cumulative_stack),
            spill_stores: found.spill_stores,
            spill_loads: found.spill_loads,
        });
        Ok((resources, toolchain))
    }

    fn store(&self, path: &Path, text: &str) -> Result<(), Vec<Report>> {
        let mut options = fs::OpenOptions::new();
        options.write(true).create(true).truncate(true);
        if !self.force {
            options.create_new(true);
        }
        let written =
            options.open(path).and_then(|mut file| io::Write::write_all(&mut file, text.as_bytes()));
        written.map_err(|cause| {
            let report = Report::error(Kind::Missing, format!("cannot write {}: {cause}", path.display()));
            vec![match cause.kind() {
                io::ErrorKind::AlreadyExists => {
                    Report::error(Kind::Usage, format!("{} already exists", path.display()))
                        .help("choose another file with -o, or overwrite it with --force")
                }
                _ => report,
            }]
        })
    }

    /// The result as JSON.
    fn document(&self, wrote: &Wrote) -> serde_json::Value {
        let Wrote { looked, draft, rehearsal, task, reference } = wrote;
        let Looked { seen, arch, .. } = looked;
        let texts = |all: &[String]| serde_json::json!(all);
        let troubles: Vec<_> = rehearsal
            .troubles
            .iter()
            .map(|(size, why)| serde_json::json!({ "size": size, "reason": why }))
            .collect();
        serde_json::json!({
            "schema": "warpproof.init/1",
            "kernel": seen.name,
            "architecture": arch,
            "parameters": seen.parameters.iter().map(shown).collect::<Vec<_>>(),
            "task": task.display().to_string(),
            "reference": reference.as_ref().map(|(path, kept)| {
                serde_json::json!({ "file": path.display().to_string(), "kept": kept })
            }),
            "operator": draft.operator.name(),
            "guesses": draft.guesses.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "questions": draft.questions.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "verified": {
                "complete": texts(&rehearsal.complete),
                "agree": texts(&rehearsal.agree),
                "differs": rehearsal.differs,
                "troubles": troubles,
            },
            "next": self.next(task),
        })
    }

    /// The command that evaluates the task.
    fn next(&self, task: &Path) -> String {
        // A task may read only its own directory, unless the user allows more.
        let outside = relative(&self.kernel_file, task).is_ok_and(|file| file.starts_with("../"));
        let directory = self.kernel_file.parent().filter(|_| outside).map(Path::display);
        let allow = directory.map(|directory| format!(" --allow-path {directory}")).unwrap_or_default();
        format!("warpproof gate {}{allow}", task.display())
    }

    fn summary(&self, wrote: &Wrote) -> String {
        let mut text = String::new();
        let Wrote { looked, draft, rehearsal, task, reference } = wrote;
        let Looked { seen, arch, .. } = looked;
        let mut written = vec![task.display().to_string()];
        written.extend(reference.as_ref().map(|(path, kept)| {
            format!("{}{}", path.display(), if *kept { " (kept: it already exists)" } else { "" })
        }));
        let parameters: Vec<String> = seen.parameters.iter().map(shown).collect();
        let shared =
            if seen.geometry.dynamic_shared { "and dynamic shared memory" } else { "of shared memory" };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "analyzed {}, compiled for {arch}", self.kernel_file.display());
        let _ = writeln!(text, "  kernel  {}({})", seen.name, parameters.join(", "));
        let _ = writeln!(
            text,
            "  uses    {} bytes {shared}, {} of stack",
            seen.resources.static_shared, seen.resources.stack
        );
        let _ = writeln!(text, "wrote {}\n", written.join("\n      "));
        text.push_str("guessed and marked in the file:\n");
        for guess in &draft.guesses {
            let _ = writeln!(text, "  {guess}");
        }
        text.push_str("\nverified by running the task:\n");
        let sizes = rehearsal.complete.len() + rehearsal.troubles.len();
        let _ = writeln!(
            text,
            "  launch, arrays and extents: on {} of {sizes} sizes the kernel completed and wrote every output element",
            rehearsal.complete.len()
        );
        if draft.operator != Operator::Custom {
            let _ = writeln!(
                text,
                "  reference: on {} of {sizes} sizes the outputs agree with {}",
                rehearsal.agree.len(),
                draft.operator.name()
            );
        }
        if let Some(why) = &rehearsal.differs {
            let _ = writeln!(
                text,
                "  main: {why}: the kernel is wrong, or the operator is not {}",
                draft.operator.name()
            );
        }
        for (size, trouble) in &rehearsal.troubles {
            let _ = writeln!(text, "  {size}: {trouble}");
        }
        if !draft.questions.is_empty() {
            text.push_str("\nto do, also written as questions in the file:\n");
            for question in &draft.questions {
                let _ = writeln!(text, "  {question}");
            }
        }
        let _ = writeln!(text, "\nnext: {}", self.next(task));
        text
    }
}

/// Bytes of the largest file next to PTX that is read.
const MAX_NEIGHBOR: u64 = 64 << 20;

/// A task that was written.
struct Wrote {
    looked: Looked,
    draft: Draft,
    rehearsal: Rehearsal,
    task: PathBuf,
    /// The Python file to complete, and whether it existed and was kept.
    reference: Option<(PathBuf, bool)>,
}

/// A kernel that was compiled and examined.
struct Looked {
    seen: Seen,
    arch: String,
    ptx: String,
    instances: Instances,
    symbol: String,
    toolchain: Toolchain,
    /// Whether it is the only kernel in the file.
    alone: bool,
}

/// Writes a draft and runs its task.
fn rehearsed(
    seen: &Seen,
    found: &Result<Found, String>,
    target: &Target<'_>,
    (ptx, instances): (&str, &Instances),
    toolchain: &Toolchain,
) -> Result<(Draft, Rehearsal), Vec<Report>> {
    let draft =
        warpproof_init::draft(seen, found.as_ref().map_err(String::as_str), target).map_err(no_task)?;
    let rehearsal = rehearse(&draft, (ptx, instances), toolchain)?;
    Ok((draft, rehearsal))
}

/// Selects grid, format, scales and layout of an attention kernel by trial runs, and runs the task.
fn attention(
    seen: &Seen,
    target: &Target<'_>,
    (ptx, instances): (&str, &Instances),
    toolchain: &Toolchain,
) -> Result<(Draft, Rehearsal), Vec<Report>> {
    let tried = |attempt: &Attempt| {
        let draft = warpproof_init::attention(seen, target, attempt, true, false).map_err(no_task)?;
        rehearse(&draft, (ptx, instances), toolchain)
    };
    let grids = Attempt::grids(seen, ptx);
    let mut best = None;
    for attempt in &grids {
        if !tried(attempt)?.complete.is_empty() {
            best = Some(attempt.clone());
            break;
        }
    }
    let mut confirmed = false;
    if let Some(found) = &mut best {
        for attempt in found.data() {
            if !tried(&attempt)?.agree.is_empty() {
                *found = attempt;
                confirmed = true;
                break;
            }
        }
    }
    let best = best.or_else(|| grids.first().cloned()).ok_or_else(|| no_task("no grid".to_owned()))?;
    let draft = warpproof_init::attention(seen, target, &best, false, confirmed).map_err(no_task)?;
    let rehearsal = rehearse(&draft, (ptx, instances), toolchain)?;
    Ok((draft, rehearsal))
}

#[expect(clippy::needless_pass_by_value, reason = "the form that map_err takes")]
fn no_task(cause: String) -> Vec<Report> {
    let help = "write the task by hand: the chapter on task files in the book has an example and all keys";
    vec![Report::error(Kind::Usage, format!("cannot write a task: {cause}")).help(help)]
}

/// Runs the task of a draft.
fn rehearse(
    draft: &Draft,
    (ptx, instances): (&str, &Instances),
    toolchain: &Toolchain,
) -> Result<Rehearsal, Vec<Report>> {
    let task = Task::parse(&draft.text).map_err(|problems| {
        let first = problems.first().map_or_else(String::new, |problem| {
            let (line, _) = problem.place(&draft.text);
            format!("{} in `{}`", problem.sentence, draft.text.lines().nth(line - 1).unwrap_or(""))
        });
        let sentence = format!("the generated task is not valid: {first}");
        vec![Report::error(Kind::Unsupported, sentence)]
    })?;
    let bench = Bench {
        task: &task,
        directory: Path::new("."),
        toolchain,
        // Any sizes of a hidden shape work here; the gate draws others.
        secret: 1,
        threads: std::thread::available_parallelism().map_or(1, usize::from),
        clocks: None,
        stop: &AtomicBool::new(false),
        python: &Workers::new(1, false),
        allowance: Allowance::default(),
        chosen: None,
    };
    Ok(Rehearsal::of(&bench, ptx, instances))
}

fn shown(parameter: &Parameter) -> String {
    match &parameter.what {
        What::Array { dtype, access, .. } => {
            let role = match (access.read, access.written) {
                (true, true) => "inout",
                (false, true) => "out",
                _ => "in",
            };
            format!("{}: {role} {dtype}[]", parameter.name)
        }
        What::Scalar(dtype) => format!("{}: {dtype}", parameter.name),
        What::Scratch { .. } => format!("{}: scratch", parameter.name),
        What::Other(ty) => format!("{}: {ty}", parameter.name),
    }
}

/// The path of a file relative to the directory of another, with `/` as the separator.
fn relative(file: &Path, from: &Path) -> io::Result<String> {
    let file = fs::canonicalize(file)?;
    let directory = match from.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => fs::canonicalize(parent)?,
        _ => fs::canonicalize(".")?,
    };
    let (file, directory): (Vec<Component<'_>>, Vec<Component<'_>>) =
        (file.components().collect(), directory.components().collect());
    let shared = file.iter().zip(&directory).take_while(|(a, b)| a == b).count();
    let up = directory.iter().skip(shared).map(|_| "..".to_owned());
    let down = file.iter().skip(shared).map(|part| part.as_os_str().to_string_lossy().into_owned());
    Ok(up.chain(down).collect::<Vec<_>>().join("/"))
}
