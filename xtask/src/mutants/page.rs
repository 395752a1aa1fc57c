//! The results of the study: a summary for the terminal, and the book's page.

use std::fmt::Write as _;

use super::{Fate, Tried, mutation::Family};
use crate::section::Section;

/// The generated section.
const SECTION: Section = Section { page: "book/src/mutants.md", name: "figures", task: "mutants" };

/// The number of mutants with each outcome.
#[derive(Default)]
struct Count {
    mutants: usize,
    check: usize,
    schedules: usize,
    limit: usize,
    value: usize,
    equivalent: usize,
    missed: usize,
    not_reached: usize,
}

impl Count {
    fn of<'t>(tried: impl Iterator<Item = &'t Tried>) -> Self {
        let mut count = Count::default();
        for mutant in tried {
            if mutant.fate == Fate::NotReached {
                count.not_reached += 1;
                continue;
            }
            count.mutants += 1;
            match (&mutant.fate, mutant.explanation()) {
                (Fate::Check(_), _) => count.check += 1,
                (Fate::Schedules(_), _) => count.schedules += 1,
                (Fate::Limit, _) => count.limit += 1,
                (Fate::Value, _) => count.value += 1,
                (_, Some(_)) => count.equivalent += 1,
                (_, None) => count.missed += 1,
            }
        }
        count
    }

    fn row(&self, name: &str) -> String {
        let Count { mutants, check, schedules, limit, value, equivalent, missed, .. } = self;
        format!(
            "| {name} | {mutants} | {check} | {schedules} | {limit} | {value} | {equivalent} | {missed} |\n"
        )
    }
}

const HEAD: &str = "| mutants | found by a check | under several schedules only | never end | wrong value only | equivalent | missed |\n\
                    |---|---:|---:|---:|---:|---:|---:|---:|\n";

/// A few lines for the terminal.
pub(super) fn summary(tried: &[Tried]) -> String {
    let mut text = String::new();
    let mut add = |name: &str, count: &Count| {
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "{name:48} {:4} mutants: {:4} check {:3} schedules {:3} limit {:4} value {:3} equivalent {:3} missed ({} not executed)",
            count.mutants,
            count.check,
            count.schedules,
            count.limit,
            count.value,
            count.equivalent,
            count.missed,
            count.not_reached
        );
    };
    for kernel in kernels(tried) {
        add(kernel, &Count::of(tried.iter().filter(|mutant| mutant.kernel == kernel)));
    }
    for family in Family::ALL {
        add(family.name(), &Count::of(tried.iter().filter(|mutant| mutant.family == family)));
    }
    add("all", &Count::of(tried.iter()));
    text
}

/// Names of kernels in the order of the study.
fn kernels(tried: &[Tried]) -> Vec<&'static str> {
    let mut names: Vec<&str> = tried.iter().map(|mutant| mutant.kernel).collect();
    names.dedup();
    names
}

/// Compares the book's page with the study, or writes it.
pub(super) fn compare_or_write(tried: &[Tried], bless: bool) -> Result<(), String> {
    SECTION.compare_or_write(&figures(tried), bless)
}

fn figures(tried: &[Tried]) -> String {
    let all = Count::of(tried.iter());
    let found = all.check + all.schedules + all.limit;
    let real = all.mutants - all.equivalent;
    let mut text = format!(
        "**{} mutants of {} kernels**: {} equivalent to the kernel; of the other {real}, {found} are found by the checks, {} \
         are wrong values that only a reference finds, and {} are missed. {} more changes are in code that the launch does \
         not execute, and are not counted.\n\n## By mutation\n\n| mutation ",
        all.mutants,
        kernels(tried).len(),
        all.equivalent,
        all.value,
        all.missed,
        all.not_reached,
    );
    text.push_str(HEAD);
    for family in Family::ALL {
        text.push_str(&Count::of(tried.iter().filter(|mutant| mutant.family == family)).row(family.name()));
    }
    text.push_str(&all.row("all"));
    text.push_str("\n## By kernel\n\n| kernel ");
    text.push_str(HEAD);
    for kernel in kernels(tried) {
        text.push_str(&Count::of(tried.iter().filter(|mutant| mutant.kernel == kernel)).row(kernel));
    }
    text.push_str("\n## Equivalent\n\n| kernel | line | mutation | why |\n|---|---:|---|---|\n");
    for mutant in tried.iter().filter(|mutant| mutant.fate == Fate::Survived) {
        let why = mutant.explanation().map_or("", |known| known.why);
        // Writing to a string does not fail.
        let _ = writeln!(text, "| {} | {} | {} | {why} |", mutant.kernel, mutant.line, mutant.label);
    }
    text.push_str("\n## Wrong value only\n\n| kernel | line | mutation |\n|---|---:|---|\n");
    for mutant in tried.iter().filter(|mutant| mutant.fate == Fate::Value) {
        // Writing to a string does not fail.
        let _ = writeln!(text, "| {} | {} | {} |", mutant.kernel, mutant.line, mutant.label);
    }
    text
}
