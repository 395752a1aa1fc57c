//! A report as Markdown for code hosts. Numbers have footnotes that name their records.

use super::document::{Block, Document, Inline, Phrase, References, Table};
use super::{escape, message};
use std::fmt::Write;

impl Document {
    /// The report as Markdown.
    pub fn markdown(&self) -> String {
        let mut out = String::new();
        let mut refs = References::default();
        self.markdown_opening(&mut out, &mut refs);
        self.markdown_blocks(&mut out, &mut refs);
        footnotes(&[self], &mut out, &refs);
        ended(&out)
    }

    fn markdown_opening(&self, out: &mut String, refs: &mut References) {
        let _ = writeln!(out, "# {}\n", title(&self.title));
        for (i, line) in self.headline.iter().enumerate() {
            let status = self.status.filter(|_| i == 0);
            let status = status.map(|status| format!("**{} {}** ", status.mark(), status.word()));
            // Two spaces end a line within a paragraph.
            let end = if i + 1 < self.headline.len() { "  " } else { "\n" };
            let _ = writeln!(out, "{}{}{end}", status.unwrap_or_default(), phrase(line, refs));
        }
    }

    fn markdown_blocks(&self, out: &mut String, refs: &mut References) {
        for block in &self.blocks {
            let _ = match block {
                Block::Heading(words) => writeln!(out, "## {}\n", title(words)),
                Block::Subheading(words) => writeln!(out, "### {}\n", title(words)),
                Block::Paragraph(words) => writeln!(out, "{}\n", phrase(words, refs)),
                Block::Table(rows) => {
                    table(rows, out, refs);
                    writeln!(out)
                }
                Block::Checklist(items) => {
                    for item in items {
                        let (mark, word) = (item.status.mark(), item.status.word());
                        let _ = writeln!(out, "- {mark} **{word}** {}", phrase(&item.what, refs));
                    }
                    writeln!(out)
                }
                Block::Plot(plot) => {
                    let _ = writeln!(out, "{}\n", phrase(&plot.title, refs));
                    writeln!(out, "{}", fenced(&plot.text()))
                }
                Block::Counterexample(shown) => writeln!(out, "{}", fenced(&shown.text())),
                Block::Draft(lines) => writeln!(out, "{}", fenced(&message::draft(lines))),
            };
        }
    }
}

/// A text in a fence that its content cannot close.
fn fenced(text: &str) -> String {
    let fence = "`".repeat(escape::longest_run(text, '`').max(2) + 1);
    format!("{fence}text\n{text}{fence}\n")
}

/// Two reports as one text with one list of records; the second is collapsed.
pub(super) fn comment(first: &Document, folded: Option<&Document>) -> String {
    let mut out = String::new();
    let mut refs = References::default();
    first.markdown_opening(&mut out, &mut refs);
    first.markdown_blocks(&mut out, &mut refs);
    let mut documents = vec![first];
    if let Some(folded) = folded {
        out.push_str("<details>\n<summary>Validation report</summary>\n\n");
        folded.markdown_blocks(&mut out, &mut refs);
        out.push_str("</details>\n\n");
        documents.push(folded);
    }
    footnotes(&documents, &mut out, &refs);
    ended(&out)
}

fn ended(text: &str) -> String {
    format!("{}\n", text.trim_end())
}

fn table(table: &Table, out: &mut String, refs: &mut References) {
    let titles: Vec<String> = table.columns.iter().map(|title| escape::markdown(title)).collect();
    let _ = writeln!(out, "| {} |", titles.join(" | "));
    let _ = writeln!(out, "|{}", "---|".repeat(titles.len()));
    for row in &table.rows {
        let cells: Vec<String> = row.iter().map(|cell| phrase(cell, refs)).collect();
        let _ = writeln!(out, "| {} |", cells.join(" | "));
    }
}

fn footnotes(documents: &[&Document], out: &mut String, refs: &References) {
    if refs.lists().next().is_none() {
        return;
    }
    let _ = writeln!(out, "## Records\n");
    for (place, list) in refs.lists() {
        let _ = write!(out, "[^{place}]: ");
        for (i, hash) in list.iter().enumerate() {
            let what = documents.iter().find_map(|document| document.records.get(hash));
            let what = what.map(|what| escape::markdown(what)).unwrap_or_default();
            let _ = write!(out, "{}`{}` {what}", if i == 0 { "" } else { "; " }, hash.short());
        }
        let _ = writeln!(out);
    }
}

/// Text without references and emphasis, for headings and titles.
fn title(phrase: &Phrase) -> String {
    phrase.0.iter().map(|inline| piece(inline, None)).collect()
}

fn phrase(phrase: &Phrase, refs: &mut References) -> String {
    phrase.0.iter().map(|inline| piece(inline, Some(&mut *refs))).collect()
}

fn piece(inline: &Inline, refs: Option<&mut References>) -> String {
    match inline {
        Inline::Words(words) => words.replace('|', "\\|"),
        Inline::Quote { text, .. } => escape::markdown(text),
        Inline::Name { text, .. } => escape::code(text),
        Inline::Status(status) => format!("{} {}", status.mark(), status.word()),
        Inline::Number(number) => {
            let kind = number.kind_word().map(|kind| format!(" {kind}")).unwrap_or_default();
            let note = refs.map(|refs| format!("[^{}]", refs.of(&number.source))).unwrap_or_default();
            format!("{}{kind}{note}", escape::markdown(&number.shown()))
        }
    }
}
