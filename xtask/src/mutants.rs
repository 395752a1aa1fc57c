//! `cargo xtask mutants`: counts which changes of correct kernels the checks find.
//!
//! The study changes correct kernels of the UI suite and of the attention ladder, one change at a time: it removes or weakens
//! synchronization, shifts indices into tiles, drops zero-fills, rearranges fragments. Each mutant is checked, and its results are
//! compared with those of the kernel. A mutant without a finding and with correct results must be explained in
//! `mutants/survivor.rs`.

mod case;
mod mutation;
mod page;
mod rung;
mod subject;
mod survivor;

use std::path::Path;

use warpproof_ptx::{parse, print};

use crate::part::Part;
use crate::root;
use mutation::{Family, mutations};
use subject::{Ran, Runner, SUBJECTS, Subject};
use survivor::{Survivor, explanation};

/// Schedules for the second try of a survivor whose synchronization was changed: the default of `warpproof check`.
const SCHEDULES: u32 = 12;
/// The same for other survivors.
const FEW_SCHEDULES: u32 = 4;

/// Threads that check mutants.
const WORKERS: usize = 2;
/// The slices into which a sample divides the mutants of a kernel.
const SLICES: usize = 16;

/// The outcome of a mutant.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Fate {
    /// A check found it under one schedule; the classes of its findings.
    Check(Vec<String>),
    /// A check found it only under one of several schedules.
    Schedules(Vec<String>),
    /// It never ended.
    Limit,
    /// No check found it, but its results are wrong.
    Value,
    /// No check found it, and its results are correct.
    Survived,
    /// The launch executes no instruction that was changed.
    NotReached,
}

/// A mutant with its outcome.
struct Tried {
    kernel: &'static str,
    family: Family,
    line: u32,
    label: String,
    fate: Fate,
}

impl Tried {
    fn explanation(&self) -> Option<&'static Survivor> {
        explanation(self.kernel, self.line, &self.label)
    }
}

/// Tries all mutants of the kernels whose name contains `filter`, and compares the book's page with the outcome, or
/// writes it.
pub(crate) fn run(part: &Part, bless: bool, filter: Option<&str>, list: bool) -> Result<String, String> {
    let program = crate::program::warpproof()?;
    let chosen: Vec<&Subject> =
        SUBJECTS.iter().filter(|subject| filter.is_none_or(|filter| subject.name.contains(filter))).collect();
    // A sample takes some of the mutants of a kernel, so that it meets several kernels.
    let slices = if part.is_whole() { 1 } else { SLICES };
    let items: Vec<(&Subject, usize)> =
        chosen.iter().flat_map(|subject| (0..slices).map(|slice| (*subject, slice))).collect();
    let results = part.each(WORKERS, &items, |(subject, slice)| {
        let place = tempfile::tempdir().map_err(|error| format!("cannot make a directory: {error}"))?;
        study(subject, &program, place.path(), |number| number % slices == *slice)
    });
    let results = results.all()?;
    let mut note = results.note(if part.is_whole() { "kernels" } else { "slices of kernels" });
    let tried: Vec<Tried> = results.into_results().flatten().collect();
    note = format!("{} mutants in {note}", tried.len());
    if list {
        for mutant in &tried {
            println!("{}:{}: {}: {:?}", mutant.kernel, mutant.line, mutant.label, mutant.fate);
        }
    }
    print!("{}", page::summary(&tried));
    let mut wrong: Vec<String> = tried
        .iter()
        .filter(|mutant| mutant.fate == Fate::Survived && mutant.explanation().is_none())
        .map(|mutant| {
            format!(
                "{}:{}: {} survived without an explanation in mutants/survivor.rs",
                mutant.kernel, mutant.line, mutant.label
            )
        })
        .collect();
    if filter.is_none() && part.is_whole() {
        wrong.extend(stale(&tried));
        wrong.extend(page::compare_or_write(&tried, bless).err());
    }
    if wrong.is_empty() { Ok(note) } else { Err(wrong.join("\n")) }
}

/// Explanations of mutants that no longer survive.
fn stale(tried: &[Tried]) -> Vec<String> {
    survivor::SURVIVORS
        .iter()
        .filter(|known| {
            !tried.iter().any(|mutant| {
                mutant.fate == Fate::Survived
                    && mutant.explanation().is_some_and(|found| std::ptr::eq(found, *known))
            })
        })
        .map(|known| {
            format!(
                "{}:{}: {}: explained in mutants/survivor.rs, but not a survivor",
                known.kernel, known.line, known.label
            )
        })
        .collect()
}

/// The mutants of one kernel whose number is chosen.
fn study(
    subject: &Subject,
    program: &Path,
    directory: &Path,
    chosen: impl Fn(usize) -> bool,
) -> Result<Vec<Tried>, String> {
    let runner = subject.runner(&root(), program, directory)?;
    let text = runner.ptx()?;
    let (module, errors) = parse(&text);
    if !errors.is_empty() {
        return Err(format!("{}: the PTX has errors", subject.name));
    }
    let same = print(&module);
    let reference = runner.run(&same)?;
    for schedules in [1, SCHEDULES] {
        let sound = runner.check(&same, schedules)?;
        if reference.code != Some(0) || sound.code != Some(0) || !sound.classes.is_empty() {
            return Err(format!("{} has findings without a mutation: {:?}", subject.name, sound.classes));
        }
    }
    let mut tried = Vec::new();
    let all = mutations(&module, &runner.sources());
    let all = all.into_iter().filter(|mutation| subject.takes(mutation.family)).enumerate();
    for (_, mutation) in all.filter(|(number, _)| chosen(*number)) {
        let mut fate = fate(&*runner, &print(&mutation.apply(&module)), &reference, mutation.family)
            .map_err(|error| format!("{}:{}: {}: {error}", subject.name, mutation.line, mutation.label))?;
        if fate == Fate::Survived && runner.run(&print(&mutation.probe(&module)))? == reference {
            fate = Fate::NotReached;
        }
        let (family, line, label) = (mutation.family, mutation.line, mutation.label);
        tried.push(Tried { kernel: subject.name, family, line, label, fate });
    }
    Ok(tried)
}

fn fate(runner: &dyn Runner, ptx: &str, reference: &Ran, family: Family) -> Result<Fate, String> {
    let once = runner.check(ptx, 1)?;
    match once.code {
        // A note counts: the user sees it as well.
        Some(0 | 1) if !once.classes.is_empty() => return Ok(Fate::Check(once.classes)),
        Some(0) => {}
        Some(4) => return Ok(Fate::Limit),
        other => return Err(format!("the mutant cannot be checked: exit code {other:?}")),
    }
    // If no synchronization was changed, a wrong value is enough.
    let same = runner.run(ptx)? == *reference;
    if !same && !family.is_order() {
        return Ok(Fate::Value);
    }
    let again = runner.check(ptx, if family.is_order() { SCHEDULES } else { FEW_SCHEDULES })?;
    match again.code {
        Some(4) => return Ok(Fate::Limit),
        _ if !again.classes.is_empty() => return Ok(Fate::Schedules(again.classes)),
        _ => {}
    }
    Ok(if same { Fate::Survived } else { Fate::Value })
}
