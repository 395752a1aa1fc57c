//! A run as SARIF 2.1.0: a stage is a rule, a step that failed or could not be told is a result.

use super::error::ViewError;
use super::evidence::Evidence;
use super::{escape, summary};
use crate::record::{Outcome, Stage, StepRecord, Verdict};
use serde_json::{Value, json};
use std::fmt::Write;

const SCHEMA: &str =
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json";

/// The run as SARIF. `place` gives the file that a candidate's results point at, relative to the repository; code hosts show
/// no result without one.
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
                    "artifactLocation": { "uri": uri(&place(one.candidate)) },
                    "region": { "startLine": 1 },
                }}],
                "partialFingerprints": { "warpproofStep/v1": step.key.to_string() },
                "properties": { "record": hash.to_string(), "candidate": one.candidate },
            }));
        }
    }
    Ok(json!({
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": "warpproof gate",
                "version": record.warpproof,
                "informationUri": env!("CARGO_PKG_REPOSITORY"),
                "rules": Stage::ALL.iter().map(|stage| rule(*stage)).collect::<Vec<_>>(),
            }},
            "invocations": [{ "executionSuccessful": true, "exitCode": exit }],
            "columnKind": "unicodeCodePoints",
            "results": results,
            "properties": {
                "run": record.run,
                "task": record.task,
                "taskVersion": record.task_version,
                "record": run_hash.to_string(),
            },
        }],
    }))
}

/// REJECT goes before INCONCLUSIVE, and both before green.
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
            "The candidate computes what the oracles compute, for every shape, seed and distribution."
        }
        Stage::Checks => "No race, bad access, uninitialised read or misused barrier under any schedule.",
        Stage::Counters => "What is executed and moved stays within the task's limits.",
        Stage::Model => "The predicted time stays within the task's limits.",
        Stage::Speed => "The measured latency is lower than the baseline's by the task's threshold.",
        Stage::Profile => "The device's own counters agree with those that were counted.",
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
                "; {}{at} is {} {} ({}), and must be {} {} ({})",
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
    // In a message, brackets make links, and a backslash keeps them from it.
    escape::plain(&text).replace('\\', "\\\\").replace('[', "\\[").replace(']', "\\]")
}

/// A path as a relative reference: slashes stay, everything that is not plain is written as its code.
fn uri(path: &str) -> String {
    let mut out = String::new();
    for byte in path.replace('\\', "/").trim_start_matches('/').bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}
