//! The findings of `check` as a SARIF log.

use serde_json::{Value, json};
use warpproof_diagnostic::sarif;

use super::{Check, Examined, Found};
use crate::report::{Kind, Place};

/// One run.
pub(super) fn document(check: &Check, examined: &Examined, failed: Option<Kind>) -> Value {
    let mut seen = Vec::new();
    let results: Vec<Value> =
        examined.findings.iter().map(|found| result(check, examined, found, &mut seen)).collect();
    let more = json!({
        "invocations": [{
            "executionSuccessful": failed.is_none_or(|kind| kind == Kind::Kernel),
            "exitCode": failed.map_or(0, Kind::exit_code),
            "toolExecutionNotifications": examined.reports().map(sarif::notification).collect::<Vec<_>>(),
        }],
        "properties": { "summary": examined.summary(), "dropped": examined.dropped },
    });
    sarif::log(&[sarif::run("warpproof", env!("CARGO_PKG_VERSION"), &sarif::rules(), &results, more)])
}

fn result(check: &Check, examined: &Examined, found: &Found, seen: &mut Vec<String>) -> Value {
    // Code scanning services require a place for every result; a finding without one gets the place of its
    // launch.
    let line = examined.launches.get(found.launch).and_then(|launch| launch.line).unwrap_or(1);
    let whole = Place::new(check.launch.file().display().to_string(), line);
    let places: Vec<&Place> = found.places.iter().map(|shown| &shown.place).collect();
    sarif::result(&found.finding, &places, &whole, Some(&fingerprint(found, seen)))
}

/// A fingerprint that stays the same after lines were added above the bug: made from the class and the text
/// of the finding's lines. A second finding with the same fingerprint gets a number.
fn fingerprint(found: &Found, seen: &mut Vec<String>) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(found.finding.class.name().as_bytes());
    if found.places.is_empty() {
        hasher.update(found.finding.sentence.as_bytes());
    }
    for shown in &found.places {
        hasher.update(b"\0").update(sarif::uri(&shown.place.file).as_bytes()).update(b"\0");
        hasher.update(shown.place.line_text().unwrap_or_default().trim().as_bytes());
    }
    let hash = hasher.finalize().to_hex()[..32].to_owned();
    let before = seen.iter().filter(|other| **other == hash).count();
    let print = format!("{hash}:{}", before + 1);
    seen.push(hash);
    print
}
