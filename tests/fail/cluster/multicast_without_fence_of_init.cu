// The copy of block 0 signals the mbarrier of block 1, which was initialized without a fence for the async proxy.
//@arch: 90a
//@launch: kernel=broadcast grid=2 block=32 cluster=2 arg=in:in:i32[32]=arange arg=out:out:i32[64]
#include "hopper.cuh"

#define BULK_MULTICAST(to, from, bytes, barrier, blocks)                                                                      \
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, [%3], %4;" \
                 ::"r"(SHARED(to)), "l"(__cvta_generic_to_global(from)), "r"(bytes), "r"(SHARED(barrier)),                    \
                 "h"((unsigned short)(blocks)) : "memory")

extern "C" __global__ void broadcast(const int *in, int *out)
{
    __shared__ __align__(128) int row[32];
    __shared__ __align__(8) unsigned long long full;
    unsigned rank;
    CLUSTER_RANK(rank);
    if (threadIdx.x == 0) {
        INIT(&full, 1); //~ mbarrier
        ARRIVE_EXPECT(&full, 128);
    }
    CLUSTER_SYNC();
    if (rank == 0 && threadIdx.x == 0)
        BULK_MULTICAST(row, in, 128, &full, 3); //~ mbarrier
    WAIT(&full, 0);
    out[blockIdx.x * 32 + threadIdx.x] = row[threadIdx.x];
    CLUSTER_SYNC();
}
