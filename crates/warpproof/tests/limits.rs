//! Inputs that ask for too much work or memory end at a limit by default: exit code 4 and the flag that raises it.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bench;

use std::fs;

use bench::Bench;

const KERNELS: &str = "
.version 8.0
.target sm_89
.address_size 64
.visible .entry nothing() { ret; }
.visible .entry touch(.param .u64 x) { ret; }
";

/// A kernel that never ends, and that no rule recognizes as endless: it counts.
const ENDLESS: &str = r#"
extern "C" __global__ void doubled(const float* x, float* y, int n) {
    unsigned long long rounds = 0;
    while (n >= 0) { rounds += 1; if (rounds == 0xffffffffffffffffull) { y[0] = x[0]; } }
}
"#;

fn task(n: u64, source: &str) -> String {
    format!(
        r#"
name = "doubled"
version = 1
description = "y = 2 x"
operator = "elementwise"
dtypes = ["f32"]
seeds = [1]
distributions = ["normal"]

[[shape]]
name = "main"
axes = {{ n = {n} }}

[[shape]]
name = "other"
axes = {{ n = {n} }}

[[input]]
name = "x"
dtype = "each"
dims = ["n"]

[[output]]
name = "y"
dtype = "each"
dims = ["n"]

[reference]
expression = "2 * x"
output = "y"

[tolerance]
policy = "derived"
accumulate = "f32"
non_finite = "refuse"
derivation = "doubling is exact"

[target]
architectures = ["sm_89"]
devices = ["l4"]

[[gate]]
stage = "build"

[[gate]]
stage = "correct"

[[candidate]]
name = "mine"
source = "{source}"

[[candidate.launch]]
kernel = "doubled"
grid = 1
block = 32
arguments = ["x", "y", {{ value = "n", dtype = "i32" }}]
"#
    )
}

#[test]
fn a_grid_of_two_thousand_million_blocks_ends_at_a_limit() {
    let bench = Bench::bare();
    fs::write(bench.dir.path().join("k.ptx"), KERNELS).unwrap();
    for command in ["run", "check", "counters"] {
        let args = [command, "k.ptx", "--kernel", "nothing", "--grid", "2147483647", "--block", "1024"];
        let run = bench.run(args.into_iter().chain(["--max-instructions", "10000000"])).exits(4);
        assert!(run.err.contains("raise the limit with --max-instructions"), "{}", run.err);
    }
}

#[test]
fn arrays_of_more_than_a_gigabyte_are_refused_by_default() {
    let bench = Bench::bare();
    fs::write(bench.dir.path().join("k.ptx"), KERNELS).unwrap();
    for command in ["run", "check", "counters"] {
        let args = [command, "k.ptx", "--kernel", "touch", "--block", "32", "--arg", "x:f32[300000000]"];
        let run = bench.run(args).exits(4);
        assert!(run.err.contains("--max-memory"), "{}", run.err);
    }
    // Several schedules hold the memory three times.
    let args = ["check", "k.ptx", "--kernel", "touch", "--block", "32", "--arg", "x:f32[100000000]"];
    assert!(bench.run(args.into_iter().chain(["--schedules", "2"])).exits(4).err.contains("--max-memory"));
}

#[test]
fn toolchain_the_largest_axis_of_a_task_is_refused_before_anything_is_allocated() {
    let bench = Bench::new();
    fs::write(bench.dir.path().join("k.cu"), ENDLESS).unwrap();
    fs::write(bench.dir.path().join("task.toml"), task(1 << 28, "k.cu")).unwrap();
    let run = bench.run(["gate", "task.toml"]).exits(4);
    assert!(run.out.contains("raise it with --max-memory"), "{}{}", run.out, run.err);
    assert!(run.out.contains("16.0 GB"), "{}", run.out);
}

#[test]
fn toolchain_a_candidate_that_never_ends_is_inconclusive_and_names_the_flag() {
    let bench = Bench::new();
    fs::write(bench.dir.path().join("k.cu"), ENDLESS).unwrap();
    fs::write(bench.dir.path().join("task.toml"), task(64, "k.cu")).unwrap();
    let run = bench.run(["gate", "task.toml", "--max-instructions", "1000000"]).exits(4);
    assert!(run.out.contains("raise the limit with --max-instructions"), "{}{}", run.out, run.err);
    // The second size is not tried: it would take equally long.
    assert!(run.out.contains("main, "), "{}", run.out);
}
