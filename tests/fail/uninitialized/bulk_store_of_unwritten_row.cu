// Half of the row is never written, and the bulk copy stores all of it.
//@arch: 90a
//@launch: kernel=fill grid=1 block=64 arg=out:out:i32[128]
#include "hopper.cuh"

extern "C" __global__ void fill(int *out)
{
    __shared__ __align__(128) int row[128];
    row[threadIdx.x] = threadIdx.x;
    FENCE_PROXY();
    __syncthreads();
    if (threadIdx.x == 0) {
        BULK_STORE(out, row, sizeof row); //~ uninitialized
        BULK_COMMIT();
        BULK_WAIT_READ(0);
    }
}
