//! Runs `counters --sample` and `explain --sample` like a user.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bench;

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use bench::{Bench, Run};
use serde_json::{Value, json};

fn counters(bench: &Bench, args: &[&str]) -> Run {
    bench.run(["counters"].iter().chain(args))
}

/// 1,000 blocks of 32 threads, the last of which has 18 elements.
const LAUNCH: [&str; 12] = [
    "--grid",
    "1000",
    "--block",
    "32",
    "--arg",
    "n:u32=31986",
    "--arg",
    "a:f32=2",
    "--arg",
    "x:f32[31986]=iota",
    "--arg",
    "y:f32[31986]=ones",
];

fn saxpy(bench: &Bench, more: &[&str]) -> Run {
    let kernel = bench.kernel("run_saxpy.ptx");
    counters(bench, &[&[kernel.as_str()], &LAUNCH[..], more].concat())
}

#[track_caller]
fn holds(document: &Value) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schemas/counters-1.schema.json");
    let schema = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    let mut errors = String::new();
    for error in jsonschema::validator_for(&schema).unwrap().iter_errors(document) {
        writeln!(errors, "{} at {}", error, error.instance_path()).unwrap();
    }
    assert_eq!(errors, "", "{document:#}");
}

#[test]
fn every_output_states_that_it_is_sampled() {
    let bench = Bench::bare();
    let full = saxpy(&bench, &["--json"]).exits(0).json();
    let run = saxpy(&bench, &["--json", "--sample", "20"]).exits(0);
    let sample = run.json();
    holds(&sample);
    let (launch, all) = (&sample["launches"][0], &full["launches"][0]);
    assert_eq!((&all["kind"], all.get("sampled")), (&json!("counted"), None));
    assert_eq!((&launch["kind"], &launch["blocks"]), (&json!("sampled"), &json!(20)));
    let sampled = &launch["sampled"];
    assert_eq!((&sampled["blocks"], &sampled["of"]), (&json!(20), &json!(1000)));
    assert_eq!((&sampled["margins"], &sampled["confidence"]), (&json!({}), &json!(0.95)));
    let statements = sampled["statements"].as_array().unwrap();
    assert!(statements[0].as_str().unwrap().contains("20 of 1000 blocks"), "{statements:?}");
    // All blocks except the last are alike, so that the counters are exact: those of the launch and of its lines.
    assert_eq!((&launch["counters"], &launch["lines"]), (&all["counters"], &all["lines"]));
    // 18 elements of the last block take 3 sectors of x, and as many of y; the others take 4.
    assert_eq!(launch["counters"]["first_sectors.grid_loaded"], 2 * (999 * 4 + 3));
    for threads in ["1", "2", "8"] {
        let again = saxpy(&bench, &["--json", "--sample", "20", "--threads", threads]).exits(0);
        assert_eq!(again.out, run.out);
    }
    assert_eq!(saxpy(&bench, &["--json", "--sample", "2%"]).exits(0).out, run.out);
    let text = saxpy(&bench, &["--sample", "20"]).exits(0).out;
    assert!(text.contains("1,000 blocks of 32 threads; a sample of 20 blocks counted"), "{text}");
    assert!(text.contains("±     0 %  executions, global.ld.sectors, global.st.sectors\n"), "{text}");
    assert!(text.contains("note: sampled: 20 of 1000 blocks were executed"), "{text}");
    let csv = saxpy(&bench, &["--sample", "20", "--metrics", "smsp__inst_executed.sum"]).exits(0);
    assert!(csv.out.contains("\"warpproof (sampled 20 of 1000 blocks)\""), "{}", csv.out);
    assert!(csv.err.contains("warning: sampled: 20 of 1000 blocks"), "{}", csv.err);
    // A sample of all blocks is none.
    assert_eq!(saxpy(&bench, &["--json", "--sample", "1000"]).exits(0).json(), full);
}

#[test]
fn a_difference_shows_that_a_file_is_sampled() {
    let bench = Bench::bare();
    for (file, more) in [("full.json", &["--json"][..]), ("sample.json", &["--json", "--sample", "20"])] {
        fs::write(bench.dir.path().join(file), saxpy(&bench, more).exits(0).out).unwrap();
    }
    let mixed = counters(&bench, &["diff", "full.json", "sample.json", "--totals"]).exits(1);
    assert!(mixed.err.contains("sample.json contains counters of a sample"), "{}", mixed.err);
    assert!(mixed.err.contains("(sampled)"), "{}", mixed.err);
    let same = counters(&bench, &["diff", "sample.json", "sample.json"]).exits(0);
    assert_eq!(same.err, "no counter differs (sampled)\n");
    let json = counters(&bench, &["diff", "sample.json", "sample.json", "--json"]).exits(0).json();
    assert_eq!(json["kind"], "sampled");
}

#[test]
fn wrong_sizes_and_commands_that_need_all_blocks() {
    let bench = Bench::bare();
    for size in ["3", "0%", "x", "101%"] {
        let wrong = saxpy(&bench, &["--sample", size]).exits(2);
        assert!(wrong.err.contains("expected a number of blocks of at least 4"), "{}", wrong.err);
    }
    // A check of some blocks would miss races, and their results are not those of the launch.
    let kernel = bench.kernel("run_saxpy.ptx");
    for command in ["check", "run", "gate"] {
        let wrong = bench.run([command, &kernel, "--sample", "20"]).exits(2);
        assert!(wrong.err.contains("--sample"), "{}", wrong.err);
    }
}

/// Each block takes a ticket.
const TICKET: &str = "\
//@launch: kernel=ticket grid=100 block=32 arg=next:u32[1] arg=y:u32[100]
.version 8.0
.target sm_80
.address_size 64
.visible .entry ticket(.param .u64 next, .param .u64 y)
{
    .reg .b32 %t; .reg .b64 %n, %y, %o;
    ld.param.u64 %n, [next];
    ld.param.u64 %y, [y];
    atom.global.add.u32 %t, [%n], 1;
    and.b32 %t, %t, 63;
    mul.wide.u32 %o, %t, 4;
    add.u64 %y, %y, %o;
    st.global.u32 [%y], %t;
    ret;
}
";

#[test]
fn blocks_that_communicate_are_refused() {
    let bench = Bench::bare();
    fs::write(bench.dir.path().join("ticket.ptx"), TICKET).unwrap();
    counters(&bench, &["ticket.ptx"]).exits(0);
    let refused = counters(&bench, &["ticket.ptx", "--sample", "10"]).exits(3);
    assert!(refused.err.contains("cannot count a sample of the blocks of `ticket`"), "{}", refused.err);
    assert!(refused.err.contains("its blocks may communicate"), "{}", refused.err);
    assert_eq!(refused.out, "");
    let json = counters(&bench, &["ticket.ptx", "--sample", "10", "--json"]).exits(3).json();
    holds(&json);
    assert_eq!((&json["outcome"], &json["launches"]), (&json!("unsupported"), &json!([])));
}

/// The second kernel loops as often as the first one has written.
const SEQUENCE: &str = "\
//@launch: kernel=lengths grid=64 block=32 arg=n:out:i32[64]
//@launch: kernel=loops grid=64 block=32 arg=n:in arg=y:out:f32[2048]
extern \"C\" __global__ void lengths(int *n)
{
    if (threadIdx.x == 0)
        n[blockIdx.x] = 7;
}
extern \"C\" __global__ void loops(const int *n, float *y)
{
    float sum = 0;
#pragma unroll 1
    for (int i = 0; i < n[blockIdx.x]; i++)
        sum = sum * 0.5f + i;
    y[32 * blockIdx.x + threadIdx.x] = sum;
}
";

#[test]
fn toolchain_a_launch_before_another_leaves_all_of_its_results() {
    let bench = Bench::new();
    fs::write(bench.dir.path().join("sequence.cu"), SEQUENCE).unwrap();
    let full = counters(&bench, &["sequence.cu", "--json"]).exits(0).json();
    let sample = counters(&bench, &["sequence.cu", "--json", "--sample", "8"]).exits(0).json();
    holds(&sample);
    assert_eq!(full["launches"].as_array().unwrap().len(), 2);
    for launch in 0..2 {
        let of = |json: &Value| json["launches"][launch]["counters"].clone();
        assert_eq!(sample["launches"][launch]["kind"], "sampled");
        assert_eq!(of(&sample), of(&full));
    }
}

#[test]
fn toolchain_a_matrix_product_is_predicted_from_a_sample() {
    let bench = Bench::new();
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/cuda/gemm_cp_async.cu");
    fs::copy(corpus, bench.dir.path().join("gemm.cu")).unwrap();
    let launch = [
        ["gemm.cu", "--kernel", "gemm_cp_async", "--grid"],
        ["8,12", "--block", "128", "--arg"],
        ["a:f16[98304]=randn(seed=0)", "--arg", "b:f16[65536]=randn(seed=1)", "--arg"],
        ["c:f32[393216]", "--arg", "m:u32=768", "--arg"],
        ["n:u32=512", "--arg", "k:u32=128", "--all"],
    ]
    .concat();
    let explain = |more: &[&str]| bench.run([&["explain"], &launch[..], more].concat()).exits(0);
    let full = explain(&["--json"]).json();
    let sample = explain(&["--json", "--sample", "16"]).json();
    assert_eq!((full.get("sampled"), &sample["sampled"]["of"]), (None, &json!(96)));
    // Every block does the same, and all of each array is accessed.
    assert_eq!(sample["predicted"], full["predicted"]);
    assert_eq!(sample["counted"], full["counted"]);
    assert!(sample["remarks"][0].as_str().unwrap().contains("16 of 96 blocks"), "{}", sample["remarks"]);
    let text = explain(&["--sample", "16"]).out;
    assert!(text.contains("  sampled         16 of 96 blocks; counts are scaled"), "{text}");
    explain(&["--sample", "16", "-o", "page.html", "--trace", "trace.json"]);
    let written = |name: &str| fs::read_to_string(bench.dir.path().join(name)).unwrap();
    assert!(written("page.html").contains("Sampled: 16 of 96 blocks"));
    let trace: Value = serde_json::from_str(&written("trace.json")).unwrap();
    assert!(trace["otherData"]["sampled"][0].as_str().unwrap().contains("16 of 96 blocks"));
}
