//! Mutants that nothing tells, each with the reason: it is the same kernel, or it is a miss.

/// What a survivor is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It behaves as the kernel does, in every order the hardware may choose.
    Equivalent,
    /// It is wrong, and nothing tells.
    Missed,
}

/// A survivor that is explained.
pub(crate) struct Survivor {
    pub(crate) kernel: &'static str,
    /// The CUDA line.
    pub(crate) line: u32,
    pub(crate) label: &'static str,
    pub(crate) verdict: Verdict,
    /// The argument, as a sentence.
    pub(crate) why: &'static str,
}

/// The explanation of a mutant, if it has one.
pub(crate) fn explanation(kernel: &str, line: u32, label: &str) -> Option<&'static Survivor> {
    SURVIVORS.iter().find(|known| known.kernel == kernel && known.line == line && known.label == label)
}

const fn equivalent(kernel: &'static str, line: u32, label: &'static str, why: &'static str) -> Survivor {
    Survivor { kernel, line, label, verdict: Verdict::Equivalent, why }
}

const fn missed(kernel: &'static str, line: u32, label: &'static str, why: &'static str) -> Survivor {
    Survivor { kernel, line, label, verdict: Verdict::Missed, why }
}

const FACTOR: &str = "the tile it is multiplied with is zero there, and zero times a finite number is zero; it takes both \
                      fills to be dropped, or an infinity in the input";
const ORDERED: &str = "a barrier stands between every two accesses of different threads to a word, so they need not be \
                       volatile: barriers order ordinary accesses of those who meet at them";
const ALONE: &str = "blocks are run in their order, each as far as it comes, so the block never finds that it has to wait: \
                     schedules differ in the order of warps within a block, not in the order of blocks";
const STATE: &str = "blocks are run in their order, so a block always finds the later state of those before it and never \
                     reads what this orders: schedules differ in the order of warps within a block, not in the order of blocks";

const LEFT: &str = "`bra` does not wait: the loop is left";

pub(crate) static SURVIVORS: &[Survivor] = &[
    equivalent(
        "async_copy/zero_filled_tiles",
        15,
        "`cp.async.ca.shared.global 4, 0` copies all bytes",
        FACTOR,
    ),
    equivalent(
        "async_copy/zero_filled_tiles",
        17,
        "`cp.async.ca.shared.global 4, 0` copies all bytes",
        FACTOR,
    ),
    missed("flags/lock_around_block_work", 10, LEFT, ALONE),
    missed("flags/look_back_scan", 36, LEFT, ALONE),
    missed("flags/look_back_scan_with_fences", 17, "`membar.gl` removed", STATE),
    missed("flags/look_back_scan_with_fences", 17, "`membar.gl` with the block as its scope", STATE),
    missed("flags/look_back_scan_with_fences", 18, "`st.volatile.global.u32` not volatile", STATE),
    missed("flags/look_back_scan_with_fences", 21, LEFT, ALONE),
    missed("flags/release_acquire", 17, LEFT, ALONE),
    missed("flags/ticket_lock", 12, LEFT, ALONE),
    equivalent(
        "flags/volatile_flag_in_shared_memory",
        12,
        "`st.volatile.shared.u32` not volatile",
        "the barrier behind it orders this store before all that other threads do",
    ),
    missed("global_race/lock_acquire_release", 9, LEFT, ALONE),
    equivalent(
        "real_cases/cutlass_1326_pipeline_drained",
        28,
        "`bar.sync 0` removed",
        "each thread has waited for its own copy and then stores to the slot of that copy alone; the last reads of that \
         stage by others are before the barrier of the loop",
    ),
    equivalent("shared_race/last_warp_with_syncwarp", 10, "`st.volatile.shared.f32` not volatile", ORDERED),
    equivalent("shared_race/last_warp_with_syncwarp", 14, "`ld.volatile.shared.f32` not volatile", ORDERED),
    equivalent("shared_race/last_warp_with_syncwarp", 16, "`st.volatile.shared.f32` not volatile", ORDERED),
    equivalent("shared_race/last_warp_with_syncwarp", 21, "`ld.volatile.shared.f32` not volatile", ORDERED),
    equivalent("warp/volatile_reduction_with_syncwarp", 9, "`st.volatile.shared.u32` not volatile", ORDERED),
    equivalent("warp/volatile_reduction_with_syncwarp", 13, "`ld.volatile.shared.u32` not volatile", ORDERED),
    equivalent("warp/volatile_reduction_with_syncwarp", 13, "`st.volatile.shared.u32` not volatile", ORDERED),
    equivalent("warp/volatile_reduction_with_syncwarp", 17, "`ld.volatile.shared.u32` not volatile", ORDERED),
];
