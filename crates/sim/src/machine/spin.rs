//! Detects infinite loops: lanes return to an earlier state, and nothing that they could read changes.
//!
//! Without this, a kernel that waits for an event that never happens would run until the instruction limit. After a long
//! stretch in which no barrier completed and no thread exited, the warps of a block are therefore run for a while
//! instruction by instruction. If every lane that can run returns to the same location with the same registers, and no
//! store or atomic changed a byte meanwhile, memory stays unchanged and each of them repeats itself forever, in any order
//! of execution. This is certain, so it is reported as a deadlock. Loops that print, or whose period is longer than
//! [`LONGEST`], are not decided; they run to the limit.
//!
//! Loops often read a clock, to sleep longer each time or to time out. During the check, every clock read is [`LONG`] after
//! the previous one, as if the device had done other work meanwhile: a loop with a timeout times out, and a loop with
//! increasing sleep reaches its longest sleep. Registers that hold times then differ in every iteration and are ignored. A
//! loop that reads nothing but clocks is not decided.
//!
//! Instructions executed during the check are part of the run and need not be undone.

use super::block::{BlockRun, Progress};
use super::warp::Turn;
use super::{Grid, Mbarrier, Registers, Row, Subwarp, Warp, WarpState, at};
use crate::isa::op::{Mbarrier as MbarrierInstruction, MbarrierOp};
use crate::isa::{Callee, Op};
use crate::memory::{Global, Space};
use crate::observe::Observer;
use crate::program::TimeRows;
use std::collections::BTreeSet;

/// Instructions without a completed barrier or an exit after which to check.
const QUIET: u64 = 1 << 16;
/// The part of such a stretch that is spent on checking a warp: it bounds the cost for blocks that make progress after all.
const SHARE: u64 = 256;
/// Instructions of each warp in a check because all warps poll mbarriers.
pub(super) const POLLING: u64 = 256;
/// The longest loop period that is detected, in instructions of a warp.
pub(super) const LONGEST: u64 = 1 << 16;
/// The age of the first snapshot; each later one is kept twice as long as the previous one.
const FIRST_SNAPSHOT: u64 = 64;

/// The time between two clock reads during a check: longer than programs wait, both in the full clock and in its low 32
/// bits.
const LONG: u64 = 1 << 40 | 1 << 30;

/// Iterations of a loop that reads a clock: in the first, a branch may still depend on an older time, and four iterations
/// cover the range of a 32-bit clock.
const TIMED_ROUNDS: u32 = 6;

/// When to check.
#[derive(Debug, Default)]
pub(super) struct Suspicion {
    progress: u64,
    since: u64,
    next: u64,
}

impl Suspicion {
    /// Returns for how many instructions of each warp to check, if a check is due after this number of instructions.
    /// `progress` counts irreversible events.
    pub(super) fn is_due(&mut self, instructions: u64, progress: u64) -> Option<u64> {
        if progress != self.progress || self.next == 0 {
            *self = Suspicion { progress, since: instructions, next: instructions.saturating_add(QUIET) };
            return None;
        }
        if instructions < self.next {
            return None;
        }
        let quiet = instructions.saturating_sub(self.since);
        self.next = instructions.saturating_add(quiet.max(QUIET));
        Some((quiet / SHARE).min(LONGEST))
    }
}

/// Lanes in an infinite loop.
#[derive(Clone, Debug)]
pub(super) struct Spin {
    /// The rank of the warp's block in its cluster.
    pub rank: u32,
    pub warp: u32,
    pub lanes: u32,
    /// The instruction that reads the unchanged value.
    pub pc: u32,
    /// A description of what it reads, if there is one.
    pub reads: Option<String>,
    /// An address in global memory that the loop reads, if its instruction is a load.
    pub address: Option<u64>,
    /// Whether the lanes read memory that other blocks may write.
    pub global: bool,
}

/// The result of checking a block.
pub(super) enum Look {
    /// It may still make progress.
    Moves,
    /// It cannot make progress, unless another block changes memory.
    Stuck(Vec<Spin>),
    /// It ended.
    Ended(Progress),
}

/// A snapshot of the lanes of a warp.
struct Snapshot {
    regs: Registers,
    carry: u32,
    subwarps: Vec<Subwarp>,
    /// Lanes that have executed an instruction since.
    moved: u32,
    /// Lanes that have returned to their state in the snapshot at some moment since.
    back: u32,
    /// The kinds of instructions executed since, with their lanes.
    trail: Vec<(u32, u32)>,
}

impl Snapshot {
    fn of(warp: &WarpState) -> Snapshot {
        let subwarps = warp.parked.iter().chain([&warp.subwarp]).filter(|f| f.mask != 0);
        Snapshot {
            regs: warp.regs.clone(),
            carry: warp.carry,
            subwarps: subwarps.cloned().collect(),
            moved: 0,
            back: 0,
            trail: Vec::new(),
        }
    }

    /// The lanes that are at the same location with the same registers, ignoring times.
    fn same(&self, warp: &WarpState, times: &TimeRows) -> u32 {
        let mut here = 0;
        for now in warp.parked.iter().chain([&warp.subwarp]) {
            for then in &self.subwarps {
                if now.pc == then.pc
                    && now.wait == then.wait
                    && now.sp == then.sp
                    && now.dynamic == then.dynamic
                    && now.frames == then.frames
                {
                    here |= now.mask & then.mask;
                }
            }
        }
        if here & self.moved == 0 {
            return here;
        }
        let mut differ = warp.carry ^ self.carry;
        for (row, (now, then)) in (0u32..).zip(warp.regs.preds.iter().zip(&self.regs.preds)) {
            if now != then && !times.preds.contains(&row) {
                differ |= now ^ then;
            }
        }
        differ |= differences(&warp.regs.w32, &self.regs.w32, &times.w32);
        differ |= differences(&warp.regs.w64, &self.regs.w64, &times.w64);
        differ |= differences(&warp.regs.w128, &self.regs.w128, &times.w128);
        here & !differ
    }
}

/// The lanes in which rows differ, ignoring the rows in `times`.
fn differences<T: PartialEq>(now: &[Row<T>], then: &[Row<T>], times: &BTreeSet<u32>) -> u32 {
    let mut differ = 0;
    for (row, (now, then)) in (0u32..).zip(now.iter().zip(then)) {
        if now.0 == then.0 || times.contains(&row) {
            continue;
        }
        for (lane, (now, then)) in now.0.iter().zip(&then.0).enumerate() {
            differ |= u32::from(now != then) << lane;
        }
    }
    differ
}

impl Warp<'_, '_> {
    /// The time: the warp's own instruction count, so that it is the same in every run, plus the time skipped during
    /// checks.
    pub fn time(&mut self) -> u64 {
        if self.cta.probed {
            self.cta.later = self.cta.later.wrapping_add(LONG);
        }
        self.state.clock.wrapping_add(self.cta.later)
    }
}

impl BlockRun {
    /// Irreversible events: completed barriers and exited threads.
    pub(super) fn progress(&self) -> u64 {
        let barriers = self.ctas.iter().flat_map(|cta| &cta.barriers);
        let phases: u64 = barriers.map(|barrier| barrier.phase).sum();
        let exited: u64 = self.warps.iter().map(|warp| u64::from(warp.exited.count_ones())).sum();
        phases + exited
    }

    /// Runs each warp for at most this number of instructions, to see whether it can make progress.
    pub(super) fn look<'a>(
        &mut self,
        grid: &'a Grid<'a>,
        global: &mut Global<'_>,
        mut watch: Option<&mut (dyn Observer + 'static)>,
        steps: u64,
    ) -> Look {
        if self.warps.iter().any(|warp| warp.arrivals > 0) || self.tracks() || self.awaits_grids() {
            // Arrivals that wait for copies are still to come, and transactions of bulk copies, and the end of other grids.
            return Look::Moves;
        }
        self.wake_all();
        self.set_probed(true);
        self.set_changed(false);
        let (before, printed) = (self.progress(), self.printed());
        let mut spins = Vec::new();
        let mut result = None;
        for i in self.order.clone() {
            if self.done[i] {
                continue;
            }
            let watch = watch.as_deref_mut().map(|w| -> &mut (dyn Observer + 'static) { w });
            match self.look_at(i, grid, global, watch, steps) {
                Look::Stuck(found) => spins.extend(found),
                other => {
                    result = Some(other);
                    break;
                }
            }
            if self.changed() || self.progress() != before || self.printed() != printed {
                result = Some(Look::Moves);
                break;
            }
        }
        self.set_probed(false);
        // A copy may still bring data that a loop reads, but it arrives at no mbarrier.
        let bulk = self.ctas.iter().any(|cta| !cta.bulk.is_empty());
        let copies = bulk || self.warps.iter().any(|warp| !warp.copies.is_empty());
        let decided = !copies || spins.iter().all(|spin| Effect::of(grid, spin.pc) == Effect::Asks);
        // The scheduler already detects that all warps wait.
        let nothing = if spins.is_empty() || !decided { Look::Moves } else { Look::Stuck(spins) };
        result.unwrap_or(nothing)
    }

    fn look_at<'a>(
        &mut self,
        i: usize,
        grid: &'a Grid<'a>,
        global: &mut Global<'_>,
        mut watch: Option<&mut (dyn Observer + 'static)>,
        steps: u64,
    ) -> Look {
        let exited = self.warps[i].exited;
        let mut snapshot = Snapshot::of(&self.warps[i]);
        let mut renew = FIRST_SNAPSHOT;
        let needed = if grid.program.time_rows.is_empty() { 1 } else { TIMED_ROUNDS };
        let mut rounds = needed;
        let rank = at(self.warps[i].rank);
        self.ctas[rank].met = false;
        for step in 0..steps {
            if step == renew {
                rounds = needed;
                snapshot = Snapshot::of(&self.warps[i]);
                renew *= 2;
                self.ctas[rank].met = false;
            }
            let state = &mut self.warps[i];
            let before = state.clock;
            let watch = watch.as_deref_mut().map(|w| -> &mut (dyn Observer + 'static) { w });
            let mut warp = Warp::new(state, &mut self.ctas, grid, &mut *global, watch, true);
            let turn = warp.run(1);
            let ran = warp.state.clock - before;
            match turn {
                Turn::Stopped => {
                    let stop = warp.stop.take();
                    self.instructions += ran;
                    return stop.map_or(Look::Moves, |stop| Look::Ended(Progress::Stopped(stop)));
                }
                Turn::Done => {
                    self.instructions += ran;
                    self.done[i] = true;
                    return Look::Moves;
                }
                // All its lanes wait for others.
                Turn::Blocked => return Look::Stuck(Vec::new()),
                Turn::Stood => {
                    self.paused = true;
                    return Look::Moves;
                }
                Turn::Expired | Turn::Paused => {}
            }
            let effect = Effect::of(grid, warp.pc);
            if warp.cta.changed
                || warp.cta.arrived
                || warp.state.exited != exited
                || effect == Effect::Unknown
            {
                self.instructions += ran;
                return Look::Moves;
            }
            warp.cta.met |= effect == Effect::Exchange;
            snapshot.moved |= warp.exec;
            snapshot.trail.push((warp.pc, warp.exec));
            let found = snapshot.repeats(&warp).then(|| snapshot.spins(&warp));
            self.instructions += ran;
            if let Some(spins) = found {
                // A loop that only time can end may end at any time.
                let timed = |spin: &Spin| needed > 1 && Effect::of(grid, spin.pc) > Effect::ReadsGlobal;
                rounds = if spins.iter().any(timed) { needed } else { rounds - 1 };
                if rounds == 0 {
                    return Look::Stuck(spins);
                }
                snapshot = Snapshot::of(&self.warps[i]);
                self.ctas[rank].met = false;
            }
        }
        Look::Moves
    }
}

impl Snapshot {
    /// Whether every lane of the warp waits or repeats itself.
    fn repeats(&mut self, warp: &Warp<'_, '_>) -> bool {
        let state = &*warp.state;
        let same = self.same(state, &warp.grid.program.time_rows);
        let waiting = state
            .parked
            .iter()
            .chain([&state.subwarp])
            .filter(|subwarp| !warp.runnable(subwarp))
            .fold(0, |lanes, subwarp| lanes | subwarp.mask);
        let live = !state.exited;
        if warp.cta.met {
            // Lanes affect each other: all of them must be in their earlier state at one moment.
            return live & !(same & (self.moved | waiting)) == 0 && self.moved != 0;
        }
        self.back |= same & self.moved;
        live & !(self.back | waiting) == 0 && self.back != 0
    }

    /// Which lanes loop, and where.
    fn spins(&self, warp: &Warp<'_, '_>) -> Vec<Spin> {
        let mut rest = !warp.state.exited & self.moved;
        let mut spins = Vec::new();
        while rest != 0 {
            let lane = rest.trailing_zeros();
            let own = || self.trail.iter().filter(|(_, lanes)| lanes >> lane & 1 != 0).map(|(pc, _)| *pc);
            let rank = |pc: &u32| (Effect::of(warp.grid, *pc), *pc);
            let Some(pc) = own().min_by_key(rank) else { break };
            let lanes =
                self.trail.iter().filter(|(at, _)| *at == pc).fold(0, |all, (_, lanes)| all | lanes) & rest;
            let global = self
                .trail
                .iter()
                .any(|(pc, by)| by & lanes != 0 && Effect::of(warp.grid, *pc) == Effect::ReadsGlobal);
            let (rank, id) = (warp.state.rank, warp.state.id);
            let address = polled(warp, pc, lane);
            spins.push(Spin { rank, warp: id, lanes, pc, reads: reads(warp, pc, lane), address, global });
            rest &= !lanes;
        }
        spins
    }
}

/// The address in global memory that an instruction reads.
fn polled(warp: &Warp<'_, '_>, pc: u32, lane: u32) -> Option<u64> {
    if Effect::of(warp.grid, pc) != Effect::ReadsGlobal || !matches!(warp.grid.program.op(pc), Op::Load(_)) {
        return None;
    }
    let inst = warp.grid.program.code.get(at(pc))?;
    let address = warp.addresses(inst.args.at[0]).0[at(lane)];
    (Space::resolve(address).0 == Space::Global).then_some(address)
}

/// What a polled mbarrier is missing.
fn reads(warp: &Warp<'_, '_>, pc: u32, lane: u32) -> Option<String> {
    let Op::Mbarrier(mbarrier) = warp.grid.program.op(pc) else { return None };
    let inst = warp.grid.program.code.get(at(pc))?;
    let address = warp.addresses(inst.args.at[0]).0[at(lane)];
    let address = if mbarrier.space == Space::Shared { address } else { Space::resolve(address).1 };
    let word = warp.read_lane(Space::Shared, at(lane), address, 8).ok()?;
    let state = Mbarrier::unpack(u64::try_from(word).ok()?).ok()?.lacks();
    Some(format!("the mbarrier at shared address {address:#x} {state}"))
}

/// The side effects of an instruction, as far as they matter for infinite loops. The kinds that explain a loop best come
/// first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Effect {
    /// Tests an mbarrier.
    Asks,
    /// Reads memory that other threads of the block may write.
    Reads,
    /// Reads memory that other blocks may write.
    ReadsGlobal,
    /// Changes control flow.
    Branches,
    /// Computes from its registers.
    Computes,
    /// Depends on other lanes of the warp.
    Exchange,
    /// Has an effect that this module does not model, or a result that differs each time.
    Unknown,
}

impl Effect {
    pub(super) fn of(grid: &Grid<'_>, pc: u32) -> Effect {
        match grid.program.op(pc) {
            Op::Mbarrier(MbarrierInstruction {
                action: MbarrierOp::TestWait | MbarrierOp::TryWait, ..
            }) => Effect::Asks,
            Op::Mbarrier(_) => Effect::Reads,
            Op::Load(load) => match load.space {
                Space::Param | Space::Const | Space::Local => Effect::Computes,
                Space::Shared => Effect::Reads,
                Space::Global | Space::Generic => Effect::ReadsGlobal,
            },
            Op::Atomic(atomic) if atomic.returns => {
                if atomic.space == Space::Shared {
                    Effect::Reads
                } else {
                    Effect::ReadsGlobal
                }
            }
            Op::Texture(_) | Op::SurfaceLoad(_) => Effect::ReadsGlobal,
            Op::Branch | Op::BranchTable => Effect::Branches,
            Op::WarpSync { .. }
            | Op::Shuffle(_)
            | Op::Vote { .. }
            | Op::Match { .. }
            | Op::Redux { .. }
            | Op::Elect
            | Op::ActiveMask
            | Op::LoadMatrix(_)
            | Op::StoreMatrix(_)
            | Op::TransposeMatrix
            | Op::LoadTile(_)
            | Op::StoreTile(_)
            | Op::Multiply(_)
            | Op::MultiplyFence => Effect::Exchange,
            // What a function of the module returns is in registers, and whether it changes memory is seen there.
            Op::Barrier(_)
            | Op::ClusterBarrier { .. }
            | Op::Call(Callee::System)
            | Op::CopyAsync(_)
            | Op::CommitGroup
            | Op::WaitGroup(_)
            | Op::WaitAll
            | Op::CopiesArrive
            | Op::Bulk(_)
            | Op::Fill
            | Op::TensorMap
            | Op::MultiplyAsync(_)
            | Op::MultiplyCommit
            | Op::MultiplyWait(_)
            | Op::Tensor(_)
            | Op::Exit
            | Op::Trap
            | Op::SetRegisters
            | Op::Stack(_)
            | Op::Refused => Effect::Unknown,
            Op::Arithmetic(_)
            | Op::Logic(_)
            | Op::Bits(_)
            | Op::Compare(_)
            | Op::Test(_)
            | Op::Select(_)
            | Op::Move(_)
            | Op::ConvertAddress
            | Op::TestSpace
            | Op::Convert(_)
            | Op::Store(_)
            | Op::Atomic(_)
            | Op::SurfaceStore(_)
            | Op::SurfaceReduce(_)
            | Op::ImageQuery
            | Op::CacheHint
            | Op::Discard
            | Op::CachePolicy
            | Op::Fence(_)
            | Op::Call(Callee::Function | Callee::Pointer)
            | Op::Return
            | Op::Event
            | Op::Sleep
            | Op::GridDependency { .. }
            | Op::Parameter => Effect::Computes,
        }
    }
}
