//! Findings as JSON: `schemas/findings-1.schema.json` describes the format. Fields may be added without a
//! new schema number; the meaning of existing fields never changes.

use serde_json::{Value, json};
use warpproof_sim::cover::{Coverage, Line};

use super::{Check, Examined, Found, Launched};
use crate::report::{Kind, Place, Report};
use crate::source::Shown;

/// All that was checked.
pub(super) fn document(check: &Check, examined: &Examined, failed: Option<Kind>) -> Value {
    let mut document = json!({
        "schema": "warpproof.findings/1",
        "warpproof": env!("CARGO_PKG_VERSION"),
        "source": check.launch.file().display().to_string(),
        "ok": failed.is_none(),
        "outcome": failed.map_or(json!("green"), |kind| json!(kind)),
        "exit_code": failed.map_or(0, Kind::exit_code),
        "checks": examined.checks.iter().map(|check| check.name()).collect::<Vec<_>>(),
        "schedules": examined.schedules,
        "seed": check.seed,
        "launches": examined.launches.iter().map(launch).collect::<Vec<_>>(),
        "findings": examined.findings.iter().map(finding).collect::<Vec<_>>(),
        "dropped": examined.dropped,
        "reports": examined.reports().map(report).collect::<Vec<_>>(),
        "summary": examined.summary(),
    });
    if let (Some(coverage), Value::Object(fields)) = (&examined.coverage, &mut document) {
        fields.insert("coverage".into(), covered(coverage));
    }
    if let (Some(seen), Value::Object(fields)) = (&examined.explored, &mut document) {
        fields.insert("explored".into(), seen.json());
    }
    document
}

/// The coverage of the launches, and the lines that were not fully covered.
fn covered(coverage: &Coverage) -> Value {
    let totals = coverage.totals();
    let (outcomes, unexecuted) = coverage.gaps();
    let line = |line: &Line| json!({ "file": line.file, "line": line.line });
    let gap =
        |(place, count): (&Line, &u64)| json!({ "file": place.file, "line": place.line, "outcomes": count });
    json!({
        "lines": totals.lines,
        "lines_reached": totals.lines_reached,
        "branch_outcomes": totals.outcomes,
        "branch_outcomes_reached": totals.outcomes_reached,
        "lines_not_executed": unexecuted.iter().map(line).collect::<Vec<_>>(),
        "branch_outcomes_not_reached": outcomes.iter().map(gap).collect::<Vec<_>>(),
    })
}

fn launch(launch: &Launched) -> Value {
    json!({
        "kernel": launch.kernel,
        "symbol": launch.symbol,
        "line": launch.line,
        "grid": launch.grid,
        "block": launch.block,
        "shared": launch.shared,
        "instructions": { "value": launch.instructions, "kind": "counted", "unit": "warp instructions" },
        "host_time": { "value": launch.host_seconds, "kind": "measured", "unit": "s" },
        "printf": String::from_utf8_lossy(&launch.printed),
    })
}

fn finding(found: &Found) -> Value {
    let finding = &found.finding;
    let places: Vec<Value> = finding
        .places
        .iter()
        .zip(&found.places)
        .map(|(label, shown)| {
            let mut value = place(&shown.place);
            let Value::Object(fields) = &mut value else { return value };
            let inlined = |frames: &[Place]| frames.iter().map(place).collect::<Vec<_>>();
            let Shown { inner, outer, .. } = shown;
            fields.insert("label".into(), json!(label.text));
            fields.insert("thread".into(), json!(label.thread));
            fields.insert("calls_inlined_there".into(), json!(inlined(inner)));
            fields.insert("inlined_at".into(), json!(inlined(outer)));
            let ptx = &label.place;
            fields.insert(
                "ptx".into(),
                json!({ "function": ptx.function, "line": ptx.ptx_line, "instruction": ptx.instruction }),
            );
            value
        })
        .collect();
    json!({
        "class": finding.class,
        "severity": finding.severity,
        "sentence": finding.sentence,
        "launch": found.launch,
        "count": finding.count,
        "places": places,
        "notes": finding.notes,
        "help": finding.help,
        "rendered": found.report.plain(),
    })
}

fn place(place: &Place) -> Value {
    json!({ "file": place.file, "line": place.line, "column": place.column })
}

fn report(report: &Report) -> Value {
    let mut value = json!(report);
    if let Value::Object(fields) = &mut value {
        fields.insert("rendered".into(), json!(report.plain()));
    }
    value
}
