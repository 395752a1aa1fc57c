//! `warpproof counters diff`: the counters that differ between two files, line by line.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use warpproof_count::{Change, Flat, LineKey};
use warpproof_model::grouped;

use super::Diff;
use super::file::{Document, SCHEMA};
use crate::report::{Kind, Outcome, Report};
use crate::terminal::Terminal;

/// What differs between two launches.
struct Changed {
    launch: usize,
    kernel: String,
    /// Whether the kernels have different names.
    other: bool,
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
        let mut all = compare(&before, &after);
        if self.totals {
            for one in &mut all {
                one.changes.retain(|change| change.line.is_none());
            }
        }
        for one in all.iter().filter(|one| one.other) {
            let sentence = format!("launch {} has different kernels: {}", one.launch, one.kernel);
            terminal
                .report(&Report::warning(sentence).help("launches are compared in their order in the files"));
        }
        let sampled = [&before, &after].map(|file| file.launches.iter().any(|one| one.sampled.is_some()));
        if sampled[0] != sampled[1] {
            let which = if sampled[0] { &self.before } else { &self.after };
            let sentence =
                format!("{} contains counters of a sample, the other file does not", which.display());
            terminal.report(&Report::warning(sentence).help("count both with the same --sample, or without"));
        }
        let label = if sampled.contains(&true) { "sampled" } else { "counted" };
        let equal = all.iter().all(|one| one.changes.is_empty());
        if self.json.wanted {
            terminal.json(&json!({
                "schema": "warpproof.counters-diff/1",
                "equal": equal,
                "kind": label,
                "launches": all.iter().map(json_of).collect::<Vec<_>>(),
            }));
        } else {
            all.iter().filter(|one| !one.changes.is_empty()).for_each(|one| terminal.print(text(one)));
            terminal.say(summary(&all, label));
        }
        // As with diff(1), exit code 1 means that the files differ.
        if equal { Outcome::Green } else { Outcome::Stopped(Kind::Kernel) }
    }
}

fn read(path: &Path) -> Result<Document, Box<Report>> {
    let name = path.display();
    let missing = |sentence: String| Box::new(Report::error(Kind::Missing, sentence));
    let text = fs::read_to_string(path).map_err(|error| missing(format!("cannot read {name}: {error}")))?;
    let wrong = |why: String| {
        let report = Report::error(Kind::Usage, format!("expected a file of counters, found {name}: {why}"));
        Box::new(report.help("write it with `warpproof counters … --json`"))
    };
    let document: Document = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
    if document.schema == SCHEMA {
        return Ok(document);
    }
    Err(wrong(format!("expected schema {SCHEMA}, found {}", document.schema)))
}

/// Pairs launches in their order; all counters of a launch without a partner count as different.
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
            let other = was != is && old.is_some() && new.is_some();
            let kernel = if was == is { was } else { format!("{was} → {is}") };
            let (mut old_flat, new_flat) = (flat(old), flat(new));
            if let (Some(old), Some(new)) = (old, new) {
                follow(&mut old_flat, &old.texts(), &new.texts());
            }
            Changed { launch, kernel, other, changes: old_flat.changes(&new_flat) }
        })
        .collect()
}

/// Lines by their texts, of one file.
type Texts<'a> = BTreeMap<LineKey, &'a str>;

/// Gives lines of the first launch the numbers of the lines with the same text in the second, in order, so
/// that moved lines do not differ. A line without a partner keeps its number if the second launch also has
/// an unmatched line with that number; otherwise it is marked as a line of the old file.
fn follow(flat: &mut Flat, before: &Texts<'_>, after: &Texts<'_>) {
    let mut files: Vec<&Option<String>> = before.keys().map(|key| &key.file).collect();
    files.dedup();
    let mut moved: BTreeMap<LineKey, LineKey> = BTreeMap::new();
    for file in files {
        let of = |texts: &Texts<'_>| -> Vec<(LineKey, String)> {
            let own = texts.iter().filter(|(key, _)| key.file == *file);
            own.map(|(key, text)| (key.clone(), text.trim().to_owned())).collect()
        };
        let (old, new) = (of(before), of(after));
        if new.is_empty() || old.len().saturating_mul(new.len()) > MOST_PAIRS {
            continue;
        }
        let pairs = common(&old, &new);
        let taken: Vec<&LineKey> = pairs.iter().map(|(_, new)| *new).collect();
        for (key, _) in &old {
            let partner = pairs.iter().find(|(one, _)| *one == key).map(|(_, new)| (*new).clone());
            let gone = || {
                let name = key.file.as_deref().unwrap_or("PTX");
                LineKey { file: Some(format!("{name} (before)")), line: key.line }
            };
            let to = partner.unwrap_or_else(|| if taken.contains(&key) { gone() } else { key.clone() });
            moved.insert(key.clone(), to);
        }
    }
    let lines = std::mem::take(&mut flat.lines);
    flat.lines =
        lines.into_iter().map(|(key, counters)| (moved.remove(&key).unwrap_or(key), counters)).collect();
}

/// Maximum number of pairs of lines that are compared.
const MOST_PAIRS: usize = 1 << 24;

/// The longest common sequence of lines with equal texts.
fn common<'a>(old: &'a [(LineKey, String)], new: &'a [(LineKey, String)]) -> Vec<(&'a LineKey, &'a LineKey)> {
    // The length of the longest sequence from each pair of positions on.
    let width = new.len() + 1;
    let mut longest = vec![0u32; (old.len() + 1) * width];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            longest[i * width + j] = if old[i].1 == new[j].1 {
                longest[(i + 1) * width + j + 1] + 1
            } else {
                longest[(i + 1) * width + j].max(longest[i * width + j + 1])
            };
        }
    }
    let (mut i, mut j, mut pairs) = (0, 0, Vec::new());
    while i < old.len() && j < new.len() {
        if old[i].1 == new[j].1 {
            pairs.push((&old[i].0, &new[j].0));
            (i, j) = (i + 1, j + 1);
        } else if longest[(i + 1) * width + j] >= longest[i * width + j + 1] {
            i += 1;
        } else {
            j += 1;
        }
    }
    pairs
}

/// Lines of counters, each under its source line.
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
        None => "whole launch".to_owned(),
        Some(LineKey { file: Some(file), line }) => format!("{file}:{line}"),
        Some(LineKey { file: None, line }) => format!("PTX line {line}"),
    }
}

fn summary(all: &[Changed], label: &str) -> String {
    let changes: usize = all.iter().map(|one| one.changes.len()).sum();
    if changes == 0 {
        return format!("no counter differs ({label})");
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
    format!("{} of {} differ ({label})", count(changes, "counter"), count(lines, "line"))
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

#[cfg(test)]
mod tests {
    use super::*;

    fn key(line: u32) -> LineKey {
        LineKey { file: Some("a.cu".to_owned()), line }
    }

    fn flat(lines: &[(u32, u64)]) -> Flat {
        let of = |count: u64| BTreeMap::from([("executions".to_owned(), count)]);
        Flat {
            launch: BTreeMap::new(),
            lines: lines.iter().map(|(line, count)| (key(*line), of(*count))).collect(),
        }
    }

    #[test]
    fn lines_that_moved_are_followed_by_their_texts() {
        let before: Texts<'_> = [(key(3), "x = 1;"), (key(4), "y = 2;"), (key(6), "z = 3;")].into();
        // Two lines were put before them, and the second was rewritten.
        let after: Texts<'_> =
            [(key(4), "w = 0;"), (key(5), "  x = 1;"), (key(6), "y = 4;"), (key(8), "z = 3;")].into();
        let mut old = flat(&[(3, 10), (4, 20), (6, 30)]);
        follow(&mut old, &before, &after);
        let changes = old.changes(&flat(&[(4, 1), (5, 10), (6, 20), (8, 31)]));
        let told: Vec<_> =
            changes.iter().map(|one| (place(one.line.as_ref()), one.before, one.after)).collect();
        let expected = [("a.cu:4", 20, 1), ("a.cu:6", 0, 20), ("a.cu:8", 30, 31)];
        assert_eq!(told, expected.map(|(place, before, after)| (place.to_owned(), before, after)));
    }

    #[test]
    fn without_texts_numbers_are_all_there_is() {
        let mut old = flat(&[(3, 10)]);
        follow(&mut old, &Texts::new(), &Texts::new());
        assert_eq!(old, flat(&[(3, 10)]));
    }
}
