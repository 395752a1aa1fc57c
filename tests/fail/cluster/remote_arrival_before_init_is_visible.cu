// Block 1 arrives on the barrier of block 0 after a barrier of its own block only: the barrier may not be initialized.
//@arch: 90a
//@launch: kernel=signal grid=2 block=32 cluster=2 arg=out:out:i32[1]
#include "hopper.cuh"

extern "C" __global__ void signal(int *out)
{
    __shared__ __align__(8) unsigned long long ready;
    unsigned rank, peer;
    CLUSTER_RANK(rank);
    if (rank == 0 && threadIdx.x == 0) {
        INIT(&ready, 32); //~ mbarrier
        FENCE_INIT();
    }
    __syncthreads();
    if (rank == 1) {
        MAPA(peer, &ready, 0);
        ARRIVE_PEER(peer); //~ mbarrier, shared-race
    } else {
        WAIT_CLUSTER(&ready, 0);
        if (threadIdx.x == 0)
            *out = 1;
    }
    CLUSTER_SYNC();
}
