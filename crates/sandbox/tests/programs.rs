//! Attacks of a Python reference on the evaluation that started it: each one is tried with the rights of the evaluation and with
//! the rights of a reference.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use warpproof_sandbox::{Limits, Reach, confine, probe, start};

/// Prints the name of each attempt and its error; 0 means success. Its arguments are the evaluation's directory, its process, and
/// the scratch directory.
const ATTEMPTS: &str = r#"
import os, signal, sys
evaluation, victim, scratch = sys.argv[1], int(sys.argv[2]), sys.argv[3]
at = lambda name: os.path.join(evaluation, name)
mine = lambda name: os.path.join(scratch, name)
def attempt(name, done):
    try:
        done()
        print("attempt", name, 0)
    except OSError as error:
        print("attempt", name, error.errno)
def write(path, mode="w"):
    with open(path, mode) as file:
        file.write("forged")
def moved(path):
    write(mine("forged"))
    os.rename(mine("forged"), path)
def locked(path):
    import fcntl
    with open(path) as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
# What it needs. The line may have been begun by others.
print()
attempt("read-task", lambda: open(at("task/kernel.cu")).read())
attempt("list-task", lambda: os.listdir(at("task")))
attempt("write-own", lambda: write(mine("output")))
attempt("directory-own", lambda: os.mkdir(mine("directory")))
attempt("signal-own", lambda: os.kill(os.getpid(), 0))
# What it must not.
attempt("ledger-append", lambda: write(at("ledger/segment"), "a"))
attempt("ledger-overwrite", lambda: write(at("ledger/segment")))
attempt("ledger-truncate", lambda: os.truncate(at("ledger/segment"), 0))
attempt("ledger-create", lambda: write(at("ledger/another")))
attempt("ledger-directory", lambda: os.mkdir(at("ledger/directory")))
attempt("ledger-symlink", lambda: os.symlink("/etc/passwd", at("ledger/link")))
attempt("ledger-move-in", lambda: moved(at("ledger/moved")))
attempt("ledger-link-out", lambda: os.link(at("ledger/segment"), mine("linked")))
attempt("ledger-link-in", lambda: os.link(mine("output"), at("ledger/linked")))
attempt("ledger-read", lambda: open(at("ledger/segment")).read())
attempt("ledger-list", lambda: os.listdir(at("ledger")))
attempt("ledger-lock", lambda: locked(at("ledger/segment")))
attempt("ledger-remove", lambda: os.remove(at("ledger/segment")))
attempt("ledger-rename", lambda: os.rename(at("ledger"), at("ledger-of-before")))
attempt("task-overwrite", lambda: write(at("task/kernel.cu")))
attempt("task-replace", lambda: moved(at("task/golden.npy")))
attempt("task-create", lambda: write(at("task/header.cuh")))
attempt("task-remove", lambda: os.remove(at("task/golden.npy")))
attempt("order-read", lambda: open(at("order.json")).read())
attempt("order-write", lambda: write(at("order.json")))
attempt("cache-read", lambda: open(at("cache/build")).read())
attempt("cache-write", lambda: write(at("cache/build")))
attempt("tmp-list", lambda: os.listdir(at("tmp")))
attempt("tmp-of-another", lambda: write(at("tmp/another/output-0.npy")))
attempt("signal", lambda: os.kill(victim, 0))
attempt("signal-pidfd", lambda: signal.pidfd_send_signal(os.pidfd_open(victim), 0))
attempt("proc-environ", lambda: open(f"/proc/{victim}/environ", "rb").read())
attempt("proc-cmdline", lambda: open(f"/proc/{victim}/cmdline", "rb").read())
attempt("proc-maps", lambda: open(f"/proc/{victim}/maps", "rb").read())
attempt("proc-mem", lambda: open(f"/proc/{victim}/mem", "rb"))
attempt("proc-fd", lambda: os.listdir(f"/proc/{victim}/fd"))
attempt("proc-fd-open", lambda: open(f"/proc/{victim}/fd/2", "w"))
attempt("proc-cwd", lambda: os.listdir(f"/proc/{victim}/cwd"))
attempt("proc-root", lambda: os.listdir(f"/proc/{victim}/root"))
attempt("proc-task", lambda: os.listdir(f"/proc/{victim}/task"))
attempt("proc-score", lambda: write(f"/proc/{victim}/oom_score_adj"))
sys.stdout.flush()
if "group" in sys.argv[4:]:
    # Everybody in its group, but not whom it cannot reach: only itself.
    os.kill(0, signal.SIGKILL)
if "endless" in sys.argv[4:]:
    signal.pause()
"#;

/// Prefix of attempts that also fail with the evaluation's own rights, because it cannot access `/proc` at all.
const OF_PROC: &str = "proc-";

fn program() -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--ignored", "--nocapture", "--test-threads=1", "--exact"]);
    command
}

/// Not a test of its own: an evaluation, which starts Python with its own rights, or with fewer.
#[test]
#[ignore = "started by the test that compares"]
fn evaluation() {
    let directory = PathBuf::from(std::env::var_os("CONFINED_DIRECTORY").unwrap());
    let reach = Reach { write: vec![directory.clone()], programs: true, ..Reach::default() };
    let held = confine(&Limits::default(), &reach).unwrap();
    assert!(held.is_whole());
    let scratch = directory.join("tmp/scratch");
    // Sandboxed like an evaluation; only this thread of this process is.
    let mut victim = Command::new("sleep").arg("600").spawn().unwrap();
    let number = victim.id().to_string();
    let kind = std::env::var("CONFINED_KIND").unwrap();
    let mut python = Command::new("python3");
    python.args(["-I", "-S", "-c", ATTEMPTS]).arg(&directory).arg(number).arg(&scratch).arg(&kind);
    python.current_dir(&scratch).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut started = if kind == "evaluation" {
        python.spawn().unwrap()
    } else {
        let read = vec![directory.join("task")];
        let reach = Reach { read, write: vec![scratch.clone()], programs: true, ..Reach::default() };
        let (started, held) = start(&mut python, &reach).unwrap();
        assert!(held.is_whole());
        started
    };
    if kind == "endless" {
        // Python has started once it has written its allowed files.
        while !scratch.join("directory").exists() {
            assert_eq!(started.try_wait().unwrap(), None);
            thread::sleep(Duration::from_millis(10));
        }
        started.kill().unwrap();
    }
    let ended = started.wait_with_output().unwrap();
    println!("\n{}", String::from_utf8_lossy(&ended.stdout));
    let lives = victim.try_wait().unwrap().is_none();
    let _ended = victim.kill().and_then(|()| victim.wait());
    assert!(lives, "a process of the evaluation was killed");
    if ["group", "endless"].contains(&kind.as_str()) {
        assert_eq!(ended.status.signal(), Some(9));
    } else {
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    }
    println!("\nthe evaluation is intact");
}

/// The directory of a running evaluation.
fn prepared() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    for (path, text) in [
        ("order.json", "{\"secret\": \"77\"}"),
        ("task/kernel.cu", "kernel"),
        ("task/golden.npy", "golden"),
        ("cache/build", "ptx"),
        ("ledger/segment", "verdict"),
        ("tmp/another/output-0.npy", "another"),
        ("tmp/scratch/request.json", "request"),
    ] {
        let place = directory.path().join(path);
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::write(place, text).unwrap();
    }
    directory
}

/// All files with their texts, except those of the scratch directory.
fn texts(directory: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    let mut waiting = vec![directory.to_owned()];
    while let Some(path) = waiting.pop() {
        if path.ends_with("tmp/scratch") {
            continue;
        }
        if path.is_dir() {
            waiting.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else {
            let text = fs::read_to_string(&path).unwrap();
            found.insert(path.strip_prefix(directory).unwrap().to_owned(), text);
        }
    }
    found
}

fn run(directory: &Path, kind: &str) -> (Output, Vec<(String, i32)>) {
    use std::os::unix::process::CommandExt;
    let mut command = program();
    command.arg("evaluation").env("CONFINED_DIRECTORY", directory).env("CONFINED_KIND", kind);
    // In its own process group, as a worker starts it.
    let output = command.process_group(0).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let attempts = text.lines().filter_map(|line| line.strip_prefix("attempt ")?.split_once(' '));
    let attempts = attempts.map(|(name, error)| (name.to_owned(), error.parse().unwrap())).collect();
    (output, attempts)
}

#[expect(clippy::print_stderr, reason = "a skipped test prints the reason")]
fn can_show() -> bool {
    let python = Command::new("python3").arg("--version").stdout(Stdio::null()).status();
    let can = python.is_ok() && probe(&Reach::default()).unwrap().is_whole();
    if !can {
        eprintln!("skipped: requires Python and a kernel with full sandbox support");
    }
    can
}

#[test]
fn a_reference_changes_nothing_of_its_evaluation_and_reads_its_task_alone() {
    if !can_show() {
        return;
    }
    let (free, bound) = (prepared(), prepared());
    let before = texts(bound.path());
    let (within, without) = (run(bound.path(), "reference"), run(free.path(), "evaluation"));
    let count = ATTEMPTS.lines().filter(|line| line.starts_with("attempt(")).count();
    for (output, attempts) in [&within, &without] {
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stdout));
        assert_eq!(attempts.len(), count, "{attempts:?}");
    }
    let needed = ["read-task", "list-task", "write-own", "directory-own", "signal-own"];
    for ((name, within), (_, without)) in within.1.iter().zip(&without.1) {
        if needed.contains(&name.as_str()) {
            assert_eq!((*within, *without), (0, 0), "{name}");
            continue;
        }
        assert!([1, 13, 18].contains(within), "{name} is not rejected: {within}");
        // An attempt that also fails with the evaluation's own rights proves nothing about the sandbox. Some attempts fail because
        // of earlier ones: an existing name, a removed file.
        let shows = *without == 0 || name.starts_with(OF_PROC);
        assert!(shows, "{name} would fail anyway: {without}");
    }
    assert_eq!(texts(bound.path()), before);
    assert_ne!(texts(free.path()), before);
}

#[test]
fn a_signal_to_all_of_the_group_ends_the_reference_alone() {
    if !can_show() {
        return;
    }
    let directory = prepared();
    let (output, _) = run(directory.path(), "group");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("the evaluation is intact"), "{text}");
}

#[test]
fn an_evaluation_can_end_the_reference_it_started() {
    if !can_show() {
        return;
    }
    let directory = prepared();
    let (output, _) = run(directory.path(), "endless");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("the evaluation is intact"), "{text}");
}
