//! Programs of cudarc, each of which asserts its results.
//!
//! `programs` runs all of them, each in a separate process, and prints how many failed; `programs NAME…` runs only these, in this process
//! if it is one. The loader selects the driver.
#![deny(unsafe_code)]

mod context;
mod device;
mod fault;
mod function;
mod graph;
mod launch;
mod load;
mod memory;
mod module;
mod stream;

use std::error::Error;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::Instant;

use cudarc::driver::{CudaContext, CudaFunction, CudaModule, DriverError, sys};
use cudarc::nvrtc::Ptx;

/// The result of a program; a failed assertion also ends it.
type Done = Result<(), Box<dyn Error>>;

struct Program {
    name: &'static str,
    body: fn() -> Done,
    /// Environment variables that it needs.
    environment: &'static [(&'static str, &'static str)],
}

const fn program(name: &'static str, body: fn() -> Done) -> Program {
    Program { name, body, environment: &[] }
}

const PROGRAMS: &[Program] = &[
    program("devices", device::devices),
    Program { name: "two_devices", body: device::two, environment: &[("WARPPROOF_DEVICE", "l4,l4")] },
    program("error_names", device::error_names),
    program("functions_by_name", device::functions_by_name),
    program("primary_contexts", context::primary),
    program("own_contexts", context::own),
    program("modules_from_ptx", module::from_ptx),
    program("modules_from_images", module::from_images),
    program("variables", module::variables),
    program("linker", module::linker),
    program("function_attributes", function::attributes),
    program("occupancy", function::occupancy),
    program("buffers", memory::buffers),
    program("fills", memory::fills),
    program("rectangles", memory::rectangles),
    program("pools", memory::pools),
    program("pinned_memory", memory::pinned),
    program("managed_memory", memory::managed),
    program("pointers", memory::pointers),
    program("streams", stream::streams),
    program("per_thread_streams", stream::per_thread),
    program("events", stream::events),
    program("host_functions", stream::host_functions),
    program("launches", launch::plain),
    program("launches_ex", launch::extended),
    program("cooperative_launches", launch::cooperative),
    program("captured_graphs", graph::captured),
    program("graphs_by_hand", graph::by_hand),
    program("out_of_memory", fault::out_of_memory),
    program("illegal_address", fault::illegal_address),
    program("misaligned_address", fault::misaligned_address),
    program("launch_failure", fault::launch_failure),
    // A limit that an infinite loop reaches soon.
    Program {
        name: "launch_timeout",
        body: fault::launch_timeout,
        environment: &[("WARPPROOF_INSTRUCTIONS", "100000")],
    },
    program("errors_ignored", fault::errors_ignored),
    program("threads", load::threads),
    program("processes", load::processes),
];

fn main() -> ExitCode {
    let names: Vec<String> = std::env::args().skip(1).collect();
    let chosen: Vec<&Program> = PROGRAMS
        .iter()
        .filter(|program| names.is_empty() || names.iter().any(|name| name == program.name))
        .collect();
    if chosen.is_empty() || chosen.len() < names.len() {
        eprintln!(
            "unknown program; the programs are {:?}",
            PROGRAMS.iter().map(|program| program.name).collect::<Vec<_>>()
        );
        return ExitCode::from(2);
    }
    if let ([one], 1) = (&chosen[..], names.len()) {
        return match (one.body)() {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("{}: {error}", one.name);
                ExitCode::FAILURE
            }
        };
    }
    let start = Instant::now();
    let failed = chosen.iter().filter(|program| !passes(program)).count();
    println!("{} programs, {failed} failed, {} s", chosen.len(), start.elapsed().as_secs());
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs a program in a separate process, because a fault affects the whole process, as on a GPU.
fn passes(program: &Program) -> bool {
    let mut command = match std::env::current_exe() {
        Ok(this) => Command::new(this),
        Err(error) => {
            println!("FAILED {}: {error}", program.name);
            return false;
        }
    };
    command.arg(program.name);
    // Variables that the user has set take precedence.
    for (name, value) in program.environment.iter().filter(|(name, _)| std::env::var_os(name).is_none()) {
        command.env(name, value);
    }
    match command.status() {
        Ok(status) if status.success() => true,
        Ok(status) => {
            println!("FAILED {}: {status}", program.name);
            false
        }
        Err(error) => {
            println!("FAILED {}: {error}", program.name);
            false
        }
    }
}

/// The text of the kernels.
const KERNELS: &str = include_str!("../kernels/kernels.ptx");

/// The context of the first device, and its kernels.
fn opened() -> Result<(Arc<CudaContext>, Arc<CudaModule>), DriverError> {
    let context = CudaContext::new(0)?;
    let module = context.load_module(Ptx::from_src(KERNELS))?;
    Ok((context, module))
}

/// A kernel of the first device.
fn kernel(name: &str) -> Result<(Arc<CudaContext>, CudaFunction), DriverError> {
    let (context, module) = opened()?;
    let function = module.load_function(name)?;
    Ok((context, function))
}

/// Asserts that a call returns this error.
#[track_caller]
fn refused<T>(answer: Result<T, DriverError>, error: sys::CUresult) {
    match answer {
        Ok(_) => panic!("expected {error:?}, found success"),
        Err(DriverError(found)) => assert_eq!(found, error),
    }
}
