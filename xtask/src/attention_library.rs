//! `cargo xtask attention-library`: calls the attention library from C, Rust and PyTorch, on the software GPU.
//!
//! The three programs print a hash of their output, which must be the same. Then the library is compared with the oracles, and the
//! tests of the Python package run.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use warpproof_toolchain::{Options, Toolchain};

use crate::part::Part;
use crate::program;
use crate::python;
use crate::root;
use crate::target;
use crate::wheel::{Environment, done};

/// Runs the programs and the tests.
pub(crate) fn run(part: &Part) -> Result<String, String> {
    program::workspace()?;
    let place = target().join("attention-library");
    let wheel = python::debug_wheel(&place)?;
    let environment = Environment::new(&place.join("user"))?;
    let requirements = root().join("python/sample/attention-requirements.txt");
    environment.pip(&[&wheel.display().to_string(), "-r", &requirements.display().to_string()])?;

    let parts: [Item; 4] = [same_bits, oracles, bench, tests];
    let results = part.try_each(&parts, |item| item(&place, &environment))?;
    Ok(results.note("parts"))
}

/// What a sample can take alone.
type Item = fn(&Path, &Environment) -> Result<(), String>;

/// The programs in C, Rust and Python print the same hash.
fn same_bits(place: &Path, environment: &Environment) -> Result<(), String> {
    let debug = target().join("debug");
    let c = compile(place, &debug)?;
    let line = |name: &str, command: &mut Command| {
        let line = printed(command)?;
        println!("{name}: {line}");
        Ok::<_, String>(line)
    };
    let lines = [
        line("C", &mut exec(&debug, &c))?,
        line("Rust", &mut exec(&debug, &debug.join("examples/first_call")))?,
        line("PyTorch", environment.python().arg(root().join("python/sample/attention.py")))?,
    ];
    if lines.iter().any(|line| line != &lines[0]) {
        return Err(format!("expected the same line of all three, found {lines:?}"));
    }
    Ok(())
}

/// The library against the oracles.
fn oracles(_: &Path, _: &Environment) -> Result<(), String> {
    let debug = target().join("debug");
    done(&mut exec(&debug, &debug.join("examples/verify")))
}

/// `bench attention` finds PyTorch.
fn bench(place: &Path, environment: &Environment) -> Result<(), String> {
    let python = environment.programs().join("python");
    let ledger = place.join("ledger");
    let mut bench = Command::new(target().join("debug").join("warpproof"));
    bench
        .args(["bench", "attention", "--shape", "1,4,2,64,64,64", "--python"])
        .arg(python)
        .arg("--ledger")
        .arg(ledger);
    done(&mut bench)
}

/// The tests of the Python package.
fn tests(_: &Path, environment: &Environment) -> Result<(), String> {
    let tests = root().join("python/tests/test_attention.py");
    done(environment.python().args(["-m", "pytest", "-q", "-p", "no:cacheprovider"]).arg(tests))
}

/// A program on the software GPU; a finding of the checks is a failure.
fn exec(debug: &Path, program: &Path) -> Command {
    let mut command = Command::new(debug.join("warpproof"));
    command.args(["exec", "--"]).arg(program).env("LD_LIBRARY_PATH", debug);
    command
}

/// Compiles the C example against CUDA's header, and links it with both libraries.
fn compile(place: &Path, debug: &Path) -> Result<PathBuf, String> {
    let crate_folder = root().join("crates/attention");
    let toolchain = Toolchain::find(&Options::from_env().with_cuda(12)).map_err(|error| error.to_string())?;
    let headers = toolchain.part(warpproof_toolchain::Part::Headers).ok_or("found no CUDA headers")?;
    let (libraries, program) = (place.join("libraries"), place.join("first_call"));
    fs::create_dir_all(&libraries).map_err(|error| format!("{}: {error}", libraries.display()))?;
    for (file, name) in
        [("libwarpproof_cuda.so", "libcuda.so.1"), ("libwarpproof_attention.so", "libwarpproof_attention.so")]
    {
        fs::copy(debug.join(file), libraries.join(name)).map_err(|error| format!("{file}: {error}"))?;
    }
    let mut command = Command::new("cc");
    command.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-I"]).arg(crate_folder.join("include"));
    for folder in &headers.include_dirs {
        command.arg("-I").arg(folder);
    }
    command.arg(crate_folder.join("examples/first_call.c")).arg("-o").arg(&program);
    done(command.arg("-L").arg(&libraries).args(["-lwarpproof_attention", "-l:libcuda.so.1"]))?;
    Ok(program)
}

/// The first line that a program prints.
fn printed(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("cannot start {command:?}: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        return Err(format!(
            "{command:?} gave {}:\n{text}{}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        ));
    }
    text.lines().next().map(str::to_owned).ok_or_else(|| format!("{command:?} printed nothing"))
}
