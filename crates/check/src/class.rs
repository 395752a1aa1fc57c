//! The classes of findings.

use warpproof_sim::stop::StopKind;

/// The kind of bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum Class {
    /// Unordered accesses of two threads to the same bytes of shared memory.
    SharedRace,
    /// The same in global memory, within a block or between blocks, or synchronized with too narrow a scope.
    GlobalRace,
    /// Bytes accessed while an asynchronous copy from or to them is in flight.
    AsyncCopy,
    /// Registers or operands of an asynchronous multiplication used while it is in flight, or not ordered before it.
    AsyncMultiply,
    /// Memory written through the generic proxy and read through the async proxy without a fence between them.
    Proxy,
    /// An mbarrier used before its initialization, or with a wrong count or phase.
    Mbarrier,
    /// A tensor map that is invalid, not one, changed without a fence, or used for another copy than it describes.
    TensorMap,
    /// Tensor memory used before an asynchronous access to it is complete, before it was written, or never freed.
    TensorMemory,
    /// An out-of-bounds access: to unallocated memory, or to memory of another array.
    Bounds,
    /// An address that is not a multiple of the access size.
    Alignment,
    /// Use of an uninitialized value.
    Uninitialized,
    /// A warp-wide instruction whose member mask differs from the lanes that execute it.
    Lanes,
    /// A barrier used in a way it does not allow.
    Barrier,
    /// No thread can make progress.
    Deadlock,
    /// A lane of a matrix instruction holds another element than the fragment layout requires.
    Provenance,
    /// Elements of an output that the kernel never wrote.
    Unwritten,
    /// An input that the kernel wrote to.
    ModifiedInput,
    /// Results that depend on the order in which warps run.
    Order,
    /// Control flow or results that depend on a clock, a timer, the multiprocessor or an address.
    MachineDependent,
    /// `trap`, a failed `assert`.
    Trap,
}

impl Class {
    /// Every class, in the order of the book.
    pub const ALL: [Class; 20] = [
        Class::SharedRace,
        Class::GlobalRace,
        Class::AsyncCopy,
        Class::AsyncMultiply,
        Class::Proxy,
        Class::Mbarrier,
        Class::TensorMap,
        Class::TensorMemory,
        Class::Bounds,
        Class::Alignment,
        Class::Uninitialized,
        Class::Lanes,
        Class::Barrier,
        Class::Deadlock,
        Class::Provenance,
        Class::Unwritten,
        Class::ModifiedInput,
        Class::Order,
        Class::MachineDependent,
        Class::Trap,
    ];

    /// The stable name, used in machine-readable output and for the pages of the book.
    pub fn name(self) -> &'static str {
        match self {
            Class::SharedRace => "shared-race",
            Class::GlobalRace => "global-race",
            Class::AsyncCopy => "async-copy",
            Class::AsyncMultiply => "async-multiply",
            Class::Proxy => "proxy",
            Class::Mbarrier => "mbarrier",
            Class::TensorMap => "tensor-map",
            Class::TensorMemory => "tensor-memory",
            Class::Bounds => "bounds",
            Class::Alignment => "alignment",
            Class::Uninitialized => "uninitialized",
            Class::Lanes => "lanes",
            Class::Barrier => "barrier",
            Class::Deadlock => "deadlock",
            Class::Provenance => "provenance",
            Class::Unwritten => "unwritten",
            Class::ModifiedInput => "modified-input",
            Class::Order => "order",
            Class::MachineDependent => "machine-dependent",
            Class::Trap => "trap",
        }
    }

    /// The class of a stop that the kernel caused.
    pub fn of_stop(kind: StopKind) -> Option<Class> {
        Some(match kind {
            StopKind::Bounds => Class::Bounds,
            StopKind::Alignment => Class::Alignment,
            StopKind::Barrier => Class::Barrier,
            StopKind::Mbarrier => Class::Mbarrier,
            StopKind::TensorMap => Class::TensorMap,
            StopKind::Deadlock => Class::Deadlock,
            StopKind::Lanes => Class::Lanes,
            StopKind::Trap => Class::Trap,
            _ => return None,
        })
    }

    /// What is wrong, in one sentence.
    pub fn summary(self) -> &'static str {
        self.description().0
    }

    /// What it means and how to fix it, for readers who see a finding in the report of another program.
    pub fn explanation(self) -> &'static str {
        self.description().1
    }

    fn description(self) -> (&'static str, &'static str) {
        match self {
            Class::SharedRace => (
                "Two threads of a block access the same bytes of shared memory without synchronization.",
                "At least one of the two accesses is a write, and no barrier orders them, so the result depends on timing. Put \
             a __syncthreads() between them, or a __syncwarp() if both threads belong to one warp.",
            ),
            Class::GlobalRace => (
                "Two threads access the same bytes of global memory without synchronization.",
                "At least one of the two accesses is a write, and neither a barrier nor a fence with an atomic of sufficient scope \
             orders them. Only fences and atomics of device scope order different blocks of a grid.",
            ),
            Class::AsyncCopy => (
                "Bytes are accessed while an asynchronous copy of them is in flight.",
                "The bytes of a cp.async are visible to the thread that waited for its group, and to other threads after a barrier \
             that follows the wait. Wait for the right group, then synchronize.",
            ),
            Class::AsyncMultiply => (
                "Registers or operands of wgmma are used while it is in flight, or are not ordered before it.",
                "Accumulators, registers of A and operands in shared memory belong to the tensor core from wgmma.mma_async until a \
             wgmma.wait_group that covers it. Before it, a wgmma.fence must follow the last use of its registers.",
            ),
            Class::Proxy => (
                "Shared memory is written by threads and read by the async proxy without a proxy fence.",
                "wgmma reads shared memory through the async proxy, which a barrier does not order with the writes of threads. \
             Execute fence.proxy.async after the writes, then synchronize.",
            ),
            Class::Mbarrier => (
                "An mbarrier is used before it is initialized, or with a wrong count or phase.",
                "An mbarrier must be initialized, and the initialization made visible, before another thread arrives or waits; \
             every phase needs as many arrivals as it was initialized for, and a wait names the parity of its phase.",
            ),
            Class::TensorMap => (
                "A tensor map is invalid, or it was changed without a proxy fence.",
                "A copy needs a map that cuTensorMapEncodeTiled or cuTensorMapEncodeIm2col made, at an address that is a multiple of \
             64, with as many dimensions as the copy has coordinates. A map that tensormap.replace changed may be used after \
             fence.proxy.tensormap::generic, a release by the thread that changed it and an acquire by the thread that uses it.",
            ),
            Class::TensorMemory => (
                "Tensor memory is used before an access to it is complete, or is never freed.",
                "A copy or a multiplication is complete for a thread that has waited for an mbarrier at which a later tcgen05.commit \
             arrived; a load or a store after tcgen05.wait. Between threads a synchronization is needed, with a tcgen05.fence before \
             and after it. A block must free what it has allocated.",
            ),
            Class::Bounds => (
                "An access to unallocated memory or to another array.",
                "The address is out of bounds of the array that it was computed from: an index is too large, negative, or wrapped \
             around at 32 bits.",
            ),
            Class::Alignment => (
                "An address that is not a multiple of the access size.",
                "An access of 2, 4, 8 or 16 bytes needs an address that is a multiple of its size; on a GPU a misaligned access stops \
             the kernel.",
            ),
            Class::Uninitialized => (
                "An uninitialized value reaches an address, a branch, a matrix product or an output.",
                "Uninitialized memory and registers hold arbitrary old values. Write the value before it is used, or do not use it.",
            ),
            Class::Lanes => (
                "The mask of a warp-wide instruction does not match the lanes that execute it.",
                "The mask of __shfl_sync, __ballot_sync and the like must name exactly the lanes that execute it, and a lane \
             that is read from must be one of them.",
            ),
            Class::Barrier => (
                "A barrier is used incorrectly.",
                "All threads of a barrier must arrive at the same barrier, in the number it expects, before it is used again \
             for another purpose.",
            ),
            Class::Deadlock => (
                "No thread can make progress: every remaining thread waits.",
                "Each waits for a barrier, a flag or a lock that no other thread will release.",
            ),
            Class::Provenance => (
                "A lane of a matrix instruction holds a different element than the instruction's layout requires.",
                "The product is computed with elements in wrong places: a wrong .trans, a swizzle that differs between store \
             and load, or registers in the wrong order.",
            ),
            Class::Unwritten => (
                "Bytes of an output were never stored.",
                "The output keeps the previous contents of memory there: too few threads or blocks, or a guard that is too \
             narrow.",
            ),
            Class::ModifiedInput => (
                "The kernel changed an array that was declared as its input.",
                "A store went to the wrong array, or the array must be declared as inout.",
            ),
            Class::Order => (
                "The results depend on the order in which warps run.",
                "Two runs that differ only in the order of warps or in the time at which copies arrive gave different \
             outputs. If no race is reported as well, a common cause is an atomic on floating-point numbers.",
            ),
            Class::MachineDependent => (
                "Control flow or a result depends on a clock, a timer, the multiprocessor or an address.",
                "The same inputs can give a different result in the next run or on another device. Compute branches and outputs \
             only from the inputs and the thread's index.",
            ),
            Class::Trap => (
                "The kernel stopped itself: a failed assert, or a trap.",
                "A thread reached a failed assert or a trap instruction.",
            ),
        }
    }
}
