//! `cargo xtask ci`: all that a change must pass.
//!
//! Every step runs even when an earlier one failed, so that one run tells everything; the summary comes last. A step
//! that is a program of its own inherits this terminal; the line in which it counts what it did is kept for the summary.

use std::{
    io::{BufRead, BufReader},
    process::{Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

use crate::{
    attention, book, cores, corpus, driver_api, ecosystem, findings, fleet_api, fuzz, instructions,
    latencies, model, mutants, readme, root, rungs, target, tidy, tune, ui,
};

/// How long each fuzz target of the parser runs; that of the machine runs for as long as both.
const FUZZ_SECONDS: u64 = 30;

struct Step {
    name: &'static str,
    /// Whether it waits more than it works, and is done beside those that follow.
    waits: bool,
    /// Gives the note that stands beside the step in the summary.
    work: fn() -> Result<String, String>,
}

const fn step(name: &'static str, work: fn() -> Result<String, String>) -> Step {
    Step { name, waits: false, work }
}

const fn waiting(name: &'static str, work: fn() -> Result<String, String>) -> Step {
    Step { name, waits: true, work }
}

/// In the order in which they run: what is quick and often wrong comes first.
const STEPS: &[Step] = &[
    step("fmt", || cargo(&["fmt", "--all", "--check"], &[])),
    step("tidy", || tidy::run().map(quiet)),
    step("deny", || {
        cargo(&["deny", "--locked", "check", "bans", "licenses", "sources"], &[])?;
        let fuzz = ["deny", "--locked", "--manifest-path", "fuzz/Cargo.toml"];
        cargo(&[&fuzz[..], &["check", "bans", "licenses", "sources"]].concat(), &[])
    }),
    step("clippy", || {
        cargo(&["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"], &[])
    }),
    step("test", || {
        // Without this variable a test that needs NVIDIA's compiler and finds none is skipped.
        let strict = [("WARPPROOF_REQUIRE_TOOLCHAIN", "1")];
        cargo(&["nextest", "run", "--workspace", "--locked", "--profile", "ci"], &strict)
    }),
    // Reads what the tests wrote.
    step("instructions", || instructions::run(false).map(quiet)),
    step("mutants", || mutants::run(false, None, false).map(quiet)),
    step("ui-ptx", || ui::run(false, None).map(quiet)),
    step("doctest", || cargo(&["test", "--workspace", "--doc", "--locked"], &[])),
    step("doc", || {
        cargo(&["doc", "--workspace", "--no-deps", "--locked"], &[("RUSTDOCFLAGS", "-Dwarnings")])
    }),
    step("corpus", || corpus::run(None, cores()).map(quiet)),
    step("readme", || readme::run(false, true).map(quiet)),
    step("book", || book::run(false).map(quiet)),
    step("findings", || findings::run(false).map(quiet)),
    step("driver-api", || driver_api::run(false).map(quiet)),
    step("ecosystem", || ecosystem::run(false).map(quiet)),
    // By hand for ten minutes.
    waiting("fleet-api", || fleet_api::run(2.0).map(quiet)),
    step("latencies", || latencies::run(false).map(quiet)),
    step("model", || model::run(false).map(quiet)),
    step("attention", || {
        // Not by `cargo run`, which would build what it depends on a second time, with the features that it asks for alone.
        book::workspace()?;
        let example = Command::new(target().join("debug/examples/attention")).current_dir(root()).status();
        if !example.as_ref().is_ok_and(ExitStatus::success) {
            return Err(format!("examples/attention.rs gave {example:?}"));
        }
        attention::run(true, None, false).map(quiet)
    }),
    step("rungs", || rungs::run(false).map(quiet)),
    step("tune", || tune::run(false).map(quiet)),
    step("fuzz", || fuzz_all().map(quiet)),
];

/// A fuzz target keeps one core busy: those of the parser run one after the other beside that of the machine.
fn fuzz_all() -> Result<(), String> {
    thread::scope(|scope| {
        let machine = scope.spawn(|| fuzz::run("execute", 2 * FUZZ_SECONDS));
        let parser = fuzz::run("parse", FUZZ_SECONDS).and_then(|()| fuzz::run("roundtrip", FUZZ_SECONDS));
        let machine =
            machine.join().unwrap_or_else(|_| Err("the fuzz target of the machine was not run".to_owned()));
        parser.and(machine)
    })
}

fn quiet((): ()) -> String {
    String::new()
}

/// Runs the steps named in `only`, or all of them when it is empty.
pub(crate) fn run(only: &[String]) -> Result<(), String> {
    let outcomes: Vec<Outcome> = thread::scope(|scope| {
        let begun: Vec<Begun<'_>> = choose(only)?
            .into_iter()
            .map(|step| {
                if step.waits {
                    Begun::Beside(step, scope.spawn(move || done(step)))
                } else {
                    Begun::Done(done(step))
                }
            })
            .collect();
        Ok::<_, String>(begun.into_iter().map(Begun::ended).collect())
    })?;
    print!("\n{}", summary(&outcomes));
    verdict(&outcomes)
}

/// A step that has ended, or goes on beside the others.
enum Begun<'s> {
    Done(Outcome),
    Beside(&'static Step, thread::ScopedJoinHandle<'s, Outcome>),
}

impl Begun<'_> {
    fn ended(self) -> Outcome {
        match self {
            Self::Done(outcome) => outcome,
            Self::Beside(step, thread) => thread.join().unwrap_or_else(|_| {
                let result = Err("it panicked".to_owned());
                Outcome { step, result, time: Duration::ZERO }
            }),
        }
    }
}

fn done(step: &'static Step) -> Outcome {
    println!("\n==> {}{}", step.name, if step.waits { ", beside what follows" } else { "" });
    let start = Instant::now();
    let result = (step.work)();
    if let Err(message) = &result {
        println!("{}: {message}", step.name);
    }
    Outcome { step, result, time: start.elapsed() }
}

fn choose(only: &[String]) -> Result<Vec<&'static Step>, String> {
    if let Some(unknown) = only.iter().find(|name| STEPS.iter().all(|step| step.name != name.as_str())) {
        let names: Vec<&str> = STEPS.iter().map(|step| step.name).collect();
        return Err(format!("there is no step `{unknown}`; the steps are {}", names.join(", ")));
    }
    Ok(STEPS.iter().filter(|step| only.is_empty() || only.iter().any(|name| name == step.name)).collect())
}

struct Outcome {
    step: &'static Step,
    result: Result<String, String>,
    time: Duration,
}

fn summary(outcomes: &[Outcome]) -> String {
    let mut table = format!("{:<16}{:<9}{:>9}\n", "step", "result", "time");
    for Outcome { step, result, time } in outcomes {
        let (word, note) = match result {
            Ok(note) => ("ok", note.as_str()),
            Err(message) => ("FAILED", message.as_str()),
        };
        let row = format!("{:<16}{word:<9}{:>7.1} s  {note}", step.name, time.as_secs_f64());
        table.push_str(row.trim_end());
        table.push('\n');
    }
    table
}

fn verdict(outcomes: &[Outcome]) -> Result<(), String> {
    let failed: Vec<&str> =
        outcomes.iter().filter(|outcome| outcome.result.is_err()).map(|outcome| outcome.step.name).collect();
    if failed.is_empty() {
        return Ok(());
    }
    Err(format!("failed: {}; again with `cargo xtask ci --only {}`", failed.join(", "), failed.join(",")))
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
    if let Some(errors) = child.stderr.take() {
        // Lines that are no UTF-8 still have to be drained, or the child would wait for us.
        for text in BufReader::new(errors).split(b'\n') {
            let text = text.map_err(|error| format!("cannot read what `{line}` prints: {error}"))?;
            let text = String::from_utf8_lossy(&text);
            eprintln!("{text}");
            if let Some(count) = tests_run(&text) {
                note = count;
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
    Err(format!("`{line}` gave {status}{hint}"))
}

/// What nextest says of its work: "Summary [   1.2s] 412 tests run: 412 passed, 0 skipped".
fn tests_run(line: &str) -> Option<String> {
    let line = line.trim_start();
    let (_, count) = line.strip_prefix("Summary [")?.split_once(']')?;
    Some(count.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_step_is_refused_with_the_list() {
        let error = choose(&["fnt".to_owned()]).err().unwrap();
        assert!(error.contains("`fnt`") && error.contains("clippy, test"), "{error}");
    }

    #[test]
    fn only_keeps_the_order_of_the_table() {
        let names: Vec<_> =
            choose(&["clippy".to_owned(), "fmt".to_owned()]).unwrap().iter().map(|step| step.name).collect();
        assert_eq!(names, ["fmt", "clippy"]);
    }

    #[test]
    fn a_failure_is_named() {
        let outcome = |name: &str, result: Result<&str, &str>| Outcome {
            step: STEPS.iter().find(|step| step.name == name).unwrap(),
            result: result.map(str::to_owned).map_err(str::to_owned),
            time: Duration::from_millis(1500),
        };
        let green = [outcome("fmt", Ok("")), outcome("doc", Ok(""))];
        assert_eq!(verdict(&green), Ok(()));
        let red = [outcome("test", Err("1 failed")), outcome("doc", Ok(""))];
        assert!(verdict(&red).unwrap_err().starts_with("failed: test;"));
        assert!(summary(&red).contains("FAILED"), "{}", summary(&red));
    }

    #[test]
    fn the_count_of_tests_is_taken_from_nextest() {
        assert_eq!(
            tests_run("     Summary [   0.010s] 12 tests run: 12 passed, 0 skipped").as_deref(),
            Some("12 tests run: 12 passed, 0 skipped")
        );
        assert_eq!(tests_run("        PASS [   0.004s] warpproof-ptx parse"), None);
    }
}
