//! `warpproof claims`: the numbers of a text, held against the ledger.

use std::fs;
use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use warpproof_gate::view::Evidence;
use warpproof_gate::view::claims::{self, Fault, Options, Problem};

use super::evidence::of_ledger;
use super::flags::{JsonFlag, LedgerFlags, ended};
use crate::report::{Kind, Outcome, Place, Report};
use crate::terminal::Terminal;

/// Check the numbers in documents against the ledger
///
/// Every number with a unit must be one that a record holds, within the precision that is written.
/// A percentage needs a word of the figure's name in its sentence. A percentage or a factor may also
/// be made of two figures of the same paragraph. What is only predicted must be said to be, and what
/// is said of speed must be measured. Code, addresses and comments are passed over.
///
///   <!-- claims: ignore REASON -->    passes over its line, or alone on a line, the next one
///
/// Exit codes: 0 every number stands · 1 one does not · 2 no ledger, or a file cannot be read.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Claims {
    /// Markdown or other text
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
                0 => format!("every number of {files} stands in the ledger"),
                1 => format!("1 number of {files} does not stand"),
                n => format!("{n} numbers of {files} do not stand"),
            });
        }
        Ok(if found.is_empty() { Outcome::Green } else { Outcome::Stopped(Kind::Evidence) })
    }
}

fn shown(problem: &Problem, text: &str) -> Report {
    let line = text.lines().nth(problem.line.saturating_sub(1)).unwrap_or_default();
    // A claim counts characters, a place bytes.
    let skipped = line.chars().take(problem.column.saturating_sub(1)).map(char::len_utf8).sum::<usize>();
    let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    let mut place = Place::new(problem.file.as_str(), number(problem.line)).text(Some(line.to_owned()));
    if !problem.text.is_empty() {
        place = place.column(Some(number(skipped + 1)));
        place.length = Some(number(problem.text.len()));
    }
    let help = match problem.fault {
        Fault::Unresolved { .. } => {
            "write what a record holds, or run the gate so that one holds it; `warpproof export` lists all figures"
        }
        Fault::Predicted(_) => "say that it is predicted",
        Fault::Unmeasured(_) => "measure it on a GPU, or say that it is predicted or a limit",
        Fault::NoReason => "write the reason after `claims: ignore`",
    };
    Report::error(Kind::Evidence, problem.sentence()).at(Some(place)).help(help)
}
