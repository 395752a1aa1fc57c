//! The kernels of `tasks/cheats`, judged as a user judges them: each is refused, and by the stage that should.
#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test fails by panicking, and says why it is skipped"
)]

mod bench;

use std::fs;
use std::path::{Path, PathBuf};

use bench::Bench;
use serde_json::Value;

/// Candidate, the stage that refuses it, and words of the reason.
type Cheat = (&'static str, &'static str, &'static str);

const SOFTMAX: [Cheat; 17] = [
    ("dead-toggle", "build", "a toggle does nothing: SWIZZLE=1"),
    ("identical", "build", "the very program of `honest`"),
    ("stack-frame", "budget", "stack frame is 128 B"),
    ("stale-answer", "correct", "keeps something between launches in `answer`"),
    ("memo", "correct", "keeps something between launches in `answer`"),
    (
        "done-before",
        "correct",
        "launched again on the memory that it left, as timed launches are, the kernel issues ",
    ),
    ("done-often", "correct", "the kernel leaves something else in `words`"),
    ("writes-nothing", "correct", "elements of `y` were never written"),
    ("writes-a-part", "correct", "elements of `y` were never written"),
    ("nan", "correct", "main, normal, seed 1: 100.000 % of elements are outside"),
    ("keyed-to-shape", "correct", "surprise, normal, seed 1:"),
    ("keyed-to-seed", "correct", "main, normal, secret seed "),
    ("tail-skipped", "correct", "main:m=1, normal, seed 1:"),
    ("tile-skipped", "correct", "main, normal, seed 1: 100.000 % of elements are outside"),
    ("input-modified", "correct", "the kernel changed its input `x`"),
    ("precision", "correct", "less precise than the task asks"),
    ("race", "checks", "race"),
];

const FRIENDLY: [Cheat; 1] = [("precision", "correct", "less precise than the task asks")];

const LOOSE: [Cheat; 3] = [
    ("honest", "correct", "they decide nothing; the task is to be mended"),
    ("zeros", "correct", "they decide nothing; the task is to be mended"),
    ("constant", "correct", "they decide nothing; the task is to be mended"),
];

fn cheats() -> PathBuf {
    fs::canonicalize(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tasks/cheats")).unwrap()
}

/// Judges a task of the folder and gives the candidates.
fn judged(bench: &Bench, task: &str) -> Vec<Value> {
    let path = cheats().join(task);
    let args = ["gate", path.to_str().unwrap(), "--ledger", "ledger", "--json"];
    let run = bench.run(args).exits(1).json();
    run["candidates"].as_array().unwrap().clone()
}

/// The stage that failed; all before it must have passed.
fn refused_by(candidate: &Value) -> String {
    let mut stages = candidate["stages"].as_array().unwrap().clone();
    let last = stages.pop().unwrap();
    assert!(stages.iter().all(|stage| stage["outcome"] == "PASS"), "{candidate:#}");
    assert_eq!(last["outcome"], "FAIL", "{candidate:#}");
    last["stage"].as_str().unwrap().to_owned()
}

fn all_are_refused(task: &str, cheats: &[Cheat], honest: &[&str]) {
    let Some(bench) = Bench::new() else { return };
    let judged = judged(&bench, task);
    assert_eq!(judged.len(), cheats.len() + honest.len(), "the table names every candidate");
    for (name, stage, words) in cheats {
        let candidate = judged.iter().find(|one| one["candidate"] == *name).unwrap();
        assert_eq!(candidate["verdict"], "REJECT", "{candidate:#}");
        assert_eq!(refused_by(candidate), *stage, "{candidate:#}");
        let reason = candidate["reason"].as_str().unwrap();
        assert!(reason.contains(words), "{name}: {reason}");
    }
    for name in honest {
        let candidate = judged.iter().find(|one| one["candidate"] == *name).unwrap();
        assert_eq!(candidate["verdict"], "PROVISIONAL", "{candidate:#}");
    }
}

#[test]
fn every_cheat_is_refused_by_the_stage_that_should() {
    all_are_refused("softmax.toml", &SOFTMAX, &["honest"]);
}

#[test]
fn less_precision_is_told_by_what_was_executed() {
    all_are_refused("friendly.toml", &FRIENDLY, &["honest"]);
}

#[test]
fn a_task_that_lets_zeros_pass_is_refused() {
    all_are_refused("loose.toml", &LOOSE, &[]);
}

/// Copies a folder and what is in it.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}

#[test]
fn a_tolerance_tuned_after_a_failure_is_another_task() {
    let Some(bench) = Bench::new() else { return };
    copy(&cheats(), &bench.dir.path().join("cheats"));
    let gate = |candidate: &str| {
        bench.run(["gate", "cheats/softmax.toml", candidate, "--ledger", "ledger", "--json"])
    };
    let verdict = |run: &Value, name: &str| {
        let all = run["candidates"].as_array().unwrap();
        all.iter().find(|one| one["candidate"] == name).unwrap()["verdict"].clone()
    };
    let before = gate("tile-skipped").exits(1).json();
    assert_eq!(verdict(&before, "tile-skipped"), "REJECT");
    let records = || fs::read_dir(bench.dir.path().join("ledger/segments")).unwrap().count();
    let known = records();

    // Wide enough for the kernel that has just failed, and not for outputs that are wrong on purpose.
    let path = bench.dir.path().join("cheats/softmax.toml");
    let task = fs::read_to_string(&path).unwrap();
    let derived = "policy = \"derived\"\naccumulate = \"f32\"\n";
    assert!(task.contains(derived));
    let stated = "policy = \"stated\"\nabsolute = 0.011\nrelative = 0.3\nrmse = 0.0012\nbias = 0.0012\n";
    fs::write(&path, task.replace(derived, stated)).unwrap();
    let refused = gate("tile-skipped").exits(2);
    assert!(refused.err.contains("raise `version`"), "{}", refused.err);
    assert_eq!(records(), known, "a stage has run");

    // Another version is judged, and is no successor of the first: nothing is read from its results.
    fs::write(&path, task.replace(derived, stated).replace("version = 1\n", "version = 2\n")).unwrap();
    let after = bench.run(["gate", "cheats/softmax.toml", "tile-skipped", "--ledger", "ledger", "--json"]);
    let after = after.json();
    let all = after["candidates"].as_array().unwrap();
    for stage in all.iter().flat_map(|one| one["stages"].as_array().unwrap()) {
        assert!(stage["stage"] != "correct" || stage["known"] == false, "{stage}");
    }
    compare_is_refused(&bench, before["run"].as_str().unwrap(), after["run"].as_str().unwrap());
}

fn compare_is_refused(bench: &Bench, before: &str, after: &str) {
    use warpproof_gate::ledger::Ledger;
    use warpproof_gate::view::{Baseline, Candidate, Evidence, Refusal, Subject, ViewError, comparison};
    let ledger = Ledger::open(bench.dir.path().join("ledger")).unwrap();
    let evidence = Evidence::read(&ledger).unwrap();
    let of = |run: &str| Subject { run: run.into(), candidate: "tile-skipped".into() };
    match comparison(&evidence, &Baseline(of(before)), &Candidate(of(after))) {
        Err(ViewError::Refused(refusal)) => assert_eq!(refusal, Refusal::TaskVersion(1, 2)),
        other => panic!("{other:?}"),
    }
}
