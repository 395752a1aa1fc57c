//! Texts for git and for code hosts.

use super::document::{Inline, Phrase};
use super::error::ViewError;
use super::evidence::{Evidence, Judged};
use super::summary;
use super::{escape, markdown, text, validation};
use std::fmt::Write;
use warpproof_evidence::record::{Outcome, Stage, Verdict};
use warpproof_evidence::vocabulary as name;

/// The first line of a comment, by which a later run finds the comment to replace.
pub const COMMENT_MARK: &str = "<!-- warpproof gate -->";
/// Code hosts refuse comments longer than 65,536 characters.
const MAX_COMMENT: usize = 60_000;
const SUBJECT: usize = 72;

/// The message of the commit that merges a candidate: effect, change, gates, and the records as trailers. Requires
/// the verdict MERGE.
pub fn merge_message(evidence: &Evidence, run: &str, candidate: &str) -> Result<String, ViewError> {
    let one = evidence.judged(run, candidate)?;
    let Some((hash, verdict)) = one.verdict else {
        return Err(ViewError::NoCandidate(candidate.to_owned(), Some(run.to_owned())));
    };
    let Some(grade) = verdict.grade.filter(|_| verdict.verdict == Verdict::Merge) else {
        return Err(ViewError::NotMerged(candidate.to_owned(), verdict.verdict));
    };
    let mut out = String::new();
    let reduction = one.figure(evidence, Stage::Speed, name::REDUCTION)?;
    let gain = match reduction {
        Some(found) => format!(": {}", escape::plain(&evidence.number(found.source())?.shown())),
        None => String::new(),
    };
    let task = escape::plain(&one.run.task).into_owned();
    let room = SUBJECT.saturating_sub(text::width(&gain) + text::width(&task) + 3);
    let who: String = escape::plain(candidate).chars().take(room.max(8)).collect();
    let _ = writeln!(out, "[{task}] {who}{gain}\n");
    for topic in [name::CHANGE, name::HYPOTHESIS] {
        if let Some((_, note)) = evidence.notes(candidate, topic).last() {
            paragraph(&mut out, &format!("{}: {}", capital(topic), escape::plain(&note.text)));
        }
    }
    paragraph(&mut out, &format!("Result: {}.", plain(&summary::effect(evidence, &one)?)));
    paragraph(&mut out, &format!("Decision: {}", escape::plain(&verdict.reason)));
    paragraph(&mut out, &format!("Gates: {}.", gates(&one)));
    let _ = writeln!(out, "Warpproof-Run: {}", escape::plain(&one.run.run));
    let _ = writeln!(out, "Warpproof-Verdict: MERGE ({grade}) {hash}");
    if let Some(found) = reduction {
        let _ = writeln!(out, "Warpproof-Speed: {}", found.record);
    }
    Ok(out)
}

fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

fn gates(one: &Judged) -> String {
    let ends = Stage::ALL.iter().filter_map(|stage| one.stage(*stage));
    let words: Vec<String> = ends
        .map(|(_, step)| match step.outcome {
            Outcome::Skipped => format!("{} SKIPPED ({})", step.stage, escape::plain(&step.reason)),
            outcome => format!("{} {outcome}", step.stage),
        })
        .collect();
    words.join(", ")
}

fn plain(phrase: &Phrase) -> String {
    let piece = |inline: &Inline| match inline {
        Inline::Words(text) | Inline::Quote { text, .. } | Inline::Name { text, .. } => {
            escape::plain(text).into_owned()
        }
        Inline::Status(status) => status.word(),
        Inline::Number(number) => {
            let shown = escape::plain(&number.shown()).into_owned();
            // Counts of records and limits are stated without their records.
            number
                .kind_word()
                .map_or_else(|| shown.clone(), |kind| format!("{shown} {kind} ({})", short_list(number)))
        }
    };
    phrase.0.iter().map(piece).collect()
}

/// Paragraphs as plain text, wrapped as in a commit message. Numbers are followed by their kind and record.
pub(super) fn draft(lines: &[Phrase]) -> String {
    let mut out = String::new();
    for line in lines {
        paragraph(&mut out, &plain(line));
    }
    format!("{}\n", out.trim_end())
}

fn short_list(number: &super::Number) -> String {
    number.source.records().iter().map(warpproof_evidence::hash::Hash::short).collect::<Vec<_>>().join(", ")
}

/// Wraps text at 72 columns. A line never begins with `#`, which git treats as a comment, or with the name of a
/// trailer.
fn paragraph(out: &mut String, words: &str) {
    let mut column = 0;
    for word in words.split_whitespace() {
        let wide = text::width(word);
        if column > 0
            && column + 1 + wide > SUBJECT
            && !word.starts_with('#')
            && !word.starts_with("Warpproof-")
        {
            out.push('\n');
            column = 0;
        } else if column > 0 {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += wide;
    }
    out.push_str("\n\n");
}

/// A comment for a pull request, in Markdown: the summary, and the full report collapsed if it fits.
pub fn pull_request_comment(evidence: &Evidence, run: &str) -> Result<String, ViewError> {
    let summary = summary::summary(evidence, run)?;
    let full = validation::validation(evidence, run)?;
    let whole = markdown::comment(&summary, Some(&full));
    if text::width(&whole) <= MAX_COMMENT {
        return Ok(format!("{COMMENT_MARK}\n{whole}"));
    }
    let brief = markdown::comment(&summary, None);
    if text::width(&brief) <= MAX_COMMENT {
        return Ok(format!("{COMMENT_MARK}\n{brief}"));
    }
    let headline = super::Document { blocks: Vec::new(), ..summary };
    let brief: String = markdown::comment(&headline, None).chars().take(MAX_COMMENT).collect();
    Ok(format!("{COMMENT_MARK}\n{brief}"))
}
