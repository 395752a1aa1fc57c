//! A fleet as a user runs it: a server, workers and the gate, with a PostgreSQL that the test starts itself.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bench;
mod fleet_stand;

use std::collections::BTreeMap;
use std::fs;
use std::process::{Child, Command};

use bench::{Bench, Run, watching};
use fleet_stand::{Fleet, stop};
use serde_json::Value;
use warpproof_evidence::hash::Hash;
use warpproof_evidence::ledger::Ledger;
use warpproof_evidence::record::{Body, Finite, StepRecord, VerdictRecord};

const TASK: &str = r#"
name = "doubled"
version = 1
description = "y = 2 x"
operator = "custom"
dtypes = ["f32"]
seeds = [1, 2]
secret_seeds = 0
distributions = ["normal", "structured"]

[[shape]]
name = "main"
axes = { n = 6 }

[[input]]
name = "x"
dtype = "each"
dims = ["n"]

[[output]]
name = "y"
dtype = "each"
dims = ["n"]

[reference]
python = "reference.py"
function = "reference"

[tolerance]
policy = "stated"
absolute = 0.0
relative = 1e-6
rmse = 1e-6
bias = 1e-6
non_finite = "refuse"
derivation = "doubling is exact"

[target]
architectures = ["sm_89"]
devices = ["l4"]

[[gate]]
stage = "build"

[[gate]]
stage = "correct"

[[gate]]
stage = "checks"
"#;

/// A candidate whose source file has its name.
fn candidate(name: &str) -> String {
    format!(
        "\n[[candidate]]\nname = \"{name}\"\nsource = \"kernels/{name}.cu\"\n\n[[candidate.launch]]\nkernel = \
         \"doubled\"\ngrid = 1\nblock = 32\narguments = [\"x\", \"y\", {{ value = \"n\", dtype = \"i32\" }}]\n"
    )
}

fn kernel(body: &str) -> String {
    format!(
        "#include \"factor.cuh\"\nextern \"C\" __global__ void doubled(const float* x, float* y, int n) {{\n    \
         int i = threadIdx.x;\n    {body}\n}}\n"
    )
}

/// Correct kernels, wrong ones, one with the same program as another, and one that does not compile.
const KERNELS: &[(&str, &str)] = &[
    ("product", "if (i < n) y[i] = FACTOR * x[i];"),
    ("sum", "if (i < n) y[i] = x[i] + x[i];"),
    ("twin", "if (i < n) y[i] = FACTOR * x[i];"),
    ("triple", "if (i < n) y[i] = 3.0f * x[i];"),
    ("outside", "y[i] = FACTOR * x[i];"),
    ("racing", "__shared__ float s; s = 2.0f * i; if (i < n) y[i] = FACTOR * x[i] + 0.0f * s;"),
    ("broken", "y[i] = ;"),
];

const REFERENCE: &str = "def reference(x, n):\n    return [2 * x[i] for i in range(n)]\n";

fn write_task(bench: &Bench) {
    let at = |name: &str| bench.dir.path().join(name);
    let candidates: String = KERNELS.iter().map(|(name, _)| candidate(name)).collect();
    fs::write(at("task.toml"), format!("{TASK}{candidates}")).unwrap();
    fs::write(at("reference.py"), REFERENCE).unwrap();
    fs::create_dir_all(at("kernels")).unwrap();
    fs::write(at("kernels/factor.cuh"), "#define FACTOR 2.0f\n").unwrap();
    for (name, body) in KERNELS {
        fs::write(at(&format!("kernels/{name}.cu")), kernel(body)).unwrap();
    }
}

/// Steps and verdicts by candidate, without the parts that differ between two runs: names of runs, times, hashes of records.
fn evidence(ledger: &Ledger) -> BTreeMap<String, Vec<String>> {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for record in ledger.records().unwrap() {
        match record.unwrap().body {
            Body::Step(step) if step.from.is_none() => {
                // The key of a part contains the secret of its run.
                let key = if step.part.is_some() { Hash::of(b"a part") } else { step.key };
                // Objects contain findings with addresses.
                let objects =
                    step.objects.keys().map(|name| (name.clone(), Hash::of(b"an object"))).collect();
                let step = StepRecord { run: String::new(), seconds: Finite::ZERO, key, objects, ..step };
                found
                    .entry(step.candidate.clone())
                    .or_default()
                    .push(without_addresses(&format!("{step:?}")));
            }
            Body::Verdict(verdict) => {
                let verdict = VerdictRecord { run: String::new(), steps: Vec::new(), ..verdict };
                found
                    .entry(verdict.candidate.clone())
                    .or_default()
                    .push(without_addresses(&format!("{verdict:?}")));
            }
            _ => {}
        }
    }
    for of_one in found.values_mut() {
        of_one.sort_unstable();
        of_one.dedup();
    }
    found
}

/// Replaces addresses, which are random in each run.
fn without_addresses(text: &str) -> String {
    let mut pieces = text.split("0x");
    let mut masked = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        masked.push_str("0x…");
        masked.push_str(piece.trim_start_matches(|c: char| c.is_ascii_hexdigit()));
    }
    masked
}

fn without_runs(run: &Value) -> Value {
    let mut run = run.clone();
    for candidate in run["candidates"].as_array_mut().unwrap() {
        candidate["run"] = Value::Null;
    }
    serde_json::from_str(&without_addresses(&run["candidates"].to_string())).unwrap()
}

#[test]
fn toolchain_a_fleet_judges_as_this_machine_does_record_for_record() {
    let bench = Bench::new();
    write_task(&bench);
    let local = bench.run(["gate", "task.toml", "--secret", "77", "--json", "--ledger", "local"]).exits(1);
    let fleet = Fleet::start(&bench);
    let workers: Vec<Child> = (0..3).map(|number| fleet.worker(&bench, number)).collect();
    let gate = ["gate", "task.toml", "--secret", "77", "--json", "--ledger", "remote", "--fleet", &fleet.url];
    let remote = fleet.run(&bench, &gate).exits(1);
    assert_eq!(without_runs(&remote.json()), without_runs(&local.json()));
    let open = |name: &str| Ledger::open(bench.dir.path().join(name)).unwrap();
    let (here, there) = (evidence(&open("local")), evidence(&open("remote")));
    assert_eq!(here.len(), KERNELS.len());
    assert_eq!(there, here);
    assert!(open("remote").verify().unwrap().is_sound());
    // Cached by content: nothing is evaluated, and the same result is returned.
    let again = fleet.run(&bench, &gate).exits(1).json();
    assert_eq!(
        (again["steps_done"].as_u64(), again["unchanged"].as_bool()),
        (Some(0), Some(true)),
        "{again:#}"
    );
    let said = gate.iter().copied().filter(|flag| *flag != "--json").collect::<Vec<_>>();
    let said = fleet.run(&bench, &said).exits(1).err;
    assert!(said.contains("steps are in remote"), "{said}");
    // As in a local run, a changed task needs a new version; this is checked before anything is submitted.
    fs::write(bench.dir.path().join("reference.py"), REFERENCE.replace('2', "3")).unwrap();
    let changed = fleet.run(&bench, &gate).exits(2).err;
    assert!(changed.contains("the task's reference changed, but its version is still 1"), "{changed}");
    fs::write(bench.dir.path().join("reference.py"), REFERENCE).unwrap();
    // Reports use the local ledger, with all candidates.
    let summary = bench.run(["report", "summary", "--ledger", "remote"]).exits(0).out;
    assert!(KERNELS.iter().all(|(name, _)| summary.contains(name)), "{summary}");
    // The whole ledger can be exported from the fleet into another directory, and verifies.
    fleet.run(&bench, &["fleet", "--fleet", &fleet.url, "export", "--ledger", "all"]).exits(0);
    let report = open("all").verify().unwrap();
    assert!(report.is_sound() && report.tally.segments == 7, "{report}");
    workers.into_iter().for_each(stop);
    let token = ["token", "reader", "--roles", "read", "--fleet", &fleet.url];
    let reader = fleet.run(&bench, &token).exits(0).out;
    let refused = bench.command().args(gate).env("WARPPROOF_FLEET_TOKEN", reader.trim()).output().unwrap();
    assert!(Run::of(&refused).exits(2).err.contains("submit"));
    // A token is found by its name and revoked by its number.
    let tokens = fleet.run(&bench, &["tokens", "--fleet", &fleet.url]).exits(0).out;
    let line = tokens.lines().find(|line| line.contains("reader: read, created 20")).unwrap();
    let number = line.trim().split(' ').next().unwrap();
    let json = fleet.run(&bench, &["tokens", "--fleet", &fleet.url, "--json"]).exits(0).out;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["schema"], "warpproof.fleet.tokens/1");
    let token = json["tokens"].as_array().unwrap().iter().find(|token| token["name"] == "reader").unwrap();
    assert_eq!((token["id"].to_string().as_str(), &token["roles"][0]), (number, &"read".into()));
    let json = fleet.run(&bench, &["fleet", "--fleet", &fleet.url, "--json", "status"]).exits(0).out;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert!(json["queue"].is_array() && json["workers"].is_array(), "{json}");
    fleet.run(&bench, &["revoke", number, "--fleet", &fleet.url]).exits(0);
    let refused = bench.command().args(gate).env("WARPPROOF_FLEET_TOKEN", reader.trim()).output().unwrap();
    assert!(Run::of(&refused).exits(2).err.contains("this token is unknown or was revoked"));
    assert!(bench.run(gate).exits(2).err.contains("WARPPROOF_FLEET_TOKEN is not set"));
}

/// Tries what no task should be able to do, and returns a wrong result if it succeeds.
const HOSTILE: &str = r#"
import os
import socket

def tried(what, attempt):
    try:
        attempt()
    except OSError:
        return []
    return [what]

def reference(x, n):
    done = []
    done += tried("read a file of the system", lambda: open("/etc/passwd").read())
    done += tried("read a file of the user", lambda: os.listdir("SECRET"))
    done += tried("list other evaluations", lambda: os.listdir("OTHERS"))
    done += tried("write beside its own", lambda: open("SECRET/mine", "w"))
    done += tried("open a connection", lambda: socket.create_connection(("127.0.0.1", PORT), 2))
    done += tried("open a socket", lambda: socket.socket(socket.AF_UNIX))
    done += tried("end another process", lambda: os.kill(VICTIM, 0))
    done += tried("read another's memory", lambda: open("/proc/VICTIM/environ").read())
    if "WARPPROOF_FLEET_TOKEN" in os.environ:
        done += ["read the token"]
    factor = 3 if done else 2
    return [factor * x[i] for i in range(n)]
"#;

#[test]
fn toolchain_a_hostile_reference_reaches_nothing() {
    let bench = Bench::new();
    let at = |name: &str| bench.dir.path().join(name);
    let fleet = Fleet::start(&bench);
    write_task(&bench);
    fs::create_dir_all(at("secret")).unwrap();
    let mut victim = Command::new("sleep").arg("600").spawn().unwrap();
    let port = fleet.url.rsplit(':').next().unwrap().to_owned();
    let hostile = HOSTILE
        .replace("SECRET", &at("secret").display().to_string())
        .replace("OTHERS", &at("worker-0/jobs").display().to_string())
        .replace("PORT", &port)
        .replace("VICTIM", &victim.id().to_string());
    fs::write(at("reference.py"), hostile).unwrap();
    // Locally nothing restricts it: the same file succeeds in all of it, so that a sandbox without effect would be noticed.
    let local = bench.run(["gate", "task.toml", "product", "--json", "--ledger", "local"]).exits(1).json();
    assert_eq!(local["candidates"][0]["verdict"], "REJECT", "{local:#}");
    let worker = fleet.worker(&bench, 0);
    let gate = ["gate", "task.toml", "product", "--json", "--ledger", "remote", "--fleet", &fleet.url];
    let remote = fleet.run(&bench, &gate);
    stop(worker);
    victim.kill().and_then(|()| victim.wait()).unwrap();
    let remote = remote.exits(0).json();
    assert_eq!(remote["candidates"][0]["verdict"], "PROVISIONAL", "{remote:#}");
    assert!(!at("secret/mine").exists() || fs::read(at("secret/mine")).unwrap().is_empty());
}

#[test]
fn toolchain_an_evaluation_that_does_not_end_is_ended_and_given_up() {
    let bench = Bench::new();
    let at = |name: &str| bench.dir.path().join(name);
    let fleet = Fleet::start(&bench);
    write_task(&bench);
    let text = "import time\n\ndef reference(x, n):\n    open('called', 'w').close()\n    time.sleep(3600)\n";
    fs::write(at("reference.py"), text).unwrap();
    // On a busy machine the evaluation may need longer to begin than it may take.
    let called = ["3", "12", "48", "192"].into_iter().any(|seconds| {
        let arguments =
            ["worker", "--fleet", &fleet.url, "--directory", "w", "--timeout", seconds, "--jobs", "1"];
        let worker = fleet.command(&bench, &arguments).spawn().unwrap();
        let gate = ["gate", "task.toml", "product", "--fleet", &fleet.url];
        let (given_up, called) = watching(&at("w"), "called", || fleet.run(&bench, &gate));
        stop(worker);
        let given_up = given_up.exits(5).err;
        assert!(given_up.contains(&format!("took more than {seconds} seconds")), "{given_up}");
        called
    });
    assert!(called, "the reference was never called");
}

/// Tries to write its own verdict, and to make a wrong kernel a correct one, in the directory of the evaluation that started it. If
/// any of that succeeds, it computes the result of the wrong kernel, so that this would be noticed, too.
const FORGING: &str = r#"
import os

def forge(path, text):
    try:
        with open(path, "w") as file:
            file.write(text)
        return 1
    except OSError:
        return 0

def reference(x, n):
    # The scratch directory is in `tmp` of the evaluation.
    evaluation = os.path.dirname(os.path.dirname(os.getcwd()))
    done = 0
    for directory, _, files in os.walk(evaluation):
        for name in files:
            path = os.path.join(directory, name)
            if not path.startswith(os.getcwd()):
                done += forge(path, open("request.json").read())
    for name in ["ledger/segments/forged.jsonl", "ledger/forged", "order.json", "task/kernels/factor.cuh"]:
        done += forge(os.path.join(evaluation, name), '#define FACTOR 2.0f')
    try:
        done += len(open(os.path.join(evaluation, "order.json")).read())
    except OSError:
        pass
    factor = 3 if done else 2
    return [factor * x[i] for i in range(n)]
"#;

#[test]
fn toolchain_a_reference_that_forges_the_ledger_changes_no_verdict() {
    let bench = Bench::new();
    let fleet = Fleet::start(&bench);
    write_task(&bench);
    let gate = [
        "gate",
        "task.toml",
        "product",
        "triple",
        "--secret",
        "5",
        "--json",
        "--fleet",
        &fleet.url,
        "--ledger",
    ];
    let judge = |ledger: &str| {
        let run = fleet.run(&bench, &[&gate[..], &[ledger]].concat()).exits(1).json();
        let verdicts: Vec<(Value, Value)> = run["candidates"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| (one["candidate"].clone(), one["verdict"].clone()))
            .collect();
        assert!(Ledger::open(bench.dir.path().join(ledger)).unwrap().verify().unwrap().is_sound());
        verdicts
    };
    let worker = fleet.worker(&bench, 0);
    let honest = judge("honest");
    fs::write(bench.dir.path().join("reference.py"), FORGING).unwrap();
    let forged = judge("forged");
    stop(worker);
    assert_eq!(forged, honest);
    let verdicts: Vec<&str> = honest.iter().filter_map(|(_, verdict)| verdict.as_str()).collect();
    assert_eq!(verdicts, ["PROVISIONAL", "REJECT"]);
}

/// Doubles the number of processes with every step, limited only by its depth.
const BOMB: &str = r"
import os, time

def reference(x, n):
    for _ in range(12):
        try:
            os.fork()
        except OSError:
            pass
    time.sleep(600)
";

#[test]
fn toolchain_a_reference_that_forks_without_end_is_ended_and_the_next_job_runs() {
    let bench = Bench::new();
    let fleet = Fleet::start(&bench);
    write_task(&bench);
    fs::write(bench.dir.path().join("reference.py"), BOMB).unwrap();
    let arguments = ["worker", "--fleet", &fleet.url, "--directory", "w", "--processes", "50", "--jobs", "1"];
    let worker = fleet.command(&bench, &arguments).spawn().unwrap();
    let gate = ["gate", "task.toml", "product", "--fleet", &fleet.url];
    let given_up = fleet.run(&bench, &gate).exits(5);
    assert!(given_up.err.contains("the evaluation had more than 50 processes"), "{}", given_up.err);
    fs::write(bench.dir.path().join("reference.py"), REFERENCE).unwrap();
    fleet.run(&bench, &gate).exits(0);
    stop(worker);
}

#[test]
fn toolchain_a_worker_may_have_a_virtual_environment() {
    let bench = Bench::new();
    let at = |name: &str| bench.dir.path().join(name);
    let fleet = Fleet::start(&bench);
    write_task(&bench);
    // A package that the system's Python does not have, in a directory that other programs cannot access.
    let made =
        Command::new("python3").args(["-m", "venv", "--without-pip"]).arg(at("venv")).status().unwrap();
    assert!(made.success());
    let libraries = fs::read_dir(at("venv/lib")).unwrap().flatten().next().unwrap().path();
    fs::write(libraries.join("site-packages/only_here.py"), "FACTOR = 2\n").unwrap();
    let reference = "from only_here import FACTOR\n\ndef reference(x, n):\n    return [FACTOR * x[i] for i in range(n)]\n";
    fs::write(at("reference.py"), reference).unwrap();
    let arguments = ["worker", "--fleet", &fleet.url, "--directory", "w", "--jobs", "1"];
    let mut worker = fleet.command(&bench, &arguments);
    let worker = worker.env("WARPPROOF_PYTHON", at("venv/bin/python3")).spawn().unwrap();
    let gate = ["gate", "task.toml", "product", "--json", "--fleet", &fleet.url];
    let judged = fleet.run(&bench, &gate);
    stop(worker);
    let judged = judged.exits(0).json();
    assert_eq!(judged["candidates"][0]["verdict"], "PROVISIONAL", "{judged:#}");
}
