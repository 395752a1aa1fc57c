//! A report for a terminal: plain text without color, at most 100 columns if words allow.

use super::document::{Block, Document, Inline, Phrase, References, Table};
use super::{escape, message};
use std::fmt::Write;

const WIDTH: usize = 100;
/// Maximum width of a column of a table before its cells wrap.
const COLUMN: usize = 44;

impl Document {
    /// The report as plain text.
    pub fn text(&self) -> String {
        let mut out = String::new();
        let mut refs = References::default();
        let title = phrase(&self.title, None);
        let _ = writeln!(out, "{title}\n{}", "=".repeat(width(&title)));
        for (i, line) in self.headline.iter().enumerate() {
            let status = self.status.filter(|_| i == 0);
            let status = status.map(|status| format!("{} {}  ", status.mark(), status.word()));
            let line = phrase(line, Some(&mut refs));
            wrapped(&format!("{}{line}", status.unwrap_or_default()), "", &mut out);
        }
        for block in &self.blocks {
            out.push('\n');
            match block {
                Block::Heading(words) => {
                    let title = phrase(words, None);
                    let _ = writeln!(out, "{title}\n{}", "-".repeat(width(&title)));
                }
                Block::Subheading(words) => {
                    let _ = writeln!(out, "{}", phrase(words, None));
                }
                Block::Paragraph(words) => wrapped(&phrase(words, Some(&mut refs)), "", &mut out),
                Block::Table(rows) => table(rows, &mut out, &mut refs),
                Block::Checklist(items) => {
                    for item in items {
                        let what = phrase(&item.what, Some(&mut refs));
                        let line = format!("{} {:13} {what}", item.status.mark(), item.status.word());
                        wrapped(&line, &" ".repeat(16), &mut out);
                    }
                }
                Block::Plot(plot) => {
                    let _ = writeln!(out, "{}", phrase(&plot.title, Some(&mut refs)));
                    out.push_str(&plot.text());
                }
                Block::Counterexample(shown) => out.push_str(&shown.text()),
                Block::Draft(lines) => out.push_str(&message::draft(lines)),
            }
        }
        if refs.lists().next().is_some() {
            out.push_str("\nRecords\n-------\n");
        }
        for (place, list) in refs.lists() {
            for hash in list {
                let what = self.records.get(hash).map(|what| escape::plain(what)).unwrap_or_default();
                let line = format!("[{place}] {} {what}", hash.short());
                wrapped(&line, "    ", &mut out);
            }
        }
        out
    }
}

/// The number of columns of a text; every character counts as one.
pub(super) fn width(text: &str) -> usize {
    text.chars().count()
}

fn phrase(phrase: &Phrase, mut refs: Option<&mut References>) -> String {
    let mut out = String::new();
    for inline in &phrase.0 {
        match inline {
            Inline::Words(words) => out.push_str(words),
            Inline::Quote { text, .. } | Inline::Name { text, .. } => out.push_str(&escape::plain(text)),
            Inline::Status(status) => {
                let _ = write!(out, "{} {}", status.mark(), status.word());
            }
            Inline::Number(number) => {
                let kind = number.kind_word().map(|kind| format!(" {kind}")).unwrap_or_default();
                let _ = write!(out, "{}{kind}", escape::plain(&number.shown()));
                if let Some(refs) = &mut refs {
                    let _ = write!(out, " [{}]", refs.of(&number.source));
                }
            }
        }
    }
    out
}

/// Breaks a line at spaces; a text without spaces stays whole.
fn lines(text: &str, most: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut line = String::new();
    for word in text.split(' ') {
        if !line.is_empty() && width(&line) + 1 + width(word) > most {
            lines.push(std::mem::take(&mut line));
        } else if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines.push(line);
    lines
}

fn wrapped(text: &str, indent: &str, out: &mut String) {
    for (i, line) in lines(text, WIDTH.saturating_sub(width(indent))).iter().enumerate() {
        let _ = writeln!(out, "{}{}", if i == 0 { "" } else { indent }, line.trim_end());
    }
}

fn table(table: &Table, out: &mut String, refs: &mut References) {
    let head: Vec<Vec<String>> = table.columns.iter().map(|title| vec![title.clone()]).collect();
    let rows: Vec<Vec<Vec<String>>> = std::iter::once(head)
        .chain(
            table
                .rows
                .iter()
                .map(|row| row.iter().map(|cell| lines(&phrase(cell, Some(&mut *refs)), COLUMN)).collect()),
        )
        .collect();
    let mut widths = vec![0; table.columns.len()];
    for row in &rows {
        for (widest, cell) in widths.iter_mut().zip(row) {
            *widest = cell.iter().map(|line| width(line)).fold(*widest, usize::max);
        }
    }
    for (i, row) in rows.iter().enumerate() {
        let height = row.iter().map(Vec::len).max().unwrap_or(0);
        for y in 0..height {
            let mut line = String::new();
            for (cell, widest) in row.iter().zip(&widths) {
                let text = cell.get(y).map_or("", String::as_str);
                let _ = write!(line, "{text}{}  ", " ".repeat(widest.saturating_sub(width(text))));
            }
            let _ = writeln!(out, "{}", line.trim_end());
        }
        if i == 0 {
            let rule: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
            let _ = writeln!(out, "{}", rule.join("  "));
        }
    }
}
