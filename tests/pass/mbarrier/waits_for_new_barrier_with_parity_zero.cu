// The wait for parity 0 on a new barrier returns when its first phase has ended.
//@arch: 90a
//@launch: kernel=load grid=1 block=64 arg=in:in:i32[64]=arange arg=out:out:i32[64]
#include "hopper.cuh"

extern "C" __global__ void load(const int *in, int *out)
{
    __shared__ __align__(128) int row[64];
    __shared__ __align__(8) unsigned long long full;
    if (threadIdx.x == 0) {
        INIT(&full, 1);
        FENCE_INIT();
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        ARRIVE_EXPECT(&full, 256);
        BULK_LOAD(row, in, 256, &full);
    }
    WAIT(&full, 0);
    out[threadIdx.x] = row[threadIdx.x];
}
