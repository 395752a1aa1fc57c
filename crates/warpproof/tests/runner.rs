//! `warpproof gate --gpu` on a stand-in for NVIDIA's driver: rungs are loaded, held against the oracle, timed and judged. The
//! stand-in is no device: what this shows is that the process, its protocol and the gate work together.
#![cfg(target_os = "linux")]
#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test fails by panicking, and says why it is skipped"
)]

mod bench;

use std::fs;
use std::process::Command;

use bench::{Bench, Run, kernels};
use serde_json::Value;
use warpproof_kernels::inputs::{Distribution, generate};
use warpproof_kernels::plan::{Plan, Request};
use warpproof_kernels::problem::Shape;
use warpproof_model::Device;

const TASK: &str = r#"
name = "on-a-device"
version = 1
operator = "attention"
seeds = [1]
distributions = ["normal"]
shape = [{ name = "small", axes = { b = 1, h = 2, s = 64, d = 64 } }]
tolerance = { policy = "derived", derivation = "that of the family" }
target = { architectures = ["sm_89"], devices = ["l4"] }
gate = [{ stage = "build" }, { stage = "correct" }, { stage = "speed" }]
baseline = [{ candidate = "n3", role = "speed", for = ["n4"] }]
candidate = [{ name = "n3", rung = "n3" }, { name = "n4", rung = "n4" }]

[timing]
l2 = ["warm"]
pairs = 60
confidence = 0.95
reduction = { at_least = 0.05, source = "a test" }
grades = { good = 0.05, excellent = 0.2, outstanding = 0.4, source = "a test" }
"#;

/// The stand-in, or nothing where there is no C compiler or no Python.
fn stand_in(bench: &Bench) -> Option<std::path::PathBuf> {
    let library = bench.dir.path().join("stand-in.so");
    let made = Command::new("cc")
        .args(["-O1", "-shared", "-fPIC", "-o"])
        .arg(&library)
        .arg(kernels().join("libcuda.c"))
        .status()
        .is_ok_and(|status| status.success());
    let python = Command::new("python3").arg("--version").output().is_ok_and(|run| run.status.success());
    if !(made && python) {
        eprintln!("skipped: a C compiler and Python are needed");
        return None;
    }
    Some(library)
}

/// What n3 gives on the inputs of the task: within the limits of both rungs.
fn answer() -> Vec<u8> {
    let request = Request { rung: Some("n3".to_owned()), ..Request::new(Shape::equal(1, 2, 64, 64)) };
    let plan = Plan::new(&request, Device::named("l4").unwrap()).unwrap();
    let inputs = generate(&request.shape, Distribution::Normal, 1, request.spec());
    plan.oracles(&inputs).unwrap().bits.output.iter().flat_map(|code| code.to_le_bytes()).collect()
}

#[test]
fn rungs_are_timed_on_a_stand_in_for_the_driver() {
    let Some(bench) = Bench::new() else { return };
    let Some(library) = stand_in(&bench) else { return };
    let right = answer();
    let gate = |ledger: &str, answer: &[u8], unknown: bool| {
        let task = if unknown { TASK.replace("warm", "cold") } else { TASK.to_owned() };
        fs::write(bench.dir.path().join("task.toml"), task).unwrap();
        let file = bench.dir.path().join("answer");
        fs::write(&file, answer).unwrap();
        let mut command = bench.command();
        command.args(["gate", "task.toml", "--gpu", "--json", "--ledger", ledger]);
        command.env("WARPPROOF_LIBCUDA", &library).env("STAND_IN_ANSWER", file);
        command.env("WARPPROOF_LIBNVML", &library);
        if unknown {
            command.env("STAND_IN_UNKNOWN", "yes");
        }
        Run::of(&command.output().unwrap())
    };
    let run = gate("right", &right, false).exits(0).json();
    let of = |run: &Value, name: &str| {
        run["candidates"].as_array().unwrap().iter().find(|one| one["candidate"] == name).unwrap().clone()
    };
    let speed = |run: &Value| {
        let all = of(run, "n4")["stages"].as_array().unwrap().clone();
        all.into_iter().find(|stage| stage["stage"] == "speed").unwrap()
    };
    // The record of the run says what it ran on.
    let recorded = |ledger: &str| {
        let mut all = String::new();
        let mut left = vec![bench.dir.path().join(ledger)];
        while let Some(path) = left.pop() {
            if path.is_dir() {
                left.extend(fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
            } else {
                all.push_str(&String::from_utf8_lossy(&fs::read(path).unwrap()));
            }
        }
        all
    };
    // Faster, and all the same no MERGE: with a driver that was replaced nothing was measured.
    assert_eq!(speed(&run)["outcome"], "PASS", "{run}");
    assert_eq!(of(&run, "n4")["verdict"], "PROVISIONAL", "{run}");
    let figure = |run: &Value, name: &str| {
        let all = speed(run)["figures"].as_array().unwrap().clone();
        assert!(all.iter().all(|one| one["kind"] != "measured"), "{all:?}");
        all.iter().find(|one| one["name"] == name).and_then(|one| one["value"].as_f64())
    };
    // The kernel's time and none of the host's.
    assert!((figure(&run, "latency").unwrap() - 6.0).abs() < 0.1, "{run}");
    assert_eq!(figure(&run, "SM clock, before"), Some(2040.0));
    assert_eq!(figure(&run, "power, after"), Some(60.0));
    let text = recorded("right");
    assert!(text.contains("Stand-in, GPU 5a5a5a5a, driver 570.12, driver library replaced"), "{text}");

    // With a cold cache a launch is timed alone, still without the host: an event takes 0.7 us more, and a tick is 0.512. A device
    // that the management library does not know by its id has no readings.
    let run = gate("unknown", &right, true).exits(0).json();
    assert!((figure(&run, "latency").unwrap() - 6.7).abs() < 0.6, "{run}");
    assert_eq!(figure(&run, "SM clock, before"), None);
    let text = recorded("unknown");
    assert!(text.contains("driver CUDA 12.8"), "{text}");

    // What the device gives is held against the oracle before it is timed.
    let mut wrong = right;
    wrong.fill(0);
    let run = gate("wrong", &wrong, false).exits(1).json();
    assert!(run.to_string().contains("a timed launch gave a wrong output"), "{run}");
}

#[test]
fn without_a_driver_it_says_so() {
    let Some(bench) = Bench::new() else { return };
    fs::write(bench.dir.path().join("task.toml"), TASK).unwrap();
    let mut command = bench.command();
    command.args(["gate", "task.toml", "--gpu"]).env("WARPPROOF_LIBCUDA", "no-such-library");
    let said = Run::of(&command.output().unwrap()).exits(2).err;
    assert!(said.contains("no NVIDIA driver"), "{said}");
}
