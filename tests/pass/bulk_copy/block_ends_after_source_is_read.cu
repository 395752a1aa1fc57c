// The thread that issued the bulk store waits until the shared memory has been read. The store itself needs no wait.
//@arch: 90a
//@launch: kernel=fill grid=4 block=64 arg=out:out:i32[4x64]
#include "hopper.cuh"

extern "C" __global__ void fill(int *out)
{
    __shared__ __align__(128) int row[64];
    row[threadIdx.x] = blockIdx.x + threadIdx.x;
    FENCE_PROXY();
    __syncthreads();
    if (threadIdx.x == 0) {
        BULK_STORE(out + blockIdx.x * 64, row, sizeof row);
        BULK_COMMIT();
        BULK_WAIT_READ(0);
    }
}
