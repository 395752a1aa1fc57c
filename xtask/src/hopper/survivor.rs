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
const INIT_UNSEEN: &str = "the checks do not ask whether the async proxy sees the initialization of an mbarrier: a check would need a \
                           fence.mbarrier_init or fence.proxy.async between `mbarrier.init` and the first copy that signals it";
const AGENT_SCOPE: &str =
    "bytes of an asynchronous agent count as seen by every thread that waits, whatever the scope of its wait";
const SEVENTH: &str = "a multiplication is complete for a warpgroup when one of its warps has waited, so seven of eight arrivals are enough at \
                       first; the eighth counts for the next phase, and only after four phases a stage is filled too early: the launch is too \
                       short";
const KEEPS: &str = "the producer keeps the registers that it has at its start, and the consumers wait for them forever; the machine counts \
                     registers only from the first `setmaxnreg` of a warp on";
const FITS: &str = "the sum over all warps is exactly the registers of a multiprocessor";

const LATER: &str = "the wait is longer than necessary: consumers release stages in order, so the release of the next stage implies that of this one, \
                     and the copy before has waited for the last stage";
const TWICE: &str = "the same threads synchronize twice, or the same bytes are stored twice before the wait";
const FEWER: &str =
    "the consumers keep the registers that they have at their start, and ptxas fits the program into them";

pub(super) static SURVIVORS: &[Survivor] = &[
    missed("gemm", 29, "`mbarrier_init` expects one arrival less", SEVENTH),
    missed("gemm", 31, "`fence_mbarrier_init` removed", INIT_UNSEEN),
    missed("gemm", 42, "`setmaxnreg_dec<40>` removed", KEEPS),
    equivalent("gemm", 42, "`setmaxnreg_dec<40>` asks for 48", FITS),
    equivalent("gemm", 51, "`shared.empty[stage]` of the next stage", LATER),
    equivalent("gemm", 68, "`setmaxnreg_inc<232>` removed", FEWER),
    missed("gemm", 108, "`mbarrier_arrive` repeated", SEVENTH),
    equivalent("gemm", 114, "`named_barrier_sync` repeated", TWICE),
    equivalent("gemm", 119, "`named_barrier_sync` repeated", TWICE),
    equivalent("gemm", 121, "`tma_store` repeated", TWICE),
    missed("gemm_multicast", 29, "`mbarrier_init` expects one arrival less", SEVENTH),
    missed("gemm_multicast", 31, "`fence_mbarrier_init` removed", INIT_UNSEEN),
    missed("gemm_multicast", 42, "`setmaxnreg_dec<40>` removed", KEEPS),
    equivalent("gemm_multicast", 42, "`setmaxnreg_dec<40>` asks for 48", FITS),
    equivalent("gemm_multicast", 49, "`shared.empty[stage]` of the next stage", LATER),
    missed("attention", 102, "`mbarrier_init` expects one arrival less", SEVENTH),
    missed("attention", 103, "`mbarrier_init` expects one arrival less", SEVENTH),
    missed("attention", 105, "`fence_mbarrier_init` removed", INIT_UNSEEN),
    missed("attention", 111, "`setmaxnreg_dec<24>` removed", KEEPS),
    equivalent("attention", 111, "`setmaxnreg_dec<24>` asks for 32", FITS),
    equivalent("cluster_reduce", 51, "`lane == 0` for all lanes", SAME_VALUE),
    equivalent("cluster_reduce", 59, "`fence_mbarrier_init` removed", RELEASED),
    equivalent("cluster_reduce", 75, "`lane == 0` for all lanes", SAME_VALUE),
    missed("cluster_reduce", 79, "`mbarrier_wait_cluster` with the block as its scope", AGENT_SCOPE),
    missed("multicast", 19, "`fence_mbarrier_init` removed", INIT_UNSEEN),
    equivalent("multicast", 30, "`empty[stage]` of the next stage", LATER),
];
