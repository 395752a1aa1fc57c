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
            "Two threads of a block use the same bytes of shared memory, and nothing orders them.",
            "At least one of the two writes, and no barrier stands between them: which comes first is left to chance. Put \
             a __syncthreads() between them, or a __syncwarp() if both threads belong to one warp.",
        ),
        Class::GlobalRace => (
            "GlobalRace",
            "Two threads use the same bytes of global memory, and nothing orders them.",
            "At least one of the two writes, and neither a barrier, nor a fence with an atomic of a scope that holds both, \
             stands between them. Blocks of a grid are ordered by fences and atomics of device scope only.",
        ),
        Class::AsyncCopy => (
            "AsyncCopy",
            "Bytes are used while an asynchronous copy of them is under way.",
            "The bytes of a cp.async are there for the thread that waited for its group, and for others after a barrier \
             that follows the wait. Wait for the right group, and put a barrier behind it.",
        ),
        Class::Mbarrier => (
            "Mbarrier",
            "An mbarrier is used before it is there, or with a wrong count or phase.",
            "An mbarrier must be initialized, and the initialization made visible, before another thread arrives or waits; \
             every phase needs as many arrivals as it was initialized for, and a wait names the parity of its phase.",
        ),
        Class::Bounds => (
            "Bounds",
            "An access to memory that is not there, or that belongs to another array.",
            "The address lies outside of the array that it was made from: an index is too large, negative, or wrapped \
             round at 32 bits.",
        ),
        Class::Alignment => (
            "Alignment",
            "An address that is not a multiple of the access size.",
            "An access of 2, 4, 8 or 16 bytes needs an address that is a multiple of its size; on a GPU another one ends \
             the kernel.",
        ),
        Class::Uninitialized => (
            "Uninitialized",
            "A value that nobody has written reaches an address, a branch, a matrix product or an output.",
            "Memory and registers hold what was left there before. Write the value before it is used, or do not use it.",
        ),
        Class::Lanes => (
            "Lanes",
            "Lanes that a warp-wide instruction names do not take part, or take part and are not named.",
            "The mask of __shfl_sync, __ballot_sync and the like must name exactly the lanes that come to it, and a lane \
             that is read from must be one of them.",
        ),
        Class::Barrier => (
            "Barrier",
            "A barrier is used in a way it does not allow.",
            "All threads that a barrier counts must come to the same barrier, as many as it was told, before it is used \
             again for something else.",
        ),
        Class::Deadlock => (
            "Deadlock",
            "Nothing can run any more: every thread that is left waits.",
            "Each waits for a barrier, a flag or a lock that no other thread will pass on.",
        ),
        Class::Provenance => (
            "Provenance",
            "A lane of a matrix instruction holds another element than the instruction's layout says.",
            "The product is computed with elements in wrong places: a wrong .trans, a swizzle that differs between store \
             and load, or registers in the wrong order.",
        ),
        Class::Unwritten => (
            "Unwritten",
            "Bytes of an output were never stored.",
            "What the output holds there is what was in memory before: too few threads or blocks, or a guard that is too \
             narrow.",
        ),
        Class::ModifiedInput => (
            "ModifiedInput",
            "The kernel changed an array that was declared as its input.",
            "A store went into the wrong array, or the array is an inout in truth.",
        ),
        Class::Order => (
            "Order",
            "The results depend on the order in which warps run.",
            "Two runs that differ only in the order of warps or in the time at which copies arrive gave different \
             outputs. Where no race is reported beside it, an atomic on floating-point numbers is a common cause.",
        ),
        Class::MachineDependent => (
            "MachineDependent",
            "Control flow or a result depends on a clock, a timer, the multiprocessor or an address.",
            "The same inputs can give another result in the next run or on another device. Compute branches and outputs \
             from the inputs and the thread's index alone.",
        ),
        Class::Trap => (
            "Trap",
            "The kernel ended itself: a failed assert, or a trap.",
            "A thread came to a place that the kernel itself declares to be wrong.",
        ),
    };
    Rule { name, short, full }
}
