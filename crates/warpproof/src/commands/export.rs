//! `warpproof export`: the figures of a ledger as a table.

use clap::Args;
use warpproof_gate::ledger::{self, Filter};

use super::evidence::of_ledger;
use super::flags::{LedgerFlags, OutputFlags, ended};
use crate::report::{Outcome, Report};
use crate::terminal::Terminal;

/// Write the figures of a ledger as a table for notebooks
///
/// A row is one figure of one step: run, candidate, stage, name, value, unit, kind (counted,
/// predicted or measured), case, threshold with its source, and the record that holds it. Oldest
/// first. Values read back to the same bits.
#[derive(Debug, Args)]
pub(crate) struct Export {
    #[command(flatten)]
    ledger: LedgerFlags,
    /// As CSV (RFC 4180), which pandas, polars, DuckDB and R read; the default and only form
    #[arg(long)]
    csv: bool,
    /// Figures about this candidate only
    #[arg(long, value_name = "NAME")]
    candidate: Option<String>,
    /// Figures of this run only
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
        let rows = self.output.write(|out| {
            ledger::export_csv(&ledger, &filter, out).map_err(|error| Box::new(of_ledger(&error)))
        })?;
        if let Some(file) = self.output.file() {
            terminal.say(format_args!("{rows} figures in {}", file.display()));
        }
        Ok(Outcome::Green)
    }
}
