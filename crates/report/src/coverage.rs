//! How much of each candidate its cases reached.

use super::document::{Block, Phrase, Table};
use super::error::ViewError;
use super::evidence::{Evidence, Judged};
use warpproof_evidence::record::Stage;
use warpproof_evidence::vocabulary::{BRANCH_COVERAGE, LINE_COVERAGE};

/// A table of coverage; `None` if no record has any.
pub(super) fn coverage(evidence: &Evidence, all: &[Judged]) -> Result<Vec<Block>, ViewError> {
    let mut table = Table::new(&["candidate", "coverage", "reached", "not reached"]);
    for one in all {
        for found in one.figures(evidence, Stage::Correct)? {
            if ![LINE_COVERAGE, BRANCH_COVERAGE].contains(&found.figure.name.as_str()) {
                continue;
            }
            let at = found.figure.at.as_deref().filter(|at| *at != "all");
            let gaps = at.map_or("–".into(), |at| Phrase::new().quote(at, found.record));
            let number = evidence.number(found.source())?;
            let candidate = Phrase::new().name(one.candidate, found.record);
            let what = Phrase::new().name(&found.figure.name, found.record);
            table.rows.push(vec![candidate, what, number.into(), gaps]);
        }
    }
    if table.rows.is_empty() {
        return Ok(Vec::new());
    }
    Ok(vec![Block::Heading("Coverage".into()), Block::Table(table)])
}
