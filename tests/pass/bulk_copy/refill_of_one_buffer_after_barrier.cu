// One thread copies the next row into the buffer when a barrier shows that all threads have read the row before it.
//@arch: 90a
//@launch: kernel=sum grid=1 block=64 arg=in:in:i32[4x64]=arange arg=out:out:i32[64]
#include "hopper.cuh"

extern "C" __global__ void sum(const int *in, int *out)
{
    __shared__ __align__(128) int row[64];
    __shared__ __align__(8) unsigned long long full;
    int total = 0;
    if (threadIdx.x == 0) {
        INIT(&full, 1);
        FENCE_INIT();
    }
    __syncthreads();
    for (int i = 0; i < 4; i++) {
        if (threadIdx.x == 0) {
            ARRIVE_EXPECT(&full, 256);
            BULK_LOAD(row, in + i * 64, 256, &full);
        }
        WAIT(&full, i & 1);
        total += row[63 - threadIdx.x];
        __syncthreads();
    }
    out[threadIdx.x] = total;
}
