// The cluster barrier is split, and its arrival is relaxed: it orders execution, but not the stores before it.
//@arch: 90a
//@launch: kernel=exchange grid=2 block=64 cluster=2 arg=out:out:i32[2x64]
#include "hopper.cuh"

extern "C" __global__ void exchange(unsigned *out)
{
    __shared__ unsigned row[64];
    unsigned rank, peer, value;
    CLUSTER_RANK(rank);
    row[threadIdx.x] = blockIdx.x * 64 + threadIdx.x; //~ shared-race
    CLUSTER_ARRIVE_RELAXED();
    MAPA(peer, &row[threadIdx.x], rank ^ 1);
    CLUSTER_WAIT();
    LOAD_PEER(value, peer); //~ shared-race
    out[blockIdx.x * 64 + threadIdx.x] = value;
    CLUSTER_SYNC();
}
