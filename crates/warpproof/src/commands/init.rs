//! `warpproof init`: a first task file for a kernel, from what can be seen of it.

use std::ffi::OsStr;
use std::fmt::Write;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use clap::Args;
use warpproof_gate::init::{self, Draft, Kind as Operator, Parameter, Resources, Seen, Target, What};
use warpproof_gate::task::Task;
use warpproof_toolchain::{CompileOptions, Part, Source, Survey, Toolchain};

use super::build::{assemble_failed, has_line_table};
use super::flags::{ToolchainFlags, architecture, missing};
use super::launch;
use crate::report::{Kind, Outcome, Report};
use crate::source::{self, is_ptx};
use crate::symbol;
use crate::terminal::Terminal;

/// Write a task file for a kernel
///
/// The kernel is compiled and looked at: its parameters, what it reads and writes, how it divides its work, and
/// what it takes. The rest is guessed from its name. Every guess is marked in the file with its reason, and what cannot
/// be guessed is a question. Then `warpproof gate` judges the kernel.
#[derive(Debug, Args)]
pub(crate) struct Init {
    /// CUDA C++, or PTX if the name ends in .ptx
    #[arg(value_name = "FILE")]
    kernel_file: PathBuf,
    /// The task file to write [default: beside the kernel, with the ending .toml]
    #[arg(short = 'o', long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The kernel [default: the only one]
    #[arg(long, value_name = "NAME")]
    kernel: Option<String>,
    /// What it computes: softmax, layer_norm, gemm, reduction, elementwise or custom [default: guessed from its name]
    #[arg(long, value_name = "OPERATOR", value_parser = operator)]
    operator: Option<Operator>,
    /// Define a macro
    #[arg(short = 'D', value_name = "NAME[=VALUE]")]
    defines: Vec<String>,
    /// Search a directory for headers
    #[arg(short = 'I', value_name = "DIR")]
    include_dirs: Vec<PathBuf>,
    /// The architecture to compile for [default: a PTX file's own target; else sm_89]
    #[arg(long, value_name = "SM", value_parser = architecture)]
    arch: Option<String>,
    /// Write over files that are there
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    toolchain: ToolchainFlags,
}

fn operator(text: &str) -> Result<Operator, String> {
    Operator::named(text).ok_or_else(|| format!("there are {}", Operator::names().join(", ")))
}

impl Init {
    pub(crate) fn run(&self, terminal: &mut Terminal) -> Outcome {
        match self.write() {
            Ok(text) => {
                terminal.print(text);
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

    fn write(&self) -> Result<String, Vec<Report>> {
        let task = self.output.clone().unwrap_or_else(|| self.kernel_file.with_extension("toml"));
        let source = source::read(&self.kernel_file)?;
        let (seen, arch) = self.look(&source)?;
        let file = relative(&self.kernel_file, &task).map_err(|cause| {
            let sentence = format!(
                "cannot tell where {} is from {}: {cause}",
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
            stem,
            name: named.unwrap_or_else(|| plain.rsplit("::").next().unwrap_or(plain)),
            is_ptx: is_ptx(&self.kernel_file),
            operator: self.operator,
            architecture: &arch,
        };
        let draft = init::draft(&seen, &target).map_err(|cause| {
            let help =
                "write the task by hand: the book's chapter on task files has an example and every key";
            vec![Report::error(Kind::Usage, format!("no task can be written: {cause}")).help(help)]
        })?;
        if let Err(problems) = Task::parse(&draft.text) {
            let first = problems.first().map_or_else(String::new, |problem| {
                let (line, _) = problem.place(&draft.text);
                format!("{} in `{}`", problem.sentence, draft.text.lines().nth(line - 1).unwrap_or(""))
            });
            return Err(vec![Report::error(
                Kind::Unsupported,
                format!("the task that would be written is not valid: {first}"),
            )]);
        }
        let python = draft.python.as_ref().map(|(name, text)| (task.with_file_name(name), text));
        self.store(&task, &draft.text)?;
        let mut written = vec![task.display().to_string()];
        if let Some((path, text)) = python {
            // A reference that was completed is worth more than the task around it.
            if path.exists() {
                written.push(format!("{} was there before, and is kept", path.display()));
            } else {
                self.store(&path, text)?;
                written.push(path.display().to_string());
            }
        }
        Ok(self.summary(&seen, &arch, &draft, &task, &written))
    }

    /// Compiles the kernel, and puts together what source, PTX and ptxas say.
    fn look(&self, source: &Source) -> Result<(Seen, String), Vec<Report>> {
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
            extra: launch::options(&source.text),
            ..CompileOptions::new(&arch)
        };
        let ptx = source::to_ptx(&self.kernel_file, source, &options, &self.toolchain)?;
        let (module, _) = warpproof_ptx::parse(&ptx.text);
        let kernels: Vec<String> = module
            .functions()
            .filter(|function| function.entry && function.body.is_some())
            .map(|function| function.name.to_owned())
            .collect();
        let symbol = launch::choose(&kernels, self.kernel.as_deref()).map_err(|report| vec![*report])?;
        let name = symbol::name(&symbol);
        let resources = self.resources(&ptx, source, &arch, &symbol)?;
        let (traffic, geometry) = init::look(&ptx.text, &symbol)
            .ok_or_else(|| vec![Report::error(Kind::Bug, format!("the module lost its kernel `{name}`"))])?;
        let declared = if is_ptx(&self.kernel_file) { None } else { init::declared(&source.text, &name) };
        let types = symbol::parameters(&symbol);
        let squeeze = |text: &str| text.split_whitespace().collect::<String>();
        let line = lines.iter().find(|line| {
            line.kernel.as_deref().map_or(kernels.len() == 1, |kernel| squeeze(kernel) == squeeze(&name))
        });
        let block =
            init::block(line.and_then(|line| line.block), geometry.bound, &geometry, &source.text, &name);
        let seen = Seen {
            parameters: Parameter::all(&traffic, declared.as_deref(), types.as_deref()),
            name,
            block,
            geometry,
            resources,
            dynamic_shared: line.and_then(|line| line.shared),
        };
        Ok((seen, arch))
    }

    fn resources(
        &self,
        ptx: &source::Ptx,
        source: &Source,
        arch: &str,
        symbol: &str,
    ) -> Result<Resources, Vec<Report>> {
        let options = self.toolchain.options();
        let mut toolchain = Toolchain::partial(&options);
        if toolchain.ptxas_for(&ptx.text).is_err() {
            // What was found first is too old for this module; look everywhere.
            toolchain = Toolchain::select(&Survey::complete(&options), &options);
        }
        toolchain.require(&[Part::Ptxas]).map_err(|error| vec![missing(&error)])?;
        let flags: &[&str] = if has_line_table(&ptx.text) { &["-lineinfo"] } else { &[] };
        let assembled = toolchain
            .ptxas(&ptx.text, arch, flags)
            .map_err(|error| assemble_failed(error, &ptx.text, &ptx.name, source))?;
        let found = assembled.resources.iter().find(|found| found.kernel == symbol);
        Ok(found.map_or_else(Resources::default, |found| Resources {
            static_shared: found.static_shared,
            stack: found.stack_frame.max(found.cumulative_stack),
            spill_stores: found.spill_stores,
            spill_loads: found.spill_loads,
        }))
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
                    Report::error(Kind::Usage, format!("{} is there already", path.display()))
                        .help("write elsewhere with -o, or over it with --force")
                }
                _ => report,
            }]
        })
    }

    fn summary(&self, seen: &Seen, arch: &str, draft: &Draft, task: &Path, written: &[String]) -> String {
        let mut text = String::new();
        let parameters: Vec<String> = seen.parameters.iter().map(shown).collect();
        let block: Vec<String> = seen.block.extents.iter().map(ToString::to_string).collect();
        let shared =
            if seen.geometry.dynamic_shared { "and dynamic shared memory" } else { "of shared memory" };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "looked at {}, compiled for {arch}", self.kernel_file.display());
        let _ = writeln!(text, "  kernel  {}({})", seen.name, parameters.join(", "));
        let _ = writeln!(
            text,
            "  block   {} threads{}, {} bytes {shared}, {} of stack",
            block.join(" x "),
            if seen.block.evidence { "" } else { " (guessed without evidence: check it)" },
            seen.resources.static_shared,
            seen.resources.stack
        );
        let _ = writeln!(text, "wrote {}\n", written.join("\n      "));
        text.push_str("guessed, and marked in the file:\n");
        for guess in &draft.guesses {
            let _ = writeln!(text, "  {guess}");
        }
        if !draft.questions.is_empty() {
            text.push_str("\nnot known, and asked in the file:\n");
            for question in &draft.questions {
                let _ = writeln!(text, "  {question}");
            }
        }
        let _ = writeln!(text, "\nnext: warpproof gate {}", task.display());
        text
    }
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
        What::Other(ty) => format!("{}: {ty}", parameter.name),
    }
}

/// Where a file is, seen from the directory of another, with `/` between folders.
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
