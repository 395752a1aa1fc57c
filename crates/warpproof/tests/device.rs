//! CUDA devices of the tools, `run --device` and `gate --gpu`, on Warpproof's own driver: modules are
//! loaded, launched, compared with the reference, timed and evaluated, by the code that drives NVIDIA's
//! driver. These tests cannot show that hardware agrees.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, and reports what it does not test")]

mod bench;
mod tasks;

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use bench::{Bench, Run, kernels};
use serde_json::{Value, json};
use tasks::SCALED_ADD;
use warpproof_evidence::ledger::Ledger;
use warpproof_evidence::record::{Body, Figure, FigureKind, Outcome, Stage, StepRecord, Verdict};
use warpproof_evidence::verdict::decide;
use warpproof_task::Task;

/// y = 2 x; `wrong` writes one element out of bounds.
const MODULE: &str = "
//@launch: kernel=twice grid=2 block=32 arg=x:f32[64]=iota arg=y:f32[64]
.version 8.7
.target sm_89
.address_size 64
.visible .entry twice(.param .u64 x, .param .u64 y)
{
    .reg .b64 %rd<8>; .reg .b32 %r<8>; .reg .f32 %f<4>;
    ld.param.u64 %rd1, [x];
    ld.param.u64 %rd2, [y];
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %tid.x;
    mad.lo.u32 %r3, %r1, 32, %r2;
    mul.wide.u32 %rd3, %r3, 4;
    add.s64 %rd4, %rd1, %rd3;
    add.s64 %rd5, %rd2, %rd3;
    ld.global.f32 %f1, [%rd4];
    add.f32 %f2, %f1, %f1;
    st.global.f32 [%rd5], %f2;
    ret;
}
.visible .entry wrong(.param .u64 x, .param .u64 y)
{
    .reg .b64 %rd<4>; .reg .b32 %r<4>;
    ld.param.u64 %rd1, [y];
    mov.u32 %r1, 7;
    st.global.u32 [%rd1+1099511627776], %r1;
    ret;
}
";

/// y = 2 x + 1: directly, and after a loop without effect.
const SOURCE: &str = r#"
extern "C" __global__ void direct(const float* x, float* y, unsigned m) {
    unsigned i = threadIdx.x;
    if (i < m) y[i] = 2.0f * x[i] + 1.0f;
}
extern "C" __global__ void slow(const float* x, float* y, unsigned m) {
    unsigned i = threadIdx.x, s = i;
    for (unsigned n = 0; n < 1000000u; ++n) s = s * 1664525u + 1013904223u;
    if (i < m) y[i] = s == 7u ? 0.0f : 2.0f * x[i] + 1.0f;
}
"#;

/// The candidates of the task: the baseline, and the faster one.
const CANDIDATES: &str = r#"
[[candidate]]
name = "slow"
source = "kernels.cu"
launch = [{ kernel = "slow", grid = 1, block = 128, arguments = ["x", "y", { value = "m", dtype = "u32" }] }]

[[candidate]]
name = "direct"
source = "kernels.cu"
launch = [{ kernel = "direct", grid = 1, block = 128, arguments = ["x", "y", { value = "m", dtype = "u32" }] }]
"#;

/// The task, timed with a warm and with a cold cache.
fn task() -> String {
    SCALED_ADD.replace("[\"warm\"]", "[\"warm\", \"cold\"]") + CANDIDATES
}

const ATTENTION: &str = r#"
name = "on-a-device"
version = 1
operator = "attention"
seeds = [1]
distributions = ["normal"]
shape = [{ name = "small", axes = { b = 1, h = 2, s = 64, d = 64 } }]
tolerance = { policy = "derived", derivation = "that of the family" }
target = { architectures = ["sm_89"], devices = ["l4"] }
gate = [{ stage = "build" }, { stage = "correct" }, { stage = "speed" }, { stage = "profile" }, { stage = "external" }]
baseline = [{ candidate = "n3", role = "speed", for = ["n4"] }, { external = "torch-sdpa", role = "context" }]
candidate = [{ name = "n3", rung = "n3" }, { name = "n4", rung = "n4" }]

[timing]
l2 = ["warm"]
pairs = 40
confidence = 0.95
reduction = { at_least = 0.05, source = "a test" }
grades = { good = 0.05, excellent = 0.2, outstanding = 0.4, source = "a test" }
"#;

/// A command that finds Warpproof's driver, and the libraries of a folder before it.
fn on_driver(bench: &Bench, folder: Option<&Path>) -> Command {
    let path = bench.run(["exec", "--library-path"]).exits(0).out;
    let mut folders: Vec<PathBuf> = folder.map(Path::to_path_buf).into_iter().collect();
    folders.push(PathBuf::from(path.trim()));
    let mut command = bench.command();
    command.env("LD_LIBRARY_PATH", std::env::join_paths(folders).unwrap()).env("WARPPROOF_CHECKS", "none");
    command
}

fn run(command: &mut Command) -> Run {
    Run::of(&command.output().unwrap())
}

/// A candidate in the output of `gate --json`.
fn candidate<'r>(report: &'r Value, name: &str) -> &'r Value {
    report["candidates"].as_array().unwrap().iter().find(|one| one["candidate"] == name).unwrap()
}

fn stage<'r>(report: &'r Value, name: &str, stage: &str) -> &'r Value {
    candidate(report, name)["stages"].as_array().unwrap().iter().find(|one| one["stage"] == stage).unwrap()
}

fn figure(stage: &Value, name: &str) -> Option<f64> {
    let all = stage["figures"].as_array().unwrap();
    all.iter().find(|one| one["name"] == name).and_then(|one| one["value"].as_f64())
}

#[test]
fn a_launch_on_a_device_gives_what_the_software_gpu_gives() {
    let bench = Bench::bare();
    fs::write(bench.dir.path().join("module.ptx"), MODULE).unwrap();
    let there = run(on_driver(&bench, None).args(["run", "module.ptx", "--device", "cuda:0", "--json"]));
    let there = there.exits(0).json();
    let here = bench.run(["run", "module.ptx", "--json"]).exits(0).json();
    assert_eq!(there["outputs"], here["outputs"]);
    assert_eq!(there["outputs"][1]["values"][3], 6.0);
    assert_eq!(there["device"]["predicted"], true);
    // A device counts nothing.
    assert!(there.get("instructions").is_none() && here.get("instructions").is_some());
    let said =
        run(on_driver(&bench, None).args(["run", "module.ptx", "--device", "cuda:0", "--print", "y:2"]));
    let said = said.exits(0);
    assert_eq!(said.out, "y: f32[64] = 0.0 2.0 … (62 more)\n");
    assert!(said.err.contains("Warpproof's own: times are predicted"), "{}", said.err);
}

/// A `libcuda.so.1` compiled from this C code.
fn foreign(bench: &Bench, source: &str) -> PathBuf {
    let folder = bench.dir.path().join("foreign");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("cuda.c"), source).unwrap();
    let library = folder.join("libcuda.so.1");
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(folder.join("cuda.c"));
    assert!(compiler.status().unwrap().success());
    fs::copy(&library, folder.join("libcuda.so")).unwrap();
    folder
}

#[test]
fn a_library_that_is_no_driver_is_a_message() {
    let bench = Bench::bare();
    fs::write(bench.dir.path().join("module.ptx"), MODULE).unwrap();
    for source in ["int nothing;", "int cuInit(unsigned flags) { return flags; }"] {
        let folder = foreign(&bench, source);
        let mut command = bench.command();
        command.env("LD_LIBRARY_PATH", &folder).args(["run", "module.ptx", "--device", "cuda:0"]);
        let said = run(&mut command).exits(2).err;
        assert!(said.contains("it lacks cuCtxSetCurrent, cuCtxSynchronize, cuDeviceGet and "), "{said}");
        assert!(said.contains("LD_LIBRARY_PATH"), "{said}");
    }
}

#[test]
fn what_a_device_cannot_do_is_told() {
    let bench = Bench::bare();
    fs::write(bench.dir.path().join("module.ptx"), MODULE).unwrap();
    let refused = |arguments: &[&str], code: i32, reason: &str| {
        let said = run(on_driver(&bench, None).args(arguments)).exits(code).err;
        assert!(said.contains(reason), "{said}");
    };
    refused(&["run", "module.ptx", "--device", "cuda:7"], 2, "there is no device 7: the driver has 1");
    refused(&["run", "module.ptx", "--device", "gpu"], 2, "cuda:N");
    refused(
        &["run", "module.ptx", "--device", "cuda:0", "--seed", "1"],
        2,
        "a CUDA device schedules its own warps",
    );
    refused(&["check", "module.ptx", "--device", "cuda:0"], 2, "a CUDA device does not report its accesses");
    refused(
        &["counters", "module.ptx", "--device", "cuda:0"],
        2,
        "a CUDA device does not report its accesses",
    );
    let wrong = ["run", "module.ptx", "--device", "cuda:0", "--kernel", "wrong", "--block", "1"];
    let arrays = ["--arg", "x:f32[64]", "--arg", "y:f32[64]"];
    refused(&[&wrong[..], &arrays[..]].concat(), 1, "CUDA_ERROR_ILLEGAL_ADDRESS");
}

#[test]
fn toolchain_without_a_driver_it_says_so() {
    let bench = Bench::bare();
    fs::write(bench.dir.path().join("module.ptx"), MODULE).unwrap();
    let said = bench.run(["run", "module.ptx", "--device", "cuda:0"]);
    if said.code == Some(0) {
        eprintln!("skipped: this machine has a driver");
        return;
    }
    let said = said.exits(2);
    assert!(said.err.contains("no NVIDIA driver") && said.err.contains("omit --device"), "{}", said.err);
    let bench = Bench::new();
    fs::write(bench.dir.path().join("task.toml"), ATTENTION).unwrap();
    let said = bench.run(["gate", "task.toml", "--gpu"]).exits(2).err;
    assert!(said.contains("no CUDA device found: no NVIDIA driver"), "{said}");
}

#[test]
fn the_process_behind_the_gate_answers_line_by_line() {
    let bench = Bench::bare();
    let mut child = on_driver(&bench, None)
        .arg("device-runner")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut answers = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut ask = |request: Value| -> Value {
        writeln!(input, "{request}").unwrap();
        serde_json::from_str(&answers.next().unwrap().unwrap()).unwrap()
    };
    assert_eq!(ask(json!({ "op": "open", "device": 0 }))["identity"]["predicted"], true);
    let module = ask(json!({ "op": "load", "ptx": MODULE }))["module"].clone();
    let x = ask(json!({ "op": "allocate", "bytes": 256 }))["memory"].clone();
    let y = ask(json!({ "op": "allocate", "bytes": 256 }))["memory"].clone();
    // 1.0, 64 times.
    assert_eq!(ask(json!({ "op": "write", "memory": x, "hex": "0000803f".repeat(64) }))["answer"], "done");
    let argument = |memory: &Value| memory["address"].as_u64().unwrap().to_le_bytes();
    let launch = json!({
        "module": module, "kernel": "twice", "grid": [2, 1, 1], "block": [32, 1, 1], "shared": 0,
        "arguments": [argument(&x), argument(&y)],
    });
    assert_eq!(ask(json!({ "op": "launch", "launch": launch }))["answer"], "done");
    assert_eq!(ask(json!({ "op": "read", "memory": y }))["hex"], "00000040".repeat(64));
    let mut time = |batch: &str, repeat: u32| {
        let request =
            json!({ "op": "time", "launches": [launch], "repeat": repeat, "batch": batch, "cold": false });
        ask(request)["elapsed_ps"].as_u64().unwrap()
    };
    for batch in ["graph", "stream"] {
        let (one, four) = (time(batch, 1), time(batch, 4));
        assert!(one > 0 && four.abs_diff(4 * one) <= one, "{batch}: {one} and {four}");
    }
    // Errors are replies, and leave the state unchanged.
    let mut refused = |request: Value, reason: &str| {
        let said = ask(request);
        assert!(said["error"].as_str().unwrap().contains(reason), "{said}");
    };
    refused(json!({ "op": "load", "ptx": "no PTX" }), "cuModuleLoadDataEx");
    refused(json!({ "op": "write", "memory": y, "hex": "00".repeat(257) }), "257 bytes do not fit into 256");
    refused(
        json!({ "op": "read", "memory": { "address": 1, "bytes": 1 } }),
        "there is no allocation of 1 bytes at 0x1",
    );
    refused(json!({ "op": "unload", "module": 77 }), "no module with this number");
    refused(json!({ "op": "time", "launches": [], "repeat": 1, "batch": "graph", "cold": true }), "launches");
    let mut unknown = launch.clone();
    unknown["kernel"] = "thrice".into();
    refused(json!({ "op": "launch", "launch": unknown }), "`thrice`");
    // Fewer arguments than the kernel has parameters: the missing ones are 0, and nothing beyond the
    // arguments is read.
    let mut few = launch.clone();
    few["arguments"] = json!([]);
    refused(json!({ "op": "launch", "launch": few }), "CUDA_ERROR_ILLEGAL_ADDRESS");
    drop(input);
    assert!(child.wait().unwrap().success());
}

/// The steps of a candidate in the ledger.
fn steps(ledger: &Ledger, name: &str) -> Vec<StepRecord> {
    let records = ledger.records().unwrap().map(|record| record.unwrap().body);
    let steps = records.filter_map(|body| match body {
        Body::Step(step) if step.candidate == name && step.part.is_none() => Some(step),
        _ => None,
    });
    steps.collect()
}

#[test]
fn toolchain_kernels_of_any_task_are_timed_and_a_prediction_is_never_merged() {
    let bench = Bench::new();
    fs::write(bench.dir.path().join("task.toml"), task()).unwrap();
    fs::write(bench.dir.path().join("kernels.cu"), SOURCE).unwrap();
    let report = run(on_driver(&bench, None).env("WARPPROOF_CLOCK", "model").args([
        "gate",
        "task.toml",
        "--gpu",
        "--json",
        "--ledger",
        "ledger",
    ]))
    .exits(0)
    .json();
    let speed = stage(&report, "direct", "speed");
    // Much faster, but still not MERGE.
    assert_eq!(speed["outcome"], "PASS", "{speed}");
    assert!(figure(speed, "latency reduction").unwrap() > 0.2, "{speed}");
    assert_eq!(candidate(&report, "direct")["verdict"], "PROVISIONAL");
    assert!(candidate(&report, "direct")["reason"].as_str().unwrap().contains("not measured on a device"));
    for one in speed["figures"].as_array().unwrap() {
        assert_eq!(one["kind"], "predicted", "{one}");
    }
    let ledger = Ledger::open(bench.dir.path().join("ledger")).unwrap();
    let run = ledger.records().unwrap().find_map(|record| match record.unwrap().body {
        Body::Run(run) => Some(run),
        _ => None,
    });
    let host = run.unwrap().host;
    assert!(host["event clock"].ends_with("times are predicted") && !host.contains_key("device"), "{host:?}");

    // Only the kind prevents MERGE: the same figures, if measured, would merge.
    let task = Task::parse(&task()).unwrap();
    let stamped = steps(&ledger, "direct");
    let verdict = |steps: &[StepRecord]| decide(&task, &steps.iter().collect::<Vec<_>>()).verdict;
    assert_eq!(verdict(&stamped), Verdict::Provisional);
    let unstamped = stamped.into_iter().map(|mut step| {
        let measured = |figure: Figure| Figure { kind: FigureKind::Measured, ..figure };
        step.figures = step.figures.into_iter().map(measured).collect();
        step
    });
    assert_eq!(verdict(&unstamped.collect::<Vec<_>>()), Verdict::Merge);
}

#[test]
fn toolchain_a_kernel_that_is_right_at_one_address_is_refused_before_it_is_timed() {
    let bench = Bench::new();
    // The address of the first array on a software GPU without other allocations.
    let probe = "extern \"C\" __global__ void f(unsigned long long* x) { *x = (unsigned long long)x; }\n";
    fs::write(bench.dir.path().join("probe.cu"), probe).unwrap();
    let first = bench.run(["run", "probe.cu", "--block", "1", "--arg", "x:u64[1]", "--json"]).exits(0).json();
    let first = first["outputs"][0]["values"][0].as_u64().unwrap();
    // Right there, and nowhere else.
    let right = "2.0f * x[i] + 1.0f";
    let source = format!(
        "extern \"C\" __global__ void elsewhere(const float* x, float* y, unsigned m) {{\n\
         unsigned i = threadIdx.x;\n\
         if (i < m) y[i] = (unsigned long long)x == {first}ull ? {right} : 0.0f;\n}}\n"
    );
    fs::write(bench.dir.path().join("elsewhere.cu"), source).unwrap();
    let elsewhere = "\n[[candidate]]\nname = \"elsewhere\"\nsource = \"elsewhere.cu\"\n\
         launch = [{ kernel = \"elsewhere\", grid = 1, block = 128, \
         arguments = [\"x\", \"y\", { value = \"m\", dtype = \"u32\" }] }]\n";
    fs::write(bench.dir.path().join("task.toml"), task() + elsewhere).unwrap();
    fs::write(bench.dir.path().join("kernels.cu"), SOURCE).unwrap();
    let report =
        run(on_driver(&bench, None).args(["gate", "task.toml", "elsewhere", "direct", "--gpu", "--json"]));
    let report = report.exits(1).json();
    // Arrays have different addresses in every run, so it is wrong before it runs on a device.
    assert_eq!(stage(&report, "elsewhere", "correct")["outcome"], "FAIL", "{report}");
    assert_eq!(candidate(&report, "elsewhere")["verdict"], "REJECT");
    // The next candidate is timed as usual.
    assert_eq!(stage(&report, "direct", "speed")["outcome"], "PASS", "{report}");
}

#[test]
fn toolchain_what_a_kernel_prints_is_no_answer() {
    let bench = Bench::new();
    // Like `direct`, but prints text, including a line in the format of the runner's replies.
    let kernel = |name: &str, text: &str| {
        format!(
            "extern \"C\" __global__ void {name}(const float* x, float* y, unsigned m) {{\n\
             unsigned i = threadIdx.x;\n\
             if (i == 0) printf(\"%s\\n\", {text:?});\n\
             if (i < m) y[i] = 2.0f * x[i] + 1.0f;\n}}\n"
        )
    };
    let forged = r#"{"answer":"timed","elapsed_ps":1,"before":{},"after":{}}"#;
    let source = format!("{}{}", kernel("chatty", "hello"), kernel("forger", forged));
    fs::write(bench.dir.path().join("printing.cu"), source).unwrap();
    fs::write(bench.dir.path().join("kernels.cu"), SOURCE).unwrap();
    let candidate = |name: &str| {
        format!(
            "\n[[candidate]]\nname = \"{name}\"\nsource = \"printing.cu\"\n\
             launch = [{{ kernel = \"{name}\", grid = 1, block = 128, \
             arguments = [\"x\", \"y\", {{ value = \"m\", dtype = \"u32\" }}] }}]\n"
        )
    };
    let task = SCALED_ADD.to_owned() + CANDIDATES;
    let task = format!("{task}{}{}", candidate("chatty"), candidate("forger"));
    fs::write(bench.dir.path().join("task.toml"), task).unwrap();
    let mut gate = on_driver(&bench, None);
    let report = run(gate.args(["gate", "task.toml", "direct", "chatty", "forger", "--gpu", "--json"]));
    let report = report.exits(0).json();
    let latency = |name: &str| figure(stage(&report, name, "speed"), "latency").unwrap();
    for name in ["chatty", "forger"] {
        assert_eq!(stage(&report, name, "speed")["outcome"], "PASS", "{report}");
        assert!(latency(name) >= latency("direct"), "{report}");
    }
    // It is not part of the JSON output of `run` either.
    let launch = ["--kernel", "chatty", "--block", "32", "--arg", "x:f32[32]=iota", "--arg", "y:f32[32]"];
    let mut command = on_driver(&bench, None);
    command.args(["run", "printing.cu", "--device", "cuda:0", "--json"]).args(launch);
    let said = run(command.args(["--arg", "m:u32=32"])).exits(0);
    assert_eq!(said.json()["outputs"][1]["values"][1], 3.0);
    assert!(said.err.contains("hello"), "{}", said.err);
}

/// A stand-in for a program, as a shell script.
fn script(folder: &Path, name: &str, text: &str) -> PathBuf {
    use std::os::unix::fs::PermissionsExt as _;
    let path = folder.join(name);
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// Runs the program it is given, and writes a table as Nsight Compute does.
const NCU: &str = r#"#!/bin/sh
while [ "$1" != --log-file ]; do shift; done
log=$2
shift 2
"$@"
cat > "$log" <<'TABLE'
==PROF== Connected
"ID","Kernel Name","gpu__time_duration.sum","launch__registers_per_thread"
"","","ns","register/thread"
"0","attention","7,000","128"
TABLE
"#;

#[test]
fn toolchain_rungs_are_timed_profiled_and_set_beside_peers() {
    let bench = Bench::new();
    let folder = bench.dir.path();
    fs::write(folder.join("task.toml"), ATTENTION).unwrap();
    fs::create_dir(folder.join("modules")).unwrap();
    fs::copy(kernels().join("torch_stand_in.py"), folder.join("modules/torch.py")).unwrap();
    let ncu = script(folder, "ncu", NCU);
    let gate = |ledger: &str, stands: Option<&str>| {
        let mut command = on_driver(&bench, None);
        command.args(["gate", "task.toml", "--gpu", "--json", "--ledger", ledger]);
        if let Some(device) = stands {
            command.env("WARPPROOF_NCU", &ncu).env("PYTHONPATH", folder.join("modules"));
            command.env("STAND_IN_DEVICE", device);
        } else {
            command.env("WARPPROOF_NCU", folder.join("nowhere")).env("WARPPROOF_PYTHON", "no-such-python");
        }
        run(&mut command)
    };
    // A peer on another device is skipped.
    let report = gate("with", Some("Another")).exits(0).json();
    let external = stage(&report, "n3", "external");
    assert_eq!(external["outcome"], "SKIPPED", "{external}");
    let reason = external["reason"].as_str().unwrap();
    let device = reason.strip_prefix("torch-sdpa: it runs on Another, but speed is measured on ").unwrap();
    // The failure is not cached.
    let report = gate("with", Some(device)).exits(0).json();
    // A candidate that is not faster ends at the stage speed; the baseline, which is compared with nothing,
    // continues.
    let speed = stage(&report, "n4", "speed");
    assert!(figure(speed, "latency").is_some_and(|us| us > 2.0), "{speed}");
    assert_ne!(candidate(&report, "n4")["verdict"], "MERGE");
    let profile = stage(&report, "n3", "profile");
    assert_eq!(profile["outcome"], "PASS", "{profile}");
    assert_eq!((figure(profile, "duration"), figure(profile, "registers")), (Some(7000.0), Some(128.0)));
    let external = stage(&report, "n3", "external");
    assert_eq!(external["outcome"], "PASS", "{external}");
    let peers = external["figures"].as_array().unwrap();
    let of = |peer: &str| {
        let found = peers.iter().find(|one| one["at"].as_str().unwrap().contains(peer));
        found.map(|one| (one["value"].as_f64().unwrap() * 1e3).round())
    };
    assert_eq!((of("flash"), of("math"), of("efficient")), (Some(8e3), Some(40e3), None), "{external}");
    let reason = external["reason"].as_str().unwrap();
    assert!(
        reason.contains("efficient on small: No available kernel") && !reason.contains("hidden"),
        "{reason}"
    );
    assert!(reason.contains("cudnn on small: its output is off by 0.5"), "{reason}");
    // Nothing of it was measured.
    for one in [speed, profile, external].iter().flat_map(|stage| stage["figures"].as_array().unwrap()) {
        assert_eq!(one["kind"], "predicted", "{one}");
    }
    // Missing tools cause a skip, and the ledger has the reason.
    gate("without", None).exits(0);
    let steps = steps(&Ledger::open(folder.join("without")).unwrap(), "n3");
    let why = |stage: Stage| {
        let step = steps.iter().find(|step| step.stage == stage).unwrap();
        assert_eq!(step.outcome, Outcome::Skipped);
        step.reason.clone()
    };
    assert!(why(Stage::Profile).contains("which is not a file"), "{}", why(Stage::Profile));
    assert!(why(Stage::External).contains("cannot run no-such-python"), "{}", why(Stage::External));
}

#[test]
fn toolchain_clocks_are_read_pinned_and_put_back() {
    let bench = Bench::new();
    let folder = bench.dir.path();
    fs::write(folder.join("task.toml"), SCALED_ADD.to_owned() + CANDIDATES).unwrap();
    fs::write(folder.join("kernels.cu"), SOURCE).unwrap();
    fs::create_dir(folder.join("nvml")).unwrap();
    let made = Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .arg(folder.join("nvml/libnvidia-ml.so.1"))
        .arg(kernels().join("libnvml.c"))
        .status();
    if !made.is_ok_and(|status| status.success()) {
        eprintln!("skipped: a C compiler is needed");
        return;
    }
    let log = folder.join("log");
    let gate = |ledger: &str, refuses: bool| {
        let mut command = on_driver(&bench, Some(&folder.join("nvml")));
        command.args(["gate", "task.toml", "--gpu=0", "--pin-clock", "1500", "--json", "--ledger", ledger]);
        command.env("STAND_IN_LOG", &log);
        if refuses {
            command.env("STAND_IN_REFUSES", "yes");
        }
        run(&mut command).exits(0)
    };
    let report = gate("pinned", false).json();
    let speed = stage(&report, "direct", "speed");
    assert_eq!(figure(speed, "SM clock, before"), Some(1500.0), "{speed}");
    assert_eq!(
        (figure(speed, "power, after"), figure(speed, "temperature, after")),
        (Some(60.0), Some(50.0))
    );
    assert_eq!(fs::read_to_string(&log).unwrap(), "pinned 1500\nreleased 0\n");
    // If pinning is not permitted, a note reports it, and the clock stays unchanged.
    let refused = gate("free", true);
    assert!(refused.err.contains("note: clocks are not pinned:"), "{}", refused.err);
    assert_eq!(figure(stage(&refused.json(), "direct", "speed"), "SM clock, before"), Some(2040.0));
    assert_eq!(fs::read_to_string(&log).unwrap(), "pinned 1500\nreleased 0\n");
}
