// Four blocks pass rows around a ring of shared memory. A block may send its next row before the neighbor has waited for the last one.
//@arch: 90a
//@launch: kernel=ring grid=8 block=128 cluster=4 arg=in:in:i32[8x128]=randint(0, 1000, seed=9) arg=out:out:i32[8x128]
#include "hopper.cuh"

constexpr unsigned BLOCKS = 4;

extern "C" __global__ void __launch_bounds__(128) ring(const unsigned *in, unsigned *out)
{
    __shared__ unsigned row[128];
    __shared__ __align__(8) unsigned long long full;
    unsigned rank, next, next_full, sum = 0;
    CLUSTER_RANK(rank);
    if (threadIdx.x == 0) {
        INIT(&full, 128);
        FENCE_INIT();
    }
    CLUSTER_SYNC();
    unsigned value = in[blockIdx.x * 128 + threadIdx.x];
    MAPA(next, &row[threadIdx.x ^ 1], (rank + 1) % BLOCKS);
    MAPA(next_full, &full, (rank + 1) % BLOCKS);
    for (unsigned step = 0; step < BLOCKS; step++) {
        STORE_PEER(next, value);
        ARRIVE_PEER(next_full);
        WAIT_CLUSTER(&full, step & 1); //~ deadlock
        value = row[threadIdx.x];
        sum += value * (step + 1);
    }
    out[blockIdx.x * 128 + threadIdx.x] = sum;
    CLUSTER_SYNC();
}
