//! Uninitialized shared memory that the async proxy reads: sources of bulk copies, and operands of `wgmma`.
//!
//! Reported: a bulk copy, without a tensor map, whose source has a word that was never written; a `wgmma` whose matrix B was never
//! written, or of which every row of A or column of B has words that were never written and others that were, so that
//! every element of D is undefined.
//!
//! Missed on purpose: whole rows of A or columns of B that were never written, because kernels leave them out at the edge of a
//! matrix and do not store what becomes of them; registers of `wgmma`; matrices stored by column.

use super::context::Context;
use super::race::SharedRace;
use super::raw::{Raw, RawFindings, Spot};
use super::{Class, Severity};
use warpproof_sim::isa::Op;
use warpproof_sim::machine::at;
use warpproof_sim::observe::MultiplyAsync;

/// The first word of these bytes that was never written.
fn unwritten(window: &SharedRace, address: u32, bytes: u32) -> Option<u32> {
    (address / 4..address.saturating_add(bytes).div_ceil(4))
        .find(|word| !window.word_written(*word))
        .map(|word| 4 * word)
}

/// A thread issues a bulk copy from this address of its block's memory.
pub(crate) fn copied(
    context: &Context,
    raw_findings: &mut RawFindings,
    window: &SharedRace,
    (block, thread, pc): (u32, u32, u32),
    (from, bytes): (u32, u32),
) {
    if let Some(address) = unwritten(window, from, bytes) {
        report(context, raw_findings, "a bulk copy", (block, thread, pc), address);
    }
}

/// A warp issues a multiplication.
pub(crate) fn multiplied(
    context: &Context,
    raw_findings: &mut RawFindings,
    window: &SharedRace,
    block: u32,
    multiply: &MultiplyAsync<'_>,
) {
    let Op::MultiplyAsync(op) = context.program.op(multiply.pc) else { return };
    // Two pieces for each row of A that the warp reads, then two for each column of B.
    let columns = 2 * at(op.shape[1]);
    let (a, b) = multiply.pieces.split_at(multiply.pieces.len().saturating_sub(columns));
    for (pieces, whole) in [(a, false), (b, true)] {
        let missing: Vec<Option<u32>> = pieces.iter().map(|piece| unwritten(window, *piece, 16)).collect();
        let Some(first) = missing.iter().flatten().next() else { continue };
        let all = missing.iter().all(Option::is_some);
        let every_line = missing.chunks(2).all(|line| line.iter().any(Option::is_some));
        if (all && whole) || (every_line && !all) {
            return report(context, raw_findings, "wgmma", (block, multiply.warp * 32, multiply.pc), *first);
        }
    }
}

fn report(
    context: &Context,
    raw_findings: &mut RawFindings,
    reader: &str,
    (block, thread, pc): (u32, u32, u32),
    address: u32,
) {
    raw_findings.add((Class::Uninitialized, pc, pc, 20), Severity::Error, || {
        let name = context.shared_name(address).map_or(String::new(), |name| format!(" of `{name}`"));
        Raw {
            class: Class::Uninitialized,
            severity: Severity::Error,
            sentence: format!(
                "{reader} reads shared memory{name} that was never written, from shared address {address:#x}"
            ),
            spots: vec![Spot { label: "the read".to_owned(), pc, thread: Some((block, thread)) }],
            notes: Vec::new(),
            help: Some("write all bytes that it reads, or reduce their number".to_owned()),
            count: 1,
        }
    });
}
