//! Runs of the gate that are killed or interrupted: the ledger stays valid, no written record is lost, and
//! a resumed run reaches the verdicts of an uninterrupted one.
//!
//! `WARPPROOF_TEST_KILLS` sets the number of kills; `cargo xtask kills` sets it to 300.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bench;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use bench::{Bench, Run};
use serde_json::Value;
use warpproof_evidence::hash::Hash;
use warpproof_evidence::ledger::{Index, Ledger};
use warpproof_evidence::record::Body;

const VARIABLE: &str = "WARPPROOF_TEST_KILLS";
/// The default number of kills.
const KILLS: usize = 40;
/// How often the processes of one ledger are killed before they may finish.
const WAVES: usize = 2;
/// The candidate that each process evaluates in addition to the honest kernel, which all of them evaluate
/// concurrently.
const PROCESSES: [&str; 4] = ["race", "keyed-to-shape", "keyed-to-seed", "memo"];

fn tasks() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tasks")
}

/// A task for each process, with two candidates of the cheats.
fn write_tasks(bench: &Bench) {
    let sources = bench.dir.path().join("softmax");
    fs::create_dir(&sources).unwrap();
    for entry in fs::read_dir(tasks().join("cheats/softmax")).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), sources.join(entry.file_name())).unwrap();
    }
    let text = fs::read_to_string(tasks().join("cheats/softmax.toml")).unwrap();
    let mark = "[[candidate]]\n";
    let mut pieces = text.split(mark);
    let head = pieces.next().unwrap();
    // The candidate that sets the toggle without effect is left out, so no candidate sets that toggle.
    let (before, toggle) = head.split_once("[[toggle]]").unwrap();
    let head = [before, "[target]", toggle.split_once("[target]").unwrap().1].concat();
    let candidates: Vec<&str> = pieces.collect();
    let of = |name: &str| {
        let line = format!("name = \"{name}\"\n");
        candidates.iter().find(|piece| piece.starts_with(&line)).unwrap()
    };
    for name in PROCESSES {
        let head = head.replace("\"cheats-softmax\"", &format!("\"softmax-{name}\""));
        let task = [&head, mark, of("honest"), mark, of(name)].concat();
        fs::write(bench.dir.path().join(format!("{name}.toml")), task).unwrap();
    }
}

fn gate(bench: &Bench, name: &str, ledger: &str) -> Command {
    let mut command = bench.command();
    command.args(["gate", &format!("{name}.toml"), "--ledger", ledger, "--json", "--jobs", "1", "--resume"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// The result of a run for each candidate: its verdict, and the outcomes of its stages.
fn verdicts(run: &Value) -> Vec<String> {
    let all = run["candidates"].as_array().unwrap().iter().map(|one| {
        let stages = one["stages"].as_array().unwrap().iter();
        let stages: Vec<String> =
            stages.map(|stage| format!("{} {}", stage["stage"], stage["outcome"])).collect();
        format!("{} {} {}", one["candidate"], one["verdict"], stages.join(", "))
    });
    all.collect()
}

/// Runs all processes concurrently, to their ends.
fn finish(bench: &Bench, ledger: &str) -> Vec<Value> {
    let running = PROCESSES.map(|name| gate(bench, name, ledger).spawn().unwrap());
    running.map(|child| Run::of(&child.wait_with_output().unwrap()).exits(1).json()).to_vec()
}

/// The readable records, which are the acknowledged ones.
fn written(path: &Path) -> BTreeSet<Hash> {
    let Ok(ledger) = Ledger::open(path) else { return BTreeSet::new() };
    ledger.records().unwrap().map(|record| record.unwrap().hash).collect()
}

/// The number of lines in the segments of a ledger, complete or not.
fn lines(path: &Path) -> usize {
    let segments = fs::read_dir(path.join("segments")).into_iter().flatten().flatten();
    let count = |text: Vec<u8>| text.split(|byte| *byte == b'\n').count();
    segments.map(|segment| fs::read(segment.path()).map_or(0, count)).sum()
}

/// Asserts that the ledger is valid and holds all of these.
fn check(path: &Path, known: &BTreeSet<Hash>, kills: usize) {
    let Ok(ledger) = Ledger::open(path) else {
        assert!(known.is_empty(), "after kill {kills} the ledger is gone");
        return;
    };
    let report = ledger.verify().unwrap();
    assert!(report.is_sound(), "after kill {kills}: {report}");
    let index = Index::new(&ledger).unwrap();
    let lost: Vec<&Hash> = known.iter().filter(|hash| index.place(hash).is_none()).collect();
    assert!(lost.is_empty(), "after kill {kills}: {lost:?}");
}

/// Asserts that every run in the ledger has a verdict for each of its candidates.
fn all_are_decided(path: &Path) -> usize {
    let ledger = Ledger::open(path).unwrap();
    let mut open = BTreeSet::new();
    let mut runs = 0;
    for record in ledger.records().unwrap() {
        match record.unwrap().body {
            Body::Run(run) => {
                runs += 1;
                open.extend(run.candidates.iter().map(|candidate| (run.run.clone(), candidate.clone())));
            }
            Body::Verdict(verdict) => {
                open.remove(&(verdict.run, verdict.candidate));
            }
            _ => {}
        }
    }
    assert!(open.is_empty(), "{open:?}");
    runs
}

/// Kills a process, unless it has exited. Returns whether it was killed.
fn kill(child: &mut Child) -> bool {
    let alive = child.try_wait().unwrap().is_none();
    child.kill().unwrap();
    child.wait().unwrap();
    alive
}

#[test]
fn toolchain_nothing_is_lost_by_kill_and_resuming_gives_the_same_verdicts() {
    let bench = Bench::new();
    let wanted = std::env::var(VARIABLE).ok().and_then(|text| text.parse().ok()).unwrap_or(KILLS);
    write_tasks(&bench);
    let undisturbed: Vec<_> = finish(&bench, "undisturbed").iter().map(verdicts).collect();
    let whole = lines(&bench.dir.path().join("undisturbed"));
    assert!(undisturbed.iter().flatten().any(|one| one.contains("PROVISIONAL")), "{undisturbed:?}");

    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    let (mut kills, mut late, mut ledgers, mut records, mut runs, mut cut) = (0, 0, 0, 0, 0, 0);
    while kills < wanted {
        let name = format!("ledger-{ledgers}");
        let path = bench.dir.path().join(&name);
        let mut known = BTreeSet::new();
        for _ in 0..WAVES {
            // Each process is killed when the ledger has grown to its share of what is missing.
            let before = lines(&path);
            let mut running: Vec<(usize, Child)> = PROCESSES
                .iter()
                .map(|process| {
                    random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                    let share = usize::try_from(random >> 48).unwrap();
                    let missing = whole.saturating_sub(before);
                    (before + missing * share / 65536, gate(&bench, process, &name).spawn().unwrap())
                })
                .collect();
            running.sort_by_key(|(size, _)| *size);
            for (size, child) in &mut running {
                while lines(&path) < *size && child.try_wait().unwrap().is_none() {
                    thread::sleep(Duration::from_millis(2));
                }
                known.extend(written(&path));
                if kill(child) {
                    kills += 1;
                } else {
                    late += 1;
                }
                // The others continue to write during this check.
                check(&path, &known, kills);
            }
        }
        if let Ok(ledger) = Ledger::open(&path) {
            cut += ledger.verify().unwrap().notices.len();
        }
        let resumed = finish(&bench, &name);
        assert_eq!(resumed.iter().map(verdicts).collect::<Vec<_>>(), undisturbed, "after kill {kills}");
        check(&path, &known, kills);
        runs += all_are_decided(&path);
        records += written(&path).len();
        assert!(finish(&bench, &name).iter().all(|again| again["steps_done"] == 0), "some work must be left");
        ledgers += 1;
    }
    println!(
        "{kills} kills ({late} came after the end), {ledgers} ledgers, {runs} runs, {records} records, \
         {cut} cut off; an undisturbed run writes {whole} lines"
    );
}

#[test]
fn toolchain_an_interrupt_ends_the_step_under_way_and_resuming_completes() {
    let bench = Bench::new();
    let task = fs::canonicalize(tasks().join("softmax.toml")).unwrap();
    let args = ["gate", task.to_str().unwrap(), "--ledger", "ledger", "--jobs", "1"];
    let path = bench.dir.path().join("ledger");
    let mut child = bench.command().args(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let parts = || {
        let Ok(ledger) = Ledger::open(&path) else { return Vec::new() };
        let records = ledger.records().unwrap().map(|record| record.unwrap().body);
        let steps = records.filter_map(|body| if let Body::Step(step) = body { Some(step) } else { None });
        steps.filter(|step| step.from.is_none()).collect::<Vec<_>>()
    };
    while !parts().iter().any(|step| step.part.is_some()) {
        assert!(child.try_wait().unwrap().is_none(), "the run ended before it wrote a part");
        thread::sleep(Duration::from_millis(5));
    }
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let stopped = Run::of(&child.wait_with_output().unwrap()).exits(5);
    assert!(stopped.err.contains("--resume` to continue"), "{}", stopped.err);
    let before = parts();
    let run = before[0].run.clone();

    let resumed = bench.run(args.iter().chain(&["--resume", "--json"])).exits(0).json();
    assert_eq!(resumed["run"], run.as_str());
    let verdicts: Vec<&Value> =
        resumed["candidates"].as_array().unwrap().iter().map(|one| &one["verdict"]).collect();
    assert_eq!(verdicts, ["PROVISIONAL", "PROVISIONAL"]);
    // Finished steps are not repeated.
    let after = parts();
    let keys: BTreeSet<Hash> = after.iter().map(|step| step.key).collect();
    assert_eq!(keys.len(), after.len());
    assert!(before.len() < after.len());
}
