//! Who listens to a run: checks and counters. Execution knows none of them, and a run without a listener pays for none.

use crate::machine::{Access, AccessKind, Registers, Row, Width};
use crate::memory::Space;
use crate::program::Program;
use std::any::Any;
use std::ops::Range;

/// An instruction about to be executed by the lanes in `exec`.
#[derive(Clone, Copy)]
pub struct Issue<'a> {
    /// The block's linear index.
    pub block: u32,
    /// The warp's number in the block.
    pub warp: u32,
    /// The instruction's index in the code.
    pub pc: u32,
    /// The lanes that execute it.
    pub exec: u32,
    /// The lanes that stand at it, those that its guard keeps from executing it too.
    pub here: u32,
    /// Lanes of the warp that have not exited.
    pub live: u32,
    /// The registers as the instruction finds them.
    pub registers: &'a Registers,
    /// The kernel.
    pub program: &'a Program,
}

/// Threads of a warp arrive at one of the block's barriers.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// The warp's number in the block.
    pub warp: u32,
    /// The lanes that arrive.
    pub lanes: u32,
    /// Lanes of the warp that have exited or never existed.
    pub exited: u32,
    /// The instruction.
    pub pc: u32,
    /// The barrier; the cluster's is number 16.
    pub id: u32,
    /// Threads it waits for; all threads of the block if not given.
    pub expected: Option<u32>,
    /// Whether the threads wait for the others, or go on at once.
    pub waits: bool,
    /// Instructions that the warp has executed so far, this one included.
    pub clock: u64,
}

/// Lanes of a warp that exchange values or vote.
#[derive(Clone, Copy, Debug)]
pub struct Exchange<'a> {
    /// The warp's number in the block.
    pub warp: u32,
    /// The instruction.
    pub pc: u32,
    /// The lanes that take part.
    pub lanes: u32,
    /// Lanes that have exited or never existed.
    pub exited: u32,
    /// The member mask as each lane gave it; `None` for the forms without one.
    pub masks: Option<&'a Row<u32>>,
    /// The lane each lane reads from. An instruction for the whole warp, such as `mma`, raises an event without masks and
    /// sources if some of its lanes have exited or never existed. A shuffle raises two events: one with its masks as given, as every `.sync`
    /// instruction does, and then one with its sources and the masks cut to the lanes that take part.
    pub sources: Option<&'a Row<u32>>,
}

/// One lane's `cp.async`, when it is issued and when its bytes are visible to that lane.
#[derive(Clone, Copy, Debug)]
pub struct Copy {
    /// The warp's number in the block.
    pub warp: u32,
    /// The lane.
    pub lane: u32,
    /// The `cp.async` itself, also when it completes.
    pub pc: u32,
    /// Destination in shared memory.
    pub to: u32,
    /// Source in global memory.
    pub from: u64,
    /// Bytes written.
    pub size: u32,
    /// Bytes read; the rest is zero.
    pub read: u32,
    /// The group it completes with: the lane's count of commits when it was issued.
    pub group: u32,
}

/// What a lane did with an mbarrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MbarrierAction {
    /// Made it.
    Init,
    /// Arrived; other work on the pending count counts as arriving.
    Arrive,
    /// Asked that its arrival follow its copies; it is told as [`MbarrierAction::Arrive`] then.
    Track,
    /// Asked whether a phase is complete, and was told so or not.
    Test(bool),
    /// Ended its life.
    Inval,
}

/// One lane's use of an mbarrier.
#[derive(Clone, Copy, Debug)]
pub struct Mbarrier {
    /// The warp's number in the block.
    pub warp: u32,
    /// The lane.
    pub lane: u32,
    /// The instruction.
    pub pc: u32,
    /// Its place in shared memory.
    pub address: u32,
    /// What was done.
    pub action: MbarrierAction,
    /// Whether that ended the phase.
    pub completes: bool,
}

/// Where a value stands that a call hands over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// A row of registers.
    Register(Width, u32),
    /// A place in the local memory of each lane.
    Local(u32),
    /// The device itself, as the result of a function that it provides.
    Device,
}

/// A value that lanes hand over with a call or a return, which no load or store moves.
#[derive(Clone, Copy, Debug)]
pub struct Moved {
    /// The warp's number in the block.
    pub warp: u32,
    /// The lanes.
    pub lanes: u32,
    /// The instruction.
    pub pc: u32,
    /// Where it was.
    pub from: Holder,
    /// Where it is now, too.
    pub to: Holder,
    /// Its size.
    pub bytes: u32,
}

/// How closely a listener follows what a block executes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// Each instruction before it is executed ([`Observer::issue`], [`Observer::pass`]), with the registers, and what stores
    /// change.
    Instructions,
    /// Stretches of instructions after they were executed ([`Observer::stretch`], [`Observer::guarded`]): enough to count,
    /// and much cheaper.
    Stretches,
}

/// Instructions that the same lanes executed one after another. One that waited is told when it was executed.
#[derive(Clone, Debug)]
pub struct Stretch {
    /// The warp's number in the block.
    pub warp: u32,
    /// The instructions, by their index in the code. Those with a guard are told by [`Observer::guarded`] as well.
    pub code: Range<u32>,
    /// The lanes.
    pub lanes: u32,
}

/// An instruction with a guard that was executed or passed over.
#[derive(Clone, Copy, Debug)]
pub struct Guarded {
    /// The warp's number in the block.
    pub warp: u32,
    /// The instruction.
    pub pc: u32,
    /// The lanes that executed it; none if it was passed over.
    pub exec: u32,
    /// The lanes that stood at it.
    pub here: u32,
}

/// An access of a warp to shared memory, with addresses of 32 bits: by far the most frequent.
#[derive(Clone, Copy, Debug)]
pub struct SharedAccess<'a> {
    /// The block's linear index.
    pub block: u32,
    /// The warp's number in the block.
    pub warp: u32,
    /// The instruction.
    pub pc: u32,
    /// What it does.
    pub kind: AccessKind,
    /// The address of each lane.
    pub offsets: &'a Row<u32>,
    /// Bytes per lane.
    pub bytes: u32,
    /// The lanes.
    pub lanes: u32,
}

/// A listener to one block's run. Blocks may run in parallel, so each gets a listener of its own.
pub trait Observer: Any + Send {
    /// How closely it follows; the same for as long as it listens.
    fn detail(&self) -> Detail {
        Detail::Instructions
    }
    /// Before an instruction is executed.
    fn issue(&mut self, _issue: &Issue<'_>) {}
    /// When an instruction is passed over because its guard is false in all lanes.
    fn pass(&mut self, _issue: &Issue<'_>) {}
    /// After a stretch of instructions, to a listener of [`Detail::Stretches`].
    fn stretch(&mut self, _stretch: &Stretch) {}
    /// After an instruction with a guard, to a listener of [`Detail::Stretches`].
    fn guarded(&mut self, _guarded: &Guarded) {}
    /// When lanes take different ways at a branch through a table.
    fn diverge(&mut self, _warp: u32, _pc: u32) {}
    /// After a memory access was found possible and was made.
    fn access(&mut self, _access: &Access<'_>) {}
    /// As [`access`](Self::access), which it is told by unless the listener has a shorter way.
    fn shared(&mut self, shared: &SharedAccess<'_>) {
        let SharedAccess { block, warp, pc, kind, offsets, bytes, lanes } = *shared;
        let addresses = &Row(offsets.0.map(u64::from));
        let space = Space::Shared;
        let (unchanged, words, deferred, used) = (0, &[][..], false, u32::MAX);
        self.access(&Access {
            block,
            warp,
            pc,
            space,
            kind,
            addresses,
            bytes,
            lanes,
            unchanged,
            words,
            deferred,
            used,
        });
    }
    /// When threads arrive at a barrier.
    fn arrive(&mut self, _arrival: &Arrival) {}
    /// When all threads of a barrier have arrived.
    fn barrier(&mut self, _block: u32, _id: u32) {}
    /// When lanes of a warp have met in `bar.warp.sync`, which orders their memory accesses.
    fn converge(&mut self, _warp: u32, _lanes: u32) {}
    /// When lanes of a warp exchange values.
    fn exchange(&mut self, _exchange: &Exchange<'_>) {}
    /// When a copy is issued.
    fn copy_issued(&mut self, _copy: &Copy) {}
    /// When a copy is complete and visible to the thread that issued it.
    fn copy_done(&mut self, _copy: &Copy) {}
    /// When a lane uses an mbarrier.
    fn mbarrier(&mut self, _mbarrier: &Mbarrier) {}
    /// When a call hands a value over.
    fn moved(&mut self, _moved: &Moved) {}
    /// When lanes of a warp get a piece of local memory that holds nothing yet.
    fn framed(&mut self, _warp: u32, _lanes: u32, _frame: Range<u32>) {}
    /// When a thread has allocated global memory.
    fn allocated(&mut self, _address: u64, _bytes: u64) {}
    /// When lanes of a warp exit.
    fn exit(&mut self, _warp: u32, _lanes: u32) {}
}
