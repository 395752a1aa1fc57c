//! Launches of every command and of tasks: instances of templates, structs with pointers, aliases,
//! variables of the module, cooperative launches, and several kernels in order.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bench;

use std::fs;

use bench::{Bench, Run};
use serde_json::Value;

/// A bench with a kernel's file.
fn with(name: &str, text: &str) -> Bench {
    let bench = Bench::new();
    fs::write(bench.dir.path().join(name), text).unwrap();
    bench
}

fn run(bench: &Bench, args: &[&str]) -> Run {
    bench.run(args)
}

const SCALE: &str = "\
namespace ops {
template <typename T, int N>
__global__ void scale(T *x, T by) { x[blockIdx.x * N + threadIdx.x] *= by; }
}
__global__ void twice(float *x) { x[threadIdx.x] *= 2; }
__global__ void twice(int *x) { x[threadIdx.x] *= 2; }
";

#[test]
fn toolchain_a_template_kernel_is_launched_by_its_spelling_in_every_command() {
    let bench = with("scale.cu", SCALE);
    let launch = ["--block", "64", "--arg", "x:f32[64]=ones", "--arg", "by:f32=3"];
    for spelling in ["ops::scale<float, 64>", "ops::scale<float,64>", "ops :: scale< float , 64 >"] {
        let base = ["run", "scale.cu", "--kernel", spelling, "--print", "x:2"];
        let done = run(&bench, &[&base[..], &launch].concat()).exits(0);
        assert_eq!(done.out, "x: f32[64] = 3.0 3.0 … (62 more)\n", "{spelling}");
        assert!(done.err.starts_with("ops::scale<float, 64>: 1 block of 64 threads"), "{}", done.err);
    }
    for command in ["check", "counters", "explain"] {
        let base = [command, "scale.cu", "--kernel", "ops::scale<float, 64>"];
        let done = run(&bench, &[&base[..], &launch].concat()).exits(0);
        let all = done.out + &done.err;
        assert!(!all.contains("_ZN"), "{command}: {all}");
    }
    let built = run(&bench, &["build", "scale.cu", "--kernel", "ops::scale<float, 64>"]).exits(0);
    assert!(built.out.contains("ops::scale<float, 64>") && !built.out.contains("twice"), "{}", built.out);
    // The file itself may name the instance.
    let line = "//@launch: kernel=ops::scale<int, 32> grid=2 block=32 arg=x:i32[64]=iota arg=by:i32=5\n";
    fs::write(bench.dir.path().join("line.cu"), format!("{line}{SCALE}")).unwrap();
    let done = run(&bench, &["run", "line.cu", "--print", "x:3"]).exits(0);
    assert_eq!(done.out, "x: i32[64] = 0 5 10 … (61 more)\n");
}

#[test]
fn toolchain_a_kernel_that_cannot_be_named_is_explained() {
    let bench = with("scale.cu", SCALE);
    let of = |name: &str| run(&bench, &["run", "scale.cu", "--block", "64", "--kernel", name]).exits(2).err;
    let err = of("scale");
    assert!(err.contains("no kernel `scale`") && err.contains("template<typename T, int N>"), "{err}");
    let err = of("ops::scale<float>");
    assert!(err.contains("the compiler cannot instantiate `ops::scale<float>`"), "{err}");
    let err = of("twice");
    assert!(err.contains("2 kernels are called `twice`") && err.contains("twice(int*)"), "{err}");
    let args = ["--block", "4", "--kernel", "twice(int*)", "--arg", "x:i32[4]=[1,2,3,4]", "--print", "x"];
    let done = run(&bench, &[&["run", "scale.cu"][..], &args].concat()).exits(0);
    assert_eq!(done.out, "x: i32[4] = 2 4 6 8\n");
    // Errors in the source are reported before errors in the name.
    fs::write(bench.dir.path().join("bad.cu"), "template <int N> __global__ void k(int *x) { *x = M; }")
        .unwrap();
    let err = run(&bench, &["run", "bad.cu", "--block", "1", "--kernel", "k<3>"]).exits(1).err;
    assert!(err.contains("\"M\" is undefined"), "{err}");
}

const SAXPY: &str = "\
struct Inner { short k; double scale; };
struct Params { const float *x; char tag; float *y; Inner inner; int n; };
extern \"C\" __global__ void saxpy(const __grid_constant__ Params p)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < p.n)
        p.y[i] = (float)p.inner.scale * p.x[i] + p.inner.k + p.tag;
}
";

#[test]
fn toolchain_a_struct_with_pointers_is_passed_by_value() {
    let bench = with("saxpy.cu", SAXPY);
    let of = |spec: &str, command: &str| {
        let base = [command, "saxpy.cu", "--grid", "2", "--block", "32", "--arg", spec];
        run(
            &bench,
            &if command == "run" { [&base[..], &["--print", "p.y:3"]].concat() } else { base.to_vec() },
        )
    };
    let good = "p:{x:in:f32[50]=iota, tag:i8=1, y:out:f32[50], inner:{k:i16=10, scale:f64=0.5}, n:i32=50}";
    assert_eq!(of(good, "run").exits(0).out, "p.y: f32[50] = 11.0 11.5 12.0 … (47 more)\n");
    of(good, "check").exits(0);
    // The checks know the arrays inside: one element is not written, and one beyond the end is read.
    let short = good.replace("n:i32=50", "n:i32=49");
    let err = of(&short, "check").exits(1).err;
    assert!(err.contains("unwritten") && err.contains("p.y"), "{err}");
    let placed =
        "p:{x@0:in:f32[50]=iota, y@16:out:f32[50], k@24:i16=10, scale@32:f64=0.5, n@40:i32=50, pad@44:i32=0}";
    assert_eq!(of(placed, "run").exits(0).out, "p.y: f32[50] = 10.0 10.5 11.0 … (47 more)\n");
    // If the sizes differ, both layouts are shown.
    let err = of("p:{x:in:f32[50]=iota, y:out:f32[50], n:i32=50}", "run").exits(2).err;
    assert!(err.contains("a struct of 24 bytes") && err.contains("has 48"), "{err}");
    assert!(err.contains("x at 0 (8 bytes), y at 8 (8 bytes), n at 16 (4 bytes)"), "{err}");
    assert!(err.contains("the kernel reads at least") && err.contains("4 bytes at 40"), "{err}");
}

const SHIFT: &str = "\
extern \"C\" __global__ void add(const float *x, float *y, int n)
{
    int i = threadIdx.x;
    if (i < n)
        y[i] = x[i] + 1;
}
";

#[test]
fn toolchain_two_arguments_can_be_the_same_array() {
    let bench = with("add.cu", SHIFT);
    let of = |y: &str, command: &str| {
        let args = ["--arg", "x:f32[64]=iota", "--arg", y, "--arg", "n:i32=32"];
        let print: &[&str] = if command == "run" { &["--print", "x:34"] } else { &[] };
        run(&bench, &[&[command, "add.cu", "--block", "32"][..], &args, print].concat())
    };
    assert!(of("y:=x", "run").exits(0).out.starts_with("x: f32[64] = 1.0 2.0 3.0"));
    of("y:=x", "check").exits(0);
    assert!(of("y:=x+32", "run").exits(0).out.contains(" 31.0 1.0 2.0 "), "{}", of("y:=x+32", "run").out);
    // Warps of one block race if the ranges overlap.
    let wide = [
        "check",
        "add.cu",
        "--block",
        "64",
        "--arg",
        "x:f32[65]=iota",
        "--arg",
        "y:=x+1",
        "--arg",
        "n:i32=64",
    ];
    assert!(run(&bench, &wide).exits(1).err.contains("global-race"));
    let err = of("y:=x+65", "run").exits(2).err;
    assert!(err.contains("element 65 of `x`, a f32[64]"), "{err}");
    let err = of("y:=z", "run").exits(2).err;
    assert!(err.contains("unknown array `z`") && err.contains("arrays: x"), "{err}");
}

const FILTER: &str = "\
//@launch: grid=1 block=32 symbol=filter::coef:f32[3]=[1,2,1] symbol=shift:i32=100 arg=x:in:f32[34]=iota arg=y:out:f32[32]
namespace filter { __constant__ float coef[3]; }
__device__ int shift;
__global__ void blur(const float *x, float *y)
{
    int i = threadIdx.x;
    y[i] = filter::coef[0] * x[i] + filter::coef[1] * x[i + 1] + filter::coef[2] * x[i + 2] + shift;
}
";

#[test]
fn toolchain_variables_of_the_module_are_set_before_the_launch() {
    let bench = with("blur.cu", FILTER);
    let done = run(&bench, &["run", "blur.cu", "--print", "y:3"]).exits(0);
    assert_eq!(done.out, "y: f32[32] = 104.0 108.0 112.0 … (29 more)\n");
    for command in ["check", "counters", "explain"] {
        run(&bench, &[command, "blur.cu"]).exits(0);
    }
    let done = run(&bench, &["run", "blur.cu", "--symbol", "coef:f32[3]=ones", "--print", "y:3"]).exits(0);
    assert_eq!(done.out, "y: f32[32] = 3.0 6.0 9.0 … (29 more)\n");
    let err = run(&bench, &["run", "blur.cu", "--symbol", "coef:f32[2]=ones"]).exits(2).err;
    assert!(err.contains("expected 12 bytes for variable `filter::coef`, found 8"), "{err}");
    let err = run(&bench, &["run", "blur.cu", "--symbol", "weights:f32=1"]).exits(2).err;
    assert!(err.contains("no variable `weights`") && err.contains("variables: filter::coef, shift"), "{err}");
}

/// Each block reads data that another block wrote before the barrier of the grid.
const EXCHANGE: &str = "\
#include <cooperative_groups.h>
extern \"C\" __global__ void exchange(float *x, float *y)
{
    auto grid = cooperative_groups::this_grid();
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x, n = gridDim.x * blockDim.x;
    for (int round = 0; round < 3; round++) {
        x[i] = i + round;
        SYNC
        y[i] = x[n - 1 - i];
        SYNC
    }
}
";

#[test]
fn toolchain_a_cooperative_launch_synchronizes_its_grid() {
    let bench = with("exchange.cu", &EXCHANGE.replace("SYNC", "grid.sync();"));
    let args = ["--grid", "4", "--block", "64", "--arg", "x:inout:f32[256]", "--arg", "y:out:f32[256]"];
    let of =
        |file: &str, command: &str, more: &[&str]| run(&bench, &[&[command, file][..], &args, more].concat());
    let done = of("exchange.cu", "run", &["--cooperative", "--print", "y:3"]).exits(0);
    assert_eq!(done.out, "y: f32[256] = 257.0 256.0 255.0 … (253 more)\n");
    for command in ["counters", "explain"] {
        of("exchange.cu", command, &["--cooperative"]).exits(0);
    }
    // The barrier orders writes and reads of blocks; without it they race.
    of("exchange.cu", "check", &["--cooperative"]).exits(0);
    of("exchange.cu", "check", &["--cooperative", "--schedules", "4"]).exits(0);
    fs::write(bench.dir.path().join("racy.cu"), EXCHANGE.replace("SYNC", "__syncthreads();")).unwrap();
    let err = of("racy.cu", "check", &["--cooperative"]).exits(1).err;
    assert!(err.contains("global-race"), "{err}");
    // A kernel that calls grid.sync() is launched cooperatively, unless the launch line sets
    // cooperative=false.
    for command in ["run", "check"] {
        of("exchange.cu", command, &[]).exits(0);
    }
    let line = "//@launch: kernel=exchange grid=4 block=64 cooperative=false arg=x:inout:f32[256] arg=y:out:f32[256]\n";
    let alone = format!("{line}{}", EXCHANGE.replace("SYNC", "grid.sync();"));
    fs::write(bench.dir.path().join("alone.cu"), alone).unwrap();
    for command in ["run", "check"] {
        let err = run(&bench, &[command, "alone.cu"]).exits(1).err;
        assert!(err.contains("grid.sync() needs a cooperative launch"), "{err}");
        assert!(err.contains("--cooperative"), "{err}");
    }
    // An L4 has 58 multiprocessors of 1536 threads.
    let large = [
        "run",
        "exchange.cu",
        "--cooperative",
        "--grid",
        "2000",
        "--block",
        "1024",
        "--arg",
        "x:f32[1]",
        "--arg",
        "y:=x",
    ];
    let err = run(&bench, &large).exits(2).err;
    assert!(err.contains("at most 58 blocks of 1024 threads can be resident on an"), "{err}");
    assert!(err.contains("CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE"), "{err}");
}

const PIPELINE: &str = "\
//@launch: kernel=partial grid=4 block=64 arg=x:in:f32[256]=ones arg=sums:out:f32[4]
//@launch: kernel=total grid=1 block=1 arg=sums:in arg=n:i32=4 arg=all:out:f32[1]
__device__ int calls;
extern \"C\" __global__ void partial(const float *x, float *sums)
{
    __shared__ float s[64];
    s[threadIdx.x] = x[blockIdx.x * 64 + threadIdx.x];
    __syncthreads();
    for (int step = 32; step > 0; step /= 2) {
        if (threadIdx.x < step)
            s[threadIdx.x] += s[threadIdx.x + step];
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        sums[blockIdx.x] = s[0];
        atomicAdd(&calls, 1);
    }
}
extern \"C\" __global__ void total(const float *sums, int n, float *all)
{
    float sum = 0;
    for (int i = 0; i < n; i++)
        sum += sums[i];
    *all = sum + 1000 * calls;
}
";

#[test]
fn toolchain_launch_lines_that_share_arrays_run_in_order() {
    let bench = with("sum.cu", PIPELINE);
    let done = run(&bench, &["run", "sum.cu", "--print", "all", "--print", "sums"]).exits(0);
    assert_eq!(done.out, "all: f32[1] = 4256.0\nsums: f32[4] = 64.0 64.0 64.0 64.0\n");
    assert_eq!(done.err.lines().count(), 2, "{}", done.err);
    // Naming the second kernel also runs the first, which creates the array.
    let done = run(&bench, &["run", "sum.cu", "--kernel", "total", "--json"]).exits(0).json();
    assert_eq!(
        (&done["kernel"], &done["launches"][0]["kernel"]),
        (&Value::from("total"), &Value::from("partial"))
    );
    run(&bench, &["check", "sum.cu"]).exits(0);
    let counted = run(&bench, &["counters", "sum.cu", "--json"]).exits(0).json();
    assert_eq!(counted["launches"].as_array().unwrap().len(), 2);
    run(&bench, &["explain", "sum.cu", "--launch-line", "2"]).exits(0);
    // Elements that the first kernel does not write are reported there.
    let text = PIPELINE.replace("sums[blockIdx.x] = s[0]", "if (blockIdx.x) sums[blockIdx.x] = s[0]");
    fs::write(bench.dir.path().join("short.cu"), text).unwrap();
    assert!(run(&bench, &["check", "short.cu"]).exits(1).err.contains("unwritten"));
    let err = run(&bench, &["run", "sum.cu", "--arg", "x", "--arg", "sums:f32[4]"]).exits(2).err;
    assert!(err.contains("no earlier launch line has an array of this name"), "{err}");
}

#[test]
fn toolchain_blocks_are_written_the_same_way_everywhere() {
    let bench = with("add.cu", SHIFT);
    for block in ["16,2", "16x2", "16 2", "16, 2,1"] {
        run(&bench, &["build", "add.cu", "--block", block]).exits(0);
        let args = ["--arg", "x:f32[64]=iota", "--arg", "y:=x", "--arg", "n:i32=0"];
        for command in ["run", "check", "counters", "explain"] {
            run(&bench, &[&[command, "add.cu", "--block", block, "--grid", "1 1"][..], &args].concat())
                .exits(0);
        }
    }
    for command in ["build", "run"] {
        let err = run(&bench, &[command, "add.cu", "--block", "16,0"]).exits(2).err;
        assert!(err.contains("found the extent `0`"), "{err}");
    }
}
