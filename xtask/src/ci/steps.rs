//! The steps of CI, and what the studies among them depend on.
//!
//! To add a study: name the module of xtask, the packages whose programs or tests it runs, the files it reads, and the tools
//! whose version can change the outcome. Sources of packages and modules that these use are found by `tree.rs`. Raise the
//! version when the work in this table changes.

use std::{
    collections::BTreeSet,
    io::{BufRead, BufReader},
    process::{Command, ExitStatus, Stdio},
    thread,
};

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

/// How long each fuzz target of the parser runs; that of the machine runs for as long as both.
const FUZZ_SECONDS: u64 = 30;

/// Tests that are studies: they take minutes, and run when an input has changed. All other tests always run.
const COMPILER_TESTS: &str =
    "(package(warpproof) & binary(compilers)) | (package(warpproof-toolchain) & kind(test))";
const GATE_TESTS: &str = "package(warpproof) & binary(/^(gate|gate_launches|init|interrupted|tune)$/)";
const ATTENTION_TESTS: &str = "package(/^warpproof-(kernels|ladder)$/) & kind(test)";
const FLEET_TESTS: &str = "package(warpproof-fleet) & kind(test)";
const TEST_STUDIES: [&str; 4] = [COMPILER_TESTS, GATE_TESTS, ATTENTION_TESTS, FLEET_TESTS];

pub(super) type Work = fn() -> Result<String, String>;

#[derive(Debug)]
pub(super) struct Step {
    pub(super) name: &'static str,
    /// Whether it waits more than it works, and runs next to those that follow.
    pub(super) waits: bool,
    /// What it depends on, if it need not run while that is unchanged.
    pub(super) study: Option<Study>,
    /// Folders of the target directory that no other step reads. CI removes them: a small disk would fill.
    pub(super) leaves: &'static [&'static str],
    /// Gives the note next to the step in the summary.
    pub(super) work: Work,
}

#[derive(Debug)]
pub(super) struct Study {
    /// Of the work; what the work runs is hashed.
    pub(super) version: u32,
    pub(super) inputs: Inputs,
}

/// A step that always runs.
const fn step(name: &'static str, work: Work) -> Step {
    Step { name, waits: false, study: None, leaves: &[], work }
}

/// A step that runs when an input has changed.
const fn study(name: &'static str, version: u32, inputs: Inputs, work: Work) -> Step {
    Step { name, waits: false, study: Some(Study { version, inputs }), leaves: &[], work }
}

/// Inputs of a task of xtask.
const fn of(module: &'static str) -> Inputs {
    Inputs { module: Some(module), packages: &[], tests: &[], files: &[], tools: &[Tool::Rustc, Tool::Cuda] }
}

/// Inputs of tests.
const fn tests(packages: &'static [&'static str]) -> Inputs {
    Inputs { module: None, packages: &[], tests: packages, files: &[], tools: &[Tool::Rustc, Tool::Cuda] }
}

/// In the order in which they run: what is quick and often wrong comes first, studies last.
pub(super) const STEPS: &[Step] = &[
    step("fmt", || cargo(&["fmt", "--all", "--check"], &[])),
    step("tidy", || tidy::run().map(quiet)),
    step("clippy", || {
        cargo(&["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"], &[])?;
        // A workspace of its own, whose study seldom runs.
        cargo(&["check", "--manifest-path", "fuzz/Cargo.toml", "--locked"], &[])
    }),
    step("test", || {
        let studies = TEST_STUDIES.map(|filter| format!("({filter})"));
        nextest(&format!("not ({})", studies.join(" | ")))
    }),
    step("packages", packages),
    // Every crate but xtask can be published as it is: metadata, files and versions of the others. Nothing is uploaded or built.
    Step {
        leaves: &["package"],
        ..step("publish", || {
            cargo(
                &["package", "--workspace", "--exclude", "xtask", "--locked", "--allow-dirty", "--no-verify"],
                &[],
            )
        })
    },
    // Reads what the tests wrote.
    step("instructions", || instructions::run(false).map(quiet)),
    step("doctest", || cargo(&["test", "--workspace", "--doc", "--locked"], &[])),
    Step {
        leaves: &["doc"],
        ..step("doc", || {
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
                // Has the version of cargo-deny.
                ".ci/run",
            ],
            tools: &[],
        },
        || {
            cargo(&["deny", "--locked", "check", "bans", "licenses", "sources"], &[])?;
            let fuzz = ["deny", "--locked", "--manifest-path", "fuzz/Cargo.toml"];
            cargo(&[&fuzz[..], &["check", "bans", "licenses", "sources"]].concat(), &[])
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
        || ui::run(false, None).map(quiet),
    ),
    study(
        "findings",
        1,
        Inputs {
            packages: &["warpproof"],
            files: &["tests/fail/", "crates/warpproof/tests/ui/annotations.rs", "book/src/findings.md"],
            ..of("findings")
        },
        || findings::run(false).map(quiet),
    ),
    study("book", 1, Inputs { packages: &["warpproof"], files: &["book/", "tasks/"], ..of("book") }, || {
        book::run(false).map(quiet)
    }),
    study(
        "readme",
        1,
        Inputs { packages: &["warpproof"], files: &["README.md", "tasks/"], ..of("readme") },
        || readme::run(false, true).map(quiet),
    ),
    study(
        "picture",
        1,
        Inputs { packages: &["warpproof"], files: &["README.md", "docs/"], ..of("program") },
        || picture().map(quiet),
    ),
    study("latencies", 1, of("latencies"), || latencies::run(false).map(quiet)),
    study("model", 1, Inputs { files: &["book/src/model/validation.md"], ..of("model") }, || {
        model::run(false).map(quiet)
    }),
    study(
        "test-compilers",
        1,
        Inputs { files: &["corpus/", "tests/pass/"], ..tests(&["warpproof", "warpproof-toolchain"]) },
        || nextest(COMPILER_TESTS),
    ),
    study("test-gate", 1, Inputs { files: &["tasks/", "corpus/"], ..tests(&["warpproof"]) }, || {
        nextest(GATE_TESTS)
    }),
    study("test-attention", 1, tests(&["warpproof-kernels", "warpproof-ladder"]), || {
        nextest(ATTENTION_TESTS)
    }),
    study("test-fleet", 1, Inputs { files: &["tasks/"], ..tests(&["warpproof-fleet"]) }, || {
        nextest(FLEET_TESTS)
    }),
    study("corpus", 1, Inputs { files: &["corpus/"], ..of("corpus") }, || {
        corpus::run(None, cores()).map(quiet)
    }),
    study(
        "mutants",
        1,
        Inputs { packages: &["warpproof"], files: &["tests/pass/", "book/src/mutants.md"], ..of("mutants") },
        || mutants::run(false, None, false).map(quiet),
    ),
    study(
        "hopper",
        1,
        Inputs {
            packages: &["warpproof-sim", "warpproof-toolchain"],
            files: &["tests/hopper/", "book/src/hopper.md"],
            ..of("hopper")
        },
        || hopper::run(Generation::Hopper, false, None, false, false).map(quiet),
    ),
    study(
        "blackwell",
        1,
        Inputs {
            packages: &["warpproof-sim", "warpproof-toolchain"],
            files: &["tests/hopper/", "tests/blackwell/", "book/src/blackwell.md"],
            ..of("hopper")
        },
        || hopper::run(Generation::Blackwell, false, None, false, false).map(quiet),
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
            || fleet_api::run(2.0).map(quiet),
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
            || ecosystem::run(false).map(quiet),
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
            || python::run().map(quiet),
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
        || {
            // Not by `cargo run`, which would build what it depends on a second time, with the features that it asks for alone.
            program::workspace()?;
            let example =
                Command::new(target().join("debug/examples/attention")).current_dir(root()).status();
            if !example.as_ref().is_ok_and(ExitStatus::success) {
                return Err(format!("examples/attention.rs gave {example:?}"));
            }
            attention::run(true, None, false).map(quiet)
        },
    ),
    study("kernels", 1, Inputs { files: &["crates/attention/data/"], ..of("kernels") }, || {
        kernels::run(false).map(quiet)
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
            || attention_library::run().map(quiet),
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
        || rungs::run(false).map(quiet),
    ),
    study("tune", 1, Inputs { files: &["tasks/tune/", "book/src/tune.md"], ..of("tune") }, || {
        tune::run(false).map(quiet)
    }),
    Step {
        leaves: &["fuzz"],
        ..study(
            "fuzz",
            1,
            Inputs {
                packages: &["warpproof-ptx", "warpproof-sim"],
                files: &["fuzz/"],
                tools: &[Tool::Rustc],
                ..of("fuzz")
            },
            || fuzz_all().map(quiet),
        )
    },
];

/// A fuzz target keeps one core busy: those of `ptx` run one after the other beside that of the machine.
fn fuzz_all() -> Result<(), String> {
    thread::scope(|scope| {
        let machine = scope.spawn(|| fuzz::run("execute", 2 * FUZZ_SECONDS));
        let texts =
            ["parse", "roundtrip", "elf"].iter().try_for_each(|target| fuzz::run(target, FUZZ_SECONDS));
        let machine =
            machine.join().unwrap_or_else(|_| Err("the fuzz target of the machine was not run".to_owned()));
        texts.and(machine)
    })
}

/// The most lines of `cargo tree` that the program may have: what a user compiles to install it.
const PACKAGES: usize = 120;

/// Counts what the program is made of, as `cargo tree … | sort -u | wc -l` does.
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
    let lines: BTreeSet<&str> = tree.lines().collect();
    let count = format!("{} lines of cargo tree, at most {PACKAGES}", lines.len());
    if lines.len() <= PACKAGES { Ok(count) } else { Err(count) }
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
    // Without this variable a test that needs NVIDIA's compiler and finds none is skipped.
    let strict = [("WARPPROOF_REQUIRE_TOOLCHAIN", "1")];
    cargo(&["nextest", "run", "--workspace", "--locked", "--profile", "ci", "-E", filter], &strict)
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
        let tree = |count: usize| (0..count).map(|n| format!("package{n}")).collect::<Vec<_>>().join("\n");
        assert!(few_enough(&(tree(PACKAGES) + "\n" + &tree(3))).is_ok());
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
        let files = STEPS
            .iter()
            .find(|step| step.name == "book")
            .and_then(|step| step.study.as_ref())
            .unwrap()
            .inputs
            .files;
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
        let first = STEPS.iter().position(|step| step.study.is_some()).unwrap();
        assert!(STEPS[first..].iter().all(|step| step.study.is_some()));
    }
}
