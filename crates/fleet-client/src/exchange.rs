//! Copies a local ledger to a fleet, and a fleet's ledger to a local one, byte for byte.

use warpproof_evidence::hash::Hash;
use warpproof_evidence::ledger::{Ledger, LedgerError, Record, read_segment};

use crate::client::{Fleet, FleetError};

fn local(error: &LedgerError) -> FleetError {
    FleetError::Local(error.to_string())
}

/// Fetches a segment and the objects it refers to into a ledger; returns its records, and whether it is new there.
pub fn fetch(fleet: &Fleet, into: &Ledger, id: &str) -> Result<(Vec<Record>, bool), FleetError> {
    let text = fleet.segment(id)?;
    let records = read_segment(id, &text).map_err(|problem| FleetError::Odd(problem.to_string()))?;
    for record in &records {
        for (_, hash) in record.body.objects() {
            if !into.has_object(&hash) {
                into.put_object(&fleet.object(&hash)?).map_err(|error| local(&error))?;
            }
        }
    }
    let new = into.put_segment(id, &text).map_err(|error| local(&error))?;
    Ok((records, new))
}

/// Fetches all segments; returns the number of new ones.
pub fn export(fleet: &Fleet, into: &Ledger) -> Result<usize, FleetError> {
    let (mut after, mut new) = (0, 0);
    loop {
        let page = fleet.segments(after)?;
        let Some(last) = page.last() else { return Ok(new) };
        after = last.number;
        for segment in &page {
            new += usize::from(fetch(fleet, into, &segment.id)?.1);
        }
    }
}

/// Sends all segments; returns the number of new ones. Segments are sent after those whose records they refer to.
pub fn import(fleet: &Fleet, from: &Ledger) -> Result<usize, FleetError> {
    let mut waiting = from.segment_names().map_err(|error| local(&error))?;
    let mut new = 0;
    while !waiting.is_empty() {
        let before = waiting.len();
        let mut still = Vec::new();
        let mut refused = None;
        for id in waiting {
            let text = from.segment_text(&id).map_err(|error| local(&error))?;
            if text.is_empty() {
                continue;
            }
            match send(fleet, from, &id, &text) {
                Ok(taken) => new += usize::from(taken),
                Err(error) if error.word() == Some("missing_records") => {
                    refused = Some(error);
                    still.push(id);
                }
                Err(error) => return Err(error),
            }
        }
        waiting = still;
        if let Some(error) = refused.filter(|_| waiting.len() == before) {
            return Err(error);
        }
    }
    Ok(new)
}

fn send(fleet: &Fleet, from: &Ledger, id: &str, text: &[u8]) -> Result<bool, FleetError> {
    let missing = match fleet.put_segment(id, text) {
        Ok(imported) => return Ok(imported.new),
        Err(FleetError::Refused(_, refusal)) if refusal.error == "missing_objects" => refusal.missing,
        Err(error) => return Err(error),
    };
    for name in missing {
        let hash: Hash =
            name.parse().map_err(|_| FleetError::Odd(format!("expected a hash, found `{name}`")))?;
        fleet.put_object(&hash, &from.object(&hash).map_err(|error| local(&error))?)?;
    }
    fleet.put_segment(id, text).map(|imported| imported.new)
}
