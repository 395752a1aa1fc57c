//! `run` and `selftest` as a user starts them.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bench;

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use bench::{Bench, Run};
use serde_json::{Value, json};

/// Runs `warpproof run`.
fn run(bench: &Bench, args: &[&str]) -> Run {
    bench.run(["run"].iter().chain(args))
}

fn outputs(json: &Value) -> &[Value] {
    json["outputs"].as_array().unwrap()
}

#[test]
fn help() {
    let bench = Bench::bare();
    for command in ["run", "selftest", "selftest mma"] {
        let run = bench.run(command.split_whitespace().chain(["--help"])).exits(0);
        insta::assert_snapshot!(format!("help_{}", command.replace(' ', "_")), run.out);
    }
}

#[test]
fn a_launch_line_is_enough() {
    let bench = Bench::bare();
    let kernel = bench.kernel("run_saxpy.ptx");
    let done = run(&bench, &[&kernel, "--print", "y:4", "--print", "x:3"]).exits(0);
    assert_eq!(done.out, "y: f32[50] = 1.0 3.0 5.0 7.0 … (46 more)\nx: f32[50] = 0.0 1.0 2.0 … (47 more)\n");
    assert!(
        done.err.starts_with("saxpy: 2 blocks of 32 threads; 36 warp instructions (counted); "),
        "{}",
        done.err
    );
    assert!(done.err.ends_with(" ms on this machine (measured)\n"), "{}", done.err);
}

#[test]
fn flags_come_before_the_launch_line() {
    let bench = Bench::bare();
    let kernel = bench.kernel("run_saxpy.ptx");
    let done = run(&bench, &[&kernel, "--grid", "1", "--block", "16", "--print", "y:17", "--json"]).exits(0);
    let json = done.json();
    assert_eq!((&json["grid"], &json["block"]), (&json!([1, 1, 1]), &json!([16, 1, 1])));
    assert_eq!(outputs(&json)[1]["values"][15], 31.0);
    assert_eq!(outputs(&json)[1]["values"][16], 1.0);
    let args =
        ["--arg", "n:u32=2", "--arg", "a:f32=-1", "--arg", "x:f32[2]=[1,2]", "--arg", "y:f32[1x2]=0.5"];
    let done = run(&bench, &[&[kernel.as_str()], &args[..], &["--print", "y"]].concat()).exits(0);
    assert_eq!(done.out, "y: f32[1x2] =\n  -0.5 -1.5\n");
}

#[test]
fn json_tells_it_all() {
    let bench = Bench::bare();
    let kernel = bench.kernel("run_saxpy.ptx");
    let mut json = run(&bench, &[&kernel, "--json", "--print", "y:2"]).exits(0).json();
    assert!(json["host_time"]["value"].as_f64().unwrap() > 0.0);
    json["host_time"]["value"] = json!(0);
    insta::assert_snapshot!(serde_json::to_string_pretty(&json).unwrap());
}

#[test]
fn threads_and_schedules_change_nothing() {
    let bench = Bench::bare();
    let kernel = bench.kernel("run_saxpy.ptx");
    let of = |args: &[&str]| {
        let flags = ["--json", "--grid", "9", "--block", "160", "--arg", "n:u32=1400", "--arg", "a:f32=0.1"];
        let arrays = ["--arg", "x:f32[1400]=randn(seed=1)", "--arg", "y:f32[1400]=uniform(-1,1,seed=2)"];
        let mut json =
            run(&bench, &[&[kernel.as_str()], &flags[..], &arrays[..], args].concat()).exits(0).json();
        json["host_time"] = Value::Null;
        json
    };
    let first = of(&["--threads", "1"]);
    for args in [&["--threads", "2"][..], &["--threads", "8"], &["--schedule", "reverse"], &["--seed", "7"]] {
        assert_eq!(first, of(args), "{args:?}");
    }
    assert_eq!(first, of(&["--schedule", "random:3"]));
}

#[test]
fn every_fill_is_the_same_everywhere() {
    let bench = Bench::bare();
    let kernel = bench.kernel("run_nothing.ptx");
    let mut text = String::new();
    for spec in [
        "x:u8[4]",
        "x:i16[4]=zeros",
        "x:bf16[4]=ones",
        "x:f16[4]=-0.5",
        "x:s32[4]=-7",
        "x:u64[4]=0xffffffffffffffff",
        "x:f64[4]=1e-300",
        "x:u8[4]=iota(254)",
        "x:e4m3[4]=arange(start=-1,step=2)",
        "x:f32[2x3]=[1,2,3,4,5.5,inf]",
        "x:i64[]=[1,-2]",
        "x:f32[4]=randn(seed=0)",
        "x:f16[4]=randn(seed=0,mean=1,std=0.25)",
        "x:e5m2[4]=randn(seed=3)",
        "x:f32[4]=uniform(seed=1,lo=-2,hi=2)",
        "x:f64[2]=uniform(0,1,seed=1)",
        "x:i8[4]=randint(-99,99,seed=2)",
        "x:f32[4]=randint(lo=0,hi=9,seed=2)",
        "x:u32[4]=randint(seed=5)",
        "x:u16[0]",
    ] {
        let done = run(&bench, &[&kernel, "--arg", spec, "--print", "x"]).exits(0);
        writeln!(text, "{spec}\n    {}", done.out.trim_end()).unwrap();
    }
    insta::assert_snapshot!(text);
}

#[test]
fn wrong_descriptions_are_explained() {
    let bench = Bench::bare();
    let kernel = bench.kernel("run_nothing.ptx");
    fs::write(bench.dir.path().join("text.npy"), "no tensor").unwrap();
    fs::write(bench.dir.path().join("text.safetensors"), "no tensor").unwrap();
    let mut text = String::new();
    for args in [
        &["--arg", "x"][..],
        &["--arg", ":f32=1"],
        &["--arg", "x:float=1"],
        &["--arg", "x:f32"],
        &["--arg", "x:f32[4"],
        &["--arg", "x:f32[4y4]"],
        &["--arg", "x:f32[99999999x99999999]"],
        &["--arg", "x:f32[]"],
        &["--arg", "x:u8[4]=300"],
        &["--arg", "x:u32[4]=1.5"],
        &["--arg", "x:f32[4]=random"],
        &["--arg", "x:f32[4]=randn(sed=1)"],
        &["--arg", "x:f32[4]=randn(seed=-1)"],
        &["--arg", "x:i32[4]=randn(seed=1)"],
        &["--arg", "x:u8[4]=randint(0,256)"],
        &["--arg", "x:u8[4]=randint(9,1)"],
        &["--arg", "x:f32[4]=uniform(1,2,3,4)"],
        &["--arg", "x:f32[4]=[1,2,3]"],
        &["--arg", "x:f32[4]=@gone.npy"],
        &["--arg", "x:f32[4]=@text.npy"],
        &["--arg", "x:f32[4]=@text.safetensors"],
        &["--arg", "x:f32[4]=@text.txt"],
        &["--arg", "x:f32[4]", "--arg", "x:f32[4]"],
        &["--arg", "x:f32[4]", "--print", "y"],
        &["--arg", "x:f32[4]", "--out", "x"],
        &["--arg", "x:f32[4]", "--out", "x=x.bin"],
        &["--arg", "x:f32[4]", "--kernel", "other"],
        &["--arg", "x:f32[4]", "--block", "64"],
    ] {
        let done = run(&bench, &[&[kernel.as_str()], args].concat()).exits(2);
        writeln!(text, "$ {}\n{}", args.join(" "), done.err.trim_end()).unwrap();
    }
    insta::assert_snapshot!(text);
}

#[test]
fn arguments_that_do_not_fit_the_kernel_are_explained() {
    let bench = Bench::bare();
    let kernel = bench.kernel("run_saxpy.ptx");
    let mut text = String::new();
    for specs in [
        &["n:u32=1"][..],
        &["n:u64=1", "a:f32=1", "x:f32[1]", "y:f32[1]"],
        &["n:u32=1", "a:i32=1", "x:f32[1]", "y:f32[1]"],
        &["n:f32=1", "a:f32=1", "x:f32[1]", "y:f32[1]"],
        &["n:u32=1", "a:f32[1]", "x:f32[1]", "y:f32[1]"],
        &["n:u32=1", "a:f32=1", "y:f32[1]", "x:f32[1]"],
    ] {
        let args: Vec<&str> = specs.iter().flat_map(|spec| ["--arg", spec]).collect();
        let done = run(&bench, &[&[kernel.as_str()], &args[..]].concat()).exits(2);
        writeln!(text, "$ {}\n{}", specs.join(" "), done.err.trim_end()).unwrap();
    }
    insta::assert_snapshot!(text);
}

#[test]
fn files_of_tensors_come_in_and_go_out() {
    let bench = Bench::bare();
    let kernel = bench.kernel("run_saxpy.ptx");
    run(&bench, &[&kernel, "--out", "y=y.npy", "--out", "x=both.safetensors", "--out", "y=both.safetensors"])
        .exits(0);
    let npy = fs::read(bench.dir.path().join("y.npy")).unwrap();
    assert!(npy.starts_with(b"\x93NUMPY\x01\x00"));
    assert_eq!(npy.len(), 128 + 200);
    let again = |x: &str, y: &str| {
        let (x, y) = (format!("x:f32={x}"), format!("y:f32[5x10]={y}"));
        let args = ["--arg", "n:u32=50", "--arg", "a:f32=1", "--arg", &x, "--arg", &y, "--print", "y:11"];
        run(&bench, &[&[kernel.as_str()], &args[..]].concat()).exits(0).out
    };
    // y was 2·i + 1, and i is added.
    let wanted = "y: f32[5x10] =\n  1.0 4.0 7.0 10.0 13.0 16.0 19.0 22.0 25.0 28.0\n  31.0 … (39 more)\n";
    assert_eq!(again("@both.safetensors#x", "@y.npy"), wanted);
    assert_eq!(again("@both.safetensors#x", "@both.safetensors#y"), wanted);
    let nothing = bench.kernel("run_nothing.ptx");
    for (ty, ending) in [("bf16", "npy"), ("e4m3", "npy"), ("e5m2", "safetensors"), ("bf16", "safetensors")] {
        let file = format!("{ty}.{ending}");
        let (spec, out) = (format!("x:{ty}[2x4]=randn(seed=4)"), format!("x={file}"));
        let first = run(&bench, &[&nothing, "--arg", &spec, "--print", "x", "--out", &out]).exits(0);
        let spec = format!("x:{ty}=@{file}");
        assert_eq!(run(&bench, &[&nothing, "--arg", &spec, "--print", "x"]).exits(0).out, first.out);
    }
    let done = run(&bench, &[&nothing, "--arg", "x:f64=@y.npy"]).exits(2);
    assert!(done.err.contains("argument `x`: y.npy contains f32; expected f64"), "{}", done.err);
    let done = run(&bench, &[&nothing, "--arg", "x:f32=@both.safetensors"]).exits(2);
    assert!(
        done.err.contains("contains 2 tensors: select one with `#NAME` (it contains x, y)"),
        "{}",
        done.err
    );
}

#[test]
fn a_write_out_of_bounds_is_shown_at_its_cuda_line() {
    let bench = Bench::bare();
    bench.kernel("run_out_of_bounds.cu");
    let kernel = bench.kernel("run_out_of_bounds.ptx");
    let stopped = run(&bench, &[&kernel]).exits(1);
    let (report, summary) = stopped.err.split_once("\nfill: ").unwrap();
    assert!(summary.starts_with("1 block of 64 threads; "), "{summary}");
    insta::assert_snapshot!(report);
    let json = run(&bench, &[&kernel, "--json"]).exits(1).json();
    assert_eq!(
        (&json["ok"], &json["outcome"], &json["exit_code"]),
        (&json!(false), &json!("kernel"), &json!(1))
    );
    assert_eq!(json["stop"], json!({ "kind": "bounds", "thread": [50, 0, 0], "block": [0, 0, 0] }));
    let place = &json["reports"][0]["place"];
    assert_eq!((&place["file"], &place["line"]), (&json!("run_out_of_bounds.cu"), &json!(7)));
}

#[test]
fn a_gap_of_ours_is_no_bug_of_the_kernel() {
    let bench = Bench::bare();
    let kernel = bench.kernel("run_unsupported.ptx");
    let stopped =
        run(&bench, &[&kernel, "--block", "1", "--arg", "image:u64=0", "--arg", "out:f32[1]"]).exits(3);
    assert!(stopped.err.contains("`tex.2dms.v4.f32.s32` is not supported"), "{}", stopped.err);
    assert!(stopped.err.contains("run_unsupported.ptx:13"), "{}", stopped.err);
    assert!(stopped.err.contains("this is a gap in warpproof, not a bug in the kernel"), "{}", stopped.err);
}

#[test]
fn limits_have_their_own_exit_code() {
    let bench = Bench::bare();
    let kernel = bench.kernel("run_endless.ptx");
    let stopped = run(&bench, &[&kernel, "--block", "32", "--max-instructions", "10000"]).exits(4);
    assert!(stopped.err.contains("more than 10000 warp instructions"), "{}", stopped.err);
    assert!(stopped.err.contains("raise the limit with --max-instructions"), "{}", stopped.err);
    let kernel = bench.kernel("run_nothing.ptx");
    let stopped = run(&bench, &[&kernel, "--arg", "x:f32[2048]", "--max-memory", "8191"]).exits(4);
    assert!(stopped.err.contains("8192 bytes requested with 0 of 8191 in use"), "{}", stopped.err);
    assert!(stopped.err.contains("--max-memory"), "{}", stopped.err);
    run(&bench, &[&kernel, "--arg", "x:f32[2048]", "--max-memory", "8K"]).exits(0);
}

#[test]
fn how_to_launch_is_asked_for() {
    let bench = Bench::bare();
    let kernel = bench.kernel("run_endless.ptx");
    let stopped = run(&bench, &[&kernel]).exits(2);
    assert!(stopped.err.contains("the number of threads per block is not set"), "{}", stopped.err);
    let file = bench.dir.path().join("bad_line.ptx");
    fs::write(&file, "//@launch: grid=zero\n").unwrap();
    let stopped = run(&bench, &["bad_line.ptx"]).exits(2);
    assert!(
        stopped.err.contains("launch line: expected 4, 4,4 or 4,4,4, found the extent `zero`"),
        "{}",
        stopped.err
    );
    assert!(stopped.err.contains("bad_line.ptx:1"), "{}", stopped.err);
    fs::write(&file, "//@launch: cluster=none grid=2 block=32\n").unwrap();
    let stopped = run(&bench, &["bad_line.ptx"]).exits(2);
    assert!(stopped.err.contains("none"), "{}", stopped.err);
    run(&bench, &["gone.ptx"]).exits(2);
    let broken = bench.kernel("broken.ptx");
    run(&bench, &[&broken]).exits(1);
}

#[test]
fn a_cluster_must_fit_on_the_device() {
    let bench = Bench::bare();
    let file = bench.dir.path().join("clusters.ptx");
    let launch = |line: &str, arch: &str| {
        let kernel = format!(
            "//@launch: {line}\n.version 8.0\n.target {arch}\n.address_size 64\n.entry k() {{ ret; }}\n"
        );
        fs::write(&file, kernel).unwrap();
        run(&bench, &["clusters.ptx"])
    };
    launch("grid=32 block=32 cluster=8", "sm_90").exits(0);
    let stopped = launch("grid=32 block=32 cluster=16", "sm_90").exits(2);
    assert!(stopped.err.contains("a cluster of 16 blocks"), "{}", stopped.err);
    assert!(stopped.err.contains("nonportable=true"), "{}", stopped.err);
    launch("grid=32 block=32 cluster=16 nonportable=true", "sm_90").exits(0);
    let stopped = launch("grid=32 block=32 cluster=32 nonportable=true", "sm_90").exits(2);
    assert!(stopped.err.contains("an NVIDIA H100 SXM holds no cluster of 32 blocks"), "{}", stopped.err);
    let stopped = launch("grid=32 block=32 cluster=3", "sm_90").exits(2);
    assert!(stopped.err.contains("not a multiple of the 3 blocks of a cluster"), "{}", stopped.err);
    // 15 clusters of 8 blocks are active if one block fits on each multiprocessor.
    let big = "block=1024 shared=200000 cooperative=true cluster=8";
    launch(&format!("grid=120 {big}"), "sm_90").exits(0);
    let stopped = launch(&format!("grid=128 {big}"), "sm_90").exits(2);
    assert!(stopped.err.contains("at most 120 blocks"), "{}", stopped.err);
    assert!(stopped.err.contains("1 blocks on each, in clusters of 8"), "{}", stopped.err);
}

#[test]
fn printf_goes_to_standard_output() {
    let bench = Bench::bare();
    let kernel = bench.kernel("run_printf.ptx");
    let done = run(&bench, &[&kernel]).exits(0);
    assert_eq!(done.out, "thread 0 of two: 0\nthread 1 of two: 1.5\n");
    let json = run(&bench, &[&kernel, "--json"]).exits(0).json();
    assert_eq!(json["printf"], "thread 0 of two: 0\nthread 1 of two: 1.5\n");
}

#[test]
fn toolchain_cuda_is_compiled_and_run() {
    let bench = Bench::new();
    let kernel = bench.kernel("run_saxpy.cu");
    let done = run(&bench, &[&kernel, "--print", "y:3"]).exits(0);
    assert_eq!(done.out, "y: f32[1000] = 1.0 3.0 5.0 … (997 more)\n");
    let json = run(&bench, &[&kernel, "--json"]).exits(0).json();
    assert_eq!((&json["kernel"], &json["symbol"]), (&json!("saxpy"), &json!("_Z5saxpyifPKfPf")));
    let wrong = run(&bench, &[&kernel, "--arg", "n:i32=1"]).exits(2);
    assert!(
        wrong.err.contains("the kernel is saxpy(int n, float a, const float *x, float *y)"),
        "{}",
        wrong.err
    );
    let kernel = bench.kernel("run_printf.cu");
    assert!(run(&bench, &[&kernel]).exits(0).out.starts_with("thread 0 of two: 0\n"));
    let kernel = bench.kernel("compile_error.cu");
    run(&bench, &[&kernel]).exits(1);
}

#[test]
fn toolchain_cuda_out_of_bounds_is_shown_at_its_line() {
    let bench = Bench::new();
    let kernel = bench.kernel("run_out_of_bounds.cu");
    let stopped = run(&bench, &[&kernel]).exits(1);
    assert!(stopped.err.contains("run_out_of_bounds.cu:7:9"), "{}", stopped.err);
    assert!(stopped.err.contains("out[i] = 1.0f;"), "{}", stopped.err);
    assert!(stopped.err.contains("thread (50,0,0) of block (0,0,0)"), "{}", stopped.err);
    assert!(stopped.err.contains("= note: PTX line "), "{}", stopped.err);
}

#[test]
fn a_newcomer_is_told_what_to_do() {
    let bench = Bench::bare();
    let kernel = bench.kernel("run_saxpy.ptx");
    // A file that cannot be written does not affect the results.
    let done = run(&bench, &[&kernel, "--out", "y=gone/y.npy", "--print", "y:2"]).exits(2);
    assert_eq!(done.out, "y: f32[50] = 1.0 3.0 … (48 more)\n");
    assert!(done.err.contains("cannot write gone/y.npy"), "{}", done.err);
    let done = run(&bench, &[&kernel, "--arch", "sm_999"]).exits(2);
    assert!(done.err.contains("expected one of sm_70, "), "{}", done.err);
    let done = bench.run(["selftest", "mma"]).exits(2);
    assert!(done.err.contains("some of them are in the source"), "{}", done.err);
    bench.run(["build", &kernel, "--shared", "1024", "--toolchain", "."]).exits(2);
    let text = fs::read_to_string(bench.dir.path().join(&kernel)).unwrap();
    fs::write(bench.dir.path().join("mangled.ptx"), text.replace("saxpy", "_Z5saxpyjfPKfPf")).unwrap();
    let args = ["mangled.ptx", "--kernel", "saxpy", "--block", "32", "--arg", "n:u64=1", "--arg", "a:f32=1"];
    let done = run(&bench, &[&args[..], &["--arg", "x:f32[1]", "--arg", "y:f32[1]"]].concat()).exits(2);
    assert!(done.err.contains("expected `unsigned int`, found a value of 8 bytes"), "{}", done.err);
    assert!(done.err.contains("saxpy(unsigned int, float, float const*, float*)"), "{}", done.err);
}

/// The vectors that are committed with the software GPU.
fn vectors() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../num/tests/golden")
}

#[test]
fn the_tensor_cores_agree_with_hardware() {
    let bench = Bench::bare();
    let folder = vectors();
    let done = bench.run(["selftest".as_ref(), "mma".as_ref(), folder.as_os_str()]).exits(0);
    insta::assert_snapshot!(done.out);
    let json = bench
        .run(["selftest".as_ref(), "mma".as_ref(), folder.as_os_str(), "--json".as_ref()])
        .exits(0)
        .json();
    assert_eq!(json["matrices"], json!({ "equal": 25, "total": 25 }));
    assert_eq!(json["silicon_outputs"], json!({ "equal": 1400, "total": 1400 }));
    assert_eq!(json["wmma_outputs"]["equal"], json["wmma_outputs"]["total"]);
}

#[test]
fn one_wrong_bit_is_seen() {
    let bench = Bench::bare();
    let copy = bench.dir.path().join("vectors");
    fs::create_dir_all(copy.join("silicon")).unwrap();
    fs::copy(vectors().join("mma-ada.jsonl"), copy.join("mma-ada.jsonl")).unwrap();
    for name in ["e4m3", "e5m2", "fp16", "bf16", "tf32"] {
        let file = format!("silicon/{name}.txt");
        fs::copy(vectors().join(&file), copy.join(&file)).unwrap();
    }
    let file = copy.join("silicon/bf16.txt");
    let text = fs::read_to_string(&file).unwrap();
    let last = text.trim_end().chars().last().unwrap();
    let flipped = if last == '0' { '1' } else { '0' };
    fs::write(&file, format!("{}{flipped}\n", &text.trim_end()[..text.trim_end().len() - 1])).unwrap();
    let done = bench.run(["selftest", "mma", "vectors"]).exits(1);
    assert!(done.out.contains("1,399 of 1,400 silicon outputs"), "{}", done.out);
    assert!(done.err.contains("1 outputs of the software GPU differ"), "{}", done.err);
    assert!(done.err.contains("silicon/bf16.txt"), "{}", done.err);
    fs::write(copy.join("mma-ada.jsonl"), "{}\n").unwrap();
    let done = bench.run(["selftest", "mma", "vectors"]).exits(2);
    assert!(done.err.contains("invalid vectors: no `op`"), "{}", done.err);
    let done = bench.run(["selftest", "mma", "gone"]).exits(2);
    assert!(done.err.contains("cannot read gone/mma-ada.jsonl"), "{}", done.err);
    bench.run(["selftest", "mma", "gone", "--json"]).exits(2);
}
