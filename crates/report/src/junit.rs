//! A run as JUnit XML for build servers: a candidate is a suite, a step is a test case.

use super::error::ViewError;
use super::evidence::Evidence;
use super::{escape, summary};
use std::fmt::Write;
use warpproof_evidence::record::{Outcome, Stage, StepRecord};

/// The run as JUnit XML. A failed stage is a failure; an inconclusive one is an error, because the exit code is not
/// zero.
pub fn junit(evidence: &Evidence, run: &str) -> Result<String, ViewError> {
    let all = summary::judged(evidence, run)?;
    let (_, record) = evidence.run(run)?;
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let steps = || all.iter().flat_map(|one| one.steps.iter().map(|(_, step)| *step));
    let _ = writeln!(out, "<testsuites name=\"{}\" {}>", escape::markup(&record.task), counts(steps()));
    for one in &all {
        let mine = one.steps.iter().map(|(_, step)| *step);
        let _ = writeln!(out, "  <testsuite name=\"{}\" {}>", escape::markup(one.candidate), counts(mine));
        out.push_str("    <properties>\n");
        let mut property = |name: &str, value: &str| {
            let (name, value) = (escape::markup(name), escape::markup(value));
            let _ = writeln!(out, "      <property name=\"{name}\" value=\"{value}\"/>");
        };
        property("run", &record.run);
        property("task version", &record.task_version.to_string());
        if let Some((hash, verdict)) = one.verdict {
            property("verdict", verdict.verdict.as_str());
            property("reason", &verdict.reason);
            property("record", &hash.to_string());
        }
        out.push_str("    </properties>\n");
        let mut before: Option<(Stage, u32)> = None;
        for (hash, step) in &one.steps {
            // Steps are in the order of their stages; a second step of a stage needs its own name.
            let count = before.filter(|(stage, _)| *stage == step.stage).map_or(1, |(_, count)| count + 1);
            before = Some((step.stage, count));
            let name = if count == 1 { step.stage.to_string() } else { format!("{} {count}", step.stage) };
            let (_, held) = evidence.holder(*hash, step)?;
            let class = format!("{}.{}", record.task, one.candidate);
            let _ = write!(
                out,
                "    <testcase classname=\"{}\" name=\"{name}\" time=\"{}\">",
                escape::markup(&class),
                step.seconds
            );
            let reason = escape::markup(&step.reason);
            let _ = match step.outcome {
                Outcome::Pass => Ok(()),
                Outcome::Fail => write!(out, "<failure type=\"{}\" message=\"{reason}\"/>", step.outcome),
                Outcome::Inconclusive => {
                    write!(out, "<error type=\"{}\" message=\"{reason}\"/>", step.outcome)
                }
                Outcome::Skipped => write!(out, "<skipped message=\"{reason}\"/>"),
            };
            let _ =
                writeln!(out, "<system-out>{}</system-out></testcase>", system_out(&hash.to_string(), held));
        }
        out.push_str("  </testsuite>\n");
    }
    out.push_str("</testsuites>\n");
    Ok(out)
}

fn counts<'a>(steps: impl Iterator<Item = &'a StepRecord>) -> String {
    let (mut tests, mut failures, mut errors, mut skipped, mut seconds) = (0, 0, 0, 0, 0.0);
    for step in steps {
        tests += 1;
        seconds += step.seconds.get();
        match step.outcome {
            Outcome::Pass => {}
            Outcome::Fail => failures += 1,
            Outcome::Inconclusive => errors += 1,
            Outcome::Skipped => skipped += 1,
        }
    }
    format!(
        "tests=\"{tests}\" failures=\"{failures}\" errors=\"{errors}\" skipped=\"{skipped}\" time=\"{seconds:.6}\""
    )
}

fn system_out(record: &str, step: &StepRecord) -> String {
    let mut out = format!("record {record}");
    for figure in &step.figures {
        let at = figure.at.as_ref().map(|at| format!(" at {}", escape::markup(at))).unwrap_or_default();
        let (name, unit) = (escape::markup(&figure.name), escape::markup(&figure.unit));
        let _ = write!(out, "\n{name}{at}: {} {unit} {}", figure.value, figure.kind);
        if let Some(threshold) = &figure.threshold {
            let (op, source) = (escape::markup(threshold.op.as_str()), escape::markup(&threshold.source));
            let _ = write!(out, " ({op} {}, {source})", threshold.value);
        }
    }
    out
}
