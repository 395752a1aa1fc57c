// The row is filled again while the bulk copy of the first contents may still read it.
//@arch: 90a
//@launch: kernel=fill grid=1 block=64 arg=out:out:i32[2x64]
#include "hopper.cuh"

extern "C" __global__ void fill(int *out)
{
    __shared__ __align__(128) int row[64];
    for (int i = 0; i < 2; i++) {
        row[threadIdx.x] = i + threadIdx.x; //~ async-copy
        FENCE_PROXY();
        __syncthreads();
        if (threadIdx.x == 0) {
            BULK_STORE(out + i * 64, row, sizeof row); //~ async-copy
            BULK_COMMIT();
        }
    }
    if (threadIdx.x == 0)
        BULK_WAIT(0);
}
