// The arrival and the wait name the scope of the cluster.
//@arch: 90a
//@launch: kernel=send grid=2 block=32 cluster=2 arg=out:out:i32[32]
#include "hopper.cuh"

extern "C" __global__ void send(unsigned *out)
{
    __shared__ unsigned row[32];
    __shared__ __align__(8) unsigned long long ready;
    unsigned rank, peer, peer_ready;
    CLUSTER_RANK(rank);
    if (threadIdx.x == 0) {
        INIT(&ready, 32);
        FENCE_INIT();
    }
    CLUSTER_SYNC();
    MAPA(peer, &row[threadIdx.x], 0);
    MAPA(peer_ready, &ready, 0);
    if (rank == 1) {
        STORE_PEER(peer, threadIdx.x);
        asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(peer_ready) : "memory");
    } else {
        WAIT_CLUSTER(&ready, 0);
        out[threadIdx.x] = row[threadIdx.x];
    }
    CLUSTER_SYNC();
}
