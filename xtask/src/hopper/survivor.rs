//! Mutants without a finding and with correct results: equivalent to the kernel, or missed, each with the reason.

/// Why a mutant survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    /// It behaves as the kernel does, in every order that the hardware may choose.
    Equivalent(&'static str),
    /// It is wrong, and the checks do not find it.
    Missed(&'static str),
}

/// An explained survivor.
pub(super) struct Survivor {
    pub(super) kernel: &'static str,
    pub(super) line: u32,
    pub(super) label: &'static str,
    pub(super) reason: Reason,
}

/// The explanation of a mutant, if it has one.
pub(super) fn explanation(kernel: &str, line: u32, label: &str) -> Option<&'static Survivor> {
    SURVIVORS.iter().find(|known| known.kernel == kernel && known.line == line && known.label == label)
}

const fn equivalent(kernel: &'static str, line: u32, label: &'static str, why: &'static str) -> Survivor {
    Survivor { kernel, line, label, reason: Reason::Equivalent(why) }
}

const fn missed(kernel: &'static str, line: u32, label: &'static str, why: &'static str) -> Survivor {
    Survivor { kernel, line, label, reason: Reason::Missed(why) }
}

const SAME_VALUE: &str =
    "after the exchanges, every lane of the warp has the same bits and stores them to the same place";
const RELEASED: &str = "`barrier.cluster.arrive.release` orders the initialization before what other blocks do, and `red.async` is not in the async proxy";
const INIT_UNSEEN: &str = "the fence is reported as missing only if the copy of another block signals the mbarrier: Triton's kernels for one block \
                           initialize mbarriers without it";
const AGENT_SCOPE: &str =
    "bytes of an asynchronous agent count as seen by every thread that waits, whatever the scope of its wait";
const LATER: &str = "the wait is longer than necessary: consumers release stages in order, so the release of the next stage implies that of this one, \
                     and the copy before has waited for the last stage";
const SWAPPED: &str = "the two stages are released in each other's place: every copy then waits for a release that is later than its own, or the copy \
                       before has waited for its own";
const AFTER_VALUES: &str = "a copy of keys follows a copy of values in the same thread, which has waited until every warp has released the values of \
                            three tiles before; a warp does that after it has read the keys of two tiles before, which the copy replaces";
const TWICE: &str = "the same threads synchronize twice, or the same bytes are stored twice before the wait";
const OTHER_NUMBER: &str = "no other threads use the barrier with that number";
const FEWER: &str =
    "the consumers keep the registers that they have at their start, and ptxas fits the program into them";
const ONE_STORE: &str = "all lanes of the warp store the same bytes to the same place with one instruction";
const TURNS: &str = "the barriers of the turns only decide which warpgroup uses the tensor core first; no memory depends on them";
const DELAYED: &str = "no schedule of the study delays the second warpgroup between its first arrival and its wait for its turn, which would \
                       be a deadlock";

const NO_TENSOR_USE: &str =
    "the thread has executed no asynchronous access to tensor memory: allocation is synchronous";
const FENCED_LATER: &str = "every thread executes another `tcgen05.fence::after_thread_sync` before its first access to tensor memory";
const FENCED_TILE: &str =
    "the same fence after the wait for the tile is executed before every multiplication";
const FENCED_BEFORE: &str =
    "every thread has executed the fence after its last load, and a commit implies it";
const SYNCHRONOUS: &str =
    "deallocation is synchronous: the fence orders asynchronous accesses after the synchronization";
const SHARED_OPERANDS: &str = "another fence orders the accesses to tensor memory; that this one orders the reads of shared memory after the wait for \
                               the copy is not followed";
const ARRIVES_LATER: &str = "all stages expect the same number of bytes: a stage is complete when its own bytes and the arrival for another one are \
                             there, which is later";
const IN_ORDER: &str = "the first stage is filled again after the multiplications of the last one, and those of one thread are complete in order";
const BOTH_BARRIERS: &str = "the same threads use both barriers in turn";
const IMPLIED_ADDED: &str = "the factors follow scores whose commit covers the values of the tile before";
const DEPENDENT: &str = "the product reads the registers, which orders it after the load, and the store to the same columns is executed after that";

pub(super) static SURVIVORS: &[Survivor] = &[
    missed("gemm", 31, "`fence_mbarrier_init` removed", INIT_UNSEEN),
    equivalent("gemm", 51, "`shared.empty[stage]` of the next stage", LATER),
    equivalent("gemm", 68, "`setmaxnreg_inc<232>` removed", FEWER),
    equivalent("gemm", 114, "`named_barrier_sync` repeated", TWICE),
    equivalent("gemm", 119, "`named_barrier_sync` repeated", TWICE),
    equivalent("gemm", 121, "`tma_store` repeated", TWICE),
    equivalent("gemm", 122, "`tma_store` repeated", TWICE),
    equivalent("gemm_multicast", 49, "`shared.empty[stage]` of the next stage", LATER),
    equivalent("gemm_multicast", 68, "`setmaxnreg_inc<232>` removed", FEWER),
    equivalent("gemm_multicast", 114, "`named_barrier_sync` repeated", TWICE),
    equivalent("gemm_multicast", 119, "`named_barrier_sync` repeated", TWICE),
    equivalent("gemm_multicast", 121, "`tma_store` repeated", TWICE),
    equivalent("gemm_multicast", 122, "`tma_store` repeated", TWICE),
    missed("attention", 105, "`fence_mbarrier_init` removed", INIT_UNSEEN),
    equivalent("attention", 118, "`shared.k_empty[stage]` of the next stage", LATER),
    equivalent("attention", 121, "`shared.v_empty[stage]` of the next stage", LATER),
    equivalent("attention", 133, "`setmaxnreg_inc<240>` removed", FEWER),
    equivalent("attention", 141, "`named_barrier_arrive` at the next barrier", TURNS),
    equivalent("attention", 144, "`named_barrier_sync` removed", TURNS),
    missed("attention", 148, "`named_barrier_arrive` repeated", DELAYED),
    equivalent("attention", 162, "`named_barrier_sync` removed", TURNS),
    equivalent("attention", 173, "`shared.k_empty[next]` of the next stage", AFTER_VALUES),
    equivalent("attention", 180, "`shared.v_empty[stage]` of the next stage", SWAPPED),
    equivalent("attention", 207, "`named_barrier_sync` at the next barrier", OTHER_NUMBER),
    equivalent("attention", 207, "`named_barrier_sync` repeated", TWICE),
    equivalent("attention", 208, "`elect()` for all lanes", ONE_STORE),
    equivalent("attention", 209, "`tma_store` repeated", TWICE),
    equivalent("cluster_reduce", 51, "`lane == 0` for all lanes", SAME_VALUE),
    equivalent("cluster_reduce", 59, "`fence_mbarrier_init` removed", RELEASED),
    equivalent("cluster_reduce", 75, "`lane == 0` for all lanes", SAME_VALUE),
    missed("cluster_reduce", 79, "`mbarrier_wait_cluster` with the block as its scope", AGENT_SCOPE),
    equivalent("multicast", 30, "`empty[stage]` of the next stage", LATER),
    equivalent("multicast", 44, "`named_barrier_sync` at the next barrier", OTHER_NUMBER),
    equivalent("multicast", 44, "`named_barrier_sync` repeated", TWICE),
    equivalent("multicast", 49, "`empty[stage]` of the next stage", SWAPPED),
    missed("tcgen05_gemm", 35, "`fence_mbarrier_init` removed", INIT_UNSEEN),
    equivalent("tcgen05_gemm", 41, "`fence_before_sync` removed", NO_TENSOR_USE),
    equivalent("tcgen05_gemm", 43, "`fence_after_sync` removed", FENCED_LATER),
    equivalent("tcgen05_gemm", 51, "`shared.empty[stage]` of the next stage", LATER),
    equivalent("tcgen05_gemm", 52, "`shared.full[stage]` of the next stage", ARRIVES_LATER),
    equivalent("tcgen05_gemm", 67, "`fence_after_sync` removed", FENCED_TILE),
    missed("tcgen05_gemm", 70, "`fence_after_sync` removed", SHARED_OPERANDS),
    equivalent("tcgen05_gemm", 74, "`shared.empty[stage]` of the next stage", IN_ORDER),
    equivalent("tcgen05_gemm", 101, "`named_barrier_sync` at the next barrier", BOTH_BARRIERS),
    equivalent("tcgen05_gemm", 101, "`named_barrier_sync` repeated", TWICE),
    equivalent("tcgen05_gemm", 110, "`named_barrier_sync` at the next barrier", OTHER_NUMBER),
    equivalent("tcgen05_gemm", 110, "`named_barrier_sync` repeated", TWICE),
    equivalent("tcgen05_gemm", 112, "`tma_store` repeated", TWICE),
    equivalent("tcgen05_gemm", 121, "`fence_before_sync` removed", FENCED_BEFORE),
    equivalent("tcgen05_gemm", 123, "`fence_after_sync` removed", SYNCHRONOUS),
    missed("tcgen05_attention", 72, "`fence_mbarrier_init` removed", INIT_UNSEEN),
    equivalent("tcgen05_attention", 78, "`fence_before_sync` removed", NO_TENSOR_USE),
    equivalent("tcgen05_attention", 80, "`fence_after_sync` removed", FENCED_LATER),
    missed("tcgen05_attention", 196, "`fence_after_sync` removed", SHARED_OPERANDS),
    equivalent("tcgen05_attention", 252, "`fence_after_sync` removed", SYNCHRONOUS),
    equivalent("tcgen05_attention", 131, "`mbarrier_wait` removed", IMPLIED_ADDED),
    equivalent("tcgen05_attention", 139, "`tensor_wait_loads` removed", DEPENDENT),
    equivalent("tcgen05_attention", 204, "`shared.v_empty[stage]` of the next stage", SWAPPED),
    equivalent("tcgen05_attention", 212, "`shared.k_empty[next]` of the next stage", SWAPPED),
    equivalent("tcgen05_attention", 228, "`shared.k_empty[stage]` of the next stage", LATER),
    equivalent("tcgen05_attention", 231, "`shared.v_empty[stage]` of the next stage", LATER),
    equivalent("tcgen05_attention", 241, "`elect()` for all lanes", ONE_STORE),
    equivalent("tcgen05_attention", 244, "`tma_store` repeated", TWICE),
];
