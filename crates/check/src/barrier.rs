//! Misuse of the block's barriers (`bar`, `barrier`).
//!
//! `bar` and the `.aligned` forms of `barrier` must be executed by all threads of a warp that have not exited, at the
//! same instruction. Reported, from the PTX manual's section on `bar`: lanes of a warp that arrive at different barrier
//! instructions while part of the warp waits at one of them, and lanes that have passed the barrier at which other
//! lanes of their warp wait. Forms without `.aligned` count single threads, so a warp may execute them in several
//! groups of lanes.
//!
//! Not reported on purpose: whole warps at different barrier instructions, because only the barrier id must match; a
//! barrier that completes because other threads have exited; lanes of a warp that arrive at one instruction in several
//! groups, because the groups may be an artifact of the schedule. Missed: lanes that pass a barrier before any lane of
//! their warp waits there. Mismatched thread counts, invalid barrier numbers and deadlocks end the launch and are
//! reported by the machine.

use super::context::Context;
use super::passing::Passing;
use super::raw::{Raw, RawFindings, Spot};
use super::{Class, Severity};
use warpproof_sim::isa::Op;
use warpproof_sim::machine::at;
use warpproof_sim::observe::{Arrival, Issue};

/// Lanes of a warp that wait at a barrier.
#[derive(Clone, Copy, Debug)]
struct Piece {
    warp: u32,
    pc: u32,
    id: u32,
    lanes: u32,
    aligned: bool,
}

/// The lanes that wait at the barriers of a block.
#[derive(Debug, Default)]
pub(crate) struct BarrierUse {
    pieces: Vec<Piece>,
    /// Warps in which only some lanes wait, one bit per warp.
    parted: u32,
    passing: Passing,
}

fn is_block_barrier(op: &Op) -> bool {
    matches!(op, Op::Barrier(_) | Op::ClusterBarrier { .. })
}

fn thread_of(warp: u32, lanes: u32) -> u32 {
    warp * 32 + lanes.trailing_zeros().min(31)
}

impl BarrierUse {
    /// Whether no part of the warp has arrived at a barrier without the rest.
    #[inline]
    pub(crate) fn is_calm(&self, warp: u32) -> bool {
        self.parted >> (warp & 31) & 1 == 0
    }

    pub(crate) fn issue(
        &mut self,
        context: &Context,
        block: u32,
        raw_findings: &mut RawFindings,
        issue: &Issue<'_>,
    ) {
        if self.is_calm(issue.warp) {
            return;
        }
        for piece in &self.pieces {
            let others = issue.exec & !piece.lanes;
            if piece.warp != issue.warp
                || !piece.aligned
                || others == 0
                || !self.passing.is_past(context, piece.pc, issue.pc, is_block_barrier)
            {
                continue;
            }
            let key = (Class::Barrier, piece.pc, piece.pc, 1);
            raw_findings.add(key, Severity::Error, || past(context, block, piece, issue.pc, others));
        }
    }

    pub(crate) fn arrive(
        &mut self,
        context: &Context,
        block: u32,
        raw_findings: &mut RawFindings,
        arrival: &Arrival,
    ) {
        let Arrival { warp, lanes, exited, pc, id, waits, .. } = *arrival;
        if lanes == !exited && self.parted >> (warp & 31) & 1 == 0 {
            return;
        }
        let aligned = context.program.op(pc).aligned_barrier();
        for piece in self.pieces.iter().filter(|piece| piece.warp == warp && piece.pc != pc) {
            if aligned || piece.aligned {
                let key = (Class::Barrier, piece.pc.min(pc), piece.pc.max(pc), 0);
                raw_findings.add(key, Severity::Error, || apart(context, block, piece, arrival));
            }
        }
        if !waits {
            return;
        }
        self.parted |= 1 << (warp & 31);
        match self.pieces.iter_mut().find(|piece| piece.warp == warp && piece.pc == pc && piece.id == id) {
            Some(piece) => piece.lanes |= lanes,
            None => self.pieces.push(Piece { warp, pc, id, lanes, aligned }),
        }
    }

    pub(crate) fn complete(&mut self, id: u32) {
        if self.pieces.is_empty() {
            return;
        }
        self.pieces.retain(|piece| piece.id != id);
        self.parted = self.pieces.iter().fold(0, |warps, piece| warps | 1 << (piece.warp & 31));
    }
}

/// Lanes of one warp at two barrier instructions.
fn apart(context: &Context, block: u32, piece: &Piece, arrival: &Arrival) -> Raw {
    let spot =
        |pc, lanes, label: String| Spot { label, pc, thread: Some((block, thread_of(piece.warp, lanes))) };
    Raw {
        class: Class::Barrier,
        severity: Severity::Error,
        sentence: format!(
            "lanes of warp {} arrive at different barriers: {} waits at one, {} arrives at another",
            piece.warp,
            context.thread(block, thread_of(piece.warp, piece.lanes)),
            context.thread(block, thread_of(arrival.warp, arrival.lanes)),
        ),
        spots: vec![
            spot(
                arrival.pc,
                arrival.lanes,
                format!("lanes {:#010x} arrive at barrier {}", arrival.lanes, arrival.id),
            ),
            spot(piece.pc, piece.lanes, format!("lanes {:#010x} wait at barrier {}", piece.lanes, piece.id)),
        ],
        notes: vec![format!(
            "`{}` is aligned: all threads of a warp must execute the same barrier instruction",
            context.program.opcode(at(if piece.aligned { piece.pc } else { arrival.pc })),
        )],
        help: Some("put one barrier after the branch, so that all threads execute it".to_owned()),
        count: 1,
    }
}

/// Lanes that passed the barrier at which other lanes of their warp wait.
fn past(context: &Context, block: u32, piece: &Piece, now: u32, others: u32) -> Raw {
    let mut notes = vec![format!(
        "`{}` is aligned: all threads of a warp that have not exited must execute it",
        context.program.opcode(at(piece.pc))
    )];
    notes.extend(context.line(now).map(|line| format!("lanes {others:#010x} are past it, at {line}")));
    Raw {
        class: Class::Barrier,
        severity: Severity::Error,
        sentence: format!(
            "a barrier in divergent code: lanes {:#010x} of warp {} wait at it, but {} continues past it",
            piece.lanes,
            piece.warp,
            context.thread(block, thread_of(piece.warp, others)),
        ),
        spots: vec![Spot {
            label: format!("lanes {:#010x} wait here", piece.lanes),
            pc: piece.pc,
            thread: Some((block, thread_of(piece.warp, piece.lanes))),
        }],
        notes,
        help: Some("move the barrier out of the branch, so that all threads execute it".to_owned()),
        count: 1,
    }
}
