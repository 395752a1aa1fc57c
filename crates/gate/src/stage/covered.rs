//! How much of a candidate its cases reached: figures of the stage correct, and the lines that no case reached.

use warpproof_sim::cover::Coverage;

use super::{Ending, computed};
use warpproof_evidence::vocabulary::{BRANCH_COVERAGE, LINE_COVERAGE, UNREACHED};

/// Prefix of the name of an object that holds the coverage of a part.
const OBJECT: &str = "coverage ";
/// Lines that a figure names.
const NAMED: usize = 12;

/// Stores the coverage of a part.
pub(super) fn keep(ending: Ending, part: &str, covered: &Coverage) -> Ending {
    ending.with_object(&format!("{OBJECT}{part}"), covered.write())
}

/// Combines the coverage of the parts of a stage.
pub(super) fn sum(mut ending: Ending) -> Ending {
    let mut all = Coverage::default();
    for text in ending.objects.extract_if(.., |name, _| name.starts_with(OBJECT)).map(|(_, text)| text) {
        all.merge(&Coverage::read(&String::from_utf8_lossy(&text)));
    }
    let totals = all.totals();
    if totals.lines == 0 {
        return ending;
    }
    let percent = |part: u64, whole: u64| {
        if whole == 0 { 100.0 } else { 100.0 * count(part) / count(whole) }
    };
    let (lines, outcomes) = gaps(&all);
    let figures = &mut ending.figures;
    computed(figures, LINE_COVERAGE, percent(totals.lines_reached, totals.lines), "%", &lines);
    let reached = percent(totals.outcomes_reached, totals.outcomes);
    computed(figures, BRANCH_COVERAGE, reached, "%", &outcomes);
    computed(figures, UNREACHED, count(totals.outcomes - totals.outcomes_reached), "", &outcomes);
    ending.with_object("coverage", all.write())
}

/// The lines that were not executed, and those with outcomes that never occurred, as text.
fn gaps(all: &Coverage) -> (String, String) {
    let (outcomes, lines) = all.gaps();
    let listed = |all: Vec<String>, what: &str| {
        let more = all.len().saturating_sub(NAMED);
        let shown = all.iter().take(NAMED).map(String::as_str).collect::<Vec<&str>>().join(", ");
        match (all.is_empty(), more) {
            (true, _) => "all".to_owned(),
            (false, 0) => format!("{what} {shown}"),
            (false, more) => format!("{what} {shown} and {more} more"),
        }
    };
    (
        listed(lines.iter().map(ToString::to_string).collect(), "never executed:"),
        listed(outcomes.keys().map(ToString::to_string).collect(), "one side only:"),
    )
}

#[expect(
    clippy::as_conversions,
    clippy::cast_precision_loss,
    reason = "lines of a program are far below 2^53"
)]
fn count(number: u64) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpproof_sim::cover::{KernelCoverage, Line, Outcomes};

    fn part(executed: bool, yes: bool) -> Coverage {
        let line = |line| Line { file: "k.cu".to_owned(), line };
        let mut kernel = KernelCoverage::default();
        kernel.lines.insert(line(3), true);
        kernel.lines.insert(line(4), executed);
        kernel.conditions.insert((line(3), 1), Outcomes { no: true, yes });
        Coverage { kernels: [("sm_89 k".to_owned(), kernel)].into() }
    }

    #[test]
    fn parts_add_up_and_lines_are_named() {
        let one = keep(Ending::pass(Vec::new()), "main", &part(false, false));
        let alone = sum(one.clone());
        let figure = |ending: &Ending, name: &str| {
            let figure = ending.figures.iter().find(|figure| figure.name == name).unwrap().clone();
            (figure.value.get(), figure.at.unwrap())
        };
        assert_eq!(figure(&alone, LINE_COVERAGE), (50.0, "never executed: k.cu:4".to_owned()));
        assert_eq!(figure(&alone, BRANCH_COVERAGE), (50.0, "one side only: k.cu:3".to_owned()));
        assert_eq!(alone.objects.keys().collect::<Vec<_>>(), ["coverage"]);
        let both = sum(keep(one, "tail", &part(true, true)));
        assert_eq!(figure(&both, BRANCH_COVERAGE).0.to_bits(), 100.0_f64.to_bits());
        assert_eq!(figure(&both, UNREACHED), (0.0, "all".to_owned()));
    }
}
