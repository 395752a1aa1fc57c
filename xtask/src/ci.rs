//! `cargo xtask ci`: all that a change must pass.
//!
//! A step always runs, or is a study: it takes minutes and declares what it depends on. A study whose inputs have the key
//! under which it passed before (`ci/stamp.rs`) is *known* and does not run; `--full` runs everything. Every step runs even
//! when an earlier one failed, so that one run reports everything; the summary comes last. A step that is a program of its
//! own inherits this terminal; the line in which it counts what it did is kept for the summary.

mod stamp;
mod steps;
mod tree;

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use crate::root;
use crate::target;
use stamp::Stamps;
use steps::{STEPS, Step};
use tree::Tree;

/// What the command line asks for.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "flags of the command line")]
pub(crate) struct Asked<'a> {
    /// Only these steps, known or not; all when empty.
    pub(crate) only: &'a [String],
    /// Studies run even when they are known.
    pub(crate) full: bool,
    /// The keys of studies that pass are written.
    pub(crate) stamp: bool,
    /// Nothing runs; what would is printed.
    pub(crate) plan: bool,
    /// What a step leaves for its next run is removed.
    pub(crate) discard: bool,
}

/// A step, and what is known of it.
#[derive(Clone, Debug)]
struct Planned {
    step: &'static Step,
    /// Of a study.
    key: Option<String>,
    known: bool,
}

/// Runs the steps that are asked for.
pub(crate) fn run(asked: &Asked<'_>) -> Result<(), String> {
    let begun = Instant::now();
    if asked.stamp && !asked.plan {
        let program =
            std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
        not_stale(&program)?;
    }
    let mut stamps = Stamps::read(&root(), &studies())?;
    let mut tree = None;
    let planned = plan(asked, &stamps, |step| {
        if step.study.is_none() {
            return Ok(None);
        }
        if tree.is_none() {
            tree = Some(Tree::read(&root())?);
        }
        tree.as_ref().map_or(Ok(None), |tree| key(step, tree))
    })?;
    if asked.plan {
        for Planned { step, known, .. } in &planned {
            println!("{:<16}{}", step.name, if *known { "known" } else { "run" });
        }
        return Ok(());
    }
    let outcomes: Vec<Outcome> = thread::scope(|scope| {
        let begun: Vec<Begun<'_>> = planned
            .into_iter()
            .map(|planned| {
                if planned.step.waits && !planned.known {
                    Begun::Beside(planned.clone(), scope.spawn(move || done(planned, asked.discard)))
                } else {
                    Begun::Done(done(planned, asked.discard))
                }
            })
            .collect();
        begun.into_iter().map(Begun::ended).collect()
    });
    print!("\n{}", summary(&outcomes, begun.elapsed()));
    let stamped = if asked.stamp { write_stamps(&outcomes, &mut stamps) } else { Ok(()) };
    verdict(&outcomes).and(stamped)
}

/// Names of the steps that need not run.
fn studies() -> Vec<&'static str> {
    STEPS.iter().filter(|step| step.study.is_some()).map(|step| step.name).collect()
}

/// The key of a step that is a study. The list of inputs is left in the target directory, to be compared with another.
fn key(step: &Step, tree: &Tree) -> Result<Option<String>, String> {
    let Some(study) = &step.study else { return Ok(None) };
    let (key, manifest) = stamp::key(tree, step.name, study.version, &study.inputs)
        .map_err(|error| format!("the inputs of `{}`: {error}", step.name))?;
    let folder = target().join("ci").join("inputs");
    let file = folder.join(format!("{}.txt", step.name));
    fs::create_dir_all(&folder)
        .and_then(|()| fs::write(&file, manifest))
        .map_err(|error| format!("cannot write {}: {error}", file.display()))?;
    Ok(Some(key))
}

/// Which steps are asked for, and which of them are known.
fn plan(
    asked: &Asked<'_>,
    stamps: &Stamps,
    mut key: impl FnMut(&'static Step) -> Result<Option<String>, String>,
) -> Result<Vec<Planned>, String> {
    let mut planned = Vec::new();
    for step in choose(asked.only)? {
        let key = key(step)?;
        let stamped = key.as_ref().is_some_and(|key| stamps.knows(step.name, key));
        let known = stamped && !asked.full && asked.only.is_empty();
        planned.push(Planned { step, key, known });
    }
    Ok(planned)
}

/// Writes the keys of studies that passed, unless an input was changed meanwhile.
fn write_stamps(outcomes: &[Outcome], stamps: &mut Stamps) -> Result<(), String> {
    let tree = Tree::read(&root())?;
    let mut changed = Vec::new();
    for Outcome { planned, result, .. } in outcomes {
        let Planned { step, key: Some(before), known: false } = planned else { continue };
        if result.is_err() {
            continue;
        }
        if key(step, &tree)?.as_ref() == Some(before) {
            stamps.insert(step.name, before.clone());
        } else {
            changed.push(step.name);
        }
    }
    stamps.write(&root())?;
    if changed.is_empty() {
        return Ok(());
    }
    Err(format!("not stamped, because inputs changed during the run: {}", changed.join(", ")))
}

/// Refuses to stamp what a program found that is older than its sources. Cargo lists them beside the program.
fn not_stale(program: &Path) -> Result<(), String> {
    let list = program.with_extension("d");
    let text =
        fs::read_to_string(&list).map_err(|error| format!("cannot read {}: {error}", list.display()))?;
    let built = modified(program)?;
    let sources = text.split_once(": ").map_or("", |(_, sources)| sources).trim_end();
    // A space within a name has a backslash before it.
    for source in sources.replace("\\ ", "\0").split(' ').map(|name| name.replace('\0', " ")) {
        let stale = match modified(Path::new(&source)) {
            Ok(time) => time > built,
            Err(_) => true,
        };
        if stale {
            return Err(format!(
                "xtask was built before {source} was changed\nhelp: run `cargo xtask ci --stamp`"
            ));
        }
    }
    Ok(())
}

fn modified(path: &Path) -> Result<std::time::SystemTime, String> {
    let time = fs::metadata(path).and_then(|data| data.modified());
    time.map_err(|error| format!("cannot read {}: {error}", path.display()))
}

/// A step that has ended, or runs next to the others.
enum Begun<'s> {
    Done(Outcome),
    Beside(Planned, thread::ScopedJoinHandle<'s, Outcome>),
}

impl Begun<'_> {
    fn ended(self) -> Outcome {
        match self {
            Self::Done(outcome) => outcome,
            Self::Beside(planned, thread) => thread.join().unwrap_or_else(|_| {
                let result = Err("it panicked".to_owned());
                Outcome { planned, result, time: Duration::ZERO, free: None }
            }),
        }
    }
}

fn done(planned: Planned, discard: bool) -> Outcome {
    let step = planned.step;
    if planned.known {
        return Outcome { planned, result: Ok(String::new()), time: Duration::ZERO, free: None };
    }
    println!("\n==> {}{}", step.name, if step.waits { ", next to the steps that follow" } else { "" });
    let start = Instant::now();
    let result = (step.work)();
    if let Err(message) = &result {
        println!("{}: {}", step.name, message.lines().next().unwrap_or(""));
    }
    let (time, free) = (start.elapsed(), free_gigabytes());
    // After a failure the files may explain it.
    if discard && result.is_ok() {
        for folder in step.leaves {
            let _missing = fs::remove_dir_all(target().join(folder));
        }
    }
    Outcome { planned, result, time, free }
}

/// Free space of the disk that holds the target directory, if `df` reports it.
fn free_gigabytes() -> Option<u64> {
    let output =
        Command::new("df").args(["--output=avail", "--block-size=1G"]).arg(target()).output().ok()?;
    String::from_utf8_lossy(&output.stdout).lines().last()?.trim().parse().ok()
}

fn choose(only: &[String]) -> Result<Vec<&'static Step>, String> {
    if let Some(unknown) = only.iter().find(|name| STEPS.iter().all(|step| step.name != name.as_str())) {
        let names: Vec<&str> = STEPS.iter().map(|step| step.name).collect();
        return Err(format!("there is no step `{unknown}`; the steps are {}", names.join(", ")));
    }
    Ok(STEPS.iter().filter(|step| only.is_empty() || only.iter().any(|name| name == step.name)).collect())
}

struct Outcome {
    planned: Planned,
    result: Result<String, String>,
    time: Duration,
    /// Gigabytes that were free when it ended, before its folders were removed.
    free: Option<u64>,
}

fn summary(outcomes: &[Outcome], total: Duration) -> String {
    let mut table = format!("{:<16}{:<9}{:>9}{:>11}\n", "step", "result", "time", "free disk");
    let mut counts = BTreeMap::new();
    for Outcome { planned, result, time, free } in outcomes {
        let (word, note) = match result {
            Ok(_) if planned.known => ("known", "passed before with the same inputs"),
            Ok(note) => ("ran", note.as_str()),
            Err(message) => ("FAILED", message.lines().next().unwrap_or("")),
        };
        *counts.entry(word).or_insert(0) += 1;
        let free = free.map_or(String::new(), |gigabytes| format!("{gigabytes} GB"));
        let (name, seconds) = (planned.step.name, time.as_secs_f64());
        let row = format!("{name:<16}{word:<9}{seconds:>7.1} s{free:>11}  {note}");
        table.push_str(row.trim_end());
        table.push('\n');
    }
    let count = |word: &str| counts.get(word).copied().unwrap_or(0);
    let (ran, known, failed) = (count("ran"), count("known"), count("FAILED"));
    let minutes = total.as_secs_f64() / 60.0;
    // What failed comes last: a service may show only the end of a long output.
    for Outcome { planned, result, .. } in outcomes {
        let Err(message) = result else { continue };
        for line in message.lines().skip(1) {
            table.extend([planned.step.name, ": ", line, "\n"]);
        }
    }
    table + &format!("{minutes:.1} minutes: {ran} ran, {known} known, {failed} failed\n")
}

fn verdict(outcomes: &[Outcome]) -> Result<(), String> {
    let failed: Vec<&str> = outcomes
        .iter()
        .filter(|outcome| outcome.result.is_err())
        .map(|outcome| outcome.planned.step.name)
        .collect();
    if failed.is_empty() {
        return Ok(());
    }
    Err(format!("failed: {}; run again with `cargo xtask ci --only {}`", failed.join(", "), failed.join(",")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: Asked<'_> = Asked { only: &[], full: false, stamp: false, plan: false, discard: false };

    fn names(planned: &[Planned], known: bool) -> Vec<&'static str> {
        planned.iter().filter(|planned| planned.known == known).map(|planned| planned.step.name).collect()
    }

    /// Keys that need no checkout.
    #[expect(clippy::unnecessary_wraps, reason = "the key of a checkout can fail")]
    fn named(step: &'static Step) -> Result<Option<String>, String> {
        Ok(step.study.as_ref().map(|_| format!("key of {}", step.name)))
    }

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
    fn a_study_without_its_key_runs() {
        let planned = plan(&NOTHING, &Stamps::default(), named).unwrap();
        assert_eq!(names(&planned, false).len(), STEPS.len());
        let mut stamps = Stamps::default();
        stamps.insert("findings", "key of findings".to_owned());
        stamps.insert("corpus", "key of another time".to_owned());
        // A step that is not a study always runs, even with a line in the file.
        stamps.insert("test", "key of test".to_owned());
        let planned = plan(&NOTHING, &stamps, named).unwrap();
        assert_eq!(names(&planned, true), ["findings"]);
    }

    #[test]
    fn full_and_only_run_what_is_known() {
        let mut stamps = Stamps::default();
        stamps.insert("findings", "key of findings".to_owned());
        let full = Asked { full: true, ..NOTHING };
        assert_eq!(names(&plan(&full, &stamps, named).unwrap(), true), [""; 0]);
        let only = ["findings".to_owned()];
        let only = Asked { only: &only, ..NOTHING };
        assert_eq!(names(&plan(&only, &stamps, named).unwrap(), false), ["findings"]);
    }

    #[test]
    fn inputs_of_every_study_are_found_and_no_two_have_one_key() {
        let tree = Tree::read(&root()).unwrap();
        let mut keys = BTreeMap::new();
        for step in STEPS.iter().filter(|step| step.study.is_some()) {
            let key = key(step, &tree).unwrap().unwrap();
            assert_eq!(keys.insert(key, step.name), None, "{}", step.name);
        }
        assert!(Stamps::read(&root(), &studies()).is_ok());
    }

    #[test]
    fn a_failure_is_named() {
        let outcome = |name: &str, known: bool, result: Result<&str, &str>| Outcome {
            planned: Planned { step: choose(&[name.to_owned()]).unwrap()[0], key: None, known },
            result: result.map(str::to_owned).map_err(str::to_owned),
            time: Duration::from_millis(1500),
            free: Some(12),
        };
        let green = [outcome("fmt", false, Ok("")), outcome("corpus", true, Ok(""))];
        assert_eq!(verdict(&green), Ok(()));
        let red = [outcome("test", false, Err("1 failed\nFAIL one")), outcome("corpus", true, Ok(""))];
        assert!(verdict(&red).unwrap_err().starts_with("failed: test;"));
        let text = summary(&red, Duration::from_secs(90));
        assert!(text.contains("FAILED       1.5 s      12 GB  1 failed\n"), "{text}");
        assert!(text.contains("FAILED") && text.contains("\ncorpus          known "), "{text}");
        assert!(text.contains("\ntest: FAIL one\n"), "{text}");
        assert!(text.ends_with("\n1.5 minutes: 0 ran, 1 known, 1 failed\n"), "{text}");
    }

    #[test]
    fn a_program_older_than_its_sources_does_not_stamp() {
        let place = tempfile::tempdir().unwrap();
        let (program, source) = (place.path().join("xtask"), place.path().join("a source.rs"));
        let write = |path: &Path, seconds: u64| {
            fs::write(path, "").unwrap();
            let time = std::time::UNIX_EPOCH + Duration::from_secs(seconds);
            fs::File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
        };
        write(&source, 1_000);
        write(&program, 2_000);
        assert!(not_stale(&program).unwrap_err().contains("cannot read"));
        let name = source.display().to_string().replace(' ', "\\ ");
        fs::write(program.with_extension("d"), format!("{}: {name}\n", program.display())).unwrap();
        assert_eq!(not_stale(&program), Ok(()));
        write(&source, 3_000);
        assert!(not_stale(&program).unwrap_err().contains("a source.rs"));
        fs::remove_file(&source).unwrap();
        assert!(not_stale(&program).is_err());
    }
}
