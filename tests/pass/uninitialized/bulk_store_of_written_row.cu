// All of the row is written before the bulk copy stores it.
//@arch: 90a
//@launch: kernel=fill grid=1 block=64 arg=out:out:i32[128]
#include "hopper.cuh"

extern "C" __global__ void fill(int *out)
{
    __shared__ __align__(128) int row[128];
    row[threadIdx.x] = row[threadIdx.x + 64] = threadIdx.x;
    FENCE_PROXY();
    __syncthreads();
    if (threadIdx.x == 0) {
        BULK_STORE(out, row, sizeof row);
        BULK_COMMIT();
        BULK_WAIT_READ(0);
    }
}
