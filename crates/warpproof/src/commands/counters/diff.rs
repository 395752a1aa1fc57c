//! `warpproof counters diff`: the counters that differ between two files, line by line.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use warpproof_model::grouped;
use warpproof_sim::count::{Change, Flat, LineKey};

use super::Diff;
use super::file::{Document, SCHEMA};
use crate::report::{Kind, Outcome, Report};
use crate::terminal::Terminal;

/// What differs between two launches.
struct Changed {
    launch: usize,
    kernel: String,
    changes: Vec<Change>,
}

impl Diff {
    pub(super) fn run(&self, terminal: &mut Terminal) -> Outcome {
        let both = read(&self.before).and_then(|before| Ok((before, read(&self.after)?)));
        let (before, after) = match both {
            Ok(both) => both,
            Err(report) => {
                terminal.report(&report);
                return Outcome::Stopped(report.kind);
            }
        };
        let all = compare(&before, &after);
        let equal = all.iter().all(|one| one.changes.is_empty());
        if self.json {
            terminal.json(&json!({
                "schema": "warpproof.counters-diff/1",
                "equal": equal,
                "launches": all.iter().map(json_of).collect::<Vec<_>>(),
            }));
        } else {
            all.iter().filter(|one| !one.changes.is_empty()).for_each(|one| terminal.print(text(one)));
            terminal.say(summary(&all));
        }
        // As of any comparison of files: 1 says that they differ.
        if equal { Outcome::Green } else { Outcome::Stopped(Kind::Kernel) }
    }
}

fn read(path: &Path) -> Result<Document, Box<Report>> {
    let name = path.display();
    let missing = |sentence: String| Box::new(Report::error(Kind::Missing, sentence));
    let text = fs::read_to_string(path).map_err(|error| missing(format!("cannot read {name}: {error}")))?;
    let wrong = |why: String| {
        let report = Report::error(Kind::Usage, format!("{name} holds no counters: {why}"));
        Box::new(report.help("write it with `warpproof counters … --json`"))
    };
    let document: Document = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
    if document.schema == SCHEMA {
        return Ok(document);
    }
    Err(wrong(format!("its schema is {}, and {SCHEMA} is known", document.schema)))
}

/// Launches in their order; one without a partner differs in all it counted.
fn compare(before: &Document, after: &Document) -> Vec<Changed> {
    let launches = before.launches.len().max(after.launches.len());
    let nothing = Flat::default();
    (0..launches)
        .map(|launch| {
            let (old, new) = (before.launches.get(launch), after.launches.get(launch));
            let flat =
                |one: Option<&super::file::Launch>| one.map_or(nothing.clone(), super::file::Launch::flat);
            let name = |one: Option<&super::file::Launch>| {
                one.map_or_else(|| "nothing".to_owned(), |one| one.kernel.clone())
            };
            let (was, is) = (name(old), name(new));
            let kernel = if was == is { was } else { format!("{was} → {is}") };
            Changed { launch, kernel, changes: flat(old).changes(&flat(new)) }
        })
        .collect()
}

/// Lines of counters, under the line of the kernel that they are of.
fn text(changed: &Changed) -> String {
    let mut text = format!("launch {}, {}\n", changed.launch, changed.kernel);
    let width = changed.changes.iter().map(|change| change.counter.len()).max().unwrap_or(0);
    let digits = |of: fn(&Change) -> u64| {
        changed.changes.iter().map(|change| grouped(of(change)).len()).max().unwrap_or(0)
    };
    let (old, new) = (digits(|change| change.before), digits(|change| change.after));
    let mut line: Option<&Option<LineKey>> = None;
    for change in &changed.changes {
        if line != Some(&change.line) {
            line = Some(&change.line);
            let _ = writeln!(text, "  {}", place(change.line.as_ref()));
        }
        let by = change.after.abs_diff(change.before);
        let sign = if change.after > change.before { '+' } else { '-' };
        let (before, after) = (grouped(change.before), grouped(change.after));
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "    {:<width$}  {before:>old$} → {after:>new$}  {sign}{}",
            change.counter,
            grouped(by)
        );
    }
    text
}

fn place(line: Option<&LineKey>) -> String {
    match line {
        None => "the launch as a whole".to_owned(),
        Some(LineKey { file: Some(file), line }) => format!("{file}:{line}"),
        Some(LineKey { file: None, line }) => format!("PTX line {line}"),
    }
}

fn summary(all: &[Changed]) -> String {
    let changes: usize = all.iter().map(|one| one.changes.len()).sum();
    if changes == 0 {
        return "no counter differs (counted)".to_owned();
    }
    let mut lines = 0;
    for one in all {
        let mut of: Vec<&LineKey> = one.changes.iter().filter_map(|change| change.line.as_ref()).collect();
        of.dedup();
        lines += of.len();
    }
    let count = |n: usize, noun: &str| {
        let number = grouped(u64::try_from(n).unwrap_or(u64::MAX));
        format!("{number} {noun}{}", if n == 1 { "" } else { "s" })
    };
    format!("{} of {} differ (counted)", count(changes, "counter"), count(lines, "line"))
}

fn json_of(changed: &Changed) -> Value {
    let changes = changed.changes.iter().map(|change| {
        json!({
            "file": change.line.as_ref().and_then(|line| line.file.clone()),
            "line": change.line.as_ref().map(|line| line.line),
            "counter": change.counter,
            "before": change.before,
            "after": change.after,
        })
    });
    json!({ "launch": changed.launch, "kernel": changed.kernel, "changes": changes.collect::<Vec<_>>() })
}
