//! `warpproof export`: exports the figures of a ledger as a table.

use clap::Args;
use serde_json::{Value, json};
use warpproof_evidence::ledger::{self, FigureRow, Filter, LedgerError};

use super::evidence::of_ledger;
use super::flags::{JsonFlag, LedgerFlags, OutputFlags, ended};
use crate::report::{Outcome, Report};
use crate::terminal::Terminal;

/// Export the figures of a ledger as a table, CSV or JSON
///
/// Each row is one figure of one step: run, candidate, stage, name, value, unit, kind (counted,
/// predicted or measured), case, threshold with its source, and record. Oldest first. Values
/// round-trip exactly.
#[derive(Debug, Args)]
pub(crate) struct Export {
    #[command(flatten)]
    ledger: LedgerFlags,
    /// Write CSV (RFC 4180), which pandas, polars, DuckDB and R read [default]
    #[arg(long, conflicts_with = "json")]
    csv: bool,
    #[command(flatten)]
    json: JsonFlag,
    /// Export only figures of this candidate
    #[arg(long, value_name = "NAME")]
    candidate: Option<String>,
    /// Export only figures of this run
    #[arg(long, value_name = "NAME")]
    run: Option<String>,
    #[command(flatten)]
    output: OutputFlags,
}

impl Export {
    pub(crate) fn run(&self, terminal: &mut Terminal) -> Outcome {
        let exported = self.export(terminal);
        ended(exported, terminal)
    }

    fn export(&self, terminal: &mut Terminal) -> Result<Outcome, Box<Report>> {
        let ledger = self.ledger.open()?;
        let filter = Filter { run: self.run.clone(), candidate: self.candidate.clone(), ..Filter::default() };
        let wrong = |error: LedgerError| Box::new(of_ledger(&error));
        let rows = if self.json.wanted {
            let rows: Result<Vec<_>, _> = ledger::figures(&ledger, &filter).map_err(wrong)?.collect();
            let rows: Vec<_> = rows.map_err(wrong)?.iter().map(row).collect();
            let document = json!({ "schema": "warpproof.figures/1", "figures": rows });
            self.output.put(format!("{document:#}\n").as_bytes())?;
            u64::try_from(rows.len()).unwrap_or(u64::MAX)
        } else {
            self.output.write(|out| ledger::export_csv(&ledger, &filter, out).map_err(wrong))?
        };
        if let Some(file) = self.output.file() {
            terminal.say(format_args!("{rows} figures in {}", file.display()));
        }
        Ok(Outcome::Green)
    }
}

/// A figure with its step.
fn row(row: &FigureRow) -> Value {
    json!({
        "run": row.run,
        "candidate": row.candidate,
        "stage": row.stage,
        "figure": row.figure,
        "record": row.record,
    })
}
