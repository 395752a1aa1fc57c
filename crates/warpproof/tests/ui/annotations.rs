//! The annotations of a kernel of the suite, and the findings of `check`. `cargo xtask findings` uses this
//! file too.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::Value;
use warpproof_check::Class;

/// A finding or a report at a line.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Mark {
    /// The line, or `None` without a place.
    pub(crate) line: Option<u32>,
    /// The class of a finding, or the kind of a report.
    pub(crate) class: String,
    pub(crate) is_note: bool,
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "line {line}: ")?,
            None => f.write_str("no line: ")?,
        }
        write!(f, "{}{}", if self.is_note { "note: " } else { "" }, self.class)
    }
}

/// Kinds of reports that are not findings.
const KINDS: [&str; 5] = ["unsupported", "limit", "usage", "missing", "kernel"];

/// The annotations of a file.
pub(crate) fn read(text: &str) -> Result<BTreeSet<Mark>, String> {
    let mut marks = BTreeSet::new();
    for (number, line) in (1u32..).zip(text.lines()) {
        let mut parts = line.split("//~");
        let code = parts.next().unwrap_or_default();
        for part in parts {
            let (is_note, names) = match part.trim().strip_prefix("note:") {
                Some(names) => (true, names),
                None => (false, part),
            };
            for name in names.split(',').map(str::trim) {
                let known = Class::ALL.iter().any(|class| class.name() == name) || KINDS.contains(&name);
                if !known {
                    return Err(format!("line {number}: `{name}` is not a class"));
                }
                let line = (!code.trim().is_empty()).then_some(number);
                marks.insert(Mark { line, class: name.to_owned(), is_note });
            }
        }
    }
    Ok(marks)
}

/// Why a file is known to disagree.
pub(crate) fn known_failure(text: &str) -> Option<&str> {
    text.lines().find_map(|line| line.trim().strip_prefix("//@known-failure:")).map(str::trim)
}

/// The class and line of everything that `check` reported, from its JSON. A place in another file is marked
/// with its name, which no annotation can express: such a test needs another kernel.
pub(crate) fn found(said: &Value, file: &str) -> BTreeSet<Mark> {
    let list = |name: &str| said[name].as_array().map(Vec::as_slice).unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let line = |place: &Value| {
        let here = place["file"].as_str() == Some(file);
        place["line"].as_u64().filter(|_| here).and_then(|line| u32::try_from(line).ok())
    };
    let mut marks = BTreeSet::new();
    for finding in list("findings") {
        let class = text(&finding["class"]);
        let is_note = finding["severity"] == "note";
        let places = finding["places"].as_array().map(Vec::as_slice).unwrap_or_default();
        if places.is_empty() {
            marks.insert(Mark { line: None, class: class.clone(), is_note });
        }
        for place in places {
            let elsewhere = || format!("{class} in {}:{}", text(&place["file"]), place["line"]);
            let class = if line(place).is_some() { class.clone() } else { elsewhere() };
            marks.insert(Mark { line: line(place), class, is_note });
        }
    }
    for report in list("reports").iter().filter(|report| report["severity"] == "error") {
        marks.insert(Mark { line: line(&report["place"]), class: text(&report["kind"]), is_note: false });
    }
    marks
}
