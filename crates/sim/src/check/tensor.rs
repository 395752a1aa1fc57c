//! Tensor memory: who accesses which columns, and in which order.
//!
//! Reported, from the PTX manual's sections on `tcgen05`: an access to columns that is not ordered after the copy, the multiplication, the
//! load or the store that used them before; columns that are read although nothing wrote them since they were allocated; an
//! instruction that uses the registers of a `tcgen05.ld` before `tcgen05.wait::ld`; columns that the block never frees. A copy or a
//! multiplication is complete for a thread that has waited for an mbarrier at which a later `tcgen05.commit` arrived; a load or
//! a store of a warp is complete after `tcgen05.wait`. Operands in shared memory that are overwritten too early are found by the
//! race check, because the tensor core is an agent of its own (`bulk.rs`).
//!
//! Can miss: accesses to different lanes among the 32 of a warp; a missing `tcgen05.fence`. Never reports: copies and multiplications
//! of one thread, which are executed in order.

use super::clock::{Order, Who};
use super::context::Context;
use super::raw::{Raw, RawFindings, Spot};
use super::{Class, Severity};
use crate::isa::Op;
use crate::isa::op::TensorOp;
use crate::machine::at;
use crate::memory::TENSOR_COLUMNS;
use crate::observe::{Issue, TensorAction, TensorEvent};
use std::collections::BTreeMap;

/// Warps that share the lanes.
const WARPS: u32 = 4;

/// An access.
#[derive(Clone, Copy, Debug)]
struct Mark {
    /// The block, or the agent that acts for a thread.
    actor: u32,
    /// The block of the thread.
    block: u32,
    who: Who,
    time: u32,
    pc: u32,
    /// Whether a load or a store of a warp is complete.
    waited: bool,
}

/// The last accesses to a column, in the lanes of a warp.
#[derive(Clone, Debug, Default)]
struct Cell {
    write: Option<Mark>,
    /// Since that write: the last of each warp or agent.
    reads: Vec<Mark>,
}

/// The tensor memory of a block, which the blocks of a pair share.
#[derive(Debug)]
pub(crate) struct TensorCells {
    /// By column, then by the warp that may access them.
    cells: Vec<Cell>,
}

/// What the warps of a block do with tensor memory.
#[derive(Debug)]
pub(crate) struct TensorUse {
    /// By warp: loads whose registers have not arrived.
    loads: BTreeMap<u32, Vec<u32>>,
}

/// What a thread or an agent is about to do.
struct Access<'a> {
    context: &'a Context,
    order: &'a Order,
    mark: Mark,
}

impl Access<'_> {
    /// Whether an earlier access is complete and happens before this one.
    fn follows(&self, earlier: &Mark) -> bool {
        if earlier.actor == self.mark.actor && earlier.actor != self.mark.block {
            // An agent works in order.
            return true;
        }
        let own = earlier.actor == self.mark.block && earlier.who.warp() == self.mark.who.warp();
        let known = self.order.before_any(earlier.actor, earlier.who, earlier.time, self.mark.who);
        if own { earlier.waited } else { earlier.waited && known }
    }

    fn op(&self, pc: u32) -> &Op {
        self.context.program.op(pc)
    }

    fn add(&self, raw_findings: &mut RawFindings, column: u32, earlier: &Mark) {
        let (here, there) = (self.mark.pc, earlier.pc);
        let agent = matches!(self.op(there), Op::Tensor(TensorOp::Multiply | TensorOp::Copy));
        let name = |pc: u32| match self.op(pc) {
            Op::Tensor(TensorOp::Multiply) => "tcgen05.mma",
            Op::Tensor(TensorOp::Copy) => "tcgen05.cp",
            Op::Tensor(TensorOp::Load) => "tcgen05.ld",
            Op::Tensor(TensorOp::Free) => "tcgen05.dealloc",
            _ => "tcgen05.st",
        };
        let sentence = if agent {
            format!("{} uses tensor memory of a {} that may not be complete", name(here), name(there))
        } else if earlier.waited {
            format!("{} uses tensor memory of a {} that is not ordered before it", name(here), name(there))
        } else {
            format!(
                "{} uses tensor memory of a {} for which its warp has not waited",
                name(here),
                name(there)
            )
        };
        let help = if agent {
            "wait for an mbarrier at which a tcgen05.commit arrives that the same thread executes after it"
                .to_owned()
        } else {
            let wait = if name(there) == "tcgen05.ld" { "ld" } else { "st" };
            format!(
                "execute tcgen05.wait::{wait} and tcgen05.fence::before_thread_sync, synchronize, and execute \
                 tcgen05.fence::after_thread_sync"
            )
        };
        let thread = Some((self.mark.block, u32::from(self.mark.who.0)));
        raw_findings.add((Class::TensorMemory, here, there, 0), Severity::Error, || Raw {
            class: Class::TensorMemory,
            severity: Severity::Error,
            sentence,
            spots: vec![
                Spot { label: "used here".to_owned(), pc: here, thread },
                Spot {
                    label: if agent { "in flight since here" } else { "used before here" }.to_owned(),
                    pc: there,
                    thread: Some((earlier.block, u32::from(earlier.who.0))),
                },
            ],
            notes: vec![format!("column {column}")],
            help: Some(help),
            count: 1,
        });
    }

    /// Nothing was written to a column that is read.
    fn empty(&self, raw_findings: &mut RawFindings, column: u32) {
        let (pc, thread) = (self.mark.pc, Some((self.mark.block, u32::from(self.mark.who.0))));
        raw_findings.add((Class::TensorMemory, pc, pc, 1), Severity::Error, || Raw {
            class: Class::TensorMemory,
            severity: Severity::Error,
            sentence: "tensor memory is read that nothing has written since it was allocated".to_owned(),
            spots: vec![Spot { label: "read here".to_owned(), pc, thread }],
            notes: vec![format!("column {column}")],
            help: Some("let the first multiplication start from zero: enable-input-d false".to_owned()),
            count: 1,
        });
    }
}

impl TensorCells {
    /// Of a kernel that uses tensor memory; otherwise empty.
    pub(crate) fn of(context: &Context) -> TensorCells {
        let used = TensorUse::of(context).is_some();
        TensorCells { cells: vec![Cell::default(); if used { at(TENSOR_COLUMNS * WARPS) } else { 0 }] }
    }

    /// A warp waits for its loads or stores.
    fn waited(&mut self, block: u32, now: u32, warp: u32, stores: bool, context: &Context) {
        let mine = |mark: &Mark| {
            let kind = matches!(context.program.op(mark.pc), Op::Tensor(TensorOp::Store)) == stores;
            kind && mark.actor == block && mark.who.warp() == at(warp) && !mark.waited
        };
        for cell in &mut self.cells {
            for mark in cell.write.iter_mut().chain(&mut cell.reads).filter(|mark| mine(mark)) {
                mark.waited = true;
                mark.time = now;
            }
        }
    }

    /// The cells of columns, in the lanes of a warp or in all.
    fn each(&mut self, (first, count): (u32, u32), warp: Option<u32>, mut f: impl FnMut(u32, &mut Cell)) {
        for column in first..first.saturating_add(count).min(TENSOR_COLUMNS) {
            for lanes in (0..WARPS).filter(|lanes| warp.is_none_or(|warp| warp % WARPS == *lanes)) {
                if let Some(cell) = self.cells.get_mut(at(column * WARPS + lanes)) {
                    f(column, cell);
                }
            }
        }
    }

    fn read(&mut self, raw: &mut RawFindings, access: &Access<'_>, columns: (u32, u32), warp: Option<u32>) {
        self.each(columns, warp, |column, cell| {
            match &cell.write {
                None => access.empty(raw, column),
                Some(write) if !access.follows(write) => access.add(raw, column, write),
                Some(_) => {}
            }
            let same =
                |mark: &Mark| (mark.actor, mark.who.warp()) == (access.mark.actor, access.mark.who.warp());
            cell.reads.retain(|mark| !same(mark));
            cell.reads.push(access.mark);
        });
    }

    /// An agent reads and writes columns in all lanes.
    fn issued(
        &mut self,
        raw: &mut RawFindings,
        access: &Access<'_>,
        reads: &[(u32, u32)],
        writes: (u32, u32),
    ) {
        for columns in reads {
            self.read(raw, access, *columns, None);
        }
        self.write(raw, access, writes, None);
    }

    fn write(&mut self, raw: &mut RawFindings, access: &Access<'_>, columns: (u32, u32), warp: Option<u32>) {
        self.each(columns, warp, |column, cell| {
            let own =
                |mark: &Mark| mark.actor == access.mark.block && mark.who.warp() == access.mark.who.warp();
            for mark in cell.write.iter().chain(&cell.reads) {
                // A warp's own loads and stores before a store are executed in order.
                let ordered = access.mark.actor == access.mark.block && own(mark);
                if !ordered && !access.follows(mark) {
                    access.add(raw, column, mark);
                }
            }
            *cell = Cell { write: Some(access.mark), reads: Vec::new() };
        });
    }
}

impl TensorUse {
    /// `None` if the program does not use tensor memory.
    pub(crate) fn of(context: &Context) -> Option<TensorUse> {
        let any = context.program.metas.iter().any(|meta| matches!(meta.op, Op::Tensor(_)));
        any.then(|| TensorUse { loads: BTreeMap::new() })
    }

    /// Whether the next instruction of a warp cannot use registers that a load has not written yet.
    pub(crate) fn is_calm(&self, warp: u32) -> bool {
        self.loads.get(&warp).is_none_or(Vec::is_empty)
    }

    /// An instruction is about to be executed.
    pub(crate) fn issue(
        &mut self,
        context: &Context,
        block: u32,
        raw_findings: &mut RawFindings,
        issue: &Issue<'_>,
    ) {
        let meta = &context.program.metas[at(issue.pc)];
        // Several loads may be in flight; whether they share registers is not followed.
        if matches!(meta.op, Op::Tensor(TensorOp::Load | TensorOp::Wait { .. })) {
            return;
        }
        let Some(loads) = self.loads.get_mut(&issue.warp).filter(|loads| !loads.is_empty()) else { return };
        let used = |load: u32| {
            let theirs = &context.program.metas[at(load)].writes;
            meta.reads.iter().chain(&meta.writes).any(|row| theirs.contains(row))
        };
        let Some(load) = loads.iter().copied().find(|load| used(*load)) else { return };
        let thread = Some((block, issue.warp * 32 + issue.exec.trailing_zeros().min(31)));
        raw_findings.add((Class::TensorMemory, issue.pc, load, 2), Severity::Error, || Raw {
            class: Class::TensorMemory,
            severity: Severity::Error,
            sentence: "a register of tcgen05.ld is used before the warp has waited for the load".to_owned(),
            spots: vec![
                Spot { label: "used here".to_owned(), pc: issue.pc, thread },
                Spot { label: "in flight since this load".to_owned(), pc: load, thread: None },
            ],
            notes: Vec::new(),
            help: Some("execute tcgen05.wait::ld.sync.aligned between the load and the first use".to_owned()),
            count: 1,
        });
        // One finding for the registers of a load.
        loads.retain(|one| *one != load);
    }

    /// Something happens to tensor memory. `agent` is what acts for a thread that issues a copy or a multiplication, and its time;
    /// `all` is the tensor memory of each block of the cluster.
    pub(crate) fn event(
        &mut self,
        context: &Context,
        order: &Order,
        (block, rank, all): (u32, u32, &mut [TensorCells]),
        raw: &mut RawFindings,
        event: &TensorEvent<'_>,
        agent: Option<(u32, u32)>,
    ) {
        let TensorEvent { warp, lane, pc, action } = *event;
        let who = Who::new(warp, at(lane));
        let (actor, time) = agent.unwrap_or((block, order.now()));
        let waited = agent.is_some();
        let access = Access { context, order, mark: Mark { actor, block, who, time, pc, waited } };
        if let TensorAction::Issued { reads, writes, peer: Some(peer), .. } = action
            && let Some(cells) = all.get_mut(at(peer))
        {
            cells.issued(raw, &access, reads, writes);
        }
        let Some(cells) = all.get_mut(at(rank)) else { return };
        match action {
            TensorAction::Allocated(columns) => cells.each(columns, None, |_, cell| *cell = Cell::default()),
            TensorAction::Freed(columns) => cells.each(columns, None, |column, cell| {
                for mark in cell.write.iter().chain(&cell.reads).filter(|mark| !access.follows(mark)) {
                    access.add(raw, column, mark);
                }
                *cell = Cell::default();
            }),
            TensorAction::Loaded(columns) => {
                for columns in columns {
                    cells.read(raw, &access, columns, Some(warp));
                }
                self.loads.entry(warp).or_default().push(pc);
            }
            TensorAction::Stored(columns) => {
                for columns in columns {
                    cells.write(raw, &access, columns, Some(warp));
                }
            }
            TensorAction::Issued { reads, writes, .. } => cells.issued(raw, &access, reads, writes),
            TensorAction::Waited { stores } => {
                if !stores {
                    self.loads.remove(&warp);
                }
                cells.waited(block, time, warp, stores, context);
            }
            TensorAction::Left((first, columns)) => {
                raw.add((Class::TensorMemory, pc, pc, 3), Severity::Error, || Raw {
                    class: Class::TensorMemory,
                    severity: Severity::Error,
                    sentence: format!("the block ends without freeing {columns} columns of tensor memory"),
                    spots: vec![Spot { label: "allocated here".to_owned(), pc, thread: None }],
                    notes: vec![format!("columns {first} to {}", first + columns - 1)],
                    help: Some(
                        "execute tcgen05.dealloc with the same number of columns before the block ends; other blocks \
                         wait for the columns"
                            .to_owned(),
                    ),
                    count: 1,
                });
            }
            TensorAction::Committed
            | TensorAction::Completed
            | TensorAction::ReadByPeer { .. }
            | TensorAction::Arrived { .. } => {}
        }
    }
}
