//! The results of the study: a summary for the terminal, and the book's page.

use std::fmt::Write as _;

use super::{Fate, Generation, Reason, Sound, Tried, mutation::Family};
use crate::section::Section;

/// The generated section of a page.
fn section(generation: Generation) -> Section {
    let (page, task) = match generation {
        Generation::Hopper => ("book/src/hopper.md", "hopper"),
        Generation::Blackwell => ("book/src/blackwell.md", "blackwell"),
    };
    Section { page, name: "figures", task }
}

/// The number of mutants with each outcome.
#[derive(Default)]
struct Count {
    mutants: usize,
    check: usize,
    schedules: usize,
    deadlock: usize,
    limit: usize,
    value: usize,
    equivalent: usize,
    missed: usize,
}

impl Count {
    fn of<'t>(tried: impl Iterator<Item = &'t Tried>) -> Self {
        let mut count = Count::default();
        for mutant in tried.filter(|mutant| mutant.fate != Fate::Same) {
            count.mutants += 1;
            match (&mutant.fate, mutant.reason()) {
                (Fate::Check(_), _) => count.check += 1,
                (Fate::Schedules(_), _) => count.schedules += 1,
                (Fate::Deadlock, _) => count.deadlock += 1,
                (Fate::Limit, _) => count.limit += 1,
                (Fate::Value, _) => count.value += 1,
                (_, Some(Reason::Equivalent(_))) => count.equivalent += 1,
                _ => count.missed += 1,
            }
        }
        count
    }

    /// Mutants that are found, in percent of those that are not equivalent.
    fn share(&self) -> String {
        let wrong = self.mutants - self.equivalent;
        let found = wrong - self.missed;
        let tenths = (found * 1000).checked_div(wrong).unwrap_or(1000);
        format!("{}.{} %", tenths / 10, tenths % 10)
    }

    fn row(&self, name: &str) -> String {
        let Count { mutants, check, schedules, deadlock, limit, value, equivalent, missed } = self;
        format!(
            "| {name} | {mutants} | {check} | {schedules} | {deadlock} | {limit} | {value} | {equivalent} | {missed} | {} |\n",
            self.share()
        )
    }
}

const HEAD: &str = "| mutants | finding | under several schedules only | deadlock | never ends | wrong value only | equivalent | missed | found |\n\
                    |---|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n";

/// A few lines for the terminal.
pub(super) fn summary(tried: &[Tried]) -> String {
    let mut text = format!("|  {HEAD}");
    for kernel in kernels(tried) {
        text.push_str(&Count::of(tried.iter().filter(|mutant| mutant.kernel == kernel)).row(kernel));
    }
    for family in families(tried) {
        text.push_str(&Count::of(tried.iter().filter(|mutant| mutant.family == family)).row(family.name()));
    }
    text.push_str(&Count::of(tried.iter()).row("all"));
    text
}

/// The kinds of mutations that there are.
fn families(tried: &[Tried]) -> impl Iterator<Item = Family> {
    Family::ALL.into_iter().filter(|family| tried.iter().any(|mutant| mutant.family == *family))
}

/// Names of kernels in the order of the study.
fn kernels(tried: &[Tried]) -> Vec<&'static str> {
    let mut names: Vec<&str> = tried.iter().map(|mutant| mutant.kernel).collect();
    names.dedup();
    names
}

/// Compares the book's page with the study, or writes it.
pub(super) fn compare_or_write(
    generation: Generation,
    sound: &[Sound],
    tried: &[Tried],
    bless: bool,
) -> Result<(), String> {
    section(generation).compare_or_write(&figures(sound, tried), bless)
}

fn figures(sound: &[Sound], tried: &[Tried]) -> String {
    let all = Count::of(tried.iter());
    let wrong = all.mutants - all.equivalent;
    let mut text = String::from(
        "## The kernels\n\nNone has a finding, under one schedule or under four. The limit of each element is the worst case of its \
         roundings.\n\n| kernel | what it is | warp instructions | largest error, of its limit |\n|---|---|---:|---:|\n",
    );
    for Sound { kernel, instructions, worst } in sound {
        // Writing to a string does not fail.
        let _ = writeln!(text, "| {} | {} | {instructions} | {worst:.2} |", kernel.name, kernel.about);
    }
    let _ = write!(
        text,
        "\n## Mutants\n\n**{} mutants of {} kernels**: {} are equivalent to the kernel; of the other {wrong}, {} are found ({}) and {} \
         are missed.\n\n| mutation ",
        all.mutants,
        kernels(tried).len(),
        all.equivalent,
        wrong - all.missed,
        all.share(),
        all.missed,
    );
    text.push_str(HEAD);
    for family in families(tried) {
        text.push_str(&Count::of(tried.iter().filter(|mutant| mutant.family == family)).row(family.name()));
    }
    text.push_str(&all.row("all"));
    text.push_str("\n| kernel ");
    text.push_str(HEAD);
    for kernel in kernels(tried) {
        text.push_str(&Count::of(tried.iter().filter(|mutant| mutant.kernel == kernel)).row(kernel));
    }
    let survivors = |title: &str, which: fn(Reason) -> Option<&'static str>| {
        let mut text = format!("\n## {title}\n\n| kernel | line | mutation | why |\n|---|---:|---|---|\n");
        for mutant in tried.iter().filter(|mutant| mutant.fate == Fate::Survived) {
            if let Some(why) = mutant.reason().and_then(which) {
                let _ = writeln!(text, "| {} | {} | {} | {why} |", mutant.kernel, mutant.line, mutant.label);
            }
        }
        text
    };
    text.push_str(&survivors("Equivalent", |reason| match reason {
        Reason::Equivalent(why) => Some(why),
        Reason::Missed(_) => None,
    }));
    if all.missed > 0 {
        text.push_str(&survivors("Missed", |reason| match reason {
            Reason::Missed(why) => Some(why),
            Reason::Equivalent(_) => None,
        }));
    }
    text.push_str("\n## Wrong value only\n\n| kernel | line | mutation |\n|---|---:|---|\n");
    for mutant in tried.iter().filter(|mutant| mutant.fate == Fate::Value) {
        let _ = writeln!(text, "| {} | {} | {} |", mutant.kernel, mutant.line, mutant.label);
    }
    text
}
