//! Checks of the software GPU under several schedules, on inputs of the first seed.

use std::collections::BTreeMap;
use std::fmt::Write;

use warpproof_sim::check::{Class, Finding, Severity};
use warpproof_sim::stop::Stop;

use super::build::Module;
use super::launch::{POISON, Stand};
use super::{Bench, Ending, Part, Trouble, place_of, stopped, unfit};
use crate::record::{Comparison, Figure, Stage};
use crate::task::Candidate;

/// Schedules where the task says nothing.
const SCHEDULES: u32 = 4;

pub(super) fn schedules(bench: &Bench<'_>) -> u32 {
    let gate = bench.task.gates.iter().find(|gate| gate.stage.value == Stage::Checks);
    gate.and_then(|gate| gate.schedules).unwrap_or(SCHEDULES)
}

/// All checks on one size, for each dtype.
pub(super) fn part(
    bench: &Bench<'_>,
    candidate: &Candidate,
    module: Module<'_>,
    part: &Part,
    schedules: u32,
) -> Result<Ending, Trouble> {
    let cases = bench.first_cases(candidate);
    if cases.is_empty() {
        return Err(unfit("the candidate takes none of the task's types: nothing was checked"));
    }
    let mut told = Told::default();
    for case in cases {
        bench.check_stop()?;
        let inputs = super::correct::inputs_of(bench, part, &case)?;
        let mut stand = Stand::new(bench, candidate, module, &part.size, case.dtype)?;
        stand.fill(&inputs, POISON);
        for checked in stand.check(schedules) {
            told.add(checked.findings, checked.outcome.instructions, checked.dropped);
            if let Some(stop) = checked.outcome.stop {
                told.stop(&stop, &part.name);
            }
        }
    }
    Ok(told.ending(&part.name, schedules))
}

/// What checks told of one size.
#[derive(Debug, Default)]
pub(super) struct Told {
    findings: Vec<Finding>,
    dropped: u64,
    instructions: u64,
    stopped: Option<Ending>,
}

impl Told {
    pub(super) fn add(&mut self, findings: Vec<Finding>, instructions: u64, dropped: u64) {
        self.findings.extend(findings);
        self.instructions = self.instructions.saturating_add(instructions);
        self.dropped = self.dropped.saturating_add(dropped);
    }

    /// A launch that did not come to its end; one that is a finding is among them already.
    pub(super) fn stop(&mut self, stop: &Stop, at: &str) {
        if Class::of_stop(stop.kind).is_none() {
            self.stopped.get_or_insert_with(|| stopped(stop, at));
        }
    }

    pub(super) fn ending(self, at: &str, schedules: u32) -> Ending {
        let errors: Vec<&Finding> =
            self.findings.iter().filter(|finding| finding.severity == Severity::Error).collect();
        let count = u64::try_from(errors.len()).unwrap_or(u64::MAX).saturating_add(self.dropped);
        let mut figures = Vec::new();
        let source = "a kernel that makes a mistake is not timed";
        let findings = Figure::counted("findings", count, "");
        figures.extend(
            findings.and_then(|one| one.held_to(Comparison::AtMost, 0.0, source)).map(|one| one.at(at)),
        );
        let mut classes: BTreeMap<&str, u64> = BTreeMap::new();
        for finding in &errors {
            *classes.entry(finding.class.name()).or_default() += 1;
        }
        for (class, count) in classes {
            figures.extend(Figure::counted(class, count, "").map(|one| one.at(at)));
        }
        figures.extend(Figure::counted("schedules", u64::from(schedules), "").map(|one| one.at(at)));
        figures.extend(Figure::counted("warp instructions", self.instructions, "").map(|one| one.at(at)));
        let text = written(&self.findings);
        let mut ending = match (errors.first(), self.stopped) {
            (Some(first), _) => Ending::fail(format!("{at}: {}", sentence(first)), figures),
            (None, Some(stopped)) => Ending { figures, ..stopped },
            (None, None) if count > 0 => Ending::fail(format!("{at}: {count} findings"), figures),
            (None, None) => Ending::pass(figures),
        };
        if !text.is_empty() {
            ending = ending.with_object(&format!("findings {at}"), text);
        }
        ending
    }
}

/// "shared-race at softmax.cu:41: …".
fn sentence(finding: &Finding) -> String {
    // A place with a line of the source says more than one that the compiler moved.
    let lined = finding.places.iter().find(|label| !label.place.source.is_empty());
    let place = lined.or(finding.places.first()).map(|label| format!(" at {}", place_of(&label.place)));
    format!("{}{}: {}", finding.class.name(), place.unwrap_or_default(), finding.sentence)
}

/// All findings as text, one after another.
fn written(findings: &[Finding]) -> String {
    let mut text = String::new();
    for finding in findings {
        let grade = if finding.severity == Severity::Error { "error" } else { "note" };
        // Writing to a string does not fail.
        let _ = writeln!(text, "{grade}[{}]: {}", finding.class.name(), finding.sentence);
        for label in &finding.places {
            let who = label.thread.map(|thread| format!(", {thread}")).unwrap_or_default();
            let _ = writeln!(text, "  --> {}: {}{who}", place_of(&label.place), label.text);
        }
        for note in &finding.notes {
            let _ = writeln!(text, "  note: {note}");
        }
        if let Some(help) = &finding.help {
            let _ = writeln!(text, "  help: {help}");
        }
    }
    text
}
