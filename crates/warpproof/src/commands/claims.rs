//! `warpproof claims`: compares the numbers in a text with the ledger.

use std::fs;
use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use warpproof_report::Evidence;
use warpproof_report::claims::{self, Fault, Options, Problem};

use super::evidence::of_ledger;
use super::flags::{JsonFlag, LedgerFlags, ended};
use crate::report::{Kind, Outcome, Place, Report};
use crate::terminal::Terminal;

/// Check the numbers in documents against the ledger
///
/// Every number with a unit must match a figure of a record, to the precision written. The
/// sentence of a percentage must contain part of the figure's name. A percentage or a factor
/// may also be the ratio of two figures in the same paragraph. Predicted numbers must be
/// labeled as predicted; speed must be measured. Code, URLs and comments are skipped.
///
///   <!-- claims: ignore REASON -->    skips its line; alone on a line, skips the next line
///
/// Exit codes: 0 every number matches · 1 a number does not match · 2 no ledger, or unreadable file.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Claims {
    /// Markdown or other text files
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    #[command(flatten)]
    ledger: LedgerFlags,
    /// Check numbers in code too
    #[arg(long)]
    code: bool,
    #[command(flatten)]
    json: JsonFlag,
}

impl Claims {
    pub(crate) fn run(&self, terminal: &mut Terminal) -> Outcome {
        let checked = self.check(terminal);
        ended(checked, terminal)
    }

    fn check(&self, terminal: &mut Terminal) -> Result<Outcome, Box<Report>> {
        let ledger = self.ledger.open()?;
        let evidence = Evidence::read(&ledger).map_err(|error| Box::new(of_ledger(&error)))?;
        let known = claims::Claims::new(&evidence);
        let mut found = Vec::new();
        for file in &self.files {
            let name = file.display().to_string();
            let text = fs::read_to_string(file).map_err(|error| {
                Box::new(Report::error(Kind::Missing, format!("cannot read {name}: {error}")))
            })?;
            for problem in known.check(&name, &text, Options { code: self.code }) {
                let report = shown(&problem, &text);
                found.push((problem, report));
            }
        }
        if self.json.wanted {
            let problems: Vec<_> = found
                .iter()
                .map(|(problem, _)| {
                    let Problem { file, line, column, text, .. } = problem;
                    json!({ "file": file, "line": line, "column": column, "text": text, "fault": problem.sentence() })
                })
                .collect();
            terminal.json(
                &json!({ "schema": "warpproof.claims/1", "ok": found.is_empty(), "problems": problems }),
            );
        } else {
            for (_, report) in &found {
                terminal.report(report);
            }
            let files = match self.files.len() {
                1 => "1 file".to_owned(),
                n => format!("{n} files"),
            };
            terminal.say(match found.len() {
                0 => format!("every number in {files} matches the ledger"),
                1 => format!("1 number in {files} does not match the ledger"),
                n => format!("{n} numbers in {files} do not match the ledger"),
            });
        }
        Ok(if found.is_empty() { Outcome::Green } else { Outcome::Stopped(Kind::Evidence) })
    }
}

fn shown(problem: &Problem, text: &str) -> Report {
    let line = text.lines().nth(problem.line.saturating_sub(1)).unwrap_or_default();
    // Claims count in characters, places in bytes.
    let skipped = line.chars().take(problem.column.saturating_sub(1)).map(char::len_utf8).sum::<usize>();
    let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    let mut place = Place::new(problem.file.as_str(), number(problem.line)).text(Some(line.to_owned()));
    if !problem.text.is_empty() {
        place = place.column(Some(number(skipped + 1)));
        place.length = Some(number(problem.text.len()));
    }
    let help = match problem.fault {
        Fault::Unresolved { .. } => {
            "write a figure of a record, or run the gate to record one; `warpproof export` lists all figures"
        }
        Fault::Predicted(_) => "label it as predicted",
        Fault::Unmeasured(_) => "measure it on a GPU, or label it as predicted or as a limit",
        Fault::NoReason => "write the reason after `claims: ignore`",
    };
    Report::error(Kind::Evidence, problem.sentence()).at(Some(place)).help(help)
}
