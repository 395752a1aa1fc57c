//! `warpproof nvcc`, and what `warpproof exec` sees of the programs that it compiles before they start.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, and reports what it does not test")]

mod bench;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use bench::{Bench, Run};
use warpproof_toolchain::{CudaRuntime, Environment, Executable, Nvcc};

/// A program with one kernel.
const PROGRAM: &str = r#"
#include <cstdio>
#include <cuda_runtime.h>
__global__ void fill(int *x) { x[threadIdx.x] = int(threadIdx.x); }
int main() {
    int *x = nullptr;
    cudaMalloc(&x, 128);
    fill<<<1, 32>>>(x);
    std::printf("runtime %d\n", CUDART_VERSION / 1000);
    return cudaDeviceSynchronize() != cudaSuccess;
}
"#;

fn set_up() -> Bench {
    let bench = Bench::with_nvcc();
    fs::write(bench.dir.path().join("app.cu"), PROGRAM).unwrap();
    bench
}

fn properties(bench: &Bench, name: &str) -> Executable {
    Executable::read(&bench.dir.path().join(name)).unwrap().unwrap()
}

/// nvcc itself, without the arguments that Warpproof adds.
fn plain(bench: &Bench, arguments: &[&str]) -> Run {
    let nvcc = Nvcc::find(&Environment::read()).unwrap();
    let mut command = Command::new(nvcc.program);
    Run::of(&command.args(arguments).current_dir(bench.dir.path()).output().unwrap())
}

#[test]
fn help() {
    let run = Bench::bare().run(["nvcc", "--help"]).exits(0);
    insta::assert_snapshot!("help_nvcc", run.out);
}

#[test]
fn without_nvcc_the_command_that_installs_it_is_printed() {
    let bench = Bench::bare();
    for arguments in [["nvcc", "app.cu"].as_slice(), &["nvcc", "--print-path"]] {
        let mut command = bench.command();
        for name in ["CUDA_HOME", "CUDA_PATH", "WARPPROOF_TOOLCHAIN"] {
            command.env_remove(name);
        }
        let output = command.args(arguments).env("PATH", bench.dir.path()).output().unwrap();
        if Path::new("/usr/local/cuda/bin/nvcc").exists() {
            return;
        }
        let run = Run::of(&output).exits(2);
        for expected in ["error: nvcc not found", "run `warpproof toolchain install --nvcc`"] {
            assert!(run.err.contains(expected), "{expected}:\n{}", run.err);
        }
    }
}

#[test]
fn toolchain_a_program_gets_the_shared_runtime_ptx_and_a_search_path() {
    let bench = set_up();
    bench.run(["nvcc", "app.cu", "-o", "app"]).exits(0);
    let app = properties(&bench, "app");
    assert_eq!(app.runtime, CudaRuntime::Shared);
    assert!(app.needed.iter().any(|name| name == "libcudart.so.13"), "{:?}", app.needed);
    assert_eq!((app.fat_binaries, app.without_ptx), (1, 0));
    assert_eq!(app.machine_code, [89]);
    assert!(app.search.iter().any(|dir| dir.join("libcudart.so.13").is_file()), "{:?}", app.search);
    // The user's own architecture keeps its machine code.
    let arguments = ["nvcc", "-gencode", "arch=compute_80,code=sm_80", "app.cu", "-o", "old"];
    bench.run(arguments).exits(0);
    let old = properties(&bench, "old");
    assert_eq!((old.without_ptx, old.machine_code.as_slice()), (0, [80].as_slice()));
}

#[test]
fn toolchain_a_program_for_the_runtime_of_cuda_12_is_compiled_with_its_headers() {
    let bench = set_up();
    let more = "#include <cooperative_groups.h>\n#include <cub/cub.cuh>\n#include <cuda_fp8.h>\n";
    fs::write(
        bench.dir.path().join("app.cu"),
        format!("{more}{PROGRAM}static_assert(CUDART_VERSION < 13000);"),
    )
    .unwrap();
    bench.run(["nvcc", "--runtime", "12", "-std=c++17", "app.cu", "-o", "app"]).exits(0);
    let app = properties(&bench, "app");
    assert!(app.needed.iter().any(|name| name == "libcudart.so.12"), "{:?}", app.needed);
    assert_eq!(app.without_ptx, 0);
    assert!(app.search.iter().any(|dir| dir.join("libcudart.so.12").is_file()), "{:?}", app.search);
}

#[test]
fn toolchain_exit_codes_and_output_are_those_of_nvcc() {
    let bench = set_up();
    let run = bench.run(["nvcc", "--version"]).exits(0);
    assert!(run.out.contains("Cuda compiler driver"), "{}", run.out);
    let expected = plain(&bench, &["absent.cu"]);
    let run = bench.run(["nvcc", "absent.cu"]);
    assert_ne!(run.code, Some(0));
    assert_eq!((run.code, run.err), (expected.code, expected.err));
}

#[test]
fn toolchain_a_static_runtime_is_refused_before_the_program_starts() {
    let bench = set_up();
    plain(&bench, &["-arch=sm_89", "app.cu", "-o", "app"]).exits(0);
    for strip in [false, true] {
        if strip && Command::new("strip").arg(bench.dir.path().join("app")).status().is_err() {
            continue;
        }
        assert_eq!(properties(&bench, "app").runtime, CudaRuntime::Static);
        let run = bench.run(["exec", "--", "./app"]).exits(3);
        assert_eq!(run.out, "", "the program must not start");
        for expected in [
            "error: ./app contains a static CUDA runtime",
            "nvcc -cudart shared",
            "CUDA_RUNTIME_LIBRARY Shared",
        ] {
            assert!(run.err.contains(expected), "{expected}:\n{}", run.err);
        }
    }
}

#[test]
fn toolchain_machine_code_without_ptx_is_refused_before_the_program_starts() {
    let bench = set_up();
    let only = "arch=compute_80,code=sm_80";
    plain(&bench, &["-cudart=shared", "-gencode", only, "app.cu", "-o", "app"]).exits(0);
    let run = bench.run(["exec", "--", "./app"]).exits(3);
    assert_eq!(run.out, "", "the program must not start");
    for expected in [
        "error: ./app contains machine code only (sm_80)",
        "-gencode arch=compute_80,code=[sm_80,compute_80]",
    ] {
        assert!(run.err.contains(expected), "{expected}:\n{}", run.err);
    }
}

#[test]
fn toolchain_a_library_with_a_static_runtime_is_named() {
    let bench = set_up();
    let library = "int add(int a, int b);\n";
    fs::write(
        bench.dir.path().join("lib.cu"),
        format!("{PROGRAM}\nint add(int a, int b) {{ return a + b; }}"),
    )
    .unwrap();
    plain(&bench, &["-Dmain=unused", "-Xcompiler", "-fPIC", "-shared", "lib.cu", "-o", "libown.so"]).exits(0);
    fs::write(bench.dir.path().join("main.cpp"), format!("{library}int main() {{ return add(2, 5); }}"))
        .unwrap();
    let arguments = ["nvcc", "main.cpp", "-L.", "-lown", "-Xlinker", "-rpath=.", "-o", "app"];
    bench.run(arguments).exits(0);
    let run = bench.run(["exec", "--", "./app"]).exits(7);
    assert!(run.err.contains("libown.so contains a static CUDA runtime"), "{}", run.err);
}

#[test]
fn toolchain_a_program_of_the_driver_api_is_linked_and_runs() {
    let bench = set_up();
    let source = "#include <cuda.h>\nint main() { int n = 0; cuInit(0); cuDeviceGetCount(&n); return n; }\n";
    fs::write(bench.dir.path().join("driver.cpp"), source).unwrap();
    bench.run(["nvcc", "driver.cpp", "-lcuda", "-o", "driver"]).exits(0);
    bench.run(["exec", "--", "./driver"]).exits(1);
}

#[test]
fn toolchain_the_wrapper_is_an_nvcc_with_a_toolkit_around_it() {
    let bench = set_up();
    let printed = bench.run(["nvcc", "--print-path"]).exits(0).out;
    assert_eq!(bench.run(["nvcc", "--print-path"]).exits(0).out, printed);
    let path = PathBuf::from(printed.trim());
    assert!(path.ends_with("bin/nvcc"));
    let root = path.ancestors().nth(2).unwrap();
    for file in ["include/cuda_runtime.h", "lib64/libcudart.so", "nvvm/bin/cicc", "bin/ptxas"] {
        assert!(root.join(file).is_file(), "{file}");
    }
    // As in a build that knows only the path; also with the wrapper's own directory where a toolkit is looked for.
    let mut command = Command::new(&path);
    command.current_dir(bench.dir.path()).env_remove("WARPPROOF_CACHE").env("CUDA_HOME", root);
    Run::of(&command.args(["app.cu", "-o", "app"]).output().unwrap()).exits(0);
    assert_eq!(properties(&bench, "app").runtime, CudaRuntime::Shared);
    // CMake derives the toolkit from this line.
    let run = Run::of(&Command::new(&path).args(["-v", "__cmake_determine_cuda"]).output().unwrap());
    assert!(run.err.contains("#$ TOP="), "{}", run.err);
}

#[test]
fn toolchain_cmake_accepts_the_wrapper() {
    let bench = set_up();
    if Command::new("cmake").arg("--version").output().is_err() {
        eprintln!("skipped: cmake is not installed");
        return;
    }
    let path = bench.run(["nvcc", "--print-path"]).exits(0).out;
    let lists =
        "cmake_minimum_required(VERSION 3.20)\nproject(app LANGUAGES CXX CUDA)\nadd_executable(app app.cu)\n";
    fs::write(bench.dir.path().join("CMakeLists.txt"), lists).unwrap();
    for (name, architectures) in [("usual", "80"), ("real", "80-real")] {
        let configured = Command::new("cmake")
            .args(["-S", ".", "-B", name])
            .arg(format!("-DCMAKE_CUDA_COMPILER={}", path.trim()))
            .arg(format!("-DCMAKE_CUDA_ARCHITECTURES={architectures}"))
            .current_dir(bench.dir.path())
            .env("WARPPROOF_CACHE", bench.cache())
            .output()
            .unwrap();
        let run = Run::of(&configured).exits(0);
        assert!(run.out.contains("The CUDA compiler identification is NVIDIA"), "{}", run.out);
        let built =
            Command::new("cmake").args(["--build", name]).current_dir(bench.dir.path()).output().unwrap();
        Run::of(&built).exits(0);
        let app = properties(&bench, &format!("{name}/app"));
        assert_eq!((app.runtime, app.without_ptx), (CudaRuntime::Shared, 0), "{name}: {app:?}");
        assert_eq!(app.machine_code, [80]);
    }
}

#[test]
fn list_and_remove_name_nvcc() {
    let bench = Bench::bare();
    let set = bench.cache().join("toolchain/nvcc-13.4.92");
    fs::create_dir_all(&set).unwrap();
    fs::write(set.join("warpproof-set.json"), r#"{"wheels": {"nvidia-nvvm": "13.4.92"}}"#).unwrap();
    symlink("absent", set.join("link")).unwrap();
    let run = bench.run(["toolchain", "list"]).exits(0);
    assert!(run.out.starts_with("nvcc 13.4.92 "), "{}", run.out);
    assert!(run.out.contains("nvidia-nvvm 13.4.92"), "{}", run.out);
    let json = bench.run(["toolchain", "list", "--json"]).exits(0).json();
    assert_eq!(json["sets"][0]["name"], "nvcc");
    let run = bench.run(["toolchain", "remove", "--cuda", "13"]).exits(0);
    assert_eq!(run.out, "CUDA 13 is not installed\n");
    let run = bench.run(["toolchain", "remove", "--nvcc"]).exits(0);
    assert_eq!(run.out, "removed nvcc 13\n");
    assert!(!set.exists());
}
