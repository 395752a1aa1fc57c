//! Tables for notebooks.

use super::view::Filter;
use super::{Ledger, LedgerError};
use crate::hash::Hash;
use crate::record::{Body, Figure, Stage};
use std::io::Write;

/// One figure with its origin: a row of the table.
#[derive(Clone, Debug, PartialEq)]
pub struct FigureRow {
    /// The run.
    pub run: String,
    /// The candidate.
    pub candidate: String,
    /// The stage.
    pub stage: Stage,
    /// The figure.
    pub figure: Figure,
    /// The record that holds it.
    pub record: Hash,
}

/// The figures of all matching steps, oldest first. The filter's limit does not apply.
pub fn figures<'a>(
    ledger: &'a Ledger,
    filter: &'a Filter,
) -> Result<impl Iterator<Item = Result<FigureRow, LedgerError>> + 'a, LedgerError> {
    let rows = ledger.records()?.flat_map(move |record| {
        let record = match record {
            Ok(record) => record,
            Err(error) => return vec![Err(error)],
        };
        let wanted = filter.wants(&record);
        let hash = record.hash;
        match record.body {
            Body::Step(step) if wanted => {
                let (run, candidate, stage) = (step.run, step.candidate, step.stage);
                let row = |figure| FigureRow {
                    run: run.clone(),
                    candidate: candidate.clone(),
                    stage,
                    figure,
                    record: hash,
                };
                step.figures.into_iter().map(|figure| Ok(row(figure))).collect()
            }
            _ => Vec::new(),
        }
    });
    Ok(rows)
}

/// Writes the figures of all matching steps as CSV (RFC 4180), and returns the number of rows. Numbers are written so
/// that they parse back to the same bits. A figure without threshold or case has empty fields there.
pub fn export_csv(ledger: &Ledger, filter: &Filter, mut out: impl Write) -> Result<u64, LedgerError> {
    let failed = |error: std::io::Error| LedgerError::Export(error.to_string());
    let header = [
        "run",
        "candidate",
        "stage",
        "figure",
        "value",
        "unit",
        "kind",
        "at",
        "threshold_op",
        "threshold",
        "threshold_source",
        "record",
    ];
    out.write_all(record_of(&header).as_bytes()).map_err(failed)?;
    let mut rows = 0;
    for row in figures(ledger, filter)? {
        let FigureRow { run, candidate, stage, figure, record } = row?;
        let threshold = figure.threshold.as_ref();
        let fields = [
            &*run,
            &*candidate,
            stage.as_str(),
            &*figure.name,
            &*figure.value.to_string(),
            &*figure.unit,
            figure.kind.as_str(),
            figure.at.as_deref().unwrap_or_default(),
            threshold.map_or("", |threshold| threshold.op.as_str()),
            &*threshold.map_or_else(String::new, |threshold| threshold.value.to_string()),
            threshold.map_or("", |threshold| &*threshold.source),
            &*record.to_string(),
        ];
        out.write_all(record_of(&fields).as_bytes()).map_err(failed)?;
        rows += 1;
    }
    out.flush().map_err(failed)?;
    Ok(rows)
}

/// A record of RFC 4180. A library for one line of quoting would be one more package to install.
fn record_of(fields: &[&str]) -> String {
    let quoted = |field: &&str| {
        if field.contains([',', '"', '\r', '\n']) {
            format!("\"{}\"", field.replace('"', "\"\""))
        } else {
            (*field).to_owned()
        }
    };
    let mut record = fields.iter().map(quoted).collect::<Vec<_>>().join(",");
    record.push_str("\r\n");
    record
}
