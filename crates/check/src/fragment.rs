//! Provenance of matrix fragments: each element carries a tag with the buffer, row and column it was loaded from,
//! through registers and shared memory. Each `mma` checks whether the tags of its operands form a matrix tile.
//!
//! Checked at an `mma` (or `wmma.mma`): whether each index of the elements of A depends only on the row or only on k,
//! and likewise for B (`layout.rs` reports a tile for which this fails and nothing else explains it: exchanged
//! registers or quarters, a swizzle on one side only, a missing `.trans` in a tile of several quarters); and whether A
//! and B use contradicting orders of k, within one instruction or across the instructions that add to one accumulator
//! (`pairing.rs`). An operand may consist of accumulators, as P in attention does: then k of A is the line of B (the
//! key) that each accumulator stands for, through any arithmetic that involves no other accumulator. Checked at the end
//! of a block: whether the accumulators of a 16 × 8 tile fill a rectangle of the output in the wrong order.
//!
//! Rows and columns refer to the extents that the launch gives for a buffer; a kernel that stores a matrix in another
//! order gets findings about that order. Source: the fragment layouts of the PTX manual, in `isa/tile.rs`.
//!
//! Can miss: a whole operand transposed (it computes another product, which may be intended); elements of buffers that
//! the launch does not name or that are not matrices; addresses that depend on data; fragments in which some elements
//! are zeroed, or combine several elements; a tile of k that is missing, or that is wrong in all instructions alike;
//! sparse, 4-bit, 1-bit and f64 fragments; values that pass through local memory or calls. Never reports: a tile in
//! order, whatever its position, strides, transposition, or order of k.

mod event;
mod follow;
mod layout;
mod moves;
mod origin;
mod pairing;
mod pitch;
mod plan;
mod report;
mod state;
mod tags;

use super::Class;
use super::context::Context;
use super::raw::RawFindings;
use super::settings::{Check, Settings};
use event::{Event, InRegisters, Memory, What, values_of};
use follow::{Beginning, Followed, Record, Recorded, Records, needs_addresses};
use origin::Sources;
pub(super) use plan::Shape;
use plan::{Action, Plan};
use smallvec::SmallVec;
use state::State;
pub(super) use state::{place, registers_of};
use std::sync::Mutex;
use warpproof_sim::isa::Op;
use warpproof_sim::machine::{Access, AccessKind};
use warpproof_sim::memory::Space;
use warpproof_sim::observe::{Arrival, AsyncCopy, Exchange, Issue};
use warpproof_sim::program::Program;

/// What the blocks of a launch share: how instructions move tags, what the tags stand for, and what blocks did.
#[derive(Debug)]
pub(crate) struct Fragments {
    plan: Plan,
    sources: Sources,
    records: Mutex<Records>,
}

impl Fragments {
    /// `None` if the kernel has no fragments, or the launch names no matrix.
    pub(crate) fn of(program: &Program, settings: &Settings) -> Option<Fragments> {
        let sources = Sources::of(&settings.buffers);
        if sources.is_empty() {
            return None;
        }
        Some(Fragments { plan: Plan::of(program)?, sources, records: Mutex::default() })
    }

    /// Whether an instruction moves or uses tags.
    pub(crate) fn concern(&self, pc: u32) -> bool {
        self.plan.step(pc).is_some()
    }
}

/// An operand of a matrix instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operand {
    A,
    B,
}

/// The provenance of one block.
pub(crate) struct Provenance {
    block: u32,
    shared_bytes: u32,
    way: Way,
}

/// How a block is followed.
enum Way {
    /// It had no event yet.
    Unknown,
    /// Tag by tag.
    Alone(Box<State>),
    /// Tag by tag, and its events are recorded.
    Recorded(Box<State>, Box<Record>),
    /// It does what a record has.
    Following(Box<Followed>),
    /// It has ended without findings, with this many bytes of shadow state.
    Ended(usize),
}

impl Provenance {
    pub(crate) fn new(block: u32, shared_bytes: u32) -> Provenance {
        Provenance { block, shared_bytes, way: Way::Unknown }
    }

    /// An instruction that moves values between registers, or multiplies.
    pub(crate) fn issue(&mut self, context: &Context, raw_findings: &mut RawFindings, issue: &Issue<'_>) {
        let Some(fragments) = &context.fragments else { return };
        let Some(step) = fragments.plan.step(issue.pc) else { return };
        let whole = issue.live & !issue.exec == 0;
        let event = |what| Event { warp: issue.warp, pc: issue.pc, lanes: issue.exec, what };
        match step.action {
            Action::Multiply(shape) => {
                let values = &mut InRegisters { issue, shape };
                self.take(context, fragments, raw_findings, event(What::Multiply { whole, values }));
            }
            Action::Load(_)
            | Action::Store(_)
            | Action::MatrixLoad(_)
            | Action::MatrixStore(_)
            | Action::Shuffle => {}
            _ => {
                let values = &values_of(step, issue, fragments.plan.grain);
                self.take(context, fragments, raw_findings, event(What::Step { whole, values }));
            }
        }
    }

    /// Lanes that exchange values.
    pub(crate) fn exchange(
        &mut self,
        context: &Context,
        raw_findings: &mut RawFindings,
        exchange: &Exchange<'_>,
    ) {
        let (Some(fragments), Some(sources)) = (&context.fragments, exchange.sources) else { return };
        if fragments.concern(exchange.pc) {
            let what = What::Exchange { sources: &sources.0 };
            let event = Event { warp: exchange.warp, pc: exchange.pc, lanes: exchange.lanes, what };
            self.take(context, fragments, raw_findings, event);
        }
    }

    /// A copy that is complete.
    pub(crate) fn copy_done(&mut self, context: &Context, raw_findings: &mut RawFindings, copy: &AsyncCopy) {
        let Some(fragments) = &context.fragments else { return };
        let AsyncCopy { to, from, size, read, .. } = *copy;
        let what = What::Copy { to, from, size, read };
        let event = Event { warp: copy.warp, pc: copy.pc, lanes: 1 << (copy.lane % 32), what };
        self.take(context, fragments, raw_findings, event);
    }

    /// An access to memory.
    pub(crate) fn access(&mut self, context: &Context, raw_findings: &mut RawFindings, access: &Access<'_>) {
        let Some(fragments) = &context.fragments else { return };
        let step = fragments.plan.step(access.pc);
        let (space, bytes) = (access.space, access.bytes);
        let addresses = Some(&access.addresses.0);
        let stores = step.is_some_and(|step| {
            matches!(step.action, Action::Store(_) | Action::MatrixStore(_) | Action::FragmentStore)
        });
        let memory = if access.kind != AccessKind::Read && !stores {
            // A copy is followed when it is complete.
            let copied = access.deferred && matches!(context.program.op(access.pc), Op::CopyAsync(_));
            if space != Space::Shared || copied {
                return;
            }
            Memory { space, bytes, destroys: true, addresses }
        } else {
            let Some(step) = step else { return };
            let addresses = addresses.filter(|_| needs_addresses(step.action, step.steady, space));
            Memory { space, bytes, destroys: false, addresses }
        };
        let what = What::Access(memory);
        let event = Event { warp: access.warp, pc: access.pc, lanes: access.lanes, what };
        self.take(context, fragments, raw_findings, event);
    }

    /// Threads arrive at a barrier.
    pub(crate) fn arrive(&mut self, context: &Context, raw_findings: &mut RawFindings, arrival: &Arrival) {
        let Some(fragments) = &context.fragments else { return };
        let what = What::Arrive { id: arrival.id };
        let event = Event { warp: arrival.warp, pc: arrival.pc, lanes: arrival.lanes, what };
        self.take(context, fragments, raw_findings, event);
    }

    fn take(
        &mut self,
        context: &Context,
        fragments: &Fragments,
        raw_findings: &mut RawFindings,
        mut event: Event<'_>,
    ) {
        if let Way::Unknown = self.way {
            self.begin(context, fragments);
        }
        match &mut self.way {
            Way::Following(followed) => {
                if !followed.accept(&fragments.sources, &mut event) {
                    self.part_ways(context, fragments, raw_findings);
                    self.take(context, fragments, raw_findings, event);
                }
            }
            Way::Alone(state) => state.apply(context, fragments, raw_findings, event),
            Way::Recorded(state, record) => {
                if !recorded(context, fragments, raw_findings, (state, record), event) {
                    self.stop_recording();
                }
            }
            Way::Unknown | Way::Ended(_) => {}
        }
    }

    fn state(&self) -> Box<State> {
        Box::new(State::new(self.block, self.shared_bytes))
    }

    /// The first event.
    fn begin(&mut self, context: &Context, fragments: &Fragments) {
        // Only barriers order what warps do, and races are found.
        let strict = !context.sites.barriers_only || !context.settings.has(Check::Race);
        let beginning = match fragments.records.lock() {
            Ok(mut records) if !context.settings.each_block && !context.plain => records.begin(strict),
            _ => Beginning::Neither,
        };
        self.way = match beginning {
            Beginning::Record => Way::Recorded(self.state(), Box::default()),
            Beginning::Follow(followed) => Way::Following(followed),
            Beginning::Neither => Way::Alone(self.state()),
        };
    }

    /// A block no longer does what a record has: makes up for what was not followed.
    fn part_ways(&mut self, context: &Context, fragments: &Fragments, raw_findings: &mut RawFindings) {
        let state = self.state();
        let records = fragments.records.lock().is_ok_and(|mut records| records.admits_another());
        let way = if records { Way::Recorded(state, Box::default()) } else { Way::Alone(state) };
        if let Way::Following(followed) = std::mem::replace(&mut self.way, way) {
            followed.replay(|event| self.take(context, fragments, raw_findings, event));
        }
    }

    fn stop_recording(&mut self) {
        if let Way::Recorded(state, _) = std::mem::replace(&mut self.way, Way::Unknown) {
            self.way = Way::Alone(state);
        }
    }

    /// Bytes of shadow state for shared memory.
    pub(crate) fn bytes(&self) -> usize {
        match &self.way {
            Way::Alone(state) | Way::Recorded(state, _) => state.bytes(),
            Way::Following(followed) => followed.completed().unwrap_or(0),
            Way::Ended(bytes) => *bytes,
            Way::Unknown => 0,
        }
    }

    /// The block has had its last event: it becomes a record, if nothing was wrong.
    pub(crate) fn ended(&mut self, context: &Context, raw_findings: &RawFindings) {
        let Some(fragments) = &context.fragments else { return };
        let (state, mut record) = match std::mem::replace(&mut self.way, Way::Unknown) {
            Way::Recorded(state, record) => (state, record),
            way => {
                self.way = way;
                return;
            }
        };
        let bytes = state.bytes();
        let found = raw_findings.has(Class::Provenance) || report::old_tiles(raw_findings);
        // What is reported at the end, if nothing excuses it.
        let mut last = RawFindings::default();
        if !found && !state.is_doubtful() {
            state.finish(context, fragments, &mut last);
        }
        if !found && !state.is_doubtful() && last.is_empty() {
            record.shadow = bytes;
            if let Ok(mut records) = fragments.records.lock() {
                records.add(*record);
            }
            self.way = Way::Ended(bytes);
        } else {
            self.way = Way::Alone(state);
        }
    }

    /// Reports what is known only at the end of the block: sums, skipped rows and stores.
    pub(crate) fn finish(mut self, context: &Context, raw_findings: &mut RawFindings) {
        let Some(fragments) = &context.fragments else { return };
        if let Way::Following(followed) = &self.way
            && followed.completed().is_none()
        {
            self.part_ways(context, fragments, raw_findings);
        }
        if let Way::Alone(state) | Way::Recorded(state, _) = &self.way {
            state.finish(context, fragments, raw_findings);
        }
    }
}

/// Applies an event and records it. Returns whether the record is not too long.
fn recorded(
    context: &Context,
    fragments: &Fragments,
    raw_findings: &mut RawFindings,
    (state, record): (&mut State, &mut Record),
    event: Event<'_>,
) -> bool {
    let Event { warp, pc, lanes, what } = event;
    match what {
        What::Multiply { whole, values } => {
            let mut values = Recorded { values, answers: SmallVec::new() };
            let what = What::Multiply { whole, values: &mut values };
            state.apply(context, fragments, raw_findings, Event { warp, pc, lanes, what });
            let Recorded { values, answers } = values;
            let event = Event { warp, pc, lanes, what: What::Multiply { whole, values } };
            record.push(&fragments.sources, &event, &answers)
        }
        what => {
            let event = Event { warp, pc, lanes, what };
            let fits = record.push(&fragments.sources, &event, &[]);
            state.apply(context, fragments, raw_findings, event);
            fits
        }
    }
}
