// Threads fill a row, a barrier follows, and a bulk copy stores the row: the barrier does not order the proxies.
//@arch: 90a
//@launch: kernel=fill grid=2 block=64 arg=out:out:i32[2x64]
#include "hopper.cuh"

extern "C" __global__ void fill(int *out)
{
    __shared__ __align__(128) int row[64];
    row[threadIdx.x] = blockIdx.x + threadIdx.x; //~ proxy
    __syncthreads();
    if (threadIdx.x == 0) {
        BULK_STORE(out + blockIdx.x * 64, row, sizeof row); //~ proxy
        BULK_COMMIT();
        BULK_WAIT_READ(0);
    }
}
