//! The observer interface for checks and counters. Execution does not depend on any of them, and a run without an observer
//! has no overhead.

use crate::machine::{Access, AccessKind, LANES, Place, Registers, Row, Width};
use crate::memory::Space;
use crate::program::{Bundle, Program};
use crate::simd::Half;
use std::any::Any;
use std::ops::Range;
use std::sync::Arc;

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
    /// The lanes that reach it, including those that its guard disables.
    pub here: u32,
    /// Lanes of the warp that have not exited.
    pub live: u32,
    /// The registers before the instruction.
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
    /// Expected threads; `None` means all threads of the block.
    pub expected: Option<u32>,
    /// Whether the threads wait for the others, or continue immediately.
    pub waits: bool,
    /// Instructions that the warp has executed so far, including this one.
    pub clock: u64,
}

/// Lanes of a warp that exchange values or vote.
#[derive(Clone, Copy, Debug)]
pub struct Exchange<'a> {
    /// The warp's number in the block.
    pub warp: u32,
    /// The instruction.
    pub pc: u32,
    /// The participating lanes.
    pub lanes: u32,
    /// Lanes that have exited or never existed.
    pub exited: u32,
    /// The member mask of each lane; `None` for the forms without one.
    pub masks: Option<&'a Row<u32>>,
    /// The lane each lane reads from. An instruction for the whole warp, such as `mma`, raises an event without masks and
    /// sources if some of its lanes have exited or never existed. A shuffle raises two events: one with its masks as
    /// given, as every `.sync` instruction does, and then one with its sources and the masks restricted to the
    /// participating lanes.
    pub sources: Option<&'a Row<u32>>,
}

/// One lane's `cp.async`, when it is issued and when its bytes are visible to that lane.
#[derive(Clone, Copy, Debug)]
pub struct AsyncCopy {
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

/// A bulk copy that an asynchronous agent makes for a lane. Addresses in shared memory are addresses in the cluster's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BulkCopy {
    /// The rank of the block that issued it.
    pub rank: u32,
    /// The warp's number in the block.
    pub warp: u32,
    /// The lane.
    pub lane: u32,
    /// The instruction.
    pub pc: u32,
    /// The source; that of a store of registers is its destination.
    pub from: (Space, u64),
    /// The destination.
    pub to: (Space, u64),
    /// Bytes.
    pub bytes: u32,
    /// The mbarrier that tracks it; it is part of a bulk group otherwise.
    pub barrier: Option<u64>,
    /// The group: the lane's count of commits when it was issued.
    pub group: u32,
    /// Whether it combines the bytes with those of the destination.
    pub reduces: bool,
    /// Whether it is one of the copies of a multicast.
    pub multicast: bool,
    /// Whether a tensor map or a byte mask describes it. Then its rows in global memory are reported separately; with a map, its
    /// place there is that of the box, and it may use more bytes of shared memory than it moves.
    pub tensor: bool,
    /// Bytes of shared memory that it may use.
    pub extent: u32,
    /// Of each 16 bytes, those that it copies, one bit each.
    pub mask: u16,
}

impl BulkCopy {
    /// The copies that the rows of a tensor copy are, as if each were one of its own.
    #[inline]
    pub fn rows<'a>(&'a self, rows: &'a [(u64, u32)]) -> impl Iterator<Item = BulkCopy> + 'a {
        rows.iter().map(|(address, bytes)| {
            let place =
                |(space, known): (Space, u64)| (space, if space == Space::Global { *address } else { known });
            BulkCopy { from: place(self.from), to: place(self.to), bytes: *bytes, extent: *bytes, ..*self }
        })
    }
}

/// What a thread does with a tensor map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapAction {
    /// A copy uses it.
    Used,
    /// An instruction has changed it.
    Changed,
    /// A fence releases what the thread has changed to the tensormap proxy.
    Released,
    /// A fence acquires it for the tensormap proxy.
    Acquired,
}

/// A lane's use of a tensor map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapUse {
    /// The warp's number in the block.
    pub warp: u32,
    /// The lane.
    pub lane: u32,
    /// The instruction.
    pub pc: u32,
    /// What it does.
    pub action: MapAction,
    /// Where the map is; nowhere for a release.
    pub place: (Space, u64),
}

/// A warp's part of a `wgmma.mma_async`, when it is issued and when it is executed because the warp waits for it.
#[derive(Clone, Copy, Debug)]
pub struct MultiplyAsync<'a> {
    /// The warp's number in the block.
    pub warp: u32,
    /// The `wgmma.mma_async` itself, also when it completes.
    pub pc: u32,
    /// The group it completes with: the warp's count of commits when it was issued.
    pub group: u64,
    /// Addresses in shared memory of the 16-byte pieces that it reads.
    pub pieces: &'a [u32],
}

/// What happens to the tensor memory of a block. Columns are the first, and how many.
#[derive(Clone, Copy, Debug)]
pub enum TensorAction<'a> {
    /// A warp has allocated columns.
    Allocated((u32, u32)),
    /// A warp has freed columns.
    Freed((u32, u32)),
    /// A warp loads columns to registers.
    Loaded {
        /// The columns.
        columns: [(u32, u32); 2],
        /// The groups of 16 lanes, one bit each.
        halves: u8,
    },
    /// A warp stores registers to columns.
    Stored {
        /// The columns.
        columns: [(u32, u32); 2],
        /// The groups of 16 lanes, one bit each.
        halves: u8,
    },
    /// A warp has waited for its loads, or for its stores.
    Waited {
        /// For its stores.
        stores: bool,
    },
    /// A thread issues a copy, a shift or a multiplication.
    Issued {
        /// Addresses in shared memory of the 16-byte pieces that it reads.
        pieces: &'a [u32],
        /// The columns that it reads.
        reads: &'a [(u32, u32)],
        /// The columns that it writes.
        writes: (u32, u32),
        /// The groups of 16 lanes that it reads and writes, one bit each.
        halves: u8,
        /// The other block of the pair, if it does the same there.
        peer: Option<u32>,
    },
    /// A thread of the other block of the pair issues a copy or a multiplication that reads the shared memory of this one.
    ReadByPeer {
        /// The addresses of the 16-byte pieces.
        pieces: &'a [u32],
    },
    /// The oldest copy, shift or multiplication of the thread is complete.
    Completed,
    /// A thread executes `tcgen05.commit`.
    Committed,
    /// The oldest `tcgen05.commit` of the thread arrives at the mbarrier at this address in the block with this rank, and whether that
    /// ended the phase.
    Arrived {
        /// The rank.
        rank: u32,
        /// The address.
        address: u32,
        /// Whether the phase ended.
        completes: bool,
    },
    /// The block ends without having freed columns.
    Left((u32, u32)),
}

/// An event of tensor memory, and the thread that caused it.
#[derive(Clone, Copy, Debug)]
pub struct TensorEvent<'a> {
    /// The warp's number in the block.
    pub warp: u32,
    /// The lane; 0 for what a warp does together.
    pub lane: u32,
    /// The instruction; the allocation for columns that were not freed.
    pub pc: u32,
    /// What happens.
    pub action: TensorAction<'a>,
}

/// The mbarrier operation of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MbarrierAction {
    /// Initialized it.
    Init,
    /// Arrived; other changes of the pending count are reported as arrivals too.
    Arrive,
    /// Requested an arrival after its copies; that arrival is reported as [`MbarrierAction::Arrive`] later.
    Track,
    /// Tested whether a phase is complete, with the result.
    Test(bool),
    /// Invalidated it.
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
    /// The rank of the block in whose shared memory it is.
    pub rank: u32,
    /// Its address there.
    pub address: u32,
    /// The operation.
    pub action: MbarrierAction,
    /// Whether that ended the phase.
    pub completes: bool,
}

/// The source or destination of a value that a call passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// A row of registers.
    Register(Width, u32),
    /// An offset in the local memory of each lane.
    Local(u32),
    /// The device itself, for the result of a function that it provides.
    Device,
}

/// A value that lanes pass with a call or a return, without a load or store.
#[derive(Clone, Copy, Debug)]
pub struct Moved {
    /// The warp's number in the block.
    pub warp: u32,
    /// The lanes.
    pub lanes: u32,
    /// The instruction.
    pub pc: u32,
    /// The source.
    pub from: Holder,
    /// The destination.
    pub to: Holder,
    /// Its size.
    pub bytes: u32,
}

/// How much detail an observer needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Detail {
    /// Each instruction before it is executed ([`Observer::issue`], [`Observer::pass`]), with the registers, and the
    /// changes by stores.
    Instructions,
    /// Stretches of instructions after they were executed ([`Observer::stretch`], [`Observer::guarded`]): enough to
    /// count, and much cheaper.
    Stretches,
}

/// When an observer of instructions must see one of them before it is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sight {
    /// Always.
    Always,
    /// Unless the observer is calm; the events of the instruction may end that.
    UnlessCalm,
    /// Unless the observer is calm, which the instruction does not change.
    UnlessCalmPure,
}

/// Consecutive instructions that the same lanes executed. An instruction that waited is reported when it has executed.
#[derive(Clone, Debug)]
pub struct Stretch {
    /// The warp's number in the block.
    pub warp: u32,
    /// The instructions, by their index in the code. Those with a guard are also reported by [`Observer::guarded`].
    pub code: Range<u32>,
    /// The lanes.
    pub lanes: u32,
}

/// An instruction with a guard that was executed or skipped.
#[derive(Clone, Copy, Debug)]
pub struct Guarded {
    /// The warp's number in the block.
    pub warp: u32,
    /// The instruction.
    pub pc: u32,
    /// The lanes that executed it; none if it was skipped.
    pub exec: u32,
    /// The lanes that reached it.
    pub here: u32,
}

/// An access of a warp to shared memory with 32-bit addresses: by far the most frequent.
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
    /// How the addresses of each half of the warp lie; mixed if some lanes are inactive.
    pub halves: [Half; 2],
    /// Bytes per lane.
    pub bytes: u32,
    /// The lanes.
    pub lanes: u32,
}

impl SharedAccess<'_> {
    /// Calls `f` with the access as any other.
    #[inline]
    pub fn widened(&self, f: impl FnOnce(&Access<'_>)) {
        let SharedAccess { block, warp, pc, kind, offsets, bytes, lanes, .. } = *self;
        let addresses = &offsets.widened();
        let space = Space::Shared;
        let (unchanged, words, deferred, used) = (0, &[][..], false, u32::MAX);
        f(&Access {
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
}

/// All lanes of a warp load a word of global memory: in each half of the warp consecutive words, or one word. By far the most frequent
/// load from there.
#[derive(Clone, Copy, Debug)]
pub struct GlobalWords {
    /// The block's linear index.
    pub block: u32,
    /// The warp's number in the block.
    pub warp: u32,
    /// The instruction.
    pub pc: u32,
    /// The address of the first lane of each half.
    pub starts: [u64; 2],
    /// How the addresses of each half lie; never mixed.
    pub halves: [Half; 2],
}

impl GlobalWords {
    /// Calls `f` with the load as any other access.
    #[inline]
    pub fn widened(&self, f: impl FnOnce(&Access<'_>)) {
        let GlobalWords { block, warp, pc, starts, halves } = *self;
        let mut addresses = Row([0; LANES]);
        for (half, addresses) in addresses.0.as_chunks_mut::<16>().0.iter_mut().enumerate() {
            let step = if halves[half % 2] == Half::Run { 4 } else { 0 };
            for (lane, address) in (0u64..).zip(addresses) {
                *address = starts[half % 2].wrapping_add(step * lane);
            }
        }
        f(&Access {
            block,
            warp,
            pc,
            space: Space::Global,
            kind: AccessKind::Read,
            addresses: &addresses,
            bytes: 4,
            lanes: u32::MAX,
            unchanged: 0,
            words: &[],
            deferred: false,
            used: u32::MAX,
        });
    }

    /// The bytes that each half reads: the first address, and how many.
    #[inline]
    pub fn pieces(&self) -> [(u64, u64); 2] {
        [0, 1].map(|half| (self.starts[half], if self.halves[half] == Half::Run { 64 } else { 4 }))
    }

    /// The lowest address, and the one behind the highest byte.
    #[inline]
    pub fn ends(&self) -> (u64, u64) {
        let [(a, a_bytes), (b, b_bytes)] = self.pieces();
        (a.min(b), a.saturating_add(a_bytes).max(b.saturating_add(b_bytes)))
    }
}

/// All loads of a bundle that all lanes of a warp are about to execute.
#[derive(Clone, Copy, Debug)]
pub struct BundleReads<'a> {
    /// The block's linear index.
    pub block: u32,
    /// The warp's number in the block.
    pub warp: u32,
    /// The bundle.
    pub bundle: &'a Arc<Bundle>,
    /// The addresses in the registers that its loads start from.
    pub places: &'a [Place],
}

impl BundleReads<'_> {
    /// Calls `f` with each load as any other access.
    #[inline]
    pub fn each(&self, mut f: impl FnMut(&SharedAccess<'_>)) {
        for (pc, load) in self.bundle.loads() {
            let Some(place) = self.places.get(load.base) else { continue };
            let offsets = &place.moved(load.offset);
            let (block, warp, kind, bytes) = (self.block, self.warp, AccessKind::Read, 4 * load.words);
            let (halves, lanes) = (place.halves, u32::MAX);
            f(&SharedAccess { block, warp, pc, kind, offsets, halves, bytes, lanes });
        }
    }

    /// The bytes between the first and the last one that a load from a register reads.
    #[inline]
    pub fn extent(&self, base: usize) -> Range<u32> {
        let (Some(base), Some(place)) = (self.bundle.bases.get(base), self.places.get(base)) else {
            return 0..0;
        };
        let end = |address: u32, reach: i64| address.saturating_add_signed(i32::try_from(reach).unwrap_or(0));
        end(place.ends.0, base.reach.0)..end(place.ends.1, base.reach.1)
    }
}

/// An observer of one block. Blocks may run in parallel, so each has its own observer.
pub trait Observer: Any + Send {
    /// How much detail it needs; constant for its lifetime.
    fn detail(&self) -> Detail {
        Detail::Instructions
    }
    /// By instruction: when the observer must see it; `None` if always. Constant for its lifetime.
    fn sights(&self) -> Option<Arc<[Sight]>> {
        None
    }
    /// Whether the next instruction of a warp matters only by its events.
    fn is_calm(&self, _warp: u32) -> bool {
        false
    }
    /// After the last event of its block, before those of some blocks that start later. It may not be called, and it may be called
    /// twice.
    fn ended(&mut self) {}
    /// The events that follow are those of the block with this rank; only in a cluster of several blocks.
    fn enter(&mut self, _rank: u32) {}
    /// Before an instruction is executed.
    fn issue(&mut self, _issue: &Issue<'_>) {}
    /// Called when an instruction is skipped because its guard is false in all lanes.
    fn pass(&mut self, _issue: &Issue<'_>) {}
    /// After a stretch of instructions, for an observer with [`Detail::Stretches`].
    fn stretch(&mut self, _stretch: &Stretch) {}
    /// After an instruction with a guard, for an observer with [`Detail::Stretches`].
    fn guarded(&mut self, _guarded: &Guarded) {}
    /// When lanes diverge at a branch through a table.
    fn diverge(&mut self, _warp: u32, _pc: u32) {}
    /// After a valid memory access was made.
    fn access(&mut self, _access: &Access<'_>) {}
    /// After a valid access to the shared memory of another block of the cluster, the one with this rank; addresses are
    /// offsets in it.
    fn remote(&mut self, _rank: u32, _access: &Access<'_>) {}
    /// A faster variant of [`access`](Self::access), which it calls by default.
    fn shared(&mut self, shared: &SharedAccess<'_>) {
        shared.widened(|access| self.access(access));
    }
    /// Another faster variant of [`access`](Self::access), which it calls by default.
    fn words(&mut self, words: &GlobalWords) {
        words.widened(|access| self.access(access));
    }
    /// Before a bundle is executed: takes note of all its loads, or returns `false` if it must see its instructions one by one. An observer with
    /// [`Observer::sights`] is asked only while it is calm.
    fn bundle(&mut self, _reads: &BundleReads<'_>) -> bool {
        false
    }
    /// When threads arrive at a barrier.
    fn arrive(&mut self, _arrival: &Arrival) {}
    /// When lanes have waited for the cluster's barrier.
    fn cluster_waited(&mut self, _warp: u32, _lanes: u32, _pc: u32) {}
    /// When all threads of a barrier have arrived.
    fn barrier(&mut self, _block: u32, _id: u32) {}
    /// When lanes of a warp have synchronized in `bar.warp.sync`, which orders their memory accesses.
    fn converge(&mut self, _warp: u32, _lanes: u32) {}
    /// When lanes of a warp exchange values.
    fn exchange(&mut self, _exchange: &Exchange<'_>) {}
    /// When a copy is issued.
    fn copy_issued(&mut self, _copy: &AsyncCopy) {}
    /// When a copy is complete and visible to the thread that issued it.
    fn copy_done(&mut self, _copy: &AsyncCopy) {}
    /// When a bulk copy is issued.
    fn bulk_issued(&mut self, _copy: &BulkCopy) {}
    /// When a tensor copy is issued: the address and size of its rows in global memory.
    fn tensor_issued(&mut self, _copy: &BulkCopy, _rows: &[(u64, u32)]) {}
    /// When a thread uses or changes a tensor map, or executes a fence for it.
    fn tensor_map(&mut self, _used: &MapUse) {}
    /// When a wait for the source of a bulk copy has ended.
    fn bulk_read(&mut self, _copy: &BulkCopy) {}
    /// When a bulk copy is complete.
    fn bulk_done(&mut self, _copy: &BulkCopy) {}
    /// When the mbarrier of a bulk copy has received its bytes, and whether that ended the phase.
    fn bulk_signaled(&mut self, _copy: &BulkCopy, _completes: bool) {}
    /// When a block ends while a bulk copy that it issued in a group is in flight.
    fn bulk_left(&mut self, _copy: &BulkCopy) {}
    /// When a warp issues an asynchronous multiplication.
    fn multiply_issued(&mut self, _multiply: &MultiplyAsync<'_>) {}
    /// When it is complete: its operands are read, and its accumulators written.
    fn multiply_done(&mut self, _multiply: &MultiplyAsync<'_>) {}
    /// When something happens to tensor memory.
    fn tensor(&mut self, _event: &TensorEvent<'_>) {}
    /// When a lane uses an mbarrier.
    fn mbarrier(&mut self, _mbarrier: &Mbarrier) {}
    /// When a call passes a value.
    fn moved(&mut self, _moved: &Moved) {}
    /// When lanes of a warp get a piece of uninitialized local memory.
    fn framed(&mut self, _warp: u32, _lanes: u32, _frame: Range<u32>) {}
    /// When a thread has allocated global memory.
    fn allocated(&mut self, _address: u64, _bytes: u64) {}
    /// When lanes of a warp exit.
    fn exit(&mut self, _warp: u32, _lanes: u32) {}
}
