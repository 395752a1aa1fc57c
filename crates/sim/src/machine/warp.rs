//! A warp: 32 lanes, one dispatch per instruction for all of them.

use super::block::{CLUSTER_BARRIER, Stops};
use super::{Cta, Grid, Multiplies, Pending, PendingCopy, Registers, Row, Subwarp, Wait};
use crate::isa::Args;
use crate::memory::{Global, LocalMemory};
use crate::observe::{
    Detail, Exchange, Guarded, Holder, Mbarrier, MbarrierAction, Moved, Observer, Sight, Stretch,
};
use crate::program::Inst;
use crate::stop::{Blame, Stop, StopKind};

/// The effect of a routine on control flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// Continue with the next instruction.
    Next,
    /// The current subwarp's program counter was set.
    Jump,
    /// The lanes in `exec` stay at this instruction; the subwarp's `wait` has the reason.
    Wait,
    /// Continue with the next instruction in the warp's next turn: the lanes poll, and other warps must run.
    Pause,
    /// Lanes left the current subwarp, or it became empty: choose again. The routine set every program counter.
    Split,
    /// The launch ends; `warp.stop` has the reason.
    Stop,
}

/// The state of a warp between turns.
#[derive(Debug, Default)]
pub struct WarpState {
    /// Its number in the block.
    pub id: u32,
    /// The rank of its block in the cluster.
    pub rank: u32,
    /// The registers.
    pub regs: Registers,
    /// The subwarp that runs or ran last; empty when all lanes have exited or are parked.
    pub subwarp: Subwarp,
    /// The other subwarps.
    pub parked: Vec<Subwarp>,
    /// Lanes that have exited or never existed.
    pub exited: u32,
    /// The condition code's carry bit of each lane.
    pub carry: u32,
    /// Local memory.
    pub local: LocalMemory,
    /// Instructions executed by this warp.
    pub clock: u64,
    /// Work of expensive instructions that is not yet converted to instructions.
    pub extra: u64,
    /// How the subwarp of the next turn is chosen.
    pub(super) choice: Choice,
    /// The address at which the running subwarp may join another.
    pub(super) meet: u32,
    /// When the running subwarp yields to another that can run.
    pub(super) gives_way: u64,
    /// `cp.async` copies that are not complete, and arrivals at mbarriers that follow them, oldest first.
    pub copies: Vec<Pending>,
    /// How many of those are arrivals.
    pub arrivals: u32,
    /// Groups committed so far, by lane.
    pub committed: [u32; 32],
    /// Bulk groups committed so far, by lane.
    pub bulk_committed: [u32; 32],
    /// `wgmma.mma_async` in flight.
    pub multiplies: Multiplies,
    /// One more than the phase in which each lane arrived at the cluster's barrier; 0 if it did not.
    pub cluster: [u64; 32],
    /// Whether it may take the step before which it stopped.
    pub(super) granted: bool,
    /// Whether it stopped before a step.
    pub(super) stands: bool,
    /// The members of each lane's group, while lanes that synchronized at copies of a `.sync` instruction execute it.
    pub(crate) meeting: Option<Box<Row<u32>>>,
    /// What it knows of loops in which it waits.
    pub(super) naps: super::naps::Naps,
}

/// A warp while it runs: its state, its block, and the device around it.
pub struct Warp<'a, 'm> {
    /// Lanes that execute the current instruction.
    pub exec: u32,
    /// The current instruction.
    pub pc: u32,
    /// The warp's own state.
    pub state: &'a mut WarpState,
    /// The block.
    pub cta: &'a mut Cta,
    /// The other blocks of the cluster: those of lower and of higher rank.
    pub(super) peers: (&'a mut [Cta], &'a mut [Cta]),
    /// Data that all blocks share.
    pub grid: &'a Grid<'a>,
    /// Device memory as the block sees it.
    pub global: &'a mut Global<'m>,
    /// The observer.
    pub watch: Option<&'a mut (dyn Observer + 'static)>,
    /// Whether changes by stores must be tracked: for the observer, or to detect infinite loops.
    pub heard: bool,
    /// The same, if no loop is recorded.
    pub(super) hears: bool,
    /// Why the launch ends.
    pub stop: Option<Box<Stop>>,
}

/// How a turn of a warp ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// All lanes have exited.
    Done,
    /// No subwarp can run until something outside the warp happens.
    Blocked,
    /// The turn's instructions are used up.
    Expired,
    /// It polls an mbarrier whose phase is not complete.
    Paused,
    /// It stopped before an instruction that it may not execute yet.
    Stood,
    /// The launch ends.
    Stopped,
}

/// Instructions that a subwarp runs before another runnable subwarp of the warp gets its turn, if the program has
/// instructions by which lanes wait for each other.
const SLICE: u64 = 1024;
/// The same for a program without such instructions. Its lanes wait at a join while others run a long loop, so they should
/// not continue alone; only a program that polls memory by plain loads, which is a race, depends on the turn.
const LONG_SLICE: u64 = 1 << 20;
/// Bytes that an instruction may move one by one before it counts as more than one instruction.
pub(crate) const WORK_UNIT: u64 = 4096;
/// Slices after which a runnable subwarp gets its turn even if other subwarps, which diverge and join again before a
/// slice ends, always come first.
const PATIENCE: u64 = 16;

/// How to continue after an instruction that ended a stretch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Choice {
    /// Choose a subwarp by its location.
    #[default]
    ByPlace,
    /// Choose the subwarp that ran least recently.
    ByAge,
    /// Continue with the same subwarp: only the warp's turn ended. The length of turns has no effect within a warp.
    Same,
}

impl<'a, 'm> Warp<'a, 'm> {
    /// A warp that is about to run; `heard` as in the field.
    pub(super) fn new(
        state: &'a mut WarpState,
        ctas: &'a mut [Cta],
        grid: &'a Grid<'a>,
        global: &'a mut Global<'m>,
        mut watch: Option<&'a mut (dyn Observer + 'static)>,
        heard: bool,
    ) -> Warp<'a, 'm> {
        // Every warp belongs to one of the blocks.
        let rank = super::at(state.rank).min(ctas.len() - 1);
        if let (Some(watch), true) = (watch.as_deref_mut(), ctas.len() > 1) {
            watch.enter(state.rank);
        }
        let (lower, rest) = ctas.split_at_mut(rank);
        let (cta, higher) = rest.split_at_mut(1);
        let (cta, peers) = (&mut cta[0], (lower, higher));
        let hears = heard;
        let heard = heard || state.naps.records;
        Warp { exec: 0, pc: 0, state, cta, peers, grid, global, watch, heard, hears, stop: None }
    }
}

impl Warp<'_, '_> {
    /// Runs at most `quantum` instructions.
    pub fn run(&mut self, quantum: u64) -> Turn {
        match self.watch.as_deref().map(Observer::detail) {
            None if !self.grid.program.has_faster_bundles => self.run_loop::<false, false, false>(quantum),
            None => self.run_loop::<false, false, true>(quantum),
            Some(Detail::Instructions) => self.run_loop::<true, false, true>(quantum),
            Some(Detail::Stretches) => self.run_loop::<false, true, true>(quantum),
        }
    }

    /// Runs, and reports to the observer each instruction (`WATCHED`), stretches (`COUNTED`), or neither; by bundles where they are
    /// faster (`BUNDLED`).
    fn run_loop<const WATCHED: bool, const COUNTED: bool, const BUNDLED: bool>(
        &mut self,
        quantum: u64,
    ) -> Turn {
        let code: &[Inst] = &self.grid.program.code;
        let sights = if WATCHED { self.watch.as_deref().and_then(Observer::sights) } else { None };
        let sight = |pc: u32| match &sights {
            Some(sights) => sights.get(super::at(pc)).copied().unwrap_or(Sight::Always),
            None => Sight::Always,
        };
        // Whether the observer need not see the next instruction if that depends on it.
        let mut calm = false;
        let mut end = self.state.clock.saturating_add(quantum);
        let mut paused = false;
        loop {
            if self.state.choice != Choice::Same {
                let Some(meet) = self.select(self.state.choice == Choice::ByAge) else {
                    self.state.choice = Choice::ByPlace;
                    let empty = self.state.subwarp.mask == 0 && self.state.parked.is_empty();
                    return if empty { Turn::Done } else { Turn::Blocked };
                };
                self.state.meet = meet;
                // A single subwarp runs to the end of the turn; with other subwarps, to the end of its slice.
                self.state.gives_way =
                    if self.state.parked.is_empty() { u64::MAX } else { self.state.clock + self.slice() };
            }
            let (meet, gives_way) = (self.state.meet, self.state.gives_way);
            let mut slice = end.min(gives_way);
            if self.grid.plain {
                // One instruction: no bundle fits, and no stretch is longer.
                slice = slice.min(self.state.clock + 1);
            }
            let mut pc = self.state.subwarp.pc;
            let mut clock = self.state.clock;
            // The start of the stretch of instructions that is not reported yet, and its lanes.
            let (mut from, mut lanes) = (pc, self.state.subwarp.mask);
            self.state.choice = loop {
                let Some(inst) = code.get(super::at(pc)) else {
                    self.state.clock = clock;
                    self.pc = pc;
                    self.halt(Blame::Bug, StopKind::Internal, "the program counter left the code".into());
                    return Turn::Stopped;
                };
                clock += 1;
                let mask = self.state.subwarp.mask;
                let bundled = match &inst.bundle {
                    Some(bundle)
                        if BUNDLED
                            && !self.state.naps.records
                            && (WATCHED || bundle.is_faster())
                            && mask == u32::MAX
                            && clock + u64::from(bundle.length()) - 1 <= slice
                            && pc.saturating_add(bundle.length()) <= meet =>
                    {
                        self.exec = mask;
                        if WATCHED && !calm {
                            calm = sights.is_some() && self.is_observer_calm();
                        }
                        let may = !WATCHED || calm && self.cta.stops == Stops::Nowhere;
                        if may { (bundle.execute)(self, bundle) } else { None }
                    }
                    _ => None,
                };
                self.exec = match inst.guard {
                    None => mask,
                    Some((row, negated)) => {
                        let p = self.state.regs.preds[super::at(row)];
                        mask & if negated { !p } else { p }
                    }
                };
                self.pc = pc;
                let exec = self.exec;
                let flow = if let Some((before, flow)) = bundled {
                    pc += before;
                    clock += u64::from(before);
                    flow
                } else if self.exec == 0 {
                    if WATCHED && !calm {
                        self.observe(pc);
                    }
                    Flow::Next
                } else {
                    // An instruction that waited is executed again; it was reported the first time.
                    if WATCHED && self.state.subwarp.wait == Wait::None {
                        if self.cta.stops != Stops::Nowhere && self.stops_before(pc) {
                            self.state.clock = clock - 1;
                            self.state.subwarp.pc = pc;
                            self.state.choice = Choice::Same;
                            return Turn::Stood;
                        }
                        if !calm || sight(pc) == Sight::Always {
                            self.observe(pc);
                            calm = sights.is_some() && self.is_observer_calm();
                        }
                    }
                    self.state.clock = clock;
                    let flow = (inst.run)(self, &inst.args);
                    if WATCHED && calm {
                        calm = match sight(pc) {
                            Sight::UnlessCalmPure => true,
                            Sight::UnlessCalm => self.is_observer_calm(),
                            Sight::Always => false,
                        };
                    }
                    flow
                };
                if COUNTED && inst.guard.is_some() && !matches!(flow, Flow::Wait) {
                    self.told_guarded(pc, exec, lanes);
                }
                if exec != 0 && self.state.naps.records {
                    self.record_instruction(pc);
                }
                match flow {
                    Flow::Next => {
                        pc += 1;
                    }
                    Flow::Pause => {
                        pc += 1;
                        end = clock;
                        slice = clock;
                        paused = true;
                    }
                    Flow::Jump => {
                        if COUNTED {
                            self.told_stretch(from, pc + 1, lanes);
                        }
                        let source = std::mem::replace(&mut pc, self.state.subwarp.pc);
                        (from, lanes) = (pc, self.state.subwarp.mask);
                        if pc <= source && self.cta.may_nap && self.sleeps(clock) {
                            break Choice::ByPlace;
                        }
                    }
                    Flow::Wait => {
                        if COUNTED {
                            self.told_stretch(from, pc, lanes);
                        }
                        clock -= 1;
                        self.state.subwarp.pc = pc;
                        if self.exec != self.state.subwarp.mask {
                            // The guarded lanes wait; the others continue.
                            let mut waiting = self.state.subwarp.clone();
                            waiting.mask = self.exec;
                            self.state.parked.push(waiting);
                            let rest = &mut self.state.subwarp;
                            rest.mask &= !self.exec;
                            rest.wait = Wait::None;
                            rest.pc = pc + 1;
                        }
                        break Choice::ByPlace;
                    }
                    Flow::Split => {
                        if COUNTED {
                            self.told_stretch(from, pc + 1, lanes);
                        }
                        break Choice::ByPlace;
                    }
                    Flow::Stop => {
                        if COUNTED {
                            self.told_stretch(from, pc + 1, lanes);
                        }
                        self.state.clock = clock;
                        return Turn::Stopped;
                    }
                }
                if COUNTED && (clock >= slice || pc >= meet) {
                    self.told_stretch(from, pc, lanes);
                }
                if clock >= slice {
                    self.state.subwarp.pc = pc;
                    break if clock >= gives_way {
                        Choice::ByAge
                    } else if pc >= meet {
                        Choice::ByPlace
                    } else {
                        Choice::Same
                    };
                }
                if pc >= meet {
                    self.state.subwarp.pc = pc;
                    break Choice::ByPlace;
                }
            };
            clock = clock.saturating_add(std::mem::take(&mut self.state.extra));
            self.state.clock = clock;
            if clock >= end {
                return if paused { Turn::Paused } else { Turn::Expired };
            }
        }
    }

    /// Whether the warp stops here; it continues when it runs again.
    #[cold]
    #[inline(never)]
    fn stops_before(&mut self, pc: u32) -> bool {
        match &mut self.cta.stops {
            Stops::Before { pc: place, times: 0 } if *place == pc => {
                self.cta.stops = Stops::Nowhere;
                true
            }
            Stops::Before { pc: place, times } if *place == pc => {
                *times -= 1;
                false
            }
            Stops::Nowhere | Stops::Before { .. } => false,
            Stops::Steps => {
                let step = self.grid.steps.get(super::at(pc)).is_some_and(|step| *step);
                step && !std::mem::take(&mut self.state.granted)
            }
        }
    }

    #[inline]
    fn is_observer_calm(&self) -> bool {
        self.watch.as_deref().is_some_and(|watch| watch.is_calm(self.state.id))
    }

    #[cold]
    #[inline(never)]
    fn observe(&mut self, pc: u32) {
        let issue = crate::observe::Issue {
            block: self.cta.linear,
            warp: self.state.id,
            pc,
            exec: self.exec,
            here: self.state.subwarp.mask,
            live: !self.state.exited,
            registers: &self.state.regs,
            program: self.grid.program,
        };
        if let Some(watch) = self.watch.as_deref_mut() {
            if self.exec == 0 {
                watch.pass(&issue);
            } else {
                watch.issue(&issue);
            }
        }
    }

    /// Reports the executed stretch to the observer.
    #[inline(never)]
    pub(super) fn told_stretch(&mut self, start: u32, end: u32, lanes: u32) {
        if let Some(watch) = self.watch.as_deref_mut().filter(|_| start < end) {
            watch.stretch(&Stretch { warp: self.state.id, code: start..end, lanes });
        }
    }

    /// Reports an instruction with a guard to an observer of stretches.
    #[inline(never)]
    pub(super) fn told_guarded(&mut self, pc: u32, exec: u32, here: u32) {
        if let Some(watch) = self.watch.as_deref_mut() {
            watch.guarded(&Guarded { warp: self.state.id, pc, exec, here });
        }
    }

    /// Reports to the observer that lanes diverge at a branch through a table.
    pub fn diverged(&mut self) {
        if let Some(watch) = self.watch.as_deref_mut() {
            watch.diverge(self.state.id, self.pc);
        }
    }

    /// Instructions that a subwarp runs while other subwarps could run.
    fn slice(&self) -> u64 {
        if self.grid.program.lanes_wait { SLICE } else { LONG_SLICE }
    }

    /// Chooses the subwarp to run: joins subwarps at the same location, selects the one deepest in calls and lowest in
    /// the code (or, for fairness, the one that ran least recently), and returns the address at which to choose again.
    /// `None` if none can run.
    fn select(&mut self, by_age: bool) -> Option<u32> {
        if self.state.parked.is_empty() {
            if self.state.subwarp.mask == 0 || !self.runnable(&self.state.subwarp) {
                return None;
            }
            self.wake();
            return Some(u32::MAX);
        }
        let current = std::mem::take(&mut self.state.subwarp);
        let mut all = std::mem::take(&mut self.state.parked);
        if current.mask != 0 {
            all.push(current);
        }
        let mut joined: Vec<Subwarp> = Vec::with_capacity(all.len());
        for subwarp in all {
            match joined.iter_mut().find(|other| other.meets(&subwarp)) {
                Some(other) => other.join(subwarp),
                None => joined.push(subwarp),
            }
        }
        let waits = |f: &&Subwarp| matches!(f.wait, Wait::Lanes(_)) && !self.runnable(f);
        if joined.iter().filter(waits).count() > 1 {
            self.state.parked = joined;
            self.meet_apart();
            joined = std::mem::take(&mut self.state.parked);
        }
        let runnable = || joined.iter().enumerate().filter(|(_, subwarp)| self.runnable(subwarp));
        let patience = PATIENCE * self.slice();
        let by_age = by_age || runnable().any(|(_, subwarp)| subwarp.stamp + patience < self.state.clock);
        let best = runnable()
            .min_by_key(|(_, f)| (if by_age { f.stamp } else { 0 }, std::cmp::Reverse(f.frames.len()), f.pc))
            .map(|(i, _)| i);
        let Some(best) = best else {
            self.state.parked = joined;
            return None;
        };
        let mut chosen = joined.swap_remove(best);
        chosen.stamp = self.state.clock + 1;
        let meet = joined
            .iter()
            .filter(|f| !by_age && f.frames.len() == chosen.frames.len() && f.pc > chosen.pc)
            .map(|f| f.pc)
            .min()
            .unwrap_or(u32::MAX);
        self.state.parked = joined;
        self.state.subwarp = chosen;
        self.wake();
        Some(meet)
    }

    pub(super) fn runnable(&self, subwarp: &Subwarp) -> bool {
        match subwarp.wait {
            Wait::None => true,
            Wait::Memory => self.stirs(subwarp.mask),
            Wait::Lanes(need) => need & !(subwarp.mask | self.state.exited) == 0,
            Wait::Grids => !self.global.awaits(),
            Wait::Barrier { id: CLUSTER_BARRIER, phase } => self.cluster_barrier().phase != phase,
            Wait::Barrier { id, phase } => self.cta.barriers[super::at(id)].phase != phase,
            Wait::Registers(count) => self.has_registers(count),
            Wait::Columns(count) => self.cta.tensor.memory.has_room(count),
            Wait::Pair => self.pair_is_ready(),
            Wait::Warpgroup { count, executed } => self.cta.warpgroup(self.state.id).reached(count, executed),
        }
    }

    /// Whether the block has this number of registers for each thread of the warp, next to those of its other warps. If its number
    /// is not known, `setmaxnreg` has no effect.
    pub fn has_registers(&self, count: u32) -> bool {
        let own = super::at(self.state.id & 31);
        let others: u32 = self
            .cta
            .registers
            .iter()
            .enumerate()
            .filter(|(warp, _)| *warp != own)
            .map(|(_, count)| count)
            .sum();
        self.cta.pool == 0 || others + count <= self.cta.pool
    }

    /// Gives each thread of the warp this number of registers.
    pub fn take_registers(&mut self, count: u32) {
        self.cta.registers[super::at(self.state.id & 31)] = count;
        self.cta.changed = true;
    }

    /// Whether every lane of `need` that still exists executes this instruction now. If not, the routine returns
    /// [`Flow::Wait`] and is executed again when more lanes have arrived.
    pub fn gather(&mut self, need: u32) -> bool {
        let here = need & !(self.exec | self.state.exited) == 0;
        self.cta.met = true;
        self.state.subwarp.wait = if here { Wait::None } else { Wait::Lanes(need) };
        if !here && self.state.naps.records {
            self.stop_recording();
        }
        here
    }

    /// As [`gather`](Self::gather), for an instruction that all lanes of the warp must execute.
    pub fn gather_warp(&mut self) -> bool {
        let here = self.gather(u32::MAX);
        if here && self.exec != u32::MAX {
            self.exchanged(None, None);
        }
        here
    }

    /// Branches the lanes of `taken` to `target`; the others continue.
    pub fn branch(&mut self, taken: u32, target: u32) -> Flow {
        let subwarp = &mut self.state.subwarp;
        if taken == subwarp.mask {
            subwarp.pc = target;
            return Flow::Jump;
        }
        let mut away = subwarp.clone();
        away.mask = taken;
        away.pc = target;
        subwarp.mask &= !taken;
        subwarp.pc = self.pc + 1;
        self.state.parked.push(away);
        Flow::Split
    }

    /// Counts the work of an instruction that moves many bytes as additional instructions, so that the instruction limit
    /// bounds time. The instruction ends with the returned [`Flow`].
    pub fn worked(&mut self, bytes: usize) -> Flow {
        let units = u64::try_from(bytes).unwrap_or(u64::MAX) / WORK_UNIT;
        if units == 0 {
            return Flow::Next;
        }
        self.state.extra = self.state.extra.saturating_add(units);
        self.state.subwarp.pc = self.pc + 1;
        Flow::Split
    }

    /// Ends the lanes in `exec`.
    pub fn exit(&mut self) -> Flow {
        let lanes = self.exec;
        if let Err(flow) = self.complete_copies(|_, _| true, lanes) {
            return flow;
        }
        if self.cta.live <= lanes.count_ones()
            && let Err(flow) = self.leave_bulk()
        {
            return flow;
        }
        self.state.exited |= lanes;
        self.state.subwarp.mask &= !lanes;
        self.state.subwarp.pc = self.pc + 1;
        let completed = self.cta.leave(self.state.id, lanes);
        if let Some(watch) = self.watch.as_deref_mut() {
            watch.exit(self.state.id, lanes);
            (0..32).filter(|id| completed >> id & 1 != 0).for_each(|id| watch.barrier(self.cta.linear, id));
        }
        self.leave_cluster();
        Flow::Split
    }

    /// Reports to the observer that these lanes synchronized, which orders their memory accesses.
    pub fn converged(&mut self, lanes: u32) {
        if let Some(watch) = self.watch.as_deref_mut() {
            watch.converge(self.state.id, lanes);
        }
    }

    /// Reports to the observer that the lanes in `exec` exchange values.
    pub fn exchanged(&mut self, masks: Option<&Row<u32>>, sources: Option<&Row<u32>>) {
        if let Some(watch) = self.watch.as_deref_mut() {
            let (warp, pc, exited) = (self.state.id, self.pc, self.state.exited);
            // If lanes synchronized at copies of the instruction, the lanes at the other copies take part too.
            let meeting = self.state.meeting.as_deref();
            let groups =
                |members: &Row<u32>| super::lanes_of(self.exec).fold(0, |all, lane| all | members.0[lane]);
            let lanes = self.exec | meeting.map_or(0, groups);
            watch.exchange(&Exchange { warp, pc, lanes, exited, masks, sources });
        }
    }

    /// Reports to the observer that a lane used an mbarrier in shared memory.
    pub fn used_mbarrier(&mut self, lane: usize, address: u64, action: MbarrierAction, completes: bool) {
        let (rank, address) = self.locate_shared(address);
        if let Some(watch) = self.watch.as_deref_mut() {
            let lane = u32::try_from(lane).unwrap_or(0);
            let address = u32::try_from(address).unwrap_or(u32::MAX);
            let (warp, pc) = (self.state.id, self.pc);
            watch.mbarrier(&Mbarrier { warp, lane, pc, rank, address, action, completes });
        }
    }

    /// Reports to the observer that the lanes in `exec` pass a value with a call.
    pub fn handed(&mut self, from: Holder, to: Holder, bytes: u32) {
        if let Some(watch) = self.watch.as_deref_mut() {
            watch.moved(&Moved { warp: self.state.id, lanes: self.exec, pc: self.pc, from, to, bytes });
        }
    }

    /// Reports to the observer that the lanes in `exec` got a piece of local memory.
    pub fn framed(&mut self, frame: std::ops::Range<u32>) {
        if let Some(watch) = self.watch.as_deref_mut() {
            watch.framed(self.state.id, self.exec, frame);
        }
    }

    /// Reports to the observer that a copy was issued.
    pub fn copy_issued(&mut self, copy: PendingCopy) {
        if let Some(watch) = self.watch.as_deref_mut() {
            watch.copy_issued(&copy.event(self.state.id));
        }
    }

    /// Writes a predicate for the lanes in `exec`.
    #[inline]
    pub fn set_pred(&mut self, row: u32, bits: u32) {
        let p = &mut self.state.regs.preds[super::at(row)];
        *p = *p & !self.exec | bits & self.exec;
    }

    /// A predicate's bits.
    #[inline]
    pub fn pred(&self, row: u32) -> u32 {
        self.state.regs.preds[super::at(row)]
    }

    /// A predicate source, negated if the operand requires it. `index` is its position in `args.all`.
    #[inline]
    pub fn pred_arg(&self, args: &Args, index: usize) -> u32 {
        let bits = self.pred(args.all[index]);
        if args.is_negated(index) { !bits } else { bits }
    }

    /// The lowest lane in `exec`.
    pub fn first_lane(&self) -> u32 {
        self.exec.trailing_zeros().min(31)
    }

    /// Stops the launch and attributes the stop to the lowest lane in `exec`.
    pub fn halt(&mut self, blame: Blame, kind: StopKind, sentence: String) -> Flow {
        let lane = self.first_lane();
        self.halt_lane(blame, kind, lane, sentence)
    }

    /// Stops the launch and attributes the stop to one lane.
    pub fn halt_lane(&mut self, blame: Blame, kind: StopKind, lane: u32, sentence: String) -> Flow {
        let thread = self.grid.thread(self.state.id * 32 + lane);
        self.stop = Some(Box::new(Stop {
            blame,
            kind,
            sentence,
            block: Some(self.cta.index),
            thread: Some(thread),
            place: self.grid.program.place(self.pc),
            label: None,
            others: Vec::new(),
            notes: Vec::new(),
            help: None,
            address: None,
        }));
        Flow::Stop
    }

    /// Stops the launch at an instruction that warpproof does not support.
    pub fn unsupported(&mut self, sentence: String) -> Flow {
        self.halt(Blame::Gap, StopKind::Unsupported, sentence)
    }
}

/// A routine that only stops the launch, for unsupported instructions.
pub fn refuse(blame: Blame, kind: StopKind, sentence: String) -> crate::isa::Run {
    Box::new(move |w: &mut Warp<'_, '_>, _: &Args| w.halt(blame, kind, sentence.clone()))
}
