//! Asynchronous multiplications (`wgmma`): their registers and operands belong to the tensor core until the warp has waited.
//!
//! Reported, from the PTX manual's sections on `wgmma`: an instruction that reads or writes an accumulator, or a register of A,
//! between the `wgmma.mma_async` that uses it and the `wgmma.wait_group` that covers it; a store or a copy into the operands in
//! shared memory that is not ordered after that wait (the race check finds it: the tensor core is an agent of its own, `bulk.rs`);
//! a `wgmma.mma_async` before any `wgmma.fence` of the warp, or with registers that the warp has computed since its last
//! `wgmma.fence`.
//!
//! Can miss: registers that were set by `mov` since the fence, because compilers copy registers there and ptxas orders such
//! copies; multiplications of different shapes that share accumulators. Never reports: accumulators that consecutive
//! multiplications share.

use super::context::Context;
use super::history::Conflict;
use super::race::Race;
use super::raw::{Raw, RawFindings, Spot};
use super::{Class, Severity};
use std::collections::{BTreeMap, BTreeSet};
use warpproof_sim::isa::Op;
use warpproof_sim::machine::{Width, at};
use warpproof_sim::observe::{Issue, MultiplyAsync};
use warpproof_sim::program::Program;

/// The registers of the multiplications of a program, and the other instructions that use them.
#[derive(Debug)]
pub(crate) struct Registers {
    rows: BTreeSet<u32>,
    /// By instruction: whether it is not a multiplication and reads or writes one of the rows.
    touching: Vec<bool>,
}

impl Registers {
    /// `None` if the program has no asynchronous multiplication.
    pub(crate) fn of(program: &Program) -> Option<Registers> {
        let multiplies = |pc: usize| matches!(program.metas[pc].op, Op::MultiplyAsync(_));
        let all = 0..program.metas.len();
        let rows: BTreeSet<u32> =
            all.clone().filter(|pc| multiplies(*pc)).flat_map(|pc| words(program, pc)).collect();
        if rows.is_empty() {
            return None;
        }
        let touching =
            all.map(|pc| !multiplies(pc) && words(program, pc).any(|row| rows.contains(&row))).collect();
        Some(Registers { rows, touching })
    }
}

/// The 32-bit rows that an instruction reads or writes.
fn words(program: &Program, pc: usize) -> impl Iterator<Item = u32> + '_ {
    let rows = program.metas.get(pc).map(|meta| meta.reads.iter().chain(&meta.writes));
    rows.into_iter().flatten().filter(|row| row.0 == Width::W32).map(|row| row.1)
}

/// A multiplication in flight.
#[derive(Debug)]
struct Flight {
    pc: u32,
    group: u64,
}

/// What a warp has done.
#[derive(Debug, Default)]
struct State {
    flights: Vec<Flight>,
    commits: u64,
    fenced: bool,
    /// Rows of multiplications that were computed since the last fence, and by which instruction.
    written: BTreeMap<u32, u32>,
}

/// The asynchronous multiplications of a block.
#[derive(Debug, Default)]
pub(crate) struct Multiplies {
    warps: BTreeMap<u32, State>,
}

impl Multiplies {
    /// An instruction is about to be executed.
    pub(crate) fn issue(
        &mut self,
        context: &Context,
        block: u32,
        raw_findings: &mut RawFindings,
        issue: &Issue<'_>,
    ) {
        let Some(registers) = &context.multiplies else { return };
        let op = context.program.op(issue.pc);
        match op {
            Op::MultiplyFence => {
                let state = self.warps.entry(issue.warp).or_default();
                state.fenced = true;
                state.written.clear();
            }
            Op::MultiplyCommit => self.warps.entry(issue.warp).or_default().commits += 1,
            Op::MultiplyAsync(_) => {
                let state = self.warps.entry(issue.warp).or_default();
                unfenced(context, block, raw_findings, state, issue);
            }
            _ if registers.touching.get(at(issue.pc)).is_some_and(|touches| *touches) => {
                let state = self.warps.entry(issue.warp).or_default();
                if !state.flights.is_empty() {
                    in_flight(context, block, raw_findings, state, issue);
                }
                if !matches!(op, Op::Move(_)) {
                    let meta = &context.program.metas[at(issue.pc)];
                    let written = meta
                        .writes
                        .iter()
                        .filter(|row| row.0 == Width::W32 && registers.rows.contains(&row.1));
                    state.written.extend(written.map(|row| (row.1, issue.pc)));
                }
            }
            _ => {}
        }
    }

    pub(crate) fn issued(&mut self, multiply: &MultiplyAsync<'_>) {
        let flight = Flight { pc: multiply.pc, group: multiply.group };
        self.warps.entry(multiply.warp).or_default().flights.push(flight);
    }

    pub(crate) fn done(&mut self, multiply: &MultiplyAsync<'_>) {
        let state = self.warps.entry(multiply.warp).or_default();
        // They complete in the order in which they were issued.
        if !state.flights.is_empty() {
            state.flights.remove(0);
        }
    }
}

/// A thread or a copy writes an operand of a multiplication, and is not ordered after a wait of the warp that multiplies.
pub(crate) fn overwritten(context: &Context, race: &Race, conflict: &Conflict, address: u32) -> Raw {
    let name = context.shared_name(address).map_or(String::new(), |name| format!(" in `{name}`"));
    let (opcode, help) = match context.program.op(conflict.other.pc) {
        Op::Tensor(_) => (
            "tcgen05",
            "wait for an mbarrier at which a tcgen05.commit arrives that the same thread executes after it, then synchronize with \
             what writes",
        ),
        _ => (
            "wgmma",
            "execute wgmma.wait_group, then synchronize with what writes: a barrier, or an mbarrier at which the warps \
             arrive after the wait",
        ),
    };
    Raw {
        class: Class::AsyncMultiply,
        severity: Severity::Error,
        sentence: format!(
            "an operand of {opcode}{name} is overwritten, and the writer is not ordered after a wait for the multiplication"
        ),
        spots: vec![
            Spot {
                label: format!("the {}", context.verb(race.access.pc, true)),
                pc: race.access.pc,
                thread: Some((race.block, u32::from(race.access.who.0))),
            },
            Spot {
                label: format!("read by the tensor core from this {opcode} on"),
                pc: conflict.other.pc,
                thread: None,
            },
        ],
        notes: vec![format!(
            "the bytes from shared address {address:#x}, for warp {}",
            conflict.other.who.warp()
        )],
        help: Some(help.to_owned()),
        count: 1,
    }
}

/// What the warp must do before others may use what a multiplication uses.
fn remedy(state: &State, flight: &Flight) -> String {
    match state.commits.checked_sub(flight.group + 1) {
        None => {
            "close the group with wgmma.commit_group and wait for it with wgmma.wait_group 0 first".to_owned()
        }
        Some(newer) => format!("wait for the multiplication first: wgmma.wait_group {newer}"),
    }
}

/// An instruction uses a register of a multiplication in flight.
fn in_flight(
    context: &Context,
    block: u32,
    raw_findings: &mut RawFindings,
    state: &State,
    issue: &Issue<'_>,
) {
    let meta = &context.program.metas[at(issue.pc)];
    for flight in &state.flights {
        let theirs: BTreeSet<u32> = words(&context.program, at(flight.pc)).collect();
        let uses =
            |rows: &[(Width, u32)]| rows.iter().any(|row| row.0 == Width::W32 && theirs.contains(&row.1));
        let (reads, writes) = (uses(&meta.reads), uses(&meta.writes));
        if !reads && !writes {
            continue;
        }
        let accumulators = &context.program.metas[at(flight.pc)].writes;
        let accumulates = meta.reads.iter().chain(&meta.writes).any(|row| accumulators.contains(row));
        let what = if accumulates { "an accumulator" } else { "a register of matrix A" };
        let verb = if reads { "read" } else { "written" };
        let thread = Some((block, issue.warp * 32 + issue.exec.trailing_zeros().min(31)));
        // One finding for all accumulators of a multiplication.
        let first = accumulators.first().map_or(0, |row| row.1);
        let key = (Class::AsyncMultiply, first, u32::from(accumulates) | (2 * u32::from(reads)), 0);
        raw_findings.add(key, Severity::Error, || Raw {
            class: Class::AsyncMultiply,
            severity: Severity::Error,
            sentence: format!("{what} of wgmma is {verb} before the warp has waited for it"),
            spots: vec![
                Spot { label: format!("{verb} here"), pc: issue.pc, thread },
                Spot { label: "in flight since this wgmma".to_owned(), pc: flight.pc, thread: None },
            ],
            notes: Vec::new(),
            help: Some(remedy(state, flight)),
            count: 1,
        });
        return;
    }
}

/// A multiplication starts without the fence that orders its registers.
fn unfenced(context: &Context, block: u32, raw_findings: &mut RawFindings, state: &State, issue: &Issue<'_>) {
    let written = words(&context.program, at(issue.pc)).find_map(|row| state.written.get(&row).copied());
    let thread = Some((block, issue.warp * 32));
    let (sentence, first) = match written {
        _ if !state.fenced => ("wgmma is executed without a wgmma.fence before it", None),
        None => return,
        Some(pc) => ("a register of wgmma is written after the last wgmma.fence", Some(pc)),
    };
    let key = (Class::AsyncMultiply, first.unwrap_or(issue.pc), issue.pc, 2);
    raw_findings.add(key, Severity::Error, || Raw {
        class: Class::AsyncMultiply,
        severity: Severity::Error,
        sentence: sentence.to_owned(),
        spots: first
            .map(|pc| Spot { label: "written here".to_owned(), pc, thread })
            .into_iter()
            .chain([Spot { label: "used by this wgmma".to_owned(), pc: issue.pc, thread: None }])
            .collect(),
        notes: Vec::new(),
        help: Some(
            "execute wgmma.fence.sync.aligned between the last use of the registers and wgmma".to_owned(),
        ),
        count: 1,
    });
}
