//! `warpproof log`: lists the records of a ledger, one per line.

use std::fmt::Write;

use clap::{Args, builder::PossibleValuesParser};
use serde_json::{Value, json};
use warpproof_evidence::ledger::{self, Filter, Record};

use super::evidence::of_ledger;
use super::flags::{JsonFlag, LedgerFlags, ended};
use crate::report::{Kind, Outcome, Report};
use crate::terminal::Terminal;

/// List the records of a ledger, newest first
///
/// Each line shows the first digits of the record's name, for `warpproof show`, its kind, its run
/// and its content. A record must match all flags.
#[derive(Debug, Args)]
pub(crate) struct Log {
    #[command(flatten)]
    ledger: LedgerFlags,
    /// List only records of this candidate
    #[arg(long, value_name = "NAME")]
    candidate: Option<String>,
    /// List only records of this task's runs
    #[arg(long, value_name = "NAME")]
    task: Option<String>,
    /// List only records of this run
    #[arg(long, value_name = "NAME")]
    run: Option<String>,
    /// List only records of this kind: run, step, verdict, note
    #[arg(long, value_name = "KIND", hide_possible_values = true,
          value_parser = PossibleValuesParser::new(["run", "step", "verdict", "note"]))]
    kind: Option<String>,
    /// List the newest N records [default: all]
    #[arg(short = 'n', long = "number", value_name = "N")]
    number: Option<usize>,
    #[command(flatten)]
    json: JsonFlag,
}

impl Log {
    pub(crate) fn run(&self, terminal: &mut Terminal) -> Outcome {
        let listed = self.list(terminal);
        ended(listed, terminal)
    }

    fn list(&self, terminal: &mut Terminal) -> Result<Outcome, Box<Report>> {
        let ledger = self.ledger.open()?;
        let wrong = |error| Box::new(of_ledger(&error));
        let runs = match &self.task {
            Some(task) => {
                let runs = ledger::runs_of(&ledger, task).map_err(wrong)?;
                if runs.is_empty() {
                    let sentence = format!("the ledger has no run of task `{}`", task.escape_debug());
                    let help = "`warpproof log --kind run` lists the runs with their tasks";
                    return Err(Box::new(Report::error(Kind::Usage, sentence).help(help)));
                }
                Some(runs)
            }
            None => None,
        };
        let filter = Filter {
            run: self.run.clone(),
            runs,
            candidate: self.candidate.clone(),
            kind: self.kind.clone(),
            limit: self.number,
        };
        let records = ledger::log(&ledger, &filter).map_err(wrong)?;
        if self.json.wanted {
            let records: Vec<Value> = records.iter().map(as_json).collect();
            terminal.json(&json!({ "schema": "warpproof.log/1", "records": records }));
            return Ok(Outcome::Green);
        }
        if records.is_empty() {
            terminal.say("no matching records");
        }
        let lines = records.iter().fold(String::new(), |mut lines, record| {
            // Writing to a string does not fail.
            let _ = writeln!(lines, "{record}");
            lines
        });
        terminal.print(lines);
        Ok(Outcome::Green)
    }
}

/// A record with its place. The body is the line's content, including fields unknown to this version.
pub(super) fn as_json(record: &Record) -> Value {
    let line: Option<Value> = serde_json::from_str(record.text()).ok();
    let body = line.and_then(|mut line| line.get_mut("body").map(Value::take));
    json!({ "record": record.hash, "file": record.file(), "line": record.place.line, "body": body })
}
