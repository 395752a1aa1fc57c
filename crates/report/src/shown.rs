//! Renders the counterexample of a step in every format: which elements are wrong and where, the findings of the
//! checks, and the command that runs the case again.

use std::fmt::Write;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::error::ViewError;
use super::escape;
use super::evidence::{Evidence, Judged};
use warpproof_evidence::counterexample::{Counterexample, Excerpt, Finding, Mismatch};
use warpproof_evidence::hash::Hash;
use warpproof_evidence::record::{Body, RunRecord};

/// The side of a cell of the map, in units of the picture.
const CELL: usize = 14;

/// A counterexample and its step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shown {
    /// The record of the step.
    pub record: Hash,
    /// The counterexample, as recorded.
    pub counterexample: Counterexample,
    /// The command that runs only this case.
    pub command: String,
}

impl Shown {
    /// The counterexample of the first step that has one.
    pub(super) fn of(judged: &Judged<'_>) -> Option<Self> {
        let mut steps = judged.steps.iter();
        steps.find_map(|(hash, step)| {
            let counterexample = Counterexample::clone(step.counterexample.as_deref()?);
            let command = counterexample.command(&task_file(judged.run), &step.candidate);
            Some(Self { record: *hash, counterexample, command })
        })
    }

    /// Whether the record contains the same counterexample.
    pub(super) fn stands(&self, evidence: &Evidence) -> Result<bool, ViewError> {
        let Body::Step(step) = evidence.body(&self.record)? else { return Ok(false) };
        let (_, run) = evidence.run(&step.run)?;
        Ok(step.counterexample.as_deref() == Some(&self.counterexample)
            && self.command == self.counterexample.command(&task_file(run), &step.candidate))
    }

    /// For a terminal.
    pub(super) fn text(&self) -> String {
        escape::lines(&text(&self.counterexample, &self.command))
    }

    /// For a page.
    pub(super) fn html(&self) -> String {
        let mut out = String::from("<section class=\"shown\">\n");
        if let Some(mismatch) = &self.counterexample.mismatch {
            out.push_str(&elements(mismatch));
        }
        for finding in &self.counterexample.findings {
            out.push_str(&finding_html(finding));
        }
        // Writing to a string does not fail.
        let _ = writeln!(
            out,
            "<p class=\"again\">Reproduce with <code>{}</code></p>\n</section>",
            escape::markup(&self.command)
        );
        out
    }
}

/// A counterexample and the command that runs it again, as lines.
pub fn text(counterexample: &Counterexample, command: &str) -> String {
    let mut text = String::new();
    if let Some(mismatch) = &counterexample.mismatch {
        text.push_str(&mismatch.text());
    }
    for Finding { class, sentence, places } in &counterexample.findings {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{class}: {sentence}");
        for place in places {
            let _ = writeln!(text, "  {}: {}", place.place, about(place));
            if !place.line.is_empty() {
                let _ = writeln!(text, "    | {}", place.line);
            }
        }
    }
    let _ = writeln!(text, "reproduce: {command}");
    text
}

/// What happens at a place, and which thread does it.
fn about(place: &Excerpt) -> String {
    if place.thread.is_empty() { place.label.clone() } else { format!("{}, {}", place.label, place.thread) }
}

/// The task file that a run was started with, from its command line.
fn task_file(run: &RunRecord) -> String {
    let toml = |argument: &&String| Path::new(argument).extension() == Some("toml".as_ref());
    run.arguments.iter().find(toml).cloned().unwrap_or_else(|| "TASK.toml".to_owned())
}

fn elements(mismatch: &Mismatch) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "<p>{}</p>", escape::markup(&mismatch.pattern));
    out.push_str("<div class=\"wide\"><table class=\"elements\">\n<thead><tr>");
    for title in ["element", "index", "got", "expected", "limit"] {
        let _ = write!(out, "<th>{title}</th>");
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    let mut rows: Vec<(&str, &warpproof_evidence::counterexample::Element)> = Vec::new();
    match (&mismatch.first, &mismatch.worst) {
        (Some(first), Some(worst)) if first == worst => rows.push(("first and worst", first)),
        (first, worst) => {
            rows.extend(first.as_ref().map(|one| ("first", one)));
            rows.extend(worst.as_ref().map(|one| ("worst", one)));
        }
    }
    for (which, element) in rows {
        let index: Vec<String> = element.index.iter().map(ToString::to_string).collect();
        let place = format!("{}[{}]", mismatch.output, index.join(", "));
        let _ = write!(out, "<tr><td>{which}</td><td class=\"num\">{}</td>", escape::markup(&place));
        for value in [&element.got, &element.expected, &element.limit] {
            let _ = write!(out, "<td class=\"num\">{}</td>", escape::markup(value));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>\n");
    if mismatch.has_map() {
        out.push_str(&picture(mismatch));
    }
    out
}

/// The map as a picture.
fn picture(mismatch: &Mismatch) -> String {
    let columns = mismatch.map.iter().map(|row| row.chars().count()).max().unwrap_or(0);
    let (wide, high) = (columns * CELL, mismatch.map.len() * CELL);
    let mut out = format!(
        "<figure class=\"map\">\n<figcaption>{}: correct <i class=\"right\"></i>, some wrong <i class=\"some\"></i>, all wrong \
         <i class=\"wrong\"></i></figcaption>\n<svg viewBox=\"0 0 {wide} {high}\" width=\"{wide}\" height=\"{high}\" role=\"img\" \
         aria-label=\"{}\">\n",
        escape::markup(&mismatch.caption()),
        escape::markup(&mismatch.pattern)
    );
    for (y, row) in mismatch.map.iter().enumerate() {
        for (x, sign) in row.chars().enumerate() {
            let class = match sign {
                '.' => "right",
                '+' => "some",
                '#' => "wrong",
                _ => continue,
            };
            let side = CELL - 1;
            let _ = write!(
                out,
                "<rect class=\"{class}\" x=\"{}\" y=\"{}\" width=\"{side}\" height=\"{side}\"/>",
                x * CELL,
                y * CELL
            );
        }
        out.push('\n');
    }
    out.push_str("</svg>\n</figure>\n");
    out
}

fn finding_html(finding: &Finding) -> String {
    let mut out = format!(
        "<figure class=\"finding\">\n<figcaption>{}: {}</figcaption>\n",
        escape::markup(&finding.class),
        escape::markup(&finding.sentence)
    );
    for place in &finding.places {
        let _ = writeln!(
            out,
            "<p class=\"place\"><b>{}</b> {}</p>",
            escape::markup(&place.place),
            escape::markup(&about(place))
        );
        if !place.line.is_empty() {
            let _ = writeln!(out, "<pre><code>{}</code></pre>", escape::markup(&place.line));
        }
    }
    out.push_str("</figure>\n");
    out
}
