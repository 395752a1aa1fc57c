//! Programs of the CUDA runtime run unchanged. Those in C need only a C compiler; those in CUDA C++ need nvcc, whose path is in
//! `WARPPROOF_NVCC`.
#![expect(clippy::print_stderr, reason = "a test that is skipped prints why")]

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;
use warpproof_cuda::shim::{ALL, Machine, write};

/// A directory with our libraries.
fn libraries() -> TempDir {
    let folder = tempfile::tempdir().expect("a directory");
    let test = std::env::current_exe().expect("a path");
    let mut places = test.ancestors().skip(1).map(|folder| folder.join("libwarpproof_cuda.so"));
    let library = places.find(|place| place.is_file()).expect("libwarpproof_cuda.so");
    symlink(library, folder.path().join("libcuda.so.1")).expect("a link");
    let machine = Machine::own().expect("a supported processor");
    for shim in ALL {
        std::fs::write(folder.path().join(shim.name), write(&shim, machine)).expect("written");
    }
    folder
}

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(name)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs a program on the libraries.
fn run(program: &Path, libraries: &TempDir) -> Output {
    let mut command = Command::new(program);
    command.env("LD_LIBRARY_PATH", libraries.path()).env_remove("WARPPROOF_REPORT");
    command.output().expect("the program starts")
}

/// Compiles a C program against the runtime of a major version.
fn compile(name: &str, major: u32, libraries: &TempDir) -> PathBuf {
    let program = libraries.path().join(format!("{name}-{major}"));
    let mut compiler = Command::new("cc");
    compiler.args(["-std=c11", "-Wall", "-Werror", &format!("-DMAJOR={major}")]).arg(source(name));
    compiler.arg(libraries.path().join(format!("libcudart.so.{major}")));
    // The functions of libcudart are in libcuda.so.1, which is found when the program starts.
    compiler.args(["-Wl,--allow-shlib-undefined", "-o"]).arg(&program);
    let output = compiler.output().expect("a C compiler");
    assert!(output.status.success(), "{}", text(&output.stderr));
    program
}

#[test]
fn a_program_that_registers_its_own_kernel_runs_on_both_versions() {
    let libraries = libraries();
    for major in [12, 13] {
        let output = run(&compile("registered.c", major, &libraries), &libraries);
        assert_eq!(text(&output.stdout), "ok\n", "{major}");
        assert!(output.status.success());
        // It frees memory twice, and does not read the error of a launch that fails.
        let found = text(&output.stderr);
        let classes = found.lines().filter_map(|line| line.strip_prefix("warpproof: ")?.split_once(": "));
        let classes: Vec<&str> = classes.map(|(class, _)| class).collect();
        assert_eq!(classes, ["double-free", "unread-error"], "{found}");
    }
}

#[test]
fn a_function_that_is_not_supported_names_itself_once() {
    let libraries = libraries();
    let output = run(&compile("unsupported.c", 13, &libraries), &libraries);
    assert_eq!(text(&output.stdout), "801 801\n");
    assert_eq!(text(&output.stderr).matches("cudaIpcGetMemHandle").count(), 1, "{}", text(&output.stderr));
}

/// Compiles a CUDA program; `None` without nvcc.
fn nvcc(name: &str, flags: &[&str], libraries: &TempDir) -> Option<PathBuf> {
    let Some(nvcc) = std::env::var_os("WARPPROOF_NVCC") else {
        eprintln!("skipped: WARPPROOF_NVCC names no compiler");
        return None;
    };
    let program = libraries.path().join(name).with_extension("");
    let mut compiler = Command::new(nvcc);
    compiler.args(["-arch=sm_89", "-cudart", "shared", "-lineinfo", "-g"]).args(flags);
    let output = compiler.arg(source(name)).arg("-o").arg(&program).output().expect("nvcc starts");
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    Some(program)
}

/// Compiles and runs a program that prints `ok` and has no finding.
fn succeeds(name: &str, flags: &[&str]) {
    let libraries = libraries();
    let Some(program) = nvcc(name, flags, &libraries) else { return };
    let output = run(&program, &libraries);
    assert_eq!((text(&output.stdout), text(&output.stderr)), ("ok\n".to_owned(), String::new()), "{name}");
    assert!(output.status.success(), "{name}");
}

#[test]
fn launches_and_their_errors() {
    succeeds("vector_add.cu", &[]);
}

#[test]
fn memory_of_all_kinds() {
    succeeds("memory.cu", &[]);
}

#[test]
fn managed_variables() {
    succeeds("managed.cu", &[]);
}

#[test]
fn destructors_of_global_variables() {
    succeeds("at_exit.cu", &[]);
}

#[test]
fn streams_events_and_occupancy() {
    succeeds("streams.cu", &[]);
}

#[test]
fn the_default_stream_of_each_thread() {
    succeeds("streams.cu", &["-default-stream", "per-thread"]);
    succeeds("memory.cu", &["-default-stream", "per-thread"]);
}

#[test]
fn two_devices() {
    let libraries = libraries();
    let Some(program) = nvcc("devices.cu", &[], &libraries) else { return };
    let mut command = Command::new(&program);
    command.env("LD_LIBRARY_PATH", libraries.path()).env("WARPPROOF_DEVICE", "l4,l4");
    let output = command.output().expect("the program starts");
    assert_eq!((text(&output.stdout), text(&output.stderr)), ("ok\n".to_owned(), String::new()));
}

#[test]
fn cub_and_thrust() {
    succeeds("thrust.cu", &[]);
}

#[test]
fn a_fault_is_sticky_and_a_race_is_found() {
    let libraries = libraries();
    let Some(program) = nvcc("faults.cu", &[], &libraries) else { return };
    let output = run(&program, &libraries);
    assert_eq!(text(&output.stdout), "ok\n", "{}", text(&output.stderr));
    let found = text(&output.stderr);
    assert!(found.contains("shared-race") && found.contains("faults.cu:7"), "{found}");
    assert!(found.contains("bounds") && found.contains("faults.cu:9"), "{found}");
}
