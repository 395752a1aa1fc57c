//! Tensor memory: who accesses which columns, and in which order.
//!
//! Reported, from the PTX manual's sections on `tcgen05`: an access to columns that is not ordered after the copy, the shift, the multiplication, the
//! load or the store that used them before; columns that are read although nothing wrote them since they were allocated; columns that
//! the block never frees; registers of a load that are overwritten before it is complete (`tensor_loads.rs`). A copy, a shift or a
//! multiplication is complete for a thread that has waited for an mbarrier at which a later `tcgen05.commit` arrived; a load or
//! a store of a warp is complete after `tcgen05.wait`. Operands in shared memory that are overwritten too early are found by the
//! race check, because the tensor core is an agent of its own (`bulk.rs`).
//!
//! A warp executes loads, stores and waits together: they are ordered after what one of its lanes has seen, and before what is
//! ordered after one of its lanes. Lanes of tensor memory are followed in groups of 16, the unit of loads, stores and multiplications.
//!
//! A missing `tcgen05.fence::before_thread_sync` or `::after_thread_sync` (`tensor_fences.rs`) is reported only if [`Check::Fences`]
//! is enabled: the manual demands both around a synchronization of threads; CUTLASS 4 and the code that Triton 3.9 generates have
//! neither. A warp's fence counts for all of its lanes. Never reports: copies and multiplications of one thread, which are
//! executed in order.

use super::clock::{Order, Who};
use super::context::Context;
use super::raw::{Raw, RawFindings, Spot};
use super::settings::Check;
use super::tensor_fences::{AfterFences, Missing};
use super::tensor_loads::TensorLoads;
use super::{Class, Severity};
use std::cell::{Cell as Memo, RefCell};
use warpproof_sim::isa::Op;
use warpproof_sim::isa::op::TensorOp;
use warpproof_sim::machine::at;
use warpproof_sim::memory::TENSOR_COLUMNS;
use warpproof_sim::observe::{Issue, TensorAction, TensorEvent};

/// Groups of 16 lanes.
const HALVES: u32 = 8;
/// All of them.
const ALL: u8 = 0xff;

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
    /// When the warp executed the first `tcgen05.fence::before_thread_sync` after a load or a store.
    published: Option<u32>,
}

impl Mark {
    /// The threads that act: a warp acts with all of its lanes, a thread that issues a copy or a multiplication alone.
    fn threads(&self) -> impl Iterator<Item = Who> + use<> {
        let (warp, lane) = (u32::from(self.who.0) / 32, self.who.lane());
        let lanes = if self.actor == self.block { 0..32 } else { lane..lane + 1 };
        lanes.map(move |lane| Who::new(warp, lane))
    }
}

/// The last accesses to a column, in 16 lanes.
#[derive(Clone, Debug, Default)]
struct Cell {
    write: Option<Mark>,
    /// Since that write: the last of each warp or agent.
    reads: Vec<Mark>,
}

/// The tensor memory of a block, which the blocks of a pair share.
#[derive(Debug)]
pub(crate) struct TensorCells {
    /// By column, then by lanes.
    cells: Vec<Cell>,
    /// Whether [`Check::Fences`] is enabled.
    fenced: bool,
}

/// What the warps of a block do with tensor memory.
#[derive(Debug)]
pub(crate) struct TensorUse {
    loads: TensorLoads,
    /// If [`Check::Fences`] is enabled.
    fences: Option<AfterFences>,
}

/// A column, and the number of the warp modulo 4 that may access its lanes.
type Place = (u32, u32);

/// What a thread or an agent is about to do.
struct Access<'a> {
    context: &'a Context,
    order: &'a Order,
    mark: Mark,
    /// The last earlier access that was compared, and whether it happens before: those of many columns are the same.
    known: Memo<Option<(Mark, bool)>>,
    fences: Option<&'a AfterFences>,
    /// The same for the fence that it lacks.
    fence: Memo<Option<(Mark, Option<Missing>)>>,
    /// The earlier instructions of the last findings, which have this place: the two halves of a warp's lanes count once.
    last: RefCell<(Place, Vec<u32>)>,
}

impl Access<'_> {
    /// Whether an earlier access is complete and happens before this one.
    fn follows(&self, earlier: &Mark) -> bool {
        if earlier.actor == self.mark.actor && earlier.actor != self.mark.block {
            // An agent works in order.
            return true;
        }
        let own = earlier.actor == self.mark.block && earlier.who.warp() == self.mark.who.warp();
        earlier.waited && (own || self.is_after(earlier))
    }

    /// Whether an earlier access happens before this one.
    fn is_after(&self, earlier: &Mark) -> bool {
        if let Some((mark, known)) = self.known.get()
            && (mark.actor, mark.who, mark.time) == (earlier.actor, earlier.who, earlier.time)
        {
            return known;
        }
        let known = self.sees(earlier, earlier.time);
        self.known.set(Some((*earlier, known)));
        known
    }

    /// Whether this access is ordered after what the thread or the agent of an earlier one did at a time.
    fn sees(&self, earlier: &Mark, time: u32) -> bool {
        self.mark
            .threads()
            .any(|me| earlier.threads().any(|who| self.order.before_any(earlier.actor, who, time, me)))
    }

    /// The fence that is missing between this access and an earlier one that happens before it.
    fn missing(&self, earlier: &Mark) -> Option<Missing> {
        let fences = self.fences?;
        let warp = |mark: &Mark| (mark.actor == mark.block).then_some(mark.who.warp());
        if earlier.actor == self.mark.actor && warp(earlier) == warp(&self.mark)
            || earlier.actor == self.mark.block && earlier.who.warp() == self.mark.who.warp()
        {
            return None;
        }
        let key = |mark: &Mark| (mark.actor, mark.who, mark.time, mark.published);
        if let Some((mark, known)) = self.fence.get()
            && key(&mark) == key(earlier)
        {
            return known;
        }
        // An agent is seen only through a commit.
        let published = if warp(earlier).is_none() { Some(earlier.time) } else { earlier.published };
        let known = match published.filter(|time| self.sees(earlier, *time)) {
            None => Some(Missing::Before),
            Some(_) if matches!(self.op(self.mark.pc), Op::Tensor(TensorOp::Free)) => None,
            Some(time) => {
                let seen = self
                    .mark
                    .threads()
                    .any(|me| earlier.threads().any(|who| fences.saw(me, (earlier.actor, who), time)));
                (!seen).then_some(Missing::After)
            }
        };
        self.fence.set(Some((*earlier, known)));
        known
    }

    /// Compares this access with an earlier one.
    fn compare(&self, raw_findings: &mut RawFindings, place: Place, earlier: &Mark) {
        if !self.follows(earlier) {
            self.add(raw_findings, place, earlier);
        } else if let Some(missing) = self.missing(earlier) {
            self.add_missing(raw_findings, place, earlier, missing);
        }
    }

    /// Whether the other half of the lanes has the same finding.
    fn is_repeated(&self, place: Place, there: u32) -> bool {
        let mut last = self.last.borrow_mut();
        if last.0 != place {
            *last = (place, Vec::new());
        }
        let repeated = last.1.contains(&there);
        if !repeated {
            last.1.push(there);
        }
        repeated
    }

    fn op(&self, pc: u32) -> &Op {
        self.context.program.op(pc)
    }

    fn name(&self, pc: u32) -> &'static str {
        match self.op(pc) {
            Op::Tensor(TensorOp::Multiply) => "tcgen05.mma",
            Op::Tensor(TensorOp::Copy) => "tcgen05.cp",
            Op::Tensor(TensorOp::Shift) => "tcgen05.shift",
            Op::Tensor(TensorOp::Load) => "tcgen05.ld",
            Op::Tensor(TensorOp::Free) => "tcgen05.dealloc",
            _ => "tcgen05.st",
        }
    }

    /// A fence is missing around the synchronization.
    fn add_missing(&self, raw_findings: &mut RawFindings, place: Place, earlier: &Mark, missing: Missing) {
        let (here, there, column) = (self.mark.pc, earlier.pc, place.0);
        if self.is_repeated(place, there) {
            return;
        }
        let (kind, help) = match missing {
            Missing::Before => {
                (4, "in the thread of the earlier access, between that access and the synchronization")
            }
            Missing::After => {
                (5, "in the thread of the later access, between the synchronization and that access")
            }
        };
        raw_findings.add((Class::TensorMemory, here, there, kind), Severity::Error, || Raw {
            class: Class::TensorMemory,
            severity: Severity::Error,
            sentence: format!(
                "{} uses tensor memory of a {} that is ordered before it without {}",
                self.name(here),
                self.name(there),
                missing.name()
            ),
            spots: vec![
                Spot {
                    label: "used here".to_owned(),
                    pc: here,
                    thread: Some((self.mark.block, u32::from(self.mark.who.0))),
                },
                Spot {
                    label: "used before here".to_owned(),
                    pc: there,
                    thread: Some((earlier.block, u32::from(earlier.who.0))),
                },
            ],
            notes: vec![
                format!("column {column}"),
                "the PTX manual demands the fence, and the code of CUTLASS and Triton does without; reported because the \
                 group `fences` is enabled"
                    .to_owned(),
            ],
            help: Some(format!("execute {} {help}", missing.name())),
            count: 1,
        });
    }

    fn add(&self, raw_findings: &mut RawFindings, place: Place, earlier: &Mark) {
        let (here, there, column) = (self.mark.pc, earlier.pc, place.0);
        if self.is_repeated(place, there) {
            return;
        }
        let agent =
            matches!(self.op(there), Op::Tensor(TensorOp::Multiply | TensorOp::Copy | TensorOp::Shift));
        let name = |pc: u32| self.name(pc);
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
    fn empty(&self, raw_findings: &mut RawFindings, place: Place) {
        let column = place.0;
        if self.is_repeated(place, self.mark.pc) {
            return;
        }
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
        let cells = vec![Cell::default(); if used { at(TENSOR_COLUMNS * HALVES) } else { 0 }];
        TensorCells { cells, fenced: context.settings.has(Check::Fences) }
    }

    /// Lanes of a warp execute `tcgen05.fence::before_thread_sync`.
    pub(crate) fn publish(&mut self, order: &Order, warp: u32) {
        if !self.fenced {
            return;
        }
        let mine = |mark: &Mark| {
            mark.actor == order.block() && mark.who.warp() == at(warp) && mark.published.is_none()
        };
        for cell in &mut self.cells {
            let marks = cell.write.iter_mut().chain(&mut cell.reads);
            marks.filter(|mark| mine(mark)).for_each(|mark| mark.published = Some(order.now()));
        }
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

    /// The cells of columns in groups of 16 lanes, one bit each.
    fn each(&mut self, (first, count): (u32, u32), halves: u8, mut f: impl FnMut(Place, &mut Cell)) {
        for column in first..first.saturating_add(count).min(TENSOR_COLUMNS) {
            for lanes in (0..HALVES).filter(|lanes| halves >> lanes & 1 != 0) {
                if let Some(cell) = self.cells.get_mut(at(column * HALVES + lanes)) {
                    f((column, lanes / 2), cell);
                }
            }
        }
    }

    fn read(&mut self, raw: &mut RawFindings, access: &Access<'_>, columns: (u32, u32), halves: u8) {
        self.each(columns, halves, |place, cell| {
            match &cell.write {
                None => access.empty(raw, place),
                Some(write) => access.compare(raw, place, write),
            }
            let same =
                |mark: &Mark| (mark.actor, mark.who.warp()) == (access.mark.actor, access.mark.who.warp());
            cell.reads.retain(|mark| !same(mark));
            cell.reads.push(access.mark);
        });
    }

    fn write(&mut self, raw: &mut RawFindings, access: &Access<'_>, columns: (u32, u32), halves: u8) {
        self.each(columns, halves, |place, cell| {
            let own =
                |mark: &Mark| mark.actor == access.mark.block && mark.who.warp() == access.mark.who.warp();
            for mark in cell.write.iter().chain(&cell.reads) {
                // A warp's own loads and stores before a store are executed in order.
                let ordered = access.mark.actor == access.mark.block && own(mark);
                if !ordered {
                    access.compare(raw, place, mark);
                }
            }
            *cell = Cell { write: Some(access.mark), reads: Vec::new() };
        });
    }

    /// An agent reads and writes columns.
    fn issued(
        &mut self,
        raw: &mut RawFindings,
        access: &Access<'_>,
        (reads, writes): (&[(u32, u32)], (u32, u32)),
        halves: u8,
    ) {
        for columns in reads {
            self.read(raw, access, *columns, halves);
        }
        self.write(raw, access, writes, halves);
    }
}

impl TensorUse {
    /// `None` if the program does not use tensor memory.
    pub(crate) fn of(context: &Context) -> Option<TensorUse> {
        let any = context.program.metas.iter().any(|meta| matches!(meta.op, Op::Tensor(_)));
        let fences = context.settings.has(Check::Fences).then(AfterFences::default);
        any.then(|| TensorUse { loads: TensorLoads::default(), fences })
    }

    /// Lanes of a warp execute a fence around a synchronization of threads.
    pub(crate) fn fence(&mut self, order: &Order, after: bool, all: &mut [TensorCells], issue: &Issue<'_>) {
        match &mut self.fences {
            Some(fences) if after => fences.execute(order, issue.warp, issue.exec),
            Some(_) => all.iter_mut().for_each(|cells| cells.publish(order, issue.warp)),
            None => {}
        }
    }

    /// Whether the next instruction of a warp cannot overwrite registers that a load has not written yet.
    pub(crate) fn is_calm(&self, warp: u32) -> bool {
        self.loads.are_complete(warp)
    }

    /// An instruction is about to be executed.
    pub(crate) fn issue(
        &mut self,
        context: &Context,
        block: u32,
        raw_findings: &mut RawFindings,
        issue: &Issue<'_>,
    ) {
        self.loads.issue(context, block, raw_findings, issue);
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
        let access = Access {
            context,
            order,
            mark: Mark { actor, block, who, time, pc, waited, published: None },
            known: Memo::new(None),
            fences: self.fences.as_ref(),
            fence: Memo::new(None),
            last: RefCell::default(),
        };
        if let TensorAction::Issued { reads, writes, halves, peer: Some(peer), .. } = action
            && let Some(cells) = all.get_mut(at(peer))
        {
            cells.issued(raw, &access, (reads, writes), halves);
        }
        let Some(cells) = all.get_mut(at(rank)) else { return };
        match action {
            TensorAction::Allocated(columns) => cells.each(columns, ALL, |_, cell| *cell = Cell::default()),
            TensorAction::Freed(columns) => cells.each(columns, ALL, |place, cell| {
                for mark in cell.write.iter().chain(&cell.reads) {
                    access.compare(raw, place, mark);
                }
                *cell = Cell::default();
            }),
            TensorAction::Loaded { columns, halves } => {
                for columns in columns {
                    cells.read(raw, &access, columns, halves);
                }
                self.loads.start(context, warp, pc);
            }
            TensorAction::Stored { columns, halves } => {
                for columns in columns {
                    cells.write(raw, &access, columns, halves);
                }
            }
            TensorAction::Issued { reads, writes, halves, .. } => {
                cells.issued(raw, &access, (reads, writes), halves);
            }
            TensorAction::Waited { stores } => {
                if !stores {
                    self.loads.wait(warp);
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
