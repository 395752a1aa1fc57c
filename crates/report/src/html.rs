//! A report as one HTML page: style and pictures are embedded, nothing is loaded, light and dark.

use super::document::{Block, Document, Inline, Phrase, Status, Tone};
use super::plot::HATCH;
use super::text::width;
use super::{escape, legend, message};
use std::fmt::Write;
use warpproof_evidence::hash::Hash;
use warpproof_evidence::record::Verdict;

/// The style of a report in HTML.
pub const STYLE: &str = include_str!("report.css");
/// Maximum number of records that the tooltip of a number names.
const MAX_NAMED: usize = 4;
/// Numbers of a table with at most this many characters stay on one line.
const MAX_UNBROKEN: usize = 14;

/// A page that loads nothing: the style of reports and `style`, around `body`.
pub fn page(title: &str, style: &str, body: &str) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" \
         content=\"width=device-width, initial-scale=1\">\n<meta http-equiv=\"Content-Security-Policy\" \
         content=\"default-src 'none'; style-src 'unsafe-inline'\">\n<meta name=\"color-scheme\" content=\"light \
         dark\">\n<title>{}</title>\n<style>\n{STYLE}{style}</style>\n</head>\n<body>\n<main>\n{body}</main>\n</body>\n</html>\n",
        escape::markup(title)
    )
}

impl Document {
    /// The report as one self-contained page.
    pub fn html(&self) -> String {
        let title: String = self.title.0.iter().map(bare).collect();
        page(&title, "", &self.html_content())
    }

    /// The body of such a page, for pages that hold more than one report; it needs [`STYLE`].
    pub fn html_content(&self) -> String {
        let mut out = String::new();
        let tone = self.gravest().map_or("quiet", tone);
        let _ = writeln!(out, "<header class=\"{tone}\">\n<h1>{}</h1>", self.phrase(&self.title));
        for (i, line) in self.headline.iter().enumerate() {
            let status = self.status.filter(|_| i == 0).map(|status| self.status_pill(status));
            let class = if i == 0 { "lead" } else { "line" };
            let _ = writeln!(
                out,
                "<p class=\"{class}\">{}{}</p>",
                status.map(|pill| pill + " ").unwrap_or_default(),
                self.phrase(line)
            );
        }
        out.push_str("</header>\n");
        if self.blocks.iter().any(|block| matches!(block, Block::Plot(_))) {
            let _ = writeln!(out, "{HATCH}");
        }
        for block in &self.blocks {
            self.block(block, &mut out);
        }
        out.push_str(&legend::html());
        self.records_html(&mut out);
        out
    }

    /// The tone of the whole report: that of the one decision, or of the worst one in the first line.
    fn gravest(&self) -> Option<Tone> {
        let named = self.headline.first().into_iter().flat_map(|line| &line.0);
        let named = named.filter_map(|inline| match inline {
            Inline::Status(status) => Some(*status),
            _ => None,
        });
        let grave = |tone: &Tone| match tone {
            Tone::Quiet => 0,
            Tone::Good => 1,
            Tone::Unsure => 2,
            Tone::Bad => 3,
        };
        self.status.into_iter().chain(named).map(Status::tone).max_by_key(grave)
    }

    fn block(&self, block: &Block, out: &mut String) {
        let _ = match block {
            Block::Heading(words) => writeln!(out, "<h2>{}</h2>", self.phrase(words)),
            Block::Subheading(words) => writeln!(out, "<h3>{}</h3>", self.phrase(words)),
            Block::Paragraph(words) => writeln!(out, "<p>{}</p>", self.phrase(words)),
            Block::Table(table) => {
                out.push_str("<div class=\"wide\"><table>\n<thead><tr>");
                for title in &table.columns {
                    let _ = write!(out, "<th>{}</th>", escape::markup(title));
                }
                out.push_str("</tr></thead>\n<tbody>\n");
                for row in &table.rows {
                    out.push_str("<tr>");
                    for cell in row {
                        let class = match cell.0.as_slice() {
                            [Inline::Number(number)] if width(&number.shown()) <= MAX_UNBROKEN => {
                                " class=\"num\""
                            }
                            // An empty cell must not stand out.
                            [Inline::Words(words)] if words == "–" || words.starts_with("not ") => {
                                " class=\"none\""
                            }
                            _ => "",
                        };
                        let _ = write!(out, "<td{class}>{}</td>", self.phrase(cell));
                    }
                    out.push_str("</tr>\n");
                }
                writeln!(out, "</tbody></table></div>")
            }
            Block::Checklist(items) => {
                out.push_str("<ul class=\"checklist\">\n");
                for item in items {
                    let pill = self.status_pill(item.status);
                    let _ = writeln!(out, "<li>{pill}<span>{}</span></li>", self.phrase(&item.what));
                }
                writeln!(out, "</ul>")
            }
            Block::Plot(plot) => writeln!(
                out,
                "<figure>\n<figcaption>{}</figcaption>\n{}</figure>",
                self.phrase(&plot.title),
                plot.svg()
            ),
            Block::Counterexample(shown) => writeln!(out, "{}", shown.html()),
            Block::Draft(lines) => {
                writeln!(out, "<pre class=\"draft\">{}</pre>", escape::markup(&message::draft(lines)))
            }
        };
    }

    fn records_html(&self, out: &mut String) {
        if self.records.is_empty() {
            return;
        }
        out.push_str("<details><summary>Records: where every number comes from</summary>\n<dl>\n");
        for (hash, what) in &self.records {
            let short = hash.short();
            let what = escape::markup(what);
            let _ = writeln!(out, "<dt id=\"r-{short}\" title=\"{hash}\">{short}</dt><dd>{what}</dd>");
        }
        out.push_str("</dl>\n</details>\n");
    }

    fn phrase(&self, phrase: &Phrase) -> String {
        phrase.0.iter().map(|inline| self.piece(inline)).collect()
    }

    fn piece(&self, inline: &Inline) -> String {
        match inline {
            Inline::Words(words) => escape::markup(words),
            Inline::Quote { text, record } => {
                format!("<q title=\"{}\">{}</q>", self.about(&[*record]), escape::markup(text))
            }
            Inline::Name { text, record } => {
                format!("<b title=\"{}\">{}</b>", self.about(&[*record]), escape::markup(text))
            }
            Inline::Status(status) => self.status_pill(*status),
            Inline::Number(number) => {
                let records = number.source.records();
                let anchor = records.first().map(Hash::short).unwrap_or_default();
                let kind = number.kind_word();
                let word = kind.map(|kind| format!(" <small>{kind}</small>")).unwrap_or_default();
                format!(
                    "<a class=\"n {}\" href=\"#r-{anchor}\" title=\"{}\">{}{word}</a>",
                    kind.unwrap_or("agreed"),
                    self.about(&records),
                    escape::markup(&number.shown())
                )
            }
        }
    }

    fn status_pill(&self, status: Status) -> String {
        let about = status.record().map(|hash| format!(" title=\"{}\"", self.about(&[hash])));
        format!(
            "<span class=\"pill {}\"{}>{} {}</span>",
            tone(status.tone()),
            about.unwrap_or_default(),
            status.mark(),
            status.word()
        )
    }

    /// Describes the records, for a tooltip.
    fn about(&self, records: &[Hash]) -> String {
        let mut out = String::new();
        for hash in records.iter().take(MAX_NAMED) {
            let what = self.records.get(hash).map(|what| escape::markup(what)).unwrap_or_default();
            let _ = write!(out, "{}{} {what}", if out.is_empty() { "" } else { "; " }, hash.short());
        }
        if records.len() > MAX_NAMED {
            let _ = write!(out, "; and {} more", records.len() - MAX_NAMED);
        }
        out
    }
}

fn bare(inline: &Inline) -> String {
    match inline {
        Inline::Words(text) | Inline::Quote { text, .. } | Inline::Name { text, .. } => text.clone(),
        Inline::Number(number) => number.shown(),
        Inline::Status(status) => status.word(),
    }
}

/// The class of [`STYLE`] that a verdict is shown in.
pub fn verdict_class(verdict: Verdict) -> &'static str {
    tone(Tone::of(verdict))
}

fn tone(tone: Tone) -> &'static str {
    match tone {
        Tone::Good => "good",
        Tone::Bad => "bad",
        Tone::Unsure => "unsure",
        Tone::Quiet => "quiet",
    }
}
