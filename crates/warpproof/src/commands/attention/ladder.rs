//! `warpproof attention ladder`: predicts the attention ladder and Triton's flash attention at one shape in one table.

use std::fs;
use std::path::PathBuf;

use clap::Args;
use warpproof_evidence::ledger::{Ledger as Book, LedgerError};
use warpproof_kernels::ladder::{self as kernels, LADDER, Rung};
use warpproof_kernels::problem::Shape;
use warpproof_ladder::{LeftOut, RowOutcome, ladder};
use warpproof_model::Device;
use warpproof_report::{Evidence, rungs};
use warpproof_toolchain::{Part, Toolchain};

use crate::commands::evidence::of_ledger;
use crate::commands::flags::{JsonFlag, ToolchainFlags, missing, model_device};
use crate::report::{Kind, Outcome, Report};
use crate::terminal::Terminal;

/// Predict the rungs of the attention ladder, and Triton's kernels, in one table
///
/// Compiles, runs and counts every kernel on the software GPU, and predicts its time like
/// `warpproof explain`: the bound, the schedule with a cold and a warm L2 cache, and the
/// bottleneck. Triton's flash attention for f16 and e4m3 is included as PTX.
///
/// Exit codes: 0 at least one kernel was predicted · 2 wrong usage · 3 no kernel supports the shape
/// on this device · 4 no kernel was predicted, and a limit was reached.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Ladder {
    /// Predict for this device
    #[arg(long, value_name = "NAME", default_value = "l4", value_parser = model_device)]
    device: &'static Device,
    /// Set batch, heads, sequence length and head dimension
    #[arg(long, value_name = "B,H,S,D", default_value = "2,8,256,64", value_parser = shape)]
    shape: Shape,
    /// Predict only these rungs, such as n4,n7,n8, without Triton's kernels
    #[arg(long, value_name = "RUNG,…", value_delimiter = ',', value_parser = rung)]
    rungs: Option<Vec<&'static Rung>>,
    /// Write the table to this ledger, as a run without verdicts
    #[arg(long, value_name = "DIR")]
    ledger: Option<PathBuf>,
    /// Draw a chart from the ledger: predicted time per rung, bounds as lines
    #[arg(long, value_name = "FILE.svg", requires = "ledger")]
    svg: Option<PathBuf>,
    #[command(flatten)]
    toolchain: ToolchainFlags,
    #[command(flatten)]
    json: JsonFlag,
}

fn shape(text: &str) -> Result<Shape, String> {
    let numbers: Result<Vec<usize>, _> = text.split(',').map(|part| part.trim().parse()).collect();
    let Ok([batch, heads, rows, dim]) = numbers.as_deref() else {
        return Err(
            "expected batch, heads, sequence length and head dimension, such as 2,8,256,64".to_owned()
        );
    };
    // A batch is a list of sequences.
    if *batch > 1 << 20 {
        return Err("expected at most 2^20 sequences".to_owned());
    }
    let shape = Shape::equal(*batch, *heads, *rows, *dim);
    shape.check().map_err(|error| error.to_string())?;
    Ok(shape)
}

fn rung(text: &str) -> Result<&'static Rung, String> {
    kernels::rung(text.trim()).ok_or_else(|| {
        let known: Vec<&str> = LADDER.iter().map(|rung| rung.id).collect();
        format!("unknown rung `{text}`; expected one of {}", known.join(", "))
    })
}

impl Ladder {
    pub(crate) fn run(&self, terminal: &mut Terminal) -> Outcome {
        let toolchain = Toolchain::partial(&self.toolchain.options());
        if let Err(error) = toolchain.require(&[Part::Nvrtc, Part::Ptxas]) {
            terminal.report(&missing(&error));
            return Outcome::Stopped(Kind::Missing);
        }
        let progress = terminal.progress();
        let wanted = |rung: &Rung| match &self.rungs {
            Some(rungs) => rungs.iter().any(|one| one.id == rung.id),
            None => true,
        };
        let table = ladder(&self.shape, self.device, &toolchain, wanted, self.rungs.is_none(), |name| {
            progress.set_message(name.to_owned());
        });
        progress.finish_and_clear();
        if let Err(report) = self.keep(&table) {
            let kind = report.kind;
            terminal.report(&report);
            return Outcome::Stopped(kind);
        }
        if self.json.wanted {
            match serde_json::to_value(&table) {
                Ok(value) => terminal.json(&value),
                Err(error) => {
                    terminal.report(&Report::error(
                        Kind::Bug,
                        format!("cannot write the table as JSON: {error}"),
                    ));
                    return Outcome::Stopped(Kind::Bug);
                }
            }
        } else {
            terminal.print(warpproof_ladder::text(&table));
        }
        // An empty table is an error.
        let left_out: Vec<&LeftOut> = table
            .rows
            .iter()
            .filter_map(|row| match &row.outcome {
                RowOutcome::LeftOut(why) => Some(why),
                RowOutcome::Explained(_) => None,
            })
            .collect();
        if left_out.len() < table.rows.len() {
            return Outcome::Green;
        }
        let kind = if left_out.iter().any(|why| why.limit) { Kind::Limit } else { Kind::Unsupported };
        terminal.report(&Report::error(kind, "no kernel could be predicted"));
        Outcome::Stopped(kind)
    }
}

impl Ladder {
    /// Records the table and draws the chart, if requested.
    fn keep(&self, table: &warpproof_ladder::Ladder) -> Result<(), Box<Report>> {
        let Some(path) = &self.ledger else { return Ok(()) };
        let failed = |error: &LedgerError| Box::new(of_ledger(error));
        let ledger = Book::create(path).map_err(|error| failed(&error))?;
        let arguments = std::env::args().skip(1).collect();
        let run = warpproof_ladder::record(table, &self.shape, self.device, &ledger, arguments)
            .map_err(|error| failed(&error))?;
        let Some(file) = &self.svg else { return Ok(()) };
        let evidence = Evidence::read_run(&ledger, &run, None).map_err(|error| failed(&error))?;
        let picture = rungs(&evidence, &run)
            .map_err(|error| Box::new(Report::error(Kind::Bug, format!("cannot draw the chart: {error}"))))?;
        fs::write(file, picture).map_err(|error| {
            Box::new(Report::error(Kind::Missing, format!("cannot write {}: {error}", file.display())))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rungs_are_found_by_id_and_name() {
        assert_eq!(rung("n4").map(|rung| rung.name), Ok("n4-mma-fp8"));
        assert_eq!(rung(" n4-mma-fp8").map(|rung| rung.id), Ok("n4"));
        assert!(rung("n99").is_err_and(|error| error.contains("expected one of h0, h1")));
    }

    #[test]
    fn shapes_are_read() {
        assert_eq!(shape("2,8,256,64"), Ok(Shape::equal(2, 8, 256, 64)));
        assert_eq!(shape(" 1, 1,16,64"), Ok(Shape::equal(1, 1, 16, 64)));
        for wrong in
            ["", "1,2,3", "1,2,3,4,5", "0,1,1,1", "1,1,x,1", "99999999999,1,1,1", "1,1,4294967296,64"]
        {
            assert!(shape(wrong).is_err(), "{wrong}");
        }
    }
}
