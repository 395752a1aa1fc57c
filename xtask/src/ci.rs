//! `cargo xtask ci`: all that a change must pass.
//!
//! There are three tiers over one table of steps (`ci/steps.rs`):
//!
//! - *answer*, for a contributor and for each push: the quick checks, the tests of the packages that changed and of those that depend
//!   on them, and a sample of each study whose inputs changed;
//! - *proof*, for each landing: every test, and a sample of every study;
//! - *night*: everything.
//!
//! A study takes minutes and declares what it depends on. Its key, a hash over all that, is the seed of its sample (`part.rs`). What
//! passed is remembered outside of the checkout (`ci/passed.rs`): a study that passed whole with the same key does not run, and the answer
//! leaves out what passed as a sample too. Every step runs even when an earlier one failed, so that one run reports everything; the
//! summary comes last. A step that is a program of its own inherits this terminal; the line in which it counts what it did is kept
//! for the summary.

mod passed;
mod steps;
mod tree;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use crate::part::Part;
use crate::root;
use crate::target;
use passed::{Extent, Passed};
use steps::{STEPS, Step, Work};
use tree::Tree;

/// How much runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Tier {
    Answer,
    Proof,
    Night,
}

impl Tier {
    fn name(self) -> &'static str {
        match self {
            Self::Answer => "answer",
            Self::Proof => "proof",
            Self::Night => "night",
        }
    }
}

/// What the command line asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) tier: Tier,
    /// Only these steps, even if they passed before; all when empty.
    pub(crate) only: &'a [String],
}

/// A step, and what of it runs.
#[derive(Clone, Debug)]
struct Planned {
    step: &'static Step,
    /// What is remembered if it passes, each with its key.
    keys: Vec<(String, String)>,
    run: Run,
}

/// What of a step runs.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Run {
    /// All of it.
    Whole,
    /// A sample of a study, drawn by this seed.
    Sample(String),
    /// The tests of these packages.
    Packages(BTreeSet<String>),
    /// It passed with the same inputs before.
    Known,
}

/// Runs the steps that are asked for.
pub(crate) fn run(asked: &Asked<'_>) -> Result<(), String> {
    let begun = Instant::now();
    // Asked now: steps build this program again.
    let current = std::env::current_exe()
        .map_err(|error| format!("cannot find this program: {error}"))
        .and_then(|program| not_stale(&program));
    let tree = Tree::read(&root())?;
    let passed = Passed::of_machine();
    let planned = plan(asked, |name, key| passed.as_ref()?.extent(name, key), |step| keys(step, &tree))?;
    let outcomes: Vec<Outcome> = thread::scope(|scope| {
        let begun: Vec<Begun<'_>> = planned
            .into_iter()
            .map(|planned| {
                if planned.step.waits && planned.run != Run::Known {
                    Begun::Beside(planned.clone(), scope.spawn(move || done(planned, asked.tier)))
                } else {
                    Begun::Done(done(planned, asked.tier))
                }
            })
            .collect();
        begun.into_iter().map(Begun::ended).collect()
    });
    print!("\n{}", summary(&outcomes, asked.tier, begun.elapsed()));
    let remembered = current.and_then(|()| passed.map_or(Ok(()), |passed| remember(&outcomes, &passed)));
    if let Err(error) = remembered {
        println!("not remembered as passed: {error}");
    }
    verdict(&outcomes, asked.tier)
}

/// What a step is remembered by: a study by its key, the tests by those of each package.
fn keys(step: &Step, tree: &Tree) -> Result<Vec<(String, String)>, String> {
    match &step.work {
        Work::Always(_) => Ok(Vec::new()),
        Work::Study { inputs, version, .. } => Ok(vec![key(tree, step.name, *version, inputs)?]),
        Work::Tests(_) => {
            let mut found = Vec::new();
            for package in tree.own_packages() {
                let name = format!("tests-of-{package}");
                found.push(key(tree, &name, steps::TESTS_VERSION, &steps::tests_of(&[package]))?);
            }
            Ok(found)
        }
    }
}

/// A name with its key. The list of inputs is left in the target directory, to be compared with another.
fn key(tree: &Tree, name: &str, version: u32, inputs: &tree::Inputs<'_>) -> Result<(String, String), String> {
    let (key, manifest) = passed::key(tree, name, version, inputs)
        .map_err(|error| format!("the inputs of `{name}`: {error}"))?;
    let folder = target().join("ci").join("inputs");
    let file = folder.join(format!("{name}.txt"));
    fs::create_dir_all(&folder)
        .and_then(|()| fs::write(&file, manifest))
        .map_err(|error| format!("cannot write {}: {error}", file.display()))?;
    Ok((name.to_owned(), key))
}

/// Which steps are asked for, and what of them runs.
fn plan(
    asked: &Asked<'_>,
    extent: impl Fn(&str, &str) -> Option<Extent>,
    mut keys: impl FnMut(&'static Step) -> Result<Vec<(String, String)>, String>,
) -> Result<Vec<Planned>, String> {
    let Asked { tier, only } = asked;
    let mut planned = Vec::new();
    for step in choose(only)? {
        if only.is_empty() && *tier < step.from {
            continue;
        }
        let mut keys = keys(step)?;
        let run = match &step.work {
            Work::Always(_) => Run::Whole,
            _ if *tier == Tier::Night => Run::Whole,
            Work::Tests(_) if *tier == Tier::Proof || !only.is_empty() => Run::Whole,
            Work::Tests(_) => {
                keys.retain(|(name, key)| extent(name, key).is_none());
                let changed = keys.iter().filter_map(|(name, _)| name.strip_prefix("tests-of-"));
                let changed: BTreeSet<String> = changed.map(str::to_owned).collect();
                if changed.is_empty() { Run::Known } else { Run::Packages(changed) }
            }
            Work::Study { .. } => {
                let enough = if *tier == Tier::Answer { Extent::Sample } else { Extent::Whole };
                let known = |(name, key): &(String, String)| extent(name, key) >= Some(enough);
                match keys.first() {
                    Some(pair) if known(pair) && only.is_empty() => Run::Known,
                    Some((_, key)) => Run::Sample(key.clone()),
                    None => Run::Whole,
                }
            }
        };
        planned.push(Planned { step, keys, run });
    }
    Ok(planned)
}

/// Remembers what passed, unless an input changed meanwhile.
fn remember(outcomes: &[Outcome], passed: &Passed) -> Result<(), String> {
    if outcomes.iter().all(|outcome| outcome.planned.keys.is_empty()) {
        return Ok(());
    }
    let tree = Tree::read(&root())?;
    for Outcome { planned: Planned { step, keys: before, run }, result, .. } in outcomes {
        if result.is_err() || *run == Run::Known {
            continue;
        }
        let extent = if matches!(run, Run::Sample(_)) { Extent::Sample } else { Extent::Whole };
        let now = keys(step, &tree)?;
        for pair in before.iter().filter(|pair| now.contains(pair)) {
            passed.insert(&pair.0, &pair.1, extent)?;
        }
    }
    Ok(())
}

/// Refuses what a program found that is older than its sources. Cargo lists them beside the program.
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
            return Err(format!("xtask was built before {source} was changed; run `cargo xtask ci` again"));
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

fn done(planned: Planned, tier: Tier) -> Outcome {
    let step = planned.step;
    if planned.run == Run::Known {
        return Outcome { planned, result: Ok(String::new()), time: Duration::ZERO, free: None };
    }
    println!("\n==> {}{}", step.name, if step.waits { ", next to the steps that follow" } else { "" });
    let start = Instant::now();
    let result = match (&step.work, &planned.run) {
        (Work::Always(work), _) => work(),
        (Work::Tests(work), Run::Packages(packages)) => work(Some(packages)),
        (Work::Tests(work), _) => work(None),
        (Work::Study { work, seconds, .. }, Run::Sample(seed)) => {
            // An answer is wanted sooner.
            let seconds = if tier == Tier::Answer { seconds / 2 } else { *seconds };
            work(&Part::sample(seed, Duration::from_secs(seconds)))
        }
        (Work::Study { work, .. }, _) => work(&Part::whole()),
    };
    if let Err(message) = &result {
        println!("{}: {}", step.name, message.lines().next().unwrap_or(""));
    }
    let (time, free) = (start.elapsed(), free_gigabytes());
    // What a step leaves makes its next run faster, but a full disk fails in many ways. After a failure the files may explain it.
    if free.is_some_and(|free| free < LEAST_GIGABYTES) && result.is_ok() {
        for folder in step.leaves {
            let _missing = fs::remove_dir_all(target().join(folder));
        }
    }
    Outcome { planned, result, time, free }
}

/// With less free space, what steps leave is removed.
const LEAST_GIGABYTES: u64 = 20;

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

fn summary(outcomes: &[Outcome], tier: Tier, total: Duration) -> String {
    let mut table = format!("{:<18}{:<9}{:>9}{:>11}\n", "step", "result", "time", "free disk");
    let mut counts = BTreeMap::new();
    for Outcome { planned, result, time, free } in outcomes {
        let (word, mut note) = match (result, &planned.run) {
            (Err(message), _) => ("FAILED", message.lines().next().unwrap_or("").to_owned()),
            (Ok(_), Run::Known) => ("known", "passed before with the same inputs".to_owned()),
            (Ok(note), Run::Sample(_)) => ("sampled", note.clone()),
            (Ok(note), Run::Whole | Run::Packages(_)) => ("ran", note.clone()),
        };
        match &planned.run {
            Run::Sample(seed) => note.extend([", seed ", seed.get(..8).unwrap_or(seed)]),
            Run::Packages(packages) => {
                let packages: Vec<&str> = packages.iter().map(String::as_str).collect();
                note.extend(["; packages that changed: ", &packages.join(", ")]);
            }
            Run::Whole | Run::Known => {}
        }
        *counts.entry(word).or_insert(0) += 1;
        let free = free.map_or(String::new(), |gigabytes| format!("{gigabytes} GB"));
        let (name, seconds) = (planned.step.name, time.as_secs_f64());
        let note = note.trim_start_matches([',', ';', ' ']);
        let row = format!("{name:<18}{word:<9}{seconds:>7.1} s{free:>11}  {note}");
        table.push_str(row.trim_end());
        table.push('\n');
    }
    let count = |word: &str| counts.get(word).copied().unwrap_or(0);
    let minutes = total.as_secs_f64() / 60.0;
    // What failed comes last: a service may show only the end of a long output.
    for Outcome { planned, result, .. } in outcomes {
        let Err(message) = result else { continue };
        for line in message.lines().skip(1) {
            table.extend([planned.step.name, ": ", line, "\n"]);
        }
    }
    let (ran, sampled, known, failed) = (count("ran"), count("sampled"), count("known"), count("FAILED"));
    table
        + &format!(
            "{}: {minutes:.1} minutes: {ran} ran, {sampled} sampled, {known} known, {failed} failed\n",
            tier.name()
        )
}

fn verdict(outcomes: &[Outcome], tier: Tier) -> Result<(), String> {
    let failed: Vec<&str> = outcomes
        .iter()
        .filter(|outcome| outcome.result.is_err())
        .map(|outcome| outcome.planned.step.name)
        .collect();
    if failed.is_empty() {
        return Ok(());
    }
    let flag = match tier {
        Tier::Answer => "",
        Tier::Proof => "--proof ",
        Tier::Night => "--full ",
    };
    Err(format!(
        "failed: {}; run again with `cargo xtask ci {flag}--only {}`",
        failed.join(", "),
        failed.join(",")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWER: Asked<'_> = Asked { tier: Tier::Answer, only: &[] };
    const PROOF: Asked<'_> = Asked { tier: Tier::Proof, ..ANSWER };
    const NIGHT: Asked<'_> = Asked { tier: Tier::Night, ..ANSWER };

    /// Keys that need no checkout.
    #[expect(clippy::unnecessary_wraps, reason = "the keys of a checkout can fail")]
    fn named(step: &'static Step) -> Result<Vec<(String, String)>, String> {
        let pair = |name: &str| (name.to_owned(), format!("key of {name}"));
        Ok(match step.work {
            Work::Always(_) => Vec::new(),
            Work::Study { .. } => vec![pair(step.name)],
            Work::Tests(_) => vec![pair("tests-of-one"), pair("tests-of-other")],
        })
    }

    /// What runs of a step when this is remembered.
    fn what(asked: &Asked<'_>, known: &[(&str, Extent)], step: &str) -> Option<Run> {
        let extent = |name: &str, key: &str| {
            known
                .iter()
                .find(|(known, _)| *known == name && key == format!("key of {name}"))
                .map(|(_, extent)| *extent)
        };
        let planned = plan(asked, extent, named).unwrap();
        planned.into_iter().find(|planned| planned.step.name == step).map(|planned| planned.run)
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
    fn the_answer_leaves_out_what_passed_and_what_is_for_a_landing() {
        let sampled = [("findings", Extent::Sample)];
        assert_eq!(what(&ANSWER, &[], "findings"), Some(Run::Sample("key of findings".to_owned())));
        assert_eq!(what(&ANSWER, &sampled, "findings"), Some(Run::Known));
        assert_eq!(what(&ANSWER, &[], "fmt"), Some(Run::Whole));
        assert_eq!(what(&ANSWER, &[], "publish"), None);
        let one = [("tests-of-one", Extent::Whole)];
        let other = Run::Packages(BTreeSet::from(["other".to_owned()]));
        assert_eq!(what(&ANSWER, &one, "test"), Some(other));
        let both = [one[0], ("tests-of-other", Extent::Whole)];
        assert_eq!(what(&ANSWER, &both, "test"), Some(Run::Known));
    }

    #[test]
    fn the_proof_runs_every_test_and_samples_every_study_that_did_not_pass_whole() {
        assert_eq!(what(&PROOF, &[("tests-of-one", Extent::Whole)], "test"), Some(Run::Whole));
        let sample = Some(Run::Sample("key of findings".to_owned()));
        assert_eq!(what(&PROOF, &[("findings", Extent::Sample)], "findings"), sample);
        assert_eq!(what(&PROOF, &[("findings", Extent::Whole)], "findings"), Some(Run::Known));
        for step in STEPS {
            assert!(what(&PROOF, &[], step.name).is_some_and(|run| run != Run::Known), "{}", step.name);
        }
    }

    #[test]
    fn the_night_runs_everything() {
        let known =
            [("findings", Extent::Whole), ("tests-of-one", Extent::Whole), ("tests-of-other", Extent::Whole)];
        for step in STEPS {
            assert_eq!(what(&NIGHT, &known, step.name), Some(Run::Whole), "{}", step.name);
        }
    }

    #[test]
    fn only_runs_what_is_known() {
        let only = ["findings".to_owned()];
        let only = Asked { only: &only, ..ANSWER };
        let run = what(&only, &[("findings", Extent::Whole)], "findings");
        assert_eq!(run, Some(Run::Sample("key of findings".to_owned())));
    }

    #[test]
    fn inputs_of_every_study_are_found_and_no_two_have_one_key() {
        let tree = Tree::read(&root()).unwrap();
        let mut found = BTreeMap::new();
        for step in STEPS {
            for (name, key) in keys(step, &tree).unwrap() {
                assert_eq!(found.insert(key, name.clone()), None, "{name}");
            }
        }
        assert!(found.len() > 30, "{found:?}");
    }

    #[test]
    fn a_failure_is_named() {
        let outcome = |name: &str, run: Run, result: Result<&str, &str>| Outcome {
            planned: Planned { step: choose(&[name.to_owned()]).unwrap()[0], keys: Vec::new(), run },
            result: result.map(str::to_owned).map_err(str::to_owned),
            time: Duration::from_millis(1500),
            free: Some(12),
        };
        let sample = Run::Sample("0123456789".to_owned());
        let green = [outcome("fmt", Run::Whole, Ok("")), outcome("corpus", Run::Known, Ok(""))];
        assert_eq!(verdict(&green, Tier::Proof), Ok(()));
        let red = [
            outcome("test", Run::Whole, Err("1 failed\nFAIL one")),
            outcome("corpus", Run::Known, Ok("")),
            outcome("mutants", sample, Ok("3 of 90 mutants")),
        ];
        let error = verdict(&red, Tier::Proof).unwrap_err();
        assert_eq!(error, "failed: test; run again with `cargo xtask ci --proof --only test`");
        let text = summary(&red, Tier::Proof, Duration::from_secs(90));
        assert!(text.contains("FAILED       1.5 s      12 GB  1 failed\n"), "{text}");
        assert!(text.contains("\ncorpus            known "), "{text}");
        assert!(text.contains("sampled      1.5 s      12 GB  3 of 90 mutants, seed 01234567\n"), "{text}");
        assert!(text.contains("\ntest: FAIL one\n"), "{text}");
        assert!(text.ends_with("\nproof: 1.5 minutes: 0 ran, 1 sampled, 1 known, 1 failed\n"), "{text}");
    }

    #[test]
    fn a_program_older_than_its_sources_is_refused() {
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
