//! Evaluates the kernels of `tasks/cheats` like a user: each is rejected by the expected stage.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bench;

use std::fs;
use std::path::{Path, PathBuf};

use bench::Bench;
use serde_json::Value;

/// Candidate, the stage that rejects it, and words of the reason.
type Cheat = (&'static str, &'static str, &'static str);

const SOFTMAX: [Cheat; 24] = [
    ("dead-toggle", "build", "a toggle has no effect: SWIZZLE=1"),
    ("identical", "build", "identical to `honest`"),
    ("stack-frame", "budget", "stack frame is 128 B"),
    ("stale-answer", "correct", "keeps state between launches in `answer`"),
    ("memo", "correct", "keeps state between launches in `answer`"),
    (
        "done-before",
        "correct",
        "launched again on the memory that it left, as timed launches are, the kernel issues ",
    ),
    ("done-often", "correct", "the kernel leaves different contents in `words`"),
    ("writes-nothing", "correct", "elements of `y` were never written"),
    ("writes-a-part", "correct", "elements of `y` were never written"),
    ("nan", "correct", "main, normal, seed 1: 100.000 % of elements are outside"),
    ("keyed-to-shape", "correct", "surprise, normal, seed 1:"),
    ("keyed-to-secret", "correct", "surprise, normal, seed 1:"),
    ("keyed-to-seed", "correct", "main, normal, secret seed "),
    ("tail-skipped", "correct", "main:m=1, normal, seed 1:"),
    ("tile-skipped", "correct", "main, normal, seed 1: 100.000 % of elements are outside"),
    ("input-modified", "correct", "the kernel changed its input `x`"),
    ("precision", "correct", "less precise than the task requires"),
    ("race", "checks", "main: shared-race"),
    ("race-by-value", "checks", "main, normal, seed 2: shared-race"),
    ("address", "correct", "`y` changes when arrays are placed at other addresses"),
    ("residue", "correct", "surprise"),
    ("masked", "correct", "main, masked, seed 1:"),
    ("magnitude", "correct", ", magnitudes, "),
    ("address-bits", "correct", "`y` changes when arrays are placed at other addresses"),
];

const FRIENDLY: [Cheat; 1] = [("precision", "correct", "less precise than the task requires")];

const MEASURED: [Cheat; 1] = [("memorized", "counters", "main: warp instructions is ")];

const GEMM8: [Cheat; 3] = [
    ("off-by-four", "correct", "main, normal, seed 1: 100.000 % of elements are outside"),
    ("saturated", "correct", "main, normal, seed 1:"),
    ("single-precision", "correct", "main, normal, seed 1:"),
];

/// Candidates of a task whose limits accept wrong outputs: an error in the task, so no candidate gets a
/// verdict other than INCONCLUSIVE.
const LOOSE: [&str; 3] = ["honest", "zeros", "constant"];

const MACHINE: [Cheat; 4] = [
    ("clock", "checks", "machine-dependent at scaled_add/depends.cu:"),
    ("timer", "checks", "depends on the global timer"),
    ("smid", "checks", "depends on a machine-dependent register"),
    ("address", "checks", "depends on the address of an array"),
];

const UNREACHED: [Cheat; 6] = [
    ("residue", "correct", "surprise"),
    ("magic-value", "correct", "with 1234.5 planted"),
    ("magnitude", "correct", ""),
    ("minus-infinity", "correct", ""),
    ("not-a-number", "correct", ""),
    ("dead-branch", "correct", "(one side only: unreached.cu:"),
];

fn cheats() -> PathBuf {
    fs::canonicalize(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tasks/cheats")).unwrap()
}

/// Evaluates a task of the folder, which ends with an exit code, and returns the candidates.
fn judged(bench: &Bench, task: &str, code: i32) -> Vec<Value> {
    let path = cheats().join(task);
    let args = ["gate", path.to_str().unwrap(), "--ledger", "ledger", "--json"];
    let run = bench.run(args).exits(code).json();
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
    let bench = Bench::new();
    let judged = judged(&bench, task, 1);
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
fn toolchain_every_cheat_is_refused_by_the_stage_that_should() {
    all_are_refused("softmax.toml", &SOFTMAX, &["honest"]);
}

#[test]
fn toolchain_less_precision_is_told_by_what_was_executed() {
    all_are_refused("friendly.toml", &FRIENDLY, &["honest"]);
}

#[test]
fn toolchain_counts_are_taken_on_inputs_that_no_kernel_knows() {
    all_are_refused("measured.toml", &MEASURED, &["honest"]);
}

#[test]
fn toolchain_integers_are_compared_exactly() {
    all_are_refused("gemm8.toml", &GEMM8, &["honest"]);
}

/// A user cannot choose a secret that makes a kernel pass: its cases are added to the drawn ones.
#[test]
fn toolchain_a_chosen_secret_adds_cases_and_the_headline_says_so() {
    let bench = Bench::new();
    let path = cheats().join("softmax.toml");
    let gate = |candidate: &str, code: i32| {
        let task = path.to_str().unwrap();
        bench.run(["gate", task, candidate, "--secret", "77", "--ledger", "ledger"]).exits(code)
    };
    let run = gate("keyed-to-secret", 1);
    let headline = "chosen secret 77: its cases were added to those drawn for the run";
    assert_eq!(run.out.lines().next(), Some(headline), "{}", run.out);
    assert!(run.out.contains("correct: surprise, normal, seed 1:"), "{}", run.out);
    let report = bench.run(["report", "--ledger", "ledger"]).exits(0).out;
    let sentence =
        "The user chose the secret 0000000000000077: its cases were added to those drawn for the run.";
    assert!(report.contains(sentence), "{report}");
    // The cases of the chosen secret are tested too.
    let honest = gate("honest", 0);
    let again = bench.run(["log", "--kind", "step", "--json", "--ledger", "ledger"]).exits(0).json();
    let parts: Vec<&str> =
        again["records"].as_array().unwrap().iter().filter_map(|one| one["body"]["part"].as_str()).collect();
    assert!(parts.contains(&"surprise") && parts.contains(&"surprise:chosen"), "{parts:?}\n{}", honest.out);
}

/// Replaces text in the last line of a ledger's newest segment and hashes the line again, as an attacker
/// who knows the format could.
fn reseal(ledger: &Path, from: &str, to: &str) {
    let segments = fs::read_dir(ledger.join("segments")).unwrap();
    let newest = segments.map(|one| one.unwrap().path()).max().unwrap();
    let text = fs::read_to_string(&newest).unwrap();
    let (before, last) = text.trim_end().rsplit_once('\n').unwrap();
    let (body, _) = last.rsplit_once(",\"hash\"").unwrap();
    assert!(body.contains(from), "{body}");
    let body = body.replace(from, to);
    let hash = warpproof_evidence::hash::Hash::of(body.as_bytes());
    fs::write(&newest, format!("{before}\n{body},\"hash\":\"{hash}\"}}\n")).unwrap();
}

#[test]
fn toolchain_a_resealed_verdict_that_its_steps_do_not_give_is_refused_everywhere() {
    let bench = Bench::new();
    let path = cheats().join("softmax.toml");
    let gate = ["gate", path.to_str().unwrap(), "honest", "--ledger", "ledger"];
    bench.run(gate).exits(0);
    bench.run(["verify", "--ledger", "ledger"]).exits(0);
    let merged = "\"verdict\":\"MERGE\",\"grade\":\"outstanding\"";
    reseal(&bench.dir.path().join("ledger"), "\"verdict\":\"PROVISIONAL\"", merged);
    let heads =
        warpproof_evidence::ledger::Ledger::open(bench.dir.path().join("ledger")).unwrap().heads().unwrap();
    let forged = heads.first().unwrap().short();
    let wanted = format!(
        "verdict {forged} does not follow from its steps: the record states MERGE (outstanding), but its steps give \
         PROVISIONAL by the gate's rules"
    );
    for command in [
        &["verify"][..],
        &["log"],
        &["log", "--json"],
        &["show", &forged],
        &["report"],
        &["report", "--format", "html"],
        &["report", "merge-message"],
        &["report", "pr-comment"],
        &["report", "attempts"],
        &["report", "--format", "junit"],
    ] {
        let run = bench.run([command, &["--ledger", "ledger"]].concat());
        assert_eq!(run.code, Some(1), "{command:?}: {}{}", run.out, run.err);
        let said = format!("{}{}", run.out, run.err);
        assert!(said.contains(&wanted), "{command:?}: {said}");
    }
    // The gate does not reuse it either.
    let again = bench.run(gate);
    assert!(again.err.contains(&wanted), "{}{}", again.out, again.err);
}

#[test]
fn toolchain_a_task_that_lets_zeros_pass_is_at_fault_itself() {
    let bench = Bench::new();
    let judged = judged(&bench, "loose.toml", 2);
    assert!(judged.iter().map(|one| one["candidate"].as_str().unwrap()).eq(LOOSE));
    for candidate in judged {
        assert_eq!(candidate["verdict"], "INCONCLUSIVE", "{candidate:#}");
        let reason = candidate["reason"].as_str().unwrap();
        assert!(reason.contains("error in the task, not in the kernel: its limits accept"), "{reason}");
    }
}

#[test]
fn toolchain_results_that_depend_on_the_machine_are_refused_unless_the_task_allows_it() {
    all_are_refused("machine.toml", &MACHINE, &["honest"]);
    let bench = Bench::new();
    copy(&cheats(), &bench.dir.path().join("cheats"));
    let path = bench.dir.path().join("cheats/machine.toml");
    let task = fs::read_to_string(&path).unwrap();
    let checks = "stage = \"checks\"\n";
    let allow = format!("{checks}allow = [\"clock\", \"timer\", \"machine\", \"address\"]\n");
    fs::write(&path, task.replace(checks, &allow)).unwrap();
    let run = bench.run(["gate", "cheats/machine.toml", "--ledger", "ledger", "--json"]).exits(0).json();
    for candidate in run["candidates"].as_array().unwrap() {
        assert_eq!(candidate["verdict"], "PROVISIONAL", "{candidate:#}");
    }
    fs::write(&path, task.replace(checks, &allow.replace("clock", "clocks"))).unwrap();
    let wrong = bench.run(["gate", "cheats/machine.toml", "--ledger", "ledger"]).exits(2);
    assert!(wrong.err.contains("there is no source `clocks`"), "{}", wrong.err);
}

#[test]
fn toolchain_cases_are_added_that_reach_what_the_others_do_not() {
    all_are_refused("unreached.toml", &UNREACHED, &["honest"]);
}

/// Copies a folder with its contents.
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
fn toolchain_a_tolerance_tuned_after_a_failure_is_another_task() {
    let bench = Bench::new();
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

    // Wide enough for the kernel that just failed, but not for outputs that are wrong on purpose.
    let path = bench.dir.path().join("cheats/softmax.toml");
    let task = fs::read_to_string(&path).unwrap();
    let derived = "policy = \"derived\"\naccumulate = \"f32\"\n";
    assert!(task.contains(derived));
    let stated = "policy = \"stated\"\nabsolute = 0.011\nrelative = 0.3\nrmse = 0.0012\nbias = 0.0012\n";
    fs::write(&path, task.replace(derived, stated)).unwrap();
    let refused = gate("tile-skipped").exits(2);
    assert!(refused.err.contains("increase `version`"), "{}", refused.err);
    assert_eq!(records(), known, "a stage has run");

    // Another version is evaluated without any results of the first.
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
    use warpproof_evidence::ledger::Ledger;
    use warpproof_report::{Baseline, Candidate, Evidence, Refusal, Subject, ViewError, comparison};
    let ledger = Ledger::open(bench.dir.path().join("ledger")).unwrap();
    let evidence = Evidence::read(&ledger).unwrap();
    let of = |run: &str| Subject { run: run.into(), candidate: "tile-skipped".into() };
    match comparison(&evidence, &Baseline(of(before)), &Candidate(of(after))) {
        Err(ViewError::Refused(refusal)) => assert_eq!(refusal, Refusal::TaskVersion(1, 2)),
        other => panic!("{other:?}"),
    }
}
