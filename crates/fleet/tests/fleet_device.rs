//! Devices in workers, with Warpproof's own driver: a worker with the requested device evaluates, one evaluation per device at a
//! time, inside the sandbox. These tests cannot show that real hardware behaves the same.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bench;
mod fleet_stand;
mod tasks;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use bench::{Bench, Run};
use fleet_stand::{Fleet, stop};
use serde_json::Value;
use tasks::SCALED_ADD;
use warpproof_evidence::ledger::{Ledger, read_segment};
use warpproof_evidence::record::{Body, FigureKind, Stage};

/// The default device of Warpproof's driver, under the name that workers report.
const L4: &str = "predicted-cuda:NVIDIA L4";

/// Iterations of each kernel, in multiples of the array's length: the baseline does the most redundant work, each other kernel
/// less.
const WALKS: [(&str, u32); 6] = [("slow", 400), ("a", 200), ("b", 100), ("c", 50), ("d", 25), ("e", 12)];

fn write_task(bench: &Bench) {
    let source = WALKS.map(|(name, steps)| {
        format!(
            "extern \"C\" __global__ void {name}(const float* x, float* y, unsigned m) {{\n    \
             unsigned i = threadIdx.x, s = i;\n    \
             for (unsigned n = 0; n < {steps}u * m; ++n) s = s * 1664525u + 1013904223u;\n    \
             if (i < m) y[i] = s == 7u ? 0.0f : 2.0f * x[i] + 1.0f;\n}}\n"
        )
    });
    let candidates = WALKS.map(|(name, _)| {
        format!(
            "\n[[candidate]]\nname = \"{name}\"\nsource = \"kernels.cu\"\nlaunch = [{{ kernel = \"{name}\", grid = 1, \
             block = 128, arguments = [\"x\", \"y\", {{ value = \"m\", dtype = \"u32\" }}] }}]\n"
        )
    });
    let (task, source) = (format!("{SCALED_ADD}{}", candidates.concat()), source.concat());
    fs::write(bench.dir.path().join("task.toml"), task).unwrap();
    fs::write(bench.dir.path().join("kernels.cu"), source).unwrap();
}

/// Makes a command use Warpproof's driver, with these devices.
fn on_driver(bench: &Bench, mut command: Command, devices: &str) -> Command {
    let path = bench.run(["exec", "--library-path"]).exits(0).out;
    command.env("LD_LIBRARY_PATH", path.trim()).env("WARPPROOF_DEVICE", devices);
    command.env("WARPPROOF_CHECKS", "none").env("WARPPROOF_CLOCK", "model");
    command
}

fn worker(bench: &Bench, fleet: &Fleet, devices: &str, more: &[&str]) -> Command {
    let all = [&["worker", "--fleet", &fleet.url, "--jobs", "0"], more].concat();
    on_driver(bench, fleet.command(bench, &all), devices)
}

fn start(mut command: Command) -> Child {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Waits until the submission is in the queue.
fn queued(bench: &Bench, fleet: &Fleet, capability: &str, asker: &mut Child) {
    let line = format!("queued   {capability}\n");
    while !fleet.run(bench, &["fleet", "--fleet", &fleet.url, "status"]).exits(0).out.contains(&line) {
        assert!(asker.try_wait().unwrap().is_none(), "no job is queued for {capability}");
        thread::sleep(Duration::from_millis(100));
    }
}

fn without_runs(report: &Value) -> Value {
    let mut candidates = report["candidates"].clone();
    for candidate in candidates.as_array_mut().unwrap() {
        candidate["run"] = Value::Null;
    }
    candidates
}

#[test]
fn toolchain_who_has_the_device_that_is_asked_for_judges() {
    let bench = Bench::new();
    write_task(&bench);
    let mut local = on_driver(&bench, bench.command(), "l4");
    local.args(["gate", "task.toml", "slow", "b", "--gpu", "--json", "--ledger", "local"]);
    let local = Run::of(&local.output().unwrap()).exits(0).json();
    let fleet = Fleet::start(&bench);
    let gate = ["gate", "task.toml", "slow", "b", "--json", "--ledger", "remote", "--fleet", &fleet.url];
    let ask = |device: &[&str]| start(fleet.command(&bench, &[&gate[..], device].concat()));

    // A request for a device does not run on a predicted device, and not on a worker without a device.
    let mut any = ask(&["--gpu"]);
    queued(&bench, &fleet, "cuda", &mut any);
    let software =
        ["worker", "--fleet", &fleet.url, "--jobs", "1", "--until-idle", "--directory", "software"];
    let software = fleet.run(&bench, &software).exits(0).err;
    assert!(software.contains("0 accepted"), "{software}");
    let predicting = worker(&bench, &fleet, "l4", &["--gpu", "--until-idle", "--directory", "idle"]).output();
    let predicting = Run::of(&predicting.unwrap()).exits(0).err;
    assert!(predicting.contains(L4) && predicting.contains("0 accepted"), "{predicting}");
    assert!(Command::new("kill").args(["-INT", &any.id().to_string()]).status().unwrap().success());
    assert_eq!(any.wait_with_output().unwrap().status.code(), Some(5));

    // A request for a capability that a worker reports gets the same result as a local run, from inside the sandbox.
    let mut asked = ask(&["--device", L4]);
    queued(&bench, &fleet, L4, &mut asked);
    let done = worker(&bench, &fleet, "l4", &["--gpu=0", "--until-idle", "--directory", "gpu"]).output();
    let done = Run::of(&done.unwrap()).exits(0).err;
    assert!(done.contains("2 accepted"), "{done}");
    let remote = Run::of(&asked.wait_with_output().unwrap()).exits(0).json();
    assert_eq!(without_runs(&remote), without_runs(&local));
    let b = &remote["candidates"][1];
    assert_eq!((&b["verdict"], &b["stages"][2]["outcome"]), (&"PROVISIONAL".into(), &"PASS".into()), "{b:#}");
    let ledger = Ledger::open(bench.dir.path().join("remote")).unwrap();
    assert!(ledger.verify().unwrap().is_sound());
    for record in ledger.records().unwrap() {
        if let Body::Step(step) = record.unwrap().body
            && step.stage == Stage::Speed
        {
            assert!(step.figures.iter().all(|figure| figure.kind == FigureKind::Predicted), "{step:?}");
        }
    }
    // A missing device is reported before anything is claimed.
    let absent = worker(&bench, &fleet, "l4", &["--gpu=3", "--directory", "gpu"]).output().unwrap();
    assert!(Run::of(&absent).exits(2).err.contains("there is no device 3"));
}

/// The devices of the running evaluations, by directory.
fn under_way(jobs: &Path) -> BTreeMap<String, u64> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(jobs).into_iter().flatten().flatten() {
        // An evaluation that has just ended, or just begun, has no readable order.
        let Ok(text) = fs::read(entry.path().join("order.json")) else { continue };
        let Ok(order) = serde_json::from_slice::<Value>(&text) else { continue };
        found.insert(entry.file_name().into_string().unwrap(), order["device"].as_u64().unwrap());
    }
    found
}

#[test]
fn toolchain_each_device_has_one_evaluation_at_a_time_and_all_work_at_once() {
    let bench = Bench::new();
    write_task(&bench);
    let fleet = Fleet::start(&bench);
    let both = start(worker(&bench, &fleet, "l4,l4", &["--gpu", "--directory", "w"]));
    let gate = ["gate", "task.toml", "--json", "--ledger", "ledger", "--fleet", &fleet.url, "--device", L4];
    let mut gate = start(fleet.command(&bench, &gate));
    let jobs = bench.dir.path().join("w/jobs");
    let (mut seen, mut at_once) = (BTreeMap::new(), 0);
    while gate.try_wait().unwrap().is_none() {
        let now = under_way(&jobs);
        let devices: BTreeSet<&u64> = now.values().collect();
        // Directories are listed one after another: only those that also exist in the next listing existed at the same time.
        if devices.len() < now.len() {
            let still = under_way(&jobs);
            let both: Vec<&u64> =
                now.iter().filter(|(name, _)| still.contains_key(*name)).map(|(_, one)| one).collect();
            assert_eq!(both.len(), both.iter().collect::<BTreeSet<_>>().len(), "{now:?}, {still:?}");
        }
        at_once = at_once.max(devices.len());
        seen.extend(now);
        thread::sleep(Duration::from_millis(3));
    }
    let report = Run::of(&gate.wait_with_output().unwrap()).exits(0).json();
    assert_eq!(report["candidates"].as_array().unwrap().len(), WALKS.len());
    assert_eq!((at_once, seen.len()), (2, WALKS.len()), "{seen:?}");
    assert_eq!(seen.values().collect::<BTreeSet<_>>().len(), 2, "{seen:?}");

    // A second worker does not get a device that another worker uses.
    let second = worker(&bench, &fleet, "l4,l4", &["--gpu=1", "--directory", "v"]).output().unwrap();
    assert!(Run::of(&second).exits(2).err.contains("device 1 is in use by another worker"));
    // To the server each device is a worker.
    let status = fleet.run(&bench, &["fleet", "--fleet", &fleet.url, "status"]).exits(0).out;
    assert!(status.contains("-gpu0: ") && status.contains("-gpu1: "), "{status}");
    stop(both);

    // Baseline and candidate are in one segment, of one run, with one device.
    let all = Ledger::open(bench.dir.path().join("ledger")).unwrap();
    let mut timings = 0;
    for name in all.segment_names().unwrap() {
        let records = read_segment(&name, &all.segment_text(&name).unwrap()).unwrap();
        let clocks: Vec<String> = records
            .iter()
            .filter_map(|record| match &record.body {
                Body::Run(run) => run.host.get("event clock").cloned(),
                _ => None,
            })
            .collect();
        let timed: BTreeSet<&str> = records
            .iter()
            .filter_map(|record| match &record.body {
                Body::Step(step) if step.stage == Stage::Speed && step.from.is_none() => {
                    Some(step.candidate.as_str())
                }
                _ => None,
            })
            .collect();
        // The run that combines all of them times nothing.
        if !timed.is_empty() {
            assert_eq!(clocks.len(), 1, "{clocks:?}");
            assert!(timed.contains("slow"), "{timed:?}");
            timings += 1;
        }
    }
    assert_eq!(timings, WALKS.len());
}
