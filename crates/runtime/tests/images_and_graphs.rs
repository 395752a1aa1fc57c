//! Programs with arrays, textures, surfaces and graphs run unchanged. Those in C need only a C compiler; those in CUDA C++ need
//! nvcc, whose path is in `WARPPROOF_NVCC`.
#![expect(clippy::print_stderr, reason = "a skipped test prints the reason")]

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

/// Compiles a C program against the runtime of each major version, runs it, and returns what it wrote to stderr.
fn succeeds_on_both_versions(name: &str) -> Vec<String> {
    let libraries = libraries();
    let run_on = |major: u32| {
        let program = libraries.path().join(format!("{name}-{major}"));
        let mut compiler = Command::new("cc");
        compiler.args(["-std=c11", "-Wall", "-Werror", &format!("-DMAJOR={major}")]).arg(source(name));
        compiler.arg(libraries.path().join(format!("libcudart.so.{major}")));
        // The functions of libcudart are in libcuda.so.1, which is found when the program starts.
        compiler.args(["-Wl,--allow-shlib-undefined", "-o"]).arg(&program);
        let output = compiler.output().expect("a C compiler");
        assert!(output.status.success(), "{}", text(&output.stderr));
        let output = run(&program, &libraries);
        assert_eq!(text(&output.stdout), "ok\n", "{name} of {major}: {}", text(&output.stderr));
        assert!(output.status.success());
        text(&output.stderr)
    };
    [12, 13].map(run_on).into()
}

#[test]
fn arrays_textures_and_surfaces_on_both_versions() {
    assert_eq!(succeeds_on_both_versions("images.c"), ["", ""]);
}

#[test]
fn graphs_on_both_versions() {
    for reported in succeeds_on_both_versions("graphs.c") {
        // The program adds a conditional node.
        assert!(reported.contains("a graph node of type 13"), "{reported}");
        assert_eq!(reported.lines().count(), 1, "{reported}");
    }
}

/// Compiles and runs a CUDA program that prints `ok` and has no finding.
fn succeeds(name: &str, flags: &[&str]) {
    let Some(nvcc) = std::env::var_os("WARPPROOF_NVCC") else {
        eprintln!("skipped: WARPPROOF_NVCC names no compiler");
        return;
    };
    let libraries = libraries();
    let program = libraries.path().join(name).with_extension("");
    let mut compiler = Command::new(nvcc);
    compiler.args(["-arch=sm_89", "-cudart", "shared", "-lineinfo", "-g"]).args(flags);
    let output = compiler.arg(source(name)).arg("-o").arg(&program).output().expect("nvcc starts");
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    let output = run(&program, &libraries);
    assert_eq!((text(&output.stdout), text(&output.stderr)), ("ok\n".to_owned(), String::new()), "{name}");
    assert!(output.status.success(), "{name}");
}

#[test]
fn kernels_read_textures_and_write_surfaces() {
    succeeds("textures.cu", &[]);
}

#[test]
fn kernels_in_graphs() {
    succeeds("graphs.cu", &[]);
    succeeds("graphs.cu", &["-default-stream", "per-thread"]);
}
