//! A tuning search on a fleet: the same table, the same steps and the same exit code as locally, without a local compiler, and
//! without repeated evaluations.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bench;
mod fleet_stand;
mod tasks;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use bench::{Bench, Run};
use fleet_stand::{Fleet, stop};
use serde_json::Value;
use tasks::{steps_in, table, write_sgemm};
use warpproof_evidence::ledger::Ledger;
use warpproof_evidence::record::{Body, Finite, StepRecord};

/// No case is random, so that the steps of two machines can be compared exactly.
fn write_task(bench: &Bench) {
    let drawn = "{ m = [1, 100], n = [1, 100], k = [1, 60] }\nhidden = true";
    let replaced = [("secret_seeds = 1", "secret_seeds = 0"), (drawn, "{ m = 5, n = 71, k = 23 }")];
    write_sgemm(bench, "TM = [2, 4]", &replaced);
}

/// All steps by key, without the parts that differ between two runs: names of runs, times, and ptxas messages that contain a random
/// file name. A fleet also evaluates variants with the same program as another; a local search does not.
fn steps(ledger: &Ledger, study: &Value) -> BTreeMap<String, StepRecord> {
    let of_another = |name: &str| {
        let all = study["evaluations"].as_array().unwrap();
        all.iter().any(|one| one["candidate"] == name && one.get("same_as").is_some())
    };
    let mut found = BTreeMap::new();
    for record in ledger.records().unwrap() {
        let Body::Step(mut step) = record.unwrap().body else { continue };
        if step.part.is_some() || of_another(&step.candidate) {
            continue;
        }
        step.objects.remove("log");
        let step = StepRecord { run: String::new(), seconds: Finite::ZERO, from: None, ..step };
        let before = found.insert(step.key.to_string(), step.clone());
        assert!(before.is_none_or(|before| before == step), "{step:?}");
    }
    found
}

const SEARCH: [&str; 7] = ["tune", "task.toml", "--seed", "7", "--budget", "12", "--json"];

fn search<'a>(ledger: &'a str, url: &'a str) -> Vec<&'a str> {
    [&SEARCH[..], &["--ledger", ledger, "--fleet", url]].concat()
}

/// A command that finds no compiler.
fn without_compiler(mut command: Command, bench: &Bench) -> Command {
    command.env("WARPPROOF_CACHE", bench.dir.path().join("empty")).env("PATH", "/nowhere");
    for name in ["LD_LIBRARY_PATH", "CUDA_HOME", "CUDA_PATH", "WARPPROOF_TOOLCHAIN"] {
        command.env_remove(name);
    }
    command
}

#[test]
fn toolchain_a_fleet_searches_as_this_machine_does() {
    let bench = Bench::new();
    write_task(&bench);
    let open = |name: &str| Ledger::open(bench.dir.path().join(name)).unwrap();
    let local = bench.run([&SEARCH[..], &["--ledger", "local"]].concat()).exits(0).json();
    assert_eq!(local["winner"]["settings"]["CHEAT"], "0", "{local:#}");
    let fleet = Fleet::start(&bench);
    let workers: Vec<Child> = (0..2).map(|number| fleet.worker(&bench, number)).collect();
    let command = fleet.command(&bench, &search("remote", &fleet.url));
    let remote = Run::of(&without_compiler(command, &bench).output().unwrap()).exits(0).json();
    assert_eq!(table(&remote), table(&local));
    let twins = remote["evaluations"].as_array().unwrap().iter().filter(|one| one.get("same_as").is_some());
    assert!(twins.count() > 0, "no two variants have the same program: {remote:#}");
    let (here, there) = (steps(&open("local"), &local), steps(&open("remote"), &remote));
    assert_eq!(there.keys().collect::<Vec<_>>(), here.keys().collect::<Vec<_>>());
    for (key, step) in &there {
        assert_eq!(step, &here[key]);
    }
    assert!(open("remote").verify().unwrap().is_sound());
    // Reports show the winner.
    let name = remote["winner"]["candidate"].as_str().unwrap();
    let summary = bench.run(["report", "summary", "--ledger", "remote"]).exits(0);
    assert!(summary.out.contains(name), "{}", summary.out);

    // Cached by content: without any worker, all results are returned, into the same ledger and into another.
    workers.into_iter().for_each(stop);
    let again = fleet.run(&bench, &search("remote", &fleet.url)).exits(0).json();
    assert_eq!(again, remote, "the same run is the newest, so nothing is written");
    let elsewhere = fleet.run(&bench, &search("elsewhere", &fleet.url)).exits(0).json();
    assert_eq!(table(&elsewhere), table(&local));
    let text: Vec<&str> = search("remote", &fleet.url).into_iter().filter(|word| *word != "--json").collect();
    let text = fleet.run(&bench, &text).exits(0);
    assert!(text.err.contains("0 evaluated now, 12 cached"), "{}", text.err);

    // The winner of the search is a candidate of the gate, with a cached result.
    let gate = ["gate", "task.toml", name, "--json", "--ledger", "remote", "--fleet", &fleet.url];
    let gated = fleet.run(&bench, &gate).exits(0).json();
    assert_eq!(
        (&gated["candidates"][0]["verdict"], &gated["steps_done"]),
        (&remote["winner"]["verdict"], &0.into())
    );
    // A candidate that ran only some stages does not appear on a leaderboard: the fleet's ledger contains those that ran all.
    fleet.run(&bench, &["fleet", "--fleet", &fleet.url, "export", "--ledger", "all"]).exits(0);
    assert!(open("all").verify().unwrap().is_sound());
}

#[test]
fn toolchain_a_search_is_stopped_and_goes_on() {
    let bench = Bench::new();
    write_task(&bench);
    let fleet = Fleet::start(&bench);
    // There is no worker yet: the search waits until it is interrupted, and cancels its jobs.
    let mut waiting = fleet.command(&bench, &search("ledger", &fleet.url));
    let mut waiting = waiting.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let queue = || fleet.run(&bench, &["fleet", "--fleet", &fleet.url, "status"]).exits(0).out;
    while !queue().contains("queued") {
        assert!(waiting.try_wait().unwrap().is_none(), "the search ended early");
        thread::sleep(Duration::from_millis(50));
    }
    assert!(Command::new("kill").args(["-INT", &waiting.id().to_string()]).status().unwrap().success());
    let stopped = Run::of(&waiting.wait_with_output().unwrap()).exits(5).json();
    assert_eq!((&stopped["stopped"], &stopped["winner"]), (&true.into(), &Value::Null), "{stopped:#}");
    // Queue counts are a few seconds old.
    while queue().contains("queued") {
        thread::sleep(Duration::from_millis(200));
    }
    // Killed while workers evaluate: they continue, and so does the same command.
    let worker = fleet.worker(&bench, 0);
    let mut killed =
        fleet.command(&bench, &search("ledger", &fleet.url)).stdout(Stdio::null()).spawn().unwrap();
    while steps_in(&bench.dir.path().join("ledger")) == 0 {
        assert!(killed.try_wait().unwrap().is_none(), "the search ended before it was killed");
        thread::sleep(Duration::from_millis(2));
    }
    killed.kill().unwrap();
    assert_eq!(killed.wait().unwrap().signal(), Some(9), "the search ended before it was killed");
    let whole = fleet.run(&bench, &search("ledger", &fleet.url)).exits(0).json();
    stop(worker);
    let local = bench.run([&SEARCH[..], &["--ledger", "local"]].concat()).exits(0).json();
    assert_eq!(table(&whole), table(&local));
    bench.run(["verify", "--ledger", "ledger"]).exits(0);
}

#[test]
fn toolchain_what_a_fleet_gives_up_is_said_and_nobody_wins() {
    let bench = Bench::new();
    write_task(&bench);
    let path = bench.dir.path().join("task.toml");
    let text = fs::read_to_string(&path).unwrap();
    let fleet = Fleet::start(&bench);
    // No evaluation can finish in zero seconds. As long as another worker was seen, each worker's failure counts once: this is the
    // first.
    let arguments = ["worker", "--fleet", &fleet.url, "--directory", "w", "--timeout", "0", "--jobs", "1"];
    let worker = fleet.command(&bench, &arguments).spawn().unwrap();
    let search = ["tune", "task.toml", "--json", "--budget", "2", "--fleet", &fleet.url];
    let given_up = fleet.run(&bench, &search).exits(5).json();
    stop(worker);
    let first = given_up["refusals"][0]["first"].as_str().unwrap();
    assert!(first.contains("failed on the fleet") && first.contains("0 seconds"), "{given_up:#}");
    // Every variant skips a tile.
    let wrong = text.replace("CHEAT = [0, 1]", "CHEAT = [1]").replace("CHEAT = 0", "CHEAT = 1");
    fs::write(&path, wrong.replace("HOG = [16, 60000]", "HOG = [16]")).unwrap();
    let worker = fleet.worker(&bench, 0);
    let refused = fleet.run(&bench, &["tune", "task.toml", "--json", "--fleet", &fleet.url]).exits(1).json();
    assert_eq!(refused["refusals"][0]["stage"], "correct", "{refused:#}");
    stop(worker);
    fs::write(&path, &text).unwrap();
    // Errors in the task are reported before anything is submitted.
    let said = fleet.run(&bench, &["tune", "task.toml", "other", "--fleet", &fleet.url]).exits(2).err;
    assert!(said.contains("declares no [[space]] for `other`"), "{said}");
    let said = fleet.run(&bench, &["tune", "task.toml", "--fleet", &fleet.url, "--gpu=1"]).exits(2).err;
    assert!(said.contains("a device of this machine"), "{said}");
    assert!(bench.run(search).exits(2).err.contains("WARPPROOF_FLEET_TOKEN is not set"));
}
