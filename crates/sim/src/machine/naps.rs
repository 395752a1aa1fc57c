//! Waiting lanes sleep.
//!
//! Blocks that take turns wait for each other in loops, and a loop that waits executes as many instructions as it gets. So
//! lanes that jump back are compared with an earlier state of theirs: if they are at the same location with the same
//! registers, and nothing that they did since had an effect, they repeat themselves until a byte that they read changes.
//! Until then they do not run. This is exact, in any order of execution. The state is kept at some returns only, at most
//! [`FARTHEST`] apart, so that it costs little where a loop computes.
//!
//! A loop with a block barrier repeats itself only if the other warps do. If every warp of a block is asleep, blocked, or
//! has returned to its state between barriers, the whole block sleeps until a byte that one of them read changes. Because
//! a warp may have passed more barriers than another, this is not proof that nothing ends: if all blocks sleep, they are
//! woken and examined ([`spin`](super::spin)).
//!
//! Loops that read a clock, test an mbarrier or wait for other lanes of their warp do not sleep. No lane sleeps while a guide
//! orders the steps of a launch.

use super::block::BlockRun;
use super::spin::Effect;
use super::{AccessKind, Grid, Registers, Row, Subwarp, Wait, Warp, at, lanes_of};
use crate::isa::Op;
use crate::memory::{Global, Heap, Space};

/// Reads of one iteration, at most.
const MOST_READS: usize = 64;
/// The most returns from one kept state to the next.
const FARTHEST: u32 = 32;
/// Instructions of each warp in an examination of sleeping blocks, at least.
const EXAMINATION: u64 = 512;

/// A value that lanes read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Read {
    space: Space,
    address: u64,
    bytes: u32,
    value: u128,
}

/// Lanes that wait until one of these values changes.
#[derive(Debug)]
struct Nap {
    lanes: u32,
    reads: Vec<Read>,
}

/// What a warp knows of its loops.
#[derive(Debug, Default)]
pub(crate) struct Naps {
    /// Whether the reads and effects since the kept state are recorded.
    pub(super) records: bool,
    /// The kept state.
    subwarp: Subwarp,
    registers: Registers,
    carry: u32,
    clock: u64,
    /// A row in which a later state differed.
    hint: usize,
    /// The values read since then.
    reads: Vec<Read>,
    /// Whether the warp arrived at a barrier since then.
    arrived: bool,
    /// Returns since the last sleep, the return at which the next state is kept, and the distance to the one behind it.
    returns: u32,
    keeps: u32,
    gap: u32,
    sleeping: Vec<Nap>,
    /// What the warp read while it returned to its state between barriers.
    circle: Option<Vec<Read>>,
    /// The longest period of a loop, in instructions.
    period: u64,
}

impl Naps {
    fn restart(&mut self) {
        (self.records, self.returns, self.keeps, self.gap) = (false, 0, 0, 1);
    }

    /// Whether the lanes are at the location of the kept state, with its registers.
    fn is_back(&mut self, subwarp: &Subwarp, registers: &Registers, carry: u32) -> bool {
        let then = &self.subwarp;
        let here = (subwarp.pc, subwarp.mask, subwarp.sp, subwarp.dynamic)
            == (then.pc, then.mask, then.sp, then.dynamic)
            && subwarp.frames == then.frames;
        if !here || (carry ^ self.carry) & subwarp.mask != 0 {
            return false;
        }
        let (mask, kept) = (subwarp.mask, &self.registers);
        let different = registers.preds.iter().zip(&kept.preds).any(|(now, then)| (now ^ then) & mask != 0);
        if different || differs(&registers.w32, &kept.w32, mask, self.hint..self.hint + 1).is_some() {
            return false;
        }
        if let Some(row) = differs(&registers.w32, &kept.w32, mask, 0..usize::MAX) {
            self.hint = row;
            return false;
        }
        differs(&registers.w64, &kept.w64, mask, 0..usize::MAX).is_none()
            && differs(&registers.w128, &kept.w128, mask, 0..usize::MAX).is_none()
    }
}

/// The first of some rows in which lanes differ.
fn differs<T: PartialEq>(
    now: &[Row<T>],
    then: &[Row<T>],
    mask: u32,
    rows: std::ops::Range<usize>,
) -> Option<usize> {
    let differ = |now: &Row<T>, then: &Row<T>| {
        now.0 != then.0 && lanes_of(mask).any(|lane| now.0[lane] != then.0[lane])
    };
    let some = now.iter().zip(then).enumerate().take(rows.end).skip(rows.start);
    some.filter(|(_, (now, then))| differ(now, then)).map(|(row, _)| row).next()
}

impl Warp<'_, '_> {
    /// Called when the running subwarp has jumped back. Returns whether it sleeps.
    #[cold]
    #[inline(never)]
    pub(super) fn sleeps(&mut self, clock: u64) -> bool {
        if self.cta.probed {
            return false;
        }
        let state = &mut *self.state;
        let naps = &mut state.naps;
        naps.returns = naps.returns.saturating_add(1);
        if naps.records && self.cta.changed {
            self.stop_recording();
        } else if naps.records && naps.is_back(&state.subwarp, &state.regs, state.carry) {
            naps.period = naps.period.max(clock.saturating_sub(naps.clock));
            naps.clock = clock;
            let reads = std::mem::take(&mut naps.reads);
            if naps.arrived || self.cta.arrived {
                naps.arrived = false;
                self.cta.arrived = false;
                naps.circle = Some(reads);
                return false;
            }
            let lanes = state.subwarp.mask;
            naps.sleeping.retain(|nap| nap.lanes & lanes == 0);
            naps.sleeping.push(Nap { lanes, reads });
            // Most warps of a grid may sleep at once.
            naps.registers = Registers::default();
            naps.restart();
            state.subwarp.wait = Wait::Memory;
            self.heard = self.hears;
            return true;
        }
        let naps = &mut self.state.naps;
        if naps.subwarp.pc == self.state.subwarp.pc {
            naps.circle = None;
        }
        if naps.returns >= naps.keeps {
            naps.circle = None;
            naps.gap = if naps.gap == 0 || naps.gap >= FARTHEST { 1 } else { 2 * naps.gap };
            naps.keeps = naps.returns.saturating_add(naps.gap);
            naps.subwarp.clone_from(&self.state.subwarp);
            naps.registers.copy_from(&self.state.regs);
            (naps.carry, naps.clock) = (self.state.carry, clock);
            naps.reads.clear();
            (naps.records, naps.arrived) = (true, false);
            (self.cta.changed, self.cta.arrived) = (false, false);
            self.heard = true;
        }
        false
    }

    pub(super) fn stop_recording(&mut self) {
        self.state.naps.records = false;
        self.state.naps.circle = None;
        self.heard = self.hears;
    }

    /// Records an instruction that was executed.
    #[cold]
    #[inline(never)]
    pub(super) fn record_instruction(&mut self, pc: u32) {
        let op = self.grid.program.op(pc);
        let records = match Effect::of(self.grid, pc) {
            Effect::Asks => false,
            Effect::Unknown => matches!(op, Op::Barrier(_)),
            Effect::Reads | Effect::ReadsGlobal => matches!(op, Op::Load(_) | Op::Atomic(_)),
            Effect::Branches => true,
            Effect::Computes => match op {
                Op::Move(moved) => moved.counter.is_none(),
                Op::SurfaceStore(_)
                | Op::SurfaceReduce(_)
                | Op::Discard
                | Op::GridDependency { .. }
                | Op::Event => false,
                _ => true,
            },
            Effect::Exchange => matches!(
                op,
                Op::WarpSync { .. }
                    | Op::Shuffle(_)
                    | Op::Vote { .. }
                    | Op::Match { .. }
                    | Op::Redux { .. }
                    | Op::Elect
                    | Op::ActiveMask
            ),
        };
        if !records {
            self.stop_recording();
        }
    }

    /// Records an access that was made.
    #[cold]
    pub(super) fn record_access(
        &mut self,
        space: Space,
        kind: AccessKind,
        addresses: &Row<u64>,
        bytes: u32,
        lanes: u32,
    ) {
        if kind == AccessKind::Write || !matches!(space, Space::Global | Space::Shared) {
            return;
        }
        let mut last = None;
        for lane in lanes_of(lanes) {
            let address = addresses.0[lane];
            if last == Some(address) {
                continue;
            }
            last = Some(address);
            let value = if bytes > 16 { None } else { self.read_lane(space, lane, address, bytes).ok() };
            let read = value.map(|value| Read { space, address, bytes, value });
            match read {
                Some(read) if self.state.naps.reads.contains(&read) => {}
                Some(read) if self.state.naps.reads.len() < MOST_READS => self.state.naps.reads.push(read),
                _ => return self.stop_recording(),
            }
        }
    }

    fn is_unchanged(&self, reads: &[Read]) -> bool {
        reads.iter().all(|read| self.read_lane(read.space, 0, read.address, read.bytes) == Ok(read.value))
    }

    /// Whether lanes that sleep can run again.
    pub(super) fn stirs(&self, lanes: u32) -> bool {
        let mut own = self.state.naps.sleeping.iter().filter(|nap| nap.lanes & lanes != 0).peekable();
        own.peek().is_none() || own.any(|nap| !self.is_unchanged(&nap.reads))
    }

    /// The lanes that were chosen to run may have slept.
    pub(super) fn wake(&mut self) {
        if self.state.subwarp.wait == Wait::Memory {
            self.state.subwarp.wait = Wait::None;
            let lanes = self.state.subwarp.mask;
            self.state.naps.sleeping.retain(|nap| nap.lanes & lanes == 0);
            self.state.naps.restart();
            self.heard = self.hears;
        }
    }

    /// Whether the warp waits, sleeps, or only returns to its state between barriers.
    fn rests(&self) -> bool {
        let circles = self.state.naps.circle.as_ref().is_some_and(|reads| self.is_unchanged(reads));
        let all = || self.state.parked.iter().chain([&self.state.subwarp]);
        circles || all().filter(|subwarp| subwarp.mask != 0).all(|subwarp| !self.runnable(subwarp))
    }
}

impl BlockRun {
    /// Lets waiting lanes sleep.
    pub(super) fn let_nap(&mut self) {
        self.ctas.iter_mut().for_each(|cta| cta.may_nap = true);
    }

    /// Whether lanes sleep.
    pub(super) fn naps(&self) -> bool {
        let asleep = |subwarp: &Subwarp| subwarp.mask != 0 && subwarp.wait == Wait::Memory;
        let mut live = self.warps.iter().zip(&self.done).filter(|(_, done)| !**done);
        live.any(|(warp, _)| warp.parked.iter().chain([&warp.subwarp]).any(asleep))
    }

    /// Before a warp runs.
    pub(super) fn starts_turn(&mut self, warp: usize) {
        let rank = at(self.warps[warp].rank);
        if let Some(cta) = self.ctas.get_mut(rank) {
            (cta.changed, cta.arrived) = (false, false);
        }
    }

    /// After a warp has run.
    pub(super) fn ends_turn(&mut self, warp: usize) {
        let rank = at(self.warps[warp].rank);
        let Some(cta) = self.ctas.get(rank) else { return };
        let naps = &mut self.warps[warp].naps;
        naps.arrived |= cta.arrived;
        if naps.records && cta.changed {
            naps.records = false;
            naps.circle = None;
        }
    }

    /// Whether no warp changes anything, although some pass barriers.
    pub(super) fn circles<'a>(&mut self, grid: &'a Grid<'a>, global: &mut Global<'_>) -> bool {
        if !self.warps.iter().any(|warp| warp.naps.circle.is_some()) {
            return false;
        }
        (0..self.warps.len()).all(|i| {
            self.done[i]
                || Warp::new(&mut self.warps[i], &mut self.ctas, grid, &mut *global, None, false).rests()
        })
    }

    /// Whether a byte that sleeping warps read has changed in global memory.
    pub(super) fn is_stirred(&self, heap: &mut Heap) -> bool {
        let global = self.direct(heap);
        let naps = self.warps.iter().map(|warp| &warp.naps);
        let mut reads =
            naps.flat_map(|naps| naps.sleeping.iter().map(|nap| &nap.reads).chain(&naps.circle).flatten());
        reads.any(|read| read.space == Space::Global && value(&global, read) != Some(read.value))
    }

    /// Forgets which warps return to their state.
    pub(super) fn forget_circles(&mut self) {
        self.warps.iter_mut().for_each(|warp| warp.naps.circle = None);
    }

    /// Wakes all lanes.
    pub(super) fn wake_all(&mut self) {
        self.asleep = false;
        for warp in &mut self.warps {
            warp.naps.restart();
            warp.naps.circle = None;
            warp.naps.sleeping.clear();
            for subwarp in warp.parked.iter_mut().chain([&mut warp.subwarp]) {
                if subwarp.wait == Wait::Memory {
                    subwarp.wait = Wait::None;
                }
            }
        }
    }

    /// Instructions of each warp to examine the loops in which it sleeps.
    pub(super) fn examination(&self) -> u64 {
        self.warps.iter().map(|warp| warp.naps.period).fold(0, u64::max).saturating_mul(8) + EXAMINATION
    }
}

fn value(global: &Global<'_>, read: &Read) -> Option<u128> {
    match read.bytes {
        1 => global.read::<1>(read.address).ok().map(|bytes| u128::from(u8::from_le_bytes(bytes))),
        2 => global.read::<2>(read.address).ok().map(|bytes| u128::from(u16::from_le_bytes(bytes))),
        4 => global.read::<4>(read.address).ok().map(|bytes| u128::from(u32::from_le_bytes(bytes))),
        8 => global.read::<8>(read.address).ok().map(|bytes| u128::from(u64::from_le_bytes(bytes))),
        16 => global.read::<16>(read.address).ok().map(u128::from_le_bytes),
        _ => None,
    }
}
