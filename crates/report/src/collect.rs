//! Collects the records that a view needs from a ledger.

use super::evidence::Evidence;
use std::collections::BTreeSet;
use warpproof_evidence::hash::Hash;
use warpproof_evidence::ledger::{Ledger, LedgerError, Record, Tasks};
use warpproof_evidence::record::Body;

/// Maximum length of a chain of records taken from other records. Views have the same limit.
const MAX_ROUNDS: usize = 64;

impl Evidence {
    /// All records of a ledger. Views over all runs need them.
    pub fn read(ledger: &Ledger) -> Result<Self, LedgerError> {
        let mut evidence = Self::default();
        let (mut tasks, mut verdicts) = (Tasks::default(), Vec::new());
        for record in ledger.records()? {
            let record = record?;
            tasks.see(&record);
            evidence.add(record.hash, record.body.clone());
            if matches!(record.body, Body::Verdict(_)) {
                verdicts.push(record);
            }
        }
        tasks.check(ledger, &verdicts)?;
        Ok(evidence)
    }

    /// The records of one run, of one candidate if named, with the records they rest on and all notes. Other records
    /// are read but not kept.
    pub fn read_run(ledger: &Ledger, run: &str, candidate: Option<&str>) -> Result<Self, LedgerError> {
        let mut kept: Vec<Record> = Vec::new();
        let mut tasks = Tasks::default();
        for record in ledger.records()? {
            let record = record?;
            tasks.see(&record);
            let wanted = match &record.body {
                Body::Run(this) => this.run == run,
                Body::Step(_) | Body::Verdict(_) => {
                    record.body.run() == Some(run)
                        && candidate.is_none_or(|wanted| record.body.candidate() == Some(wanted))
                }
                Body::Note(_) => true,
                Body::Raw(_) => false,
            };
            if wanted {
                kept.push(record);
            }
        }
        tasks.check(ledger, &kept)?;
        let mut there: BTreeSet<Hash> = kept.iter().map(|record| record.hash).collect();
        let mut open: Vec<Hash> = kept.iter().flat_map(rests_on).collect();
        let mut older: Vec<Record> = Vec::new();
        for _ in 0..MAX_ROUNDS {
            let missing: BTreeSet<Hash> = open.iter().filter(|hash| !there.contains(hash)).copied().collect();
            if missing.is_empty() {
                break;
            }
            let found = ledger.fetch(&missing)?;
            // Including missing ones, so that they are not searched for twice.
            there.extend(missing);
            open = found.iter().flat_map(rests_on).collect();
            older.extend(found);
        }
        // A record comes after the records it rests on.
        Ok(older.iter().rev().chain(&kept).collect())
    }
}

/// The steps that a record takes its figures from. Subjects of a note are for readers, not for views.
fn rests_on(record: &Record) -> Vec<Hash> {
    match &record.body {
        Body::Note(_) => Vec::new(),
        body => body.references().into_iter().map(|(_, hash)| hash).collect(),
    }
}
