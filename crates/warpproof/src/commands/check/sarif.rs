//! Findings as SARIF 2.1.0 (OASIS standard), as code scanning services take them: a class is a rule, a finding a result.

use std::env;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};
use warpproof_sim::check::{Class, Severity as Grade};

use super::{Check, Examined, Found, rules};
use crate::report::{Kind, Place, Report, Severity};

const SCHEMA: &str =
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json";

/// One run.
pub(super) fn document(check: &Check, examined: &Examined, failed: Option<Kind>) -> Value {
    let rules: Vec<Value> = Class::ALL.into_iter().map(rule).collect();
    let mut seen = Vec::new();
    let results: Vec<Value> =
        examined.findings.iter().map(|found| result(check, examined, found, &mut seen)).collect();
    json!({
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": "warpproof",
                "semanticVersion": env!("CARGO_PKG_VERSION"),
                "informationUri": env!("CARGO_PKG_REPOSITORY"),
                "rules": rules,
            }},
            "invocations": [{
                "executionSuccessful": failed.is_none_or(|kind| kind == Kind::Kernel),
                "exitCode": failed.map_or(0, Kind::exit_code),
                "toolExecutionNotifications": examined.reports().map(notification).collect::<Vec<_>>(),
            }],
            "columnKind": "unicodeCodePoints",
            "results": results,
            "properties": { "summary": examined.summary(), "dropped": examined.dropped },
        }],
    })
}

fn rule(class: Class) -> Value {
    let words = rules::of(class);
    json!({
        "id": class.name(),
        "name": words.name,
        "shortDescription": { "text": words.short },
        "fullDescription": { "text": words.full },
        "helpUri": format!("{}/blob/main/book/src/checks/{}.md", env!("CARGO_PKG_REPOSITORY"), class.name()),
        "defaultConfiguration": { "level": "error" },
        "properties": { "tags": ["correctness", "cuda"] },
    })
}

fn result(check: &Check, examined: &Examined, found: &Found, seen: &mut Vec<String>) -> Value {
    let finding = &found.finding;
    let mut text = finding.sentence.clone();
    let mut related = Vec::new();
    let mut links = Vec::new();
    for (i, (label, shown)) in finding.places.iter().zip(&found.places).enumerate().skip(1) {
        related.push(with_message(location(&shown.place), &label.text, Some(i)));
        // A link in the text is what makes a viewer show the place.
        links.push(format!("[{}]({i})", label.text.replace('[', "\\[").replace(']', "\\]")));
    }
    if !links.is_empty() {
        let _ = write!(text, "\nsee {}", links.join(", "));
    }
    for note in &finding.notes {
        let _ = write!(text, "\n{note}");
    }
    if let Some(help) = &finding.help {
        let _ = write!(text, "\nhelp: {help}");
    }
    // A service wants a place for everything; what has none belongs to its launch.
    let line = examined.launches.get(found.launch).and_then(|launch| launch.line).unwrap_or(1);
    let whole = Place::new(check.launch.file().display().to_string(), line);
    let primary = match (found.places.first(), finding.places.first()) {
        (Some(shown), Some(label)) => with_message(location(&shown.place), &label.text, None),
        _ => location(&whole),
    };
    let index = Class::ALL.iter().position(|class| *class == finding.class);
    let mut value = json!({
        "ruleId": finding.class.name(),
        "level": match finding.severity { Grade::Error => "error", Grade::Note => "note" },
        "message": { "text": text },
        "locations": [primary],
        "partialFingerprints": { "warpproofFinding/v1": fingerprint(found, seen) },
        "occurrenceCount": finding.count.max(1),
    });
    if let Value::Object(fields) = &mut value {
        if let Some(index) = index {
            fields.insert("ruleIndex".into(), json!(index));
        }
        if !related.is_empty() {
            fields.insert("relatedLocations".into(), json!(related));
        }
    }
    value
}

/// The same for the same mistake after lines were added above it: made of the class and of the text of its lines. A second
/// one that would be the same gets a number.
fn fingerprint(found: &Found, seen: &mut Vec<String>) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(found.finding.class.name().as_bytes());
    if found.places.is_empty() {
        hasher.update(found.finding.sentence.as_bytes());
    }
    for shown in &found.places {
        hasher.update(b"\0").update(uri(&shown.place.file).as_bytes()).update(b"\0");
        hasher.update(shown.place.line_text().unwrap_or_default().trim().as_bytes());
    }
    let hash = hasher.finalize().to_hex()[..32].to_owned();
    let before = seen.iter().filter(|other| **other == hash).count();
    let print = format!("{hash}:{}", before + 1);
    seen.push(hash);
    print
}

fn notification(report: &Report) -> Value {
    let level = match report.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Note => "note",
    };
    let help = report.help.as_ref().map(|help| format!("\nhelp: {help}")).unwrap_or_default();
    let mut value = json!({ "level": level, "message": { "text": format!("{}{help}", report.sentence) } });
    if let (Value::Object(fields), Some(place)) = (&mut value, &report.place) {
        fields.insert("locations".into(), json!([location(place)]));
    }
    value
}

fn with_message(mut location: Value, text: &str, id: Option<usize>) -> Value {
    if let Value::Object(fields) = &mut location {
        fields.insert("message".into(), json!({ "text": text }));
        if let Some(id) = id {
            fields.insert("id".into(), json!(id));
        }
    }
    location
}

fn location(place: &Place) -> Value {
    let mut region = Map::new();
    region.insert("startLine".into(), json!(place.line.max(1)));
    let text = place.line_text();
    if let Some(column) = place.column {
        // Ours counts bytes.
        let bytes = usize::try_from(column).unwrap_or(1).saturating_sub(1);
        let characters =
            text.as_ref().map_or(bytes, |text| text.char_indices().take_while(|(at, _)| *at < bytes).count());
        region.insert("startColumn".into(), json!(characters + 1));
    }
    if let Some(text) = text {
        region.insert("snippet".into(), json!({ "text": text }));
    }
    let uri = uri(&place.file);
    let artifact = if uri.starts_with("file:") {
        json!({ "uri": uri })
    } else {
        json!({ "uri": uri, "uriBaseId": "%SRCROOT%" })
    };
    json!({ "physicalLocation": { "artifactLocation": artifact, "region": region } })
}

/// A file's name as a reference: relative to the working directory where it lies below it.
fn uri(file: &str) -> String {
    let path = Path::new(file);
    let here = env::current_dir().ok();
    let below: Option<PathBuf> = here.and_then(|here| path.strip_prefix(here).ok().map(Path::to_path_buf));
    let path = below.as_deref().unwrap_or(path);
    let text = path.display().to_string().replace('\\', "/");
    let text = text.strip_prefix("./").unwrap_or(&text);
    let mut encoded = String::new();
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                encoded.push(char::from(byte));
            }
            _ => {
                let _ = write!(encoded, "%{byte:02X}");
            }
        }
    }
    if path.is_absolute() { format!("file://{encoded}") } else { encoded }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_references() {
        assert_eq!(uri("./src/a b.cu"), "src/a%20b.cu");
        assert_eq!(uri("/usr/k.cu"), "file:///usr/k.cu");
        let here = env::current_dir().unwrap().join("x/k.cu");
        assert_eq!(uri(&here.display().to_string()), "x/k.cu");
    }

    #[test]
    fn columns_count_characters() {
        let place = Place::new("k.cu", 2).column(Some(4)).text(Some("é = x;".into()));
        let region = &location(&place)["physicalLocation"]["region"];
        assert_eq!((&region["startLine"], &region["startColumn"]), (&json!(2), &json!(3)));
    }
}
