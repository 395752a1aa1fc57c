//! Launches that a task can express: instances of templates with macros in their names, structs with
//! pointers, parts of tensors, variables of the module, cooperative launches, and several kernels in order.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bench;

use std::fs;

use bench::{Bench, Run};

const TASK: &str = r#"
name = "affine"
version = 1
description = "y = 2 x + 1"
operator = "elementwise"
dtypes = ["f32"]
seeds = [1]
distributions = ["normal"]

[[shape]]
name = "main"
axes = { n = 256 }

[[input]]
name = "x"
dtype = "each"
dims = ["n"]

[[output]]
name = "y"
dtype = "each"
dims = ["n"]

[reference]
expression = "2 * x + 1"
output = "y"

[tolerance]
policy = "derived"
accumulate = "f32"
derivation = "from the format"

[target]
architectures = ["sm_89"]
devices = ["l4"]

[[gate]]
stage = "build"
[[gate]]
stage = "budget"
[[gate]]
stage = "correct"
[[gate]]
stage = "checks"
[[gate]]
stage = "counters"
"#;

const KERNELS: &str = r"
#include <cooperative_groups.h>
struct Params { const float *x; float *y; float scale; int n; };
__constant__ float coef[2];
__device__ float bias;

namespace ops {
template <typename T, int N>
__global__ void affine(const T *x, T *y, int n)
{
    int i = blockIdx.x * N + threadIdx.x;
    if (i < n)
        y[i] = x[i] * T(2) + T(1);
}
}
__global__ void by_struct(const __grid_constant__ Params p)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < p.n)
        p.y[i] = p.x[i] * p.scale + 1;
}
__global__ void by_symbol(const float *x, float *y)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = x[i] * coef[0] + coef[1] * bias;
}
__global__ void doubled(const float *x, float *y)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = x[i] * 2;
}
__global__ void plus_one(const float *x, float *y)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = x[i] + 1;
}
__global__ void both(const float *x, float *y, float *t)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x, n = gridDim.x * blockDim.x;
    t[n - 1 - i] = x[n - 1 - i] * 2;
    cooperative_groups::this_grid().sync();
    y[i] = t[i] + 1;
}
";

/// Evaluates one candidate named `c`.
fn judged(bench: &Bench, candidate: &str) -> Run {
    let text = format!("{TASK}\n[[candidate]]\nname = \"c\"\nsource = \"affine.cu\"\n{candidate}");
    fs::write(bench.dir.path().join("affine.toml"), text).unwrap();
    fs::write(bench.dir.path().join("affine.cu"), KERNELS).unwrap();
    let _ = fs::remove_dir_all(bench.dir.path().join("evidence"));
    bench.run(["gate", "affine.toml", "--json"])
}

#[track_caller]
fn passes(bench: &Bench, candidate: &str) {
    let json = judged(bench, candidate).exits(0).json();
    let one = &json["candidates"][0];
    assert_eq!(one["verdict"], "PROVISIONAL", "{json:#}");
    let stages = one["stages"].as_array().unwrap();
    assert!(stages.iter().all(|step| step["outcome"] == "PASS"), "{json:#}");
}

#[test]
fn toolchain_a_template_is_named_with_macros_in_it() {
    let bench = Bench::new();
    let launch = |kernel: &str| {
        format!(
            "defines = {{ BLOCK = 64 }}\n[[candidate.launch]]\nkernel = \"{kernel}\"\ngrid = \"ceil_div(n, BLOCK)\"\n\
             block = \"BLOCK\"\narguments = [\"x\", \"y\", {{ value = \"n\", dtype = \"i32\" }}]\n"
        )
    };
    passes(&bench, &launch("ops::affine<float, {BLOCK}>"));
    let run = judged(&bench, &launch("ops::affine<float, {n}>")).exits(2);
    assert!((run.err + &run.out).contains("a kernel is compiled once for all shapes"));
    let run = judged(&bench, &launch("ops::affine<float, {BLOKC}>")).exits(2);
    assert!((run.err + &run.out).contains("did you mean `BLOCK`?"));
    let run = judged(&bench, &launch("ops::affine"));
    let all = run.err.clone() + &run.out;
    assert!(all.contains("template<typename T, int N>"), "{all}");
}

#[test]
fn toolchain_a_struct_has_pointers_to_tensors() {
    let bench = Bench::new();
    let launch = |members: &str| {
        format!(
            "[[candidate.launch]]\nkernel = \"by_struct\"\ngrid = \"ceil_div(n, 64)\"\nblock = 64\n\
             arguments = [{{ struct = [{members}] }}]\n"
        )
    };
    passes(
        &bench,
        &launch(
            "\"x\", \"y\", { name = \"scale\", value = 2.0, dtype = \"f32\" }, { value = \"n\", dtype = \"i32\" }",
        ),
    );
    passes(
        &bench,
        &launch(
            "{ tensor = \"x\", at = 0 }, \"y\", { value = 2.0, dtype = \"f32\", at = 16 }, { value = \"n\", dtype = \"i32\" }",
        ),
    );
    let run = judged(&bench, &launch("\"x\", \"y\""));
    let all = run.err.clone() + &run.out;
    assert!(all.contains("a struct of 16 bytes for parameter") && all.contains("of 24"), "{all}");
}

#[test]
fn toolchain_a_launch_may_work_on_a_part_of_a_tensor() {
    let bench = Bench::new();
    let half = |offset: &str| {
        format!(
            "[[candidate.launch]]\nkernel = \"ops::affine<float, 64>\"\ngrid = 2\nblock = 64\narguments = [\
             {{ tensor = \"x\", offset = \"{offset}\" }}, {{ tensor = \"y\", offset = \"{offset}\" }}, \
             {{ value = 128, dtype = \"i32\" }}]\n"
        )
    };
    passes(&bench, &(half("0") + &half("n / 2")));
    let run = judged(&bench, &half("n + 1"));
    assert!((run.err + &run.out).contains("beyond its end"));
}

#[test]
fn toolchain_variables_are_set_from_values_and_inputs() {
    let bench = Bench::new();
    let launch =
        "[[candidate.launch]]\nkernel = \"by_symbol\"\ngrid = 4\nblock = 64\narguments = [\"x\", \"y\"]\n";
    let coef = "[[candidate.symbol]]\nname = \"coef\"\nvalue = [2.0, 0.5]\ndtype = \"f32\"\n";
    let bias = "[[candidate.symbol]]\nname = \"bias\"\nvalue = 2.0\ndtype = \"f32\"\n";
    passes(&bench, &format!("{coef}{bias}{launch}"));
    // Without the variables it computes another function.
    judged(&bench, launch).exits(1);
    let run = judged(&bench, &format!("{}{launch}", coef.replace("coef", "weights")));
    assert!((run.err + &run.out).contains("no variable `weights`"));
}

#[test]
fn toolchain_kernels_run_in_order_and_blocks_together() {
    let bench = Bench::new();
    let scratch = "[[candidate.scratch]]\nname = \"t\"\ndtype = \"f32\"\ncount = \"n\"\n";
    let step = |kernel: &str, arguments: &str| {
        format!(
            "[[candidate.launch]]\nkernel = \"{kernel}\"\ngrid = 4\nblock = 64\narguments = [{arguments}]\n"
        )
    };
    passes(
        &bench,
        &(scratch.to_owned() + &step("doubled", "\"x\", \"t\"") + &step("plus_one", "\"t\", \"y\"")),
    );
    let together = step("both", "\"x\", \"y\", \"t\"");
    passes(&bench, &format!("{scratch}{together}cooperative = true\n"));
    let run = judged(&bench, &format!("{scratch}{together}")).exits(1);
    assert!((run.err + &run.out).contains("grid.sync() needs a cooperative launch"));
    let large = format!("{scratch}{together}cooperative = true\n").replace("grid = 4", "grid = 4000");
    let run = judged(&bench, &large).exits(1);
    assert!((run.err + &run.out).contains("the cooperative launch of `both` has 4000 blocks"));
}
