//! A run as SARIF 2.1.0: a stage is a rule, a failed or inconclusive step is a result.

use super::error::ViewError;
use super::evidence::Evidence;
use super::{escape, summary};
use serde_json::{Value, json};
use std::fmt::Write;
use warpproof_diagnostic::sarif;
use warpproof_evidence::record::{Outcome, Stage, StepRecord, Verdict};

/// The run as SARIF. `place` returns the file that a candidate's results point at, relative to the repository; code
/// hosts do not show a result without one.
pub fn sarif(evidence: &Evidence, run: &str, place: &dyn Fn(&str) -> String) -> Result<Value, ViewError> {
    let all = summary::judged(evidence, run)?;
    let (run_hash, record) = evidence.run(run)?;
    let mut results = Vec::new();
    let mut exit = 0;
    for one in &all {
        if let Some((_, verdict)) = one.verdict {
            exit = worse(exit, verdict.verdict);
        }
        for (hash, step) in &one.steps {
            let level = match step.outcome {
                Outcome::Fail => "error",
                Outcome::Inconclusive => "warning",
                Outcome::Pass | Outcome::Skipped => continue,
            };
            let (_, held) = evidence.holder(*hash, step)?;
            let index = Stage::ALL.iter().position(|stage| *stage == step.stage).unwrap_or(0);
            results.push(json!({
                "ruleId": rule_id(step.stage),
                "ruleIndex": index,
                "level": level,
                "message": { "text": message(one.candidate, step, held) },
                "locations": [{ "physicalLocation": {
                    "artifactLocation": { "uri": sarif::uri(place(one.candidate).trim_start_matches('/')) },
                    "region": { "startLine": 1 },
                }}],
                "partialFingerprints": { "warpproofStep/v1": step.key.to_string() },
                "properties": { "record": hash.to_string(), "candidate": one.candidate },
            }));
        }
    }
    let more = json!({
        "invocations": [{ "executionSuccessful": true, "exitCode": exit }],
        "properties": {
            "run": record.run,
            "task": record.task,
            "taskVersion": record.task_version,
            "record": run_hash.to_string(),
        },
    });
    let rules: Vec<Value> = Stage::ALL.iter().map(|stage| rule(*stage)).collect();
    Ok(sarif::log(&[sarif::run("warpproof gate", &record.warpproof, &rules, &results, more)]))
}

/// REJECT ranks before INCONCLUSIVE, and both before success.
fn worse(exit: u8, verdict: Verdict) -> u8 {
    match (exit, verdict.exit_code()) {
        (1, _) | (_, 1) => 1,
        (exit, code) => exit.max(code),
    }
}

fn rule_id(stage: Stage) -> String {
    format!("gate/{stage}")
}

fn rule(stage: Stage) -> Value {
    let text = match stage {
        Stage::Build => "The candidate compiles for every declared target.",
        Stage::Budget => {
            "Registers, shared memory, stack frame and occupancy stay within the task's budgets."
        }
        Stage::Correct => {
            "The candidate's outputs agree with the reference for every shape, seed and distribution."
        }
        Stage::Checks => {
            "No race, out-of-bounds access, uninitialized read or barrier bug under any schedule."
        }
        Stage::Counters => "Instructions and memory traffic are within the task's limits.",
        Stage::Model => "The predicted time is within the task's limits.",
        Stage::Speed => "The measured latency is lower than the baseline's by the task's threshold.",
        Stage::Profile => "The device's own counters agree with the counts of the software GPU.",
        Stage::External => "A named peer was measured on the same inputs.",
    };
    json!({
        "id": rule_id(stage),
        "name": stage.as_str(),
        "shortDescription": { "text": text },
        "defaultConfiguration": { "level": "error" },
    })
}

fn message(candidate: &str, step: &StepRecord, held: &StepRecord) -> String {
    let mut text = format!("{}: {} {}: {}", candidate, step.stage, step.outcome, step.reason);
    for figure in held.figures.iter().filter(|figure| figure.holds() == Some(false)) {
        if let Some(threshold) = &figure.threshold {
            let at = figure.at.as_ref().map(|at| format!(" at {at}")).unwrap_or_default();
            let _ = write!(
                text,
                "; {}{at} is {} {} ({}); it must be {} {} ({})",
                figure.name,
                figure.value,
                figure.unit,
                figure.kind,
                threshold.op,
                threshold.value,
                threshold.source
            );
        }
    }
    // In a message, brackets form links, and a backslash escapes them.
    escape::plain(&text).replace('\\', "\\\\").replace('[', "\\[").replace(']', "\\]")
}
