//! `warpproof nvcc`: compiles a CUDA program so that it runs on the software GPU.

use std::env;
use std::ffi::OsString;
use std::process::Command;

use clap::{Args, ValueEnum};
use warpproof_toolchain::{Environment, Nvcc as Compiler, Runtime};

use super::exec::driver_folder;
use super::flags::missing;
use crate::report::{Kind, Outcome, Report};
use crate::terminal::Terminal;

/// Compile a CUDA program with nvcc, so that `warpproof exec` can run it
///
/// Runs NVIDIA's nvcc with your arguments, and adds what you do not decide yourself: the shared
/// CUDA runtime (-cudart shared), line information (-lineinfo), an architecture (-arch=sm_89),
/// and PTX for every architecture that has machine code only.
///
///   warpproof nvcc -O2 -g app.cu -o app
///   warpproof exec -- ./app
///   make NVCC="warpproof nvcc"
///   cmake -B build -DCMAKE_CUDA_COMPILER=$(warpproof nvcc --print-path)
///
/// Put warpproof's own flags first. `warpproof toolchain install --nvcc` installs nvcc.
///
/// Exit codes: nvcc's · 2 nvcc is not installed.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Nvcc {
    /// Print the path of a program `nvcc` that runs this command, and exit
    ///
    /// For build systems that need one path. The directory above its `bin` has the headers and
    /// libraries, as a CUDA toolkit has.
    #[arg(long)]
    print_path: bool,
    /// Compile for this version of the CUDA runtime
    #[arg(long, value_name = "MAJOR", default_value = "13")]
    runtime: Release,
    /// The arguments of nvcc
    #[arg(
        required_unless_present = "print_path",
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "ARGUMENTS"
    )]
    arguments: Vec<OsString>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Release {
    /// CUDA 12.9: its headers, and libcudart.so.12
    #[value(name = "12")]
    Twelve,
    /// The release of nvcc
    #[value(name = "13")]
    Thirteen,
}

impl Nvcc {
    pub(crate) fn run(&self, terminal: &mut Terminal) -> Outcome {
        match self.execute(terminal) {
            Ok(outcome) => outcome,
            Err(report) => {
                terminal.report(&report);
                Outcome::Stopped(report.kind)
            }
        }
    }

    fn execute(&self, terminal: &mut Terminal) -> Result<Outcome, Box<Report>> {
        let environment = Environment::read();
        let nvcc = Compiler::find(&environment).map_err(|error| Box::new(missing(&error)))?;
        let runtime = match self.runtime {
            Release::Twelve => Runtime::Twelve,
            Release::Thirteen => Runtime::Own,
        };
        if self.print_path {
            let path = wrapper(&nvcc, &environment, runtime)?;
            terminal.print(format_args!("{path}\n"));
            return Ok(Outcome::Green);
        }
        let variables: Vec<String> = ["NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS"]
            .into_iter()
            .filter_map(|name| env::var(name).ok())
            .collect();
        let plan = nvcc.plan(&self.arguments, &variables, runtime);
        let mut plan = plan.map_err(|error| Box::new(missing(&error)))?;
        if plan.links_driver {
            // The wheels have no libcuda.so to link with.
            plan.search("-L", &driver_folder()?);
        }
        for note in &plan.notes {
            terminal.say(format_args!("note: {note}"));
        }
        start(Command::new(&nvcc.program).args(&plan.arguments))
    }
}

fn wrapper(nvcc: &Compiler, environment: &Environment, runtime: Runtime) -> Result<String, Box<Report>> {
    let failed = |cause: String| {
        Box::new(Report::error(Kind::Missing, format!("cannot write the program `nvcc`: {cause}")))
    };
    let cache = environment.cache.as_ref().ok_or_else(|| failed("no cache directory found".to_owned()))?;
    let command = env::current_exe().map_err(|cause| failed(cause.to_string()))?;
    if let Ok(folder) = driver_folder() {
        nvcc.offer_driver(&folder.join("libcuda.so")).map_err(|cause| failed(cause.to_string()))?;
    }
    let path = nvcc.wrapper(cache, &command, runtime).map_err(|cause| failed(cause.to_string()))?;
    Ok(path.display().to_string())
}

/// Replaces this process: signals and the exit code are then nvcc's own.
#[cfg(unix)]
fn start(command: &mut Command) -> Result<Outcome, Box<Report>> {
    use std::os::unix::process::CommandExt as _;
    let cause = command.exec();
    let program = command.get_program().display();
    Err(Box::new(Report::error(Kind::Missing, format!("cannot run {program}: {cause}"))))
}

#[cfg(not(unix))]
fn start(command: &mut Command) -> Result<Outcome, Box<Report>> {
    let status = command.status();
    let failed = |cause| {
        let program = command.get_program().display();
        Box::new(Report::error(Kind::Missing, format!("cannot run {program}: {cause}")))
    };
    let code = status.map_err(failed)?.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
    Ok(if code == 0 { Outcome::Green } else { Outcome::Program(code) })
}
