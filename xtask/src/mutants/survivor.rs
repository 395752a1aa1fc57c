//! Mutants that survive, each with the reason why it behaves as the kernel does, in every order that the hardware may choose.

/// An explained survivor.
pub(crate) struct Survivor {
    pub(crate) kernel: &'static str,
    /// The CUDA line.
    pub(crate) line: u32,
    pub(crate) label: &'static str,
    /// Why the mutant is equivalent to the kernel.
    pub(crate) why: &'static str,
}

/// The explanation of a mutant, if it has one.
pub(crate) fn explanation(kernel: &str, line: u32, label: &str) -> Option<&'static Survivor> {
    SURVIVORS.iter().find(|known| known.kernel == kernel && known.line == line && known.label == label)
}

const fn equivalent(kernel: &'static str, line: u32, label: &'static str, why: &'static str) -> Survivor {
    Survivor { kernel, line, label, why }
}

const FACTOR: &str = "the other tile of the product is zero there, and zero times a finite number is zero; the result is wrong \
                      only if both fills are dropped, or if the input contains an infinity";
const ORDERED: &str = "a barrier separates every two accesses of different threads to a word, so they need not be volatile: a \
                       barrier orders the ordinary accesses of its threads";

const NO_BLOCK: &str = "the grid has no block without rows; the test is for sequences of different lengths";
const NEVER_EQUAL: &str = "the loop begins at the index of the warp or thread and advances by a multiple of their number, so \
                           it never reaches this bound exactly";
const SCALED_BY_ZERO: &str = "a row after the last key reads the first key instead, in bounds, and is decoded with the scale \
                              0: either of the two makes it zero";
const EMPTY_COPY: &str =
    "a tile that begins at the last bound is copied with no bytes, into a stage that is not read again";
const NO_WEIGHT: &str = "the row after the last key is decoded with its scale; its codes are the zeros of the copy, so its \
                         values are finite, its score is masked and its weight is 0";
const NO_LEFTOVER: &str = "the address belongs to the remainder of an unrolled loop of copies, and the threads share a tile \
                           evenly: there is no remainder";
const OVER_K: &str = "thread 0 stores one more chunk, in the place of the first chunk of K: K is stored after a barrier, and \
                      no thread reads it before";
const SEES_NONE: &str = "a query for which both sides are equal sees no key in the other branch either";
const MASKED_TILE: &str = "one more tile, of which every key is masked: the factor is exactly 1 and the weights are 0, so it \
                           only costs time";
const MASKED_FIRST: &str = "a first tile is processed of which every key is masked: the weights are 0, and so are the sums \
                            before and after it";
const UNREAD: &str =
    "one more tile, which begins at the bound, is copied into a stage that is not read again";
const ROUND_MORE: &str = "one more iteration, in which nothing is copied and no row sees a key";
const OTHER_WAY: &str = "a full tile takes the branch for partly masked tiles: rounding is monotonic, so the largest product \
                         is that of the largest score, and the bits are the same";
const NOT_STORED: &str =
    "a warp whose first row is the one after the last computes like all others, and stores nothing";
const LAST_ROW_IS_LOW: &str = "if the second unit begins after the last row, it sees the same keys as the last row, which \
                               belongs to the first unit and has been tested";
const NOTHING_BEFORE: &str = "before the first tile the sums are 0, whatever the factor";
const ONE_GROUP: &str = "the loop waits for all groups at once, and the copies of K join the group of V";
const SAME_ONES: &str = "both registers hold the same ones";

const NO_EMPTY_RUN: &str = "the grid has no block without a step";
const FIRST_LOOP: &str = "a run of one step takes it in the first loop instead of the second";
const STEP_LEFT: &str = "the second loop has at least one step: the first takes at most half of the run, or ends with a tile \
                         that the run extends beyond";
const TURNS_INSIDE: &str = "a run is shorter than a tile of rows, so a run that continues in the next tile begins after the \
                            first step of a tile and ends after its last: the two sides are never equal";
const BEGAN_INSIDE: &str = "a run is shorter than a tile of rows, so a run that ends with a tile began inside of it, and has a \
                            seam by the other condition";

pub(crate) static SURVIVORS: &[Survivor] = &[
    equivalent("attention/h2", 358, "`setp.ge.u32` as `gt`", NO_BLOCK),
    equivalent("attention/h2", 362, "`setp.gt.u32` as `ge` in line 187", NEVER_EQUAL),
    equivalent(
        "attention/h2",
        364,
        "`cp.async.cg.shared.global 16` copies all bytes in line 147",
        SCALED_BY_ZERO,
    ),
    equivalent(
        "attention/h2",
        364,
        "`cp.async.cg.shared.global 16` copies all bytes in line 148",
        SCALED_BY_ZERO,
    ),
    equivalent(
        "attention/h2",
        368,
        "`cp.async.cg.shared.global 16` copies all bytes in line 147",
        SCALED_BY_ZERO,
    ),
    equivalent(
        "attention/h2",
        368,
        "`cp.async.cg.shared.global 16` copies all bytes in line 148",
        SCALED_BY_ZERO,
    ),
    equivalent("attention/h2", 368, "`setp.le.u32` as `lt` in line 144", EMPTY_COPY),
    equivalent("attention/h2", 371, "`setp.lt.u32` as `le` in line 163", NO_WEIGHT),
    equivalent("attention/h4", 358, "`setp.ge.u32` as `gt`", NO_BLOCK),
    equivalent("attention/h4", 362, "`setp.gt.u32` as `ge` in line 187", NEVER_EQUAL),
    equivalent(
        "attention/h4",
        364,
        "`cp.async.cg.shared.global 16` copies all bytes in line 147",
        SCALED_BY_ZERO,
    ),
    equivalent(
        "attention/h4",
        364,
        "`cp.async.cg.shared.global 16` copies all bytes in line 148",
        SCALED_BY_ZERO,
    ),
    equivalent("attention/h4", 364, "`setp.lt.u32` as `le` in line 144", EMPTY_COPY),
    equivalent(
        "attention/h4",
        368,
        "`cp.async.cg.shared.global 16` copies all bytes in line 147",
        SCALED_BY_ZERO,
    ),
    equivalent(
        "attention/h4",
        368,
        "`cp.async.cg.shared.global 16` copies all bytes in line 148",
        SCALED_BY_ZERO,
    ),
    equivalent("attention/h4", 368, "`setp.le.u32` as `lt` in line 144", EMPTY_COPY),
    equivalent("attention/h4", 371, "`setp.lt.u32` as `le` in line 163", NO_WEIGHT),
    equivalent("attention/n3", 63, "`setp.ge.u32` as `gt`", NO_BLOCK),
    equivalent("attention/n3", 66, "`xor.b32` dropped in work.cuh:107, params.cuh:15", NO_LEFTOVER),
    equivalent("attention/n3", 67, "`setp.gt.u32` as `ge` in line 21, tile.cuh:15", NEVER_EQUAL),
    equivalent("attention/n3", 67, "`setp.lt.u32` as `le` in line 21, tile.cuh:15", OVER_K),
    equivalent("attention/n3", 73, "`setp.le.u32` as `lt` in accumulator.cuh:22, work.cuh:87", SEES_NONE),
    equivalent("attention/n3", 75, "`setp.le.u32` as `lt` in work.cuh:98, work.cuh:87", SEES_NONE),
    equivalent("attention/n3", 75, "`setp.lt.u32` as `le`", MASKED_TILE),
    equivalent("attention/n3", 77, "`setp.gt.u32` as `ge` in line 21, tile.cuh:15", NEVER_EQUAL),
    equivalent("attention/n3", 78, "`setp.gt.u32` as `ge` in line 21, tile.cuh:15", NEVER_EQUAL),
    equivalent("attention/n4", 161, "`setp.ge.u32` as `gt`", NO_BLOCK),
    equivalent("attention/n4", 165, "`setp.gt.u32` as `ge` in line 36, tile.cuh:15", NEVER_EQUAL),
    equivalent("attention/n4", 165, "`setp.lt.u32` as `le` in line 36, tile.cuh:15", OVER_K),
    equivalent("attention/n4", 174, "`setp.le.u32` as `lt` in accumulator.cuh:22, work.cuh:87", SEES_NONE),
    equivalent("attention/n4", 176, "`setp.le.u32` as `lt` in work.cuh:98, work.cuh:87", SEES_NONE),
    equivalent("attention/n4", 178, "`setp.lt.u32` as `le`", MASKED_TILE),
    equivalent("attention/n5", 221, "`setp.gt.u32` as `ge` in work.cuh:59, work.cuh:66", SEES_NONE),
    equivalent("attention/n5", 222, "`setp.ge.u32` as `gt`", NO_BLOCK),
    equivalent("attention/n5", 230, "`setp.gt.u32` as `ge` in work.cuh:98, work.cuh:87", SEES_NONE),
    equivalent(
        "attention/n5",
        235,
        "`setp.gt.u32` as `ge` in fp8.cuh:101, fp8.cuh:119, work.cuh:87",
        SEES_NONE,
    ),
    equivalent("attention/n5", 247, "`setp.ge.u32` as `gt` in line 133, fp8.cuh:148", NOT_STORED),
    equivalent("attention/n5", 247, "`setp.le.u32` as `lt` in line 133, fp8.cuh:148, work.cuh:87", SEES_NONE),
    equivalent("attention/n5", 247, "`setp.le.u32` as `lt` in line 136, fp8.cuh:141, work.cuh:87", SEES_NONE),
    equivalent("attention/n5", 247, "`setp.lt.u32` as `le` in line 136, fp8.cuh:141, work.cuh:87", OTHER_WAY),
    equivalent(
        "attention/n5",
        247,
        "`fma.rn.f32` without its second factor in line 137, fp8.cuh:184, fp8.cuh:281",
        NOTHING_BEFORE,
    ),
    equivalent(
        "attention/n5",
        247,
        "`fma.rn.f32` without its second factor in line 139, fp8.cuh:184, fp8.cuh:281",
        NOTHING_BEFORE,
    ),
    equivalent(
        "attention/n5",
        247,
        "`fma.rn.f32` without its second factor in line 145, fp8.cuh:314, fp8.cuh:328",
        NOTHING_BEFORE,
    ),
    equivalent("attention/n5", 253, "`cp.async.commit_group` removed in line 115", ONE_GROUP),
    equivalent("attention/n5", 253, "`setp.le.u32` as `lt` in line 113", UNREAD),
    equivalent("attention/n5", 253, "`setp.gt.u32` as `ge` in line 113", ROUND_MORE),
    equivalent("attention/n5", 253, "`setp.gt.u32` as `ge` in line 118", SEES_NONE),
    equivalent("attention/n5", 254, "`setp.le.u32` as `lt` in line 133, fp8.cuh:148", MASKED_TILE),
    equivalent("attention/n5", 254, "`setp.lt.u32` as `le` in line 136, fp8.cuh:141", OTHER_WAY),
    equivalent("attention/n6", 221, "`setp.gt.u32` as `ge` in work.cuh:59, work.cuh:66", SEES_NONE),
    equivalent("attention/n6", 222, "`setp.ge.u32` as `gt`", NO_BLOCK),
    equivalent("attention/n6", 230, "`setp.gt.u32` as `ge` in work.cuh:98, work.cuh:87", SEES_NONE),
    equivalent(
        "attention/n6",
        235,
        "`setp.gt.u32` as `ge` in fp8.cuh:101, fp8.cuh:119, work.cuh:87",
        SEES_NONE,
    ),
    equivalent("attention/n6", 247, "`setp.ge.u32` as `gt` in line 133, fp8.cuh:148", NOT_STORED),
    equivalent("attention/n6", 247, "`setp.le.u32` as `lt` in line 133, fp8.cuh:148, work.cuh:87", SEES_NONE),
    equivalent("attention/n6", 247, "`setp.le.u32` as `lt` in line 136, fp8.cuh:141, work.cuh:87", SEES_NONE),
    equivalent("attention/n6", 247, "`setp.lt.u32` as `le` in line 136, fp8.cuh:141, work.cuh:87", OTHER_WAY),
    equivalent("attention/n6", 253, "`cp.async.commit_group` removed in line 115", ONE_GROUP),
    equivalent("attention/n6", 253, "`setp.le.u32` as `lt` in line 113", UNREAD),
    equivalent("attention/n6", 253, "`setp.gt.u32` as `ge` in line 113", ROUND_MORE),
    equivalent("attention/n6", 253, "`setp.gt.u32` as `ge` in line 118", SEES_NONE),
    equivalent("attention/n6", 254, "`setp.le.u32` as `lt` in line 133, fp8.cuh:148", MASKED_TILE),
    equivalent("attention/n6", 254, "`setp.lt.u32` as `le` in line 136, fp8.cuh:141", OTHER_WAY),
    equivalent("attention/n7", 221, "`setp.gt.u32` as `ge` in work.cuh:59, work.cuh:66", SEES_NONE),
    equivalent("attention/n7", 222, "`setp.ge.u32` as `gt`", NO_BLOCK),
    equivalent("attention/n7", 230, "`setp.gt.u32` as `ge` in work.cuh:98, work.cuh:87", SEES_NONE),
    equivalent(
        "attention/n7",
        235,
        "`setp.gt.u32` as `ge` in fp8.cuh:101, fp8.cuh:119, work.cuh:87",
        SEES_NONE,
    ),
    equivalent("attention/n7", 247, "`setp.ge.u32` as `gt` in line 133, fp8.cuh:148", NOT_STORED),
    equivalent("attention/n7", 247, "`setp.gt.u32` as `ge` in line 133, fp8.cuh:148, work.cuh:87", SEES_NONE),
    equivalent("attention/n7", 247, "`setp.gt.u32` as `ge` in line 133, fp8.cuh:148", MASKED_FIRST),
    equivalent("attention/n7", 247, "`setp.gt.u32` as `ge` in line 136, fp8.cuh:141, work.cuh:87", SEES_NONE),
    equivalent("attention/n7", 247, "`setp.lt.u32` as `le` in line 136, fp8.cuh:141", OTHER_WAY),
    equivalent(
        "attention/n7",
        247,
        "`fma.rn.f32` without its second factor in line 137, fp8.cuh:184, fp8.cuh:281",
        NOTHING_BEFORE,
    ),
    equivalent(
        "attention/n7",
        247,
        "`fma.rn.f32` without its second factor in line 139, fp8.cuh:184, fp8.cuh:281",
        NOTHING_BEFORE,
    ),
    equivalent(
        "attention/n7",
        247,
        "`fma.rn.f32` without its second factor in line 145, fp8.cuh:314, fp8.cuh:328",
        NOTHING_BEFORE,
    ),
    equivalent("attention/n7", 253, "`cp.async.commit_group` removed in line 115", ONE_GROUP),
    equivalent("attention/n7", 253, "`setp.gt.u32` as `ge` in line 118", SEES_NONE),
    equivalent("attention/n7", 254, "`setp.le.u32` as `lt` in line 133, fp8.cuh:148", MASKED_TILE),
    equivalent("attention/n7", 254, "`setp.lt.u32` as `le` in line 136, fp8.cuh:141", OTHER_WAY),
    equivalent("attention/n8", 70, "`setp.gt.u32` as `ge` in line 64, work.cuh:66", SEES_NONE),
    equivalent("attention/n8", 70, "`setp.ge.u32` as `gt` in line 64, work.cuh:66", LAST_ROW_IS_LOW),
    equivalent("attention/n8", 71, "`setp.ge.u32` as `gt`", NO_BLOCK),
    equivalent("attention/n8", 74, "`setp.gt.u32` as `ge` in work.cuh:98, work.cuh:87", SEES_NONE),
    equivalent("attention/n8", 76, "`setp.gt.u32` as `ge` in work.cuh:87", SEES_NONE),
    equivalent("attention/n8", 97, "`setp.le.u32` as `lt` in line 93, line 50", UNREAD),
    equivalent("attention/n8", 107, "`setp.lt.u32` as `le`", ROUND_MORE),
    equivalent("attention/n8", 108, "`setp.le.u32` as `lt` in line 93, line 50", UNREAD),
    equivalent("attention/n8", 108, "`setp.gt.u32` as `ge` in line 93, line 50", ROUND_MORE),
    equivalent("attention/n8", 108, "`setp.gt.u32` as `ge` in line 93, line 54", SEES_NONE),
    equivalent("attention/n8", 108, "`setp.lt.u32` as `le` in line 93, line 54", NOT_STORED),
    equivalent("attention/n8", 110, "`setp.gt.u32` as `ge` in fp8.cuh:148", MASKED_TILE),
    equivalent("attention/n8", 110, "`setp.le.u32` as `lt` in fp8.cuh:148", MASKED_TILE),
    equivalent("attention/n8", 111, "`setp.gt.u32` as `ge` in dense.cuh:42, fp8.cuh:281", SEES_NONE),
    equivalent("attention/n8", 111, "`setp.gt.u32` as `ge` in dense.cuh:43, fp8.cuh:296", SEES_NONE),
    equivalent("attention/n9", 204, "`setp.ge.u32` as `gt`", NO_EMPTY_RUN),
    equivalent("attention/n9", 243, "`setp.ge.u32` as `gt`", FIRST_LOOP),
    equivalent("attention/n9", 255, "`setp.le.u32` as `lt` in line 177", TURNS_INSIDE),
    equivalent("attention/n9", 255, "`setp.gt.u32` as `ge` in line 177", TURNS_INSIDE),
    equivalent("attention/n9", 261, "`setp.ge.u32` as `gt`", STEP_LEFT),
    equivalent("attention/n9", 268, "`setp.le.u32` as `lt` in line 177", BEGAN_INSIDE),
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
    equivalent(
        "flags/volatile_flag_in_shared_memory",
        12,
        "`st.volatile.shared.u32` not volatile",
        "the barrier after it orders this store before all later accesses of other threads",
    ),
    equivalent(
        "kernels/layer_norm",
        22,
        "`bar.sync 0` removed in line 12",
        "the slots have not been used before the first call",
    ),
    equivalent(
        "real_cases/cutlass_1326_pipeline_drained",
        28,
        "`bar.sync 0` removed",
        "each thread has waited for its own copy and then stores only to the slot of that copy; the last reads of that stage \
         by other threads are before the barrier of the loop",
    ),
    equivalent("shared_race/last_warp_with_syncwarp", 10, "`st.volatile.shared.f32` not volatile", ORDERED),
    equivalent("shared_race/last_warp_with_syncwarp", 14, "`ld.volatile.shared.f32` not volatile", ORDERED),
    equivalent("shared_race/last_warp_with_syncwarp", 16, "`st.volatile.shared.f32` not volatile", ORDERED),
    equivalent("shared_race/last_warp_with_syncwarp", 21, "`ld.volatile.shared.f32` not volatile", ORDERED),
    equivalent(
        "tensor_core/k_tail_cleared",
        25,
        "`mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32` with registers 0 and 1 of B exchanged",
        SAME_ONES,
    ),
    equivalent(
        "tensor_core/ldmatrix_after_syncwarp",
        25,
        "`mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32` with registers 0 and 1 of B exchanged",
        SAME_ONES,
    ),
    equivalent(
        "tensor_core/rows_of_the_other_warp_after_barrier",
        22,
        "`xor.b32` dropped",
        "each warp multiplies the rows that it stored itself, and stores the sums in their places: the other warp computes the \
         same sums",
    ),
    equivalent(
        "tensor_core/rows_of_the_other_warp_after_barrier",
        25,
        "`mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32` with registers 0 and 1 of B exchanged",
        SAME_ONES,
    ),
    equivalent("warp/volatile_reduction_with_syncwarp", 9, "`st.volatile.shared.u32` not volatile", ORDERED),
    equivalent("warp/volatile_reduction_with_syncwarp", 13, "`ld.volatile.shared.u32` not volatile", ORDERED),
    equivalent("warp/volatile_reduction_with_syncwarp", 13, "`st.volatile.shared.u32` not volatile", ORDERED),
    equivalent("warp/volatile_reduction_with_syncwarp", 17, "`ld.volatile.shared.u32` not volatile", ORDERED),
];
