//! Programs in CUDA C++ of `tests/host`: each in `fail` has the findings that its `//~ class` comments mark, at their lines, and each
//! in `pass`, its fixed version, has none.
//!
//! nvcc takes seconds for each file, so all programs are compiled as one: each in its own namespace, with its `main` renamed. The
//! first argument selects a program. One program of each kind is compiled alone. Programs with `//@device: h100` are compiled for
//! sm_90 and run on that device.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bench;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use bench::{libraries, nvcc_file, text};
use tempfile::TempDir;

/// Class and line.
type Found = BTreeSet<(String, u64)>;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/host").canonicalize().unwrap()
}

/// The device that programs run on, and the flag that selects its architecture.
#[derive(Clone, Copy, PartialEq)]
enum On {
    Ada,
    Hopper,
}

impl On {
    fn of(program: &Path) -> On {
        let hopper = fs::read_to_string(program).unwrap().contains("//@device: h100");
        if hopper { On::Hopper } else { On::Ada }
    }

    fn flag(self) -> Option<&'static str> {
        (self == On::Hopper).then_some("-arch=sm_90")
    }
}

fn programs_on(kind: &str, on: On) -> Vec<PathBuf> {
    programs(kind).into_iter().filter(|program| On::of(program) == on).collect()
}

fn programs(kind: &str) -> Vec<PathBuf> {
    let all = fs::read_dir(folder().join(kind)).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> =
        all.filter(|path| path.extension().is_some_and(|kind| kind == "cu")).collect();
    files.sort();
    files
}

fn name(program: &Path) -> String {
    program.file_stem().unwrap().to_str().unwrap().to_owned()
}

/// One source of all programs of a kind.
fn joined(kind: &str, on: On) -> String {
    let mut source = format!("#include \"{}\"\n#define main entry\n", folder().join("runtime.h").display());
    let mut calls = String::new();
    for program in programs_on(kind, on) {
        let name = name(&program);
        let _ = writeln!(source, "namespace in_{name} {{\n#include \"{}\"\n}}", program.display());
        let _ = writeln!(calls, "    if (!strcmp(arguments[1], \"{name}\")) return in_{name}::entry();");
    }
    source + "#undef main\nint main(int, char **arguments) {\n" + &calls + "    return 9;\n}\n"
}

/// The programs of a kind as one executable.
fn compiled(kind: &str, on: On, flags: &[&str], libraries: &TempDir) -> PathBuf {
    let file = libraries.path().join(format!("{kind}.cu"));
    fs::write(&file, joined(kind, on)).unwrap();
    let flags: Vec<&str> = flags.iter().copied().chain(on.flag()).collect();
    nvcc_file(&file, &libraries.path().join(kind), &flags)
}

/// Runs a program; its exit code, and its findings as JSON.
fn run(
    executable: &Path,
    program: &str,
    libraries: &TempDir,
    settings: &[(&str, &str)],
) -> (i32, Vec<serde_json::Value>) {
    let file = libraries.path().join(format!("{program}.findings"));
    let mut command = Command::new(executable);
    command.arg(program).env("LD_LIBRARY_PATH", libraries.path()).env_remove("WARPPROOF_REPORT");
    command.env("WARPPROOF_FINDINGS", "json").env("WARPPROOF_FINDINGS_FILE", &file);
    let ended = command.envs(settings.iter().copied()).output().unwrap();
    assert!(ended.status.code().is_some_and(|code| code < 9), "{program}: {}", text(&ended.stderr));
    let findings = fs::read_to_string(&file).unwrap_or_default();
    let _ = fs::remove_file(&file);
    (ended.status.code().unwrap(), findings.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
}

/// The call site that a finding names first.
fn site(finding: &serde_json::Value) -> &serde_json::Value {
    let frames = if finding["record"] == "host" { &finding["places"][0]["frames"] } else { &finding["site"] };
    &frames[0]
}

/// The findings of a program; line 0 stands for a line of another file.
fn found(program: &Path, findings: &[serde_json::Value]) -> Found {
    let line = |finding: &serde_json::Value| {
        let frame = site(finding);
        let same = frame["file"].as_str() == program.to_str();
        (finding["class"].as_str().unwrap().to_owned(), frame["line"].as_u64().filter(|_| same).unwrap_or(0))
    };
    findings.iter().map(line).collect()
}

/// What the comments of a program expect.
fn expected(program: &Path) -> Found {
    let text = fs::read_to_string(program).unwrap();
    let marks = (1u64..).zip(text.lines()).filter_map(|(line, text)| Some((line, text.split_once("//~")?.1)));
    marks
        .flat_map(|(line, classes)| classes.split_whitespace().map(move |class| (class.to_owned(), line)))
        .collect()
}

fn compare(kind: &str, flags: &[&str], settings: &[(&str, &str)]) {
    compare_on(On::Ada, kind, flags, settings);
}

fn compare_on(on: On, kind: &str, flags: &[&str], settings: &[(&str, &str)]) {
    let libraries = libraries();
    let executable = compiled(kind, on, flags, &libraries);
    let device = (on == On::Hopper).then_some(("WARPPROOF_DEVICE", "h100"));
    let settings: Vec<(&str, &str)> = settings.iter().copied().chain(device).collect();
    let mut wrong = Vec::new();
    let late = settings.contains(&("WARPPROOF_LATE", "1"));
    for program in programs_on(kind, on) {
        if late && fs::read_to_string(&program).unwrap().contains("//@not-late") {
            continue;
        }
        let (code, findings) = run(&executable, &name(&program), &libraries, &settings);
        let (expected, found) = (expected(&program), found(&program, &findings));
        let clean = kind == "fail" || code == 0;
        if expected != found || expected.is_empty() == (kind == "fail") || !clean {
            wrong.push(format!(
                "{}: expected {expected:?}, found {found:?} and exit code {code}",
                program.display()
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn toolchain_defects_are_found_at_their_lines() {
    compare("fail", &[], &[]);
}

#[test]
fn toolchain_defects_of_optimized_programs_are_found_at_their_lines() {
    compare("fail", &["-O2"], &[]);
}

#[test]
fn toolchain_fixed_programs_have_no_findings() {
    compare("pass", &[], &[]);
    let names = |kind| programs(kind).iter().map(|path| name(path)).collect::<Vec<_>>();
    assert_eq!(names("fail"), names("pass"));
}

#[test]
fn toolchain_dependent_launches_on_hopper() {
    for flags in [&[][..], &["-O2"]] {
        compare_on(On::Hopper, "fail", flags, &[]);
    }
    compare_on(On::Hopper, "pass", &[], &[]);
    compare_on(On::Hopper, "pass", &[], &[("WARPPROOF_LATE", "1")]);
}

#[test]
fn toolchain_fixed_programs_have_no_findings_when_work_is_late() {
    compare("pass", &[], &[("WARPPROOF_LATE", "1")]);
}

#[test]
fn toolchain_a_program_that_is_compiled_alone_has_its_findings() {
    let libraries = libraries();
    for kind in ["fail", "pass"] {
        let program = folder().join(kind).join("kernel_after_free_async.cu");
        let executable = libraries.path().join("alone");
        nvcc_file(&program, &executable, &[]);
        let (_, findings) = run(&executable, "", &libraries, &[]);
        assert_eq!(found(&program, &findings), expected(&program));
    }
}

/// Runs `host_access.cu`; its exit code or signal, what it printed, and the lines of its findings.
fn host_access(executable: &Path, what: &str, libraries: &TempDir) -> (Option<i32>, String, Vec<u64>) {
    use std::os::unix::process::ExitStatusExt as _;
    let file = libraries.path().join("findings");
    let _ = fs::remove_file(&file);
    let mut command = Command::new(executable);
    command.arg(what).env("LD_LIBRARY_PATH", libraries.path()).env_remove("WARPPROOF_REPORT");
    command.env("WARPPROOF_FINDINGS", "json").env("WARPPROOF_FINDINGS_FILE", &file);
    let ended = command.output().unwrap();
    let findings = fs::read_to_string(&file).unwrap_or_default();
    let findings: Vec<serde_json::Value> =
        findings.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(findings.iter().all(|finding| finding["class"] == "stream-race"), "{findings:?}");
    let lines = findings.iter().map(|finding| site(finding)["line"].as_u64().unwrap()).collect();
    (ended.status.code().or(ended.status.signal()), text(&ended.stdout) + &text(&ended.stderr), lines)
}

#[test]
fn toolchain_accesses_of_the_host_are_found_next_to_handlers_and_system_calls_of_the_program() {
    let libraries = libraries();
    let executable = libraries.path().join("host_access");
    nvcc_file(&bench::source("host_access.cu"), &executable, &[]);
    let run = |what| host_access(&executable, what, &libraries);
    // Two calls of one function, so two call sites.
    assert_eq!(run("handlers"), (Some(0), "ok\n".to_owned(), vec![50, 50]));
    assert_eq!(run("crash"), (Some(11), String::new(), vec![50]));
    assert_eq!(run("calls"), (Some(0), "ok\n".to_owned(), vec![]));
}
