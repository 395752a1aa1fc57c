// Each block reads the shared memory of its neighbor. Without a cluster barrier, the neighbor may not have started.
//@arch: 90a
//@launch: kernel=exchange grid=4 block=32 cluster=2 arg=out:out:i32[4x32]
#include "hopper.cuh"

extern "C" __global__ void exchange(unsigned *out)
{
    __shared__ unsigned row[32];
    unsigned rank, peer, value;
    CLUSTER_RANK(rank);
    row[threadIdx.x] = blockIdx.x * 32 + threadIdx.x; //~ shared-race
    MAPA(peer, &row[threadIdx.x], rank ^ 1);
    LOAD_PEER(value, peer); //~ shared-race
    out[blockIdx.x * 32 + threadIdx.x] = value;
    CLUSTER_SYNC();
}
