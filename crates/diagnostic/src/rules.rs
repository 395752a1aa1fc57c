//! Describes each class of findings, for readers who see it in the report of another program.

use warpproof_sim::check::Class;

/// The description of a class.
pub(crate) struct Rule {
    /// In CamelCase, as SARIF requires for names.
    pub(crate) name: &'static str,
    /// One sentence.
    pub(crate) short: &'static str,
    /// The meaning and the fix.
    pub(crate) full: &'static str,
}

/// The description of a class.
pub(crate) fn of(class: Class) -> Rule {
    let (name, short, full) = match class {
        Class::SharedRace => (
            "SharedRace",
            "Two threads of a block access the same bytes of shared memory without synchronization.",
            "At least one of the two accesses is a write, and no barrier orders them, so the result depends on timing. Put \
             a __syncthreads() between them, or a __syncwarp() if both threads belong to one warp.",
        ),
        Class::GlobalRace => (
            "GlobalRace",
            "Two threads access the same bytes of global memory without synchronization.",
            "At least one of the two accesses is a write, and neither a barrier nor a fence with an atomic of sufficient scope \
             orders them. Only fences and atomics of device scope order different blocks of a grid.",
        ),
        Class::AsyncCopy => (
            "AsyncCopy",
            "Bytes are accessed while an asynchronous copy of them is in flight.",
            "The bytes of a cp.async are visible to the thread that waited for its group, and to other threads after a barrier \
             that follows the wait. Wait for the right group, then synchronize.",
        ),
        Class::Mbarrier => (
            "Mbarrier",
            "An mbarrier is used before it is initialized, or with a wrong count or phase.",
            "An mbarrier must be initialized, and the initialization made visible, before another thread arrives or waits; \
             every phase needs as many arrivals as it was initialized for, and a wait names the parity of its phase.",
        ),
        Class::Bounds => (
            "Bounds",
            "An access to unallocated memory or to another array.",
            "The address is out of bounds of the array that it was computed from: an index is too large, negative, or wrapped \
             around at 32 bits.",
        ),
        Class::Alignment => (
            "Alignment",
            "An address that is not a multiple of the access size.",
            "An access of 2, 4, 8 or 16 bytes needs an address that is a multiple of its size; on a GPU a misaligned access stops \
             the kernel.",
        ),
        Class::Uninitialized => (
            "Uninitialized",
            "An uninitialized value reaches an address, a branch, a matrix product or an output.",
            "Uninitialized memory and registers hold arbitrary old values. Write the value before it is used, or do not use it.",
        ),
        Class::Lanes => (
            "Lanes",
            "The mask of a warp-wide instruction does not match the lanes that execute it.",
            "The mask of __shfl_sync, __ballot_sync and the like must name exactly the lanes that execute it, and a lane \
             that is read from must be one of them.",
        ),
        Class::Barrier => (
            "Barrier",
            "A barrier is used incorrectly.",
            "All threads of a barrier must arrive at the same barrier, in the number it expects, before it is used again \
             for another purpose.",
        ),
        Class::Deadlock => (
            "Deadlock",
            "No thread can make progress: every remaining thread waits.",
            "Each waits for a barrier, a flag or a lock that no other thread will release.",
        ),
        Class::Provenance => (
            "Provenance",
            "A lane of a matrix instruction holds a different element than the instruction's layout requires.",
            "The product is computed with elements in wrong places: a wrong .trans, a swizzle that differs between store \
             and load, or registers in the wrong order.",
        ),
        Class::Unwritten => (
            "Unwritten",
            "Bytes of an output were never stored.",
            "The output keeps the previous contents of memory there: too few threads or blocks, or a guard that is too \
             narrow.",
        ),
        Class::ModifiedInput => (
            "ModifiedInput",
            "The kernel changed an array that was declared as its input.",
            "A store went to the wrong array, or the array must be declared as inout.",
        ),
        Class::Order => (
            "Order",
            "The results depend on the order in which warps run.",
            "Two runs that differ only in the order of warps or in the time at which copies arrive gave different \
             outputs. If no race is reported as well, a common cause is an atomic on floating-point numbers.",
        ),
        Class::MachineDependent => (
            "MachineDependent",
            "Control flow or a result depends on a clock, a timer, the multiprocessor or an address.",
            "The same inputs can give a different result in the next run or on another device. Compute branches and outputs \
             only from the inputs and the thread's index.",
        ),
        Class::Trap => (
            "Trap",
            "The kernel stopped itself: a failed assert, or a trap.",
            "A thread reached a failed assert or a trap instruction.",
        ),
    };
    Rule { name, short, full }
}
