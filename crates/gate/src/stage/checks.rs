//! Checks of the software GPU under several schedules, on all inputs of the stage `correct`: every distribution and
//! seed.
//!
//! A case whose execution equals that of a checked case, instruction by instruction and address by address, is not
//! checked again.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use warpproof_check::{Class, Finding, Severity, Source};
use warpproof_sim::cover::Coverage;
use warpproof_sim::stop::Stop;

use super::build::Module;
use super::launch::{POISON, Stand, Work};
use super::{Bench, Case, CaseName, Ending, Part, Trouble, place_of, reach, stopped, unfit};
use crate::limits::Purpose;
use warpproof_evidence::counterexample::{Counterexample, Excerpt, Finding as Recorded, MAX_FINDINGS};
use warpproof_evidence::record::{Comparison, Figure, Outcome, Stage};
use warpproof_task::dtype::Dtype;
use warpproof_task::{Candidate, Program};

/// Schedules if the task does not set a number.
const SCHEDULES: u32 = 4;

pub(crate) fn schedules(bench: &Bench<'_>) -> u32 {
    let gate = bench.task.gates.iter().find(|gate| gate.stage.value == Stage::Checks);
    gate.and_then(|gate| gate.schedules).unwrap_or(SCHEDULES)
}

/// What results may depend on, other than the inputs.
pub(crate) fn allowed(bench: &Bench<'_>) -> Vec<Source> {
    let gate = bench.task.gates.iter().find(|gate| gate.stage.value == Stage::Checks);
    gate.into_iter().flat_map(|gate| &gate.allow).filter_map(|name| Source::parse(&name.value)).collect()
}

/// All checks on one size: all cases, or one of them.
pub(crate) fn part(
    bench: &Bench<'_>,
    candidate: &Candidate,
    module: Module<'_>,
    (part, one): (&Part, Option<usize>),
    schedules: u32,
) -> Result<Ending, Trouble> {
    let cases = bench.cases_of(candidate, one);
    if cases.is_empty() {
        return Err(unfit("the candidate supports none of the task's types"));
    }
    let mut ending = on(bench, candidate, module, part, cases.clone(), schedules)?;
    if ending.outcome == Outcome::Pass {
        let covered = covered(bench, candidate, module, part, &cases)?;
        for (part, cases) in reach::further(bench, candidate, module, part, &covered)? {
            let more = on(bench, candidate, module, &part, cases, 1)?;
            ending = super::sum(vec![(part.name.clone(), ending), (part.name.clone(), more)]);
        }
    }
    Ok(ending)
}

/// The coverage of the checked cases.
fn covered(
    bench: &Bench<'_>,
    candidate: &Candidate,
    module: Module<'_>,
    part: &Part,
    cases: &[Case<'_>],
) -> Result<Coverage, Trouble> {
    let mut work = Work::default();
    for case in cases {
        bench.check_stop()?;
        let inputs = super::correct::inputs_of(bench, part, case)?;
        let mut stand = Stand::new(bench, candidate, module, &part.size, case.dtype, Purpose::Run)?;
        stand.fill(&inputs, POISON)?;
        let shown = bench.case_name(part, case);
        stand.run(&part.name, Some(&mut work)).map_err(|end| end.shown_by(&shown))?;
    }
    Ok(work.coverage)
}

/// All checks on one size, for some cases.
pub(crate) fn on(
    bench: &Bench<'_>,
    candidate: &Candidate,
    module: Module<'_>,
    part: &Part,
    cases: Vec<Case<'_>>,
    schedules: u32,
) -> Result<Ending, Trouble> {
    let mut told = Told::default();
    let mut stands: Vec<(Dtype, Stand, BTreeSet<u64>)> = Vec::new();
    let several = cases.len() > 1;
    let tested = bench.tested(part, &cases, schedules);
    for case in cases {
        bench.check_stop()?;
        let shown = bench.case_name(part, &case);
        let inputs = super::correct::inputs_of(bench, part, &case)?;
        if !stands.iter().any(|(dtype, ..)| *dtype == case.dtype) {
            let checked = Purpose::Check { several: schedules > 1 };
            let stand = Stand::new(bench, candidate, module, &part.size, case.dtype, checked)?;
            stands.push((case.dtype, stand, BTreeSet::new()));
        }
        let Some((_, stand, known)) = stands.iter_mut().find(|(dtype, ..)| *dtype == case.dtype) else {
            return Err(unfit("internal error: a loaded module is missing"));
        };
        told.cases += 1;
        if several {
            stand.fill(&inputs, POISON)?;
            if stand.trace().is_some_and(|trace| !known.insert(trace)) {
                continue;
            }
            bench.check_stop()?;
        }
        told.executions += 1;
        stand.fill(&inputs, POISON)?;
        for checked in stand.check(bench.allowance, schedules, &allowed(bench)) {
            told.show(bench, candidate, &shown, &checked.findings);
            told.add(checked.findings, checked.outcome.instructions, checked.dropped);
            if let Some(stop) = checked.outcome.stop {
                told.stop(&stop, &format!("{}, {}", part.name, case.name));
            }
        }
        // One error is sufficient; more add no information.
        if told.is_wrong() {
            told.later = Some(format!("{}, {}", part.name, case.name)).filter(|_| told.executions > 1);
            break;
        }
    }
    Ok(Ending { tested: Some(Box::new(tested)), ..told.ending(&part.name, schedules) })
}

/// The findings of the checks on one size.
#[derive(Debug, Default)]
pub(crate) struct Told {
    findings: Vec<Finding>,
    dropped: u64,
    instructions: u64,
    stopped: Option<Ending>,
    /// Cases, and the number of distinct executions among them.
    pub(crate) cases: u64,
    pub(crate) executions: u64,
    /// The case of the first error, if it is not the first case.
    pub(crate) later: Option<String>,
    counterexample: Option<Counterexample>,
}

impl Told {
    /// Keeps the first case that shows an error, with the source lines that its findings name.
    fn show(&mut self, bench: &Bench<'_>, candidate: &Candidate, case: &CaseName, findings: &[Finding]) {
        let errors = findings.iter().filter(|finding| finding.severity == Severity::Error);
        let mut errors = errors.take(MAX_FINDINGS).peekable();
        if self.counterexample.is_some() || errors.peek().is_none() {
            return;
        }
        let file = match &candidate.program {
            Program::Source { file, .. } | Program::Ptx { file, .. } => file.value.as_str(),
            Program::Rung { .. } => "",
        };
        // The source was compiled just before; if it was deleted since, places are shown without their
        // lines.
        let text = std::fs::read_to_string(bench.directory.join(file)).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        let findings = errors.map(|finding| excerpts(finding, file, &lines)).collect();
        let shown = Counterexample { findings, ..Counterexample::of_case(case.to_string()) };
        self.counterexample = Some(shown);
    }

    pub(crate) fn add(&mut self, findings: Vec<Finding>, instructions: u64, dropped: u64) {
        self.findings.extend(findings);
        self.instructions = self.instructions.saturating_add(instructions);
        self.dropped = self.dropped.saturating_add(dropped);
    }

    /// Whether there is an error among the findings, or a launch that did not complete.
    pub(crate) fn is_wrong(&self) -> bool {
        self.stopped.is_some() || self.findings.iter().any(|one| one.severity == Severity::Error)
    }

    /// Records a launch that did not complete; one that is a finding is already recorded.
    pub(crate) fn stop(&mut self, stop: &Stop, at: &str) {
        if Class::of_stop(stop.kind).is_none() {
            self.stopped.get_or_insert_with(|| stopped(stop, at));
        }
    }

    pub(crate) fn ending(self, at: &str, schedules: u32) -> Ending {
        let errors: Vec<&Finding> =
            self.findings.iter().filter(|finding| finding.severity == Severity::Error).collect();
        let count = u64::try_from(errors.len()).unwrap_or(u64::MAX).saturating_add(self.dropped);
        let mut figures = Vec::new();
        let source = "only kernels without findings are timed";
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
        figures.extend(Figure::counted("cases", self.cases, "").map(|one| one.at(at)));
        figures.extend(Figure::counted("executions checked", self.executions, "").map(|one| one.at(at)));
        let text = written(&self.findings);
        let place = self.later.as_deref().unwrap_or(at);
        let mut ending = match (errors.first(), self.stopped) {
            (Some(first), _) => Ending {
                counterexample: self.counterexample.map(Box::new),
                ..Ending::fail(format!("{place}: {}", sentence(first)), figures)
            },
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
    // A place with a source line is more useful than one that the compiler moved.
    let lined = finding.places.iter().find(|label| !label.place.source.is_empty());
    let place = lined.or(finding.places.first()).map(|label| format!(" at {}", place_of(&label.place)));
    format!("{}{}: {}", finding.class.name(), place.unwrap_or_default(), finding.sentence)
}

/// A finding for a record: both of its places, with the lines of the candidate's own file.
fn excerpts(finding: &Finding, file: &str, lines: &[&str]) -> Recorded {
    let places = finding.places.iter().take(MAX_FINDINGS).map(|label| {
        let own = label.place.source.iter().find(|line| line.file == file);
        let line = own.and_then(|at| lines.get(usize::try_from(at.line).ok()?.checked_sub(1)?));
        let place = own.map_or_else(|| place_of(&label.place), |at| format!("{file}:{}", at.line));
        Excerpt {
            place,
            line: line.map(|line| Excerpt::shortened(line)).unwrap_or_default(),
            label: label.text.clone(),
            thread: label.thread.map(|thread| thread.to_string()).unwrap_or_default(),
        }
    });
    Recorded {
        class: finding.class.name().to_owned(),
        sentence: finding.sentence.clone(),
        places: places.collect(),
    }
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
