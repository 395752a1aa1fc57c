// A histogram over the shared memory of a cluster, with cluster barriers before the first and after the last remote access.
//@arch: 90a
//@launch: kernel=histogram grid=8 block=256 cluster=4 arg=in:in:i32[8x1024]=randint(0, 255, seed=8) arg=out:inout:i32[256]=0
#include "hopper.cuh"

constexpr unsigned BLOCKS = 4, BINS = 256, OWN = BINS / BLOCKS;

extern "C" __global__ void __launch_bounds__(256) histogram(const unsigned *in, unsigned *out)
{
    __shared__ unsigned counts[OWN];
    unsigned rank, peer;
    CLUSTER_RANK(rank);
    for (unsigned i = threadIdx.x; i < OWN; i += 256)
        counts[i] = 0;
    CLUSTER_SYNC();
    for (unsigned i = threadIdx.x; i < 1024; i += 256) {
        unsigned bin = in[blockIdx.x * 1024 + i];
        MAPA(peer, &counts[bin % OWN], bin / OWN);
        asm volatile("red.shared::cluster.add.u32 [%0], 1;" ::"r"(peer) : "memory");
    }
    CLUSTER_SYNC();
    for (unsigned i = threadIdx.x; i < OWN; i += 256)
        atomicAdd(&out[rank * OWN + i], counts[i]);
}
