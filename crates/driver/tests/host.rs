//! C programs of `tests/host` on this library: each in `fail` has the findings that its `//~ class` comments mark, at their lines, and
//! each in `pass`, its fixed version, has none.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Class and line.
type Found = BTreeSet<(String, u64)>;

fn folder(kind: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/host").join(kind).canonicalize().unwrap()
}

fn programs(kind: &str) -> Vec<PathBuf> {
    let all = fs::read_dir(folder(kind)).unwrap().map(|entry| entry.unwrap().path());
    // A test of the runtime runs the programs in CUDA C++.
    let mut files: Vec<PathBuf> =
        all.filter(|path| path.extension().is_some_and(|kind| kind == "c")).collect();
    files.sort();
    files
}

/// The library next to this test.
fn library() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let path = own.parent().unwrap().join("libwarpproof_cuda.so");
    assert!(path.is_file(), "{} is missing", path.display());
    path
}

/// What the comments of a program expect.
fn expected(program: &Path) -> Found {
    let text = fs::read_to_string(program).unwrap();
    let marks = (1u64..).zip(text.lines()).filter_map(|(line, text)| Some((line, text.split_once("//~")?.1)));
    marks
        .flat_map(|(line, classes)| classes.split_whitespace().map(move |class| (class.to_owned(), line)))
        .collect()
}

/// Compiles and runs a program; its findings as JSON.
fn run(program: &Path, flags: &[&str]) -> Vec<serde_json::Value> {
    run_late(program, flags, false, &[]).1
}

/// Compiles and runs a program, with its work as late as possible or not; its exit code, and its findings as JSON.
fn run_late(program: &Path, flags: &[&str], late: bool, arguments: &[&str]) -> (i32, Vec<serde_json::Value>) {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for name in ["libcuda.so.1", "libcuda.so"] {
        std::os::unix::fs::symlink(library(), at(name)).unwrap();
    }
    let compiled = Command::new("cc")
        .args(["-std=c11", "-Wall", "-Werror", "-Wno-unused"])
        .args(flags)
        .arg(program)
        .arg(at("libcuda.so.1"))
        .arg("-o")
        .arg(at("program"))
        .output()
        .unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let ended = Command::new(at("program"))
        .env("LD_LIBRARY_PATH", folder.path())
        .args(arguments)
        .env("WARPPROOF_LATE", if late { "1" } else { "0" })
        .env("WARPPROOF_FINDINGS", "json")
        .env("WARPPROOF_FINDINGS_FILE", at("findings"))
        .output()
        .unwrap();
    assert!(ended.status.code().is_some_and(|code| code < 9), "{}: {ended:?}", program.display());
    let text = fs::read_to_string(at("findings")).unwrap_or_default();
    let findings = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    (ended.status.code().unwrap(), findings)
}

/// The call site that a finding names first.
fn site(finding: &serde_json::Value) -> &serde_json::Value {
    let frames = if finding["record"] == "host" { &finding["places"][0]["frames"] } else { &finding["site"] };
    &frames[0]
}

fn found(program: &Path) -> Found {
    let name = program.display().to_string();
    let line = |finding: &serde_json::Value| {
        let frame = site(finding);
        let same = frame["file"].as_str().is_some_and(|file| file == name);
        (finding["class"].as_str().unwrap().to_owned(), frame["line"].as_u64().filter(|_| same).unwrap_or(0))
    };
    run(program, &["-g"]).iter().map(line).collect()
}

fn compare(kind: &str) {
    let mut wrong = Vec::new();
    for program in programs(kind) {
        let (expected, found) = (expected(&program), found(&program));
        if expected != found || expected.is_empty() == (kind == "fail") {
            wrong.push(format!("{}: expected {expected:?}, found {found:?}", program.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn defects_are_found_at_their_lines() {
    compare("fail");
}

#[test]
fn fixed_programs_have_no_findings() {
    compare("pass");
    let names =
        |kind| programs(kind).iter().map(|path| path.file_name().unwrap().to_owned()).collect::<Vec<_>>();
    assert_eq!(names("fail"), names("pass"));
}

#[test]
fn every_place_of_a_finding_has_its_line() {
    let program = folder("fail").join("double_free.c");
    let findings = run(&program, &["-g"]);
    let lines: Vec<_> = findings[0]["places"]
        .as_array()
        .unwrap()
        .iter()
        .map(|place| (place["text"].as_str().unwrap(), place["frames"][0]["line"].as_u64().unwrap()))
        .collect();
    assert_eq!(lines, [("the second free", 10), ("the first free", 9), ("the allocation", 8)]);
}

#[test]
fn callers_are_named() {
    let findings = run(&folder("fail").join("leak_loop.c"), &["-g"]);
    assert_eq!((findings.len(), &findings[0]["count"]), (1, &10.into()));
    let functions: Vec<_> = findings[0]["places"][0]["frames"]
        .as_array()
        .unwrap()
        .iter()
        .map(|frame| frame["function"].as_str().unwrap())
        .collect();
    assert_eq!(functions, ["make", "main"]);
}

#[test]
fn without_debugging_information_the_function_is_named() {
    let findings = run(&folder("fail").join("leak_loop.c"), &["-g0"]);
    let frame = site(&findings[0]);
    assert_eq!((&frame["function"], &frame["file"]), (&"make".into(), &serde_json::Value::Null));
    assert!(frame["module"].as_str().unwrap().ends_with("/program"));
}

#[test]
fn older_line_tables_are_read() {
    let program = folder("fail").join("leak.c");
    let findings = run(&program, &["-gdwarf-4"]);
    assert_eq!(site(&findings[0])["line"], 8);
}

#[test]
fn late_work_shows_a_missing_synchronization() {
    let program = folder("late").join("stale_pinned.c");
    assert_eq!(run_late(&program, &["-g"], false, &[]).0, 0);
    assert_eq!(run_late(&program, &["-g"], true, &[]).0, 5);
    assert_eq!(run_late(&program, &["-g"], true, &["synchronize"]).0, 0);
}

#[test]
fn late_work_keeps_its_order() {
    let program = folder("late").join("order.c");
    for late in [false, true] {
        let (code, findings) = run_late(&program, &["-g"], late, &[]);
        assert_eq!((code, findings.as_slice()), (0, &[][..]), "late: {late}");
    }
}

#[test]
fn fixed_programs_have_no_findings_when_work_is_late() {
    for program in programs("pass") {
        let (code, findings) = run_late(&program, &["-g"], true, &[]);
        assert_eq!((code, findings.as_slice()), (0, &[][..]), "{}", program.display());
    }
}
