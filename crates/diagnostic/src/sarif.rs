//! Findings as SARIF 2.1.0 (OASIS standard) for code scanning services: a class is a rule, a finding is a result.

use std::env;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};
use warpproof_check::{Class, Finding};

use crate::host::HostClass;
use crate::{Place, Report, Severity};

const SCHEMA: &str =
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json";

/// A log of runs.
pub fn log(runs: &[Value]) -> Value {
    json!({ "$schema": SCHEMA, "version": "2.1.0", "runs": runs })
}

/// A run: the tool, its rules and its results. `more` adds or replaces properties.
pub fn run(tool: &str, version: &str, rules: &[Value], results: &[Value], more: Value) -> Value {
    let mut run = json!({
        "tool": { "driver": {
            "name": tool,
            "semanticVersion": version,
            "informationUri": env!("CARGO_PKG_REPOSITORY"),
            "rules": rules,
        }},
        "columnKind": "unicodeCodePoints",
        "results": results,
    });
    if let (Value::Object(run), Value::Object(more)) = (&mut run, more) {
        run.extend(more);
    }
    run
}

/// The classes of findings in kernels as rules.
pub fn rules() -> Vec<Value> {
    let kernel =
        |class: Class| rule(class.name(), &format!("{class:?}"), class.summary(), class.explanation());
    Class::ALL.into_iter().map(kernel).collect()
}

/// The classes of findings in kernels and in the host's code as rules.
pub fn rules_with_host() -> Vec<Value> {
    let host =
        |class: HostClass| rule(class.name(), &format!("{class:?}"), class.summary(), class.explanation());
    rules().into_iter().chain(HostClass::ALL.into_iter().map(host)).collect()
}

fn rule(id: &str, name: &str, summary: &str, explanation: &str) -> Value {
    json!({
        "id": id,
        "name": name,
        "shortDescription": { "text": summary },
        "fullDescription": { "text": explanation },
        "helpUri": format!("{}/blob/main/book/src/checks/{id}.md", env!("CARGO_PKG_REPOSITORY")),
        "defaultConfiguration": { "level": "error" },
        "properties": { "tags": ["correctness", "cuda"] },
    })
}

/// A finding as a result. `places` are the finding's places as displayed; `whole` is used for a finding without a
/// place; `print` is its fingerprint.
pub fn result(finding: &Finding, places: &[&Place], whole: &Place, print: Option<&str>) -> Value {
    let mut text = finding.sentence.clone();
    let mut related = Vec::new();
    let mut links = Vec::new();
    for (i, (label, place)) in finding.places.iter().zip(places).enumerate().skip(1) {
        related.push(with_message(location(place), &label.text, Some(i)));
        // A viewer shows the place only if the text links to it.
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
    let primary = match (places.first(), finding.places.first()) {
        (Some(place), Some(label)) => with_message(location(place), &label.text, None),
        _ => location(whole),
    };
    let mut value = json!({
        "ruleId": finding.class.name(),
        "level": finding.severity.name(),
        "message": { "text": text },
        "locations": [primary],
        "occurrenceCount": finding.count.max(1),
    });
    if let Value::Object(fields) = &mut value {
        if let Some(print) = print {
            fields.insert("partialFingerprints".into(), json!({ "warpproofFinding/v1": print }));
        }
        if let Some(index) = Class::ALL.iter().position(|class| *class == finding.class) {
            fields.insert("ruleIndex".into(), json!(index));
        }
        if !related.is_empty() {
            fields.insert("relatedLocations".into(), json!(related));
        }
    }
    value
}

/// A report about the host's code as a result; its notes are part of the message, its context related locations.
pub fn host_result(report: &Report, class: HostClass, count: u64) -> Value {
    let mut text = report.sentence.clone();
    let mut related = Vec::new();
    for (i, place) in report.context.iter().enumerate() {
        let label = place.label.as_deref().unwrap_or("see also");
        related.push(with_message(location(place), label, Some(i + 1)));
        let _ = write!(text, "{}[{label}]({})", if i == 0 { "\nsee " } else { ", " }, i + 1);
    }
    for note in &report.notes {
        let _ = write!(text, "\n{}", note.sentence);
    }
    if let Some(help) = &report.help {
        let _ = write!(text, "\nhelp: {help}");
    }
    let mut value = json!({
        "ruleId": class.name(),
        "level": level(report.severity),
        "message": { "text": text },
        "occurrenceCount": count.max(1),
    });
    if let Value::Object(fields) = &mut value {
        if let Some(index) = HostClass::ALL.iter().position(|known| *known == class) {
            fields.insert("ruleIndex".into(), json!(Class::ALL.len() + index));
        }
        if let Some(place) = &report.place {
            fields.insert("locations".into(), json!([location(place)]));
        }
        if !related.is_empty() {
            fields.insert("relatedLocations".into(), json!(related));
        }
    }
    value
}

fn level(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Note => "note",
    }
}

/// A message about the run itself.
pub fn notification(report: &Report) -> Value {
    let level = level(report.severity);
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

/// A place as a location.
pub fn location(place: &Place) -> Value {
    let mut region = Map::new();
    region.insert("startLine".into(), json!(place.line.max(1)));
    let text = place.line_text();
    if let Some(column) = place.column {
        // Our columns count bytes.
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

/// A file's name as a reference: relative to the working directory if it is inside it.
pub fn uri(file: &str) -> String {
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
