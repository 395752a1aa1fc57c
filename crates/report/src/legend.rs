//! The legend: explains the terms and colors of a report to new readers.

use std::fmt::Write;

/// A term, the class of its color, and its meaning.
type Entry = (&'static str, &'static str, &'static str);

const VERDICTS: [Entry; 5] = [
    (
        "MERGE",
        "good",
        "Every stage passed, and a measurement on a GPU shows the speedup that the task requires.",
    ),
    ("PROVISIONAL", "unsure", "Every stage that needs no GPU passed. Speed was not measured."),
    (
        "DEFER",
        "quiet",
        "Every stage passed, but the measurement does not show the speedup that the task requires.",
    ),
    ("REJECT", "bad", "The kernel failed a stage."),
    (
        "INCONCLUSIVE",
        "unsure",
        "No decision: the task has an error, a limit was reached, a feature is unsupported, or the measurement is too noisy.",
    ),
];

const OUTCOMES: [Entry; 4] = [
    ("PASS", "good", "The stage found no error."),
    ("FAIL", "bad", "The stage found a bug in the kernel, or the kernel exceeds a limit of the task."),
    ("INCONCLUSIVE", "unsure", "The stage has no result, for a reason outside of the kernel."),
    ("SKIPPED", "quiet", "The stage was not run, for the reason given."),
];

const STAGES: [(&str, &str); 9] = [
    ("build", "The candidate compiles for every target and differs from every other candidate."),
    ("budget", "Registers, shared memory, stack, spills and occupancy are within the task's limits."),
    ("correct", "Its outputs agree with the reference within the task's tolerance, on every set of inputs."),
    (
        "checks",
        "The software GPU finds no races, out-of-bounds accesses, uninitialized values or barrier bugs.",
    ),
    (
        "counters",
        "Instructions and memory traffic, counted on the software GPU, are within the task's limits.",
    ),
    ("model", "The time that a model of the named device predicts."),
    ("speed", "The time measured on a GPU, compared with the baseline's."),
    ("profile", "The GPU's own performance counters."),
    ("external", "The time of another library on the same inputs."),
];

const KINDS: [(&str, &str); 4] = [
    ("counted", "Exact: counted on the software GPU or by a compiler. The same on every machine."),
    ("predicted", "Computed by a model of a named device. Not a measurement; drawn hatched."),
    ("measured", "Measured on a named device."),
    ("reported", "Taken from a file. Warpproof did not produce it, and no verdict rests on it."),
];

/// The legend of a page.
pub(super) fn html() -> String {
    let mut out = String::from("<details class=\"legend\"><summary>How to read this report</summary>\n");
    for (title, entries) in [("Verdicts", &VERDICTS[..]), ("Outcomes of a stage", &OUTCOMES[..])] {
        // Writing to a string does not fail.
        let _ = writeln!(out, "<h3>{title}</h3>\n<dl>");
        for (word, tone, meaning) in entries {
            let _ = writeln!(out, "<dt><span class=\"pill {tone}\">{word}</span></dt><dd>{meaning}</dd>");
        }
        out.push_str("</dl>\n");
    }
    for (title, entries) in [("Stages, in their order", &STAGES[..]), ("Kinds of numbers", &KINDS[..])] {
        let _ = writeln!(out, "<h3>{title}</h3>\n<dl>");
        for (word, meaning) in entries {
            let _ = writeln!(out, "<dt>{word}</dt><dd>{meaning}</dd>");
        }
        out.push_str("</dl>\n");
    }
    out.push_str(
        "<p>Every number links to its record in the ledger; hover over a number to see the record.</p>\n\
         </details>\n",
    );
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpproof_evidence::record::{FigureKind, Outcome, Stage, Verdict};

    #[test]
    fn every_word_of_a_report_has_a_meaning() {
        assert!(Stage::ALL.iter().map(|one| one.as_str()).eq(STAGES.iter().map(|(word, _)| *word)));
        assert!(FigureKind::ALL.iter().map(|one| one.as_str()).eq(KINDS.iter().map(|(word, _)| *word)));
        assert!(Outcome::ALL.iter().map(|one| one.as_str()).eq(OUTCOMES.iter().map(|(word, ..)| *word)));
        assert!(Verdict::ALL.iter().all(|one| VERDICTS.iter().any(|(word, ..)| *word == one.as_str())));
    }
}
