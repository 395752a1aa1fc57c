// All lanes of a warp store the same row to the same place: one store for the warp.
//@arch: 90a
//@launch: kernel=fill grid=1 block=64 arg=out:out:i32[64]
#include "hopper.cuh"

extern "C" __global__ void fill(int *out)
{
    __shared__ __align__(128) int row[64];
    row[threadIdx.x] = threadIdx.x;
    FENCE_PROXY();
    __syncthreads();
    if (threadIdx.x < 32) {
        BULK_STORE(out, row, sizeof row);
        BULK_COMMIT();
        BULK_WAIT(0);
    }
}
