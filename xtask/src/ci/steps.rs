//! The steps of CI, and what the studies among them depend on.
//!
//! To add a study: name the module of xtask, the packages whose programs or tests it runs, the files it reads, the tools
//! whose version can change the outcome, and the seconds that a sample may take. Sources of packages and modules that these use are
//! found by `tree.rs`. Raise the version when the work in this table changes.

use std::{
    collections::BTreeSet,
    io::{BufRead, BufReader},
    process::{Command, ExitStatus, Stdio},
};

use super::Tier;
use super::tree::{Inputs, Tool};
use crate::attention;
use crate::attention_library;
use crate::book;
use crate::cores;
use crate::corpus;
use crate::driver_api;
use crate::ecosystem;
use crate::findings;
use crate::fleet_api;
use crate::fuzz;
use crate::hopper::{self, Generation};
use crate::instructions;
use crate::kernels;
use crate::latencies;
use crate::model;
use crate::mutants;
use crate::part::Part;
use crate::plain;
use crate::program;
use crate::python;
use crate::readme;
use crate::root;
use crate::rungs;
use crate::runtime_functions;
use crate::target;
use crate::tidy;
use crate::tune;
use crate::ui;

/// Tests that are studies: they take minutes, and run when an input has changed. All other tests always run.
const COMPILER_TESTS: &str =
    "(package(warpproof) & binary(compilers)) | (package(warpproof-toolchain) & kind(test))";
const GATE_TESTS: &str = "package(warpproof) & binary(/^(gate|gate_launches|init|interrupted|tune)$/)";
const ATTENTION_TESTS: &str = "package(/^warpproof-(kernels|ladder)$/) & kind(test)";
const FLEET_TESTS: &str = "package(warpproof-fleet) & kind(test)";
const TEST_STUDIES: [&str; 4] = [COMPILER_TESTS, GATE_TESTS, ATTENTION_TESTS, FLEET_TESTS];

/// Of the step `test`; what it runs is hashed.
pub(super) const TESTS_VERSION: u32 = 1;

#[derive(Debug)]
pub(super) struct Step {
    pub(super) name: &'static str,
    /// The first tier that has it.
    pub(super) from: Tier,
    /// Whether it waits more than it works, and runs next to those that follow.
    pub(super) waits: bool,
    /// Folders of the target directory that no other step reads. CI removes them when the disk is nearly full.
    pub(super) leaves: &'static [&'static str],
    pub(super) work: Work,
}

/// What a step does. Each gives the note next to the step in the summary.
#[derive(Debug)]
pub(super) enum Work {
    /// Runs in full.
    Always(fn() -> Result<String, String>),
    /// The tests of these packages, or of all.
    Tests(fn(Option<&BTreeSet<String>>) -> Result<String, String>),
    Study {
        /// Of the work; what the work runs is hashed.
        version: u32,
        inputs: Inputs<'static>,
        /// How long a sample begins further items.
        seconds: u64,
        work: fn(&Part) -> Result<String, String>,
    },
}

/// A step of every tier.
const fn step(name: &'static str, work: fn() -> Result<String, String>) -> Step {
    Step { name, from: Tier::Answer, waits: false, leaves: &[], work: Work::Always(work) }
}

/// A step of a landing.
const fn landing(name: &'static str, work: fn() -> Result<String, String>) -> Step {
    Step { from: Tier::Proof, ..step(name, work) }
}

/// A step of which a sample may run.
const fn study(
    name: &'static str,
    version: u32,
    inputs: Inputs<'static>,
    seconds: u64,
    work: fn(&Part) -> Result<String, String>,
) -> Step {
    let work = Work::Study { version, inputs, seconds, work };
    Step { name, from: Tier::Answer, waits: false, leaves: &[], work }
}

/// Inputs of a task of xtask.
const fn of(module: &'static str) -> Inputs<'static> {
    Inputs { module: Some(module), packages: &[], tests: &[], files: &[], tools: &[Tool::Rustc, Tool::Cuda] }
}

/// Inputs of tests.
const fn tests(packages: &'static [&'static str]) -> Inputs<'static> {
    Inputs { module: None, packages: &[], tests: packages, files: &[], tools: &[Tool::Rustc, Tool::Cuda] }
}

/// Inputs of the tests of a package. What tests read outside of their package is not declared one by one.
pub(super) fn tests_of<'a>(package: &'a [&'a str]) -> Inputs<'a> {
    let files: &[&str] = match package {
        ["xtask"] => &[
            "ARCHITECTURE.md",
            "CONTRIBUTING.md",
            "README.md",
            ".ci/",
            ".github/",
            "book/",
            "corpus/",
            "crates/*/Cargo.toml",
            "docs/",
            "ecosystem/",
            "fuzz/",
            "python/",
            "tasks/",
            "tests/",
        ],
        _ => &["corpus/", "schemas/", "tasks/", "tests/"],
    };
    Inputs { module: None, packages: &[], tests: package, files, tools: &[Tool::Rustc, Tool::Cuda] }
}

/// In the order in which they run: what is quick and often wrong comes first, studies last.
pub(super) const STEPS: &[Step] = &[
    step("fmt", || cargo(&["fmt", "--all", "--check"], &[])),
    step("tidy", || tidy::run().map(quiet)),
    step("clippy", || {
        cargo(&["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"], &[])?;
        // A workspace of its own, whose study seldom runs.
        cargo(&["check", "--manifest-path", "fuzz/Cargo.toml", "--locked", "--all-features"], &[])
    }),
    Step {
        work: Work::Tests(|changed| {
            let studies = TEST_STUDIES.map(|filter| format!("({filter})"));
            let others = format!("not ({})", studies.join(" | "));
            let Some(changed) = changed else { return nextest(&others) };
            let changed: Vec<String> = changed.iter().map(|name| format!("package({name})")).collect();
            nextest(&format!("({}) & {others}", changed.join(" | ")))
        }),
        ..step("test", || Ok(String::new()))
    },
    landing("packages", packages),
    // Every crate but xtask can be published as it is: metadata, files and versions of the others. Nothing is uploaded or built.
    Step {
        leaves: &["package"],
        ..landing("publish", || {
            cargo(
                &["package", "--workspace", "--exclude", "xtask", "--locked", "--allow-dirty", "--no-verify"],
                &[],
            )
        })
    },
    // Reads what the tests wrote.
    landing("instructions", || instructions::run(false).map(quiet)),
    landing("doctest", || cargo(&["test", "--workspace", "--doc", "--locked"], &[])),
    Step {
        leaves: &["doc"],
        ..landing("doc", || {
            cargo(&["doc", "--workspace", "--no-deps", "--locked"], &[("RUSTDOCFLAGS", "-Dwarnings")])
        })
    },
    step("runtime-functions", || runtime_functions::run(false).map(quiet)),
    step("driver-api", || driver_api::run(false).map(quiet)),
    study(
        "deny",
        1,
        Inputs {
            module: None,
            packages: &[],
            tests: &[],
            files: &[
                "Cargo.toml",
                "Cargo.lock",
                "crates/*/Cargo.toml",
                "xtask/Cargo.toml",
                "fuzz/Cargo.toml",
                "fuzz/Cargo.lock",
                "deny.toml",
            ],
            tools: &[],
        },
        0,
        |_| {
            let path = cargo_deny()?;
            let environment = [("PATH", path.as_str())];
            let checks = ["check", "bans", "licenses", "sources"];
            cargo(&["fetch", "--locked", "--manifest-path", "fuzz/Cargo.toml"], &[])?;
            cargo(&[&["deny", "--locked"], &checks[..]].concat(), &environment)?;
            let fuzz = ["deny", "--locked", "--manifest-path", "fuzz/Cargo.toml"];
            cargo(&[&fuzz[..], &checks].concat(), &environment)
        },
    ),
    study(
        "ui-ptx",
        1,
        Inputs {
            packages: &["warpproof-toolchain"],
            files: &["crates/warpproof/tests/ui/", "tests/"],
            ..of("ui")
        },
        20,
        |part| {
            if part.is_whole() {
                return ui::run(false, None).map(quiet);
            }
            sampled_tests(part, "package(warpproof) & binary(ui)", &[("WARPPROOF_UI", "verify-ptx")])
        },
    ),
    study(
        "findings",
        1,
        Inputs {
            packages: &["warpproof"],
            files: &["tests/fail/", "crates/warpproof/tests/ui/annotations.rs", "book/src/findings.md"],
            ..of("findings")
        },
        15,
        |part| findings::run(part, false),
    ),
    study(
        "book",
        1,
        Inputs { packages: &["warpproof"], files: &["book/", "tasks/"], ..of("book") },
        40,
        |part| book::run(part, false),
    ),
    study(
        "readme",
        1,
        Inputs { packages: &["warpproof"], files: &["README.md", "tasks/"], ..of("readme") },
        0,
        |_| readme::run(false, true).map(quiet),
    ),
    study(
        "picture",
        1,
        Inputs { packages: &["warpproof"], files: &["README.md", "docs/"], ..of("program") },
        0,
        |_| picture().map(quiet),
    ),
    study("latencies", 1, of("latencies"), 5, |part| latencies::run(part, false)),
    study("model", 1, Inputs { files: &["book/src/model/validation.md"], ..of("model") }, 20, |part| {
        model::run(part, false)
    }),
    study(
        "test-compilers",
        1,
        Inputs { files: &["corpus/", "tests/pass/"], ..tests(&["warpproof", "warpproof-toolchain"]) },
        20,
        |part| sampled_tests(part, COMPILER_TESTS, &[]),
    ),
    study("test-gate", 1, Inputs { files: &["tasks/", "corpus/"], ..tests(&["warpproof"]) }, 25, |part| {
        sampled_tests(part, GATE_TESTS, &[])
    }),
    study("test-attention", 1, tests(&["warpproof-kernels", "warpproof-ladder"]), 20, |part| {
        sampled_tests(part, ATTENTION_TESTS, &[])
    }),
    study("test-fleet", 1, Inputs { files: &["tasks/"], ..tests(&["warpproof-fleet"]) }, 20, |part| {
        sampled_tests(part, FLEET_TESTS, &[])
    }),
    study("plain", 1, of("plain"), 10, |part| plain::run(part, None, 0)),
    study("corpus", 1, Inputs { files: &["corpus/"], ..of("corpus") }, 10, |part| {
        corpus::run(part, None, cores())
    }),
    study(
        "mutants",
        1,
        Inputs { packages: &["warpproof"], files: &["tests/pass/", "book/src/mutants.md"], ..of("mutants") },
        30,
        |part| mutants::run(part, false, None, false),
    ),
    study(
        "hopper",
        1,
        Inputs {
            packages: &["warpproof-check", "warpproof-toolchain"],
            files: &["tests/hopper/", "book/src/hopper.md"],
            ..of("hopper")
        },
        30,
        |part| hopper::run(part, Generation::Hopper, false, None, false, false),
    ),
    study(
        "blackwell",
        1,
        Inputs {
            packages: &["warpproof-check", "warpproof-toolchain"],
            files: &["tests/hopper/", "tests/blackwell/", "book/src/blackwell.md"],
            ..of("hopper")
        },
        20,
        |part| hopper::run(part, Generation::Blackwell, false, None, false, false),
    ),
    // By hand for ten minutes.
    Step {
        waits: true,
        leaves: &["fleet-api"],
        ..study(
            "fleet-api",
            1,
            Inputs {
                packages: &["warpproof"],
                tests: &["warpproof-fleet"],
                files: &["tasks/"],
                tools: &[Tool::Rustc],
                ..of("fleet_api")
            },
            60,
            |part| {
                let minutes = if part.is_whole() { 2.0 } else { 1.0 };
                fleet_api::run(minutes).map(|()| format!("requests of {minutes} minutes"))
            },
        )
    },
    Step {
        leaves: &["ecosystem"],
        ..study(
            "ecosystem",
            1,
            Inputs {
                packages: &["warpproof", "warpproof-runtime"],
                files: &["ecosystem/", "book/src/exec.md"],
                ..of("ecosystem")
            },
            30,
            |part| ecosystem::run(part, false),
        )
    },
    Step {
        leaves: &["python"],
        ..study(
            "python",
            1,
            Inputs {
                packages: &["warpproof", "warpproof-runtime"],
                files: &["python/", "book/src/python.md"],
                tools: &[Tool::Rustc],
                ..of("python")
            },
            45,
            python::run,
        )
    },
    study(
        "attention",
        1,
        Inputs {
            files: &[
                "book/src/attention/accuracy.csv",
                "book/src/attention/quantized.csv",
                "book/src/attention/accuracy.md",
            ],
            ..of("attention")
        },
        20,
        |part| {
            // Not by `cargo run`, which would build what it depends on a second time, with the features that it asks for alone.
            program::workspace()?;
            let example =
                Command::new(target().join("debug/examples/attention")).current_dir(root()).status();
            if !example.as_ref().is_ok_and(ExitStatus::success) {
                return Err(format!("examples/attention.rs gave {example:?}"));
            }
            attention::run(part, true, None, false)
        },
    ),
    study("kernels", 1, Inputs { files: &["crates/attention/data/"], ..of("kernels") }, 0, |_| {
        kernels::run(false)
    }),
    Step {
        leaves: &["attention-library"],
        ..study(
            "attention-lib",
            1,
            Inputs {
                packages: &["warpproof", "warpproof-runtime", "warpproof-attention"],
                files: &["python/", "crates/attention/examples/", "crates/attention/include/"],
                ..of("attention_library")
            },
            20,
            attention_library::run,
        )
    },
    study(
        "rungs",
        1,
        Inputs {
            files: &[
                "book/src/attention/ladder.md",
                "book/src/attention/serving.md",
                "book/src/attention/img/predicted.svg",
            ],
            ..of("rungs")
        },
        10,
        |part| rungs::run(part, false),
    ),
    study("tune", 1, Inputs { files: &["tasks/tune/", "book/src/tune.md"], ..of("tune") }, 10, |part| {
        tune::run(part, false)
    }),
    Step {
        leaves: &["fuzz"],
        ..study(
            "fuzz",
            1,
            Inputs {
                packages: &["warpproof-ptx", "warpproof-check"],
                files: &["fuzz/", "xtask/src/plain/trial/"],
                tools: &[Tool::Rustc],
                ..of("fuzz")
            },
            20,
            fuzz::targets,
        )
    },
];

/// The most packages of others that the program may depend on: what a user compiles to install it.
const PACKAGES: usize = 75;

/// Counts what the program is made of, as `cargo tree` lists it.
fn packages() -> Result<String, String> {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let tree = Command::new(program)
        .args(["tree", "--locked", "--package", "warpproof", "--edges", "normal", "--prefix", "none"])
        .current_dir(root())
        .output()
        .map_err(|error| format!("cannot start cargo: {error}"))?;
    if !tree.status.success() {
        return Err(format!("cargo tree gave {}: {}", tree.status, String::from_utf8_lossy(&tree.stderr)));
    }
    few_enough(&String::from_utf8_lossy(&tree.stdout))
}

fn few_enough(tree: &str) -> Result<String, String> {
    // A package that was listed before is marked with `(*)`, one of this repository has its folder.
    let lines = tree.lines().map(|line| line.trim_end_matches(" (*)")).filter(|line| !line.is_empty());
    let (own, others): (BTreeSet<&str>, BTreeSet<&str>) = lines.partition(|line| line.contains(" (/"));
    let count = format!("{} packages of others, at most {PACKAGES}; {} of ours", others.len(), own.len());
    if others.len() <= PACKAGES { Ok(count) } else { Err(count) }
}

/// The newest release when it was pinned; older ones cannot read the package ids of today's cargo. No registry has it ready to run.
const DENY_VERSION: &str = "0.20.2";

/// Installs cargo-deny below the target directory, unless this version is there. Returns the search path with which cargo finds it.
fn cargo_deny() -> Result<String, String> {
    let place = target().join("ci");
    let path = format!("{}:{}", place.join("bin").display(), std::env::var("PATH").unwrap_or_default());
    let found = Command::new(place.join("bin/cargo-deny")).arg("--version").output();
    let wanted = format!("cargo-deny {DENY_VERSION}");
    if found.is_ok_and(|found| String::from_utf8_lossy(&found.stdout).trim() == wanted) {
        return Ok(path);
    }
    // Unoptimized: it runs for a second and would build for minutes.
    let build = place.join("cargo-deny");
    let package = format!("cargo-deny@{DENY_VERSION}");
    let arguments =
        ["install", "--quiet", "--locked", "--debug", "--no-default-features", "--force", &package, "--root"];
    let (place, folder) = (place.display().to_string(), build.display().to_string());
    cargo(&[&arguments[..], &[&place]].concat(), &[("CARGO_TARGET_DIR", &folder)])?;
    let _kept = std::fs::remove_dir_all(build);
    Ok(path)
}

/// Compares the picture of the README's report with the output of the program.
fn picture() -> Result<(), String> {
    let mut check = Command::new("python3");
    check.arg("docs/report.py").arg("--check").arg("--warpproof").arg(program::warpproof()?);
    let output =
        check.current_dir(root()).output().map_err(|error| format!("cannot start python3: {error}"))?;
    if output.status.success() {
        Ok(())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
    }
}

fn quiet((): ()) -> String {
    String::new()
}

/// Runs the tests that a filter of nextest selects.
fn nextest(filter: &str) -> Result<String, String> {
    nextest_with(filter, &[], &[])
}

fn nextest_with(filter: &str, further: &[&str], environment: &[(&str, &str)]) -> Result<String, String> {
    let arguments = ["nextest", "run", "--workspace", "--locked", "--profile", "ci", "-E", filter];
    cargo(&[&arguments[..], further].concat(), environment)
}

/// The parts into which tests are divided, of which a sample runs some.
const TEST_PARTS: usize = 16;

/// Runs the tests of a filter, or some sixteenths of them.
fn sampled_tests(part: &Part, filter: &str, environment: &[(&str, &str)]) -> Result<String, String> {
    if part.is_whole() {
        return nextest_with(filter, &[], environment);
    }
    let parts: Vec<usize> = (1..=TEST_PARTS).collect();
    let results = part.try_each(&parts, |number| {
        // A part may be empty.
        let partition = format!("hash:{number}/{TEST_PARTS}");
        nextest_with(filter, &["--no-tests=pass", "--partition", &partition], environment)
    })?;
    let note = results.note("parts");
    Ok(format!("{note}: {}", results.into_results().collect::<Vec<_>>().join("; ")))
}

/// Runs cargo at the root of the checkout, shows what it prints, and returns the line that counts tests, if any.
fn cargo(arguments: &[&str], environment: &[(&str, &str)]) -> Result<String, String> {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let line = format!("cargo {}", arguments.join(" "));
    println!("{line}");
    let mut child = Command::new(program)
        .args(arguments)
        .envs(environment.iter().copied())
        .current_dir(root())
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cannot start `{line}`: {error}"))?;
    let mut note = String::new();
    let mut failures = Vec::new();
    if let Some(errors) = child.stderr.take() {
        // Lines that are not UTF-8 still have to be drained, or the child would wait for us.
        for text in BufReader::new(errors).split(b'\n') {
            let text = text.map_err(|error| format!("cannot read what `{line}` prints: {error}"))?;
            let text = String::from_utf8_lossy(&text);
            eprintln!("{text}");
            if let Some(count) = tests_run(&text) {
                note = count;
            }
            if is_failure(&text) && failures.len() < MAX_FAILURES {
                failures.push(text.trim().to_owned());
            }
        }
    }
    let status = child.wait().map_err(|error| format!("cannot wait for `{line}`: {error}"))?;
    if status.success() {
        return Ok(note);
    }
    let hint = match arguments.first() {
        Some(&"deny") => "; if it is not installed: cargo install --locked cargo-deny",
        Some(&"nextest") => "; if it is not installed: cargo install --locked cargo-nextest",
        _ => "",
    };
    // nextest names a failed test twice, when it fails and at the end.
    let mut seen = BTreeSet::new();
    failures.retain(|failure| seen.insert(failure.clone()));
    failures.insert(0, format!("`{line}` gave {status}{hint}"));
    Err(failures.join("\n"))
}

/// Lines about failures that are repeated at the end.
const MAX_FAILURES: usize = 40;

/// Whether cargo or nextest reports a failure in this line.
fn is_failure(line: &str) -> bool {
    let line = line.trim_start();
    let of_tests = ["FAIL [", "TIMEOUT [", "ABORT [", "SIGSEGV [", "SIGABRT [", "SIGKILL ["];
    of_tests.iter().any(|start| line.starts_with(start))
        || line.starts_with("error: ")
        || line.starts_with("error[")
}

/// The summary line of nextest: "Summary [   1.2s] 412 tests run: 412 passed, 0 skipped".
fn tests_run(line: &str) -> Option<String> {
    let line = line.trim_start();
    let (_, count) = line.strip_prefix("Summary [")?.split_once(']')?;
    Some(count.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_package_too_many_is_refused() {
        let tree =
            |count: usize| (0..count).map(|n| format!("package{n} v1.0.0")).collect::<Vec<_>>().join("\n");
        let own =
            "\nwarpproof v0.1.0 (/here/crates/warpproof)\nwarpproof-sim v0.1.0 (/here/crates/sim) (*)\n";
        assert!(
            few_enough(&(tree(PACKAGES) + own + "package3 v1.0.0 (*)")).unwrap().ends_with("; 2 of ours")
        );
        assert!(few_enough(&tree(PACKAGES + 1)).is_err());
    }

    #[test]
    fn the_count_of_tests_is_taken_from_nextest() {
        assert_eq!(
            tests_run("     Summary [   0.010s] 12 tests run: 12 passed, 0 skipped").as_deref(),
            Some("12 tests run: 12 passed, 0 skipped")
        );
        assert_eq!(tests_run("        PASS [   0.004s] warpproof-ptx parse"), None);
    }

    #[test]
    fn failures_are_recognized() {
        assert!(is_failure("        FAIL [   1.261s] (1186/1947) warpproof-report::view forms::markdown"));
        assert!(is_failure("error[E0609]: no field `op` on type `Entry`"));
        assert!(!is_failure("        PASS [   0.004s] warpproof-ptx a FAIL [ in its name"));
    }

    /// A name of a test program that does not exist would select nothing, and nextest would not run what it was meant for.
    #[test]
    fn test_programs_of_the_filters_exist() {
        let names = ["compilers", "gate", "gate_launches", "init", "interrupted", "tune"];
        let folder = root().join("crates/warpproof/tests");
        for name in &names {
            let file = folder.join(format!("{name}.rs"));
            assert!(file.is_file() || folder.join(name).join("main.rs").is_file(), "{name}");
        }
        for name in &names[1..] {
            assert!(
                GATE_TESTS.contains(&format!("{name}|")) || GATE_TESTS.contains(&format!("{name})")),
                "{name}"
            );
        }
    }

    #[test]
    fn the_book_copies_only_what_its_study_depends_on() {
        let book = STEPS.iter().find(|step| step.name == "book").map(|step| &step.work);
        let Some(Work::Study { inputs: Inputs { files, .. }, .. }) = book else {
            panic!("no study of the book")
        };
        let pages = Command::new("git")
            .args(["grep", "-h", "^```copy ", "--", "book/src"])
            .current_dir(root())
            .output();
        let pages = String::from_utf8(pages.unwrap().stdout).unwrap();
        assert!(!pages.is_empty());
        for folder in pages.lines().filter_map(|line| line.strip_prefix("```copy ")) {
            assert!(files.iter().any(|path| format!("{folder}/").starts_with(path)), "{folder}");
        }
    }

    #[test]
    fn studies_come_last() {
        let is_study = |step: &Step| matches!(step.work, Work::Study { .. });
        let first = STEPS.iter().position(is_study).unwrap();
        assert!(STEPS[first..].iter().all(is_study));
    }
}
