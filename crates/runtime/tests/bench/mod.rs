//! Compiles programs of the CUDA runtime and runs them on our libraries.
//!
//! Programs in C need only a C compiler; those in CUDA C++ need the nvcc of `warpproof toolchain install --nvcc`; names of
//! their tests begin with `toolchain_`.
#![allow(dead_code, reason = "each test uses a part")]

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;
use warpproof_cuda::shim::{ALL, Machine, write};
use warpproof_toolchain::{Environment, Nvcc, WITHOUT_TOOLCHAIN};

/// A directory with our libraries.
pub(crate) fn libraries() -> TempDir {
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

/// A program's source.
pub(crate) fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(name)
}

/// What a program wrote.
pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs a program on the libraries.
pub(crate) fn run(program: &Path, libraries: &TempDir) -> Output {
    let mut command = Command::new(program);
    command.env("LD_LIBRARY_PATH", libraries.path()).env_remove("WARPPROOF_REPORT");
    command.output().expect("the program starts")
}

/// Compiles a C program against the runtime of a major version.
pub(crate) fn compile(name: &str, major: u32, libraries: &TempDir) -> PathBuf {
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

/// The installed nvcc.
fn installed() -> Nvcc {
    let found = Nvcc::find(&Environment::read());
    assert!(found.is_ok(), "{}\n{WITHOUT_TOOLCHAIN}", found.expect_err("an error"));
    found.expect("nvcc")
}

/// A file of the tests.
pub(crate) fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

/// The directories of the headers of versions 13 and 12.
fn headers() -> [PathBuf; 2] {
    // …/cu13/bin/nvcc
    let program = installed().program;
    let root = program.ancestors().nth(2).expect("a directory of CUDA 13");
    [root.join("include"), root.with_file_name("cuda_runtime").join("include")]
}

/// What a C program prints if it is compiled with the headers of each version.
pub(crate) fn printed_with_headers(name: &str) -> Vec<String> {
    let folders = headers();
    let print = |folder: &PathBuf| {
        let place = tempfile::tempdir().expect("a directory");
        let program = place.path().join("program");
        let mut compiler = Command::new("cc");
        compiler.arg(data(name)).arg("-o").arg(&program);
        // The directory with the compiler's own headers is one of the others.
        for folder in std::iter::once(folder).chain(&folders) {
            compiler.arg("-I").arg(folder);
        }
        assert!(compiler.status().expect("a C compiler").success(), "{}", folder.display());
        text(&Command::new(&program).output().expect("the program runs").stdout)
    };
    folders.iter().map(print).collect()
}

/// Runs a program on the libraries with these devices, such as `l4,l4`.
pub(crate) fn run_on(devices: &str, program: &Path, libraries: &TempDir) -> Output {
    let mut command = Command::new(program);
    command.env("LD_LIBRARY_PATH", libraries.path()).env_remove("WARPPROOF_REPORT");
    command.env("WARPPROOF_DEVICE", devices).output().expect("the program starts")
}

/// Compiles a CUDA program.
pub(crate) fn nvcc(name: &str, flags: &[&str], libraries: &TempDir) -> PathBuf {
    let program = libraries.path().join(name).with_extension("");
    nvcc_file(&source(name), &program, flags)
}

/// Compiles a file in CUDA C++ to a program.
pub(crate) fn nvcc_file(file: &Path, program: &Path, flags: &[&str]) -> PathBuf {
    let mut compiler = Command::new(installed().program);
    compiler.args(["-arch=sm_89", "-cudart", "shared", "-lineinfo", "-g"]).args(flags);
    let output = compiler.arg(file).arg("-o").arg(program).output().expect("nvcc starts");
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    program.to_owned()
}

/// The flags that compile a CUDA program for the runtime of CUDA 12.
pub(crate) fn flags_of_12() -> Vec<String> {
    let [_, include] = headers();
    let library = include.with_file_name("lib");
    let path = |path: &Path| path.display().to_string();
    vec!["-I".to_owned(), path(&include), "-L".to_owned(), path(&library)]
}

/// Compiles a CUDA program for the runtime of each major version, and runs it as `succeeds` does.
pub(crate) fn succeeds_on_both_versions(name: &str) {
    succeeds(name, &[]);
    let flags = flags_of_12();
    succeeds(name, &flags.iter().map(String::as_str).collect::<Vec<_>>());
}

/// Compiles and runs a CUDA program that prints `ok` and has no finding.
pub(crate) fn succeeds(name: &str, flags: &[&str]) {
    let libraries = libraries();
    let program = nvcc(name, flags, &libraries);
    let output = run(&program, &libraries);
    assert_eq!((text(&output.stdout), text(&output.stderr)), ("ok\n".to_owned(), String::new()), "{name}");
    assert!(output.status.success(), "{name}");
}
