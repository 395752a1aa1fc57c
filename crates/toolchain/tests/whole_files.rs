//! Complete CUDA files: with host code, host headers, and missing headers.

use std::fs;
use std::path::Path;

use warpproof_toolchain::{
    CompileError, CompileOptions, Compiled, Diagnostic, Options, Severity, Source, Toolchain,
    WITHOUT_TOOLCHAIN,
};

/// Every installed release; each one is tested.
fn toolchains() -> Vec<Toolchain> {
    let found: Vec<Toolchain> = [12, 13]
        .into_iter()
        .filter_map(|major| {
            let options = Options { no_cache: true, ..Options::from_env().with_cuda(major) };
            Toolchain::find(&options).ok()
        })
        .collect();
    assert!(!found.is_empty(), "no CUDA toolchain found\n{WITHOUT_TOOLCHAIN}");
    found
}

fn compile(toolchain: &Toolchain, text: &str) -> Result<Compiled, CompileError> {
    toolchain.compile(&Source::new("k.cu", text), &CompileOptions::new("sm_89"))
}

fn errors(error: CompileError) -> Vec<Diagnostic> {
    let CompileError::Source { diagnostics, .. } = error else { panic!("{error}") };
    diagnostics.into_iter().filter(|one| one.severity == Severity::Error).collect()
}

/// A program with typical contents of one file. Lines that begin with `@` are host code.
const PROGRAM: &str = r#"// A saxpy with all that goes with it: isn't it?
#include <algorithm>
#include <cassert>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cublas_v2.h>
#include <cuda.h>
#include <cuda_runtime.h>
#include <iostream>
#include <limits>
#include <random>
#include <string>
#include <vector>
@using namespace std;
@using std::vector;

#define CHECK(call)                                                     \
    do {                                                                \
        cudaError_t status = (call);                                    \
        if (status != cudaSuccess) {                                    \
            fprintf(stderr, "%s\n", cudaGetErrorString(status));        \
            exit(EXIT_FAILURE);                                         \
        }                                                               \
    } while (0)
#define HD __host__ __device__
#define CEIL_DIV(a, b) (((a) + (b) - 1) / (b))

constexpr int TILE = 128;
const float EPS = 1e-6f;
@static const string names[] = {"one", "{two"};
@static cublasHandle_t handle;
@float *buffer = nullptr;
@std::vector<float> results{1.0f, 2.0f};

@enum class Mode { Plain, Tiled };
@template <typename T, typename U = float>
@void check_result(const std::vector<T> &got, const std::vector<U> &want) {
@    for (size_t i = 0; i < got.size(); ++i) {
@        if (std::fabs(got[i] - want[i]) > 1e-4) { std::cerr << "at " << i << '\n'; exit(1); }
@    }
@}

struct Params {
    const float *x;
    float *y;
    uint32_t n;
@    Params(const float *x, float *y, uint32_t n) : x(x), y{y}, n(n) {
@        std::cout << "made" << std::endl;
@    }
    Params() = default;
@    std::string name() const { return "params"; }
    __device__ float at(uint32_t i) const { return i < n ? x[i] : -INFINITY; }
};

@class Timer {
@public:
@    Timer() : start_(std::chrono::steady_clock::now()) {}
@    double seconds() const;
@private:
@    std::chrono::steady_clock::time_point start_;
@};
@double Timer::seconds() const { return 0.0; }

namespace detail {
HD inline float square(float x) { return x * x; }
template <typename T>
__device__ __forceinline__ T clamp(T x) {
    return std::min(std::max(x, static_cast<T>(-FLT_MAX)), std::numeric_limits<T>::max());
}
@void launch(dim3 grid, dim3 block, cudaStream_t stream = 0);
@static inline float reference(float x) { return std::sqrt(x); }
}  // namespace detail

extern "C" {
__global__ void saxpy(Params p, float a) {
    __shared__ float tile[TILE];
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    tile[threadIdx.x] = p.at(i);
    __syncthreads();
    assert(threadIdx.x < TILE);
    if (i < p.n) {
        p.y[i] = detail::clamp(a * tile[threadIdx.x] + detail::square(EPS) + std::sqrt(p.y[i]));
    }
}
@void run(const float *x, float *y, int n) {
@    saxpy<<<CEIL_DIV(n, TILE), TILE>>>(Params(x, y, n), 2.0f);
@}
}

@int main(int argc, char **argv) {
@    const int n = argc > 1 ? std::stoi(argv[1]) : 1 << 20;
@    std::vector<float> x(n), y(n);
@    std::mt19937 random(1);
@    std::generate(x.begin(), x.end(), [&] { return std::uniform_real_distribution<float>()(random); });
@    float *dx, *dy;
@    CHECK(cudaMalloc(&dx, n * sizeof(float)));
@    CHECK(cudaMalloc((void **)&dy, n * sizeof(float)));
@#ifdef DEBUG
@    puts("debug");
@#else
@    puts("release");
@#endif
@    cudaMemcpy(dx, x.data(), n * sizeof(float), cudaMemcpyHostToDevice);
@    run(dx, dy, n);
@    cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, 1, 1, 1, nullptr, dx, 1, dy, 1, nullptr, dy, 1);
@    CHECK(cudaGetLastError());
@    return 0;
@}
"#;

/// The same program with its host code blanked, line by line.
fn guarded() -> String {
    PROGRAM
        .lines()
        .map(|line| if line.starts_with('@') { "\n".to_owned() } else { format!("{line}\n") })
        .collect()
}

#[test]
fn toolchain_a_program_gives_the_ptx_of_its_device_code() {
    for toolchain in toolchains() {
        let whole = compile(&toolchain, &PROGRAM.replace("\n@", "\n ")).unwrap();
        let device = compile(&toolchain, &guarded()).unwrap();
        assert_eq!(whole.ptx, device.ptx);
        assert!(whole.ptx.contains(".entry saxpy("));
        assert!(
            whole.diagnostics.iter().all(|one| one.severity == Severity::Note),
            "{:#?}",
            whole.diagnostics
        );
        let main = PROGRAM.lines().position(|line| line.contains("int main")).unwrap() + 1;
        let skipped = whole.skipped_host_code();
        assert!(skipped.iter().any(|(file, lines)| file == "k.cu" && lines.contains(&main)), "{skipped:?}");
    }
}

#[test]
fn toolchain_an_error_in_device_code_is_shown_alone_and_as_it_is() {
    let wrong = PROGRAM.replace("\n@", "\n ").replace("p.at(i);", "p.at(j);");
    let line = wrong.lines().position(|line| line.contains("p.at(j)")).unwrap() + 1;
    for toolchain in toolchains() {
        let found = errors(compile(&toolchain, &wrong).unwrap_err());
        assert_eq!(found.len(), 1, "{found:#?}");
        assert_eq!(found[0].message, "identifier \"j\" is undefined");
        assert_eq!(found[0].place.as_ref().map(|place| place.line), u32::try_from(line).ok());
        assert_eq!(found[0].excerpt.as_deref().map(str::trim), Some("tile[threadIdx.x] = p.at(j);"));
    }
}

#[test]
fn toolchain_names_that_nvcc_brings_to_every_file_are_there_without_headers() {
    let text = "__global__ void k(uint32_t *x, uint64_t n, float *y, uint m) {\n\
                printf(\"%d\", INT_MAX); assert(n < UINT64_MAX);\n\
                *x = static_cast<uint8_t>(n) + m; *y = fmaxf(-INFINITY, FLT_MAX) + NAN + M_PI; }\n";
    for toolchain in toolchains() {
        let compiled = compile(&toolchain, text).unwrap();
        assert!(compiled.diagnostics.is_empty(), "{:#?}", compiled.diagnostics);
    }
    // The file's own types take precedence.
    let own = "typedef unsigned long uint64_t;\n__global__ void k(uint64_t *x, int32_t n) { *x = n; }\n\
               typedef int int32_t;\n";
    let own = own.replace(", int32_t n", ", int n");
    for toolchain in toolchains() {
        assert!(compile(&toolchain, &own).is_ok());
    }
}

#[test]
fn toolchain_what_ours_lack_of_the_standard_library_comes_from_libcuxx() {
    let text = "#include <array>\n#include <tuple>\n#include <type_traits>\n\
                __global__ void k(int *x) { std::array<int, 2> a{1, 2}; *x = a[threadIdx.x & 1];\n\
                static_assert(std::is_same_v<std::tuple_element_t<0, std::tuple<int>>, int>); }\n";
    let mut found = toolchains();
    // This takes seconds; one release is enough.
    found.truncate(1);
    for toolchain in found {
        compile(&toolchain, text).unwrap();
    }
}

#[test]
fn toolchain_constexpr_functions_without_marks_are_usable() {
    let text = "constexpr int half(int x) { return x / 2; }\nstatic constexpr int unused(std::string) { return 1; }\n\
                __global__ void k(int *x) { int a[half(8)]; a[0] = *x; *x = a[0] + half(*x); }\n";
    for toolchain in toolchains() {
        let compiled = compile(&toolchain, text).unwrap();
        assert!(
            compiled.diagnostics.iter().all(|one| one.severity == Severity::Note),
            "{:#?}",
            compiled.diagnostics
        );
    }
}

#[test]
fn toolchain_a_host_function_that_a_kernel_calls_is_the_users_error() {
    let text = "#include <cmath>\nfloat twice(float x) { return 2 * x; }\n\
                __global__ void k(float *x) { *x = twice(*x); }\nint main() { k<<<1, 1>>>(0); }\n";
    for toolchain in toolchains() {
        let found = errors(compile(&toolchain, text).unwrap_err());
        assert_eq!(found.len(), 1, "{found:#?}");
        assert_eq!(found[0].place.as_ref().map(|place| place.line), Some(3));
        let notes = found[0].notes.join("\n");
        assert!(notes.contains("`twice` is a host function, defined at k.cu:2"), "{notes}");
    }
}

#[test]
fn toolchain_types_and_constants_of_device_code_are_never_left_out() {
    for text in [
        "struct P { std::string name; float *x; };\n__global__ void k(P p) { *p.x = 1; }\n",
        "using T = std::vector<float>;\n__global__ void k(T *x) { }\n",
        "const int N = std::stoi(\"4\");\n__global__ void k(int *x) { x[N] = 0; }\n",
        "template <class T> struct Size { static const int n = 1; };\n\
         template <> struct Size<float> { std::string s; static const int n = 2; };\n\
         __global__ void k(int *x) { *x = Size<float>::n; }\n",
    ] {
        for toolchain in toolchains() {
            let found = errors(compile(&toolchain, text).unwrap_err());
            let line = text.lines().position(|line| line.contains("std::")).unwrap() + 1;
            let at = found
                .iter()
                .any(|one| one.place.as_ref().map(|place| place.line) == u32::try_from(line).ok());
            assert!(at, "{text}{found:#?}");
        }
    }
}

#[test]
fn toolchain_a_missing_header_is_taken_as_empty_if_device_code_does_not_need_it() {
    let host = "#include \"bench.h\"\n#include <cusparse.h>\n__global__ void k(int *x) { *x = 1; }\n\
                int main() { return bench(k); }\n";
    let device = "#include \"bench.h\"\n#include <cusparse.h>\n__global__ void k(int *x) { *x = load(x); }\n";
    let kernel_elsewhere = "#include \"bench.h\"\nint main() { k<<<1, 1>>>(0); }\n";
    for toolchain in toolchains() {
        let compiled = compile(&toolchain, host).unwrap();
        let warnings: Vec<_> =
            compiled.diagnostics.iter().filter(|one| one.severity == Severity::Warning).collect();
        assert_eq!(warnings.len(), 1, "{warnings:#?}");
        assert!(warnings[0].message.contains("\"bench.h\" was not found"), "{warnings:#?}");
        let found: Vec<_> = errors(compile(&toolchain, device).unwrap_err());
        let messages: Vec<_> = found.iter().map(|one| one.message.as_str()).collect();
        assert_eq!(messages, ["cannot open source file \"bench.h\"", "identifier \"load\" is undefined"]);
        let found = errors(compile(&toolchain, kernel_elsewhere).unwrap_err());
        assert_eq!(found[0].message, "cannot open source file \"bench.h\"");
    }
}

#[test]
fn toolchain_types_that_a_missing_library_brings_along_are_there() {
    let text = "#include <cublas_v2.h>\n__global__ void k(__nv_bfloat16 *x, half *y) { *x = (__nv_bfloat16)1.0f; *y = 1; }\n";
    let mut found = toolchains();
    found.truncate(1);
    for toolchain in found {
        compile(&toolchain, text).unwrap();
        // Without the library header, the types are not declared.
        assert!(compile(&toolchain, text.trim_start_matches("#include <cublas_v2.h>\n")).is_err());
    }
}

#[test]
fn toolchain_host_code_in_a_header_is_left_out_and_its_lines_stay() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
    write(
        "tools.cuh",
        "#pragma once\n#include <vector>\n#include <cublas_v2.h>\nvoid check(cublasStatus_t s) {\n  exit(s);\n}\n\
         __device__ __noinline__ float twice(float x) {\n  return 2 * x;\n}\n\
         struct Pool { std::vector<float> all; void grow() { all.resize(4); } };\n",
    );
    write(
        "k.cu",
        "#include \"tools.cuh\"\n__global__ void k(float *x) { *x = twice(*x); }\nint main() { Pool p; k<<<1, 1>>>(0); }\n",
    );
    let source = Source::read(&dir.path().join("k.cu")).unwrap();
    for toolchain in toolchains() {
        let compiled = toolchain.compile(&source, &CompileOptions::new("sm_89")).unwrap();
        let header = dir.path().join("tools.cuh");
        let file = compiled
            .ptx
            .lines()
            .find(|line| line.trim_start().starts_with(".file") && line.contains("tools.cuh"));
        assert!(file.is_some_and(|line| line.contains(&header.display().to_string())), "{file:?}");
        // The line of `return 2 * x`.
        let number = file.and_then(|line| line.split_whitespace().nth(1)).unwrap();
        assert!(
            compiled.ptx.lines().any(|line| line.trim_start().starts_with(&format!(".loc\t{number} 8 "))
                || line.trim_start().starts_with(&format!(".loc {number} 8 ")))
        );
        let skipped = compiled.skipped_host_code();
        assert!(
            skipped.iter().any(|(file, lines)| Path::new(file) == header && lines.contains(&4)),
            "{skipped:?}"
        );
    }
}

#[test]
fn toolchain_an_option_that_makes_all_code_device_code_leaves_nothing_out() {
    let text = "float twice(float x) { return 2 * x; }\n__global__ void k(float *x) { *x = twice(*x); }\n\
                int other() { return undefined; }\n";
    for toolchain in toolchains() {
        let options =
            CompileOptions { extra: vec!["-default-device".to_owned()], ..CompileOptions::new("sm_89") };
        let source = Source::new("k.cu", text);
        let found = errors(toolchain.compile(&source, &options).unwrap_err());
        assert_eq!(found.len(), 1, "{found:#?}");
        let source = Source::new("k.cu", text.replace("undefined", "1"));
        assert!(toolchain.compile(&source, &options).is_ok());
    }
}
