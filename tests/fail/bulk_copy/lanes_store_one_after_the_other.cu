// Two lanes store the same row to the same place, each in its own round of a loop: two copies, which nothing orders.
//@arch: 90a
//@launch: kernel=fill grid=1 block=64 arg=out:out:i32[64]
#include "hopper.cuh"

extern "C" __global__ void fill(int *out)
{
    __shared__ __align__(128) int row[64];
    row[threadIdx.x] = threadIdx.x;
    FENCE_PROXY();
    __syncthreads();
#pragma unroll 1
    for (int i = 0; i < 2; i++) {
        if (threadIdx.x == i) {
            BULK_STORE(out, row, sizeof row); //~ global-race
            BULK_COMMIT();
            BULK_WAIT(0);
        }
    }
}
