// Two lanes store different rows to the same place.
//@arch: 90a
//@launch: kernel=fill grid=1 block=64 arg=out:out:i32[64]
#include "hopper.cuh"

extern "C" __global__ void fill(int *out)
{
    __shared__ __align__(128) int rows[2][64];
    rows[0][threadIdx.x] = threadIdx.x;
    rows[1][threadIdx.x] = threadIdx.x + 1;
    FENCE_PROXY();
    __syncthreads();
    if (threadIdx.x < 2) {
        BULK_STORE(out, rows[threadIdx.x], sizeof rows[0]); //~ global-race
        BULK_COMMIT();
        BULK_WAIT(0);
    }
}
